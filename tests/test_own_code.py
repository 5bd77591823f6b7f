"""Code that a file names runs only when the person who starts the work allows it."""

import sys

import pytest

from surefooted import own_code
from surefooted.errors import InvalidInput

MODULE = """
import functools, os
from os import system
from functools import reduce
print("imported")
def river(n=6):
    return n
class Agent:
    pass
partial = functools.partial(river, 3)
instance = Agent()
alias = river
wrapped = functools.wraps(river)(lambda *a: river(*a))
number = 3
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mine_own.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("mine_own", None)


@pytest.mark.parametrize(
    ("word", "code"),
    [("a.b:c", True), ("subprocess:call", True), (":f", True), ("inventory", False), ("C:\\t.npz", False), (3, False)],
)
def test_what_names_code(word, code):
    assert own_code.is_code(word) is code


def test_code_that_is_not_allowed_is_named_and_not_imported(here):
    path = list(sys.path)
    for refuse in (
        lambda: own_code.permit("a.toml", ["mine_own:river", "mine_own:Agent"], False),
        lambda: own_code.load("mine_own:river", False),
    ):
        with pytest.raises(InvalidInput, match="only if you allow it") as caught:
            refuse()
        assert f"mine_own:river ({here / 'mine_own.py'})" in caught.value.faults
        assert "--allow-code" in caught.value.hint and "allow_code=True" in caught.value.hint
    assert "mine_own" not in sys.modules and sys.path == path


def test_code_that_is_allowed_is_named_before_it_is_imported(here):
    said = []
    own_code.permit("a.toml", ["mine_own:river", "mine_own:river", "nowhere.at:all"], True, said.append)
    assert said == [f"a.toml runs this code: mine_own:river ({here / 'mine_own.py'}); nowhere.at:all (not found)"]
    assert "mine_own" not in sys.modules
    assert own_code.load("mine_own:river", True)(4) == 4
    assert own_code.load("mine_own:Agent", True).__name__ == "Agent"


@pytest.mark.parametrize("name", ["alias", "wrapped"])
def test_a_function_of_the_module_may_have_another_name(name, here):
    assert own_code.load(f"mine_own:{name}", True)(5) == 5


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mine_own:partial", "of type partial"),
        ("mine_own:instance", "of type Agent"),
        ("mine_own:number", "of type int"),
        ("mine_own:system", "of type builtin_function_or_method"),
        ("mine_own:reduce", "of type builtin_function_or_method|defined in"),
        ("mine_own:functools", "of type module"),
        ("mine_own:nothing", "AttributeError"),
        ("mine_own:Agent.__init__", "not of the form"),
        ("mine_own:", "not of the form"),
        (":river", "not of the form"),
        ("mine-own:river", "not of the form"),
        ("nowhere:at_all", "No module named"),
    ],
)
def test_only_a_function_or_class_of_that_module_is_loaded(name, words, here):
    with pytest.raises(InvalidInput, match=words):
        own_code.load(name, True)


def test_what_another_module_defines_is_loaded_from_there_alone(here):
    (here / "again_own.py").write_text("from mine_own import river\n")
    with pytest.raises(InvalidInput, match="Write mine_own:river"):
        own_code.load("again_own:river", True)
    sys.modules.pop("again_own", None)


@pytest.mark.parametrize("name", ["subprocess:call", "os:system", "shutil:rmtree", "os.path:join", "builtins:exec"])
def test_python_itself_is_nobodys_own_code(name):
    with pytest.raises(InvalidInput, match="part of Python"):
        own_code.load(name, True)


def test_whatever_a_module_raises_is_an_error_of_this_package(here):
    (here / "broken_own.py").write_text("1 / 0\n")
    with pytest.raises(InvalidInput, match=r"cannot import broken_own:f(?s:.)*ZeroDivisionError"):
        own_code.load("broken_own:f", True)


def test_a_directory_shadows_no_installed_package(here):
    (here / "scipy.py").write_text("raise RuntimeError('shadowed')")
    own_code.load("mine_own:river", True)
    assert sys.path[-1] == str(here) and "scipy.py" not in own_code._place("scipy:f")
