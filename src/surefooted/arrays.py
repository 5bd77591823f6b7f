"""Arrays from whatever people pass, or a fault that says what is wrong with it; and arrays that nobody changes."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_SHOWN = 5  # values quoted in a fault


def real_numbers(name: str, values: ArrayLike, faults: list[str]) -> Floats:
    """A fresh float64 array; a fault and an empty one when these are no numbers."""
    try:
        array = np.array(values)
    except ValueError:
        faults.append(f"{name} is ragged: its rows have different lengths")
        return np.zeros(0)
    try:
        if array.dtype.kind in "biufO":
            return array.astype(np.float64)
    except (TypeError, ValueError):  # objects that are no numbers
        pass
    faults.append(f"{name} must be numbers, not {array.dtype}")
    return np.zeros(0)


def whole_numbers(name: str, values: ArrayLike, faults: list[str]) -> Ints:
    """A fresh int64 array; a fault for what is no whole number, which becomes -1."""
    try:
        array = np.array(values)
    except ValueError:
        faults.append(f"{name} is ragged: its rows have different lengths")
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind in "iu" or array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind != "f":
        faults.append(f"{name} must be whole numbers, not {array.dtype}")
        return np.full(array.shape, -1, dtype=np.int64)
    bad = ~(np.isfinite(array) & (array == np.floor(array)))
    if bad.any():
        shown = ", ".join(f"{value:g}" for value in array[bad][:_SHOWN])
        faults.append(f"{name} must be whole numbers, not {shown}" + ", …" * bool(bad.sum() > _SHOWN))
    return np.where(bad, -1, array).astype(np.int64)


def is_whole(value: Any, least: int | None = None) -> bool:
    """Whether a single value is a whole number, of at least `least`."""
    if type(value) is int:
        return least is None or value >= least
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return bool(np.isfinite(value) and value == int(value) and (least is None or value >= least))


def as_whole(value: Any) -> Any:
    """`value` as an int if it is a whole number, else as it is, for a rule to refuse."""
    return int(value) if is_whole(value) else value


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
    """Objects whose arrays are read-only, and are so again after pickling or copying."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes and freeze the arrays among them."""
        self.__dict__.update(state)
        freeze(*(value for value in state.values() if isinstance(value, np.ndarray)))
