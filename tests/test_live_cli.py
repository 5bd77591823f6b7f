"""The commands of the advisor, as a planner types them: in one process each, and in real ones."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
from click.testing import CliRunner

import surefooted as sf
from surefooted.cli import main

ROOT = Path(__file__).parent.parent
MACHINE = (ROOT / "examples" / "machine.toml").read_text()


def run(*arguments, code=0, stdin=None):
    result = CliRunner().invoke(main, ["live", *map(str, arguments)], input=stdin)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def said(*arguments, **options):
    return json.loads(run(*arguments, "--json", **options).stdout)


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.slow)])
def place(request, tmp_path, monkeypatch):
    """A directory, and in the environment the name of a store, in each database in turn."""
    monkeypatch.chdir(tmp_path)
    file = request.param == "SQLite"
    monkeypatch.setenv("SUREFOOTED_STORE", "machine.db" if file else request.getfixturevalue("postgres").address())
    (tmp_path / "machine.toml").write_text(MACHINE)
    return tmp_path


@pytest.fixture
def machine(place):
    """A deployment that may lose much from the start: it explores at once."""
    run("init", "machine.toml", "--baseline", "model", "--mode", "live", "--allowance", 100_000, "--site", "hall")
    return place


def explored(key, state="worn"):
    """Ask until it departs from the baseline; the decision."""
    for i in range(40):
        decision = said("ask", "hall", state, "--key", f"{key} {i}")
        if decision["status"] == "waiting" or decision["departs"]:
            return decision
        run("tell", decision["id"], "--reward", 60, "--next-state", state)
    raise AssertionError("never departed")


def test_init_says_what_the_baseline_earns_and_how_long_the_first_departure_takes(place):
    refused = run("init", "machine.toml", code=1)
    assert "does not say what the baseline earns" in refused.output and "--baseline model" in refused.output
    assert "has no log" in run("init", "machine.toml", "--baseline", "log", code=1).output
    told = said("init", "machine.toml", "--baseline", "model", "--site", "north", "--site", "south")
    exact = sf.solve.gain_and_bias(
        sf.problems.load("machine.toml").problem.mdp, sf.problems.load("machine.toml").baseline.policy
    )
    assert told["gain"] == pytest.approx(exact.gain) and told["mode"] == "shadow"
    assert [site["name"] for site in told["sites"]] == ["north", "south"]
    rule, span = told["feasibility"], float(exact.bias.max() - exact.bias.min())
    assert rule["pays_in"] == pytest.approx(0.05 * exact.gain)
    assert rule["deposit"] == pytest.approx(span + exact.gain + 90)  # the worst outcome of the best state
    assert span <= rule["reserve"] <= 1.05 * span + 1e-9
    assert rule["latest"] == -(-(rule["reserve"] + rule["deposit"]) // rule["pays_in"])
    assert (
        "there is a deployment 'machine' already" in run("init", "machine.toml", "--baseline", "model", code=1).output
    )


def test_ask_prints_the_action_alone_on_standard_output(machine):
    decision = explored("monday")
    shown = run("ask", "hall", "worn", "--key", decision["key"])  # the same key: the same decision for ever
    assert shown.stdout == "repair\n" and decision["label"] == "repair"
    assert decision["reason"] in shown.stderr and f"Decision {decision['id']}" in shown.stderr
    assert decision["state_name"] == "worn" and decision["unit"] == "€" and "€" in decision["reason"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", said("ask", "hall", "fine")["key"])


def test_errors_are_sentences_with_exit_code_1_and_mistyped_commands_with_2(machine, monkeypatch):
    assert "there are fine, worn, broken" in run("ask", "hall", "blue", code=1).output
    assert "there are: hall" in run("ask", "attic", "fine", code=1).output
    assert "did you mean 'ask'" in run("aks", code=2).output
    assert "is not a number" in run("tell", 1, "--reward", "much", code=1).output
    assert "has made no decision 99" in run("tell", 99, "--reward", 1, code=1).output
    assert "create one" in run("status", "--store", "other.db", code=1).output and not Path("other.db").exists()
    Path("text.db").write_text("no database, but a text that is long enough to be taken for one" * 40)
    assert "cannot be opened as a store" in run("status", "--store", "text.db", code=1).output
    run("init", "machine.toml", "--baseline", "model", "--name", "second")
    assert "name one with --deployment" in run("status", code=1).output
    assert said("status", "--deployment", "second")["deployment"] == "second"
    monkeypatch.delenv("SUREFOOTED_STORE")
    assert "--store" in run("status", code=2).output


def test_outcomes_are_told_in_parts_and_again_and_corrected(machine):
    n = said("ask", "hall", "fine", "--key", "1")["id"]
    assert said("tell", n, "--next-state", "worn")["new"]
    assert said("tell", "--site", "hall", "--key", "1", "--reward", "12.5")["new"]
    assert not said("tell", n, "--reward", 12.5, "--next-state", "worn")["new"]
    refused = run("tell", n, "--reward", 13, code=1).output
    assert "€ 12.50, and now as € 13.00" in refused
    assert (
        "outside [-90, 100] €"
        in run("tell", said("ask", "hall", "worn", "--key", "2")["id"], "--reward", 101, code=1).output
    )
    run("correct", n, "--reward", 13, "--next-state", "worn", "--note", "a typing error", "--who", "Ada")
    (event,) = [line for line in journal() if line["kind"] == "correct"]
    assert event["body"]["who"] == "Ada" and "outside the guarantee" in event["words"] and "€ 13.00" in event["words"]
    assert said("status")["outside_guarantee"]


def journal(*options):
    return [json.loads(line) for line in run("journal", "--json", *options).stdout.splitlines()]


def test_many_outcomes_come_from_a_csv_file_as_an_office_writes_it(machine):
    ids = []
    for i in range(4):
        ids.append(said("ask", "hall", "fine", "--key", f"day {i}")["id"])
    rows = [f"{ids[0]};;;12,50;fine", ";hall;day 1;1.000,5;fine", ";hall;day 2;99,25;fine", ";hall;day 9;1,0;fine"]
    rows += [";hall;day 3;12.50;fine", ";hall;day 3;1.000;fine"]  # these could mean two numbers each
    Path("week.csv").write_text(
        "\ufeffdecision;site;key;reward;next_state\n" + "\n".join(rows) + "\n", encoding="utf-8"
    )
    shown = run("tell", "--csv", "week.csv", code=1)
    assert "2 outcomes written, 0 known already, 4 refused." in shown.output
    assert "line 3: " in shown.output and "outside [-90, 100] €" in shown.output  # 1.000,5 is a thousand
    for line, number in ((6, "12.50"), (7, "1.000")):
        assert f"line {line}: this outcome cannot be told: reward '{number}'" in shown.output
    assert "line 5: no such decision: nothing was asked at site hall with key 'day 9'" in shown.output
    again = "decision,reward,next_state\n" + f"{ids[0]},12.5,fine\n{ids[3]},7,\n"
    assert said("tell", "--csv", "-", stdin=again) == {"told": 1, "known": 1, "refused": []}
    run("export", "all.csv")
    with open("all.csv", newline="", encoding="utf-8") as file:
        told = {int(row["decision"]): row["reward"] for row in csv.DictReader(file)}
    assert [told[n] for n in ids] == ["12.5", "", "99.25", "7.0"]
    Path("bad.csv").write_text("when,what\n1,2\n")
    assert "does not say what came of which decision" in run("tell", "--csv", "bad.csv", code=1).output
    assert "not both" in run("tell", 4, "--csv", "bad.csv", code=2).output


def test_people_pause_move_approve_reject_and_expire(machine):
    run("pause", "--note", "stock-taking")
    assert said("status")["paused"] == "stock-taking"
    assert not said("ask", "hall", "worn", "--key", "paused")["departs"]
    run("resume")
    run("relocate", "hall", "fine", "--why", "it was never worn")
    assert "left in state fine" in run("ask", "hall", "worn", "--key", "moved", code=1).output
    run("relocate", "hall", "worn", "--why", "used by night")
    run("mode", "approval", "hall", "--who", "Ada")
    first = explored("approval")
    assert first["status"] == "waiting" and first["label"] == "run" and first["proposed_name"] == "repair"
    assert f"Decision {first['id']} waits for a person until" in run("status").output
    assert "still waits" in run("ask", "hall", "worn", "--key", "later", code=1).output
    assert run("approve", first["id"], "--who", "Ada").stdout.strip() == "repair"
    run("expire", first["id"], "--note", "the slip was lost")
    run("relocate", "hall", "worn", "--why", "seen")
    second = explored("again")
    assert run("reject", second["id"], "--who", "Ben").stdout.strip() == "run"
    assert "does not wait" in run("reject", second["id"], code=1).output
    run("tell", second["id"], "--reward", 60, "--next-state", "worn", "--action", "run")
    run("trust", "--note", "nothing happened")
    run("site", "annexe")
    run("site", "annexe", "--close")
    assert "is closed" in run("ask", "annexe", "fine", code=1).output
    run("site", "annexe", "--reopen")
    words = run("journal").output
    for phrase in ("All sites: paused", "used by night", "approved (Ada)", "rejected, the baseline is played (Ben)",
                   "charged at its worst", "annexe: closed", "hall: mode approval (Ada)"):  # fmt: skip
        assert phrase in words, phrase
    assert len(run("journal", "--last", 3).output.splitlines()) == 3
    assert journal("--since", 10)[0]["event"] == 11
    assert "is whole" in run("verify").output


def test_a_changed_byte_ends_verify_with_exit_code_1(machine):
    explored("x")
    assert said("verify")["is_whole"]
    with sf.live.open(os.environ["SUREFOOTED_STORE"]) as store, store.transaction():
        store.write("UPDATE events SET body = replace(body, '\"hall\"', '\"hull\"') WHERE kind = 'site'")
    shown = run("verify", code=1).output
    assert "is not whole" in shown and "event 3 (site" in shown


def test_the_report_is_one_page_in_which_nothing_is_obeyed(machine):
    run("site", "<script>alert(1)</script>")
    decision = explored("<img src=x>")
    run("tell", decision["id"], "--reward", 21.5, "--next-state", "fine")
    n = said("ask", "hall", "fine", "--key", "overridden")["id"]
    run("tell", n, "--action", "repair", "--reward", -40, "--next-state", "fine")
    run("pause", "--note", "'\"><b>bold</b>")
    assert said("report")["file"] == "machine.html"
    page = Path("machine.html").read_text()
    body = page[page.index("<body>") :]
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert re.fullmatch(r"'sha256-[\w+/=]+'", rules.pop("style-src"))  # its own style, pictures in it, nothing else
    assert rules == {"default-src": "'none'", "img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}
    assert "<script" not in page and "<img src=x" not in page and "<b>bold" not in page
    assert "&lt;script&gt;" in body and "&lt;img src=x&gt;" in body
    assert body.count("<img ") == body.count("src='data:image/png;base64,") == 1
    assert "€ 21.50" in body and "someone else" in body and "Explores repair in state worn" in body
    assert not re.search(r"(?:href|src)\s*=\s*['\"]?(?:https?:|//)", page)


def test_exports_open_elsewhere(machine):
    explored("x")
    for name in ("all.parquet", "all.jsonl"):
        run("export", name)
    rows = pyarrow.parquet.read_table("all.parquet").to_pylist()
    assert rows == [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    assert rows[0]["unit"] == "€" and rows[0]["state"] == "worn"
    run("export", "all.txt", code=1)


@pytest.mark.slow
def test_commands_are_real_processes_that_can_be_piped(machine):
    surroundings = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    code = "import sys; from surefooted.cli import main; main()"

    def real(*words, **options):
        return subprocess.run(
            [sys.executable, "-c", code, "live", *words], capture_output=True, text=True, env=surroundings, **options
        )

    asked = real("ask", "hall", "fine", "--key", "monday")
    assert (asked.returncode, asked.stdout.count("\n")) == (0, 1) and asked.stdout.strip() in ("run", "repair")
    told = real("tell", "--csv", "-", input="site,key,reward,next_state\nhall,monday,100,fine\n")
    assert told.returncode == 0 and told.stdout == "1 outcomes written, 0 known already, 0 refused.\n"
    wrong = real("tell", "4", "--reward", "99")
    assert wrong.returncode == 1 and wrong.stdout == "" and wrong.stderr.startswith("Error: something else was told")
    cut = subprocess.run(
        f'"{sys.executable}" -c "{code}" live journal | head -1',
        shell=True,
        capture_output=True,
        text=True,
        env=surroundings,
    )
    assert cut.stdout.count("\n") == 1 and "Traceback" not in cut.stderr
