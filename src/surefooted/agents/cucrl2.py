"""CUCRL2 (the paper's Fig. `cucrl`): an average-reward learner that explores only what it can prove to afford.

It keeps one of two conditions. "replay" is the paper's: if everything were played again from the start, the average
reward would be at least (1 - α) of the baseline's. "decisions" adds up what each decision is worth compared with the
baseline's in the same state; `agents.step_by_step` plays it. docs/conditions.md compares them.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from surefooted.agents import wording
from surefooted.agents.adopted import AdoptedAgent
from surefooted.agents.agent import Agent, Decision, Role
from surefooted.agents.average import AveragePlayer, Episode
from surefooted.agents.average_settings import CertificateName, effort_faults, new_account, new_certificate, settle
from surefooted.agents.effort import Effort
from surefooted.agents.episode_settings import Condition
from surefooted.agents.in_use import exclusive
from surefooted.agents.learner import AverageLearner
from surefooted.agents.step_by_step import StepByStep
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.certificates.account import Account
from surefooted.certificates.anchors import Anchors
from surefooted.certificates.certificate import Certificate, Offer, Past, Question, bookmark
from surefooted.certificates.tolerance import Checkpoints, Tolerance
from surefooted.certificates.unknown import UnknownAccount
from surefooted.errors import InvalidInput, argument_faults
from surefooted.knowledge.baseline_check import BaselineCheck
from surefooted.knowledge.knowledge import Knowledge
from surefooted.planning import Plan
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline, baseline_argument
from surefooted.tables.space import Floats, Ints, Space, need_space


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
    learner : what proposes policies; UCRL2's unless given. With condition="decisions" it may be any agent that has
        `begin`, `act` and `observe` (`agents.adopted`)
    condition : "replay" (the paper's) or "decisions", which explores far sooner and needs more of the baseline: its
        gain and bias, or its span, or knowledge that proves that it keeps returning to one state
    strict : keep a reserve for the way back to the baseline; without it (the paper), the condition can be violated
        while the baseline recovers
    tolerance, allowance : an amount that may be lost in each step, and one in all, beside alpha
    floor : the level that earnings are measured from, for alpha; 0 unless given
    checkpoints : keep the condition after every so many steps, or after those of a list and each step after the last;
        None: after every step
    certificate : for "replay": "induction", "segments", "reevaluated" (the paper's experiments) or "paper" (its
        analysis); so are `anchored`, `affordable` and `minimum`
    anchored : for "induction" and "segments" with a known baseline and a valid set: bound what explored policies earn
        by the baseline's bias as well (`certificates.anchors`). A given learner leaves bounds from data a share of δ
        only if `delta` is given, too
    affordable : explore for as many steps as the budget pays for, at least `minimum`; False (the paper): for all
        T_{k-1} + 1 steps or not at all
    patience : after a refusal, the share by which the run grows before the agent asks again. For "replay" it is 0.01;
        with 0 (the paper) the agent asks in every episode, and reviews the past before every refusal. For "decisions"
        it is 0; a larger one, such as 0.1, saves up for longer stretches where single steps teach little
    seed : of the random numbers that a randomised baseline needs
    options : those of UCRL2's learner, or of what holds any agent: confidence, bounded, knowledge (see `Learner`)

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
        learner: AverageLearner | AveragePlayer[Any] | Agent | None = None,
        condition: Condition = "replay",
        strict: bool = True,
        tolerance: float = 0.0,
        allowance: float = 0.0,
        floor: float | None = None,
        checkpoints: Checkpoints | None = None,
        certificate: CertificateName = "induction",
        anchored: bool = True,
        affordable: bool = True,
        minimum: int = 10,
        patience: float | None = None,
        seed: int | np.random.Generator = 0,
        **options: Any,
    ) -> None:
        need_space(space)
        if faults := baseline_argument(baseline) + argument_faults(options, CUCRL2, UCRL2Learner):
            raise InvalidInput("no such agent", faults)
        amounts = {"tolerance": tolerance, "allowance": allowance, "floor": floor, "checkpoints": checkpoints}
        may_lose = Tolerance.parse(alpha, faults, **amounts)
        faults += may_lose.gain_faults(baseline.gain, space.money) if not faults else []
        faults += effort_faults(minimum, patience)
        proves = (delta, condition, certificate, anchored, options, faults)
        held, adopted, self.shares, anchored, is_logged = settle(space, baseline, may_lose, learner, *proves)
        options["delta"] = self.shares.of_learner
        if adopted is not None:
            held = AdoptedAgent(space, adopted, elsewhere=baseline.policy, **options)
        held = held or UCRL2Learner(space, **options)
        by_account, of_outcomes = condition == "decisions", self.shares.of_outcomes
        saving, patience = (patience or 0.0) if by_account else 0.0, 0.01 if patience is None else patience
        account = new_account(space, baseline, may_lose, of_outcomes, strict, saving) if by_account else None
        super().__init__(held, seed, account)
        self.baseline, self.tolerance, self.alpha, self.condition = baseline, may_lose, may_lose.alpha, condition
        self.affordable, self.minimum, self.patience = affordable, minimum, patience
        self.proves = may_lose.shows | {"certificate": certificate, "strict": strict, "delta": self.shares.total}
        self.proves |= {"anchored": anchored} | ({"saving": saving} if by_account else {})
        anchors = Anchors(baseline, of_outcomes, held.bounded) if anchored else None
        self.certificate: Certificate | None = None
        if not by_account:
            of_log = of_outcomes if is_logged else 0.0
            self.certificate = new_certificate(certificate, baseline, may_lose, strict, anchors, of_log)
        self.policies.id_of(baseline.policy)  # policy 0
        self.check = BaselineCheck(baseline, self.shares.total, bounded=held.bounded)
        self.effort = Effort(always=patience == 0)
        self.last_length = 0  # T_{k-1}
        self.trusted_at = 0  # the step at which `trust` was last called
        if baseline.history is not None:
            baseline.history.into(self, accidents=baseline.accidents)

    @exclusive
    def trust(self, knowledge: Knowledge | None) -> None:
        """Use this knowledge (or none) from now on, whatever was contradicted before.

        Everything that was proved with what was declared before is forgotten, and the past is proved again.
        """
        self._catch_up()
        if not self.begun:
            self.learner.trust(knowledge)
            return
        self._all_or_nothing(lambda: self._trust(knowledge))

    def _trust(self, knowledge: Knowledge | None) -> None:
        """Believe something else in the middle of a run."""
        self.learner.trust(knowledge)
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
        assert self.state is not None
        learner.locate(self.state)
        contradictions = learner.compare() + self.check.compare(learner.belief.from_data, learner.counts.total)
        contradictions += [] if self.account is None else self.account.contradictions
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
            if self.shares.of_set and self._set_is_due(self.account):
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

    def _record(self, pairs: Ints, rewards: Floats, next_states: Ints) -> list[tuple[int, Role, int]]:
        """What these steps played; the certificate sees them, too."""
        if self.certificate is not None:
            self.certificate.observe(pairs, rewards, next_states)
        return super()._record(pairs, rewards, next_states)

    def _record_episode(self, plausible: Plausible) -> None:
        """Tell the certificate of the episode that has just ended."""
        if self.decisions:
            self.last_length = self.t - max(self.decisions[-1].t, self.trusted_at)
            if self.last_length:
                first, policy = self.t - self.last_length, self.decisions[-1].policy
                if self.certificate is not None:
                    self.certificate.record(policy, first, self.last_length, plausible)

    def _bookmark(self) -> Callable[[], None]:
        of_learner = self.learner.bookmark()
        if self.certificate is None:
            return bookmark(self.effort, of_learner)
        return bookmark(self.effort, of_learner, self.certificate.bookmark())

    def _question(self, plausible: Plausible, plan: Plan) -> Question:
        """Whether the plan is safe: for T_{k-1} + 1 steps, or for how many of at most as many as were played."""
        if not self.affordable:
            most = least = self.last_length + 1
        else:
            least = self.minimum
            most = max(min(self.t, self.effort.longest_question(self.learner.counts)), least)
        return Question(plausible, plan.policy, self.past, least, most, self.learner.counts)

    def _review(self, question: Question) -> Offer:
        """What the certificate offers after a review."""
        assert self.certificate is not None
        offer = self.certificate.review(question)
        if not self.baseline.is_known:  # it is bounded again, too
            self.effort.charge_review(offer.sweeps, self.learner.counts)
        return offer

    def _set_is_due(self, account: Account | UnknownAccount) -> bool:
        """Whether to bound departures by the set now: in every episode, or rarely if an episode is one step."""
        rarely = self.learner.every_step and account.next_review is None
        return not rarely or self.t % max(math.isqrt(self.t), 1) == 0

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
