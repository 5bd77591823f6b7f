"""Compiled policy iteration for tables whose states can stand in a line so that no step is long.

A queue, a stock, a corridor, a ring that is walked both ways: information takes as many sweeps as the line is long to
get from one end to the other, but the states of a policy's chain can be eliminated one after the other at a cost of
S reach² once and for all. Where steps are long it is elimination in a matrix, as dense as any.
"""

import numpy as np

from surefooted.kernels.compile import allocating, njit
from surefooted.kernels.exact import Floats, Ints, improve, longest_rows

ROUNDING = 1e-14  # of a sum of a few terms, relatively


@njit
def line_up(
    pair_ptr: Ints,
    next_ptr: Ints,
    next_state: Ints,
    first: int,
    most: int,
    order: Ints,
    position: Ints,
    distance: Ints,
) -> int:
    """The longest step when all states stand in breadth-first `order` [S] from `first`; given up if above `most`.

    `position` [S] gets each state's place, `distance` [S] the steps that it is away from `first`, or from the state
    where the search went on when no new state was to be reached.
    """
    n = len(order)
    for s in range(n):
        position[s] = -1
    found, looked, reach, fresh = 0, 0, 0, 0
    while found < n:
        s = first
        while position[s] >= 0:
            s, fresh = fresh, fresh + 1
        order[found], position[s], distance[s] = s, found, 0
        found += 1
        while looked < found:
            s = order[looked]
            for j in range(next_ptr[pair_ptr[s]], next_ptr[pair_ptr[s + 1]]):
                y = next_state[j]
                if position[y] < 0:
                    order[found], position[y], distance[y] = y, found, distance[s] + 1
                    found += 1
                reach = max(reach, abs(position[y] - looked))
            if reach > most:
                return reach
            looked += 1
    return reach


@njit
def walk(next_ptr: Ints, next_state: Ints, p: Floats, state: int, steps: int) -> int:
    """Where a run of a chain is after so many steps: a state that is seen often. The draws are the same each time."""
    seed = 1
    for _ in range(steps):
        seed = seed * 16807 % 2147483647  # Park and Miller (1988)
        left = seed / 2147483647
        j, last = next_ptr[state], next_ptr[state + 1] - 1
        while j < last and left >= p[j]:
            left -= p[j]
            j += 1
        state = next_state[j]
    return state


@njit
def eliminate_in_line(
    next_ptr: Ints,
    next_state: Ints,
    p: Floats,
    home: int,
    order: Ints,
    position: Ints,
    reach: int,
    band: Floats,
    leave: Floats,
    entry: Floats,
    cost: Floats,
    visits: Floats,
) -> bool:
    """What is paid until `home` is hit, in place of `cost` [S, m], which is that of a step; False if not all get there.

    States are eliminated one after the other (Grassmann et al. 1985), in a matrix of the entries within `reach` of the
    diagonal: from place i to j is band[i * (2 * reach + 1) + reach + j - i]. No two numbers of one sign are ever
    subtracted, so with costs of one sign every entry is correct to a few roundings, however slowly the chain mixes.
    `cost` and `visits` are by place, not by state. Home has the cost of a whole cycle. `visits` [S], unless it is
    empty, gets the visits to each place during one, scaled down if they would overflow. `band`, `leave` [S] and
    `entry` [S] are scratch space.
    """
    n, m, width, at_home = len(order), cost.shape[1], 2 * reach + 1, position[home]
    for i in range(n):
        leave[i], entry[i] = 0.0, 0.0
        for e in range(i * width, (i + 1) * width):
            band[e] = 0.0
    for j in range(next_ptr[home], next_ptr[home + 1]):
        entry[position[next_state[j]]] += p[j]
    for i in range(n):
        s = order[i]
        for j in range(next_ptr[s], next_ptr[s + 1]):
            if next_state[j] == home:
                leave[i] += p[j]
            elif s != home:
                band[i * width + reach + position[next_state[j]] - i] += p[j]
    for k in range(n - 1, -1, -1):
        if k == at_home:
            continue
        begin, row_k = max(0, k - reach), k * width + reach - k
        into, out = leave[k], leave[k]  # home, and any place not yet eliminated
        for j in range(begin, k):
            out += band[row_k + j]
        if not out > 0.0:
            return False
        for i in range(begin, k):
            row_i = i * width + reach - i
            if band[row_i + k] > 0.0:
                share = band[row_i + k] / out
                from_i, from_k = np.uint64(row_i + begin), np.uint64(row_k + begin)
                for j in range(np.uint64(k - begin)):
                    band[from_i + j] += share * band[from_k + j]
                leave[i] += share * into
                for c in range(m):
                    cost[i, c] += share * cost[k, c]
        share = entry[k] / out
        if share > 0.0:
            for j in range(begin, k):
                entry[j] += share * band[row_k + j]
            for c in range(m):
                cost[at_home, c] += share * cost[k, c]
        leave[k] = out
    for k in range(n):
        if k != at_home:
            row_k = k * width + reach - k
            for c in range(m):
                paid = cost[k, c]
                for j in range(max(0, k - reach), k):
                    if j != at_home:
                        paid += band[row_k + j] * cost[j, c]
                cost[k, c] = paid / leave[k]
    if len(visits) > 0:
        for k in range(n):
            visits[k] = 1.0 if k == at_home else 0.0
        for k in range(n):
            if k != at_home:
                entered = entry[k] * visits[at_home]
                for i in range(max(0, k - reach), k):
                    if i != at_home:
                        entered += visits[i] * band[i * width + reach - i + k]
                visits[k] = entered / leave[k]
                if visits[k] > 1e150:
                    for i in range(n):
                        visits[i] *= 1e-150
    return True


@allocating
def policy_iteration(
    pair_ptr: Ints,
    next_ptr: Ints,
    next_state: Ints,
    p: Floats,
    r: Floats,
    accuracy: float,
    widest: int,
    most: int,
    v: Floats,
    pair: Ints,
) -> tuple[float, float, int]:
    """Bounds (lower, upper) on the optimal gain and the improvements made; `pair` [S] gets the greedy pairs of `v` [S].

    Puterman (1994), Sec. 8.6; Theorem 8.5.5 for the bounds, which hold whatever v is, up to its rounding. From the
    policy that goes to the largest reward on the shortest way, if ways can be walked back: states that go astray would
    be put right a few at each improvement. Given up, with bounds that are not as close as `accuracy`, when no line is
    found with steps of at most `widest`, when a policy does not always come to where a run of it is after S steps, when
    v is so large that its rounding is more than `accuracy`, or after `most` improvements.
    """
    n = len(v)
    order, position, distance = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    home, largest, smallest = pair_ptr[0], -np.inf, np.inf
    for s in range(n):
        for k in range(pair_ptr[s], pair_ptr[s + 1]):
            if r[k] > largest:
                home, largest = s, r[k]
            smallest = min(smallest, r[k])
    if line_up(pair_ptr, next_ptr, next_state, home, 2 * widest, order, position, distance) > 2 * widest:
        return -np.inf, np.inf, 0
    for s in range(n):
        v[s] = -(largest - smallest) * distance[s]
    reach = line_up(pair_ptr, next_ptr, next_state, order[n - 1], widest, order, position, distance)
    if reach > widest:
        return -np.inf, np.inf, 0
    size = longest_rows(pair_ptr, next_ptr)
    chain_ptr, chain_state = np.zeros(n + 1, np.int64), np.empty(size, np.int64)
    chain_p, earned, change = np.empty(size), np.empty(n), np.empty(n)
    band, leave, entry, cost = np.empty(n * (2 * reach + 1)), np.empty(n), np.empty(n), np.empty((n, 2))
    gain, improvement, nothing = 0.0, 0, np.empty(0)
    while True:
        table, found = (pair_ptr, next_ptr, next_state, p, r), (chain_ptr, chain_state, chain_p, earned)
        lower, upper = improve(*table, v, change, pair, *found)
        if improvement == most or upper - lower <= accuracy:
            return lower, upper, improvement
        improvement += 1
        home = walk(chain_ptr, chain_state, chain_p, home, n)
        for i in range(n):
            cost[i, 0], cost[i, 1] = earned[order[i]] - gain, 1.0
        chain, line = (chain_ptr, chain_state, chain_p), (order, position, reach)
        if not eliminate_in_line(*chain, home, *line, band, leave, entry, cost, nothing):
            return -np.inf, np.inf, improvement
        at_home = position[home]
        more = cost[at_home, 0] / cost[at_home, 1]
        gain += more
        for s in range(n):
            v[s] = cost[position[s], 0] - more * cost[position[s], 1] if s != home else 0.0
            if not ROUNDING * abs(v[s]) <= accuracy:  # or not a number
                return -np.inf, np.inf, improvement
