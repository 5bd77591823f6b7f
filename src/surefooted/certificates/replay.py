"""How much may be risked: proved lower bounds on the margin of the conservative condition (Eq. `cumrew_condition`).

The margin after t steps is E[r_1 + .. + r_t | s_1, μ_t] - (1 - α) E[r_1 + .. + r_t | s_1, π_b]. Everything here holds
on the event that the true MDP is in every set that was used. The proofs are in docs/guarantees.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from surefooted import planning
from surefooted.kernels import segments as backwards
from surefooted.kernels import sorting
from surefooted.kernels.structs import Book
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.policy_log import PolicyLog
from surefooted.tables.space import Floats, Ints

TOLERANCE = 1e-3  # what a long segment may lose by being extrapolated (times r_max)
SWEEPS = 100  # backward steps of one segment before the rest of it is extrapolated


@dataclass(frozen=True)
class Past:
    """What was played: from which start, segments of (policy id, steps), and the policies; policy 0 is the baseline."""

    start: int
    segments: Sequence[tuple[int, int]]
    policies: Sequence[Policy]

    t: int = -1  # all steps, which may be given to spare their being added up

    def __post_init__(self) -> None:
        """Add up the steps."""
        if self.t < 0:
            object.__setattr__(self, "t", sum(steps for _, steps in self.segments))


@dataclass(frozen=True)
class Offer:
    """How many steps of a policy are proved safe, from a proved budget, and at what cost at most.

    `steps` may be 0. `asked` steps would have been too many: they could cost `too_much`. `terms` adds up to `budget`
    if that is finite.
    """

    steps: int
    budget: float
    cost: float
    asked: int
    too_much: float
    terms: Mapping[str, float] = field(default_factory=dict)


class Certificate(Protocol):
    """What CUCRL2 asks before it explores."""

    sweeps: int  # over the states, made so far

    def offer(self, plausible: Plausible, policy: Policy, past: Past, most: int, whole: bool) -> Offer:
        """How many of the next `most` steps may be played with a policy; with `whole`, all of them or none."""

    def review(self, plausible: Plausible, policy: Policy, past: Past, most: int, whole: bool) -> Offer:
        """The same after looking at the past again with today's set."""

    def restart(self, plausible: Plausible, past: Past) -> None:
        """Forget everything that was proved with other sets than this one."""

    def state_dict(self) -> dict[str, Any]:
        """What it remembers."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember what `state_dict` returned."""


@dataclass(frozen=True)
class Reference:
    """Bounds on the baseline: L φ >= φ + gain_low pessimistically with bias_low, L φ <= φ + gain_high optimistically.

    When gain and bias are known, both bounds are they, and hold with equality in the true MDP.
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
            bias = baseline.bias.copy()  # as writable as that of a plan: one compiled kernel
            return cls(baseline.gain, baseline.gain, bias, bias)
        epsilon = plausible.space.r_max / np.sqrt(t + 1)
        low = planning.policy_gain(plausible, baseline.policy, epsilon, "pessimistic")
        high = planning.policy_gain(plausible, baseline.policy, epsilon, "optimistic")
        return cls(low.lower, high.upper, low.bias, high.bias)


class Shelf:
    """The policies of a run that were played, as kernels take them, each put there once; the baseline comes first."""

    def __init__(self, policies: Sequence[Policy], baseline: Policy) -> None:
        self.policies, self._baseline = policies, baseline
        self._place = np.full(64, -1)
        self._used = (0, 0)  # policies and pairs on it
        self._ptr = np.zeros((4, baseline.space.n_states + 1), dtype=np.int64)
        self._pairs, self._weights = np.zeros(64, dtype=np.int64), np.zeros(64)
        self._put(0, baseline)

    def places(self, ids: Ints) -> Ints:
        """Where each of these policies stands, [n]; those that are new are put there."""
        if ids.size and ids.max() >= self._place.size:
            self._place = np.concatenate([self._place, np.full(ids.max() + 1, -1)])
        found = np.asarray(self._place[ids])
        if found.size == 0 or found.min() >= 0:
            return found
        for q in np.unique(ids[found < 0]).tolist():
            self._put(q, self.policies[q])
        return np.asarray(self._place[ids])

    def lists(self) -> tuple[Ints, Ints, Floats]:
        """What `Book` begins with."""
        return self._ptr[: self._used[0]], self._pairs, self._weights

    def _put(self, q: int, policy: Policy) -> None:
        """Put policy number q at the end."""
        ptr, pairs, weights = planning.played(policy)
        row, first = self._used
        if row == len(self._ptr):
            self._ptr = np.concatenate([self._ptr, np.zeros_like(self._ptr)])
        while first + pairs.size > self._pairs.size:
            self._pairs = np.concatenate([self._pairs, np.zeros_like(self._pairs)])
            self._weights = np.concatenate([self._weights, np.zeros_like(self._weights)])
        self._ptr[row] = ptr + first
        self._pairs[first : first + pairs.size], self._weights[first : first + pairs.size] = pairs, weights
        self._place[q], self._used = row, (row + 1, first + pairs.size)


@dataclass(frozen=True)
class Proof:
    """A margin proved at step t that any continuation may build on.

    If the steps after t earn u(s) from state s beyond `required` each, and end safely, the margin is at least
    `margin` + min over s of u(s) - terminal(s), with `terminal` [S] what the baseline earns at worst.
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


class Ledger:
    """The certificates "segments" and "induction": one entry per stretch of steps with one policy, none paid twice.

    A proof is carried forward over what was played since, at its worst. A review proves everything anew from the first
    step with the set of the day, and the better proof is kept: any bound that was valid once stays valid. "induction"
    goes backwards through all segments; "segments" adds up what each lost at most, whatever state it began in.
    """

    def __init__(self, baseline: Baseline, alpha: float, induction: bool = True, strict: bool = True) -> None:
        self.baseline, self.alpha, self.induction, self.strict = baseline, alpha, induction, strict
        self.proof: Proof | None = None
        self.losses: dict[int, tuple[int, float]] = {}  # of each segment: its length, and the smallest loss proved
        self.sweeps = 0
        self._shelf: Shelf | None = None

    def offer(self, plausible: Plausible, policy: Policy, past: Past, most: int, whole: bool) -> Offer:
        """How long a policy may be played, by the proof there is."""
        proof = self.prove(plausible, past) if self.proof is None else self._carry(self.proof, plausible, past)
        self.proof = proof
        return self._afford(proof, plausible, policy, most, whole)

    def review(self, plausible: Plausible, policy: Policy, past: Past, most: int, whole: bool) -> Offer:
        """The same by the better of that proof and a new one."""
        new, old = self.prove(plausible, past), self.proof
        if old is None or (new.rate >= 0, new.margin) > (old.rate >= 0, old.margin):
            self.proof = new
        return self.offer(plausible, policy, past, most, whole)

    def prove(self, plausible: Plausible, past: Past) -> Proof:
        """The margin of all that was played, with one set."""
        alpha, reference = self.alpha, Reference.of(self.baseline, plausible, past.t)
        low, high, required = reference.bias_low, reference.bias_high, (1 - alpha) * reference.gain_high
        opening = past.segments[0][1] if past.segments and past.segments[0][0] == 0 else 0
        book = self._book(past, past.segments[1:] if opening else past.segments)
        limits, r = self._limits(plausible), plausible.r_lower - reference.gain_low
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

    def _carry(self, proof: Proof, plausible: Plausible, past: Past) -> Proof:
        """A proof brought up to now: what was played since is charged at its worst, by today's set."""
        recent: list[tuple[int, int]] = []
        missing = past.t - proof.t
        for policy, steps in reversed(past.segments):
            if missing <= 0:
                break
            recent.insert(0, (policy, min(steps, missing)))
            missing -= steps
        if not recent:
            return proof
        book = self._book(past, recent)
        v, low = proof.terminal.copy(), proof.reference.bias_low
        limits = self._limits(plausible)
        r = plausible.r_lower - proof.reference.gain_low
        self.sweeps += backwards.induct(book, plausible.rows, r, low, *limits, v)
        change = float((v - proof.terminal).min()) + (past.t - proof.t) * proof.rate
        terms = dict(proof.terms) | {"since": proof.terms.get("since", 0.0) + change}
        return replace(proof, t=past.t, margin=proof.margin + change, terms=terms)

    def _limits(self, plausible: Plausible) -> tuple[float, int]:
        """When a segment is done."""
        return TOLERANCE * plausible.space.r_max, SWEEPS

    def _book(self, past: Past, segments: Sequence[tuple[int, int]]) -> Book:
        """Segments with the policies they need, the baseline first."""
        shelf = self._shelf
        if shelf is None or shelf.policies is not past.policies or not isinstance(past.policies, PolicyLog):
            shelf = self._shelf = Shelf(past.policies, self.baseline.policy)
        columns = np.array(segments, dtype=np.int64).reshape(-1, 2)
        place = shelf.places(columns[:, 0])
        return Book(*shelf.lists(), place, columns[:, 1].copy())

    def _lost(self, book: Book, plausible: Plausible, r: Floats, low: Floats, limits: Any) -> float:
        """The sum of what the segments lost at most; of each the best bound so far, if the baseline is known."""
        losses = np.empty(book.policy.size)
        tolerance, sweeps = limits
        backwards.segment_losses(book, plausible.rows, r, low, tolerance, sweeps, losses)
        if self.baseline.is_known:  # an estimated bias moves from set to set, and so does what a loss is relative to
            for i, steps in enumerate(book.steps):
                length, best = self.losses.get(i, (0, np.inf))
                losses[i] = min(losses[i], best) if length == steps else losses[i]
                self.losses[i] = (int(steps), float(losses[i]))
        return float(losses.sum())

    def _afford(self, proof: Proof, plausible: Plausible, policy: Policy, most: int, whole: bool) -> Offer:
        """How long the margin of a proof pays for a policy."""
        if self.strict and proof.rate < 0:  # not even the baseline is proved to be safe for ever
            return Offer(0, -np.inf, 0.0, 1, np.inf, proof.terms)
        steps, cost, too_much = 0, 0.0, 0.0
        if proof.margin >= 0:
            steps, sweeps, cost, too_much = backwards.affordable_steps(
                planning.played(policy),
                plausible.rows,
                plausible.r_lower - proof.required,
                proof.margin,
                TOLERANCE * plausible.space.r_max,
                most,
                proof.terminal,
                proof.terminal if self.strict else np.zeros_like(proof.terminal),
            )
            self.sweeps += sweeps
        offered = 0 if whole and steps < most else steps
        return Offer(offered, proof.margin, cost, steps + 1, too_much, proof.terms)

    def restart(self, plausible: Plausible, past: Past) -> None:
        """Forget everything that was proved."""
        self.proof, self.losses = None, {}

    def state_dict(self) -> dict[str, Any]:
        """The proof and the losses."""
        return {"proof": self.proof, "losses": dict(self.losses)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember them."""
        self.proof, self.losses = state["proof"], dict(state["losses"])
