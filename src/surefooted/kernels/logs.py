"""Compiled walk through the rows of a log: which rows follow from each other, and which contradict each other."""

from typing import NamedTuple

from surefooted.arrays import Bools, Floats, Ints
from surefooted.kernels.compile import njit
from surefooted.kernels.structs import Steps

NEXT = -4  # in place of t: one more than the t of the row before
CUT, ENDED = 1, 2  # how a row says that its episode is over: truncated, terminated
REPEATED, BACKWARDS, AFTERWARDS = 1, 2, 3  # why the walk refuses a row


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


@njit
def follow_rows(
    rows: LogRows, first: int, unnamed: bool, waiting: Waiting, out: Steps, verdict: Ints, contradicted: Ints
) -> tuple[int, int, int]:
    """Walk through n rows in order; how many steps are released, how many rows are contradicted, episodes begun.

    A row waits in `waiting` until the next row of its episode arrives. Then it goes to `out` [2 n], or, if that row
    begins in another state, to `contradicted` [n, 3]: the number of the row, where it led, and the index of the row
    that contradicts it. A row that ends its episode is released at once. `verdict` [n] is why a row is refused, or 0.
    A row whose episode or t is unknown takes no part. In an `unnamed` log, which does not name its episodes, a row
    with t = 0 and a row after the end of an episode begin the next episode. `first` is the number of the first row.
    """
    done, bad, begun = 0, 0, 0
    for i in range(len(rows.episode)):
        e, time = rows.episode[i], rows.t[i]
        if e < 0 or time == -1:
            continue
        if unnamed and (time == 0 or waiting.over[e] > 0):
            begun += 1
            waiting.last[e], waiting.over[e] = -1, 0
            if waiting.pair[e] >= 0:
                done = release(waiting, e, done, out)
        if time == NEXT:
            time = waiting.last[e] + 1
        if time <= waiting.last[e]:
            verdict[i] = REPEATED if time == waiting.last[e] else BACKWARDS
            continue
        if waiting.over[e] == ENDED:
            verdict[i] = AFTERWARDS
            continue
        if waiting.pair[e] >= 0:
            if time == waiting.last[e] + 1 and rows.state[i] >= 0 and rows.state[i] != waiting.next_state[e]:
                contradicted[bad, 0], contradicted[bad, 1] = waiting.number[e], waiting.next_state[e]
                contradicted[bad, 2] = i
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
    return done, bad, begun


@njit
def release(waiting: Waiting, e: int, done: int, out: Steps) -> int:
    """Move the waiting row of episode e to `out`; the number of steps there."""
    out.pairs[done], out.rewards[done] = waiting.pair[e], waiting.reward[e]
    out.next_states[done] = waiting.next_state[e]
    waiting.pair[e] = -1
    return done + 1
