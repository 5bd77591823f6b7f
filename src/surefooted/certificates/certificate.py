"""What an average-reward agent asks a certificate, and what it is told.

The margin after t steps is E[r_1 + .. + r_t | s_1, μ_t] - (1 - α) E[r_1 + .. + r_t | s_1, π_b], with μ_t the policies
played (Eq. `cumrew_condition`). A certificate proves lower bounds on it. They hold on the event that the true MDP is in
every set that was used. The proofs are in docs/guarantees.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from surefooted.data.counts import Counts
from surefooted.sets.plausible import Plausible
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints


@dataclass(frozen=True)
class Past:
    """What was played: from which start, segments of (policy id, steps), and the policies; policy 0 is the baseline."""

    start: int
    segments: Sequence[tuple[int, int]]
    policies: Sequence[Policy]
    t: int = -1  # all steps; added up unless given

    def __post_init__(self) -> None:
        """Add up the steps."""
        if self.t < 0:
            object.__setattr__(self, "t", sum(steps for _, steps in self.segments))

    def since(self, t: int) -> list[tuple[int, int]]:
        """The segments after step t; of the one that it divides, what came after it."""
        recent: list[tuple[int, int]] = []
        missing = self.t - t
        for policy, steps in reversed(self.segments):
            if missing <= 0:
                break
            recent.insert(0, (policy, min(steps, missing)))
            missing -= steps
        return recent

    @property
    def before_fallback(self) -> Self:
        """The past up to the last step that explored; up to the end of the opening if nothing was explored."""
        last, t = len(self.segments), self.t
        while last > 1 and self.segments[last - 1][0] == 0:
            last -= 1
            t -= self.segments[last][1]
        return self if last == len(self.segments) else replace(self, segments=self.segments[:last], t=t)


@dataclass(frozen=True)
class Question:
    """Whether `policy` may be played next for at least `least` steps, and for how many of at most `most`.

    `counts` are those that the set is made of. A certificate with anchors uses them, too.
    """

    plausible: Plausible
    policy: Policy
    past: Past
    least: int
    most: int
    counts: Counts | None = None


@dataclass(frozen=True)
class Offer:
    """How many steps of a policy are proved safe, from a proved budget, and at what cost at most.

    `enough`: at least `question.least` steps are safe. One step more (`one_too_many` in all) could cost `too_much`.
    `terms` adds up to `budget` if that is finite. `sweeps` over the states were made for
    this question; those of proving the past from its first step are not among them.
    """

    enough: bool
    steps: int
    budget: float
    cost: float
    one_too_many: int
    too_much: float
    terms: Mapping[str, float] = field(default_factory=dict)
    sweeps: int = 0


class Certificate(Protocol):
    """What CUCRL2 asks before it explores."""

    def offer(self, question: Question) -> Offer:
        """How many steps of the policy are proved safe, by what was proved before."""

    def review(self, question: Question) -> Offer:
        """The same after proving the past again with today's set."""

    def observe(self, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        """Steps have been played, [n]."""

    def record(self, policy: int, first: int, steps: int, plausible: Plausible) -> None:
        """An episode of a policy has been played: `steps` steps, from step `first` on."""

    def restart(self, plausible: Plausible, past: Past) -> None:
        """Forget everything that was proved with other sets than this one."""

    def bookmark(self) -> Callable[[], None]:
        """A function that undoes everything from now on: called if planning fails."""

    def state_dict(self) -> dict[str, Any]:
        """What it remembers."""

    def restored(self, state: dict[str, Any]) -> Self:
        """A certificate of the same arguments that remembers what `state_dict` returned."""


def bookmark(one: Any, *others: Callable[[], None]) -> Callable[[], None]:
    """A function that gives an object the attributes that it has now, and calls `others`.

    Attributes are given back, not what was written into them.
    """
    kept = one.__dict__.copy()

    def put_back() -> None:
        one.__dict__.update(kept)
        for other in others:
            other()

    return put_back
