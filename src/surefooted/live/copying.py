"""Backup, restore, and moving from one database to another: the journal is copied, and its hash chain is checked."""

import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from surefooted.errors import InvalidInput, UnreadableFile
from surefooted.live.opening import exists, is_postgres, open
from surefooted.live.outcomes import indexed
from surefooted.live.sqlite_store import SQLiteLiveStore
from surefooted.live.store import GENESIS, Head, Store, StoreFault, chain
from surefooted.live.verify import Verification, check_chain, check_definitions, check_file

CHUNK = 2_048


class Copied(NamedTuple):
    """How far a copy goes. Keep the hash elsewhere: it proves later that nothing was cut off.

    - `events`: how many events were copied.
    - `hash`: that of the last one.

    >>> import surefooted as sf
    >>> with sf.live.open("shop.db") as store:
    ...     store.backup("copy.db").events
    0
    """

    events: int
    hash: str


def copy(source: Store, target: Store) -> Copied:
    """Copy deployments, journal, snapshots and access tokens into an empty store, all or nothing.

    Others may go on deciding in `source`: events that they write meanwhile are not copied.
    """
    end = source.head()
    with target.transaction():
        if target.last or target.names():
            raise InvalidInput(
                "this is not copied", [f"{target.name} is not empty: it has {target.last} events"],
                "Give a new file, or another schema: postgresql://…?schema=name",
            )  # fmt: skip
        digests = _copy_events(source, target, end)
        for id_, name, fingerprint, definition in source.definitions():
            if id_ in digests:
                if hashlib.sha256(definition).hexdigest() != digests[id_]:
                    raise StoreFault(f"{source.name}: the definition of deployment {name} was changed; not copied")
                target.write("INSERT INTO deployments VALUES (?, ?, ?, ?)", id_, name, fingerprint, definition)
                for n, body in source.snapshots(id_):
                    if n <= end.n:
                        target.put_snapshot(id_, n, body)
        if missing := sorted(set(digests) - {id_ for id_, *_ in source.definitions()}):
            raise StoreFault(f"{source.name}: the definition of deployment {missing[0]} is missing; not copied")
        target.put_tokens(source.tokens())
        target.end_at(end)
    return Copied(end.n, end.hash.hex())


def _copy_events(source: Store, target: Store, end: Head) -> dict[int, str]:
    """Copy and check all events up to the end, and index them; the digests of the deployments' definitions."""
    digest, n, digests = GENESIS, 0, dict[int, str]()
    lines = takewhile(lambda row: row[0] <= end.n, source.lines())
    while rows := list(islice(lines, CHUNK)):
        decisions, told = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
        for number, deployment, at, kind, text, written in rows:
            digest = chain(digest, number, deployment, at, kind, text)
            if number != n + 1 or digest != written:
                raise StoreFault(f"{source.name}: event {n + 1} is missing or was changed: see verify; not copied")
            n, body = number, json.loads(text)
            decision, about = indexed(n, deployment, kind, body)
            decisions += [decision] if decision else []
            told += [about] if about else []
            if kind == "deployment":
                digests[deployment] = body["definition"]
        target.write_many("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", rows)
        target.write_many("INSERT INTO decisions VALUES (?, ?, ?, ?)", decisions)
        target.write_many("INSERT INTO told VALUES (?, ?)", told)
    if (n, digest) != (end.n, end.hash):
        raise StoreFault(f"{source.name}: its last events are missing or were changed: see verify; not copied")
    return digests


def backup(store: Store, target: str | Path) -> Copied:
    """Copy a store to a new file, or to an empty PostgreSQL store, while others go on deciding; the copy is checked."""
    if is_postgres(target):
        with open(target) as other:
            return copy(store, other)
    path = Path(target)
    if path.exists():
        raise InvalidInput("this is not copied", [f"{path} exists already"], "Give a new file.")
    with _unfinished(path) as part:
        if isinstance(store, SQLiteLiveStore):
            store.copy_pages(part)
            with SQLiteLiveStore(part) as other:
                copied = _checked(other)
        else:
            with SQLiteLiveStore(part) as other:
                copied = copy(store, other)
    return copied


def restore(source: str | Path, target: str | Path) -> Copied:
    """Copy a backup, or any other store, into a new or empty store; the source is not changed.

    >>> import surefooted as sf
    >>> with sf.live.open("shop.db") as store:
    ...     copied = store.backup("backup.db")
    >>> sf.live.restore("backup.db", "again.db") == copied
    True

    - `source`: the path or address of what is copied.
    - `target`: a path or address where nothing is yet.
    """
    if not exists(source):
        raise UnreadableFile(f"there is no store {source if isinstance(source, Path) else 'at that address'}")
    with tempfile.TemporaryDirectory(prefix="surefooted-") as folder:
        if is_postgres(source):
            address: str | Path = source
        else:  # an older version is brought up to date in a copy
            address = Path(folder) / "backup.db"
            _copy_file(Path(source), address)
        with open(address) as held, open(target) as other:
            return copy(held, other)


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """A file beside it that gets its name when it is whole and on disk, and is removed otherwise."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except OSError as error:
        raise StoreFault(f"{path} cannot be written: {error}") from error
    finally:
        for ending in ("", "-wal", "-shm"):
            part.with_name(part.name + ending).unlink(missing_ok=True)


def _copy_file(source: Path, target: Path) -> None:
    """A copy of an SQLite file with its write-ahead log."""
    try:
        with closing(sqlite3.connect(source)) as held, closing(sqlite3.connect(target)) as other:
            held.backup(other)
    except sqlite3.Error as error:
        raise UnreadableFile(f"{source} cannot be read as a store: {error}") from error


def _checked(store: SQLiteLiveStore) -> Copied:
    """Check a copy: its pages, its chain, its definitions."""
    seen = Verification()
    for check in (check_file, check_chain, check_definitions):
        check(store, seen)
    if seen.faults:
        raise StoreFault(f"the copy is not whole, and was not kept: {'; '.join(seen.faults[:5])}")
    return Copied(store.last, store.head().hash.hex())
