"""CUCRL2 (the paper's Fig. `cucrl`): an average-reward learner that explores only what it can prove to afford.

It keeps one of two conditions. "replay" is the paper's: if everything were played again from the start, the average
reward would be at least (1 - α) of the baseline's. "decisions" adds up what each decision is worth compared with the
baseline's in the same state; `agents.step_by_step` plays it. docs/conditions.md compares them.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from surefooted.agents import wording
from surefooted.agents.agent import Decision, Role
from surefooted.agents.average import AveragePlayer, Episode
from surefooted.agents.effort import Effort
from surefooted.agents.learner import AverageLearner
from surefooted.agents.step_by_step import StepByStep
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.certificates.account import Account
from surefooted.certificates.certificate import Certificate, Offer, Past, Question
from surefooted.certificates.paper import PaperCertificate
from surefooted.certificates.replay import ReplayCertificate
from surefooted.certificates.shares import share
from surefooted.certificates.tolerance import Checkpoints, Tolerance
from surefooted.errors import InvalidInput
from surefooted.knowledge.baseline_check import BaselineCheck
from surefooted.knowledge.knowledge import Knowledge
from surefooted.planning import Plan
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline, baseline_argument
from surefooted.tables.space import Space

CertificateName = Literal["paper", "reevaluated", "segments", "induction"]
CERTIFICATES: tuple[CertificateName, ...] = ("paper", "reevaluated", "segments", "induction")
Condition = Literal["replay", "decisions"]
CONDITIONS: tuple[Condition, ...] = ("replay", "decisions")


class CUCRL2(StepByStep[AverageLearner]):
    """Plays a learner's policy while it is proved that this can be afforded, and the baseline otherwise.

    If an observation contradicts the knowledge, it plays the baseline until `trust` says what to believe instead. If
    the baseline does not earn what was declared of it, it plays the baseline for ever (`knowledge.baseline_check`). On
    problems of many thousands of states, questions to the certificate and reviews of the past are rationed: see
    `surefooted.agents.effort`.

    Parameters
    ----------
    space : the states and their actions
    baseline : the policy in use today, with its gain and bias if they are known
    alpha : the share of what the baseline earns that may be lost, between 0 and 1; 0 with an allowance or a tolerance
    delta : the probability with which the condition may fail (0.05, or the learner's); see `certificates.shares`
    learner : what proposes policies; UCRL2's unless given
    condition : "replay" (the paper's) or "decisions", which explores far sooner and needs gain and bias of the baseline
    strict : keep a reserve for the way back to the baseline; without it (the paper), the condition can be violated
        while the baseline recovers
    tolerance, allowance : an amount that may be lost in each step, and one in all, beside alpha
    floor : the level that earnings are measured from, for alpha; 0 unless given
    checkpoints : keep the condition after every so many steps, or after those of a list and each step after the last;
        None: after every step
    certificate : for "replay": "induction", "segments", "reevaluated" (the paper's experiments) or "paper" (its
        analysis); so are `affordable`, `minimum` and `patience`
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
    >>> agent = sf.CUCRL2(problem.space, baseline=baseline, alpha=0.1, condition="decisions")
    >>> run = sf.simulate(problem, agent, steps=500, seed=0)
    >>> sf.evaluate(run, problem, alpha=0.1).decisions.violations
    0

    """

    check: BaselineCheck

    def __init__(
        self,
        space: Space,
        *,
        baseline: Baseline,
        alpha: float,
        delta: float | None = None,
        learner: AverageLearner | AveragePlayer[Any] | None = None,
        condition: Condition = "replay",
        strict: bool = True,
        tolerance: float = 0.0,
        allowance: float = 0.0,
        floor: float | None = None,
        checkpoints: Checkpoints | None = None,
        certificate: CertificateName = "induction",
        affordable: bool = True,
        minimum: int = 10,
        patience: float = 0.01,
        seed: int | np.random.Generator = 0,
        **options: Any,
    ) -> None:
        if faults := baseline_argument(baseline):
            raise InvalidInput("no such agent", faults)
        amounts = {"tolerance": tolerance, "allowance": allowance, "floor": floor, "checkpoints": checkpoints}
        may_lose = Tolerance.parse(alpha, faults, **amounts)
        faults += may_lose.gain_faults(baseline.gain, space.money) if not faults else []
        faults += _condition_faults(condition, baseline)
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
        held = learner.learner if isinstance(learner, AveragePlayer) else learner
        if held is not None and options:
            faults.append(f"{', '.join(options)}: a learner is given, so these options of UCRL2 have no effect")
        if not isinstance(held, AverageLearner | None):
            faults.append(f"the learner must be an AverageLearner or an agent that has one, not {type(held).__name__}")
            held = None
        elif held is not None and held.space != space:
            faults.append(f"the learner is on {held.space}, the agent on {space}")
        by_account, has_share = condition == "decisions", held is None or delta is not None
        knowledge = options.get("knowledge") if held is None else held.belief.knowledge
        by_set = not by_account or (knowledge is not None and has_share)
        try:
            self.shares = share(delta, None if held is None else held.delta, by_set, by_account)
        except InvalidInput as error:
            faults += error.faults
        if faults:
            raise InvalidInput("no such agent", faults)
        held = held or UCRL2Learner(space, delta=self.shares.of_learner, **options)
        account = None
        if by_account:
            account = Account(space, baseline, may_lose, self.shares.of_outcomes, strict)
        super().__init__(held, seed, account)
        self.baseline, self.tolerance, self.alpha, self.condition = baseline, may_lose, may_lose.alpha, condition
        self.affordable, self.minimum, self.patience = affordable, minimum, patience
        self.proves = may_lose.shows | {"certificate": certificate, "strict": strict, "delta": self.shares.total}
        self.certificate = None if by_account else _certificate(certificate, baseline, may_lose, strict)
        self.policies.id_of(baseline.policy)  # policy 0
        self.check = BaselineCheck(baseline, self.shares.total, bounded=held.bounded)
        self.effort = Effort(always=patience == 0)
        self.last_length = 0  # T_{k-1}
        self.trusted_at = 0  # the step at which `trust` was last called
        if baseline.history is not None:
            baseline.history.into(self, accidents=baseline.accidents)

    def trust(self, knowledge: Knowledge | None) -> None:
        """Use this knowledge (or none) from now on, whatever was contradicted before.

        Everything that was proved with what was declared before is forgotten, and the past is proved again.
        """
        self.learner.trust(knowledge)
        if self.begun:
            plausible = self.learner.plausible()
            self._record_episode(plausible)
            if self.certificate is not None:
                self.certificate.restart(plausible, self.past)
            if self.account is not None:
                self.account.forget_sets()
            self.effort.forget_reviews()
            self.trusted_at = self.t
            self._plan()

    def next_episode(self) -> Episode:
        """Steps 1 to 8 of Fig. `cucrl`; with an account, steps 4 and 5 come before every step."""
        learner = self.learner
        contradictions = learner.compare() + self.check.compare(learner.belief.from_data, learner.counts.total)
        plausible = learner.plausible()  # step 2
        self._record_episode(plausible)
        if contradictions:  # what was proved may be wrong: play safe until told otherwise
            return self._keep_to_baseline(wording.contradicted(contradictions), self._pause)
        if self.check.spot_check_is_due():
            return self._keep_to_baseline(wording.SPOT_CHECK, min(self._pause, math.isqrt(self.t)))
        if self.certificate is not None and self.affordable and (rest := self.effort.rest(self.t)):
            return self._keep_to_baseline(wording.RESTS, rest)
        plan = learner.propose(plausible, self.t)  # step 3
        if self.account is not None:
            if self.shares.of_set:
                self.account.review(plausible)
            return self.step_by_step(plan)
        return self._by_certificate(plausible, plan)

    def _by_certificate(self, plausible: Plausible, plan: Plan) -> Episode:
        """Steps 4 to 8 of Fig. `cucrl`: play the plan for as long as it is proved safe, or the baseline."""
        assert self.certificate is not None
        question = self._question(plausible, plan)
        offer = self.certificate.offer(question)  # step 4
        self.effort.charge(offer.sweeps, self.learner.counts)
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
                first, policy = self.t - self.last_length, self.decisions[-1].policy
                if self.certificate is not None:
                    self.certificate.record(policy, first, self.last_length, plausible)

    def _question(self, plausible: Plausible, plan: Plan) -> Question:
        """Whether the plan is safe: for T_{k-1} + 1 steps, or for how many of at most as many as were played."""
        if not self.affordable:
            most = least = self.last_length + 1
        else:
            least = self.minimum
            most = max(min(self.t, self.effort.longest_question(self.learner.counts)), least)
        return Question(plausible, plan.policy, self.past, least, most)

    def _review(self, question: Question) -> Offer:
        """What the certificate offers after a review."""
        assert self.certificate is not None
        offer = self.certificate.review(question)
        if not self.baseline.is_known:  # it is bounded again, too
            self.effort.charge_review(offer.sweeps, self.learner.counts)
        return offer

    def _review_is_due(self) -> bool:
        return self.effort.review_is_due(self.t, self.explored, self.played, self.learner.counts)

    def _explore(self, plan: Plan, offer: Offer) -> Episode:
        """Play the plan for as long as was offered."""
        policy = self.policies.id_of(plan.policy)
        role: Role = "optimistic" if policy else "baseline"
        terms = dict(offer.terms)
        decision = Decision(
            role, wording.affords(offer, self.space), -1, self.t, policy, offer.steps, offer.budget, terms
        )
        return Episode(plan.policy, decision, offer.steps)

    def _fall_back(self, offer: Offer, question: Question) -> Episode:
        """Play the baseline, for as long as the plan would have been or until it is time to ask again."""
        steps, reason = self._pause if self.affordable else question.most, wording.cannot_afford(offer, self.space)
        decision = Decision("baseline", reason, -1, self.t, 0, steps, offer.budget, dict(offer.terms))
        return Episode(self.baseline.policy, decision, steps, doubling=not self.affordable)

    def _keep_to_baseline(self, reason: str, steps: int) -> Episode:
        """Play the baseline without asking anything."""
        decision = Decision("baseline", reason, -1, self.t, 0, steps)
        return Episode(self.baseline.policy, decision, steps, doubling=False)

    def arguments(self) -> dict[str, Any]:
        """What it was built with."""
        names = ("baseline", "condition", "affordable", "minimum", "patience")
        return super().arguments() | {name: getattr(self, name) for name in names} | self.proves

    def _contents(self) -> dict[str, Any]:
        return super()._contents() | {
            "certificate": None if self.certificate is None else self.certificate.state_dict(),
            "check": self.check.state_dict(),
            "effort": self.effort.state_dict(),
            "last_length": self.last_length,
            "trusted_at": self.trusted_at,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        if self.certificate is not None:
            self.certificate = self.certificate.restored(state["certificate"])
        self.check = self.check.restored(state["check"])
        self.effort = Effort(**state["effort"])
        self.last_length, self.trusted_at = state["last_length"], state["trusted_at"]


def _condition_faults(condition: str, baseline: Baseline) -> list[str]:
    """Why a condition cannot be kept."""
    if condition not in CONDITIONS:
        return [f"there is no condition {condition!r}; there are {' and '.join(CONDITIONS)}"]
    if condition == "decisions" and baseline.gain is None:
        what = "it compares each decision with the baseline's, by the baseline's gain and bias: declare both"
        return [f'condition="decisions" needs more than the policy: {what}, or choose condition="replay"']
    return []


def _certificate(name: CertificateName, baseline: Baseline, tolerance: Tolerance, strict: bool) -> Certificate:
    """The certificate of that name."""
    if name in ("paper", "reevaluated"):
        return PaperCertificate(baseline, tolerance, name == "reevaluated", strict)
    return ReplayCertificate(baseline, tolerance, name == "induction", strict)
