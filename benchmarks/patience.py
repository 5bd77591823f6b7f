"""Does it pay to save up after a refusal? CUCRL2 under the condition on decisions, by `patience`, and under replay."""

import numpy as np
from measure import machine

import surefooted as sf

SEEDS = range(5)
NOISE = sf.Noise("truncated_gaussian", 0.1)
CASES = {"inventory": (70_000, (0.05, 0.01)), "riverswim": (70_000, (0.2, 0.05)), "maintenance": (20_000, (0.05, 0.01))}
PATIENCE = (0.0, 0.01, 0.1)


def main() -> None:
    """One row for each problem and α: steps of the baseline / regret of decisions, means over the seeds."""
    print(f"{machine()}\n")
    print(f"| problem | α | {' | '.join(f'patience {patience:g}' for patience in PATIENCE)} | violations |")
    print("|---" * (3 + len(PATIENCE)) + "|")
    for name, (steps, alphas) in CASES.items():
        problem = getattr(sf.problems, name)(noise=NOISE)
        exact = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
        baseline = sf.Baseline(problem.baseline, exact.gain, exact.bias)
        for alpha in alphas:
            cells, violated = [], 0
            for patience in PATIENCE:
                rows = []
                for seed in SEEDS:
                    told = {"baseline": baseline, "alpha": alpha, "patience": patience, "seed": seed}
                    agent = sf.CUCRL2(problem.space, condition="decisions", **told)
                    run = sf.simulate(problem, agent, steps, seed=seed)
                    found = sf.evaluate(run, problem, alpha)
                    assert found.decisions is not None
                    rows.append((run.baseline_steps, found.decision_regret[-1]))
                    violated += found.decisions.violations
                played, regret = np.mean(rows, axis=0)
                cells.append(f"{played:.0f} / {regret:.0f}")
            print(f"| {name} | {alpha} | {' | '.join(cells)} | {violated} |", flush=True)


if __name__ == "__main__":
    main()
