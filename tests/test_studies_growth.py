"""Studies that grow: settings known by their content, several problems, grids, own code, and older directories."""

import json
import shutil
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import surefooted
from surefooted import own_code, studies
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.studies import (
    building,
    display,
    engines,
    figures,
    parts,
    report,
    spec,
    statistics,
    tables,
    validity,
    warming,
)
from surefooted.studies.paper import NAMES

OLD = Path(__file__).parent / "studies" / "old"
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
points = 4
"""
WIDE = """
name = "wide"
steps = 40
realisations = 2
paired = true
problems = ["riverswim", { name = "riverswim", n_states = 4, label = "short river" }]
[agents.ucrl2]
kind = "UCRL2"
[agents.q]
kind = "QLearning"
span = 5
[grid]
seed = [3, 4]
agents.q.scale = [0.1, 0.5]
[record]
points = 4
"""


@pytest.fixture(autouse=True)
def ran(monkeypatch):
    """An engine without processes, and the tasks that it ran."""
    tasks = []

    def inline(study, todo, jobs, address=None):
        for task in todo:
            tasks.append(task.name)
            yield task, engines.attempt(study.model_dump_json(), task.setting, task.realisation)

    monkeypatch.setitem(engines.ENGINES, "local", inline)
    return tasks


def study_of(text=SMALL, **changes):
    return studies.parse(tomllib.loads(text) | changes)


def rows(results):
    """Each run by the words for its setting, without what time it took and how its setting is numbered."""
    drop = ("seconds", "setting", "seed")
    return {
        (row["problem"], row["label"], row["realisation"]): {k: v for k, v in row.items() if k not in drop}
        for row in results.runs.to_pylist()
    }


def ucrl2():
    return {"kind": "UCRL2"}


# -- a setting is known by its content --------------------------------------------------------------------------------


def test_settings_are_added_removed_and_reordered_without_losing_a_run(tmp_path, ran):
    first = rows(studies.run_study(study_of(), tmp_path / "out"))
    ran.clear()
    cautious = {"kind": "CUCRL2", "alpha": [0.4, 0.2, 0.1]}
    agents = {"new": {"kind": "UCRL2", "delta": 0.2}, "cucrl2": cautious, "ucrl2": ucrl2()}
    more = studies.run_study(study_of(agents=agents), tmp_path / "out")
    assert ran == ["003-000000", "004-000000", "003-000001", "004-000001"]
    held = {(*key[:1], key[1].replace(" (ucrl2)", ""), key[2]): row for key, row in rows(more).items()}
    for key, row in first.items():
        assert held[key] | {"label": row["label"]} == row
    assert [s.index for s in more.settings] == [3, 2, 4, 1, 0]
    assert more.settings[0].agent == "new" and studies.verify(tmp_path / "out") == []
    ran.clear()
    less = studies.run_study(study_of(agents={"ucrl2": ucrl2()}), tmp_path / "out")
    assert ran == [] and less.runs.num_rows == 2 and studies.verify(tmp_path / "out") == []
    assert any("Left out, but kept in parts/: UCRL2 (new);" in remark for remark in less.remarks)
    assert rows(studies.load(tmp_path / "out")) == rows(less)
    back = studies.run_study(study_of(agents=agents), tmp_path / "out")
    assert ran == [] and rows(back) == rows(more)


def test_other_names_and_labels_are_no_other_runs(tmp_path, ran):
    studies.run_study(study_of(), tmp_path / "out")
    ran.clear()
    agents = {"unsafe": ucrl2() | {"label": "explores"}, "safe": {"kind": "CUCRL2", "alpha": [0.1, 0.4]}}
    found = studies.run_study(study_of(agents=agents), tmp_path / "out")
    assert ran == [] and [s.label for s in found.settings] == ["explores", "CUCRL2, α = 0.1", "CUCRL2, α = 0.4"]
    assert found.runs["agent"].to_pylist() == ["unsafe"] * 2 + ["safe"] * 4
    assert set(found.curves["label"].to_pylist()) == {s.label for s in found.settings}


def test_the_study_in_a_directory_makes_the_same_runs_elsewhere(tmp_path):
    studies.run_study(study_of(), tmp_path / "out")
    agents = {"new": ucrl2() | {"delta": 0.2}, "ucrl2": ucrl2()}
    grown = studies.run_study(study_of(agents=agents), tmp_path / "out")
    again = studies.run_study(studies.read(tmp_path / "out" / "study.toml"), tmp_path / "again")
    assert again.runs.drop_columns("seconds").equals(grown.runs.drop_columns("seconds"))


@pytest.mark.parametrize(
    "changes",
    [{"seed": 8}, {"steps": 61}, {"paired": True}, {"record": {"points": 5}}, {"problem": "garnet"}],
)
def test_another_study_is_refused(changes, tmp_path):
    studies.run_study(study_of(agents={"ucrl2": ucrl2()}), tmp_path / "out")
    with pytest.raises(InvalidInput, match="holds another study") as caught:
        studies.run_study(study_of(agents={"ucrl2": ucrl2()}, **changes), tmp_path / "out")
    assert any(fault.startswith(next(iter(changes))) for fault in caught.value.faults)


def test_two_agents_with_one_content_are_two_settings():
    twins = study_of(agents={"a": ucrl2(), "b": ucrl2()}).settings
    assert twins[0].key != twins[1].key and [s.index for s in twins] == [0, 1]


def test_the_numbers_of_published_studies_are_those_of_their_order():
    for name in NAMES:
        study = studies.read(name)
        assert [s.index for s in study.settings] == [*range(len(study.settings))] and study.numbers is None
        assert {s.seed for s in study.settings} == {study.seed}


# -- several problems and grids ---------------------------------------------------------------------------------------


def test_a_grid_over_problems_agents_and_seeds_is_every_combination_once():
    study = study_of(WIDE)
    wanted = [
        (on, label)
        for on in ("riverswim", "short river")
        for label in (
            *("UCRL2, seed = 3", "UCRL2, seed = 4", "QLearning, scale = 0.1, seed = 3"),
            *("QLearning, scale = 0.1, seed = 4", "QLearning, scale = 0.5, seed = 3"),
            "QLearning, scale = 0.5, seed = 4",
        )
    ]
    assert [(s.on, s.label) for s in study.settings] == wanted
    assert {s.spec.parameters.get("scale") for s in study.settings if s.agent == "q"} == {0.1, 0.5}
    problems = study_of(
        problem={"name": "riverswim"}, grid={"problem": {"n_states": [4, 6], "noise": {"kind": ["none"]}}}
    )
    assert [*dict.fromkeys(s.on for s in problems.settings)] == [
        f"riverswim, n_states = {n}, kind = none" for n in (4, 6)
    ]
    assert problems.settings[0].problem.parameters == {"n_states": 4, "noise": {"kind": "none"}}


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"agents": {"nobody": {"delta": [0.1]}}}, "agents.NAME.KEY"),
        ({"steps": [1, 2]}, "grid.steps"),
        ({"seed": [1, 1]}, "none twice"),
        ({"seed": [1.5]}, "whole numbers"),
        ({"problem": {"n_states": []}}, "list of values"),
        ({"agents": {"ucrl2": {"delta": [i / 1000 for i in range(1000)]}}, "seed": [*range(1000)]}, "runs"),
        ({"agents": {"cucrl2": {"alpha": [2]}}}, "alpha"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(grid, words):
    with pytest.raises(InvalidInput, match=words):
        study_of(grid=grid)


def test_problems_need_names_of_their_own_and_one_way_of_writing_them():
    with pytest.raises(InvalidInput, match="a `label` of its own"):
        study_of(WIDE, problems=["riverswim", {"name": "riverswim", "n_states": 4}])
    with pytest.raises(InvalidInput, match="either `problem`"):
        study_of(problems=["inventory"])


def test_a_realisation_of_paired_settings_has_one_world_and_its_own_agents():
    study = study_of(WIDE)
    states = [[seed.generate_state(4).tolist() for seed in spec.seeds(study, task)] for task in spec.tasks(study)]
    per = {(task.realisation, study.setting(task.setting).seed) for task in spec.tasks(study)}
    assert len({str(world) for world, _ in states}) == len(per) == 4
    assert len({str(own) for _, own in states}) == len(states) == 24


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:

        def inline(study, todo, jobs, address=None):
            for task in todo:
                yield task, engines.attempt(study.model_dump_json(), task.setting, task.realisation)

        patch.setitem(engines.ENGINES, "local", inline)
        return studies.run_study(study_of(WIDE), tmp_path_factory.mktemp("wide") / "out")


def test_several_problems_are_run_stored_and_told_apart(wide, tmp_path):
    assert wide.problems == ["riverswim", "short river"] and wide.runs.num_rows == 24
    assert len({s.look for s in wide.settings}) == 6  # an agent has one colour on both problems
    assert set(wide.truths) == {*wide.problems} and wide.truth is None and wide.lack == ""
    assert [part.truth is wide.truths[on] for on, part in zip(wide.problems, wide.by_problem(), strict=True)] == [
        True
    ] * 2
    assert {row["setting"] for row in statistics.table(wide)} == {f"{s.on}: {s.label}" for s in wide.settings}
    assert studies.verify(wide.path) == [] and rows(studies.load(wide.path)) == rows(wide)
    for part in wide.by_problem():
        alone = study_of(WIDE, problems=[part.settings[0].problem.model_dump(exclude_none=True)])
        single = studies.run_study(alone, tmp_path / part.problems[0].replace(" ", ""))
        for name in ("regret", "violations_total"):  # the same problem, agents and worlds; other seeds of agents
            ours = [part.column(s, name)[0] for s in part.settings if s.agent == "ucrl2"]
            theirs = [single.column(s, name)[0] for s in single.settings if s.agent == "ucrl2"]
            assert ours == theirs


@pytest.mark.slow
def test_each_problem_has_its_own_figures_and_its_own_part_of_the_report(wide, tmp_path):
    drawn = figures.make_figures(wide, tmp_path, ("png",))
    assert len(drawn) == 14 and {path.name.partition("-")[0] for path in drawn} == {"riverswim", "short"}
    page = report.make_report(wide, tmp_path / "page.html", drawn).read_text()
    assert page.count("<img") == 2 * len(report.CAPTIONS) and "<h3>short river</h3>" in page


# -- code of one's own ------------------------------------------------------------------------------------------------

AGENT = """
import surefooted as sf
from grown_help import DELTA

class Mine(sf.UCRL2):
    def __init__(self, space, seed):
        super().__init__(space, seed=seed, delta=DELTA)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "grown_agent.py").write_text(AGENT)
    (tmp_path / "grown_help.py").write_text("DELTA = 0.05\n")
    yield tmp_path
    for name in ("grown_agent", "grown_help"):
        sys.modules.pop(name, None)


def forget():
    for name in ("grown_agent", "grown_help"):
        sys.modules.pop(name, None)


def test_an_edited_agent_is_run_again_and_one_is_told(mine, ran):
    study = study_of(agents={"ucrl2": ucrl2(), "mine": {"kind": "grown_agent:Mine"}})
    before = studies.run_study(study, mine / "out", allow_code=True)
    ran.clear()
    studies.run_study(study, mine / "out", allow_code=True)
    assert ran == []
    (mine / "grown_help.py").write_text("DELTA = 0.9\n")  # not even the agent's own file
    forget()
    after = studies.run_study(study, mine / "out", allow_code=True)
    assert ran == ["001-000000", "001-000001"]
    said = "grown_agent:Mine was edited since it was run: the runs of Mine are repeated."
    assert after.remarks == (said,) and studies.verify(mine / "out") == []
    assert rows(before)["riverswim", "UCRL2", 0] == rows(after)["riverswim", "UCRL2", 0]
    ran.clear()
    assert studies.run_study(study, mine / "out", allow_code=True).remarks == () and ran == []


def test_runs_of_edited_code_are_not_shown_beside_others(mine, monkeypatch):
    study = study_of(agents={"ucrl2": ucrl2(), "mine": {"kind": "grown_agent:Mine"}})
    studies.run_study(study, mine / "out", allow_code=True)
    (mine / "grown_agent.py").write_text(AGENT + "        self.edited = True\n")
    forget()

    def stopped(study, todo, jobs, address=None):
        yield todo[0], engines.attempt(study.model_dump_json(), todo[0].setting, todo[0].realisation)
        raise KeyboardInterrupt

    monkeypatch.setitem(engines.ENGINES, "local", stopped)
    with pytest.raises(SurefootedError, match="Stopped"):
        studies.run_study(study, mine / "out", allow_code=True)
    found = studies.load(mine / "out")
    assert [(row["label"], row["realisation"]) for row in found.runs.to_pylist()] == [
        *(("UCRL2", 0), ("UCRL2", 1)),
        ("Mine", 0),
    ]


def test_the_source_of_code_is_its_file_and_what_it_imports_beside_it(mine):
    first = own_code.source("grown_agent:Mine")
    (mine / "unrelated.py").write_text("X = 1\n")
    assert own_code.source("grown_agent:Mine") == first
    (mine / "grown_help.py").write_text("DELTA = 0.06\n")
    second = own_code.source("grown_agent:Mine")
    (mine / "grown_agent.py").write_text(AGENT + "# a comment\n")
    assert len({first, second, own_code.source("grown_agent:Mine")}) == 3
    (mine / "pack").mkdir()
    (mine / "pack" / "__init__.py").write_text("")
    (mine / "pack" / "a.py").write_text("from .b import f\nfrom . import c\n")
    for name in ("b", "c"):
        (mine / "pack" / f"{name}.py").write_text("def f():\n    return 1\n")
        before = own_code.source("pack.a:f")
        (mine / "pack" / f"{name}.py").write_text("def f():\n    return 2\n")
        assert own_code.source("pack.a:f") != before


# -- older versions ---------------------------------------------------------------------------------------------------


def test_a_directory_of_the_version_before_is_read_and_grows(tmp_path, ran):
    """`studies/old` was written by the version in which a setting was known by its place."""
    shutil.copytree(OLD, tmp_path / "out")
    assert studies.verify(tmp_path / "out") == []
    before = studies.load(tmp_path / "out")
    assert before.remarks == () and before.lack == "" and before.problems == ["riverswim"]
    ours = studies.run_study(study_of(name="old"), tmp_path / "new")
    kept = [name for name in before.runs.column_names if name not in ("problem", "seconds", "version")]
    for name in kept:  # the seeds are the same; what is computed exactly may differ in its last digits
        old, new = before.runs[name].to_pylist(), ours.runs[name].to_pylist()
        assert new == (pytest.approx(old, abs=1e-8, nan_ok=True) if isinstance(old[0], float) else old), name
    ran.clear()
    agents = {"cucrl2": {"kind": "CUCRL2", "alpha": [0.4, 0.2]}, "ucrl2": ucrl2()}
    grown = studies.run_study(study_of(name="old", agents=agents), tmp_path / "out")
    assert ran == ["003-000000", "003-000001"] and studies.verify(tmp_path / "out") == []
    assert [s.index for s in grown.settings] == [2, 3, 0]
    regret = {(row["setting"], row["realisation"]): row["regret"] for row in grown.runs.to_pylist()}
    for row in before.runs.to_pylist():
        if row["setting"] != 1:
            assert regret[row["setting"], row["realisation"]] == row["regret"]
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["identities"] == sorted(
        {before.study.identity, grown.study.identity}
    )


# -- what tables and reports say --------------------------------------------------------------------------------------


def test_runs_of_two_versions_of_the_package_are_told_apart(tmp_path, monkeypatch):
    now = surefooted.__version__
    studies.run_study(study_of(), tmp_path / "out")
    monkeypatch.setattr("surefooted.studies.realisation.__version__", "9.9")
    found = studies.run_study(study_of(realisations=3), tmp_path / "out")
    assert found.versions == {now: 6, "9.9": 3}
    said = f"Different versions of surefooted made these runs, see the column `version`: 6 by {now}, 3 by 9.9."
    assert said in found.remarks and said in studies.load(tmp_path / "out").remarks
    assert found.runs["version"].to_pylist() == [now, now, "9.9"] * 3


@pytest.mark.parametrize(
    ("agent", "condition", "words"),
    [
        ({"kind": "UCRL2"}, None, "promises nothing"),
        ({"kind": "CUCRL2"}, "replay", "proved"),
        ({"kind": "CUCRL2", "confidence": "simplified_bernstein"}, "replay", "simplified_bernstein is no valid set"),
        ({"kind": "CUCRL2", "confidence": "simplified_bernstein"}, "decisions", "proved"),  # no set in its proof
        ({"kind": "CUCRL2", "bounded": False}, "decisions", "rewards may leave"),
        ({"kind": "CUCRL2", "bounded": False, "confidence": "hoeffding"}, "replay", "proved"),
        ({"kind": "CUCRL2", "bounded": False, "knowledge": ["rewards"]}, "replay", "proved"),
        ({"kind": "CUCRL2", "strict": False}, "replay", "strict = false"),
        ({"kind": "CUCRL2", "confidence": "mine:set"}, "replay", "its set is own code"),
        ({"kind": "mine:Agent"}, "replay", "own code"),
        (
            {"kind": "CUCBVI", "learner": {"kind": "EULER", "confidence": "simplified_bernstein"}},
            "replay",
            "no valid set",
        ),
    ],
)
def test_a_guarantee_is_proved_or_not_as_the_documents_say(agent, condition, words):
    (setting,) = study_of(agents={"a": agent}).settings
    said = validity.proof(setting, condition)
    assert said == words if words in ("proved", "promises nothing") else words in said and said.startswith("not ")


def test_pairs_are_compared_realisation_by_realisation(wide):
    rows = tables.comparisons(wide)
    assert [(row["problem"], row["setting"], row["against"]) for row in rows] == [
        (s.on, s.label, "UCRL2, seed = 3") for s in wide.settings if s.label != "UCRL2, seed = 3"
    ]
    first, other = wide.settings[0], wide.settings[2]
    column = statistics.regret_column([wide.by_problem()[0]])
    more = wide.column(other, column) - wide.column(first, column)
    assert rows[1]["difference"] == pytest.approx(more.mean()) and rows[1]["less"] == (more < 0).mean()
    # five intervals for one problem: t with 1 degree of freedom at 1 - 0.05 / 5 / 2 is tan(π (0.495)) = 63.657
    assert rows[1]["half"] == pytest.approx(63.6567 * more.std(ddof=1) / 2**0.5, rel=1e-5)


def test_tables_for_latex_hold_what_people_wrote(wide):
    text = tables.all_latex(wide)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2 and r"\toprule" in text
    assert tables.latex((["a_b", "x"], [["50 %", "-1"], ["α & β", "±\u202f"]])).splitlines()[3:8] == [
        r"\toprule",
        r"a\_b & x \\",
        r"\midrule",
        r"50 \% & $-$1 \\",
        r"$\alpha$ \& β & $\pm$\, \\",
    ]
    lines = text.splitlines()
    (head,) = (line for line in lines if line.startswith("setting"))
    assert {line.count("&") for line in lines if line.startswith("riverswim: ")} == {head.count("&")}


@pytest.mark.parametrize(("width", "inches"), [("single", 3.35), ("double", 6.9), (5.0, 5.0)])
@pytest.mark.slow
def test_figures_for_a_column_have_its_width(wide, width, inches, tmp_path):
    from matplotlib.image import imread

    for path in figures.make_figures(wide, tmp_path, ("png",), width):
        assert imread(path).shape[1] == pytest.approx(200 * inches, abs=1), path.name


def test_a_width_that_no_column_has_is_refused(wide, tmp_path):
    for width in ("wide", 0.1, 400):
        with pytest.raises(InvalidInput, match="single, double, or 1 to 40 inches"):
            figures.make_figures(wide, tmp_path, ("png",), width)


def test_each_figure_is_drawn_once_for_each_format(wide, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    drawn, real = [], Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda self, renderer: (drawn.append(self), real(self, renderer))[1])
    (part, _) = wide.by_problem()
    with figures.styled():
        figure = Figure(layout="constrained")
        figures.regret(figure.subplots(), part)
        written = figures.save(figure, tmp_path / "a", ("png", "pdf", "svg"))
    assert len(drawn) == len(written) == 3
    assert b"/FontFile2" in written[1].read_bytes() and b"<text" not in written[2].read_bytes()


# -- many runs --------------------------------------------------------------------------------------------------------


def test_runs_are_taken_from_the_tables_if_their_parts_are_unchanged(tmp_path, monkeypatch):
    made = studies.run_study(study_of(), tmp_path / "out")
    read = []
    real = parts.decode
    told = lambda source, name: (read.append(name), real(source, name))[1]  # noqa: E731
    monkeypatch.setattr("surefooted.studies.folder.decode", told)
    again = studies.run_study(study_of(), tmp_path / "out")
    assert read == [] and again.runs.equals(made.runs)
    assert repr(again.curves.to_pydict()) == repr(made.curves.to_pydict())
    file = tmp_path / "out" / "parts" / "001-000001.parquet"
    file.write_bytes(file.read_bytes())
    assert studies.run_study(study_of(), tmp_path / "out").runs.equals(made.runs)
    assert [path.name for path in read] == [file.name] and studies.verify(tmp_path / "out") == []


def test_workers_find_compiled_what_they_need(tmp_path, monkeypatch):
    from surefooted.kernels import cache

    monkeypatch.setattr("surefooted.studies.warming.places", lambda: cache.Places([tmp_path], tmp_path, True))
    study = study_of()
    problems = building.check(study)
    assert warming.warm_up(study, problems) == 2 and warming.warm_up(study, problems) == 0  # α needs no other kernel
    assert warming.warm_up(study_of(agents={"u": {"kind": "UCRL2", "confidence": "bernstein"}}), problems) == 1
    assert warming.warm_up(study_of(agents={"mine": {"kind": "nowhere:Mine"}}), problems) == 0


def test_a_notebook_shows_progress_as_a_table_that_is_replaced(monkeypatch):
    shown = []

    class Handle:
        def update(self, cell):
            shown.append((repr(cell), cell._repr_html_()))

    def put(cell, display_id):
        shown.append((repr(cell), cell._repr_html_()))
        return Handle()

    fake = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1), display=SimpleNamespace(display=put))
    monkeypatch.setitem(sys.modules, "IPython", fake)
    study = study_of(agents={"ucrl2": ucrl2() | {"label": "<script>"}})
    progress = display.Display(study, spec.tasks(study), {}, quiet=False)
    with progress.showing():
        progress.finished({"setting": 0, "violations_total": 1})
    assert [line for line, _ in shown] == ["small: 0 of 2 runs", "small: 1 of 2 runs"]
    assert (
        "&lt;script&gt;" in shown[1][1] and "<script" not in shown[1][1] and "<td>1 of 2</td><td>1</td>" in shown[1][1]
    )


def test_a_problem_draws_itself_as_a_picture_that_notebooks_show():
    import surefooted as sf

    for problem in (sf.problems.riverswim(), sf.problems.gridworld(), sf.problems.garnet(n_states=60, seed=1)):
        assert problem.draw(state=1)._repr_png_()[:8] == b"\x89PNG\r\n\x1a\n"
