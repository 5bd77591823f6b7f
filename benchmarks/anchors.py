"""What anchors are worth: baseline steps and regret of CUCRL2 (replay) with and without them.

A known baseline and likelihood sets. "the baseline's pairs" has only the anchors that take nothing of δ; "all" adds
those from data. Means over realisations with the half-width of a 95 % interval; `floor` as in proposals.py, for the
learner's own decisions without a certificate.

    python benchmarks/anchors.py [realisations]
"""

import sys

import numpy as np
from measure import Table, machine
from proposals import interval

import surefooted as sf

DELTA = 0.05
CASES = (
    ("inventory", sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1)), 0.05, 70_000),
    ("inventory, Bernoulli", sf.problems.inventory(noise=sf.Noise("bernoulli")), 0.05, 70_000),
    ("riverswim", sf.problems.riverswim(), 0.1, 20_000),
    ("garnet, 30 states", sf.problems.garnet(n_states=30, seed=2), 0.2, 50_000),
)
ANCHORS = ("none", "the baseline's pairs", "all")


def learner_of(problem, kind: str, anchors: str, seed: int):
    """A learner; if anchors come from data, its set leaves them a tenth of δ."""
    delta = 0.9 * DELTA if anchors == "all" else DELTA
    return (sf.PSRL if kind == "PSRL" else sf.UCRL2)(problem.space, delta=delta, seed=seed)


def main() -> None:
    realisations = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(f"{machine()}\n{realisations} realisations")
    columns = (("problem", 21), ("alpha", 6), ("learner", 8), ("anchors", 21), ("baseline steps", 16))
    table = Table(*columns, ("regret", 12), ("violated", 9), ("floor", 12))
    for name, problem, alpha, steps in CASES:
        played = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
        baseline = sf.Baseline(problem.baseline, played.gain, played.bias)
        for kind in ("UCRL2", "PSRL"):
            floor = []
            for seed in range(realisations):
                run = sf.simulate(problem, learner_of(problem, kind, "none", seed), steps=steps, seed=seed)
                least = sf.evaluate(run, problem, alpha).margin.min()
                floor.append(max(-least, 0.0) / (alpha * played.gain))
            for anchors in ANCHORS:
                kept, regret, violated = [], [], 0
                for seed in range(realisations):
                    agent = sf.CUCRL2(
                        problem.space,
                        baseline=baseline,
                        alpha=alpha,
                        delta=DELTA if anchors == "all" else None,
                        learner=learner_of(problem, kind, anchors, seed),
                        anchored=anchors != "none",
                        seed=seed,
                    )
                    run = sf.simulate(problem, agent, steps=steps, seed=seed)
                    result = sf.evaluate(run, problem, alpha)
                    kept.append(run.baseline_steps)
                    regret.append(result.expected_regret[-1])
                    violated += bool(result.violations)
                row = (name, f"{alpha:g}", kind, anchors, interval(kept), interval(np.array(regret)))
                table.row(*row, f"{violated} of {realisations}", interval(floor))


if __name__ == "__main__":
    main()
