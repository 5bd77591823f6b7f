"""What the files of a study hold, each with a digest of its content: one run per part, and the tables of all runs.

A part is a Parquet file with the curve of one run; its metadata hold the row of the run, the study's identity and the
task. A digest is over what is read from a file, not over its bytes: copies, and files that another library compresses
anew, keep it; a changed number does not. It finds decay and edits, and it is no signature: who edits a file on purpose
can compute it again.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from surefooted.errors import UnreadableFile
from surefooted.studies import columns

_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64()}
RUNS = pa.schema([(column.name, _TYPES[column.kind]) for column in columns.RUNS])
NAMES = RUNS.names
CURVE = pa.schema([(column.name, _TYPES[column.kind]) for column in columns.CURVE])
CURVES = pa.schema([*(RUNS.field(name) for name in columns.CURVE_KEYS), *CURVE])
NEEDED = tuple(column.name for column in columns.RUNS if not column.may_lack)  # in every row
_OF_CURVES = (*(c for c in columns.RUNS if c.name in columns.CURVE_KEYS), *columns.CURVE)
NO_DIGEST = "has no digest: it was changed, or an older version wrote it"
NUMBERS = ("int64", "double")  # what Arrow calls their types
# A part is small, and a study may have 100 000: reading one with dictionaries and zstd takes three times as long.
SMALL: dict[str, Any] = {"compression": "snappy", "use_dictionary": False, "write_statistics": False}
UNREADABLE = (OSError, pa.ArrowException, KeyError, TypeError, ValueError, AttributeError)  # by pyarrow, on bad files


class Part(NamedTuple):
    """One run, as its file holds it.

    - `row`, `curve`: what it is; the curve has the columns and types of CURVE.
    - `study`, `task`: the study that made it, and its task.
    - `setting`, `source`: the key of its setting, and the source of code that it ran; empty in older versions.
    - `has_digest`: whether its file has a digest.
    """

    row: dict[str, Any]
    curve: pa.Table
    study: str
    task: str
    has_digest: bool
    setting: str = ""
    source: str = ""


class Tables(NamedTuple):
    """All runs: one row each, and their curves."""

    runs: pa.Table
    curves: pa.Table


def digest(content: Mapping[str, Any], table: pa.Table | None = None) -> str:
    """The SHA-256 of JSON content without its `digest`, and of the names, types, nulls and values of a table."""
    text = json.dumps({key: value for key, value in content.items() if key != "digest"}, sort_keys=True)
    found = hashlib.sha256(text.encode())
    every = b"\1" * (0 if table is None else table.num_rows)
    for name, column in zip(table.column_names, table.columns, strict=True) if table is not None else ():
        kind = str(column.type)
        found.update(f"\n{name} {kind} {len(column)} ".encode())
        if kind in NUMBERS and column.null_count == 0:
            found.update(every)
            found.update(np.ascontiguousarray(column.to_numpy()).tobytes())
        elif kind in NUMBERS:
            found.update(np.ascontiguousarray(column.is_valid().to_numpy()).tobytes())
            found.update(np.ascontiguousarray(column.fill_null(0).to_numpy()).tobytes())
        else:
            found.update(json.dumps(column.to_pylist(), default=str).encode())
    return found.hexdigest()


def encode(row: dict[str, Any], curve: dict[str, Any], **about: str) -> bytes:
    """The bytes of the part of a run; `about` are the study's identity, the task and the version."""
    table, content = pa.table(curve), {**about, "row": row}
    content["digest"] = digest(content, table)
    table = table.replace_schema_metadata({"surefooted": json.dumps(content, sort_keys=True)})
    sink = io.BytesIO()
    pq.write_table(table, sink, **SMALL)
    return sink.getvalue()


def decode(source: Any, name: Path) -> Part:
    """The part in a file or buffer; an error that says why if it is incomplete, or not what its digest says."""
    try:
        curve = pq.ParquetFile(source).read(use_threads=False)  # of small files, half the time of `pq.read_table`
        content: dict[str, Any] = json.loads((curve.schema.metadata or {})[b"surefooted"])
        row = content["row"]
        if "digest" in content and content["digest"] != digest(content, curve):
            raise ValueError("its content does not match its digest")
        missing = [name for name in NEEDED if name not in row]
        if missing:
            raise ValueError(f"it lacks {', '.join(missing)}")
        row = {name: row.get(name) for name in NAMES}
        row["version"] = str(content.get("version"))
        study, task, setting, source = (str(content.get(key, "")) for key in ("study", "task", "setting", "source"))
        points = _plain(_whole(curve, CURVE, columns.CURVE))
        return Part(row, points, study, task, "digest" in content, setting, source)
    except UNREADABLE as error:
        raise UnreadableFile(f"{name} is not a complete part: {error}") from error


def combined(parts: list[Part], study: str) -> Tables:
    """The tables of these runs, each with its digest and the study's identity."""
    runs = pa.table({name: pa.array([part.row[name] for part in parts], RUNS.field(name).type) for name in RUNS.names})
    points = pa.concat_tables([CURVE.empty_table(), *(part.curve for part in parts)]).combine_chunks()
    of_run = pa.array(np.repeat(np.arange(len(parts)), [part.curve.num_rows for part in parts]))
    named = [runs[name].combine_chunks().take(of_run) for name in columns.CURVE_KEYS]  # the run that a point is of
    curves = pa.table([*named, *points.columns], schema=CURVES)
    return Tables(signed(runs, study), signed(curves, study))


def _plain(curve: pa.Table) -> pa.Table:
    """A curve with the types of CURVE and nothing else."""
    bare = curve.replace_schema_metadata(None)
    return bare if bare.schema.equals(CURVE, check_metadata=True) else bare.cast(CURVE)


def signed(table: pa.Table, study: str) -> pa.Table:
    """A table whose metadata hold the study's identity and the digest."""
    about = {"study": study}
    return table.replace_schema_metadata(about | {"digest": digest(about, table)})


def fault(table: pa.Table, study: str) -> str:
    """What is wrong with a table that was read, by its metadata; empty if nothing is."""
    about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    if about.get("study", study) != study:
        return "is of another study"
    if "digest" not in about:
        return NO_DIGEST
    return "" if about["digest"] == digest({"study": study}, table) else "does not match its digest: it was changed"


def completed(runs: pa.Table, curves: pa.Table) -> Tables:
    """Tables that were read, with all columns and without metadata."""
    both = _whole(runs, RUNS, columns.RUNS), _whole(curves, CURVES, _OF_CURVES)
    return Tables(*(table.replace_schema_metadata(None) for table in both))


def _whole(table: pa.Table, schema: pa.Schema, known: tuple[columns.Column, ...]) -> pa.Table:
    """A table with all columns of a schema; those that an older version may lack are null."""
    held, wanted = table.column_names, schema.names
    if held == wanted:
        return table
    lacking = [column for column in known if column.name in wanted and column.name not in held]
    if missing := [column.name for column in lacking if not column.may_lack]:
        raise ValueError(f"it lacks {', '.join(missing)}")
    for column in lacking:
        table = table.append_column(schema.field(column.name), pa.nulls(table.num_rows, _TYPES[column.kind]))
    return table.select(schema.names)
