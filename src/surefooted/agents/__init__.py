"""Agents: `act` reads, `observe` writes; asking twice gives the same answer."""

from surefooted.agents.agent import Agent, Decision
from surefooted.agents.cucbvi import CUCBVI
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.agents.euler import EULER
from surefooted.agents.fixed import FixedPolicy
from surefooted.agents.learner import EpisodicLearner, Learner
from surefooted.agents.ucbvi import UCBVI
from surefooted.agents.ucrl2 import UCRL2

__all__ = [
    "CUCBVI",
    "CUCRL2",
    "EULER",
    "UCBVI",
    "UCRL2",
    "Agent",
    "Decision",
    "EpisodicLearner",
    "FixedPolicy",
    "Learner",
]
