"""A condition on the rewards themselves: Du, Wang & Huang (AAAI 2021), GenCB.

Their paper is "A one-size-fits-all solution to conservative bandit problems". All other agents keep a condition on
means. Here nothing is left to luck; for every t, with certainty,

    r_1 + … + r_t >= (1 - α) (μ(b_1) + … + μ(b_t)).

The baseline pays its mean each time, without noise. Let any algorithm propose an arm, and let no reward be below
`least`. The proposal is played if r_1 + … + r_{t-1} + least >= the right side, and else the baseline, which adds
α μ(b_t) >= 0 to the difference. So the condition holds by induction, whatever the algorithm and the arms do. What was
earned counts as it is, good luck too. Therefore there is no confidence set, and no δ. The regret that this adds does
not grow with t, if the algorithm's own does not grow as fast as α t.

**A baseline with noise.** If its rewards are σ-sub-Gaussian, it may break the condition on its own, in the first round.
What can be promised is: *with probability at least 1 - δ, the condition holds in every round from the first one on in
which another arm is played.* Let n rounds be the baseline's, B_n their rewards, μ their mean, and D what is owed per
round. With probability 1 - δ, B_n >= n μ - w(n) for all n (`certificates.pooled.most_luck`). So after m other rounds
that earned E, all later rounds of the baseline are covered if

    E - m D + min over n > N of (n (μ - D) - w(n)) >= 0,        N rounds of the baseline so far.

w is concave, so the least value is at the larger of N + 1 and a number n* that does not change. The proposal is played
if this holds with `least` for its reward, and the condition itself holds after the round. With σ = 0 both are the
condition above. The noise must not change what the baseline is worth, so this needs one baseline with one mean.

We could read the paper's abstract and introduction only. The rule and the proof for a constant baseline follow from the
condition; the part on noise is ours.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefooted.bandits.guard import Guard, Guarded
from surefooted.certificates.pooled import most_luck
from surefooted.certificates.tolerance import Checkpoints
from surefooted.tables.money import REWARD_ROUNDING

FARTHEST = 1 << 50  # rounds: where the search for n* ends


class SamplePath(Guard):
    """Plays what any bandit algorithm proposes, and never lets the sum of rewards fall below its share.

    >>> import surefooted as sf
    >>> learner = sf.bandits.ConservativeUCB(n_arms=3, alpha=1)  # plain UCB
    >>> agent = sf.bandits.SamplePath(learner, alpha=0.1, baseline_mean=0.5)
    >>> arm = agent.act().action
    >>> agent.observe(arm, reward=0.5)

    - `learner`: the algorithm: `act()` and `observe(arm, reward)`, with `n_arms`, and `baseline` if that is not arm 0;
      or, with features, `act(features, baseline, baseline_mean)` and `observe(reward)`, with `dimension`.
    - `alpha`: the share of what the baseline earns that may be lost, in (0, 1], or 0 with an allowance or a tolerance.
    - `baseline_mean`: what the baseline earns; leave it out with features, where `act` is told.
    - `least`: no reward is below this; one that is, is refused.
    - `sigma`: 0 for a baseline that pays its mean each time; else its rewards are σ-sub-Gaussian.
    - `delta`: if sigma is not 0, the probability that the condition may fail.
    - `unit`, `tolerance`, `allowance`, `floor`, `checkpoints`: as for `ConservativeUCB`.

    If the baseline does not pay what was declared, it is played for ever, and `contradictions` says why.
    """

    def __init__(
        self,
        learner: Any,
        *,
        alpha: float,
        baseline_mean: float | None = None,
        least: float = 0.0,
        sigma: float = 0.0,
        delta: float = 0.05,
        unit: str = "",
        tolerance: float = 0.0,
        allowance: float = 0.0,
        floor: float | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        amounts = {"alpha": alpha, "tolerance": tolerance, "allowance": allowance, "floor": floor}
        faults = [] if np.isfinite(least) else [f"least {least} must be finite"]
        if sigma and hasattr(learner, "dimension"):
            faults.append("sigma: with features, the baseline must pay its mean each time")
        super().__init__(learner, baseline_mean, amounts | {"checkpoints": checkpoints}, sigma, delta, unit, faults)
        self.least = float(least)
        self.surplus = self.tolerance.allowance  # rewards so far, minus what is owed
        self.others = self.tolerance.allowance  # the same, of the rounds with other arms only
        self.own = 0  # rounds of the baseline
        self._lowest = self._search() if sigma else 0

    def _after(self, mean: float) -> float:
        owed = self._owed_for(mean)
        ahead, gained = self._until_checkpoint(mean)
        if not self.sigma:
            return self.surplus + self.least - owed + ahead * gained
        later = self.others + self.least - owed + self._worst(max(self.own + max(ahead, 1), self._lowest))
        return later if ahead else min(later, self.surplus + self.least - owed)

    @property
    def _now(self) -> float:
        return self.surplus

    def _worst(self, n: int) -> float:
        """What n rounds of the baseline earn at least, minus what is owed for them."""
        assert self.baseline_mean is not None
        gained = self.baseline_mean - self._owed_for(self.baseline_mean)
        return n * gained - (most_luck(n, self.sigma, self.delta) if n else 0.0)

    def _search(self) -> int:
        """n*, from which on another round of the baseline raises `_worst`: its differences grow with n."""
        high = 1
        while high < FARTHEST and self._worst(high + 1) < self._worst(high):
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._worst(middle + 1) < self._worst(middle) else (low, middle)
        return high

    def _faults(self, asked: Guarded, reward: float) -> list[str]:
        slack = REWARD_ROUNDING * max(abs(self.least), abs(reward), 1.0)
        if reward < self.least - slack and (asked.explores or not self.sigma):
            return [f"reward {reward} is below least = {self.least}: no reward may be"]
        return []

    def _count(self, asked: Guarded, reward: float) -> None:
        gained = reward - self._owed_for(asked.mean)
        self.surplus += gained
        self.others, self.own = (self.others + gained, self.own) if asked.explores else (self.others, self.own + 1)

    def arguments(self) -> dict[str, Any]:
        """What it was built with, and what is known of the learner."""
        return super().arguments() | {"least": self.least}

    def _contents(self) -> dict[str, Any]:
        return super()._contents() | {"surplus": self.surplus, "others": self.others, "own": self.own}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.surplus, self.others, self.own = state["surplus"], state["others"], state["own"]
