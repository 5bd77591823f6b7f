"""For average reward: how much more a policy earns per step than the baseline, both in the same MDP.

Let g and h be the gain and bias of the baseline, and A(s, a) = r + p h - h(s) - g what a pair is worth beside it. A
policy π visits states by some long-run distribution μ, whatever its start, and

    g^π - g  =  sum_s μ(s) A(s),    A(s) = sum_a π A(s, a) = sum_a (π - min(π, b)) A(s, a) - (b - min(π, b)) A(s, a),

since the baseline's own choices b are worth nothing on average. So A(s) is 0 where both choose alike, however little is
known. A lower bound on A(s) in every plausible MDP is a reward, and the least gain that the policy has with this reward
bounds g^π - g. The pairs' worths are bounded with a known gain and bias; or for the least and for the largest gain in
the set (`certificates.netting`, whose argument applies: the bound is concave in the gain); or, where one noise drives
all states, with one law for all (`certificates.coupling`). The other bound takes the two gains apart: the better one
counts.
"""

import numpy as np

from surefooted import planning
from surefooted.certificates.coupling import couple
from surefooted.certificates.netted import split
from surefooted.certificates.netting import Netting
from surefooted.certificates.reference import Reference
from surefooted.kernels.baseline_check import outcomes
from surefooted.kernels.bellman import BEYOND_ROUNDING
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats

CLOSE = 10**8  # bounds on the baseline's gain are computed as exactly as after this many steps
ACCURACY = 1e-4  # of a gain, times the largest reward


def gain_difference(plausible: Plausible, policy: Policy, baseline: Baseline) -> float:
    """At most g^π - g in every MDP of the set, for every start.

    `baseline`: its policy is used, and gain and bias if they are declared.
    """
    space, reference = plausible.space, Reference.of(_only(baseline), plausible, CLOSE)
    own = planning.policy_gain(plausible, policy, ACCURACY * space.r_max)
    apart = own.lower - reference.gain_high
    worths = [gain_of(plausible, policy, worth) for worth in state_worths(plausible, policy, baseline, reference)]
    return max(apart, min(worths)) if worths else apart


def state_worths(plausible: Plausible, policy: Policy, baseline: Baseline, reference: Reference) -> list[Floats]:
    """At most A(s), [S], for each end of the gains that the baseline may have; none if nothing is proved of it."""
    space, chosen = plausible.space, split(policy, baseline.policy)
    coupling = couple(plausible, baseline.policy)
    ends = [reference] if baseline.bias is not None else Netting(plausible, baseline.policy).references(reference)
    found = []
    for low, high in [_pair_worths(plausible, end) for end in ends] or [_nothing(space.n_pairs)]:
        if coupling is not None:
            low = np.maximum(low, coupling.worth)
        certain = baseline.policy.dense_weights >= 1.0  # the only choice of the baseline is worth nothing
        low, high = np.where(certain, 0.0, low), np.where(certain, 0.0, high)
        more, less = (_times(weights[0], bound) for weights, bound in ((chosen.more, low), (chosen.less, high)))
        found.append(np.add.reduceat(more - less, space.pair_ptr[:-1]))
    is_bounded = all(bool(np.all(np.isfinite(worth))) for worth in found)  # one end alone proves nothing
    return found if is_bounded else []


def gain_of(plausible: Plausible, policy: Policy, worth: Floats) -> float:
    """The least gain of a policy over the set if each step from s earns worth[s], whatever is played."""
    size = float(np.abs(worth).max())
    if size == 0.0:
        return 0.0
    space, r = plausible.space, worth[plausible.space.pair_state]
    rows = (plausible.next_ptr, plausible.next_state, plausible.p_lower, plausible.p_upper, plausible.unseen)
    rewarded = Plausible._of_arrays(space, r, r, *rows, width=plausible.width)
    return planning.policy_gain(rewarded, policy, ACCURACY * size).lower - BEYOND_ROUNDING * size


def _only(baseline: Baseline) -> Baseline:
    """The baseline without its log, which the set holds already."""
    return Baseline(baseline.policy, baseline.gain, baseline.bias)


def _times(weights: Floats, bound: Floats) -> Floats:
    """Their products; what has no weight counts nothing, also where nothing is known."""
    return np.multiply(weights, bound, out=np.zeros_like(bound), where=weights > 0)


def _nothing(n: int) -> tuple[Floats, Floats]:
    return np.full(n, -np.inf), np.full(n, np.inf)


def _pair_worths(plausible: Plausible, end: Reference) -> tuple[Floats, Floats]:
    """At most and at least A(s, a) of each pair, [K] each, if the baseline has this gain and a bias between these."""
    space = plausible.space
    everything, low, high = np.ones((1, space.n_pairs)), np.zeros((1, space.n_pairs)), np.zeros((1, space.n_pairs))
    outcomes(plausible.rows, plausible.r_lower, -1.0, end.bias_low[None].copy(), everything, low)
    outcomes(plausible.rows, plausible.r_upper, 1.0, end.bias_high[None].copy(), everything, high)
    here_low, here_high = end.bias_low[space.pair_state], end.bias_high[space.pair_state]
    rounding = BEYOND_ROUNDING * (space.r_max + float(np.abs(end.bias_low).max() + np.abs(end.bias_high).max()))
    return low[0] - here_high - end.gain_high - rounding, high[0] - here_low - end.gain_low + rounding
