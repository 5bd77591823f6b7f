"""Errors over HTTP: problem details (RFC 9457) with the sentences of the library.

`type` says which kind it is, `title` what is refused, `detail` is for people, `faults` are all the reasons, and `hint`
is what to do. Nothing else is told: no path of this machine, no traceback, no secret.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from surefooted.errors import InvalidInput, SurefootedError, UnreadableFile
from surefooted.live.store import StoreFault

log = logging.getLogger("surefooted.service")
KIND = "urn:surefooted:"
MEDIA = "application/problem+json"
MISSING = {"no such decision", "no such site"}
CONFLICTS = {  # the request was in order, and does not fit what happened before it
    "this question cannot be answered", "this key belongs to another question", "something else was told before",
    "this decision is not open", "this decision was not played yet", "there is no such question",
    "this site cannot be added", "there is nothing to correct", "this outcome cannot be told",
}  # fmt: skip
TITLES = {400: "this request cannot be read", 404: "there is no such address", 405: "there is no such method here"}


class Refusal(SurefootedError):
    """A request that the service itself refuses: by status, kind, title and detail."""

    def __init__(self, status: int, kind: str, title: str, detail: str, headers: Mapping[str, str] | None = None):
        super().__init__(detail)
        self.status, self.kind, self.title, self.headers = status, kind, title, dict(headers or {})


def not_found(what: str, detail: str) -> Refusal:
    """404."""
    return Refusal(404, "not-found", what, detail)


def problem(status: int, kind: str, title: str, detail: str, **more: Any) -> dict[str, Any]:
    """The members of a problem-details object."""
    return {"type": KIND + kind, "title": title, "status": status, "detail": detail} | more


def answer(told: dict[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """A response with a problem."""
    body = json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, told["status"], dict(headers or {}), media_type=MEDIA)


def describe(error: Exception) -> tuple[dict[str, Any], dict[str, str]]:
    """The problem that an error is, and headers."""
    if isinstance(error, Refusal):
        faults = [str(error)]
        return problem(error.status, error.kind, error.title, str(error), faults=faults, hint=""), error.headers
    if isinstance(error, InvalidInput):
        status = 404 if error.what in MISSING else 409 if error.what in CONFLICTS else 422
        more = {"faults": list(error.faults), "hint": error.hint}
        return problem(status, "invalid-input", error.what, str(error), **more), {}
    if isinstance(error, StoreFault):
        title = "the store cannot be used now"
        return problem(503, "store-fault", title, "Nothing was decided, and nothing acknowledged is lost. Try again.",
                       faults=[], hint=""), {"Retry-After": "1"}  # fmt: skip
    if isinstance(error, UnreadableFile):
        return problem(422, "invalid-input", "this cannot be read", str(error), faults=[str(error)], hint=""), {}
    if isinstance(error, SurefootedError):
        return problem(422, "invalid-input", "this cannot be done", str(error), faults=[str(error)], hint=""), {}
    if isinstance(error, RequestValidationError):
        faults = [_sentence(found) for found in error.errors()]
        title = "this request is not valid"
        return problem(422, "invalid-request", title, f"{title}: {'; '.join(faults)}", faults=faults, hint=""), {}
    if isinstance(error, HTTPException):
        title = TITLES.get(error.status_code, "this request is refused")
        kept = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
        return problem(error.status_code, "refused", title, title, faults=[title], hint=""), kept
    title = "something went wrong in the service"
    return problem(500, "internal", title, "It is in the log of the service.", faults=[], hint=""), {}


def _sentence(found: Mapping[str, Any]) -> str:
    """What is wrong with one value of a request, without repeating the value."""
    where = ".".join(str(part) for part in found["loc"])
    return f"{where}: {str(found['msg']).removeprefix('Value error, ')}"


async def handle(request: Request, error: Exception) -> Response:
    """Answer with a problem; what nobody expected is logged."""
    told, headers = describe(error)
    if told["status"] >= 500:
        log.error("failed", exc_info=error, extra={"told": {"route": request.scope.get("path", "")}})
    return answer(told, headers)


def install(app: FastAPI) -> None:
    """Let every error of an app be answered with a problem."""
    for kind in (SurefootedError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle)
