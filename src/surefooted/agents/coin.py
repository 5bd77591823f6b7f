"""The random numbers of an agent."""

from typing import Any, Self

import numpy as np

from surefooted.arrays import Floats, like


class Coin:
    """Uniforms that pick the actions of a randomised policy: `u` picks the next one, and stays until it is used.

    One step of a randomised policy uses one uniform, whether it is played live or by a simulator, so that both give the
    same run.
    """

    def __init__(self, seed: int | np.random.Generator) -> None:
        self._rng = np.random.default_rng(seed)
        self._unused = self._rng.random(1)  # uniforms that were drawn and not used: at least one

    @property
    def u(self) -> float:
        """The uniform of the next step."""
        return float(self._unused[0])

    def ahead(self, n: int) -> Floats:
        """The uniforms of the next n steps, [n]; none of them is used up."""
        missing = n + 1 - len(self._unused)
        if missing > 0:
            self._unused = np.concatenate([self._unused, self._rng.random(missing)])
        return self._unused[:n]

    def use(self, n: int) -> None:
        """Use up the uniforms of n steps."""
        self.ahead(n)
        self._unused = self._unused[n:]

    def state_dict(self) -> dict[str, Any]:
        """What `restored` continues from."""
        return {"generator": self._rng.bit_generator.state, "unused": self._unused.copy()}

    def restored(self, state: dict[str, Any]) -> Self:
        """A coin of the same kind that continues from a saved state."""
        coin = type(self)(np.random.Generator(type(self._rng.bit_generator)()))
        coin._rng.bit_generator.state = state["generator"]
        coin._unused = like("unused", state["unused"], np.zeros(max(len(state["unused"]), 1)), 0, 1)
        return coin
