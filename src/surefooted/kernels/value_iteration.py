"""Value iteration over a set of plausible MDPs: the optimistic gain, and bounds on the gain of a policy.

Each sweep sorts the states by value once, and takes the extreme row of each pair by that order (rows.py): a sweep costs
what the stored transitions cost. Outputs come last and are written in place.
"""

import numpy as np

from surefooted.arrays import Floats, Ints
from surefooted.kernels.bellman import BEYOND_ROUNDING, add_mean, first_sweep, move_damped
from surefooted.kernels.compile import allocating, njit
from surefooted.kernels.dense import find_entries, is_dense, is_entry
from surefooted.kernels.rows import Rows, ball_ceiling, extreme, extreme_from
from surefooted.kernels.sorting import Work, rank_states, sort_row, workspace
from surefooted.kernels.structs import Fields, Mixture, Table

DAMPING = 0.9  # the share of a real step in the aperiodic chain of the same gain (Puterman 1994, Sec. 8.5.4)
PLAIN_SWEEPS = 8  # sweeps before frozen sweeps help value iteration: slow chains take longer with more
FROZEN_SWEEPS = 60  # frozen sweeps after each of the others: slow chains take longer with fewer
FREEZES = 400  # times that this is done: where several gains drift apart, more would only lose digits


@njit
def list_entries(rows: Rows, k: int, work: Work) -> None:
    """`work.scratch` becomes the entries of row k in the order of the states; a row that is not dense is sorted."""
    first, last, entry, end = rows.first[k], rows.last[k], work.scratch, 0
    if is_dense(first, last, len(work.order)):
        find_entries(first, last, work.rank, rows.next_state, entry)
        for i in range(len(work.order)):
            j = entry[i]
            if is_entry(j, work.order[i], first, last, rows.next_state):
                entry[end] = j
                end += 1
        return
    sort_row(first, last, work.rank, rows.next_state, rows.low, rows.room, work.scratch)
    for j in range(first, last):
        entry[j - first] = j


@njit
def write_row(rows: Rows, k: int, weight: float, work: Work, end: int, state: Ints, p: Floats) -> int:
    """The plausible row that `extreme` takes the expectation of, times `weight`, from `end` on; where it ends.

    Its entries come in the order of the states, so that no sum depends on what was computed before.
    """
    order, rest, begin, entry = work.order, rows.slack[k], end, work.scratch
    list_entries(rows, k, work)
    n = rows.last[k] - rows.first[k]
    for i in range(n):
        state[end], p[end] = rows.next_state[entry[i]], weight * rows.low[entry[i]]
        end += 1
    if rows.width[k] >= 0.0:
        has_best = n > 0 and rows.next_state[entry[0]] == order[0]
        centre = rest + (rows.low[entry[0]] if has_best else 0.0)
        moved = min(rows.width[k] / 2, 1.0 - centre)
        state[end], p[end] = order[0], weight * (rest + moved)
        for i in range(n - 1, 0 if has_best else -1, -1):
            if moved <= 0.0:
                break
            taken = min(rows.low[entry[i]], moved)
            p[begin + i] -= weight * taken
            moved -= taken
        return end + 1
    i, position, cap = 0, 0, rows.unseen[k]
    while rest > 0.0 and (i < n or (cap > 0.0 and position < len(order))):
        if cap <= 0.0:  # on to the next successor: walking there takes most of the time of slow chains
            position = work.rank[rows.next_state[entry[i]]]
        y = order[position]
        position += 1
        if i < n and rows.next_state[entry[i]] == y:
            taken = min(rows.room[entry[i]], rest)
            p[begin + i] += weight * taken
            i += 1
        else:
            taken = min(cap, rest)
            state[end], p[end] = y, weight * taken
            end += 1
        rest -= taken
    if rest > 0.0:
        state[end], p[end] = order[0], weight * rest
        end += 1
    return end


@allocating
def freeze(mixture: Mixture, rows: Rows, r: Floats, work: Work, n: int) -> Table:
    """The chain of n states in which each row is the one that `extreme` takes the expectation of by `work`."""
    size = 0
    for i in range(len(mixture.pairs)):
        k = mixture.pairs[i]
        size += rows.last[k] - rows.first[k] + 1
        if rows.width[k] < 0.0 and rows.unseen[k] > 0.0:
            size += n if rows.slack[k] >= rows.unseen[k] * n else int(rows.slack[k] / rows.unseen[k]) + 2
    ptr, state, p = np.zeros(n + 1, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size)
    earned, end = np.zeros(n), ptr[0]  # a literal 0 would compile twice
    for s in range(n):
        for i in range(mixture.state_ptr[s], mixture.state_ptr[s + 1]):
            k, weight = mixture.pairs[i], mixture.weights[i]
            earned[s] += weight * r[k]
            end = write_row(rows, k, weight, work, end, state, p)
        ptr[s + 1] = end
    return Table(ptr, state, p, earned)


@allocating
def frozen_sweeps(
    mixture: Mixture, rows: Rows, r: Floats, work: Work, damping: float, epsilon: float, most: int, v: Floats
) -> float:
    """Value iteration with the choices made at `v` [S] kept: changes `v`, returns the span of its movement.

    This is an ordinary chain (`freeze`), whose sweeps cost a fraction. They end sooner when all entries change alike,
    to epsilon. This is modified policy iteration (Puterman 1994, Sec. 8.7); any v has bounds of its own, so nothing
    depends on where it ends. Damping must be below 1.
    """
    n, before, change = len(v), v.copy(), np.empty(len(v))
    ptr, state, p, earned = freeze(mixture, rows, r, work, n)
    for _ in range(most):
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
    pair_ptr: Ints, rows: Fields, r: Floats, epsilon: float, most: int, v: Floats, pair: Ints
) -> tuple[float, float, int]:
    """Extended value iteration (Fig. `evi`, footnote `foot:lopplus`): bounds on the optimistic gain, sweeps made.

    `v` [S] is where to start and gets v_n; `pair` [S] gets the greedy pairs, the first of equals. `lower` <= gain <=
    `upper` at every sweep. The iterated chain stays put with probability 1 - DAMPING: this makes it aperiodic and keeps
    the gain.

    Pairs that provably cannot be greedy are skipped, which changes nothing but rounding:
    - When v moves by d, each backup grows by at most max d, and the best one by at least min d. So a pair that is `gap`
      below the best cannot be greedy until the sum of max d - min d reaches `gap` (Puterman 1994, Sec. 6.7). (Without
      it, warm starts take 1.4 times as long.)
    - A pair whose reward plus the value of the best state is below the best so far cannot be greedy now. (For boxes:
      without it, large problems take 2.7 times as long.)
    - Nor can a pair whose `ball_ceiling` is. (For L1 balls: twice as long.)
    """
    rows, lower, upper, sweep = Rows(*rows), -np.inf, np.inf, 0
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
    moved, is_boxes, many = 0.0, rows.width[0] < 0.0, 0
    for k in range(len(r)):
        many += is_dense(rows.first[k], rows.last[k], n)
    damping = 1.0 if 2 * many > len(r) else DAMPING
    for s in range(n):
        ones[s] = 1.0
    if flat:
        for s in range(n):
            work.change[s] = r[pair[s]]
        move_damped(work.change, damping, v)
    while sweep < most:
        rank_states(v, 1.0, work)
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
                enough = best - r[k] - BEYOND_ROUNDING * (abs(best) + abs(r[k]) + reach)
                if i >= first and rows.width[k] >= 0.0 and not is_dense(rows.first[k], rows.last[k], n):
                    backup[k] = r[k] + ball_ceiling(rows, k, v, top)
                    if backup[k] - r[k] < enough:
                        continue
                backup[k] = r[k] + extreme_from(rows, k, v, work, enough)
                if backup[k] > best or (backup[k] == best and k < pair[s]):
                    best, pair[s] = backup[k], k
            for k in range(first, last):
                if due[k] <= moved:
                    due[k] = moved + best - backup[k] - BEYOND_ROUNDING * (abs(best) + abs(backup[k]) + reach + moved)
            work.change[s] = best - v[s]
            lower, upper = min(lower, work.change[s]), max(upper, work.change[s])
        sweep += 1
        if upper - lower <= epsilon or sweep == most:
            break
        if sweep < PLAIN_SWEEPS or sweep >= PLAIN_SWEEPS + FREEZES:
            move_damped(work.change, damping, v)
            moved += damping * (upper - lower) * (1.0 + BEYOND_ROUNDING)
        else:
            mixture = Mixture(each, pair, ones)
            moved += frozen_sweeps(mixture, rows, r, work, DAMPING, epsilon / 2, FROZEN_SWEEPS, v) * (
                1.0 + BEYOND_ROUNDING
            )
    return lower, upper, sweep


@njit
def step_back(mixture: Mixture, rows: Rows, r: Floats, sign: float, work: Work, v: Floats) -> tuple[float, float]:
    """The smallest and largest entry of L v - v for one policy (Eq. `robust.bellman`), which `work.change` [S] gets.

    Pessimistic for sign -1 (r the lowest rewards), optimistic for +1 (the highest).
    """
    rank_states(v, sign, work)
    lower, upper = np.inf, -np.inf
    for s in range(len(v)):
        change = -v[s]
        for i in range(mixture.state_ptr[s], mixture.state_ptr[s + 1]):
            k = mixture.pairs[i]
            change += mixture.weights[i] * (r[k] + extreme(rows, k, v, work))
        work.change[s] = change
        lower, upper = min(lower, change), max(upper, change)
    return lower, upper


@allocating
def evaluate_policies(
    mixtures: Fields,
    rows: Fields,
    r: Floats,
    sign: float,
    epsilon: float,
    most: int,
    v: Floats,
    bounds: Floats,
    sweeps: Ints,
) -> None:
    """Bounds on the pessimistic or optimistic gain of policies; otherwise as `optimistic_iteration`.

    Policy i is row i of `mixtures.state_ptr` [P, S + 1], of `v` [P, S], `bounds` [P, 2] and `sweeps` [P].
    """
    mixtures, rows = Mixture(*mixtures), Rows(*rows)
    for i in range(len(mixtures.state_ptr)):
        mixture, work = Mixture(mixtures.state_ptr[i], mixtures.pairs, mixtures.weights), workspace(v.shape[1])
        bounds[i, 0], bounds[i, 1], sweeps[i] = -np.inf, np.inf, 0
        while sweeps[i] < most:
            bounds[i, 0], bounds[i, 1] = step_back(mixture, rows, r, sign, work, v[i])
            sweeps[i] += 1
            if bounds[i, 1] - bounds[i, 0] <= epsilon or sweeps[i] == most:
                break
            if sweeps[i] < PLAIN_SWEEPS or sweeps[i] >= PLAIN_SWEEPS + FREEZES:
                move_damped(work.change, DAMPING, v[i])
            else:
                frozen_sweeps(mixture, rows, r, work, DAMPING, epsilon / 2, FROZEN_SWEEPS, v[i])
