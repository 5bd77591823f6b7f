"""What an account costs beside UCRL2: a garnet with 100 000 states, 4 actions and 10 successors.

`python benchmarks/account.py 100000` (steps). Both agents use `likelihood`, a valid set, with bounded rewards; CUCRL2
keeps the condition on decisions, and its baseline is known: it is solved for before the clock starts. Each row is a
process of its own, and CPU time is counted, not time. The peak is that of running, as in `memory.py`.
"""

import subprocess
import sys
import time

from measure import Table, machine
from memory import ACTIONS, STATES, SUCCESSORS, forget_peak, peak_megabytes

WHAT = ("UCRL2", "CUCRL2, decisions")


def child(name: str, steps: int) -> None:
    """Run one agent, and print its CPU seconds, the peak in MB, its plans, and the steps that departed."""
    import surefooted as sf

    problem = sf.problems.garnet(STATES, ACTIONS, SUCCESSORS, seed=1)
    played = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    known = sf.Baseline(problem.baseline, played.gain, played.bias)
    options = {"confidence": sf.confidence.likelihood, "delta": 0.05}
    agent: sf.UCRL2 | sf.CUCRL2 = sf.UCRL2(problem.space, **options)
    if name != "UCRL2":
        agent = sf.CUCRL2(problem.space, baseline=known, alpha=0.1, condition="decisions", **options)
    forget_peak()
    begin = time.process_time()
    run = sf.simulate(problem, agent, steps)
    print(time.process_time() - begin, peak_megabytes(), len(run.decisions), agent.explored)


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    if len(sys.argv) > 2:
        child(sys.argv[2], steps)
        return
    print(machine())
    print(f"{STATES} states, {ACTIONS} actions, {SUCCESSORS} successors, {steps} steps")
    columns = (("what", 18), ("CPU s", 8), ("us per step", 12), ("plans", 7), ("us per plan", 12))
    table = Table(*columns, ("explored", 9), ("peak MB", 8))
    for name in WHAT:
        command = [sys.executable, __file__, str(steps), name]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        seconds, peak, plans, explored = map(float, told.split())
        table.row(name, seconds, 1e6 * seconds / steps, int(plans), 1e6 * seconds / plans, int(explored), peak)


if __name__ == "__main__":
    main()
