"""Exploration that never falls below your baseline.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> agent = sf.CUCRL2(problem.space, baseline=sf.Baseline(problem.baseline), alpha=0.1)
    >>> run = sf.simulate(problem, agent, steps=1000)
    >>> sf.evaluate(run, problem, alpha=0.1).violations
    0

Names are imported when they are first used, so that `import surefooted` and `surefooted --help` are instant.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_HOMES = {
    "Baseline": "surefooted.tables.baseline",
    "CUCBVI": "surefooted.agents.cucbvi",
    "CUCRL2": "surefooted.agents.cucrl2",
    "Counts": "surefooted.data.counts",
    "EULER": "surefooted.agents.euler",
    "EpsMix": "surefooted.agents.epsmix",
    "History": "surefooted.data.history",
    "InvalidInput": "surefooted.errors",
    "Knowledge": "surefooted.knowledge.knowledge",
    "Mechanics": "surefooted.knowledge.mechanics",
    "Noise": "surefooted.tables.reward_noise",
    "PSRL": "surefooted.agents.psrl",
    "Policy": "surefooted.tables.policy",
    "Problem": "surefooted.problems",
    "QLearning": "surefooted.agents.q_learning",
    "Space": "surefooted.tables.space",
    "StagedMDP": "surefooted.tables.staged",
    "StepMix": "surefooted.agents.stepmix",
    "SurefootedError": "surefooted.errors",
    "TabularMDP": "surefooted.tables.mdp",
    "UCBVI": "surefooted.agents.ucbvi",
    "UCRL2": "surefooted.agents.ucrl2",
    "certify": "surefooted.certificates.certify",
    "draw": "surefooted.evaluation.pictures",
    "estimate_baseline": "surefooted.certificates.estimate",
    "evaluate": "surefooted.evaluation.margins",
    "forecast": "surefooted.forecasting.forecast",
    "read_history": "surefooted.data.reading",
    "simulate": "surefooted.simulation.playing",
    "spibb": "surefooted.agents.spibb",
    "write_history": "surefooted.data.writing",
}
_MODULES = {
    "agents": "surefooted.agents",
    "bandits": "surefooted.bandits",
    "confidence": "surefooted.sets.confidence",
    "gym": "surefooted.gym",
    "live": "surefooted.live",
    "planning": "surefooted.planning",
    "problems": "surefooted.problems",
    "solve": "surefooted.solve",
    "studies": "surefooted.studies",
    "testing": "surefooted.testing",
}

__all__ = sorted([*_HOMES, *_MODULES, "__version__"])

if TYPE_CHECKING:
    from surefooted import agents as agents
    from surefooted import bandits as bandits
    from surefooted import gym as gym
    from surefooted import live as live
    from surefooted import planning as planning
    from surefooted import problems as problems
    from surefooted import solve as solve
    from surefooted import studies as studies
    from surefooted import testing as testing
    from surefooted.agents.cucbvi import CUCBVI as CUCBVI
    from surefooted.agents.cucrl2 import CUCRL2 as CUCRL2
    from surefooted.agents.epsmix import EpsMix as EpsMix
    from surefooted.agents.euler import EULER as EULER
    from surefooted.agents.psrl import PSRL as PSRL
    from surefooted.agents.q_learning import QLearning as QLearning
    from surefooted.agents.spibb import spibb as spibb
    from surefooted.agents.stepmix import StepMix as StepMix
    from surefooted.agents.ucbvi import UCBVI as UCBVI
    from surefooted.agents.ucrl2 import UCRL2 as UCRL2
    from surefooted.certificates.certify import certify as certify
    from surefooted.certificates.estimate import estimate_baseline as estimate_baseline
    from surefooted.data.counts import Counts as Counts
    from surefooted.data.history import History as History
    from surefooted.data.reading import read_history as read_history
    from surefooted.data.writing import write_history as write_history
    from surefooted.errors import InvalidInput as InvalidInput
    from surefooted.errors import SurefootedError as SurefootedError
    from surefooted.evaluation.margins import evaluate as evaluate
    from surefooted.evaluation.pictures import draw as draw
    from surefooted.forecasting.forecast import forecast as forecast
    from surefooted.knowledge.knowledge import Knowledge as Knowledge
    from surefooted.knowledge.mechanics import Mechanics as Mechanics
    from surefooted.problems import Problem as Problem
    from surefooted.sets import confidence as confidence
    from surefooted.simulation.playing import simulate as simulate
    from surefooted.tables.baseline import Baseline as Baseline
    from surefooted.tables.mdp import TabularMDP as TabularMDP
    from surefooted.tables.policy import Policy as Policy
    from surefooted.tables.reward_noise import Noise as Noise
    from surefooted.tables.space import Space as Space
    from surefooted.tables.staged import StagedMDP as StagedMDP

if "gymnasium" in sys.modules:  # as in `gymnasium.make("surefooted:surefooted/Inventory-v0")`
    import_module("surefooted.gym")


def __getattr__(name: str) -> Any:
    """Import a public name on its first use."""
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'surefooted' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return __all__
