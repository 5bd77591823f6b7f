"""Playing with an account: before each step it is asked whether the learner's proposal may be played there.

state s, proposal a                                   what happens                      the account
a is what the baseline plays                          a is played                       + rate
balance + worst case of a >= 0                        a is played, a deposit put down   + rate; settled by the outcome
otherwise                                             the baseline is played            + rate

The rate is α g, or what `certificates.tolerance` makes of it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefooted.agents import wording
from surefooted.agents.agent import Decision, Role
from surefooted.agents.average import UNLIMITED, AveragePlayer, Episode
from surefooted.agents.in_use import exclusive
from surefooted.agents.player import L
from surefooted.agents.verdicts import by_account, check_proposal
from surefooted.certificates.account import Account
from surefooted.certificates.unknown import UnknownAccount
from surefooted.planning import Plan
from surefooted.tables.space import Floats, Ints


class StepByStep(AveragePlayer[L]):
    """An average-reward player that may keep an account: then each step is decided on its own.

    A decision of the role "optimistic" then means: the proposal, wherever the account pays for it. Policy 0 is the
    baseline.
    """

    def __init__(self, learner: L, seed: int | np.random.Generator, account: Account | UnknownAccount | None) -> None:
        super().__init__(learner, seed)
        self.account = account

    @property
    def contradictions(self) -> list[str]:
        """What was observed that contradicts what was declared, also of a baseline; empty while all is well."""
        return super().contradictions + ([] if self.account is None else self.account.contradictions)

    @exclusive
    def begin(self, s: int) -> None:
        """The run begins in s: plan the first episode."""
        if self.account is not None and not self.begun:
            self.account.begin(self.space.check_state(s))
        super().begin(s)

    def step_by_step(self, plan: Plan) -> Episode:
        """An episode in which the account is asked before each step whether the plan may be played."""
        assert self.account is not None
        check_proposal(plan.policy)
        policy, terms = self.policies.id_of(plan.policy), self.account.terms
        reason, budget = wording.STEP_BY_STEP, sum(terms.values())
        decision = Decision("optimistic", reason, t=self.t, policy=policy, budget=budget, terms=terms)
        due = self.account.next_review
        left = UNLIMITED if due is None else max(due - self.t, 1)
        left = 1 if self.learner.every_step else left
        return Episode(plan.policy, decision, left)

    @exclusive
    def act(self, s: int) -> Decision:
        """What to play in s, and why. Changes nothing: asking again gives the same answer."""
        decision = super().act(s)
        if self.account is None or decision.role == "baseline":
            return decision
        return by_account(decision, self.account, s, self.space)

    @property
    def draws(self) -> bool:
        """Whether each step uses a random number: one is set aside for the baseline wherever it may be played."""
        return super().draws if self.account is None else not self.account.baseline.policy.is_deterministic

    def _pair(self, s: int) -> int:
        """The pair that it plays in s now."""
        if self.account is None or self.account.proposed(s) < 0 or self.account.verdict(s).pays:
            return super()._pair(s)
        return self.account.baseline.policy.pair_at(s, self.coin.u)

    def _tell_account(self, episode: Episode) -> None:
        """Tell the account what is proposed from now on."""
        if self.account is not None:
            self.account.propose(None if episode.decision.role == "baseline" else episode.policy)

    def _record(self, pairs: Ints, rewards: Floats, next_states: Ints) -> list[tuple[int, Role, int]]:
        """Settle these steps; each stretch played either the proposal or the baseline."""
        if self.account is None or self.state is None:
            return super()._record(pairs, rewards, next_states)
        explored, decision = self.account.book(self.state, pairs, rewards, next_states), self._episode().decision
        if decision.role == "baseline":
            return [(0, "baseline", len(pairs))]
        first, stretches = 0, list[tuple[int, Role, int]]()
        for end in [*(np.flatnonzero(explored[1:] != explored[:-1]) + 1).tolist(), len(pairs)]:
            played: tuple[int, Role] = (decision.policy, "optimistic") if explored[first] else (0, "baseline")
            stretches.append((*played, end - first))
            first = end
        return stretches

    def _player_state(self) -> dict[str, Any]:
        """The part of `state_dict` that every player has, and the account."""
        account = None if self.account is None else self.account.state_dict()
        return super()._player_state() | {"account": account}

    def _restore_player(self, state: Mapping[str, Any]) -> None:
        """Continue from `_player_state`."""
        super()._restore_player(state)
        if self.account is not None:
            self.account = self.account.restored(state["account"])
            self._tell_account(self._episode())
