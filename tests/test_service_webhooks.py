"""Webhooks: who is told what, signed, again after a failure, once after a restart; and only who is configured."""

import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

import surefooted as sf
from live_help import Clock, deployed

pytest.importorskip("fastapi", reason="fastapi is missing")

from service_help import Service
from surefooted.service import webhooks
from surefooted.service.settings import Webhook, read_webhooks

SECRET = "0123456789abcdef"


class Receiver:
    """An HTTP server that keeps what it gets; it answers with each of `answers`, then with 204."""

    def __init__(self, answers=()):
        outer, left = self, list(answers)
        self.got = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = left.pop(0) if left else 204
                outer.got.append((status, dict(self.headers), body))
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?x=1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait(self, n):
        until = time.monotonic() + 30
        while len(self.got) < n and time.monotonic() < until:
            time.sleep(0.01)
        assert len(self.got) >= n
        return self.got

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()


def waiting(advisor):
    """Ask until a decision waits for a person."""
    for i in range(100):
        decision = advisor.ask("a", 0, key=str(i))
        if decision.status == "waiting":
            return decision
        advisor.tell(decision, reward=0.5, next_state=0)
    raise AssertionError("nothing waits")


def asking(place, **options):
    return deployed(place / "x.db", clock=Clock(), mode="approval", allowance=500.0, **options)


def test_addresses_are_told_signed_and_again_after_a_failure(place, monkeypatch):
    monkeypatch.setattr(webhooks, "FIRST_PAUSE", 0.05)
    with Receiver([500, 302]) as receiver, Receiver() as other:
        store, advisor = asking(place, drift=0.01)
        hooks = (Webhook(receiver.url, SECRET), Webhook(other.url, SECRET, ("alarm",)))
        with Service(store, webhooks=hooks):
            decision = waiting(advisor)
            got = receiver.wait(3)
            assert [status for status, _, _ in got] == [500, 302, 204] and len({body for _, _, body in got}) == 1
            _, headers, body = got[2]
            told = json.loads(body)
            assert (told["kind"], told["deployment"], told["site"], told["event"]) == (
                "waiting",
                "shop",
                "a",
                decision.id,
            )
            assert told["deadline"] == decision.deadline and "may" in told["words"]
            at, made = (part.partition("=")[2] for part in headers["X-Surefooted-Signature"].split(","))
            own = hmac.new(SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
            assert made == own and abs(int(at) - time.time()) < 60 and headers["X-Surefooted-Event"] == str(decision.id)
            advisor.approve(decision, who="Ada")
            advisor.tell(decision, reward=0.0, next_state=0)
            advisor.set_mode("shadow")
            for i in range(600):
                advisor.tell(advisor.ask("a", 0, key=f"bad {i}"), reward=0.0, next_state=0)
                if advisor.status()["alarm"]:
                    break
            alarm = json.loads(other.wait(1)[0][2])
            assert alarm["kind"] == "alarm" and alarm["words"].startswith("Alarm: ") and len(other.got) == 1


@pytest.mark.slow
def test_what_happened_while_the_service_was_away_is_told_once_when_it_is_back(place, monkeypatch):
    monkeypatch.setattr(webhooks, "FIRST_PAUSE", 0.05)
    with Receiver() as receiver:
        store, advisor = asking(place)
        hooks = (Webhook(receiver.url, SECRET),)
        first = waiting(advisor)
        with Service(store, webhooks=hooks):
            time.sleep(0.2)
            assert not receiver.got  # from now on
        advisor.reject(first, who="Ada")
        advisor.tell(first, reward=0.5, next_state=0)
        second = waiting(advisor)
        for _ in range(2):
            with Service(store, webhooks=hooks):
                receiver.wait(1)
                time.sleep(0.2)
        assert [json.loads(body)["event"] for _, _, body in receiver.got] == [second.id]


@pytest.mark.parametrize("text, words", [
    ('[[webhook]]\nurl = "http://shop.example/x"\nsecret = "0123456789abcdef"', "unless it is on this machine"),
    ('[[webhook]]\nurl = "file:///etc/passwd"\nsecret = "0123456789abcdef"', "must be an address"),
    ('[[webhook]]\nurl = "https://shop.example"\nsecret = "hush"', "at least 16"),
    ('[[webhook]]\nurl = "https://shop.example"\nsecret = "0123456789abcdef"\nkinds = ["all"]', "kinds may be"),
    ('[[webhook]]\nurl = "https://shop.example"\nsecret = "0123456789abcdef"\ntoken = "x"', "no key 'token'"),
    ('webhooks = 1', "no key 'webhooks'"), ('webhook = 1', "as \\[\\[webhook"),
])  # fmt: skip
def test_wrong_webhooks_are_refused_without_their_secrets(place, text, words):
    (place / "hooks.toml").write_text(text)
    with pytest.raises(sf.InvalidInput, match=words) as error:
        read_webhooks(place / "hooks.toml")
    assert "hush" not in str(error.value) and SECRET not in str(error.value)


def test_webhooks_are_read_from_a_file(place):
    (place / "hooks.toml").write_text(f'[[webhook]]\nurl = "https://shop.example/x"\nsecret = "{SECRET}"\n')
    (hook,) = read_webhooks(place / "hooks.toml")
    assert hook == Webhook("https://shop.example/x", SECRET) and SECRET not in repr(hook)
    assert np.isfinite(webhooks.LONGEST_PAUSE)
