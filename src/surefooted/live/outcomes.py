"""What the journal says of each decision: what was played, what came of it, and what is still missing."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from surefooted.live.store import Event


@dataclass
class Outcome:
    """A decision and all that was told of it, in the order of the journal; numbers as they are counted inside."""

    decision: int
    time: str
    body: dict[str, Any]  # of the "ask" event
    status: str
    pair: int  # that was to be played
    played: int | None = None  # something else, if it was
    reward: float | None = None
    next_state: int | None = None
    guards: list[float] | None = None
    lost: bool = False
    corrected: bool = False
    complete_at: str | None = None

    @property
    def pair_played(self) -> int:
        """The pair that was played."""
        return self.pair if self.played is None else self.played

    def is_complete(self, guardrails: int) -> bool:
        """Whether all of it is known."""
        numbers = self.guards is not None or not guardrails
        return self.reward is not None and self.next_state is not None and numbers

    def take(self, event: Event, guardrails: int) -> None:
        """Take the effect of an event about this decision."""
        body = event.body
        if event.kind in ("reject", "lapse"):
            self.status, self.pair = event.kind + "ed" if event.kind == "reject" else "lapsed", self.body["base"]
        elif event.kind == "approve":
            self.status = "approved"
        elif event.kind == "expire":
            self.lost = True
        elif event.kind in ("tell", "correct"):
            if event.kind == "correct":
                self.corrected, self.lost = True, False
                self.played = self.reward = self.next_state = self.guards = None
            for name in ("played", "reward", "next_state", "guards"):
                if body.get(name) is not None:
                    setattr(self, name, body[name])
        elif event.kind == "ask":  # the next one at the same site
            self.next_state = body["state"]
        if self.complete_at is None and self.is_complete(guardrails):
            self.complete_at = event.at


def indexed(
    n: int, deployment: int, kind: str, body: dict[str, Any]
) -> tuple[tuple[int, int, int, str] | None, tuple[int, int] | None]:
    """What stands in the index for an event: the decision that it is, and which decision and event belong together."""
    if kind == "ask":
        return (n, deployment, body["site"], body["key"]), (int(body["leads"]), n) if body["leads"] else None
    return None, (int(body["decision"]), n) if "decision" in body else None


def begin(event: Event) -> Outcome:
    """The outcome of an "ask" event, of which nothing is known yet."""
    return Outcome(event.n, event.at, event.body, event.body["status"], event.body["pair"])


def outcomes(events: Iterable[Event], guardrails: int) -> Iterator[Outcome]:
    """The outcome of every decision among these events, in the order of the decisions."""
    found: dict[int, Outcome] = {}
    for event in events:
        if event.kind == "ask":
            if event.body["leads"] in found:
                found[event.body["leads"]].take(event, guardrails)
            found[event.n] = begin(event)
        elif (n := event.body.get("decision")) in found:
            found[n].take(event, guardrails)
    yield from found.values()
