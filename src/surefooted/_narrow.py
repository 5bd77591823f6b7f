"""Compiled policy iteration for tables whose states can stand in a line so that no step is long.

A queue, a stock, a ring, a corridor: information takes as many sweeps as the line is long to get from one end to the
other, but the states of a policy's chain can be eliminated one after the other at a cost of S reach² once and for all.
"""

import numpy as np

from surefooted._compile import allocating, njit
from surefooted._kernels import Floats, Ints, backup_pairs, best_pairs, chain_of


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
    r: Floats,
    gain: float,
    home: int,
    order: Ints,
    position: Ints,
    reach: int,
    band: Floats,
    leave: Floats,
    cost: Floats,
    v: Floats,
) -> float:
    """What a chain's gain is more than `gain`; `v` [S] gets its values relative to `home`. NaN: not all get there.

    As `_kernels.eliminate`, with two costs of a step, r - gain and 1, until `home` is hit, and only the entries
    within `reach` of the diagonal: place i to place j is band[i * (2 * reach + 1) + reach + j - i].
    """
    n, width = len(order), 2 * reach + 1
    for i in range(n):
        for e in range(i * width, (i + 1) * width):
            band[e] = 0.0
        s, into = order[i], 0.0
        for j in range(next_ptr[s], next_ptr[s + 1]):
            if next_state[j] == home:
                into += p[j]
            else:
                band[i * width + reach + position[next_state[j]] - i] += p[j]
        leave[i], cost[i, 0], cost[i, 1] = into, r[s] - gain, 1.0
    at_home = position[home]
    for k in range(n - 1, -1, -1):
        if k == at_home:
            continue
        begin, row_k = max(0, k - reach), k * width + reach - k
        into, out = leave[k], leave[k]
        for j in range(begin, k):
            out += band[row_k + j]
        if not out > 0.0:
            return np.nan
        for i in range(begin, k):
            row_i = i * width + reach - i
            if band[row_i + k] > 0.0 and i != at_home:
                share = band[row_i + k] / out
                for j in range(begin, k):
                    band[row_i + j] += share * band[row_k + j]
                leave[i] += share * into
                cost[i, 0] += share * cost[k, 0]
                cost[i, 1] += share * cost[k, 1]
        leave[k] = out
    cost[at_home, 0], cost[at_home, 1], leave[at_home] = 0.0, 0.0, 1.0
    for k in range(n):  # from here on `cost` is the cost until home is hit
        if k == at_home:
            continue
        row_k = k * width + reach - k
        more, steps = cost[k, 0], cost[k, 1]
        for j in range(max(0, k - reach), k):
            more += band[row_k + j] * cost[j, 0]
            steps += band[row_k + j] * cost[j, 1]
        cost[k, 0], cost[k, 1] = more / leave[k], steps / leave[k]
    more, steps = r[home] - gain, 1.0
    for j in range(next_ptr[home], next_ptr[home + 1]):
        more += p[j] * cost[position[next_state[j]], 0]
        steps += p[j] * cost[position[next_state[j]], 1]
    for s in range(n):
        v[s] = cost[position[s], 0] - more / steps * cost[position[s], 1]
    return float(more / steps)


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

    Puterman (1994), Sec. 8.6; Theorem 8.5.5 for the bounds, which hold whatever v is. From the policy that goes
    to the largest reward on the shortest way: states that go astray would be put right a few at each improvement.
    Given up, with bounds that are not as close as `accuracy`, when no line is found with steps of at most `widest`,
    when a policy does not always come to where a run of it is after S steps, or after `most` improvements.
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
    size = 0
    for s in range(n):
        longest = 0
        for k in range(pair_ptr[s], pair_ptr[s + 1]):
            longest = max(longest, next_ptr[k + 1] - next_ptr[k])
        size += longest
    chain_ptr, chain_state = np.zeros(n + 1, np.int64), np.empty(size, np.int64)
    chain_p, earned = np.empty(size), np.empty(n)
    band, leave, cost = np.empty(n * (2 * reach + 1)), np.empty(n), np.empty((n, 2))
    backup, best = np.empty(len(r)), np.empty(n)
    gain, improvement = 0.0, 0
    while True:
        backup_pairs(next_ptr, next_state, p, r, v, backup)
        best_pairs(pair_ptr, backup, best, pair)
        lower, upper = np.inf, -np.inf
        for s in range(n):
            lower, upper = min(lower, best[s] - v[s]), max(upper, best[s] - v[s])
        if improvement == most or upper - lower <= accuracy:
            return lower, upper, improvement
        improvement += 1
        chain_of(pair, next_ptr, next_state, p, r, chain_ptr, chain_state, chain_p, earned)
        home = walk(chain_ptr, chain_state, chain_p, home, n)
        gain += eliminate_in_line(
            chain_ptr, chain_state, chain_p, earned, gain, home, order, position, reach, band, leave, cost, v
        )
        if not np.isfinite(gain):
            return -np.inf, np.inf, improvement
