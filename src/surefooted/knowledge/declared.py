"""What was declared of an MDP, as arrays over its pairs."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from surefooted.arrays import Bools, Floats, FrozenArrays, Ints, freeze
from surefooted.kernels.rewards import ESTIMATED, FUNCTION, MEAN, KnownRewards, Levels
from surefooted.kernels.successors import Successors
from surefooted.knowledge.mechanics import Mechanics
from surefooted.tables.space import Space


@dataclass(frozen=True, eq=False)
class Declared(FrozenArrays):
    """What was declared, once it is known to be valid; None stands for what was left open.

    Rewards are counted from the `low` of the space (`tables.money`), except those of the mechanics.

    Pair k has declared successors if `has_successors[k]`: successor_state[successor_ptr[k] : successor_ptr[k + 1]],
    increasing. Mechanics declare the successors of all pairs, and have them in their own index.
    """

    space: Space
    reward_mean: Floats | None  # [K]
    reward_low: Floats | None  # [K]
    reward_high: Floats | None  # [K]
    has_successors: Bools  # [K]
    successor_ptr: Ints  # [K + 1]
    successor_state: Ints  # [nnz]
    reward_of_next: Floats | None  # [nnz]: r(s, a, s')
    mechanics: Mechanics | None

    def __post_init__(self) -> None:
        """Freeze the arrays; kernels get copies, since they are compiled for arrays that can be written."""
        rewards = (self.reward_mean, self.reward_low, self.reward_high, self.reward_of_next)
        arrays = (self.has_successors, self.successor_ptr, self.successor_state, *rewards)
        freeze(*(array for array in arrays if array is not None))

    @cached_property
    def n_row_intervals(self) -> int:
        """How many intervals the rows need: one for each event of the noise, or for each successor (of one stage).

        One possible successor needs no interval. Two need only one, since their probabilities sum to 1.
        """
        if self.mechanics is not None:
            return self.mechanics.index.n_intervals
        sizes = np.where(self.has_successors, np.diff(self.successor_ptr), self.space.n_states)
        return int(np.where(self.has_successors & (sizes <= 2), sizes - 1, sizes).sum())

    @cached_property
    def possible_steps(self) -> Ints:
        """The number k S + y of each step from pair k to state y that is possible, increasing; of declared pairs."""
        ptr, state = self.successor_ptr, self.successor_state
        if self.mechanics is not None:
            ptr, state = self.mechanics.index.cells
        return np.repeat(np.arange(ptr.size - 1), np.diff(ptr)) * self.space.n_states + state

    @cached_property
    def successors(self) -> Successors:
        """The declared successors as kernels take them."""
        return Successors(self.has_successors.copy(), self.successor_ptr.copy(), self.successor_state.copy())

    @cached_property
    def rewards(self) -> KnownRewards:
        """What was declared of rewards, as kernels take it."""
        space, K = self.space, self.space.n_pairs
        what, mean = ESTIMATED, np.zeros(K)
        levels = Levels(np.zeros(K + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
        if self.reward_mean is not None:
            what, mean = MEAN, self.reward_mean.copy()
        elif self.reward_of_next is not None:
            pair = np.repeat(np.arange(K), np.diff(self.successor_ptr))
            order = np.lexsort((self.reward_of_next, pair))
            what, levels = FUNCTION, Levels(self.successor_ptr.copy(), order, self.reward_of_next[order])
        elif self.mechanics is not None and self.mechanics.reward is not None:
            what, levels = FUNCTION, self.mechanics.index.levels
        low = np.zeros(K) if self.reward_low is None else self.reward_low.copy()
        high = np.full(K, space.r_max) if self.reward_high is None else self.reward_high.copy()
        ends = (space.r_max, space.money.slack)
        return KnownRewards(what, self.reward_low is not None, low, high, mean, levels, *ends)
