"""A conservative agent in the real world: many sites, many open decisions, outcomes that come late or never.

`ask` makes a decision and puts its deposit down. `see` adds what is known of an outcome; when it is complete, `settle`
has the learner learn and the ledgers settle. What is proved of it, and under which assumptions, is in
docs/guarantees.md ("In the real world").
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np

from surefooted.agents.fleet_decisions import FleetDecisions
from surefooted.agents.fleet_steps import Seen, Settled, Site, Step
from surefooted.certificates.ledger import NO_EVIDENCE, like, worst_outcome
from surefooted.errors import InvalidInput
from surefooted.knowledge.knowledge import Knowledge
from surefooted.knowledge.noise_counts import NoiseCounts
from surefooted.tables.policy import Policy

CHUNK = 10_000  # steps that are counted at once
KEPT = ("t", "left", "doubling", "ended", "reason", "planned_at", "partial", "is_lost", "set_proves", "since")


class Fleet(FleetDecisions):
    """A fleet whose decisions may be rejected, expire or be corrected, and that can be saved; see `FleetDecisions`."""

    def reject(self, number: int) -> None:
        """A departure that was put to a person is not played: the baseline is, by the draw of that time."""
        step = self.open[number]
        for i, (_, ledger) in enumerate(self.books.of(step.site)):
            self._withdraw(step, i, ledger)
            if self.rules.arrival == "any":
                ledger.await_evidence(step.baseline, NO_EVIDENCE, 0.0)
                step.waiting[i] = 0.0
        step.pair, step.departs = step.baseline, False
        step.explored = self._alone[step.s] < 0  # who rejected saw the draw: it does not tell of the baseline

    def expire(self, number: int, played: int | None = None) -> Settled:
        """The rest of an outcome is not waited for any longer: it counts at its worst for good, and teaches nothing.

        If another pair is known to have been `played`, the decision is on no account.
        """
        step = self.open.pop(number)
        if played is not None and self._hides(step, played):
            self._hide(step)
        seen, known = step.is_seen, step.numbers(len(self.rules.guardrails))
        terms = list[tuple[float, float, int] | None]()
        for i, (metric, ledger) in enumerate(self.books.of(step.site)):
            slot = step.slots[i]
            terms.append(ledger.terms_of(slot) if slot >= 0 else None)
            if played not in (None, step.pair):
                self._withdraw(step, i, ledger)
                continue
            outcome = worst_outcome(ledger, known[metric], step.s_next)
            ledger.close(slot, step.s, step.pair, outcome, step.waiting[i])
        self.partial -= seen
        self.is_lost |= seen or self.rules.arrival == "any"
        return Settled(step, step.pair if played is None else played, terms, lost=True)

    def reopen(self, number: int, settled: Settled) -> None:
        """Take back an outcome that was wrong: its decision is open again, and nothing of it is known."""
        step, known = settled.step, settled.step.numbers(len(self.rules.guardrails))
        step.explored |= step.put and self._alone[step.s] < 0  # as `reject` has it
        overridden = settled.played != step.pair
        for i, (metric, ledger) in enumerate(self.books.of(step.site)):
            if overridden:  # it is on no account, and may have been played after all
                step.slots[i] = ledger.put_back(settled.terms[i], step.pair)
            else:
                outcome = worst_outcome(ledger, known[metric], step.s_next)
                step.slots[i] = ledger.reopen(settled.terms[i], step.s, step.pair, outcome)
            step.waiting[i] = 0.0 if self.rules.arrival == "any" else NO_EVIDENCE
            if step.waiting[i] >= 0:
                ledger.await_evidence(step.pair, NO_EVIDENCE, 0.0)
        if self._hides(step, settled.played):
            self.check.hide(step.s, -1)
        if not settled.lost:
            assert step.reward is not None and step.s_next is not None
            if number > self.since:
                self.learner.counts.remove(settled.played, step.reward, step.s_next)
                if settled.noise is not None and self.learner.belief.noise is not None:
                    self.learner.belief.noise.remove(settled.played, tuple(settled.noise))
            if self._tells_of_baseline(step, overridden):
                self.check.remove(step.s, settled.played, step.reward, step.s_next, step.explored)
        step.reward = step.s_next = step.guards = None
        self.open[number], self.ended = step, True

    def forget(self, number: int) -> None:
        """What was seen of an open decision was wrong: nothing of it is known."""
        step = self.open[number]
        self.partial -= step.is_seen
        step.reward = step.s_next = step.guards = None
        for i, (_, ledger) in enumerate(self.books.of(step.site)):
            if step.slots[i] >= 0:
                ledger.see(step.slots[i], step.s, worst_outcome(ledger, None, None))
            after = 0.0 if self.rules.arrival == "any" and step.waiting[i] >= 0 else NO_EVIDENCE
            ledger.await_evidence(step.pair, step.waiting[i], after)
            step.waiting[i] = after
            ledger.forget()

    def trust(
        self,
        knowledge: Knowledge | None,
        steps: Iterable[Seen] | None = None,
        since: int | None = None,
    ) -> None:
        """Believe this knowledge from now on, whatever was contradicted, and forget an alarm.

        `steps` are the only steps that the learner keeps; None: all of them, the alarm was a
        false one. If only some are kept, nothing that a set or a single pair has proved is believed any more, and late
        outcomes of decisions up to number `since` teach the learner nothing.
        """
        if steps is not None:
            counts = type(self.learner.counts)(self.space, self.learner.bounded)
            belief, rest = self.learner.belief, iter(steps)
            noise = None if belief.noise is None else NoiseCounts(belief.noise.mechanics)
            while some := list(islice(rest, CHUNK)):
                pairs, after = (np.array([step[i] for step in some], dtype=np.int64) for i in (0, 2))
                counts.add_steps(pairs, np.array([step.reward for step in some], dtype=np.float64), after)
                if noise is not None:
                    noise.add_steps(pairs, np.array([step.noise for step in some], dtype=np.int64))
            self.learner.counts._take(counts)
            belief.noise = noise
            self.since = self.since if since is None else since
            self.set_proves = False
            for ledger in self.books.all():
                ledger.without_pairs()
        else:
            for ledger in self.books.all():
                ledger.forget()
        self.learner.trust(knowledge)
        if self.drift is not None:
            self.drift.restart()
        self.ended = True

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue exactly, as plain values and arrays; `Knowledge` stands as itself."""
        pair = None if self.proposal is None else self.proposal.stages(1)[0][0]
        return {name: getattr(self, name) for name in KEPT} | {
            "proposed": pair,
            "allowed": self.allowed.copy(),
            "learner": self.learner.state_dict(),
            "check": self.check.state_dict(),
            "coin": self.coin.state_dict(),
            "drift": None if self.drift is None else self.drift.state_dict(),
            "books": self.books.state_dict(),
            "sites": [asdict(site) for site in self.sites],
            "open": [(number, asdict(step)) for number, step in self.open.items()],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken, by a new fleet of the same arguments."""
        self.sites = [Site(**site) for site in state["sites"]]
        self.books.load(state["books"])
        self.learner.load_state_dict(state["learner"])
        self.check = self.check.restored(state["check"])
        self.coin = self.coin.restored(state["coin"])
        if self.drift is not None:
            self.drift.load(state["drift"])
        self.open = {int(number): Step(**step) for number, step in state["open"]}
        for name in KEPT:
            if type(state[name]) is not type(getattr(self, name)):
                raise InvalidInput("this state cannot be loaded", [f"{name} is {state[name]!r}"])
            setattr(self, name, state[name])
        self.allowed = like("allowed", state["allowed"], self.allowed)
        self.proposal = None if state["proposed"] is None else Policy(self.space, pair=state["proposed"])
        self._tell_proposal()
