"""Sources of logs: files, a table or rows, read as batches of named columns in constant memory."""

import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from surefooted.data.csv_files import decimal_of, header, read_csv
from surefooted.data.log_columns import NAMES as NAMES
from surefooted.data.log_columns import NEEDED as NEEDED
from surefooted.data.log_columns import Found, find_columns
from surefooted.data.log_options import Columns as Columns
from surefooted.data.log_options import LogOptions
from surefooted.errors import InvalidInput, UnreadableFile
from surefooted.tables.files import fingerprint

BLOCK = 1 << 20  # bytes of a file read at a time; about 32 blocks of a CSV file are read ahead
SUFFIXES = (".csv", ".csv.gz", ".parquet")

Source: TypeAlias = str | Path | Sequence[str | Path] | Iterable[Mapping[str, Any]] | pa.Table


@dataclass(frozen=True)
class Batch:
    """Some rows of a log: their file, the number of the first row (from 1), and the columns by our names.

    `others` are columns by the log's names: those that name the site, and those that conditions are about.
    """

    file: str
    first: int
    columns: dict[str, pa.Array]
    found: Found = field(default_factory=Found)
    others: dict[str, pa.Array] = field(default_factory=dict)
    decimal: str = "."


def batches(source: Source, options: LogOptions, most: int) -> Generator[Batch, None, None]:
    """The rows in batches of at most `most`; all files of a log must have the same columns."""
    before: tuple[str, list[str]] | None = None
    for file, stream in _streams(source, options, most):
        first = 1
        try:
            found, decimal = next(stream)
            names = list(found.ours)
            if before is not None and names != before[1]:
                faults = [f"{file} has {', '.join(names)}", f"{before[0]} has {', '.join(before[1])}"]
                raise InvalidInput("these files are not one log", faults, "Read them apart, or leave columns out.")
            before = before or (file, names)
            for batch in stream:
                for start in range(0, batch.num_rows, most):
                    part = batch.slice(start, most)
                    columns = {name: _plain(file, name, part.column(found.ours[name])) for name in names}
                    others = {name: _plain(file, name, part.column(name)) for name in found.others}
                    yield Batch(file, first, columns, found, others, decimal)
                    first += part.num_rows
        except (OSError, EOFError, zlib.error, pa.ArrowException, UnicodeDecodeError) as error:
            fault = str(error).splitlines()[0] if str(error) else type(error).__name__
            hint = "A CSV file is text in UTF-8: a line of names, then lines of as many values, separated by commas."
            if isinstance(error, UnicodeDecodeError) or "UTF8" in fault:
                fault = f"it is not written in {options.encoding.upper()}"
                hint = "Say how: encoding='cp1252' for files of Windows, or 'utf-16' for what Excel calls Unicode text."
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
    faults += [] if faults else _copies(files)
    if faults:
        raise UnreadableFile("this log cannot be read: " + "; ".join(faults))
    return files


def _copies(files: list[Path]) -> list[str]:
    """A sentence for each file with the content of one before: its rows would be counted twice."""
    faults: list[str] = []
    seen: dict[str, Path] = {}
    sizes = [file.stat().st_size for file in files]
    for file, size in zip(files, sizes, strict=True):
        if sizes.count(size) == 1:
            continue
        before = seen.setdefault(fingerprint(file), file)
        faults += [f"{file} is a copy of {before}: its rows would be counted twice"] if before is not file else []
    return faults


def _ends(path: Path, suffixes: tuple[str, ...]) -> bool:
    return path.name.lower().endswith(suffixes)


def _streams(source: Any, options: LogOptions, most: int) -> Iterator[tuple[str, Iterator[Any]]]:
    """The name of each part, and a stream: first the part's columns and decimals, then batches of these columns."""
    if isinstance(source, pa.Table):
        yield "table", _of_table(source, options, most)
        return
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__dataframe__"):  # pandas, polars and others
        yield "table", _of_table(_as_table(source), options, most)
        return
    if not isinstance(source, str | Path):
        if not isinstance(source, Iterable):
            raise InvalidInput("this is not a log", [f"it is {type(source).__name__}: {KINDS}"])
        items: Iterator[Any] = iter(source)
        first = list(islice(items, 1))
        if first and isinstance(first[0], Mapping):
            yield "rows", _of_rows(chain(first, items), list(first[0]), options, most)
            return
        source = [*first, *items]
        if not all(isinstance(path, str | Path) for path in source):
            raise InvalidInput("this is not a log", [KINDS])
    for file in files_of(source):
        kind = _of_csv if _ends(file, (".csv", ".csv.gz")) else _of_parquet
        yield str(file), kind(file, options, most)


KINDS = "give files, a directory, a table (pandas, polars, Arrow), or rows as mappings"


def _as_table(source: Any) -> pa.Table:
    """The table that another library holds, by the Arrow interfaces."""
    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source).read_all()
    from pyarrow.interchange import from_dataframe

    return from_dataframe(source)


def _of_csv(file: Path, options: LogOptions, most: int) -> Iterator[Any]:
    """A CSV file; by its first batch, how it writes decimals."""
    names, separator = header(file, options.separator, options.encoding)
    found = find_columns(str(file), names, options)
    stream = read_csv(file, found.wanted, separator, options, BLOCK)
    first = list(islice(stream, 1))
    decimal = options.decimal
    if decimal is None:
        numbers = [found.ours[name] for name in ("reward", "state", "next_state")]
        decimal = decimal_of(str(file), separator, first[0], numbers) if first else "."
    yield found, decimal
    yield from chain(first, stream)


def _of_parquet(file: Path, options: LogOptions, most: int) -> Iterator[Any]:
    with pq.ParquetFile(file, buffer_size=BLOCK, pre_buffer=False) as reader:
        found = find_columns(str(file), reader.schema_arrow.names, options)
        yield found, options.decimal or "."
        yield from reader.iter_batches(batch_size=most, columns=found.wanted)


def _of_table(table: pa.Table, options: LogOptions, most: int) -> Iterator[Any]:
    found = find_columns("table", table.column_names, options)
    yield found, options.decimal or "."
    yield from table.select(found.wanted).to_batches(max_chunksize=most)


def _of_rows(rows: Iterator[Mapping[str, Any]], names: list[str], options: LogOptions, most: int) -> Iterator[Any]:
    """Rows as mappings, with every value as text, as in a CSV file."""
    found = find_columns("rows", names, options)
    yield found, options.decimal or "."
    while part := list(islice(rows, most)):
        values = ([row.get(name) for row in part] for name in found.wanted)
        texts = [
            pa.array([None if value is None else str(value) for value in column], pa.string()) for column in values
        ]
        yield pa.record_batch(texts, names=found.wanted)


def _plain(file: str, name: str, column: pa.Array) -> pa.Array:
    """The column as text, float64, whole numbers or booleans."""
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        words = _plain(file, name, column.dictionary)  # polars' are views, which cannot be decoded
        return _plain(file, name, pa.DictionaryArray.from_arrays(column.indices, words).dictionary_decode())
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_float64(kind) or types.is_string(kind):
        return column
    if types.is_floating(kind) or types.is_decimal(kind):
        return column.cast(pa.float64())
    if types.is_null(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return column.cast(pa.string())
    if types.is_timestamp(kind) or types.is_date(kind):
        return column
    fault = f"column {name!r} holds {kind}: numbers, text, dates or true and false are needed"
    raise InvalidInput(
        f"{file} is not a log", [fault], "Convert it, or leave an optional one out: columns={'t': None}."
    )
