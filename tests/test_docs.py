"""What the documents say is true, and they can be read: links lead somewhere, lines are short."""

import re
import sys
from pathlib import Path

import pytest

import surefooted as sf

ROOT = Path(__file__).parent.parent
README, INDEX, FIRST = ROOT / "README.md", ROOT / "docs" / "README.md", ROOT / "docs" / "getting-started.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
PROSE = [*PAGES, ROOT / "benchmarks" / "README.md", ROOT / "CHANGELOG.md"]
COLUMNS, TWO_SCREENS = 120, 90
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT).with_suffix('')}-{i}")
    for page in PAGES
    if not page.stem.startswith("tutorial-")  # see test_tutorials.py
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


def prose(page):
    """The lines of a page without code blocks, with their numbers."""
    code = False
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        code ^= line.lstrip().startswith("```")
        if not code:
            yield number, line


def anchors(page):
    """What a link to a heading of a page ends with, as GitHub makes it: lower case, words joined by hyphens."""
    headings = [line.lstrip("#").strip().lower() for _, line in prose(page) if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("block", BLOCKS)
def test_the_examples_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "example", "exec"), {})


def test_the_numbers_of_the_first_examples_are_right(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    live, exact, _, episodes = re.findall(r"```python\n(.*?)```", FIRST.read_text(), re.DOTALL)
    (short,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    space: dict = {}
    exec(exact, space)
    assert space["known"].gain == pytest.approx(0.4)
    assert space["known"].bias - space["known"].bias[1] == pytest.approx([6.0, 0.0])
    best = sf.solve.optimal_gain(space["mdp"])
    assert best.gain == pytest.approx(0.91) and best.policy.actions.tolist() == [0, 1]
    assert sf.evaluate(space["run"], space["problem"], 0.1).violations == 0
    exec(episodes, space)
    assert sf.evaluate(space["run"], space["problem"], 0.05).violations == 0
    careless = sf.simulate(space["problem"], sf.UCBVI(space["problem"].space, 10), episodes=3000, seed=0)
    assert sf.evaluate(careless, space["problem"], 0.05).violations == pytest.approx(220, abs=10)
    for block, action, budget in ((live, 0, -5.4), (short, 1, 908.0)):
        exec(block, space)
        assert space["decision"].action == action and space["decision"].budget == pytest.approx(budget)
        assert f"# '{space['decision'].reason}'" in block


@pytest.mark.parametrize("page", [*PROSE, ROOT / "CONTRIBUTING.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target, heading in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if target.startswith("https://"):
            continue  # elsewhere
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name} links to {target}"
        assert not heading or heading in anchors(file), f"{page.name} links to {target}#{heading}"


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_prose_are_short(page):
    """Tables and pictures, which cannot be wrapped, are left out."""
    lines = [(number, line) for number, line in prose(page) if not line.lstrip().startswith(("|", "!["))]
    assert [number for number, line in lines if len(line) > COLUMNS] == []


def test_the_readme_is_at_most_two_screens():
    assert len(README.read_text().splitlines()) <= TWO_SCREENS


def test_numbers_in_the_problem_pages_are_what_the_command_prints():
    text = (ROOT / "docs" / "problems.md").read_text()
    solve, problems = sf.solve, sf.problems
    for problem, cells in (
        (problems.inventory(), "0.5304 | 0.4488 | 1.0059"),
        (problems.inventory(normalise="realised"), "0.4919 | 0.4688 | 0.2852"),
        (problems.maintenance(), "0.8884 | 0.8225 | 0.975"),
    ):
        assert cells in text
        played = solve.gain_and_bias(problem.mdp, problem.baseline)
        ours = [solve.optimal_gain(problem.mdp).gain, played.gain, played.span]
        for number, printed in zip(ours, cells.split(" | "), strict=True):
            assert number == pytest.approx(float(printed), abs=0.5 * 10.0 ** -len(printed.split(".")[1]) + 1e-9)
    assert "g* = 0.4286, g_b = 0.005, D = 14.72" in text
    river = problems.riverswim().mdp
    assert round(solve.optimal_gain(river).gain, 4) == 0.4286 and round(solve.diameter(river), 2) == 14.72
    assert f"{solve.worst_case_diameter(problems.garnet().mdp):.2e}" == "2.68e+08"
    assert "D = 148.4" in text and round(solve.diameter(problems.maintenance().mdp), 1) == 148.4


def test_every_page_is_linked_from_the_index_and_the_index_from_the_readme():
    index = INDEX.read_text()
    assert all(f"]({page.name})" in index for page in PAGES[1:] if page != INDEX)
    assert "](docs/README.md)" in README.read_text()


def test_the_version_is_the_same_everywhere():
    for file in ("pyproject.toml", "CITATION.cff"):
        assert re.search(rf'^version(?: =|:) "?{re.escape(sf.__version__)}"?$', (ROOT / file).read_text(), re.MULTILINE)


def test_public_names_are_listed_and_can_be_imported():
    assert sf.__all__ == sorted(sf.__all__) and set(dir(sf)) == set(sf.__all__)
    for name in sf.__all__:
        getattr(sf, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = sf.nonsense


SCRIPTS = [
    path for path in sorted((ROOT / "examples").glob("*.py")) if path.stem != "fleet"
]  # see test_demo_service.py


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_example_scripts_run(script, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(script)])
    space: dict = {"__name__": "__main__"}
    exec(compile(script.read_text(), str(script), "exec"), space)
    assert capsys.readouterr().out


def test_the_page_on_learners_and_its_script_have_the_same_learner_and_it_is_short():
    page, script = (ROOT / "docs" / "adding-a-learner.md").read_text(), ROOT / "examples" / "own_learner.py"
    lines = script.read_text().splitlines()
    assert len(lines) < 80
    first, last = lines.index("    def propose(self) -> sf.Policy:") + 2, lines.index("def main() -> None:") - 2
    assert "\n".join(lines[first:last]) in page


def test_the_page_on_agents_and_its_script_have_the_same_agent():
    page, script = (ROOT / "docs" / "adding-an-agent.md").read_text(), (ROOT / "examples" / "own_agent.py").read_text()
    (agent,) = re.findall(r"class EpsilonGreedy:\n.*?watch = observe.*?\n", script, re.DOTALL)
    without_docstrings = re.sub(r'( def .*\n) {8}""".*?"""\n(?= {8})', r"\1", agent)
    assert without_docstrings in page


def test_what_the_page_on_agents_says_of_its_example_is_true():
    block = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "adding-an-agent.md").read_text(), re.DOTALL)[0]
    space: dict = {}
    exec(block, space)
    result, safe = space["result"], sf.evaluate(space["run"], space["problem"], space["alpha"])
    assert result.judged_by == "decisions" and result.violations > 0 and safe.decisions.violations == 0
