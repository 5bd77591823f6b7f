"""Run an agent on a problem's true table, episode by compiled episode, reproducibly."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from surefooted.agents.agent import Agent, lacking
from surefooted.agents.average import AveragePlayer
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.in_use import in_use
from surefooted.arrays import is_whole, whole_numbers
from surefooted.errors import InvalidInput
from surefooted.kernels import playing
from surefooted.kernels.structs import GAUSSIAN, NO_NOISE, TRUNCATED_GAUSSIAN, Fields, World
from surefooted.knowledge.mechanics import Mechanics
from surefooted.problems.problem import Problem
from surefooted.simulation import any_agent
from surefooted.simulation.noise import noise_teller
from surefooted.simulation.run import EpisodicRun, Run
from surefooted.tables.space import Floats, Ints, Space
from surefooted.tables.staged import Dynamics

CHUNK = 1 << 16  # steps whose random numbers are drawn at a time, and that are played before they are counted
BLOCK = 1 << 12  # numbers drawn at a time for the steps of short episodes

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
    world, unlimited = _world(mdp), np.zeros(0, dtype=np.int64)
    shape = (len(starts), agent.horizon)
    pairs, rewards, next_states = np.empty(shape, dtype=np.int64), np.empty(shape), np.empty(shape, dtype=np.int64)
    draws, no_coins = _draws(np.random.default_rng(seed), mdp.noise.code, agent.horizon), np.zeros(0)
    rules: dict[int, tuple[Ints, Floats]] = {}
    for i, s in enumerate(starts.tolist()):
        agent.begin(s)
        policy, q = agent.current()[0], agent.decisions[-1].policy
        if q not in rules:
            rules[q] = policy.stages(agent.horizon)
        coins = agent.coin.ahead(agent.horizon) if agent.draws else no_coins
        episode, now = (pairs[i], rewards[i], next_states[i]), (next(draws), coins, unlimited, s)
        if agent.account is None:
            pair, weights = rules[q]
            playing.play_episode(world, pair, weights, *now, *episode)
        else:
            agent.account.play(world, *now, episode)
        agent._absorb(*episode, tell_noise(pairs[i], next_states[i]))
    by_step = None if agent.account is None else np.array(agent.explored_steps)
    mixtures = None if agent.mixtures is None else list(agent.mixtures)
    recorded = (list(agent.policies), list(agent.decisions), pairs, rewards, next_states)
    return EpisodicRun(starts, *recorded, by_step, mixtures)


def _draws(rng: np.random.Generator, noise: int, horizon: int) -> Iterator[Floats]:
    """The numbers of each episode, [H, 1 or 2], in the order in which `TabularMDP.draw` draws them."""
    if noise in (GAUSSIAN, TRUNCATED_GAUSSIAN):
        while True:
            yield np.array([(rng.random(), rng.standard_normal()) for _ in range(horizon)])
    width = 1 if noise == NO_NOISE else 2
    while True:
        yield from rng.random((max(1, BLOCK // (horizon * width)), horizon, width))
