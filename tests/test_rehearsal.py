"""Rehearsals: a year with everything that goes wrong, and a verdict that notices what is wrong."""

import json
from dataclasses import replace

import numpy as np
import pytest

import surefooted as sf
from surefooted.evaluation.decisions import advantages
from surefooted.live.curve import curves
from surefooted.live.feasibility import feasibility
from surefooted.rehearsal import Adversity, baseline_of, deploy, rehearse
from surefooted.rehearsal.oracle import examine
from surefooted.rehearsal.rehearse import NAME, _missing
from surefooted.rehearsal.script import World
from test_live_cli import MACHINE, ROOT

CALM = Adversity(late=0, lost=0, repeated=0, overrides=0, moved=0, pauses=0, crashes=0)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "machine.toml").write_text(MACHINE)
    return sf.problems.load("machine.toml")


def told(path):
    """What a rehearsal's journal says, without times."""
    with sf.live.open(path) as store:
        return [(event.kind, json.dumps(event.body, sort_keys=True)) for event in store.deployment(NAME).journal()]


@pytest.mark.slow
def test_a_year_with_every_mishap_goes_well_and_crashes_change_nothing(machine, tmp_path):
    rough = Adversity(lost=0.05, overrides=0.1, moved=0.05, pauses=0.05, crashes=2)
    options = {"steps": 120, "seed": 3, "allowance": 2_000.0}
    found = rehearse(machine, adversity=rough, store=tmp_path / "crashed.db", **options)
    assert found.went_well, str(found)
    assert found.killed == 2 and found.exact.departures >= 3
    seen = found.seen
    assert min(seen.late, seen.lost, seen.repeated, seen.overrides, seen.moved, seen.pauses) > 0
    rehearse(machine, adversity=replace(rough, crashes=0), store=tmp_path / "calm.db", **options)
    assert told(tmp_path / "crashed.db") == told(tmp_path / "calm.db")
    assert "The promise was kept at every decision" in str(found) and found.as_dict()["went_well"]
    with pytest.raises(sf.InvalidInput, match="exists already"):
        rehearse(machine, steps=1, store=tmp_path / "calm.db")


@pytest.mark.slow
def test_in_approval_people_say_yes_no_and_nothing(machine):
    mishaps = Adversity(unanswered=0.3, rejected=0.3, crashes=1)
    found = rehearse(machine, steps=60, mode="approval", adversity=mishaps, allowance=5_000.0, seed=1, sites=2)
    assert found.went_well, str(found)
    assert min(found.seen.approved, found.seen.rejected, found.seen.unanswered) > 0
    assert found.exact.departures <= found.seen.approved


def by_hand(advisor, truth, allowance):
    """What departures are worth after each decision, and the margins, from the export and a table of advantages."""
    exact = sf.solve.gain_and_bias(truth.mdp, truth.baseline)
    gain, space = float(exact.gains[truth.start]), truth.space
    each = advantages(truth.mdp, gain, exact.bias)
    worth = []
    for row in advisor.table():
        counts = (row["departs"] or row["status"] == "approved") and not row["override"]
        pair = space.pair(space.state_names.index(row["state"]), space.action_names.index(row["asked"]))
        worth.append(each[pair] if counts else 0.0)
    return np.cumsum(worth), allowance + 0.05 * gain * np.arange(1, len(worth) + 1) + np.cumsum(worth)


def standing_still(machine):
    """Another truth, in which nothing ever changes and repairing costs 190 each time."""
    space, rows = machine.space, [(s, a, s, 1.0) for s in range(3) for a in range(2)]
    state, action, after, mass = (np.array(column) for column in zip(*rows, strict=True))
    mdp = sf.TabularMDP.from_transitions(
        state, action, after, mass, np.where(action == 0, 100.0, -90.0), n_states=3, rewards=(space.low, space.high),
        unit=space.unit, states=space.state_names, actions=space.action_names,
    )  # fmt: skip
    return replace(machine.true_problem(), mdp=mdp, mechanics=None, laws=())


def test_the_oracle_counts_by_hand_and_what_is_drawn_is_never_above_it(machine, tmp_path):
    rough = replace(CALM, late=0.3, overrides=0.3)
    unknown = replace(machine, knowledge=None)  # so that departures have deposits
    rehearse(unknown, source="model", steps=150, adversity=rough, allowance=3_000.0, store=tmp_path / "x.db", seed=5)
    truth = machine.true_problem()
    with sf.live.open(tmp_path / "x.db") as store:
        advisor = store.deployment(NAME)
        found, (curve,), rows = examine(advisor, truth), curves(advisor), advisor.table()
        worth, margin = by_hand(advisor, truth, 3_000.0)
        opening = advisor.machine().fleet.books.shared[0].opening(0.0)  # the allowance minus the reserve of the site
    departed = [row for row in rows if row["departs"]]
    assert found.departures == sum(not row["override"] for row in departed) >= 3
    assert any(row["override"] for row in departed)
    assert found.worth == pytest.approx(worth[-1]) and found.margin == pytest.approx(margin.min())
    assert (found.broken, found.too_high) == (0, 0)
    asked = {row["time"]: i for i, row in enumerate(rows)}
    assert len(curve.departures) == len(departed)
    at, level = curve.departures[0]
    first = asked[departed[0]["time"]]
    assert at.isoformat(timespec="microseconds") == departed[0]["time"]
    assert departed[0]["deposit"] > 1
    assert level == pytest.approx(opening + 0.05 * found.gain * (first + 1) - departed[0]["deposit"])
    for time, drawn, usable in zip(curve.time, curve.margin, curve.balance, strict=True):
        i = asked.get(time.isoformat(timespec="microseconds"))
        assert usable <= drawn + 1e-9 and drawn >= 0
        assert i is None or drawn <= margin[i]  # what is proved is never above the truth


def test_the_verdict_notices_a_broken_promise(machine, tmp_path):
    """The oracle is told of another truth, and of no allowance: it must find every decision with a negative margin."""
    rehearse(machine, steps=100, adversity=CALM, allowance=3_000.0, store=tmp_path / "x.db", seed=5)
    truth = standing_still(machine)
    with sf.live.open(tmp_path / "x.db") as store:
        advisor = store.deployment(NAME)
        advisor.definition = replace(advisor.definition, allowance=0.0)
        found, (worth, margin) = examine(advisor, truth), by_hand(advisor, truth, 0.0)
    assert found.worth == pytest.approx(-190.0 * found.departures) == pytest.approx(worth[-1])
    assert found.margin == pytest.approx(margin.min()) and found.broken == np.sum(margin < 0) > 0
    assert found.too_high > 0


@pytest.mark.slow
def test_the_verdict_notices_what_was_acknowledged_and_is_missing(machine, tmp_path):
    found = rehearse(machine, steps=5, adversity=CALM, store=tmp_path / "x.db")
    with sf.live.open(tmp_path / "x.db") as store:
        advisor, seen = store.deployment(NAME), found.seen
        assert _missing(advisor, seen) == [] == list(found.faults)
        (where, (n, _)), *_ = seen.asked.items()
        other = replace(seen, asked={**seen.asked, where: (n, "dance"), ("the site", "never"): (99, "run")})
        assert [fault.split(" ")[1] for fault in _missing(advisor, other)] == [str(n), "99"]
        assert len(_missing(advisor, replace(seen, told={n: seen.told[n] + 0.01, 99: 0.0}))) == 2


def test_the_world_draws_by_its_laws():
    """Means of 4 000 draws are within 5 standard errors: a false alarm has probability below 1e-5."""
    shop = sf.problems.load(ROOT / "examples" / "shop.toml")
    from surefooted.forecasting.models import Models

    truth = Models(shop.history.counts, shop.knowledge, shop.baseline.policy, shop.start, None).draw(
        np.random.default_rng(1)
    )
    world, pair = World(truth, np.random.default_rng(2)), shop.space.pair(3, 5)
    drawn = [world.draw(pair) for _ in range(4_000)]
    rewards = np.array([told["reward"] for told in drawn])
    assert len(set(rewards.tolist())) > 3  # paid by the demand, not on average
    assert abs(rewards.mean() - truth.mdp.r[pair]) <= 5 * rewards.std() / np.sqrt(len(rewards))
    first, last = truth.mdp.next_ptr[pair], truth.mdp.next_ptr[pair + 1]
    assert {told["next_state"] for told in drawn} <= set(truth.mdp.next_state[first:last].tolist())


@pytest.mark.slow
def test_drift_raises_no_alarm_if_rewards_begin_below_zero(machine):
    """The gain is declared in euros, and rewards are counted from -90: drift must compare like with like."""
    found = rehearse(machine, steps=300, adversity=CALM, alpha=0.01)
    assert found.alarms == () and found.contradictions == () and found.told == pytest.approx(found.exact.gain)


@pytest.mark.slow
def test_the_baseline_that_a_log_suggests_is_near_the_truth(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shop = sf.problems.load(ROOT / "examples" / "shop.toml")
    estimate = baseline_of(shop, "log")
    assert estimate.low < estimate.baseline.gain < estimate.high and "101 logged steps" in str(estimate)
    logged = shop.history.counts
    earned = float(np.sum(logged.reward_sum)) / logged.total + shop.space.low
    assert abs(earned - estimate.baseline.gain) < 3  # the mean of 101 weeks, whose standard error is about 2
    with pytest.raises(sf.InvalidInput, match="gain and bias are missing"):
        baseline_of(shop)
    with sf.live.open("shop.db") as store:
        advisor = deploy(store, shop, estimate.baseline, sites=("a",), mode="shadow")
        assert advisor.machine().fleet.learner.counts.total == 101
        selected = replace(shop, accidents=False)
        with pytest.raises(sf.InvalidInput, match="left out because of their outcome"):
            deploy(store, selected, estimate.baseline, name="selected")
        with pytest.raises(sf.InvalidInput, match="cannot be stated"):
            deploy(store, replace(shop, promise=replace(shop.promise, condition="replay")), estimate.baseline, name="r")
    with pytest.raises(sf.InvalidInput, match="horizon"):
        baseline_of(replace(shop, horizon=5), "log")


@pytest.mark.slow
def test_the_feasibility_rule_says_when_the_first_departure_is_paid_for(machine, tmp_path):
    """Nothing departs before `soonest`; with nothing known, every first departure is paid for from `latest` on."""
    unknown = replace(machine, knowledge=None)
    rehearse(unknown, source="model", mode="shadow", steps=120, adversity=CALM, alpha=0.4, store=tmp_path / "x.db")
    with sf.live.open(tmp_path / "x.db") as store:
        advisor = store.deployment(NAME)
        rule, asked = feasibility(advisor.definition), [e.body for e in advisor.journal() if e.kind == "ask"]
    assert 1 < rule.soonest < rule.latest < 120
    priced = [(i, body["would_depart"]) for i, body in enumerate(asked, start=1) if body["deposit"] is not None]
    assert not any(pays for i, pays in priced if i < rule.soonest)
    assert all(pays for i, pays in priced if i >= rule.latest) and any(i >= rule.latest for i, _ in priced)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"steps": 0}, "steps 0"),
        ({"sites": 0}, "sites 0"),
        ({"mode": "dead"}, "mode 'dead'"),
        ({"source": "oracle"}, "source 'oracle'"),
        ({"world": "flat"}, "world 'flat'"),
    ],
)
def test_what_cannot_be_rehearsed_is_said(machine, options, fault):
    with pytest.raises(sf.InvalidInput, match=fault):
        rehearse(machine, **options)


def test_adversity_is_checked():
    with pytest.raises(sf.InvalidInput, match="late and lost add up"):
        Adversity(late=0.9, lost=0.2)
    with pytest.raises(sf.InvalidInput) as caught:
        Adversity(late=-1, crashes=-1, most_late=0)
    assert len(caught.value.faults) == 3


@pytest.mark.slow
def test_observed_noise_is_told_and_a_saved_problem_can_be_the_world(machine, tmp_path):
    text = (ROOT / "examples" / "shop.toml").read_text().partition("[logs]")[0]
    (tmp_path / "seen.toml").write_text(text.replace("noise = {", "observed = true\nnoise = {"))
    found = rehearse(sf.problems.load("seen.toml"), steps=20, adversity=replace(CALM, late=0.5, repeated=0.5))
    assert found.went_well and found.seen.late and found.seen.repeated, str(found)
    machine.true_problem().save("world.npz")
    options = {"source": "model", "steps": 20, "adversity": CALM, "seed": 2}
    from_file = rehearse(machine, world=sf.Problem.load("world.npz"), **options)
    assert from_file.earned == rehearse(machine, world="model", **options).earned
    with pytest.raises(sf.InvalidInput, match="the world is on"):
        rehearse(machine, world=sf.problems.riverswim(), steps=1)
