"""Files: replaced only by a complete new one; one `.npz` file per table or problem; fingerprints."""

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from surefooted.errors import InvalidInput, UnreadableFile

FORMAT = 1
UNREADABLE = (EOFError, AttributeError, RuntimeError, zlib.error, zipfile.BadZipFile)  # by NumPy, on bad archives

T = TypeVar("T")


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` once it is complete; after an error `path` is unchanged."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write(path: str | Path, content: bytes) -> None:
    """Replace a file by a new one with this content."""
    with replacing(path) as file:
        file.write(content)


def save(path: str | Path, columns: Mapping[str, Any]) -> None:
    """Write named arrays to one `.npz` file."""
    with replacing(path) as file:
        np.savez_compressed(file, format=FORMAT, **columns)


def load(path: str | Path, parse: Callable[[Mapping[str, Any]], T]) -> T:
    """What `parse` builds from the named arrays in `path`; pickled objects are refused."""
    path = Path(path)
    if not path.exists():
        raise UnreadableFile(f"{path}: no such file")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            columns = {name: archive[name] for name in archive.files}
        version = int(columns.get("format", 0))
        if version > FORMAT:
            raise UnreadableFile(f"{path}: written by a newer version (format {version}; this one reads {FORMAT})")
        return parse(columns)
    except InvalidInput as error:
        raise UnreadableFile(f"{path}: {error}") from error
    except KeyError as error:
        raise UnreadableFile(f"{path}: not a table of this package, {error.args[0]!r} is missing") from error
    except UnreadableFile:
        raise
    except (*UNREADABLE, OSError, ValueError, TypeError) as error:
        raise UnreadableFile(f"{path}: not a readable .npz file ({error})") from error


def fingerprint(file: Path) -> str:
    """The SHA-256 of a file; of a directory, one over the names and fingerprints of its files, hidden ones left out."""
    if file.is_dir():
        parts = sorted(part for part in file.iterdir() if part.is_file() and not part.name.startswith((".", "_")))
        return hashlib.sha256("".join(f"{part.name} {fingerprint(part)}\n" for part in parts).encode()).hexdigest()
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UnreadableFile(f"cannot read {file}: {error}") from error
