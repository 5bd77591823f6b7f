"""Sources of logs: files, a table or rows, read as batches of named columns in constant memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from surefooted.errors import InvalidInput, UnreadableFile

NAMES = ("episode", "t", "state", "action", "reward", "next_state", "terminated", "truncated")
NEEDED = ("state", "action", "reward", "next_state")
BLOCK = 1 << 20  # bytes of a file read at a time; about 32 blocks of a CSV file are read ahead
SUFFIXES = (".csv", ".csv.gz", ".parquet")

Source: TypeAlias = str | Path | Sequence[str | Path] | Iterable[Mapping[str, Any]] | pa.Table
Columns: TypeAlias = Mapping[str, str | None]


@dataclass(frozen=True)
class Batch:
    """Some rows of a log: their file, the number of the first row (from 1), and the columns by our names."""

    file: str
    first: int
    columns: dict[str, pa.Array]


def batches(source: Source, columns: Columns | None, most: int) -> Iterator[Batch]:
    """The rows in batches of at most `most`; all files of a log must have the same columns."""
    before: tuple[str, list[str]] | None = None
    for file, stream in _streams(source, columns or {}, most):
        first = 1
        try:
            names = next(stream)
            if before is not None and names != before[1]:
                faults = [f"{file} has {', '.join(names)}", f"{before[0]} has {', '.join(before[1])}"]
                raise InvalidInput("these files are not one log", faults, "Read them apart, or leave columns out.")
            before = before or (file, names)
            for batch in stream:
                for start in range(0, batch.num_rows, most):
                    part = batch.slice(start, most)
                    arrays = (_plain(file, name, part.column(i)) for i, name in enumerate(names))
                    yield Batch(file, first, dict(zip(names, arrays, strict=True)))
                    first += part.num_rows
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            fault = str(error).splitlines()[0] if str(error) else type(error).__name__
            hint = "A CSV file is text in UTF-8: a line of names, then lines of as many values, separated by commas."
            if file.endswith(".parquet"):
                hint = "A Parquet file that was cut off or is still being written cannot be read."
            raise UnreadableFile(f"{file} cannot be read: {fault.rstrip('.')}. {hint}") from error


def files_of(source: str | Path | Sequence[str | Path]) -> list[Path]:
    """The files of a log: those of a list in order, those of a directory by name."""
    given = [Path(path) for path in ([source] if isinstance(source, str | Path) else source)]
    files, faults = [], [] if given else ["the list of files is empty"]
    for path in given:
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if not file.name.startswith((".", "_")))
            faults += [] if inside else [f"{path} is an empty directory"]
            files += inside
        else:
            files.append(path)
    faults += [f"{path}: no such file" for path in files if not path.exists()]
    strange = (path for path in files if path.exists() and not (path.is_file() and _ends(path, SUFFIXES)))
    faults += [f"{path} is not a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file" for path in strange]
    resolved = [path.resolve() for path in files]
    faults += [f"{path} is listed twice" for i, path in enumerate(files) if resolved[i] in resolved[:i]]
    if faults:
        raise UnreadableFile("this log cannot be read: " + "; ".join(faults))
    return files


def _ends(path: Path, suffixes: tuple[str, ...]) -> bool:
    return path.name.lower().endswith(suffixes)


def _streams(source: Source, columns: Columns, most: int) -> Iterator[tuple[str, Iterator[Any]]]:
    """The name of each part, and a stream: first our names of the part's columns, then batches of these columns."""
    if isinstance(source, pa.Table):
        yield "table", _of_table(source, columns, most)
        return
    if not isinstance(source, str | Path):
        items: Iterator[Any] = iter(source)
        first = list(islice(items, 1))
        if first and isinstance(first[0], Mapping):
            yield "rows", _of_rows(chain(first, items), list(first[0]), columns, most)
            return
        source = [*first, *items]
        if not all(isinstance(path, str | Path) for path in source):
            raise InvalidInput("this is not a log", ["give files, a directory, a pyarrow Table, or rows as mappings"])
    for file in files_of(source):
        kind = _of_csv if _ends(file, (".csv", ".csv.gz")) else _of_parquet
        yield str(file), kind(file, columns, most)


def _of_csv(file: Path, columns: Columns, most: int) -> Iterator[Any]:
    """A CSV file, with every value as text; an empty value is missing."""
    read = pcsv.ReadOptions(block_size=BLOCK, use_threads=False)
    parse = pcsv.ParseOptions(newlines_in_values=True)
    with pcsv.open_csv(file, read_options=read, parse_options=parse) as header:
        found = _found(str(file), header.schema.names, columns)
    yield list(found)
    convert = pcsv.ConvertOptions(
        include_columns=list(found.values()),
        column_types=dict.fromkeys(found.values(), pa.string()),
        strings_can_be_null=True,
        null_values=[""],
    )
    with pcsv.open_csv(file, read_options=read, parse_options=parse, convert_options=convert) as reader:
        yield from reader


def _of_parquet(file: Path, columns: Columns, most: int) -> Iterator[Any]:
    with pq.ParquetFile(file, buffer_size=BLOCK, pre_buffer=False) as reader:
        found = _found(str(file), reader.schema_arrow.names, columns)
        yield list(found)
        for batch in reader.iter_batches(batch_size=most, columns=list(found.values())):
            yield batch.select(list(found.values()))


def _of_table(table: pa.Table, columns: Columns, most: int) -> Iterator[Any]:
    found = _found("table", table.column_names, columns)
    yield list(found)
    yield from table.select(list(found.values())).to_batches(max_chunksize=most)


def _of_rows(rows: Iterator[Mapping[str, Any]], names: list[str], columns: Columns, most: int) -> Iterator[Any]:
    """Rows as mappings, with every value as text, as in a CSV file."""
    found = _found("rows", names, columns)
    yield list(found)
    while part := list(islice(rows, most)):
        values = ([row.get(name) for row in part] for name in found.values())
        texts = [
            pa.array([None if value is None else str(value) for value in column], pa.string()) for column in values
        ]
        yield pa.record_batch(texts, names=list(found))


def _found(file: str, names: list[str], columns: Columns) -> dict[str, str]:
    """Our name and the file's name of each column; an error if a column is missing or ambiguous."""
    faults = [f"columns: there is no {name!r}; there are {', '.join(NAMES)}" for name in columns if name not in NAMES]
    found: dict[str, str] = {}
    for name in NAMES:
        theirs = columns.get(name, name)
        if theirs is None and name not in NEEDED:
            continue  # to be left out
        if theirs in found.values():
            faults.append(f"column {theirs!r} cannot be both {name} and another")
        elif names.count(str(theirs)) > 1:
            faults.append(f"there are two columns {theirs!r}")
        elif theirs in names:
            found[name] = str(theirs)
        elif name in columns or name in NEEDED:
            faults.append(f"there is no column {theirs!r} for {name}")
        else:
            faults += [f"column {other!r}: is this {name}?" for other in names if other.strip().casefold() == name]
    if faults:
        held = f"It has {', '.join(map(repr, names))}."
        hint = held + " Say which is which, as in columns={'state': 'stock'}; None leaves an optional one out."
        raise InvalidInput(f"the columns of {file} are not those of a log", faults, hint)
    return found


def _plain(file: str, name: str, column: pa.Array) -> pa.Array:
    """The column as text, float64, whole numbers or booleans."""
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        return _plain(file, name, column.dictionary_decode())
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_float64(kind) or types.is_string(kind):
        return column
    if types.is_floating(kind) or types.is_decimal(kind):
        return column.cast(pa.float64())
    if types.is_null(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return column.cast(pa.string())
    fault = f"column {name!r} holds {kind}: numbers, text or true and false are needed"
    raise InvalidInput(
        f"{file} is not a log", [fault], "Convert it, or leave an optional one out: columns={'t': None}."
    )
