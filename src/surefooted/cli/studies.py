"""The commands about studies: `run`, `reproduce`, `figures`, `report`, `compare` and `verify`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surefooted.cli.output import print_json, print_table
from surefooted.cli.suites import reproduce_suite
from surefooted.errors import InvalidInput
from surefooted.studies.paper import NAMES
from surefooted.studies.suites import NAMES as SUITES

if TYPE_CHECKING:
    from surefooted.studies.results import Results
    from surefooted.studies.spec import StudySpec

_REPAIR = "Run the study again: damaged runs are repeated, and the tables are made from the parts."
_DIRECTORY = click.Path(file_okay=False, path_type=Path)
_FORMATS = click.option(
    "--format", "formats", multiple=True, default=("png", "pdf"), show_default=True, help="png, pdf or svg; repeatable."
)
_LATEX = click.option("--latex", "as_latex", is_flag=True, help="Print tables for LaTeX (package booktabs).")


@dataclass(frozen=True)
class RunOptions:
    """The options that `run` and `reproduce` share."""

    overrides: tuple[str, ...]
    realisations: int | None
    jobs: int | None
    engine: str
    address: str | None
    shard: str | None
    out: Path | None
    resume: bool
    allow_code: bool
    quiet: bool
    as_json: bool


def _run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `RunOptions` to a command."""
    engines, at_least_1 = click.Choice(["local", "dask", "ray"]), click.IntRange(min=1)
    override = "Override a value of the study, as in agents.cucrl2.alpha=0.1; repeatable."
    code = "Run the code that the study names as package.module:name; without this it is refused."
    resume = "Continue if the directory holds the same study, or refuse it (default: continue)."
    options = [
        click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=override),
        click.option("--realisations", type=at_least_1, help="Number of runs of each setting."),
        click.option("--jobs", "-j", type=at_least_1, help="Number of processes (default: one per core)."),
        click.option("--engine", type=engines, default="local", show_default=True, help="Where runs are computed."),
        click.option("--address", help="Address of an existing Dask or Ray cluster."),
        click.option("--shard", metavar="I/N", help="Run only every N-th run, starting with the I-th: for job arrays."),
        click.option("--out", type=_DIRECTORY, help="Directory of the results (default: results/NAME)."),
        click.option("--resume/--no-resume", default=True, help=resume),
        click.option("--allow-code", is_flag=True, help=code),
        click.option("--quiet", "-q", is_flag=True, help="Show no progress."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("study", type=click.Path(path_type=Path))
@_run_options
def run(study: Path, **options: Any) -> None:
    """Run the study in the TOML file STUDY.

    Runs that are finished already are kept.

    \b
    surefooted run study.toml --realisations 20 --out results/mine
    surefooted run study.toml --set 'agents.cucrl2.alpha=[0.01, 0.05]' --engine dask
    """  # noqa: D301 click reads the escape
    _run(study, RunOptions(**options))


@click.command(epilog=f"The studies: {', '.join(NAMES)}. Many problems in one table and figure: {', '.join(SUITES)}.")
@click.argument("experiment", type=click.Choice([*NAMES, *SUITES]), metavar="EXPERIMENT")
@_run_options
def reproduce(experiment: str, **options: Any) -> None:
    """Run a study of this package; draw its figures and report.

    The paper's experiments are inventory, maintenance and gridworld.

    \b
    surefooted reproduce inventory
    surefooted reproduce gridworld --realisations 5 --out results/grid
    """  # noqa: D301 click reads the escape
    if experiment in SUITES:
        reproduce_suite(experiment, RunOptions(**options))
        return
    results = _run(experiment, RunOptions(**options))
    if results is None:
        return
    from surefooted.studies.figures import make_figures
    from surefooted.studies.report import make_report

    page = make_report(results, drawn=make_figures(results))
    if not options["quiet"]:
        click.echo(f"Figures in {results.path / 'figures'}, the report in {page}", err=True)


@click.command()
@click.argument("directory", type=_DIRECTORY)
@click.option("--out", type=_DIRECTORY, help="Directory of the figures (default: DIRECTORY/figures).")
@_FORMATS
@click.option("--width", help="For a paper: single, double (columns), or inches (default: for screens).")
def figures(directory: Path, out: Path | None, formats: tuple[str, ...], width: str | None) -> None:
    """Draw the figures of the study in DIRECTORY."""
    from surefooted.studies.figures import make_figures
    from surefooted.studies.results import load

    results = load(directory)
    inches = float(width) if width is not None and width.replace(".", "", 1).isdecimal() else width
    for path in make_figures(results, out, formats, inches):
        click.echo(path)
    _say_lack(results)


@click.command()
@click.argument("directory", type=_DIRECTORY)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="The HTML file (default: DIRECTORY/report.html)."
)
@_LATEX
def report(directory: Path, out: Path | None, as_latex: bool) -> None:
    """Write an HTML report of the study in DIRECTORY, or print its tables for LaTeX."""
    from surefooted.studies.report import make_report
    from surefooted.studies.results import load
    from surefooted.studies.tables import all_latex

    results = load(directory)
    click.echo(all_latex(results) if as_latex else make_report(results, out))
    _say_lack(results)


@click.command()
@click.argument("directories", nargs=-1, required=True, type=_DIRECTORY)
@click.option("--out", type=_DIRECTORY, default=Path("compared"), show_default=True, help="Directory of the figures.")
@_FORMATS
@_LATEX
def compare(directories: tuple[Path, ...], out: Path, formats: tuple[str, ...], as_latex: bool) -> None:
    """Compare several studies in one table and in common figures."""
    from surefooted.studies.figures import compare as draw
    from surefooted.studies.figures import distinct_titles
    from surefooted.studies.results import load
    from surefooted.studies.statistics import table

    several = [load(directory) for directory in directories]
    for line in (line for results in several for line in results.remarks):
        click.echo(line, err=True)
    titles = distinct_titles(several)
    rows = [row | {"setting": f"{titles[r.path]}: {row['setting']}"} for r in several for row in table(r)]
    _print_settings(rows, several, as_latex)
    for path in draw(several, out, formats):
        click.echo(path, err=True)


@click.command()
@click.argument("directory", type=_DIRECTORY)
def verify(directory: Path) -> None:
    """Check that the files of the study in DIRECTORY are what was written.

    Exit code 1 if a file was damaged or changed.
    """
    from surefooted.studies.folder import Folder
    from surefooted.studies.verifying import verify as faults_in

    faults = faults_in(directory)
    if faults:
        raise InvalidInput(f"{directory} is not what was written", faults, _REPAIR)
    runs = len(list(Folder.at(directory).parts.glob("*.parquet")))
    click.echo(f"{directory} is what was written: {runs} runs, their tables, the study, the manifest and the truth.")


COMMANDS = (run, reproduce, figures, report, compare, verify)


def _run(source: str | Path, options: RunOptions) -> "Results | None":
    """Run a study and print its table; the results, or None if only a shard of the study was run."""
    from surefooted.studies.reading import read
    from surefooted.studies.statistics import table

    overrides = options.overrides
    if options.realisations is not None:
        overrides = (*overrides, f"realisations={options.realisations}")
    study = read(source, overrides)
    results = run_one(study, str(source), options, options.out or Path("results") / study.name)
    if results is None:
        return None
    rows = table(results)
    if options.as_json:
        settings = [_without_nan(row) for row in rows]
        print_json({"study": study.name, "directory": str(results.path), "settings": settings})
    else:
        _print_settings(rows, [results])
    return results if _shard(options.shard)[1] == 1 else None


def run_one(study: "StudySpec", source: str, options: RunOptions, out: Path) -> "Results | None":
    """Run a study; None if there is nothing to run in the shard."""
    from surefooted.own_code import permit
    from surefooted.studies.running import Interrupted, run_study
    from surefooted.studies.spec import tasks

    shard = _shard(options.shard)
    if not tasks(study, shard):
        click.echo(f"There is nothing to run in shard {options.shard}.", err=True)
        return None
    permit(source, study.code, options.allow_code, lambda line: click.echo(line, err=True))
    try:
        return run_study(
            study,
            out,
            jobs=options.jobs,
            engine_name=options.engine,
            address=options.address,
            shard=shard,
            resume=options.resume,
            allow_code=options.allow_code,
            quiet=options.quiet,
        )
    except Interrupted as stop:
        click.echo(str(stop), err=True)
        raise SystemExit(128 + stop.number) from None  # as a shell reports the signal


def _say_lack(results: "Results") -> None:
    """Say on stderr what is wrong with the files, and what figures and reports leave out, if anything."""
    for line in [*results.remarks, *([results.lack] if results.lack else [])]:
        click.echo(line, err=True)


def _without_nan(row: dict[str, Any]) -> dict[str, Any]:
    """A row for JSON: numbers that are not finite become null."""
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def _print_settings(rows: list[dict[str, Any]], several: "Sequence[Results]", as_latex: bool = False) -> None:
    """A line for each setting of some studies, each mean with the half-width of its 95 % confidence interval."""
    from surefooted.studies.columns import AMOUNTS
    from surefooted.studies.results import common_unit
    from surefooted.studies.statistics import cell, shown
    from surefooted.studies.tables import latex
    from surefooted.studies.validity import unproved

    summaries = [summary for summary in shown(rows) if summary.short]
    unit, head = " or ".join(sorted({results.study.unit for results in several}, reverse=True)), ["setting", "runs"]
    for summary in summaries:
        words = summary.short.format(unit=unit)
        head.append(common_unit(several, words) if summary.name in AMOUNTS else words)
    lines = [[r["setting"], str(r["realisations"]), *(cell(s, r, thousands="") for s in summaries)] for r in rows]
    if as_latex:
        click.echo(latex((head, lines)))
        return
    print_table([head, *lines], right=set(range(1, len(head))))
    for line in unproved(rows):
        click.echo(line, err=True)


def _shard(text: str | None) -> tuple[int, int]:
    """`2/5` as numbers."""
    if text is None:
        return 1, 1
    i, slash, n = text.partition("/")
    if not (slash and i.isascii() and i.isdecimal() and n.isascii() and n.isdecimal()):
        raise click.UsageError(f"--shard {text}: write I/N, as in 2/5")
    return int(i), int(n)
