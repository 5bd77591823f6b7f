"""The model of a toy-text environment, `env.unwrapped.P`, as an exact table."""

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
    rewards: tuple[float, float] | None = None,
    unit: str = "",
) -> TabularMDP:
    """The table of `P[s][a] = [(probability, s_next, reward, terminated), …]`.

    >>> import gymnasium, surefooted as sf
    >>> lake = gymnasium.make("FrozenLake-v1").unwrapped
    >>> sf.gym.table(lake.P)
    TabularMDP(n_states=16, n_pairs=64, nnz=148)

    - `p`: the model.
    - `termination`: where a terminated transition leads. "absorb", for a finite horizon: to a state where nothing more
      is earned. This is s_next, if it is such a state, and otherwise one more state, the last. "restart", for average
      reward: to the initial distribution.
    - `initial`: the initial distribution [S] for "restart", which is `env.unwrapped.initial_state_distrib`.
    - `rewards`, `unit`: the range (low, high) of the rewards and their unit. The default is their own range, including
      the 0 of a finished episode. Rewards stay as they are.
    """
    if not isinstance(p, Mapping) or not all(isinstance(actions, Mapping) for actions in p.values()):
        model = getattr(getattr(p, "unwrapped", None), "P", None)
        fault = f"it is {type(p).__name__}, not the model P[s][a] = [(probability, next state, reward, terminated), …]"
        remedy = "Give the model of the environment: sf.gym.table(env.unwrapped.P)."
        if model is None:
            remedy = "An environment without a model `env.unwrapped.P` is played through sf.gym.Bridge(env)."
        raise InvalidInput("this P is not valid", [fault], remedy)
    transitions = [(s, a, *entry) for s, actions in p.items() for a, row in actions.items() for entry in row]
    if not transitions:
        raise InvalidInput("this P is not valid", ["it has no transition"])
    if any(len(entry) != 6 for entry in transitions):
        raise InvalidInput("this P is not valid", ["each entry must be (probability, next state, reward, terminated)"])
    columns = [np.array(column) for column in zip(*transitions, strict=True)]
    state, action, mass, next_state, reward, terminated = columns
    terminated = terminated.astype(bool)
    n_states = max(p) + 1
    seen = set(reward[mass != 0].tolist())
    if termination == "restart":
        state, action, next_state, mass, reward = _restart(columns[:5], terminated, initial, n_states)
    elif terminated.any():
        seen.add(0.0)
        done = set(np.flatnonzero([_is_final(p[s], s) for s in range(n_states)]).tolist())
        ending = terminated & ~np.isin(next_state, list(done))
        if ending.any():
            next_state = np.where(ending, n_states, next_state)
            n_actions = int(action.max()) + 1
            state = np.append(state, np.full(n_actions, n_states))
            action = np.append(action, np.arange(n_actions))
            next_state = np.append(next_state, np.full(n_actions, n_states))
            mass, reward = np.append(mass, np.ones(n_actions)), np.append(reward, np.zeros(n_actions))
            n_states += 1
    if rewards is None:
        low, high = min(seen), max(seen)
        rewards = (low, high if high > low else low + 1.0)
    options: dict[str, Any] = {"n_states": n_states, "rewards": rewards, "unit": unit}
    return TabularMDP.from_transitions(state, action, next_state, mass, reward, **options)


def _is_final(actions: Mapping[int, Row], s: int) -> bool:
    """Whether every action stays in s and earns nothing."""
    return all(y == s and reward == 0 for row in actions.values() for q, y, reward, _ in row if q > 0)


def _restart(columns: list[Any], terminated: Any, initial: ArrayLike | None, n_states: int) -> tuple[Any, ...]:
    """The transitions, with each terminated one leading to the initial distribution."""
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
