"""RiverSwim: a small sure reward on the left bank, a large one far to the right, against the current.

Strehl & Littman (2008), with the probabilities common in the average-reward literature; six states by default.
"""

import numpy as np

from surefooted.arrays import as_whole, is_whole
from surefooted.problems.problem import Problem, require
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise

LEFT, RIGHT = 0, 1


def riverswim(n_states: int = 6, noise: Noise | None = None) -> Problem:
    """A chain of states; swimming right fails often, swimming left never.

    >>> import surefooted as sf
    >>> round(sf.solve.optimal_gain(sf.problems.riverswim(6).mdp).gain, 4)
    0.4286

    - `n_states`: the length of the river, at least 3.
    - `noise`: reward noise, by default none.

    The baseline always swims left.
    """
    n_states = as_whole(n_states)
    require("riverswim", {f"n_states {n_states} must be a whole number of at least 3": is_whole(n_states, 3)})
    p, r = np.zeros((n_states, 2, n_states)), np.zeros((n_states, 2))
    last = n_states - 1
    for s in range(n_states):
        p[s, LEFT, max(s - 1, 0)] = 1.0
    for s in range(1, last):
        p[s, RIGHT, [s - 1, s, s + 1]] = 0.05, 0.60, 0.35
    p[0, RIGHT, [0, 1]] = p[last, RIGHT, [last - 1, last]] = 0.40, 0.60
    r[0, LEFT], r[last, RIGHT] = 0.005, 1.0
    mdp = TabularMDP.from_arrays(p, r, noise=noise)
    return Problem(
        name="riverswim",
        mdp=mdp,
        baseline=Policy.always(mdp.space, LEFT),
        start=0,
        action_labels=("←", "→"),
        axes=("place in the river",),
    )
