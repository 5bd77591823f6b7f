"""Webhooks: addresses of the configuration are told about alarms, and about decisions that wait for a person.

Each message says which event of the journal it is about. How far an address was told is kept in the store, so that
nothing is left out after a restart. A message that got no answer is sent again, with growing pauses; the receiver may
get one twice, and can tell by the number of the event. The signature is the HMAC-SHA256, with the secret of the
address, of the time, a point, and the body: `X-Surefooted-Signature: t=1763462400,v1=3f8a...`.
"""

import hashlib
import hmac
import http.client
import json
import logging
import ssl
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from surefooted.errors import SurefootedError
from surefooted.live.lines import in_words
from surefooted.live.store import Event, Store
from surefooted.service.context import Context
from surefooted.service.settings import Webhook

log = logging.getLogger("surefooted.service.webhooks")
TABLE = "CREATE TABLE IF NOT EXISTS hooks (address TEXT NOT NULL PRIMARY KEY, n INTEGER NOT NULL)"
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0  # seconds before a message is sent again
TIMEOUT = 10.0  # seconds for one attempt
TURN = 5.0  # seconds after which a thread looks whether it is to end
OLD = 86_400.0  # seconds: an address that could not be reached for a day is told no more about what is older


def signature(secret: str, at: int, body: bytes) -> str:
    """What the receiver compares: with its own secret, over the time of the header and the body as it came.

    >>> from surefooted.service.webhooks import signature
    >>> signature("0123456789abcdef", 1763462400, b"{}")[:20]
    't=1763462400,v1=b36e'
    """
    made = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={made}"


class Teller:
    """One thread for each address; `start` begins and `stop` ends them."""

    def __init__(self, held: Context) -> None:
        self.held, self._ended = held, threading.Event()
        self._threads = [threading.Thread(target=self._tell, args=(hook,), name="webhook", daemon=True)
                         for hook in held.settings.webhooks]  # fmt: skip
        self.pause = FIRST_PAUSE
        if self._threads:
            with held.store.transaction():
                held.store.write(TABLE)

    def start(self) -> None:
        """Begin after the last event that each address was told about; a new one is told from now on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End; what was not told is told when the service begins again."""
        self._ended.set()
        self.held.hub.wake()
        for thread in self._threads:
            thread.join(timeout=TIMEOUT + TURN)

    def _tell(self, hook: Webhook) -> None:
        store, pause = self.held.store, self.pause
        address = hashlib.sha256(hook.url.encode()).hexdigest()
        n: int | None = None
        while not self._ended.is_set():
            try:
                if n is None:
                    n = _begin(store, address)
                for event in store.events(None, n):
                    message = self._message(hook, event)
                    if message is not None and not self._delivered(hook, message, event.n):
                        break
                    n = event.n
                    if message is not None:
                        _keep(store, address, n)
                pause = self.pause
                self.held.hub.wait_in_thread(n, TURN)
            except SurefootedError as error:  # the store is away
                log.warning("webhook waits for the store", extra={"told": {"error": type(error).__name__}})
                self._ended.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _message(self, hook: Webhook, event: Event) -> bytes | None:
        """What an event is to an address; None if it is nothing."""
        waits = event.kind == "ask" and event.body["status"] == "waiting"
        kind = "waiting" if waits else event.kind
        if kind not in hook.kinds or not (waits or event.kind == "alarm"):
            return None
        store = self.held.store
        name = next(name for id_, name, _, _ in store.definitions() if id_ == event.deployment)
        advisor, sites = self.held.described(name), self.held.sites(name)
        words = in_words(event, advisor.space, sites, advisor.definition.rules.guardrails)
        told: dict[str, Any] = {"kind": kind, "deployment": name, "event": event.n, "time": event.at, "words": words}
        if waits:
            told |= {"site": sites[event.body["site"]], "deadline": event.body["deadline"]}
        return json.dumps(told, ensure_ascii=False).encode()

    def _delivered(self, hook: Webhook, body: bytes, n: int) -> bool:
        """Send until there is an answer; False if the service ends first. After a day it is given up, and logged."""
        pause, begun = self.pause, time.monotonic()
        while not self._ended.is_set():
            problem = _send(hook, body, n)
            facts = {"address": urlsplit(hook.url).hostname, "event": n}
            if problem is None:
                self.held.metrics.hooks.labels("delivered").inc()
                log.info("webhook told", extra={"told": facts})
                return True
            self.held.metrics.hooks.labels("failed").inc()
            log.warning("webhook failed", extra={"told": facts | {"problem": problem, "again_in": pause}})
            if time.monotonic() - begun > OLD:
                self.held.metrics.hooks.labels("given up").inc()
                log.error("webhook given up", extra={"told": facts})
                return True
            self._ended.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return False


def _send(hook: Webhook, body: bytes, n: int) -> str | None:
    """One attempt: None, or what went wrong. Redirects are not followed: only configured addresses are told."""
    parts = urlsplit(hook.url)
    made: http.client.HTTPConnection
    if parts.scheme == "https":
        made = http.client.HTTPSConnection(str(parts.hostname), parts.port, timeout=TIMEOUT,
                                           context=ssl.create_default_context())  # fmt: skip
    else:
        made = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=TIMEOUT)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Content-Type": "application/json", "X-Surefooted-Event": str(n),
               "X-Surefooted-Signature": signature(hook.secret, int(time.time()), body)}  # fmt: skip
    try:
        made.request("POST", path, body, headers)
        answer = made.getresponse()
        answer.read(1_000)
        return None if 200 <= answer.status < 300 else f"status {answer.status}"
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        made.close()


def _begin(store: Store, address: str) -> int:
    """After which event an address is told; a new one after the last."""
    with store.transaction():
        found = store.read("SELECT n FROM hooks WHERE address = ?", address)
        if not found:
            store.write("INSERT INTO hooks VALUES (?, ?)", address, store.last)
            return store.last
        return int(found[0][0])


def _keep(store: Store, address: str, n: int) -> None:
    """Remember how far an address was told; replicas never go back."""
    with store.transaction():
        store.write("UPDATE hooks SET n = ? WHERE address = ? AND n < ?", n, address, n)
