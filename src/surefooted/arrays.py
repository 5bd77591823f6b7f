"""Checked arrays: numbers from user input or a list of faults, probabilities that sum to 1, read-only arrays."""

import hashlib
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefooted.errors import InvalidInput

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

SUM_TOLERANCE = 1e-9  # how far from 1 probabilities may sum; within it, they are divided by their sum
SUM_ROUNDING = 1e-14  # probabilities whose sum is this close to 1 stay as they are: saving and loading change no digit
_SHOWN = 5  # values quoted in a fault


def real_numbers(name: str, values: ArrayLike, faults: list[str]) -> Floats:
    """A new float64 array; if `values` are not numbers, a fault and an empty array."""
    try:
        array = np.array(values)
    except ValueError:
        faults.append(f"{name} is ragged: its rows have different lengths")
        return np.zeros(0)
    try:
        if array.dtype.kind in "biufO":
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError):  # objects that are no numbers
        pass
    faults.append(f"{name} must be numbers, not {array.dtype}")
    return np.zeros(0)


def whole_numbers(name: str, values: ArrayLike, faults: list[str]) -> Ints:
    """A new int64 array; values that are not whole numbers become -1 and add a fault."""
    try:
        array = np.array(values)
    except ValueError:
        faults.append(f"{name} is ragged: its rows have different lengths")
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind in "iu" or array.size == 0:
        return array.astype(np.int64, copy=False)
    if array.dtype.kind != "f":
        faults.append(f"{name} must be whole numbers, not {array.dtype}")
        return np.full(array.shape, -1, dtype=np.int64)
    bad = ~(np.isfinite(array) & (array == np.floor(array)))
    if bad.any():
        shown = ", ".join(f"{value:g}" for value in array[bad][:_SHOWN])
        faults.append(f"{name} must be whole numbers, not {shown}" + ", …" * bool(bad.sum() > _SHOWN))
    return np.where(bad, -1, array).astype(np.int64)


def is_whole(value: Any, least: int | None = None) -> bool:
    """Whether `value` is a whole number, and at least `least` if that is given."""
    if type(value) is int:
        return least is None or value >= least
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return bool(np.isfinite(value) and value == int(value) and (least is None or value >= least))


def as_whole(value: Any) -> Any:
    """`value` as an int if it is a whole number; any other value is returned unchanged, for a later check to refuse."""
    return int(value) if is_whole(value) else value


def normalise(p: Floats, row_ptr: Ints) -> None:
    """Divide each row of probabilities, p[..., row_ptr[k] : row_ptr[k + 1]], by its sum, in place."""
    sums = np.add.reduceat(p, row_ptr[:-1], axis=-1)
    sums[np.abs(sums - 1) <= SUM_ROUNDING] = 1.0
    if np.any(sums != 1):
        p /= np.repeat(sums, np.diff(row_ptr), axis=-1)


def freeze(*arrays: NDArray[Any]) -> None:
    """Make arrays read-only."""
    for array in arrays:
        array.flags.writeable = False


def digest(*parts: Any) -> int:
    """A hash of arrays and numbers that is the same in every process."""
    state = hashlib.blake2b(digest_size=8)
    for part in parts:
        state.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    return int.from_bytes(state.digest(), "big", signed=True)


class FrozenArrays:
    """A dataclass with read-only arrays; the constructor rebuilds copies and pickles, and freezes their arrays too."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the constructor's arguments."""
        return type(self), tuple(getattr(self, field.name) for field in fields(self) if field.init)  # type: ignore[arg-type]


def like(name: str, value: Any, template: NDArray[Any], low: float = -np.inf, high: float = np.inf) -> Any:
    """A copy of an array with the type and shape of `template` and no number outside [low, high]; else an error."""
    if not isinstance(value, np.ndarray) or value.dtype != template.dtype or value.shape != template.shape:
        told = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise InvalidInput("this state cannot be loaded", [f"{name}: {told}, not {template.dtype} {template.shape}"])
    if not np.all((value >= low) & (value <= high)):
        raise InvalidInput("this state cannot be loaded", [f"{name}: numbers outside [{low:g}, {high:g}]"])
    return value.copy()


def whole(name: str, value: Any, low: int, high: int) -> int:
    """A whole number of a state, between `low` and `high`; else an error."""
    if not (is_whole(value, low) and value <= high):
        raise InvalidInput("this state cannot be loaded", [f"{name}: {value!r} is no whole number in [{low}, {high}]"])
    return int(value)
