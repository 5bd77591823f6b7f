"""The rules that every agent, learner and problem keeps, as checks to run on your own.

Each check raises an AssertionError that says which rule is broken. `make` must return a new object each time, built
with the same arguments and the same seed.

    >>> import surefooted as sf
    >>> from surefooted.testing import check_agent, check_problem
    >>> check_problem(lambda: sf.problems.gridworld(slip=0.1))
    >>> problem = sf.problems.gridworld(slip=0.1)
    >>> check_agent(lambda: sf.UCBVI(problem.space, problem.horizon), problem, steps=50)
"""

from surefooted.testing.agents import check_agent, check_decisions, check_refusals, check_restoring, check_simulation
from surefooted.testing.bounds import check_learner, check_promise
from surefooted.testing.live import Live, same
from surefooted.testing.problems import check_problem

__all__ = [
    "Live",
    "check_agent",
    "check_decisions",
    "check_learner",
    "check_problem",
    "check_promise",
    "check_refusals",
    "check_restoring",
    "check_simulation",
    "same",
]
