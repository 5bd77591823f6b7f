"""The pages without a browser: who may see and do what, sessions, forms, escaping, headers, files."""

import html
import http.client
import re
import time
from datetime import timedelta
from html.parser import HTMLParser
from urllib.parse import quote, urlencode

import pytest

pytest.importorskip("fastapi", reason="fastapi is missing")

from live_help import deployed
from service_help import Service
from surefooted.service import pages_actions, pages_site, tokens

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; drop--",
    "\u202eright to left",
    "a/b?c&d#e",
)
PAGES = {  # every page, and what it needs
    ("GET", "/"): "read", ("GET", "/deployment"): "read", ("GET", "/site"): "read", ("GET", "/approvals"): "read",
    ("GET", "/chart"): "read", ("GET", "/live"): "read", ("GET", "/sign-in"): "nothing",
    ("POST", "/sign-in"): "nothing", ("POST", "/sign-out"): "nothing", ("GET", "/static/{name}"): "nothing",
    **{("POST", f"/do/{what}"): "operate" for what in ("approve", "reject", "pause", "resume", "mode", "trust")},
}  # fmt: skip


class Browser:
    """Keeps cookies and sends forms, as a browser does."""

    def __init__(self, service):
        self.service, self.cookies = service, {}

    def send(self, method, path, body=None, **headers):
        link = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=30)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        try:
            link.request(method, path, body, sent)
            answer = link.getresponse()
            answer.text = answer.read().decode()
        finally:
            link.close()
        answer.set = answer.headers.get_all("set-cookie") or []
        for cookie in answer.set:
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
        return answer

    def get(self, path, **headers):
        return self.send("GET", path, **headers)

    def post(self, path, **fields):
        headers = fields.pop("headers", {"sec_fetch_site": "same-origin"})
        return self.send("POST", path, urlencode(fields), **headers)

    def mark(self, path="/"):
        """The secret that the forms of a page carry."""
        return re.search('name="form" value="([^"]+)"', self.get(path).text)[1]

    def sign_in(self, secret, **fields):
        return self.post("/sign-in", form=self.mark("/sign-in"), token=secret, **fields)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    store, advisor = deployed(
        tmp_path_factory.mktemp("pages") / "shop.db", sites=("a", *HOSTILE), allowance=20.0, mode="approval",
        name="<b>shop</b>", deadline=900_000.0,
    )  # fmt: skip
    with Service(store) as service:
        for t in range(3):
            decision = advisor.ask("a", 0, str(t))
            if decision.status == "waiting":
                advisor.approve(decision, who="Ada <i>", note="<u>fine</u>")
            advisor.tell(decision, reward=0.5, next_state=0)
        yield service
    store.close()


def browser(service, role):
    one = Browser(service)
    assert one.sign_in(service.token(role)).status == 303
    return one


def site(name, deployment="<b>shop</b>"):
    return f"/site?deployment={quote(deployment)}&site={quote(name)}"


def waiting(service):
    """A decision that waits for a person."""
    advisor = service.held.advisor("<b>shop</b>")
    for name in ("a", *HOSTILE):
        for t in range(40):
            decision = advisor.ask(name, 0, f"{time.monotonic_ns()}-{t}")
            if decision.status == "waiting":
                return advisor, decision
            advisor.tell(decision, reward=0.5, next_state=0)
    raise AssertionError("nothing was proposed")


def test_every_page_is_in_the_list(service):
    from test_service_roles import MAY, routes

    assert routes(service.app) - set(MAY) == set(PAGES)


@pytest.mark.parametrize("method, path", [page for page, needs in PAGES.items() if needs != "nothing"])
def test_pages_lead_strangers_to_the_form_and_change_nothing(service, method, path):
    before = service.store.last
    for stranger in (Browser(service), Browser(service)):
        answer = stranger.send(
            method, path + "?deployment=x&name=x&site=x", "deployment=x" if method == "POST" else None
        )
        assert answer.status == 303 and answer.headers["location"].startswith("/sign-in")
        stranger.cookies["surefooted_session"] = "guessed"
    assert "why=ended" in stranger.send(method, path + "?deployment=x&name=x&site=x").headers["location"]
    assert service.store.last == before


@pytest.mark.parametrize("what", ["approve", "reject", "pause", "resume", "mode", "trust"])
def test_controls_are_for_those_who_may_operate(service, what):
    reader, before = browser(service, "read"), service.store.last
    assert reader.get("/deployment?name=" + quote("<b>shop</b>")).text.count("/do/") == 0
    fields = {"deployment": "<b>shop</b>", "decision": 1, "mode": "live", "note": "x"}
    answer = reader.post(f"/do/{what}", form=reader.mark(), **fields)
    assert answer.status == 403 and "has the role read" in html.unescape(answer.text)
    assert service.store.last == before
    assert "/do/pause" in browser(service, "operate").get("/deployment?name=" + quote("<b>shop</b>")).text


def test_a_token_that_may_only_ask_does_not_sign_in(service):
    one = Browser(service)
    answer = one.sign_in(service.token("use"))
    assert answer.status == 403 and "surefooted_session" not in one.cookies and "has the role use" in answer.text


def test_a_wrong_token_is_refused_and_not_repeated(service):
    one = Browser(service)
    answer = one.sign_in("sft_wrong")
    assert answer.status == 401 and "not valid" in answer.text and "sft_wrong" not in answer.text


def test_cookies_are_kept_from_scripts_and_other_sites(service):
    one = Browser(service)
    for cookie in one.get("/sign-in").set + one.sign_in(service.token("read")).set[:1]:
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Secure" not in cookie
    for cookie in one.get("/sign-in", x_forwarded_proto="https").set:
        assert "Secure" in cookie
    secret = one.cookies["surefooted_session"]
    kept = service.store.read("SELECT digest FROM sessions")
    assert all(secret not in digest for (digest,) in kept) and service.token("read") not in secret


@pytest.mark.parametrize("wrong", ["no mark", "another session's mark", "another site", "another origin", "no cookie"])
def test_forms_of_others_are_refused(service, wrong):
    one, before = browser(service, "operate"), service.store.last
    form = {"no mark": "", "another session's mark": browser(service, "operate").mark()}.get(wrong, one.mark())
    headers = {"another site": {"sec_fetch_site": "cross-site"}, "another origin": {"origin": "http://evil.example"}}
    fields = {"deployment": "<b>shop</b>", "note": "x", "form": form}
    if wrong == "no cookie":
        one.cookies.clear()
    answer = one.post("/do/pause", **fields, headers=headers.get(wrong, {"sec_fetch_site": "same-origin"}))
    assert answer.status == (303 if wrong == "no cookie" else 403)
    assert service.store.last == before


def test_nobody_is_signed_in_by_another_site(service):
    one = Browser(service)
    one.get("/sign-in")
    assert one.post("/sign-in", form="guessed", token=service.token("read")).status == 403
    assert "surefooted_session" not in one.cookies


def test_sessions_end_with_sign_out_and_with_their_token(service):
    one, other = browser(service, "read"), browser(service, "read")
    kept = dict(one.cookies)
    assert one.post("/sign-out", form=one.mark()).headers["location"] == "/sign-in?why=out"
    one.cookies = kept  # whoever has kept the cookie has nothing
    assert "why=ended" in one.get("/").headers["location"] and other.get("/").status == 200
    kept = dict(other.cookies)
    other.sign_in(service.token("read"))
    other.cookies = kept  # to sign in again ends the session before
    assert "why=ended" in other.get("/").headers["location"]
    secret, token = tokens.create(service.store, "short", "read")
    third = Browser(service)
    third.sign_in(secret)
    assert third.get("/").status == 200
    tokens.revoke(service.store, token.name)
    assert "why=revoked" in third.get("/").headers["location"]
    secret, _ = tokens.create(service.store, "shorter", "read", days=60 / 86_400)
    fourth = Browser(service)
    fourth.sign_in(secret)
    assert fourth.get("/").status == 200
    service.store.clock.now += timedelta(minutes=2)
    answer = fourth.get("/")
    assert "why=expired" in answer.headers["location"]
    assert "has expired" in fourth.get(answer.headers["location"]).text


KNOWN = set(
    "a article body bdi br button caption code dd details div dl dt em fieldset figcaption figure footer form h1 h2 h3 "
    "head header html img input label legend li link main meta nav option p script section select span strong summary "
    "table tbody td th thead time title tr ul".split()
)  # every tag that pages use


def tags(text):
    """The tags of a page as a browser reads them, with their attributes."""
    found = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            found.append((tag, {name: value or "" for name, value in attributes}))

    Reader().feed(text)
    return found


def test_names_are_shown_and_never_obeyed(service):
    one, (advisor, decision) = browser(service, "operate"), waiting(service)
    advisor.pause(HOSTILE[0], who="Ada", note="<svg onload=alert(1)>")
    paths = ["/", "/approvals", "/deployment?name=" + quote(advisor.name), *(site(name) for name in ("a", *HOSTILE))]
    for path in [*paths, site("<x>"), site("a", "<x>"), "/?q=" + quote(HOSTILE[0]), "/?deployment=<b>&show=<i>"]:
        text = one.get(path).text
        for tag, attributes in tags(text):
            assert tag in KNOWN, (path, tag)
            assert not any(name.startswith("on") or name == "style" for name in attributes), (path, attributes)
            for name in ("src", "href", "action", "formaction"):
                assert attributes.get(name, "/").startswith(("/", "#")), (path, attributes)
            assert tag != "script" or attributes["src"].startswith("/static/")
    assert html.escape(HOSTILE[0]) in one.get("/").text
    assert one.get(site(HOSTILE[4])).status == 200
    advisor.resume(HOSTILE[0], who="Ada")
    advisor.reject(decision, who="Ada")


def test_what_is_done_on_a_page_is_in_the_journal(service):
    one, (advisor, decision) = browser(service, "operate"), waiting(service)
    form = one.mark()

    def do(what, **fields):
        answer = one.post(f"/do/{what}", form=form, deployment=advisor.name, back="/approvals?done=x", **fields)
        return answer.status, answer.headers["location"], next(iter(list(advisor.journal(service.store.last - 1))))

    text = one.get("/approvals").text
    assert "Worst case" in text and "Expected gain" in text and "Without an answer by" in text
    status, where, event = do("approve", decision=decision.id, note="good")
    assert (status, where) == (303, "/approvals?done=approved")
    assert (event.kind, event.body["who"], event.body["note"]) == ("approve", "operate-1", "good")
    assert "Approved: the proposal is played." in one.get(where).text
    assert one.post("/do/approve", form=form, deployment=advisor.name, decision=decision.id).status == 409
    advisor.tell(decision, reward=0.5, next_state=0)
    assert one.post("/do/pause", form=form, deployment=advisor.name, note=" ").status == 422  # without a reason
    assert do("pause", note="stock-taking", site=HOSTILE[0])[2].body["site"] == 1
    assert "stock-taking" in one.get(site(HOSTILE[0])).text
    assert do("resume", site=HOSTILE[0])[2].kind == "resume"
    assert do("mode", mode="shadow")[2].body["mode"] == "shadow"
    assert do("mode", mode="approval")[2].body["site"] is None
    assert do("trust", keep="all", knowledge="keep")[2].body["keep_since"] is None
    assert do("trust", keep="since", since="5")[2].body["keep_since"] == 5
    last = service.store.last
    assert do("trust", keep="none", knowledge="none")[2].body["keep_since"] == last
    for wrong in ({"keep": "since", "since": "x"}, {"keep": "some"}, {"knowledge": "all"}, {"note": "x" * 2_001}):
        assert one.post("/do/trust", form=form, deployment=advisor.name, **wrong).status == 422
    assert one.post("/do/approve", form=form, deployment="none", decision=1).status == 404


def test_the_way_back_leads_nowhere_else():
    for where in ("//evil.example", "https://evil.example", "/\\evil.example", "/a\nb", "javascript:x", "", "/💥"):
        assert pages_actions.local(where) == "/"
    assert pages_actions.local("/site?a=1&done=x&b=2") == "/site?a=1&b=2"


def test_headers_forbid_what_pages_do_not_need(service):
    one = browser(service, "read")
    for path in ("/", "/sign-in", "/nothing", "/static/page.js", "/approvals"):
        answer = one.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert one.get("/").headers["cache-control"] == "no-store"


def test_only_listed_files_are_served(service):
    one = Browser(service)
    for name in re.findall(r'"(/static/[^"]+)"', one.get("/sign-in").text):
        assert one.get(name).status == 200 and "immutable" in one.get(name).headers["cache-control"]
    assert b"MIT" in one.get("/static/uplot.LICENSE").text.encode()
    for name in ("..%2fpages.py", "base.html", "%2e%2e/app.py", ""):
        assert one.get("/static/" + name).status == 404


def test_nothing_is_loaded_from_other_hosts():
    from importlib.resources import files

    for folder in ("templates", "static"):
        for file in (files("surefooted.service") / folder).iterdir():
            text = file.read_text(encoding="utf-8")
            for found in re.findall(r"https?://[^\s\"')]+", text):
                assert found.startswith(("http://www.w3.org/", "https://github.com/leeoniya/uPlot")), (file.name, found)


def test_pages_are_paged_and_filtered(tmp_path):
    store, advisor = deployed(tmp_path / "many.db", sites=[f"shop {i:03d}" for i in range(120)])
    with Service(store) as service:
        for t in range(30):
            advisor.tell(advisor.ask("shop 007", 0, str(t)), reward=0.5, next_state=0)
        advisor.ask("shop 100", 0, "0")
        for t in range(1, 5):
            advisor.tell(advisor.ask("shop 100", 0, str(t)), reward=0.5, next_state=0)
        one = browser(service, "read")
        first = one.get("/").text
        assert "120 of 120 sites, page 1 of 3" in first and "1 outcome is overdue" in first
        names = re.findall(r"<bdi>(shop \d+)</bdi></a></th>|<th scope=\"row\"><a [^>]*><bdi>(shop \d+)", first)
        assert (names[0][0] or names[0][1]) == "shop 100"  # what needs a person comes first
        assert "shop 119" in one.get("/?page=3").text and "shop 119" in one.get("/?page=99").text
        found = one.get("/?q=SHOP+11").text
        assert "10 of 120 sites" in found and "shop 007" not in found
        assert "1 of 120 sites" in one.get("/?show=needs").text and "0 of 120" in one.get("/?show=paused").text
        assert one.get("/?page=0").status == 422
        decisions = one.get("/site?deployment=shop&site=shop+007").text
        older = html.unescape(re.search(r'<a href="([^"]+)" rel="next">Older', decisions)[1])
        assert decisions.count("number ") - 1 <= 26 and "Older" not in one.get(older).text
        every = re.findall(r"number (\d+), ", decisions + one.get(older).text)
        assert len(every) == len(set(every)) == 30
    store.close()


def test_pages_on_every_database(anywhere):
    store, advisor = deployed(anywhere / "shop.db", sites=("a", "b"), allowance=20.0, mode="approval")
    with Service(store) as service:
        one, asked = browser(service, "operate"), advisor.ask("a", 0, "first")
        assert asked.status == "waiting"
        for path in ("/", "/approvals", "/deployment?name=shop", "/site?deployment=shop&site=a"):
            answer = one.get(path)
            assert (answer.status == 200 and "first" in answer.text) or path in ("/", "/deployment?name=shop")
        assert one.get("/chart?deployment=shop&site=a").status == 200
        assert one.post("/do/approve", form=one.mark(), deployment="shop", decision=asked.id).status == 303
        assert advisor.decision(asked.id).status == "approved"
        again = advisor.ask("b", 0, "second")
        assert again.status == "waiting" and "1 decision waits" in one.get("/").text
        service.store.clock.now += timedelta(days=2)  # nobody answers any more
        assert "decision waits" not in one.get("/").text and "Nothing waits" in one.get("/approvals").text
        assert one.post("/sign-out", form=one.mark()).status == 303
    store.close()


def test_departures_only(anywhere, monkeypatch):
    """Page by page, also where a page looks through few decisions: those that were played or approved, and no other."""
    monkeypatch.setattr(pages_site, "DECISIONS", 4)
    monkeypatch.setattr(pages_site, "LOOKED", 7)
    store, advisor = deployed(anywhere / "shop.db", sites=("a", "b"), allowance=60.0)
    for t in range(40):
        advisor.set_mode(("live", "shadow", "approval")[t // 4 % 3])
        for site in ("a", "b"):
            decision = advisor.ask(site, 0, f'"departs":true "status":"waiting" {t}')
            if decision.status == "waiting":
                (advisor.approve if t % 2 else advisor.reject)(decision, who="Ada")
            advisor.tell(decision, reward=0.5, next_state=0)
    rows = [row for row in advisor.rows() if row["site"] == "a"]
    wanted = [row["decision"] for row in rows if row["departs"] or row["status"] == "approved"]
    assert 5 < len(wanted) < 30 and any(row["status"] == "approved" for row in rows)
    with Service(store) as service:
        one, path, found = browser(service, "read"), "/site?deployment=shop&site=a&show=departures", []
        while path:
            text = one.get(path).text
            found += [int(n) for n in re.findall(r"number (\d+), <bdi>", text)]
            older = re.search(r'<a href="([^"]+)" rel="next">Older', text)
            path = html.unescape(older[1]) if older else None
            assert 'aria-current="true">Departures only' in text and len(found) <= len(wanted)
        assert found == wanted[::-1]
        assert 'aria-current="true">All' in one.get("/site?deployment=shop&site=a").text
    store.close()
