"""CUCB-VI (the paper's Fig. `cucbvi`): any learner of episodes, exploring only what it can prove to afford."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from surefooted.agents import wording
from surefooted.agents.adopted import AdoptedEpisodes, adoption_faults, can_be_adopted
from surefooted.agents.agent import Agent, Decision, Role
from surefooted.agents.effort import EpisodeEffort
from surefooted.agents.episode_settings import Condition, baseline_faults, condition_faults
from surefooted.agents.episode_steps import EpisodeSteps
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.episodic_learner import EpisodicLearner
from surefooted.agents.in_use import exclusive
from surefooted.agents.ucbvi import UCBVILearner
from surefooted.arrays import is_whole
from surefooted.certificates.account import Account
from surefooted.certificates.certificate import bookmark
from surefooted.certificates.episodes import EpisodeCertificate, EpisodeOffer, Pooling
from surefooted.certificates.shares import Shares, share
from surefooted.certificates.tolerance import Checkpoints, Tolerance
from surefooted.errors import InvalidInput, argument_faults
from surefooted.knowledge.baseline_check import NOT_EXPLORED, BaselineCheck, all_explored
from surefooted.knowledge.knowledge import Knowledge
from surefooted.planning import Side
from surefooted.tables.baseline import Baseline, baseline_argument
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints, Space, need_space

AT_ONCE = 1 << 20  # pairs of the policies that are bounded in one call: 8 MB
SIDES: tuple[Side, Side] = ("pessimistic", "optimistic")


class CUCBVI(EpisodeSteps):
    """Plays a learner's policy for an episode if the condition is proved to hold after it, and the baseline otherwise.

    With condition="decisions" it asks before every step: an account pays for each departure from the baseline. After
    every episode, the departures so far are worth at least -α times what the baseline earns from all starts so far.

    If the baseline does not earn what was declared of it, it plays the baseline for ever (`knowledge.baseline_check`).

    Parameters
    ----------
    space : the states and their actions
    horizon : H, the number of steps of an episode
    baseline : the policy in use today, with its values if they are known
    alpha : the share of what the baseline earns that may be lost, between 0 and 1; 0 with an allowance or a tolerance
    delta : the probability with which the condition may fail (0.05, or the learner's); see `certificates.shares`
    learner : what proposes policies and bounds them; UCBVI's unless given. It may be any agent that has `begin`, `act`
        and `observe` (`agents.adopted`)
    condition : "replay" (the paper's) or "decisions", which needs the baseline's values of all stages
    tolerance, allowance : an amount that may be lost in each step, and one in all, beside alpha
    floor : the level that the earnings of a step are measured from, for alpha; 0 unless given
    checkpoints : keep the condition after every so many episodes, or after those of a list and each one after the last;
        None: after every episode
    learn_from : for "replay", as the three that follow: "all" episodes, or the "optimistic" ones only (the paper)
    reevaluate : True: bound past policies again with today's set and keep the best bound. False (the paper): keep the
        bound from when each was played
    pooled : bound what all explored episodes earn by what they did earn, too, and use the better bound. Needs bounded
        rewards, and `delta` if a learner is given. None: wherever this is possible, unless `reevaluate` is False
    patience : Before it refuses, the agent reviews the past if, since the last review, the explored episodes grew by
        this share or all episodes by five times this share. 0: before every refusal
    seed : of the random numbers that a randomised policy needs
    options : those of UCBVI's learner: bonus, episodes, stage_dependent, confidence, bounded, knowledge (see
        `UCBVILearner`); with any agent as the learner, all but the first two

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
        learner: EpisodicLearner | EpisodicPlayer | Agent | None = None,
        condition: Condition = "replay",
        tolerance: float = 0.0,
        allowance: float = 0.0,
        floor: float | None = None,
        checkpoints: Checkpoints | None = None,
        learn_from: Literal["all", "optimistic"] = "all",
        reevaluate: bool = True,
        pooled: bool | None = None,
        patience: float = 0.1,
        seed: int | np.random.Generator = 0,
        **options: Any,
    ) -> None:
        need_space(space)
        if not is_whole(horizon, 1):
            raise InvalidInput("no such agent", [f"horizon {horizon!r} must be a positive whole number"])
        if faults := baseline_argument(baseline) + argument_faults(options, CUCBVI, UCBVILearner):
            raise InvalidInput("no such agent", faults)
        amounts = {"tolerance": tolerance, "allowance": allowance, "floor": floor, "checkpoints": checkpoints}
        may_lose = Tolerance.parse(alpha, faults, **amounts)
        faults += may_lose.value_faults(baseline.start_values, int(horizon), space.money) if not faults else []
        faults += baseline_faults(baseline, space, int(horizon)) + condition_faults(condition, baseline)
        if learn_from not in ("all", "optimistic"):
            faults.append(f"learn_from {learn_from!r} must be 'all' or 'optimistic'")
        if learn_from == "optimistic" and baseline.values is None:
            faults.append("learn_from='optimistic' with an unknown baseline: nothing would ever be learnt of it")
        if not 0 <= patience < np.inf:
            faults.append(f"patience {patience} must be finite and not negative")
        held: Any = learner.learner if isinstance(learner, EpisodicPlayer) else learner
        adopted = held if can_be_adopted(held) else None
        if adopted is not None:
            held, faults = None, faults + adoption_faults(adopted, space, int(horizon))
        if held is not None and options:
            faults.append(f"{', '.join(options)}: a learner is given, so these options of UCBVI have no effect")
        if not isinstance(held, EpisodicLearner | None):
            faults.append(f"the learner must be an EpisodicLearner or an agent that has one, not {type(held).__name__}")
            held = None
        elif held is not None and (held.space != space or held.horizon != horizon):
            faults.append(f"the learner is on {held.space} with horizon {held.horizon}")
        bounded = bool(options.get("bounded", True)) if held is None else held.bounded
        by_account = condition == "decisions"
        if by_account and (pooled or learn_from != "all" or not bounded):
            faults.append('condition="decisions" learns from all episodes, needs bounded rewards, and pools its steps')
        has_share = held is None or delta is not None  # of δ, for something beside the bounds of the learner
        if pooled is None:
            pooled = reevaluate and bounded and not by_account and has_share
        elif pooled and not bounded:
            faults.append("pooled=True needs bounded rewards: otherwise a return may be arbitrarily small")
        knowledge = options.get("knowledge") if held is None else held.belief.knowledge
        by_set = not by_account or (knowledge is not None and has_share)
        try:
            shares = share(delta, None if held is None else held.delta, by_set, by_account or pooled)
        except InvalidInput as error:
            faults += error.faults
        if faults:
            raise InvalidInput("no such agent", faults)
        self.shares: Shares = shares
        self.pooling = Pooling(shares.of_outcomes, horizon * space.r_max) if pooled else None
        account = Account(space, baseline, may_lose, shares.of_outcomes) if by_account else None
        options["delta"] = shares.of_learner
        if adopted is not None:
            held = AdoptedEpisodes(space, horizon, adopted, **options)
        held = held or UCBVILearner(space, horizon, **options)
        super().__init__(held, seed, account)
        self.baseline, self.tolerance, self.alpha, self.condition = baseline, may_lose, may_lose.alpha, condition
        self.learn_from, self.reevaluate = learn_from, reevaluate
        self.certificate = self._new_certificate()  # with an account, it stays empty
        self.policy_id(baseline.policy)  # policy 0
        self.check = BaselineCheck(baseline, self.delta, self.horizon, self.bounded)
        self.effort = EpisodeEffort(patience)
        if baseline.history is not None:
            baseline.history.into(self, accidents=baseline.accidents)

    @property
    def delta(self) -> float:
        """The probability with which the condition may fail."""
        return self.shares.total

    def next_episode(self, s: int) -> tuple[Policy, Decision]:
        """Steps 1 to 3 of Fig. `cucbvi`; with an account, steps 2 and 3 come before every step."""
        self.learner.locate(s)
        if contradictions := self._compare():  # what was proved may be wrong: play safe until told otherwise
            return self._keep_to_baseline(s, contradictions)
        if self.account is not None:
            return self._by_account(self.account, s)
        policy = self.learner.propose()  # step 1
        self._bound_baseline()
        if self.known_id(policy) == 0:
            return self._play_baseline(s, wording.PROPOSES_BASELINE)
        offer = self._offer(policy, s)  # step 2
        if not offer.enough:  # step 3
            return self._play_baseline(s, wording.episode_does_not_pay(*self._shown(offer)))
        if self.check.spot_check_is_due(s):
            return self._play_baseline(s, wording.SPOT_CHECK)
        return self._explore(policy, s, offer)

    def _compare(self) -> list[str]:
        """What contradicts what was declared, of the problem or of the baseline."""
        learner = self.learner
        return learner.compare() + self.check.compare(learner.belief.from_data, learner.counts.total)

    def _offer(self, policy: Policy, s: int) -> EpisodeOffer:
        """What an episode of the policy from s is proved to earn, and to leave; after a review, if it is not enough."""
        known = self.known_id(policy)
        offer = self.certificate.offer(known, s, float(self.learner.bound([policy], "pessimistic")[0, s]))
        if offer.enough or not self._review_is_due():
            return offer
        self._review()
        return self.certificate.offer(known, s, offer.bound)

    def _explore(self, policy: Policy, s: int, offer: EpisodeOffer) -> tuple[Policy, Decision]:
        decision = self._decision("optimistic", wording.episode_pays(*self._shown(offer)), self.policy_id(policy))
        self._halfway = True
        self.certificate.explored(decision.policy, s, offer.bound)
        return policy, decision

    def _by_account(self, account: Account, s: int) -> tuple[Policy, Decision]:
        """An episode of which the account decides every step, unless it saves up first."""
        if self.shares.of_set:
            account.review(self.learner.plausible())
        if missing := self.missing(s):
            return self.baseline_only(s, missing)
        if self.check.spot_check_is_due(s):
            return self.baseline_only(s, wording.SPOT_CHECK)
        return self.step_by_step(s, self.learner.propose())

    def learn(self, pairs: Ints, rewards: Floats, next_states: Ints, noise: Ints | None) -> None:
        """Step 4: add the episode to the history. What the baseline earned is compared with what was declared."""
        others = NOT_EXPLORED if self.decisions[-1].policy == 0 else all_explored(self.horizon)
        if self.account is not None:
            others = self.explored_steps[-1]
        self.check.add(self.starts[-1], pairs, rewards, next_states, others)
        self.certificate.earned(float(rewards.sum()))
        if self.learn_from == "all" or self.decisions[-1].role == "optimistic":
            super().learn(pairs, rewards, next_states, noise)

    @exclusive
    def trust(self, knowledge: Knowledge | None) -> None:
        """Use this knowledge (or none) from now on, whatever was contradicted before.

        Everything that was proved with what was declared before is forgotten, and the past is bounded again. What
        follows from the returns alone stays proved.
        """
        self._all_or_nothing(lambda: self._trust(knowledge))

    def _trust(self, knowledge: Knowledge | None) -> None:
        """Believe something else."""
        self.learner.trust(knowledge, begun=self.h < self.horizon)
        if self.account is not None:
            self.account.forget_sets()
            return
        explored = self.certificate.policies
        self.certificate.forget_baseline()
        self._bound_baseline()
        if explored:
            self.certificate.restart(explored, self._bounds(explored))
        self.effort = EpisodeEffort(self.effort.patience)

    def _new_certificate(self) -> EpisodeCertificate:
        """One that has seen no episode."""
        values = self.baseline.values_counted(self.horizon)
        if values is not None and values.ndim == 2:
            values = np.asarray(values[0])
        zero = self.horizon * (self.tolerance.floor - self.space.low)  # where the share begins, counted from `low`
        own = (self.tolerance, values, self.reevaluate, self.pooling)
        return EpisodeCertificate(self.space.n_states, *own, zero=zero, horizon=self.horizon)

    def _shown(self, offer: EpisodeOffer) -> tuple[float, float, Space]:
        """What an episode is proved to earn, in the user's unit, the margin after it, and the space."""
        return offer.bound + self.horizon * self.space.low, offer.margin, self.space

    def _bound_baseline(self) -> None:
        """Tell the certificate what the baseline earns, if that has to be estimated."""
        if not self.certificate.is_known:
            low, high = (self.learner.bound([self.baseline.policy], side)[0] for side in SIDES)
            self.certificate.tighten_baseline(low, high)

    def _bookmark(self) -> Callable[[], None]:
        return bookmark(self.effort, self.learner.bookmark())

    def _review_is_due(self) -> bool:
        return self.reevaluate and self.effort.review_is_due(self.episodes, self.certificate.n_explored)

    def _review(self) -> None:
        """Bound what all policies explored so far earn, with today's set."""
        explored = self.certificate.policies
        self.certificate.review(explored, self._bounds(explored))

    def _bounds(self, policies: list[int]) -> Floats:
        """What these policies earn at least from each state, [P, S]."""
        most = max(1, AT_ONCE // (self.horizon * self.space.n_states))
        parts = [policies[i : i + most] for i in range(0, max(len(policies), 1), most)]
        return np.concatenate([self.learner.bound([self.policies[i] for i in part], "pessimistic") for part in parts])

    def _play_baseline(self, s: int, reason: str) -> tuple[Policy, Decision]:
        decision = self._decision("baseline", reason, 0)
        self._halfway = True
        self.certificate.conserved(s)
        return self.baseline.policy, decision

    def _keep_to_baseline(self, s: int, contradictions: list[str]) -> tuple[Policy, Decision]:
        """Play the baseline without proving anything."""
        reason = wording.contradicted(contradictions)
        if self.account is not None:
            return self.baseline_only(s, reason)
        self._halfway = True
        self.certificate.conserved(s)
        return self.baseline.policy, Decision("baseline", reason, -1, self.horizon * self.episodes, 0, self.horizon)

    def _decision(self, role: Role, reason: str, policy: int) -> Decision:
        """A decision with the margin proved before its episode."""
        terms, t = self.certificate.terms, self.horizon * self.episodes
        return Decision(role, reason, -1, t, policy, self.horizon, sum(terms.values()), terms)

    def arguments(self) -> dict[str, Any]:
        """What it was built with."""
        names = ("baseline", "delta", "condition", "learn_from", "reevaluate")
        own = {name: getattr(self, name) for name in names} | {"patience": self.effort.patience}
        return super().arguments() | own | self.tolerance.shows | {"pooled": self.pooling is not None}

    def _contents(self) -> dict[str, Any]:
        own = {"certificate": self.certificate.state_dict(), "effort": self.effort.state_dict()}
        return super()._contents() | own | {"check": self.check.state_dict()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self.certificate = self.certificate.restored(state["certificate"])
        self.effort = EpisodeEffort(**state["effort"])
        self.check = self.check.restored(state["check"])
