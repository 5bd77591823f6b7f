"""The deployments of a store: each is fixed when it is created, and a change is a new deployment."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from surefooted.agents.fleet_accounts import FleetRules
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.live.advisor import Advisor
from surefooted.live.decision import MODES, Mode
from surefooted.live.definition import Definition
from surefooted.live.store import Store
from surefooted.live.verify import Verification, verify
from surefooted.tables.baseline import Baseline
from surefooted.tables.space import Space

if TYPE_CHECKING:
    from surefooted.live.copying import Copied

RULES = ("accounts", "arrival", "people", "independent_sites", "guardrails")


class LiveStore(Store):
    """A store of deployments; `surefooted.live.open` returns one. It is a context manager."""

    def create_deployment(
        self,
        name: str,
        *,
        space: Space,
        baseline: Baseline,
        alpha: float,
        mode: Mode = "live",
        inherits: str | None = None,
        counts: Counts | None = None,
        who: str | None = None,
        note: str | None = None,
        **options: Any,
    ) -> Advisor:
        """A new deployment: what it is made of stays as it is for ever.

        Parameters
        ----------
        name : of the deployment
        space : the states and their actions
        baseline : the policy in use today, with its gain and bias
        alpha : the share of the baseline's reward that may be lost
        mode : in which it begins: "shadow", "approval" or "live"
        inherits : another deployment of the same space, whose observations teach the learner of this one
        counts : other observations that teach it, such as those of a log
        who, note : who creates it, and why
        options : delta, strict, tolerance, allowance, floor, checkpoints, patience, seed, learner, confidence,
            knowledge, drift, deadline (see `Definition`);
            accounts, arrival, people, independent_sites, guardrails (see `FleetRules`)

        """
        faults = [] if isinstance(name, str) and name else [f"{name!r} is no name"]
        if mode not in MODES:
            faults.append(f"mode {mode!r}: there are {', '.join(MODES)}")
        allowed = {*Definition.__dataclass_fields__} - {
            "space",
            "baseline",
            "alpha",
            "counts",
            "inherits",
            "complete",
            "rules",
        }
        faults += [f"there is no option {option!r}" for option in options if option not in allowed | {*RULES}]
        if baseline.gain is None:
            faults.append("the baseline needs its gain and bias: each decision is compared with the baseline's by them")
        if faults:
            raise InvalidInput("no such deployment", faults)
        rules = {name: options.pop(name) for name in RULES if name in options}
        rules["guardrails"] = tuple(rules.get("guardrails", ()))
        known, said, complete = self._inherited(space, inherits, counts)
        definition = Definition(
            space, baseline, alpha, rules=FleetRules(**rules), counts=known, inherits=said, complete=complete, **options
        )
        definition.build()  # every fault is found before anything is written
        body, data = {"name": name, "mode": mode, "inherits": said, "who": who, "note": note}, definition.encode()
        digests = {"definition": hashlib.sha256(data).hexdigest(), "fingerprint": definition.fingerprint}
        with self.transaction():
            if self.find_definition(name) is not None:
                raise InvalidInput(
                    "no such deployment", [f"there is a deployment {name!r} already: it cannot be changed"]
                )
            id_ = self.add_definition(name, definition.fingerprint, data)
            self.append(id_, "deployment", body | digests)
            self.append(id_, "mode", {"site": None, "mode": mode, "who": who, "note": None})
        return Advisor(self, id_, name, Definition.decode(data))

    def _inherited(self, space: Space, inherits: str | None, counts: Counts | None) -> tuple[Counts | None, str, bool]:
        """What a new deployment knows, in words where that comes from, and whether it is every outcome."""
        known, said, complete = None, "", True
        if counts is not None:
            known, said = Counts.from_state_dict(space, counts.state_dict()), f"{counts.total} steps that were given"
        if inherits is not None:
            machine = self.deployment(inherits).machine()
            if machine.space != space:
                raise InvalidInput("no such deployment", [f"{inherits} has another space: nothing can be inherited"])
            old, complete = machine.fleet.learner.counts, machine.fleet.is_complete
            known = known or Counts(space, old.bounded)
            known.merge(old)
            said = "; ".join([*([said] if said else []), f"{old.total} steps of {inherits}, up to event {machine.n}"])
        return known, said, complete

    def deployment(self, name: str) -> Advisor:
        """The advisor of a deployment."""
        found = self.find_definition(name)
        if found is None:
            listed = ", ".join(self.deployments()) or "none"
            raise InvalidInput("no such deployment", [f"{name!r}; there are: {listed}"])
        return Advisor(self, found[0], name, Definition.decode(found[1]))

    def deployments(self) -> list[str]:
        """Their names."""
        return self.names()

    def verify(self) -> Verification:
        """Check the file, the hash chain, and every decision: it is made again from the journal alone."""
        return verify(self, self.deployments, self.deployment)

    def backup(self, target: str | Path) -> "Copied":
        """Copy all of it to a new file or an empty PostgreSQL store, while others go on deciding; the copy is checked.

        >>> import surefooted as sf
        >>> with sf.live.open("shop.db") as store:
        ...     store.backup("shop-2026-11-18.db").events
        0
        """
        from surefooted.live.copying import backup

        return backup(self, target)

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the store."""
        self.close()
