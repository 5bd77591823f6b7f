"""The exact margin of the condition on decisions, and the regret of decisions, from the true gains and biases.

Luck with rewards and transitions is not in it: each departure from the baseline counts with its mean worth, A(s, a) =
r(s, a) + sum_s' p(s' | s, a) h(s') - h(s) - g. `certificates.account` states the condition.
"""

import numpy as np

from surefooted import solve
from surefooted.certificates.tolerance import Tolerance
from surefooted.evaluation.margin import Margin
from surefooted.problems.problem import Problem
from surefooted.simulation.run import EpisodicRun, Run
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.space import Bools, Floats, Ints
from surefooted.tables.staged import Dynamics

SAME_GAIN = 1e-9  # relative: gains that differ by more are several


def decision_margin(run: Run, problem: Problem, tolerance: Tolerance) -> Margin | None:
    """Per step, [T]: what the decisions so far are worth beside t g; None if the baseline has no single gain."""
    played = solve.gain_and_bias(problem.mdp, problem.baseline)
    gain = float(played.gains[run.start])
    if np.ptp(played.gains) > SAME_GAIN * problem.mdp.r_max:
        return None
    each = advantages(problem.mdp, gain, played.bias)[run.pairs]
    worth: Floats = np.cumsum(np.where(departures(run, problem.baseline), each, 0.0))
    steps = np.arange(1, run.steps + 1)
    baseline: Floats = steps * np.float64(gain)
    share = tolerance.alpha * np.maximum(baseline - tolerance.floor * steps, 0.0) + tolerance.per_step * steps
    margin = tolerance.allowance + share + worth
    return Margin(baseline + worth, baseline, margin, kept_at=tolerance.kept_at(run.steps))


def decision_regret(run: Run, mdp: TabularMDP, optimum: solve.OptimalGain) -> Floats:
    """Per step, [T]: what the decisions so far cost compared with optimal ones, the sum of -A(s, a) with g* and h*.

    Its mean over runs is t g* + h*(s_1) - E[r_1 + .. + r_t] - E[h*(s_t+1)]: the regret, up to the span of h*.
    """
    return np.asarray(np.cumsum(-advantages(mdp, optimum.gain, optimum.bias)[run.pairs]))


def advantages(mdp: TabularMDP, gain: float, bias: Floats) -> Floats:
    """A of every pair, [K]."""
    following = np.add.reduceat(mdp.p * bias[mdp.next_state], mdp.next_ptr[:-1])
    return np.asarray(mdp.r + following - bias[mdp.space.pair_state] - gain)


def departures(run: Run, baseline: Policy) -> Bools:
    """At which steps the run departed from the baseline, [T]: it explored, and not by the baseline's only action."""
    explored = np.repeat([segment.role == "optimistic" for segment in run.segments], [s.length for s in run.segments])
    certain: Ints = np.flatnonzero(baseline.dense_weights >= 1.0)
    return np.asarray(explored & ~np.isin(run.pairs, certain))


def episode_worth(run: EpisodicRun, mdp: Dynamics, baseline: Policy) -> Floats:
    """What the departures of each episode are worth, [K]: each r + P V_{h+1} - V_h, with V of the baseline."""
    values, K = solve.policy_values(mdp, baseline, run.horizon), mdp.space.n_pairs
    worth = np.zeros(run.episodes)
    pairs, weights = baseline.stages(run.horizon)
    for h in range(run.horizon):
        rows = slice(h * K, (h + 1) * K) if mdp.stages > 1 else slice(0, K)
        ptr = mdp.next_ptr[rows.start : rows.stop + 1]
        entries = slice(ptr[0], ptr[-1])
        following = np.add.reduceat(mdp.p[entries] * values[h + 1][mdp.next_state[entries]], ptr[:-1] - ptr[0])
        each = mdp.r[rows] + following - values[h][mdp.space.pair_state]
        certain = pairs[h % len(pairs)] if baseline.is_deterministic else np.flatnonzero(weights[h % len(weights)] >= 1)
        departed = run.explored_steps[:, h] & ~np.isin(run.pairs[:, h], certain)
        worth += np.where(departed, each[run.pairs[:, h]], 0.0)
    return worth
