"""Compiled bets on a sum of conditional means, and on one mean; `certificates.martingale` has the theorems."""

import math
from typing import NamedTuple

from surefooted.arrays import Floats
from surefooted.kernels.compile import njit

OUTWARDS = 1e-12  # computed bounds are lowered by this share of their terms, to cover rounding
ROUNDING = 2.0**-50  # relative: more than the rounding of a few operations
NEWTON_STEPS = 50  # many more than Newton's method takes
FIRST_BET, NEXT_BET, MEAN_BETS = 0.9, 0.62, 24  # the bets on one mean: 0.9, 0.9 x 0.62, ...


class Bets(NamedTuple):
    """One bet for each λ: after n steps, `log_wealth` is the sum of ln(1 + λ (D_i - X_i)), X_i being the guesses.

    The second row of `log_wealth` and the second entry of `guessed` hold what rounding has left out of the first.
    """

    lambda_: Floats  # [J]
    log_weight: Floats  # [J]
    log_wealth: Floats  # [2, J]
    guessed: Floats  # [2], the sum of the guesses


@njit
def place_bets(bets: Bets, value: float, guess: float) -> None:
    """One more step: `value` was observed where `guess` was expected; value - guess > -1 / λ for every λ."""
    surprise = value - guess
    for j in range(len(bets.lambda_)):
        gain = math.log1p(bets.lambda_[j] * surprise)
        before = bets.log_wealth[0, j]
        after = before + gain
        bets.log_wealth[0, j] = after
        bets.log_wealth[1, j] += (before - after) + gain if abs(before) >= abs(gain) else (gain - after) + before
    before, after = bets.guessed[0], bets.guessed[0] + guess
    bets.guessed[0] = after
    bets.guessed[1] += (before - after) + guess if abs(before) >= abs(guess) else (guess - after) + before


@njit
def sum_of_means(bets: Bets, threshold: float) -> float:
    """The smallest sum of conditional means for which the mixture of all bets is worth at most e^threshold.

    With s the sum of means minus guesses, ln sum_j w_j exp(L_j - λ_j s) decreases in s and is convex. Newton's iterates
    from the left of its crossing with `threshold` stay on the left: each is a valid lower bound.
    """
    n = len(bets.lambda_)
    s = -math.inf
    for j in range(n):  # the crossing of the best single bet
        wealth = bets.log_wealth[0, j] + bets.log_wealth[1, j]
        s = max(s, (bets.log_weight[j] + wealth - threshold) / bets.lambda_[j])
    for _ in range(NEWTON_STEPS):
        top = -math.inf
        for j in range(n):
            wealth = bets.log_wealth[0, j] + bets.log_wealth[1, j]
            top = max(top, bets.log_weight[j] + wealth - bets.lambda_[j] * s)
        total, slope = 0.0, 0.0
        for j in range(n):
            wealth = bets.log_wealth[0, j] + bets.log_wealth[1, j]
            term = math.exp(bets.log_weight[j] + wealth - bets.lambda_[j] * s - top)
            total += term
            slope += bets.lambda_[j] * term
        step = (top + math.log(total) - threshold) * total / slope
        s += step
        if step <= OUTWARDS * (1.0 + abs(s)):
            break
    guessed = bets.guessed[0] + bets.guessed[1]
    bound: float = guessed + s - OUTWARDS * (abs(guessed) + abs(s))
    return bound


@njit
def mean_at_least(n: float, total: float, square: float, x: float) -> float:
    """A lower bound on the mean of n values in [0, 1], given their sum and the sum of their squares; x = ln(1 / δ').

    The best of several bets λ, the j-th of which has the share 1 / ((j + 1) (j + 2)) of δ'.
    """
    best, lambda_ = 0.0, FIRST_BET
    if n <= 0.0 or total <= 0.0:
        return best
    total, square = total * (1 - n * ROUNDING), square * (1 + n * ROUNDING)  # sums of n terms are rounded n times
    for j in range(MEAN_BETS):
        psi = -math.log1p(-lambda_) - lambda_
        c = (lambda_ + psi) * n + x + math.log((j + 1.0) * (j + 2.0))
        b = (lambda_ + 2 * psi) * total
        d = b * b * (1 - ROUNDING) - 4 * psi * square * c * (1 + ROUNDING)
        if d >= 0.0:
            best = max(best, (b + math.sqrt(d)) / (2 * c))
        lambda_ *= NEXT_BET
    return best * (1 - OUTWARDS)
