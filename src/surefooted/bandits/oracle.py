"""The exact margin and regret of a bandit run, computed from the true means."""

from typing import Any

import numpy as np

from surefooted.bandits.arms import BernoulliArms
from surefooted.bandits.contextual import LinearContextual
from surefooted.bandits.simulation import BanditRun
from surefooted.evaluation.margins import Evaluation, check_tolerance


def evaluate(run: BanditRun, problem: BernoulliArms | LinearContextual, alpha: float, **amounts: Any) -> Evaluation:
    """The exact margin Σ_{s<=t} μ(a_s) - (1 - α) μ(b_s) after every round, and the regret against the best arms.

    `amounts` are tolerance, allowance, floor and checkpoints, as for `surefooted.evaluate`. Each round has its own
    share of the baseline's mean, which is nothing where that mean is not above the floor.

    As in Wu et al. (2016) and Kazerouni et al. (2017), this is an expectation given the arms that were played: the
    noise of the rewards does not enter it directly, but the arms that the agent chose because of that noise do.
    """
    may_lose = check_tolerance(alpha, **amounts)
    means, baselines = problem.rounds(run.rounds)
    t = np.arange(run.rounds)
    expected, baseline = np.cumsum(means[t, run.arms]), np.cumsum(means[t, baselines])
    best = np.cumsum(means.max(axis=1))
    return Evaluation(
        expected=expected,
        baseline=baseline,
        margin=may_lose.allowance + expected - np.cumsum(may_lose.owed(means[t, baselines], 1)),
        realised_regret=best - np.cumsum(run.rewards),
        expected_regret=best - expected,
        decision_regret=best - expected,
        kept_at=may_lose.kept_at(run.rounds),
    )
