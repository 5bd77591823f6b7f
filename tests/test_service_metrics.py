"""The metrics are told whatever happens meanwhile: sites are added, transactions fail, a deployment cannot be read."""

import sys
import threading

import pytest

from live_help import deployed, known, shop

pytest.importorskip("fastapi", reason="fastapi is missing")

from service_help import Service, served
from surefooted.agents.fleet import Fleet
from surefooted.live import reports
from surefooted.service import api_events, metrics, warming
from surefooted.service.context import Context
from test_service_pages import browser
from test_service_turns import asked, together

LAZY = """
from surefooted.agents.ucrl2 import UCRL2Learner

class Lazy(UCRL2Learner):
    '''A learner of one's own.'''
"""


def told(service, name, *labels):
    """The number of a metric, None if it is not there."""
    answer = service.call("GET", "/metrics", role="read")
    assert answer.status == 200
    named = "surefooted_" + name + ("{" + ",".join(labels) + "}" if labels else "")
    found = [line.split()[-1] for line in answer.content.decode().splitlines() if line.startswith(named + " ")]
    return float(found[0]) if found else None


def of(deployment):
    return f'deployment="{deployment}"'


def another(store, name, **options):
    problem = shop()
    return store.create_deployment(name, space=problem.space, baseline=known(problem), alpha=0.1, **options)


def test_a_deployment_that_cannot_be_read_hides_no_other(place, monkeypatch):
    """A learner of one's own may not run in the service; and what nobody expects may happen in one of them."""
    (place / "my_lazy.py").write_text(LAZY)
    monkeypatch.syspath_prepend(str(place))
    store, _ = deployed(place / "x.db")
    another(store, "own", learner="my_lazy:Lazy", allow_code=True).add_site("c")
    another(store, "other").add_site("b")
    sys.modules.pop("my_lazy")
    with Service(store) as service:
        assert told(service, "deployment_up", of("own")) == 0
        for name in ("shop", "other"):
            assert told(service, "deployment_up", of(name)) == 1 and told(service, "sites", of(name)) == 1
        assert told(service, "store_up") == 1 and told(service, "last_event") == store.last
        shown = browser(service, "read").get("/").text
        assert "Unreadable" in shown and "my_lazy" not in shown
        assert browser(service, "read").get("/approvals").status == 200
        n = store.last  # the streams of all deployments, and webhooks, name sites of this one
        assert service.held.sites("own") == ["c"] and service.held.sites("other") == ["b"]
        rows = api_events._read(service.held, None, 0, lambda: None)
        assert [number for number, _ in rows] == list(range(1, n + 1))
        assert warming.read_all(service.held) == ["own"]
        monkeypatch.setattr(type(service.held.advisor("other")), "_departures", lambda self, machine: 1 / 0)
        assert told(service, "deployment_up", of("shop")) == 0 and told(service, "store_up") == 1
    store.close()


def test_as_many_deployments_are_told_as_are_kept_warm(place, monkeypatch):
    """Otherwise each would be read from its journal at every scrape."""
    store, _ = deployed(place / "x.db")
    for name in ("b", "c"):
        another(store, name)
    monkeypatch.setattr(metrics, "KEPT", 2)
    with Service(store) as service:
        assert [told(service, "deployment_up", of(name)) for name in ("shop", "b", "c")] == [None, 1, 1]
    store.close()


def test_a_store_that_is_closed_is_told(place):
    service, _ = served(place)
    with service:
        service.token("read")
        held = service.held
        held.store.close()
        text = held.metrics.text().decode()
        assert "surefooted_store_up 0.0" in text and "surefooted_request_seconds" in text


def test_a_status_waits_until_what_is_half_done_is_done(place, monkeypatch):
    """A site is added by another thread between two numbers of a status: it is in none of them, or in all."""
    store, advisor = deployed(place / "x.db")
    half, threads = threading.Event(), []
    add, account = Fleet.add_site, reports._account

    def slowly(self):
        number = add(self)
        half.set()
        threading.Event().wait(0.5)  # the site is in the fleet, and not in the list of names
        return number

    def meanwhile(*told):
        if not threads:
            threads.append(threading.Thread(target=advisor.add_site, args=("b",)))
            threads[0].start()
            half.wait(0.3)
        return account(*told)

    monkeypatch.setattr(Fleet, "add_site", slowly)
    monkeypatch.setattr(reports, "_account", meanwhile)
    assert [site["name"] for site in advisor.status()["sites"]] == ["a"]
    threads[0].join()
    assert [site["name"] for site in advisor.status()["sites"]] == ["a", "b"]
    store.close()


def test_nobody_sees_decisions_of_a_transaction_that_failed(place, monkeypatch):
    """After a transaction of several questions has failed, others must not find advisors ahead of the journal."""
    service, _ = served(place, sites=("a", "b"))
    with service:
        service.token()
        shared, seen, threads, failed = service.held.advisor("shop"), [], [], []
        warm = Context.warm

        def fail(at):
            if at == "before commit" and not failed:
                failed.append(at)
                raise ZeroDivisionError

        def looked(self, name):
            if failed and not threads:  # the transaction has failed, and nothing was forgotten yet
                threads.append(threading.Thread(target=lambda: seen.append(shared.status()["decisions"])))
                threads[0].start()
                threads[0].join(timeout=0.5)
                assert seen in ([], [0])
            return warm(self, name)

        monkeypatch.setattr(Context, "warm", looked)
        service.store.hook = fail
        found = together(service, asked("a", "1"), asked("b", "1"))
        assert failed and [answer.status for answer in found] == [200, 200]
        threads[0].join()
        assert seen[0] <= 2 and shared.status()["decisions"] == 2 and service.store.verify().is_whole


@pytest.mark.parametrize("accounts", ["own", pytest.param("both", marks=pytest.mark.slow)])
def test_metrics_are_told_while_everything_changes(place, accounts):
    """Sites are added, questions are asked, streams are opened and cut, and the metrics are read all the while."""
    store, _ = deployed(place / "x.db", sites=("a",), accounts=accounts, allowance=50.0, drift=0.5)
    with Service(store) as service:
        wrong, until = [], threading.Event()
        for role in ("administer", "read", "use"):
            service.token(role)

        def keep(do):
            i = 0
            while not until.is_set():
                i += 1
                try:
                    if (answer := do(i)).status >= 400:
                        wrong.append(answer)
                except Exception as error:
                    wrong.append(error)

        def add(i):
            return service.call("POST", "/v1/deployments/shop/sites", {"name": f"site {i}"})

        def ask(i):
            made = service.call("POST", "/v1/deployments/shop/ask", {"site": "a", "state": 0, "key": str(i)})
            body = {"decision": made.json["id"], "reward": 0.5, "next_state": 0}
            return service.call("POST", "/v1/deployments/shop/tell", body)

        def read(i):
            return service.call("GET", "/metrics", role="read")

        threads = [threading.Thread(target=keep, args=(do,)) for do in (add, ask, read, read)]
        for thread in threads:
            thread.start()
        until.wait(1.5)
        until.set()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert told(service, "sites", of("shop")) == len(store.deployment("shop").status()["sites"]) > 1
        assert told(service, "decisions", of("shop")) > 0 and store.verify().is_whole
    store.close()
