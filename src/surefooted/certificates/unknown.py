"""The account of a baseline whose gain and bias are unknown: what is proved of departures without them.

The condition is that of `certificates.account`, with the baseline's true gain g and bias h: W_t >= -B - α t g. With a
floor and a tolerance, α t g becomes t (α max(g - floor, 0) + tolerance). Rewards and gains are counted from the lowest
reward (`tables.money`). Two proofs are kept, and the better one counts.

- *By outcomes*, if a span H >= max h - min h is declared. The advantages of consecutive steps add up to their rewards
  minus g for each, plus the bias where they end minus the bias where they began, minus luck. So a stretch of steps,
  however long, needs the bias at its two ends only. Steps of the baseline bound g, from above and from below.
- *By the set* of plausible MDPs, if what is known proves that the baseline keeps returning to one state
  (`certificates.netting`). Then each departure is bounded for the least and for the largest gain in the set. If one
  noise drives all states, departures are bounded with one law for all (`certificates.coupling`), whatever the gain.

A log of the baseline bounds its gain before the first step (`remember`). Theorem and proof are in docs/guarantees.md,
"Unknown baseline: decisions".
"""

import math
from typing import Any, Self

import numpy as np

from surefooted.certificates.account import Verdict, every_stage, guessed_as, only_pairs
from surefooted.certificates.baseline_log import log_faults, own_steps
from surefooted.certificates.coupling import Coupling, couple
from surefooted.certificates.martingale import new_bets
from surefooted.certificates.netting import Netting
from surefooted.certificates.reference import Reference
from surefooted.certificates.tolerance import Tolerance
from surefooted.errors import InvalidInput
from surefooted.kernels import telescope as kernels
from surefooted.kernels.account import Rules
from surefooted.kernels.martingale import OUTWARDS, Bets
from surefooted.kernels.structs import Fields, Steps
from surefooted.kernels.telescope import HIGH, LOW, PHASES, RENEW, REST_STEPS, RESTS, RESUME, STEPS, Terms
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Bools, Floats, Ints, Space

OF_PHASES = 0.5  # the share of δ for the luck of phases; the two sides of the gain have half of the rest each
REVIEW_AGAIN = 1.1  # by how much the run has grown when the set is used again
PATIENCE = 30  # steps without a departure after which a phase ends, times span / r_max if that is larger than 1
SEEN = ("visits", "total", "usual", "votes", "missed")
BIAS = ("middle", "spread", "told")
COUNTED = (*SEEN, *BIAS, "departures", "ends", "by_set", "kept", "owed", "now")
UNRANKED = 10**6  # of a count that has not begun
LEAST_SCALE = -20
BETS = ("of_phases", "above", "below")


class UnknownAccount:
    """Pays for departures from a baseline of which only the policy is known, and a span or bounds by a set.

    Parameters
    ----------
    space : the states and their actions
    baseline : the baseline, with its span if that is declared
    tolerance : what may be lost, compared with the baseline; a number is α. It is kept at every step
    delta : the probability with which the bounds by outcomes may ever fail
    strict : keep a reserve for the state that exploring ends in
    saving : after a refusal, the share by which the run grows before anything departs again

    """

    def __init__(
        self,
        space: Space,
        baseline: Baseline,
        tolerance: Tolerance | float,
        delta: float,
        strict: bool = True,
        saving: float = 0.0,
    ) -> None:
        tolerance = Tolerance.of(tolerance)
        self.space, self.baseline, self.tolerance, self.delta = space, baseline, tolerance, delta
        self.strict, self.saving = strict, saving
        K, nothing = space.n_pairs, -math.inf
        pays = (tolerance.alpha, tolerance.per_step_counted(space.low), tolerance.allowance)
        terms = Terms(*pays, math.inf, math.inf, space.r_max, 0.0, 0.0, math.inf, saving)
        visits, usual, votes, missed, departures = (np.zeros(K, dtype=np.int64) for _ in range(5))
        seen = (guessed_as(baseline.policy), visits, np.zeros(K), usual, votes, missed, departures)
        by_set = (np.array([math.inf, -math.inf]), np.full((2, K), nothing), np.zeros(2), np.zeros(2))
        bets = [new_bets(1.0) for _ in BETS]
        of_bias = (np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0)))
        self.arrays = kernels.Telescope(terms, bets[0], bets[1], bets[2], *seen, *by_set, *of_bias, np.zeros(16))
        self.next_review: int | None = None
        self.log: list[Steps] = []  # what the baseline played before the run, rewards counted from the lowest
        self.rank = UNRANKED  # of the count of outcomes: see `use_span`
        self._prove_by_outcomes(math.inf if baseline.span is None else baseline.span)
        self._alone, self._weights = only_pairs(baseline.policy, 0)
        self.rules = Rules(self._alone, self._alone, self._weights)  # what is proposed, and the baseline

    def begin(self, start: int) -> None:
        """The run begins in that state; the reserve does not depend on it."""

    def read(self, start: int, pairs: Ints, rewards: Floats, next_states: Ints) -> None:
        """Steps that the baseline played one after the other before the run, from `start`: they bound its gain.

        Call it once for each such stretch. They pay nothing in, and must be all steps of the stretch.
        """
        arrays, faults = self.arrays, []
        if arrays.now[STEPS]:
            faults.append("the run has begun: give the log before the first step")
        if arrays.terms.span == math.inf:
            faults.append("without a span the rewards of a log bound no gain: declare Baseline(policy, span=..)")
        faults += log_faults(self.space, self.baseline.policy, start, pairs, rewards, next_states)
        if faults:
            raise InvalidInput("this is no log of the baseline", faults)
        rewards = self.space.money.counted(np.asarray(rewards, dtype=np.float64))
        self._keep(Steps(np.asarray(pairs), rewards, np.asarray(next_states)))

    def remember(self, steps: Steps) -> None:
        """A log in the order in which it was played, whoever played it: the baseline's steps in it bound its gain."""
        own = own_steps(self.baseline, steps)
        if len(own.pairs):
            self._keep(own._replace(rewards=self.space.money.counted(own.rewards)))

    def _keep(self, steps: Steps) -> None:
        """Keep a log; it is counted now, or as soon as a span is proved."""
        self.log.append(steps)
        if self.arrays.terms.span < math.inf:
            self._count_log(steps)

    def _count_log(self, steps: Steps) -> None:
        """A log is one more stretch of rests, and the run begins somewhere else."""
        now = self.arrays.now
        now[RESTS] += 1.0 if now[REST_STEPS] else 0.0
        kernels.count_log(self.arrays, self.space.pair_state, steps)
        now[RESTS] += 1.0

    def propose(self, proposal: Policy | None) -> None:
        """A deterministic policy that is played wherever the account pays for it; None: the baseline is played."""
        proposed = self._alone if proposal is None else every_stage(proposal.stages(1)[0], 0)
        self.rules = Rules(proposed, self._alone, self._weights)

    def proposed(self, s: int) -> int:
        """The pair that is proposed in s, if it departs from the baseline; -1 if it does not."""
        pair = int(self.rules.proposed[s])
        return -1 if pair == self._alone[s] else pair

    def verdict(self, s: int) -> Verdict:
        """Whether the account pays for what is proposed in s, a departure from the baseline. Nothing changes."""
        pair, now = int(self.rules.proposed[s]), self.arrays.now
        balance, after = (max(kernels.left_over(self.arrays, k)) for k in (-1, pair))
        deposit = balance - after if math.isfinite(after) else math.inf
        waits = now[STEPS] < now[RESUME]
        return Verdict(bool(after >= 0 and not waits), max(deposit, 0.0), float(balance))

    def book(self, s: int, pairs: Ints, rewards: Floats, next_states: Ints) -> Bools:
        """Settle steps from s on, for which the account was asked; which of them played the proposal, [n]."""
        explored = np.zeros(len(pairs), dtype=np.bool_)
        kernels.book_steps(self.arrays, self.rules, s, Steps(pairs, rewards, next_states), explored)
        return explored

    def play(self, world: Fields, draws: Floats, coins: Floats, allowed: Ints, s: int, out: Fields) -> int:
        """Play on a true table from s as the account allows; how many steps. Nothing here changes."""
        return kernels.play_decisions(world, self.rules, draws, coins, allowed, s, self.ahead(), out)

    def review(self, plausible: Plausible) -> None:
        """Use a set that holds the true MDP, if the baseline is proved to return to one state in all of it."""
        if self.next_review is not None and self.steps < self.next_review:
            return
        self.next_review = int(self.steps * REVIEW_AGAIN) + 1
        split = Reference.of(self.baseline, plausible, self.steps)
        found, coupling = (
            Netting(plausible, self.baseline.policy).references(split),
            couple(plausible, self.baseline.policy),
        )
        spans = [max(float(end.bias_high.max() - end.bias_low.min()), 0.0) for end in found]
        arrays = self.arrays
        if coupling is not None:
            spans = [min([coupling.span, *spans[:1]]), min([coupling.span, *spans[1:]])]
            arrays.ends[:] = max(split.gain_low, 0.0), split.gain_high
            arrays.by_set[:], arrays.kept[:] = coupling.worth, max(spans) if self.strict else 0.0
            owed = arrays.departures * coupling.worth
            arrays.owed[:] = owed.sum() - OUTWARDS * np.abs(owed).sum()
        for e, (end, span) in enumerate(zip(reversed(found), reversed(spans), strict=False)):
            if coupling is None:
                arrays.ends[e], arrays.kept[e] = end.gain_low, span if self.strict else 0.0
                lower, pair_state = plausible.r_lower, self.space.pair_state
                kernels.bound_by_set(plausible.rows, lower, pair_state, e, end.bias_low, end.bias_high, arrays)
        if self.baseline.span is None and spans:
            self.use_span(max(spans), coupling)

    def use_span(self, span: float, coupling: Coupling | None) -> None:
        """Use a span that a set has proved. All departures must lie in phases that were counted with a span.

        The bets are made for surprises up to r_max 2^m, and m is chosen by what was seen. Each choice has a share of δ
        of its own and is made at most once in a run: only a smaller `rank` begins the count again.
        """
        most = self.space.r_max + span if coupling is None else min(coupling.most, self.space.r_max + span)
        scale = math.ceil(math.log2(max(most / self.space.r_max, 2.0**LEAST_SCALE)))
        scale = scale if coupling is not None else max(scale, 1)
        rank = 2 * (scale - LEAST_SCALE) + (coupling is None)
        if rank < self.rank and not self.arrays.departures.any():
            self.rank = rank
            self._prove_by_outcomes(span)
            self._know_bias(span, coupling)
            for steps in self.log:
                self._count_log(steps)
        elif self.arrays.terms.span < math.inf:  # what was counted with a larger one stays valid
            self._know_bias(min(span, self.arrays.terms.span), coupling)

    def _bets(self, span: float) -> tuple[float, float]:
        """How large surprises may be, and how many times smaller the share of δ is, for the choice that was made."""
        if self.rank == UNRANKED:
            return self.space.r_max + (span if span < math.inf else 0.0), 1.0
        scale, is_uncoupled = self.rank // 2 + LEAST_SCALE, self.rank % 2
        return self.space.r_max * 2.0**scale, 2.0 * (2.0**scale if is_uncoupled else 3.0 * 2.0 ** abs(scale + 1))

    def _know_bias(self, span: float, coupling: Coupling | None) -> None:
        """From now on the span is at most this, and the bias within the bounds of a coupling, if there is one."""
        terms = self.arrays.terms._replace(span=span, reserve=span if self.strict else 0.0)
        if self.rank % 2 == 0 and coupling is not None:
            most = min(coupling.most, self.space.r_max + span, self._bets(span)[0])
            low, high = coupling.difference, -coupling.difference.T
            terms, told = terms._replace(coupled=True, most=most), coupling.told
            told = np.zeros((0, 0)) if told is None else told
            spread = np.maximum(high - low, 0.0) / 2
            self.arrays = self.arrays._replace(middle=(low + high) / 2, spread=spread, told=told)
        self.arrays = self.arrays._replace(terms=terms)

    def _prove_by_outcomes(self, span: float) -> None:
        """Count rests and phases from now on with this span; inf: outcomes prove nothing."""
        r_max, now, steps = self.space.r_max, self.arrays.now, self.arrays.now[STEPS]
        now[:] = 0.0  # whatever was counted with another span
        now[STEPS], now[RESTS], now[HIGH], now[RENEW] = steps, 1.0, r_max, 1.0
        reserve, patience = span if self.strict else 0.0, PATIENCE * max(1.0, span / r_max)
        below, choices = self._bets(span)
        of_phases, of_gain = OF_PHASES * self.delta / choices, (1 - OF_PHASES) / 2 * self.delta / choices
        terms = self.arrays.terms._replace(span=span, reserve=reserve, patience=patience, coupled=False)
        terms = terms._replace(threshold=-math.log(of_phases), of_gain=-math.log(of_gain))
        bets = [new_bets(below) for _ in BETS]
        for name in SEEN:
            getattr(self.arrays, name)[:] = 0
        self.arrays = self.arrays._replace(terms=terms, of_phases=bets[0], above=bets[1], below=bets[2])

    def forget_sets(self) -> None:
        """Nothing that a set has proved is believed any more; what outcomes prove with a declared span stays."""
        self.arrays.by_set[:], self.arrays.owed[:] = -math.inf, 0.0
        self.arrays.ends[:] = math.inf, -math.inf
        self.next_review = None
        if self.baseline.span is None:
            self._prove_by_outcomes(math.inf)

    def ahead(self) -> kernels.Telescope:
        """A copy that a simulator may play with."""
        arrays = self.arrays
        copied: dict[str, Any] = {name: getattr(arrays, name).copy() for name in COUNTED}
        copied |= {name: _copy(getattr(arrays, name)) for name in BETS}
        return arrays._replace(**copied)

    @property
    def steps(self) -> int:
        """Steps counted."""
        return int(self.arrays.now[STEPS])

    @property
    def gain_bounds(self) -> tuple[float, float]:
        """What the baseline's gain is proved to lie between, by its own steps and by the set, in the user's unit."""
        low, high = kernels.gain_between(self.arrays)
        return float(self.space.money.earned(low)), float(self.space.money.earned(high))

    @property
    def worth(self) -> float:
        """W: what all departures so far are proved to be worth at least."""
        arrays, by_set = self.arrays, -math.inf
        if not arrays.departures.any():
            return 0.0
        if arrays.ends[0] <= arrays.ends[1]:
            by_set = float(arrays.owed.min())
        if arrays.now[PHASES] and arrays.terms.span < math.inf:
            return max(by_set, float(kernels.proved_worth(arrays, kernels.gain_between(arrays)[1], False)))
        return by_set

    @property
    def balance(self) -> float:
        """What may be lost now; -inf if nothing is proved."""
        return float(max(kernels.left_over(self.arrays, -1)))

    @property
    def terms(self) -> dict[str, float]:
        """What the balance is made of."""
        return {"proved": self.balance}

    @property
    def contradictions(self) -> list[str]:
        """What the steps of the baseline say against the declared span."""
        low, high = self.arrays.now[LOW], self.arrays.now[HIGH]
        if self.baseline.span is None or low <= high:
            return []
        money = self.space.money
        span = f"the declared span of the baseline's bias, {money.amount(self.baseline.span)}"
        above, below = (money.amount(money.earned(gain)) for gain in (low, high))
        return [f"{span}: with it, the baseline's steps prove a gain above {above} and one below {below}"]

    def state_dict(self) -> dict[str, Any]:
        """Everything that was counted."""
        ahead = self.ahead()
        kept: dict[str, Any] = {name: getattr(ahead, name) for name in COUNTED}
        kept |= {name: np.vstack([getattr(ahead, name).lambda_, getattr(ahead, name).log_wealth]) for name in BETS}
        kept |= {name: getattr(ahead.terms, name) for name in ("span", "coupled", "most")} | {"rank": self.rank}
        return kept | {"next_review": self.next_review}

    def restored(self, state: dict[str, Any]) -> Self:
        """An account of the same arguments that remembers what `state_dict` returned."""
        other = type(self)(self.space, self.baseline, self.tolerance, self.delta, self.strict, self.saving)
        known = self.baseline.span is not None
        other.log, other.rank = self.log, int(state.get("rank", UNRANKED if known else 0))  # 0: it had none once
        other._prove_by_outcomes(float(state["span"]))
        told: dict[str, Any] = {
            "coupled": bool(state.get("coupled", False)),
            "most": float(state.get("most", math.inf)),
        }
        other.arrays = other.arrays._replace(terms=other.arrays.terms._replace(**told))
        other.next_review = state["next_review"]
        other.arrays = other.arrays._replace(**{name: state[name].copy() for name in BIAS if name in state})
        for name in (name for name in COUNTED if name not in BIAS):
            getattr(other.arrays, name)[..., : state[name].shape[-1]] = state[name]
        for name in BETS:
            bets = getattr(other.arrays, name)
            bets.lambda_[:], bets.log_wealth[:] = state[name][0], state[name][1:]
        return other


def _copy(bets: Bets) -> Bets:
    return bets._replace(log_wealth=bets.log_wealth.copy())
