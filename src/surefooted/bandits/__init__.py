"""Bandits: conservative exploration with one state, where a policy is an arm and a step is a round."""

from surefooted.bandits.arms import BernoulliArms
from surefooted.bandits.conservative_linear_ucb import ConservativeLinearUCB
from surefooted.bandits.conservative_ucb import ConservativeUCB, wu
from surefooted.bandits.contextual import LinearContextual, linear_contextual
from surefooted.bandits.ellipsoid import Ellipsoid
from surefooted.bandits.oracle import evaluate
from surefooted.bandits.simulation import BanditRun, simulate_arms, simulate_linear

__all__ = [
    "BanditRun",
    "BernoulliArms",
    "ConservativeLinearUCB",
    "ConservativeUCB",
    "Ellipsoid",
    "LinearContextual",
    "evaluate",
    "linear_contextual",
    "simulate_arms",
    "simulate_linear",
    "wu",
]
