"""The decorators of kernels. A kernel is compiled once on a machine (see `cache`), and a line on stderr says so."""

import gc
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import parent_process
from typing import Any, TypeVar, cast

import numba
from numba.core import event
from numba.core.options import DefaultOptions

from surefooted.kernels.cache import keep, places

F = TypeVar("F", bound=Callable[..., Any])

ONCE = "Compiling kernels, once on this machine (half a minute at most) ...\n"
AGAIN = (
    "Compiling kernels; {}. To keep them, set NUMBA_CACHE_DIR to a directory that can be written, or run "
    "`surefooted warm-up` when you install the package.\n"
)


class Progress(event.Listener):  # type: ignore[misc]
    """Says that kernels are compiled: on a terminal by a line that vanishes, elsewhere by one line per process."""

    def __init__(self) -> None:
        self.is_silent = parent_process() is not None  # as are the processes that a study starts
        self._depth = 0  # of kernels that are compiled because another one calls them
        self._said = False

    def on_start(self, happening: event.Event) -> None:
        """Say that numba compiles a kernel."""
        if self.is_silent or not _is_ours(happening):
            return
        self._depth += 1
        if not self._said and not (places().lasts and _is_terminal()):
            self._said = True
            place = places().write
            where = f"they are kept in {place}, which is temporary" if place else "there is no place to keep them"
            _write(ONCE if places().lasts else AGAIN.format(where))
        if self._depth == 1 and _is_terminal():
            _write(f"\r\x1b[KCompiling, once on this machine: {happening.data['dispatcher'].py_func.__name__} ...")

    def on_end(self, happening: event.Event) -> None:
        """Clear the line."""
        if self.is_silent or not _is_ours(happening):
            return
        self._depth -= 1
        if self._depth == 0 and _is_terminal():
            _write("\r\x1b[K")


def _is_ours(happening: event.Event) -> bool:
    """Whether this package's kernel is compiled, and not somebody else's."""
    function = getattr((happening.data or {}).get("dispatcher"), "py_func", None)
    return str(getattr(function, "__module__", "")).startswith("surefooted.")


def _is_terminal() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()


def _write(text: str) -> None:
    """Write to stderr, if there is one."""
    with suppress(OSError, ValueError, AttributeError):  # broken, closed, None
        sys.stderr.write(text)
        sys.stderr.flush()


class WithoutCollection(event.Listener):  # type: ignore[misc]
    """Puts garbage collection off while a kernel is compiled: looking through all that numba made takes long."""

    def __init__(self) -> None:
        self._depth, self._was_on = 0, False

    def on_start(self, happening: event.Event) -> None:
        """Turn it off."""
        if _is_ours(happening):
            self._was_on = gc.isenabled() if self._depth == 0 else self._was_on
            self._depth += 1
            gc.disable()

    def on_end(self, happening: event.Event) -> None:
        """Turn it on again, if it was on, when the outermost kernel is done."""
        if _is_ours(happening):
            self._depth -= 1
            if self._depth == 0 and self._was_on:
                gc.enable()


progress = Progress()
for listener in (progress, WithoutCollection()):
    event.register("numba:compile", listener)

# Without arrays of its own, a kernel need not count who holds those of others. numba counts atomically, for each row of
# a table: extended value iteration takes 2 to 3 times as long with counting. The option is numba's own, not public.
UNCOUNTED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}

# Nor does C call any kernel. Making each callable from C would take longer to compile.
NOT_FROM_C = {"no_cfunc_wrapper": True} if hasattr(DefaultOptions, "no_cfunc_wrapper") else {}


def njit(function: F) -> F:
    """Compile a kernel that makes no arrays and takes no generator (which would be held for ever)."""
    return _compile(function, **UNCOUNTED)


def allocating(function: F) -> F:
    """Compile a kernel that makes arrays or takes a generator."""
    return _compile(function)


def inlined(function: F) -> F:
    """Compile a kernel as `njit` does, and copy it into every kernel that calls it.

    Passing many arrays along costs much: without this, extended value iteration takes 1.4 to 2 times as long. It adds
    1.5 s to 18 s of compilation.
    """
    return _compile(function, forceinline=True, **UNCOUNTED)


def ready(kernel: F, *arguments: Any) -> F:
    """A kernel as it is compiled for arguments of these types; it must be called with no others.

    At every call of a kernel numba finds out the types of all arguments: 9 µs for the forty arrays of a ledger.
    """
    if not hasattr(kernel, "compile"):  # numba is turned off
        return kernel
    return cast(F, kernel.compile(tuple(numba.typeof(argument) for argument in arguments)))


def _compile(function: F, **options: bool) -> F:
    """A kernel that numba compiles for the types of its arguments when it is first called with them."""
    kernel = numba.njit(**options, **NOT_FROM_C)(function)
    keep(kernel, function)
    return cast(F, kernel)
