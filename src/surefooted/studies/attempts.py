"""One attempt at a task on a worker, and what can come of it. Every engine does this."""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass

from surefooted.errors import SurefootedError
from surefooted.studies.spec import Task

ATTEMPTS = 4  # a task whose worker has died this many times has failed
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class LostCluster(SurefootedError):
    """A cluster that went away, or that has nobody who could work; the message is one sentence."""


@dataclass(frozen=True)
class Failure:
    """Why a task has no part: its run raised an exception, or its workers died."""

    reason: str
    details: str = ""


Outcome = tuple[Task, bytes | Failure]


def attempt(study_json: str, setting: int, realisation: int) -> bytes | Failure:
    """Run one task on a worker: its part, or why it failed."""
    from surefooted.studies.realisation import work

    try:
        with redirect_stdout(sys.stderr):  # an agent may print; piped results must not contain that
            return work(study_json, setting, realisation)
    except (Exception, SystemExit) as error:  # anything that a user's agent or problem raises is reported
        return Failure(f"{type(error).__name__}: {error}", traceback.format_exc())


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
