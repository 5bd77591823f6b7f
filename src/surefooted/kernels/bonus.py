"""Compiled backward inductions with exploration bonuses: estimates plus (or minus) what they may be off by.

Rows are those of counts: pair k of stage h is row m = k + h * stride, with visits[m] visits and rewards of mean r[m];
next_count[j] of them led to next_state[j], j in next_ptr[m] .. next_ptr[m + 1] - 1. `top` is r_max; values of stage h
lie in [0, (H - h) top].
"""

import math

import numpy as np
from numpy.typing import NDArray

from surefooted.kernels.compile import njit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@njit
def mean_next(m: int, n: float, next_ptr: Ints, next_state: Ints, next_count: Ints, v: Floats) -> float:
    """The empirical p̂ v of a row visited n > 0 times."""
    total = 0.0
    for j in range(next_ptr[m], next_ptr[m + 1]):
        total += next_count[j] * v[next_state[j]]
    return total / n


@njit
def variance_next(
    m: int, n: float, mean: float, next_ptr: Ints, next_state: Ints, next_count: Ints, v: Floats
) -> float:
    """The empirical variance of v under the row's p̂."""
    total = 0.0
    for j in range(next_ptr[m], next_ptr[m + 1]):
        deviation = v[next_state[j]] - mean
        total += next_count[j] * deviation * deviation
    return total / n


@njit
def bonus_stages(
    pair_ptr: Ints,
    visits: Ints,
    r: Floats,
    next_ptr: Ints,
    next_state: Ints,
    next_count: Ints,
    bonus: Floats,
    stride: int,
    top: float,
    values: Floats,
    pair: Ints,
) -> bool:
    """Optimistic backward induction, Q = r̂ + p̂ v + b: `values` [H + 1, S], greedy `pair` [H, S], whether it changed."""
    changed = False
    for h in range(len(pair) - 1, -1, -1):
        cap = (len(pair) - h) * top
        for s in range(values.shape[1]):
            best, found = -np.inf, -1
            for k in range(pair_ptr[s], pair_ptr[s + 1]):
                m = k + h * stride
                q = cap
                if visits[m] > 0:
                    q = r[m] + bonus[m] + mean_next(m, visits[m], next_ptr, next_state, next_count, values[h + 1])
                    q = min(q, cap)
                if q > best:
                    best, found = q, k
            values[h, s] = best
            if pair[h, s] != found:
                pair[h, s], changed = found, True
    return changed


@njit
def bonus_policy_stages(
    pair_ptr: Ints,
    visits: Ints,
    r: Floats,
    next_ptr: Ints,
    next_state: Ints,
    next_count: Ints,
    bonus: Floats,
    stride: int,
    top: float,
    sign: float,
    pair: Ints,
    weights: Floats,
    values: Floats,
) -> None:
    """Eq. `pess_pe_fh` for one policy: `values` [H + 1, S]; below for sign -1, above for +1.

    Each pair's r̂ + sign b + p̂ v is cut to [0, (H - h) top], where its true value lies. The policy plays `pair` [H, S],
    or if that is empty `weights` [H, K]; one decision rule alone serves all stages.
    """
    for h in range(len(values) - 2, -1, -1):
        cap = (len(values) - 1 - h) * top
        for s in range(values.shape[1]):
            total = 0.0
            for k in range(pair_ptr[s], pair_ptr[s + 1]):
                if len(pair) > 0:
                    weight = 1.0 if pair[min(h, len(pair) - 1), s] == k else 0.0
                else:
                    weight = weights[min(h, len(weights) - 1), k]
                if weight > 0.0:
                    m = k + h * stride
                    q = cap if sign > 0 else 0.0
                    if visits[m] > 0:
                        onward = mean_next(m, visits[m], next_ptr, next_state, next_count, values[h + 1])
                        q = min(max(r[m] + sign * bonus[m] + onward, 0.0), cap)
                    total += weight * q
            values[h, s] = total


@njit
def freedman_stages(
    pair_ptr: Ints,
    visits: Ints,
    r: Floats,
    next_ptr: Ints,
    next_state: Ints,
    next_count: Ints,
    reward_bonus: Floats,
    stage_visits: Ints,
    log: float,
    n_actions: int,
    stride: int,
    top: float,
    q_before: Floats,
    values: Floats,
    pair: Ints,
) -> bool:
    """Azar et al. (2017), Alg. 2 with the bonus of Alg. 4; `q_before` [H, K] are the last Q, which never rise.

    b = sqrt(8 L Var(v) / N) + 14 H L / (3 N) + sqrt(8 / N sum_y p̂(y) min(100² H³ S² A L² / N'(y), H²)), N'(y) the
    visits of y at stage h + 1, `stage_visits` [H, S]; L is `log`. At the last stage nothing follows, and b is 0.
    """
    changed = False
    horizon, n_states = pair.shape
    reach = horizon * top
    spread = 1e4 * horizon * reach * reach * n_states * n_states * n_actions * log * log
    for h in range(horizon - 1, -1, -1):
        cap, v = (horizon - h) * top, values[h + 1]
        for s in range(n_states):
            best, found = -np.inf, -1
            for k in range(pair_ptr[s], pair_ptr[s + 1]):
                m = k + h * stride
                q = cap
                if visits[m] > 0:
                    n = float(visits[m])
                    mean = mean_next(m, n, next_ptr, next_state, next_count, v)
                    b = 0.0
                    if h < horizon - 1:
                        variance = variance_next(m, n, mean, next_ptr, next_state, next_count, v)
                        rest = 0.0
                        for j in range(next_ptr[m], next_ptr[m + 1]):
                            after = stage_visits[h + 1, next_state[j]]
                            most = reach * reach
                            if after > 0:
                                most = min(most, spread / after)
                            rest += next_count[j] / n * most
                        b = math.sqrt(8 * log * variance / n) + 14 * reach * log / (3 * n) + math.sqrt(8 * rest / n)
                    q = min(r[m] + reward_bonus[m] + mean + b, cap)
                q = min(q, q_before[h, k])
                q_before[h, k] = q
                if q > best:
                    best, found = q, k
            values[h, s] = best
            if pair[h, s] != found:
                pair[h, s], changed = found, True
    return changed


@njit
def euler_stages(
    pair_ptr: Ints,
    visits: Ints,
    r: Floats,
    next_ptr: Ints,
    next_state: Ints,
    next_count: Ints,
    reward_bonus: Floats,
    log: Floats,
    stride: int,
    top: float,
    upper: Floats,
    lower: Floats,
    pair: Ints,
) -> bool:
    """EULER's bounds `lower` <= V* <= `upper`, [H + 1, S], greedy `pair` [H, S], and whether it changed.

    Q = r̂ + b_r + p̂ v + φ(v) + sqrt(2 L / N) |upper - lower|_{2, p̂} with φ(v) = sqrt(2 L Var(v) / N) + 3 H L / N and v =
    `upper`; the same with minus signs and v = `lower` for the greedy pair gives the lower bound. L is `log` [rows].
    """
    changed = False
    horizon, n_states = pair.shape
    for h in range(horizon - 1, -1, -1):
        cap, ahead = (horizon - h) * top, (horizon - h - 1) * top
        for s in range(n_states):
            best, found = -np.inf, -1
            for k in range(pair_ptr[s], pair_ptr[s + 1]):
                m = k + h * stride
                q = cap
                if visits[m] > 0:
                    n, x = float(visits[m]), log[m]
                    mean = mean_next(m, n, next_ptr, next_state, next_count, upper[h + 1])
                    variance = variance_next(m, n, mean, next_ptr, next_state, next_count, upper[h + 1])
                    gap = 0.0
                    for j in range(next_ptr[m], next_ptr[m + 1]):
                        y = next_state[j]
                        gap += next_count[j] / n * (upper[h + 1, y] - lower[h + 1, y]) ** 2
                    b = math.sqrt(2 * x / n) * (math.sqrt(variance) + math.sqrt(gap)) + 3 * ahead * x / n
                    q = min(r[m] + reward_bonus[m] + mean + b, cap)
                if q > best:
                    best, found = q, k
            upper[h, s] = best
            m, q = found + h * stride, 0.0
            if visits[m] > 0:
                n, x = float(visits[m]), log[m]
                mean = mean_next(m, n, next_ptr, next_state, next_count, lower[h + 1])
                variance = variance_next(m, n, mean, next_ptr, next_state, next_count, lower[h + 1])
                gap = 0.0
                for j in range(next_ptr[m], next_ptr[m + 1]):
                    y = next_state[j]
                    gap += next_count[j] / n * (upper[h + 1, y] - lower[h + 1, y]) ** 2
                b = math.sqrt(2 * x / n) * (math.sqrt(variance) + math.sqrt(gap)) + 3 * ahead * x / n
                q = max(r[m] - reward_bonus[m] + mean - b, 0.0)
            lower[h, s] = q
            if pair[h, s] != found:
                pair[h, s], changed = found, True
    return changed
