"""Questions and outcomes that arrive at the same time share one transaction, and so one wait for the disk.

Each waits in a line. One thread takes all that wait, checks the token of each, has each decided, one after the other,
and commits; only then is any of them answered. Whoever comes alone does not wait for others. A call that is refused
has written nothing, and the others go on without it. If one fails in any other way, nothing of the transaction counts,
and each call is made again by itself.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Request

from surefooted.errors import SurefootedError
from surefooted.live.advisor import Advisor
from surefooted.live.store import StoreFault
from surefooted.service import access
from surefooted.service.calls import Call
from surefooted.service.context import Context, context
from surefooted.service.tokens import Token

MOST = 64  # calls of one transaction
Decide = Callable[[Call, Advisor], Any]


class Wish(NamedTuple):
    """What one request wants: `decide` is called if its token is `permitted`."""

    request: Request
    permitted: Callable[[Request], Token]
    deployment: str
    decide: Decide
    answer: "asyncio.Future[Any]"

    def granted(self, held: Context) -> Any:
        """The answer; errors are raised."""
        call = Call(self.request, self.permitted(self.request))
        return self.decide(call, held.advisor(self.deployment))


class Turns:
    """The line, and the thread that works on it; `start` begins and `stop` ends it.

    Parameters
    ----------
    held : what the service shares

    """

    def __init__(self, held: Context) -> None:
        self.held = held
        self._line: queue.SimpleQueue[Wish | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="turns", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Answer those who wait, and end."""
        self._line.put(None)
        self._thread.join()

    def wait(self, wish: Wish) -> None:
        """Stand in line."""
        self._line.put(wish)

    def _work(self) -> None:
        ended = False
        while not ended and (first := self._line.get()) is not None:
            wishes = [first]
            with suppress(queue.Empty):
                while len(wishes) < MOST and not ended:
                    following = self._line.get_nowait()
                    ended = following is None
                    wishes += [] if following is None else [following]
            found = self._together(wishes) if len(wishes) > 1 else [self._alone(first)]
            with suppress(RuntimeError):  # the loop has ended: nobody waits
                first.answer.get_loop().call_soon_threadsafe(_deliver, wishes, found)

    def _together(self, wishes: list[Wish]) -> list[Any]:
        """The answer to each, or the error, after one commit."""
        store, names = self.held.store, {wish.deployment for wish in wishes}
        with store.lock:  # nobody may see advisors that are ahead of the journal
            try:
                for name in names:
                    if (advisor := self.held.warm(name)) is not None:
                        advisor._catch_up()  # before it is our turn
                with store.transaction():
                    return self._granted(wishes)
            except Exception as error:
                for name in names:
                    if (advisor := self.held.warm(name)) is not None:
                        advisor._forget()
                if isinstance(error, StoreFault):
                    return [error] * len(wishes)
        return [self._alone(wish) for wish in wishes]

    def _granted(self, wishes: list[Wish]) -> list[Any]:
        """The answer to each, within the transaction; what cannot be answered by itself is raised."""
        found, store = list[Any](), self.held.store
        written = store.head().n
        for wish in wishes:
            try:
                found.append(wish.granted(self.held))
                written = store.head().n
            except StoreFault:
                raise
            except SurefootedError as error:
                if store.head().n != written:  # such as what has lapsed meanwhile
                    raise
                found.append(error)
        return found

    def _alone(self, wish: Wish) -> Any:
        """The answer, or the error."""
        try:
            return wish.granted(self.held)
        except Exception as error:
            return error


def _deliver(wishes: list[Wish], found: list[Any]) -> None:
    """Wake those who wait; called in the event loop."""
    for wish, answer in zip(wishes, found, strict=True):
        if wish.answer.done():  # its client has gone, or was told to ask again
            continue
        if isinstance(answer, Exception):
            wish.answer.set_exception(answer)
        else:
            wish.answer.set_result(answer)


class Turn:
    """The place of one request in the line."""

    def __init__(self, request: Request, permitted: Callable[[Request], Token]) -> None:
        self._request, self._permitted = request, permitted

    async def take(self, deployment: str, decide: Decide) -> Any:
        """What `decide` returns, which is called with the call and the advisor if the token may do this."""
        answer = asyncio.get_running_loop().create_future()
        context(self._request).turns.wait(Wish(self._request, self._permitted, deployment, decide, answer))
        return await answer


def turn(what: str) -> Any:
    """The dependency of a route that waits in line; a request without any token does not come so far."""
    permitted = access.needs(what)

    async def depends(request: Request, _: Annotated[Any, Depends(access.SCHEME)]) -> Turn:
        if not access.bearer(request):
            raise access.no_token()
        return Turn(request, permitted)

    depends.needs = what  # type: ignore[attr-defined]
    return Depends(depends)
