"""A guard: any bandit algorithm proposes an arm, which is played if a condition allows it, and else the baseline.

The algorithm is a black box. It has `act` and `observe`, as `ConservativeUCB` has them if the arms are the same in
every round, or as `ConservativeLinearUCB` has them if each round shows features. It is told the rewards of the rounds
in which it was obeyed, and knows nothing of the others. Safety never depends on what it proposes.
"""

from abc import abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from surefooted.agents.adopted import SAVES_NOTHING
from surefooted.agents.agent import Decision, Role
from surefooted.agents.identity import Restorable
from surefooted.agents.in_use import exclusive
from surefooted.arrays import as_whole, is_whole
from surefooted.bandits._decide import bandit_tolerance, keep_to_baseline, spot_check
from surefooted.bandits.mean_check import MeanCheck
from surefooted.certificates.shares import delta_faults
from surefooted.codec import record
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.tables.money import Money


def proposal(learner: Any, n_arms: int, *shown: Any, **named: Any) -> int:
    """The arm that any algorithm proposes: its `act` returns a Decision, or the number of an arm."""
    said = learner.act(*shown, **named)
    arm = getattr(said, "action", said)
    if not is_whole(arm, 0) or arm >= n_arms:
        fault = f"{type(learner).__name__} proposes {said!r}; the arms are 0 to {n_arms - 1}"
        raise InvalidInput("this arm cannot be played", [fault])
    return int(as_whole(arm))


def known_of(learner: Any) -> dict[str, Any]:
    """What is known of an algorithm, for `Restorable.arguments`."""
    own = learner.arguments() if callable(getattr(learner, "arguments", None)) else {}
    return {"class": type(learner).__qualname__} | own


def state_of(learner: Any) -> Any:
    """The state of an algorithm, if it can be saved."""
    if not callable(getattr(learner, "state_dict", None)):
        raise SurefootedError(SAVES_NOTHING.format(type(learner).__name__))
    return learner.state_dict()


def restored_learner(learner: Any, state: Any) -> Any:
    """A copy of an algorithm with that state: a state that is refused later changes nothing."""
    other = deepcopy(learner)
    other.load_state_dict(state)
    return other


@record
class Guarded(NamedTuple):
    """The round that `observe` will be about."""

    arm: int
    obeys: bool  # whether the algorithm proposed this arm
    explores: bool  # whether it is another arm than the baseline
    mean: float  # of the baseline


class Guard(Restorable):
    """Plays what `learner` proposes where the condition of a subclass allows it.

    - `learner`: the algorithm.
    - `baseline_mean`: the mean of the baseline; None if each round shows features, and tells it to `act`.
    - `amounts`: alpha, tolerance, allowance, floor and checkpoints.
    - `sigma`: the rewards of the baseline are σ-sub-Gaussian around its mean.
    - `faults`: what is wrong with other arguments.
    """

    def __init__(
        self,
        learner: Any,
        baseline_mean: float | None,
        amounts: dict[str, Any],
        sigma: float,
        delta: float,
        unit: str,
        faults: list[str],
    ) -> None:
        found = [f"{type(learner).__name__} has no {name}" for name in ("act", "observe") if not hasattr(learner, name)]
        is_linear = hasattr(learner, "dimension")
        may_lose = bandit_tolerance(faults=found, **amounts)
        found += delta_faults(delta)
        if not isinstance(unit, str):
            found.append(f'unit must be a text such as "€", not {unit!r}')
        if not (np.isfinite(sigma) and sigma >= 0):
            found.append(f"sigma {sigma} must be finite and not negative")
        money = Money(unit=unit if isinstance(unit, str) else "")
        if is_linear and baseline_mean is not None:
            found.append("baseline_mean: this learner plays rounds with features; tell the mean of each round to `act`")
        elif not is_linear and (baseline_mean is None or not np.isfinite(baseline_mean)):
            found.append(f"baseline_mean {baseline_mean} must be finite: the mean of the baseline must be known")
        elif may_lose.alpha < 1 and not found:
            found += may_lose.gain_faults(baseline_mean, money)
        if found := found + faults:
            raise InvalidInput("this agent cannot be built", found)
        self.learner, self.tolerance, self.money = learner, may_lose, money
        self.alpha, self.delta, self.sigma, self.baseline_mean = may_lose.alpha, delta, sigma, baseline_mean
        self.t, self.obeyed = 0, 0  # rounds played, and those in which the learner was obeyed
        self.check = MeanCheck(sigma, abs(baseline_mean or 1.0), delta, money)
        self.asked: Guarded | None = None  # by `act`

    @property
    def n_arms(self) -> int:
        """The learner's number of arms."""
        return int(self.learner.n_arms)

    @property
    def baseline(self) -> int:
        """The learner's baseline, or arm 0."""
        return int(getattr(self.learner, "baseline", 0))

    @property
    def dimension(self) -> int:
        """The learner's length of a feature vector."""
        return int(self.learner.dimension)

    @property
    def contradictions(self) -> list[str]:
        """What the baseline earned that contradicts its declared mean; then it is played for ever."""
        return self.check.found.copy()

    @abstractmethod
    def _after(self, mean: float) -> float:
        """The margin that is proved after this round, if the learner's arm is played and the baseline has this mean."""

    @property
    @abstractmethod
    def _now(self) -> float:
        """The margin that is proved now."""

    @abstractmethod
    def _count(self, asked: Guarded, reward: float) -> None:
        """A round is over."""

    @abstractmethod
    def _faults(self, asked: Guarded, reward: float) -> list[str]:
        """Why a reward is impossible."""

    @exclusive
    def act(self, *shown: Any, **named: Any) -> Decision:
        """What to play; give what the learner's `act` takes: nothing, or features, the baseline arm and its mean."""
        n_arms, baseline, mean = self._round(*shown, **named)
        arm, after = proposal(self.learner, n_arms, *shown, **named), self._after(mean)
        left = f"at least {self.money.amount(after)} stays saved up"
        decision = self._decision("optimistic", f"Plays arm {arm}, as the learner proposes: {left}.", arm)
        if self.check.found:
            decision = keep_to_baseline(baseline, self.t, self.check.found)
        elif arm == baseline:
            decision = self._decision("baseline", "Plays the baseline, as the learner proposes.", baseline)
        elif after < 0:
            more = f"arm {arm} could cost {self.money.amount(-after)} more than is saved up."
            decision = self._decision("baseline", f"Plays the baseline: {more}", baseline)
        elif self.check.spot_check_is_due():
            decision = spot_check(baseline, self.t, budget=self._now)
        played = decision.action
        self.asked = Guarded(played, played == arm, played != baseline, mean)
        return decision

    def _decision(self, role: Role, reason: str, arm: int) -> Decision:
        return Decision(role, reason, arm, self.t, length=1, budget=self._now)

    def _round(
        self, features: Any = None, baseline: int | None = None, baseline_mean: float | None = None
    ) -> tuple[int, int, float]:
        """The number of arms in this round, the baseline arm and its mean."""
        if self.baseline_mean is not None:
            return self.n_arms, self.baseline, self.baseline_mean
        faults = ["features are missing"] if features is None else []
        faults += [] if is_whole(baseline, 0) else [f"baseline {baseline}: it must be an arm"]
        if baseline_mean is None or not np.isfinite(baseline_mean):
            faults.append(f"baseline_mean {baseline_mean} must be finite: the mean of the baseline must be known")
        if faults or baseline_mean is None:
            raise InvalidInput("this round cannot be played", faults)
        return len(features), as_whole(baseline), float(baseline_mean)

    @exclusive
    def observe(self, *outcome: Any, **named: Any) -> None:
        """Learn what the learner's `observe` takes: the arm and its reward, or the reward; a wrong one is refused."""
        if self.asked is None:
            raise SurefootedError("there is no round to observe: ask with act first")
        asked, outcome = self.asked, (*outcome, *(named[name] for name in ("arm", "reward") if name in named))
        reward = float(outcome[-1])
        faults = [] if np.isfinite(reward) else [f"reward {reward} is not finite"]
        if self.baseline_mean is not None and (len(outcome) != 2 or outcome[0] != asked.arm):
            faults.append(f"the agent asked for arm {asked.arm}, not {outcome[0]}: it proves nothing of other arms")
        if faults := faults or self._faults(asked, reward):
            raise InvalidInput("this round cannot be counted", faults)
        self._halfway = True
        if asked.obeys:
            try:
                self.learner.observe(*outcome)
            except SurefootedError:
                self._halfway = False  # it refused the reward, and nothing has changed
                raise
            self.obeyed += 1
        self._count(asked, reward)
        self.check.add(None if asked.explores else reward, asked.mean)
        self.t, self.asked, self._halfway = self.t + 1, None, False

    def _until_checkpoint(self, mean: float) -> tuple[int, float]:
        """The rounds from the next one to the next checkpoint, and what each adds at least if the baseline is played.

        With features, nothing is known of the means of later rounds but that a baseline never lowers the margin.
        """
        ahead = self.tolerance.next_date(self.t + 1) - (self.t + 1)
        return ahead, self.tolerance.per_step if self.baseline_mean is None else mean - self._owed_for(mean)

    def _owed_for(self, mean: float) -> float:
        """What must be earned at least in a round in which the baseline has this mean."""
        return float(self.tolerance.owed(np.asarray(mean), 1))

    def arguments(self) -> dict[str, Any]:
        """What it was built with, and what is known of the learner."""
        named = {"baseline_mean": self.baseline_mean, "sigma": self.sigma, "delta": self.delta}
        return named | self.tolerance.shows | {"unit": self.money.unit, "learner": known_of(self.learner)}

    def _contents(self) -> dict[str, Any]:
        own = {"t": self.t, "obeyed": self.obeyed, "asked": self.asked, "check": self.check.state_dict()}
        return own | {"learner": state_of(self.learner)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.learner = restored_learner(self.learner, state["learner"])
        self.t, self.obeyed, self.asked = state["t"], state["obeyed"], state["asked"]
        self.check = self.check.restored(state["check"])
