"""How time grows: a plan with states and with transitions, a run with steps, a review with the policies of the past.

Prints the slopes of lines through the points on logarithmic axes, and draws them: `python benchmarks/scaling.py` writes
docs/scaling.png, `python benchmarks/scaling.py elsewhere.png` another file.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from cases import Sampled, fresh, scattered
from measure import Table, machine, race, slope

import surefooted as sf
from surefooted import planning
from surefooted.certificates.certificate import Past
from surefooted.certificates.replay import ReplayCertificate
from surefooted.studies.figures import COLOURS, STYLE, save

Lines = dict[str, tuple[list[float], list[float]]]  # name: what it grows with, and seconds
SIMPLIFIED = {"confidence": sf.confidence.simplified_bernstein, "bounded": False}
FIGURE = Path(__file__).parent.parent / "docs" / "scaling.png"


def solve_seconds(plausible: Any) -> float:
    """Of one solve of extended value iteration to 1e-3 from zeros."""
    planning.optimistic_gain(fresh(plausible), 1e-3)  # compile

    def get_ready() -> Any:
        copy = fresh(plausible)
        return lambda: planning.optimistic_gain(copy, 1e-3)

    return race({"solve": get_ready}, rounds=15, budget=0.5)["solve"]


def by_states() -> Lines:
    """10 actions, 10 successors, boxes and L1 balls."""
    lines: Lines = {"boxes": ([], []), "L1 balls": ([], [])}
    for n_states in (100, 300, 1_000, 3_000, 10_000, 30_000):
        sampled = Sampled(scattered(n_states, 10))
        for name, plausible in (("boxes", sampled.boxes()), ("L1 balls", sampled.balls())):
            lines[name][0].append(n_states)
            lines[name][1].append(solve_seconds(plausible))
    return lines


def by_transitions() -> Lines:
    """2 000 states, 4 actions, 4 to 128 successors."""
    lines: Lines = {"boxes": ([], []), "L1 balls": ([], [])}
    for successors in (4, 8, 16, 32, 64, 128):
        sampled = Sampled(scattered(2_000, 4, successors), visits=20 * successors)
        for name, plausible in (("boxes", sampled.boxes()), ("L1 balls", sampled.balls())):
            lines[name][0].append(plausible.next_state.size)
            lines[name][1].append(solve_seconds(plausible))
    return lines


def by_steps() -> Lines:
    """Runs on the inventory problem: most plans fall into the first thousand steps, so that short runs cost alike."""
    problem = sf.problems.inventory()
    played = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    known = sf.Baseline(problem.baseline, played.gain, played.bias)
    makers = {
        "UCRL2": lambda: sf.UCRL2(problem.space, **SIMPLIFIED),
        "CUCRL2": lambda: sf.CUCRL2(problem.space, baseline=known, alpha=0.05, **SIMPLIFIED),
    }
    lines: Lines = {name: ([], []) for name in makers}
    for make in makers.values():
        sf.simulate(problem, make(), 2_000)  # compile
    for steps in (16_000, 64_000, 256_000, 1_024_000, 4_096_000):
        for name, make in makers.items():
            lines[name][0].append(steps)
            agents = {name: lambda make=make, steps=steps: lambda: sf.simulate(problem, make(), steps)}
            lines[name][1].append(race(agents, rounds=9, budget=1.0)[name])
    return lines


def by_policies() -> Lines:
    """A proof of all that was played: garnet of 50 states, each random policy played once for 50 steps."""
    problem = sf.problems.garnet(50, 4, 5, seed=1)
    played = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    known, rng = sf.Baseline(problem.baseline, played.gain, played.bias), np.random.default_rng(0)
    counts, k = sf.Counts(problem.space), problem.space.n_pairs
    steps = [problem.mdp.draw(rng, pair) for pair in np.repeat(np.arange(k), 200)]
    counts.add_steps(np.repeat(np.arange(k), 200), *map(np.array, zip(*steps, strict=True)))
    plausible = sf.confidence.simplified_bernstein(counts, 0.05)
    lines: Lines = {"induction": ([], []), "segments": ([], [])}
    for many in (8, 16, 32, 64, 128, 256, 512):
        rules = rng.integers(4, size=(many, 50))
        policies = [problem.baseline] + [sf.Policy.deterministic(problem.space, rule) for rule in rules]
        past = Past(problem.start, [(i, 50) for i in range(1, many + 1)], policies)
        for name in lines:
            lines[name][0].append(many)
            prover(known, name, plausible, past)()  # compile
            reviews = {name: lambda name=name, past=past: prover(known, name, plausible, past)}
            lines[name][1].append(race(reviews, rounds=15, budget=0.5)[name])
    return lines


def prover(known: sf.Baseline, name: str, plausible: Any, past: Past) -> Any:
    """A review by a certificate that has proved nothing yet."""
    certificate = ReplayCertificate(known, 0.05, induction=name == "induction")
    return lambda: certificate.prove(plausible, past)


PANELS = {
    "states": ("one plan", by_states),
    "stored transitions": ("one plan", by_transitions),
    "steps": ("one run, inventory", by_steps),
    "policies played": ("one review, 50 states", by_policies),
}


def main() -> None:
    print(machine())
    figure_path = Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURE
    table = Table(("what", 22), ("against", 19), ("which", 9), ("from", 9), ("to", 9), ("last s", 9), ("slope", 6))
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 4, figsize=(12.5, 3.3), layout="constrained")
        for ax, (against, (what, measure)) in zip(axes, PANELS.items(), strict=True):
            for colour, (name, (x, y)) in zip(COLOURS, measure().items(), strict=False):
                found = slope(x[len(x) // 3 :], y[len(x) // 3 :])  # the first points are small change
                table.row(what, against, name, int(x[0]), int(x[-1]), y[-1], f"{found:.2f}")
                ax.loglog(x, y, "o-", markersize=3.5, color=colour, label=f"{name}: slope {found:.2f}")
            ax.set(title=what, xlabel=against, ylabel="seconds")
            ax.margins(y=0.3)
            ax.legend(loc="upper left")
        save(figure, figure_path.with_suffix(""), ["png"])
    print(f"the figure is {figure_path.name}")


if __name__ == "__main__":
    main()
