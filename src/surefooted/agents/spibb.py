"""SPIBB (Laroche, Trichelair & Tachet des Combes 2019): the best policy in the estimated MDP that dares little.

Π_b-SPIBB: where a pair was observed fewer than `least` times, it is played exactly as often as the baseline plays it.
Whatever probability is left in a state goes to the best of the other pairs. The paper discounts; this is the same idea
for average reward and for a finite horizon. What it returns is a proposal, which proves nothing: `surefooted.certify`
does.
"""

from typing import Any

import numpy as np

from surefooted.arrays import is_whole
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats

MOST_SWEEPS = 5_000
DAMPING = 0.9  # a share of each move, so that periodic chains settle
SETTLED = 1e-9  # of r_max: value iteration stops when all states move alike


def spibb(history: Any, baseline: Policy, *, least: int = 30, horizon: int | None = None) -> Policy:
    """The policy that is best in the estimated MDP among those that play rarely observed pairs as the baseline does.

    - `history`: a log, as `surefooted.read_history` returns it, or `Counts`.
    - `baseline`: today's policy.
    - `least`: how often a pair must have been observed to be chosen freely, the paper's N_∧.
    - `horizon`: H for episodes of H steps; None for average reward.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> agent = sf.UCRL2(problem.space)
    >>> run = sf.simulate(problem, agent, 5000)
    >>> sf.spibb(agent.counts, problem.baseline, least=10**6) == problem.baseline
    True
    >>> sf.spibb(agent.counts, problem.baseline, least=5).actions
    array([1, 1, 1, 1, 1, 1])
    """
    counts: Counts = getattr(history, "counts", history)
    space, faults = baseline.space, []
    if counts.space != space:
        faults.append(f"the log is on {counts.space}, the baseline on {space}")
    if baseline.horizon not in (None, horizon) or counts.stages not in (1, horizon):
        faults.append(f"the baseline has {baseline.horizon} decision rules, the log {counts.stages} stages: {horizon=}")
    if not is_whole(least, 1):
        faults.append(f"least {least} must be a positive whole number")
    if faults:
        raise InvalidInput("no policy can be proposed", faults)
    free = counts.visits.reshape(-1, space.n_pairs) >= least  # [stages, K]
    model, weights = _Estimated(counts), np.atleast_2d(baseline.dense_weights)
    if horizon is None:
        return Policy(space, weights=_stationary(model, weights[0], free[0]))
    v, rules = np.zeros(space.n_states), np.empty((horizon, space.n_pairs))
    for h in range(horizon - 1, -1, -1):
        q = model.outcomes(v, h)
        rules[h] = _greedy(model, q, weights[min(h, len(weights) - 1)], free[min(h, len(free) - 1)])
        v = np.add.reduceat(rules[h] * q, space.pair_ptr[:-1])
    return Policy(space, weights=rules)


class _Estimated:
    """The MDP of the observed frequencies; a pair never observed stays where it is and earns what others do."""

    def __init__(self, counts: Counts) -> None:
        self.space, self.stages = counts.space, counts.stages
        next_ptr, self.next_state, count = counts.rows()
        self.row = np.repeat(np.arange(counts.n_rows), np.diff(next_ptr))
        visits = counts.visits
        self.p = count / np.maximum(visits, 1)[self.row]
        usual = counts.reward_sum.sum() / max(int(visits.sum()), 1)
        self.r = np.where(visits > 0, counts.reward_sum / np.maximum(visits, 1), usual)
        self.stays = visits == 0

    def outcomes(self, v: Floats, h: int = 0) -> Floats:
        """What r + p v is of each pair at a stage, [K]."""
        K = self.space.n_pairs
        q = self.r + np.bincount(self.row, weights=self.p * v[self.next_state], minlength=self.r.size)
        here = np.tile(v[self.space.pair_state], self.stages)
        q = np.where(self.stays, self.r + here, q)
        return np.asarray(q[h * K : (h + 1) * K] if self.stages > 1 else q)


def _greedy(model: _Estimated, q: Floats, weights: Floats, free: Any) -> Floats:
    """The baseline's weights of rare pairs, and the rest of each state on its best free pair, [K]."""
    first, sizes = model.space.pair_ptr[:-1], np.diff(model.space.pair_ptr)
    own = np.where(free, 0.0, weights)
    rest = np.maximum(1.0 - np.add.reduceat(own, first), 0.0)
    some = np.add.reduceat(free.astype(np.int64), first) > 0
    value = np.where(free, q, -np.inf)
    best = np.repeat(np.maximum.reduceat(value, first), sizes)
    ranked = np.where(free & (value == best), np.arange(q.size), q.size)
    chosen = np.minimum.reduceat(ranked, first)[some]
    own[chosen] += rest[some]
    return np.asarray(own)


def _stationary(model: _Estimated, weights: Floats, free: Any) -> Floats:
    """Damped value iteration for the gain; the weights [K] that are greedy in the end."""
    v, first = np.zeros(model.space.n_states), model.space.pair_ptr[:-1]
    for _ in range(MOST_SWEEPS):
        q = model.outcomes(v)
        chosen = _greedy(model, q, weights, free)
        change = np.add.reduceat(chosen * q, first) - v
        if np.ptp(change) <= SETTLED * model.space.r_max:
            break
        v = v + DAMPING * (change - change[0])
    return chosen
