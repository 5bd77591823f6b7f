"""Where tasks run: processes of this machine, a Dask cluster, or Ray. A task whose worker dies is run again.

An engine is a generator. It takes tasks and yields (task, outcome) in the order in which they finish; an outcome is the
bytes of a part or a `Failure`. Closing the generator stops the running tasks.
"""

import multiprocessing as mp
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Literal

from surefooted.errors import MissingExtra, SurefootedError
from surefooted.studies.spec import StudySpec, Task

EngineName = Literal["local", "dask", "ray"]
ATTEMPTS = 4  # a task whose worker has died this many times has failed
WHY = "out of memory, killed, or started from a script without `if __name__ == '__main__':`?"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True)
class Failure:
    """Why a task has no part: its run raised an exception, or its workers died."""

    reason: str
    details: str = ""


Outcome = tuple[Task, bytes | Failure]
Engine = Callable[[StudySpec, Sequence[Task], int, str | None], Iterator[Outcome]]


def attempt(study_json: str, setting: int, realisation: int) -> bytes | Failure:
    """Run one task on a worker: its part, or why it failed."""
    from surefooted.studies.realisation import work

    try:
        with redirect_stdout(sys.stderr):  # an agent may print; piped results must not contain that
            return work(study_json, setting, realisation)
    except (Exception, SystemExit) as error:  # anything that a user's agent or problem raises is reported
        return Failure(f"{type(error).__name__}: {error}", traceback.format_exc())


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


def dask(study: StudySpec, todo: Sequence[Task], jobs: int, address: str | None = None) -> Iterator[Outcome]:
    """Run tasks on the Dask cluster at an address, or on a new one with `jobs` processes on this machine."""
    try:
        from distributed import Client, LocalCluster, as_completed
    except ImportError as error:
        raise MissingExtra('the engine "dask" needs distributed: pip install "surefooted[dask]"') from error
    study_json = study.model_dump_json()
    with pinned_threads():
        cluster = None
        if address is None:
            cluster = LocalCluster(n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=None)
        try:
            client = Client(address if cluster is None else cluster)
        except (OSError, ValueError) as error:
            raise SurefootedError(f"cannot reach a Dask cluster at {address}: {error}") from error
    try:
        futures = {
            client.submit(attempt, study_json, task.setting, task.realisation, pure=False, retries=ATTEMPTS - 1): task
            for task in todo
        }
        for future in as_completed(list(futures)):
            task = futures.pop(future)
            lost = future.exception() if future.status != "finished" else None
            yield task, future.result() if lost is None else Failure(f"{type(lost).__name__}: {lost}")
            future.release()
    finally:
        client.close()
        if cluster is not None:
            cluster.close()


def ray(study: StudySpec, todo: Sequence[Task], jobs: int, address: str | None = None) -> Iterator[Outcome]:
    """Run tasks on the Ray cluster at an address, or on a new one with `jobs` processes on this machine."""
    try:
        import ray as library
    except ImportError as error:
        raise MissingExtra('the engine "ray" needs ray: pip install "surefooted[ray]"') from error
    study_json = study.model_dump_json()
    mine = not library.is_initialized()
    if mine:
        environment = {"env_vars": dict.fromkeys(THREADS, "1")}
        options: dict[str, Any] = {"address": address} if address else {"num_cpus": jobs, "include_dashboard": False}
        try:
            library.init(**options, runtime_env=environment, log_to_driver=False, logging_level="error")
        except (ConnectionError, OSError, ValueError) as error:
            raise SurefootedError(f"cannot reach a Ray cluster at {address}: {error}") from error
    remote = library.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(attempt)
    try:
        pending = {remote.remote(study_json, task.setting, task.realisation): task for task in todo}
        while pending:
            done, _ = library.wait(list(pending), num_returns=1)
            for reference in done:
                task = pending.pop(reference)
                try:
                    outcome = library.get(reference)
                except Exception as error:  # the worker died too often
                    outcome = Failure(f"{type(error).__name__}: {error}")
                yield task, outcome
    finally:
        if mine:
            library.shutdown()


ENGINES: dict[str, Engine] = {"local": local, "dask": dask, "ray": ray}


@contextmanager
def pinned_threads() -> Iterator[None]:
    """Processes started in this context use one thread each, so that n workers use n cores."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


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
    while True:
        try:
            setting, realisation = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(attempt(study_json, setting, realisation))


def engine(name: str) -> Engine:
    """The engine of that name."""
    if name not in ENGINES:
        raise SurefootedError(f"there is no engine {name!r}; there are {', '.join(ENGINES)}")
    return ENGINES[name]
