"""Two copies of the baseline that meet the same noise: what beginning in one state is worth more than in another.

The law of the noise is unknown, but it is the same for both. So only what differs between the copies is uncertain.
docs/guarantees.md, "One law for all", has the proof.
"""

from typing import NamedTuple

import numpy as np

from surefooted.arrays import Floats, Ints
from surefooted.kernels.compile import allocating, njit


class LawBounds(NamedTuple):
    """Bounds on the law of a noise with the values 0 .. n - 1: on each value, and on each tail {j, .., n - 1}."""

    value_low: Floats  # [n]
    value_high: Floats  # [n]
    tail_low: Floats  # [n]
    tail_high: Floats  # [n]


@njit
def least_mean(w: Floats, law: LawBounds, order: Ints) -> float:
    """At most the mean of w [n] under any law within the bounds; `order` [n] holds 0 .. n - 1, and becomes sorted.

    Two bounds are computed, and the larger one counts. Values are filled up from the smallest w on. By parts, the mean
    is w_0 plus the sum of (w_j - w_{j-1}) P(tail j), where each tail is at the end that hurts.
    """
    n = len(w)
    by_value, rest = 0.0, 1.0
    for i in range(1, n):  # nearly sorted by the call before
        j, moving = i, order[i]
        while j > 0 and w[order[j - 1]] > w[moving]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = moving
    for i in range(n):
        by_value += law.value_low[i] * w[i]
        rest -= law.value_low[i]
    for i in range(n):
        if rest <= 0.0:
            break
        moved = min(law.value_high[order[i]] - law.value_low[order[i]], rest)
        by_value += moved * w[order[i]]
        rest -= moved
    if rest > 0.0:
        by_value += rest * w[order[0]]
    by_tail = w[0]
    for j in range(1, n):
        rise = w[j] - w[j - 1]
        by_tail += rise * (law.tail_low[j] if rise > 0.0 else law.tail_high[j])
    least: float = max(by_value, by_tail)
    return least


@allocating
def compare_states(
    after: Ints,
    reward: Floats,
    base: tuple[Floats, Floats],
    law: LawBounds,
    limits: tuple[float, int, float],
    v: Floats,
) -> tuple[float, int]:
    """`v` [S, S], a guess, becomes about the least that a copy from x collects more than one from y until they meet.

    Copy x goes to after[x, ξ] and collects base[0][x] + reward[x, ξ], copy y likewise with base[1]. v is 0 where x = y,
    and stays so. The error e >= 0 of the v that is returned: everywhere else v is at most e more than what any law
    makes of one step and v after it. It ends if no entry moves by more than limits[0], after limits[1] sweeps, or if an
    entry is beyond limits[2]. Also returned: the sweeps made.
    """
    S, n = after.shape
    w, order, new = np.empty(n), np.arange(n), np.zeros((S, S))
    tolerance, most, largest = limits
    sweep = 0
    while True:
        error, moved, beyond = 0.0, 0.0, 0.0
        for x in range(S):
            for y in range(S):
                if x == y:
                    continue
                for i in range(n):
                    w[i] = reward[x, i] - reward[y, i] + v[after[x, i], after[y, i]]
                new[x, y] = base[0][x] - base[1][y] + least_mean(w, law, order)
                error, moved = max(error, v[x, y] - new[x, y]), max(moved, abs(new[x, y] - v[x, y]))
                beyond = max(beyond, abs(new[x, y]))
        sweep += 1
        if moved <= tolerance or sweep >= most or beyond > largest:
            return error, sweep
        for x in range(S):
            for y in range(S):
                v[x, y] = new[x, y]


@allocating
def value_departures(
    after: Ints, reward: Floats, r: tuple[Floats, Floats], pair_state: Ints, played: Ints, law: LawBounds, v: Floats,
    worth: Floats,
) -> None:  # fmt: skip
    """`worth` [K]: the least that a pair and then the baseline earn more than the baseline's own pair in that state.

    `after` and `reward` are [K, n], `r` [K] each what pairs earn beside `reward`, at least and at most; `played` [S] is
    the baseline, and v [S, S] at most the difference of its bias between two states.
    """
    n = after.shape[1]
    w, order = np.empty(n), np.arange(n)
    for k in range(len(worth)):
        own = played[pair_state[k]]
        if own == k:
            worth[k] = 0.0
            continue
        for i in range(n):
            w[i] = reward[k, i] - reward[own, i] + v[after[k, i], after[own, i]]
        worth[k] = r[0][k] - r[1][own] + least_mean(w, law, order)
