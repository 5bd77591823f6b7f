"""Shared noise: the next state is a known function of state, action and noise, `s' = f(s, a, ξ)`.

The laws of the noise ξ are unknown. What the steps of one pair reveal of a law holds for all pairs that share it, so
that the row of a pair never tried can be known.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import FrozenArrays, freeze, is_whole, real_numbers, whole_numbers
from surefooted.codec import record
from surefooted.errors import InvalidInput, shown
from surefooted.knowledge.noise_index import NoiseIndex, noise_index
from surefooted.tables.space import Floats, Ints, Space, need_space

NoiseValue = int | tuple[int, ...]  # of one step: an int if the noise has one component, else a tuple
LAW_TOLERANCE = 1e-9  # how far from 1 a law may sum


@record
@dataclass(frozen=True, eq=False)
class Mechanics(FrozenArrays):
    """How the noise of a step decides where the step leads; the laws of the noise are left open.

    The noise ξ of a step has C components, which are independent of each other and of the past. Component c of pair k
    follows law `law[k, c]`, one of L laws. Law l has the values 0 .. sizes[l] - 1.

    `next_state` holds f(s, a, ξ) for every pair and every ξ: pair after pair, and within a pair the last component
    fastest. `reward` holds the mean reward r(s, a, ξ) in the same order. Its values are any finite numbers: only their
    means over ξ must lie in the range of the space.

    With `observed`, the noise of each step is reported with the step, and counted in `NoiseCounts`. Otherwise only what
    (s, a, s') reveals of it is used.

    - `space`: the states and their actions.
    - `sizes`: how many values each law has, [L].
    - `law`: the law of each component of each pair, [K, C].
    - `next_state`, `reward`, `observed`: as above. `of` makes both arrays from functions.

    >>> import surefooted as sf
    >>> space = sf.Space.full(n_states=4, n_actions=2)  # stock of 0 to 3, an order of 0 or 1
    >>> stock = sf.Mechanics.of(space, lambda s, a, demand: min(max(s + a - demand, 0), 3), sizes=3)
    >>> stock.next_state[-3:].tolist()  # from 3, with an order of 1, if the demand is 0, 1 or 2
    [3, 3, 2]
    """

    space: Space
    sizes: tuple[int, ...]  # [L]
    law: Ints  # [K, C]
    next_state: Ints  # [sum over pairs of the values that their noise may take]
    reward: Floats | None = None  # the same
    observed: bool = False

    def __post_init__(self) -> None:
        """Check every pair and freeze the arrays."""
        faults: list[str] = []
        sizes = tuple(self.sizes) if isinstance(self.sizes, Iterable) else (self.sizes,)
        if not sizes:
            faults.append("there is no law")
        faults += [
            f"law {i}: size {size} must be a positive whole number"
            for i, size in enumerate(sizes)
            if not is_whole(size, 1)
        ]
        law = whole_numbers("law", self.law, faults)
        after = whole_numbers("next_state", self.next_state, faults)
        reward = None if self.reward is None else real_numbers("reward", self.reward, faults)
        K = self.space.n_pairs
        if law.ndim != 2 or law.shape[0] != K or law.shape[1] < 1:
            faults.append(f"law has shape {law.shape}; it must be [K, C] with K = {K} pairs and at least one component")
        else:
            for k, c in np.argwhere((law < 0) | (law >= len(sizes))):
                faults.append(
                    f"{self.space.words(k)}: component {c} has law {law[k, c]}; the laws are 0 to {len(sizes) - 1}"
                )
        if faults:
            raise InvalidInput("these mechanics are not valid", faults)
        object.__setattr__(self, "sizes", tuple(int(size) for size in sizes))
        for name, array in (("law", law), ("next_state", after), ("reward", reward)):
            object.__setattr__(self, name, array)
        for name, flat in (("next_state", after), ("reward", reward)):
            if flat is not None and flat.shape != (self.noise_ptr[-1],):
                size = self.noise_ptr[-1]
                faults.append(f"{name} has shape {flat.shape}; all pairs together have {size} values of noise")
        if not faults:
            for i in np.flatnonzero((after < 0) | (after >= self.space.n_states)):
                faults.append(f"{self._at_noise(i)}: leads to state {after[i]}, which does not exist")
            for i in np.flatnonzero(~np.isfinite(reward)) if reward is not None else ():
                faults.append(f"{self._at_noise(i)}: reward {reward[i]} is not finite")  # type: ignore[index]
        if not isinstance(self.observed, bool | np.bool_):
            faults.append(f"observed must be True or False, not {self.observed!r}")
        if faults:
            leads = any("which does not exist" in fault for fault in faults)
            hint = "Keep it among the states, as in min(max(s + a - xi, 0), n_states - 1)." if leads else ""
            raise InvalidInput("these mechanics are not valid", faults, hint)
        freeze(law, after)
        if reward is not None:
            freeze(reward)

    @classmethod
    def of(
        cls,
        space: Space,
        f: Callable[[int, int, Any], int],
        sizes: int | Sequence[int],
        law: Callable[[int, int], NoiseValue] | NoiseValue | None = None,
        reward: Callable[[int, int, Any], float] | None = None,
        observed: bool = False,
    ) -> Self:
        """The mechanics of the functions f(s, a, ξ) and, if known, r(s, a, ξ).

        ξ is an int if it has one component, else a tuple. `sizes` says how many values each law has. `law` says which
        law each component follows, for all pairs or as a function of (s, a). Without it there is one component for each
        law.
        """
        need_space(space)
        if not callable(f):
            hint = "Write lambda s, a, xi: ..., which returns the next state."
            raise InvalidInput("these mechanics are not valid", [f"f is {shown(f)}, not a function"], hint)
        sizes = tuple(sizes) if isinstance(sizes, Iterable) and not isinstance(sizes, str) else (sizes,)
        pairs = list(zip(space.pair_state.tolist(), space.pair_action.tolist(), strict=True))
        if callable(law):
            laws = [law(s, a) for s, a in pairs]
        else:
            laws = [tuple(range(len(sizes))) if law is None else law] * len(pairs)
        rows = [tuple(row) if isinstance(row, Iterable) else (row,) for row in laws]
        faults = [
            f"law {i}: size {size} must be a positive whole number"
            for i, size in enumerate(sizes)
            if not is_whole(size, 1)
        ]
        for (s, a), row in zip(pairs, rows, strict=True):
            if len(row) != len(rows[0]) or not row:
                faults.append(
                    f"state {s}, action {a}: has {len(row)} components of noise, the first pair {len(rows[0])}"
                )
            elif not all(is_whole(i, 0) and i < len(sizes) for i in row):
                faults.append(f"state {s}, action {a}: laws {row}; the laws are 0 to {len(sizes) - 1}")
        if faults:
            raise InvalidInput("these mechanics are not valid", faults)
        after: list[Any] = []
        earned: list[Any] = []
        for (s, a), row in zip(pairs, rows, strict=True):
            for xi in np.ndindex(*(int(sizes[int(i)]) for i in row)):
                noise = xi[0] if len(xi) == 1 else xi
                after.append(f(s, a, noise))
                if reward is not None:
                    earned.append(reward(s, a, noise))
        law_table = np.array([[int(i) for i in row] for row in rows], dtype=np.int64)
        return cls(space, sizes, law_table, after, None if reward is None else earned, observed)  # type: ignore[arg-type]

    @property
    def n_components(self) -> int:
        """C."""
        return int(self.law.shape[1])

    @cached_property
    def noise_ptr(self) -> Ints:
        """Where the noise values of each pair begin, [K + 1]."""
        values = np.prod(np.array(self.sizes, dtype=np.int64)[self.law], axis=1)
        return np.concatenate([[0], np.cumsum(values)]).astype(np.int64)

    @cached_property
    def index(self) -> NoiseIndex:
        """The cells of all pairs and the events that must be estimated, as kernels take them; made once."""
        counted = None if self.reward is None else self.space.money.counted(self.reward)
        return noise_index(self.sizes, self.law, self.noise_ptr, self.next_state, counted, self.observed)

    def shape(self, k: int) -> tuple[int, ...]:
        """How many values each component of pair k has."""
        return tuple(self.sizes[i] for i in self.law[k])

    def outcomes(self, k: int) -> Ints:
        """f(k, ξ) for every ξ, an array with one axis per component."""
        return self.next_state[self.noise_ptr[k] : self.noise_ptr[k + 1]].reshape(self.shape(k))

    def without_rewards(self) -> "Mechanics":
        """The same mechanics with rewards left open."""
        return Mechanics(self.space, self.sizes, self.law, self.next_state, None, self.observed)

    def table(self, laws: Sequence[ArrayLike]) -> tuple[Ints, Ints, Floats, Floats | None]:
        """The rows next_ptr [K + 1], next_state [nnz] and p [nnz] that these laws give, and r [K] if rewards are known.

        Successors increase within a row; those of probability 0 are left out.
        """
        known = self.check_laws(laws)
        ptr, states, mass = [0], [], []
        r = None if self.reward is None else np.empty(self.space.n_pairs)
        for k in range(self.space.n_pairs):
            joint = np.ones(1)
            for i in self.law[k]:
                joint = np.multiply.outer(joint, known[i]).ravel()
            row = np.bincount(self.outcomes(k).ravel(), weights=joint)
            states.append(np.flatnonzero(row))
            mass.append(row[states[-1]])
            ptr.append(ptr[-1] + states[-1].size)
            if r is not None and self.reward is not None:
                earned = self.reward[self.noise_ptr[k] : self.noise_ptr[k + 1]]
                r[k] = earned[0] + fsum(joint * (earned - earned[0]))
        return np.array(ptr, dtype=np.int64), np.concatenate(states), np.concatenate(mass), r

    def leads_to(self, pairs: Ints, noise: Ints) -> Ints:
        """f(s, a, ξ) of steps [n] with noise [n, C]."""
        place, sizes = np.zeros(len(pairs), dtype=np.int64), np.array(self.sizes)
        for c in range(self.n_components):
            place = place * sizes[self.law[pairs, c]] + noise[:, c]
        return np.asarray(self.next_state[self.noise_ptr[pairs] + place])

    def draw_noise(self, laws: Sequence[ArrayLike], pairs: Ints, next_states: Ints, rng: np.random.Generator) -> Ints:
        """Noise [n, C] of steps whose next states were drawn already: ξ by its laws, given where each step led."""
        known = self.check_laws(laws)
        flat, n = np.empty(len(pairs), dtype=np.int64), self.space.n_states
        for key in np.unique(pairs * n + next_states):
            k, y = divmod(int(key), n)
            joint = np.ones(1)
            for i in self.law[k]:
                joint = np.multiply.outer(joint, known[i]).ravel()
            joint = np.where(self.outcomes(k).ravel() == y, joint, 0.0)
            if joint.sum() <= 0:
                raise InvalidInput("no such noise", [f"{self.space.words(k)}: no noise leads to state {y}"])
            here = (pairs == k) & (next_states == y)
            flat[here] = rng.choice(joint.size, size=int(here.sum()), p=joint / joint.sum())
        xi = np.empty((len(pairs), self.n_components), dtype=np.int64)
        for k in np.unique(pairs).tolist():
            xi[pairs == k] = np.stack(np.unravel_index(flat[pairs == k], self.shape(k)), axis=1)
        return xi

    def check_laws(self, laws: Sequence[ArrayLike]) -> list[Floats]:
        """The laws as arrays; an error if one is not a distribution of the right size."""
        faults: list[str] = []
        known = [real_numbers(f"law {i}", law, faults) for i, law in enumerate(laws)]
        if len(known) != len(self.sizes):
            faults.append(f"{len(known)} laws are given for {len(self.sizes)}")
        for i, (q, size) in enumerate(zip(known, self.sizes, strict=False)):
            if q.shape != (size,):
                faults.append(f"law {i}: has shape {q.shape}, not ({size},)")
            elif not (np.all(q >= 0) and abs(q.sum() - 1) <= LAW_TOLERANCE):
                faults.append(f"law {i}: must be probabilities that sum to 1, not {q.tolist()}")
        if faults:
            raise InvalidInput("these laws do not fit the mechanics", faults)
        return known

    def __repr__(self) -> str:
        """Sizes only."""
        return (
            f"Mechanics({self.space}, sizes={self.sizes}, n_components={self.n_components}, observed={self.observed})"
        )

    def _at_noise(self, i: Any) -> str:
        k = int(np.searchsorted(self.noise_ptr, i, side="right")) - 1
        xi = np.unravel_index(int(i - self.noise_ptr[k]), self.shape(k))
        shown = ", ".join(str(int(value)) for value in xi)
        return f"{self.space.words(k)}, noise {shown if len(xi) == 1 else f'({shown})'}"
