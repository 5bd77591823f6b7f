"""Steps that every kind of value iteration takes: expectations of a row, greedy pairs, and damped moves.

Arrays are set entry by entry: `x[:] = y` makes numba compile the text of an error message, which takes long.
"""

import numpy as np

from surefooted.arrays import Floats, Ints
from surefooted.kernels.compile import inlined, njit

BEYOND_ROUNDING = 1e-12  # relative: a larger difference is no rounding error


@inlined
def add_mean(value: float, first: int, last: int, next_state: Ints, p: Floats, v: Floats) -> float:
    """`value` plus the sum of p[j] v[next_state[j]] over first <= j < last.

    Signed indices would cost 20 %: numba looks at the sign of each, since negative ones count from the end.
    """
    for j in range(np.uint64(first), np.uint64(last)):
        value += p[j] * v[np.uint64(next_state[j])]
    return value


@njit
def backup_pairs(next_ptr: Ints, next_state: Ints, p: Floats, r: Floats, v: Floats, q: Floats) -> None:
    """`q` [K] = r + p v, the value of each pair when `v` [S] follows."""
    for k in range(len(q)):
        q[k] = add_mean(r[k], next_ptr[k], next_ptr[k + 1], next_state, p, v)


@njit
def best_pairs(pair_ptr: Ints, q: Floats, v: Floats, pair: Ints) -> None:
    """`v` [S] and `pair` [S] get each state's largest q [K] and the first pair that has it."""
    for s in range(len(v)):
        best = pair_ptr[s]
        for k in range(pair_ptr[s] + 1, pair_ptr[s + 1]):
            if q[k] > q[best]:
                best = k
        v[s], pair[s] = q[best], best


@njit
def first_sweep(pair_ptr: Ints, r: Floats, pair: Ints) -> tuple[float, float]:
    """The smallest and largest change in a sweep from v = 0; `pair` [S] gets the first of the greedy pairs."""
    lower, upper = np.inf, -np.inf
    for s in range(len(pair)):
        best, found = -np.inf, pair_ptr[s]
        for k in range(pair_ptr[s], pair_ptr[s + 1]):
            if r[k] > best:
                best, found = r[k], k
        pair[s] = found
        lower, upper = min(lower, best), max(upper, best)
    return lower, upper


@njit
def move_damped(change: Floats, damping: float, v: Floats) -> None:
    """Move `v` [S] by a share of its change, then shift it so that v[0] = 0: only differences matter."""
    shift = v[0] + damping * change[0]
    for s in range(len(v)):
        v[s] += damping * change[s] - shift
