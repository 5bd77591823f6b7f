"""The order of the states by value, and rows sorted by it.

Each sweep sorts the states once, and each row by the rank of its successors. Both sorts start from the order that the
last sweep left, which is nearly right.
"""

from typing import NamedTuple

import numpy as np

from surefooted.arrays import Floats, Ints
from surefooted.kernels.compile import allocating, njit

LONG = 16  # a row with more successors is spread before it is sorted by insertion, if many are out of order


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

    A merge sort that starts from the order it finds and skips what is sorted: nearly free between sweeps.
    """
    order, scratch, rank, prefix = work.order, work.scratch, work.rank, work.prefix
    n, width = len(v), 1
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
def spread_row(first: int, last: int, rank: Ints, next_state: Ints, low: Floats, room: Floats, scratch: Ints) -> None:
    """Put the entries first .. last - 1 of a row about where their ranks say, in linear time, if many are out of order.

    The range of their ranks is cut into as many equal parts as there are entries. The entries of each part end up
    beside each other.
    """
    n, falls, least, largest = last - first, 0, rank[next_state[first]], rank[next_state[first]]
    for j in range(first + 1, last):
        here = rank[next_state[j]]
        falls += here < rank[next_state[j - 1]]
        least, largest = min(least, here), max(largest, here)
    if n > len(rank) or 8 * falls <= n:
        return
    parts = n / (largest - least + 1)
    for i in range(n + 1):
        scratch[i] = 0
    for i in range(n):
        scratch[int((rank[next_state[first + i]] - least) * parts) + 1] += 1
    for i in range(n):
        scratch[i + 1] += scratch[i]
    for i in range(n):  # where each entry belongs
        part = int((rank[next_state[first + i]] - least) * parts)
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
def sort_row(first: int, last: int, rank: Ints, next_state: Ints, low: Floats, room: Floats, scratch: Ints) -> None:
    """Sort the entries first .. last - 1 of a row by rank.

    By insertion, since the row is nearly sorted already. A long row that is not is spread first: without this, rows of
    128 successors take twice as long.
    """
    if last - first > LONG:
        spread_row(first, last, rank, next_state, low, room, scratch)
    for j in range(first + 1, last):
        y, kept, more = next_state[j], low[j], room[j]
        i, here = j, rank[np.uint64(y)]
        while i > first and here < rank[np.uint64(next_state[i - 1])]:
            next_state[i], low[i], room[i] = next_state[i - 1], low[i - 1], room[i - 1]
            i -= 1
        if i < j:
            next_state[i], low[i], room[i] = y, kept, more
