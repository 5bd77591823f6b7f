"""The certificates "paper" and "reevaluated": Eq. `condition.algorithm`, with one span for every episode.

As printed the equation contradicts its derivation; this is what the derivation gives, as in Eq. `conservative_check`:
past episodes are compared with (1 - α) g_b, the current policy pays its own span, and sp(h_b) on the baseline's side is
multiplied by 1 - α. See docs/guarantees.md.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

import numpy as np

from surefooted import planning
from surefooted.certificates.certificate import Offer, Past, Question, bookmark
from surefooted.certificates.tolerance import Tolerance
from surefooted.codec import record
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints

AT_ONCE = 1 << 20  # states of the policies that are evaluated in one call: 8 MB for each array


@record
@dataclass(frozen=True)
class Bound:
    """E[r_1 + .. + r_n | s, π] >= n gain - span from every state s (Lemma `bound_evi`); gain is g_n^- - ε.

    `sweeps` of value iteration found it.
    """

    gain: float
    span: float
    sweeps: int = 0


@dataclass(frozen=True)
class Answer:
    """What an offer is made of: the budget, and the span of the policy that would be played."""

    budget: float
    span: float
    terms: dict[str, float]
    sweeps: int

    def offer(self, slope: float, least: int, most: int, is_safe: bool) -> Offer:
        """For how many steps the budget pays if each costs -`slope`."""
        if self.budget - self.span < 0 or not is_safe:
            steps = 0
        else:
            steps = most if slope >= 0 else min(most, int((self.budget - self.span) / -slope))
        worst = max(-slope, 0.0)
        cost, too_much = self.span + steps * worst, self.span + (steps + 1) * worst
        return Offer(steps >= least, steps, self.budget, cost, steps + 1, too_much, self.terms, self.sweeps)


class PaperCertificate:
    """One bound per episode, from the time it was played or, with `reevaluate`, from the last review.

    A review evaluates each distinct policy of the past once, however many episodes played it. `strict` keeps the
    baseline's span for the way back, which the paper leaves out: after exploring, the first steps of the baseline can
    earn less than its gain.
    """

    def __init__(
        self, baseline: Baseline, tolerance: Tolerance | float, reevaluate: bool = False, strict: bool = True
    ) -> None:
        self.baseline, self.tolerance, self.reevaluate, self.strict = (
            baseline,
            Tolerance.of(tolerance),
            reevaluate,
            strict,
        )
        self.earned = 0.0  # sum of T_j gain_j - span_j over past episodes, by the bounds of their time
        self.episodes: dict[int, tuple[int, int]] = {}  # of each policy: episodes, steps
        self.proposed: Bound | None = None  # of the policy last asked about, which the next episode may play
        self._recorded: tuple[int, int, int] | None = None  # since the bookmark: a policy, and its numbers before

    def observe(self, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        """Nothing: the set has seen them."""

    def record(self, policy: int, first: int, steps: int, plausible: Plausible) -> None:
        """One more episode has been played."""
        bound = self._baseline(plausible, first) if policy == 0 else self.proposed
        assert bound is not None
        episodes, total = self.episodes.get(policy, (0, 0))
        self._recorded = (policy, episodes, total)
        self.earned += steps * bound.gain - bound.span
        self.episodes[policy] = (episodes + 1, total + steps)

    def offer(self, question: Question) -> Offer:
        """For how many steps the condition holds if the policy is played next."""
        plausible, past, baseline, tolerance = question.plausible, question.past, self.baseline, self.tolerance
        self.proposed, sweeps = self._bounds(plausible, [question.policy], past.t)[0], 0
        if baseline.gain_counted is not None and baseline.bias is not None:
            gain_high, span_high = baseline.gain_counted, float(np.ptp(baseline.bias))
        else:
            epsilon = plausible.space.r_max / np.sqrt(past.t + 1)
            high = planning.policy_gain(plausible, baseline.policy, epsilon, "optimistic")
            gain_high, span_high, sweeps = high.upper, high.span, high.sweeps
        required = (1 - tolerance.alpha) * gain_high - tolerance.per_step_counted(plausible.space.low)
        fallback = self._baseline(plausible, past.t)
        reserve = fallback.span if self.strict else 0.0
        terms = {
            "earned": self.earned,
            "required": -past.t * required,
            "spans of the baseline": -(1 - tolerance.alpha) * span_high - reserve,
        } | ({"allowance": tolerance.allowance} if tolerance.allowance else {})
        budget, rate = sum(terms.values()), fallback.gain - required
        is_safe = rate >= 0 or not self.strict  # the way back must be safe for ever
        sweeps += self.proposed.sweeps + fallback.sweeps
        answer = Answer(budget, self.proposed.span, terms, sweeps)
        now = answer.offer(self.proposed.gain - required, question.least, question.most, is_safe)
        left = tolerance.next_date(past.t + 1) - past.t
        if left == 1 or now.steps >= left or rate < 0:
            return now
        # until the next date, the baseline adds `rate` in each step that the policy is not played
        due = Answer(budget + left * rate, answer.span, terms | {"until the next checkpoint": left * rate}, sweeps)
        least, most = min(question.least, left), min(question.most, left)
        later = due.offer(self.proposed.gain - fallback.gain, least, most, is_safe)
        return later if later.enough and (not now.enough or later.steps > now.steps) else now

    def review(self, question: Question) -> Offer:
        """The same with every past policy evaluated again, if that is what this certificate does."""
        if self.reevaluate:
            self.restart(question.plausible, question.past)
        return self.offer(question)

    def restart(self, plausible: Plausible, past: Past) -> None:
        """Evaluate every past policy again, and forget what was proved before."""
        earned = 0.0
        others = [q for q in self.episodes if q != 0]
        bounds = dict(zip(others, self._bounds(plausible, (past.policies[q] for q in others), past.t), strict=True))
        for q, (episodes, steps) in self.episodes.items():
            bound = self._baseline(plausible, past.t) if q == 0 else bounds[q]
            earned += steps * bound.gain - episodes * bound.span
        self.earned = earned

    def _baseline(self, plausible: Plausible, t: int) -> Bound:
        """What an episode of the baseline earns after t steps: its gain and span if they are known."""
        if self.baseline.gain_counted is not None and self.baseline.bias is not None:
            return Bound(self.baseline.gain_counted, float(np.ptp(self.baseline.bias)))
        return self._bounds(plausible, [self.baseline.policy], t)[0]

    def _bounds(self, plausible: Plausible, policies: Iterable[Policy], t: int) -> list[Bound]:
        """What an episode of each policy earns at worst, to ε = r_max / sqrt(t + 1)."""
        epsilon, each, found = plausible.space.r_max / np.sqrt(t + 1), iter(policies), list[Bound]()
        while some := list(islice(each, max(1, AT_ONCE // plausible.space.n_states))):
            for plan in planning.policy_gains(plausible, some, epsilon, "pessimistic"):
                gain = plan.gain - epsilon if plan.converged else plan.lower
                found.append(Bound(gain, plan.span, plan.sweeps))
        return found

    def bookmark(self) -> Callable[[], None]:
        """A function that undoes everything from now on: at most one episode is recorded while an agent plans."""
        self._recorded = None
        own = bookmark(self)

        def put_back() -> None:
            recorded = self._recorded
            own()
            if recorded is not None:
                policy, *before = recorded
                self.episodes[policy] = (before[0], before[1])
                if not before[0]:
                    del self.episodes[policy]

        return put_back

    def state_dict(self) -> dict[str, Any]:
        """The episodes, what they earned, and the bound of the policy last asked about."""
        return {"earned": self.earned, "proposed": self.proposed, "episodes": dict(self.episodes)}

    def restored(self, state: dict[str, Any]) -> Self:
        """A certificate of the same arguments that remembers what `state_dict` returned."""
        other = type(self)(self.baseline, self.tolerance, self.reevaluate, self.strict)
        other.earned, other.proposed, other.episodes = state["earned"], state["proposed"], dict(state["episodes"])
        return other
