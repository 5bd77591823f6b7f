"""The policies of a run as kernels take them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints

SHORT = 4  # a difference of at most a share 1 / SHORT of the states is stored in place of the policy


class Shelf:
    """The policies of a run that were played, as kernels take them, each put there once; the baseline comes first.

    A deterministic policy is stored as its difference from the last one that is stored completely, if that is short.
    """

    def __init__(self, policies: Sequence[Policy], baseline: Policy) -> None:
        self.policies, self._baseline = policies, baseline
        self._state = baseline.space.pair_state.copy()
        self._place = np.full(64, -1)
        self._first, self._base, self._weighted = (_Column(np.zeros(64, dtype=np.int64)) for _ in range(3))
        self._pairs, self._weights = _Column(np.zeros(64, dtype=np.int64)), _Column(np.zeros(64))
        self._used = (0, 0, 0)  # policies, pairs and weights; what is written beyond them does not count
        self._whole: tuple[int, Ints] | None = None  # the last policy stored completely: its place, and its pairs
        self._put(0, baseline)

    def places(self, ids: Ints) -> Ints:
        """Where each of these policies stands, [n]; those that are new are put there."""
        if ids.size and ids.max() >= self._place.size:
            self._place = np.concatenate([self._place, np.full(ids.max() + 1, -1)])
        found = np.asarray(self._place[ids])
        if found.size == 0 or found.min() >= 0:
            return found
        for q in np.unique(ids[found < 0]).tolist():
            self._put(q, self.policies[q])
        return np.asarray(self._place[ids])

    def lists(self) -> tuple[Ints, Ints, Ints, Ints, Ints, Floats]:
        """What `kernels.structs.Book` begins with."""
        columns = (self._first, self._base, self._weighted, self._pairs, self._weights)
        return self._state, *(column.array for column in columns)

    def _put(self, q: int, policy: Policy) -> None:
        """Put policy number q at the end; if this is interrupted, nothing has changed."""
        place, n_pairs, n_weights = self._used
        whole, base, weighted = self._whole, place, -1
        if policy.pair is None:
            assert policy.weights is not None
            pairs, weighted = np.flatnonzero(policy.weights), n_weights
            n_weights = self._weights.write(n_weights, policy.weights[pairs])
        else:
            pairs = policy.pair
            changed = pairs if whole is None else pairs[pairs != whole[1]]
            if whole is not None and SHORT * changed.size <= pairs.size:
                base, pairs = whole[0], changed
            else:
                whole = (place, pairs)
        n_pairs = self._pairs.write(n_pairs, pairs)
        self._base.write(place, np.array([base]))
        self._weighted.write(place, np.array([weighted]))
        self._first.write(place + 1, np.array([n_pairs]))
        self._used = (place + 1, n_pairs, n_weights)
        self._whole = whole
        self._place[q] = place


class _Column:
    """Numbers that grow at the end, in an array that is larger than they are by a quarter at most."""

    def __init__(self, room: Any) -> None:
        self.array = room

    def write(self, begin: int, numbers: Any) -> int:
        """Write numbers from `begin` on; where they end."""
        end = begin + numbers.size
        if end > self.array.size:
            larger = np.zeros(end + end // 4, dtype=self.array.dtype)
            larger[:begin] = self.array[:begin]
            self.array = larger
        self.array[begin:end] = numbers
        return int(end)
