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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from surefooted.agents.agent import Decision
from surefooted.agents.identity import Restorable
from surefooted.arrays import as_whole, is_whole, real_numbers
from surefooted.bandits._decide import Question, bandit_tolerance, decide, keep_to_baseline
from surefooted.bandits.ellipsoid import Ellipsoid
from surefooted.bandits.mean_check import MeanCheck
from surefooted.certificates.pooled import most_luck
from surefooted.certificates.shares import share
from surefooted.certificates.tolerance import Checkpoints
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.kernels.martingale import OUTWARDS
from surefooted.tables.money import Money
from surefooted.tables.space import Floats

LARGEST = 1e6  # the largest |φ|² / λ; beyond it, λ is lost in the rounding of V
LearnFrom = Literal["all", "optimistic"]


@dataclass(frozen=True)
class Balance:
    """The margin after some rounds: a known part plus <θ*, w>."""

    known: float
    w: Floats  # [d]

    def plus(self, change: "Balance") -> "Balance":
        """After a change."""
        return Balance(self.known + change.known, self.w + change.w)


class Asked(NamedTuple):
    """The round that `observe` will be about."""

    phi: Floats  # [d], of the arm to play
    learns: bool
    change: Balance
    explores: bool
    declared: float | None  # the mean of the baseline, if it was declared


class ConservativeLinearUCB(Restorable):
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
        pooled: bool = False,
        unit: str = "",
        tolerance: float = 0.0,
        allowance: float = 0.0,
        floor: float | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        faults: list[str] = []
        amounts = {"tolerance": tolerance, "allowance": allowance, "floor": floor, "checkpoints": checkpoints}
        may_lose = bandit_tolerance(alpha, faults, **amounts)
        if not isinstance(unit, str):
            faults.append(f'unit must be a text such as "€", not {unit!r}')
        if learn_from not in ("all", "optimistic"):
            faults.append(f'learn_from {learn_from!r} must be "all" or "optimistic"')
        try:
            of_set = share(delta, None, by_set=True, by_outcomes=pooled).of_set if 0 < delta < 1 else delta
            self.ellipsoid = Ellipsoid(dimension, sigma=sigma, bound=bound, lambda_=lambda_, delta=of_set)
        except InvalidInput as error:
            faults += error.faults
        if faults:
            raise InvalidInput("this agent cannot be built", faults)
        self.tolerance, self.money = may_lose, Money(unit=unit)
        self.alpha, self.delta, self.learn_from, self.pooled = may_lose.alpha, delta, learn_from, pooled
        self.t = 0  # rounds played
        self.balance = Balance(may_lose.allowance, np.zeros(self.dimension))
        self.since = self.balance  # with what rewards prove of the optimistic rounds up to the best moment
        self.earned, self.gross = 0.0, 0.0  # the sum of the rewards of optimistic rounds, and of their sizes
        self.explored, self.z = 0, np.zeros(self.dimension)  # the number of these rounds, and z
        self.check = MeanCheck(sigma, bound, delta, self.money)
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
        changes = {arm: self._change(phi, arm, baseline, baseline_mean) for arm in (optimist, baseline)}
        terms, ahead = self._proved(), self.tolerance.next_date(self.t + 1) - (self.t + 1)
        after = sum(self._proved(changes[optimist]).values()) + ahead * self.tolerance.per_step
        allowed = self.alpha == 1 or after >= 0  # no mean is below the floor, so alpha = 1 allows everything
        due = self.alpha < 1 and baseline_mean is not None and self.check.spot_check_is_due()
        question = Question(optimist, baseline, float(upper[optimist]), allowed, after, self.t, due, self.money)
        decision = decide(question, terms)
        if self.check.found:
            decision = keep_to_baseline(baseline, self.t, self.check.found)
        learns = self.learn_from == "all" or decision.action == optimist
        explores = decision.action != baseline
        self.asked = Asked(phi[decision.action], learns, changes[decision.action], explores, baseline_mean)
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
            self.check.add(None if asked.explores else reward, asked.declared)
        self.t, self.asked = self.t + 1, None
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

    @property
    def contradictions(self) -> list[str]:
        """What the baseline earned that contradicts its declared means; then it is played for ever."""
        return self.check.found.copy()

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
        if baseline_mean is None and self.learn_from == "optimistic":
            faults.append('learn_from="optimistic" learns nothing about a baseline: give its baseline_mean')
        if faults:
            raise InvalidInput("this round cannot be played", faults)
        return phi, as_whole(baseline)

    def arguments(self) -> dict[str, Any]:
        """What it was built with."""
        of_set = {name: getattr(self.ellipsoid, name) for name in ("dimension", "sigma", "bound", "lambda_")}
        own = {name: getattr(self, name) for name in ("delta", "learn_from", "pooled")}
        return of_set | own | self.tolerance.shows | {"unit": self.money.unit}

    def _contents(self) -> dict[str, Any]:
        return {
            "ellipsoid": self.ellipsoid.state_dict(),
            "t": self.t,
            "balance": self.balance,
            "since": self.since,
            "rewards": (self.earned, self.gross, self.explored, self.z.copy()),
            "asked": self.asked,
            "check": self.check.state_dict(),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.ellipsoid.load_state_dict(state["ellipsoid"])
        self.t, self.balance, self.since, self.asked = state["t"], state["balance"], state["since"], state["asked"]
        self.earned, self.gross, self.explored, z = state["rewards"]
        self.z = z.copy()
        self.check = self.check.restored(state["check"])
