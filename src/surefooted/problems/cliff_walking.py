"""Cliff walking: the shortest way leads along a cliff (Sutton & Barto 2018, Example 6.6; CliffWalking-v1)."""

from typing import Any

import numpy as np

from surefooted.problems.baselines import chosen
from surefooted.problems.problem import Problem
from surefooted.problems.toy_text import absorbing
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise

ROWS, COLUMNS = 4, 12
UP, RIGHT, DOWN, LEFT = range(4)  # Gymnasium's order


def cliff_walking(
    slippery: bool = False,
    *,
    horizon: int = 40,
    baseline: str = "safe",
    random_share: float = 0.0,
    noise: Noise | None = None,
    unit: str | None = None,
) -> Problem:
    """A walk from one end of a cliff to the other: −1 a step, and −100 and back to the start for a fall.

    >>> import surefooted as sf
    >>> problem = sf.problems.cliff_walking(unit="points")
    >>> float(sf.solve.optimal_values(problem.mdp, problem.horizon).values[0, problem.start])
    -13.0

    - `slippery`: each move goes where it should with probability 1/3, and to either side with 1/3 each.
    - `horizon`: the length of an episode. After the goal, nothing is lost any more.
    - `baseline`: "safe" (up to the top row, along it, and down: 17 steps), "direct" (along the cliff: 13 steps,
      optimal if nothing slips) or "random".
    - `random_share`: the probability that the baseline plays an action at random.
    - `noise`: reward noise, by default none.
    - `unit`: None: rewards are mapped to [0, 1]. A unit such as "€": they are in that unit, as they are.

    There is no version for average reward: every walk without a fall would earn −1 a step.
    """
    from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv

    env: Any = CliffWalkingEnv(is_slippery=slippery)
    mdp = absorbing(env, noise, unit)
    row, column = np.unravel_index(np.arange(mdp.n_states - 1), (ROWS, COLUMNS))
    down = (column == COLUMNS - 1) & (row < ROWS - 1)
    safe = np.where(down, DOWN, np.where((row > 0), UP, RIGHT))
    direct = np.where(down, DOWN, np.where(row == ROWS - 1, UP, RIGHT))
    end = [0]  # what is played after the goal does not matter
    policies = {
        "safe": Policy.deterministic(mdp.space, np.r_[safe, end]),
        "direct": Policy.deterministic(mdp.space, np.r_[direct, end]),
        "random": Policy.uniform(mdp.space),
    }
    cliff = (row == ROWS - 1) & (column > 0) & (column < COLUMNS - 1)
    labels = [f"({i},{j})" + ("C" if over else "") for i, j, over in zip(row, column, cliff, strict=True)]
    return Problem(
        name="cliff_walking",
        mdp=mdp,
        baseline=chosen("cliff_walking", policies, baseline, random_share),
        start=(ROWS - 1) * COLUMNS,
        horizon=horizon,
        state_labels=(*labels, "done"),
        action_labels=("↑", "→", "↓", "←"),
        positions=np.r_[np.column_stack([row, column]), [[ROWS, COLUMNS - 1]]],
        axes=("row", "column"),
    )
