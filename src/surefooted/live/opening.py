"""Which database a store is in: its address says so."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from surefooted.live.deployments import LiveStore
from surefooted.live.sqlite_store import SQLiteStore
from surefooted.live.store import system_clock


class SQLiteLiveStore(LiveStore, SQLiteStore):
    """Deployments in an SQLite file."""


def open(path: str | Path, clock: Callable[[], datetime] = system_clock) -> LiveStore:
    """The store in that file, which is created if there is none; `clock` returns the time, in UTC."""
    return SQLiteLiveStore(path, clock)
