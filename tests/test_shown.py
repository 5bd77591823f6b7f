"""What terminals and notebooks show: one short line, a small table in which nothing is obeyed, and no other backend."""

import re

import matplotlib
import numpy as np
import pytest

import surefooted as sf
from surefooted.evaluation.pictures import draw_sketch
from surefooted.evaluation.sketch import sketch
from surefooted.studies.figures import styled

RIVER = sf.problems.riverswim()
GRID = sf.problems.gridworld()


def shown(tmp_path):
    river, grid = sf.UCRL2(RIVER.space), sf.UCBVI(GRID.space, GRID.horizon)
    run, episodes = sf.simulate(RIVER, river, 2000), sf.simulate(GRID, grid, episodes=50)
    sf.write_history(str(tmp_path / "log.parquet"), run)
    history = sf.read_history(str(tmp_path / "log.parquet"), RIVER.space)
    fixed = sf.agents.FixedPolicy(RIVER.baseline)
    results = [sf.evaluate(run, RIVER, 0.1), sf.evaluate(episodes, GRID, 0.1)]
    q = sf.QLearning(RIVER.space, steps=10, span=1.0)
    many = [RIVER, GRID, RIVER.baseline, GRID.baseline, run, episodes, river, grid, river.learner, history, fixed, q]
    return [*many, *results, results[0].decisions]


def test_everything_is_one_short_line_and_a_small_table(tmp_path):
    for thing in shown(tmp_path):
        line, table = repr(thing), thing._repr_html_()
        assert "\n" not in line and len(line) < 200 and "object at" not in line, line
        assert line.startswith(type(thing).__name__) and table.startswith("<table") and len(table) < 2500


def test_the_lines_say_what_matters():
    agent = sf.UCRL2(RIVER.space)
    run = sf.simulate(RIVER, agent, 100, seed=0)
    earned = f"{run.rewards.sum():.6g}"
    assert repr(run) == f"Run(steps=100, start=0, earned={earned}, baseline_steps=0, policies={len(run.policies)})"
    assert repr(agent) == "UCRL2(states=6, pairs=12, steps_played=100)"
    assert repr(RIVER) == "Problem(name=riverswim, states=6, pairs=12, horizon=none, start=0, rewards=[0, 1])"
    result = sf.evaluate(run, RIVER, 0.1)
    assert f"judged_by=replay, length=100, violations={result.violations}, smallest=" in repr(result)
    baseline = sf.Baseline(RIVER.baseline)
    careful = sf.CUCRL2(RIVER.space, baseline=baseline, alpha=0.1)
    assert repr(careful) == "CUCRL2(states=6, pairs=12, alpha=0.1, condition=replay, steps_played=0)"
    assert "<td>in 5</td><td>0</td>" in RIVER.baseline._repr_html_()
    unknown = sf.simulate(RIVER, Silent(), 5)
    assert "policies=not said" in repr(unknown)


class Silent:
    def begin(self, s):
        pass

    def act(self, s):
        return 0

    def observe(self, s, a, r, s_next):
        pass


def test_names_are_shown_and_not_obeyed():
    space = sf.Space.full(1, 1, states=["<script>"], actions=["<b>"])
    table = sf.Policy.always(space, 0)._repr_html_()
    assert "&lt;script&gt;" in table and "<script" not in table and "<b>" not in table


@pytest.mark.parametrize("backend", ["svg", "pdf"])
def test_drawing_changes_neither_the_backend_nor_the_settings(backend):
    before = matplotlib.get_backend()
    matplotlib.use(backend)
    settings = {key: value for key, value in dict(matplotlib.rcParams).items() if not key.startswith("_")}
    try:
        with styled():
            draw_sketch(sketch(RIVER))
        assert matplotlib.get_backend().lower() == backend
        assert all(np.all(matplotlib.rcParams[key] == value) for key, value in settings.items())
    finally:
        matplotlib.use(before)


def test_a_line_names_no_array(tmp_path):
    assert not any(re.search(r"array\(|\[\d+ \d+", repr(thing)) for thing in shown(tmp_path))
