"""What an optimistic learner of episodes is: it proposes a policy, and bounds what a policy earns.

Played alone it is an agent that explores with what it proposes; held by CUCB-VI, it is made conservative. A new learner
is a subclass with `propose` (docs/adding-a-learner.md).
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np

from surefooted.agents.agent import Decision
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.kernels import stages
from surefooted.knowledge.belief import LiveSet
from surefooted.knowledge.knowledge import Knowledge
from surefooted.planning import Side
from surefooted.sets.confidence import Confidence, likelihood
from surefooted.sets.plausible import Plausible
from surefooted.tables.policy import NO_WEIGHTS, Policy
from surefooted.tables.space import Floats, Ints, Space


class Learner(Protocol):
    """All that CUCB-VI needs of a learner."""

    space: Space
    horizon: int
    bounded: bool

    def propose(self) -> Policy:
        """The policy to explore with, given what was learnt so far."""

    def bound(self, policies: Sequence[Policy], side: Side) -> Floats:
        """Bounds [P, S] on what each policy earns from each state in H steps: below or above it, all at once w.h.p."""

    def learn(self, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        """Take in the H steps of an episode."""

    def state_dict(self) -> dict[str, Any]:
        """Everything it has learnt."""

    def load_state_dict(self, state: dict[str, Any]) -> Any:
        """Continue from there."""


class EpisodicLearner(EpisodicPlayer):
    """Counts what happened, keeps the set of plausible MDPs, and bounds policies with it; subclasses propose.

    `confidence` makes the set; on its event, of probability at least 1 - delta, all bounds hold at all times. With
    `stage_dependent` each stage has dynamics of its own. `bounded` False lets rewards leave [0, r_max]; then no
    interval but Hoeffding's for sub-Gaussian noise covers them. `knowledge` makes the set smaller; once it is
    contradicted, the data alone make it.
    """

    def __init__(
        self,
        space: Space,
        horizon: int,
        *,
        delta: float = 0.05,
        confidence: Confidence = likelihood,
        stage_dependent: bool = False,
        bounded: bool = True,
        knowledge: Knowledge | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        super().__init__(space, horizon, bounded, seed)
        if not 0 < delta < 1:
            raise InvalidInput("no such agent", [f"delta {delta} must lie strictly between 0 and 1"])
        self.delta, self.confidence = delta, confidence
        self.counts = Counts(space, bounded, self.horizon if stage_dependent else 1)
        self.live = LiveSet(confidence, self.counts, delta, knowledge)
        self._values = np.zeros((self.horizon + 1, space.n_states))  # the last row stays 0
        self.stage_dependent = stage_dependent
        self.stride = space.n_pairs if self.counts.stages > 1 else 0  # how far apart a pair's rows of two stages are
        self._row_offset = np.arange(self.horizon) * self.stride

    @property
    def informed(self) -> LiveSet | None:
        """The set that holds what was declared beforehand, if anything was."""
        return self.live if self.live.knowledge is not None else None

    def trust(self, knowledge: Knowledge | None, begun: bool = False) -> None:
        """Use this knowledge (or none) from now on, whatever was contradicted before; `begun` within an episode."""
        self.live.trust(knowledge, begun or self.h < self.horizon)

    @abstractmethod
    def propose(self) -> Policy:
        """The policy to explore with, given what was learnt so far."""

    def plausible(self) -> Plausible:
        """The set of plausible MDPs now."""
        return self.live.current()

    def learn(self, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        """Count the steps of an episode."""
        self.counts.add_checked(pairs + self._row_offset if self.stride else pairs, rewards, next_states)
        if self.live.noise is not None:
            self.live.count_noise(pairs, self.noise)

    def bound(self, policies: Sequence[Policy], side: Side = "pessimistic") -> Floats:
        """Bounds [P, S] on what each policy earns, by backward induction over the set (Eq. `pess_pe_fh`)."""
        self.check_question(policies, side)
        plausible = self.plausible()
        sign, r = (-1.0, plausible.r_lower) if side == "pessimistic" else (1.0, plausible.r_upper)
        rows = (self.space.pair_ptr, plausible.rows, r, sign)
        first = np.empty((len(policies), self.space.n_states))
        if len(policies) > 1 and all(policy.pair is not None and policy.pair.ndim == 2 for policy in policies):
            pairs = np.concatenate([policy.pair for policy in policies if policy.pair is not None])
            stages.policy_stages(*rows, pairs, NO_WEIGHTS, self._values, first)
            return first
        for i, policy in enumerate(policies):
            stages.policy_stages(*rows, *policy.stages(self.horizon), self._values, first[i : i + 1])
        return first

    def check_question(self, policies: Sequence[Policy], side: Side) -> None:
        """Raise if these are not policies of this space and horizon, or there is no such side."""
        faults = []
        if side != "pessimistic" and side != "optimistic":
            faults.append(f"side {side!r}: 'pessimistic' or 'optimistic'")
        for policy in policies:
            if policy.space is not self.space and policy.space != self.space:
                faults.append(f"a policy is on {policy.space}, the learner on {self.space}")
            if policy.horizon not in (None, self.horizon):
                faults.append(f"a policy has {policy.horizon} decision rules for {self.horizon} stages")
        if faults:
            raise InvalidInput("no bound can be given", faults)

    def next_episode(self, s: int) -> tuple[Policy, Decision]:
        """Optimism: play what is proposed."""
        policy = self.propose()
        t = self.horizon * self.episodes
        reason = "Explores: the best policy in the best plausible MDP."
        return policy, Decision("optimistic", reason, -1, t, self.policy_id(policy), self.horizon)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue exactly; rebuild the agent with the same arguments and `load_state_dict`."""
        return self._player_state() | {"counts": self.counts.state_dict(), "live": self.live.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Continue where `state_dict` was taken."""
        self._restore_player(state)
        self.counts.__dict__.update(Counts.from_state_dict(self.space, state["counts"]).__dict__)
        self.live.load_state_dict(state["live"])
        return self


class GreedyPlan:
    """Arrays that a plan is computed in, and the policy it gave, made anew only when it changed."""

    def __init__(self, space: Space, horizon: int) -> None:
        self.space = space
        self.values = np.zeros((horizon + 1, space.n_states))
        self.pair = np.full((horizon, space.n_states), -1)
        self._policy: Policy | None = None

    def policy(self, changed: bool) -> Policy:
        """The greedy policy; the same object as before unless it changed."""
        if changed or self._policy is None:
            self._policy = Policy.of_pairs(self.space, self.pair)
        return self._policy
