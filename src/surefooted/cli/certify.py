"""The command about candidates: `certify`."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surefooted.cli.output import print_json, print_table
from surefooted.errors import InvalidInput

if TYPE_CHECKING:
    from surefooted.certificates.improvement import Improvement
    from surefooted.problems.problem_file import ProblemFile
    from surefooted.tables.policy import Policy
    from surefooted.tables.space import Space


@click.command()
@click.argument("problem", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--candidate",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A CSV file with the columns state and action; states that it does not name keep today's policy.",
)
@click.option(
    "--least",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Without a candidate, one is proposed: it leaves today's policy for actions that were logged this often.",
)
@click.option("--delta", type=float, help="The probability with which the bound may fail.")
@click.option("--allow-code", is_flag=True, help="Run code that the problem file names.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of sentences.")
def certify(
    problem: Path, candidate: Path | None, least: int, delta: float | None, allow_code: bool, as_json: bool
) -> None:
    """Prove what a candidate policy would earn more than today's, from the logs of a PROBLEM file alone.

    Without --candidate, the policy is proposed that is best by the log and dares little (SPIBB).

    \b
    surefooted certify examples/shop.toml
    surefooted certify examples/shop.toml --candidate orders.csv --delta 0.01
    """  # noqa: D301 click reads the escape
    from surefooted.agents.spibb import spibb
    from surefooted.certificates.certify import certify as prove
    from surefooted.cli.problem_files import load_problem

    said = load_problem(problem, allow_code, logs=True)
    if said.history is None:
        fault, remedy = "a candidate is judged by what was logged", "Add [logs] with a file."
        raise InvalidInput(f"{problem} names no log", [fault], remedy)
    base, horizon = said.baseline, said.horizon
    policy = spibb(said.history, base.policy, least=least, horizon=horizon)
    if candidate is not None:
        policy = read_policy(candidate, base.policy)
    found = prove(policy, said.history, base, horizon=horizon, start=said.start if horizon else None,
                  delta=said.promise.delta if delta is None else delta, knowledge=said.knowledge,
                  accidents=said.accidents)  # fmt: skip
    if as_json:
        print_json(_content(found, policy, said))
        return
    click.echo(str(found))
    rows = [["state", "today's policy", "candidate"], *_changes(policy, said)]
    click.echo("\nThe candidate is today's policy." if len(rows) == 1 else "")
    if len(rows) > 1:
        print_table(rows, right=set())


COMMANDS = (certify,)


def read_policy(file: Path, baseline: "Policy") -> "Policy":
    """The policy of a CSV file with the columns state and action; other states keep the baseline."""
    from surefooted.tables.policy import Policy

    space, weights, faults = baseline.space, baseline.dense_weights.copy(), list[str]()
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    if not rows or not {"state", "action"} <= set(rows[0]):
        faults.append("it must have the columns state and action, and a row for each state that changes")
    for number, row in enumerate(rows if not faults else (), start=2):
        s, a = (_place(row[key], words) for key, words in (("state", _states(space)), ("action", _actions(space))))
        if s is None or a is None or a not in space.actions(s):
            faults.append(f"line {number}: there is no action {row['action']!r} in a state {row['state']!r}")
            continue
        weights[..., space.pair_ptr[s] : space.pair_ptr[s + 1]] = 0.0
        weights[..., space.pair(s, a)] = 1.0
    if faults:
        raise InvalidInput(f"{file} is no policy", faults)
    return Policy(space, weights=weights)


def _place(word: str | None, words: list[str]) -> int | None:
    return words.index(word.strip()) if word is not None and word.strip() in words else None


def _states(space: "Space") -> list[str]:
    return [space.state_words(s) for s in range(space.n_states)]


def _actions(space: "Space") -> list[str]:
    return [space.action_words(a) for a in range(space.n_actions)]


def _changes(policy: "Policy", said: "ProblemFile") -> list[list[str]]:
    """The states in which the candidate differs: the likeliest action of each policy, at the first stage."""
    space, base = said.space, said.baseline.policy
    ours, theirs = policy.rule(0), base.rule(0)
    differs = [s for s in range(space.n_states) if abs(ours.probabilities[s] - theirs.probabilities[s]).max() > 0]
    words = [(space.state_words(s), *(space.action_words(int(p.actions[s])) for p in (theirs, ours))) for s in differs]
    return [list(row) for row in words]


def _content(found: "Improvement", policy: "Policy", said: "ProblemFile") -> dict[str, Any]:
    changes = [dict(zip(("state", "today", "candidate"), row, strict=True)) for row in _changes(policy, said)]
    limits = [{"pair": limit.words, "steps": limit.visits, "matters": limit.matters} for limit in found.limits]
    return {
        "at_least": found.at_least, "per": found.unit, "unit": found.space.unit, "proved": found.is_proved,
        "delta": found.delta, "steps": found.steps, "candidate": found.candidate, "baseline": found.baseline,
        "limits": limits, "changes": changes, "said": str(found),
    }  # fmt: skip
