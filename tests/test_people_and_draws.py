"""People who see what a randomised baseline has drawn, or know more than the state, do not make a declaration wrong."""

import numpy as np
import pytest

import surefooted as sf
from surefooted.agents.fleet import Fleet
from surefooted.agents.fleet_accounts import FleetRules
from surefooted.knowledge.drift import Drift

SPACE = sf.Space.full(n_states=2, n_actions=2)
RUNS = 5  # each mistake here raises alarms in all of them


def toss(gain=0.5):
    """A baseline that draws one of two actions: action 1 earns 1, action 0 nothing."""
    return sf.Baseline(sf.Policy.uniform(SPACE), gain=gain, bias=np.zeros(2))


def fair(gain=0.5):
    """A baseline that plays action 0, which earns 1 in good weather, half of the time."""
    return sf.Baseline(sf.Policy.always(SPACE, 0), gain=gain, bias=np.zeros(2))


def a_fleet(baseline, seed=0, **rules):
    amounts = {"alpha": 0.1, "allowance": 1_000.0, "delta": 0.05, "seed": seed}
    agent = sf.CUCRL2(SPACE, baseline=baseline, condition="decisions", **amounts)
    fleet = Fleet(agent, FleetRules(**rules), Drift(baseline, 0.005))
    fleet.add_site()
    return fleet


def tell(fleet, number, reward, played=None, s_next=0):
    fleet.see(number, reward, s_next, None)
    fleet.settle(number, played)


def alarms(fleet):
    return fleet.check.compare(), fleet.alarm


def overridden_draws(baseline, share, seed, expires=False):
    """A person replaces a share of the draws of action 0 by action 1, in state 0."""
    fleet, rng = a_fleet(baseline, seed), np.random.default_rng(seed)
    for number in range(1, 401):
        fleet.ask(number, 0, 0, allowed=False)
        pair = fleet.open[number].pair
        played = 1 if pair == 0 and rng.random() < share else None
        if played and expires:
            fleet.expire(number, played)
        else:
            tell(fleet, number, float(pair == 1 or played == 1), played)
    return fleet


@pytest.mark.parametrize("expires", [False, True])
def test_who_replaces_bad_draws_of_the_baseline_makes_no_declaration_wrong(expires):
    for seed in range(RUNS):
        assert alarms(overridden_draws(toss(), 0.8, seed, expires)) == ([], None)
    assert overridden_draws(toss(0.95), 0.1, 0, expires).check.compare()  # what is wrong is found all the same


def test_who_rejects_departures_by_the_draw_makes_no_declaration_wrong():
    for seed in range(RUNS):
        fleet, rejected = a_fleet(toss(), seed), 0
        for number in range(1, 401):
            fleet.ask(number, 0, 0, put=True)
            step = fleet.open[number]
            if step.departs and step.baseline == 1:
                fleet.reject(number)
                rejected += 1
            tell(fleet, number, float(step.pair))
        assert rejected > 100 and alarms(fleet) == ([], None)


@pytest.mark.parametrize("by_approval", [False, True])
def test_who_knows_the_weather_makes_no_declaration_wrong(by_approval):
    """In bad weather somebody plays action 1 instead, or approves it if it is proposed."""
    for seed in range(RUNS):
        fleet, rng = a_fleet(fair(), seed, people="more"), np.random.default_rng(seed)
        for number in range(1, 401):
            fleet.ask(number, 0, 0, allowed=by_approval, put=by_approval)
            step, good, played = fleet.open[number], rng.random() < 0.5, None
            if by_approval and step.departs and good:
                fleet.reject(number)
            if not by_approval and not good:
                played = 1
            pair = step.pair if played is None else played
            tell(fleet, number, float(good) if pair == 0 else 0.5, played)
        fleet.ended = True
        fleet.ask(401, 0, 0)
        assert fleet.contradictions == [] and fleet.alarm is None


def test_an_override_of_a_draw_that_was_told_by_mistake_is_taken_back():
    fleet = overridden_draws(toss(), 0.0, 0)
    sums = fleet.check._surprises.sums.copy()
    for lost in (False, True):
        fleet.ask(401, 0, 0, allowed=False)
        pair = fleet.open[401].pair
        if lost:
            settled = fleet.expire(401, 1 - pair)
        else:
            fleet.see(401, 0.0, 0, None)
            settled = fleet.settle(401, 1 - pair)
        assert (fleet.check._surprises.sums - sums)[[0, -1]].tolist() == [[1, 0, 1, 1]] * 2
        fleet.reopen(401, settled)
        assert np.array_equal(fleet.check._surprises.sums, sums)
        fleet.expire(401)
    fleet.check.hide(0, -1)  # as if an older version had not counted it
    assert np.array_equal(fleet.check._surprises.sums, sums)


def test_the_outcome_of_a_rejection_is_taken_back_as_it_was_counted():
    fleet, number = a_fleet(toss()), 1
    while not fleet.ask(number, 0, 0, put=True).departs:
        tell(fleet, number, 0.0)
        number += 1
    sums = fleet.check._surprises.sums.copy()
    fleet.reject(number)
    fleet.see(number, 1.0, 0, None)
    settled = fleet.settle(number)
    assert np.array_equal(fleet.check._surprises.sums, sums)
    settled.step.explored = False  # as the journal tells of rejections
    fleet.reopen(number, settled)
    assert np.array_equal(fleet.check._surprises.sums, sums)


def test_a_saved_fleet_remembers_what_is_hidden_and_reads_what_was_saved_before():
    fleet = overridden_draws(toss(), 0.5, 0)
    for columns in (4, 3):
        state, drift = fleet.check.state_dict(), fleet.drift.state_dict()
        state["sums"] = state["sums"][:, :columns]
        drift["sums"] = drift["sums"][:columns]
        drift["beginnings"] = [(*some, sums[:columns], counts) for *some, sums, counts in drift["beginnings"]]
        other = a_fleet(toss())
        check, other_drift = other.check.restored(state), Drift(toss(), 0.005)
        other_drift.load(drift)
        wanted = fleet.check._surprises.sums * (np.arange(4) < columns)
        assert np.array_equal(check._surprises.sums, wanted)
        assert other_drift.state_dict()["sums"].tolist() == wanted[-1].tolist()
        assert all(len(sums) == 4 for *_, sums, _ in other_drift.state_dict()["beginnings"])
