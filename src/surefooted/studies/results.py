"""The results of a study: its tables, for figures, reports and analyses of your own."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surefooted.errors import UnreadableFile
from surefooted.problems import Problem
from surefooted.studies.building import build_problem
from surefooted.studies.folder import Folder, Tables
from surefooted.studies.spec import Setting, StudySpec


@dataclass(frozen=True)
class Results:
    """The results of a study that was run.

    - `study`: the study.
    - `runs`: a pyarrow Table with one row per realisation.
    - `curves`: a pyarrow Table with the curves of all realisations, downsampled.
    - `manifest`: versions, machine, seeds.
    - `path`: the directory of the study.
    """

    study: StudySpec
    runs: pa.Table
    curves: pa.Table
    manifest: dict[str, Any]
    path: Path

    @classmethod
    def of(cls, folder: Folder, tables: Tables) -> Self:
        """The results in a directory, whose tables are at hand."""
        if tables.runs.num_rows == 0:
            raise UnreadableFile(f"{folder.path} holds no finished run yet")
        runs = tables.runs.replace_schema_metadata(None)
        return cls(folder.study, runs, tables.curves, folder.manifest(), folder.path)

    @cached_property
    def problem(self) -> Problem:
        """The problem of the study."""
        return build_problem(self.study.problem)

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
    """The results of the study in a directory, as `run_study` or `surefooted run` left them.

    results = sf.studies.load("results/inventory")
    results.runs.to_pandas().groupby("label").pseudo_regret.mean()
    """
    folder = Folder.at(path)
    return Results.of(folder, folder.tables())
