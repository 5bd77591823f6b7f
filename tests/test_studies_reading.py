"""Results are read once, and reading them runs nothing that the study names."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import surefooted as sf
from study_help import inline
from surefooted import studies
from surefooted.cli import main
from surefooted.errors import InvalidInput, NotConverged, UnreadableFile
from surefooted.studies import engines, figures, folder, report, spec, truth
from surefooted.studies.truth import Truth

SMALL = """
name = "small"
steps = 60
realisations = 2
problem = "riverswim"
agents = { ucrl2 = { kind = "UCRL2" }, cucrl2 = { kind = "CUCRL2", alpha = 0.1 } }
record = { points = 6 }
"""


@pytest.fixture(autouse=True)
def _inline(monkeypatch):
    monkeypatch.setitem(engines.ENGINES, "local", inline)


@pytest.fixture
def opened(monkeypatch):
    """How often each file, or a buffer, is parsed as Parquet."""
    counts = {}

    def counting(real):
        def read(source, **options):
            name = source.name if isinstance(source, os.PathLike) else "buffer"
            counts[name] = counts.get(name, 0) + 1
            return real(source, **options)

        return read

    monkeypatch.setattr(folder.pq, "read_table", counting(pq.read_table))
    monkeypatch.setattr(folder.pq, "ParquetFile", counting(pq.ParquetFile))
    return counts


def run(out, **changes):
    return studies.run_study(studies.parse(tomllib.loads(SMALL) | changes), out, allow_code=True)


def test_a_study_that_is_run_parses_each_run_once_and_never_reads_its_tables(tmp_path, opened):
    run(tmp_path / "out")
    assert opened == {"buffer": 4}
    opened.clear()
    run(tmp_path / "out", realisations=3)
    assert opened == {"buffer": 2, "runs.parquet": 1, "curves.parquet": 1}
    opened.clear()
    os.utime(tmp_path / "out" / "parts" / "001-000000.parquet")
    run(tmp_path / "out", realisations=3)
    assert opened == {"buffer": 1, "runs.parquet": 1, "curves.parquet": 1}


def test_loading_reads_each_table_once_and_no_part(tmp_path, opened):
    made = run(tmp_path / "out")
    opened.clear()
    loaded = studies.load(tmp_path / "out")
    assert opened == {"runs.parquet": 1, "curves.parquet": 1}
    assert loaded.study == made.study and loaded.manifest == made.manifest
    assert loaded.runs.equals(made.runs, check_metadata=True)
    assert loaded.curves.schema.equals(made.curves.schema, check_metadata=True)
    assert repr(loaded.curves.to_pylist()) == repr(made.curves.to_pylist())


def test_tables_without_parts_are_results(tmp_path):
    made = run(tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "parts")
    assert studies.load(tmp_path / "out").runs.equals(made.runs)
    (tmp_path / "out" / "curves.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(UnreadableFile, match="is damaged"):
        studies.load(tmp_path / "out")
    (tmp_path / "out" / "runs.parquet").unlink()
    with pytest.raises(UnreadableFile, match="no finished run yet"):
        studies.load(tmp_path / "out")


def test_a_part_that_disappears_during_a_study_is_not_in_its_tables(tmp_path, monkeypatch):
    def losing(study, todo, jobs, address=None):
        yield from inline(study, todo, jobs)
        next((tmp_path / "out" / "parts").glob("001-000001.parquet")).unlink()

    monkeypatch.setitem(engines.ENGINES, "local", losing)
    assert run(tmp_path / "out").runs.num_rows == 3


@pytest.mark.parametrize("shard", [(0, 2), (3, 2), (1, 0)])
def test_a_shard_that_does_not_exist_is_refused_before_anything_is_written(shard, tmp_path):
    study = studies.parse(tomllib.loads(SMALL))
    with pytest.raises(InvalidInput, match="1 <= I <= N"):
        spec.tasks(study, shard)
    with pytest.raises(InvalidInput, match="1 <= I <= N"):
        studies.run_study(study, tmp_path / "out", shard=shard)
    assert not (tmp_path / "out").exists()


def test_a_study_without_a_finished_run_has_no_results(tmp_path):
    study = studies.parse(tomllib.loads(SMALL))
    folder.Folder.prepare(tmp_path / "out", study)
    with pytest.raises(UnreadableFile, match="no finished run yet"):
        studies.load(tmp_path / "out")


# -- what is exactly true of the problem ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["inventory", "gridworld"])  # along a line and in a plane, with the paper's numbers
def test_what_is_stored_is_what_was_computed(name, tmp_path):
    study = studies.read(name, ["realisations=1"])
    problem = sf.problems.make(name)
    made = Truth.of(study, problem)
    place = folder.Folder.prepare(tmp_path / "out", study)
    place.save_truth(problem.name, made)
    read = place.truths()[problem.name]
    assert np.array_equal(read.step, study.recorded) and np.array_equal(read.baseline_regret, made.baseline_regret)
    assert read.printed == made.printed and {fact.paper for fact in made.printed} <= {*problem.paper.values()}
    assert (read.sketch.title, read.sketch.measure) == (made.sketch.title, made.sketch.measure)
    assert (tuple(read.sketch.state_labels), tuple(read.sketch.axes)) == (problem.state_labels, problem.axes)
    assert np.array_equal(read.sketch.positions, problem.positions)
    for a, b in zip(read.sketch.panels, made.sketch.panels, strict=True):
        assert (a.title, list(a.glyphs)) == (b.title, list(b.glyphs)) and np.array_equal(a.values, b.values)


def test_always_playing_the_baseline_for_n_episodes_loses_n_times_as_much_as_for_one():
    study, problem = studies.read("gridworld"), sf.problems.gridworld()
    best = sf.solve.optimal_values(problem.mdp, problem.horizon).values[0, problem.start]
    played = sf.solve.policy_values(problem.mdp, problem.baseline, problem.horizon)[0, problem.start]
    assert Truth.of(study, problem).baseline_regret == pytest.approx(study.recorded * (best - played))


@pytest.mark.parametrize("how", ["missing", "damaged", "of another study", "of another shape"])
def test_without_it_figures_leave_the_curve_out_and_one_sentence_says_so(how, tmp_path):
    out = tmp_path / "out"
    run(out)
    file = out / "truth.npz"
    stored = dict(np.load(file))
    if how == "missing":
        file.unlink()
    elif how == "damaged":
        file.write_bytes(file.read_bytes()[:-40])
    elif how == "of another study":
        np.savez(file, **(stored | {"study": "0123"}))
    else:
        np.savez(file, **(stored | {"baseline_regret": np.zeros(3)}))
    found = studies.load(out)
    assert found.truth is None and "truth.npz" in found.lack and found.lack.count(". ") == 0
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    figures.regret(ax, found)
    plt.close(figure)
    assert [line.get_label() for line in ax.lines] == ["UCRL2", "CUCRL2"]
    if how == "missing":
        done = CliRunner().invoke(main, ["report", str(out)])
        assert done.exit_code == 0 and found.lack in done.stderr
        page = (out / "report.html").read_text(encoding="utf-8")
        assert page.count("<img") == len(report.CAPTIONS) - 1 and "has no readable truth.npz" in page
    again = run(out)  # nothing to run: only what is missing is added
    assert again.lack == "" and np.array_equal(studies.load(out).truth.baseline_regret, stored["baseline_regret"])


def test_a_problem_without_a_picture_is_played_and_shown(tmp_path, monkeypatch):
    def fails(problem):
        raise NotConverged("too slow")

    monkeypatch.setattr(truth, "sketch", fails)
    found = run(tmp_path / "out")
    assert "picture" in found.lack and studies.load(tmp_path / "out").truth.sketch is None
    assert not [path for path in figures.make_figures(found, formats=("svg",)) if path.stem == "problem"]


SHOW = """
import sys
from surefooted import studies
from surefooted.studies import figures, report
results = studies.load("out")
report.make_report(results, drawn=figures.make_figures(results, formats=("png",)))
assert not results.lack
assert not {"hostile", "surefooted.studies.building"} & set(sys.modules), "something was imported to build a problem"
"""


@pytest.mark.slow
def test_a_received_directory_is_shown_without_importing_what_its_study_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    hostile = tmp_path / "hostile.py"
    hostile.write_text(
        "import surefooted as sf\ndef river(**parameters):\n    return sf.problems.riverswim(**parameters)\n"
        "class Agent(sf.UCRL2):\n    pass\n"
    )
    run(tmp_path / "out", problem={"name": "hostile:river", "n_states": 4}, agents={"mine": {"kind": "hostile:Agent"}})
    monkeypatch.delitem(sys.modules, "hostile")
    hostile.write_text("raise SystemExit('imported')")
    done = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Path("out/report.html").exists() and Path("out/figures/problem.png").exists()


def test_a_received_directory_is_read_without_the_files_that_its_study_names(tmp_path):
    sf.problems.riverswim(n_states=4).save(tmp_path / "river.npz")
    (tmp_path / "a.toml").write_text(SMALL.replace('"riverswim"', '"river.npz"'))
    made = studies.run_study(studies.read(tmp_path / "a.toml"), tmp_path / "out")
    (tmp_path / "river.npz").unlink()
    found = studies.load(tmp_path / "out")
    assert found.study == made.study and found.runs.equals(made.runs)
