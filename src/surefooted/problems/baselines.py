"""What the baselines of several problems are made of: a choice of named policies, carelessness, and distances."""

from collections.abc import Mapping

import numpy as np

from surefooted.problems.problem import require
from surefooted.tables.policy import Policy
from surefooted.tables.space import Bools, Floats, Ints


def chosen(problem: str, policies: Mapping[str, Policy], baseline: str, random_share: float) -> Policy:
    """The named policy; with probability `random_share` a step plays any action of the state instead."""
    require(
        problem,
        {
            f"baseline {baseline!r} must be one of {', '.join(policies)}": baseline in policies,
            f"random_share {random_share} must be a probability": 0 <= random_share <= 1,
        },
    )
    policy = policies[baseline]
    return policy.mixed_with(Policy.uniform(policy.space), random_share) if random_share > 0 else policy


def distances(target: Ints, goal: Bools, free: Bools) -> Floats:
    """The fewest moves to a goal from each state, [S], through free states alone; inf where there is no way.

    - `target`: the state that each move leads to, [S, A].
    - `goal`, `free`: which states are goals, and which may be entered, [S].
    """
    distance = np.where(goal, 0.0, np.inf)
    while True:
        nearer = np.minimum(distance, 1 + np.where(free[target], distance[target], np.inf).min(axis=1))
        if np.array_equal(nearer, distance):
            return distance
        distance = nearer


def nearest(target: Ints, goal: Bools, free: Bools) -> Floats:
    """The probabilities [S, A] of the shortest ways to a goal; uniform in states without such a way."""
    distance = distances(target, goal, free)
    onward = np.where(free[target], distance[target], np.inf)
    best = (onward == onward.min(axis=1, keepdims=True)).astype(float)
    return np.asarray(best / best.sum(axis=1, keepdims=True), dtype=np.float64)
