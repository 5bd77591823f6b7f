"""How long a whole run takes, one realisation on one core after compilation, and how much of that is the simulation.

The limit is the same simulator playing the baseline with nothing learnt. The last rows have UCBVI of rlberry-scool on
the same table and horizon. README.md says why its episodes are not quite ours.
"""

import time
from typing import Any

import numpy as np
from measure import Table, machine, peer

import surefooted as sf
from surefooted.agents.agent import Decision
from surefooted.agents.average import UNLIMITED, AveragePlayer, Episode
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.ucbvi import UCBVILearner
from surefooted.agents.ucrl2 import UCRL2Learner

ALPHA = 0.05
SIMPLIFIED = {"confidence": sf.confidence.simplified_bernstein, "bounded": False}
INVENTORY, MAINTENANCE, SHORT, EPISODES, FEW = 70_000, 200_000, 20_000, 3_000, 300


class Forgetful:
    """Counts nothing."""

    def learn(self, pairs: Any, rewards: Any, next_states: Any, noise: Any = None) -> None:
        """Nothing."""


class ForgetfulUCRL2(Forgetful, UCRL2Learner):
    """For average reward."""


class ForgetfulUCBVI(Forgetful, UCBVILearner):
    """For a finite horizon."""


class Idle(AveragePlayer[Any]):
    """Plays the baseline, counts nothing and never plans again."""

    def __init__(self, problem: Any) -> None:
        super().__init__(ForgetfulUCRL2(problem.space, bounded=False))
        self.only = problem.baseline

    def next_episode(self) -> Episode:
        """The only one."""
        decision = Decision("baseline", "", t=0, policy=self.policies.id_of(self.only), length=int(UNLIMITED))
        return Episode(self.only, decision, int(UNLIMITED), doubling=False)


class IdleEpisodes(EpisodicPlayer):
    """The same over a finite horizon."""

    def __init__(self, problem: Any) -> None:
        super().__init__(ForgetfulUCBVI(problem.space, problem.horizon, bounded=False))
        self.only = problem.baseline
        self.decided = Decision("baseline", "", t=0, policy=self.policy_id(self.only), length=problem.horizon)

    def next_episode(self, s: int) -> Any:
        """Always the same."""
        return self.only, self.decided


def average_reward_agents(problem: Any, steps: int, shorter: int) -> dict[str, Any]:
    """Name, maker and steps of each agent."""
    played = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    known = sf.Baseline(problem.baseline, played.gain, played.bias)
    makers = {
        "no learning": (lambda: Idle(problem), steps),
        "UCRL2": (lambda: sf.UCRL2(problem.space, **SIMPLIFIED), steps),
    }
    options = {"baseline": known, "alpha": ALPHA} | SIMPLIFIED
    for certificate in ("reevaluated", "segments", "induction"):
        makers[f"CUCRL2 {certificate}"] = (
            lambda c=certificate: sf.CUCRL2(problem.space, certificate=c, **options),
            shorter,
        )
    return makers


def episodic_agents(problem: Any) -> dict[str, Any]:
    """The same over a finite horizon, in episodes."""
    space, horizon = problem.space, problem.horizon
    known = sf.Baseline(problem.baseline, values=sf.solve.policy_values(problem.mdp, problem.baseline, horizon))
    return {
        "no learning": (lambda: IdleEpisodes(problem), EPISODES),
        "UCBVI": (lambda: sf.UCBVI(space, horizon), EPISODES),
        "CUCB-VI": (lambda: sf.CUCBVI(space, horizon, alpha=ALPHA, baseline=known), EPISODES),
    }


def best_run(problem: Any, make: Any, length: int, rounds: int = 3) -> tuple[Any, float]:
    """A run and its seconds, best of three unless it takes long."""
    kind = "steps" if problem.horizon is None else "episodes"
    sf.simulate(problem, make(), **{kind: min(length, 1_000)})  # compile
    best, run = np.inf, None
    for _ in range(rounds):
        agent = make()
        begin = time.perf_counter()
        run = sf.simulate(problem, agent, **{kind: length})
        best = min(best, time.perf_counter() - begin)
        if best > 3:
            break
    return run, best


def compare_rlberry(problem: Any) -> None:
    """UCBVI of rlberry-scool and ours for as many episodes, and what both earn per episode."""
    import gymnasium

    if not hasattr(gymnasium.logger, "set_level"):
        gymnasium.logger.set_level = lambda *_: None  # rlberry calls it; Gymnasium 1.0 no longer has it
    if (theirs := peer("rlberry_scool.agents.ucbvi.ucbvi")) is None:
        print("rlberry-scool: missing")
        return
    table = Table(("UCBVI on the gridworld", 24), ("episodes", 8), ("seconds", 8), ("ratio", 7), ("per episode", 12))
    run, ours = best_run(problem, lambda: sf.UCBVI(problem.space, problem.horizon), FEW)
    earned = run.rewards.sum(axis=1)[FEW // 2 :].mean()
    table.row("ours", FEW, ours, "", f"{earned:.2f}")
    world = table_environment(problem, peer("rlberry.spaces").Discrete)
    agent = theirs.UCBVIAgent(world, horizon=problem.horizon, copy_env=False, eval_env=world)
    begin = time.perf_counter()
    agent.fit(FEW)
    seconds = time.perf_counter() - begin
    earned = np.mean(world.episodes[-FEW // 2 :])
    table.row("rlberry-scool", FEW, seconds, f"{seconds / ours:.0f}x", f"{earned:.2f}")


def table_environment(problem: Any, discrete: Any) -> Any:
    """The same table as a Gymnasium environment, with rlberry's own kind of discrete spaces."""
    import gymnasium

    mdp, space, rng = problem.mdp, problem.space, np.random.default_rng(0)

    class World(gymnasium.Env):
        observation_space = discrete(space.n_states)
        action_space = discrete(space.n_actions)
        reward_range = (0.0, mdp.r_max)

        def __init__(self) -> None:
            self.episodes: list[float] = []

        def reset(self, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
            self.state = problem.start
            self.episodes.append(0.0)
            return self.state, {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            reward, following = mdp.draw(rng, space.pair(self.state, int(action)))
            self.state = int(following)
            self.episodes[-1] += reward
            return self.state, float(reward), False, False, {}

    return World()


def main() -> None:
    print(machine())
    inventory, maintenance, gridworld = sf.problems.inventory(), sf.problems.maintenance(), sf.problems.gridworld()
    groups = (
        (inventory, average_reward_agents(inventory, INVENTORY, INVENTORY)),
        (maintenance, average_reward_agents(maintenance, MAINTENANCE, SHORT)),
        (gridworld, episodic_agents(gridworld)),
    )
    columns = (("problem", 12), ("agent", 18), ("length", 8), ("seconds", 8), ("ns per step", 11), ("of limit", 9))
    table = Table(*columns, ("plans", 6), ("baseline", 8))
    for problem, agents in groups:
        limit = 0.0
        for name, (make, length) in agents.items():
            run, seconds = best_run(problem, make, length)
            each = 1e9 * seconds / run.pairs.size
            limit = limit or each
            kept = run.baseline_steps if problem.horizon is None else run.baseline_episodes
            cells = ("-", "-") if name == "no learning" else (len(run.decisions), kept)
            table.row(problem.name, name, length, seconds, each, f"{each / limit:.1f}x", *cells)
    print()
    compare_rlberry(gridworld)


if __name__ == "__main__":
    main()
