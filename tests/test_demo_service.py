"""`make demo-service`: the simulated fleet runs, can be looked at, and ends by itself or with Ctrl-C."""

import os
import pty
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="fastapi is missing")

import surefooted as sf
from surefooted.service import tokens

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[1] / "examples" / "fleet.py"


def command(folder, **options):
    told = {"shops": 6, "weeks": 8, "seconds": 2} | options
    return [sys.executable, str(SCRIPT), "--folder", str(folder), *(f"--{name}={told[name]}" for name in told)]


def test_without_a_terminal_it_ends_with_the_year(tmp_path):
    done = subprocess.run(command(tmp_path), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "The year is over: 48 decisions" in done.stdout and done.stdout.endswith("The service has ended.\n")
    token = re.search(r"may read: (sft_\S+)", done.stdout)[1]
    with sf.live.open(tmp_path / "fleet.db") as store:
        assert tokens.find(store, token).role == "read"
        assert store.verify().is_whole
        times = [event.at for event in store.events()]
        assert times[0][:10] == "2026-01-05" and times[-1] >= "2026-02-23"  # eight weeks, in two seconds


def test_with_a_terminal_it_goes_on_until_ctrl_c(tmp_path):
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        command(tmp_path, weeks=52, seconds=600), stdout=theirs, stderr=theirs, stdin=theirs, start_new_session=True
    )
    os.close(theirs)
    said = ""
    while "takes" not in said:
        said += os.read(ours, 4_096).decode()
    url = re.search(r"Open (http://127\.0\.0\.1:\d+)", said)[1]
    with urllib.request.urlopen(url + "/sign-in", timeout=60) as answer:
        assert b"Sign in" in answer.read()
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=120) == 0
    while "has ended" not in said:
        said += os.read(ours, 4_096).decode()
    assert "Traceback" not in said
    os.close(ours)
    with sf.live.open(tmp_path / "fleet.db") as store:
        assert store.verify().is_whole
