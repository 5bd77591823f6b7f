"""What there is to see: status, accounts, the journal, exports, and whether the store is whole."""

import csv
import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response, StreamingResponse

from surefooted.live import curve
from surefooted.service import answers
from surefooted.service.answers import Journal, Open, Verified
from surefooted.service.calls import PROBLEMS, After, Call, Deployment, Limit, call
from surefooted.service.errors import Refusal

router = APIRouter(prefix="/v1", tags=["reports"], responses=PROBLEMS)
Reader = Annotated[Call, call("read")]
Newest = Annotated[int | None, Query(ge=1, lt=2**31, description="Only so many of them, the newest.")]
TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl; charset=utf-8",
         "parquet": "application/vnd.apache.parquet"}  # fmt: skip
POINTS = 2_000  # of a curve, about


@router.get("/deployments/{deployment}/status", response_model=Open)
def status(deployment: Deployment, who: Reader) -> Any:
    """Where a deployment stands: accounts, open and waiting decisions, alarms, what is outside the guarantee."""
    advisor = who.advisor(deployment)
    with advisor.store.lock:
        return advisor.status() | {"unit": advisor.space.unit}


@router.get("/deployments/{deployment}/account", response_model=Open)
def account(deployment: Deployment, who: Reader) -> Any:
    """The accounts: what was saved up, what departures are proved to be worth, and what is left."""
    advisor = who.advisor(deployment)
    with advisor.store.lock:
        told = advisor.status()
        return {"unit": advisor.space.unit, "event": told["events"], "accounts": told["accounts"]}


@router.get("/deployments/{deployment}/account/curve", response_model=Open)
def account_curve(deployment: Deployment, who: Reader) -> Any:
    """Every account over time: the margin that is proved, the balance, deposits, departures, overrides and alarms."""
    advisor = who.advisor(deployment)
    with _alone(who):
        found = curve.curves(advisor)
    return {"curves": [_points(each) for each in found]}


@router.get("/deployments/{deployment}/journal", response_model=Journal)
def journal(deployment: Deployment, who: Reader, after: After = 0, limit: Limit = None, last: Newest = None) -> Any:
    """The events after one, in order, each with a sentence."""
    advisor, most = who.advisor(deployment), limit or who.limit
    events = list(islice(advisor.journal(after, last), most + 1))
    with advisor.store.lock:
        sites = [site.name for site in advisor.machine().sites]
    shown = [answers.event(advisor, sites, event) for event in events[:most]]
    more = f"{who.request.url.path}?after={events[most - 1].n}&limit={most}" if len(events) > most else None
    return {"events": shown, "next": more, "last": advisor.store.last}


@router.get("/deployments/{deployment}/export", response_class=Response,
            responses={200: {"content": {kind.partition(";")[0]: {} for kind in TYPES.values()}}})  # fmt: skip
def export(
    deployment: Deployment, who: Reader, format: Annotated[Literal["csv", "jsonl", "parquet"], Query()] = "csv"
) -> Any:
    """One row for each decision and what came of it, as a file."""
    advisor = who.advisor(deployment)
    headers = {"Content-Disposition": f'attachment; filename="decisions.{format}"'}
    if format == "parquet":
        file = tempfile.NamedTemporaryFile(suffix=".parquet")
        with _alone(who):
            advisor.export(file.name, "parquet")
        return FileResponse(file.name, 200, headers, TYPES[format], background=BackgroundTask(file.close))
    rows = advisor.rows()
    lines = _csv(rows) if format == "csv" else (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return StreamingResponse(_chunks(lines), 200, headers, TYPES[format])


@router.post("/verify", response_model=Verified)
def verify(who: Annotated[Call, call("operate")]) -> Any:
    """Check every event, and make every decision again from the journal alone. It takes a while."""
    with _alone(who):
        found = who.held.store.verify(who.held.settings.allow_code)
    facts: dict[str, Any] = {"events": found.events, "decisions": found.decisions, "faults": found.faults}
    return facts | {"is_whole": found.is_whole}


@contextmanager
def _alone(who: Call) -> Iterator[None]:
    """One call that replays a whole journal at a time; the next one is asked to come again."""
    heavy = who.held.heavy
    if not heavy.acquire(timeout=who.held.settings.seconds / 2):
        detail = "Another call that reads a whole journal is under way. Try again in 5 s."
        raise Refusal(503, "busy", "the service is busy", detail, {"Retry-After": "5"})
    try:
        yield
    finally:
        heavy.release()


def _points(drawn: curve.Curve) -> dict[str, Any]:
    """A curve as JSON, thinned; its lowest margins are kept."""
    kept = curve.thinned(drawn)
    columns = {name: [getattr(drawn, name)[i] for i in kept] for name in ("margin", "balance", "deposits")}
    return {
        "name": drawn.name, "unit": drawn.unit, "time": [drawn.time[i].isoformat() for i in kept], **columns,
        "departures": [{"time": at.isoformat(), "margin": margin} for at, margin in drawn.departures[-POINTS:]],
        "overrides": [at.isoformat() for at in drawn.overrides[-POINTS:]],
        "alarms": [at.isoformat() for at in drawn.alarms[-POINTS:]],
    }  # fmt: skip


def _csv(rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    """Lines of CSV; a text that a spreadsheet would take for a formula gets a quote before it."""
    first = next(rows, None)
    names = ["decision"] if first is None else list(first)
    for row in chain([{name: name for name in names}], [] if first is None else [first], rows):
        text = io.StringIO(newline="")
        csv.writer(text).writerow([_harmless(row[name]) for name in names])
        yield text.getvalue()


def _harmless(value: Any) -> Any:
    return "'" + value if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _chunks(lines: Iterator[str]) -> Iterator[bytes]:
    """Lines in pieces of about 64 kB."""
    held, size = list[str](), 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size > 65_536:
            yield "".join(held).encode()
            held, size = [], 0
    yield "".join(held).encode()
