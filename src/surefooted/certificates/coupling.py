"""One law for all: two copies of the baseline meet the same noise, so that most of what is unknown cancels.

If mechanics say where each value of one noise leads, its law is the same in every state. Let two copies of the baseline
begin in x and in y and meet the same noise until they are in one state. What the first has collected more than the
second until then is h(x) - h(y) on average. The gain is no part of it, and the law matters only as far as the copies
differ. A set that bounds each row on its own would let each copy have its own law.

The theorem and its proof are in docs/guarantees.md, "One law for all".
"""

from dataclasses import dataclass

import numpy as np

from surefooted.kernels import coupling as kernels
from surefooted.kernels.bellman import BEYOND_ROUNDING
from surefooted.sets.plausible import Plausible
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints

MOST_SWEEPS = 300
LONGEST = 500.0  # steps until two copies meet
LARGEST = 2_000_000  # entries of a table over two states and the noise: beyond it, nothing is tried
TOLERANCE = 1e-4  # of the differences (times r_max)


@dataclass(frozen=True, eq=False)
class Coupling:
    """What a set with one shared noise proves of the bias of a deterministic baseline and of departures from it.

    - `difference` [S, S]: at most h(x) - h(y), for every law that the set allows.
    - `worth` [K]: at most the advantage of each pair, r + p h - h(s) - g.
    - `told` [K, S]: what a pair earns if it leads to a state, if the mechanics say so.
    - `most`: at least how far two outcomes of a pair can lie apart, each counted as what it earns and the bias there.
    - `sweeps`: what it took, in sweeps over the states.
    """

    difference: Floats
    worth: Floats
    told: Floats | None
    most: float
    sweeps: int = 0

    @property
    def span(self) -> float:
        """At least max h - min h."""
        return float(max(-self.difference.min(), 0.0))

    def around(self, target: int) -> tuple[Floats, Floats]:
        """At most and at least h - h(target), [S] each."""
        return self.difference[:, target].copy(), -self.difference[target]


def couple(plausible: Plausible, policy: Policy) -> Coupling | None:
    """What the shared noise of a set proves of this policy; None if there is none, or copies may never meet."""
    shared, pairs = plausible.shared, policy.pair
    if shared is None or pairs is None or pairs.ndim > 1 or plausible.stages > 1:
        return None
    space, (K, n) = plausible.space, shared.next_state.shape
    S = space.n_states
    if S * S * n > LARGEST:
        return None
    law, after = shared.law, shared.next_state[pairs]
    nothing, zeros = np.zeros((S, n)), np.zeros(S)
    longer = np.zeros((S, S))  # minus the steps until they meet, at most
    error, first = kernels.compare_states(
        after, nothing, (zeros - 1.0, zeros), law, (1e-3, MOST_SWEEPS, LONGEST), longer
    )
    if error > 0.5:
        return None
    steps = -longer / (1 - error)
    if shared.reward is None:
        earned, r = np.zeros((K, n)), (plausible.r_lower, plausible.r_upper)
    else:
        earned, r = shared.reward, (np.zeros(K), np.zeros(K))
    difference, accuracy = np.zeros((S, S)), TOLERANCE * space.r_max / (1 + float(steps.max()))
    base, limits = (r[0][pairs], r[1][pairs]), (accuracy, MOST_SWEEPS, np.inf)
    error, second = kernels.compare_states(after, earned[pairs], base, law, limits, difference)
    error += BEYOND_ROUNDING * (float(np.abs(difference).max()) + float(np.abs(earned).max()) + space.r_max) * n
    difference -= error * steps
    worth = np.empty(K)
    kernels.value_departures(shared.next_state, earned, r, space.pair_state, pairs, law, difference, worth)
    rounding = BEYOND_ROUNDING * (float(np.abs(worth).max()) + float(np.abs(earned).max()) + space.r_max) * n
    told, most = shared.told(S), space.r_max + float(max(-difference.min(), 0.0))
    if told is not None:
        most = max(_apart(earned[k], shared.next_state[k], difference) for k in range(K))
    worth = np.where(worth == 0.0, 0.0, worth - rounding)
    return Coupling(difference, worth, told, most, S * (first + second))


def _apart(earned: Floats, after: Ints, difference: Floats) -> float:
    """At least how far two outcomes of one pair lie apart: earned[ξ] + h(after[ξ]) - earned[η] - h(after[η])."""
    return float((earned[:, None] - earned - difference[np.ix_(after, after)].T).max())
