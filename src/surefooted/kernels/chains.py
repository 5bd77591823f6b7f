"""Compiled loops over Markov chains: walks, rewards step by step, and linear systems over transient states.

A chain is a `Table` with one row for each state. The systems are (I - P) x = cost, where P leads from transient states
to transient states. Its rows hold probabilities p to *other* transient states, and `leak` [n] holds the probability of
leaving them all. The diagonal of I - P is never stored: it is the sum of a row's p and leak, which keeps its digits
where 1 minus the probability of staying would lose them.
"""

import numpy as np
from numpy.typing import NDArray

from surefooted.arrays import Floats, Ints
from surefooted.kernels.compile import allocating, njit
from surefooted.kernels.structs import Table, Transient

STILL = 1e-15  # the relative change of a probability that is but rounding
FAINT = 1e-30  # a probability that is too small to matter
REPEATS = 1000  # how often steps may be repeated in place of the rest of a run
LARGEST = 1e150  # expected visits beyond this are scaled down, long before they overflow


@njit
def walk(chain: Table, state: int, steps: int) -> int:
    """The state of a run after `steps` steps: probably one that is seen often. The draws are the same each time."""
    seed = 1
    for _ in range(steps):
        seed = seed * 16807 % 2147483647  # Park and Miller (1988)
        left = seed / 2147483647
        j, last = chain.next_ptr[state], chain.next_ptr[state + 1] - 1
        while j < last and left >= chain.p[j]:
            left -= chain.p[j]
            j += 1
        state = chain.next_state[j]
    return state


@allocating
def accumulate_rewards(chain: Table, earned: Floats, x: Floats, out: Floats) -> None:
    """`out` [T]: expected reward of the first 1, 2, .., T steps of a chain, on top of what was `earned`.

    `x` [S] is the distribution of the state before the first step, and after the call that after the last; `earned` [2]
    is the sum so far and its rounding error (Kahan), updated likewise.

    Sweeps end once x is what it was some steps before, as `stands_still` says (Brent 1980 for which x to compare it
    with). From then on the rewards of the steps between repeat, on periodic chains too. If x' <= (1 + ε) x + a in each
    entry, then x' P <= (1 + ε) x P + a P. So each repetition changes what a step earns by at most a share STILL, and by
    S FAINT times the largest reward. There are at most REPEATS repetitions: the relative error is at most 1e-12, but
    for rounding.
    """
    n, steps = len(x), len(out)
    image, kept, rewards = np.empty(n), x.copy(), np.empty(steps)
    t, swept, since, wait = 0, steps, 0, 1
    while t < swept:
        reward, total = 0.0, 0.0
        for s in range(n):
            image[s] = 0.0
        for s in range(n):
            if x[s] != 0.0:
                reward += x[s] * chain.r[s]
                for j in range(chain.next_ptr[s], chain.next_ptr[s + 1]):
                    image[chain.next_state[j]] += x[s] * chain.p[j]
        for s in range(n):
            total += image[s]
        for s in range(n):
            x[s] = image[s] / total  # else rounding adds up, to 1e-11 in a million steps
        rewards[t] = reward
        t, since = t + 1, since + 1
        if swept == steps and since * REPEATS >= steps - t and stands_still(x, kept):
            swept, wait = t + (steps - t) % since, since  # so that x is right at the end, too
        elif swept == steps and since == wait:
            since, wait = 0, 2 * wait
            for s in range(n):
                kept[s] = x[s]
    for t in range(steps):
        if t >= swept:
            rewards[t] = rewards[t - wait]
        corrected = rewards[t] - earned[1]
        moved = earned[0] + corrected
        earned[1] = (moved - earned[0]) - corrected
        earned[0] = moved
        out[t] = moved


@njit
def stands_still(x: Floats, before: Floats) -> bool:
    """Whether each probability is what it was before, to rounding."""
    for s in range(len(x)):
        if abs(x[s] - before[s]) > STILL * before[s] + FAINT:
            return False
    return True


@njit
def restrict(chain: Table, states: Ints, place: Ints, out: Transient) -> tuple[int, int]:
    """The number of entries written to `out`, the rows of the transient `states` [n], and their reach.

    `place` [S] is the position of each state in `states`, or -1 for all others. The reach is the largest difference of
    positions in a transition.
    """
    end, reach = 0, 0
    out.ptr[0] = 0
    for i in range(len(states)):
        leak = 0.0
        for j in range(chain.next_ptr[states[i]], chain.next_ptr[states[i] + 1]):
            k = place[chain.next_state[j]]
            if k < 0:
                leak += chain.p[j]
            elif k != i:
                out.column[end], out.p[end] = k, chain.p[j]
                end += 1
                reach = max(reach, abs(k - i))
        out.leak[i], out.ptr[i + 1] = leak, end
    return end, reach


@njit
def fill_matrix(rows: Transient, ptr: NDArray[np.int32], column: NDArray[np.int32], entry: Floats) -> None:
    """I - P in compressed rows: `ptr` [n + 1], `column` and `entry` have n more entries than `rows`."""
    end = 0
    ptr[0] = 0
    for i in range(len(rows.leak)):
        diagonal, at = rows.leak[i], -1
        for j in range(rows.ptr[i], rows.ptr[i + 1]):
            if at < 0 and rows.column[j] > i:  # columns stay in order
                at, end = end, end + 1
            column[end], entry[end] = rows.column[j], -rows.p[j]
            diagonal += rows.p[j]
            end += 1
        if at < 0:
            at, end = end, end + 1
        column[at], entry[at], ptr[i + 1] = i, diagonal, end


@njit
def residuals(rows: Transient, cost: Floats, x: Floats, out: Floats) -> None:
    """`out` [m, n] = cost - (I - P) x, for `cost` and `x` [m, n].

    Differences are taken before they are weighted, so that a rare transition is not lost in the much larger
    probability of staying.
    """
    for c in range(len(cost)):
        for i in range(len(rows.leak)):
            total = cost[c, i] - rows.leak[i] * x[c, i]
            for j in range(rows.ptr[i], rows.ptr[i + 1]):
                total += rows.p[j] * (x[c, rows.column[j]] - x[c, i])
            out[c, i] = total


@njit
def imbalances(rows: Transient, entry: Floats, visits: Floats, out: Floats, lost: Floats) -> None:
    """`out` [n] = entry - visits (I - P): what enters each state less what leaves it.

    What a transition takes from one state it gives to another, to the last digit, and the sums are compensated: `lost`
    [n] is scratch space for their rounding errors (Knuth's two-sum).
    """
    for i in range(len(out)):
        out[i], lost[i] = entry[i], 0.0
    for i in range(len(out)):
        for j in range(rows.ptr[i], rows.ptr[i + 1] + 1):
            is_leak = j == rows.ptr[i + 1]
            flow = visits[i] * (rows.leak[i] if is_leak else rows.p[j])
            for k, term in ((i, -flow), (i if is_leak else rows.column[j], 0.0 if is_leak else flow)):
                before, out[k] = out[k], out[k] + term
                added = out[k] - before
                lost[k] += (before - (out[k] - added)) + (term - added)
    for i in range(len(out)):
        out[i] += lost[i]


@njit
def eliminate(rows: Transient, band: Floats, out: Floats) -> bool:
    """Eliminate the states from the last to the first (Grassmann et al. 1985); False if some state is never left.

    `band` [n, 2 reach + 1] gets the transition probabilities between states, from i to j in band[i, reach + j - i], at
    the time when the later one of the two is eliminated; `out` [n] gets the probability of leaving each for states that
    are still there. No two numbers are ever subtracted, so that every entry is correct to a few roundings however
    rarely a state is left.
    """
    n, reach = len(out), band.shape[1] // 2
    for i in range(n):
        out[i] = rows.leak[i]
        for j in range(2 * reach + 1):
            band[i, j] = 0.0
        for j in range(rows.ptr[i], rows.ptr[i + 1]):
            band[i, reach + rows.column[j] - i] += rows.p[j]
    for k in range(n - 1, -1, -1):
        leak, length = out[k], min(k, reach)  # the band of row k begins `length` states before k
        onward = band[k, reach - length : reach]
        for j in range(length):
            out[k] += onward[j]
        if not out[k] > 0.0:
            return False
        for i in range(k - length, k):
            if band[i, reach + k - i] > 0.0:
                share = band[i, reach + k - i] / out[k]
                out[i] += share * leak
                row = band[i, reach + k - i - length : reach + k - i]
                for j in range(length):
                    row[j] += share * onward[j]
    return True


@njit
def substitute(band: Floats, out: Floats, x: Floats) -> None:
    """`x` [m, n] holds the cost of a step from each state, and gets the expected cost until the states are left."""
    n, reach = len(out), band.shape[1] // 2
    for c in range(len(x)):
        for k in range(n - 1, 0, -1):
            cost = x[c, k] / out[k]
            for i in range(max(0, k - reach), k):
                x[c, i] += band[i, reach + k - i] * cost
        for k in range(n):
            cost = x[c, k]
            for j in range(max(0, k - reach), k):
                cost += band[k, reach + j - k] * x[c, j]
            x[c, k] = cost / out[k]


@njit
def count_visits(band: Floats, out: Floats, entry: Floats) -> float:
    """Scale a cycle down if visits would overflow, and return the scale: 1, or less.

    `entry` [n] holds the probability of entering at each state, and gets the expected visits until all are left,
    times the scale.
    """
    n, reach, scale = len(out), band.shape[1] // 2, 1.0
    for k in range(n - 1, 0, -1):
        share = entry[k] / out[k]
        for j in range(max(0, k - reach), k):
            entry[j] += share * band[k, reach + j - k]
    for k in range(n):
        visits = entry[k] * scale
        for i in range(max(0, k - reach), k):
            visits += entry[i] * band[i, reach + k - i]
        entry[k] = visits / out[k]
        if entry[k] > LARGEST:
            scale /= LARGEST
            for i in range(k + 1):
                entry[i] /= LARGEST
    return scale
