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
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from surefooted.errors import InvalidInput, UnreadableFile
from surefooted.studies.spec import StudySpec, Task, read, tasks

LIBRARIES = ("surefooted", "numpy", "numba", "pyarrow", "matplotlib", "pydantic")
CURVE = ("step", "regret", "pseudo_regret", "margin", "margin_min", "budget", "baseline_steps")
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
                raise InvalidInput(f"{self.path} holds another study, {held.name!r}", faults, hint)
            if self.recorded not in (None, study.identity):
                fault = (
                    "study.toml was changed after they were begun, or another version made them: choose another --out"
                )
                raise InvalidInput(f"{self.path} holds the runs of another study", [fault])
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
        """Whether there is nothing in the directory but what another shard, starting now, has put there."""
        ours = ("parts", "manifest.json", "study.toml")
        return all(path.name in ours or path.name.startswith(".") for path in self.path.iterdir())

    @property
    def recorded(self) -> str | None:
        """The identity of the study whose runs are here, if there are any."""
        about = self._about()
        return str(about["identity"]) if "identity" in about and any(self.parts.glob("*.parquet")) else None

    def _about(self) -> dict[str, Any]:
        """The manifest, or nothing."""
        try:
            about: dict[str, Any] = json.loads((self.path / "manifest.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return about

    def _manifest(self, study: StudySpec) -> dict[str, Any]:
        """What runs can depend on besides the study; each time that it was run is one of the sessions."""
        sessions = self._about().get("sessions", [])
        return manifest(study) | {"sessions": [*sessions, session()]}

    def part(self, task: Task) -> Path:
        """Where a run is."""
        return self.parts / f"{task.name}.parquet"

    def save(self, task: Task, part: bytes) -> dict[str, Any]:
        """Keep a part, and return its row."""
        write(self.part(task), part)
        return self.row(task)[0]

    @cached_property
    def held(self) -> StudySpec:
        """The study, read once."""
        return self.study()

    def row(self, task: Task) -> tuple[dict[str, Any], pa.Table]:
        """The row and curve of a run; an error that says why if its part is not a whole one of this study."""
        content, curve = _content(self.part(task))
        row: dict[str, Any] = content["row"]
        setting = self.held.settings[task.setting]
        ours = (self.held.identity, task.name, setting.agent, setting.alpha)
        if (content.get("study"), content.get("task"), row["agent"], row["alpha"]) != ours:
            fault = f"it is of study {content.get('study')}, run {content.get('task')}"
            raise UnreadableFile(f"{self.part(task)} does not belong here: {fault}")
        return row, curve

    def finished(self, wanted: list[Task]) -> tuple[dict[Task, dict[str, Any]], list[str]]:
        """The rows of the runs that are there, and what is wrong with parts that must be redone."""
        rows, faults = {}, []
        for task in wanted:
            if self.part(task).exists():
                try:
                    rows[task] = self.row(task)[0]
                except UnreadableFile as error:
                    faults.append(str(error))
        return rows, faults

    def is_combined(self) -> bool:
        """Whether the two tables are of all parts that are there, and newer than they."""
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
        """Write curves.parquet and then runs.parquet from the parts that are there; how many there are."""
        rows: list[dict[str, Any]] = []
        schema: pa.Schema | None = None
        with tempfile.TemporaryDirectory(dir=self.path, prefix=".combine.") as folder:
            temporary = Path(folder) / "curves.parquet"
            writer = None
            for task in sorted(tasks(self.held), key=lambda task: (task.setting, task.realisation)):
                try:
                    row, curve = self.row(task) if self.part(task).exists() else (None, None)
                except UnreadableFile:
                    continue
                if row is None:
                    continue
                table = _with_identity(curve, row)
                if writer is None:
                    schema = table.schema
                    writer = pq.ParquetWriter(temporary, schema, compression="zstd")
                writer.write_table(table.cast(schema))
                rows.append(row)
            if writer is not None:
                writer.close()
                os.replace(temporary, self.path / "curves.parquet")
        sink = pa.BufferOutputStream()
        runs = pa.Table.from_pylist(rows, schema=RUNS).replace_schema_metadata({"study": self.held.identity})
        pq.write_table(runs, sink, compression="zstd")
        write(self.path / "runs.parquet", sink.getvalue().to_pybytes())
        return len(rows)


def write(path: Path, content: bytes) -> None:
    """Replace a file by a whole new one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
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
    } | session()


def session() -> dict[str, Any]:
    """With what, where and when a study is run."""
    return {
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


def _content(part: Path) -> tuple[dict[str, Any], pa.Table]:
    """The metadata of a part, and its curve."""
    try:
        curve = pq.read_table(part)
        content: dict[str, Any] = json.loads((curve.schema.metadata or {})[b"surefooted"])
        missing = [name for name in RUNS.names if name not in content["row"]]
        missing += [name for name in CURVE if name not in curve.column_names]
        if missing:
            raise ValueError(f"it lacks {', '.join(missing)}")
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise UnreadableFile(f"{part} is not a whole part: {error}") from error
    return content, curve.select(CURVE)


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
