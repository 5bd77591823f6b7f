"""What the page of a site, or of a deployment, shows: accounts, decisions, what was learnt, the forecast."""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from surefooted.live import lines
from surefooted.live.advisor import Advisor
from surefooted.live.decision import from_event
from surefooted.live.feasibility import Feasibility, feasibility
from surefooted.live.machine import Machine
from surefooted.live.tracks import Reading
from surefooted.service.context import Context
from surefooted.service.pages_fleet import balance, questions
from surefooted.service.pages_rendering import link

DECISIONS = 25  # of a page
LOOKED = 5_000  # decisions that are looked through for departures, for one page
STATES = 60  # rows of the table of what was learnt
TABLE = 24  # rows of the table that says what the chart shows
FORECASTS: WeakKeyDictionary[Advisor, Feasibility] = WeakKeyDictionary()  # a deployment never changes
NEVER = 10**9  # decisions: a forecast of that many means never
Columns = dict[str, list[float]]  # of a track


class Part(NamedTuple):
    """Which decisions of a site: the newest `before` a number, all or `departures` only."""

    before: int | None = None
    departures: bool = False


def site(held: Context, advisor: Advisor, name: str, part: Part) -> dict[str, Any]:
    """The page of a site, with a part of its decisions."""
    with held.store.lock:
        machine = advisor.machine()
        i = advisor._site(machine, name)
        where, facts = machine.sites[i], machine.tracks.sites[i]
        expects, left = where.expects, balance(machine, i)
        told = about(advisor, machine, i) | {
            "site": name, "mode": machine.mode_of(i), "paused": where.paused, "closed": where.closed,
            "facts": facts, "balance": "–" if left is None else advisor.space.amount(left),
            "expects": None if expects is None else advisor.space.state_words(expects),
            "overdue": [n for n, of in machine.tracks.overdue().items() if of == i],
            "waiting_here": [n for n in questions(advisor, machine) if machine.fleet.open[n].site == i],
        }  # fmt: skip
    return told | _decisions(held, advisor, i, name, part)


def deployment(held: Context, advisor: Advisor) -> dict[str, Any]:
    """The page of a deployment."""
    with held.store.lock:
        machine = advisor.machine()
        events = machine.tracks.people[-TABLE:][::-1]
        told = about(advisor, machine, None) | {
            "mode": machine.mode, "paused": machine.paused, "sites": len(machine.sites), "last": machine.n,
            "outside": machine.outside[-5:], "overdue": list(machine.tracks.overdue()), "open": len(machine.fleet.open),
            "decisions_made": machine.fleet.t, "waiting": len(questions(advisor, machine)),
            "departures": sum(each.departures for each in machine.tracks.sites),
        }  # fmt: skip
        names = [each.name for each in machine.sites]
    rails = advisor.definition.rules.guardrails
    found = [held.store.event(n) for n in events]
    said = [(event.n, event.at, lines.in_words(event, advisor.space, names, rails)) for event in found]
    return told | {"events": said}


def about(advisor: Advisor, machine: Machine, site: int | None) -> dict[str, Any]:
    """What both pages show; called with the lock."""
    alarm = machine.fleet.alarm
    return {
        "deployment": advisor.name, "contradictions": machine.fleet.contradictions,
        "alarm": None if alarm is None else lines.alarm(alarm, advisor._alarm_since(machine)),
        "since": "" if machine.fleet.drift is None else machine.fleet.drift.since or "",
        "paused_all": machine.paused, "accounts": _accounts(advisor, machine, site),
        "learnt": _learnt(advisor, machine), "forecast": _forecast(advisor, machine, site),
    }  # fmt: skip


def keys(machine: Machine, site: int | None) -> list[tuple[int, int]]:
    """The accounts of a site, or those that all sites share; the reward's first."""
    found = [key for key in machine.tracks.accounts if key[0] == -1 or key[0] == site]
    return sorted(found, key=lambda key: (key[1], key[0]))


def chart(advisor: Advisor, machine: Machine, site: int | None) -> list[dict[str, Any]]:
    """The points of each chart; called with the lock."""
    return [
        {"name": _name(advisor, machine, key), "unit": _unit(advisor, key)}
        | machine.tracks.accounts[key].until(machine.tracks.now(machine, *key))
        for key in keys(machine, site)
    ]


def _name(advisor: Advisor, machine: Machine, key: tuple[int, int]) -> str:
    names = ["reward", *(rail.name for rail in advisor.definition.rules.guardrails)]
    where = "all sites together" if key[0] < 0 else machine.sites[key[0]].name
    return f"{where}, {names[key[1]]}" if len(names) > 1 else where


def _unit(advisor: Advisor, key: tuple[int, int]) -> str:
    return advisor.space.unit if key[1] == 0 else ""


def _accounts(advisor: Advisor, machine: Machine, site: int | None) -> list[dict[str, Any]]:
    """Each account in words and as a table."""
    found = []
    for key in keys(machine, site):
        now = machine.tracks.now(machine, *key)
        columns = machine.tracks.accounts[key].until(now)
        shown = advisor.space.amount if key[1] == 0 else "{:.4g}".format
        told = {"summary": _summary(columns, now, shown), "rows": _table(columns, shown)}
        found.append({"name": _name(advisor, machine, key)} | told)
    return found


def _summary(columns: Columns, now: Reading, shown: Any) -> str:
    """What a chart shows, for those who do not see it."""
    low, departures = min(columns["low"]), int(sum(columns["departures"]))
    where = "It was never below the floor of zero" if low >= 0 else "It has been below the floor of zero"
    alarms = int(sum(columns["alarms"]))
    return (
        f"The balance is {shown(now.margin)} now; {shown(now.deposits)} more is put down for "
        f"open decisions. {where}; its lowest value was {shown(low)} and its highest {shown(max(columns['high']))}. "
        f"{departures} {'departure was' if departures == 1 else 'departures were'} played or put to a person"
        + (f", {alarms} {'alarm' if alarms == 1 else 'alarms'}." if alarms else ".")
    )


def _table(columns: Columns, shown: Any) -> list[dict[str, Any]]:
    """The same as a table: stretches of the curve, each with its lowest balance."""
    size = len(columns["n"])
    width, rows = max(1, -(-size // TABLE)), []
    for begin in range(0, size, width):
        part = {name: column[begin : begin + width] for name, column in columns.items()}
        rows.append({
            "at": part["at"][-1], "balance": shown(part["margin"][-1]), "lowest": shown(min(part["low"])),
            "deposits": shown(max(part["deposits"])), "departures": int(sum(part["departures"])),
        })  # fmt: skip
    return rows


def _learnt(advisor: Advisor, machine: Machine) -> dict[str, Any]:
    """Today's policy against what the learner would propose now, state by state; the states seen most often first."""
    space, fleet = advisor.space, machine.fleet
    visits = np.asarray(fleet.learner.counts.visits)
    seen = np.add.reduceat(visits, np.asarray(space.pair_ptr[:-1]))  # [S]
    order = (
        np.arange(space.n_states) if space.n_states <= STATES else np.sort(np.argsort(-seen, kind="stable")[:STATES])
    )
    proposed = fleet._proposed
    rows = []
    for s in order.tolist():
        today = [
            k for k in range(int(space.pair_ptr[s]), int(space.pair_ptr[s + 1])) if _plays(fleet.baseline.policy, k)
        ]
        k = proposed[s] if proposed else -1
        rows.append({
            "state": space.state_words(s), "visits": int(seen[s]), "differs": bool(proposed) and k not in today,
            "today": ", ".join(space.action_words(int(space.pair_action[j])) for j in today),
            "today_visits": int(sum(visits[j] for j in today)),
            "proposed": space.action_words(int(space.pair_action[k])) if k >= 0 else None,
            "proposed_visits": int(visits[k]) if k >= 0 else None,
        })  # fmt: skip
    differs = sum(bool(row["differs"]) for row in rows)
    return {"rows": rows, "states": space.n_states, "steps": int(visits.sum()), "proposes": bool(proposed),
            "differs": differs, "why": fleet.reason}  # fmt: skip


def _plays(policy: Any, pair: int) -> bool:
    """Whether a policy ever plays a pair."""
    if policy.is_deterministic:
        return int(policy.pair[policy.space.pair_state[pair]]) == pair
    return float(policy.weights[pair]) > 0


def _forecast(advisor: Advisor, machine: Machine, site: int | None) -> dict[str, Any]:
    """What was forecast when the deployment was created, and what happened."""
    found = FORECASTS.get(advisor)
    if found is None:
        found = FORECASTS[advisor] = feasibility(advisor.definition)
    own = advisor.definition.rules.accounts == "own"
    facts = None if site is None else machine.tracks.sites[site]
    made = facts.decisions if own and facts is not None else machine.fleet.t
    first = facts.first if facts is not None else machine.tracks.first
    of = -1 if not own or site is None else site
    tracks, amount = machine.tracks, advisor.space.amount
    now = tracks.now(machine, of, 0) if (of, 0) in tracks.accounts else None
    return {
        "pays_in": amount(found.pays_in), "allowance": amount(found.allowance), "reserve": amount(found.reserve),
        "deposit": amount(found.deposit), "soonest": found.soonest if found.soonest < NEVER else None,
        "latest": found.latest if found.latest < NEVER else None, "own": own, "made": made,
        "first": first + 1 if first >= 0 else None,
        "paid_in": None if now is None else amount(now.paid_in),
        "balance": None if now is None else amount(now.margin),
    }  # fmt: skip


def _decisions(held: Context, advisor: Advisor, i: int, name: str, part: Part) -> dict[str, Any]:
    """A page of decisions, the newest first, with reason and outcome."""

    def address(before: int | None, departures: bool) -> str:
        show = "departures" if departures else None
        return link("/site", deployment=advisor.name, site=name, show=show, before=before)

    numbers, following = _numbers(held, advisor, i, part)
    return {
        "decisions": [decision(advisor, n, name) for n in numbers], "part": part, "looked": LOOKED,
        "older": None if following is None else address(following, part.departures),
        "newest": None if part.before is None else address(None, part.departures),
        "all": address(None, False), "only": address(None, True),
    }  # fmt: skip


def _numbers(held: Context, advisor: Advisor, i: int, part: Part) -> tuple[list[int], int | None]:
    """The decisions of a page, and before which one the next page begins, if there is one."""
    before = part.before or 2**62
    if not part.departures:
        query = "SELECT n FROM decisions WHERE deployment = ? AND site = ? AND n < ? ORDER BY n DESC LIMIT ?"
        found = [int(n) for (n,) in held.store.read(query, advisor.id, i, before, DECISIONS + 1)]
        return found[:DECISIONS], found[DECISIONS - 1] if len(found) > DECISIONS else None
    query = (
        'SELECT e.n, e.body LIKE \'%"departs":true%\', e.body LIKE \'%"status":"waiting"%\' FROM decisions d '
        "JOIN events e ON e.n = d.n WHERE d.deployment = ? AND d.site = ? AND d.n < ? ORDER BY d.n DESC LIMIT ?"
    )
    rows, found = held.store.read(query, advisor.id, i, before, LOOKED), list[int]()
    for n, departs, asked in rows:
        if departs or (asked and any(event.kind == "approve" for event in held.store.about(n))):
            found.append(int(n))
        if len(found) == DECISIONS:
            return found, found[-1]
    return found, int(rows[-1][0]) if len(rows) == LOOKED else None


def decision(advisor: Advisor, n: int, site: str) -> dict[str, Any]:
    """A decision and what came of it, in the user's words and unit."""
    space, store = advisor.space, advisor.store
    event, after = store.event(n), store.about(n)
    made, found = from_event(site, event, space, after), advisor.known(n)
    money: Any = space.money
    state, complete = None, found.complete_at is not None
    if found.next_state is not None:
        state = space.state_words(found.next_state)
    answered = [each for each in after if each.kind in ("approve", "reject")]
    return {
        "n": n, "at": made.time, "key": made.key, "state": space.state_words(made.state), "label": made.label,
        "status": made.status, "reason": made.reason, "departs": made.departs, "mode": made.mode, "site": site,
        "proposed": None if made.proposed is None else space.action_words(made.proposed),
        "deposit": None if made.deposit is None else space.amount(made.deposit),
        "played": None if found.played is None else space.action_words(int(space.pair_action[found.played])),
        "earned": None if found.reward is None else space.amount(float(money.earned(found.reward))),
        "led": state, "complete": complete, "lost": found.lost, "deadline": made.deadline,
        "by": [(each.kind, each.body.get("who"), each.body.get("note")) for each in answered],
    }  # fmt: skip
