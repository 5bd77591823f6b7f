"""The bound on a sum of conditional means: by hand, by bisection, and against its promised rate."""

import math

import numba
import numpy as np
import pytest
from scipy.stats import binom

from surefooted.certificates.martingale import BETS, SumOfMeans, new_bets
from surefooted.errors import InvalidInput
from surefooted.kernels.martingale import Bets, place_bets, sum_of_means

PLACE = [place_bets, place_bets.py_func]
SUM = [sum_of_means, sum_of_means.py_func]


def one_bet(lambda_):
    return Bets(np.array([lambda_]), np.zeros(1), np.zeros((2, 1)), np.zeros(2))


@pytest.mark.parametrize("place", PLACE)
@pytest.mark.parametrize("bound", SUM)
def test_one_bet_on_one_step_by_hand(place, bound):
    bets = one_bet(0.5)
    place(bets, 1.25, 0.25)  # a surprise of 1: ln 1.5 is won
    assert bound(bets, math.log(20)) == pytest.approx(0.25 + (math.log(1.5) - math.log(20)) / 0.5, abs=1e-9)
    assert bound(bets, math.log(20)) == pytest.approx(-4.930534, abs=1e-6)


def crossing(lambdas, weights, surprises, log_threshold):
    """The sum S with sum_j w_j prod_i (1 + λ_j ξ_i) exp(-λ_j S) = e^threshold, by bisection, with exact sums."""
    wealth = [math.fsum(math.log1p(lam * x) for x in surprises) for lam in lambdas]

    def excess(s):
        logs = [math.log(w) + v - lam * s for w, v, lam in zip(weights, wealth, lambdas, strict=True)]
        top = max(logs)
        return top + math.log(math.fsum(math.exp(x - top) for x in logs)) - log_threshold

    low, high = -1e9, 1e9
    while high - low > 1e-11 * max(1.0, abs(low)):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return (low + high) / 2


@pytest.mark.parametrize("bound", SUM)
@pytest.mark.parametrize("seed", range(12))
def test_the_bound_solves_its_equation(bound, seed):
    rng = np.random.default_rng(seed)
    below, delta, n = rng.uniform(0.1, 5), 10.0 ** -rng.integers(1, 9), int(10 ** rng.uniform(0, 4))
    bets = new_bets(below)
    values, guesses = rng.exponential(rng.uniform(0.1, 3), n) - below, rng.uniform(-1, 0, n)
    for value, guess in zip(values, guesses, strict=True):
        place_bets(bets, value, guess)
    expected = crossing(bets.lambda_, np.exp(bets.log_weight), values - guesses, -math.log(delta)) + math.fsum(guesses)
    found = bound(bets, -math.log(delta))
    assert found <= expected + 1e-10 * abs(expected)  # never above
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_the_weights_of_the_bets_sum_to_one():
    bets = new_bets(2.0)
    assert np.exp(bets.log_weight).sum() == pytest.approx(1.0, abs=1e-15)
    assert bets.lambda_.size == BETS and bets.lambda_[0] == pytest.approx(0.45)
    assert np.all(bets.lambda_ * 2.0 < 1)  # the worst surprise never makes a bet worthless


def test_sums_of_a_million_steps_are_exact_to_rounding():
    bets = new_bets(1.0)
    _repeat(bets, 0.1, 0.3, 1_000_000)
    exact = [1e6 * math.log1p(lam * (0.1 - 0.3)) for lam in bets.lambda_]
    assert bets.log_wealth.sum(axis=0) == pytest.approx(exact, rel=1e-14)
    assert bets.guessed.sum() == pytest.approx(0.3e6, rel=1e-15)


@numba.njit
def _repeat(bets, value, guess, n):
    for _ in range(n):
        place_bets(bets, value, guess)


@numba.njit
def _crossings(uniforms, low, high, p, guess, threshold, lambda_, log_weight):
    """How often the bound on n means ever exceeds their sum: each value is `low` with probability p, else `high`."""
    crossed = 0
    mean = p * low + (1 - p) * high
    for run in range(uniforms.shape[0]):
        bets = Bets(lambda_, log_weight, np.zeros((2, len(lambda_))), np.zeros(2))
        for i in range(uniforms.shape[1]):
            place_bets(bets, low if uniforms[run, i] < p else high, guess)
            if sum_of_means(bets, threshold) > (i + 1) * mean + 1e-9:
                crossed += 1
                break
    return crossed


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("low", "high", "p", "guess"),
    [
        (-1.0, 1.0, 0.5, 0.0),
        (-1.0, 0.25, 0.2, 0.0),
        (-0.1, 9.9, 0.99, 0.0),
        (-1.0, 0.1, 0.05, -0.4),
        (0.0, 1.0, 0.5, 0.5),
    ],
)
def test_the_bound_fails_no_more_often_than_promised(low, high, p, guess):
    low, high, guess = float(low), float(high), float(guess)
    delta, runs, steps = 0.2, 1500, 400
    uniforms = np.random.default_rng(7).random((runs, steps))
    bets = new_bets(guess - low if guess > low else 1.0)
    failures = _crossings(uniforms, low, high, p, guess, -math.log(delta), bets.lambda_, bets.log_weight)
    assert failures <= binom.ppf(1 - 1e-6, runs, delta)  # at rate delta: exceeded once in a million
    doubled = _crossings(uniforms, low, high, p, guess, math.log(0.8), bets.lambda_, bets.log_weight)
    assert doubled > 0.2 * runs  # the count sees failures where there are some: a threshold below 1 promises nothing


def test_half_the_lower_bound_on_surprises_would_fail():
    """What `below` is for: bets sized for half the true worst case are ruined, or wrong."""
    bets = new_bets(0.5)
    assert 1 + bets.lambda_[0] * -1.0 < 0  # a factor that is negative: no supermartingale


def test_the_bound_is_nearly_the_sum_itself_after_many_steps():
    bound = SumOfMeans(below=1.0, delta=0.05)
    rng = np.random.default_rng(3)
    for value in rng.uniform(-1, 1, 20_000):
        bound.add(value)
    width = bound.bets.guessed[0] + 0.0 - bound.lower
    assert 0 < width < 3.5 * math.sqrt(2 * 20_000 / 3 * math.log(20))


def test_a_good_guess_tightens_the_bound():
    rng = np.random.default_rng(1)
    plain, guessed = SumOfMeans(1.0, 0.05), SumOfMeans(1.0, 0.05)
    for value in rng.uniform(-0.6, -0.4, 2000):
        plain.add(value, least=-1.0)
        guessed.add(value, guess=-0.5, least=-1.0)
    assert guessed.lower > plain.lower + 50
    assert guessed.lower < -1000 + 20


def test_the_first_steps_are_worth_no_less_than_their_worst():
    bound = SumOfMeans(below=1.0, delta=1e-6)
    assert bound.lower == 0.0
    bound.add(0.5, least=-0.25)
    assert bound.lower == -0.25


@pytest.mark.parametrize(
    ("value", "guess", "least"), [(-1.1, 0.0, None), (0.5, 1.0, -0.5), (0.0, 0.0, 0.1), (math.nan, 0.0, None)]
)
def test_an_observation_below_what_was_possible_is_refused(value, guess, least):
    bound = SumOfMeans(1.0, 0.1)
    with pytest.raises(InvalidInput, match="does not fit"):
        bound.add(value, guess, least)
    assert bound.n == 0 and bound.lower == 0.0


@pytest.mark.parametrize(("below", "delta"), [(0.0, 0.1), (math.inf, 0.1), (1.0, 0.0), (1.0, 1.0), (math.nan, 0.1)])
def test_impossible_arguments_are_refused(below, delta):
    with pytest.raises(InvalidInput, match="no such bound"):
        SumOfMeans(below, delta)


def test_a_restored_bound_goes_on_exactly():
    rng, bound = np.random.default_rng(5), SumOfMeans(1.0, 0.05)
    for value in rng.uniform(-1, 2, 50):
        bound.add(value, guess=-0.0)
    copy = bound.restored(bound.state_dict())
    for value in rng.uniform(-1, 2, 50):
        bound.add(value)
        copy.add(value)
    assert copy.lower == bound.lower and copy.n == bound.n
