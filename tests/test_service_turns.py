"""Questions and outcomes that arrive together share a transaction: each is answered as if it had come alone."""

import threading
import time

import pytest

import surefooted as sf
from live_help import deployed

pytest.importorskip("fastapi", reason="fastapi is missing")

from service_help import Service, served
from surefooted.live.store import StoreFault
from surefooted.service import serving

SHOP = "/v1/deployments/shop"


def together(service, *wishes):
    """The answers to requests that all stand in the line before the first of them is decided."""
    found, threads, gate = {}, [], held_up(service)
    for i, (what, body, options) in enumerate(wishes):

        def send(i=i, what=what, body=body, options=options):
            found[i] = service.call("POST", f"{SHOP}/{what}", body, **options)

        threads.append(threading.Thread(target=send))
        threads[-1].start()
    until = time.monotonic() + 30
    while service.held.turns._line.qsize() < len(wishes) and time.monotonic() < until:
        time.sleep(0.005)
    gate.set()
    for thread in threads:
        thread.join()
    return [found[i] for i in range(len(wishes))]


class Gate:
    """A wish that holds up the line until it is opened."""

    deployment = "shop"

    def __init__(self, opened):
        self.opened, self.answer = opened, self

    def granted(self, held):
        self.opened.wait(30)

    def get_loop(self):
        return self

    def call_soon_threadsafe(self, *_):
        pass


def held_up(service):
    """The line waits until this event is set."""
    gate = threading.Event()
    service.held.turns.wait(Gate(gate))
    while service.held.turns._line.qsize():
        time.sleep(0.005)
    return gate


def asked(site, key, **options):
    return "ask", {"site": site, "state": 0, "key": key}, options


def commits(store):
    """How often a store commits from now on."""
    count = []
    store.hook = lambda point: count.append(point) if point == "after commit" else None
    return count


def test_what_arrives_together_is_committed_once_and_what_is_refused_harms_nobody(anywhere):
    path = anywhere / "x.db"
    deployed(path, sites=tuple("abc"))[0].close()
    with Service(sf.live.open(path)) as service:
        shop = service.held.advisor("shop")
        service.token()
        till = service.token("use", "till", sites=[("shop", "a")])
        before, count = service.store.last, commits(service.store)
        found = together(
            service, asked("a", "1"), asked("b", "1"), asked("a", "1"), asked("nowhere", "1"),
            asked("b", "2", secret=till), asked("b", "2", secret="sft_guess"), asked("a", "2", secret=till),
            ("tell", {"decision": 10**6, "reward": 0.5}, {}), asked("c", "1"),
        )  # fmt: skip
        assert len(count) == 1
        assert [answer.status for answer in found] == [200, 200, 200, 404, 403, 401, 200, 404, 200]
        assert found[0].content == found[2].content and service.store.last == before + 4
        again = together(service, *(("tell", {"decision": answer.json["id"], "reward": 0.5}, {}) for answer in found
                                    if answer.status == 200))  # fmt: skip
        assert [answer.status for answer in again] == [200] * 5 and service.store.last == before + 8
        assert len(count) == 2
        assert shop.decision(found[0].json["id"]).key == "1"
        service.store.hook = lambda point: None
        assert service.store.verify().is_whole
        service.store.close()


@pytest.mark.parametrize("point", ["after event", "before commit"])
def test_if_one_fails_in_the_middle_each_is_decided_by_itself(place, point):
    service, _ = served(place, sites=tuple("abc"))
    with service:
        service.token()
        left = [2]

        def fail(at):
            if at == point and left:
                left[0] -= 1
                if left[0] <= 0:
                    left.clear()
                    raise ZeroDivisionError

        if point == "before commit":
            left = [1]
        service.store.hook = fail
        found = together(service, asked("a", "1"), asked("b", "1"), asked("c", "1"))
        assert not left and [answer.status for answer in found] == [200] * 3
        assert sorted(answer.json["site"] for answer in found) == ["a", "b", "c"]
        assert sum(event.kind == "ask" for event in service.store.events()) == 3
        assert service.store.verify().is_whole


def test_if_the_store_fails_all_are_told_and_nothing_is_written(place):
    service, _ = served(place, sites=tuple("ab"))
    with service:
        service.token()
        before = service.store.last

        def fail(at):
            if at == "before commit":
                raise StoreFault("the disk is full")

        service.store.hook = fail
        found = together(service, asked("a", "1"), asked("b", "1"))
        assert [answer.status for answer in found] == [503, 503] and service.store.last == before
        service.store.hook = lambda point: None
        found = together(service, asked("a", "1"), asked("b", "1"))
        assert [answer.status for answer in found] == [200, 200] and service.store.verify().is_whole


@pytest.mark.slow
def test_a_call_that_outlives_the_service_is_told_to_ask_again(place, monkeypatch):
    """It is decided all the same, or not at all; the client of the package sends it again."""
    monkeypatch.setattr(serving, "GRACE", 1)
    service, advisor = served(place)
    service.token()
    found, gate = [], held_up(service)
    asking = threading.Thread(target=lambda: found.append(service.call("POST", *_of(asked("a", "1")))))
    asking.start()
    while not service.held.turns._line.qsize():
        time.sleep(0.01)
    service.server.end()
    asking.join()
    gate.set()
    service.thread.join(timeout=30)
    assert found[0].status == 503 and found[0].json["title"] == "the service has ended"
    assert found[0].headers["retry-after"] == "1" and found[0].headers["x-frame-options"] == "DENY"
    assert advisor.ask("a", 0, "1").key == "1" and advisor.store.verify().is_whole


def _of(wish):
    return f"{SHOP}/{wish[0]}", wish[1]
