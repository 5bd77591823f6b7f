"""The order of the states by value, and rows sorted by it.

Each sweep sorts the states once, and each row by the rank of its successors. Both sorts start from the order that the
last sweep left, which is nearly right.
"""

from typing import NamedTuple

import numpy as np

from surefooted.arrays import Floats, Ints
from surefooted.kernels.compile import allocating, njit

FEW = 24  # states that are sorted by insertion
LONG = 16  # successors of a row that is spread before it is sorted by insertion, if it needs to be


class Work(NamedTuple):
    """Scratch space of a sweep: the states in the order of v, the place of each in it, and prefix sums along it."""

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
def rank_states(v: Floats, sign: float, work: Work) -> None:
    """Sort `work.order` by decreasing sign * v; `work.rank` is its inverse, `work.prefix` sums v along it.

    A merge sort that starts from the order it finds and skips what is sorted: nearly free between sweeps. Few
    states are sorted by insertion.
    """
    order, scratch, rank, prefix = work.order, work.scratch, work.rank, work.prefix
    n, width = len(v), 1
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
