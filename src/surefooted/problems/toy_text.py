"""Gymnasium's toy-text environments as tables of problems: their own model, without what a run never reaches."""

from dataclasses import replace
from typing import Any

import numpy as np

from surefooted.tables.mdp import TabularMDP
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Ints
from surefooted.tables.toy_text import table


def restarting(env: Any, noise: Noise | None, unit: str | None) -> tuple[TabularMDP, Ints]:
    """The table for average reward, where a terminated step leads to the first state of a new episode.

    Its states are those that a run can be in. The second answer is the number of each of them in the environment, [S].
    """
    mdp = table(env.P, "restart", env.initial_state_distrib, unit=unit or "")
    reached = np.asarray(env.initial_state_distrib) > 0
    owner = np.repeat(mdp.space.pair_state, np.diff(mdp.next_ptr))  # [nnz]
    while True:
        grown = reached.copy()
        grown[mdp.next_state[reached[owner]]] = True
        if np.array_equal(grown, reached):
            break
        reached = grown
    states = np.flatnonzero(reached)
    number = np.full(mdp.n_states, -1)
    number[states] = np.arange(states.size)
    pair = np.repeat(np.arange(mdp.space.n_pairs), np.diff(mdp.next_ptr))
    inside = reached[owner]
    columns = (number[owner], mdp.space.pair_action[pair], number[mdp.next_state], mdp.p, mdp.r[pair])
    state, action, after, mass, reward = (column[inside] for column in columns)
    space: Any = {"rewards": (mdp.space.low, mdp.space.high), "unit": unit or ""}
    return _finished(TabularMDP.from_transitions(state, action, after, mass, reward, noise, **space), unit), states


def absorbing(env: Any, noise: Noise | None, unit: str | None) -> TabularMDP:
    """The table for a finite horizon: after a terminated step nothing more is earned.

    States have the environment's numbers; one more, where a finished episode stays, is added if there is none.
    """
    mdp = table(env.P, "absorb", unit=unit or "")
    return _finished(replace(mdp, noise=noise) if noise is not None else mdp, unit)


def _finished(mdp: TabularMDP, unit: str | None) -> TabularMDP:
    return mdp if unit is not None else mdp.normalised()
