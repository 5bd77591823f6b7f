"""Episodes with an account: before each step it is asked whether the learner's proposal may be played there.

`step_by_step` does the same for average reward. Each episode pays in α V_1(s_1), or what
`certificates.tolerance` makes of it, when it begins. What a departure at
stage h is worth is its reward plus the baseline's value of the next state at stage h + 1, minus the value given up.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefooted.agents import wording
from surefooted.agents.agent import Decision, Role
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.episodic_learner import EpisodicLearner
from surefooted.agents.in_use import exclusive
from surefooted.agents.verdicts import by_account, check_proposal
from surefooted.certificates.account import Account
from surefooted.tables.policy import Policy
from surefooted.tables.space import Bools, Floats, Ints


class EpisodeSteps(EpisodicPlayer):
    """Plays episodes and may keep an account: then each step is decided on its own.

    A decision of the role "optimistic" then means: the proposal, wherever the account pays for it. Policy 0 is the
    baseline.
    """

    def __init__(self, learner: EpisodicLearner, seed: int | np.random.Generator, account: Account | None) -> None:
        super().__init__(learner, seed)
        self.account = account
        self.explored_steps: list[Bools] = []  # of each episode, which steps played the proposal, [H]

    def missing(self, s: int) -> str | None:
        """Why an episode from s had better not begin to explore; None if it may.

        This is not for safety. A plan that the account stops halfway costs something and teaches little. So the account
        saves up what the baseline earns in an episode first, if it saves up anything.
        """
        account = self.account
        assert account is not None
        tolerance, value = account.tolerance, float(account.arrays.worth[s])  # what it earns above `low`
        balance = account.balance + account.credit(s)
        saves = tolerance.alpha > 0 or tolerance.per_step > 0
        return wording.saves_up(value, balance, self.space) if saves and balance < value else None

    def step_by_step(self, s: int, proposal: Policy) -> tuple[Policy, Decision]:
        """An episode from s in which the account is asked before each step whether the proposal may be played."""
        assert self.account is not None
        self.known_id(proposal)  # an error if it cannot be played here
        check_proposal(proposal)
        return proposal, self._open(s, "optimistic", wording.STEP_BY_STEP, proposal)

    def baseline_only(self, s: int, reason: str) -> tuple[Policy, Decision]:
        """An episode from s in which nothing is proposed."""
        assert self.account is not None
        return self.account.baseline.policy, self._open(s, "baseline", reason, None)

    def _open(self, s: int, role: Role, reason: str, proposal: Policy | None) -> Decision:
        """Pay in for an episode from s, and tell the account what is proposed; the budget is that before it."""
        assert self.account is not None
        policy, terms = 0 if proposal is None else self.policy_id(proposal), self.account.terms
        self.account.propose(proposal)
        t = self.horizon * self.episodes
        decision = Decision(role, reason, -1, t, policy, self.horizon, sum(terms.values()), terms)
        self._halfway = True
        self.account.pay_in(s, self.episodes + 1)
        self.explored_steps.append(np.zeros(self.horizon, dtype=np.bool_))
        return decision

    @property
    def _place(self) -> int:
        """The first place of the stage under way; that of state s is s further."""
        return self.h * self.space.n_states

    @exclusive
    def act(self, s: int) -> Decision:
        """What to play in s, and why. Changes nothing: asking again gives the same answer."""
        decision = super().act(s)
        if self.account is None or decision.role == "baseline":
            return decision
        return by_account(decision, self.account, self._place + s, self.space)

    @property
    def draws(self) -> bool:
        """Whether each step uses a random number: one is set aside for the baseline wherever it may be played."""
        return super().draws if self.account is None else not self.account.baseline.policy.is_deterministic

    def _pair(self, s: int) -> int:
        """The pair that it plays in s now."""
        account, (_, h) = self.account, self.current()
        if account is None or account.proposed(self._place + s) < 0 or account.verdict(self._place + s).pays:
            return super()._pair(s)
        return account.baseline.policy.pair_at(s, self.coin.u, h)

    def settle(self, h: int, s: int, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        """Steps from stage h and state s on were played: settle them, before anything is learnt of them.

        The account decides again what it decided before each step. So nothing that a step has shown may reach it
        before that step is settled.
        """
        if self.account is not None:
            explored = self.account.book(s, pairs, rewards, next_states, h)
            if self.decisions[-1].role == "optimistic":
                self.explored_steps[-1][h : h + len(pairs)] = explored

    def _player_state(self) -> dict[str, Any]:
        """The part of `state_dict` that every player has, and the account."""
        account = None if self.account is None else self.account.state_dict()
        return super()._player_state() | {"account": account, "explored_steps": [x.copy() for x in self.explored_steps]}

    def _restore_player(self, state: Mapping[str, Any]) -> None:
        """Continue from `_player_state`."""
        super()._restore_player(state)
        self.explored_steps = [x.copy() for x in state["explored_steps"]]
        if self.account is not None:
            self.account = self.account.restored(state["account"])
            explores = bool(self.decisions) and self.decisions[-1].role == "optimistic"
            self.account.propose(self.policy if explores else None)
