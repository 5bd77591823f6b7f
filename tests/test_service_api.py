"""What the service answers: examples that work, problems with the library's sentences, pages, keys, streams."""

import csv
import inspect
import io
import json
import sys
import threading

import numpy as np
import pyarrow.parquet
import pytest

import surefooted as sf
from live_help import Clock, known, shop

pytest.importorskip("fastapi", reason="fastapi is missing")

from service_help import Service, served
from surefooted.live import exchange
from surefooted.live.advisor import Advisor
from surefooted.live.definition import Definition
from surefooted.live.deployments import LiveStore
from surefooted.service.models import MACHINE

SHOP = "/v1/deployments/shop"


def machine(place, **options):
    """The shop of the examples: the machine's problem, under the name "shop", with a site."""
    service = Service(sf.live.open(place / "x.db", Clock()), **options)
    body = {"name": "shop", "problem": MACHINE, "sites": ["high street"], "mode": "live"}
    assert service.call("POST", "/v1/deployments", body).status == 201
    return service


def test_every_example_of_the_description_works(place):
    with machine(place) as service:
        told = service.call("GET", "/v1/openapi.json", role=None).json
        posted = 0
        schemas = told["components"]["schemas"]
        asked = ("ask", "tell", "expire", "correct")  # in an order in which they make sense; then all others
        order = sorted(told["paths"], key=lambda path: (path.rpartition("/")[2] not in asked, path))
        order = sorted(order, key=lambda path: asked.index(last) if (last := path.rpartition("/")[2]) in asked else 9)
        for path in order:
            for method, operation in told["paths"][path].items():
                if "requestBody" not in operation:
                    continue
                name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                (example,) = schemas[name]["examples"]
                number = service.store.deployment("shop").ask("high street", "fine", "2026-11-18").id
                if path.endswith(("approve", "reject", "expire")):
                    continue  # these need a decision that waits, or is open: tests of their own
                answer = service.call(method.upper(), path.format(deployment="shop", number=number), example)
                assert answer.status in (200, 201), (path, answer)
                posted += 1
        assert posted == 13


def test_a_problem_says_what_the_library_says(place):
    service, advisor = served(place)
    with service:
        decision = advisor.ask("a", 0, key="1")
        advisor.tell(decision, reward=0.5)
        for body, call in (
            ({"decision": decision.id, "reward": 0.25}, lambda: advisor.tell(decision, reward=0.25)),
            ({"decision": decision.id, "next_state": 99}, lambda: advisor.tell(decision, next_state=99)),
            ({"decision": decision.id}, lambda: advisor.tell(decision)),
        ):
            with pytest.raises(sf.InvalidInput) as said:
                call()
            answer = service.call("POST", SHOP + "/tell", body)
            told = answer.json
            assert answer.status == told["status"] and answer.status in (409, 422)
            assert answer.headers["content-type"] == "application/problem+json"
            assert (told["title"], tuple(told["faults"]), told["hint"]) == (
                said.value.what, said.value.faults, said.value.hint,
            )  # fmt: skip
            assert told["detail"] == str(said.value) and told["type"] == "urn:surefooted:invalid-input"


@pytest.mark.parametrize("method, path, body, status, words", [
    ("GET", "/v1/deployments/none/status", None, 404, "no deployment"),
    ("GET", "/v1/deployments/shop%2Fx/status", None, 404, "no such address"),
    ("GET", SHOP + "/decisions/99", None, 404, "no decision 99"),
    ("GET", SHOP + "/decisions/9999999999999999999999", None, 422, "number"),
    ("GET", SHOP + "/decisions/0", None, 422, "number"),
    ("POST", SHOP + "/tell", {"decision": 99, "reward": 0.5}, 404, "no decision 99"),
    ("POST", SHOP + "/tell", {"reward": 0.5}, 422, "site and key"),
    ("POST", SHOP + "/ask", {"site": "b", "state": 0, "key": "1"}, 404, "'b'"),
    ("POST", SHOP + "/ask", {"site": "a", "state": True, "key": "1"}, 422, "state"),
    ("POST", SHOP + "/ask", {"site": "a", "state": 0.5, "key": "1"}, 422, "state"),
    ("POST", SHOP + "/ask", {"site": "a", "state": 0}, 422, "key"),
    ("POST", SHOP + "/ask", {"site": "a\u0000", "state": 0, "key": "1"}, 422, "site"),
    ("POST", SHOP + "/ask", {"site": "a", "state": 0, "key": "x" * 300}, 422, "key"),
    ("POST", SHOP + "/ask", {"site": "a", "state": 0, "key": "1", "who": "Ada"}, 422, "who"),
    ("POST", SHOP + "/ask", b'{"site": "a", "state": 0, "key": "\\ud800"}', 422, "body"),
    ("POST", SHOP + "/ask", b"{", 422, "JSON"),
    ("POST", SHOP + "/ask", b"[" * 100_000, 422, ""),
    ("POST", SHOP + "/tell", b'{"decision": 4, "reward": NaN}', 422, "reward"),
    ("POST", SHOP + "/mode", {"mode": "bold"}, 422, "mode"),
    ("POST", SHOP + "/decisions/4/approve", {}, 409, "does not wait"),
    ("POST", "/v1/deployments", {}, 422, "either problem"),
    ("POST", "/v1/deployments", {"problem": "x = "}, 422, "not TOML"),
    ("POST", "/v1/deployments", {"problem": MACHINE, "name": "a/b"}, 422, "address"),
    ("POST", "/v1/deployments", {"problem": MACHINE, "name": "shop"}, 422, "already"),
    ("POST", "/v1/deployments", {"problem": MACHINE, "options": {"who": "root"}}, 422, "options.who"),
    ("POST", "/v1/deployments", {"problem": MACHINE, "options": {"alpha": "x"}}, 422, "alpha"),
    ("POST", "/v1/deployments", {"name": "x", "definition": {"alpha": 0.1}}, 422, "space is missing"),
    ("POST", "/v1/tokens", {"name": "x y", "role": "read"}, 422, "name"),
    ("POST", "/v1/tokens", {"name": "x", "role": "read", "sites": [{"deployment": "shop"}]}, 422, "role use"),
    ("DELETE", "/v1/tokens/nobody", None, 404, "nobody"),
    ("PUT", SHOP, None, 405, "method"),
    ("GET", "/nowhere", None, 404, "address"),
    ("GET", "/docs", None, 404, "address"),
])  # fmt: skip
def test_every_fault_is_a_problem_with_a_sentence(wrong, method, path, body, status, words):
    answer = wrong.call(method, path, body, **({"Content_Type": "application/json"} if isinstance(body, bytes) else {}))
    assert answer.status == status or (status == 422 and answer.status == 400), answer
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(answer.json) == {"type", "title", "status", "detail", "faults", "hint"}
    assert words in answer.json["detail"] and "Traceback" not in answer.json["detail"]


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    service, advisor = served(tmp_path_factory.mktemp("wrong"))
    with service:
        advisor.ask("a", 0, key="1")
        before = service.store.last
        yield service
        assert service.store.last == before


@pytest.mark.parametrize("line, words", [
    ('knowledge.mechanics = "os:system"', "only the machine itself may run code"),
    ('logs.file = "/etc/passwd"', "only the machine itself may read them"),
])  # fmt: skip
def test_a_problem_file_from_elsewhere_runs_no_code_and_reads_no_file(wrong, line, words):
    answer = wrong.call("POST", "/v1/deployments", {"problem": f"{line}\n{MACHINE}"})
    assert answer.status == 422 and words in answer.json["detail"] and "root:" not in answer.json["detail"]


@pytest.mark.parametrize("name", ["problem", "definition"])
@pytest.mark.parametrize("more", [{"learner": "my_code:Lazy"}, {"allow_code": True}])
def test_a_deployment_from_elsewhere_runs_no_code(wrong, tmp_path, monkeypatch, name, more):
    """Neither by its options nor by its definition, whatever it allows itself; nothing is imported, no path is told."""
    (tmp_path / "my_code.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(str(tmp_path))
    problem = shop()
    told = MACHINE if name == "problem" else exchange.as_json(problem.space, known(problem), 0.1)
    for body in ({"options": more}, {"definition": told | more} if name == "definition" else {"options": more}):
        answer = wrong.call("POST", "/v1/deployments", {"name": "x", name: told} | body)
        assert answer.status == 422 and str(tmp_path) not in answer.content.decode(), answer
        said = "only the machine itself may run code" if "learner" in more else "allow_code: is not"
        assert said in answer.json["detail"] and "my_code" not in sys.modules


def test_learners_of_ones_own_run_if_who_starts_the_service_allows_it(place, monkeypatch):
    monkeypatch.syspath_prepend(str(place))
    (place / "my_code.py").write_text(
        "from surefooted.agents.ucrl2 import UCRL2Learner\n\nclass Lazy(UCRL2Learner):\n    pass\n"
    )
    options = {"learner": "my_code:Lazy", "allow_code": True}
    service, _ = served(place, settings={"allow_code": True}, **options)
    with service:
        asked = service.call("POST", SHOP + "/ask", {"site": "a", "state": 0, "key": "1"})
        assert asked.status == 200 and service.call("POST", "/v1/verify", {}, role="operate").json["is_whole"]
    store = service.store
    with Service(store) as refusing:
        refusing.secrets = service.secrets
        answer = refusing.call("POST", SHOP + "/ask", {"site": "a", "state": 0, "key": "1"})
        assert answer.status == 409 and "does not run" in answer.json["detail"]
        assert str(place) not in answer.content.decode()
        assert not refusing.call("POST", "/v1/verify", {}, role="operate").json["is_whole"]
    store.close()
    sys.modules.pop("my_code")


def test_a_problem_file_from_elsewhere_is_not_huge(wrong):
    text = MACHINE.replace('["run", "repair"]', "{from = 1, to = 90000}").replace(
        '["fine", "worn"]', "{from = 1, to = 90000}"
    )
    answer = wrong.call("POST", "/v1/deployments", {"problem": text})
    assert answer.status == 422 and "8100000000 combinations" in answer.json["detail"]


def test_who_is_the_token_whatever_the_client_claims(place):
    service, advisor = served(place)
    with service:
        service.call("POST", SHOP + "/pause", {"who": "Ada"}, role="operate")
        service.call("POST", SHOP + "/resume", {}, role="operate")
        service.call("POST", SHOP + "/sites", {"name": "b", "who": "operate-1"})
        decision = service.call("POST", SHOP + "/ask", {"site": "a", "state": 0, "key": "1"}, role="use").json
        service.call("POST", SHOP + "/tell", {"decision": decision["id"], "reward": 0.5, "who": "Bob"}, role="use")
        service.call("POST", SHOP + "/relocate", {"site": "a", "state": 2, "why": "x"}, role="operate")
        told = [(event.kind, event.body["who"]) for event in advisor.journal(3) if event.kind != "ask"]
        assert told == [("pause", "operate-1: Ada"), ("resume", "operate-1"), ("site", "administer-1: operate-1"),
                        ("tell", "use-1: Bob"), ("relocate", "operate-1")]  # fmt: skip


def test_a_command_with_a_key_is_done_once(place):
    service, advisor = served(place)
    with service:

        def send(key, body, role="operate", path="/pause"):
            return service.call("POST", SHOP + path, body, role=role, Idempotency_Key=key)

        first = send("k-1", {"note": "x"})
        assert [send("k-1", {"note": "x"}).json for _ in range(3)] == [first.json] * 3
        assert send("k-1", {"note": "y"}).status == 422
        assert send("k-1", {"note": "x"}, path="/resume").status == 422
        assert send("k-1", {"note": "x"}, role="administer").json["event"] == first.json["event"] + 1  # its own keys
        assert send("k-2", {"note": "x"}).json["event"] == first.json["event"] + 2
        assert send("bad key", {"note": "x"}).status == 422
        assert [event.kind for event in advisor.journal()].count("pause") == 3
        body = {"problem": MACHINE, "sites": ["hall 3"]}
        made = [service.call("POST", "/v1/deployments", body, Idempotency_Key="k-3") for _ in range(2)]
        assert made[0].json == made[1].json and made[0].status == 201
        # What fails is not remembered: the same key may be used when it is put right.
        assert send("k-4", {"site": "b"}).status == 404
        advisor.add_site("b")
        assert send("k-4", {"site": "b"}).status == 200
        assert service.store.verify().is_whole


def test_a_deployment_is_created_with_all_its_sites_or_not_at_all(place):
    with machine(place) as service:
        before = service.store.last
        body = {"name": "next", "problem": MACHINE, "sites": ["a", "b", "a"]}
        assert service.call("POST", "/v1/deployments", body).status == 409
        assert service.store.last == before and service.store.deployments() == ["shop"]
        assert service.call("POST", "/v1/deployments", body | {"sites": ["a", "b"]}).status == 201


def test_pages_of_decisions_journal_and_sites_are_complete(place):
    service, advisor = served(place, sites=("a", "b", "c"))
    with service:
        made = [advisor.ask(site, 0, key=str(i)).id for i in range(5) for site in "abc"]

        def pages(path, name):
            rows = []
            while path is not None:
                page = service.call("GET", path, role="read").json
                rows += page[name]
                path = page["next"]
            return rows

        assert [row["id"] for row in pages(SHOP + "/decisions?limit=4", "decisions")] == made
        assert [row["id"] for row in pages(f"{SHOP}/decisions?limit=4&before=99", "decisions")] == made[::-1]
        assert [row["id"] for row in pages(SHOP + "/decisions?limit=2&site=b", "decisions")] == made[1::3]
        events = pages(SHOP + "/journal?limit=7", "events")
        assert [row["event"] for row in events] == [event.n for event in advisor.journal()]
        assert all(row["words"] for row in events)
        assert [row["name"] for row in pages(SHOP + "/sites?limit=2", "sites")] == ["a", "b", "c"]
        assert service.call("GET", SHOP + "/journal?limit=5000", role="read").status == 422
        row = service.call("GET", f"{SHOP}/decisions?limit=1", role="read").json["decisions"][0]
        assert row["outcome"]["next_state"] == 0 and row["outcome"]["reward"] is None


def test_exports_are_those_of_the_library(place):
    service, advisor = served(place, sites=("=1+1", "a"))
    with service:
        for i in range(10):
            advisor.tell(advisor.ask("=1+1", 0, key=str(i)), reward=0.5, next_state=0)
        path = SHOP + "/export?format="
        lines = service.call("GET", path + "jsonl", role="read").content.decode().splitlines()
        assert [json.loads(line) for line in lines] == advisor.table()
        answer = service.call("GET", path + "parquet", role="read")
        assert pyarrow.parquet.read_table(io.BytesIO(answer.content)).to_pylist() == advisor.table()
        answer = service.call("GET", path + "csv", role="read")
        assert answer.headers["content-disposition"] == 'attachment; filename="decisions.csv"'
        rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
        assert [float(row["reward"]) for row in rows] == [0.5] * 10 and {row["site"] for row in rows} == {"'=1+1"}


def test_status_account_and_curve(place):
    service, advisor = served(place)
    with service:
        advisor.tell(advisor.ask("a", 0, key="1"), reward=0.5, next_state=0)
        assert service.call("GET", SHOP + "/status", role="read").json == advisor.status() | {"unit": ""}
        accounts = service.call("GET", SHOP + "/account", role="read").json["accounts"]
        assert accounts == advisor.status()["accounts"]
        (drawn,) = service.call("GET", SHOP + "/account/curve", role="read").json["curves"]
        assert drawn["margin"][-1] == pytest.approx(accounts[0]["balance"]) and len(drawn["time"]) == 2
        assert service.call("POST", "/v1/verify", role="operate").json == {
            "events": 5, "decisions": 1, "faults": [], "is_whole": True,
        }  # fmt: skip


def test_a_definition_as_json_is_the_same_deployment():
    problem = shop()
    mixed = problem.baseline.mixed_with(sf.Policy.uniform(problem.space), 0.2)
    rail = sf.live.Guardrail("service", gain=0.9, bias=np.zeros(7), tolerance=0.05)
    counts = sf.Counts(problem.space)
    counts.add_steps([0, 1], [0.5, 0.25], [1, 2])
    money = sf.Space.full(2, 2, rewards=(-100, 100), unit="€", states=["low", "high"], actions=["wait", "order"])
    amounts = sf.Knowledge(money, rewards=np.array([[1.0, -2.0], [-3.0, 4.0]]))
    steps = sf.Knowledge(problem.space, successors=lambda s, a: range(7), reward_function=lambda s, a, y: y / 8)
    cases = [
        (problem.space, known(problem), {}),
        (problem.space, sf.Baseline(mixed, 0.25, np.zeros(7)), {"checkpoints": (3, 5), "seed": 2, "learner": "psrl"}),
        (problem.space, known(problem), {"rules": sf.live.FleetRules(guardrails=(rail,)), "counts": counts}),
        (problem.space, known(problem), {"knowledge": steps}),
        (money, sf.Baseline(sf.Policy.always(money, 0), 20.0, np.zeros(2)), {"knowledge": amounts}),
    ]
    for space, baseline, options in cases:
        given = {name: value for name, value in options.items() if name != "rules"}
        rules = options.get("rules", sf.live.FleetRules())
        told = json.loads(json.dumps(exchange.as_json(space, baseline, 0.1, guardrails=rules.guardrails, **given)))
        back = exchange.from_json(told)
        rails = back.pop("guardrails")
        made = Definition(**back, rules=sf.live.FleetRules(guardrails=rails))
        assert made.fingerprint == Definition(space, baseline, 0.1, **options).fingerprint


@pytest.mark.parametrize("change", [
    lambda told: told["space"].update(actions_of_state=[[0, 99999]]),
    lambda told: told["space"].update(actions_of_state=[["x"]]),
    lambda told: told["space"].update(actions_of_state="x"),
    lambda told: told["baseline"].update(policy=[9] * 7),
    lambda told: told["baseline"].update(bias=[0]),
    lambda told: told["baseline"].update(gain="much"),
    lambda told: told.update(alpha="x"),
    lambda told: told.update(knowledge={"successors": [[99]] * 28}),
    lambda told: told.update(knowledge={"mechanics": {"sizes": [10**12], "law": [[0]] * 28, "next_state": [0]}}),
    lambda told: told.update(counts={"visits": [1]}),
    lambda told: told.update(guardrails=[{"name": "x"}]),
    lambda told: told.update(seed=-1),
    lambda told: told.update(surprise=1),
])  # fmt: skip
def test_a_wrong_definition_is_refused_with_a_sentence(wrong, change):
    problem = shop()
    told = exchange.as_json(problem.space, known(problem), 0.1)
    change(told)
    answer = wrong.call("POST", "/v1/deployments", {"name": "x", "definition": told})
    assert answer.status == 422 and answer.json["faults"], answer


def test_events_are_streamed_and_a_client_goes_on_where_it_was(place):
    service, advisor = served(place)
    with service, service.connect("read") as store:
        remote = store.deployment("shop")
        following = remote.follow(0)
        assert [next(following).kind for _ in range(3)] == ["deployment", "mode", "site"]
        threading.Timer(0.2, lambda: advisor.ask("a", 0, key="1")).start()
        event = next(following)
        assert event == next(iter(advisor.journal(3))) and event.kind == "ask"
        following.close()
        advisor.pause()
        assert next(remote.follow(event.n)).kind == "pause"
        for i in range(1200):  # more than one batch
            advisor.pause(note=str(i))
        found = remote.follow(0)
        assert [next(found).n for _ in range(1205)] == list(range(1, 1206))


def test_the_client_has_the_methods_of_the_local_advisor():
    """Same names and parameters; what needs the machine itself is named here."""
    own = {"machine", "snapshot", "definition", "is_snapshot_of"}
    for local, remote in ((Advisor, sf.live.RemoteAdvisor), (LiveStore, sf.live.RemoteStore)):
        for name, member in inspect.getmembers(local):
            if name.startswith("_") or name in own or not callable(member) or local is LiveStore:
                continue
            theirs = inspect.signature(getattr(remote, name)).parameters
            assert list(theirs) == list(inspect.signature(member).parameters), name
    for name in ("create_deployment", "deployment", "deployments", "verify", "close", "last"):
        assert hasattr(sf.live.RemoteStore, name)


def test_the_client_raises_what_the_library_raises(place):
    service, advisor = served(place)
    with service:
        with service.connect() as store:
            with pytest.raises(sf.InvalidInput, match="no such deployment"):
                store.deployment("none")
            remote = store.deployment("shop")
            assert remote.space == advisor.space and remote.fingerprint == advisor.definition.fingerprint
            decision = remote.ask("a", np.int64(0), key="1")
            remote.tell(decision, reward=np.float64(0.5))
            with pytest.raises(sf.InvalidInput) as error:
                remote.tell(decision, reward=0.25)
            assert error.value.what == "something else was told before" and "correct(" in error.value.hint
            assert remote.known(decision.id).reward == 0.5
        with pytest.raises(sf.live.AccessDenied, match="neither expired nor revoked"):
            sf.live.connect(service.url, "sft_wrong")
        with service.connect("read") as store, pytest.raises(sf.live.AccessDenied, match="has the role read"):
            store.deployment("shop").pause()
    for url in ("http://shop.example", "ftp://127.0.0.1", "https://a:b@shop.example", "127.0.0.1:8000"):
        with pytest.raises(sf.InvalidInput, match="cannot connect"):
            sf.live.connect(url, "sft_x")
    with pytest.raises(sf.live.StoreFault, match="cannot be reached"):
        sf.live.connect(service.url, "sft_x", patience=0.1)
