"""Limits and secrets: size, rate, time, streams, headers; tokens that end; and nothing secret is written anywhere."""

import http.client
import json
import logging
import socket
import struct
import threading
import time
from datetime import timedelta

import pytest

import surefooted as sf
from live_help import Clock

pytest.importorskip("fastapi", reason="fastapi is missing")

from service_help import Service, served
from surefooted.errors import SurefootedError
from surefooted.service import protocol, serving, tokens
from surefooted.service.access import Bucket
from surefooted.service.logs import JsonLines

SHOP = "/v1/deployments/shop"
ASK = {"site": "a", "state": 0, "key": "1"}


def listening(service, query=""):
    """The request for a stream of events."""
    head = f"GET /v1/events{query} HTTP/1.1\r\nHost: x\r\n"
    return f"{head}Authorization: Bearer {service.token('read')}\r\n\r\n".encode()


def test_a_token_is_shown_once_and_stored_as_a_digest(place):
    store = sf.live.open(place / "x.db")
    secret, token = tokens.create(store, "till", "use", sites=[("shop", "a")], days=1)
    assert len(secret) == 4 + 43 and tokens.find(store, secret) == token
    assert secret.encode() not in (place / "x.db").read_bytes() + (place / "x.db-wal").read_bytes()
    assert secret[4:] not in repr(token) + repr(tokens.listed(store))
    assert tokens.find(store, secret[:-1]) is None and tokens.find(store, "") is None
    with pytest.raises(sf.InvalidInput, match="already, or there was"):
        tokens.create(store, "till", "read")
    for name, options in (("a b", {}), ("x", {"role": "root"}), ("x", {"sites": []}), ("x", {"days": -1.0}),
                          ("x", {"role": "read", "sites": [("shop", "a")]}), ("", {}), ("x" * 65, {})):  # fmt: skip
        with pytest.raises(sf.InvalidInput, match="cannot be created"):
            tokens.create(store, name, **{"role": "use"} | options)


def test_tokens_expire_and_are_revoked_at_once(place):
    clock = Clock()
    service, _ = served(place, clock=clock)
    with service:
        service.token("read", "short", days=1.0)
        service.token("read", "long")
        for name in ("short", "long"):
            assert service.call("GET", SHOP + "/status", secret=service.token("read", name)).status == 200
        clock.now += timedelta(days=1)
        assert service.call("GET", SHOP + "/status", secret=service.token("read", "short")).status == 401
        with sf.live.open(place / "served.db", clock) as other:  # another process
            tokens.revoke(other, "long")
        answer = service.call("GET", SHOP + "/status", secret=service.token("read", "long"))
        assert answer.status == 401 and answer.headers["www-authenticate"] == "Bearer"
        assert service.call("GET", SHOP + "/status", role="read").status == 200
        assert service.call("DELETE", "/v1/tokens/read-1").json["revoked"]
        assert service.call("GET", SHOP + "/status", role="read").status == 401


def test_a_stream_ends_when_its_token_does(place):
    service, advisor = served(place, settings={"heartbeat": 0.1})
    with service:
        link = socket.create_connection(("127.0.0.1", service.port), timeout=20)
        link.sendall(listening(service, "?after=0"))
        heard = b""
        while heard.count(b"event: ") < 3 or b": still here" not in heard:
            heard += link.recv(65536)
        tokens.revoke(service.store, "read-1")
        while part := link.recv(65536):
            heard += part
            if b"event: end" in heard:
                break
        advisor.pause()
        assert b"event: end" in heard and b"event: pause" not in heard
        link.close()


def test_a_large_request_is_refused_before_it_is_read(place):
    service, _ = served(place, settings={"body": 2_000})
    with service:
        answer = service.call("POST", SHOP + "/ask", ASK | {"key": "x" * 3_000})
        assert answer.status == 413 and answer.json["title"] == "this request is too large"
        link = socket.create_connection(("127.0.0.1", service.port), timeout=20)
        link.sendall(f"POST {SHOP}/ask HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(30):
            try:
                link.sendall(b"64\r\n" + b"x" * 100 + b"\r\n")
            except OSError:
                break
        assert b" 413 " in link.recv(4096).split(b"\r\n")[0]
        link.close()
        link = socket.create_connection(("127.0.0.1", service.port), timeout=20)
        try:
            link.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"x" * 200_000 + b"\r\n\r\n")
            assert b" 400 " in link.recv(4096).split(b"\r\n")[0] + b" 400 "
        except OSError:
            pass
        link.close()
        assert service.call("POST", SHOP + "/ask", ASK).status == 200


def test_a_slow_client_is_sent_away_and_holds_nobody_up(place):
    service, _ = served(place, settings={"seconds": 0.5, "threads": 2})
    with service:
        head = f"POST {SHOP}/ask HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n".encode()
        slow = [socket.create_connection(("127.0.0.1", service.port), timeout=20) for _ in range(10)]
        for link in slow:
            link.sendall(head + b"{")
        assert service.call("POST", SHOP + "/ask", ASK).status == 200
        for link in slow:
            assert b" 408 " in link.recv(4096).split(b"\r\n")[0]
            link.close()


def test_a_connection_without_a_request_is_closed(place, monkeypatch):
    monkeypatch.setattr(protocol.Prompt, "HEAD", 0.4)
    service, _ = served(place)
    with service:
        links = [socket.create_connection(("127.0.0.1", service.port), timeout=20) for _ in range(3)]
        links[1].sendall(b"GET /healthz HTTP/1.1\r\nHost: ")  # its headers never end
        links[2].sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in links[2].recv(4096)
        links[2].sendall(b"GET /healthz")  # nor do those of the second request on this one
        for link in links:
            while link.recv(4096):
                pass
            link.close()
        with service.connect("use") as store:  # a connection may rest between two requests
            time.sleep(0.6)
            assert store.deployments() == ["shop"]


def test_headers_without_end_are_cut_off(place):
    service, _ = served(place)
    with service:
        for head in (b"GET /healthz HTTP/1.1\r\nX: ", b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 3_000, b"GET /"):
            begun = time.monotonic()
            with socket.create_connection(("127.0.0.1", service.port), timeout=20) as link, pytest.raises(OSError):
                link.sendall(head)
                for _ in range(200):  # 13 MB
                    link.sendall(b"a" * 65_536)
                    time.sleep(0.001)
            assert time.monotonic() - begun < protocol.HEAD
        link = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
        for _ in range(12):  # those of each request are counted by themselves
            link.request("GET", "/healthz", headers={"X": "a" * 8_000})
            assert link.getresponse().read() == b'{"status":"alive"}'
        link.close()


def test_streams_that_are_cut_at_once_do_not_count(place):
    service, _ = served(place, settings={"streams": 4, "heartbeat": 0.1})
    with service:
        request = listening(service)
        for i in range(40):
            link = socket.create_connection(("127.0.0.1", service.port), timeout=20)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            link.sendall(request)
            time.sleep(0.002 * (i % 4))
            link.close()
        until = time.monotonic() + 30
        while service.held.hub.streams and time.monotonic() < until:
            time.sleep(0.02)
        assert service.held.hub.streams == 0


def test_what_takes_too_long_is_answered_and_goes_on(place):
    service, advisor = served(place, settings={"seconds": 1.0})
    with service:
        assert service.call("GET", "/v1/me").status == 200
        with service.store.lock:  # the store is busy
            answer = service.call("GET", SHOP + "/status", secret=service.token())
            assert answer.status == 503 and answer.json["title"] == "this took too long"
            assert answer.headers["retry-after"] == "1"
        assert service.call("POST", SHOP + "/ask", ASK).status == 200
        assert advisor.store.verify().is_whole


def test_the_rate_of_a_token_is_limited(place):
    service, _ = served(place, settings={"rate": 5.0, "burst": 3})
    with service:
        for role in ("read", "operate"):  # each has its own
            service.token(role)
            found = [service.call("GET", "/v1/me", role=role) for _ in range(12)]
            assert [answer.status for answer in found[:3]] == [200] * 3
            refused = [answer for answer in found if answer.status == 429]
            assert refused and all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        with service.connect("administer") as store:  # the client waits, and gets its answers
            assert [store.deployments() for _ in range(5)] == [["shop"]] * 5


def test_who_guesses_tokens_has_to_wait(place):
    service, _ = served(place, settings={"failures": 5})
    with service:
        good = service.token("read")
        found = [service.call("GET", "/v1/me", secret=f"sft_{i}").status for i in range(8)]
        assert found[:5] == [401] * 5 and found[-1] == 429
        assert service.call("GET", "/v1/me", secret=good).status == 429  # from the same address
        assert service.call("GET", "/healthz", role=None).status == 200


def test_buckets_fill_up_again(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    bucket = Bucket(2.0, 4)
    assert [bucket.wait("a") for _ in range(4)] == [0.0] * 4
    assert bucket.wait("a") == pytest.approx(0.5) and bucket.wait("b") == 0.0
    now[0] += 0.5
    assert bucket.wait("a") == 0.0 and bucket.wait("a") == pytest.approx(0.5)
    now[0] += 1e6
    assert [bucket.wait("a") for _ in range(5)][:4] == [0.0] * 4 and bucket.wait("a") > 0
    assert Bucket(0.0, 1).wait("a") == 0.0


def test_streams_are_limited(place):
    service, _ = served(place, settings={"streams": 2, "heartbeat": 0.1})
    with service:
        request = listening(service)
        other = request.replace(service.token("read").encode(), service.token().encode())
        open_ = [socket.create_connection(("127.0.0.1", service.port), timeout=20) for _ in range(2)]
        for link, sent in zip(open_, (request, other), strict=True):
            link.sendall(sent)
            assert b" 200 " in link.recv(100)
            assert service.call("GET", "/v1/events", role="read").status == 503  # half of them are for others
        assert service.call("GET", "/v1/events", role="operate").status == 503
        for link in open_:
            link.close()
        until = time.monotonic() + 20
        while service.held.hub.streams and time.monotonic() < until:
            time.sleep(0.02)
        assert service.held.hub.streams == 0


def test_headers_are_strict_on_every_answer(place):
    service, _ = served(place)
    with service:
        for path, role in (("/healthz", None), ("/nowhere", None), ("/v1/me", None), (SHOP + "/status", "read")):
            headers = service.call("GET", path, role=role).headers
            assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
            assert headers["content-security-policy"].startswith("default-src 'none'; frame-ancestors 'none'")
            assert headers["referrer-policy"] == "no-referrer" and headers["x-frame-options"] == "DENY"
            assert "server" not in headers and "access-control-allow-origin" not in headers


def test_an_error_that_nobody_expected_tells_nothing(place, monkeypatch, caplog):
    service, advisor = served(place)
    with service:
        held = service.held.advisor("shop")
        monkeypatch.setattr(held, "status", lambda: 1 / 0)
        with caplog.at_level(logging.ERROR):
            answer = service.call("GET", SHOP + "/status", role="read")
        assert answer.status == 500 and "division" not in answer.content.decode()
        assert any("ZeroDivisionError" in JsonLines().format(record) for record in caplog.records)
        assert answer.headers["x-frame-options"] == "DENY"
        assert advisor.store.verify().is_whole


def test_no_secret_is_in_a_log_or_an_answer(place, caplog):
    service, _ = served(place)
    with service, caplog.at_level(logging.DEBUG):
        secrets = [service.token(role) for role in tokens.ROLES]
        made = service.call("POST", "/v1/tokens", {"name": "new", "role": "read"}).json["token"]
        told = b""
        for secret in (*secrets, made, "sft_wrong-but-secret"):
            told += service.call("GET", f"{SHOP}/status?token={secret}", secret=secret).content
            told += service.call("POST", SHOP + "/ask", {"site": 1, "token": secret}, secret=secret).content
            told += service.call("GET", "/v1/tokens", secret=secret).content
        lines = [JsonLines().format(record) for record in caplog.records]
        said = (
            told.decode()
            + "".join(lines)
            + repr(service.held.settings)
            + service.call("GET", "/metrics").content.decode()
        )
        assert not [secret for secret in (*secrets, made, "wrong-but-secret") if secret in said]
        asked = [json.loads(line) for line in lines if '"request"' in line]
        assert any(line.get("token") == "read-1" and line["path"] == SHOP + "/status" for line in asked)


def test_only_this_machine_may_be_served_without_tokens(place):
    store = sf.live.open(place / "x.db")
    for host in ("127.0.0.1", "::1", "localhost"):
        serving.check_address(store, host)
    for host in ("0.0.0.0", "::", "192.0.2.1", "shop.example"):
        with pytest.raises(SurefootedError, match="can be reached from other machines"):
            serving.check_address(store, host)
    _, token = tokens.create(store, "ada", "administer")
    serving.check_address(store, "0.0.0.0")
    tokens.revoke(store, token.name)
    with pytest.raises(SurefootedError, match="surefooted token create"):
        serving.check_address(store, "0.0.0.0")


def test_hostile_names_are_only_shown(place):
    """Labels that try to be HTML, headers, terminals, formulas or paths come back as they went in, or are refused."""
    hostile = ["<script>alert(1)</script>", "'; DROP TABLE events; --", "../../etc/passwd", "{{7*7}}", "%0d%0aX: 1",
               "=cmd|'/c calc'!A1", "\u202egnp.exe", "a" * 200, "💥", "null", "-1"]  # fmt: skip
    service, _ = served(place, sites=())
    with service:
        for name in hostile:
            assert service.call("POST", SHOP + "/sites", {"name": name}).status == 201, name
            asked = service.call("POST", SHOP + "/ask", {"site": name, "state": 0, "key": name}).json
            assert (asked["site"], asked["key"]) == (name, name)
            told = service.call("POST", SHOP + "/tell", {"site": name, "key": name, "reward": 0.5, "note": name})
            assert told.status == 200
        listed = service.call("GET", SHOP + "/sites", role="read")
        assert [row["name"] for row in listed.json["sites"]] == hostile
        assert listed.headers["content-type"] == "application/json"
        for name in ("a\nb", "a\rb", "\x1b[2J", "a\u2028b", "", "a" * 201):
            assert service.call("POST", SHOP + "/sites", {"name": name}).status == 422, name
        metrics = service.call("GET", "/metrics", role="read")
        assert metrics.status == 200 and metrics.headers["content-type"].startswith("text/plain")
        assert service.store.verify().is_whole


def test_threads_share_one_store(place):
    service, advisor = served(place, sites=tuple("abcdefgh"))
    with service:

        def use(site):
            with service.connect("use") as store:
                remote = store.deployment("shop")
                for i in range(15):
                    remote.tell(remote.ask(site, 0, key=str(i)), reward=0.5, next_state=0)

        working = [threading.Thread(target=use, args=(site,)) for site in "abcdefgh"]
        service.token("use")
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()
        assert advisor.status()["decisions"] == 120 and not advisor.status()["open"]
        assert service.store.verify().is_whole


def test_the_service_ends_gracefully(place):
    service, advisor = served(place)
    link = socket.create_connection(("127.0.0.1", service.port), timeout=20)
    link.sendall(listening(service))
    assert b" 200 " in link.recv(100)
    begun = time.monotonic()
    service.close()
    assert time.monotonic() - begun < 15  # a stream does not hold it up
    link.close()
    again = Service(service.store)
    with again:
        assert again.call("GET", "/readyz", role=None).json == {"status": "ready"}
        again.held.stopping = True
        assert again.call("GET", "/readyz", role=None).status == 503
    assert advisor.store.verify().is_whole
