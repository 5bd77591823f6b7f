"""What does safety cost? Baseline steps and regret of CUCRL2 on the inventory problem, for each certificate.

T = 70 000, α = 0.05, the widths of the paper's experiments, seeds 0 to 4; `all or nothing` is the paper's episode rule.
The regret is the expected one, T g* - E[rewards | policies played]. Violations are exact.
"""

import time

import numpy as np
from measure import machine

import surefooted as sf

STEPS, ALPHA, SEEDS = 70_000, 0.05, range(5)
PAPER = {"strict": False, "affordable": False, "patience": 0.0}
AGENTS = {
    "UCRL2": None,
    "paper, all or nothing, no reserve": {"certificate": "paper"} | PAPER,
    "reevaluated, all or nothing, no reserve": {"certificate": "reevaluated"} | PAPER,
    "paper": {"certificate": "paper"},
    "reevaluated": {"certificate": "reevaluated"},
    "segments": {"certificate": "segments"},
    "induction": {"certificate": "induction"},
    "induction, baseline unknown": {"certificate": "induction", "baseline": "unknown"},
}


def main() -> None:
    problem = sf.problems.inventory()
    played = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    baseline = sf.Baseline(problem.baseline, played.gain, played.bias)
    options = {"confidence": sf.confidence.simplified_bernstein, "bounded": False}
    sf.simulate(problem, sf.CUCRL2(problem.space, baseline=baseline, alpha=ALPHA, **options), 2_000)  # compile
    print(f"{machine()}\n")
    print("| CUCRL2 with certificate | baseline steps | regret | violations | smallest margin | seconds |")
    print("|---|---|---|---|---|---|")
    for name, choices in AGENTS.items():
        rows = []
        for seed in SEEDS:
            agent: sf.UCRL2 | sf.CUCRL2 = sf.UCRL2(problem.space, seed=seed, **options)
            if choices is not None:
                told = sf.Baseline(problem.baseline) if "baseline" in choices else baseline
                chosen = {name: choice for name, choice in choices.items() if name != "baseline"}
                agent = sf.CUCRL2(problem.space, baseline=told, alpha=ALPHA, seed=seed, **options, **chosen)
            begin = time.perf_counter()
            run = sf.simulate(problem, agent, STEPS, seed=seed)
            seconds = time.perf_counter() - begin
            found = sf.evaluate(run, problem, ALPHA)
            rows.append((run.baseline_steps, found.expected_regret[-1], found.violations, found.margin.min(), seconds))
        steps, regret, violations, margin, seconds = np.array(rows).T
        cells = f"{steps.mean():.0f} | {regret.mean():.0f} | {violations.sum():.0f} | {margin.min():.2f}"
        label = name if choices is None else f'"{name.split(",")[0]}"' + name[len(name.split(",")[0]) :]
        print(f"| {label} | {cells} | {seconds.mean():.2f} |", flush=True)


if __name__ == "__main__":
    main()
