"""Run an agent on a problem's true table, episode by compiled episode, reproducibly."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from surefooted.agents.agent import Decision
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.player import Episode, Player, Segment
from surefooted.arrays import is_whole, whole_numbers
from surefooted.errors import InvalidInput
from surefooted.kernels import playing
from surefooted.kernels.structs import World
from surefooted.knowledge.mechanics import Mechanics
from surefooted.problems.problem import Problem
from surefooted.tables.policy import Policy
from surefooted.tables.space import Bools, Floats, Ints, Space
from surefooted.tables.staged import Dynamics

CHUNK = 1 << 16  # steps whose random numbers are drawn at a time, and that are played before they are counted
TELLER = 77  # the branch of a seed that noise is drawn from
BLOCK = 1 << 12  # numbers drawn at a time for the steps of short episodes


@dataclass(frozen=True)
class Run:
    """What happened in one realisation: segments of policies, decisions, every step's pair, reward and next state."""

    start: int
    segments: list[Segment]
    policies: Sequence[Policy]
    decisions: list[Decision]
    pairs: Ints  # [T]
    rewards: Floats  # [T]
    next_states: Ints  # [T]

    @property
    def steps(self) -> int:
        """T."""
        return self.pairs.size

    @property
    def sequence(self) -> list[tuple[Policy, int]]:
        """μ_T: each policy and how long it was played."""
        return [(self.policies[segment.policy], segment.length) for segment in self.segments]

    @property
    def baseline_steps(self) -> int:
        """Steps played with the baseline in the conservative role."""
        return sum(segment.length for segment in self.segments if segment.role == "baseline")


@dataclass(frozen=True)
class EpisodicRun:
    """What happened in K episodes of H steps: starts, decisions with their policies, every step."""

    starts: Ints  # [K]
    policies: list[Policy]
    decisions: list[Decision]  # one for each episode
    pairs: Ints  # [K, H]
    rewards: Floats  # [K, H]
    next_states: Ints  # [K, H]

    @property
    def episodes(self) -> int:
        """K."""
        return self.starts.size

    @property
    def horizon(self) -> int:
        """H."""
        return int(self.pairs.shape[1])

    @cached_property
    def played(self) -> Ints:
        """The index of each episode's policy, [K]."""
        return np.array([decision.policy for decision in self.decisions], dtype=np.int64)

    @cached_property
    def explored(self) -> Bools:
        """Which episodes were not conservative, [K]."""
        return np.array([decision.role == "optimistic" for decision in self.decisions], dtype=bool)

    @property
    def baseline_episodes(self) -> int:
        """Episodes played with the baseline in the conservative role."""
        return int(np.sum(~self.explored))


@overload
def simulate(problem: Problem, agent: Player, steps: int, seed: int | np.random.SeedSequence = 0) -> Run: ...


@overload
def simulate(
    problem: Problem,
    agent: EpisodicPlayer,
    *,
    episodes: int,
    seed: int | np.random.SeedSequence = 0,
    starts: Ints | None = None,
) -> EpisodicRun: ...


def simulate(
    problem: Problem,
    agent: Player | EpisodicPlayer,
    steps: int | None = None,
    seed: int | np.random.SeedSequence = 0,
    *,
    episodes: int | None = None,
    starts: Ints | None = None,
) -> Run | EpisodicRun:
    """Play `steps` steps, or `episodes` episodes of a finite horizon, from the problem's start.

    `seed` draws next states and rewards, the agent has its own. `starts` [episodes] are the first states of the
    episodes, where they differ.
    """
    if isinstance(agent, EpisodicPlayer):
        if steps is not None or episodes is None:
            raise InvalidInput("no such run", ["an agent of episodes plays `episodes`, not `steps`"])
        if problem.horizon != agent.horizon:
            fault = f"the agent has horizon {agent.horizon}, the problem {problem.horizon}"
            raise InvalidInput("agent and problem do not fit", [fault])
        if not is_whole(episodes, 1):
            raise InvalidInput("no such run", [f"episodes {episodes} must be a positive whole number"])
        where = np.full(int(episodes), problem.start) if starts is None else np.asarray(starts)
        if where.shape != (episodes,):
            raise InvalidInput("no such run", [f"starts have shape {where.shape}, not ({episodes},)"])
        return simulate_episodes(problem.mdp, agent, where, seed, problem.mechanics, problem.laws)
    if steps is None or episodes is not None or starts is not None:
        raise InvalidInput("no such run", ["an average-reward agent plays `steps`, not `episodes`"])
    return _simulate_steps(problem, agent, steps, seed)


def simulate_episodes(
    mdp: Dynamics,
    agent: EpisodicPlayer,
    starts: Ints,
    seed: int | np.random.SeedSequence = 0,
    mechanics: Mechanics | None = None,
    laws: Sequence[Floats] = (),
) -> EpisodicRun:
    """Play an episode from each of `starts` [K] on a table, or on one table for each stage.

    `mechanics` and `laws` are the true ones, if the agent is told the noise of its steps.
    """
    teller = _teller(agent, mechanics, laws, seed)
    faults = misfits(mdp, agent.space, agent.bounded)
    if agent.episodes:
        faults.append(f"the agent has played already, {agent.episodes} episodes")
    if mdp.stages > 1 and not getattr(agent, "stage_dependent", True):
        faults.append("the dynamics change with the stage: build the agent with stage_dependent=True")
    if mdp.stages not in (1, agent.horizon):
        faults.append(f"the agent has horizon {agent.horizon}, the dynamics {mdp.stages} stages")
    if faults:
        raise InvalidInput("agent and problem do not fit", faults)
    starts = whole_numbers("starts", starts, faults)
    faults += [f"there is no state {s} to start in" for s in np.unique(starts) if not 0 <= s < mdp.n_states]
    if faults or starts.ndim != 1:
        raise InvalidInput("no such starts", faults or [f"they have shape {starts.shape}, not one for each episode"])
    world, unlimited = _world(mdp), np.zeros(0, dtype=np.int64)
    shape = (len(starts), agent.horizon)
    pairs, rewards, next_states = np.empty(shape, dtype=np.int64), np.empty(shape), np.empty(shape, dtype=np.int64)
    draws, no_coins = _draws(np.random.default_rng(seed), mdp.noise.code, agent.horizon), np.zeros(0)
    rules: dict[int, tuple[Ints, Floats]] = {}
    flips = np.empty(agent.horizon + 1)
    for i, s in enumerate(starts.tolist()):
        agent.begin(s)
        policy, q, u, coins = agent.policy, agent.decisions[-1].policy, agent.u, no_coins
        assert policy is not None
        if q not in rules:
            rules[q] = policy.stages(agent.horizon)
        if policy.weights is not None:
            coins = flips
            coins[0] = u
            agent.coin.random(out=coins[1:])
            u = float(coins[-1])
        episode = (pairs[i], rewards[i], next_states[i])
        playing.play_episode(world, *rules[q], next(draws), coins, unlimited, s, *episode)
        if teller is None:
            agent.absorb(*episode, u)
        else:
            agent.absorb(*episode, u, teller(pairs[i], next_states[i]))
    return EpisodicRun(starts, list(agent.policies), list(agent.decisions), pairs, rewards, next_states)


def _play_part(
    world: World,
    agent: Player,
    episode: Episode,
    s: int,
    draws: Floats,
    pairs: Ints,
    rewards: Floats,
    next_states: Ints,
) -> tuple[int, float]:
    """Play on from s until the episode ends or the outputs are full: how many steps, and the agent's next u."""
    policy, coins, (pair, weights) = episode.policy, np.zeros(0), episode.policy.stages(1)
    if policy.pair is None:
        ahead = np.random.Generator(copy(agent.coin.bit_generator))
        coins = np.concatenate([[agent.u], ahead.random(len(pairs))])
    own = (draws, coins, episode.allowed, s)
    length = playing.play_episode(world, pair, weights, *own, pairs, rewards, next_states)
    if policy.pair is None:
        agent.coin.random(length)
        return length, float(coins[length])
    return length, agent.u


def _world(mdp: Dynamics) -> World:
    """A table and its noise, as kernels take them."""
    noise = (mdp.r_max, mdp.noise.code, mdp.noise.scale)
    return World(mdp.space.pair_ptr, mdp.next_ptr, mdp.next_state, mdp.p, mdp.r, *noise)


def _teller(
    agent: Player | EpisodicPlayer,
    mechanics: Mechanics | None,
    laws: Sequence[Floats],
    seed: int | np.random.SeedSequence,
) -> Callable[[Ints, Ints], Ints] | None:
    """What tells the true noise [n, C] of steps to an agent whose mechanics observe it; None if they do not."""
    informed = agent.informed
    if informed is None or informed.noise is None:
        return None
    declared = informed.noise.mechanics
    if mechanics is None or not laws:
        fault = "its mechanics observe their noise, and the problem has no mechanics and laws to draw it from"
        raise InvalidInput("agent and problem do not fit", [fault])
    if mechanics.sizes != declared.sizes or not np.array_equal(mechanics.law, declared.law):
        fault = f"its noise has laws of sizes {declared.sizes}, the problem's {mechanics.sizes}, or they differ by pair"
        raise InvalidInput("agent and problem do not fit", [fault])
    true = mechanics
    known = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    rng = np.random.default_rng(np.random.SeedSequence(known.entropy, spawn_key=(*known.spawn_key, TELLER)))
    return lambda pairs, next_states: true.draw_noise(laws, pairs, next_states, rng)


def _draws(world: np.random.Generator, noise: int, horizon: int) -> Iterator[Floats]:
    """The numbers of each episode, [H, 1 or 2], in the order in which `TabularMDP.draw` draws them."""
    if noise in (2, 3):
        while True:
            yield np.array([(world.random(), world.standard_normal()) for _ in range(horizon)])
    width = 1 if noise == 0 else 2
    while True:
        yield from world.random((max(1, BLOCK // (horizon * width)), horizon, width))


def misfits(mdp: Dynamics, space: Space, bounded: bool) -> list[str]:
    """Why an agent cannot play on a table."""
    faults = [] if space == mdp.space else [f"agent on {space}, problem on {mdp.space}"]
    if bounded and not mdp.noise.bounded:
        kind = mdp.noise.kind
        faults.append(f"{kind} noise leaves [0, r_max]: build the agent with bounded=False, or choose another noise")
    return faults


def _simulate_steps(problem: Problem, agent: Player, steps: int, seed: int | np.random.SeedSequence) -> Run:
    """Play `steps` steps of an average-reward agent."""
    mdp = problem.mdp
    faults = misfits(mdp, agent.space, agent.counts.bounded)
    if agent.start is not None:
        faults.append(f"the agent has begun already, in state {agent.start}, and played {agent.t} steps")
    if faults:
        raise InvalidInput("agent and problem do not fit", faults)
    if not is_whole(steps, 1):
        raise InvalidInput("no such run", [f"steps {steps} must be a positive whole number"])
    teller = _teller(agent, problem.mechanics, problem.laws, seed)
    world, draws, table = np.random.default_rng(seed), np.zeros((min(CHUNK, steps), 2)), _world(mdp)
    pairs, rewards, next_states = np.empty(steps, dtype=np.int64), np.empty(steps), np.empty(steps, dtype=np.int64)
    agent.begin(problem.start)
    s, done, drawn = problem.start, 0, len(draws)
    while done < steps:
        episode, informed = agent.episode, agent.informed
        assert episode is not None
        if drawn == len(draws):
            playing.draw_steps(world, mdp.noise.code, draws)
            drawn = 0
        part = slice(done, done + min(episode.left, len(draws) - drawn, steps - done))
        before = None if informed is None else (agent.coin.bit_generator.state, episode.allowed.copy())
        length, u = _play_part(table, agent, episode, s, draws[drawn:], pairs[part], rewards[part], next_states[part])
        part = slice(done, done + length)
        noise = None if teller is None else teller(pairs[part], next_states[part])
        if informed is not None and before is not None:
            last = informed.first_contradiction(pairs[part], rewards[part], next_states[part], noise)
            if 0 <= last < length - 1:  # it stops there: play again as far as that, with the same draws
                agent.coin.bit_generator.state, episode.allowed[:] = before
                part = slice(done, done + last + 1)
                outputs = (pairs[part], rewards[part], next_states[part])
                length, u = _play_part(table, agent, episode, s, draws[drawn:], *outputs)
                noise = None if noise is None else noise[:length]
        drawn += length
        ended = bool(episode.allowed[pairs[part.stop - 1]] <= 0)
        done, s = part.stop, int(next_states[part.stop - 1])
        if noise is None:
            agent.absorb(pairs[part], rewards[part], next_states[part], u, ended)
        else:
            agent.absorb(pairs[part], rewards[part], next_states[part], u, ended, noise)
    record = (list(agent.segments), agent.policies.copy(), list(agent.decisions))
    return Run(problem.start, *record, pairs, rewards, next_states)
