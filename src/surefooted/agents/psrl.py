"""Posterior sampling (PSRL): play what is best in one MDP drawn from the posterior.

Osband, Russo & Van Roy (2013) for a finite horizon; Ouyang, Gagrani, Nayyar & Jain (2017, TSDE) for average reward.
The prior is in `surefooted.sets.posterior`. A draw proves nothing: to make these learners safe, a conservative agent
asks its certificate, which uses the set of plausible MDPs and does not depend on who proposes.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from surefooted import planning
from surefooted.agents import wording
from surefooted.agents.average_explorer import AverageExplorer
from surefooted.agents.episodic_learner import EpisodicLearner, GreedyPlan
from surefooted.agents.explorer import Explorer
from surefooted.agents.learner import AverageLearner, Learner
from surefooted.errors import InvalidInput, argument_faults
from surefooted.kernels import stages
from surefooted.kernels.bonus import FIXED_BONUS
from surefooted.kernels.structs import BonusTerms, Estimates, Table
from surefooted.planning import Plan
from surefooted.sets import posterior
from surefooted.sets.plausible import Plausible
from surefooted.tables.policy import Policy
from surefooted.tables.space import Space

Seed = int | np.random.Generator


class Sampler:
    """Draws MDPs from a learner's posterior, with random numbers of its own."""

    def __init__(self, seed: Seed) -> None:
        own = int(np.random.default_rng(seed).integers(1 << 63))  # the world and the coin may have the same seed
        self._rng = np.random.default_rng(own)

    def draw(self, learner: Learner, plausible: Plausible) -> Table:
        """An MDP from the posterior, in the set of plausible MDPs if knowledge made that."""
        knows = learner.belief.knowledge is not None and not learner.contradictions
        return posterior.draw(self._rng, learner.counts, plausible if knows else None)

    def bookmark(self) -> Callable[[], None]:
        """A function that takes it back to where it is now."""
        state = self._rng.bit_generator.state

        def put_back() -> None:
            self._rng.bit_generator.state = state

        return put_back

    def state_dict(self) -> dict[str, Any]:
        """What `restored` continues from."""
        return {"generator": self._rng.bit_generator.state}

    def restored(self, state: dict[str, Any]) -> Self:
        """A sampler that continues where `state_dict` was taken."""
        other = type(self)(0)
        other._rng.bit_generator.state = state["generator"]
        return other


class _Drawing(Learner):
    """A learner that draws: its random numbers are saved, and put back if planning fails."""

    sampler: Sampler

    def bookmark(self) -> Callable[[], None]:
        """A function that puts back its random numbers."""
        return self.sampler.bookmark()

    def _contents(self) -> dict[str, Any]:
        return super()._contents() | {"sampler": self.sampler.state_dict()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.sampler = self.sampler.restored(state["sampler"])


class PSRLLearner(_Drawing, AverageLearner):
    """Proposes the policy that is best in an MDP drawn from the posterior.

    Parameters
    ----------
    space : the states and their actions
    seed : of the draws
    options : delta, confidence, bounded, knowledge (see `Learner`); without knowledge, the first two have no effect on
        what is proposed

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> agent = sf.agents.AverageExplorer(sf.agents.PSRLLearner(problem.space))
    >>> sf.simulate(problem, agent, steps=100).steps
    100

    """

    def __init__(self, space: Space, *, seed: Seed = 0, **options: Any) -> None:
        super().__init__(space, **options)
        self.sampler = Sampler(seed)

    def propose(self, plausible: Plausible, t: int) -> Plan:
        """The best policy of a new draw for an episode that begins after t steps, to r_max / sqrt(t + 1)."""
        drawn = self.sampler.draw(self, plausible)
        return planning._sampled_gain(self.space, drawn, self.space.r_max / np.sqrt(t + 1))

    def reason(self, plan: Plan) -> str:
        """Why an agent plays what was proposed, as a sentence."""
        return wording.sampled_gain(plan.gain, self.space)


class PSRL(AverageExplorer[PSRLLearner]):
    """Posterior sampling: each episode plays the policy that is best in a new draw from the posterior.

    An episode ends as soon as the visits of some pair have doubled, or it has lasted one step longer than the one
    before it (TSDE).

    Parameters
    ----------
    space : the states and their actions
    seed : of the draws
    options : those of the learner: delta, confidence, bounded, knowledge (see `PSRLLearner`)

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> run = sf.simulate(problem, sf.PSRL(problem.space, seed=1), steps=500, seed=0)
    >>> run.steps
    500

    """

    def __init__(self, space: Space, *, seed: Seed = 0, **options: Any) -> None:
        if faults := argument_faults(options, PSRL, PSRLLearner):
            raise InvalidInput("no such agent", faults)
        super().__init__(PSRLLearner(space, seed=seed, **options), dynamic=True)


class PSRLEpisodicLearner(_Drawing, EpisodicLearner):
    """Proposes the policy of a backward induction in an MDP drawn from the posterior.

    With `stage_dependent`, each stage has draws of its own. Bounds on policies come from the set of `confidence`.

    Parameters
    ----------
    space : the states and their actions
    horizon : H, the number of steps of an episode
    seed : of the draws
    options : stage_dependent (see `EpisodicLearner`), delta, confidence, bounded, knowledge (see `Learner`)

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld()
    >>> agent = sf.agents.Explorer(sf.agents.PSRLEpisodicLearner(problem.space, problem.horizon))
    >>> sf.simulate(problem, agent, episodes=5).episodes
    5

    """

    reason = wording.SAMPLED

    def __init__(self, space: Space, horizon: int, *, seed: Seed = 0, **options: Any) -> None:
        super().__init__(space, horizon, **options)
        self.sampler = Sampler(seed)
        self.plan = GreedyPlan(space, self.horizon)

    def propose(self) -> Policy:
        """The best policy of a new draw."""
        drawn, plan = self.sampler.draw(self, self.plausible()), self.plan
        rows = Estimates(np.ones(drawn.r.size, dtype=np.int64), drawn.r, drawn.next_ptr, drawn.next_state, drawn.p)
        no_bonus = BonusTerms(FIXED_BONUS, np.zeros(drawn.r.size))
        table = (self.space.pair_ptr, rows, no_bonus, self.space.r_max)
        return plan.policy(lambda: stages.greedy_stages(*table, plan.values, plan.pair))

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.plan = GreedyPlan(self.space, self.horizon)


class PSRLEpisodic(Explorer):
    """Posterior sampling for a finite horizon: each episode plays what is best in a new draw from the posterior.

    Parameters
    ----------
    space : the states and their actions
    horizon : H, the number of steps of an episode
    seed : of the draws
    options : those of the learner: stage_dependent, delta, confidence, bounded, knowledge (see `PSRLEpisodicLearner`)

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld()
    >>> run = sf.simulate(problem, sf.agents.PSRLEpisodic(problem.space, problem.horizon), episodes=5, seed=0)
    >>> run.episodes
    5

    """

    def __init__(self, space: Space, horizon: int, *, seed: Seed = 0, **options: Any) -> None:
        super().__init__(PSRLEpisodicLearner(space, horizon, seed=seed, **options))
