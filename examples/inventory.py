"""Compare UCRL2 and CUCRL2 on the paper's inventory problem, with one realisation for each α.

    python examples/inventory.py               # prints a table
    python examples/inventory.py figure.png    # also draws regret and margins

Widths and noise are those of the paper's experiments. Margins are exact, not sampled.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import surefooted as sf

STEPS = 70_000
COLOURS = {"UCRL2": "#d55e00", 0.01: "#56b4e9", 0.05: "#0072b2", 0.2: "#009e73"}


def main(picture: str | None = None) -> None:
    """Run both agents, print the table, and draw the figure if `picture` is a path."""
    problem = sf.problems.inventory()
    known = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    baseline = sf.Baseline(problem.baseline, known.gain, known.bias)
    widths = {"confidence": sf.confidence.simplified_bernstein, "bounded": False}
    best = sf.solve.optimal_gain(problem.mdp).gain
    print(f"inventory, {STEPS} steps; always playing the baseline has regret {(best - known.gain) * STEPS:.0f}")
    print(f"{'agent':<14} {'alpha':>6} {'regret':>7} {'baseline steps':>15} {'violations':>11} {'smallest margin':>16}")
    figure = Figure(figsize=(10, 4), layout="constrained")
    regret, margin = figure.subplots(1, 2)
    t = np.unique(np.geomspace(1, STEPS, 600).astype(int))
    free = sf.simulate(problem, sf.UCRL2(problem.space, **widths), STEPS)
    for alpha in (0.01, 0.05, 0.2):
        agent = sf.CUCRL2(problem.space, baseline=baseline, alpha=alpha, **widths)
        for name, run in (("UCRL2", free), ("CUCRL2", sf.simulate(problem, agent, STEPS))):
            found = sf.evaluate(run, problem, alpha)
            cells = f"{found.expected_regret[-1]:>7.0f} {run.baseline_steps:>15} {found.violations:>11}"
            print(f"{name:<14} {alpha:>6} {cells} {found.margin.min():>16.2f}", flush=True)
            if name == "CUCRL2" or alpha == 0.05:
                label, colour = (name, COLOURS[name]) if name == "UCRL2" else (f"CUCRL2, α = {alpha}", COLOURS[alpha])
                regret.plot(t, found.expected_regret[t - 1], color=colour, label=label)
            if alpha == 0.05:
                margin.plot(t, found.margin[t - 1], color=COLOURS[name if name == "UCRL2" else alpha], label=name)
    always = np.arange(1, STEPS + 1) * best - found.baseline
    regret.plot(t, always[t - 1], color="0.6", linestyle=":", label="always the baseline")
    regret.set(xlabel="step", ylabel="expected regret", title="regret")
    margin.axhline(0, color="0.6", linewidth=0.8)
    margin.set(xlabel="step", ylabel="exact margin", title="margin of the condition, α = 0.05")
    margin.set(xscale="log", ylim=(-30, 60))
    for ax in (regret, margin):
        ax.legend(frameon=False)
        ax.spines[["top", "right"]].set_visible(False)
    if picture is not None:
        figure.savefig(picture, dpi=130)
        print(f"Figure written to {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
