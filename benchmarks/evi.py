"""How long does one sweep of extended value iteration take per state–action pair, as the problem grows.

Garnets with 10 actions and 10 successors, every pair visited 50 times, boxes (`simplified_bernstein`) and L1 balls (of
width 0.3: after 50 visits Jaksch's would hold everything), one core. The last column divides by the first row of its
kind.
"""

import time
from dataclasses import replace

import numpy as np

import surefooted as sf


def counted(n_states: int) -> sf.Counts:
    """Counts of 50 visits to each pair of a garnet."""
    problem = sf.problems.garnet(n_states, 10, 10, seed=1)
    counts = sf.Counts(problem.space)
    rng = np.random.default_rng(0)
    mdp, k = problem.mdp, problem.space.n_pairs
    successors = mdp.next_state.reshape(k, 10)
    choice = (rng.random((k, 50, 1)) > np.cumsum(mdp.p.reshape(k, 10), axis=1)[:, None, :]).sum(axis=2)
    next_states = np.take_along_axis(successors, np.minimum(choice, 9), axis=1)
    rewards = rng.random((k, 50)) < mdp.r[:, None]
    counts.add_steps(np.repeat(np.arange(k), 50), rewards.ravel().astype(float), next_states.ravel())
    return counts


def main() -> None:
    print(f"{'states':>8} {'pairs':>9} {'set':>10} {'sweeps':>7} {'ns per pair and sweep':>22} {'of smallest':>12}")
    first: dict[str, float] = {}
    for n_states in (1_000, 10_000, 100_000):
        counts = counted(n_states)
        boxes = sf.confidence.simplified_bernstein(counts, 0.05)
        high = np.minimum(counts.reward_sum / counts.visits + 0.1, 1.0)
        width = np.full(counts.space.n_pairs, 0.3)
        balls = replace(sf.confidence.hoeffding(counts, 0.05), r_upper=high, width=width)
        for name, plausible in (("boxes", boxes), ("L1 balls", balls)):
            sf.planning.optimistic_gain(plausible, 1e-3, most=2)  # compile, and build the rows
            begin = time.perf_counter()
            plan = sf.planning.optimistic_gain(plausible, 1e-9, most=30)
            spent = (time.perf_counter() - begin) / plan.sweeps / counts.space.n_pairs * 1e9
            first.setdefault(name, spent)
            row = f"{n_states:>8} {counts.space.n_pairs:>9} {name:>10} {plan.sweeps:>7} {spent:>22.0f}"
            print(f"{row} {spent / first[name]:>12.2f}", flush=True)


if __name__ == "__main__":
    main()
