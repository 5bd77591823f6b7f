"""What is claimed, against exact answers: the bounds of a learner, and the budgets of a conservative agent."""

from collections.abc import Callable
from typing import Any

import numpy as np

from surefooted import solve
from surefooted.agents.episode_settings import EACH_EPISODE
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.explorer import Explorer
from surefooted.evaluation.margin import MARGIN_ROUNDING, Margin
from surefooted.evaluation.margins import evaluate
from surefooted.problems.problem import Problem
from surefooted.simulation.playing import simulate
from surefooted.simulation.run import EpisodicRun, Run
from surefooted.tables.policy import Policy
from surefooted.testing.live import Live, horizon_of, require

Make = Callable[[], Any]


def check_learner(make: Make, problem: Problem, episodes: int = 50, seed: int = 0, tolerance: float = 1e-9) -> None:
    """A learner of episodes proposes policies, and its bounds hold for them and for other policies.

    The bounds may fail with the learner's own probability delta. A failure is reproducible: try several seeds before
    you conclude that a bound is wrong.

    - `make`: builds the learner, or an agent that has one.
    - `problem`: what is played; it has a horizon.
    - `episodes`: how many.
    - `seed`: of the problem's random numbers.
    - `tolerance`: by how much a bound may be off, for rounding.

    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld(slip=0.1)
    >>> sf.testing.check_learner(lambda: sf.UCBVI(problem.space, problem.horizon), problem, episodes=3)
    """
    learner, horizon = make(), problem.horizon
    learner = learner.learner if isinstance(learner, EpisodicPlayer) else learner
    assert horizon is not None, "the problem has no horizon"
    rng, live = np.random.default_rng(seed), Live(Explorer(learner), problem, seed)
    for episode in range(episodes):
        proposed = learner.propose()
        require(isinstance(proposed, Policy), f"episode {episode}: propose must return a Policy, not {proposed!r}")
        require(proposed.space == problem.space, f"episode {episode}: the proposal is on {proposed.space}")
        require(proposed.horizon in (None, horizon), f"episode {episode}: {proposed.horizon} decision rules")
        policies = [proposed, problem.baseline, _any_policy(problem, rng)]
        exact = np.stack([solve.policy_values(problem.mdp, policy, horizon)[0] for policy in policies])
        low, high = learner.bound(policies, "pessimistic"), learner.bound(policies, "optimistic")
        for bound in (low, high):
            require(np.shape(bound) == exact.shape, f"episode {episode}: bounds have shape {np.shape(bound)}")
        require(bool(np.all(low <= exact + tolerance)), f"episode {episode}: a pessimistic bound is above the truth")
        require(bool(np.all(high >= exact - tolerance)), f"episode {episode}: an optimistic bound is below the truth")
        live.play(horizon)


def check_promise(make: Make, problem: Problem, alpha: float, length: int = 300, seed: int = 0) -> None:
    """In one run, a conservative agent violates no condition, and no budget is above the exact margin.

    This may fail with the agent's own probability delta.

    - `make`: builds the agent.
    - `problem`: what it plays.
    - `alpha`: the level that the agent promises.
    - `length`: how many steps or episodes.
    - `seed`: of the problem's random numbers.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> options = {"baseline": sf.Baseline(problem.baseline), "alpha": 0.1}
    >>> sf.testing.check_promise(lambda: sf.CUCRL2(problem.space, **options), problem, alpha=0.1, length=50)
    """
    agent: Any = make()
    run: Run | EpisodicRun
    result: Margin
    if horizon_of(agent, problem):
        run = simulate(problem, agent, episodes=length, seed=seed)
        judged = evaluate(run, problem, alpha)
        result, unit, when = judged, "episode", list(range(length))
        if getattr(agent, "condition", "replay") == EACH_EPISODE and judged.each is not None:
            result, when = judged.each, list(range(1, length + 1))  # a budget is of the episode that begins
    else:
        run = simulate(problem, agent, length, seed)
        found = evaluate(run, problem, alpha)
        result, unit, when = found, "step", [decision.t for decision in run.decisions]
        if getattr(agent, "condition", "replay") == "decisions":
            result = found.decisions
    require(result.violations == 0, f"the condition is violated after {result.violations} {unit}s")
    exact, earned = np.r_[0.0, result.margin], np.r_[0.0, result.baseline]
    for t, decision in zip(when, run.decisions, strict=True):
        if decision.budget is None:
            require(unit == "step", f"episode {t}: there is no budget")
        else:
            require(
                decision.budget <= exact[t] + MARGIN_ROUNDING * max(1.0, float(earned[t])),
                f"{unit} {t}: a budget of {decision.budget} where {exact[t]} is the exact margin",
            )


def _any_policy(problem: Problem, rng: np.random.Generator) -> Policy:
    """A randomised policy with a decision rule for each stage."""
    weights = rng.random((problem.horizon or 1, problem.space.n_pairs)) ** 3 + 1e-3
    sums = np.add.reduceat(weights, problem.space.pair_ptr[:-1], axis=1)
    return Policy(problem.space, weights=weights / np.repeat(sums, np.diff(problem.space.pair_ptr), axis=1))
