"""What every store does, whichever database holds it: deployments, an append-only journal of events with a hash chain.

Every event is on disk before anybody is told of it, and transactions follow one another: processes and threads take
turns. The tables `decisions` and `told` are an index of the journal, and `snapshots` may be deleted at any time.
Statements are written with `?` for each value, in the SQL that all databases share.
"""

import hashlib
import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from surefooted.errors import InvalidInput, SurefootedError

SCHEMA = 3  # the version of the tables
APPLICATION = 0x53466F74  # "SFot": which program's tables these are
BUSY = 60.0  # seconds to wait for another process
GENESIS = b"\0" * 32  # the hash before the first event


class StoreFault(SurefootedError):
    """The store cannot be read or written. Nothing that was acknowledged is lost.

    The message says "nothing was decided" if that is certain. Otherwise, asking again with the same key, or telling the
    same again, settles it.

    >>> import surefooted as sf
    >>> with sf.live.open("shop.db") as store:
    ...     names = store.deployments()
    >>> try:
    ...     store.deployments()  # it is closed
    ... except sf.live.StoreFault as error:
    ...     print(error)
    shop.db cannot be read: Cannot operate on a closed database.
    """


class Event(NamedTuple):
    """One line of the journal.

    - `n`: its number in the journal, from 1.
    - `deployment`: the number of its deployment.
    - `at`: when it was written.
    - `kind`: what happened, such as "ask" or "tell".
    - `body`: the rest, as it stands in the journal.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> known = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    >>> baseline = sf.Baseline(problem.baseline, known.gain, known.bias)
    >>> with sf.live.open(":memory:") as store:
    ...     river = store.create_deployment("river", space=problem.space, baseline=baseline, alpha=0.1)
    ...     river.add_site("east")
    ...     decision = river.ask("east", state=0, key="monday")
    ...     river.tell(decision, reward=0.005, next_state=0)
    ...     kinds = [event.kind for event in river.journal()]
    >>> kinds
    ['deployment', 'mode', 'site', 'ask', 'tell']
    """

    n: int
    deployment: int
    at: str  # UTC, ISO 8601; never before the event before it
    kind: str
    body: dict[str, Any]


class Head(NamedTuple):
    """The end of the journal: number, time and hash of the last event."""

    n: int
    at: str
    hash: bytes


def chain(before: bytes, n: int, deployment: int, at: str, kind: str, body: str) -> bytes:
    """The hash of an event: of the hash before it, and of all that it says."""
    return hashlib.sha256(before + f"{n}\n{deployment}\n{at}\n{kind}\n{body}".encode()).digest()


def system_clock() -> datetime:
    """The time now."""
    return datetime.now(UTC)


class Store(ABC):
    """Deployments and their journal in a database. Threads may share a store.

    Parameters
    ----------
    name : of the store, for people; without secrets
    clock : returns the time, in UTC
    hook : called with the name of each point at which a process may die; for tests

    """

    POLL = 0.05  # seconds between two looks whether another process has written

    def __init__(
        self, name: str, clock: Callable[[], datetime] = system_clock, hook: Callable[[str], None] | None = None
    ) -> None:
        self.name, self.clock, self.lock = name, clock, threading.RLock()
        self.hook = hook or (lambda point: None)
        self._inside = False  # a transaction, held by the thread that has the lock
        self.is_changed = False  # whether the transaction that has begun has written anything to the journal
        self._news, self._announced = threading.Condition(), 0

    # What a database must be able to do.

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """All or nothing, and on disk when it ends; one process and thread at a time.

        A transaction within a transaction is a part of it: all of it is written when the outer one ends, or nothing.
        """

    @abstractmethod
    def read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query; `?` stands for each value."""

    @abstractmethod
    def write(self, statement: str, *values: Any) -> None:
        """Change something other than the journal; only within a transaction. `?` stands for each value."""

    @abstractmethod
    def write_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """The same statement for each row; only within a transaction."""

    @abstractmethod
    def end_at(self, head: Head) -> None:
        """The journal ends here now, within this transaction."""

    @abstractmethod
    def faults(self) -> list[str]:
        """What the database itself finds wrong with its files."""

    @abstractmethod
    def close(self) -> None:
        """Close it."""

    # The journal.

    @property
    def epoch(self) -> int:
        """Changes whenever the journal may have been put back to an earlier time."""
        return 0

    def head(self) -> Head:
        """The end of the journal."""
        rows = self.read("SELECT n, at, hash FROM events ORDER BY n DESC LIMIT 1")
        return Head(*rows[0]) if rows else Head(0, "", GENESIS)

    def append(self, deployment: int, kind: str, body: dict[str, Any]) -> Event:
        """Add an event to the journal; only within a transaction."""
        n, before, digest = self.head()
        at = max(self.clock().astimezone(UTC).isoformat(timespec="microseconds"), before)  # clocks may jump back
        try:
            text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            text.encode()
        except (TypeError, ValueError) as error:  # such as a name that is no text, or half a character
            raise InvalidInput("this cannot be written down", [f"event {kind}: {error}"]) from error
        row = (n + 1, deployment, at, kind, text)
        self.hook("before event")
        digest = chain(digest, *row)
        self.write("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", *row, digest)
        self.end_at(Head(n + 1, at, digest))
        self.hook("after event")
        return Event(n + 1, deployment, at, kind, body)

    def announce(self, n: int) -> None:
        """Event n is in the journal: wake those who wait for it."""
        with self._news:
            self._announced = max(self._announced, n)
            self._news.notify_all()

    def wait(self, since: int, timeout: float) -> int:
        """The number of the last event: as soon as it is above `since`, or after `timeout` seconds.

        >>> import surefooted as sf
        >>> with sf.live.open(":memory:") as store:
        ...     store.wait(since=0, timeout=0.1)
        0
        """
        deadline = time.monotonic() + timeout
        while (last := self.last) <= since and (left := deadline - time.monotonic()) > 0:
            with self._news:
                if self._announced <= since:
                    self._news.wait(min(left, self.POLL))
        return last

    def now(self) -> str:
        """The time as the journal counts it, which never goes back."""
        return max(self.clock().astimezone(UTC).isoformat(timespec="microseconds"), self.head().at)

    @property
    def last(self) -> int:
        """The number of the last event."""
        return int(self.read("SELECT coalesce(max(n), 0) FROM events")[0][0])

    def lines(self, after: int = 0, chunk: int = 4_096) -> Iterator[tuple[int, int, str, str, str, bytes]]:
        """The events after event `after` as they are written down, with their hashes."""
        query = f"SELECT n, deployment, at, kind, body, hash FROM events WHERE n > ? ORDER BY n LIMIT {chunk}"
        while rows := self.read(query, after):
            yield from rows
            after = rows[-1][0]

    def events(self, deployment: int | None = None, after: int = 0, chunk: int = 4_096) -> Iterator[Event]:
        """The events after event `after`, in order; of one deployment or of all. Others may write meanwhile."""
        of, values = ("", []) if deployment is None else ("deployment = ? AND", [deployment])
        query = f"SELECT n, deployment, at, kind, body FROM events WHERE {of} n > ? ORDER BY n LIMIT {chunk}"
        while rows := self.read(query, *values, after):
            for n, of_deployment, at, kind, body in rows:
                yield Event(n, of_deployment, at, kind, self._parsed(n, body))
            after = rows[-1][0]

    def event(self, n: int) -> Event:
        """Event n."""
        (row,) = self.read("SELECT n, deployment, at, kind, body FROM events WHERE n = ?", n)
        number, deployment, at, kind, body = row
        return Event(number, deployment, at, kind, self._parsed(number, body))

    def _parsed(self, n: int, body: str) -> dict[str, Any]:
        """The body of an event."""
        try:
            found: dict[str, Any] = json.loads(body)
            return found
        except (ValueError, TypeError) as error:
            raise StoreFault(f"{self.name}: event {n} was damaged, and cannot be read: {error}") from error

    # The index of the journal.

    def index_decision(self, n: int, deployment: int, site: int, key: str) -> None:
        """Make a decision findable by its key."""
        self.write("INSERT INTO decisions VALUES (?, ?, ?, ?)", n, deployment, site, key)
        self.hook("after index")

    def index_told(self, decision: int, n: int) -> None:
        """Make an event findable by the decision that it is about."""
        self.write("INSERT INTO told VALUES (?, ?)", decision, n)
        self.hook("after index")

    def decision_for(self, deployment: int, site: int, key: str) -> int | None:
        """The decision for a key at a site, if one was made."""
        query = "SELECT n FROM decisions WHERE deployment = ? AND site = ? AND key = ?"
        found = self.read(query, deployment, site, key)
        return int(found[0][0]) if found else None

    def has_decision(self, n: int, deployment: int) -> bool:
        """Whether event n is a decision of a deployment."""
        return bool(self.read("SELECT 1 FROM decisions WHERE n = ? AND deployment = ?", n, deployment))

    def about(self, decision: int) -> list[Event]:
        """The events about a decision after it was made."""
        told = "told JOIN events ON events.n = told.n WHERE told.decision = ? ORDER BY told.n"
        rows = self.read(f"SELECT events.n, deployment, at, kind, body FROM {told}", decision)
        return [Event(n, deployment, at, kind, self._parsed(n, body)) for n, deployment, at, kind, body in rows]

    def indexed_decisions(self) -> set[tuple[Any, ...]]:
        """All decisions of the index: number, deployment, site, key."""
        return set(self.read("SELECT n, deployment, site, key FROM decisions"))

    def indexed_told(self) -> set[tuple[Any, ...]]:
        """All of the index of what is about which decision: decision, event."""
        return set(self.read("SELECT decision, n FROM told"))

    # Deployments, their snapshots, and access tokens.

    def add_definition(self, name: str, fingerprint: str, definition: bytes) -> int:
        """Keep the definition of a new deployment; its number."""
        id_ = int(self.read("SELECT coalesce(max(id), 0) + 1 FROM deployments")[0][0])
        self.write("INSERT INTO deployments VALUES (?, ?, ?, ?)", id_, name, fingerprint, definition)
        return id_

    def find_definition(self, name: str) -> tuple[int, bytes] | None:
        """The number and definition of a deployment, if there is one of that name."""
        found = self.read("SELECT id, definition FROM deployments WHERE name = ?", name)
        return (int(found[0][0]), found[0][1]) if found else None

    def definitions(self) -> list[tuple[int, str, str, bytes]]:
        """Number, name, fingerprint and definition of each deployment, in order."""
        rows = self.read("SELECT id, name, fingerprint, definition FROM deployments ORDER BY id")
        return [(int(id_), name, fingerprint, definition) for id_, name, fingerprint, definition in rows]

    def names(self) -> list[str]:
        """The names of all deployments, in order."""
        return [name for (name,) in self.read("SELECT name FROM deployments ORDER BY id")]

    def snapshots(self, deployment: int) -> Iterator[tuple[int, bytes]]:
        """The snapshots of a deployment, the newest first: after which event, and of what."""
        for (n,) in self.read("SELECT n FROM snapshots WHERE deployment = ? ORDER BY n DESC", deployment):
            for (body,) in self.read("SELECT body FROM snapshots WHERE deployment = ? AND n = ?", deployment, n):
                yield int(n), body

    def put_snapshot(self, deployment: int, n: int, body: bytes) -> None:
        """Keep this snapshot and the one before it."""
        replace = "ON CONFLICT (deployment, n) DO UPDATE SET body = excluded.body"
        self.write(f"INSERT INTO snapshots VALUES (?, ?, ?) {replace}", deployment, n, body)
        kept = "SELECT n FROM snapshots WHERE deployment = ? ORDER BY n DESC LIMIT 2"
        self.write(f"DELETE FROM snapshots WHERE deployment = ? AND n NOT IN ({kept})", deployment, deployment)
        self.hook("after snapshot")

    def tokens(self) -> list[tuple[Any, ...]]:
        """All access tokens, as they are written down."""
        return self.read("SELECT id, name, role, sites, digest, created, expires, revoked FROM tokens ORDER BY id")

    def put_tokens(self, rows: list[tuple[Any, ...]]) -> None:
        """Copy access tokens into an empty store; only within a transaction."""
        self.write_many("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
