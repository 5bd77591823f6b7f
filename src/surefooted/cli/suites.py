"""Suites on the command line: their studies one after the other, then one table and one figure of all of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surefooted.cli.output import print_json, print_table

if TYPE_CHECKING:
    from surefooted.cli.studies import RunOptions


def reproduce_suite(name: str, options: "RunOptions") -> None:
    """Run the studies of a suite that comes with the package; print, draw and write what safety costs."""
    from dataclasses import asdict

    from surefooted.cli.studies import run_one
    from surefooted.studies.price import details, markdown, prices, summary
    from surefooted.studies.price_figure import draw_price
    from surefooted.studies.suite import read_suite
    from surefooted.tables.files import write

    overrides = options.overrides
    if options.realisations is not None:
        overrides = (*overrides, f"realisations={options.realisations}")
    suite = read_suite(name, overrides)
    out, rows = options.out or Path("results") / suite.name, []
    for study, called, compare in zip(suite.studies, suite.problems, suite.compare, strict=True):
        results = run_one(study, f"{name}: {called}", options, out / study.name)
        rows += prices(results, called, compare) if results is not None and options.shard is None else []
    if not rows:
        return
    if options.as_json:
        print_json({"suite": suite.name, "directory": str(out), "rows": [_plain(asdict(row)) for row in rows]})
    else:
        print_table(summary(rows), right=set(range(2, 8)))
    words = f"# {suite.title}\n\n{suite.about}\n\n{markdown(summary(rows))}\n{markdown(details(rows))}"
    write(out / "price.md", words.encode())
    drawn = draw_price(rows, suite.title, out / "price")
    if not options.quiet:
        click.echo(f"{out / 'price.md'} has all problems; the figure is {drawn[0]}", err=True)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row for JSON: no NaN."""
    return {key: None if value != value else value for key, value in row.items()}
