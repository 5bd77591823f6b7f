"""What is exactly true of a study's problem and is shown beside the runs.

It is computed once, when the study is run, and stored as plain arrays. Figures and reports only read it: they build no
problem and import nothing that a study names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from surefooted import solve
from surefooted.errors import InvalidInput, NotConverged
from surefooted.evaluation.sketch import Panel, Sketch, sketch
from surefooted.evaluation.summary import of_problem
from surefooted.problems import Problem
from surefooted.studies.spec import StudySpec
from surefooted.tables.space import Floats, Ints

CELLS = 10_000_000  # of a picture: a file that asks for more would use up the memory


@dataclass(frozen=True)
class Printed:
    """A number about the problem that the paper prints: its words, the paper's value, and ours as text."""

    words: str
    paper: float
    ours: str


@dataclass(frozen=True)
class Truth:
    """What is exactly true of a study's problem.

    - `step`: the steps (or episodes) of the curves, [points].
    - `baseline_regret`: the expected regret of always playing the baseline until then, [points].
    - `printed`: the numbers about the problem that the paper prints.
    - `sketch`: the picture of the problem; None if its exact answers cannot be computed.
    """

    NAMES: ClassVar = (  # of the arrays in a file
        *("step", "baseline_regret", "printed_words", "printed_paper", "printed_ours", "sketch_title"),
        *("sketch_measure", "panel_titles", "panel_glyphs", "panel_values", "state_labels", "axes", "positions"),
    )
    step: Ints
    baseline_regret: Floats
    printed: tuple[Printed, ...]
    sketch: Sketch | None

    @classmethod
    def of(cls, study: StudySpec, problem: Problem) -> Self:
        """Compute it."""
        facts = [fact for fact in of_problem(problem, False) if fact.paper is not None] if problem.paper else []
        printed = tuple(Printed(fact.words, float(fact.paper or 0), _words(fact.value)) for fact in facts)
        try:
            shown = sketch(problem)
        except NotConverged:
            shown = None
        return cls(study.recorded, baseline_regret(problem, study.recorded), printed, shown)

    def columns(self) -> dict[str, Any]:
        """The named arrays of a file."""
        columns: dict[str, Any] = {
            "step": self.step,
            "baseline_regret": self.baseline_regret,
            "printed_words": np.array([fact.words for fact in self.printed], dtype=np.str_),
            "printed_paper": np.array([fact.paper for fact in self.printed], dtype=np.float64),
            "printed_ours": np.array([fact.ours for fact in self.printed], dtype=np.str_),
        }
        if self.sketch is None:
            return columns
        columns |= {
            "sketch_title": self.sketch.title,
            "sketch_measure": self.sketch.measure,
            "panel_titles": np.array([panel.title for panel in self.sketch.panels]),
            "panel_glyphs": np.array([list(panel.glyphs) for panel in self.sketch.panels]),  # [2, S]
            "panel_values": np.array([panel.values for panel in self.sketch.panels]),  # [2, S]
            "state_labels": np.array(self.sketch.state_labels),
            "axes": np.array(self.sketch.axes),
        }
        return columns | ({} if self.sketch.positions is None else {"positions": self.sketch.positions})

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> Self:
        """The truth of the named arrays that `columns` returns."""
        step, lost = columns["step"], np.asarray(columns["baseline_regret"], dtype=np.float64)
        if step.ndim != 1 or step.shape != lost.shape:
            raise InvalidInput("this is no truth of a study", [f"{lost.shape} regrets at {step.shape} steps"])
        printed = zip(*(columns[f"printed_{name}"].tolist() for name in ("words", "paper", "ours")), strict=True)
        shown = _sketch(columns) if "sketch_title" in columns else None
        return cls(step, lost, tuple(Printed(str(w), float(p), str(o)) for w, p, o in printed), shown)


def baseline_regret(problem: Problem, steps: Ints) -> Floats:
    """The exact expected regret of always playing the baseline for so many steps (or episodes), [points]."""
    if problem.horizon is not None:
        best = solve.optimal_values(problem.mdp, problem.horizon).values[0, problem.start]
        lost = best - solve.policy_values(problem.mdp, problem.baseline, problem.horizon)[0, problem.start]
        return np.asarray(lost * steps)
    earned = solve.expected_rewards(problem.mdp, problem.baseline, problem.start, int(steps[-1]))
    return np.asarray(steps * solve.optimal_gain(problem.mdp).gain - earned[steps - 1])


def _sketch(columns: Mapping[str, Any]) -> Sketch:
    """The sketch of the named arrays."""
    labels, positions = columns["state_labels"].tolist(), columns.get("positions")
    values, glyphs = np.asarray(columns["panel_values"], dtype=np.float64), columns["panel_glyphs"]
    if not labels or not values.shape == glyphs.shape == (2, len(labels)):
        fault = f"{values.shape} values and {glyphs.shape} glyphs for {len(labels)} states"
        raise InvalidInput("this is no sketch of a problem", [fault])
    if positions is not None and not (
        positions.shape == (len(labels), 2)
        and np.issubdtype(positions.dtype, np.integer)
        and np.prod(np.ptp(positions.astype(np.float64), axis=0) + 1) <= CELLS
    ):
        raise InvalidInput("this is no sketch of a problem", [f"positions {positions.dtype} {positions.shape}"])
    first, second = (
        Panel(str(title), glyph.tolist(), value)
        for title, glyph, value in zip(columns["panel_titles"], glyphs, values, strict=True)
    )
    title, measure = str(columns["sketch_title"]), str(columns["sketch_measure"])
    return Sketch(title, measure, (first, second), labels, positions, columns["axes"].tolist())


def _words(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
