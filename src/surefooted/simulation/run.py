"""What happened in a simulated run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from surefooted.agents.agent import Decision
from surefooted.agents.average import Segment
from surefooted.errors import InvalidInput
from surefooted.pages import Shown
from surefooted.tables.policy import Policy
from surefooted.tables.space import Bools, Floats, Ints

Column = NDArray[np.generic]
UNKNOWN = -1  # the policy of a segment or episode whose agent does not say what it follows
NO_POLICIES = "the agent does not say which policies it follows (docs/adding-an-agent.md)"


@dataclass(frozen=True, repr=False)
class Run(Shown):
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

    def _facts(self) -> dict[str, object]:
        policies = len(self.policies) if self.knows_policies else "not said"
        facts: dict[str, object] = {"steps": self.steps, "start": self.start, "earned": float(self.rewards.sum())}
        return facts | {"baseline_steps": self.baseline_steps, "policies": policies}

    @property
    def knows_policies(self) -> bool:
        """Whether the agent said which policies it followed; if not, only its decisions can be judged."""
        return all(segment.policy != UNKNOWN for segment in self.segments)

    @property
    def sequence(self) -> list[tuple[Policy, int]]:
        """μ_T: each policy and how long it was played; an error if the agent did not say its policies."""
        if not self.knows_policies:
            raise InvalidInput("this run has no policies", [NO_POLICIES])
        return [(self.policies[segment.policy], segment.length) for segment in self.segments]

    @property
    def baseline_steps(self) -> int:
        """Steps played with the baseline in the conservative role."""
        return sum(segment.length for segment in self.segments if segment.role == "baseline")

    def log_columns(self, first_episode: int = 0) -> dict[str, Column]:
        """The run as the columns of a log, one episode."""
        return _log_columns(self, self.steps, first_episode)


@dataclass(frozen=True, repr=False)
class EpisodicRun(Shown):
    """What happened in K episodes of H steps: starts, decisions with their policies, every step."""

    starts: Ints  # [K]
    policies: Sequence[Policy]
    decisions: list[Decision]  # one for each episode
    pairs: Ints  # [K, H]
    rewards: Floats  # [K, H]
    next_states: Ints  # [K, H]
    by_step: Bools | None = None  # which steps played the proposal, [K, H], if that was decided step by step
    mixtures: list[tuple[int, float]] | None = None  # if a coin chose between policy 0 and this one, with this chance

    @property
    def episodes(self) -> int:
        """K."""
        return self.starts.size

    @property
    def horizon(self) -> int:
        """H."""
        return int(self.pairs.shape[1])

    def _facts(self) -> dict[str, object]:
        facts: dict[str, object] = {"episodes": self.episodes, "horizon": self.horizon}
        return facts | {"earned": float(self.rewards.sum()), "baseline_episodes": self.baseline_episodes}

    @property
    def knows_policies(self) -> bool:
        """Whether each episode followed one policy that is known; if not, only decisions can be judged."""
        return self.by_step is None

    @cached_property
    def played(self) -> Ints:
        """The index of each episode's policy, [K]."""
        return np.array([decision.policy for decision in self.decisions], dtype=np.int64)

    @property
    def parts(self) -> list[tuple[Ints, Floats]]:
        """What the policy of each episode is a mixture of, before a coin was thrown: policies and weights, [K]."""
        if self.mixtures is None:
            return [(self.played, np.ones(self.episodes))]
        beside, weight = np.array([q for q, _ in self.mixtures]), np.array([w for _, w in self.mixtures])
        return [(beside, weight), (np.zeros_like(beside), 1.0 - weight)]

    @cached_property
    def explored(self) -> Bools:
        """Which episodes were not conservative, [K]."""
        return np.array([decision.role == "optimistic" for decision in self.decisions], dtype=bool)

    @cached_property
    def explored_steps(self) -> Bools:
        """Which steps were not conservative, [K, H]."""
        return np.repeat(self.explored[:, None], self.horizon, axis=1) if self.by_step is None else self.by_step

    @property
    def baseline_episodes(self) -> int:
        """Episodes played with the baseline in the conservative role, from beginning to end."""
        return int(np.sum(~self.explored_steps.any(axis=1)))

    @property
    def baseline_steps(self) -> int:
        """Steps played with the baseline in the conservative role."""
        return int(np.sum(~self.explored_steps))

    def log_columns(self, first_episode: int = 0) -> dict[str, Column]:
        """The run as the columns of a log, its episodes numbered from `first_episode`."""
        return _log_columns(self, self.horizon, first_episode)


def _log_columns(run: Run | EpisodicRun, length: int, first_episode: int) -> dict[str, Column]:
    """The columns of episodes of that many steps; the last step of each is truncated, since the clock ran out."""
    space, pairs = run.policies[0].space, run.pairs.reshape(-1)
    t = np.arange(pairs.size) % length
    return {
        "episode": first_episode + np.arange(pairs.size) // length,
        "t": t,
        "state": space.pair_state[pairs],
        "action": space.pair_action[pairs],
        "reward": run.rewards.reshape(-1),
        "next_state": run.next_states.reshape(-1),
        "terminated": np.zeros(pairs.size, dtype=bool),
        "truncated": t == length - 1,
    }
