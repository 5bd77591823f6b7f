"""Compiled bets on a sum of conditional means; `certificates.martingale` has the theorem."""

import math
from typing import NamedTuple

from surefooted.arrays import Floats
from surefooted.kernels.compile import njit

OUTWARDS = 1e-12  # computed bounds are lowered by this share of their terms, to cover rounding
NEWTON_STEPS = 50  # many more than Newton's method takes


class Bets(NamedTuple):
    """One bet for each λ: after n steps, `log_wealth` is the sum of ln(1 + λ (D_i - X_i)), X_i being the guesses.

    The second row of `log_wealth` and the second entry of `guessed` hold what rounding has left out of the first.
    """

    lambda_: Floats  # [J]
    log_weight: Floats  # [J]
    log_wealth: Floats  # [2, J]
    guessed: Floats  # [2], the sum of the guesses


@njit
def add_exactly(sums: Floats, j: int, x: float) -> None:
    """Add x to the sum in column j of `sums` [2, J], whose second row holds what rounding has left out of the first."""
    before = sums[0, j]
    after = before + x
    sums[0, j] = after
    sums[1, j] += (before - after) + x if abs(before) >= abs(x) else (x - after) + before


@njit
def place_bets(bets: Bets, value: float, guess: float) -> None:
    """One more step: `value` was observed where `guess` was expected; value - guess > -1 / λ for every λ."""
    surprise = value - guess
    for j in range(len(bets.lambda_)):
        add_exactly(bets.log_wealth, j, math.log1p(bets.lambda_[j] * surprise))
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
