"""The rule that conservative bandits share: play the optimistic arm if the margin stays proved, else the baseline."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from surefooted.agents import wording
from surefooted.agents.agent import Decision
from surefooted.certificates.tolerance import Tolerance
from surefooted.tables.money import Money


def keep_to_baseline(baseline: int, t: int, contradictions: Sequence[str]) -> Decision:
    """The baseline after t rounds, since what was declared of it is wrong: nothing can be proved any more."""
    return Decision("baseline", wording.contradicted(contradictions), baseline, t, length=1)


def spot_check(baseline: int, t: int, **proved: Any) -> Decision:
    """The baseline after t rounds, to compare it with what was declared of it."""
    return Decision("baseline", wording.SPOT_CHECK, baseline, t, length=1, **proved)


def bandit_tolerance(*, alpha: Any, faults: list[str], **amounts: Any) -> Tolerance:
    """What a bandit may lose; for bandits α may be 1, which makes them plain UCB."""
    if isinstance(alpha, int | float) and alpha == 1:
        return replace(Tolerance.parse(0.5, faults, **amounts), alpha=1.0)
    return Tolerance.parse(alpha, faults, **amounts)


def first_affordable(
    wishes: Iterable[int], baseline: int, after: Callable[[int], float], allows_all: bool
) -> tuple[int, float]:
    """The first wish that may be played, and the margin that is proved after it; if there is none, the first wish.

    The baseline may always be played; where it is a wish, those after it are not affordable either.
    """
    refused: tuple[int, float] | None = None
    for arm in wishes:
        left = after(arm)
        if arm == baseline:
            return refused or (arm, left)
        if left >= 0 or allows_all:
            return arm, left
        refused = refused or (arm, left)
    assert refused is not None
    return refused


class Question(NamedTuple):
    """Whether to play the arm with the largest upper bound after t rounds."""

    optimist: int
    baseline: int
    upper: float  # a bound on the mean of the arm `optimist`, in the user's unit
    allowed: bool  # whether it may be played
    after: float  # the proved margin if it is played
    t: int
    due: bool  # whether the baseline must be played, to compare it with what was declared
    money: Money = Money()


def decide(question: Question, terms: Mapping[str, float]) -> Decision:
    """What to play. The sum of `terms` is the proved margin now."""
    optimist, baseline, upper, allowed, after, t, due, money = question
    budget = sum(terms.values())
    if allowed and optimist != baseline and due:
        return spot_check(baseline, t, budget=budget, terms=terms)
    if allowed and optimist != baseline:
        left = f"at least {money.amount(after)} stays saved up"
        reason = f"Explores arm {optimist}: its mean may be {money.amount(upper)}, and {left}."
        return Decision("optimistic", reason, optimist, t, length=1, budget=budget, terms=terms)
    reason = f"arm {optimist} could cost {money.amount(-after)} more than is saved up."
    if optimist == baseline:
        reason = f"no arm could be better, its own mean may be {money.amount(upper)}."
    return Decision("baseline", f"Plays the baseline: {reason}", baseline, t, length=1, budget=budget, terms=terms)
