"""Stretches of a log that stand in it twice, such as a month that was exported again.

Rows without a time cannot be told apart one by one: the same step may happen twice. A long stretch of rows that equals
an earlier one is no accident, unless the steps could hardly have gone otherwise. So each stretch is weighed by how
improbable it is that the process repeats it.
"""

from dataclasses import dataclass

import numpy as np

from surefooted.data.counts import Counts
from surefooted.tables.space import Floats, Ints

WINDOW = 16  # rows compared at once
MOST = 4_096  # windows remembered that equal an earlier one
FILTER = 1 << 22  # entries of the table that tells most windows from those that may have occurred before
CHANCE = 1e-6  # a stretch counts if the process would repeat any stretch of the log with a smaller probability


@dataclass(frozen=True)
class Repeat:
    """Rows `first` to `last` of the log, counted from 1, equal those from `earlier` on."""

    first: int
    last: int
    earlier: int

    def __str__(self) -> str:
        """For people."""
        length = self.last - self.first
        return f"rows {self.first} to {self.last} repeat rows {self.earlier} to {self.earlier + length}"


class Repeats:
    """Looks for stretches that stand in a log twice; it remembers every 16th row."""

    def __init__(self) -> None:
        weights = np.random.default_rng(16).integers(1, 1 << 63, size=WINDOW, dtype=np.uint64)
        self._weights = weights | np.uint64(1)
        self._anchors: dict[int, int] = {}  # hash of the rows from each 16th row on, and that row
        self._seen = np.zeros(0, dtype=np.bool_)  # [FILTER] once there are rows
        self._tail = _nothing()
        self._before = 0  # rows before the tail
        self._runs: dict[int, list[list[int]]] = {}  # by distance: first and end of each stretch, in rows of the log
        self._rows: dict[tuple[int, int], tuple[Ints, Ints]] = {}

    def add(self, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        """Read the next rows; the pair of a row that cannot be used is negative."""
        columns = (pairs, rewards + 0.0, next_states)
        pairs, rewards, next_states = (np.concatenate(both) for both in zip(self._tail, columns, strict=True))
        n = pairs.size - WINDOW + 1
        if n > 0:
            mixed = _mix(pairs.astype(np.uint64) ^ _mix(rewards.view(np.uint64) ^ _mix(next_states.astype(np.uint64))))
            windows = np.lib.stride_tricks.sliding_window_view(mixed, WINDOW)
            hashes = (windows * self._weights).sum(axis=1, dtype=np.uint64)
            sound = ~np.lib.stride_tricks.sliding_window_view(pairs < 0, WINDOW).any(axis=1)
            anchor, slot = (self._before + np.arange(n)) % WINDOW == 0, (hashes % np.uint64(FILTER)).astype(np.int64)
            self._seen = self._seen if self._seen.size else np.zeros(FILTER, dtype=np.bool_)
            self._seen[slot[anchor & sound]] = True
            for i in np.flatnonzero(sound & self._seen[slot]).tolist():
                self._look(self._before + i, int(hashes[i]), pairs[i : i + WINDOW], next_states[i : i + WINDOW])
        keep = max(n, 0)
        self._tail = (pairs[keep:], rewards[keep:], next_states[keep:])
        self._before += keep

    def _look(self, at: int, code: int, pairs: Ints, next_states: Ints) -> None:
        """Compare the window that begins at a row with those that begin at each 16th row before."""
        earlier = self._anchors.get(code)
        if earlier is None:
            if at % WINDOW == 0:
                self._anchors[code] = at
            return
        if len(self._rows) >= MOST:
            return
        runs = self._runs.setdefault(at - earlier, [])
        if runs and runs[-1][1] == at:
            runs[-1][1] = at + WINDOW
        else:
            runs.append([at, at + WINDOW])
        self._rows[at - earlier, at] = (pairs.copy(), next_states.copy())

    def found(self, counts: Counts) -> list[Repeat]:
        """The stretches that the process would not have repeated, given what it does after each pair."""
        if not self._runs:
            return []
        next_ptr, next_state, count = counts.rows()
        times = {
            (k, y): n
            for k in np.unique(np.concatenate([pairs for pairs, _ in self._rows.values()])).tolist()
            for y, n in zip(
                next_state[next_ptr[k] : next_ptr[k + 1]].tolist(),
                count[next_ptr[k] : next_ptr[k + 1]].tolist(),
                strict=True,
            )
        }
        least = 2 * np.log(max(self._before, 2)) - np.log(CHANCE)
        repeats = []
        for distance, runs in self._runs.items():
            for first, end in runs:
                weight = 0.0
                for at in range(first, end, WINDOW):
                    for k, y in zip(*(column.tolist() for column in self._rows[distance, at]), strict=True):
                        weight += np.log((counts.visits[k] + 1) / (times.get((k, y), 0) + 1))
                if weight > least:
                    repeats.append(Repeat(first + 1, end, first + 1 - distance))
        return sorted(repeats, key=lambda repeat: repeat.first)


def _nothing() -> tuple[Ints, Floats, Ints]:
    return np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0, dtype=np.int64)


def _mix(x: "np.ndarray[tuple[int], np.dtype[np.uint64]]") -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """A hash of each number (splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
