"""Forest management: an old forest is worth keeping, cut wood is worth selling, and fire comes at random.

The example of the MDP toolboxes for MATLAB, R and Python (Chadès et al. 2014, `mdp_example_forest`), with its defaults.
"""

import numpy as np

from surefooted.arrays import as_whole, is_whole
from surefooted.problems.baselines import chosen
from surefooted.problems.problem import Problem, require
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise

WAIT, CUT = 0, 1


def forest(
    n_ages: int = 3,
    wait_reward: float = 4.0,
    cut_reward: float = 2.0,
    fire: float = 0.1,
    *,
    baseline: str = "rotate",
    random_share: float = 0.0,
    noise: Noise | None = None,
    unit: str | None = None,
) -> Problem:
    """A forest that grows older each year, unless it burns or is cut.

    >>> import surefooted as sf
    >>> round(sf.solve.optimal_gain(sf.problems.forest(unit="points").mdp).gain, 4)
    3.24

    - `n_ages`: the number of ages; the last one is old, and stays old.
    - `wait_reward`, `cut_reward`: what an old forest earns. Cutting earns 0 at the first age and 1 at those between.
    - `fire`: the probability that a forest that is left standing burns down in a year.
    - `baseline`: "rotate" (cut when old), "early" (cut as soon as it earns something) or "wait" (never cut).
    - `random_share`: the probability that the baseline plays an action at random.
    - `noise`: reward noise, by default none.
    - `unit`: None: rewards are mapped to [0, 1]. A unit such as "€": they are in that unit, as they are.
    """
    n_ages = as_whole(n_ages)
    require(
        "forest",
        {
            f"n_ages {n_ages} must be a whole number of at least 2": is_whole(n_ages, 2),
            f"wait_reward {wait_reward} and cut_reward {cut_reward} must be positive and finite": (
                0 < wait_reward < np.inf and 0 < cut_reward < np.inf
            ),
            f"fire {fire} must be a probability": 0 <= fire <= 1,
        },
    )
    old = n_ages - 1
    p, r = np.zeros((n_ages, 2, n_ages)), np.zeros((n_ages, 2))
    for s in range(n_ages):
        p[s, WAIT, min(s + 1, old)] += 1 - fire
        p[s, WAIT, 0] += fire
        p[s, CUT, 0] = 1.0
    r[1:, CUT] = 1.0
    r[old] = wait_reward, cut_reward
    mdp = TabularMDP.from_arrays(p, r, noise=noise, rewards=(0.0, float(r.max())), unit=unit or "")
    mdp = mdp if unit is not None else mdp.normalised()
    cut_from = {"rotate": old, "early": 1, "wait": n_ages}
    policies = {
        name: Policy.deterministic(mdp.space, (np.arange(n_ages) >= age).astype(int)) for name, age in cut_from.items()
    }
    return Problem(
        name="forest",
        mdp=mdp,
        baseline=chosen("forest", policies, baseline, random_share),
        start=0,
        action_labels=("wait", "cut"),
        axes=("age",),
    )
