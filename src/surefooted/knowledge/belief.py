"""What an agent believes: the set of plausible MDPs of its counts, and what contradicts what it was told."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from surefooted.arrays import whole_numbers
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput, shown
from surefooted.knowledge import wording
from surefooted.knowledge.contradictions import impossible_steps
from surefooted.knowledge.informed_set import InformedSet, Reading
from surefooted.knowledge.knowledge import Knowledge
from surefooted.knowledge.mechanics import NoiseValue
from surefooted.knowledge.noise_counts import NoiseCounts
from surefooted.sets.confidence import KINDS, Confidence, likelihood, simplified_bernstein
from surefooted.sets.incremental import IncrementalSet, RecomputedSet
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Floats, Ints

AS_BUILT = "as built"  # stands in saved states for the knowledge that the belief was built with


def contradictions(counts: Counts, knowledge: Knowledge | None, delta: float = 0.05) -> list[str]:
    """Where steps contradict what is declared; a true declaration is contradicted with probability `delta` at most.

    Nothing is compared if the mechanics need the noise of each step.
    """
    if knowledge is None or (knowledge.mechanics is not None and knowledge.mechanics.observed):
        return []
    return Belief(counts, likelihood, delta, knowledge).compare()


class Belief:
    """What an agent believes: the set of plausible MDPs of its counts, narrowed by what was declared beforehand.

    Parameters
    ----------
    counts : what was observed; they go on growing
    confidence : how the set is made of the counts, a function of `surefooted.confidence`
    delta : the probability with which the set may ever exclude the true MDP
    knowledge : what was declared beforehand, if anything
    noise : the noise of the steps in `counts`, if there are any and the mechanics observe it

    Once an observation contradicts the knowledge, the set is the one that the data alone make, until `trust` says what
    to believe instead. For sets of intervals, only the rows visited since the last time are computed again.

    """

    def __init__(
        self,
        counts: Counts,
        confidence: Confidence,
        delta: float,
        knowledge: Knowledge | None = None,
        noise: NoiseCounts | None = None,
    ) -> None:
        if not 0 < delta < 1:
            raise InvalidInput("no such confidence", [f"delta {delta} must lie strictly between 0 and 1"])
        self.counts, self.confidence, self.delta = counts, confidence, delta
        kind = KINDS.get(confidence)
        self._of_data = (
            RecomputedSet(confidence, counts, delta) if kind is None else IncrementalSet(kind, counts, delta)
        )
        self.noise = noise
        self.trust(knowledge)
        self.built_with = knowledge

    def trust(self, knowledge: Knowledge | None, begun: bool = False) -> None:
        """Believe this from now on, and forget all contradictions; `begun` if steps not yet counted are under way."""
        noise, informed = None, None
        if knowledge is not None:
            if not isinstance(knowledge, Knowledge):
                hint = "Make it with sf.Knowledge(space, rewards=..., successors=..., mechanics=...)."
                raise InvalidInput("this knowledge cannot be used", [f"it is {shown(knowledge)}, no Knowledge"], hint)
            if knowledge.space != self.counts.space:
                fault = f"it is of {knowledge.space}, the agent on {self.counts.space}"
                raise InvalidInput("this knowledge cannot be used", [fault])
            if knowledge.mechanics is not None and knowledge.mechanics.observed:
                noise = self.noise
                if noise is None or noise.mechanics is not knowledge.mechanics:
                    if self.counts.total or begun:
                        fault = "it needs the noise of every step, and the steps so far came without"
                        raise InvalidInput("this knowledge comes too late", [fault])
                    noise = NoiseCounts(knowledge.mechanics)
            informed = InformedSet(knowledge.declared, self.confidence, self.counts, self.delta, noise)
        self.knowledge, self.noise, self._informed = knowledge, noise, informed
        self._noticed: list[str] = []  # contradictions, kept until the next call
        self._read_at: tuple[int, Ints | None] = (-1, None)  # steps in the counts at the last reading, and their visits

    def plausible(self) -> Plausible:
        """The set now; what it returned before may change."""
        if self._informed is None or self.contradictions:
            return self._of_data.current()
        return self._read(self._informed)[0].plausible

    @property
    def intervals(self) -> IncrementalSet | None:
        """The set, if nothing was declared and it is one of intervals; None otherwise."""
        return self._of_data if self.knowledge is None and isinstance(self._of_data, IncrementalSet) else None

    def from_data(self) -> Plausible | None:
        """The set that the data alone make; None if it is not known to hold the true MDP."""
        if not self.counts.bounded or self.confidence is simplified_bernstein:
            return None
        return self._of_data.current()

    @property
    def contradictions(self) -> list[str]:
        """What contradicts what was declared: what was noticed since `trust`, or else where the counts do not fit.

        Asking changes nothing.
        """
        found = self._noticed
        if self._informed is not None and not found:
            found = self._read(self._informed)[1]
        return found.copy()

    def compare(self) -> list[str]:
        """What contradicts what was declared, which is kept from now on: an agent asks at the head of each episode."""
        self._noticed = self.contradictions
        return self._noticed.copy()

    def _read(self, informed: InformedSet) -> tuple[Reading, list[str]]:
        """What the counts say now, and where they contradict what was declared; read once for the same counts."""
        counts = self.counts
        if self._read_at[0] != counts.added or self._read_at[1] is not counts.visits:
            reading = informed.read()
            self._reading = (reading, wording.conflicts(informed.declared, counts, reading))
            self._read_at = (counts.added, counts.visits)
        return self._reading

    def notice(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None = None) -> int:
        """The first of these steps that contradicts what was declared, which is kept; -1 if none does.

        `pairs` [n] are rows of the counts: pair k of stage h is row h K + k. `noise` is [n, C]. Steps are not compared
        if nothing was declared, or if a contradiction was noticed before.
        """
        if self.knowledge is None or self._noticed:
            return -1
        declared, told = self.knowledge.declared, noise if self.noise is not None else None
        found = impossible_steps(declared, pairs, rewards, next_states, told)
        first = found.first
        if first >= 0:
            self._noticed = wording.impossible_step(declared, found, first, pairs, rewards, next_states, noise)
        return first

    def count(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None = None) -> None:
        """Count steps that are known to be possible, and their noise; for the arrays see `notice`."""
        self.counts._add_checked(pairs, rewards, next_states)
        if self.noise is not None:
            assert noise is not None
            self.noise.add_steps(pairs % self.counts.space.n_pairs, noise)

    def check_noise(self, pair: int, noise: NoiseValue | None) -> Ints | None:
        """The noise of one step as an array [1, C]; an error if it is missing, not expected or impossible."""
        faults: list[str] = []
        if self.noise is None and noise is None:
            return None
        if self.noise is None:
            faults.append("no mechanics that observe their noise were declared, and noise is given")
        elif noise is None:
            faults.append(
                "the mechanics observe their noise: give it with each step, observe(s, a, r, s_next, noise=...)"
            )
        else:
            column = np.atleast_2d(whole_numbers("noise", noise, faults))
        if faults or self.noise is None:
            raise InvalidInput("this step cannot be counted", faults)
        self.noise.check(np.array([pair]), column)
        return column

    def state_dict(self) -> dict[str, Any]:
        """What was noticed, the noise that was counted, and what is trusted; the counts save themselves."""
        noise = None if self.noise is None else self.noise.state_dict()
        trusted: Any = AS_BUILT if self.knowledge is self.built_with else self.knowledge
        return {"contradictions": self._noticed.copy(), "noise": noise, "trusted": trusted}

    @classmethod
    def from_state_dict(
        cls,
        counts: Counts,
        confidence: Confidence,
        delta: float,
        knowledge: Knowledge | None,
        state: Mapping[str, Any],
    ) -> Self:
        """The belief that `state_dict` described, on the counts of that time; `knowledge` is what it was built with."""
        trusted, noise = state["trusted"], None
        if isinstance(trusted, str):
            trusted = knowledge
        if state["noise"] is not None:
            noise = NoiseCounts.from_state_dict(trusted.mechanics, state["noise"])
        belief = cls(counts, confidence, delta, trusted, noise)
        belief.built_with, belief._noticed = knowledge, list(state["contradictions"])
        return belief
