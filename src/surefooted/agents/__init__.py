"""Agents: `act` reads, `observe` writes; asking twice gives the same answer."""

from surefooted.agents.agent import Agent, Decision
from surefooted.agents.fixed import FixedPolicy

__all__ = ["Agent", "Decision", "FixedPolicy"]
