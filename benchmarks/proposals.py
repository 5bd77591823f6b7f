"""Who should propose? Regret and baseline steps of posterior sampling beside those of optimism, alone and when safe.

Inventory with truncated Gaussian noise of 0.1, 70 000 steps, and the gridworld with slip 0.2 and Bernoulli rewards,
3 000 episodes; α = 0.05 and a known baseline. A given learner's set has 90 % of δ = 0.05 and the anchors 10 %, as when
CUCRL2 builds its learner. Means over realisations with the half-width of a 95 % interval; seconds on one core.

`floor` is what safety would cost with hindsight if the unconstrained agent's own decisions were played: its deepest
shortfall, divided by α times what the baseline earns per step or episode.
"""

import sys
import time

import numpy as np
import scipy.stats
from measure import machine

import surefooted as sf

ALPHA, DELTA, STEPS, EPISODES = 0.05, 0.05, 70_000, 3_000


def psrl(space, chosen, seed):
    """PSRL whose set leaves a share of δ to the anchors, if there are any."""
    return sf.PSRL(space, **chosen, delta=0.9 * DELTA if given(chosen) else DELTA, seed=seed)


def given(chosen) -> dict[str, float]:
    """The δ to give beside a learner: anchors are for valid sets."""
    return {} if chosen["confidence"] is sf.confidence.simplified_bernstein else {"delta": DELTA}


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
                space, **safe, **given(chosen), learner=psrl(space, chosen, seed), seed=seed
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


def interval(values) -> str:
    """A mean and the half-width of its 95 % interval."""
    error = scipy.stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.0f} ± {error:.0f}"


def compare(problem, agents, realisations: int, length: dict[str, int], earns: float) -> None:
    unit = next(iter(length))
    print(f"{problem.name:>39} {'regret':>12} {'baseline ' + unit:>18} {'violations':>11} {'floor':>11} {'seconds':>8}")
    for name, make in agents.items():
        sf.simulate(problem, make(0), **{unit: 50})  # compile
        regret, kept, deepest, violations, spent = [], [], [], 0, []
        for seed in range(realisations):
            agent, begin = make(seed), time.perf_counter()
            run = sf.simulate(problem, agent, seed=seed, **length)
            spent.append(time.perf_counter() - begin)
            result = sf.evaluate(run, problem, ALPHA)
            regret.append(result.expected_regret[-1])
            kept.append(getattr(run, f"baseline_{unit}"))
            deepest.append(max(-result.margin.min(), 0.0) / (ALPHA * earns))
            violations += result.violations
        floor = interval(deepest) if violations else "-"
        cells = f"{interval(regret):>12} {interval(kept):>18} {violations:>11} {floor:>11}"
        print(f"{name:>39} {cells} {min(spent):>8.3f}", flush=True)


def main() -> None:
    realisations = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(f"{machine()}\nalpha = {ALPHA}, {realisations} realisations")
    stock = sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))
    gain = sf.solve.gain_and_bias(stock.mdp, stock.baseline).gain
    compare(stock, average_agents(stock), realisations, {"steps": STEPS}, gain)
    grid = sf.problems.gridworld(slip=0.2, noise=sf.Noise("bernoulli"))
    value = sf.solve.policy_values(grid.mdp, grid.baseline, grid.horizon)[0, grid.start]
    compare(grid, episodic_agents(grid), realisations, {"episodes": EPISODES}, value)


if __name__ == "__main__":
    main()
