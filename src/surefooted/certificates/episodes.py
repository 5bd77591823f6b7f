"""How much may be risked in an episode: a proved lower bound on the margin of Eq. `conservative_cond_fh`.

After k episodes the margin is sum_l V^{π_l}(s_l) - (1 - α) sum_l V^{π_b}(s_l). Episodes that played the baseline are in
both sums, so that V^{π_b}(s) counts n_b(s) - (1 - α) n(s) times, n(s) being the episodes from s and n_b(s) those of
them that played the baseline. If the baseline is not known, its lower bound counts where that is positive, and its
upper bound where it is negative: on the event that all bounds hold, the result is below the margin.

Values are counted from `low` (`tables.money`): V' = V - H low. `zero` is where the share α of a value begins, H (floor
- low), so that an episode from s adds α max(V' - zero, 0) (`certificates.tolerance`). With a value below `zero`, V'
counts n_b(s) - n(s) times and has no share. That makes what the baseline adds from s,

    f(V') = (n_b - n) V' + α n max(V' - zero, 0),

convex in V'. Its slope is not positive below `zero`, and n_b - (1 - α) n above. So its least value for V' between two
bounds is at the upper one if that slope is negative, and otherwise at the point nearest to `zero`. An episode of the
baseline adds something not negative, whatever its start. So what is certain to be added until the next date counts.

What explored episodes earn is proved in two ways: by a bound on each policy from each start (the set of plausible
MDPs), or for all of them at once by what they did earn (`pooled`). The second may also be an earlier one, to which the
bounds on the episodes explored since are added. The better one counts.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from surefooted.certificates.pooled import PooledReturns
from surefooted.certificates.tolerance import Tolerance
from surefooted.tables.space import Floats

LEAST = 1e-3  # guesses of what an episode earns are cut at this share of the largest return, or higher

Key = tuple[int, int]  # a policy and a start


class EpisodeOffer(NamedTuple):
    """What an episode of exploring is proved to earn, and the margin that is proved to be left after it."""

    bound: float
    margin: float

    @property
    def enough(self) -> bool:
        """Whether the condition is proved to hold after the episode."""
        return self.margin >= 0


@dataclass
class Ledger:
    """What explored episodes are proved to earn: the first ones `at_once`, the others by the bounds on each of them."""

    at_once: float = 0.0
    counts: dict[Key, int] = field(default_factory=dict)  # the others: episodes of each policy from each start
    proved: float = 0.0  # at_once + the sum of counts x bounds

    def add(self, key: Key, bound: float) -> None:
        """One more episode, which earns at least `bound`."""
        self.counts[key] = self.counts.get(key, 0) + 1
        self.proved += bound

    def recount(self, bounds: dict[Key, float]) -> None:
        """Add up again, with these bounds."""
        self.proved = self.at_once + float(sum(count * bounds[key] for key, count in self.counts.items()))

    def copy(self) -> "Ledger":
        """Another one that is the same."""
        return Ledger(self.at_once, dict(self.counts), self.proved)


class Pooling(NamedTuple):
    """What the bound from all returns needs: its share of δ, and the largest return that an episode can have."""

    delta: float
    most: float


class EpisodeCertificate:
    """Episodes played from each start, and for each policy explored the best bound proved so far on what it earns.

    Parameters
    ----------
    n_states : S
    tolerance : what may be lost, compared with the baseline; a number is α
    values : what the baseline earns from each start, counted from `low`, if it is known, [S]
    best : False (the paper): an explored episode keeps the bound it had when it was played
    pooling : use the bound from all returns, too; proved if no reward is negative
    zero : where the share α begins, counted from `low`: H (floor - low), and 1 (floor - low) for a bandit
    horizon : H, for what is tolerated in each step

    """

    def __init__(
        self,
        n_states: int,
        tolerance: Tolerance | float,
        values: Floats | None,
        best: bool = True,
        pooling: Pooling | None = None,
        *,
        zero: float = 0.0,
        horizon: int = 1,
    ) -> None:
        self.tolerance, self.zero, self.horizon = Tolerance.of(tolerance), zero, horizon
        self.alpha = self.tolerance.alpha
        self.is_known, self.best, self.pooling = values is not None, best, pooling
        self.low: Floats = np.zeros(n_states) if values is None else values.copy()  # [S] bounds on V_1 of the baseline
        self.high: Floats = np.full(n_states, np.inf) if values is None else values.copy()
        self.played = [0] * n_states  # [S] episodes from each start, n(s)
        self.kept = [0] * n_states  # [S] those that played the baseline, n_b(s)
        self.factor = np.zeros(n_states)  # [S] n_b(s) - (1 - α) n(s)
        self.share = 0.0  # what the baseline adds to the margin at least
        self.bounds: dict[Key, float] = {}  # the best lower bound on what each policy explored earns from a start
        self.ledger = Ledger()  # of all explored episodes
        self.since = Ledger()  # the best bound from all returns, and the episodes explored after it
        self.pooled: PooledReturns | None = None  # from the first explored episode on
        self.under_way: tuple[int, float] | None = None  # start and guess of an explored episode that is not over
        self.n_explored = 0
        self.begun = 0  # episodes

    @property
    def counts(self) -> dict[Key, int]:
        """Explored episodes of each policy from each start."""
        return self.ledger.counts

    @property
    def policies(self) -> list[int]:
        """The policies explored so far."""
        return sorted({policy for policy, _ in self.counts})

    @property
    def proved(self) -> float:
        """What all explored episodes earn at least."""
        return self.ledger.proved if self.pooling is None else max(self.ledger.proved, self.since.proved)

    @property
    def terms(self) -> dict[str, float]:
        """What the margin is made of."""
        parts = {"proved of explored episodes": self.proved, "the baseline's share": self.share}
        parts |= {"allowance": self.tolerance.allowance} if self.tolerance.allowance else {}
        tolerated = self.tolerance.per_step * self.horizon * self.begun
        return parts | ({"tolerated in each step": tolerated} if tolerated else {})

    def _allowed(self) -> float:
        """What may be lost beside the share of the baseline after one more episode, and is certain to be added."""
        tolerance, date = self.tolerance, self.tolerance.next_date(self.begun + 1)
        allowed = tolerance.allowance + tolerance.per_step * self.horizon * date
        ahead = date - (self.begun + 1)
        return allowed + ahead * self._least_share if ahead else allowed

    @property
    def _least_share(self) -> float:
        """What an episode of the baseline adds at least, whatever its start, beside what is tolerated in each step."""
        return self.alpha * float(np.maximum(self.low - self.zero, 0.0).min())

    def _count(self, s: int) -> None:
        """Bring `factor` and `share` up to date after an episode from s."""
        self.factor[s] = self.kept[s] - (1 - self.alpha) * self.played[s]
        self.share = self._share(self.factor, self.played)

    def offer(self, policy: int | None, s: int, bound: float) -> EpisodeOffer:
        """What exploring from s leaves, with a policy that earns at least `bound`; None if it was never played."""
        bound = bound if policy is None else self.tighten(policy, s, bound)
        return EpisodeOffer(bound, self.margin_after(s, bound))

    def margin_after(self, s: int, bound: float) -> float:
        """The left-hand minus the right-hand side of Eq. `finite_horizon_algorithm_condition`.

        That is the proved margin if the next episode, from s, explores with a policy that earns at least `bound`.
        """
        if self.is_known and self.low[s] >= self.zero:
            owed = (1 - self.alpha) * float(self.low[s]) + self.alpha * self.zero
            return self.proved + bound + self.share - owed + self._allowed()
        factor, played = self.factor.copy(), self.played.copy()
        played[s] += 1
        factor[s] = self.kept[s] - (1 - self.alpha) * played[s]
        return self.proved + bound + self._share(factor, played) + self._allowed()

    def tighten_baseline(self, low: Floats, high: Floats) -> None:
        """Bounds [S] on what the baseline earns; the best so far count."""
        np.maximum(self.low, low, out=self.low)
        np.minimum(self.high, high, out=self.high)
        self.share = self._share(self.factor, self.played)

    def tighten(self, policy: int, s: int, bound: float) -> float:
        """A bound on what a policy earns from s; the best so far comes back, and counts (unless `best` is False)."""
        key = (policy, s)
        if not self.best or key not in self.bounds:
            return bound
        better = max(bound, self.bounds[key])
        for ledger in (self.ledger, self.since):
            ledger.proved += ledger.counts.get(key, 0) * (better - self.bounds[key])
        self.bounds[key] = better
        return better

    def review(self, policies: list[int], bounds: Floats) -> None:
        """Bounds [P, S] on what these policies earn from each state; the best so far count."""
        row = {policy: i for i, policy in enumerate(policies)}
        for policy, s in self.bounds:
            self.bounds[policy, s] = max(self.bounds[policy, s], float(bounds[row[policy], s]))
        self._recount()

    def restart(self, policies: list[int], bounds: Floats) -> None:
        """Only these bounds [P, S] on the policies explored count from now on; what returns have proved stays."""
        row = {policy: i for i, policy in enumerate(policies)}
        self.bounds = {(policy, s): float(bounds[row[policy], s]) for policy, s in self.bounds}
        self._recount()

    def forget_baseline(self) -> None:
        """Nothing is known about a baseline whose values were not given."""
        if not self.is_known:
            self.low[:], self.high[:] = 0.0, np.inf

    def _recount(self) -> None:
        self.ledger.recount(self.bounds)
        self.since.recount(self.bounds)

    def explored(self, policy: int, s: int, bound: float) -> None:
        """An episode from s explores with a policy that earns at least `bound`."""
        bound, key = self.tighten(policy, s, bound), (policy, s)
        self.played[s] += 1
        self.begun += 1
        self._count(s)
        self.bounds[key] = bound
        self.ledger.add(key, bound)
        self.n_explored += 1
        if self.pooling is not None:
            self.since.add(key, bound)
            if self.pooled is None:
                self.pooled = PooledReturns(self._highest(self.pooling.most), self.pooling.delta)
            self.under_way = (s, self.pooled.guess(s, float(self.high[s])))

    def earned(self, total: float) -> None:
        """The episode under way is over and has earned `total`. If it explored, its return counts."""
        if self.under_way is None or self.pooled is None:
            return
        s, guess = self.under_way
        self.pooled.add(total, guess, s)
        self.under_way, lower = None, self.pooled.lower
        if lower > self.since.proved:
            self.since = Ledger(lower, {}, lower)

    def _highest(self, most: float) -> float:
        """Where guesses are cut: at what the baseline earns, at most, from the starts seen so far."""
        seen = [high for high, n in zip(self.high.tolist(), self.played, strict=True) if n > 0]
        return float(min(max(max(seen), LEAST * most), most))

    def conserved(self, s: int) -> None:
        """An episode from s plays the baseline."""
        self.played[s] += 1
        self.kept[s] += 1
        self.begun += 1
        self._count(s)

    def _share(self, factor: Floats, played: list[int]) -> float:
        """What the baseline adds to the margin at least: f of each start, with `factor` [S] made of `played` [S]."""
        if self.zero <= 0 and self.is_known:
            return float((factor * self.low).sum()) - self.alpha * self.zero * sum(played)
        if self.zero <= 0:
            owed = factor < 0
            own = float((factor[~owed] * self.low[~owed]).sum() + (factor[owed] * self.high[owed]).sum())
            return own - self.alpha * self.zero * sum(played)
        n, value = np.array(played), np.where(factor < 0, self.high, np.clip(self.zero, self.low, self.high))
        shared, alone = factor * value - self.alpha * self.zero * n, (np.array(self.kept) - n) * value
        return float(np.where(value >= self.zero, shared, alone).sum())

    def state_dict(self) -> dict[str, Any]:
        """Everything, to continue from."""
        own: dict[str, Any] = {name: getattr(self, name).copy() for name in ("low", "high", "played", "kept", "factor")}
        return own | {
            "bounds": dict(self.bounds),
            "ledger": self.ledger.copy(),
            "since": self.since.copy(),
            "pooled": None if self.pooled is None else self.pooled.state_dict(),
            "under_way": self.under_way,
            "share": self.share,
            "n_explored": self.n_explored,
        }

    def restored(self, state: dict[str, Any]) -> Self:
        """A certificate of the same arguments that remembers what `state_dict` returned."""
        known = self.low if self.is_known else None
        sizes = {"zero": self.zero, "horizon": self.horizon}
        other = type(self)(len(self.played), self.tolerance, known, self.best, self.pooling, **sizes)  # type: ignore[arg-type]
        other.low, other.high, other.factor = state["low"].copy(), state["high"].copy(), state["factor"].copy()
        other.played, other.kept, other.begun = list(state["played"]), list(state["kept"]), sum(state["played"])
        other.bounds, other.ledger, other.since = dict(state["bounds"]), state["ledger"].copy(), state["since"].copy()
        other.pooled = None if state["pooled"] is None else PooledReturns.from_state_dict(state["pooled"])
        other.under_way, other.share, other.n_explored = state["under_way"], state["share"], state["n_explored"]
        return other
