"""Deep sea: a chest at the bottom right, which only a diver finds who pays to go right at every step.

Osband, Van Roy, Russo & Wen (2019), Sec. 4; the same problem is in bsuite (Osband et al. 2020).
"""

import numpy as np

from surefooted.arrays import as_whole, is_whole
from surefooted.problems.problem import Problem, require
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise

LEFT, RIGHT = 0, 1
MOVE_COST, CHEST = 0.01, 1.0  # in all, if every step goes right; and what the chest holds


def deep_sea(
    size: int = 10,
    slip: float = 0.0,
    *,
    right_share: float = 0.9,
    noise: Noise | None = None,
    unit: str | None = None,
) -> Problem:
    """A dive of `size` steps over a triangle of cells, one row deeper with each step.

    >>> import surefooted as sf
    >>> problem = sf.problems.deep_sea(unit="points")
    >>> round(float(sf.solve.optimal_values(problem.mdp, problem.horizon).values[0, problem.start]), 4)
    0.99

    - `size`: the number of rows, and the length of an episode. A step to the right costs 0.01 / size, one to the left
      nothing. In the last cell on the right, a step to the right finds the chest, which is worth 1.
    - `slip`: the probability that a step to the right goes left; bsuite's stochastic version has 1 / size. The chest
      needs the step itself.
    - `right_share`: the probability with which the baseline goes right, in every cell: its quality.
    - `noise`: reward noise, by default none.
    - `unit`: None: rewards are mapped to [0, 1]. A unit such as "€": they are in that unit, as they are.
    """
    size = as_whole(size)
    require(
        "deep_sea",
        {
            f"size {size} must be a positive whole number": is_whole(size, 1),
            f"slip {slip} must be a probability": 0 <= slip <= 1,
            f"right_share {right_share} must be a probability": 0 <= right_share <= 1,
        },
    )
    cells = [(row, column) for row in range(size) for column in range(row + 1)]
    index = {cell: s for s, cell in enumerate(cells)}
    n = len(cells)
    p, r = np.zeros((n, 2, n)), np.zeros((n, 2))
    for s, (row, column) in enumerate(cells):
        left, right = (index.get((row + 1, after), 0) for after in (max(column - 1, 0), column + 1))
        p[s, LEFT, left] = 1.0
        p[s, RIGHT, right] += 1 - slip
        p[s, RIGHT, left] += slip
        r[s, RIGHT] = -MOVE_COST / size
    r[index[size - 1, size - 1], RIGHT] += CHEST * (1 - slip)
    rewards = (-MOVE_COST / size, CHEST - MOVE_COST / size)
    mdp = TabularMDP.from_arrays(p, r, noise=noise, rewards=rewards, unit=unit or "")
    mdp = mdp if unit is not None else mdp.normalised()
    return Problem(
        name="deep_sea",
        mdp=mdp,
        baseline=Policy.randomised(mdp.space, np.tile([1 - right_share, right_share], (n, 1))),
        start=0,
        horizon=size,
        state_labels=tuple(f"({row},{column})" for row, column in cells),
        action_labels=("↙", "↘"),
        positions=np.array(cells),
        axes=("row", "column"),
    )
