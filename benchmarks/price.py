"""What each condition costs: baseline steps and regret of the conservative agents of finished studies.

`python benchmarks/price.py results/decisions results/decisions-valid`. Numbers are means over the realisations; ± is
the standard error. `regret` is that of the rewards drawn, divided by the regret of UCRL2 with the same set and
knowledge. The expected regret is not used: it is computed by replay, which misjudges agents that decide step by step.
`violated` counts the runs that violate the condition that the agent keeps.

`floor` is what safety would cost with hindsight if UCRL2's own decisions were played, each in its turn. UCRL2's margin
is lowest at some step t. Playing the baseline n times before t adds α n g to it, g being the gain of the baseline. So n
is at least the deepest shortfall divided by α g. An agent that decides better than UCRL2 can need less.
"""

import sys
from typing import Any

import numpy as np
from measure import Table

import surefooted as sf
from surefooted.studies.building import build_problem
from surefooted.studies.columns import kept
from surefooted.studies.results import Results
from surefooted.studies.spec import Setting

LEARNER = ("confidence", "bounded", "knowledge")  # what an agent has in common with the UCRL2 that it is compared with


def options(results: Results, setting: Setting) -> dict[str, Any]:
    return results.study.agents[setting.agent].parameters


def unconstrained(results: Results, setting: Setting) -> list[Setting]:
    """UCRL2 with the same set and knowledge, judged at every α; first at that of the setting."""
    learner = {name: options(results, setting).get(name) for name in LEARNER}
    free = [other for other in results.settings if results.study.agents[other.agent].kind == "UCRL2"]
    same = [other for other in free if learner == {name: options(results, other).get(name) for name in LEARNER}]
    if setting.alpha not in [other.alpha for other in same]:
        raise SystemExit(f"{results.study.name} has no UCRL2 to compare {setting.label} with")
    return sorted(same, key=lambda other: other.alpha != setting.alpha)


def main() -> None:
    columns = (("study", 32), ("keeps", 10), ("widths", 21), ("known", 18), ("alpha", 6), ("baseline steps", 15))
    table = Table(*columns, ("regret", 7), ("violated", 9), ("floor", 12))
    for path in sys.argv[1:]:
        results = sf.studies.load(path)
        problem = build_problem(results.study.problem)
        gain = sf.solve.gain_and_bias(problem.mdp, problem.baseline).gain
        for setting in results.settings:
            condition, chosen = results.condition(setting), options(results, setting)
            if condition is None:
                continue
            free = unconstrained(results, setting)
            steps = results.column(setting, "baseline_steps")
            violated = results.column(setting, kept(condition, "violations_total"))
            regret = results.column(setting, "regret").mean()
            of_free = np.mean([results.column(other, "regret") for other in free])  # UCRL2 does not use α
            deepest = np.maximum(-results.column(free[0], kept(condition, "min_margin")), 0.0)
            table.row(
                results.study.name,
                condition if chosen.get("strict", True) else f"{condition}*",
                chosen.get("confidence", "likelihood"),
                "+".join(chosen.get("knowledge", ["-"])),
                f"{setting.alpha:g}",
                _mean(steps),
                f"{regret / of_free:.2f}",
                f"{np.count_nonzero(violated)} of {len(violated)}",
                _mean(deepest / (setting.alpha * gain)),
            )
    print("* without a reserve")


def _mean(values: Any) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.0f} ± {error:.0f}"


if __name__ == "__main__":
    main()
