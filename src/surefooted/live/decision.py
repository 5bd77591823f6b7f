"""What an advisor answers, and in which words."""

from dataclasses import dataclass
from typing import Any, Literal

from surefooted.agents.fleet import Fleet
from surefooted.agents.fleet_decisions import ALARM
from surefooted.agents.fleet_steps import Answer
from surefooted.tables.space import Space

Mode = Literal["shadow", "approval", "live"]
MODES: tuple[Mode, ...] = ("shadow", "approval", "live")
Status = Literal["play", "waiting", "approved", "rejected", "lapsed"]


@dataclass(frozen=True)
class Decision:
    """What to play at a site, and why. The same key gives the same decision for ever.

    - `id`: the number of its event in the journal.
    - `site`, `key`, `state`: what was asked.
    - `action`, `label`: what to play, as a number and by its name.
    - `role`: "baseline" or "optimistic" (what the learner proposes is played).
    - `deposit`: what the proposed departure from the baseline could cost; None if none is proposed.
    - `balance`: what is in the account before it.
    - `reason`: one sentence.
    - `time`: UTC, ISO 8601.
    - `mode`: "shadow", "approval" or "live", as it was then.
    - `status`: "play"; or "waiting" for a person's yes, then "approved", "rejected" or "lapsed" (the deadline passed).
      While it waits, `action` is the baseline's, which is played if nobody answers.
    - `proposed`: the action that the learner proposes, None if it proposes none. In shadow mode it is not played.
    - `departs`: whether playing `action` departs from the baseline; `would_depart`: whether the accounts pay for it.
    - `deadline`: until when a person may answer.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> known = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    >>> baseline = sf.Baseline(problem.baseline, known.gain, known.bias)
    >>> with sf.live.open(":memory:") as store:
    ...     river = store.create_deployment("river", space=problem.space, baseline=baseline, alpha=0.1)
    ...     river.add_site("east")
    ...     decision = river.ask("east", state=0, key="monday")
    ...     river.tell(decision, reward=0.005, next_state=0)
    >>> decision.label, decision.status, decision.key
    ('0', 'play', 'monday')
    """

    id: int
    site: str
    key: str
    state: int
    action: int
    label: str
    role: str
    deposit: float | None
    balance: float | None
    reason: str
    time: str
    mode: Mode
    status: Status = "play"
    proposed: int | None = None
    departs: bool = False
    would_depart: bool = False
    deadline: str | None = None


def words(space: Space, answer: Answer, fleet: Fleet, s: int, mode: Mode, paused: str | None) -> str:
    """Why, in the user's words and unit."""
    if answer.proposed < 0:
        return ALARM.format(fleet.alarm) if fleet.alarm is not None else answer.reason
    action = space.action_words(int(space.pair_action[answer.proposed]))
    here = f"in state {space.state_words(s)}"
    if answer.deposit is None or answer.balance is None:
        return f"Plays the baseline's {action} {here}: the learner proposes it too."
    could = f"could cost {space.amount(answer.deposit, '.3g')} in the long run"
    saved = f"{space.amount(max(answer.balance, 0.0), '.3g')} is in the account"
    if answer.deposit == 0:
        could = "is proved to be worth no less than the baseline in the long run"
    if answer.short is not None:
        number, cost, left = answer.short
        name = fleet.rules.guardrails[number - 1].name
        if left < 0:
            return f"Plays the baseline: guardrail {name} needs {-left:.3g} more before anything can be explored."
        worse = f"exploring {action} {here} could make {name} worse by {cost:.3g} in the long run"
        return f"Plays the baseline: {worse}; {left:.3g} is in its account."
    if not answer.would_depart:
        if answer.balance < 0:
            missing = space.amount(-answer.balance, ".3g")
            return f"Plays the baseline: {missing} must be saved up before anything can be explored."
        return f"Plays the baseline: exploring {action} {here} {could}; {saved}."
    if paused is not None:
        return f"Plays the baseline: paused ({paused}). Exploring {action} {here} would have been paid for."
    if mode == "shadow":
        return f"Plays the baseline (shadow). Would explore {action} {here}, which {could}; {saved}."
    if mode == "approval":
        return f"Asks to explore {action} {here}, which {could}; {saved}."
    return f"Explores {action} {here}, which {could}; {saved}."


def from_event(site: str, event: Any, space: Space, after: list[Any]) -> Decision:
    """The decision of an "ask" event; `after` are the events about it since."""
    body = event.body
    told: dict[str, Any] = {
        name: body[name] for name in ("key", "state", "role", "deposit", "balance", "reason", "mode")
    }
    told |= {name: body[name] for name in ("proposed", "departs", "would_depart", "deadline", "status", "action")}
    for later in after:
        if later.kind in ("approve", "reject", "lapse"):
            told["status"] = {"approve": "approved", "reject": "rejected", "lapse": "lapsed"}[later.kind]
            if later.kind == "approve":
                told |= {"action": body["proposed"], "role": "optimistic", "departs": True}
    label = space.action_words(told["action"])
    return Decision(id=event.n, site=site, label=label, time=event.at, **told)
