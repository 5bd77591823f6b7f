"""The reward interval of `likelihood`: by hand, against exact wealth in rational arithmetic, and valid over time."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import betaln
from scipy.stats import binom

import oracles
from surefooted.kernels import intervals
from surefooted.kernels.intervals import BERNSTEIN, LIKELIHOOD, Share, mean_distance, mean_reward

both_distances = pytest.mark.parametrize("kernel", [mean_distance, mean_distance.py_func], ids=["compiled", "plain"])
both_means = pytest.mark.parametrize("kernel", [mean_reward, mean_reward.py_func], ids=["compiled", "plain"])


def wealth(rewards, mean):
    """The integral over λ in [0, 1] of Π (1 - λ + λ x / mean), exactly: a polynomial with rational coefficients."""
    product = [Fraction(1)]
    for x in rewards:
        slope = Fraction(x) / Fraction(mean) - 1
        product = [a + slope * b for a, b in zip([*product, 0], [0, *product], strict=True)]
    return sum(c / (i + 1) for i, c in enumerate(product))


def end_by_bisection(rewards, x):
    """The largest mean at which the wealth is at least exp(x), from below, to 40 bits: wealth falls with the mean."""
    low, high = Fraction(1, 2**60), sum(map(Fraction, rewards)) / len(rewards)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if wealth(rewards, middle) >= Fraction(math.exp(x)) else (low, middle)
    return float(low)


def sums(rewards):
    """n, Σ x and Σ x², as kernels take them."""
    return float(len(rewards)), float(sum(rewards)), float(sum(x * x for x in rewards))


@both_distances
def test_the_bound_by_hand(kernel):
    # one reward of 1: k = 1, m = 0, and p (1 - p) = B(2, 1) / (e^x + 1) = 0.09 has the root p = 0.1
    assert kernel(1.0, 1.0, 1.0, 0.0, 1.0, math.log(0.5 / 0.09 - 1)) == pytest.approx(0.1, rel=1e-9)
    # rewards 0 and 2: k = 1, m = 1, q / s = 2, and p (1 - p)^2 = B(2, 2) / (e^x + 1) = 0.01 * 0.99^2 has p = 0.01
    x = math.log(1 / 6 / (0.01 * 0.99**2) - 1)
    assert kernel(2.0, 2.0, 4.0, 0.0, 1.0, x) == pytest.approx(0.02, rel=1e-9)
    # the same seen from 3, with rewards 3 and 1
    assert kernel(2.0, 4.0, 10.0, 3.0, -1.0, x) == pytest.approx(0.02, rel=1e-9)
    assert kernel(2.0, 0.0, 0.0, 0.0, 1.0, x) == 0.0  # only zeros: the mean may be 0
    assert kernel(2.0, 4.0, 10.0, 1.0, 1.0, 50.0) < 1e-20


@both_means
def test_the_two_ends_share_delta_and_mirror_each_other(kernel):
    # delta / intervals = 0.1, so each end has x = ln 20; rewards 0.5 and 0.5 in [0, 1]
    distance = mean_distance(2.0, 1.0, 0.5, 0.0, 1.0, math.log(20))
    assert kernel(Share(LIKELIHOOD, 3, 0.3), 2.0, 1.0, 0.5, 0.0, 1.0, False) == pytest.approx((distance, 1 - distance))
    p = brentq(lambda p: p**2 * (1 - p) - 1 / 3 / 21, 0.0, 2 / 3)  # k = 2, m = 0: p^2 (1 - p) = B(3, 1) / 21
    assert distance == pytest.approx(0.5 * p, rel=1e-9)


grids = st.lists(st.sampled_from([0.0, 0.0, 0.125, 0.25, 0.5, 0.75, 0.96875, 1.0, 1.0]), min_size=1, max_size=9)


@both_distances
@given(rewards=grids, x=st.sampled_from([0.7, 1.5, 3.0, 6.0, 12.0]))
def test_at_the_end_the_exact_wealth_is_at_least_exp_x(kernel, rewards, x):
    """Soundness: whatever the rewards, all means below the bound are excluded by the martingale itself."""
    low = kernel(*sums(rewards), 0.0, 1.0, x)
    assert low * len(rewards) <= sum(rewards)
    if low > 1e-12:
        assert wealth(rewards, low) >= Fraction(math.exp(x))
    mirrored = kernel(*sums(rewards), 1.0, -1.0, x)
    if mirrored > 1e-12:
        assert wealth([1 - y for y in rewards], mirrored) >= Fraction(math.exp(x))


@both_distances
@pytest.mark.parametrize("x", [2.0, 5.0, 10.0])
@pytest.mark.parametrize(("ones", "zeros"), [(1, 0), (1, 5), (4, 4), (8, 0), (7, 1), (3, 9)])
@pytest.mark.parametrize("size", [0.25, 1.0, 3.0])
def test_for_rewards_of_two_values_the_bound_is_the_end_of_the_exact_interval(kernel, ones, zeros, size, x):
    """Nothing is lost but the 1 in ln(exp(x) + 1): the exact ends for x and for that log term enclose the bound."""
    rewards = [size] * ones + [0.0] * zeros
    found = kernel(*sums(rewards), 0.0, 1.0, x)
    assert found <= end_by_bisection(rewards, x) * (1 + 1e-10)
    assert found >= end_by_bisection(rewards, math.log(math.exp(x) + 1)) * (1 - 1e-9)


@both_distances
@pytest.mark.parametrize("n", [1, 2, 30, 1000, 10**6])
@pytest.mark.parametrize("mean", [1e-6, 0.01, 0.5, 0.999])
@pytest.mark.parametrize("spread", [0.0, 1e-5, 0.1, 1.0])
@pytest.mark.parametrize("x", [1.0, 8.0, 20.0])
def test_it_agrees_with_a_root_finder_and_is_never_above(kernel, n, mean, spread, x):
    s, q = n * mean, n * (mean**2 + spread * mean * (1 - mean))  # spread 1: zeros and ones
    found, exact = kernel(float(n), s, q, 0.0, 1.0, x), oracles.mean_distance(n, s, q, x)
    assert exact * (1 - 1e-5) - 1e-11 <= found <= exact * (1 + 1e-12)


@pytest.mark.first(20)
@both_means
@pytest.mark.parametrize(("low", "width"), [(0.9, 1e-7), (-3.0, 4e-8), (0.0, 1e-9), (1000.0, 1e-3), (-0.5, 1.0)])
@pytest.mark.parametrize("share", [0.0, 0.003, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("n", [1, 40, 3000])
def test_rounding_of_sums_only_widens_the_interval(kernel, low, width, share, n):
    """The interval of the sums as a run adds them up contains that of the exact distances from both ends."""
    high = low + width
    rng, total, square = np.random.default_rng(n), 0.0, 0.0
    rewards = np.clip(low + width * (share + 0.01 * rng.standard_normal(n)), low, high).tolist()
    for reward in rewards:
        total, square = total + reward, square + reward * reward
    lower, upper = kernel(Share(LIKELIHOOD, 10, 0.1), float(n), total, square, low, high, True)
    above = [Fraction(reward) - Fraction(low) for reward in rewards]
    below = [Fraction(high) - Fraction(reward) for reward in rewards]
    ends = []
    for distances in (above, below):
        s, q = sum(distances), sum(d * d for d in distances)
        k, scale = (float(s * s / q), float(q / s)) if s > 0 else (0.0, 0.0)
        ends.append(scale * oracles.mean_distance(n, k, k, math.log(200)) if k > 0 else 0.0)
    assert low <= lower <= upper <= high
    assert Fraction(lower) - Fraction(low) <= Fraction(ends[0] * (1 + 1e-12))
    assert Fraction(high) - Fraction(upper) <= Fraction(ends[1] * (1 + 1e-12))


@both_distances
@pytest.mark.parametrize(("origin", "width"), [(0.9, 1e-5), (-3.0, 4e-5), (1000.0, 1e-2), (0.0, 1.0)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("n", [100, 10**4])
def test_the_worst_rounding_of_sums_does_not_raise_the_bound(kernel, origin, width, sign, n):
    """Sums of n terms may be off by n 2^-52 of them, each in the direction that hurts."""
    rewards, off, x = [origin + sign * width / 5, origin + sign * width], n * 2.0**-52, 5.0
    distances = [abs(Fraction(reward) - Fraction(origin)) for reward in rewards]
    exact = oracles.mean_distance(n, float(n / 2 * sum(distances)), float(n / 2 * sum(d * d for d in distances)), x)
    total, square = n / 2 * sum(rewards), n / 2 * sum(reward**2 for reward in rewards)
    for one in (total * (1 - off), total, total * (1 + off)):
        for other in (square * (1 - off), square, square * (1 + off)):
            assert kernel(float(n), one, other, origin, sign, x) <= exact


def test_rounding_costs_next_to_nothing_in_the_usual_range():
    n, mean = 1e6, 0.3
    low = mean_distance(n, n * mean, n * (mean**2 + 1e-4), 0.0, 1.0, 10.0)
    assert low == pytest.approx(oracles.mean_distance(n, n * mean, n * (mean**2 + 1e-4), 10.0), rel=1e-6)
    high = mean_distance(n, n * mean, n * (mean**2 + 1e-4), 1.0, -1.0, 10.0)
    assert high == pytest.approx(oracles.mean_distance(n, n * 0.7, n * (0.7**2 + 1e-4), 10.0), rel=1e-6)


@both_distances
@given(rewards=grids, more=st.sampled_from([1e-6, 0.01, 0.2]), x=st.sampled_from([1.0, 5.0]))
def test_it_increases_in_the_sum_and_decreases_in_the_sum_of_squares(kernel, rewards, more, x):
    n, s, q = sums(rewards)
    here = kernel(n, s, q, 0.0, 1.0, x)
    assert kernel(n, s - more * s, q, 0.0, 1.0, x) <= here * (1 + 1e-9)
    assert kernel(n, s, q + more * q, 0.0, 1.0, x) <= here * (1 + 1e-9)


@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-4, 1e-9])
@pytest.mark.parametrize("n", [1, 3, 10, 100, 1000, 10**5])
def test_it_is_never_wider_than_bernsteins_with_the_same_share(delta, n):
    """So `likelihood` needs no second interval for rewards that hardly vary."""
    for mean in (0.0, 1e-4, 0.01, 0.3, 0.5, 0.9, 1.0):
        for spread in (0.0, 1e-4, 0.01, 0.3, 1.0):
            counted = (float(n), n * mean, n * (mean**2 + spread * mean * (1 - mean)), 0.0, 1.0, False)
            a, b = mean_reward(Share(LIKELIHOOD, 1, delta), *counted)
            c, d = mean_reward(Share(BERNSTEIN, 1, delta), *counted)
            assert a >= c - 1e-9 and b <= d + 1e-9


LAWS = {
    "rare ones": lambda rng, shape: (rng.random(shape) < 0.01) * 1.0,
    "rare zeros": lambda rng, shape: (rng.random(shape) < 0.99) * 1.0,
    "coins": lambda rng, shape: (rng.random(shape) < 0.5) * 1.0,
    "two points": lambda rng, shape: np.where(rng.random(shape) < 0.1, 0.2, 0.25),
    "uniform": lambda rng, shape: rng.random(shape),
    "narrow": lambda rng, shape: 0.5 + 0.01 * (rng.random(shape) - 0.5),
    "at the bounds or nearly": lambda rng, shape: rng.beta(0.05, 0.05, shape),
    "a rare disaster": lambda rng, shape: np.where(rng.random(shape) < 0.02, 0.0, 0.9),
}
MEANS = (0.01, 0.99, 0.5, 0.245, 0.5, 0.5, 0.5, 0.882)


@pytest.mark.parametrize(("law", "mean"), list(zip(LAWS, MEANS, strict=True)))
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_end_is_wrong_at_some_time_no_more_often_than_promised(law, mean, sign):
    """1 000 runs of 300 rewards at a rate of 0.2, looked at after each reward; false alarm once in a million."""
    rate, runs, steps = 0.2, 1000, 300
    x = LAWS[law](np.random.default_rng(5), (runs, steps))
    d, mu = (x, mean) if sign > 0 else (1 - x, 1 - mean)
    n, s, q = np.arange(1, steps + 1), np.cumsum(d, axis=1), np.cumsum(d * d, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        k = np.where(s > 0, s * s / q, 0.0)
        p = np.where(s > 0, mu * s / q, 1.0)
        ratio = betaln(k + 1, n - k + 1) - (n - k + 1) * np.log1p(-p) - k * np.log(p)
        failed = (p < k / (n + 1)) & (ratio >= math.log(1 / rate + 1))
    assert failed.any(axis=1).sum() <= binom.ppf(1 - 1e-6, runs, rate)
    for run in range(0, runs, 50):  # and the kernel's bound is that event
        i, origin = 17 + run // 10, 0.0 if sign > 0 else 1.0
        totals = (float(x[run, : i + 1].sum()), float((x[run, : i + 1] ** 2).sum()))
        bound = intervals.mean_distance(float(n[i]), *totals, origin, sign, math.log(1 / rate))
        assert (bound > mu) == failed[run, i]


def test_the_rate_test_has_power():
    """Coins cross the boundary about half as often as they may: a boundary for a rate of 1 / 2 would be noticed."""
    rate, runs, steps = 0.2, 4000, 300
    x = LAWS["coins"](np.random.default_rng(6), (runs, steps))
    n, k = np.arange(1, steps + 1), np.cumsum(x, axis=1)
    ratio = betaln(k + 1, n - k + 1) + (n + 1) * math.log(2)
    failed = ((k > (n + 1) / 2) & (ratio >= math.log(1 / rate + 1))).any(axis=1)
    assert 0.05 * runs <= failed.sum() <= binom.ppf(1 - 1e-6, runs, rate)
