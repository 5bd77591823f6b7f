"""Events as they happen (server-sent events): each has its number as id, so that a client goes on where it was."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Query
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from surefooted.errors import SurefootedError
from surefooted.live.store import Event
from surefooted.service import access, answers
from surefooted.service.calls import PROBLEMS, Call, Deployment, call
from surefooted.service.context import Context
from surefooted.service.errors import Refusal

router = APIRouter(prefix="/v1", tags=["events"], responses=PROBLEMS)
STREAM = "text/event-stream"
BATCH = 500  # events that are read at once
PACE = 0.1  # seconds between two readings for one stream: what happens meanwhile is read at once
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
TOLD: dict[int | str, dict[str, Any]] = {200: {"content": {STREAM: {}}, "description": "A stream without end."}}
After = Annotated[
    int | None, Query(ge=0, lt=2**63, description="Begin after this event; by default with the next one.")
]
LastId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=30, description="Go on after this event.")]


@router.get("/events", response_class=Response, responses=TOLD)
async def all_events(who: Annotated[Call, call("read")], after: After = None, last_event_id: LastId = None) -> Any:
    """The events of all deployments, as they happen."""
    return stream(who.held, who.token.name, None, first(after, last_event_id), lambda: _recheck(who))


@router.get("/deployments/{deployment}/events", response_class=Response, responses=TOLD)
async def deployment_events(
    deployment: Deployment, who: Annotated[Call, call("read")], after: After = None, last_event_id: LastId = None
) -> Any:
    """The events of a deployment, as they happen."""
    await to_thread.run_sync(who.advisor, deployment)
    return stream(who.held, who.token.name, deployment, first(after, last_event_id), lambda: _recheck(who))


def first(after: int | None, last_event_id: str | None) -> int | None:
    """After which event a stream begins: the one that the client had last, or the one it asks for."""
    if last_event_id is not None and last_event_id.isdecimal() and int(last_event_id) < 2**63:
        return int(last_event_id)
    return after


def stream(
    held: Context, token: str, deployment: str | None, after: int | None, check: Callable[[], object]
) -> Response:  # fmt: skip
    """A stream of events; `check` is called before anything is sent, and raises if its reader may not read.

    One token may open half of all streams, so that others can read, too.
    """
    hub, settings, most = held.hub, held.settings, held.settings.streams
    if hub.streams >= most or 2 * hub.readers[token] >= max(most, 2):
        detail = f"There are {hub.streams} streams of events, {hub.readers[token]} of them of this token."
        raise Refusal(503, "busy", "too many streams", f"{detail} Try again later.", {"Retry-After": "10"})

    async def sent() -> AsyncIterator[bytes]:
        n = hub.last if after is None else after
        yield b"retry: 1000\n\n"
        while not held.stopping:
            try:
                rows = await to_thread.run_sync(_read, held, deployment, n, check)
            except SurefootedError:
                yield b"event: end\ndata: {}\n\n"
                return
            for number, row in rows:
                n = number
                yield row
            if rows:
                await asyncio.sleep(PACE)
            if len(rows) < BATCH and not await hub.wait(n, settings.heartbeat):
                yield b": still here\n\n"

    return Counted(hub.readers, token, sent())


class Counted(StreamingResponse):
    """A stream that counts as open from its beginning to its end, also if its reader is gone before the first byte."""

    def __init__(self, readers: Counter[str], token: str, rows: AsyncIterator[bytes]) -> None:
        super().__init__(rows, 200, HEADERS, STREAM)
        self.readers, self.token = readers, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        self.readers[self.token] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.readers[self.token] -= 1


def _read(held: Context, deployment: str | None, after: int, check: Callable[[], object]) -> list[tuple[int, bytes]]:
    """The next events, as they are sent."""
    check()
    names = {id_: name for id_, name, _, _ in held.store.definitions()} if deployment is None else {}
    of = None if deployment is None else held.advisor(deployment).id
    found: list[Event] = list(islice(held.store.events(of, after, BATCH), BATCH))
    sites: dict[str, list[str]] = {}  # of each deployment
    sent = []
    for event in found:
        name = deployment or names.get(event.deployment)
        if name is None:
            continue
        advisor = held.described(name)
        if name not in sites:
            sites[name] = held.sites(name)
        told = answers.event(advisor, sites[name], event) | {"deployment": name}
        data = json.dumps(told, ensure_ascii=False)
        sent.append((event.n, f"id: {event.n}\nevent: {event.kind}\ndata: {data}\n\n".encode()))
    return sent


def _recheck(who: Call) -> None:
    """A token that was revoked or has expired meanwhile ends the stream."""
    access.permit(who.request, access.still_valid(who.held, who.token), "read")
