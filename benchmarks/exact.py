"""How long do exact answers take, and how much memory, as an MDP grows? Garnets with 4 actions and 10 successors.

The yardstick, in the same run on the same table, is value iteration with SciPy's sparse matrices, stopped at the same
accuracy on the gain; both gains are checked equal first.
"""

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from surefooted import problems, solve

ACCURACY = 1e-6


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function returns, and the seconds it took."""
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


def yardstick(mdp: Any) -> float:
    """The optimal gain by value iteration, as one would write it with SciPy."""
    matrix = csr_matrix((mdp.p, mdp.next_state, mdp.next_ptr), shape=(mdp.space.n_pairs, mdp.n_states))
    v = np.zeros(mdp.n_states)
    while True:
        new = (mdp.r + matrix @ v).reshape(mdp.n_states, -1).max(axis=1)
        change = new - v
        if np.ptp(change) <= ACCURACY:
            return float((change.max() + change.min()) / 2)
        v = new - new[0]


def main() -> None:
    small = problems.garnet(20, 4, 5).mdp  # compile first
    solve.optimal_gain(small)
    solve.gain_and_bias(problems.garnet(700, 2, 5).mdp, problems.garnet(700, 2, 5).baseline)
    print(
        f"{'states':>8} {'build s':>8} {'optimal s':>10} {'SciPy VI s':>11} {'ratio':>6} {'policy s':>9} {'peak MB':>8}"
    )
    for n_states in (100, 1_000, 10_000, 100_000):
        problem, build = timed(lambda n=n_states: problems.garnet(n, 4, 10, seed=1))
        best, ours = timed(lambda: solve.optimal_gain(problem.mdp, ACCURACY))  # noqa: B023
        gain, theirs = timed(lambda: yardstick(problem.mdp))  # noqa: B023
        _, policy = timed(lambda: solve.gain_and_bias(problem.mdp, problem.baseline))  # noqa: B023
        if abs(best.gain - gain) > 2 * ACCURACY:
            raise SystemExit(f"{n_states} states: {best.gain} and {gain} disagree")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        cells = f"{n_states:>8} {build:>8.2f} {ours:>10.3f} {theirs:>11.3f} {theirs / ours:>6.1f}"
        print(f"{cells} {policy:>9.3f} {peak:>8.0f}")


if __name__ == "__main__":
    main()
