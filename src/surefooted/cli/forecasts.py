"""The command about what is to be expected: `forecast`."""

import sys
from pathlib import Path
from typing import Any

import click

from surefooted.cli.completion import problem_names
from surefooted.cli.output import SHARE, check_picture, nearest, print_json, save_picture


@click.command()
@click.argument("problem", shell_complete=problem_names)
@click.option(
    "--alpha",
    "alphas",
    type=SHARE,
    multiple=True,
    help="The share of what the baseline earns that may be lost. Give it again to compare others with the first.",
)
@click.option("--delta", type=float, help="The probability with which the promise may fail.")
@click.option(
    "--allowance",
    "allowances",
    type=float,
    multiple=True,
    help="An amount that may be lost in all, beside alpha. Give it again to compare others with the first.",
)
@click.option(
    "--tell",
    multiple=True,
    help="What you could declare, to be compared: baseline, rewards or mechanics; may be given again.",
)
@click.option("--tolerance", type=float, help="An amount that may be lost in each step, beside alpha.")
@click.option("--floor", type=float, help="The level that earnings of a step are measured from, for alpha.")
@click.option("--step", help="The length of a step in the calendar: week, day, 15 minutes, ...")
@click.option(
    "--steps", type=click.IntRange(min=20), help="How long each run is (default: 80 years, at most 20 000 steps)."
)
@click.option(
    "--runs", type=click.IntRange(min=1), default=20, show_default=True, help="Runs for each line of the table."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of all random numbers.")
@click.option("--compare/--no-compare", default=True, help="Also forecast what you could choose or declare instead.")
@click.option(
    "--figure", type=click.Path(dir_okay=False, path_type=Path), help="Draw the forecast to a PNG, PDF or SVG file."
)
@click.option("--allow-code", is_flag=True, help="Run code that the problem file names.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def forecast(problem: str, figure: Path | None, allow_code: bool, as_json: bool, **options: Any) -> None:
    """Forecast how long safe exploration takes, what it costs and what it is worth.

    PROBLEM is a problem file, a saved problem (.npz), or the name of a problem of this package. Ctrl-C shows what is
    known so far.

    \b
    surefooted forecast examples/shop.toml --figure shop.png
    surefooted forecast inventory --alpha 0.1 --step week --runs 5
    surefooted forecast examples/shop.toml --alpha 0.02 --alpha 0.05 --allowance 0 --allowance 250 --tell baseline
    """  # noqa: D301 click reads the escape
    from surefooted.forecasting.forecast import forecast as compute

    if figure is not None:
        check_picture(figure)
    for name, several in (("alpha", "alphas"), ("allowance", "allowances")):
        first, *others = options.pop(several) or (None,)
        options |= {name: first, several: others or None}
    options["tell"] = options["tell"] or None
    found = compute(_problem(problem, allow_code), **options, progress=_progress)
    if as_json:
        print_json(found.as_dict())
    else:
        click.echo(str(found))
    if figure is not None:
        save_picture(found.figure(), figure)


COMMANDS = (forecast,)


def _problem(name: str, allow_code: bool) -> Any:
    """The problem that the command names."""
    from surefooted.problems import ALL, Problem, load, make

    if name.endswith(".toml"):
        return load(name, allow_code=allow_code, say=lambda text: click.echo(text, err=True))
    if name.endswith(".npz"):
        return Problem.load(name)
    if name not in ALL:
        raise click.UsageError(f"there is no problem {name!r}{nearest(name, ALL)}; a problem file ends in .toml")
    return make(name)


def _progress(done: int, total: int) -> None:
    """On a terminal, a line that shows how many runs are played."""
    if sys.stderr.isatty():
        end = "\r" if done < total else "\r" + " " * 40 + "\r"
        click.echo(f"\rForecast: run {done} of {total}" + end, nl=False, err=True)
