"""How long does the oracle take? Expected rewards of every step, beside plain sweeps over the chain for some of them.

CPU seconds for T steps of the baseline, and of a whole evaluation of UCRL2 with T / 10 steps. `plain` is the time of a
call for one step, which cannot stand still, times T; on much smaller problems the call itself would count.
"""

import time
from typing import Any

import numpy as np
from measure import Table, machine

import surefooted as sf
from surefooted.kernels import chains
from surefooted.solve.chain import induced_chain

STEPS, SAMPLE = 200_000, 2_000
PROBLEMS = {
    "maintenance": sf.problems.maintenance,
    "garnet 1000": lambda: sf.problems.garnet(1_000, 4, 10, seed=3),
}


def cpu_seconds(function: Any, rounds: int = 3) -> float:
    """The least CPU time of some calls."""
    best = np.inf
    for _ in range(rounds):
        begin = time.process_time()
        function()
        best = min(best, time.process_time() - begin)
    return best


def plain_step(problem: Any) -> float:
    """CPU seconds of one sweep: steps are played one at a time, so that nothing can be seen to stand still."""
    chain, x = induced_chain(problem.mdp, problem.baseline), np.full(problem.space.n_states, 1 / problem.space.n_states)
    earned, out = np.zeros(2), np.empty(1)

    def some() -> None:
        for _ in range(SAMPLE):
            chains.accumulate_rewards(chain, earned, x, out)

    return cpu_seconds(some) / SAMPLE


def main() -> None:
    print(machine())
    table = Table(("problem", 12), ("T", 8), ("plain s", 9), ("ours s", 9), ("ratio", 7), ("evaluate s", 10))
    for name, make in PROBLEMS.items():
        problem = make()
        run = sf.simulate(
            problem, sf.UCRL2(problem.space, confidence="simplified_bernstein", bounded=False), STEPS // 10
        )
        evaluate = cpu_seconds(lambda run=run, problem=problem: sf.evaluate(run, problem, 0.1), 1)
        plain = plain_step(problem) * STEPS
        args = (problem.mdp, problem.baseline, problem.start, STEPS)
        ours = cpu_seconds(lambda args=args: sf.solve.expected_rewards(*args))
        table.row(name, STEPS, plain, ours, f"{plain / ours:.0f}x", evaluate)


if __name__ == "__main__":
    main()
