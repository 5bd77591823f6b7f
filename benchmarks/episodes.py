"""Finite horizon: how many episodes per second, how the cost of an episode grows, and what safety costs.

Three tables. The first is one core after compilation, the best of seven runs; its limit is the simulator playing the
baseline with nothing learnt. The second has garnets with four actions
and the seconds per episode divided by H x stored transitions. The third is the paper's gridworld experiment,
without and with slips.

`python benchmarks/episodes.py batches` makes another table: UCBVI played in batches, as it is, and one episode at a
time, as all other agents are. They take turns, and the times are of the CPU.
"""

import sys
import time

import numpy as np
from measure import machine
from runs import IdleEpisodes

import surefooted as sf
from surefooted.agents.many_episodes import ManyEpisodes

ALPHA, EPISODES, EARLY = 0.05, 3_000, 300


def gridworld_agents(problem):
    """Name and maker of each agent, from a seed."""
    space, horizon = problem.space, problem.horizon
    known = sf.Baseline(problem.baseline, values=sf.solve.policy_values(problem.mdp, problem.baseline, horizon))
    simplified = {"confidence": sf.confidence.simplified_bernstein}
    bernstein = {"confidence": sf.confidence.bernstein}
    conservative = {"alpha": ALPHA, "baseline": known}
    printed = {"learn_from": "optimistic", "reevaluate": False}
    return {
        "UCBVI": lambda seed: sf.UCBVI(space, horizon, seed=seed),
        "UCBVI, simplified Bernstein": lambda seed: sf.UCBVI(space, horizon, **simplified, seed=seed),
        "UCBVI, Bernstein": lambda seed: sf.UCBVI(space, horizon, **bernstein, seed=seed),
        "UCBVI, Hoeffding bonus": lambda seed: sf.UCBVI(
            space, horizon, bonus="hoeffding", episodes=EPISODES, seed=seed
        ),
        "UCBVI, Freedman bonus": lambda seed: sf.UCBVI(space, horizon, bonus="freedman", episodes=EPISODES, seed=seed),
        "EULER": lambda seed: sf.EULER(space, horizon, seed=seed),
        "CUCB-VI": lambda seed: sf.CUCBVI(space, horizon, **conservative, seed=seed),
        "CUCB-VI, the set alone": lambda seed: sf.CUCBVI(space, horizon, **conservative, pooled=False, seed=seed),
        "CUCB-VI, decisions": lambda seed: sf.CUCBVI(space, horizon, **conservative, condition="decisions", seed=seed),
        "CUCB-VI, simplified Bernstein": lambda seed: sf.CUCBVI(
            space, horizon, **conservative, **simplified, seed=seed
        ),
        "CUCB-VI as printed, simplified": lambda seed: sf.CUCBVI(
            space, horizon, **conservative, **simplified, **printed, seed=seed
        ),
        "CUCB-VI, baseline unknown": lambda seed: sf.CUCBVI(
            space, horizon, alpha=ALPHA, baseline=sf.Baseline(problem.baseline), seed=seed
        ),
        "the same, the set alone": lambda seed: sf.CUCBVI(
            space, horizon, alpha=ALPHA, baseline=sf.Baseline(problem.baseline), pooled=False, seed=seed
        ),
        "CUCB-VI over EULER": lambda seed: sf.CUCBVI(
            space, horizon, **conservative, learner=sf.EULER(space, horizon, delta=0.025), delta=0.05, seed=seed
        ),
        "always the baseline": lambda seed: sf.CUCBVI(
            space, horizon, alpha=1e-9, baseline=known, learn_from="optimistic", seed=seed
        ),
    }


def speed(problem) -> None:
    print(f"{'agent':>31} {'episodes per second':>20} {'of limit':>9}")
    limit = 0.0
    for name, make in ({"no learning": lambda seed: IdleEpisodes(problem)} | gridworld_agents(problem)).items():
        sf.simulate(problem, make(0), episodes=50)  # compile
        spent = []
        for seed in range(7):
            agent = make(seed)
            begin = time.perf_counter()
            sf.simulate(problem, agent, episodes=EPISODES, seed=seed)
            spent.append(time.perf_counter() - begin)
        limit = limit or min(spent)
        print(f"{name:>31} {EPISODES / min(spent):>20.0f} {min(spent) / limit:>8.1f}x", flush=True)


def batches() -> None:
    print("episodes per second of CPU")
    print(f"{'problem':>10} {'states':>7} {'one by one':>11} {'in batches':>11} {'ratio':>6}")
    garnet = sf.problems.garnet(n_states=100, n_actions=4, n_successors=5, seed=0)
    cases = {"no slip": sf.problems.gridworld(), "slip 0.1": sf.problems.gridworld(slip=0.1)}
    cases["garnet"] = sf.Problem("garnet", garnet.mdp, garnet.baseline, 0, horizon=10)
    of = ManyEpisodes.of
    for name, problem in cases.items():
        best = {}
        for _ in range(7):
            for how, given in (("one", classmethod(lambda cls, agent: None)), ("many", of)):
                ManyEpisodes.of = given
                agent = sf.UCBVI(problem.space, problem.horizon)
                begin = time.process_time()
                sf.simulate(problem, agent, episodes=EPISODES)
                best[how] = min(best.get(how, np.inf), time.process_time() - begin)
        one, many = EPISODES / best["one"], EPISODES / best["many"]
        print(f"{name:>10} {problem.space.n_states:>7} {one:>11.0f} {many:>11.0f} {many / one:>5.1f}x", flush=True)


def growth() -> None:
    print(f"{'states':>7} {'H':>4} {'transitions':>12} {'us per episode':>15} {'ns per H x transition':>22}")
    for states, horizon in ((100, 10), (100, 40), (1_000, 10), (1_000, 40), (10_000, 10)):
        problem = sf.problems.garnet(n_states=states, n_actions=4, n_successors=5, seed=0)
        rng = np.random.default_rng(0)
        agent = sf.UCBVI(problem.space, horizon)
        pairs = np.repeat(np.arange(problem.space.n_pairs), 20)
        rewards, nexts = zip(*(problem.mdp.draw(rng, k) for k in pairs), strict=True)
        agent.counts.add_steps(pairs, np.clip(rewards, 0, 1), np.array(nexts))
        finite = sf.Problem("garnet", problem.mdp, problem.baseline, 0, horizon=horizon)
        episodes = max(3, 2_000_000 // (horizon * agent.counts.n_transitions))
        agent.propose()
        begin = time.perf_counter()
        sf.simulate(finite, agent, episodes=episodes)
        spent = (time.perf_counter() - begin) / episodes
        size = agent.counts.n_transitions
        cells = f"{states:>7} {horizon:>4} {size:>12} {1e6 * spent:>15.0f} {1e9 * spent / (horizon * size):>22.1f}"
        print(cells, flush=True)


def experiment(problem, realisations: int) -> None:
    head = f"{'agent':>31} {'regret':>14} {'baseline episodes':>18} {'violated of first 300':>22}"
    print(f"{head} {'violations':>11} {'smallest margin':>16}")
    for name, make in gridworld_agents(problem).items():
        regret, kept, early, violations, least = [], [], [], 0, np.inf
        for seed in range(realisations):
            run = sf.simulate(problem, make(seed), episodes=EPISODES, seed=seed)
            result = sf.evaluate(run, problem, ALPHA)
            regret.append(result.expected_regret[-1])
            kept.append(run.baseline_episodes)
            early.append(result.violation_fraction(1, EARLY))
            violations += result.violations
            least = min(least, float(result.margin.min()))
        cells = f"{name:>31} {np.mean(regret):>8.0f} ±{np.std(regret):>4.0f} {np.mean(kept):>18.0f}"
        print(f"{cells} {np.mean(early):>21.1%} {violations:>12} {least:>16.3f}", flush=True)


def main() -> None:
    if sys.argv[1:] == ["batches"]:
        print(machine())
        batches()
        return
    problem = sf.problems.gridworld()
    realisations = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(machine())
    speed(problem)
    print()
    growth()
    for slip in (0.0, 0.1):
        print(f"\n{EPISODES} episodes, alpha = {ALPHA}, {realisations} realisations, slip {slip}")
        experiment(sf.problems.gridworld(slip=slip), realisations)


if __name__ == "__main__":
    main()
