"""Compiled confidence intervals: the widths of `confidence` whose rows depend on their own counts alone.

Because they do, a set can follow its counts: only the rows visited since are made anew.
"""

import math

import numpy as np
from numpy.typing import NDArray

from surefooted.kernels.compile import njit
from surefooted.kernels.rows import Rows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SIMPLIFIED, BERNSTEIN, LIKELIHOOD = 0, 1, 2
TINY = 1e-300  # a probability this small is 0
STEPS = 100  # of Newton's method, many more than it takes
ROUNDING = 1e-12  # what an end is moved outwards by, relatively


@njit
def lower_end(successes: float, failures: float, level: float) -> float:
    """The smallest q with f(q) = k ln q + m ln(1 - q) - level >= 0, for k successes and m failures, from below.

    f is concave, so that Newton's iterates from a point where f < 0 stay on that side. Two such points are exp(level /
    k), since m ln(1 - q) <= 0, and by Pinsker's inequality p - sqrt(f(p) / (2 n)) for p = k / n, n = k + m.
    """
    n = successes + failures
    if failures <= ROUNDING * n:  # as good as none, and leaving them out only lowers the end
        return math.exp(level / successes) * (1 - ROUNDING)
    p = successes / n
    room = successes * math.log(p) + failures * math.log1p(-p) - level
    q = max(math.exp(level / successes), p - math.sqrt(max(room, 0.0) / (2 * n)))
    if q < TINY:
        return 0.0
    for _ in range(STEPS):
        excess = successes * math.log(q) + failures * math.log1p(-q) - level
        slope = successes / q - failures / (1 - q)
        if excess >= 0.0 or slope <= 0.0:  # as near as rounding lets it be
            break
        step = -excess / slope
        q += step
        if step <= ROUNDING * q:
            break
    return q * (1 - ROUNDING)


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
        upper = min(1.0 - lower_end(failures, successes, mixture - x) + ROUNDING, 1.0)
        if successes == 0.0:
            upper = min(-math.expm1((mixture - x) / n) * (1 + ROUNDING), 1.0)
    return lower, upper


@njit
def bernstein_width(deviation: float, top: float, x: float, n: float, spread: float, linear: float) -> float:
    """Bernstein's half-width: deviation sqrt(spread x / n) + linear top x / n."""
    return deviation * math.sqrt(spread * x / n) + linear * top * x / n


@njit
def fill_rows(
    kind: int,
    delta: float,
    n_states: int,
    n_actions: int,
    r_max: float,
    visits: Ints,
    reward_sum: Floats,
    reward_square: Floats,
    row_start: Ints,
    row_length: Ints,
    pool_state: Ints,
    pool_count: Ints,
    todo: Ints,
    seen: Ints,
    r_lower: Floats,
    r_upper: Floats,
    p_state: Ints,
    p_lower: Floats,
    p_upper: Floats,
    rows: Rows,
) -> int:
    """Make the intervals of the rows in `todo` whose `visits` [K] differ from `seen` [K] anew; how many they were.

    Row k was counted in pool_count[row_start[k] : row_start[k] + row_length[k]], and its successors and intervals,
    p_state, p_lower and p_upper, go to the same places of arrays as long; `rows` gets the same as the kernels take it,
    sorted as they like. `seen` is brought up to date. The formulas, their events and their probabilities stand in
    `confidence`, under the name of each kind.
    """
    K = len(visits)
    spread, linear = (1.0, 1.0) if kind == SIMPLIFIED else (2.0, 3.0)
    changed = 0
    for k in todo:
        if visits[k] == seen[k]:
            continue
        seen[k] = visits[k]
        changed += 1
        n = float(visits[k])
        first, last = row_start[k], row_start[k] + row_length[k]
        rows.first[k], rows.last[k] = first, last
        if n == 0.0:
            r_lower[k], r_upper[k], rows.unseen[k], rows.slack[k] = 0.0, r_max, 1.0, 1.0
            continue
        mean = reward_sum[k] / n
        deviation = math.sqrt(max(reward_square[k] / n - mean * mean, 0.0))
        if kind == SIMPLIFIED:
            x = math.log(n_states * n_actions / delta)
            y = x
        elif kind == BERNSTEIN:
            x = math.log(3 * (n_states + 1) * K * n * (n + 1) / delta)
            y = x
        else:
            x = math.log((n_states + 2) * K / delta)
            y = math.log(3 * (n_states + 2) * K * n * (n + 1) / delta)
        width = bernstein_width(deviation, r_max, y, n, spread, linear)
        low, high = max(mean - width, 0.0), min(mean + width, r_max)
        if kind == LIKELIHOOD:
            a, b = likelihood_interval(min(max(reward_sum[k] / r_max, 0.0), n), n, x)
            low, high = max(low, r_max * a), min(high, r_max * b)
        r_lower[k], r_upper[k] = min(low, r_max), max(high, 0.0)
        if kind == LIKELIHOOD:
            rows.unseen[k] = likelihood_interval(0.0, n, x)[1]
        else:
            rows.unseen[k] = min(linear * x / n, 1.0)
        kept = 0.0
        for j in range(first, last):
            if kind == LIKELIHOOD:
                p_lower[j], p_upper[j] = likelihood_interval(float(pool_count[j]), n, x)
            else:
                p = pool_count[j] / n
                width = bernstein_width(math.sqrt(p * (1 - p)), 1.0, x, n, spread, linear)
                p_lower[j], p_upper[j] = max(p - width, 0.0), min(p + width, 1.0)
            p_state[j] = pool_state[j]
            rows.next_state[j], rows.low[j], rows.room[j] = pool_state[j], p_lower[j], p_upper[j] - p_lower[j]
            kept += p_lower[j]
        rows.slack[k] = max(1.0 - kept, 0.0)
    return changed
