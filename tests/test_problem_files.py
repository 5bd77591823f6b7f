"""Problem files: formulas that are never executed, faults with their lines, and the examples."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import surefooted as sf
from study_help import without_processes
from surefooted.cli import main
from surefooted.errors import InvalidInput, UnreadableFile
from surefooted.problems import expressions
from surefooted.problems.expressions import Formula
from surefooted.problems.file_lines import lines_of

EXAMPLES = Path(__file__).parent.parent / "examples"
SMALL = """
name = "small"
states.values = ["fine", "worn"]
actions.values = ["run", "repair"]
baseline.table = {fine = "run", worn = "run"}
"""


def write(tmp_path, text):
    path = tmp_path / "p.toml"
    path.write_text(text, encoding="utf-8")
    return path


def faults(tmp_path, text, **options):
    with pytest.raises(InvalidInput) as error:
        sf.problems.load(write(tmp_path, text), **options)
    return error.value.faults


terms = st.recursive(
    st.sampled_from(["x", "y", "2", "7", "1.5"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"max({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"min({t[0]}, {t[1]}, 3)"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} < {t[2]} else -{t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"(1 if {t[0]} <= {t[1]} < 9 and not {t[0]} == 2 else abs({t[1]}))"),
        st.tuples(inner, inner).map(lambda t: f"(3 if {t[0]} in (1, {t[1]}) or {t[0]} > 5 else floor({t[1]} / 2))"),
    ),
    max_leaves=8,
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(text=terms, x=st.integers(-9, 9), y=st.integers(-9, 9))
def test_a_formula_means_what_python_means_by_it(text, x, y):
    names = {"x": x, "y": y, "floor": np.floor, "max": max, "min": min, "abs": abs}
    assert Formula(text, ["x", "y"])(x=x, y=y) == eval(text, {"__builtins__": {}}, names)


ATTACKS = [
    "__import__('os').system('true')",
    "().__class__.__bases__[0].__subclasses__()",
    "x.real",
    "x[0]",
    "(lambda: 1)()",
    "[a for a in (1, 2)]",
    "open('f')",
    "eval('1')",
    "print(1)",
    "x := 3",
    "f'{x}'",
    "max(*(1, 2))",
    "max(1, 2, key=abs)",
    "9 ** 9 ** 9",
    "b'x'",
    "1j",
    "...",
    "None",
    "x; y",
    "import os",
    "1e400",
    "(" * 200 + "x" + ")" * 200 + "+1" * 900,
    "'a' * 10**9",
    "await x",
    "{1: 2}",
    "y",
    "min(x)",
    "",
    "x +",
]


@pytest.mark.parametrize("text", ATTACKS, ids=lambda text: text[:20])
def test_nothing_but_arithmetic_can_stand_in_a_formula(text):
    with pytest.raises(InvalidInput, match="is not a formula"):
        Formula(text, ["x"])(x=1)


def test_numbers_stay_small_and_faults_name_the_values():
    for text, said in [
        ("x / (x - 1)", "divides by zero for x = 1"),
        ("x + 'a'", "not a number"),
        ("x * 1e15 * 9", "large"),
    ]:
        with pytest.raises(InvalidInput, match=said):
            Formula(text, ["x"])(x=1)
    assert Formula("round(x / 2)", ["x"])(x=5) == 3  # halves go up, not to even numbers
    assert Formula('"a" if x == "b" else "c"', ["x"])(x="b") == "a"


def test_every_kind_of_node_that_is_accepted_is_interpreted_and_python_itself_is_never_asked():
    source = Path(expressions.__file__).read_text(encoding="utf-8")
    called = {
        node.func.id
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "getattr", "__import__"}


def test_a_small_file(tmp_path):
    problem = sf.problems.load(write(tmp_path, SMALL))
    assert problem.state_labels == ("fine", "worn") and problem.start == 0 and problem.knowledge is None
    assert problem.space.n_pairs == 4 and problem.unit == "" and problem.step is None
    with pytest.raises(InvalidInput, match="no \\[model\\]"):
        problem.true_problem()


FAULTS = [
    ("stepz = 'week'\n", "line 1, stepz: there is no such key; did you mean 'step'?"),
    ("step = 'fortnight'\n", "line 1, step: step 'fortnight': give second"),
    ("start = 'wrn'\n", "line 1, start: there is no state 'wrn'; did you mean 'worn'?"),
    ("rewards = {low = 2, high = 1}\n", "must be (low, high) with low < high"),
    ("actions.available = 'action == repair'\n", "line 1, actions.available: there is no variable 'repair'"),
    ("knowledge.mechanics = 'state'\n", "line 1, knowledge.mechanics: needs knowledge.noise"),
    ("knowledge.successors = {fine = {run = ['gone']}}\n", "there is no state 'gone'"),
    (
        "knowledge.rewards = '5 if state == \"fine\" else 0'\n",
        "line 1, knowledge: state fine, action run: mean reward 5",
    ),
    ("model.transitions = [['fine', 'run', 'fine', 1.0]]\n", "line 1, model: rewards are missing"),
    ("logs.file = 'none.csv'\n", "none.csv: no such file"),
    ("horizon = 0\n", "line 1, horizon"),
    ("promise.delta = 2\n", "line 1, promise.delta"),
]


@pytest.mark.parametrize("line, said", FAULTS, ids=[line.split()[0] for line, _ in FAULTS])
def test_a_fault_has_its_line_and_a_remedy(tmp_path, line, said):
    found = faults(tmp_path, line + SMALL)
    assert any(said in fault for fault in found), found


NEEDS_A_REMEDY = [  # what replaces a line of the shop, and what the error says
    ("alpha = 0.05", "alpha = 5", "for 5 % write alpha=0.05"),
    ("alpha = 0.05", "alpha = 0", "be 0 with an allowance or a tolerance"),
    ("alpha = 0.05", 'alpha = "5%"', "must be one number, as in 0.05 for 5 %, not '5%'"),
    ("alpha = 0.05", "alpha = [0.05, 0.1]", "must be one number, as in 0.05 for 5 %"),
    ("alpha = 0.05", "alpha = 0.05\ndelta = [0.05, 0.1]", "promise.delta: must be one number"),
    ("alpha = 0.05", "alpha = 0.05\ndelta = 5", "must be less than 1, not 5"),
    ("alpha = 0.05", "alpha = 0.05\ntolerance = -3", "tolerance -3.0 must be finite and not negative"),
    ("alpha = 0.05", "alpha = 0.05\ncheckpoints = 0", "a number of steps, as in 91, or a list"),
    ("alpha = 0.05", 'alpha = 0.05\ncondition = "decision"', "must be 'replay' or 'decisions', not 'decision'"),
    ("low = -60", "low = 160", "line 16, rewards: 160, 110 must be (low, high)"),
    ("low = -60", 'low = "-60 €"', "must be one number without a unit, not '-60 €'"),
    ("order_up_to = 9", "order_up_to = 25", "there is no order 25, in stock 0; there are 0, 1, 2, 3, 4, 5, … 12"),
    ('"max(0, stock + order - demand)"', '"stock - demand"', "there is no stock -1, for stock 0, order 0, demand 1"),
    ("stock + order <= 12", "stock + order =< 12", "write <= for =<"),
    ("stock + order <= 12", "stock < 3 && order < 3", "write and for &&"),
    ("start = 6", "start = 60", "there is no stock 60; there are 0, 1, 2, 3, 4, 5, … 12"),
    ("noise = { demand = { from = 0, to = 12 } }", "noise = { demand = 12 }", "give a list, or {from = 0, to = 12}"),
    ('file = "shop.csv"', 'file = "shop.csv"\nencoding = "cp12x"', "encoding 'cp12x': there is none"),
]


@pytest.mark.parametrize("line, mistake, said", NEEDS_A_REMEDY)
def test_a_mistake_in_the_shop_has_one_fault_with_its_remedy(tmp_path, line, mistake, said):
    text = (EXAMPLES / "shop.toml").read_text(encoding="utf-8")
    assert text.count(line) == 1
    (tmp_path / "shop.csv").write_bytes((EXAMPLES / "shop.csv").read_bytes())
    found = faults(tmp_path, text.replace(line, mistake))
    assert len(found) == 1 and said in found[0] and found[0].startswith("line "), found


@pytest.mark.parametrize("line, said", [
    ("alpha = 0,05", "alpha = 0,05. Decimals are written with a point"),
    ("unit = €", 'Texts stand in quotes: "€"'),
    ('unit = "€', "A quote opens and does not close"),
])  # fmt: skip
def test_a_line_that_is_not_toml_is_shown_with_what_is_meant(tmp_path, line, said):
    with pytest.raises(UnreadableFile) as error:
        sf.problems.load(write(tmp_path, f"{SMALL}[rewards]\n{line}\n"))
    assert said in str(error.value)


def test_the_promise_of_a_file_has_checkpoints(tmp_path):
    said = sf.problems.load(write(tmp_path, f"{SMALL}promise = {{alpha = 0.1, checkpoints = [13, 26]}}"))
    assert said.promise.arguments["checkpoints"] == [13, 26]
    agent = sf.CUCRL2(said.space, baseline=said.baseline, **said.promise.arguments)
    assert agent.tolerance.dates == (13, 26)


def test_all_faults_at_once(tmp_path):
    text = (
        SMALL + "start = 'x'\nknowledge.rewards = 'colour'\nknowledge.reward_low = 'state +'\n[promise]\nalpha = 0.1\n"
    )
    found = faults(tmp_path, text.replace('worn = "run"}', 'worn = "drive"}'))
    for word in ("start", "colour", "reward_low", "drive"):
        assert any(word in fault for fault in found), found
    assert len(faults(tmp_path, "nme = 'x'\nhorizon = 'long'\n")) >= 4  # unknown, wrong and missing keys


def test_lines_of_keys():
    text = 'a = 1\n[b]\nc = [\n  1,\n]\n"d e" = """\nx = 3\n"""\nf.g = 2\n[b.h]\ni = 1\n'
    assert lines_of(text) == {"a": 1, "b": 2, "b.c": 3, "b.d e": 6, "b.f.g": 9, "b.h": 10, "b.h.i": 11}


def test_code_runs_only_if_it_is_allowed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stock_mechanics.py").write_text(
        "def after(stock, order, demand):\n    return max(0, stock + order - demand)\n"
    )
    text = (EXAMPLES / "shop.toml").read_text(encoding="utf-8").partition("[logs]")[0]
    path = write(tmp_path, text.replace('"max(0, stock + order - demand)"', '"stock_mechanics:after"'))
    with pytest.raises(InvalidInput, match="names code"):
        sf.problems.load(path)
    said = []
    problem = sf.problems.load(path, allow_code=True, say=said.append)
    plain = sf.problems.load(write(tmp_path, text))
    assert np.array_equal(problem.knowledge.mechanics.next_state, plain.knowledge.mechanics.next_state)
    assert "stock_mechanics:after" in said[0]
    result = CliRunner().invoke(main, ["problems", str(path)])
    assert result.exit_code == 0  # the second file replaced the first


def test_the_shop_is_what_its_file_says():
    shop = sf.problems.load(EXAMPLES / "shop.toml")
    assert shop.space.unit == "€" and (shop.space.low, shop.space.high) == (-60, 110) and str(shop.step) == "week"
    assert shop.baseline.policy.actions.tolist() == [9 - s if s < 6 else 0 for s in range(13)]
    assert shop.space.available.tolist() == [[s + a <= 12 for a in range(13)] for s in range(13)]
    direct = sf.Mechanics.of(shop.space, lambda s, a, d: max(0, s + a - d), 13,
                             reward=lambda s, a, d: 9 * min(s + a, d) - 4 * a - (s + a))  # fmt: skip
    assert np.array_equal(direct.next_state, shop.knowledge.mechanics.next_state)
    assert np.array_equal(direct.reward, shop.knowledge.mechanics.reward)
    assert (shop.history.rows, shop.history.used, shop.history.gaps, shop.history.skipped) == (103, 101, 1, 2)
    agent = sf.CUCRL2(shop.space, baseline=shop.baseline, knowledge=shop.knowledge, **shop.promise.arguments)
    shop.history.into(agent, accidents=shop.accidents)
    agent.begin(shop.start)
    assert agent.act(shop.start).role == "baseline" and not agent.contradictions


def test_the_machine_is_solved_and_the_campaign_has_its_knowledge():
    machine = sf.problems.load(EXAMPLES / "machine.toml").true_problem()
    assert sf.solve.optimal_gain(machine.mdp).policy.actions.tolist() == [0, 1, 1]
    # by hand: 10 days fine, 5 days worn, 1 day broken; 10 days fine, 1 day of repair
    assert sf.solve.gain_and_bias(machine.mdp, machine.baseline).gain == pytest.approx((1000 + 300 - 90) / 16)
    assert sf.solve.optimal_gain(machine.mdp).gain == pytest.approx((1000 - 40) / 11)
    campaign = sf.problems.load(EXAMPLES / "campaign.toml")
    assert campaign.space.n_pairs == 8 and campaign.promise.allowance == 200
    assert campaign.knowledge.declared.successor_state.tolist() == [1, 2] * 8
    assert campaign.baseline.policy.probabilities[2].tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("name", ["shop", "machine", "campaign"])
def test_commands_take_the_examples(name, tmp_path):
    run = CliRunner()
    shown = run.invoke(main, ["problems", str(EXAMPLES / f"{name}.toml")])
    assert shown.exit_code == 0 and "today's policy" in shown.output, shown.output
    content = json.loads(run.invoke(main, ["problems", str(EXAMPLES / f"{name}.toml"), "--json"]).stdout)
    assert content["pairs"] in (91, 6, 8)
    solved = run.invoke(main, ["solve", str(EXAMPLES / f"{name}.toml")])
    assert (solved.exit_code == 0) == (name == "machine")
    if name != "machine":
        assert "[model]" in solved.output


@without_processes()
def test_a_study_takes_a_problem_file(tmp_path):
    (tmp_path / "machine.toml").write_text((EXAMPLES / "machine.toml").read_text(encoding="utf-8"), encoding="utf-8")
    text = 'name = "m"\nsteps = 300\nrealisations = 1\nproblem = "machine.toml"\n'
    text += '[agents.c]\nkind = "CUCRL2"\nalpha = 0.1\n'
    (tmp_path / "study.toml").write_text(text)
    result = CliRunner().invoke(
        main, ["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out"), "--jobs", "1", "--quiet"]
    )
    assert result.exit_code == 0, result.output
    with (tmp_path / "machine.toml").open("a") as file:
        file.write("# changed\n")
    study = sf.studies.load(tmp_path / "out").study
    with pytest.raises(InvalidInput, match="has changed"):
        sf.studies.building.build_problem(study.problem)


def test_logs_on_the_command_line(tmp_path):
    run, log, shop = CliRunner(), str(EXAMPLES / "shop.csv"), str(EXAMPLES / "shop.toml")
    shown = run.invoke(main, ["logs", log, "--problem", shop, "--figure", str(tmp_path / "log.png")])
    assert shown.exit_code == 0 and (tmp_path / "log.png").stat().st_size > 1000
    for words in ("103 rows, 101 used", "siehe Bon", "2 steps are missing", "never played by this policy", "€ 16.78"):
        assert words in shown.output
    content = json.loads(run.invoke(main, ["logs", log, "--problem", shop, "--json"]).stdout)
    assert content["pairs_visited"] == 11 and content["behaviour"]["never"] == 3
    columns = [
        "t=Woche",
        "state=Bestand",
        "action=Bestellung",
        "reward=Gewinn",
        "next_state=Bestand danach",
        "site=Artikel",
    ]
    options = [word for column in columns for word in ("--column", column)] + ["--step", "week"]
    bare = run.invoke(main, ["logs", log, *options, "--site", "B20"])
    assert bare.exit_code == 0 and "8 of 8 pairs visited" in bare.output
    mixed = run.invoke(main, ["logs", log, *options])
    assert mixed.exit_code == 1 and "rows of 2 sites" in mixed.output and "B20: 40 rows" in mixed.output


CALLED = ["--column", "t=Woche", "--column", "state=Bestand", "--column", "action=Bestellung", "--column",
          "reward=Gewinn", "--column", "next_state=Bestand danach"]  # fmt: skip


@pytest.mark.parametrize("options, said", [
    (["logs", "shop.csv"], "--column 'state=stock'; an empty name leaves"),
    (["logs", "shop.csv", *CALLED], "--step 'week', or leave them out: --column t="),
    (["logs", "shop.csv", *CALLED, "--step", "week", "--column", "site=Artikel"], "one of them: --site 'A17'"),
    (["logs", "shop.csv", *CALLED, "--step", "week", "--column", "site=Artikel"], "pool them: --pool"),
    (["logs", "shop.csv", *CALLED, "--step", "week"], "--column site=..."),
    (["logs", "shop.csv", "--figure", "log.docx"], "it must end in .png, .pdf or .svg"),
    (["forecast", "shop.toml", "--figure", "nowhere/f.png"], "in a folder that exists"),
    (["forecast", "shop.toml", "--alpha", "5%"], "'5%' is not a number: write 0.05"),
    (["forecast", "shop.toml", "--alpha", "0,05"], "'0,05' is not a number: write 0.05"),
    (["forecast", "shop.toml", "--alpha", "some"], "'some' is not a number: write 0.05, for 5 %"),
    (["forecast", "shop.toml", "--tolerance", "-1"], "tolerance -1.0 must be finite and not negative"),
])  # fmt: skip
def test_a_mistyped_command_says_what_to_type(options, said, monkeypatch):
    monkeypatch.chdir(EXAMPLES)
    result = CliRunner().invoke(main, options)
    assert result.exit_code in (1, 2) and said in result.output, result.output


def test_a_site_may_be_named_by_several_columns_on_the_command_line(tmp_path):
    text = "Shop;Item;state;action;reward;next_state\nN;a;0;1;3;1\nN;b;1;0;2;0\n"
    (tmp_path / "log.csv").write_text(text, encoding="utf-8")
    named = ["--column", "site=Shop", "--column", "site=Item", "--site", "N / a"]
    result = CliRunner().invoke(main, ["logs", str(tmp_path / "log.csv"), *named])
    assert result.exit_code == 0 and "1 rows, 1 used" in result.output and "1 rows were not asked for" in result.output


def test_amounts_of_a_solved_file_are_in_its_unit():
    result = CliRunner().invoke(main, ["solve", str(EXAMPLES / "machine.toml")])
    assert result.exit_code == 0 and "€ " in next(x for x in result.output.splitlines() if "optimal gain" in x)


def test_a_log_of_quantities_is_not_taken_for_states(tmp_path):
    lines = "\n".join(f"{i},0,1,{i + 1}" for i in range(6000))
    (tmp_path / "log.csv").write_text(f"state,action,reward,next_state\n{lines}\n")
    result = CliRunner().invoke(main, ["logs", str(tmp_path / "log.csv")])
    assert result.exit_code == 1 and "more than 5000 different values: is it a quantity?" in result.output
