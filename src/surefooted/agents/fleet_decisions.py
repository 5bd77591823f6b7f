"""How a fleet decides and learns: the part of `agents.fleet` that runs every day.

It decides as `CUCRL2(condition="decisions")` does, step by step, and is that agent if there is one site and every
outcome is complete before the next decision.
"""

import math

import numpy as np

from surefooted.agents import wording
from surefooted.agents.agent import Role
from surefooted.agents.average import UNLIMITED
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.agents.fleet_accounts import Books, FleetRules
from surefooted.agents.fleet_steps import Answer, Settled, Site, Step, merged
from surefooted.certificates.ledger import NO_EVIDENCE, Ledger, worst_outcome
from surefooted.errors import InvalidInput
from surefooted.knowledge.baseline_check import EXPLORED, NOT_EXPLORED, only_pairs
from surefooted.knowledge.drift import Drift
from surefooted.tables.policy import Policy
from surefooted.tables.space import Ints

PAUSED = "Plays the baseline: exploring is not allowed here now."
ALARM = "Plays the baseline: something has changed: {}."


class FleetDecisions:
    """Decides for many sites with one learner; departures from the baseline are paid for by the accounts of the site.

    Parameters
    ----------
    agent : a new `CUCRL2(condition="decisions")`, whose learner, baseline, α, δ and seed are used
    rules : which accounts there are, and what is assumed of outcomes, sites and people
    drift : a test that what happens still fits what was learnt; without it nothing is tested

    """

    def __init__(self, agent: CUCRL2, rules: FleetRules | None = None, drift: Drift | None = None) -> None:
        if agent.account is None or agent.begun:
            fault = 'it needs a new CUCRL2(condition="decisions"): the replay condition cannot be stated for a fleet'
            raise InvalidInput("no such fleet", [fault])
        self.agent, self.rules, self.drift = agent, rules or FleetRules(), drift
        self.space, self.baseline, self.learner, self.check = agent.space, agent.baseline, agent.learner, agent.check
        shares, proves, self.coin = agent.shares, agent.proves, agent.coin
        terms = (agent.tolerance, shares.of_outcomes, bool(proves["strict"]))
        self.books = Books(agent.space, agent.baseline, *terms, self.rules)
        self.set_proves = shares.of_set > 0 and self.rules.people == "state" and self.rules.independent_sites
        self.sites: list[Site] = []
        self.open: dict[int, Step] = {}  # by the number of the decision
        self.t, self.left, self.doubling, self.ended = 0, 0, False, True
        self.proposal: Policy | None = None
        self.reason, self.planned_at = "", 0
        self.partial, self.is_lost = 0, False  # open decisions of which a part is seen; whether an outcome was lost
        self.since = 0  # decisions up to this number teach the learner nothing (any more): see `Fleet.trust`
        self.allowed = np.ones(self.space.n_pairs, dtype=np.int64)
        self.draws = not self.baseline.policy.is_deterministic
        self._alone: list[int] = only_pairs(self.baseline.policy, 1).tolist()
        self._tell_proposal()
        self._one = (np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1, dtype=np.int64))

    def add_site(self) -> int:
        """One more site; its number."""
        self.sites.append(Site())
        self.books.add_site()
        return len(self.sites) - 1

    @property
    def alarm(self) -> str | None:
        """What drift has been noticed, if any."""
        return None if self.drift is None else self.drift.alarm

    @property
    def contradictions(self) -> list[str]:
        """What was observed that contradicts what was declared."""
        return self.learner.contradictions + self.check.found

    def ask(
        self,
        number: int,
        site: int,
        s: int,
        allowed: bool = True,
        put: bool = False,
        recorded: tuple[int, bool] | None = None,
    ) -> Answer:
        """Decide: decision `number` is made in state s of a site, and is open from now on.

        If departures are not `allowed`, the baseline is played. `put` says that a departure is put to a person first.
        `recorded` is the pair that was played according to a journal, and whether it departs: that counts, even if
        another version of this package would decide otherwise.
        """
        if self.ended or self.left <= 0:
            self._plan()
        where, alone, u = self.sites[site], self._alone[s], self.coin.u
        if where.start < 0:
            where.start = s
        base = alone if alone >= 0 else self.baseline.policy.pair_at(s, u)
        proposed = self._proposed[s] if self._proposed else -1
        if proposed < 0:
            answer = Answer(base, "baseline", self.reason, -1, False, False, None, None)
        elif proposed == alone:
            answer = Answer(alone, "optimistic", wording.PROPOSES_BASELINE, alone, False, False, None, None)
        else:
            answer = self._price(where, site, s, proposed, base, allowed)
        pair, departs = recorded or (answer.pair, answer.departs)
        explored = (answer.role == "optimistic" or departs) and not self._is_baseline
        step = Step(site, s, pair, base, departs, explored, put and departs)
        if departs and not where.departed:
            self._keep_reserves(site, where)
        for _, ledger in self.books.of(site):
            step.slots.append(ledger.decide(s, pair, departs))
            step.waiting.append(0.0 if self.rules.arrival == "any" else NO_EVIDENCE)
        if self.draws:
            self.coin.use(1)
        self.open[number] = step
        self.t += 1
        self.left -= 1
        return answer

    def _price(self, where: Site, site: int, s: int, proposed: int, base: int, allowed: bool) -> Answer:
        """Whether all ledgers pay for a departure."""
        pays, deposit, balance, short = True, 0.0, math.inf, None
        for metric, ledger in self.books.of(site):
            reserve = 0.0 if where.departed else ledger.reserve(where.start)
            price = ledger.price(ledger.opening(reserve), s, proposed)
            pays &= price.pays
            if not price.pays and (short is None or metric == 0):
                short = (metric, price.deposit, price.balance)
            if metric == 0 and price.balance < balance:  # the tightest account of the reward
                deposit, balance = price.deposit, price.balance
        departs = pays and allowed
        words = wording.departs if departs else wording.does_not_depart if not pays else None
        reason = PAUSED if words is None else words(deposit, balance, self.space)
        role: Role = "optimistic" if departs else "baseline"
        guard = None if short is None or short[0] == 0 else short
        return Answer(proposed if departs else base, role, reason, proposed, departs, pays, deposit, balance, guard)

    def _keep_reserves(self, site: int, where: Site) -> None:
        """The first departure of a site: its reserve stays in every ledger that counts it."""
        where.departed = True
        for _, ledger in self.books.of(site):
            ledger.keep_reserve(ledger.reserve(where.start))

    def _plan(self) -> None:
        """What is proposed from now on, as `CUCRL2.next_episode` decides it."""
        learner, check = self.learner, self.check
        by_set = (learner.belief.from_data, learner.counts.total) if self.rules.people == "state" else ()
        contradictions = learner.compare() + check.compare(*by_set)
        plausible = learner.plausible()
        self.ended, self.planned_at, self.doubling, self.proposal = False, self.t, False, None
        self.left = max(1, int(self.agent.patience * self.t))
        if self.alarm is not None:
            self.reason = ALARM.format(self.alarm)
        elif contradictions:
            self.reason = wording.contradicted(contradictions)
        elif check.spot_check_is_due():
            self.reason, self.left = wording.SPOT_CHECK, min(self.left, math.isqrt(self.t))
        else:
            plan = learner.propose(plausible, self.t)
            if not plan.policy.is_deterministic:
                fault = "the learner proposes a randomised policy: with an account it must propose one action a state"
                raise InvalidInput("this proposal cannot be played", [fault])
            if self.set_proves and self.is_complete:
                for ledger in self.books.of_reward():
                    ledger.review(plausible)
            self.proposal, self.reason, self.left, self.doubling = plan.policy, wording.STEP_BY_STEP, UNLIMITED, True
            self.allowed = np.maximum(learner.counts.visits, 1)
        self._tell_proposal()

    @property
    def is_complete(self) -> bool:
        """Whether the counts hold every outcome that they must hold for their set to be valid.

        That is every outcome so far or, if arrival is independent, every outcome of which anything was seen.
        """
        waiting = self.partial if self.rules.arrival == "independent" else len(self.open)
        return not waiting and not self.is_lost

    def _tell_proposal(self) -> None:
        """The pairs that are proposed, as a list, and whether they are the baseline's."""
        self._proposed: list[int] = [] if self.proposal is None else self.proposal.stages(1)[0][0].tolist()
        self._is_baseline = self.proposal is not None and self.proposal == self.baseline.policy

    def see(self, number: int, reward: float | None, s_next: int | None, guards: list[float | None] | None) -> bool:
        """Add what is known of an outcome; whether it is complete now. It stays open until `settle`.

        An outcome of which a part is known still counts at its worst. Otherwise a bound could rest on a reward that
        belongs to another action, if that is told later.
        """
        step, some = self.open[number], self.open[number].is_seen
        step.reward = reward if reward is not None else step.reward
        step.s_next = s_next if s_next is not None else step.s_next
        step.guards = merged(step.guards, guards)
        known = step.numbers(len(self.rules.guardrails))
        if step.s_next is not None and None not in known:
            self.partial -= some
            return True
        self.partial += step.is_seen - some
        for i, (_, ledger) in enumerate(self.books.of(step.site)):
            outcome = worst_outcome(ledger, None, None)  # what was told may turn out to be of another action
            if step.slots[i] >= 0:
                ledger.see(step.slots[i], step.s, outcome)
            scaled = ledger.scaled(step.s, outcome)
            ledger.await_evidence(step.pair, step.waiting[i], scaled)
            step.waiting[i] = scaled
        return False

    def settle(self, number: int, played: int | None = None, noise: Ints | None = None) -> Settled:
        """The outcome of a decision is complete: learn from it, and settle it in all ledgers.

        `played` is the pair that was played, if it is not the one that was asked for. Then the step teaches, but is on
        no account.
        """
        step = self.open.pop(number)
        assert step.reward is not None and step.s_next is not None
        pair = step.pair if played is None else played
        overridden, terms = pair != step.pair, list[tuple[float, float, int] | None]()
        known = step.numbers(len(self.rules.guardrails))
        for i, (metric, ledger) in enumerate(self.books.of(step.site)):
            slot, number_of = step.slots[i], known[metric]
            terms.append(ledger.terms_of(slot) if slot >= 0 else None)
            if overridden:
                self._withdraw(step, i, ledger)
            else:
                assert number_of is not None
                outcome = number_of + float(ledger.arrays.account.worth[step.s_next])
                ledger.close(slot, step.s, pair, outcome, step.waiting[i])
        self._learn(number, step, pair, overridden, noise)
        return Settled(step, pair, terms)

    def _learn(self, number: int, step: Step, pair: int, overridden: bool, noise: Ints | None) -> None:
        """What the learner, the check of the baseline and the test for drift see of a complete step."""
        teaches = number > self.since
        pairs, rewards, next_states = self._one
        pairs[0], rewards[0], next_states[0] = pair, step.reward or 0.0, step.s_next or 0
        impossible = -1
        if teaches:
            impossible = self.learner.belief.notice(pairs, rewards, next_states, noise)
            self.learner.learn(pairs, rewards, next_states, noise)
        if self._hides(step, pair):
            self._hide(step)
        if self._tells_of_baseline(step, overridden):
            self.check.add(step.s, pairs, rewards, next_states, EXPLORED[:1] if step.explored else NOT_EXPLORED)
        if self.drift is not None and teaches:
            assert step.reward is not None and step.s_next is not None
            own = self._tells_of_baseline(step, overridden) and (not step.explored or pair == self._alone[step.s])
            if self.drift.add(step.s, pair, step.reward, step.s_next, own, number):
                self.ended = True
        self.allowed[pair] -= 1
        if impossible >= 0 or (self.doubling and self.allowed[pair] <= 0):
            self.ended = True

    def _tells_of_baseline(self, step: Step, overridden: bool) -> bool:
        """Whether the check of the baseline may count a step: who chose it knew no more than the state."""
        return not overridden and not (step.put and self.rules.people == "more")

    def _hides(self, step: Step, played: int) -> bool:
        """Whether somebody replaced what the baseline chose, and knew of it more than the state.

        Who sees what a randomised baseline has drawn does. The steps that are left alone are then a selection.
        """
        own = not step.explored or step.pair == self._alone[step.s]
        knew_more = self.rules.people == "more" or self._alone[step.s] < 0
        return played != step.pair and own and knew_more and not (step.put and self.rules.people == "more")

    def _hide(self, step: Step) -> None:
        """What the baseline's choice would have led to counts at its worst."""
        self.check.hide(step.s)
        if self.drift is not None:
            self.drift.hide()

    def _withdraw(self, step: Step, i: int, ledger: Ledger) -> None:
        """Nothing of this step stays in a ledger but that it has paid in."""
        if step.slots[i] >= 0:
            ledger.take_back(step.slots[i], step.pair)
        ledger.await_evidence(step.pair, step.waiting[i], NO_EVIDENCE)
        step.slots[i], step.waiting[i] = -1, NO_EVIDENCE
