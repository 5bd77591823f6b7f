"""A toy-text environment's own model, `env.unwrapped.P`, as an exact table."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import SUM_TOLERANCE
from surefooted.errors import InvalidInput
from surefooted.tables.mdp import TabularMDP

Row = Sequence[tuple[float, int, float, bool]]


def table(
    p: Mapping[int, Mapping[int, Row]],
    termination: Literal["absorb", "restart"] = "absorb",
    initial: ArrayLike | None = None,
    reward_range: tuple[float, float] | None = None,
) -> TabularMDP:
    """The table of `P[s][a] = [(probability, s_next, reward, terminated), …]`.

    A terminated transition ends the episode. With "absorb" (finite horizon) it leads to a state where nothing more is
    earned: to s_next itself if that is such a state, otherwise to one more state, the last. With "restart" (average
    reward) it leads to the `initial` distribution [S], `env.unwrapped.initial_state_distrib`.

    Rewards are mapped from `reward_range` to [0, 1], by default from their own range, the 0 of a finished episode
    included; `reward_offset + reward_scale * r` is the environment's reward again.
    """
    transitions = [(s, a, *entry) for s, actions in p.items() for a, row in actions.items() for entry in row]
    if not transitions:
        raise InvalidInput("this P is not valid", ["it has no transition"])
    if any(len(entry) != 6 for entry in transitions):
        raise InvalidInput("this P is not valid", ["each entry must be (probability, next state, reward, terminated)"])
    columns = [np.array(column) for column in zip(*transitions, strict=True)]
    state, action, mass, next_state, reward, terminated = columns
    terminated = terminated.astype(bool)
    n_states = max(p) + 1
    rewards = set(reward[mass != 0].tolist())
    if termination == "restart":
        state, action, next_state, mass, reward = _restart(columns[:5], terminated, initial, n_states)
    elif terminated.any():
        rewards.add(0.0)
        done = set(np.flatnonzero([_is_final(p[s], s) for s in range(n_states)]).tolist())
        homeless = terminated & ~np.isin(next_state, list(done))
        if homeless.any():
            next_state = np.where(homeless, n_states, next_state)
            n_actions = int(action.max()) + 1
            state = np.append(state, np.full(n_actions, n_states))
            action = np.append(action, np.arange(n_actions))
            next_state = np.append(next_state, np.full(n_actions, n_states))
            mass, reward = np.append(mass, np.ones(n_actions)), np.append(reward, np.zeros(n_actions))
            n_states += 1
    if reward_range is None:
        low, high = min(rewards), max(rewards)
        reward_range = (low, high if high > low else low + 1.0)
    return TabularMDP.from_transitions(
        state, action, next_state, mass, reward, n_states=n_states, reward_range=reward_range
    )


def _is_final(actions: Mapping[int, Row], s: int) -> bool:
    """Whether nothing more happens in s: every action stays and earns nothing."""
    return all(y == s and reward == 0 for row in actions.values() for q, y, reward, _ in row if q > 0)


def _restart(columns: list[Any], terminated: Any, initial: ArrayLike | None, n_states: int) -> tuple[Any, ...]:
    """The transitions with every terminated one spread over the initial distribution."""
    if initial is None:
        fault = "termination='restart' needs `initial`, the distribution of the first state (initial_state_distrib)"
        raise InvalidInput("this P is not valid", [fault])
    start = np.asarray(initial, dtype=np.float64)
    if start.shape != (n_states,) or not np.all(start >= 0) or abs(start.sum() - 1) > SUM_TOLERANCE:
        raise InvalidInput("this P is not valid", [f"`initial` must be a distribution over {n_states} states"])
    state, action, mass, next_state, reward = columns
    ends, starts = np.flatnonzero(terminated), np.flatnonzero(start)
    again = np.repeat(ends, starts.size)
    return (
        np.append(state[~terminated], state[again]),
        np.append(action[~terminated], action[again]),
        np.append(next_state[~terminated], np.tile(starts, ends.size)),
        np.append(mass[~terminated], mass[again] * np.tile(start[starts], ends.size)),
        np.append(reward[~terminated], reward[again]),
    )
