"""Two services on one store: a key, a token, a command and an event are the same to both."""

import threading

import pytest

import surefooted as sf
from live_help import Clock, deployed, known, shop, state_of

pytest.importorskip("fastapi", reason="fastapi is missing")

from service_help import Service
from surefooted.service import idempotency

SHOP = "/v1/deployments/shop"


def together(*calls):
    """The answers of calls that are made at once."""
    found = [None] * len(calls)

    def make(i):
        found[i] = calls[i]()

    threads = [threading.Thread(target=make, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_two_services_share_a_store(anywhere):
    path = anywhere / "x.db"
    deployed(path, sites=("a", "b"))[0].close()
    with Service(sf.live.open(path)) as one, Service(sf.live.open(path)) as other:
        one.token("operate")
        other.secrets = one.secrets
        asked = {"site": "a", "state": 0, "key": "1"}
        found = together(
            *(lambda each=each: each.call("POST", SHOP + "/ask", asked, "operate") for each in (one, other) * 4)
        )
        assert {answer.status for answer in found} == {200} and len({answer.content for answer in found}) == 1
        note = {"note": "once", "who": "Ada"}
        send = [lambda each=each: each.call("POST", SHOP + "/pause", note, "operate", Idempotency_Key="k")
                for each in (one, other) * 4]  # fmt: skip
        found = together(*send)
        assert {answer.status for answer in found} == {200} and len({answer.content for answer in found}) == 1
        kinds = [event.kind for event in one.store.events()]
        assert kinds.count("pause") == kinds.count("ask") == 1
        with other.connect("operate") as remote:
            following = remote.deployment("shop").follow(one.store.last)
            threading.Timer(0.3, lambda: one.call("POST", SHOP + "/resume", {}, "operate")).start()
            assert next(following).kind == "resume"
            following.close()
        assert one.call("DELETE", "/v1/tokens/operate-1").status == 200
        assert other.call("GET", SHOP + "/status", role="operate").status == 401
        assert other.call("POST", "/v1/verify", secret=one.token()).json["is_whole"]
        one.store.close()
        other.store.close()


def test_a_transaction_within_another_is_a_part_of_it(anywhere):
    store, advisor = deployed(anywhere / "x.db", clock=Clock())
    decision = advisor.ask("a", 0, key="1")
    before = (store.last, state_of(advisor))
    with pytest.raises(ZeroDivisionError):
        with store.transaction():
            advisor.tell(decision, reward=0.5, next_state=0)
            advisor.add_site("b")
            store.create_deployment("other", space=advisor.space, baseline=known(shop()), alpha=0.1)
            raise ZeroDivisionError
    advisor._machine = None
    assert (store.last, state_of(advisor), store.deployments()) == (*before, ["shop"])
    with store.transaction():
        advisor.tell(decision, reward=0.5, next_state=0)
        advisor.add_site("b")
    assert store.last == before[0] + 2 and store.verify().is_whole


def test_what_fails_with_a_key_leaves_nothing_behind(anywhere):
    store, advisor = deployed(anywhere / "x.db", clock=Clock())
    idempotency.prepare(store)
    idempotency.prepare(store)
    before = (store.last, state_of(advisor))

    def fails():
        advisor.pause(note="x")
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            idempotency.once(store, advisor, ("ada", "k", "what"), fails)
        assert (store.last, state_of(advisor)) == before
    done = [idempotency.once(store, advisor, ("ada", "k", "what"), lambda: advisor.pause() or 7) for _ in range(3)]
    assert done == [7] * 3 and store.last == before[0] + 1 and advisor.machine().paused
    assert store.verify().is_whole
