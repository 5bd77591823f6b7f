"""Playing, one step at a time: what all agents with a learner share.

Live use goes through `begin`, `act` and `observe`. A simulator plays whole episodes on the true table and hands them
over with `absorb`. Both leave the same agent behind.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from surefooted.agents.agent import Decision
from surefooted.agents.coin import Coin
from surefooted.agents.identity import Restorable
from surefooted.agents.in_use import exclusive
from surefooted.agents.learner import Learner
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.knowledge.baseline_check import BaselineCheck
from surefooted.knowledge.mechanics import NoiseValue
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints

L = TypeVar("L", bound=Learner)


class Player(Restorable, Generic[L]):
    """Plays episodes that its subclass decides on, records its decisions, and has its learner learn."""

    unit = "run"  # what a missing step breaks
    parts = ("learner",)
    check: BaselineCheck | None = None  # of what was declared of a baseline, if the player has one

    def __init__(self, learner: L, seed: int | np.random.Generator = 0) -> None:
        self.learner, self.space = learner, learner.space
        self.coin = Coin(seed)
        self.state: int | None = None  # where the last step led
        self.decisions: list[Decision] = []

    @property
    def counts(self) -> Counts:
        """What its learner has counted."""
        return self.learner.counts

    @property
    def bounded(self) -> bool:
        """Whether every reward must lie in the range of the space."""
        return self.learner.bounded

    @property
    def contradictions(self) -> list[str]:
        """What was observed that contradicts what was declared, also of a baseline; empty while all is well."""
        return self.learner.contradictions + ([] if self.check is None else self.check.found)

    @property
    @abstractmethod
    def begun(self) -> bool:
        """Whether the first step or episode has begun."""

    def arguments(self) -> dict[str, Any]:
        """What the learner was built with, and on which space."""
        return {"learner": self.learner.arguments()}

    @abstractmethod
    def _player_state(self) -> dict[str, Any]:
        """The part of a state that every player of this kind has."""

    @abstractmethod
    def _restore_player(self, state: Mapping[str, Any]) -> None:
        """Continue from `_player_state`."""

    def _contents(self) -> dict[str, Any]:
        return self._player_state()

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._restore_player(state)

    @abstractmethod
    def current(self) -> tuple[Policy, int]:
        """The policy under way and its stage (0 if it is stationary); an error if nothing is under way."""

    @exclusive
    def act(self, s: int) -> Decision:
        """What to play in s, and why. Changes nothing: asking again gives the same answer."""
        self._catch_up()
        pair = self._pair(self.space.check_state(s))
        return replace(self.decisions[-1], action=int(self.space.pair_action[pair]))

    def _pair(self, s: int) -> int:
        """The pair that it plays in s now."""
        policy, h = self.current()
        return policy.pair_at(s, self.coin.u, h)

    def _bookmark(self) -> Callable[[], None]:
        """A function that undoes what planning changes from now on: called if planning fails."""
        return self.learner.bookmark()

    def _all_or_nothing(self, change: Callable[[], None]) -> None:
        """Make a change that is rare; if it fails, everything is as it was."""
        before = self._contents()
        try:
            change()
        except BaseException:
            self._restore(before)
            raise

    def _check_step(
        self, s: int, a: int, r: float, s_next: int, noise: NoiseValue | None
    ) -> tuple[int, float, int, Ints | None]:
        """The step as a pair, a reward, a next state and its noise [1, C]; an error if it cannot have happened."""
        asked = self.act(s).action
        pair, s_next = self.space.pair(s, a), self.space.check_state(s_next)
        if s != self.state:
            fault = f"the last step led to state {self.state}, this one begins in {s}: was there a reset?"
            raise InvalidInput(f"the {self.unit} is broken", [fault])
        if a != asked:
            fault = f"state {s}: the agent asked for action {asked}, not {a}; its proof holds only for what it asks for"
            raise InvalidInput("another action was played", [fault])
        reward = self._check_reward(s, a, r)
        return pair, reward, s_next, self.learner.belief.check_noise(pair, noise)

    def _check_steps(
        self, pairs: ArrayLike, rewards: ArrayLike, next_states: ArrayLike, noise: ArrayLike | None
    ) -> tuple[Ints, Floats, Ints, Ints | None]:
        """Steps as arrays, [n] and [n, C]; an error if they cannot have happened one after the other."""
        k, r, y = self.counts.check_steps(pairs, rewards, next_states)
        faults = [f"there is no pair {pair}" for pair in k[k >= self.space.n_pairs]]
        if not k.size:
            faults.append("there is no step")
        if self.state is None:
            faults.append("the run has not begun: tell the agent where it starts with begin(s)")
        began: list[Any] = [self.state, *y[:-1].tolist()]
        if not faults and not np.array_equal(self.space.pair_state[k], np.array(began)):
            faults.append(f"each step begins where the one before it led, the first one in state {self.state}")
        if faults:
            raise InvalidInput("these steps cannot be counted", faults)
        known = self.learner.belief.noise
        if (known is None) != (noise is None):
            raise InvalidInput("these steps cannot be counted", ["give their noise if, and only if, it is observed"])
        return k, r, y, None if known is None or noise is None else known.check(k, noise)[1]

    def _check_reward(self, s: int, a: int, r: float) -> float:
        """The reward as a float, in the user's unit; an error if it is no number or outside the range of rewards."""
        if isinstance(r, str):
            fault = f"state {s}, action {a}: reward {r!r} is a text"
            raise InvalidInput("this step cannot be counted", [fault], "Give a number, with a decimal point.")
        try:
            reward = float(r)
        except (TypeError, ValueError):
            reward = float("nan")
        money = self.space.money
        if not np.isfinite(reward) or (self.bounded and not money.contains(reward)):
            limit = money.words if self.bounded else "the finite numbers"
            fault = f"state {s}, action {a}: reward {r} is outside {limit}"
            raise InvalidInput("this step cannot be counted", [fault], money.hint if np.isfinite(reward) else "")
        return reward
