"""Who asks, and whether they may: every route says which role it needs (`needs`), and nothing is open by default."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from fastapi import Request
from fastapi.security import HTTPBearer

from surefooted.service import tokens
from surefooted.service.context import Context, context
from surefooted.service.errors import Refusal
from surefooted.service.tokens import Token

CAN: dict[str, tuple[str, ...]] = {  # which roles may do what needs a role
    "read": ("read", "operate", "administer"),
    "use": ("use", "operate", "administer"),
    "see": ("read", "use", "operate", "administer"),  # what both readers and users need
    "operate": ("operate", "administer"),
    "administer": ("administer",),
}
SCHEME = HTTPBearer(auto_error=False, description="A token of `surefooted token create`.")
KEPT = 10_000  # addresses and tokens whose rates are remembered


class Bucket:
    """How many requests each name may still make: `rate` are added a second, up to `burst`."""

    def __init__(self, rate: float, burst: int) -> None:
        self.rate, self.burst, self._lock = rate, float(burst), threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and when that was so

    def wait(self, name: str, take: float = 1.0) -> float:
        """Take one; or, if there is none, how many seconds to wait."""
        if self.rate <= 0:
            return 0.0
        now = time.monotonic()
        with self._lock:
            left, then = self._left.pop(name, (self.burst, now))
            left = min(self.burst, left + (now - then) * self.rate)
            enough = left >= 1.0
            self._left[name] = (left - take if enough else left, now)
            if len(self._left) > KEPT:
                self._left.popitem(last=False)
        return 0.0 if enough else (1.0 - left) / self.rate


def needs(what: str) -> Callable[[Request], Token]:
    """The dependency of a route that needs a role; it returns the token."""

    def depends(request: Request) -> Token:
        return permit(request, identify(request), what)

    depends.needs = what  # type: ignore[attr-defined]
    return depends


def identify(request: Request) -> Token:
    """The token of the header `Authorization: Bearer`; refused if there is none, or it is not valid (any more)."""
    found = check(context(request), bearer(request), address(request))
    request.state.token = found
    return found


def bearer(request: Request) -> str:
    """What the header `Authorization: Bearer` says, empty if there is none."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def check(held: Context, secret: str, where: str) -> Token:
    """The token that this secret is; whoever guesses wrong too often has to wait."""
    if wait := held.failures.wait(where, take=0.0):
        raise too_many(wait)
    found = tokens.find(held.store, secret) if secret else None
    if found is None:
        held.failures.wait(where)
        raise no_token()
    if wait := held.requests.wait(found.name):
        raise too_many(wait)
    return found


def still_valid(held: Context, token: Token) -> Token:
    """The token as it is now; refused if it was revoked or has expired meanwhile."""
    now = tokens.named(held.store, token.name)
    if now is None or not now.is_valid(held.store.clock()):
        raise Refusal(401, "unauthorised", "the token is not valid any more", f"The token {token.name} has ended.")
    return now


def permit(request: Request, token: Token, what: str) -> Token:
    """The token, if its role may do this."""
    if token.role not in CAN[what]:
        able = ", ".join(CAN[what])
        raise forbidden(f"The token {token.name} has the role {token.role}; this needs one of: {able}.")
    deployment = request.path_params.get("deployment")
    if deployment is not None and not token.may_see(deployment):
        raise forbidden(f"The token {token.name} is not for deployment {deployment}.")
    return token


def at_site(token: Token, deployment: str, site: str) -> None:
    """Refuse a site that the token is not for."""
    if not token.may_use(deployment, site):
        raise forbidden(f"The token {token.name} is not for site {site} of {deployment}.")


def no_token() -> Refusal:
    """401."""
    hint = "Send Authorization: Bearer and a token that is neither expired nor revoked."
    return Refusal(401, "unauthorised", "no valid token was sent", hint, {"WWW-Authenticate": "Bearer"})


def forbidden(detail: str) -> Refusal:
    """403."""
    return Refusal(403, "forbidden", "this token may not do that", detail)


def too_many(seconds: float) -> Refusal:
    """429, and when to try again."""
    wait = max(1, round(seconds + 0.5))
    detail = f"There were too many requests. Try again in {wait} s."
    return Refusal(429, "too-many-requests", "too many requests", detail, {"Retry-After": str(wait)})


def address(request: Request) -> str:
    """Where a request comes from, as the server sees it."""
    return request.client.host if request.client is not None else "unknown"


def by(token: Token, claimed: str | None) -> str:
    """What stands in the journal as `who`: the token's name and, after it, whom its holder says to act for."""
    return f"{token.name}: {claimed}" if claimed else token.name
