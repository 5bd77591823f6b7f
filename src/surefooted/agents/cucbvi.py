"""CUCB-VI (the paper's Fig. `cucbvi`): any learner of episodes, exploring only what it can prove to afford."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from surefooted.agents import wording
from surefooted.agents.agent import Decision, Role
from surefooted.agents.effort import EpisodeEffort
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.episodic_learner import EpisodicLearner
from surefooted.agents.ucbvi import UCBVILearner
from surefooted.arrays import is_whole
from surefooted.certificates.episodes import EpisodeCertificate
from surefooted.errors import InvalidInput
from surefooted.knowledge.baseline_check import NOT_EXPLORED, BaselineCheck, all_explored
from surefooted.knowledge.knowledge import Knowledge
from surefooted.planning import Side
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints, Space

SIDES: tuple[Side, Side] = ("pessimistic", "optimistic")


class CUCBVI(EpisodicPlayer):
    """Plays a learner's policy for an episode if the condition is proved to hold after it, and the baseline otherwise.

    If the baseline does not earn what was declared of it, it plays the baseline for ever (`knowledge.baseline_check`).

    Parameters
    ----------
    space : the states and their actions
    horizon : H, the number of steps of an episode
    baseline : the policy in use today, with its values if they are known
    alpha : the share of the baseline's reward that may be lost, between 0 and 1
    delta : the probability with which the condition may fail (0.05)
    learner : what proposes policies and bounds them; UCBVI's unless given
    learn_from : "all" episodes, or the "optimistic" ones only (the paper)
    reevaluate : True: bound past policies again with today's set and keep the best bound. False (the paper): keep the
        bound from when each was played
    patience : Before it refuses, the agent reviews the past if, since the last review, the explored episodes grew by
        this share or all episodes by five times this share. 0: before every refusal
    seed : of the random numbers that a randomised policy needs
    options : those of UCBVI's learner: bonus, episodes, stage_dependent, confidence, bounded, knowledge (see
        `UCBVILearner`)

    Example
    -------
    >>> import surefooted as sf
    >>> problem = sf.problems.gridworld()
    >>> values = sf.solve.policy_values(problem.mdp, problem.baseline, problem.horizon)
    >>> baseline = sf.Baseline(problem.baseline, values=values)
    >>> agent = sf.CUCBVI(problem.space, problem.horizon, baseline=baseline, alpha=0.1)
    >>> run = sf.simulate(problem, agent, episodes=50, seed=0)
    >>> sf.evaluate(run, problem, alpha=0.1).violations
    0

    """

    check: BaselineCheck

    def __init__(
        self,
        space: Space,
        horizon: int,
        *,
        baseline: Baseline,
        alpha: float,
        delta: float | None = None,
        learner: EpisodicLearner | EpisodicPlayer | None = None,
        learn_from: Literal["all", "optimistic"] = "all",
        reevaluate: bool = True,
        patience: float = 0.1,
        seed: int | np.random.Generator = 0,
        **options: Any,
    ) -> None:
        if not is_whole(horizon, 1):
            raise InvalidInput("no such agent", [f"horizon {horizon} must be a positive whole number"])
        faults = _baseline_faults(baseline, space, int(horizon))
        if not 0 < alpha < 1:
            faults.append(f"alpha {alpha} must lie strictly between 0 and 1")
        if learn_from not in ("all", "optimistic"):
            faults.append(f"learn_from {learn_from!r} must be 'all' or 'optimistic'")
        if learn_from == "optimistic" and baseline.values is None:
            faults.append("learn_from='optimistic' with an unknown baseline: nothing would ever be learnt of it")
        if not 0 <= patience < np.inf:
            faults.append(f"patience {patience} must be finite and not negative")
        options |= {} if delta is None else {"delta": delta}
        held = learner.learner if isinstance(learner, EpisodicPlayer) else learner
        if held is not None and options:
            faults.append(f"{', '.join(options)}: a learner is given, so these options of UCBVI have no effect")
        if not isinstance(held, EpisodicLearner | None):
            faults.append(f"the learner must be an EpisodicLearner or an agent that has one, not {type(held).__name__}")
        elif held is not None and (held.space != space or held.horizon != horizon):
            faults.append(f"the learner is on {held.space} with horizon {held.horizon}")
        if faults:
            raise InvalidInput("no such agent", faults)
        super().__init__(held or UCBVILearner(space, horizon, **options), seed)
        self.baseline, self.alpha = baseline, alpha
        self.learn_from, self.reevaluate = learn_from, reevaluate
        self.certificate = self._new_certificate()
        self.policy_id(baseline.policy)  # policy 0
        self.check = BaselineCheck(baseline, self.learner.delta, self.horizon, self.bounded)
        self.effort = EpisodeEffort(patience)

    def next_episode(self, s: int) -> tuple[Policy, Decision]:
        """Steps 1 to 3 of Fig. `cucbvi`."""
        contradictions = self.learner.compare() + self.check.compare(self.learner.belief.from_data)
        if contradictions:  # what was proved may be wrong: play safe until told otherwise
            return self._keep_to_baseline(s, contradictions)
        policy = self.learner.propose()  # step 1
        known = self.known_id(policy)
        self._bound_baseline(self.certificate)
        if known == 0:
            return self._play_baseline(s, wording.PROPOSES_BASELINE)
        bound = float(self.learner.bound([policy], "pessimistic")[0, s])  # step 2
        offer = self.certificate.offer(known, s, bound)
        if not offer.enough and self._review_is_due():
            self._review()
            offer = self.certificate.offer(known, s, offer.bound)
        if not offer.enough:  # step 3
            return self._play_baseline(s, wording.episode_does_not_pay(*offer))
        decision = self._decision("optimistic", wording.episode_pays(*offer), self.policy_id(policy))
        self.certificate.explored(decision.policy, s, offer.bound)
        return policy, decision

    def learn(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None) -> None:
        """Step 4: add the episode to the history. What the baseline earned is compared with what was declared."""
        mine = self.decisions[-1].policy == 0
        others = NOT_EXPLORED if mine else all_explored(self.horizon)
        self.check.add(self.starts[-1], pairs, rewards, next_states, others)
        if self.learn_from == "all" or self.decisions[-1].role == "optimistic":
            super().learn(pairs, rewards, next_states, noise)

    def trust(self, knowledge: Knowledge | None) -> None:
        """Use this knowledge (or none) from now on, whatever was contradicted before.

        Everything that was proved with what was declared before is forgotten, and the past is bounded again.
        """
        self.learner.trust(knowledge, begun=self.h < self.horizon)
        certificate, explored = self._new_certificate(), self.certificate.policies
        self._bound_baseline(certificate)
        bounds = dict(zip(explored, self._bounds(explored), strict=True)) if explored else {}
        for s, decision in zip(self.starts, self.decisions, strict=True):
            if decision.policy in bounds:
                certificate.explored(decision.policy, s, float(bounds[decision.policy][s]))
            else:
                certificate.conserved(s)
        self.certificate, self.effort = certificate, EpisodeEffort(self.effort.patience)

    def _new_certificate(self) -> EpisodeCertificate:
        """One that has seen no episode."""
        values = self.baseline.start_values
        return EpisodeCertificate(self.space.n_states, self.alpha, values, self.reevaluate)

    def _bound_baseline(self, certificate: EpisodeCertificate) -> None:
        """Tell a certificate what the baseline earns, if it has to be estimated."""
        if not certificate.is_known:
            low, high = (self.learner.bound([self.baseline.policy], side)[0] for side in SIDES)
            certificate.tighten_baseline(low, high)

    def _review_is_due(self) -> bool:
        return self.reevaluate and self.effort.review_is_due(self.episodes, self.certificate.n_explored)

    def _review(self) -> None:
        """Bound what all policies explored so far earn, with today's set."""
        explored = self.certificate.policies
        self.certificate.review(explored, self._bounds(explored))

    def _bounds(self, policies: list[int]) -> Floats:
        """What these policies earn at least from each state, [P, S]."""
        return self.learner.bound([self.policies[i] for i in policies], "pessimistic")

    def _play_baseline(self, s: int, reason: str) -> tuple[Policy, Decision]:
        decision = self._decision("baseline", reason, 0)
        self.certificate.conserved(s)
        return self.baseline.policy, decision

    def _keep_to_baseline(self, s: int, contradictions: list[str]) -> tuple[Policy, Decision]:
        """Play the baseline without proving anything."""
        self.certificate.conserved(s)
        reason = wording.contradicted(contradictions)
        return self.baseline.policy, Decision("baseline", reason, -1, self.horizon * self.episodes, 0, self.horizon)

    def _decision(self, role: Role, reason: str, policy: int) -> Decision:
        """A decision with the margin proved before its episode."""
        terms, t = self.certificate.terms, self.horizon * self.episodes
        return Decision(role, reason, -1, t, policy, self.horizon, sum(terms.values()), terms)

    def arguments(self) -> dict[str, Any]:
        """What it was built with."""
        own = {name: getattr(self, name) for name in ("baseline", "alpha", "learn_from", "reevaluate")}
        return super().arguments() | own | {"patience": self.effort.patience}

    def _contents(self) -> dict[str, Any]:
        own = {"certificate": self.certificate.state_dict(), "effort": self.effort.state_dict()}
        return super()._contents() | own | {"check": self.check.state_dict()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.certificate = self.certificate.restored(state["certificate"])
        self.effort = EpisodeEffort(**state["effort"])
        self.check = self.check.restored(state["check"])


def _baseline_faults(baseline: Baseline, space: Space, horizon: int) -> list[str]:
    """Why a baseline is none for episodes of a space."""
    faults, values = [], baseline.values
    if baseline.policy.space != space:
        faults.append(f"the baseline is on {baseline.policy.space}, the agent on {space}")
    if baseline.policy.horizon not in (None, horizon):
        faults.append(f"the baseline has {baseline.policy.horizon} decision rules, the horizon is {horizon}")
    if baseline.gain is not None:
        faults.append("the baseline has a gain: over a finite horizon give its `values`, or neither")
    if values is not None and values.ndim == 2 and len(values) != horizon + 1:
        faults.append(f"the baseline's values have {len(values)} stages, not [S] or [{horizon + 1}, S]")
    if values is not None and np.any(values > horizon * space.r_max * (1 + 1e-9)):
        faults.append(f"the baseline's values exceed {horizon} x r_max: no policy could have them")
    return faults
