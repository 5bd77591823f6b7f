"""The facts about a problem: sizes, gains or values of an optimal policy and of the baseline, diameters."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefooted import solve
from surefooted.errors import NoSingleGain
from surefooted.evaluation.hardness import hardness
from surefooted.problems import Problem
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.money import Money

DIAMETERS = 300  # by default, diameters are computed for at most this many states
LISTED = Path(__file__).with_name("listed.json")  # what `surefooted problems` lists; benchmarks/hardness.py writes it
DIGITS = 6  # of the numbers in it

Value = float | int | str | None
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Fact:
    """One fact: its key for machines, its words for people, our value, and the paper's value if it prints one.

    `money` says in which unit an amount is.
    """

    key: str
    words: str
    value: Value
    paper: float | None = None
    money: Money | None = None


def of_problem(problem: Problem, diameters: bool | None = None, progress: Progress | None = None) -> list[Fact]:
    """The facts about a problem; with `diameters` None, the diameters of at most DIAMETERS states are computed."""
    mdp, baseline, start = problem.mdp, problem.baseline, problem.start
    money, paper = mdp.space.money, problem.paper
    facts = _sizes(mdp)
    facts.append(Fact("start", "start state", problem.state_labels[start]))
    if problem.horizon is not None:
        best = solve.optimal_values(mdp, problem.horizon).values[0, start]
        played = solve.policy_values(mdp, baseline, problem.horizon)[0, start]
        facts.append(Fact("horizon", "horizon H", problem.horizon, paper.get("horizon")))
        facts.append(Fact("optimal_value", "optimal value V* of the start", float(best), money=money))
        facts.append(Fact("baseline_value", "baseline's value V_b of the start", float(played), money=money))
    else:
        facts += _optimal(mdp, start, paper.get("optimal gain"))
        evaluated = solve.gain_and_bias(mdp, baseline)
        facts.append(
            Fact("baseline_gain", "baseline's gain g_b", _gain(evaluated, start), paper.get("baseline gain"), money)
        )
        facts.append(
            Fact("baseline_span", "baseline's span sp(h_b)", evaluated.span, paper.get("baseline span"), money)
        )
    return facts + _hardness(problem) + _diameters(mdp, diameters, progress)


def listed(problem: Problem) -> dict[str, Any]:
    """What the list of problems says of one: a few of its facts, rounded, with "inf" for an infinite diameter."""
    mdp, horizon, measured = problem.mdp, problem.horizon, hardness(problem)
    if horizon is None:
        best = float(solve.optimal_gain(mdp).gains[problem.start])
        played = float(solve.gain_and_bias(mdp, problem.baseline).gains[problem.start])
    else:
        best = float(solve.optimal_values(mdp, horizon).values[0, problem.start])
        played = float(solve.policy_values(mdp, problem.baseline, horizon)[0, problem.start])
    numbers = {
        "optimal": best,
        "baseline": played,
        "to_gain": measured.to_gain,
        "span": measured.span,
        "diameter": solve.diameter(mdp),
        "smallest_gap": measured.smallest_gap,
        "reserve": measured.reserve,
    }
    row: dict[str, Any] = {"n_states": mdp.n_states, "n_pairs": mdp.space.n_pairs, "horizon": horizon}
    return row | {key: _rounded(value) for key, value in numbers.items()}


def _rounded(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return None if value is None else float(f"{value:.{DIGITS}g}")
    return "inf"


def _hardness(problem: Problem) -> list[Fact]:
    """How hard the problem is to explore, and safely so."""
    measured = hardness(problem)
    spent = "steps" if problem.horizon is None else "episodes"
    facts = [Fact("to_gain", "more that an optimal policy earns, as a share", measured.to_gain)]
    if problem.horizon is not None:
        facts.append(Fact("optimal_span", "span of the optimal values", measured.span))
    facts.append(Fact("smallest_gap", "smallest loss of a pair that is not optimal", measured.smallest_gap))
    facts.append(Fact("reserve", f"reserve: worst departure, in baseline {spent}", measured.reserve))
    return [fact for fact in facts if fact.value is not None]


def of_table(mdp: TabularMDP, diameters: bool | None = None, progress: Progress | None = None) -> list[Fact]:
    """The facts about a table alone, for average reward."""
    return _sizes(mdp) + _optimal(mdp, None, None) + _diameters(mdp, diameters, progress)


def _sizes(mdp: TabularMDP) -> list[Fact]:
    """The sizes of the table, and the scale and noise of its rewards."""
    noise = mdp.noise.kind + (f" ({mdp.noise.scale:g})" if mdp.noise.scale else "")
    units = mdp.space.money.words if mdp.space.low != 0 or mdp.space.unit else "as they are"
    if (mdp.reward_offset, mdp.reward_scale) != (0.0, 1.0):
        units = f"{mdp.reward_offset:.6g} + {mdp.reward_scale:.6g} r"
    return [
        Fact("n_states", "states S", mdp.n_states),
        Fact("n_actions", "actions A", mdp.space.n_actions),
        Fact("n_pairs", "state–action pairs", mdp.space.n_pairs),
        Fact("n_transitions", "transitions stored", int(mdp.p.size)),
        Fact("r_max", "largest reward r_max", mdp.space.high, money=mdp.space.money),
        Fact("reward_noise", "reward noise", noise),
        Fact("reward_units", "rewards in their own units", units),
    ]


def _gain(solved: solve.GainAndBias | solve.OptimalGain, start: int | None) -> float:
    """The gain from the start; without a start, the gain that all states share."""
    return solved.gain if start is None else float(solved.gains[start])


def _optimal(mdp: TabularMDP, start: int | None, paper: float | None) -> list[Fact]:
    """The optimal gain and the span of its bias."""
    best = solve.optimal_gain(mdp)
    try:
        gain: Value = _gain(best, start)
    except NoSingleGain:
        gain = f"{best.gains.min():.6g} to {best.gains.max():.6g}, depending on the state"
    return [
        Fact("optimal_gain", "optimal gain g*", gain, paper, mdp.space.money),
        Fact("optimal_span", "span of an optimal policy's bias", best.span, money=mdp.space.money),
    ]


def _diameters(mdp: TabularMDP, wanted: bool | None, progress: Progress | None) -> list[Fact]:
    """D and Υ; None if they were not computed."""
    compute = mdp.n_states <= DIAMETERS if wanted is None else wanted
    facts = []
    for key, words, function in (
        ("diameter", "diameter D", solve.diameter),
        ("worst_case_diameter", "worst-case diameter Υ", solve.worst_case_diameter),
    ):

        def report(done: int, total: int, words: str = words) -> None:
            if progress is not None:
                progress(words, done, total)

        facts.append(Fact(key, words, function(mdp, report) if compute else None))
    return facts
