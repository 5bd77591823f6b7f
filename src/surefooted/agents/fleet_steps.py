"""The decisions of a fleet: what it answers, and what it remembers until an outcome is complete."""

from dataclasses import dataclass, field
from typing import NamedTuple

from surefooted.agents.agent import Role


class Answer(NamedTuple):
    """What the fleet plays at a step, what it would like to play, and what the accounts say to that."""

    pair: int
    role: Role
    reason: str
    proposed: int  # the pair that the learner proposes, -1 if it proposes none
    departs: bool
    would_depart: bool  # whether it departs, or would if it were allowed to
    deposit: float | None
    balance: float | None
    short: tuple[int, float, float] | None = None  # the guardrail that alone does not pay: number, deposit, balance


@dataclass
class Step:
    """A decision whose outcome is not complete, and what the ledgers of its site hold of it."""

    site: int
    s: int
    pair: int
    baseline: int  # the pair that the baseline plays, by its draw
    departs: bool
    explored: bool  # as `BaselineCheck` counts it: the proposal was played, and it is another policy than the baseline
    put: bool = False  # to a person, who may know more than the state
    slots: list[int] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)  # evidence, scaled
    reward: float | None = None
    s_next: int | None = None
    guards: list[float | None] | None = None  # as accounts count them, as far as they are known

    @property
    def is_seen(self) -> bool:
        """Whether anything of the outcome is known."""
        return not (self.reward is None and self.s_next is None and self.guards is None)

    def numbers(self, guardrails: int) -> list[float | None]:
        """The reward and the guardrails, as far as they are known."""
        guards: list[float | None] = [None] * guardrails if self.guards is None else list(self.guards)
        return [self.reward, *guards]


class Seen(NamedTuple):
    """A complete step: what was played, and what came of it; the noise if mechanics observe it."""

    pair: int
    reward: float
    s_next: int
    noise: list[int] | None = None


def merged(old: list[float | None] | None, new: list[float | None] | None) -> list[float | None] | None:
    """Guardrails of which some more are known now."""
    if old is None or new is None:
        return new if old is None else old
    return [before if after is None else after for before, after in zip(old, new, strict=True)]


@dataclass
class Settled:
    """What is needed to take back an outcome: the step, and the terms of its departure in each ledger."""

    step: Step
    played: int  # the pair that was played
    terms: list[tuple[float, float, int] | None]
    lost: bool = False
    noise: list[int] | None = None  # if mechanics observe it


@dataclass
class Site:
    """Where a site began, and whether it has ever departed from the baseline."""

    start: int = -1
    departed: bool = False
