"""A connection to a PostgreSQL store: its settings, and how statements and keys are written there."""

import time
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus

from surefooted.errors import InvalidInput
from surefooted.live.address import Address
from surefooted.live.store import BUSY, StoreFault

KEY = 2_000  # bytes of a key or name: more do not fit into an index of PostgreSQL
SESSION = """
SET search_path = "{schema}", pg_temp;
SET client_encoding = 'UTF8';
SET lock_timeout = '{busy}s';
SET idle_in_transaction_session_timeout = '{idle}s';
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') <> 'remote_apply'
"""
Connection: TypeAlias = Any  # psycopg.Connection[tuple[Any, ...]]; types are checked also where psycopg is missing


def connect(address: Address) -> Connection:
    """A connection with our settings."""
    db = psycopg.connect(address.conninfo, autocommit=True)
    try:
        db.execute(SESSION.format(schema=address.schema, busy=int(1.25 * BUSY), idle=int(BUSY)))
    except BaseException:
        db.close()
        raise
    return db


class Link:
    """The one connection of a store, which is made again when it was lost.

    Parameters
    ----------
    address : where to connect to

    """

    def __init__(self, address: Address) -> None:
        self.address, self.is_closed = address, False
        self.db: Connection = None
        self.epoch: int = 0  # changes with each connection
        self.channel = f"surefooted_{address.schema}"  # under which new events are announced

    def connect(self) -> Connection:
        """A new connection."""
        self.db = connect(self.address)
        self.epoch += 1
        return self.db

    def connected(self, deadline: float) -> Connection:
        """The connection; a new one if it was lost, until the deadline."""
        if self.is_closed:
            raise StoreFault(f"{self.address.shown} was closed")
        if self.is_lost:
            self.drop()
        pause = 0.05
        while self.db is None:
            try:
                self.connect()
            except psycopg.OperationalError as error:
                if time.monotonic() + pause > deadline:
                    said = f"{self.address.shown} cannot be reached, and nothing was decided: {self.words(error)}"
                    raise StoreFault(said) from None
                time.sleep(pause)
                pause = min(1.0, 2 * pause)
        return self.db

    @property
    def is_lost(self) -> bool:
        """Whether the connection is gone, rather than a statement refused."""
        return self.db is None or bool(self.db.closed)

    def rest(self) -> None:
        """After a transaction: roll back what was not committed, and keep the connection if it is good."""
        if self.db is not None and self.db.info.transaction_status != TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                self.db.execute("ROLLBACK")
            if self.db.info.transaction_status != TransactionStatus.IDLE:
                self.drop()

    def drop(self) -> None:
        """Forget the connection."""
        db, self.db = self.db, None
        if db is not None:
            with suppress(psycopg.Error):
                db.close()

    def close(self) -> None:
        """Close it for good."""
        self.is_closed = True
        self.drop()

    def words(self, error: BaseException) -> str:
        """What the database says, without secrets."""
        return self.address.cleaned(str(error)) or type(error).__name__


def last_result(cursor: Any) -> Any:
    """The same cursor, at the result of its last statement."""
    while cursor.nextset():
        pass
    return cursor


@lru_cache(maxsize=256)
def translated(statement: str) -> str:
    """A statement as psycopg takes it."""
    return statement.replace("%", "%%").replace("?", "%s")


def check_key(key: str) -> None:
    """Refuse a key or a name that PostgreSQL cannot hold."""
    if "\0" in key or len(key.encode("utf-8", "surrogatepass")) > KEY:
        raise InvalidInput(
            "this key or name cannot be kept", [f"{key[:40]!r}…: at most {KEY} bytes, none of them zero"]
        )
