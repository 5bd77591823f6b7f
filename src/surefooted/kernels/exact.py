"""Compiled loops over tables. They draw nothing unless a generator is their first argument, and print nothing.

A chain is three arrays: successors of state s are `next_state[next_ptr[s] : next_ptr[s + 1]]`, with probabilities `p`;
a successor may be listed twice. A table has the same three arrays over pairs. Outputs come last and are
written in place. A kernel reports failure as data; its caller turns that into an answer or an exception. Arrays are set
entry by entry: `x[:] = y` would have numba compile the words of an error message, which takes long.
"""

import numpy as np
from numpy.typing import NDArray

from surefooted.kernels.bellman import add_mean, first_sweep, move_damped
from surefooted.kernels.bellman import backup_pairs as backup_pairs
from surefooted.kernels.bellman import best_pairs as best_pairs
from surefooted.kernels.compile import allocating, njit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ALONE = 2  # sweeps of value iteration before the greedy policy goes on alone after each
ENOUGH = 0.5  # of the accuracy that is asked for, to which the greedy policy's values are worth bringing
TOGETHER = 3  # sweeps of the greedy policy alone, the first time; each time as many more


@allocating
def strong_components(next_ptr: Ints, next_state: Ints, component: Ints) -> int:
    """The number of strongly connected components; `component` [S] gets each state's (Tarjan 1972, without recursion).

    Components are numbered in reverse topological order: every edge leads to an equal or smaller number.
    """
    n = len(next_ptr) - 1
    index = np.empty(n, dtype=np.int64)
    low = np.zeros(n, dtype=np.int64)
    cursor = next_ptr[:-1].copy()
    open_states = np.empty(n, dtype=np.int64)  # Tarjan's stack
    path = np.empty(n, dtype=np.int64)  # the recursion
    for s in range(n):
        index[s], component[s] = -1, -1
    n_open, clock, found = 0, 0, 0
    for root in range(n):
        if index[root] >= 0:
            continue
        depth = 0
        path[0] = root
        while depth >= 0:
            s = path[depth]
            if index[s] < 0:
                index[s] = low[s] = clock
                clock += 1
                open_states[n_open] = s
                n_open += 1
            descended = False
            while cursor[s] < next_ptr[s + 1]:
                y = next_state[cursor[s]]
                cursor[s] += 1
                if index[y] < 0:
                    depth += 1
                    path[depth] = y
                    descended = True
                    break
                if component[y] < 0:
                    low[s] = min(low[s], index[y])
            if descended:
                continue
            if low[s] == index[s]:
                while True:
                    n_open -= 1
                    component[open_states[n_open]] = found
                    if open_states[n_open] == s:
                        break
                found += 1
            depth -= 1
            if depth >= 0:
                low[path[depth]] = min(low[path[depth]], low[s])
    return found


@allocating
def relative_values(
    next_ptr: Ints, next_state: Ints, p: Floats, r: Floats, damping: float, accuracy: float, most: int, v: Floats
) -> tuple[float, float, int]:
    """Bounds (lower, upper) on a recurrent chain's gain and the sweeps made; `v` [S] starts anywhere and gets the bias.

    Value iteration on the chain that stays put with probability 1 - damping (Puterman 1994, Sec. 8.5.4), which is
    aperiodic and has the same gain and bias. Stops when upper - lower <= accuracy or after `most` sweeps; v is
    moved so that v[0] = 0 at every sweep.
    """
    n = len(v)
    change = np.empty(n)
    lower, upper, sweep = -np.inf, np.inf, 0
    while sweep < most and not upper - lower <= accuracy:
        lower, upper = np.inf, -np.inf
        for s in range(n):
            change[s] = add_mean(r[s], next_ptr[s], next_ptr[s + 1], next_state, p, v) - v[s]
            lower, upper = min(lower, change[s]), max(upper, change[s])
        move_damped(change, damping, v)
        sweep += 1
    return lower, upper, sweep


@allocating
def stationary(
    next_ptr: Ints, next_state: Ints, p: Floats, damping: float, accuracy: float, most: int, d: Floats
) -> int:
    """Sweeps made to bring the distribution `d` [S] within `accuracy` (L1) of its image; -1 when `most` did not do."""
    n = len(d)
    image = np.empty(n)
    for sweep in range(most):
        for s in range(n):
            image[s] = 0.0
        for s in range(n):
            for j in range(next_ptr[s], next_ptr[s + 1]):
                image[next_state[j]] += d[s] * p[j]
        moved, mass = 0.0, 0.0
        for s in range(n):
            moved += abs(image[s] - d[s])
            d[s] += damping * (image[s] - d[s])
            mass += d[s]
        for s in range(n):
            d[s] /= mass
        if moved <= accuracy:
            return sweep + 1
    return -1


@allocating
def absorb(next_ptr: Ints, next_state: Ints, p: Floats, cost: Floats, accuracy: float, most: int, total: Floats) -> int:
    """Sweeps made to bring `total` [n, m] within `accuracy` of total = cost + p total; -1 when `most` did not do.

    Gauss–Seidel, on rows that leak. A residual ρ leaves an error of at most ρ max τ, with τ the expected steps until
    the leak; τ itself is iterated beside, from below, and is at most twice the iterate once that one's residual is
    below 1/2. Residuals are measured every ten sweeps, and need
    not be smaller than rounding lets them be.
    """
    n, m = cost.shape
    steps = np.zeros(n)
    for sweep in range(1, most + 1):
        for s in range(n):
            wait = 1.0
            for j in range(next_ptr[s], next_ptr[s + 1]):
                wait += p[j] * steps[next_state[j]]
            steps[s] = wait
            for c in range(m):
                backup = cost[s, c]
                for j in range(next_ptr[s], next_ptr[s + 1]):
                    backup += p[j] * total[next_state[j], c]
                total[s, c] = backup
        if sweep % 10 != 0 and sweep != most:
            continue
        residual, late, longest, largest = 0.0, 0.0, 0.0, 0.0
        for s in range(n):
            wait = 1.0 - steps[s]
            for j in range(next_ptr[s], next_ptr[s + 1]):
                wait += p[j] * steps[next_state[j]]
            late, longest = max(late, wait), max(longest, steps[s])
            for c in range(m):
                backup = cost[s, c] - total[s, c]
                for j in range(next_ptr[s], next_ptr[s + 1]):
                    backup += p[j] * total[next_state[j], c]
                residual, largest = max(residual, abs(backup)), max(largest, abs(total[s, c]))
        if late <= 0.5 and 2 * longest * residual <= max(accuracy, 1e-14 * longest * largest):
            return sweep
    return -1


@njit
def advantages(
    pair_state: Ints,
    next_ptr: Ints,
    next_state: Ints,
    p: Floats,
    r: Floats,
    gains: Floats,
    bias: Floats,
    gain_change: Floats,
    advantage: Floats,
    noise: Floats,
) -> None:
    """What each pair adds [K]: to the gain, p g - g(s); to the bias, r - g(s) + p h - h(s); `noise` is the terms' size.

    Differences are taken before they are weighted, so that what a rare transition adds is not lost in what stays the
    same.
    """
    for k in range(len(r)):
        s = pair_state[k]
        up, more, size = 0.0, r[k] - gains[s], abs(r[k]) + abs(gains[s])
        for j in range(next_ptr[k], next_ptr[k + 1]):
            y = next_state[j]
            up += p[j] * (gains[y] - gains[s])
            more += p[j] * (bias[y] - bias[s])
            size += p[j] * abs(bias[y] - bias[s])
        gain_change[k], advantage[k], noise[k] = up, more, size


@njit
def improve(
    pair_ptr: Ints,
    next_ptr: Ints,
    next_state: Ints,
    p: Floats,
    r: Floats,
    v: Floats,
    change: Floats,
    pair: Ints,
    chain_ptr: Ints,
    chain_state: Ints,
    chain_p: Floats,
    earned: Floats,
) -> tuple[float, float]:
    """The smallest and largest `change` [S] = L v - v; `pair` [S] gets the first greedy pairs, the rest their chain.

    A state is done with before the next one is begun, while the rows of its pairs are at hand. Which of them is best
    cannot be foreseen, so that no branch depends on it.
    """
    lower, upper, end = np.inf, -np.inf, np.uint64(0)
    for s in range(len(v)):
        best, j = -np.inf, np.uint64(next_ptr[pair_ptr[s]])
        found: int | np.uint64 = np.uint64(pair_ptr[s])
        for k in range(np.uint64(pair_ptr[s]), np.uint64(pair_ptr[s + 1])):
            value, last = r[k], np.uint64(next_ptr[k + np.uint64(1)])
            while j < last:
                value += p[j] * v[np.uint64(next_state[j])]
                j += np.uint64(1)
            is_better = value > best
            best = value if is_better else best
            found = k if is_better else found
        change[s], pair[s], earned[s] = best - v[s], found, r[found]
        lower = change[s] if change[s] < lower else lower
        upper = change[s] if change[s] > upper else upper
        for i in range(np.uint64(next_ptr[found]), np.uint64(next_ptr[found + np.uint64(1)])):
            chain_state[end], chain_p[end] = next_state[i], p[i]
            end += np.uint64(1)
        chain_ptr[s + 1] = end
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
    pair_ptr: Ints,
    next_ptr: Ints,
    next_state: Ints,
    p: Floats,
    r: Floats,
    damping: float,
    accuracy: float,
    most: int,
    v: Floats,
    pair: Ints,
) -> tuple[float, float, int]:
    """Bounds (lower, upper) on the optimal gain and the sweeps made; `pair` [S] gets the last sweep's greedy pairs.

    As `relative_values`, with the best pair of each state: Puterman (1994), Sec. 8.5 and Theorem 8.5.5 for the bounds.
    After each sweep but the first few the greedy policy goes on alone for a while, which costs a fraction and is not
    counted: modified policy iteration (Sec. 8.7).
    """
    n, size = len(v), longest_rows(pair_ptr, next_ptr)
    chain_ptr, chain_state = np.zeros(n + 1, dtype=np.int64), np.empty(size, dtype=np.int64)
    chain_p, earned, change = np.empty(size), np.empty(n), np.empty(n)
    lower, upper, sweep, together, zero = -np.inf, np.inf, 0, 0, True
    for s in range(n):
        zero &= v[s] == 0.0
    while sweep < most and not upper - lower <= accuracy:
        if sweep == 0 and zero:  # nothing follows
            lower, upper = first_sweep(pair_ptr, r, pair)
            for s in range(n):
                change[s] = r[pair[s]]
        else:
            table, chain = (pair_ptr, next_ptr, next_state, p, r), (chain_ptr, chain_state, chain_p, earned)
            lower, upper = improve(*table, v, change, pair, *chain)
        move_damped(change, damping, v)
        sweep += 1
        if sweep > ALONE and sweep < most and not upper - lower <= accuracy:
            together = min(together + TOGETHER, 16 * len(r) // n)  # at the price of a few sweeps over all pairs
            relative_values(chain_ptr, chain_state, chain_p, earned, damping, ENOUGH * accuracy, together, v)
    return lower, upper, sweep


@allocating
def accumulate_rewards(
    next_ptr: Ints, next_state: Ints, p: Floats, r: Floats, earned: Floats, x: Floats, out: Floats
) -> None:
    """`out` [T]: expected reward of the first 1, 2, .., T steps of a chain, on top of what was `earned`.

    `x` [S] is the distribution of the state before the first step, and after the call that after the last; `earned` [2]
    is the sum so far and its rounding error (Kahan), updated likewise.
    """
    n = len(x)
    image = np.empty(n)
    for t in range(len(out)):
        reward = 0.0
        for s in range(n):
            image[s] = 0.0
        for s in range(n):
            if x[s] != 0.0:
                reward += x[s] * r[s]
                for j in range(next_ptr[s], next_ptr[s + 1]):
                    image[next_state[j]] += x[s] * p[j]
        for s in range(n):
            x[s] = image[s]
        corrected = reward - earned[1]
        moved = earned[0] + corrected
        earned[1] = (moved - earned[0]) - corrected
        earned[0] = moved
        out[t] = moved
