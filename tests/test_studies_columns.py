"""The columns of a study's tables have one source, and the documents describe all of them."""

import json
import re
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import surefooted as sf
from study_help import without_processes
from surefooted import studies
from surefooted.cli import studies as cli_studies
from surefooted.studies import columns, figures, parts, realisation, report, spec, statistics
from surefooted.studies.building import build_agent, build_problem

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
        parts.RUNS.names
        == (
            "problem agent label alpha setting realisation seed steps episodes baseline_steps distinct_policies regret "
            "pseudo_regret decisions_regret condition violations_initial violations_total min_margin first_violation "
            "decisions_violations_initial decisions_violations_total decisions_min_margin decisions_first_violation "
            "each_violations_initial each_violations_total each_min_margin each_first_violation "
            "seconds version"
        ).split()
    )
    assert [str(kind) for kind in parts.RUNS.types] == [
        *(
            "string",
            "string",
            "string",
            "double",
            "int64",
            "int64",
            "string",
            "int64",
            "int64",
            "int64",
            "int64",
            "double",
        ),
        *("double", "double", "string", "double", "int64", "double", "int64", "double", "int64", "double", "int64"),
        *("double", "int64", "double", "int64", "double", "string"),
    ]
    assert (
        parts.CURVES.names
        == (
            "setting problem agent alpha label realisation step regret pseudo_regret decisions_regret margin "
            "margin_min decisions_margin decisions_margin_min each_margin each_margin_min budget baseline_steps"
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


DECISIONS = """
name = "two"
steps = 400
problem = "riverswim"
realisations = 2
alpha = [0.4]
[agents.ucrl2]
kind = "UCRL2"
[agents.replay]
kind = "CUCRL2"
label = "by replay"
[agents.decisions]
kind = "CUCRL2"
label = "by decisions"
condition = "decisions"
[record]
points = 20
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    with without_processes():
        return studies.run_study(studies.parse(tomllib.loads(DECISIONS)), tmp_path_factory.mktemp("two") / "out")


def test_a_run_is_judged_by_both_conditions(both):
    study, problem = both.study, build_problem(both.study.problem)
    for setting in study.settings:
        world, own = spec.seeds(study, spec.Task(setting.index, 1))
        played = sf.simulate(problem, build_agent(study, setting, problem, own), 400, world)
        found, row = sf.evaluate(played, problem, 0.4), both.runs.filter(pc.field("setting") == setting.index).slice(1)
        for prefix, margin in (("", found), ("decisions_", found.decisions)):
            assert row[f"{prefix}violations_total"].to_pylist() == [margin.violations]
            assert row[f"{prefix}violations_initial"].to_pylist() == [margin.violation_fraction(1, 40)]
            assert row[f"{prefix}first_violation"].to_pylist() == [margin.first_violation]
            assert row[f"{prefix}min_margin"].to_pylist() == [margin.margin.min()]
            steps, curves = both.curve(setting, f"{prefix}margin")
            assert curves[1].tolist() == margin.margin[steps - 1].tolist()
            least = both.curve(setting, f"{prefix}margin_min")[1][1]
            assert least.tolist() == margin.margin.reshape(20, 20).min(axis=1).tolist()
        assert row["decisions_regret"].to_pylist() == [found.decision_regret[-1]]
    assert [both.condition(setting) for setting in study.settings] == [None, "replay", "decisions"]


EACH = """
name = "each"
episodes = 60
realisations = 1
alpha = [0.3]
seed = 3
[problem]
name = "gridworld"
noise = {kind = "bernoulli"}
[agents.ucbvi]
kind = "UCBVI"
[agents.step]
kind = "StepMix"
[agents.eps]
kind = "EpsMix"
baseline = "unknown"
[record]
points = 6
"""


@without_processes()
def test_episodes_are_judged_one_by_one(tmp_path):
    results = studies.run_study(studies.parse(tomllib.loads(EACH)), tmp_path / "out", jobs=1)
    study, problem = results.study, build_problem(results.study.problem)
    for setting in study.settings:
        world, own = spec.seeds(study, spec.Task(setting.index, 0))
        played = sf.simulate(problem, build_agent(study, setting, problem, own), episodes=60, seed=world)
        found = sf.evaluate(played, problem, setting.alpha).each
        assert results.column(setting, "each_violations_total").tolist() == [found.violations]
        assert results.column(setting, "each_min_margin").tolist() == [found.margin.min()]
        assert results.curve(setting, "each_margin")[1][0].tolist() == found.margin[9::10].tolist()
        least = results.curve(setting, "each_margin_min")[1][0]
        assert least.tolist() == found.margin.reshape(6, 10).min(axis=1).tolist()
    assert [results.condition(setting) for setting in study.settings] == [None, "each episode", "each episode"]
    assert results.column(study.settings[0], "each_violations_total")[0] > 0
    axis, _, curves = drawn(results)
    assert (
        "each episode" in axis and curves[1].tolist() == results.curve(study.settings[1], "each_margin")[1][0].tolist()
    )
    assert "judged by the condition that it keeps" in report._verdict(statistics.table(results))


def drawn(results):
    """The labels of the axes and of the curves of the margin, and the curves."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    figures.margin(ax, results)
    plt.close(figure)
    return ax.get_ylabel(), ax.get_legend_handles_labels()[1], [line.get_ydata() for line in ax.lines[:-1:2]]


@pytest.mark.slow
@without_processes()
def test_episodes_are_judged_by_both_conditions(tmp_path):
    """The columns hold the exact margins, and a baseline episode is one without any step of a proposal."""
    overrides = ["episodes=700", "realisations=1", "record.points=30"]
    study = studies.read("decisions-gridworld-slip", overrides)
    results, problem = studies.run_study(study, tmp_path / "grid", jobs=1), build_problem(study.problem)
    for setting in study.settings:
        world, own = spec.seeds(study, spec.Task(setting.index, 0))
        run = sf.simulate(problem, build_agent(study, setting, problem, own), episodes=700, seed=world)
        found = sf.evaluate(run, problem, setting.alpha)
        assert results.column(setting, "baseline_steps").tolist() == [run.baseline_episodes]
        assert results.column(setting, "decisions_min_margin").tolist() == [found.decisions.margin.min()]
        assert results.column(setting, "min_margin").tolist() == [found.margin.min()]
    by_steps = results.column(study.settings[-1], "baseline_steps")[0]
    assert 0 < by_steps < results.column(study.settings[1], "baseline_steps")[0]


@pytest.mark.slow
@without_processes()
def test_amounts_are_named_in_the_unit_of_the_problem(tmp_path, capsys):
    """In figures, in the report and on the terminal, and only amounts."""
    told = {"name": "inventory", "unit": "€", "noise": {"kind": "uniform", "scale": 0.1}}
    agents = {"ucrl2": {"kind": "UCRL2"}, "cucrl2": {"kind": "CUCRL2", "alpha": 0.2}}
    raw = {"name": "money", "steps": 300, "problem": told, "realisations": 2, "agents": agents}
    results = studies.run_study(studies.parse(raw), tmp_path / "money", jobs=1)
    loaded = studies.load(tmp_path / "money")
    assert (results.truth.money, loaded.truth.money) == ("€", "€")
    page = Path(report.make_report(loaded)).read_text(encoding="utf-8")
    assert "regret (€)" in page and "smallest margin (€)" in page and "baseline steps (€)" not in page
    label, _, _ = drawn(loaded)
    assert label.endswith("(€)")
    cli_studies._print_settings(statistics.table(loaded), [loaded])
    head = capsys.readouterr().out.splitlines()[0]
    assert "regret (€)" in head and "s/run (€)" not in head


def only(results, *agents):
    """The same results without other agents."""
    runs = results.runs.filter(pc.field("agent").isin(agents))
    return replace(results, runs=runs)


def test_figures_show_the_margin_of_the_condition_kept_and_name_it(both):
    label, legend, curves = drawn(both)
    assert legend == ["UCRL2 [replay]", "by replay [replay]", "by decisions [decisions]"]
    assert label == "margin (thin: smallest)"
    wanted = zip(both.settings, ("margin", "margin", "decisions_margin"), strict=True)
    assert [y.tolist() for y in curves] == [both.curve(s, name)[1].mean(axis=0).tolist() for s, name in wanted]
    label, legend, curves = drawn(only(both, "ucrl2", "decisions"))  # UCRL2 by what the others keep
    assert (label, legend) == ("margin, decisions (thin: smallest)", ["UCRL2", "by decisions"])
    assert curves[0].tolist() == both.curve(both.settings[0], "decisions_margin")[1].mean(axis=0).tolist()
    assert drawn(only(both, "ucrl2", "replay"))[:2] == ("margin, replay (thin: smallest)", ["UCRL2", "by replay"])


def test_reports_judge_each_agent_by_the_condition_that_it_keeps():
    row = {"setting": "a", "realisations": 3, "condition": "decisions", "runs_violated": 3}
    assert "never violated" in report._verdict([row | {"decisions_runs_violated": 0}])
    assert "violated by a in 1 of 3 runs" in report._verdict([row | {"decisions_runs_violated": 1}])
    assert "violated by a in 3 of 3 runs" in report._verdict([row | {"condition": "replay"}])


def test_tables_leave_out_what_no_setting_has(both):
    about_episodes = {s for s in columns.SUMMARIES if s.name.startswith("each_")}
    assert statistics.shown(statistics.table(both)) == [s for s in columns.SUMMARIES if s not in about_episodes]
    row = dict.fromkeys((summary.key for summary in columns.SUMMARIES), 1.0) | {"condition": None}
    left = [s.key for s in statistics.shown([row | {"decisions_min_margin": float("nan")}])]
    assert left == [s.key for s in columns.SUMMARIES if s.key not in ("condition", "decisions_min_margin")]
    least = next(s for s in columns.SUMMARIES if s.key == "decisions_min_margin")
    assert statistics.cell(least, {"decisions_min_margin": float("nan")}, thousands="") == "–"


@pytest.mark.slow
def test_a_directory_of_a_version_without_these_columns_can_be_read(both, tmp_path):
    shutil.copytree(both.path, old := tmp_path / "old")
    later = {c.name for c in (*columns.RUNS, *columns.CURVE) if c.name.startswith("decisions_")} | {"condition"}

    def stripped(table):
        return table.drop_columns([name for name in later if name in table.column_names])

    for part in (old / "parts").glob("*.parquet"):
        held = pq.read_table(part)
        content = json.loads(held.schema.metadata[b"surefooted"])
        content["row"] = {name: value for name, value in content["row"].items() if name not in later}
        del content["digest"]  # those versions wrote none
        pq.write_table(stripped(held).replace_schema_metadata({"surefooted": json.dumps(content)}), part)
    for made_again in (False, True):
        for name in ("curves", "runs"):
            if made_again:
                (old / f"{name}.parquet").unlink()
            else:
                held = stripped(pq.read_table(old / f"{name}.parquet")).replace_schema_metadata(None)
                pq.write_table(held, old / f"{name}.parquet")
        found = studies.load(old)
        assert found.runs.schema.names == both.runs.schema.names and found.runs.num_rows == 6
        assert found.runs.select(["regret", "min_margin"]) == both.runs.select(["regret", "min_margin"])
        assert found.runs["decisions_min_margin"].null_count == found.runs["condition"].null_count == 6
        assert len(figures.make_figures(found, tmp_path / "figures", ("svg",))) == 7
        assert figures.regret_column([found]) == figures.regret_column([both, found]) == "pseudo_regret"
        assert "on decisions" not in report._results(statistics.table(found), found)


@pytest.mark.slow
@without_processes()
def test_the_regret_of_decisions_is_shown_if_an_agent_decides_step_by_step(both, tmp_path):
    replay = studies.parse(tomllib.loads(DECISIONS.replace('condition = "decisions"', 'condition = "replay"')))
    others = studies.run_study(replay, tmp_path / "out", jobs=1)
    assert figures.regret_column([both]) == figures.regret_column([others, both]) == "decisions_regret"
    assert figures.regret_column([others]) == "pseudo_regret"


def test_claims_can_be_about_every_number_of_a_run_that_always_exists():
    assert columns.NUMBERS == (
        *("steps", "episodes", "baseline_steps", "distinct_policies", "regret", "pseudo_regret"),
        *("violations_initial", "violations_total", "min_margin", "seconds"),
    )


@pytest.mark.parametrize("unit", ["steps", "episodes"])
def test_tables_say_whether_they_count_steps_or_episodes(unit):
    results = SimpleNamespace(study=SimpleNamespace(unit=unit), in_unit=lambda words: words)
    page = report._results([], results)  # no row lacks anything, so all columns are there
    assert f"<th>baseline {unit}</th>" in page and "{" not in page


def test_a_cell_shows_the_half_width_if_it_is_known_and_wanted():
    regret, seconds = (next(s for s in columns.SUMMARIES if s.key == key) for key in ("regret", "seconds"))
    row = {"regret": 12345.6, "regret_half": 1000.0, "seconds": 1.0, "seconds_half": 0.5}
    assert statistics.cell(regret, row, thousands="") == "12346 ± 1000"
    assert statistics.cell(regret, row, thousands="_", space="") == "12_346±1_000"
    assert statistics.cell(regret, row | {"regret_half": float("nan")}, thousands="") == "12346"
    assert statistics.cell(seconds, row, thousands="") == "1.00"
