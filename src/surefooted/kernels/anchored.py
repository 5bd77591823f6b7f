"""The pessimistic Bellman operator with anchors: a second lower bound on r + p v, from what is known of r + p h.

h is the bias of the baseline. For each pair r + p v = (r + p h) + p (v - h). So a lower bound on r + p h, the *anchor*
of the pair, leaves only v - h to the worst plausible row. Values of policies that resemble the baseline are close to h.
The proofs are in docs/guarantees.md, Anchors.
"""

from typing import NamedTuple

import numpy as np

from surefooted.arrays import Floats, Ints
from surefooted.kernels.compile import allocating, njit
from surefooted.kernels.intervals import Sums, mean_distance
from surefooted.kernels.rows import Rows, extreme
from surefooted.kernels.sorting import Work, rank_states, workspace
from surefooted.kernels.structs import Fields, Mixture, Pool
from surefooted.kernels.value_iteration import step_back


class Income(NamedTuple):
    """What a step from each pair earns at least, minus what it must earn. Without anchors, `bias` is empty."""

    r: Floats  # [K]: at most the mean reward
    bias: Floats  # [S]: h
    anchor: Floats  # [K]: at most r + p h; -inf: unknown


class Desk(NamedTuple):
    """Scratch space of a sweep with anchors: the states by v, the states by v - h, and v - h."""

    by_value: Work
    by_rest: Work
    rest: Floats  # [S]


@allocating
def desk(n: int) -> Desk:
    """Scratch space for n states."""
    return Desk(workspace(n), workspace(n), np.empty(n))


@njit
def anchored_step(mixture: Mixture, rows: Rows, income: Income, work: Desk, v: Floats) -> tuple[float, float]:
    """`step_back` at its worst, with the better of both bounds for each pair; `work.by_value.change` [S] gets L v - v.

    It is monotone and moves with constants, as each of the bounds does.
    """
    if len(income.bias) == 0:
        return step_back(mixture, rows, income.r, -1.0, work.by_value, v)
    rank_states(v, -1.0, work.by_value)
    for s in range(len(v)):
        work.rest[s] = v[s] - income.bias[s]
    rank_states(work.rest, -1.0, work.by_rest)
    lower, upper = np.inf, -np.inf
    for s in range(len(v)):
        change = -v[s]
        for i in range(mixture.state_ptr[s], mixture.state_ptr[s + 1]):
            k = mixture.pairs[i]
            least = income.r[k] + extreme(rows, k, v, work.by_value)
            if income.anchor[k] > -np.inf:
                least = max(least, income.anchor[k] + extreme(rows, k, work.rest, work.by_rest))
            change += mixture.weights[i] * least
        work.by_value.change[s] = change
        lower, upper = min(lower, change), max(upper, change)
    return lower, upper


@njit
def add_outcomes(worth: Floats, pairs: Ints, rewards: Floats, next_states: Ints, sums: Fields) -> None:
    """Count the outcomes r + worth(s') of steps in the `sums` of their pairs."""
    counted = Sums(*sums)
    for i in range(len(pairs)):
        k, outcome = pairs[i], rewards[i] + worth[next_states[i]]
        counted.visits[k] += 1
        counted.reward[k] += outcome
        counted.square[k] += outcome * outcome


@njit
def bound_outcomes(sums: Fields, x: float, seen: Ints, bound: Floats) -> None:
    """`bound` [K] gets a lower bound on the mean outcome of each pair that was visited since `seen` [K].

    Outcomes are not negative. With the log term x each bound fails with probability exp(-x) at most, at any time.
    """
    counted = Sums(*sums)
    for k in range(len(seen)):
        if counted.visits[k] != seen[k]:
            seen[k] = counted.visits[k]
            bound[k] = mean_distance(float(seen[k]), counted.reward[k], counted.square[k], 0.0, 1.0, x)


@njit
def bound_successors(worth: Floats, pool: Fields, visits: Ints, x: float, seen: Ints, bound: Floats) -> None:
    """`bound` [K] gets a lower bound on the mean p worth of each pair; otherwise as `bound_outcomes`."""
    counted = Pool(*pool)
    for k in range(len(seen)):
        if visits[k] != seen[k]:
            seen[k] = visits[k]
            total, square = 0.0, 0.0
            for j in range(counted.start[k], counted.start[k] + counted.length[k]):
                here = worth[counted.state[j]]
                total += counted.counted[j] * here
                square += counted.counted[j] * here * here
            bound[k] = mean_distance(float(seen[k]), total, square, 0.0, 1.0, x)
