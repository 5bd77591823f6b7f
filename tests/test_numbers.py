"""docs/numbers.md: every command that a page quotes for its numbers still exists, and is listed with a date."""

import re
from datetime import date
from pathlib import Path

import pytest

from surefooted.cli import main
from surefooted.studies.paper import NAMES
from surefooted.studies.suites import NAMES as SUITES

ROOT = Path(__file__).parent.parent
LIST = (ROOT / "docs" / "numbers.md").read_text()
ROWS = re.findall(r"^\| (.+?) \| .+ \| `(.+?)` \| (.+?) \|$", LIST, re.MULTILINE)
COMMANDS = [command for _, command, _ in ROWS]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MEASURING = re.compile(r"(python benchmarks/\w+\.py|surefooted reproduce [a-z-]+)")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_exists(command):
    program, what, *rest = command.split()
    if program == "make":
        assert re.search(rf"^{what}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif program == "python":
        assert (ROOT / what).is_file()
    else:
        assert program == "surefooted" and what in main.commands
        assert what != "reproduce" or rest[0] in (*NAMES, *SUITES)


def test_every_command_has_a_day():
    for _, command, day in ROWS:
        assert date(2026, 11, 1) <= date.fromisoformat(day), command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_quotes_is_listed_with_that_page(page):
    if page.stem in ("numbers", "command-line", "maintaining"):  # they explain commands and quote no results
        return
    for command in set(MEASURING.findall(page.read_text())):
        rows = [where for where, listed, _ in ROWS if listed.startswith(command)]
        assert rows, f"{page.name} quotes `{command}`, which numbers.md does not list"


def test_every_benchmark_is_run_by_make_or_listed():
    makefile = (ROOT / "Makefile").read_text()
    run = re.search(r"^BENCHMARKS := (.*)$", makefile, re.MULTILINE)[1].split()
    listed = " ".join(COMMANDS)
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        is_script = '__name__ == "__main__"' in path.read_text()
        assert not is_script or path.stem in run or path.name in listed, path.name
