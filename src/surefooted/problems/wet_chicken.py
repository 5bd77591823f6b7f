"""Wet Chicken: the closer a canoe comes to the waterfall, the more it earns, until it falls and starts again.

Tresp (1994); the version on a discrete river in two dimensions of Hans & Udluft (2009), with their constants.
"""

import numpy as np

from surefooted.arrays import as_whole, is_whole
from surefooted.problems.baselines import chosen
from surefooted.problems.problem import Problem, require
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise

ACTIONS = {"drift": (0, 0), "hold": (-1, 0), "paddle": (-2, 0), "left": (0, -1), "right": (0, 1)}
DRIFT, HOLD, PADDLE, LEFT, RIGHT = range(5)
FASTEST, TURBULENCE = 3.0, 3.5  # the flow at the far bank, and flow and turbulence together


def wet_chicken(
    length: int = 5,
    width: int = 5,
    *,
    baseline: str = "hold",
    random_share: float = 0.0,
    noise: Noise | None = None,
    unit: str | None = None,
) -> Problem:
    """A canoe on a river of `length` × `width` cells that ends in a waterfall.

    >>> import surefooted as sf
    >>> problem = sf.problems.wet_chicken(unit="points")
    >>> problem.space.n_states, problem.space.n_actions
    (25, 5)

    - `length`, `width`: of the river. In column y it flows by v = 3 y / `width` cells a step, and turbulence adds a
      uniform number between ±(3.5 − v); the sum is rounded. At the waterfall the canoe is carried back to cell (0, 0).
    - `baseline`: "hold" (always paddle against a flow of 1), "drift" (never paddle) or "middle": go to the middle
      column, drift above the middle row, hold in it, paddle back below it.
    - `random_share`: the probability that the baseline plays an action at random.
    - `noise`: reward noise beside the river's own, by default none.
    - `unit`: None: rewards are mapped to [0, 1]. A unit such as "€": they are in that unit, as they are.

    A step earns the row that it leads to; the table holds the mean of that.
    """
    length, width = as_whole(length), as_whole(width)
    require(
        "wet_chicken",
        {
            f"length {length} must be a whole number of at least 2": is_whole(length, 2),
            f"width {width} must be a positive whole number": is_whole(width, 1),
        },
    )
    cells = [(x, y) for x in range(length) for y in range(width)]
    p = np.zeros((len(cells), len(ACTIONS), len(cells)))
    borders = np.arange(length) - 0.5  # between the rows that positions are rounded to; what is above counts as row 0
    for s, (x, y) in enumerate(cells):
        flow = FASTEST * y / width
        spread = TURBULENCE - flow
        for a, (along, across) in enumerate(ACTIONS.values()):
            below = np.clip((borders - (x + along + flow - spread)) / (2 * spread), 0.0, 1.0)
            last = np.clip((length - 0.5 - (x + along + flow - spread)) / (2 * spread), 0.0, 1.0)
            rows = np.diff(np.r_[0.0, below[1:], last])
            column = min(max(y + across, 0), width - 1)
            p[s, a, np.arange(length) * width + column] += rows
            p[s, a, 0] += 1 - last
    earned = np.array([x for x, _ in cells], dtype=np.float64)
    mdp = TabularMDP.from_arrays(p, p @ earned, noise=noise, rewards=(0.0, length - 1.0), unit=unit or "")
    mdp = mdp if unit is not None else mdp.normalised()
    middle = [_to_the_middle(x - length // 2, y - width // 2) for x, y in cells]
    policies = {
        "hold": Policy.always(mdp.space, HOLD),
        "drift": Policy.always(mdp.space, DRIFT),
        "middle": Policy.deterministic(mdp.space, middle),
    }
    return Problem(
        name="wet_chicken",
        mdp=mdp,
        baseline=chosen("wet_chicken", policies, baseline, random_share),
        start=0,
        state_labels=tuple(f"({x},{y})" for x, y in cells),
        action_labels=("·", "↑", "⇈", "←", "→"),
        positions=np.array(cells),
        axes=("row, towards the waterfall", "column"),
    )


def _to_the_middle(rows: int, columns: int) -> int:
    """What the baseline "middle" does that many rows and columns beyond the middle."""
    if columns != 0:
        return RIGHT if columns < 0 else LEFT
    return HOLD if rows == 0 else DRIFT if rows < 0 else PADDLE
