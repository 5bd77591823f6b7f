"""Two arms, one of which is drawn: how a round can try an arm and yet earn almost what the baseline does, on average.

Let L be a proved lower bound on the mean of an arm, M one on the mean of its partner, and let at least D be owed on
average in the round. The arm may be drawn with any probability p for which p L + (1 - p) M >= D.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefooted.agents.agent import Decision
from surefooted.certificates.tolerance import Tolerance


@dataclass(frozen=True, slots=True)
class MixedDecision(Decision):
    """A decision that drew one of two arms, its action: `tried` with probability `chance`, and else `partner`."""

    tried: int = -1
    partner: int = -1
    chance: float = 1.0

    @property
    def lottery(self) -> tuple[tuple[int, float], ...]:
        """The arms and their probabilities."""
        return ((self.tried, self.chance), (self.partner, 1 - self.chance))


def lottery(decision: Decision) -> Sequence[tuple[int, float]]:
    """The arms that a decision could have drawn, and their probabilities, if it says so as `MixedDecision` does."""
    return getattr(decision, "lottery", ((decision.action, 1.0),))


def most_chance(lower: float, partner: float, owed: float) -> float:
    """The largest p in [0, 1] with p lower + (1 - p) partner >= owed; 0 if there is none.

    >>> most_chance(lower=0.0, partner=0.5, owed=0.375)
    0.25
    """
    if lower >= owed:
        return 1.0
    if partner < owed:
        return 0.0
    return (partner - owed) / (partner - lower)


def most_chance_beside(lower: float, baseline: tuple[float, float], tolerance: Tolerance) -> float:
    """The largest p that is safe whichever mean in the interval `baseline` the partner, the baseline itself, has.

    With m the mean of the baseline, p lower + (1 - p) m - owed(m) is convex in m: its slope rises by α where m passes
    the floor. So its least value over an interval is at an end, or at the floor.
    """
    low, high = baseline
    means = (low, high, min(max(tolerance.floor, low), high))
    return min(most_chance(lower, m, float(tolerance.owed(np.asarray(m), 1))) for m in means)
