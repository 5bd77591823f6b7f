"""The command line. A command parses, makes one call and prints."""

from surefooted.cli.commands import main

__all__ = ["main"]
