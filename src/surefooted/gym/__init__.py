"""Gymnasium, both ways: problems as environments, environments as tables, and agents that drive either.

| from | to | with |
|---|---|---|
| a `Problem` | an environment | `TabularEnv(problem)`, or `gymnasium.make("surefooted/Inventory-v0")` |
| a toy-text environment's `P` | a `TabularMDP` | `table(env.unwrapped.P)` |
| any environment with discrete spaces | something an agent can drive | `Bridge(env, reward_range=(low, high))` |
"""

from surefooted.gym.bridge import Bridge, Transcript, drive
from surefooted.gym.environment import TabularEnv, make_problem
from surefooted.gym.importing import table

__all__ = ["Bridge", "TabularEnv", "Transcript", "drive", "make_problem", "table"]
