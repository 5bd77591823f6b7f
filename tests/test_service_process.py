"""The service as a process: begun by its command, ended by a signal, killed under load, and without its extra."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from click.testing import CliRunner

import surefooted as sf
from live_help import deployed
from surefooted.cli import main

pytest.importorskip("fastapi", reason="fastapi is missing")

from surefooted.service import tokens

QUICK = ["--rate", "0", "--log-level", "warning"]


def serve(path, port=0, *options):
    """The process of a service, and its port once it listens."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-m", "surefooted", "serve", str(path), "--port", str(port), *(options or QUICK)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    for line in process.stderr:
        if found := re.search(r"Listening on http://127\.0\.0\.1:(\d+)", line):
            return process, int(found[1])
    raise AssertionError(f"the service did not start: {process.wait()}")


def end(process, how=signal.SIGTERM):
    process.send_signal(how)
    rest = process.stderr.read()
    process.stderr.close()
    return process.wait(timeout=60), rest


def test_the_commands_for_tokens(place):
    deployed(place / "x.db")
    run = lambda *words: CliRunner().invoke(main, ["token", *words, "--store", str(place / "x.db")])  # noqa: E731
    made = run("create", "till-3", "--role", "use", "--site", "shop", "a", "--days", "30")
    assert made.exit_code == 0 and made.stdout.startswith("sft_") and "shown this once" in made.stderr
    assert "say where it may ask" in run("create", "x", "--role", "use").stderr
    assert "already" in run("create", "till-3", "--role", "read").stderr
    assert run("create", "ada", "--role", "administer", "--json").exit_code == 0
    listed = run("list").stdout
    assert "till-3" in listed and "shop: a" in listed and "everywhere" in listed and "sft_" not in listed
    assert run("revoke", "till-3").stdout == "The token till-3 is revoked.\n"
    assert [each["valid"] for each in json.loads(run("list", "--json").stdout)] == [False, True]
    assert "no such token" in run("revoke", "nobody").stderr
    assert "did you mean 'revoke'" in CliRunner().invoke(main, ["token", "revoek"]).stderr
    with sf.live.open(place / "x.db") as store:
        assert tokens.find(store, made.stdout.strip()) is None


def test_the_command_refuses_what_would_be_unsafe(place):
    deployed(place / "x.db")
    run = lambda *words: CliRunner().invoke(main, ["serve", *words])  # noqa: E731
    assert "there is no store" in run(str(place / "none.db")).stderr
    assert "name the store" in run().stderr
    refused = run(str(place / "x.db"), "--host", "0.0.0.0")
    assert refused.exit_code == 1 and "surefooted token create NAME" in refused.stderr


@pytest.mark.parametrize("name", ["fastapi", "uvicorn", "prometheus_client"])
def test_without_the_extra_the_command_names_it(place, name):
    deployed(place / "x.db")
    block = f"import sys; sys.modules[{name!r}] = None; from surefooted.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", block, "serve", str(place / "x.db")], capture_output=True, text=True)
    assert (
        done.returncode == 1 and f"needs {name}" in done.stderr and "pip install 'surefooted[service]'" in done.stderr
    )
    assert "Traceback" not in done.stderr


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom surefooted.cli import main\n"
        "try: main(['serve', '--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'numpy', 'fastapi', 'uvicorn', 'pydantic', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


@pytest.mark.slow
def test_the_service_is_begun_and_ended_by_its_command(tmp_path):
    store, _ = deployed(tmp_path / "x.db")
    secret, _ = tokens.create(store, "ada", "administer")
    process, port = serve(tmp_path / "x.db", 0, "--log-level", "info")
    with sf.live.connect(f"http://127.0.0.1:{port}", secret) as remote:
        shop = remote.deployment("shop")
        shop.tell(shop.ask("a", 0, key="1"), reward=0.5, next_state=0)
        following = shop.follow(0)
        next(following)
        code, said = end(process)
        following.close()
    assert code == 0
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert {(line["path"], line["status"], line["token"]) for line in lines if line["event"] == "request"} >= {
        ("/v1/deployments/shop/ask", 200, "ada"), ("/v1/deployments/shop/tell", 200, "ada"),
    }  # fmt: skip
    assert secret not in said and store.verify().is_whole


@pytest.mark.slow
def test_killed_under_load_nothing_acknowledged_is_lost_or_doubled(anywhere):
    """Four clients ask and tell while the service is killed with kill -9 eight times, and begun again."""
    path = anywhere / "x.db"
    store, advisor = deployed(path, sites=tuple("abcd"))
    secret, _ = tokens.create(store, "ada", "administer")
    process, port = serve(path)
    answers, paused, failed, stop = {}, [], [], threading.Event()

    def use(site):
        try:
            with sf.live.connect(f"http://127.0.0.1:{port}", secret, patience=120.0) as remote:
                shop, i = remote.deployment("shop"), 0
                while not stop.is_set():
                    decision = shop.ask(site, 0, key=str(i))
                    shop.tell(decision, reward=0.5, next_state=0)
                    answers[site, str(i)] = decision
                    if i % 5 == 0:
                        shop.pause(site, note=f"{site} {i}")
                        paused.append(f"{site} {i}")
                    i += 1
        except Exception as error:
            failed.append(error)

    working = [threading.Thread(target=use, args=(site,)) for site in "abcd"]
    for thread in working:
        thread.start()
    for i in range(8):
        before, until = len(answers), time.monotonic() + 60
        while len(answers) < before + 5 and time.monotonic() < until:
            time.sleep(0.005 * (i + 1))
        end(process, signal.SIGKILL)
        process, _ = serve(path, port)
    stop.set()
    for thread in working:
        thread.join(timeout=120)
    assert not failed and len(answers) >= 40
    assert end(process)[0] == 0
    told = {row["decision"]: row for row in advisor.table()}
    assert len(told) <= len(answers) + 4  # a question whose answer nobody has seen, at most one of each client
    for (site, key), decision in answers.items():
        assert (told[decision.id]["site"], told[decision.id]["key"]) == (site, key)
        assert told[decision.id]["reward"] == 0.5 and told[decision.id]["complete"]
        assert advisor.ask(site, 0, key=key) == decision
    notes = [event.body["note"] for event in advisor.journal() if event.kind == "pause"]
    assert len(notes) == len(set(notes)) and set(paused) <= set(notes)  # commands are done once, too
    assert store.verify().is_whole
