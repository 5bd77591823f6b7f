"""Reading a study from a TOML file, with overrides; every fault is named at once, with its path."""

import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from surefooted.errors import InvalidInput, UnreadableFile, did_you_mean
from surefooted.studies.paper import NAMES
from surefooted.studies.spec import Claim, ProblemSpec, RecordSpec, StudySpec
from surefooted.tables.files import fingerprint


def read(source: str | Path, overrides: Sequence[str] = ()) -> StudySpec:
    """Read a study.

    - `source`: a TOML file, or the name of a study that comes with the package.
    - `overrides`: texts KEY=VALUE, as in "agents.cucrl2.alpha=[0.01, 0.05]".

    >>> import surefooted as sf
    >>> study = sf.studies.read("inventory", ["realisations=5"])
    >>> study.realisations, study.unit
    (5, 'steps')
    """
    where = Path(source)
    if str(source) in NAMES:
        raw = tomllib.loads(
            resources.files("surefooted.studies.paper").joinpath(f"{source}.toml").read_text(encoding="utf-8")
        )
    else:
        raw = _toml(where)
    for override in overrides:
        _override(raw, override)
    if "problem" in raw:
        raw["problem"] = _beside(where, raw["problem"])
    if isinstance(raw.get("problems"), list):
        raw["problems"] = [_beside(where, problem) for problem in raw["problems"]]
    for agent in raw["agents"].values() if isinstance(raw.get("agents"), dict) else ():
        if isinstance(agent, dict) and isinstance(agent.get("history"), str):  # relative to it, too
            file = (where.parent / agent["history"]).resolve()
            agent["history"] = {"file": str(file), "sha256": fingerprint(file)}
    return parse(raw, str(source))


def read_resolved(file: Path) -> StudySpec:
    """Read a study that `StudySpec.to_toml` wrote; none of the files that it names is opened."""
    return parse(_toml(file), str(file))


def parse(raw: dict[str, Any], source: str = "the study") -> StudySpec:
    """The study with this content, a dictionary as in a TOML file; an error names every fault with its path.

    - `raw`: the content.
    - `source`: what an error calls it.

    >>> import surefooted as sf
    >>> agents = {"ucrl2": {"kind": "UCRL2"}}
    >>> study = sf.studies.parse({"name": "short", "problem": "riverswim", "steps": 50, "agents": agents})
    >>> study.settings[0].label
    'UCRL2'
    """
    infinite: list[str] = []
    raw = _clean(raw, "", infinite)
    if infinite:
        raise InvalidInput(f"{source} is not a valid study", [f"{path}: must be finite" for path in infinite])
    try:
        return StudySpec.model_validate(raw)
    except ValidationError as error:
        faults = [f"{'.'.join(str(x) for x in e['loc']) or 'study'}: {_said(e)}" for e in error.errors()]
        raise InvalidInput(f"{source} is not a valid study", faults) from error


def _beside(study: Path, problem: Any) -> Any:
    """A problem of a study's file; one that is a file itself is beside it, and is known by its content."""
    table = {"name": problem} if isinstance(problem, str) else problem
    if not (isinstance(table, dict) and str(table.get("name")).endswith((".npz", ".toml"))):
        return problem
    file = (study.parent / str(table["name"])).resolve()
    return {"sha256": fingerprint(file)} | table | {"name": str(file)}


def _toml(file: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise UnreadableFile(f"{file} is not TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        hint = f"A study is a TOML file, or one of {', '.join(NAMES)}."
        raise UnreadableFile(f"cannot read the study {file}: {error}. {hint}") from error


def _clean(value: Any, path: str, infinite: list[str]) -> Any:
    """The value without entries that are None; the paths of numbers that are not finite go to `infinite`."""
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if item is not None}
        return {key: _clean(item, f"{path}.{key}".lstrip("."), infinite) for key, item in kept.items()}
    if isinstance(value, list | tuple):
        return [_clean(item, f"{path}.{i}", infinite) for i, item in enumerate(value)]
    if isinstance(value, float) and not np.isfinite(value):
        infinite.append(path)
    return value


def _said(error: Mapping[str, Any]) -> str:
    """What is wrong with one value; of an unknown key, which one may be meant."""
    if error["type"] != "extra_forbidden":
        return str(error["msg"]).removeprefix("Value error, ")
    table: Any = StudySpec
    for key in error["loc"][:-1]:
        table = {"problem": ProblemSpec, "problems": ProblemSpec, "record": RecordSpec, "claims": Claim}.get(
            str(key), table
        )
    known = list(table.model_fields)
    return f"there is no such key; there are {', '.join(known)}.{did_you_mean(error['loc'][-1], known)}"


def _override(raw: dict[str, Any], override: str) -> None:
    """Set one value by its dotted path; a value that is not TOML is a word."""
    path, equals, text = override.partition("=")
    if not equals or not path:
        raise InvalidInput(
            "this override cannot be used", [f"{override!r} is not KEY=VALUE, as in agents.cucrl2.alpha=[0.01, 0.05]"]
        )
    try:
        value = tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        value = text
    *parents, last = path.strip().split(".")
    if parents[:1] == ["problem"] and isinstance(raw.get("problem"), str):
        raw["problem"] = {"name": raw["problem"]}
    table = raw
    for key in parents:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise InvalidInput("this override cannot be used", [f"{path}: {key} is a value, not a table"])
    table[last] = value
