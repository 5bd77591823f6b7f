"""Own code: functions and classes that a file names as `package.module:name`, and the one rule by which they run.

A study or problem file may come from somebody else, and importing a module runs it. So a file alone imports nothing:

1. The person who starts the work allows it (`--allow-code`, in Python `allow_code=True`). `permit` asks before anything
   is imported, and names all of the code.
2. `load` imports a name only if it is allowed. It returns a function or class that is defined in that module, and never
   one of Python's own modules: `subprocess:call` is nobody's problem.

Reading results needs no code and has no such permission.
"""

import ast
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from surefooted.errors import InvalidInput

HINT = "If you trust this code, allow it: --allow-code on the command line, allow_code=True in Python."


def is_code(word: object) -> bool:
    """Whether a word of a file names code, `package.module:name`; a file (`.npz`, `.toml`) is none."""
    return isinstance(word, str) and ":" in word and not word.endswith((".npz", ".toml"))


def permit(what: str, names: Iterable[str], allowed: bool, say: Callable[[str], object] | None = None) -> None:
    """Refuse code that was not allowed, before anything is imported; name code that was.

    - `what`: the file that names the code, for the message.
    - `names`: the code, each as `package.module:name`.
    - `allowed`: whether the person who started the work allows it.
    - `say`: gets the sentence that names the code that is about to run.

    >>> from surefooted.own_code import permit
    >>> permit("study.toml", [], allowed=False)
    >>> permit("study.toml", ["json:loads"], allowed=False)
    Traceback (most recent call last):
    surefooted.errors.InvalidInput: study.toml names code, which runs only if you allow it: 1 fault
      - json:loads is part of Python, and not code of a study or problem
    If you trust this code, allow it: --allow-code on the command line, allow_code=True in Python.
    """
    names = sorted(set(names))
    if not names:
        return
    faults = [_fault(name) or f"{name} ({_place(name)})" for name in names]
    if not allowed:
        raise InvalidInput(f"{what} names code, which runs only if you allow it", faults, HINT)
    if say is not None:
        say(f"{what} runs this code: {'; '.join(faults)}")


def load(name: str, allowed: bool) -> Callable[..., Any]:
    """The function or class `package.module:name`, imported; modules in the current directory are found, too."""
    permit("this file", [name], allowed)
    what = f"cannot import {name}"
    if fault := _fault(name):
        raise InvalidInput(what, [fault])
    module, _, word = name.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # last: no file of the directory takes the place of an installed package
    try:
        found: Any = getattr(import_module(module), word)
    except Exception as error:  # whatever the module raises while it is imported
        raise InvalidInput(what, [f"{type(error).__name__}: {error}"]) from error
    if not (inspect.isfunction(found) or inspect.isclass(found)):
        raise InvalidInput(what, [f"it is of type {type(found).__name__}, not a function or class"])
    if found.__module__ != module:
        raise InvalidInput(what, [f"{word} is defined in {found.__module__}"], f"Write {found.__module__}:{word}.")
    return found


def source(name: str) -> str:
    """A hash of the source of code: of its module, and of what that imports from the same folder or below it.

    The module must have been allowed: to find a module in a package, Python imports the package.
    """
    module = name.partition(":")[0]
    found: dict[str, str] = {}
    first = _file(module)
    _collect(module, first.parents[module.count(".")] if first is not None else Path(), found)
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()[:16]


def _collect(module: str, root: Path, found: dict[str, str]) -> None:
    """Add a module in a folder, and those in the folder that it imports, each with a hash of its file."""
    file = _file(module)
    if module in found or file is None or not file.is_relative_to(root) or "site-packages" in file.parts:
        return
    content = file.read_bytes()
    found[module] = hashlib.sha256(content).hexdigest()
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for other in names:
            _collect(other, root, found)


def _file(module: str) -> Path | None:
    """The file of a module; None if it has none."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):  # such as a name that is no module, but something in one
        return None
    is_python = spec is not None and spec.origin is not None and spec.origin.endswith(".py")
    return Path(spec.origin) if is_python else None  # type: ignore[union-attr,arg-type]


def _fault(name: str) -> str:
    """What is wrong with a name, before anything is imported; empty if nothing is."""
    module, _, word = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), word)):
        return f"{name} is not of the form package.module:name"
    if module.partition(".")[0] in sys.stdlib_module_names:
        return f"{name} is part of Python, and not code of a study or problem"
    return ""


def _place(name: str) -> str:
    """The file in which Python finds the first package of a name, without importing anything."""
    package, here = name.partition(":")[0].partition(".")[0], str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.append(here)
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        spec = None
    finally:
        if added:
            sys.path.remove(here)
    if spec is None:
        return "not found"
    return str(spec.origin or next(iter(spec.submodule_search_locations or ()), "no file"))
