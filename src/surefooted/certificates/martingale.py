"""A lower bound on a sum of conditional means, at all times at once, from what was observed.

**Theorem.** Let D_1, D_2, .. be random, and let A_i be the mean of D_i given everything before it. Let the guess X_i be
known before D_i is, with D_i - X_i > -c. Let each λ_j be positive and at most 1 / c, and let the weights w_j sum to 1.
Let L_j = sum_i ln(1 + λ_j (D_i - X_i)). Then, with probability at least 1 - δ, for all n at once:

    A_1 + .. + A_n  >=  X_1 + .. + X_n + s,    where s solves  sum_j w_j exp(L_j - λ_j s) = 1 / δ.

**Proof.** Write M_j = exp(L_j - λ_j sum_i (A_i - X_i)). Step i multiplies it by (1 + λ_j (D_i - X_i)) exp(-x), where
x = λ_j (A_i - X_i). Given the past, the mean of that factor is (1 + x) exp(-x), which is at most 1 since 1 + x <=
exp(x). The factor is not negative. So each M_j is a non-negative supermartingale that begins at 1, and so is their
mixture sum_j w_j M_j. By Ville's inequality the mixture reaches 1 / δ at any time with probability at most δ. As long
as it stays below, sum_j w_j exp(L_j - λ_j S) < 1 / δ for S = sum_i (A_i - X_i). The left-hand side decreases in S and
equals 1 / δ at s, hence S > s. ∎

Only a bound from below is needed: D_i may be arbitrarily large. The guess costs nothing in validity; the closer it is
to A_i, the tighter the bound. Bets on bounded means go back to Waudby-Smith & Ramdas (2024), mixtures and Ville's
inequality for all times at once to Robbins (1970) and Howard, Ramdas, McAuliffe & Sekhon (2021). Their bounds from the
sum of squares follow from ln(1 + λ ξ) >= λ ξ - ψ(λ) ξ² (Fan, Grama & Liu 2015), so they are looser.
`benchmarks/martingale.py` compares them.

**One mean.** For values x_i in [0, 1] with mean μ given the past, prod_i (1 + λ (x_i / μ - 1)) is a non-negative
martingale for 0 < λ < 1, and increases in 1 / μ. With ψ = -ln(1 - λ) - λ its logarithm is at least λ (S1 / μ - n) -
ψ (S2 / μ² - 2 S1 / μ + n), S1 and S2 being the sums of x_i and x_i². As long as it stays below x, every 1 / μ is below
the smaller root of ψ S2 u² - (λ + 2 ψ) S1 u + (λ + ψ) n + x = 0: `kernels.martingale.mean_at_least`.
"""

import math
from typing import Any, Self

import numpy as np

from surefooted.arrays import Floats
from surefooted.errors import InvalidInput
from surefooted.kernels.martingale import Bets, place_bets, sum_of_means

BETS = 14  # λ_j: the largest is LARGEST / c, each is half the one before; the smallest serves 10^9 steps
LARGEST = 0.9


def new_bets(below: float) -> Bets:
    """Bets for surprises D_i - X_i that are never below -`below`; bet j has a weight in proportion to 1 / (j + 2).

    Large bets serve few steps and small variances, when the budget is still small. So they get the larger weights.
    """
    j = np.arange(BETS)
    weight = 1 / (j + 2.0)
    lambda_: Floats = np.asarray(LARGEST / below * 0.5**j, dtype=np.float64)
    return Bets(lambda_, np.log(weight / weight.sum()), np.zeros((2, BETS)), np.zeros(2))


class SumOfMeans:
    """A sum of conditional means, bounded from below at all times at once with probability at least 1 - `delta`.

    Parameters
    ----------
    below : c; no observation may be more than this below its guess
    delta : the probability with which the bound may ever fail

    Example
    -------
    >>> bound = SumOfMeans(below=1.0, delta=0.05)
    >>> for outcome in (0.6, 0.4) * 200:
    ...     bound.add(outcome, guess=0.5)
    >>> round(bound.lower, 1)  # the sum of the means is 200 if the means are the guesses
    193.3

    """

    def __init__(self, below: float, delta: float) -> None:
        faults = []
        if not 0 < below < math.inf:
            faults.append(f"below {below} must be positive and finite")
        if not 0 < delta < 1:
            faults.append(f"delta {delta} must lie strictly between 0 and 1")
        if faults:
            raise InvalidInput("no such bound", faults)
        self.below, self.delta = below, delta
        self.bets = new_bets(below)
        self.n = 0
        self.worst = 0.0  # the sum of the least values that were possible

    def add(self, value: float, guess: float = 0.0, least: float | None = None) -> None:
        """Observe `value` where `guess` was expected and nothing below `least` (guess - below) was possible."""
        least = guess - self.below if least is None else least
        if not guess - self.below <= least <= value:
            fault = f"value {value}, least {least}, guess {guess}: guess - {self.below} <= least <= value must hold"
            raise InvalidInput("this observation does not fit", [fault])
        place_bets(self.bets, float(value), float(guess))
        self.worst += least
        self.n += 1

    @property
    def lower(self) -> float:
        """What the means add up to at least."""
        if self.n == 0:
            return 0.0
        return max(self.worst, sum_of_means(self.bets, math.log(1 / self.delta)))

    def state_dict(self) -> dict[str, Any]:
        """What was observed, summed up."""
        bets = {"log_wealth": self.bets.log_wealth.copy(), "guessed": self.bets.guessed.copy()}
        return bets | {"n": self.n, "worst": self.worst}

    def restored(self, state: dict[str, Any]) -> Self:
        """A bound of the same arguments that remembers what `state_dict` returned."""
        other = type(self)(self.below, self.delta)
        other.bets.log_wealth[:], other.bets.guessed[:] = state["log_wealth"], state["guessed"]
        other.n, other.worst = state["n"], state["worst"]
        return other
