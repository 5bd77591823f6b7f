"""A finite MDP as one table: sparse rows over flat state–action pairs, mean rewards, reward noise."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import FrozenArrays, freeze, is_whole, real_numbers, whole_numbers
from surefooted.errors import InvalidInput
from surefooted.tables import files
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Bools, Floats, Ints, Space

ROW_TOLERANCE = 1e-9  # how far from 1 a row may sum; within it, the row is divided by its sum
ROUNDING = 1e-14  # a row as close to 1 as this is left as it is, so that saving and loading change no digit

_RANGE_HINT = (
    "Rewards must lie in [0, r_max]: give `r_max`, or `reward_range=(low, high)` to have them mapped to [0, 1]."
)


@dataclass(frozen=True, eq=False)
class TabularMDP(FrozenArrays):
    """The true MDP: where each pair leads and what it earns on average.

    The row of pair k is next_state[next_ptr[k] : next_ptr[k + 1]] with probabilities p[...]: increasing states,
    positive probabilities, sum 1. `r[k]` is the mean reward in [0, r_max]; a drawn reward deviates from it by `noise`
    only. In the user's own units a reward is `reward_offset + reward_scale * r`.
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
        """Check every row and every reward, and freeze the arrays."""
        faults: list[str] = []
        if not isinstance(self.noise, Noise):
            faults.append(f'noise must be a Noise, as in Noise("bernoulli"), not {self.noise!r}')
        for name in ("next_ptr", "next_state"):
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name), faults))
        for name in ("p", "r"):
            object.__setattr__(self, name, real_numbers(name, getattr(self, name), faults))
        if faults := faults or _faults(self):
            raise InvalidInput("this MDP is not valid", faults, _hint(faults))
        sums = np.add.reduceat(self.p, self.next_ptr[:-1])
        sums[np.abs(sums - 1) <= ROUNDING] = 1.0
        np.divide(self.p, np.repeat(sums, np.diff(self.next_ptr)), out=self.p)
        freeze(self.next_ptr, self.next_state, self.p, self.r)

    @property
    def stages(self) -> int:
        """One: all stages of a finite horizon share these dynamics."""
        return 1

    def stage(self, h: int) -> "TabularMDP":
        """The dynamics of stage h: these."""
        return self

    @classmethod
    def from_arrays(
        cls,
        p: ArrayLike,
        r: ArrayLike,
        available: ArrayLike | None = None,
        noise: Noise | None = None,
        *,
        r_max: float = 1.0,
        reward_range: tuple[float, float] | None = None,
    ) -> Self:
        """The table of dense p [S, A, S] and r [S, A]; pairs not `available` [S, A] are ignored, whatever they hold."""
        faults: list[str] = []
        p, r = real_numbers("p", p, faults), real_numbers("r", r, faults)
        if faults:
            raise InvalidInput("this MDP is not valid", faults)
        if p.ndim != 3 or p.shape[0] != p.shape[-1] or p.size == 0:
            faults.append(f"p has shape {p.shape}; it must be [S, A, S] and not empty")
        if r.shape != p.shape[:2]:
            faults.append(f"r has shape {r.shape}; with p {p.shape} it must be {p.shape[:2]}")
        mask: Bools = np.ones(p.shape[:2], dtype=bool) if available is None else np.asarray(available)
        if mask.shape != p.shape[:2] or mask.dtype != np.bool_:
            faults.append(f"available is {mask.dtype} {mask.shape}; it must be boolean {p.shape[:2]}")
        if faults:
            raise InvalidInput("this MDP is not valid", faults)
        state, action, next_state = np.nonzero((p != 0) & mask[:, :, None])
        pair_state, pair_action = np.nonzero(mask)
        return cls._from_entries(
            (state, action, next_state, p[state, action, next_state]),
            (pair_state, pair_action, r[mask]),
            (p.shape[0], noise, r_max, reward_range),
        )

    @classmethod
    def from_pairs(
        cls,
        pairs: Mapping[tuple[int, int], tuple[float, Mapping[int, float]]],
        noise: Noise | None = None,
        *,
        n_states: int | None = None,
        r_max: float = 1.0,
        reward_range: tuple[float, float] | None = None,
    ) -> Self:
        """The table of `{(s, a): (mean reward, {s_next: probability})}`: only what exists is written down."""
        if not pairs:
            raise InvalidInput("this MDP is not valid", ["it has no state–action pair"])
        entries = [(s, a, y, p) for (s, a), (_, row) in pairs.items() for y, p in row.items()]
        rewards = [(s, a, reward) for (s, a), (reward, _) in pairs.items()]
        entry_columns = tuple(list(column) for column in zip(*entries, strict=True)) or ([],) * 4
        reward_columns = tuple(list(column) for column in zip(*rewards, strict=True))
        return cls._from_entries(entry_columns, reward_columns, (n_states, noise, r_max, reward_range))

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
        r_max: float = 1.0,
        reward_range: tuple[float, float] | None = None,
    ) -> Self:
        """The table of a list of transitions with rewards r(s, a, s'), all [nnz]; r(s, a) is their mean under p."""
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
            raise InvalidInput("this MDP is not valid", faults)
        order = np.lexsort((a, s))
        first = np.flatnonzero((np.diff(s[order], prepend=s.min() - 1) != 0) | (np.diff(a[order], prepend=0) != 0))
        base = np.repeat(rewards[order][first], np.diff(first, append=order.size))  # so that equal rewards stay exact
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is named below
            mean = rewards[order][first] + np.add.reduceat(p[order] * (rewards[order] - base), first)
            mean = np.where(np.isfinite(mean), mean, np.add.reduceat(p[order] * rewards[order], first))
        pairs = (s[order][first], a[order][first], mean)
        return cls._from_entries((s, a, y, p), pairs, (n_states, noise, r_max, reward_range))

    @classmethod
    def _from_entries(
        cls,
        entries: tuple[Any, ...],
        rewards: tuple[Any, ...],
        options: tuple[int | None, Noise | None, float, tuple[float, float] | None],
    ) -> Self:
        """Sort (s, a, s', p) into rows, adding up repeated successors and dropping those of probability 0."""
        faults: list[str] = []
        s, a, y = (
            whole_numbers(name, c, faults)
            for name, c in zip(("states", "actions", "next states"), entries[:3], strict=True)
        )
        pair_s, pair_a = whole_numbers("states", rewards[0], faults), whole_numbers("actions", rewards[1], faults)
        p, r = real_numbers("probabilities", entries[3], faults), real_numbers("rewards", rewards[2], faults)
        n_states, noise, r_max, reward_range = options
        if pair_s.size == 0:
            faults += [f"state {s}: has no action" for s in range(n_states or 0)]
        if n_states is not None and not is_whole(n_states, 1):
            faults.append(f"n_states {n_states} must be a positive whole number")
        low, high = (0.0, r_max) if reward_range is None else _range(reward_range, r_max, faults)
        if not (np.isfinite(r_max) and r_max > 0):
            faults.append(f"r_max {r_max} must be positive and finite")
        if pair_s.size == 0 or any("whole number" in fault or "must be numbers" in fault for fault in faults):
            raise InvalidInput("this MDP is not valid", sorted(set(faults)))
        n_states = 1 + int(max(pair_s.max(), y.max(initial=0))) if n_states is None else int(n_states)
        order = np.lexsort((pair_a, pair_s))
        pair_s, pair_a, r = pair_s[order], pair_a[order], r[order]
        faults += [f"state {i}: the states are 0 to {n_states - 1}" for i in np.unique(pair_s) if not 0 <= i < n_states]
        faults += [f"state {i}: has no action" for i in np.setdiff1d(np.arange(n_states), pair_s)]
        faults += [f"state {pair_s[k]}: action {pair_a[k]} is negative" for k in np.flatnonzero(pair_a < 0)]
        span, least = int(pair_a.max() - pair_a.min()) + 1, int(pair_a.min())
        row = np.searchsorted(pair_s * span + pair_a - least, s * span + a - least)
        slack = 1e-12 * (high - low)  # rounding of a mean
        r[(r < low) & (r > low - slack)] = low
        r[(r > high) & (r < high + slack)] = high
        faults += _row_faults(pair_s, pair_a, n_states, (low, high), row, y, p, r)
        if faults:
            raise InvalidInput("this MDP is not valid", faults, _hint(faults) if reward_range is None else "")
        scale = 1.0 if reward_range is None else high - low
        r = r if reward_range is None else np.clip((r - low) / scale, 0.0, 1.0)
        key, inverse = np.unique(row * n_states + y, return_inverse=True)  # repeated successors are added up
        mass: Floats = np.bincount(inverse, weights=p, minlength=key.size).astype(np.float64)
        key, mass = key[mass > 0], mass[mass > 0]
        next_ptr = np.searchsorted(key, np.arange(pair_s.size + 1) * n_states)
        space = Space(np.searchsorted(pair_s, np.arange(n_states + 1)), pair_a, r_max)
        return cls(space, next_ptr, key % n_states, mass, r, noise or Noise(), low, scale)

    @property
    def n_states(self) -> int:
        """S."""
        return self.space.n_states

    @property
    def r_max(self) -> float:
        """The largest mean reward that a pair may have."""
        return self.space.r_max

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
        """One reward and one next state of a pair: a uniform for the state first, then the noise."""
        first, last = self.next_ptr[pair], self.next_ptr[pair + 1]
        j = int(np.searchsorted(np.cumsum(self.p[first:last]), rng.random(), side="right"))
        s_next = int(self.next_state[min(first + j, last - 1)])
        return self.noise.draw(rng, float(self.r[pair]), self.r_max), s_next

    def columns(self) -> dict[str, Any]:
        """The table as named arrays, the contents of its file."""
        names = ("next_ptr", "next_state", "p", "r", "reward_offset", "reward_scale")
        table = {name: getattr(self, name) for name in names}
        space = {"pair_ptr": self.space.pair_ptr, "pair_action": self.space.pair_action, "r_max": self.r_max}
        return table | space | {"noise_kind": self.noise.kind, "noise_scale": self.noise.scale}

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Self:
        """The table of the named arrays that `columns` returns."""
        space = Space(columns["pair_ptr"], columns["pair_action"], float(columns["r_max"]))
        noise = Noise(str(columns["noise_kind"]), float(columns["noise_scale"]))  # type: ignore[arg-type]
        arrays = {name: columns[name] for name in ("next_ptr", "next_state", "p", "r")}
        offset, scale = float(columns["reward_offset"]), float(columns["reward_scale"])
        return cls(space, noise=noise, reward_offset=offset, reward_scale=scale, **arrays)

    def save(self, path: str | Path) -> None:
        """Write one `.npz` file; an existing file is replaced only once the new one is whole."""
        files.save(path, self.columns())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file written by `save`, of this table or of a whole `Problem`."""
        return files.parsed(path, cls.from_columns)

    def __repr__(self) -> str:
        """Sizes only."""
        return f"TabularMDP(n_states={self.n_states}, n_pairs={self.space.n_pairs}, nnz={self.p.size})"


def _range(reward_range: tuple[float, float], r_max: float, faults: list[str]) -> tuple[float, float]:
    """The range that rewards are mapped from, or faults; everything is inside a range that is none."""
    if r_max != 1.0:
        faults.append(f"give r_max or reward_range, not both: rewards in {reward_range} are mapped to [0, 1]")
    if len(reward_range) == 2 and np.all(np.isfinite(reward_range)) and reward_range[0] < reward_range[1]:
        return float(reward_range[0]), float(reward_range[1])
    faults.append(f"reward_range {reward_range} must be (low, high) with low < high")
    return -np.inf, np.inf


def _hint(faults: list[str]) -> str:
    """What to do about rewards out of range, when that is among the faults."""
    return _RANGE_HINT if any("outside [0" in fault for fault in faults) else ""


def _row_faults(
    pair_s: Ints, pair_a: Ints, n_states: int, limits: tuple[float, float], row: Ints, y: Ints, p: Floats, r: Floats
) -> list[str]:
    """Every fault of the rows and rewards, named by state and action; `row`, `y`, `p` [nnz] are the transitions."""

    def at(k: Any) -> str:
        return f"state {pair_s[k]}, action {pair_a[k]}"

    faults = []
    for i in np.flatnonzero((y < 0) | (y >= n_states)):
        faults.append(f"{at(row[i])}: leads to state {y[i]}, which does not exist")
    for i in np.flatnonzero(~((p >= 0) & np.isfinite(p))):
        faults.append(f"{at(row[i])}: probability {p[i]:g} of state {y[i]}")
    with np.errstate(invalid="ignore"):  # inf - inf
        sums = np.bincount(row, weights=p, minlength=pair_s.size)
    for k in np.flatnonzero(~(np.abs(sums - 1) <= ROW_TOLERANCE)):
        faults.append(f"{at(k)}: probabilities sum to {sums[k]:.12g}, not 1")
    for k in np.flatnonzero(~((r >= limits[0]) & (r <= limits[1]))):
        faults.append(f"{at(k)}: mean reward {r[k]:g} outside [{limits[0]:g}, {limits[1]:g}]")
    return faults


def _faults(mdp: TabularMDP) -> list[str]:
    """Every fault of a finished table."""
    space = mdp.space
    if mdp.next_ptr.shape != (space.n_pairs + 1,) or mdp.r.shape != (space.n_pairs,):
        return [f"next_ptr {mdp.next_ptr.shape} and r {mdp.r.shape} do not fit {space.n_pairs} pairs"]
    if mdp.next_state.shape != mdp.p.shape or mdp.p.ndim != 1:
        return [f"next_state {mdp.next_state.shape} and p {mdp.p.shape} must be of one length"]
    if mdp.next_ptr[0] != 0 or mdp.next_ptr[-1] != mdp.p.size or np.any(np.diff(mdp.next_ptr) < 0):
        return [f"next_ptr must rise from 0 to the number of transitions, {mdp.p.size}"]
    row = np.repeat(np.arange(space.n_pairs), np.diff(mdp.next_ptr))
    pair_s, pair_a = space.pair_state, space.pair_action
    limits = (0.0, space.r_max)
    faults = _row_faults(pair_s, pair_a, space.n_states, limits, row, mdp.next_state, mdp.p, mdp.r)
    for i in np.flatnonzero(mdp.p == 0):
        pair = f"state {pair_s[row[i]]}, action {pair_a[row[i]]}"
        faults.append(f"{pair}: probability 0 of state {mdp.next_state[i]}, which must not be stored")
    for i in np.flatnonzero((np.diff(row) == 0) & (np.diff(mdp.next_state) <= 0)):
        pair = f"state {pair_s[row[i]]}, action {pair_a[row[i]]}"
        faults.append(f"{pair}: successors {mdp.next_state[i]}, {mdp.next_state[i + 1]} do not increase")
    if not (np.isfinite(mdp.reward_offset) and np.isfinite(mdp.reward_scale) and mdp.reward_scale > 0):
        faults.append(f"reward units {mdp.reward_offset} + {mdp.reward_scale} r are not finite and increasing")
    return faults
