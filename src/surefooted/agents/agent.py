"""What every agent can do, and what it says when it acts."""

from dataclasses import dataclass
from typing import Literal, Protocol

Role = Literal["baseline", "optimistic"]


@dataclass(frozen=True)
class Decision:
    """An action, and why: `budget` is the proved margin that the agent may spend, if it keeps one."""

    action: int
    role: Role
    reason: str
    budget: float | None = None


class Agent(Protocol):
    """Learns from one stream of experience, one step at a time."""

    def begin(self, s: int) -> None:
        """A new episode (or the only one) begins in s; no transition led there."""

    def act(self, s: int) -> Decision:
        """What to play in s. Changes nothing: asking again gives the same answer."""

    def observe(self, s: int, a: int, r: float, s_next: int) -> None:
        """Playing a in s earned r and led to s_next."""
