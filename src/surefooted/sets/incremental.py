"""A set of boxes that follows its counts: after more steps, only the rows they visited are made anew."""

from functools import cached_property
from typing import Any

import numpy as np

from surefooted.data.counts import Counts
from surefooted.kernels.intervals import fill_rows
from surefooted.kernels.rows import Rows
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Floats, Ints, Space


class Following(Plausible):
    """The boxes of `intervals.fill_rows`, whose rows depend on their own counts alone.

    The rows lie where the counts keep theirs, with room to grow, so that a new successor costs no more than an old
    one. `next_ptr`, `next_state`, `p_lower` and `p_upper` are the same without the gaps, made when they are asked for.
    """

    def __init__(self, kind: int, counts: Counts, delta: float) -> None:
        object.__setattr__(self, "_pool", _Pool(kind, counts, delta))

    _pool: "_Pool"

    def follow(self) -> None:
        """Bring it up to date with its counts."""
        self._pool.follow()

    def compact(self) -> Plausible:
        """The set as it is now, which stays as it is."""
        return self._pool.compact()

    @property
    def rows(self) -> Rows:
        """As the kernels take it; they may rearrange it."""
        return self._pool.rows

    @property
    def space(self) -> Space:
        """Its pairs."""
        return self._pool.counts.space

    @property
    def r_lower(self) -> Floats:
        """[K]."""
        return self._pool.r_lower

    @property
    def r_upper(self) -> Floats:
        """[K]."""
        return self._pool.r_upper

    @property
    def unseen(self) -> Floats:
        """[K]."""
        return self._pool.rows.unseen

    @property
    def width(self) -> None:
        """None: boxes."""

    @property
    def stages(self) -> int:
        """H, or 1 when all stages share their rows."""
        return self._pool.counts.stages

    @property
    def next_ptr(self) -> Ints:
        """[K + 1]."""
        return self._pool.now.next_ptr

    @property
    def next_state(self) -> Ints:
        """[nnz]."""
        return self._pool.now.next_state

    @property
    def p_lower(self) -> Floats:
        """[nnz]."""
        return self._pool.now.p_lower

    @property
    def p_upper(self) -> Floats:
        """[nnz]."""
        return self._pool.now.p_upper


class _Pool:
    """Arrays laid out as the counts lay out theirs, and how far they have followed."""

    def __init__(self, kind: int, counts: Counts, delta: float) -> None:
        self.kind, self.counts, self.delta = kind, counts, delta
        self.r_lower, self.r_upper, self.seen = np.empty(0), np.empty(0), np.empty(0, dtype=np.int64)
        self._restart()

    def _restart(self) -> None:
        """Make everything anew."""
        self._laid_out: Ints | None = None  # the counts' pool that the arrays were last laid out for
        self._given: tuple[Any, ...] = ()
        self._made: tuple[Any, ...] = ()
        n, size = self.counts.n_rows, self.counts.pool.state.size
        self.r_lower, self.r_upper, self.seen = np.empty(n), np.empty(n), np.full(n, -1)
        self.states, self.lower, self.upper = np.zeros(size, dtype=np.int64), np.zeros(size), np.zeros(size)
        places = (np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.zeros(size, dtype=np.int64))
        self.rows = Rows(*places, np.zeros(size), np.zeros(size), np.ones(n), np.ones(n), np.full(n, -1.0))
        self.added, self.visits = self.counts.added, self.counts.visits
        self._fill(np.arange(n))

    def follow(self) -> None:
        """Make anew what was visited."""
        counts = self.counts
        if counts.visits is not self.visits:  # other counts were loaded into it
            self._restart()
        elif counts.added != self.added:
            size = counts.pool.state.size
            if size > self.lower.size:
                rows = self.rows
                self.rows = rows._replace(
                    next_state=_longer(rows.next_state, size),
                    low=_longer(rows.low, size),
                    room=_longer(rows.room, size),
                )
                own = (self.states, self.lower, self.upper)
                self.states, self.lower, self.upper = (_longer(array, size) for array in own)
            todo = counts.pairs_since(self.added)
            self.added = counts.added
            self._fill(np.arange(counts.n_rows) if todo is None else todo)

    def _fill(self, todo: Ints) -> None:
        """Make those of the rows `todo` that have changed; what else the kernel takes is put together once."""
        counts, space = self.counts, self.counts.space
        pool = counts.pool
        if self._laid_out is not pool.state:
            self._laid_out = pool.state
            sizes = (space.n_states, space.n_actions * counts.stages, space.r_max)
            sums = (counts.visits, counts.reward_sum, counts.reward_square)
            rows = (pool.start, pool.length, pool.state, pool.counted)
            self._given = (self.kind, self.delta, *sizes, *sums, *rows)
            intervals = (self.states, self.lower, self.upper, self.rows)
            self._made = (self.seen, self.r_lower, self.r_upper, *intervals)
        fill: Any = fill_rows
        fill(*self._given, todo, *self._made)
        self.__dict__.pop("now", None)

    @cached_property
    def now(self) -> Plausible:
        """The set without gaps, until it changes."""
        return self.compact()

    def compact(self) -> Plausible:
        """The set without gaps, as of the last time that it followed."""
        lengths = self.rows.last - self.rows.first
        next_ptr = np.concatenate([[0], np.cumsum(lengths)])
        place = np.repeat(self.rows.first - next_ptr[:-1], lengths) + np.arange(next_ptr[-1])
        return Plausible(
            self.counts.space,
            self.r_lower.copy(),
            self.r_upper.copy(),
            next_ptr,
            self.states[place],
            self.lower[place],
            self.upper[place],
            self.rows.unseen.copy(),
            stages=self.counts.stages,
        )


def _longer(array: Any, size: int) -> Any:
    """The array with zeros after it."""
    return np.concatenate([array, np.zeros(size - array.size, dtype=array.dtype)])
