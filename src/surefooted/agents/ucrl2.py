"""UCRL2 (Jaksch, Ortner & Auer 2010), optionally with the dynamic episode rule of Ouyang et al. (2017).

Step numbers are those of the paper's Fig. `cucrl`; a conservative agent adds steps 4 and 5.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefooted import planning
from surefooted.agents import wording
from surefooted.agents.agent import Decision
from surefooted.agents.average import UNLIMITED, AveragePlayer, Episode
from surefooted.agents.learner import AverageLearner
from surefooted.knowledge.knowledge import Knowledge
from surefooted.planning import Plan
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Space


class UCRL2Learner(AverageLearner):
    """Proposes the policy that is best in the best plausible MDP. For its parameters see `Learner`."""

    def propose(self, plausible: Plausible, t: int) -> Plan:
        """The optimistic policy for an episode that begins after t steps, to r_max / sqrt(t + 1)."""
        return planning.optimistic_gain(plausible, self.space.r_max / np.sqrt(t + 1))  # step 3


class UCRL2(AveragePlayer[UCRL2Learner]):
    """Optimism: each episode plays the policy that is best in the best plausible MDP.

    An episode ends when the visits of some pair have doubled (a new pair: after one visit).

    Parameters
    ----------
    space : the states and their actions
    dynamic : end an episode also when it has lasted one step longer than the one before it, so that T_k <= T_{k-1} + 1
    seed : of the random numbers that a randomised policy needs
    options : those of the learner: delta, confidence, bounded, knowledge (see `Learner`)

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> run = sf.simulate(problem, sf.UCRL2(problem.space, delta=0.1), steps=500, seed=0)
    >>> run.steps
    500

    """

    def __init__(
        self, space: Space, *, dynamic: bool = False, seed: int | np.random.Generator = 0, **options: Any
    ) -> None:
        super().__init__(UCRL2Learner(space, **options), seed)
        self.dynamic = dynamic
        self.last_length = 0  # T_{k-1}

    def begin(self, s: int) -> None:
        """The run begins in s, or goes on there after a reset: an optimist may be moved."""
        if self.begun:
            self.state = self.space.check_state(s)
        else:
            super().begin(s)

    def trust(self, knowledge: Knowledge | None) -> None:
        """Use this knowledge (or none) from now on, whatever was contradicted before."""
        self.learner.trust(knowledge)

    def next_episode(self) -> Episode:
        """Steps 1 to 3 and 6 to 8 of Fig. `cucrl`."""
        if self.decisions:
            self.last_length = self.t - self.decisions[-1].t
        contradictions = self.learner.compare()
        plan = self.learner.propose(self.learner.plausible(), self.t)  # steps 2 and 3
        left = self.last_length + 1 if self.dynamic else UNLIMITED  # step 7
        policy, reason = self.policies.id_of(plan.policy), wording.best_gain(plan.upper, contradictions)
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
