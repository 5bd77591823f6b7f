"""Conservative linear UCB: Kazerouni, Ghavamzadeh, Abbasi-Yadkori & Van Roy (NeurIPS 2017), CLUCB and CLUCB2.

Round t shows arms with features φ and a baseline arm b_t, of mean r_t = <θ*, φ_{b_t}>. The optimistic arm is

    argmax over arms of <θ̂, φ> + β |φ|_{V⁻¹},

and it is played if, with z the sum of the features of the optimistic rounds so far, for every θ of the ellipsoid

    known means, CLUCB:     <θ, z + φ> + Σ_{baseline rounds} r_i >= (1 - α) Σ_{i<=t} r_i,
    unknown means, CLUCB2:  <θ, w> >= 0, w = Σ_{i<t} φ_{a_i} + φ - (1 - α) Σ_{i<=t} φ_{b_i}.

Else the baseline is played, which adds α r_t >= 0 to the margin. So Σ_{i<=t} <θ*, φ_{a_i}> >= (1 - α) Σ_{i<=t} r_i in
every round, if θ* is in every ellipsoid and no baseline's mean is negative. When the optimistic arm is the baseline,
the round is one of the baseline, and earns its known mean and not a lower bound of it.

CLUCB2 as printed takes a least value of <θ, what was earned> and a largest one of <θ, what is owed> with a θ of its
own for each. One θ for both is tighter: min (f - g) >= min f - max g for any f and g. And it is valid: θ* is one θ.
"""

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from surefooted.agents.agent import Decision
from surefooted.arrays import as_whole, is_whole, real_numbers
from surefooted.bandits._decide import decide
from surefooted.bandits.ellipsoid import Ellipsoid
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.tables.space import Floats

LARGEST = 1e6  # |φ|² may be this many λ; beyond, λ drowns in the rounding of V
LearnFrom = Literal["all", "optimistic"]


@dataclass(frozen=True)
class Balance:
    """The margin after some rounds: a part that is known, and <θ*, w>."""

    known: float
    w: Floats  # [d]


class ConservativeLinearUCB:
    """Plays the arm that could be best, once what is proved to be earned pays for it, and else the baseline.

    `alpha` is the share of the baseline's reward that may be lost; 1 asks for nothing and makes this plain linear UCB.
    Noise is `sigma`-sub-Gaussian, |θ*| <= `bound`, `lambda_` the ridge. A round whose baseline mean is given is one of
    CLUCB, one without is one of CLUCB2; a run may hold both. The ellipsoid learns from all rounds, or as printed for
    CLUCB, with learn_from="optimistic", from those in which the optimistic arm was played. Ties go to the first arm.
    """

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
            raise InvalidInput("no such agent", faults)
        self.alpha, self.learn_from = alpha, learn_from
        self.t = 0  # rounds played
        self.balance = Balance(0.0, np.zeros(self.dimension))
        self.asked: tuple[Floats, bool, Balance] | None = None  # by the last `act`: φ, whether to learn, what follows

    @property
    def dimension(self) -> int:
        """The length of a feature vector, d."""
        return self.ellipsoid.dimension

    def act(self, features: ArrayLike, baseline: int, baseline_mean: float | None = None) -> Decision:
        """What to play among arms with these features [n, d]; only remembers the question, for `observe`."""
        phi, baseline = self._checked(features, baseline, baseline_mean)
        upper = self.ellipsoid.bounds(phi)[1]
        optimist = int(np.argmax(upper))
        follows = {arm: self._played(phi, arm, baseline, baseline_mean) for arm in (optimist, baseline)}
        proved = self.ellipsoid.bounds(np.array([self.balance.w, follows[optimist].w]))[0]
        after = float(follows[optimist].known + proved[1])
        allowed = self.alpha == 1 or after >= 0  # means are not negative, so that alpha 1 asks for nothing
        terms = {"known": self.balance.known, "estimated": float(proved[0])}
        decision = decide(optimist, baseline, float(upper[optimist]), allowed, after, self.t, terms)
        learns = self.learn_from == "all" or decision.action == optimist
        self.asked = (phi[decision.action], learns, follows[decision.action])
        return decision

    def observe(self, reward: float) -> None:
        """What the arm that `act` asked for earned; nothing changes if it is no number."""
        if self.asked is None:
            raise SurefootedError("there is no round to observe: show the arms with act(features, baseline)")
        if not np.isfinite(reward):
            raise InvalidInput("this round cannot be counted", [f"reward {reward} is not finite"])
        phi, learns, follows = self.asked
        if learns:
            self.ellipsoid.add(phi, float(reward))
        self.t, self.balance, self.asked = self.t + 1, follows, None

    def _played(self, phi: Floats, arm: int, baseline: int, baseline_mean: float | None) -> Balance:
        """The balance once `arm` is played: an arm earns its mean, and (1 - α) of the baseline's is owed."""
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

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue exactly; rebuild the agent with the same arguments and `load_state_dict`."""
        return {
            "ellipsoid": self.ellipsoid.state_dict(),
            "t": self.t,
            "balance": self.balance,
            "asked": self.asked,
        }

    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Continue where `state_dict` was taken."""
        self.ellipsoid.load_state_dict(state["ellipsoid"])
        self.t, self.balance, self.asked = state["t"], state["balance"], state["asked"]
        return self
