"""How long it takes to get going: the command line, the import, and a first plan with and without compiled kernels.

Each in a process of its own, best of three. The limit is Python alone, or Python with numba once something is
compiled. The second table says what is compiled longest when nothing is cached, of
the kernels that the first plan needs; what a kernel calls is not counted with it.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

from measure import Table, machine

ROUNDS, LONGEST = 3, 8
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
    {PLAN.strip().replace(chr(10), chr(10) + "    ")}
stack, own = [], {{}}
for moment, happened in recorded.buffer:
    if happened.is_start:
        stack.append([moment, 0.0])
    else:
        began, inside = stack.pop()
        name = happened.data["dispatcher"].py_func.__qualname__
        own[name] = own.get(name, 0.0) + moment - began - inside
        if stack:
            stack[-1][1] += moment - began
print(json.dumps(own))
"""


def seconds(command: list[str], cold: bool = False, rounds: int = ROUNDS) -> float:
    """The best time of a command; `cold` gives it an empty cache of compiled kernels each time."""
    best = float("inf")
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | ({"NUMBA_CACHE_DIR": folder} if cold else {})
            begin = time.perf_counter()
            subprocess.run(command, env=environment, check=True, capture_output=True)
            best = min(best, time.perf_counter() - begin)
    return best


def main() -> None:
    print(machine())
    python = [sys.executable, "-c"]
    subprocess.run([*python, PLAN], check=True)  # compile
    table = Table(("what", 36), ("seconds", 8), ("of limit", 8))
    alone, compiler = seconds([*python, "pass"]), seconds([*python, "import numba"])
    help_command = [sys.executable, "-m", "surefooted", "--help"]
    for what, command, cold, limit in (
        ("Python alone", [*python, "pass"], False, alone),
        ("import surefooted", [*python, IMPORT], False, alone),
        ("surefooted --help", help_command, False, alone),
        ("import numba", [*python, "import numba"], False, alone),
        ("first plan, kernels cached", [*python, PLAN], False, compiler),
        ("first plan, nothing cached", [*python, PLAN], True, compiler),
        ("all agents, nothing cached", [*python, AGENTS], True, compiler),
    ):
        taken = seconds(command, cold)
        table.row(what, taken, f"{taken / limit:.1f}x")
    print()
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        found = subprocess.run([*python, RECORD], env=environment, check=True, capture_output=True, text=True).stdout
    kernels = sorted(json.loads(found.splitlines()[-1]).items(), key=lambda item: -item[1])
    table = Table(("kernel", 36), ("seconds", 8))
    for name, spent in kernels[:LONGEST]:
        table.row(name, spent)
    table.row(f"all {len(kernels)}", sum(spent for _, spent in kernels))


if __name__ == "__main__":
    main()
