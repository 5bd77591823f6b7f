"""Who may fail how often: one δ, shared between a set of plausible MDPs and what is proved by outcomes.

A condition is proved by the learner's set, by outcomes (an account, or the bound from all returns or rewards), or by
both. Each proof holds on an event of its own. If both are used, the condition holds wherever both events do, so their
shares of δ must add up to δ at most.

    what is used     a learner is built here     a learner with δ_L is given
    one of them      it has all of δ             it has all of δ; for the set, δ is δ_L
    both             outcomes have a fixed       the set has δ_L, outcomes have δ - δ_L: `delta` must be given
                     fraction, the set the rest

The fraction is a half. What only makes a proof by the set tighter has a tenth: anchors (`certificates.anchors`), or the
log of an unknown baseline (`certificates.logged`).

δ is `delta`, or else δ_L, or else `DELTA`. A set that proves nothing, such as that of a learner that only proposes, has
no share. What was declared of a baseline is checked beside all this (`knowledge.baseline_check`): a false alarm breaks
no condition, so it is no part of δ.
"""

from typing import Any, NamedTuple

import numpy as np

from surefooted.errors import InvalidInput

DELTA = 0.05
HALF, FOR_ANCHORS = 0.5, 0.1  # what outcomes have of δ beside a set


def delta_faults(delta: Any) -> list[str]:
    """Why this is no probability of failure."""
    if isinstance(delta, bool) or not isinstance(delta, int | float | np.integer | np.floating):
        return [f"delta {delta!r} must be one number between 0 and 1, as in delta=0.05; give each of several its agent"]
    return [] if 0 < delta < 1 else [f"delta {delta} must lie strictly between 0 and 1"]


class Shares(NamedTuple):
    """δ, what the learner's set has of it, and what outcomes have; 0 if they prove nothing."""

    total: float
    of_set: float
    of_outcomes: float

    @property
    def of_learner(self) -> float:
        """The δ to build a learner with: one whose set proves nothing may have any."""
        return self.of_set or self.total


def share(
    delta: float | None, of_learner: float | None, by_set: bool, by_outcomes: bool, fraction: float = HALF
) -> Shares:
    """The shares of δ for what is used, `by_set` or `by_outcomes` or both; δ_L is `of_learner` if a learner is given.

    Otherwise outcomes have that `fraction` of δ if both are used.
    An error if the shares would add up to more than δ.
    """
    total = delta if delta is not None else DELTA if of_learner is None else of_learner
    if faults := delta_faults(total):
        raise InvalidInput("no such agent", faults)
    of_set = 0.0 if not by_set else total - fraction * total if by_outcomes else total
    if by_set and of_learner is not None:
        of_set = of_learner
        if by_outcomes and total <= of_learner:
            fault = "give a delta for both, more than the learner's"
            faults.append(f"delta {total:g} leaves nothing beside the learner's set: {fault} {of_learner:g}")
        elif not by_outcomes and delta is not None:
            faults.append(f"delta: a learner is given, and the condition may fail as often as its bounds, {of_set:g}")
    if faults:
        raise InvalidInput("no such agent", faults)
    return Shares(total, of_set, total - of_set if by_outcomes else 0.0)
