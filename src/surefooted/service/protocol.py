"""A connection whose request does not begin, or whose headers do not end, is closed: after a while, or many bytes.

The server itself limits only how long a connection may rest between two requests. Without this, a client that sends a
byte now and then would hold its connection for ever, and headers without end would fill the memory.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD = 20.0  # seconds from the first byte of a request, or from the connection, to the end of its headers
MOST = 65_536  # bytes of headers that have not ended


class Prompt(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """The server's protocol with a limit on headers."""

    HEAD = HEAD
    _unended = 0  # bytes since the headers began
    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A new connection: its first request must come soon."""
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """Some bytes; if they do not complete the headers of a request, the rest must come soon."""
        super().data_received(data)
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self._begin()
            self._unended += len(data)
            if self._unended > MOST:
                self._close()
        else:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._end()
        super().connection_lost(exc)

    def _begin(self) -> None:
        if self._limit is None:
            self._limit = asyncio.get_running_loop().call_later(self.HEAD, self._close)

    def _end(self) -> None:
        self._unended = 0
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _close(self) -> None:
        self._limit = None
        if not self.transport.is_closing():
            self.transport.close()
