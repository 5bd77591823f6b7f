"""What commands print about a problem file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surefooted.cli.output import print_json, print_table, save_picture

if TYPE_CHECKING:
    from surefooted.data.history import History
    from surefooted.problems.problem import Problem
    from surefooted.problems.problem_file import ProblemFile

STATES = 60  # lines of a policy


def load_problem(file: Path, allow_code: bool, logs: bool = False) -> "ProblemFile":
    """Read a problem file; code that it names is named on stderr before it runs."""
    from surefooted.problems import load

    return load(file, allow_code=allow_code, say=lambda text: click.echo(text, err=True), logs=logs)


def show_file(
    file: Path, as_json: bool, picture: Path | None, save: Path | None, diameter: bool | None, allow_code: bool
) -> None:
    """Print what a problem file says; with a model, also its exact answers."""
    said = load_problem(file, allow_code, logs=True)
    content = _content(said)
    if as_json:
        print_json(content)
    else:
        click.echo(f"{said.name}: {said.title}" if said.title else said.name)
        print_table(
            [["", ""], *([key.replace("_", " "), _text(value)] for key, value in content.items())][1:], right=set()
        )
        click.echo()
        _print_baseline(said)
        if said.history is not None:
            click.echo(f"\nThe log: {said.history.summary(said.accidents)}")
            _print_compared(said, said.history)
    if picture is not None or save is not None:
        problem = said.true_problem()
        if save is not None:
            problem.save(save)
            click.echo(f"Problem written to {save}", err=True)
        if picture is not None:
            _draw(problem, picture)


def _print_compared(said: "ProblemFile", history: "History") -> None:
    """What the log says of today's policy, and where it contradicts what is declared."""
    from surefooted.knowledge.belief import contradictions

    click.echo(f"Compared with today's policy: {history.behaviour_matches(said.baseline.policy)}")
    for fault in contradictions(history.counts, said.knowledge, said.promise.delta):
        click.echo(f"The log contradicts what is declared: {fault}")


def print_policy(problem: "Problem") -> None:
    """The baseline and an optimal policy, state by state, by their labels."""
    from surefooted import solve

    best = solve.optimal_gain(problem.mdp) if problem.horizon is None else None
    if best is None:
        return
    rows = [["state", "baseline", "optimal"]]
    for s in range(min(problem.space.n_states, STATES)):
        actions = (problem.baseline.actions[s], best.policy.actions[s])
        rows.append([problem.state_labels[s], *(problem.action_labels[int(a)] for a in actions)])
    click.echo()
    print_table(rows, right=set())


def _content(said: "ProblemFile") -> dict[str, Any]:
    space, promise = said.space, said.promise
    knowledge = "nothing" if said.knowledge is None else repr(said.knowledge).rpartition("), ")[2].rstrip(")")
    return {
        "file": str(said.path),
        "states": space.n_states,
        "actions": space.n_actions,
        "pairs": space.n_pairs,
        "rewards": space.money.words,
        "step": None if said.step is None else str(said.step),
        "horizon": said.horizon,
        "start": said.state_labels[said.start],
        "known": knowledge,
        "baseline_earns": None if said.baseline.gain is None else space.amount(said.baseline.gain),
        "alpha": promise.alpha,
        "delta": promise.delta,
        "tolerance": promise.tolerance,
        "allowance": promise.allowance,
        "floor": promise.floor,
        "checkpoints": promise.checkpoints,
        "condition": promise.condition,
        "guardrails": ", ".join(rail.name for rail in said.guardrails) or None,
        "model": said.problem is not None,
        "logged_steps": None if said.history is None else said.history.used,
    }


def _print_baseline(said: "ProblemFile") -> None:
    rows = [["state", "today's policy", "other actions"]]
    table = said.baseline.policy.probabilities if said.baseline.policy.horizon is None else None
    if table is None:
        return
    for s in range(min(said.space.n_states, STATES)):
        played = [a for a in said.space.actions(s).tolist() if table[s, a] > 0]
        words = [said.action_labels[a] + (f" ({table[s, a]:.0%})" if len(played) > 1 else "") for a in played]
        others = [said.action_labels[a] for a in said.space.actions(s).tolist() if a not in played]
        shown = ", ".join(others[:8]) + (", …" if len(others) > 8 else "")
        rows.append([said.state_labels[s], ", ".join(words), shown])
    print_table(rows, right=set())


def _draw(problem: "Problem", picture: Path) -> None:
    from surefooted.evaluation.pictures import draw

    save_picture(draw(problem), picture)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else str(value)
