"""`surefooted` and its commands. Each command imports what it needs when it runs, so that `--help` is instant."""

from typing import Any

import click

from surefooted.cli import certify, forecasts, live, logs, problems, serve, studies
from surefooted.cli.doctor import doctor, print_version
from surefooted.cli.output import nearest
from surefooted.cli.warm_up import warm_up
from surefooted.errors import SurefootedError


class _Commands(click.Group):
    """A group that suggests the nearest command and prints this package's errors without a traceback."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, or an error that names the nearest one."""
        if args and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"there is no command {args[0]!r}{nearest(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of this package becomes one message and exit code 1."""
        try:
            return super().invoke(ctx)
        except SurefootedError as error:
            raise click.ClickException(str(error)) from error
        except BrokenPipeError:
            raise
        except OSError as error:  # a full disk, no such folder, no permission
            raise click.ClickException(f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=print_version,
              help="Print the version and what it computes with.")  # fmt: skip
def main() -> None:
    """Exploration that never falls below your baseline."""


for _command in (*problems.COMMANDS, *logs.COMMANDS, *certify.COMMANDS, *forecasts.COMMANDS, *live.COMMANDS,
                 *serve.COMMANDS, *studies.COMMANDS, doctor, warm_up):  # fmt: skip
    main.add_command(_command)
