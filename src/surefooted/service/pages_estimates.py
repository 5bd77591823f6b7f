"""What a departure is expected to gain: an estimate for the person who decides, which proves nothing.

The advantage of a pair (s, a) over the baseline is r(s, a) + E[h(s')] - g - h(s), with the baseline's gain g and bias
h: what playing a once in s, and the baseline from then on, earns more in the long run. Its mean and spread are taken
over models that what was observed and declared allows (`forecasting.models`).
"""

from itertools import islice
from typing import NamedTuple

import numpy as np

from surefooted.data.counts import Counts
from surefooted.errors import SurefootedError
from surefooted.forecasting.models import Models
from surefooted.live.advisor import Advisor
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.space import Floats

DRAWS = 20  # models
FORGOTTEN = 10  # models that are drawn before them
MOST = 500  # steps that a model is drawn from; of more, that many are drawn first
STALE = 1.1  # an estimate is used until there are so many times the steps that it rests on


class Estimates(NamedTuple):
    """The advantage of every pair over the baseline: mean, and where nine of ten models have it; in the user's unit."""

    steps: int
    mean: Floats  # [K]
    low: Floats  # [K]
    high: Floats  # [K]


def estimates(advisor: Advisor, counts: Counts) -> Estimates | None:
    """What is expected of every pair, by what was observed so far; None if no model can be drawn.

    `counts` are copied before anything is drawn, so that the advisor may go on meanwhile.
    """
    definition, space = advisor.definition, advisor.space
    gain, bias = definition.baseline.gain, definition.baseline.bias
    if gain is None or bias is None:
        return None
    rng = np.random.default_rng(0)
    try:
        models = Models(_fewer(counts, rng), definition.knowledge, definition.baseline.policy, 0, None)
        problems = islice(models.chain(rng), FORGOTTEN, FORGOTTEN + DRAWS)
        drawn = np.array([_advantages(each.mdp, float(gain), np.asarray(bias)) for each in problems])  # [D, K]
    except (SurefootedError, ValueError, FloatingPointError):  # what was declared is contradicted
        return None
    low, high = np.quantile(drawn, (0.05, 0.95), axis=0)
    assert drawn.shape[1] == space.n_pairs
    return Estimates(counts.total, drawn.mean(axis=0), low, high)


def _advantages(mdp: TabularMDP, gain: float, bias: Floats) -> Floats:
    """The advantage of every pair in one model, [K]."""
    space = mdp.space
    row = np.repeat(np.arange(space.n_pairs), np.diff(mdp.next_ptr))
    ahead = np.bincount(row, mdp.p * bias[mdp.next_state], minlength=space.n_pairs)
    return np.asarray(mdp.r + ahead - gain - bias[space.pair_state], dtype=np.float64)


def _fewer(counts: Counts, rng: np.random.Generator) -> Counts:
    """At most `MOST` of the steps, drawn at random; rewards are replaced by their mean."""
    next_ptr, next_state, count = counts.rows()
    space = counts.space
    pair = np.repeat(np.arange(space.n_pairs), np.diff(next_ptr))
    if counts.total > MOST:
        count = rng.multinomial(MOST, count / count.sum())
    mean = counts.mean_rewards
    fewer = Counts(space, counts.bounded)
    pairs = np.repeat(pair, count)
    fewer.add_steps(pairs, mean[pairs], np.repeat(next_state, count))
    return fewer
