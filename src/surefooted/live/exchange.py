"""A deployment as JSON: what `create_deployment` takes, in the user's unit, for clients and services to exchange.

Only numbers, names and lists are exchanged, never code. Everything passes the constructors of the package, which check
it, so that a definition from elsewhere is as valid as one made here.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefooted.agents.fleet_accounts import Guardrail
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.knowledge.knowledge import Knowledge
from surefooted.knowledge.mechanics import Mechanics
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Space

COUNTS = {"visits": np.int64, "reward_sum": np.float64, "reward_square": np.float64, "next_ptr": np.int64,
          "next_state": np.int64, "next_count": np.int64}  # fmt: skip


def as_json(space: Space, baseline: Baseline, alpha: float, **options: Any) -> dict[str, Any]:
    """The arguments of `create_deployment` as values that JSON has.

    >>> import numpy as np
    >>> import surefooted as sf
    >>> from surefooted.live.exchange import as_json
    >>> space = sf.Space.full(1, 2, rewards=(0, 100), unit="€")
    >>> as_json(space, sf.Baseline(sf.Policy.always(space, 0), gain=40.0, bias=np.zeros(1)), alpha=0.05)["baseline"]
    {'policy': [0], 'gain': 40.0, 'bias': [0.0]}
    """
    told: dict[str, Any] = {"space": space_as_json(space), "baseline": _baseline(baseline), "alpha": float(alpha)}
    for name, value in options.items():
        if value is None:
            continue
        if name == "knowledge":
            told[name] = _knowledge(value)
        elif name == "counts":
            told[name] = {key: _plain(item) for key, item in value.state_dict().items()}
        elif name == "guardrails":
            told[name] = [_guardrail(rail) for rail in value]
        else:
            told[name] = _plain(value)
    return told


def from_json(told: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `create_deployment` that `as_json` described; one error names what is wrong."""
    given = dict(told)
    try:
        space = space_from_json(given.pop("space"))
        options: dict[str, Any] = {"space": space, "baseline": _baseline_of(space, given.pop("baseline"))}
        if (knowledge := given.pop("knowledge", None)) is not None:
            options["knowledge"] = _knowledge_of(space, knowledge)
        if (counts := given.pop("counts", None)) is not None:
            options["counts"] = _counts_of(space, counts)
        rails = given.pop("guardrails", None) or ()
        if isinstance(dates := given.get("checkpoints"), list):
            given["checkpoints"] = tuple(dates)
        options["guardrails"] = tuple(Guardrail(**rail | {"bias": _floats(rail["bias"])}) for rail in rails)
    except (TypeError, KeyError, OverflowError, AttributeError) as error:
        missing = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise InvalidInput("this definition cannot be read", [missing]) from error
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("this definition cannot be read", [str(error)]) from error
    return options | {name: value for name, value in given.items() if value is not None}


def space_as_json(space: Space) -> dict[str, Any]:
    """The states and their actions, the range and unit of rewards, and the names."""
    actions = [space.actions(s).tolist() for s in range(space.n_states)]
    told: dict[str, Any] = {"actions_of_state": actions, "rewards": [space.low, space.high], "unit": space.unit}
    if space.low == 0:
        told["rewards"] = [0.0, space.r_max]
    names = {"states": space.state_names, "actions": space.action_names}
    return told | {name: list(listed) for name, listed in names.items() if listed is not None}


def space_from_json(told: Mapping[str, Any]) -> Space:
    """The space that `space_as_json` described."""
    actions = [_ints(row) for row in told["actions_of_state"]]
    ptr = np.cumsum([0, *(row.size for row in actions)], dtype=np.int64)
    flat = np.concatenate(actions) if actions else np.zeros(0, dtype=np.int64)
    low, high = (float(end) for end in told.get("rewards", (0.0, 1.0)))
    names = {name: told[name] for name in ("states", "actions") if told.get(name) is not None}
    unit = str(told.get("unit", ""))
    scale: dict[str, Any] = {"r_max": high} if low == 0 and not unit else {"rewards": (low, high), "unit": unit}
    return Space(ptr, flat, **scale, **names)


def _baseline(baseline: Baseline) -> dict[str, Any]:
    policy = baseline.policy
    if policy.horizon is not None:
        raise InvalidInput("this baseline cannot be deployed", ["it has one decision rule per stage"])
    played = policy.actions.tolist() if policy.pair is not None else policy.probabilities.tolist()
    return {"policy": played, "gain": _plain(baseline.gain), "bias": _plain(baseline.bias)}


def _baseline_of(space: Space, told: Mapping[str, Any]) -> Baseline:
    played = told["policy"]
    randomised = bool(played) and isinstance(played[0], list)
    policy = Policy.randomised(space, _floats(played)) if randomised else Policy.deterministic(space, _ints(played))
    bias = told.get("bias")
    return Baseline(policy, told.get("gain"), None if bias is None else _floats(bias))


def _guardrail(rail: Guardrail) -> dict[str, Any]:
    return {name: _plain(getattr(rail, name)) for name in Guardrail.__dataclass_fields__}


def _knowledge(knowledge: Knowledge) -> dict[str, Any]:
    """What was declared, in the user's unit; rewards of mechanics are in it already."""
    declared, earned = knowledge.declared, knowledge.space.money.earned
    told: dict[str, Any] = {}
    for name, array in (("rewards", declared.reward_mean), ("reward_of_next", declared.reward_of_next)):
        if array is not None:
            told[name] = _plain(earned(array))
    if declared.reward_low is not None and declared.reward_high is not None:
        told["reward_bounds"] = [_plain(earned(declared.reward_low)), _plain(earned(declared.reward_high))]
    if declared.mechanics is not None:
        names = ("sizes", "law", "next_state", "reward", "observed")
        return told | {"mechanics": {name: _plain(getattr(declared.mechanics, name)) for name in names}}
    return told | {"successors": [_plain(row) for row in knowledge._declared_successors()]}


def _knowledge_of(space: Space, told: Mapping[str, Any]) -> Knowledge:
    mechanics = None
    if told.get("mechanics") is not None:
        given = dict(told["mechanics"])
        arrays = {"law": _ints(given.pop("law")), "next_state": _ints(given.pop("next_state"))}
        reward = given.pop("reward", None)
        mechanics = Mechanics(space, **arrays, reward=None if reward is None else _floats(reward), **given)
    options: dict[str, Any] = {"mechanics": mechanics}
    rows = told.get("successors")
    if rows is not None:
        options["successors"] = [None if row is None else _ints(row) for row in rows]
    if told.get("rewards") is not None:
        options["rewards"] = _floats(told["rewards"])
    if told.get("reward_bounds") is not None:
        low, high = told["reward_bounds"]
        options["reward_bounds"] = (_floats(low), _floats(high))
    if told.get("reward_of_next") is not None:
        pairs = zip(space.pair_state.tolist(), space.pair_action.tolist(), rows or (), strict=True)
        steps = [(s, a, int(y)) for s, a, row in pairs for y in row or ()]
        reward_of = dict(zip(steps, _floats(told["reward_of_next"]).tolist(), strict=True))
        options["reward_function"] = lambda s, a, y: reward_of[s, a, y]
    return Knowledge(space, **options)


def _counts_of(space: Space, told: Mapping[str, Any]) -> Counts:
    arrays: dict[str, Any] = {name: np.array(told[name], dtype=kind) for name, kind in COUNTS.items()}
    return Counts.from_state_dict(space, arrays | {"bounded": told["bounded"], "stages": told["stages"]})


def _ints(values: Any) -> Any:
    """An array of whole numbers; an error if one is not whole."""
    array = np.array(values)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"whole numbers are expected, not {str(values)[:60]}")
    return array.astype(np.int64)


def _floats(values: Any) -> Any:
    return np.array(values, dtype=np.float64)


def _plain(value: Any) -> Any:
    """A value that JSON has."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
