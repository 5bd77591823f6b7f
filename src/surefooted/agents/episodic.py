"""Playing episodes of H steps: what UCBVI, EULER and CUCB-VI share. A subclass says what the next episode plays.

An episode begins in a state that is revealed by `begin`, lasts exactly H steps, and is learnt from when it is over.
Live use goes through `begin`, `act` and `observe`; a simulator plays whole episodes on the true table and hands them
over with `absorb`. Both leave the same agent behind.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from surefooted.agents.agent import Decision
from surefooted.arrays import is_whole
from surefooted.data.counts import REWARD_ROUNDING
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.knowledge.belief import Believer
from surefooted.knowledge.mechanics import Noise
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints, Space


class EpisodicPlayer(Believer, ABC):
    """Plays episodes, and records their starts, distinct policies and decisions."""

    def __init__(self, space: Space, horizon: int, bounded: bool, seed: int | np.random.Generator = 0) -> None:
        if not is_whole(horizon, 1):
            raise InvalidInput("no such agent", [f"horizon {horizon} must be a positive whole number"])
        self.space, self.horizon, self.bounded = space, int(horizon), bounded
        self.coin = np.random.default_rng(seed)
        self.u = float(self.coin.random())
        self.h = self.horizon  # the stage that comes next; H when no episode is under way
        self.policy: Policy | None = None  # of the episode under way
        self.state: int | None = None  # where the last step led
        self.starts: list[int] = []
        self.policies: list[Policy] = []
        self.decisions: list[Decision] = []  # one for each episode
        self.pairs = np.empty(self.horizon, dtype=np.int64)  # of the episode under way
        self.rewards = np.empty(self.horizon)
        self.next_states = np.empty(self.horizon, dtype=np.int64)
        self.noise = np.zeros((0, 1), dtype=np.int64)  # if the mechanics observe it
        self._policy_ids: dict[tuple[bytes, tuple[int, ...], bool], int] = {}
        self._last: tuple[Policy | None, int] = (None, -1)

    @property
    def begun(self) -> bool:
        """Whether a first step or episode has begun."""
        return self.episodes > 0

    @abstractmethod
    def next_episode(self, s: int) -> tuple[Policy, Decision]:
        """What the episode that begins in s plays, and why; subclasses are the pseudo-code of this."""

    @abstractmethod
    def learn(self, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        """Take in the H steps of an episode that is over; they are known to be possible."""

    @property
    def episodes(self) -> int:
        """Episodes begun."""
        return len(self.starts)

    def begin(self, s: int) -> None:
        """An episode begins in s: decide what it plays."""
        s = self.space.check_state(s)
        if self.h < self.horizon:
            fault = f"the last one has played {self.h} of {self.horizon} steps; a shorter episode is not one of these"
            raise InvalidInput("the episode is not over", [fault])
        self.policy, decision = self.next_episode(s)
        self.decisions.append(decision)
        self.starts.append(s)
        self.h, self.state = 0, s

    def act(self, s: int) -> Decision:
        """What to play in s."""
        policy = self._current()
        pair = policy.pair_at(self.space.check_state(s), self.u, self.h)
        return replace(self.decisions[-1], action=int(self.space.pair_action[pair]))

    def observe(self, s: int, a: int, r: float, s_next: int, noise: Noise | None = None) -> None:
        """Take in one step; learn if it was the last. Nothing changes if the step is impossible.

        `noise` is for mechanics that observe it. What contradicts what was declared is noticed at once; the episode
        under way is played to its end.
        """
        policy, s = self._current(), self.space.check_state(s)
        pair, s_next = self.space.pair(s, a), self.space.check_state(s_next)
        if s != self.state:
            fault = f"the last step led to state {self.state}, this one begins in {s}: was there a reset?"
            raise InvalidInput("the episode is broken", [fault])
        if pair != policy.pair_at(s, self.u, self.h):
            asked = self.act(s).action
            fault = (
                f"state {s}: the agent asked for action {asked}, not {a}; what it proves holds only for what it asks"
            )
            raise InvalidInput("another action was played", [fault])
        reward = check_reward(self.space, s, a, r, self.bounded)
        if noise is not None and self.informed is None:
            raise InvalidInput("this step cannot be counted", ["noise is given, and no mechanics were declared"])
        told = None if self.informed is None else self.informed.check_noise(pair, noise)
        if told is not None:
            self.noise = np.concatenate([self.noise[: self.h], told]) if self.h else told
        if self.informed is not None:
            self.informed.notice(np.array([pair]), np.array([reward]), np.array([s_next]), told)
        self.pairs[self.h], self.rewards[self.h], self.next_states[self.h] = pair, reward, s_next
        self.h, self.state = self.h + 1, s_next
        if not policy.is_deterministic:
            self.u = float(self.coin.random())
        if self.h == self.horizon:
            self.learn(self.pairs, self.rewards, self.next_states)

    def absorb(self, pairs: Ints, rewards: Floats, next_states: Ints, u: float, noise: Ints | None = None) -> None:
        """Take in the episode that a simulator played with this agent's `policy`, `coin` and `u`."""
        self.u, self.h, self.state = u, self.horizon, int(next_states[-1])
        if self.informed is not None:
            self.noise = self.noise if noise is None else noise
            self.informed.notice(pairs, rewards, next_states, noise)
        self.learn(pairs, rewards, next_states)

    def policy_id(self, policy: Policy) -> int:
        """The index of a policy among the distinct ones of this run, where it is added if it is new."""
        if policy is self._last[0]:
            return self._last[1]
        key = self._key(policy)
        if key not in self._policy_ids:
            self._policy_ids[key] = len(self.policies)
            self.policies.append(policy)
        self._last = (policy, self._policy_ids[key])
        return self._last[1]

    def known_id(self, policy: Policy) -> int | None:
        """The index of a policy among the distinct ones played, or None; an error if it cannot be played here."""
        if policy is self._last[0]:
            return self._last[1]
        if policy.space is not self.space and policy.space != self.space:
            raise InvalidInput("this policy cannot be played", [f"it is on {policy.space}, the agent on {self.space}"])
        if policy.horizon not in (None, self.horizon):
            fault = f"it has {policy.horizon} decision rules for {self.horizon} stages"
            raise InvalidInput("this policy cannot be played", [fault])
        return self._policy_ids.get(self._key(policy))

    def _key(self, policy: Policy) -> tuple[bytes, tuple[int, ...], bool]:
        """What tells policies apart: a stationary one is the same as H equal decision rules."""
        data, shape, is_deterministic = policy.key
        return (
            (data, shape, is_deterministic)
            if len(shape) == 2
            else (data * self.horizon, (self.horizon, *shape), is_deterministic)
        )

    def _current(self) -> Policy:
        if self.policy is None or self.h == self.horizon:
            raise SurefootedError("no episode is under way: tell the agent where the next one starts with begin(s)")
        return self.policy

    def _player_state(self) -> dict[str, Any]:
        """The part of `state_dict` that every player has."""
        under_way = slice(0, self.h % self.horizon)
        return {
            "coin": self.coin.bit_generator.state,
            "u": self.u,
            "h": self.h,
            "state": self.state,
            "starts": list(self.starts),
            "policies": list(self.policies),
            "decisions": list(self.decisions),
            "pairs": self.pairs[under_way].copy(),
            "rewards": self.rewards[under_way].copy(),
            "next_states": self.next_states[under_way].copy(),
            "noise": self.noise[under_way].copy(),
        }

    def _restore_player(self, state: dict[str, Any]) -> None:
        """Continue from `_player_state`."""
        self.coin.bit_generator.state = state["coin"]
        self.u, self.h, self.state = state["u"], state["h"], state["state"]
        self.starts, self.decisions = list(state["starts"]), list(state["decisions"])
        self.policies = list(state["policies"])
        self._policy_ids = {self._key(policy): i for i, policy in enumerate(self.policies)}
        self._last = (None, -1)
        for name in ("pairs", "rewards", "next_states"):
            getattr(self, name)[: len(state[name])] = state[name]
        self.noise = state["noise"].copy()
        self.policy = self.policies[self.decisions[-1].policy] if self.decisions else None


def check_reward(space: Space, s: int, a: int, r: float, bounded: bool) -> float:
    """The reward as a float, if it is one that can be."""
    try:
        reward = float(r)
    except (TypeError, ValueError):
        reward = float("nan")
    slack = REWARD_ROUNDING * space.r_max
    if not np.isfinite(reward) or (bounded and not -slack <= reward <= space.r_max + slack):
        limit = f"[0, {space.r_max:g}]" if bounded else "the finite numbers"
        raise InvalidInput("this step cannot be counted", [f"state {s}, action {a}: reward {r} is outside {limit}"])
    return reward
