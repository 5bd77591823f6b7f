"""What there is to see of a deployment: decisions, status, and the journal."""

from collections.abc import Iterator
from typing import Any

from surefooted.errors import InvalidInput
from surefooted.live.decision import Decision, from_event
from surefooted.live.machine import Machine
from surefooted.live.store import Event
from surefooted.live.tables import Tables


class Reports(Tables):
    """Reads; nothing here changes anything."""

    def decision(self, id: int) -> Decision:
        """A decision as it stands now."""
        if not self.store.has_decision(id, self.id):
            raise InvalidInput("no such decision", [f"{self.name} has made no decision {id}"])
        event = self.store.event(id)
        name = self._followed().sites[event.body["site"]].name
        return from_event(name, event, self.space, self.store.about(id))

    def _followed(self) -> Machine:
        """The machine, up to date."""
        with self.store.lock:
            return self.machine()

    def journal(self, since: int = 0, last: int | None = None) -> Iterator[Event]:
        """The events of this deployment after event `since`, in order; others may write meanwhile.

        `last` gives only so many of them, the newest.
        """
        if last is not None:
            query = "SELECT n FROM events WHERE deployment = ? ORDER BY n DESC LIMIT 1 OFFSET ?"
            since = max([since, *(n for (n,) in self.store.read(query, self.id, last))])
        return self.store.events(self.id, since)

    def status(self) -> dict[str, Any]:
        """Where the deployment stands: accounts, open and waiting decisions, alarms, what is outside the guarantee."""
        with self.store.lock:
            return self._status_of(self.machine())

    def _status_of(self, machine: Machine) -> dict[str, Any]:
        """The same of a machine that nobody changes meanwhile."""
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
            "departures": self._departures(machine),
            "rewards": machine.rewards,
            "earned": machine.earned + machine.rewards * self.space.low,
            "mode": machine.mode,
            "paused": machine.paused,
            "sites": [{"name": site.name, "mode": machine.mode_of(i), "paused": site.paused, "closed": site.closed}
                      for i, site in enumerate(machine.sites)],
            "accounts": accounts,
            "open": sorted(fleet.open),
            "waiting": dict(machine.waiting),
            "contradictions": fleet.contradictions,
            "alarm": fleet.alarm,
            "alarm_since": self._alarm_since(machine),
            "alarm_probability": 0.0 if fleet.drift is None else fleet.drift.level,
            "outside_guarantee": list(machine.outside),
        }  # fmt: skip

    def _departures(self, machine: Machine) -> int:
        """How many departures were played; those that wait for a person are none yet."""
        books = machine.fleet.books
        ledgers = books.shared[:1] or books.of_reward()
        return sum(int(ledger.arrays.account.departures.sum()) for ledger in ledgers) - len(machine.waiting)


def _account(name: str, ledger: Any) -> dict[str, Any]:
    """An account for people: what was saved up, what departures are proved to be worth, and what is left."""
    account = ledger.arrays.account
    worth, saved = ledger.worth, account.terms.rate * ledger.steps
    return {
        "name": name, "balance": account.terms.opening + saved + worth, "saved_up": saved, "departures": worth,
        "allowance_minus_reserves": account.terms.opening, "open": ledger.open, "delta": ledger.account.delta,
    }  # fmt: skip
