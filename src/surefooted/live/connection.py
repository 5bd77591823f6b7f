"""A connection to a service over HTTP: kept open, and tried again when it is lost.

Everything that is sent may be sent twice: questions have keys, outcomes may be repeated, and commands carry a key of
their own (Idempotency-Key). So a request without an answer is sent again until there is one, or patience ends.
"""

import http.client
import json
import ssl
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from surefooted.errors import InvalidInput, SurefootedError
from surefooted.live.store import StoreFault

LOCAL = ("127.0.0.1", "::1", "localhost")
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds before a request is sent again
CHUNK = 65_536
AGAIN = (429, 502, 503, 504)  # answers after which a request is sent again; proxies give 502 and 504


class AccessDenied(SurefootedError):
    """The token is not valid (any more), or may not do this.

    >>> import surefooted as sf
    >>> try:
    ...     raise sf.live.AccessDenied("this token has expired")
    ... except sf.SurefootedError as error:
    ...     print(error)
    this token has expired
    """


class Connection:
    """Requests to one service, from any thread.

    Parameters
    ----------
    url : of the service; https, or http on this machine
    token : that says who asks
    patience : seconds in which a request is sent again if there is no answer
    timeout : seconds to wait for one answer
    insecure : allow http to another machine, where everybody on the way can read the token

    """

    def __init__(
        self, url: str, token: str, *, patience: float = 30.0, timeout: float = 60.0, insecure: bool = False
    ) -> None:
        parts = urlsplit(url)
        faults = []
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            faults.append("the address must be like https://advisor.example")
        elif parts.scheme == "http" and parts.hostname not in LOCAL and not insecure:
            faults.append(f"http to {parts.hostname} would show the token to everybody on the way: use https")
        if parts.username or parts.password:
            faults.append("no name or password may stand in an address")
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            faults.append("this is no token")
        if faults:
            raise InvalidInput("cannot connect", faults)
        self.name = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
        self.patience, self.timeout, self._token = patience, timeout, token
        self._parts, self._prefix = parts, parts.path.rstrip("/")
        self._own, self._all, self._lock = threading.local(), set[http.client.HTTPConnection](), threading.Lock()
        self._context = ssl.create_default_context() if parts.scheme == "https" else None

    def __repr__(self) -> str:
        """Without the token."""
        return f"Connection({self.name})"

    def get(self, path: str) -> Any:
        """The JSON value at an address of the service."""
        return json.loads(self._sent("GET", path, None))

    def post(self, path: str, body: dict[str, Any], *, command: bool = False) -> Any:
        """What the service answers; a command is done once, however often it must be sent."""
        return json.loads(self._sent("POST", path, body, str(uuid.uuid4()) if command else None))

    def content(self, path: str) -> bytes:
        """All bytes at an address."""
        return self._sent("GET", path, None)

    def lines(self, path: str, last: int | None) -> Iterator[str]:
        """The lines of a stream of events, on a connection of its own, until it ends."""
        link = self._made()
        try:
            headers = self._headers() | ({} if last is None else {"Last-Event-ID": str(last)})
            link.request("GET", self._prefix + path, headers=headers | {"Accept": "text/event-stream"})
            answer = link.getresponse()
            if answer.status != 200:
                raise _error(answer.status, answer.read(), self.name)
            while line := answer.readline():
                yield line.decode("utf-8", "replace").rstrip("\n")
        finally:
            link.close()

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for link in self._all:
                link.close()
            self._all.clear()

    def __del__(self) -> None:
        """Close the connections of a store that nobody has any more."""
        if hasattr(self, "_all"):
            self.close()

    def _sent(self, method: str, path: str, body: dict[str, Any] | None, key: str | None = None) -> bytes:
        """The answer to a request, which is sent until there is one."""
        until, pause = time.monotonic() + self.patience, FIRST_PAUSE
        while True:
            wait = pause
            try:
                status, content, retry = self._once(method, path, body, key)
                if status not in AGAIN:
                    if status >= 400:
                        raise _error(status, content, self.name)
                    return content
                wait = max(pause, retry)
                problem: Exception = _error(status, content, self.name)
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                problem = StoreFault(f"{self.name} cannot be reached: {type(error).__name__}: {error}")
            if time.monotonic() + wait > until:
                raise problem
            time.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _once(self, method: str, path: str, body: dict[str, Any] | None, key: str | None) -> tuple[int, bytes, float]:
        """One attempt: status, content, and how long to wait before the next one."""
        link: http.client.HTTPConnection | None = getattr(self._own, "link", None)
        if link is None:
            link = self._own.link = self._made()
            with self._lock:
                self._all.add(link)
        headers = self._headers() | ({} if key is None else {"Idempotency-Key": key})
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        link.request(method, self._prefix + path, data, headers)
        answer = link.getresponse()
        content = answer.read()
        told = answer.headers.get("Retry-After", "0")
        return answer.status, content, float(told) if told.isdecimal() else 0.0

    def _made(self) -> http.client.HTTPConnection:
        host, port = str(self._parts.hostname), self._parts.port
        if self._context is not None:
            return http.client.HTTPSConnection(host, port, timeout=self.timeout, context=self._context)
        return http.client.HTTPConnection(host, port, timeout=self.timeout)

    def _drop(self) -> None:
        """Forget the connection of this thread."""
        link = getattr(self._own, "link", None)
        if link is not None:
            link.close()
            self._own.link = None
            with self._lock:
                self._all.discard(link)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}


def _error(status: int, content: bytes, name: str) -> Exception:
    """The exception that the local advisor would have raised."""
    try:
        told = json.loads(content)
        title, detail, faults, hint = (told[key] for key in ("title", "detail", "faults", "hint"))
    except (ValueError, KeyError, TypeError):
        return StoreFault(f"{name} answered with status {status}, and not as a service of surefooted does")
    if status in (401, 403):
        return AccessDenied(f"{name}: {title}. {detail}")
    if status >= 500 or status in (408, 429):
        return StoreFault(f"{name}: {title}. {detail}")
    return InvalidInput(str(title), [str(fault) for fault in faults], str(hint))
