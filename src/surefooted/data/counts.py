"""What was observed: the visits, rewards and next states of each pair, in memory that grows with distinct steps."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import is_whole, real_numbers, whole_numbers
from surefooted.data.saved_counts import read_counts
from surefooted.errors import InvalidInput
from surefooted.kernels import counting
from surefooted.kernels.structs import Pool
from surefooted.tables.money import REWARD_ROUNDING as REWARD_ROUNDING
from surefooted.tables.space import Floats, Ints, Space, need_space

RECENT = 4_096  # steps whose pairs are remembered, so that plausible sets can be updated row by row


class Counts:
    """Sufficient statistics of the steps observed.

    >>> import surefooted as sf
    >>> counts = sf.Counts(sf.Space.full(n_states=2, n_actions=2))
    >>> counts.add(s=0, a=1, r=0.5, s_next=1)
    >>> counts.visits, counts.reward_sum
    (array([0, 1, 0, 0]), array([0. , 0.5, 0. , 0. ]))

    - `space`: the state–action pairs, and the range and unit of rewards.
    - `bounded`: rewards must lie in that range, which every bound assumes. With False they may be any finite numbers.
    - `stages`: H, if each stage has dynamics of its own. Pair k of stage h is then row h K + k of all arrays.

    `visits`, `reward_sum` and `reward_square` are arrays [K] or [H K]; `rows()` gives the next-state counts. Steps are
    added with rewards in the user's unit. The sums count them from `low` (`tables.money`); `mean_rewards` are in the
    unit again.
    """

    def __init__(self, space: Space, bounded: bool = True, stages: int = 1) -> None:
        need_space(space)
        if not is_whole(stages, 1):
            raise InvalidInput("these counts cannot be built", [f"stages {stages} must be a positive whole number"])
        self.space, self.bounded, self.stages = space, bounded, int(stages)
        n = self.n_rows
        self.visits = np.zeros(n, dtype=np.int64)
        self.reward_sum, self.reward_square = np.zeros(n), np.zeros(n)
        self.pool = Pool(*(np.zeros(size, dtype=np.int64) for size in (n, n, n, 256, 256, 2)))
        self.added = 0  # steps added since it was made
        self._told = (self.visits, 0)  # the visits, and how many of them were not added
        self._recent = np.zeros(RECENT, dtype=np.int64)  # the pairs of the last of them, in a ring

    @property
    def n_rows(self) -> int:
        """The number of pairs of all stages."""
        return self.stages * self.space.n_pairs

    @property
    def total(self) -> int:
        """The number of steps counted. They are added up once; asking does not take longer with more pairs."""
        if self._told[0] is not self.visits:
            self._told = (self.visits, int(self.visits.sum()) - self.added)
        return self._told[1] + self.added

    @property
    def n_transitions(self) -> int:
        """The number of distinct (s, a, s') observed."""
        return int(self.pool.used[1])

    @property
    def mean_rewards(self) -> Floats:
        """The mean of the rewards observed, in the user's unit, [K] or [H K]; nan for a pair never tried."""
        mean = np.full(self.n_rows, np.nan)
        np.divide(self.reward_sum, self.visits, out=mean, where=self.visits > 0)
        return np.asarray(self.space.money.earned(mean))

    def add(self, s: int, a: int, r: float, s_next: int, h: int = 0) -> None:
        """Count one step (at stage h); an impossible step is refused and changes nothing."""
        pair, s_next = self.space.pair(s, a), self.space.check_state(s_next)
        if not (is_whole(h, 0) and h < self.stages):
            raise InvalidInput("no such stage", [f"stage {h}: the stages are 0 to {self.stages - 1}"])
        self.add_steps(
            np.array([pair + int(h) * self.space.n_pairs]), np.array([r], dtype=np.float64), np.array([s_next])
        )

    def add_steps(self, pairs: ArrayLike, rewards: ArrayLike, next_states: ArrayLike) -> None:
        """Count steps in order, given the index of their row; if one is impossible, nothing changes."""
        rows, earned, led = self.check_steps(pairs, rewards, next_states)
        self._add_checked(rows, self.space.money.counted(earned), led)

    def check_steps(self, pairs: ArrayLike, rewards: ArrayLike, next_states: ArrayLike) -> tuple[Ints, Floats, Ints]:
        """These steps as arrays [n]; an error if one of them is impossible."""
        faults: list[str] = []
        columns = (
            whole_numbers("pairs", pairs, faults),
            real_numbers("rewards", rewards, faults),
            whole_numbers("next_states", next_states, faults),
        )
        if faults := faults or self._faults(*columns):
            hint = self.space.money.hint if any(": reward " in fault for fault in faults) and self.bounded else ""
            raise InvalidInput("these steps cannot be counted", faults, hint)
        return columns

    def _add_checked(self, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        """Count steps that are known to be possible, with rewards counted from `low` as the sums are."""
        done = 0
        flat = pairs.ndim == rewards.ndim == next_states.ndim == 1
        if not (flat and len(pairs) == len(rewards) == len(next_states)):
            raise InvalidInput("these steps cannot be counted", self._faults(pairs, rewards, next_states))
        while done < len(pairs):
            sums = (self.visits, self.reward_sum, self.reward_square)
            steps = (pairs, rewards, next_states, done)
            done = counting.count_steps(*steps, *sums, tuple(self.pool), self.space.n_states)
            if done < 0:
                raise InvalidInput("these steps cannot be counted", self._faults(pairs, rewards, next_states))
            if done < len(pairs):
                state, counted = (np.append(column, np.zeros_like(column)) for column in self.pool[3:5])
                self.pool = self.pool._replace(state=state, counted=counted)
        self._remember(pairs)

    def _add_rest(self, pairs: Ints, rewards: Floats, next_states: Ints, counted: int) -> None:
        """Count steps of which a kernel has counted the first `counted` in these arrays already."""
        self._remember(pairs[:counted])
        self._add_checked(pairs[counted:], rewards[counted:], next_states[counted:])

    def add_history(self, states: ArrayLike, actions: ArrayLike, rewards: ArrayLike, next_states: ArrayLike) -> None:
        """Count logged steps, given as columns of one length; if one is impossible, nothing changes."""
        if self.stages > 1:
            fault = "each stage has its own counts, and the history does not say the stage of each step"
            raise InvalidInput("this history cannot be counted", [fault])
        columns = [np.asarray(column) for column in (states, actions, rewards, next_states)]
        if any(column.ndim != 1 or column.shape != columns[0].shape for column in columns):
            raise InvalidInput("this history cannot be counted", ["its four columns must have one length"])
        faults, pairs = [], np.zeros(columns[0].size, dtype=np.int64)
        for i, (s, a, y) in enumerate(zip(*(columns[j].tolist() for j in (0, 1, 3)), strict=True)):
            try:
                pairs[i] = self.space.pair(s, a)
                self.space.check_state(y)
            except InvalidInput as error:
                faults += [f"step {i}: {fault}" for fault in error.faults]
        if faults:
            raise InvalidInput("this history cannot be counted", faults)
        self.add_steps(pairs, columns[2].astype(np.float64), columns[3].astype(np.int64))

    def merge(self, other: "Counts") -> None:
        """Add the counts of another agent on the same space; memory grows with distinct transitions only."""
        if not isinstance(other, Counts):
            fault = f"what is to be added is of type {type(other).__name__}, not Counts"
            raise InvalidInput("these counts cannot be merged", [fault])
        if other.space != self.space or other.stages != self.stages:
            sizes = [f"{counts.space} with {counts.stages} stages" for counts in (self, other)]
            raise InvalidInput("these counts cannot be merged", ["they are on different spaces: " + ", ".join(sizes)])
        if self.bounded and not other.bounded:
            fault = f"the counts to add may hold rewards outside {self.space.money.words}"
            raise InvalidInput("these counts cannot be merged", [fault])
        both, (next_ptr, next_state, count) = type(self).from_state_dict(self.space, self.state_dict()), other.rows()
        pairs = np.repeat(np.arange(self.n_rows), np.diff(next_ptr))
        both._add_checked(pairs, np.zeros(pairs.size), next_state)  # each distinct transition once, to make room
        state = both.state_dict()
        rows = np.repeat(np.arange(self.n_rows), np.diff(state["next_ptr"]))
        keys = rows * self.space.n_states + state["next_state"]
        order = np.argsort(keys)
        place = np.searchsorted(keys, pairs * self.space.n_states + next_state, sorter=order)
        state["next_count"][order[place]] += count - 1
        for name in ("visits", "reward_sum", "reward_square"):
            state[name] = getattr(self, name) + getattr(other, name)
        self._take(type(self).from_state_dict(self.space, state), added=self.added + other.total)

    def remove(self, pair: int, reward: float, s_next: int) -> None:
        """Take back one step that was counted by mistake, given the index of its row."""
        state = self.state_dict()
        row = slice(state["next_ptr"][pair], state["next_ptr"][pair + 1])
        where = np.flatnonzero(state["next_state"][row] == s_next) + row.start
        if not where.size:
            raise InvalidInput("this step cannot be removed", [f"row {pair} never led to state {s_next}"])
        state["next_count"][where] -= 1
        state["visits"][pair] -= 1
        state["reward_sum"][pair] -= reward
        state["reward_square"][pair] -= reward * reward
        kept = state["next_count"] > 0
        rows = np.repeat(np.arange(self.n_rows), np.diff(state["next_ptr"]))[kept]
        state["next_ptr"] = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=self.n_rows))))
        state["next_state"], state["next_count"] = state["next_state"][kept], state["next_count"][kept]
        self._take(type(self).from_state_dict(self.space, state), added=self.added + 1)

    def _take(self, other: "Counts", added: int = 0) -> None:
        """Use the arrays of other counts of the same space, which must not be used any more."""
        self.bounded, self.stages = other.bounded, other.stages
        self.visits, self.reward_sum, self.reward_square = other.visits, other.reward_sum, other.reward_square
        self.pool, self.added, self._recent = other.pool, added, other._recent

    def _remember(self, pairs: Ints) -> None:
        """Remember the last pairs."""
        self.added += len(pairs)
        pairs = pairs[-RECENT:]
        begin, end = (self.added - len(pairs)) % RECENT, self.added % RECENT
        if begin < end or not len(pairs):
            self._recent[begin:end] = pairs
        else:
            self._recent[begin:], self._recent[:end] = pairs[: RECENT - begin], pairs[RECENT - begin :]

    def pairs_since(self, added: int) -> Ints | None:
        """The rows of the steps added after the first `added`, or None if that is too long ago."""
        if self.added - added > RECENT:
            return None
        begin, end = added % RECENT, self.added % RECENT
        if begin < end or added == self.added:
            return self._recent[begin:end]
        return np.concatenate([self._recent[begin:], self._recent[:end]])

    def rows(self) -> tuple[Ints, Ints, Ints]:
        """The observed next states of each pair with their counts: next_ptr [K + 1], next_state [nnz], count [nnz]."""
        size = self.n_transitions
        next_ptr = np.empty(self.n_rows + 1, dtype=np.int64)
        next_state, count = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        counting.compact_rows(self.pool, next_ptr, next_state, count)
        return next_ptr, next_state, count

    def state_dict(self) -> dict[str, Any]:
        """Everything counted, as arrays; `from_state_dict` continues from it exactly."""
        next_ptr, next_state, count = self.rows()
        names = ("visits", "reward_sum", "reward_square")
        return {name: getattr(self, name).copy() for name in names} | {
            "next_ptr": next_ptr,
            "next_state": next_state,
            "next_count": count,
            "bounded": self.bounded,
            "stages": self.stages,
        }

    @classmethod
    def from_state_dict(cls, space: Space, state: Mapping[str, Any]) -> Self:
        """The counts that `state_dict` described; what no steps can lead to is refused."""
        told = read_counts(space, state)
        counts = cls(space, told.bounded, told.stages)
        counts.visits, counts.reward_sum, counts.reward_square = told.visits, told.reward_sum, told.reward_square
        start, length = told.next_ptr[:-1].copy(), np.diff(told.next_ptr)
        room, used = np.zeros(256, dtype=np.int64), np.full(2, told.next_state.size)
        following, counted = (np.append(column, room) for column in (told.next_state, told.next_count))
        counts.pool = Pool(start, length, length.copy(), following, counted, used)
        return counts

    def _faults(self, pairs: Ints, rewards: Floats, next_states: Ints) -> list[str]:
        """One sentence for each step whose pair or next state does not exist, or whose reward is impossible."""
        space = self.space
        if pairs.ndim != 1 or not (pairs.shape == rewards.shape == next_states.shape):
            shapes = f"{pairs.shape}, {rewards.shape} and {next_states.shape}"
            return [f"pairs, rewards and next states have the shapes {shapes}: they must be columns of one length"]
        lost = (pairs < 0) | (pairs >= self.n_rows)
        faults = [f"step {i}: there is no pair {pairs[i]}" for i in np.flatnonzero(lost)]
        nowhere = (next_states < 0) | (next_states >= space.n_states)
        faults += [f"step {i}: there is no state {next_states[i]}" for i in np.flatnonzero(nowhere)]
        bad = ~np.isfinite(rewards)
        if self.bounded:
            bad |= ~space.money.contains(rewards)
        limit = space.money.words if self.bounded else "the finite numbers"
        for i in np.flatnonzero(bad & ~lost):
            at = space.words(pairs[i] % space.n_pairs)
            faults.append(f"step {i}: {at}: reward {rewards[i]:g} is outside {limit}")
        return faults
