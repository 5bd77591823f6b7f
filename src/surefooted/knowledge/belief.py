"""The set of an agent's own counts, kept up to date, and what it makes of what was declared beforehand."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import whole_numbers
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.knowledge.knowledge import Knowledge
from surefooted.knowledge.mechanics import Noise, NoiseCounts
from surefooted.sets.confidence import KINDS, Confidence
from surefooted.sets.incremental import Following
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Floats, Ints

AS_BUILT = "as built"  # the knowledge that the agent was built with


class Belief:
    """The set of counts that go on growing: after more steps, only the rows of the pairs they visited are made anew.

    Equal to asking `confidence` again, and much faster where rows depend on their own counts alone; others are asked
    again. What `current` returned before may have changed. With `knowledge` the set is the smaller one that it makes,
    until the first observation that contradicts it: from then on it is the one that the data alone make.
    """

    def __init__(
        self, counts: Counts, confidence: Confidence, delta: float, knowledge: Knowledge | None = None
    ) -> None:
        if not 0 < delta < 1:
            raise InvalidInput("no such confidence", [f"delta {delta} must lie strictly between 0 and 1"])
        self.confidence, self.counts, self.delta = confidence, counts, delta
        self.knowledge: Knowledge | None = None
        self.noise: NoiseCounts | None = None  # if the mechanics observe it
        self._found: list[str] = []
        self._following: Following | None = None
        self._asked: dict[str, tuple[int, Ints, Plausible]] = {}
        self.trust(knowledge)
        self._built_with = knowledge

    def trust(self, knowledge: Knowledge | None, begun: bool = False) -> None:
        """Believe this from now on, whatever was contradicted before; `begun` if steps are under way to be counted."""
        if knowledge is not None:
            if knowledge.space != self.counts.space:
                fault = f"it is of {knowledge.space}, the agent on {self.counts.space}"
                raise InvalidInput("this knowledge cannot be used", [fault])
            knowledge.using(self.confidence)  # raises if it is not made of intervals
        mechanics = None if knowledge is None else knowledge.mechanics
        if mechanics is None or not mechanics.observed:
            self.noise = None
        elif self.noise is None or self.noise.mechanics is not mechanics:
            if self.counts.total or begun:
                fault = "its noise is told with each step, and the steps counted so far came without"
                raise InvalidInput("this knowledge comes too late", [fault])
            self.noise = NoiseCounts(mechanics)
        self.knowledge, self._found = knowledge, []
        self._asked.pop("informed", None)

    def plausible(self) -> Plausible:
        """The set now."""
        if self.knowledge is not None and not self._found:
            informed = self._again("informed", self._inform)
            if not self._found:
                return informed
        if self._following is not None:
            self._following.follow()
            return self._following
        kind = KINDS.get(self.confidence)
        if kind is None:
            return self._again("plain", lambda: self.confidence(self.counts, self.delta))
        self._following = Following(kind, self.counts, self.delta)
        return self._following

    def _again(self, name: str, make: Any) -> Plausible:
        """What was made last, or if more was counted since, another."""
        added, visits = self.counts.added, self.counts.visits
        last = self._asked.get(name)
        if last is None or last[0] != added or last[1] is not visits:
            last = self._asked[name] = (added, visits, make())
        return last[2]

    def _inform(self) -> Plausible:
        """The set of what is known; notes what data and declaration no longer agree on."""
        assert self.knowledge is not None
        plausible, found = self.knowledge.read(self.confidence, self.counts, self.delta, self.noise)
        self._found = found
        return plausible

    def first_contradiction(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None = None) -> int:
        """The first of these steps that cannot be if what was declared is true; -1 if there is none."""
        if self.knowledge is None or self._found:
            return -1
        first = self.knowledge.first_contradiction(pairs, rewards, next_states)
        if noise is not None and self.noise is not None:
            where = self.noise.mechanics.leads_to(pairs % self.counts.space.n_pairs, noise)
            lost = np.flatnonzero(where != next_states)
            if lost.size and (first < 0 or lost[0] < first):
                first = int(lost[0])
        return first

    def notice(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None = None) -> bool:
        """Compare steps, by the rows of the counts, with what was declared: whether one contradicts it. It is kept."""
        i = self.first_contradiction(pairs, rewards, next_states, noise)
        if i < 0 or self.knowledge is None:
            return False
        step = slice(i, i + 1)
        found = self.knowledge.contradictions(pairs[step], rewards[step], next_states[step])
        if noise is not None and self.noise is not None:
            k = pairs[step] % self.counts.space.n_pairs
            found += self.noise.mechanics.contradictions(k, noise[step], next_states[step])
        self._found = [fault.partition(": ")[2] for fault in found]  # which of the steps is of no use later
        return True

    @property
    def contradictions(self) -> list[str]:
        """Found so far."""
        if self.knowledge is not None:
            self.plausible()
        return list(self._found)

    def until_contradiction(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None = None) -> int:
        """Steps up to and including the first contradiction."""
        i = self.first_contradiction(pairs, rewards, next_states, noise)
        return len(pairs) if i < 0 else i + 1

    def count(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None = None) -> bool:
        """Count steps."""
        self.counts.add_checked(pairs, rewards, next_states)
        self.count_noise(pairs, noise)
        return self.notice(pairs, rewards, next_states, noise)

    def note(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None = None) -> bool:
        """Compare."""
        return self.notice(pairs, rewards, next_states, noise)

    def count_noise(self, pairs: Ints, noise: ArrayLike | None) -> None:
        """Count the noise that steps came with."""
        if self.noise is not None:
            assert noise is not None
            self.noise.add_steps(pairs % self.counts.space.n_pairs, noise)

    def check_noise(self, pair: int, noise: Noise | None) -> Ints | None:
        """The noise of one step as an array [1, C], if it is given where it is expected and nowhere else."""
        if self.noise is None:
            if noise is not None:
                fault = "no mechanics that observe their noise were declared, and noise is given"
                raise InvalidInput("this step cannot be counted", [fault])
            return None
        if noise is None:
            fault = "the mechanics observe their noise: give it with each step, observe(s, a, r, s_next, noise=...)"
            raise InvalidInput("this step cannot be counted", [fault])
        faults: list[str] = []
        column = np.atleast_2d(whole_numbers("noise", noise, faults))
        if faults:
            raise InvalidInput("this step cannot be counted", faults)
        NoiseCounts(self.noise.mechanics).add_steps(np.array([pair]), column)  # raises if it is impossible
        return column

    def state_dict(self) -> dict[str, Any]:
        """What it has noticed, and the noise it was told."""
        noise = None if self.noise is None else self.noise.state_dict()
        trusted: Any = AS_BUILT if self.knowledge is self._built_with else self.knowledge
        return {"contradictions": list(self._found), "noise": noise, "trusted": trusted}

    @classmethod
    def from_state_dict(
        cls,
        counts: Counts,
        confidence: Confidence,
        delta: float,
        knowledge: Knowledge | None,
        state: Mapping[str, Any],
    ) -> "Belief":
        """Remember what `state_dict` returned."""
        self = cls(Counts(counts.space, counts.bounded, counts.stages), confidence, delta, knowledge)
        self.counts = counts
        if isinstance(state["trusted"], str):
            self.knowledge = self._built_with
        else:  # `trust` had said otherwise
            self.knowledge = state["trusted"]
        mechanics = None if self.knowledge is None else self.knowledge.mechanics
        self.noise = NoiseCounts(mechanics) if mechanics is not None and mechanics.observed else None
        self._found = list(state["contradictions"])
        if state["noise"] is not None and self.noise is not None:
            self.noise = NoiseCounts.from_state_dict(self.noise.mechanics, state["noise"])
        return self
