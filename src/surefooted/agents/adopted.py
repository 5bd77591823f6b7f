"""Any agent as a learner: a conservative agent proposes what it would play, and plays it where that is safe.

Safety never depends on a proposal. So everything that has `begin`, `act` and `observe` may propose: Q-learning, a rule
of thumb, an agent that wants to do harm. The counts and the set of plausible MDPs that proofs may need are kept here.

It is told every step that was played. `observe` is for steps with the action that it asks for. If another action was
played, as the baseline's often is, its method `watch`, with the same arguments, is told. Without this method it is told
only where the run goes on, with `begin`.

CUCRL2 asks it before every step. CUCB-VI asks it when an episode begins: its attribute `policy` counts, if that is a
deterministic `Policy`, or else what `act` says in each state. It is told the steps after the episode.
"""

from collections import deque
from collections.abc import Mapping
from copy import deepcopy
from itertools import pairwise
from typing import Any

import numpy as np

from surefooted.agents.agent import asked, lacking
from surefooted.agents.episodic_learner import EpisodicLearner
from surefooted.agents.learner import AverageLearner, Learner
from surefooted.agents.player import Player
from surefooted.arrays import whole
from surefooted.errors import SurefootedError
from surefooted.planning import Plan
from surefooted.sets.plausible import Plausible
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints, Space

SAVES_NOTHING = "{} has no state_dict and load_state_dict, so an agent that holds it can play, and cannot be saved"


def can_be_adopted(agent: Any) -> bool:
    """Whether this is an agent without a learner of ours; a class is none."""
    return not isinstance(agent, type | Player | Learner) and not lacking(agent)


def adoption_faults(agent: Any, space: Space, horizon: int | None) -> list[str]:
    """Why an agent cannot propose on this space, in episodes of that horizon or in one long run."""
    on, its = getattr(agent, "space", space), getattr(agent, "horizon", None)
    faults = [] if on == space else [f"the learner is on {on}, the agent on {space}"]
    if its not in (None, horizon):
        faults.append(f"the learner plays episodes of {its} steps, this agent {horizon or 'one long run'}")
    return faults


class _Adopted(Learner):
    """Holds an agent, and tells it what was played."""

    agent: Any

    def _adopt(self, agent: Any) -> None:
        self.agent = agent
        self._at = -1  # where the agent was told to be; -1: nowhere yet
        self._asked = -1  # what it asked for there, if it was asked
        self._untold = deque[tuple[int, float, int]]()  # steps that it was not told yet: pair, reward, next state

    def learn(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None = None) -> None:
        """Count steps, and remember to tell them: user code runs only while an episode is planned."""
        super().learn(pairs, rewards, next_states, noise)
        earned = self.space.money.earned(rewards)
        if self.bounded:
            earned = np.clip(earned, self.space.low, self.space.high)  # counting from `low` and back rounds
        self._untold.extend(zip(pairs.tolist(), earned.tolist(), next_states.tolist(), strict=True))

    def _tell_all(self) -> None:
        """Tell the agent the steps that it does not know yet; one whose telling fails is told again."""
        while self._untold:
            self._tell(*self._untold[0])
            self._at, self._asked = self._untold.popleft()[2], -1

    def _tell(self, pair: int, r: float, s_next: int) -> None:
        s, a = int(self.space.pair_state[pair]), int(self.space.pair_action[pair])
        wanted = self._asked if self._asked >= 0 else asked(self.agent, s, self.space)[0]
        if a == wanted:
            self.agent.observe(s, a, r, s_next)
        elif callable(getattr(self.agent, "watch", None)):
            self.agent.watch(s, a, r, s_next)
        else:
            self.agent.begin(s_next)

    def _begin(self, s: int) -> None:
        self.agent.begin(s)
        self._at, self._asked = s, -1

    def arguments(self) -> dict[str, Any]:
        """Those of every learner, and what is known of the agent."""
        own: dict[str, Any] = {"class": type(self.agent).__qualname__}
        own |= self.agent.arguments() if callable(getattr(self.agent, "arguments", None)) else {}
        return super().arguments() | {"adopted": own}

    def _contents(self) -> dict[str, Any]:
        if not callable(getattr(self.agent, "state_dict", None)):
            raise SurefootedError(SAVES_NOTHING.format(type(self.agent).__name__))
        own = {"agent": self.agent.state_dict(), "at": self._at, "asked": self._asked, "untold": list(self._untold)}
        return super()._contents() | own

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        if not callable(getattr(self.agent, "load_state_dict", None)):
            raise SurefootedError(SAVES_NOTHING.format(type(self.agent).__name__))
        agent = deepcopy(self.agent)  # a state that is refused later changes nothing
        agent.load_state_dict(state["agent"])
        self._adopt(agent)
        self._at = whole("at", state["at"], -1, self.space.n_states - 1)
        self._asked = whole("asked", state["asked"], -1, self.space.n_actions - 1)
        self._untold.extend((int(pair), float(r), int(s_next)) for pair, r, s_next in state["untold"])


class AdoptedAgent(_Adopted, AverageLearner):
    """Proposes what an agent would play in the state at hand, for one step.

    Parameters
    ----------
    space : the states and their actions
    agent : anything that has `begin`, `act` and `observe`
    elsewhere : the policy that is proposed in all other states, the baseline
    options : delta, confidence, bounded, knowledge (see `Learner`)

    """

    every_step = True

    def __init__(self, space: Space, agent: Any, *, elsewhere: Policy, **options: Any) -> None:
        super().__init__(space, **options)
        self._adopt(agent)
        self._elsewhere = space.pair_ptr[:-1] + _likeliest(elsewhere)

    def locate(self, s: int) -> None:
        """Tell the agent what was played, or that the run begins in s."""
        self._tell_all()
        if self._at != s:
            self._begin(s)

    def propose(self, plausible: Plausible, t: int) -> Plan:
        """What the agent asks for here, and the baseline's action elsewhere; no bound is known."""
        self._asked = asked(self.agent, self._at, self.space)[0]
        pair = self._elsewhere.copy()
        pair[self._at] = self.space.pair(self._at, self._asked)
        return Plan(Policy._of_pairs(self.space, pair), -np.inf, np.inf, np.zeros(self.space.n_states), 0, False)


class AdoptedEpisodes(_Adopted, EpisodicLearner):
    """Proposes, for each episode, what an agent would play in each state when the episode begins.

    Parameters
    ----------
    space : the states and their actions
    horizon : H, the number of steps of an episode
    agent : anything that has `begin`, `act` and `observe`
    options : stage_dependent (see `EpisodicLearner`), delta, confidence, bounded, knowledge (see `Learner`)

    """

    def __init__(self, space: Space, horizon: int, agent: Any, **options: Any) -> None:
        super().__init__(space, horizon, **options)
        self._adopt(agent)

    def locate(self, s: int) -> None:
        """Tell the agent the episode that is over, and that one begins in s."""
        self._tell_all()
        self._begin(s)

    def propose(self) -> Policy:
        """The agent's deterministic policy, or what it says in each state."""
        policy = getattr(self.agent, "policy", None)
        if isinstance(policy, Policy) and policy.is_deterministic:
            return policy
        space = self.space
        pair = [space.pair(s, asked(self.agent, s, space)[0]) for s in range(space.n_states)]
        return Policy(space, pair=np.array(pair))


def _likeliest(policy: Policy) -> Ints:
    """The place, among the actions of each state, of one that a stationary policy plays most often, [S]."""
    weights = policy.dense_weights
    found = [int(np.argmax(weights[first:last])) for first, last in pairwise(policy.space.pair_ptr)]
    return np.array(found, dtype=np.int64)
