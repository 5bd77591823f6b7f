"""The random numbers of episodes, drawn in blocks: passing a generator costs more than playing an episode."""

import numpy as np

from surefooted.kernels import playing
from surefooted.kernels.structs import GAUSSIAN, NO_NOISE, TRUNCATED_GAUSSIAN
from surefooted.tables.space import Floats

BLOCK = 1 << 14  # numbers drawn at a time, or those of one episode


class Draws:
    """What picks the next state and the reward of each step, in the order in which `TabularMDP.draw` draws it."""

    def __init__(self, rng: np.random.Generator, noise: int, horizon: int, episodes: int) -> None:
        width = 1 if noise == NO_NOISE else 2
        self._rng, self._noise, self._to_come = rng, noise, episodes
        self._shape = (max(1, BLOCK // (horizon * width)), horizon, width)
        self._block, self._used = np.empty((0, horizon, width)), 0

    @property
    def left(self) -> int:
        """For how many episodes numbers are there, at least one; nothing is used up."""
        if self._used == len(self._block):
            self._used = 0
            self._block = self._drawn((max(1, min(self._shape[0], self._to_come)), *self._shape[1:]))
        return len(self._block) - self._used

    def ahead(self) -> Floats:
        """The numbers of the next `left` episodes, [n, H, 1 or 2]; none of them is used up."""
        left = self.left
        return self._block[len(self._block) - left :]

    def use(self, n: int) -> None:
        """Use up the numbers of n episodes, which are there."""
        self._used += n
        self._to_come -= n

    def _drawn(self, shape: tuple[int, ...]) -> Floats:
        """New numbers."""
        if self._noise not in (GAUSSIAN, TRUNCATED_GAUSSIAN):
            return self._rng.random(shape)
        block = np.empty(shape)
        playing.draw_steps(self._rng, self._noise, block.reshape(-1, 2))
        return block
