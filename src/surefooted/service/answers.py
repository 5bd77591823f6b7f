"""What the service answers, as types: decisions with the names of states and actions, outcomes in the user's unit."""

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict

from surefooted.live import lines
from surefooted.live.advisor import Advisor
from surefooted.live.decision import Decision
from surefooted.live.outcomes import Outcome
from surefooted.live.store import Event
from surefooted.service.tokens import Token


class Open(BaseModel):
    """A type whose objects may hold more than it names."""

    model_config = ConfigDict(extra="allow")


class Problem(BaseModel):
    """An error (RFC 9457): `title` is refused, `faults` are all the reasons, `hint` is what to do."""

    type: str
    title: str
    status: int
    detail: str
    faults: list[str] = []
    hint: str = ""


class Done(BaseModel):
    """What was asked for was done; `event` is the last event of the journal."""

    event: int


class Answered(BaseModel):
    """A decision: the fields of `surefooted.live.Decision`, and the names of its state and of what is proposed."""

    id: int
    site: str
    key: str
    state: int
    state_name: str
    action: int
    label: str
    role: str
    deposit: float | None
    balance: float | None
    reason: str
    time: str
    mode: str
    status: str
    proposed: int | None
    proposed_name: str | None
    departs: bool
    would_depart: bool
    deadline: str | None
    unit: str


class OutcomeTold(BaseModel):
    """What is known of a decision; amounts in the user's unit."""

    decision: int
    status: str
    played: int | None
    reward: float | None
    next_state: int | None
    next_state_name: str | None
    guardrails: dict[str, float | None] | None
    expired: bool
    corrected: bool
    complete: str | None


class Listed(Answered):
    """A decision and what came of it."""

    outcome: OutcomeTold


class Decisions(BaseModel):
    """A page of decisions; `next` is the address of the next page."""

    decisions: list[Listed]
    next: str | None


class EventTold(BaseModel):
    """One line of the journal."""

    event: int
    time: str
    kind: str
    words: str
    body: dict[str, Any]


class Journal(BaseModel):
    """A page of the journal; `next` is the address of the next page, and `last` the last event of the store."""

    events: list[EventTold]
    next: str | None
    last: int


class Site(BaseModel):
    """A site."""

    name: str
    mode: str
    paused: str | None
    closed: bool


class Sites(BaseModel):
    """A page of sites."""

    sites: list[Site]
    next: str | None


class Described(BaseModel):
    """A deployment: what a client needs to ask and to read answers."""

    id: int
    name: str
    fingerprint: str
    space: dict[str, Any]
    alpha: float
    delta: float
    guardrails: list[str]
    inherits: str


class Deployments(BaseModel):
    """The names of the deployments, and the last event of the store."""

    deployments: list[str]
    event: int


class TokenTold(BaseModel):
    """A token, without its secret."""

    name: str
    role: str
    sites: list[dict[str, str | None]] | None
    created: str
    expires: str | None
    revoked: str | None


class TokenMade(TokenTold):
    """A new token with its secret, which is shown this once."""

    token: str


class Tokens(BaseModel):
    """All tokens."""

    tokens: list[TokenTold]


class Verified(BaseModel):
    """What `verify` found."""

    events: int
    decisions: int
    faults: list[str]
    is_whole: bool


def decision(advisor: Advisor, made: Decision) -> dict[str, Any]:
    """A decision as JSON."""
    space, proposed = advisor.space, made.proposed
    names: dict[str, Any] = {"state_name": space.state_words(made.state), "unit": space.unit}
    names["proposed_name"] = None if proposed is None else space.action_words(proposed)
    return asdict(made) | names


def outcome(advisor: Advisor, found: Outcome) -> dict[str, Any]:
    """What is known of a decision, as JSON."""
    space, rails = advisor.space, advisor.definition.rules.guardrails
    guards = None
    if found.guards is not None:
        told = zip(rails, found.guards, strict=True)
        guards = {rail.name: None if value is None else rail.told(value) for rail, value in told}
    return {
        "decision": found.decision, "status": found.status, "guardrails": guards, "next_state": found.next_state,
        "played": None if found.played is None else int(space.pair_action[found.played]),
        "reward": None if found.reward is None else float(space.money.earned(found.reward)),
        "next_state_name": None if found.next_state is None else space.state_words(found.next_state),
        "expired": found.lost, "corrected": found.corrected, "complete": found.complete_at,
    }  # fmt: skip


def event(advisor: Advisor, sites: list[str], found: Event) -> dict[str, Any]:
    """An event as JSON, with a sentence for people."""
    said = lines.in_words(found, advisor.space, sites, advisor.definition.rules.guardrails)
    return {"event": found.n, "time": found.at, "kind": found.kind, "words": said, "body": found.body}


def token(found: Token) -> dict[str, Any]:
    """A token as JSON, without its secret."""
    sites = None if found.sites is None else [{"deployment": d, "site": s} for d, s in found.sites]
    told = {"name": found.name, "role": found.role, "sites": sites, "created": found.created}
    return told | {"expires": found.expires, "revoked": found.revoked}
