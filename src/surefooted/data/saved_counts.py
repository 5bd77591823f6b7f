"""Counts as they were saved: arrays that steps can have led to, or one error that names every fault."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from surefooted.arrays import Floats, Ints, is_whole, real_numbers, whole_numbers
from surefooted.errors import InvalidInput
from surefooted.tables.space import Space


class SavedCounts(NamedTuple):
    """What `Counts.state_dict` returns, once it is known to be possible."""

    visits: Ints  # [K] or [H K]
    reward_sum: Floats  # the same
    reward_square: Floats  # the same
    next_ptr: Ints  # [K + 1] or [H K + 1]
    next_state: Ints  # [nnz]
    next_count: Ints  # [nnz]
    bounded: bool
    stages: int


def read_counts(space: Space, state: Mapping[str, Any]) -> SavedCounts:
    """The saved counts as new arrays; kernels use them as they are, so that every entry is checked."""
    missing = [name for name in SavedCounts._fields if name not in state]
    faults = [f"{name!r} is missing" for name in missing]
    if not faults and not isinstance(state["bounded"], bool | np.bool_):
        faults.append(f"bounded must be True or False, not {state['bounded']!r}")
    if not faults and not is_whole(state["stages"], 1):
        faults.append(f"stages {state['stages']} must be a positive whole number")
    if faults:
        raise InvalidInput("these are no counts", faults)
    told = SavedCounts(
        whole_numbers("visits", state["visits"], faults),
        real_numbers("reward_sum", state["reward_sum"], faults),
        real_numbers("reward_square", state["reward_square"], faults),
        whole_numbers("next_ptr", state["next_ptr"], faults),
        whole_numbers("next_state", state["next_state"], faults),
        whole_numbers("next_count", state["next_count"], faults),
        bool(state["bounded"]),
        int(state["stages"]),
    )
    if faults := faults or _shape_faults(told, space) or _row_faults(told, space) + _reward_faults(told, space):
        raise InvalidInput("these are no counts", faults)
    return told


def _shape_faults(told: SavedCounts, space: Space) -> list[str]:
    """Arrays of other lengths."""
    n = told.stages * space.n_pairs
    wanted = {name: (n,) for name in ("visits", "reward_sum", "reward_square")} | {"next_ptr": (n + 1,)}
    wanted["next_count"] = (told.next_state.size,)
    wanted["next_state"] = (told.next_state.size,)
    shapes = {name: getattr(told, name).shape for name in wanted}
    return [f"{name} has shape {shapes[name]}, not {shape}" for name, shape in wanted.items() if shapes[name] != shape]


def _row_faults(told: SavedCounts, space: Space) -> list[str]:
    """Rows that overlap, next states that do not exist or occur twice, and numbers of steps that do not add up."""
    ptr, state, count = told.next_ptr, told.next_state, told.next_count
    if ptr[0] != 0 or ptr[-1] != state.size or np.any(np.diff(ptr) < 0):
        return [f"next_ptr must rise from 0 to the number of next states, {state.size}"]
    faults = [
        f"entry {i}: there is no state {state[i]}" for i in np.flatnonzero((state < 0) | (state >= space.n_states))
    ]
    faults += [f"entry {i}: it is counted {count[i]} times" for i in np.flatnonzero(count < 1)]
    row = np.repeat(np.arange(ptr.size - 1), np.diff(ptr))
    if not faults and np.unique(row * space.n_states + state).size < state.size:
        faults.append("a next state occurs twice in a row")
    counted = np.zeros(ptr.size - 1, dtype=np.int64)
    np.add.at(counted, row, count)
    for k in np.flatnonzero(counted != told.visits):
        faults.append(f"row {k}: {told.visits[k]} visits, and {counted[k]} next states")
    return faults


def _reward_faults(told: SavedCounts, space: Space) -> list[str]:
    """Sums that no rewards have."""
    bad = ~(np.isfinite(told.reward_sum) & np.isfinite(told.reward_square) & (told.reward_square >= 0))
    if told.bounded:
        slack = 2 * space.money.slack
        bad |= (told.reward_sum < -told.visits * slack) | (told.reward_sum > told.visits * (space.r_max + slack))
    return [f"row {k}: no {told.visits[k]} rewards add up to {told.reward_sum[k]:g}" for k in np.flatnonzero(bad)]
