"""CSV files as they come: commas, semicolons or tabs, decimal commas, and quotes that would swallow lines."""

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from surefooted.data.log_options import SEPARATORS, LogOptions
from surefooted.errors import UnreadableFile
from surefooted.kernels.logs import FILLED, MODE, OPENED, QUOTED, RECORDS, scan_lines

HEAD = 1 << 16  # bytes in which the header must end
COMMA_DECIMAL, POINT_DECIMAL = re.compile(r"^[+-]?\d*,\d+$"), re.compile(r"^[+-]?\d*\.\d+$")


class CheckedLines(io.RawIOBase):
    """The bytes of a CSV file, on their way to the parser: records are counted, and quoted line breaks refused."""

    def __init__(self, file: Path, separator: str, quoted_breaks: bool, encoding: str = "utf-8") -> None:
        self._stream = open_bytes(file)
        self._decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)()
        self._file, self._separator, self._quoted_breaks = file, ord(separator), quoted_breaks
        self._kept = np.array([0, 1, 0, 0, 0, 0])
        self.fault: UnreadableFile | None = None

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        block: bytes = self._stream.read(size)
        if self._decoder is not None:  # the parser reads UTF-8
            while not (text := self._decoder.decode(block, final=not block)) and block:
                block = self._stream.read(size)
            block = text.encode()
        if block:
            broken = scan_lines(np.frombuffer(block, dtype=np.uint8).copy(), self._separator, self._kept)
            if broken >= 0 and not self._quoted_breaks:
                self._refuse(broken)
        elif self._kept[MODE] == QUOTED:
            self._refuse(int(self._kept[OPENED]))
        return block

    def _refuse(self, line: int) -> None:
        fault = f"{self._file}, line {line}: a quote opens here and does not close in this line"
        hint = "A stray quote would swallow the lines that follow: remove it, or write it twice within quotes."
        self.fault = UnreadableFile(f"{fault}. {hint} If values do hold line breaks, read with quoted_breaks=True.")
        raise self.fault

    @property
    def records(self) -> int:
        """The records read so far, the header included."""
        return int(self._kept[RECORDS] + self._kept[FILLED])

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()


def open_bytes(file: Path) -> Any:
    """The content of a file, unpacked if it is packed."""
    return gzip.open(file, "rb") if file.name.lower().endswith(".gz") else file.open("rb")


def header(file: Path, separator: str | None, encoding: str = "utf-8") -> tuple[list[str], str]:
    """The names of a file's columns, and what separates its values."""
    with open_bytes(file) as stream:
        head = stream.read(HEAD)
    text = codecs.getincrementaldecoder(encoding)().decode(head, final=len(head) < HEAD)
    lines = text.removeprefix("\ufeff").splitlines()
    line = next((line for line in lines if line), "")
    if not line:
        raise OSError("it is empty")
    if separator is None:
        bare = re.sub(r'"[^"]*"', "", line)
        separator = max(SEPARATORS, key=bare.count)  # the first of them if there is none
    return next(csv.reader([line], delimiter=separator), []), separator


def read_csv(file: Path, names: list[str], separator: str, options: LogOptions, block: int) -> Iterator[Any]:
    """These columns of a file in batches, with every value as text; an empty value is missing."""
    stream = CheckedLines(file, separator, options.quoted_breaks, options.encoding)
    read = pcsv.ReadOptions(block_size=block, use_threads=False)
    parse = pcsv.ParseOptions(delimiter=separator, newlines_in_values=options.quoted_breaks)
    convert = pcsv.ConvertOptions(
        include_columns=names,
        column_types=dict.fromkeys(names, pa.string()),
        strings_can_be_null=True,
        null_values=[""],
    )
    rows = 0
    try:
        with pcsv.open_csv(stream, read_options=read, parse_options=parse, convert_options=convert) as reader:
            for batch in reader:
                rows += batch.num_rows
                yield batch
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise stream.fault or error from error
    if rows != stream.records - 1:
        fault = f"{file} holds {stream.records - 1} lines below its header, and {rows} rows were read"
        raise UnreadableFile(f"{fault}. Some quote or line break is not what it seems: look at its quotes.")


def decimal_of(file: str, separator: str, batch: pa.RecordBatch, names: list[str]) -> str:
    """How a file writes decimals, by its first rows: `,` only where some number has a comma and none has a point."""
    if separator == ",":
        return "."
    texts = [text.strip() for name in names for text in batch.column(name).to_pylist() if text]
    commas, points = (next(filter(kind.match, texts), None) for kind in (COMMA_DECIMAL, POINT_DECIMAL))
    if commas and points:
        fault = f"{file} holds {commas} and {points}: are decimals written with commas or with points?"
        raise UnreadableFile(f"{fault} Say decimal=',' or decimal='.'; rows that are written otherwise are not used.")
    return "," if commas else "."
