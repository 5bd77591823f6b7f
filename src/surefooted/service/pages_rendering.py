"""Pages as HTML: templates in which everything is escaped, files that they need, headers that forbid the rest."""

import hashlib
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response

from surefooted.service.errors import not_found

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
STATIC = {  # nothing else is served, whatever lies in the folder
    "page.js": "text/javascript", "page.css": "text/css", "uplot.js": "text/javascript", "uplot.css": "text/css",
    "icon.svg": "image/svg+xml", "uplot.LICENSE": "text/plain",
}  # fmt: skip
ALWAYS = {"Cache-Control": "public, max-age=31536000, immutable"}  # the address changes with the file

router = APIRouter(include_in_schema=False)


@router.get("/static/{name}")
def static(name: str) -> Response:
    """A style sheet, a script or a picture; needs no token."""
    if name not in STATIC:
        raise not_found("there is no such address", "There is no such file.")
    return Response(_file(name), 200, ALWAYS | {"Content-Security-Policy": POLICY}, f"{STATIC[name]}; charset=utf-8")


@cache
def _file(name: str) -> bytes:
    return (files("surefooted.service") / "static" / name).read_bytes()


@cache
def address(name: str) -> str:
    """Where a file is: its address changes when the file does."""
    return f"/static/{name}?v={hashlib.sha256(_file(name)).hexdigest()[:12]}"


def link(path: str, **query: Any) -> str:
    """An address with a query; what is None is left out."""
    told = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(told)}" if told else path


def moment(at: str | float | None) -> str:
    """A time for people, in UTC: 2026-11-18 09:30."""
    if at is None:
        return ""
    time = datetime.fromtimestamp(at, UTC) if isinstance(at, int | float) else datetime.fromisoformat(at)
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def iso(at: str | float) -> str:
    """A time for machines."""
    return at if isinstance(at, str) else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("surefooted.service"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.globals |= {"static": address, "link": link}
    made.filters |= {"moment": moment, "iso": iso}
    return made


def render(template: str, status: int = 200, **told: Any) -> Response:
    """A page; every value is escaped."""
    body = _templates().get_template(template).render(**told)
    return Response(body.encode("utf-8", "replace"), status, HEADERS, "text/html; charset=utf-8")


def redirect(where: str) -> Response:
    """See another page of this service."""
    return Response(b"", 303, HEADERS | {"Location": where})
