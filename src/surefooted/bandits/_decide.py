"""The rule that conservative bandits share: play the optimistic arm if the margin stays proved, else the baseline."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from surefooted.agents import wording
from surefooted.agents.agent import Decision


def keep_to_baseline(baseline: int, t: int, contradictions: Sequence[str]) -> Decision:
    """The baseline after t rounds, since what was declared of it is wrong: nothing can be proved any more."""
    return Decision("baseline", wording.contradicted(contradictions), baseline, t, length=1)


class Question(NamedTuple):
    """Whether to play the arm with the largest upper bound after t rounds."""

    optimist: int
    baseline: int
    upper: float  # a bound on the mean of the arm `optimist`
    allowed: bool  # whether it may be played
    after: float  # the proved margin if it is played
    t: int
    spot_check: bool  # whether the baseline must be played, to compare it with what was declared


def decide(question: Question, terms: Mapping[str, float]) -> Decision:
    """What to play. The sum of `terms` is the proved margin now."""
    optimist, baseline, upper, allowed, after, t, spot_check = question
    budget = sum(terms.values())
    if allowed and optimist != baseline and spot_check:
        return Decision("baseline", wording.SPOT_CHECK, baseline, t, length=1, budget=budget, terms=terms)
    if allowed and optimist != baseline:
        reason = f"Explores arm {optimist}: its mean may be {upper:.4g}, and at least {after:.4g} stays saved up."
        return Decision("optimistic", reason, optimist, t, length=1, budget=budget, terms=terms)
    reason = f"arm {optimist} could cost {-after:.4g} more than is saved up."
    if optimist == baseline:
        reason = f"no arm could be better, its own mean may be {upper:.4g}."
    return Decision("baseline", f"Plays the baseline: {reason}", baseline, t, length=1, budget=budget, terms=terms)
