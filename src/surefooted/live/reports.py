"""What there is to see of a deployment: decisions, status, the journal, and tables for other programs."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from surefooted.errors import InvalidInput
from surefooted.live import outcomes
from surefooted.live.decision import Decision, from_event
from surefooted.live.following import Following
from surefooted.live.store import Event

Format = Literal["csv", "parquet", "jsonl"]
FORMATS: tuple[Format, ...] = ("csv", "parquet", "jsonl")


class Reports(Following):
    """Reads; nothing here changes anything."""

    def decision(self, id: int) -> Decision:
        """A decision as it stands now."""
        event = self.store.event(id)
        if event.kind != "ask" or event.deployment != self.id:
            raise InvalidInput("no such decision", [f"{self.name} has made no decision {id}"])
        name = self._followed().sites[event.body["site"]].name
        return from_event(name, event, self.space, self.store.about(id))

    def _followed(self) -> Any:
        """The machine, up to date."""
        with self.store.lock:
            return self.machine()

    def journal(self, since: int = 0) -> Iterator[Event]:
        """The events of this deployment after event `since`, in order; others may write meanwhile."""
        return self.store.events(self.id, since)

    def status(self) -> dict[str, Any]:
        """Where the deployment stands: accounts, open and waiting decisions, alarms, what is outside the guarantee."""
        machine = self._followed()
        fleet, rules = machine.fleet, self.definition.rules
        names = ["reward", *(guardrail.name for guardrail in rules.guardrails)]
        accounts = [_account(f"all sites, {names[i]}", ledger) for i, ledger in enumerate(fleet.books.shared)]
        for site, ledgers in zip(machine.sites, fleet.books.own, strict=True):
            accounts += [_account(f"{site.name}, {names[i]}", ledger) for i, ledger in enumerate(ledgers)]
        return {
            "deployment": self.name,
            "fingerprint": self.definition.fingerprint,
            "events": machine.n,
            "decisions": fleet.t,
            "mode": machine.mode,
            "paused": machine.paused,
            "sites": [{"name": site.name, "mode": machine.mode_of(i), "paused": site.paused, "closed": site.closed}
                      for i, site in enumerate(machine.sites)],
            "accounts": accounts,
            "open": sorted(fleet.open),
            "waiting": dict(machine.waiting),
            "contradictions": fleet.contradictions,
            "alarm": fleet.alarm,
            "alarm_probability": 0.0 if fleet.drift is None else fleet.drift.level,
            "outside_guarantee": list(machine.outside),
        }  # fmt: skip

    def table(self) -> list[dict[str, Any]]:
        """One row for each decision and what came of it, in the user's unit and words."""
        sites, space = [site.name for site in self._followed().sites], self.space
        guardrails, rows = self.definition.rules.guardrails, []
        for found in outcomes.outcomes(self.journal(), len(guardrails)):
            body, reward = found.body, found.reward
            row = {name: body[name] for name in ("key", "mode", "role", "deposit", "balance", "reason", "departs")}
            played = found.pair_played
            row |= {"decision": found.decision, "time": found.time, "site": sites[body["site"]]}
            row |= {"state": space.state_words(body["state"]), "status": found.status}
            row |= {"asked": space.action_words(int(space.pair_action[found.pair]))}
            row |= {"played": space.action_words(int(space.pair_action[played])), "override": found.played is not None}
            row |= {"reward": None if reward is None else float(space.money.earned(reward)), "unit": space.unit}
            row |= {"next_state": None if found.next_state is None else space.state_words(found.next_state)}
            row |= {"complete": found.complete_at, "expired": found.lost, "corrected": found.corrected}
            for i, rail in enumerate(guardrails):
                value = None if found.guards is None else found.guards[i]
                row[rail.name] = (
                    value if value is None else rail.low + value if rail.better == "higher" else rail.high - value
                )
            rows.append(row)
        return rows

    def export(self, path: str | Path, format: Format | None = None) -> None:
        """Write `table` to a file: CSV, Parquet or JSON lines, by `format` or the ending of the name."""
        path = Path(path)
        kind = format or path.suffix.lstrip(".")
        if kind not in FORMATS:
            raise InvalidInput("no such format", [f"{kind!r}: there are {', '.join(FORMATS)}"])
        rows = self.table()
        if kind == "jsonl":
            path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        elif kind == "csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(rows[0]) if rows else ["decision"])
                writer.writeheader()
                writer.writerows(rows)
        else:
            import pyarrow
            from pyarrow import parquet

            parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def _account(name: str, ledger: Any) -> dict[str, Any]:
    """An account for people: what was saved up, what departures are proved to be worth, and what is left."""
    account = ledger.arrays.account
    worth, saved = ledger.worth, account.terms.rate * ledger.steps
    return {
        "name": name, "balance": account.terms.opening + saved + worth, "saved_up": saved, "departures": worth,
        "allowance_minus_reserves": account.terms.opening, "open": ledger.open, "delta": ledger.account.delta,
    }  # fmt: skip
