"""The errors of this package. Each says what is wrong, where, and what to do."""

import inspect
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

_SHOWN = 50  # faults in the message; `.faults` has all of them


class SurefootedError(Exception):
    """The base class of all errors that this package raises on purpose; the message is for people.

    >>> import surefooted as sf
    >>> try:
    ...     sf.problems.make("riverswin")
    ... except sf.SurefootedError as error:
    ...     print(error)
    there is no problem 'riverswin'; did you mean 'riverswim'?
    """


class InvalidInput(SurefootedError, ValueError):
    """Input that cannot be used: `.what` is refused, `.faults` are all the reasons, `.hint` is what to do.

    >>> import surefooted as sf
    >>> try:
    ...     sf.TabularMDP.from_pairs({(0, 0): (2.0, {0: 0.5})})
    ... except sf.InvalidInput as error:
    ...     error.faults
    ('state 0, action 0: probabilities sum to 0.5, not 1', 'state 0, action 0: mean reward 2 outside [0, 1]')

    - `what`: what is refused.
    - `faults`: all the reasons, a sentence each.
    - `hint`: what to do instead.
    """

    def __init__(self, what: str, faults: Iterable[str], hint: str = "") -> None:
        self.what, self.faults, self.hint = what, tuple(faults), hint
        lines = [f"{what}: {len(self.faults)} fault{'s' if len(self.faults) != 1 else ''}"]
        lines += [f"  - {fault}" for fault in self.faults[:_SHOWN]]
        if len(self.faults) > _SHOWN:
            lines.append(f"  - … and {len(self.faults) - _SHOWN} more, all in `.faults`")
        if hint:
            lines.append(hint)
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type["InvalidInput"], tuple[str, tuple[str, ...], str]]:
        """Pickle by the constructor's arguments, so that another process gets the same error."""
        return type(self), (self.what, self.faults, self.hint)


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A sentence, after a space, if a known name is close to this one; nothing otherwise.

    >>> did_you_mean("stepz", ["steps", "seed"])
    " Did you mean 'steps'?"
    """
    close = get_close_matches(str(name), list(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def not_among(kind: str, given: object, known: Iterable[str]) -> str:
    """A sentence about a name that is none of those known.

    >>> not_among("condition", "decision", ["replay", "decisions"])
    "there is no condition 'decision'; there are replay, decisions. Did you mean 'decisions'?"
    """
    names = list(known)
    meant = did_you_mean(given, names)
    return f"there is no {kind} {given!r}; there are {', '.join(names)}" + (meant and f".{meant}")


def shown(given: object) -> str:
    """What was given, in a few words.

    >>> shown([0, 0]), shown("log.csv")
    ('[0, 0]', "'log.csv'")
    """
    text = repr(given)
    return text if len(text) <= 40 else f"of type {type(given).__name__}"


def argument_faults(given: Iterable[str], *kinds: type[Any]) -> list[str]:
    """A sentence for each name that no constructor of these classes, or of one that they pass names on to, takes.

    >>> argument_faults(["hintt"], InvalidInput)
    ["there is no argument 'hintt'. Did you mean 'hint'?"]
    """
    makers = [vars(base)["__init__"] for kind in kinds for base in kind.__mro__ if "__init__" in vars(base)]
    parameters = [one for make in makers for one in list(inspect.signature(make).parameters.values())[1:]]
    known = {one.name for one in parameters if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)}
    return [f"there is no argument {name!r}.{did_you_mean(name, known)}" for name in given if name not in known]


class UnreadableFile(SurefootedError, ValueError):
    """A file that is missing, truncated, or in another format or version."""


class NoSingleGain(SurefootedError, ValueError):
    """The gain depends on the state, so there is no single gain."""


class NotConverged(SurefootedError, ArithmeticError):
    """An iteration reached its limit before the accuracy asked for."""


class MissingExtra(SurefootedError, ImportError):
    """An optional dependency is needed and not installed."""
