"""Exploration that never falls below your baseline.

    import surefooted as sf

    problem = sf.problems.inventory()
    sf.solve.optimal_gain(problem.mdp).gain

Names are imported when they are first used, so that `import surefooted` and `surefooted --help` are instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from surefooted._registration import register_when_imported

__version__ = "0.1.0"

_HOMES = {
    "Baseline": "surefooted.baseline",
    "CUCBVI": "surefooted.agents.cucbvi",
    "CUCRL2": "surefooted.agents.cucrl2",
    "Counts": "surefooted.counts",
    "EULER": "surefooted.agents.euler",
    "History": "surefooted.history",
    "InvalidTable": "surefooted.errors",
    "Knowledge": "surefooted.knowledge",
    "Mechanics": "surefooted.mechanics",
    "Noise": "surefooted.noise",
    "Policy": "surefooted.policy",
    "Problem": "surefooted.problems",
    "Space": "surefooted.space",
    "StagedMDP": "surefooted.staged",
    "SurefootedError": "surefooted.errors",
    "TabularMDP": "surefooted.mdp",
    "UCBVI": "surefooted.agents.ucbvi",
    "UCRL2": "surefooted.agents.ucrl2",
    "evaluate": "surefooted.oracle",
    "read_history": "surefooted.history",
    "simulate": "surefooted.simulation",
    "write_history": "surefooted.history",
}
_MODULES = (
    "agents",
    "bandits",
    "certificate",
    "confidence",
    "gym",
    "planning",
    "problems",
    "solve",
    "studies",
    "testing",
)

__all__ = sorted([*_HOMES, *_MODULES, "__version__"])

if TYPE_CHECKING:
    from surefooted import agents as agents
    from surefooted import bandits as bandits
    from surefooted import certificate as certificate
    from surefooted import confidence as confidence
    from surefooted import gym as gym
    from surefooted import planning as planning
    from surefooted import problems as problems
    from surefooted import solve as solve
    from surefooted import studies as studies
    from surefooted import testing as testing
    from surefooted.agents.cucbvi import CUCBVI as CUCBVI
    from surefooted.agents.cucrl2 import CUCRL2 as CUCRL2
    from surefooted.agents.euler import EULER as EULER
    from surefooted.agents.ucbvi import UCBVI as UCBVI
    from surefooted.agents.ucrl2 import UCRL2 as UCRL2
    from surefooted.baseline import Baseline as Baseline
    from surefooted.counts import Counts as Counts
    from surefooted.errors import InvalidTable as InvalidTable
    from surefooted.errors import SurefootedError as SurefootedError
    from surefooted.history import History as History
    from surefooted.history import read_history as read_history
    from surefooted.history import write_history as write_history
    from surefooted.knowledge import Knowledge as Knowledge
    from surefooted.mdp import TabularMDP as TabularMDP
    from surefooted.mechanics import Mechanics as Mechanics
    from surefooted.noise import Noise as Noise
    from surefooted.oracle import evaluate as evaluate
    from surefooted.policy import Policy as Policy
    from surefooted.problems import Problem as Problem
    from surefooted.simulation import simulate as simulate
    from surefooted.space import Space as Space
    from surefooted.staged import StagedMDP as StagedMDP

register_when_imported()


def __getattr__(name: str) -> Any:
    """Import a public name on its first use."""
    if name in _MODULES:
        return import_module(f"surefooted.{name}")
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'surefooted' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return __all__
