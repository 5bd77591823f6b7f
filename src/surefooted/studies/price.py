"""What safety costs: the conservative agents of finished studies beside the learners that they are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from surefooted import solve
from surefooted.studies.building import build_problem
from surefooted.studies.columns import kept
from surefooted.studies.results import Results
from surefooted.tables.space import Floats

CONDITIONS = ("replay", "decisions")


@dataclass(frozen=True)
class Price:
    """One agent with one α on one problem, over all runs.

    - `problem`, `agent`, `unit`, `alpha`: what was run, and whether its length counts steps or episodes.
    - `condition`: the one that the agent keeps; None if it keeps none.
    - `learner`: the agent that it is compared with, which is not conservative; itself if it is none.
    - `runs`, `length`: how many runs of which length.
    - `baseline`: the mean number of baseline steps (or episodes) of a run.
    - `floor`: how many baseline steps (or episodes) the learner's own decisions would have needed with hindsight: the
      deepest shortfall of its margin, divided by α times what the baseline earns in one.
    - `regret`, `relative`, `relative_half`: the mean regret; divided by the learner's; and the half-width of its 95 %
      interval, by the delta method.
    - `violated`: of each condition, the number of runs that violate it; None if it is not known.
    - `shortfall`: of each condition, the deepest shortfall of all runs, in steps (or episodes) of the baseline.
    """

    problem: str
    agent: str
    unit: str
    alpha: float
    condition: str | None
    learner: str
    runs: int
    length: int
    baseline: float
    floor: float
    regret: float
    relative: float
    relative_half: float
    violated: dict[str, int | None]
    shortfall: dict[str, float | None]

    @property
    def is_free(self) -> bool:
        """Whether the agent is not conservative."""
        return self.agent == self.learner


def prices(results: Results, called: str, compare: Mapping[str, str]) -> list[Price]:
    """The price of each setting of a study, in its order.

    - `results`: the study.
    - `called`: what its problem is called.
    - `compare`: which agent each conservative one is compared with; the others are compared with themselves.

    Regret is that of decisions in a study of steps, and the expected one in a study of episodes.
    """
    study, settings = results.study, results.settings
    assert study.problem is not None
    problem = build_problem(study.problem, allow_code=True)
    if problem.horizon is None:
        each = solve.gain_and_bias(problem.mdp, problem.baseline).gain
    else:
        each = float(solve.policy_values(problem.mdp, problem.baseline, problem.horizon)[0, problem.start])
    regret = "pseudo_regret" if study.episodes is not None else "decisions_regret"
    found = []
    for setting in settings:
        name = compare.get(setting.agent, setting.agent)
        free = next((s for s in settings if (s.agent, s.alpha) == (name, setting.alpha)), None)
        if free is None:
            continue  # its learner has no finished run yet
        own, other = results.column(setting, regret), results.column(free, regret)
        condition = results.condition(setting)
        below = np.maximum(-results.column(free, kept(condition, "min_margin")), 0.0)
        relative, half = _ratio(own, other) if setting != free else (1.0, 0.0)
        found.append(
            Price(
                problem=called,
                agent=setting.label,
                unit=study.unit,
                alpha=setting.alpha,
                condition=condition,
                learner=free.label,
                runs=len(own),
                length=study.length,
                baseline=float(results.column(setting, "baseline_steps").mean()),
                floor=float(below.mean()) / (setting.alpha * each),
                regret=float(own.mean()),
                relative=relative,
                relative_half=half,
                violated={c: _count(results.column(setting, kept(c, "violations_total"))) for c in CONDITIONS},
                shortfall={c: _depth(results.column(setting, kept(c, "min_margin")), each) for c in CONDITIONS},
            )
        )
    return found


def _ratio(own: Floats, other: Floats) -> tuple[float, float]:
    """The ratio of two independent means, and the half-width of its 95 % interval (delta method, Student's t)."""
    ratio = float(own.mean() / other.mean())
    if min(own.size, other.size) < 2:
        return ratio, float("nan")
    parts = [values.var(ddof=1) / values.size / values.mean() ** 2 for values in (own, other)]
    return ratio, float(abs(ratio) * stdtrit(min(own.size, other.size) - 1, 0.975) * np.sqrt(sum(parts)))


def _count(violations: Any) -> int | None:
    known = violations.astype(float)
    return int(np.count_nonzero(known)) if np.isfinite(known).all() else None


def _depth(margins: Any, each: float) -> float | None:
    known = margins.astype(float)
    return max(0.0, -float(known.min())) / each if np.isfinite(known).all() else None


def summary(rows: Sequence[Price]) -> list[list[str]]:
    """One line per agent over all problems, with a heading: medians, a range, and how many runs violate."""
    head = ["agent", "keeps", "baseline plays", "floor", "regret ÷ learner's", "range", "violate replay"]
    lines = [[*head, "violate decisions"]]
    for agent in dict.fromkeys((row.agent, row.unit, row.alpha) for row in rows):
        own = [row for row in rows if (row.agent, row.unit, row.alpha) == agent]
        relative = [row.relative for row in own]
        lines.append(
            [
                agent[0],
                own[0].condition or "–",
                f"{np.median([row.baseline / row.length for row in own]):.1%}",
                f"{np.median([min(row.floor / row.length, 1.0) for row in own]):.1%}",
                f"{np.median(relative):.2f}",
                "–" if own[0].is_free else f"{min(relative):.2f} to {max(relative):.2f}",
                *(_runs(own, condition) for condition in CONDITIONS),
            ]
        )
    return lines


def details(rows: Sequence[Price]) -> list[list[str]]:
    """One line per problem and agent, with a heading."""
    head = ["problem", "agent", "keeps", "baseline plays", "floor", "regret", "regret ÷ learner's"]
    lines = [[*head, "violate replay", "violate decisions"]]
    for row in rows:
        half = f" ± {row.relative_half:.2f}" if np.isfinite(row.relative_half) and row.relative_half > 0 else ""
        numbers = [f"{row.baseline:,.0f}", f"{row.floor:,.0f}", f"{row.regret:,.1f}", f"{row.relative:.2f}{half}"]
        runs = [_runs([row], condition) for condition in CONDITIONS]
        lines.append([row.problem, row.agent, row.condition or "–", *(n.replace(",", " ") for n in numbers), *runs])
    return lines


def _runs(rows: Sequence[Price], condition: str) -> str:
    """How many runs violate a condition, of how many."""
    known = [(row.violated[condition], row.runs) for row in rows]
    if any(count is None for count, _ in known):
        return "–"
    return f"{sum(count or 0 for count, _ in known)} of {sum(runs for _, runs in known)}"


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; the first line is its heading."""
    head, *rest = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([head, "|" + "---|" * len(lines[0]), *rest]) + "\n"
