"""A suite: one set of agents on many problems, of steps and of episodes. Each problem is a study of its own.

name = "mine"
realisations = 20
alpha = [0.1]

[[problems]]
name = "inventory"             # with `steps` or `episodes`, and its parameters
steps = 50_000

[agents.steps.ucrl2]           # an agent of the studies of steps; [agents.episodes.NAME] of those of episodes
kind = "UCRL2"

[compare.steps]                # each of these agents is compared with the one that it names
cucrl2 = "ucrl2"
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from surefooted.errors import InvalidInput, UnreadableFile, did_you_mean
from surefooted.studies.reading import _override, parse
from surefooted.studies.spec import StudySpec
from surefooted.studies.suites import NAMES

KEYS = ("name", "title", "about", "realisations", "seed", "alpha", "scale", "problems", "agents", "compare")
UNITS = ("steps", "episodes")


@dataclass(frozen=True)
class Suite:
    """A suite that was read.

    - `name`, `title`, `about`: for people.
    - `studies`: one for each problem.
    - `problems`: what the problem of each study is called.
    - `compare`: of each study, the agents that are compared with another one, and with which.
    """

    name: str
    title: str
    about: str
    studies: tuple[StudySpec, ...]
    problems: tuple[str, ...]
    compare: tuple[Mapping[str, str], ...]


def read_suite(source: str | Path, overrides: Sequence[str] = ()) -> Suite:
    """Read a suite that comes with the package, or a TOML file.

    - `source`: its name, or a file.
    - `overrides`: texts KEY=VALUE, as in "scale=0.1": all lengths are multiplied by it.

    >>> from surefooted.studies.suite import read_suite
    >>> suite = read_suite("price", ["scale=0.01", "realisations=2"])
    >>> suite.problems[0], suite.studies[0].steps, suite.studies[0].realisations
    ('inventory', 500, 2)
    """
    if str(source) in NAMES:
        text = resources.files("surefooted.studies.suites").joinpath(f"{source}.toml").read_text(encoding="utf-8")
    else:
        try:
            text = Path(source).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            hint = f"a suite is a TOML file, or one of {', '.join(NAMES)}"
            raise UnreadableFile(f"cannot read the suite {source}: {error}. {hint}.") from error
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableFile(f"{source} is not TOML: {error}") from error
    for override in overrides:
        _override(raw, override)
    if faults := _faults(raw):
        raise InvalidInput(f"{source} is not a valid suite", faults)
    labels = [str(problem.get("label", problem["name"])) for problem in raw["problems"]]
    studies = [_study(raw, problem, label) for problem, label in zip(raw["problems"], labels, strict=True)]
    compare = tuple(raw.get("compare", {}).get(study.unit, {}) for study in studies)
    title = str(raw.get("title", raw["name"]))
    return Suite(str(raw["name"]), title, str(raw.get("about", "")), tuple(studies), tuple(labels), compare)


def _study(raw: Mapping[str, Any], problem: Mapping[str, Any], label: str) -> StudySpec:
    """The study of one problem."""
    unit = next(unit for unit in UNITS if unit in problem)
    rest = {key: value for key, value in problem.items() if key not in ("label", unit)}
    length = max(1, round(problem[unit] * raw.get("scale", 1.0)))
    content = {key: raw[key] for key in ("about", "realisations", "seed", "alpha") if key in raw}
    name = f"{raw['name']}-{re.sub('[^A-Za-z0-9_]+', '-', label)}"
    content |= {"name": name, "title": f"{raw.get('title', raw['name'])}: {label}", unit: length}
    content |= {"problem": rest, "agents": raw["agents"][unit], "record": {"points": 100}}
    return parse(content, name)


def _faults(raw: Mapping[str, Any]) -> list[str]:
    """What is wrong with the content of a suite, apart from its studies."""
    faults = [f"{key}: there is no such key.{did_you_mean(key, KEYS)}" for key in raw if key not in KEYS]
    faults += [f"{key}: is missing" for key in ("name", "problems", "agents") if not raw.get(key)]
    scale = raw.get("scale", 1.0)
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < float("inf"):
        faults.append(f"scale {scale!r} must be a positive number")
    agents, problems = raw.get("agents"), raw.get("problems")
    if not isinstance(agents, dict) or not isinstance(problems, list):
        return [*faults, "problems must be [[problems]], and agents [agents.steps.NAME] or [agents.episodes.NAME]"]
    for unit, pairs in raw.get("compare", {}).items():
        known = agents.get(unit, {})
        faults += [
            f"compare.{unit}.{one}: {one!r} and {other!r} must be agents of agents.{unit}"
            for one, other in pairs.items()
            if one not in known or other not in known
        ]
    faults += [f"agents.{key}: agents are in agents.steps or agents.episodes" for key in agents if key not in UNITS]
    for i, problem in enumerate(problems):
        given = [unit for unit in UNITS if isinstance(problem, dict) and unit in problem]
        if len(given) != 1 or "name" not in problem:
            faults.append(f"problems.{i}: give `name`, and either `steps` or `episodes`")
        elif isinstance(problem[given[0]], bool) or not isinstance(problem[given[0]], int):
            faults.append(f"problems.{i}.{given[0]}: must be a whole number")
        elif not agents.get(given[0]):
            faults.append(f"problems.{i}: there is no agent for it in agents.{given[0]}")
    names = [str(p.get("label", p.get("name"))) for p in problems if isinstance(p, dict)]
    faults += [
        f"two problems are called {name!r}: give each a `label`" for name in {n for n in names if names.count(n) > 1}
    ]
    return faults
