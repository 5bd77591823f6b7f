"""The settings of a study: each problem, each agent, each point of the grid, each seed and each α.

A setting is known by its content, `Setting.key`: what its runs depend on, and no names of agents or labels. Its number,
`Setting.index`, names the files of its runs and gives their seeds. In a new directory settings are numbered in the
order of the study; a directory keeps the numbers that it has given (`growth.py`).
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from surefooted.own_code import is_code

if TYPE_CHECKING:
    from surefooted.studies.spec import AgentSpec, ProblemSpec, StudySpec

NAMING = ("kind", "confidence", "knowledge", "learner")  # arguments of an agent that name something to build
Point = tuple[tuple[str, Any], ...]  # of a grid: dotted paths with values


@dataclass(frozen=True)
class Setting:
    """An agent with one α on one problem, and what it is known by.

    - `index`: its number in the directory of results, also in `Task.setting`.
    - `agent`, `alpha`, `label`: the agent's key in the study, its α, and its name for people.
    - `on`: the name of its problem for people.
    - `problem`, `spec`, `seed`: the problem, the agent and the seed, with the values of the grid.
    - `key`: a hash of everything that its runs depend on, except the source of code that the study names.
    - `source`: a hash of that source; empty if there is none.
    - `look`: the number of its colour in figures: the same on every problem.
    """

    index: int
    agent: str
    alpha: float
    label: str
    on: str
    problem: "ProblemSpec"
    spec: "AgentSpec"
    seed: int
    key: str
    source: str = ""
    look: int = 0

    @property
    def code(self) -> list[str]:
        """The code that the setting names as `package.module:name`."""
        return [word for word in (self.problem.name, self.spec.kind, *named(self.spec.parameters)) if is_code(word)]


def settings_of(study: "StudySpec") -> list[Setting]:
    """All settings of a study, in its order: problem by problem, agent by agent, then the grid, seeds and α."""
    found: list[Setting] = []
    points = {part: _points(study.grid or {}, part) for part in ("problem", "seed")}
    for problem, point in product(study.every_problem, points["problem"]):
        problem_here, on = _at(problem, point, 1), _with(problem_label(problem), point)
        for name, agent in study.agents.items():
            base = _label(study, name)
            for own, seed in product(_points(study.grid or {}, "agents", name), points["seed"]):
                spec = _at(agent, own, 2)
                alphas = spec.alpha or study.alpha
                for alpha in alphas:
                    label = _with(_with(base, (*own, *seed)), (("α", alpha),) if len(alphas) > 1 else ())
                    drawn = seed[0][1] if seed else study.seed
                    found.append(Setting(0, name, alpha, label, on, problem_here, spec, drawn, ""))
    keys = _distinct([_key(study, setting) for setting in found])
    numbers = numbering(keys, study.numbers or {})
    looks: dict[str, int] = {}
    return [
        replace(
            setting,
            index=numbers[key],
            key=key,
            source=_source(study, setting),
            look=looks.setdefault(setting.label, numbers[key]),
        )
        for setting, key in zip(found, keys, strict=True)
    ]


def numbering(keys: Iterable[str], known: Mapping[str, int]) -> dict[str, int]:
    """The number of each key: the known one, or the next that is free."""
    numbers = dict(known)
    for key in keys:
        numbers.setdefault(key, max(numbers.values(), default=-1) + 1)
    return numbers


def flat(grid: Mapping[str, Any], above: str = "") -> dict[str, list[Any]]:
    """A grid of nested tables as dotted paths, each with its values."""
    found: dict[str, list[Any]] = {}
    for key, value in grid.items():
        path = f"{above}{key}"
        if isinstance(value, Mapping):
            found |= flat(value, f"{path}.")
        else:
            found[path] = list(value) if isinstance(value, list | tuple) else [value]
    return found


def problem_label(problem: "ProblemSpec") -> str:
    """What a problem is called: its label, or the last part of its name."""
    name = problem.name.rpartition(":")[2] if is_code(problem.name) else PurePath(problem.name).stem
    return problem.label or name


def named(arguments: Any) -> list[str]:
    """The words that name something to build, wherever they stand in the arguments of an agent."""
    if not isinstance(arguments, dict):
        return []
    words = [word for key, word in arguments.items() if key in NAMING and isinstance(word, str)]
    return words + [word for value in arguments.values() for word in named(value)]


def digest(content: Any) -> str:
    """Sixteen letters that stand for JSON content."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def content_of(problem: "ProblemSpec") -> Any:
    """What a problem is: everything but its label."""
    return _bare(problem.model_dump(mode="json", exclude={"label"}, exclude_none=True))


def _key(study: "StudySpec", setting: Setting) -> str:
    """A hash of what the runs of a setting depend on."""
    frame = {"length": [study.unit, study.length], "points": study.record.points, "initial": study.initial}
    agent = setting.spec.model_dump(mode="json", exclude={"label", "alpha"}, exclude_none=True)
    content = {"problem": content_of(setting.problem), "agent": _bare(agent), "alpha": setting.alpha} | frame
    return digest(content | {"seed": setting.seed, "paired": study.paired})


def _bare(value: Any) -> Any:
    """JSON content without the paths of files whose content is known by a SHA-256."""
    if isinstance(value, dict):
        drop = {"file", "name"} if "sha256" in value else set()
        return {key: _bare(item) for key, item in value.items() if key not in drop}
    return [_bare(item) for item in value] if isinstance(value, list) else value


def _distinct(keys: Sequence[str]) -> list[str]:
    """The keys; the second setting with the same content gets a key of its own, and so on."""
    seen: dict[str, int] = {}
    distinct = []
    for key in keys:
        seen[key] = seen.get(key, 0) + 1
        distinct.append(key if seen[key] == 1 else digest([key, seen[key]]))
    return distinct


def _source(study: "StudySpec", setting: Setting) -> str:
    sources = {word: study.sources[word] for word in setting.code if word in (study.sources or {})}  # type: ignore[index]
    return digest(sources) if sources else ""


def _points(grid: Mapping[str, Any], *parts: str) -> list[Point]:
    """The points of the grid over the values below a part of the study; one empty point if there are none."""
    prefix = ".".join(parts)
    chosen = {path: values for path, values in flat(grid).items() if f"{path}.".startswith(f"{prefix}.")}
    return [tuple(zip(chosen, values, strict=True)) for values in product(*chosen.values())]


def _at(spec: Any, point: Point, depth: int) -> Any:
    """A problem or agent with the values of a point, whose paths begin with `depth` words that lead to it."""
    if not point:
        return spec
    content = spec.model_dump(mode="json", exclude_none=True)
    for path, value in point:
        *parents, last = path.split(".")[depth:]
        table = content
        for key in parents:
            table = table.setdefault(key, {})
        table[last] = value
    return type(spec).model_validate(content)


def _with(label: str, point: Point) -> str:
    """A label with the values of a point."""
    form: Callable[[Any], str] = lambda value: f"{value:g}" if isinstance(value, float) else str(value)  # noqa: E731
    return ", ".join([label, *(f"{path.rpartition('.')[2]} = {form(value)}" for path, value in point)])


def _label(study: "StudySpec", name: str) -> str:
    """What an agent is called; with its key if several are called the same."""
    labels = {key: agent.label or agent.kind.rpartition(":")[2] for key, agent in study.agents.items()}
    twice = [*labels.values()].count(labels[name]) > 1
    return f"{labels[name]} ({name})" if twice else labels[name]
