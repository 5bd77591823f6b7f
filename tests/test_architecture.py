"""The rooms of the package, and the order in which they may import each other (docs/design.md).

A module imports from its own room and from rooms below it, those that come before it in ORDER. `LEARNERS`, the rooms
that an agent on the real world needs, never import those that know the true MDP.
"""

import ast
from pathlib import Path

import pytest

import surefooted

PACKAGE = Path(surefooted.__file__).parent
ORDER = [
    {"errors"},
    {"arrays", "codec", "own_code", "pages"},
    {"kernels"},
    {"tables"},
    {"data"},
    {"sets"},
    {"knowledge"},
    {"planning"},
    {"certificates"},
    {"agents"},
    {"live"},
    {"problems"},
    {"solve"},
    {"simulation"},
    {"evaluation"},
    {"forecasting"},
    {"rehearsal"},
    {"service"},
    {"bandits"},
    {"gym"},
    {"testing"},
    {"studies"},
    {"cli"},
    {"__main__"},
]
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
LEARNERS = {"tables", "data", "sets", "knowledge", "planning", "certificates", "agents", "live"}
TRUTH = {"problems", "solve", "evaluation", "simulation"}
LONGEST = 330  # lines: a file that is longer has two ideas in it
PARAMETERS = 10  # of a function or kernel; arrays that belong together are one NamedTuple


def files():
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_rooms(path):
    """The rooms that a file imports, wherever in it the import stands, with the line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "surefooted":
            names = [f"surefooted.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module]
        else:
            continue
        for name in names:
            if name.startswith("surefooted."):
                yield name.split(".")[1], node.lineno


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_the_house(path):
    room = room_of(path)
    if room == "__init__":
        return  # the front door: public names, imported when they are first used
    for other, line in imported_rooms(path):
        if other == "__version__":
            continue
        assert other in RANK, f"{path.name}:{line}: {other} is no room of the house"
        assert other == room or RANK[other] < RANK[room], f"{path.name}:{line}: {room} must not import {other}"
        assert not (room in LEARNERS and other in TRUTH), f"{path.name}:{line}: {room} must not know the truth: {other}"


def test_every_file_is_in_a_room():
    assert {room_of(path) for path in files()} - {"__init__"} <= set(RANK)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_is_one_idea(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_functions_have_few_parameters(path):
    """Those of constructors and public functions that people call by name, keyword-only, are not counted."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            names = [a.arg for a in [*node.args.posonlyargs, *node.args.args] if a.arg not in ("self", "cls")]
            assert len(names) <= PARAMETERS, f"{path.name}:{node.lineno}: {node.name} has {len(names)} parameters"
