"""Who looks at a page: a token is exchanged for a session, which is a cookie here and a digest in the store.

A session ends after `HOURS`, when its user signs out, and at once when its token expires or is revoked: the token is
looked up at every request. Replicas share sessions, and a restart keeps them. Every form carries a secret of its
session, which pages of other sites cannot know.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from surefooted.errors import SurefootedError
from surefooted.live.store import Store
from surefooted.service import access, errors, tokens
from surefooted.service.context import Context, context
from surefooted.service.errors import Refusal
from surefooted.service.pages_rendering import link, redirect, render
from surefooted.service.tokens import Token

HOURS = 12  # that a session lasts at most
TABLE = """CREATE TABLE IF NOT EXISTS sessions (digest VARCHAR(64) PRIMARY KEY, token TEXT NOT NULL,
           expires TEXT NOT NULL)"""
COOKIE, BEFORE = "surefooted_session", "surefooted_form"  # the second only while signing in
ENDED = {
    "ended": "Your session has ended. Sign in again.",
    "expired": "Your token has expired. Ask for a new one.",
    "revoked": "Your token was revoked. Ask for a new one.",
    "out": "You are signed out.",
}


def prepare(store: Store) -> None:
    """Create the table, if there is none; it is no part of the journal."""
    with store.transaction():
        store.write(TABLE)


@dataclass(frozen=True)
class Viewer:
    """Who looks: the service, the token, and what every form of this session carries."""

    held: Context
    token: Token
    form: str

    @property
    def may_operate(self) -> bool:
        """Whether controls are shown."""
        return self.token.role in access.CAN["operate"]


class SignIn(SurefootedError):
    """Nobody is signed in (any more); `why` is a key of `ENDED`, or empty."""

    def __init__(self, why: str) -> None:
        super().__init__(ENDED.get(why, "Sign in first."))
        self.why = why


class PageRoute(APIRoute):
    """A route whose errors are pages; whoever is not signed in is led to the form."""

    def get_route_handler(self) -> Callable[..., Any]:
        """The handler, with errors as pages."""
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                answer: Response = await handle(request)
                return answer
            except SignIn as error:
                asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                to = asked if request.method == "GET" and request.url.path not in ("/live", "/chart") else None
                return redirect(link("/sign-in", why=error.why or None, to=to))
            except Exception as error:
                told, headers = errors.describe(error)
                if told["status"] >= 500:
                    errors.log.error("failed", exc_info=error, extra={"told": {"route": request.url.path}})
                answer = render("error.html", told["status"], problem=told, viewer=None)
                answer.headers.update(headers)
                return answer

        return handled


def create(held: Context, token: Token) -> str:
    """A new session; its secret is the cookie."""
    secret, now = secrets.token_urlsafe(32), datetime.now(UTC)
    with held.store.transaction():
        held.store.write("DELETE FROM sessions WHERE expires < ?", _iso(now))
        expires = _iso(now + timedelta(hours=HOURS))
        held.store.write("INSERT INTO sessions (digest, token, expires) VALUES (?, ?, ?)", _digest(secret), token.name,
                         expires)  # fmt: skip
    return secret


def end(held: Context, secret: str) -> None:
    """Sign out."""
    with held.store.transaction():
        held.store.write("DELETE FROM sessions WHERE digest = ?", _digest(secret))


def find(held: Context, secret: str) -> Token:
    """The token of a session; `SignIn` says why there is none any more."""
    rows = held.store.read("SELECT token, expires FROM sessions WHERE digest = ?", _digest(secret)) if secret else []
    if not rows:
        raise SignIn("ended" if secret else "")
    if rows[0][1] < _iso(datetime.now(UTC)):
        raise SignIn("ended")
    token = tokens.named(held.store, str(rows[0][0]))
    if token is None or not token.is_valid(held.store.clock()):
        raise SignIn("revoked" if token is None or token.revoked is not None else "expired")
    return token


def viewer(request: Request) -> Viewer:
    """Who asks for a page; every page needs the role `read`."""
    held, secret = context(request), request.cookies.get(COOKIE, "")
    token = find(held, secret)
    request.state.token = token
    if wait := held.requests.wait(token.name):
        raise access.too_many(wait)
    access.permit(request, token, "read")
    return Viewer(held, token, mark(secret))


viewer.needs = "read"  # type: ignore[attr-defined]


async def form(request: Request) -> dict[str, str]:
    """What a form sent, as text."""
    try:
        sent = parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise Refusal(400, "invalid-request", "this form cannot be read", "Send it again.") from None
    return dict(sent)


def from_here(request: Request) -> bool:
    """Whether a browser sent this from a page of this service."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def check_form(request: Request, sent: dict[str, str], expected: str) -> None:
    """Refuse a form that no page of this session has made."""
    given = sent.get("form", "")
    if not from_here(request) or not expected or not hmac.compare_digest(given.encode(), expected.encode()):
        detail = "It was not sent from a page of your session. Go back, reload the page, and send it again."
        raise Refusal(403, "forbidden", "this form is refused", detail)


def mark(secret: str) -> str:
    """What the forms of a session carry."""
    return hmac.new(secret.encode(), b"form", "sha256").hexdigest() if secret else ""


def set_cookie(request: Request, answer: Response, name: str, value: str) -> None:
    """A cookie that scripts cannot read and other sites cannot send; only over TLS, if there is TLS."""
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    secure = request.url.scheme == "https" or forwarded == "https"
    answer.set_cookie(name, value, max_age=HOURS * 3600, path="/", secure=secure, httponly=True, samesite="strict")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="microseconds")
