"""What one could choose or declare: a larger α, an allowance, what the baseline earns, rewards, mechanics."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from surefooted import solve
from surefooted.agents.cucbvi import CUCBVI
from surefooted.agents.cucrl2 import CUCRL2
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


def options(promise: dict[str, Any], allowance: float, can_tell: tuple[str, ...], words: Any) -> list[Option]:
    """What was described, and what could be chosen or declared instead.

    `allowance` is what α lets go in a year; `words` says amounts.
    """
    alpha = promise["alpha"]
    found = [Option(AS_DESCRIBED, promise)]
    for factor in (2, 4):
        if 0 < alpha * factor < 0.5:
            found.append(Option(f"α = {alpha * factor:g}", promise | {"alpha": alpha * factor}))
    for years in ALLOWED if allowance > 0 else ():
        total = promise.get("allowance", 0.0) + years * allowance
        found.append(Option(f"allow {words(total)} in all", promise | {"allowance": total}))
    what = {"baseline": "tell it what the baseline earns", "rewards": "tell it the mean rewards",
            "mechanics": "tell it the mechanics"}  # fmt: skip
    found += [Option(what[part], promise, frozenset([part])) for part in can_tell]
    if len(can_tell) > 1:
        found.append(Option("tell it all of these", promise, frozenset(can_tell)))
    return found


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
    known = _known(option.tell, model, knowledge)
    if known is not None:
        given["knowledge"] = known
    if not model.mdp.noise.bounded:
        given["bounded"] = False
    condition = condition or ("decisions" if _can_decide(baseline, model) else "replay")
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


def _can_decide(baseline: Baseline, model: Problem) -> bool:
    """Whether enough is known of the baseline, and of rewards, for the condition on decisions."""
    if not model.mdp.noise.bounded:
        return False
    return baseline.gain is not None or (baseline.values is not None and np.ndim(baseline.values) == 2)


def _known(tell: frozenset[str], model: Problem, knowledge: Knowledge | None) -> Knowledge | None:
    """What is known, and what is told beside it."""
    if not tell & {"rewards", "mechanics"}:
        return knowledge
    declared = None if knowledge is None else knowledge.declared
    mechanics = model.mechanics if "mechanics" in tell else None if knowledge is None else knowledge.mechanics
    means = model.mdp.r if "rewards" in tell else None
    if means is None and declared is not None and declared.reward_mean is not None:
        means = model.space.money.earned(declared.reward_mean)
    if mechanics is not None and means is not None:
        mechanics = mechanics.without_rewards()
    successors = None
    if mechanics is None and declared is not None and declared.has_successors.any():
        rows = np.split(declared.successor_state, declared.successor_ptr[1:-1])
        successors = [row if has else None for row, has in zip(rows, declared.has_successors, strict=True)]
    return Knowledge(model.space, rewards=means, successors=successors, mechanics=mechanics)
