"""The pages with many sites and a long journal: how long until the first byte of each, idle and while shops ask.

Run `python benchmarks/service_page.py [events] [sites] [accounts ...]`: a journal of this many events (1 000 000) of
this many sites (1 000) is written first, without waiting for the disk. Then a service answers a browser's requests, one
after the other.
"""

import asyncio
import http.client
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
from measure import machine

import surefooted as sf
from surefooted.service import serving, tokens, warming
from surefooted.service.app import create_app
from surefooted.service.settings import Settings

ROUNDS = 30  # requests of each page
NAME = "site {:04d}"


def written(path, events, sites, accounts):
    """A store with that many events: asks and outcomes in turn, some late; the last ones wait for a person."""
    problem = sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))
    answer = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    store, rng = sf.live.open(path), np.random.default_rng(0)
    baseline = sf.Baseline(problem.baseline, answer.gain, answer.bias)
    advisor = store.create_deployment("shops", space=problem.space, baseline=baseline, alpha=0.05, allowance=2_000.0,
                                      accounts=accounts, deadline=100_000.0)  # fmt: skip
    for i in range(sites):
        advisor.add_site(NAME.format(i))
    state, n = [problem.start] * sites, 0
    store._db.execute("PRAGMA synchronous = OFF")
    while store.last < events:
        with store.transaction():
            held = advisor.machine()
            for _ in range(500):
                i, n = n % sites, n + 1
                decision = advisor._decide(held, i, state[i], str(n))
                reward, state[i] = problem.mdp.draw(rng, problem.space.pair(state[i], decision.action))
                if n % 997:
                    told = {"decision": decision.id, "reward": float(reward), "next_state": int(state[i])}
                    advisor._write(held, "tell", told, decision.id)
    advisor.snapshot()
    store._db.execute("PRAGMA synchronous = FULL")
    advisor.set_mode("approval", who="benchmark")
    for i in range(20):
        advisor.ask(NAME.format(i), state[i], "last")
    advisor.set_mode("live", who="benchmark")
    return store, state


class Service:
    """A service in a thread, and a browser that is signed in."""

    def __init__(self, store):
        app = create_app(store, Settings(rate=0.0))
        warming.read_all(app.state.context)  # as `surefooted serve` does before it listens
        self.server, socket = serving.server(app), serving.listening("127.0.0.1", 0)
        self.port = socket.getsockname()[1]
        self.thread = threading.Thread(target=lambda: asyncio.run(self.server.serve(sockets=[socket])), daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        secret, self.cookie = tokens.create(store, "benchmark", "operate")[0], ""
        self.link = http.client.HTTPConnection("127.0.0.1", self.port)
        answer, text = self.request("GET", "/sign-in")
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        form = re.search('name="form" value="([^"]+)"', text.decode())[1]
        answer, _ = self.request("POST", "/sign-in", urlencode({"form": form, "token": secret}))
        self.cookie = answer.headers.get_all("set-cookie")[0].partition(";")[0]

    def request(self, method, path, body=None):
        """One request, and its answer."""
        self.link.request(method, path, body, {"Cookie": self.cookie})
        answer = self.link.getresponse()
        return answer, answer.read()

    def first_byte(self, path):
        """Seconds until the first byte of the answer, and its size."""
        begin = time.perf_counter()
        self.link.request("GET", path, None, {"Cookie": self.cookie})
        answer = self.link.getresponse()
        seconds = time.perf_counter() - begin
        size = len(answer.read())
        assert answer.status == 200, (path, answer.status)
        return seconds, size


def asking(service, store, sites, state, ended):
    """Another client: asks and tells as fast as it is answered, until it is ended."""
    secret, n = tokens.create(store, "tills", "use")[0], 0
    with sf.live.connect(f"http://127.0.0.1:{service.port}", secret) as remote:
        advisor = remote.deployment("shops")
        while not ended.is_set():
            i = 100 + n % (sites - 100)
            decision = advisor.ask(NAME.format(i), int(state[i]), f"more {n}")
            advisor.tell(decision.id, reward=0.5, next_state=int(state[i]))
            n += 1
            ended.wait(0.05)


def main():
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    sites = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
    last = NAME.format(sites - 1)
    pages = {
        "fleet": "/", "fleet, last page": "/?page=1000", "fleet, searched": "/?q=99", "approvals": "/approvals",
        "deployment": "/deployment?name=shops", "site": "/site?" + urlencode({"deployment": "shops", "site": last}),
        "site, older decisions": "/site?" + urlencode({"deployment": "shops", "site": last, "before": events // 2}),
        "chart": "/chart?" + urlencode({"deployment": "shops", "site": last}),
    }  # fmt: skip
    print(machine())
    for accounts in sys.argv[3:] or ("shared", "own"):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            store, state = written(Path(folder) / "shops.db", events, sites, accounts)
            seconds = time.perf_counter() - begin
            print(f"{accounts} accounts: {store.last} events of {sites} sites, written in {seconds:.0f} s", flush=True)
            begin, computed = time.perf_counter(), time.process_time()
            store.deployment("shops").snapshot()
            computed = time.process_time() - computed
            print(f"opening and a snapshot: {time.perf_counter() - begin:.1f} s, {computed:.1f} s of CPU")
            measured(store, state, sites, pages)
            store.close()


def measured(store, state, sites, pages):
    """Print the table of one store."""
    service, rows = Service(store), [["page", "kB", "first", "median", "slowest", "while asked: median", "slowest"]]
    ended, found = threading.Event(), {}
    for name, path in pages.items():
        found[name] = [service.first_byte(path) for _ in range(ROUNDS)]
    other = threading.Thread(target=asking, args=(service, store, sites, state, ended))
    other.start()
    for name, path in pages.items():
        busy = [service.first_byte(path)[0] for _ in range(ROUNDS)]
        idle = [seconds for seconds, _ in found[name]]
        told = [idle[0], np.median(idle[1:]), max(idle[1:]), np.median(busy), max(busy)]
        rows.append([name, f"{found[name][0][1] / 1e3:.0f}", *(f"{1e3 * seconds:.0f} ms" for seconds in told)])
    ended.set()
    other.join()
    service.server.end()
    service.thread.join()
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print(
            "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        )


if __name__ == "__main__":
    main()
