"""What every agent can do, and what it says when it acts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from surefooted.codec import record
from surefooted.errors import InvalidInput
from surefooted.tables.space import Space

Role = Literal["baseline", "optimistic"]


@record
@dataclass(frozen=True, slots=True)
class Decision:
    """What an agent plays, and why.

    A decision is made at the beginning of an episode and holds for all of it; `act` adds the `action` of the step.
    `budget` is the margin over (1 - α) of the baseline that was proved at that moment, if the agent keeps one, `terms`
    what it is made of, and `length` the number of steps that the episode may last. `deposit` is what the step could
    cost, if it departs from the baseline and the agent keeps an account.

    - `role`: "baseline" or "optimistic".
    - `reason`: why, as a sentence.
    - `action`: what to play.
    - `t`: how many steps had been played before the episode.
    - `policy`: the number of the policy that the episode plays, among those of the agent.
    - `length`, `budget`, `terms`, `deposit`: as above; None if there is none.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> agent = sf.UCRL2(problem.space)
    >>> agent.begin(0)
    >>> agent.act(0).role
    'optimistic'
    """

    role: Role
    reason: str
    action: int = -1
    t: int = 0
    policy: int = 0
    length: int | None = None
    budget: float | None = None
    terms: Mapping[str, float] = field(default_factory=dict)
    deposit: float | None = None


class Agent(Protocol):
    """Learns from one stream of experience, one step at a time.

    `simulate`, studies and `gym.drive` play everything that has these methods (docs/adding-an-agent.md).

    >>> import surefooted as sf
    >>> class Left:
    ...     def begin(self, s): ...
    ...     def act(self, s): return 0
    ...     def observe(self, s, a, r, s_next): ...
    >>> run = sf.simulate(sf.problems.riverswim(), Left(), steps=50)
    >>> run.steps
    50
    """

    def begin(self, s: int) -> None:
        """A new episode (or the only one) begins in s; no transition led there."""

    def act(self, s: int) -> Decision:
        """What to play in s. Changes nothing: asking again gives the same answer."""

    def observe(self, s: int, a: int, r: float, s_next: int) -> None:
        """Playing a in s earned r and led to s_next."""


def lacking(agent: Any) -> list[str]:
    """What is wrong with an agent that lacks `begin`, `act` or `observe`."""
    missing = [name for name in ("begin", "act", "observe") if not callable(getattr(agent, name, None))]
    return [f"{type(agent).__name__} has no {name}: an agent has begin, act and observe" for name in missing]


def asked(agent: Any, s: int, space: Space) -> tuple[int, Any]:
    """The action that any agent plays in s, and what its `act` returned: a Decision, or the number of an action."""
    said = agent.act(s)
    a, known = getattr(said, "action", said), space.actions(s)
    if isinstance(a, bool) or not isinstance(a, int | np.integer) or a not in known:
        fault = f"state {s}: {type(agent).__name__} plays {said!r}; the actions there are {', '.join(map(str, known))}"
        remedy = "`act` returns a Decision, or the number of an action."
        raise InvalidInput("this action cannot be played", [fault], remedy)
    return int(a), said
