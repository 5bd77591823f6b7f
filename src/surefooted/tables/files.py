"""One `.npz` file per table or problem, written atomically and read without pickles; the fingerprint of any file."""

import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from surefooted.errors import InvalidInput, UnreadableFile

FORMAT = 1

T = TypeVar("T")


def save(path: str | Path, columns: Mapping[str, Any]) -> None:
    """Write the named arrays to `path`: to a neighbour first, which then takes its place."""
    path = Path(path)
    neighbour = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        with neighbour.open("xb") as file:
            np.savez_compressed(file, format=FORMAT, **columns)
        os.replace(neighbour, path)
    except BaseException:
        neighbour.unlink(missing_ok=True)
        raise


def parsed(path: str | Path, parse: Callable[[Mapping[str, Any]], T]) -> T:
    """What `parse` makes of the named arrays in `path`."""
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
    except (
        OSError,
        ValueError,
        EOFError,
        TypeError,
        AttributeError,
        zlib.error,
        zipfile.BadZipFile,
        RuntimeError,
    ) as error:
        if isinstance(error, UnreadableFile):
            raise
        raise UnreadableFile(f"{path}: not a readable .npz file ({error})") from error


def fingerprint(file: Path) -> str:
    """What tells the content of a file, or of the files of a directory that are not hidden, from another's."""
    if file.is_dir():
        parts = sorted(part for part in file.iterdir() if part.is_file() and not part.name.startswith((".", "_")))
        return hashlib.sha256("".join(f"{part.name} {fingerprint(part)}\n" for part in parts).encode()).hexdigest()
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UnreadableFile(f"cannot read {file}: {error}") from error
