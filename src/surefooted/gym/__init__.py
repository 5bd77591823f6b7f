"""Gymnasium, both ways: problems as environments, environments as tables, and agents that act in environments.

| from | to | with |
|---|---|---|
| a `Problem` | an environment | `TabularEnv(problem)`, or `gymnasium.make("surefooted/Inventory-v0")` |
| a toy-text environment's `P` | a `TabularMDP` | `table(env.unwrapped.P)` |
| a discrete environment | states, actions and rewards for an agent | `Bridge(env, rewards=(low, high))` |

Importing this module registers the problems with Gymnasium.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from surefooted.gym.registration import register_problems

_HOMES = {
    "Bridge": "surefooted.gym.bridge",
    "TabularEnv": "surefooted.gym.environment",
    "Transcript": "surefooted.gym.bridge",
    "drive": "surefooted.gym.bridge",
    "make_problem": "surefooted.gym.environment",
    "table": "surefooted.tables.toy_text",
}

__all__ = ["Bridge", "TabularEnv", "Transcript", "drive", "make_problem", "table"]

if TYPE_CHECKING:
    from surefooted.gym.bridge import Bridge, Transcript, drive
    from surefooted.gym.environment import TabularEnv, make_problem
    from surefooted.tables.toy_text import table

register_problems()


def __getattr__(name: str) -> Any:
    """Import a name on its first use."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'surefooted.gym' has no attribute {name!r}")
