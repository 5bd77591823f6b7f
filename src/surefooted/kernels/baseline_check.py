"""Compiled sums and e-values of `knowledge.baseline_check`, where the theorem is.

For average reward, a *place* is a state and its worth is the bias. For a finite horizon, place h S + s is state s at
stage h, and its worth is the value V_h(s). Surprises are measured in units of their range, so that they lie in [-1, 1].
"""

import math
from typing import NamedTuple

from surefooted.arrays import Bools, Floats, Ints
from surefooted.kernels.compile import allocating, njit
from surefooted.kernels.rows import Rows, extreme
from surefooted.kernels.sorting import rank_states, workspace
from surefooted.kernels.structs import Fields


class Surprises(NamedTuple):
    """What was declared of a baseline, and the sums of the surprises at each place; the last row adds up all places."""

    worth: Floats  # [places], with those after the last stage
    alone: Ints  # [places]: the only pair that the baseline plays there, -1 where it randomises
    gain: float  # 0 for a finite horizon
    range_: float
    stride: int  # how far apart the places of a state at two stages are; 0 for average reward
    sums: Floats  # [places + 1, 4]: steps, the sum of the surprises, that of their squares, and how many are hidden


@njit
def add_surprise(sums: Floats, place: int, surprise: float) -> None:
    """Count one surprise, cut to [-1, 1], at its place and in the total."""
    d = min(max(surprise, -1.0), 1.0)
    for row in (place, len(sums) - 1):
        sums[row, 0] += 1.0
        sums[row, 1] += d
        sums[row, 2] += d * d


@njit
def add_steps(surprises: Fields, s: int, pairs: Ints, rewards: Floats, next_states: Ints, explored: Bools) -> None:
    """Count the steps from s on at which the baseline chose, or could have chosen nothing else.

    `explored` [n] says at which steps something else than the baseline chose; empty: at none.
    """
    told = Surprises(*surprises)
    for t in range(len(pairs)):
        place, s = s + t * told.stride, next_states[t]
        if len(explored) == 0 or not explored[t] or pairs[t] == told.alone[place]:
            after = rewards[t] + told.worth[s + (t + 1) * told.stride]
            add_surprise(told.sums, place, (after - told.worth[place] - told.gain) / told.range_)


@njit
def add_episode(sums: Floats, s: int, rewards: Floats, value: float, range_: float) -> None:
    """Count the return of an episode from s as one surprise."""
    total = 0.0
    for r in rewards:
        total += r
    add_surprise(sums, s, (total - value) / range_)


@njit
def largest_bet(total: float, variance: float, lambda_: Floats, psi: Floats) -> float:
    """The largest λ_j total - ψ_j variance: at least `log_mean_exp`, and quicker."""
    top = -math.inf
    for j in range(len(lambda_)):
        top = max(top, lambda_[j] * total - psi[j] * variance)
    return top


@njit
def log_mean_exp(total: float, variance: float, lambda_: Floats, psi: Floats) -> float:
    """The logarithm of the mean of exp(λ_j total - ψ_j variance) over j."""
    top, mean = largest_bet(total, variance, lambda_, psi), 0.0
    for j in range(len(lambda_)):
        mean += math.exp(lambda_[j] * total - psi[j] * variance - top)
    return top + math.log(mean / len(lambda_))


@njit
def evidence(sums: Floats, tolerance: float, lambda_: Floats, psi: Floats, least: float, out: Floats) -> None:
    """The logarithm of the two-sided e-value of each row of `sums`, [places + 1]; below `least`, an upper bound on it.

    Each side is about ξ = D - tolerance, or -D - tolerance, whose squares add up to the sum below. Surprises that are
    hidden count at their worst, which is -1 for the first side and 1 for the second: λ ξ - ψ ξ² is concave, and least
    there.
    """
    for row in range(len(sums)):
        n, total, square, hidden = sums[row, 0], sums[row, 1], sums[row, 2], sums[row, 3]
        out[row] = 0.0
        if n > 0.0:
            shifted = square + n * tolerance * tolerance
            lowest, highest = total - hidden, total + hidden
            above, squares = lowest - n * tolerance, shifted - 2.0 * tolerance * lowest
            below, others = -highest - n * tolerance, shifted + 2.0 * tolerance * highest
            bound = max(largest_bet(above, squares, lambda_, psi), largest_bet(below, others, lambda_, psi))
            out[row] = bound
            if bound >= least:
                more = log_mean_exp(above, squares, lambda_, psi)
                less = log_mean_exp(below, others, lambda_, psi)
                top = max(more, less)
                out[row] = top + math.log((math.exp(more - top) + math.exp(less - top)) / 2.0)


@allocating
def outcomes(rows: Rows, r: Floats, sign: float, worth: Floats, weights: Floats, out: Floats) -> None:
    """The largest (`sign` 1) or least (-1) r + p worth over plausible rows p, of choices with a weight, [H, K].

    `worth` [H + 1, S] has one row for average reward. Where stages share their rows, so do their choices.
    """
    n, K = len(r), weights.shape[1]
    work = workspace(worth.shape[1])
    for h in range(len(weights)):
        after = worth[min(h + 1, len(worth) - 1)]
        rank_states(after, sign, work)
        for k in range(K):
            if weights[h, k] > 0.0:
                row = (h * K + k) % n
                out[h, k] = r[row] + extreme(rows, row, after, work)
