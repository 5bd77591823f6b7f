"""Who may do what: every route of the service against every role, so that a new route without an entry here fails."""

import pytest

from live_help import shop

pytest.importorskip("fastapi", reason="fastapi is missing")

from service_help import served
from surefooted.service import access, tokens

ROLES = ("nobody", "read", "use", "operate", "administer")
READ, USE = {"read", "operate", "administer"}, {"use", "operate", "administer"}
SEE, OPERATE, ADMINISTER, ALL = {*READ, *USE}, {"operate", "administer"}, {"administer"}, set(ROLES)
HERE = "/v1/deployments/{deployment}"
MAY = {
    ("GET", "/healthz"): ALL, ("GET", "/readyz"): ALL, ("GET", "/v1/openapi.json"): ALL, ("GET", "/metrics"): READ,
    ("GET", "/v1/me"): SEE, ("GET", "/v1/events"): READ, ("POST", "/v1/verify"): OPERATE,
    ("GET", "/v1/deployments"): SEE, ("POST", "/v1/deployments"): ADMINISTER, ("GET", HERE): SEE,
    ("GET", HERE + "/sites"): READ, ("POST", HERE + "/sites"): ADMINISTER,
    ("POST", HERE + "/ask"): USE, ("POST", HERE + "/tell"): USE,
    ("GET", HERE + "/decisions"): READ, ("GET", HERE + "/decisions/{number}"): SEE,
    ("GET", HERE + "/decisions/{number}/outcome"): SEE,
    **{("POST", f"{HERE}/decisions/{{number}}/{what}"): OPERATE for what in "approve reject expire correct".split()},
    **{("POST", f"{HERE}/{what}"): OPERATE for what in "pause resume close reopen mode relocate trust".split()},
    **{("GET", f"{HERE}/{what}"): READ for what in "status account account/curve journal export events".split()},
    ("GET", "/v1/tokens"): ADMINISTER, ("POST", "/v1/tokens"): ADMINISTER,
    ("DELETE", "/v1/tokens/{name}"): ADMINISTER,
}  # fmt: skip
BODIES = {"ask": {"site": "a", "state": 0, "key": "1"}, "tell": {"decision": 4, "reward": 0.5},
          "mode": {"mode": "live"}, "relocate": {"site": "a", "state": 1, "why": "x"}, "sites": {"name": "b"},
          "close": {"site": "a"}, "reopen": {"site": "a"}, "tokens": {"name": "x", "role": "read"},
          "correct": {"reward": 0.25}}  # fmt: skip


def routes(app):
    """Every method and path of an application, found by walking through its routers."""
    found, left = set(), list(app.routes)
    while left:
        route = left.pop()
        inner = getattr(route, "original_router", None) or getattr(route, "router", None)
        if inner is not None:
            left += inner.routes
        elif hasattr(route, "methods") and route.methods:
            found |= {(method, route.path) for method in route.methods if method not in ("HEAD", "OPTIONS")}
        else:
            raise AssertionError(f"{route} is neither a route nor a router")
    return found


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service, advisor = served(tmp_path_factory.mktemp("roles"))
    with service:
        advisor.ask("a", 0, key="1")
        service.token("use", sites=[("shop", "a")])
        yield service


def test_every_route_has_an_entry(service):
    from test_service_pages import PAGES  # they have sessions instead of tokens, and tests of their own

    described = {(method.upper(), path) for path, told in service.app.openapi()["paths"].items() for method in told}
    assert routes(service.app) - set(PAGES) == set(MAY) == described | {("GET", "/v1/openapi.json")}


@pytest.mark.parametrize("method, path", sorted(MAY))
def test_a_route_is_for_the_roles_that_it_names_and_for_no_other(service, method, path):
    place = path.format(deployment="shop", number=4, name="nobody")
    for role in ROLES:
        if path.endswith("/events") and role in MAY[method, path]:
            place = path.format(deployment="shop") + "?after=x"  # without a stream: the role is looked at first
        body = BODIES.get(path.rpartition("/")[2], {}) if method == "POST" else None
        answer = service.call(method, place, body, role=None if role == "nobody" else role)
        if role in MAY[method, path]:
            assert answer.status not in (401, 403), (role, answer)
        else:
            assert answer.status == (401 if role == "nobody" else 403), (role, answer)
            assert answer.headers["content-type"] == "application/problem+json"
            assert role == "nobody" or f"has the role {role}" in answer.json["detail"]


def test_a_request_without_a_right_changes_nothing(service):
    before = service.store.last
    for (method, path), roles in MAY.items():
        for role in set(ROLES) - roles:
            body = BODIES.get(path.rpartition("/")[2], {}) if method == "POST" else None
            place = path.format(deployment="shop", number=4, name="use-1")
            service.call(method, place, body, role=None if role == "nobody" else role)
    assert service.store.last == before
    assert tokens.find(service.store, service.token("use")) is not None


def test_a_token_for_named_sites_sees_and_uses_only_them(place):
    service, advisor = served(place, sites=("a", "b"))
    with service:
        here, there = (advisor.ask(site, 0, key="1") for site in "ab")
        service.store.create_deployment("other", space=advisor.space, baseline=advisor.definition.baseline, alpha=0.1)
        secret = service.token("use", "till", sites=[("shop", "a")])

        def call(method, path, body=None):
            return service.call(method, path, body, secret=secret).status

        shop = "/v1/deployments/shop"
        assert call("POST", shop + "/ask", {"site": "a", "state": 0, "key": "1"}) == 200
        assert call("POST", shop + "/ask", {"site": "b", "state": 0, "key": "1"}) == 403
        assert call("POST", shop + "/ask", {"site": "nowhere", "state": 0, "key": "1"}) == 403
        assert call("POST", shop + "/tell", {"decision": here.id, "reward": 0.5}) == 200
        assert call("POST", shop + "/tell", {"decision": there.id, "reward": 0.5}) == 403
        assert call("POST", shop + "/tell", {"site": "b", "key": "1", "reward": 0.5}) == 403
        assert call("POST", shop + "/tell", {"decision": there.id, "site": "a", "key": "1", "reward": 0.5}) == 403
        assert call("GET", f"{shop}/decisions/{here.id}") == call("GET", f"{shop}/decisions/{here.id}/outcome") == 200
        assert call("GET", f"{shop}/decisions/{there.id}") == call("GET", f"{shop}/decisions/{there.id}/outcome") == 403
        assert call("GET", "/v1/deployments/other") == 403
        assert service.call("GET", "/v1/deployments", secret=secret).json["deployments"] == ["shop"]
        everywhere = service.token("use", "all")
        assert (
            service.call("POST", shop + "/tell", {"decision": there.id, "reward": 0.5}, secret=everywhere).status == 200
        )
        assert advisor.known(there.id).reward == 0.5


def test_roles_that_may_do_something_are_roles():
    assert {role for roles in access.CAN.values() for role in roles} == set(tokens.ROLES) == set(ROLES) - {"nobody"}
    assert shop().space.n_states == 7  # the bodies above are valid
