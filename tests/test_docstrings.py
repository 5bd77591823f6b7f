"""The examples in docstrings run and print what they say."""

import ast
import doctest
import importlib
from pathlib import Path

import pytest

import surefooted
from study_help import without_processes

PACKAGE = Path(surefooted.__file__).parent
MODULES = sorted(
    ".".join(("surefooted", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
SHOWN = ["Baseline", "Counts", "History", "Noise", "Policy", "Problem", "Space", "StagedMDP", "TabularMDP", "draw"]
SHOWN += ["evaluate", "read_history", "write_history"]


@pytest.mark.parametrize("module", MODULES)
@without_processes()
def test_the_examples_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if module == "surefooted.live.address":
        pytest.importorskip("psycopg", exc_type=ImportError)
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted and not found.failed


@pytest.mark.parametrize("name", SHOWN)
def test_the_main_classes_and_functions_have_an_example_and_name_their_parameters(name):
    public = getattr(surefooted, name)
    assert public.__doc__ and ">>> " in public.__doc__
    tree = ast.parse(Path(importlib.import_module(public.__module__).__file__).read_text(encoding="utf-8"))
    if function := next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name and n.body), None):
        arguments = [a.arg for a in (*function.args.args, *function.args.kwonlyargs)]
        assert all(f"`{argument}`" in public.__doc__ for argument in arguments)
