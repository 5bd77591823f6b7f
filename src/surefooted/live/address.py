"""Where a PostgreSQL store is: the address that a user gives, what of it may be shown, and what is a secret."""

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from surefooted.errors import InvalidInput

SCHEMA = "surefooted"  # the PostgreSQL schema that holds the tables, unless the address names one
SECRETS = ("password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")
UNLESS_GIVEN: dict[str, Any] = {  # so that a machine that is gone is noticed within a minute
    "connect_timeout": 10, "keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 4,
    "tcp_user_timeout": 40_000, "fallback_application_name": "surefooted",
}  # fmt: skip


@dataclass(frozen=True)
class Address:
    """An address taken apart. Neither its `repr` nor `shown` has a secret in it.

    >>> address = parse("postgresql://ada:secret@db.example.com/shops?schema=north")
    >>> address.shown, address.schema
    ('postgresql://ada@db.example.com/shops?schema=north', 'north')
    """

    shown: str
    schema: str
    parameters: dict[str, Any] = field(repr=False)

    @property
    def conninfo(self) -> str:
        """The address as libpq takes it, with its secrets."""
        return str(make_conninfo("", **(UNLESS_GIVEN | self.parameters)))

    def cleaned(self, text: str) -> str:
        """A message of the database without any secret of the address."""
        for name in SECRETS:
            if secret := self.parameters.get(name):
                text = text.replace(str(secret), "…")
        return " ".join(text.split())


def parse(address: str) -> Address:
    """`postgresql://user:password@host:port/database?schema=name&…`; everything but the scheme may be left out.

    `schema` is ours, and names the PostgreSQL schema of the store; all other parameters are libpq's.
    """
    start, _, query = address.partition("?")
    parts = [part for part in query.split("&") if part]
    schemas = [unquote(part.removeprefix("schema=")) for part in parts if part.startswith("schema=")]
    rest = "&".join(part for part in parts if not part.startswith("schema="))
    schema = schemas[-1] if schemas else SCHEMA
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,49}", schema) or schema.startswith("pg_"):
        fault = f"schema {schema!r}: use lower-case letters, digits and underscores, at most 50, and no pg_ in front"
        raise InvalidInput("this is no address of a store", [fault])
    try:
        given: dict[str, Any] | None = conninfo_to_dict(f"{start}?{rest}" if rest else start)
    except ProgrammingError:  # its message repeats what it could not read: that may be a part of the password
        given = None
    if given is None or not _is_plain(given):
        form = "postgresql://user:password@host:port/database?schema=name"
        hint = "Write special characters of a password as %XX, or keep it in ~/.pgpass or PGPASSWORD."
        raise InvalidInput("this is no address of a store", [f"it must have the form {form}"], hint)
    return Address(_shown(given, schema), schema, given)


def _is_plain(given: dict[str, Any]) -> bool:
    """Whether host, port and database hold nothing that may be the rest of a password with an unquoted @, : or /."""
    hosts, name = str(given.get("host") or ""), str(given.get("dbname") or "")
    numbers = str(given.get("port") or "0").replace(",", "")
    words = (word for word in hosts.split(",") if not re.fullmatch(r"[0-9a-fA-F:.]+(%\w+)?", word))  # no IPv6 address
    return numbers.isdigit() and not any(sign in word for word in words for sign in "@:") and not set(name) & set("@:/")


def _shown(given: dict[str, Any], schema: str) -> str:
    """The address for people, which is one that can be used."""
    host, port = str(given.get("host") or given.get("hostaddr") or ""), str(given.get("port") or "")
    user = f"{given['user']}@" if given.get("user") else ""
    asked = [f"schema={schema}"] if schema != SCHEMA else []
    if "/" in host:  # a socket
        asked = [f"host={host}", *([f"port={port}"] if port else []), *asked]
        where = ""
    else:
        hosts, ports = host.split(","), port.split(",")
        names = [f"[{name}]" if ":" in name else name for name in hosts]
        ports = ports * len(hosts) if len(ports) == 1 else ports
        where = ",".join(name + (f":{number}" if number else "") for name, number in zip(names, ports, strict=False))
    return f"postgresql://{user}{where}/{given.get('dbname') or ''}" + ("?" + "&".join(asked) if asked else "")
