"""Backward inductions over a finite horizon, from `values[H]` to `values[0]`.

Over a set of plausible rows: `optimistic_stages`, by `plan_stages`, and `policy_stages`. Over estimates with a bonus:
`greedy_stages` and `estimated_policy_stages`, which also serves known tables. Rows belong to pairs, or to pairs and
stages: then pair k of stage h is row h K + k. `values` is [H + 1, S], the greedy `pair` [H, S]. Outputs come last and
are written in place.
"""

import numpy as np

from surefooted.arrays import Floats, Ints
from surefooted.kernels.bellman import BEYOND_ROUNDING, add_mean
from surefooted.kernels.bonus import EULER_BONUS, FREEDMAN_BONUS, euler_bonus, freedman_bonus, mean_next
from surefooted.kernels.compile import allocating, inlined, njit
from surefooted.kernels.rows import Rows, extreme
from surefooted.kernels.sorting import Work, forget_order, rank_states, workspace
from surefooted.kernels.structs import BonusTerms, Estimates, Fields


@inlined
def row_stride(pair_ptr: Ints, r: Floats) -> int:
    """The distance between a pair's rows at two successive stages: 0 if all stages share their rows."""
    n_pairs: int = pair_ptr[len(pair_ptr) - 1]
    return n_pairs if len(r) > n_pairs else 0


@allocating
def optimistic_stages(pair_ptr: Ints, rows: Fields, r: Floats, values: Floats, pair: Ints) -> bool:
    """Optimistic backward induction: `values`, greedy `pair`, and whether that changed; see `plan_stages`."""
    return plan_stages(pair_ptr, Rows(*rows), r, workspace(values.shape[1]), values, pair)


@njit
def plan_stages(pair_ptr: Ints, rows: Rows, r: Floats, work: Work, values: Floats, pair: Ints) -> bool:
    """Optimistic backward induction: `values`, greedy `pair`, and whether that changed.

    v_h(s) = max over a of r(s, a) + max over plausible p of p v_{h+1}. Of equal pairs the first is greedy. Only to save
    time, the pair that `pair` holds is tried first (-1: none), and a pair is skipped if it would be worse even with all
    its slack in the best state. Nothing depends on what `work` holds.
    """
    changed, stride = False, row_stride(pair_ptr, r)
    forget_order(work)
    for h in range(len(pair) - 1, -1, -1):
        v = values[h + 1]
        rank_states(v, 1.0, work)
        top = v[work.order[0]]
        for s in range(len(v)):
            first, before = pair_ptr[s], pair[h, s]
            found = before if before >= 0 else first
            best, tried = -np.inf, found
            for i in range(first - 1, pair_ptr[s + 1]):
                k = i if i >= first else tried
                if i == tried:
                    continue
                row = k + h * stride
                if i >= first and rows.width[row] < 0.0:
                    bound = r[row] + rows.slack[row] * top
                    bound = add_mean(bound, rows.first[row], rows.last[row], rows.next_state, rows.low, v)
                    never = rows.first[row] == rows.last[row] and rows.unseen[row] >= 1.0
                    if bound * (1.0 + BEYOND_ROUNDING) < best or (never and bound <= best and k > found):
                        continue
                backup = r[row] + extreme(rows, row, v, work)
                if backup > best or (backup == best and k < found):
                    best, found = backup, k
            values[h, s] = best
            if before != found:
                pair[h, s], changed = found, True
    return changed


@allocating
def policy_stages(
    pair_ptr: Ints, rows: Fields, r: Floats, sign: float, pair: Ints, weights: Floats, values: Floats, first: Floats
) -> None:
    """Backward induction for each of P policies (Eq. `pess_pe_fh` over a set): `first` [P, S] gets values[0].

    Pessimistic for sign -1 (r the lowest rewards), optimistic for +1 (the highest). The policies play `pair` [P H, S],
    or if that is empty `weights` [P H, K]: the rules of the first policy, then those of the next. A policy with one
    rule plays it at all stages. `values` is that of the last policy in the end.
    """
    stride, is_pair, work = row_stride(pair_ptr, r), len(pair) > 0, workspace(values.shape[1])
    rows = Rows(*rows)
    rules = max(len(pair), len(weights)) // max(len(first), 1)
    for i in range(len(first)):
        forget_order(work)
        for h in range(len(values) - 2, -1, -1):
            v, rule = values[h + 1], i * rules + min(h, rules - 1)
            rank_states(v, sign, work)
            for s in range(len(v)):
                begin, end, total = pair_ptr[s], pair_ptr[s + 1], 0.0
                if is_pair:
                    begin = pair[rule, s]
                    end = begin + 1
                for k in range(begin, end):
                    weight = 1.0 if is_pair else weights[rule, k]
                    if weight > 0.0:
                        row = k + h * stride
                        total += weight * (r[row] + extreme(rows, row, v, work))
                values[h, s] = total
        for s in range(values.shape[1]):
            first[i, s] = values[0, s]


@njit
def greedy_stages(
    pair_ptr: Ints, estimates: Estimates, bonus: BonusTerms, top: float, values: Floats, pair: Ints
) -> bool:
    """Backward induction with Q = r̂ + p̂ v + b: `values`, greedy `pair`, and whether that changed.

    `top` is r_max: a Q is at most (H - h) top, which a pair never visited gets. The first pair of equals is greedy.
    """
    changed, horizon, stride = False, len(pair), row_stride(pair_ptr, estimates.r)
    for h in range(horizon - 1, -1, -1):
        cap, v = (horizon - h) * top, values[h + 1]
        for s in range(len(v)):
            best, found = -np.inf, -1
            for k in range(pair_ptr[s], pair_ptr[s + 1]):
                m, q = k + h * stride, cap
                if estimates.visits[m] > 0:
                    mean = mean_next(estimates, m, v)
                    q = estimates.r[m] + bonus.fixed[m] + mean
                    if bonus.kind == FREEDMAN_BONUS:
                        q += freedman_bonus(estimates, bonus, m, h, mean, top, values)
                    elif bonus.kind == EULER_BONUS:
                        q += euler_bonus(estimates, bonus, m, h, mean, top, v, values)
                    q = min(q, cap)
                if bonus.kind == FREEDMAN_BONUS:  # Q never rises
                    q = min(q, bonus.q_before[h, k])
                    bonus.q_before[h, k] = q
                if q > best:
                    best, found = q, k
            values[h, s] = best
            if bonus.kind == EULER_BONUS:
                m, v_lower, q = found + h * stride, bonus.lower[h + 1], 0.0
                if estimates.visits[m] > 0:
                    mean = mean_next(estimates, m, v_lower)
                    width = euler_bonus(estimates, bonus, m, h, mean, top, v_lower, values)
                    q = max(estimates.r[m] - bonus.fixed[m] + mean - width, 0.0)
                bonus.lower[h, s] = q
            if pair[h, s] != found:
                pair[h, s], changed = found, True
    return changed


@njit
def estimated_policy_stages(
    pair_ptr: Ints,
    estimates: Estimates,
    bonus: Floats,
    top: float,
    sign: float,
    pair: Ints,
    weights: Floats,
    values: Floats,
) -> None:
    """Eq. `pess_pe_fh` for one policy: `values`, below for sign -1, above for +1.

    Each pair's r̂ + sign b + p̂ v, b its `bonus` [rows], is cut to [0, (H - h) top], where its true value lies.
    """
    stride, is_pair = row_stride(pair_ptr, estimates.r), len(pair) > 0
    for h in range(len(values) - 2, -1, -1):
        cap = (len(values) - 1 - h) * top
        for s in range(values.shape[1]):
            begin, end, total = pair_ptr[s], pair_ptr[s + 1], 0.0
            if is_pair:
                begin = pair[min(h, len(pair) - 1), s]
                end = begin + 1
            for k in range(begin, end):
                weight = 1.0 if is_pair else weights[min(h, len(weights) - 1), k]
                if weight > 0.0:
                    m = k + h * stride
                    q = cap if sign > 0 else 0.0
                    if estimates.visits[m] > 0:
                        mean = mean_next(estimates, m, values[h + 1])
                        q = min(max(estimates.r[m] + sign * bonus[m] + mean, 0.0), cap)
                    total += weight * q
            values[h, s] = total
