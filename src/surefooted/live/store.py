"""One SQLite file: deployments, an append-only journal of events with a hash chain, and snapshots.

Every event is on disk before anybody is told of it: the write-ahead log is synchronised at each commit. Transactions
begin with BEGIN IMMEDIATE, so that processes and threads write one after the other. The tables `decisions` and `told`
are an index of the journal, and `snapshots` may be deleted at any time.
"""

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from surefooted.errors import SurefootedError, UnreadableFile

SCHEMA = 2
APPLICATION = 0x53466F74  # "SFot": which program's file this is
BUSY = 60.0  # seconds to wait for another process
GENESIS = b"\0" * 32  # the hash before the first event

TABLES = """
CREATE TABLE events (n INTEGER PRIMARY KEY, deployment INTEGER NOT NULL, at TEXT NOT NULL, kind TEXT NOT NULL,
                     body TEXT NOT NULL, hash BLOB NOT NULL);
CREATE TABLE deployments (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL,
                          definition BLOB NOT NULL);
CREATE TABLE decisions (n INTEGER PRIMARY KEY, deployment INTEGER NOT NULL, site INTEGER NOT NULL, key TEXT NOT NULL,
                        UNIQUE (deployment, site, key));
CREATE TABLE told (decision INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (decision, n)) WITHOUT ROWID;
CREATE TABLE snapshots (deployment INTEGER NOT NULL, n INTEGER NOT NULL, body BLOB NOT NULL,
                        PRIMARY KEY (deployment, n));
"""
MIGRATIONS = {1: "CREATE INDEX events_of_deployment ON events (deployment, n);"}  # from this schema to the next


class StoreFault(SurefootedError):
    """The store cannot be read or written: nothing was decided, and nothing that was acknowledged is lost."""


class Event(NamedTuple):
    """One line of the journal."""

    n: int
    deployment: int
    at: str  # UTC, ISO 8601; never before the event before it
    kind: str
    body: dict[str, Any]


def chain(before: bytes, n: int, deployment: int, at: str, kind: str, body: str) -> bytes:
    """The hash of an event: of the hash before it, and of all that it says."""
    return hashlib.sha256(before + f"{n}\n{deployment}\n{at}\n{kind}\n{body}".encode()).digest()


def system_clock() -> datetime:
    """The time now."""
    return datetime.now(UTC)


class Store:
    """A store on disk; `surefooted.live.open` opens one. Threads may share it.

    Parameters
    ----------
    path : of the file; it is created if it does not exist
    clock : returns the time, in UTC
    hook : called with the name of each point at which a process may die; for tests

    """

    def __init__(
        self,
        path: str | Path,
        clock: Callable[[], datetime] = system_clock,
        hook: Callable[[str], None] | None = None,
    ) -> None:
        self.path, self.clock, self.lock = Path(path), clock, threading.RLock()
        self.hook = hook or (lambda point: None)
        try:
            self._db = sqlite3.connect(self.path, timeout=BUSY, isolation_level=None, check_same_thread=False)
            for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                self._db.execute(f"PRAGMA {setting}")
            self._prepare()
        except sqlite3.DatabaseError as error:
            raise UnreadableFile(f"{self.path} cannot be opened as a store: {error}") from error

    def _prepare(self) -> None:
        """Create the tables, or bring those of an older version up to date."""
        with self.transaction():
            version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
            mark = int(self._db.execute("PRAGMA application_id").fetchone()[0])
            empty = not self._db.execute("SELECT 1 FROM sqlite_master").fetchone()
            if not empty and mark != APPLICATION:
                raise UnreadableFile(f"{self.path} is a database, but no store of surefooted")
            if version > SCHEMA:
                found = f"it has version {version}, and this surefooted reads versions up to {SCHEMA}"
                raise UnreadableFile(f"{self.path} was written by a newer surefooted: {found}. Update surefooted")
            if empty:
                for statement in TABLES.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {APPLICATION}")
                version = 1
            for step in range(version, SCHEMA):
                self.hook(f"migrate {step}")
                self._db.execute(MIGRATIONS[step])
            if version < SCHEMA:
                self._db.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and on disk when it ends; one process and thread at a time."""
        with self.lock:
            try:
                self.hook("before begin")
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield
                    self.hook("before commit")
                    self._db.execute("COMMIT")
                    self.hook("after commit")
                except BaseException:
                    with suppress(sqlite3.Error):
                        if self._db.in_transaction:
                            self._db.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise StoreFault(f"{self.path} cannot be written, and nothing was decided: {error}") from error

    def append(self, deployment: int, kind: str, body: dict[str, Any]) -> Event:
        """Add an event to the journal; only within a transaction."""
        last = self._db.execute("SELECT n, at, hash FROM events ORDER BY n DESC LIMIT 1").fetchone()
        n, before, digest = (0, "", GENESIS) if last is None else last
        at = max(self.clock().astimezone(UTC).isoformat(timespec="microseconds"), before)  # clocks may jump back
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        row = (n + 1, deployment, at, kind, text)
        self.hook("before event")
        self._db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (*row, chain(digest, *row)))
        self.hook("after event")
        return Event(n + 1, deployment, at, kind, body)

    def index_decision(self, n: int, deployment: int, site: int, key: str) -> None:
        """Make a decision findable by its key."""
        self._db.execute("INSERT INTO decisions VALUES (?, ?, ?, ?)", (n, deployment, site, key))
        self.hook("after index")

    def index_told(self, decision: int, n: int) -> None:
        """Make an event findable by the decision that it is about."""
        self._db.execute("INSERT INTO told VALUES (?, ?)", (decision, n))
        self.hook("after index")

    def read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self.lock:
            try:
                return self._db.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise StoreFault(f"{self.path} cannot be read: {error}") from error

    def write(self, statement: str, *values: Any) -> None:
        """Change something other than the journal; only within a transaction."""
        self._db.execute(statement, values)

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
            raise StoreFault(f"{self.path}: event {n} was damaged, and cannot be read: {error}") from error

    @property
    def last(self) -> int:
        """The number of the last event."""
        return int(self.read("SELECT coalesce(max(n), 0) FROM events")[0][0])

    def close(self) -> None:
        """Close the file."""
        with self.lock:
            self._db.close()
