"""What a study is: a problem, agents, a length, realisations and a seed.

    name = "stock"
    steps = 70_000
    realisations = 100
    problem = "inventory"            # or "file.npz", "file.toml" or "package.module:function"; or a table, or several

    [agents.cucrl2]
    kind = "CUCRL2"                  # or "package.module:Class"; the rest are its arguments
    alpha = [0.05, 0.1]

A *setting* is an agent with one α on one problem. A *realisation* is one run of a setting, with its own seed.
"""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
import tomli_w
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from surefooted.errors import InvalidInput
from surefooted.studies.columns import NUMBERS
from surefooted.studies.settings import Setting, digest, flat, problem_label, settings_of
from surefooted.tables.space import Ints

Share = Annotated[float, Field(ge=0, lt=1)]  # 0 with an allowance or a tolerance; agents check that
Shares = Annotated[
    tuple[Share, ...],
    BeforeValidator(lambda x: x if isinstance(x, list | tuple) else (x,)),
    AfterValidator(lambda x: _distinct(x)),
]
Count = Annotated[int, Field(strict=True, ge=1)]
MOST_RUNS = 1_000_000  # of a study: each is a file and an entry in memory
MOST_POINTS = 50_000_000  # of all curves: 6 GB in memory
NOT_IDENTITY = {"realisations", "title", "about", "claims", "name"}  # what may change while the runs stay the same
LATER = {"problems", "grid", "sources", "numbers", "paired"}  # keys that older versions did not have


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ProblemSpec(BaseModel):
    """A problem by name, file or function, what it is called, and its parameters (all other keys)."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    label: str | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The other keys."""
        return dict(self.model_extra or {})


Named = Annotated[ProblemSpec, BeforeValidator(lambda x: {"name": x} if isinstance(x, str) else x)]


class AgentSpec(BaseModel):
    """An agent by name or class, its values of α, and its arguments (all other keys).

    An agent that is not conservative does not use α; its runs are evaluated with it.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: str
    alpha: Shares | None = None
    baseline: Literal["known", "unknown"] = "known"
    label: str | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The other keys."""
        return dict(self.model_extra or {})


class RecordSpec(_Strict):
    """What to record of a run: the number of points of its curves, and the length of its initial phase."""

    points: int = Field(default=400, strict=True, ge=2, le=100_000)
    initial: Count | None = None


class Claim(_Strict):
    """A number that the paper prints, and the agent and column of the table of runs to compare it with."""

    what: str
    value: float
    agent: str | None = None
    column: str | None = None
    note: str = ""


class StudySpec(_Strict):
    """A study, as `read` and `parse` return it.

    - `name`, `title`, `about`: for people.
    - `problem` or `problems`, `agents`: what is run.
    - `steps` or `episodes`: the length of a run.
    - `realisations`: the number of runs of each setting.
    - `seed`: of all runs.
    - `alpha`: the values of α for agents that give none.
    - `grid`: more values of parameters of the problem or of agents, or of the seed; each combination is run.
    - `paired`: the same realisation of two settings has the same world: the same seed for what the problem draws.
    - `record`: what to keep of each run.
    - `claims`: numbers that the paper prints.
    - `sources`, `numbers`: the source of code that the study names, and the numbers of settings; `run_study` adds them.

    >>> import surefooted as sf
    >>> agents = {"ucrl2": {"kind": "UCRL2"}}
    >>> study = sf.studies.parse({"name": "short", "problem": "riverswim", "steps": 50, "agents": agents})
    >>> study.length, study.unit, study.realisations
    (50, 'steps', 20)
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    title: str = ""
    about: str = ""
    problem: Named | None = None
    problems: tuple[Named, ...] | None = Field(default=None, min_length=1)
    agents: dict[str, AgentSpec] = Field(min_length=1)
    steps: Count | None = None
    episodes: Count | None = None
    realisations: Count = 20
    seed: int = Field(default=0, strict=True, ge=0)
    alpha: Shares = (0.05,)
    grid: dict[str, Any] | None = None
    paired: bool = False
    record: RecordSpec = RecordSpec()
    claims: tuple[Claim, ...] = ()
    sources: dict[str, str] | None = None
    numbers: dict[str, int] | None = None

    @model_validator(mode="after")
    def _lengths(self) -> Self:
        if (self.steps is None) == (self.episodes is None):
            raise ValueError("give either `steps` (average reward) or `episodes` (finite horizon)")
        if self.record.initial is not None and self.record.initial > self.length:
            raise ValueError(f"record.initial {self.record.initial} is longer than the run, {self.length}")
        if (self.problem is None) == (self.problems is None):
            raise ValueError("give either `problem` (one) or `problems` (several)")
        self._check_grid()
        runs = self.realisations * self._size()
        if runs > MOST_RUNS:
            raise ValueError(f"{runs} runs (realisations times settings) are more than {MOST_RUNS}")
        if runs * min(self.record.points, self.length) > MOST_POINTS:
            raise ValueError(f"{runs} runs with {self.record.points} points are more than {MOST_POINTS} points in all")
        for claim in self.claims:
            if claim.agent is not None and claim.agent not in self.agents:
                raise ValueError(f"a claim is about agent {claim.agent!r}, which is not one of the study")
            if claim.column is not None and claim.column not in NUMBERS:
                raise ValueError(f"a claim is about column {claim.column!r}; there are {', '.join(NUMBERS)}")
        called = [problem_label(problem) for problem in self.every_problem]
        if twice := sorted({label for label in called if called.count(label) > 1}):
            raise ValueError(f"several problems are called {', '.join(twice)}: give each a `label` of its own")
        _ = self.settings
        return self

    def _check_grid(self) -> None:
        for path, values in flat(self.grid or {}).items():
            part, *below = path.split(".")
            known = (part == "seed" and not below) or (part == "problem" and len(below) >= 1)
            if not (known or (part == "agents" and len(below) >= 2 and below[0] in self.agents)):
                raise ValueError(f"grid.{path}: a grid is over problem.KEY, agents.NAME.KEY of an agent, and seed")
            if not values or any(value in values[:i] for i, value in enumerate(values)):
                raise ValueError(f"grid.{path}: give a list of values, and none twice")
            if part == "seed" and any(type(value) is not int or value < 0 for value in values):
                raise ValueError(f"grid.{path}: seeds are whole numbers from 0 on")

    def _size(self) -> int:
        """At least the number of settings, by arithmetic: a grid may be too large to be made."""
        sizes = {path: len(values) for path, values in flat(self.grid or {}).items()}
        shared = math.prod(size for path, size in sizes.items() if not path.startswith("agents."))
        own = [
            len(agent.alpha or self.alpha)
            * math.prod(size for path, size in sizes.items() if path.startswith(f"agents.{name}."))
            for name, agent in self.agents.items()
        ]
        return len(self.every_problem) * shared * sum(own)

    @property
    def every_problem(self) -> tuple[ProblemSpec, ...]:
        """The problems, without the grid."""
        return self.problems or ((self.problem,) if self.problem is not None else ())

    @property
    def length(self) -> int:
        """The number of steps or episodes of a run."""
        return self.steps or self.episodes or 0

    @property
    def unit(self) -> str:
        """The unit of the length: "steps" or "episodes"."""
        return "steps" if self.steps else "episodes"

    @property
    def initial(self) -> int:
        """The length of the initial phase, whose violations are counted separately; by default a tenth of the run."""
        return self.record.initial or max(1, self.length // 10)

    @property
    def recorded(self) -> Ints:
        """The steps (or episodes) after which a curve has a point, [points]."""
        return np.unique(np.ceil(np.linspace(0, self.length, self.record.points + 1)[1:]).astype(np.int64))

    @cached_property
    def settings(self) -> list[Setting]:
        """Each agent with each of its values of α, on each problem, at each point of the grid."""
        return settings_of(self)

    @cached_property
    def _by_number(self) -> dict[int, Setting]:
        return {setting.index: setting for setting in self.settings}

    def setting(self, number: int) -> Setting:
        """The setting with that number."""
        return self._by_number[number]

    @property
    def code(self) -> list[str]:
        """The code that the study names as `package.module:name`; it runs only if it is allowed (`own_code`)."""
        return [*dict.fromkeys(word for setting in self.settings for word in setting.code)]

    @property
    def identity(self) -> str:
        """A hash of everything that changes a run; the same study with more realisations has the same identity."""
        content = self.model_dump(mode="json", exclude=NOT_IDENTITY, exclude_none=True)
        content = {key: value for key, value in content.items() if value or key not in LATER}
        content["settings"] = [(setting.agent, setting.alpha) for setting in self.settings]  # their order counts
        return digest(content)

    def changed(self, **values: Any) -> "StudySpec":
        """The same study with other values."""
        return StudySpec.model_validate(self.model_dump(mode="json", exclude_none=True) | values)

    def to_toml(self) -> str:
        """The study as a TOML file, with all defaults."""
        content = json.loads(self.model_dump_json(exclude_none=True))
        return tomli_w.dumps({key: value for key, value in content.items() if value or key not in LATER})


@dataclass(frozen=True)
class Task:
    """One realisation of one setting."""

    setting: int
    realisation: int

    @property
    def name(self) -> str:
        """The name of its part."""
        return f"{self.setting:03d}-{self.realisation:06d}"


def tasks(study: StudySpec, shard: tuple[int, int] = (1, 1)) -> list[Task]:
    """All tasks of a study, realisation by realisation; with a shard (i, n), every n-th task from the i-th on."""
    if not 1 <= shard[0] <= shard[1]:
        raise InvalidInput("this study cannot be run", [f"shard {shard[0]}/{shard[1]}: I/N needs 1 <= I <= N"])
    every = [Task(s.index, k) for k in range(study.realisations) for s in study.settings]
    return every[shard[0] - 1 :: shard[1]]


def seeds(study: StudySpec, task: Task) -> tuple[np.random.SeedSequence, np.random.SeedSequence]:
    """The seeds of the problem and of the agent; they depend on the study's seed and on the task alone."""
    seed = study.setting(task.setting).seed
    root = np.random.SeedSequence(seed, spawn_key=(task.setting, task.realisation))
    world, agent = root.spawn(2)
    return (np.random.SeedSequence(seed, spawn_key=(task.realisation,)) if study.paired else world), agent


def _distinct(values: tuple[float, ...]) -> tuple[float, ...]:
    """The values, if there is at least one and none occurs twice."""
    if not values or len(set(values)) < len(values):
        raise ValueError("give at least one α, and none twice")
    return values
