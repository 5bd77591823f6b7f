"""The random numbers of an agent."""

from typing import Any, Self

import numpy as np

from surefooted.arrays import Floats


class Coin:
    """Uniforms that pick the actions of a randomised policy: `u` picks the next one, and stays until it is used.

    One step of a randomised policy uses one uniform, whether it is played live or by a simulator, so that both give the
    same run.
    """

    def __init__(self, seed: int | np.random.Generator) -> None:
        self._rng = np.random.default_rng(seed)
        self.u = float(self._rng.random())

    def ahead(self, n: int) -> Floats:
        """The uniforms of the next n steps, [n]; none of them is used up."""
        before = self._rng.bit_generator.state
        after = self._rng.random(n)
        self._rng.bit_generator.state = before
        return np.concatenate([[self.u], after[:-1]])

    def use(self, n: int) -> None:
        """Use up the uniforms of n steps."""
        if n > 0:
            self.u = float(self._rng.random(n)[-1])

    def state_dict(self) -> dict[str, Any]:
        """What `restored` continues from."""
        return {"generator": self._rng.bit_generator.state, "u": self.u}

    def restored(self, state: dict[str, Any]) -> Self:
        """A coin of the same kind that continues from a saved state."""
        coin = type(self)(np.random.Generator(type(self._rng.bit_generator)()))
        coin._rng.bit_generator.state = state["generator"]
        coin.u = state["u"]
        return coin
