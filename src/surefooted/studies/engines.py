"""Where tasks run: processes of this machine, a Dask cluster, or Ray. A task whose worker dies is run again.

An engine is a generator. It takes tasks and yields (task, outcome) in the order in which they finish; an outcome is the
bytes of a part or a `Failure`. Closing the generator stops the running tasks.
"""

import multiprocessing as mp
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait

from surefooted.errors import SurefootedError
from surefooted.studies.attempts import ATTEMPTS, Failure, Outcome, attempt, pinned_threads
from surefooted.studies.clusters import dask, ray
from surefooted.studies.spec import StudySpec, Task

WHY = "out of memory, killed, or started from a script without `if __name__ == '__main__':`?"

Engine = Callable[[StudySpec, Sequence[Task], int, str | None], Iterator[Outcome]]


def local(study: StudySpec, todo: Sequence[Task], jobs: int, address: str | None = None) -> Iterator[Outcome]:
    """Run tasks on `jobs` processes of this machine; a process that dies loses its current task only."""
    queue, attempts = deque(todo), dict.fromkeys(todo, 0)
    study_json = study.model_dump_json()
    workers: list[_Worker] = []
    try:
        while queue or any(worker.task for worker in workers):
            while len(workers) < min(jobs, len(queue) + len(workers)) and queue:
                workers.append(_Worker(study_json))
            for worker in workers:
                if worker.task is None and queue:
                    worker.give(queue.popleft())
            busy = {handle: w for w in workers if w.task for handle in (w.pipe, w.process.sentinel)}
            ready = wait(list(busy))
            for worker in {id(busy[handle]): busy[handle] for handle in ready}.values():  # type: ignore[index]
                task, outcome = worker.take()
                if outcome is not None:
                    yield task, outcome
                    continue
                workers.remove(worker)
                worker.stop()
                attempts[task] += 1
                if attempts[task] < ATTEMPTS:
                    queue.appendleft(task)
                else:
                    yield task, Failure(f"its worker died {ATTEMPTS} times: {WHY}")
    finally:
        for worker in workers:
            worker.stop()


ENGINES: dict[str, Engine] = {"local": local, "dask": dask, "ray": ray}


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Processes started in this context ignore Ctrl-C; their parent handles it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Worker:
    """A process that runs one task after another, and the pipe to it."""

    def __init__(self, study_json: str) -> None:
        context = mp.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, study_json), daemon=True)
        with pinned_threads(), _ignoring_interrupts():
            self.process.start()
        other.close()
        self.task: Task | None = None

    def give(self, task: Task) -> None:
        """Start a task; if the process is dead, `take` reports it."""
        self.task = task
        try:
            self.pipe.send((task.setting, task.realisation))
        except (BrokenPipeError, OSError):
            pass

    def take(self) -> tuple[Task, bytes | Failure | None]:
        """The task that has ended, and its outcome; None if the process died."""
        assert self.task is not None
        task, self.task = self.task, None
        try:
            return task, self.pipe.recv() if self.pipe.poll() else None
        except (EOFError, OSError):
            return task, None

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.join(2)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def _serve(pipe: Connection, study_json: str) -> None:
    """Run tasks as they arrive."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            setting, realisation = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(attempt(study_json, setting, realisation))


def _end_with_parent() -> None:
    """End this process as soon as its parent has ended, however it ended: nobody would get the run at hand."""
    parent = mp.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def engine(name: str) -> Engine:
    """The engine of that name."""
    if name not in ENGINES:
        raise SurefootedError(f"there is no engine {name!r}; there are {', '.join(ENGINES)}")
    return ENGINES[name]
