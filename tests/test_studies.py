"""Studies: words to runs, the directory, resuming, the command line."""

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import surefooted as sf
from study_help import without_processes
from surefooted import studies
from surefooted.cli import main
from surefooted.errors import InvalidInput, MissingExtra, SurefootedError, UnreadableFile
from surefooted.problems import ALL
from surefooted.studies import attempts, building, engines, figures, parts, reading, realisation, report, running, spec
from surefooted.studies.paper import NAMES
from surefooted.studies.statistics import interval, table

SMALL = """
name = "small"
steps = 400
realisations = 3
seed = 7
problem = "riverswim"

[agents.ucrl2]
kind = "UCRL2"

[agents.cucrl2]
kind = "CUCRL2"
alpha = [0.1, 0.4]

[record]
points = 20
"""
GRID = """
name = "grid"
episodes = 60
realisations = 2
[problem]
name = "gridworld"
slip = 0.1
noise = { kind = "bernoulli" }
[agents.ucbvi]
kind = "UCBVI"
[agents.careful]
kind = "CUCBVI"
learner = { kind = "EULER", delta = 0.1 }
baseline = "unknown"
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A finished study."""
    folder = tmp_path_factory.mktemp("small")
    file = folder / "small.toml"
    file.write_text(SMALL)
    with without_processes():
        return studies.run_study(studies.read(file), folder / "out", jobs=1)


def study_of(text, *overrides):
    import tomllib

    raw = tomllib.loads(text)
    for override in overrides:
        reading._override(raw, override)
    return studies.parse(raw)


# -- words ------------------------------------------------------------------------------------------------------------


def test_every_fault_of_a_study_is_named_at_once_with_its_path():
    text = SMALL.replace("realisations = 3", "realisations = 0").replace("[0.1, 0.4]", "[0.1, 1.5]")
    text = text.replace("points = 20", "points = 20\ncolour = 1").replace('kind = "UCRL2"', "")
    with pytest.raises(InvalidInput) as caught:
        study_of(text)
    faults = "\n".join(caught.value.faults)
    for path in ("realisations:", "agents.cucrl2.alpha.1:", "record.colour:", "agents.ucrl2.kind:"):
        assert path in faults


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("steps=0", "steps"),
        ("episodes=5", "either `steps`"),
        ("record.initial=500", "longer than the run"),
        ("agents.ucrl2.kind=UCRL3", "UCRL3"),
        ("agents.cucrl2.certificate=gut", "gut"),
        ("agents.cucrl2.confidence=blind", "blind"),
        ("agents.ucrl2.wings=2", "wings"),
        (
            'problem={name="inventory", noise={kind="gaussian", scale=0.1}}',
            r"agents.ucrl2: .* build .* with bounded=False",
        ),
        ("problem=rivers", "rivers"),
        ("problem=nowhere:at_all", "cannot import"),
        ("problem=gridworld", "played in episodes"),
        ("name='a b'", "name"),
        ("seed=-1", "seed"),
        ("steps", "KEY=VALUE"),
        ("steps.of=3", "not a table"),
    ],
)
def test_what_is_wrong_is_said(override, words):
    with pytest.raises(SurefootedError, match=words):
        building.check(study_of(SMALL, override), allow_code=True)


def test_a_resolved_study_is_the_same_study():
    for text in (SMALL, GRID):
        study = study_of(text)
        import tomllib

        again = studies.parse(tomllib.loads(study.to_toml()))
        assert again == study and again.identity == study.identity
    more = study_of(SMALL, "realisations=9", "title=other")
    assert more.identity == study_of(SMALL).identity
    for override in (
        "seed=8",
        "steps=401",
        "agents.cucrl2.alpha=[0.1]",
        "problem.noise={kind='none'}",
        "record.points=21",
    ):
        assert study_of(SMALL, override).identity != study_of(SMALL).identity


def test_the_papers_studies_can_be_built_and_say_what_the_paper_prints():
    for name in NAMES:
        study = studies.read(name)
        (problem,) = building.check(study).values()
        played = [word for word in name.split("-") if word in ALL] or ["inventory"]
        assert study.name == name and problem.name == played[-1]
    assert len(NAMES) == 14
    assert [claim.value for claim in studies.read("gridworld").claims] == [0.83]
    assert [claim.value for claim in studies.read("maintenance").claims] == [0.53]
    inventory = studies.read("inventory")
    assert (inventory.steps, inventory.realisations, inventory.initial) == (70_000, 100, 15_000)


def test_labels_tell_settings_apart():
    study = study_of(SMALL, "agents.other.kind=CUCRL2", "agents.other.alpha=0.2")
    labels = [setting.label for setting in study.settings]
    assert labels == ["UCRL2", "CUCRL2 (cucrl2), α = 0.1", "CUCRL2 (cucrl2), α = 0.4", "CUCRL2 (other)"]


def test_shards_are_everything_once():
    study = study_of(SMALL)
    parts = [spec.tasks(study, (i, 4)) for i in range(1, 5)]
    assert sorted([task for part in parts for task in part], key=lambda t: t.name) == sorted(
        spec.tasks(study), key=lambda t: t.name
    )


def test_seeds_are_those_of_the_manifest_and_all_different():
    study = study_of(SMALL)
    states = {tuple(s.generate_state(2)) for task in spec.tasks(study) for s in spec.seeds(study, task)}
    assert len(states) == 2 * len(spec.tasks(study))
    world, agent = np.random.SeedSequence(7, spawn_key=(1, 2)).spawn(2)
    ours = spec.seeds(study, spec.Task(1, 2))
    assert [s.generate_state(4).tolist() for s in ours] == [s.generate_state(4).tolist() for s in (world, agent)]


# -- one realisation --------------------------------------------------------------------------------------------------


def test_a_row_and_a_curve_are_what_the_run_was():
    study = study_of(SMALL)
    problem = sf.problems.riverswim()
    task = spec.Task(2, 1)  # alpha 0.4
    row, curve = realisation.run(study, task, problem)
    world, own = spec.seeds(study, task)
    known = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    baseline = sf.Baseline(problem.baseline, known.gain, known.bias)
    agent = sf.CUCRL2(problem.space, baseline=baseline, alpha=0.4, seed=np.random.default_rng(own))
    run = sf.simulate(problem, agent, 400, world)
    result = sf.evaluate(run, problem, 0.4)
    assert row["regret"] == result.realised_regret[-1] and row["pseudo_regret"] == result.expected_regret[-1]
    assert row["baseline_steps"] == run.baseline_steps and row["min_margin"] == result.margin.min()
    assert (row["steps"], row["episodes"], row["distinct_policies"]) == (400, len(run.decisions), len(run.policies))
    assert row["violations_initial"] == result.violation_fraction(1, 40) and row["alpha"] == 0.4
    assert curve["step"].tolist() == list(range(20, 401, 20))
    for i, end in enumerate(curve["step"]):
        part = slice(end - 20, end)
        assert curve["margin_min"][i] == result.margin[part].min() and curve["margin"][i] == result.margin[end - 1]
        assert curve["regret"][i] == result.realised_regret[end - 1]
        before = [d for d in run.decisions if d.t < end]
        assert curve["budget"][i] == before[-1].budget
        assert curve["baseline_steps"][i] == sum(
            min(s.first + s.length, end) - s.first for s in run.segments if s.role == "baseline" and s.first < end
        )


def test_no_violation_disappears_between_two_points():
    study = study_of(SMALL, "record.points=2", "steps=3000", "alpha=0.001", "problem.noise={kind='bernoulli'}")
    seen = 0
    for k in range(5):
        row, curve = realisation.run(study, spec.Task(0, k), building.build_problem(study.problem))
        seen += row["violations_total"] > 0
        assert (curve["margin_min"].min() < 0) == (row["violations_total"] > 0)
        assert curve["margin_min"].min() == row["min_margin"]
    assert seen


def test_episodes_are_counted_as_such():
    study = study_of(GRID)
    row, curve = realisation.run(study, spec.Task(1, 0), building.build_problem(study.problem))
    assert (row["steps"], row["episodes"], curve["step"][-1]) == (600, 60, 60)
    assert row["baseline_steps"] == curve["baseline_steps"][-1] <= 60
    assert isinstance(
        building.build_agent(
            study, study.settings[1], building.build_problem(study.problem), np.random.SeedSequence(0)
        ).learner,
        sf.agents.EULERLearner,
    )


# -- the directory ----------------------------------------------------------------------------------------------------


def test_the_tables_of_a_study(small):
    assert small.runs.num_rows == 9 and small.curves.num_rows == 9 * 20
    assert small.runs.column_names == parts.RUNS.names
    assert [s.label for s in small.settings] == ["UCRL2", "CUCRL2, α = 0.1", "CUCRL2, α = 0.4"]
    steps, curves = small.curve(small.settings[1], "regret")
    assert steps.shape == (20,) and curves.shape == (3, 20)
    assert np.array_equal(curves[:, -1], small.column(small.settings[1], "regret"))
    about = json.loads((small.path / "manifest.json").read_text())
    assert about["identity"] == small.study.identity and about["versions"]["surefooted"] == sf.__version__


@without_processes()
def test_resuming_runs_what_is_missing_and_changes_nothing_else(small, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(small.path, out)
    parts = sorted((out / "parts").iterdir())
    before = {part.name: part.stat().st_mtime_ns for part in parts}
    parts[0].write_bytes(parts[0].read_bytes()[:-50])  # truncated
    shutil.copy(parts[2], parts[1])  # of another run
    parts[3].unlink()
    again = studies.run_study(small.study, out, jobs=1)
    assert same_runs(again, small)
    after = {part.name: part.stat().st_mtime_ns for part in (out / "parts").iterdir()}
    assert [name for name in before if before[name] != after[name]] == [part.name for part in parts[:2]] + [
        parts[3].name
    ]


@without_processes()
def test_more_realisations_are_added_and_the_old_ones_stay(small, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(small.path, out)
    more = studies.run_study(study_of(SMALL, "realisations=4"), out, jobs=1)
    assert more.runs.num_rows == 12
    old = more.runs.filter(np.asarray(more.runs["realisation"]) < 3)
    assert old.drop_columns("seconds").equals(small.runs.drop_columns("seconds"))
    fewer = studies.run_study(small.study, out, jobs=1)
    assert fewer.runs.num_rows == 12


def test_another_study_in_the_directory_is_an_error_that_says_where_they_differ(small):
    with pytest.raises(InvalidInput, match="holds another study") as caught:
        studies.run_study(study_of(SMALL, "seed=8"), small.path)
    assert any(fault.startswith("seed:") for fault in caught.value.faults)
    with pytest.raises(InvalidInput, match="already"):
        studies.run_study(small.study, small.path, resume=False)


def test_a_directory_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InvalidInput, match="other files"):
        studies.run_study(study_of(SMALL), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(UnreadableFile, match="no study"):
        studies.load(tmp_path)


def test_a_damaged_table_is_made_anew_and_a_damaged_study_named(small, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(small.path, out)
    (out / "curves.parquet").write_bytes(b"PAR1 nonsense")
    os.utime(out / "runs.parquet")
    assert studies.load(out).curves.num_rows == 180  # made anew from the parts
    (out / "study.toml").write_text("name = ")
    with pytest.raises(UnreadableFile, match="not TOML"):
        studies.load(out)


# -- engines ----------------------------------------------------------------------------------------------------------


def same_runs(a, b):
    tables = [(x.runs.drop_columns("seconds"), x.curves) for x in (a, b)]
    return all(x.to_pydict().keys() == y.to_pydict().keys() and same(x, y) for x, y in zip(*tables, strict=True))


def same(x, y):
    """Equal to the last digit; an agent without a budget has none in both."""
    return all(repr(x[name].to_pylist()) == repr(y[name].to_pylist()) for name in x.column_names)


@pytest.mark.slow
def test_two_processes_give_the_same_files_as_one(small, tmp_path):
    assert same_runs(studies.run_study(small.study, tmp_path / "out", jobs=2), small)


@pytest.mark.slow
def test_shards_run_one_by_one_give_the_same_files(small, tmp_path):
    for i in (2, 1, 3):
        found = studies.run_study(small.study, tmp_path / "out", jobs=1, shard=(i, 3))
    assert same_runs(found, small)


class Fragile:
    """An agent whose first attempt in a folder kills its own process, as an operator would with kill -9."""

    def __new__(cls, space, seed, folder, how="kill"):
        marker = Path(folder) / "killed"
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return sf.UCRL2(space, seed=seed)
        if how == "raise":
            raise RuntimeError("a bug in an agent")
        os.kill(os.getpid(), signal.SIGKILL)


def built(study, allow_code):
    """The problem, without a look at the agents."""
    return {"riverswim": building.build_problem(study.problem)}


def fragile_study(tmp_path, how="kill"):
    (tmp_path / "marks").mkdir()
    agent = f"agents.fragile={{kind='test_studies:Fragile', folder='{tmp_path / 'marks'}', how='{how}'}}"
    return study_of(SMALL, agent, "realisations=2")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["local", "dask", "ray"])
def test_a_killed_worker_costs_its_current_run_and_nothing_else(name, tmp_path, monkeypatch):
    if name != "local":
        pytest.importorskip("distributed" if name == "dask" else "ray")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    study = fragile_study(tmp_path)
    monkeypatch.setattr(running, "check", built)  # building the agent here could kill the tests
    found = studies.run_study(study, tmp_path / "out", jobs=2, engine_name=name, allow_code=True)
    assert found.runs.num_rows == 8 and (tmp_path / "marks" / "killed").exists()
    plain = study_of(SMALL, "agents.fragile={kind='UCRL2'}", "realisations=2")
    expected = studies.run_study(plain, tmp_path / "plain", jobs=1)
    names = [n for n in found.runs.column_names if n not in ("seconds", "label")]
    assert found.runs.select(names).equals(expected.runs.select(names))
    assert same(found.curves.drop_columns("label"), expected.curves.drop_columns("label"))


@without_processes()
def test_a_run_that_raises_is_reported_with_its_traceback_and_the_others_are_kept(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    monkeypatch.setattr(running, "check", built)  # building the agent here could kill the tests
    study = fragile_study(tmp_path, "raise")
    with pytest.raises(SurefootedError, match=r"(?s)1 runs failed.*a bug in an agent"):
        studies.run_study(study, tmp_path / "out", jobs=1, allow_code=True)
    (error,) = (tmp_path / "out" / "errors").iterdir()
    assert "Traceback" in error.read_text()
    assert studies.load(tmp_path / "out").runs.num_rows == 7
    assert studies.run_study(study, tmp_path / "out", jobs=1, allow_code=True).runs.num_rows == 8


@pytest.mark.slow
def test_a_worker_that_always_dies_is_given_up_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "_serve", dies)
    task = spec.Task(0, 0)
    ((who, outcome),) = engines.local(study_of(SMALL), [task], 1)
    assert who == task and isinstance(outcome, engines.Failure) and "died 4 times" in outcome.reason


def dies(pipe, study_json):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_missing_engine_is_named(monkeypatch, tmp_path):
    for name, module in (("dask", "distributed"), ("ray", "ray")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtra, match=rf"surefooted\[{name}\]"):
            studies.run_study(study_of(SMALL), tmp_path / name, engine_name=name)
    with pytest.raises(SurefootedError, match="no engine"):
        engines.engine("slurm")


def test_workers_use_one_thread_each():
    before = os.environ.get("NUMBA_NUM_THREADS")
    with engines.pinned_threads():
        assert all(os.environ[name] == "1" for name in attempts.THREADS)
    assert os.environ.get("NUMBA_NUM_THREADS") == before


# -- figures, report, command line ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_figures_are_the_same_byte_for_byte(small, tmp_path):
    first = figures.make_figures(small, tmp_path / "a")
    second = figures.make_figures(small, tmp_path / "b")
    assert [p.name for p in first] == [p.name for p in second] and len(first) == 14
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes(), a.name
    with pytest.raises(InvalidInput, match="there are png, pdf, svg"):
        figures.make_figures(small, tmp_path / "c", ["bmp"])


def test_intervals_are_students():
    printed = {1: 12.706, 2: 4.303, 4: 2.776, 9: 2.262, 19: 2.093, 30: 2.042, 120: 1.980}  # the usual table
    for freedom, quantile in printed.items():
        sample = np.arange(freedom + 1.0)
        half = interval(sample)[1]
        assert half == pytest.approx(quantile * sample.std(ddof=1) / np.sqrt(freedom + 1), rel=3e-4)
    mean, half = interval(np.array([1.0, 2.0, 6.0]))
    assert mean == 3.0 and half == pytest.approx(4.302653 * np.sqrt(7.0) / np.sqrt(3))
    assert np.isnan(interval(np.array([1.0]))[1])


def test_always_playing_the_baseline_loses_what_the_oracle_says(small):
    lost = small.truth.baseline_regret
    problem = sf.problems.riverswim()
    earned = sf.solve.expected_rewards(problem.mdp, problem.baseline, problem.start, 400)
    assert lost[-1] == pytest.approx(400 * sf.solve.optimal_gain(problem.mdp).gain - earned[-1])


def test_the_report_is_one_page_with_everything_in_it(small, tmp_path):
    page = report.make_report(small, tmp_path / "page.html").read_text()
    assert page.count("data:image/png;base64,") == len(report.CAPTIONS)
    for words in ("CUCRL2, α = 0.4", "surefooted run study.toml", "riverswim", small.study.identity[:0]):
        assert words in page
    assert "src='http" not in page and "href" not in page


@pytest.mark.slow
def test_a_report_takes_figures_that_are_drawn_already(small, tmp_path, monkeypatch):
    drawn = figures.make_figures(small, tmp_path, ("png",))
    monkeypatch.setattr(report, "make_figures", lambda *_, **__: pytest.fail("drawn again"))
    page = report.make_report(small, tmp_path / "page.html", [tmp_path / "overview.pdf", *drawn]).read_text()
    shown = [path for path in drawn if path.stem in report.CAPTIONS]
    assert len(shown) == len(report.CAPTIONS)
    assert all(base64.b64encode(path.read_bytes()).decode() in page for path in shown)


def test_figures_do_not_depend_on_how_matplotlib_is_set_up(tmp_path):
    import matplotlib.pyplot as plt

    grid = sf.problems.gridworld()  # its picture has a colour bar
    (plain,) = figures.save(sf.draw(grid), tmp_path / "plain", ("png",))
    with plt.rc_context({"figure.autolayout": True}):
        (tight,) = figures.save(sf.draw(grid), tmp_path / "tight", ("png",))
    assert plain.read_bytes() == tight.read_bytes()


@without_processes()
def test_the_command_line_from_a_file_to_a_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(GRID)
    runner = CliRunner()
    done = runner.invoke(main, ["run", "mine.toml", "--jobs", "1", "--json", "--quiet"])
    assert done.exit_code == 0, done.output
    table = json.loads(done.stdout)
    assert [row["setting"] for row in table["settings"]] == ["UCBVI", "CUCBVI"] and table["settings"][1][
        "runs_violated"
    ] == 0
    for command in (["figures", "results/grid", "--format", "svg"], ["report", "results/grid"]):
        assert runner.invoke(main, command).exit_code == 0
    assert Path("results/grid/report.html").exists() and Path("results/grid/figures/regret.svg").exists()
    compared = runner.invoke(main, ["compare", "results/grid", "results/grid", "--format", "png"])
    assert compared.exit_code == 0 and Path("compared/regret.png").exists() and "grid: UCBVI" in compared.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nowhere.toml"], "cannot read the study"),
        (["report", "nowhere"], "no study.toml"),
        (["reproduce", "poker"], "Invalid value"),
        (["run", "inventory", "--shard", "5/2"], "I/N"),
        (["run", "inventory", "--set", "alpha=2"], "alpha"),
        (["run", "inventory", "--engine", "slurm"], "Invalid value"),
    ],
)
def test_the_command_line_says_what_is_wrong(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code != 0 and words in done.output
    assert not (tmp_path / "results").exists()


def test_own_problems_and_agents_from_files_and_modules(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sf.problems.riverswim(n_states=4).save(tmp_path / "river.npz")
    (tmp_path / "mine.py").write_text(
        "import surefooted as sf\ndef river(n):\n    return sf.problems.riverswim(n_states=n)\n"
        "class Agent(sf.UCRL2):\n    pass\n"
    )
    (tmp_path / "a.toml").write_text(
        'name="a"\nsteps=50\nrealisations=1\nproblem="river.npz"\n[agents.x]\nkind="mine:Agent"\ndelta=0.2\n'
    )
    (tmp_path / "b.toml").write_text(
        'name="b"\nsteps=50\nrealisations=1\n[problem]\nname="mine:river"\nn=4\n[agents.x]\nkind="mine:Agent"\ndelta=0.2\n'
    )
    found = [studies.run_study(studies.read(f"{n}.toml"), tmp_path / n, jobs=1, allow_code=True) for n in "ab"]
    assert found[0].runs["regret"].to_pylist() == found[1].runs["regret"].to_pylist()


HEARS_CTRL_C = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background, and its children, ignore it
runpy.run_module("surefooted", run_name="__main__", alter_sys=True)
"""


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path):
    (tmp_path / "long.toml").write_text(SMALL.replace("steps = 400", "steps = 20000").replace("= 3\n", "= 200\n"))
    command = [sys.executable, "-c", HEARS_CTRL_C, "run", "long.toml", "--out", "out", "--jobs", "1"]
    parts = tmp_path / "out" / "parts"
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            while process.poll() is None and len(list(parts.glob("*.parquet"))) < 2:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=600)
        finally:
            process.kill()
    assert process.returncode == 130, said
    assert "Continue with: surefooted run out/study.toml --out out" in said
    kept = len(list(parts.glob("*.parquet")))
    assert kept >= 2 and pq.read_metadata(tmp_path / "out" / "runs.parquet").num_rows == kept


def test_the_figures_show_what_the_tables_hold(small):
    import matplotlib.pyplot as plt

    setting = small.settings[2]
    drawn = {}
    for name, draw in figures.FIGURES.items():
        figure, ax = plt.subplots()
        draw(ax, small)
        drawn[name] = ax
        plt.close(figure)
    _, regrets = small.curve(setting, "pseudo_regret")
    lines = {line.get_label(): line.get_ydata() for line in drawn["regret"].lines}
    assert lines[setting.label] == pytest.approx(regrets.mean(axis=0))
    assert lines["always the baseline"] == pytest.approx(small.truth.baseline_regret)
    band = drawn["regret"].collections[2].get_paths()[0].vertices[:, 1]
    half = interval(regrets)[1]
    assert (band.min(), band.max()) == pytest.approx(
        ((regrets.mean(axis=0) - half).min(), (regrets.mean(axis=0) + half).max())
    )
    heights = [bar.get_height() for bar in drawn["violations"].patches]
    assert heights == pytest.approx([100 * small.column(s, "violations_initial").mean() for s in small.settings])
    means, least = small.curve(setting, "margin")[1].mean(axis=0), small.curve(setting, "margin_min")[1].min(axis=0)
    pairs = drawn["margin"].lines[4:6]
    assert [line.get_ydata() == pytest.approx(y) for line, y in zip(pairs, (means, least), strict=True)] == [True] * 2
    assert drawn["margin-initial"].get_xlim()[1] == 40 and len(drawn["margin-initial"].lines[0].get_xdata()) == 2
    kept = small.curve(setting, "baseline_steps")[1]
    share = 100 * np.diff(np.c_[np.zeros(3), kept], axis=1).mean(axis=0) / 20
    assert drawn["baseline-share"].lines[-1].get_ydata() == pytest.approx(share)


def test_the_report_says_the_tables_numbers(small, tmp_path):
    page = report.make_report(small, tmp_path / "page.html").read_text()
    for row, setting in zip(table(small), small.settings, strict=True):
        mean, half = interval(small.column(setting, "pseudo_regret"))
        assert row["pseudo_regret"] == mean and row["pseudo_regret_half"] == half
        assert row["min_margin"] == small.column(setting, "min_margin").min()
        assert f"{mean:,.0f}\u00a0±\u00a0{half:,.0f}" in page
    violated = [s.label for s in small.settings if small.column(s, "violations_total").max() > 0]
    assert violated == ["UCRL2"] and "The condition is violated by UCRL2 in" in page


def test_twenty_settings_all_look_different():
    setting = study_of(SMALL).settings[0]
    looks = {str(figures._line(replace(setting, look=i))) for i in range(20)}
    assert len(looks) == 20
