"""The curve of an account over time: what is in it, what is put down for open decisions, and when it was departed.

The balance counts open decisions at their worst, so deposits are down already. Before the first departure it also lacks
the reserve for the way back, so that it starts below zero: that is what must be saved up first.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from surefooted.certificates.ledger import Ledger
from surefooted.live.advisor import Advisor
from surefooted.live.machine import Machine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 4_000  # points of a curve; more cannot be seen


@dataclass
class Curve:
    """One account after each decision and outcome; amounts in the unit of its number.

    - `time`: of the events.
    - `balance`: what is in the account, with the deposits of open decisions down.
    - `deposits`: what is put down for open decisions.
    - `departures`: times and balances at which a departure was played or put to a person.
    - `overrides`: times at which something else was played; `alarms`: of alarms and contradictions of people's trust.
    """

    name: str
    unit: str
    time: list[datetime] = field(default_factory=list)
    balance: list[float] = field(default_factory=list)
    deposits: list[float] = field(default_factory=list)
    departures: list[tuple[datetime, float]] = field(default_factory=list)
    overrides: list[datetime] = field(default_factory=list)
    alarms: list[datetime] = field(default_factory=list)


def curves(advisor: Advisor) -> list[Curve]:
    """The curve of every account of a deployment: its journal is replayed."""
    machine, rails = Machine(advisor.definition), advisor.definition.rules.guardrails
    units = [advisor.space.unit, *("" for _ in rails)]
    names = ["reward", *(rail.name for rail in rails)]
    found: dict[tuple[int, int], Curve] = {}  # by site (-1: shared) and number
    put: dict[int, tuple[int, float]] = {}  # site and deposit of open departures
    for event in advisor.journal():
        machine.apply(event, advisor._steps(event.n))
        at, body = datetime.fromisoformat(event.at), event.body
        if event.kind == "ask" and (body["departs"] or body["status"] == "waiting"):
            put[event.n] = (body["site"], float(body["deposit"] or 0.0))
        if event.kind not in ("ask", "tell", "expire", "correct", "reject", "lapse", "trust", "alarm"):
            continue
        for n in [n for n in put if n not in machine.fleet.open or not machine.fleet.open[n].departs]:
            del put[n]
        for site, number, ledger in ledgers(machine):
            where = "all sites" if site < 0 else machine.sites[site].name
            curve = found.setdefault((site, number), Curve(f"{where}, {names[number]}", units[number]))
            of = [deposit for place, deposit in put.values() if site in (-1, place)] if number == 0 else []
            curve.time.append(at)
            curve.balance.append(_balance(machine, site, ledger))
            curve.deposits.append(sum(of))
            if event.kind == "ask" and event.n in put and site in (-1, body["site"]):
                curve.departures.append((at, curve.balance[-1]))
            if body.get("played") is not None:
                curve.overrides.append(at)
            if event.kind == "alarm":
                curve.alarms.append(at)
    return list(found.values())


def ledgers(machine: Machine) -> list[tuple[int, int, Ledger]]:
    """Every ledger with its site, -1 if all share it, and the number that it guards."""
    books = machine.fleet.books
    own = [(i, j, ledger) for i, ledgers in enumerate(books.own) for j, ledger in enumerate(ledgers)]
    return [*((-1, j, ledger) for j, ledger in enumerate(books.shared)), *own]


def _balance(machine: Machine, site: int, ledger: Ledger) -> float:
    """What may be risked: less the smallest reserve that a first departure needs, while there was none."""
    terms, sites = ledger.arrays.account.terms, machine.fleet.sites
    own = sites if site < 0 else [sites[site]]
    started = [where for where in own if where.start >= 0]
    reserve = 0.0
    if started and not any(where.departed for where in own):
        reserve = min(ledger.reserve(where.start) for where in started)
    return ledger.opening(reserve) + terms.rate * ledger.steps + ledger.worth


def thinned(curve: Curve) -> list[int]:
    """Which points to draw: all, or about `MOST`, with the lowest balance of each stretch among them."""
    n = len(curve.balance)
    if n <= MOST:
        return list(range(n))
    width = -(-2 * n // MOST)
    kept = {0, n - 1}
    for first in range(0, n, width):
        stretch = range(first, min(first + width, n))
        kept |= {first, min(stretch, key=curve.balance.__getitem__)}
    return sorted(kept)


def draw(curve: Curve) -> "Figure":
    """Balance, deposits, the floor at zero, departures, overrides and alarms over time."""
    from matplotlib import dates
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes: Any = figure.add_subplot()
    points = thinned(curve)
    time, balance = [curve.time[i] for i in points], [curve.balance[i] for i in points]
    free = [curve.balance[i] + curve.deposits[i] for i in points]
    axes.fill_between(time, balance, free, step="post", color="C1", alpha=0.35, linewidth=0,
                      label="put down for open decisions")  # fmt: skip
    axes.step(time, balance, where="post", color="C0", linewidth=1.6, label="balance, deposits down")
    axes.axhline(0, color="C3", linewidth=1.2, linestyle="--", label="floor: below it nothing is risked")
    if curve.departures:
        at, level = zip(*curve.departures, strict=True)
        axes.plot(at, level, linestyle="none", marker="o", markersize=4.5, color="C2", markeredgecolor="white",
                  markeredgewidth=0.5, label=f"departures ({len(at)})")  # fmt: skip
    low = axes.get_ylim()[0]
    if curve.overrides:
        axes.plot(curve.overrides, [low] * len(curve.overrides), linestyle="none", marker="^", color="0.35",
                  clip_on=False, label=f"people played something else ({len(curve.overrides)})")  # fmt: skip
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
    axes.legend(loc="upper left", frameon=False, fontsize=9)
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
