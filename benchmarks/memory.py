"""How much time and memory a large problem takes: 100 000 states, 4 actions, 10 successors, one million steps.

`python benchmarks/memory.py 1000000`; each row is a process of its own, with the problem built in it. Progress is on
standard error. The baseline of CUCRL2 is known: it is solved for before the clock starts. The peak of a run is counted
from the end of building on, where the system can (Linux). The limit is the table itself: a successor and its
probability for each transition, a reward and a place for each pair.
"""

import resource
import subprocess
import sys
import threading
import time

from measure import Table, machine

STATES, ACTIONS, SUCCESSORS = 100_000, 4, 10
WHAT = ("build", "UCRL2", "CUCRL2")
EVERY = 10.0  # seconds between two lines of progress


def report(name: str, agent: object, begin: float, done: threading.Event) -> None:
    while not done.wait(EVERY):
        print(f"{name}: {getattr(agent, 't', 0)} steps, {time.perf_counter() - begin:.0f} s", file=sys.stderr)


def forget_peak() -> None:
    """Count the peak of this process anew."""
    try:
        with open("/proc/self/clear_refs", "w") as control:
            control.write("5")
    except OSError:
        pass


def peak_megabytes() -> float:
    """The most memory that this process has held since the peak was forgotten, or ever."""
    try:
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def child(name: str, steps: int) -> None:
    """Do one thing, and print seconds of building it, seconds of running it, and the peak in MB."""
    import surefooted as sf

    begin = time.perf_counter()
    problem = sf.problems.garnet(STATES, ACTIONS, SUCCESSORS, seed=1)
    built, ran = time.perf_counter() - begin, 0.0
    if name != "build":
        options = {"confidence": sf.confidence.simplified_bernstein}
        agent: sf.UCRL2 | sf.CUCRL2 = sf.UCRL2(problem.space, **options)
        if name == "CUCRL2":
            played = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
            known = sf.Baseline(problem.baseline, played.gain, played.bias)
            agent = sf.CUCRL2(problem.space, baseline=known, alpha=0.05, **options)
        forget_peak()
        begin, done = time.perf_counter(), threading.Event()
        threading.Thread(target=report, args=(name, agent, begin, done), daemon=True).start()
        sf.simulate(problem, agent, steps)
        done.set()
        ran = time.perf_counter() - begin
    print(built, ran, peak_megabytes())


def main() -> None:
    if len(sys.argv) > 2:
        child(sys.argv[2], int(sys.argv[1]))
        return
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print(machine())
    print(f"{STATES} states, {ACTIONS} actions, {SUCCESSORS} successors, {steps} steps")
    columns = (("what", 8), ("build s", 8), ("run s", 8), ("us per step", 12), ("peak MB", 8))
    table = Table(*columns, ("limit MB", 8), ("of limit", 8))
    limit = (16 * SUCCESSORS + 16) * STATES * ACTIONS / 1e6
    for name in WHAT:
        command = [sys.executable, __file__, str(steps), name]
        found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        built, ran, peak = map(float, found.split())
        speed = [ran, 1e6 * ran / steps] if ran else ["-", "-"]
        table.row(name, built, *speed, peak, limit, f"{peak / limit:.0f}x")


if __name__ == "__main__":
    main()
