"""A connection to a PostgreSQL store: its settings, and how statements and keys are written there."""

from functools import lru_cache
from typing import Any, TypeAlias

import psycopg

from surefooted.errors import InvalidInput
from surefooted.live.address import Address
from surefooted.live.store import BUSY

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


def last_result(cursor: Any) -> Any:
    """The same cursor, at the result of its last statement."""
    while cursor.nextset():
        pass
    return cursor


def channel(address: Address) -> str:
    """The name under which new events of a store are announced."""
    return f"surefooted_{address.schema}"


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
