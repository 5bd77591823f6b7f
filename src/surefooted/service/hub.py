"""One thread that follows the journal and wakes everybody who waits for events: streams, and webhooks."""

import asyncio
import threading
import time
from collections import Counter

from surefooted.errors import SurefootedError
from surefooted.live.store import Store

TURN = 1.0  # seconds after which the thread looks whether it is to end
PATIENCE = 10.0  # seconds that `stop` waits for the thread


class Hub:
    """Knows the number of the last event, at most a moment late, whichever process wrote it."""

    def __init__(self, store: Store) -> None:
        self.store, self.last = store, 0
        self.readers: Counter[str] = Counter()  # how many streams each token has opened
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()
        self._arrived = threading.Condition()
        self.ending = self._ended = False
        self._thread = threading.Thread(target=self._follow, name="journal", daemon=True)

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return self.readers.total()

    def start(self) -> None:
        """Begin to follow; called in the event loop that is to be woken."""
        self._loop, self.last = asyncio.get_running_loop(), self.store.last
        self._thread.start()

    def stop(self) -> None:
        """End, and wake everybody."""
        self.ending = self._ended = True
        self.wake()
        self._thread.join(timeout=PATIENCE)

    def wake(self) -> None:
        """Let everybody who waits look again."""
        with self._arrived:
            self._arrived.notify_all()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait(self, after: int, seconds: float) -> bool:
        """Whether there may be events after this one; False after so many seconds without any."""
        changed = self._changed
        if self.last > after or self.ending:
            return True
        try:
            await asyncio.wait_for(changed.wait(), seconds)
            return True
        except TimeoutError:
            return False

    def wait_in_thread(self, after: int, seconds: float) -> None:
        """The same for a thread."""
        with self._arrived:
            if self.last <= after and not self.ending:
                self._arrived.wait(seconds)

    def _follow(self) -> None:
        while not self._ended:
            try:
                last = self.store.wait(self.last, TURN)
            except SurefootedError:
                time.sleep(TURN)  # the database is away: its users are told, and this tries again
                continue
            if last > self.last:
                self.last = last
                self.wake()
