"""Taxi: fetch a passenger and bring them where they want to go (Dietterich 2000; Taxi-v4)."""

from typing import Any

import numpy as np

from surefooted.problems.baselines import chosen, nearest
from surefooted.problems.problem import Problem
from surefooted.problems.toy_text import restarting
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise

PLACES = ("red", "green", "yellow", "blue", "taxi")
ACTIONS = ("↓", "↑", "→", "←", "pick up", "drop off")


def taxi(
    *,
    rainy: bool = False,
    baseline: str = "direct",
    random_share: float = 0.2,
    noise: Noise | None = None,
    unit: str | None = None,
) -> Problem:
    """Endless rides on 5 × 5 cells: −1 a step, −10 for a wrong pick-up or drop-off, 20 for a delivery.

    >>> import surefooted as sf
    >>> sf.problems.taxi().mdp.n_states  # of Gymnasium's 500, those that a run can be in
    400

    - `rainy`: a move goes where it should with probability 0.8, and to either side with 0.1 each.
    - `baseline`: "direct" (the shortest rides) or "random".
    - `random_share`: the probability that the baseline plays an action at random: its quality.
    - `noise`: reward noise, by default none.
    - `unit`: None: rewards are mapped to [0, 1]. A unit such as "€": they are in that unit, as they are.

    After a delivery, the next passenger waits where `initial_state_distrib` says. The problem has average reward.
    """
    from gymnasium.envs.toy_text.taxi import TaxiEnv

    env: Any = TaxiEnv(is_rainy=rainy)
    dry = env if not rainy else TaxiEnv()
    mdp, states = restarting(env, noise, unit)
    onward = np.array([[dry.P[s][a][0][1] for a in range(len(ACTIONS))] for s in range(len(dry.P))])
    delivers = np.array([[dry.P[s][a][0][3] for a in range(len(ACTIONS))] for s in range(len(dry.P))])
    goal = np.zeros(len(onward), dtype=bool)
    goal[onward[delivers]] = True
    ways = nearest(onward, goal, np.ones(goal.size, dtype=bool))
    policies = {
        "direct": Policy.randomised(mdp.space, ways[states]),
        "random": Policy.uniform(mdp.space),
    }
    return Problem(
        name="taxi",
        mdp=mdp,
        baseline=chosen("taxi", policies, baseline, random_share),
        start=int(np.flatnonzero(np.asarray(env.initial_state_distrib)[states] > 0)[0]),
        state_labels=tuple(_label(*env.decode(int(s))) for s in states),
        action_labels=ACTIONS,
    )


def _label(row: int, column: int, passenger: int, destination: int) -> str:
    return f"({row},{column}) {PLACES[passenger]} to {PLACES[destination]}"
