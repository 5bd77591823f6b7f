"""Tokens: who may do what. A token is shown once, when it is created; the store keeps its digest.

A token is 256 random bits, so that its SHA-256 digest cannot be turned back, and no slow hash is needed. It is looked
up in the store at every request: whoever revokes one, here or in another process, has revoked it at once.
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from surefooted.errors import InvalidInput
from surefooted.live.store import Store

Role = Literal["read", "use", "operate", "administer"]
ROLES: tuple[Role, ...] = ("read", "use", "operate", "administer")
PREFIX = "sft_"  # lets programs that look for leaked secrets find one
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
COLUMNS = "name, role, sites, digest, created, expires, revoked"
Place = tuple[str, str | None]  # a deployment, and one of its sites or all (None)


@dataclass(frozen=True)
class Token:
    """What is known of a token; not the token itself.

    - `name`: stands in the journal as `who`.
    - `role`: "read" (everything but tokens), "use" (ask and tell), "operate" (also what people do) or "administer".
    - `sites`: where a token of role "use" may ask and tell; None is everywhere.
    - `created`, `expires`, `revoked`: UTC, ISO 8601.
    """

    name: str
    role: Role
    sites: tuple[Place, ...] | None
    created: str
    expires: str | None = None
    revoked: str | None = None

    def is_valid(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or _iso(now) < self.expires)

    def may_use(self, deployment: str, site: str) -> bool:
        """Whether it may ask and tell at a site."""
        if self.role != "use":
            return self.role in ("operate", "administer")
        return self.sites is None or (deployment, site) in self.sites or (deployment, None) in self.sites

    def may_see(self, deployment: str) -> bool:
        """Whether it may know that there is this deployment."""
        return self.role != "use" or self.sites is None or any(place[0] == deployment for place in self.sites)


def create(
    store: Store, name: str, role: Role, *, sites: Iterable[Place] | None = None, days: float | None = None
) -> tuple[str, Token]:
    """A new token, and what is known of it; the first is shown to its owner now, and cannot be had again.

    >>> import surefooted as sf
    >>> from surefooted.service import tokens
    >>> store = sf.live.open(":memory:")
    >>> secret, token = tokens.create(store, "till-3", "use", sites=[("shop", "high street")])
    >>> tokens.find(store, secret).may_use("shop", "high street"), tokens.find(store, "sft_guess")
    (True, None)
    """
    places = None if sites is None else tuple(dict.fromkeys((d, s) for d, s in sites))
    faults = [] if NAME.fullmatch(name) else [f"name {name!r}: use letters, digits and . _ @ -, at most 64"]
    if role not in ROLES:
        faults.append(f"role {role!r}: there are {', '.join(ROLES)}")
    if places is not None and role != "use":
        faults.append(f"sites are for the role use; the role {role} has all of them")
    if places is not None and not places:
        faults.append("a token for no site can do nothing: name a site, or leave sites out for all of them")
    if days is not None and not 0 < days <= 36_500:
        faults.append(f"days {days:g} must be positive, and at most 36500")
    if faults:
        raise InvalidInput("this token cannot be created", faults)
    secret = PREFIX + secrets.token_urlsafe(32)
    now = store.clock().astimezone(UTC)
    expires = None if days is None else _iso(now + timedelta(days=days))
    token = Token(name, role, places, _iso(now), expires)
    told = None if places is None else json.dumps(places, ensure_ascii=False)
    with store.transaction():
        if store.read("SELECT 1 FROM tokens WHERE name = ?", name):
            fault = f"there is a token {name!r} already, or there was: its name stands in the journal"
            raise InvalidInput("this token cannot be created", [fault])
        n = int(store.read("SELECT coalesce(max(id), 0) + 1 FROM tokens")[0][0])
        values = (n, name, role, told, digest(secret), token.created, expires, None)
        store.write(f"INSERT INTO tokens (id, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *values)
    return secret, token


def digest(secret: str) -> bytes:
    """What the store keeps of a token."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def find(store: Store, secret: str) -> Token | None:
    """The token, if it is valid now."""
    wanted = digest(secret)
    for row in store.read(f"SELECT {COLUMNS} FROM tokens WHERE digest = ?", wanted):
        if hmac.compare_digest(bytes(row[3]), wanted):
            token = _token(row)
            return token if token.is_valid(store.clock()) else None
    return None


def listed(store: Store) -> list[Token]:
    """All tokens, revoked and expired ones included, in the order in which they were created."""
    return [_token(row) for row in store.read(f"SELECT {COLUMNS} FROM tokens ORDER BY id")]


def named(store: Store, name: str) -> Token | None:
    """The token of that name, valid or not."""
    rows = store.read(f"SELECT {COLUMNS} FROM tokens WHERE name = ?", name)
    return _token(rows[0]) if rows else None


def revoke(store: Store, name: str) -> Token:
    """Make a token useless from now on; to revoke it again changes nothing."""
    with store.transaction():
        rows = store.read(f"SELECT {COLUMNS} FROM tokens WHERE name = ?", name)
        if not rows:
            raise InvalidInput("no such token", [f"{name!r}"])
        if rows[0][6] is None:
            store.write("UPDATE tokens SET revoked = ? WHERE name = ?", _iso(store.clock()), name)
        return _token(store.read(f"SELECT {COLUMNS} FROM tokens WHERE name = ?", name)[0])


def exist(store: Store) -> bool:
    """Whether any token is valid now."""
    return any(token.is_valid(store.clock()) for token in listed(store))


def _token(row: tuple[object, ...]) -> Token:
    name, role, told, _, created, expires, revoked = row
    sites = None if told is None else tuple((d, s) for d, s in json.loads(str(told)))
    return Token(str(name), role, sites, str(created), expires, revoked)  # type: ignore[arg-type]


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds")
