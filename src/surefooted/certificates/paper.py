"""The certificates "paper" and "reevaluated": Eq. `condition.algorithm`, with one span for every episode.

As printed the equation contradicts its derivation; this is what the derivation gives, as in Eq. `conservative_check`:
past episodes are compared with (1 - α) g_b, the current policy pays its own span, and sp(h_b) on the baseline's side is
multiplied by 1 - α. See docs/guarantees.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surefooted import planning
from surefooted.certificates.replay import Offer, Past
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy


@dataclass(frozen=True)
class Bound:
    """E[r_1 + .. + r_n | s, π] >= n gain - span from every state s (Lemma `bound_evi`); gain is g_n^- - ε."""

    gain: float
    span: float


class PaperCertificate:
    """One bound per episode, from the time it was played or, with `reevaluate`, from the last review.

    A review evaluates each distinct policy of the past once, however many episodes played it. `strict` keeps the
    baseline's span for the way back, which the paper forgets: after exploring, the baseline's first steps can earn
    less.
    """

    def __init__(self, baseline: Baseline, alpha: float, reevaluate: bool = False, strict: bool = True) -> None:
        self.baseline, self.alpha, self.reevaluate, self.strict = baseline, alpha, reevaluate, strict
        self.earned = 0.0  # sum of T_j gain_j - span_j over past episodes, by the bounds of their time
        self.episodes: dict[int, tuple[int, int]] = {}  # of each policy: episodes, steps
        self.bounds: dict[int, Bound] = {}  # of each policy, by the last review
        self.proposed: Bound | None = None  # of the policy last asked about
        self.counted = 0
        self.sweeps = 0

    def record(self, policy: int, steps: int, plausible: Plausible) -> None:
        """One more episode has been played."""
        bound = self._baseline(plausible) if policy == 0 else self.proposed
        assert bound is not None
        self.earned += steps * bound.gain - bound.span
        episodes, total = self.episodes.get(policy, (0, 0))
        self.episodes[policy] = (episodes + 1, total + steps)
        if policy not in self.bounds or not self.reevaluate:
            self.bounds[policy] = bound
        self.counted += steps

    def offer(self, plausible: Plausible, policy: Policy, past: Past, most: int, whole: bool) -> Offer:
        """Whether the condition holds if a policy is played for the next `most` steps, or for how many it does."""
        self.proposed = self._bounds(plausible, [policy], past.t)[0]
        baseline = self.baseline
        if baseline.gain is not None and baseline.bias is not None:
            gain_high, span_high = baseline.gain, float(np.ptp(baseline.bias))
        else:
            epsilon = plausible.space.r_max / np.sqrt(past.t + 1)
            high = planning.policy_gain(plausible, baseline.policy, epsilon, "optimistic")
            gain_high, span_high = high.upper, high.span
        required = (1 - self.alpha) * gain_high
        fallback = self._baseline(plausible)
        reserve = fallback.span if self.strict else 0.0
        terms = {
            "earned": self.earned,
            "required": -past.t * required,
            "spans of the baseline": -(1 - self.alpha) * span_high - reserve,
        }
        budget = sum(terms.values())
        span, slope = self.proposed.span, self.proposed.gain - required
        if budget - span < 0 or (self.strict and fallback.gain < required):  # the way back must be safe for ever
            steps = 0
        else:
            steps = most if slope >= 0 else min(most, int((budget - span) / -slope))
        offered = 0 if whole and steps < most else steps
        worst = max(-slope, 0.0)
        return Offer(offered, budget, span + steps * worst, steps + 1, span + (steps + 1) * worst, terms)

    def review(self, plausible: Plausible, policy: Policy, past: Past, most: int, whole: bool) -> Offer:
        """The same with every past policy evaluated anew, if that is what this certificate does."""
        if self.reevaluate:
            self.restart(plausible, past)
        return self.offer(plausible, policy, past, most, whole)

    def restart(self, plausible: Plausible, past: Past) -> None:
        """Evaluate every past policy anew, and forget what was proved before."""
        self.earned = 0.0
        others = [q for q in self.episodes if q != 0]
        bounds = dict(zip(others, self._bounds(plausible, [past.policies[q] for q in others], past.t), strict=True))
        for q, (episodes, steps) in self.episodes.items():
            bound = self._baseline(plausible) if q == 0 else bounds[q]
            self.bounds[q] = bound
            self.earned += steps * bound.gain - episodes * bound.span

    def _baseline(self, plausible: Plausible) -> Bound:
        """What an episode of the baseline earns: its gain and span if they are known."""
        if self.baseline.gain is not None and self.baseline.bias is not None:
            return Bound(self.baseline.gain, float(np.ptp(self.baseline.bias)))
        return self._bounds(plausible, [self.baseline.policy], self.counted)[0]

    def _bounds(self, plausible: Plausible, policies: Sequence[Policy], t: int) -> list[Bound]:
        """What an episode of each policy earns at worst, to ε = r_max / sqrt(t + 1)."""
        epsilon = plausible.space.r_max / np.sqrt(t + 1)
        plans = planning.policy_gains(plausible, policies, epsilon, "pessimistic")
        self.sweeps += sum(plan.sweeps for plan in plans)
        return [Bound(plan.gain - epsilon if plan.converged else plan.lower, plan.span) for plan in plans]

    def state_dict(self) -> dict[str, Any]:
        """The episodes and their bounds."""
        names = ("earned", "episodes", "bounds", "proposed", "counted")
        return {name: getattr(self, name) for name in names} | {
            "episodes": dict(self.episodes),
            "bounds": dict(self.bounds),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Remember them."""
        self.__dict__.update(state | {"episodes": dict(state["episodes"]), "bounds": dict(state["bounds"])})
