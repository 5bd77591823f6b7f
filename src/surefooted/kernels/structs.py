"""Arrays that belong together, as kernels take them: one NamedTuple for each idea.

Kernels that Python calls in every episode take `Fields`, such as `tuple(pool)`, and name them inside: `Pool(*pool)`.
At each call from Python, numba reads the names of all fields of a NamedTuple, which takes 0.1 us for each.
"""

from typing import Any, NamedTuple

import numpy as np

from surefooted.arrays import Floats, Ints

Fields = tuple[Any, ...]  # those of a NamedTuple, with or without their names

NO_INTS, NO_FLOATS = np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0))  # in place of what a kernel does not use


class Table(NamedTuple):
    """The rows of a known MDP by pair, or of a Markov chain by state.

    The successors of row k are `next_state[next_ptr[k] : next_ptr[k + 1]]`, with probabilities `p`; `r` is its mean
    reward. A successor may be listed twice.
    """

    next_ptr: Ints  # [K + 1]
    next_state: Ints  # [nnz]
    p: Floats  # [nnz]
    r: Floats  # [K]


class Mixture(NamedTuple):
    """A stationary policy: state s plays pairs[i] with weights[i] for i in state_ptr[s] .. state_ptr[s + 1] - 1."""

    state_ptr: Ints  # [S + 1]
    pairs: Ints
    weights: Floats


class Steps(NamedTuple):
    """Steps in the order in which they were played."""

    pairs: Ints  # [n]
    rewards: Floats  # [n]
    next_states: Ints  # [n]


class Estimates(NamedTuple):
    """Counts as rows: row m has `visits[m]` visits and mean reward r[m]; next_count[j] of them led to next_state[j].

    A known table fits in as well: one visit to each row, and probabilities in place of counts.
    """

    visits: Ints  # [K]
    r: Floats  # [K]
    next_ptr: Ints  # [K + 1]
    next_state: Ints  # [nnz]
    next_count: Ints | Floats  # [nnz]


class BonusTerms(NamedTuple):
    """An exploration bonus. Every formula adds `fixed`; kernels/bonus.py says what else each `kind` adds and uses."""

    kind: int
    fixed: Floats  # [rows]
    log: Floats = np.zeros(0)  # [rows]: FREEDMAN_BONUS and EULER_BONUS
    stage_visits: Ints = NO_INTS  # [H, S]: FREEDMAN_BONUS
    n_actions: int = 0  # FREEDMAN_BONUS
    q_before: Floats = NO_FLOATS  # [H, K], FREEDMAN_BONUS: the last Q, which this one replaces
    lower: Floats = NO_FLOATS  # [H + 1, S], EULER_BONUS: the lower bounds on V*, written in place


class Pool(NamedTuple):
    """Next-state counts that grow: row k is state[start[k] : start[k] + length[k]], with room for `room[k]`."""

    start: Ints  # [K]
    length: Ints  # [K]
    room: Ints  # [K]
    state: Ints
    counted: Ints
    used: Ints  # [2]: entries of the pool in use, and transitions in it


NO_NOISE, BERNOULLI, GAUSSIAN, TRUNCATED_GAUSSIAN, UNIFORM = 0, 1, 2, 3, 4  # kinds of reward noise


class World(NamedTuple):
    """A true table to play on, with the noise of its rewards (`tables/reward_noise.py`).

    Mean rewards `r` are counted from `low`; the rewards of steps are not. Row k of the table belongs to pair k, or row
    h K + k to pair k of stage h.
    """

    pair_ptr: Ints  # [S + 1]
    next_ptr: Ints  # [rows + 1]
    next_state: Ints  # [nnz]
    p: Floats  # [nnz]
    r: Floats  # [rows]
    r_max: float
    noise: int  # NO_NOISE, BERNOULLI, ..
    scale: float
    low: float = 0.0


class Optimist(NamedTuple):
    """A learner over a finite horizon: what it has counted, the set of intervals made of it, and its plan."""

    pair_ptr: Ints  # [S + 1]
    r_max: float
    low: float  # what rewards are counted from
    share: Fields  # of δ: an `intervals.Share`
    sums: Fields  # `intervals.Sums`
    pool: Fields
    seen: Ints  # [rows]: the visits of each row when its intervals were computed
    boxes: Fields  # `intervals.Boxes`
    rows: Fields  # `rows.Rows`
    values: Floats  # [H + 1, S]
    pair: Ints  # [H, S]: greedy


class Book(NamedTuple):
    """Policies and what was played of them: segment i is `steps[i]` steps of policy `policy[i]`, first to last.

    A policy lists pairs, sorted: policy q those from first[q] to first[q + 1] - 1. If `weighted[q]` >= 0 it plays them
    with the weights that begin there. Otherwise it plays them for certain, and in every state without one the pair of
    policy `base[q]`, which lists one for each state. Policy 0 is the baseline.
    """

    pair_state: Ints  # [K]
    first: Ints  # [P + 1]
    base: Ints  # [P]
    weighted: Ints  # [P]
    pairs: Ints
    weights: Floats
    policy: Ints  # [n]
    steps: Ints  # [n]


class Transient(NamedTuple):
    """Rows of transient states: p[j] from row i to column[j], another of them, for ptr[i] <= j < ptr[i + 1]."""

    ptr: Ints  # [n + 1]
    column: Ints
    p: Floats
    leak: Floats  # [n], the probability of a step that leaves them all


class Advantages(NamedTuple):
    """What each pair adds to the gain and to the bias if it is played once, and the size of the terms of the latter."""

    to_gain: Floats  # [K]
    to_bias: Floats  # [K]
    size: Floats  # [K]
