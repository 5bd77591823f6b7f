"""Expectations under a row that is only known up to a set, `Rows` below.

An optimist or a pessimist chooses the row: it fills the states in the order that it likes best. That order is computed
once per sweep for all rows. Successors never seen are not stored: prefix sums over the order say what they add. A row
costs what its stored transitions cost.
"""

from typing import NamedTuple

import numpy as np

from surefooted.arrays import Floats, Ints
from surefooted.kernels.bellman import add_mean
from surefooted.kernels.compile import inlined, njit
from surefooted.kernels.dense import Dense, dense_extreme, is_dense
from surefooted.kernels.sorting import Work, sort_row


class Rows(NamedTuple):
    """The plausible rows of all pairs.

    Row k holds the distributions that give each stored successor j, first[k] <= j < last[k], at least `low[j]` and at
    most `low[j] + room[j]`, and each state not stored at most `unseen[k]`; `slack[k]` is 1 - sum of low. If `width[k]`
    >= 0 it is an L1 ball instead: `low` is its centre, `room` is not used. The order of the successors within a row is
    free, but a row that stores all states begins with them in their own order. Kernels rearrange rows that are not
    dense (`dense.is_dense`).
    """

    first: Ints  # [K]
    last: Ints  # [K]
    next_state: Ints  # [nnz]
    low: Floats  # [nnz]
    room: Floats  # [nnz]
    slack: Floats  # [K]
    unseen: Floats  # [K]
    width: Floats  # [K]


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
def extreme(rows: Rows, k: int, v: Floats, work: Work) -> float:
    """The expectation of v under the plausible row k that puts its mass as early in `order` as it may.

    Boxes: Puterman's knapsack argument, each state filled to its bound. L1 balls: `ball_value`. Mass left over by
    rounding goes to the first state of the order, so that it never makes a bound less safe.
    """
    return extreme_from(rows, k, v, work, -np.inf)


@inlined
def extreme_from(rows: Rows, k: int, v: Floats, work: Work, enough: float) -> float:
    """`extreme`, or if a bound on it that costs less is below `enough`, that bound.

    Only for an order by decreasing v, unless `enough` is -inf.
    """
    order, rank, prefix = work.order, work.rank, work.prefix
    first, last, rest, cap, top = rows.first[k], rows.last[k], rows.slack[k], rows.unseen[k], v[order[0]]
    is_box = rows.width[k] < 0.0
    if is_dense(first, last, len(v)):
        row = Dense(first, last, rest, cap, rows.width[k])
        many: float = dense_extreme(row, rows.next_state, rows.low, rows.room, v, order, rank, work.scratch, enough)
        return many
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
        # With at most two terms no sum depends on the order: if the mass ends before the first successor, the row need
        # not be sorted. Sorting it all the same makes value iteration over boxes 30 to 40 % slower.
        whole = int(rest / cap)
        edge = v[order[whole]]
        if (early < edge) if falling else (early > edge):
            value += cap * prefix[whole]
            rest -= whole * cap
            return value + rest * edge if rest > 0.0 else value
    if is_box and enough > -np.inf:  # what follows costs more than this bound
        fits: float = 0.0  # what goes to successors for sure, at most to the best of them
        if cap <= 0.0:
            for j in range(np.uint64(first), np.uint64(last)):
                fits += room[j]
            fits = min(fits, rest)
        ceiling: float = value + fits * early + (rest - fits) * top
        if ceiling < enough:
            return ceiling
    if not is_sorted:
        sort_row(first, last, rank, next_state, low, room, work.scratch)
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
def ball_ceiling(rows: Rows, k: int, v: Floats, top: float) -> float:
    """At least what any row of the L1 ball k can make of v, up to rounding, without sorting it; `top` is max v.

    All the mass that moves goes from the worst successor to the best state. (A similar bound for boxes makes value
    iteration slower.)
    """
    value: float = rows.slack[k] * top
    least = np.inf
    for j in range(np.uint64(rows.first[k]), np.uint64(rows.last[k])):
        here = v[np.uint64(rows.next_state[j])]
        value += rows.low[j] * here
        least = min(least, here)
    value += min(rows.width[k] / 2, 1.0) * max(top - least, 0.0)
    return value
