"""An account whose outcomes come late, compiled; `certificates.ledger` has the rules and the theorem.

A departure is *open* until its outcome is complete. It stands in a slot, with the least that it can be worth by what is
known of its outcome so far. Evidence about a choice (visits, total, square) waits in the same way.
"""

import math
from typing import NamedTuple

from surefooted.arrays import Floats, Ints
from surefooted.kernels.account import (
    ADVANCED,
    PAID_IN,
    PROVED,
    STEPS,
    Account,
    guess_worth,
    next_date,
    scaled_outcome,
    worst,
)
from surefooted.kernels.compile import njit
from surefooted.kernels.intervals import mean_distance
from surefooted.kernels.martingale import OUTWARDS, Bets, place_bets, sum_of_means

CARRIED, OPEN, RENEWED, MADE, LAST_SETTLED, LOWEST = 0, 1, 2, 3, 4, 5  # what stands where in `Ledger.now`
FREE, UNSEEN, SEEN = 0, 1, 2  # what is known of the outcome in a slot


class Slots(NamedTuple):
    """Open departures; a slot is FREE, UNSEEN (nothing is known of the outcome) or SEEN (a part of it is)."""

    seen: Ints  # [slots]
    value: Floats  # [slots], the least that the departure can turn out to be worth
    guess: Floats  # [slots], made when it was decided
    loss: Floats  # [slots], its worst outcome
    least: Floats  # [slots], what it is worth on average at least, as of when it was decided; at most 0
    by_set: Floats  # [slots], the same by its worst outcome and by the set alone; it may be positive
    number: Ints  # [slots], departures are numbered in the order of the decisions
    renewed: Ints  # [slots], how often the proved bound had been renewed when it was decided


class Ledger(NamedTuple):
    """An account, its open departures, and evidence that waits for the rest of an outcome."""

    account: Account
    slots: Slots
    visits: Ints  # [choices]
    total: Floats  # [choices]
    square: Floats  # [choices]
    scratch: Bets
    now: Floats  # [6]: see CARRIED (a bound, carried on with `least`) .. LOWEST (all departures at their worst)
    in_order: bool  # outcomes count in the order of the decisions, else in the order in which they are first seen
    pairwise: bool  # whether the outcomes of single choices bound what they are worth


@njit
def least_worth(ledger: Ledger, place: int, choice: int) -> float:
    """What a departure is worth at least on average; evidence that is not complete counts at its worst."""
    account, scaled = ledger.account, 0.0
    n = float(account.visits[choice] + ledger.visits[choice])
    if n > 0.0 and ledger.pairwise:
        total, square = account.total[choice] + ledger.total[choice], account.square[choice] + ledger.square[choice]
        scaled = mean_distance(n, total, square, 0.0, 1.0, account.terms.log_term)
    return max(worst(account, place) + account.terms.range_ * scaled, float(account.by_set[choice]))


@njit
def bound_from_bets(ledger: Ledger) -> tuple[float, float]:
    """Two lower bounds on W from outcomes: with open departures at their worst, and with some at `least`.

    In the order of the decisions, the second needs that all settled departures were decided before all open ones; it is
    -inf otherwise.
    """
    bets, scratch, slots = ledger.account.bets, ledger.scratch, ledger.slots
    for i in range(2):
        scratch.guessed[i] = bets.guessed[i]
        for j in range(len(bets.lambda_)):
            scratch.log_wealth[i, j] = bets.log_wealth[i, j]
    at_least, at_worst, first = 0.0, 0.0, math.inf
    for i in range(len(slots.seen)):
        if slots.seen[i] == FREE:
            continue
        first = min(first, float(slots.number[i]))
        if ledger.in_order or slots.seen[i] == SEEN:
            place_bets(scratch, slots.value[i], slots.guess[i])
        if ledger.in_order or slots.seen[i] == UNSEEN:
            at_least += slots.least[i]
            at_worst += slots.loss[i]
    threshold = ledger.account.terms.threshold
    placed = sum_of_means(scratch, threshold)
    if not ledger.in_order:
        return placed + at_worst - OUTWARDS * abs(at_worst), placed + at_least - OUTWARDS * abs(at_least)
    if first <= ledger.now[LAST_SETTLED]:
        return placed, -math.inf
    return placed, sum_of_means(bets, threshold) + at_least - OUTWARDS * abs(at_least)


@njit
def renew(ledger: Ledger) -> None:
    """Bring both bounds up to date with all outcomes."""
    account, now = ledger.account, ledger.now
    if now[OPEN] == 0.0:
        proved = sum_of_means(account.bets, account.terms.threshold)
        if proved > account.now[PROVED]:
            account.now[PROVED] = proved
            now[RENEWED] += 1.0
        now[CARRIED] = account.now[PROVED]
        return
    worst_case, likely = bound_from_bets(ledger)
    if worst_case > account.now[PROVED]:
        account.now[PROVED] = worst_case
        now[RENEWED] += 1.0
    if max(likely, account.now[PROVED]) > now[CARRIED]:
        now[CARRIED] = max(likely, account.now[PROVED])
        now[RENEWED] += 1.0


@njit
def proved(ledger: Ledger) -> float:
    """What all departures so far are proved to be worth, as of the last time that it was brought up to date."""
    if ledger.now[OPEN] == 0.0:
        return float(ledger.account.now[PROVED])
    return max(float(ledger.account.now[PROVED]), float(ledger.now[CARRIED]))


@njit
def reading(ledger: Ledger) -> tuple[float, float]:
    """What all departures so far are proved to be worth, and what is put down for those that are open.

    Nothing changes: what is computed here is forgotten.
    """
    account, now, slots, deposits = ledger.account, ledger.now, ledger.slots, 0.0
    proved_then, carried, renewed = account.now[PROVED], now[CARRIED], now[RENEWED]
    renew(ledger)
    worth = proved(ledger)
    account.now[PROVED], now[CARRIED], now[RENEWED] = proved_then, carried, renewed
    for i in range(len(slots.seen)):
        if slots.seen[i] != FREE:
            deposits -= slots.least[i]
    return worth, deposits


@njit
def ask_ledger(ledger: Ledger, opening: float, place: int, choice: int) -> tuple[bool, float, float, float]:
    """Whether a departure is paid for, what it could cost, what may be lost, and what W is proved to be.

    `opening` is the allowance minus all reserves. As in `kernels.account.may_depart`, the bound is only computed if
    what was proved before does not suffice, and the reserves must have been saved up.
    """
    account = ledger.account
    now = account.now
    limit = opening + account.terms.rate * next_date(account, now[STEPS] + 1.0) + now[PAID_IN] + now[ADVANCED]
    if ledger.now[OPEN] == 0.0:
        ledger.now[CARRIED] = account.now[PROVED]
    loss, least = worst(account, place), least_worth(ledger, place, choice)
    if limit >= 0.0 and limit + proved(ledger) + loss < 0.0:
        renew(ledger)
    bound = proved(ledger)
    pays = limit >= 0.0 and (limit + bound + loss >= 0.0 or limit + bound + least >= 0.0)
    return pays, max(-least, 0.0), limit, bound


@njit
def await_evidence(ledger: Ledger, choice: int, before: float, after: float) -> None:
    """Evidence that waits changes from one scaled outcome to another; below 0 stands for no evidence."""
    if before >= 0.0:
        ledger.visits[choice] -= 1
        ledger.total[choice] -= before
        ledger.square[choice] -= before * before
    if after >= 0.0:
        ledger.visits[choice] += 1
        ledger.total[choice] += after
        ledger.square[choice] += after * after
    if ledger.visits[choice] == 0:
        ledger.total[choice] = ledger.square[choice] = 0.0


@njit
def put_down(ledger: Ledger, slot: int, place: int, choice: int) -> None:
    """A departure was decided: from now on it counts at its worst, or at what the set says of it if that is better."""
    account, slots, now = ledger.account, ledger.slots, ledger.now
    loss = worst(account, place)
    slots.seen[slot], slots.value[slot], slots.loss[slot] = UNSEEN, loss, loss
    slots.guess[slot] = guess_worth(account, place, choice)
    slots.least[slot] = min(least_worth(ledger, place, choice), 0.0)  # it may turn out not to be played
    slots.by_set[slot] = max(loss, float(account.by_set[choice]))
    now[MADE] += 1.0
    slots.number[slot], slots.renewed[slot] = int(now[MADE]), int(now[RENEWED])
    account.now[PROVED] += min(slots.by_set[slot], 0.0)
    now[CARRIED] += slots.least[slot]
    now[LOWEST] += loss
    now[OPEN] += 1.0
    account.departures[choice] += 1


@njit
def decide_step(ledger: Ledger, slot: int, place: int, choice: int) -> None:
    """A decision is made: it pays in, and counts at its worst if it departs from the baseline (`slot` is not -1)."""
    if slot >= 0:
        put_down(ledger, slot, place, choice)
    if ledger.in_order:
        await_evidence(ledger, choice, -1.0, 0.0)
    ledger.account.now[STEPS] += 1.0


@njit
def see(ledger: Ledger, slot: int, place: int, outcome: float) -> None:
    """A part of the outcome of an open departure is known: r + worth of the next place is at least `outcome`."""
    account, slots = ledger.account, ledger.slots
    value = outcome - account.worth[place] - account.terms.gain
    slots.seen[slot], slots.value[slot] = SEEN, max(value, slots.loss[slot])


@njit
def close(ledger: Ledger, slot: int, place: int, choice: int, outcome: float, waiting: float) -> None:
    """The outcome r + worth of a step is known for good; `slot` is that of a departure, or -1.

    `waiting` is the evidence that the ledger holds of it so far, below 0 if there is none.
    """
    account, slots, now = ledger.account, ledger.slots, ledger.now
    if slot >= 0:
        value = outcome - (account.worth[place] + account.terms.gain)
        place_bets(account.bets, max(value, slots.loss[slot]), slots.guess[slot])
        now[LAST_SETTLED] = max(now[LAST_SETTLED], float(slots.number[slot]))
        if slots.renewed[slot] == int(now[RENEWED]):  # it was played: what the set says of it counts whole
            account.now[PROVED] += max(slots.by_set[slot], 0.0)
        slots.seen[slot] = FREE
        now[OPEN] -= 1.0
    await_evidence(ledger, choice, waiting, -1.0)
    scaled = scaled_outcome(account, place, outcome)
    account.visits[choice] += 1
    account.total[choice] += scaled
    account.square[choice] += scaled * scaled


@njit
def take_back(ledger: Ledger, slot: int, choice: int) -> None:
    """An open departure was not played after all: it was never put down.

    What was carried without renewal since it was decided contains its worst case as a term of its own. Otherwise that
    stays in the bound, which is valid.
    """
    account, slots, now = ledger.account, ledger.slots, ledger.now
    if slots.renewed[slot] == int(now[RENEWED]):
        charged = min(slots.by_set[slot], 0.0)
        proved_then, carried = account.now[PROVED] - charged, now[CARRIED] - slots.least[slot]
        account.now[PROVED] = proved_then - OUTWARDS * (abs(proved_then) - charged)
        now[CARRIED] = carried - OUTWARDS * (abs(carried) + abs(slots.least[slot]))
    slots.seen[slot] = FREE
    lowest = now[LOWEST] - slots.loss[slot]
    now[LOWEST] = lowest - OUTWARDS * (abs(lowest) - slots.loss[slot])
    now[OPEN] -= 1.0
    account.departures[choice] -= 1


@njit
def remove_bets(bets: Bets, value: float, guess: float) -> None:
    """Take back what `place_bets` added for a step."""
    for j in range(len(bets.lambda_)):
        gain = -math.log1p(bets.lambda_[j] * (value - guess))
        before = bets.log_wealth[0, j]
        after = before + gain
        bets.log_wealth[0, j] = after
        bets.log_wealth[1, j] += (before - after) + gain if abs(before) >= abs(gain) else (gain - after) + before
    before, after = bets.guessed[0], bets.guessed[0] - guess
    bets.guessed[0] = after
    bets.guessed[1] += (before - after) - guess if abs(before) >= abs(guess) else (-guess - after) + before


@njit
def prove_again(ledger: Ledger) -> None:
    """Forget what was proved so far, and compute the bounds from the outcomes alone."""
    for choice in range(len(ledger.account.by_set)):
        ledger.account.by_set[choice] = -math.inf
    for i in range(len(ledger.slots.least)):
        ledger.slots.least[i] = ledger.slots.by_set[i] = ledger.slots.loss[i]
    ledger.account.now[PROVED] = ledger.now[CARRIED] = ledger.now[LOWEST]
    ledger.now[RENEWED] += 1.0
    renew(ledger)


@njit
def put_back(ledger: Ledger, slot: int, choice: int) -> None:
    """A departure that was taken back may have been played after all: it stands in `slot`, with its guess and loss."""
    slots, now = ledger.slots, ledger.now
    slots.seen[slot], slots.value[slot] = UNSEEN, slots.loss[slot]
    now[LOWEST] += slots.loss[slot]
    now[OPEN] += 1.0
    ledger.account.departures[choice] += 1
    prove_again(ledger)


@njit
def reopen(ledger: Ledger, slot: int, place: int, choice: int, outcome: float) -> None:
    """Take back an outcome that `close` has settled; a departure stands in `slot` again, with its guess and loss."""
    account, slots, now = ledger.account, ledger.slots, ledger.now
    scaled = scaled_outcome(account, place, outcome)
    account.visits[choice] -= 1
    account.total[choice] -= scaled
    account.square[choice] -= scaled * scaled
    if account.visits[choice] == 0:
        account.total[choice] = account.square[choice] = 0.0
    if slot >= 0:
        value = outcome - (account.worth[place] + account.terms.gain)
        remove_bets(account.bets, max(value, slots.loss[slot]), slots.guess[slot])
        slots.seen[slot], slots.value[slot] = UNSEEN, slots.loss[slot]
        now[OPEN] += 1.0
    prove_again(ledger)
