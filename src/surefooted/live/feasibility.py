"""Is it feasible? What each decision pays in, what must be saved up first, and how many decisions that takes."""

import math
from typing import NamedTuple

from surefooted.certificates.ledger import Ledger
from surefooted.live.definition import Definition


class Feasibility(NamedTuple):
    """The arithmetic of the first departure, in the user's unit.

    - `pays_in`: what each decision adds to the account.
    - `reserve`: what must be kept for the way back to the baseline, at most.
    - `deposit`: what a departure can cost if nothing is known about it.
    - `allowance`: what may be lost in all from the start.
    - `soonest`: decisions until the first departure if it is proved to be harmless.
    - `latest`: decisions after which a first departure is paid for even if nothing is known.

    Guardrails must pay, too: `soonest` and `latest` are those of the account that takes longest.
    """

    pays_in: float
    reserve: float
    deposit: float
    allowance: float
    soonest: int
    latest: int


def feasibility(definition: Definition) -> Feasibility:
    """How many decisions of all sites that share an account it takes before anything can be explored.

    >>> import numpy as np
    >>> import surefooted as sf
    >>> from surefooted.live.definition import Definition
    >>> from surefooted.live.feasibility import feasibility
    >>> space = sf.Space.full(1, 2, rewards=(0, 100), unit="€")
    >>> baseline = sf.Baseline(sf.Policy.always(space, 0), gain=40.0, bias=np.zeros(1))
    >>> feasibility(Definition(space, baseline, alpha=0.05))
    Feasibility(pays_in=2.0, reserve=0.0, deposit=40.0, allowance=0.0, soonest=1, latest=20)
    """
    fleet = definition.build()
    fleet.add_site()
    each = [_of_account(ledger, definition.space.n_states) for _, ledger in fleet.books.of(0)]
    slowest = {"soonest": max(one.soonest for one in each), "latest": max(one.latest for one in each)}
    return each[0]._replace(**slowest)


def _of_account(ledger: Ledger, n_states: int) -> Feasibility:
    """The arithmetic of one account."""
    terms, reserves = ledger.arrays.account.terms, [ledger.reserve(s) for s in range(n_states)]
    deposit = float(terms.largest)
    soonest = _decisions(min(reserves) - terms.opening, terms.rate)
    latest = _decisions(max(reserves) + deposit - terms.opening, terms.rate)
    return Feasibility(terms.rate, max(reserves), deposit, terms.opening, soonest, latest)


def _decisions(missing: float, rate: float) -> int:
    """The first decision that is paid for: the decision itself pays in before it is made."""
    return max(1, math.ceil(missing / rate)) if rate > 0 or missing <= 0 else 10**9
