"""One HTML page about a deployment: its accounts over time, departures, overrides, alarms, decisions with reasons."""

from collections import deque
from pathlib import Path
from typing import Any

from surefooted.live import curve, lines
from surefooted.live.advisor import Advisor
from surefooted.pages import figure, page, table, text
from surefooted.tables.files import write
from surefooted.tables.space import Space

SHOWN = 400  # rows of a table; an export has all of them
PICTURES = 12  # accounts that are drawn
PEOPLE = ("relocate", "pause", "resume", "close", "reopen", "mode", "approve", "reject", "lapse", "expire", "correct",
          "trust")  # fmt: skip
CAPTION = (
    "{}. Thick: what is proved to be left of what may be lost; the promise is kept while it is not below the floor "
    "(dashed). Open decisions count at the worst that can be expected of them: their deposits (shaded) are down until "
    "the outcome is known. Thin: what the next departure may use, by what can be proved now; below zero, something "
    "must be saved up first."
)


def write_report(advisor: Advisor, path: str | Path) -> None:
    """Write the page to a file; it needs no other file and no network.

    >>> import surefooted as sf
    >>> from surefooted.live.page import write_report
    >>> problem = sf.problems.riverswim()
    >>> known = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    >>> baseline = sf.Baseline(problem.baseline, known.gain, known.bias)
    >>> with sf.live.open("river.db") as store:
    ...     river = store.create_deployment("river", space=problem.space, baseline=baseline, alpha=0.1)
    ...     river.add_site("east")
    ...     decision = river.ask("east", state=0, key="monday")
    ...     write_report(river, "river.html")
    """
    status, space = advisor.status(), advisor.space
    rows, departed, overridden = Latest(), Latest(), Latest()
    for row in advisor.rows():
        rows.add(row)
        if _departed(row):
            departed.add(row)
        if row["override"]:
            overridden.add(row)
    drawn, accounts = curve.curves(advisor, PICTURES), len(status["accounts"])
    body = [f"<h1>{text(advisor.name)}</h1>", f"<p class=soft>{text(_about(status, rows))}</p>"]
    body += [f"<p>{text(sentence)}</p>" for sentence in standing(status, space)]
    body.append("<h2>Accounts</h2>" + _accounts(status, space))
    body += [figure(curve.png(each), CAPTION.format(each.name)) for each in drawn]
    if accounts > PICTURES:
        body.append(f"<p class=soft>{accounts - PICTURES} more accounts are not drawn.</p>")
    body.append("<h2>Departures from the baseline</h2>" + _decisions(departed, space))
    body.append("<h2>Overrides: people played something else</h2>" + _decisions(overridden, space))
    body.append("<h2>Alarms, and what people did</h2>" + _events(advisor, status))
    body.append("<h2>All decisions</h2>" + _decisions(rows, space))
    write(path, page(advisor.name, "".join(body)))


class Latest:
    """The first and the latest of many rows, and how many there are."""

    def __init__(self) -> None:
        self.count, self.first, self.kept = 0, dict[str, Any](), deque[dict[str, Any]](maxlen=SHOWN)

    def add(self, row: dict[str, Any]) -> None:
        """One more row."""
        self.first = self.first or row
        self.count += 1
        self.kept.append(row)


def standing(status: dict[str, Any], space: Space) -> list[str]:
    """How the deployment stands, in a few sentences."""
    departed = status["departures"]
    said = [f"{status['decisions']} decisions, {departed} of which departed from the baseline; mode {status['mode']}."]
    if status["paused"] is not None:
        said.append(f"Paused ({status['paused']}): the baseline is played.")
    if status["waiting"]:
        said.append(f"Decisions that wait for a person: {', '.join(str(n) for n in status['waiting'])}.")
    if status["open"]:
        said.append(f"Outcomes that are not complete: {len(status['open'])}.")
    if status["alarm"] is not None:
        said.append(f"Alarm: {lines.alarm(status['alarm'], status['alarm_since'])}.")
    said += [f"Contradiction: {what}" for what in status["contradictions"]]
    said += [f"Outside the guarantee: {what}." for what in status["outside_guarantee"]]
    if n := status["rewards"]:
        total, mean = space.amount(status["earned"]), space.amount(status["earned"] / n)
        said.append(f"Earned {total} in {n} decisions with a known reward, {mean} each.")
    return said


def _departed(row: dict[str, Any]) -> bool:
    """Whether a departure was played: it was paid for, and nobody rejected or replaced it."""
    return (row["departs"] or row["status"] == "approved") and not row["override"]


def _about(status: dict[str, Any], rows: Latest) -> str:
    period = f"{lines.date(rows.first['time'])} to {lines.date(rows.kept[-1]['time'])}; " if rows.count else ""
    sites = ", ".join(site["name"] for site in status["sites"][:12]) or "none"
    more = f" and {len(status['sites']) - 12} more" if len(status["sites"]) > 12 else ""
    return f"{period}sites: {sites}{more}; fingerprint {status['fingerprint'][:16]}; {status['events']} events"


def _accounts(status: dict[str, Any], space: Space) -> str:
    head = ["account", "balance", "saved up", "departures are proved to be worth", "open", "δ"]
    listed = []
    for account in status["accounts"][:SHOWN]:
        shown = space.amount if account["name"].endswith(", reward") else "{:.4g}".format
        amounts = [shown(account[name]) for name in ("balance", "saved_up", "departures")]
        listed.append([account["name"], *amounts, str(account["open"]), f"{account['delta']:.3g}"])
    return table(head, listed)


def _decisions(rows: Latest, space: Space) -> str:
    if not rows.count:
        return "<p>None.</p>"
    head = ["decision", "date", "site", "key", "state", "asked for", "played", "deposit", "earned", "led to", "reason"]
    shown = []
    for row in rows.kept:
        amounts = ["–" if row[name] is None else space.amount(row[name]) for name in ("deposit", "reward")]
        played = row["played"] + (" (someone else's choice)" if row["override"] else "")
        led = "lost" if row["expired"] else row["next_state"] or "–"
        first = [str(row["decision"]), lines.date(row["time"]), row["site"], row["key"], row["state"], row["asked"]]
        shown.append([*first, played, *amounts, led, row["reason"]])
    note = f"<p class=soft>The last {SHOWN} of {rows.count}.</p>" if rows.count > SHOWN else ""
    return note + table(head, shown, "words")


def _events(advisor: Advisor, status: dict[str, Any]) -> str:
    sites, rails = [site["name"] for site in status["sites"]], advisor.definition.rules.guardrails
    found = [event for event in advisor.journal() if event.kind == "alarm" or event.kind in PEOPLE]
    if not found:
        return "<p>None.</p>"
    said = [
        [str(e.n), lines.date(e.at), e.kind, lines.in_words(e, advisor.space, sites, rails)] for e in found[-SHOWN:]
    ]
    note = f"<p class=soft>The last {SHOWN} of {len(found)}.</p>" if len(found) > SHOWN else ""
    return note + table(["event", "date", "what", ""], said, "words")
