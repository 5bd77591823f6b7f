"""What the `live` commands share: the options that name a store, and how they open and print it."""

import getpass
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from surefooted.cli.output import print_json
from surefooted.errors import InvalidInput, SurefootedError

if TYPE_CHECKING:
    from surefooted.live.advisor import Advisor
    from surefooted.live.decision import Decision
    from surefooted.live.deployments import LiveStore

F = TypeVar("F", bound=Callable[..., Any])
Where = Path | str  # of a store: a file, or the address of a PostgreSQL database


class _Store(click.Path):
    """A file, or postgresql://…."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A path, or an address as it was given."""
        if isinstance(value, str) and value.startswith(("postgresql://", "postgres://")):
            return value
        return super().convert(value, param, ctx)


STORE = _Store(dir_okay=False, path_type=Path)


def in_store(command: F) -> F:
    """The options of every command on a store: `--store`, `--deployment`, `--json`."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text."),
        click.option("--deployment", metavar="NAME", help="Which deployment, if the store has several."),
        click.option(
            "--store", type=STORE, required=True, envvar="SUREFOOTED_STORE",
            help="The store; without the option, the environment variable SUREFOOTED_STORE.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def by_whom(command: F) -> F:
    """The options of every command that a person answers for: `--who`, `--note`."""
    command = click.option("--note", help="Why; it stands in the journal.")(command)
    return click.option("--who", default=_user, help="Who; by default the user of this machine.")(command)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without users
        return "unknown"


@contextmanager
def opened(store: Where, create: bool = False) -> "Iterator[LiveStore]":
    """The store in a file or database; only `init`, `rehearse`, `backup` and `restore` create one."""
    from surefooted import live
    from surefooted.live.opening import exists, shown

    if not create and not exists(store):
        name = shown(store)
        raise SurefootedError(f"there is no store {name}; create one: surefooted live init PROBLEM.toml --store {name}")
    with live.open(store) as held:
        yield held


@contextmanager
def advisor_of(where: Where, deployment: str | None) -> "Iterator[Advisor]":
    """The advisor of a deployment; if none is named, of the only one."""
    with opened(where) as store:
        if deployment is None:
            names = store.deployments()
            if len(names) != 1:
                listed = f"deployments {', '.join(names)}: name one with --deployment" if names else "no deployment yet"
                raise SurefootedError(f"{store.name} has {listed}")
            deployment = names[0]
        yield store.deployment(deployment)


def word(names: tuple[str, ...] | None, given: str, what: str) -> int | str:
    """A state or action as a person writes it: by its name or, if there are no names, by its number."""
    if names is not None:
        return given
    try:
        return int(given)
    except ValueError:
        raise InvalidInput(f"no such {what}", [f"{what} {given!r}: the {what}s have no names, give a number"]) from None


def decision_as_dict(decision: "Decision", advisor: "Advisor") -> dict[str, Any]:
    """A decision as plain values, with the names of its state and actions beside the numbers."""
    space, proposed = advisor.space, decision.proposed
    names: dict[str, str | None] = {"state_name": space.state_words(decision.state), "unit": space.unit}
    names["proposed_name"] = None if proposed is None else space.action_words(proposed)
    return asdict(decision) | names


def print_decision(decision: "Decision", advisor: "Advisor", as_json: bool) -> None:
    """The action on the first line, so that it can be piped, then the reason and the number of the decision."""
    from surefooted.live.lines import date

    if as_json:
        print_json(decision_as_dict(decision, advisor))
        return
    click.echo(decision.label)
    click.echo(decision.reason, err=True)
    remark = f"Decision {decision.id}"
    if decision.status == "waiting" and decision.deadline is not None:
        assert decision.proposed is not None
        other = advisor.space.action_words(decision.proposed)
        until = date(decision.deadline)
        remark += f" waits for a person until {until}: approve it to play {other}, otherwise play {decision.label}"
    elif decision.status != "play":
        remark += f" ({decision.status})"
    click.echo(f"{remark}. Tell what came of it: surefooted live tell {decision.id} ...", err=True)


def done(as_json: bool, sentence: str, **facts: Any) -> None:
    """One sentence for people, or the facts as JSON."""
    if as_json:
        print_json(facts)
    else:
        click.echo(sentence)
