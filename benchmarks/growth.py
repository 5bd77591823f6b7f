"""Is it √T? Regret and baseline steps of a finished study against T, slopes on log axes, and a bound for scale.

`python benchmarks/growth.py results/inventory`. A run is cut at T: none of the agents knows T beforehand. The slope is
that of a line through the last four doublings; √T has slope 0.5. The bound is Jaksch et al. (2010), Theorem 2, which
Lemma `ucrl.regret` restates without its constant: 34 D S sqrt(A T ln(T / δ)).
"""

import sys

import numpy as np

import surefooted as sf
from surefooted.studies.building import build_problem

DOUBLINGS = 7
DELTA = 0.05


def at(steps, curves, wanted):
    """The mean of the curves at the recorded step nearest to each wanted one."""
    return np.array([curves[:, np.argmin(np.abs(steps - t))].mean() for t in wanted])


def main() -> None:
    results = sf.studies.load(sys.argv[1])
    problem, length = build_problem(results.study.problem), results.study.length
    wanted = [length >> i for i in reversed(range(DOUBLINGS))]
    print(f"{'setting':>18} {'':>15}" + "".join(f"{t:>9}" for t in wanted) + f"{'slope':>7}")
    for setting in results.settings:
        for name, column in (("regret", "pseudo_regret"), ("baseline steps", "baseline_steps")):
            values = at(*results.curve(setting, column), wanted)
            if values[-1] <= 0:
                continue
            slope = np.polyfit(np.log(wanted[-4:]), np.log(np.maximum(values[-4:], 1e-9)), 1)[0]
            print(f"{setting.label:>18} {name:>15}" + "".join(f"{v:>9.0f}" for v in values) + f"{slope:>7.2f}")
    if problem.horizon is None:
        diameter, worst = sf.solve.diameter(problem.mdp), sf.solve.worst_case_diameter(problem.mdp)
        S, A = problem.space.n_states, problem.space.n_actions
        bound = [34 * diameter * S * np.sqrt(A * t * np.log(t / DELTA)) for t in wanted]
        print(f"{'bound':>18} {'UCRL2 regret':>15}" + "".join(f"{b:>9.2g}" for b in bound))
        print(
            f"\nD = {diameter:.4g}, Υ = {worst:g}: the bound of Lemma `baseline.regret` on baseline steps grows with Υ."
        )


if __name__ == "__main__":
    main()
