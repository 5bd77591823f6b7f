"""The test for drift: it rarely cries wolf, finds changes, says since when, and remembers."""

import numpy as np
import pytest
from scipy.stats import binom

import surefooted as sf
from live_help import known
from surefooted import codec
from surefooted.knowledge.drift import Drift

LEVEL = 0.3


def alarmed(problem, other, steps, change, seed, level=LEVEL):
    """The step of the first alarm, if the world changes after `change` steps of the baseline; and the test."""
    rng, drift, s = np.random.default_rng(seed), Drift(known(problem), level), problem.start
    for t in range(steps):
        mdp = problem.mdp if t < change else other.mdp
        pair = int(problem.baseline.pair_at(s, rng.random()))
        reward, y = mdp.draw(rng, pair)
        if drift.add(s, pair, float(reward), int(y), own=True):
            return t, drift
        s = int(y)
    return None, drift


def river(reward=0.5):
    p = np.full((2, 2, 2), 0.5)
    mdp = sf.TabularMDP.from_arrays(p, np.full((2, 2), reward), noise=sf.Noise("bernoulli"))
    return sf.Problem("river", mdp, sf.Policy.uniform(mdp.space), 0)


@pytest.mark.slow
def test_a_false_alarm_is_no_more_frequent_than_promised():
    runs, problem = 120, river()
    alarms = sum(alarmed(problem, problem, 700, 700, seed)[0] is not None for seed in range(runs))
    assert alarms <= binom.ppf(1 - 1e-6, runs, LEVEL)  # at the promised rate: exceeded once in a million


def test_the_threshold_is_the_promised_one():
    drift = Drift(known(river()), 0.01)
    assert abs(np.exp(drift.threshold) - 400) < 1e-9
    drift.restart()
    assert abs(np.exp(drift.threshold) - 1_200) < 1e-9  # 2 (r + 1) (r + 2) / level


def test_a_change_of_what_the_baseline_earns_is_found_and_dated():
    found, drift = alarmed(river(0.5), river(0.3), 3_000, 1_500, 1, level=0.01)
    assert found is not None and 1_500 < found < 2_200
    since = int(drift.alarm.rsplit(" ", 1)[-1])
    assert 1_000 <= since <= found


def test_a_change_of_where_a_pair_leads_is_found_though_the_baseline_earns_the_same():
    problem = river()
    p = np.full((2, 2, 2), 0.5)
    p[0, 1] = [0.05, 0.95]
    mdp = sf.TabularMDP.from_arrays(p, np.full((2, 2), 0.5), noise=sf.Noise("bernoulli"))
    other = sf.Problem("bent", mdp, problem.baseline, 0)
    found, drift = alarmed(problem, other, 4_000, 2_000, 2, level=0.01)
    assert found is not None and found > 2_000
    assert drift.alarm.startswith("state 0, action 1: earns or leads")


def test_the_evidence_of_a_pair_is_that_of_two_mixtures_against_the_best_single_law():
    """Computed once more from the symbols, one after the other: a mixture predicts each from those before it."""
    problem, rng = river(), np.random.default_rng(3)
    drift, seen = Drift(known(problem), 0.01), []
    for _ in range(125):
        pair, reward, y = int(rng.integers(4)), float(rng.random()), int(rng.integers(2))
        drift.add(pair // 2, pair, reward, y, own=False)
        seen.append((pair, (y, int(4 * reward))))
    names, logs = drift.pair_evidence()
    (begin,) = [n for _, n, *_ in drift._beginnings]
    m = 8
    for k, pair in enumerate(names):
        q, parts = 0.0, [[x for p, x in seen[:begin] if p == pair], [x for p, x in seen[begin:] if p == pair]]
        for symbols in parts:
            for i, x in enumerate(symbols):
                q += np.log((symbols[:i].count(x) + 0.5) / (i + 0.5 * m))
        every = parts[0] + parts[1]
        best = sum(np.log(every.count(x) / len(every)) for x in every)
        assert abs(logs[0, k] - (q - best - np.log(2 * 4))) < 1e-9  # w_1 = 1 / 2, and 4 pairs


def test_a_saved_test_goes_on_as_if_nothing_had_happened():
    problem, rng = river(), np.random.default_rng(0)
    one = Drift(known(problem), 0.01)
    steps = [
        (int(rng.integers(2)), int(rng.integers(4)), float(rng.random()), int(rng.integers(2))) for _ in range(800)
    ]
    for step in steps[:500]:
        one.add(*step, own=True)
    other = Drift(known(problem), 0.01)
    other.load(codec.decode(codec.encode(one.state_dict())))
    for step in steps[500:]:
        assert one.add(*step, own=True) == other.add(*step, own=True)
    assert codec.payload(one.state_dict()) == codec.payload(other.state_dict())
