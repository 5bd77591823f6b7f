"""What was proved of a candidate policy, compared with the baseline; and which pairs too little is known of."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from surefooted.data.counts import Counts
from surefooted.kernels.baseline_check import outcomes
from surefooted.kernels.netted import Split
from surefooted.pages import Shown
from surefooted.sets.plausible import Plausible
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Space

Method = Literal["set", "weights"]
MOST = 5  # pairs that are named
LOOKS = 200  # steps of the estimated chain that are looked at, for average reward
MATTERS = 1e-3  # of what all pairs together leave open: a pair that leaves less open is not named


class Limit(NamedTuple):
    """A pair that limits the bound: its words, how often it was observed, and how much it leaves open."""

    words: str
    visits: int
    matters: float


@dataclass(frozen=True, repr=False)
class Improvement(Shown):
    """A lower bound on what a candidate earns more than the baseline, with probability at least 1 - `delta`.

    - `at_least`: in the user's unit, per `unit`: a step (the difference of the gains), or an episode.
    - `candidate`, `baseline`: what each of them earns, between two bounds, on the same event. None if by weights.
    - `method`: "set", which holds for all candidates at once, or "weights", which holds for one.
    - `steps`: how many steps were observed.
    - `limits`: the pairs that leave most open, the first one most.
    """

    space: Space
    at_least: float
    unit: Literal["step", "episode"]
    delta: float
    method: Method
    steps: int
    candidate: tuple[float, float] | None = None
    baseline: tuple[float, float] | None = None
    limits: tuple[Limit, ...] = ()

    @property
    def is_proved(self) -> bool:
        """Whether the candidate is proved to earn more than the baseline."""
        return self.at_least > 0

    def _facts(self) -> dict[str, object]:
        facts: dict[str, object] = {"at_least": self.space.amount(self.at_least), "per": self.unit}
        return facts | {"proved": self.is_proved, "delta": self.delta, "method": self.method, "steps": self.steps}

    def __str__(self) -> str:
        """A sentence or three for people."""
        amount, sure = self.space.amount(abs(self.at_least), ".3g"), f"With probability {1 - self.delta:.4g}"
        if self.is_proved:
            said = f"{sure}, the candidate earns at least {amount} per {self.unit} more than the baseline."
        elif self.at_least == 0:
            said = f"{sure}, the candidate earns no less than the baseline."
        else:
            said = f"The candidate is not proved to be better: it may earn up to {amount} per {self.unit} less"
            said += f" than the baseline, by {self.steps} observed steps at confidence {1 - self.delta:.4g}."
        if not self.limits:
            return said
        named = "; ".join(f"{limit.words}: {limit.visits} steps" for limit in self.limits)
        return f"{said} What limits this bound most: {named}."


def find_limits(
    plausible: Plausible, counts: Counts, candidate: Policy, split: Split, values: Floats, start: Floats
) -> tuple[Limit, ...]:
    """The pairs that leave most open, where candidate and baseline choose differently.

    A pair leaves open how far r + p v lies apart over the set, times how often the candidate comes to its state if rows
    are in the middle of their bounds. `values` are v, [H + 1, S], or [1, S] for average reward; `start` [S] is where
    the candidate begins. This is a hint, and nothing rests on it.
    """
    space, K = plausible.space, plausible.space.n_pairs
    weights = np.asarray(split.more + split.less)
    n = len(values) - 1 or 1
    weights = np.ascontiguousarray(np.broadcast_to(weights, (n, K)))
    low, high = np.zeros((n, K)), np.zeros((n, K))
    outcomes(plausible.rows, plausible.r_lower, -1.0, values, weights, low)
    outcomes(plausible.rows, plausible.r_upper, 1.0, values, weights, high)
    visited = _visits(plausible, candidate, start, len(values) - 1)  # [n, S]
    left = ((high - low) * weights * visited[:, space.pair_state]).sum(axis=0)
    seen = counts.visits.reshape(-1, K).sum(axis=0)
    order = [int(k) for k in np.argsort(-left, kind="stable")[:MOST] if left[k] > MATTERS * left.sum()]
    return tuple(Limit(space.words(k), int(seen[k]), float(left[k])) for k in order)


def _visits(plausible: Plausible, policy: Policy, start: Floats, horizon: int) -> Floats:
    """How often a policy is in each state at each stage, [H, S]; with horizon 0, on average over many steps, [1, S]."""
    space, rows = plausible.space, plausible.n_rows
    pair = np.repeat(np.arange(rows), np.diff(plausible.next_ptr))
    p = plausible.p_lower if plausible.width is not None else (plausible.p_lower + plausible.p_upper) / 2
    total = np.bincount(pair, weights=p, minlength=rows)[pair]
    p = np.divide(p, total, out=np.zeros_like(p), where=total > 0)
    never = np.diff(plausible.next_ptr) == 0  # such a pair may lead anywhere: to every state alike
    weights = np.atleast_2d(policy.dense_weights)
    here, visits = start.astype(np.float64), []
    for h in range(horizon or LOOKS):
        visits.append(here)
        played = here[space.pair_state] * weights[min(h, len(weights) - 1)]
        first = h * space.n_pairs if plausible.stages > 1 else 0
        mass = np.zeros(rows)
        mass[first : first + space.n_pairs] = played
        here = np.bincount(plausible.next_state, weights=mass[pair] * p, minlength=space.n_states).astype(np.float64)
        here += mass[never].sum() / space.n_states
    return np.array(visits) if horizon else np.mean(visits, axis=0)[None]
