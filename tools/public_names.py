"""Every public name, as the reference of the site shows it and as `tests/test_docstrings.py` checks it."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import surefooted

NAMED = re.compile(r"`(\w+)`|^ *((?:\w+, )*\w+) : ", re.MULTILINE)  # - `name`: ..., or name, other : ...


def public_names() -> Iterator[tuple[str, str, Any]]:
    """The module ("" for `surefooted`), the name and the object of each; an object of several modules once."""
    for name in sorted(surefooted._HOMES):
        yield "", name, getattr(surefooted, name)
    for module in sorted(surefooted._MODULES):
        listed = getattr(surefooted, module)
        for name in listed.__all__:
            value = getattr(listed, name)
            is_shown = callable(value) and value.__module__.startswith("surefooted.")
            if is_shown and getattr(surefooted, name, None) is not value:
                yield module, name, value


def undocumented(value: Any) -> list[str]:
    """The parameters of a function or class (or the fields of a record) that its docstring does not name.

    A class may leave to the classes that it is built from what they say. An error of Python's kind has no parameters.
    """
    if inspect.isclass(value) and issubclass(value, Exception) and "__init__" not in vars(value):
        return []
    classes = [each for each in inspect.getmro(value) if each is not object] if inspect.isclass(value) else [value]
    said = "\n".join(each.__doc__ or "" for each in classes)
    known = {word for one, several in NAMED.findall(said) for word in (one, *several.split(", "))}
    given = inspect.signature(value).parameters.values()
    named = [p.name for p in given if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and not p.name.startswith("_")]
    return [name for name in named if name not in known]
