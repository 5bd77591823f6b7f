"""What there is to see, to check and to keep: `live journal`, `verify`, `export`, `report`, `backup`, `restore`."""

import json
from pathlib import Path

import click

from surefooted.cli.live_store import STORE, Where, advisor_of, done, in_store, opened
from surefooted.cli.output import print_json
from surefooted.errors import SurefootedError


@click.command()
@click.option("--since", type=click.IntRange(min=0), default=0, help="Only events after this one.")
@click.option("--last", type=click.IntRange(min=1), help="Only so many events, the newest.")
@in_store
def journal(since: int, last: int | None, store: Where, deployment: str | None, as_json: bool) -> None:
    """Print the journal, one event a line; with --json as JSON lines."""
    from collections import deque

    from surefooted.live.lines import date, in_words

    with advisor_of(store, deployment) as advisor:
        sites = [site["name"] for site in advisor.status()["sites"]]
        rails = advisor.definition.rules.guardrails
        events = advisor.journal(since)
        for event in deque(events, maxlen=last) if last is not None else events:
            said = in_words(event, advisor.space, sites, rails)
            if as_json:
                entry = {"event": event.n, "time": event.at, "kind": event.kind, "words": said, "body": event.body}
                click.echo(json.dumps(entry, ensure_ascii=False))
            else:
                click.echo(f"{event.n:>6}  {date(event.at)}  {event.kind:<10}  {said}")


@click.command()
@click.option("--store", type=STORE, required=True, envvar="SUREFOOTED_STORE",
              help="The store; without the option, the environment variable SUREFOOTED_STORE.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def verify(store: Where, as_json: bool) -> None:
    """Check every event and make every decision again from the journal alone; exit code 1 if anything differs."""
    with opened(store) as held:
        found = held.verify()
    if as_json:
        facts = {"events": found.events, "decisions": found.decisions, "faults": found.faults}
        print_json(facts | {"is_whole": found.is_whole})
    if not found.is_whole:
        raise SurefootedError(f"{held.name} is not whole:\n  " + "\n  ".join(found.faults))
    if not as_json:
        click.echo(f"{held.name} is whole: {found.events} events, and {found.decisions} decisions made again.")


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--format", "format_", type=click.Choice(["csv", "parquet", "jsonl"]), help="By default FILE's ending.")
@in_store
def export(file: Path, format_: str | None, store: Where, deployment: str | None, as_json: bool) -> None:
    """Write one row for each decision and what came of it to FILE (.csv, .parquet or .jsonl)."""
    with advisor_of(store, deployment) as advisor:
        advisor.export(file, format_)  # type: ignore[arg-type]
        done(as_json, f"Written to {file}.", file=str(file))


@click.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="By default NAME.html beside the store.")
@in_store
def report(out: Path | None, store: Where, deployment: str | None, as_json: bool) -> None:
    """Write one HTML page: accounts over time, departures, overrides, alarms, decisions with reasons."""
    from surefooted.live.page import write_report

    with advisor_of(store, deployment) as advisor:
        page = f"{advisor.name}.html"
        path = out or (store.with_name(page) if isinstance(store, Path) else Path(page))
        write_report(advisor, path)
        done(as_json, f"Written to {path}.", file=str(path))


@click.command()
@click.argument("target", type=STORE)
@click.option("--store", type=STORE, required=True, envvar="SUREFOOTED_STORE",
              help="The store; without the option, the environment variable SUREFOOTED_STORE.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def backup(target: Where, store: Where, as_json: bool) -> None:
    """Copy the store to TARGET, a new file or an empty postgresql://… store, while others go on deciding."""
    from surefooted.live.opening import shown

    with opened(store) as held:
        copied = held.backup(target)
    said = f"Copied {copied.events} events to {shown(target)}, and checked them. The last hash is {copied.hash}."
    done(as_json, said, target=shown(target), **copied._asdict())


@click.command()
@click.argument("source", type=STORE)
@click.option("--store", type=STORE, required=True, envvar="SUREFOOTED_STORE", help="The new or empty store.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def restore(source: Where, store: Where, as_json: bool) -> None:
    """Copy SOURCE, a backup or any other store, into a new or empty store; the hash chain is checked."""
    from surefooted import live
    from surefooted.live.opening import shown

    copied = live.restore(source, store)
    said = f"Copied {copied.events} events to {shown(store)}, and checked them. The last hash is {copied.hash}."
    done(as_json, said, store=shown(store), **copied._asdict())


COMMANDS = (journal, verify, export, report, backup, restore)
