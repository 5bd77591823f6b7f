"""A problem as a file describes it: what an agent is told, and the truth only where the file gives it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefooted.data.history import History
from surefooted.data.log_times import Step
from surefooted.errors import InvalidInput
from surefooted.knowledge.knowledge import Knowledge
from surefooted.problems.guardrails import FileGuardrail
from surefooted.problems.problem import Problem
from surefooted.tables.baseline import Baseline
from surefooted.tables.space import Space


@dataclass(frozen=True)
class Promise:
    """What may be lost, as agents take it, and the failure probability."""

    alpha: float = 0.05
    delta: float = 0.05
    tolerance: float = 0.0
    allowance: float = 0.0
    floor: float | None = None
    checkpoints: int | list[int] | None = None
    condition: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of CUCRL2 and CUCBVI; what is not given is left out."""
        given = {"alpha": self.alpha, "delta": self.delta, "tolerance": self.tolerance, "allowance": self.allowance}
        names = ("floor", "checkpoints", "condition")
        return given | {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True, eq=False)
class ProblemFile:
    """What a problem file says, as `problems.load` returns it.

    - `space`: states and actions with their labels, and the range and unit of rewards.
    - `baseline`: today's policy, with gain and bias if the file gives them.
    - `start`, `horizon`: the first state, and the length of an episode or None for average reward.
    - `knowledge`: what is known beforehand, or None.
    - `history`, `accidents`: the logs, or None, and whether their unusable rows are declared to be accidents.
    - `step`: the length of a step in the calendar, or None.
    - `promise`: what may be lost.
    - `problem`: the true table, only if the file has a `[model]`.
    - `log_options`: how its logs are read, as `read_history` takes them.
    - `guardrails`: further numbers that must not get worse; the advisor guards them.
    """

    path: Path
    name: str
    title: str
    space: Space
    baseline: Baseline
    start: int
    horizon: int | None
    knowledge: Knowledge | None
    history: History | None
    accidents: bool
    step: Step | None
    promise: Promise
    problem: Problem | None
    log_options: dict[str, Any]
    guardrails: tuple[FileGuardrail, ...] = ()

    @property
    def unit(self) -> str:
        """The unit of rewards."""
        return self.space.unit

    @property
    def state_labels(self) -> tuple[str, ...]:
        """The names of the states."""
        return self.space.state_names or tuple(str(s) for s in range(self.space.n_states))

    @property
    def action_labels(self) -> tuple[str, ...]:
        """The names of the actions."""
        return self.space.action_names or tuple(str(a) for a in range(self.space.n_actions))

    def true_problem(self) -> Problem:
        """The problem with its true table; an error says what the file lacks for it."""
        if self.problem is not None:
            return self.problem
        fault = "it has no [model]: neither the laws of the noise nor transitions are given"
        hint = "Add [model] with laws (and mechanics with a reward), or with transitions and rewards."
        raise InvalidInput(f"{self.path} does not say what is true", [fault], hint)
