"""One writer per directory of results. The system holds the locks: however a process ends, it frees them.

A study that is run as a whole has its directory to itself. Shards share a directory, each with a lock of its own. On a
system without such locks (`fcntl`), and on file systems that refuse them, nothing is locked.
"""

import errno
import os
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from surefooted.errors import SurefootedError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

DIRECTORY, TABLES = ".lock", ".lock-tables"
REFUSED = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)  # by file systems without locks
LEFT = re.compile(r"\..+\.\d+-[0-9a-f]{8}\.part")  # what `files.replacing` writes to
OURS = ("study.toml", "manifest.json", "truth*.npz", "runs.parquet", "curves.parquet")


class Busy(SurefootedError):
    """Another process writes to the directory."""


@contextmanager
def writing(path: Path, shard: tuple[int, int] = (1, 1)) -> Iterator[None]:
    """Write to a directory in this context; `Busy` if another process does, unless both run shards."""
    i, n = shard
    with ExitStack() as held:
        file = held.enter_context(_opened(path / DIRECTORY))
        alone = _take(file, shared=False)
        if alone:  # nobody else can be writing: what is left was left by a process that was killed
            _remove_leftovers(path)
        if not (alone if n == 1 else _take(file, shared=True)):
            raise Busy(_sentence(path, path / DIRECTORY))
        mine = file if n == 1 else held.enter_context(_opened(path / f"{DIRECTORY}-{i}-of-{n}"))
        if n > 1 and not _take(mine, shared=False):
            raise Busy(_sentence(path, path / f"{DIRECTORY}-{i}-of-{n}"))
        os.ftruncate(mine, 0)
        os.pwrite(mine, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield


@contextmanager
def repairing(path: Path) -> Iterator[bool]:
    """Whether this process may replace the tables now; nobody else does in this context."""
    with ExitStack() as held:
        try:
            file = held.enter_context(_opened(path / DIRECTORY))
            is_free = _take(file, shared=True)  # otherwise a study is being run here, and will write the tables
            if is_free:
                held.enter_context(replacing_tables(path))
        except OSError:  # a directory that can only be read
            is_free = False
        yield is_free


@contextmanager
def replacing_tables(path: Path) -> Iterator[None]:
    """Read and replace files that shards share; one process at a time, others wait."""
    with _opened(path / TABLES) as file:
        _take(file, shared=False, wait=True)
        yield


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A file to lock; closing it frees the lock."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        yield file
    finally:
        os.close(file)


def _take(file: int, shared: bool, wait: bool = False) -> bool:
    """Take a lock; False if another process holds it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno in REFUSED:
            return True
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


def _sentence(path: Path, file: Path) -> str:
    """Who writes to a directory, as far as its lock says."""
    try:
        who = file.read_text(encoding="utf-8", errors="replace")[:200]
    except OSError:
        who = ""
    return f"{path} is in use: {who or 'another process'} writes to it. Wait until it ends, or choose another --out."


def _remove_leftovers(path: Path) -> None:
    """Remove files that a killed process began to write."""
    begun = [file for name in OURS for file in path.glob(f".{name}.*.part")]
    begun += [file for folder in ("parts", "errors") for file in (path / folder).glob(".*.part")]
    for file in begun:
        if LEFT.fullmatch(file.name):
            file.unlink(missing_ok=True)
