"""The columns of a study's tables have one source, and the documents describe all of them."""

import re
from pathlib import Path

import pytest

from surefooted import studies
from surefooted.studies import columns, folder, realisation, report, spec, statistics
from surefooted.studies.building import build_problem

PAGE = (Path(__file__).parent.parent / "docs" / "studies.md").read_text(encoding="utf-8")
AGENTS = {"steps": {"ucrl2": {"kind": "UCRL2"}}, "episodes": {"ucbvi": {"kind": "UCBVI"}}}


def study_in(unit):
    problem = "riverswim" if unit == "steps" else "gridworld"
    return studies.parse({"name": "a", unit: 20, "problem": problem, "realisations": 2, "agents": AGENTS[unit]})


def described(heading):
    """The columns of a table of docs/studies.md, with their units."""
    lines = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [(name, unit) for names, unit, _ in cells for name in re.findall(r"`(\w+)`", names)]


@pytest.mark.parametrize(
    ("heading", "table"), [("column of a run", columns.RUNS), ("column of a curve", columns.CURVE)]
)
def test_the_documents_describe_every_column_in_order_with_its_unit(heading, table):
    assert described(heading) == [(c.name, "length" if c.unit == columns.LENGTH else c.unit) for c in table]


def test_the_files_of_a_study_keep_their_layout():
    assert (
        folder.RUNS.names
        == (
            "agent label alpha setting realisation seed steps episodes baseline_steps distinct_policies regret "
            "pseudo_regret violations_initial violations_total min_margin first_violation seconds"
        ).split()
    )
    assert [str(kind) for kind in folder.RUNS.types] == [
        *("string", "string", "double", "int64", "int64", "string", "int64", "int64", "int64", "int64", "double"),
        *("double", "double", "int64", "double", "int64", "double"),
    ]
    assert (
        folder.CURVES.names
        == (
            "setting agent alpha label realisation step regret pseudo_regret margin margin_min budget baseline_steps"
        ).split()
    )


@pytest.mark.parametrize("unit", ["steps", "episodes"])
def test_a_run_computes_every_column(unit):
    study = study_in(unit)
    row, curve = realisation.run(study, spec.Task(0, 0), build_problem(study.problem))
    assert list(row) == [column.name for column in columns.RUNS]
    assert list(curve) == [column.name for column in columns.CURVE]
    for column in columns.RUNS:
        assert isinstance(row[column.name], column.kind) or (column.may_be_null and row[column.name] is None)


def test_claims_can_be_about_every_number_of_a_run_that_always_exists():
    assert columns.NUMBERS == (
        *("steps", "episodes", "baseline_steps", "distinct_policies", "regret", "pseudo_regret"),
        *("violations_initial", "violations_total", "min_margin", "seconds"),
    )


@pytest.mark.parametrize("unit", ["steps", "episodes"])
def test_tables_say_whether_they_count_steps_or_episodes(unit):
    page = report._results([], unit)
    assert f"<th>baseline {unit}</th>" in page and "{" not in page


def test_a_cell_shows_the_half_width_if_it_is_known_and_wanted():
    regret, seconds = (next(s for s in columns.SUMMARIES if s.key == key) for key in ("regret", "seconds"))
    row = {"regret": 12345.6, "regret_half": 1000.0, "seconds": 1.0, "seconds_half": 0.5}
    assert statistics.cell(regret, row, thousands="") == "12346 ± 1000"
    assert statistics.cell(regret, row, thousands="_", space="") == "12_346±1_000"
    assert statistics.cell(regret, row | {"regret_half": float("nan")}, thousands="") == "12346"
    assert statistics.cell(seconds, row, thousands="") == "1.00"
