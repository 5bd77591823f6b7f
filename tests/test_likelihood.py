"""Likelihood-ratio intervals: pinned by hand, checked against their definition, and valid over time."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import betaln
from scipy.stats import binom

import oracles
import surefooted as sf
from surefooted.kernels import intervals

both = pytest.mark.parametrize(
    "kernel", [intervals.likelihood_interval, intervals.likelihood_interval.py_func], ids=["compiled", "plain"]
)


def excess(q, k, n, x):
    """ln of the mixture over the likelihood of q, minus x: positive outside the interval."""
    likelihood = (k * math.log(q) if k else 0.0) + ((n - k) * math.log1p(-q) if n - k else 0.0)
    return betaln(k + 0.5, n - k + 0.5) - math.log(math.pi) - likelihood - x


@both
def test_the_interval_by_hand(kernel):
    # one failure: B(1/2, 3/2) / pi = 1/2, so 1 - q >= exp(-x) / 2; one success likewise
    assert kernel(0.0, 1.0, math.log(10)) == (0.0, pytest.approx(0.95, rel=2e-6))
    assert kernel(1.0, 1.0, math.log(10)) == (pytest.approx(0.05, rel=2e-6), 1.0)
    # four failures: B(1/2, 9/2) / pi = 35/128, so (1 - q)^4 >= 35/128 / 20
    assert kernel(0.0, 4.0, math.log(20))[1] == pytest.approx(1 - (35 / 128 / 20) ** 0.25, rel=2e-6)


@both
@pytest.mark.parametrize("n", [1, 2, 7, 50, 1000, 10**6])
@pytest.mark.parametrize("share", [0.0, 1e-9, 0.001, 0.2, 0.5, 0.77, 1 - 1e-9, 1.0])
@pytest.mark.parametrize("x", [0.1, 5.0, 20.0])
def test_the_ends_are_where_the_ratio_is_reached_and_never_inside(kernel, n, share, x):
    k = share * n
    lower, upper = kernel(k, float(n), x)
    assert 0 <= lower <= share <= upper <= 1
    for end, inner in ((lower, lower + 2e-6 * max(share - lower, lower)), (upper, upper - 2e-6 * (1 - share))):
        if 0 < end < 1:
            assert excess(end, k, n, x) >= -1e-6  # outside, or on the border
            if 0 < inner < 1 and abs(inner - end) < abs(share - end):
                assert excess(inner, k, n, x) <= 1e-3 * x  # and just inside it is not exceeded


def test_it_agrees_with_a_root_finder():
    k, n, x = 30.0, 100.0, 8.0
    lower, upper = intervals.likelihood_interval(k, n, x)
    assert lower == pytest.approx(brentq(excess, 1e-9, 0.3, args=(k, n, x)), rel=1e-5)
    assert upper == pytest.approx(brentq(excess, 0.3, 1 - 1e-9, args=(k, n, x)), rel=1e-5)


def counted(steps, r_max=2.0):
    """Counts of one pair (of four) with two next states (of three)."""
    space = sf.Space.from_available(np.array([[True, True], [True, False], [True, False]]), r_max)
    counts = sf.Counts(space)
    for reward, s_next in steps:
        counts.add(0, 0, reward, s_next)
    return counts


def test_the_set_uses_these_intervals_with_a_share_of_delta_for_each():
    counts = counted([(0.5, 0)] * 30 + [(1.5, 1)] * 10)
    plausible = sf.confidence.likelihood(counts, 0.1)
    x = math.log((3 + 1) * 4 / 0.1)  # S + 1 intervals for each of four pairs
    row = dict(
        zip(plausible.next_state[:2].tolist(), zip(plausible.p_lower, plausible.p_upper, strict=True), strict=True)
    )
    assert row[0] == pytest.approx(intervals.likelihood_interval(30.0, 40.0, x))
    assert row[1] == pytest.approx(intervals.likelihood_interval(10.0, 40.0, x))
    assert plausible.unseen[0] == pytest.approx(intervals.likelihood_interval(0.0, 40.0, x)[1])
    assert plausible.unseen[1:].tolist() == [1.0, 1.0, 1.0]
    y = x + math.log(2)  # for each end of the reward interval; rewards sum to 30, their squares to 30
    lower, upper = oracles.mean_distance(40, 30, 30, y), 2 - oracles.mean_distance(40, 50, 70, y)
    assert (plausible.r_lower[0], plausible.r_upper[0]) == (pytest.approx(lower), pytest.approx(upper))
    assert (plausible.r_lower[1], plausible.r_upper[1]) == (0.0, 2.0)


def test_rewards_that_do_not_vary_have_a_narrow_interval():
    # n = 10 000 rewards of 1: p^n (1 - p) = 1 / (n + 1) / (e^y + 1), so n w - ln(n w) = y for p = 1 - w, nearly
    plausible = sf.confidence.likelihood(counted([(1.0, 0)] * 10_000), 0.1)
    width = 1 - plausible.r_lower[0]
    assert 10_000 * width - math.log(10_000 * width) == pytest.approx(math.log(2 * 4 * 4 / 0.1), abs=2e-2)
    assert plausible.r_upper[0] == pytest.approx(1 + width, rel=1e-6)


@pytest.mark.parametrize("p", [0.02, 0.5])
def test_one_interval_fails_at_some_time_no_more_often_than_promised(p):
    # 4 000 coins of 2 000 tosses each at delta 0.1; false alarm once in a million
    delta, runs, tosses = 0.1, 4000, 2000
    heads = np.cumsum(np.random.default_rng(0).random((runs, tosses)) < p, axis=1)
    n = np.arange(1, tosses + 1)
    mixture = betaln(heads + 0.5, n - heads + 0.5) - math.log(math.pi)
    failed = (mixture - heads * math.log(p) - (n - heads) * math.log(1 - p) > math.log(1 / delta)).any(axis=1)
    assert failed.sum() <= binom.ppf(1 - 1e-6, runs, delta)
    assert failed.sum() >= 0.02 * runs, "a test without power"
    for run in range(0, runs, 500):  # and the kernel's interval is that event
        i = 777
        lower, upper = intervals.likelihood_interval(float(heads[run, i]), float(n[i]), math.log(1 / delta))
        inside = mixture[run, i] - heads[run, i] * math.log(p) - (n[i] - heads[run, i]) * math.log(1 - p)
        assert (lower <= p <= upper) == (inside <= math.log(1 / delta))


def test_the_truth_is_in_the_set_at_all_times_as_often_as_promised():
    # 120 runs of 300 steps at delta 0.2, checked every 20 steps; false alarm once in a million
    problem, failures = sf.problems.garnet(3, 2, 2, seed=3), 0
    for seed in range(120):
        rng, counts, s = np.random.default_rng(seed), sf.Counts(problem.space), 0
        for t in range(300):
            pair = int(rng.integers(problem.space.pair_ptr[s], problem.space.pair_ptr[s + 1]))
            reward, s_next = problem.mdp.draw(rng, pair)
            counts.add(s, int(problem.space.pair_action[pair]), reward, s_next)
            s = s_next
            if t % 20 == 19 and not sf.confidence.likelihood(counts, 0.2).contains(problem.mdp):
                failures += 1
                break
    assert failures <= binom.ppf(1 - 1e-6, 120, 0.2)


def test_it_is_narrower_than_bernstein_and_both_hold_the_estimate():
    counts = counted([(0.5, 0)] * 30 + [(1.5, 1)] * 10)
    narrow, wide = sf.confidence.likelihood(counts, 0.05), sf.confidence.bernstein(counts, 0.05)
    assert np.all(narrow.p_upper - narrow.p_lower < wide.p_upper - wide.p_lower)
    assert np.all(narrow.unseen <= wide.unseen)
