"""An hour of requests that nobody would write: made from the description of the API, and mutilated at random.

Run `python tests/fuzz_service.py [minutes] [seed]` (60, 1); it prints a table, and ends with 1 if anything is wrong.
Half of the requests come from the description (OpenAPI) by schemathesis, valid and invalid ones; their answers must be
as described. The others are bytes: methods, paths, headers, cookies, queries and bodies of API and pages, with parts
that were cut, repeated, exchanged or filled with what breaks parsers. No answer may be 5xx other than 503, none may
repeat a token or tell of the inside, the service must answer the next request, and the store must be whole in the end.
"""

import json
import logging
import random
import re
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from live_help import deployed
from service_help import Service

CHECKS = (not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
          checks.response_schema_conformance)  # fmt: skip
BATCH = 25  # requests of an operation in a row
INSIDE = (b"Traceback", b"site-packages", b"sqlite3", b'File "', b"surefooted/")
UGLY = (
    "", "0", "-1", "1e999", "NaN", "null", "true", "[]", "{}", "9" * 400, "a" * 70_000, "\0", "\r\nX-Evil: 1", "\u202e",
    "../" * 20 + "etc/passwd", "%2e%2e%2f", "%00", "%ff", "'; DROP TABLE events; --", "<script>alert(1)</script>",
    "{{7*7}}", "${7*7}", "=cmd|'/c calc'!A1", "\ud83d\ude00", "\udcff", "[" * 5_000, '{"a":' * 2_000, "\ufeff",
)  # fmt: skip
SITES = ("a", "b")


class Fuzz:
    """A service with some decisions, and what was sent to it."""

    def __init__(self, folder, number):
        store, self.advisor = deployed(folder / "fuzz.db", sites=SITES, allowance=50.0, mode="approval", drift=0.01)
        self.service = Service(store, seconds=120.0)
        self.secrets = [self.service.token(role) for role in ("administer", "operate", "read", "use")]
        self.random, self.count, self.faults = random.Random(number), Counter(), []
        self.advisor.ask("a", 0, "1")
        self.paths = sorted(self.service.app.openapi()["paths"])
        self.paths += [
            "/",
            "/site",
            "/deployment",
            "/approvals",
            "/chart",
            "/live",
            "/sign-in",
            "/sign-out",
            "/do/trust",
        ]
        self.schema = schemathesis.openapi.from_url(self.service.url + "/v1/openapi.json")
        self.operations = [found.ok() for found in self.schema.get_all_operations()]

    # From the description.

    def described(self):
        """Some requests of one operation, valid or not."""
        operation = self.random.choice(self.operations)
        mode = self.random.choice((GenerationMode.POSITIVE, GenerationMode.NEGATIVE))
        if operation.path.endswith("/events"):
            return  # streams have no end
        headers = {"Authorization": f"Bearer {self.random.choice(self.secrets[:1] * 3 + self.secrets)}"}

        @seed(self.random.getrandbits(60))
        @settings(max_examples=BATCH, database=None, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case):
            if "deployment" in (case.path_parameters or {}) and self.random.random() < 0.9:
                case.path_parameters["deployment"] = "shop"
            answer = case.call_and_validate(headers=headers, checks=CHECKS, timeout=150)
            self.count[answer.status_code] += 1
            self.look(answer.content, f"{case.method} {operation.path}")

        try:
            send()
        except Unsatisfiable:
            pass  # there is no invalid request for an operation without parameters
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            said = [error, *getattr(error, "exceptions", ())]
            self.faults.append(f"{operation.label}: {'; '.join(map(repr, said))}"[:2_000])

    # Bytes.

    def ugly(self):
        return self.random.choice(UGLY)

    def body(self):
        """A body that is nearly right, or not at all."""
        some = lambda *values: self.random.choice((*values, self.ugly()))  # noqa: E731
        told = {
            "site": some(*SITES), "state": some(0, 1, 99, -1), "key": some("1"), "decision": some(4, 10**30, -1),
            "reward": some(0.5, 1e308), "next_state": some(0, 3), "mode": some("live", "shadow"), "name": some("x"),
            "note": some("x"), "why": some("x"), "role": some("read"), "keep_since": some(0, 9), "problem": some(),
            "definition": {"alpha": some(0.1)}, "guardrails": {some(): 1.0},
        }  # fmt: skip
        kept = {name: told[name] for name in self.random.sample(list(told), self.random.randrange(len(told)))}
        text = self.random.choice((json.dumps(kept), "&".join(f"{k}={v}" for k, v in kept.items()), self.ugly()))
        return text.encode("utf-8", "surrogatepass")

    def raw(self):
        """One request as bytes, with something wrong."""
        rng = self.random
        path = re.sub(r"\{\w+\}", lambda found: rng.choice(("shop", "4", "a", self.ugly())), rng.choice(self.paths))
        if rng.random() < 0.3:
            path += "?" + "&".join(f"{rng.choice(('after', 'limit', 'site', 'deployment', 'name', 'before', 'q'))}="
                                   f"{self.ugly()}" for _ in range(rng.randrange(4)))  # fmt: skip
        method = rng.choice(
            ("GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS", "TRACE", "get", "GE T", "\x00", "A" * 300)
        )
        headers = [f"Host: {rng.choice(('x', self.ugly()))}", "Connection: close"]
        secret = rng.choice((*self.secrets, self.ugly()))
        headers.append(f"Authorization: {rng.choice(('Bearer', 'bearer', 'Basic', ''))} {secret}")
        for name in (
            "Cookie",
            "Idempotency-Key",
            "Last-Event-ID",
            "Origin",
            "X-Forwarded-For",
            "Content-Type",
            "Expect",
        ):
            if rng.random() < 0.2:
                headers.append(
                    f"{name}: {rng.choice(('application/json', 'surefooted_session=', '100-continue'))}{self.ugly()}"
                )
        body = self.body()
        length = rng.choice((str(len(body)),) * 6 + ("-1", "99999999999", "1", "x"))
        headers.append(rng.choice((f"Content-Length: {length}",) * 5 + ("Transfer-Encoding: chunked",)))
        data = f"{method} {path} HTTP/1.1\r\n".encode("utf-8", "surrogatepass")
        data += "\r\n".join(headers).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body
        if rng.random() < 0.3:
            at = rng.randrange(len(data))
            data = rng.choice((data[:at], data[:at] + rng.randbytes(4) + data[at:], data[at:] + data[:at]))
        return data

    def mutilated(self):
        """Some requests as bytes; afterwards the service must answer."""
        for _ in range(BATCH):
            data = self.raw()
            try:
                with socket.create_connection(("127.0.0.1", self.service.port), timeout=20) as link:
                    link.sendall(data)
                    link.shutdown(socket.SHUT_WR)
                    answer = link.recv(65_536)
            except OSError:
                answer = b""  # it was cut off, as it may be
            status = int(found[1]) if (found := re.match(rb"HTTP/1.1 (\d+)", answer)) else 0
            self.count[status] += 1
            if status >= 500 and status != 503:
                self.faults.append(f"{status} to {data[:400]!r}")
            self.look(answer, repr(data[:400]))
        if self.service.call("GET", "/v1/me", secret=self.secrets[0]).status != 200:
            self.faults.append("it does not answer any more")

    def look(self, answer, asked):
        """Nothing of the inside, and no secret, may be in an answer."""
        told = [part.decode() for part in INSIDE if part in answer]
        if told or any(secret.encode() in answer for secret in self.secrets):
            self.faults.append(f"{asked}: the answer tells of {told or 'a token'}")

    def close(self):
        found = self.service.store.verify()
        self.faults += found.faults
        self.service.close()
        return found


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        fuzz, until = Fuzz(Path(folder), number), time.monotonic() + 60 * minutes
        while time.monotonic() < until and len(fuzz.faults) < 20:
            fuzz.random.choice((fuzz.described, fuzz.mutilated))()
        found = fuzz.close()
    print(f"| requests in {minutes:g} minutes, seed {number} | {sum(fuzz.count.values())} |\n|---|---|")
    for status, often in sorted(fuzz.count.items()):
        print(f"| {'connection closed, or no end of the headers' if not status else f'status {status}'} | {often} |")
    print(f"| events in the store | {found.events} |\n| faults | {len(fuzz.faults) or 'none'} |")
    for fault in fuzz.faults:
        print(f"\n{fault}")
    return not fuzz.faults


if __name__ == "__main__":
    sys.exit(not main())
