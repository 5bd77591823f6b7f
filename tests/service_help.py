"""A real service on 127.0.0.1 in a thread of the test's process, and a client that speaks plain HTTP to it."""

import asyncio
import http.client
import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import surefooted as sf
from live_help import Clock, deployed
from surefooted.service import hub, serving, tokens
from surefooted.service.app import create_app
from surefooted.service.settings import Settings

FREE = {"rate": 0.0, "failures": 100_000}  # no limit is met by accident
hub.TURN = 0.05  # seconds: a service that is told to end may take so long to notice, and the tests end dozens


class Service:
    """A service on a store; `with` ends it."""

    def __init__(self, store, **settings):
        self.store = store
        self.app = create_app(store, Settings(**FREE | settings))
        self.held = self.app.state.context
        self.socket = serving.listening("127.0.0.1", 0)
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = serving.server(self.app)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive(), "the service did not start"
            time.sleep(0.005)
        self.secrets = {}

    def _run(self):
        asyncio.run(self.server.serve(sockets=[self.socket]))

    def token(self, role="administer", name=None, **options):
        """The secret of a token of that role, made when it is first needed."""
        name = name or f"{role}-1"
        if name not in self.secrets:
            self.secrets[name] = tokens.create(self.store, name, role, **options)[0]
        return self.secrets[name]

    def call(self, method, path, body=None, role="administer", secret=None, **headers):
        """One request on a connection of its own."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            if role is not None or secret is not None:
                sent["Authorization"] = f"Bearer {secret or self.token(role)}"
            if body is not None and not isinstance(body, bytes):
                body, sent["Content-Type"] = json.dumps(body), "application/json"
            link.request(method, path, body, sent)
            answer = link.getresponse()
            return Answer(answer.status, answer.read(), dict(answer.headers))
        finally:
            link.close()

    def connect(self, role="administer", **options):
        return sf.live.connect(self.url, self.token(role), **options)

    def close(self):
        self.server.end()
        self.thread.join(timeout=30)
        assert not self.thread.is_alive()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


@dataclass
class Answer:
    status: int
    content: bytes
    headers: dict = field(default_factory=dict)

    @property
    def json(self):
        return json.loads(self.content)


def served(place, clock=None, settings=None, **options):
    """A service on a new store with the deployment "shop", and the local advisor of that."""
    store, advisor = deployed(place / "served.db", clock=clock or Clock(), **options)
    return Service(store, **settings or {}), advisor


class Looked(sf.live.RemoteAdvisor):
    """A remote advisor whose tests may look behind the service."""

    def machine(self):
        with self.store.service.store.lock:
            return self.store.service.held.advisor(self.name).machine()

    @property
    def definition(self):
        return self.store.service.held.advisor(self.name).definition


class LookedStore(sf.live.RemoteStore):
    """A remote store with such advisors."""

    def deployment(self, name):
        return self._looked(super().deployment(name))

    def create_deployment(self, name, **options):
        return self._looked(super().create_deployment(name, **options))

    def _looked(self, advisor):
        advisor.__class__ = Looked
        return advisor


class OverHTTP:
    """Looks like a directory; its files that end in .db are stores behind services."""

    def __init__(self, place):
        self.place, self.services = place, []

    def __truediv__(self, name):
        return Address(self, self.place / name) if name.endswith(".db") else self.place / name

    def close(self):
        for service in self.services:
            service.close()


@dataclass
class Address:
    """Of a store behind a service, which is begun when the store is opened for the first time."""

    owner: OverHTTP
    file: Path

    def opened(self, *clock):
        store = next((each for each in self.owner.services if each.store.path == self.file), None)
        if store is None:
            store = Service(sf.live.open(self.file, *clock))
            self.owner.services.append(store)
        remote = store.connect()
        remote.__class__, remote.service = LookedStore, store
        return remote
