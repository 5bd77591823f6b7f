"""Run an agent on a problem's true table, episode by compiled episode, reproducibly."""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from surefooted.agents.agent import Agent, lacking
from surefooted.agents.average import AveragePlayer
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.in_use import in_use
from surefooted.agents.many_episodes import ManyEpisodes
from surefooted.arrays import is_whole, whole_numbers
from surefooted.errors import InvalidInput
from surefooted.kernels import playing
from surefooted.kernels.structs import Fields, World
from surefooted.knowledge.mechanics import Mechanics
from surefooted.problems.problem import Problem
from surefooted.simulation import any_agent
from surefooted.simulation.draws import Draws
from surefooted.simulation.noise import Teller, noise_teller
from surefooted.simulation.run import EpisodicRun, Run
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints, Space
from surefooted.tables.staged import Dynamics

FEW = 8  # policies that are kept as kernels take them: agents alternate between two or three
CHUNK = 1 << 16  # steps whose random numbers are drawn at a time, and that are played before they are counted

Seed = int | np.random.SeedSequence


@overload
def simulate(problem: Problem, agent: AveragePlayer[Any] | Agent, steps: int, seed: Seed = 0) -> Run: ...


@overload
def simulate(
    problem: Problem, agent: EpisodicPlayer | Agent, *, episodes: int, seed: Seed = 0, starts: Ints | None = None
) -> EpisodicRun: ...


def simulate(
    problem: Problem,
    agent: AveragePlayer[Any] | EpisodicPlayer | Agent,
    steps: int | None = None,
    seed: Seed = 0,
    *,
    episodes: int | None = None,
    starts: Ints | None = None,
) -> Run | EpisodicRun:
    """Play an agent that has not begun on a problem, from the problem's start.

    Parameters
    ----------
    problem : the true table that the agent plays on
    agent : a new agent; agents of this package are played by compiled loops, and anything else that has `begin`, `act`
        and `observe` is played one step at a time (`simulation.any_agent`)
    steps : how many steps to play, for average reward
    seed : of next states and rewards; the agent has a seed of its own
    episodes : how many episodes to play, for a finite horizon
    starts : the first state of each episode, if they differ, [episodes]

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> run = sf.simulate(problem, sf.UCRL2(problem.space), steps=100, seed=0)
    >>> run.pairs.shape
    (100,)

    """
    is_ours = isinstance(agent, AveragePlayer | EpisodicPlayer)
    if not is_ours and (faults := _unplayable(problem, agent)):
        raise InvalidInput("this agent cannot be simulated", faults)
    by_episodes = isinstance(agent, EpisodicPlayer) or (not is_ours and _has_horizon(agent, episodes))
    if by_episodes:
        where = _starts(problem, agent, steps, episodes, starts)
        if not isinstance(agent, EpisodicPlayer):
            return any_agent.simulate_episodes(problem, agent, where, seed)
        with in_use(agent):
            return simulate_episodes(problem.mdp, agent, where, seed, problem.mechanics, problem.laws)
    if steps is None or episodes is not None or starts is not None:
        raise InvalidInput("no such run", ["an average-reward agent plays `steps`, not `episodes`"])
    if not is_whole(steps, 1):
        raise InvalidInput("no such run", [f"steps {steps} must be a positive whole number"])
    if not isinstance(agent, AveragePlayer):
        return any_agent.simulate_steps(problem, agent, int(steps), seed)
    with in_use(agent):
        return _simulate_steps(problem, agent, steps, seed)


def _unplayable(problem: Problem, agent: Any) -> list[str]:
    """Why an agent that is none of the package's cannot play a problem."""
    space, bounded = getattr(agent, "space", problem.space), bool(getattr(agent, "bounded", False))
    return lacking(agent) or misfits(problem.mdp, space, bounded)


def _has_horizon(agent: Any, episodes: int | None) -> bool:
    """Whether an agent that is none of the package's plays episodes: it says so, or is asked to."""
    return episodes is not None or getattr(agent, "horizon", None) is not None


def _starts(problem: Problem, agent: Any, steps: int | None, episodes: int | None, starts: Ints | None) -> Ints:
    """The first state of each episode."""
    if steps is not None or episodes is None:
        raise InvalidInput("no such run", ["an agent of episodes plays `episodes`, not `steps`"])
    horizon = getattr(agent, "horizon", None)
    if problem.horizon is None or horizon not in (None, problem.horizon):
        fault = f"the agent has horizon {horizon}, the problem {problem.horizon}"
        raise InvalidInput("agent and problem do not fit", [fault])
    if not is_whole(episodes, 1):
        raise InvalidInput("no such run", [f"episodes {episodes} must be a positive whole number"])
    where = np.full(int(episodes), problem.start) if starts is None else np.asarray(starts)
    if where.shape != (episodes,):
        raise InvalidInput("no such run", [f"starts have shape {where.shape}, not ({episodes},)"])
    return check_starts(where, problem.mdp.n_states)


def check_starts(starts: Ints, n_states: int) -> Ints:
    """`starts`, if they are states, one for each episode."""
    faults: list[str] = []
    starts = whole_numbers("starts", starts, faults)
    faults += [f"there is no state {s} to start in" for s in np.unique(starts) if not 0 <= s < n_states]
    if faults or starts.ndim != 1:
        raise InvalidInput("no such starts", faults or [f"they have shape {starts.shape}, not one for each episode"])
    return starts


def misfits(mdp: Dynamics, space: Space, bounded: bool) -> list[str]:
    """Why an agent cannot play on a table."""
    faults = [] if space == mdp.space else [f"agent on {space}, problem on {mdp.space}"]
    if bounded and not mdp.noise.bounded:
        kind = mdp.noise.kind
        faults.append(
            f"{kind} noise leaves {space.money.words}: build the agent with bounded=False, or choose another noise"
        )
    return faults


def _simulate_steps(problem: Problem, agent: AveragePlayer[Any], steps: int, seed: Seed) -> Run:
    """Play `steps` steps of an average-reward agent: it plans, a compiled loop plays, it learns."""
    mdp, start = problem.mdp, problem.start
    faults = misfits(mdp, agent.space, agent.bounded)
    if agent.begun:
        faults.append(f"the agent has begun already, in state {agent.start}, and played {agent.t} steps")
    if faults:
        raise InvalidInput("agent and problem do not fit", faults)
    tell_noise = noise_teller(agent, problem.mechanics, problem.laws, seed)
    rng, draws, no_coins = np.random.default_rng(seed), np.zeros((min(CHUNK, steps), 2)), np.zeros(0)
    world = _world(mdp)
    pairs, rewards, next_states = np.empty(steps, dtype=np.int64), np.empty(steps), np.empty(steps, dtype=np.int64)
    agent.begin(start)
    s, done, drawn = start, 0, len(draws)
    while done < steps:
        if drawn == len(draws):
            playing.draw_steps(rng, mdp.noise.code, draws)
            drawn = 0
        assert agent.episode is not None
        most = min(agent.episode.left, len(draws) - drawn, steps - done)
        part = slice(done, done + most)
        coins = agent.coin.ahead(most) if agent.draws else no_coins
        now, out = (draws[drawn:], coins, agent.allowed, s), (pairs[part], rewards[part], next_states[part])
        if agent.account is None:
            pair, weights = agent.episode.policy.stages(1)
            length = playing.play_episode(world, pair, weights, *now, *out)
        else:
            length = agent.account.play(world, *now, out)
        part = slice(done, done + length)
        noise = tell_noise(pairs[part], next_states[part])
        taken = agent._absorb(pairs[part], rewards[part], next_states[part], noise)
        done, drawn = done + taken, drawn + taken
        s = int(next_states[done - 1])
    decisions = [decision for decision in agent.decisions if decision.t < steps]  # not one planned at the end
    policies = agent.policies.first(1 + max(decision.policy for decision in decisions))
    return Run(start, agent.segments, policies, decisions, pairs, rewards, next_states)


def _world(mdp: Dynamics) -> Fields:
    """A `World`: the table and its noise."""
    rewards = (mdp.r_counted, mdp.r_max, mdp.noise.code, mdp.noise.scale, mdp.space.low)
    return tuple(World(mdp.space.pair_ptr, mdp.next_ptr, mdp.next_state, mdp.p, *rewards))


def simulate_episodes(
    mdp: Dynamics,
    agent: EpisodicPlayer,
    starts: Ints,
    seed: Seed = 0,
    mechanics: Mechanics | None = None,
    laws: Sequence[Floats] = (),
) -> EpisodicRun:
    """Play an episode from each of `starts` [K] on a table, or on one table for each stage.

    `mechanics` and `laws` are the true ones, if the agent is told the noise of its steps.
    """
    tell_noise = noise_teller(agent, mechanics, laws, seed)
    faults = misfits(mdp, agent.space, agent.bounded)
    if agent.begun:
        faults.append(f"the agent has played already, {agent.episodes} episodes")
    if mdp.stages > 1 and not agent.learner.stage_dependent:
        faults.append("the dynamics change with the stage: build the agent with stage_dependent=True")
    if mdp.stages not in (1, agent.horizon):
        faults.append(f"the agent has horizon {agent.horizon}, the dynamics {mdp.stages} stages")
    if faults:
        raise InvalidInput("agent and problem do not fit", faults)
    starts = check_starts(starts, mdp.n_states)
    world, shape = _world(mdp), (len(starts), agent.horizon)
    pairs, rewards, next_states = np.empty(shape, dtype=np.int64), np.empty(shape), np.empty(shape, dtype=np.int64)
    draws = Draws(np.random.default_rng(seed), mdp.noise.code, agent.horizon, len(starts))
    many, one, done = ManyEpisodes.of(agent), _OneByOne(agent, world, tell_noise), 0
    while done < len(starts):
        if many is not None and many.may_go_on:
            part = slice(done, done + draws.left)
            n = many.play(world, draws.ahead(), starts[part], pairs[part], rewards[part], next_states[part])
        else:
            n = one.play(draws.ahead()[0], int(starts[done]), (pairs[done], rewards[done], next_states[done]))
        draws.use(n)
        done += n
    by_step = None if agent.account is None else np.array(agent.explored_steps)
    mixtures = None if agent.mixtures is None else list(agent.mixtures)
    recorded = (agent.policies.copy(), list(agent.decisions), pairs, rewards, next_states)
    return EpisodicRun(starts, *recorded, by_step, mixtures)


class _OneByOne:
    """Plays one episode after the other: the agent plans, a compiled loop plays, the agent learns."""

    def __init__(self, agent: EpisodicPlayer, world: Fields, tell_noise: Teller) -> None:
        self.agent, self.world, self.tell_noise = agent, world, tell_noise
        self._rules: dict[int, tuple[Ints, Floats]] = {}  # of a few policies, as kernels take them
        self._unlimited, self._no_coins = np.zeros(0, dtype=np.int64), np.zeros(0)

    def play(self, draws: Floats, s: int, steps: Any) -> int:
        """Play an episode from s with these random numbers, and write its `steps`, three columns [H]: 1 episode."""
        agent = self.agent
        agent.begin(s)
        coins = agent.coin.ahead(agent.horizon) if agent.draws else self._no_coins
        now: tuple[Any, ...] = (draws, coins, self._unlimited, s)
        if agent.account is None:
            rule = self._rule(agent.current()[0], agent.decisions[-1].policy)
            playing.play_episode(self.world, *rule, *now, *steps)
        else:
            agent.account.play(self.world, draws, coins, self._unlimited, s, steps)
        agent._absorb(steps[0], steps[1], steps[2], self.tell_noise(steps[0], steps[2]))
        return 1

    def _rule(self, policy: Policy, q: int) -> tuple[Ints, Floats]:
        """Policy number q as kernels take it."""
        if q not in self._rules:
            if len(self._rules) >= FEW:
                self._rules.clear()
            self._rules[q] = policy.stages(self.agent.horizon)
        return self._rules[q]
