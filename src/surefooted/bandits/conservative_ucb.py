"""Conservative UCB: Wu, Shariff, Lattimore & Szepesvári, Conservative Bandits (ICML 2016), Algorithm 1.

With T_i(t - 1) how often arm i was played before round t, μ_i its mean, and [λ_i, θ_i] an interval for it:

    J_t = argmax_i θ_i;  play J_t if Σ_i T_i(t - 1) λ_i + λ_{J_t} >= (1 - α) t μ_0, and else the baseline, arm 0.

If every μ_i is in its interval, the arms I_s that are played satisfy Σ_{s<=t} μ_{I_s} >= (1 - α) t μ_0 in every round
t: if J_t is played, because of the condition; if the baseline is played, because it adds α μ_0 >= 0 to the difference.

Beside the intervals, the rewards of all rounds with other arms bound the sum of their means at once, with a δ of its
own (`certificates.pooled`: a round is an episode of one step). What they prove up to some round, plus λ_i for each
round since, may take the place of Σ_i T_i(t - 1) λ_i over these arms. The larger one counts.

Rewards are counted from `low` (`tables.money`). What may be lost beside α is that of `certificates.tolerance`: a round
is a step, and the share of a mean that is not above the floor is nothing. With checkpoints, what rounds of the baseline
are certain to add until the next one counts at once: Garcelon, Ghavamzadeh, Lazaric & Pirotta, Improved algorithms for
conservative exploration in bandits (AAAI 2020), keep the condition of a bandit at checkpoints, too.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefooted.agents.agent import Decision
from surefooted.agents.identity import Restorable
from surefooted.arrays import as_whole, is_whole
from surefooted.bandits._decide import Question, bandit_tolerance, decide, keep_to_baseline
from surefooted.certificates.episodes import LEAST
from surefooted.certificates.pooled import PooledReturns
from surefooted.certificates.shares import delta_faults, share
from surefooted.certificates.tolerance import Checkpoints
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.knowledge.baseline_check import BaselineCheck
from surefooted.sets.confidence import Confidence, likelihood, named, simplified_bernstein
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.money import Money
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints, Space


class ConservativeUCB(Restorable):
    """Plays the arm with the largest upper bound if the condition then still holds provably, and else the baseline.

    >>> import surefooted as sf
    >>> agent = sf.bandits.ConservativeUCB(n_arms=3, alpha=0.1, baseline=0)
    >>> arm = agent.act().action
    >>> agent.observe(arm, reward=1.0)

    - `n_arms`: the number of arms, the baseline included.
    - `alpha`: the share of what the baseline earns that may be lost, in (0, 1], or 0 with an allowance or a tolerance.
      1 makes this plain UCB if no reward is below the floor.
    - `baseline`: the arm in use today.
    - `baseline_mean`: μ_0, if it is known; it replaces both bounds of the baseline. It is compared with the rewards of
      the baseline; if it is wrong, the baseline is played for ever, and `contradictions` says why.
    - `delta`: the probability that a bound may fail.
    - `pooled`: use the bound from all rewards, too; it and the intervals have half of `delta` each. False: Wu et al.
    - `confidence`: a function of `surefooted.confidence` or its name, or `wu`; only its reward intervals are used.
    - `r_max`, `rewards`, `unit`: the range and unit of rewards, as for `Space`.
    - `tolerance`, `allowance`, `floor`, `checkpoints`: as for `CUCRL2`; a round is a step.

    Ties go to the first arm.
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
        pooled: bool = True,
        tolerance: float = 0.0,
        allowance: float = 0.0,
        floor: float | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        faults = [] if is_whole(n_arms, 1) else [f"n_arms {n_arms} must be a positive whole number"]
        if not faults and not (is_whole(baseline, 0) and baseline < n_arms):
            faults.append(f"baseline {baseline}: the arms are 0 to {n_arms - 1}")
        amounts = {"tolerance": tolerance, "allowance": allowance, "floor": floor, "checkpoints": checkpoints}
        may_lose = bandit_tolerance(alpha, faults, **amounts)
        faults += delta_faults(delta)
        known = len(faults)
        money = Money.parse(r_max, rewards, unit, faults)
        if baseline_mean is not None and len(faults) == known and not money.low <= baseline_mean <= money.high:
            faults.append(f"baseline_mean {baseline_mean} is outside {money.words}")
        faults += may_lose.gain_faults(baseline_mean, money) if may_lose.alpha < 1 and not faults else []
        if faults:
            raise InvalidInput("this agent cannot be built", faults)
        self.tolerance, confidence = may_lose, named(confidence)
        self.n_arms, self.baseline, self.baseline_mean = int(n_arms), as_whole(baseline), baseline_mean
        self.alpha, self.delta, self.confidence = may_lose.alpha, delta, confidence
        space = Space.full(n_states=1, n_actions=self.n_arms, rewards=(money.low, money.high), unit=money.unit)
        self.space = space
        self.counts = Counts(space)
        bias = None if baseline_mean is None else np.zeros(1)
        told = Baseline(Policy.always(space, self.baseline), gain=baseline_mean, bias=bias)
        self.check = BaselineCheck(told, delta)
        self.shares = share(delta, None, by_set=True, by_outcomes=pooled)
        self.pooled: PooledReturns | None = None  # from the first round with another arm on
        self.at_once = 0.0  # the best bound from all rewards: what the rounds with other arms earned at least
        self.covered = np.zeros(self.n_arms, dtype=np.int64)  # [n], the rounds in it

    @property
    def t(self) -> int:
        """Rounds played."""
        return self.counts.total

    def act(self) -> Decision:
        """What to play now; asking again gives the same answer."""
        if self.check.found:
            return keep_to_baseline(self.baseline, self.t, self.check.found)
        lower, upper = self._bounds()
        optimist = int(np.argmax(upper))
        terms, visits = self._margin(lower, upper, self.counts.visits), self.counts.visits.copy()
        visits[optimist] += 1
        after = sum(self._margin(lower, upper, visits).values()) + self._until_checkpoint(lower, upper)
        due = self.alpha < 1 and self.check.spot_check_is_due()
        mean, money = float(self.space.money.earned(upper[optimist])), self.space.money
        allowed = after >= 0 or self._allows_all
        return decide(Question(optimist, self.baseline, mean, allowed, after, self.t, due, money), terms)

    @property
    def _allows_all(self) -> bool:
        """Whether everything may be lost: α is 1, and no reward is below the floor."""
        return self.alpha == 1 and self.space.low >= self.tolerance.floor

    def _until_checkpoint(self, lower: Floats, upper: Floats) -> float:
        """What rounds of the baseline add at least between the next round and the next checkpoint."""
        ahead = self.tolerance.next_date(self.t + 1) - (self.t + 1)
        if ahead == 0:
            return 0.0
        above = max(float(lower[self.baseline]) - (self.tolerance.floor - self.space.low), 0.0)
        return ahead * (self.alpha * above + self.tolerance.per_step)

    def observe(self, arm: int, reward: float) -> None:
        """Learn the reward of the arm that `act` asked for; another arm or an impossible reward is refused."""
        asked = self.act().action
        if arm != asked:
            fault = f"the agent asked for arm {asked}, not {arm}; what it proves holds only for what it asks"
            raise InvalidInput("another arm was played", [fault])
        bounds = self._bounds()
        self.counts.add(0, asked, reward, 0)
        reward = float(self.space.money.counted(float(reward)))
        if asked != self.baseline and self.shares.of_outcomes:
            self._pool(reward, *bounds)
        nowhere, explored = np.zeros(1, dtype=np.int64), np.array([asked != self.baseline])
        self.check.add(0, nowhere + asked, np.array([reward], dtype=np.float64), nowhere, explored)
        self.check.compare(self._valid, self.t)

    def _pool(self, reward: float, lower: Floats, upper: Floats) -> None:
        """Another arm than the baseline was played; the bounds are those from before its reward was known."""
        guess = float(upper[self.baseline])
        if self.pooled is None:
            r_max = self.space.r_max
            self.pooled = PooledReturns(min(max(guess, LEAST * r_max), r_max), self.shares.of_outcomes)
        self.pooled.add(reward, self.pooled.guess(0, guess), 0)
        if self.pooled.lower > self._since(lower, self.counts.visits):
            self.at_once, self.covered = self.pooled.lower, self.counts.visits.copy()

    def _since(self, lower: Floats, visits: Ints) -> float:
        """What rewards prove of the other arms, plus what their intervals prove of the rounds since."""
        return self.at_once + self._by_intervals(lower, visits - self.covered)

    def _by_intervals(self, lower: Floats, visits: Ints) -> float:
        """What the other arms earn at least in `visits` [n] rounds, by their intervals."""
        return float(np.delete(visits * lower, self.baseline).sum())

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

    def _margin(self, lower: Floats, upper: Floats, visits: Ints) -> dict[str, float]:
        """A lower bound on Σ_i visits_i μ_i - (1 - α) Σ_i visits_i μ_0, in two terms: other arms, and baseline.

        If μ_0 is unknown, the paper bounds each side separately, with λ_0 on the left and θ_0 on the right. But μ_0 is
        one number with the factor visits_0 - (1 - α) Σ_i visits_i. Over [λ_0, θ_0] the product is smallest at λ_0 if
        the factor is not negative, and at θ_0 otherwise. This bound is valid and never below the paper's. With a floor
        above `low`, the share is that of `certificates.episodes`.
        """
        n, tolerance, zero = int(visits.sum()), self.tolerance, self.tolerance.floor - self.space.low
        factor = visits[self.baseline] - (1 - self.alpha) * visits.sum()
        low, high = float(lower[self.baseline]), float(upper[self.baseline])
        mean = high if factor < 0 else low if zero <= 0 else min(max(zero, low), high)
        own = float(factor * mean) - self.alpha * zero * n
        if mean < zero:
            own = float((visits[self.baseline] - n) * mean)
        earned = max(self._by_intervals(lower, visits), self._since(lower, visits))
        more = {"allowance": tolerance.allowance, "tolerated in each round": tolerance.per_step * n}
        return {"explored": earned, "baseline": own} | {name: amount for name, amount in more.items() if amount}

    def arguments(self) -> dict[str, Any]:
        """What it was built with."""
        names = ("n_arms", "baseline", "baseline_mean", "delta", "confidence", "space")
        own = {name: getattr(self, name) for name in names} | self.tolerance.shows
        return own | {"pooled": self.shares.of_outcomes > 0}

    def _contents(self) -> dict[str, Any]:
        pooled = None if self.pooled is None else self.pooled.state_dict()
        own = {"pooled": pooled, "at_once": self.at_once, "covered": self.covered.copy()}
        return own | {"counts": self.counts.state_dict(), "check": self.check.state_dict()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.counts = Counts.from_state_dict(self.counts.space, state["counts"])
        self.check = self.check.restored(state["check"])
        self.pooled = None if state["pooled"] is None else PooledReturns.from_state_dict(state["pooled"])
        self.at_once, self.covered = state["at_once"], state["covered"].copy()


def wu(counts: Counts, delta: float) -> Plausible:
    """The intervals of Wu et al. for one state: mean ± r_max sqrt(ψ(T) / T), ψ(s) = 2 ln(K s³ / δ), cut to [0, r_max].

    K is the number of arms besides the baseline; the interval of an arm that was never played is [0, r_max]. Wu et al.
    assume 1-sub-Gaussian noise. Rewards in [0, 1] are 1/2-sub-Gaussian: by Hoeffding's inequality, a mean is outside
    its interval after s rounds with probability at most 2 exp(-2 ψ(s)) = 2 (δ / (K s³))⁴. The sum over all s and K + 1
    arms is below δ for K >= 2, or δ <= 0.6.
    """
    space = counts.space
    if space.n_states != 1 or not 0 < delta < 1:
        states, K = space.n_states, space.n_pairs
        fault = f"{states} states, {K} arms, delta {delta}: one state and 0 < delta < 1 are needed"
        raise InvalidInput("these bounds cannot be computed", [fault])
    n, K = np.maximum(counts.visits, 1).astype(np.float64), max(space.n_pairs - 1, 1)
    mean, width = counts.reward_sum / n, space.r_max * np.sqrt(2 * np.log(K * n**3 / delta) / n)
    lower, upper = np.clip(mean - width, 0.0, space.r_max), np.clip(mean + width, 0.0, space.r_max)
    upper[counts.visits == 0] = space.r_max
    arms, sure = np.arange(space.n_pairs + 1), np.ones(space.n_pairs)
    return Plausible(space, lower, upper, arms, np.zeros_like(arms[1:]), sure, sure, np.zeros_like(sure))
