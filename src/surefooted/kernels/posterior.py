"""Posteriors of mean rewards and of rows, given random numbers that were drawn before; see `sets.posterior`."""

from typing import NamedTuple

from surefooted.arrays import Floats, Ints
from surefooted.kernels.compile import njit
from surefooted.kernels.intervals import Sums
from surefooted.kernels.structs import Table


class NewStates(NamedTuple):
    """What each row gives to states that are not among its successors: the share `split` of it to `state`.

    The rest goes to one state that all rows have in common.
    """

    weight: Floats  # [rows]
    split: Floats  # [rows]
    state: Ints  # [rows]
    common: int


@njit
def reward_posterior(sums: Sums, r_max: float, a: Floats, b: Floats) -> None:
    """The parameters `a` and `b` [rows] of the Beta posterior of each mean reward, in units of r_max.

    The prior alone makes the variance at least 1 / (4 n). Rewards outside [0, r_max] make no posterior wider than the
    prior, and leave no mean outside.
    """
    for k in range(len(a)):
        n = sums.visits[k] + 1.0
        mean = (min(max(sums.reward[k] / r_max, 0.0), n - 1.0) + 0.5) / n
        variance = max((sums.square[k] / (r_max * r_max) + 0.5) / n - mean * mean, 0.25 / n)
        size = max((n + 1.0) * mean * (1.0 - mean) / variance - 1.0, 1.0)
        a[k], b[k] = size * mean, size * (1.0 - mean)


@njit
def mix_rows(next_ptr: Ints, next_state: Ints, weight: Floats, new: NewStates, drawn: Table) -> None:
    """The rows of `drawn`: each successor has its `weight` [nnz], then come the two new states; all divided by the sum.

    Row k of `drawn` begins at next_ptr[k] + 2 k.
    """
    end = 0
    drawn.next_ptr[0] = 0
    for k in range(len(next_ptr) - 1):
        total = new.weight[k]
        for j in range(next_ptr[k], next_ptr[k + 1]):
            total += weight[j]
        for j in range(next_ptr[k], next_ptr[k + 1]):
            drawn.next_state[end], drawn.p[end] = next_state[j], weight[j] / total
            end += 1
        rest = new.weight[k] / total
        drawn.next_state[end], drawn.p[end] = new.state[k], rest * new.split[k]
        drawn.next_state[end + 1], drawn.p[end + 1] = new.common, rest * (1.0 - new.split[k])
        end += 2
        drawn.next_ptr[k + 1] = end
