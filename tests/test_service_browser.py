"""The pages in a real browser: every view, wide, narrow and dark; what people do; live; reconnecting; accessibility.

With `SUREFOOTED_SCREENSHOTS=folder` a picture of every view is written there, for somebody to look at.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi", reason="fastapi is missing")
pytest.importorskip("playwright.sync_api", reason="playwright is missing: make verify installs it")
pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is missing: make verify installs it")

from axe_playwright_python import sync_playwright as axe
from playwright import sync_api as playwright

import surefooted as sf
from browser_help import QUIET, Looker, Process, chromium
from live_help import known, shop
from surefooted.service import tokens

pytestmark = pytest.mark.slow
HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\u202eright to left", "מרכז העיר")
NAME = "shop & <b>co</b>"
HERE = f"/deployment?name={quote(NAME)}"
SHOTS = os.environ.get("SUREFOOTED_SCREENSHOTS")


def site(name):
    return f"/site?deployment={quote(NAME)}&site={quote(name)}"


VIEWS = {"fleet": "/", "approvals": "/approvals", "deployment": HERE, "site": site("a"), "hostile": site(HOSTILE[0]),
         "missing": site("nowhere")}  # fmt: skip


class Place:
    """A store with a fleet, a service on it in a process of its own, and the advisor in this process."""

    def __init__(self, folder):
        self.path, problem = folder / "shop.db", shop()
        self.store = sf.live.open(self.path)
        options = {"alpha": 0.1, "allowance": 30.0, "mode": "approval", "deadline": 5_000.0}
        self.advisor = self.store.create_deployment(NAME, space=problem.space, baseline=known(problem), **options)
        for name in ("a", "b", *HOSTILE):
            self.advisor.add_site(name)
        for t in range(12):
            for name in ("a", "b"):
                decision = self.advisor.ask(name, 0, f"day {t}")
                if decision.status == "waiting" and t < 11:
                    self.advisor.approve(decision, who="Ada <i>")
                if decision.status != "waiting" or t < 11:
                    self.advisor.tell(decision, reward=0.5, next_state=0)
        late = self.advisor.ask(HOSTILE[0], 0, "late")
        if late.status == "waiting":
            self.advisor.approve(late, who="Ada")
        for t in range(4):
            decision = self.advisor.ask(HOSTILE[0], 0, f"day {t}")
            if decision.status == "waiting" and t < 3:
                self.advisor.reject(decision, who="Ada", note="not there")
                self.advisor.tell(decision, reward=0.5, next_state=0)
            elif t < 3:
                self.advisor.tell(decision, reward=0.5, next_state=0)
        self.service = Process(self.path)

    def token(self, role, **options):
        return tokens.create(self.store, f"t{os.urandom(6).hex()}", role, **options)[0]

    def question(self, name="b"):
        """A decision that waits; made here, seen by the service."""
        for _ in range(60):
            waiting = [n for n in self.advisor.machine().waiting if self.advisor.decision(n).site == name]
            if waiting:
                return self.advisor.decision(waiting[0])
            decision = self.advisor.ask(name, 0, os.urandom(6).hex())
            if decision.status != "waiting":
                self.advisor.tell(decision, reward=0.5, next_state=0)
        raise AssertionError("nothing was proposed")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    chromium()
    made = Place(tmp_path_factory.mktemp("browser"))
    yield made
    made.service.close()
    made.store.close()


@pytest.fixture(scope="module")
def browser(place):
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium(), args=QUIET)
        yield opened
        opened.close()


@pytest.fixture
def looker(browser, place):
    """Makes lookers, who must not have seen any error."""
    made = []

    def look(role="operate", size="wide", scheme="light", secret=None):
        one = Looker(browser, place.service.url, size, scheme)
        made.append(one)
        one.sign_in(secret or place.token(role))
        return one

    yield look
    for one in made:
        one.close()


def is_live(page):
    playwright.expect(page.locator("#state-words")).to_have_text("Live", timeout=20_000)


@pytest.mark.parametrize("size, scheme", [("wide", "light"), ("narrow", "light"), ("wide", "dark"), ("narrow", "dark")])
@pytest.mark.parametrize("view", [*VIEWS, "sign-in"])
def test_every_view_is_accessible_and_without_errors(looker, place, view, size, scheme):
    place.question("a"), place.question("b")
    one = looker(size=size, scheme=scheme)
    if view == "sign-in":
        one.page.get_by_role("button", name="Sign out").click()
        playwright.expect(one.page.get_by_text("You are signed out.")).to_be_visible()
    else:
        one.page.goto(one.url + VIEWS[view])
    if view not in ("sign-in", "missing"):
        is_live(one.page)
    if view in ("deployment", "site"):
        playwright.expect(one.page.locator(".plot canvas").first).to_be_visible(timeout=20_000)
        one.page.locator("summary").first.click()
    found = axe.Axe().run(one.page)
    assert found.violations_count == 0, found.generate_report()
    inside = one.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert inside, "the page is wider than the screen"
    if SHOTS:
        Path(SHOTS).mkdir(parents=True, exist_ok=True)
        one.page.screenshot(path=f"{SHOTS}/{view}-{size}-{scheme}.png", full_page=True)
    assert [fault for fault in one.faults if "404" not in fault or view != "missing"] == []


def test_approve_with_a_note(looker, place):
    asked = place.question()
    one = looker()
    one.page.get_by_role("link", name="Approvals").click()
    card = one.page.get_by_role("article").filter(has_text=asked.key)
    playwright.expect(card).to_contain_text("Worst case")
    playwright.expect(card).to_contain_text("Expected gain")
    card.get_by_label("Note").fill("agreed on Monday")
    card.get_by_role("button", name="Yes").click()
    playwright.expect(one.page.locator("#said")).to_have_text("Approved: the proposal is played.")
    assert place.advisor.decision(asked.id).status == "approved"
    (event,) = [e for e in place.store.about(asked.id) if e.kind == "approve"]
    assert event.body["note"] == "agreed on Monday" and event.body["who"].startswith("t")
    playwright.expect(one.page.get_by_role("article").filter(has_text=asked.key)).to_have_count(0)
    place.advisor.tell(asked.id, reward=0.5, next_state=0)
    assert one.faults == []


def test_reject_with_the_keyboard_alone(looker, place):
    asked = place.question()
    one = looker()
    one.page.goto(one.url + site("b"))
    note = one.page.get_by_role("article").get_by_label("Note")
    note.focus()
    one.page.keyboard.type("not today")
    one.page.keyboard.press("Tab")
    one.page.keyboard.press("Tab")
    one.page.keyboard.press("Enter")
    playwright.expect(one.page.locator("#said")).to_have_text("Rejected: the baseline is played.")
    assert place.advisor.decision(asked.id).status == "rejected"
    place.advisor.tell(asked.id, reward=0.5, next_state=0)
    assert one.faults == []


def test_pause_and_resume_a_site_and_all_of_them(looker, place):
    one = looker()
    for path, of in ((site("b"), "this site"), (HERE, "all sites")):
        one.page.goto(one.url + path)
        one.page.get_by_label(f"Pause {of}: why?").fill("stock-taking <b>")
        one.page.get_by_role("button", name="Pause").click()
        playwright.expect(one.page.locator("#standing")).to_contain_text("stock-taking <b>")
        one.page.get_by_role("button", name="Resume").click()
        playwright.expect(one.page.locator("#said")).to_have_text("Resumed.")
    one.page.goto(one.url + site("b"))
    one.page.get_by_label("Mode of this site").select_option("shadow")
    one.page.get_by_role("button", name="Change").click()
    playwright.expect(one.page.locator("#standing .tag").first).to_have_text("shadow")
    place.advisor.set_mode("approval", "b", who="Ada")
    assert one.faults == []


def test_readers_see_no_controls(looker, place):
    asked = place.question()
    one = looker("read")
    one.page.goto(one.url + "/approvals")
    card = one.page.get_by_role("article").filter(has_text=asked.key)
    playwright.expect(card).to_contain_text("needs the role operate")
    for path in ("/approvals", HERE, site("b")):
        one.page.goto(one.url + path)
        assert one.page.locator("main form").count() == 0
    assert one.faults == []


def test_decisions_balances_and_alarms_appear_without_reload(looker, place):
    one, other = looker(), looker()
    one.page.goto(one.url + site(HOSTILE[3]))
    is_live(one.page)
    other.page.goto(other.url + "/")
    is_live(other.page)
    one.page.evaluate("window.mark = 1")
    decision = place.advisor.ask(HOSTILE[3], 0, "brand new")
    playwright.expect(one.page.locator("#decisions")).to_contain_text("brand new", timeout=15_000)
    playwright.expect(one.page.locator("#standing")).to_contain_text("Decisions")
    if decision.status == "waiting":
        playwright.expect(one.page.get_by_role("article")).to_be_visible(timeout=15_000)
        playwright.expect(one.page.locator("#news")).to_contain_text("may")
        place.advisor.reject(decision, who="Ada")
    place.advisor.tell(decision, reward=0.5, next_state=0)
    playwright.expect(one.page.locator("#decisions")).to_contain_text("Earned", timeout=15_000)
    assert one.page.evaluate("window.mark") == 1
    place.advisor.pause(None, who="Ada", note="fire drill")
    playwright.expect(one.page.locator("#standing")).to_contain_text("fire drill", timeout=15_000)
    playwright.expect(other.page.locator("#deployments")).to_contain_text("paused", timeout=15_000)
    place.advisor.resume(None, who="Ada")
    playwright.expect(other.page.locator("#deployments")).not_to_contain_text("paused", timeout=15_000)
    assert one.faults == other.faults == []


def test_what_is_being_typed_is_not_replaced(looker, place):
    asked = place.question()
    one = looker()
    one.page.goto(one.url + "/approvals")
    is_live(one.page)
    note = one.page.get_by_role("article").filter(has_text=asked.key).get_by_label("Note")
    note.fill("half a senten")
    place.advisor.ask(HOSTILE[2], 0, os.urandom(4).hex())
    one.page.wait_for_timeout(3_000)
    assert note.input_value() == "half a senten"
    assert one.faults == []


def test_it_connects_again_after_a_restart(looker, place):
    one = looker()
    one.page.goto(one.url + HERE)
    is_live(one.page)
    place.service.end()
    playwright.expect(one.page.locator("#state-words")).to_contain_text("Connection lost", timeout=20_000)
    place.advisor.pause(None, who="Ada", note="while it was away")
    place.service.begin()
    playwright.expect(one.page.locator("#standing")).to_contain_text("while it was away", timeout=30_000)
    is_live(one.page)
    place.advisor.resume(None, who="Ada")
    playwright.expect(one.page.locator("#standing")).not_to_contain_text("while it was away", timeout=20_000)
    assert [fault for fault in one.faults if "ERR_CONNECTION" not in fault and "ERR_INCOMPLETE" not in fault] == []


@pytest.mark.parametrize("how", ["expired", "revoked"])
def test_a_token_that_ends_leads_to_the_form_with_the_reason(looker, place, how):
    ends = datetime.now(UTC) + timedelta(seconds=12)
    secret, token = tokens.create(place.store, f"short-{how}", "read", days=12 / 86_400)
    one = looker(secret=secret)
    is_live(one.page)
    if how == "revoked":
        tokens.revoke(place.store, token.name)
    else:
        one.page.wait_for_timeout(max(0.0, (ends - datetime.now(UTC)).total_seconds() * 1_000 + 500))
    place.advisor.resume(None, who="Ada")  # an event: the stream looks at the token before it sends anything
    words = {"expired": "Your token has expired.", "revoked": "Your token was revoked."}[how]
    playwright.expect(one.page.get_by_role("status")).to_contain_text(words, timeout=30_000)
    assert one.page.url.startswith(one.url + "/sign-in")
    assert one.faults == []


def test_departures_only(looker, place):
    one = looker()
    one.page.goto(one.url + site("a"))
    one.page.get_by_role("link", name="Departures only").click()
    playwright.expect(one.page.get_by_role("link", name="Departures only")).to_have_attribute("aria-current", "true")
    wanted = [row for row in place.advisor.rows() if row["site"] == "a" and row["status"] == "approved"]
    rows = one.page.locator("#decisions tbody tr")
    playwright.expect(rows).to_have_count(min(len(wanted), 25))
    assert one.page.locator("#decisions tbody .tag.departs").count() == rows.count()
    is_live(one.page)
    assert axe.Axe().run(one.page).violations_count == 0
    assert one.faults == []


def test_a_contradiction_appears_without_reload(looker, place):
    """An outcome that was declared impossible, on every page that is open."""
    problem = shop()
    ways = sf.Knowledge(problem.space, successors={(0, 0): {0}})
    advisor = place.store.create_deployment("declared", space=problem.space, baseline=known(problem), alpha=0.1,
                                            knowledge=ways)  # fmt: skip
    advisor.add_site("here")
    fleet, deployment, at_site = looker(), looker(), looker()
    deployment.page.goto(deployment.url + "/deployment?name=declared")
    at_site.page.goto(at_site.url + "/site?deployment=declared&site=here")
    for one in (fleet, deployment, at_site):
        is_live(one.page)
        one.page.evaluate("window.mark = 1")
        playwright.expect(one.page.locator("main")).not_to_contain_text("Contradiction")
    advisor.tell(advisor.ask("here", 0, "1"), reward=0.5, next_state=1, action=0)
    assert advisor.machine().fleet.contradictions
    playwright.expect(fleet.page.locator("#needs")).to_contain_text("Contradiction", timeout=20_000)
    playwright.expect(deployment.page.locator("#alarms-live")).to_contain_text("Contradiction", timeout=20_000)
    playwright.expect(at_site.page.locator("#standing")).to_contain_text("Contradiction", timeout=20_000)
    playwright.expect(fleet.page.locator("#news")).to_contain_text("Contradiction", timeout=20_000)
    for one in (fleet, deployment, at_site):
        assert one.page.evaluate("window.mark") == 1 and one.faults == []


def test_an_alarm_appears_without_reload_and_says_what_to_do(looker, place):
    """Rewards that are far below the baseline's gain: an alarm, and `trust` goes on."""
    one = looker()
    is_live(one.page)
    one.page.evaluate("window.mark = 1")
    for _ in range(400):
        decision = place.advisor.ask("a", 0, os.urandom(6).hex()) if not _waits(place, "a") else _waits(place, "a")
        if decision.status == "waiting":
            place.advisor.reject(decision, who="Ada")
        place.advisor.tell(decision, reward=0.0, next_state=0)
        machine = place.advisor.machine()
        if machine.fleet.alarm:
            break
    assert machine.fleet.alarm
    playwright.expect(one.page.locator("#needs")).to_contain_text("Alarm", timeout=20_000)
    playwright.expect(one.page.locator("#news")).to_contain_text(machine.fleet.alarm, timeout=20_000)
    assert one.page.evaluate("window.mark") == 1
    one.page.goto(one.url + HERE)
    found = axe.Axe().run(one.page)
    assert found.violations_count == 0, found.generate_report()
    if SHOTS:
        one.page.screenshot(path=f"{SHOTS}/alarm-wide-light.png", full_page=True)
    one.page.get_by_text("Nothing.", exact=True).click()
    one.page.get_by_text("Believe nothing of it.").click()
    one.page.get_by_role("button", name="Go on").click()
    playwright.expect(one.page.locator("#said")).to_have_text("Done: decisions go on from here.")
    event = next(e for e in place.advisor.journal() if e.kind == "trust")
    assert event.body["knowledge"] == "none" and event.body["keep_since"] is not None
    assert one.faults == []


def _waits(place, name):
    found = [place.advisor.decision(n) for n in place.advisor.machine().waiting]
    return next((decision for decision in found if decision.site == name), None)
