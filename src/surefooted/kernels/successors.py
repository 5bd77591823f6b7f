"""Compiled bounds on rows whose possible next states were declared, or are those seen so far.

`knowledge.Knowledge.plausible` states the event. Row m of counts with stages is pair m % K of stage m // K.
"""

from typing import NamedTuple

from surefooted.arrays import Bools, Floats, Ints
from surefooted.kernels.compile import njit
from surefooted.kernels.intervals import Share, log_term, proportion

FITS, OUTSIDE, EMPTY, REWARD, DOUBT = 0, 1, 2, 4, 8  # how a row contradicts what was declared; the codes add up


class Transitions(NamedTuple):
    """Counted transitions: of visits[m] visits of row m, next_count[j] led to next_state[j] in its part of the rows."""

    visits: Ints  # [M]
    next_ptr: Ints  # [M + 1]
    next_state: Ints
    next_count: Ints


class Successors(NamedTuple):
    """The possible next states of each pair that is `declared`: state[ptr[k] : ptr[k + 1]], increasing."""

    declared: Bools  # [K]
    ptr: Ints  # [K + 1]
    state: Ints


class RowBounds(NamedTuple):
    """Bounds on the rows of a set, as `Plausible` stores them, with their faults and the visits that made them."""

    next_ptr: Ints  # [M + 1]
    next_state: Ints  # [nnz]
    lower: Floats  # [nnz]
    upper: Floats  # [nnz]
    unseen: Floats  # [M]
    fault: Ints  # [M]
    seen: Ints  # [M]: the visits of each row when it was computed, -1 if it never was


@njit
def bound_successors(
    share: Share, counted: Transitions, successors: Successors, position: Ints, bounds: RowBounds
) -> None:
    """Compute the rows whose visits differ from `bounds.seen`, which is brought up to date.

    A row with declared successors stores all of them, seen or not; any other row stores those seen. A row that was seen
    to lead elsewhere than to its declared successors may lead anywhere. `position` [S] is scratch space: it is -1
    everywhere, before and after.
    """
    K = len(successors.declared)
    lower, upper = bounds.lower, bounds.upper
    for m in range(len(counted.visits)):
        if counted.visits[m] == bounds.seen[m]:
            continue
        bounds.seen[m] = counted.visits[m]
        k, n, first, last = m % K, float(counted.visits[m]), bounds.next_ptr[m], bounds.next_ptr[m + 1]
        x = log_term(share, n) if n > 0.0 else 0.0
        never = proportion(share.kind, 0.0, n, x) if n > 0.0 else (0.0, 1.0)  # of a successor never seen
        if not successors.declared[k]:
            bounds.unseen[m] = never[1]
            for j in range(first, last):
                i = counted.next_ptr[m] + j - first
                bounds.next_state[j] = counted.next_state[i]
                lower[j], upper[j] = proportion(share.kind, float(counted.next_count[i]), n, x)
            continue
        bounds.unseen[m] = 0.0
        for j in range(first, last):
            y = successors.state[successors.ptr[k] + j - first]
            bounds.next_state[j], position[y], lower[j] = y, j, 0.0
        outside = False
        for i in range(counted.next_ptr[m], counted.next_ptr[m + 1]):  # how often each came up, for now in `lower`
            if position[counted.next_state[i]] >= 0:
                lower[position[counted.next_state[i]]] = counted.next_count[i]
            else:
                outside = True
        for j in range(first, last):
            position[bounds.next_state[j]] = -1
            if outside:
                lower[j], upper[j] = 0.0, 1.0
            elif last - first == 1:
                lower[j], upper[j] = 1.0, 1.0
            elif lower[j] == 0.0:
                lower[j], upper[j] = never
            else:
                lower[j], upper[j] = proportion(share.kind, lower[j], n, x)
        if outside:
            bounds.unseen[m] = 1.0
            bounds.fault[m] |= OUTSIDE
