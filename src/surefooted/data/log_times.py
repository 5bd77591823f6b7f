"""Dates and times of a log as numbers of steps: weeks, days, months or any other length."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from surefooted.data.log_numbers import MISSING, NO_NUMBER
from surefooted.errors import InvalidInput
from surefooted.tables.space import Ints

ZERO = datetime(1, 1, 1)  # a Monday, so that weeks begin on Mondays
SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
MONTHS = {"month": 1, "quarter": 3, "year": 12}
PER_YEAR = {name: 365.2425 * 86_400 / seconds for name, seconds in SECONDS.items()} | {
    "month": 12,
    "quarter": 4,
    "year": 1,
}
DOTTED = re.compile(r"^(\d{1,2})\.(\d{1,2})\.(\d{4})(?:[ T](.+))?$")


@dataclass(frozen=True)
class Step:
    """The length of a step, such as a week or 15 minutes."""

    number: int
    unit: str

    @property
    def per_year(self) -> float:
        """How many steps a year has."""
        return PER_YEAR[self.unit] / self.number

    def of(self, moments: Ints) -> Ints:
        """The number of the step in which each moment, in microseconds since the year 1, lies."""
        if self.unit in SECONDS:
            return np.asarray(moments // (SECONDS[self.unit] * self.number * 1_000_000))
        days = np.array("0001-01-01", dtype="datetime64[D]") + moments // 86_400_000_000
        months = days.astype("datetime64[M]").astype(np.int64) + 1969 * 12
        return np.asarray(months // (MONTHS[self.unit] * self.number))

    def __str__(self) -> str:
        """`week`, or `15 minutes`."""
        return self.unit if self.number == 1 else f"{self.number} {self.unit}s"


def parse_step(text: str) -> Step:
    """The step that a text names: a unit of the calendar, with a number if there are several of them.

    >>> from surefooted.data.log_times import parse_step
    >>> parse_step("week").per_year, parse_step("15 minutes")
    (52.1775, Step(number=15, unit='minute'))
    """
    found = re.match(r"^\s*(?:(\d+)\s*)?([a-z]+?)s?\s*$", str(text))
    if found is None or found[2] not in PER_YEAR or found[1] in ("0", "00"):
        known = ", ".join(PER_YEAR)
        fault = f"step {text!r}: give {known}, or several of them, as in '15 minutes'"
        raise InvalidInput("no such step", [fault])
    return Step(int(found[1] or 1), found[2])


def instants(column: pa.Array, pattern: str | None) -> tuple[Ints, Ints]:
    """Each value in microseconds since the year 1, and its status: 0, MISSING or NO_NUMBER if it is no date.

    Text is ISO 8601 or `31.12.2025 18:30`, or what `pattern` says (as for `datetime.strptime`). Times with an offset
    are counted in UTC.
    """
    encoded = column.dictionary_encode()
    words = encoded.dictionary.to_pylist()
    moments = [_moment(word, pattern) for word in words]
    values = np.array([0 if moment is None else (moment - ZERO) // timedelta(microseconds=1) for moment in moments])
    status = np.array([_status(word, moment) for word, moment in zip(words, moments, strict=True)])
    rows = np.asarray(encoded.indices.fill_null(len(words)))
    return np.append(values, 0).astype(np.int64)[rows], np.append(status, MISSING).astype(np.int64)[rows]


def usual_step(moments: Ints) -> str:
    """What to say of the distance that most moments have, as in `7 days`; empty if there are too few."""
    apart = np.diff(np.unique(moments))
    if not apart.size:
        return ""
    values, times = np.unique(apart, return_counts=True)
    return str(timedelta(microseconds=int(values[np.argmax(times)]))).removesuffix(", 0:00:00")


def _status(word: Any, moment: datetime | None) -> int:
    if moment is not None:
        return 0
    return MISSING if word is None or not str(word).strip() else NO_NUMBER


def _moment(word: Any, pattern: str | None) -> datetime | None:
    """The moment that a value names, without an offset; None if it names none."""
    try:
        if isinstance(word, datetime):
            moment = word
        elif isinstance(word, date):
            moment = datetime(word.year, word.month, word.day)
        elif not isinstance(word, str):
            return None
        elif pattern is not None:
            moment = datetime.strptime(word.strip(), pattern)
        else:
            found = DOTTED.match(word.strip())
            moment = datetime.fromisoformat(
                word.strip()
                if found is None
                else f"{found[3]}-{found[2]:0>2}-{found[1]:0>2}" + f"T{found[4]}" * bool(found[4])
            )
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
