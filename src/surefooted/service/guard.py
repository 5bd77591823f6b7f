"""What surrounds every request: its size and time are limited, strict headers are set, and it is logged and measured.

A request is read as a whole before anything is done with it, so that a slow client holds no thread. A call of the
library that takes too long goes on to its end, as a transaction does; its client is told to ask again.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from surefooted.service.context import Context
from surefooted.service.errors import Refusal, answer, describe

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

log = logging.getLogger("surefooted.service.access")
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    b"referrer-policy": b"no-referrer",
    b"x-frame-options": b"DENY",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
}
TOO_LARGE = Refusal(413, "too-large", "this request is too large", "Send less at once.", {"Connection": "close"})
TOO_SLOW = Refusal(408, "too-slow", "this request came too slowly", "Send it again.", {"Connection": "close"})
TOO_LONG = Refusal(
    503, "too-long", "this took too long", "Ask again: what was done is done once.", {"Retry-After": "1"}
)
ENDED = Refusal(
    503, "stopping", "the service has ended", "Ask again: what was done is done once.", {"Retry-After": "1"}
)


class Guard:
    """An ASGI middleware around the whole app."""

    def __init__(self, app: App, held: Context) -> None:
        self.app, self.held = app, held

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, number, status = time.perf_counter(), secrets.token_hex(8), 0
        scope.setdefault("state", {})["request"] = number

        async def answered(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _strict(message["headers"], number)
            await send(message)

        try:
            await self._limited(scope, receive, answered)
        finally:
            self._note(scope, status or 499, time.perf_counter() - begun, number)

    async def _limited(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """The request within its limits."""
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            body = await self._body(scope, receive)
            seconds = self.held.settings.seconds
            async with asyncio.timeout(seconds) as limit:

                async def streaming(message: Message) -> None:  # an answer that has begun may take as long as it takes
                    if message["type"] == "http.response.start":
                        limit.reschedule(None)
                    await sent(message)

                await self.app(scope, _replay(body, receive), streaming)
        except asyncio.CancelledError:  # the server waits no longer
            if not self.held.stopping:
                raise
            if not begun:
                told, headers = describe(ENDED)
                await answer(told, headers)(scope, receive, sent)
        except Exception as error:
            if not isinstance(error, Refusal | TimeoutError):
                log.error("failed", exc_info=error, extra={"told": {"path": scope["path"]}})
            if begun:
                raise
            told, headers = describe(TOO_LONG if isinstance(error, TimeoutError) else error)
            await answer(told, headers)(scope, receive, sent)

    async def _body(self, scope: MutableMapping[str, Any], receive: Receive) -> bytes:
        """All of the request, if it is small enough and comes soon enough."""
        most = self.held.settings.body
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if length.isdigit() and int(length) > most:
            raise TOO_LARGE
        parts, size = list[bytes](), 0
        try:
            async with asyncio.timeout(self.held.settings.seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return b""  # the client has gone
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise TOO_LARGE
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise TOO_SLOW from None

    def _note(self, scope: MutableMapping[str, Any], status: int, seconds: float, number: str) -> None:
        """Measure and log a request: its route and token's name, never its query, body or headers."""
        route = getattr(scope.get("route"), "path", "none")
        self.held.metrics.seconds.labels(scope["method"][:10], route, str(status)).observe(seconds)
        token = getattr(scope.get("state", {}).get("token"), "name", None)
        client = scope["client"][0] if scope.get("client") else None
        told = {"method": scope["method"], "path": scope["path"], "status": status, "seconds": round(seconds, 6)}
        log.info("request", extra={"told": told | {"token": token, "client": client, "request": number}})


def _strict(given: Any, number: str) -> list[tuple[bytes, bytes]]:
    """The headers of an answer; those that a page sets itself are kept."""
    headers = list(given)
    names = {name.lower() for name, _ in headers}
    headers += [(name, value) for name, value in HEADERS.items() if name not in names]
    return [*headers, (b"x-request-id", number.encode())]


def _replay(body: bytes, receive: Receive) -> Receive:
    """What the app receives: the whole body, and then what comes after it."""
    given = False

    async def received() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return received
