"""A store in a PostgreSQL database, which any number of processes and machines may share.

A transaction locks the one row of `head`, the end of the journal, so that decisions follow one another, and the journal
has no gaps. Writes are kept back and sent together with the commit, in one round trip. A connection that is lost before
the commit was sent has decided nothing. If it is lost while committing, the store connects again, takes the lock (which
the lost transaction holds until it has ended), and looks whether its last event is in the journal.
"""

import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Any

import psycopg

from surefooted.errors import UnreadableFile
from surefooted.live.address import parse
from surefooted.live.deployments import LiveStore
from surefooted.live.listening import Listener
from surefooted.live.postgres_session import Connection, Link, check_key, connect, last_result, translated
from surefooted.live.postgres_tables import check_version, prepare, version_of
from surefooted.live.store import Event, Head, Store, StoreFault, system_clock

PATIENCE = 20.0  # seconds to connect again after a connection was lost
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
LOCK = "SELECT version, n, at, hash FROM head FOR UPDATE"
FRESH = 256  # events of others that are read together with the lock, at most
NEW = "SELECT n, deployment, at, kind, body FROM events WHERE n > {} ORDER BY n LIMIT {}"


class PostgresStore(Store):
    """A store in a schema of a PostgreSQL database.

    Parameters
    ----------
    address : `postgresql://user@host:port/database?schema=name`; the schema is created if it does not exist
    clock, hook : as for `Store`

    """

    POLL = 5.0

    def __init__(
        self,
        address: str,
        clock: Callable[[], datetime] = system_clock,
        hook: Callable[[str], None] | None = None,
    ) -> None:
        self._link = Link(parse(address))
        super().__init__(self._link.address.shown, clock, hook)
        self._head: Head | None = None  # within a transaction
        self._begun_at, self._seen = Head(0, "", b""), Head(0, "", b"")  # when it began; what was there last time
        self._fresh: tuple[int, list[tuple[Any, ...]]] = (0, [])  # since which event, and what was written since
        self._pending: list[tuple[str, tuple[Any, ...]]] = []
        self._listener: Listener | None = None
        try:
            prepare(self._link.connect(), self.name, self._link.address.schema, self.hook)
        except psycopg.Error as error:
            self.close()
            raise UnreadableFile(f"{self.name} cannot be opened as a store: {self._link.words(error)}") from None
        except BaseException:
            self.close()
            raise

    @staticmethod
    def is_there(address: str) -> bool:
        """Whether there is a store at an address."""
        where = parse(address)
        try:
            with connect(where) as db:
                return version_of(db, where.shown, where.schema) > 0
        except psycopg.Error as error:
            raise UnreadableFile(f"{where.shown} cannot be reached: {where.cleaned(str(error))}") from None

    # Transactions.

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and on disk when it ends; one process and thread at a time."""
        with self.lock:
            if self._head is not None:  # a part of a larger one, which commits
                yield
                return
            self.hook("before begin")
            self._begin()
            try:
                yield
                self.hook("before commit")
                self._commit()
                self.hook("after commit")
            except psycopg.Error as error:
                raise self._nothing(error) from None
            finally:
                self._end()

    def _begin(self) -> None:
        """Take the lock; connect again if the connection was lost, since nothing has happened yet."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                db = self._link.connected(deadline)
                cursor = db.execute(f"{BEGIN}; {LOCK}; {NEW.format(self._seen.n, FRESH)}")
                row = cursor.fetchone() if cursor.nextset() else None
                self._fresh = self._seen.n, last_result(cursor).fetchall()
                break
            except psycopg.Error as error:
                lost = self._link.is_lost
                self._end()
                if not lost or time.monotonic() > deadline:
                    raise self._nothing(error) from None
        if row is None:
            self._end()
            raise StoreFault(f"{self.name} is damaged, and nothing was decided: its table head has no row")
        try:
            check_version(self.name, row[0])
        except UnreadableFile:
            self._end()
            raise
        self._head = self._begun_at = Head(*row[1:])
        if self._head.n < self._seen.n or (self._head.n == self._seen.n and self._head != self._seen):
            self._link.epoch += 1  # the journal was put back to an earlier time: what was read does not count
        self._seen = self._head

    def _commit(self) -> None:
        """Send all that was written, and wait until it is on disk."""
        head, was = self._head, self._begun_at
        assert head is not None
        if head != was:
            self._pending.append(("UPDATE head SET n = %s, at = %s, hash = %s", (head.n, head.at, head.hash)))
            self._pending.append(("SELECT pg_notify(%s, %s)", (self._link.channel, str(head.n))))
        if not self.is_changed:
            with suppress(psycopg.Error):
                self._flush("ROLLBACK")  # only the lock was taken: there is nothing to wait for
            return
        try:
            self._flush("COMMIT")
        except psycopg.Error as error:
            if not self._link.is_lost:
                raise
            self._settle(head if head != was else None, error)
        self._seen = head
        if head != was:
            self.announce(head.n)

    def _settle(self, head: Head | None, error: psycopg.Error) -> None:
        """The connection was lost while committing: look what became of it."""
        unknown = (
            f"{self.name}: the connection was lost while committing, and it is not known whether this was written: "
            f"{self._link.words(error)}. Ask again with the same key, or tell the same again: that settles it"
        )
        if head is None:  # nothing of it is in the journal
            raise StoreFault(unknown) from None
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                db = self._link.connected(deadline)
                db.execute(BEGIN)
                db.execute(LOCK)
                found = db.execute("SELECT hash FROM events WHERE n = %s", (head.n,)).fetchone()
                db.execute("ROLLBACK")
                break
            except (psycopg.Error, StoreFault):
                lost = self._link.is_lost
                self._link.drop()
                if not lost or time.monotonic() > deadline:
                    raise StoreFault(unknown) from None
        if found is None or found[0] != head.hash:
            raise self._nothing(error) from None

    def _end(self) -> None:
        """After a transaction: roll back what was not committed, and keep the connection if it is good."""
        self._head, self._pending, self.is_changed = None, [], False
        self._link.rest()

    def _nothing(self, error: BaseException) -> StoreFault:
        """What is said if nothing was decided for certain."""
        return StoreFault(f"{self.name} cannot be written, and nothing was decided: {self._link.words(error)}")

    # Reading and writing.

    def read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query; `?` stands for each value."""
        with self.lock:
            if self._head is not None:
                try:
                    self._flush()
                    return list(self._execute(self._link.db, query, values).fetchall())
                except psycopg.Error as error:
                    raise self._nothing(error) from None
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    return list(self._execute(self._link.connected(deadline), query, values).fetchall())
                except psycopg.Error as error:
                    if not self._link.is_lost or time.monotonic() > deadline:
                        raise StoreFault(f"{self.name} cannot be read: {self._link.words(error)}") from None

    def write(self, statement: str, *values: Any) -> None:
        """Change something other than the journal; only within a transaction. `?` stands for each value."""
        if self._head is None:
            raise StoreFault(f"{self.name} cannot be written outside of a transaction")
        self.is_changed = True
        self._pending.append((translated(statement), values))

    def write_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """The same statement for each row; only within a transaction."""
        self._flush()
        assert self._head is not None
        self.is_changed = True
        with self._link.db.cursor() as cursor:
            cursor.executemany(translated(statement), rows)

    def _flush(self, last: str | None = None) -> None:
        """Send what was kept back; with COMMIT as the last statement, in one round trip."""
        if self._pending or last:
            pending, self._pending = self._pending, []
            statements = [statement for statement, _ in pending] + ([last] if last else [])
            with psycopg.ClientCursor(self._link.db) as cursor:  # quotes values, which several statements need
                cursor.execute("; ".join(statements), [value for _, values in pending for value in values])
                done = last_result(cursor).statusmessage
            if last and done != last:
                raise StoreFault(f"{self.name} cannot be written, and nothing was decided: {done}")

    def _execute(self, db: Connection, query: str, values: tuple[Any, ...]) -> Any:
        return db.execute(translated(query), values) if values else db.execute(query)

    # The journal.

    @property
    def epoch(self) -> int:
        """Changes whenever the journal may have been put back to an earlier time: with each new connection."""
        return self._link.epoch

    def head(self) -> Head:
        """The end of the journal."""
        with self.lock:  # another thread may be in a transaction: what it writes is not there yet
            return super().head() if self._head is None else self._head

    def events(self, deployment: int | None = None, after: int = 0, chunk: int = 4_096) -> Iterator[Event]:
        """The events after event `after`, in order; of one deployment or of all. Others may write meanwhile."""
        since, rows = self._fresh
        if self._head is None or self.is_changed or after < since or len(rows) == FRESH:
            return super().events(deployment, after, chunk)
        found = (row for row in rows if row[0] > after and deployment in (None, row[1]))
        return (Event(n, of, at, kind, self._parsed(n, body)) for n, of, at, kind, body in found)

    @property
    def last(self) -> int:
        """The number of the last event."""
        with self.lock:
            return super().last if self._head is None else self._head.n

    def index_decision(self, n: int, deployment: int, site: int, key: str) -> None:
        """Make a decision findable by its key."""
        check_key(key)
        super().index_decision(n, deployment, site, key)

    def decision_for(self, deployment: int, site: int, key: str) -> int | None:
        """The decision for a key at a site, if one was made."""
        check_key(key)
        return super().decision_for(deployment, site, key)

    def find_definition(self, name: str) -> tuple[int, bytes] | None:
        """The number and definition of a deployment, if there is one of that name."""
        check_key(name)
        return super().find_definition(name)

    def wait(self, since: int, timeout: float) -> int:
        """The number of the last event: as soon as it is above `since`, or after `timeout` seconds."""
        with self.lock:
            if self._listener is None and not self._link.is_closed:
                announce = weakref.WeakMethod(self.announce)
                self._listener = Listener(partial(connect, self._link.address), self._link.channel, announce)
                self._listener.start()
        return super().wait(since, timeout)

    def end_at(self, head: Head) -> None:
        """The journal ends here now, within this transaction."""
        self._head, self.is_changed = head, True

    def put_tokens(self, rows: list[tuple[Any, ...]]) -> None:
        """Copy access tokens into an empty store; only within a transaction."""
        super().put_tokens(rows)
        self.read("SELECT setval(pg_get_serial_sequence('tokens', 'id'), coalesce(max(id), 0) + 1, false) FROM tokens")

    def faults(self) -> list[str]:
        """Whether the end of the journal is where the table `head` says, and whether pages failed their checksum."""
        found, last = [], "LEFT JOIN events ON events.n = (SELECT max(n) FROM events)"
        said = f"SELECT head.n, events.n, (head.at, head.hash) = (events.at, events.hash) FROM head {last}"
        ((n, end, same),) = self.read(said)  # in one statement, since others may go on writing
        if n != (end or 0) or same is False:
            found.append(f"the table head: says that the journal ends with event {n}, or that event was changed")
        query = "SELECT coalesce(checksum_failures, 0) FROM pg_stat_database WHERE datname = current_database()"
        (failures,) = self.read(query)[0]
        return found + ([f"the database: {failures} pages failed their checksum"] if failures else [])

    def close(self) -> None:
        """Close the connections."""
        with self.lock:
            if self._listener is not None:
                self._listener.stop()
            self._link.close()

    def __del__(self) -> None:
        """Close the connection of a store that nobody has any more."""
        if hasattr(self, "_link"):
            with suppress(Exception):
                self._link.close()


class PostgresLiveStore(LiveStore, PostgresStore):
    """Deployments in a PostgreSQL database; `surefooted.live.open` returns one."""
