"""Who should propose? Regret and baseline steps of posterior sampling beside those of optimism, alone and when safe.

Inventory with truncated Gaussian noise of 0.1, 70 000 steps, and the gridworld with slip 0.2 and Bernoulli rewards,
3 000 episodes; α = 0.05 and a known baseline. Means and standard deviations over realisations; seconds on one core.
"""

import sys
import time

import numpy as np
from measure import machine

import surefooted as sf

ALPHA, STEPS, EPISODES = 0.05, 70_000, 3_000


def average_agents(problem):
    """Name and maker of each agent, from a seed."""
    space, played = problem.space, sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    safe = {"baseline": sf.Baseline(problem.baseline, played.gain, played.bias), "alpha": ALPHA}
    agents = {"PSRL": lambda seed: sf.PSRL(space, seed=seed)}
    for confidence in (sf.confidence.likelihood, sf.confidence.simplified_bernstein):
        chosen, name = {"confidence": confidence}, confidence.__name__
        agents |= {
            f"UCRL2, {name}": lambda seed, chosen=chosen: sf.UCRL2(space, **chosen, seed=seed),
            f"CUCRL2 over UCRL2, {name}": lambda seed, chosen=chosen: sf.CUCRL2(space, **safe, **chosen, seed=seed),
            f"CUCRL2 over PSRL, {name}": lambda seed, chosen=chosen: sf.CUCRL2(
                space, **safe, learner=sf.PSRL(space, **chosen, seed=seed), seed=seed
            ),
        }
    return agents


def episodic_agents(problem):
    """Name and maker of each agent, from a seed."""
    size = (problem.space, problem.horizon)
    values = sf.solve.policy_values(problem.mdp, problem.baseline, problem.horizon)
    safe = {"baseline": sf.Baseline(problem.baseline, values=values), "alpha": ALPHA}
    return {
        "PSRL": lambda seed: sf.agents.PSRLEpisodic(*size, seed=seed),
        "UCBVI": lambda seed: sf.UCBVI(*size, seed=seed),
        "CUCB-VI over UCBVI": lambda seed: sf.CUCBVI(*size, **safe, seed=seed),
        "CUCB-VI over PSRL": lambda seed: sf.CUCBVI(
            *size, **safe, learner=sf.agents.PSRLEpisodicLearner(*size, seed=seed), seed=seed
        ),
    }


def compare(problem, agents, realisations: int, length: dict[str, int]) -> None:
    unit = next(iter(length))
    print(f"{problem.name:>39} {'regret':>14} {'baseline ' + unit:>18} {'violations':>11} {'seconds':>8}")
    for name, make in agents.items():
        sf.simulate(problem, make(0), **{unit: 50})  # compile
        regret, kept, violations, spent = [], [], 0, []
        for seed in range(realisations):
            agent, begin = make(seed), time.perf_counter()
            run = sf.simulate(problem, agent, seed=seed, **length)
            spent.append(time.perf_counter() - begin)
            result = sf.evaluate(run, problem, ALPHA)
            regret.append(result.expected_regret[-1])
            kept.append(getattr(run, f"baseline_{unit}"))
            violations += result.violations
        cells = f"{np.mean(regret):>8.0f} ±{np.std(regret):>4.0f} {np.mean(kept):>18.0f}"
        print(f"{name:>39} {cells} {violations:>11} {min(spent):>8.3f}", flush=True)


def main() -> None:
    realisations = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"{machine()}\nalpha = {ALPHA}, {realisations} realisations")
    stock = sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))
    compare(stock, average_agents(stock), realisations, {"steps": STEPS})
    grid = sf.problems.gridworld(slip=0.2, noise=sf.Noise("bernoulli"))
    compare(grid, episodic_agents(grid), realisations, {"episodes": EPISODES})


if __name__ == "__main__":
    main()
