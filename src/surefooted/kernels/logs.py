"""Compiled walk through the rows of a log: which rows follow from each other, and which contradict each other."""

from typing import NamedTuple

from surefooted.arrays import Bools, Bytes, Floats, Ints
from surefooted.kernels.compile import njit
from surefooted.kernels.structs import Steps

NEXT = -4  # in place of t: one more than the t of the row before
CUT, ENDED = 1, 2  # how a row says that its episode is over: truncated, terminated
REPEATED, BACKWARDS, AFTERWARDS, COPIED = 1, 2, 3, 4  # why the walk refuses a row
BEGUN, GAPS, SKIPPED, ALIKE = 0, 1, 2, 3  # what the walk tallies


class LogRows(NamedTuple):
    """The rows of a batch; a number that could not be read is negative."""

    episode: Ints  # [n]
    t: Ints  # [n], or NEXT
    state: Ints  # [n]
    pair: Ints  # [n], the row of the counts that a step belongs to
    reward: Floats  # [n]
    next_state: Ints  # [n]
    over: Ints  # [n]: 0, CUT or ENDED
    usable: Bools  # [n]: whether the step can be counted


class Waiting(NamedTuple):
    """Of each episode: its last t, how it ended, and its last row, which waits (`pair` is -1 if no row waits)."""

    last: Ints  # [E]
    over: Ints  # [E]: 0, CUT or ENDED
    pair: Ints  # [E]
    reward: Floats  # [E]
    next_state: Ints  # [E]
    number: Ints  # [E], of the waiting row in the log


class Walked(NamedTuple):
    """What the walk finds: `tally` counts episodes begun, gaps, steps that the gaps skip, and rows that may be copies.

    A row may be a copy if it equals the row before it and begins where that row led; without t nothing shows which.
    """

    verdict: Ints  # [n]: why a row is refused, or 0
    contradicted: Ints  # [n, 3]: the number of a row, where it led, and the index of the row that contradicts it
    tally: Ints  # [4]


@njit
def follow_rows(
    rows: LogRows, first: int, unnamed: bool, waiting: Waiting, out: Steps, found: Walked
) -> tuple[int, int]:
    """Walk through n rows in order; how many steps are released, and how many rows are contradicted.

    A row waits in `waiting` until the next row of its episode arrives. Then it goes to `out` [2 n], or, if that row
    begins in another state, to `found.contradicted`. A row that ends its episode is released at once. Without t, a row
    that equals the waiting row and does not begin where that row led is a copy of it. A row whose episode or t is
    unknown takes no part. In an `unnamed` log, which does not name its episodes, a row with t = 0 and a row after the
    end of an episode begin the next episode. `first` is the number of the first row.
    """
    done, bad = 0, 0
    for i in range(len(rows.episode)):
        e, time = rows.episode[i], rows.t[i]
        if e < 0 or time == -1:
            continue
        if unnamed and (time == 0 or waiting.over[e] > 0):
            found.tally[BEGUN] += 1
            waiting.last[e], waiting.over[e] = -1, 0
            if waiting.pair[e] >= 0:
                done = release(waiting, e, done, out)
        if time == NEXT:
            time = waiting.last[e] + 1
            if waiting.pair[e] >= 0 and equals(rows, i, waiting, e):
                if rows.state[i] != waiting.next_state[e]:
                    found.verdict[i] = COPIED
                    continue
                found.tally[ALIKE] += 1
        if time <= waiting.last[e]:
            found.verdict[i] = REPEATED if time == waiting.last[e] else BACKWARDS
            continue
        if waiting.over[e] == ENDED:
            found.verdict[i] = AFTERWARDS
            continue
        if waiting.last[e] >= 0 and time > waiting.last[e] + 1 and waiting.over[e] == 0:
            found.tally[GAPS] += 1
            found.tally[SKIPPED] += time - waiting.last[e] - 1
        if waiting.pair[e] >= 0:
            if time == waiting.last[e] + 1 and rows.state[i] >= 0 and rows.state[i] != waiting.next_state[e]:
                found.contradicted[bad, 0], found.contradicted[bad, 1] = waiting.number[e], waiting.next_state[e]
                found.contradicted[bad, 2] = i
                waiting.pair[e] = -1
                bad += 1
            else:
                done = release(waiting, e, done, out)
        waiting.last[e], waiting.over[e] = time, rows.over[i]
        if rows.usable[i]:
            waiting.pair[e], waiting.reward[e], waiting.next_state[e] = rows.pair[i], rows.reward[i], rows.next_state[i]
            waiting.number[e] = first + i
            if rows.over[i] > 0:
                done = release(waiting, e, done, out)
    return done, bad


@njit
def equals(rows: LogRows, i: int, waiting: Waiting, e: int) -> bool:
    """Whether row i equals the waiting row of episode e."""
    same = rows.pair[i] == waiting.pair[e] and rows.next_state[i] == waiting.next_state[e]
    return bool(same and rows.reward[i] == waiting.reward[e])


@njit
def release(waiting: Waiting, e: int, done: int, out: Steps) -> int:
    """Move the waiting row of episode e to `out`; the number of steps there."""
    out.pairs[done], out.rewards[done] = waiting.pair[e], waiting.reward[e]
    out.next_states[done] = waiting.next_state[e]
    waiting.pair[e] = -1
    return done + 1


START, PLAIN, QUOTED, QUOTE = (
    0,
    1,
    2,
    3,
)  # where a byte of a CSV file stands: before a field, in it, in quotes, after one
MODE, LINE, FILLED, RECORDS, OPENED, RETURNED = 0, 1, 2, 3, 4, 5  # what the scan of a CSV file remembers
LINE_FEED, CARRIAGE_RETURN, QUOTE_MARK = 10, 13, 34


@njit
def scan_lines(data: Bytes, separator: int, kept: Ints) -> int:
    """Walk through the bytes of a CSV file; the line of the first quoted line break, or -1.

    `kept` [6] goes from block to block: the mode, the number of the line, whether the line holds anything, the records
    that have ended, the line where the last quoted field opened, and whether the last byte was a carriage return. A
    quote opens a quoted field only where the field begins; within it, two quotes stand for one.
    """
    broken = -1
    for byte in data:
        ends = byte == LINE_FEED or byte == CARRIAGE_RETURN
        second = byte == LINE_FEED and kept[RETURNED] == 1  # of one line break
        kept[RETURNED] = 1 if byte == CARRIAGE_RETURN else 0
        if second:
            continue
        if kept[MODE] == QUOTED:
            if byte == QUOTE_MARK:
                kept[MODE] = QUOTE
            elif ends:
                broken = kept[OPENED] if broken < 0 else broken
                kept[LINE] += 1
        elif ends:
            kept[RECORDS] += kept[FILLED]
            kept[MODE], kept[FILLED] = START, 0
            kept[LINE] += 1
        elif byte == separator:
            kept[MODE], kept[FILLED] = START, 1
        elif byte == QUOTE_MARK and kept[MODE] != PLAIN:  # before a field, or twice within one
            kept[OPENED] = kept[LINE] if kept[MODE] == START else kept[OPENED]
            kept[MODE], kept[FILLED] = QUOTED, 1
        else:
            kept[MODE], kept[FILLED] = PLAIN, 1
    return broken
