"""The account: what the decisions so far are worth compared with the baseline, and what may be risked next.

Let g and h be the gain and bias of the baseline. Playing a in s is worth

    A(s, a) = r(s, a) + sum_s' p(s' | s, a) h(s') - h(s) - g

compared with the baseline in the long run. W_t adds this up over the steps up to t that departed from the baseline. The
condition on decisions is W_t >= -α t g at every t: with an allowance B, W_t >= -B - α t g. `certificates.tolerance`
says what each step pays in if there is more than α. Over a finite horizon the values V_h of the baseline take the place
of h, each episode pays in α V_1(s_1), and g is 0. Rewards, g and V_h are counted from `low` (`tables.money`).

*Checkpoints.* If the condition is kept at dates only, all that is paid in until the next date T counts at once. Steps
of the baseline change W by nothing and pay in something not negative. So if what is paid in until T covers W and the
worst case of a departure now, then with nothing but the baseline up to T it covers W at T.

Each departure leaves a deposit: what it could cost. When the outcome D = r + h(s') - h(s) - g is known, the deposit
comes back and D counts, with all others, in one bound on W (`certificates.martingale`). It pays ln(1 / δ) once, not
once for every pair. The proofs are in docs/guarantees.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from surefooted.certificates.ahead import OF_CHOICES, Ahead, copied
from surefooted.certificates.martingale import new_bets
from surefooted.certificates.tolerance import Tolerance
from surefooted.kernels import account as kernels
from surefooted.kernels.account import ADVANCED, PAID_IN, PROVED, STEPS, Rules, Terms
from surefooted.kernels.martingale import sum_of_means
from surefooted.kernels.structs import Fields, Steps
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Bools, Floats, Ints, Space

PAIRWISE = 0.1  # the share of δ for bounds on what single pairs are worth; the rest is for the bound on W
TINY = 1e-9  # the least range of outcomes, times r_max


class Verdict(NamedTuple):
    """Whether a departure is paid for: what it could cost, and what is in the account before it."""

    pays: bool
    deposit: float
    balance: float


@dataclass(frozen=True)
class Entry:
    """One departure: what was put down for it, what it turned out to be worth, and the balance afterwards."""

    t: int
    state: int
    action: int
    deposit: float
    reward: float
    next_state: int
    worth: float
    balance: float
    space: Space = field(repr=False)

    def __str__(self) -> str:
        """One line that a planner can read."""
        space = self.space
        cost, earned, balance = (space.amount(x, ".3g") for x in (self.deposit, self.reward, self.balance))
        what = f"step {self.t}: {space.words(space.pair(self.state, self.action))}, could cost {cost}"
        led = f"earned {earned}, led to state {space.state_words(self.next_state)}"
        return f"{what}: {led}, worth {space.amount(self.worth, '+.3g')}; balance {balance}"


class Account:
    """Pays for departures from a baseline whose gain and bias, or values of every stage, are known.

    Parameters
    ----------
    space : the states and their actions
    baseline : the baseline, with its gain and bias, or with the values of all stages
    tolerance : what may be lost, compared with the baseline; a number is α
    delta : the probability with which the bounds may ever fail
    strict : keep a reserve for the state that exploring ends in (average reward)
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
        if baseline.gain is not None and baseline.bias is not None:
            gain, worth, stages = float(space.money.counted(baseline.gain)), np.array(baseline.bias), 0
            rate, every = tolerance.rate(baseline.gain), tolerance.every
            lowest: Floats = np.full(space.n_states, worth.min())
            range_ = float(np.ptp(worth)) + space.r_max
        else:
            assert baseline.values is not None and baseline.values.ndim == 2
            stages = len(baseline.values) - 1
            values = space.money.values_counted(baseline.values, stages)
            gain, worth, after, rate, every = 0.0, values.reshape(-1).copy(), values[1:], 0.0, 1
            lowest = np.append(np.repeat(after.min(axis=1), space.n_states), np.zeros(space.n_states))
            range_ = float(np.ptp(after, axis=1).max()) + space.r_max
        choices = space.n_pairs * max(stages, 1)
        largest = max(float((worth - lowest).max()) + gain, TINY * space.r_max)
        share = PAIRWISE * delta / choices
        terms = Terms(
            gain=gain,
            rate=rate,
            opening=float(tolerance.allowance),
            threshold=-math.log((1 - PAIRWISE) * delta),
            log_term=-math.log(share),
            range_=range_,
            largest=largest,
            stages=stages,
            every=every,
            saving=saving,
        )
        counted = (np.zeros(choices, dtype=np.int64), np.zeros(choices), np.zeros(choices))
        departures, by_set = np.zeros(choices, dtype=np.int64), np.full(choices, -np.inf)
        dates = np.array(tolerance.dates, dtype=np.int64)
        self.arrays = kernels.Account(
            terms, worth, lowest, new_bets(largest), *counted, departures, by_set, np.zeros(5), dates
        )
        self._ahead = Ahead()
        self._alone, self._weights = only_pairs(baseline.policy, stages)
        self.rules = Rules(self._alone, self._alone, self._weights)  # what is proposed, and the baseline

    @property
    def reserve(self) -> float:
        """What must be saved up before the first departure."""
        return self.tolerance.allowance - self.arrays.terms.opening

    def begin(self, start: int) -> None:
        """The run begins in that state; with `strict` this determines the reserve."""
        h = self.baseline.bias
        if self.strict and h is not None:
            alpha = self.tolerance.alpha
            reserve = float(h.max() - (1 - alpha) * h.min() - alpha * h[start])
            terms = self.arrays.terms._replace(opening=self.tolerance.allowance - reserve)
            self.arrays = self.arrays._replace(terms=terms)

    def credit(self, s: int) -> float:
        """What an episode from s pays in."""
        assert self.baseline.start_values is not None
        return float(self.tolerance.of_episodes(self.baseline.start_values[s], self.arrays.terms.stages))

    def pay_in(self, s: int, episode: int) -> None:
        """An episode from s begins, the first one being episode 1.

        Until the next date more is paid in, from whichever starts: at least the smallest credit for each episode.
        """
        now, tolerance = self.arrays.now, self.tolerance
        now[PAID_IN] += self.credit(s)
        if not tolerance.at_every_step:
            assert self.baseline.start_values is not None
            least = float(tolerance.of_episodes(self.baseline.start_values, self.arrays.terms.stages).min())
            now[ADVANCED] = (tolerance.next_date(episode) - episode) * least

    def propose(self, proposal: Policy | None) -> None:
        """A deterministic policy that is played wherever the account pays for it; None: the baseline is played."""
        stages, proposed = self.arrays.terms.stages, self._alone
        if proposal is not None:
            proposed = every_stage(proposal.stages(max(stages, 1))[0], stages)
        self.rules = Rules(proposed, self._alone, self._weights)

    def proposed(self, place: int) -> int:
        """The pair that is proposed at a place, if it departs from the baseline; -1 if it does not."""
        pair = int(self.rules.proposed[place])
        return -1 if pair == self._alone[place] else pair

    def verdict(self, place: int) -> Verdict:
        """Whether the account pays for what is proposed at a place, a departure from the baseline. Nothing changes."""
        pair = int(self.rules.proposed[place])
        choice = pair + place // self.space.n_states * self.space.n_pairs
        pays, proved = kernels.may_depart(self.arrays, place, choice)
        deposit = max(-float(kernels.least_advantage(self.arrays, place, choice)), 0.0)
        return Verdict(bool(pays), deposit, float(kernels.paid_in(self.arrays)) + float(proved))

    def book(self, s: int, pairs: Ints, rewards: Floats, next_states: Ints, stage: int = 0) -> Bools:
        """Settle steps from s on, for which the account was asked; which of them played the proposal, [n].

        Rewards are counted from `low`. `stage` is that of the first step, over a finite horizon.
        """
        explored = np.zeros(len(pairs), dtype=np.bool_)
        self._touch(pairs, stage)
        kernels.book_steps(self.arrays, self.rules, stage, s, Steps(pairs, rewards, next_states), explored)
        return explored

    def review(self, plausible: Plausible) -> None:
        """Use a set that holds the true MDP: it bounds every departure, and so their sum."""
        kernels.bound_by_set(plausible.rows, plausible.r_lower, self.space.pair_state, self.arrays)

    def forget_sets(self) -> None:
        """Nothing that a set has proved is believed any more; the bound from all outcomes stays."""
        self.arrays.by_set[:] = -np.inf
        if self.arrays.departures.any():
            self.arrays.now[PROVED] = sum_of_means(self.arrays.bets, self.arrays.terms.threshold)

    def play(self, world: Fields, draws: Floats, coins: Floats, allowed: Ints, s: int, out: Fields) -> int:
        """Play on a true table from s as the account allows; how many steps. Nothing here changes."""
        n: int = kernels.play_decisions(world, self.rules, draws, coins, allowed, s, self._ahead.of(self.arrays), out)
        self._touch(Steps(*out).pairs[:n], 0)
        return n

    def _touch(self, pairs: Ints, stage: int) -> None:
        """Steps from a stage on have been counted, here or in the copy that a simulator plays with."""
        later = (stage + np.arange(len(pairs))) * self.space.n_pairs if self.arrays.terms.stages > 0 else 0
        self._ahead.touch(pairs + later)

    @property
    def next_review(self) -> int | None:
        """The step at which the set must be used again, if need be in the middle of an episode: never."""
        return None

    @property
    def contradictions(self) -> list[str]:
        """None: the agent's check of what was declared finds them."""
        return []

    @property
    def steps(self) -> int:
        """Steps counted."""
        return int(self.arrays.now[STEPS])

    @property
    def worth(self) -> float:
        """W: what all departures so far are proved to be worth at least."""
        return float(kernels.proved_worth(self.arrays))

    @property
    def terms(self) -> dict[str, float]:
        """What the balance is made of."""
        terms = self.arrays.terms
        saved = terms.rate * float(self.arrays.now[STEPS]) + float(self.arrays.now[PAID_IN])
        parts = {"saved up": saved, "departures so far": self.worth}
        if not self.tolerance.at_every_step:
            t = float(self.arrays.now[STEPS]) + 1
            ahead = terms.rate * (float(kernels.next_date(self.arrays, t)) - t) if terms.stages == 0 else 0.0
            parts["until the next checkpoint"] = ahead + float(self.arrays.now[ADVANCED])
        parts |= {"allowance": self.tolerance.allowance} if self.tolerance.allowance else {}
        return parts | ({"reserve": -self.reserve} if self.reserve else {})

    @property
    def balance(self) -> float:
        """What may be lost now."""
        return sum(self.terms.values())

    def statement(
        self, start: int, pairs: Ints, rewards: Floats, next_states: Ints, departed: Bools
    ) -> Iterator[Entry]:
        """One entry for each departure of a run of average reward, from its first step on; nothing here changes.

        Rewards are those of the run, in the user's unit. What sets have proved is left out, so that balances are those
        of an agent without knowledge.
        """
        book = type(self)(self.space, self.baseline, self.tolerance, self.delta, self.strict, self.saving)
        book.begin(start)
        s = start
        for t, (k, reward, s_next, left) in enumerate(zip(pairs, rewards, next_states, departed, strict=True), start=1):
            deposit = max(-float(kernels.least_advantage(book.arrays, s, k)), 0.0) if left else 0.0
            counted = float(self.space.money.counted(reward))
            kernels.settle(book.arrays, s, k, counted, s_next, left)
            if left:
                worth = counted + book.arrays.worth[s_next] - book.arrays.worth[s] - book.arrays.terms.gain
                ended = (float(reward), int(s_next), float(worth), book.balance)
                yield Entry(t, int(s), int(self.space.pair_action[k]), deposit, *ended, self.space)
            s = s_next

    def state_dict(self) -> dict[str, Any]:
        """Everything that was counted."""
        arrays = copied(self.arrays)
        kept = {name: getattr(arrays, name) for name in (*OF_CHOICES, "now")}
        kept |= {"log_wealth": arrays.bets.log_wealth, "guessed": arrays.bets.guessed}
        return kept | {"by_set": arrays.by_set.copy(), "opening": arrays.terms.opening}

    def restored(self, state: dict[str, Any]) -> Self:
        """An account of the same arguments that remembers what `state_dict` returned."""
        other = type(self)(self.space, self.baseline, self.tolerance, self.delta, self.strict, self.saving)
        arrays, bets = other.arrays, other.arrays.bets
        for name in ("visits", "total", "square", "departures", "now", "by_set"):
            getattr(arrays, name)[:] = state[name]
        bets.log_wealth[:], bets.guessed[:] = state["log_wealth"], state["guessed"]
        other.arrays = arrays._replace(terms=arrays.terms._replace(opening=float(state["opening"])))
        return other


def only_pairs(policy: Policy, stages: int) -> tuple[Ints, Floats]:
    """The only pair that a policy plays at each place, -1 where it randomises; and the weights of all choices."""
    pairs, weights = policy.stages(max(stages, 1))
    if policy.is_deterministic:
        return every_stage(pairs, stages), np.zeros(0)
    space, alone = policy.space, np.full((len(weights), policy.space.n_states), -1)
    h, k = np.nonzero(weights >= 1.0)
    alone[h, space.pair_state[k]] = k
    return every_stage(alone, stages), every_stage(weights, stages)


def guessed_as(policy: Policy) -> Ints:
    """The pair under which each is guessed, [K]: itself, or the first of its state if the policy randomises there."""
    space, (alone, _) = policy.space, only_pairs(policy, 0)
    return np.where(alone[space.pair_state] < 0, space.pair_ptr[space.pair_state], np.arange(space.n_pairs))


def every_stage(rule: Any, stages: int) -> Any:
    """One decision rule, or one for each stage, in one row of its own: kernels are compiled for writable rows."""
    return np.array(np.broadcast_to(rule, (max(stages, 1), rule.shape[1])), order="C").reshape(-1)
