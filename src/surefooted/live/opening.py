"""Which database a store is in: its address says so."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from surefooted.errors import MissingExtra
from surefooted.live.deployments import LiveStore
from surefooted.live.sqlite_store import SQLiteLiveStore
from surefooted.live.store import system_clock

if TYPE_CHECKING:
    from surefooted.live.postgres_store import PostgresLiveStore

SCHEMES = ("postgresql://", "postgres://")


def is_postgres(address: str | Path) -> bool:
    """Whether this is the address of a PostgreSQL store, and no path."""
    return isinstance(address, str) and address.startswith(SCHEMES)


def shown(address: str | Path) -> str:
    """An address for people, without its secrets."""
    if not is_postgres(address):
        return str(address)
    _postgres()
    from surefooted.live.address import parse

    return parse(str(address)).shown


def exists(address: str | Path) -> bool:
    """Whether there is a store at an address; an error if that cannot be found out."""
    if not is_postgres(address):
        return Path(address).exists()
    return _postgres().is_there(str(address))


def open(address: str | Path, clock: Callable[[], datetime] = system_clock) -> LiveStore:
    """The store at an address, which is created if there is none.

    Parameters
    ----------
    address : the path of an SQLite file; or `postgresql://user@host:port/database`, see docs/live.md
    clock : returns the time, in UTC

    Examples
    --------
    >>> import surefooted as sf
    >>> with sf.live.open("shop.db") as store:
    ...     store.deployments()
    []
    >>> with sf.live.open("postgresql://ada@db.example.com/shops") as store:  # doctest: +SKIP
    ...     store.deployments()
    []

    """
    if not is_postgres(address):
        return SQLiteLiveStore(address, clock)
    return _postgres()(str(address), clock)


def _postgres() -> "type[PostgresLiveStore]":
    """What opens PostgreSQL stores, if psycopg is installed."""
    try:
        from surefooted.live.postgres_store import PostgresLiveStore
    except ImportError as error:
        needed = 'a PostgreSQL store needs psycopg: pip install "surefooted[postgres]"'
        raise MissingExtra(f"{needed} ({error})") from error
    return PostgresLiveStore
