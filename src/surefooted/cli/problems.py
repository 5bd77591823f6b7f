"""The commands about one problem: `problems` and `solve`."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surefooted.cli.completion import problem_names
from surefooted.cli.output import nearest, print_facts, print_json, print_table, progress, save_picture
from surefooted.cli.problem_files import load_problem, print_policy, show_file
from surefooted.errors import SurefootedError, UnreadableFile

if TYPE_CHECKING:
    from surefooted.problems import Problem

_FILE = click.Path(dir_okay=False, path_type=Path)
_ALLOW_CODE = click.option("--allow-code", is_flag=True, help="Run code that a problem file names.")
_DIAMETER = click.option(
    "--diameter/--no-diameter",
    default=None,
    help="Compute the diameter D and the worst-case diameter Υ (default: up to 300 states).",
)


@click.command()
@click.argument("name", required=False, shell_complete=problem_names)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A parameter of the problem; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--picture", type=_FILE, help="Draw the problem to a PNG, PDF or SVG file.")
@click.option("--save", type=_FILE, help="Write the problem to a .npz file.")
@_DIAMETER
@_ALLOW_CODE
def problems(
    name: str | None,
    settings: tuple[str, ...],
    as_json: bool,
    picture: Path | None,
    save: Path | None,
    diameter: bool | None,
    allow_code: bool,
) -> None:
    """List the problems, or show the problem NAME or the problem file NAME.toml.

    The list says how hard each problem is. "To gain" is what an optimal policy earns more than the baseline. "Span" is
    that of the optimal bias or values. "Smallest gap" is the smallest loss of an action that is not optimal. "Reserve"
    is the largest loss of one departure from the baseline, in steps (or episodes) of what the baseline earns.

    A problem is shown with its sizes, gains, spans and diameters, beside the numbers that the paper prints.

    \b
    surefooted problems
    surefooted problems inventory
    surefooted problems inventory --set capacity=20 --set normalise=realised --picture stock.png
    surefooted problems examples/shop.toml
    """  # noqa: D301 click reads the escape
    from surefooted.problems import ALL, make

    if name is None:
        if settings or picture or save:
            raise click.UsageError("--set, --picture and --save need the name of a problem")
        _print_list(as_json)
        return
    if name.endswith(".toml"):
        if settings:
            raise click.UsageError("--set is for problems of this package: edit the file")
        show_file(Path(name), as_json, picture, save, diameter, allow_code)
        return
    if name not in ALL:
        raise click.UsageError(f"there is no problem {name!r}{nearest(name, ALL)}; a problem file ends in .toml")
    try:
        problem = make(name, **_parameters(name, settings))
    except SurefootedError:
        raise
    except (TypeError, ValueError) as error:  # a word where a number belongs
        raise click.UsageError(f"{name} cannot be built with these parameters: {error}") from error
    _show(problem, as_json, picture, diameter)
    if save is not None:
        problem.save(save)
        click.echo(f"Problem written to {save}", err=True)


@click.command()
@click.argument("file", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the optimal policy, instead of a table.")
@click.option("--picture", type=_FILE, help="Draw the problem to a PNG, PDF or SVG file; a bare table cannot be drawn.")
@_DIAMETER
@_ALLOW_CODE
def solve(file: Path, as_json: bool, picture: Path | None, diameter: bool | None, allow_code: bool) -> None:
    """Solve exactly the table or problem saved in FILE.npz, or a problem file FILE.toml that has a model.

    \b
    surefooted problems riverswim --save river.npz
    surefooted solve river.npz
    surefooted solve examples/machine.toml
    """  # noqa: D301 click reads the escape
    from surefooted.evaluation.summary import of_table
    from surefooted.problems import Problem
    from surefooted.tables.mdp import TabularMDP

    if file.suffix == ".toml":
        problem = load_problem(file, allow_code).true_problem()
        _show(problem, as_json, picture, diameter, {"optimal_policy": _optimal_policy(problem.mdp, problem.horizon)})
        if not as_json:
            print_policy(problem)
        return
    mdp = TabularMDP.load(file)
    try:
        problem = Problem.load(file)
    except UnreadableFile:  # a bare table
        if picture is not None:
            raise click.UsageError(f"{file} is a table without a baseline: only a problem can be drawn") from None
        policy = _optimal_policy(mdp, None)
        print_facts(file.name, of_table(mdp, diameter, progress), as_json, {"optimal_policy": policy})
        return
    _show(problem, as_json, picture, diameter, {"optimal_policy": _optimal_policy(mdp, problem.horizon)})


COMMANDS = (problems, solve)


def _optimal_policy(mdp: Any, horizon: int | None) -> list[Any]:
    """The optimal action in each state (and stage)."""
    from surefooted import solve as exact

    best = exact.optimal_gain(mdp) if horizon is None else exact.optimal_values(mdp, horizon)
    actions: list[Any] = best.policy.actions.tolist()
    return actions


def _show(
    problem: "Problem", as_json: bool, picture: Path | None, diameter: bool | None, extra: dict[str, Any] | None = None
) -> None:
    """Print the facts about a problem, and draw it if `picture` is given."""
    from surefooted.evaluation.summary import of_problem

    print_facts(problem.name, of_problem(problem, diameter, progress), as_json, extra or {})
    if picture is not None:
        from surefooted.evaluation.pictures import draw

        save_picture(draw(problem), picture)


def _print_list(as_json: bool) -> None:
    """Print what each problem is, and how hard: facts that come with the package, so that nothing is computed."""
    import json

    from surefooted.evaluation.summary import LISTED
    from surefooted.gym.registration import IDS
    from surefooted.problems import ALL
    from surefooted.problems.extras import EXTRAS

    facts: dict[str, dict[str, Any]] = json.loads(LISTED.read_text(encoding="utf-8"))
    rows = []
    for name, function in ALL.items():
        about = (sys.modules[function.__module__].__doc__ or "").splitlines()[0]
        more = {"gymnasium": IDS[name], "extra": EXTRAS.get(name), "about": about.rstrip(".")}
        rows.append({"name": name} | facts[name] | more)
    if as_json:
        print_json(rows)
        return
    table, hard = [["problem", "states", "pairs", "kind", "what it is"]], [_HARDNESS]
    for row in rows:
        kind = "average reward" if row["horizon"] is None else f"horizon {row['horizon']}"
        extra = f" (extra: {row['extra']})" if row["extra"] else ""
        table.append([str(row[key]) for key in ("name", "n_states", "n_pairs")] + [kind, f"{row['about']}{extra}"])
        gained = "–" if row["to_gain"] is None else f"{row['to_gain']:.1%}"
        numbers = [_short(row[key]) for key in ("span", "diameter", "smallest_gap", "reserve")]
        hard.append([str(row["name"]), _short(row["baseline"]), _short(row["optimal"]), gained, *numbers])
    print_table(table, right={1, 2})
    click.echo()
    print_table(hard, right=set(range(1, len(_HARDNESS))))
    click.echo("\nsurefooted problems NAME shows one of them.", err=True)


_HARDNESS = ["problem", "baseline earns", "optimal", "to gain", "span", "diameter", "smallest gap", "reserve"]


def _short(value: Any) -> str:
    return "–" if value is None else str(value) if isinstance(value, str) else f"{value:.4g}"


def _parameters(name: str, settings: Iterable[str]) -> dict[str, Any]:
    """KEY=VALUE pairs as arguments of the problem's function; a value is TOML, or a plain word."""
    import inspect
    import tomllib

    from surefooted.problems import ALL
    from surefooted.tables.reward_noise import Noise

    known = inspect.signature(ALL[name]).parameters
    parameters: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--set {setting}: write KEY=VALUE")
        if key not in known:
            raise click.UsageError(f"{name} has no parameter {key!r}{nearest(key, known)}")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        if key == "noise":
            kind, _, scale = str(value).partition(":")
            value = Noise(kind, float(scale or 0))  # type: ignore[arg-type]
        parameters[key] = value
    return parameters
