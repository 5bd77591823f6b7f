"""Replicas on PostgreSQL: pairs of ask and tell per second with one and two processes, beside the database's own limit.

Run `python benchmarks/replicas.py [ADDRESS]`. Without the address of a database, a server is started in the current
directory, so that commits wait for its disk. All contestants take turns, several times: beside other work, look at
ratios. Every answer is on disk before it is given.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import machine

import surefooted as sf

HERE = Path(__file__).parent
ROUNDS, SECONDS = 5, 4.0
SITES = 8  # of each replica


def known(problem):
    answer = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    return sf.Baseline(problem.baseline, answer.gain, answer.bias)


def shop():
    return sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))


class Advises:
    """Asks and tells at sites of its own, of a deployment that all share."""

    def __init__(self, address, number):
        self.problem, self.number, self.n = shop(), number, 0
        self.advisor = sf.live.open(address).deployment("shop")
        self.rng, self.s = np.random.default_rng(number), [self.problem.start] * SITES

    def __call__(self):
        """One pair."""
        j = self.n % SITES
        decision = self.advisor.ask(f"{self.number} {j}", self.s[j], key=str(self.n))
        reward, y = self.problem.mdp.draw(self.rng, self.problem.space.pair(self.s[j], decision.action))
        self.advisor.tell(decision, reward=float(reward), next_state=int(y))
        self.s[j], self.n = int(y), self.n + 1


class Inserts:
    """The database's own limit: a row as long as an event is inserted and committed, as often as for a pair."""

    def __init__(self, address, number):
        from surefooted.live.address import parse
        from surefooted.live.postgres_session import connect

        self.db, self.body, self.n = connect(parse(address)), "x" * 300, number * 10**9
        self.db.execute("CREATE TABLE IF NOT EXISTS bare (n BIGINT PRIMARY KEY, body TEXT)")

    def __call__(self):
        """Two rows."""
        for _ in range(2):
            self.db.execute("INSERT INTO bare VALUES (%s, %s)", (self.n, self.body))
            self.n += 1


def work(kind, number):
    """A process of its own: for each line with a number of seconds, how often it worked, and how long each took."""
    does = {"advises": Advises, "inserts": Inserts}[kind](os.environ["SUREFOOTED_STORE"], number)
    does()
    for line in sys.stdin:
        times, cpu, until = [], cpu_seconds(), time.perf_counter() + float(line)
        while (begin := time.perf_counter()) < until:
            does()
            times.append(time.perf_counter() - begin)
        print(json.dumps({"times": times, "cpu": cpu_seconds() - cpu}), flush=True)


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Processes:
    """Some processes that do the same."""

    def __init__(self, kind, count, address):
        command = [sys.executable, __file__, "work", kind]
        self.running = [
            subprocess.Popen(
                [*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env=os.environ | {"SUREFOOTED_STORE": str(address)},
            )
            for number in range(count)
        ]  # fmt: skip

    def work(self, seconds):
        """Pairs per second of all together, their times, and CPU seconds per pair."""
        for process in self.running:
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
        said = [json.loads(process.stdout.readline()) for process in self.running]
        times = [t for one in said for t in one["times"]]
        return len(times) / seconds, times, sum(one["cpu"] for one in said) / len(times)

    def close(self):
        """Let them end."""
        for process in self.running:
            process.communicate()


def deployed(address, replicas):
    problem = shop()
    with sf.live.open(address) as store:
        advisor = store.create_deployment("shop", space=problem.space, baseline=known(problem), alpha=0.05)
        for number in range(replicas):
            for j in range(SITES):
                advisor.add_site(f"{number} {j}")
    return address


def contestants(fresh, place):
    """Name, and the processes; each has a store of its own."""
    return {
        "PostgreSQL: 2 bare inserts, each committed; 1 process": Processes("inserts", 1, fresh("bare1")),
        "the same, 2 processes": Processes("inserts", 2, fresh("bare2")),
        "ask + tell on PostgreSQL, 1 replica": Processes("advises", 1, deployed(fresh("one"), 1)),
        "ask + tell on PostgreSQL, 2 replicas": Processes("advises", 2, deployed(fresh("two"), 2)),
        "ask + tell on SQLite, 1 process": Processes("advises", 1, deployed(place / "one.db", 1)),
        "ask + tell on SQLite, 2 processes": Processes("advises", 2, deployed(place / "two.db", 2)),
    }


def compare(address, place):
    def fresh(name):
        store = f"{address}{'&' if '?' in address else '?'}schema=bench_{os.getpid()}_{name}"
        sf.live.open(store).close()
        return store

    print(machine())
    running = contestants(fresh, place)
    found = {name: [] for name in running}
    for _ in range(ROUNDS):
        for name, processes in running.items():
            found[name].append(processes.work(SECONDS))
    for processes in running.values():
        processes.close()
    print(f"{ROUNDS} rounds of {SECONDS:g} s each; the median, and in brackets the slowest and the fastest round.\n")
    print("| what | pairs a second | p10 | p50 | p99 | CPU of the processes for a pair |\n|---|---|---|---|---|---|")
    for name, rounds in found.items():
        rates, times = sorted(rate for rate, _, _ in rounds), np.concatenate([times for _, times, _ in rounds])
        quantiles = " | ".join(f"{t:.1f} ms" for t in np.quantile(times, [0.1, 0.5, 0.99]) * 1e3)
        cpu = np.median([cpu for _, _, cpu in rounds]) * 1e3
        middle = f"{np.median(rates):.0f} ({rates[0]:.0f} to {rates[-1]:.0f})"
        print(f"| {name} | {middle} | {quantiles} | {cpu:.2f} ms |")
    one, two = (f"ask + tell on PostgreSQL, {many}" for many in ("1 replica", "2 replicas"))
    bare = next(iter(found))
    for name in (one, two):
        ratios = [mine[0] / other[0] for mine, other in zip(found[name], found[bare], strict=True)]
        print(f"\n{name}: {np.median(ratios):.2f} of the bare inserts of 1 process, in the same round.", end="")
    print()


def main():
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        os.chmod(folder, 0o755)
        if len(sys.argv) > 1:
            compare(sys.argv[1], Path(folder))
            return
        sys.path.insert(0, str(HERE.parent / "tests"))
        from postgres_server import Server, Unavailable

        try:
            server = Server(folder)
        except Unavailable as reason:
            print(f"Skipped: {reason}")
            return
        with server:
            compare(server.address().partition("&schema=")[0], Path(folder))


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2], int(sys.argv[3]))
    else:
        main()
