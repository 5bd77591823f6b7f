"""Bernoulli arms: each pays 1 with its own probability and 0 otherwise; one of them is the baseline."""

from dataclasses import dataclass

import numpy as np

from surefooted.arrays import FrozenArrays, as_whole, freeze, is_whole, real_numbers
from surefooted.errors import InvalidInput
from surefooted.problems.problem import Problem
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Floats, Ints

NOISE = Noise("bernoulli")


@dataclass(frozen=True, eq=False)
class BernoulliArms(FrozenArrays):
    """Arms with rewards 0 and 1.

    >>> import surefooted as sf
    >>> arms = sf.bandits.BernoulliArms([0.5, 0.4, 0.7], baseline=0)
    >>> agent = sf.bandits.ConservativeUCB(arms.n_arms, alpha=0.1)
    >>> run = sf.bandits.simulate_arms(arms, agent, rounds=1000)
    >>> sf.bandits.evaluate(run, arms, alpha=0.1).violations
    0

    - `means`: the probability that each arm pays, [n].
    - `baseline`: the arm in use today.
    - `steady`: whether the baseline pays its mean each time, not 0 or 1.
    """

    means: Floats  # [n]
    baseline: int = 0
    steady: bool = False

    def __post_init__(self) -> None:
        """Check the means and the baseline, and freeze the means."""
        faults: list[str] = []
        means = real_numbers("means", self.means, faults)
        if not faults and (means.ndim != 1 or means.size == 0):
            faults.append(f"means have shape {means.shape}: there must be one for each of at least one arm")
        elif not faults:
            bad = ~((means >= 0) & (means <= 1))
            faults += [f"arm {i}: mean {means[i]:g} is outside [0, 1]" for i in np.flatnonzero(bad)]
        if means.ndim == 1 and means.size and not (is_whole(self.baseline, 0) and self.baseline < means.size):
            faults.append(f"baseline {self.baseline}: the arms are 0 to {means.size - 1}")
        if faults:
            raise InvalidInput("these arms are not valid", faults)
        freeze(means)
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "baseline", as_whole(self.baseline))

    @property
    def n_arms(self) -> int:
        """The number of arms, the baseline included."""
        return self.means.size

    def draw(self, rng: np.random.Generator, arm: int) -> float:
        """One reward of an arm."""
        if not (is_whole(arm, 0) and arm < self.n_arms):
            raise InvalidInput("no such arm", [f"arm {arm}: the arms are 0 to {self.n_arms - 1}"])
        mean = float(self.means[int(arm)])
        return mean if self.steady and arm == self.baseline else NOISE.draw(rng, mean, 1.0)

    def rounds(self, n: int) -> tuple[Floats, Ints]:
        """The mean of each arm in each of the first T rounds, [T, n], and the baseline arm of each round, [T]."""
        return np.tile(self.means, (n, 1)), np.full(n, self.baseline)

    def problem(self) -> Problem:
        """The same arms as an MDP with one state."""
        if self.steady:
            raise InvalidInput("no such MDP", ["the baseline is steady: an MDP has one kind of noise for all rewards"])
        mdp = TabularMDP.from_arrays(np.ones((1, self.n_arms, 1)), self.means[None, :], noise=NOISE)
        return Problem("bernoulli arms", mdp, Policy.always(mdp.space, self.baseline), 0)
