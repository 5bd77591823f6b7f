"""`surefooted serve`, the advisor over HTTP, and `surefooted token`, who may use it."""

from typing import Any

import click

from surefooted.cli.live_store import STORE, Where, opened
from surefooted.cli.output import nearest, print_json, print_table
from surefooted.errors import MissingExtra, SurefootedError


@click.command()
@click.argument("path", required=False, type=STORE)
@click.option(
    "--store", type=STORE, envvar="SUREFOOTED_STORE", help="The store, instead of the argument: a file or an address."
)
@click.option("--host", default="127.0.0.1", show_default=True,
              help="On which address; others than this machine's need tokens.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65_535), default=8000, show_default=True, help="0: any that is free.")
@click.option("--rate", type=click.FloatRange(min=0), default=200.0, show_default=True,
              help="Requests a second of one token; 0: no limit.")  # fmt: skip
@click.option("--burst", type=click.IntRange(min=1), default=400, show_default=True, help="How many of them at once.")
@click.option(
    "--body", type=click.IntRange(min=1_000), default=1_000_000, show_default=True, help="Bytes of a request."
)
@click.option("--seconds", type=click.FloatRange(min=0.1), default=30.0, show_default=True, help="Of a request.")
@click.option("--streams", type=click.IntRange(min=0), default=100, show_default=True,
              help="Streams of events at once.")  # fmt: skip
@click.option("--threads", type=click.IntRange(min=1, max=1_000), default=32, show_default=True,
              help="Calls that are worked on at once.")  # fmt: skip
@click.option("--webhooks", type=click.Path(dir_okay=False), help="A TOML file: whom to tell about alarms.")
@click.option("--allow-code", is_flag=True, help="Run learners of your own, of deployments in the store.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info",
              show_default=True)  # fmt: skip
def serve(path: Where | None, store: Where | None, host: str, port: int, webhooks: str | None, log_level: str,
          **limits: Any) -> None:  # fmt: skip
    """Offer the advisor over HTTP, with the store in PATH: a file, or the address of a database.

    \b
    surefooted token create ada --role administer --store shop.db
    surefooted serve shop.db
    """  # noqa: D301 click reads the escape
    where = path or store
    if where is None:
        raise click.UsageError("name the store: surefooted serve shop.db, or --store postgresql://...")
    try:
        from surefooted.service import logs, serving, settings, warming
        from surefooted.service.app import create_app
    except ImportError as error:
        raise missing(error) from error
    hooks = settings.read_webhooks(webhooks) if webhooks else ()
    with opened(where) as held:
        serving.check_address(held, host)
        logs.configure(log_level)
        app = create_app(held, settings.Settings(**limits, webhooks=hooks))
        made = serving.listening(host, port)
        warming.compile_all()
        unread = warming.read_all(app.state.context)
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"Listening on http://{shown}:{made.getsockname()[1]} (Ctrl-C ends it)", err=True)
        for name in unread:
            click.echo(f"Deployment {name} cannot be used here; a learner of your own needs --allow-code", err=True)
        if not serving.has_tokens(held):
            click.echo("There is no token yet, so nobody can use it: surefooted token create --help", err=True)
        serving.run(app, made)


def missing(error: ImportError) -> SurefootedError:
    """The error that names the extra."""
    name = (error.name or "").partition(".")[0]
    if name == "surefooted" or not name:
        raise error
    return MissingExtra(f"surefooted serve needs {name}, which is not installed: pip install 'surefooted[service]'")


class _Tokens(click.Group):
    """A group that suggests the nearest command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, or an error that names the nearest one."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"there is no command 'token {args[0]}'{nearest(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Tokens)
def token() -> None:
    """Say who may use a service: create, list and revoke tokens."""


_store = click.option("--store", type=STORE, required=True, envvar="SUREFOOTED_STORE", help="The store of the service.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


@token.command()
@click.argument("name")
@click.option("--role", type=click.Choice(["read", "use", "operate", "administer"]), required=True,
              help="read: see all; use: ask and tell; operate: and what people do; administer: all.")  # fmt: skip
@click.option("--site", "sites", nargs=2, multiple=True, metavar="DEPLOYMENT SITE",
              help="For the role use: a site at which it may ask and tell; repeatable.")  # fmt: skip
@click.option("--deployment", "deployments", multiple=True, metavar="NAME",
              help="For the role use: a deployment at all of whose sites it may.")  # fmt: skip
@click.option("--all-sites", is_flag=True, help="For the role use: at all sites of all deployments.")
@click.option("--days", type=float, help="After how many days it expires; by default never.")
@_store
@_json
def create(name: str, role: Any, sites: tuple[tuple[str, str], ...], deployments: tuple[str, ...], all_sites: bool,
           days: float | None, store: Where, as_json: bool) -> None:  # fmt: skip
    """Create a token and print it, this once. NAME stands in the journal for what is done with it.

    \b
    surefooted token create till-3 --role use --site shop 'high street' --days 365 --store shop.db
    """  # noqa: D301 click reads the escape
    from surefooted.service import tokens

    places: list[tuple[str, str | None]] = [*sites, *((deployment, None) for deployment in deployments)]
    if role == "use" and bool(places) == all_sites:
        raise click.UsageError("say where it may ask and tell: --site, --deployment, or --all-sites")
    with opened(store) as held:
        secret, made = tokens.create(held, name, role, sites=places or None, days=days)
    if as_json:
        print_json({"token": secret, "name": made.name, "role": made.role, "expires": made.expires})
        return
    click.echo(secret)
    click.echo("Keep it: it is shown this once, and stored as a digest.", err=True)


@token.command("list")
@_store
@_json
def list_(store: Where, as_json: bool) -> None:
    """List the tokens of a store, without their secrets."""
    from surefooted.live.lines import date
    from surefooted.service import tokens

    with opened(store) as held:
        found = tokens.listed(held)
        now = held.clock()
    if as_json:
        facts = [{"name": each.name, "role": each.role, "sites": each.sites, "created": each.created,
                  "expires": each.expires, "revoked": each.revoked, "valid": each.is_valid(now)}
                 for each in found]  # fmt: skip
        print_json(facts)
        return
    rows = [["name", "role", "where", "created", "expires", ""]]
    for each in found:
        where = "everywhere" if each.sites is None else ", ".join(f"{d}: {s or 'all sites'}" for d, s in each.sites)
        state = f"revoked {date(each.revoked)}" if each.revoked else "" if each.is_valid(now) else "expired"
        expires = date(each.expires) if each.expires else "never"
        rows.append([each.name, each.role, where, date(each.created), expires, state])
    print_table(rows, right=set())


@token.command()
@click.argument("name")
@_store
@_json
def revoke(name: str, store: Where, as_json: bool) -> None:
    """Revoke a token: from now on it is useless, also in services that are running."""
    from surefooted.service import tokens

    with opened(store) as held:
        found = tokens.revoke(held, name)
    if as_json:
        print_json({"name": found.name, "revoked": found.revoked})
        return
    click.echo(f"The token {name} is revoked.")


COMMANDS = (serve, token)
