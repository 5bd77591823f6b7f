"""Compiled bounds on rows that follow from mechanics: the noise of a step decides where it leads.

`knowledge.noise_index` explains cells, events, blocks and the other words with an example.
`knowledge.Knowledge.plausible` states the event on which the bounds hold.
"""

from typing import NamedTuple

from surefooted.arrays import Bools, Floats, Ints
from surefooted.kernels.compile import njit
from surefooted.kernels.intervals import CROSSING, OUTWARDS, Share, log_term, proportion
from surefooted.kernels.successors import EMPTY, FITS, OUTSIDE, Transitions


class Cells(NamedTuple):
    """The cells of pair k lead to next_state[next_ptr[k] : next_ptr[k + 1]], increasing."""

    next_ptr: Ints  # [K + 1]
    next_state: Ints  # [nnz]


class Blocks(NamedTuple):
    """Sets of noise whose probability is bounded: first all cells, then the level sets of rewards.

    A block is the disjoint union of products of events. The products of block b are term_ptr[b] .. term_ptr[b + 1] - 1,
    and the events of product t are factor[factor_ptr[t] : factor_ptr[t + 1]].
    """

    term_ptr: Ints  # [blocks + 1]
    factor_ptr: Ints  # [terms + 1]
    factor: Ints
    joint: Ints  # [blocks]: the event of the joint law of all components that is the block itself, or -1


class Events(NamedTuple):
    """The events of all laws, one law after the other, closed under complements, small events first within a law.

    An event and its complement share an interval. The partitions decides[decides_ptr[i] : decides_ptr[i + 1]] decide
    interval i, and their classes inside[inside_ptr[i] : inside_ptr[i + 1]] lie in its event.
    """

    law: Ints  # [events]
    complement: Ints  # [events]
    interval: Ints  # [events], -1 if no pair decides the event
    flipped: Bools  # [events]: whether the interval counts the complement
    decides_ptr: Ints  # [intervals + 1]
    decides: Ints
    inside_ptr: Ints  # [intervals + 1]
    inside: Ints


class Draws(NamedTuple):
    """What a step of each pair draws from: partitions of the values of a law, with a class for each cell.

    Pair k draws from partition[ptr[k] : ptr[k + 1]]. From class_ptr[k] on, cell_class lists the class of each draw,
    cell after cell.
    """

    ptr: Ints  # [K + 1]
    partition: Ints  # [draws]
    class_ptr: Ints  # [K + 1]
    cell_class: Ints


class Families(NamedTuple):
    """Families of disjoint events within event e, ptr[e] .. ptr[e + 1] - 1, and within all values of each law.

    The events of family f are member[member_ptr[f] : member_ptr[f + 1]]; `covers` says whether their union is e.
    """

    ptr: Ints  # [events + 1]
    member_ptr: Ints  # [families + 1]
    member: Ints
    covers: Bools  # [families]
    whole_ptr: Ints  # [laws + 1]
    whole_member_ptr: Ints
    whole_member: Ints


class Tally(NamedTuple):
    """How many draws each partition has had, and how often each class came up."""

    draws: Ints  # [partitions]
    classes: Ints  # [classes]


@njit
def count_classes(counted: Transitions, cells: Cells, draws: Draws, position: Ints, tally: Tally, fault: Ints) -> None:
    """Tally the draws of all stages.

    A step that led outside the cells of its pair is left out, and makes the row faulty (`fault` [K]). `position` [S] is
    scratch space: it is -1 everywhere, before and after.
    """
    K = len(cells.next_ptr) - 1
    for k in range(K):
        n_draws = draws.ptr[k + 1] - draws.ptr[k]
        first, last = cells.next_ptr[k], cells.next_ptr[k + 1]
        for j in range(first, last):
            position[cells.next_state[j]] = j
        inside = 0
        for m in range(k, len(counted.visits), K):
            for i in range(counted.next_ptr[m], counted.next_ptr[m + 1]):
                j = position[counted.next_state[i]]
                if j < 0:
                    fault[k] |= OUTSIDE
                    continue
                inside += counted.next_count[i]
                at = draws.class_ptr[k] + (j - first) * n_draws
                for d in range(n_draws):
                    tally.classes[draws.cell_class[at + d]] += counted.next_count[i]
        for d in range(draws.ptr[k], draws.ptr[k + 1]):
            tally.draws[draws.partition[d]] += inside
        for j in range(first, last):
            position[cells.next_state[j]] = -1


@njit
def estimate_events(share: Share, tally: Tally, events: Events, lower: Floats, upper: Floats) -> None:
    """The confidence interval of each event from the draws that decide it; [0, 1] without any."""
    for e in range(len(lower)):
        lower[e], upper[e] = 0.0, 1.0
        i = events.interval[e]
        if i < 0:
            continue
        n, hits = 0, 0
        for j in range(events.decides_ptr[i], events.decides_ptr[i + 1]):
            n += tally.draws[events.decides[j]]
        for j in range(events.inside_ptr[i], events.inside_ptr[i + 1]):
            hits += tally.classes[events.inside[j]]
        if n > 0:
            successes = float(n - hits if events.flipped[e] else hits)
            lower[e], upper[e] = proportion(share.kind, successes, float(n), log_term(share, float(n)))


@njit
def narrow_events(events: Events, families: Families, lower: Floats, upper: Floats) -> None:
    """Narrow the bounds by what follows from them.

    An event is at least as likely as disjoint events within it together, and exactly as likely if they cover it. Its
    complement has the rest of the probability. Events come after those they contain.
    """
    for _ in range(2):
        for e in range(len(lower)):
            for f in range(families.ptr[e], families.ptr[e + 1]):
                least, most = 0.0, 0.0
                for j in range(families.member_ptr[f], families.member_ptr[f + 1]):
                    least += lower[families.member[j]]
                    most += upper[families.member[j]]
                lower[e] = max(lower[e], least)
                if families.covers[f]:
                    upper[e] = min(upper[e], most)
        for e in range(len(lower)):
            upper[e] = min(upper[e], 1.0 - lower[events.complement[e]] + OUTWARDS)
        for e in range(len(lower)):
            lower[e] = max(lower[e], 1.0 - upper[events.complement[e]] - OUTWARDS)


@njit
def uncross_events(events: Events, families: Families, lower: Floats, upper: Floats, crossed: Bools) -> None:
    """Mark the laws [L] that no probabilities fit, and put bounds that cross in order."""
    for e in range(len(lower)):
        if lower[e] > upper[e]:
            crossed[events.law[e]] |= lower[e] > upper[e] + CROSSING
            lower[e], upper[e] = upper[e], lower[e]
    for law in range(len(families.whole_ptr) - 1):
        for f in range(families.whole_ptr[law], families.whole_ptr[law + 1]):
            least = 0.0
            for j in range(families.whole_member_ptr[f], families.whole_member_ptr[f + 1]):
                least += lower[families.whole_member[j]]
            crossed[law] |= least > 1.0 + CROSSING


@njit
def bound_events(
    share: Share, tally: Tally, events: Events, families: Families, lower: Floats, upper: Floats, crossed: Bools
) -> None:
    """Bounds on the probability of each event, and which laws [L] no probabilities fit."""
    estimate_events(share, tally, events, lower, upper)
    narrow_events(events, families, lower, upper)
    uncross_events(events, families, lower, upper, crossed)


@njit
def bound_blocks(blocks: Blocks, lower: Floats, upper: Floats, low: Floats, high: Floats) -> None:
    """Bounds on each block from those on events: sums of products, or those of the joint law where it is narrower."""
    for b in range(len(low)):
        least, most = 0.0, 0.0
        for t in range(blocks.term_ptr[b], blocks.term_ptr[b + 1]):
            one, other = 1.0, 1.0
            for j in range(blocks.factor_ptr[t], blocks.factor_ptr[t + 1]):
                one *= lower[blocks.factor[j]]
                other *= upper[blocks.factor[j]]
            least += one
            most += other
        event = blocks.joint[b]
        if event >= 0:
            least, most = max(least, lower[event]), min(most, upper[event])
        low[b], high[b] = least, min(most, 1.0)


@njit
def close_rows(next_ptr: Ints, low: Floats, high: Floats, unseen: Floats, fault: Ints) -> None:
    """Cut the bounds of each cell to what the other cells of its row leave.

    A row that no distribution fits becomes faulty. A faulty row may lead anywhere.
    """
    for k in range(len(unseen)):
        first, last = next_ptr[k], next_ptr[k + 1]
        least, most, fits = 0.0, 0.0, True
        for j in range(first, last):
            least += low[j]
            most += high[j]
            fits = fits and low[j] <= high[j] + CROSSING
        if not fits or least > 1.0 + CROSSING or most < 1.0 - CROSSING:
            fault[k] |= EMPTY
        unseen[k] = 0.0 if fault[k] == FITS else 1.0
        for j in range(first, last):
            if fault[k] != FITS:
                low[j], high[j] = 0.0, 1.0
                continue
            a, b = min(low[j], high[j]), max(low[j], high[j])
            low[j] = min(max(a, 1.0 - (most - high[j]) - OUTWARDS), 1.0)
            high[j] = max(min(b, 1.0 - (least - a) + OUTWARDS), low[j])
