"""What learns: it counts what happened, keeps the set of plausible MDPs, proposes policies, and saves itself.

A learner does not play. UCRL2, PSRL, UCBVI and EULER play what theirs proposes; CUCRL2 and CUCB-VI first ask a
certificate.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from surefooted.agents import wording
from surefooted.agents.identity import Restorable
from surefooted.certificates.shares import delta_faults
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.knowledge.belief import Belief
from surefooted.knowledge.knowledge import Knowledge
from surefooted.planning import Plan
from surefooted.sets.confidence import Confidence, likelihood, named
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Floats, Ints, Space


class Learner(Restorable):
    """Counts, and what they make an agent believe. A subclass adds `propose`.

    Parameters
    ----------
    space : the states and their actions
    delta : the probability with which the set of plausible MDPs may ever exclude the true one
    confidence : how the set is made of the counts, a function of `surefooted.confidence` or its name
    bounded : whether every reward lies in the range of the space; if not, only Hoeffding's interval for sub-Gaussian
        noise is valid
    knowledge : what is known beforehand; it makes the set smaller until an observation contradicts it
    stages : the number of stages that have dynamics of their own

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> learner = sf.agents.UCRL2Learner(problem.space, delta=0.1, confidence="bernstein")
    >>> learner.counts.total, learner.contradictions
    (0, [])

    """

    every_step: ClassVar[bool] = False  # whether a proposal holds for one step only

    def __init__(
        self,
        space: Space,
        *,
        delta: float = 0.05,
        confidence: Confidence | str = likelihood,
        bounded: bool = True,
        knowledge: Knowledge | None = None,
        stages: int = 1,
    ) -> None:
        if faults := delta_faults(delta):
            raise InvalidInput("no such agent", faults)
        self.space, self.delta, self.confidence = space, delta, named(confidence)
        self.counts = Counts(space, bounded, stages)
        self.belief = Belief(self.counts, self.confidence, delta, knowledge)

    @property
    def bounded(self) -> bool:
        """Whether every reward must lie in the range of the space."""
        return self.counts.bounded

    @property
    def contradictions(self) -> list[str]:
        """What was observed that contradicts what was declared; empty while all is well."""
        return self.belief.contradictions

    def plausible(self) -> Plausible:
        """The set of plausible MDPs now."""
        return self.belief.plausible()

    def compare(self) -> list[str]:
        """What contradicts what was declared, which is kept until `trust`; agents begin each episode with this."""
        return self.belief.compare()

    def locate(self, s: int) -> None:
        """An episode is about to be planned in s; most learners propose for every state and need not know."""

    def learn(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None = None) -> None:
        """Count steps that are known to be possible; rewards are counted from `low` (`tables.money`).

        `noise` [n, C] is the noise of the steps, for mechanics that observe it.
        """
        self.belief.count(pairs, rewards, next_states, noise)

    def trust(self, knowledge: Knowledge | None, begun: bool = False) -> None:
        """Use this knowledge (or none) from now on; `begun` says that steps not yet counted are under way."""
        self.belief.trust(knowledge, begun)

    def arguments(self) -> dict[str, Any]:
        """What its bounds depend on, by name; saved states name it. A subclass adds the arguments of its own."""
        own = {name: getattr(self, name) for name in ("delta", "confidence", "bounded")}
        stages, knowledge = self.counts.stages, self.belief.built_with
        return (
            {"class": type(self).__qualname__, "space": self.space} | own | {"stages": stages, "knowledge": knowledge}
        )

    def bookmark(self) -> Callable[[], None]:
        """A function that undoes what `propose` changes from now on: called if planning fails after a proposal.

        A subclass whose proposals change what it remembers, such as random numbers, extends it.
        """
        return _nothing

    def _contents(self) -> dict[str, Any]:
        """Everything it has learnt; a subclass adds what it remembers beside the counts."""
        return {"counts": self.counts.state_dict(), "belief": self.belief.state_dict()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Remember what `_contents` returned: replace what was learnt, and write into none of it."""
        self.counts = Counts.from_state_dict(self.space, state["counts"])
        own = (self.counts, self.confidence, self.delta, self.belief.built_with)
        self.belief = Belief.from_state_dict(*own, state["belief"])


def _nothing() -> None:
    """There is nothing to undo."""


class AverageLearner(Learner, ABC):
    """A learner for average reward; a subclass says what it proposes. For its parameters see `Learner`.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> class Hasty(sf.agents.AverageLearner):
    ...     def propose(self, plausible, t):
    ...         return sf.planning.optimistic_gain(plausible, epsilon=0.1)
    >>> agent = sf.agents.AverageExplorer(Hasty(problem.space))
    >>> sf.simulate(problem, agent, steps=100).steps
    100
    """

    @abstractmethod
    def propose(self, plausible: Plausible, t: int) -> Plan:
        """The policy to explore with after t steps, given the set of plausible MDPs."""

    def reason(self, plan: Plan) -> str:
        """Why an agent plays what was proposed, as a sentence."""
        return wording.best_gain(plan.upper, self.space)
