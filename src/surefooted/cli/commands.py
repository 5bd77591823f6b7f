"""The command line. A command is: parse, one call, print. Nothing heavy is imported before it is needed."""

import json
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surefooted import __version__
from surefooted.cli.studies import COMMANDS
from surefooted.cli.warm_up import warm_up
from surefooted.errors import SurefootedError, UnreadableFile

if TYPE_CHECKING:
    from surefooted.evaluation.summary import Fact
    from surefooted.problems import Problem


class _Commands(click.Group):
    """A group that suggests the nearest command and prints this package's errors without a traceback."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, or an error that names the nearest one."""
        if args and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"there is no command {args[0]!r}{_nearest(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what the package refuses becomes one clear message and exit code 1."""
        try:
            return super().invoke(ctx)
        except SurefootedError as error:
            raise click.ClickException(str(error)) from error
        except BrokenPipeError:
            raise
        except OSError as error:  # a full disk, no such folder, no permission
            raise click.ClickException(f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="surefooted")
def main() -> None:
    """Exploration that never falls below your baseline."""


@main.command()
@click.argument("name", required=False)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A parameter of the problem; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")
@click.option(
    "--picture", type=click.Path(dir_okay=False, path_type=Path), help="Draw the problem to a PNG, PDF or SVG."
)
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the problem to a .npz file.")
@click.option("--diameter/--no-diameter", default=None, help="Compute D and Υ (default: up to 300 states).")
def problems(
    name: str | None,
    settings: tuple[str, ...],
    as_json: bool,
    picture: Path | None,
    save: Path | None,
    diameter: bool | None,
) -> None:
    """List the problems, or show one: sizes, gains, spans, diameters, the paper's numbers beside ours.

    \b
    surefooted problems
    surefooted problems inventory
    surefooted problems inventory --set capacity=20 --set normalise=realised --picture stock.png
    """  # noqa: D301 click reads the escape
    from surefooted.problems import ALL, make

    if name is None:
        if settings or picture or save:
            raise click.UsageError("--set, --picture and --save need the name of a problem")
        _print_list(as_json)
        return
    if name not in ALL:
        raise click.UsageError(f"there is no problem {name!r}{_nearest(name, ALL)}")
    try:
        problem = make(name, **_parameters(name, settings))
    except SurefootedError:
        raise
    except (TypeError, ValueError) as error:  # a word where a number belongs
        raise click.UsageError(f"these settings make no {name}: {error}") from error
    _show(problem, as_json, picture, diameter)
    if save is not None:
        problem.save(save)
        click.echo(f"Problem written to {save}", err=True)


@main.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with the optimal policy, for machines.")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Draw the problem (not a bare table).")
@click.option("--diameter/--no-diameter", default=None, help="Compute D and Υ (default: up to 300 states).")
def solve(file: Path, as_json: bool, picture: Path | None, diameter: bool | None) -> None:
    """Solve a table or problem saved as FILE.npz exactly.

    \b
    surefooted problems riverswim --save river.npz
    surefooted solve river.npz
    """  # noqa: D301 click reads the escape
    from surefooted.evaluation.summary import of_table
    from surefooted.problems import Problem
    from surefooted.tables.mdp import TabularMDP

    mdp = TabularMDP.load(file)
    try:
        problem = Problem.load(file)
    except UnreadableFile:  # a bare table, as just loaded
        if picture is not None:
            raise click.UsageError(f"{file} is a table without a baseline: only a whole problem can be drawn") from None
        policy = _optimal_policy(mdp, None)
        _print_facts(file.name, of_table(mdp, diameter, _progress), as_json, {"optimal_policy": policy})
        return
    _show(problem, as_json, picture, diameter, {"optimal_policy": _optimal_policy(mdp, problem.horizon)})


for _command in (*COMMANDS, warm_up):
    main.add_command(_command)


def _optimal_policy(mdp: Any, horizon: int | None) -> list[Any]:
    """The optimal action in each state (and stage)."""
    from surefooted import solve as exact

    best = exact.optimal_gain(mdp) if horizon is None else exact.optimal_values(mdp, horizon)
    actions: list[Any] = best.policy.actions.tolist()
    return actions


def _show(
    problem: "Problem", as_json: bool, picture: Path | None, diameter: bool | None, extra: dict[str, Any] | None = None
) -> None:
    """Print a problem's facts; draw it if asked to."""
    from surefooted.evaluation.summary import of_problem

    _print_facts(problem.name, of_problem(problem, diameter, _progress), as_json, extra or {})
    if picture is not None:
        try:
            problem.draw().savefig(picture, dpi=150)
        except (OSError, ValueError) as error:  # no such folder, no such format
            raise SurefootedError(f"cannot draw to {picture}: {error}") from error
        click.echo(f"Picture written to {picture}", err=True)


def _print_list(as_json: bool) -> None:
    """Every problem with its size."""
    from surefooted.gym.registration import IDS
    from surefooted.problems import ALL

    rows = []
    for name, function in ALL.items():
        problem = function()
        about = (sys.modules[function.__module__].__doc__ or "").splitlines()[0]
        rows.append(
            {
                "name": name,
                "n_states": problem.space.n_states,
                "n_pairs": problem.space.n_pairs,
                "horizon": problem.horizon,
                "gymnasium": IDS[name],
                "about": about.rstrip("."),
            }
        )
    if as_json:
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    table = [["problem", "states", "pairs", "kind", "what it is"]]
    for row in rows:
        kind = "average reward" if row["horizon"] is None else f"horizon {row['horizon']}"
        table.append([str(row[key]) for key in ("name", "n_states", "n_pairs")] + [kind, str(row["about"])])
    _print_table(table, right={1, 2})
    click.echo("\nsurefooted problems NAME shows one of them.", err=True)


def _print_facts(title: str, facts: "list[Fact]", as_json: bool, extra: dict[str, Any]) -> None:
    """The facts as a table, or as one JSON object (infinite numbers as the string "inf")."""
    if as_json:
        ours = {fact.key: "inf" if fact.value == float("inf") else fact.value for fact in facts}
        paper = {fact.key: fact.paper for fact in facts if fact.paper is not None}
        click.echo(json.dumps({"name": title, **ours, "paper": paper, **extra}, indent=2, ensure_ascii=False))
        return
    with_paper = any(fact.paper is not None for fact in facts)
    table = [[title, "ours"] + ["the paper"] * with_paper]
    for fact in facts:
        paper_value = "" if fact.paper is None else f"{fact.paper:g}"
        table.append([fact.words, _text(fact.value)] + [paper_value] * with_paper)
    _print_table(table, right={1, 2})


def _text(value: Any) -> str:
    """A value for people."""
    if value is None:
        return "not computed (--diameter)"
    if value == float("inf"):
        return "∞"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _print_table(rows: list[list[str]], right: set[int]) -> None:
    """Columns in line, the header underlined in a terminal; the same text when piped."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for n, row in enumerate(rows):
        cells = [
            cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        line = "  ".join(cells).rstrip()
        click.echo(click.style(line, bold=True) if n == 0 else line)


def _progress(words: str, done: int, total: int) -> None:
    """A line that rewrites itself while diameters are computed, in a terminal only."""
    if sys.stderr.isatty() and total > 100 and (done % 10 == 0 or done == total):
        end = "\r" if done < total else "\r" + " " * 60 + "\r"
        click.echo(f"{words}: {done} of {total} states" + end, nl=False, err=True)


def _parameters(name: str, settings: Iterable[str]) -> dict[str, Any]:
    """KEY=VALUE pairs as the problem function takes them; values are TOML, or plain words."""
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
            raise click.UsageError(f"{name} has no parameter {key!r}{_nearest(key, known)}")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        if key == "noise":
            kind, _, scale = str(value).partition(":")
            value = Noise(kind, float(scale or 0))  # type: ignore[arg-type]
        parameters[key] = tuple(value) if key == "normalise" and isinstance(value, list) else value
    return parameters


def _nearest(word: str, words: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or the list of all."""
    words = list(words)
    near = get_close_matches(word, words, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(words)}"
