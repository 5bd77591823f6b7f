"""An agent that plays one policy for ever: the baseline itself, or an optimal policy, to compare with."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefooted.agents.agent import Decision, Role
from surefooted.agents.identity import Restorable
from surefooted.agents.in_use import exclusive
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.tables.policy import Policy


class FixedPolicy(Restorable):
    """Plays a policy and learns nothing; what a randomised one plays next is drawn when it observes, not when asked.

    - `policy`: stationary, or with a decision rule for each stage.
    - `seed`: of what a randomised policy draws.
    - `role`: what its decisions say, "baseline" or "optimistic".

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> agent = sf.agents.FixedPolicy(problem.baseline)
    >>> agent.begin(0)
    >>> agent.act(0).action  # riverswim's baseline swims left
    0
    """

    def __init__(self, policy: Policy, seed: int | np.random.Generator = 0, role: Role = "baseline") -> None:
        self.policy, self.role = policy, role
        self.h, self.state = 0, -1
        self._rng = np.random.default_rng(seed)
        self._u = float(self._rng.random())

    @exclusive
    def begin(self, s: int) -> None:
        """Back to the first decision rule."""
        self.state, self.h = self.policy.space.check_state(s), 0

    @exclusive
    def act(self, s: int) -> Decision:
        """The policy's action; the same one however often it is asked."""
        if self.state < 0:
            raise SurefootedError("the run has not begun: tell the agent where it starts with begin(s)")
        return Decision(self.role, "Plays a fixed policy.", int(self.policy.space.pair_action[self._pair(s)]))

    @exclusive
    def observe(self, s: int, a: int, r: float, s_next: int) -> None:
        """One step on; nothing changes if the step is impossible."""
        asked = self.act(s).action
        space = self.policy.space
        space.pair(s, a)
        faults = [f"state {s}: the agent asked for action {asked}, not {a}"] if a != asked else []
        if s != self.state:
            faults.append(f"the last step led to state {self.state}, this one begins in {s}")
        if not np.isfinite(r):
            faults.append(f"state {s}, action {a}: reward {r} is not a number")
        if faults:
            raise InvalidInput("this step cannot be", faults)
        s_next, u = space.check_state(s_next), float(self._rng.random())
        self.state, self.h, self._u = s_next, self.h + 1, u

    def _pair(self, s: int) -> int:
        s = self.policy.space.check_state(s)
        if self.policy.horizon is not None and self.h >= self.policy.horizon:
            raise SurefootedError("the episode is over: tell the agent where the next one starts with begin(s)")
        return self.policy.pair_at(s, self._u, self.h)

    def arguments(self) -> dict[str, Any]:
        """What it plays."""
        return {"space": self.policy.space, "policy": self.policy, "role": self.role}

    def _contents(self) -> dict[str, Any]:
        return {"h": self.h, "state": self.state, "u": self._u, "coin": self._rng.bit_generator.state}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.h, self.state, self._u = state["h"], state["state"], state["u"]
        self._rng = np.random.Generator(type(self._rng.bit_generator)())
        self._rng.bit_generator.state = state["coin"]
