"""The index lists by which kernels bound the rows and rewards of mechanics; made once for each mechanics.

| word | meaning |
|---|---|
| law | the distribution of one component of the noise; pairs share laws |
| joint law | the law of all components of a pair together, for pairs whose cells are no grid |
| cell | the noise with which a pair leads to one successor |
| level | the noise with which a pair earns one value of the reward |
| block | a cell or a level: what needs a probability |
| event | a set of values of one law, as a bit mask |
| term | a product of events, one for each component; a block is a disjoint union of terms |
| grid | cells that are all products, and whose projections onto a component are equal or disjoint |
| partition | the values of a law, divided as the cells of a pair divide them |
| class | one part of a partition |
| draw | one step of a pair, as seen by a partition: it says which class came up |
| family | disjoint events within an event, whose probabilities add up to no more than its own |

For example, a stock of 0 to 2 pieces meets a demand of 0 to 2. From a stock of 1, a demand of 1 and one of 2 both lead
to 0: they are one cell.

>>> import surefooted as sf
>>> mechanics = sf.Mechanics.of(sf.Space.full(3, 1), lambda stock, a, demand: max(stock - demand, 0), sizes=3)
>>> index = mechanics.index
>>> index.cells.next_ptr.tolist(), index.cells.next_state.tolist()  # 1 cell of stock 0, 2 of stock 1, 3 of stock 2
([0, 1, 3, 6], [0, 0, 1, 0, 1, 2])
>>> [f"{mask:03b}" for mask in index.masks]  # all cells but the certain one, and their complements; demand 0 is last
['001', '010', '100', '011', '101', '110']
>>> index.n_intervals  # an event and its complement share one
3
>>> index.n_partitions, index.n_classes  # stock 1 tells 0 from {1, 2}, stock 2 tells all, stock 0 nothing
(2, 5)
>>> index.events.decides_ptr.tolist(), index.events.decides.tolist()  # both decide {0}, stock 2 alone {1} and {2}
([0, 2, 3, 4], [0, 1, 1, 1])
"""

from typing import NamedTuple

import numpy as np

from surefooted.arrays import Bools, Floats, Ints
from surefooted.kernels.rewards import Levels
from surefooted.kernels.shared_noise import Blocks, Cells, Draws, Events, Families
from surefooted.knowledge.cells import Split, reward_levels, split
from surefooted.knowledge.events import Law, NumberedEvents, Partitions, deciders, decides, families


class NoiseIndex(NamedTuple):
    """Cells, events and what decides them, as kernels take them."""

    cells: Cells
    blocks: Blocks
    levels: Levels  # of the rewards; nothing for any pair if they are left open
    events: Events
    draws: Draws
    families: Families
    n_partitions: int
    n_classes: int
    masks: tuple[int, ...]  # [events]: the values in each event, as a bit mask
    row_laws: Bools  # [K, laws]: the laws that the row of a pair depends on, joint laws included

    @property
    def n_intervals(self) -> int:
        """How many intervals are estimated from data; an event and its complement share one."""
        return self.events.decides_ptr.size - 1


class _Pair(NamedTuple):
    """What a pair makes of its noise."""

    own: tuple[int, ...]  # the law of each component
    states: Ints  # the successors, increasing
    cells: Split
    values: Floats  # of the reward, one for each level; empty if rewards are left open
    levels: Split | None  # the noise of each level; None if the cells are the levels


def noise_index(
    sizes: tuple[int, ...], law: Ints, noise_ptr: Ints, next_state: Ints, reward: Floats | None, observed: bool
) -> NoiseIndex:
    """The index of mechanics.

    A pair whose cells are a grid of products decides all events that they are products of. The cells of any other pair
    decide nothing of single components. They are events of the *joint law* of its components, unless the noise is
    observed.
    """
    pairs = _pairs(sizes, law, noise_ptr, next_state, reward)
    laws = [Law(size) for size in sizes]
    joint_laws = _need_events(pairs, laws, sizes, observed)
    events = NumberedEvents(laws)
    partitions = Partitions()
    draws = _draws(pairs, laws, joint_laws, partitions, observed)
    deciding = deciders(events, partitions)
    cell_terms = [events.terms(terms, pair.own) for pair in pairs for terms in pair.cells.terms]
    level_terms = [
        events.terms(terms, pair.own) for pair in pairs if pair.levels is not None for terms in pair.levels.terms
    ]
    joint = [
        events.number[joint_laws[pair.own], mask] if pair.own in joint_laws and not pair.cells.grid else -1
        for pair in pairs
        for mask in pair.cells.masks
    ]
    terms, no_events = cell_terms + level_terms, [-1] * len(level_terms)
    own = (events.law, events.complement, deciding.interval, deciding.flipped)
    return NoiseIndex(
        cells=Cells(_ptr([pair.states for pair in pairs]), np.concatenate([pair.states for pair in pairs])),
        blocks=Blocks(_ptr(terms), *_flat([term for block in terms for term in block]), _ints(joint + no_events)),
        levels=_levels(pairs, len(cell_terms)),
        events=Events(*own, *_flat(deciding.partitions), *_flat(deciding.inside)),
        draws=draws,
        families=_families(events),
        n_partitions=len(partitions.classes),
        n_classes=partitions.n_classes,
        masks=tuple(events.masks),
        row_laws=_row_laws(pairs, cell_terms, joint, events),
    )


def _pairs(sizes: tuple[int, ...], law: Ints, noise_ptr: Ints, next_state: Ints, reward: Floats | None) -> list[_Pair]:
    """The cells and the reward levels of all pairs; pairs whose noise is alike share their splits."""
    known: dict[tuple[tuple[int, ...], bytes], Split] = {}

    def shared(label: Ints, shape: tuple[int, ...]) -> Split:
        key = (shape, label.tobytes())
        if key not in known:
            known[key] = split(label, shape)
        return known[key]

    pairs = []
    for k, row in enumerate(law.tolist()):
        own, at = tuple(row), slice(noise_ptr[k], noise_ptr[k + 1])
        shape = tuple(sizes[i] for i in own)
        states, cell = np.unique(next_state[at], return_inverse=True)
        values, label = (np.zeros(0), None) if reward is None else reward_levels(reward[at], cell, states.size)
        levels = None if label is None else shared(label, shape)
        pairs.append(_Pair(own, states, shared(cell, shape), values, levels))
    return pairs


def _need_events(
    pairs: list[_Pair], laws: list[Law], sizes: tuple[int, ...], observed: bool
) -> dict[tuple[int, ...], int]:
    """Tell each law the events that are needed of it; appends joint laws, and returns their numbers by components."""
    joint_laws: dict[tuple[int, ...], int] = {}
    for pair in pairs:
        for blocks in (pair.cells, pair.levels):
            for term in (term for terms in blocks.terms for term in terms) if blocks is not None else ():
                for i, mask in zip(pair.own, term, strict=True):
                    laws[i].need(mask)
        if not observed and not pair.cells.grid:
            if pair.own not in joint_laws:
                joint_laws[pair.own] = len(laws)
                laws.append(Law(int(np.prod([sizes[i] for i in pair.own]))))
            for mask in pair.cells.masks:
                laws[joint_laws[pair.own]].need(mask)
    return joint_laws


def _draws(
    pairs: list[_Pair],
    laws: list[Law],
    joint_laws: dict[tuple[int, ...], int],
    partitions: Partitions,
    observed: bool,
) -> Draws:
    """The partitions that steps draw from; those of observed noise are the single values of each law."""
    if observed:
        for i, law in enumerate(laws):
            partitions.number(i, [1 << value for value in range(law.size)])
    useful: dict[tuple[int, frozenset[int]], bool] = {}
    owners: list[list[int]] = []
    cell_class: list[list[int]] = []
    for pair in pairs:
        found = [] if observed else list(zip(pair.own, pair.cells.projections, strict=True))
        if not observed and not pair.cells.grid:
            found.append((joint_laws[pair.own], pair.cells.masks))
        kept = []
        for i, masks in found:
            key = (i, frozenset(masks))
            if key not in useful:
                useful[key] = any(decides(key[1], mask) for mask in laws[i].needed)
            if useful[key]:
                kept.append((partitions.number(i, masks), masks))
        owners.append([number for number, _ in kept])
        cell_class.append(
            [partitions.classes[number][1][masks[j]] for j in range(pair.states.size) for number, masks in kept]
        )
    return Draws(*_flat(owners), *_flat(cell_class))


def _families(events: NumberedEvents) -> Families:
    """The disjoint families of all laws."""
    within: list[list[list[int]]] = []
    whole: list[list[list[int]]] = []
    covers: list[bool] = []
    first = 0
    for law, closed in zip(events.laws, events.by_law, strict=True):
        own, everything = families(closed, law.everything)
        within += [[[first + i for i in members] for members, _ in found] for found in own]
        covers += [covered for found in own for _, covered in found]
        whole.append([[first + i for i in members] for members, _ in everything])
        first += len(closed)
    members = [family for found in within for family in found]
    everywhere = [family for found in whole for family in found]
    covering = np.array(covers, dtype=bool)
    return Families(_ptr(within), *_flat(members), covering, _ptr(whole), *_flat(everywhere))


def _levels(pairs: list[_Pair], n_cells: int) -> Levels:
    """The rewards of all pairs by increasing value; blocks of levels come after the `n_cells` cells."""
    blocks: list[Ints] = []
    values: list[Floats] = []
    cell, level = 0, n_cells
    for pair in pairs:
        order = np.argsort(pair.values, kind="stable")
        blocks.append(order + (cell if pair.levels is None else level))
        values.append(pair.values[order])
        cell += pair.states.size
        level += 0 if pair.levels is None else pair.values.size
    return Levels(_ptr(blocks), _ints(np.concatenate(blocks)), np.concatenate(values))


def _row_laws(pairs: list[_Pair], terms: list[list[list[int]]], joint: list[int], events: NumberedEvents) -> Bools:
    """The laws that the rows depend on, [K, laws]."""
    found = np.zeros((len(pairs), len(events.laws)), dtype=bool)
    owner = np.repeat(np.arange(len(pairs)), [pair.states.size for pair in pairs])
    for k, block, event in zip(owner.tolist(), terms, joint, strict=True):
        together = [] if event < 0 else [event]
        found[k, events.law[[e for term in block for e in term] + together]] = True
    return found


def _flat(lists: list[list[int]]) -> tuple[Ints, Ints]:
    """Lists as pointers and one flat array."""
    return _ptr(lists), _ints([value for each in lists for value in each])


def _ptr(lists: list) -> Ints:  # type: ignore[type-arg]
    """Where each of several lists begins when they are put one after the other, and where the last one ends."""
    return _ints(np.cumsum([0] + [len(each) for each in lists]))


def _ints(values: object) -> Ints:
    return np.array(values, dtype=np.int64)
