"""What a policy collects until it hits a state, at worst or at best over a set of plausible MDPs."""

from typing import NamedTuple

from surefooted.arrays import Floats
from surefooted.kernels.bellman import add_mean
from surefooted.kernels.compile import allocating
from surefooted.kernels.rows import Rows
from surefooted.kernels.sorting import workspace
from surefooted.kernels.structs import Mixture
from surefooted.kernels.value_iteration import freeze, step_back

PLAIN_SWEEPS = 10  # before frozen sweeps help
FROZEN_SWEEPS = 100  # frozen sweeps after each of the others


class Limits(NamedTuple):
    """When to end: no entry moves by more than `tolerance`, after `sweeps` sweeps, or if one is beyond `largest`."""

    tolerance: float
    sweeps: int
    largest: float


@allocating
def collect_until_hit(
    mixture: Mixture, rows: Rows, r: Floats, sign: float, target: int, limits: Limits, v: Floats
) -> tuple[float, int]:
    """`v` [S], a guess, becomes about the extreme expected sum of `r` before `target` is hit; its error, sweeps made.

    The largest sum for sign +1, the smallest for -1. v[target] must be 0 and stays so. With the error e >= 0, every
    plausible row has r + p v <= v + e in every state but the target (>= v - e for sign -1), whether or not the
    iteration has settled. After some sweeps, the worst rows are kept for several cheaper ones (modified policy
    iteration).
    """
    n, sweep, work = len(v), 0, workspace(len(v))
    while True:
        step_back(mixture, rows, r, sign, work, v)
        sweep += 1
        error, moved, largest = 0.0, 0.0, 0.0
        for s in range(n):
            if s != target:
                error, moved = max(error, sign * work.change[s]), max(moved, abs(work.change[s]))
                largest = max(largest, abs(v[s]))
        if moved <= limits.tolerance or sweep >= limits.sweeps or largest > limits.largest:
            return error, sweep
        if sweep <= PLAIN_SWEEPS:
            for s in range(n):
                v[s] += work.change[s] if s != target else 0.0
            continue
        chain = freeze(mixture, rows, r, work, n)
        for _ in range(FROZEN_SWEEPS):
            moved = 0.0
            for s in range(n):
                if s != target:
                    after = add_mean(chain.r[s], chain.next_ptr[s], chain.next_ptr[s + 1], chain.next_state, chain.p, v)
                    moved = max(moved, abs(after - v[s]))
                    v[s] = after
            if moved <= limits.tolerance / 2:
                break
