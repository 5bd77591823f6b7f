"""What a step says of its noise: the cells of a pair, cut into products of events.

The *cell* of a successor y of pair k is {ξ : f(k, ξ) = y}: a step says in which cell its noise was. The other words are
explained in `knowledge.noise_index`, with an example.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from surefooted.arrays import Bools, Floats, Ints

SAME_REWARD = 1e-12  # rewards this close, relative to the largest, are one level


class Split(NamedTuple):
    """A partition of the noise of a pair into blocks, each a union of products of events."""

    terms: list[list[tuple[int, ...]]]  # by block: its products, with an event for each component
    projections: list[list[int]]  # by component, by block
    masks: list[int]  # by block: the noise values themselves, the last component fastest
    grid: bool  # whether all blocks are products, and projections onto a component are equal or disjoint


def split(label: Ints, shape: tuple[int, ...]) -> Split:
    """The blocks {ξ : label = 0}, {ξ : label = 1}, .. of noise of that shape.

    A block that is no product of events is cut into products: values of the first component with the same section go
    together, and their section is cut in turn.
    """
    n = int(label.max()) + 1
    size, volume = np.bincount(label, minlength=n), np.ones(n, dtype=np.int64)
    projections = []
    for values, coordinate in zip(shape, np.unravel_index(np.arange(label.size), shape), strict=True):
        touched = np.zeros((n, values), dtype=bool)
        touched[label, coordinate] = True
        volume *= touched.sum(axis=1)
        projections.append(bit_masks(touched))
    is_product = volume == size
    grid = bool(is_product.all()) and all(_equal_or_disjoint(masks) for masks in projections)
    if len(shape) == 1:
        masks = projections[0]
    else:
        masks = [0] * n if grid else bit_masks(label[None] == np.arange(n)[:, None])
    terms = [
        [tuple(masks[b] for masks in projections)] if is_product[b] else list(_products((label == b).reshape(shape)))
        for b in range(n)
    ]
    return Split(terms, projections, masks, grid)


def reward_levels(earned: Floats, cell: Ints, n_cells: int) -> tuple[Floats, Ints | None]:
    """The levels of a pair's rewards, and the level of each noise; None if the successor alone decides the reward."""
    scale = SAME_REWARD * max(float(np.abs(earned).max()), 1e-300)
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
    return np.array(values), label


def bit_masks(rows: Bools) -> list[int]:
    """Each row as a bit mask."""
    packed = np.packbits(rows, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def _equal_or_disjoint(masks: list[int]) -> bool:
    """Whether any two of these sets of values are equal or disjoint."""
    different, together = set(masks), 0
    for mask in different:
        together |= mask
    return sum(mask.bit_count() for mask in different) == together.bit_count()


def _products(block: Bools) -> Iterator[tuple[int, ...]]:
    """Disjoint products of events whose union is a block of noise."""
    if block.ndim == 1:
        yield (bit_masks(block[None])[0],)
        return
    sections, owner = np.unique(block.reshape(block.shape[0], -1), axis=0, return_inverse=True)
    owner = owner.reshape(-1)
    for i, section in enumerate(sections):
        if section.any():
            first = bit_masks((owner == i)[None])[0]
            for rest in _products(section.reshape(block.shape[1:])):
                yield (first, *rest)
