"""What a log holds, before anybody has said what its states and actions are: their values, and the range of rewards."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from surefooted.data.log_files import Batch, Source, batches
from surefooted.data.log_numbers import numbers
from surefooted.data.log_options import LogOptions, parse_options
from surefooted.errors import InvalidInput
from surefooted.tables.space import Space

MOST = 5_000  # different states, or actions
BATCH = 1 << 16


@dataclass(frozen=True)
class Survey:
    """The values of states and actions that occur, in order, which of them occur together, and the range of rewards."""

    states: tuple[str, ...]
    actions: tuple[str, ...]
    pairs: frozenset[tuple[str, str]]
    rewards: tuple[float, float]

    def space(self, unit: str = "") -> Space:
        """The space of what occurs: other actions may exist, and other rewards."""
        available = np.zeros((len(self.states), len(self.actions)), dtype=bool)
        state = {name: s for s, name in enumerate(self.states)}
        action = {name: a for a, name in enumerate(self.actions)}
        for s, a in self.pairs:
            available[state[s], action[a]] = True
        available[~available.any(axis=1)] = True  # a state in which nothing was done: a log can end there
        low, high = self.rewards
        names: dict[str, Any] = {"states": self.states, "actions": self.actions}
        return Space.from_available(available, rewards=(low, high if high > low else low + 1), unit=unit, **names)


def survey(source: Source, **options: Any) -> Survey:
    """Look through a log for its states, actions and rewards; options as for `read_history`.

    >>> from surefooted.data.survey import survey
    >>> survey([{"state": "low", "action": 1, "reward": -3, "next_state": "high"}]).states
    ('high', 'low')
    """
    chosen = parse_options(**options | {"pool": True})
    if chosen.bins:
        fault = "with bins, say what the states are: give a problem"
        raise InvalidInput("this log cannot be looked through", [fault])
    states, actions, pairs, ends = set[str](), set[str](), set[tuple[str, str]](), [np.inf, -np.inf]
    for batch in batches(source, chosen, BATCH):
        kept = _asked(batch, chosen)
        columns = [_texts(batch.columns[name]) for name in ("state", "action", "next_state")]
        found = {(s, a, y) for s, a, y, keep in zip(*columns, kept, strict=True) if keep}
        states |= {word for s, _, y in found for word in (s, y) if word}
        actions |= {a for _, a, _ in found if a}
        pairs |= {(s, a) for s, a, _ in found if s and a}
        for name, values in (("state", states), ("action", actions)):
            if len(values) > MOST:
                fault = f"{name} has more than {MOST} different values: is it a quantity? Give a problem with bins"
                raise InvalidInput(f"{batch.file} cannot be looked through", [fault])
        amounts, status = numbers(batch.columns["reward"], batch.decimal)
        amounts = amounts[(status == 0) & kept & np.isfinite(amounts)]
        if amounts.size:
            ends = [min(ends[0], float(amounts.min())), max(ends[1], float(amounts.max()))]
    if not pairs:
        raise InvalidInput("this log cannot be looked through", ["it holds no row with a state and an action"])
    low, high = ends if ends[0] <= ends[1] else (0.0, 1.0)
    return Survey(_ordered(states), _ordered(actions), frozenset(pairs), (low, high))


def _asked(batch: Batch, options: LogOptions) -> Any:
    """Which rows are asked for."""
    kept = np.ones(len(batch.columns["state"]), dtype=bool)
    for condition in options.where:
        kept &= condition.holds(batch.others[batch.found.ours.get(condition.column, condition.column)], batch.decimal)
    if options.site is not None:
        named = [_texts(batch.others[name]) for name in batch.found.sites]
        kept &= np.array([" / ".join(parts) == options.site for parts in zip(*named, strict=True)], dtype=bool)
    return kept


def _texts(column: pa.Array) -> list[str]:
    """Each value as text; whole numbers without a point."""
    values = column.to_pylist()
    return [
        "" if x is None else str(int(x)) if isinstance(x, float) and x == int(x) else str(x).strip() for x in values
    ]


def _ordered(words: set[str]) -> tuple[str, ...]:
    """Numbers by size, or words by the alphabet."""
    values, status = numbers(pa.array(sorted(words), pa.string()))
    order = np.argsort(values, kind="stable") if np.all(status == 0) else np.arange(len(words))
    return tuple(np.array(sorted(words), dtype=object)[order].tolist())
