"""The Markov chain that a policy makes of an MDP: its structure, gain, bias and stationary distribution.

Small blocks are solved by eliminating states, which is exact to rounding whatever the mixing, and so are large ones
whose states can stand in a line with short steps; other large ones by iteration to a stated accuracy, and by
elimination after all when they mix too slowly for that.
"""

from contextlib import suppress
from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple

import numpy as np

from surefooted.errors import InvalidInput, NotConverged
from surefooted.kernels import exact, narrow
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints

DIRECT = 600  # a block of at most so many states is eliminated at once
NARROW = 100  # sweeps over a larger block that eliminating its states in line may cost
FALLBACK = 6000  # and of at most so many when iteration is too slow (up to 576 MB at 6 000 states)
PATIENCE = 20_000  # sweeps before iteration counts as too slow
SWEEPS = 2_000_000  # sweeps before a block too large to eliminate is given up
BEYOND = "some states are left so rarely that the time it takes is beyond the range of doubles"
WIDE = "these states do not stand in a line with short steps"
DAMPING = 0.9  # the share of a real step in the aperiodic chain of the same gain and bias


def is_small(n: int) -> bool:
    """Whether a block of n states is eliminated at once, exactly."""
    return n <= DIRECT


@dataclass(frozen=True)
class Chain:
    """Rows over states; a successor may be listed twice."""

    next_ptr: Ints  # [S + 1]
    next_state: Ints  # [nnz]
    p: Floats  # [nnz]
    r: Floats  # [S], the mean reward of a step from each state

    @property
    def n_states(self) -> int:
        """S."""
        return self.r.size

    def block(self, states: Ints) -> "Chain":
        """The rows of `states`, restricted to `states` and renumbered in their order; what leaves is dropped."""
        local = np.full(self.n_states, -1)
        local[states] = np.arange(states.size)
        entries, row = _gather(self.next_ptr, states)
        inside = local[self.next_state[entries]] >= 0
        entries, row = entries[inside], row[inside]
        ptr = np.searchsorted(row, np.arange(states.size + 1)).astype(np.int64)
        return Chain(ptr, local[self.next_state[entries]], self.p[entries], self.r[states])

    def times(self, v: Floats) -> Floats:
        """P v, [S]."""
        q = np.empty(self.n_states)
        exact.backup_pairs(self.next_ptr, self.next_state, self.p, np.zeros(self.n_states), v, q)
        return q


def induced_chain(mdp: TabularMDP, policy: Policy) -> Chain:
    """The chain of a stationary policy."""
    if policy.space != mdp.space:
        raise InvalidInput("policy and MDP do not fit", [f"policy on {policy.space}, MDP on {mdp.space}"])
    if policy.horizon is not None:
        fault = f"the policy has {policy.horizon} decision rules: only a stationary policy has a gain"
        raise InvalidInput("policy and MDP do not fit", [fault])
    if policy.pair is not None:
        entries, row = _gather(mdp.next_ptr, policy.pair)
        ptr = np.searchsorted(row, np.arange(mdp.n_states + 1)).astype(np.int64)
        return Chain(ptr, mdp.next_state[entries], mdp.p[entries], mdp.r[policy.pair])
    weights = policy.dense_weights
    played = np.flatnonzero(weights)
    entries, row = _gather(mdp.next_ptr, played)
    state = mdp.space.pair_state[played]
    ptr = np.searchsorted(state[row], np.arange(mdp.n_states + 1)).astype(np.int64)
    r = np.add.reduceat(weights * mdp.r, mdp.space.pair_ptr[:-1])
    return Chain(ptr, mdp.next_state[entries], mdp.p[entries] * weights[played][row], r)


@dataclass(frozen=True)
class Structure:
    """The recurrent classes of a chain, and the states that belong to none."""

    classes: tuple[Ints, ...]  # each class's states, increasing
    transient: Ints


def structure(chain: Chain) -> Structure:
    """The recurrent classes: the strongly connected components that cannot be left."""
    component = np.empty(chain.n_states, dtype=np.int64)
    n = exact.strong_components(chain.next_ptr, chain.next_state, component)
    row = np.repeat(np.arange(chain.n_states), np.diff(chain.next_ptr))
    left = component[row] != component[chain.next_state]
    closed = np.ones(n, dtype=bool)
    closed[component[row[left]]] = False
    by_component = np.argsort(component, kind="stable")
    parts = np.split(by_component, np.cumsum(np.bincount(component, minlength=n))[:-1])
    return Structure(tuple(parts[c] for c in np.flatnonzero(closed)), np.flatnonzero(~closed[component]))


class Line(NamedTuple):
    """The states of a block in a line: who stands where, where each stands, and the longest step."""

    order: Ints  # [S]
    position: Ints  # [S]
    reach: int


def _short(block: Chain) -> int:
    """The longest step at which eliminating states in line is worth it."""
    return isqrt(NARROW * block.p.size // block.n_states)


def _line(block: Chain, widest: int | None = None) -> Line:
    """A line found by breadth-first search; NotConverged if it has steps longer than `widest`."""
    n = block.n_states
    widest = n if widest is None else widest
    each, rows = np.arange(n + 1), (block.next_ptr, block.next_state)
    order, position, distance = (np.empty(n, dtype=np.int64) for _ in range(3))
    if narrow.line_up(each, *rows, 0, 2 * widest, order, position, distance) > 2 * widest:
        raise NotConverged(WIDE)
    reach = narrow.line_up(each, *rows, order[-1], widest, order, position, distance)
    if reach > widest:
        raise NotConverged(WIDE)
    return Line(order, position, reach)


def _hit(chain: Chain, line: Line, home: int, cost: Floats) -> tuple[Floats, Floats]:
    """What is paid until `home` is hit [n, m], for `cost` [n, m] a step, and how often each state is seen [n]."""
    n = chain.n_states
    total, visits = cost[line.order], np.empty(n)
    scratch = (np.empty(n * (2 * line.reach + 1)), np.empty(n), np.empty(n))
    rows = (chain.next_ptr, chain.next_state, chain.p)
    if not narrow.eliminate_in_line(*rows, home, *line, *scratch, total, visits):
        raise NotConverged(BEYOND)  # a probability that is 0 to a double
    return _finite(total[line.position]), _finite(visits[line.position])


@dataclass(frozen=True)
class Class:
    """A recurrent class solved: its gain, bias (stationary mean 0) and stationary distribution, over its states."""

    gain: float
    bias: Floats
    stationary: Floats
    accuracy: float  # how far off the gain may be, beyond rounding


def solve_class(block: Chain, accuracy: float) -> Class:
    """The gain and bias of an irreducible chain, periodic or not."""
    n = block.n_states
    if not is_small(n):
        with suppress(NotConverged):  # wide, or beyond doubles
            return _eliminate(block, _line(block, _short(block)))
        found = _iterate(block, accuracy, PATIENCE if n <= FALLBACK else SWEEPS)
        if found is not None:
            return found
        if n > FALLBACK:
            raise NotConverged(
                f"the gain of a recurrent class of {n} states is not within {accuracy:g} after {SWEEPS} sweeps, and "
                f"the class is too large to eliminate (more than {FALLBACK} states); ask for a larger accuracy"
            )
    return _eliminate(block, _line(block))


def _eliminate(block: Chain, line: Line) -> Class:
    """The same by eliminating states: once for the stationary distribution, once for the bias."""
    nothing = np.zeros((block.n_states, 1))
    visits = _hit(block, line, int(line.order[0]), nothing)[1]
    d = visits / visits.sum()
    home = int(np.argmax(d))  # the state seen most often: no other is far from it for long
    above = block.r - block.r[home]  # relative to it, equal rewards cost exactly nothing
    excess = float(d @ above)
    bias = _hit(block, line, home, (above - excess)[:, None])[0][:, 0]
    bias[home] = 0.0
    return Class(float(block.r[home]) + excess, bias - d @ bias, d, 0.0)


def _iterate(block: Chain, accuracy: float, most: int) -> Class | None:
    """The same by value iteration, or None when `most` sweeps do not reach the accuracy."""
    rows = (block.next_ptr, block.next_state, block.p)
    bias, d = np.zeros(block.n_states), np.full(block.n_states, 1.0 / block.n_states)
    lower, upper, _ = exact.relative_values(*rows, block.r, DAMPING, accuracy, most, bias)
    if not upper - lower <= accuracy:
        return None
    if exact.stationary(*rows, DAMPING, min(accuracy, 1e-9), most, d) < 0:
        return None
    gain = min(max(float(d @ block.r), lower), upper)
    return Class(gain, bias - d @ bias, d, upper - lower)


def solve_transient(chain: Chain, transient: Ints, cost: Floats, accuracy: float) -> Floats:
    """The x [n, m] with x = cost + P x over the transient states, everything outside counting as 0."""
    n, m = cost.shape
    block = chain.block(transient)
    if not is_small(n):
        with suppress(NotConverged):  # wide, or beyond doubles
            return _leave(chain, transient, _line(block, _short(block)), cost)
        total = np.zeros((n, m))
        rows = (block.next_ptr, block.next_state, block.p)
        most = PATIENCE if n <= FALLBACK else SWEEPS
        if exact.absorb(*rows, cost, accuracy, most, total) >= 0:
            return total
        if n > FALLBACK:
            raise NotConverged(f"{n} transient states are not solved to {accuracy:g} after {SWEEPS} sweeps")
    return _leave(chain, transient, _line(block), cost)


def _leave(chain: Chain, transient: Ints, line: Line, cost: Floats) -> Floats:
    """The same by eliminating states, until all that is outside is hit, as one more state at the end of the line."""
    n, m = cost.shape
    local = np.full(chain.n_states, n)
    local[transient] = np.arange(n)
    entries, row = _gather(chain.next_ptr, transient)
    ptr = np.searchsorted(row, np.arange(n + 1)).astype(np.int64)
    rows = (
        np.append(ptr, ptr[-1] + 1),
        np.append(local[chain.next_state[entries]], n),
        np.append(chain.p[entries], 1.0),
    )
    ends = Line(np.append(line.order, n), np.append(line.position, n), line.reach)
    return _hit(Chain(*rows, np.zeros(n + 1)), ends, n, np.vstack([cost, np.zeros((1, m))]))[0][:-1]


def _finite(total: Floats) -> Floats:
    """`total`, unless it holds times or values that no double can."""
    if not np.isfinite(total).all():
        raise NotConverged(BEYOND)
    return total


def _gather(ptr: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """The entries of the given CSR rows, one after the other, and the position in `rows` that each belongs to."""
    sizes = ptr[rows + 1] - ptr[rows]
    row = np.repeat(np.arange(rows.size), sizes)
    offset = np.arange(row.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return ptr[rows][row] + offset, row
