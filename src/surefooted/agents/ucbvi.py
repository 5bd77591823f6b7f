"""UCBVI (Azar, Osband & Munos 2017): optimistic backward induction before every episode.

Three kinds of optimism. `boxes`: the best plausible rewards and rows, stage by stage; the one that learns quickly.
`hoeffding`: the paper's bonus b_k = β^p + β^r of the event E_1 (App. `app:finite.horizon`). `freedman`: the
Bernstein–Freedman bonus of Azar et al., Alg. 4.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from surefooted.agents.episodic_learner import EpisodicLearner, GreedyPlan
from surefooted.agents.explorer import Explorer
from surefooted.arrays import is_whole, like
from surefooted.errors import InvalidInput, argument_faults
from surefooted.kernels import stages
from surefooted.kernels.bonus import FIXED_BONUS, FREEDMAN_BONUS
from surefooted.kernels.structs import BonusTerms, Estimates
from surefooted.knowledge.knowledge import Knowledge
from surefooted.planning import Side
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints, Space

Bonus = Literal["boxes", "hoeffding", "freedman"]
NO_EFFECT = "bonus 'hoeffding' bounds policies by itself, and knowledge has no effect: use 'boxes'"


class UCBVILearner(EpisodicLearner):
    """Proposes the policy of an optimistic backward induction.

    Both bonuses depend on K = `episodes` and are proved only for the first K episodes. With any kind of optimism, V* is
    below the plan's values with probability at least 1 - delta. (For `freedman` that is Azar et al.'s analysis, for
    dynamics that all stages share. The paper's β^r is added, because rewards are not known here; its event adds less
    than delta^2.)

    `hoeffding` bounds what a policy earns with its own bonus. The others use the set of `confidence`, whose event has a
    probability of its own of at least 1 - delta: Azar et al.'s bonus bounds (p̂ - p) V* only. `knowledge` narrows the
    set: `boxes` plan with it, and `boxes` and `freedman` bound policies with it.

    Parameters
    ----------
    space : the states and their actions
    horizon : H, the number of steps of an episode
    bonus : "boxes", "hoeffding" or "freedman"
    episodes : K, which the two bonuses need
    options : stage_dependent (see `EpisodicLearner`), delta, confidence, bounded, knowledge (see `Learner`)

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld()
    >>> agent = sf.agents.Explorer(sf.agents.UCBVILearner(problem.space, problem.horizon))
    >>> sf.simulate(problem, agent, episodes=5).episodes
    5

    """

    def __init__(
        self, space: Space, horizon: int, *, bonus: Bonus = "boxes", episodes: int | None = None, **options: Any
    ) -> None:
        super().__init__(space, horizon, **options)
        faults = []
        if bonus not in ("boxes", "hoeffding", "freedman"):
            faults.append(f"there is no bonus {bonus!r}; there are boxes, hoeffding and freedman")
        elif bonus != "boxes" and not is_whole(episodes, 1):
            faults.append(f"bonus {bonus!r} needs `episodes`, the number of episodes in its logarithm, not {episodes}")
        elif bonus != "boxes" and self.horizon > int(episodes or 0) * self._n_pairs:
            faults.append(f"the event E_1 is proved for horizons up to episodes x S x A, not for {self.horizon}")
        if options.get("knowledge") is not None and bonus == "hoeffding":
            faults.append(NO_EFFECT)
        if faults:
            raise InvalidInput("no such agent", faults)
        self.bonus, self.limit = bonus, None if episodes is None or bonus == "boxes" else int(episodes)
        self.plan = GreedyPlan(space, self.horizon)
        self.stage_visits = np.zeros((self.horizon, space.n_states), dtype=np.int64)  # N'_{k,h}(s)
        self.q_before = np.full((self.horizon, space.n_pairs), np.inf)  # Q_{k-1,h}(s, a)
        self.learnt = 0  # episodes

    @property
    def _n_pairs(self) -> int:
        """S A of the logarithms, those of all stages together where each has its own dynamics."""
        return self.space.n_states * self.space.n_actions * self.counts.stages

    def trust(self, knowledge: Knowledge | None, begun: bool = False) -> None:
        """Use this knowledge (or none) from now on; `begun` says that steps not yet counted are under way."""
        if knowledge is not None and self.bonus == "hoeffding":
            raise InvalidInput("this knowledge cannot be used", [NO_EFFECT])
        super().trust(knowledge, begun)

    def propose(self) -> Policy:
        """The greedy policy of the optimistic backward induction."""
        plan, space = self.plan, self.space
        if self.limit is not None and self.learnt >= self.limit:
            fault = f"it was built for {self.limit} episodes, and its bounds are not proved beyond"
            raise InvalidInput("this learner has come to its end", [fault])
        if self.bonus == "boxes":
            plausible = self.plausible()
            boxes = (space.pair_ptr, tuple(plausible.rows), plausible.r_upper)
            return plan.policy(lambda: stages.optimistic_stages(*boxes, plan.values, plan.pair))
        reward, successor = self._widths()
        if self.bonus == "hoeffding":
            added = BonusTerms(FIXED_BONUS, reward + successor)
        else:
            log = np.full(reward.size, self._freedman_log())
            added = BonusTerms(FREEDMAN_BONUS, reward, log, self.stage_visits, space.n_actions, self.q_before)
        estimates = (space.pair_ptr, self._estimates(), added, space.r_max)
        return plan.policy(lambda: stages.greedy_stages(*estimates, plan.values, plan.pair))

    def bound(self, policies: Sequence[Policy], side: Side = "pessimistic") -> Floats:
        """Bounds [P, S] on what each policy earns: Eq. `pess_pe_fh` with the bonus of E_1, or over the set."""
        if self.bonus != "hoeffding":
            return super().bound(policies, side)
        self.check_question(policies, side)
        reward, successor = self._widths()
        sign = -1.0 if side == "pessimistic" else 1.0
        table = (self.space.pair_ptr, self._estimates(), reward + successor, self.space.r_max, sign)
        first = np.empty((len(policies), self.space.n_states))
        for i, policy in enumerate(policies):
            values = np.zeros((self.horizon + 1, self.space.n_states))
            stages.estimated_policy_stages(*table, *policy.stages(self.horizon), values)
            first[i] = values[0]
        return first

    def learn(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None = None) -> None:
        """Count the H steps of an episode, and which state each stage visited."""
        self.learnt += 1
        if self.bonus == "freedman":
            self.stage_visits[np.arange(self.horizon), self.space.pair_state[pairs]] += 1
        super().learn(pairs, rewards, next_states, noise)

    def _widths(self) -> tuple[Floats, Floats]:
        """β^r and β^p of the event E_1, [rows]: 2 r_max sqrt(L / N+) and H r_max sqrt(2 S L / N+), L = ln(3 K S A / δ).

        E_1 has probability at least 1 - δ if H <= K S A: by Hoeffding and Weissman et al. (2003), n visits of a pair
        fail with probability at most 2 exp(-8 L) + 2^S exp(-S L), the latter for S > 1 only, and n <= K H. With x =
        δ / (3 K S A), the sum over n and pairs is at most K H S A (2 x^8 + 4 x^2) <= H δ^2 / (2 K S A) + .. <= δ.
        """
        assert self.limit is not None
        n, r_max = np.maximum(self.counts.visits, 1), self.space.r_max
        log = np.log(3 * self.limit * self._n_pairs / self.delta)
        return 2 * r_max * np.sqrt(log / n), self.horizon * r_max * np.sqrt(2 * self.space.n_states * log / n)

    def _freedman_log(self) -> float:
        """L = ln(5 S A T / δ) with T = K H (Azar et al. 2017, Alg. 4)."""
        assert self.limit is not None
        return float(np.log(5 * self._n_pairs * self.limit * self.horizon / self.delta))

    def _estimates(self) -> Estimates:
        """Visits, mean rewards and next states of each row."""
        mean = self.counts.reward_sum / np.maximum(self.counts.visits, 1)
        return Estimates(self.counts.visits, mean, *self.counts.rows())

    def arguments(self) -> dict[str, Any]:
        """Those of every learner of episodes, the bonus, and K."""
        return super().arguments() | {"bonus": self.bonus, "episodes": self.limit}

    def _contents(self) -> dict[str, Any]:
        own = {"stage_visits": self.stage_visits.copy(), "q_before": self.q_before.copy(), "learnt": self.learnt}
        return super()._contents() | own

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.stage_visits = like("stage_visits", state["stage_visits"], self.stage_visits, 0)
        self.q_before = like("q_before", state["q_before"], self.q_before)
        self.learnt, self.plan = state["learnt"], GreedyPlan(self.space, self.horizon)


class UCBVI(Explorer):
    """Optimism: each episode plays the policy of an optimistic backward induction.

    Parameters
    ----------
    space : the states and their actions
    horizon : H, the number of steps of an episode
    seed : of the random numbers that a randomised policy needs
    options : those of the learner: bonus, episodes, stage_dependent, delta, confidence, bounded, knowledge (see
        `UCBVILearner`)

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld()
    >>> run = sf.simulate(problem, sf.UCBVI(problem.space, problem.horizon), episodes=5, seed=0)
    >>> run.episodes
    5

    """

    def __init__(self, space: Space, horizon: int, *, seed: int | np.random.Generator = 0, **options: Any) -> None:
        if faults := argument_faults(options, UCBVI, UCBVILearner):
            raise InvalidInput("no such agent", faults)
        super().__init__(UCBVILearner(space, horizon, **options), seed)
