"""How long it takes to get going: the command line, the import, and a first plan with and without compiled kernels.

Each in a process of its own: the best of three, or one if nothing is cached. The limit is Python alone, or Python with
numba once something is compiled. The second table has the kernels that take longest to compile, of all that the agents
need; a kernel is counted without those that it calls.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time

from measure import Table, machine

ROUNDS, LONGEST = 3, 12
IMPORT = "import surefooted"
PLAN = """
import surefooted as sf
problem = sf.problems.inventory()
agent = sf.UCRL2(problem.space)
agent.begin(problem.start)
"""
AGENTS = (
    PLAN
    + """
played = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
known = sf.Baseline(problem.baseline, played.gain, played.bias)
run = sf.simulate(problem, sf.CUCRL2(problem.space, bounded=False, alpha=0.2, baseline=known), 3_000)
sf.evaluate(run, problem, 0.2)
grid = sf.problems.gridworld()
known = sf.Baseline(grid.baseline, values=sf.solve.policy_values(grid.mdp, grid.baseline, grid.horizon))
run = sf.simulate(grid, sf.CUCBVI(grid.space, grid.horizon, alpha=0.1, baseline=known), episodes=50)
sf.evaluate(run, grid, 0.1)
"""
)
RECORD = f"""
import json
from numba.core import event
with event.install_recorder("numba:compile") as recorded:
    exec({AGENTS!r})
stack, own = [], {{}}
for moment, happened in recorded.buffer:
    if happened.is_start:
        stack.append([moment, 0.0])
    else:
        began, inside = stack.pop()
        name = happened.data["dispatcher"].py_func.__qualname__
        times, spent = own.get(name, (0, 0.0))
        own[name] = times + 1, spent + moment - began - inside
        if stack:
            stack[-1][1] += moment - began
print(json.dumps(own))
"""


def seconds(command: list[str], cold: bool = False) -> tuple[float, float]:
    """Time and CPU time of a command; `cold` gives it an empty cache of compiled kernels."""
    best = float("inf"), float("inf")
    for _ in range(1 if cold else ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | ({"NUMBA_CACHE_DIR": folder} if cold else {})
            begin, used = time.perf_counter(), cpu()
            subprocess.run(command, env=environment, check=True, capture_output=True)
            best = min(best, (time.perf_counter() - begin, cpu() - used))
    return best


def cpu() -> float:
    """The CPU time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    print(machine())
    python = [sys.executable, "-c"]
    surefooted = [sys.executable, "-m", "surefooted"]
    subprocess.run([*python, PLAN], check=True)  # compile
    table = Table(("what", 36), ("seconds", 8), ("of CPU", 8), ("of limit", 8))
    alone, compiler = seconds([*python, "pass"])[0], seconds([*python, "import numba"])[0]
    for what, command, cold, limit in (
        ("Python alone", [*python, "pass"], False, alone),
        ("import surefooted", [*python, IMPORT], False, alone),
        ("surefooted --help", [*surefooted, "--help"], False, alone),
        ("import numba", [*python, "import numba"], False, alone),
        ("first plan, kernels cached", [*python, PLAN], False, compiler),
        ("first plan, nothing cached", [*python, PLAN], True, compiler),
        ("all agents, nothing cached", [*python, AGENTS], True, compiler),
        ("surefooted warm-up, nothing cached", [*surefooted, "warm-up"], True, compiler),
    ):
        taken, used = seconds(command, cold)
        table.row(what, taken, used, f"{taken / limit:.1f}x")
    print()
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        found = subprocess.run([*python, RECORD], env=environment, check=True, capture_output=True, text=True).stdout
    kernels = sorted(json.loads(found.splitlines()[-1]).items(), key=lambda item: -item[1][1])
    table = Table(("kernel", 36), ("types", 8), ("seconds", 8))
    for name, (times, spent) in kernels[:LONGEST]:
        table.row(name, times, spent)
    table.row(f"all {len(kernels)}", sum(times for _, (times, _) in kernels), sum(spent for _, (_, spent) in kernels))


if __name__ == "__main__":
    main()
