"""Conservative linear UCB: Kazerouni, Ghavamzadeh, Abbasi-Yadkori & Van Roy (NeurIPS 2017), CLUCB and CLUCB2.

Round t shows arms with features φ and a baseline arm b_t, of mean r_t = <θ*, φ_{b_t}>. The optimistic arm is

    argmax over arms of <θ̂, φ> + β |φ|_{V⁻¹},

and it is played if, with z the sum of the features of the optimistic rounds so far, for every θ of the ellipsoid

    known means, CLUCB:     <θ, z + φ> + Σ_{baseline rounds} r_i >= (1 - α) Σ_{i<=t} r_i,
    unknown means, CLUCB2:  <θ, w> >= 0, w = Σ_{i<t} φ_{a_i} + φ - (1 - α) Σ_{i<=t} φ_{b_i}.

Otherwise the baseline is played, which adds α r_t >= 0 to the margin. Therefore Σ_{i<=t} <θ*, φ_{a_i}> >=
(1 - α) Σ_{i<=t} r_i in every round, if θ* is in every ellipsoid and no baseline mean is negative. If the optimistic arm
is the baseline, the round counts as a baseline round: it earns the known mean and not a lower bound of it.

What may be lost beside α is that of `certificates.tolerance`. A known mean that is not above the floor has no share, so
that a round of the baseline never lowers the margin. Unknown means must not be below the floor; this cannot be checked,
as it cannot in CLUCB2. With checkpoints, what is tolerated in each round until the next one counts at once. Shares of
the means of later rounds do not, since nothing is known of these rounds.

CLUCB2 as printed minimises <θ, what was earned> and maximises <θ, what is owed> over separate θ. One θ for both is
tighter, since min (f - g) >= min f - max g for all f and g. It is valid, since θ* is one θ.

With `pooled`, the rewards of the optimistic rounds bound the sum of their means beside the ellipsoid: it is at least
their sum minus `most_luck`, for all rounds at once, with a δ of its own. Then <θ, z> need not be bounded. The better
bound counts. It may also be an earlier one, to which the features of the optimistic rounds since are added.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from surefooted.agents.agent import Decision
from surefooted.agents.in_use import exclusive
from surefooted.bandits._decide import Question, decide, first_affordable, keep_to_baseline
from surefooted.bandits.linear_player import LinearPlayer
from surefooted.certificates.pooled import most_luck
from surefooted.certificates.tolerance import Checkpoints
from surefooted.codec import record
from surefooted.kernels.martingale import OUTWARDS
from surefooted.tables.space import Floats

LearnFrom = Literal["all", "optimistic"]


@record
@dataclass(frozen=True)
class Balance:
    """The margin after some rounds: a known part plus <θ*, w>."""

    known: float
    w: Floats  # [d]

    def plus(self, change: "Balance") -> "Balance":
        """After a change."""
        return Balance(self.known + change.known, self.w + change.w)


@record
class Asked(NamedTuple):
    """The round that `observe` will be about."""

    phi: Floats  # [d], of the arm to play
    learns: bool
    change: Balance
    explores: bool
    declared: float | None  # the mean of the baseline, if it was declared


class ConservativeLinearUCB(LinearPlayer):
    """Plays the arm with the largest upper bound if the condition then still holds provably, and else the baseline.

    >>> import surefooted as sf
    >>> agent = sf.bandits.ConservativeLinearUCB(dimension=2, alpha=0.1, sigma=0.5, bound=1.0)
    >>> decision = agent.act(features=[[0.5, 0.0], [0.6, 0.3]], baseline=0, baseline_mean=0.5)
    >>> agent.observe(reward=1.0)

    - `dimension`: d, the length of a feature vector.
    - `alpha`: the share of what the baseline earns that may be lost, in (0, 1], or 0 with an allowance or a tolerance.
      1 makes this plain linear UCB: no mean may be below the floor then.
    - `sigma`: the noise is σ-sub-Gaussian.
    - `bound`: B with |θ*| <= B.
    - `lambda_`: the ridge λ.
    - `delta`: the probability that a bound may fail.
    - `pooled`: use the bound from all rewards, too; it and the ellipsoid have half of `delta` each. False: as printed.
    - `learn_from`: "all" rounds, or only "optimistic" ones, as printed for CLUCB.
    - `unit`: the unit of rewards, such as "€".
    - `tolerance`, `allowance`, `floor`, `checkpoints`: as for `CUCRL2`; a round is a step.

    Declared means are compared with what the baseline earns. If they are wrong, the baseline is played for ever, and
    `contradictions` says why. A round with a known baseline mean is a round of CLUCB, another one is a round of CLUCB2;
    a run may have both. Ties go to the first arm.
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
        pooled: bool = False,
        unit: str = "",
        tolerance: float = 0.0,
        allowance: float = 0.0,
        floor: float | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        fault = f'learn_from {learn_from!r} must be "all" or "optimistic"'
        told = () if learn_from in ("all", "optimistic") else (fault,)
        amounts = {"alpha": alpha, "tolerance": tolerance, "allowance": allowance, "floor": floor}
        model = {"sigma": sigma, "bound": bound, "lambda_": lambda_}
        super().__init__(dimension, model, delta, amounts | {"checkpoints": checkpoints}, unit, pooled, told)
        self.learn_from = learn_from
        self.balance = Balance(self.tolerance.allowance, np.zeros(self.dimension))
        self.since = self.balance  # with what rewards prove of the optimistic rounds up to the best moment
        self.earned, self.gross = 0.0, 0.0  # the sum of the rewards of optimistic rounds, and of their sizes
        self.explored, self.z = 0, np.zeros(self.dimension)  # the number of these rounds, and z

    @exclusive
    def act(self, features: ArrayLike, baseline: int, baseline_mean: float | None = None) -> Decision:
        """What to play among arms with these features [n, d].

        `baseline` is the arm in use today, `baseline_mean` its mean if that is known. `observe` refers to this round.
        """
        phi, baseline = self._checked(features, baseline, baseline_mean)
        upper = self.ellipsoid.bounds(phi)[1]
        terms, ahead = self._proved(), self.tolerance.next_date(self.t + 1) - (self.t + 1)

        def after(arm: int) -> float:
            change = self._change(phi, arm, baseline, baseline_mean)
            return sum(self._proved(change).values()) + ahead * self.tolerance.per_step

        allows_all = self.alpha == 1  # no mean is below the floor
        arm, left = first_affordable(self._wishes(phi, upper), baseline, after, allows_all)
        due = self.alpha < 1 and baseline_mean is not None and self.check.spot_check_is_due()
        allowed = left >= 0 or allows_all
        decision = decide(Question(arm, baseline, float(upper[arm]), allowed, left, self.t, due, self.money), terms)
        if self.check.found:
            decision = keep_to_baseline(baseline, self.t, self.check.found)
        played = decision.action
        learns = self.learn_from == "all" or played == int(np.argmax(upper))
        change = self._change(phi, played, baseline, baseline_mean)
        self.asked = Asked(phi[played], learns, change, played != baseline, baseline_mean)
        return decision

    def _wishes(self, phi: Floats, upper: Floats) -> Iterable[int]:
        """The arms that it would like to play: the first one that can be afforded is played."""
        return [int(np.argmax(upper))]

    def _count(self, asked: Any, reward: float) -> None:
        super()._count(asked, reward)
        self.balance, self.since = self.balance.plus(asked.change), self.since.plus(asked.change)
        if asked.explores and self.pooled:
            self._pool(asked.phi, reward)

    def _pool(self, phi: Floats, reward: float) -> None:
        """An optimistic round is over: its reward counts with those of all others."""
        self.earned, self.gross = self.earned + reward, self.gross + abs(reward)
        self.explored, self.z = self.explored + 1, self.z + phi
        luck = most_luck(self.explored, self.ellipsoid.sigma, self.delta - self.ellipsoid.delta)
        lower = self.earned - luck - OUTWARDS * (self.gross + luck)
        pooled = Balance(self.balance.known + lower, self.balance.w - self.z)
        estimated = self.ellipsoid.bounds(np.array([self.since.w, pooled.w]))[0]
        if pooled.known + estimated[1] > self.since.known + estimated[0]:
            self.since = pooled

    def _proved(self, change: Balance | None = None) -> dict[str, float]:
        """The margin that is proved, now or after a change, in two terms."""
        balances = [self.balance, self.since] if self.pooled else [self.balance]
        if change is not None:
            balances = [balance.plus(change) for balance in balances]
        estimated = self.ellipsoid.bounds(np.array([balance.w for balance in balances]))[0].tolist()
        terms = [{"known": b.known, "estimated": value} for b, value in zip(balances, estimated, strict=True)]
        return max(terms, key=lambda term: term["known"] + term["estimated"])

    def _change(self, phi: Floats, arm: int, baseline: int, baseline_mean: float | None) -> Balance:
        """What playing `arm` adds: the mean of the arm is earned, and the baseline's without its share is owed."""
        alpha, tolerance = self.alpha, self.tolerance
        if baseline_mean is not None and baseline_mean <= tolerance.floor:
            alpha = 0.0
        tolerated = tolerance.per_step - alpha * tolerance.floor
        share = alpha if arm == baseline else alpha - 1  # of the baseline's mean
        gained = np.zeros(self.dimension) if arm == baseline else phi[arm]
        if baseline_mean is None:
            return Balance(tolerated, gained + share * phi[baseline])
        return Balance(share * baseline_mean + tolerated, gained)

    def _mean_faults(self, baseline_mean: float | None) -> list[str]:
        if baseline_mean is None and self.learn_from == "optimistic":
            return ['learn_from="optimistic" learns nothing about a baseline: give its baseline_mean']
        return []

    def arguments(self) -> dict[str, Any]:
        """What it was built with."""
        return super().arguments() | {"learn_from": self.learn_from, "pooled": self.pooled}

    def _contents(self) -> dict[str, Any]:
        rewards = (self.earned, self.gross, self.explored, self.z.copy())
        return super()._contents() | {"balance": self.balance, "since": self.since, "rewards": rewards}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.balance, self.since = state["balance"], state["since"]
        self.earned, self.gross, self.explored, z = state["rewards"]
        self.z = z.copy()
