"""From the columns of a log to steps that can be counted: each row is used, or has one reason why it is not used."""

from bisect import bisect_right
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surefooted.data.counts import Counts
from surefooted.data.log_files import Batch
from surefooted.kernels.logs import AFTERWARDS, BACKWARDS, CUT, ENDED, NEXT, REPEATED, LogRows, Waiting, follow_rows
from surefooted.kernels.structs import Steps
from surefooted.tables.money import Money
from surefooted.tables.space import Bools, Floats, Ints, Space

EXAMPLES = 3  # rows kept for each reason
MISSING, NO_NUMBER, UNKNOWN = -1, -2, -3  # in place of an index
LAST = 1 << 53  # whole numbers below are exact as floats
NUMBER = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)$"
FALSE, TRUE = ("false", "0", "0.0"), ("true", "1", "1.0")

VERDICTS = {
    REPEATED: "t repeats that of the row before in its episode",
    BACKWARDS: "t does not increase within its episode",
    AFTERWARDS: "episode had terminated before",
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

    def __init__(self, counts: Counts, state_labels: tuple[str, ...], action_labels: tuple[str, ...]) -> None:
        self.counts, self.labels = counts, {"state": state_labels, "action": action_labels, "next_state": state_labels}
        self.rows, self.used, self.begun = 0, 0, 0
        self.unusable: Counter[str] = Counter()
        self.examples: defaultdict[str, list[Example]] = defaultdict(list)
        self._parts: list[tuple[int, str]] = []  # rows before each file
        self._known: dict[str, int] = {}  # the number of each episode by its name
        self._waiting = _nothing_waits(1)

    @property
    def episodes(self) -> int:
        """Episodes that have a row."""
        return len(self._known) or self.begun

    def add(self, batch: Batch) -> None:
        """Read more rows."""
        if not self._parts or self._parts[-1][1] != batch.file:
            self._parts.append((self.rows, batch.file))
        reasons = _Reasons(len(batch.columns["state"]))
        rows, late = self._parse(batch, reasons)
        n = len(rows.t)
        self._make_room(len(self._known))
        steps = Steps(np.empty(2 * n, dtype=np.int64), np.empty(2 * n), np.empty(2 * n, dtype=np.int64))
        verdict, contradicted = np.zeros(n, dtype=np.int64), np.empty((n, 3), dtype=np.int64)
        unnamed = "episode" not in batch.columns
        done, bad, begun = follow_rows(rows, self.rows, unnamed, self._waiting, steps, verdict, contradicted)
        self.begun += begun
        for code, reason in VERDICTS.items():
            reasons.add(reason, verdict == code)
        reasons.add(TOO_LATE, late)
        self._count(steps.pairs[:done], steps.rewards[:done], steps.next_states[:done])
        self._tally(batch, reasons)
        if bad:
            self.unusable[CONTRADICTED] += bad
            some = self.examples[CONTRADICTED]
            for at, led_to, i in contradicted[: min(bad, EXAMPLES - len(some))].tolist():
                row = self._place(self.rows + i)[1]
                what = f"leads to state {led_to}, but row {row} begins in state {rows.state[i]}"
                some.append(Example(*self._place(at), what))
        self.rows += n

    def _parse(self, batch: Batch, reasons: "_Reasons") -> tuple[LogRows, Bools]:
        """The rows as numbers, and which of them are beyond the last stage; what cannot be read gets a reason."""
        counts, space, columns, n = self.counts, self.counts.space, batch.columns, len(reasons.code)
        episode = self._episodes(columns["episode"]) if "episode" in columns else np.zeros(n, dtype=np.int64)
        reasons.add("episode is missing", episode < 0)
        t = _steps(columns["t"], reasons) if "t" in columns else np.full(n, NEXT)
        state, action = (self._indices(name, columns[name], reasons) for name in ("state", "action"))
        pair = _pairs(space, state, action)
        reasons.add("action is not available in its state", pair < 0)
        reward = _rewards(columns["reward"], space.money if counts.bounded else None, reasons)
        next_state = self._indices("next_state", columns["next_state"], reasons)
        terminated, truncated = (
            _flags(name, columns[name], reasons) if name in columns else np.zeros(n, dtype=np.int64)
            for name in ("terminated", "truncated")
        )
        over = np.maximum(CUT * truncated, ENDED * terminated)  # negative if unknown
        late = (t >= counts.stages) & (counts.stages > 1)
        if counts.stages > 1:
            pair = np.where(late, -1, pair + t * space.n_pairs)
        usable = (reasons.code == 0) & ~late
        return LogRows(episode, t, state, pair, reward, next_state, over, usable), late

    def finish(self) -> None:
        """Count the rows that still wait: no other row follows them."""
        last = np.flatnonzero(self._waiting.pair >= 0)
        self._count(self._waiting.pair[last], self._waiting.reward[last], self._waiting.next_state[last])
        self._waiting = _nothing_waits(1)

    def _count(self, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        self.counts.add_checked(pairs, self.counts.space.money.counted(rewards), next_states)
        self.used += len(pairs)

    def _tally(self, batch: Batch, reasons: "_Reasons") -> None:
        """Count the rows of a batch by reason, and keep the first rows of each as examples."""
        for code, number in enumerate(np.bincount(reasons.code, minlength=1).tolist()):
            if code == 0 or number == 0:
                continue
            reason = reasons.names[code - 1]
            self.unusable[reason] += number
            free = EXAMPLES - len(self.examples[reason])
            for i in np.flatnonzero(reasons.code == code)[:free].tolist():
                said = ((name, column[i].as_py()) for name, column in batch.columns.items())
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

    def _episodes(self, column: pa.Array) -> Ints:
        """The number of each row's episode, or MISSING; any text or number can name an episode."""
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), None, column)
        encoded, known = column.cast(pa.string()).dictionary_encode(), self._known
        names = encoded.dictionary.to_pylist()
        numbers = [known.setdefault(name, len(known)) if name else MISSING for name in names]
        return _spread(np.array(numbers, dtype=np.int64), encoded)

    def _indices(self, name: str, column: pa.Array, reasons: "_Reasons") -> Ints:
        """The state or action of each row, or a negative number."""
        space, labels = self.counts.space, self.labels[name]
        size = space.n_actions if name == "action" else space.n_states
        encoded = column.dictionary_encode()
        words = encoded.dictionary
        values, index = _numbers(words)
        whole = (index == 0) & (values >= 0) & (values < size) & (values == np.floor(values))
        index[index == 0] = UNKNOWN
        index[whole] = values[whole].astype(np.int64)
        if labels:
            named = pc.index_in(words.cast(pa.string()), value_set=pa.array(labels, pa.string()))
            numbered = _numbers(pa.array(labels, pa.string()))[1] == 0
            index[(index == NO_NUMBER) | (numbered.any() & (index >= 0))] = UNKNOWN
            index = np.where(_bools(named.is_valid()), named.fill_null(0).to_numpy(zero_copy_only=False), index)
        index = _spread(index, encoded)
        reasons.add(f"{name} is missing", index == MISSING)
        reasons.add(f"{name} is not a number", index == NO_NUMBER)
        reasons.add(f"{name} does not exist", index == UNKNOWN)
        return index


class _Reasons:
    """Why each row of a batch cannot be used: `code` [n] is 0, or one more than the index of its first reason."""

    def __init__(self, n: int) -> None:
        self.code = np.zeros(n, dtype=np.int64)
        self.names: list[str] = []

    def add(self, name: str, rows: Bools) -> None:
        """Give these rows a reason, unless they have one already."""
        self.names.append(name)
        self.code[rows & (self.code == 0)] = len(self.names)


def _nothing_waits(n: int) -> Waiting:
    """The state of n episodes before their first row."""
    nothing = np.zeros(n, dtype=np.int64)
    return Waiting(nothing - 1, nothing + CUT, nothing - 1, np.zeros(n), nothing.copy(), nothing.copy())


def _spread(values: Ints, encoded: Any) -> Ints:
    """The value of each row, given the values of the distinct words; MISSING where there is no word."""
    with_missing: Ints = np.append(values, MISSING)
    rows: Ints = np.asarray(encoded.indices.fill_null(len(values)))
    return with_missing[rows]


def _numbers(column: pa.Array) -> tuple[Floats, Ints]:
    """Each value as a float, and its status: 0, MISSING or NO_NUMBER."""
    status = np.where(_bools(column.is_null()), MISSING, 0)
    try:
        numbers = column.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid:  # some text is not a number
        column = pc.utf8_trim_whitespace(column)
        blank = pc.equal(column, "").fill_null(True)
        column = pc.if_else(pc.match_substring_regex(column, NUMBER), column, pa.scalar(None, pa.string()))
        status = np.where(_bools(blank), MISSING, np.where(_bools(column.is_null()), NO_NUMBER, 0))
        numbers = column.cast(pa.float64())
    return np.array(numbers.fill_null(np.nan)), status


def _bools(column: pa.Array) -> Bools:
    mask: Bools = column.to_numpy(zero_copy_only=False)
    return mask


def _steps(column: pa.Array, reasons: _Reasons) -> Ints:
    """The t of each row, or -1."""
    values, status = _numbers(column)
    whole = (status == 0) & (values >= 0) & (values < LAST) & (values == np.floor(values))
    reasons.add("t is missing", status == MISSING)
    reasons.add("t is not a number", status == NO_NUMBER)
    reasons.add("t is negative or not whole", ~whole)
    return np.where(whole, values, -1).astype(np.int64)


def _rewards(column: pa.Array, money: Money | None, reasons: _Reasons) -> Floats:
    """The reward of each row, in the user's unit; any finite number if no range is given."""
    values, status = _numbers(column)
    reasons.add("reward is missing", status == MISSING)
    reasons.add("reward is not a number", status == NO_NUMBER)
    reasons.add("reward is not finite", ~np.isfinite(values))
    if money is not None:
        reasons.add(f"reward is outside {money.words}", ~money.contains(values))
    return values


def _flags(name: str, column: pa.Array, reasons: _Reasons) -> Ints:
    """0 or 1 for each row, or a negative number."""
    encoded = column.dictionary_encode()
    words = pc.utf8_lower(pc.utf8_trim_whitespace(encoded.dictionary.cast(pa.string()))).to_pylist()
    known = dict.fromkeys(FALSE, 0) | dict.fromkeys(TRUE, 1) | {"": MISSING, "nan": MISSING}
    flags = _spread(np.array([known.get(word, UNKNOWN) for word in words], dtype=np.int64), encoded)
    reasons.add(f"{name} is missing", flags == MISSING)
    reasons.add(f"{name} is not true or false", flags == UNKNOWN)
    return flags


def _pairs(space: Space, state: Ints, action: Ints) -> Ints:
    """The pair of each row, or -1."""
    span = space.n_actions + 1  # pairs are sorted by (state, action)
    keys, key = space.pair_state * span + space.pair_action, state * span + action
    pair = np.minimum(np.searchsorted(keys, key), space.n_pairs - 1)
    return np.where((state >= 0) & (action >= 0) & (keys[pair] == key), pair, -1)
