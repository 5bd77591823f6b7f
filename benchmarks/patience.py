"""Does it pay to save up after a refusal? CUCRL2 under the condition on decisions, by `patience`, and under replay.

`python benchmarks/patience.py double_chain` does one problem, without names all of them. Each cell has the steps of the
baseline, the regret of decisions, and how many departures follow each other on average.
"""

import sys

import numpy as np
from measure import machine

import surefooted as sf
from surefooted.evaluation.decisions import departures

SEEDS = range(5)
NOISE = {"noise": sf.Noise("truncated_gaussian", 0.1)}
CASES = {
    "inventory": (NOISE, 70_000, (0.05, 0.01)),
    "riverswim": (NOISE, 70_000, (0.2, 0.05)),
    "maintenance": (NOISE, 20_000, (0.05, 0.01)),
    "double_chain": ({"slip": 0.2}, 50_000, (0.1,)),  # as in `surefooted reproduce price`
}
PATIENCE = (0.0, 0.01, 0.1)


def in_a_row(left: np.ndarray) -> float:
    """How many departures follow each other on average."""
    begun = np.count_nonzero(np.diff(np.r_[0, left.astype(int)]) == 1)
    return np.count_nonzero(left) / max(begun, 1)


def main() -> None:
    """One row for each problem and α: means over the seeds."""
    agents = {f"patience {patience:g}": {"condition": "decisions", "patience": patience} for patience in PATIENCE}
    agents |= {"replay": {}}
    print(f"{machine()}\n")
    print(f"| problem | α | {' | '.join(agents)} | violations |")
    print("|---" * (3 + len(agents)) + "|")
    for name in sys.argv[1:] or CASES:
        options, steps, alphas = CASES[name]
        problem = getattr(sf.problems, name)(**options)
        exact = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
        baseline = sf.Baseline(problem.baseline, exact.gain, exact.bias)
        for alpha in alphas:
            cells, violated = [], 0
            for chosen in agents.values():
                rows = []
                for seed in SEEDS:
                    agent = sf.CUCRL2(problem.space, baseline=baseline, alpha=alpha, seed=seed, **chosen)
                    run = sf.simulate(problem, agent, steps, seed=seed)
                    found = sf.evaluate(run, problem, alpha)
                    assert found.decisions is not None
                    stretch = in_a_row(departures(run, problem.baseline))
                    rows.append((run.baseline_steps, found.decision_regret[-1], stretch))
                    violated += found.decisions.violations if chosen else found.violations
                played, regret, stretch = np.mean(rows, axis=0)
                cells.append(f"{played:.0f} / {regret:.0f} / {stretch:.3g}")
            print(f"| {name} | {alpha} | {' | '.join(cells)} | {violated} |", flush=True)


if __name__ == "__main__":
    main()
