"""A study's directory: the study, one part per run, and the tables made of the parts.

    DIR/study.toml      the study, resolved          DIR/parts/000-000007.parquet   one run: its curve and its row
    DIR/manifest.json   versions, machine, seeds     DIR/runs.parquet, curves.parquet   all runs

Every file is replaced only once the new one is complete. A part that is truncated, or that belongs to another study, is
reported and run again.
"""

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from surefooted.errors import InvalidInput, UnreadableFile
from surefooted.studies import columns
from surefooted.studies.manifest import manifest, session
from surefooted.studies.reading import read
from surefooted.studies.spec import NOT_IDENTITY, StudySpec, Task, tasks
from surefooted.tables.files import replacing, write

_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64()}
RUNS = pa.schema([(column.name, _TYPES[column.kind]) for column in columns.RUNS])
CURVE = pa.schema([(column.name, _TYPES[column.kind]) for column in columns.CURVE])
CURVES = pa.schema([*(RUNS.field(name) for name in columns.CURVE_KEYS), *CURVE])


class Folder:
    """A directory that holds the results of one study."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def parts(self) -> Path:
        """The directory of the runs."""
        return self.path / "parts"

    def study(self) -> StudySpec:
        """The study of this directory."""
        if not (self.path / "study.toml").exists():
            raise UnreadableFile(f"{self.path} holds no study: there is no study.toml in it")
        return read(self.path / "study.toml")

    def open(self, study: StudySpec, resume: bool = True) -> None:
        """Prepare the directory for a study; an error if it holds another study, or other files."""
        if (self.path / "study.toml").exists():
            held = self.study()
            if held.identity != study.identity:
                faults = _differences(held, study)
                hint = "Choose another --out, or remove the directory."
                raise InvalidInput(f"{self.path} holds another study, {held.name!r}", faults, hint)
            if self.recorded not in (None, study.identity):
                fault = "study.toml was changed after the first run, or another version wrote the runs"
                raise InvalidInput(f"{self.path} holds the runs of another study", [fault], "Choose another --out.")
            if not resume:
                raise InvalidInput(f"{self.path} holds this study already", ["--no-resume was given"])
            if held.realisations > study.realisations:  # fewer are asked for: what is there stays
                study = held
        elif self.path.is_file() or (self.path.exists() and not self._is_ours()):
            hint = "Choose another --out, or empty the directory."
            raise InvalidInput(f"{self.path} cannot take a study", ["it holds other files"], hint)
        self.parts.mkdir(parents=True, exist_ok=True)
        write(self.path / "manifest.json", json.dumps(self._manifest(study), indent=2, ensure_ascii=False).encode())
        write(self.path / "study.toml", study.to_toml().encode())

    def _is_ours(self) -> bool:
        """Whether the directory holds only files of a study, which another shard may be starting at this moment."""
        ours = ("parts", "manifest.json", "study.toml")
        return all(path.name in ours or path.name.startswith(".") for path in self.path.iterdir())

    @property
    def recorded(self) -> str | None:
        """The identity of the study whose runs are here, if there are any."""
        about = self._about()
        return str(about["identity"]) if "identity" in about and any(self.parts.glob("*.parquet")) else None

    def _about(self) -> dict[str, Any]:
        """The manifest; empty if there is none."""
        try:
            about: dict[str, Any] = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return about

    def _manifest(self, study: StudySpec) -> dict[str, Any]:
        """The manifest with one more session: each time that the study is run is one session."""
        sessions = self._about().get("sessions", [])
        return manifest(study) | {"sessions": [*sessions, session()]}

    def part(self, task: Task) -> Path:
        """The file of a run."""
        return self.parts / f"{task.name}.parquet"

    def save(self, task: Task, part: bytes) -> dict[str, Any]:
        """Keep a part, and return its row."""
        row, _ = self._checked(task, pa.BufferReader(part))
        write(self.part(task), part)
        return row

    @cached_property
    def held(self) -> StudySpec:
        """The study of this directory, read once."""
        return self.study()

    def row(self, task: Task) -> tuple[dict[str, Any], pa.Table]:
        """The row and curve of a run; an error that says why, if its part is incomplete or of another study."""
        return self._checked(task, self.part(task))

    def _checked(self, task: Task, part: Any) -> tuple[dict[str, Any], pa.Table]:
        """The row and curve in a part, which is a file or a buffer."""
        content, curve = _content(part, self.part(task))
        row: dict[str, Any] = content["row"]
        setting = self.held.settings[task.setting]
        ours = (self.held.identity, task.name, setting.agent, setting.alpha)
        if (content.get("study"), content.get("task"), row["agent"], row["alpha"]) != ours:
            fault = f"it is of study {content.get('study')}, run {content.get('task')}"
            raise UnreadableFile(f"{self.part(task)} does not belong here: {fault}")
        return row, curve

    def finished(self, wanted: list[Task]) -> tuple[dict[Task, dict[str, Any]], list[str]]:
        """The rows of the finished runs, and what is wrong with the parts that must be run again."""
        rows, faults = {}, []
        for task in wanted:
            if self.part(task).exists():
                try:
                    rows[task] = self.row(task)[0]
                except UnreadableFile as error:
                    faults.append(str(error))
        return rows, faults

    def is_combined(self) -> bool:
        """Whether the two tables hold all parts, and are newer than every part."""
        runs, curves = (self.path / f"{name}.parquet" for name in ("runs", "curves"))
        parts = [part.stat().st_mtime for part in self.parts.glob("*.parquet")]
        if not (runs.exists() and curves.exists()) or runs.stat().st_mtime < max(parts, default=0.0):
            return False
        try:
            table = pq.read_table(runs, columns=["setting", "realisation"])
            points = pq.read_metadata(curves).num_rows
        except (OSError, pa.ArrowException):
            return False
        identity = (table.schema.metadata or {}).get(b"study", b"").decode()
        complete = table.num_rows == len(parts) and points % max(len(parts), 1) == 0
        return bool(complete and identity == self.held.identity)

    def combine(self) -> int:
        """Write curves.parquet and then runs.parquet from the parts; the number of parts."""
        rows: list[dict[str, Any]] = []
        with replacing(self.path / "curves.parquet") as file:
            with pq.ParquetWriter(file, CURVES, compression="zstd") as writer:
                for task in sorted(tasks(self.held), key=lambda task: (task.setting, task.realisation)):
                    if self.part(task).exists():
                        try:
                            row, curve = self.row(task)
                        except UnreadableFile:
                            continue
                        writer.write_table(_with_run(curve, row))
                        rows.append(row)
        runs = pa.Table.from_pylist(rows, schema=RUNS).replace_schema_metadata({"study": self.held.identity})
        sink = pa.BufferOutputStream()
        pq.write_table(runs, sink, compression="zstd")
        write(self.path / "runs.parquet", sink.getvalue().to_pybytes())
        return len(rows)


def _content(part: Any, name: Path) -> tuple[dict[str, Any], pa.Table]:
    """The metadata and the curve of a part."""
    try:
        curve = pq.read_table(part)
        content: dict[str, Any] = json.loads((curve.schema.metadata or {})[b"surefooted"])
        missing = [name for name in RUNS.names if name not in content["row"]]
        missing += [name for name in CURVE.names if name not in curve.column_names]
        if missing:
            raise ValueError(f"it lacks {', '.join(missing)}")
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise UnreadableFile(f"{name} is not a complete part: {error}") from error
    return content, curve.select(CURVE.names)


def _with_run(curve: pa.Table, row: dict[str, Any]) -> pa.Table:
    """A curve whose points name the run that they belong to."""
    run = [pa.array([row[name]] * curve.num_rows, RUNS.field(name).type) for name in columns.CURVE_KEYS]
    return pa.table([*run, *curve.columns], names=CURVES.names).cast(CURVES)


def _differences(held: StudySpec, asked: StudySpec) -> list[str]:
    """Where two studies differ."""
    a, b = (spec.model_dump(mode="json", exclude=NOT_IDENTITY) for spec in (held, asked))
    return [f"{key}: the directory has {a[key]}, you ask for {b[key]}" for key in a if a[key] != b[key]]
