"""Guardrails in problem files: from the file to the account, and that a rehearsal judges them exactly."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import surefooted as sf
from surefooted.live.feasibility import feasibility
from surefooted.rehearsal import Adversity, baseline_of, deploy, rehearse
from surefooted.rehearsal.guarding import exact_advantages, in_model
from surefooted.rehearsal.oracle import examine
from surefooted.rehearsal.rehearse import NAME
from surefooted.rehearsal.script import World
from test_live_cli import MACHINE, ROOT, run, said

RAILS = """
[[guardrails]]
name = "breakdowns"
better = "lower"
tolerance = 0.05
allowance = 3
expected = '1 if next == "broken" else 0'

[[guardrails]] # how good the product is
name = "quality"
low = 0
high = 10
tolerance = 0.2
allowance = 30
expected = '9 if condition == "fine" else 6 if act == "run" else 7'
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUREFOOTED_STORE", "machine.db")
    (tmp_path / "machine.toml").write_text(MACHINE + RAILS)
    return tmp_path


def loaded(text):
    Path("x.toml").write_text(text)
    return sf.problems.load("x.toml")


def test_the_gain_and_bias_of_a_guardrail_follow_from_the_model(place):
    """By hand: the machine is fine for 10 days, worn for 5 and broken for 1; once in 16 days it breaks down."""
    file = sf.problems.load("machine.toml")
    breakdowns, quality = baseline_of(file, "model").guardrails
    assert breakdowns.gain == pytest.approx(1 / 16) and quality.gain == pytest.approx((10 * 9 + 5 * 6 + 7) / 16)
    # until the next breakdown: 15 days from fine, 5 from worn, 16 from broken; h(s) = 1 - g * (days until then), + c
    assert breakdowns.bias - breakdowns.bias[0] == pytest.approx([0, 10 / 16, -1 / 16])
    truth = file.true_problem()
    each = exact_advantages(file.guardrails[0], truth)
    pair = truth.space.pair
    assert each[[pair(0, 0), pair(1, 0), pair(2, 1)]] == pytest.approx(0)  # what the baseline plays
    # worn, repaired: no breakdown and fine tomorrow, 0 - g + h(fine) - h(worn) = -1/16 - 10/16 breakdowns: 11/16 better
    assert each[pair(1, 1)] == pytest.approx(11 / 16)
    assert each[pair(0, 1)] == pytest.approx(1 / 16)


@pytest.mark.slow
def test_a_guardrail_may_depend_on_the_noise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rail = "\n[[guardrails]]\nname = 'served'\ntolerance = 0.02\nexpected = '1 if stock + order >= demand else 0'\n"
    (tmp_path / "shop.csv").write_bytes((ROOT / "examples" / "shop.csv").read_bytes())
    file = loaded((ROOT / "examples" / "shop.toml").read_text() + rail)
    from surefooted.forecasting.models import Models

    truth = Models(file.history.counts, file.knowledge, file.baseline.policy, file.start, None).draw(
        np.random.default_rng(0)
    )
    law, space = truth.laws[0], file.space
    means = file.guardrails[0].table(truth).r
    for k, (s, a) in enumerate(zip(space.pair_state, space.pair_action, strict=True)):
        assert means[k] == pytest.approx(law[: s + a + 1].sum())
    assert 0.5 < baseline_of(file, "log").guardrails[0].gain < 1
    found = rehearse(file, steps=30, adversity=Adversity(crashes=0), allowance=300.0, seed=1)
    assert found.went_well and list(found.exact.guardrails) == ["served"]
    with pytest.raises(sf.InvalidInput, match="depends on the noise, and this world has no mechanics"):
        file.guardrails[0].table(sf.Problem("bare", truth.mdp, truth.baseline, truth.start))


def test_faults_are_named_with_their_line(place):
    wrong = RAILS.replace("tolerance = 0.2\nallowance = 30", "tolerance = -1").replace("nothing", "")
    wrong += "\n[[guardrails]]\nname = 'quality'\ntolerence = 1\nexpected = 'colour'\n"
    with pytest.raises(sf.InvalidInput) as error:
        loaded(MACHINE + wrong)
    first = len(MACHINE.splitlines())
    assert error.value.faults == (
        f"line {first + 18}, guardrails.2.tolerence: there is no such key; did you mean 'tolerance'?",
    )
    with pytest.raises(sf.InvalidInput) as error:
        loaded(MACHINE + wrong.replace("tolerence", "tolerance"))
    said = "\n".join(error.value.faults)
    assert f"line {first + 9}, guardrails.1: tolerance and allowance must be finite and not negative" in said
    assert f"line {first + 19}, guardrails.2.expected" in said and "colour" in said
    assert f"line {first + 17}, guardrails.2.name: 'quality' is the name of another one" in said
    for change, what in (
        ("expected = '1 if next == \"broken\" else 0'", "needs gain and bias of the baseline, or expected"),
        ("tolerance = 0.05\nallowance = 3", "needs a tolerance or an allowance"),
    ):
        with pytest.raises(sf.InvalidInput, match=what):
            loaded(MACHINE + RAILS.replace(change, ""))
    with pytest.raises(sf.InvalidInput, match="give gain and bias together"):
        loaded(MACHINE + RAILS.replace("allowance = 3\n", "gain = 0.06\n"))
    file = loaded(MACHINE + RAILS.replace("high = 10", "high = 8"))
    with pytest.raises(sf.InvalidInput, match="leaves its range"):
        baseline_of(file, "model")


def test_numbers_of_the_file_are_taken_if_nothing_is_expected(place):
    declared = (
        "[[guardrails]]\nname = 'service'\ntolerance = 0.01\ngain = 0.9\nbias = {fine = 0, worn = 0, broken = -1}\n"
    )
    file = loaded(MACHINE + declared)
    (rail,) = baseline_of(file, "model").guardrails
    assert (rail.gain, rail.bias.tolist(), rail.tolerance) == (0.9, [0.0, 0.0, -1.0], 0.01)
    with pytest.raises(sf.InvalidInput, match="does not say what it is expected to be"):
        rehearse(file, steps=2)
    with pytest.raises(sf.InvalidInput, match="does not give gain and bias") as error, sf.live.open("y.db") as store:
        deploy(store, sf.problems.load("machine.toml"), baseline_of(file, "model").baseline)
    assert "--baseline model" in error.value.hint
    for name in ("reward", "a=b"):
        rail = sf.live.Guardrail(name, 0.5, np.zeros(3), 0.1)
        with pytest.raises(sf.InvalidInput, match="cannot be called"), sf.live.open(":memory:") as store:
            deploy(store, file, baseline_of(file, "model").baseline, guardrails=(rail,))


def test_guardrails_go_through_every_command(place):
    told = said(
        "init", "machine.toml", "--baseline", "model", "--mode", "live", "--allowance", 100_000, "--site", "hall"
    )
    names = ["all sites, reward", "all sites, breakdowns", "all sites, quality"]
    assert [account["name"] for account in told["accounts"]] == names
    assert [account["delta"] for account in told["accounts"]] == pytest.approx([told["accounts"][0]["delta"]] * 3)
    with sf.live.open("machine.db") as store:
        definition = store.deployment("machine").definition
    assert feasibility(definition).latest == told["feasibility"]["latest"]
    n = said("ask", "hall", "fine", "--key", "1")["id"]
    run("tell", n, "--reward", 60, "--next-state", "fine", "--guardrail", "quality=9")
    assert said("status")["open"] == [n]
    assert "outside [0, 10]" in run("tell", n, "--guardrail", "quality=11", code=1).output
    assert "quality was told as 9, and now as 8" in run("tell", n, "--guardrail", "quality=8", code=1).output
    assert (
        "guardrails colour: there are breakdowns, quality" in run("tell", n, "--guardrail", "colour=8", code=1).output
    )
    rows = "decision;breakdowns;quality\n" + f"{n};0;9,0\n"
    assert said("tell", "--csv", "-", stdin=rows) == {"told": 1, "known": 0, "refused": []}
    assert said("status")["open"] == []
    run(
        "correct",
        n,
        "--reward",
        60,
        "--next-state",
        "fine",
        "--guardrail",
        "quality=8.5",
        "--guardrail",
        "breakdowns=1",
    )
    assert "quality 8.5" in run("journal", "--last", 1).output
    run("export", "all.csv")
    with open("all.csv", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["breakdowns"], row["quality"]) == ("1.0", "8.5") and next(iter(row)) == "decision"
    run("report")
    page = Path("machine.html").read_text()
    assert page.count("<img ") == 3 and "all sites, quality" in page
    assert "breakdowns" in run("status").output and "is whole" in run("verify").output
    from click.testing import CliRunner

    from surefooted.cli import main

    assert "breakdowns, quality" in CliRunner().invoke(main, ["problems", "machine.toml"]).output


@pytest.mark.slow
def test_a_rehearsal_judges_guardrails_exactly(place):
    options = ("--steps", 150, "--sites", 2, "--accounts", "both", "--crashes", 1, "--allowance", 5_000, "--seed", 2)
    found = json.loads(run("rehearse", "machine.toml", *options, "--store", "r.db", "--json").stdout)
    assert found["went_well"] and found["exact"]["departures"] > 5 and found["exact"]["too_high"] == 0
    file = sf.problems.load("machine.toml")
    truth = file.true_problem()
    with sf.live.open("r.db") as store:
        advisor = store.deployment(NAME)
        again = examine(advisor, truth, file.guardrails)
        rows = advisor.table()
        blind = examine(advisor, truth)
    assert again.guardrails == found["exact"]["guardrails"] and blind.guardrails == {}
    for rail in file.guardrails:
        each, least = exact_advantages(rail, truth), rail.allowance  # of the second site before its first decision
        for site in (None, "site 1", "site 2"):
            own = [row for row in rows if site in (None, row["site"])]
            worth = np.cumsum([
                each[truth.space.pair(file.state_labels.index(row["state"]), file.action_labels.index(row["asked"]))]
                if row["departs"] and not row["override"] else 0.0
                for row in own
            ])  # fmt: skip
            margin = rail.allowance + rail.tolerance * np.arange(1, len(own) + 1) + worth
            least = min(least, margin.min())
        assert again.guardrails[rail.name] == pytest.approx(least)


def test_an_account_that_has_proved_more_than_the_truth_is_counted(place):
    """In another world repairs break worn machines: the promise is broken, and the oracle says so."""
    file = sf.problems.load("machine.toml")
    worse = RAILS.replace('1 if next == "broken"', '1 if act == "repair" and condition == "worn"')
    bad = loaded(MACHINE + worse)
    truth = file.true_problem()
    with sf.live.open(":memory:") as store:
        rails = tuple(in_model(rail, truth) for rail in file.guardrails)
        options = {"allowance": 5_000.0, "guardrails": rails, "mode": "live"}
        advisor = deploy(store, file, baseline_of(file, "model").baseline, sites=("a",), **options)
        world, s = World(truth, np.random.default_rng(0), file.guardrails), 0
        for i in range(150):
            decision = advisor.ask("a", s, key=str(i))
            outcome = world.draw(truth.space.pair(s, decision.action))
            advisor.tell(decision, **outcome)
            s = outcome["next_state"]
        seen = examine(advisor, truth, file.guardrails)
        assert seen.departures > 5 and not seen.broken and not seen.too_high
        assert examine(advisor, truth, bad.guardrails).too_high > 0
        small = tuple(replace(rail, allowance=0.0, tolerance=0.001) for rail in bad.guardrails)
        assert examine(advisor, truth, small).broken > 0
