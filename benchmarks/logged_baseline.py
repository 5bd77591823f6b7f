"""What does the log of today's policy add to the replay condition? When CUCRL2 first explores, and how much it does.

The shop of `examples/shop.toml`: three laws of the demand that its log allows, each with a log of two years of today's
rule, and then 4 000 weeks of an agent that knows the mechanics. It uses the set alone, which counts the log; or also
bounds on the gain by the log's rewards; or on the bias by one law for all; or both, which is the default.
"""

from pathlib import Path

import numpy as np
from forecasts import log_of
from measure import machine

import surefooted as sf
from surefooted.certificates import logged
from surefooted.certificates.netting import ANY
from surefooted.forecasting.models import Models

WEEKS, LOGGED, SEEDS = 4_000, 101, range(3)
SHOP = Path(__file__).parent.parent / "examples" / "shop.toml"
REFERENCES, GAIN, COUPLE = logged.references, logged.gain_by_log, logged.couple
KINDS = {
    "the set alone": (lambda netting, split, baseline, _: REFERENCES(netting, split, baseline, 0.0), GAIN, COUPLE),
    "and the gain by the log": (REFERENCES, GAIN, lambda *_: None),
    "and the bias by one law": (REFERENCES, lambda *_: ANY, COUPLE),
    "both": (REFERENCES, GAIN, COUPLE),
}


def play(alpha: float) -> tuple[list[float], list[int], int]:
    """Of each model: the week of the first departure, and the weeks of the baseline; and violations of all."""
    shop, first, played, violations = sf.problems.load(SHOP), [], [], 0
    for seed in SEEDS:
        models = Models(shop.history.counts, shop.knowledge, shop.baseline.policy, shop.start, None)
        model = models.draw(np.random.default_rng(seed))
        baseline = sf.Baseline.from_history(log_of(model, LOGGED, seed), model.baseline)
        agent = sf.CUCRL2(model.space, baseline=baseline, alpha=alpha, knowledge=shop.knowledge)
        run = sf.simulate(model, agent, WEEKS, seed=seed)
        first.append(next((decision.t for decision in run.decisions if decision.role == "optimistic"), np.inf))
        played.append(run.baseline_steps)
        violations += sf.evaluate(run, model, alpha).violations
    return first, played, violations


def main() -> None:
    """One table."""
    print(f"{machine()}\n")
    print("| α | what is used | first departs in week | weeks of the baseline | violations |")
    print("|---|---|---|---|---|")
    for alpha in (0.05, 0.1, 0.2):
        for name, (logged.references, logged.gain_by_log, logged.couple) in KINDS.items():
            first, played, violations = play(alpha)
            cells = (", ".join(f"{x:.0f}" for x in column) for column in (first, played))
            print(f"| {alpha} | {name} | {' | '.join(cells)} | {violations} |", flush=True)


if __name__ == "__main__":
    main()
