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
            columns = _Members(archive)
            version = int(columns.get("format", 0))
            if version > FORMAT:
                raise UnreadableFile(f"{path}: written by a newer version (format {version}; this one reads {FORMAT})")
            return parse(columns)
    except InvalidInput as error:
        raise UnreadableFile(f"{path}: {error}") from error
    except KeyError as error:
        raise UnreadableFile(f"{path}: not a table of this package, {error.args[0]!r} is missing") from error
    except UnreadableFile as error:
        raise UnreadableFile(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    except MemoryError as error:
        raise UnreadableFile(f"{path}: an array in it is too large for this machine's memory") from error
    except (*UNREADABLE, OSError, ValueError, TypeError) as error:
        raise UnreadableFile(f"{path}: not a readable .npz file ({error})") from error


class _Members(Mapping[str, Any]):
    """The named arrays of an archive, each read when it is asked for: one that nobody knows costs nothing."""

    def __init__(self, archive: Any) -> None:
        self._archive, self._read = archive, dict[str, Any]()
        self._sizes = {info.filename.removesuffix(".npy"): info.file_size for info in archive.zip.infolist()}
        self._left = _memory()

    def __getitem__(self, name: str) -> Any:
        """The array of that name; an error if all that were read would take more than half of the memory."""
        if name not in self._read:
            if name not in self._sizes:
                raise KeyError(name)
            self._left -= self._sizes[name]
            if self._left < 0:
                raise UnreadableFile(f"{name!r} would take {self._sizes[name]:,} bytes: more than half of the memory")
            self._read[name] = self._archive[name]
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)


def _memory() -> int:
    """Half of the memory of this machine, in bytes; 8 GB if that cannot be known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return 8_000_000_000


def digest(columns: Mapping[str, Any]) -> str:
    """The SHA-256 of the names, types, shapes and values of named arrays."""
    found = hashlib.sha256()
    for name in sorted(columns):
        array = np.asarray(columns[name])
        found.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
    return found.hexdigest()


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
