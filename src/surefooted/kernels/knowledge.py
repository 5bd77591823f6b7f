"""Compiled intervals of a set whose structure is known: declared successors, shared noise, declared rewards.

The events and their probabilities stand in `knowledge`. Row m of counts with stages is pair m % K of stage m // K.
"""

import math

import numpy as np
from numpy.typing import NDArray

from surefooted.kernels.compile import njit
from surefooted.kernels.intervals import BERNSTEIN, LIKELIHOOD, SIMPLIFIED, bernstein_width, likelihood_interval

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

ESTIMATED, MEAN, FUNCTION = 0, 1, 2  # what is known of rewards
FITS, OUTSIDE, EMPTY, REWARD, DOUBT = 0, 1, 2, 4, 8  # faults of a row; they add up
TOLERANCE = 1e-9  # by how much two bounds may cross and be equal but for rounding
ROUNDING = 1e-12  # what a bound that was computed as a difference is moved outwards by
EPSILON = 2.0**-52


@njit
def level(kind: int, intervals: int, delta: float, simple: int, n: float) -> float:
    """The x of an interval from n draws, one of so many; `simple` is S A."""
    if kind == SIMPLIFIED:
        return math.log(simple / delta)
    if kind == BERNSTEIN:
        return math.log(3 * intervals * n * (n + 1) / delta)
    return math.log(intervals / delta)


@njit
def proportion(kind: int, successes: float, n: float, x: float) -> tuple[float, float]:
    """The interval of a probability after n >= 1 draws."""
    if kind == LIKELIHOOD:
        return likelihood_interval(successes, n, x)
    spread, linear = (1.0, 1.0) if kind == SIMPLIFIED else (2.0, 3.0)
    p = successes / n
    width = bernstein_width(math.sqrt(p * (1 - p)), 1.0, x, n, spread, linear)
    return max(p - width, 0.0), min(p + width, 1.0)


@njit
def mean_reward(
    kind: int,
    intervals: int,
    delta: float,
    simple: int,
    n: float,
    total: float,
    square: float,
    low: float,
    high: float,
    guarded: bool,
) -> tuple[float, float]:
    """The interval of a mean reward after n >= 1 rewards in [low, high].

    `guarded` allows for the rounding of the sums, at most n EPSILON of them: it matters when [low, high] is much
    narrower than its distance from 0.
    """
    spread, linear = (1.0, 1.0) if kind == SIMPLIFIED else (2.0, 3.0)
    top, lost = high - low, 0.0
    mean = total / n
    variance = max(square / n - mean * mean, 0.0)
    if guarded:
        variance += 4 * EPSILON * square
        lost = 2 * n * EPSILON * max(abs(low), abs(high))
    y = level(BERNSTEIN if kind == LIKELIHOOD else kind, intervals, delta, simple, n)
    width = bernstein_width(math.sqrt(variance), top, y, n, spread, linear) + lost
    lower, upper = max(mean - width, low), min(mean + width, high)
    if kind == LIKELIHOOD:
        x = level(kind, intervals, delta, simple, n)
        gap = n * lost / top
        successes = (total - n * low) / top
        a, b = likelihood_interval(min(max(successes - gap, 0.0), n), n, x)
        if guarded:
            b = likelihood_interval(min(max(successes + gap, 0.0), n), n, x)[1]
        lower, upper = max(lower, low + top * a - lost), min(upper, low + top * b + lost)
    return min(lower, high), max(upper, low)


@njit
def fill_declared(
    kind: int,
    intervals: int,
    delta: float,
    simple: int,
    visits: Ints,
    ptr: Ints,
    state: Ints,
    count: Ints,
    declared: Bools,
    own_ptr: Ints,
    own_state: Ints,
    next_ptr: Ints,
    seen: Ints,
    where: Ints,
    next_state: Ints,
    p_lower: Floats,
    p_upper: Floats,
    unseen: Floats,
    fault: Ints,
) -> None:
    """Rows of pairs whose successors are `declared` [K] (all of them, seen or not) or not (those seen, and `unseen`).

    Row m was counted in state[ptr[m] : ptr[m + 1]]; rows whose visits are those already `seen` are left as they are.
    `where` [S] is -1 everywhere, before and after. A row that was seen to lead outside its successors may lead
    anywhere.
    """
    K = len(declared)
    spread = 1.0 if kind == SIMPLIFIED else 3.0
    for m in range(len(visits)):
        if visits[m] == seen[m]:
            continue
        k, n, first = m % K, float(visits[m]), next_ptr[m]
        x = level(kind, intervals, delta, simple, n) if n > 0.0 else 0.0
        unseen[m] = 0.0
        zero = (0.0, 1.0)
        if n > 0.0 and kind == LIKELIHOOD:
            zero = likelihood_interval(0.0, n, x)
        elif n > 0.0:
            zero = (0.0, min(spread * x / n, 1.0))
        if not declared[k]:
            unseen[m] = zero[1]
            for i in range(ptr[m], ptr[m + 1]):
                j = first + i - ptr[m]
                next_state[j] = state[i]
                p_lower[j], p_upper[j] = proportion(kind, float(count[i]), n, x)
            continue
        for j in range(first, next_ptr[m + 1]):
            y = own_state[own_ptr[k] + j - first]
            next_state[j], where[y], p_lower[j] = y, j, 0.0
        outside = 0
        for i in range(ptr[m], ptr[m + 1]):
            if where[state[i]] >= 0:
                p_lower[where[state[i]]] = count[i]
            else:
                outside += count[i]
        one = next_ptr[m + 1] - first == 1
        for j in range(first, next_ptr[m + 1]):
            where[next_state[j]] = -1
            if outside > 0:
                p_lower[j], p_upper[j] = 0.0, 1.0
            elif one:
                p_lower[j], p_upper[j] = 1.0, 1.0
            elif p_lower[j] == 0.0:
                p_lower[j], p_upper[j] = zero
            else:
                p_lower[j], p_upper[j] = proportion(kind, p_lower[j], n, x)
        if outside > 0:
            unseen[m] = 1.0
            fault[m] |= OUTSIDE


@njit
def count_classes(
    stages: int,
    ptr: Ints,
    state: Ints,
    count: Ints,
    next_ptr: Ints,
    next_state: Ints,
    draw_ptr: Ints,
    draw_partition: Ints,
    class_ptr: Ints,
    cell_class: Ints,
    where: Ints,
    partition_draws: Ints,
    class_count: Ints,
    fault: Ints,
) -> None:
    """How many draws each partition has had and how often each of its classes came up, over all stages.

    Steps that led outside the cells of their pair are left out, and make its row a faulty one, `fault` [K].
    """
    K = len(next_ptr) - 1
    for k in range(K):
        draws = draw_ptr[k + 1] - draw_ptr[k]
        for j in range(next_ptr[k], next_ptr[k + 1]):
            where[next_state[j]] = j
        inside = 0
        for h in range(stages):
            m = h * K + k
            for i in range(ptr[m], ptr[m + 1]):
                j = where[state[i]]
                if j < 0:
                    fault[k] |= OUTSIDE
                    continue
                inside += count[i]
                at = class_ptr[k] + (j - next_ptr[k]) * draws
                for d in range(draws):
                    class_count[cell_class[at + d]] += count[i]
        for d in range(draw_ptr[k], draw_ptr[k + 1]):
            partition_draws[draw_partition[d]] += inside
        for j in range(next_ptr[k], next_ptr[k + 1]):
            where[next_state[j]] = -1


@njit
def bound_events(
    kind: int,
    intervals: int,
    delta: float,
    simple: int,
    partition_draws: Ints,
    class_count: Ints,
    event_law: Ints,
    complement: Ints,
    interval: Ints,
    flipped: Bools,
    decides_ptr: Ints,
    decides: Ints,
    inside_ptr: Ints,
    inside: Ints,
    family_ptr: Ints,
    member_ptr: Ints,
    member: Ints,
    covers: Bools,
    whole_ptr: Ints,
    whole_member_ptr: Ints,
    whole_member: Ints,
    lower: Floats,
    upper: Floats,
    crossed: Bools,
) -> None:
    """Bounds on the probability of each event, and which laws [L] have none that fit.

    First what its own draws say, then what follows: an event is at least as likely as disjoint events within it
    together, exactly as likely if they cover it, and its complement takes the rest. Events come after those they hold.
    """
    for e in range(len(lower)):
        lower[e], upper[e] = 0.0, 1.0
        i = interval[e]
        if i < 0:
            continue
        n, hits = 0, 0
        for j in range(decides_ptr[i], decides_ptr[i + 1]):
            n += partition_draws[decides[j]]
        for j in range(inside_ptr[i], inside_ptr[i + 1]):
            hits += class_count[inside[j]]
        if n > 0:
            successes = float(n - hits if flipped[e] else hits)
            lower[e], upper[e] = proportion(kind, successes, float(n), level(kind, intervals, delta, simple, float(n)))
    for _ in range(2):
        for e in range(len(lower)):
            for f in range(family_ptr[e], family_ptr[e + 1]):
                least, most = 0.0, 0.0
                for j in range(member_ptr[f], member_ptr[f + 1]):
                    least += lower[member[j]]
                    most += upper[member[j]]
                lower[e] = max(lower[e], least)
                if covers[f]:
                    upper[e] = min(upper[e], most)
        for e in range(len(lower)):
            upper[e] = min(upper[e], 1.0 - lower[complement[e]] + ROUNDING)
        for e in range(len(lower)):
            lower[e] = max(lower[e], 1.0 - upper[complement[e]] - ROUNDING)
    for e in range(len(lower)):
        if lower[e] > upper[e]:
            crossed[event_law[e]] |= lower[e] > upper[e] + TOLERANCE
            lower[e], upper[e] = upper[e], lower[e]
    for law in range(len(whole_ptr) - 1):
        for f in range(whole_ptr[law], whole_ptr[law + 1]):
            least = 0.0
            for j in range(whole_member_ptr[f], whole_member_ptr[f + 1]):
                least += lower[whole_member[j]]
            crossed[law] |= least > 1.0 + TOLERANCE


@njit
def bound_blocks(
    lower: Floats,
    upper: Floats,
    term_ptr: Ints,
    factor_ptr: Ints,
    factor: Ints,
    joint: Ints,
    low: Floats,
    high: Floats,
) -> None:
    """Bounds on the probability of each block: sums of products of the ends, or those of the joint law if narrower."""
    for b in range(len(low)):
        least, most = 0.0, 0.0
        for t in range(term_ptr[b], term_ptr[b + 1]):
            one, other = 1.0, 1.0
            for j in range(factor_ptr[t], factor_ptr[t + 1]):
                one *= lower[factor[j]]
                other *= upper[factor[j]]
            least += one
            most += other
        if joint[b] >= 0:
            least, most = max(least, lower[joint[b]]), min(most, upper[joint[b]])
        low[b], high[b] = least, min(most, 1.0)


@njit
def close_rows(next_ptr: Ints, low: Floats, high: Floats, unseen: Floats, fault: Ints) -> None:
    """Cut each row's bounds to what the others leave; a row that is faulty, or that no distribution fits, has none."""
    for k in range(len(unseen)):
        first, last = next_ptr[k], next_ptr[k + 1]
        least, most, fits = 0.0, 0.0, True
        for j in range(first, last):
            least += low[j]
            most += high[j]
            fits = fits and low[j] <= high[j] + TOLERANCE
        if not fits or least > 1.0 + TOLERANCE or most < 1.0 - TOLERANCE:
            fault[k] |= EMPTY
        unseen[k] = 0.0 if fault[k] == FITS else 1.0
        for j in range(first, last):
            if fault[k] != FITS:
                low[j], high[j] = 0.0, 1.0
                continue
            a, b = min(low[j], high[j]), max(low[j], high[j])
            low[j] = min(max(a, 1.0 - (most - high[j]) - ROUNDING), 1.0)
            high[j] = max(min(b, 1.0 - (least - a) + ROUNDING), low[j])


@njit
def expected_value(
    first: int, last: int, block: Ints, value: Floats, offset: int, low: Floats, high: Floats
) -> tuple[float, float]:
    """The least and the largest mean of `value` over the probabilities between low and high that sum to 1.

    value[first:last] increases, and belongs to low[block + offset]. All begin at their lower end; the rest of the mass
    goes to the least values first (or to the largest), each up to its upper end: a fractional knapsack.
    """
    base, top = value[first], value[last - 1]
    rest, mean = 1.0, 0.0
    for j in range(first, last):
        b = block[j] + offset
        rest -= low[b]
        mean += low[b] * (value[j] - base)
    least, most, left = mean, mean, max(rest, 0.0)
    for j in range(first, last):
        b = block[j] + offset
        moved = min(high[b] - low[b], left)
        least += moved * (value[j] - base)
        left -= moved
    left = max(rest, 0.0)
    for j in range(last - 1, first - 1, -1):
        b = block[j] + offset
        moved = min(high[b] - low[b], left)
        most += moved * (value[j] - base)
        left -= moved
    most += left * (top - base)  # what rounding has left over
    pad = ROUNDING * (max(abs(base), abs(top)) if top > base else 0.0)
    return base + least - pad, base + most + pad


@njit
def fill_rewards(
    kind: int,
    intervals: int,
    delta: float,
    tests: int,
    test_delta: float,
    simple: int,
    r_max: float,
    visits: Ints,
    reward_sum: Floats,
    reward_square: Floats,
    known: int,
    ranged: bool,
    range_low: Floats,
    range_high: Floats,
    mean: Floats,
    reward_ptr: Ints,
    block: Ints,
    value: Floats,
    stride: int,
    low: Floats,
    high: Floats,
    slack: float,
    fault: Ints,
    r_lower: Floats,
    r_upper: Floats,
) -> None:
    """Intervals of mean rewards; a pair whose rewards do not fit what is known of them may earn anything.

    `known` is ESTIMATED, MEAN or FUNCTION. Estimated rewards have one of so many `intervals`, known ones are compared
    with one of so many `tests`, unless that is 0. Rewards lie in [range_low, range_high] [K], means in [0, r_max] too;
    `ranged` if that was declared. Observed rewards may leave the range by `slack`. The blocks of stage h are `stride` h
    further on.
    """
    K = len(range_low)
    for m in range(len(visits)):
        k, n = m % K, float(visits[m])
        least, most = max(range_low[k], 0.0), min(range_high[k], r_max)
        a, b = least, most
        fits = True
        if ranged and n > 0.0:
            seen = reward_sum[m] / n
            fits = range_low[k] - slack <= seen <= range_high[k] + slack
        if n > 0.0 and range_low[k] < range_high[k] and (known == ESTIMATED or tests > 0):
            share, part = (intervals, delta) if known == ESTIMATED else (tests, test_delta)
            sums = (n, reward_sum[m], reward_square[m], range_low[k], range_high[k])
            a, b = mean_reward(kind, share, part, simple, *sums, ranged)
            if ranged:
                fits = fits and a <= b + TOLERANCE * r_max
                a, b = max(a, least), min(b, most)
                fits = fits and a <= b + TOLERANCE * r_max
        if known == MEAN:
            fits = fits and a - TOLERANCE * r_max <= mean[k] <= b + TOLERANCE * r_max
            a, b = mean[k], mean[k]
        elif known == FUNCTION and fault[m] == FITS:
            c, d = expected_value(reward_ptr[k], reward_ptr[k + 1], block, value, stride * (m // K), low, high)
            a, b = max(a, c), min(b, d)
            fits = fits and a <= b + TOLERANCE * r_max
        if not fits:
            fault[m] |= REWARD
            a, b = 0.0, r_max
        if (ranged or known != ESTIMATED) and a > b:
            a, b = b, a
        r_lower[m], r_upper[m] = a, b
