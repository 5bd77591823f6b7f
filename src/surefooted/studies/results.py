"""The results of a study: its tables, for figures, reports and analyses of your own."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surefooted.errors import UnreadableFile
from surefooted.studies.columns import judged_by
from surefooted.studies.folder import Folder
from surefooted.studies.parts import Tables
from surefooted.studies.settings import Setting
from surefooted.studies.spec import StudySpec
from surefooted.studies.truth import Truth


@dataclass(frozen=True)
class Results:
    """The results of a study that was run.

    - `study`: the study.
    - `runs`: a pyarrow Table with one row per realisation.
    - `curves`: a pyarrow Table with the curves of all realisations, downsampled.
    - `manifest`: versions, machine, seeds.
    - `path`: the directory of the study.
    - `truths`: what is exactly true of each problem, by its label; empty if an older version ran the study.
    - `remarks`: sentences about files that are not as they were written, and about how runs were made.

    >>> import surefooted as sf
    >>> agents = {"ucrl2": {"kind": "UCRL2"}}
    >>> study = {"name": "short", "problem": "riverswim", "steps": 50, "realisations": 2, "agents": agents}
    >>> results = sf.studies.run_study(sf.studies.parse(study), "results/short", jobs=1)
    >>> results.problems, results.runs.num_rows
    (['riverswim'], 2)
    """

    study: StudySpec
    runs: pa.Table
    curves: pa.Table
    manifest: dict[str, Any]
    path: Path
    truths: Mapping[str, Truth] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, folder: Folder, tables: Tables, truths: Mapping[str, Truth]) -> Self:
        """The results in a directory, whose tables and truth are at hand."""
        if tables.runs.num_rows == 0:
            raise UnreadableFile("\n".join([f"{folder.path} holds no finished run yet", *folder.remarks]))
        remarks = tuple(dict.fromkeys(folder.remarks))
        made = cls(folder.study, tables.runs, tables.curves, folder.manifest(), folder.path, truths, remarks)
        if len(made.versions) == 1:
            return made
        numbers = ", ".join(f"{number} by {version}" for version, number in made.versions.items())
        said = f"Different versions of surefooted made these runs, see the column `version`: {numbers}."
        return replace(made, remarks=(*remarks, said))

    @property
    def truth(self) -> Truth | None:
        """What is exactly true of the problem; None if it is not known, or if there are several problems."""
        return self.truths.get(self.problems[0]) if len(self.problems) == 1 else None

    @property
    def problems(self) -> list[str]:
        """The labels of the problems that have finished runs."""
        return [*dict.fromkeys(setting.on for setting in self.settings)]

    def by_problem(self) -> list[Self]:
        """The results of each problem alone, in the order of `problems`."""
        numbers = {on: pa.array([s.index for s in self.settings if s.on == on]) for on in self.problems}
        return [replace(self, runs=self.runs.filter(pc.is_in(self.runs["setting"], numbers[on]))) for on in numbers]

    def words(self, setting: Setting) -> str:
        """What a setting is called, with its problem if there are several."""
        return f"{setting.on}: {setting.label}" if len(self.problems) > 1 else setting.label

    def in_unit(self, words: str) -> str:
        """The name of an amount, with the unit of rewards if the problem has one."""
        units = {self.truths[on].money if on in self.truths else "" for on in self.problems}
        unit = units.pop() if len(units) == 1 else ""
        return f"{words} ({unit})" if unit else words

    @property
    def lack(self) -> str:
        """What figures and reports have to leave out, in one sentence; empty if they show everything."""
        found = [self.truths.get(on) for on in self.problems]
        if all(truth is not None and truth.sketch is not None for truth in found):
            return ""
        if all(truth is not None for truth in found):
            return "The picture of the problem is left out, since its exact answers did not converge."
        command = shlex.join(["surefooted", "run", str(self.path / "study.toml"), "--out", str(self.path)])
        command += " --allow-code" if self.study.code else ""
        what = "the regret of the baseline, the picture of the problem and the paper's numbers about it are left out"
        return f"{self.path} has no readable truth.npz, so {what}; if you trust the study, add it with: {command}"

    @property
    def settings(self) -> list[Setting]:
        """The settings that have finished runs."""
        present = set(self.runs["setting"].to_pylist())
        return [setting for setting in self.study.settings if setting.index in present]

    def condition(self, setting: Setting) -> str | None:
        """The condition that the agent of a setting keeps: see `columns.PREFIXES`; None if it keeps none."""
        condition: str | None = self.column(setting, "condition")[0]
        return condition

    def judged_by(self, setting: Setting) -> str | None:
        """The condition that a setting is judged by: see `columns.judged_by`."""
        known = np.isfinite(self.column(setting, "min_margin").astype(float)).all()
        return judged_by(self.condition(setting), True if known else None)

    @property
    def conditions(self) -> dict[int, str]:
        """The condition that each setting is judged by, by its number.

        An agent that keeps none is judged by the condition that all others keep, or by replay if they differ.
        """
        conditions = {setting.index: self.judged_by(setting) for setting in self.settings}
        found = {condition for condition in conditions.values() if condition is not None}
        default = found.pop() if len(found) == 1 else "replay"
        return {index: condition or default for index, condition in conditions.items()}

    @property
    def versions(self) -> dict[str, int]:
        """How many runs each version of the package made; older tables do not say it."""
        found = Counter(self.runs["version"].to_pylist())
        return {version or "unknown": number for version, number in sorted(found.items(), key=str)}

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
    """The results of the study in a directory, as `run_study` or `surefooted run` left them.

    Nothing that the study names is imported, opened or built.

    - `path`: the directory.

    >>> import surefooted as sf
    >>> agents = {"ucrl2": {"kind": "UCRL2"}}
    >>> study = {"name": "short", "problem": "riverswim", "steps": 50, "realisations": 2, "agents": agents}
    >>> made = sf.studies.run_study(sf.studies.parse(study), "results/short", jobs=1)
    >>> results = sf.studies.load("results/short")
    >>> results.runs["label"].to_pylist()
    ['UCRL2', 'UCRL2']
    """
    folder = Folder.at(path)
    return Results.of(folder, folder.tables(), folder.truths())


def common_unit(several: Sequence[Results], words: str) -> str:
    """The name of an amount, with the unit of rewards if it is the same in all of these results."""
    named = {results.in_unit(words) for results in several}
    return named.pop() if len(named) == 1 else words
