"""The events of the laws of noise that must be estimated, and what decides them.

Component c of pair k *decides* an event E if the projection of every cell of k onto c lies in E or outside it. Then
each step of k tells whether ξ_c was in E. The words are explained in `knowledge.noise_index`.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from surefooted.arrays import Bools, Ints

MOST_FAMILIES = 32  # disjoint families that are tried for each event of a law
MOST_WORK = 4000  # events times families of one law; beyond it, fewer families are tried


class Law:
    """The values of a law, and the events of it whose probabilities are needed."""

    def __init__(self, size: int) -> None:
        self.size, self.everything = size, (1 << size) - 1
        self.needed: set[int] = set()

    def need(self, mask: int) -> None:
        """Add an event, unless it is certain."""
        if mask != self.everything:
            self.needed.add(mask)

    def closed(self) -> list[int]:
        """All needed events and their complements, small ones first."""
        both = self.needed | {self.everything ^ mask for mask in self.needed}
        return sorted(both, key=lambda mask: (mask.bit_count(), mask))


class NumberedEvents:
    """The events of all laws, one law after the other."""

    def __init__(self, laws: list[Law]) -> None:
        closed = [law.closed() for law in laws]
        self.laws, self.by_law = laws, closed
        self.masks = [mask for events in closed for mask in events]
        self.law = np.repeat(np.arange(len(laws)), [len(events) for events in closed])
        pairs = list(zip(self.law.tolist(), self.masks, strict=True))
        self.number = {pair: e for e, pair in enumerate(pairs)}
        complement = [self.number[i, laws[i].everything ^ mask] for i, mask in pairs]
        self.complement = np.array(complement, dtype=np.int64)

    def terms(self, terms: list[tuple[int, ...]], own: tuple[int, ...]) -> list[list[int]]:
        """Products of events of the laws `own` by the numbers of their events; certain events are left out."""
        return [
            [self.number[i, mask] for i, mask in zip(own, term, strict=True) if mask != self.laws[i].everything]
            for term in terms
        ]


class Partitions:
    """Partitions of the values of laws into classes, each numbered when it is first asked for."""

    def __init__(self) -> None:
        self.classes: list[tuple[int, dict[int, int]]] = []  # by partition: its law, and the number of each class
        self.n_classes = 0
        self._number: dict[tuple[int, frozenset[int]], int] = {}

    def number(self, law: int, masks: list[int]) -> int:
        """The number of the partition of a law into these classes, of which some may be listed twice."""
        key = (law, frozenset(masks))
        if key not in self._number:
            self._number[key] = len(self.classes)
            self.classes.append((law, {mask: self.n_classes + j for j, mask in enumerate(dict.fromkeys(masks))}))
            self.n_classes += len(self.classes[-1][1])
        return self._number[key]


class Deciders(NamedTuple):
    """Which steps the interval of each event is estimated from."""

    interval: Ints  # [events]: an event and its complement share an interval; -1 without one
    flipped: Bools  # [events]: whether the interval counts the complement
    partitions: list[list[int]]  # by interval: those that decide it
    inside: list[list[int]]  # by interval: the classes of these that lie in its event


def deciders(events: NumberedEvents, partitions: Partitions) -> Deciders:
    """The partitions that decide each event."""
    n = len(events.masks)
    interval, flipped = np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=bool)
    deciding: list[list[int]] = []
    inside: list[list[int]] = []
    by_law: list[list[int]] = [[] for _ in events.laws]
    for number, (law, _) in enumerate(partitions.classes):
        by_law[law].append(number)
    for e, mask in enumerate(events.masks):
        if events.complement[e] < e:
            interval[e], flipped[e] = interval[events.complement[e]], True
            continue
        found = [number for number in by_law[events.law[e]] if decides(partitions.classes[number][1], mask)]
        if found:
            interval[e] = len(deciding)
            deciding.append(found)
            classes = [item for number in found for item in partitions.classes[number][1].items()]
            inside.append([number for each, number in classes if each & mask == each])
    return Deciders(interval, flipped, deciding, inside)


def decides(classes: Collection[int], mask: int) -> bool:
    """Whether each class lies in an event or outside it."""
    return all(each & mask in (0, each) for each in classes)


Family = tuple[list[int], bool]  # disjoint events, by their numbers within the law; whether they cover


def families(closed: list[int], everything: int) -> tuple[list[list[Family]], list[Family]]:
    """For each event of a law, and for all its values, families of disjoint events within it.

    Any family gives a valid bound: the probability of the event is at least the sum of theirs, and equal to it if they
    cover the event. Each of the largest events is tried as the first of a family that takes in whatever still fits; one
    more family begins with the smallest.
    """
    index = {mask: i for i, mask in enumerate(closed)}
    most = max(2, min(MOST_FAMILIES, MOST_WORK // max(len(closed), 1)))

    def within(target: int) -> list[Family]:
        inside = [mask for mask in reversed(closed) if mask & target == mask and mask != target]
        found: dict[tuple[int, ...], bool] = {}
        for order in [[first, *inside] for first in inside[:most]] + [inside[::-1]]:
            used, members = 0, []
            for mask in order:
                if mask & used == 0:
                    used |= mask
                    members.append(index[mask])
            if members:
                found[tuple(sorted(members))] = used == target
        return [(list(members), covered) for members, covered in found.items()]

    pairs = {(index[mask], index[everything ^ mask]) for mask in closed if mask < everything ^ mask}
    both: list[Family] = [(list(pair), True) for pair in sorted(pairs)]
    return [within(mask) for mask in closed], both + within(everything)
