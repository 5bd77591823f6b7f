"""What the benchmarks share: timing, memory bandwidth, tables, and a line about the machine."""

import datetime
import importlib
import os
import platform
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numba
import numpy as np

Ready = Callable[[], Callable[[], Any]]  # gets ready, untimed, and returns what is to be timed


def race(contestants: dict[str, Ready], rounds: int = 30, budget: float = 1.0) -> dict[str, float]:
    """The best time of each contestant, in seconds; they take turns, so that a busy moment hits all of them alike.

    A contestant drops out once it has taken `budget` seconds, after one round at the least.
    """
    best, spent = dict.fromkeys(contestants, np.inf), dict.fromkeys(contestants, 0.0)
    for _ in range(rounds):
        for name, get_ready in contestants.items():
            if spent[name] >= budget:
                continue
            run = get_ready()
            begin = time.perf_counter()
            run()
            seconds = time.perf_counter() - begin
            best[name], spent[name] = min(best[name], seconds), spent[name] + seconds
    return best


def at_once(function: Callable[[], Any]) -> Ready:
    """A contestant that needs nothing to get ready."""
    return lambda: function


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function returns, and the seconds it took."""
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


@numba.njit(cache=True, fastmath=True)
def _triad(times: int, a: Any, b: Any, c: Any) -> None:
    for i in range(times):
        for j in range(a.size):
            a[j] = b[j] + i * c[j]


def bandwidth(size: float) -> float:
    """Bytes per second that one core moves in STREAM's triad, over three arrays of `size` bytes together.

    Small arrays stay in a cache: the limit of a small problem is that of its cache, not that of the memory.
    """
    n = int(min(max(size, 24_000), 600e6)) // 24
    a, b, c = np.zeros(n), np.ones(n), np.ones(n)
    times = max(1, int(20e6 / (24 * n)))
    _triad(1, a, b, c)
    best = race({"triad": at_once(lambda: _triad(times, a, b, c))}, rounds=20, budget=0.1)
    return times * 24 * n / best["triad"]


def beside_limit(seconds: float, size: float) -> tuple[float, str]:
    """The seconds it takes to read `size` bytes once, and how many times longer something took."""
    limit = size / bandwidth(size)
    return limit, f"{seconds / limit:.0f}x"


class Table:
    """Rows of text, each printed as soon as it is known. Columns are (title, width); the first is aligned left."""

    def __init__(self, *columns: tuple[str, int]) -> None:
        self.widths = [width for _, width in columns]
        self.row(*(title for title, _ in columns))

    def row(self, *cells: str | float) -> None:
        """Print a row."""
        words = [cell if isinstance(cell, str) else number(cell) for cell in cells]
        line = [f"{word:>{width}}" for word, width in zip(words, self.widths, strict=True)]
        line[0] = f"{words[0]:<{self.widths[0]}}"
        print(" ".join(line).rstrip(), flush=True)


def number(x: float) -> str:
    """Whole numbers in full, others with three digits."""
    if isinstance(x, int | np.integer):
        return str(x)
    return f"{x:.0f}" if abs(x) >= 100 else f"{x:.3g}"


def ratio(theirs: float | None, ours: float) -> str:
    """How many times longer they take."""
    return "-" if theirs is None else f"{theirs / ours:.1f}x"


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of a line through the points, on logarithmic axes."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def peer(name: str) -> ModuleType | None:
    """A package to compare with, if it is installed: none of them is needed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def machine() -> str:
    """A line about where and when this was measured; a load above 1 says that others were at work."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as lines:
            model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    except OSError:
        pass
    versions = f"Python {platform.python_version()}, numba {numba.__version__}, NumPy {np.__version__}"
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{model}, {os.cpu_count()} cores, {versions}, {datetime.date.today()}{load}"
