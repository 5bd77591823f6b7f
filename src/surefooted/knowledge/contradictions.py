"""Steps that are impossible if what was declared is true."""

from typing import NamedTuple

import numpy as np

from surefooted.arrays import Bools, Floats, Ints
from surefooted.errors import InvalidInput
from surefooted.knowledge.declared import Declared


class ImpossibleSteps(NamedTuple):
    """Which of n steps are impossible, and why."""

    lost: Bools  # [n]: led to a state that is not possible after the pair
    unpaid: Bools  # [n]: earned a reward outside the declared bounds
    misled: Bools  # [n]: led elsewhere than their noise does

    @property
    def first(self) -> int:
        """The first of these steps; -1 if there is none."""
        found = np.flatnonzero(self.lost | self.unpaid | self.misled)
        return int(found[0]) if found.size else -1


def impossible_steps(
    declared: Declared, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None = None
) -> ImpossibleSteps:
    """Compare steps with what was declared.

    `pairs` [n] are rows of counts: pair k of stage h is h K + k. `noise` [n, C] is the noise of the steps, if the
    mechanics observe it.
    """
    shapes = [np.shape(column) for column in (pairs, rewards, next_states)]
    if not (shapes[0] == shapes[1] == shapes[2] and len(shapes[0]) == 1):
        raise InvalidInput("no such steps", [f"{shapes[0]} pairs, {shapes[1]} rewards, {shapes[2]} next states"])
    if np.any(pairs < 0) or np.any((next_states < 0) | (next_states >= declared.space.n_states)):
        raise InvalidInput("no such steps", ["some pair or next state does not exist"])
    k, never = pairs % declared.space.n_pairs, np.zeros(len(pairs), dtype=bool)
    unpaid = misled = never
    if declared.reward_low is not None and declared.reward_high is not None:
        low, high, slack = declared.reward_low[k], declared.reward_high[k], declared.rewards.slack
        unpaid = ~((rewards >= low - slack) & (rewards <= high + slack))
    if noise is not None and declared.mechanics is not None:
        misled = declared.mechanics.leads_to(k, noise) != next_states
    return ImpossibleSteps(impossible_transitions(declared, k, next_states), unpaid, misled)


def impossible_transitions(declared: Declared, pairs: Ints, next_states: Ints) -> Bools:
    """Which transitions lead to a state that is not possible after the pair."""
    possible = declared.possible_steps
    if possible.size == 0:
        return np.zeros(len(pairs), dtype=bool)
    step = pairs * declared.space.n_states + next_states
    at = np.minimum(np.searchsorted(possible, step), possible.size - 1)
    lost: Bools = (possible[at] != step) & declared.has_successors[pairs]
    return lost
