"""The command about logs: `logs`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surefooted.cli.output import check_picture, print_json, print_table, save_picture
from surefooted.errors import SurefootedError

if TYPE_CHECKING:
    from surefooted.data.history import History
    from surefooted.problems.problem_file import ProblemFile
    from surefooted.tables.policy import Policy

TYPED = (
    (r"columns=\{'(\w+)': None\}", r"--column \1="),
    (r"columns=\{'(\w+)': '([^']*)'\}", r"--column '\1=\2'"),
    (r"columns=\{'(\w+)': \[?\.\.\.\]?\}", r"--column \1=..."),
    (r"\b(site|step|decimal|separator|dates|encoding)=('[^']*')", r"--\1 \2"),
    (r"\bpool=True", "--pool"),
    (r"\bquoted_breaks=True", "--quoted-breaks"),
    ("; None leaves an optional one out", "; an empty name leaves an optional one out"),
)  # what Python's arguments are here
PAIRS = 30  # lines of rewards per pair, the most frequent first


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--problem", type=click.Path(dir_okay=False, path_type=Path), help="A problem file: what states mean.")
@click.option(
    "--column", "columns", multiple=True, metavar="NAME=COLUMN", help="The log's name of a column; repeatable."
)
@click.option("--where", multiple=True, metavar="CONDITION", help="Rows to read, as in 'item = A17'; repeatable.")
@click.option("--site", help="The site to read, if a column tells sites apart.")
@click.option("--pool", is_flag=True, help="All sites follow the same law: read them as one log.")
@click.option("--step", help="The length of a step, if t holds dates: week, day, 15 minutes, ...")
@click.option("--dates", metavar="PATTERN", help="How dates are written, as for strptime.")
@click.option("--separator", help="What separates values, if the header does not show it.")
@click.option("--decimal", help="How decimals are written: . or ,")
@click.option("--encoding", help="How the text is written, if not in UTF-8: cp1252, utf-16, ...")
@click.option("--quoted-breaks", is_flag=True, help="Quoted values may contain line breaks.")
@click.option(
    "--figure", type=click.Path(dir_okay=False, path_type=Path), help="Draw the log to a PNG, PDF or SVG file."
)
@click.option("--allow-code", is_flag=True, help="Run code that the problem file names.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def logs(files: tuple[Path, ...], problem: Path | None, figure: Path | None, allow_code: bool, as_json: bool,
         **given: Any) -> None:  # fmt: skip
    """Say what is in the log FILES: states, actions, coverage, rewards, faults.

    With a problem file, its states, labels, bins and options of logs are used, and what was done is compared with
    today's policy.

    \b
    surefooted logs examples/shop.csv --problem examples/shop.toml
    surefooted logs log.csv --column t=date --step week --where 'item = A17'
    """  # noqa: D301 click reads the escape
    from surefooted.data.reading import read_history
    from surefooted.data.survey import survey

    if figure is not None:
        check_picture(figure)
    options: dict[str, Any] = {key: value for key, value in given.items() if value}
    options["columns"] = _columns(options.pop("columns", ()))
    policy, sources, accidents = None, list(files), False
    try:
        if problem is None:
            space = survey(sources, **options).space()
            history = read_history(sources, space, **options)
        else:
            history, policy, accidents = _with_problem(problem, sources, options, allow_code)
    except SurefootedError as error:
        raise click.ClickException(_as_typed(str(error))) from error
    if as_json:
        print_json(_content(history, policy))
    else:
        click.echo(history.summary(accidents))
        _print(history, policy, inferred=problem is None)
    if figure is not None:
        _draw(history, policy, figure)


COMMANDS = (logs,)


def _with_problem(
    file: Path, sources: list[Path], options: dict[str, Any], allow_code: bool
) -> "tuple[History, Policy, bool]":
    """The log as the problem file says, with options of the command line in place of the file's.

    Also today's policy, and whether rows that cannot be used are declared to be accidents.
    """
    from surefooted.data.reading import read_history
    from surefooted.problems.from_file import load_file

    said: ProblemFile = load_file(file, allow_code, lambda text: click.echo(text, err=True), logs=False)
    merged = said.log_options | options | {"columns": said.log_options.get("columns", {}) | options["columns"]}
    return read_history(sources, said.space, **merged), said.baseline.policy, said.accidents


def _columns(texts: tuple[str, ...]) -> dict[str, Any]:
    """The log's name of each column; a name that is given again has several."""
    columns: dict[str, list[str]] = {}
    for text in texts:
        name, equals, column = (part.strip() for part in text.partition("="))
        if not equals:
            raise click.UsageError(f"--column {text}: write NAME=COLUMN, as in state=stock; NAME= leaves it out")
        columns.setdefault(name, []).append(column)
    return {name: given[0] or None if len(given) == 1 else given for name, given in columns.items()}


def _as_typed(message: str) -> str:
    """A message with options as one types them here, in place of Python's arguments."""
    for pattern, typed in TYPED:
        message = re.sub(pattern, typed, message)
    return message


def _content(history: "History", policy: "Policy | None") -> dict[str, Any]:
    """What is in the log, as plain values."""
    space, counts = history.counts.space, history.counts
    means, seen = counts.mean_rewards, [k for k in range(space.n_pairs) if counts.visits[k]]
    spread = _spreads(history)
    pairs = [
        {"state": space.state_words(int(space.pair_state[k])), "action": space.action_words(int(space.pair_action[k])),
         "steps": int(counts.visits[k]), "reward_mean": float(means[k]), "reward_sd": spread[k]}
        for k in sorted(seen, key=lambda k: -counts.visits[k])
    ]  # fmt: skip
    content: dict[str, Any] = {
        "rows": history.rows, "used": history.used, "episodes": history.episodes, "left_out": history.left_out,
        "sites": dict(history.sites), "gaps": history.gaps, "steps_missing": history.skipped, "alike": history.alike,
        "repeats": [str(repeat) for repeat in history.repeats],
        "states": int((history.actions.sum(axis=1) > 0).sum()), "n_states": space.n_states,
        "actions": int((history.actions.sum(axis=0) > 0).sum()), "n_actions": space.n_actions,
        "pairs_visited": len(seen), "n_pairs": space.n_pairs, "unit": space.unit, "pairs": pairs,
        "unusable": {reason: {"rows": number, "examples": [str(x) for x in history.examples[reason]]}
                     for reason, number in history.unusable.items()},
        "selected_by_outcome": history.selected,
    }  # fmt: skip
    if policy is not None:
        fit = history.behaviour_matches(policy)
        content["behaviour"] = {
            "steps": fit.steps,
            "never": fit.never,
            "deviance": fit.deviance,
            "degrees": fit.degrees,
        }
    return content


def _spreads(history: "History") -> list[float | None]:
    """The standard deviation of the rewards of each pair; None where it is not known."""
    counts = history.counts
    found: list[float | None] = []
    for n, total, square in zip(counts.visits, counts.reward_sum, counts.reward_square, strict=True):
        found.append(max(float(square - total * total / n) / (n - 1), 0.0) ** 0.5 if n > 1 else None)
    return found


def _print(history: "History", policy: "Policy | None", inferred: bool) -> None:
    content, space = _content(history, policy), history.counts.space
    click.echo()
    print_table(
        [
            ["", "in the log", "of"],
            ["states", str(content["states"]), str(space.n_states)],
            ["actions", str(content["actions"]), str(space.n_actions)],
            ["state–action pairs", str(content["pairs_visited"]), str(space.n_pairs)],
        ],
        right={1, 2},
    )
    if len(content["sites"]) > 1:
        click.echo("sites: " + ", ".join(f"{name} ({rows} rows)" for name, rows in content["sites"].items() if rows))
    if policy is not None:
        click.echo(f"\nCompared with today's policy: {history.behaviour_matches(policy)}")
    rows = [["state", "action", "steps", "mean reward", "spread"]]
    for pair in content["pairs"][:PAIRS]:
        spread = "" if pair["reward_sd"] is None else f"± {space.amount(pair['reward_sd'])}"
        rows.append([pair["state"], pair["action"], str(pair["steps"]), space.amount(pair["reward_mean"]), spread])
    click.echo()
    print_table(rows, right={2, 3, 4})
    if len(content["pairs"]) > PAIRS:
        click.echo(f"… and {len(content['pairs']) - PAIRS} more pairs (--json shows all)")
    if inferred:
        click.echo(
            "\nStates, actions and the range of rewards are those that occur; a problem file says what exists.",
            err=True,
        )


def _draw(history: "History", policy: "Policy | None", file: Path) -> None:
    from surefooted.evaluation.log_pictures import draw_log

    save_picture(draw_log(history, policy), file)
