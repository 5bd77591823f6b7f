"""From the columns of a log to steps that can be counted: each row is used, or has one reason why it is not."""

from bisect import bisect_right
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surefooted.data.counts import REWARD_ROUNDING, Counts
from surefooted.data.log_files import Batch
from surefooted.kernels.compile import njit
from surefooted.tables.space import Bools, Floats, Ints, Space

EXAMPLES = 3  # rows kept of each reason
MISSING, NO_NUMBER, UNKNOWN = -1, -2, -3  # in place of an index
NEXT = -4  # in place of t: one more than that of the row before
LAST = 1 << 53  # whole numbers below are exact as floats
NUMBER = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)$"
FALSE, TRUE = ("false", "0", "0.0"), ("true", "1", "1.0")
GOES_ON, CUT, ENDED = 0, 1, 2  # what a row says of its episode

REPEATED, BACKWARDS, TOO_LATE, AFTERWARDS = 1, 2, 3, 4  # verdicts of `follow`
VERDICTS = {
    REPEATED: "t repeats that of the row before in its episode",
    BACKWARDS: "t does not increase within its episode",
    TOO_LATE: "t is beyond the last stage",
    AFTERWARDS: "episode had terminated before",
}
CONTRADICTED = "next_state is not where the next row of its episode begins"


class Example(NamedTuple):
    """One row that was not used, numbered from 1 in its file (the header does not count), and what it says."""

    file: str
    row: int
    what: str

    def __str__(self) -> str:
        """As people would say it."""
        return f"{self.file}, row {self.row}: {self.what}"


class Rows:
    """Takes in batches, counts the steps that can be used, and tallies the others by reason.

    A row waits until the next one of its episode has confirmed where it led, so that the order of counting, and with
    it every digit, does not depend on where batches end.
    """

    def __init__(self, counts: Counts, state_labels: tuple[str, ...], action_labels: tuple[str, ...]) -> None:
        self.counts, self.labels = counts, {"state": state_labels, "action": action_labels, "next_state": state_labels}
        self.rows, self.used, self.begun = 0, 0, 0
        self.unusable: Counter[str] = Counter()
        self.examples: defaultdict[str, list[Example]] = defaultdict(list)
        self._parts: list[tuple[int, str]] = []  # rows before each file
        self._known: dict[str, int] = {}  # of the episodes seen
        self._memory = _memory(1)

    @property
    def episodes(self) -> int:
        """Episodes of which there was a row."""
        return len(self._known) or self.begun

    def add(self, batch: Batch) -> None:
        """Take in more rows."""
        counts, space, columns = self.counts, self.counts.space, batch.columns
        if not self._parts or self._parts[-1][1] != batch.file:
            self._parts.append((self.rows, batch.file))
        n = len(columns["state"])
        reasons = _Reasons(n)
        episode = self._episodes(columns["episode"]) if "episode" in columns else np.zeros(n, dtype=np.int64)
        reasons.add("episode is missing", episode < 0)
        t = _steps(columns["t"], reasons) if "t" in columns else np.full(n, NEXT)
        state, action = (self._indices(name, columns[name], reasons) for name in ("state", "action"))
        pair = _pairs(space, state, action)
        reasons.add("action is not available in its state", pair < 0)
        reward = _rewards(columns["reward"], space.r_max if counts.bounded else np.inf, reasons)
        next_state = self._indices("next_state", columns["next_state"], reasons)
        terminated, truncated = (
            _flags(name, columns[name], reasons) if name in columns else np.zeros(n, dtype=np.int64)
            for name in ("terminated", "truncated")
        )
        over = np.maximum(CUT * truncated, ENDED * terminated)  # negative if unknown
        self._grow(len(self._known))
        pairs, rewards, next_states = np.empty(2 * n, dtype=np.int64), np.empty(2 * n), np.empty(2 * n, dtype=np.int64)
        verdict, broken = np.zeros(n, dtype=np.int64), np.empty((n, 3), dtype=np.int64)
        where = (self.rows, counts.stages, space.n_pairs, "episode" not in columns)
        read = (episode, t, state, pair, reward, next_state, over, reasons.code == 0)
        arguments: tuple[Any, ...] = (*where, *read, *self._memory, pairs, rewards, next_states, verdict, broken)
        done, bad, begun = follow(*arguments)
        self.begun += begun
        for code, reason in VERDICTS.items():
            reasons.add(reason, verdict == code)
        self._count(pairs[:done], rewards[:done], next_states[:done])
        self._blame(batch, reasons)
        if bad:
            self.unusable[CONTRADICTED] += bad
            some = self.examples[CONTRADICTED]
            for at, led_to, i in broken[: min(bad, EXAMPLES - len(some))].tolist():
                what = f"leads to state {led_to}, but row {self._place(self.rows + i)[1]} begins in state {state[i]}"
                some.append(Example(*self._place(at), what))
        self.rows += n

    def finish(self) -> None:
        """Count the rows that no other row came after."""
        _, _, pair, reward, next_state, _ = self._memory
        waiting = np.flatnonzero(pair >= 0)
        self._count(pair[waiting], reward[waiting], next_state[waiting])
        self._memory = _memory(1)

    def _count(self, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        self.counts.add_checked(pairs, rewards, next_states)
        self.used += len(pairs)

    def _blame(self, batch: Batch, reasons: "_Reasons") -> None:
        """Tally the rows of a batch that have a reason, and keep the first of each as examples."""
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

    def _grow(self, n: int) -> None:
        """Room for n episodes."""
        if n > (size := len(self._memory[0])):
            more = _memory(max(n, 2 * size) - size)
            self._memory = tuple(np.concatenate(arrays) for arrays in zip(self._memory, more, strict=True))

    def _episodes(self, column: pa.Array) -> Ints:
        """The number of each row's episode, or MISSING; any text or number can name one."""
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
    """Why each row of a batch cannot be used: `code` [n], 0 or one more than the index of its first reason's name."""

    def __init__(self, n: int) -> None:
        self.code = np.zeros(n, dtype=np.int64)
        self.names: list[str] = []

    def add(self, name: str, rows: Bools) -> None:
        """A reason of these rows, unless they have one."""
        self.names.append(name)
        self.code[rows & (self.code == 0)] = len(self.names)


def _memory(n: int) -> tuple[Any, ...]:
    """What is known of n episodes: the last t, how it ended, and the row that waits: its pair (or -1), reward, .."""
    nothing = np.zeros(n, dtype=np.int64)
    return nothing - 1, nothing + CUT, nothing - 1, np.zeros(n), nothing.copy(), nothing.copy()


def _spread(values: Ints, encoded: Any) -> Ints:
    """The value of each row, given those of the distinct words; MISSING where there is no word."""
    with_missing: Ints = np.append(values, MISSING)
    rows: Ints = np.asarray(encoded.indices.fill_null(len(values)))
    return with_missing[rows]


def _numbers(column: pa.Array) -> tuple[Floats, Ints]:
    """Each value as a float, and 0, MISSING or NO_NUMBER."""
    status = np.where(_bools(column.is_null()), MISSING, 0)
    try:
        numbers = column.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid:  # some text is no number: look for it
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


def _rewards(column: pa.Array, largest: float, reasons: _Reasons) -> Floats:
    """The reward of each row; any if `largest` is infinite, else from 0 to that."""
    values, status = _numbers(column)
    reasons.add("reward is missing", status == MISSING)
    reasons.add("reward is not a number", status == NO_NUMBER)
    reasons.add("reward is not finite", ~np.isfinite(values))
    if np.isfinite(largest):
        slack = REWARD_ROUNDING * largest
        reasons.add(f"reward is outside [0, {largest:g}]", ~((values >= -slack) & (values <= largest + slack)))
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


@njit
def follow(
    position: int,
    stages: int,
    n_pairs: int,
    unnamed: bool,
    episode: Ints,
    t: Ints,
    state: Ints,
    pair: Ints,
    reward: Floats,
    next_state: Ints,
    over: Ints,
    sound: Bools,
    last: Ints,
    ended: Ints,
    held_pair: Ints,
    held_reward: Floats,
    held_next: Ints,
    held_at: Ints,
    out_pair: Ints,
    out_reward: Floats,
    out_next: Ints,
    verdict: Ints,
    broken: Ints,
) -> tuple[int, int, int]:
    """Walk through n rows in order; how many steps are let go, how many rows are contradicted, episodes begun.

    The arrays from `last` on are the memory of `_memory`, by episode. A row waits in `held_..` until the next one of
    its episode comes, and goes to `out_..` [2 n] then, or to `broken` [n, 3] (its number, where it led, the row that
    says otherwise); it goes at once if its episode is over. `verdict` [n] is why a row is not used, or 0. A row whose
    episode or t is unknown takes no part. In an `unnamed` log a row of t = 0, or after the end of an episode, begins
    the next one.
    """
    done, bad, begun = 0, 0, 0
    for i in range(len(episode)):
        e, time = episode[i], t[i]
        if e < 0 or time == -1:
            continue
        if unnamed and (time == 0 or ended[e] > 0):
            begun += 1
            last[e], ended[e] = -1, 0
            if held_pair[e] >= 0:
                out_pair[done], out_reward[done], out_next[done] = held_pair[e], held_reward[e], held_next[e]
                held_pair[e] = -1
                done += 1
        if time == NEXT:
            time = last[e] + 1
        if time <= last[e]:
            verdict[i] = REPEATED if time == last[e] else BACKWARDS
            continue
        if ended[e] == ENDED:
            verdict[i] = AFTERWARDS
            continue
        if held_pair[e] >= 0:
            if time == last[e] + 1 and state[i] >= 0 and state[i] != held_next[e]:
                broken[bad, 0], broken[bad, 1], broken[bad, 2] = held_at[e], held_next[e], i
                bad += 1
            else:
                out_pair[done], out_reward[done], out_next[done] = held_pair[e], held_reward[e], held_next[e]
                done += 1
            held_pair[e] = -1
        last[e], ended[e] = time, over[i]
        if stages > 1 and time >= stages:
            verdict[i] = TOO_LATE
        elif sound[i]:
            row = pair[i] + (time * n_pairs if stages > 1 else 0)
            if over[i] > 0:
                out_pair[done], out_reward[done], out_next[done] = row, reward[i], next_state[i]
                done += 1
            else:
                held_pair[e], held_reward[e], held_next[e], held_at[e] = row, reward[i], next_state[i], position + i
    return done, bad, begun
