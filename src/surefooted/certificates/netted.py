"""Over a finite horizon: how much more a policy is proved to earn than the baseline, both in the same MDP.

A bound on the policy from below and one on the baseline from above may come from two different plausible MDPs. Here
both play in one (`kernels/netted.py` has the identity): where they choose alike, what is not known of a pair cancels.
So a policy that is the baseline earns at least as much as the baseline, however little is known.
"""

from typing import NamedTuple

import numpy as np

from surefooted import planning
from surefooted.kernels import netted as kernels
from surefooted.kernels.netted import Sides, Split
from surefooted.sets.plausible import Plausible
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats


class Net(NamedTuple):
    """Lower bounds on V and on V - κ V^b, of every stage and state, [H + 1, S] each."""

    values: Floats
    net: Floats


class Netted:
    """What a set proves of policies, compared with one baseline.

    Parameters
    ----------
    plausible : the set; on its event, all bounds hold at once, for every policy
    baseline : the policy in use today
    horizon : H
    known : what the baseline earns, counted from `low`, if that is known: from each start, [S], or of all stages,
        [H + 1, S]

    Example
    -------
    >>> import surefooted as sf
    >>> from surefooted.certificates.netted import Netted
    >>> space = sf.Space.full(n_states=2, n_actions=2)
    >>> nothing_known = sf.confidence.likelihood(sf.Counts(space), 0.05)
    >>> today, other = sf.Policy.always(space, 0), sf.Policy.deterministic(space, [0, 1])
    >>> netted = Netted(nothing_known, today, horizon=3)
    >>> netted.compare(today).net[0].tolist(), netted.compare(other).net[0].tolist()
    ([0.0, 0.0], [-2.0, -3.0])

    """

    def __init__(self, plausible: Plausible, baseline: Policy, horizon: int, known: Floats | None = None) -> None:
        self.plausible, self.baseline, self.horizon = plausible, baseline, horizon
        self.low = planning.policy_values(plausible, baseline, horizon, "pessimistic")  # of the baseline, [H + 1, S]
        self.high = planning.policy_values(plausible, baseline, horizon, "optimistic")
        if known is not None:
            stages = slice(0, 1) if known.ndim == 1 else slice(None)
            self.low[stages] = self.high[stages] = known

    def compare(self, policy: Policy, kappa: float = 1.0) -> Net:
        """What the policy earns at least, and how much more than κ times what the baseline earns."""
        after = Net(np.zeros_like(self.low), np.zeros_like(self.low))
        return self._induction(after, self.horizon, policy, kappa)

    def preceded(self, after: Net, h: int, kappa: float = 1.0) -> Net:
        """The same for a policy that plays the baseline before stage h, and from there on what `after` bounds."""
        return self._induction(Net(after.values.copy(), after.net.copy()), h, self.baseline, kappa)

    def _induction(self, net: Net, last: int, policy: Policy, kappa: float) -> Net:
        plausible = self.plausible
        sides = Sides(plausible.r_lower, plausible.r_upper, self.low, self.high)
        table = (plausible.space.pair_ptr, tuple(plausible.rows), tuple(sides), tuple(split(policy, self.baseline)))
        kernels.net_stages(*table, float(kappa), last, net.values, net.net)
        return net


def split(policy: Policy, baseline: Policy) -> Split:
    """Where two policies choose alike, and where one of them chooses a pair more often."""
    pi, b = np.broadcast_arrays(np.atleast_2d(policy.dense_weights), np.atleast_2d(baseline.dense_weights))
    both: Floats = np.minimum(pi, b)
    return Split(both, pi - both, b - both)
