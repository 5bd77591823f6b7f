"""The commands of the advisor that run every day: `live init`, `ask`, `tell`, `status`, `sites`."""

from datetime import date
from pathlib import Path
from typing import Any

import click

from surefooted.cli import live_audit, live_people, live_rehearse
from surefooted.cli.live_store import STORE, Where, advisor_of, by_whom, done, in_store, opened, print_decision, word
from surefooted.cli.live_tell import outcome, tell_file, told
from surefooted.cli.output import nearest, print_json, print_table

CONTRADICTED = (
    "The baseline is played from now on. If a number is wrong, `surefooted live correct` puts it right, and then "
    "`surefooted live trust --knowledge 'as built'` goes on."
)


class _Live(click.Group):
    """A group that suggests the nearest command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, or an error that names the nearest one."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"there is no command 'live {args[0]}'{nearest(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Live)
def live() -> None:
    """Run it for real: ask what to do, tell what came of it (docs/going-live.md)."""


@live.command()
@click.argument("problem", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--store", type=STORE, required=True, envvar="SUREFOOTED_STORE",
              help="The store; it is created if there is none.")  # fmt: skip
@click.option("--name", help="Of the deployment; by default the name in the problem file.")
@click.option("--site", "sites", multiple=True, help="A site, repeatable; by default one of the problem's name.")
@click.option("--mode", type=click.Choice(["shadow", "approval", "live"]), default="shadow", show_default=True,
              help="How it begins.")  # fmt: skip
@click.option("--baseline", "source", type=click.Choice(["file", "model", "log"]), default="file", show_default=True,
              help="Whose numbers say what the baseline earns.")  # fmt: skip
@click.option("--accounts", type=click.Choice(["shared", "own", "both"]), help="Of the sites (default: shared).")
@click.option("--arrival", type=click.Choice(["any", "independent"]),
              help="Whether when an outcome arrives may depend on what it is (default: any).")  # fmt: skip
@click.option("--people", type=click.Choice(["state", "more"]),
              help="Whether people who override or approve see more than the state (default: state).")  # fmt: skip
@click.option("--deadline", type=click.FloatRange(min=0, min_open=True), metavar="HOURS",
              help="In approval mode, how long a departure waits for a person (default: 24).")  # fmt: skip
@click.option("--learner", help="Who proposes: ucrl2, psrl, or package.module:Class (default: ucrl2).")
@click.option("--drift", type=float, help="The probability of a false alarm of change; 0: no test (default: δ / 10).")
@click.option("--alpha", type=float, help="In place of the file's promise.")
@click.option("--allowance", type=float, help="In place of the file's promise.")
@click.option("--inherits", metavar="NAME", help="A deployment of this store whose observations teach the new one.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of all random numbers.")
@click.option("--allow-code", is_flag=True, help="Run code that the problem file or --learner names.")
@by_whom
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def init(problem: Path, store: Where, source: str, sites: tuple[str, ...], allow_code: bool, who: str, as_json: bool,
         **given: Any) -> None:  # fmt: skip
    """Create a deployment of the problem file PROBLEM in a store. It can never be changed.

    \b
    surefooted live init shop.toml --store shop.db --baseline log
    """  # noqa: D301 click reads the escape
    from surefooted.cli.problem_files import load_problem
    from surefooted.live.feasibility import feasibility
    from surefooted.rehearsal import baseline_of, deploy

    said = load_problem(problem, allow_code, logs=True)
    estimate = baseline_of(said, source, given["seed"])  # type: ignore[arg-type]
    options = {key: value for key, value in given.items() if value is not None}
    options |= {
        "allow_code": allow_code,
        "note": options.get("note") or str(estimate),
        "guardrails": estimate.guardrails,
    }
    with opened(store, create=True) as held:
        advisor = deploy(held, said, estimate.baseline, sites=sites or (said.name,), who=who, **options)
        status = advisor.status()
    rule = feasibility(advisor.definition)
    if as_json:
        gain = {"gain": estimate.baseline.gain, "gain_low": estimate.low, "gain_high": estimate.high}
        print_json(status | gain | {"source": source, "store": held.name, "feasibility": rule._asdict()})
        return
    listed = ", ".join(site["name"] for site in status["sites"])
    click.echo(f"Created {advisor.name} in {held.name}: {listed}; mode {status['mode']}.")
    click.echo(str(estimate))
    known = advisor.definition.counts
    click.echo(f"The learner knows {0 if known is None else known.total} steps.")
    pays_in, reserve, deposit, allowance = (advisor.space.amount(amount) for amount in rule[:4])
    for rail in estimate.guardrails:
        may = f"{rail.tolerance:g} worse on average" + (f", and {rail.allowance:g} in all" if rail.allowance else "")
        click.echo(f"Guardrail {rail.name}: the baseline keeps {rail.gain:.4g} a {estimate.per}; it may be {may}.")
    click.echo(
        f"Each decision pays in {pays_in}; {allowance} may be lost from the start. A first departure needs {reserve} "
        f"in reserve, and up to {deposit} as a deposit: decision {rule.soonest} at the soonest, decision {rule.latest} "
        "if nothing is known about it."
    )


@live.command()
@click.argument("site")
@click.argument("state")
@click.option("--key", help="Of the question; the same key gets the same answer for ever (default: today's date).")
@in_store
def ask(site: str, state: str, key: str | None, store: Where, deployment: str | None, as_json: bool) -> None:
    """Ask what to do in STATE of SITE. The action is printed on standard output, the reason on standard error.

    \b
    surefooted live ask shop 6 --key 2026-11-16 --store shop.db
    """  # noqa: D301 click reads the escape
    with advisor_of(store, deployment) as advisor:
        where = word(advisor.space.state_names, state, "state")
        decision = advisor.ask(site, where, key=date.today().isoformat() if key is None else key)
        print_decision(decision, advisor, as_json)


@live.command()
@click.argument("decision", type=int, required=False)
@click.option("--site", help="Of the question, instead of the number of the decision; needs --key.")
@click.option("--key", help="Of the question.")
@outcome
@click.option("--csv", "file", type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
              help="Many outcomes from a CSV file; - is standard input.")  # fmt: skip
@by_whom
@in_store
def tell(decision: int | None, site: str | None, key: str | None, file: Path | None,
         who: str, note: str | None, store: Where, deployment: str | None, as_json: bool,
         **given: Any) -> None:  # fmt: skip
    """Tell what came of DECISION: its reward, its next state, or both; or many outcomes from a CSV file.

    The columns of the file are decision, or site and key; then reward, next_state, action, noise (its components
    separated by spaces), and guardrails by name.

    \b
    surefooted live tell 4 --reward 21.50 --store shop.db
    surefooted live tell --csv week.csv --store shop.db
    """  # noqa: D301 click reads the escape
    if file is not None and (decision is not None or site or key or any(given.values())):
        raise click.UsageError("give an outcome, or --csv, not both")
    with advisor_of(store, deployment) as advisor:
        if file is not None:
            tell_file(advisor, file, as_json, who)
            return
        before, contradicted = advisor.store.last, advisor.status()["contradictions"]
        advisor.tell(decision, site=site, key=key, who=who, note=note, **told(advisor, **given))
        fresh = advisor.store.last > before
        for what in [each for each in advisor.status()["contradictions"] if each not in contradicted]:
            click.echo(f"This contradicts what was declared: {what}. {CONTRADICTED}", err=True)
        done(as_json, "Written." if fresh else "This was known already; nothing changes.", new=fresh)


@live.command()
@in_store
def status(store: Where, deployment: str | None, as_json: bool) -> None:
    """Say where a deployment stands: accounts, open and waiting decisions, alarms."""
    from surefooted.live.lines import date as date_of
    from surefooted.live.page import standing

    with advisor_of(store, deployment) as advisor:
        now, space = advisor.status(), advisor.space
        if as_json:
            print_json(now | {"unit": space.unit})
            return
        click.echo(f"{now['deployment']} (fingerprint {now['fingerprint'][:16]}, {now['events']} events)")
        for sentence in standing(now, space):
            click.echo(sentence)
        rows = [["account", "balance", "saved up", "departures", "open"]]
        for account in now["accounts"]:
            shown = space.amount if account["name"].endswith(", reward") else "{:.4g}".format
            amounts = [shown(account[name]) for name in ("balance", "saved_up", "departures")]
            rows.append([account["name"], *amounts, str(account["open"])])
        click.echo()
        print_table(rows, right={1, 2, 3, 4})
        sites = [["site", "mode", "", ""]]
        for site in now["sites"]:
            paused = f"paused: {site['paused']}" if site["paused"] is not None else ""
            sites.append([site["name"], site["mode"], paused, "closed" if site["closed"] else ""])
        click.echo()
        print_table(sites, right=set())
        for n, deadline in now["waiting"].items():
            click.echo(f"Decision {n} waits for a person until {date_of(deadline)}.")


@live.command()
@click.argument("site")
@click.option("--close", "change", flag_value="close", help="Answer no more questions about it.")
@click.option("--reopen", "change", flag_value="reopen", help="Take back --close.")
@by_whom
@in_store
def site(site: str, change: str | None, who: str, note: str | None, store: Where, deployment: str | None,
         as_json: bool) -> None:  # fmt: skip
    """Add SITE, or close or reopen it."""
    with advisor_of(store, deployment) as advisor:
        call = {None: advisor.add_site, "close": advisor.close_site, "reopen": advisor.reopen_site}[change]
        call(site, who=who, note=note)
        what = {None: "added", "close": "closed", "reopen": "reopened"}[change]
        done(as_json, f"Site {site} is {what}.", site=site, change=what)


for _command in (*live_people.COMMANDS, *live_audit.COMMANDS, *live_rehearse.COMMANDS):
    live.add_command(_command)
COMMANDS = (live,)
