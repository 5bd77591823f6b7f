"""The set of counts that go on growing, kept up to date with them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from surefooted.data.counts import Counts
from surefooted.kernels.intervals import BERNSTEIN, SIMPLIFIED, Boxes, Share, Sums, fill_rows
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Ints


class IncrementalSet:
    """A set of intervals in which each row depends on its own counts alone: only rows visited since are computed again.

    `current` fills the arrays of the last set in place, so that a set that it returned before may change. When a pair
    leads to a new state, the set gets new arrays, which have room for it.
    """

    def __init__(self, kind: int, counts: Counts, delta: float) -> None:
        self.counts = counts
        space, n = counts.space, counts.n_rows
        intervals = space.n_states * space.n_actions * counts.stages
        if kind != SIMPLIFIED:
            intervals = n * (space.n_states + (1 if kind == BERNSTEIN else 2))
        self._share = Share(kind, intervals, delta)
        self._start()

    def _start(self) -> None:
        """Forget everything that was computed."""
        counts, n = self.counts, self.counts.n_rows
        self._sums = Sums(counts.visits, counts.reward_sum, counts.reward_square)
        self._added = -1  # steps that the counts had when the set was computed
        self._seen: Ints = np.full(n, -1)  # visits of each row when it was computed
        nothing = np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0)
        self._set = Plausible(
            counts.space, np.empty(n), np.empty(n), np.zeros(n + 1, dtype=np.int64), *nothing, np.ones(n),
            stages=counts.stages,
        )  # fmt: skip

    def current(self) -> Plausible:
        """The set of the counts as they are now."""
        counts = self.counts
        if counts.visits is not self._sums.visits:  # other counts were loaded into the same object
            self._start()
        if counts.added == self._added:
            return self._set
        todo = counts.pairs_since(self._added) if self._added >= 0 else None
        if counts.n_transitions != self._set.next_state.size:
            self._make_room()
        held = self._set
        boxes = Boxes(held.r_lower, held.r_upper, held.p_lower, held.p_upper, held.rows)
        rows = np.arange(counts.n_rows) if todo is None else todo
        fill_rows(self._share, counts.space.r_max, self._sums, counts.pool, rows, self._seen, boxes)
        self._added = counts.added
        return held

    def _make_room(self) -> None:
        """Move the set to arrays with a place for every transition counted; kernels' rows keep their order."""
        old, (next_ptr, next_state, _) = self._set, self.counts.rows()
        lower, upper = np.zeros(next_state.size), np.zeros(next_state.size)
        place = np.repeat(next_ptr[:-1] - old.next_ptr[:-1], np.diff(old.next_ptr)) + np.arange(old.next_state.size)
        lower[place], upper[place] = old.p_lower, old.p_upper
        self._set = replace(old, next_ptr=next_ptr, next_state=next_state, p_lower=lower, p_upper=upper)
        for new, before in zip(self._set.rows[2:5], old.rows[2:5], strict=True):  # next_state, low and room
            new[place] = before


class RecomputedSet:
    """A set of any other kind, computed as a whole whenever the counts have changed."""

    def __init__(self, confidence: Callable[[Counts, float], Plausible], counts: Counts, delta: float) -> None:
        self.confidence, self.counts, self.delta = confidence, counts, delta
        self._computed: tuple[int, Ints, Plausible] | None = None  # steps in the counts, their visits, and the set

    def current(self) -> Plausible:
        """The set of the counts as they are now."""
        added, visits = self.counts.added, self.counts.visits
        if self._computed is None or self._computed[0] != added or self._computed[1] is not visits:
            self._computed = (added, visits, self.confidence(self.counts, self.delta))
        return self._computed[2]
