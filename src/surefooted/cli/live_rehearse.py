"""The command `live rehearse`: a year against a simulated world, before anything is risked."""

import sys
from pathlib import Path
from typing import Any

import click

from surefooted.cli.live_store import STORE, Where
from surefooted.cli.output import print_json
from surefooted.errors import SurefootedError

SHARE = click.FloatRange(0, 1)


@click.command()
@click.argument("problem", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--baseline", "source", type=click.Choice(["file", "model", "log", "world"]),
              help="Whose numbers the advisor is told (default: the file's, or else the world's).")  # fmt: skip
@click.option("--world", help="The truth: model, log, or a problem saved as .npz (default: model if there is one).")
@click.option("--steps", type=click.IntRange(min=1), help="Decisions of each site (default: those of a year).")
@click.option("--sites", type=click.IntRange(min=1), default=1, show_default=True, help="How many sites.")
@click.option("--mode", type=click.Choice(["shadow", "approval", "live"]), default="live", show_default=True)
@click.option("--late", type=SHARE, help="The share of outcomes that arrive late (default: 0.2).")
@click.option("--lost", type=SHARE, help="The share of outcomes that never arrive (default: 0.02).")
@click.option("--repeated", type=SHARE, help="The share of outcomes that are told twice (default: 0.1).")
@click.option("--overrides", type=SHARE, help="How often people play something else (default: 0.05).")
@click.option("--moved", type=SHARE, help="How often something else moves a site (default: 0.02).")
@click.option("--crashes", type=click.IntRange(min=0), help="How often the process is killed (default: 4).")
@click.option("--accounts", type=click.Choice(["shared", "own", "both"]), help="Of the sites (default: shared).")
@click.option("--arrival", type=click.Choice(["any", "independent"]), help="As for init.")
@click.option("--alpha", type=float, help="In place of the file's promise.")
@click.option("--allowance", type=float, help="In place of the file's promise.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of all that is drawn.")
@click.option("--store", type=STORE, help="Keep the store in this new file or empty database.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write the HTML page of `live report`.")
@click.option("--allow-code", is_flag=True, help="Run code that the problem file names.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def rehearse(problem: Path, world: str | None, store: Where | None, report: Path | None, allow_code: bool,
             as_json: bool, **given: Any) -> None:  # fmt: skip
    """Play a year of PROBLEM against a simulated world; exit code 1 if anything was lost or the promise was broken.

    Outcomes come late, twice or never, people play something else, and the process is killed and begun again. Then the
    journal is verified, and every decision is compared with the exact truth.

    \b
    surefooted live rehearse examples/shop.toml --allowance 300
    """  # noqa: D301 click reads the escape
    from surefooted.cli.problem_files import load_problem
    from surefooted.problems import Problem
    from surefooted.rehearsal import Adversity
    from surefooted.rehearsal import rehearse as play

    if report is not None and store is None:
        raise click.UsageError("--report needs --store: the page is made of a store that is kept")
    said = load_problem(problem, allow_code, logs=True)
    truth: Any = Problem.load(world) if world is not None and world.endswith(".npz") else world
    mishaps = {name: given.pop(name) for name in ("late", "lost", "repeated", "overrides", "moved", "crashes")}
    adversity = Adversity(**{name: value for name, value in mishaps.items() if value is not None})
    options = {name: value for name, value in given.items() if value is not None}
    found = play(said, world=truth, adversity=adversity, store=store, progress=_progress, **options)
    if as_json:
        print_json(found.as_dict())
    else:
        click.echo(str(found))
    if report is not None and store is not None:
        from surefooted.cli.live_store import advisor_of
        from surefooted.live.page import write_report

        with advisor_of(store, None) as advisor:
            write_report(advisor, report)
        click.echo(f"Report written to {report}", err=True)
    if not found.went_well:
        raise SurefootedError("the rehearsal did not go well: see above")


COMMANDS = (rehearse,)


def _progress(done: int, total: int) -> None:
    """On a terminal, a line that shows how far the year is."""
    if sys.stderr.isatty():
        end = "\r" if done < total else "\r" + " " * 40 + "\r"
        click.echo(f"\rRehearsal: step {done} of {total}" + end, nl=False, err=True)
