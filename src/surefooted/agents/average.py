"""Playing for average reward: what UCRL2, PSRL and CUCRL2 share. A subclass says what the next episode is.

An episode is one policy, played until some pair has had its allowed visits or the steps run out.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from surefooted.agents.agent import Decision, Role
from surefooted.agents.player import L, Player
from surefooted.certificates.account import Account
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.knowledge.baseline_check import explored
from surefooted.knowledge.mechanics import NoiseValue
from surefooted.tables.policy import Policy
from surefooted.tables.policy_log import PolicyLog
from surefooted.tables.space import Floats, Ints

UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of steps with one policy, an index into the run's policies; `first` is the step it began, from 0."""

    policy: int
    role: Role
    first: int
    length: int


@dataclass
class Episode:
    """What is played now, for how many more steps, and whether it ends when the visits of some pair have doubled."""

    policy: Policy
    decision: Decision
    left: int
    doubling: bool = True


class AveragePlayer(Player[L]):
    """Plays one long run, and records its segments, distinct policies and decisions."""

    account: Account | None = None  # asked before every step, if the player keeps one

    def __init__(self, learner: L, seed: int | np.random.Generator = 0) -> None:
        super().__init__(learner, seed)
        self.t = 0  # steps played
        self.start: int | None = None
        self.episode: Episode | None = None
        self.played: list[tuple[int, int]] = []  # the policy and the length of each segment, as certificates take them
        self.roles: list[Role] = []  # of each segment
        self.explored = 0  # steps that were not conservative
        self.policies = PolicyLog()
        self.allowed = np.ones(self.space.n_pairs, dtype=np.int64)  # visits left of each pair in this episode, [K]
        self._doubled = self.allowed  # N_k^+ of each pair, as far as it was brought up to date
        self._doubled_at: tuple[int, Ints] = (0, np.zeros(0, dtype=np.int64))  # steps counted then, and their visits

    @abstractmethod
    def next_episode(self) -> Episode:
        """The episode that starts now; subclasses are the pseudo-code of this."""

    @property
    def segments(self) -> list[Segment]:
        """What was played so far, a new list."""
        ends = accumulate(length for _, length in self.played)
        each = zip(self.played, self.roles, ends, strict=True)
        return [Segment(policy, role, end - length, length) for (policy, length), role, end in each]

    @property
    def begun(self) -> bool:
        """Whether the run has begun."""
        return self.start is not None

    def begin(self, s: int) -> None:
        """The run begins in s: plan the first episode."""
        s = self.space.check_state(s)
        if self.begun:
            fault = f"it began in state {self.start}, {self.t} steps ago; an average-reward run has one beginning"
            raise InvalidInput("the run has begun already", [fault])
        self.start = self.state = s
        self._plan()

    def observe(self, s: int, a: int, r: float, s_next: int, noise: NoiseValue | None = None) -> None:
        """Learn from one step; plan again if it ended the episode. Nothing changes if the step is impossible.

        `noise` is for mechanics that observe it. A step that contradicts what was declared ends the episode.
        """
        pair, reward, s_next, told = self._check_step(s, a, r, s_next, noise)
        self.allowed[pair] -= 1
        self.absorb(np.array([pair]), np.array([reward]), np.array([s_next]), told)

    def absorb(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None = None) -> int:
        """Learn from steps that a simulator played with `episode`, `coin` and `allowed`; how many of them count.

        Steps after the first that contradicts what was declared do not: the agent plans again there. The simulator has
        counted `allowed` down. Rewards are in the user's unit; from here on, they are counted from `low`. `noise`
        [n, C] is for mechanics that observe it.
        """
        rewards = self.space.money.counted(rewards)
        impossible = self.learner.belief.notice(pairs, rewards, next_states, noise)
        taken = len(pairs) if impossible < 0 else impossible + 1
        np.add.at(self.allowed, pairs[taken:], 1)
        told = None if noise is None else noise[:taken]
        self.learner.learn(pairs[:taken], rewards[:taken], next_states[:taken], told)
        if self.draws:
            self.coin.use(taken)
        stretches = self._record(pairs[:taken], rewards[:taken], next_states[:taken])
        for policy, role, steps in stretches:
            self._append(policy, role, steps)
        if self.check is not None and self.state is not None:
            self.check.add(self.state, pairs[:taken], rewards[:taken], next_states[:taken], explored(stretches))
        self.state = int(next_states[taken - 1])
        self._advance(taken, impossible >= 0 or bool(self.allowed[pairs[taken - 1]] <= 0))
        return taken

    @property
    def draws(self) -> bool:
        """Whether each step of the episode under way uses a random number."""
        return not self._episode().policy.is_deterministic

    def _record(self, pairs: Ints, rewards: Floats, next_states: Ints) -> list[tuple[int, Role, int]]:
        """What these steps, the next ones of the episode, played: policy, role and length of each stretch."""
        decision = self._episode().decision
        return [(decision.policy, decision.role, len(pairs))]

    def _append(self, policy: int, role: Role, steps: int) -> None:
        """Add steps just played to the last segment, or begin a new one."""
        if self.played and (self.played[-1][0], self.roles[-1]) == (policy, role):
            self.played[-1] = (policy, self.played[-1][1] + steps)
        else:
            self.played.append((policy, steps))
            self.roles.append(role)
        self.explored += steps if role == "optimistic" else 0

    def current(self) -> tuple[Policy, int]:
        """The policy under way, which is stationary."""
        return self._episode().policy, 0

    def _episode(self) -> Episode:
        if self.episode is None:
            raise SurefootedError("the run has not begun: tell the agent where it starts with begin(s)")
        return self.episode

    def _advance(self, steps: int, ended: bool) -> None:
        """Steps were played; at the end of the episode, plan the next."""
        episode = self._episode()
        self.t += steps
        episode.left -= steps
        if ended or episode.left <= 0:
            self._plan()

    def _plan(self) -> None:
        self.episode = self.next_episode()
        self.decisions.append(self.episode.decision)
        self.allowed = self._double() if self.episode.doubling else np.full(self.space.n_pairs, UNLIMITED)

    def _double(self) -> Ints:
        """The visits that each pair has left in this episode: as many as it had before the episode, at least 1, [K].

        One array, in which only the pairs visited since the last time are written again.
        """
        counts, (added, visits) = self.learner.counts, self._doubled_at
        changed = counts.pairs_since(added) if counts.visits is visits else None
        if changed is None:
            self._doubled = np.maximum(counts.visits, 1)
        else:
            self._doubled[changed] = np.maximum(counts.visits[changed], 1)
        self._doubled_at = (counts.added, counts.visits)
        return self._doubled

    def _player_state(self) -> dict[str, Any]:
        """The part of `state_dict` that every player has."""
        return {
            "learner": self.learner.state_dict(),
            "coin": self.coin.state_dict(),
            "t": self.t,
            "start": self.start,
            "state": self.state,
            "played": list(self.played),
            "roles": list(self.roles),
            "policies": self.policies.copy(),
            "decisions": list(self.decisions),
            "allowed": self.allowed.copy(),
            "left": self._episode().left,
        }

    def _restore_player(self, state: Mapping[str, Any]) -> None:
        """Continue from `_player_state`."""
        self.learner.load_state_dict(state["learner"])
        self.coin = self.coin.restored(state["coin"])
        self.t, self.start, self.state = state["t"], state["start"], state["state"]
        self.played, self.roles, self.decisions = list(state["played"]), list(state["roles"]), list(state["decisions"])
        explored = (n for (_, n), role in zip(self.played, self.roles, strict=True) if role == "optimistic")
        self.explored = sum(explored)
        self.policies = state["policies"].copy()
        self.allowed, self._doubled_at = state["allowed"].copy(), (0, np.zeros(0, dtype=np.int64))
        decision = self.decisions[-1]
        self.episode = Episode(self.policies[decision.policy], decision, state["left"])
