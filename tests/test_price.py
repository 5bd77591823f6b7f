"""The price of safety: suites of studies, and their table and figure, recomputed from the runs."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import t as student

from study_help import without_processes
from surefooted import solve, studies
from surefooted.cli import main
from surefooted.errors import InvalidInput, UnreadableFile
from surefooted.problems import forest
from surefooted.studies import building
from surefooted.studies.price import details, markdown, prices, summary
from surefooted.studies.price_figure import draw_price
from surefooted.studies.suite import read_suite
from surefooted.studies.suites import NAMES

SMALL = """
name = "small"
title = "Small"
realisations = 3
seed = 1
alpha = [0.2]
scale = 0.5

[[problems]]
name = "forest"
n_ages = 4
steps = 800

[[problems]]
name = "deep_sea"
label = "sea, 3 rows"
size = 3
episodes = 120

[agents.steps.ucrl2]
kind = "UCRL2"

[agents.steps.replay]
kind = "CUCRL2"
label = "safe"

[agents.steps.decisions]
kind = "CUCRL2"
condition = "decisions"

[agents.episodes.ucbvi]
kind = "UCBVI"

[agents.episodes.replay]
kind = "CUCBVI"

[compare.steps]
replay = "ucrl2"
decisions = "ucrl2"

[compare.episodes]
replay = "ucbvi"
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The suite, and its finished studies."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "small.toml").write_text(SMALL)
    suite = read_suite(folder / "small.toml")
    with without_processes():
        return suite, [studies.run_study(study, folder / study.name, quiet=True) for study in suite.studies]


def rows_of(small):
    suite, finished = small
    every = zip(finished, suite.problems, suite.compare, strict=True)
    return [row for results, called, compare in every for row in prices(results, called, compare)]


def test_a_suite_is_a_study_for_each_problem(small):
    suite, _ = small
    assert suite.problems == ("forest", "sea, 3 rows")
    assert [study.name for study in suite.studies] == ["small-forest", "small-sea-3-rows"]
    assert [(study.steps, study.episodes) for study in suite.studies] == [(400, None), (None, 60)]
    assert [list(study.agents) for study in suite.studies] == [["ucrl2", "replay", "decisions"], ["ucbvi", "replay"]]
    built = [building.build_problem(study.problem) for study in suite.studies]
    assert [problem.space.n_states for problem in built] == [4, 6]


def test_prices_are_what_the_runs_say(small):
    _, finished = small
    rows = rows_of(small)
    labels = [(row.problem, row.agent, row.learner, row.condition) for row in rows]
    assert labels == [
        ("forest", "UCRL2", "UCRL2", None),
        ("forest", "safe", "UCRL2", "replay"),
        ("forest", "CUCRL2", "UCRL2", "decisions"),
        ("sea, 3 rows", "UCBVI", "UCBVI", None),
        ("sea, 3 rows", "CUCBVI", "UCBVI", "replay"),
    ]
    wood = forest(4)
    each = {
        "forest": solve.gain_and_bias(wood.mdp, wood.baseline).gain,
        "sea, 3 rows": 0.9**3 - 0.01 * 0.9 + 0.01,  # what the baseline earns in an episode, with rewards from 0 on
    }
    found = {}
    for results, (called, earned) in zip(finished, each.items(), strict=True):
        for name in results.study.agents:
            runs = [run for run in results.runs.to_pylist() if run["agent"] == name]
            found[called, name] = (runs, earned)
    keys = [("forest", "ucrl2"), ("forest", "replay"), ("forest", "decisions")]
    keys += [("sea, 3 rows", "ucbvi"), ("sea, 3 rows", "replay")]
    for row, key in zip(rows, keys, strict=True):
        runs, earned = found[key]
        free, _ = found[row.problem, "ucrl2" if row.unit == "steps" else "ucbvi"]
        column = "decisions_regret" if row.unit == "steps" else "pseudo_regret"
        margin = "decisions_min_margin" if row.condition == "decisions" else "min_margin"
        own, other = ([run[column] for run in several] for several in (runs, free))
        assert row.regret == pytest.approx(np.mean(own)) and row.runs == 3
        assert row.baseline == pytest.approx(np.mean([run["baseline_steps"] for run in runs]))
        assert row.relative == pytest.approx(np.mean(own) / np.mean(other))
        depths = [max(-run[margin], 0) for run in free]
        assert row.floor == pytest.approx(np.mean(depths) / (0.2 * earned))
        for condition, prefix in (("replay", ""), ("decisions", "decisions_")):
            assert row.violated[condition] == sum(run[f"{prefix}violations_total"] > 0 for run in runs)
            worst = min(run[f"{prefix}min_margin"] for run in runs)
            assert row.shortfall[condition] == pytest.approx(max(-worst, 0) / earned)
        if not row.is_free:
            errors = [np.std(x, ddof=1) / np.sqrt(3) / np.mean(x) for x in (own, other)]
            half = row.relative * student.ppf(0.975, 2) * np.hypot(*errors)
            assert row.relative_half == pytest.approx(half)
            assert row.violated[row.condition] == 0 and row.shortfall[row.condition] == 0
    assert any(row.shortfall["replay"] > 0 for row in rows if row.is_free), "there is nothing to see"


def test_tables_have_a_line_per_agent_and_a_line_per_problem_and_agent(small):
    rows = rows_of(small)
    short, long = summary(rows), details(rows)
    assert [line[0] for line in short[1:]] == ["UCRL2", "safe", "CUCRL2", "UCBVI", "CUCBVI"]
    assert len(long) == 1 + len(rows) and {len(line) for line in [*short, *long]} == {8, 9}
    safe = short[2]
    assert safe[1] == "replay" and safe[6] == "0 of 3" and safe[4] == f"{rows[1].relative:.2f}"
    text = markdown(short).splitlines()
    assert text[0].startswith("| agent | keeps |") and text[1] == "|" + "---|" * 8 and len(text) == len(short) + 1


def test_the_figure_is_the_same_each_time(small, tmp_path):
    first = draw_price(rows_of(small), "Small", tmp_path / "a", ("png", "svg"))
    again = draw_price(rows_of(small), "Small", tmp_path / "b", ("png", "svg"))
    assert [path.name for path in first] == ["a.png", "a.svg"]
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert "CUCBVI" in first[1].read_text() and "not conservative" in first[1].read_text()


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("scale = 0.5", "scale = 0", "scale 0 must be a positive number"),
        ("scale = 0.5", "sale = 0.5", "Did you mean 'scale'?"),
        ("steps = 800", "", "problems.0: give `name`, and either `steps` or `episodes`"),
        ("steps = 800", "steps = 'many'", "problems.0.steps: must be a whole number"),
        ('label = "sea, 3 rows"', 'label = "forest"', "two problems are called 'forest'"),
        ('replay = "ucbvi"', 'replay = "ucb"', "compare.episodes.replay"),
        ("[agents.steps.ucrl2]", "[agents.hours.ucrl2]", "agents.hours: agents are in agents.steps or agents.episodes"),
        ("alpha = [0.2]", "alpha = [2]", "alpha.0"),
    ],
)
def test_a_faulty_suite_is_refused(tmp_path, old, new, fault):
    assert old in SMALL
    (tmp_path / "small.toml").write_text(SMALL.replace(old, new, 1))
    with pytest.raises(InvalidInput) as caught:
        read_suite(tmp_path / "small.toml")
    assert fault in str(caught.value)


def test_a_suite_that_is_no_file_names_the_suites():
    with pytest.raises(UnreadableFile, match="one of price"):
        read_suite("prices")


@pytest.mark.parametrize("name", NAMES)
def test_the_suites_of_the_package_can_be_built_and_compare_every_conservative_agent(name):
    suite = read_suite(name, ["scale=0.01", "realisations=1"])
    assert len(suite.studies) >= 10
    for study, compare in zip(suite.studies, suite.compare, strict=True):
        problem = building.check(study)
        safe = [key for key, agent in study.agents.items() if agent.kind in ("CUCRL2", "CUCBVI")]
        assert problem is not None and set(safe) == set(compare) and not set(safe) & set(compare.values())


@pytest.mark.slow
def test_the_price_is_reproduced_by_one_command(tmp_path):
    sizes = ["--set", "scale=0.004", "--realisations", "1", "--jobs", "1", "--quiet"]
    done = CliRunner().invoke(main, ["reproduce", "price", *sizes, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == 1 + 12 and done.stdout.startswith("agent")
    assert {"price.md", "price.png", "price.pdf"} <= {path.name for path in tmp_path.iterdir()}
    again = CliRunner().invoke(main, ["reproduce", "price", *sizes, "--out", str(tmp_path), "--json"])
    rows = json.loads(again.stdout)["rows"]
    assert len(rows) == 66 and {row["runs"] for row in rows} == {1}
    safe = [row for row in rows if row["condition"] is not None]
    assert all(row["violated"][row["condition"]] == 0 for row in safe)
