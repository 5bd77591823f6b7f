"""Every tutorial can be followed to the letter: its commands and examples run in order, in one directory.

A fence without a language holds commands, ```toml the file `friday.toml`, ```python code that
continues the code before it, and ```text lines that must have been printed since the last such fence.
"""

import io
import re
import shutil
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from click.testing import CliRunner

from surefooted.cli import main
from test_going_live import blocks

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("tutorial-*.md"))


def flat(text):
    return " ".join(text.split())


def printed_by(language, text, space):
    """What a fence prints when a reader does what it says."""
    if language == "python":
        with redirect_stdout(io.StringIO()) as said:
            exec(compile(text, "tutorial", "exec"), space)
        return said.getvalue()
    said = ""
    for line in text.splitlines():
        words = re.findall(r"'[^']*'|\S+", line)
        assert words[0] == "surefooted", line
        result = CliRunner().invoke(main, [word.strip("'") for word in words[1:]])
        assert result.exit_code == 0, (line, result.output)
        said += result.output
    return said


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_can_be_followed_to_the_letter(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("shop.toml", "shop.csv", "machine.toml", "campaign.toml"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    space, said, quoted = {"__name__": "tutorial"}, "", 0
    for language, text in blocks(page):
        if language == "text":
            missing = [line for line in text.splitlines() if flat(line) not in flat(said)]
            assert not missing, said
            said, quoted = "", quoted + 1
        elif language == "toml":
            Path("friday.toml").write_text(text)
        else:
            said += printed_by(language, text, space)
    assert quoted


def test_there_is_a_tutorial_for_each_reader():
    assert [page.stem for page in PAGES] == [
        "tutorial-maintenance-engineer", "tutorial-marketer", "tutorial-phd-student", "tutorial-stock-planner",
    ]  # fmt: skip
