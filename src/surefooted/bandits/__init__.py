"""Bandits: conservative exploration with one state, where a policy is an arm and a step is a round."""

from surefooted.bandits.any_bandit import AnyBandit, AnyLinearBandit
from surefooted.bandits.arms import BernoulliArms
from surefooted.bandits.conservative_linear_ucb import ConservativeLinearUCB
from surefooted.bandits.conservative_ucb import ConservativeUCB, wu
from surefooted.bandits.contextual import LinearContextual, linear_contextual
from surefooted.bandits.ellipsoid import Ellipsoid
from surefooted.bandits.oracle import evaluate
from surefooted.bandits.reduction import Reduction, budget_needed, regret_of_ucb
from surefooted.bandits.rules import check_bandit
from surefooted.bandits.safe_sets import SafeSetLinearUCB, SafeSetUCB
from surefooted.bandits.sample_path import SamplePath
from surefooted.bandits.simulation import BanditRun, simulate_arms, simulate_linear
from surefooted.bandits.stage_wise import StageWiseLinearUCB, StageWiseUCB

__all__ = [
    "AnyBandit",
    "AnyLinearBandit",
    "BanditRun",
    "BernoulliArms",
    "ConservativeLinearUCB",
    "ConservativeUCB",
    "Ellipsoid",
    "LinearContextual",
    "Reduction",
    "SafeSetLinearUCB",
    "SafeSetUCB",
    "SamplePath",
    "StageWiseLinearUCB",
    "StageWiseUCB",
    "budget_needed",
    "check_bandit",
    "evaluate",
    "linear_contextual",
    "regret_of_ucb",
    "simulate_arms",
    "simulate_linear",
    "wu",
]
