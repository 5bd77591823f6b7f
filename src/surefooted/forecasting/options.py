"""What one could choose or declare: a larger α, an allowance, what the baseline earns, rewards, mechanics."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from surefooted import solve
from surefooted.agents.cucbvi import CUCBVI
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.certificates.shares import delta_faults
from surefooted.certificates.tolerance import Tolerance
from surefooted.data.history import History
from surefooted.knowledge.knowledge import Knowledge
from surefooted.problems.problem import Problem
from surefooted.tables.baseline import Baseline

AS_DESCRIBED = "as described"
ALLOWED = (1, 10)  # years whose share α could be allowed at once


@dataclass(frozen=True)
class Option:
    """One way to use an agent.

    - `name`: for people.
    - `promise`: alpha, and allowance, tolerance and floor if they are given, as agents take them.
    - `tell`: what is declared beside what is known already: "baseline" (what it earns), "rewards", "mechanics".
    """

    name: str
    promise: dict[str, Any]
    tell: frozenset[str] = frozenset()


class Compared(NamedTuple):
    """What to compare with what was described; None: a choice of our own."""

    alphas: Sequence[float] | None = None
    allowances: Sequence[float] | None = None
    tell: Sequence[str] | None = None


TOLD = {
    "baseline": "tell it what the baseline earns",
    "rewards": "tell it the mean rewards",
    "mechanics": "tell it the mechanics",
}


def options(
    promise: dict[str, Any], allowance: float, can_tell: tuple[str, ...], words: Any, chosen: Compared
) -> list[Option]:
    """What was described, and what could be chosen or declared instead.

    `allowance` is what α lets go in a year; `words` says amounts.
    """
    alpha, held = promise["alpha"], promise.get("allowance", 0.0)
    found = [Option(AS_DESCRIBED, promise)]
    alphas = [alpha * factor for factor in (2, 4) if 0 < alpha * factor < 0.5]
    totals = [held + years * allowance for years in ALLOWED if allowance > 0]
    alphas = alphas if chosen.alphas is None else [float(each) for each in chosen.alphas]
    totals = totals if chosen.allowances is None else [float(each) for each in chosen.allowances]
    found += [Option(f"α = {each:g}", promise | {"alpha": each}) for each in alphas]
    found += [Option(f"allow {words(total)} in all", promise | {"allowance": total}) for total in totals]
    parts = can_tell if chosen.tell is None else tuple(chosen.tell)
    found += [Option(TOLD[part], promise, frozenset([part])) for part in parts]
    if len(parts) > 1:
        found.append(Option("tell it all of these", promise, frozenset(parts)))
    return found


def compared_faults(chosen: Compared, promise: dict[str, Any], can_tell: tuple[str, ...]) -> list[str]:
    """Why these cannot be compared."""
    faults = [f"{name} {given!r} must be a list" for name, given in zip(chosen._fields, chosen, strict=True)
              if given is not None and (isinstance(given, str) or not isinstance(given, Sequence))]  # fmt: skip
    if faults:
        return faults
    for each in chosen.alphas or ():
        Tolerance.parse(each, faults, **{**_amounts(promise), "allowance": promise.get("allowance") or 1.0})
    for each in chosen.allowances or ():
        Tolerance.parse(promise["alpha"] or 0.5, faults, **{**_amounts(promise), "allowance": each})
    for part in chosen.tell or ():
        if part not in TOLD:
            faults.append(f"tell: there is no {part!r}; there are {', '.join(TOLD)}")
        elif part not in can_tell:
            known = ", ".join(can_tell) or "nothing"
            faults.append(f"tell: {part!r} is known already, or this problem has none; still to be told: {known}")
    return faults


def promise_faults(promise: dict[str, Any]) -> list[str]:
    """Why nothing can be promised like this."""
    faults: list[str] = []
    Tolerance.parse(promise["alpha"], faults, **_amounts(promise) | {"allowance": promise.get("allowance", 0.0)})
    return faults + delta_faults(promise["delta"])


def _amounts(promise: dict[str, Any]) -> dict[str, Any]:
    given = {name: promise.get(name) for name in ("floor", "checkpoints")}
    return given | {"tolerance": promise.get("tolerance", 0.0)}


def agent_of(
    option: Option,
    model: Problem,
    baseline: Baseline | None,
    knowledge: Knowledge | None,
    history: History | None,
    accidents: bool,
    seed: int,
) -> CUCRL2 | CUCBVI:
    """The agent of an option, if this model is true; what it is told is true of the model.

    Without a baseline, it is told what the model's baseline earns there.
    """
    given: dict[str, Any] = dict(option.promise)
    condition = given.pop("condition", None)
    if baseline is None or "baseline" in option.tell:
        baseline = exact_baseline(model)
    known = _holding(_known(option.tell, model, knowledge), model)
    if known is not None:
        given["knowledge"] = known
    if not model.mdp.noise.bounded:
        given["bounded"] = False
    condition = condition or ("decisions" if _can_decide(baseline, known, model) else "replay")
    kind: Any = CUCRL2 if model.horizon is None else lambda space, **more: CUCBVI(space, model.horizon, **more)
    agent: CUCRL2 | CUCBVI = kind(model.space, baseline=baseline, condition=condition, seed=seed, **given)
    if history is not None:
        history.into(agent, accidents=accidents)
    return agent


def exact_baseline(model: Problem) -> Baseline:
    """The baseline with what it earns in a model."""
    if model.horizon is not None:
        return Baseline(model.baseline, values=solve.policy_values(model.mdp, model.baseline, model.horizon))
    played = solve.gain_and_bias(model.mdp, model.baseline)
    return Baseline(model.baseline, float(played.gains[model.start]), played.bias)


def _can_decide(baseline: Baseline, known: Knowledge | None, model: Problem) -> bool:
    """Whether enough is known of the baseline, and of rewards, for the condition on decisions.

    If what it earns is not known, one noise whose mechanics are known does instead (`certificates.coupling`).
    """
    if not model.mdp.noise.bounded:
        return False
    mechanics = None if known is None or model.horizon is not None else known.mechanics
    if mechanics is not None and mechanics.n_components == len(mechanics.sizes) == 1:
        return baseline.policy.is_deterministic
    return baseline.gain is not None or (baseline.values is not None and np.ndim(baseline.values) == 2)


def _holding(known: Knowledge | None, model: Problem) -> Knowledge | None:
    """What is known, with bounds on single rewards widened wherever the noise of the model leaves them.

    How rewards scatter is not declared, and models have one noise for all pairs. Their mean rewards keep the bounds.
    """
    if known is None or known.declared.reward_low is None or known.declared.reward_high is None:
        return known
    r = model.mdp.r_counted
    below, above = model.mdp.noise.reach(r, model.space.r_max)
    slack = model.space.money.slack
    low, high = known.declared.reward_low, known.declared.reward_high
    if np.all((r - below >= low - slack) & (r + above <= high + slack)):
        return known
    told = copy(known)
    wider = np.minimum(low, r - below), np.maximum(high, r + above)
    told.declared = replace(known.declared, reward_low=wider[0], reward_high=wider[1])
    return told


def _known(tell: frozenset[str], model: Problem, knowledge: Knowledge | None) -> Knowledge | None:
    """What is known, and what is told beside it."""
    if not tell & {"rewards", "mechanics"}:
        return knowledge
    declared = None if knowledge is None else knowledge.declared
    mechanics = model.mechanics if "mechanics" in tell else None if knowledge is None else knowledge.mechanics
    means = model.mdp.r if "rewards" in tell else None
    if means is None and declared is not None and declared.reward_mean is not None:
        means = model.space.money.earned(declared.reward_mean)
    bounds = None
    if declared is not None and declared.reward_low is not None and declared.reward_high is not None:
        bounds = tuple(model.space.money.earned(end) for end in (declared.reward_low, declared.reward_high))
    if mechanics is not None and means is not None:
        mechanics = mechanics.without_rewards()
    successors = None
    if mechanics is None and declared is not None and declared.has_successors.any():
        rows = np.split(declared.successor_state, declared.successor_ptr[1:-1])
        successors = [row if has else None for row, has in zip(rows, declared.has_successors, strict=True)]
    given: dict[str, Any] = {"rewards": means, "reward_bounds": bounds}
    return Knowledge(model.space, **given, successors=successors, mechanics=mechanics)
