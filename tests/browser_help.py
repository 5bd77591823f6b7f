"""A real browser for tests of pages: Debian's Chromium, driven by Playwright; and a service in a process of its own."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

SIZES = {"wide": (1280, 900), "narrow": (390, 800)}
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run", "--disable-dev-shm-usage"]  # fmt: skip


def chromium():
    """Where the browser is; skips the test if there is none."""
    found = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
    if found is None:
        pytest.skip("there is no Chromium: make verify installs Debian's, if it may")
    return found


class Looker:
    """A page of a browser that remembers every error and every request to another host."""

    def __init__(self, browser, url, size="wide", scheme="light"):
        width, height = SIZES[size]
        options = {"viewport": {"width": width, "height": height}, "color_scheme": scheme, "reduced_motion": "reduce"}
        self.context, self.url, self.faults = browser.new_context(**options), url, []
        self.page = self.context.new_page()
        self.page.on("console", lambda said: self._note(said.type, said.text))
        self.page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        self.page.on("request", self._look)

    def _note(self, kind, text):
        if kind in ("error", "warning"):
            self.faults.append(f"console: {text}")

    def _look(self, request):
        if not request.url.startswith((self.url, "data:")):
            self.faults.append(f"another host: {request.url}")

    def sign_in(self, secret, path="/"):
        self.page.goto(self.url + path)
        self.page.get_by_label("Token").fill(secret)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_load_state()
        return self.page

    def close(self):
        self.context.close()


class Process:
    """`surefooted serve` as people run it; it can be ended and begun again on the same port."""

    def __init__(self, store):
        self.store, self.running = str(store), None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.begin()

    def begin(self):
        command = [sys.executable, "-m", "surefooted", "serve", self.store, "--port", str(self.port), "--rate", "0"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        self.running = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        for _ in range(600):
            assert self.running.poll() is None, "the service did not start"
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=5):
                    return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("the service is not ready after a minute")

    def end(self):
        self.running.terminate()
        assert self.running.wait(timeout=60) in (0, -15)

    def close(self):
        if self.running.poll() is None:
            self.end()
