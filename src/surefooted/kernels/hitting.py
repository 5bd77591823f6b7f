"""What a policy collects until it hits a state, at worst or at best over a set of plausible MDPs."""

from surefooted.arrays import Floats
from surefooted.kernels.compile import allocating
from surefooted.kernels.rows import Rows
from surefooted.kernels.sorting import workspace
from surefooted.kernels.structs import Mixture
from surefooted.kernels.value_iteration import step_back


@allocating
def collect_until_hit(
    mixture: Mixture, rows: Rows, r: Floats, sign: float, target: int, tolerance: float, most: int, v: Floats
) -> tuple[float, int]:
    """`v` [S], a guess, becomes about the extreme expected sum of `r` before `target` is hit; its error, sweeps made.

    The largest sum for sign +1, the smallest for -1. v[target] must be 0 and stays so. With the error e >= 0, every
    plausible row has r + p v <= v + e in every state but the target (>= v - e for sign -1), whether or not the
    iteration has settled. It ends when no entry moves by more than `tolerance`, or after `most` sweeps.
    """
    n, sweep, work = len(v), 0, workspace(len(v))
    while True:
        step_back(mixture, rows, r, sign, work, v)
        sweep += 1
        error, moved = 0.0, 0.0
        for s in range(n):
            if s != target:
                error, moved = max(error, sign * work.change[s]), max(moved, abs(work.change[s]))
        if moved <= tolerance or sweep >= most:
            return error, sweep
        for s in range(n):
            v[s] += work.change[s] if s != target else 0.0
