"""CUCB-VI (the paper's Fig. `cucbvi`): any learner of episodes, exploring only what it can prove to afford."""

from typing import Any, Literal, Self

import numpy as np

from surefooted.agents.agent import Decision, Role
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.learner import EpisodicLearner, Learner
from surefooted.agents.ucbvi import UCBVI
from surefooted.arrays import is_whole
from surefooted.certificates.episodes import EpisodeLedger
from surefooted.errors import InvalidInput
from surefooted.knowledge.belief import Belief
from surefooted.knowledge.knowledge import Knowledge
from surefooted.planning import Side
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints, Space

SIDES: tuple[Side, Side] = ("pessimistic", "optimistic")
GREW = 0.1  # a review of the past is due when the episodes explored have grown by this share since the last one
CALM = 5  # or all episodes by so many times that: the baseline teaches little about what was explored


class CUCBVI(EpisodicPlayer):
    """Plays a learner's policy for an episode if the condition is proved to hold after it, and the baseline otherwise.

    `learner` is UCBVI unless given; `delta` (0.05) and `options` go to UCBVI (bonus, confidence, episodes,
    stage_dependent, bounded, knowledge).
    Choices, the paper's in brackets:

    - `learn_from`: "all" episodes, or the "optimistic" ones only ("optimistic");
    - `reevaluate`: bound what past policies earned anew with today's set, and keep the best bound so far; False: as it
      was bounded when it was played (False);
    - `patience`: how much more must have been explored since the last review of the past, in proportion (or five times
      as much more played), before a refusal is preceded by another; with 0 every refusal is.
    """

    def __init__(
        self,
        space: Space,
        horizon: int,
        *,
        baseline: Baseline,
        alpha: float,
        delta: float | None = None,
        learner: Learner | None = None,
        learn_from: Literal["all", "optimistic"] = "all",
        reevaluate: bool = True,
        patience: float = GREW,
        seed: int | np.random.Generator = 0,
        **options: Any,
    ) -> None:
        faults = []
        if not is_whole(horizon, 1):
            raise InvalidInput("no such agent", [f"horizon {horizon} must be a positive whole number"])
        if not 0 < alpha < 1:
            faults.append(f"alpha {alpha} must lie strictly between 0 and 1")
        if baseline.policy.space != space:
            faults.append(f"the baseline is on {baseline.policy.space}, the agent on {space}")
        if baseline.policy.horizon not in (None, horizon):
            faults.append(f"the baseline has {baseline.policy.horizon} decision rules, the horizon is {horizon}")
        if baseline.gain is not None:
            faults.append("the baseline has a gain: over a finite horizon give its `values`, or neither")
        if baseline.values is not None and baseline.values.ndim == 2 and len(baseline.values) != horizon + 1:
            faults.append(f"the baseline's values have {len(baseline.values)} stages, not [S] or [{horizon + 1}, S]")
        if baseline.values is not None and np.any(baseline.values > horizon * space.r_max * (1 + 1e-9)):
            faults.append(f"the baseline's values exceed {horizon} x r_max: no policy could have them")
        if learn_from not in ("all", "optimistic"):
            faults.append(f"learn_from {learn_from!r} must be 'all' or 'optimistic'")
        if learn_from == "optimistic" and baseline.values is None:
            faults.append("learn_from='optimistic' with an unknown baseline: nothing would ever be learnt of it")
        if not 0 <= patience < np.inf:
            faults.append(f"patience {patience} must be finite and not negative")
        if learner is not None and delta is not None:
            options = {"delta": delta} | options
        if learner is not None and options:
            faults.append(f"{', '.join(options)}: an own learner is given, so these options of UCBVI have no effect")
        if learner is not None and (learner.space != space or learner.horizon != horizon):
            faults.append(f"the learner is on {learner.space} with horizon {learner.horizon}")
        if faults:
            raise InvalidInput("no such agent", faults)
        self.learner = learner or UCBVI(space, horizon, delta=0.05 if delta is None else delta, **options)
        super().__init__(space, horizon, self.learner.bounded, seed)
        self.baseline, self.alpha, self.learn_from = baseline, alpha, learn_from
        self.reevaluate, self.patience = reevaluate, patience
        self.ledger = EpisodeLedger(space.n_states, alpha, baseline.start_values, reevaluate)
        self.policy_id(baseline.policy)  # policy 0
        self.reviewed = (0, 0)  # episodes played and explored at the last review

    @property
    def stage_dependent(self) -> bool:
        """Whether its learner is for dynamics that change with the stage; one that does not say is taken to be."""
        return bool(getattr(self.learner, "stage_dependent", True))

    @property
    def belief(self) -> Belief | None:  # type: ignore[override]
        """What its learner believes."""
        return getattr(self.learner, "belief", None)

    def trust(self, knowledge: Knowledge | None) -> None:
        """Use this knowledge (or none) from now on, whatever was contradicted before.

        Everything that was proved with what was declared before is forgotten, and the past is bounded anew.
        """
        if not isinstance(self.learner, EpisodicLearner):
            raise InvalidInput("this knowledge cannot be used", ["an own learner is given: tell it what to trust"])
        self.learner.trust(knowledge, begun=self.h < self.horizon)
        ledger = EpisodeLedger(self.space.n_states, self.alpha, self.baseline.start_values, self.reevaluate)
        if not ledger.is_known:
            low, high = (self.learner.bound([self.baseline.policy], side)[0] for side in SIDES)
            ledger.tighten_baseline(low, high)
        ids = self.ledger.policies
        place = {q: i for i, q in enumerate(ids)}
        bounds = self.learner.bound([self.policies[q] for q in ids], "pessimistic") if ids else np.zeros((0, 0))
        for s, decision in zip(self.starts, self.decisions, strict=True):
            if decision.policy in place:
                ledger.explored(decision.policy, s, float(bounds[place[decision.policy], s]))
            else:
                ledger.conserved(s)
        self.ledger, self.reviewed = ledger, (0, 0)

    def next_episode(self, s: int) -> tuple[Policy, Decision]:
        """Steps 1 to 3 of Fig. `cucbvi`."""
        if self.belief is not None and self.belief.knowledge is not None:
            self.belief.plausible()  # where data and declaration no longer agree is noticed here
        if self.contradictions:
            self.ledger.conserved(s)
            decision = Decision("baseline", self.distrust, -1, self.horizon * self.episodes, 0, self.horizon)
            return self.baseline.policy, decision
        policy, ledger = self.learner.propose(), self.ledger  # step 1
        known = self.known_id(policy)
        if not ledger.is_known:
            low, high = (self.learner.bound([self.baseline.policy], side)[0] for side in SIDES)
            ledger.tighten_baseline(low, high)
        if known == 0:
            return self._play_baseline(s, "Plays the baseline: the learner proposes it too.")
        bound = float(self.learner.bound([policy], "pessimistic")[0, s])  # step 2
        bound = bound if known is None else ledger.tighten(known, s, bound)
        after = ledger.margin_after(s, bound)
        if after < 0 and self._review_is_due():
            self._review()
            bound = bound if known is None else ledger.tighten(known, s, bound)
            after = ledger.margin_after(s, bound)
        if after < 0:  # step 3
            reason = f"Plays the baseline: exploring is proved to earn {bound:.3g} only, {-after:.3g} too little."
            return self._play_baseline(s, reason)
        reason = f"Explores: it is proved to earn {bound:.3g}, and {after:.3g} stays saved up."
        decision = self._decision("optimistic", reason, self.policy_id(policy))
        ledger.explored(decision.policy, s, bound)
        return policy, decision

    def learn(self, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        """Step 4: add the episode to the history."""
        if self.learn_from == "all" or self.decisions[-1].role == "optimistic":
            if isinstance(self.learner, EpisodicLearner):
                self.learner.noise = self.noise
            self.learner.learn(pairs, rewards, next_states)

    def _play_baseline(self, s: int, reason: str) -> tuple[Policy, Decision]:
        decision = self._decision("baseline", reason, 0)
        self.ledger.conserved(s)
        return self.baseline.policy, decision

    def _decision(self, role: Role, reason: str, policy: int) -> Decision:
        """A decision with the margin proved before its episode."""
        terms, t = self.ledger.terms, self.horizon * self.episodes
        return Decision(role, reason, -1, t, policy, self.horizon, sum(terms.values()), terms)

    def _review_is_due(self) -> bool:
        """Whether enough has happened since the last review to bound the past anew; then it is taken as done."""
        played, explored = self.episodes, self.ledger.n_explored
        calm = played <= (1 + CALM * self.patience) * self.reviewed[0]
        if calm and explored <= (1 + self.patience) * self.reviewed[1]:
            return False
        if not self.reevaluate or not explored:
            return False
        self.reviewed = (played, explored)
        return True

    def _review(self) -> None:
        """Bound what all policies explored so far earn, with today's set."""
        ids = self.ledger.policies
        self.ledger.review(ids, self.learner.bound([self.policies[i] for i in ids], "pessimistic"))

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue exactly; rebuild the agent with the same arguments and `load_state_dict`."""
        own = {"learner": self.learner.state_dict(), "ledger": self.ledger.state_dict(), "reviewed": self.reviewed}
        return self._player_state() | own

    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Continue where `state_dict` was taken."""
        self._restore_player(state)
        self.learner.load_state_dict(state["learner"])
        self.ledger.load_state_dict(state["ledger"])
        self.reviewed = state["reviewed"]
        return self
