"""A set of plausible MDPs: an interval of mean rewards and a set of rows for each pair, whatever made it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from surefooted._robust import Rows
from surefooted.errors import InvalidTable
from surefooted.mdp import TabularMDP
from surefooted.space import Floats, Ints, Space


@dataclass(frozen=True, eq=False)
class Plausible:
    """The MDPs that the data do not exclude (the paper's bounded-parameter MDP, Eq. `bounded.parameter`).

    Mean rewards lie in [r_lower, r_upper], [K]. A row is either a box, every successor j between p_lower[j] and
    p_upper[j] and every state not stored at most `unseen[k]`, or (`width` not None) an L1 ball of radius width[k]
    around p_lower. A pair never tried stores no successor and has unseen 1: it may lead anywhere.
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

    @cached_property
    def rows(self) -> Rows:
        """The same as the kernels take it; they may rearrange it, so it is theirs alone."""
        pair = np.repeat(np.arange(self.space.n_pairs), np.diff(self.next_ptr))
        slack = 1.0 - np.bincount(pair, weights=self.p_lower, minlength=self.space.n_pairs)
        if self.width is not None:
            slack[np.diff(self.next_ptr) > 0] = 0.0
        width = np.full(self.space.n_pairs, -1.0) if self.width is None else self.width
        room = self.p_upper - self.p_lower
        return Rows(
            self.next_ptr, self.next_state.copy(), self.p_lower.copy(), room, np.maximum(slack, 0.0), self.unseen, width
        )

    @classmethod
    def exactly(cls, mdp: TabularMDP) -> "Plausible":
        """The set that holds one MDP only."""
        unseen = np.zeros(mdp.space.n_pairs)
        return cls(mdp.space, mdp.r, mdp.r, mdp.next_ptr, mdp.next_state, mdp.p, mdp.p, unseen)

    def contains(self, mdp: TabularMDP, tolerance: float = 1e-12) -> bool:
        """Whether an MDP is in the set: the good event, for whoever knows the truth."""
        return not self.excludes(mdp, tolerance)

    def excludes(self, mdp: TabularMDP, tolerance: float = 1e-12) -> list[str]:
        """Why an MDP is not in the set, pair by pair; nothing if it is."""
        if mdp.space != self.space:
            raise InvalidTable("set and MDP do not fit", [f"set on {self.space}, MDP on {mdp.space}"])
        faults = []
        for k in range(self.space.n_pairs):
            at = f"state {self.space.pair_state[k]}, action {self.space.pair_action[k]}"
            if not self.r_lower[k] - tolerance <= mdp.r[k] <= self.r_upper[k] + tolerance:
                faults.append(f"{at}: mean reward {mdp.r[k]:g} not in [{self.r_lower[k]:g}, {self.r_upper[k]:g}]")
            p = np.zeros(self.space.n_states)
            p[mdp.next_state[mdp.next_ptr[k] : mdp.next_ptr[k + 1]]] = mdp.p[mdp.next_ptr[k] : mdp.next_ptr[k + 1]]
            row = slice(self.next_ptr[k], self.next_ptr[k + 1])
            lower, upper = np.zeros_like(p), np.full_like(p, self.unseen[k])
            lower[self.next_state[row]], upper[self.next_state[row]] = self.p_lower[row], self.p_upper[row]
            if self.width is not None and row.stop > row.start:
                if np.abs(p - lower).sum() > self.width[k] + tolerance:
                    faults.append(f"{at}: row at distance {np.abs(p - lower).sum():g} > {self.width[k]:g}")
            elif np.any(p < lower - tolerance) or np.any(p > upper + tolerance):
                y = int(np.argmax(np.maximum(lower - p, p - upper)))
                faults.append(f"{at}: probability {p[y]:g} of state {y} not in [{lower[y]:g}, {upper[y]:g}]")
        return faults
