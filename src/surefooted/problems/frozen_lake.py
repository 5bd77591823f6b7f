"""Frozen lake: across slippery ice to the goal, around the holes (FrozenLake-v1)."""

from typing import Any

import numpy as np

from surefooted.problems.baselines import chosen, distances, nearest
from surefooted.problems.problem import Problem, require
from surefooted.problems.toy_text import absorbing, restarting
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Bools, Floats, Ints

MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # (row, column), in Gymnasium's order
MAPS = ("4x4", "8x8")


def frozen_lake(
    map: str = "4x4",
    slippery: bool = True,
    *,
    horizon: int | None = None,
    baseline: str = "careful",
    random_share: float = 0.0,
    noise: Noise | None = None,
    unit: str | None = None,
) -> Problem:
    """Moves over ice; the goal earns 1, and an episode ends there or in a hole.

    >>> import surefooted as sf
    >>> sf.problems.frozen_lake().space.n_states  # without the holes and the goal: after them, one starts again
    11

    - `map`: "4x4", "8x8", or one line per row with `S` start, `G` goal, `H` hole and `F` ice.
    - `slippery`: each move goes where it should with probability 1/3, and to either side with 1/3 each.
    - `horizon`: None (average reward): after a hole or the goal one starts again. A number: the length of an episode,
      in which nothing more is earned after them.
    - `baseline`: "direct" (the shortest way around the holes, as if the ice did not slip), "careful" (moves with the
      smallest chance to fall in, and of these the one that brings it nearest to the goal) or "random".
    - `random_share`: the probability that the baseline plays an action at random.
    - `noise`: reward noise, by default none.
    - `unit`: None: rewards are mapped to [0, 1], which they are in anyway. A unit such as "€": they have that unit.
    """
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

    rows = [line.strip() for line in map.strip().splitlines()]
    require(
        "frozen_lake",
        {
            f"map {map!r} must be {' or '.join(MAPS)}, or rows of S, G, H and F of one length, with one S and a G": (
                map in MAPS
                or (
                    len({len(row) for row in rows}) == 1
                    and set("".join(rows)) <= set("SGHF")
                    and "".join(rows).count("S") == 1
                    and "G" in "".join(rows)
                )
            )
        },
    )
    drawn = None if map in MAPS else rows
    env: Any = FrozenLakeEnv(desc=drawn, map_name=map, is_slippery=slippery)
    marks = env.desc.astype(str)  # [rows, columns]
    every = np.arange(marks.size)
    mdp, states = restarting(env, noise, unit) if horizon is None else (absorbing(env, noise, unit), every)
    flat, target = marks.ravel(), _target(marks)
    goal, free = flat == "G", flat != "H"
    laws = {
        "direct": nearest(target, goal, free),
        "careful": _careful(target, goal, free) if slippery else nearest(target, goal, free),
        "random": np.full(target.shape, 1 / len(MOVES)),
    }
    policies = {name: Policy.randomised(mdp.space, law[states]) for name, law in laws.items()}
    start = int(np.flatnonzero(flat[states] == "S")[0])
    where = np.array(np.unravel_index(states, marks.shape)).T
    return Problem(
        name="frozen_lake",
        mdp=mdp,
        baseline=chosen("frozen_lake", policies, baseline, random_share),
        start=start,
        horizon=horizon,
        state_labels=tuple(
            f"({i},{j})" + (flat[s] if flat[s] in "SGH" else "") for s, (i, j) in zip(states, where, strict=True)
        ),
        action_labels=("←", "↓", "→", "↑"),
        positions=where,
        axes=("row", "column"),
    )


def _target(marks: Any) -> Ints:
    """The cell that each move leads to where it does not slip, [S, A]."""
    rows, columns = np.indices(marks.shape).reshape(2, -1)
    steps = np.array(MOVES)
    down = np.clip(rows[:, None] + steps[:, 0], 0, marks.shape[0] - 1)
    return np.asarray(down * marks.shape[1] + np.clip(columns[:, None] + steps[:, 1], 0, marks.shape[1] - 1))


def _careful(target: Ints, goal: Bools, free: Bools) -> Floats:
    """The probabilities [S, A] of the moves with the least risk, and of these of those that come nearest to the goal.

    A move that slips leads where the two moves at its sides lead.
    """
    distance = distances(target, goal, free)
    far = np.where(np.isfinite(distance), distance, 2.0 * distance.size)
    ends = np.stack([target, np.roll(target, 1, axis=1), np.roll(target, -1, axis=1)])  # [3, S, A]
    risk, left = (~free)[ends].sum(axis=0), far[ends].sum(axis=0)
    least = np.where(risk == risk.min(axis=1, keepdims=True), left, np.inf)
    best = (least == least.min(axis=1, keepdims=True)).astype(float)
    return np.asarray(best / best.sum(axis=1, keepdims=True))
