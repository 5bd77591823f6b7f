"""Agents: `act` reads, `observe` writes; asking twice gives the same answer."""

from surefooted.agents.agent import Agent, Decision
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.agents.fixed import FixedPolicy
from surefooted.agents.ucrl2 import UCRL2

__all__ = ["CUCRL2", "UCRL2", "Agent", "Decision", "FixedPolicy"]
