"""An agent that plays whatever a learner for average reward proposes, without a certificate."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from surefooted.agents import wording
from surefooted.agents.agent import Decision
from surefooted.agents.average import UNLIMITED, AveragePlayer, Episode
from surefooted.agents.in_use import exclusive
from surefooted.agents.learner import AverageLearner
from surefooted.knowledge.knowledge import Knowledge

A = TypeVar("A", bound=AverageLearner)


class AverageExplorer(AveragePlayer[A]):
    """Plays what its learner proposes in every episode.

    An episode ends when the visits of some pair have doubled (a new pair: after one visit).

    Parameters
    ----------
    learner : an `AverageLearner`
    dynamic : end an episode also when it has lasted one step longer than the one before it, so that T_k <= T_{k-1} + 1
    seed : of the random numbers that a randomised policy needs

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> agent = sf.agents.AverageExplorer(sf.agents.UCRL2Learner(problem.space))
    >>> sf.simulate(problem, agent, steps=100).steps
    100

    """

    def __init__(self, learner: A, *, dynamic: bool = False, seed: int | np.random.Generator = 0) -> None:
        super().__init__(learner, seed)
        self.dynamic = dynamic
        self.last_length = 0  # T_{k-1}

    @exclusive
    def begin(self, s: int) -> None:
        """The run begins in s, or goes on there after a reset: who proves nothing may be moved."""
        self._catch_up()
        if self.begun:
            self.state = self.space.check_state(s)
        else:
            super().begin(s)

    @exclusive
    def trust(self, knowledge: Knowledge | None) -> None:
        """Use this knowledge (or none) from now on, whatever was contradicted before."""
        self.learner.trust(knowledge)

    def next_episode(self) -> Episode:
        """Steps 1 to 3 and 6 to 8 of Fig. `cucrl`."""
        if self.decisions:
            self.last_length = self.t - self.decisions[-1].t
        if self.state is not None:
            self.learner.locate(self.state)
        contradictions = self.learner.compare()
        plan = self.learner.propose(self.learner.plausible(), self.t)  # steps 2 and 3
        left = self.last_length + 1 if self.dynamic else UNLIMITED  # step 7
        policy, reason = self.policies.id_of(plan.policy), self.learner.reason(plan) + wording.not_used(contradictions)
        decision = Decision("optimistic", reason, t=self.t, policy=policy, length=left)
        return Episode(plan.policy, decision, left)  # step 1: ν_k = 0, played while ν_k < N_k^+

    def arguments(self) -> dict[str, Any]:
        """What it was built with."""
        return super().arguments() | {"dynamic": self.dynamic}

    def _contents(self) -> dict[str, Any]:
        return super()._contents() | {"last_length": self.last_length}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.last_length = state["last_length"]
