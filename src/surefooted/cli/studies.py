"""The command line of studies: run, reproduce, figures, report, compare."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

PAPER = (
    "inventory",
    "maintenance",
    "gridworld",
    "certificates",
    "structure",
    "structure-maintenance",
    "structure-gridworld",
)  # as in `studies.spec`, without importing it


def _running(command: Callable[..., None]) -> Callable[..., None]:
    """The options that `run` and `reproduce` share."""
    options = [
        click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override anything; repeatable."),
        click.option("--realisations", type=click.IntRange(min=1), help="How many runs of each setting."),
        click.option("--jobs", "-j", type=click.IntRange(min=1), help="Processes (default: one per core)."),
        click.option("--engine", type=click.Choice(["local", "dask", "ray"]), default="local", show_default=True),
        click.option("--address", help="Of an existing Dask or Ray cluster."),
        click.option("--shard", metavar="I/N", help="Run only every N-th run, from the I-th on: for batch queues."),
        click.option(
            "--out", type=click.Path(file_okay=False, path_type=Path), help="Directory (default: results/NAME)."
        ),
        click.option("--resume/--no-resume", default=True, help="Go on where DIR holds the same study (default)."),
        click.option("--quiet", "-q", is_flag=True, help="Show no progress."),
        click.option("--json", "as_json", is_flag=True, help="Print the table as JSON, for machines."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("study", type=click.Path(path_type=Path))
@_running
def run(study: Path, **options: Any) -> None:
    """Run a study from a TOML file: what is not there yet, on all cores.

    \b
    surefooted run study.toml --realisations 20 --out results/mine
    surefooted run study.toml --set 'agents.cucrl2.alpha=[0.01, 0.05]' --engine dask
    """  # noqa: D301 click reads the escape
    _run(study, **options)


@click.command()
@click.argument("experiment", type=click.Choice(PAPER))
@_running
def reproduce(experiment: str, **options: Any) -> None:
    """Run one of the paper's experiments, or one of those that go beyond it, and draw its figures.

    \b
    surefooted reproduce inventory
    surefooted reproduce gridworld --realisations 5 --out results/grid
    """  # noqa: D301 click reads the escape
    folder = _run(experiment, **options)
    if folder is None:
        return
    from surefooted.studies.figures import make_figures
    from surefooted.studies.report import make_report
    from surefooted.studies.results import load

    results = load(folder)
    page = make_report(results, drawn=make_figures(results))
    if not options["quiet"]:
        click.echo(f"Figures in {folder / 'figures'}, the report in {page}", err=True)


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Where to (default: DIRECTORY/figures).")
@click.option("--format", "formats", multiple=True, default=("png", "pdf"), show_default=True, help="png, pdf or svg.")
def figures(directory: Path, out: Path | None, formats: tuple[str, ...]) -> None:
    """Draw the figures of a study that was run in DIRECTORY."""
    from surefooted.studies.figures import make_figures
    from surefooted.studies.results import load

    for path in make_figures(load(directory), out, formats):
        click.echo(path)


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Where to (default: DIRECTORY/report.html)."
)
def report(directory: Path, out: Path | None) -> None:
    """Write one HTML page about a study that was run in DIRECTORY."""
    from surefooted.studies.report import make_report
    from surefooted.studies.results import load

    click.echo(make_report(load(directory), out))


@click.command()
@click.argument("directories", nargs=-1, required=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("compared"), show_default=True)
@click.option("--format", "formats", multiple=True, default=("png", "pdf"), show_default=True, help="png, pdf or svg.")
def compare(directories: tuple[Path, ...], out: Path, formats: tuple[str, ...]) -> None:
    """Draw the settings of several studies on one axis, and print their table."""
    from surefooted.studies.figures import compare as draw
    from surefooted.studies.figures import distinct_titles
    from surefooted.studies.report import table
    from surefooted.studies.results import load

    several = [load(directory) for directory in directories]
    titles = distinct_titles(several)
    rows = [row | {"setting": f"{titles[r.path]}: {row['setting']}"} for r in several for row in table(r)]
    print_table(rows)
    for path in draw(several, out, formats):
        click.echo(path, err=True)


COMMANDS = (run, reproduce, figures, report, compare)


def _run(
    source: str | Path,
    overrides: tuple[str, ...],
    realisations: int | None,
    jobs: int | None,
    engine: str,
    address: str | None,
    shard: str | None,
    out: Path | None,
    resume: bool,
    quiet: bool,
    as_json: bool,
) -> Path | None:
    """Run, and print the table; the directory it is in, or None if only a shard of it is."""
    from surefooted.studies.report import table
    from surefooted.studies.running import Interrupted, run_study
    from surefooted.studies.spec import read, tasks

    if realisations is not None:
        overrides = (*overrides, f"realisations={realisations}")
    study = read(source, overrides)
    folder = out or Path("results") / study.name
    part = _shard(shard)
    if not tasks(study, part):
        click.echo(f"There is nothing to run in shard {shard}.", err=True)
        return None
    try:
        results = run_study(
            study,
            folder,
            jobs=jobs,
            engine_name=engine,
            address=address,
            shard=part,
            resume=resume,
            quiet=quiet,
        )
    except Interrupted as stop:
        click.echo(str(stop), err=True)
        raise SystemExit(130) from None
    rows = table(results)
    if as_json:
        content = {"study": study.name, "directory": str(folder), "settings": [_finite(row) for row in rows]}
        click.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print_table(rows)
    return folder if part[1] == 1 else None


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """A row for machines: what is not a number is null."""
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def print_table(rows: list[dict[str, Any]]) -> None:
    """The settings in columns, each mean with its 95 % half-width."""
    from surefooted.cli.commands import _print_table

    head = [
        "setting",
        "runs",
        "expected regret",
        "with the baseline",
        "violated initially",
        "runs violated",
        "smallest margin",
        "s/run",
    ]
    lines = [head]
    for row in rows:
        cells = [row["setting"], str(row["realisations"])]
        for name, form in (("pseudo_regret", "{:.0f}"), ("baseline_steps", "{:.0f}"), ("violations_initial", "{:.1%}")):
            half = row[f"{name}_half"]
            cells.append(form.format(row[name]) + (f" ± {form.format(half)}" if half == half else ""))
        cells += [str(row["runs_violated"]), f"{row['min_margin']:.2f}", f"{row['seconds']:.2f}"]
        lines.append(cells)
    _print_table(lines, right=set(range(1, len(head))))


def _shard(text: str | None) -> tuple[int, int]:
    """`2/5` as numbers."""
    if text is None:
        return 1, 1
    i, slash, n = text.partition("/")
    numbers = i.isascii() and i.isdecimal() and n.isascii() and n.isdecimal()
    if not (slash and numbers and 1 <= int(i) <= int(n)):
        raise click.UsageError(f"--shard {text}: write I/N with 1 <= I <= N, as in 2/5")
    return int(i), int(n)
