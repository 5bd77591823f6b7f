"""A set of plausible MDPs: an interval of mean rewards and a set of rows for each pair."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from surefooted.errors import InvalidInput
from surefooted.kernels.rows import Rows
from surefooted.sets.own_set import checked_set
from surefooted.sets.shared_noise import SharedNoise
from surefooted.tables.space import Floats, Ints, Space
from surefooted.tables.staged import Dynamics


@dataclass(frozen=True, eq=False)
class Plausible:
    """The MDPs that the data do not exclude (the paper's bounded-parameter MDP, Eq. `bounded.parameter`).

    Mean rewards, counted from the `low` of the space (`tables.money`), lie in [r_lower, r_upper], [K]; `rewards` has
    the bounds in the user's unit. The successors of row k are next_state[next_ptr[k] : next_ptr[k + 1]]. Without
    `width`, a row is a box: successor j has a probability between p_lower[j] and p_upper[j], and each state that is not
    stored at most `unseen[k]`. With `width`, a row is an L1 ball of radius width[k] around p_lower. A pair never tried
    stores no successor and has unseen 1: it may lead anywhere.

    With `stages` H, each stage h has rows of its own: every array [K] is [H K], and pair k of stage h is row h K + k.
    With `shared`, one noise with one law decides all rows, which are boxes around what follows from it.
    """

    space: Space
    r_lower: Floats  # [K]
    r_upper: Floats  # [K]
    next_ptr: Ints  # [K + 1]
    next_state: Ints  # [nnz]
    p_lower: Floats  # [nnz], or the centre of an L1 ball
    p_upper: Floats  # [nnz]
    unseen: Floats  # [K]
    width: Floats | None = None  # [K]
    stages: int = 1
    shared: SharedNoise | None = None

    def __post_init__(self) -> None:
        """Check the set and copy its arrays: kernels use them as they are."""
        self.__dict__.update(checked_set(self.space, self.__dict__))

    @classmethod
    def _of_arrays(
        cls,
        space: Space,
        *arrays: Floats | Ints,  # r_lower, r_upper, next_ptr, next_state, p_lower, p_upper, unseen
        width: Floats | None = None,
        stages: int = 1,
        shared: SharedNoise | None = None,
    ) -> "Plausible":
        """A set of arrays that are known to be valid: neither checked nor copied."""
        names = ("r_lower", "r_upper", "next_ptr", "next_state", "p_lower", "p_upper", "unseen")
        plausible = object.__new__(Plausible)
        more = {"space": space, "width": width, "stages": stages, "shared": shared}
        plausible.__dict__.update(zip(names, arrays, strict=True), **more)
        return plausible

    @property
    def n_rows(self) -> int:
        """The pairs of all stages."""
        return self.stages * self.space.n_pairs

    @cached_property
    def rows(self) -> Rows:
        """The rows as kernels take them. Kernels rearrange them, so they have arrays of their own."""
        pair = np.repeat(np.arange(self.n_rows), np.diff(self.next_ptr))
        slack = 1.0 - np.bincount(pair, weights=self.p_lower, minlength=self.n_rows)
        if self.width is not None:
            slack[np.diff(self.next_ptr) > 0] = 0.0
        width = np.full(self.n_rows, -1.0) if self.width is None else self.width
        own = (self.next_state.copy(), self.p_lower.copy(), self.p_upper - self.p_lower)
        of_full = np.flatnonzero(np.diff(self.next_ptr)[pair] == self.space.n_states)
        place = self.next_ptr[pair[of_full]] + self.next_state[of_full]
        if np.any(place != of_full):
            for array in own:
                array[place] = array[of_full]
        return Rows(self.next_ptr[:-1], self.next_ptr[1:], *own, np.maximum(slack, 0.0), self.unseen, width)

    @classmethod
    def exactly(cls, mdp: Dynamics) -> "Plausible":
        """The set that holds one MDP only."""
        rows = (mdp.next_ptr, mdp.next_state, mdp.p, mdp.p)
        return cls._of_arrays(mdp.space, mdp.r_counted, mdp.r_counted, *rows, np.zeros(mdp.r.size), stages=mdp.stages)

    @property
    def rewards(self) -> tuple[Floats, Floats]:
        """Lower and upper bounds on the mean rewards, in the user's unit, [K] each."""
        return self.space.money.earned(self.r_lower), self.space.money.earned(self.r_upper)

    def contains(self, mdp: Dynamics, tolerance: float = 1e-12) -> bool:
        """Whether an MDP is in the set. That the true MDP is in it is the good event."""
        return not self.excludes(mdp, tolerance)

    def excludes(self, mdp: Dynamics, tolerance: float = 1e-12) -> list[str]:
        """Why an MDP is not in the set, pair by pair; empty if it is."""
        if mdp.space != self.space:
            raise InvalidInput("set and MDP do not fit", [f"set on {self.space}, MDP on {mdp.space}"])
        if 1 != self.stages != mdp.stages != 1:
            raise InvalidInput("set and MDP do not fit", [f"set of {self.stages} stages, MDP of {mdp.stages}"])
        faults, (r_lower, r_upper) = [], self.rewards
        slack = tolerance * max(1.0, abs(self.space.low), abs(self.space.high))
        for row in range(max(self.n_rows, mdp.r.size)):  # rows that stages share are compared with each stage
            k, m, (h, pair) = row % self.n_rows, row % mdp.r.size, divmod(row, self.space.n_pairs)
            at = f"stage {h}, " * (max(self.stages, mdp.stages) > 1) + self.space.words(pair)
            if not r_lower[k] - slack <= mdp.r[m] <= r_upper[k] + slack:
                faults.append(f"{at}: mean reward {mdp.r[m]:g} not in [{r_lower[k]:g}, {r_upper[k]:g}]")
            p = np.zeros(self.space.n_states)
            p[mdp.next_state[mdp.next_ptr[m] : mdp.next_ptr[m + 1]]] = mdp.p[mdp.next_ptr[m] : mdp.next_ptr[m + 1]]
            at_k = slice(self.next_ptr[k], self.next_ptr[k + 1])
            lower, upper = np.zeros_like(p), np.full_like(p, self.unseen[k])
            lower[self.next_state[at_k]], upper[self.next_state[at_k]] = self.p_lower[at_k], self.p_upper[at_k]
            if self.width is not None and at_k.stop > at_k.start:
                if np.abs(p - lower).sum() > self.width[k] + tolerance:
                    faults.append(f"{at}: row at distance {np.abs(p - lower).sum():g} > {self.width[k]:g}")
            elif np.any(p < lower - tolerance) or np.any(p > upper + tolerance):
                y = int(np.argmax(np.maximum(lower - p, p - upper)))
                faults.append(f"{at}: probability {p[y]:g} of state {y} not in [{lower[y]:g}, {upper[y]:g}]")
        return faults
