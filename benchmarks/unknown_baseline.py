"""What does it cost not to know the baseline's gain and bias? Steps of the baseline that CUCRL2 plays, and its regret.

Condition "replay", three agents: one that bounds the gain from below on one side of the condition and from above on the
other; one that also nets the gain (the default); and one that is told gain and bias. Condition "decisions", three more:
one that is told the exact span of the bias; one that is told twice the span, or none at all if it has knowledge; and
one that is told gain and bias. Valid sets (`likelihood`), truncated Gaussian noise of scale 0.1, seeds 0 to 2.
`python benchmarks/unknown_baseline.py decisions riverswim` does one condition and one problem.
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
PATIENCE = {"inventory": 0.0, "riverswim": 0.1, "maintenance": 0.0}  # of agents that keep "decisions"
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


HEADS = {
    "replay": ("gain from both ends", "gain netted", "gain and bias known"),
    "decisions": ("span known", "twice the span, or none", "gain and bias known"),
}


def play(
    problem: Problem, steps: int, alpha: float, knowledge: tuple[str, ...], agent: str
) -> tuple[float, float, int]:
    """Mean steps of the baseline, mean regret, and violations of all runs of an agent that keeps "replay"."""
    exact = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    told = sf.Baseline(problem.baseline, exact.gain, exact.bias)
    baseline, rows = told if agent == "gain and bias known" else sf.Baseline(problem.baseline), []
    options = {"knowledge": problem.knowledge(*knowledge)} if knowledge else {}
    netted = Netting.references
    try:
        if agent == "gain from both ends":
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


def decide(
    problem: Problem, steps: int, alpha: float, knowledge: tuple[str, ...], agent: str
) -> tuple[float, float, int]:
    """Mean steps of the baseline, mean regret of decisions, and violations of all runs that keep "decisions"."""
    exact = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    span, rows = float(np.ptp(exact.bias)), []
    options = {"knowledge": problem.knowledge(*knowledge)} if knowledge else {}
    baseline = {
        "span known": sf.Baseline(problem.baseline, span=span),
        "twice the span, or none": sf.Baseline(problem.baseline, span=None if knowledge else 2 * span),
        "gain and bias known": sf.Baseline(problem.baseline, exact.gain, exact.bias),
    }[agent]
    for seed in SEEDS:
        told = {"baseline": baseline, "alpha": alpha, "patience": PATIENCE[problem.name], "seed": seed}
        player = sf.CUCRL2(problem.space, condition="decisions", **told, **options)
        run = sf.simulate(problem, player, steps, seed=seed)
        found = sf.evaluate(run, problem, alpha)
        assert found.decisions is not None
        rows.append((run.baseline_steps, found.decision_regret[-1], found.decisions.violations))
    played, regret, violations = np.array(rows).T
    return float(played.mean()), float(regret.mean()), int(violations.sum())


def main() -> None:
    """One table for each condition."""
    print(f"{machine()}")
    for condition, agents in HEADS.items():
        if set(sys.argv[1:]) & set(HEADS) and condition not in sys.argv[1:]:
            continue
        print(f"\nCondition {condition!r}:\n")
        print(f"| problem, what is known | α | {' | '.join(agents)} | violations |")
        print("|---|---|---|---|---|---|")
        for name, knowledge, alphas in CASES:
            if set(sys.argv[1:]) & set(STEPS) and name not in sys.argv[1:]:
                continue
            problem, measure = getattr(sf.problems, name)(noise=NOISE), play if condition == "replay" else decide
            for alpha in alphas:
                found = [measure(problem, STEPS[name], alpha, knowledge, agent) for agent in agents]
                cells = " | ".join(f"{played:.0f} / {regret:.0f}" for played, regret, _ in found)
                label = f"{name}, {' and '.join(knowledge) or 'nothing'}"
                print(f"| {label} | {alpha} | {cells} | {sum(bad for *_, bad in found)} |", flush=True)


if __name__ == "__main__":
    main()
