"""How a service is set up: its limits, and whom it tells about alarms."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from surefooted.errors import InvalidInput, UnreadableFile

KINDS = ("alarm", "waiting")  # of what webhooks tell


@dataclass(frozen=True)
class Webhook:
    """An address that is told about alarms and about what waits for a person.

    - `url`: https, or http to this machine.
    - `secret`: signs each message; at least 16 characters.
    - `kinds`: "alarm", "waiting" (a decision waits for a person), or both.
    """

    url: str
    secret: str
    kinds: tuple[str, ...] = KINDS

    def __repr__(self) -> str:
        """Without the secret, and without what an address may hide in its path."""
        return f"Webhook({urlsplit(self.url).hostname}, {', '.join(self.kinds)})"


@dataclass(frozen=True)
class Settings:
    """The limits of a service; `surefooted serve --help` says how to change them.

    - `body`: bytes of a request; `seconds`: of a request, from its first byte to its answer.
    - `rate`, `burst`: requests a second of one token, and how many at once; `failures`: wrong tokens a minute from one
      address, after which it has to wait.
    - `streams`: of events that may be open at once; `heartbeat`: seconds between signs of life on one.
    - `page`: rows of an answer unless asked otherwise; `most`: rows that may be asked for.
    - `threads`: calls of the library at once.
    - `webhooks`: who is told about alarms.
    - `allow_code`: whether learners of your own, of deployments that are in the store already, may run.
    """

    body: int = 1_000_000
    seconds: float = 30.0
    rate: float = 200.0
    burst: int = 400
    failures: int = 30
    streams: int = 100
    heartbeat: float = 15.0
    page: int = 100
    most: int = 1_000
    threads: int = 32
    webhooks: tuple[Webhook, ...] = ()
    allow_code: bool = False


def read_webhooks(path: str | Path) -> tuple[Webhook, ...]:
    """The webhooks of a TOML file: `[[webhook]]` with `url`, `secret` and, if not all, `kinds`."""
    try:
        told = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UnreadableFile(f"cannot read the webhooks {path}: {error}") from error
    listed, faults = told.get("webhook", []), [f"there is no key {name!r}" for name in told if name != "webhook"]
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        faults, listed = [*faults, "write each webhook as [[webhook]]"], []
    for i, each in enumerate(listed, start=1):
        faults += [f"webhook {i}: {fault}" for fault in _faults(each)]
    if faults:
        raise InvalidInput(f"{path} does not describe webhooks", faults)
    return tuple(Webhook(each["url"], each["secret"], tuple(each.get("kinds", KINDS))) for each in listed)


def _faults(told: dict[str, Any]) -> list[str]:
    """What is wrong with one webhook; a secret is never repeated."""
    faults = [f"there is no key {name!r}" for name in told if name not in ("url", "secret", "kinds")]
    url, secret, kinds = told.get("url"), told.get("secret"), told.get("kinds", list(KINDS))
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        faults.append("url must be an address that begins with https://")
    elif parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        faults.append("url must begin with https://, unless it is on this machine")
    if not isinstance(secret, str) or len(secret) < 16:
        faults.append("secret must be a text of at least 16 characters")
    if not isinstance(kinds, list) or not kinds or any(kind not in KINDS for kind in kinds):
        faults.append(f"kinds may be {' and '.join(KINDS)}")
    return faults
