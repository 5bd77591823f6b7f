"""Rows with many successors: read along the order of all states, which is sorted once per sweep, and never sorted.

A row that stores one state in `DENSE` is cheaper to read so than to sort. Its mass usually ends after few states of the
order. The entry of a state is found by its rank, or at once if the row stores all states, which it does in their own
order.
"""

from typing import NamedTuple

import numpy as np

from surefooted.arrays import Floats, Ints
from surefooted.kernels.compile import inlined, njit
from surefooted.kernels.sorting import LONG

DENSE = 16  # from one state in so many on, a row is dense; shorter rows than LONG are sorted faster


class Dense(NamedTuple):
    """One row, see `rows.Rows`."""

    first: int
    last: int
    slack: float
    unseen: float
    width: float


@inlined
def is_dense(first: int, last: int, n: int) -> bool:
    """Whether the row of the entries first .. last - 1 over n states is read along the order of all states."""
    return last - first > LONG and DENSE * (last - first) >= n


@njit
def find_entries(first: int, last: int, rank: Ints, next_state: Ints, place: Ints) -> None:
    """`place[i]` becomes the entry of the successor with rank i; the other places keep what they hold."""
    for j in range(np.uint64(first), np.uint64(last)):
        place[np.uint64(rank[np.uint64(next_state[j])])] = j


@inlined
def is_entry(j: int, y: int, first: int, last: int, next_state: Ints) -> bool:
    """Whether j, found at the rank of state y, is its entry: what `find_entries` left there may be anything.

    Only places of successors lead back to themselves (Briggs & Torczon 1993), so none must be cleared.
    """
    return first <= j < last and next_state[j] == y


@njit
def mean_of_many(first: int, last: int, next_state: Ints, low: Floats, v: Floats) -> float:
    """The sum of low[j] v[next_state[j]], as four sums that a processor adds side by side.

    Their order is fixed, so that the last digit is the same on every machine. (In the order that suits a processor
    best, full rows would be summed faster.)
    """
    a = b = c = d = 0.0
    j, end, four = np.uint64(first), np.uint64(last), np.uint64(4)
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    while j + four <= end:
        a += low[j] * v[np.uint64(next_state[j])]
        b += low[j + one] * v[np.uint64(next_state[j + one])]
        c += low[j + two] * v[np.uint64(next_state[j + two])]
        d += low[j + three] * v[np.uint64(next_state[j + three])]
        j += four
    while j < end:
        a += low[j] * v[np.uint64(next_state[j])]
        j += one
    return (a + b) + (c + d)


@njit
def dense_extreme(
    row: Dense,
    next_state: Ints,
    low: Floats,
    room: Floats,
    v: Floats,
    order: Ints,
    rank: Ints,
    place: Ints,
    enough: float,
) -> float:
    """`rows.extreme_from` of a dense row: every state gets its lower bound, the rest of the mass what comes first.

    `place` [S] is scratch space.
    """
    n, first, last, rest = len(v), row.first, row.last, row.slack
    top, is_full = v[order[0]], row.last - row.first == n
    value: float = mean_of_many(first, last, next_state, low, v)
    ceiling: float = value + rest * top
    if row.width >= 0.0:
        ceiling += min(row.width / 2, 1.0) * (top - v[order[n - 1]])
    if ceiling < enough:
        return ceiling
    if not is_full:
        find_entries(first, last, rank, next_state, place)
    given = 0.0
    if row.width < 0.0:
        for i in range(n):
            y = order[i]
            if is_full:
                more = room[first + y]
            else:
                more = room[place[i]] if is_entry(place[i], y, first, last, next_state) else row.unseen
            if given + more >= rest:
                value += (rest - given) * v[y]
                return value
            given += more
            value += more * v[y]
        value += (rest - given) * top
        return value
    j = first + order[0] if is_full else place[0]
    kept = low[j] if is_full or is_entry(j, order[0], first, last, next_state) else 0.0
    moved = min(row.width / 2, 1.0 - (rest + kept))
    value += (rest + moved) * top
    for i in range(n - 1, 0, -1):
        y = order[i]
        if is_full:
            more = low[first + y]
        else:
            more = low[place[i]] if is_entry(place[i], y, first, last, next_state) else 0.0
        if given + more >= moved:
            value -= (moved - given) * v[y]
            return value
        given += more
        value -= more * v[y]
    return value
