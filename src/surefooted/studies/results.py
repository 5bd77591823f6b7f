"""A study's directory: what was asked for, one part per run, and the tables made of them.

    DIR/study.toml      the study, resolved          DIR/parts/000-000007.parquet   one run: its curve and its row
    DIR/manifest.json   versions, machine, seeds     DIR/runs.parquet, curves.parquet   all of them

Every file is replaced only when the new one is whole. A part that is truncated, or of another study, is named and
redone.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from surefooted.errors import InvalidTable, UnreadableFile
from surefooted.studies.spec import Setting, StudySpec, Task, read, tasks

LIBRARIES = ("surefooted", "numpy", "numba", "pyarrow", "matplotlib", "pydantic")
IDENTITY = ("setting", "agent", "alpha", "label", "realisation")  # what a curve's points get from their row
RUNS = pa.schema(
    [
        ("agent", pa.string()),
        ("label", pa.string()),
        ("alpha", pa.float64()),
        ("setting", pa.int64()),
        ("realisation", pa.int64()),
        ("seed", pa.string()),
        ("steps", pa.int64()),
        ("episodes", pa.int64()),
        ("baseline_steps", pa.int64()),
        ("distinct_policies", pa.int64()),
        ("regret", pa.float64()),
        ("pseudo_regret", pa.float64()),
        ("violations_initial", pa.float64()),
        ("violations_total", pa.int64()),
        ("min_margin", pa.float64()),
        ("first_violation", pa.int64()),
        ("seconds", pa.float64()),
    ]
)


class Folder:
    """A directory that holds the results of one study."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def parts(self) -> Path:
        """Where the runs are."""
        return self.path / "parts"

    def study(self) -> StudySpec:
        """The study of this directory."""
        if not (self.path / "study.toml").exists():
            raise UnreadableFile(f"{self.path} holds no study: there is no study.toml in it")
        return read(self.path / "study.toml")

    def open(self, study: StudySpec, resume: bool = True) -> None:
        """Make the directory ready for a study; an error if it holds another, or anything else."""
        if (self.path / "study.toml").exists():
            held = self.study()
            if held.identity != study.identity:
                faults = _differences(held, study)
                hint = "Choose another --out, or remove the directory."
                raise InvalidTable(f"{self.path} holds another study, {held.name!r}", faults, hint)
            if not resume:
                raise InvalidTable(f"{self.path} holds this study already", ["--no-resume was given"])
            if held.realisations > study.realisations:  # fewer are asked for: what is there stays
                study = held
        elif self.path.is_file() or (self.path.exists() and any(self.path.iterdir())):
            hint = "Choose another --out, or empty the directory."
            raise InvalidTable(f"{self.path} cannot take a study", ["it holds other files"], hint)
        self.parts.mkdir(parents=True, exist_ok=True)
        write(self.path / "study.toml", study.to_toml().encode())
        write(self.path / "manifest.json", json.dumps(manifest(study), indent=2, ensure_ascii=False).encode())

    def part(self, task: Task) -> Path:
        """Where a run is."""
        return self.parts / f"{task.name}.parquet"

    def save(self, task: Task, part: bytes) -> dict[str, Any]:
        """Keep a part, and return its row."""
        write(self.part(task), part)
        row: dict[str, Any] = self.row(task, self.study_identity)
        return row

    @cached_property
    def study_identity(self) -> str:
        """What its parts must say that they are of."""
        return self.study().identity

    def row(self, task: Task, identity: str) -> dict[str, Any]:
        """The row of a run; an error that says why if its part is not a whole one of this study."""
        content = _content(self.part(task))
        if content.get("study") != identity or content.get("task") != task.name:
            fault = f"it is of study {content.get('study')}, run {content.get('task')}"
            raise UnreadableFile(f"{self.part(task)} does not belong here: {fault}")
        row: dict[str, Any] = content["row"]
        return row

    def finished(self, wanted: list[Task]) -> tuple[dict[Task, dict[str, Any]], list[str]]:
        """The rows of the runs that are there, and what is wrong with parts that must be redone."""
        rows, faults = {}, []
        for task in wanted:
            if self.part(task).exists():
                try:
                    rows[task] = self.row(task, self.study_identity)
                except UnreadableFile as error:
                    faults.append(str(error))
        return rows, faults

    def combine(self) -> int:
        """Write runs.parquet and curves.parquet from the parts that are there; how many there are."""
        study = self.study()
        rows, _ = self.finished(tasks(study))
        ordered = sorted(rows, key=lambda task: (task.setting, task.realisation))
        runs = pa.Table.from_pylist([rows[task] for task in ordered], schema=RUNS)
        curves = [_with_identity(pq.read_table(self.part(task)), rows[task]) for task in ordered]
        for name, table in (("runs", runs), ("curves", pa.concat_tables(curves) if curves else None)):
            if table is not None:
                sink = pa.BufferOutputStream()
                pq.write_table(table, sink, compression="zstd")
                write(self.path / f"{name}.parquet", sink.getvalue().to_pybytes())
        return len(ordered)


@dataclass(frozen=True)
class Results:
    """The tables of a study: `runs`, one row per realisation, and `curves`, downsampled."""

    study: StudySpec
    runs: pa.Table
    curves: pa.Table
    manifest: dict[str, Any]
    path: Path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read the directory of a study, combining its parts first if some are newer."""
        folder = Folder(path)
        study, runs = folder.study(), folder.path / "runs.parquet"
        newest = max((part.stat().st_mtime for part in folder.parts.glob("*.parquet")), default=0.0)
        if not runs.exists() or runs.stat().st_mtime < newest:
            folder.combine()
        if not runs.exists() or pq.read_metadata(runs).num_rows == 0:
            raise UnreadableFile(f"{path} holds no finished run yet")
        try:
            table, curves = (pq.read_table(folder.path / f"{name}.parquet") for name in ("runs", "curves"))
            about = json.loads((folder.path / "manifest.json").read_text(encoding="utf-8"))
        except (OSError, pa.ArrowException, ValueError) as error:
            raise UnreadableFile(f"{path} is damaged: {error}") from error
        return cls(study, table, curves, about, folder.path)

    @property
    def settings(self) -> list[Setting]:
        """The settings that have finished runs."""
        present = set(self.runs["setting"].to_pylist())
        return [setting for setting in self.study.settings if setting.index in present]

    def column(self, setting: Setting, name: str) -> Any:
        """A column of the runs of one setting, as an array."""
        return self.runs.filter(pc.equal(self.runs["setting"], setting.index))[name].to_numpy()

    def curve(self, setting: Setting, name: str) -> tuple[Any, Any]:
        """The steps, [points], and a column of the curves of one setting, [realisations, points]."""
        table = self.curves.filter(pc.equal(self.curves["setting"], setting.index))
        steps = table["step"].to_numpy()
        points = int(np.unique(steps).size)
        return steps[:points], table[name].to_numpy().reshape(-1, points)


def load(path: str | Path) -> Results:
    """The results of a study."""
    return Results.load(path)


def write(path: Path, content: bytes) -> None:
    """Replace a file by a whole new one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def manifest(study: StudySpec) -> dict[str, Any]:
    """What a run can depend on besides the study."""
    return {
        "study": study.name,
        "identity": study.identity,
        "seed": study.seed,
        "seeds": "SeedSequence(seed, spawn_key=(setting, realisation)).spawn(2): world, agent",
        "settings": [setting.label for setting in study.settings],
        "realisations": study.realisations,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in LIBRARIES},
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
        "commit": _commit(),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": ["surefooted", *sys.argv[1:]],
    }


def _commit() -> str | None:
    """The commit of the source tree that this package runs from, if it is one."""
    here = Path(__file__).resolve().parent
    try:
        command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None


def _content(part: Path) -> dict[str, Any]:
    """The metadata of a part."""
    try:
        metadata = pq.read_table(part).schema.metadata or {}
        content: dict[str, Any] = json.loads(metadata[b"surefooted"])
        _ = content["row"]["realisation"]
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise UnreadableFile(f"{part} is not a whole part: {error}") from error
    return content


def _with_identity(curve: pa.Table, row: dict[str, Any]) -> pa.Table:
    """A curve whose points say which run they are of."""
    curve = curve.replace_schema_metadata(None)
    for name in reversed(IDENTITY):
        curve = curve.add_column(0, name, pa.array([row[name]] * curve.num_rows, RUNS.field(name).type))
    return curve


def _differences(held: StudySpec, asked: StudySpec) -> list[str]:
    """Where two studies differ."""
    a, b = (spec.model_dump(mode="json") for spec in (held, asked))
    ignored = {"realisations", "title", "about", "claims", "name"}
    return [f"{key}: it has {a[key]}, asked for is {b[key]}" for key in a if key not in ignored and a[key] != b[key]]
