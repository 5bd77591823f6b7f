"""The tables of a study that was run, for figures, reports and whoever wants to look."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from surefooted.errors import UnreadableFile
from surefooted.studies.folder import Folder
from surefooted.studies.spec import Setting, StudySpec


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
        """Read the directory of a study, combining its parts first if the tables are not of all of them."""
        folder = Folder(path)
        study, runs = folder.held, folder.path / "runs.parquet"
        if folder.recorded not in (None, study.identity):
            raise UnreadableFile(
                f"{path}: the runs are not of this study.toml: it was changed, or another version made them"
            )
        if folder.parts.exists() and not folder.is_combined():
            folder.combine()
        if not runs.exists() or pq.read_metadata(runs).num_rows == 0:
            raise UnreadableFile(f"{path} holds no finished run yet")
        try:
            table, curves = (pq.read_table(folder.path / f"{name}.parquet") for name in ("runs", "curves"))
            about = json.loads((folder.path / "manifest.json").read_text(encoding="utf-8"))
        except (OSError, pa.ArrowException, ValueError) as error:
            raise UnreadableFile(f"{path} is damaged: {error}") from error
        return cls(study, table.replace_schema_metadata(None), curves, about, folder.path)

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
