"""The noise of simulated steps, told to agents whose mechanics observe it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from surefooted.agents.player import Player
from surefooted.errors import InvalidInput
from surefooted.knowledge.mechanics import Mechanics
from surefooted.tables.space import Floats, Ints

BRANCH = 77  # of the seed, from which the noise is drawn

Teller = Callable[[Ints, Ints], Ints | None]


def noise_teller(
    agent: Player[Any], mechanics: Mechanics | None, laws: Sequence[Floats], seed: int | np.random.SeedSequence
) -> Teller:
    """A function of pairs [n] and next states [n] that draws the noise [n, C] of these steps, or None if none is told.

    `mechanics` and `laws` are the true ones. The next states were drawn before, so that the noise is drawn given them.
    """
    told = agent.learner.belief.noise
    if told is None:
        return lambda pairs, next_states: None
    declared = told.mechanics
    if mechanics is None or not laws:
        fault = "its mechanics observe their noise, and the problem has no mechanics and laws to draw it from"
        raise InvalidInput("agent and problem do not fit", [fault])
    if mechanics.sizes != declared.sizes or not np.array_equal(mechanics.law, declared.law):
        fault = f"its noise has laws of sizes {declared.sizes}, the problem's {mechanics.sizes}, or they differ by pair"
        raise InvalidInput("agent and problem do not fit", [fault])
    true = mechanics
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    rng = np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, BRANCH)))
    return lambda pairs, next_states: true.draw_noise(laws, pairs, next_states, rng)
