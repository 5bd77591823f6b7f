"""Playing by episodes: what UCRL2 and CUCRL2 share. A subclass says what the next episode is.

An episode is one policy, played until some pair has had its allowed visits or the steps run out. Live use goes through
`begin`, `act` and `observe`; a simulator plays whole episodes on the true table and hands them over with `absorb`.
Both leave the same agent behind.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefooted.agents.agent import Decision, Role
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.knowledge.belief import Believer
from surefooted.knowledge.mechanics import Noise
from surefooted.tables.policy import Policy
from surefooted.tables.policy_log import PolicyLog
from surefooted.tables.space import Floats, Ints, Space

UNLIMITED = np.int64(1) << 60


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of steps with one policy, an index into the run's policies; `first` is the step it began, from 0."""

    policy: int
    role: Role
    first: int
    length: int


@dataclass
class Episode:
    """What is being played now: how often each pair may still be visited [K], how many steps are left."""

    policy: Policy
    decision: Decision
    allowed: Ints
    left: int


class Player(Believer, ABC):
    """Plays episodes, counts what happens, and records segments, distinct policies and decisions."""

    def __init__(self, space: Space, counts: Counts, seed: int | np.random.Generator = 0) -> None:
        self.space, self.counts = space, counts
        self.coin = np.random.default_rng(seed)
        self.u = float(self.coin.random())
        self.t = 0  # steps played
        self.start: int | None = None
        self.state: int | None = None  # where the last step led
        self.episode: Episode | None = None
        self.segments: list[Segment] = []
        self.played: list[tuple[int, int]] = []  # the policy and the length of each
        self.explored = 0  # steps that were not conservative
        self.policies = PolicyLog()
        self.decisions: list[Decision] = []
        self._allowed = np.ones(space.n_pairs, dtype=np.int64)
        self._allowed_at: tuple[int, Ints] = (0, np.zeros(0, dtype=np.int64))  # steps counted then, and their visits

    @property
    def begun(self) -> bool:
        """Whether a first step or episode has begun."""
        return self.start is not None

    @abstractmethod
    def next_episode(self) -> Episode:
        """The episode that starts now; subclasses are the pseudo-code of this."""

    def begin(self, s: int) -> None:
        """The run begins in s: plan the first episode."""
        s = self.space.check_state(s)
        if self.start is not None:
            fault = f"it began in state {self.start}, {self.t} steps ago; an average-reward run has one beginning"
            raise InvalidInput("the run has begun already", [fault])
        self.start = self.state = s
        self._plan()

    def act(self, s: int) -> Decision:
        """What to play in s."""
        episode = self._current()
        pair = episode.policy.pair_at(self.space.check_state(s), self.u)
        return replace(episode.decision, action=int(self.space.pair_action[pair]))

    def observe(self, s: int, a: int, r: float, s_next: int, noise: Noise | None = None) -> None:
        """Count one step; plan again if it ended the episode. Nothing changes if the step is impossible.

        `noise` is for mechanics that observe it. A step that contradicts what was declared ends the episode.
        """
        episode = self._current()
        pair, s_next = self.space.pair(s, a), self.space.check_state(s_next)
        if s != self.state:
            fault = f"the last step led to state {self.state}, this one begins in {s}: was there a reset?"
            raise InvalidInput("the run is broken", [fault])
        if pair != episode.policy.pair_at(s, self.u):
            asked = self.act(s).action
            fault = (
                f"state {s}: the agent asked for action {asked}, not {a}; what it proves holds only for what it asks"
            )
            raise InvalidInput("another action was played", [fault])
        try:
            reward = float(r)
        except (TypeError, ValueError) as error:
            fault = f"state {s}, action {a}: reward {r!r} is not a number"
            raise InvalidInput("this step cannot be counted", [fault]) from error
        informed, step = self.informed, (np.array([pair]), np.array([reward]), np.array([s_next]))
        if noise is not None and informed is None:
            raise InvalidInput("this step cannot be counted", ["noise is given, and no mechanics were declared"])
        told = None if informed is None else informed.check_noise(pair, noise)
        self.counts.add_steps(*step)
        contradicted = self._compare(*step, told)
        self.state = s_next
        episode.allowed[pair] -= 1
        if episode.policy.pair is None:
            self.u = float(self.coin.random())
        self._advance(1, bool(episode.allowed[pair] <= 0) or contradicted)

    def absorb(
        self, pairs: Ints, rewards: Floats, next_states: Ints, u: float, ended: bool, noise: Ints | None = None
    ) -> None:
        """Count the steps of an episode that a simulator played with this agent's `episode`, `coin` and `u`.

        None of them but the last contradicts what was declared. `noise` [n, C] is for mechanics that observe it.
        """
        self.counts.add_checked(pairs, rewards, next_states)
        contradicted = self._compare(pairs, rewards, next_states, noise)
        self.u, self.state = u, int(next_states[-1])
        self._advance(len(pairs), ended or contradicted)

    def _compare(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None) -> bool:
        """Compare steps with what was declared, and count their noise: whether they contradict it."""
        if self.informed is None:
            return False
        self.informed.count_noise(pairs, noise)
        return self.informed.notice(pairs, rewards, next_states, noise)

    def policy_id(self, policy: Policy) -> int:
        """The index of a policy among the distinct ones of this run, where it is added if it is new."""
        return self.policies.id_of(policy)

    def doubling(self) -> Ints:
        """N_k^+ = max(1, N_k) [K], how often each pair may be visited until it has been so as often as ever before.

        One array, in which only the pairs visited since the last time are written anew.
        """
        counts, (added, visits) = self.counts, self._allowed_at
        changed = counts.pairs_since(added) if counts.visits is visits else None
        if changed is None:
            np.maximum(counts.visits, 1, out=self._allowed)
        else:
            self._allowed[changed] = np.maximum(counts.visits[changed], 1)
        self._allowed_at = (counts.added, counts.visits)
        return self._allowed

    def _current(self) -> Episode:
        if self.episode is None:
            raise SurefootedError("the run has not begun: tell the agent where it starts with begin(s)")
        return self.episode

    def _advance(self, steps: int, ended: bool) -> None:
        """Record steps just played; at the end of the episode, plan the next."""
        episode = self._current()
        role, policy = episode.decision.role, episode.decision.policy
        last = self.segments[-1] if self.segments else None
        if last is not None and (last.policy, last.role) == (policy, role):
            self.segments[-1] = Segment(policy, role, last.first, last.length + steps)
            self.played[-1] = (policy, last.length + steps)
        else:
            self.segments.append(Segment(policy, role, self.t, steps))
            self.played.append((policy, steps))
        self.explored += steps if role == "optimistic" else 0
        self.t += steps
        episode.left -= steps
        if ended or episode.left <= 0:
            self._plan()

    def _plan(self) -> None:
        self.episode = self.next_episode()
        self.decisions.append(self.episode.decision)

    def _player_state(self) -> dict[str, Any]:
        """The part of `state_dict` that every player has."""
        episode = self._current()
        return {
            "counts": self.counts.state_dict(),
            "coin": self.coin.bit_generator.state,
            "u": self.u,
            "t": self.t,
            "start": self.start,
            "state": self.state,
            "segments": list(self.segments),
            "policies": self.policies.copy(),
            "decisions": list(self.decisions),
            "allowed": episode.allowed.copy(),
            "left": episode.left,
        }

    def _restore_player(self, state: dict[str, Any]) -> None:
        """Continue from `_player_state`."""
        restored = Counts.from_state_dict(self.space, state["counts"])
        self.counts.__dict__.update(restored.__dict__)
        self.coin.bit_generator.state = state["coin"]
        self.u, self.t, self.start, self.state = state["u"], state["t"], state["start"], state["state"]
        self.segments, self.decisions = list(state["segments"]), list(state["decisions"])
        self.played = [(segment.policy, segment.length) for segment in self.segments]
        self.explored = sum(segment.length for segment in self.segments if segment.role == "optimistic")
        self.policies = state["policies"].copy()
        decision = self.decisions[-1]
        self.episode = Episode(self.policies[decision.policy], decision, state["allowed"].copy(), state["left"])
