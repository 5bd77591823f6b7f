"""The certificates "induction" and "segments": the margin of replaying every policy played, from the first step on.

The margin and the event on which the proofs hold are those of `certificates.certificate`. The proofs are in
docs/guarantees.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from surefooted import planning
from surefooted.arrays import like
from surefooted.certificates import logged
from surefooted.certificates.anchors import Anchors
from surefooted.certificates.certificate import Offer, Past, Question, bookmark
from surefooted.certificates.netting import Netting
from surefooted.certificates.proof import Case, Proof
from surefooted.certificates.reference import Reference
from surefooted.certificates.shelf import Shelf
from surefooted.certificates.tolerance import Tolerance
from surefooted.errors import InvalidInput
from surefooted.kernels import anchored
from surefooted.kernels import segments as backwards
from surefooted.kernels.anchored import Income
from surefooted.kernels.structs import Book
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy_log import PolicyLog
from surefooted.tables.space import Floats, Ints

TOLERANCE = 1e-3  # what extrapolating a long segment may lose (times r_max)
SWEEPS = 100  # backward steps of one segment, before the rest of it is extrapolated
NOTHING = Income(np.zeros(0), np.zeros(0), np.zeros(0))


class ReplayCertificate:
    """Proves the margin from all segments of steps that were played with one policy.

    A proof is carried forward over what was played since, at its worst. A review proves everything again from the first
    step, with today's set, and keeps the better proof: a bound that was valid once stays valid. "induction" goes
    backwards through all segments. "segments" adds up what each segment lost at most, whichever state it began in.

    Parameters
    ----------
    baseline : the baseline, with its gain and bias if they are known
    tolerance : what may be lost, compared with the baseline; a number is α
    induction : go backwards through all segments; False: add up the loss of each
    strict : keep a reserve for the way back to the baseline
    anchors : what is known of r + p h, h being the bias of a known baseline; it makes explored segments cost less
    of_log : the share of δ of the log of an unknown baseline, which then bounds its gain and bias; 0: it does not

    """

    def __init__(
        self,
        baseline: Baseline,
        tolerance: Tolerance | float,
        induction: bool = True,
        strict: bool = True,
        anchors: Anchors | None = None,
        of_log: float = 0.0,
    ) -> None:
        self.baseline, self.tolerance = baseline, Tolerance.of(tolerance)
        self.induction, self.strict, self.anchors, self.of_log = induction, strict, anchors, of_log
        self.proof: Proof | None = None
        self.losses: dict[int, tuple[int, float]] = {}  # of each segment: its length, and the smallest loss proved
        self._shelf: Shelf | None = None
        self._sweeps = 0  # over the states, made so far

    def offer(self, question: Question) -> Offer:
        """How long the policy may be played, by the proof there is."""
        plausible, past, before, lower = question.plausible, question.past, self._sweeps, self._anchored(question)
        if self.proof is None:
            self.proof = self.prove(plausible, past, lower)
        proof = self._carry(self.proof, plausible, past, lower)
        if not (proof.is_netted and past.segments and past.segments[-1][0] == 0):  # steps of the baseline may go on,
            self.proof = proof  # and bounds on its bias are paid for once for all of them
        return replace(self._afford(proof, question, lower), sweeps=self._sweeps - before)

    def review(self, question: Question) -> Offer:
        """The same by the better of that proof and a new one."""
        plausible, past, before, lower = question.plausible, question.past, self._sweeps, self._anchored(question)
        new, old = self.prove(plausible, past, lower), self.proof
        if old is None or self._rank(new, plausible, past, lower) > self._rank(old, plausible, past, lower):
            self.proof = new
        return replace(self.offer(question), sweeps=self._sweeps - before)

    def observe(self, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        """The outcomes of steps, for the anchors."""
        if self.anchors is not None:
            self.anchors.observe(pairs, rewards, next_states)

    def _anchored(self, question: Question) -> Floats | None:
        """Lower bounds on r + p h of each pair, [K], if there are anchors."""
        return None if self.anchors is None else self.anchors.lower(question.plausible, question.counts)

    def _income(self, plausible: Plausible, lower: Floats | None, required: float) -> Income:
        """What a step from each pair earns at least, minus `required`; `lower` [K] are the anchors, if any."""
        r = plausible.r_lower - required
        if self.anchors is None or lower is None:
            return NOTHING._replace(r=r)
        return Income(r, self.anchors.bias, lower - required)

    def record(self, policy: int, first: int, steps: int, plausible: Plausible) -> None:
        """Nothing: a question says what was played, and the proof is carried over it then."""

    def prove(self, plausible: Plausible, past: Past, lower: Floats | None = None) -> Proof:
        """The margin of all that was played, with one set; if the baseline is not known, the best of several proofs.

        One bounds its gain from below and from above, the others take it to be one and the same. `lower` [K] are lower
        bounds on r + p h, which only a known baseline has.
        """
        split = Reference.of(self.baseline, plausible, past.t)
        proof = Proof(past.t, (self.case(plausible, past, split, lower),))
        if self.baseline.is_known:
            return proof
        netting = Netting(plausible, self.baseline.policy)
        before, proofs = past.before_fallback, [proof]
        for references in logged.references(netting, split, self.baseline, self.of_log):
            cases = tuple(self.case(plausible, before, reference) for reference in references)
            proofs.append(Proof(before.t, cases))
        self._sweeps += netting.sweeps
        return max(proofs, key=lambda proof: self._rank(proof, plausible, past))

    def _rank(self, proof: Proof, plausible: Plausible, past: Past, lower: Floats | None = None) -> tuple[bool, float]:
        """What makes a proof better than another: it lasts, and it proves more by now."""
        return proof.is_lasting, self._carry(proof, plausible, past, lower).margin

    def case(self, plausible: Plausible, past: Past, reference: Reference, lower: Floats | None = None) -> Case:
        """The margin of all that was played, if the baseline is as the reference says."""
        alpha, low, high, left = self.tolerance.alpha, reference.bias_low, reference.bias_high, reference.bias_left
        added = self.tolerance.per_step_counted(plausible.space.low)
        required = (1 - alpha) * reference.gain_high - added
        opening = past.segments[0][1] if past.segments and past.segments[0][0] == 0 else 0
        book = self._book(past, past.segments[1:] if opening else past.segments)
        limits, income = self._limits(plausible), self._income(plausible, lower, reference.gain_low)
        v = reference.terminal.copy()
        if self.induction:
            made = backwards.induct(book, plausible.rows, income, low, left, *limits, v)
            self._sweeps += made if reference.one_bias else 0  # a review pays for the first proof beforehand
        else:
            v -= self._lost(book, plausible, income, reference)
        # the opening is the baseline's own run, which both sides of the condition share
        w = v - (1 - alpha) * high - alpha * left
        if opening:
            played, work = planning.played(self.baseline.policy), anchored.desk(low.size)
            backwards.play_backwards(played, plausible.rows, NOTHING, opening, *limits, work, w)
        earned = alpha * opening * reference.gain_low + (past.t - opening) * (reference.gain_low - required)
        earned += opening * added
        reserve = alpha * float(low[past.start]) + (1 - alpha) * float(reference.bias_owed.min())
        margin = float(w[past.start]) + reserve + earned + self.tolerance.allowance
        kept = reserve - float(left.max()) + (1 - alpha) * float((low - high).min()) + alpha * float((low - left).min())
        allowed = {"allowance": self.tolerance.allowance} if self.tolerance.allowance else {}
        explored = margin - earned - kept - self.tolerance.allowance
        terms = {"saved up": earned, "kept for the way back": kept, "explored": explored} | allowed
        return Case(margin, reference, required, terms)

    def _carry(self, proof: Proof, plausible: Plausible, past: Past, lower: Floats | None) -> Proof:
        """A proof brought up to now: what was played since is charged at its worst, by today's set."""
        recent = past.since(proof.t)
        if not recent:
            return proof
        book, limits = self._book(past, recent), self._limits(plausible)
        cases = []
        for case in proof.cases:
            reference, v = case.reference, case.reference.terminal.copy()
            income = self._income(plausible, lower, reference.gain_low)
            self._sweeps += backwards.induct(
                book, plausible.rows, income, reference.bias_low, reference.bias_left, *limits, v
            )
            change = float((v - reference.terminal).min()) + (past.t - proof.t) * case.rate
            terms = dict(case.terms) | {"since": case.terms.get("since", 0.0) + change}
            cases.append(replace(case, margin=case.margin + change, terms=terms))
        return Proof(past.t, tuple(cases))

    def _book(self, past: Past, segments: Sequence[tuple[int, int]]) -> Book:
        """Segments with the policies they need, the baseline first."""
        shelf = self._shelf
        if shelf is None or shelf.policies is not past.policies or not isinstance(past.policies, PolicyLog):
            shelf = self._shelf = Shelf(past.policies, self.baseline.policy)
        columns = np.array(segments, dtype=np.int64).reshape(-1, 2)
        place = shelf.places(columns[:, 0])
        return Book(*shelf.lists(), place, columns[:, 1].copy())

    def _limits(self, plausible: Plausible) -> tuple[float, int]:
        """The tolerance of extrapolation, and the most sweeps of one segment."""
        return TOLERANCE * plausible.space.r_max, SWEEPS

    def _lost(self, book: Book, plausible: Plausible, income: Income, reference: Reference) -> float:
        """The sum of what the segments lost at most; of each the best bound so far, if the baseline is known."""
        losses, limits, biases = (
            np.empty(book.policy.size),
            self._limits(plausible),
            (reference.bias_low, reference.bias_left),
        )
        backwards.segment_losses(book, plausible.rows, income, *biases, *limits, losses)
        if self.baseline.is_known:  # an estimated bias moves from set to set, and so does what a loss is relative to
            for i, steps in enumerate(book.steps):
                length, best = self.losses.get(i, (0, np.inf))
                losses[i] = min(losses[i], best) if length == steps else losses[i]
                self.losses[i] = (int(steps), float(losses[i]))
        return float(losses.sum())

    def _afford(self, proof: Proof, question: Question, lower: Floats | None) -> Offer:
        """How long the margin of a proof pays for a policy: in every case."""
        if self.strict and not proof.is_lasting:  # not even the baseline is proved to be safe for ever
            return Offer(False, 0, -np.inf, 0.0, 1, np.inf, proof.worst.terms)
        now = self._afford_until(proof, question, 0, lower)
        left = self.tolerance.next_date(question.past.t + 1) - question.past.t
        if left == 1 or now.steps >= left:
            return now
        until = replace(question, least=min(question.least, left), most=min(question.most, left))
        later = self._afford_until(proof, until, left, lower)
        return later if later.enough and (not now.enough or later.steps > now.steps) else now

    def _afford_until(self, proof: Proof, question: Question, left: int, lower: Floats | None) -> Offer:
        """How long the margin of a proof pays for a policy, if it is needed only after `left` steps; 0: at every one.

        With only the baseline after the policy, each case gains its rate in each step until then. So the policy may be
        stopped after m <= `left` steps if the margin then, plus (`left` - m) times the rate, is not negative.
        """
        offers: list[Offer] = []
        due = proof if left == 0 else Proof(proof.t, tuple(case.due_after(left) for case in proof.cases))
        for case in due.cases:
            offers.append(self._afford_case(case, question, lower))
            question = replace(question, most=offers[-1].steps)
        if len(offers) == 1:
            return offers[0]
        tightest, budget = min(offers, key=lambda offer: offer.steps), due.margin
        rest = min(offer.budget - offer.cost for offer in offers)
        short = tightest.budget - tightest.too_much
        return replace(tightest, budget=budget, cost=budget - rest, too_much=budget - short, terms=due.worst.terms)

    def _afford_case(self, case: Case, question: Question, lower: Floats | None) -> Offer:
        """How long the margin of a case pays for a policy."""
        steps, cost, too_much, plausible = 0, 0.0, 0.0, question.plausible
        if case.margin >= 0:
            terminal = case.reference.terminal
            steps, sweeps, cost, too_much = backwards.affordable_steps(
                planning.played(question.policy),
                plausible.rows,
                self._income(plausible, lower, case.required),
                case.margin,
                TOLERANCE * plausible.space.r_max,
                question.most,
                terminal,
                terminal if self.strict else np.zeros_like(terminal),
            )
            self._sweeps += sweeps
        return Offer(steps >= question.least, steps, case.margin, cost, steps + 1, too_much, case.terms)

    def restart(self, plausible: Plausible, past: Past) -> None:
        """Forget everything that was proved."""
        self.proof, self.losses = None, {}

    def bookmark(self) -> Callable[[], None]:
        """A function that undoes everything from now on. The losses of segments only ever get smaller: they stay."""
        return bookmark(self)

    def state_dict(self) -> dict[str, Any]:
        """The proof, the losses, and what the anchors are made of."""
        anchors = None if self.anchors is None else self.anchors.state_dict()
        return {"proof": self.proof, "losses": dict(self.losses), "anchors": anchors}

    def restored(self, state: dict[str, Any]) -> Self:
        """A certificate of the same arguments that remembers what `state_dict` returned."""
        anchors = None if self.anchors is None else self.anchors.restored(state["anchors"])
        other = type(self)(self.baseline, self.tolerance, self.induction, self.strict, anchors, self.of_log)
        other.proof, other.losses = state["proof"], dict(state["losses"])
        if not isinstance(other.proof, Proof | None):
            raise InvalidInput("this state cannot be loaded", ["the proof is none"])
        zeros = np.zeros(self.baseline.policy.space.n_states)
        for case in () if other.proof is None else other.proof.cases:
            for bias in (case.reference.bias_low, case.reference.bias_high):
                like("bias", bias, zeros)
        return other
