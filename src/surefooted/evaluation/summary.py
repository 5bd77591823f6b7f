"""The facts about a problem: sizes, gains or values of an optimal policy and of the baseline, diameters."""

from collections.abc import Callable
from dataclasses import dataclass

from surefooted import solve
from surefooted.errors import NoSingleGain
from surefooted.problems import Problem
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.money import Money

DIAMETERS = 300  # by default, diameters are computed for at most this many states

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
    return facts + _diameters(mdp, diameters, progress)


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
