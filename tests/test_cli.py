"""The command line, as a user types it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import surefooted as sf
from surefooted.cli import main
from surefooted.gym.registration import IDS


def run(*arguments, code=0):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == code, result.output
    return result


def test_problems_are_listed_for_people_and_for_machines():
    text = run("problems").stdout
    listed = json.loads(run("problems", "--json").stdout)
    assert [row["name"] for row in listed] == list(sf.problems.ALL)
    assert all(name in text for name in sf.problems.ALL)
    assert list(IDS) == list(sf.problems.ALL)
    assert listed[0]["gymnasium"] == "surefooted/Inventory-v0"


def test_the_version_names_what_computes():
    assert run("--version").stdout.startswith(f"surefooted {sf.__version__} (Python {sys.version.split()[0]}, numpy ")


def test_the_doctor_finds_what_is_there_and_names_a_remedy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    findings = {f["what"]: f for f in json.loads(run("doctor", "--json").stdout)}
    assert findings["numpy"] == {"what": "numpy", "found": np.__version__, "remedy": ""}
    assert findings["a store here"]["found"] == "can be kept" and list(tmp_path.iterdir()) == []
    assert 'pip install "surefooted[' in run("doctor").stdout or "extra ray" in findings
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert "unset NUMBA_DISABLE_JIT" in run("doctor", code=1).stderr


@pytest.mark.parametrize(("typed", "completed"), [("in", ["inventory"]), ("my", ["my"])])
def test_names_of_problems_are_completed_and_files_are(typed, completed):
    from surefooted.cli.completion import problem_names

    found = problem_names(None, None, typed)
    assert [item.value for item in found] == completed
    assert [item.type for item in found] == ["plain" if typed == "in" else "file"]


def test_a_problem_is_shown_with_the_papers_numbers_beside_ours():
    lines = run("problems", "inventory").stdout.splitlines()
    assert lines[0].split() == ["inventory", "ours", "the", "paper"]
    gains = {line.rsplit(maxsplit=2)[0].strip(): line.split()[-2:] for line in lines if "gain" in line}
    assert gains == {"optimal gain g*": ["0.530383", "0.603"], "baseline's gain g_b": ["0.448819", "0.565"]}
    facts = json.loads(run("problems", "inventory", "--json").stdout)
    assert facts["baseline_span"] == pytest.approx(1.0059, abs=5e-5)
    assert facts["paper"] == {"optimal_gain": 0.603, "baseline_gain": 0.565, "baseline_span": 0.651}
    assert (facts["diameter"], facts["worst_case_diameter"]) == (pytest.approx(7), "inf")


def test_settings_reach_the_problem():
    facts = json.loads(run("problems", "inventory", "--set", "normalise=realised", "--json").stdout)
    assert facts["optimal_gain"] == pytest.approx(0.4919, abs=5e-5)
    noisy = run("problems", "riverswim", "--set", "noise=uniform:0.1", "--set", "n_states=4", "--json").stdout
    assert json.loads(noisy)["reward_noise"] == "uniform (0.1)" and json.loads(noisy)["n_states"] == 4
    ranged = run("problems", "inventory", "--set", "normalise=[-22, 42]", "--json").stdout
    assert json.loads(ranged)["baseline_gain"] == pytest.approx(0.46875)


def test_a_finite_horizon_problem_shows_its_values():
    facts = json.loads(run("problems", "gridworld", "--json").stdout)
    assert (facts["optimal_value"], facts["baseline_value"]) == (pytest.approx(8.0), pytest.approx(7.15))


@pytest.mark.slow
def test_pictures_and_files(tmp_path):
    picture, file = tmp_path / "grid.png", tmp_path / "grid.npz"
    run("problems", "gridworld", "--picture", str(picture), "--save", str(file))
    assert picture.read_bytes().startswith(b"\x89PNG") and sf.Problem.load(file).horizon == 10
    solved = json.loads(run("solve", str(file), "--json").stdout)
    assert solved["optimal_value"] == pytest.approx(8.0) and np.shape(solved["optimal_policy"]) == (10, 12)
    run("solve", str(file), "--picture", str(tmp_path / "again.pdf"))
    assert (tmp_path / "again.pdf").read_bytes().startswith(b"%PDF")


def test_a_bare_table_is_solved_but_not_drawn(tmp_path):
    file = tmp_path / "river.npz"
    sf.problems.riverswim().mdp.save(file)
    solved = json.loads(run("solve", str(file), "--json").stdout)
    assert solved["optimal_gain"] == pytest.approx(0.428622, abs=1e-6) and solved["optimal_policy"] == [1] * 6
    assert "optimal gain g*" in run("solve", str(file)).stdout
    assert "without a baseline" in run("solve", str(file), "--picture", "x.png", code=2).stderr


def test_a_table_with_several_optimal_gains_says_so(tmp_path):
    file = tmp_path / "islands.npz"
    sf.TabularMDP.from_arrays(np.eye(2)[:, None, :], [[0.2], [0.7]]).save(file)
    assert "0.2 to 0.7, depending on the state" in run("solve", str(file)).stdout


def test_large_problems_skip_diameters_unless_asked():
    facts = json.loads(run("problems", "garnet", "--set", "n_states=301", "--json").stdout)
    assert facts["diameter"] is None
    shown = run("problems", "garnet", "--set", "n_states=20", "--no-diameter").stdout
    assert "not computed (--diameter)" in shown


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (["problms"], 2, "did you mean 'problems'?"),
        (["zzz"], 2, "there are certify, compare, doctor, figures, forecast, live, logs, problems"),
        (["problems", "inventry"], 2, "did you mean 'inventory'?"),
        (["problems", "inventory", "--set", "capcity=3"], 2, "did you mean 'capacity'?"),
        (["problems", "inventory", "--set", "capacity"], 2, "write KEY=VALUE"),
        (["problems", "inventory", "--set", "capacity=many"], 1, "capacity many must be a positive whole number"),
        (["problems", "inventory", "--set", "price=high"], 1, "price 'high' must be a number per unit"),
        (["problems", "inventory", "--set", "demand=high"], 2, "inventory cannot be built with these parameters"),
        (["problems", "inventory", "--set", "capacity=0"], 1, "capacity 0 must be a positive whole number"),
        (["problems", "inventory", "--set", "noise=pink"], 1, "the kinds are"),
        (["problems", "inventory", "--picture", "no/such/folder/x.png"], 1, "cannot draw to"),
        (["problems", "--picture", "x.png"], 2, "need the name of a problem"),
        (["solve", "nothing.npz"], 1, "nothing.npz: no such file"),
        (["solve", __file__], 1, "not a readable .npz file"),
    ],
)
def test_mistakes_are_explained(arguments, code, words):
    result = run(*arguments, code=code)
    assert words in result.stderr and "Traceback" not in result.output


def test_output_can_be_piped_and_the_module_is_a_command():
    shown = subprocess.run([sys.executable, "-m", "surefooted", "problems"], capture_output=True, text=True, check=True)
    assert "\x1b" not in shown.stdout and shown.stdout.startswith("problem ")
    assert shown.stderr.strip() == "surefooted problems NAME shows one of them."


def test_help_imports_nothing_heavy():
    heavy = ["numpy", "numba", "matplotlib", "gymnasium"]
    code = f"import sys, surefooted.cli; print([m for m in {heavy} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_every_command_and_option_is_documented():
    text = (Path(__file__).parent.parent / "docs" / "command-line.md").read_text()
    for name, command in main.commands.items():
        assert f"## surefooted {name}" in text and command.help
        for option in command.params:
            assert all(word in text for word in option.opts if word.startswith("--")), (name, option.opts)
