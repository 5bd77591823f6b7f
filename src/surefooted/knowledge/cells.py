"""What a step says of its noise: cells, the events that must be estimated, and which pairs decide them. Made once.

The *cell* of a successor y of pair k is {ξ : f(k, ξ) = y}: a step says in which cell its noise was. An *event* is a set
of values of one law, a bit mask here. Component c of pair k *decides* E if the projection of every cell of k onto c
lies in E or outside it: then each step of k tells whether ξ_c was in E, whatever ξ was.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefooted.tables.space import Bools, Floats, Ints, Space

SAME = 1e-12  # rewards this close are one level, relatively
FAMILIES = 32  # disjoint families that are tried for each event of a law
MANY = 4000  # events times families of one law, beyond which there are fewer of them


class Structure(NamedTuple):
    """Index lists that the kernels of `_known` take.

    *Rows*: the cells of pair k are `next_state[next_ptr[k] : next_ptr[k + 1]]`, increasing. *Blocks*: sets of noise
    whose probability is bounded; first all cells, then the level sets of rewards. A block is the disjoint union of
    products of events; `term_ptr` points to its products, `factor_ptr` from those to their events. `joint` is an event
    of the joint law of all components that is the block itself, or -1. *Events*: of all laws one after the other,
    closed under complements, small ones first within a law; `interval` is the number of the interval that E and its
    complement share, -1 if no pair decides it, and `flipped` says which of the two it counts. *Draws*: what each step
    adds to, `draw_ptr` [K + 1] and the partition that it says the class of, with a class for each cell. *Intervals*:
    which partitions decide it, and which classes of them lie in it. *Families*: disjoint events within an event.
    """

    next_ptr: Ints  # [K + 1]
    next_state: Ints  # [nnz]
    term_ptr: Ints  # [blocks + 1]
    factor_ptr: Ints  # [terms + 1]
    factor: Ints
    joint: Ints  # [blocks]
    reward_ptr: Ints  # [K + 1], empty rows where rewards are left open
    reward_block: Ints  # by increasing value within a pair
    reward_value: Floats
    event_law: Ints  # [events]
    complement: Ints  # [events]
    interval: Ints  # [events]
    flipped: Bools  # [events]
    draw_ptr: Ints  # [K + 1]
    draw_partition: Ints  # [draws]
    class_ptr: Ints  # [K + 1]: where the classes of the cells of each pair begin
    cell_class: Ints  # cell after cell, for each draw of the pair
    n_partitions: int
    n_classes: int
    decides_ptr: Ints  # [intervals + 1]
    decides: Ints  # partitions
    inside_ptr: Ints  # [intervals + 1]
    inside: Ints  # classes
    family_ptr: Ints  # [events + 1]
    member_ptr: Ints  # [families + 1]
    member: Ints  # events
    covers: Bools  # [families]: whether the union of its members is the event
    whole_ptr: Ints  # [laws + 1]: families of everything, by law
    whole_member_ptr: Ints
    whole_member: Ints
    row_laws: Bools  # [K, laws]: whose noise the row of a pair depends on, joint laws included
    names: tuple[str, ...]  # [events]

    @property
    def n_intervals(self) -> int:
        """How many intervals are estimated from data, complements counted once."""
        return self.decides_ptr.size - 1


class _Split(NamedTuple):
    """A partition of the noise of a pair into blocks: products of events, and the projections of each block."""

    terms: list[list[tuple[int, ...]]]  # by block: each term has an event for each component
    projections: list[list[int]]  # by component, by block
    masks: list[int]  # by block: the noise values themselves, the last component fastest
    product: list[bool]  # by block
    grid: bool  # whether all are products, and projections onto a component are equal or disjoint


class _Law:
    """The events of a law, as they are asked for."""

    def __init__(self, size: int) -> None:
        self.size, self.everything = size, (1 << size) - 1
        self.needed: set[int] = set()
        self.partitions: dict[frozenset[int], int] = {}

    def need(self, mask: int) -> None:
        if mask != self.everything:
            self.needed.add(mask)

    def closed(self) -> list[int]:
        """All events and their complements, small ones first."""
        both = self.needed | {self.everything ^ mask for mask in self.needed}
        return sorted(both, key=lambda mask: (mask.bit_count(), mask))


def structure_of(
    space: Space,
    sizes: tuple[int, ...],
    law: Ints,
    noise_ptr: Ints,
    next_state: Ints,
    reward: Floats | None,
    observed: bool,
) -> Structure:
    """The structure of mechanics.

    A block that is no product of events is cut into products: values of the first component with the same section go
    together, and their section is cut in turn. A pair whose cells are a grid of products decides all events that they
    are products of. Of any other pair's components nothing may be decided one by one: its cells are events of the
    *joint law* of the components, too, unless the noise is observed.
    """
    K = space.n_pairs
    laws = [_Law(size) for size in sizes]
    joint_laws: dict[tuple[int, ...], int] = {}
    splits: dict[Any, _Split] = {}
    rows: list[tuple[Ints, _Split]] = []
    levels: list[tuple[Floats, _Split | None]] = []  # values and blocks; None: the cells are the blocks

    def split(k: int, label: Ints) -> _Split:
        shape = tuple(sizes[i] for i in law[k])
        key = (shape, label.tobytes())
        if key not in splits:
            splits[key] = _split(label, shape)
        return splits[key]

    for k in range(K):
        at = slice(noise_ptr[k], noise_ptr[k + 1])
        states, cell = np.unique(next_state[at], return_inverse=True)
        rows.append((states, split(k, cell)))
        if reward is not None:
            levels.append(_levels(reward[at], cell, states.size, lambda label, k=k: split(k, label)))

    for k, (_, blocks) in enumerate(rows):
        own = tuple(int(i) for i in law[k])
        for part in (blocks, levels[k][1] if levels else None):
            for term in (term for terms in part.terms for term in terms) if part is not None else ():
                for i, mask in zip(own, term, strict=True):
                    laws[i].need(mask)
        if not observed and not blocks.grid:
            if own not in joint_laws:
                joint_laws[own] = len(laws)
                laws.append(_Law(int(np.prod([sizes[i] for i in own]))))
            for mask in blocks.masks:
                laws[joint_laws[own]].need(mask)

    events = [mask for each in laws for mask in each.closed()]
    event_law = np.array([i for i, each in enumerate(laws) for _ in each.closed()], dtype=np.int64)
    number = {(int(i), mask): e for e, (i, mask) in enumerate(zip(event_law, events, strict=True))}
    complement = np.array(
        [number[int(i), laws[i].everything ^ mask] for i, mask in zip(event_law, events, strict=True)], dtype=np.int64
    )

    draws = _draws(rows, law, laws, joint_laws, observed)
    deciding = _deciding(events, event_law, complement, laws, draws)
    families = [_families(each.closed(), each.everything) for each in laws]
    firsts = np.cumsum([0] + [len(each.closed()) for each in laws])
    whole_ptr, whole = [0], []
    family_ptr, family = [0], []
    covers: list[bool] = []
    for first, (own_families, everything) in zip(firsts[:-1].tolist(), families, strict=True):
        for found in own_families:
            family += [[first + i for i in members] for members, _ in found]
            covers += [covered for _, covered in found]
            family_ptr.append(len(family))
        whole += [[first + i for i in members] for members, _ in everything]
        whole_ptr.append(len(whole))
    member_ptr, member = _csr(family)
    whole_member_ptr, whole_member = _csr(whole)

    row_laws = np.zeros((K, len(laws)), dtype=bool)
    blocks_terms: list[list[list[int]]] = []
    joint: list[int] = []
    for k, (_, blocks) in enumerate(rows):
        own = tuple(int(i) for i in law[k])
        blocks_terms += _numbered(blocks, own, laws, number)
        together = -1 if observed or blocks.grid else joint_laws[own]
        joint += [-1 if together < 0 else number[together, mask] for mask in blocks.masks]
        row_laws[k, together] |= together >= 0
        row_laws[k, [int(event_law[e]) for block in blocks_terms[-len(blocks.masks) :] for t in block for e in t]] = (
            True
        )
    next_ptr = np.cumsum([0] + [states.size for states, _ in rows])
    reward_ptr, reward_block, reward_value = [0], [], []
    for k in range(K):
        if levels:
            values, levels_split = levels[k]
            if levels_split is None:
                ids = next_ptr[k] + np.arange(values.size)
            else:
                own = tuple(int(i) for i in law[k])
                ids = len(blocks_terms) + np.arange(values.size)
                blocks_terms += _numbered(levels_split, own, laws, number)
                joint += [-1] * values.size
            order = np.argsort(values, kind="stable")
            reward_block += ids[order].tolist()
            reward_value += values[order].tolist()
        reward_ptr.append(len(reward_block))
    term_ptr = np.cumsum([0] + [len(block) for block in blocks_terms])
    factor_ptr, factor = _csr([term for block in blocks_terms for term in block])
    interval, flipped, decides, inside = deciding
    return Structure(
        next_ptr=_ints(next_ptr),
        next_state=_ints(np.concatenate([states for states, _ in rows])),
        term_ptr=_ints(term_ptr),
        factor_ptr=factor_ptr,
        factor=factor,
        joint=_ints(joint),
        reward_ptr=_ints(reward_ptr),
        reward_block=_ints(reward_block),
        reward_value=np.array(reward_value, dtype=np.float64),
        event_law=event_law,
        complement=complement,
        interval=interval,
        flipped=flipped,
        draw_ptr=draws.ptr,
        draw_partition=draws.partition,
        class_ptr=draws.class_ptr,
        cell_class=draws.cell_class,
        n_partitions=len(draws.partitions),
        n_classes=draws.n_classes,
        decides_ptr=decides[0],
        decides=decides[1],
        inside_ptr=inside[0],
        inside=inside[1],
        family_ptr=_ints(family_ptr),
        member_ptr=member_ptr,
        member=member,
        covers=np.array(covers, dtype=bool),
        whole_ptr=_ints(whole_ptr),
        whole_member_ptr=whole_member_ptr,
        whole_member=whole_member,
        row_laws=row_laws,
        names=tuple(_name(int(i), mask, len(sizes)) for i, mask in zip(event_law, events, strict=True)),
    )


class _Draws(NamedTuple):
    """What the steps of each pair add to."""

    ptr: Ints
    partition: Ints
    class_ptr: Ints
    cell_class: Ints
    partitions: list[tuple[int, dict[int, int]]]  # law, and the class of each of its projections
    n_classes: int


def _draws(
    rows: list[tuple[Ints, _Split]], law: Ints, laws: list[_Law], joint_laws: dict[tuple[int, ...], int], observed: bool
) -> _Draws:
    """The partitions that the pairs' components and joint noise reveal; of an observed law, its atoms."""
    partitions: list[tuple[int, dict[int, int]]] = []
    known: dict[tuple[int, frozenset[int]], int] = {}
    n_classes = 0

    def partition(i: int, masks: list[int]) -> int:
        nonlocal n_classes
        key = (i, frozenset(masks))
        if key not in known:
            known[key] = len(partitions)
            partitions.append((i, {mask: n_classes + j for j, mask in enumerate(dict.fromkeys(masks))}))
            n_classes += len(partitions[-1][1])
        return known[key]

    ptr, owners, class_ptr, cell_class = [0], [], [0], []
    if observed:
        for i, each in enumerate(laws):
            partition(i, [1 << value for value in range(each.size)])
    useful: dict[tuple[int, frozenset[int]], bool] = {}
    for k, (states, blocks) in enumerate(rows):
        own = tuple(int(i) for i in law[k])
        found = [] if observed else list(zip(own, blocks.projections, strict=True))
        if not observed and not blocks.grid:
            found.append((joint_laws[own], blocks.masks))
        kept = []
        for i, masks in found:
            key = (i, frozenset(masks))
            if key not in useful:
                useful[key] = any(_decided(mask, key[1]) for mask in laws[i].needed)
            if useful[key]:
                kept.append((partition(i, masks), masks))
        owners += [number for number, _ in kept]
        ptr.append(len(owners))
        for j in range(states.size):
            cell_class += [partitions[number][1][masks[j]] for number, masks in kept]
        class_ptr.append(len(cell_class))
    return _Draws(_ints(ptr), _ints(owners), _ints(class_ptr), _ints(cell_class), partitions, n_classes)


def _deciding(
    events: list[int], event_law: Ints, complement: Ints, laws: list[_Law], draws: _Draws
) -> tuple[Ints, Bools, tuple[Ints, Ints], tuple[Ints, Ints]]:
    """The interval of each event and whether it counts the complement; by interval, partitions and classes inside."""
    interval, flipped = np.full(len(events), -1, dtype=np.int64), np.zeros(len(events), dtype=bool)
    decides: list[list[int]] = []
    inside: list[list[int]] = []
    by_law: list[list[int]] = [[] for _ in laws]
    for number, (i, _) in enumerate(draws.partitions):
        by_law[i].append(number)
    for e, mask in enumerate(events):
        if complement[e] < e:  # an event and its complement are decided by the same steps: one interval holds both
            interval[e], flipped[e] = interval[complement[e]], True
            continue
        found = [n for n in by_law[event_law[e]] if _decided(mask, draws.partitions[n][1])]
        if found:
            interval[e] = len(decides)
            decides.append(found)
            inside.append([c for n in found for m, c in draws.partitions[n][1].items() if m & mask == m])
    return interval, flipped, _csr(decides), _csr(inside)


def _decided(mask: int, classes: Any) -> bool:
    """Whether each class lies in an event or outside it."""
    return all(each & mask in (0, each) for each in classes)


def _split(label: Ints, shape: tuple[int, ...]) -> _Split:
    """The blocks {ξ : label = 0}, {ξ : label = 1}, .. of noise of that shape."""
    n, size = int(label.max()) + 1, label.size
    coordinates = np.unravel_index(np.arange(size), shape)
    count, volume = np.bincount(label, minlength=n), np.ones(n, dtype=np.int64)
    projections = []
    for values, where in zip(shape, coordinates, strict=True):
        touched = np.zeros((n, values), dtype=bool)
        touched[label, where] = True
        volume *= touched.sum(axis=1)
        projections.append(_masks(touched))
    product = (volume == count).tolist()
    grid = all(product) and all(_disjoint(masks) for masks in projections)
    terms: list[list[tuple[int, ...]]] = []
    masks: list[int] = []
    if len(shape) == 1:
        masks = projections[0]
    elif not grid:
        masks = _masks(label[None] == np.arange(n)[:, None])
    else:
        masks = [0] * n
    for b in range(n):
        if product[b]:
            terms.append([tuple(masks[b] for masks in projections)])
        else:
            terms.append(list(_products((label == b).reshape(shape))))
    return _Split(terms, projections, masks, product, grid)


def _disjoint(masks: list[int]) -> bool:
    """Whether sets of values are equal or disjoint, two by two."""
    different = set(masks)
    together = 0
    for mask in different:
        together |= mask
    return sum(mask.bit_count() for mask in different) == together.bit_count()


def _products(block: NDArray[np.bool_]) -> Iterator[tuple[int, ...]]:
    """Disjoint products of events whose union is a block of noise."""
    if block.ndim == 1:
        yield (_masks(block[None])[0],)
        return
    sections = block.reshape(block.shape[0], -1)
    found, owner = np.unique(sections, axis=0, return_inverse=True)
    owner = owner.reshape(-1)
    for i, section in enumerate(found):
        if section.any():
            first = _masks((owner == i)[None])[0]
            for rest in _products(section.reshape(block.shape[1:])):
                yield (first, *rest)


def _levels(earned: Floats, cell: Ints, n_cells: int, split: Any) -> tuple[Floats, _Split | None]:
    """The levels of a pair's rewards and their blocks; the cells themselves where the successor decides the reward."""
    scale = SAME * max(float(np.abs(earned).max()), 1e-300)
    low, high = np.full(n_cells, np.inf), np.full(n_cells, -np.inf)
    np.minimum.at(low, cell, earned)
    np.maximum.at(high, cell, earned)
    if np.all(high - low <= scale):
        return low, None
    label = np.empty(earned.size, dtype=np.int64)
    values: list[float] = []
    for i in np.argsort(earned, kind="stable"):
        if not values or earned[i] > values[-1] + scale:
            values.append(float(earned[i]))
        label[i] = len(values) - 1
    return np.array(values), split(label)


_Family = tuple[list[int], bool]


def _families(closed: list[int], everything: int) -> tuple[list[list[_Family]], list[_Family]]:
    """For each event of a law, and for everything, families of disjoint events within it, and whether they cover it.

    Any family is valid: the probability of the event is at least the sum of theirs, and equal to it if they cover it.
    Tried are those that begin with one of the largest and take in what still fits, and the one of the smallest.
    """
    index = {mask: i for i, mask in enumerate(closed)}
    most = max(2, min(FAMILIES, MANY // max(len(closed), 1)))

    def within(target: int) -> list[_Family]:
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
    both = [(list(pair), True) for pair in sorted(pairs)]
    return [within(mask) for mask in closed], both + within(everything)


def _numbered(blocks: _Split, own: tuple[int, ...], laws: list[_Law], number: dict[Any, int]) -> list[list[list[int]]]:
    """The terms of each block by the numbers of their events; everything is no event, since it is certain."""
    return [
        [[number[i, mask] for i, mask in zip(own, term, strict=True) if mask != laws[i].everything] for term in terms]
        for terms in blocks.terms
    ]


def _masks(rows: NDArray[np.bool_]) -> list[int]:
    """Each row as a bit mask."""
    packed = np.packbits(rows, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def _csr(lists: list[Any]) -> tuple[Ints, Ints]:
    """Lists as pointers and one flat array."""
    ptr = np.cumsum([0] + [len(each) for each in lists])
    return _ints(ptr), _ints([value for each in lists for value in each])


def _ints(values: Any) -> Ints:
    return np.array(values, dtype=np.int64)


def _name(law: int, mask: int, n_laws: int) -> str:
    """An event as people read it."""
    values = [i for i in range(mask.bit_length()) if mask >> i & 1]
    shown = ", ".join(str(value) for value in values[:8]) + (", …" if len(values) > 8 else "")
    return f"law {law} in {{{shown}}}" if law < n_laws else f"joint noise in {{{shown}}}"
