"""Compiled loops over tables. They draw nothing unless a generator is their first argument, and print nothing.

A chain is three arrays: successors of state s are `next_state[next_ptr[s] : next_ptr[s + 1]]`, with probabilities `p`;
a successor may be listed twice. A table has the same three arrays over pairs. Outputs come last and are
written in place. A kernel reports failure as data; its caller turns that into an answer or an exception. Arrays are set
entry by entry: `x[:] = y` would have numba compile the words of an error message, which takes long.
"""

import numpy as np
from numpy.typing import NDArray

from surefooted.kernels.bellman import add_mean, first_sweep, move_damped
from surefooted.kernels.compile import allocating, njit
from surefooted.kernels.structs import Advantages, Table

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ALONE = 2  # sweeps of value iteration before the greedy policy goes on alone after each
ENOUGH = 0.5  # of the accuracy that is asked for, to which the greedy policy's values are worth bringing
SLOW = 0.8  # of the difference of the bounds, when a sweep that leaves more counts as slow
TOGETHER = 3  # sweeps of the greedy policy alone, the first time; each time as many more


@allocating
def relative_values(chain: Table, damping: float, accuracy: float, most: int, v: Floats) -> tuple[float, float, int]:
    """Bounds (lower, upper) on the gain of a chain with one recurrent class, and the sweeps made.

    Value iteration on the chain that stays put with probability 1 - damping (Puterman 1994, Sec. 8.5.4), which is
    aperiodic and has the same gain and bias. Stops when upper - lower <= accuracy or after `most` sweeps. `v` [S]
    starts anywhere and gets the bias, moved so that v[0] = 0 at every sweep.
    """
    n = len(v)
    change = np.empty(n)
    lower, upper, sweep = -np.inf, np.inf, 0
    while sweep < most and not upper - lower <= accuracy:
        lower, upper = np.inf, -np.inf
        for s in range(n):
            first, last = chain.next_ptr[s], chain.next_ptr[s + 1]
            change[s] = add_mean(chain.r[s], first, last, chain.next_state, chain.p, v) - v[s]
            lower, upper = min(lower, change[s]), max(upper, change[s])
        move_damped(change, damping, v)
        sweep += 1
    return lower, upper, sweep


@njit
def advantages(table: Table, pair_state: Ints, gains: Floats, bias: Floats, out: Advantages) -> None:
    """What each pair adds to the gain, p g - g(s), and to the bias, r - g(s) + p h - h(s), with the size of the terms.

    Differences are taken before they are weighted, so that what a rare transition adds is not lost in what stays the
    same.
    """
    for k in range(len(table.r)):
        s = pair_state[k]
        up, more, size = 0.0, table.r[k] - gains[s], abs(table.r[k]) + abs(gains[s])
        for j in range(table.next_ptr[k], table.next_ptr[k + 1]):
            y = table.next_state[j]
            up += table.p[j] * (gains[y] - gains[s])
            more += table.p[j] * (bias[y] - bias[s])
            size += table.p[j] * abs(bias[y] - bias[s])
        out.to_gain[k], out.to_bias[k], out.size[k] = up, more, size


@njit
def improve(pair_ptr: Ints, table: Table, v: Floats, change: Floats, pair: Ints, chain: Table) -> tuple[float, float]:
    """The smallest and largest `change` [S] = L v - v; `pair` [S] gets the first greedy pairs, `chain` their rows.

    A state is finished before the next one begins, while the rows of its pairs are in the cache. Unsigned indices and
    the absence of branches save 10 to 30 % of this kernel, on scattered tables and rings of 121 to 10 000 states.
    """
    lower, upper, end = np.inf, -np.inf, np.uint64(0)
    for s in range(len(v)):
        best, j = -np.inf, np.uint64(table.next_ptr[pair_ptr[s]])
        found: int | np.uint64 = np.uint64(pair_ptr[s])
        for k in range(np.uint64(pair_ptr[s]), np.uint64(pair_ptr[s + 1])):
            value, last = table.r[k], np.uint64(table.next_ptr[k + np.uint64(1)])
            while j < last:
                value += table.p[j] * v[np.uint64(table.next_state[j])]
                j += np.uint64(1)
            is_better = value > best
            best = value if is_better else best
            found = k if is_better else found
        change[s], pair[s], chain.r[s] = best - v[s], found, table.r[found]
        lower = change[s] if change[s] < lower else lower
        upper = change[s] if change[s] > upper else upper
        for i in range(np.uint64(table.next_ptr[found]), np.uint64(table.next_ptr[found + np.uint64(1)])):
            chain.next_state[end], chain.p[end] = table.next_state[i], table.p[i]
            end += np.uint64(1)
        chain.next_ptr[s + 1] = end
    return lower, upper


@njit
def longest_rows(pair_ptr: Ints, next_ptr: Ints) -> int:
    """How many transitions the chain of a policy has at most."""
    total = 0
    for s in range(len(pair_ptr) - 1):
        longest = 0
        for k in range(pair_ptr[s], pair_ptr[s + 1]):
            longest = max(longest, next_ptr[k + 1] - next_ptr[k])
        total += longest
    return total


@allocating
def value_iteration(
    pair_ptr: Ints, table: Table, damping: float, accuracy: float, most: int, patience: int, v: Floats, pair: Ints
) -> tuple[float, float, int]:
    """Bounds (lower, upper) on the optimal gain and the sweeps made; `pair` [S] gets the last sweep's greedy pairs.

    As `relative_values`, with the best pair of each state: Puterman (1994), Sec. 8.5 and Theorem 8.5.5 for the bounds.
    After each sweep but the first few the greedy policy goes on alone for a while, which costs a fraction and is not
    counted: modified policy iteration (Sec. 8.7). Ends after `most` sweeps, or if one after `patience`
    sweeps leaves more than SLOW of the difference of the bounds.
    """
    n, size = len(v), longest_rows(pair_ptr, table.next_ptr)
    rows = (np.zeros(n + 1, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size), np.empty(n))
    chain, change = Table(rows[0], rows[1], rows[2], rows[3]), np.empty(n)
    lower, upper, sweep, together, zero = -np.inf, np.inf, 0, 0, True
    for s in range(n):
        zero &= v[s] == 0.0
    while sweep < most and not upper - lower <= accuracy:
        before = upper - lower
        if sweep == 0 and zero:  # nothing follows
            lower, upper = first_sweep(pair_ptr, table.r, pair)
            for s in range(n):
                change[s] = table.r[pair[s]]
        else:
            lower, upper = improve(pair_ptr, table, v, change, pair, chain)
        move_damped(change, damping, v)
        sweep += 1
        if sweep > patience and upper - lower > SLOW * before:
            break
        if sweep > ALONE and sweep < most and not upper - lower <= accuracy:
            together = min(together + TOGETHER, 16 * len(table.r) // n)  # at the price of a few sweeps over all pairs
            relative_values(chain, damping, ENOUGH * accuracy, together, v)
    return lower, upper, sweep


@njit
def search_from(pair_ptr: Ints, table: Table, first: int, steps: Ints, order: Ints) -> None:
    """Breadth-first search: `steps` [S] gets the length of a shortest way from state `first` to each, S if none.

    `order` [S] lists the states in the order in which they are found, then those that are not.
    """
    n, found, looked = len(steps), 1, 0
    for s in range(n):
        steps[s] = n
    order[0], steps[first] = first, 0
    while looked < found:
        s = order[looked]
        for j in range(table.next_ptr[pair_ptr[s]], table.next_ptr[pair_ptr[s + 1]]):
            y = table.next_state[j]
            if steps[y] == n:
                order[found], steps[y] = y, steps[s] + 1
                found += 1
        looked += 1
    for s in range(n):
        if steps[s] == n:
            order[found] = s
            found += 1
