"""Taking runs from the tables of a directory instead of from its parts.

Reading many parts takes ten times as long as reading their tables. A run is taken from the tables if its part is as it
was when the tables were written: `runs.parquet` holds the time and the size of each part. `verify` reads all parts.
"""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from surefooted.studies.parts import CURVE, UNREADABLE, Part, Tables, completed, fault
from surefooted.studies.spec import StudySpec, Task

Stamp = tuple[int, int]


def stamp(about: os.stat_result) -> Stamp:
    """When a file was written, in nanoseconds, and its size."""
    return about.st_mtime_ns, about.st_size


def stamped(runs: pa.Table, study: StudySpec, stamps: Sequence[Stamp]) -> pa.Table:
    """The table of runs with the stamp of the part of each run, and the source of each setting."""
    sources = {str(setting.index): setting.source for setting in study.settings}
    held = {b"stamps": b64encode(np.array(stamps, dtype=np.int64).tobytes()), b"sources": json.dumps(sources).encode()}
    return runs.replace_schema_metadata(runs.schema.metadata | held)


def recalled(path: Path, study: StudySpec, known: set[str]) -> dict[Task, tuple[Part, Stamp]]:
    """The runs of a study that its tables hold as the parts do; `known` are the studies whose tables count."""
    if not (path / "runs.parquet").exists():
        return {}
    try:
        read = Tables(*(pq.read_table(path / f"{name}.parquet") for name in Tables._fields))
        about = read.runs.schema.metadata or {}
        made_by, sources = about[b"study"].decode(), json.loads(about[b"sources"])
        if made_by not in known or any(fault(table, made_by) for table in read):
            return {}
        stamps = np.frombuffer(b64decode(about[b"stamps"]), dtype=np.int64).reshape(-1, 2).tolist()
        held = dict(zip(*_split(completed(*read)), strict=True))
        was = {task: (when, size) for task, (when, size) in zip(held, stamps, strict=True)}
        with os.scandir(path / "parts") as entries:
            now = {entry.name.removesuffix(".parquet"): stamp(entry.stat()) for entry in entries}
    except UNREADABLE:
        return {}
    same = {s.index for s in study.settings if sources.get(str(s.index)) == s.source}
    return {
        task: (part, was[task])
        for task, part in held.items()
        if task.setting in same and now.get(task.name) == was[task]
    }


def _split(tables: Tables) -> tuple[list[Task], list[Part]]:
    """The runs in tables, in their order."""
    rows, curves = tables.runs.to_pylist(), tables.curves.combine_chunks()
    if not rows:
        return [], []
    of_run = pc.add(pc.multiply(curves["setting"], 1 << 32), curves["realisation"]).to_numpy()
    ends = np.r_[np.flatnonzero(np.diff(of_run)) + 1, len(of_run)].tolist()
    begins, points = [0, *ends[:-1]], curves.select(CURVE.names)
    tasks = [Task(row["setting"], row["realisation"]) for row in rows]
    if of_run[begins].tolist() != [(task.setting << 32) + task.realisation for task in tasks]:
        raise ValueError("the tables were not written together")
    parts = [
        Part(row, points.slice(begin, end - begin), "", task.name, True)
        for row, task, begin, end in zip(rows, tasks, begins, ends, strict=True)
    ]
    return tasks, parts
