"""What does it cost not to know the baseline's gain and bias? Steps of the baseline that CUCRL2 plays, and its regret.

Three agents: one that bounds the gain from below on one side of the condition and from above on the other; one that
also nets the gain (the default); and one that is told gain and bias. Valid sets (`likelihood`), truncated Gaussian
noise of scale 0.1, seeds 0 to 2. `python benchmarks/unknown_baseline.py riverswim` does one problem.
"""

import sys

import numpy as np
from measure import machine

import surefooted as sf
from surefooted.certificates.netting import Netting
from surefooted.problems.problem import Problem

SEEDS = range(3)
NOISE = sf.Noise("truncated_gaussian", 0.1)
STEPS = {"inventory": 70_000, "riverswim": 70_000, "maintenance": 10_000}
CASES: list[tuple[str, tuple[str, ...], tuple[float, ...]]] = [
    ("inventory", ("mechanics", "rewards"), (0.2, 0.05, 0.02, 0.01)),
    ("inventory", ("mechanics",), (0.2, 0.05)),
    ("inventory", ("successors", "rewards"), (0.2, 0.05)),
    ("inventory", (), (0.2, 0.05)),
    ("riverswim", ("successors", "rewards"), (0.2, 0.05)),
    ("riverswim", ("successors",), (0.2, 0.05)),
    ("riverswim", (), (0.2, 0.05)),
    ("maintenance", ("mechanics", "rewards"), (0.2, 0.05, 0.01)),
    ("maintenance", ("mechanics",), (0.2,)),
    ("maintenance", (), (0.2,)),
]


def play(
    problem: Problem, steps: int, alpha: float, knowledge: tuple[str, ...], agent: str
) -> tuple[float, float, int]:
    """Mean steps of the baseline, mean regret, and violations of all runs."""
    exact = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    told = sf.Baseline(problem.baseline, exact.gain, exact.bias)
    baseline, rows = told if agent == "known" else sf.Baseline(problem.baseline), []
    options = {"knowledge": problem.knowledge(*knowledge)} if knowledge else {}
    netted = Netting.references
    try:
        if agent == "both ends":
            Netting.references = lambda self, split: ()  # type: ignore[method-assign]
        for seed in SEEDS:
            player = sf.CUCRL2(problem.space, baseline=baseline, alpha=alpha, seed=seed, **options)
            run = sf.simulate(problem, player, steps, seed=seed)
            found = sf.evaluate(run, problem, alpha)
            rows.append((run.baseline_steps, found.expected_regret[-1], found.violations))
    finally:
        Netting.references = netted  # type: ignore[method-assign]
    played, regret, violations = np.array(rows).T
    return float(played.mean()), float(regret.mean()), int(violations.sum())


def main() -> None:
    print(f"{machine()}\n")
    print("| problem, what is known | α | gain from both ends | gain netted | gain and bias known | violations |")
    print("|---|---|---|---|---|---|")
    for name, knowledge, alphas in CASES:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        problem = getattr(sf.problems, name)(noise=NOISE)
        for alpha in alphas:
            found = [play(problem, STEPS[name], alpha, knowledge, agent) for agent in ("both ends", "netted", "known")]
            cells = " | ".join(f"{played:.0f} / {regret:.0f}" for played, regret, _ in found)
            label = f"{name}, {' and '.join(knowledge) or 'nothing'}"
            print(f"| {label} | {alpha} | {cells} | {sum(bad for *_, bad in found)} |", flush=True)


if __name__ == "__main__":
    main()
