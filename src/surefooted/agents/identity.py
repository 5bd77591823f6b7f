"""Whose state is this? What an agent's proofs depend on is saved with its state, and compared when it is loaded.

A budget that was proved for one α, δ, confidence set or baseline proves nothing for another one. So `load_state_dict`
refuses the state of an agent that was built differently and names each difference, and it refuses a state that was
changed since it was saved. A state that is refused leaves the agent exactly as it was. `save` and `load` do the same
with a file.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from surefooted import __version__, codec
from surefooted.agents.in_use import HALFWAY, USER, exclusive, in_use
from surefooted.errors import InvalidInput, SurefootedError, UnreadableFile
from surefooted.knowledge.knowledge import Knowledge
from surefooted.pages import Shown
from surefooted.tables import files
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy
from surefooted.tables.policy_log import PolicyLog
from surefooted.tables.space import Space

FORMAT = 2  # of states: raise it when what is saved, or what it proves, changes its meaning
IDENTITY, CHECKSUM = "identity", "checksum"  # keys of a state
TOLD = "surefooted"  # of the identity: the version that saved the state, which is told and not compared
SHOWN = {  # attributes that are shown, and their words
    **{"horizon": "horizon", "alpha": "alpha", "condition": "condition", "delta": "delta"},
    **{"t": "steps_played", "episodes": "episodes_played"},
}
HINT = (
    "Build the agent with the arguments that it was saved with. What was observed can be used by any agent on the same "
    "space: agent.counts.merge(...)."
)


class Restorable(ABC, Shown):
    """An agent whose state can be saved and loaded: a subclass says what it was built with and what it remembers."""

    parts: ClassVar[tuple[str, ...]] = ()  # attributes that restore themselves, and stay the same objects
    _halfway = False  # whether a step is being counted; if an error left it so, only a load helps
    _owed: Any = None  # the step that was counted last, if what comes after counting failed and is still to be done

    def _facts(self) -> dict[str, object]:
        """What it plays on, what it promises, and how much it has played, as far as it has such attributes."""
        space: Any = getattr(self, "space", None)
        facts: dict[str, object] = {} if space is None else {"states": space.n_states, "pairs": space.n_pairs}
        told = {words: getattr(self, name, None) for name, words in SHOWN.items()}
        return facts | {words: fact for words, fact in told.items() if isinstance(fact, int | float | str)}

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """What its proofs depend on, by name."""

    @abstractmethod
    def _contents(self) -> dict[str, Any]:
        """Everything that it remembers."""

    @abstractmethod
    def _restore(self, state: Mapping[str, Any]) -> None:
        """Remember what `_contents` returned: replace attributes, and write into none of the objects they had."""

    def _finish(self) -> None:
        """Do what comes after counting a step, such as planning. Until this succeeds, the step stays in `_owed`."""

    def _catch_up(self, step: Any = None) -> bool:
        """Do what an error left undone; whether `step` is the step that was counted then, and must not be again."""
        if self._owed is None:
            return False
        owed = self._owed
        self._finish()
        self._owed = None
        return bool(step is not None and owed == step)

    @exclusive
    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue exactly; rebuild the agent with the same arguments and `load_state_dict`."""
        self._catch_up()
        contents = self._contents()
        return contents | {IDENTITY: identity(self), CHECKSUM: fingerprint(contents)}

    def load_state_dict(self, state: Mapping[str, Any]) -> Self:
        """Continue where `state_dict` was taken, by an agent that was built with the same arguments.

        Any other state is refused with one error that names every difference, and changes nothing.
        """
        with in_use(self, mends=True):
            return self._load(state)

    def save(self, path: str | Path) -> None:
        """Write everything needed to continue exactly to a file, which replaces `path` once it is complete.

        The file holds no pickles, and every later version of this package reads it (docs/saving.md).
        """
        files.write(path, codec.encode(self.state_dict()))

    def load(self, path: str | Path) -> Self:
        """Continue where `save` wrote a file, by an agent that was built with the same arguments.

        Any other file is refused, with one error that names every difference, and changes nothing.
        """
        try:
            state = codec.decode(Path(path).read_bytes(), shared=list(_spaces(self.arguments())))
        except OSError as error:
            raise UnreadableFile(f"{path} cannot be read: {error.strerror or error}") from error
        except UnreadableFile as error:
            raise UnreadableFile(f"{path}: {error}") from error
        return self.load_state_dict(state)

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles have: all but who uses it now."""
        return {name: value for name, value in self.__dict__.items() if name != USER}

    def _load(self, state: Mapping[str, Any]) -> Self:
        """Restore a twin, and take over what it remembers."""
        contents, twin = _opened(state, identity(self)), copy(self)
        for name in self.parts:
            setattr(twin, name, copy(getattr(self, name)))
        try:
            twin._restore(contents)
        except SurefootedError:
            raise
        except Exception as error:  # whatever was wrong with it, it is no state of this agent
            raise InvalidInput("this state cannot be loaded", [f"{type(error).__name__}: {error}"]) from error
        parts = {name: getattr(self, name) for name in self.parts}
        for name, part in parts.items():
            part.__dict__.clear()
            part.__dict__.update(getattr(twin, name).__dict__)
        self.__dict__.update(twin.__dict__ | parts | {HALFWAY: False, "_owed": None})
        return self


def identity(agent: Restorable) -> dict[str, Any]:
    """What a state of this agent says about its origin: plain values, by name."""
    head = {TOLD: __version__, "format": FORMAT, "agent": type(agent).__qualname__}
    return head | dict(_flat("", agent.arguments()))


def _flat(path: str, value: Any) -> Iterable[tuple[str, Any]]:
    """The plain values that a value is made of, each with its name; arrays and functions by a digest or a name."""
    if isinstance(value, Space):
        value = _space(value)
    elif isinstance(value, Baseline):
        value = {name: getattr(value, name) for name in ("policy", "gain", "bias", "values", "span")}
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(f"{path}, {name}" if path else str(name), inner)
    else:
        yield path, _plain(value)


def _spaces(arguments: Mapping[str, Any]) -> Iterable[Space]:
    """The spaces among arguments: what is loaded uses them, too."""
    for value in arguments.values():
        if isinstance(value, Space):
            yield value
        elif isinstance(value, Mapping):
            yield from _spaces(value)


def _space(space: Space) -> dict[str, Any]:
    """What proofs depend on; names do not matter, and a space in [0, r_max] says what it always said."""
    structure = fingerprint((space.pair_ptr, space.pair_action))
    said = {"states": space.n_states, "pairs": space.n_pairs, "r_max": space.r_max, "structure": structure}
    return said | ({"low": space.low, "high": space.high, "unit": space.unit} if space.low or space.unit else {})


def _plain(value: Any) -> Any:
    """None, a truth value, a number, or a text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if callable(value):
        return _name(value)
    return fingerprint(value)


def _name(function: Callable[..., Any]) -> str:
    """The name of a function; of a partial one, with its arguments."""
    inner = getattr(function, "func", None)
    if inner is not None:
        return f"{_name(inner)} with {getattr(function, 'args', ())} {getattr(function, 'keywords', {})}"
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '')}.{name}"


def _opened(state: Any, mine: dict[str, Any]) -> dict[str, Any]:
    """The contents of a state, if it is one of this agent and nobody has changed it."""
    if not isinstance(state, Mapping):
        fault = f"it is of type {type(state).__name__}, not a dict as `state_dict` returns"
        raise InvalidInput("this state cannot be loaded", [fault])
    theirs = state.get(IDENTITY)
    if not isinstance(theirs, Mapping) or CHECKSUM not in state:
        fault = f"it does not say whose state it is ({IDENTITY!r}, {CHECKSUM!r}): `state_dict` did not return it"
        raise InvalidInput("this state cannot be loaded", [fault])
    names = [*mine, *(name for name in theirs if name not in mine)]
    faults = [
        f"{name}: {_shown(theirs, name)} in the state, {_shown(mine, name)} in this agent"
        for name in names
        if name != TOLD and not _equal(theirs.get(name, _shown), mine.get(name, _shown))
    ]
    if faults:
        raise InvalidInput("this state belongs to another agent", faults, HINT)
    contents = {name: value for name, value in state.items() if name not in (IDENTITY, CHECKSUM)}
    try:
        is_whole = fingerprint(contents) == state[CHECKSUM]
    except Exception:  # contents that no state has
        is_whole = False
    if is_whole is not True:
        raise InvalidInput("this state cannot be loaded", ["it was changed or damaged after it was saved"])
    return contents


def _equal(one: Any, other: Any) -> bool:
    """Whether two plain values are the same; what is no plain value equals nothing."""
    numbers = all(type(value) in (int, float) for value in (one, other))
    return (numbers or type(one) is type(other)) and isinstance(one, bool | int | float | str | None) and one == other


def _shown(values: Mapping[str, Any], name: str) -> str:
    """A value for people."""
    if name not in values:
        return "not given"
    value = values[name]
    return value if isinstance(value, str) else repr(value)


def fingerprint(value: Any) -> str:
    """A digest of a state, the same in every process: of numbers, texts, arrays, policies and what is made of them."""
    hashed = hashlib.blake2b(digest_size=8)
    _feed(hashed.update, value)
    return hashed.hexdigest()


def _feed(update: Callable[[bytes], Any], value: Any) -> None:
    """Feed a value to a hash, with a mark of its kind, so that no two kinds look alike."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str | bytes):
        update(f"{type(value).__name__} {value!r};".encode())
    elif isinstance(value, np.ndarray) and value.dtype != object:
        update(f"array {value.dtype.str} {value.shape};".encode())
        update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Mapping):
        update(f"dict {len(value)};".encode())
        for key in sorted(value, key=repr):
            _feed(update, key)
            _feed(update, value[key])
    elif isinstance(value, list | tuple):
        update(f"{'list' if isinstance(value, list) else 'tuple'} {len(value)};".encode())
        for item in value:
            _feed(update, item)
    elif isinstance(value, Knowledge):
        _feed(update, value.declared)
    elif isinstance(value, PolicyLog):
        _feed(update, value.stored)
    elif isinstance(value, Policy):
        _feed(update, value.key)
    elif is_dataclass(value) and not isinstance(value, type):
        update(f"{type(value).__qualname__};".encode())
        for field in fields(value):
            _feed(update, getattr(value, field.name))
    else:
        update(f"{type(value).__qualname__};".encode())
