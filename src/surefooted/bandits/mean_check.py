"""Is the declared mean of the baseline right? The check of `knowledge.baseline_check` for σ-sub-Gaussian rewards.

**Theorem.** Let D_i be the reward of the i-th round in which the baseline was played, minus its declared mean. Suppose
that, given the past, D_i minus its mean is σ-sub-Gaussian and its mean lies in [-ε, ε]. For positive λ_1 .. λ_J let

    E_n = (1 / 2J) sum_j exp(-n λ_j² σ² / 2) [exp(λ_j (sum_i D_i - n ε)) + exp(λ_j (-sum_i D_i - n ε))].

Then E_n >= 1 / δ' for some n with probability at most δ'.

**Proof.** Given the past, exp(λ (D_i - ε) - λ² σ² / 2) has a mean of at most 1, since the mean of D_i - ε is at most 0;
and so has the one for -D_i. So E_n is a non-negative supermartingale that begins at 1. Ville's inequality applies. ∎

Here δ' is `FALSE_ALARMS` times δ: right means are ever called wrong with at most that probability.
"""

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from surefooted.kernels.baseline_check import log_mean_exp
from surefooted.knowledge import wording
from surefooted.knowledge.baseline_check import FALSE_ALARMS, GROWTH, TOLERANCE, too_rare
from surefooted.tables.money import Money
from surefooted.tables.space import Floats

BETS: Floats = 2.0 * 0.5 ** np.arange(14.0)  # λ_j σ
PSI: Floats = BETS**2 / 2
TINY = 1e-9  # the least σ, relative to the bound on the means


class MeanCheck:
    """Compares declared means of the baseline with what it earned.

    - `sigma`, `delta`: σ and δ.
    - `bound`: the size of means; declared means may be rounded to `TOLERANCE` of σ plus this.
    - `money`: the unit of rewards.
    """

    def __init__(self, sigma: float, bound: float, delta: float, money: Money | None = None) -> None:
        self.sigma, self.bound, self.delta, self.money = sigma, bound, delta, money or Money()
        self.n, self.excess, self.declared = 0, 0.0, 0.0  # rounds, the sum of D, the sum of the declared means
        self.passed = 0  # rounds whose mean was declared, and in which another arm was played
        self.checked_at = 0
        self.found: list[str] = []

    def spot_check_is_due(self) -> bool:
        """Whether the baseline must be played again before a declared mean can be believed any longer."""
        return too_rare(self.n, self.n + self.passed)

    def add(self, reward: float | None, declared: float) -> None:
        """The mean of the baseline was declared, and this is what the baseline earned; None if it was not played."""
        if reward is None:
            self.passed += 1
            return
        self.n += 1
        self.excess += reward - declared
        self.declared += declared
        if not self.found and self.n >= GROWTH * self.checked_at:
            self.checked_at = self.n
            if self.log_e_value() >= -math.log(FALSE_ALARMS * self.delta):
                told = f"the baseline was declared to earn {self.money.amount(self.declared / self.n)} a round"
                self.found = [wording.wrong_baseline(told, self.n, self.excess / self.n, "round", "that", self.money)]

    def log_e_value(self) -> float:
        """The logarithm of E_n."""
        sigma = max(self.sigma, TINY * max(self.bound, 1.0))
        slack = self.n * TOLERANCE * (self.sigma + self.bound)
        more = log_mean_exp((self.excess - slack) / sigma, float(self.n), BETS, PSI)
        less = log_mean_exp((-self.excess - slack) / sigma, float(self.n), BETS, PSI)
        return float(np.logaddexp(more, less)) - math.log(2)

    def state_dict(self) -> dict[str, Any]:
        """What was seen and found."""
        names = ("n", "excess", "declared", "passed", "checked_at")
        return {name: getattr(self, name) for name in names} | {"found": list(self.found)}

    def restored(self, state: Mapping[str, Any]) -> Self:
        """A check of the same arguments that remembers what `state_dict` returned."""
        other = type(self)(self.sigma, self.bound, self.delta, self.money)
        other.n, other.excess, other.declared = state["n"], state["excess"], state["declared"]
        other.passed, other.checked_at, other.found = state["passed"], state["checked_at"], list(state["found"])
        return other
