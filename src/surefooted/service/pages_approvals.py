"""What waits for a person: what is proposed, what it could cost at worst, and what it is expected to gain."""

from typing import Any
from weakref import WeakKeyDictionary

from surefooted.live.advisor import Advisor
from surefooted.live.machine import Machine
from surefooted.service.context import Context
from surefooted.service.pages_estimates import STALE, Estimates, estimates
from surefooted.service.pages_fleet import questions
from surefooted.service.pages_rendering import link
from surefooted.service.pages_site import decision

ESTIMATES: WeakKeyDictionary[Advisor, Estimates] = WeakKeyDictionary()
MOST = 50  # on one page; the others are next when these are answered


def approvals(held: Context, only: tuple[str, int] | None = None) -> dict[str, Any]:
    """Everything that waits, the nearest deadline first; `only` of one site of a deployment."""
    found = list[tuple[str, int, str, int, Advisor]]()
    for name in held.store.deployments():
        if (advisor := held.readable(name)) is None:
            continue
        with held.store.lock:
            machine = advisor.machine()
            for n, deadline in questions(advisor, machine).items():
                i = machine.fleet.open[n].site
                if only is None or only == (name, i):
                    found.append((deadline, n, machine.sites[i].name, i, advisor))
    found.sort(key=lambda each: each[:2])
    shown = [_card(held, advisor, n, site) for _, n, site, _, advisor in found[:MOST]]
    return {"waiting": shown, "all": len(found)}


def _card(held: Context, advisor: Advisor, n: int, site: str) -> dict[str, Any]:
    """One question."""
    told, body, space = decision(advisor, n, site), advisor.store.event(n).body, advisor.space
    gain = expected(held, advisor)
    pair, base = body["pair"], body["base"]
    told |= {"deployment": advisor.name, "link": link("/site", deployment=advisor.name, site=site),
             "baseline": space.action_words(int(space.pair_action[base])), "tried": None, "gain": None}  # fmt: skip
    with held.store.lock:
        told["tried"] = int(advisor.machine().fleet.learner.counts.visits[pair])
    if gain is not None:
        mean, low, high = (float(column[pair]) for column in (gain.mean, gain.low, gain.high))
        told |= {"gain": space.amount(mean), "gain_low": space.amount(low), "gain_high": space.amount(high)}
        told["gain_steps"] = gain.steps
    return told


def expected(held: Context, advisor: Advisor) -> Estimates | None:
    """What is expected of every pair, as of a short time ago."""
    found = ESTIMATES.get(advisor)
    with held.store.lock:
        machine: Machine = advisor.machine()
        counts = machine.fleet.learner.counts
        steps = counts.total
        if found is not None and found.steps <= steps <= STALE * found.steps:
            return found
        copied = type(counts).from_state_dict(counts.space, counts.state_dict())
    made = estimates(advisor, copied)
    if made is not None:
        ESTIMATES[advisor] = made
    return made
