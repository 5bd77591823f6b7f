"""Every public name says what its parameters are and shows an example; the examples run and print what they say."""

import doctest
import importlib
import sys
from pathlib import Path

import pytest

import surefooted
from study_help import without_processes

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tools"))
from public_names import public_names, undocumented  # noqa: E402

PACKAGE = Path(surefooted.__file__).parent
MODULES = sorted(
    ".".join(("surefooted", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
EXTRAS = {
    "surefooted.live.address": "psycopg",
    "surefooted.problems.icu_sepsis": "icu_sepsis",
    "surefooted.problems.planned_inventory": "stockpyl",
}
PUBLIC = [pytest.param(value, id=f"{module or 'surefooted'}.{name}") for module, name, value in public_names()]


@pytest.mark.parametrize("module", MODULES)
@without_processes()
def test_the_examples_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if module in EXTRAS:
        pytest.importorskip(EXTRAS[module], exc_type=ImportError)
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted and not found.failed


@pytest.mark.parametrize("public", PUBLIC)
def test_a_public_name_has_an_example_and_names_its_parameters(public):
    assert public.__doc__ and ">>> " in public.__doc__
    assert undocumented(public) == []


def test_the_check_notices_what_is_missing():
    def careless(seen, forgotten, *rest, **options):
        """It has - `seen`: one parameter."""

    class Parent:
        """first, second : two parameters"""

    class Child(Parent):
        """third : one more"""

        def __init__(self, first, second, third, fourth):
            pass

    assert undocumented(careless) == ["forgotten"] and undocumented(Child) == ["fourth"]


def test_each_module_lists_its_public_names():
    names = {(module, name) for module, name, _ in public_names()}
    assert {("", "CUCRL2"), ("bandits", "evaluate"), ("planning", "policy_values"), ("testing", "same")} <= names
    assert ("bandits", "Problem") not in names and len(names) > 140
