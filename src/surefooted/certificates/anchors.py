"""Anchors: lower bounds on r + p h of each pair, h being the bias of a known baseline.

They make the replay certificates tighter. For each pair r + p v = (r + p h) + p (v - h), so that the plausible set has
to bound p (v - h) only. Rewards and gains are counted from the lowest reward (`tables.money`). Three facts bound
r + p h from below:

- Where the baseline plays nothing but a in s, r + p h = g + h(s), by the definition of g and h. This takes nothing of
  δ.
- The outcomes r + h(s') of the visits of a pair have the mean r + p h given the past. They are at least min h.
- Its next states have the mean p h of h(s'), and the set bounds r. This uses logs as well, and rewards that are known.

Each of the last two is the bound of docs/guarantees.md, Mean rewards, for each of the K pairs, at all times at once,
with probability at least 1 - δ / (2 K). See docs/guarantees.md, Anchors.
"""

import math
from typing import Any, Self

import numpy as np

from surefooted.arrays import like
from surefooted.data.counts import Counts
from surefooted.kernels import anchored
from surefooted.kernels.intervals import OUTWARDS, Sums
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.space import Floats, Ints


class Anchors:
    """What is known of r + p h, for a baseline whose gain g and bias h are known.

    Parameters
    ----------
    baseline : the baseline, with its gain and bias
    delta : the probability with which the bounds from data may ever fail; 0: they are not used
    bounded : whether no reward is negative; if not, outcomes r + h(s') prove nothing

    """

    def __init__(self, baseline: Baseline, delta: float, bounded: bool = True) -> None:
        assert baseline.gain is not None and baseline.bias is not None
        self.baseline, self.delta, self.bounded = baseline, delta, bounded
        space, self.bias = baseline.policy.space, np.array(baseline.bias)
        self.lowest = float(self.bias.min())
        self._worth = self.bias - self.lowest
        self.exact = np.full(space.n_pairs, -np.inf)  # [K]: g + h(s) for the pairs that the baseline plays for certain
        sure = np.flatnonzero(baseline.policy.dense_weights >= 1.0)
        self.exact[sure] = space.money.counted(baseline.gain) + self.bias[space.pair_state[sure]]
        self._sums = Sums(np.zeros(space.n_pairs, dtype=np.int64), np.zeros(space.n_pairs), np.zeros(space.n_pairs))
        # bounds on the mean outcomes and on p worth, with the visits that each is of
        self._outcomes, self._seen = np.zeros(space.n_pairs), np.zeros(space.n_pairs, dtype=np.int64)
        self._successors, self._led = np.zeros(space.n_pairs), np.zeros(space.n_pairs, dtype=np.int64)
        self._visits: Ints | None = None  # of the counts that the bounds on p worth are of

    def observe(self, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        """Count the outcomes of steps, [n]."""
        if self.delta > 0:
            anchored.add_outcomes(self._worth, pairs, rewards, next_states, tuple(self._sums))

    def lower(self, plausible: Plausible, counts: Counts | None) -> Floats:
        """Lower bounds on r + p h of each pair, [K]; -inf where nothing is known."""
        if self.delta <= 0:
            return self.exact
        x = math.log(2 * self.exact.size / self.delta)
        bound = plausible.r_lower.copy()
        if counts is not None:
            if self._visits is not counts.visits:  # other counts were loaded
                self._led[:], self._successors[:], self._visits = 0, 0.0, counts.visits
            anchored.bound_successors(self._worth, tuple(counts.pool), counts.visits, x, self._led, self._successors)
            bound += self._successors
        if self.bounded:
            anchored.bound_outcomes(tuple(self._sums), x, self._seen, self._outcomes)
            bound = np.maximum(bound, self._outcomes)
        bound += self.lowest - OUTWARDS * (abs(self.lowest) + np.abs(bound))
        return np.where(self.exact > -np.inf, self.exact, bound)

    def state_dict(self) -> dict[str, Any]:
        """The outcomes that were counted."""
        return {name: array.copy() for name, array in self._sums._asdict().items()}

    def restored(self, state: dict[str, Any]) -> Self:
        """Anchors of the same arguments that remember what `state_dict` returned."""
        other = type(self)(self.baseline, self.delta, self.bounded)
        other._sums = Sums(*(like(name, state[name], zeros) for name, zeros in other._sums._asdict().items()))
        return other
