"""The advisor: pairs of ask and tell per second beside the disk's own limit, opening and replaying, memory, fleets.

Run `python benchmarks/live.py [events]`: the journal that is opened and replayed has this many events (1 000 000).
"""

import os
import resource
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np

import surefooted as sf
from surefooted.agents.fleet import Fleet
from surefooted.agents.fleet_accounts import FleetRules

DAYS = 20_000  # of the fleet table, at most


def known(problem):
    answer = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    return sf.Baseline(problem.baseline, answer.gain, answer.bias)


def synchronise(place, seconds=3.0):
    """How often per second the disk can write a page and synchronise."""
    path, n, begin = Path(place) / "page", 0, time.perf_counter()
    with path.open("wb", buffering=0) as file:
        while time.perf_counter() - begin < seconds:
            file.write(bytes(4_096))
            os.fsync(file.fileno())
            n += 1
    return n / (time.perf_counter() - begin)


def deployed(path, problem, sites=1, **options):
    store = sf.live.open(path)
    advisor = store.create_deployment("shop", space=problem.space, baseline=known(problem), alpha=0.05, **options)
    for i in range(sites):
        advisor.add_site(f"site {i}")
    return store, advisor


def pairs_per_second(place, problem, sites=1, seconds=5.0):
    """Ask and tell, every answer on disk before it is given."""
    store, advisor = deployed(Path(place) / f"speed{sites}.db", problem, sites)
    rng, s, n, begin = np.random.default_rng(0), [problem.start] * sites, 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        j = n % sites
        decision = advisor.ask(f"site {j}", s[j], key=str(n))
        reward, y = problem.mdp.draw(rng, problem.space.pair(s[j], decision.action))
        advisor.tell(decision, reward=float(reward), next_state=int(y))
        s[j], n = int(y), n + 1
    rate = n / (time.perf_counter() - begin)
    store.close()
    return rate


def long_journal(place, problem, events):
    """A journal of that many events, written without waiting for the disk."""
    path = Path(place) / "long.db"
    store, advisor = deployed(path, problem)
    store._db.execute("PRAGMA synchronous = OFF")
    rng, s = np.random.default_rng(0), problem.start
    with store.transaction():
        while store.last < events - 1:
            decision = advisor._decide(advisor.machine(), 0, s, str(store.last))
            reward, y = problem.mdp.draw(rng, problem.space.pair(s, decision.action))
            told = {"decision": decision.id, "reward": float(reward), "next_state": int(y)}
            advisor._write(advisor.machine(), "tell", told, decision.id)
            s = int(y)
    advisor.snapshot()
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    return path


def openings(path):
    """CPU seconds to open from the snapshot, and events per CPU second of a replay from the first."""
    begin = time.process_time()
    store = sf.live.open(path)
    machine = store.deployment("shop").machine()
    opened, n = time.process_time() - begin, machine.n
    with store.transaction():
        store.write("DELETE FROM snapshots")
    begin = time.process_time()
    store.deployment("shop").machine()
    replayed = n / (time.process_time() - begin)
    store.close()
    return opened, replayed, n


def reading(path):
    """CPU seconds of a status, of an export to CSV, and of choosing all data again, and what they add to memory."""
    store = sf.live.open(path)
    advisor = store.deployment("shop")
    advisor.machine()
    for name, call in (
        ("status", advisor.status),
        ("an export to CSV", lambda: advisor.export(Path(path).with_suffix(".csv"))),
        ("trust(keep_since=0)", lambda: advisor.trust(keep_since=0)),
    ):
        before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        call()
        taken = time.process_time() - begin
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1_024
        yield f"| {name} of it takes | {taken:.2f} s (CPU), and {grown:.0f} MB more memory at most |"
    store.close()


def memory(problem, decisions):
    """Bytes that a fleet holds after so many complete decisions."""
    agent = sf.CUCRL2(problem.space, baseline=known(problem), alpha=0.05, condition="decisions")
    tracemalloc.start()
    fleet, rng, s = Fleet(agent), np.random.default_rng(0), problem.start
    fleet.add_site()
    for n in range(decisions):
        pair = fleet.ask(n, 0, s).pair
        reward, y = problem.mdp.draw(rng, pair)
        fleet.see(n, float(reward), int(y), None)
        fleet.settle(n)
        s = int(y)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held


def last_refusal(problem, sites, seed):
    """The day of the last refusal; all sites decide before any outcome of the day is known."""
    agent = sf.CUCRL2(
        problem.space, baseline=known(problem), alpha=0.05, condition="decisions", strict=False,
        confidence=sf.confidence.simplified_bernstein,
    )  # fmt: skip
    fleet, rng = Fleet(agent, FleetRules()), np.random.default_rng(seed)
    where, last, number = [problem.start] * sites, 0, 0
    for _ in range(sites):
        fleet.add_site()
    for day in range(1, DAYS + 1):
        outcomes = []
        for j in range(sites):
            number += 1
            answer = fleet.ask(number, j, where[j])
            if answer.proposed >= 0 and answer.deposit is not None and not answer.departs:
                last = day
            reward, y = problem.mdp.draw(rng, answer.pair)
            outcomes.append((number, float(reward), int(y)))
            where[j] = int(y)
        for n, reward, y in outcomes:
            fleet.see(n, reward, y, None)
            fleet.settle(n)
        if day > 3 * last + 200:
            break
    return last


def main():
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    problem = sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        pairs_per_second(place, problem, seconds=0.1)
        (Path(place) / "speed1.db").unlink()
        disk, one, many = synchronise(place), pairs_per_second(place, problem), pairs_per_second(place, problem, 1_000)
        path = long_journal(place, problem, events)
        opened, replayed, n = openings(path)
        read = list(reading(path))
        size = path.stat().st_size
    print("| what | measured |\n|---|---|")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as place:
        alone = pairs_per_second(place, problem)
    print(f"| a page written and synchronised, the disk's own limit | {disk:.0f} a second |")
    print(f"| ask + tell, every answer on disk, 1 site | {one:.0f} pairs a second |")
    print(f"| the same on a file system in memory | {alone:.0f} pairs a second |")
    print(f"| ask + tell, every answer on disk, 1 000 sites in one store | {many:.0f} pairs a second |")
    print(f"| a journal of {n:,} events opens from its snapshot in | {opened:.2f} s (CPU) |".replace(",", " "))
    print(f"| the same is replayed from its first event at | {replayed:,.0f} events a second (CPU) |".replace(",", " "))
    print("\n".join(read))
    print(f"| the same on disk | {size / n:.0f} bytes an event |")
    held = [memory(problem, decisions) / 1_000 for decisions in (1_000, 10_000)]
    print(f"| memory of a fleet after 1 000 and 10 000 decisions | {held[0]:.0f} and {held[1]:.0f} kB |")
    print("\n| stores | days until nothing is refused, seeds 0 to 4 |\n|---|---|")
    for sites in (1, 10, 100):
        days = sorted(last_refusal(problem, sites, seed) for seed in range(5))
        print(f"| {sites} | {days[2]} ({days[0]} to {days[-1]}) |")


if __name__ == "__main__":
    main()
