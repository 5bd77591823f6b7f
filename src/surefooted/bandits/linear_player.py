"""What all agents share that choose among new arms in every round, with a mean that is linear in the arms' features.

A subclass says which arm it plays (`act`, which sets `asked`), and what else it remembers.
"""

from collections.abc import Mapping
from copy import copy
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from surefooted.agents.identity import Restorable
from surefooted.agents.in_use import exclusive
from surefooted.arrays import as_whole, is_whole, real_numbers
from surefooted.bandits._decide import bandit_tolerance
from surefooted.bandits.ellipsoid import Ellipsoid
from surefooted.bandits.mean_check import MeanCheck
from surefooted.certificates.shares import share
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.tables.money import Money
from surefooted.tables.space import Floats

LARGEST = 1e6  # the largest |φ|² / λ; beyond it, λ is lost in the rounding of V


class Round(Protocol):
    """The round that `observe` will be about."""

    phi: Floats  # [d], of the arm to play
    learns: bool  # whether the ellipsoid learns its reward
    explores: bool  # whether another arm than the baseline is played
    declared: float | None  # the mean of the baseline, if it was declared


class LinearPlayer(Restorable):
    """Learns the parameter of a linear model, and compares the baseline with what was declared of it.

    - `dimension`, `sigma`, `bound`, `lambda_`, `delta`, `unit`: as for `ConservativeLinearUCB`.
    - `amounts`: alpha, tolerance, allowance, floor and checkpoints, as far as the agent has them.
    - `pooled`: whether half of `delta` is for a bound from all rewards.
    - `faults`: what is wrong with other arguments.
    """

    parts = ("ellipsoid",)
    asked: Any = None  # a `Round`, by `act`

    def __init__(
        self,
        dimension: int,
        model: dict[str, float],
        delta: float,
        amounts: dict[str, Any],
        unit: str,
        pooled: bool = False,
        faults: tuple[str, ...] = (),
    ) -> None:
        found: list[str] = []
        may_lose = bandit_tolerance(faults=found, **amounts)
        if not isinstance(unit, str):
            found.append(f'unit must be a text such as "€", not {unit!r}')
        found += faults
        try:
            of_set = share(delta, None, by_set=True, by_outcomes=pooled).of_set if 0 < delta < 1 else delta
            self.ellipsoid = Ellipsoid(dimension, **model, delta=of_set)
        except InvalidInput as error:
            found += error.faults
        if found:
            raise InvalidInput("this agent cannot be built", found)
        self.tolerance, self.money = may_lose, Money(unit=unit)
        self.alpha, self.delta, self.pooled = may_lose.alpha, delta, pooled
        self.t = 0  # rounds played
        self.check = MeanCheck(self.ellipsoid.sigma, self.ellipsoid.bound, delta, self.money)

    @property
    def dimension(self) -> int:
        """The length of a feature vector, d."""
        return self.ellipsoid.dimension

    @property
    def contradictions(self) -> list[str]:
        """What the baseline earned that contradicts its declared means; then it is played for ever."""
        return self.check.found.copy()

    @exclusive
    def observe(self, reward: float) -> None:
        """Learn the reward of the arm that `act` asked for; a reward that is not finite is refused."""
        if self.asked is None:
            raise SurefootedError("there is no round to observe: show the arms with act(features, baseline)")
        if not np.isfinite(reward):
            raise InvalidInput("this round cannot be counted", [f"reward {reward} is not finite"])
        after = copy(self)  # an error on the way changes nothing
        after.ellipsoid, after.check = copy(self.ellipsoid), copy(self.check)
        after._count(self.asked, float(reward))
        self.ellipsoid.__dict__.update(after.ellipsoid.__dict__)
        self.__dict__.update(after.__dict__ | {"ellipsoid": self.ellipsoid})

    def _count(self, asked: Any, reward: float) -> None:
        """Learn the reward of a round: replace what it changes."""
        if asked.learns:
            self.ellipsoid.add(asked.phi, reward)
        if asked.declared is not None:
            self.check.add(None if asked.explores else reward, asked.declared)
        self.t, self.asked = self.t + 1, None

    def _checked(self, features: ArrayLike, baseline: int, baseline_mean: float | None) -> tuple[Floats, int]:
        """The features as an array and the baseline as an int, or every fault of the round."""
        faults: list[str] = []
        phi = real_numbers("features", features, faults)
        if not faults and (phi.ndim != 2 or phi.shape[0] == 0 or phi.shape[1] != self.dimension):
            faults.append(f"features have shape {phi.shape}; they must be [n, {self.dimension}] with an arm at least")
        elif not faults:
            bad = ~(np.abs(phi).max(axis=1) <= np.sqrt(LARGEST * self.ellipsoid.lambda_ / self.dimension))
            faults += [
                f"arm {i}: its features are not finite, or too large for this lambda_" for i in np.flatnonzero(bad)
            ]
            if not (is_whole(baseline, 0) and baseline < len(phi)):
                faults.append(f"baseline {baseline}: the arms are 0 to {len(phi) - 1}")
        if baseline_mean is not None and not np.isfinite(baseline_mean):
            faults.append(f"baseline_mean {baseline_mean} must be finite")
        elif baseline_mean is not None and baseline_mean < self.tolerance.floor and self.alpha == 1:
            faults.append(f"baseline_mean {baseline_mean} is below the floor, where alpha = 1 proves nothing")
        faults += self._mean_faults(baseline_mean)
        if faults:
            raise InvalidInput("this round cannot be played", faults)
        return phi, as_whole(baseline)

    def _mean_faults(self, baseline_mean: float | None) -> list[str]:
        """What else is wrong with a declared mean, or with none."""
        return []

    def arguments(self) -> dict[str, Any]:
        """What it was built with."""
        of_set = {name: getattr(self.ellipsoid, name) for name in ("dimension", "sigma", "bound", "lambda_")}
        return of_set | {"delta": self.delta} | self.tolerance.shows | {"unit": self.money.unit}

    def _contents(self) -> dict[str, Any]:
        own = {"t": self.t, "asked": self.asked, "check": self.check.state_dict()}
        return {"ellipsoid": self.ellipsoid.state_dict()} | own

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.ellipsoid.load_state_dict(state["ellipsoid"])
        self.t, self.asked, self.check = state["t"], state["asked"], self.check.restored(state["check"])
