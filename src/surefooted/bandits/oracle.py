"""The oracle of bandits: what a run earned in expectation, round by round, against the baseline. It knows the means."""

import numpy as np

from surefooted.bandits.arms import BernoulliArms
from surefooted.bandits.contextual import LinearContextual
from surefooted.bandits.simulation import BanditRun
from surefooted.errors import InvalidInput
from surefooted.evaluation.margins import Evaluation


def evaluate(run: BanditRun, problem: BernoulliArms | LinearContextual, alpha: float) -> Evaluation:
    """The exact margin Σ_{s<=t} μ(a_s) - (1 - α) μ(b_s) after every round, and the regret against each round's best.

    An expectation given the arms that were played, as in Wu et al. (2016) and Kazerouni et al. (2017): the luck of
    rewards is not in it, what an agent did upon that luck is.
    """
    if not 0 < alpha < 1:
        raise InvalidInput("no such condition", [f"alpha {alpha} must lie strictly between 0 and 1"])
    means, baselines = problem.rounds(run.rounds)
    t = np.arange(run.rounds)
    expected, baseline = np.cumsum(means[t, run.arms]), np.cumsum(means[t, baselines])
    best = np.cumsum(means.max(axis=1))
    return Evaluation(
        expected=expected,
        baseline=baseline,
        margin=expected - (1 - alpha) * baseline,
        regret=best - np.cumsum(run.rewards),
        pseudo_regret=best - expected,
    )
