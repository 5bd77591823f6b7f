"""The set of an agent's own counts, kept up to date, and what it makes of what was declared beforehand."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from surefooted.confidence import KINDS, Confidence
from surefooted.counts import Counts
from surefooted.errors import InvalidTable
from surefooted.following import Following
from surefooted.knowledge import Knowledge
from surefooted.mechanics import Noise, NoiseCounts
from surefooted.plausible import Plausible
from surefooted.space import Floats, Ints


class LiveSet:
    """The set of counts that go on growing: after more steps, only the rows of the pairs they visited are made anew.

    Equal to asking `confidence` again, and much faster where rows depend on their own counts alone; others are asked
    again. What `current` returned before may have changed. With `knowledge` the set is the smaller one that it makes,
    until the first observation that contradicts it: from then on it is the one that the data alone make.
    """

    def __init__(
        self, confidence: Confidence, counts: Counts, delta: float, knowledge: Knowledge | None = None
    ) -> None:
        if not 0 < delta < 1:
            raise InvalidTable("no such confidence", [f"delta {delta} must lie strictly between 0 and 1"])
        self.confidence, self.counts, self.delta = confidence, counts, delta
        self.knowledge: Knowledge | None = None
        self.noise: NoiseCounts | None = None  # if the mechanics observe it
        self.contradictions: list[str] = []
        self._following: Following | None = None
        self._asked: dict[str, tuple[int, Ints, Plausible]] = {}
        self.trust(knowledge)

    def trust(self, knowledge: Knowledge | None) -> None:
        """Believe this from now on, whatever was contradicted before."""
        if knowledge is not None:
            if knowledge.space != self.counts.space:
                fault = f"it is of {knowledge.space}, the agent on {self.counts.space}"
                raise InvalidTable("this knowledge cannot be used", [fault])
            knowledge.using(self.confidence)  # raises if it is not made of intervals
        mechanics = None if knowledge is None else knowledge.mechanics
        if mechanics is None or not mechanics.observed:
            self.noise = None
        elif self.noise is None or self.noise.mechanics is not mechanics:
            if self.counts.added:
                fault = "its noise is told with each step, and the steps counted so far came without"
                raise InvalidTable("this knowledge comes too late", [fault])
            self.noise = NoiseCounts(mechanics)
        self.knowledge, self.contradictions = knowledge, []
        self._asked.pop("informed", None)

    def current(self) -> Plausible:
        """The set now."""
        if self.knowledge is not None and not self.contradictions:
            informed = self._again("informed", self._inform)
            if not self.contradictions:
                return informed
        kind = KINDS.get(self.confidence)
        if kind is None:
            return self._again("plain", lambda: self.confidence(self.counts, self.delta))
        if self._following is None:
            self._following = Following(kind, self.counts, self.delta)
        self._following.follow()
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
        self.contradictions = found
        return plausible

    def first_contradiction(self, pairs: Ints, rewards: Floats, next_states: Ints) -> int:
        """The first of these steps that cannot be if what was declared is true; -1 if there is none."""
        if self.knowledge is None or self.contradictions:
            return -1
        return self.knowledge.first_contradiction(pairs, rewards, next_states)

    def notice(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: ArrayLike | None = None) -> bool:
        """Compare steps, by the rows of the counts, with what was declared: whether one contradicts it first."""
        if self.knowledge is None or self.contradictions:
            return False
        found = []
        if self.knowledge.first_contradiction(pairs, rewards, next_states) >= 0:
            found = self.knowledge.contradictions(pairs, rewards, next_states)
        if not found and noise is not None and self.noise is not None:
            found = self.noise.mechanics.contradictions(pairs % self.counts.space.n_pairs, noise, next_states)
        self.contradictions = [fault.partition(": ")[2] for fault in found]  # which of the steps is of no use later
        return bool(found)

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
                raise InvalidTable("this step cannot be counted", [fault])
            return None
        if noise is None:
            fault = "the mechanics observe their noise: give it with each step, observe(s, a, r, s_next, noise=...)"
            raise InvalidTable("this step cannot be counted", [fault])
        column = np.atleast_2d(np.asarray(noise))
        NoiseCounts(self.noise.mechanics).add_steps(np.array([pair]), column)  # raises if it is impossible
        return column

    def state_dict(self) -> dict[str, Any]:
        """What it has noticed, and the noise it was told."""
        noise = None if self.noise is None else self.noise.state_dict()
        return {"contradictions": list(self.contradictions), "noise": noise}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Remember what `state_dict` returned."""
        self._asked.clear()
        self._following = None
        self.contradictions = list(state["contradictions"])
        if state["noise"] is not None and self.noise is not None:
            self.noise = NoiseCounts.from_state_dict(self.noise.mechanics, state["noise"])
