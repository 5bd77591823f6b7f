"""The examples of docs/service.md work, and the threats of docs/service-security.md have tests."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import surefooted as sf

pytest.importorskip("fastapi", reason="fastapi is missing")

from service_help import Service
from surefooted.rehearsal import baseline_of, deploy

ROOT = Path(__file__).parent.parent
SERVICE, THREATS = ROOT / "docs" / "service.md", ROOT / "docs" / "service-security.md"
FILES = {"L": "limits", "R": "roles", "A": "api", "P": "process", "W": "webhooks", "F": "fuzz", "G": "pages",
         "B": "browser"}  # fmt: skip


def holds(told, found):
    """Whether an answer says all that a document says."""
    if isinstance(told, dict):
        return all(name in found and holds(value, found[name]) for name, value in told.items())
    return told == found


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="curl or jq is missing")
def test_the_examples_of_the_service_work(place):
    shutil.copy(ROOT / "examples" / "machine.toml", place)
    problem = sf.problems.load(place / "machine.toml")
    store = sf.live.open(place / "shop.db")
    deploy(store, problem, baseline_of(problem, "model").baseline, name="shop", sites=("hall 3",), mode="live")
    blocks = re.findall(r"```(sh|json)\n(.*?)```", SERVICE.read_text(), re.DOTALL)
    with Service(store) as service:
        environment = os.environ | {"URL": service.url, "TOKEN": service.token(), "HOME": str(place)}
        first = blocks[0][1]
        output, compared = "", 0
        for kind, text in blocks:
            if kind == "json":
                last = output.strip().splitlines()[-1]
                assert holds(json.loads(text), json.loads(last)), (text, last)
                compared += 1
                continue
            script = text if text == first else first.rpartition("api $URL")[0] + text
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], env=environment, cwd=place,
                                  capture_output=True, text=True)  # fmt: skip
            assert done.returncode == 0, (text, done.stdout, done.stderr)
            output = done.stdout
        assert compared >= 6
        pauses = [event.body["note"] for event in store.deployment("shop").journal() if event.kind == "pause"]
        assert pauses.count("once") == 1
        assert store.verify().is_whole


def test_every_threat_has_a_test():
    rows = [line for line in THREATS.read_text().splitlines() if line.startswith("| ") and "`test_" in line]
    assert len(rows) > 20
    for row in rows:
        letter = ""
        for found, name in re.findall(r"(?:([LRAPWFGB]) )?`(test_\w+)`", row):
            letter = found or letter
            text = (ROOT / "tests" / f"test_service_{FILES[letter]}.py").read_text()
            assert f"def {name}(" in text, f"{letter} {name}"
