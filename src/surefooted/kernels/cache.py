"""Compiled kernels on disk. They are valid for this whole folder as it is, or they are not used.

numba's own cache looks at one file at a time: it misses an edit to a kernel in another file. Here, compiled kernels are
kept in a directory named after a digest of every file in this folder, of the versions of numba, LLVM, NumPy and Python,
and of numba's settings. An edit changes the name, and every kernel is compiled again.

A kernel is read from the first place that holds it and written to the first place that can be written. Trouble with
files is never an error: the kernel is compiled again.
"""

import hashlib
import os
import pickle
import shutil
import stat
import sys
import tempfile
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
import numpy as np
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

FOLDER = Path(__file__).parent
PREFIX = "kernels-"  # of the directories, one for each digest
KEPT = 5  # directories in one place; the one used longest ago is removed when a sixth is made
HARMLESS = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS"}  # settings that do not change what is compiled


def _stamp() -> list[tuple[str, int, int]]:
    """Name, time and size of every file of this folder, to see quickly whether one changed."""
    with os.scandir(FOLDER) as entries:
        files = [(entry.name, entry.stat()) for entry in entries if entry.name.endswith(".py")]
    return sorted((name, about.st_mtime_ns, about.st_size) for name, about in files)


def _digest() -> str:
    """A name for everything that compiled kernels depend on, except the processor (see `KernelCache`)."""
    versions = (numba.__version__, llvmlite.__version__, np.__version__, sys.implementation.cache_tag)
    settings = sorted((k, v) for k, v in os.environ.items() if k.startswith("NUMBA_") and k not in HARMLESS)
    found = hashlib.sha256(repr((versions, settings)).encode())
    for name, *_ in _stamp():
        content = (FOLDER / name).read_bytes()
        found.update(f"{name} {len(content)} ".encode() + content)
    return found.hexdigest()[:20]


try:
    STAMP, DIGEST = _stamp(), _digest()
except OSError:  # the package was imported from an archive: there are no files to look at, and no cache
    STAMP, DIGEST = [], ""


class Places(NamedTuple):
    """The directories of this digest: those to read from, in order, and the one to write to, if any."""

    read: list[Path]
    write: Path | None
    lasts: bool  # whether `write` is more than a temporary directory


@cache
def places() -> Places:
    """The directories that this process uses; `read` ends with the first one that can be written."""
    read = []
    for place, lasts in _candidates():
        directory = place / f"{PREFIX}{DIGEST}"
        read.append(directory)
        if _can_be_written(directory):
            _remove_old(place)
            return Places(read, directory, lasts)
    return Places(read, None, False)


def _candidates() -> Iterator[tuple[Path, bool]]:
    """NUMBA_CACHE_DIR, or the package and the user's cache directory; then a temporary one, which does not last."""
    if named := os.environ.get("NUMBA_CACHE_DIR"):  # and not a `.numba_config.yaml` in the current directory
        yield Path(named, "surefooted").absolute(), True
    else:
        yield FOLDER / "__pycache__", True
        usual = {"win32": "~/AppData/Local", "darwin": "~/Library/Caches"}.get(sys.platform, "~/.cache")
        user = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(usual))
        if user.is_absolute():  # `~` remains for a user without a home
            yield user / "surefooted", True
    try:
        mine = Path(tempfile.gettempdir(), f"surefooted-{_user()}")
        mine.mkdir(mode=0o700, exist_ok=True)
        about = mine.lstat()
    except OSError:
        return
    is_private = os.name == "nt" or (about.st_uid == _user() and not about.st_mode & 0o022)
    if stat.S_ISDIR(about.st_mode) and is_private:  # compiled kernels are executed: nobody else may put them there
        yield mine, False


def _user() -> int:
    """The number of this user; Windows has a temporary directory for each user anyway."""
    return os.getuid() if hasattr(os, "getuid") else 0


def _can_be_written(directory: Path) -> bool:
    """Whether files can be made in a directory, tried out. This also marks the directory as used just now."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


def _remove_old(place: Path) -> None:
    """Remove all but the directories that were used last. A process that still uses one compiles what it misses."""
    try:
        used = sorted(place.glob(f"{PREFIX}*"), key=lambda directory: directory.stat().st_mtime)
    except OSError:  # another process removes them
        return
    for directory in used[:-KEPT]:
        shutil.rmtree(directory, ignore_errors=True)


class KernelCache(NullCache):  # type: ignore[misc]
    """The cache of one kernel: one file for each signature and processor, so that processes cannot mix them up."""

    def __init__(self, function: Any) -> None:
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"

    @property
    def cache_path(self) -> str:
        """Where the kernel is written; numba's statistics show it."""
        return str(places().write)

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled kernel for this signature, or None. numba calls this before it compiles."""
        context.refresh()
        for directory in places().read:
            try:
                content = self._file(directory, signature, context).read_bytes()
                if content[:32] == hashlib.sha256(content[32:]).digest():
                    of, reduced = pickle.loads(content[32:])
                    if of == signature:
                        return CompileResult._rebuild(context, *reduced)
            except Exception:  # no such file, no permission, or one that cannot be understood: compile
                continue
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled kernel. numba calls this after it has compiled."""
        directory = places().write
        if directory is None or result.library.has_dynamic_globals:  # numba: such code is good for this process only
            return
        file = self._file(directory, signature, result.target_context)
        unfinished = file.with_suffix(f".{uuid.uuid4().hex}")
        try:
            content = dumps((signature, result._reduce()))
            unfinished.write_bytes(hashlib.sha256(content).digest() + content)
            unfinished.replace(file)
        except OSError:  # the disk is full, or the directory was removed
            unfinished.unlink(missing_ok=True)

    def _file(self, directory: Path, signature: Any, context: Any) -> Path:
        """The file of a signature; numba's magic tuple describes the processor."""
        key = repr((signature, context.codegen().magic_tuple()))
        return directory / f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:20]}.kernel"


def keep(kernel: Any, function: Any) -> None:
    """Keep what numba compiles of a kernel on disk, provided that the digest tells whether it is still valid.

    It does not for functions of other folders, for closures, or if a file was edited since this process began. Without
    numba's `_cache` (a private attribute; there is none either if NUMBA_DISABLE_JIT is set) nothing is kept.
    """
    is_covered = function.__module__.rpartition(".")[0] == __package__ and function.__closure__ is None
    if hasattr(kernel, "_cache") and is_covered and DIGEST and _stamp() == STAMP:
        kernel._cache = KernelCache(function)
