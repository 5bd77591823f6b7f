"""What all agents share that choose among the same arms in every round: intervals for the means, and their checks.

Rewards are counted from `low` (`tables.money`). A subclass says which arm it plays (`act`), and what else it remembers.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from surefooted.agents.agent import Decision
from surefooted.agents.identity import Restorable
from surefooted.agents.in_use import exclusive
from surefooted.arrays import as_whole, is_whole
from surefooted.bandits._decide import bandit_tolerance
from surefooted.certificates.shares import delta_faults, share
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.knowledge.baseline_check import BaselineCheck
from surefooted.sets.confidence import Confidence, named, simplified_bernstein
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.money import Money
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Space


class Rewards(NamedTuple):
    """The range and unit of rewards, as an agent is given them."""

    r_max: float | None
    rewards: tuple[float, float] | None
    unit: str


class ArmsPlayer(Restorable):
    """Counts rewards of arms, bounds their means, and compares the baseline with what was declared of it.

    - `n_arms`, `baseline`, `baseline_mean`, `confidence`, `delta`: as for `ConservativeUCB`.
    - `amounts`: alpha, tolerance, allowance, floor and checkpoints, as far as the agent has them.
    - `money`: the range and unit of rewards.
    - `pooled`: whether half of `delta` is for a bound from all rewards.
    """

    def __init__(
        self,
        n_arms: int,
        baseline: int,
        baseline_mean: float | None,
        confidence: Confidence | str,
        delta: float,
        amounts: dict[str, Any],
        money: Rewards,
        pooled: bool = False,
    ) -> None:
        faults = [] if is_whole(n_arms, 1) else [f"n_arms {n_arms} must be a positive whole number"]
        if not faults and not (is_whole(baseline, 0) and baseline < n_arms):
            faults.append(f"baseline {baseline}: the arms are 0 to {n_arms - 1}")
        may_lose = bandit_tolerance(faults=faults, **amounts)
        faults += delta_faults(delta)
        known = len(faults)
        range_ = Money.parse(*money, faults)
        if baseline_mean is not None and len(faults) == known and not range_.low <= baseline_mean <= range_.high:
            faults.append(f"baseline_mean {baseline_mean} is outside {range_.words}")
        faults += may_lose.gain_faults(baseline_mean, range_) if may_lose.alpha < 1 and not faults else []
        if faults:
            raise InvalidInput("this agent cannot be built", faults)
        self.tolerance, self.alpha, self.delta, self.confidence = may_lose, may_lose.alpha, delta, named(confidence)
        self.n_arms, self.baseline, self.baseline_mean = int(n_arms), as_whole(baseline), baseline_mean
        space = Space.full(n_states=1, n_actions=self.n_arms, rewards=(range_.low, range_.high), unit=range_.unit)
        self.space = space
        self.counts = Counts(space)
        bias = None if baseline_mean is None else np.zeros(1)
        told = Baseline(Policy.always(space, self.baseline), gain=baseline_mean, bias=bias)
        self.check = BaselineCheck(told, delta)
        self.shares = share(delta, None, by_set=True, by_outcomes=pooled)

    @property
    def t(self) -> int:
        """Rounds played."""
        return self.counts.total

    @abstractmethod
    def act(self) -> Decision:
        """What to play now; asking again gives the same answer."""

    @exclusive
    def observe(self, arm: int, reward: float) -> None:
        """Learn the reward of the arm that `act` asked for; another arm or an impossible reward is refused.

        If the round is counted and comparing it with what was declared fails, observing it again counts nothing.
        """
        if self._catch_up((arm, reward)):
            return
        asked = self.act().action
        if arm != asked:
            fault = f"the agent asked for arm {asked}, not {arm}; what it proves holds only for what it asks"
            raise InvalidInput("another arm was played", [fault])
        bounds = self._bounds()
        pair = np.array([self.counts.space.pair(0, asked)])
        earned, nowhere = np.array([reward], dtype=np.float64), np.zeros(1, dtype=np.int64)
        self.counts.check_steps(pair, earned, nowhere)
        counted = self.space.money.counted(earned)
        self._halfway = True
        self.counts._add_checked(pair, counted, nowhere)
        self._learn(asked, float(counted[0]), *bounds)
        self.check.add(0, pair, counted, nowhere, np.array([asked != self.baseline]))
        self._halfway, self._owed = False, (arm, reward)
        self._catch_up()

    def _learn(self, arm: int, reward: float, lower: Floats, upper: Floats) -> None:
        """An arm was played and counted; the bounds are those from before its reward was known."""

    def _finish(self) -> None:
        self.check.compare(self._valid, self.t)

    @property
    def contradictions(self) -> list[str]:
        """What the baseline earned that contradicts `baseline_mean`; then it is played for ever."""
        return self.check.found.copy()

    def _valid(self) -> Plausible | None:
        """The intervals of all arms, if they are valid."""
        return None if self.confidence is simplified_bernstein else self.confidence(self.counts, self.shares.of_set)

    def bounds(self) -> tuple[Floats, Floats]:
        """λ and θ, [n]: a lower and an upper bound on the mean of each arm."""
        lower, upper = self._bounds()
        return self.space.money.earned(lower), self.space.money.earned(upper)

    def _bounds(self) -> tuple[Floats, Floats]:
        """The same, counted from `low`."""
        plausible = self.confidence(self.counts, self.shares.of_set)
        lower, upper = plausible.r_lower.copy(), plausible.r_upper.copy()
        if self.baseline_mean is not None:
            lower[self.baseline] = upper[self.baseline] = self.space.money.counted(self.baseline_mean)
        return lower, upper

    def arguments(self) -> dict[str, Any]:
        """What it was built with."""
        names = ("n_arms", "baseline", "baseline_mean", "delta", "confidence", "space")
        return {name: getattr(self, name) for name in names} | self.tolerance.shows

    def _contents(self) -> dict[str, Any]:
        return {"counts": self.counts.state_dict(), "check": self.check.state_dict()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.counts = Counts.from_state_dict(self.counts.space, state["counts"])
        self.check = self.check.restored(state["check"])
