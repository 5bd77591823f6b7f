"""The pages about the advisor's commands: every option is explained, and the guide can be followed to the letter."""

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from surefooted.cli import main

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "docs" / "going-live.md"


def test_every_live_command_and_option_is_documented_and_speaks_json():
    text = (ROOT / "docs" / "command-line.md").read_text()
    text = text[text.index("## surefooted live") :].split("\n## ")[0]
    for name, command in main.commands["live"].commands.items():
        assert f"surefooted live {name}" in text and command.help, name
        for option in command.params:
            assert all(word in text for word in option.opts if word.startswith("--")), (name, option.opts)
        assert "--json" in {word for option in command.params for word in option.opts}, name


def blocks(page):
    """The language and the text of each code block of a page, in order."""
    language, lines = None, []
    for line in page.read_text().splitlines():
        if not line.startswith("```"):
            lines.append(line)
        elif language is None:
            language, lines = line[3:], []
        else:
            yield language, "\n".join(lines) + "\n"
            language = None


@pytest.mark.slow
def test_the_guide_can_be_followed_to_the_letter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("shop.toml", "shop.csv"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    (week,) = [text for language, text in blocks(GUIDE) if language == "csv"]
    Path("week.csv").write_text(week)
    listed = [line for language, text in blocks(GUIDE) if not language for line in text.splitlines()]
    assert len(listed) > 25 and all(line.startswith("surefooted ") for line in listed)
    printed = ""
    for line in listed:
        words = re.findall(r"'[^']*'|\S+", line.partition(" #")[0])[1:]
        result = CliRunner().invoke(main, [word.strip("'") for word in words])
        assert result.exit_code == 0, (line, result.output)
        printed += result.output + "\n"
    flat = " ".join(printed.split())
    quoted = [line for language, text in blocks(GUIDE) if language == "text" for line in text.splitlines()]
    assert len(quoted) > 8
    assert [line for line in quoted if " ".join(line.split()) not in flat] == []
    assert {path.name for path in tmp_path.iterdir()} >= {"rehearsal.html", "shop.html", "decisions.csv"}
