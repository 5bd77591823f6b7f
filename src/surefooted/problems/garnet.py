"""Garnets: random sparse MDPs (Bhatnagar et al. 2009), made ergodic under every policy."""

import numpy as np

from surefooted.arrays import as_whole, is_whole
from surefooted.problems.problem import Problem, require
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Ints, Space

AT_ONCE = 65_536  # pairs whose rows are sorted together


def garnet(
    n_states: int = 50,
    n_actions: int = 4,
    n_successors: int = 5,
    seed: int = 0,
    return_share: float = 0.1,
    noise: Noise | None = None,
) -> Problem:
    """A random sparse MDP; the same seed gives the same MDP on every machine.

    >>> import surefooted as sf
    >>> sf.problems.garnet(n_states=100, n_actions=3, seed=7).mdp
    TabularMDP(n_states=100, n_pairs=300, nnz=1500)

    - `n_states`, `n_actions`: S and A; every state has every action.
    - `n_successors`: the number of next states of each pair. One of them is the next state on a random cycle through
      all states, the others are random. Probabilities are Dirichlet(1), scaled by 1 - `return_share`.
    - `seed`: of the random table.
    - `return_share`: the probability added to the next state on the cycle. Since every pair can step along that cycle,
      every policy visits every state.
    - `noise`: reward noise, by default Bernoulli.

    Mean rewards are uniform on [0, 1]. The baseline is myopic: it takes the action with the largest mean reward.
    """
    n_states, n_actions, n_successors = as_whole(n_states), as_whole(n_actions), as_whole(n_successors)
    require(
        "garnet",
        {
            f"n_states {n_states} must be a positive whole number": is_whole(n_states, 1),
            f"n_actions {n_actions} must be a positive whole number": is_whole(n_actions, 1),
            f"n_successors {n_successors} must be between 1 and n_states {n_states}": (
                is_whole(n_successors, 1) and n_successors <= n_states
            ),
            f"seed {seed} must be a whole number that is not negative": is_whole(seed, 0),
            f"return_share {return_share} must be above 0 and at most 1": 0 < return_share <= 1,
        },
    )
    rng = np.random.default_rng(seed)
    n_pairs = n_states * n_actions
    cycle = rng.permutation(n_states)
    after = np.empty(n_states, dtype=np.int64)
    after[cycle] = np.roll(cycle, -1)
    successors = np.empty((n_pairs, n_successors), dtype=np.int64)
    _distinct(rng, n_states - 1, successors[:, 1:])  # relative to the cycle's successor
    successors[:, 0] = -1
    share = rng.dirichlet(np.ones(n_successors), size=n_pairs)
    share *= 1 - return_share
    share[:, 0] += return_share
    rewards = rng.random(n_pairs)
    space = Space.full(n_states, n_actions)
    for first in range(0, n_pairs, AT_ONCE):  # in place, since a table may have hundreds of megabytes
        here = slice(first, first + AT_ONCE)
        moved = (successors[here] + 1 + after[space.pair_state[here], None]) % n_states
        order = np.argsort(moved, axis=1)
        successors[here] = np.take_along_axis(moved, order, axis=1)
        share[here] = np.take_along_axis(share[here], order, axis=1)
    ptr, next_state, p = np.arange(0, share.size + 1, n_successors), successors.ravel(), share.ravel()
    if not share.all():  # `return_share` is 1
        ptr = np.append(0, np.count_nonzero(share, axis=1).cumsum())
        next_state, p = next_state[p > 0], p[p > 0]
    mdp = TabularMDP(space, ptr, next_state, p, rewards, Noise("bernoulli") if noise is None else noise)
    myopic = rewards.reshape(n_states, n_actions).argmax(axis=1)
    return Problem(name="garnet", mdp=mdp, baseline=Policy.deterministic(mdp.space, myopic), start=0)


def _distinct(rng: np.random.Generator, below: int, out: Ints) -> None:
    """Each row of `out` gets distinct random numbers below `below`, by Floyd's algorithm, in O(size²) per row."""
    rows, size = out.shape
    for i in range(size):
        limit = below - size + i
        drawn = rng.integers(0, limit + 1, size=rows)
        taken = (out[:, :i] == drawn[:, None]).any(axis=1)
        out[:, i] = np.where(taken, limit, drawn)
