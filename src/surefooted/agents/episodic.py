"""Playing episodes of H steps: what UCBVI, EULER, PSRL and CUCB-VI share. A subclass says what the next episode plays.

An episode begins in a state that is revealed by `begin`, lasts exactly H steps, and is learnt from when it is over.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from surefooted.agents.agent import Decision
from surefooted.agents.episodic_learner import EpisodicLearner
from surefooted.agents.in_use import exclusive
from surefooted.agents.player import Player
from surefooted.arrays import like, whole
from surefooted.certificates.account import Account
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.knowledge.mechanics import NoiseValue
from surefooted.tables.policy import Policy
from surefooted.tables.policy_log import PolicyLog
from surefooted.tables.space import Bools, Floats, Ints


class EpisodicPlayer(Player[EpisodicLearner]):
    """Plays episodes, and records their starts, distinct policies and decisions."""

    unit = "episode"
    account: Account | None = None  # asked before every step, if the player keeps one
    explored_steps: list[Bools]  # with an account: of each episode, which steps played the proposal, [H]
    mixtures: list[tuple[int, float]] | None = None  # of each episode, if a coin chose: see `EpisodicRun`

    def __init__(self, learner: EpisodicLearner, seed: int | np.random.Generator = 0) -> None:
        super().__init__(learner, seed)
        self.horizon = learner.horizon
        self.h = self.horizon  # the stage that comes next; H when no episode is under way
        self.policy: Policy | None = None  # of the episode under way
        self.starts: list[int] = []
        self.policies = PolicyLog(horizon=self.horizon)
        self.pairs = np.empty(self.horizon, dtype=np.int64)  # of the episode under way
        self.rewards = np.empty(self.horizon)  # counted from `low`
        self.next_states = np.empty(self.horizon, dtype=np.int64)
        self.noise: Ints | None = None  # [h, C], if the mechanics observe it

    @abstractmethod
    def next_episode(self, s: int) -> tuple[Policy, Decision]:
        """What the episode that begins in s plays, and why; subclasses are the pseudo-code of this.

        What is changed for good is changed at the very end, after `_halfway` is set.
        """

    def learn(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None) -> None:
        """Learn from the H steps of an episode that is over, with rewards counted from `low`."""
        self.learner.learn(pairs, rewards, next_states, noise)

    @property
    def episodes(self) -> int:
        """Episodes begun."""
        return len(self.starts)

    @property
    def begun(self) -> bool:
        """Whether the first episode has begun."""
        return self.episodes > 0

    @exclusive
    def begin(self, s: int) -> None:
        """An episode begins in s: decide what it plays. If planning fails, no episode has begun."""
        s = self.space.check_state(s)
        if self.h < self.horizon:
            fault = f"the last one has played {self.h} of {self.horizon} steps; a shorter episode is not one of these"
            raise InvalidInput("the episode is not over", [fault])
        put_back = self._bookmark()
        try:
            policy, decision = self.next_episode(s)
        except BaseException:
            put_back()
            raise
        self.decisions.append(decision)
        self.starts.append(s)
        self.policy, self.h, self.state, self._halfway = policy, 0, s, False

    @exclusive
    def observe(self, s: int, a: int, r: float, s_next: int, noise: NoiseValue | None = None) -> None:
        """Take in one step; learn if it was the last. Nothing changes if the step is impossible.

        `noise` is for mechanics that observe it. The agent notices at once what contradicts what was declared, and
        plays the episode to its end.
        """
        pair, reward, s_next, told = self._check_step(s, a, r, s_next, noise)
        self._halfway = True
        if told is not None:
            self.noise = told if self.h == 0 or self.noise is None else np.concatenate([self.noise, told])
        reward = self.space.money.counted(reward)
        self.learner.belief.notice(np.array([pair]), np.array([reward]), np.array([s_next]), told)
        self.pairs[self.h], self.rewards[self.h], self.next_states[self.h] = pair, reward, s_next
        if self.draws:
            self.coin.use(1)
        h, self.h, self.state = self.h, self.h + 1, s_next
        self.settle(h, int(s), self.pairs[h : h + 1], self.rewards[h : h + 1], self.next_states[h : h + 1])
        if self.h == self.horizon:
            self.learn(self.pairs, self.rewards, self.next_states, self.noise)
        self._halfway = False

    @exclusive
    def absorb(
        self, pairs: ArrayLike, rewards: ArrayLike, next_states: ArrayLike, noise: ArrayLike | None = None
    ) -> None:
        """Take in the episode that a simulator played with `policy` and `coin`, with rewards in the user's unit."""
        steps = self._check_steps(pairs, rewards, next_states, noise)
        if len(steps[0]) != self.horizon:
            raise InvalidInput("this is no episode", [f"it has {len(steps[0])} steps, not {self.horizon}"])
        self._absorb(*steps)

    def _absorb(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None = None) -> None:
        """`absorb` of steps that are known to be possible, as those of `simulate`."""
        self.current()  # an error if none is under way
        self._halfway = True
        rewards = self.space.money.counted(rewards)
        if self.draws:
            self.coin.use(self.horizon)
        self.h, self.state, self.noise = self.horizon, int(next_states[-1]), noise
        self.learner.belief.notice(pairs, rewards, next_states, noise)
        self.settle(0, self.starts[-1], pairs, rewards, next_states)
        self.learn(pairs, rewards, next_states, noise)
        self._halfway = False

    def settle(self, h: int, s: int, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        """Steps from stage h and state s on were played. An account settles them before anything is learnt of them."""

    @property
    def draws(self) -> bool:
        """Whether each step of the episode under way uses a random number."""
        return not self.current()[0].is_deterministic

    def current(self) -> tuple[Policy, int]:
        """The policy under way and its stage."""
        if self.policy is None or self.h == self.horizon:
            raise SurefootedError("no episode is under way: tell the agent where the next one starts with begin(s)")
        return self.policy, self.h

    def policy_id(self, policy: Policy) -> int:
        """The index of a policy among the distinct ones of this run, where it is added if it is new."""
        return self.policies.id_of(policy)

    def known_id(self, policy: Policy) -> int | None:
        """The index of a policy among the distinct ones played, or None; an error if it cannot be played here."""
        if policy.space is not self.space and policy.space != self.space:
            raise InvalidInput("this policy cannot be played", [f"it is on {policy.space}, the agent on {self.space}"])
        if policy.horizon not in (None, self.horizon):
            fault = f"it has {policy.horizon} decision rules for {self.horizon} stages"
            raise InvalidInput("this policy cannot be played", [fault])
        return self.policies.find(policy)

    def _player_state(self) -> dict[str, Any]:
        """The part of `state_dict` that every player has."""
        under_way = slice(0, self.h % self.horizon)
        return {
            "learner": self.learner.state_dict(),
            "coin": self.coin.state_dict(),
            "h": self.h,
            "state": self.state,
            "starts": list(self.starts),
            "policies": self.policies.copy(),
            "decisions": list(self.decisions),
            "pairs": self.pairs[under_way].copy(),
            "rewards": self.rewards[under_way].copy(),
            "next_states": self.next_states[under_way].copy(),
            "noise": None if self.noise is None else self.noise[under_way].copy(),
        }

    def _restore_player(self, state: Mapping[str, Any]) -> None:
        """Continue from `_player_state`."""
        self.learner.load_state_dict(state["learner"])
        self.coin = self.coin.restored(state["coin"])
        last, n = self.space.n_states - 1, self.space.n_pairs
        self.h = whole("h", state["h"], 0, self.horizon)
        self.state = None if state["state"] is None else whole("state", state["state"], 0, last)
        self.starts, self.decisions = list(state["starts"]), list(state["decisions"])
        held = state["policies"]  # in older states a list
        self.policies = held.copy() if isinstance(held, PolicyLog) else PolicyLog(held, horizon=self.horizon)
        for name, most in (("pairs", n - 1), ("rewards", np.inf), ("next_states", last)):
            column, low = getattr(self, name).copy(), -np.inf if name == "rewards" else 0
            under_way = column[: self.h % self.horizon]
            under_way[:] = like(name, state[name], under_way, low, most)
            setattr(self, name, column)
        self.noise = None if state["noise"] is None else state["noise"].copy()
        self.policy = self.policies[self.decisions[-1].policy] if self.decisions else None
