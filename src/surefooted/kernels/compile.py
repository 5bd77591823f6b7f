"""How kernels are compiled: once on a machine, kept on disk, with a line on the terminal meanwhile."""

import sys
from collections.abc import Callable
from multiprocessing import parent_process
from typing import Any, TypeVar, cast

import numba
from numba.core import event
from numba.core.options import DefaultOptions

F = TypeVar("F", bound=Callable[..., Any])


class _Progress(event.Listener):  # type: ignore[misc]
    """A line on the terminal while a kernel is compiled, which happens once on a machine; gone when it is done."""

    def __init__(self) -> None:
        self._depth = 0
        self._own, self._shown = False, parent_process() is None  # not by each of the processes that a study starts

    @property
    def _is_shown(self) -> bool:
        """Whether there is a terminal to show it on."""
        stream = sys.stderr
        return self._own and self._shown and stream is not None and not stream.closed and stream.isatty()

    def on_start(self, happening: event.Event) -> None:
        """Say what is being compiled."""
        function = getattr((happening.data or {}).get("dispatcher"), "py_func", None)
        self._own = str(getattr(function, "__module__", "")).startswith("surefooted")
        name = getattr(function, "__name__", "")
        if self._depth == 0 and self._is_shown:
            sys.stderr.write(f"\r\x1b[KCompiling, once on this machine: {name} ...")
            sys.stderr.flush()
        self._depth += 1

    def on_end(self, happening: event.Event) -> None:
        """Clear the line."""
        self._depth -= 1
        if self._depth == 0 and self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


event.register("numba:compile", _Progress())

KEPT = {"cache": True, "no_cfunc_wrapper": True}  # on disk, and not to be called from C
UNCOUNTED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}  # numba's own option, not a public one


def njit(function: F) -> F:
    """Compile a kernel that makes no arrays and takes no generator, and keep the compiled code on disk.

    Without arrays of its own it need not count who holds those of others: numba's counting is atomic, and costs
    much where a kernel is called for each row of a table. (A generator would be held for ever.)
    """
    return cast(F, numba.njit(**KEPT, **UNCOUNTED)(function))


def allocating(function: F) -> F:
    """The same for a kernel that makes arrays or takes a generator."""
    return cast(F, numba.njit(**KEPT)(function))


def inlined(function: F) -> F:
    """As `njit`, and the compiler puts it into every caller, which spares it passing many arrays along."""
    return cast(F, numba.njit(**KEPT, forceinline=True, **UNCOUNTED)(function))
