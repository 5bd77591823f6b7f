"""`surefooted doctor` and `surefooted --version`: what is installed, and whether this machine can run it."""

import os
import platform
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import click

from surefooted import __version__
from surefooted.cli.output import print_json, print_table

LEAST_SPACE = 100e6  # bytes in the current directory
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class Finding(NamedTuple):
    """One line of the report: `remedy` says what to do if something is wrong, and is empty otherwise."""

    what: str
    found: str
    remedy: str = ""


def installed() -> tuple[dict[str, str | None], dict[str, dict[str, str | None]]]:
    """Versions of what the core needs, and of what each extra needs; None for what is not installed."""
    core: dict[str, str | None] = {}
    extras: dict[str, dict[str, str | None]] = {}
    for requirement in metadata.requires("surefooted") or ():
        match, extra = _NAME.match(requirement), _EXTRA.search(requirement)
        if match is None or (extra and extra[1] == "all"):  # that one repeats the others
            continue
        try:
            version: str | None = metadata.version(match[0])
        except metadata.PackageNotFoundError:
            version = None
        (extras.setdefault(extra[1], {}) if extra else core)[match[0]] = version
    return core, extras


def version_line() -> str:
    """One line for a bug report: this package, Python, and what it computes with."""
    core, extras = installed()
    used = ", ".join(f"{name} {core[name]}" for name in ("numpy", "numba", "scipy") if core.get(name))
    complete = ", ".join(name for name, needed in extras.items() if None not in needed.values())
    return f"surefooted {__version__} (Python {platform.python_version()}, {used}; extras: {complete or 'none'})"


def print_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    """The callback of `--version`."""
    if value and not context.resilient_parsing:
        click.echo(version_line())
        context.exit()


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def doctor(as_json: bool) -> None:
    """Say what is installed, and whether this machine can run it.

    The exit code is 1 if something needs a remedy.

    \b
    surefooted doctor
    surefooted doctor --json
    """  # noqa: D301 click reads the escape
    findings = [*_packages(), *_kernels(), *_stores(), *_machine()]
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        print_table([["what", "found"], *([finding.what, finding.found] for finding in findings)], right=set())
    wrong = [finding for finding in findings if finding.remedy]
    for finding in wrong:
        click.echo(f"{finding.what}: {finding.remedy}", err=True)
    if not wrong:
        click.echo("Nothing needs a remedy.", err=True)
    sys.exit(1 if wrong else 0)


def _packages() -> Iterator[Finding]:
    """The versions of everything; an extra that is partly there is a fault, one that is not there is none."""
    yield Finding("surefooted", f"{__version__}, in {Path(__file__).parents[1]}")
    yield Finding("Python", f"{platform.python_version()} ({sys.executable})")
    core, extras = installed()
    for name, version in core.items():
        remedy = "" if version else f"install it: pip install {name}"
        yield Finding(name, version or "missing", remedy)
    for extra, needed in extras.items():
        missing = [name for name, version in needed.items() if version is None]
        there = ", ".join(f"{name} {version}" for name, version in needed.items() if version)
        found = f"{there}; not {', '.join(missing)}" if there and missing else there or "not installed"
        yield Finding(f"extra {extra}", found + (f': pip install "surefooted[{extra}]"' if missing else ""))


def _kernels() -> Iterator[Finding]:
    """Where compiled kernels are kept."""
    from surefooted.kernels.cache import places

    where = places()
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        yield Finding("kernels", "plain Python", "unset NUMBA_DISABLE_JIT: nothing is compiled, and all is slow")
        return
    count = sum(1 for place in where.read for _ in place.glob("*.kernel"))
    found = f"{count} compiled, kept in {where.write}" if where.write else f"{count} compiled"
    remedy = "" if where.lasts else "set NUMBA_CACHE_DIR to a directory that can be written, or each start compiles"
    yield Finding("kernels", found, remedy)


def _stores() -> Iterator[Finding]:
    """Whether a store of the advisor can be made in the current directory, with a journal that survives a crash."""
    yield Finding("SQLite", sqlite3.sqlite_version)
    here = Path.cwd()
    try:
        with tempfile.TemporaryDirectory(dir=here) as folder, closing(sqlite3.connect(f"{folder}/try.db")) as store:
            mode = str(store.execute("PRAGMA journal_mode=WAL").fetchone()[0])
    except (OSError, sqlite3.Error) as error:
        yield Finding("a store here", str(error), f"choose another directory for stores and studies than {here}")
        return
    remedy = "" if mode == "wal" else "this file system cannot share memory: keep stores on a local disk"
    yield Finding("a store here", "can be kept" if mode == "wal" else f"journal mode {mode}", remedy)


def _machine() -> Iterator[Finding]:
    """Processors, space and the terminal."""
    yield Finding("machine", f"{platform.machine()}, {os.cpu_count()} processors, {platform.system()}")
    free: Any = shutil.disk_usage(Path.cwd()).free
    yield Finding("space here", f"{free / 1e9:.1f} GB", "" if free > LEAST_SPACE else "make room: results need space")
    encoding = getattr(sys.stdout, "encoding", None) or "unknown"
    is_utf8 = encoding.lower().replace("-", "") == "utf8"
    yield Finding("output", encoding, "" if is_utf8 else "set PYTHONIOENCODING=utf-8: α and € cannot be printed")
