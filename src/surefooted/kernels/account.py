"""The account of `certificates.account`, compiled: what may be risked before a step, and what a step has shown.

For average reward, a *place* is a state and its worth is the bias h. For a finite horizon, place h S + s is state s at
stage h, and its worth is the baseline's value V_h(s). A *choice* is a pair, or pair k of stage h as h K + k.
"""

import math
from typing import NamedTuple

import numpy as np

from surefooted.arrays import Bools, Floats, Ints
from surefooted.kernels.compile import allocating, njit
from surefooted.kernels.intervals import mean_distance
from surefooted.kernels.martingale import OUTWARDS, Bets, place_bets, sum_of_means
from surefooted.kernels.playing import draw_from, noisy_reward
from surefooted.kernels.rows import Rows, extreme
from surefooted.kernels.sorting import rank_states, workspace
from surefooted.kernels.structs import NO_NOISE, Fields, Steps, World

STEPS, PROVED, PAID_IN, ADVANCED = 0, 1, 2, 3  # what stands where in `Account.now`


class Terms(NamedTuple):
    """What does not change from step to step: the numbers of the condition, and what its bounds need."""

    gain: float  # g; 0 for a finite horizon
    rate: float  # what each step pays in, not negative: α g, and a tolerance
    opening: float  # the allowance minus the reserve
    threshold: float  # ln(1 / δ) of the bets
    log_term: float  # ln(1 / δ') of the bound on the mean outcome of one choice
    range_: float  # outcomes r + worth(next place) from one place lie in an interval of this length
    largest: float  # no surprise is below -largest; every λ is below 1 / largest
    stages: int  # H, or 0 for average reward
    every: int  # average reward: the condition is kept after every so many steps; 0: at `dates`, and after the last


class Account(NamedTuple):
    """Terms, bets on all departures from the baseline, and the outcomes r + worth of each choice, scaled to [0, 1]."""

    terms: Terms
    worth: Floats  # [places]
    lowest: Floats  # [places], the lowest outcome r + worth(next place) of a step from there
    bets: Bets
    visits: Ints  # [choices]
    total: Floats  # [choices], the sum of the scaled outcomes
    square: Floats  # [choices], the sum of their squares
    departures: Ints  # [choices]
    by_set: Floats  # [choices], what the plausible set says that a departure is worth at least; -inf: nothing
    now: Floats  # [4]: steps counted, what departures are proved to be worth, what was paid in beside the rate, and
    # what is certain to be paid in until the condition must hold
    dates: Ints  # increasing steps


class Rules(NamedTuple):
    """What a learner proposes at each place, and the baseline: its only pair there (-1: it draws by `weights`)."""

    proposed: Ints  # [places]
    alone: Ints  # [places]
    weights: Floats  # [choices], or empty if the baseline never randomises


@njit
def worst(account: Account, place: int) -> float:
    """What a departure is worth at its worst: the least reward and the worst next place."""
    value: float = account.lowest[place] - account.worth[place] - account.terms.gain
    return value


@njit
def least_advantage(account: Account, place: int, choice: int) -> float:
    """What a departure is worth at least on average, by all that was seen of the choice and by the plausible set."""
    n, terms, scaled = float(account.visits[choice]), account.terms, 0.0
    if n > 0.0:
        scaled = mean_distance(n, account.total[choice], account.square[choice], 0.0, 1.0, terms.log_term)
    return max(worst(account, place) + terms.range_ * scaled, float(account.by_set[choice]))


@njit
def proved_worth(account: Account) -> float:
    """A lower bound on W: from all outcomes so far, or an earlier one with each departure since at its worst."""
    return max(float(account.now[PROVED]), sum_of_means(account.bets, account.terms.threshold))


@njit
def next_date(account: Account, t: float) -> float:
    """The first step, t or later, after which the condition must hold."""
    every = account.terms.every
    if every == 1:
        return t
    if every > 1:
        return math.ceil(t / every) * float(every)
    at = np.searchsorted(account.dates, t)
    return float(account.dates[at]) if at < len(account.dates) else t


@njit
def paid_in(account: Account) -> float:
    """What may be lost in all when the condition must hold again: all that is paid in until then counts."""
    terms, now = account.terms, account.now
    limit: float = terms.opening + terms.rate * next_date(account, now[STEPS] + 1.0) + now[PAID_IN] + now[ADVANCED]
    return limit


@njit
def may_depart(account: Account, place: int, choice: int) -> tuple[bool, float]:
    """Whether the account pays for a departure at its worst, and what W is proved to be; nothing changes.

    The reserve must have been saved up, however good the departure is proved to be. What was proved before comes first,
    since computing the bound takes longer than a step.
    """
    limit, loss, proved = paid_in(account), worst(account, place), account.now[PROVED]
    if limit < 0.0:
        return False, proved
    if limit + proved + loss >= 0.0:
        return True, proved
    proved = proved_worth(account)
    if limit + proved + loss >= 0.0:
        return True, proved
    return limit + proved + least_advantage(account, place, choice) >= 0.0, proved


@njit
def decide(account: Account, rules: Rules, place: int, first: int) -> tuple[bool, bool]:
    """Whether the proposal is played, and whether that departs from the baseline; pair k is choice `first` + k."""
    pair = rules.proposed[place]
    if pair == rules.alone[place]:
        return True, False
    pays, account.now[PROVED] = may_depart(account, place, first + pair)
    return pays, pays


@njit
def guess_worth(account: Account, place: int, choice: int) -> float:
    """A guess at what a departure will be worth, from earlier outcomes: their mean, a little closer to the baseline.

    No outcome is below the guess by more than `largest`.
    """
    terms, n, loss, guess = account.terms, float(account.visits[choice]), worst(account, place), 0.0
    if n > 0.0:
        guess = (loss + terms.range_ * account.total[choice] / n) * n / (n + 1.0)
    return min(guess, terms.largest + loss)


@njit
def scaled_outcome(account: Account, place: int, outcome: float) -> float:
    """An outcome r + worth of a step from a place, scaled to [0, 1]."""
    scaled: float = min(max((outcome - account.lowest[place]) / account.terms.range_, 0.0), 1.0)
    return scaled


@njit
def settle(account: Account, place: int, choice: int, reward: float, next_place: int, departed: bool) -> None:
    """A step earned `reward` and led to `next_place`."""
    here, outcome = account.worth[place] + account.terms.gain, reward + account.worth[next_place]
    if departed:
        loss = worst(account, place)
        place_bets(account.bets, max(outcome - here, loss), guess_worth(account, place, choice))
        account.now[PROVED] += loss
        account.departures[choice] += 1
    scaled = scaled_outcome(account, place, outcome)
    account.visits[choice] += 1
    account.total[choice] += scaled
    account.square[choice] += scaled * scaled
    account.now[STEPS] += 1.0


@njit
def strides(account: Account) -> tuple[int, int]:
    """How far apart the places, and the choices, of two stages are; 0 for average reward."""
    stages = account.terms.stages
    if stages == 0:
        return 0, 0
    return len(account.worth) // (stages + 1), len(account.visits) // stages


@njit
def book_steps(account: Account, rules: Rules, stage: int, s: int, steps: Steps, explored: Bools) -> None:
    """Settle steps that were played from s as `decide` says; `explored` [n] tells which played the proposal.

    `stage` is that of the first step, 0 for average reward.
    """
    places, choices = strides(account)
    for t in range(len(explored)):
        h = stage + t
        place, first, s = s + h * places, h * choices, steps.next_states[t]
        explored[t], departed = decide(account, rules, place, first)
        settle(account, place, first + steps.pairs[t], steps.rewards[t], s + (h + 1) * places, departed)


@njit
def play_decisions(
    world: Fields, rules: Rules, draws: Floats, coins: Floats, allowed: Ints, s: int, account: Account, steps: Fields
) -> int:
    """Play from s as `decide` says until a pair has had its `allowed` visits or `steps` are full; how many steps.

    `world`, `draws`, `coins` and `allowed` are those of `kernels.playing.play_episode`. The account is settled on the
    way. For a finite horizon `steps` has room for one episode.
    """
    world, steps, (places, choices) = World(*world), Steps(*steps), strides(account)
    stride = world.pair_ptr[len(world.pair_ptr) - 1]
    if len(world.r) == stride:
        stride = 0
    for t in range(len(steps.pairs)):
        place, first = s + t * places, t * choices
        explores, departed = decide(account, rules, place, first)
        k = rules.proposed[place] if explores else rules.alone[place]
        if k < 0:
            begin, end = world.pair_ptr[s], world.pair_ptr[s + 1]
            k = draw_from(coins[t], rules.weights, first + begin, first + end) - first
        row = k + t * stride
        s = world.next_state[draw_from(draws[t, 0], world.p, world.next_ptr[row], world.next_ptr[row + 1])]
        draw = draws[t, 1] if world.noise != NO_NOISE else 0.0
        reward = world.low + noisy_reward(draw, world.r[row], world.r_max, world.noise, world.scale)
        settle(account, place, first + k, reward - world.low, s + (t + 1) * places, departed)
        steps.pairs[t], steps.rewards[t], steps.next_states[t] = k, reward, s
        if len(allowed) > 0:
            allowed[k] -= 1
            if allowed[k] <= 0:
                return t + 1
    return len(steps.pairs)


@allocating
def bound_by_set(rows: Rows, r: Floats, pair_state: Ints, account: Account) -> None:
    """`by_set` = r + min p worth - worth - g over the plausible rows p, for every choice.

    If the departures so far, each at its `by_set`, are worth more than was proved, that counts.
    """
    S, K, gain, total = len(account.worth), len(pair_state), account.terms.gain, 0.0
    if account.terms.stages > 0:
        S //= account.terms.stages + 1
    work = workspace(S)
    for h in range(max(account.terms.stages, 1)):
        here = account.worth[h * S : (h + 1) * S]
        after = account.worth[(h + 1) * S : (h + 2) * S] if account.terms.stages > 0 else here
        rank_states(after, -1.0, work)
        for k in range(K):
            row, choice = (h * K + k) % len(r), h * K + k
            account.by_set[choice] = r[row] + extreme(rows, row, after, work) - here[pair_state[k]] - gain
            least = max(account.by_set[choice], worst(account, h * S + pair_state[k]))
            total += account.departures[choice] * least
    account.now[PROVED] = max(account.now[PROVED], total - OUTWARDS * abs(total))
