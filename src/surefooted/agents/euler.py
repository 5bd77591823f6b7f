"""EULER (Zanette & Brunskill 2019): bounds on V* from both sides, and a bonus that shrinks with their distance."""

from functools import cached_property
from typing import Any

import numpy as np

from surefooted.agents.episodic_learner import EpisodicLearner, GreedyPlan
from surefooted.agents.explorer import Explorer
from surefooted.errors import InvalidInput, argument_faults
from surefooted.kernels import stages
from surefooted.kernels.bonus import EULER_BONUS
from surefooted.kernels.structs import BonusTerms, Estimates
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Space


class EULERLearner(EpisodicLearner):
    """Optimism with an upper and a lower bound on V*, their Alg. 1, with Audibert et al. (2009) as the inequality.

    For each stage and pair, |(p̂ - p) V*| <= sqrt(2 L Var_p̂(V*) / N) + 3 H L / N at all N with probability at least
    1 - δ / 2, if L = ln(6 H K N (N + 1) / δ); K is the number of pairs. V* is not known, but if lower <= V* <= upper
    then sqrt(Var_p̂(V*)) <= sqrt(Var_p̂(upper)) + |upper - lower|_{2, p̂}, and the same with lower: which is their
    bonus, and carries the induction on to the stage before. Mean rewards get Audibert et al.'s interval with the
    other δ / 2. So lower <= V* <= upper for all stages, states and episodes with probability at least 1 - δ. The
    constants are those of this inequality, not theirs; the last H in it is what the stages left can earn.

    The lower bound is one on V*, not on what the greedy policy earns: `bound` uses the set of `confidence`.

    Its parameters are those of `EpisodicLearner`.

    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld()
    >>> agent = sf.agents.Explorer(sf.agents.EULERLearner(problem.space, problem.horizon))
    >>> sf.simulate(problem, agent, episodes=5).episodes
    5
    """

    @cached_property
    def plan(self) -> GreedyPlan:
        """The upper bound and its greedy policy."""
        return GreedyPlan(self.space, self.horizon)

    @cached_property
    def lower(self) -> Floats:
        """The lower bound, [H + 1, S]."""
        return np.zeros((self.horizon + 1, self.space.n_states))

    def propose(self) -> Policy:
        """The policy that is greedy for the upper bound."""
        counts, space, plan = self.counts, self.space, self.plan
        n = np.maximum(counts.visits, 1)
        mean = counts.reward_sum / n
        deviation = np.sqrt(np.maximum(counts.reward_square / n - mean * mean, 0.0))
        log = np.log(6 * self.horizon * space.n_pairs * n * (n + 1) / self.delta)
        x = np.log(6 * counts.n_rows * n * (n + 1) / self.delta)
        reward = deviation * np.sqrt(2 * x / n) + 3 * space.r_max * x / n
        estimates = Estimates(counts.visits, mean, *counts.rows())
        added = BonusTerms(EULER_BONUS, reward, log, lower=self.lower)
        table = (space.pair_ptr, estimates, added, space.r_max)
        return plan.policy(lambda: stages.greedy_stages(*table, plan.values, plan.pair))


class EULER(Explorer):
    """Optimism with an upper and a lower bound on V*: each episode plays what `EULERLearner` proposes.

    Parameters
    ----------
    space : the states and their actions
    horizon : H, the number of steps of an episode
    seed : of the random numbers that a randomised policy needs
    options : those of the learner: stage_dependent, delta, confidence, bounded, knowledge (see `EpisodicLearner`)

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld()
    >>> run = sf.simulate(problem, sf.EULER(problem.space, problem.horizon), episodes=5, seed=0)
    >>> run.episodes
    5

    """

    def __init__(self, space: Space, horizon: int, *, seed: int | np.random.Generator = 0, **options: Any) -> None:
        if faults := argument_faults(options, EULER, EULERLearner):
            raise InvalidInput("no such agent", faults)
        super().__init__(EULERLearner(space, horizon, **options), seed)
