"""Hears of new events that other processes wrote to a PostgreSQL store: a thread with a connection of its own."""

import threading
from collections.abc import Callable
from typing import Any

import psycopg

PAUSE = 0.5  # seconds before a lost connection is tried again
LOOK = 1.0  # seconds between two looks whether the store is still there


class Listener(threading.Thread):
    """Calls `announce` with the number of each event that others announce, until it is stopped.

    Parameters
    ----------
    connect : makes a connection
    channel : the name under which events are announced
    announce : a weak reference to what is called; the thread ends when nobody has it any more

    """

    def __init__(
        self, connect: "Callable[[], psycopg.Connection[Any]]", channel: str, announce: "Callable[[], Any]"
    ) -> None:
        super().__init__(name=f"listens to {channel}", daemon=True)
        self._connect, self._channel, self._announce = connect, channel, announce
        self._stopped = threading.Event()

    def run(self) -> None:
        """Listen; connect again when the connection is lost."""
        while self._is_wanted():
            try:
                db = self._connect()
            except psycopg.Error:
                self._stopped.wait(PAUSE)
                continue
            try:
                db.execute(f'LISTEN "{self._channel}"')
                self._tell(0)  # others may have written before
                while self._is_wanted():
                    for notice in db.notifies(timeout=LOOK):
                        self._tell(int(notice.payload))
                        if not self._is_wanted():
                            break
            except psycopg.Error:
                self._stopped.wait(PAUSE)
            finally:
                db.close()

    def _is_wanted(self) -> bool:
        return not self._stopped.is_set() and self._announce() is not None

    def _tell(self, n: int) -> None:
        announce = self._announce()
        if announce is not None:
            announce(n)

    def stop(self) -> None:
        """End soon."""
        self._stopped.set()
