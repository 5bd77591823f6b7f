"""Problems: functions that return a `Problem`. `ALL` has them by name."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from surefooted.errors import SurefootedError
from surefooted.problems.garnet import garnet
from surefooted.problems.gridworld import gridworld
from surefooted.problems.inventory import inventory
from surefooted.problems.maintenance import maintenance
from surefooted.problems.problem import Problem
from surefooted.problems.riverswim import riverswim

__all__ = ["ALL", "Problem", "garnet", "gridworld", "inventory", "maintenance", "make", "riverswim"]

ALL: dict[str, Callable[..., Problem]] = {
    "inventory": inventory,
    "maintenance": maintenance,
    "gridworld": gridworld,
    "riverswim": riverswim,
    "garnet": garnet,
}


def make(name: str, **parameters: Any) -> Problem:
    """The problem of that name, built with these parameters; the error for an unknown name suggests the nearest one.

    >>> import surefooted as sf
    >>> sf.problems.make("riverswim", n_states=10).space.n_states
    10
    """
    if name not in ALL:
        near = get_close_matches(str(name).lower(), ALL, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the problems are {', '.join(ALL)}"
        raise SurefootedError(f"there is no problem {name!r}; {hint}")
    return ALL[name](**parameters)
