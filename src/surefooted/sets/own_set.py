"""A set of plausible MDPs of one's own: arrays that kernels can use, or one error that names every fault."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefooted.arrays import Floats, is_whole, real_numbers, whole_numbers
from surefooted.errors import InvalidInput
from surefooted.tables.space import Space

ROUNDING = 1e-9  # how far beyond 1 the bounds of a row may add up


def checked_set(space: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of a `Plausible` as new ones of the right types, by name."""
    if not isinstance(space, Space):
        raise InvalidInput("this set is not valid", [f"space must be a Space, not {type(space).__name__}"])
    if not is_whole(given["stages"], 1):
        raise InvalidInput("this set is not valid", [f"stages {given['stages']} must be a positive whole number"])
    faults: list[str] = []
    names = ["r_lower", "r_upper", "p_lower", "p_upper", "unseen", *(["width"] if given["width"] is not None else [])]
    found: dict[str, Any] = {name: real_numbers(name, given[name], faults) for name in names}
    found |= {name: whole_numbers(name, given[name], faults) for name in ("next_ptr", "next_state")}
    n, nnz = int(given["stages"]) * space.n_pairs, found["next_state"].size
    wanted = dict.fromkeys(("next_state", "p_lower", "p_upper"), (nnz,)) | {"next_ptr": (n + 1,)}
    for name, array in found.items():
        if not faults and array.shape != wanted.get(name, (n,)):
            faults.append(f"{name} has shape {array.shape}, not {wanted.get(name, (n,))}")
    if faults := faults or _order_faults(found, space) or _value_faults(found, space):
        raise InvalidInput("this set is not valid", faults)
    return found | {"stages": int(given["stages"])}


def _order_faults(found: Mapping[str, Any], space: Space) -> list[str]:
    """Rows that overlap, and successors that do not exist or occur twice."""
    ptr, state = found["next_ptr"], found["next_state"]
    if ptr[0] != 0 or ptr[-1] != state.size or np.any(np.diff(ptr) < 0):
        return [f"next_ptr must rise from 0 to the number of successors, {state.size}"]
    lost = np.flatnonzero((state < 0) | (state >= space.n_states))
    faults = [f"next_state, entry {i}: there is no state {state[i]}" for i in lost]
    row = np.repeat(np.arange(ptr.size - 1), np.diff(ptr))
    if not faults and np.unique(row * space.n_states + state).size < state.size:
        faults.append("a successor occurs twice in a row")
    return faults


def _value_faults(found: Mapping[str, Any], space: Space) -> list[str]:
    """Bounds that are no numbers, cross, or leave no row."""
    faults: list[str] = []
    low, high, width = found["r_lower"], found["r_upper"], found.get("width")
    for k in np.flatnonzero(~(np.isfinite(low) & np.isfinite(high) & (low <= high))):
        faults.append(f"{_at(space, k)}: mean rewards in [{low[k]:g}, {high[k]:g}]")
    p_low, p_high, unseen = found["p_lower"], found["p_upper"], found["unseen"]
    for i in np.flatnonzero(~((p_low >= 0) & (p_low <= p_high) & (p_high <= 1 + ROUNDING))):
        faults.append(f"entry {i}: a probability in [{p_low[i]:g}, {p_high[i]:g}]")
    for k in np.flatnonzero(~((unseen >= 0) & (unseen <= 1 + ROUNDING))):
        faults.append(f"{_at(space, k)}: unseen is {unseen[k]:g}, which is no probability")
    if width is not None:
        faults += [f"{_at(space, k)}: width is {width[k]:g}" for k in np.flatnonzero(~(width >= 0))]
    return faults or _sum_faults(found, space)


def _sum_faults(found: Mapping[str, Any], space: Space) -> list[str]:
    """Rows whose bounds no probabilities satisfy."""
    sizes = np.diff(found["next_ptr"])
    row = np.repeat(np.arange(sizes.size), sizes)
    least, most = (_sums(found[name], row, sizes.size) for name in ("p_lower", "p_upper"))
    if found.get("width") is None:
        most = most + (space.n_states - sizes) * found["unseen"]
        empty = (least > 1 + ROUNDING) | (most < 1 - ROUNDING)
    else:  # the centre of a ball is a row, or nothing at all
        empty = (sizes > 0) & (np.abs(least - 1) > ROUNDING)
    return [f"{_at(space, k)}: no row of probabilities is in the set" for k in np.flatnonzero(empty)]


def _sums(p: Floats, row: Any, n: int) -> Floats:
    """The sum of each row, [n]."""
    return np.bincount(row, weights=p, minlength=n).astype(np.float64)


def _at(space: Space, k: Any) -> str:
    h, pair = divmod(int(k), space.n_pairs)
    return (f"stage {h}, " if h else "") + space.words(pair)
