"""A store behind a service, as `connect` returns it: the methods are those of a local store and its advisors."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import numpy as np

from surefooted.errors import InvalidInput
from surefooted.live import exchange
from surefooted.live.connection import Connection
from surefooted.live.decision import Decision, Mode
from surefooted.live.store import Event, StoreFault
from surefooted.live.tables import FORMATS, Format
from surefooted.live.verify import Verification
from surefooted.tables.baseline import Baseline
from surefooted.tables.files import write
from surefooted.tables.space import Space

NAMES = tuple(field.name for field in fields(Decision))


def connect(url: str, token: str, **options: Any) -> "RemoteStore":
    """The store of a service (`surefooted serve`); `options` are those of `Connection`.

    Decisions, errors and tables are those of a local store. `who=` stands in the journal after the token's name.

    - `url`: https://..., or http://127.0.0.1:8000 on this machine.
    - `token`: of `surefooted token create`.
    - `patience=30.0`: seconds in which a request is sent again if the connection is lost; nothing is done twice.

    >>> import surefooted as sf
    >>> with sf.live.connect("http://127.0.0.1:8000", token) as store:  # doctest: +SKIP
    ...     shop = store.deployment("shop")
    ...     decision = shop.ask("high street", state="fine", key="2026-11-18")
    ...     shop.tell(decision, reward=41.5, next_state="fine")
    """
    link = Connection(url, token, **options)
    link.get("/v1/me")
    return RemoteStore(link)


class RemoteStore:
    """The deployments of a service. It is a context manager.

    - `link`: the connection to the service; `connect` makes both.

    >>> import surefooted as sf
    >>> with sf.live.connect("http://127.0.0.1:8000", token) as store:  # doctest: +SKIP
    ...     store.deployments()
    ['shop']
    """

    def __init__(self, link: Connection) -> None:
        self._link, self.name = link, link.name

    def deployments(self) -> list[str]:
        """Their names."""
        return [str(name) for name in self._link.get("/v1/deployments")["deployments"]]

    def deployment(self, name: str) -> "RemoteAdvisor":
        """The advisor of a deployment."""
        return RemoteAdvisor(self, self._link, self._link.get(f"/v1/deployments/{quote(name, safe='')}"))

    def create_deployment(
        self,
        name: str,
        *,
        space: Space,
        baseline: Baseline,
        alpha: float,
        mode: Mode = "live",
        inherits: str | None = None,
        who: str | None = None,
        note: str | None = None,
        **options: Any,
    ) -> "RemoteAdvisor":
        """A new deployment, as `LiveStore.create_deployment`."""
        told = exchange.as_json(space, baseline, alpha, **options)
        body = {"name": name, "definition": told, "mode": mode, "inherits": inherits, "who": who, "note": note}
        return RemoteAdvisor(self, self._link, self._link.post("/v1/deployments", _given(body), command=True))

    def verify(self) -> Verification:
        """Check the file, the hash chain, and every decision."""
        found = self._link.post("/v1/verify", {})
        return Verification(found["events"], found["decisions"], found["faults"])

    @property
    def last(self) -> int:
        """The number of the last event."""
        return int(self._link.get("/v1/deployments")["event"])

    def close(self) -> None:
        """Close the connections."""
        self._link.close()

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the connections."""
        self.close()


@dataclass(frozen=True)
class Known:
    """What is known of a decision; amounts in the user's unit, states and actions as numbers."""

    decision: int
    status: str
    played: int | None
    reward: float | None
    next_state: int | None
    guardrails: dict[str, float] | None
    expired: bool
    corrected: bool
    complete: str | None


class RemoteAdvisor:
    """Decides for the sites of one deployment, over HTTP; the methods are those of `Advisor`.

    - `store`, `link`, `told`: the store, its connection and what the service said; `RemoteStore.deployment` gives them.

    >>> import surefooted as sf
    >>> with sf.live.connect("http://127.0.0.1:8000", token) as store:  # doctest: +SKIP
    ...     shop = store.deployment("shop")
    ...     shop.ask("high street", state="fine", key="2026-11-18").label
    'run on'
    """

    def __init__(self, store: RemoteStore, link: Connection, told: Mapping[str, Any]) -> None:
        self.store, self._link, self.name, self.id = store, link, str(told["name"]), int(told["id"])
        self.fingerprint, self.inherits = str(told["fingerprint"]), str(told["inherits"])
        self.space = exchange.space_from_json(told["space"])
        self._path = f"/v1/deployments/{quote(self.name, safe='')}"

    def add_site(self, name: str, *, who: str | None = None, note: str | None = None) -> None:
        """One more site."""
        self._command("sites", {"name": name, "who": who, "note": note})

    def ask(self, site: str, state: int | str, key: str) -> Decision:
        """What to play in a state of a site. The same key gives the same decision for ever."""
        return _decision(self._link.post(f"{self._path}/ask", _given({"site": site, "state": state, "key": str(key)})))

    def tell(
        self,
        decision: Decision | int | None = None,
        *,
        reward: float | None = None,
        next_state: int | str | None = None,
        action: int | str | None = None,
        guardrails: Mapping[str, float] | None = None,
        noise: Any = None,
        site: str | None = None,
        key: str | None = None,
        who: str | None = None,
        note: str | None = None,
    ) -> None:
        """What came of a decision: all of it, or a part of it; in any order, and as late as you like."""
        number = None if decision is None else _number(decision)
        body: dict[str, Any] = {"decision": number, "reward": reward, "action": action}
        body |= {"next_state": next_state, "guardrails": guardrails, "site": site, "key": key, "who": who, "note": note}
        body["noise"] = _listed(noise)
        self._link.post(f"{self._path}/tell", _given(body))

    def approve(self, decision: Decision | int, *, who: str, note: str | None = None) -> Decision:
        """A person says yes: what was proposed is played."""
        return _decision(self._command(f"decisions/{_number(decision)}/approve", {"who": who, "note": note}))

    def reject(self, decision: Decision | int, *, who: str, note: str | None = None) -> Decision:
        """A person says no: the baseline is played."""
        return _decision(self._command(f"decisions/{_number(decision)}/reject", {"who": who, "note": note}))

    def expire(self, decision: Decision | int, *, who: str | None = None, note: str | None = None) -> None:
        """The rest of an outcome will not come: it is charged at its worst for good."""
        self._command(f"decisions/{_number(decision)}/expire", {"who": who, "note": note})

    def correct(
        self,
        decision: Decision | int,
        *,
        reward: float | None = None,
        next_state: int | str | None = None,
        action: int | str | None = None,
        guardrails: Mapping[str, float] | None = None,
        noise: Any = None,
        who: str | None = None,
        note: str | None = None,
    ) -> None:
        """Put right what was told of a decision: the old outcome is taken back, and this one is told instead."""
        body: dict[str, Any] = {"reward": reward, "next_state": next_state, "action": action, "guardrails": guardrails}
        body |= {"noise": _listed(noise), "who": who, "note": note}
        self._command(f"decisions/{_number(decision)}/correct", body)

    def relocate(self, site: str, state: int | str, why: str, *, who: str | None = None) -> None:
        """Something else than a decision moved a site, or its state was wrong: it is in this state now."""
        self._command("relocate", {"site": site, "state": state, "why": why, "who": who})

    def pause(self, site: str | None = None, *, who: str | None = None, note: str | None = None) -> None:
        """From the next question on, the baseline is played: at one site, or at all."""
        self._command("pause", {"site": site, "who": who, "note": note})

    def resume(self, site: str | None = None, *, who: str | None = None, note: str | None = None) -> None:
        """Take back `pause`."""
        self._command("resume", {"site": site, "who": who, "note": note})

    def close_site(self, site: str, *, who: str | None = None, note: str | None = None) -> None:
        """No more questions about a site are answered; outcomes may still be told."""
        self._command("close", {"site": site, "who": who, "note": note})

    def reopen_site(self, site: str, *, who: str | None = None, note: str | None = None) -> None:
        """Take back `close_site`."""
        self._command("reopen", {"site": site, "who": who, "note": note})

    def set_mode(self, mode: Mode, site: str | None = None, *, who: str | None = None, note: str | None = None) -> None:
        """Decide in another mode from now on, at one site or at all: "shadow", "approval" or "live"."""
        self._command("mode", {"mode": mode, "site": site, "who": who, "note": note})

    def trust(
        self, *, keep_since: int | None = None, knowledge: str = "keep", who: str | None = None, note: str | None = None
    ) -> None:
        """Go on after an alarm or a contradiction."""
        self._command("trust", {"keep_since": keep_since, "knowledge": knowledge, "who": who, "note": note})

    def decision(self, id: int) -> Decision:
        """A decision as it stands now."""
        return _decision(self._link.get(f"{self._path}/decisions/{id}"))

    def known(self, decision: int) -> Known:
        """What is known of a decision."""
        told = self._link.get(f"{self._path}/decisions/{_number(decision)}/outcome")
        return Known(**{field.name: told[field.name] for field in fields(Known)})

    def status(self) -> dict[str, Any]:
        """Where the deployment stands: accounts, open and waiting decisions, alarms, what is outside the guarantee."""
        told: dict[str, Any] = self._link.get(f"{self._path}/status")
        del told["unit"]
        return told | {"waiting": {int(n): deadline for n, deadline in told["waiting"].items()}}

    def journal(self, since: int = 0, last: int | None = None) -> Iterator[Event]:
        """The events of this deployment after event `since`, in order; `last`: only so many, the newest."""
        newest = "" if last is None else f"&last={last}"
        while True:
            page = self._link.get(f"{self._path}/journal?after={since}&limit=1000{newest}")
            for row in page["events"]:
                yield self._event(row)
                since, newest = row["event"], ""
            if page["next"] is None:
                return

    def follow(self, since: int) -> Iterator[Event]:
        """The events after event `since`, as they happen, without end; a connection that is lost is made again."""
        silent = 0
        while silent < 2:
            silent += 1
            try:
                for line in self._link.lines(f"{self._path}/events", since):
                    silent = 0
                    if line.startswith('data: {"'):
                        row = json.loads(line.removeprefix("data: "))
                        since = row["event"]
                        yield self._event(row)
            except OSError:
                self._link.get("/readyz")  # as long as patience lasts
        raise StoreFault(f"{self.store.name} has ended the stream of events after event {since}")

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of `table`, one by one."""
        return iter(self.table())

    def table(self) -> list[dict[str, Any]]:
        """One row for each decision and what came of it, in the user's unit and words."""
        content = self._link.content(f"{self._path}/export?format=jsonl").decode()
        return [json.loads(line) for line in content.split("\n") if line]

    def export(self, path: str | Path, format: Format | None = None) -> None:
        """Write `table` to a file: CSV, Parquet or JSON lines, by `format` or the ending of the name."""
        kind = format or Path(path).suffix.lstrip(".")
        if kind not in FORMATS:
            raise InvalidInput("no such format", [f"{kind!r}: there are {', '.join(FORMATS)}"])
        write(path, self._link.content(f"{self._path}/export?format={kind}"))

    def _command(self, what: str, body: dict[str, Any]) -> Any:
        return self._link.post(f"{self._path}/{what}", _given(body), command=True)

    def _event(self, row: Mapping[str, Any]) -> Event:
        return Event(row["event"], self.id, row["time"], row["kind"], row["body"])


def _number(decision: Decision | int) -> int:
    return decision.id if isinstance(decision, Decision) else int(decision)


def _listed(noise: Any) -> list[int] | None:
    return None if noise is None else [int(value) for value in np.atleast_1d(np.asarray(noise)).tolist()]


def _decision(told: Mapping[str, Any]) -> Decision:
    return Decision(**{name: told[name] for name in NAMES})


def _given(body: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, as values that JSON has."""
    return {name: _plain(value) for name, value in body.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.item() if hasattr(value, "item") else value
