"""Exact answers on a known MDP. Nothing that learns ever imports this."""

from surefooted.solve.distances import diameter, hitting_times, worst_case_diameter
from surefooted.solve.gain import GainAndBias, OptimalGain, gain_and_bias, optimal_gain, stationary_distribution
from surefooted.solve.horizon import (
    OptimalValues,
    expected_rewards,
    expected_rewards_along,
    optimal_values,
    policy_values,
)

__all__ = [
    "GainAndBias",
    "OptimalGain",
    "OptimalValues",
    "diameter",
    "expected_rewards",
    "expected_rewards_along",
    "gain_and_bias",
    "hitting_times",
    "optimal_gain",
    "optimal_values",
    "policy_values",
    "stationary_distribution",
    "worst_case_diameter",
]
