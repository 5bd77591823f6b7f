"""The accounts of a fleet: one for all sites, one for each, or both; for the reward, and for every guardrail.

Each account has a share of δ, and the shares add up to δ at most. So all accounts hold jointly with probability at
least 1 - δ. With m numbers to guard (the reward and the guardrails) and one account for all sites, each has δ / m. The
j-th site to be added has an account of its own with δ / (m j (j + 1)); these shares sum to δ / m however many sites are
added. If there are both kinds, each kind has one half.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from surefooted.certificates.account import Account
from surefooted.certificates.ledger import Ledger
from surefooted.certificates.tolerance import Tolerance
from surefooted.errors import InvalidInput
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Space

Accounts = Literal["shared", "own", "both"]
ACCOUNTS: tuple[Accounts, ...] = ("shared", "own", "both")
Arrival = Literal["any", "independent"]
ARRIVALS: tuple[Arrival, ...] = ("any", "independent")
People = Literal["state", "more"]
PEOPLE: tuple[People, ...] = ("state", "more")


@dataclass(frozen=True, eq=False)
class Guardrail:
    """A further number that is told with each outcome and must not get worse than a tolerance allows.

    - `name`: what the number is called in `tell`.
    - `gain`, `bias`: what the baseline keeps of it per step in the long run, and its bias [S], as for the reward.
    - `tolerance`: by how much it may be worse per step on average, in its own unit.
    - `low`, `high`: its range.
    - `better`: "higher" (a service level) or "lower" (failures).
    - `allowance`: how much worse it may be in all, beside the tolerance.

    >>> import surefooted as sf
    >>> service = sf.live.Guardrail("service level", gain=0.95, bias=[0.0, 0.02], tolerance=0.01)
    >>> service.counted(0.9)
    0.9
    """

    name: str
    gain: float
    bias: Floats  # [S]
    tolerance: float
    low: float = 0.0
    high: float = 1.0
    better: Literal["higher", "lower"] = "higher"
    allowance: float = 0.0

    def counted(self, value: float) -> float:
        """The number as an account counts it: from 0, the worst, to high - low."""
        return value - self.low if self.better == "higher" else self.high - value

    def told(self, counted: float) -> float:
        """The number in its own unit, given how accounts count it."""
        return self.low + counted if self.better == "higher" else self.high - counted

    def faults(self, space: Space) -> list[str]:
        """Why it cannot be guarded."""
        faults, bias = [], np.asarray(self.bias, dtype=np.float64)
        if self.better not in ("higher", "lower"):
            faults.append(f"better {self.better!r} must be 'higher' or 'lower'")
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            faults.append(f"its range [{self.low}, {self.high}] must be finite, and not empty")
        elif not self.low <= self.gain <= self.high:
            faults.append(f"gain {self.gain} is outside [{self.low:g}, {self.high:g}]")
        if not 0 <= self.tolerance < np.inf or not 0 <= self.allowance < np.inf:
            faults.append("tolerance and allowance must be finite and not negative")
        elif self.tolerance == 0 == self.allowance:
            faults.append("it needs a tolerance or an allowance: with neither, nothing could ever be explored")
        if bias.shape != (space.n_states,) or not np.all(np.isfinite(bias)):
            faults.append(f"bias must be {space.n_states} finite numbers, one for each state")
        return [f"guardrail {self.name!r}: {fault}" for fault in faults]


@dataclass(frozen=True)
class FleetRules:
    """How the decisions of a fleet are accounted for, and what is assumed of outcomes, sites and people.

    - `accounts`: "shared" (one for all sites), "own" (one for each) or "both".
    - `arrival`: "any" (when an outcome arrives may depend on what it is) or "independent" (when something of it is
      first seen does not).
    - `people`: "state" (people who override or approve know no more than the state) or "more".
    - `independent_sites`: given the past, outcomes of different sites are independent; False needs accounts="own".
    - `guardrails`: further numbers, each with its own account.

    >>> import surefooted as sf
    >>> sf.live.FleetRules(accounts="own", people="more").guardrails
    ()
    """

    accounts: Accounts = "shared"
    arrival: Arrival = "any"
    people: People = "state"
    independent_sites: bool = True
    guardrails: tuple[Guardrail, ...] = field(default=())

    def faults(self, space: Space) -> list[str]:
        """Why these rules cannot be kept."""
        faults = []
        listed = (
            ("accounts", self.accounts, ACCOUNTS),
            ("arrival", self.arrival, ARRIVALS),
            ("people", self.people, PEOPLE),
        )
        for name, given, known in listed:
            if given not in known:
                faults.append(f"{name} {given!r}: there are {', '.join(known)}")
        if not self.independent_sites and self.accounts != "own":
            why = "outcomes of sites that depend on each other do not add up in one bound"
            faults.append(f'independent_sites=False needs accounts="own": {why}')
        names = [guardrail.name for guardrail in self.guardrails]
        if len(set(names)) < len(names) or not all(isinstance(name, str) and name for name in names):
            faults.append(f"guardrails need distinct names, not {names}")
        for guardrail in self.guardrails:
            faults += guardrail.faults(space)
        return faults


class Books:
    """All ledgers of a fleet, by site.

    Parameters
    ----------
    space, baseline, tolerance, delta, strict : those of the reward's account (see `Account`)
    rules : which accounts there are

    """

    def __init__(
        self,
        space: Space,
        baseline: Baseline,
        tolerance: Tolerance,
        delta: float,
        strict: bool,
        rules: FleetRules,
    ) -> None:
        if faults := rules.faults(space):
            raise InvalidInput("no such fleet", faults)
        self.rules, self._strict = rules, strict
        self._metrics = [(space, baseline, tolerance)]
        for guardrail in rules.guardrails:
            self._metrics.append(_guarded(guardrail, baseline.policy))
        kinds = 2 if rules.accounts == "both" else 1
        self._share = delta / (len(self._metrics) * kinds)
        self.shared: list[Ledger] = [] if rules.accounts == "own" else self._ledgers(self._share)
        self.own: list[list[Ledger]] = []  # of each site

    def _ledgers(self, delta: float) -> list[Ledger]:
        """One ledger for each number."""
        in_order, pairwise = self.rules.arrival == "any", self.rules.people == "state"
        accounts = [Account(s, b, may_lose, delta, self._strict) for s, b, may_lose in self._metrics]
        return [Ledger(account, in_order, pairwise) for account in accounts]

    def add_site(self) -> None:
        """One more site."""
        j = len(self.own) + 1
        self.own.append([] if self.rules.accounts == "shared" else self._ledgers(self._share / (j * (j + 1))))

    def of(self, site: int) -> list[tuple[int, Ledger]]:
        """The ledgers in which the decisions of a site are counted, each with its number: 0 is the reward."""
        return [*enumerate(self.shared), *enumerate(self.own[site])]

    def all(self) -> list[Ledger]:
        """Every ledger."""
        return self.shared + [ledger for ledgers in self.own for ledger in ledgers]

    def of_reward(self) -> list[Ledger]:
        """The ledgers of the reward."""
        return self.shared[:1] + [ledger for ledgers in self.own for ledger in ledgers[:1]]

    def state_dict(self) -> dict[str, Any]:
        """What all ledgers remember."""
        own = [[ledger.state_dict() for ledger in ledgers] for ledgers in self.own]
        return {"shared": [ledger.state_dict() for ledger in self.shared], "own": own}

    def load(self, state: dict[str, Any]) -> None:
        """Remember what `state_dict` returned; new books of the same arguments."""
        while len(self.own) < len(state["own"]):
            self.add_site()
        for ledger, saved in zip(self.all(), state["shared"] + _flat(state["own"]), strict=True):
            ledger.load(saved)


def _guarded(guardrail: Guardrail, policy: Policy) -> tuple[Space, Baseline, Tolerance]:
    """A guardrail as an account takes it: a reward from 0 to high - low, and what may be lost of it."""
    sign = 1.0 if guardrail.better == "higher" else -1.0
    given = policy.space
    space = Space(given.pair_ptr, given.pair_action, guardrail.high - guardrail.low)
    same = Policy(space, pair=policy.pair) if policy.is_deterministic else Policy(space, weights=policy.weights)
    gain, bias = guardrail.counted(guardrail.gain), sign * np.asarray(guardrail.bias, dtype=np.float64)
    return space, Baseline(same, gain, bias), Tolerance(0.0, guardrail.tolerance, guardrail.allowance)


def _flat(lists: Sequence[Sequence[Any]]) -> list[Any]:
    return [item for inner in lists for item in inner]
