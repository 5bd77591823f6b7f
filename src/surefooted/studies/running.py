"""Running a study: an engine computes the missing runs, and each run is saved as soon as it is finished."""

import os
import shlex
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from surefooted import own_code
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.studies import lock
from surefooted.studies.attempts import Failure, LostCluster, Outcome
from surefooted.studies.building import check
from surefooted.studies.display import Display, in_notebook
from surefooted.studies.engines import engine
from surefooted.studies.folder import Folder
from surefooted.studies.results import Results
from surefooted.studies.spec import StudySpec, Task, tasks
from surefooted.studies.truth import Truth
from surefooted.studies.warming import warm_up
from surefooted.tables.files import write


class Interrupted(SurefootedError):
    """Stopped by Ctrl-C or SIGTERM; finished runs are kept."""

    number: int = signal.SIGINT  # of the signal


def run_study(
    study: StudySpec,
    out: str | Path,
    *,
    jobs: int | None = None,
    engine_name: str = "local",
    address: str | None = None,
    shard: tuple[int, int] = (1, 1),
    resume: bool = True,
    allow_code: bool = False,
    quiet: bool | None = None,
) -> Results:
    """Run a study in a directory and return its results; runs that are finished already are kept.

    - `study`: what `read` or `parse` returned.
    - `out`: the directory.
    - `jobs`: the number of processes; by default one per core.
    - `engine_name`: "local", "dask" or "ray".
    - `address`: of an existing Dask or Ray cluster.
    - `shard`: (i, n) runs only every n-th run, starting with the i-th.
    - `resume`: False refuses a directory that holds the same study already.
    - `allow_code`: True runs the code that the study names as `package.module:name`; it can do whatever you can do.
    - `quiet`: False shows progress; by default only notebooks do.

    >>> import surefooted as sf
    >>> agents = {"ucrl2": {"kind": "UCRL2"}}
    >>> study = sf.studies.parse({"name": "mine", "problem": "riverswim", "steps": 500, "agents": agents})
    >>> results = sf.studies.run_study(study, "results/mine", jobs=1)
    >>> results.runs.num_rows
    20
    """
    if address is not None and engine_name == "local":
        raise InvalidInput("this study cannot be run", ["an address needs the engine dask or ray"])
    jobs = _cores() if jobs is None else jobs
    if jobs < 1:
        raise InvalidInput("this study cannot be run", [f"jobs {jobs} must be at least 1"])
    tasks(study, shard)  # a shard that does not exist is refused before anything is written
    play = engine(engine_name)
    problems = check(study, allow_code)
    if study.code:
        study = study.changed(sources={name: own_code.source(name) for name in study.code})
    folder = Folder.admit(out, study, resume)
    wanted, study = tasks(folder.study.changed(realisations=study.realisations), shard), folder.study
    again = ["surefooted", "run", str(folder.path / "study.toml"), "--out", str(folder.path)]
    again += ["--engine", engine_name] if engine_name != "local" else []
    again += ["--address", address] if address is not None else []
    again += ["--shard", f"{shard[0]}/{shard[1]}"] if shard[1] > 1 else []
    again += ["--allow-code"] if study.code else []
    with lock.writing(folder.path, shard):
        folder.begin()
        truths = folder.truths()
        for on, problem in problems.items():
            if on not in truths:
                truths[on] = Truth.of(study, problem)
                folder.save_truth(on, truths[on])
        folder.recall()
        done, damaged = folder.finished(wanted)
        todo = [task for task in wanted if task not in done]
        display = Display(study, todo, done, not in_notebook() if quiet is None else quiet)
        folder.remarks += [f"{fault}; this run is repeated" for fault in damaged]
        for line in folder.remarks:
            display.say(line)
        jobs = min(jobs, max(1, len(todo)))
        if jobs > 1 and engine_name == "local":
            warm_up(study, problems)
        outcomes = play(study, todo, jobs, address) if todo else iter(())
        failures = _collect(outcomes, folder, display, again)
        with lock.replacing_tables(folder.path):
            tables = folder.combine()
    if failures:
        raise SurefootedError(_report(study, folder, failures))
    return Results.of(folder, tables, truths)


def _collect(outcomes: Iterator[Outcome], folder: Folder, display: Display, again: list[str]) -> dict[Task, Failure]:
    """Save each run as soon as it is finished, and return those that failed; `again` is the command to go on."""
    failures: dict[Task, Failure] = {}
    with display.showing(), _listening() as stopped:
        try:
            for task, outcome in outcomes:
                if isinstance(outcome, Failure):
                    failures[task] = outcome
                    write(_errors(folder) / f"{task.name}.txt", (outcome.reason + "\n\n" + outcome.details).encode())
                else:
                    display.finished(folder.save(task, outcome).row)
                    (folder.path / "errors" / f"{task.name}.txt").unlink(missing_ok=True)
                if stopped:
                    raise KeyboardInterrupt
        except OSError as error:
            fault = f"{error.strerror or error}: {error.filename or folder.path}"
            raise SurefootedError(f"cannot write to {folder.path}: {fault}. Finished runs are kept.") from error
        except LostCluster as error:
            raise SurefootedError(f"{error} Finished runs are kept. Continue with: {shlex.join(again)}") from error
        except KeyboardInterrupt:
            with lock.replacing_tables(folder.path):
                folder.combine()
            kept = f"{display.count} of {display.total} runs are kept in {folder.path}"
            stop = Interrupted(f"Stopped. {kept}. Continue with: {shlex.join(again)}")
            stop.number = stopped[0] if stopped else signal.SIGINT
            raise stop from None
        finally:
            close = getattr(outcomes, "close", None)
            if close is not None:
                close()
    return failures


def _cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _listening() -> Iterator[list[int]]:
    """The signals to stop that have come: Ctrl-C, or SIGTERM, by which batch systems end a job.

    Both raise KeyboardInterrupt. They are noted, too: an exception that is raised within a finaliser is lost.
    """
    stopped: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return

    def stop(number: int, frame: Any) -> None:
        stopped.append(number)
        if callable(handler := before[signal.Signals(number)]):  # one that the caller has set
            handler(number, frame)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heard = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for number in heard:
        signal.signal(number, stop)
    try:
        yield stopped
    finally:
        for number in heard:
            signal.signal(number, before[number])


def _errors(folder: Folder) -> Path:
    path = folder.path / "errors"
    path.mkdir(exist_ok=True)
    return path


def _report(study: StudySpec, folder: Folder, failures: dict[Task, Failure]) -> str:
    """The message about runs that failed."""
    shown: Sequence[tuple[Task, Failure]] = list(failures.items())[:5]
    lines = [f"{len(failures)} runs failed; the others are kept in {folder.path}"]
    for task, failure in shown:
        label = study.setting(task.setting).label
        where = _errors(folder) / f"{task.name}.txt"
        lines.append(f"  - {label}, realisation {task.realisation}: {failure.reason} (more in {where})")
    return "\n".join(lines)
