"""The state–action pairs: one flat axis, grouped by state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import Bools as Bools
from surefooted.arrays import Floats as Floats
from surefooted.arrays import Ints as Ints
from surefooted.arrays import digest, freeze, is_whole
from surefooted.codec import record
from surefooted.errors import InvalidInput, shown
from surefooted.tables.money import Money


@record
@dataclass(frozen=True, eq=False, init=False)
class Space:
    """What an agent knows beforehand: the states, their actions, and the range of rewards in the user's own unit.

    Build one with `full` or `from_available`:

    >>> import surefooted as sf
    >>> space = sf.Space.from_available([[True, True], [False, True]])
    >>> space.n_pairs, space.actions(1)
    (3, array([1]))
    >>> shop = sf.Space.full(2, 2, rewards=(-102, 181), unit="€", states=["low", "high"], actions=["wait", "order"])
    >>> shop.low, shop.high, shop.words(1), shop.amount(12.4)
    (-102.0, 181.0, 'state low, action order', '€ 12.40')

    Pair k is (pair_state[k], pair_action[k]). The pairs of state s are pair_ptr[s] .. pair_ptr[s + 1] - 1, by
    increasing action. Everything that depends on (s, a) is an array over pairs, so that states may have different
    actions without masks.

    - `pair_ptr`: where the pairs of each state begin, [S + 1].
    - `pair_action`: the action of each pair, [K].
    - `rewards`: (low, high), the range of rewards; `r_max` is a short form of (0, r_max). By default (0, 1).
    - `unit`: the unit of rewards, such as "€".
    - `states`, `actions`: names of the states [S] and of the actions [A], for people.
    """

    pair_ptr: Ints  # [S + 1]
    pair_action: Ints  # [K]
    money: Money
    state_names: tuple[str, ...] | None
    action_names: tuple[str, ...] | None
    _hash: int

    def __init__(
        self,
        pair_ptr: ArrayLike,
        pair_action: ArrayLike,
        r_max: float | None = None,
        *,
        rewards: tuple[float, float] | None = None,
        unit: str = "",
        states: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
    ) -> None:
        faults: list[str] = []
        ptr = _whole_numbers("pair_ptr", pair_ptr, faults)
        action = _whole_numbers("pair_action", pair_action, faults)
        well_formed = not faults
        money = Money.parse(r_max, rewards, unit, faults)
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
        sizes = (ptr.size - 1, 1 + int(action.max(initial=-1)))
        state_names, action_names = (
            _names(kind, given, n, faults)
            for kind, given, n in (("states", states, sizes[0]), ("actions", actions, sizes[1]))
        )
        if faults:
            raise InvalidInput("this space is not valid", faults)
        freeze(ptr, action)
        # a space in [0, r_max] without unit and names hashes as it did before there were any
        parts: list[Any] = [money.high] if money.low == 0 and not money.unit else [money.low, money.high, money.unit]
        parts += [names for names in (state_names, action_names) if names is not None]
        contents = {"pair_ptr": ptr, "pair_action": action, "money": money, "_hash": digest(ptr, action, *parts)}
        for name, value in (contents | {"state_names": state_names, "action_names": action_names}).items():
            object.__setattr__(self, name, value)

    def to_record(self) -> dict[str, Any]:
        """The arguments that build it again."""
        told = {"pair_ptr": self.pair_ptr, "pair_action": self.pair_action, "rewards": (self.low, self.high)}
        return told | {"unit": self.unit, "states": self.state_names, "actions": self.action_names}

    @classmethod
    def full(cls, n_states: int, n_actions: int, r_max: float | None = None, **options: Any) -> "Space":
        """The space in which every action is available in every state; options as for `Space`."""
        faults = [f"{n!r} states or actions: give a whole number" for n in (n_states, n_actions)
                  if not is_whole(n, 0)]  # fmt: skip
        if faults:
            raise InvalidInput("this space is not valid", faults)
        return cls.from_available(np.ones((int(n_states), int(n_actions)), dtype=bool), r_max, **options)

    @classmethod
    def from_available(cls, available: ArrayLike, r_max: float | None = None, **options: Any) -> "Space":
        """The space of the pairs marked in `available` [S, A]; options as for `Space`."""
        try:
            mask = np.asarray(available)
        except ValueError:
            mask = np.zeros(0)  # ragged
        if mask.ndim != 2 or mask.dtype != np.bool_:
            fault = f"`available` must be a boolean array [S, A], not {mask.dtype} with shape {mask.shape}"
            raise InvalidInput("this space is not valid", [fault])
        ptr = np.concatenate(([0], np.cumsum(mask.sum(axis=1))))
        return cls(ptr.astype(np.int64), np.nonzero(mask)[1].astype(np.int64), r_max, **options)

    @property
    def low(self) -> float:
        """The smallest reward."""
        return self.money.low

    @property
    def high(self) -> float:
        """The largest reward."""
        return self.money.high

    @property
    def unit(self) -> str:
        """The unit of rewards."""
        return self.money.unit

    @property
    def r_max(self) -> float:
        """The largest reward, counted from `low`: high - low."""
        return self.money.r_max

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

    def state_words(self, s: SupportsIndex) -> str:
        """State s as messages name it: by its name, or by its number."""
        return str(s) if self.state_names is None else self.state_names[s]

    def action_words(self, a: SupportsIndex) -> str:
        """Action a as messages name it: by its name, or by its number."""
        return str(a) if self.action_names is None else self.action_names[a]

    def words(self, k: SupportsIndex) -> str:
        """Pair k as messages name it."""
        return f"state {self.state_words(self.pair_state[k])}, action {self.action_words(self.pair_action[k])}"

    def amount(self, value: float, plain: str = ".4g") -> str:
        """An amount of money as messages say it: see `Money.amount`."""
        return self.money.amount(value, plain)

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
            raise InvalidInput("no such state", [f"{self._no_state(s)}: the states are 0 to {self.n_states - 1}"])
        return int(s)

    def _no_state(self, s: Any) -> str:
        """What was given in place of a state; a text may name one."""
        if not isinstance(s, str):
            return f"state {s}"
        named = self.state_names is not None and s in self.state_names
        number = self.state_names.index(s) if named and self.state_names is not None else s
        meant = f"give the number {number}" if named or s.strip().isdigit() else "give its number"
        return f"state {s!r} is a text, {meant}"

    def __eq__(self, other: object) -> bool:
        """Equal when the same pairs exist, and the range and unit of rewards and all names are the same."""
        return self is other or (
            isinstance(other, Space)
            and (
                (self.money, self.state_names, self.action_names)
                == (other.money, other.state_names, other.action_names)
                and np.array_equal(self.pair_ptr, other.pair_ptr)
                and np.array_equal(self.pair_action, other.pair_action)
            )
        )

    def __hash__(self) -> int:
        """Hash of the contents."""
        return self._hash

    def __repr__(self) -> str:
        """Sizes and range of rewards only."""
        money = self.money
        if money.low == 0 and not money.unit:
            return f"Space(n_states={self.n_states}, n_pairs={self.n_pairs}, r_max={self.r_max:g})"
        unit = f", unit={money.unit!r}" if money.unit else ""
        rewards = f"rewards=({money.low:g}, {money.high:g})"
        return f"Space(n_states={self.n_states}, n_pairs={self.n_pairs}, {rewards}{unit})"

    def columns(self) -> dict[str, Any]:
        """The space as named arrays and numbers, for files; a space in [0, r_max] has the same as ever."""
        columns: dict[str, Any] = {"pair_ptr": self.pair_ptr, "pair_action": self.pair_action, "r_max": self.r_max}
        if self.low != 0 or self.unit:
            columns |= {"reward_low": self.low, "reward_high": self.high, "reward_unit": self.unit}
        names = {"state_names": self.state_names, "action_names": self.action_names}
        return columns | {name: np.array(listed) for name, listed in names.items() if listed is not None}

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> "Space":
        """The space that `columns` described; older files have no unit, no names, and rewards in [0, r_max]."""
        pairs = (columns["pair_ptr"], columns["pair_action"])
        options: dict[str, Any] = {"r_max": float(columns["r_max"])}
        if "reward_low" in columns:
            rewards = (float(columns["reward_low"]), float(columns["reward_high"]))
            options = {"rewards": rewards, "unit": str(columns["reward_unit"])}
        for name, option in (("state_names", "states"), ("action_names", "actions")):
            if name in columns:
                options[option] = [str(word) for word in columns[name]]
        return cls(*pairs, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild copies and pickles by the constructor, which freezes their arrays too."""
        return type(self).from_columns, (self.columns(),)


def need_space(given: Any) -> None:
    """Refuse what is no space, and say how to get one."""
    if not isinstance(given, Space):
        hint = "Give its space." if hasattr(given, "space") else "Make one with sf.Space.full(n_states, n_actions)."
        raise InvalidInput("a space is needed first", [f"what was given is {shown(given)}, not a Space"], hint)


def _names(kind: str, given: Any, n: int, faults: list[str]) -> tuple[str, ...] | None:
    """Distinct names, one for each; or a fault."""
    if given is None:
        return None
    names = () if isinstance(given, str) else tuple(given)
    if len(names) != n or not all(isinstance(name, str) and name for name in names):
        faults.append(f"{kind} must be {n} names, one for each, not {given!r}")
    twice = sorted({name for name in names if names.count(name) > 1}, key=str) if len(names) == n else []
    faults += [f"{kind}: the name {name!r} is given twice" for name in twice]
    return names


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
