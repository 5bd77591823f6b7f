"""Linear systems over transient states of a chain: x = cost + P x, expected costs until the states are left.

Up to `SMALL` states, and any number of states whose matrix is banded once they are well ordered, are eliminated without
any subtraction, which is exact to rounding in every entry. Other systems are factorised by SuperLU and refined with
residuals that keep rare transitions. If a factorisation would fill up, as on graphs without small separators, sweeps
come first: such chains usually mix fast.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from surefooted.errors import NotConverged
from surefooted.kernels import chains, exact
from surefooted.kernels.structs import Table, Transient
from surefooted.solve.chain import gather
from surefooted.tables.space import Floats, Ints

SMALL = 300  # states that are eliminated whatever their order
SHORT = 30  # the largest reach (half the width of the band) at which more states are eliminated
PLANAR = 2.0  # times sqrt(n) is a width up to which LU comes before sweeps: that of mazes, tori and lines
WIDEST = 5_000  # the width up to which LU is tried at all: the factors of a dense block of as many take 400 MB
HUB = 10.0  # times sqrt(n) is the number of neighbours above which a state is a hub
FEW_SWEEPS = 300  # before LU where it fills up
MANY_SWEEPS = 100_000  # before sweeps are called off, if they do not read more than MOST_READ
MOST_READ = 1_000_000_000  # transitions
REFINEMENTS = 50  # of a solution by LU: each correction at most half of the one before
UNIT = 1e-16  # the relative rounding of a double
TINY = 1e-300  # a solution that is smaller counts as this large
ACCURATE = 1e-12  # the relative size of a last correction that shows a solution by LU to be right
DAMPING = 0.9  # the share of a real step in the aperiodic chain of the same gain and bias
BEYOND = "some states are left so rarely that the time it takes is beyond the range of doubles"
RARELY = "some states are left so rarely that rounding hides it from sparse LU, and sweeps do not end"

T = TypeVar("T")


class System:
    """The transient states of a chain: all others count as left for good.

    `states` [n] is the order in which costs and solutions list them: another one than given, if that makes the matrix
    banded.
    """

    def __init__(self, chain: Table, states: Ints) -> None:
        self.chain = chain
        self.accuracy = 0.0  # how far off the last solution may be, beyond rounding
        self._list(states)
        if not self.is_banded:
            order, reach, self._width = self._order()
            if reach <= SHORT:
                self._list(states[order])

    def _list(self, states: Ints) -> None:
        """Read the rows of these states, in this order."""
        chain, n = self.chain, states.size
        self.states, self.place = states, np.full(chain.r.size, -1)  # [S], the position of each state in `states`
        self.place[states] = np.arange(n)
        size = int((chain.next_ptr[states + 1] - chain.next_ptr[states]).sum())
        rows = Transient(np.empty(n + 1, np.int64), np.empty(size, np.int64), np.empty(size), np.empty(n))
        end, self.reach = chains.restrict(chain, states, self.place, rows)
        self.rows = rows._replace(column=rows.column[:end], p=rows.p[:end])

    @property
    def is_banded(self) -> bool:
        """Whether the states are eliminated."""
        return self.states.size <= SMALL or self.reach <= SHORT

    @property
    def is_wide(self) -> bool:
        """Whether a factorisation would fill up."""
        return not self.is_banded and self._width > PLANAR * np.sqrt(self.states.size)

    def attempt(self, direct: Callable[[], T], swept: Callable[[int], T]) -> T:
        """What `direct` or `swept`, which is given a number of sweeps, returns first: the promising one begins."""
        n = self.states.size
        if self.is_banded:
            return direct()
        attempts: list[Callable[[], T]] = [lambda: swept(min(MANY_SWEEPS, MOST_READ // (self.rows.p.size + n)))]
        if self._width <= WIDEST:
            attempts.insert(0, direct)
        if self.is_wide:
            attempts.insert(0, lambda: swept(FEW_SWEEPS))
        for attempt in attempts:
            with suppress(NotConverged):
                return attempt()
        raise NotConverged(f"{n} states: {RARELY}")

    def solve(self, cost: Floats, accuracy: float) -> Floats:
        """The x [m, n] with x = cost + P x for `cost` [m, n]: within `accuracy` if sweeps find it, else to rounding."""
        self.accuracy = 0.0
        return self.attempt(lambda: self.direct(cost), lambda most: self._sweep(cost, accuracy, most))

    def direct(self, cost: Floats) -> Floats:
        """The same by elimination or LU, to rounding."""
        if self.is_banded:
            x = cost.copy()
            with np.errstate(all="ignore"):
                chains.substitute(*self._eliminated, x)
            return finite(x)
        return self._refine(cost, "T", lambda x, out: chains.residuals(self.rows, cost, x, out))

    def visits(self, entry: Floats) -> tuple[Floats, float]:
        """Expected visits [n] until the states are left, if entered with probabilities `entry` [n], and their scale.

        The scale is 1, or smaller if visits would overflow.
        """
        if self.is_banded:
            found = entry.copy()
            scale = chains.count_visits(*self._eliminated, found)
            return finite(found), scale
        lost = np.empty(entry.size)

        def imbalance(y: Floats, out: Floats) -> None:
            chains.imbalances(self.rows, entry, y[0], out[0], lost)

        return self._refine(entry[None], "N", imbalance)[0], 1.0

    @cached_property
    def _eliminated(self) -> tuple[Floats, Floats]:
        band, out = np.empty((self.states.size, 2 * self.reach + 1)), np.empty(self.states.size)
        if not chains.eliminate(self.rows, band, out):
            raise NotConverged(BEYOND)  # a probability that is 0 to a double
        return band, out

    @cached_property
    def _factors(self) -> Any:
        """The factors of the transpose of I - P, a diagonally dominant M-matrix: it needs no pivoting."""
        n, size = self.states.size, self.states.size + self.rows.p.size
        ptr, column, entry = np.empty(n + 1, np.int32), np.empty(size, np.int32), np.empty(size)
        chains.fill_matrix(self.rows, ptr, column, entry)
        transposed = csc_array((entry, column, ptr), shape=(n, n))
        options = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
        try:
            return splu(transposed, **options)
        except (RuntimeError, MemoryError) as fault:  # singular
            raise NotConverged(RARELY) from fault

    def _refine(self, right: Floats, transposed: str, residual: Callable[[Floats, Floats], None]) -> Floats:
        """The solution by LU for the right-hand sides `right` [m, n], with iterative refinement.

        LU loses the digits of rare exits, the residuals keep them: as long as each correction is at most half as large
        as the one before, they converge to a solution that is right in nearly all its digits.
        """
        x, rest, before = self._factors.solve(right.T, transposed).T, np.empty_like(right), 1.0
        for _ in range(REFINEMENTS):
            residual(np.ascontiguousarray(finite(x)), rest)
            correction = self._factors.solve(rest.T, transposed).T
            x = x + correction
            now = float((np.abs(correction).max(axis=1) / np.maximum(np.abs(x).max(axis=1), TINY)).max())
            if now * now <= UNIT * before:  # the next correction would be below rounding
                return finite(x)
            if not now <= before / 2:
                break
            before = now
        if not now <= ACCURATE:
            raise NotConverged(RARELY)
        return finite(x)

    def _order(self) -> tuple[Ints, int, float]:
        """A reverse Cuthill–McKee order of the states, its reach, and the mean length of a transition, hubs left out.

        The mean length predicts how a factorisation fills up: about sqrt(n) on a maze, n / 4 on a random graph. A hub,
        such as the state where all restart, is a neighbour of many, but costs a factorisation only one row. A random
        graph is recognised at less cost, by the many states that are equally far from the first one.
        """
        n, size, hub = self.states.size, self.chain.r.size, HUB * np.sqrt(self.states.size)
        successors = np.diff(self.rows.ptr)
        if successors.max() <= hub:
            steps, found = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
            exact.search_from(np.arange(size + 1), self.chain, int(self.states[0]), steps, found)
            if np.bincount(steps[steps < size]).max() > hub:
                return self.states, n, float(n)
        row, column = np.repeat(np.arange(n), successors), self.rows.column
        near = (np.bincount(column, minlength=n)[column] <= hub) & (successors[row] <= hub)
        graph = csr_array((np.ones(near.sum()), (row[near], column[near])), shape=(n, n))
        order: Ints = reverse_cuthill_mckee(graph, symmetric_mode=False).astype(np.int64)
        place = np.empty(n, dtype=np.int64)
        place[order] = np.arange(n)
        length = np.abs(place[row] - place[column])
        return order, int(length.max(initial=0)), float(length[near].mean()) if near.any() else 0.0

    def _sweep(self, cost: Floats, accuracy: float, most: int) -> Floats:
        """The solution by value iteration, where all that is outside is one more state, which pays nothing.

        A residual ρ leaves an error of at most ρ max τ, with τ the expected steps until the states are left. Once the
        residual of τ itself is below 1/2, τ is at most twice the iterate.
        """
        entries, row = gather(self.chain.next_ptr, self.states)
        ptr = np.searchsorted(row, np.arange(self.states.size + 1)) + 1
        ptr, state = np.append(0, ptr), np.append(0, self.place[self.chain.next_state[entries]] + 1)
        outside = Table(ptr, state, np.append(1.0, self.chain.p[entries]), np.append(0.0, np.ones(self.states.size)))
        longest = 2 * sweep(outside, 0.5, most)[2].max()
        x = np.empty_like(cost)
        for c in range(len(cost)):
            close = max(accuracy / longest, 1e-15 * longest * np.abs(cost[c]).max())
            x[c] = sweep(outside._replace(r=np.append(0.0, cost[c])), close, most)[2][1:]
        self.accuracy = accuracy
        return x


def sweep(chain: Table, accuracy: float, most: int) -> tuple[float, float, Floats]:
    """Bounds on the gain of a chain with one recurrent class, as close as `accuracy`, and its bias up to a constant."""
    v = np.zeros(chain.r.size)
    lower, upper, _ = exact.relative_values(chain, DAMPING, accuracy, most, v)
    if not upper - lower <= accuracy:
        raise NotConverged(RARELY)
    return lower, upper, v


def finite(x: Floats) -> Floats:
    """`x`, unless it holds times or values that no double can."""
    if not np.isfinite(x).all():
        raise NotConverged(BEYOND)
    return x
