"""The deployments of a store: each is fixed when it is created, and a change is a new deployment."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from surefooted.agents.fleet_accounts import FleetRules
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.live.advisor import Advisor
from surefooted.live.decision import MODES, Mode
from surefooted.live.definition import Definition
from surefooted.live.learners import digest as learner_digest
from surefooted.live.store import Store
from surefooted.live.tables import COLUMNS
from surefooted.live.verify import Verification, verify
from surefooted.own_code import is_code
from surefooted.tables.baseline import Baseline
from surefooted.tables.space import Space

if TYPE_CHECKING:
    from surefooted.live.copying import Copied

RULES = ("accounts", "arrival", "people", "independent_sites", "guardrails")


class LiveStore(Store):
    """A store of deployments; `surefooted.live.open` returns one. It is a context manager.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> known = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    >>> baseline = sf.Baseline(problem.baseline, known.gain, known.bias)
    >>> with sf.live.open(":memory:") as store:
    ...     river = store.create_deployment("river", space=problem.space, baseline=baseline, alpha=0.1)
    ...     river.add_site("east")
    ...     decision = river.ask("east", state=0, key="monday")
    ...     river.tell(decision, reward=0.005, next_state=0)
    ...     store.verify().is_whole
    True
    """

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
        allow_code: bool = False,
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
        allow_code : whether a learner of your own, learner="package.module:Class", may run
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
            "learner_code",
            "allow_code",
        }
        faults += [f"there is no option {option!r}" for option in options if option not in allowed | {*RULES}]
        if baseline.gain is None:
            faults.append("the baseline needs its gain and bias: each decision is compared with the baseline's by them")
        if faults:
            raise InvalidInput("no such deployment", faults)
        rules = {name: options.pop(name) for name in RULES if name in options}
        rules["guardrails"] = tuple(rules.get("guardrails", ()))
        taken = [rail.name for rail in rules["guardrails"] if rail.name in COLUMNS or "=" in str(rail.name)]
        if taken:
            names = f"guardrails cannot be called {', '.join(taken)}: tables have such columns, or it has an ="
            raise InvalidInput("no such deployment", [names])
        known, said, complete = self._inherited(space, inherits, counts)
        options |= {"allow_code": allow_code, "learner_code": learner_digest(options.get("learner", ""), allow_code)}
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
        return Advisor(self, id_, name, replace(Definition.decode(data), allow_code=allow_code))

    def _inherited(self, space: Space, inherits: str | None, counts: Counts | None) -> tuple[Counts | None, str, bool]:
        """What a new deployment knows, in words where that comes from, and whether it is every outcome."""
        known, said, complete = None, "", True
        if counts is not None:
            known, said = Counts.from_state_dict(space, counts.state_dict()), f"{counts.total} steps that were given"
        if inherits is not None:
            advisor = self.deployment(inherits)
            if is_code(advisor.definition.learner):  # what was observed does not depend on who proposed
                advisor.definition = replace(advisor.definition, learner="ucrl2", learner_code="")
            machine = advisor.machine()
            if machine.space != space:
                raise InvalidInput("no such deployment", [f"{inherits} has another space: nothing can be inherited"])
            old, complete = machine.fleet.learner.counts, machine.fleet.is_complete
            known = known or Counts(space, old.bounded)
            known.merge(old)
            said = "; ".join([*([said] if said else []), f"{old.total} steps of {inherits}, up to event {machine.n}"])
        return known, said, complete

    def deployment(self, name: str, allow_code: bool = False) -> Advisor:
        """The advisor of a deployment; `allow_code` lets a learner of your own run."""
        found = self.find_definition(name)
        if found is None:
            listed = ", ".join(self.deployments()) or "none"
            raise InvalidInput("no such deployment", [f"{name!r}; there are: {listed}"])
        return Advisor(self, found[0], name, replace(Definition.decode(found[1]), allow_code=allow_code))

    def deployments(self) -> list[str]:
        """Their names."""
        return self.names()

    def verify(self, allow_code: bool = False) -> Verification:
        """Check the file, the hash chain, and every decision: it is made again from the journal alone.

        `allow_code` lets learners of your own run; without it their deployments cannot be checked, which is a fault.
        """
        return verify(self, self.deployments, lambda name: self.deployment(name, allow_code))

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
