"""How long one solve of extended value iteration takes, beside other implementations and the machine's limit.

`python benchmarks/evi.py dense full` runs the cases with one of these words in their names.

To 1e-3, 50 samples per pair (100 of a tenth of them); cold from zeros, warm from the solution before that tenth had its
other 50. Gains are checked equal to 1e-3 first. README.md says what the sets and the columns are.
"""

import sys
from copy import copy
from typing import Any

import numba
import numpy as np
from cases import Case, Sampled, fresh, full, ring, scattered
from measure import Table, at_once, bandwidth, machine, number, race, ratio, timed

from surefooted import planning

EPSILON = 1e-3
DENSE = 2e9  # bytes: beyond this, no dense copy is made
MANY = 5_000  # states: from here on, the sparse peer is left out
SMALL = 5e7  # bytes: what is larger is in no cache, and not copied for each round
PATIENCE = 4.0  # seconds: what would take longer with NumPy is told by one sweep
LONG = 8.0  # seconds: after a cold start that took the compiled peer longer, it is spared the warm one
SUMS = {"reassoc", "contract", "nsz"}  # lets the compiler sum in any order, which is faster

CASES = [
    scattered(7, 7, 7),
    scattered(121, 4, 121),
    scattered(500, 4, 500),
    full(121, 4),
    full(500, 4),
    scattered(121, 4),
    scattered(500, 10),
    scattered(1_000, 10),
    ring(121, 4),
    ring(500, 10),
    ring(1_000, 10),
    scattered(10_000, 10),
]
LARGEST = (100_000, 10)


class Dense:
    """A set of plausible MDPs as dense arrays: centre or low [S A, S], room [S A, S] of boxes, width [S A] of balls."""

    def __init__(self, case: Case, plausible: Any) -> None:
        k, n = len(case.r), case.n_states
        pair = np.repeat(np.arange(k), np.diff(plausible.next_ptr))
        self.low = np.zeros((k, n))
        self.low[pair, plausible.next_state] = plausible.p_lower
        self.r, self.n_actions, self.width = plausible.r_upper.copy(), case.n_actions, plausible.width
        self.room = np.zeros((0, 0))
        if self.width is None:
            self.room = np.repeat(plausible.unseen[:, None], n, axis=1)
            self.room[pair, plausible.next_state] = plausible.p_upper - plausible.p_lower


def anew(dense: Dense) -> Dense:
    """A copy, as ours gets one too: what was read last is in the processor's caches."""
    other = copy(dense)
    if dense.low.nbytes < SMALL:
        other.low, other.room = dense.low.copy(), dense.room.copy()
    return other


@numba.njit(cache=True, fastmath=SUMS)
def sweep_balls(low, width, r, n_actions, v, new):
    """Jaksch et al. (2010), Figure 2, for every pair: O(S) each, the order of the states found once."""
    n = len(v)
    order = np.argsort(-v)
    best = order[0]
    for s in range(n):
        new[s] = -np.inf
        for k in range(s * n_actions, (s + 1) * n_actions):
            row = low[k]
            mass = min(1.0, row[best] + width[k] / 2)
            rest = mass - row[best]
            value = (mass - row[best]) * v[best]
            for y in range(n):
                value += row[y] * v[y]
            i = n - 1
            while rest > 1e-15 and i > 0:
                moved = min(row[order[i]], rest)
                value -= moved * v[order[i]]
                rest -= moved
                i -= 1
            new[s] = max(new[s], r[k] + value)


@numba.njit(cache=True, fastmath=SUMS)
def sweep_boxes(low, room, r, n_actions, v, new):
    """The same for boxes: every state gets its lower bound, and the rest of the mass goes to the best ones."""
    n = len(v)
    order = np.argsort(-v)
    for s in range(n):
        new[s] = -np.inf
        for k in range(s * n_actions, (s + 1) * n_actions):
            row, spare = low[k], room[k]
            value, rest = 0.0, 1.0
            for y in range(n):
                value += row[y] * v[y]
                rest -= row[y]
            for y in order:
                moved = min(spare[y], rest)
                value += moved * v[y]
                rest -= moved
                if rest <= 1e-15:
                    break
            new[s] = max(new[s], r[k] + value)


@numba.njit(cache=True, fastmath=SUMS)
def sweep_sparse_balls(ptr, state, low, room, width, r, n_actions, v, new):
    """`sweep_balls` over stored successors only, each row sorted by insertion."""
    best, own = np.argmax(v), np.empty(len(v), dtype=np.int64)
    for s in range(len(v)):
        new[s] = -np.inf
        for k in range(s * n_actions, (s + 1) * n_actions):
            value, kept, n = 0.0, 0.0, 0
            for j in range(ptr[k], ptr[k + 1]):
                y = state[j]
                value += low[j] * v[y]
                if y == best:
                    kept = low[j]
                    continue
                i = n
                while i > 0 and v[state[own[i - 1]]] > v[y]:
                    own[i] = own[i - 1]
                    i -= 1
                own[i] = j
                n += 1
            rest = min(width[k] / 2, 1.0 - kept)
            value += rest * v[best]
            for i in range(n):
                moved = min(low[own[i]], rest)
                value -= moved * v[state[own[i]]]
                rest -= moved
                if rest <= 1e-15:
                    break
            new[s] = max(new[s], r[k] + value)


@numba.njit(cache=True, fastmath=SUMS)
def sweep_sparse_boxes(ptr, state, low, room, width, r, n_actions, v, new):
    """`sweep_boxes` over stored successors only, if no others are possible."""
    own = np.empty(len(v), dtype=np.int64)
    for s in range(len(v)):
        new[s] = -np.inf
        for k in range(s * n_actions, (s + 1) * n_actions):
            value, rest, n = 0.0, 1.0, 0
            for j in range(ptr[k], ptr[k + 1]):
                y = state[j]
                value += low[j] * v[y]
                rest -= low[j]
                i = n
                while i > 0 and v[state[own[i - 1]]] < v[y]:
                    own[i] = own[i - 1]
                    i -= 1
                own[i] = j
                n += 1
            for i in range(n):
                moved = min(room[own[i]], rest)
                value += moved * v[state[own[i]]]
                rest -= moved
                if rest <= 1e-15:
                    break
            new[s] = max(new[s], r[k] + value)


class Sparse:
    """The same set as stored successors; of boxes only if no others are possible."""

    def __init__(self, case: Case, plausible: Any) -> None:
        self.is_boxes, self.n_actions, self.r = plausible.width is None, case.n_actions, plausible.r_upper.copy()
        self.fits = not self.is_boxes or not np.any(plausible.unseen)
        width = np.zeros(0) if self.is_boxes else plausible.width
        successors = plausible.next_ptr, plausible.next_state, plausible.p_lower
        self.arrays = (*successors, plausible.p_upper - plausible.p_lower, width)


def sparse_sweep(sparse: Sparse, v: Any) -> Any:
    new = np.empty(len(v))
    one = sweep_sparse_boxes if sparse.is_boxes else sweep_sparse_balls
    one(*sparse.arrays, sparse.r, sparse.n_actions, v, new)
    return new


def compiled_sweep(dense: Dense, v: Any) -> Any:
    new = np.empty(len(v))
    if dense.width is None:
        sweep_boxes(dense.low, dense.room, dense.r, dense.n_actions, v, new)
    else:
        sweep_balls(dense.low, dense.width, dense.r, dense.n_actions, v, new)
    return new


def numpy_sweep(dense: Dense, v: Any) -> Any:
    """The same with arrays of all pairs at once."""
    order = np.argsort(-v)
    if dense.width is None:
        slack = 1.0 - dense.low.sum(axis=1, keepdims=True)
        spare = dense.room[:, order]
        filled = np.minimum(np.cumsum(spare, axis=1), slack)
        moved = np.diff(filled, axis=1, prepend=0.0)
        value = dense.low @ v + moved @ v[order]
    else:
        best, back = order[0], order[:0:-1]
        gained = np.minimum(dense.width / 2, 1.0 - dense.low[:, best])
        taken = np.minimum(np.cumsum(dense.low[:, back], axis=1), gained[:, None])
        value = dense.low @ v + gained * v[best] - np.diff(taken, axis=1, prepend=0.0) @ v[back]
    return (dense.r + value).reshape(len(v), -1).max(axis=1)


def iterate(sweep: Any, dense: Dense, start: Any) -> tuple[float, int]:
    """Value iteration with one of these sweeps: the gain, and how many it took."""
    v, sweeps = start, 0
    while True:
        new = sweep(dense, v)
        change, sweeps = new - v, sweeps + 1
        if np.ptp(change) <= EPSILON:
            return float((change.max() + change.min()) / 2), sweeps
        v = new - new[0]


def row_bytes(plausible: Any) -> int:
    """What one sweep must read at the least: successor and probability (two of them for boxes), and 24 per pair."""
    each = 24 if plausible.width is None else 16
    return each * plausible.next_state.size + 24 * plausible.r_upper.size


def compare(table: Table, case: Case) -> None:
    sampled = Sampled(case)
    before = {"L1": sampled.balls(), "boxes": sampled.boxes()}
    sampled.visit_some()
    for name, make in (("L1", sampled.balls), ("boxes", sampled.boxes)):
        plausible = make()
        warm = planning.optimistic_gain(before.pop(name), EPSILON).bias
        size = len(case.r) * case.n_states * 8 * (2 if name == "boxes" else 1)
        dense = Dense(case, plausible) if size <= DENSE else None
        rate = bandwidth(row_bytes(plausible))
        for temperature, start in (("cold", np.zeros(case.n_states)), ("warm", warm)):
            what = (case.name, name, temperature)
            took = one_case(table, what, case, plausible, dense, start, size, rate)
            dense = None if took > LONG else dense


def one_case(
    table: Table, what: Any, case: Case, plausible: Any, dense: Any, start: Any, size: float, rate: float
) -> float:
    """A row of the table; comes back with the seconds of the compiled peer."""
    plan = planning.optimistic_gain(plausible, EPSILON, start)

    def get_ready() -> Any:
        copy = fresh(plausible)
        return lambda: planning.optimistic_gain(copy, EPSILON, start)

    def get_dense() -> Any:
        copied = anew(dense)
        return lambda: iterate(compiled_sweep, copied, start)

    contestants, cells, seconds = {"ours": get_ready}, {}, {}
    sweeps: Any = "-"
    sparse = Sparse(case, plausible)
    if sparse.fits and case.n_states < MANY:
        equal("sparse", what, iterate(sparse_sweep, sparse, start)[0], plan.gain)
        contestants["sparse"] = at_once(lambda: iterate(sparse_sweep, sparse, start))
    else:
        cells["sparse"] = "-"
    if dense is None:
        cells |= dict.fromkeys(("compiled", "numpy"), f"{size / 1e9:.0f} GB" if size > DENSE else "-")
    else:
        (gain, sweeps), seconds["compiled"] = timed(lambda: iterate(compiled_sweep, dense, start))
        equal("compiled", what, gain, plan.gain)
        if seconds["compiled"] < PATIENCE:
            contestants["compiled"] = get_dense
        one = race({"sweep": at_once(lambda: numpy_sweep(dense, start))}, rounds=2)["sweep"]
        if not np.allclose(numpy_sweep(dense, start), compiled_sweep(dense, start), atol=1e-9):
            raise SystemExit(f"{what}: NumPy's sweep disagrees")
        if one * sweeps < PATIENCE:
            equal("numpy", what, iterate(numpy_sweep, dense, start)[0], plan.gain)
            contestants["numpy"] = at_once(lambda: iterate(numpy_sweep, dense, start))
        else:
            seconds["numpy"], cells["numpy"] = one * sweeps, f"~{number(one * sweeps)}"
    seconds |= race(contestants)
    ours, limit = seconds["ours"], row_bytes(plausible) * plan.sweeps / rate
    them = []
    for name in ("sparse", "compiled", "numpy"):
        them += [cells.get(name) or seconds[name], ratio(seconds.get(name), ours)]
    table.row(*what, plan.sweeps, sweeps, ours, *them, limit, f"{ours / limit:.1f}x")
    return seconds.get("compiled", 0.0)


def equal(who: str, what: Any, theirs: float, ours: float) -> None:
    if abs(theirs - ours) > EPSILON:
        raise SystemExit(f"{what}: {who} finds the gain {theirs}, ours is {ours}")


def main() -> None:
    print(machine())
    small = Sampled(scattered(7, 7, 7))
    for plausible in (small.balls(), small.boxes()):  # compile
        compiled_sweep(Dense(small.case, plausible), np.zeros(7))
    words = sys.argv[1:]
    columns = (("case", 11), ("set", 6), ("start", 5), ("sweeps", 6), ("plain", 5), ("ours s", 8))
    others = (
        ("sparse s", 8),
        ("ratio", 7),
        ("compiled s", 10),
        ("ratio", 7),
        ("NumPy s", 8),
        ("ratio", 7),
        ("limit s", 8),
        ("ours/limit", 10),
    )
    table = Table(*columns, *others)
    for case in CASES:
        if not words or any(word in case.name for word in words):
            compare(table, case)
    if not words:
        compare(table, scattered(*LARGEST))


if __name__ == "__main__":
    main()
