"""The exact margin and regret of a bandit run, computed from the true means."""

from typing import Any, Literal

import numpy as np

from surefooted.bandits.arms import BernoulliArms
from surefooted.bandits.contextual import LinearContextual
from surefooted.bandits.mixture import lottery
from surefooted.bandits.simulation import BanditRun
from surefooted.errors import InvalidInput
from surefooted.evaluation.margins import Evaluation, check_tolerance
from surefooted.tables.space import Floats

Condition = Literal["cumulative", "every round", "sample path"]


def evaluate(
    run: BanditRun,
    problem: BernoulliArms | LinearContextual,
    alpha: float,
    *,
    condition: Condition = "cumulative",
    **amounts: Any,
) -> Evaluation:
    """The exact margin of a condition after every round, [T], and the regret against the best arms.

    | condition | margin after round t | kept by |
    |---|---|---|
    | "cumulative" | Σ_{s<=t} μ(a_s) - (1 - α) μ(b_s) | `ConservativeUCB`, `SafeSetUCB`, `Reduction` |
    | "every round" | μ(a_t) - (1 - α) μ(b_t) | `StageWiseUCB` |
    | "sample path" | Σ_{s<=t} r_s - (1 - α) μ(b_s) | `SamplePath` |

    The agents with features keep the conditions of their twins without.

    - `run`: what `simulate_arms` or `simulate_linear` returned.
    - `problem`: what was played.
    - `alpha`: the share of the baseline's mean that may be lost.
    - `condition`: which of the three.

    `amounts` are tolerance, allowance, floor and checkpoints, as for `surefooted.evaluate`. Each round has its own
    share of the baseline's mean, which is nothing where that mean is not above the floor. An allowance or checkpoints
    say nothing about "every round".

    As in Wu et al. (2016) and Kazerouni et al. (2017), the first two are expectations given the decisions: the noise of
    the rewards does not enter them directly, but the arms that the agent chose because of that noise do. If a decision
    drew one of two arms (`StageWiseUCB`), μ(a_s) is the mean before the draw.

    >>> import surefooted as sf
    >>> arms = sf.bandits.BernoulliArms([0.5, 0.4, 0.7], baseline=0)
    >>> run = sf.bandits.simulate_arms(arms, sf.bandits.StageWiseUCB(3, alpha=0.1), rounds=500)
    >>> sf.bandits.evaluate(run, arms, alpha=0.1, condition="every round").violations
    0
    """
    may_lose = check_tolerance(alpha, **amounts)
    faults = [] if condition in ("cumulative", "every round", "sample path") else [f"condition {condition!r}"]
    if condition == "every round" and (may_lose.allowance or not may_lose.at_every_step):
        faults.append("an allowance or checkpoints say nothing about every round")
    if faults:
        raise InvalidInput("this run cannot be evaluated", faults)
    means, baselines = problem.rounds(run.rounds)
    t = np.arange(run.rounds)
    each, base = _expected(run, means), means[t, baselines]
    owed, expected, best = may_lose.owed(base, 1), np.cumsum(each), np.cumsum(means.max(axis=1))
    margin = {
        "cumulative": may_lose.allowance + expected - np.cumsum(owed),
        "every round": each - owed,
        "sample path": may_lose.allowance + np.cumsum(run.rewards) - np.cumsum(owed),
    }[condition]
    return Evaluation(
        expected=expected,
        baseline=np.cumsum(base),
        margin=margin,
        realised_regret=best - np.cumsum(run.rewards),
        expected_regret=best - expected,
        decision_regret=best - expected,
        kept_at=may_lose.kept_at(run.rounds),
    )


def _expected(run: BanditRun, means: Floats) -> Floats:
    """The mean of each round before an arm was drawn, [T]; `means` [T, n]."""
    if not run.decisions:
        return np.asarray(means[np.arange(run.rounds), run.arms])
    drawn = (lottery(decision) for decision in run.decisions)
    return np.array([sum(p * means[t, arm] for arm, p in arms) for t, arms in enumerate(drawn)])
