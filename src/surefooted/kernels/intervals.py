"""Compiled confidence intervals of probabilities and mean rewards, for every set that is made of intervals.

`sets.confidence` states the formula of each kind, its event and its probability. `knowledge` uses the same intervals.
"""

import math
from typing import NamedTuple

from surefooted.arrays import Floats, Ints
from surefooted.kernels.compile import njit
from surefooted.kernels.rows import Rows
from surefooted.kernels.structs import Fields, Pool

SIMPLIFIED, BERNSTEIN, LIKELIHOOD = 0, 1, 2  # kinds of intervals
TINY = 1e-300  # a probability this small is 0
NEWTON_STEPS = 100  # many more than Newton's method takes
OUTWARDS = 1e-12  # computed ends of intervals are moved outwards by this much, to cover rounding
CROSSING = 1e-9  # bounds that cross by no more than this are equal up to rounding
MACHINE_EPSILON = 2.0**-52


class Share(NamedTuple):
    """The share of δ that one interval gets. The probability that any of the `intervals` fails is at most `delta`.

    The kind SIMPLIFIED makes no such promise: it has S A in place of the number of intervals.
    """

    kind: int
    intervals: int
    delta: float


class Sums(NamedTuple):
    """What was counted of each row: visits, the sum of the rewards and the sum of their squares."""

    visits: Ints  # [K]
    reward: Floats  # [K]
    square: Floats  # [K]


class Boxes(NamedTuple):
    """The intervals of a set in the order of the counts; `Rows` have them once more, in the order that kernels like.

    Both have row k at rows.first[k] .. rows.last[k] - 1, and may have gaps between rows.
    """

    r_lower: Floats  # [K]
    r_upper: Floats  # [K]
    next_state: Ints
    p_lower: Floats
    p_upper: Floats


@njit
def lower_end(successes: float, failures: float, level: float) -> float:
    """The smallest q with f(q) = k ln q + m ln(1 - q) - level >= 0, for k successes and m failures, from below.

    f is concave, so that Newton's iterates from a point where f < 0 stay on that side. Two such points are exp(level /
    k), since m ln(1 - q) <= 0, and by Pinsker's inequality p - sqrt(f(p) / (2 n)) for p = k / n, n = k + m.
    """
    n = successes + failures
    if failures <= OUTWARDS * n:  # as good as none, and leaving them out only lowers the end
        return math.exp(level / successes) * (1 - OUTWARDS)
    p = successes / n
    room = successes * math.log(p) + failures * math.log1p(-p) - level
    q = max(math.exp(level / successes), p - math.sqrt(max(room, 0.0) / (2 * n)))
    if q < TINY:
        return 0.0
    for _ in range(NEWTON_STEPS):
        excess = successes * math.log(q) + failures * math.log1p(-q) - level
        slope = successes / q - failures / (1 - q)
        if excess >= 0.0 or slope <= 0.0:  # as near as rounding lets it be
            break
        step = -excess / slope
        q += step
        if step <= OUTWARDS * q:
            break
    return q * (1 - OUTWARDS)


@njit
def likelihood_interval(successes: float, n: float, x: float) -> tuple[float, float]:
    """The q in [0, 1] with k ln q + (n - k) ln(1 - q) >= ln(B(k + ½, n - k + ½) / B(½, ½)) - x, k being `successes`.

    Its ends are widened by a little more than rounding.
    """
    failures = n - successes
    mixture = math.lgamma(successes + 0.5) + math.lgamma(failures + 0.5) - math.lgamma(n + 1.0) - math.log(math.pi)
    lower, upper = 0.0, 1.0
    if successes > 0.0:
        lower = lower_end(successes, failures, mixture - x)
    if failures > 0.0:
        upper = min(1.0 - lower_end(failures, successes, mixture - x) + OUTWARDS, 1.0)
        if successes == 0.0:
            upper = min(-math.expm1((mixture - x) / n) * (1 + OUTWARDS), 1.0)
    return lower, upper


@njit
def bernstein_width(kind: int, deviation: float, top: float, n: float, x: float) -> float:
    """Half the width of an interval after n draws in [0, top]: Bernstein's, or the simplified one of the paper."""
    if kind == SIMPLIFIED:
        return deviation * math.sqrt(x / n) + top * x / n
    return deviation * math.sqrt(2.0 * x / n) + 3.0 * top * x / n


@njit
def log_term(share: Share, n: float) -> float:
    """The log term x of one of `share.intervals` confidence intervals after n >= 1 draws."""
    if share.kind == BERNSTEIN:
        return math.log(3 * share.intervals * n * (n + 1) / share.delta)
    return math.log(share.intervals / share.delta)


@njit
def proportion(kind: int, successes: float, n: float, x: float) -> tuple[float, float]:
    """The interval of a probability after n >= 1 draws, with the log term x."""
    if kind == LIKELIHOOD:
        return likelihood_interval(successes, n, x)
    p = successes / n
    width = bernstein_width(kind, math.sqrt(p * (1 - p)), 1.0, n, x)
    return max(p - width, 0.0), min(p + width, 1.0)


@njit
def mean_distance(n: float, total: float, square: float, origin: float, sign: float, x: float) -> float:
    """A lower bound on |mean reward - origin| after n >= 1 rewards, all on one side of `origin`, with the log term x.

    They are above it if `sign` is 1, below it if `sign` is -1. Their distances d >= 0 have the sums s = Σ d and q = Σ
    d². With k = s² / q and m = n - k, the bound (docs/guarantees.md, Mean rewards) is q / s times the smallest p with

        k ln p + (m + 1) ln(1 - p) >= ln B(k + 1, m + 1) - ln(exp(x) + 1).

    It increases in s and decreases in q. Both are moved by more than the rounding of sums.
    """
    rounding = 4 * (n + 4) * MACHINE_EPSILON
    first = sign * (total - n * origin) - rounding * (abs(total) + 2 * n * abs(origin))
    second = square - 2 * origin * total + n * origin * origin + rounding * (square + n * origin * origin)
    if first <= 0.0 or second < TINY:
        return 0.0
    successes = min(first * (first / second), n)
    failures = n - successes
    mixture = math.lgamma(successes + 1.0) + math.lgamma(failures + 1.0) - math.lgamma(n + 2.0)
    level = mixture - x - math.log1p(math.exp(-x)) - OUTWARDS * n
    distance = second / first * lower_end(successes, failures + 1.0, level)
    return max(distance * (1 - OUTWARDS) - OUTWARDS * abs(origin), 0.0)


@njit
def mean_reward(
    share: Share, n: float, total: float, square: float, low: float, high: float, guarded: bool
) -> tuple[float, float]:
    """The interval of a mean reward after n >= 1 rewards in [low, high], given their sum and the sum of their squares.

    `guarded` allows for the rounding of the sums, at most n machine epsilons of them. It matters if [low, high] is much
    narrower than its distance from 0. LIKELIHOOD always allows for it; its two ends share one interval's δ.
    """
    if share.kind == LIKELIHOOD:
        x = log_term(share, n) + math.log(2.0)
        lower = low + mean_distance(n, total, square, low, 1.0, x)
        upper = high - mean_distance(n, total, square, high, -1.0, x)
        return min(lower, high), max(upper, low)
    top, lost = high - low, 0.0
    mean = total / n
    variance = max(square / n - mean * mean, 0.0)
    if guarded:
        variance += 4 * MACHINE_EPSILON * square
        lost = 2 * n * MACHINE_EPSILON * max(abs(low), abs(high))
    width = bernstein_width(share.kind, math.sqrt(variance), top, n, log_term(share, n)) + lost
    lower, upper = max(mean - width, low), min(mean + width, high)
    return min(lower, high), max(upper, low)


@njit
def fill_rows(
    share: Fields,
    n_states: int,
    r_max: float,
    sums: Fields,
    pool: Fields,
    todo: Ints,
    seen: Ints,
    boxes: Fields,
    rows: Fields,
) -> int:
    """Compute the intervals of those rows in `todo` whose visits differ from `seen` [K]; how many they were.

    The arrays of `boxes` and `rows` are at least as long as those of the pool, and have their rows in the same places.
    In `rows`, a row that stores all `n_states` states has them in their own order. `seen` is brought up to date.
    """
    share, sums, pool, boxes, rows = Share(*share), Sums(*sums), Pool(*pool), Boxes(*boxes), Rows(*rows)
    changed = 0
    for k in todo:
        if sums.visits[k] == seen[k]:
            continue
        seen[k] = sums.visits[k]
        changed += 1
        n = float(seen[k])
        rows.first[k], rows.last[k] = pool.start[k], pool.start[k] + pool.length[k]
        if n == 0.0:
            boxes.r_lower[k], boxes.r_upper[k], rows.unseen[k], rows.slack[k] = 0.0, r_max, 1.0, 1.0
            continue
        reward = mean_reward(share, n, sums.reward[k], sums.square[k], 0.0, r_max, False)
        boxes.r_lower[k], boxes.r_upper[k] = reward
        x = log_term(share, n)
        rows.unseen[k] = proportion(share.kind, 0.0, n, x)[1]
        kept = 0.0
        for j in range(rows.first[k], rows.last[k]):
            low, high = proportion(share.kind, float(pool.counted[j]), n, x)
            boxes.next_state[j], boxes.p_lower[j], boxes.p_upper[j] = pool.state[j], low, high
            place = rows.first[k] + pool.state[j] if pool.length[k] == n_states else j  # in the order of the states
            rows.next_state[place], rows.low[place], rows.room[place] = pool.state[j], low, high - low
            kept += low
        rows.slack[k] = max(1.0 - kept, 0.0)
    return changed
