"""The exact margin and regret of a run, computed from the true MDP.

The condition is Eq. `cumrew_condition`. Its expectation is over trajectories of the policies that were played, not over
the rewards that were drawn: the state distribution of μ_t is propagated through the true MDP, and nothing is sampled.
The three conditions that the paper discusses and rejects in Sec. 3 are here, too, and so is the condition on decisions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from surefooted import solve
from surefooted.agents.episode_settings import Condition
from surefooted.agents.fixed import FixedPolicy
from surefooted.certificates.tolerance import Checkpoints, Tolerance
from surefooted.errors import InvalidInput, NoSingleGain, shown
from surefooted.evaluation.decisions import decision_margin, decision_regret, episode_worth
from surefooted.evaluation.margin import Margin
from surefooted.problems.problem import Problem
from surefooted.simulation.run import NO_POLICIES, EpisodicRun, Run
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats
from surefooted.tables.staged import Dynamics


@dataclass(frozen=True, repr=False)
class Margins(Margin):
    """The margin of the condition "replay", and the regret: per step or per episode."""

    realised_regret: Floats  # what an optimal policy earns in expectation, minus the rewards drawn
    expected_regret: Floats  # the same minus `expected`

    def _facts(self) -> dict[str, object]:
        return super()._facts() | {"regret": float(self.expected_regret[-1])}


@dataclass(frozen=True, repr=False)
class Evaluation(Margins):
    """Per step, [T]: expected is E[r_1 + .. + r_t | s_1, μ_t], baseline E[r_1 + .. + r_t | s_1, π_b].

    The realised regret is t g* - (r_1 + .. + r_t), Eq. `regret`; the expected one is t g* - expected. The margin is
    that of the condition "replay". The regret of decisions charges each decision what it costs in the long run, where
    it was made; it is the one to compare agents that decide step by step, which a replay misjudges.

    If the agent does not say which policies it follows, nothing can be replayed. Then `judged_by` is "decisions", and
    expected, baseline, margin and violations are those of the condition on decisions.
    """

    decision_regret: Floats
    by_decisions: Margin | None = None
    judged_by: Condition = "replay"

    def _facts(self) -> dict[str, object]:
        return {"judged_by": self.judged_by} | super()._facts()

    @property
    def decisions(self) -> Margin:
        """The margin of the condition on decisions: expected is t g + W_t, baseline t g."""
        if self.by_decisions is None:
            raise NoSingleGain("the condition on decisions needs a baseline whose gain is the same from every state")
        return self.by_decisions


@dataclass(frozen=True, repr=False)
class EpisodicEvaluation(Margins):
    """Per episode, [K]: expected is the sum of V^{π_l}(s_l) for l <= k, baseline that of V^{π_b}(s_l).

    The expected regret is the sum of V*(s_l) - V^{π_l}(s_l), R(A, K) of App. `app:finite.horizon`; the realised one is
    the sum of V*(s_l) minus the rewards of episode l. If a coin chose between policies before an episode, V^{π_l} is
    that of the mixture. If each step was decided on its own, no policy was played for a whole episode; then expected is
    the baseline's sum plus what the departures are worth, as for the decisions.
    """

    decisions: Margin  # of the condition on decisions
    each: Margin | None = None  # of the condition of each episode, not added up; None if no policies are known


@overload
def evaluate(
    run: Run,
    problem: Problem,
    alpha: float,
    allowance: float = 0.0,
    *,
    tolerance: float = 0.0,
    floor: float | None = None,
    checkpoints: Checkpoints | None = None,
) -> Evaluation: ...


@overload
def evaluate(
    run: EpisodicRun,
    problem: Problem,
    alpha: float,
    allowance: float = 0.0,
    *,
    tolerance: float = 0.0,
    floor: float | None = None,
    checkpoints: Checkpoints | None = None,
) -> EpisodicEvaluation: ...


def evaluate(
    run: Run | EpisodicRun,
    problem: Problem,
    alpha: float,
    allowance: float = 0.0,
    *,
    tolerance: float = 0.0,
    floor: float | None = None,
    checkpoints: Checkpoints | None = None,
) -> Evaluation | EpisodicEvaluation:
    """The exact margin and the regret of a run.

    - `run`: what `simulate` returned.
    - `problem`: the problem that was played.
    - `alpha`: the conservative level of the condition, in [0, 1).
    - `allowance`, `tolerance`: what may be lost in all, and in each step, beside alpha.
    - `floor`: the level that earnings are measured from, for alpha.
    - `checkpoints`: when the condition is kept, if not at every step (or after every episode).

    All amounts are in the unit of the problem's rewards, and mean what they mean for the agents.
    The margin is that of Eq. `cumrew_condition` after every step, or of Eq. `conservative_cond_fh` after every episode.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> run = sf.simulate(problem, sf.UCRL2(problem.space), steps=2000, seed=1)
    >>> result = sf.evaluate(run, problem, alpha=0.1)
    >>> result.violations, result.first_violation
    (135, 2)
    """
    _check_kinds(run, problem)
    may_lose = check_tolerance(alpha, tolerance=tolerance, allowance=allowance, floor=floor, checkpoints=checkpoints)
    if isinstance(run, EpisodicRun):
        return evaluate_episodes(run, problem.mdp, problem.baseline, may_lose)
    by_decisions, steps = decision_margin(run, problem, may_lose), np.arange(1, run.steps + 1)
    if run.knows_policies:
        expected = solve.expected_rewards_along(problem.mdp, run.sequence, run.start)
        baseline = solve.expected_rewards(problem.mdp, problem.baseline, run.start, run.steps)
        margin = may_lose.allowance + expected - may_lose.owed(baseline, steps)
    elif by_decisions is not None:
        expected, baseline, margin = by_decisions.expected, by_decisions.baseline, by_decisions.margin
    else:
        raise NoSingleGain(f"this run cannot be judged: {NO_POLICIES}, and the baseline's gain depends on the state")
    optimum = solve.optimal_gain(problem.mdp)
    best: Floats = steps * np.float64(optimum.gain)
    regrets = (best - np.cumsum(run.rewards), best - expected, decision_regret(run, problem.mdp, optimum))
    judged_by: Condition = "replay" if run.knows_policies else "decisions"
    kept_at = may_lose.kept_at(run.steps)
    return Evaluation(expected, baseline, margin, *regrets, by_decisions, judged_by, kept_at=kept_at)


def _check_kinds(run: Run | EpisodicRun, problem: Problem) -> None:
    """Refuse what is no run or no problem, such as the two the wrong way round."""
    faults: list[str] = []
    if not isinstance(run, Run | EpisodicRun):
        faults.append(f"the run is {shown(run)}: give what sf.simulate returned")
    faults += [] if isinstance(problem, Problem) else [f"the problem is {shown(problem)}: give the Problem"]
    if faults:
        raise InvalidInput("this run cannot be evaluated", faults)


def evaluate_episodes(
    run: EpisodicRun, mdp: Dynamics, baseline: Policy, alpha: float | Tolerance, allowance: float = 0.0
) -> EpisodicEvaluation:
    """The exact margin of Eq. `conservative_cond_fh` after every episode, and the regret."""
    may_lose = alpha if isinstance(alpha, Tolerance) else check_tolerance(alpha, allowance=allowance)
    if mdp.space != baseline.space:
        raise InvalidInput("baseline and MDP do not fit", [f"baseline on {baseline.space}, MDP on {mdp.space}"])
    values = solve.policy_values(mdp, baseline, run.horizon)[0][run.starts]
    base = np.cumsum(values)
    owed_each = may_lose.owed(values, run.horizon)  # each episode has its own share
    owed = np.cumsum(owed_each)
    best = np.cumsum(solve.optimal_values(mdp, run.horizon).values[0][run.starts])
    realised = best - np.cumsum(run.rewards.sum(axis=1))
    worth, kept_at = base + np.cumsum(episode_worth(run, mdp, baseline)), may_lose.kept_at(run.episodes)
    by_decisions = Margin(worth, base, may_lose.allowance + worth - owed, kept_at=kept_at)
    earned, by_episode = worth, None  # if no policy was played for a whole episode, only decisions can be judged
    if run.knows_policies:
        starts, begin = np.unique(run.starts, return_inverse=True)
        first = np.stack([solve.policy_values(mdp, policy, run.horizon)[0][starts] for policy in run.policies])
        each: Floats = sum((weight * first[played, begin] for played, weight in run.parts), np.zeros(run.episodes))
        earned, by_episode = np.cumsum(each), Margin(each, values, each - owed_each)
    margin = may_lose.allowance + earned - owed
    regrets = (realised, best - earned)
    return EpisodicEvaluation(earned, base, margin, *regrets, by_decisions, by_episode, kept_at=kept_at)


def gain_margin(run: Run, problem: Problem, alpha: float) -> Floats:
    """The margin of the gain-based condition, Eq. `condition.gain`, [T]: sum of g^{π_i} - (1 - α) t g_b.

    This condition assumes that every policy earns its gain from its first step. If the gain of a policy depends on the
    state, the gain from the state in which its segment began counts.
    """
    check_alpha(alpha)
    if not run.knows_policies:
        raise InvalidInput("this run has no policies", [NO_POLICIES])
    gains = {q: solve.gain_and_bias(problem.mdp, policy).gains for q, policy in enumerate(run.policies)}
    states = np.r_[run.start, run.next_states]
    steps = np.concatenate([np.full(s.length, gains[s.policy][states[s.first]]) for s in run.segments])
    baseline = solve.gain_and_bias(problem.mdp, problem.baseline).gains[run.start]
    return np.asarray(np.cumsum(steps) - (1 - alpha) * baseline * np.arange(1, run.steps + 1))


def reward_margin(run: Run, problem: Problem, alpha: float, seed: int | np.random.SeedSequence = 0) -> Floats:
    """The margin of the reward-based condition, Eq. `condition.reward`, [T]: against a simulated baseline's rewards.

    Even an optimal policy can violate it by bad luck. `seed` draws the rewards of the baseline.
    """
    check_alpha(alpha)
    rng, coin = (np.random.default_rng(child) for child in np.random.SeedSequence(_entropy(seed)).spawn(2))
    agent, s, earned = FixedPolicy(problem.baseline, coin), run.start, np.empty(run.steps)
    agent.begin(s)
    for t in range(run.steps):
        pair = problem.space.pair(s, agent.act(s).action)
        earned[t], s_next = problem.mdp.draw(rng, pair)
        agent.observe(s, int(problem.space.pair_action[pair]), float(earned[t]), s_next)
        s = s_next
    return np.asarray(np.cumsum(run.rewards) - (1 - alpha) * np.cumsum(earned))


def margin_in_expectation(runs: Sequence[Run], problem: Problem, alpha: float) -> tuple[Floats, Floats]:
    """The margin of the condition in expectation, Eq. `expected_cumrew_condition`, [T], and its standard error.

    The expectation over realisations of the algorithm is estimated by the mean of the given runs' rewards.
    """
    check_alpha(alpha)
    if len(runs) < 2 or len({(run.steps, run.start) for run in runs}) > 1:
        fault = "give at least two runs of one length from one start"
        raise InvalidInput("the margin in expectation cannot be estimated", [fault])
    earned = np.cumsum([run.rewards for run in runs], axis=1)
    baseline = solve.expected_rewards(problem.mdp, problem.baseline, runs[0].start, runs[0].steps)
    margin = earned.mean(axis=0) - (1 - alpha) * baseline
    return np.asarray(margin), np.asarray(earned.std(axis=0, ddof=1) / np.sqrt(len(runs)))


def _entropy(seed: int | np.random.SeedSequence) -> int:
    """A whole number made from a seed."""
    return int(seed.generate_state(1)[0]) if isinstance(seed, np.random.SeedSequence) else int(seed)


def check_alpha(alpha: float) -> None:
    """Raise unless alpha is a conservative level."""
    if not 0 <= alpha < 1:
        raise InvalidInput("this run cannot be evaluated", [f"alpha {alpha} must be at least 0 and less than 1"])


def check_tolerance(alpha: float, **amounts: Any) -> Tolerance:
    """What may be lost; alpha may be 0 with nothing else, which agents refuse."""
    faults: list[str] = []
    if alpha == 0:
        found = replace(Tolerance.parse(0.5, faults, **amounts), alpha=0.0)
    else:
        found = Tolerance.parse(alpha, faults, **amounts)
    if faults:
        raise InvalidInput("this run cannot be evaluated", faults)
    return found
