"""Learners of episodes: they propose a policy for each, and bound what a policy earns.

`Explorer` plays what a learner proposes; CUCB-VI makes it conservative. A new learner is a subclass of
`EpisodicLearner` with one method, `propose` (docs/adding-a-learner.md).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from surefooted.agents import wording
from surefooted.agents.learner import Learner
from surefooted.arrays import is_whole
from surefooted.errors import InvalidInput
from surefooted.kernels import stages
from surefooted.planning import Side
from surefooted.tables.policy import NO_WEIGHTS, Policy
from surefooted.tables.space import Floats, Ints, Space


class EpisodicLearner(Learner, ABC):
    """Counts what happened, keeps the set of plausible MDPs, and bounds policies with it; subclasses propose.

    On the event of `confidence`, of probability at least 1 - delta, all bounds hold at all times.

    Parameters
    ----------
    space : the states and their actions
    horizon : H, the number of steps of an episode
    stage_dependent : each stage has dynamics of its own
    options : delta, confidence, bounded, knowledge (see `Learner`)

    Example
    -------
    >>> import surefooted as sf
    >>> class Careless(sf.agents.EpisodicLearner):
    ...     def propose(self):
    ...         return sf.Policy.uniform(self.space)
    >>> problem = sf.problems.gridworld()
    >>> agent = sf.agents.Explorer(Careless(problem.space, problem.horizon))
    >>> sf.simulate(problem, agent, episodes=5).episodes
    5

    """

    reason = wording.OPTIMISTIC  # why an agent plays what was proposed

    def __init__(self, space: Space, horizon: int, *, stage_dependent: bool = False, **options: Any) -> None:
        if not is_whole(horizon, 1):
            raise InvalidInput("no such agent", [f"horizon {horizon} must be a positive whole number"])
        self.horizon, self.stage_dependent = int(horizon), stage_dependent
        super().__init__(space, stages=self.horizon if stage_dependent else 1, **options)
        self.stride = space.n_pairs if self.counts.stages > 1 else 0  # how far apart a pair's rows of two stages are
        self._row_offset = np.arange(self.horizon) * self.stride
        self._values = np.zeros((self.horizon + 1, space.n_states))  # the last row stays 0

    def arguments(self) -> dict[str, Any]:
        """Those of every learner, and the horizon."""
        return super().arguments() | {"horizon": self.horizon}

    @abstractmethod
    def propose(self) -> Policy:
        """The policy to explore with, given what was learnt so far."""

    def learn(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None = None) -> None:
        """Count the H steps of an episode."""
        super().learn(pairs + self._row_offset if self.stride else pairs, rewards, next_states, noise)

    def bound(self, policies: Sequence[Policy], side: Side = "pessimistic") -> Floats:
        """Bounds [P, S] on what each policy earns in H steps, by backward induction over the set (Eq. `pess_pe_fh`)."""
        self.check_question(policies, side)
        plausible = self.plausible()
        sign, r = (-1.0, plausible.r_lower) if side == "pessimistic" else (1.0, plausible.r_upper)
        table = (self.space.pair_ptr, tuple(plausible.rows), r, sign)
        first = np.empty((len(policies), self.space.n_states))
        if len(policies) > 1 and all(policy.pair is not None and policy.pair.ndim == 2 for policy in policies):
            pairs = np.concatenate([policy.pair for policy in policies if policy.pair is not None])
            stages.policy_stages(*table, pairs, NO_WEIGHTS, self._values, first)
            return first
        for i, policy in enumerate(policies):
            stages.policy_stages(*table, *policy.stages(self.horizon), self._values, first[i : i + 1])
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


class GreedyPlan:
    """Arrays that a plan is computed in, and the policy it gave, made again only when it changed."""

    def __init__(self, space: Space, horizon: int) -> None:
        self.space = space
        self.values = np.zeros((horizon + 1, space.n_states))
        self.pair = np.full((horizon, space.n_states), -1)
        self._policy: Policy | None = None

    def policy(self, plan: Callable[[], bool]) -> Policy:
        """The greedy policy of a plan that says whether it changed `pair`; if it did not, the same object as before."""
        policy, self._policy = self._policy, None  # if planning fails, it is made again the next time
        if plan() or policy is None:
            policy = Policy._of_pairs(self.space, self.pair)
        self._policy = policy
        return policy

    @property
    def made(self) -> Policy | None:
        """The policy that was planned last; None if it must be made again."""
        return self._policy

    def made_elsewhere(self, policy: Policy) -> None:
        """A kernel has planned in these arrays, and this was its last policy."""
        self._policy = policy
