"""docs/security.md, line by line: what a file that somebody sent can do, and what it cannot."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import surefooted as sf
from surefooted import studies
from surefooted.cli import main
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.studies import building, engines, report

SMALL = """
name = "small"
steps = 60
realisations = 2
problem = "riverswim"
agents = { ucrl2 = { kind = "UCRL2" } }
record = { points = 6 }
"""
TOUCH = '[problem]\nname = "subprocess:call"\nargs = ["touch", "pwned"]\n'
HOSTILE = SMALL.replace('problem = "riverswim"\n', "") + TOUCH


def inline(study, todo, jobs, address=None):
    """An engine without processes."""
    for task in todo:
        yield task, engines.attempt(study.model_dump_json(), task.setting, task.realisation)


@pytest.fixture(autouse=True)
def _inline(monkeypatch):
    monkeypatch.setitem(engines.ENGINES, "local", inline)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.fixture
def out(here):
    """The directory of a finished study."""
    return studies.run_study(studies.parse(tomllib.loads(SMALL)), here / "out").path


def surefooted(*arguments):
    """The command, in a process of its own, started as the script `surefooted` starts it."""
    started = [sys.executable, "-c", "from surefooted.cli import main; main()", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    return subprocess.run(
        [started[0], "-P", *started[1:]], capture_output=True, text=True, check=False, timeout=300, env=environment
    )


# -- reading results --------------------------------------------------------------------------------------------------

READING = (["report", "out"], ["figures", "out", "--format", "svg"], ["compare", "out", "out", "--format", "svg"])


def make_hostile(out):
    """Rename the problem and the agents of a directory of results, so that all its files fit together."""
    spec = tomllib.loads((out / "study.toml").read_text())
    spec["problem"] = {"name": "subprocess:call", "args": ["touch", "pwned"]}
    spec["agents"]["ucrl2"] |= {"kind": "hostile:Agent", "knowledge": "hostile:f", "confidence": "hostile:g"}
    spec["agents"]["ucrl2"]["learner"] = {"kind": "hostile:h"}
    study = studies.parse(spec)
    old = studies.load(out).study.identity
    (out / "study.toml").write_text(study.to_toml())
    for file in ("runs.parquet", *(f"parts/{part.name}" for part in (out / "parts").iterdir())):
        table = pq.read_table(out / file)
        about = {key: value.replace(old.encode(), study.identity.encode()) for key, value in table.schema.metadata.items()}
        pq.write_table(table.replace_schema_metadata(about), out / file)
    stored = dict(np.load(out / "truth.npz"))
    np.savez(out / "truth.npz", **(stored | {"study": study.identity}))
    about = json.loads((out / "manifest.json").read_text()) | {"identity": study.identity}
    (out / "manifest.json").write_text(json.dumps(about))
    Path("hostile.py").write_text("open('pwned', 'w')\n")
    return study


def test_reading_results_runs_nothing_that_they_name(out):
    study = make_hostile(out)
    assert study.code == ["subprocess:call", "hostile:Agent", "hostile:f", "hostile:g", "hostile:h"]
    for command in READING:
        done = surefooted(*command)
        assert done.returncode == 0, done.stderr
    assert not Path("pwned").exists() and Path("out/report.html").exists()
