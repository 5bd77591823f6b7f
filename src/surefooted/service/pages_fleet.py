"""What the page of the fleet shows: what needs a person first, and a page of sites.

Everything comes from the machines that advisors keep warm, and from index look-ups for the sites on the page: no
request reads a journal.
"""

from dataclasses import dataclass
from typing import Any

from surefooted.live import lines
from surefooted.live.advisor import Advisor
from surefooted.live.machine import Machine
from surefooted.service.context import Context
from surefooted.service.pages_rendering import link

ROWS = 50  # sites of a page
LISTED = 10  # of one kind that are named among what needs a person
SHOWN = ("all", "needs", "live", "approval", "shadow", "paused", "closed")


@dataclass(frozen=True)
class Query:
    """Which sites: whose name holds `q`, of one deployment or all, and of one kind; `page` counts from 1."""

    q: str = ""
    deployment: str = ""
    show: str = "all"
    page: int = 1


@dataclass
class Row:
    """One site of the list."""

    deployment: str
    site: int
    name: str
    mode: str
    paused: str | None
    closed: bool
    waiting: int = 0
    overdue: int = 0
    alarm: bool = False
    contradicted: bool = False
    balance: str = ""
    is_low: bool = False
    last: int = 0
    at: str | None = None
    words: str = ""
    departs: bool = False

    @property
    def rank(self) -> int:
        """What needs a person comes first."""
        return 0 if self.waiting else 1 if self.alarm or self.contradicted else 2 if self.overdue else 3

    @property
    def address(self) -> str:
        """Of the page of the site."""
        return link("/site", deployment=self.deployment, site=self.name)


def fleet(held: Context, query: Query) -> dict[str, Any]:
    """What the page shows."""
    rows, needs, deployments = list[Row](), list[dict[str, Any]](), list[dict[str, Any]]()
    for name in held.store.deployments():
        if (advisor := held.readable(name)) is None:
            words = "it cannot be read by this service, whose log says why"
            needs.append({"rank": 0, "kind": "Unreadable", "deployment": name, "words": words, "link": "/", "sites": [],
                          "more": 0})  # fmt: skip
            continue
        with held.store.lock:
            machine = advisor.machine()
            own = _rows(advisor, machine)
            needs += _needs(advisor, machine)
            deployments.append(_deployment(advisor, machine))
        rows += own
    wanted = [row for row in rows if _matches(row, query)]
    wanted.sort(key=lambda row: row.rank)  # stable: otherwise in the order in which sites were added
    pages = max(1, -(-len(wanted) // ROWS))
    page = min(query.page, pages)
    shown = wanted[(page - 1) * ROWS : page * ROWS]
    _complete(held, shown)
    needs.sort(key=lambda need: int(need["rank"]))
    return {
        "rows": shown, "needs": needs, "deployments": deployments, "query": query, "page": page, "pages": pages,
        "found": len(wanted), "total": len(rows), "kinds": SHOWN,
        "previous": _address(query, page - 1) if page > 1 else None,
        "next": _address(query, page + 1) if page < pages else None,
    }  # fmt: skip


def _address(query: Query, page: int) -> str:
    show = None if query.show == "all" else query.show
    return link("/", q=query.q or None, deployment=query.deployment or None, show=show, page=page)


def _matches(row: Row, query: Query) -> bool:
    if query.q and query.q.casefold() not in row.name.casefold():
        return False
    if query.deployment and query.deployment != row.deployment:
        return False
    if query.show in ("live", "approval", "shadow"):
        return row.mode == query.show
    flags = {"needs": row.rank < 3, "paused": row.paused is not None, "closed": row.closed}
    return flags.get(query.show, True)


def questions(advisor: Advisor, machine: Machine) -> dict[int, str]:
    """The decisions that a person may still answer, and until when; called with the lock."""
    now = advisor.store.now() if machine.waiting else ""
    return {n: deadline for n, deadline in machine.waiting.items() if deadline > now}


def _rows(advisor: Advisor, machine: Machine) -> list[Row]:
    """Every site of a deployment; called with the lock."""
    alarm, contradicted = machine.fleet.alarm is not None, bool(machine.fleet.contradictions)
    rows = [
        Row(advisor.name, i, site.name, machine.mode_of(i), site.paused or machine.paused, site.closed, alarm=alarm,
            contradicted=contradicted, last=machine.tracks.sites[i].last)
        for i, site in enumerate(machine.sites)
    ]  # fmt: skip
    for n in questions(advisor, machine):
        rows[machine.fleet.open[n].site].waiting += 1
    for i in machine.tracks.overdue().values():
        rows[i].overdue += 1
    return rows


def balance(machine: Machine, site: int) -> float | None:
    """What is proved to be left in the tightest account of the reward that a site uses; None before its first decision.

    Called with the lock.
    """
    tracks = machine.tracks
    return min((tracks.now(machine, of, 0).margin for of in (-1, site) if (of, 0) in tracks.accounts), default=None)


def _complete(held: Context, rows: list[Row]) -> None:
    """Add the balance and the last decision of each site that is shown."""
    for row in rows:
        advisor = held.advisor(row.deployment)
        with held.store.lock:
            left = balance(advisor.machine(), row.site)
        row.balance, row.is_low = ("–", False) if left is None else (advisor.space.amount(left), left < 0)
    numbers = [row.last for row in rows if row.last]
    events = {}
    if numbers:
        marks = ", ".join("?" for _ in numbers)
        found = held.store.read(f"SELECT n, at, body FROM events WHERE n IN ({marks})", *numbers)
        events = {n: (at, held.store._parsed(n, body)) for n, at, body in found}
    for row in rows:
        if row.last in events:
            row.at, body = events[row.last]
            space, departs = held.advisor(row.deployment).space, bool(body["departs"])
            waits = bool(row.waiting and body["status"] == "waiting")
            if body["status"] == "waiting" and not waits:  # it was answered since
                departs = any(event.kind == "approve" for event in held.store.about(row.last))
            action = body["proposed"] if waits or (departs and body["status"] == "waiting") else body["action"]
            said = "asks to play" if waits else "play"
            row.words = f"in state {space.state_words(body['state'])}: {said} {space.action_words(action)}"
            row.departs = departs


def _needs(advisor: Advisor, machine: Machine) -> list[dict[str, Any]]:
    """What needs a person in a deployment, most urgent first; called with the lock."""
    name, found = advisor.name, list[dict[str, Any]]()

    def need(rank: int, kind: str, words: str, where: str, sites: list[int] | None = None, more: int = 0) -> None:
        listed = [(machine.sites[i].name, link("/site", deployment=name, site=machine.sites[i].name))
                  for i in (sites or [])[:LISTED]]  # fmt: skip
        told = {"rank": rank, "kind": kind, "deployment": name, "words": words, "link": where, "sites": listed}
        found.append(told | {"more": max(0, len(sites or []) - LISTED)})

    here = link("/deployment", name=name)
    if machine.fleet.alarm is not None:
        need(0, "Alarm", lines.alarm(machine.fleet.alarm, advisor._alarm_since(machine)), here + "#alarms")
    for what in machine.fleet.contradictions:
        need(0, "Contradiction", what, here + "#alarms")
    if waiting := questions(advisor, machine):
        sites = list(dict.fromkeys(machine.fleet.open[n].site for n in waiting))
        need(1, "Approval", _counted(len(waiting), "decision waits", "decisions wait"), "/approvals", sites)
    if overdue := machine.tracks.overdue():
        sites = list(dict.fromkeys(overdue.values()))
        words = _counted(len(overdue), "outcome is overdue", "outcomes are overdue")
        need(2, "Overdue", words, link("/", deployment=name, show="needs"), sites)
    return found


def _deployment(advisor: Advisor, machine: Machine) -> dict[str, Any]:
    """A deployment in one line; called with the lock."""
    return {
        "name": advisor.name, "mode": machine.mode, "paused": machine.paused, "sites": len(machine.sites),
        "decisions": machine.fleet.t, "departures": sum(each.departures for each in machine.tracks.sites),
        "alarm": machine.fleet.alarm is not None, "open": len(machine.fleet.open),
        "waiting": len(questions(advisor, machine)),
    }  # fmt: skip


def _counted(n: int, one: str, more: str) -> str:
    return f"{n} {one if n == 1 else more}"
