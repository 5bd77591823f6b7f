"""How long will it take, and is it worth it? `forecast` plays agents on models that may be true, and says so.

Each run draws a model from what is known and then a run on it. If what is known is right, the real run is one more such
draw, so that of n + 1 runs, the real one included, each is equally likely to have the smallest or the largest outcome.
The interval from the smallest to the largest of n outcomes therefore holds the real one with probability at least
(n - 1) / (n + 1), whichever distribution they have. With 20 runs that is 19/21, more than 90 %.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefooted import solve
from surefooted.arrays import is_whole
from surefooted.data.counts import Counts
from surefooted.data.history import History
from surefooted.data.log_times import Step, parse_step
from surefooted.errors import InvalidInput, shown
from surefooted.forecasting.models import Models
from surefooted.forecasting.options import (
    AS_DESCRIBED,
    Compared,
    Option,
    agent_of,
    compared_faults,
    options,
    promise_faults,
)
from surefooted.forecasting.outcomes import Outcome, outcome
from surefooted.knowledge.belief import contradictions
from surefooted.knowledge.knowledge import Knowledge
from surefooted.problems.problem import Problem
from surefooted.problems.problem_file import ProblemFile
from surefooted.simulation.playing import simulate
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Space

RUNS = 20
LIFETIME = 80  # years
MOST_STEPS = 20_000  # of a run, if a lifetime has more


@dataclass(frozen=True)
class Interval:
    """The median of the outcomes of n runs, and the smallest and the largest of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Interval":
        """The interval of some outcomes; infinite ones lie beyond what was played."""
        ordered = np.sort(np.array(values, dtype=np.float64))
        middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
        return cls(
            float(middle[-1] if np.isinf(middle).any() else middle.mean()), float(ordered[0]), float(ordered[-1])
        )

    def holds(self, value: float) -> bool:
        """Whether a value lies in it."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Line:
    """What is forecast for one option: steps until it first explores and until it is free, and what that costs."""

    option: Option
    first: Interval
    free: Interval
    cost: float  # on average, until it is free
    worst: float  # in any run, at any time
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class Forecast:
    """What is to be expected, as `forecast` returns it; `str` of it is a page for people.

    - `lines`: one for each option; the first is what was described.
    - `runs`, `steps`: how many runs were played for each option, and how long each was.
    - `worth`: what an optimal policy earns more than the baseline in a step (or episode), over the models.
    - `space`, `step`, `horizon`: for the words.
    - `guessed`: pairs whose mean reward is neither declared nor logged: there, the prior decides what they earn.
    - `interrupted`: whether it was stopped before all runs were played.
    """

    lines: tuple[Line, ...]
    runs: int
    steps: int
    worth: Interval
    space: Space
    step: Step | None
    horizon: int | None
    interrupted: bool
    seconds: float
    guessed: int = 0

    @property
    def promised(self) -> float:
        """The probability with which each interval holds what then happens, if what is known is right."""
        return (self.runs - 1) / (self.runs + 1)

    def __str__(self) -> str:
        """A page for people."""
        from surefooted.forecasting.wording import page

        return page(self)

    def figure(self) -> Any:
        """A picture: for each option, when it first explores and when it is free."""
        from surefooted.forecasting.pictures import draw

        return draw(self)

    def as_dict(self) -> dict[str, Any]:
        """The forecast as plain values; what lies beyond the runs is None."""
        from surefooted.forecasting.wording import plain

        return plain(self)


def forecast(
    problem: Problem | ProblemFile | Space,
    baseline: Baseline | Policy | None = None,
    *,
    alpha: float | None = None,
    delta: float | None = None,
    allowance: float | None = None,
    tolerance: float | None = None,
    floor: float | None = None,
    history: History | None = None,
    knowledge: Knowledge | None = None,
    start: int = 0,
    horizon: int | None = None,
    step: str | None = None,
    steps: int | None = None,
    runs: int = RUNS,
    seed: int = 0,
    compare: bool = True,
    alphas: Sequence[float] | None = None,
    allowances: Sequence[float] | None = None,
    tell: Sequence[str] | None = None,
    accidents: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Forecast:
    """When an agent first explores and when it is free, what that costs, and what a better policy is worth.

    - `problem`: a `Problem` (its table is taken for the truth), a problem file (`sf.problems.load`), or a `Space`.
      Without a true table, models are drawn from the posterior of `history` within `knowledge`.
    - `baseline`: today's policy, with gain and bias (or values) if they are known.
    - `alpha`, `delta`, `allowance`, `tolerance`, `floor`: as for the agents.
    - `start`, `horizon`: if the problem is a space: the first state, and the length of an episode or None.
    - `step`: the length of a step (with a horizon: of an episode) in the calendar, such as "week".
    - `steps`: how long each run is; by default 80 years, and at most 20 000 steps.
    - `runs`: how many runs for each option; with 20, each interval holds with probability 19/21.
    - `compare`: also what could be chosen or declared instead: twice and four times α, what α lets go in one year and
      in ten as an allowance, and whatever could be told.
    - `alphas`, `allowances`, `tell`: compare these instead. What can be told is "baseline", "rewards" and "mechanics".
    - `seed`: of the models and of the runs.
    - `accidents`: the log's unusable rows are declared to be accidents: as if they had not happened.
    - `progress`: is called with the runs played and all runs. After Ctrl-C, the runs so far are used.

    >>> import surefooted as sf
    >>> result = sf.forecast(sf.problems.riverswim(), alpha=0.2, steps=300, runs=3, compare=False)
    >>> result.lines[0].first.low <= result.lines[0].first.high
    True
    """
    began = time.perf_counter()
    if isinstance(problem, ProblemFile):
        given = problem
        knowledge, history = knowledge or given.knowledge, history or given.history
        accidents, start = accidents or given.accidents, given.start
        if step is None and given.step is not None:  # an episode has as many of them as its horizon
            step = str(Step(given.step.number * (given.horizon or 1), given.step.unit))
        promise = given.promise.arguments
        baseline = baseline or given.baseline
        horizon, truth = given.horizon, None
        space = given.space
    else:
        if not isinstance(problem, Problem | Space):
            fault = f"the problem is {shown(problem)}: give a Problem, what sf.problems.load returns, or a Space"
            raise InvalidInput("this cannot be forecast", [fault])
        promise, horizon = {"alpha": 0.05, "delta": 0.05}, getattr(problem, "horizon", horizon)
        truth = problem if isinstance(problem, Problem) else None
        space = problem.space if isinstance(problem, Problem) else problem
    given_now = {"alpha": alpha, "delta": delta, "allowance": allowance, "tolerance": tolerance, "floor": floor}
    promise |= {key: value for key, value in given_now.items() if value is not None}
    if faults := promise_faults(promise):
        raise InvalidInput("this cannot be forecast", faults)
    held = _baseline(baseline, truth, space)
    if history is not None and (found := contradictions(history.counts, knowledge, promise["delta"])):
        hint = "Correct what is declared, or the log: with a contradiction, an agent plays the baseline for ever."
        raise InvalidInput("the log contradicts what was declared", found, hint)
    calendar = None if step is None else parse_step(step)
    length = _length(steps, runs, calendar, truth is None)
    models = None if truth is not None else Models(_counts(history, space), knowledge, held.policy, start, horizon)
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    drawn: list[Problem] = [truth if truth is not None else models.draw(rng) for _ in range(runs)]  # type: ignore[union-attr]
    worth = [_worth(model) for model in (drawn[:1] if truth is not None else drawn)]
    choices = [Option(AS_DESCRIBED, promise)]
    if compare:
        year = calendar.per_year if calendar is not None else 100.0
        earns = np.median([_earns(model) for model in drawn])
        amount = _round(promise["alpha"] * max(float(earns) - (promise.get("floor") or 0.0), 0.0) * year)
        can_tell, chosen = _can_tell(held, knowledge, drawn[0]), Compared(alphas, allowances, tell)
        if faults := compared_faults(chosen, promise, can_tell):
            raise InvalidInput("this cannot be forecast", faults)
        choices = options(promise, amount, can_tell, space.amount, chosen)
    told = (None if held.is_known and truth is None else held, knowledge, history, accidents)
    outcomes, interrupted = _play(choices, drawn, told, length, seed, progress)
    lines = tuple(_line(option, [each[i] for each in outcomes]) for i, option in enumerate(choices))
    seconds, guessed = time.perf_counter() - began, 0 if models is None else models.guessed
    return Forecast(lines, len(outcomes), length, Interval.of(worth), space, calendar, horizon, interrupted, seconds,
                    guessed)  # fmt: skip


def _line(option: Option, outcomes: list[Outcome]) -> Line:
    """The forecast for one option."""
    first, free = (Interval.of([getattr(each, name) for each in outcomes]) for name in ("first", "free"))
    cost, worst = float(np.mean([each.cost for each in outcomes])), max(each.worst for each in outcomes)
    return Line(option, first, free, cost, worst, tuple(outcomes))


def _play(
    choices: list[Option], drawn: list[Problem], told: tuple[Any, Any, Any, Any], length: int, seed: int,
    progress: Callable[[int, int], None] | None,
) -> tuple[list[list[Outcome]], bool]:  # fmt: skip
    """The outcomes of each run and option; an interruption keeps the runs that are complete."""
    outcomes: list[list[Outcome]] = []
    try:
        for i, model in enumerate(drawn):
            row = []
            for j, option in enumerate(choices):
                own = np.random.SeedSequence(seed, spawn_key=(1, i, j))
                agent: Any = agent_of(option, model, *told, int(own.generate_state(1)[0]))
                length_of = {"steps": length} if model.horizon is None else {"episodes": length}
                run = simulate(model, agent, seed=own, **length_of)
                row.append(outcome(run, model))
                if progress is not None:
                    progress(i * len(choices) + j + 1, len(drawn) * len(choices))
            outcomes.append(row)
    except KeyboardInterrupt:
        if not outcomes:
            raise
        return outcomes, True
    return outcomes, False


def _baseline(given: Baseline | Policy | None, truth: Problem | None, space: Space) -> Baseline:
    """The baseline, checked."""
    if given is None and truth is not None:
        given = truth.baseline
    if isinstance(given, Policy):
        given = Baseline(given)
    if given is None:
        raise InvalidInput("this cannot be forecast", ["the baseline is missing: give today's policy"])
    if given.policy.space != space:
        raise InvalidInput(
            "this cannot be forecast", [f"the baseline is on {given.policy.space}, the problem on {space}"]
        )
    return given


def _counts(history: History | None, space: Space) -> Counts:
    """What was logged; nothing without a log."""
    if history is None:
        return Counts(space)
    if history.counts.stages > 1:
        raise InvalidInput("this cannot be forecast", ["the log was read with stages: read it without"])
    return history.counts


def _length(steps: int | None, runs: int, calendar: Step | None, may_be_long: bool) -> int:
    """How long each run is."""
    faults = [] if steps is None or is_whole(steps, 20) else [f"steps {steps} must be a whole number, at least 20"]
    faults += [] if is_whole(runs, 1) else [f"runs {runs} must be a positive whole number"]
    if faults:
        raise InvalidInput("this cannot be forecast", faults)
    if steps is not None:
        return int(steps)
    return MOST_STEPS if calendar is None else int(min(MOST_STEPS, LIFETIME * calendar.per_year))


def _can_tell(baseline: Baseline, knowledge: Knowledge | None, model: Problem) -> tuple[str, ...]:
    """What could still be declared."""
    declared = None if knowledge is None else knowledge.declared
    parts = [] if baseline.is_known else ["baseline"]
    has_mechanics = knowledge is not None and knowledge.mechanics is not None
    knows_rewards = declared is not None and (declared.reward_mean is not None or declared.reward_of_next is not None)
    if not knows_rewards and not (has_mechanics and knowledge.mechanics.reward is not None):  # type: ignore[union-attr]
        parts.append("rewards")
    if not has_mechanics and model.mechanics is not None:
        parts.append("mechanics")
    return tuple(parts)


def _earns(model: Problem) -> float:
    """What the baseline earns in a step or episode."""
    if model.horizon is not None:
        return float(solve.policy_values(model.mdp, model.baseline, model.horizon)[0, model.start])
    return float(solve.gain_and_bias(model.mdp, model.baseline).gains[model.start])


def _worth(model: Problem) -> float:
    """What an optimal policy earns more than the baseline in a step or episode."""
    if model.horizon is not None:
        best = float(solve.optimal_values(model.mdp, model.horizon).values[0, model.start])
    else:
        best = float(solve.optimal_gain(model.mdp).gains[model.start])
    return max(best - _earns(model), 0.0)


def _round(amount: float) -> float:
    """Two digits."""
    return float(f"{amount:.1e}")
