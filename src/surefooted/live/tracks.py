"""What a page shows of a deployment without reading its journal again: each account over time, and facts of each site.

A track has a fixed size. When it is full, neighbours are merged: their lowest and highest margins stay, departures and
alarms are added up. So a track takes the same time and room after ten events as after a million, and no peak is lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from surefooted.certificates.ledger import Ledger
from surefooted.live.store import Event

if TYPE_CHECKING:
    from surefooted.live.machine import Machine

SIZE = 240  # points of a track, at most; an even number
RECENT = 100  # events of people, and alarms, that are remembered
LATE = 3  # decisions at the same site after which an outcome that is not complete is overdue
READ = ("ask", "expire", "correct", "reject", "lapse", "trust", "alarm")  # an account is read after these
AGAIN = ("correct", "trust")  # what was proved before them is not believed any more
PEOPLE = ("relocate", "pause", "resume", "close", "reopen", "mode", "approve", "reject", "lapse", "expire", "correct",
          "trust", "alarm")  # fmt: skip
COLUMNS = ("n", "at", "margin", "low", "high", "balance", "deposits", "paid_in", "departures", "alarms")


class Reading(NamedTuple):
    """Where an account stands.

    Margin, balance and deposits are those of `live.curve.Curve`; `paid_in` is the allowance and what all decisions have
    paid in: the margin if nobody had ever departed.
    """

    margin: float
    balance: float
    deposits: float
    paid_in: float


class Track:
    """One account over time, in at most `SIZE` points.

    Each point stands for `width` readings (see `Reading`), one after the other: `n`, `at`, `margin`, `balance` and
    `paid_in` are those of the last; `low` and `high` are the lowest and highest margin, `deposits` the highest;
    `departures` and `alarms` are counted.

    >>> from surefooted.live.tracks import Reading, Track
    >>> track = Track()
    >>> for n in range(1000):
    ...     track.add(n, float(n), Reading(margin=-5.0 if n == 321 else 1.0, balance=1.0, deposits=0.0, paid_in=1.0))
    >>> len(track.columns["n"]) <= 240, min(track.columns["low"]), track.columns["n"][-1]
    (True, -5.0, 999)
    """

    def __init__(self) -> None:
        self.columns: dict[str, list[float]] = {name: [] for name in COLUMNS}
        self.width, self.filled, self.carried = 1, 0, 0.0  # `carried`: the bound on departures, see `live.curve`

    def add(self, n: int, at: float, found: Reading, departures: int = 0, alarms: int = 0) -> None:
        """One more reading, after event n."""
        margin, balance, deposits, paid_in = found
        columns = self.columns
        if self.filled == self.width or not self.filled:
            if len(columns["n"]) == SIZE:
                for name, column in columns.items():
                    columns[name] = [_merged(name, column[i], column[i + 1]) for i in range(0, SIZE, 2)]
                self.width *= 2
            given = (n, at, margin, margin, margin, balance, deposits, paid_in, departures, alarms)
            for name, value in zip(COLUMNS, given, strict=True):
                columns[name].append(value)
            self.filled = 1
            return
        self.filled += 1
        for name, value in (("n", n), ("at", at), ("margin", margin), ("balance", balance), ("paid_in", paid_in)):
            columns[name][-1] = value
        if margin < columns["low"][-1]:
            columns["low"][-1] = margin
        if margin > columns["high"][-1]:
            columns["high"][-1] = margin
        if deposits > columns["deposits"][-1]:
            columns["deposits"][-1] = deposits
        if departures or alarms:
            columns["departures"][-1] += departures
            columns["alarms"][-1] += alarms

    def until(self, now: Reading) -> dict[str, list[float]]:
        """A copy of the columns that ends with where the account stands now."""
        columns = {name: column.copy() for name, column in self.columns.items()}
        for name, value in (("margin", now.margin), ("balance", now.balance), ("paid_in", now.paid_in)):
            columns[name][-1] = value
        columns["low"][-1] = min(now.margin, columns["low"][-1])
        columns["high"][-1] = max(now.margin, columns["high"][-1])
        columns["deposits"][-1] = max(now.deposits, columns["deposits"][-1])
        return columns

    def state_dict(self) -> dict[str, Any]:
        """As plain values and arrays."""
        columns = {name: np.array(column, dtype=np.float64) for name, column in self.columns.items()}
        return {"columns": columns, "width": self.width, "filled": self.filled, "carried": self.carried}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> "Track":
        """The track that `state_dict` described."""
        track = cls()
        track.columns = {name: state["columns"][name].tolist() for name in COLUMNS}
        track.width, track.filled, track.carried = int(state["width"]), int(state["filled"]), float(state["carried"])
        return track


def _merged(name: str, one: float, other: float) -> float:
    """What stands for two readings."""
    if name == "low":
        return min(one, other)
    if name in ("high", "deposits"):
        return max(one, other)
    return one + other if name in ("departures", "alarms") else other


@dataclass
class SiteFacts:
    """What is counted of a site.

    - `last`: its last decision; `decisions`: how many there were; `departures`: those that departed, or wait for a yes.
    - `first`: how many decisions had been made when it departed first, -1 if it has not: by all sites, or by itself if
      each has an account of its own.
    """

    last: int = 0
    decisions: int = 0
    departures: int = 0
    first: int = -1


class Tracks:
    """The tracks of all accounts, by site (-1: all share it) and number (0: the reward), and the facts of all sites."""

    def __init__(self) -> None:
        self.accounts: dict[tuple[int, int], Track] = {}
        self.sites: list[SiteFacts] = []
        self.due: dict[int, tuple[int, int]] = {}  # open decisions: their site, and how many it had made by then
        self.people: list[int] = []  # the last events of people, and alarms
        self._reserves: dict[tuple[int, int], float] = {}  # of accounts, until a site begins or departs first

    @property
    def first(self) -> int:
        """The smallest `first` of a site, -1 if none has departed."""
        return min((each.first for each in self.sites if each.first >= 0), default=-1)

    def overdue(self) -> dict[int, int]:
        """The sites of open decisions after which the same site has made `LATE` others, by decision."""
        return {n: i for n, (i, made) in self.due.items() if self.sites[i].decisions - made >= LATE}

    def doubts(self, machine: "Machine", event: Event) -> bool:
        """Whether an event that comes now makes what was proved before doubtful: bounds are read anew."""
        if event.kind in AGAIN:
            return True
        if event.kind != "tell" or event.body.get("played") is None:
            return False
        step = machine.fleet.open.get(event.body["decision"])
        return step is not None and step.is_seen  # a departure of which something was seen was not played

    def note(self, machine: "Machine", event: Event, again: bool) -> None:
        """Take an event, whose effect the machine has taken; `again` is what `doubts` said before that."""
        kind = event.kind
        if kind in PEOPLE:
            self.people = [*self.people[1 - RECENT :], event.n]
        if kind == "site":
            self.sites.append(SiteFacts())
        if kind == "ask":
            self._count(machine, event)
        site = self._settle(machine, event)
        if kind in ("reject", "lapse") and site is not None:
            self.sites[site].departures -= 1  # it was put to a person, and is not played
        if kind in READ or again:
            self._read(machine, event, None if again else site, again)

    def _count(self, machine: "Machine", event: Event) -> None:
        """A decision was made."""
        site, body = event.body["site"], event.body
        facts, departs = self.sites[site], bool(body["departs"] or body["status"] == "waiting")
        facts.last, facts.decisions, facts.departures = event.n, facts.decisions + 1, facts.departures + departs
        self.due[event.n] = (site, facts.decisions)
        if facts.decisions == 1 or (departs and facts.first < 0):
            self._reserves.clear()
        if departs and facts.first < 0:
            own = machine.fleet.rules.accounts == "own"
            facts.first = (facts.decisions if own else machine.fleet.t) - 1

    def _settle(self, machine: "Machine", event: Event) -> int | None:
        """Forget outcomes that are complete or not waited for; the site that an event is about, if it is about one."""
        body, is_open = event.body, machine.fleet.open
        n = body.get("leads" if event.kind == "ask" else "decision")
        site = body.get("site", self.due.get(n, (None, 0))[0]) if n else body.get("site")
        if n in is_open:
            site = is_open[n].site
            self.due.setdefault(n, (site, self.sites[site].decisions))  # it was corrected, and is open again
        elif n:
            self.due.pop(n, None)
        return site if site is None else int(site)

    def _read(self, machine: "Machine", event: Event, site: int | None, again: bool) -> None:
        """Read the accounts of a site, or all of them."""
        books, slots = machine.fleet.books, machine.fleet.open[event.n].slots if event.kind == "ask" else []
        number = [((-1, i), ledger) for i, ledger in enumerate(books.shared)]
        for i in range(len(books.own)) if site is None else (site,):
            if books.own[i]:
                number += [((i, j), ledger) for j, ledger in enumerate(books.own[i])]
        at = datetime.fromisoformat(event.at).timestamp()
        for i, (key, ledger) in enumerate(number):
            slot = slots[i] if slots else -1
            track = self.accounts.get(key)
            if track is None:
                track = self.accounts[key] = Track()
            worth, deposits = ledger.reading()
            before = track.carried + (float(ledger.arrays.slots.least[slot]) if slot >= 0 else 0.0)
            track.carried = worth if again else max(worth, before)
            found = self._found(machine, key, ledger, worth, deposits)
            track.add(event.n, at, found, slot >= 0, event.kind == "alarm")

    def now(self, machine: "Machine", site: int, metric: int) -> Reading:
        """Where the account of a site (-1: of all) stands with all that was told since its last decision."""
        books = machine.fleet.books
        ledger = (books.shared if site < 0 else books.own[site])[metric]
        return self._found(machine, (site, metric), ledger, *ledger.reading())

    def _found(
        self, machine: "Machine", key: tuple[int, int], ledger: Ledger, worth: float, deposits: float
    ) -> Reading:
        """A reading, given what the departures are proved to be worth now and what is put down."""
        terms = ledger.arrays.account.terms
        paid_in = terms.rate * ledger.steps
        return Reading(
            margin=terms.opening + paid_in + max(worth, self.accounts[key].carried),
            balance=terms.opening - self._reserve(machine, key, ledger) + paid_in + worth,
            deposits=deposits,
            paid_in=ledger.account.tolerance.allowance + paid_in,
        )

    def _reserve(self, machine: "Machine", key: tuple[int, int], ledger: Ledger) -> float:
        """The smallest reserve that a first departure would need, while there was none; as `live.curve` counts it."""
        if key not in self._reserves:
            listed = range(len(self.sites)) if key[0] < 0 else (key[0],)
            starts = {machine.fleet.sites[i].start for i in listed} - {-1}
            departed = not starts or any(self.sites[i].first >= 0 for i in listed)
            self._reserves[key] = 0.0 if departed else min(ledger.reserve(s) for s in starts)
        return self._reserves[key]

    def state_dict(self) -> dict[str, Any]:
        """As plain values and arrays."""
        facts = [[each.last, each.decisions, each.departures, each.first] for each in self.sites]
        return {
            "accounts": [[*key, track.state_dict()] for key, track in self.accounts.items()],
            "sites": np.array(facts, dtype=np.int64).reshape(-1, 4), "people": list(self.people),
            "due": [[n, *made] for n, made in self.due.items()],
        }  # fmt: skip

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken."""
        self.accounts = {(int(i), int(j)): Track.from_state_dict(track) for i, j, track in state["accounts"]}
        self.sites = [SiteFacts(*(int(x) for x in row)) for row in state["sites"]]
        self.people = [int(n) for n in state["people"]]
        self.due = {int(n): (int(i), int(made)) for n, i, made in state["due"]}
