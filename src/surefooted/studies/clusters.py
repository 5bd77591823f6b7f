"""Engines on clusters: Dask and Ray, each at an address or started on this machine for the study."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from surefooted.errors import MissingExtra, SurefootedError
from surefooted.studies import reaper as reaping
from surefooted.studies.attempts import ATTEMPTS, THREADS, Failure, LostCluster, Outcome, attempt, pinned_threads
from surefooted.studies.spec import StudySpec, Task

PATIENCE = 30.0  # seconds that a cluster may be without workers
LOOK = 1.0  # seconds between two looks at a cluster while no run finishes


def dask(study: StudySpec, todo: Sequence[Task], jobs: int, address: str | None = None) -> Iterator[Outcome]:
    """Run tasks on the Dask cluster at an address, or on a new one with `jobs` processes on this machine."""
    try:
        from distributed import Client, LocalCluster
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
        yield from _dask_outcomes(client, futures, address or "this machine")
    finally:
        with _silent():  # about a scheduler that is gone
            client.close()
            if cluster is not None:
                cluster.close()


def _dask_outcomes(client: Any, futures: dict[Any, Task], where: str) -> Iterator[Outcome]:
    """The outcomes of futures as they finish; an error if the scheduler is lost, or if nobody works for a while."""
    from concurrent.futures import CancelledError

    from distributed import wait

    alone_since: float | None = None
    while futures:
        with _silent():
            try:
                wait(list(futures), timeout=LOOK, return_when="FIRST_COMPLETED")
            except TimeoutError:
                pass
            except Exception as error:  # futures that were cancelled; what is raised depends on the version
                if not any(future.cancelled() for future in futures):
                    raise
                raise LostCluster(f"The Dask scheduler at {where} was lost.") from error
            finished = [future for future in futures if future.status in ("finished", "error")]
            if not finished and any(future.status in ("cancelled", "lost") for future in futures):
                raise LostCluster(f"The Dask scheduler at {where} was lost.")
            try:
                workers = finished or client.scheduler_info()["workers"]
            except Exception as error:  # whatever a connection that breaks just now raises
                raise LostCluster(f"The Dask scheduler at {where} was lost.") from error
        alone_since = None if workers else alone_since or time.monotonic()
        if alone_since is not None and time.monotonic() - alone_since > PATIENCE:
            raise LostCluster(f"The Dask cluster at {where} has had no workers for {PATIENCE:.0f} seconds.")
        for future in finished:
            try:
                with _silent():
                    lost = future.exception() if future.status != "finished" else None
                    outcome = future.result() if lost is None else Failure(f"{type(lost).__name__}: {lost}")
            except (OSError, CancelledError) as error:  # `attempt` returns its exceptions: this is the connection
                raise LostCluster(f"The Dask scheduler at {where} was lost.") from error
            yield futures.pop(future), outcome
            future.release()


def ray(study: StudySpec, todo: Sequence[Task], jobs: int, address: str | None = None) -> Iterator[Outcome]:
    """Run tasks on the Ray cluster at an address, or on a new one with `jobs` processes on this machine."""
    try:
        import ray as library
    except ImportError as error:
        raise MissingExtra('the engine "ray" needs ray: pip install "surefooted[ray]"') from error
    study_json = study.model_dump_json()
    mine = not library.is_initialized()
    reaper = None
    if mine:
        environment = {"env_vars": dict.fromkeys(THREADS, "1")}
        options: dict[str, Any] = {"address": address} if address else {"num_cpus": jobs, "include_dashboard": False}
        try:
            with _same_signals():
                library.init(**options, runtime_env=environment, log_to_driver=False, logging_level="error")
            if not address and os.path.isdir("/proc/self"):
                command = [sys.executable, "-I", reaping.__file__, str(os.getpid()), os.path.dirname(library.__file__)]
                reaper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
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
        if reaper is not None:
            reaper.communicate()  # closes its input, and waits until no process of Ray is left


@contextmanager
def _same_signals() -> Iterator[None]:
    """What happens on SIGTERM is the same after this context: Ray sets a handler of its own, which ends the process."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if is_main and before is not None:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _silent() -> Iterator[None]:
    """No line of Dask's log in this context, whose tracebacks fill a screen: what happened is said in one sentence."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client", "distributed.core")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
