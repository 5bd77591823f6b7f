"""From a list of transitions (s, a, s', p) to the sorted rows of a table, with every fault named."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import SUM_TOLERANCE, Floats, Ints, is_whole, real_numbers, whole_numbers
from surefooted.errors import InvalidInput
from surefooted.tables.money import Money
from surefooted.tables.space import Space

REFUSED = "this MDP is not valid"
MEAN_ROUNDING = 1e-12  # how far outside its range, times the width of the range, a mean reward may be by rounding


class Entries(NamedTuple):
    """Pairs [K] with their mean rewards, and transitions [nnz] with the index of their pair."""

    pair_state: Ints
    pair_action: Ints
    r: Floats
    row: Ints
    next_state: Ints
    p: Floats


def sorted_rows(
    transitions: Sequence[ArrayLike], pairs: Sequence[ArrayLike], n_states: int | None, options: Mapping[str, Any]
) -> tuple[Space, Ints, Ints, Floats, Floats]:
    """Sort transitions (s, a, s', p) [nnz] and pairs (s, a, mean reward) [K] into the rows of a table.

    The result is space, next_ptr, next_state, p and r, as `TabularMDP` takes them. The probabilities of a successor
    that is listed several times are added; successors of probability 0 are dropped. Without `n_states` the largest
    state that is mentioned is the last. `options` are those of `Space`: r_max, rewards, unit, states, actions.
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
    money = Money.parse(options.get("r_max"), options.get("rewards"), options.get("unit", ""), faults)
    known = not any(fault.startswith(("r_max", "rewards")) for fault in faults)  # after such a fault, any reward does
    low, high = (money.low, money.high) if known else (-np.inf, np.inf)
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
    slack = MEAN_ROUNDING * max(money.r_max, abs(money.low), abs(money.high))
    r[(r < low) & (r > low - slack)] = low
    r[(r > high) & (r < high + slack)] = high
    faults += row_faults(Entries(pair_s, pair_a, r, row, y, p), n_states, (low, high))
    if faults:
        raise InvalidInput(REFUSED, faults, hint(faults, money))
    key, inverse = np.unique(row * n_states + y, return_inverse=True)
    mass: Floats = np.bincount(inverse, weights=p, minlength=key.size).astype(np.float64)
    key, mass = key[mass > 0], mass[mass > 0]
    next_ptr = np.searchsorted(key, np.arange(pair_s.size + 1) * n_states)
    space = Space(np.searchsorted(pair_s, np.arange(n_states + 1)), pair_a, **options)
    return space, next_ptr, key % n_states, mass, r


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


def hint(faults: list[str], money: Money) -> str:
    """What to do about rewards out of range, if that is one of the faults."""
    return money.hint if any("mean reward" in fault and "outside [" in fault for fault in faults) else ""
