"""The curve of an account over time: what is proved to be left, what may be used next, and what is put down.

A bound that was proved once stays true. Less may be provable after an outcome than before it; then the margin that is
proved carries on with the earlier bound, less what each departure since could cost. The advisor itself uses only what
it can prove now. Before the first departure that also lacks the reserve for the way back: it must be saved up first.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from surefooted.certificates.ledger import Ledger
from surefooted.kernels.ledger import FREE
from surefooted.live.advisor import Advisor
from surefooted.live.machine import Machine
from surefooted.live.store import Event

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 4_000  # points of a curve; more cannot be seen


@dataclass
class Curve:
    """One account after each decision and outcome; amounts in the unit of its number.

    - `time`: of the events.
    - `margin`: what is proved to be left of what may be lost; the promise is kept while it is not negative.
    - `balance`: what the next departure may use, as decisions quote it; below 0 something must be saved up first.
    - `deposits`: what is put down for open decisions; the margin and the balance lack it.
    - `departures`: times and margins at which a departure was played, or put to a person.
    - `overrides`: times at which somebody said that something else was played; `alarms`: times of alarms.
    """

    name: str
    unit: str
    time: list[datetime] = field(default_factory=list)
    margin: list[float] = field(default_factory=list)
    balance: list[float] = field(default_factory=list)
    deposits: list[float] = field(default_factory=list)
    departures: list[tuple[datetime, float]] = field(default_factory=list)
    overrides: list[datetime] = field(default_factory=list)
    alarms: list[datetime] = field(default_factory=list)
    departed: int = 0  # in all, also those that were thinned out
    overridden: int = 0

    def thin(self) -> None:
        """Keep about `MOST` points, with the lowest margin of each stretch, and as many departures and overrides."""
        kept = thinned(self)
        for name in ("time", "margin", "balance", "deposits"):
            column = getattr(self, name)
            setattr(self, name, [column[i] for i in kept])
        self.departures = self.departures[:: 1 + len(self.departures) // MOST]
        self.overrides = self.overrides[:: 1 + len(self.overrides) // MOST]


SHOWN = ("ask", "tell", "expire", "correct", "reject", "lapse", "trust", "alarm")
AGAIN = ("correct", "trust")  # what was proved before them is not believed any more


def curves(advisor: Advisor, most: int | None = None) -> list[Curve]:
    """The curves of the accounts of a deployment, of the first `most` if that is given: its journal is replayed.

    A curve that becomes long is thinned as it grows, so that a long history needs no memory.
    """
    machine, rails = Machine(advisor.definition), advisor.definition.rules.guardrails
    units = [advisor.space.unit, *("" for _ in rails)]
    names = ["reward", *(rail.name for rail in rails)]
    found: dict[tuple[int, int], Curve] = {}  # by site (-1: shared) and number
    carried: dict[tuple[int, int], float] = {}
    listed: list[tuple[int, int, Ledger]] = ledgers(machine)[:most]
    for event in advisor.journal():
        again = event.kind in AGAIN or _is_withdrawn(machine, event)
        machine.apply(event, advisor._steps(event.n))
        if event.kind == "site":
            listed = ledgers(machine)[:most]
        if event.kind not in SHOWN:
            continue
        at, body = datetime.fromisoformat(event.at), event.body
        own = {} if event.kind != "ask" else _slots(machine, event.n)
        for site, number, ledger in listed:
            key, where = (site, number), "all sites" if site < 0 else machine.sites[site].name
            curve = found.setdefault(key, Curve(f"{where}, {names[number]}", units[number]))
            least, slot = ledger.arrays.slots.least, own.get(id(ledger), -1)
            before = carried.get(key, 0.0) + (float(least[slot]) if slot >= 0 else 0.0)
            carried[key] = ledger.worth if again else max(ledger.worth, before)
            limit = ledger.arrays.account.terms.rate * ledger.steps
            curve.time.append(at)
            curve.margin.append(ledger.opening(0.0) + limit + carried[key])
            curve.balance.append(ledger.opening(_reserve(machine, site, ledger)) + limit + ledger.worth)
            curve.deposits.append(-float(least[ledger.arrays.slots.seen != FREE].sum()))
            if slot >= 0:
                curve.departures.append((at, curve.margin[-1]))
                curve.departed += 1
            if body.get("played") is not None:
                curve.overrides.append(at)
                curve.overridden += 1
            if event.kind == "alarm":
                curve.alarms.append(at)
            if len(curve.time) >= 4 * MOST:
                curve.thin()
    return list(found.values())


def _is_withdrawn(machine: Machine, event: Event) -> bool:
    """Whether a departure of which something was seen turns out not to have been played: bounds may rest on it."""
    if event.kind != "tell" or event.body.get("played") is None:
        return False
    step = machine.fleet.open.get(event.body["decision"])
    return step is not None and step.is_seen


def _slots(machine: Machine, n: int) -> dict[int, int]:
    """In which slot of each ledger a new decision stands, if it departs."""
    step = machine.fleet.open[n]
    return {id(ledger): slot for (_, ledger), slot in zip(machine.fleet.books.of(step.site), step.slots, strict=True)}


def ledgers(machine: Machine) -> list[tuple[int, int, Ledger]]:
    """Every ledger with its site, -1 if all share it, and the number that it guards."""
    books = machine.fleet.books
    own = [(i, j, ledger) for i, ledgers in enumerate(books.own) for j, ledger in enumerate(ledgers)]
    return [*((-1, j, ledger) for j, ledger in enumerate(books.shared)), *own]


def _reserve(machine: Machine, site: int, ledger: Ledger) -> float:
    """The smallest reserve that a first departure would need, while there was none."""
    sites = machine.fleet.sites
    own = [where for where in (sites if site < 0 else [sites[site]]) if where.start >= 0]
    if not own or any(where.departed for where in own):
        return 0.0
    return min(ledger.reserve(where.start) for where in own)


def thinned(curve: Curve) -> list[int]:
    """Which points to draw: all, or about `MOST`, with the lowest margin of each stretch among them."""
    n = len(curve.balance)
    if n <= MOST:
        return list(range(n))
    width = -(-2 * n // MOST)
    kept = {0, n - 1}
    for first in range(0, n, width):
        stretch = range(first, min(first + width, n))
        kept |= {first, min(stretch, key=curve.margin.__getitem__)}
    return sorted(kept)


def draw(curve: Curve) -> "Figure":
    """Balance, deposits, the floor at zero, departures, overrides and alarms over time."""
    from matplotlib import dates
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    axes: Any = figure.add_subplot()
    points = thinned(curve)
    time = [curve.time[i] for i in points]
    margin, balance = [curve.margin[i] for i in points], [curve.balance[i] for i in points]
    free = [curve.margin[i] + curve.deposits[i] for i in points]
    axes.fill_between(time, margin, free, step="post", color="C1", alpha=0.4, linewidth=0,
                      label="put down for open decisions")  # fmt: skip
    axes.step(time, balance, where="post", color="0.6", linewidth=1.0, label="what the next departure may use")
    axes.step(time, margin, where="post", color="C0", linewidth=1.8, label="balance: proved to be left")
    axes.axhline(0, color="C3", linewidth=1.2, linestyle="--", label="floor")
    if curve.departures:
        at, level = zip(*curve.departures, strict=True)
        axes.plot(at, level, linestyle="none", marker="o", markersize=4.5, color="C2", markeredgecolor="white",
                  markeredgewidth=0.5, label=f"departures ({curve.departed})")  # fmt: skip
    low = axes.get_ylim()[0]
    if curve.overrides:
        axes.plot(curve.overrides, [low] * len(curve.overrides), linestyle="none", marker="^", color="0.35",
                  clip_on=False, label=f"people played something else ({curve.overridden})")  # fmt: skip
    for i, alarm in enumerate(curve.alarms):
        axes.axvline(alarm, color="C3", linewidth=1.5, label="alarm" if i == 0 else None)
    axes.set_ylim(bottom=low)
    calendar: Any = dates  # without types
    locator = calendar.AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(calendar.ConciseDateFormatter(locator))
    axes.set_ylabel(curve.unit or "amount")
    axes.set_title(curve.name, loc="left")
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.legend(loc="outside lower center", frameon=False, fontsize=9, ncols=3)
    return figure


def png(curve: Curve) -> bytes:
    """The picture as a PNG file, the same whatever the settings of Matplotlib are."""
    from io import BytesIO

    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        buffer = BytesIO()
        draw(curve).savefig(buffer, dpi=130, format="png")
    return buffer.getvalue()
