"""A study's directory: the study, one part per run, and the tables made of the parts.

    DIR/study.toml      the study, resolved          DIR/parts/000-000007.parquet   one run: its curve and its row
    DIR/manifest.json   versions, machine, seeds     DIR/runs.parquet, curves.parquet   all runs
    DIR/truth.npz       what is exactly true of the problem, for figures and the report

Every file is replaced only once the new one is complete. A part that is truncated, or that belongs to another study, is
reported and run again.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from surefooted.errors import InvalidInput, UnreadableFile
from surefooted.studies import columns
from surefooted.studies.manifest import manifest, session
from surefooted.studies.reading import read_resolved
from surefooted.studies.spec import NOT_IDENTITY, StudySpec, Task, tasks
from surefooted.studies.truth import Truth
from surefooted.tables import files
from surefooted.tables.files import replacing, write

_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64()}
RUNS = pa.schema([(column.name, _TYPES[column.kind]) for column in columns.RUNS])
CURVE = pa.schema([(column.name, _TYPES[column.kind]) for column in columns.CURVE])
CURVES = pa.schema([*(RUNS.field(name) for name in columns.CURVE_KEYS), *CURVE])


class Part(NamedTuple):
    """One run, as its file holds it: its row, and its curve as a table with the columns of CURVE."""

    row: dict[str, Any]
    curve: pa.Table


class Tables(NamedTuple):
    """All runs: one row each, and their curves."""

    runs: pa.Table
    curves: pa.Table


class Folder:
    """A directory and the study whose results it holds; `prepare` makes one, `at` finds one."""

    def __init__(self, path: str | Path, study: StudySpec) -> None:
        self.path, self.study = Path(path), study
        self._parts: dict[Task, Part] = {}  # read or saved already

    @classmethod
    def at(cls, path: str | Path) -> Self:
        """The directory of a study that was run."""
        path = Path(path)
        if not (path / "study.toml").exists():
            raise UnreadableFile(f"{path} holds no study: there is no study.toml in it")
        folder = cls(path, read_resolved(path / "study.toml"))
        if not folder._is_of_its_study():
            raise UnreadableFile(
                f"{path}: the runs do not belong to study.toml: it was changed, or another version wrote the runs"
            )
        return folder

    @classmethod
    def prepare(cls, path: str | Path, study: StudySpec, resume: bool = True) -> Self:
        """A directory that is ready for the runs of a study; an error if it holds another study, or other files."""
        path = Path(path)
        if (path / "study.toml").exists():
            held = read_resolved(path / "study.toml")
            if held.identity != study.identity:
                hint = "Choose another --out, or remove the directory."
                raise InvalidInput(f"{path} holds another study, {held.name!r}", _differences(held, study), hint)
            if not cls(path, held)._is_of_its_study():
                fault = "study.toml was changed after the first run, or another version wrote the runs"
                raise InvalidInput(f"{path} holds the runs of another study", [fault], "Choose another --out.")
            if not resume:
                raise InvalidInput(f"{path} holds this study already", ["--no-resume was given"])
            if held.realisations > study.realisations:  # fewer are asked for: what is there stays
                study = held
        elif path.is_file() or (path.exists() and not _may_be_starting(path)):
            hint = "Choose another --out, or empty the directory."
            raise InvalidInput(f"{path} cannot take a study", ["it holds other files"], hint)
        folder = cls(path, study)
        folder.parts.mkdir(parents=True, exist_ok=True)
        before = folder.manifest().get("sessions", [])
        about = manifest(study) | {"sessions": [*before, session()]}  # each time that the study is run is one session
        write(path / "manifest.json", json.dumps(about, indent=2, ensure_ascii=False).encode())
        write(path / "study.toml", study.to_toml().encode())
        return folder

    @property
    def parts(self) -> Path:
        """The directory of the runs."""
        return self.path / "parts"

    def file(self, task: Task) -> Path:
        """The file of a run."""
        return self.parts / f"{task.name}.parquet"

    def manifest(self) -> dict[str, Any]:
        """The manifest; empty if there is none."""
        try:
            about = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return about if isinstance(about, dict) else {}

    def _is_of_its_study(self) -> bool:
        """Whether the runs that are here, if there are any, were made for `study.toml` as it is now."""
        recorded = self.manifest().get("identity")
        return recorded in (None, self.study.identity) or not any(self.parts.glob("*.parquet"))

    def save(self, task: Task, content: bytes) -> Part:
        """Write the file of a run that has just finished, and return what is in it."""
        part = self._checked(task, pa.BufferReader(content))
        write(self.file(task), content)
        self._parts[task] = part
        return part

    def part(self, task: Task) -> Part:
        """A finished run; an error that says why, if its file is incomplete or of another study."""
        if task not in self._parts:
            self._parts[task] = self._checked(task, self.file(task))
        return self._parts[task]

    def _checked(self, task: Task, source: Any) -> Part:
        """The part in a file or a buffer."""
        content, curve = _content(source, self.file(task))
        row: dict[str, Any] = content["row"]
        setting = self.study.settings[task.setting]
        ours = (self.study.identity, task.name, setting.agent, setting.alpha)
        if (content.get("study"), content.get("task"), row["agent"], row["alpha"]) != ours:
            fault = f"it is of study {content.get('study')}, run {content.get('task')}"
            raise UnreadableFile(f"{self.file(task)} does not belong here: {fault}")
        return Part(row, curve)

    def finished(self, wanted: list[Task]) -> tuple[dict[Task, Part], list[str]]:
        """The finished runs, and what is wrong with the files of those that must be run again."""
        parts, faults = {}, []
        for task in wanted:
            if self.file(task).exists():
                try:
                    parts[task] = self.part(task)
                except UnreadableFile as error:
                    faults.append(str(error))
        return parts, faults

    def truth(self) -> Truth | None:
        """What is exactly true of the problem; None if it is not here, as in directories of older versions."""
        try:
            identity, truth = files.load(
                self.path / "truth.npz", lambda columns: (str(columns["study"]), Truth.from_columns(columns))
            )
        except UnreadableFile:
            return None
        return truth if identity == self.study.identity else None

    def save_truth(self, truth: Truth) -> None:
        """Store what is exactly true of the problem."""
        files.save(self.path / "truth.npz", truth.columns() | {"study": self.study.identity})

    def tables(self) -> Tables:
        """The tables of all runs; they are made again from the parts if they do not hold all of them."""
        both = [self.path / f"{name}.parquet" for name in Tables._fields]
        times = [part.stat().st_mtime for part in self.parts.glob("*.parquet")]
        try:
            if both[0].stat().st_mtime >= max(times, default=0.0):
                runs, curves = (pq.read_table(file) for file in both)
                every = (*(c for c in columns.RUNS if c.name in columns.CURVE_KEYS), *columns.CURVE)
                tables = Tables(_whole(runs, RUNS, columns.RUNS), _whole(curves, CURVES, every))
                if not self.parts.exists() or self._holds(tables, len(times)):
                    return tables
        except (OSError, ValueError, pa.ArrowException) as error:
            if not self.parts.exists():
                fault = f"is damaged: {error}" if both[0].exists() else "holds no finished run yet"
                raise UnreadableFile(f"{self.path} {fault}") from error
        return self.combine()

    def _holds(self, tables: Tables, parts: int) -> bool:
        """Whether the tables are of this study and hold all its parts, given how many there are."""
        identity = (tables.runs.schema.metadata or {}).get(b"study", b"").decode()
        is_whole = tables.runs.num_rows == parts and tables.curves.num_rows % max(parts, 1) == 0
        return bool(is_whole and identity == self.study.identity)

    def combine(self) -> Tables:
        """Write curves.parquet and then runs.parquet from the parts, and return the two tables."""
        every = sorted(tasks(self.study), key=lambda task: (task.setting, task.realisation))
        parts = self.finished(every)[0].values()
        curves = [_with_run(part) for part in parts]
        with replacing(self.path / "curves.parquet") as file:
            with pq.ParquetWriter(file, CURVES, compression="zstd") as writer:
                for curve in curves:
                    writer.write_table(curve)
        runs = pa.Table.from_pylist([part.row for part in parts], schema=RUNS)
        runs = runs.replace_schema_metadata({"study": self.study.identity})
        sink = pa.BufferOutputStream()
        pq.write_table(runs, sink, compression="zstd")
        write(self.path / "runs.parquet", sink.getvalue().to_pybytes())
        return Tables(runs, pa.concat_tables(curves) if curves else CURVES.empty_table())


def _may_be_starting(path: Path) -> bool:
    """Whether a directory holds only files of a study, which another shard may be starting at this moment."""
    ours = ("parts", "manifest.json", "study.toml", "truth.npz")
    return all(file.name in ours or file.name.startswith(".") for file in path.iterdir())


def _content(source: Any, name: Path) -> tuple[dict[str, Any], pa.Table]:
    """The metadata and the curve of a part, which is a file or a buffer."""
    try:
        curve = pq.read_table(source)
        content: dict[str, Any] = json.loads((curve.schema.metadata or {})[b"surefooted"])
        row = content["row"]
        missing = [column.name for column in columns.RUNS if column.name not in row and not column.may_be_null]
        if missing:
            raise ValueError(f"it lacks {', '.join(missing)}")
        content["row"] = {name: row.get(name) for name in RUNS.names}
        curve = _whole(curve, CURVE, columns.CURVE)
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise UnreadableFile(f"{name} is not a complete part: {error}") from error
    return content, curve


def _whole(table: pa.Table, schema: pa.Schema, known: tuple[columns.Column, ...]) -> pa.Table:
    """A table with all columns of a schema; those that an older version did not write, and that may be null, are."""
    lacking = [column for column in known if column.name in schema.names and column.name not in table.column_names]
    if missing := [column.name for column in lacking if not column.may_be_null]:
        raise ValueError(f"it lacks {', '.join(missing)}")
    for column in lacking:
        table = table.append_column(schema.field(column.name), pa.nulls(table.num_rows, _TYPES[column.kind]))
    return table.select(schema.names)


def _with_run(part: Part) -> pa.Table:
    """A curve whose points name the run that they belong to."""
    run = [pa.array([part.row[name]] * part.curve.num_rows, RUNS.field(name).type) for name in columns.CURVE_KEYS]
    return pa.table([*run, *part.curve.columns], names=CURVES.names).cast(CURVES)


def _differences(held: StudySpec, asked: StudySpec) -> list[str]:
    """Where two studies differ."""
    a, b = (spec.model_dump(mode="json", exclude=NOT_IDENTITY) for spec in (held, asked))
    return [f"{key}: the directory has {a[key]}, you ask for {b[key]}" for key in a if a[key] != b[key]]
