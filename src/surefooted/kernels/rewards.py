"""Compiled bounds on mean rewards of which something was declared.

`knowledge.Knowledge.plausible` states the event. Row m of counts with stages is pair m % K of stage m // K.
"""

from typing import NamedTuple

from surefooted.arrays import Floats, Ints
from surefooted.kernels.compile import njit
from surefooted.kernels.intervals import CROSSING, OUTWARDS, Share, Sums, mean_reward
from surefooted.kernels.successors import FITS, REWARD

ESTIMATED, MEAN, FUNCTION = 0, 1, 2  # nothing but a range is known, or the means, or a function of where a step leads


class Levels(NamedTuple):
    """The values of a pair's reward function, increasing, and the block of noise or next states that has each."""

    ptr: Ints  # [K + 1]
    block: Ints
    value: Floats


class KnownRewards(NamedTuple):
    """What was declared of rewards: rewards lie in [low, high], means in [0, r_max] too."""

    what: int  # ESTIMATED, MEAN or FUNCTION
    ranged: bool  # whether the range was declared
    low: Floats  # [K]
    high: Floats  # [K]
    mean: Floats  # [K]
    levels: Levels
    r_max: float
    slack: float  # observed rewards may leave the range by this much


class BlockBounds(NamedTuple):
    """Bounds on the probabilities of blocks; those of stage h are `stride` h further on."""

    lower: Floats
    upper: Floats
    stride: int


@njit
def expected_value(levels: Levels, k: int, offset: int, lower: Floats, upper: Floats) -> tuple[float, float]:
    """The least and the largest mean of pair k's values over the probabilities between the bounds that sum to 1.

    Each probability begins at its lower bound. What is left of the mass goes to the least values first (or to the
    largest), each up to its upper bound: a fractional knapsack. Block b has the bounds at `offset` + b.
    """
    first, last, value = levels.ptr[k], levels.ptr[k + 1], levels.value
    base, top = value[first], value[last - 1]
    rest, mean = 1.0, 0.0
    for j in range(first, last):
        b = levels.block[j] + offset
        rest -= lower[b]
        mean += lower[b] * (value[j] - base)
    least, most, left = mean, mean, max(rest, 0.0)
    for j in range(first, last):
        b = levels.block[j] + offset
        moved = min(upper[b] - lower[b], left)
        least += moved * (value[j] - base)
        left -= moved
    left = max(rest, 0.0)
    for j in range(last - 1, first - 1, -1):
        b = levels.block[j] + offset
        moved = min(upper[b] - lower[b], left)
        most += moved * (value[j] - base)
        left -= moved
    most += left * (top - base)  # what rounding has left over
    pad = OUTWARDS * (max(abs(base), abs(top)) if top > base else 0.0)
    return base + least - pad, base + most + pad


@njit
def bound_rewards(
    share: Share, sums: Sums, known: KnownRewards, blocks: BlockBounds, fault: Ints, r_lower: Floats, r_upper: Floats
) -> None:
    """Intervals of mean rewards; a row whose rewards do not fit what was declared is faulty, and may earn anything.

    `share` is that of the intervals of the data: the rewards themselves if they are estimated; otherwise what is known
    is compared with them, or not if there are 0 intervals.
    """
    K, tolerance = len(known.low), CROSSING * known.r_max
    for m in range(len(sums.visits)):
        k, n = m % K, float(sums.visits[m])
        low, high = known.low[k], known.high[k]
        least, most = max(low, 0.0), min(high, known.r_max)
        a, b = least, most
        fits = True
        if known.ranged and n > 0.0:
            fits = low - known.slack <= sums.reward[m] / n <= high + known.slack
        if n > 0.0 and low < high and share.intervals > 0:
            a, b = mean_reward(share, n, sums.reward[m], sums.square[m], low, high, known.ranged)
            if known.ranged:
                fits = fits and a <= b + tolerance
                a, b = max(a, least), min(b, most)
                fits = fits and a <= b + tolerance
        if known.what == MEAN:
            fits = fits and a - tolerance <= known.mean[k] <= b + tolerance
            a, b = known.mean[k], known.mean[k]
        elif known.what == FUNCTION and fault[m] == FITS:
            c, d = expected_value(known.levels, k, blocks.stride * (m // K), blocks.lower, blocks.upper)
            a, b = max(a, c), min(b, d)
            fits = fits and a <= b + tolerance
        if not fits:
            fault[m] |= REWARD
            a, b = 0.0, known.r_max
        if (known.ranged or known.what != ESTIMATED) and a > b:
            a, b = b, a
        r_lower[m], r_upper[m] = a, b
