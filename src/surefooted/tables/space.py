"""The state–action pairs: one flat axis, grouped by state."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import Bools as Bools
from surefooted.arrays import Floats as Floats
from surefooted.arrays import FrozenArrays, digest, freeze, is_whole
from surefooted.arrays import Ints as Ints
from surefooted.codec import record
from surefooted.errors import InvalidInput


@record
@dataclass(frozen=True, eq=False)
class Space(FrozenArrays):
    """What an agent knows beforehand: the states, their actions, and the largest reward.

    Build one with `full` or `from_available`:

    >>> import surefooted as sf
    >>> space = sf.Space.from_available([[True, True], [False, True]])
    >>> space.n_pairs, space.actions(1)
    (3, array([1]))

    Pair k is (pair_state[k], pair_action[k]). The pairs of state s are pair_ptr[s] .. pair_ptr[s + 1] - 1, by
    increasing action. Everything that depends on (s, a) is an array over pairs, so that states may have different
    actions without masks.

    - `pair_ptr`: where the pairs of each state begin, [S + 1].
    - `pair_action`: the action of each pair, [K].
    - `r_max`: the largest reward; rewards lie in [0, r_max].
    """

    pair_ptr: Ints  # [S + 1]
    pair_action: Ints  # [K]
    r_max: float = 1.0
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the pairs and freeze the arrays."""
        faults: list[str] = []
        ptr = _whole_numbers("pair_ptr", self.pair_ptr, faults)
        action = _whole_numbers("pair_action", self.pair_action, faults)
        if not (np.isfinite(self.r_max) and self.r_max > 0):
            faults.append(f"r_max is {self.r_max}: it must be positive and finite")
        well_formed = not any(fault.startswith("pair_") for fault in faults)
        if well_formed and ptr.size < 2:
            faults.append("the space has no state")
        elif well_formed and (ptr[0] != 0 or ptr[-1] != action.size or np.any(np.diff(ptr) < 0)):
            faults.append(f"pair_ptr must rise from 0 to the number of pairs, {action.size}")
        elif well_formed:
            faults += [f"state {s}: has no action" for s in np.flatnonzero(np.diff(ptr) == 0)]
            state = np.repeat(np.arange(ptr.size - 1), np.diff(ptr))
            faults += [f"state {state[k]}: action {action[k]} is negative" for k in np.flatnonzero(action < 0)]
            unsorted = np.flatnonzero((np.diff(state) == 0) & (np.diff(action) <= 0))
            faults += [f"state {state[k]}: actions {action[k]}, {action[k + 1]} do not increase" for k in unsorted]
        if faults:
            raise InvalidInput("this space is not valid", faults)
        freeze(ptr, action)
        object.__setattr__(self, "pair_ptr", ptr)
        object.__setattr__(self, "pair_action", action)
        object.__setattr__(self, "r_max", float(self.r_max))
        object.__setattr__(self, "_hash", digest(ptr, action, self.r_max))

    @classmethod
    def full(cls, n_states: int, n_actions: int, r_max: float = 1.0) -> "Space":
        """The space in which every action is available in every state."""
        return cls.from_available(np.ones((n_states, n_actions), dtype=bool), r_max)

    @classmethod
    def from_available(cls, available: ArrayLike, r_max: float = 1.0) -> "Space":
        """The space of the pairs marked in `available` [S, A]."""
        try:
            mask = np.asarray(available)
        except ValueError:
            mask = np.zeros(0)  # ragged
        if mask.ndim != 2 or mask.dtype != np.bool_:
            fault = f"`available` must be a boolean array [S, A], not {mask.dtype} with shape {mask.shape}"
            raise InvalidInput("this space is not valid", [fault])
        ptr = np.concatenate(([0], np.cumsum(mask.sum(axis=1))))
        return cls(ptr.astype(np.int64), np.nonzero(mask)[1].astype(np.int64), r_max)

    @property
    def n_states(self) -> int:
        """S."""
        return self.pair_ptr.size - 1

    @property
    def n_pairs(self) -> int:
        """K, the number of state–action pairs; at most S A."""
        return self.pair_action.size

    @cached_property
    def n_actions(self) -> int:
        """A: one more than the largest action of any state."""
        return int(self.pair_action.max()) + 1

    @cached_property
    def pair_state(self) -> Ints:
        """The state of each pair, [K]."""
        state = np.repeat(np.arange(self.n_states), np.diff(self.pair_ptr))
        freeze(state)
        return state

    @cached_property
    def one_each(self) -> tuple[Ints, Floats]:
        """0, 1, .., S and S ones: a deterministic policy as the ranges and weights of a mixture."""
        return np.arange(self.n_states + 1), np.ones(self.n_states)

    @cached_property
    def available(self) -> Bools:
        """Which action exists where, [S, A]."""
        mask = np.zeros((self.n_states, self.n_actions), dtype=bool)
        mask[self.pair_state, self.pair_action] = True
        freeze(mask)
        return mask

    def actions(self, s: int) -> Ints:
        """The actions of state s, increasing."""
        s = self.check_state(s)
        return self.pair_action[self.pair_ptr[s] : self.pair_ptr[s + 1]]

    def words(self, k: SupportsIndex) -> str:
        """Pair k as messages name it."""
        return f"state {self.pair_state[k]}, action {self.pair_action[k]}"

    def pair(self, s: int, a: int) -> int:
        """The index of (s, a) among the pairs."""
        s = self.check_state(s)
        actions = self.actions(s)
        j = int(np.searchsorted(actions, a)) if is_whole(a) else actions.size
        if j == actions.size or actions[j] != a:
            raise InvalidInput("no such pair", [f"state {s}: action {a} is not available; {_listed(actions)} are"])
        return int(self.pair_ptr[s]) + j

    def check_state(self, s: int) -> int:
        """`s`, if it is a state of this space."""
        if not (is_whole(s) and 0 <= s < self.n_states):
            raise InvalidInput("no such state", [f"state {s}: the states are 0 to {self.n_states - 1}"])
        return int(s)

    def __eq__(self, other: object) -> bool:
        """Equal when the same pairs exist and r_max is the same."""
        return self is other or (
            isinstance(other, Space)
            and (
                self.r_max == other.r_max
                and np.array_equal(self.pair_ptr, other.pair_ptr)
                and np.array_equal(self.pair_action, other.pair_action)
            )
        )

    def __hash__(self) -> int:
        """Hash of the contents."""
        return self._hash

    def __repr__(self) -> str:
        """Sizes only."""
        return f"Space(n_states={self.n_states}, n_pairs={self.n_pairs}, r_max={self.r_max:g})"


def _whole_numbers(name: str, values: ArrayLike, faults: list[str]) -> Ints:
    """A new int64 array from a one-dimensional array of whole numbers, or a fault."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        faults.append(f"{name} must be a one-dimensional array of whole numbers, not {array.dtype} {array.shape}")
        return np.zeros(0, dtype=np.int64)
    return array.astype(np.int64)


def _listed(values: Ints, most: int = 12) -> str:
    """`0, 1, 2`, shortened if it is long."""
    shown = ", ".join(str(v) for v in values[:most])
    return shown + (f", … ({values.size} in all)" if values.size > most else "")
