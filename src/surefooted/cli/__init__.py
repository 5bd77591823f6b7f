"""The command line: a command parses its arguments, makes one call and prints the result."""

from surefooted.cli.commands import main

__all__ = ["main"]
