"""The states, actions and kinds of noise of a problem file: values that formulas use, and labels for people."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from surefooted.problems.file_spec import Range
from surefooted.tables.space import Floats

Fault = Callable[[tuple[Any, ...], str], None]


@dataclass(frozen=True)
class Axis:
    """Values with labels, under one name; `edges` if they are the bins of a quantity."""

    name: str
    values: tuple[Any, ...]
    labels: tuple[str, ...]
    edges: tuple[float, ...] | None = None

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.values)

    @cached_property
    def _index(self) -> dict[Any, int]:
        by_value = {value: i for i, value in enumerate(self.values)}
        return {label: i for i, label in enumerate(self.labels)} | by_value

    def find(self, word: Any, here: tuple[Any, ...], fault: Fault, where: str = "") -> int:
        """The index of a value or label; 0, and a fault, if there is none; `where` says how it came about."""
        key = word if isinstance(word, str) or not isinstance(word, float) or word != int(word) else int(word)
        if not isinstance(word, bool) and key in self._index:
            return self._index[key]
        near = get_close_matches(word, self.labels, n=1) if isinstance(word, str) else []
        there = ", ".join(self.labels[:6]) + (f", … {self.labels[-1]}" if self.size > 6 else "")
        meant = f"did you mean {near[0]!r}?" if near else f"there are {there}"
        fault(here, f"there is no {self.name} {word!r}{where}; {meant}")
        return 0


def axis_of(key: str, name: str, values: Any, labels: list[str] | None, fault: Fault, bins: Any = None) -> Axis:
    """The axis that a table of the file describes."""
    if (values is None) == (bins is None):
        fault((key,), "give either values or bins")
        return Axis(name, (0,), ("0",))
    edges = None
    if bins is not None:
        edges, n = tuple(bins), len(bins) if labels is None else len(labels)
        if len(bins) not in (n, n + 1):
            fault((key, "labels"), f"{n} labels for {len(bins)} edges: give as many, or one edge more")
        if list(bins) != sorted(set(bins)):
            fault((key, "bins"), "the edges must increase")
        values = list(range(n))
        labels = labels or [f"{low:g}–{high:g}" for low, high in pairwise(bins)] + [f"{bins[-1]:g}+"]
        labels = labels[:n]
    found = list(range(values.first, values.last + 1)) if isinstance(values, Range) else list(values)
    if len(set(found)) < len(found):
        fault((key, "values"), "some value is given twice")
    words = [f"{value:g}" if isinstance(value, float) else str(value) for value in found] if labels is None else labels
    if len(words) != len(found):
        fault((key, "labels"), f"{len(words)} labels for {len(found)} values")
    elif len(set(words)) < len(words) or not all(words):
        fault((key, "labels"), "labels must differ and must not be empty")
    return Axis(name, tuple(found), tuple(words), edges)


def find_all(axis: Axis, given: Mapping[str, float], here: tuple[Any, ...], fault: Fault) -> Floats:
    """A number for each value of an axis, from a table."""
    numbers = np.full(axis.size, np.nan)
    for word, number in given.items():
        numbers[axis.find(word, (*here, word), fault)] = number
    for i in np.flatnonzero(np.isnan(numbers))[:5]:
        fault(here, f"{axis.name} {axis.labels[i]} is missing")
    return numbers
