"""What all explored episodes (or rounds) earn on average, proved at once from what they did earn.

Given the past, the return G_l of an explored episode l has the mean V^{π_l}(s_l), and it is not negative. So
`martingale` bounds the sum of these means from below, at all times at once. The bound pays ln(1 / δ) once, where a set
of plausible MDPs pays it for every pair. It needs neither a model nor the baseline, only rewards that are not negative.

A guess may be anything that is known before the episode. Guesses are cut at `highest`, so that no return is more than
`highest` below its guess. A smaller `highest` allows larger bets: what the baseline earns is a good choice, since an
episode that earns more than that is no longer what the margin is short of.
"""

import math
from typing import Any, Self

from surefooted.certificates.martingale import SumOfMeans

SOON = 30.0  # sub-Gaussian noise: the bound is tightest after a few times this many rounds
RECENT = 0.2  # the weight of the last episode in the average that the next one is guessed by


class PooledReturns:
    """A lower bound on the sum of the mean returns of all explored episodes, from their returns.

    Parameters
    ----------
    highest : no guess is above it; fixed before the first return is known
    delta : the probability with which the bound may ever fail

    Example
    -------
    >>> pooled = PooledReturns(highest=1.0, delta=0.05)
    >>> for earned in (0.9, 0.7) * 100:
    ...     pooled.add(earned, pooled.guess(place=0, first=0.5), place=0)
    >>> 140 < pooled.lower < 160  # if each earns 0.8 on average, the sum is 160
    True

    """

    def __init__(self, highest: float, delta: float) -> None:
        self.means = SumOfMeans(highest, delta)
        self.recent: dict[int, float] = {}  # what episodes from each start, or rounds with each arm, earned recently

    def guess(self, place: int, first: float) -> float:
        """What the next episode from `place` may earn: what the last ones did; `first` if there was none."""
        return min(self.recent.get(place, first), self.means.below)

    def add(self, earned: float, guess: float, place: int) -> None:
        """An episode from `place` earned that much where `guess` was expected, which was fixed before it began."""
        earned = max(earned, 0.0)  # rounding
        self.means.add(earned, guess, least=0.0)
        average = self.recent.get(place, guess)
        self.recent[place] = average + RECENT * (earned - average)

    @property
    def lower(self) -> float:
        """What the mean returns add up to at least."""
        return self.means.lower

    def state_dict(self) -> dict[str, Any]:
        """What was observed, summed up, and the arguments."""
        return {"means": self.means.state_dict(), "recent": dict(self.recent)} | self.arguments

    @property
    def arguments(self) -> dict[str, float]:
        """What it was built with."""
        return {"highest": self.means.below, "delta": self.means.delta}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> Self:
        """The bound that `state_dict` was taken of."""
        pooled = cls(state["highest"], state["delta"])
        pooled.means, pooled.recent = pooled.means.restored(state["means"]), dict(state["recent"])
        return pooled


def most_luck(n: int, sigma: float, delta: float) -> float:
    """How much n rewards with σ-sub-Gaussian noise can exceed the sum of their means, at all n at once.

    For every λ, exp(λ (η_1 + .. + η_n) - n λ² σ² / 2) is a non-negative supermartingale that begins at 1. So is its
    mixture over λ, normal with mean 0 and variance 1 / (ρ σ²), which is sqrt(ρ / (n + ρ)) exp((η_1 + .. + η_n)² /
    (2 σ² (n + ρ))). By Ville's inequality it reaches 1 / δ with probability at most δ (Robbins 1970).
    """
    return sigma * math.sqrt((n + SOON) * (math.log((n + SOON) / SOON) + 2 * math.log(1 / delta)))
