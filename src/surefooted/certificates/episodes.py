"""How much may be risked in an episode: a proved lower bound on the margin of Eq. `conservative_cond_fh`.

After k episodes the margin is sum_l V^{π_l}(s_l) - (1 - α) sum_l V^{π_b}(s_l). Episodes that played the baseline are in
both sums, so that V^{π_b}(s) counts n_b(s) - (1 - α) n(s) times, n(s) being the episodes from s and n_b(s) those of
them that played the baseline. If the baseline is not known, its lower bound counts where that is positive, and its
upper bound where it is negative: on the event that all bounds hold, the result is below the margin.
"""

from typing import Any, NamedTuple, Self

import numpy as np

from surefooted.tables.space import Floats


class EpisodeOffer(NamedTuple):
    """What an episode of exploring is proved to earn, and the margin that is proved to be left after it."""

    bound: float
    margin: float

    @property
    def enough(self) -> bool:
        """Whether the condition is proved to hold after the episode."""
        return self.margin >= 0


class EpisodeCertificate:
    """Episodes played from each start, and for each policy explored the best bound proved so far on what it earns.

    `best=False` (the paper): an explored episode keeps the bound it had when it was played.
    """

    def __init__(self, n_states: int, alpha: float, values: Floats | None, best: bool = True) -> None:
        self.alpha, self.is_known, self.best = alpha, values is not None, best
        self.low: Floats = np.zeros(n_states) if values is None else values.copy()  # [S] bounds on V_1 of the baseline
        self.high: Floats = np.full(n_states, np.inf) if values is None else values.copy()
        self.played = [0] * n_states  # [S] episodes from each start, n(s)
        self.kept = [0] * n_states  # [S] those that played the baseline, n_b(s)
        self.factor = np.zeros(n_states)  # [S] n_b(s) - (1 - α) n(s)
        self.share = 0.0  # what the baseline adds to the margin at least
        self.counts: dict[tuple[int, int], int] = {}  # episodes of each (policy, start)
        self.bounds: dict[tuple[int, int], float] = {}  # the best lower bound on what each earns
        self.proved = 0.0  # sum of counts x bounds
        self.n_explored = 0

    @property
    def policies(self) -> list[int]:
        """The policies explored so far."""
        return sorted({policy for policy, _ in self.counts})

    @property
    def terms(self) -> dict[str, float]:
        """What the margin is made of."""
        return {"proved of explored episodes": self.proved, "the baseline's share": self.share}

    def _count(self, s: int) -> None:
        """Bring `factor` and `share` up to date after an episode from s."""
        self.factor[s] = self.kept[s] - (1 - self.alpha) * self.played[s]
        self.share = self._share(self.factor)

    def offer(self, policy: int | None, s: int, bound: float) -> EpisodeOffer:
        """What exploring from s leaves, with a policy that earns at least `bound`; None if it was never played."""
        bound = bound if policy is None else self.tighten(policy, s, bound)
        return EpisodeOffer(bound, self.margin_after(s, bound))

    def margin_after(self, s: int, bound: float) -> float:
        """The left-hand minus the right-hand side of Eq. `finite_horizon_algorithm_condition`.

        That is the proved margin if the next episode, from s, explores with a policy that earns at least `bound`.
        """
        if self.is_known:
            return self.proved + bound + self.share - (1 - self.alpha) * float(self.low[s])
        factor = self.factor.copy()
        factor[s] = self.kept[s] - (1 - self.alpha) * (self.played[s] + 1)
        return self.proved + bound + self._share(factor)

    def tighten_baseline(self, low: Floats, high: Floats) -> None:
        """Bounds [S] on what the baseline earns; the best so far count."""
        np.maximum(self.low, low, out=self.low)
        np.minimum(self.high, high, out=self.high)
        self.share = self._share(self.factor)

    def tighten(self, policy: int, s: int, bound: float) -> float:
        """A bound on what a policy earns from s; the best so far comes back, and counts (unless `best` is False)."""
        key = (policy, s)
        if not self.best or key not in self.bounds:
            return bound
        better = max(bound, self.bounds[key])
        self.proved += self.counts[key] * (better - self.bounds[key])
        self.bounds[key] = better
        return better

    def review(self, policies: list[int], bounds: Floats) -> None:
        """Bounds [P, S] on what these policies earn from each state; the best so far count."""
        row = {policy: i for i, policy in enumerate(policies)}
        for policy, s in self.bounds:
            self.bounds[policy, s] = max(self.bounds[policy, s], float(bounds[row[policy], s]))
        self.proved = float(sum(count * self.bounds[key] for key, count in self.counts.items()))

    def explored(self, policy: int, s: int, bound: float) -> None:
        """An episode from s explores with a policy that earns at least `bound`."""
        bound, key = self.tighten(policy, s, bound), (policy, s)
        self.played[s] += 1
        self._count(s)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.bounds[key] = bound
        self.proved += bound
        self.n_explored += 1

    def conserved(self, s: int) -> None:
        """An episode from s plays the baseline."""
        self.played[s] += 1
        self.kept[s] += 1
        self._count(s)

    def _share(self, factor: Floats) -> float:
        """What the baseline adds to the margin at least, if its values count `factor` [S] times."""
        if self.is_known:
            return float((factor * self.low).sum())
        owed = factor < 0
        return float((factor[~owed] * self.low[~owed]).sum() + (factor[owed] * self.high[owed]).sum())

    def state_dict(self) -> dict[str, Any]:
        """Everything, to continue from."""
        own: dict[str, Any] = {name: getattr(self, name).copy() for name in ("low", "high", "played", "kept", "factor")}
        return own | {
            "counts": dict(self.counts),
            "bounds": dict(self.bounds),
            "proved": self.proved,
            "share": self.share,
            "n_explored": self.n_explored,
        }

    def restored(self, state: dict[str, Any]) -> Self:
        """A certificate of the same arguments that remembers what `state_dict` returned."""
        other = type(self)(len(self.played), self.alpha, self.low if self.is_known else None, self.best)
        other.low, other.high, other.factor = state["low"].copy(), state["high"].copy(), state["factor"].copy()
        other.played, other.kept = list(state["played"]), list(state["kept"])
        other.counts, other.bounds = dict(state["counts"]), dict(state["bounds"])
        other.proved, other.share, other.n_explored = state["proved"], state["share"], state["n_explored"]
        return other
