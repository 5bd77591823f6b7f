"""How much an agent may compute: proving takes time, and time is rationed in proportion to what was played.

Nothing here touches safety. An agent that may not ask its certificate now plays the baseline, which is always safe.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, log2
from typing import Any

from surefooted.certificates.replay import SWEEPS
from surefooted.data.counts import Counts

HEAD_START = 50_000  # steps: the compute budget begins as if this many had been played
PER_STEP = 20_000  # transitions that questions to the certificate may look at, for each step played
REVIEWS_PER_STEP = 100_000  # transitions that reviews of the past may look at, for each step played
LONGEST = 2e8  # transitions that one question may look at
EXPLORED_MORE = 0.02  # a review is due when the steps explored have grown by this share since the last one
PLAYED_MORE = 0.1  # or all steps by this share
CALM = 5  # CUCB-VI: a review is also due when all episodes have grown by CALM x `patience`


@dataclass
class Effort:
    """The compute budget of CUCRL2: transitions that its questions and reviews have looked at, about.

    With `always` a review is due before every refusal, as in the paper, if there is time for it.
    """

    always: bool
    asked: float = 0.0  # by all questions
    reviewed: float = 0.0  # by all reviews, at most
    played_then: int = 0  # steps at the last review
    explored_then: int = 0  # steps explored at the last review
    _added_up: tuple[int, int] = field(default=(0, 0), init=False, repr=False)  # segments added up, and their sweeps

    def longest_question(self, counts: Counts) -> int:
        """How many steps one question may be about."""
        return int(LONGEST / _sweep_cost(counts, sorts=True))

    def charge(self, sweeps: int, counts: Counts) -> None:
        """A question took that many sweeps."""
        self.asked += sweeps * _sweep_cost(counts, sorts=True)

    def charge_review(self, sweeps: int, counts: Counts) -> None:
        """A review took that many sweeps more than it was charged for beforehand."""
        self.reviewed += sweeps * _sweep_cost(counts, sorts=True)

    def rest(self, t: int) -> int:
        """How many steps to play, after t, before there is time for another question; 0 if there is now."""
        if self.asked <= PER_STEP * (t + HEAD_START):
            return 0
        return max(1, ceil(self.asked / PER_STEP) - HEAD_START - t)

    def review_is_due(self, t: int, explored: int, played: Sequence[tuple[int, int]], counts: Counts) -> bool:
        """Whether enough has happened since the last review to prove the past again; then it counts as done.

        `played` is the policy and the length of each segment.
        """
        due = self.always or t >= (1 + PLAYED_MORE) * self.played_then
        if not (due or explored >= (1 + EXPLORED_MORE) * self.explored_then + 1):
            return False
        reviewed = self.reviewed + self._sweeps(played) * _sweep_cost(counts, sorts=False)
        if reviewed > REVIEWS_PER_STEP * t:
            return False
        self.played_then, self.explored_then, self.reviewed = t, explored, reviewed
        return True

    def forget_reviews(self) -> None:
        """Whatever was reviewed must be again."""
        self.played_then = self.explored_then = 0

    def state_dict(self) -> dict[str, Any]:
        """The arguments that build it as it is."""
        return {name: getattr(self, name) for name in ("always", "asked", "reviewed", "played_then", "explored_then")}

    def _sweeps(self, played: Sequence[tuple[int, int]]) -> int:
        """Those of a review of all segments, at most. All but the last no longer change, and are added up once."""
        done, total = self._added_up
        total += sum(min(length, SWEEPS) for _, length in played[done:-1])
        self._added_up = (max(len(played) - 1, 0), total)
        return total + sum(min(length, SWEEPS) for _, length in played[-1:])


def _sweep_cost(counts: Counts, sorts: bool) -> float:
    """Approximate cost of one sweep over the S states, in transitions; sorting adds S log2 S."""
    n = counts.space.n_states
    return n * (1 + counts.n_transitions / counts.space.n_pairs + (log2(n) if sorts else 0.0))


@dataclass
class EpisodeEffort:
    """When CUCB-VI bounds its past again: when it has explored, or played, enough since the last time.

    `patience` is the share by which the explored episodes must have grown; with 0 a review precedes every refusal.
    """

    patience: float
    played_then: int = 0
    explored_then: int = 0

    def review_is_due(self, played: int, explored: int) -> bool:
        """Whether enough has happened since the last review; then it counts as done."""
        calm = played <= (1 + CALM * self.patience) * self.played_then
        if not explored or (calm and explored <= (1 + self.patience) * self.explored_then):
            return False
        self.played_then, self.explored_then = played, explored
        return True

    def state_dict(self) -> dict[str, Any]:
        """The arguments that build it as it is."""
        return {"patience": self.patience, "played_then": self.played_then, "explored_then": self.explored_then}
