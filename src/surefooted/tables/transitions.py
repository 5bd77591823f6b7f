"""From a list of transitions (s, a, s', p) to the sorted rows of a table, with every fault named."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import SUM_TOLERANCE, Floats, Ints, is_whole, real_numbers, whole_numbers
from surefooted.errors import InvalidInput
from surefooted.tables.space import Space

REFUSED = "this MDP is not valid"
MEAN_ROUNDING = 1e-12  # how far outside its range, times the width of the range, a mean reward may be by rounding

_RANGE_HINT = (
    "Rewards must lie in [0, r_max]: give `r_max`, or `reward_range=(low, high)` to have them mapped to [0, 1]."
)


class Scale(NamedTuple):
    """How rewards are given: in [0, r_max], or in `reward_range`, which is mapped to [0, 1]."""

    r_max: float = 1.0
    reward_range: tuple[float, float] | None = None


class Entries(NamedTuple):
    """Pairs [K] with their mean rewards, and transitions [nnz] with the index of their pair."""

    pair_state: Ints
    pair_action: Ints
    r: Floats
    row: Ints
    next_state: Ints
    p: Floats


def sorted_rows(
    transitions: Sequence[ArrayLike], pairs: Sequence[ArrayLike], n_states: int | None, scale: Scale
) -> tuple[tuple[Space, Ints, Ints, Floats, Floats], tuple[float, float]]:
    """Sort transitions (s, a, s', p) [nnz] and pairs (s, a, mean reward) [K] into the rows of a table.

    The result is space, next_ptr, next_state, p and r, as `TabularMDP` takes them, and the offset and scale of rewards.
    The probabilities of a successor that is listed several times are added; successors of probability 0 are dropped.
    Without `n_states` the largest state that is mentioned is the last.
    """
    faults: list[str] = []
    s, a, y = (
        whole_numbers(name, column, faults)
        for name, column in zip(("states", "actions", "next states"), transitions[:3], strict=True)
    )
    pair_s, pair_a = whole_numbers("states", pairs[0], faults), whole_numbers("actions", pairs[1], faults)
    p, r = real_numbers("probabilities", transitions[3], faults), real_numbers("rewards", pairs[2], faults)
    if pair_s.size == 0:
        faults += [f"state {i}: has no action" for i in range(n_states or 0)]
    if n_states is not None and not is_whole(n_states, 1):
        faults.append(f"n_states {n_states} must be a positive whole number")
    low, high = _limits(scale, faults)
    if pair_s.size == 0 or any("whole number" in fault or "must be numbers" in fault for fault in faults):
        raise InvalidInput(REFUSED, sorted(set(faults)))
    n_states = 1 + int(max(pair_s.max(), y.max(initial=0))) if n_states is None else int(n_states)
    order = np.lexsort((pair_a, pair_s))
    pair_s, pair_a, r = pair_s[order], pair_a[order], r[order]
    faults += [f"state {i}: the states are 0 to {n_states - 1}" for i in np.unique(pair_s) if not 0 <= i < n_states]
    faults += [f"state {i}: has no action" for i in np.setdiff1d(np.arange(n_states), pair_s)]
    faults += [f"state {pair_s[k]}: action {pair_a[k]} is negative" for k in np.flatnonzero(pair_a < 0)]
    span, least = int(pair_a.max() - pair_a.min()) + 1, int(pair_a.min())
    row = np.searchsorted(pair_s * span + pair_a - least, s * span + a - least)
    slack = MEAN_ROUNDING * (high - low)
    r[(r < low) & (r > low - slack)] = low
    r[(r > high) & (r < high + slack)] = high
    faults += row_faults(Entries(pair_s, pair_a, r, row, y, p), n_states, (low, high))
    if faults:
        raise InvalidInput(REFUSED, faults, hint(faults) if scale.reward_range is None else "")
    width = 1.0 if scale.reward_range is None else high - low
    r = r if scale.reward_range is None else np.clip((r - low) / width, 0.0, 1.0)
    key, inverse = np.unique(row * n_states + y, return_inverse=True)
    mass: Floats = np.bincount(inverse, weights=p, minlength=key.size).astype(np.float64)
    key, mass = key[mass > 0], mass[mass > 0]
    next_ptr = np.searchsorted(key, np.arange(pair_s.size + 1) * n_states)
    space = Space(np.searchsorted(pair_s, np.arange(n_states + 1)), pair_a, scale.r_max)
    return (space, next_ptr, key % n_states, mass, r), (low, width)


def mean_rewards(s: Ints, a: Ints, p: Floats, rewards: Floats) -> tuple[Ints, Ints, Floats]:
    """The pairs of a list of transitions, and the mean of each pair's rewards r(s, a, s') under p."""
    order = np.lexsort((a, s))
    first = np.flatnonzero((np.diff(s[order], prepend=s.min() - 1) != 0) | (np.diff(a[order], prepend=0) != 0))
    base = np.repeat(rewards[order][first], np.diff(first, append=order.size))  # so that equal rewards stay exact
    with np.errstate(invalid="ignore", over="ignore"):  # `row_faults` names what is not finite
        mean = rewards[order][first] + np.add.reduceat(p[order] * (rewards[order] - base), first)
        mean = np.where(np.isfinite(mean), mean, np.add.reduceat(p[order] * rewards[order], first))
    return s[order][first], a[order][first], mean


def row_faults(entries: Entries, n_states: int, limits: tuple[float, float]) -> list[str]:
    """Every fault of the rows and rewards, named by state and action."""
    pair_s, pair_a, r, row, y, p = entries
    low, high = limits

    def at(k: Any) -> str:
        return f"state {pair_s[k]}, action {pair_a[k]}"

    faults = []
    for i in np.flatnonzero((y < 0) | (y >= n_states)):
        faults.append(f"{at(row[i])}: leads to state {y[i]}, which does not exist")
    for i in np.flatnonzero(~((p >= 0) & np.isfinite(p))):
        faults.append(f"{at(row[i])}: probability {p[i]:g} of state {y[i]}")
    with np.errstate(invalid="ignore"):  # inf - inf
        sums = np.bincount(row, weights=p, minlength=pair_s.size)
    for k in np.flatnonzero(~(np.abs(sums - 1) <= SUM_TOLERANCE)):
        faults.append(f"{at(k)}: probabilities sum to {sums[k]:.12g}, not 1")
    for k in np.flatnonzero(~((r >= low) & (r <= high))):
        faults.append(f"{at(k)}: mean reward {r[k]:g} outside [{low:g}, {high:g}]")
    return faults


def hint(faults: list[str]) -> str:
    """What to do about rewards out of range, if that is one of the faults."""
    return _RANGE_HINT if any("outside [0" in fault for fault in faults) else ""


def _limits(scale: Scale, faults: list[str]) -> tuple[float, float]:
    """The range that rewards must lie in; after a fault, any reward does."""
    r_max, given = scale
    if not (np.isfinite(r_max) and r_max > 0):
        faults.append(f"r_max {r_max} must be positive and finite")
    if given is None:
        return 0.0, r_max
    if r_max != 1.0:
        faults.append(f"give r_max or reward_range, not both: rewards in {given} are mapped to [0, 1]")
    if len(given) == 2 and np.all(np.isfinite(given)) and given[0] < given[1]:
        return float(given[0]), float(given[1])
    faults.append(f"reward_range {given} must be (low, high) with low < high")
    return -np.inf, np.inf
