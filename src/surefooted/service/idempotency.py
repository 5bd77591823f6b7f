"""A command that is sent twice is done once: its key and its answer are written with it, in one transaction.

The key belongs to a token, so nobody can meet another's. The same key with another request is an error. Replicas share
the table, and a process that dies between the command and its answer has written both or neither.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Any

from surefooted.live.advisor import Advisor
from surefooted.live.store import Store
from surefooted.service.errors import Refusal

KEPT = timedelta(days=2)  # how long a key is remembered, at least
SWEEP = 100  # one in so many commands forgets old keys
TABLE = """CREATE TABLE IF NOT EXISTS requests (token TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL,
           answer TEXT NOT NULL, created TEXT NOT NULL, PRIMARY KEY (token, key))"""


def prepare(store: Store) -> None:
    """Create the table, if there is none; it is no part of the journal."""
    with store.transaction():
        store.write(TABLE)


def once(store: Store, advisor: Advisor | None, named: tuple[str, str, str], do: Callable[[], Any]) -> Any:
    """Do a command, or answer as the first time; `named` is the token's name, the key, and all of the request."""
    token, key, what = named
    digest, now = hashlib.sha256(what.encode()).hexdigest(), store.clock().astimezone(UTC)
    before = (now - KEPT).isoformat(timespec="microseconds")
    with store.lock:
        try:
            with store.transaction():
                rows = store.read("SELECT digest, answer FROM requests WHERE token = ? AND key = ?", token, key)
                if rows:
                    if not hmac.compare_digest(str(rows[0][0]), digest):
                        detail = "This Idempotency-Key was sent before, with another request. Use a new one."
                        raise Refusal(422, "key-used", "this key belongs to another request", detail)
                    return json.loads(rows[0][1])
                answer = do()
                if secrets.randbelow(SWEEP) == 0:
                    store.write("DELETE FROM requests WHERE created < ?", before)
                told = json.dumps(answer, ensure_ascii=False)
                values = (token, key, digest, told, now.isoformat(timespec="microseconds"))
                store.write(
                    "INSERT INTO requests (token, key, digest, answer, created) VALUES (?, ?, ?, ?, ?)", *values
                )
                return answer
        except BaseException:
            if advisor is not None:
                advisor._forget()
            raise
