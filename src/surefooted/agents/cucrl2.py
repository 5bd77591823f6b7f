"""CUCRL2 (the paper's Fig. `cucrl`): an average-reward learner that explores only what it can prove to afford."""

from math import log2
from typing import Any, Literal, Protocol, Self

import numpy as np

from surefooted.agents.agent import Decision, Role
from surefooted.agents.player import UNLIMITED, Episode, Player, restored
from surefooted.agents.ucrl2 import UCRL2
from surefooted.certificates.paper import PaperCertificate
from surefooted.certificates.replay import SWEEPS, Ledger, Offer, Past
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.knowledge.belief import Belief
from surefooted.knowledge.knowledge import Knowledge
from surefooted.planning import Plan
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.space import Ints, Space

CertificateName = Literal["paper", "reevaluated", "segments", "induction"]
EXPLORED_MORE = 0.02  # a review is due when the steps explored have grown by this share since the last one
PLAYED_MORE = 0.1  # or all steps by this share
WORK = 100_000  # transitions that reviews may look at for each step played: they cost no more than in proportion to T
THINKING = 20_000  # and those that asking a certificate may, for each step played
GRACE = 50_000  # steps, as if played before the first, so that nothing is spared early on
LONGEST = 2e8  # transitions that asking once may look at

CERTIFICATES: tuple[CertificateName, ...] = ("paper", "reevaluated", "segments", "induction")


class Learner(Protocol):
    """What CUCRL2 needs of a learner: counts that it fills, a set made of them, and a policy to propose."""

    counts: Counts

    def plausible(self) -> Plausible:
        """The set of plausible MDPs now."""

    def propose(self, plausible: Plausible, t: int) -> Plan:
        """The policy to explore with after t steps."""


class CUCRL2(Player):
    """Plays a learner's policy while a certificate proves that it can be afforded, and the baseline otherwise.

    `learner` is UCRL2 unless given; `delta` (0.05) and `options` go to UCRL2 (confidence, bounded, knowledge). If an
    observation contradicts the knowledge, it plays the baseline until `trust` says what to believe instead. Choices,
    the paper's in brackets:

    - `certificate`: "induction", "segments", "reevaluated" (the experiments), "paper" (the analysis);
    - `strict`: keep a reserve for the way back to the baseline (False), without which the condition can be violated
      while the baseline recovers;
    - `affordable`: explore for as many steps as the budget pays for, at least `minimum`; False: for all T_{k-1} + 1 or
      not at all (False);
    - `patience`: after a refusal, how much longer the run becomes, in proportion, before the question is asked again;
      with 0, every refusal is preceded by a review of the past (0), otherwise only when one is due.

    On problems of many thousands of states, asking and reviewing take time in proportion to the steps played: the
    baseline is played meanwhile, and not every refusal is preceded by a review.
    """

    def __init__(
        self,
        space: Space,
        *,
        baseline: Baseline,
        alpha: float,
        delta: float | None = None,
        learner: Learner | None = None,
        certificate: CertificateName = "induction",
        strict: bool = True,
        affordable: bool = True,
        minimum: int = 10,
        patience: float = 0.01,
        seed: int | np.random.Generator = 0,
        **options: Any,
    ) -> None:
        faults = []
        if not 0 < alpha < 1:
            faults.append(f"alpha {alpha} must lie strictly between 0 and 1")
        if baseline.policy.space != space:
            faults.append(f"the baseline is on {baseline.policy.space}, the agent on {space}")
        if baseline.policy.horizon is not None:
            faults.append(f"the baseline has {baseline.policy.horizon} decision rules: an average-reward one has one")
        if baseline.values is not None:
            faults.append("the baseline has values: for average reward give its gain and bias, or neither")
        if certificate not in CERTIFICATES:
            faults.append(f"there is no certificate {certificate!r}; there are {', '.join(CERTIFICATES)}")
        if not minimum >= 1:
            faults.append(f"minimum {minimum} must be at least 1")
        if not 0 <= patience < np.inf:
            faults.append(f"patience {patience} must be finite and not negative")
        if learner is not None and delta is not None:
            options = {"delta": delta} | options
        if learner is not None and options:
            faults.append(f"{', '.join(options)}: an own learner is given, so these options of UCRL2 have no effect")
        if faults:
            raise InvalidInput("no such agent", faults)
        self.learner = learner or UCRL2(space, delta=0.05 if delta is None else delta, **options)
        super().__init__(space, self.learner.counts, seed)
        self.baseline, self.alpha = baseline, alpha
        self.affordable, self.minimum, self.patience = affordable, minimum, patience
        self.certificate: Ledger | PaperCertificate
        if certificate in ("paper", "reevaluated"):
            self.certificate = PaperCertificate(baseline, alpha, certificate == "reevaluated", strict)
        else:
            self.certificate = Ledger(baseline, alpha, certificate == "induction", strict)
        self.policy_id(baseline.policy)  # policy 0
        self.reviewed = (0, 0)  # steps played and explored at the last review
        self.review_work = 0.0  # transitions looked at by all reviews, at most
        self.thought = 0.0  # and by all questions to the certificate
        self.last_length = 0  # T_{k-1}
        self.trusted_at = 0  # the step at which `trust` was last called
        self._added_up = (0, 0)  # segments whose sweeps are added up, and these

    @property
    def belief(self) -> Belief | None:  # type: ignore[override]
        """What its learner believes."""
        return getattr(self.learner, "belief", None)

    def trust(self, knowledge: Knowledge | None) -> None:
        """Use this knowledge (or none) from now on, whatever was contradicted before.

        Everything that was proved with what was declared before is forgotten, and the past is proved anew.
        """
        if not isinstance(self.learner, UCRL2):
            raise InvalidInput("this knowledge cannot be used", ["an own learner is given: tell it what to trust"])
        self.learner.trust(knowledge)
        if self.start is not None:
            length = self.t - self.decisions[-1].t
            if isinstance(self.certificate, PaperCertificate) and length:  # so that it is bounded anew with the others
                self.certificate.record(self.decisions[-1].policy, length, self.learner.plausible())
            past = Past(self.start, self.played, self.policies, self.t)
            self.certificate.restart(self.learner.plausible(), past)
            self.reviewed, self.trusted_at = (0, 0), self.t
            self._plan()

    def next_episode(self) -> Episode:
        """Steps 1 to 8 of Fig. `cucrl`."""
        assert self.start is not None
        plausible = self.learner.plausible()  # step 2
        if self.decisions:
            self.last_length = self.t - max(self.decisions[-1].t, self.trusted_at)
            if isinstance(self.certificate, PaperCertificate) and self.last_length:
                self.certificate.record(self.decisions[-1].policy, self.last_length, plausible)
        if self.contradictions:  # with them, perhaps what was proved is wrong: play safe until told otherwise
            return self._keep_to_baseline(self.distrust, max(1, int(self.patience * self.t)))
        if self.affordable and self.thought > THINKING * (self.t + GRACE):
            return self._rest()
        plan = self.learner.propose(plausible, self.t)  # step 3
        past = Past(self.start, self.played, self.policies, self.t)
        row = 1 + self.counts.n_transitions / self.space.n_pairs
        sweep = self.space.n_states * (row + log2(self.space.n_states))  # for which states are put in order
        most = max(min(self.t, int(LONGEST / sweep)), self.minimum) if self.affordable else self.last_length + 1
        least = self.minimum if self.affordable else most
        question = (plausible, plan.policy, past, most, not self.affordable)
        before = self.certificate.sweeps
        offer = self.certificate.offer(*question)  # step 4
        self.thought += (self.certificate.sweeps - before) * sweep
        if offer.steps < least and self._review_is_due():
            offer = self.certificate.review(*question)
        doubling = self.doubling()  # steps 1 and 7: ν_k = 0, played while ν_k < N_k^+
        if offer.steps >= least:  # step 5
            return self._explore(plan, doubling, offer)
        if not self.affordable:
            return self._fall_back(doubling, most, offer)
        wait = max(1, int(self.patience * self.t))
        return self._fall_back(np.full(self.space.n_pairs, UNLIMITED), wait, offer)

    def _review_is_due(self) -> bool:
        """Whether enough has happened since the last review to prove the past anew; then it is taken as done."""
        explored = self.explored
        played_then, explored_then = self.reviewed
        due = self.patience == 0 or self.t >= (1 + PLAYED_MORE) * played_then
        if not (due or explored >= (1 + EXPLORED_MORE) * explored_then + 1):
            return False
        row = 1 + self.counts.n_transitions / self.space.n_pairs
        work = self.review_work + self._sweeps() * self.space.n_states * row
        if work > WORK * self.t:
            return False
        self.reviewed, self.review_work = (self.t, explored), work
        return True

    def _sweeps(self) -> int:
        """Those of a review, at most: of all segments. Those before the last stay, and are added up once."""
        done, total = self._added_up
        total += sum(min(length, SWEEPS) for _, length in self.played[done:-1])
        self._added_up = (max(len(self.played) - 1, 0), total)
        return total + sum(min(length, SWEEPS) for _, length in self.played[-1:])

    def _rest(self) -> Episode:
        """Play the baseline, which is always safe, until enough steps have been played to pay for the next question."""
        steps = max(1, int(np.ceil(self.thought / THINKING)) - GRACE - self.t)
        reason = "Plays the baseline: on so large a problem, whether exploring is safe is not asked at every step."
        return self._keep_to_baseline(reason, steps)

    def _keep_to_baseline(self, reason: str, steps: int) -> Episode:
        """So many steps of the baseline, without asking anything."""
        decision = Decision("baseline", reason, -1, self.t, 0, steps)
        return Episode(self.baseline.policy, decision, np.full(self.space.n_pairs, UNLIMITED), steps)

    def _explore(self, plan: Plan, allowed: Ints, offer: Offer) -> Episode:
        steps = f"{offer.steps} step" + "s" * (offer.steps > 1)
        reason = f"Explores for at most {steps}, which could cost {offer.cost:.1f}; {offer.budget:.1f} saved up."
        policy = self.policy_id(plan.policy)
        role: Role = "optimistic" if policy else "baseline"
        decision = Decision(role, reason, -1, self.t, policy, offer.steps, offer.budget, dict(offer.terms))
        return Episode(plan.policy, decision, allowed, offer.steps)

    def _fall_back(self, allowed: Ints, steps: int, offer: Offer) -> Episode:
        if offer.budget < 0:
            missing = "the baseline itself is not known well enough yet"
            if np.isfinite(offer.budget):
                missing = f"{-offer.budget:.1f} must be saved up before anything can be explored"
            reason = f"Plays the baseline: {missing}."
        else:
            risk = f"{offer.asked} step" + "s" * (offer.asked > 1)
            reason = (
                f"Plays the baseline: exploring {risk} could cost {offer.too_much:.1f}, {offer.budget:.1f} saved up."
            )
        decision = Decision("baseline", reason, -1, self.t, 0, steps, offer.budget, dict(offer.terms))
        return Episode(self.baseline.policy, decision, allowed, steps)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue exactly; rebuild the agent with the same arguments and `load_state_dict`."""
        own = {"certificate": self.certificate.state_dict(), "reviewed": self.reviewed, "last_length": self.last_length}
        own |= {"review_work": self.review_work, "thought": self.thought}
        own["belief"] = None if self.belief is None else self.belief.state_dict()
        return self._player_state() | own

    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Continue where `state_dict` was taken."""
        self._restore_player(state)
        self._added_up = (0, 0)
        self.certificate.load_state_dict(state["certificate"])
        self.reviewed, self.last_length = state["reviewed"], state["last_length"]
        self.review_work, self.thought = state["review_work"], state["thought"]
        if isinstance(self.learner, UCRL2) and state["belief"] is not None:
            self.learner.belief = restored(self.learner.belief, state["belief"])
        return self
