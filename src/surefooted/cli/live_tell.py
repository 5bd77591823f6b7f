"""Outcomes as people give them: options of a command, or the rows of a CSV file."""

import csv
import io
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from surefooted.cli.live_store import word
from surefooted.cli.output import print_json
from surefooted.errors import InvalidInput, SurefootedError, UnreadableFile

if TYPE_CHECKING:
    from surefooted.live.advisor import Advisor

F = TypeVar("F", bound=Callable[..., Any])
COLUMNS = ("decision", "site", "key", "reward", "next_state", "action", "noise")
SEPARATORS = (";", "\t", ",")
WITH_THOUSANDS = re.compile(r"-?\d{1,3}(\.\d{3})+,\d+")  # 1.200,00; not 1.200, which could be 1.2
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")  # without nan, 1_000, and ٣


def outcome(command: F) -> F:
    """The options that say what came of a decision."""
    for option in (
        click.option("--noise", multiple=True, help="The observed noise, if the mechanics observe it; repeatable."),
        click.option("--guardrail", multiple=True, metavar="NAME=VALUE", help="A further number; repeatable."),
        click.option("--action", help="What was played, if it is not what was asked for."),
        click.option("--next-state", help="Where it led."),
        click.option("--reward", help="What it earned, in the problem's unit."),
    ):
        command = option(command)
    return command


def told(
    advisor: "Advisor",
    reward: str | None = None,
    next_state: str | None = None,
    action: str | None = None,
    guardrail: tuple[str, ...] = (),
    noise: tuple[str, ...] = (),
    decimal: str = ".",
) -> dict[str, Any]:
    """The arguments of `Advisor.tell` that texts stand for; an empty text says nothing."""
    space, given = advisor.space, dict[str, Any]()
    if reward:
        given["reward"] = number("reward", reward, decimal)
    if next_state:
        given["next_state"] = word(space.state_names, next_state, "state")
    if action:
        given["action"] = word(space.action_names, action, "action")
    pairs = [text.partition("=") for text in guardrail]
    if any(not equals for _, equals, _ in pairs):
        raise click.UsageError("--guardrail: write NAME=VALUE, as in service=0.97")
    if pairs:
        given["guardrails"] = {name.strip(): number(name, value, decimal) for name, _, value in pairs}
    if noise:
        wrong = [text for text in noise if not text.isdecimal()]
        if wrong:
            raise InvalidInput("this outcome cannot be told", [f"noise {wrong[0]!r} is not a whole number"])
        given["noise"] = [int(text) for text in noise]
    return given


def number(what: str, text: str, decimal: str = ".") -> float:
    """A number, also with a decimal comma if the file uses it; an error if it is none, or could be two."""
    plain = text.strip().replace("\u202f", "").replace("\u00a0", "").replace("\u2212", "-")
    if decimal == ",":
        if "." in plain and not WITH_THOUSANDS.fullmatch(plain):
            fault = f"{what} {text!r}: where ; separates values, decimals have a comma; write 12,50 or 1.200,00"
            raise InvalidInput("this outcome cannot be told", [fault])
        plain = plain.replace(".", "").replace(",", ".")
    if not NUMBER.fullmatch(plain):
        raise InvalidInput("this outcome cannot be told", [f"{what} {text!r} is not a number"])
    return float(plain)


def tell_file(advisor: "Advisor", file: Path, as_json: bool, who: str) -> None:
    """Tell every row of a file: each is on disk before the next; rows with a fault are named and left out."""
    text = _text(file)
    first = text.partition("\n")[0]
    separator = max(SEPARATORS, key=first.count)
    decimal = "," if separator == ";" else "."
    reader = csv.DictReader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    names = [(name or "").strip() for name in reader.fieldnames or ()]
    names = [name.lower() if name.lower() in COLUMNS else name for name in names]
    rails = [guardrail.name for guardrail in advisor.definition.rules.guardrails]
    unknown = [name for name in names if name not in (*COLUMNS, *rails)]
    if unknown or not ("decision" in names or {"site", "key"} <= set(names)):
        fault = f"the columns are {', '.join(names)}; there may be {', '.join((*COLUMNS, *rails))}"
        needs = "Give decision, or site and key, and what came of it."
        raise InvalidInput(f"{file} does not say what came of which decision", [fault], needs)
    if twice := [name for name in COLUMNS if names.count(name) > 1]:
        raise InvalidInput(f"{file} does not say what came of which decision", [f"two columns are called {twice[0]}"])
    reader.fieldnames = names
    counted = {"told": 0, "known": 0}
    refused: list[str] = []
    for row in reader:
        if not any(row.values()):  # as spreadsheets append them
            continue
        try:
            fresh = _tell_row(advisor, row, rails, decimal, who)
            counted["told" if fresh else "known"] += 1
        except SurefootedError as error:
            faults = f"{error.what}: {'; '.join(error.faults)}" if isinstance(error, InvalidInput) else str(error)
            refused.append(f"line {reader.line_num}: {faults}")
    if as_json:
        print_json(counted | {"refused": refused})
    else:
        click.echo(f"{counted['told']} outcomes written, {counted['known']} known already, {len(refused)} refused.")
    if refused:
        raise SurefootedError(f"{file}: these rows were refused; the others are written\n  " + "\n  ".join(refused))


def _tell_row(advisor: "Advisor", row: Mapping[str | None, Any], rails: list[str], decimal: str, who: str) -> bool:
    """Tell one row; whether it said anything new."""
    if None in row:
        raise InvalidInput("this outcome cannot be told", ["there are more values than columns"])
    values = {str(name): (value or "").strip() for name, value in row.items()}
    guards = tuple(f"{name}={values[name]}" for name in rails if values.get(name))
    texts = {name: values.get(name) for name in ("reward", "next_state", "action")}
    noise = tuple((values.get("noise") or "").split())
    given = told(advisor, **texts, guardrail=guards, noise=noise, decimal=decimal)
    decision = values.get("decision")
    if decision and not decision.isdecimal():
        raise InvalidInput("no such decision", [f"decision {decision!r} is not a whole number"])
    before = advisor.store.last
    number = int(decision) if decision else None
    advisor.tell(number, site=values.get("site") or None, key=values.get("key") or None, who=who, **given)
    return advisor.store.last > before


def _text(file: Path) -> str:
    try:
        if str(file) == "-":
            return sys.stdin.read()
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        fault = f"its characters are not UTF-8 ({error.reason})"
        raise UnreadableFile(f"cannot read the outcomes {file}: {fault}. Save it as CSV UTF-8") from error
    except OSError as error:
        raise UnreadableFile(f"cannot read the outcomes {file}: {error}") from error
