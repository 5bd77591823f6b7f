"""What all checks share: an agent that plays one step at a time, and whether two states are equal."""

import pickle
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from surefooted.agents.average import AveragePlayer
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.problems.problem import Problem
from surefooted.tables.policy import Policy


class Live:
    """An agent that plays a problem one step at a time.

    - `agent`: an agent that has not begun.
    - `problem`: what it plays.
    - `seed`: of the problem's random numbers.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> live = sf.testing.Live(sf.UCRL2(problem.space), problem, seed=0)
    >>> live.play(10)
    >>> len(live.history)
    10
    """

    def __init__(self, agent: Any, problem: Problem, seed: int) -> None:
        self.agent, self.problem, self.rng = agent, problem, np.random.default_rng(seed)
        self.s, self.left = -1, 0  # steps left until the next beginning
        self.history: list[tuple[Any, ...]] = []

    def begin_if_due(self) -> None:
        """Begin the run, or the next episode, if it is time to."""
        if self.left == 0:
            self.s = self.problem.start
            self.left = horizon_of(self.agent, self.problem) or -1
            self.agent.begin(self.s)

    def step(self) -> None:
        """Play one step."""
        self.begin_if_due()
        decision = self.agent.act(self.s)
        pair = self.problem.space.pair(self.s, decision.action)
        r, s_next = self.problem.mdp.draw(self.rng, pair)
        self.agent.observe(self.s, decision.action, r, s_next)
        self.history.append((pair, r, s_next, decision.role))
        self.s, self.left = s_next, self.left - 1

    def play(self, steps: int) -> None:
        """Play some steps."""
        for _ in range(steps):
            self.step()


def horizon_of(agent: Any, problem: Problem) -> int | None:
    """The number of steps after which an agent begins again; None if it plays one long run."""
    if isinstance(agent, EpisodicPlayer):
        return agent.horizon
    return None if isinstance(agent, AveragePlayer) else problem.horizon


def same(a: Any, b: Any) -> bool:
    """Whether two states are equal to the last digit.

    - `a`, `b`: what `state_dict` of an agent returned.

    >>> import surefooted as sf
    >>> a, b = (sf.UCBVI(sf.Space.full(2, 2), 3).state_dict() for _ in range(2))
    >>> sf.testing.same(a, b)
    True
    """
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.shape(a) == np.shape(b) and np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f")
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if is_dataclass(a) and type(a) is type(b) and not isinstance(a, Policy):
        return all(same(getattr(a, field.name), getattr(b, field.name)) for field in fields(a))
    return bool(a == b)


def state_of(agent: Any) -> Any:
    """A copy of the agent's state."""
    return pickle.loads(pickle.dumps(agent.state_dict()))


def require(holds: bool, sentence: str) -> None:
    """Raise an AssertionError that says which rule is broken, unless it holds."""
    if not holds:
        raise AssertionError(sentence)
