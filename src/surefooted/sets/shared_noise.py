"""What a set knows of one noise that all pairs share: where each value leads, and how likely the values are."""

from dataclasses import dataclass

import numpy as np

from surefooted.kernels.coupling import LawBounds
from surefooted.tables.space import Floats, Ints


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """One noise with values 0 .. n - 1 decides where every pair leads; its law is the same for all of them.

    - `next_state` [K, n]: where each value leads.
    - `reward` [K, n]: what it earns, counted from `low` (`tables.money`); None if that is not known.
    - `masks`, `lower`, `upper`: events as bit masks of values, and bounds on their probabilities.
    """

    next_state: Ints
    reward: Floats | None
    masks: tuple[int, ...]
    lower: Floats
    upper: Floats

    @property
    def law(self) -> LawBounds:
        """Bounds on each value and on each tail, by all events: no less than one within it, no more than one around."""
        n = self.next_state.shape[1]
        everything = (1 << n) - 1
        values = [self._bounds(1 << i, everything) for i in range(n)]
        tails = [self._bounds(everything ^ ((1 << j) - 1), everything) for j in range(n)]
        return LawBounds(*np.array(values).T.copy(), *np.array(tails).T.copy())

    def told(self, n_states: int) -> Floats | None:
        """What a pair earns if it leads to a state, [K, S]; None if that is not known, or depends on more than these.

        Where a pair cannot lead, it is 0.
        """
        if self.reward is None:
            return None
        pair = np.arange(len(self.next_state))[:, None]
        table = np.zeros((len(self.next_state), n_states))
        table[pair, self.next_state] = self.reward
        return table if np.array_equal(table[pair, self.next_state], self.reward) else None

    def _bounds(self, wanted: int, everything: int) -> tuple[float, float]:
        if wanted == everything:
            return 1.0, 1.0
        low = max((self.lower[e] for e, mask in enumerate(self.masks) if mask & wanted == mask), default=0.0)
        high = min((self.upper[e] for e, mask in enumerate(self.masks) if mask & wanted == wanted), default=1.0)
        return float(min(low, high)), float(max(low, high))
