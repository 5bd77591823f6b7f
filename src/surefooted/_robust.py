"""Compiled Bellman operators of a set of plausible MDPs: value iteration, policy evaluation, backward induction.

A row is a distribution that is only known up to a set, `Rows` below. Whoever chooses it (the optimist or the pessimist)
fills the states in the order it likes best. That order is computed once per sweep for all rows; successors never seen
are not stored, and get their mass from prefix sums over the order: a sweep costs what the stored transitions cost.
Nothing here draws or prints; outputs come last and are written in place.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefooted._compile import allocating, inlined, njit
from surefooted._kernels import add_mean, move_damped

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FEW = 24  # states that are sorted by insertion
LONG = 16  # successors of a row that is spread before it is sorted by insertion, if it needs to be
NARROW = 0.3  # the mass that a box leaves free below which its ceiling is worth a look
CLEARLY = 1e-12  # more than rounding, relatively
PATIENT = 40  # sweeps of value iteration before it is helped by sweeps that keep the choices made
FROZEN = 30  # such sweeps after each of the others
HELPED = 400  # times that this is done: where several gains drift apart, more would only lose digits
DRIFT = (
    15  # a segment of the baseline is extrapolated after so many times fewer sweeps: it can lose no more than a span
)


class Rows(NamedTuple):
    """The plausible rows of all pairs.

    Row k holds the distributions that give each stored successor j, first[k] <= j < last[k], at least `low[j]` and at
    most `low[j] + room[j]`, and each state not stored at most `unseen[k]`; `slack[k]` is 1 - sum of low. If `width[k]`
    >= 0 it is an L1 ball instead: `low` is its centre, `room` is not used. The order of the successors within a row is
    free; kernels rearrange it.
    """

    first: Ints  # [K]
    last: Ints  # [K]
    next_state: Ints  # [nnz]
    low: Floats  # [nnz]
    room: Floats  # [nnz]
    slack: Floats  # [K]
    unseen: Floats  # [K]
    width: Floats  # [K]


class Work(NamedTuple):
    """Scratch space of a sweep: the states in the order of v, where each stands in it, and prefix sums along it."""

    order: Ints  # [S]
    scratch: Ints  # [2 S + 1]
    rank: Ints  # [S]
    prefix: Floats  # [S + 1]
    change: Floats  # [S]


@allocating
def workspace(n: int) -> Work:
    """Scratch space for n states."""
    order = np.empty(n, dtype=np.int64)
    for s in range(n):
        order[s] = s
    return Work(order, np.empty(2 * n + 1, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n + 1), np.empty(n))


@njit
def forget_order(work: Work) -> None:
    """Begin from the states' own order, so that ties, and with them the last digit, forget what came before."""
    for s in range(len(work.order)):
        work.order[s] = s


@njit
def rank_states(v: Floats, sign: float, order: Ints, scratch: Ints, rank: Ints, prefix: Floats) -> None:
    """Sort `order` [S] by decreasing sign * v; `rank` [S] is its inverse, `prefix` [S + 1] sums v along it.

    A merge sort that starts from the order it finds and skips what is sorted: nearly free between sweeps. Few
    states are sorted by insertion.
    """
    n = len(v)
    width = 1
    if n <= FEW:
        for j in range(1, n):
            s, i = order[j], j
            while i > 0 and sign * v[s] > sign * v[order[i - 1]]:
                order[i] = order[i - 1]
                i -= 1
            order[i] = s
        width = n
    while width < n:
        for begin in range(0, n - width, 2 * width):
            middle, end = begin + width, min(begin + 2 * width, n)
            if sign * v[order[middle - 1]] >= sign * v[order[middle]]:
                continue
            for i in range(begin, middle):
                scratch[i] = order[i]
            i, j, out = begin, middle, begin
            while i < middle:
                if j < end and sign * v[order[j]] > sign * v[scratch[i]]:
                    order[out] = order[j]
                    j += 1
                else:
                    order[out] = scratch[i]
                    i += 1
                out += 1
        width *= 2
    prefix[0] = 0.0
    for i in range(n):
        rank[order[i]] = i
        prefix[i + 1] = prefix[i] + v[order[i]]


@njit
def count_falls(first: int, last: int, rank: Ints, next_state: Ints) -> int:
    """The entries first + 1 .. last - 1 of a row that come after one of larger rank."""
    falls = 0
    for j in range(np.uint64(first + 1), np.uint64(last)):
        falls += rank[np.uint64(next_state[j])] < rank[np.uint64(next_state[j - np.uint64(1)])]
    return falls


@njit
def spread_row(first: int, last: int, rank: Ints, next_state: Ints, low: Floats, room: Floats, scratch: Ints) -> None:
    """Put the entries first .. last - 1 of a row about where their ranks say, in linear time.

    The ranks are cut into as many equal parts as there are entries; those of one part end up beside each other.
    """
    n, parts = last - first, (last - first) / len(rank)
    for i in range(n + 1):
        scratch[i] = 0
    for i in range(n):
        scratch[int(rank[next_state[first + i]] * parts) + 1] += 1
    for i in range(n):
        scratch[i + 1] += scratch[i]
    for i in range(n):  # where each entry belongs
        part = int(rank[next_state[first + i]] * parts)
        scratch[n + 1 + i] = scratch[part]
        scratch[part] += 1
    for i in range(n):
        here = first + i
        while scratch[n + 1 + i] != i:
            to = scratch[n + 1 + i]
            there = first + to
            next_state[here], next_state[there] = next_state[there], next_state[here]
            low[here], low[there] = low[there], low[here]
            room[here], room[there] = room[there], room[here]
            scratch[n + 1 + i], scratch[n + 1 + to] = scratch[n + 1 + to], to


@njit
def presort_row(first: int, last: int, rank: Ints, next_state: Ints, low: Floats, room: Floats, scratch: Ints) -> None:
    """Leave little to insertion of a long row that is out of order.

    It is spread. If its ranks lie so close together that this does not help, it is sorted with gaps that shrink (Shell
    1959), so that time does not grow with the square of its length.
    """
    gap, n = 1, last - first
    if n > len(rank) or 8 * count_falls(first, last, rank, next_state) <= n:
        return
    spread_row(first, last, rank, next_state, low, room, scratch)
    falls = count_falls(first, last, rank, next_state)
    while 2 * falls > n and 5 * gap < n:
        gap = 3 * gap + 1
    while gap > 1:
        for j in range(first + gap, last):
            y, kept, more, i = next_state[j], low[j], room[j], j
            while i >= first + gap and rank[y] < rank[next_state[i - gap]]:
                next_state[i], low[i], room[i] = next_state[i - gap], low[i - gap], room[i - gap]
                i -= gap
            next_state[i], low[i], room[i] = y, kept, more
        gap //= 3


@njit
def sort_row(first: int, last: int, rank: Ints, next_state: Ints, low: Floats, room: Floats, scratch: Ints) -> None:
    """Sort the entries first .. last - 1 of a row by rank: by insertion, since it is nearly sorted already."""
    if last - first > LONG:
        presort_row(first, last, rank, next_state, low, room, scratch)
    for j in range(first + 1, last):
        y, kept, more = next_state[j], low[j], room[j]
        i, here = j, rank[np.uint64(y)]
        while i > first and here < rank[np.uint64(next_state[i - 1])]:
            next_state[i], low[i], room[i] = next_state[i - 1], low[i - 1], room[i - 1]
            i -= 1
        if i < j:
            next_state[i], low[i], room[i] = y, kept, more


@njit
def ball_value(
    value: float, first: int, last: int, rest: float, width: float, v: Floats, best: int, next_state: Ints, low: Floats
) -> float:
    """What the best row of an L1 ball earns, `value` being what its centre does (Jaksch et al. 2010, Figure 2).

    The entries first .. last - 1 are sorted; `rest` is the mass that they do not have, that of a pair never tried.
    """
    value += rest * v[best]
    kept = first if first < last and next_state[first] == best else -1
    centre = rest + (low[kept] if kept >= 0 else 0.0)
    rest = min(width / 2, 1.0 - centre)
    value += rest * v[best]
    for j in range(last - 1, first - 1, -1):
        if j == kept or rest <= 0.0:
            break
        moved = min(low[j], rest)
        value -= moved * v[next_state[j]]
        rest -= moved
    return value


@inlined
def extreme(rows: Rows, k: int, v: Floats, order: Ints, scratch: Ints, rank: Ints, prefix: Floats) -> float:
    """The expectation of v under the plausible row k that puts its mass as early in `order` as it may.

    Boxes: Puterman's knapsack argument, each state filled to its bound. L1 balls: `ball_value`. Mass left over by
    rounding goes to the first state of the order, so that it never makes a bound less safe.
    """
    first, last, rest, cap, top = rows.first[k], rows.last[k], rows.slack[k], rows.unseen[k], v[order[0]]
    is_box = rows.width[k] < 0.0
    if first == last and cap >= 1.0 and is_box:  # never tried: it may lead anywhere
        everything: float = rest * top
        return everything
    next_state, low, room = rows.next_state, rows.low, rows.room
    value: float = 0.0
    is_sorted, falling = True, top >= v[order[len(v) - 1]]
    early, terms = v[order[len(v) - 1]], 0  # the value that comes first among the successors; lower bounds above 0
    ahead = -1  # the rank of the successor before
    for j in range(np.uint64(first), np.uint64(last)):  # one look at each, if the row is still sorted by rank
        y = np.uint64(next_state[j])
        here, place = v[y], rank[y]
        is_sorted &= place > ahead
        ahead = place
        early = max(early, here) if falling else min(early, here)
        terms += low[j] != 0.0
        value += low[j] * here
    if not is_sorted and is_box and terms <= 2 and rest < cap * (len(v) - 1):
        # where no sum depends on the order, a row need not be sorted if the mass ends before its first successor
        whole = int(rest / cap)
        edge = v[order[whole]]
        if (early < edge) if falling else (early > edge):
            value += cap * prefix[whole]
            rest -= whole * cap
            return value + rest * edge if rest > 0.0 else value
    if not is_sorted:
        sort_row(first, last, rank, next_state, low, room, scratch)
        value = add_mean(0.0, first, last, next_state, low, v)
    if not is_box:
        return ball_value(value, first, last, rest, rows.width[k], v, order[0], next_state, low)
    position = 0
    for j in range(first, last + 1):
        if rest <= 0.0:
            return value
        if cap > 0.0:
            reached = rank[next_state[j]] if j < last else len(v)
            run = reached - position
            if run * cap >= rest:  # the rest of the mass ends among successors never seen
                whole = min(int(rest / cap), run)
                value += cap * (prefix[position + whole] - prefix[position])
                rest -= whole * cap
                if whole < run and rest > 0.0:
                    value += rest * v[order[position + whole]]
                    rest = 0.0
                break
            value += cap * (prefix[reached] - prefix[position])
            rest -= run * cap
            position = reached + 1
        if j < last:
            moved = min(room[j], rest)
            value += moved * v[next_state[j]]
            rest -= moved
    if rest > 0.0:
        value += rest * top
    return value


@inlined
def ceiling(rows: Rows, k: int, v: Floats, order: Ints, prefix: Floats) -> float:
    """More than any plausible row k can make of v, up to rounding, without sorting it.

    Boxes: beyond its lower bounds no state gets more than the largest room there is. L1 balls: all that moves comes
    from the worst successor.
    """
    value: float = 0.0
    least, most = np.inf, rows.unseen[k]
    is_box, rest, top = rows.width[k] < 0.0, rows.slack[k], v[order[0]]
    for j in range(np.uint64(rows.first[k]), np.uint64(rows.last[k])):
        here = v[np.uint64(rows.next_state[j])]
        value += rows.low[j] * here
        if is_box:
            most = max(most, rows.room[j])
        else:
            least = min(least, here)
    if not is_box:
        value += min(rows.width[k] / 2, 1.0) * max(top - least, 0.0) if least < np.inf else 0.0
        most = 1.0
    if most >= rest or rest >= most * len(v):  # the rest that rounding leaves goes to the first state
        value += rest * top
    else:
        whole = int(rest / most)
        value += most * prefix[whole] + (rest - whole * most) * v[order[whole]]
    return value


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
            sort_row(
                first, last, rank, rows.next_state, rows.low, rows.room, scratch
            )  # so that no sum depends on the past
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
        lower, upper, sweep = first_sweep(pair_ptr, r, pair)
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
def first_sweep(pair_ptr: Ints, r: Floats, pair: Ints) -> tuple[float, float, int]:
    """The sweep of value iteration that begins at v = 0: smallest and largest change, 1; `pair` [S] the greedy ones.

    Without a branch that depends on a reward: on large problems with little data it is all that a plan does.
    """
    lower, upper = np.inf, -np.inf
    for s in range(len(pair)):
        best = -np.inf
        found: int | np.uint64 = np.uint64(pair_ptr[s])
        for k in range(np.uint64(pair_ptr[s]), np.uint64(pair_ptr[s + 1])):
            is_better = r[k] > best
            best = r[k] if is_better else best
            found = k if is_better else found
        pair[s] = found
        lower = best if best < lower else lower
        upper = best if best > upper else upper
    return lower, upper, 1


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
) -> None:
    """`v` [S] becomes a lower bound on what `steps` steps of a policy earn before v is collected.

    L u >= u + c implies L^n v >= u + n c + min(v - u), since L is monotone and moves with constants. With u = v that
    loses next to nothing once all entries change alike; then, or after `most` sweeps, the remaining steps are done at
    once. If they still do not, as on a cycle, u is also sought by damped iteration, and the better bound counts in each
    state. With `r` empty nothing is earned, and v cannot fall below its own minimum.
    """
    n, earns = len(v), len(r) > 0
    rewards = r if earns else np.zeros(len(rows.slack))
    for sweep in range(steps):
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
                    if (upper - best) * left <= tolerance:
                        break
                gap = np.inf
                for s in range(n):
                    gap = min(gap, origin[s] - u[s])
                for s in range(n):
                    v[s] = max(v[s], u[s] + left * best + gap)
            return
        for s in range(n):
            v[s] += work.change[s]


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
) -> int:
    """The largest n <= most such that no stop after 1, .., n steps of a policy can lose more than `budget`.

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
            return step - 1
        cost[0] = max(cost[0], loss)
        if (upper - lower) * (most - step) <= tolerance:
            if lower >= 0.0:
                return most
            extra = most - step  # each further step loses at most -lower
            if -lower * extra > budget - loss:
                extra = int((budget - loss) / -lower)
            cost[0] = max(cost[0], loss - extra * lower)
            cost[1] = loss - (extra + 1) * lower
            return step + extra
    return most


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
def induct(book: Book, rows: Rows, r: Floats, bias: Floats, tolerance: float, most: int, work: Work, v: Floats) -> None:
    """`v` [S] becomes a lower bound on what all segments of a book earn before v is collected, last to first.

    `r` [K] is relative to the baseline's gain per step. With its `bias` [S], r + p bias >= bias for the baseline in the
    true MDP, so that r + p v >= bias + p (v - bias): in its segments only the rest, v - bias, is at the mercy of p.
    """
    nothing = np.zeros(0)
    drift = max(1, most // DRIFT)
    for i in range(len(book.policy) - 1, -1, -1):
        q = book.policy[i]
        if q == 0:
            for s in range(len(v)):
                v[s] -= bias[s]
            play_backwards(
                book.state_ptr[0], book.pairs, book.weights, rows, nothing, book.steps[i], tolerance, drift, work, v
            )
            for s in range(len(v)):
                v[s] += bias[s]
        else:
            play_backwards(
                book.state_ptr[q], book.pairs, book.weights, rows, r, book.steps[i], tolerance, most, work, v
            )


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
