"""Run a conservative agent one step at a time in a Gymnasium environment, as it would run a real stock room.

The agent knows the states, the actions, and today's policy with its gain and bias. It learns everything else. The
script prints a line with the reason whenever the agent starts or stops exploring.
"""

import surefooted as sf


def main() -> None:
    """Play 3 000 months and print every change between baseline and exploration."""
    problem = sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))
    known = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    agent = sf.CUCRL2(
        problem.space, baseline=sf.Baseline(problem.baseline, known.gain, known.bias), alpha=0.2, delta=0.05
    )
    bridge = sf.gym.Bridge(sf.gym.TabularEnv(problem))
    log = sf.gym.drive(bridge, agent, steps=3_000, seed=0)
    last = None
    for decision in agent.decisions:
        if decision.role != last:
            print(f"month {decision.t + 1:>5}: {decision.reason}")
            last = decision.role
    print(f"earned {sum(log.rewards):.1f} in {len(log.rewards)} months; the baseline earns {3_000 * known.gain:.1f}")


if __name__ == "__main__":
    main()
