"""The account of `certificates.unknown`, compiled: departures from a baseline whose gain and bias are unknown.

What a stretch of steps is worth follows from its rewards alone, up to the span of the bias: the bias of each state on
the way cancels. A *phase* is such a stretch. It begins with a departure and goes on until the baseline was played
several times in a row. All other steps, *rests*, tell what the baseline earns.
"""

import math
from typing import NamedTuple

from surefooted.arrays import Bools, Floats, Ints
from surefooted.kernels.account import Rules
from surefooted.kernels.compile import allocating, njit
from surefooted.kernels.martingale import OUTWARDS, Bets, add_exactly, sum_of_means
from surefooted.kernels.playing import draw_from, noisy_reward
from surefooted.kernels.rows import Rows, extreme
from surefooted.kernels.sorting import rank_states, workspace
from surefooted.kernels.structs import NO_NOISE, Fields, Steps, World

# What stands where in `Telescope.now`: steps counted; of phases their steps, rewards and number; of rests likewise;
# whether a phase is open, and for how many steps nothing has departed in it; bounds on the gain, and after how many
# rests to renew them; when to ask again after a refusal
STEPS, PHASE_STEPS, PHASE_REWARDS, PHASES, REST_STEPS, REST_REWARDS, RESTS = range(7)
OPEN, IDLE, LOW, HIGH, RENEW, RESUME = range(7, 13)


class Terms(NamedTuple):
    """What does not change from step to step."""

    alpha: float
    added: float  # what each step pays in beside α times the gain, which is counted from the lowest reward
    allowance: float
    reserve: float  # the span, or 0 without a reserve
    span: float  # at least max h - min h; inf if it was not declared
    r_max: float
    threshold: float  # ln(1 / δ) of the bets on phases
    of_gain: float  # ln(1 / δ) of the bets on each side of the gain
    patience: float  # a phase ends when nothing has departed for this many steps
    saving: float  # after a refusal nothing departs until the run has grown by this share


class Telescope(NamedTuple):
    """Terms, bets, what was seen of each pair, and what the plausible set says at both ends of the gain."""

    terms: Terms
    of_phases: Bets
    above: Bets  # on rests: they bound the gain from above
    below: Bets  # on rests: they bound the gain from below
    visits: Ints  # [K]
    total: Floats  # [K], the sum of the rewards
    usual: Ints  # [K], the next state that leads a majority vote
    votes: Ints  # [K], by how much it leads
    missed: Ints  # [K], how often the next state was another one
    departures: Ints  # [K]
    ends: Floats  # [2], the least and the largest gain in the set
    by_set: Floats  # [2, K], what a departure is worth at least if the gain is that end; -inf: nothing
    kept: Floats  # [2], the reserve if the gain is that end: at least the span of the bias then, or 0
    owed: Floats  # [2], all departures so far, each at its `by_set`
    now: Floats  # [13]


@njit
def charge(bets: Bets, x: float, slack: float) -> None:
    """One more step whose surprise lies between x - slack and x + slack.

    Each bet keeps minus the largest value of λ ξ - ln(1 + λ ξ), a convex function, over that interval.
    """
    for j in range(len(bets.lambda_)):
        low, high = bets.lambda_[j] * (x - slack), bets.lambda_[j] * (x + slack)
        add_exactly(bets.log_wealth, j, -max(low - math.log1p(low), high - math.log1p(high)))


@njit
def renew_gain(account: Telescope) -> None:
    """Bound the gain by all rests so far; older bounds stay valid."""
    now, terms = account.now, account.terms
    n, ends = now[REST_STEPS], terms.span * now[RESTS]
    high = (now[REST_REWARDS] + ends - sum_of_means(account.above, terms.of_gain)) / n
    low = (now[REST_REWARDS] - ends + sum_of_means(account.below, terms.of_gain)) / n
    now[HIGH], now[LOW] = min(now[HIGH], high + OUTWARDS * abs(high)), max(now[LOW], low - OUTWARDS * abs(low))
    now[RENEW] = n * 1.01 + 1.0


@njit
def gain_between(account: Telescope) -> tuple[float, float]:
    """Bounds on the gain by the rests and by the set; they cross if something that was declared is wrong."""
    low, high = account.now[LOW], account.now[HIGH]
    if account.ends[0] <= account.ends[1]:
        low, high = max(low, account.ends[0]), min(high, account.ends[1])
    return low, high


@njit
def proved_worth(account: Telescope, gain: float, open_one: bool) -> float:
    """A lower bound on W by the outcomes of all phases if the gain is `gain`; `open_one`: after one more departure."""
    now, terms, more = account.now, account.terms, 1.0 if open_one else 0.0
    phases = now[PHASES] + (more if now[OPEN] == 0.0 else 0.0)
    luck = sum_of_means(account.of_phases, terms.threshold) if now[PHASES] > 0.0 else 0.0
    parts = now[PHASE_REWARDS], terms.span * phases, (now[PHASE_STEPS] + more) * gain
    worth: float = parts[0] - parts[1] - parts[2] + luck - OUTWARDS * (parts[0] + parts[1] + parts[2])
    return worth


@njit
def left_over(account: Telescope, pair: int) -> tuple[float, float]:
    """A lower bound on B - R + (α g + added) t + W, by outcomes and by the set.

    It is that of now if `pair` is -1, and else that after a next step that departs to `pair`. The bounds are linear or
    concave in the unknown gain, so the smaller value at two bounds on it counts.
    """
    now, terms, departs = account.now, account.terms, pair >= 0
    t = now[STEPS] + (1.0 if departs else 0.0)
    by_outcomes = by_set = -math.inf
    least, largest = gain_between(account)
    if terms.span < math.inf and least <= largest:
        low, high = proved_worth(account, least, departs), proved_worth(account, largest, departs)
        by_outcomes = min(low + terms.alpha * t * least, high + terms.alpha * t * largest)
        by_outcomes += terms.allowance - terms.reserve + terms.added * t
    if account.ends[0] <= account.ends[1]:
        by_set = math.inf
        for e in range(2):
            worth = account.owed[e] + (account.by_set[e, pair] if departs else 0.0) - account.kept[e]
            by_set = min(by_set, worth + terms.alpha * t * account.ends[e])
        by_set += terms.allowance + terms.added * t
    return by_outcomes, by_set


@njit
def decide(account: Telescope, rules: Rules, s: int) -> tuple[bool, bool]:
    """Whether the proposal is played in s, and whether that departs from the baseline."""
    pair = rules.proposed[s]
    if pair == rules.alone[s]:
        return True, False
    now = account.now
    if now[STEPS] < now[RESUME]:
        return False, False
    by_outcomes, by_set = left_over(account, pair)
    pays = max(by_outcomes, by_set) >= 0.0
    if not pays:
        now[RESUME] = now[STEPS] * (1.0 + account.terms.saving)
    return pays, pays


@njit
def settle(account: Telescope, pair: int, reward: float, s_next: int, departed: bool) -> None:
    """A step earned `reward` and led to `s_next`."""
    now, terms = account.now, account.terms
    now[STEPS] += 1.0
    if departed:
        account.departures[pair] += 1
        for e in range(2):
            account.owed[e] += account.by_set[e, pair]
        if now[OPEN] == 0.0:
            now[OPEN], now[PHASES] = 1.0, now[PHASES] + 1.0
    count(account, pair, reward, s_next)
    if now[OPEN] > 0.0:
        now[IDLE] = 0.0 if departed else now[IDLE] + 1.0
        if now[IDLE] >= terms.patience:
            now[OPEN], now[IDLE], now[RESTS] = 0.0, 0.0, now[RESTS] + 1.0


@njit
def count(account: Telescope, pair: int, reward: float, s_next: int) -> None:
    """One more step of the phase that is open, or of the rest; it teaches what to expect of the pair.

    The guess of r + h(s') is the mean reward so far plus the bias of the usual next state, or plus the middle of the
    bias if the usual one is missed more than a quarter of the time.
    """
    now, terms, n = account.now, account.terms, account.visits[pair]
    earned = min(max(reward, 0.0), terms.r_max)
    x = earned - (account.total[pair] / n if n > 0 else terms.r_max / 2)
    missed = n > 0 and s_next != account.usual[pair]
    slack = terms.span / 2
    if n > 0 and 4 * account.missed[pair] <= n:
        slack = terms.span if missed else 0.0
    if terms.span < math.inf:
        if now[OPEN] > 0.0:
            charge(account.of_phases, x, slack)
            now[PHASE_STEPS] += 1.0
            now[PHASE_REWARDS] += earned
        else:
            charge(account.above, -x, slack)
            charge(account.below, x, slack)
            now[REST_STEPS] += 1.0
            now[REST_REWARDS] += earned
            if now[REST_STEPS] >= now[RENEW]:
                renew_gain(account)
    account.visits[pair] += 1
    account.total[pair] += earned
    account.missed[pair] += 1 if missed else 0
    if account.votes[pair] == 0:
        account.usual[pair] = s_next
    account.votes[pair] += 1 if s_next == account.usual[pair] else -1


@njit
def book_steps(account: Telescope, rules: Rules, s: int, steps: Steps, explored: Bools) -> None:
    """Settle steps that were played from s as `decide` says; `explored` [n] tells which played the proposal."""
    for t in range(len(explored)):
        explored[t], departed = decide(account, rules, s)
        s = steps.next_states[t]
        settle(account, steps.pairs[t], steps.rewards[t], s, departed)


@njit
def play_decisions(
    world: Fields, rules: Rules, draws: Floats, coins: Floats, allowed: Ints, s: int, account: Telescope, steps: Fields
) -> int:
    """Play from s as `decide` says until a pair has had its `allowed` visits or `steps` are full; how many steps.

    The other arguments are those of `kernels.playing.play_episode`. The account is settled on the way.
    """
    world, steps = World(*world), Steps(*steps)
    for t in range(len(steps.pairs)):
        explores, departed = decide(account, rules, s)
        k = rules.proposed[s] if explores else rules.alone[s]
        if k < 0:
            k = draw_from(coins[t], rules.weights, world.pair_ptr[s], world.pair_ptr[s + 1])
        s = world.next_state[draw_from(draws[t, 0], world.p, world.next_ptr[k], world.next_ptr[k + 1])]
        draw = draws[t, 1] if world.noise != NO_NOISE else 0.0
        reward = world.low + noisy_reward(draw, world.r[k], world.r_max, world.noise, world.scale)
        settle(account, k, reward - world.low, s, departed)
        steps.pairs[t], steps.rewards[t], steps.next_states[t] = k, reward, s
        allowed[k] -= 1
        if allowed[k] <= 0:
            return t + 1
    return len(steps.pairs)


@allocating
def bound_by_set(
    rows: Rows, r: Floats, pair_state: Ints, e: int, low: Floats, high: Floats, account: Telescope
) -> None:
    """`by_set[e]` = r + min p low - high - gain over the plausible rows p; `low` and `high` [S] bound the bias.

    They hold if the gain is ends[e]. All departures so far are valued again.
    """
    work = workspace(len(low))
    rank_states(low, -1.0, work)
    total, size = 0.0, 0.0
    for k in range(len(pair_state)):
        worth = r[k] + extreme(rows, k, low, work) - high[pair_state[k]] - account.ends[e]
        account.by_set[e, k] = worth
        total += account.departures[k] * worth
        size += account.departures[k] * abs(worth)
    account.owed[e] = total - OUTWARDS * size
