"""A finite MDP as one table: sparse rows over flat state–action pairs, mean rewards, reward noise."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import FrozenArrays, freeze, normalise, real_numbers, whole_numbers
from surefooted.errors import InvalidInput
from surefooted.tables import files
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Bools, Floats, Ints, Space
from surefooted.tables.transitions import REFUSED, Entries, hint, mean_rewards, row_faults, sorted_rows

AT_ONCE = 65_536  # pairs that are checked together: a table may have hundreds of megabytes


@dataclass(frozen=True, eq=False)
class TabularMDP(FrozenArrays):
    """The true MDP: where each pair leads and what it earns on average.

    Build one with `from_arrays` (dense), `from_pairs` (a mapping) or `from_transitions` (a list):

    >>> import surefooted as sf
    >>> mdp = sf.TabularMDP.from_pairs({
    ...     (0, 0): (0.1, {0: 1.0}),  # (state, action): (mean reward, {next state: probability})
    ...     (0, 1): (0.0, {0: 0.2, 1: 0.8}),
    ...     (1, 0): (1.0, {0: 0.5, 1: 0.5}),
    ... })
    >>> mdp
    TabularMDP(n_states=2, n_pairs=3, nnz=5)

    The row of pair k is next_state[next_ptr[k] : next_ptr[k + 1]] with probabilities p[...]: increasing states,
    positive probabilities, sum 1.

    - `space`: the state–action pairs, and the range and unit of rewards.
    - `next_ptr`, `next_state`, `p`: the rows, [K + 1], [nnz] and [nnz].
    - `r`: the mean reward of each pair, in the range and unit of the space, [K].
    - `noise`: how a drawn reward deviates from its mean; by default it does not.
    - `reward_offset`, `reward_scale`: of a `normalised` table only: a reward r was `reward_offset + reward_scale * r`.
    """

    space: Space
    next_ptr: Ints  # [K + 1]
    next_state: Ints  # [nnz]
    p: Floats  # [nnz]
    r: Floats  # [K]
    noise: Noise = field(default_factory=Noise)
    reward_offset: float = 0.0
    reward_scale: float = 1.0

    def __post_init__(self) -> None:
        """Check all rows and rewards, and freeze the arrays."""
        faults: list[str] = []
        if not isinstance(self.noise, Noise):
            faults.append(f'noise must be a Noise, as in Noise("bernoulli"), not {self.noise!r}')
        for name in ("next_ptr", "next_state"):
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name), faults))
        for name in ("p", "r"):
            object.__setattr__(self, name, real_numbers(name, getattr(self, name), faults))
        if faults := faults or _faults(self):
            raise InvalidInput(REFUSED, faults, hint(faults, self.space.money))
        normalise(self.p, self.next_ptr)
        freeze(self.next_ptr, self.next_state, self.p, self.r)

    @property
    def stages(self) -> int:
        """1: all stages of a finite horizon share these dynamics."""
        return 1

    def stage(self, h: int) -> "TabularMDP":
        """The dynamics of stage h: this table."""
        return self

    @classmethod
    def from_arrays(
        cls,
        p: ArrayLike,
        r: ArrayLike,
        available: ArrayLike | None = None,
        noise: Noise | None = None,
        **options: Any,
    ) -> Self:
        """The table of dense arrays.

        - `p`: transition probabilities, [S, A, S].
        - `r`: mean rewards, [S, A].
        - `available`: which actions each state has, [S, A]; p and r are ignored elsewhere. By default all of them.
        - `noise`: reward noise.
        - `options`: those of `Space`. With `rewards=(low, high)` and `unit`, everything is in that unit.

        >>> import surefooted as sf
        >>> mdp = sf.TabularMDP.from_arrays(
        ...     p=[[[0.5, 0.5]], [[1.0, 0.0]]], r=[[3.0], [-1.0]], rewards=(-1, 3), unit="€"
        ... )
        >>> mdp.r, mdp.space.amount(sf.solve.optimal_gain(mdp).gain)
        (array([ 3., -1.]), '€ 1.67')
        """
        faults: list[str] = []
        p, r = real_numbers("p", p, faults), real_numbers("r", r, faults)
        if faults:
            raise InvalidInput(REFUSED, faults)
        if p.ndim != 3 or p.shape[0] != p.shape[-1] or p.size == 0:
            faults.append(f"p has shape {p.shape}; it must be [S, A, S] and not empty")
        if r.shape != p.shape[:2]:
            faults.append(f"r has shape {r.shape}; with p {p.shape} it must be {p.shape[:2]}")
        mask: Bools = np.ones(p.shape[:2], dtype=bool) if available is None else np.asarray(available)
        if mask.shape != p.shape[:2] or mask.dtype != np.bool_:
            faults.append(f"available is {mask.dtype} {mask.shape}; it must be boolean {p.shape[:2]}")
        if faults:
            raise InvalidInput(REFUSED, faults)
        state, action, next_state = np.nonzero((p != 0) & mask[:, :, None])
        transitions = (state, action, next_state, p[state, action, next_state])
        pairs = (*np.nonzero(mask), r[mask])
        return cls._of_rows(transitions, pairs, noise, p.shape[0], options)

    @classmethod
    def from_pairs(
        cls,
        pairs: Mapping[tuple[int, int], tuple[float, Mapping[int, float]]],
        noise: Noise | None = None,
        *,
        n_states: int | None = None,
        **options: Any,
    ) -> Self:
        """The table of `{(s, a): (mean reward, {s_next: probability})}`; the other arguments are as in `from_arrays`.

        Without `n_states` the largest state that is mentioned is the last.
        """
        if not pairs:
            raise InvalidInput(REFUSED, ["it has no state–action pair"])
        entries = [(s, a, y, p) for (s, a), (_, row) in pairs.items() for y, p in row.items()]
        transitions = tuple(list(column) for column in zip(*entries, strict=True)) or ([],) * 4
        rewards = [(s, a, reward) for (s, a), (reward, _) in pairs.items()]
        columns = tuple(list(column) for column in zip(*rewards, strict=True))
        return cls._of_rows(transitions, columns, noise, n_states, options)

    @classmethod
    def from_transitions(
        cls,
        state: ArrayLike,
        action: ArrayLike,
        next_state: ArrayLike,
        p: ArrayLike,
        reward: ArrayLike,
        noise: Noise | None = None,
        *,
        n_states: int | None = None,
        **options: Any,
    ) -> Self:
        """The table of a list of transitions with rewards r(s, a, s'), all [nnz]; r(s, a) is their mean under p.

        A transition may be listed several times: its probabilities are added. The other arguments are as in
        `from_pairs`.

        >>> import surefooted as sf
        >>> mdp = sf.TabularMDP.from_transitions(
        ...     state=[0, 0, 1], action=[0, 0, 0], next_state=[0, 1, 0], p=[0.5, 0.5, 1.0], reward=[0.0, 1.0, 1.0]
        ... )
        >>> mdp.r
        array([0.5, 1. ])
        """
        faults: list[str] = []
        s, a, y = (
            whole_numbers(name, column, faults)
            for name, column in (("state", state), ("action", action), ("next_state", next_state))
        )
        p, rewards = real_numbers("p", p, faults), real_numbers("reward", reward, faults)
        columns = (s, a, y, p, rewards)
        if any(column.shape != s.shape or column.ndim != 1 for column in columns) or s.size == 0:
            shapes = ", ".join(str(column.shape) for column in columns)
            faults.append(f"state, action, next_state, p and reward must have one equal, positive length, not {shapes}")
        if faults:
            raise InvalidInput(REFUSED, faults)
        pairs = mean_rewards(s, a, p, rewards)
        return cls._of_rows((s, a, y, p), pairs, noise, n_states, options)

    @classmethod
    def _of_rows(
        cls,
        transitions: tuple[Any, ...],
        pairs: tuple[Any, ...],
        noise: Noise | None,
        n_states: int | None,
        options: Mapping[str, Any],
    ) -> Self:
        """The table of transitions and pairs in any order."""
        return cls(*sorted_rows(transitions, pairs, n_states, options), noise or Noise())

    def normalised(self) -> Self:
        """The same table with rewards mapped to [0, 1] and without a unit, as the paper's experiments have them.

        A share α of mapped rewards is not α of what they were: see docs/money.md.
        """
        old, space = self.space, {"states": self.space.state_names, "actions": self.space.action_names}
        r = np.clip((self.r - old.low) / old.r_max, 0.0, 1.0)
        rows = (Space(old.pair_ptr, old.pair_action, **space), self.next_ptr, self.next_state, self.p)  # type: ignore[arg-type]
        return type(self)(*rows, r, self.noise, old.low, old.r_max)

    @property
    def n_states(self) -> int:
        """S."""
        return self.space.n_states

    @property
    def r_max(self) -> float:
        """The largest reward, counted from `low`."""
        return self.space.r_max

    @cached_property
    def r_counted(self) -> Floats:
        """The mean rewards, counted from `low`, [K]: see `tables.money`."""
        r: Floats = self.space.money.counted(self.r)
        freeze(r)  # as `r` is: kernels are compiled for one kind
        return r

    def row(self, s: int, a: int) -> tuple[Ints, Floats]:
        """The successors of (s, a) and their probabilities."""
        k = self.space.pair(s, a)
        row = slice(self.next_ptr[k], self.next_ptr[k + 1])
        return self.next_state[row], self.p[row]

    def to_arrays(self) -> tuple[Floats, Floats, Bools]:
        """Dense p [S, A, S], r [S, A] and available [S, A], zero where a pair does not exist."""
        space = self.space
        p = np.zeros((space.n_states, space.n_actions, space.n_states))
        r = np.zeros((space.n_states, space.n_actions))
        pair = np.repeat(np.arange(space.n_pairs), np.diff(self.next_ptr))
        p[space.pair_state[pair], space.pair_action[pair], self.next_state] = self.p
        r[space.pair_state, space.pair_action] = self.r
        return p, r, space.available.copy()

    def draw(self, rng: np.random.Generator, pair: int) -> tuple[float, int]:
        """One reward and one next state of a pair: draws the next state first, then the noise."""
        first, last = self.next_ptr[pair], self.next_ptr[pair + 1]
        j = int(np.searchsorted(np.cumsum(self.p[first:last]), rng.random(), side="right"))
        s_next = int(self.next_state[min(first + j, last - 1)])
        counted = self.noise.draw(rng, float(self.r_counted[pair]), self.r_max)
        return float(self.space.money.earned(counted)), s_next

    def columns(self) -> dict[str, Any]:
        """The table as named arrays, the contents of its file."""
        names = ("next_ptr", "next_state", "p", "r", "reward_offset", "reward_scale")
        table = {name: getattr(self, name) for name in names}
        return table | self.space.columns() | {"noise_kind": self.noise.kind, "noise_scale": self.noise.scale}

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Self:
        """The table that `columns` described."""
        space = Space.from_columns(columns)
        noise = Noise(str(columns["noise_kind"]), float(columns["noise_scale"]))  # type: ignore[arg-type]
        arrays = {name: columns[name] for name in ("next_ptr", "next_state", "p", "r")}
        offset, scale = float(columns["reward_offset"]), float(columns["reward_scale"])
        return cls(space, noise=noise, reward_offset=offset, reward_scale=scale, **arrays)

    def save(self, path: str | Path) -> None:
        """Write one `.npz` file; an existing file is replaced only once the new one is complete."""
        files.save(path, self.columns())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file written by `save` of a table or of a `Problem`."""
        return files.load(path, cls.from_columns)

    def __repr__(self) -> str:
        """Sizes only."""
        return f"TabularMDP(n_states={self.n_states}, n_pairs={self.space.n_pairs}, nnz={self.p.size})"


def _faults(mdp: TabularMDP) -> list[str]:
    """All faults of a table."""
    space = mdp.space
    if mdp.next_ptr.shape != (space.n_pairs + 1,) or mdp.r.shape != (space.n_pairs,):
        return [f"next_ptr {mdp.next_ptr.shape} and r {mdp.r.shape} do not fit {space.n_pairs} pairs"]
    if mdp.next_state.shape != mdp.p.shape or mdp.p.ndim != 1:
        return [f"next_state {mdp.next_state.shape} and p {mdp.p.shape} must be of one length"]
    if mdp.next_ptr[0] != 0 or mdp.next_ptr[-1] != mdp.p.size or np.any(np.diff(mdp.next_ptr) < 0):
        return [f"next_ptr must rise from 0 to the number of transitions, {mdp.p.size}"]
    faults = [fault for first in range(0, space.n_pairs, AT_ONCE) for fault in _faults_of_pairs(mdp, first)]
    if not (np.isfinite(mdp.reward_offset) and np.isfinite(mdp.reward_scale) and mdp.reward_scale > 0):
        faults.append(f"reward units {mdp.reward_offset} + {mdp.reward_scale} r are not finite and increasing")
    return faults


def _faults_of_pairs(mdp: TabularMDP, first: int) -> list[str]:
    """The faults of the rows and rewards of AT_ONCE pairs."""
    space, pairs = mdp.space, slice(first, first + AT_ONCE)
    ptr = mdp.next_ptr[first : first + AT_ONCE + 1]
    row, y, p = (
        np.repeat(np.arange(ptr.size - 1), np.diff(ptr)),
        mdp.next_state[ptr[0] : ptr[-1]],
        mdp.p[ptr[0] : ptr[-1]],
    )
    pair_s, pair_a = space.pair_state[pairs], space.pair_action[pairs]
    faults = row_faults(Entries(pair_s, pair_a, mdp.r[pairs], row, y, p), space.n_states, (space.low, space.high))
    for i in np.flatnonzero(p == 0):
        pair = f"state {pair_s[row[i]]}, action {pair_a[row[i]]}"
        faults.append(f"{pair}: probability 0 of state {y[i]}, which must not be stored")
    for i in np.flatnonzero((np.diff(row) == 0) & (np.diff(y) <= 0)):
        pair = f"state {pair_s[row[i]]}, action {pair_a[row[i]]}"
        faults.append(f"{pair}: successors {y[i]}, {y[i + 1]} do not increase")
    return faults
