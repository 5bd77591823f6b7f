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

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from surefooted.agents.agent import Decision
from surefooted.agents.in_use import exclusive
from surefooted.bandits._decide import Question, decide, first_affordable, keep_to_baseline
from surefooted.bandits.arms_player import ArmsPlayer, Rewards
from surefooted.certificates.episodes import LEAST
from surefooted.certificates.pooled import PooledReturns
from surefooted.certificates.tolerance import Checkpoints
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.sets.confidence import Confidence, likelihood
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Floats, Ints


class ConservativeUCB(ArmsPlayer):
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
        amounts = {"alpha": alpha, "tolerance": tolerance, "allowance": allowance, "floor": floor}
        told = (n_arms, baseline, baseline_mean, confidence, delta, amounts | {"checkpoints": checkpoints})
        super().__init__(*told, Rewards(r_max, rewards, unit), pooled)
        self.pooled: PooledReturns | None = None  # from the first round with another arm on
        self.at_once = 0.0  # the best bound from all rewards: what the rounds with other arms earned at least
        self.covered = np.zeros(self.n_arms, dtype=np.int64)  # [n], the rounds in it

    @exclusive
    def act(self) -> Decision:
        """What to play now; asking again gives the same answer."""
        self._catch_up()
        if self.check.found:
            return keep_to_baseline(self.baseline, self.t, self.check.found)
        lower, upper = self._bounds()
        terms, ahead = self._proved(lower, upper), self._until_checkpoint(lower, upper)

        def after(arm: int) -> float:
            return sum(self._proved(lower, upper, arm).values()) + ahead

        arm, left = first_affordable(self._wishes(upper), self.baseline, after, self._allows_all)
        due = self.alpha < 1 and self.check.spot_check_is_due()
        mean, money = float(self.space.money.earned(upper[arm])), self.space.money
        allowed = left >= 0 or self._allows_all
        return decide(Question(arm, self.baseline, mean, allowed, left, self.t, due, money), terms)

    def _wishes(self, upper: Floats) -> Iterable[int]:
        """The arms that it would like to play: the first one that can be afforded is played."""
        return [int(np.argmax(upper))]

    def _proved(self, lower: Floats, upper: Floats, arm: int | None = None) -> dict[str, float]:
        """The margin that is proved, now or after another round with `arm`, in terms."""
        visits = self.counts.visits.copy()
        if arm is not None:
            visits[arm] += 1
        return self._margin(lower, upper, visits)

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

    def _learn(self, arm: int, reward: float, lower: Floats, upper: Floats) -> None:
        if arm != self.baseline and self.shares.of_outcomes:
            self._pool(reward, lower, upper)

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
        return super().arguments() | {"pooled": self.shares.of_outcomes > 0}

    def _contents(self) -> dict[str, Any]:
        pooled = None if self.pooled is None else self.pooled.state_dict()
        return super()._contents() | {"pooled": pooled, "at_once": self.at_once, "covered": self.covered.copy()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.pooled = None if state["pooled"] is None else PooledReturns.from_state_dict(state["pooled"])
        self.at_once, self.covered = state["at_once"], state["covered"].copy()


def wu(counts: Counts, delta: float) -> Plausible:
    """The intervals of Wu et al. for one state: mean ± r_max sqrt(ψ(T) / T), ψ(s) = 2 ln(K s³ / δ), cut to [0, r_max].

    K is the number of arms besides the baseline; the interval of an arm that was never played is [0, r_max]. Wu et al.
    assume 1-sub-Gaussian noise. Rewards in [0, 1] are 1/2-sub-Gaussian: by Hoeffding's inequality, a mean is outside
    its interval after s rounds with probability at most 2 exp(-2 ψ(s)) = 2 (δ / (K s³))⁴. The sum over all s and K + 1
    arms is below δ for K >= 2, or δ <= 0.6.

    - `counts`: of one state; each arm is an action.
    - `delta`: the probability with which an interval may ever fail.

    >>> import surefooted as sf
    >>> counts = sf.Counts(sf.Space.full(n_states=1, n_actions=3))
    >>> counts.add(s=0, a=1, r=1.0, s_next=0)
    >>> sf.bandits.wu(counts, delta=0.05).r_upper.tolist()
    [1.0, 1.0, 1.0]
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
    return Plausible._of_arrays(space, lower, upper, arms, np.zeros_like(arms[1:]), sure, sure, np.zeros_like(sure))
