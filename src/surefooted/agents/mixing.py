"""What StepMix and EpsMix share: the condition of every single episode, and what is proved of it.

An episode from s must earn, in expectation and with V the baseline's value of s, at least

    V - α max(V - H floor, 0) - H tolerance,

whatever was earned before. Nothing is saved up, and nothing may be spent later. Policies are compared with the baseline
inside one plausible MDP (`certificates.netted`). Amounts are counted from `low` (`tables.money`), and so is `zero`,
where the share α of a value begins.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from surefooted.agents import wording
from surefooted.agents.adopted import AdoptedEpisodes, adoption_faults, can_be_adopted
from surefooted.agents.agent import Agent, Decision, Role
from surefooted.agents.episode_settings import EACH_EPISODE, baseline_faults
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.episodic_learner import EpisodicLearner
from surefooted.agents.in_use import exclusive
from surefooted.agents.ucbvi import UCBVILearner
from surefooted.arrays import is_whole
from surefooted.certificates.netted import Net, Netted
from surefooted.certificates.shares import delta_faults, share
from surefooted.certificates.tolerance import Tolerance
from surefooted.errors import InvalidInput
from surefooted.knowledge.baseline_check import NOT_EXPLORED, BaselineCheck, all_explored
from surefooted.knowledge.knowledge import Knowledge
from surefooted.tables.baseline import Baseline, baseline_argument
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints, Space

PROVED, KEPT = "proved of the proposal's part", "the baseline's part"  # terms of a budget


class Compared(NamedTuple):
    """A policy compared with the baseline, and with 1 - α times the baseline; the better bound counts."""

    whole: Net
    share: Net


class MixingPlayer(EpisodicPlayer):
    """Plays in each episode a mixture of the baseline and what a learner proposes.

    Policy 0 is the baseline. A subclass says in `next_episode` how it mixes.
    """

    condition: ClassVar = EACH_EPISODE
    by_coin: ClassVar[bool] = False  # whether a coin chooses between two policies for an episode
    check: BaselineCheck

    def __init__(
        self,
        space: Space,
        horizon: int,
        *,
        baseline: Baseline,
        alpha: float,
        delta: float | None = None,
        learner: EpisodicLearner | EpisodicPlayer | Agent | None = None,
        tolerance: float = 0.0,
        floor: float | None = None,
        seed: int | np.random.Generator = 0,
        **options: Any,
    ) -> None:
        if not is_whole(horizon, 1):
            raise InvalidInput("no such agent", [f"horizon {horizon} must be a positive whole number"])
        if faults := baseline_argument(baseline):
            raise InvalidInput("no such agent", faults)
        may_lose = Tolerance.parse(alpha, faults, tolerance=tolerance, floor=floor)
        faults += may_lose.value_faults(baseline.start_values, int(horizon), space.money) if not faults else []
        faults += baseline_faults(baseline, space, int(horizon))
        given: Any = learner.learner if isinstance(learner, EpisodicPlayer) else learner
        held = given if isinstance(given, EpisodicLearner) else None
        adopted = given if held is None and can_be_adopted(given) else None
        if adopted is not None:
            faults += adoption_faults(adopted, space, int(horizon))
        elif held is None and given is not None:
            faults.append(f"the learner must be an EpisodicLearner or an agent, not {type(given).__name__}")
        if held is not None and options:
            faults.append(f"{', '.join(options)}: a learner is given, so these options of UCBVI have no effect")
        if held is not None and (held.space != space or held.horizon != horizon):
            faults.append(f"the learner is on {held.space} with horizon {held.horizon}")
        faults += [] if delta is None else delta_faults(delta)
        if faults:
            raise InvalidInput("no such agent", faults)
        options["delta"] = share(delta, None if held is None else held.delta, True, False).total
        if adopted is not None:
            held = AdoptedEpisodes(space, horizon, adopted, **options)
        super().__init__(held or UCBVILearner(space, horizon, **options), seed)
        self.baseline, self.tolerance, self.alpha = baseline, may_lose, may_lose.alpha
        self.zero = self.horizon * (may_lose.floor - space.low)
        self.mixtures = [] if self.by_coin else None
        self.policy_id(baseline.policy)  # policy 0
        self.check = BaselineCheck(baseline, self.delta, self.horizon, self.bounded)
        if baseline.history is not None:
            baseline.history.into(self, accidents=baseline.accidents)

    @property
    def delta(self) -> float:
        """The probability with which the condition may fail: with which the learner's set misses the true MDP."""
        return self.learner.delta

    @abstractmethod
    def mix(self, s: int, proposal: Policy) -> tuple[Policy, Decision]:
        """What the episode that begins in s plays, given what the learner proposes."""

    def next_episode(self, s: int) -> tuple[Policy, Decision]:
        """The baseline where it must be or is proposed; elsewhere a mixture."""
        self.learner.locate(s)
        contradictions = self.learner.compare()
        contradictions += self.check.compare(self.learner.belief.from_data, self.learner.counts.total)
        if contradictions:  # what was proved may be wrong: play safe until told otherwise
            return self.conserve(wording.contradicted(contradictions))
        proposal = self.learner.propose()
        if self.known_id(proposal) == 0:
            return self.conserve(wording.PROPOSES_BASELINE)
        if self.check.spot_check_is_due(s):
            return self.conserve(wording.SPOT_CHECK)
        return self.mix(s, proposal)

    def conserve(self, reason: str, terms: Mapping[str, float] | None = None) -> tuple[Policy, Decision]:
        """An episode of the baseline, which keeps the condition whatever is known: a margin of 0 is proved."""
        return self.baseline.policy, self.decide("baseline", reason, 0, terms or {PROVED: 0.0, KEPT: 0.0})

    def decide(self, role: Role, reason: str, policy: int, terms: Mapping[str, float]) -> Decision:
        """A decision whose budget is the margin that is proved of this episode."""
        self._halfway = True
        return Decision(
            role, reason, -1, self.horizon * self.episodes, policy, self.horizon, sum(terms.values()), terms
        )

    def netted(self) -> Netted:
        """What the learner's set proves of policies, compared with the baseline."""
        known = self.baseline.values_counted(self.horizon)
        return Netted(self.learner.plausible(), self.baseline.policy, self.horizon, known)

    def compare(self, netted: Netted, policy: Policy) -> Compared:
        """A policy compared with the baseline."""
        return Compared(netted.compare(policy), netted.compare(policy, 1 - self.alpha))

    def forgiven(self, value: float) -> float:
        """What an episode may lose if the baseline's value of its start, counted from `low`, is this."""
        return self.alpha * max(value - self.zero, 0.0) + self.horizon * self.tolerance.per_step

    def margin(self, netted: Netted, compared: Compared, s: int) -> float:
        """At most how much more than it must an episode of a policy earns from s.

        For a baseline of value V it earns V + net and may lose α max(V - zero, 0), which is at least α (V - zero).
        """
        whole = float(compared.whole.net[0, s]) + self.forgiven(float(netted.low[0, s]))
        shared = float(compared.share.net[0, s]) - self.alpha * self.zero + self.horizon * self.tolerance.per_step
        return max(whole, shared)

    def learn(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None) -> None:
        """Learn from all episodes. What the baseline earned is compared with what was declared."""
        others = NOT_EXPLORED if self.decisions[-1].policy == 0 else all_explored(self.horizon)
        self.check.add(self.starts[-1], pairs, rewards, next_states, others)
        super().learn(pairs, rewards, next_states, noise)

    @exclusive
    def trust(self, knowledge: Knowledge | None) -> None:
        """Use this knowledge (or none) from now on, whatever was contradicted before."""
        self.learner.trust(knowledge, begun=self.h < self.horizon)

    def arguments(self) -> dict[str, Any]:
        """What it was built with."""
        own = {"baseline": self.baseline, "delta": self.delta, "condition": self.condition}
        return super().arguments() | own | self.tolerance.shows

    def _contents(self) -> dict[str, Any]:
        return super()._contents() | {"check": self.check.state_dict()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.check = self.check.restored(state["check"])


def largest_weight(safe: float, other: float) -> float:
    """The largest weight of a part with margin `other`, beside a part with margin `safe`, that leaves none below 0."""
    return 1.0 if other >= 0 else safe / (safe - other)
