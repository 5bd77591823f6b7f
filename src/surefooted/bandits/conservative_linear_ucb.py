"""Conservative linear UCB: Kazerouni, Ghavamzadeh, Abbasi-Yadkori & Van Roy (NeurIPS 2017), CLUCB and CLUCB2.

Round t shows arms with features φ and a baseline arm b_t, of mean r_t = <θ*, φ_{b_t}>. The optimistic arm is

    argmax over arms of <θ̂, φ> + β |φ|_{V⁻¹},

and it is played if, with z the sum of the features of the optimistic rounds so far, for every θ of the ellipsoid

    known means, CLUCB:     <θ, z + φ> + Σ_{baseline rounds} r_i >= (1 - α) Σ_{i<=t} r_i,
    unknown means, CLUCB2:  <θ, w> >= 0, w = Σ_{i<t} φ_{a_i} + φ - (1 - α) Σ_{i<=t} φ_{b_i}.

Otherwise the baseline is played, which adds α r_t >= 0 to the margin. Therefore Σ_{i<=t} <θ*, φ_{a_i}> >=
(1 - α) Σ_{i<=t} r_i in every round, if θ* is in every ellipsoid and no baseline mean is negative. If the optimistic arm
is the baseline, the round counts as a baseline round: it earns the known mean and not a lower bound of it.

CLUCB2 as printed minimises <θ, what was earned> and maximises <θ, what is owed> over separate θ. One θ for both is
tighter, since min (f - g) >= min f - max g for all f and g. It is valid, since θ* is one θ.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from surefooted.agents.agent import Decision
from surefooted.agents.identity import Restorable
from surefooted.arrays import as_whole, is_whole, real_numbers
from surefooted.bandits._decide import decide, keep_to_baseline
from surefooted.bandits.ellipsoid import Ellipsoid
from surefooted.bandits.mean_check import MeanCheck
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.tables.space import Floats

LARGEST = 1e6  # the largest |φ|² / λ; beyond it, λ is lost in the rounding of V
LearnFrom = Literal["all", "optimistic"]


@dataclass(frozen=True)
class Balance:
    """The margin after some rounds: a known part plus <θ*, w>."""

    known: float
    w: Floats  # [d]


class Asked(NamedTuple):
    """The round that `observe` will be about."""

    phi: Floats  # [d], of the arm to play
    learns: bool
    follows: Balance
    declared: float | None  # the mean of that arm, if it is the baseline and its mean was declared


class ConservativeLinearUCB(Restorable):
    """Plays the arm with the largest upper bound if the condition then still holds provably, and else the baseline.

    >>> import surefooted as sf
    >>> agent = sf.bandits.ConservativeLinearUCB(dimension=2, alpha=0.1, sigma=0.5, bound=1.0)
    >>> decision = agent.act(features=[[0.5, 0.0], [0.6, 0.3]], baseline=0, baseline_mean=0.5)
    >>> agent.observe(reward=1.0)

    - `dimension`: d, the length of a feature vector.
    - `alpha`: the share of the baseline's reward that may be lost, in (0, 1]; 1 makes this plain linear UCB.
    - `sigma`: the noise is σ-sub-Gaussian.
    - `bound`: B with |θ*| <= B.
    - `lambda_`: the ridge λ.
    - `delta`: the probability that the ellipsoid may miss θ*.
    - `learn_from`: "all" rounds, or only "optimistic" ones, as printed for CLUCB.

    Declared means are compared with what the baseline earns. If they are wrong, the baseline is played for ever, and
    `contradictions` says why. A round with a known baseline mean is a round of CLUCB, another one is a round of CLUCB2;
    a run may have both. Ties go to the first arm.
    """

    parts = ("ellipsoid",)

    def __init__(
        self,
        dimension: int,
        *,
        alpha: float,
        sigma: float,
        bound: float,
        lambda_: float = 1.0,
        delta: float = 0.05,
        learn_from: LearnFrom = "all",
    ) -> None:
        faults = [] if 0 < alpha <= 1 else [f"alpha {alpha} must lie in (0, 1]"]
        if learn_from not in ("all", "optimistic"):
            faults.append(f'learn_from {learn_from!r} must be "all" or "optimistic"')
        try:
            self.ellipsoid = Ellipsoid(dimension, sigma=sigma, bound=bound, lambda_=lambda_, delta=delta)
        except InvalidInput as error:
            faults += error.faults
        if faults:
            raise InvalidInput("this agent cannot be built", faults)
        self.alpha, self.learn_from = alpha, learn_from
        self.t = 0  # rounds played
        self.balance = Balance(0.0, np.zeros(self.dimension))
        self.check = MeanCheck(sigma, bound, delta)
        self.asked: Asked | None = None  # by `act`

    @property
    def dimension(self) -> int:
        """The length of a feature vector, d."""
        return self.ellipsoid.dimension

    def act(self, features: ArrayLike, baseline: int, baseline_mean: float | None = None) -> Decision:
        """What to play among arms with these features [n, d].

        `baseline` is the arm in use today, `baseline_mean` its mean if that is known. `observe` refers to this round.
        """
        phi, baseline = self._checked(features, baseline, baseline_mean)
        upper = self.ellipsoid.bounds(phi)[1]
        optimist = int(np.argmax(upper))
        follows = {arm: self._played(phi, arm, baseline, baseline_mean) for arm in (optimist, baseline)}
        proved = self.ellipsoid.bounds(np.array([self.balance.w, follows[optimist].w]))[0]
        after = float(follows[optimist].known + proved[1])
        allowed = self.alpha == 1 or after >= 0  # no mean is negative, so alpha = 1 allows everything
        terms = {"known": self.balance.known, "estimated": float(proved[0])}
        decision = decide(optimist, baseline, float(upper[optimist]), allowed, after, self.t, terms)
        if self.check.found:
            decision = keep_to_baseline(baseline, self.t, self.check.found)
        learns = self.learn_from == "all" or decision.action == optimist
        declared = baseline_mean if decision.action == baseline else None
        self.asked = Asked(phi[decision.action], learns, follows[decision.action], declared)
        return decision

    def observe(self, reward: float) -> None:
        """Learn the reward of the arm that `act` asked for; a reward that is not finite is refused."""
        if self.asked is None:
            raise SurefootedError("there is no round to observe: show the arms with act(features, baseline)")
        if not np.isfinite(reward):
            raise InvalidInput("this round cannot be counted", [f"reward {reward} is not finite"])
        asked, reward = self.asked, float(reward)
        if asked.learns:
            self.ellipsoid.add(asked.phi, reward)
        if asked.declared is not None:
            self.check.add(reward, asked.declared)
        self.t, self.balance, self.asked = self.t + 1, asked.follows, None

    @property
    def contradictions(self) -> list[str]:
        """What the baseline earned that contradicts its declared means; then it is played for ever."""
        return self.check.found.copy()

    def _played(self, phi: Floats, arm: int, baseline: int, baseline_mean: float | None) -> Balance:
        """The balance after `arm` is played: the mean of the arm is earned, (1 - α) of the baseline's mean is owed."""
        known, w = self.balance.known, self.balance.w
        share = self.alpha if arm == baseline else self.alpha - 1  # of the baseline's mean
        gained = np.zeros(self.dimension) if arm == baseline else phi[arm]
        if baseline_mean is None:
            return Balance(known, w + gained + share * phi[baseline])
        return Balance(known + share * baseline_mean, w + gained)

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
        if baseline_mean is not None and not (np.isfinite(baseline_mean) and baseline_mean >= 0):
            faults.append(f"baseline_mean {baseline_mean} must be finite and not negative")
        if baseline_mean is None and self.learn_from == "optimistic":
            faults.append('learn_from="optimistic" learns nothing about a baseline: give its baseline_mean')
        if faults:
            raise InvalidInput("this round cannot be played", faults)
        return phi, as_whole(baseline)

    def arguments(self) -> dict[str, Any]:
        """What it was built with."""
        of_set = {name: getattr(self.ellipsoid, name) for name in ("dimension", "sigma", "bound", "lambda_", "delta")}
        return of_set | {"alpha": self.alpha, "learn_from": self.learn_from}

    def _contents(self) -> dict[str, Any]:
        return {
            "ellipsoid": self.ellipsoid.state_dict(),
            "t": self.t,
            "balance": self.balance,
            "asked": self.asked,
            "check": self.check.state_dict(),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.ellipsoid.load_state_dict(state["ellipsoid"])
        self.t, self.balance, self.asked = state["t"], state["balance"], state["asked"]
        self.check = self.check.restored(state["check"])
