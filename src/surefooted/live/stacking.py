"""Many states of one kind as one state of long arrays: a thousand accounts are read as quickly as a few."""

from typing import Any

import numpy as np

PLACES = (("fleet", "books", "own"), ("tracks", "accounts"))  # of a machine's state: one item for each account


def packed(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a machine with its lists of accounts stacked."""
    return _replaced(state, lambda states: {"n": len(states), "of": stacked(states)})


def unpacked(state: dict[str, Any]) -> dict[str, Any]:
    """What `packed` was given."""
    return _replaced(state, lambda told: spread(told["of"], told["n"]))


def _replaced(state: dict[str, Any], change: Any) -> dict[str, Any]:
    found = dict(state)
    for *path, last in PLACES:
        inner = found
        for name in path:
            inner[name] = dict(inner[name])
            inner = inner[name]
        inner[last] = change(inner[last])
    return found


def stacked(states: list[Any]) -> dict[str, Any]:
    """States of one kind, as one: dicts and lists by their items, arrays end to end, and else as they are.

    >>> from surefooted.live.stacking import spread, stacked
    >>> states = [{"t": 1, "visits": np.arange(2)}, {"t": 2, "visits": np.arange(3)}]
    >>> stacked(states)["dict"]["visits"]["arrays"]
    array([0, 1, 0, 1, 2])
    >>> spread(stacked(states), 2)
    [{'t': 1, 'visits': array([0, 1])}, {'t': 2, 'visits': array([0, 1, 2])}]
    """
    kinds = {type(state) for state in states}
    first: Any = states[0] if states else None
    if kinds == {dict} and all(state.keys() == first.keys() for state in states):
        return {"dict": {name: stacked([state[name] for state in states]) for name in first}}
    if kinds == {list} and all(len(state) == len(first) for state in states):
        return {"list": [stacked(list(items)) for items in zip(*states, strict=True)]}
    if kinds == {np.ndarray} and all(state.ndim == 1 and state.dtype == first.dtype for state in states):
        return {"arrays": np.concatenate(states), "ends": np.cumsum([len(state) for state in states])}
    if kinds == {float}:
        return {"floats": np.array(states)}
    return {"as they are": states}


def spread(told: dict[str, Any], n: int) -> list[Any]:
    """The `n` states that `stacked` was given."""
    ((kind, content),) = ((kind, content) for kind, content in told.items() if kind != "ends")
    if kind == "dict":
        columns = {name: spread(column, n) for name, column in content.items()}
        return [{name: column[i] for name, column in columns.items()} for i in range(n)]
    if kind == "list":
        items = [spread(item, n) for item in content]
        return [[item[i] for item in items] for i in range(n)]
    if kind == "arrays":
        return np.split(content, told["ends"][:-1])
    return list(content.tolist() if kind == "floats" else content)
