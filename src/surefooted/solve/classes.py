"""Recurrent classes of a chain: gain, bias and stationary distribution, by cycles from a state that is seen often."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from surefooted.errors import NotConverged
from surefooted.kernels import chains
from surefooted.kernels.structs import Table
from surefooted.solve.chain import gather
from surefooted.solve.systems import DAMPING, RARELY, System, sweep
from surefooted.tables.space import Floats, Ints

OFTEN = 0.01  # of the visits to the state seen most often are enough for a state to measure from
SETTLED = 1e-13  # the change of a distribution (L1) in a step at which sweeps end


@dataclass(frozen=True)
class Class:
    """A recurrent class solved: its gain and bias (of stationary mean 0) over its states."""

    gain: float
    bias: Floats
    accuracy: float  # how far off the gain may be, beyond rounding


class Cycles:
    """At least two states that all lead to `home`, one of them, and are left for no others: as cycles from home."""

    def __init__(self, chain: Table, states: Ints, home: int) -> None:
        self.home, self.system = home, System(chain, states[states != home])
        self.others = self.system.states
        first, last = chain.next_ptr[home : home + 2]
        place = self.system.place[chain.next_state[first:last]]
        self.entry = np.zeros(self.others.size)  # [n - 1], where a cycle goes first
        np.add.at(self.entry, place[place >= 0], chain.p[first:last][place >= 0])

    @cached_property
    def steps(self) -> Floats:
        """Expected steps until home is reached, [n - 1]."""
        steps: Floats = self.system.direct(np.ones((1, self.others.size)))[0]
        return steps

    def visits(self) -> Floats:
        """Expected visits [S] to each state during a cycle, up to a factor; 0 outside."""
        visits = np.zeros(self.system.place.size)
        visits[self.others], visits[self.home] = self.system.visits(self.entry)
        return visits

    def mean(self, above: Floats) -> float:
        """The stationary mean of values [n - 1] that are relative to home's: their sum over a cycle by its length."""
        return float(self.entry @ self.system.direct(above[None])[0] / (1.0 + self.entry @ self.steps))

    def evaluate(self, r: Floats) -> tuple[float, Floats]:
        """The gain of rewards r [S], and the bias [S], which is 0 at home and outside the class."""
        above = r[self.others] - r[self.home]  # so that equal rewards make no difference at all
        excess, bias = self.mean(above), np.zeros(r.size)
        relative = self.system.direct((above - excess)[None])[0]
        rounding = (self.entry @ relative - excess) / (1.0 + self.entry @ self.steps)  # of the gain, over a whole cycle
        bias[self.others] = relative - rounding * self.steps
        return float(r[self.home] + excess + rounding), bias


def _cycles(chain: Table, states: Ints) -> Cycles:
    """Cycles from the end of a walk: probably a state that is seen often."""
    return Cycles(chain, states, chains.walk(chain, int(states[0]), states.size))


def _seen_often(cycles: Cycles, chain: Table, states: Ints) -> tuple[Cycles, Floats]:
    """Cycles from a state that is seen often, the same if possible, and the visits [S] to all, up to a factor."""
    visits = cycles.visits()
    if visits[cycles.home] < OFTEN * visits.max():
        cycles = Cycles(chain, states, int(np.argmax(visits)))
        visits = cycles.visits()
    return cycles, visits


def _closed(chain: Table, states: Ints) -> Table:
    """The rows of a class, with its states renumbered in their order."""
    place = np.empty(chain.r.size, dtype=np.int64)
    place[states] = np.arange(states.size)
    entries, row = gather(chain.next_ptr, states)
    ptr = np.searchsorted(row, np.arange(states.size + 1)).astype(np.int64)
    return Table(ptr, place[chain.next_state[entries]], chain.p[entries], chain.r[states])


def solve_class(chain: Table, states: Ints, accuracy: float) -> Class:
    """The gain and bias of a recurrent class, periodic or not: the gain within `accuracy` if sweeps find it."""
    if states.size == 1:
        return Class(float(chain.r[states[0]]), np.zeros(1), 0.0)
    cycles = _cycles(chain, states)

    def direct() -> Class:
        home, _ = _seen_often(cycles, chain, states)
        gain, bias = home.evaluate(chain.r)
        return Class(gain, bias[states] - home.mean(bias[home.others]), 0.0)

    def swept(most: int) -> Class:
        block = _closed(chain, states)
        lower, upper, bias = sweep(block, accuracy, most)
        mean = np.mean(sweep(block._replace(r=bias), accuracy, most)[:2])
        return Class((lower + upper) / 2, bias - mean, upper - lower)

    return cycles.system.attempt(direct, swept)


def class_distribution(chain: Table, states: Ints) -> Floats:
    """The long-run share of time in each state of a recurrent class, [n]."""
    if states.size == 1:
        return np.ones(1)
    cycles = _cycles(chain, states)

    def direct() -> Floats:
        visits = _seen_often(cycles, chain, states)[1][states]
        visits /= visits.sum()
        return visits

    def swept(most: int) -> Floats:
        block = _closed(chain, states)
        backwards = csr_array((block.p, block.next_state, block.next_ptr), shape=(states.size, states.size)).T.tocsr()
        d = np.full(states.size, 1.0 / states.size)
        for _ in range(most):
            change = backwards @ d - d
            d += DAMPING * change
            d /= d.sum()
            if np.abs(change).sum() <= SETTLED:
                return d
        raise NotConverged(RARELY)

    return cycles.system.attempt(direct, swept)
