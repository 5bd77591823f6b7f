"""UCRL2 (Jaksch, Ortner & Auer 2010), optionally with the dynamic episode rule of Ouyang et al. (2017).

Step numbers are those of the paper's Fig. `cucrl`; a conservative agent adds steps 4 and 5.
"""

from typing import Any, Self

import numpy as np

from surefooted import planning
from surefooted.agents.agent import Decision
from surefooted.agents.player import UNLIMITED, Episode, Player, restored
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.knowledge.belief import Belief
from surefooted.knowledge.knowledge import Knowledge
from surefooted.planning import Plan
from surefooted.sets.confidence import Confidence, likelihood
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Space


class UCRL2(Player):
    """Optimism: each episode plays the policy that is best in the best plausible MDP.

    An episode ends as soon as some pair has been visited in it as often as ever before (at least once); with `dynamic`,
    also when it has lasted one step longer than the one before it, so that T_k <= T_{k-1} + 1. `bounded` False lets
    rewards leave [0, r_max], as the paper's experiments do; then no interval but Hoeffding's for sub-Gaussian noise
    covers them. `knowledge` makes the set smaller; once it is contradicted, the data alone make it.
    """

    belief: Belief

    def __init__(
        self,
        space: Space,
        *,
        delta: float = 0.05,
        confidence: Confidence = likelihood,
        dynamic: bool = False,
        bounded: bool = True,
        knowledge: Knowledge | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        if not 0 < delta < 1:
            raise InvalidInput("no such agent", [f"delta {delta} must lie strictly between 0 and 1"])
        super().__init__(space, Counts(space, bounded), seed)
        self.belief, self.dynamic = Belief(self.counts, confidence, delta, knowledge), dynamic
        self.last_length = 0  # T_{k-1}

    def trust(self, knowledge: Knowledge | None) -> None:
        """Use this knowledge (or none) from now on, whatever was contradicted before."""
        self.belief.trust(knowledge)

    def begin(self, s: int) -> None:
        """The run begins in s, or goes on there after a reset: an optimist may be moved."""
        if self.start is None:
            super().begin(s)
        else:
            self.state = self.space.check_state(s)

    def plausible(self) -> Plausible:
        """The confidence set of what has been counted."""
        return self.belief.plausible()  # step 2

    def propose(self, plausible: Plausible, t: int) -> Plan:
        """The optimistic policy for an episode that begins after t steps, to r_max / sqrt(t + 1)."""
        return planning.optimistic_gain(plausible, self.space.r_max / np.sqrt(t + 1))  # step 3

    def next_episode(self) -> Episode:
        """Steps 1 to 3 and 6 to 8 of Fig. `cucrl`."""
        if self.episode is not None:
            assert self.episode.decision.length is not None
            self.last_length = self.t - self.decisions[-1].t
        plan = self.propose(self.plausible(), self.t)
        allowed = self.doubling()  # step 1: ν_k = 0, played while ν_k < N_k^+
        left = self.last_length + 1 if self.dynamic else int(UNLIMITED)  # step 7
        reason = f"Explores: the best plausible gain is {plan.upper:.4g}."
        decision = Decision("optimistic", reason, t=self.t, policy=self.policy_id(plan.policy), length=left)
        return Episode(plan.policy, decision, allowed, left)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue exactly; rebuild the agent with the same arguments and `load_state_dict`."""
        return self._player_state() | {"last_length": self.last_length, "belief": self.belief.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Continue where `state_dict` was taken."""
        self._restore_player(state)
        self.last_length = state["last_length"]
        self.belief = restored(self.belief, state["belief"])
        return self
