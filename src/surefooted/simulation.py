"""Run an agent on a problem's true table, episode by compiled episode, reproducibly."""

from dataclasses import dataclass

import numpy as np

from surefooted import _play
from surefooted._arrays import is_whole
from surefooted.agents.agent import Decision
from surefooted.agents.player import Player, Segment
from surefooted.errors import InvalidTable
from surefooted.policy import Policy
from surefooted.problems.problem import Problem
from surefooted.space import Floats, Ints

CHUNK = 1 << 16  # steps of one episode that are played before they are counted


@dataclass(frozen=True)
class Run:
    """What happened in one realisation: segments of policies, decisions, every step's pair, reward and next state."""

    start: int
    segments: list[Segment]
    policies: list[Policy]
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


def simulate(problem: Problem, agent: Player, steps: int, seed: int | np.random.SeedSequence = 0) -> Run:
    """Play `steps` steps from the problem's start; `seed` draws next states and rewards, the agent has its own."""
    mdp = problem.mdp
    if agent.space != mdp.space:
        raise InvalidTable("agent and problem do not fit", [f"agent on {agent.space}, problem on {mdp.space}"])
    if agent.start is not None:
        fault = f"the agent has begun already, in state {agent.start}, and played {agent.t} steps"
        raise InvalidTable("agent and problem do not fit", [fault])
    if agent.counts.bounded and not mdp.noise.bounded:
        fault = f"{mdp.noise.kind} noise leaves [0, r_max]: build the agent with bounded=False, or choose another noise"
        raise InvalidTable("agent and problem do not fit", [fault])
    if not is_whole(steps, 1):
        raise InvalidTable("no such run", [f"steps {steps} must be a positive whole number"])
    world = np.random.default_rng(seed)
    table = (mdp.space.pair_ptr, mdp.next_ptr, mdp.next_state, mdp.p, mdp.r, mdp.r_max, mdp.noise.code, mdp.noise.scale)
    pairs, rewards, next_states = np.empty(steps, dtype=np.int64), np.empty(steps), np.empty(steps, dtype=np.int64)
    nothing, no_pairs = np.zeros(0), np.zeros(0, dtype=np.int64)
    agent.begin(problem.start)
    s, done = problem.start, 0
    while done < steps:
        episode = agent.episode
        assert episode is not None
        part = slice(done, done + min(episode.left, CHUNK, steps - done))
        deterministic = no_pairs if episode.policy.pair is None else episode.policy.pair
        weights = nothing if episode.policy.weights is None else episode.policy.weights
        length, u = _play.play_episode(
            world,
            agent.coin,
            *table,
            deterministic,
            weights,
            episode.allowed,
            agent.u,
            s,
            pairs[part],
            rewards[part],
            next_states[part],
        )
        part = slice(done, done + length)
        ended = bool(episode.allowed[pairs[part.stop - 1]] <= 0)
        done, s = part.stop, int(next_states[part.stop - 1])
        agent.absorb(pairs[part], rewards[part], next_states[part], u, ended)
    record = (list(agent.segments), list(agent.policies), list(agent.decisions))
    return Run(problem.start, *record, pairs, rewards, next_states)
