"""The account for real life: outcomes come late, in parts, out of order, or never, and many decisions are open at once.

An `Account` settles each step before the next one is decided. A `Ledger` keeps the same account with *open* decisions.
It counts departures in the order of the decisions, with guesses that are fixed when the decision is made. Let D_i be
what departure i turns out to be worth, and V_i <= D_i the least that it can turn out to be worth by what is known of
its outcome so far: the worst outcome if nothing is known, D_i itself if all of it is.

**Theorem.** Suppose that, given everything that was known when departure i was decided *and the outcomes of all
departures before it*, D_i has the mean A_i. Then the bound of `certificates.martingale`, computed at any time from the
V_i instead of the D_i, is a lower bound on A_1 + .. + A_n, for all n and at all times at once, with probability at
least 1 - δ. It does not matter when outcomes arrive, in which order, whether they ever do, or whether that depends on
what they are.

**Proof.** Write s(x_1, .., x_n) for the bound that the theorem in `certificates.martingale` computes from outcomes x_i.
In the order of the decisions, the guesses are known before the outcomes, and the assumption is what that theorem needs.
So with probability at least 1 - δ, A_1 + .. + A_n >= s(D_1, .., D_n) for all n at once. This event depends on the
outcomes, not on when they arrive. Each ln(1 + λ (x_i - X_i)) increases in x_i, hence so does s. So s(V_1, .., V_n) <=
s(D_1, .., D_n), at any time, whatever is known by then. ∎

On the same event, let n' <= n be such that all outcomes up to n' are complete. Then A_1 + .. + A_n is at least
s(D_1, .., D_n') plus lower bounds on A_i for the departures after n'. So are earlier bounds, carried on: add to a bound
that was proved once the worst outcome, or the least mean, of each departure since. The ledger keeps the best of these.

*In the order of first sight* (`arrival="independent"`). Suppose instead that when anything of an outcome is first seen
does not depend on the outcome, given the past. Then the D_i in the order of first sight have the means A_i given what
was known just before, and the theorem holds in that order. A departure of which nothing was seen stays out of the bets,
and counts with its least mean.

*Evidence about one choice* is counted in the same order, with the least outcome that is possible for what is not known:
the bound of "Mean rewards" (docs/guarantees.md) rests on a product that increases in each outcome, so it stays valid.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import typeof

from surefooted.certificates.account import Account
from surefooted.errors import InvalidInput
from surefooted.kernels import ledger as kernels
from surefooted.kernels.account import STEPS, scaled_outcome
from surefooted.kernels.compile import ready
from surefooted.kernels.ledger import OPEN, RENEWED, Slots
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Floats

NO_EVIDENCE = -1.0
FEWEST = 8  # slots to begin with
_READY: dict[Any, dict[Any, Any]] = {}  # kernels as they are compiled for a ledger of a type


class Price(NamedTuple):
    """What a ledger says to a departure: whether it is paid for, what it could cost, and what is in the account."""

    pays: bool
    deposit: float
    balance: float


class Ledger:
    """An account in which decisions stay open until their outcome is known, and may be taken back or corrected.

    Parameters
    ----------
    account : a new account of a baseline whose gain and bias are known
    in_order : count outcomes in the order of the decisions, which is valid for any arrival; False: in the order in
        which they are first seen, which must not depend on what they are
    pairwise : bound what single choices are worth by their own outcomes; False if people who know more than the state
        may have a say in what is played

    """

    def __init__(self, account: Account, in_order: bool = True, pairwise: bool = True) -> None:
        self.account = account
        choices, arrays = account.space.n_pairs, account.arrays
        scratch = arrays.bets._replace(log_wealth=arrays.bets.log_wealth.copy(), guessed=arrays.bets.guessed.copy())
        waiting = (np.zeros(choices, dtype=np.int64), np.zeros(choices), np.zeros(choices))
        self._use(kernels.Ledger(arrays, _slots(FEWEST), *waiting, scratch, np.zeros(6), in_order, pairwise))
        self._free = list(range(FEWEST))[::-1]

    def _use(self, arrays: kernels.Ledger) -> None:
        """Go on with these arrays."""
        self.arrays, self._ready = arrays, _READY.setdefault(typeof(arrays), {})

    def _call(self, kernel: Any, *given: float) -> Any:
        """What a kernel says of this ledger; each kernel must always be given numbers of the same types."""
        compiled = self._ready.get(kernel)
        if compiled is None:
            compiled = self._ready[kernel] = ready(kernel, self.arrays, *given)
        return compiled(self.arrays, *given)

    @property
    def open(self) -> int:
        """How many departures are open."""
        return int(self.arrays.now[OPEN])

    @property
    def steps(self) -> int:
        """Decisions counted."""
        return int(self.arrays.account.now[STEPS])

    @property
    def worth(self) -> float:
        """W: what all departures so far are proved to be worth at least. Nothing changes."""
        return self.reading()[0]

    def reading(self) -> tuple[float, float]:
        """What all departures are proved to be worth at least, and what is put down for those that are open.

        A bound that is computed here is not kept: decisions must not depend on who has looked at the account.
        """
        worth, deposits = self._call(kernels.reading)
        return worth, deposits

    def opening(self, reserve: float) -> float:
        """What the account opens with, minus the reserves of all sites that have departed and this one."""
        return self.arrays.account.terms.opening - reserve

    def reserve(self, start: int) -> float:
        """What a site that began in `start` must keep in reserve from its first departure on."""
        h, alpha = self.account.baseline.bias, self.account.tolerance.alpha
        if not self.account.strict or h is None:
            return 0.0
        return float(h.max() - (1 - alpha) * h.min() - alpha * h[start])

    def keep_reserve(self, reserve: float) -> None:
        """A site departs for the first time: its reserve is kept from now on."""
        terms = self.arrays.account.terms
        account = self.arrays.account._replace(terms=terms._replace(opening=terms.opening - reserve))
        self.account.arrays = account
        self._use(self.arrays._replace(account=account))

    def price(self, opening: float, place: int, choice: int) -> Price:
        """Whether a departure is paid for; nothing is put down."""
        pays, deposit, limit, proved = self._call(kernels.ask_ledger, opening, place, choice)
        return Price(pays, deposit, limit + proved)

    def decide(self, place: int, choice: int, departs: bool) -> int:
        """A decision is made, which pays in; the slot of a departure, or -1."""
        slot = -1
        if departs:
            if not self._free:
                self._grow()
            slot = self._free.pop()
        self._call(kernels.decide_step, slot, place, choice)
        return slot

    def await_evidence(self, choice: int, before: float, after: float) -> None:
        """Evidence about a choice changes from one scaled outcome to another; `NO_EVIDENCE` stands for none."""
        self._call(kernels.await_evidence, choice, before, after)

    def scaled(self, place: int, outcome: float) -> float:
        """An outcome r + worth of a step from a place, scaled to [0, 1]."""
        return float(scaled_outcome(self.arrays.account, place, outcome))

    def see(self, slot: int, place: int, outcome: float) -> None:
        """The outcome of an open departure is at least this."""
        self._call(kernels.see, slot, place, outcome)

    def close(self, slot: int, place: int, choice: int, outcome: float, waiting: float) -> None:
        """The outcome of a decision is known for good; `waiting` is the evidence of it so far, or `NO_EVIDENCE`."""
        self._call(kernels.close, slot, place, choice, outcome, waiting)
        if slot >= 0:
            self._free.append(slot)

    def take_back(self, slot: int, choice: int) -> None:
        """A departure was not played after all."""
        self._call(kernels.take_back, slot, choice)
        self._free.append(slot)

    def terms_of(self, slot: int) -> tuple[float, float, int]:
        """The guess and the worst outcome of a departure, and its number; `reopen` needs them."""
        slots = self.arrays.slots
        return float(slots.guess[slot]), float(slots.loss[slot]), int(slots.number[slot])

    def reopen(self, terms: tuple[float, float, int] | None, place: int, choice: int, outcome: float) -> int:
        """Take back a settled outcome; the slot in which its departure is open again (-1: it was no departure).

        Everything that was proved so far is forgotten and proved again without it.
        """
        slot = self._slot_of(terms)
        self._call(kernels.reopen, slot, place, choice, outcome)
        return slot

    def put_back(self, terms: tuple[float, float, int] | None, choice: int) -> int:
        """A departure that was taken back may have been played after all; the slot in which it is open again, or -1.

        Everything that was proved so far is forgotten and proved again with it.
        """
        slot = self._slot_of(terms)
        if slot >= 0:
            self._call(kernels.put_back, slot, choice)
        return slot

    def _slot_of(self, terms: tuple[float, float, int] | None) -> int:
        """A slot with the terms of a departure, -1 if there are none."""
        if terms is None:
            return -1
        if not self._free:
            self._grow()
        slot, slots = self._free.pop(), self.arrays.slots
        slots.guess[slot], slots.loss[slot], slots.number[slot] = terms
        slots.renewed[slot] = -1
        return slot

    def review(self, plausible: Plausible) -> None:
        """Use a set that holds the true MDP, as `Account.review` does."""
        self.account.review(plausible)
        self.arrays.now[RENEWED] += 1.0

    def forget(self) -> None:
        """Nothing that rests on a set or on single choices is believed any more; all outcomes together still count."""
        self._call(kernels.prove_again)

    def without_pairs(self) -> None:
        """From now on single choices are bounded by their worst outcome only."""
        self._use(self.arrays._replace(pairwise=False))
        self.forget()

    def _grow(self) -> None:
        """Twice as many slots."""
        old = self.arrays.slots
        n = len(old.seen)
        new = _slots(2 * n)
        for one, other in zip(new, old, strict=True):
            one[:n] = other
        self._use(self.arrays._replace(slots=new))
        self._free = list(range(n, 2 * n))[::-1]

    def state_dict(self) -> dict[str, Any]:
        """Everything that was counted."""
        arrays = self.arrays
        waiting = {name: getattr(arrays, name).copy() for name in ("visits", "total", "square", "now")}
        kept = {"slots": {name: column.copy() for name, column in arrays.slots._asdict().items()}, **waiting}
        return kept | {"account": self.account.state_dict(), "free": list(self._free), "pairwise": arrays.pairwise}

    def load(self, state: dict[str, Any]) -> None:
        """Remember what `state_dict` returned; the account must have the same arguments."""
        self.account = self.account.restored(state["account"])
        blank = _slots(len(state["slots"]["seen"]))
        slots = Slots(**{name: like(name, state["slots"][name], old) for name, old in blank._asdict().items()})
        names = ("visits", "total", "square", "now")
        waiting = {name: like(name, state[name], getattr(self.arrays, name)) for name in names}
        account, scratch = self.account.arrays, self.arrays.scratch
        kept: dict[str, Any] = {"account": account, "slots": slots, "pairwise": bool(state["pairwise"])}
        self._use(self.arrays._replace(scratch=scratch, **kept, **waiting))
        self._free = [int(slot) for slot in state["free"]]
        if not all(0 <= slot < len(slots.seen) and slots.seen[slot] == kernels.FREE for slot in self._free):
            raise InvalidInput("this state cannot be loaded", ["a slot that is free is none"])


def _slots(n: int) -> Slots:
    """Slots that are free."""
    whole = ("seen", "number", "renewed")
    columns: dict[str, Any] = {
        name: np.zeros(n, dtype=np.int64 if name in whole else np.float64) for name in Slots._fields
    }
    return Slots(**columns)


def like(name: str, array: Any, old: Any) -> Any:
    """A copy of an array that is to take the place of another one; an error if it is not of its type and shape."""
    if not isinstance(array, np.ndarray) or array.dtype != old.dtype or array.shape != old.shape:
        raise InvalidInput("this state cannot be loaded", [f"{name} is not of type {old.dtype} and shape {old.shape}"])
    return array.copy()


def worst_outcome(ledger: Ledger, reward: float | None, s_next: int | None) -> float:
    """The least r + h(s') that is possible by what is known of an outcome."""
    worth: Floats = ledger.arrays.account.worth
    return (0.0 if reward is None else reward) + float(worth.min() if s_next is None else worth[s_next])
