"""The policies of a run as kernels take them."""

from collections.abc import Sequence

import numpy as np

from surefooted import planning
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints


class Shelf:
    """The policies of a run that were played, as kernels take them, each put there once; the baseline comes first."""

    def __init__(self, policies: Sequence[Policy], baseline: Policy) -> None:
        self.policies, self._baseline = policies, baseline
        self._place = np.full(64, -1)
        self._used = (0, 0)  # policies and pairs on it
        self._ptr = np.zeros((4, baseline.space.n_states + 1), dtype=np.int64)
        self._pairs, self._weights = np.zeros(64, dtype=np.int64), np.zeros(64)
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

    def lists(self) -> tuple[Ints, Ints, Floats]:
        """What `kernels.structs.Book` begins with."""
        return self._ptr[: self._used[0]], self._pairs, self._weights

    def _put(self, q: int, policy: Policy) -> None:
        """Put policy number q at the end."""
        ptr, pairs, weights = planning.played(policy)
        row, first = self._used
        if row == len(self._ptr):
            self._ptr = np.concatenate([self._ptr, np.zeros_like(self._ptr)])
        while first + pairs.size > self._pairs.size:
            self._pairs = np.concatenate([self._pairs, np.zeros_like(self._pairs)])
            self._weights = np.concatenate([self._weights, np.zeros_like(self._weights)])
        self._ptr[row] = ptr + first
        self._pairs[first : first + pairs.size], self._weights[first : first + pairs.size] = pairs, weights
        self._place[q], self._used = row, (row + 1, first + pairs.size)
