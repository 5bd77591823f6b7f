"""Compiled expectations under a row that is only known up to a set, `Rows` below.

Whoever chooses the row (the optimist or the pessimist) fills the states in the order it likes best. That order is
computed once per sweep for all rows; successors never seen are not stored, and get their mass from prefix sums over the
order: a row costs what its stored transitions cost.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefooted.kernels.compile import allocating, inlined, njit
from surefooted.kernels.exact import add_mean

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FEW = 24  # states that are sorted by insertion
LONG = 16  # successors of a row that is spread before it is sorted by insertion, if it needs to be


class Rows(NamedTuple):
    """The plausible rows of all pairs.

    Row k holds the distributions that give each stored successor j, first[k] <= j < last[k], at least `low[j]` and at
    most `low[j] + room[j]`, and each state not stored at most `unseen[k]`; `slack[k]` is 1 - sum of low. If `width[k]`
    >= 0 it is an L1 ball instead: `low` is its centre, `room` is not used. The order of the successors within a row is
    free; kernels rearrange it.
    """

    first: Ints  # [K]
    last: Ints  # [K]
    next_state: Ints  # [nnz]
    low: Floats  # [nnz]
    room: Floats  # [nnz]
    slack: Floats  # [K]
    unseen: Floats  # [K]
    width: Floats  # [K]


class Work(NamedTuple):
    """Scratch space of a sweep: the states in the order of v, where each stands in it, and prefix sums along it."""

    order: Ints  # [S]
    scratch: Ints  # [2 S + 1]
    rank: Ints  # [S]
    prefix: Floats  # [S + 1]
    change: Floats  # [S]


@allocating
def workspace(n: int) -> Work:
    """Scratch space for n states."""
    order = np.empty(n, dtype=np.int64)
    for s in range(n):
        order[s] = s
    return Work(order, np.empty(2 * n + 1, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n + 1), np.empty(n))


@njit
def forget_order(work: Work) -> None:
    """Begin from the states' own order, so that ties, and with them the last digit, forget what came before."""
    for s in range(len(work.order)):
        work.order[s] = s


@njit
def rank_states(v: Floats, sign: float, order: Ints, scratch: Ints, rank: Ints, prefix: Floats) -> None:
    """Sort `order` [S] by decreasing sign * v; `rank` [S] is its inverse, `prefix` [S + 1] sums v along it.

    A merge sort that starts from the order it finds and skips what is sorted: nearly free between sweeps. Few
    states are sorted by insertion.
    """
    n = len(v)
    width = 1
    if n <= FEW:
        for j in range(1, n):
            s, i = order[j], j
            while i > 0 and sign * v[s] > sign * v[order[i - 1]]:
                order[i] = order[i - 1]
                i -= 1
            order[i] = s
        width = n
    while width < n:
        for begin in range(0, n - width, 2 * width):
            middle, end = begin + width, min(begin + 2 * width, n)
            if sign * v[order[middle - 1]] >= sign * v[order[middle]]:
                continue
            for i in range(begin, middle):
                scratch[i] = order[i]
            i, j, out = begin, middle, begin
            while i < middle:
                if j < end and sign * v[order[j]] > sign * v[scratch[i]]:
                    order[out] = order[j]
                    j += 1
                else:
                    order[out] = scratch[i]
                    i += 1
                out += 1
        width *= 2
    prefix[0] = 0.0
    for i in range(n):
        rank[order[i]] = i
        prefix[i + 1] = prefix[i] + v[order[i]]


@njit
def count_falls(first: int, last: int, rank: Ints, next_state: Ints) -> int:
    """The entries first + 1 .. last - 1 of a row that come after one of larger rank."""
    falls = 0
    for j in range(np.uint64(first + 1), np.uint64(last)):
        falls += rank[np.uint64(next_state[j])] < rank[np.uint64(next_state[j - np.uint64(1)])]
    return falls


@njit
def spread_row(first: int, last: int, rank: Ints, next_state: Ints, low: Floats, room: Floats, scratch: Ints) -> None:
    """Put the entries first .. last - 1 of a row about where their ranks say, in linear time.

    The ranks are cut into as many equal parts as there are entries; those of one part end up beside each other.
    """
    n, parts = last - first, (last - first) / len(rank)
    for i in range(n + 1):
        scratch[i] = 0
    for i in range(n):
        scratch[int(rank[next_state[first + i]] * parts) + 1] += 1
    for i in range(n):
        scratch[i + 1] += scratch[i]
    for i in range(n):  # where each entry belongs
        part = int(rank[next_state[first + i]] * parts)
        scratch[n + 1 + i] = scratch[part]
        scratch[part] += 1
    for i in range(n):
        here = first + i
        while scratch[n + 1 + i] != i:
            to = scratch[n + 1 + i]
            there = first + to
            next_state[here], next_state[there] = next_state[there], next_state[here]
            low[here], low[there] = low[there], low[here]
            room[here], room[there] = room[there], room[here]
            scratch[n + 1 + i], scratch[n + 1 + to] = scratch[n + 1 + to], to


@njit
def presort_row(first: int, last: int, rank: Ints, next_state: Ints, low: Floats, room: Floats, scratch: Ints) -> None:
    """Leave little to insertion of a long row that is out of order.

    It is spread. If its ranks lie so close together that this does not help, it is sorted with gaps that shrink (Shell
    1959), so that time does not grow with the square of its length.
    """
    gap, n = 1, last - first
    if n > len(rank) or 8 * count_falls(first, last, rank, next_state) <= n:
        return
    spread_row(first, last, rank, next_state, low, room, scratch)
    falls = count_falls(first, last, rank, next_state)
    while 2 * falls > n and 5 * gap < n:
        gap = 3 * gap + 1
    while gap > 1:
        for j in range(first + gap, last):
            y, kept, more, i = next_state[j], low[j], room[j], j
            while i >= first + gap and rank[y] < rank[next_state[i - gap]]:
                next_state[i], low[i], room[i] = next_state[i - gap], low[i - gap], room[i - gap]
                i -= gap
            next_state[i], low[i], room[i] = y, kept, more
        gap //= 3


@njit
def sort_row(first: int, last: int, rank: Ints, next_state: Ints, low: Floats, room: Floats, scratch: Ints) -> None:
    """Sort the entries first .. last - 1 of a row by rank: by insertion, since it is nearly sorted already."""
    if last - first > LONG:
        presort_row(first, last, rank, next_state, low, room, scratch)
    for j in range(first + 1, last):
        y, kept, more = next_state[j], low[j], room[j]
        i, here = j, rank[np.uint64(y)]
        while i > first and here < rank[np.uint64(next_state[i - 1])]:
            next_state[i], low[i], room[i] = next_state[i - 1], low[i - 1], room[i - 1]
            i -= 1
        if i < j:
            next_state[i], low[i], room[i] = y, kept, more


@njit
def ball_value(
    value: float, first: int, last: int, rest: float, width: float, v: Floats, best: int, next_state: Ints, low: Floats
) -> float:
    """What the best row of an L1 ball earns, `value` being what its centre does (Jaksch et al. 2010, Figure 2).

    The entries first .. last - 1 are sorted; `rest` is the mass that they do not have, that of a pair never tried.
    """
    value += rest * v[best]
    kept = first if first < last and next_state[first] == best else -1
    centre = rest + (low[kept] if kept >= 0 else 0.0)
    rest = min(width / 2, 1.0 - centre)
    value += rest * v[best]
    for j in range(last - 1, first - 1, -1):
        if j == kept or rest <= 0.0:
            break
        moved = min(low[j], rest)
        value -= moved * v[next_state[j]]
        rest -= moved
    return value


@inlined
def extreme(rows: Rows, k: int, v: Floats, order: Ints, scratch: Ints, rank: Ints, prefix: Floats) -> float:
    """The expectation of v under the plausible row k that puts its mass as early in `order` as it may.

    Boxes: Puterman's knapsack argument, each state filled to its bound. L1 balls: `ball_value`. Mass left over by
    rounding goes to the first state of the order, so that it never makes a bound less safe.
    """
    first, last, rest, cap, top = rows.first[k], rows.last[k], rows.slack[k], rows.unseen[k], v[order[0]]
    is_box = rows.width[k] < 0.0
    if first == last and cap >= 1.0 and is_box:  # never tried: it may lead anywhere
        everything: float = rest * top
        return everything
    next_state, low, room = rows.next_state, rows.low, rows.room
    value: float = 0.0
    is_sorted, falling = True, top >= v[order[len(v) - 1]]
    early, terms = v[order[len(v) - 1]], 0  # the value that comes first among the successors; lower bounds above 0
    ahead = -1  # the rank of the successor before
    for j in range(np.uint64(first), np.uint64(last)):  # one look at each, if the row is still sorted by rank
        y = np.uint64(next_state[j])
        here, place = v[y], rank[y]
        is_sorted &= place > ahead
        ahead = place
        early = max(early, here) if falling else min(early, here)
        terms += low[j] != 0.0
        value += low[j] * here
    if not is_sorted and is_box and terms <= 2 and rest < cap * (len(v) - 1):
        # where no sum depends on the order, a row need not be sorted if the mass ends before its first successor
        whole = int(rest / cap)
        edge = v[order[whole]]
        if (early < edge) if falling else (early > edge):
            value += cap * prefix[whole]
            rest -= whole * cap
            return value + rest * edge if rest > 0.0 else value
    if not is_sorted:
        sort_row(first, last, rank, next_state, low, room, scratch)
        value = add_mean(0.0, first, last, next_state, low, v)
    if not is_box:
        return ball_value(value, first, last, rest, rows.width[k], v, order[0], next_state, low)
    position = 0
    for j in range(first, last + 1):
        if rest <= 0.0:
            return value
        if cap > 0.0:
            reached = rank[next_state[j]] if j < last else len(v)
            run = reached - position
            if run * cap >= rest:  # the rest of the mass ends among successors never seen
                whole = min(int(rest / cap), run)
                value += cap * (prefix[position + whole] - prefix[position])
                rest -= whole * cap
                if whole < run and rest > 0.0:
                    value += rest * v[order[position + whole]]
                    rest = 0.0
                break
            value += cap * (prefix[reached] - prefix[position])
            rest -= run * cap
            position = reached + 1
        if j < last:
            moved = min(room[j], rest)
            value += moved * v[next_state[j]]
            rest -= moved
    if rest > 0.0:
        value += rest * top
    return value


@inlined
def ceiling(rows: Rows, k: int, v: Floats, order: Ints, prefix: Floats) -> float:
    """More than any plausible row k can make of v, up to rounding, without sorting it.

    Boxes: beyond its lower bounds no state gets more than the largest room there is. L1 balls: all that moves comes
    from the worst successor.
    """
    value: float = 0.0
    least, most = np.inf, rows.unseen[k]
    is_box, rest, top = rows.width[k] < 0.0, rows.slack[k], v[order[0]]
    for j in range(np.uint64(rows.first[k]), np.uint64(rows.last[k])):
        here = v[np.uint64(rows.next_state[j])]
        value += rows.low[j] * here
        if is_box:
            most = max(most, rows.room[j])
        else:
            least = min(least, here)
    if not is_box:
        value += min(rows.width[k] / 2, 1.0) * max(top - least, 0.0) if least < np.inf else 0.0
        most = 1.0
    if most >= rest or rest >= most * len(v):  # the rest that rounding leaves goes to the first state
        value += rest * top
    else:
        whole = int(rest / most)
        value += most * prefix[whole] + (rest - whole * most) * v[order[whole]]
    return value
