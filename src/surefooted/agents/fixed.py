"""An agent that plays one policy for ever: the baseline itself, or an optimal policy, to compare with."""

import numpy as np

from surefooted.agents.agent import Decision, Role
from surefooted.policy import Policy


class FixedPolicy:
    """Plays a policy and learns nothing; what a randomised one plays next is drawn when it observes, not when asked."""

    def __init__(self, policy: Policy, seed: int | np.random.Generator = 0, role: Role = "baseline") -> None:
        self.policy, self.role = policy, role
        self.h = 0
        self._rng = np.random.default_rng(seed)
        self._u = float(self._rng.random())

    def begin(self, s: int) -> None:
        """Back to the first decision rule."""
        self.policy.space.check_state(s)
        self.h = 0

    def act(self, s: int) -> Decision:
        """The policy's action; the same one however often it is asked."""
        pair = self.policy.pair_at(self.policy.space.check_state(s), self._u, self.h)
        return Decision(self.role, "Plays a fixed policy.", int(self.policy.space.pair_action[pair]))

    def observe(self, s: int, a: int, r: float, s_next: int) -> None:
        """One step on."""
        self.policy.space.pair(s, a)
        self.policy.space.check_state(s_next)
        self.h += 1
        self._u = float(self._rng.random())
