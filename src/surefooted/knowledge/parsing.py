"""Reads knowledge as people write it down: arrays over pairs, or one error that names every fault and where it is."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from surefooted.arrays import is_whole, real_numbers
from surefooted.errors import InvalidInput
from surefooted.knowledge.declared import Declared
from surefooted.knowledge.mechanics import Mechanics
from surefooted.tables.space import Bools, Floats, Ints, Space, need_space


def parse(
    space: Space, rewards: Any, reward_bounds: Any, reward_function: Any, successors: Any, mechanics: Mechanics | None
) -> Declared:
    """What was declared, in any of the forms that `Knowledge` takes."""
    need_space(space)
    faults = _exclusions(space, rewards, reward_function, successors, mechanics)
    mean = None if rewards is None else _pair_values("rewards", rewards, space, faults)
    low, high = (None, None) if reward_bounds is None else _bounds(reward_bounds, space, faults)
    if mean is not None and mean.size:
        _check_means(mean, space, faults)
    if low is not None and high is not None:
        _check_bounds(low, high, mean, space, faults)
    everywhere, nowhere = np.ones(space.n_pairs, dtype=bool), np.zeros(space.n_pairs + 1, dtype=np.int64)
    rows = (everywhere, nowhere, nowhere[:0].copy())  # mechanics have successors of their own
    if mechanics is None:
        rows = _successors(successors, space, reward_function is not None, faults)
    of_next = None
    if reward_function is not None and not faults:
        of_next = _next_values(reward_function, space, *rows[1:], faults)
    if faults:
        hint = space.money.hint if any("mean reward" in fault and "is outside" in fault for fault in faults) else ""
        raise InvalidInput("this knowledge is not valid", faults, hint)
    mean, low, high, of_next = (None if x is None else space.money.counted(x) for x in (mean, low, high, of_next))
    return Declared(space, mean, low, high, *rows, of_next, mechanics)


def _exclusions(space: Space, rewards: Any, function: Any, successors: Any, mechanics: Mechanics | None) -> list[str]:
    """What cannot be declared together."""
    faults = []
    if rewards is not None and function is not None:
        faults.append("give rewards or reward_function, not both: each says what the mean rewards are")
    if mechanics is None:
        return faults
    if not isinstance(mechanics, Mechanics):
        return [*faults, f"mechanics must be a Mechanics, not {mechanics!r}"]
    if mechanics.space != space:
        faults.append(f"the mechanics are on {mechanics.space}, the knowledge on {space}")
    if successors is not None:
        faults.append("give successors or mechanics, not both: mechanics say where each pair can lead")
    if function is not None:
        faults.append("give reward_function or mechanics, not both: mechanics take a reward of their own")
    if rewards is not None and mechanics.reward is not None:
        faults.append("give rewards or mechanics with a reward, not both: use `mechanics.without_rewards()`")
    return faults


def _pair_values(name: str, given: Any, space: Space, faults: list[str], scalar: bool = False) -> Floats:
    """One number per pair, [K], from an array [S, A] or [K] or a function of (s, a); empty after a fault."""
    pairs = zip(space.pair_state.tolist(), space.pair_action.tolist(), strict=True)
    values = [given(s, a) for s, a in pairs] if callable(given) else given
    own: list[str] = []
    array = real_numbers(name, values, own)
    if not own and array.ndim == 0 and scalar:
        array = np.full(space.n_pairs, float(array))
    if not own and array.shape == (space.n_states, space.n_actions):
        array = array[space.pair_state, space.pair_action]
    if not own and array.shape != (space.n_pairs,):
        shapes = f"({space.n_states}, {space.n_actions}) or ({space.n_pairs},)"
        own.append(f"{name} has shape {array.shape}; it must be {shapes}")
    faults += own
    return np.zeros(0) if own else array


def _bounds(given: Any, space: Space, faults: list[str]) -> tuple[Floats, Floats]:
    """The low and high ends, [K] each."""
    if callable(given):
        both = [given(s, a) for s, a in zip(space.pair_state.tolist(), space.pair_action.tolist(), strict=True)]
        if not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in both):
            faults.append("reward_bounds must return (low, high) for each pair")
            return np.zeros(0), np.zeros(0)
        given = tuple(zip(*both, strict=True))
    elif not (isinstance(given, Sequence) and len(given) == 2):
        faults.append(f"reward_bounds must be (low, high), not {given!r}")
        return np.zeros(0), np.zeros(0)
    low, high = (
        _pair_values(f"reward_bounds {end}", values, space, faults, scalar=True)
        for end, values in zip(("low", "high"), given, strict=True)
    )
    return (low, high) if low.size and high.size else (np.zeros(0), np.zeros(0))


def _successors(given: Any, space: Space, everything: bool, faults: list[str]) -> tuple[Bools, Ints, Ints]:
    """Which pairs have declared successors [K], and these as rows; with `everything`, other pairs have all states."""
    K, S = space.n_pairs, space.n_states
    pairs = list(zip(space.pair_state.tolist(), space.pair_action.tolist(), strict=True))
    lists: list[Any] = [None] * K
    if callable(given):
        lists = [given(s, a) for s, a in pairs]
    elif isinstance(given, Mapping):
        for key in given:
            if key not in pairs:
                faults.append(f"successors are given for {key}, which is no pair (state, action)")
        lists = [given.get(pair) for pair in pairs]
    elif isinstance(given, np.ndarray) and given.dtype == np.bool_:
        if given.shape not in ((S, space.n_actions, S), (K, S)):
            faults.append(f"successors have shape {given.shape}; they must be {(S, space.n_actions, S)} or {(K, S)}")
        else:
            mask = given[space.pair_state, space.pair_action] if given.ndim == 3 else given
            lists = [np.flatnonzero(row) for row in mask]
    elif given is not None:
        if not isinstance(given, Iterable) or len(lists := list(given)) != K:
            faults.append(f"successors must be a list of {K} lists, a mapping, a function or a boolean array")
            lists = [None] * K
    declared, rows = np.zeros(K, dtype=bool), []
    for k, (found, (s, a)) in enumerate(zip(lists, pairs, strict=True)):
        if found is None:
            rows.append(np.arange(S) if everything else np.zeros(0, dtype=np.int64))
            declared[k] = everything
            continue
        if not isinstance(found, Iterable) or isinstance(found, str):
            faults.append(f"state {s}, action {a}: successors {found!r} are no list of states")
            continue
        states = list(found)
        bad = [y for y in states if not (is_whole(y, 0) and y < S)]
        faults += [f"state {s}, action {a}: successor {y} does not exist; the states are 0 to {S - 1}" for y in bad]
        if not states:
            faults.append(f"state {s}, action {a}: has no successor")
        declared[k] = True
        rows.append(np.unique(np.array([int(y) for y in states if y not in bad], dtype=np.int64)))
    if faults:
        return declared, np.zeros(K + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    ptr = np.concatenate([[0], np.cumsum([row.size for row in rows])]).astype(np.int64)
    return declared, ptr, np.concatenate(rows).astype(np.int64)


def _check_means(mean: Floats, space: Space, faults: list[str]) -> None:
    """Add a fault for each mean outside the range of rewards, and cut off what is rounding."""
    for k in np.flatnonzero(~space.money.contains(mean)):
        faults.append(f"{space.words(k)}: mean reward {mean[k]:g} is outside {space.money.words}")
    np.clip(mean, space.low, space.high, out=mean)


def _check_bounds(low: Floats, high: Floats, mean: Floats | None, space: Space, faults: list[str]) -> None:
    """Add a fault for each pair whose bounds are none, or exclude its mean."""
    slack = space.money.slack
    for k in range(low.size):
        shown = f"{space.words(k)}: reward bounds [{low[k]:g}, {high[k]:g}]"
        if not (np.isfinite(low[k]) and np.isfinite(high[k])):
            faults.append(f"{shown} are not finite")
        elif low[k] > high[k]:
            faults.append(f"{shown} are the wrong way round")
        elif low[k] > space.high or high[k] < space.low:
            faults.append(f"{shown} lie outside {space.money.words}")
        elif mean is not None and mean.size and not low[k] - slack <= mean[k] <= high[k] + slack:
            faults.append(f"{shown} exclude the mean reward {mean[k]:g}")


def _next_values(given: Any, space: Space, ptr: Ints, state: Ints, faults: list[str]) -> Floats:
    """r(s, a, s') of every possible step, [nnz]."""
    pair = np.repeat(np.arange(space.n_pairs), np.diff(ptr))
    s, a = space.pair_state[pair], space.pair_action[pair]
    if callable(given):
        steps = zip(s.tolist(), a.tolist(), state.tolist(), strict=True)
        values = real_numbers("reward_function", [given(*step) for step in steps], faults)
    else:
        table = real_numbers("reward_function", given, faults)
        shapes = (space.n_states, space.n_actions, space.n_states), (space.n_pairs, space.n_states)
        if not faults and table.shape not in shapes:
            faults.append(f"reward_function has shape {table.shape}; it must be {shapes[0]} or {shapes[1]}")
        if faults:
            return np.zeros(0)
        values = table[s, a, state] if table.ndim == 3 else table[pair, state]
    for i in np.flatnonzero(~np.isfinite(values)) if not faults else ():
        faults.append(f"{space.words(pair[i])}, next state {state[i]}: reward {values[i]} is not finite")
    return values
