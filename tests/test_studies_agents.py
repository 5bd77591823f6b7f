"""Studies of agents of one's own: judged by their decisions if they say no policies, and shown as what they are."""

import re
import sys
import tomllib

import numpy as np
import pytest

import surefooted as sf
from study_help import without_processes
from surefooted import studies
from surefooted.errors import InvalidInput
from surefooted.studies import building, columns, figures, realisation, report, spec, statistics
from surefooted.studies.display import Display

MODULE = """
import surefooted as sf

class Silent:
    def __init__(self, space, steps, seed):
        self.space, self.steps, self.rng = space, steps, seed
        self.condition = "whatever I like"
        self.u = 0
    def begin(self, s):
        pass
    def act(self, s):
        return int(self.space.actions(s)[self.u % len(self.space.actions(s))])
    def observe(self, s, a, r, s_next):
        self.u = int(self.rng.integers(10))
    watch = observe

class Telling(Silent):
    def __init__(self, space, steps, seed):
        super().__init__(space, steps, seed)
        self.policy = sf.Policy.always(space, 1)
    def act(self, s):
        return sf.agents.Decision("baseline", "It says so.", 1)

class Lame:
    def __init__(self, space):
        self.begin = 3
"""
STUDY = """
name = "own"
steps = 200
problem = "riverswim"
realisations = 2
alpha = [0.3]
[agents.silent]
kind = "mine_agents:Silent"
[agents.telling]
kind = "mine_agents:Telling"
[agents.q]
kind = "QLearning"
span = 10
[agents.replay]
kind = "CUCRL2"
[agents.held]
kind = "CUCRL2"
condition = "decisions"
learner = "mine_agents:Silent"
[agents.held-q]
kind = "CUCRL2"
condition = "decisions"
learner = { kind = "QLearning", span = 10, scale = 0.01 }
[record]
points = 10
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder, before = tmp_path_factory.mktemp("mine"), [*sys.path]
    (folder / "mine_agents.py").write_text(MODULE)
    sys.path.append(str(folder))
    with without_processes():
        found = studies.run_study(studies.parse(tomllib.loads(STUDY)), folder / "out", allow_code=True)
    yield found
    sys.path[:] = before
    sys.modules.pop("mine_agents", None)


def settings(results):
    return {setting.agent: setting for setting in results.settings}


REPLAY = (
    "distinct_policies",
    "pseudo_regret",
    "violations_initial",
    "violations_total",
    "min_margin",
    "first_violation",
)


def test_what_needs_policies_is_null_if_the_agent_says_none(results):
    for row in results.runs.to_pylist():
        is_silent = row["agent"] == "silent"
        assert all((row[name] is None) == is_silent for name in REPLAY if name != "first_violation")
        assert row["regret"] is not None and row["decisions_min_margin"] is not None
        assert row["condition"] == {"replay": "replay", "held": "decisions", "held-q": "decisions"}.get(row["agent"])
    steps, curve = results.curve(settings(results)["silent"], "margin")
    assert np.isnan(curve).all() and len(steps) == 10
    assert np.isfinite(results.curve(settings(results)["silent"], "decisions_margin")[1]).all()


def test_the_columns_hold_what_evaluate_says(results):
    study, problem = results.study, building.build_problem(results.study.problem)
    for setting in results.settings:
        world, own = spec.seeds(study, spec.Task(setting.index, 1))
        agent = building.build_agent(study, setting, problem, own, allow_code=True)
        found = sf.evaluate(sf.simulate(problem, agent, 200, world), problem, 0.3)
        assert results.column(setting, "decisions_violations_total")[1] == found.decisions.violations
        if setting.agent != "silent":
            assert results.column(setting, "violations_total")[1] == found.violations
            assert results.column(setting, "pseudo_regret")[1] == found.expected_regret[-1]


def test_agents_get_the_length_of_the_study(results):
    study, problem = results.study, building.build_problem(results.study.problem)
    own = spec.seeds(study, spec.Task(0, 0))[1]
    built = {s.agent: building.build_agent(study, s, problem, own, allow_code=True) for s in results.settings}
    assert built["silent"].steps == built["q"].steps == 200
    assert built["held-q"].learner.agent.steps == 200 and built["held"].learner.agent.steps == 200


def test_figures_and_report_judge_it_by_its_decisions(results):
    judged = figures.Judged(results)
    assert judged.conditions == dict(enumerate(["decisions", "replay", "replay", "replay", "decisions", "decisions"]))
    assert figures.regret_column([results]) == "decisions_regret"
    rows = statistics.table(results)
    words = report._verdict(rows)
    assert "These do not say which policies they follow and are judged by decisions: Silent." in words
    broken = re.search(r"violated by (.*?)\. ", words).group(1)
    violated = np.sum(results.column(settings(results)["silent"], "decisions_violations_total") > 0)
    assert violated > 0 and f"Silent in {violated} of 2 runs" in broken
    cells = report._results(rows, results)
    assert cells.count("<td>–</td>") >= 6


@pytest.mark.slow
def test_the_report_is_written(results):
    assert "judged by decisions: Silent" in report.make_report(results).read_text()


def test_progress_counts_violations_of_decisions_too(results):
    parts = [row for row in results.runs.to_pylist() if row["agent"] == "silent"]
    display = Display(results.study, [], {}, quiet=True)
    for row in parts:
        display._tally(row)
    assert display.violated[0] == sum(row["decisions_violations_total"] > 0 for row in parts) > 0


def test_a_setting_whose_runs_are_known_only_in_part_is_judged_by_decisions():
    assert columns.judged_by("replay", None) == columns.judged_by(None, None) == "decisions"
    assert columns.judged_by("replay", 0) == "replay" and columns.judged_by(None, 0) is None


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("mine_agents:Lame", "agents.silent: Lame has no act"),
        ("QLearning", "missing 1 required keyword-only argument: 'span'"),
    ],
)
def test_every_fault_is_found_before_the_first_run(results, kind, words):
    study = studies.parse(
        tomllib.loads(STUDY.replace('"mine_agents:Silent"\n[agents.telling]', f'"{kind}"\n[agents.telling]'))
    )
    with pytest.raises(InvalidInput, match=words):
        building.check(study, allow_code=True)


def test_a_study_of_episodes_plays_any_agent(results):
    agents = {"mine": {"kind": "mine_agents:Silent"}}
    study = {"name": "e", "episodes": 20, "problem": "gridworld", "agents": agents, "record": {"points": 5}}
    study = studies.parse(study)
    (problem,) = building.check(study, allow_code=True).values()
    row, curve = realisation.run(study, spec.Task(0, 0), problem)
    assert row["steps"] == 20 * problem.horizon and row["distinct_policies"] is None and row["min_margin"] is not None
    assert row["violations_total"] == row["decisions_violations_total"] and len(curve["margin"]) == 5
