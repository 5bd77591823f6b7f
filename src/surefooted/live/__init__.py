"""An advisor for a running process: ask what to do, tell what came of it, and nothing that was acknowledged is lost.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> known = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    >>> baseline = sf.Baseline(problem.baseline, known.gain, known.bias)
    >>> store = sf.live.open(":memory:")
    >>> river = store.create_deployment("river", space=problem.space, baseline=baseline, alpha=0.1)
    >>> river.add_site("east")
    >>> decision = river.ask("east", state=0, key="monday")
    >>> decision.action, decision.departs
    (0, False)
    >>> river.tell(decision, reward=0.005, next_state=0)

docs/live.md says what each event means and what is guaranteed; docs/guarantees.md has the proofs.
"""

from surefooted.agents.fleet_accounts import FleetRules, Guardrail
from surefooted.live.advisor import Advisor
from surefooted.live.connection import AccessDenied
from surefooted.live.copying import Copied, restore
from surefooted.live.decision import Decision
from surefooted.live.deployments import LiveStore
from surefooted.live.opening import open
from surefooted.live.remote import RemoteAdvisor, RemoteStore, connect
from surefooted.live.store import Event, StoreFault
from surefooted.live.verify import Verification

__all__ = [
    "AccessDenied", "Advisor", "Copied", "Decision", "Event", "FleetRules", "Guardrail", "LiveStore", "RemoteAdvisor",
    "RemoteStore", "StoreFault", "Verification", "connect", "open", "restore",
]  # fmt: skip
