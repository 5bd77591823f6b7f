"""What every command prints: tables, facts, progress, and suggestions for mistyped words."""

import json
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surefooted.errors import SurefootedError

if TYPE_CHECKING:
    from surefooted.evaluation.summary import Fact


def print_table(rows: list[list[str]], right: set[int]) -> None:
    """Aligned columns, those in `right` to the right; on a terminal the header, the first row, is bold."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for n, row in enumerate(rows):
        cells = [
            cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(cells).rstrip()
        click.echo(click.style(line, bold=True) if n == 0 else line)


def print_json(content: Any) -> None:
    """One JSON value, for machines."""
    click.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def print_facts(title: str, facts: "list[Fact]", as_json: bool, extra: dict[str, Any]) -> None:
    """The facts as a table, or as one JSON object with `extra` (infinite numbers as the string "inf")."""
    if as_json:
        ours = {fact.key: "inf" if fact.value == float("inf") else fact.value for fact in facts}
        paper = {fact.key: fact.paper for fact in facts if fact.paper is not None}
        print_json({"name": title, **ours, "paper": paper, **extra})
        return
    with_paper = any(fact.paper is not None for fact in facts)
    table = [[title, "ours"] + ["the paper"] * with_paper]
    for fact in facts:
        paper_value = "" if fact.paper is None else f"{fact.paper:g}"
        value, money = fact.value, fact.money
        shown = money.amount(value) if money and money.unit and isinstance(value, float) else _text(value)
        table.append([fact.words, shown] + [paper_value] * with_paper)
    print_table(table, right={1, 2})


PICTURES = (".png", ".pdf", ".svg")


class Share(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A share such as 0.05; a percentage is refused with what to write."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        try:
            return float(value)
        except ValueError:
            number = str(value).strip().removesuffix("%").strip().replace(",", ".")
            try:
                meant = f"{float(number) / 100 if '%' in str(value) else float(number):g}"
            except ValueError:
                meant = "0.05, for 5 %"
            self.fail(f"{value!r} is not a number: write {meant}", param, ctx)


SHARE = Share()


def check_picture(file: Path) -> None:
    """Refuse a file that no picture can be written to, before a long computation."""
    if file.suffix.lower() not in PICTURES or not file.parent.is_dir():
        ends = "it must end in .png, .pdf or .svg, in a folder that exists"
        raise SurefootedError(f"cannot draw to {file}: {ends}")


def save_picture(figure: Any, file: Path) -> None:
    """Write a figure to a PNG, PDF or SVG file, and say so."""
    try:
        figure.savefig(file, dpi=150)
    except (OSError, ValueError) as error:  # no such folder, no such format
        raise SurefootedError(f"cannot draw to {file}: {error}") from error
    click.echo(f"Picture written to {file}", err=True)


def progress(words: str, done: int, total: int) -> None:
    """On a terminal, a line that shows how far a long computation is."""
    if sys.stderr.isatty() and total > 100 and (done % 10 == 0 or done == total):
        end = "\r" if done < total else "\r" + " " * 60 + "\r"
        click.echo(f"{words}: {done} of {total} states" + end, nl=False, err=True)


def nearest(word: str, words: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or the list of all words if none is near."""
    words = list(words)
    near = get_close_matches(word, words, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(words)}"


def _text(value: Any) -> str:
    """A value for people."""
    if value is None:
        return "not computed (--diameter)"
    if value == float("inf"):
        return "∞"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
