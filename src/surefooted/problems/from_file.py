"""From a problem file to a `ProblemFile`: every fault is named at once, with its line and what to do."""

import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from surefooted import own_code
from surefooted.certificates.tolerance import Tolerance
from surefooted.data.history import History
from surefooted.data.log_times import Step, parse_step
from surefooted.data.reading import read_history
from surefooted.errors import InvalidInput, UnreadableFile, shown
from surefooted.problems.expressions import Formula
from surefooted.problems.file_axes import find_all
from surefooted.problems.file_guardrails import GuardrailReader
from surefooted.problems.file_lines import lines_of, placed, toml_hint
from surefooted.problems.file_spec import FileSpec, Range
from surefooted.problems.problem_file import ProblemFile, Promise
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.space import Bools, Space


def load_file(
    path: str | Path, allow_code: bool = False, say: Callable[[str], object] | None = None, logs: bool = True
) -> ProblemFile:
    """Read a problem file; see `problems.load`."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(f"cannot read the problem {path}: {error}") from error
    spec, places = _read(path, text)
    own_code.permit(str(path), _named_code(spec), allow_code, say)
    return _Builder(path, spec, places, allow_code).build(logs)


def load_text(text: str, largest: int, what: str = "this text") -> ProblemFile:
    """Read the text of a problem file that came from elsewhere: no file of this machine is read, and no code runs.

    `largest` is how many state–action pairs, and values of noise for all of them, it may describe.
    """
    path = Path(what)
    spec, places = _read(path, text)
    faults = [placed(places, ("knowledge",), f"names code, {word}: only the machine itself may run code")
              for word in _named_code(spec)]  # fmt: skip
    if spec.logs is not None:
        faults.append(placed(places, ("logs",), "names files: only the machine itself may read them"))
    states = spec.states.values if spec.states.values is not None else spec.states.bins
    size = _size(states) * _size(spec.actions.values)
    for values in spec.knowledge.noise.values():
        size *= _size(values)
    if size > largest:
        faults.append(f"states, actions and noise have {size} combinations; {largest} are allowed")
    if faults:
        raise InvalidInput(f"{path} cannot be used", faults, "On the machine itself: surefooted live init.")
    return _Builder(path, spec, places, False).build(logs=False)


def _read(path: Path, text: str) -> tuple[FileSpec, dict[str, int]]:
    """What a text says, and the lines of its keys."""
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UnreadableFile(f"{path} is not TOML: {error}{toml_hint(text, str(error))}") from error
    places = lines_of(text)
    try:
        return FileSpec.model_validate(raw), places
    except ValidationError as error:
        raise InvalidInput(f"{path} is not a problem", _spec_faults(error, places)) from error


def _named_code(spec: FileSpec) -> list[str]:
    """The code that a file names."""
    words = (spec.knowledge.mechanics, spec.knowledge.reward)
    return [word for word in words if word and own_code.is_code(word)]


def _size(values: Any) -> int:
    """How many values there are."""
    return values.last - values.first + 1 if isinstance(values, Range) else len(values or ())


def _spec_faults(error: ValidationError, places: dict[str, int]) -> list[str]:
    """A sentence for each key that is missing, unknown or of the wrong type."""
    faults = []
    for found in error.errors():
        path = tuple(part for part in found["loc"] if not (isinstance(part, str) and ("[" in part or part in TYPES)))
        said = str(found["msg"]).removeprefix("Value error, ")
        if found["type"] == "extra_forbidden":
            known = _keys(path[:-1])
            near = get_close_matches(str(path[-1]), known, n=1)
            said = f"there is no such key; {f'did you mean {near[0]!r}?' if near else 'there are ' + ', '.join(known)}"
        elif found["type"] == "missing":
            said = "is missing"
        elif (meant := _meant(str(found["type"]), path, found.get("ctx", {}))) is not None:
            said = f"{meant}, not {shown(found['input'])}"
        faults.append(placed(places, path, said))
    return list(dict.fromkeys(faults))


def _meant(kind: str, path: tuple[Any, ...], told: Mapping[str, Any]) -> str | None:
    """What a value of the wrong type should be; None if the message of the check says it."""
    if path[-1:] == ("values",) or path[:2] == ("knowledge", "noise"):
        return "give a list, or {from = 0, to = 12}" if kind != "value_error" else None
    if kind.startswith("float"):
        share = path[-1:] in (("alpha",), ("delta",))
        return "must be one number" + (", as in 0.05 for 5 %" if share else " without a unit")
    if kind == "literal_error":
        return f"must be {told['expected']}"
    if kind in ("less_than", "greater_than"):
        return f"must be {kind.replace('_', ' ')} {next(iter(told.values())):g}"
    words = {"int": "a whole number", "string": "a text in quotes", "list": "a list", "bool": "true or false"}
    return next((f"must be {word}" for start, word in words.items() if kind.startswith(start)), None)


TYPES = ("Range", "str", "int", "float", "list", "dict")


def _keys(path: tuple[Any, ...]) -> list[str]:
    """The keys of the table at a path."""
    model: Any = FileSpec
    for part in (part for part in path if isinstance(part, str)):
        kind = model.model_fields[part].annotation if part in model.model_fields else None
        model = next((x for x in (kind, *getattr(kind, "__args__", ())) if hasattr(x, "model_fields")), None)
        if model is None:
            return []
    return list(model.model_fields)


class _Builder(GuardrailReader):
    """Builds the parts of a problem one after the other, and collects what is wrong with each."""

    def build(self, logs: bool) -> ProblemFile:
        """The problem, or one error."""
        spec = self.spec
        step = self._try(("step",), lambda: None if spec.step is None else parse_step(spec.step))
        self._stop()
        space = self._space()
        self._stop()
        assert space is not None
        baseline, start = self._baseline(space), 0
        if spec.start is not None:
            start = self.states.find(spec.start, ("start",), self._fault)
        mechanics = self._mechanics(space)
        knowledge = self._knowledge(space, mechanics)
        self._stop()
        assert baseline is not None
        problem, guardrails = self._model(space, baseline, start, mechanics), self._guardrails(space, mechanics)
        history = self._history(space, step) if logs and not self.faults else None
        self._stop()
        promise = self._promise(baseline, space)
        self._stop()
        accidents = spec.logs is not None and spec.logs.accidents
        return ProblemFile(self.path, spec.name, spec.title, space, baseline, start, spec.horizon, knowledge, history,
                           accidents, step, promise, problem, self._log_options(step), guardrails)  # fmt: skip

    def _promise(self, baseline: Baseline, space: Space) -> Promise:
        """What may be lost."""
        promise = Promise(**self.spec.promise.model_dump())
        amounts = {key: value for key, value in promise.arguments.items() if key not in ("alpha", "delta", "condition")}
        faults: list[str] = []
        may_lose = Tolerance.parse(promise.alpha, faults, **amounts)
        for fault in faults or may_lose.gain_faults(baseline.gain, space.money):
            self._fault(("promise", fault.split(maxsplit=1)[0]), fault)
        return promise

    def _space(self) -> Space | None:
        """Which action is available where, and the range of rewards."""
        given, here = self.spec.actions.available, ("actions", "available")
        mask = np.ones((self.states.size, self.actions.size), dtype=bool)
        if isinstance(given, Mapping):
            mask[:] = False
            for state, actions in given.items():
                s = self.states.find(state, (*here, state), self._fault)
                mask[s, [self.actions.find(action, (*here, state), self._fault) for action in actions]] = True
            bare = [self.states.labels[s] for s in np.flatnonzero(~mask.any(axis=1))]
            for label in bare[:5]:
                self._fault(here, f"state {label} has no action")
        elif given is not None:
            formula = self._formula(here, given, [self.states.name, self.actions.name])
            if formula is not None:
                found = self._try(here, lambda: self._mask(formula))
                mask = mask if found is None else found
        rewards = self.spec.rewards
        if not rewards.low < rewards.high:
            self._fault(("rewards",), f"{rewards.low:g}, {rewards.high:g} must be (low, high) with low < high")
        if self.faults:
            return None
        scale: dict[str, Any] = {"rewards": (rewards.low, rewards.high), "unit": rewards.unit}
        scale |= {"states": self.states.labels, "actions": self.actions.labels}
        used = np.flatnonzero(mask.any(axis=0))
        if used.size and used[-1] != self.actions.size - 1:
            lost = ", ".join(self.actions.labels[used[-1] + 1 :])
            self._fault(here, f"no state has the actions {lost}: leave them out")
            return None
        return self._try(here, lambda: Space.from_available(mask, **scale))

    def _mask(self, formula: Formula) -> Bools:
        rows = [
            [bool(formula(**{self.states.name: s, self.actions.name: a})) for a in self.actions.values]
            for s in self.states.values
        ]
        return np.array(rows, dtype=bool)

    def _baseline(self, space: Space) -> Baseline | None:
        """Today's policy, and its gain and bias if they are given."""
        spec, here = self.spec.baseline, ("baseline",)
        rule = spec.order_below is not None or spec.order_up_to is not None
        kinds = [spec.formula is not None, spec.table is not None, rule]
        if sum(kinds) != 1 or (rule and (spec.order_below is None or spec.order_up_to is None)):
            self._fault(here, "give one of: formula, table, or both order_below and order_up_to")
            return None
        policy = self._policy_table(space) if spec.table is not None else self._policy_rule(space)
        if policy is None:
            return None
        bias: Any = spec.bias
        if isinstance(bias, dict):
            bias = find_all(self.states, bias, (*here, "bias"), self._fault)
        return self._try(here, lambda: Baseline(policy, spec.gain, bias))

    def _policy_rule(self, space: Space) -> Policy | None:
        """The policy of a formula or of an (s, S) rule."""
        spec = self.spec.baseline
        text, key = spec.formula, "formula"
        if text is None:
            name, key = self.states.name, "order_below"
            text = f"{spec.order_up_to:g} - {name} if {name} < {spec.order_below:g} else 0"
        here = ("baseline", key)
        formula = self._formula(here, text, [self.states.name])
        if formula is None:
            return None
        before, chosen = len(self.faults), []
        for s, value in enumerate(self.states.values):
            if len(self.faults) > before:
                return None  # one state shows what is wrong
            action = self._try(here, lambda value=value: formula(**{self.states.name: value}))  # type: ignore[misc]
            where = f", in {self.states.name} {self.states.labels[s]}"
            a = 0 if action is None else self.actions.find(action, here, self._fault, where)
            if len(self.faults) == before and a not in space.actions(s):
                self._fault(here, f"in state {self.states.labels[s]}, action {self.actions.labels[a]} is not available")
            chosen.append(a)
        return None if len(self.faults) > before else self._try(here, lambda: Policy.deterministic(space, chosen))

    def _policy_table(self, space: Space) -> Policy | None:
        """The policy of a table from states to actions, or to probabilities of actions."""
        here, before = ("baseline", "table"), len(self.faults)
        given = self.spec.baseline.table or {}
        weights = np.zeros((space.n_states, space.n_actions))
        for state, action in given.items():
            s = self.states.find(state, (*here, state), self._fault)
            for word, mass in (action if isinstance(action, dict) else {action: 1.0}).items():
                weights[s, self.actions.find(word, (*here, state), self._fault)] += mass
        for s in np.flatnonzero(~weights.any(axis=1))[:5]:
            self._fault(here, f"state {self.states.labels[s]} has no action: say what is done there")
        if len(self.faults) > before:
            return None
        return self._try(here, lambda: Policy.randomised(space, weights))

    def _log_options(self, step: Step | None) -> dict[str, Any]:
        """How logs are read."""
        options: dict[str, Any] = (
            {} if self.spec.logs is None else self.spec.logs.model_dump(exclude={"file", "accidents"})
        )
        if self.states.edges is not None:
            options["bins"] = {"state": self.states.edges}
        return options | ({} if step is None else {"step": str(step)})

    def _history(self, space: Space, step: Step | None) -> History | None:
        """The log that the file names, relative to it."""
        spec = self.spec.logs
        if spec is None:
            return None
        files = [self.path.parent / name for name in ([spec.file] if isinstance(spec.file, str) else spec.file)]
        return self._try(("logs",), lambda: read_history(files, space, **self._log_options(step)))
