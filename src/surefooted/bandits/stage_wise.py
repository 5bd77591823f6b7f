"""Stage-wise conservative bandits: Moradipari, Thrampoulidis & Alizadeh (NeurIPS 2020), SCLUCB and SCLTS.

The condition is about each round alone; nothing can be saved up. Given the past, the reward of every round t has a mean

    E[r_t | past] >= (1 - α) μ(b_t).

SCLUCB plays the optimistic arm if it is proved safe, <θ, φ> >= (1 - α) r_t for every θ of the ellipsoid. Otherwise it
plays the baseline with a small random perturbation, which is safe and still teaches something in every direction.

Here a round has finitely many arms, and none can be perturbed. The random action that is safe is a draw between two
arms: the optimistic arm o with probability p, and otherwise its partner m. With lower bounds L on the means,

    p = the largest p in [0, 1] with  p L_o + (1 - p) L_m >= (1 - α) μ(b_t),

for every mean that the baseline may have. If o is proved safe, p is 1. If nothing is known of o but that rewards are
not negative, p is α: so every arm is tried sooner or later, and one round in 1 / α teaches what each round teaches
without a condition. The partner is the baseline until another arm is proved to be no worse; then it is the arm with the
largest lower bound. The draw is part of the round: the condition is about the mean before the draw. (Without a draw, no
agent could keep the condition with unrelated arms and play anything but the baseline: no arm is safe before it was
played.)

SCLTS draws θ̃ from a Gaussian around θ̂ instead of being optimistic. Safety does not depend on how o is chosen; so
`sampling=True` draws it.

We could read the paper's abstract and introduction only: the mixture, its probability and all bounds are derived here.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from surefooted.agents.agent import Decision, Role
from surefooted.agents.in_use import exclusive
from surefooted.bandits._decide import keep_to_baseline, spot_check
from surefooted.bandits.arms_player import ArmsPlayer, Rewards
from surefooted.bandits.linear_player import LinearPlayer
from surefooted.bandits.mixture import MixedDecision, most_chance, most_chance_beside
from surefooted.certificates.tolerance import Tolerance
from surefooted.codec import record
from surefooted.sets.confidence import Confidence, likelihood
from surefooted.tables.money import Money
from surefooted.tables.space import Floats


class Choice(NamedTuple):
    """Which arm a round tries, and what is proved of the means; all in the user's unit."""

    tried: int
    baseline: int
    lower: Floats  # [n]
    interval: tuple[float, float]  # of the mean of the baseline
    is_safe: bool  # whether the tried arm alone is proved safe, by a better bound than `lower`


def mix(choice: Choice, tolerance: Tolerance, u: float, t: int, money: Money) -> Decision:
    """Play the arm that is tried as often as is safe; `u` is uniform on [0, 1)."""
    tried, baseline, lower, (low, high), is_safe = choice
    owed = float(tolerance.owed(np.asarray(high), 1))
    if tried == baseline:
        return Decision("baseline", "Plays the baseline: no arm could be better.", baseline, t, length=1)
    best = int(np.argmax(lower))
    partner = baseline if lower[best] < high else best
    if is_safe:
        chance = 1.0
    elif partner == baseline:
        chance = most_chance_beside(float(lower[tried]), (low, high), tolerance)
    else:
        chance = most_chance(float(lower[tried]), float(lower[partner]), owed)
    action = tried if u < chance else partner
    reason = f"Tries arm {tried}: it is proved to earn at least {money.amount(owed)}."
    if chance < 1:
        reason = f"Tries arm {tried} with probability {chance:.3g}, and else plays arm {partner}."
    role: Role = "baseline" if action == baseline else "optimistic"
    return MixedDecision(role, reason, action, t, length=1, tried=tried, partner=partner, chance=chance)


def uniform(seed: int, t: int) -> float:
    """The uniform number of round t; it is the same however often it is asked for, so there is nothing to save."""
    return float(np.random.default_rng((seed, t)).random())


class StageWiseUCB(ArmsPlayer):
    """Tries the arm with the largest upper bound as often as every round's mean allows.

    >>> import surefooted as sf
    >>> agent = sf.bandits.StageWiseUCB(n_arms=3, alpha=0.1, baseline=0)
    >>> arm = agent.act().action
    >>> agent.observe(arm, reward=1.0)

    - `n_arms`, `baseline`, `baseline_mean`, `delta`, `confidence`: as for `ConservativeUCB`.
    - `r_max`, `rewards`, `unit`: the range and unit of rewards, as for `Space`.
    - `alpha`: the share of the baseline's mean that each round may lose, in (0, 1), or 0 with a tolerance.
    - `tolerance`, `floor`: as for `CUCRL2`; an allowance or checkpoints would say nothing about one round.
    - `seed`: of the draws.
    """

    def __init__(
        self,
        n_arms: int,
        *,
        alpha: float,
        baseline: int = 0,
        baseline_mean: float | None = None,
        delta: float = 0.05,
        confidence: Confidence | str = likelihood,
        r_max: float | None = None,
        rewards: tuple[float, float] | None = None,
        unit: str = "",
        tolerance: float = 0.0,
        floor: float | None = None,
        seed: int = 0,
    ) -> None:
        amounts = {"alpha": alpha, "tolerance": tolerance, "floor": floor}
        money = Rewards(r_max, rewards, unit)
        super().__init__(n_arms, baseline, baseline_mean, confidence, delta, amounts, money)
        self.seed = seed

    @exclusive
    def act(self) -> Decision:
        """What to play now; asking again gives the same answer."""
        self._catch_up()
        if self.check.found:
            return keep_to_baseline(self.baseline, self.t, self.check.found)
        lower, upper = self.bounds()
        b = self.baseline
        choice = Choice(int(np.argmax(upper)), b, lower, (float(lower[b]), float(upper[b])), False)
        decision = mix(choice, self.tolerance, uniform(self.seed, self.t), self.t, self.space.money)
        if decision.action != b and self.check.spot_check_is_due():
            return spot_check(b, self.t)
        return decision

    def _contents(self) -> dict[str, Any]:
        return super()._contents() | {"seed": self.seed}

    def _restore(self, state: Any) -> None:
        super()._restore(state)
        self.seed = state["seed"]


@record
class Tried(NamedTuple):
    """The round that `observe` will be about."""

    phi: Floats  # [d], of the arm to play
    learns: bool
    explores: bool
    declared: float | None  # the mean of the baseline, if it was declared


class StageWiseLinearUCB(LinearPlayer):
    """Tries the arm with the largest upper bound, or one that is best for a sampled θ, as often as is safe.

    >>> import surefooted as sf
    >>> agent = sf.bandits.StageWiseLinearUCB(dimension=2, alpha=0.1, sigma=0.5, bound=1.0)
    >>> decision = agent.act(features=[[0.5, 0.0], [0.6, 0.3]], baseline=0, baseline_mean=0.5)
    >>> agent.observe(reward=1.0)

    - `dimension`, `sigma`, `bound`, `lambda_`, `delta`, `unit`: as for `ConservativeLinearUCB`.
    - `alpha`, `tolerance`, `floor`, `seed`: as for `StageWiseUCB`.
    - `least`: no arm has a mean below this.
    - `sampling`: choose the arm by a θ drawn around θ̂, as SCLTS does, not by upper bounds.
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
        unit: str = "",
        tolerance: float = 0.0,
        floor: float | None = None,
        least: float = 0.0,
        sampling: bool = False,
        seed: int = 0,
    ) -> None:
        amounts = {"alpha": alpha, "tolerance": tolerance, "floor": floor}
        model = {"sigma": sigma, "bound": bound, "lambda_": lambda_}
        told = () if np.isfinite(least) else (f"least {least} must be finite",)
        super().__init__(dimension, model, delta, amounts, unit, faults=told)
        self.least, self.sampling, self.seed = least, sampling, seed

    @exclusive
    def act(self, features: ArrayLike, baseline: int, baseline_mean: float | None = None) -> Decision:
        """What to play among arms with these features [n, d].

        `baseline` is the arm in use today, `baseline_mean` its mean if that is known. `observe` refers to this round.
        """
        phi, baseline = self._checked(features, baseline, baseline_mean)
        decision = self._mixed(phi, baseline, baseline_mean)
        due = baseline_mean is not None and self.check.spot_check_is_due()
        if decision.action != baseline and due:
            decision = spot_check(baseline, self.t)
        if self.check.found:
            decision = keep_to_baseline(baseline, self.t, self.check.found)
        self.asked = Tried(phi[decision.action], True, decision.action != baseline, baseline_mean)
        return decision

    def _mixed(self, phi: Floats, baseline: int, mean: float | None) -> Decision:
        lower, upper = self.ellipsoid.bounds(phi)
        lower, upper = np.maximum(lower, self.least), np.maximum(upper, self.least)
        if mean is not None:
            lower[baseline] = upper[baseline] = mean
        worth = self.ellipsoid.sampled(phi, self._normal()) if self.sampling else upper
        tried = int(np.argmax(worth))
        is_safe = False
        if mean is None:  # <θ, φ_o - (1 - α) φ_b> over one θ is larger than the difference of two bounds
            w = phi[tried] - (1 - self.alpha) * phi[baseline]
            more = self.tolerance.per_step - self.alpha * self.tolerance.floor
            is_safe = float(self.ellipsoid.bounds(w[None])[0][0]) + more >= 0
        interval = float(lower[baseline]), float(upper[baseline])
        choice = Choice(tried, baseline, lower, interval, is_safe)
        return mix(choice, self.tolerance, uniform(self.seed, self.t), self.t, self.money)

    def _normal(self) -> Floats:
        """The normal numbers of this round, [d]."""
        return np.random.default_rng((self.seed, self.t, 1)).standard_normal(self.dimension)

    def arguments(self) -> dict[str, Any]:
        """What it was built with."""
        return super().arguments() | {"least": self.least, "sampling": self.sampling}

    def _contents(self) -> dict[str, Any]:
        return super()._contents() | {"seed": self.seed}

    def _restore(self, state: Any) -> None:
        super()._restore(state)
        self.seed = state["seed"]
