"""From regret to budgets: Yang, Wu, Zhong, Garcelon, Pirotta, Lazaric, Wang & Du (ICLR 2022).

Their paper is "A reduction-based framework for conservative bandits and reinforcement learning". How many rounds of the
baseline does an algorithm need before it may be let loose? Let μ_0 be the mean of the baseline, μ_0 + Δ that of the
best arm, and R(n) the regret of an algorithm in n rounds: it earned n (μ_0 + Δ) - R(n). With N rounds of the baseline
before them, the condition after these n rounds is

    N μ_0 + n (μ_0 + Δ) - R(n) >= (1 - α) (N + n) μ_0,    that is,    N α μ_0 >= R(n) - n (α μ_0 + Δ).

So the *budget* N α μ_0 must be at least

    B = max over n of R(n) - n (α μ_0 + Δ).

**It is enough.** If R bounds the regret at all n at once, with probability at least 1 - δ, then with the same
probability B, or N = B / (α μ_0) rounds, keeps the condition in every round. Nothing else of the algorithm is used.

**It is necessary.** Let ξ(n) bound from below what every algorithm regrets in n rounds, on average, on the worst of
some problems that share μ_0 and Δ. The rounds of a conservative agent with other arms than the baseline are an
algorithm of its own. So on one of these problems, if the condition holds on average when n such rounds are over, the
agent has played the baseline at least (ξ(n) - n (α μ_0 + Δ)) / (α μ_0) times by then, on average. With R = ξ, B is what
any agent needs.

With R(n) = sqrt(c n), B = c / (4 (α μ_0 + Δ)): this is the additional regret Δ N = c Δ / (4 α μ_0 (α μ_0 + Δ)) that the
paper finds for bandits, with c of the order of the number of arms.

`Reduction` needs no Δ, takes it as 0, and does not pay in advance: it follows the algorithm as soon as what was saved
up pays for its next round. In rounds with features, the sum of α r_t takes the place of α μ_0 (N + n).

We could read the paper's abstract and introduction only: the statements and proofs above are derived here.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from surefooted.bandits.guard import Guard, Guarded
from surefooted.certificates.tolerance import Checkpoints
from surefooted.errors import InvalidInput
from surefooted.tables.space import Floats

Regret = Callable[[Floats], Any]


class Needed(NamedTuple):
    """The budget B, the rounds N of the baseline that save it up, and the rounds n after which all of it is spent."""

    budget: float
    baseline_rounds: int
    after: int


def budget_needed(
    regret: Regret, *, alpha: float, baseline_mean: float, gap: float = 0.0, rounds: int = 10**6
) -> Needed:
    """What must be saved up before an algorithm is let loose: B above.

    - `regret`: R, for an array of numbers of rounds. An upper bound gives what is enough for an algorithm, a lower
      bound for all algorithms gives what is necessary for any.
    - `alpha`: the share of what the baseline earns that may be lost.
    - `baseline_mean`: μ_0.
    - `gap`: Δ, by how much the best arm is better than the baseline; 0 is safe for an upper bound.
    - `rounds`: the largest n that is looked at.

    >>> import numpy as np
    >>> from surefooted.bandits import budget_needed
    >>> budget_needed(lambda n: np.sqrt(4 * n), alpha=0.1, baseline_mean=0.5, gap=0.2)
    Needed(budget=4.0, baseline_rounds=80, after=16)
    """
    amounts = (("alpha", alpha), ("baseline_mean", baseline_mean))
    faults = [f"{name} {value} must be positive" for name, value in amounts if not value > 0]
    faults += [] if gap >= 0 else [f"gap {gap} must not be negative"]
    n = np.arange(1, rounds + 1, dtype=np.float64)
    values = np.broadcast_to(np.asarray(regret(n), dtype=np.float64), n.shape)
    faults += [] if np.isfinite(values).all() else ["regret: it must be finite for each number of rounds"]
    if faults:
        raise InvalidInput("this budget cannot be computed", faults)
    missing = values - n * (alpha * baseline_mean + gap)
    at = int(np.argmax(missing))
    budget = max(float(missing[at]), 0.0)
    return Needed(budget, math.ceil(budget / (alpha * baseline_mean)), at + 1)


def regret_of_ucb(n_arms: int, delta: float = 0.05, r_max: float = 1.0) -> Regret:
    """A bound on the regret of `ConservativeUCB(n_arms, alpha=1, confidence=wu)`, for all n with probability 1 - δ.

    While all intervals hold, a round with an arm that was played s times before has a regret of at most the width of
    its interval, 2 r_max sqrt(2 ln(K s³ / δ) / s) with K = n_arms - 1, and of at most r_max. Instead of a width, the
    largest one from s on is used. These do not grow with s, so that their sum over n rounds is largest if all arms are
    played equally often.

    >>> from surefooted.bandits import budget_needed, regret_of_ucb
    >>> budget_needed(regret_of_ucb(n_arms=2), alpha=0.5, baseline_mean=0.8).baseline_rounds
    1298

    - `n_arms`: how many arms there are.
    - `delta`: the probability with which the bound may fail.
    - `r_max`: the largest reward.
    """
    return partial(_widths, n_arms=n_arms, delta=delta, r_max=r_max)


def _widths(n: Floats, n_arms: int, delta: float, r_max: float) -> Floats:
    """The sum of the widths of n rounds, for each n."""
    rounds = np.arange(int(np.max(n, initial=1)))
    s = np.maximum(rounds, 1.0)  # how often an arm may have been played before
    width = np.minimum(2 * np.sqrt(2 * np.log(max(n_arms - 1, 1) * s**3 / delta) / s), 1.0)
    width[0] = 1.0
    largest = np.maximum.accumulate(width[::-1])[::-1]
    return np.asarray(r_max * np.cumsum(largest[rounds // n_arms])[np.asarray(n, dtype=np.int64) - 1])


class Reduction(Guard):
    """Plays what any bandit algorithm proposes as soon as its regret, as bounded beforehand, is paid for.

    >>> import surefooted as sf
    >>> ucb = sf.bandits.ConservativeUCB(n_arms=2, alpha=1, confidence=sf.bandits.wu)
    >>> bound = sf.bandits.regret_of_ucb(n_arms=2)
    >>> agent = sf.bandits.Reduction(ucb, regret=bound, alpha=0.1, baseline_mean=0.5, sigma=0.5)
    >>> arm = agent.act().action
    >>> agent.observe(arm, reward=1.0)

    - `learner`: the algorithm, as for `SamplePath`.
    - `regret`: R, for an array of numbers of rounds: with probability 1 - δ, the mean rewards of the learner's first n
      rounds are at most this much below those of the best arms, for all n. The condition holds with probability 1 - δ.
    - `alpha`, `baseline_mean`, `unit`, `tolerance`, `allowance`, `floor`, `checkpoints`: as for `SamplePath`.
    - `sigma`, `delta`: the baseline's rewards are σ-sub-Gaussian (1/2 does for rewards in [0, 1]), to check its mean;
      a right one is called wrong with probability at most δ / 10.
    """

    def __init__(
        self,
        learner: Any,
        *,
        regret: Regret,
        alpha: float,
        baseline_mean: float | None = None,
        sigma: float = 0.5,
        delta: float = 0.05,
        unit: str = "",
        tolerance: float = 0.0,
        allowance: float = 0.0,
        floor: float | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        amounts = {"alpha": alpha, "tolerance": tolerance, "allowance": allowance, "floor": floor}
        faults: list[str] = (
            [] if callable(regret) else [f"regret must be a function of the number of rounds, not {regret!r}"]
        )
        super().__init__(learner, baseline_mean, amounts | {"checkpoints": checkpoints}, sigma, delta, unit, faults)
        self.regret = regret
        self.saved = self.tolerance.allowance  # what may be lost so far

    def _after(self, mean: float) -> float:
        ahead, gained = self._until_checkpoint(mean)
        return self.saved + mean - self._owed_for(mean) + ahead * gained - self._spent(self.obeyed + 1)

    def _spent(self, n: int) -> float:
        """What the learner's first n rounds may have lost, compared with the best arms."""
        return float(np.asarray(self.regret(np.array([float(n)]))).item()) if n else 0.0

    @property
    def _now(self) -> float:
        return self.saved - self._spent(self.obeyed)

    def _faults(self, asked: Guarded, reward: float) -> list[str]:
        return []

    def _count(self, asked: Guarded, reward: float) -> None:
        self.saved += asked.mean - self._owed_for(asked.mean)

    def arguments(self) -> dict[str, Any]:
        """What it was built with, and what is known of the learner."""
        return super().arguments() | {"regret": self.regret}

    def _contents(self) -> dict[str, Any]:
        return super()._contents() | {"saved": self.saved}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.saved = state["saved"]
