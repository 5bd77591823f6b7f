"""One `.npz` file per table or problem: written atomically, read without pickles, refused with a reason."""

import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from surefooted.errors import InvalidTable, UnreadableFile

FORMAT = 1

T = TypeVar("T")


def save(path: str | Path, columns: Mapping[str, Any]) -> None:
    """Write the named arrays to `path`: to a neighbour first, which then takes its place."""
    path = Path(path)
    handle, neighbour = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, format=FORMAT, **columns)
        os.replace(neighbour, path)
    except BaseException:
        os.unlink(neighbour)
        raise


def parsed(path: str | Path, parse: Callable[[Mapping[str, Any]], T]) -> T:
    """What `parse` makes of the named arrays in `path`."""
    path = Path(path)
    if not path.exists():
        raise UnreadableFile(f"{path}: no such file")
    try:
        with np.load(path, allow_pickle=False) as archive:
            columns = {name: archive[name] for name in archive.files}
        version = int(columns.get("format", 0))
        if version > FORMAT:
            raise UnreadableFile(f"{path}: written by a newer version (format {version}; this one reads {FORMAT})")
        return parse(columns)
    except InvalidTable as error:
        raise UnreadableFile(f"{path}: {error}") from error
    except KeyError as error:
        raise UnreadableFile(f"{path}: not a table of this package, {error.args[0]!r} is missing") from error
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        if isinstance(error, UnreadableFile):
            raise
        raise UnreadableFile(f"{path}: not a readable .npz file ({error})") from error
