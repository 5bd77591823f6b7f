"""An unknown baseline has one gain: it stands on both sides of the condition, and what counts is its net coefficient.

The margin is bounded for each gain g that the baseline may have. That bound is concave in g, so the two ends of the
interval of plausible gains are enough. For a given gain, the bias relative to one state, the landmark, is what the
baseline collects beyond the gain until it hits the landmark. A set bounds that from both sides, if the landmark is hit
in finite expected time in every plausible MDP. The proof is in docs/guarantees.md, "Unknown baseline".
"""

from dataclasses import dataclass

import numpy as np

from surefooted import planning
from surefooted.certificates.reference import Reference
from surefooted.kernels import hitting
from surefooted.kernels.bellman import BEYOND_ROUNDING
from surefooted.sets.plausible import Plausible
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats

MOST_SWEEPS = 40  # of each iteration
LONGEST = 500.0  # steps to a landmark; when it is clear that it may take longer, nothing more is tried
LOOKS = 50  # steps of the estimated chain that are looked at to find a landmark
TOLERANCE = 1e-3  # of the bounds on the bias (times r_max)
ANY = (-np.inf, np.inf)


@dataclass
class Netting:
    """Finds the landmark of a policy in a set, and bounds its bias relative to it; `sweeps` made so far."""

    plausible: Plausible
    policy: Policy
    sweeps: int = 0

    def references(self, split: Reference, within: tuple[float, float] = ANY) -> tuple[Reference, ...]:
        """The bias at the upper and at the lower end of the gains of `split`; none if no landmark is proved.

        The gain is known to lie `within` two numbers as well.
        """
        target = landmark(self.plausible, self.policy)
        steps = None if target is None else self.hitting_time(target)
        if target is None or steps is None:
            return ()
        low, high = between(split, within)
        below, above = split.bias_low - split.bias_low[target], split.bias_high - split.bias_high[target]
        further = (high - low) * steps  # between the two gains, about
        return (
            Reference(high, high, *self._bounds(target, steps, high, below - further, above), one_bias=True),
            Reference(low, low, *self._bounds(target, steps, low, below, above + further), one_bias=True),
        )

    def hitting_time(self, target: int) -> Floats | None:
        """At least the expected steps to the target from each state in every plausible MDP, [S]; None if not proved.

        With the error e < 1 of an iterate N, 1 + p N <= N + e, so that N / (1 - e) falls by 1 a step on average.
        """
        steps = np.zeros(self.plausible.space.n_states)
        limits = hitting.Limits(0.5, MOST_SWEEPS, LONGEST)
        error = self._iterate(np.ones(self.plausible.n_rows), 1.0, target, limits, steps)
        return np.asarray(steps / (1 - error)) if error <= 0.5 else None

    def _bounds(self, target: int, steps: Floats, gain: float, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Bounds on the bias relative to the target if the gain is `gain`, [S] each, from a guess of each.

        An iterate v with 1-step error e is corrected by e times the hitting time, which falls by 1 a step.
        """
        found = []
        for sign, r, guess in ((-1.0, self.plausible.r_lower, low), (1.0, self.plausible.r_upper, high)):
            accuracy = TOLERANCE * self.plausible.space.r_max / (1 + float(steps.max()))
            v, limits = guess.copy(), hitting.Limits(accuracy, MOST_SWEEPS, np.inf)
            error = self._iterate(r - gain, sign, target, limits, v)
            error += BEYOND_ROUNDING * (np.abs(v).max() + self.plausible.space.r_max)
            found.append(v + sign * error * steps)
        return found[0], found[1]

    def _iterate(self, r: Floats, sign: float, target: int, limits: hitting.Limits, v: Floats) -> float:
        """Improve `v` in place; its error."""
        played, v[target] = planning.played(self.policy), 0.0
        error, sweeps = hitting.collect_until_hit(played, self.plausible.rows, r, sign, target, limits, v)
        self.sweeps += sweeps
        return error


def between(split: Reference, within: tuple[float, float]) -> tuple[float, float]:
    """The least and the largest gain; if bounds contradict each other, those of `split` alone count.

    Rewards are not negative, nor is the gain.
    """
    low, high = max(split.gain_low, within[0], 0.0), min(split.gain_high, within[1])
    return (low, high) if low <= high else (max(split.gain_low, 0.0), split.gain_high)


def landmark(plausible: Plausible, policy: Policy) -> int | None:
    """The state that a policy visits most often if rows are in the middle of their bounds; None if one is never left.

    Any state would do for the proof. A pair that was never tried may lead back to its state for ever.
    """
    space, weights = plausible.space, policy.dense_weights
    pair = np.repeat(np.arange(space.n_pairs), np.diff(plausible.next_ptr))
    tried = np.bincount(space.pair_state, weights=weights * (np.diff(plausible.next_ptr) > 0))
    p = plausible.p_lower if plausible.width is not None else (plausible.p_lower + plausible.p_upper) / 2
    total = np.bincount(pair, weights=p, minlength=space.n_pairs)[pair]
    share = weights[pair] * np.divide(p, total, out=np.zeros_like(p), where=total > 0)
    played, here, visits = share > 0, np.ones(space.n_states), np.zeros(space.n_states)
    share, source, sink = share[played], space.pair_state[pair[played]], plausible.next_state[played]
    for _ in range(LOOKS):
        here = (here + np.bincount(sink, weights=here[source] * share, minlength=here.size)) / 2
        visits += here
    target = int(np.argmax(visits))
    never = tried <= 0
    never[target] = False
    return None if never.any() else target
