"""UCRL2 (Jaksch, Ortner & Auer 2010), optionally with the dynamic episode rule of Ouyang et al. (2017).

Step numbers are those of the paper's Fig. `cucrl`; `AverageExplorer` has the others, and a conservative agent adds
steps 4 and 5.
"""

from typing import Any

import numpy as np

from surefooted import planning
from surefooted.agents.average_explorer import AverageExplorer
from surefooted.agents.learner import AverageLearner
from surefooted.errors import InvalidInput, argument_faults
from surefooted.planning import Plan
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Space


class UCRL2Learner(AverageLearner):
    """Proposes the policy that is best in the best plausible MDP. For its parameters see `Learner`.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> agent = sf.agents.AverageExplorer(sf.agents.UCRL2Learner(problem.space))
    >>> sf.simulate(problem, agent, steps=100).steps
    100
    """

    def propose(self, plausible: Plausible, t: int) -> Plan:
        """The optimistic policy for an episode that begins after t steps, to r_max / sqrt(t + 1)."""
        return planning.optimistic_gain(plausible, self.space.r_max / np.sqrt(t + 1))  # step 3


class UCRL2(AverageExplorer[UCRL2Learner]):
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
        if faults := argument_faults(options, UCRL2, UCRL2Learner):
            raise InvalidInput("no such agent", faults)
        super().__init__(UCRL2Learner(space, **options), dynamic=dynamic, seed=seed)
