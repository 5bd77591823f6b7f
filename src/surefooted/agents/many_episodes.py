"""Many episodes of a plain optimist at once: a compiled loop plans, plays and counts them, and the agent absorbs them.

A plain optimist plays what UCBVI with `boxes` proposes, without knowledge and without a certificate. It comes out as if
each episode had been begun, played and absorbed on its own.
"""

import numpy as np

from surefooted.agents import wording
from surefooted.agents.agent import Decision
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.explorer import Explorer
from surefooted.agents.in_use import in_use
from surefooted.agents.ucbvi import UCBVI, UCBVILearner
from surefooted.kernels import episodes as kernels
from surefooted.kernels.structs import Fields, Optimist
from surefooted.sets.incremental import IncrementalSet
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints

ROOM = 1 << 17  # pairs of the plans that a batch may record: 1 MB
MOST = 4_096  # episodes of a batch
WORK = 1 << 26  # pairs and stages that a batch plans: half a second, in which nobody can interrupt it


class ManyEpisodes:
    """Plays batches of episodes of a plain optimist; `of` says whether an agent is one."""

    def __init__(self, agent: EpisodicPlayer, learner: UCBVILearner, plausible: IncrementalSet) -> None:
        self.agent, self.learner, self.plausible = agent, learner, plausible
        shape = learner.plan.pair.shape
        self._scratch = kernels.scratch(shape[1], shape[0])
        self._plans = np.empty((max(1, min(ROOM // learner.plan.pair.size, MOST)), *shape), dtype=np.int64)
        self._slots = np.empty(4 * len(self._plans), dtype=np.int64)

    @classmethod
    def of(cls, agent: EpisodicPlayer) -> "ManyEpisodes | None":
        """What plays many episodes of this agent; None if they must be played one by one."""
        learner = agent.learner
        if type(agent) not in (UCBVI, Explorer) or type(learner) is not UCBVILearner or learner.bonus != "boxes":
            return None
        plausible = learner.belief.intervals
        return None if plausible is None else cls(agent, learner, plausible)

    @property
    def may_go_on(self) -> bool:
        """Whether the plan is one that a batch can begin with: the first episode is played on its own."""
        return self.learner.plan.made is not None

    def play(self, world: Fields, draws: Floats, starts: Ints, pairs: Ints, rewards: Floats, next_states: Ints) -> int:
        """Play episodes from these starts [n] on a true table, write their steps [n, H], and absorb them; how many.

        There may be fewer than n: the next batch goes on. `draws` [at least n, H, 1 or 2] are random numbers.
        """
        plan = self.learner.plan.pair.size * max(1, self.learner.space.n_pairs // self.learner.space.n_states)
        n = min(len(starts), len(draws), MOST, max(1, WORK // plan))
        which, optimist = np.empty(n, dtype=np.int64), tuple(self._optimist())
        played = (pairs[:n], rewards[:n], next_states[:n], self._plans, which, self._slots)
        with in_use(self.agent):
            self.agent._halfway = True
            done, counted = kernels.play_episodes(world, optimist, self._scratch, draws, starts[:n], played)
            self._absorb(starts[:done], (pairs[:done], rewards[:done], next_states[:done]), which[:done], counted)
            self.agent._halfway = False
        return done

    def _optimist(self) -> Optimist:
        """The learner as the kernel takes it; its set is up to date."""
        learner, plan, space = self.learner, self.learner.plan, self.learner.space
        share, sums, seen, boxes, rows = self.plausible.arrays()
        counted = (sums, tuple(learner.counts.pool), seen)
        return Optimist(space.pair_ptr, space.r_max, space.low, share, *counted, boxes, rows, plan.values, plan.pair)

    def _absorb(self, starts: Ints, steps: tuple[Ints, Floats, Ints], which: Ints, counted: int) -> None:
        """Remember episodes that were played, of whose steps `counted` are counted; `which` plans they followed."""
        agent, learner, horizon = self.agent, self.learner, self.agent.horizon
        pairs, rewards, next_states = steps[0].reshape(-1), steps[1].reshape(-1), steps[2].reshape(-1)
        at_stage = pairs + np.tile(learner._row_offset, len(starts)) if learner.stride else pairs
        learner.counts._add_rest(at_stage, learner.space.money.counted(rewards), next_states, counted)
        self.plausible.went_on(missing=horizon)
        learner.learnt += len(starts)
        before = learner.plan.made
        assert before is not None
        new = [Policy._of_pairs(learner.space, pair) for pair in self._plans[: which.max() + 1]]
        policies = [*new, before]  # which -1 is what was planned before
        ids, policy = [agent.policy_id(policy) for policy in policies], policies[which[-1]]
        learner.plan.made_elsewhere(policy)
        reason, first = learner.reason + wording.not_used([]), agent.episodes
        agent.decisions += [
            Decision("optimistic", reason, -1, horizon * t, ids[i], horizon)
            for t, i in enumerate(which.tolist(), start=first)
        ]
        agent.starts += starts.tolist()
        agent.policy, agent.h, agent.state, agent.noise = policy, horizon, int(next_states[-1]), None
