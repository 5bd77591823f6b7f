"""What somebody does with the package first; `tools/try_out.py` runs it in an empty environment, with few rights.

It uses what is installed and nothing of the repository: every public name, a run, `--version`, `doctor`, a small study
of the paper with its report, and the service.
"""

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.metadata import metadata
from pathlib import Path

import surefooted as sf

COMMAND = [sys.executable, "-m", "surefooted"]
SMALL = ["--set", "steps=400", "--set", "record.initial=100", "--realisations", "1", "--jobs", "1", "--quiet"]


def surefooted(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a command says."""
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env=os.environ | variables)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done


def names() -> int:
    """Import every public name; how many there are."""
    found = [getattr(sf, name) for name in sf.__all__]
    for name in sf._MODULES:
        module = getattr(sf, name)
        found += [getattr(module, public) for public in module.__all__]
    return len(found)


def page() -> None:
    """What a package index shows has no link that leads nowhere."""
    text = str(metadata("surefooted").get_payload())
    assert text.startswith("# Surefooted") and re.findall(r"\]\((?!https?://)[^)]*\)", text) == []


def rights() -> None:
    """There is no home, nothing that is installed can be written, and doctor says what follows from that."""
    assert not Path.home().exists() and not os.access(Path(sf.__file__).parent, os.W_OK)
    alone = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    told = subprocess.run([*COMMAND, "doctor", "--json"], capture_output=True, text=True, env=alone)
    needs = [finding["what"] for finding in json.loads(told.stdout) if finding["remedy"]]
    assert needs == ["kernels"], told.stdout  # each start compiles, unless NUMBA_CACHE_DIR says where to keep them
    surefooted("doctor")


def run() -> None:
    """A conservative agent keeps its promise."""
    problem = sf.problems.riverswim()
    agent = sf.CUCRL2(problem.space, baseline=sf.Baseline(problem.baseline), alpha=0.1)
    assert sf.evaluate(sf.simulate(problem, agent, steps=300), problem, alpha=0.1).violations == 0


def study() -> None:
    """The paper's inventory experiment, made short, with its table, figures and report."""
    surefooted("reproduce", "inventory", *SMALL, "--out", "inventory")
    assert Path("inventory/report.html").exists() and surefooted("verify", "inventory").stdout


def service() -> None:
    """The service starts on an empty store and answers."""
    with sf.live.open("shop.db"):
        pass
    surefooted("token", "create", "ada", "--role", "administer", "--store", "shop.db")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    running = subprocess.Popen([*COMMAND, "serve", "shop.db", "--port", port], stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            assert running.poll() is None, "the service did not start"
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                    assert answer.status == 200
                return
            except OSError:
                time.sleep(0.2)
        raise AssertionError("the service did not answer in a minute")
    finally:
        running.terminate()
        running.wait(timeout=60)


if __name__ == "__main__":
    print(f"  {surefooted('--version').stdout.strip()}; {names()} public names")
    page()
    rights()
    run()
    study()
    if importlib.util.find_spec("fastapi"):
        service()
