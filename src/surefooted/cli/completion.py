"""What a shell completes: names of problems, and files. docs/command-line.md says how to switch it on."""

import click
from click.shell_completion import CompletionItem


def problem_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The problems of this package that begin like this; files, if there is none."""
    from surefooted.problems import ALL

    names = [CompletionItem(name) for name in ALL if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]
