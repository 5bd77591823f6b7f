"""Everything is compiled and read before the first question, so that nobody waits for it."""

import numpy as np

from surefooted.live.opening import open as open_store
from surefooted.service.context import Context
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Space


def compile_all() -> None:
    """Ask and tell in a store that exists only in memory: every kernel that a decision needs is compiled."""
    space = Space.full(2, 2)
    baseline = Baseline(Policy.always(space, 0), gain=0.5, bias=np.zeros(2))
    with open_store(":memory:") as store:
        advisor = store.create_deployment("warm", space=space, baseline=baseline, alpha=0.5, allowance=100.0)
        advisor.add_site("a")
        for i in range(3):
            decision = advisor.ask("a", state=0, key=str(i))
            advisor.tell(decision, reward=0.5, next_state=0)


def read_all(held: Context) -> list[str]:
    """Follow the journal of every deployment, newest snapshot first; the names of those that cannot be read."""
    return [name for name in held.store.deployments() if held.readable(name) is None]
