"""The certificates "induction" and "segments": the margin of replaying every policy played, from the first step on.

The margin and the event on which the proofs hold are those of `certificates.certificate`. The proofs are in
docs/guarantees.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from surefooted import planning
from surefooted.certificates.certificate import Offer, Past, Question
from surefooted.certificates.shelf import Shelf
from surefooted.kernels import segments as backwards
from surefooted.kernels import sorting
from surefooted.kernels.structs import Book
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy_log import PolicyLog
from surefooted.tables.space import Floats

TOLERANCE = 1e-3  # what extrapolating a long segment may lose (times r_max)
SWEEPS = 100  # backward steps of one segment, before the rest of it is extrapolated


@dataclass(frozen=True)
class Reference:
    """Bounds on the baseline: L φ >= φ + gain_low pessimistically with bias_low, L φ <= φ + gain_high optimistically.

    If gain and bias are known, lower and upper bound coincide.
    """

    gain_low: float
    gain_high: float
    bias_low: Floats
    bias_high: Floats

    @cached_property
    def terminal(self) -> Floats:
        """φ - max φ of the pessimistic bias, [S]: what the baseline earns at worst from each state on."""
        return np.asarray(self.bias_low - self.bias_low.max())

    @classmethod
    def of(cls, baseline: Baseline, plausible: Plausible, t: int) -> "Reference":
        """What is known of the baseline, or what a set says of it to r_max / sqrt(t + 1)."""
        if baseline.gain is not None and baseline.bias is not None:
            return cls(baseline.gain, baseline.gain, baseline.bias, baseline.bias)
        epsilon = plausible.space.r_max / np.sqrt(t + 1)
        low = planning.policy_gain(plausible, baseline.policy, epsilon, "pessimistic")
        high = planning.policy_gain(plausible, baseline.policy, epsilon, "optimistic")
        return cls(low.lower, high.upper, low.bias, high.bias)


@dataclass(frozen=True)
class Proof:
    """A margin proved at step t that any continuation may build on.

    Let u(s) be what the steps after t earn from s, minus `required` per step, with the reserve for the way back
    included. Then the margin is at least `margin` + min_s (u - terminal)(s).
    """

    t: int
    margin: float
    reference: Reference
    required: float  # (1 - α) gain_high
    terms: Mapping[str, float]

    @property
    def terminal(self) -> Floats:
        """That of the reference, [S]."""
        return self.reference.terminal

    @property
    def rate(self) -> float:
        """What each step of the baseline adds to the margin."""
        return self.reference.gain_low - self.required


class ReplayCertificate:
    """Proves the margin from all segments of steps that were played with one policy.

    A proof is carried forward over what was played since, at its worst. A review proves everything again from the first
    step, with today's set, and keeps the better proof: a bound that was valid once stays valid. "induction" goes
    backwards through all segments. "segments" adds up what each segment lost at most, whichever state it began in.

    Parameters
    ----------
    baseline : the baseline, with its gain and bias if they are known
    alpha : the share of the baseline's reward that may be lost
    induction : go backwards through all segments; False: add up the loss of each
    strict : keep a reserve for the way back to the baseline

    """

    def __init__(self, baseline: Baseline, alpha: float, induction: bool = True, strict: bool = True) -> None:
        self.baseline, self.alpha, self.induction, self.strict = baseline, alpha, induction, strict
        self.proof: Proof | None = None
        self.losses: dict[int, tuple[int, float]] = {}  # of each segment: its length, and the smallest loss proved
        self._shelf: Shelf | None = None

    def offer(self, question: Question) -> Offer:
        """How long the policy may be played, by the proof there is."""
        plausible, past, sweeps = question.plausible, question.past, 0
        if self.proof is None:
            self.proof = self.prove(plausible, past)
        else:
            self.proof, sweeps = self._carry(self.proof, plausible, past)
        return self._afford(self.proof, question, sweeps)

    def review(self, question: Question) -> Offer:
        """The same by the better of that proof and a new one."""
        new, old = self.prove(question.plausible, question.past), self.proof
        if old is None or (new.rate >= 0, new.margin) > (old.rate >= 0, old.margin):
            self.proof = new
        return self.offer(question)

    def record(self, policy: int, first: int, steps: int, plausible: Plausible) -> None:
        """Nothing: a question says what was played, and the proof is carried over it then."""

    def prove(self, plausible: Plausible, past: Past) -> Proof:
        """The margin of all that was played, with one set."""
        alpha, reference = self.alpha, Reference.of(self.baseline, plausible, past.t)
        low, high, required = reference.bias_low, reference.bias_high, (1 - alpha) * reference.gain_high
        opening = past.segments[0][1] if past.segments and past.segments[0][0] == 0 else 0
        book = self._book(past, past.segments[1:] if opening else past.segments)
        limits, r = (TOLERANCE * plausible.space.r_max, SWEEPS), plausible.r_lower - reference.gain_low
        v = low - low.max()
        if self.induction:
            backwards.induct(book, plausible.rows, r, low, *limits, v)
        else:
            v -= self._lost(book, plausible, r, low, limits)
        # the opening is the baseline's own run, which both sides of the condition share
        w = v - (1 - alpha) * high - alpha * low
        if opening:
            nothing = np.zeros(0)
            played, work = planning.played(self.baseline.policy), sorting.workspace(low.size)
            backwards.play_backwards(played, plausible.rows, nothing, opening, *limits, work, w)
        earned = alpha * opening * reference.gain_low + (past.t - opening) * (reference.gain_low - required)
        reserve = alpha * float(low[past.start]) + (1 - alpha) * float(high.min())
        margin = float(w[past.start]) + reserve + earned
        kept = reserve - float(low.max()) + (1 - alpha) * float((low - high).min())
        terms = {"saved up": earned, "kept for the way back": kept, "explored": margin - earned - kept}
        return Proof(past.t, margin, reference, required, terms)

    def _carry(self, proof: Proof, plausible: Plausible, past: Past) -> tuple[Proof, int]:
        """A proof that also charges what was played since, at its worst by today's set; and the sweeps made."""
        recent: list[tuple[int, int]] = []
        missing = past.t - proof.t
        for policy, steps in reversed(past.segments):
            if missing <= 0:
                break
            recent.insert(0, (policy, min(steps, missing)))
            missing -= steps
        if not recent:
            return proof, 0
        book = self._book(past, recent)
        v, low = proof.terminal.copy(), proof.reference.bias_low
        limits, r = (TOLERANCE * plausible.space.r_max, SWEEPS), plausible.r_lower - proof.reference.gain_low
        sweeps = backwards.induct(book, plausible.rows, r, low, *limits, v)
        change = float((v - proof.terminal).min()) + (past.t - proof.t) * proof.rate
        terms = dict(proof.terms) | {"since": proof.terms.get("since", 0.0) + change}
        return replace(proof, t=past.t, margin=proof.margin + change, terms=terms), sweeps

    def _book(self, past: Past, segments: Sequence[tuple[int, int]]) -> Book:
        """Segments with the policies they need, the baseline first."""
        shelf = self._shelf
        if shelf is None or shelf.policies is not past.policies or not isinstance(past.policies, PolicyLog):
            shelf = self._shelf = Shelf(past.policies, self.baseline.policy)
        columns = np.array(segments, dtype=np.int64).reshape(-1, 2)
        place = shelf.places(columns[:, 0])
        return Book(*shelf.lists(), place, columns[:, 1].copy())

    def _lost(self, book: Book, plausible: Plausible, r: Floats, low: Floats, limits: tuple[float, int]) -> float:
        """The sum of what the segments lost at most; of each the best bound so far, if the baseline is known."""
        losses = np.empty(book.policy.size)
        backwards.segment_losses(book, plausible.rows, r, low, *limits, losses)
        if self.baseline.is_known:  # an estimated bias moves from set to set, and so does what a loss is relative to
            for i, steps in enumerate(book.steps):
                length, best = self.losses.get(i, (0, np.inf))
                losses[i] = min(losses[i], best) if length == steps else losses[i]
                self.losses[i] = (int(steps), float(losses[i]))
        return float(losses.sum())

    def _afford(self, proof: Proof, question: Question, sweeps: int) -> Offer:
        """How long the margin of a proof pays for a policy; `sweeps` were made for the proof."""
        if self.strict and proof.rate < 0:  # not even the baseline is proved to be safe for ever
            return Offer(False, 0, -np.inf, 0.0, 1, np.inf, proof.terms, sweeps)
        steps, cost, too_much, plausible = 0, 0.0, 0.0, question.plausible
        if proof.margin >= 0:
            steps, more, cost, too_much = backwards.affordable_steps(
                planning.played(question.policy),
                plausible.rows,
                plausible.r_lower - proof.required,
                proof.margin,
                TOLERANCE * plausible.space.r_max,
                question.most,
                proof.terminal,
                proof.terminal if self.strict else np.zeros_like(proof.terminal),
            )
            sweeps += more
        enough = steps >= question.least
        return Offer(enough, steps, proof.margin, cost, steps + 1, too_much, proof.terms, sweeps)

    def restart(self, plausible: Plausible, past: Past) -> None:
        """Forget everything that was proved."""
        self.proof, self.losses = None, {}

    def state_dict(self) -> dict[str, Any]:
        """The proof and the losses."""
        return {"proof": self.proof, "losses": dict(self.losses)}

    def restored(self, state: dict[str, Any]) -> Self:
        """A certificate of the same arguments that remembers what `state_dict` returned."""
        other = type(self)(self.baseline, self.alpha, self.induction, self.strict)
        other.proof, other.losses = state["proof"], dict(state["losses"])
        return other
