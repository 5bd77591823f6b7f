"""Events in words: one line of the journal for people, in the user's unit, names and calendar."""

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any

from surefooted.agents.fleet_accounts import Guardrail
from surefooted.live.store import Event
from surefooted.tables.space import Space


def date(at: str, zone: tzinfo | None = None) -> str:
    """A time of the journal in a time zone, that of this machine unless given: 2026-11-18 09:30."""
    return datetime.fromisoformat(at).astimezone(zone).strftime("%Y-%m-%d %H:%M")


def alarm(what: str, since: str | None) -> str:
    """What an alarm says, and when the decision was made since which something has changed."""
    return what if since is None else f"{what}, which was made on {date(since)}"


def in_words(event: Event, space: Space, sites: Sequence[str], guardrails: Sequence[Guardrail] = ()) -> str:
    """What an event says, in one sentence."""
    body = event.body
    said: str = _WORDS.get(event.kind, lambda *_: event.kind)(body, space, sites)
    if event.kind in ("tell", "correct") and body.get("guards") is not None:
        numbers = zip(guardrails, body["guards"], strict=False)
        said += "".join(f", {rail.name} {rail.told(value):g}" for rail, value in numbers if value is not None)
    by = f" ({body['who']})" if body.get("who") else ""
    note = f": {body['note']}" if body.get("note") else ""
    outside = " [outside the guarantee]" if body.get("outside_guarantee") else ""
    return said + by + note + outside


def _site(body: dict[str, Any], sites: Sequence[str]) -> str:
    site = body.get("site")
    return "All sites" if site is None else sites[site]


def _ask(body: dict[str, Any], space: Space, sites: Sequence[str]) -> str:
    state, action = space.state_words(body["state"]), space.action_words(body["action"])
    what = f"play {action}."
    if body["status"] == "waiting":
        what = f"may {space.action_words(body['proposed'])} be played?"
    return f"{sites[body['site']]}, {body['key']}, in state {state}: {what} {body['reason']}"


def _outcome(body: dict[str, Any], space: Space) -> str:
    parts = []
    if body.get("played") is not None:
        parts.append(f"{space.action_words(int(space.pair_action[body['played']]))} was played instead")
    if body.get("reward") is not None:
        parts.append(f"earned {space.amount(float(space.money.earned(body['reward'])))}")
    if body.get("next_state") is not None:
        parts.append(f"led to state {space.state_words(body['next_state'])}")
    return ", ".join(parts) or "further numbers"


_WORDS: dict[str, Any] = {
    "deployment": lambda body, *_: (
        f"deployment {body['name']} was created" + (f"; knows {body['inherits']}" if body["inherits"] else "")
    ),
    "site": lambda body, *_: f"site {body['name']} was added",
    "ask": _ask,
    "tell": lambda body, space, _: f"decision {body['decision']}: {_outcome(body, space)}",
    "correct": lambda body, space, _: f"decision {body['decision']} is corrected: {_outcome(body, space)}",
    "expire": lambda body, *_: f"decision {body['decision']}: no more is expected; charged at its worst",
    "approve": lambda body, *_: f"decision {body['decision']}: approved",
    "reject": lambda body, *_: f"decision {body['decision']}: rejected, the baseline is played",
    "lapse": lambda body, *_: f"decision {body['decision']}: nobody answered in time, the baseline is played",
    "relocate": lambda body, space, sites: (
        f"{_site(body, sites)} is in state {space.state_words(body['state'])} now: " + str(body["why"])
    ),
    "pause": lambda body, _, sites: f"{_site(body, sites)}: paused, the baseline is played",
    "resume": lambda body, _, sites: f"{_site(body, sites)}: resumed",
    "close": lambda body, _, sites: f"{_site(body, sites)}: closed",
    "reopen": lambda body, _, sites: f"{_site(body, sites)}: reopened",
    "mode": lambda body, _, sites: f"{_site(body, sites)}: mode {body['mode']}",
    "alarm": lambda body, *_: (
        f"Alarm: {alarm(body['what'], body.get('since_time'))}. The baseline is played until somebody decides (trust)"
    ),
    "trust": lambda body, *_: (
        "go on"
        + ("" if body["keep_since"] is None else f"; keep only decisions made after event {body['keep_since']}")
        + {"keep": "", "as built": "; believe what was declared", "none": "; believe nothing that was declared"}[
            body["knowledge"]
        ]
    ),
}
