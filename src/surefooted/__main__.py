"""`python -m surefooted` is the command line."""

from surefooted.cli import main

main(prog_name="surefooted")
