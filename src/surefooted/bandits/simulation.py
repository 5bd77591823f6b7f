"""Playing a bandit agent on a problem, round by round, reproducibly."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from surefooted.agents.agent import Decision, Role
from surefooted.arrays import is_whole
from surefooted.bandits.arms import BernoulliArms
from surefooted.bandits.contextual import LinearContextual
from surefooted.errors import InvalidInput
from surefooted.tables.space import Floats, Ints


class ArmsAgent(Protocol):
    """An agent that chooses among the same arms in every round."""

    n_arms: int
    baseline: int

    @property
    def t(self) -> int:
        """Rounds played."""

    def act(self) -> Decision:
        """Which arm to play; asking again gives the same answer."""

    def observe(self, arm: int, reward: float) -> None:
        """Learn the reward of the arm that was played."""


class ContextualAgent(Protocol):
    """An agent that chooses among new arms in every round."""

    t: int

    @property
    def dimension(self) -> int:
        """The length of a feature vector."""

    def act(self, features: ArrayLike, baseline: int, baseline_mean: float | None = None) -> Decision:
        """Which arm to play; asking again gives the same answer."""

    def observe(self, reward: float) -> None:
        """Learn the reward of the arm that was played."""


@dataclass(frozen=True)
class BanditRun:
    """What happened in one realisation: every round's decision, arm and reward.

    - `decisions`: of each round.
    - `arms`: the arm that was played in each round, [T].
    - `rewards`: what it paid, [T].

    >>> import surefooted as sf
    >>> arms = sf.bandits.BernoulliArms([0.5, 0.7])
    >>> run = sf.bandits.simulate_arms(arms, sf.bandits.ConservativeUCB(2, alpha=0.1), rounds=100)
    >>> run.rounds, run.arms.shape
    (100, (100,))
    """

    decisions: list[Decision]
    arms: Ints  # [T]
    rewards: Floats  # [T]

    @property
    def rounds(self) -> int:
        """T."""
        return self.arms.size

    @property
    def roles(self) -> list[Role]:
        """The role in which each arm was played, [T]."""
        return [decision.role for decision in self.decisions]

    @property
    def baseline_rounds(self) -> int:
        """The number of rounds in which the baseline was played conservatively."""
        return self.roles.count("baseline")


def simulate_arms(
    problem: BernoulliArms, agent: ArmsAgent, rounds: int, seed: int | np.random.SeedSequence = 0
) -> BanditRun:
    """Play some rounds of Bernoulli arms; `seed` draws the rewards.

    - `problem`: the arms.
    - `agent`: one that has played nothing yet, with `act()` and `observe(arm, reward)`.
    - `rounds`: how many.

    >>> import surefooted as sf
    >>> arms = sf.bandits.BernoulliArms([0.5, 0.7])
    >>> agent = sf.bandits.ConservativeUCB(2, alpha=0.1, baseline_mean=0.5)
    >>> sf.bandits.simulate_arms(arms, agent, rounds=100, seed=1).baseline_rounds < 100
    True
    """
    ours, theirs = (problem.n_arms, problem.baseline), (agent.n_arms, agent.baseline)
    faults = [] if ours == theirs else [f"arms and baseline: {ours} in the problem, {theirs} in the agent"]
    _check(agent.t, rounds, faults)
    rng, decisions, rewards = np.random.default_rng(seed), [], np.empty(rounds)
    for t in range(rounds):
        decisions.append(agent.act())
        rewards[t] = problem.draw(rng, decisions[t].action)
        agent.observe(decisions[t].action, float(rewards[t]))
    return BanditRun(decisions, np.array([decision.action for decision in decisions]), rewards)


def simulate_linear(
    problem: LinearContextual,
    agent: ContextualAgent,
    rounds: int,
    seed: int | np.random.SeedSequence = 0,
    *,
    baseline_known: bool = True,
) -> BanditRun:
    """Play some rounds of a contextual bandit; `seed` draws the rewards.

    `baseline_known` says whether the agent is told the mean of each round's baseline.

    - `problem`: contexts with features.
    - `agent`: one that has played nothing yet, with `act(features, baseline, baseline_mean)` and `observe(reward)`.
    - `rounds`: how many.

    >>> import surefooted as sf
    >>> shop = sf.bandits.linear_contextual(3, arms=5, seed=1)
    >>> agent = sf.bandits.ConservativeLinearUCB(shop.dimension, alpha=0.1, sigma=0.5, bound=1.0)
    >>> sf.bandits.simulate_linear(shop, agent, rounds=20).rounds
    20
    """
    ours, theirs = problem.dimension, agent.dimension
    _check(agent.t, rounds, [] if ours == theirs else [f"dimension: {ours} in the problem, {theirs} in the agent"])
    rng, decisions, rewards = np.random.default_rng(seed), [], np.empty(rounds)
    for t in range(rounds):
        features, baseline, mean = problem.context(t)
        decisions.append(agent.act(features, baseline, mean if baseline_known else None))
        rewards[t] = problem.draw(rng, t, decisions[t].action)
        agent.observe(float(rewards[t]))
    return BanditRun(decisions, np.array([decision.action for decision in decisions]), rewards)


def _check(played: int, rounds: int, faults: list[str]) -> None:
    if played:
        faults.append(f"the agent has played {played} rounds already")
    if not is_whole(rounds, 1):
        faults.append(f"rounds {rounds} must be a positive whole number")
    if faults:
        raise InvalidInput("agent and problem do not fit", faults)
