"""How much more one policy earns than another at least, if both play in the same plausible MDP.

Let π and b be policies, V and V^b what they earn from stage h on, and 0 <= κ <= 1. In one MDP, with Q = r + p V_{h+1},

    V_h - κ V^b_h  =  sum_a min(π, b) ((1 - κ) r + p (V_{h+1} - κ V^b_{h+1}))
                      + sum_a (π - min(π, b)) Q  -  κ sum_a (b - min(π, b)) Q^b.

So where both choose alike, one row counts for both, and what is not known of it matters only as far as they differ
afterwards. Each term is at least its least value over the set, and `net` adds these up. Bounds on V^b give two more:
V >= κ V^b + (V - κ V^b), and V - κ V^b >= V - κ V^b's upper bound.
"""

from typing import NamedTuple

from surefooted.arrays import Floats, Ints
from surefooted.kernels.compile import allocating
from surefooted.kernels.rows import Rows, extreme
from surefooted.kernels.sorting import rank_states, workspace
from surefooted.kernels.stages import row_stride
from surefooted.kernels.structs import Fields


class Split(NamedTuple):
    """How often both policies choose a pair, how much more often one does, and how much more often the other, [n, K].

    One rule serves all stages if n is 1.
    """

    both: Floats
    more: Floats
    less: Floats


class Sides(NamedTuple):
    """Bounds on mean rewards, [rows] each, and on what the other policy earns, [H + 1, S] each."""

    r_lower: Floats
    r_upper: Floats
    low: Floats
    high: Floats


@allocating
def net_stages(
    pair_ptr: Ints, rows: Fields, sides: Fields, split: Fields, kappa: float, last: int, values: Floats, net: Floats
) -> None:
    """Lower bounds `values` on V and `net` on V - κ V^b, [H + 1, S] each, of the stages before `last`.

    Those of stage `last` are given, and so are zeros after the end.
    """
    rows, given, chosen = Rows(*rows), Sides(*sides), Split(*split)
    stride, rules = row_stride(pair_ptr, given.r_lower), len(chosen.both)
    n = values.shape[1]
    by_value, by_net, by_high = workspace(n), workspace(n), workspace(n)
    for h in range(last - 1, -1, -1):
        rule, v, d, u = min(h, rules - 1), values[h + 1], net[h + 1], given.high[h + 1]
        rank_states(v, -1.0, by_value)
        rank_states(d, -1.0, by_net)
        rank_states(u, 1.0, by_high)
        for s in range(n):
            earned, gained = 0.0, 0.0
            for k in range(pair_ptr[s], pair_ptr[s + 1]):
                row, both, more, less = k + h * stride, chosen.both[rule, k], chosen.more[rule, k], chosen.less[rule, k]
                if both > 0.0 or more > 0.0:
                    least = given.r_lower[row] + extreme(rows, row, v, by_value)
                    earned += (both + more) * least
                    gained += more * least
                if both > 0.0:
                    gained += both * ((1.0 - kappa) * given.r_lower[row] + extreme(rows, row, d, by_net))
                if less > 0.0:
                    gained -= kappa * less * (given.r_upper[row] + extreme(rows, row, u, by_high))
            values[h, s] = max(earned, kappa * given.low[h, s] + gained)
            net[h, s] = max(gained, values[h, s] - kappa * given.high[h, s])
