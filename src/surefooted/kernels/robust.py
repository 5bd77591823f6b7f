"""Compiled Bellman operators of a set of plausible MDPs: value iteration, policy evaluation, backward induction.

The order of the states is computed once per sweep, and each row is the extreme one by that order (`_rows.py`): a sweep
costs what the stored transitions cost. Nothing here draws or prints; outputs come last and are written in place.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefooted.kernels.compile import allocating, njit
from surefooted.kernels.exact import add_mean, first_sweep, move_damped
from surefooted.kernels.rows import Rows, Work, ceiling, extreme, forget_order, rank_states, sort_row, workspace

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NARROW = 0.3  # the mass that a box leaves free below which its ceiling is worth a look
CLEARLY = 1e-12  # more than rounding, relatively
PATIENT = 40  # sweeps of value iteration before it is helped by sweeps that keep the choices made
FROZEN = 30  # such sweeps after each of the others
HELPED = 400  # times that this is done: where several gains drift apart, more would only lose digits
DRIFT = (
    15  # a segment of the baseline is extrapolated after so many times fewer sweeps: it can lose no more than a span
)


@allocating
def frozen_sweeps(
    state_ptr: Ints,
    pairs: Ints,
    weights: Floats,
    rows: Rows,
    r: Floats,
    order: Ints,
    scratch: Ints,
    rank: Ints,
    damping: float,
    epsilon: float,
    sweeps: int,
    v: Floats,
) -> float:
    """Value iteration with the choices made at `v` [S] kept: `v` after `sweeps` sweeps, and the span of its movement.

    State s plays pairs[i] with weights[i] for i in state_ptr[s] .. state_ptr[s + 1] - 1, and each row is the plausible
    one that `extreme` took the expectation of, by `order` and `rank`: an ordinary chain, whose sweeps cost a fraction.
    It ends sooner when all entries change alike, to epsilon. Modified policy iteration (Puterman 1994, Sec. 8.7); any v
    that it ends in has bounds of its own. Damping must be below 1.
    """
    n, most = len(v), 0
    for i in range(len(pairs)):
        k = pairs[i]
        most += rows.last[k] - rows.first[k] + 1
        if rows.width[k] < 0.0 and rows.unseen[k] > 0.0:
            most += n if rows.slack[k] >= rows.unseen[k] * n else int(rows.slack[k] / rows.unseen[k]) + 2
    ptr, state, p = np.zeros(n + 1, dtype=np.int64), np.empty(most, dtype=np.int64), np.empty(most)
    earned, end = np.zeros(n), 0
    for s in range(n):
        for i in range(state_ptr[s], state_ptr[s + 1]):
            k, weight = pairs[i], weights[i]
            first, last, rest, begin = rows.first[k], rows.last[k], rows.slack[k], end
            # sorted, so that no sum depends on the past
            sort_row(first, last, rank, rows.next_state, rows.low, rows.room, scratch)
            earned[s] += weight * r[k]
            for j in range(first, last):
                state[end], p[end] = rows.next_state[j], weight * rows.low[j]
                end += 1
            if rows.width[k] >= 0.0:
                kept = first if first < last and rows.next_state[first] == order[0] else -1
                centre = rest + (rows.low[kept] if kept >= 0 else 0.0)
                moved = min(rows.width[k] / 2, 1.0 - centre)
                state[end], p[end] = order[0], weight * (rest + moved)
                for j in range(last - 1, first - 1, -1):
                    if j == kept or moved <= 0.0:
                        break
                    taken = min(rows.low[j], moved)
                    p[begin + j - first] -= weight * taken
                    moved -= taken
                end += 1
                continue
            j, position = first, 0
            while rest > 0.0 and position < n and (j < last or rows.unseen[k] > 0.0):
                y = order[position]
                position += 1
                if j < last and rows.next_state[j] == y:
                    taken = min(rows.room[j], rest)
                    p[begin + j - first] += weight * taken
                    j += 1
                elif rows.unseen[k] > 0.0:
                    taken = min(rows.unseen[k], rest)
                    state[end], p[end] = y, weight * taken
                    end += 1
                else:
                    continue
                rest -= taken
            if rest > 0.0:
                state[end], p[end] = order[0], weight * rest
                end += 1
        ptr[s + 1] = end
    before, change = v.copy(), np.empty(n)
    for _ in range(sweeps):
        lower, upper = np.inf, -np.inf
        for s in range(n):
            change[s] = add_mean(earned[s], ptr[s], ptr[s + 1], state, p, v) - v[s]
            lower, upper = min(lower, change[s]), max(upper, change[s])
        if upper - lower <= epsilon:
            break
        move_damped(change, damping, v)
    least, largest = np.inf, -np.inf
    for s in range(n):
        least, largest = min(least, v[s] - before[s]), max(largest, v[s] - before[s])
    return largest - least


@allocating
def optimistic_iteration(
    pair_ptr: Ints, rows: Rows, r: Floats, damping: float, epsilon: float, most: int, v: Floats, pair: Ints
) -> tuple[float, float, int]:
    """Extended value iteration (Fig. `evi`, footnote `foot:lopplus`): bounds on the optimistic gain, sweeps made.

    `v` [S] is where to start and gets v_n; `pair` [S] the greedy pairs. `lower` <= gain <= `upper` at every sweep. The
    iterated chain stays put with probability 1 - damping, which makes it aperiodic and keeps the gain.

    Pairs that cannot be greedy are not looked at, which changes nothing but rounding. When v has moved by d, no backup
    has grown by more than max d and the best has grown by min d at least: a pair that was `gap` below the best is so
    again only after the sum of max d - min d reaches it (Puterman 1994, Sec. 6.7). A pair whose `ceiling` is below the
    best is not looked at further, nor is one whose reward followed by the best state does not beat it. Of equal pairs
    the first is greedy.
    """
    lower, upper, sweep = -np.inf, np.inf, 0
    n, flat = len(v), True
    for s in range(n):
        flat &= v[s] == 0.0
    if flat and most > 0:  # the first sweep sees rewards only, and is often the last
        lower, upper = first_sweep(pair_ptr, r, pair)
        sweep = 1
    else:
        for s in range(n):
            pair[s] = pair_ptr[s]
    if sweep == most or upper - lower <= epsilon:
        return lower, upper, sweep
    work, each = workspace(n), workspace(n + 1).order
    backup, due, ones = np.empty(len(r)), np.zeros(len(r)), np.empty(n)
    moved, is_boxes = 0.0, rows.width[0] < 0.0
    for s in range(n):
        ones[s] = 1.0
    if flat:
        for s in range(n):
            work.change[s] = r[pair[s]]
        move_damped(work.change, damping, v)
    while sweep < most:
        rank_states(v, 1.0, work.order, work.scratch, work.rank, work.prefix)
        lower, upper = np.inf, -np.inf
        top = v[work.order[0]]
        reach = abs(top) + abs(v[work.order[n - 1]])
        for s in range(n):
            first, last, best, before = pair_ptr[s], pair_ptr[s + 1], -np.inf, pair[s]
            for i in range(first - 1, last):  # the pair that was greedy before comes first
                k = i if i >= first else before
                if i == before or due[k] > moved:
                    continue
                if i > pair[s] and is_boxes and r[k] + top <= best:
                    backup[k] = r[k] + top
                    continue
                if i >= first and rows.first[k] < rows.last[k] and (rows.slack[k] < NARROW or rows.width[k] >= 0.0):
                    backup[k] = r[k] + ceiling(rows, k, v, work.order, work.prefix)
                    if backup[k] + CLEARLY * (abs(backup[k]) + abs(best) + reach) < best:
                        continue
                backup[k] = r[k] + extreme(rows, k, v, work.order, work.scratch, work.rank, work.prefix)
                if backup[k] > best or (backup[k] == best and k < pair[s]):
                    best, pair[s] = backup[k], k
            for k in range(first, last):
                if due[k] <= moved:
                    due[k] = moved + best - backup[k] - CLEARLY * (abs(best) + abs(backup[k]) + reach + moved)
            work.change[s] = best - v[s]
            lower, upper = min(lower, work.change[s]), max(upper, work.change[s])
        sweep += 1
        if upper - lower <= epsilon or sweep == most:
            break
        if sweep < PATIENT or sweep >= PATIENT + HELPED or damping >= 1.0:
            move_damped(work.change, damping, v)
            moved += damping * (upper - lower) * (1.0 + CLEARLY)
        else:
            kept = (each, pair, ones, rows, r, work.order, work.scratch, work.rank)
            moved += frozen_sweeps(*kept, damping, epsilon / 2, FROZEN, v) * (1.0 + CLEARLY)
    return lower, upper, sweep


@njit
def step_back(
    state_ptr: Ints, pairs: Ints, weights: Floats, rows: Rows, r: Floats, sign: float, work: Work, v: Floats
) -> tuple[float, float]:
    """The smallest and largest entry of L v - v for one policy (Eq. `robust.bellman`), which `work.change` [S] gets.

    Pessimistic for sign -1 (r the lowest rewards), optimistic for +1 (the highest). State s plays pairs[i] with
    weights[i] for i in state_ptr[s] .. state_ptr[s + 1] - 1.
    """
    rank_states(v, sign, work.order, work.scratch, work.rank, work.prefix)
    lower, upper = np.inf, -np.inf
    for s in range(len(v)):
        change = -v[s]
        for i in range(state_ptr[s], state_ptr[s + 1]):
            change += weights[i] * (
                r[pairs[i]] + extreme(rows, pairs[i], v, work.order, work.scratch, work.rank, work.prefix)
            )
        work.change[s] = change
        lower, upper = min(lower, change), max(upper, change)
    return lower, upper


@allocating
def evaluate_policy(
    state_ptr: Ints,
    pairs: Ints,
    weights: Floats,
    rows: Rows,
    r: Floats,
    sign: float,
    damping: float,
    epsilon: float,
    most: int,
    v: Floats,
) -> tuple[float, float, int]:
    """Bounds on the pessimistic or optimistic gain of one policy, and sweeps; as `optimistic_iteration` otherwise."""
    n = len(v)
    work = workspace(n)
    lower, upper, sweep = -np.inf, np.inf, 0
    while sweep < most:
        lower, upper = step_back(state_ptr, pairs, weights, rows, r, sign, work, v)
        sweep += 1
        if upper - lower <= epsilon or sweep == most:
            break
        if sweep < PATIENT or sweep >= PATIENT + HELPED or damping >= 1.0:
            move_damped(work.change, damping, v)
        else:
            kept = (state_ptr, pairs, weights, rows, r, work.order, work.scratch, work.rank)
            frozen_sweeps(*kept, damping, epsilon / 2, FROZEN, v)
    return lower, upper, sweep


@allocating
def evaluate_policies(
    state_ptr: Ints,
    pairs: Ints,
    weights: Floats,
    rows: Rows,
    r: Floats,
    sign: float,
    damping: float,
    epsilon: float,
    most: int,
    v: Floats,
    bounds: Floats,
    sweeps: Ints,
) -> None:
    """The same for many policies, each a row of `state_ptr` [P, S + 1]: `v` [P, S], `bounds` [P, 2], `sweeps` [P]."""
    for i in range(len(state_ptr)):
        lists = (state_ptr[i], pairs, weights)
        bounds[i, 0], bounds[i, 1], sweeps[i] = evaluate_policy(*lists, rows, r, sign, damping, epsilon, most, v[i])


@allocating
def play_backwards(
    state_ptr: Ints,
    pairs: Ints,
    weights: Floats,
    rows: Rows,
    r: Floats,
    steps: int,
    tolerance: float,
    most: int,
    work: Work,
    v: Floats,
) -> int:
    """`v` [S] becomes a lower bound on what `steps` steps of a policy earn before v is collected; the sweeps it took.

    L u >= u + c implies L^n v >= u + n c + min(v - u), since L is monotone and moves with constants. With u = v that
    loses next to nothing once all entries change alike; then, or after `most` sweeps, the remaining steps are done at
    once. If they still do not, as on a cycle, u is also sought by damped iteration, and the better bound counts in each
    state. With `r` empty nothing is earned, and v cannot fall below its own minimum.
    """
    n, earns = len(v), len(r) > 0
    rewards, made = r if earns else np.zeros(len(rows.slack)), 0
    for sweep in range(steps):
        made += 1
        lower, upper = step_back(state_ptr, pairs, weights, rows, rewards, -1.0, work, v)
        left = steps - sweep
        alike = (upper - lower) * left <= tolerance
        if left > 1 and (alike or sweep + 1 >= most):
            least = -np.inf if earns else v[work.order[0]]
            u = v.copy()
            for s in range(n):
                v[s] = max(v[s] + left * lower, least)
            if earns and not alike:
                best, origin = lower, u.copy()
                for _ in range(most):
                    for s in range(n):
                        u[s] += 0.5 * work.change[s]
                    best, upper = step_back(state_ptr, pairs, weights, rows, rewards, -1.0, work, u)
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
            v[s] += work.change[s]
    return made


@allocating
def affordable_steps(
    state_ptr: Ints,
    pairs: Ints,
    weights: Floats,
    rows: Rows,
    r: Floats,
    budget: float,
    tolerance: float,
    most: int,
    terminal: Floats,
    v: Floats,
    cost: Floats,
) -> tuple[int, int]:
    """The largest n <= most such that no stop after 1, .., n steps of a policy can lose more than `budget`; sweeps.

    `v` [S] is collected at the stop, `r` is relative to what each step must earn. With u_m the pessimistic value of m
    steps, stopping after m loses at most max over s of terminal(s) - u_m(s). `cost[0]` gets the largest of these
    losses up to n, `cost[1]` the one that was too large.
    """
    n = len(v)
    work, u = workspace(n), v.copy()
    cost[0], cost[1] = 0.0, 0.0
    for step in range(1, most + 1):
        lower, upper = step_back(state_ptr, pairs, weights, rows, r, -1.0, work, u)
        loss = -np.inf
        for s in range(n):
            u[s] += work.change[s]
            loss = max(loss, terminal[s] - u[s])
        if loss > budget:
            cost[1] = loss
            return step - 1, step
        cost[0] = max(cost[0], loss)
        if (upper - lower) * (most - step) <= tolerance:
            if lower >= 0.0:
                return most, step
            extra = most - step  # each further step loses at most -lower
            if -lower * extra > budget - loss:
                extra = int((budget - loss) / -lower)
            cost[0] = max(cost[0], loss - extra * lower)
            cost[1] = loss - (extra + 1) * lower
            return step + extra, step
    return most, most


class Book(NamedTuple):
    """Policies and what was played of them: segment i is `steps[i]` steps of policy `policy[i]`, first to last.

    Policy q plays, in state s, pairs[j] with weights[j] for j in state_ptr[q, s] .. state_ptr[q, s + 1] - 1; policy 0
    is the baseline.
    """

    state_ptr: Ints  # [P, S + 1]
    pairs: Ints
    weights: Floats
    policy: Ints  # [n]
    steps: Ints  # [n]


@allocating
def induct(book: Book, rows: Rows, r: Floats, bias: Floats, tolerance: float, most: int, work: Work, v: Floats) -> int:
    """`v` [S] becomes a lower bound on what all segments of a book earn before v is collected; the sweeps it took.

    `r` [K] is relative to the baseline's gain per step. With its `bias` [S], r + p bias >= bias for the baseline in the
    true MDP, so that r + p v >= bias + p (v - bias): in its segments only the rest, v - bias, is at the mercy of p.
    From the last segment to the first.
    """
    nothing, made = np.zeros(0), 0
    drift = max(1, most // DRIFT)
    for i in range(len(book.policy) - 1, -1, -1):
        q = book.policy[i]
        if q == 0:
            for s in range(len(v)):
                v[s] -= bias[s]
            made += play_backwards(
                book.state_ptr[0], book.pairs, book.weights, rows, nothing, book.steps[i], tolerance, drift, work, v
            )
            for s in range(len(v)):
                v[s] += bias[s]
        else:
            made += play_backwards(
                book.state_ptr[q], book.pairs, book.weights, rows, r, book.steps[i], tolerance, most, work, v
            )
    return made


@allocating
def segment_losses(
    book: Book, rows: Rows, r: Floats, bias: Floats, tolerance: float, most: int, work: Work, losses: Floats
) -> None:
    """`losses` [n]: what each segment lost to the baseline at most, whatever state it began in (its own: nothing)."""
    v = np.empty(len(bias))
    for i in range(len(book.policy)):
        losses[i] = 0.0
        q = book.policy[i]
        if q > 0:
            for s in range(len(v)):
                v[s] = bias[s]
            play_backwards(
                book.state_ptr[q], book.pairs, book.weights, rows, r, book.steps[i], tolerance, most, work, v
            )
            losses[i] = -np.inf
            for s in range(len(v)):
                losses[i] = max(losses[i], bias[s] - v[s])


@njit
def optimistic_stages(
    pair_ptr: Ints, rows: Rows, r: Floats, stride: int, work: Work, values: Floats, pair: Ints
) -> bool:
    """Optimistic backward induction over H stages: `values` [H + 1, S], greedy `pair` [H, S], and whether it changed.

    v_h(s) = max over a of r(s, a) + max over plausible p of p v_{h+1}; `values[H]` is where it begins. Pair k of stage
    h is row k + h * stride, with stride 0 when all stages share their rows. Of equal pairs the first is greedy. Only to
    save time, the pair that `pair` holds is tried first (-1: none), and a pair that would surely be worse even if all
    its slack went to the best state is not looked at further.
    """
    changed = False
    forget_order(work)
    for h in range(len(pair) - 1, -1, -1):
        v = values[h + 1]
        rank_states(v, 1.0, work.order, work.scratch, work.rank, work.prefix)
        top = v[work.order[0]]
        for s in range(len(v)):
            first, before = pair_ptr[s], pair[h, s]
            found = before if before >= 0 else first
            best, tried = -np.inf, found
            for i in range(first - 1, pair_ptr[s + 1]):
                k = i if i >= first else tried
                if i == tried:
                    continue
                row = k + h * stride
                if i >= first and rows.width[row] < 0.0:
                    bound = r[row] + rows.slack[row] * top
                    bound = add_mean(bound, rows.first[row], rows.last[row], rows.next_state, rows.low, v)
                    never = rows.first[row] == rows.last[row] and rows.unseen[row] >= 1.0
                    if bound * (1.0 + CLEARLY) < best or (never and bound <= best and k > found):
                        continue
                backup = r[row] + extreme(rows, row, v, work.order, work.scratch, work.rank, work.prefix)
                if backup > best or (backup == best and k < found):
                    best, found = backup, k
            values[h, s] = best
            if before != found:
                pair[h, s], changed = found, True
    return changed


@njit
def policy_stages(
    pair_ptr: Ints,
    rows: Rows,
    r: Floats,
    stride: int,
    sign: float,
    pair: Ints,
    weights: Floats,
    work: Work,
    values: Floats,
) -> None:
    """Backward induction for one policy (Eq. `pess_pe_fh` over a set): `values` [H + 1, S].

    Pessimistic for sign -1 (r the lowest rewards), optimistic for +1. The policy plays `pair` [H, S], or if that is
    empty `weights` [H, K]; one decision rule alone serves all stages.
    """
    forget_order(work)
    for h in range(len(values) - 2, -1, -1):
        v = values[h + 1]
        rank_states(v, sign, work.order, work.scratch, work.rank, work.prefix)
        for s in range(len(v)):
            first, last, rule, total = pair_ptr[s], pair_ptr[s + 1], min(h, len(weights) - 1), 0.0
            if len(pair) > 0:
                first = pair[min(h, len(pair) - 1), s]
                last = first + 1
            for k in range(first, last):
                weight = weights[rule, k] if len(pair) == 0 else 1.0
                if weight > 0.0:
                    row = k + h * stride
                    total += weight * (r[row] + extreme(rows, row, v, work.order, work.scratch, work.rank, work.prefix))
            values[h, s] = total


@njit
def many_policy_stages(
    pair_ptr: Ints,
    rows: Rows,
    r: Floats,
    stride: int,
    sign: float,
    pairs: Ints,
    weights: Floats,
    work: Work,
    values: Floats,
    first: Floats,
) -> None:
    """The same for deterministic policies `pairs` [P, H, S] at once; `first` [P, S] gets the values of stage 0.

    `weights` is empty; `values` [H + 1, S] is room for one of them, and ends in zeros.
    """
    for i in range(len(pairs)):
        policy_stages(pair_ptr, rows, r, stride, sign, pairs[i], weights, work, values)
        for s in range(values.shape[1]):
            first[i, s] = values[0, s]
