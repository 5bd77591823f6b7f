"""What safety costs a bandit, with and without the bound from all rewards: rounds with the baseline, and regret.

Columns are means over the seeds; violations are summed.
"""

import sys

import numpy as np

from surefooted.bandits import (
    BernoulliArms,
    ConservativeLinearUCB,
    ConservativeUCB,
    evaluate,
    linear_contextual,
    simulate_arms,
    simulate_linear,
)

ROUNDS = 2_000
ARMS = {
    "four arms, easy": [0.5, 0.05, 0.05, 0.9],
    "five arms, close": [0.5, 0.4, 0.6, 0.55, 0.3],
    "twelve arms": [0.5, *np.linspace(0.3, 0.7, 11)],
}
FEATURES = {"d = 3, 5 arms": (3, 5), "d = 8, 10 arms": (8, 10)}
ALPHA = 0.1


def arms_run(means, pooled, is_known, seed):
    problem = BernoulliArms(means)
    agent = ConservativeUCB(len(means), alpha=ALPHA, baseline_mean=means[0] if is_known else None, pooled=pooled)
    run = simulate_arms(problem, agent, ROUNDS, seed)
    return run, evaluate(run, problem, ALPHA)


def linear_run(size, pooled, is_known, seed):
    problem = linear_contextual(*size, seed=2)
    options = {"sigma": problem.sigma, "bound": problem.bound, "pooled": pooled}
    run = simulate_linear(
        problem, ConservativeLinearUCB(size[0], alpha=ALPHA, **options), ROUNDS, seed, baseline_known=is_known
    )
    return run, evaluate(run, problem, ALPHA)


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"{'problem':>18} {'baseline':>9} {'pooled':>7} {'baseline rounds':>16} {'regret':>8} {'violations':>11}")
    problems = [(name, arms_run, what) for name, what in ARMS.items()]
    problems += [(name, linear_run, what) for name, what in FEATURES.items()]
    for name, play, what in problems:
        for is_known in (True, False):
            for pooled in (False, True):
                results = [play(what, pooled, is_known, seed) for seed in range(seeds)]
                kept = np.mean([run.baseline_rounds for run, _ in results])
                regret = np.mean([found.expected_regret[-1] for _, found in results])
                violations = sum(found.violations for _, found in results)
                known = "known" if is_known else "unknown"
                cells = f"{name:>18} {known:>9} {'yes' if pooled else 'no':>7} {kept:>16.0f}"
                print(f"{cells} {regret:>8.1f} {violations:>11}", flush=True)


if __name__ == "__main__":
    main()
