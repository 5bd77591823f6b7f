"""The documentation as a site, in a real browser, opened from a disk: `make docs` builds it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="playwright is missing: make verify installs it")
pytest.importorskip("mkdocs", reason="mkdocs is missing: make docs installs it")
from playwright.sync_api import sync_playwright

from browser_help import Looker, chromium

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
SHOWN = ["index", "guarantees", "conditions", "api", "faq", "design", "tutorial-stock-planner", "numbers"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(place)]
    told = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=told)
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield opened
        opened.close()


@pytest.mark.parametrize("size", ["wide", "narrow"])
@pytest.mark.parametrize("name", SHOWN)
def test_a_page_is_whole_without_a_network(name, size, site, browser):
    looker = Looker(browser, site.as_uri(), size)
    looker.page.goto(f"{site.as_uri()}/{name}.html")
    looker.page.wait_for_load_state()
    formulas = looker.page.locator(".arithmatex")
    assert looker.page.locator(".arithmatex .katex-display").count() == formulas.count()
    assert name != "guarantees" or formulas.count() > 20
    assert looker.page.locator(".katex-error").count() == 0
    assert looker.page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert looker.faults == []
    if folder := os.environ.get("SUREFOOTED_SCREENSHOTS"):
        looker.page.screenshot(path=f"{folder}/site-{name}-{size}.png")
    looker.close()


def test_search_finds_what_the_pages_say(site, browser):
    looker = Looker(browser, site.as_uri())
    looker.page.goto(f"{site.as_uri()}/index.html")
    looker.page.get_by_role("textbox", name="Search").fill("allowance")
    found = looker.page.locator(".md-search-result__link")
    found.first.wait_for(timeout=60_000)
    assert found.count() > 3 and looker.faults == []
    looker.close()


def test_every_public_name_is_in_the_reference(site):
    import surefooted as sf

    text = (site / "api.html").read_text(encoding="utf-8")
    assert [name for name in sf.__all__ if name != "__version__" and name not in text] == []
