"""Exploration bonuses: how far estimates p̂ v of a row may be off.

Row m has N visits; L is `bonus.log[m]`. `top` is r_max, so that values lie in [0, H top].
"""

import math

from surefooted.arrays import Floats
from surefooted.kernels.compile import inlined
from surefooted.kernels.structs import BonusTerms, Estimates

FIXED_BONUS, FREEDMAN_BONUS, EULER_BONUS = range(3)  # kinds of `BonusTerms`


@inlined
def mean_next(estimates: Estimates, m: int, v: Floats) -> float:
    """The empirical p̂ v of a row that was visited."""
    total: float = 0.0
    for j in range(estimates.next_ptr[m], estimates.next_ptr[m + 1]):
        total += estimates.next_count[j] * v[estimates.next_state[j]]
    return total / float(estimates.visits[m])


@inlined
def variance_next(estimates: Estimates, m: int, mean: float, v: Floats) -> float:
    """The empirical variance of v under the row's p̂."""
    total: float = 0.0
    for j in range(estimates.next_ptr[m], estimates.next_ptr[m + 1]):
        deviation = v[estimates.next_state[j]] - mean
        total += estimates.next_count[j] * deviation * deviation
    return total / float(estimates.visits[m])


@inlined
def freedman_bonus(
    estimates: Estimates, bonus: BonusTerms, m: int, h: int, mean: float, top: float, values: Floats
) -> float:
    """Azar et al. (2017), Alg. 4, for row m at stage h; `mean` is p̂ v of `values[h + 1]`.

    b = sqrt(8 L Var(v) / N) + 14 H L / (3 N) + sqrt(8 / N sum_y p̂(y) min(100² H³ S² A L² / N'(y), H²)), N'(y) the
    visits of y at stage h + 1, `bonus.stage_visits`. At the last stage nothing follows, and b is 0.
    """
    horizon, n_states = len(values) - 1, values.shape[1]
    if h == horizon - 1:
        return 0.0
    n, log, reach, rest = float(estimates.visits[m]), float(bonus.log[m]), horizon * top, 0.0
    spread = 1e4 * horizon * reach * reach * n_states * n_states * bonus.n_actions * log * log
    variance = variance_next(estimates, m, mean, values[h + 1])
    for j in range(estimates.next_ptr[m], estimates.next_ptr[m + 1]):
        after = bonus.stage_visits[h + 1, estimates.next_state[j]]
        most = reach * reach
        if after > 0:
            most = min(most, spread / after)
        rest += estimates.next_count[j] / n * most
    return math.sqrt(8 * log * variance / n) + 14 * reach * log / (3 * n) + math.sqrt(8 * rest / n)


@inlined
def euler_bonus(
    estimates: Estimates, bonus: BonusTerms, m: int, h: int, mean: float, top: float, v: Floats, upper: Floats
) -> float:
    """EULER's φ(v) + sqrt(2 L / N) |upper - lower|_{2, p̂} for row m at stage h; `mean` is p̂ v.

    φ(v) = sqrt(2 L Var(v) / N) + 3 H L / N, with H the stages that are left. `upper` [H + 1, S] and `bonus.lower` are
    the two bounds on V*, and v [S] is one of them at stage h + 1.
    """
    n, x, gap, ahead = float(estimates.visits[m]), float(bonus.log[m]), 0.0, (len(upper) - 2 - h) * top
    variance = variance_next(estimates, m, mean, v)
    for j in range(estimates.next_ptr[m], estimates.next_ptr[m + 1]):
        y = estimates.next_state[j]
        gap += estimates.next_count[j] / n * (upper[h + 1, y] - bonus.lower[h + 1, y]) ** 2
    return math.sqrt(2 * x / n) * (math.sqrt(variance) + math.sqrt(gap)) + 3 * ahead * x / n
