"""How a log is to be read: which columns and rows, what separates values, how quantities become states."""

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from surefooted.data.log_numbers import numbers
from surefooted.data.log_times import Step, instants, parse_step
from surefooted.errors import InvalidInput, shown
from surefooted.tables.space import Bools, Floats

Columns: TypeAlias = Mapping[str, str | Sequence[str] | None]
OUTCOMES = ("reward", "next_state", "terminated", "truncated")  # columns that say what happened
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
CONDITION = re.compile(r"^\s*(?P<column>.+?)\s*(?P<sign>!=|<=|>=|=|<|>|(?<=\s)in(?=\s))\s*(?P<value>.+?)\s*$")
ORDERS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


@dataclass(frozen=True)
class Condition:
    """What the rows that are read have in common: `column sign value`, as in `item = A17` or `date >= 2025-01-01`."""

    column: str
    sign: str
    value: str

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """The condition that a text states."""
        found = CONDITION.match(str(text))
        if found is None:
            fault = f"{text!r}: write a column, one of = != < <= > >= in, and a value, as in 'item = A17'"
            raise InvalidInput("no such condition on rows", [fault])
        return cls(found["column"], found["sign"], found["value"])

    def holds(self, column: pa.Array, decimal: str) -> Bools:
        """For which rows it holds, given its column; never where the value is missing."""
        if self.sign in ("=", "!=", "in"):
            words = self.value.split(",") if self.sign == "in" else [self.value]
            same = self._equals(column, [word.strip() for word in words], decimal)
            known = ~np.asarray(column.is_null())
            return known & ~same if self.sign == "!=" else same
        wanted, status = numbers(pa.array([self.value]), decimal)
        if status[0] == 0 and not pa.types.is_temporal(column.type):
            values, status = numbers(column, decimal)
        else:
            moment, known_moment = instants(pa.array([self.value]), None)
            if known_moment[0] != 0:
                fault = f"{self}: {self.sign} compares numbers or dates, and {self.value!r} is neither"
                raise InvalidInput("no such condition on rows", [fault])
            whole, status = instants(column, None)
            values, wanted = whole.astype(np.float64), moment.astype(np.float64)
        with np.errstate(invalid="ignore"):
            return np.asarray((status == 0) & ORDERS[self.sign](values, wanted[0]))

    def _equals(self, column: pa.Array, words: list[str], decimal: str) -> Bools:
        """Which values are one of the words: as a date, as text or as a number."""
        if pa.types.is_temporal(column.type):
            (values, known), (wanted, status) = instants(column, None), instants(pa.array(words), None)
            return np.asarray((known == 0) & np.isin(values, wanted[status == 0]))
        encoded = column.dictionary_encode()
        listed = encoded.dictionary
        same = np.array([str(word).strip() in words for word in listed.to_pylist()], dtype=bool)
        amounts, status = numbers(pa.array(words), decimal)
        if np.any(status == 0):
            held, known = numbers(listed, decimal)
            same = same | ((known == 0) & np.isin(held, amounts[status == 0]))
        rows = np.asarray(encoded.indices.fill_null(len(listed)))
        return np.asarray(np.append(same, False)[rows])

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.column} {self.sign} {self.value}"


@dataclass(frozen=True)
class LogOptions:
    """How a log is to be read; `read_history` says what each option means."""

    columns: Columns = field(default_factory=dict)
    where: tuple[Condition, ...] = ()
    site: str | None = None
    pool: bool = False
    bins: Mapping[str, Floats] = field(default_factory=dict)
    step: Step | None = None
    dates: str | None = None
    separator: str | None = None
    decimal: str | None = None
    encoding: str = "utf-8"
    quoted_breaks: bool = False


def parse_options(
    columns: Columns | None = None,
    *,
    where: str | Sequence[str] = (),
    bins: Mapping[str, Sequence[float]] | None = None,
    step: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    **others: Any,
) -> LogOptions:
    """The options, checked; one error names every fault. `others` are fields of `LogOptions` that need no check."""
    faults: list[str] = []
    conditions, every = [], None
    for text in [where] if isinstance(where, str) else where:
        try:
            conditions.append(Condition.parse(text))
        except InvalidInput as error:
            faults += [f"where: {fault}" for fault in error.faults]
    try:
        every = None if step is None else parse_step(step)
    except InvalidInput as error:
        faults += error.faults
    if separator is not None and separator not in SEPARATORS:
        faults.append(f"separator {separator!r} must be one of {', '.join(map(repr, SEPARATORS))}")
    if decimal not in (None, ".", ","):
        faults.append(f"decimal {decimal!r} must be '.' or ','")
    if separator == decimal == ",":
        faults.append("commas cannot separate values and decimals alike")
    if not isinstance(columns or {}, Mapping):
        faults.append(f"columns {shown(columns)}: say what each column is called, as in {{'state': 'stock'}}")
    if not isinstance(bins or {}, Mapping):
        faults.append(f"bins {shown(bins)}: say what they are bins of, as in {{'stock': [0, 5, 10]}}")
        bins = None
    try:
        codecs.lookup(encoding or "utf-8")
    except LookupError:
        faults.append(f"encoding {encoding!r}: there is none; give utf-8, cp1252, latin-1, utf-16 or the like")
    edges = {name: _edges(name, values, faults) for name, values in (bins or {}).items()}
    if faults:
        raise InvalidInput("this log cannot be read", faults)
    others |= {"separator": separator, "decimal": decimal, "encoding": encoding or "utf-8"}
    named = {name: column or None for name, column in (columns or {}).items()}  # "" leaves a column out, too
    return LogOptions(named, tuple(conditions), bins=edges, step=every, **others)


def _edges(name: str, values: Sequence[float], faults: list[str]) -> Floats:
    """The edges of the bins of a column."""
    try:
        edges = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        edges = np.zeros(0)
    if edges.ndim != 1 or edges.size < 2 or not np.all(np.isfinite(edges)) or np.any(np.diff(edges) <= 0):
        faults.append(
            f"bins of {name!r}: give at least two finite numbers that increase, as in [0, 5, 10], not {values!r}"
        )
    return edges
