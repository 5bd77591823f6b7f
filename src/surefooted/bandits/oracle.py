"""The exact margin and regret of a bandit run, computed from the true means."""

import numpy as np

from surefooted.bandits.arms import BernoulliArms
from surefooted.bandits.contextual import LinearContextual
from surefooted.bandits.simulation import BanditRun
from surefooted.evaluation.margins import Evaluation, check_alpha


def evaluate(run: BanditRun, problem: BernoulliArms | LinearContextual, alpha: float) -> Evaluation:
    """The exact margin Σ_{s<=t} μ(a_s) - (1 - α) μ(b_s) after every round, and the regret against the best arms.

    As in Wu et al. (2016) and Kazerouni et al. (2017), this is an expectation given the arms that were played: the
    noise of the rewards does not enter it directly, but the arms that the agent chose because of that noise do.
    """
    check_alpha(alpha)
    means, baselines = problem.rounds(run.rounds)
    t = np.arange(run.rounds)
    expected, baseline = np.cumsum(means[t, run.arms]), np.cumsum(means[t, baselines])
    best = np.cumsum(means.max(axis=1))
    return Evaluation(
        expected=expected,
        baseline=baseline,
        margin=expected - (1 - alpha) * baseline,
        realised_regret=best - np.cumsum(run.rewards),
        expected_regret=best - expected,
        decision_regret=best - expected,
    )
