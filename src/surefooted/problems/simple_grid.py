"""SimpleGrid: a grid whose corners pay, or not, while every other step earns the same.

A family of Conserva & Rauber (2022, the Colosseum benchmark); rewards are those of its version without noise.
"""

import numpy as np

from surefooted.arrays import as_whole, is_whole
from surefooted.problems.baselines import chosen, nearest
from surefooted.problems.problem import Problem, require
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise

MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0), (0, 0))  # (x, y): up, right, down, left, stay
STAY = 4
CORNERS = {"and": (0, 0, 0, 1), "nand": (1, 1, 1, 0), "or": (0, 1, 1, 1), "xor": (0, 1, 1, 0)}


def simple_grid(
    size: int = 5,
    pays: str = "xor",
    lazy: float = 0.0,
    *,
    baseline: str = "stay",
    random_share: float = 0.0,
    noise: Noise | None = None,
) -> Problem:
    """A grid of `size` × `size` cells; five actions move or stay.

    >>> import surefooted as sf
    >>> sf.solve.optimal_gain(sf.problems.simple_grid().mdp).gain
    1.0

    - `size`: at least 2.
    - `pays`: which corners earn 1 when a step stays in them: "and", "nand", "or" or "xor" of x and y being at the far
      end. Staying in another corner earns 0. Every other step earns 0.5.
    - `lazy`: the probability that an action has no effect.
    - `baseline`: "stay" (go to the middle and stay: 0.5 a step), "wander" (plays every action equally often) or
      "corner" (the shortest way to a corner that pays: optimal).
    - `random_share`: the probability that the baseline plays an action at random.
    - `noise`: reward noise, by default none.

    A run starts in the middle.
    """
    size = as_whole(size)
    require(
        "simple_grid",
        {
            f"size {size} must be a whole number of at least 2": is_whole(size, 2),
            f"pays {pays!r} must be one of {', '.join(CORNERS)}": pays in CORNERS,
            f"lazy {lazy} must be a probability": 0 <= lazy <= 1,
        },
    )
    cells = [(x, y) for x in range(size) for y in range(size)]
    x, y = np.array(cells).T
    steps = np.array(MOVES)
    target = np.clip(x[:, None] + steps[:, 0], 0, size - 1) * size + np.clip(y[:, None] + steps[:, 1], 0, size - 1)
    here = np.arange(size**2)
    p = np.zeros((here.size, len(MOVES), here.size))
    for a in range(len(MOVES)):
        p[here, a, target[:, a]] += 1 - lazy
        p[here, a, here] += lazy
    corner = np.array([CORNERS[pays][2 * (i > 0) + (j > 0)] for i, j in cells], dtype=np.float64)
    is_corner = (x % (size - 1) == 0) & (y % (size - 1) == 0)
    stays = p[here, :, here]  # [S, A], the probability to stay in a cell
    r = np.where(is_corner[:, None], 0.5 + stays * (corner[:, None] - 0.5), 0.5)
    mdp = TabularMDP.from_arrays(p, r, noise=noise)
    ways = nearest(target, is_corner & (corner > 0), np.ones(here.size, dtype=bool))
    ways[is_corner & (corner > 0)] = np.eye(len(MOVES))[STAY]
    start = (size // 2) * size + size // 2
    middle = nearest(target, here == start, np.ones(here.size, dtype=bool))
    middle[start] = np.eye(len(MOVES))[STAY]
    policies = {
        "stay": Policy.randomised(mdp.space, middle),
        "wander": Policy.uniform(mdp.space),
        "corner": Policy.randomised(mdp.space, ways),
    }
    return Problem(
        name="simple_grid",
        mdp=mdp,
        baseline=chosen("simple_grid", policies, baseline, random_share),
        start=start,
        state_labels=tuple(f"({i},{j})" for i, j in cells),
        action_labels=("↑", "→", "↓", "←", "·"),
        positions=np.column_stack([size - 1 - y, x]),
        axes=("row", "column"),
    )
