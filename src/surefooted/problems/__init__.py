"""Problems: functions that return a `Problem`. `ALL` has them by name."""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefooted.errors import SurefootedError
from surefooted.problems.cliff_walking import cliff_walking
from surefooted.problems.deep_sea import deep_sea
from surefooted.problems.double_chain import double_chain
from surefooted.problems.forest import forest
from surefooted.problems.frozen_lake import frozen_lake
from surefooted.problems.garnet import garnet
from surefooted.problems.gridworld import gridworld
from surefooted.problems.icu_sepsis import icu_sepsis
from surefooted.problems.inventory import inventory
from surefooted.problems.maintenance import maintenance
from surefooted.problems.planned_inventory import planned_inventory
from surefooted.problems.problem import Problem
from surefooted.problems.riverswim import riverswim
from surefooted.problems.simple_grid import simple_grid
from surefooted.problems.taxi import taxi
from surefooted.problems.wet_chicken import wet_chicken

if TYPE_CHECKING:
    from surefooted.problems.problem_file import ProblemFile

__all__ = [
    "ALL",
    "Problem",
    "cliff_walking",
    "deep_sea",
    "double_chain",
    "forest",
    "frozen_lake",
    "garnet",
    "gridworld",
    "icu_sepsis",
    "inventory",
    "load",
    "maintenance",
    "make",
    "planned_inventory",
    "riverswim",
    "simple_grid",
    "taxi",
    "wet_chicken",
]

ALL: dict[str, Callable[..., Problem]] = {
    "inventory": inventory,
    "maintenance": maintenance,
    "gridworld": gridworld,
    "riverswim": riverswim,
    "garnet": garnet,
    "forest": forest,
    "double_chain": double_chain,
    "deep_sea": deep_sea,
    "wet_chicken": wet_chicken,
    "simple_grid": simple_grid,
    "frozen_lake": frozen_lake,
    "cliff_walking": cliff_walking,
    "taxi": taxi,
    "planned_inventory": planned_inventory,  # with the extra stockpyl
    "icu_sepsis": icu_sepsis,  # with the extra icu-sepsis
}


def make(name: str, **parameters: Any) -> Problem:
    """The problem of that name, built with these parameters; the error for an unknown name suggests the nearest one.

    >>> import surefooted as sf
    >>> sf.problems.make("riverswim", n_states=10).space.n_states
    10

    - `name`: one of `ALL`.
    - `parameters`: of that problem.
    """
    if name not in ALL:
        near = get_close_matches(str(name).lower(), ALL, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the problems are {', '.join(ALL)}"
        raise SurefootedError(f"there is no problem {name!r}; {hint}")
    return ALL[name](**parameters)


def load(
    path: str | Path,
    *,
    allow_code: bool = False,
    say: Callable[[str], object] | None = None,
    logs: bool = True,
) -> "ProblemFile":
    """The problem that a TOML file describes: docs/problem-files.md.

    - `path`: the file. One error names every fault in it, with its line.
    - `allow_code`: whether code that the file names (`module:function`) may run. Nothing is imported otherwise.
    - `say`: gets the sentence that names the code before it runs.
    - `logs`: whether to read the logs that the file names.

    >>> import surefooted as sf
    >>> text = '''
    ... name = "machine"
    ... step = "day"
    ... states.values = ["fine", "worn"]
    ... actions.values = ["run", "repair"]
    ... baseline.table = {fine = "run", worn = "run"}
    ... rewards = {low = -40, high = 60, unit = "€"}
    ... '''
    >>> file = open("machine.toml", "w", encoding="utf-8")
    >>> _ = file.write(text), file.close()
    >>> problem = sf.problems.load("machine.toml")
    >>> problem.space, problem.baseline.policy.actions
    (Space(n_states=2, n_pairs=4, rewards=(-40, 60), unit='€'), array([0, 0]))
    """
    from surefooted.problems.from_file import load_file

    return load_file(path, allow_code, say, logs)
