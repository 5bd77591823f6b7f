"""Dask and Ray: what is lost is said in one sentence, and nothing outlives the driver."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from surefooted import studies
from test_studies_files import LONG, alive, children, linux, wait_for

HEARS_CTRL_C = """
import os
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background, and its children, ignore it
from surefooted.studies import clusters
clusters.PATIENCE = 2
from surefooted.cli import main
main()
"""


def started(folder, *options):
    (folder / "long.toml").write_text(LONG)
    command = [sys.executable, "-c", HEARS_CTRL_C, "run", "long.toml", "--out", "out", "--jobs", "2", *options]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finished(folder):
    return len(list((folder / "out" / "parts").glob("*.parquet")))


@contextlib.contextmanager
def dask(*options, log):
    """A scheduler or a worker, in a process of its own."""
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen([sys.executable, "-m", *options, "--no-dashboard"], stderr=file, stdout=file)
        try:
            yield process
        finally:
            for pid in (process.pid, *children(process.pid)):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def scheduler(tmp_path):
    pytest.importorskip("distributed")
    log = tmp_path / "scheduler.log"
    with dask("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", log=log) as process:
        assert wait_for(lambda: "Scheduler at:" in log.read_text(encoding="utf-8"))
        process.address = log.read_text(encoding="utf-8").partition("Scheduler at:")[2].split()[0]
        yield process


@linux
@pytest.mark.slow
def test_dask_without_workers_says_so(scheduler, tmp_path):
    with started(tmp_path, "--engine", "dask", "--address", scheduler.address) as process:
        try:
            _, said = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 1 and "has had no workers for 2 seconds" in said and "Traceback" not in said


@linux
@pytest.mark.slow
def test_a_lost_scheduler_is_a_sentence(scheduler, tmp_path):
    with dask("distributed.cli.dask_worker", scheduler.address, "--nthreads", "1", log=tmp_path / "worker.log"):
        with started(tmp_path, "--engine", "dask", "--address", scheduler.address) as process:
            try:
                assert wait_for(lambda: finished(tmp_path) >= 2)
                scheduler.kill()
                _, said = process.communicate(timeout=120)
            finally:
                process.kill()
    assert process.returncode == 1 and "Traceback" not in said
    assert f"The Dask scheduler at {scheduler.address} was lost. Finished runs are kept. Continue with:" in said
    assert studies.load(tmp_path / "out").runs.num_rows == finished(tmp_path)


@linux
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_no_process_of_a_cluster_outlives_the_driver(engine, number, tmp_path):
    pytest.importorskip("distributed" if engine == "dask" else "ray")
    with started(tmp_path, "--engine", engine) as process:
        try:
            assert wait_for(lambda: finished(tmp_path) >= 2)
            time.sleep(1)
            others = children(process.pid)
            process.send_signal(number)
            _, said = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number), said
    assert len(others) >= 2 and wait_for(lambda: not any(alive(pid) for pid in others), 30)
    assert number == signal.SIGKILL or "Stopped. " in said


@pytest.mark.slow
@linux
def test_the_reaper_ends_what_ray_left_and_nothing_else(tmp_path):
    from surefooted.studies import reaper

    script = tmp_path / "ray" / "agent.py"
    script.parent.mkdir()
    script.write_text(
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print('begun', flush=True)\ntime.sleep(600)\n"
    )
    driver = (
        "import subprocess, sys, os, time\n"
        f"agent = subprocess.Popen([sys.executable, {str(script)!r}], stdout=subprocess.PIPE)\n"
        "agent.stdout.readline()\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"command = [sys.executable, '-I', {reaper.__file__!r}, str(os.getpid()), {str(script.parent)!r}]\n"
        "reaper = subprocess.Popen(command, stdin=subprocess.PIPE)\n"
        "time.sleep(2)\nprint(agent.pid, other.pid, flush=True)\ntime.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", driver], stdout=subprocess.PIPE, text=True) as process:
        agent, other = map(int, process.stdout.readline().split())
        below = children(agent)
        process.kill()
    assert len(below) == 1 and wait_for(lambda: not alive(agent) and not alive(below[0]), 20)
    assert alive(other)
    os.kill(other, signal.SIGKILL)
