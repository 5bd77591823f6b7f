"""Studies, as someone in a hurry would break them."""

import json
import os
import shutil
import tomllib

import pytest
from click.testing import CliRunner

import surefooted as sf
from study_help import inline
from surefooted import studies
from surefooted.cli import main
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.studies import building, display, engines, figures, folder, reading, report, running, spec

SMALL = """
name = "small"
steps = 60
realisations = 2
seed = 7
problem = "riverswim"

[agents.ucrl2]
kind = "UCRL2"

[agents.cucrl2]
kind = "CUCRL2"
alpha = [0.1, 0.4]

[record]
points = 6
"""


def study_of(text, *overrides):
    raw = tomllib.loads(text)
    for override in overrides:
        reading._override(raw, override)
    return studies.parse(raw)


@pytest.fixture(autouse=True)
def _inline(monkeypatch):
    monkeypatch.setitem(engines.ENGINES, "local", inline)


@pytest.fixture
def out(tmp_path):
    """A finished study."""
    studies.run_study(study_of(SMALL), tmp_path / "out")
    return tmp_path / "out"


def parts_of(folder):
    return {part.name: part.read_bytes() for part in (folder / "parts").iterdir()}


# -- results are never of something else than they say ----------------------------------------------------------------


def test_agents_in_another_order_do_not_swap_their_results(out):
    raw = tomllib.loads(SMALL)
    raw["agents"] = dict(reversed(raw["agents"].items()))
    try:
        found = studies.run_study(studies.parse(raw), out)
    except InvalidInput:  # another study: fine too
        found = studies.load(out)
    by_setting = {s.index: (s.agent, s.alpha) for s in found.settings}
    for row in found.runs.to_pylist():
        assert by_setting[row["setting"]] == (row["agent"], row["alpha"])


def test_a_study_file_edited_by_hand_does_not_cost_the_results(out):
    before = parts_of(out)
    file = out / "study.toml"
    file.write_text(file.read_text().replace("seed = 7", "seed = 8"))
    with pytest.raises(SurefootedError):
        studies.run_study(studies.read(file), out)
    assert parts_of(out) == before


def test_tables_of_an_edited_study_are_not_shown_under_its_new_words(out):
    file = out / "study.toml"
    file.write_text(file.read_text().replace("0.4", "0.9"))
    with pytest.raises(SurefootedError):
        studies.load(out)


def test_another_content_of_the_problem_file_is_another_study(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text(SMALL.replace('"riverswim"', '"river.npz"'))
    sf.problems.riverswim(n_states=4).save(tmp_path / "river.npz")
    studies.run_study(studies.read(file), tmp_path / "out")
    sf.problems.riverswim(n_states=7).save(tmp_path / "river.npz")
    with pytest.raises(InvalidInput):
        studies.run_study(studies.read(file, ["realisations=3"]), tmp_path / "out")


def test_the_manifest_of_the_first_runs_is_not_forgotten(out):
    file = out / "manifest.json"
    file.write_text(file.read_text().replace(f'"numpy": "{np_version()}"', '"numpy": "0.0.old"'))
    studies.run_study(study_of(SMALL, "realisations=3"), out)
    assert "0.0.old" in file.read_text()


def np_version():
    import numpy

    return numpy.__version__


# -- the directory ----------------------------------------------------------------------------------------------------


def test_tables_written_when_the_driver_dies_between_the_two_agree_afterwards(out, monkeypatch):
    class Killed(BaseException):
        pass

    real = folder.write

    def dying(path, content):
        if path.name == "runs.parquet":  # the curves are there already
            raise Killed
        real(path, content)

    monkeypatch.setattr(folder, "write", dying)
    with pytest.raises(Killed):
        studies.run_study(study_of(SMALL, "realisations=3"), out)
    monkeypatch.setattr(folder, "write", real)
    found = studies.load(out)
    assert found.runs.num_rows == 9 and found.curves.num_rows == 9 * 6


def test_parts_that_are_copied_in_with_their_old_dates_count(out, tmp_path):
    studies.run_study(study_of(SMALL, "realisations=3"), tmp_path / "more")
    shutil.copy(tmp_path / "more" / "study.toml", out / "study.toml")
    for part in (tmp_path / "more" / "parts").glob("*-000002.parquet"):
        shutil.copy(part, out / "parts")
        os.utime(out / "parts" / part.name, (1e9, 1e9))
    assert studies.load(out).runs.num_rows == 9


def test_a_directory_that_another_shard_has_just_made_is_taken(tmp_path):
    (tmp_path / "out" / "parts").mkdir(parents=True)  # no study.toml yet: killed, or another shard, at this moment
    assert studies.run_study(study_of(SMALL), tmp_path / "out").runs.num_rows == 6


def test_a_part_whose_row_or_curve_lacks_a_column_is_run_again(out):
    import pyarrow.parquet as pq

    good = studies.load(out)
    first, second, *_ = sorted((out / "parts").iterdir())
    table = pq.read_table(first)
    content = json.loads(table.schema.metadata[b"surefooted"])
    del content["row"]["violations_total"]
    pq.write_table(table.replace_schema_metadata({"surefooted": json.dumps(content)}), first)
    pq.write_table(pq.read_table(second).drop_columns("budget"), second)
    again = studies.run_study(good.study, out)
    assert again.runs.drop_columns("seconds").equals(good.runs.drop_columns("seconds"))
    assert again.curves.column_names == good.curves.column_names and again.curves.num_rows == good.curves.num_rows


def test_a_shard_with_nothing_to_do_is_no_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(SMALL)
    done = CliRunner().invoke(main, ["run", "a.toml", "--shard", "50/50", "--quiet"])
    assert done.exit_code == 0, done.output


def test_a_full_disk_is_said_in_words(tmp_path, monkeypatch):
    real = folder.write

    def full(path, content):
        if path.suffix == ".parquet":
            raise OSError(28, "No space left on device", str(path))
        real(path, content)

    monkeypatch.setattr(folder, "write", full)
    with pytest.raises(SurefootedError, match="No space left"):
        studies.run_study(study_of(SMALL), tmp_path / "out")


def test_errors_of_runs_that_succeeded_later_are_gone(tmp_path, monkeypatch):
    def failing(study, todo, jobs, address=None):
        for task in todo:
            yield task, engines.Failure("a bug")

    monkeypatch.setitem(engines.ENGINES, "local", failing)
    with pytest.raises(SurefootedError, match="6 runs failed"):
        studies.run_study(study_of(SMALL), tmp_path / "out")
    monkeypatch.setitem(engines.ENGINES, "local", inline)
    studies.run_study(study_of(SMALL), tmp_path / "out")
    assert not list((tmp_path / "out").glob("errors/*"))


# -- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("problem={name='riverswim', colour=3}", "colour"),
        ("problem={name='riverswim', noise={kid='none'}}", "kid"),
        ("problem=:f", ":f"),
        ("alpha=[]", "alpha"),
        ("agents.cucrl2.alpha=[]", "alpha"),
        ("agents.cucrl2.alpha=[0.1, 0.1]", "alpha"),
        ("name='..'", "name"),
        ("realisations=true", "realisations"),
        ("claims=[{what='w', value=1.0, agent='ucrl2', column='nonsense'}]", "nonsense"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(override, words):
    with pytest.raises(SurefootedError, match=words):
        building.check(study_of(SMALL, override), allow_code=True)


class Raising:
    """An agent whose constructor has a bug."""

    def __init__(self, space):
        raise ValueError("a bug in a constructor")


class Keeping(sf.UCRL2):
    """An agent with a limit that may be infinite."""

    def __init__(self, space, limit, seed=None):
        if limit != float("inf"):
            raise RuntimeError(f"the limit became {limit}")
        super().__init__(space, seed=seed)


@pytest.fixture
def _here(monkeypatch):
    monkeypatch.syspath_prepend(os.path.dirname(__file__))


@pytest.mark.usefixtures("_here")
def test_a_constructor_that_raises_is_a_fault_with_its_path():
    with pytest.raises(InvalidInput, match=r"agents\.mine: .*a bug in a constructor"):
        building.check(study_of(SMALL, "agents.mine.kind='test_studies_more:Raising'"), allow_code=True)


@pytest.mark.usefixtures("_here")
def test_an_infinite_argument_is_refused_with_its_path():
    with pytest.raises(InvalidInput, match=r"agents\.mine\.limit: must be finite"):
        study_of(SMALL, "agents={mine={kind='test_studies_more:Keeping', limit=inf}}")


def test_an_argument_that_is_none_is_the_same_study_on_disk(tmp_path):
    raw = tomllib.loads(SMALL)
    raw["agents"]["ucrl2"]["seed"] = None
    try:
        study = studies.parse(raw)
        building.check(study)
    except SurefootedError:
        return  # refused: fine
    assert studies.parse(tomllib.loads(study.to_toml())).identity == study.identity


def test_an_agent_of_the_other_kind_is_refused_before_anything_runs():
    with pytest.raises(InvalidInput, match=r"agents\.u"):
        building.check(
            studies.parse({"name": "g", "episodes": 5, "problem": "gridworld", "agents": {"u": {"kind": "UCRL2"}}})
        )


def test_a_problem_file_named_in_a_table_is_beside_the_study(tmp_path, monkeypatch):
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    sf.problems.riverswim(n_states=4).save(tmp_path / "river.npz")
    (tmp_path / "a.toml").write_text(SMALL.replace('problem = "riverswim"', 'problem = { name = "river.npz" }'))
    (problem,) = building.check(studies.read(tmp_path / "a.toml")).values()
    assert problem.mdp.space.n_states == 4


def test_nested_overrides_of_a_problem_given_by_name():
    study = study_of(SMALL, "problem.noise.kind=bernoulli")
    assert study.problem.parameters == {"noise": {"kind": "bernoulli"}}


def test_a_file_saved_by_notepad_is_read(tmp_path):
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert studies.read(tmp_path / "a.toml") == study_of(SMALL)


# -- what is shown ----------------------------------------------------------------------------------------------------


def test_json_of_one_realisation_is_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(SMALL)
    done = CliRunner().invoke(main, ["run", "a.toml", "--json", "--quiet", "--realisations", "1"])

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    assert len(json.loads(done.stdout, parse_constant=refuse)["settings"]) == 3


def test_a_label_with_brackets_is_shown_as_it_is(monkeypatch):
    from rich.console import Console

    study = study_of(SMALL, "agents.ucrl2.label='mine [/b] [red]'")
    shown = display.Display(study, spec.tasks(study), {}, quiet=False)
    shown.console = Console(force_terminal=True, width=200, record=True, file=open(os.devnull, "w", encoding="utf-8"))
    with shown.console.file, shown.showing():
        shown.finished({"setting": 0, "violations_total": 1})
    assert "mine [/b] [red]" in shown.console.export_text()


@pytest.mark.parametrize("label", ["costs $x_$", "_mine", "<b>&'\""])
def test_any_label_can_be_drawn_and_reported(label, tmp_path):
    study = study_of(SMALL, "realisations=1")
    raw = study.model_dump(mode="json", exclude_none=True)
    raw["agents"]["ucrl2"]["label"] = label
    found = studies.run_study(studies.parse(raw), tmp_path / "out")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    figures.regret(ax, found)
    figure.canvas.draw()
    shown = [text.get_text().replace("\\$", "$") for text in ax.get_legend().get_texts()]
    plt.close(figure)
    assert any(label.strip("_") in text for text in shown)


@pytest.mark.slow
def test_an_unfinished_study_does_not_claim_all_its_realisations(tmp_path):
    found = studies.run_study(study_of(SMALL, "realisations=50"), tmp_path / "out", shard=(1, 50))
    page = report.make_report(found).read_text(encoding="utf-8")
    assert "<p class=soft>50 realisations" not in page


def test_the_command_to_go_on_can_be_pasted(tmp_path, monkeypatch):
    def stopped(study, todo, jobs, address=None):
        yield from inline(study, todo[:1], jobs)
        raise KeyboardInterrupt

    import shlex

    monkeypatch.setitem(engines.ENGINES, "local", stopped)
    with pytest.raises(running.Interrupted) as caught:
        studies.run_study(study_of(SMALL), tmp_path / "my results")
    command = shlex.split(str(caught.value).partition("Continue with: ")[2])
    assert command[2:] == [
        str(tmp_path / "my results" / "study.toml"),
        "--out",
        str(tmp_path / "my results"),
    ]
