"""CUCRL2 (the paper's Fig. `cucrl`): an average-reward learner that explores only what it can prove to afford."""

from typing import Any, Literal, Self

import numpy as np

from surefooted.agents import wording
from surefooted.agents.agent import Decision, Role
from surefooted.agents.average import AveragePlayer, Episode
from surefooted.agents.effort import Effort
from surefooted.agents.learner import AverageLearner
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.certificates.certificate import Certificate, Offer, Past, Question
from surefooted.certificates.paper import PaperCertificate
from surefooted.certificates.replay import ReplayCertificate
from surefooted.errors import InvalidInput
from surefooted.knowledge.knowledge import Knowledge
from surefooted.planning import Plan
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.space import Space

CertificateName = Literal["paper", "reevaluated", "segments", "induction"]
CERTIFICATES: tuple[CertificateName, ...] = ("paper", "reevaluated", "segments", "induction")


class CUCRL2(AveragePlayer[AverageLearner]):
    """Plays a learner's policy while a certificate proves that it can be afforded, and the baseline otherwise.

    If an observation contradicts the knowledge, it plays the baseline until `trust` says what to believe instead. On
    problems of many thousands of states, questions to the certificate and reviews of the past are rationed: see
    `surefooted.agents.effort`.

    Parameters
    ----------
    space : the states and their actions
    baseline : the policy in use today, with its gain and bias if they are known
    alpha : the share of the baseline's reward that may be lost, between 0 and 1
    delta : the probability with which the condition may fail (0.05)
    learner : what proposes policies; UCRL2's unless given
    certificate : "induction", "segments", "reevaluated" (the paper's experiments) or "paper" (its analysis)
    strict : keep a reserve for the way back to the baseline; without it (the paper), the condition can be violated
        while the baseline recovers
    affordable : explore for as many steps as the budget pays for, at least `minimum`; False (the paper): for all
        T_{k-1} + 1 steps or not at all
    patience : after a refusal, the share by which the run grows before the agent asks again; with 0 (the paper) it asks
        in every episode, and reviews the past before every refusal
    seed : of the random numbers that a randomised baseline needs
    options : those of UCRL2's learner: confidence, bounded, knowledge (see `Learner`)

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> known = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    >>> baseline = sf.Baseline(problem.baseline, known.gain, known.bias)
    >>> agent = sf.CUCRL2(problem.space, baseline=baseline, alpha=0.1)
    >>> run = sf.simulate(problem, agent, steps=500, seed=0)
    >>> sf.evaluate(run, problem, alpha=0.1).violations
    0

    """

    def __init__(
        self,
        space: Space,
        *,
        baseline: Baseline,
        alpha: float,
        delta: float | None = None,
        learner: AverageLearner | AveragePlayer[Any] | None = None,
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
        options |= {} if delta is None else {"delta": delta}
        held = learner.learner if isinstance(learner, AveragePlayer) else learner
        if held is not None and options:
            faults.append(f"{', '.join(options)}: a learner is given, so these options of UCRL2 have no effect")
        if not isinstance(held, AverageLearner | None):
            faults.append(f"the learner must be an AverageLearner or an agent that has one, not {type(held).__name__}")
        elif held is not None and held.space != space:
            faults.append(f"the learner is on {held.space}, the agent on {space}")
        if faults:
            raise InvalidInput("no such agent", faults)
        super().__init__(held or UCRL2Learner(space, **options), seed)
        self.baseline, self.alpha = baseline, alpha
        self.affordable, self.minimum, self.patience = affordable, minimum, patience
        self.certificate = _certificate(certificate, baseline, alpha, strict)
        self.policies.id_of(baseline.policy)  # policy 0
        self.effort = Effort(always=patience == 0)
        self.last_length = 0  # T_{k-1}
        self.trusted_at = 0  # the step at which `trust` was last called

    def trust(self, knowledge: Knowledge | None) -> None:
        """Use this knowledge (or none) from now on, whatever was contradicted before.

        Everything that was proved with what was declared before is forgotten, and the past is proved again.
        """
        self.learner.trust(knowledge)
        if self.begun:
            plausible = self.learner.plausible()
            self._record_episode(plausible)
            self.certificate.restart(plausible, self.past)
            self.effort.forget_reviews()
            self.trusted_at = self.t
            self._plan()

    def next_episode(self) -> Episode:
        """Steps 1 to 8 of Fig. `cucrl`."""
        plausible = self.learner.plausible()  # step 2
        self._record_episode(plausible)
        if self.contradictions:  # what was proved may be wrong: play safe until told otherwise
            return self._keep_to_baseline(wording.contradicted(self.contradictions), self._pause)
        if self.affordable and (rest := self.effort.rest(self.t)):
            return self._keep_to_baseline(wording.RESTS, rest)
        plan = self.learner.propose(plausible, self.t)  # step 3
        question = self._question(plausible, plan)
        offer = self._ask(question)  # step 4
        if not offer.enough and self._review_is_due():
            offer = self._review(question)
        return self._explore(plan, offer) if offer.enough else self._fall_back(offer, question)  # steps 5 to 8

    @property
    def past(self) -> Past:
        """What was played so far."""
        assert self.start is not None
        return Past(self.start, self.played, self.policies, self.t)

    @property
    def _pause(self) -> int:
        """For how many steps to play the baseline before asking again."""
        return max(1, int(self.patience * self.t))

    def _record_episode(self, plausible: Plausible) -> None:
        """Tell the certificate of the episode that has just ended."""
        if self.decisions:
            self.last_length = self.t - max(self.decisions[-1].t, self.trusted_at)
            if self.last_length:
                self.certificate.record(self.decisions[-1].policy, self.last_length, plausible)

    def _question(self, plausible: Plausible, plan: Plan) -> Question:
        """Whether the plan is safe: for T_{k-1} + 1 steps, or for how many of at most as many as were played."""
        if not self.affordable:
            most = least = self.last_length + 1
        else:
            least = self.minimum
            most = max(min(self.t, self.effort.longest_question(self.learner.counts)), least)
        return Question(plausible, plan.policy, self.past, least, most)

    def _ask(self, question: Question) -> Offer:
        """What the certificate offers."""
        before = self.certificate.sweeps
        offer = self.certificate.offer(question)
        self.effort.charge(self.certificate.sweeps - before, self.learner.counts)
        return offer

    def _review(self, question: Question) -> Offer:
        """What the certificate offers after a review."""
        before = self.certificate.sweeps
        offer = self.certificate.review(question)
        if not self.baseline.is_known:  # it is bounded again, too
            self.effort.charge_review(self.certificate.sweeps - before, self.learner.counts)
        return offer

    def _review_is_due(self) -> bool:
        return self.effort.review_is_due(self.t, self.explored, self.played, self.learner.counts)

    def _explore(self, plan: Plan, offer: Offer) -> Episode:
        """Play the plan for as long as was offered."""
        policy = self.policies.id_of(plan.policy)
        role: Role = "optimistic" if policy else "baseline"
        terms = dict(offer.terms)
        decision = Decision(role, wording.affords(offer), -1, self.t, policy, offer.steps, offer.budget, terms)
        return Episode(plan.policy, decision, offer.steps)

    def _fall_back(self, offer: Offer, question: Question) -> Episode:
        """Play the baseline, for as long as the plan would have been or until it is time to ask again."""
        steps, reason = self._pause if self.affordable else question.most, wording.cannot_afford(offer)
        decision = Decision("baseline", reason, -1, self.t, 0, steps, offer.budget, dict(offer.terms))
        return Episode(self.baseline.policy, decision, steps, doubling=not self.affordable)

    def _keep_to_baseline(self, reason: str, steps: int) -> Episode:
        """Play the baseline without asking anything."""
        decision = Decision("baseline", reason, -1, self.t, 0, steps)
        return Episode(self.baseline.policy, decision, steps, doubling=False)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue exactly; rebuild the agent with the same arguments and `load_state_dict`."""
        return self._player_state() | {
            "certificate": self.certificate.state_dict(),
            "effort": self.effort.state_dict(),
            "last_length": self.last_length,
            "trusted_at": self.trusted_at,
        }

    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Continue where `state_dict` was taken."""
        self._restore_player(state)
        self.certificate = self.certificate.restored(state["certificate"])
        self.effort = Effort(**state["effort"])
        self.last_length, self.trusted_at = state["last_length"], state["trusted_at"]
        return self


def _certificate(name: CertificateName, baseline: Baseline, alpha: float, strict: bool) -> Certificate:
    """The certificate of that name."""
    if name in ("paper", "reevaluated"):
        return PaperCertificate(baseline, alpha, name == "reevaluated", strict)
    return ReplayCertificate(baseline, alpha, name == "induction", strict)
