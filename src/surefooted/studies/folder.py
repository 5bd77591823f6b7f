"""A study's directory: the study, one part per run, and the tables made of the parts.

    DIR/study.toml      the study, resolved          DIR/parts/000-000007.parquet   one run: its curve and its row
    DIR/manifest.json   versions, machine, seeds     DIR/runs.parquet, curves.parquet   all runs
    DIR/truth.npz       what is exactly true of the problem, for figures and the report

Every file is replaced only once the new one is complete, and has a digest of its content (`parts.py`). A part that is
damaged, or that belongs to another study, is reported and run again. One process at a time writes (`lock.py`).
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from surefooted.errors import InvalidInput, UnreadableFile
from surefooted.studies import growth, lock
from surefooted.studies.manifest import differences, manifest, session
from surefooted.studies.parts import (
    NO_DIGEST,
    UNREADABLE,
    Part,
    Tables,
    combined,
    completed,
    decode,
    digest,
    fault,
)
from surefooted.studies.reading import read_resolved
from surefooted.studies.recall import recalled, stamp, stamped
from surefooted.studies.settings import Setting
from surefooted.studies.spec import StudySpec, Task, tasks
from surefooted.studies.truth import Truth
from surefooted.tables import files
from surefooted.tables.files import write


class EditedSource(UnreadableFile):
    """A run of code that was edited since."""


class Folder:
    """A directory and the study whose results it holds; `prepare` makes one, `at` finds one."""

    def __init__(self, path: str | Path, study: StudySpec) -> None:
        self.path, self.study = Path(path), study
        self.remarks: list[str] = []  # what readers should know: files that are not as they were written
        self._parts: dict[Task, Part] = {}  # read or saved already
        self._stamps: dict[Task, tuple[int, int]] = {}  # of their files
        self._has_recalled = False
        self._known = self._identities() | {study.identity}

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
        folder = cls.admit(path, study, resume)
        folder.begin()
        return folder

    @classmethod
    def admit(cls, path: str | Path, study: StudySpec, resume: bool = True) -> Self:
        """A directory that may take the runs of a study; nothing is written but the directory itself."""
        path, news = Path(path), list[str]()
        if (path / "study.toml").exists():
            held = read_resolved(path / "study.toml")
            asked, study = study, growth.grown(held, study) or study
            if study is asked:
                hint = "Choose another --out, or remove the directory."
                raise InvalidInput(f"{path} holds another study, {held.name!r}", growth.differences(held, asked), hint)
            if not cls(path, held)._is_of_its_study():
                fault = "study.toml was changed after the first run, or another version wrote the runs"
                raise InvalidInput(f"{path} holds the runs of another study", [fault], "Choose another --out.")
            if not resume:
                raise InvalidInput(f"{path} holds this study already", ["--no-resume was given"])
            news = growth.news(held, study)
        elif path.is_file() or (path.exists() and not _may_be_starting(path)):
            hint = "Choose another --out, or empty the directory."
            raise InvalidInput(f"{path} cannot take a study", ["it holds other files"], hint)
        folder = cls(path, study)
        folder.remarks += news
        folder.parts.mkdir(parents=True, exist_ok=True)
        return folder

    def begin(self) -> None:
        """Write down that the study is run now, by whom and with what; `remarks` say what differs from before."""
        with lock.replacing_tables(self.path):  # shards may start at the same moment
            known, before, now = self._identities(), self.manifest().get("sessions", []), session()
            before = before if isinstance(before, list) else []
            differ = differences(before, now)
            # each time that the study is run is one session
            about = manifest(self.study) | {"sessions": [*before, now | {"differences": differ}]}
            about["identities"] = sorted(known | {self.study.identity})
            toml = self.study.to_toml().encode()
            about["study_sha256"] = hashlib.sha256(toml).hexdigest()
            about["digest"] = digest(about)
            write(self.path / "manifest.json", json.dumps(about, indent=2, ensure_ascii=False).encode())
            write(self.path / "study.toml", toml)
        self.remarks += differ

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

    def _identities(self) -> set[str]:
        """The identities of all studies that were run here: older versions wrote no other mark into parts."""
        about = self.manifest()
        listed = about.get("identities")
        return {str(one) for one in [about.get("identity"), *(listed if isinstance(listed, list) else [])] if one}

    def save(self, task: Task, content: bytes) -> Part:
        """Write the file of a run that has just finished, and return what is in it."""
        part = self._checked(task, pa.BufferReader(content), self.file(task))
        write(self.file(task), content)
        self._parts[task], self._stamps[task] = part, stamp(self.file(task).stat())
        return part

    def part(self, task: Task) -> Part:
        """A finished run; an error that says why, if its file is incomplete or of another study."""
        if task not in self._parts:
            path = self.file(task)
            try:
                with path.open("rb") as file:  # once for all: opening takes as long as reading
                    about, content = os.fstat(file.fileno()), file.read()
            except OSError as error:
                raise UnreadableFile(f"{path} is not a complete part: {error}") from error
            self._parts[task], self._stamps[task] = self._checked(task, pa.BufferReader(content), path), stamp(about)
        return self._parts[task]

    def recall(self) -> None:
        """Take runs from the tables, if their parts are as they were when the tables were written: see `recall.py`."""
        held = {} if self._has_recalled else recalled(self.path, self.study, self._known)
        self._has_recalled = True
        for task, (part, written) in held.items():
            if task not in self._parts:
                self._parts[task] = part._replace(row=part.row | _named(self.study.setting(task.setting)))
                self._stamps[task] = written

    def _checked(self, task: Task, source: Any, path: Path) -> Part:
        """The part in a buffer; `path` is its file."""
        part = decode(source, path)
        setting = self.study.setting(task.setting)
        if part.setting:
            is_ours = part.setting == setting.key
        else:
            ours = (setting.agent, setting.alpha)
            is_ours = part.study in self._known and (part.row["agent"], part.row["alpha"]) == ours
        if not is_ours or part.task != task.name:
            said = f"it is of study {part.study}, run {part.task}"
            raise UnreadableFile(f"{path} does not belong here: {said}")
        if part.setting and part.source != setting.source:
            raise EditedSource(f"{path} was made by other source code")
        return part._replace(row=part.row | _named(setting))

    def finished(self, wanted: Iterable[Task]) -> tuple[dict[Task, Part], list[str]]:
        """The finished runs, and what is wrong with the files of those that must be run again."""
        parts, faults, here = {}, [], set(self._dates())
        for task in wanted:
            if task.name in here:
                try:
                    parts[task] = self.part(task)
                except EditedSource:  # `growth.news` has said so, for all runs of the setting
                    continue
                except UnreadableFile as error:
                    faults.append(str(error))
        return parts, faults

    def truths(self) -> dict[str, Truth]:
        """What is exactly true of each problem, by its label; without those of which nothing is here."""
        found = {}
        for on in growth.problem_keys(self.study):
            try:
                found[on] = self.read_truth(on)
            except UnreadableFile:  # as in directories of older versions
                continue
        return found

    def read_truth(self, on: str) -> Truth:
        """What is exactly true of a problem; an error that says why if it is not here."""
        return files.load(self.truth_file(on), lambda columns: self._truth_of(on, columns))

    def truth_file(self, on: str) -> Path:
        """The file of what is true of a problem: one of several has its key in its name."""
        keys = growth.problem_keys(self.study)
        return self.path / ("truth.npz" if len(keys) == 1 else f"truth-{keys[on]}.npz")

    def _truth_of(self, on: str, columns: Mapping[str, Any]) -> Truth:
        """The truth of the named arrays in its file, if they are of this study and whole."""
        names = sorted({*Truth.NAMES, "study"} & set(columns))
        if str(columns["study"]) not in (self.study.identity, growth.problem_keys(self.study)[on]):
            raise UnreadableFile("it is of another study")
        if "digest" in columns and str(columns["digest"]) != files.digest({name: columns[name] for name in names}):
            raise UnreadableFile("its content does not match its digest")
        return Truth.from_columns(columns)

    def save_truth(self, on: str, truth: Truth) -> None:
        """Store what is exactly true of a problem."""
        columns = truth.columns() | {"study": growth.problem_keys(self.study)[on]}
        files.save(self.truth_file(on), columns | {"digest": files.digest(columns)})

    def tables(self) -> Tables:
        """The tables of all runs; they are made again from the parts if they are damaged or do not hold all parts."""
        names = [f"{name}.parquet" for name in Tables._fields]
        parts = self._dates()
        wrong: list[str] = []
        try:
            is_current = (self.path / names[0]).stat().st_mtime >= max(parts.values(), default=0.0)
            if is_current or not parts:
                read = [pq.read_table(self.path / name) for name in names]
                found = [fault(table, self.study.identity) for table in read]
                wrong = [f"{self.path / name} {said}" for name, said in zip(names, found, strict=True) if said]
                tables = completed(*read)
                if not parts and all(said in ("", NO_DIGEST) for said in found):
                    self.remarks += wrong
                    return tables
                if not wrong and _run_names(tables.runs) == set(parts):
                    return tables
        except UNREADABLE as error:
            wrong.append(f"{self.path} is damaged: {error}" if (self.path / names[0]).exists() else "")
        if not parts:
            raise UnreadableFile("; ".join(filter(None, wrong)) or f"{self.path} holds no finished run yet")
        self.remarks += [f"{said}; both tables are made again from the parts" for said in filter(None, wrong[:1])]
        try:
            with lock.repairing(self.path) as may_write:
                return self.combine(may_write)
        except OSError:  # a full disk: the tables are for this process alone
            return self.combine(is_written=False)

    def _dates(self) -> dict[str, float]:
        """When each part of the study was written, by its name; parts of settings that are left out do not count."""
        numbers = {f"{setting.index:03d}" for setting in self.study.settings}
        if not self.parts.exists():
            return {}
        with os.scandir(self.parts) as entries:
            ours = [e for e in entries if e.name.endswith(".parquet") and e.name.partition("-")[0] in numbers]
            return {entry.name.removesuffix(".parquet"): entry.stat().st_mtime for entry in ours}

    def combine(self, is_written: bool = True) -> Tables:
        """The tables of the parts that are here; first curves.parquet and then runs.parquet are written."""
        self.recall()
        every = sorted(tasks(self.study), key=lambda task: (task.setting, task.realisation))
        parts, damaged = self.finished(every)
        self.remarks += [f"{said}; this run is left out" for said in damaged]
        tables = combined([*parts.values()], self.study.identity)
        tables = tables._replace(runs=stamped(tables.runs, self.study, [self._stamps[task] for task in parts]))
        if is_written:
            for name in ("curves", "runs"):
                sink = pa.BufferOutputStream()
                pq.write_table(getattr(tables, name), sink, compression="zstd")
                write(self.path / f"{name}.parquet", sink.getvalue().to_pybytes())
        return completed(*tables)


def _named(setting: Setting) -> dict[str, Any]:
    """What a row calls its setting: names may change while the run stays the same."""
    return {"problem": setting.on, "agent": setting.agent, "label": setting.label, "setting": setting.index}


def _run_names(runs: pa.Table) -> set[str]:
    """The names of the parts of the runs in a table."""
    keys = zip(runs["setting"].to_pylist(), runs["realisation"].to_pylist(), strict=True)
    return {Task(setting, realisation).name for setting, realisation in keys}


def _may_be_starting(path: Path) -> bool:
    """Whether a directory holds only files of a study, which another shard may be starting at this moment."""
    ours = ("parts", "manifest.json", "study.toml")
    return all(file.name in ours or file.name.startswith((".", "truth")) for file in path.iterdir())
