"""From the columns of a log to steps that can be counted: each row is used, or has one reason why it is not used."""

from bisect import bisect_right
from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surefooted.data.counts import Counts
from surefooted.data.log_files import Batch
from surefooted.data.log_numbers import MISSING, numbers
from surefooted.data.log_options import LogOptions
from surefooted.data.log_values import (
    LEFT_OUT,
    Labels,
    Reasons,
    flags,
    indices,
    joined,
    pairs_of,
    rewards,
    spread,
    steps,
)
from surefooted.data.repeats import Repeats
from surefooted.kernels.logs import (
    AFTERWARDS,
    BACKWARDS,
    BEGUN,
    COPIED,
    CUT,
    ENDED,
    NEXT,
    REPEATED,
    LogRows,
    Waiting,
    Walked,
    follow_rows,
)
from surefooted.kernels.structs import Steps
from surefooted.tables.space import Bools, Floats, Ints

EXAMPLES = 3  # rows kept for each reason
IN_ORDER = 20_000  # steps that are kept one after the other

VERDICTS = {
    REPEATED: "t repeats that of the row before in its episode",
    BACKWARDS: "t does not increase within its episode",
    AFTERWARDS: "episode had terminated before",
    COPIED: "row repeats the row before, and does not begin where that row led",
}
TOO_LATE = "t is beyond the last stage"
CONTRADICTED = "next_state is not where the next row of its episode begins"


class Example(NamedTuple):
    """A row that was not used: its file, its number from 1 (the header does not count), and its content."""

    file: str
    row: int
    what: str

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.file}, row {self.row}: {self.what}"


class Rows:
    """Reads batches of rows, counts the steps that can be used, and tallies the other rows by reason.

    Each row waits until the next row of its episode confirms where it led. The order of counting, and with it every
    digit, therefore does not depend on where batches end.
    """

    def __init__(self, counts: Counts, states: Labels, actions: Labels, options: LogOptions) -> None:
        self.counts, self.labels = counts, {"state": states, "action": actions, "next_state": states}
        self.options, self.repeats = options, Repeats()
        self.rows, self.used, self.left_out = 0, 0, 0
        self.tally = np.zeros(4, dtype=np.int64)  # of the walk through the rows
        self.sites: Counter[str] = Counter()  # rows of each site
        self.site_columns: tuple[str, ...] = ()
        self.unread: tuple[str, ...] = ()  # columns that were not read
        self.disorder = 0  # rows that cannot follow the row before, and are no copies of it
        self.unusable: Counter[str] = Counter()
        self.examples: defaultdict[str, list[Example]] = defaultdict(list)
        self._parts: list[tuple[int, str]] = []  # rows before each file
        self._known: dict[str, int] = {}  # the number of each episode by its name
        self._unnamed = False  # whether the log does not name its episodes
        self._waiting = _nothing_waits(1)
        self._kept: list[Steps] = []  # the first steps, as they were played

    @property
    def in_order(self) -> Steps | None:
        """The first steps in the order in which they were played; None if rows of several episodes may alternate."""
        if not self._kept or self.counts.stages > 1 or not (self._unnamed or len(self._known) <= 1):
            return None
        return Steps(*(np.concatenate(column) for column in zip(*self._kept, strict=True)))

    @property
    def episodes(self) -> int:
        """Episodes that have a row."""
        return int(self.tally[BEGUN]) if self._unnamed else len(self._known)

    def add(self, batch: Batch) -> None:
        """Read more rows."""
        if not self._parts or self._parts[-1][1] != batch.file:
            self._parts.append((self.rows, batch.file))
        reasons = Reasons(len(batch.columns["state"]))
        rows, late = self._parse(batch, reasons)
        n = len(rows.t)
        self._make_room(len(self._known))
        out = Steps(np.empty(2 * n, dtype=np.int64), np.empty(2 * n), np.empty(2 * n, dtype=np.int64))
        found = Walked(np.zeros(n, dtype=np.int64), np.empty((n, 3), dtype=np.int64), self.tally)
        self._unnamed = "episode" not in batch.columns
        done, bad = follow_rows(rows, self.rows, self._unnamed, self._waiting, out, found)
        for code, reason in VERDICTS.items():
            reasons.add(reason, found.verdict == code)
        reasons.add(TOO_LATE, late)
        self.disorder += _clashes(rows, found.verdict) + (bad if "t" not in batch.columns else 0)
        self.disorder += 0 if batch.found.sites else int(np.sum(found.verdict == BACKWARDS))
        self.unread = batch.found.unread
        self._count(out.pairs[:done], out.rewards[:done], out.next_states[:done])
        self._tally(batch, reasons)
        if bad:
            self.unusable[CONTRADICTED] += bad
            some = self.examples[CONTRADICTED]
            for at, led_to, i in found.contradicted[: min(bad, EXAMPLES - len(some))].tolist():
                row = self._place(self.rows + i)[1]
                what = f"leads to state {led_to}, but row {row} begins in state {rows.state[i]}"
                some.append(Example(*self._place(at), what))
        self.rows += n

    def _parse(self, batch: Batch, reasons: Reasons) -> tuple[LogRows, Bools]:
        """The rows as numbers, and which of them are beyond the last stage; what cannot be read gets a reason."""
        counts, space, columns, n = self.counts, self.counts.space, batch.columns, len(reasons.code)
        site = self._choose(batch, reasons)
        asked = reasons.code != reasons.left_out
        episode = self._episodes(columns.get("episode"), np.where(asked, site, MISSING), asked)
        reasons.add("site is missing", (site == MISSING) & bool(batch.found.sites))
        reasons.add("episode is missing", episode < 0)
        t = steps(batch, self.options, counts.stages, reasons) if "t" in columns else np.full(n, NEXT)
        state, action = (self._indices(name, batch, reasons) for name in ("state", "action"))
        pair = pairs_of(space, state, action)
        reasons.add("action is not available in its state", pair < 0)
        amount = numbers(columns["reward"], batch.decimal)
        reward = rewards(*amount, space.money if counts.bounded else None, reasons)
        next_state = self._indices("next_state", batch, reasons)
        terminated, truncated = (
            flags(name, columns[name], reasons) if name in columns else np.zeros(n, dtype=np.int64)
            for name in ("terminated", "truncated")
        )
        over = np.maximum(CUT * truncated, ENDED * terminated)  # negative if unknown
        late = (t >= counts.stages) & (counts.stages > 1)
        if counts.stages > 1:
            pair = np.where(late, -1, pair + t * space.n_pairs)
        usable = (reasons.code == 0) & ~late
        if "t" not in columns:
            self.repeats.add(np.where(usable, pair, -1)[asked], reward[asked], next_state[asked])
        return LogRows(episode, t, state, pair, reward, next_state, over, usable), late

    def _indices(self, name: str, batch: Batch, reasons: Reasons) -> Ints:
        """The state or action of each row, or a negative number."""
        size = self.counts.space.n_actions if name == "action" else self.counts.space.n_states
        return indices(name, batch, self.labels[name], size, self.options, reasons)

    def finish(self) -> None:
        """Count the rows that still wait: no other row follows them."""
        last = np.flatnonzero(self._waiting.pair >= 0)
        self._count(self._waiting.pair[last], self._waiting.reward[last], self._waiting.next_state[last])
        self._waiting = _nothing_waits(1)

    def _count(self, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        self.counts._add_checked(pairs, self.counts.space.money.counted(rewards), next_states)
        if (free := max(IN_ORDER - self.used, 0)) and len(self._known) <= 1:
            self._kept.append(Steps(pairs[:free].copy(), rewards[:free].copy(), next_states[:free].copy()))
        self.used += len(pairs)

    def _tally(self, batch: Batch, reasons: Reasons) -> None:
        """Count the rows of a batch by reason, and keep the first rows of each as examples."""
        for code, number in enumerate(np.bincount(reasons.code, minlength=1).tolist()):
            if code == 0 or number == 0:
                continue
            reason = reasons.names[code - 1]
            if reason == LEFT_OUT:
                self.left_out += number
                continue
            self.unusable[reason] += number
            free = EXAMPLES - len(self.examples[reason])
            for i in np.flatnonzero(reasons.code == code)[:free].tolist():
                said = ((name, column[i].as_py()) for name, column in (batch.columns | batch.others).items())
                what = ", ".join(f"{name} {'—' if value is None else value}" for name, value in said)
                self.examples[reason].append(Example(batch.file, batch.first + i, what))

    def _place(self, at: int) -> tuple[str, int]:
        """The file and row of the row number `at` of the log."""
        before, file = self._parts[bisect_right(self._parts, at, key=lambda part: part[0]) - 1]
        return file, at - before + 1

    def _make_room(self, n: int) -> None:
        """Room for n episodes."""
        if n > (size := len(self._waiting.last)):
            more = _nothing_waits(max(n, 2 * size) - size)
            self._waiting = Waiting(*(np.concatenate(arrays) for arrays in zip(self._waiting, more, strict=True)))

    def _choose(self, batch: Batch, reasons: Reasons) -> Ints:
        """The number of each row's site, or MISSING; rows that are not asked for are left out."""
        n, kept = len(reasons.code), np.ones(len(reasons.code), dtype=bool)
        for condition in self.options.where:
            column = batch.found.ours.get(condition.column, condition.column)
            kept &= condition.holds(batch.others[column], batch.decimal)
        site, self.site_columns = np.zeros(n, dtype=np.int64), batch.found.sites
        if batch.found.sites:
            encoded = joined([batch.others[name] for name in batch.found.sites]).dictionary_encode()
            names = encoded.dictionary.to_pylist()
            if self.options.site is not None:
                kept &= spread(np.array([name == self.options.site for name in names], dtype=np.int64), encoded) == 1
            site = spread(np.arange(len(names)), encoded)
            for i, number in enumerate(np.bincount(site[kept & (site >= 0)], minlength=len(names)).tolist()):
                self.sites[names[i]] += number
            order = {name: i for i, name in enumerate(self.sites)}
            site = spread(np.array([order[name] for name in names], dtype=np.int64), encoded)
        reasons.add(LEFT_OUT, ~kept)
        return site

    def _episodes(self, column: pa.Array | None, site: Ints, asked: Bools) -> Ints:
        """The number of each row's episode, or MISSING; any text or number can name an episode, within its site."""
        n = len(asked)
        if column is None and not self.sites:
            return np.where(asked, 0, MISSING)
        if column is None:
            column = pa.nulls(n, pa.string()).fill_null("all")
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)
        column = column if asked.all() else pc.if_else(pa.array(asked), column, None)
        encoded, known = column.cast(pa.string()).dictionary_encode(), self._known
        names, index = encoded.dictionary.to_pylist(), np.asarray(encoded.indices.fill_null(-1))
        if not self.sites:
            codes = [known.setdefault(name, len(known)) if name else MISSING for name in names]
            return spread(np.array(codes, dtype=np.int64), encoded)
        episode = np.full(n, MISSING)
        there = (index >= 0) & (site >= 0)
        keys, row = np.unique(np.stack([site, index], axis=1)[there], axis=0, return_inverse=True)
        codes = [known.setdefault(f"{s}/{names[i]}", len(known)) if names[i] else MISSING for s, i in keys.tolist()]
        episode[there] = np.array(codes, dtype=np.int64)[row.ravel()]
        return episode


def _clashes(rows: LogRows, verdict: Ints) -> int:
    """How many rows have the t of the row before in their episode, but are no copies of it."""
    order = np.argsort(rows.episode, kind="stable")
    before = np.full(len(order), -1)
    before[order[1:]] = np.where(rows.episode[order[1:]] == rows.episode[order[:-1]], order[:-1], -1)
    at = np.flatnonzero((verdict == REPEATED) & (before >= 0))
    same = np.ones(len(at), dtype=bool)
    for column in (rows.state, rows.pair, rows.reward, rows.next_state):
        same &= (column[at] == column[before[at]]) | ~(rows.usable[at] & rows.usable[before[at]])
    return int(np.sum(~same))


def _nothing_waits(n: int) -> Waiting:
    """The state of n episodes before their first row."""
    nothing = np.zeros(n, dtype=np.int64)
    return Waiting(nothing - 1, nothing + CUT, nothing - 1, np.zeros(n), nothing.copy(), nothing.copy())
