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
# If the bias has bounds of its own: how many steps were counted with them, and what these earned with the change of the
# bias, in the middle of its bounds, and how far from it
POOLED, GAINED, DOUBT = range(13, 16)


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
    coupled: bool = False  # whether `middle` and `spread` bound differences of the bias
    most: float = math.inf  # if so, no surprise is larger


class Telescope(NamedTuple):
    """Terms, bets, what was seen of each pair, and what the plausible set says at both ends of the gain."""

    terms: Terms
    of_phases: Bets
    above: Bets  # on rests: they bound the gain from above
    below: Bets  # on rests: they bound the gain from below
    guessed_as: Ints  # [K], the pair under which each counts in the next five: known before the baseline draws
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
    middle: Floats  # [S, S], h(x) - h(y) lies within `spread` of it, if the terms are coupled
    spread: Floats  # [S, S]
    told: Floats  # [K, S], what a pair that leads to a state earns, if the terms are coupled; empty if not known
    now: Floats  # [16]


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
    worth: float = parts[0] - parts[1] - parts[2] + luck - OUTWARDS * (abs(parts[0]) + parts[1] + parts[2])
    return worth


@njit
def left_over(account: Telescope, pair: int) -> tuple[float, float]:
    """A lower bound on B - R + (α g + added) t + W, by outcomes and by the set.

    It is that of now if `pair` is -1, and else that after a next step that departs to `pair`. The bounds are linear or
    concave in the unknown gain, so the smaller value at two bounds on it counts. A concave one lies above the line
    through its values at the ends of the set.
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
        ends, width = account.ends, account.ends[1] - account.ends[0]
        first, last = account.owed[0] - account.kept[0], account.owed[1] - account.kept[1]
        if departs:
            first, last = first + account.by_set[0, pair], last + account.by_set[1, pair]
        if not (width > 0.0 and least <= largest):
            least, largest = ends[0], ends[1]
        low = high = min(first, last)
        if width > 0.0 and low > -math.inf:
            low = first + (last - first) * ((least - ends[0]) / width)
            high = first + (last - first) * ((largest - ends[0]) / width)
        by_set = min(low + terms.alpha * t * least, high + terms.alpha * t * largest)
        by_set += terms.allowance + terms.added * t - OUTWARDS * (abs(first) + abs(last))
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
def settle(account: Telescope, s: int, pair: int, reward: float, s_next: int, departed: bool) -> None:
    """A step from s earned `reward` and led to `s_next`."""
    now, terms = account.now, account.terms
    now[STEPS] += 1.0
    if departed:
        account.departures[pair] += 1
        for e in range(2):
            account.owed[e] += account.by_set[e, pair]
        if now[OPEN] == 0.0:
            now[OPEN], now[PHASES] = 1.0, now[PHASES] + 1.0
    count(account, s, pair, reward, s_next)
    if now[OPEN] > 0.0:
        now[IDLE] = 0.0 if departed else now[IDLE] + 1.0
        if now[IDLE] >= terms.patience:
            now[OPEN], now[IDLE], now[RESTS] = 0.0, 0.0, now[RESTS] + 1.0


@njit
def guess_by_pair(account: Telescope, pair: int, earned: float, s_next: int) -> tuple[float, float]:
    """The surprise of a step and how far it may lie from that; the step teaches what to expect of its pair.

    The guess of r + h(s') is the mean reward so far plus the bias of the usual next state, or plus the middle of the
    bias if the usual one is missed more than a quarter of the time. All pairs of a state in which the baseline
    randomises have one guess: with one for each, the luck of its draws would not count.
    """
    pair = account.guessed_as[pair]
    terms, n = account.terms, account.visits[pair]
    x = earned - (account.total[pair] / n if n > 0 else terms.r_max / 2)
    missed = n > 0 and s_next != account.usual[pair]
    slack = terms.span / 2
    if n > 0 and 4 * account.missed[pair] <= n:
        slack = terms.span if missed else 0.0
    account.visits[pair] += 1
    account.total[pair] += earned
    account.missed[pair] += 1 if missed else 0
    if account.votes[pair] == 0:
        account.usual[pair] = s_next
    account.votes[pair] += 1 if s_next == account.usual[pair] else -1
    return x, slack


@njit
def guess_by_bias(account: Telescope, s: int, earned: float, s_next: int) -> tuple[float, float]:
    """The same if differences of the bias have bounds: the guess of r + h(s') - h(s) is its mean over all steps so far.

    The mean is known as far as the bounds go. A surprise is never larger than `most`, either way, because the guess of
    r + h(s') is cut to what is possible for its pair.
    """
    now, most = account.now, account.terms.most
    y, slack = earned + account.middle[s_next, s], account.spread[s_next, s]
    n = max(now[POOLED], 1.0)
    guess = now[GAINED] / n if now[POOLED] > 0.0 else account.terms.r_max / 2
    low, high = y - guess - slack - now[DOUBT] / n, y - guess + slack + now[DOUBT] / n
    now[POOLED], now[GAINED], now[DOUBT] = now[POOLED] + 1.0, now[GAINED] + y, now[DOUBT] + slack
    low, high = min(max(low, -most), most), max(min(high, most), -most)
    return (low + high) / 2, (high - low) / 2


@njit
def count(account: Telescope, s: int, pair: int, reward: float, s_next: int) -> None:
    """One more step of the phase that is open, or of the rest."""
    now, terms = account.now, account.terms
    earned = min(max(reward, 0.0), terms.r_max)
    if terms.coupled:
        if account.told.size:  # its mean is that of the reward, and it scatters less
            earned = account.told[pair, s_next]
        x, slack = guess_by_bias(account, s, earned, s_next)
    else:
        x, slack = guess_by_pair(account, pair, earned, s_next)
    if terms.span == math.inf:
        return
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


@njit
def count_log(account: Telescope, pair_state: Ints, steps: Steps) -> None:
    """Count steps of the baseline before the run; one that does not begin where the last one led begins a new rest."""
    at = -1
    for i in range(len(steps.pairs)):
        s = pair_state[steps.pairs[i]]
        if at >= 0 and s != at:
            account.now[RESTS] += 1.0
        at = steps.next_states[i]
        count(account, s, steps.pairs[i], steps.rewards[i], at)


@njit
def book_steps(account: Telescope, rules: Rules, s: int, steps: Steps, explored: Bools) -> None:
    """Settle steps that were played from s as `decide` says; `explored` [n] tells which played the proposal."""
    for t in range(len(explored)):
        explored[t], departed = decide(account, rules, s)
        settle(account, s, steps.pairs[t], steps.rewards[t], steps.next_states[t], departed)
        s = steps.next_states[t]


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
        s_next = world.next_state[draw_from(draws[t, 0], world.p, world.next_ptr[k], world.next_ptr[k + 1])]
        draw = draws[t, 1] if world.noise != NO_NOISE else 0.0
        reward = world.low + noisy_reward(draw, world.r[k], world.r_max, world.noise, world.scale)
        settle(account, s, k, reward - world.low, s_next, departed)
        steps.pairs[t], steps.rewards[t], steps.next_states[t] = k, reward, s_next
        s = s_next
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
