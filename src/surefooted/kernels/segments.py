"""What segments of policies earn at worst over a set of plausible MDPs, backwards from the last step to the first."""

from typing import NamedTuple

import numpy as np

from surefooted.arrays import Floats
from surefooted.kernels.anchored import Desk, Income, anchored_step, desk
from surefooted.kernels.compile import allocating, njit
from surefooted.kernels.rows import Rows
from surefooted.kernels.structs import Book, Mixture

BASELINE_SHARE = 15  # segments of the baseline get this many times fewer sweeps: each can lose no more than a span


class Unpacked(NamedTuple):
    """Where a policy of a book is put before it is played: one that plays pairs for certain, or one that randomises."""

    certain: Mixture
    random: Mixture


@allocating
def unpacked(n_states: int, n_pairs: int) -> Unpacked:
    """Room for one policy."""
    ptr, ones = np.empty(n_states + 1, dtype=np.int64), np.empty(n_states)
    for s in range(n_states + 1):
        ptr[s] = s
    for s in range(n_states):
        ones[s] = 1.0
    certain = Mixture(ptr, np.empty(n_states, dtype=np.int64), ones)
    return Unpacked(certain, Mixture(ptr.copy(), np.empty(n_pairs, dtype=np.int64), np.empty(n_pairs)))


@njit
def unpack(book: Book, q: int, room: Unpacked) -> bool:
    """Put policy q of a book into `room`; whether it randomises."""
    begin, end, weighted = book.first[q], book.first[q + 1], book.weighted[q]
    if weighted >= 0:
        out, s = room.random, 0
        for i in range(end - begin):
            k = book.pairs[begin + i]
            out.pairs[i], out.weights[i] = k, book.weights[weighted + i]
            while s <= book.pair_state[k]:
                out.state_ptr[s] = i
                s += 1
        while s < len(out.state_ptr):
            out.state_ptr[s] = end - begin
            s += 1
        return True
    pairs, base = room.certain.pairs, book.first[book.base[q]]
    if base < begin:
        for s in range(len(pairs)):
            pairs[s] = book.pairs[base + s]
    for i in range(begin, end):
        pairs[book.pair_state[book.pairs[i]]] = book.pairs[i]
    return False


@allocating
def play_backwards(
    mixture: Mixture, rows: Rows, income: Income, steps: int, tolerance: float, most: int, work: Desk, v: Floats
) -> int:
    """`v` [S] becomes a lower bound on what `steps` steps of a policy earn before v is collected; the sweeps it took.

    L u >= u + c implies L^n v >= u + n c + min(v - u), since L is monotone and moves with constants. With u = v that
    loses next to nothing once all entries change alike. Then, or when the sweeps run out, one extrapolation does the
    remaining steps. If the entries still do not change alike, as on a cycle, damped iteration looks for a better u, and
    the better bound counts in each state. With `income.r` empty nothing is earned, and v cannot fall below its own
    minimum.
    """
    n, earns, made, change = len(v), len(income.r) > 0, 0, work.by_value.change
    if not earns:
        income = Income(np.zeros(len(rows.slack)), income.bias, income.anchor)
    for sweep in range(steps):
        made += 1
        lower, upper = anchored_step(mixture, rows, income, work, v)
        left = steps - sweep
        alike = (upper - lower) * left <= tolerance
        if left > 1 and (alike or sweep + 1 >= most):
            least = -np.inf if earns else v[work.by_value.order[0]]
            u = v.copy()
            for s in range(n):
                v[s] = max(v[s] + left * lower, least)
            if earns and not alike:
                best, origin = lower, u.copy()
                for _ in range(most):
                    for s in range(n):
                        u[s] += 0.5 * change[s]
                    best, upper = anchored_step(mixture, rows, income, work, u)
                    made += 1
                    if (upper - best) * left <= tolerance:
                        break
                gap = np.inf
                for s in range(n):
                    gap = min(gap, origin[s] - u[s])
                for s in range(n):
                    v[s] = max(v[s], u[s] + left * best + gap)
            break
        for s in range(n):
            v[s] += change[s]
    return made


@allocating
def affordable_steps(
    mixture: Mixture,
    rows: Rows,
    income: Income,
    budget: float,
    tolerance: float,
    most: int,
    terminal: Floats,
    v: Floats,
) -> tuple[int, int, float, float]:
    """How long a policy may be played from any state: steps, sweeps made, what they can cost, what one more can cost.

    The steps are the largest n <= most such that no stop after 1, .., n steps can lose more than `budget`. `v` [S] is
    collected at the stop, `income` is relative to what each step must earn. With u_m the pessimistic value of m steps,
    stopping after m loses at most max over s of terminal(s) - u_m(s).
    """
    n, cost = len(v), 0.0
    work, u = desk(n), v.copy()
    for step in range(1, most + 1):
        lower, upper = anchored_step(mixture, rows, income, work, u)
        loss = -np.inf
        for s in range(n):
            u[s] += work.by_value.change[s]
            loss = max(loss, terminal[s] - u[s])
        if loss > budget:
            return step - 1, step, cost, loss
        cost = max(cost, loss)
        if (upper - lower) * (most - step) <= tolerance:
            if lower >= 0.0:
                return most, step, cost, 0.0
            extra = most - step  # each further step loses at most -lower
            if -lower * extra > budget - loss:
                extra = int((budget - loss) / -lower)
            return step + extra, step, max(cost, loss - extra * lower), loss - (extra + 1) * lower
    return most, most, cost, 0.0


@allocating
def induct(
    book: Book, rows: Rows, income: Income, bias: Floats, bias_left: Floats, tolerance: float, most: int, v: Floats
) -> int:
    """`v` [S] becomes a lower bound on what all segments of a book earn before v is collected; the sweeps it took.

    `income` is relative to the baseline's gain per step. With its bias h [S], r + p h >= h for the baseline in the true
    MDP, so that n steps and v are worth at least h + p^n (v - h): in its segments the worst row p acts on v - h only.
    If h is not known, `bias` is at most h, and `bias_left` at least. The last segment comes first.
    """
    none, work, made = np.zeros(0), desk(len(v)), 0
    nothing = Income(none, none, none)
    fewer, room = max(1, most // BASELINE_SHARE), unpacked(len(v), len(book.pair_state))
    for i in range(len(book.policy) - 1, -1, -1):
        q = book.policy[i]
        is_baseline = q == 0
        mixture = room.random if unpack(book, q, room) else room.certain
        for s in range(len(v)):
            v[s] -= bias_left[s] if is_baseline else 0.0
        earned, sweeps = (nothing, fewer) if is_baseline else (income, most)
        made += play_backwards(mixture, rows, earned, book.steps[i], tolerance, sweeps, work, v)
        for s in range(len(v)):
            v[s] += bias[s] if is_baseline else 0.0
    return made


@allocating
def segment_losses(
    book: Book, rows: Rows, income: Income, bias: Floats, bias_left: Floats, tolerance: float, most: int, losses: Floats
) -> None:
    """`losses` [n]: what each segment can lose to the baseline from its worst first state; its own lose nothing.

    The baseline's bias is at least `bias` and at most `bias_left`, [S].
    """
    v, work, room = np.empty(len(bias)), desk(len(bias)), unpacked(len(bias), len(book.pair_state))
    for i in range(len(book.policy)):
        losses[i] = 0.0
        q = book.policy[i]
        if q > 0:
            for s in range(len(v)):
                v[s] = bias[s]
            mixture = room.random if unpack(book, q, room) else room.certain
            play_backwards(mixture, rows, income, book.steps[i], tolerance, most, work, v)
            losses[i] = -np.inf
            for s in range(len(v)):
                losses[i] = max(losses[i], bias_left[s] - v[s])
