"""Hostile runs under the replay condition with mechanics and a log of a baseline of which only the policy is known.

The problems and learners are those of `adversarial_coupling`. The log bounds the baseline's gain, and one law for all
its bias (`certificates.logged`). Each proved budget is compared with the exact margin, and so is the margin of each
step, by dense matrices; runs in which a bound failed are counted against δ.

Run `python tests/adversarial_logged.py 300 7` for 300 problems from seed 7; it prints one line.
"""

import sys
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import binom

import adversarial
import adversarial_coupling as coupling
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.certificates.replay import ReplayCertificate
from surefooted.simulation.playing import simulate
from surefooted.tables.baseline import Baseline

DELTAS = (0.5, 0.2, 0.01)
FALSE_ALARM = 1e-6
ROUNDING = 1e-7


def is_coupled(proof):
    """Whether a proof nets the gain with one bias for both ends, as one law for all bounds it."""
    cases = [] if proof is None else [case.reference for case in proof.cases]
    return len(cases) == 2 and np.array_equal(cases[0].bias_low, cases[1].bias_low)


class ByOneLaw(ReplayCertificate):
    """Takes the proof by one law for all wherever there is one, however much others prove."""

    def _rank(self, proof, *given):
        return is_coupled(proof), *super()._rank(proof, *given)


@dataclass
class Tally:
    """What a campaign has seen."""

    runs: Counter = field(default_factory=Counter)  # for each δ
    failed: Counter = field(default_factory=Counter)  # of these, runs in which a budget was above the exact margin
    explored: int = 0
    coupled: int = 0  # runs in which the proof used one law for all
    least: float = np.inf  # the smallest margin of a run in which no bound failed
    violations: list = field(default_factory=list)

    def line(self):
        rates = ", ".join(f"{self.failed[delta]} of {self.runs[delta]} at δ = {delta}" for delta in DELTAS)
        return (
            f"{self.explored} steps explored, {self.coupled} runs proved by one law; bounds failed in {rates}; "
            f"elsewhere smallest margin {self.least:.3g}, {len(self.violations)} violations"
        )

    def judge(self):
        for delta in DELTAS:
            if self.failed[delta] > binom.ppf(1 - FALSE_ALARM, max(self.runs[delta], 1), delta):
                self.violations.append(f"at δ = {delta} bounds failed in {self.failed[delta]} runs")


def run_campaign(n, seed, steps=300):
    """`n` random problems; what was seen."""
    tally = Tally()
    for i in range(n):
        rng, delta = np.random.default_rng([seed, i]), DELTAS[i % len(DELTAS)]
        problem = coupling.a_problem(rng, rewards=bool(rng.random() < 0.7))
        alpha, induction = float(rng.choice([0.1, 0.3, 0.6, 0.9])), bool(rng.random() < 0.7)
        history = coupling.a_history(rng, problem, int(rng.choice([50, 400, 2000])))
        learner = coupling.Harm(problem, int(rng.integers(2**31)), 0.9 * delta, problem.knowledge("mechanics"))
        agent = CUCRL2(
            problem.space, baseline=Baseline.from_history(history, problem.baseline), alpha=alpha, delta=delta,
            learner=learner, certificate="induction" if induction else "segments", minimum=1, patience=0.0,
        )  # fmt: skip
        if i % 4:
            own = agent.certificate
            agent.certificate = ByOneLaw(own.baseline, own.tolerance, own.induction, own.strict, None, own.of_log)
        run = simulate(problem, agent, steps, int(rng.integers(2**31)))
        exact = adversarial.Truth(problem, alpha, run.sequence).margin
        proved = [(d.t, d.budget) for d in run.decisions if d.budget is not None and np.isfinite(d.budget)]
        failed = exact.min() < -ROUNDING or any(budget > exact[t] + ROUNDING for t, budget in proved)
        tally.runs[delta] += 1
        tally.failed[delta] += failed
        tally.explored += run.steps - run.baseline_steps
        tally.coupled += is_coupled(agent.certificate.proof)
        if not failed:
            tally.least = min(tally.least, float(exact.min()))
    tally.judge()
    return tally


if __name__ == "__main__":
    n, seed = (int(x) for x in (sys.argv[1:] + ["300", "0"][len(sys.argv) - 1 :])[:2])
    result = run_campaign(n, seed)
    print(result.line())
    for violation in result.violations[:20]:
        print(violation)
    sys.exit(bool(result.violations))
