"""From the values of a log to numbers: states, actions, steps, rewards and flags, or a reason why a row has none."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surefooted.data.log_files import Batch
from surefooted.data.log_numbers import ABOVE, BELOW, MISSING, NO_NUMBER, UNKNOWN, binned, bools, numbers
from surefooted.data.log_options import LogOptions
from surefooted.data.log_times import instants, usual_step
from surefooted.errors import InvalidInput
from surefooted.tables.money import Money
from surefooted.tables.space import Bools, Floats, Ints, Space

LAST = 1 << 53  # whole numbers below are exact as floats
FALSE, TRUE = ("false", "0", "0.0"), ("true", "1", "1.0")
LEFT_OUT = "left out"  # by `where` or `site`, and therefore neither used nor unusable


@dataclass(frozen=True)
class Labels:
    """Words for indices: `words[i]` stands for `index[i]`; empty if indices stand for themselves."""

    words: tuple[str, ...] = ()
    index: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class Reasons:
    """Why each row of a batch cannot be used: `code` [n] is 0, or one more than the index of its first reason."""

    def __init__(self, n: int) -> None:
        self.code = np.zeros(n, dtype=np.int64)
        self.names: list[str] = []

    @property
    def left_out(self) -> int:
        """The code of rows that are left out; they are not asked for."""
        return 1 + self.names.index(LEFT_OUT)

    def add(self, name: str, rows: Bools) -> None:
        """Give these rows a reason, unless they have one already."""
        self.names.append(name)
        self.code[rows & (self.code == 0)] = len(self.names)


def steps(batch: Batch, options: LogOptions, stages: int, reasons: Reasons) -> Ints:
    """The t of each row, or -1; dates become numbers of steps."""
    step, pattern, column = options.step, options.dates, batch.columns["t"]
    if pa.types.is_temporal(column.type) or pattern is not None:
        values, status = np.zeros(len(column)), np.full(len(column), NO_NUMBER)
    else:
        values, status = numbers(column, batch.decimal)
    if np.any(strange := status == NO_NUMBER):
        moments, known = instants(column, pattern)
        dated = strange & (known == 0)
        if dated.any() and (step is None or stages > 1):
            apart = usual_step(moments[dated])
            about = f" Most of them are {apart} apart." if apart else ""
            fault = f"column {batch.found.ours['t']!r} holds dates, and the length of a step is not given"
            if step is not None:
                fault = f"column {batch.found.ours['t']!r} holds dates; with stages, t must be the stage of each row"
            hint = f"Say how long a step is, as in step='week', or leave them out: columns={{'t': None}}.{about}"
            raise InvalidInput(f"{batch.file} cannot be read", [fault], hint)
        if step is not None:
            values, status = np.where(dated, step.of(moments), values), np.where(strange, known, status)
    whole = (status == 0) & (values >= 0) & (values < LAST) & (values == np.floor(values))
    reasons.add("t is missing", status == MISSING)
    reasons.add("t is not a number" if step is None else "t is not a number or a date", status == NO_NUMBER)
    reasons.add("t is negative or not whole", ~whole)
    return np.where(whole, values, -1).astype(np.int64)


def indices(name: str, batch: Batch, labels: Labels, size: int, options: LogOptions, reasons: Reasons) -> Ints:
    """The state or action of each row, or a negative number."""
    encoded = batch.columns[name].dictionary_encode()
    words, edges = encoded.dictionary, _bins(name, batch, options)
    values, index = numbers(words, batch.decimal)
    if edges is not None:
        index = binned(values, index, edges, size)
    else:
        whole = (index == 0) & (values >= 0) & (values < size) & (values == np.floor(values))
        index[index == 0] = UNKNOWN
        index[whole] = values[whole].astype(np.int64)
    if labels.words:
        known = pa.array(labels.words, pa.string())
        named = pc.index_in(pc.utf8_trim_whitespace(words.cast(pa.string())), value_set=known)
        numbered = (numbers(known)[1] == 0).any() and edges is None
        index[(index == NO_NUMBER) | (numbered & (index >= 0))] = UNKNOWN
        meant = labels.index[named.fill_null(0).to_numpy(zero_copy_only=False)]
        index = np.where(bools(named.is_valid()), meant, index)
    index = spread(index, encoded)
    reasons.add(f"{name} is missing", index == MISSING)
    reasons.add(f"{name} is not a number", index == NO_NUMBER)
    reasons.add(f"{name} does not exist", index == UNKNOWN)
    if edges is not None:
        reasons.add(f"{name} is below the first bin, {edges[0]:g}", index == BELOW)
        reasons.add(f"{name} is above the last bin, {edges[-1]:g}", index == ABOVE)
    return index


def _bins(name: str, batch: Batch, options: LogOptions) -> Floats | None:
    """The edges of the bins of a column, if it has any; `next_state` has those of `state`."""
    bins, ours = options.bins, batch.found.ours
    names = (name, ours[name], *(("state", ours["state"]) if name == "next_state" else ()))
    return next((bins[key] for key in names if key in bins), None)


def spread(values: Ints, encoded: Any) -> Ints:
    """The value of each row, given the values of the distinct words; MISSING where there is no word."""
    with_missing: Ints = np.append(values, MISSING)
    rows: Ints = np.asarray(encoded.indices.fill_null(len(values)))
    return with_missing[rows]


def rewards(values: Floats, status: Ints, money: Money | None, reasons: Reasons) -> Floats:
    """The reward of each row, in the user's unit; any finite number if no range is given."""
    reasons.add("reward is missing", status == MISSING)
    reasons.add("reward is not a number", status == NO_NUMBER)
    reasons.add("reward is not finite", ~np.isfinite(values))
    if money is not None:
        reasons.add(f"reward is outside {money.words}", ~money.contains(values))
    return values


def flags(name: str, column: pa.Array, reasons: Reasons) -> Ints:
    """0 or 1 for each row, or a negative number."""
    encoded = column.dictionary_encode()
    words = pc.utf8_lower(pc.utf8_trim_whitespace(encoded.dictionary.cast(pa.string()))).to_pylist()
    known = dict.fromkeys(FALSE, 0) | dict.fromkeys(TRUE, 1) | {"": MISSING, "nan": MISSING}
    found = spread(np.array([known.get(word, UNKNOWN) for word in words], dtype=np.int64), encoded)
    reasons.add(f"{name} is missing", found == MISSING)
    reasons.add(f"{name} is not true or false", found == UNKNOWN)
    return found


def joined(columns: list[pa.Array]) -> pa.Array:
    """One text for each row; missing if one of the columns is."""
    texts = [column.cast(pa.string()) for column in columns]
    return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, " / ")


def pairs_of(space: Space, state: Ints, action: Ints) -> Ints:
    """The pair of each row, or -1."""
    span = space.n_actions + 1  # pairs are sorted by (state, action)
    keys, key = space.pair_state * span + space.pair_action, state * span + action
    pair = np.minimum(np.searchsorted(keys, key), space.n_pairs - 1)
    return np.where((state >= 0) & (action >= 0) & (keys[pair] == key), pair, -1)
