"""An hour of load with random kills: is anything lost or doubled that was acknowledged, and is the memory flat?

Run `python tests/soak.py [minutes] [sqlite|postgresql] [seed]` (60, sqlite, 1); it prints a table, and ends with 1 if
something is wrong. Three services share one store. Two of them are killed again and again, by kill -9 or by SIGTERM; of
PostgreSQL also the server ("immediate", as by a power cut) and single connections. The third service lives for the
whole time: its memory, threads and open files must not grow. Six clients ask, tell in parts, late and twice, and pause
and resume; one more follows the journal. Whatever a client was told is written down, and compared with the store in the
end. Everything is random by the seed, but for the time at which things happen.
"""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import surefooted as sf
from live_help import known, shop
from surefooted.service import tokens

CLIENTS, SERVICES = 6, 3  # the last service is never killed
PAUSE = 0.15  # seconds of rest of a client after each decision
CALM = (2.0, 15.0)  # seconds between two kills
PATIENCE = 300.0  # seconds in which a client sends a request again
GROWTH = 0.10  # by which the memory of a service may grow after the first quarter


class Replica:
    """One service as a process, always on the same port."""

    def __init__(self, address):
        self.address, self.port, self.slowest = str(address), 0, 0.0
        self.start()

    def start(self):
        command = [sys.executable, "-m", "surefooted", "serve", self.address, "--port", str(self.port), "--rate", "0",
                   "--log-level", "error"]  # fmt: skip
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        begun = time.monotonic()
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        for line in self.process.stderr:
            if found := re.search(r"Listening on http://127\.0\.0\.1:(\d+)", line):
                self.port, self.slowest = int(found[1]), max(self.slowest, time.monotonic() - begun)
                threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True).start()
                return
        raise SystemExit(f"a service did not start: {self.process.wait()}")

    def _read(self, said):
        """What it says, so that it is never held up by a full pipe; faults are shown."""
        for line in said:
            if "Traceback" in line and "StoreFault" not in line:
                print(line, file=sys.stderr, flush=True)

    def end(self, how):
        self.process.send_signal(how)
        return self.process.wait(timeout=120)

    def usage(self):
        """Resident memory in MB, threads, and open files."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        memory, threads = (int(re.search(rf"{name}:\s+(\d+)", status)[1]) for name in ("VmRSS", "Threads"))
        return memory / 1024, threads, len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Client(threading.Thread):
    """Asks and tells at two sites, one decision after the other, and writes down what it was told."""

    def __init__(self, port, secret, number, stop):
        super().__init__(name=f"client {number}", daemon=True)
        self.port, self.secret, self.stop, self.number = port, secret, stop, number
        self.rng, self.random = np.random.default_rng(number), random.Random(number)
        self.answers, self.told, self.notes, self.times, self.failed = {}, {}, [], [], None

    def run(self):
        try:
            with sf.live.connect(f"http://127.0.0.1:{self.port}", self.secret, patience=PATIENCE) as remote:
                self.work(remote.deployment("shop"))
        except Exception as error:
            self.failed = error

    def work(self, advisor):
        problem = shop()
        where = {f"site {self.number} {j}": problem.start for j in range(2)}
        late, i = [], 0
        while not self.stop.is_set():
            site = self.random.choice(list(where))
            s, key, i = where[site], str(i), i + 1
            begin = time.monotonic()
            decision = advisor.ask(site, s, key)
            self.times.append(time.monotonic() - begin)
            self.answers[site, key] = (decision.id, decision.label, decision.reason)
            if self.random.random() < 0.05:
                assert advisor.ask(site, s, key) == decision, "the same key gave another decision"
            reward, s_next = problem.mdp.draw(self.rng, problem.space.pair(s, decision.action))
            where[site], outcome = int(s_next), {"reward": float(reward), "next_state": int(s_next)}
            if self.random.random() < 0.1:
                late.append((decision.id, outcome))
            else:
                self.tell(advisor, decision.id, outcome)
            if len(late) > 5:
                self.tell(advisor, *late.pop(self.random.randrange(len(late))))
            if self.random.random() < 0.01:
                note = f"{site} {key}"
                advisor.pause(site, note=note)
                self.notes.append(note)
                advisor.resume(site)
            self.stop.wait(PAUSE)
        for decision, outcome in late:
            self.tell(advisor, decision, outcome)

    def tell(self, advisor, decision, outcome):
        """All of it at once, or in two parts; sometimes twice."""
        parts = [outcome] if self.random.random() < 0.8 else [{name: value} for name, value in outcome.items()]
        for part in parts * self.random.choice((1, 1, 1, 2)):
            advisor.tell(decision, **part)
        self.told[decision] = outcome


class Follower(threading.Thread):
    """Follows the journal over HTTP from its beginning: every event must come once, in order."""

    def __init__(self, port, secret):
        super().__init__(name="follower", daemon=True)
        self.port, self.secret, self.last, self.ends_at, self.failed = port, secret, 0, None, None

    def run(self):
        try:
            with sf.live.connect(f"http://127.0.0.1:{self.port}", self.secret, patience=PATIENCE) as remote:
                for event in remote.deployment("shop").follow(0):
                    assert event.n == self.last + 1, f"event {event.n} came after event {self.last}"
                    self.last = event.n
                    if event.n == self.ends_at:
                        return
        except Exception as error:
            self.failed = error


class Chaos:
    """Kills at random, counts what it did, and reads the memory of the service that lives."""

    def __init__(self, replicas, server, rng):
        self.replicas, self.server, self.rng = replicas, server, rng
        self.done = {"kill -9 of a service": 0, "SIGTERM": 0}
        if server is not None:
            self.done |= {"crash of the database": 0, "connections cut": 0}
        self.usage = []  # at which second, MB, threads, files

    def work(self, seconds, failed):
        begin = now = time.monotonic()
        until = now + self.rng.uniform(*CALM)
        while now - begin < seconds and not failed():
            if now >= until:
                self.strike(self.rng.choice(list(self.done)))
                until = time.monotonic() + self.rng.uniform(*CALM)
            self.usage.append((now - begin, *self.replicas[-1].usage()))
            time.sleep(1.0)
            now = time.monotonic()

    def strike(self, what):
        victim = self.rng.choice(self.replicas[:-1])
        if what == "crash of the database":
            self.server.restart("immediate")
        elif what == "connections cut":
            others = "pid <> pg_backend_pid() AND backend_type = 'client backend' AND random() < 0.5"
            self.server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
        else:
            code = victim.end(signal.SIGTERM if what == "SIGTERM" else signal.SIGKILL)
            assert what != "SIGTERM" or code == 0, f"a service that was told to end ended with {code}"
            victim.start()
        self.done[what] += 1


def grown(usage):
    """Memory, threads and files of the service that lives: medians of the second quarter and of the last tenth."""
    usage = np.array(usage)
    end = usage[-1, 0]
    early = usage[(usage[:, 0] > end / 4) & (usage[:, 0] <= end / 2), 1:]
    return np.median(early, axis=0), np.median(usage[usage[:, 0] > 0.9 * end, 1:], axis=0)


def compared(address, clients, follower):
    """What is wrong with the store, by what the clients were told; its last event, decisions and departures."""
    faults = [f"{thread.name}: {type(thread.failed).__name__}: {thread.failed}" for thread in (*clients, follower)
              if thread.failed is not None]  # fmt: skip
    answers = {place: answer for client in clients for place, answer in client.answers.items()}
    told, paused = {n: what for client in clients for n, what in client.told.items()}, []
    known, decided, departed = len(answers), 0, 0
    with sf.live.open(address) as store:
        advisor = store.deployment("shop")
        for n, event in enumerate(advisor.journal(), start=1):
            if event.n != n:
                faults.append(f"event {event.n} stands where event {n} should")
                break
            if event.kind == "pause":
                paused.append(event.body["note"])
        for row in advisor.rows():
            n, decided, departed = row["decision"], decided + 1, departed + row["departs"]
            place = row["site"], row["key"]
            if place in answers and answers.pop(place) != (n, row["asked"], row["reason"]):
                faults.append(f"the answer to {place} has changed, or was given twice")
            outcome = told.pop(n, None)
            if outcome is not None and (row["reward"] != outcome["reward"] or not row["complete"]):
                faults.append(f"the outcome of decision {n} is lost or changed")
        faults += [f"the answer to {place} is lost" for place in answers]
        faults += [f"decision {n} is lost" for n in told]
        if not {note for client in clients for note in client.notes} <= set(paused):
            faults.append("a pause is lost")
        if len(paused) != len(set(paused)):
            faults.append("a pause was done twice")
        if not known <= decided <= known + len(clients):
            faults.append(f"{decided} decisions in the store, {known} of which clients know")
        faults += store.verify().faults
        return faults, store.last, decided, departed


def soak(address, server, minutes, seed):
    """Run it, and print what happened; whether nothing is wrong."""
    problem = shop()
    with sf.live.open(address) as store:
        advisor = store.create_deployment("shop", space=problem.space, baseline=known(problem), alpha=0.1,
                                          allowance=500.0)  # fmt: skip
        for i in range(CLIENTS):
            for j in range(2):
                advisor.add_site(f"site {i} {j}")
        secret, _ = tokens.create(store, "soak", "operate")
    replicas, stop = [Replica(address) for _ in range(SERVICES)], threading.Event()
    clients = [Client(replicas[i % SERVICES].port, secret, i, stop) for i in range(CLIENTS)]
    follower, chaos = Follower(replicas[0].port, secret), Chaos(replicas, server, random.Random(seed))
    for thread in (*clients, follower):
        thread.start()
    failed = lambda: any(thread.failed is not None for thread in (*clients, follower))  # noqa: E731
    try:
        chaos.work(60 * minutes, failed)
        stop.set()
        for client in clients:
            client.join(timeout=2 * PATIENCE)
        with sf.live.open(address) as store:
            follower.ends_at = store.last
            store.deployment("shop").pause(note="the end")  # wakes the follower
        until = time.monotonic() + 120
        while follower.is_alive() and follower.last < follower.ends_at and time.monotonic() < until:
            time.sleep(0.1)
    finally:
        codes = [replica.end(signal.SIGTERM) for replica in replicas]
    faults, events, decisions, departures = compared(address, clients, follower)
    if follower.last < (follower.ends_at or 0):
        faults.append(f"the follower has come to event {follower.last} of {follower.ends_at}")
    faults += ["a service that was told to end did not end with 0"] if any(codes) else []
    before, after = grown(chaos.usage)
    if after[0] > (1 + GROWTH) * before[0]:
        faults.append(f"the memory has grown from {before[0]:.0f} to {after[0]:.0f} MB")
    if after[2] > before[2] + 10:
        faults.append(f"open files: {before[2]:.0f}, and {after[2]:.0f} in the end")
    times = np.concatenate([client.times for client in clients])
    report("minutes", f"{chaos.usage[-1][0] / 60:.0f}")
    report("events, decisions, departures", f"{events}, {decisions}, {departures}")
    for what, often in chaos.done.items():
        report(what, str(often))
    waits = ", ".join(f"{t:.3g} s" for t in (*np.quantile(times, [0.5, 0.99]), max(times)))
    report("the longest start of a service", f"{max(replica.slowest for replica in replicas):.0f} s")
    report("a question: p50, p99, longest", waits)
    for i, name in enumerate(("memory of the third service, MB", "its threads", "its open files")):
        report(f"{name}: second quarter, last tenth", f"{before[i]:.0f}, {after[i]:.0f}")
    report("faults", "; ".join(faults[:10]) or "none")
    return not faults


def report(what, value):
    print(f"| {what} | {value} |", flush=True)


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    database = sys.argv[2] if len(sys.argv) > 2 else "sqlite"
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir="."))
        os.chmod(folder, 0o755)
        address, server = Path(folder) / "soak.db", None
        if database == "postgresql":
            from postgres_server import Server

            server = stack.enter_context(Server(parent=str(Path(folder).resolve())))
            address = server.address()
        print(f"| {database} | seed {seed} |\n|---|---|", flush=True)
        return soak(address, server, minutes, seed)


if __name__ == "__main__":
    sys.exit(not main())
