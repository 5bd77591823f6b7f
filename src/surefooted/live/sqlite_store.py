"""A store in one SQLite file.

The write-ahead log is synchronised at each commit. Transactions begin with BEGIN IMMEDIATE, so that processes and
threads write one after the other.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from surefooted.errors import UnreadableFile
from surefooted.live.deployments import LiveStore
from surefooted.live.store import APPLICATION, BUSY, SCHEMA, Head, Store, StoreFault, system_clock

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
"""  # of version 1
MIGRATIONS = {  # from this version to the next
    1: "CREATE INDEX events_of_deployment ON events (deployment, n)",
    2: """CREATE TABLE tokens (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, role TEXT NOT NULL, sites TEXT,
                               digest BLOB NOT NULL UNIQUE, created TEXT NOT NULL, expires TEXT, revoked TEXT);
          CREATE INDEX decisions_of_site ON decisions (deployment, site, n)""",
}


class SQLiteStore(Store):
    """A store in a file.

    Parameters
    ----------
    path : of the file; it is created if it does not exist
    clock, hook : as for `Store`

    """

    def __init__(
        self,
        path: str | Path,
        clock: Callable[[], datetime] = system_clock,
        hook: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(str(path), clock, hook)
        self.path = Path(path)
        try:
            self._db = sqlite3.connect(self.path, timeout=BUSY, isolation_level=None, check_same_thread=False)
            for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                self._db.execute(f"PRAGMA {setting}")
            self._file: tuple[int, int] | None = None  # which file this is
            self._prepare()
            self._file = _identity(self.path)
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
                for statement in MIGRATIONS[step].split(";"):
                    self._db.execute(statement)
            if version < SCHEMA:
                self._db.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and on disk when it ends; one process and thread at a time."""
        with self.lock:
            if self._inside:  # a part of a larger one, which commits
                yield
                return
            try:
                self.hook("before begin")
                self._check_place()
                self._db.execute("BEGIN IMMEDIATE")
                self._inside = True
                try:
                    yield
                    self.hook("before commit")
                    self._db.execute("COMMIT")
                    self.hook("after commit")
                    if self.is_changed:
                        self.announce(self._written)
                except BaseException:
                    with suppress(sqlite3.Error):
                        if self._db.in_transaction:
                            self._db.execute("ROLLBACK")
                    raise
                finally:
                    self._inside = self.is_changed = False
            except sqlite3.Error as error:
                raise StoreFault(f"{self.path} cannot be written, and nothing was decided: {error}") from error

    def _check_place(self) -> None:
        """Whoever moves, deletes or replaces the file of a store that is in use would lose what is written now."""
        if self._file is not None and self._file != _identity(self.path):
            fault = "it was moved, deleted or replaced while it was in use"
            raise StoreFault(f"{self.path} cannot be written, and nothing was decided: {fault}. Open it again")

    def read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query; `?` stands for each value."""
        with self.lock:
            try:
                return self._db.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise StoreFault(f"{self.path} cannot be read: {error}") from error

    def write(self, statement: str, *values: Any) -> None:
        """Change something other than the journal; only within a transaction. `?` stands for each value."""
        self._db.execute(statement, values)

    def write_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """The same statement for each row; only within a transaction."""
        self._db.executemany(statement, rows)

    def end_at(self, head: Head) -> None:
        """The journal ends here now, within this transaction."""
        self._written, self.is_changed = head.n, True

    def copy_pages(self, path: Path) -> None:
        """Copy the file as it is at one moment to a new one; other processes may go on writing."""
        try:
            with closing(sqlite3.connect(path)) as target:
                if str(self.path) == ":memory:":
                    with self.lock:
                        self._db.backup(target)
                else:
                    with closing(sqlite3.connect(self.path, timeout=BUSY)) as source:
                        source.backup(target)
        except sqlite3.Error as error:
            raise StoreFault(f"{self.path} cannot be copied to {path}: {error}") from error

    def faults(self) -> list[str]:
        """What SQLite finds wrong with the pages of the file."""
        return [f"the file: {line}" for (line,) in self.read("PRAGMA integrity_check(20)") if line != "ok"]

    def close(self) -> None:
        """Close the file."""
        with self.lock:
            self._db.close()


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and number of a file, None if there is none of that name."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class SQLiteLiveStore(LiveStore, SQLiteStore):
    """Deployments in an SQLite file; `surefooted.live.open` returns one."""
