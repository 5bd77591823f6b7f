"""A margin over time, and where it violates its condition."""

from dataclasses import dataclass, field

import numpy as np

from surefooted.errors import InvalidInput
from surefooted.pages import Shown
from surefooted.tables.space import Bools, Floats

MARGIN_ROUNDING = 1e-11  # a margin is a violation if it is below minus this, times what the baseline earned so far


@dataclass(frozen=True, repr=False)
class Margin(Shown):
    """The expected reward of a run and of the baseline so far, and the exact margin: per step or per episode.

    All amounts are in the unit of the problem's rewards. With checkpoints, the condition is kept only where `kept_at`.
    """

    expected: Floats
    baseline: Floats
    margin: Floats  # expected - (1 - α) baseline, or what `certificates.tolerance` makes of it
    kept_at: Bools | None = field(default=None, kw_only=True)  # None: at every step or episode

    def _facts(self) -> dict[str, object]:
        least, last = float(self.margin.min()), float(self.margin[-1])
        return {"length": self.margin.size, "violations": self.violations, "smallest": least, "last": last}

    @property
    def violated(self) -> Bools:
        """At which steps (or episodes) the condition is violated."""
        size = np.maximum(np.maximum(np.abs(self.baseline), np.abs(self.expected)), 1.0)
        below = np.asarray(self.margin < -MARGIN_ROUNDING * size)
        return below if self.kept_at is None else below & self.kept_at

    @property
    def violations(self) -> int:
        """The number of violations."""
        return int(self.violated.sum())

    @property
    def first_violation(self) -> int | None:
        """The step (or episode) of the first violation, counted from 1; None if there is none."""
        return int(np.argmax(self.violated)) + 1 if self.violations else None

    def violation_fraction(self, first: int = 1, last: int | None = None) -> float:
        """The share of steps first .. last (counted from 1, both included) at which the condition is violated."""
        window = self.violated[max(first - 1, 0) : last]
        if first < 1 or (last is not None and last < first) or window.size == 0:
            raise InvalidInput("this window is empty", [f"no steps from {first} to {last} among {self.violated.size}"])
        return float(window.mean())
