"""Hostile arguments never reach beyond an array: they succeed or are refused, with bounds checks in every kernel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).with_name("fuzz_kernels.py")


def run(seed, calls, **environment):
    return subprocess.run(
        [sys.executable, str(FUZZ), str(seed), str(calls)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


def test_hostile_arguments_are_refused_and_do_not_end_the_process():
    done = run(0, 600)
    assert done.returncode == 0, done.stderr
    calls, refused = map(int, done.stdout.split())
    assert calls == 600 and 200 < refused < 580


@pytest.mark.slow
def test_hostile_arguments_never_reach_beyond_an_array(tmp_path):
    done = run(1, 12_000, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("12000 ")
