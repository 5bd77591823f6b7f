"""docs/security.md, line by line: what a file that somebody sent can do, and what it cannot."""

import base64
import hashlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import surefooted as sf
from study_help import inline
from surefooted import studies
from surefooted.cli import main
from surefooted.errors import InvalidInput, SurefootedError, UnreadableFile
from surefooted.studies import building, engines, figures, parts, report
from surefooted.tables import files
from test_studies_files import _inline as _inline  # no processes in this file, either

SMALL = """
name = "small"
steps = 60
realisations = 2
problem = "riverswim"
agents = { ucrl2 = { kind = "UCRL2" } }
record = { points = 6 }
"""
TOUCH = '[problem]\nname = "subprocess:call"\nargs = ["touch", "pwned"]\n'
HOSTILE = SMALL.replace('problem = "riverswim"\n', "") + TOUCH


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.fixture
def out(here):
    """The directory of a finished study."""
    return studies.run_study(studies.parse(tomllib.loads(SMALL)), here / "out").path


def surefooted(*arguments):
    """The command, in a process of its own, started as the script `surefooted` starts it."""
    started = [sys.executable, "-c", "from surefooted.cli import main; main()", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    return subprocess.run(
        [started[0], "-P", *started[1:]], capture_output=True, text=True, check=False, timeout=300, env=environment
    )


# -- reading results --------------------------------------------------------------------------------------------------

READING = (
    ["verify", "out"],
    ["report", "out"],
    ["figures", "out", "--format", "svg"],
    ["compare", "out", "out", "--format", "svg"],
)


def make_hostile(out):
    """Rename the problem and the agents of a directory of results, so that all its files fit together."""
    spec = tomllib.loads((out / "study.toml").read_text())
    spec["problem"] = {"name": "subprocess:call", "args": ["touch", "pwned"]}
    spec["agents"]["ucrl2"] |= {"kind": "hostile:Agent", "knowledge": "hostile:f", "confidence": "hostile:g"}
    spec["agents"]["ucrl2"]["learner"] = {"kind": "hostile:h"}
    study = studies.parse(spec)
    (out / "study.toml").write_text(study.to_toml())
    for part in (out / "parts").iterdir():
        table = pq.read_table(part)
        (setting,) = study.settings
        ours = {"study": study.identity, "setting": setting.key}
        content = json.loads(table.schema.metadata[b"surefooted"]) | ours
        content["digest"] = parts.digest(content, table)
        pq.write_table(table.replace_schema_metadata({"surefooted": json.dumps(content)}), part)
    for name in ("runs.parquet", "curves.parquet"):
        table = pq.read_table(out / name)
        for column, word in (("problem", setting.on), ("label", setting.label)):
            at, named = table.column_names.index(column), pa.array([word] * len(table), pa.string())
            table = table.set_column(at, column, named)
        pq.write_table(parts.signed(table, study.identity), out / name)
    stored = {name: value for name, value in np.load(out / "truth.npz").items() if name not in ("digest", "format")}
    stored["study"] = np.asarray(study.identity)
    np.savez(out / "truth.npz", digest=files.digest(stored), **stored)
    about = json.loads((out / "manifest.json").read_text()) | {"identity": study.identity}
    about["study_sha256"] = hashlib.sha256((out / "study.toml").read_bytes()).hexdigest()
    about["digest"] = parts.digest(about)
    (out / "manifest.json").write_text(json.dumps(about))
    Path("hostile.py").write_text("open('pwned', 'w')\n")
    return study


@pytest.mark.slow
def test_reading_results_runs_nothing_that_they_name(out):
    study = make_hostile(out)
    assert study.code == ["subprocess:call", "hostile:Agent", "hostile:f", "hostile:g", "hostile:h"]
    for command in READING:
        done = surefooted(*command)
        assert done.returncode == 0, done.stderr
    assert not Path("pwned").exists() and Path("out/report.html").exists()


class Touch:
    """A pickle that makes a file when it is loaded."""

    def __reduce__(self):
        return open, ("pwned", "w")


def test_reading_results_loads_no_pickle(out):
    """An old way in: a type of an Arrow column, or an array of objects, can carry a pickle."""
    table = pq.read_table(out / "runs.parquet")
    kind = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": pickle.dumps(Touch())}
    field = pa.field("regret", pa.float64(), metadata=kind)
    pq.write_table(table.cast(table.schema.set(table.column_names.index("regret"), field)), out / "runs.parquet")
    stored = dict(np.load(out / "truth.npz"))
    np.savez(out / "truth.npz", **(stored | {"step": np.array([Touch()], dtype=object)}))
    assert studies.load(out).truth is None
    with pytest.raises(UnreadableFile):
        sf.Problem.load(out / "truth.npz")
    assert not Path("pwned").exists()


@pytest.mark.slow
def test_a_matplotlibrc_in_the_directory_imports_nothing_and_changes_nothing(out):
    plain = figures.make_figures(studies.load(out), "plain", ("png",))
    Path("hostile.py").write_text("open('pwned', 'w')\n")
    Path("matplotlibrc").write_text("backend: module://hostile\ntext.usetex: True\nfigure.figsize: 2, 2\n")
    done = surefooted("figures", "out", "--out", "again", "--format", "png")
    assert done.returncode == 0, done.stderr
    assert not Path("pwned").exists()
    assert [file.read_bytes() for file in plain] == [(Path("again") / file.name).read_bytes() for file in plain]


def test_a_numba_config_in_the_directory_does_not_say_where_compiled_code_is(here):
    """numba reads `.numba_config.yaml` in the current directory; kernels are executed, so they come from elsewhere."""
    Path(".numba_config.yaml").write_text("cache_dir: planted\n")
    code = "from surefooted.kernels.cache import places; print(*places().read, places().write)"
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert "planted" not in done.stdout and not Path("planted").exists()


def test_a_link_in_the_directory_is_replaced_and_not_followed(out):
    Path("precious").write_text("mine")
    (out / "figures").mkdir()
    for link in ("report.html", "figures/regret.png", "figures/overview.png"):
        (out / link).symlink_to(Path("precious").resolve())
    report.make_report(studies.load(out))
    assert Path("precious").read_text() == "mine" and not (out / "report.html").is_symlink()


@pytest.mark.first(1)
@pytest.mark.parametrize("title", ["costs $\\frac{$", "$x_$ and $", "_"])
def test_no_word_of_the_files_is_taken_for_a_formula(out, title):
    found = studies.load(out)
    study = found.study.model_copy(update={"title": title})
    figures.make_figures(studies.Results(study, found.runs, found.curves, {}, out, found.truths), "drawn", ("svg",))


# -- own code ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("allow", [[], ["--allow-code"]])
def test_a_study_that_names_a_function_of_python_runs_nothing(here, allow):
    Path("study.toml").write_text(HOSTILE)
    done = CliRunner().invoke(main, ["run", "study.toml", "--out", "out", *allow])
    assert done.exit_code == 1 and "subprocess:call" in done.output and not Path("pwned").exists()
    assert not Path("out").exists()


PLACES = [
    ("problem", "problem='mine_code:river'"),
    ("agent", "agents.ucrl2.kind='mine_code:Agent'"),
    ("confidence", "agents.ucrl2.confidence='mine_code:wide'"),
    ("knowledge", "agents.ucrl2.knowledge='mine_code:known'"),
    ("learner", "agents.c={kind='CUCRL2', learner='mine_code:Agent'}"),
    ("kind of a learner", "agents.c={kind='CUCRL2', learner={kind='mine_code:Agent'}}"),
    ("confidence of a learner", "agents.c={kind='CUCRL2', learner={kind='UCRL2', confidence='mine_code:wide'}}"),
]
MODULE = """
import surefooted as sf
open("pwned", "w").close()
def river():
    return sf.problems.riverswim()
def wide(counts, **options):
    return sf.confidence.hoeffding(counts, **options)
def known(problem):
    return problem.knowledge("rewards")
class Agent(sf.UCRL2):
    pass
"""


@pytest.mark.parametrize(("where", "override"), PLACES, ids=[where for where, _ in PLACES])
def test_code_of_a_study_is_refused_unless_it_is_allowed_wherever_it_stands(here, where, override):
    Path("mine_code.py").write_text(MODULE)
    Path("study.toml").write_text(SMALL)
    study = studies.read("study.toml", [override])
    assert len(study.code) == 1 and study.code[0].startswith("mine_code:")
    with pytest.raises(InvalidInput, match="only if you allow it"):
        studies.run_study(study, "out")
    with pytest.raises(InvalidInput, match="only if you allow it"):
        building.check(study)
    with pytest.raises(SurefootedError, match="only if you allow it"):  # each place asks by itself, too
        problem = building.build_problem(study.problem)
        for setting in study.settings:
            building.build_agent(study, setting, problem, np.random.SeedSequence(0))
    done = CliRunner().invoke(main, ["run", "study.toml", "--set", override])
    assert done.exit_code == 1 and study.code[0] in done.output and "--allow-code" in done.output
    assert not Path("pwned").exists() and "mine_code" not in sys.modules and not Path("out").exists()


def test_code_that_is_allowed_is_named_before_it_runs(here):
    Path("mine_code.py").write_text(MODULE)
    Path("study.toml").write_text(SMALL.replace('"UCRL2"', '"mine_code:Agent"'))
    done = CliRunner().invoke(main, ["run", "study.toml", "--allow-code", "--quiet", "--out", "out"])
    assert done.exit_code == 0, done.output
    assert f"study.toml runs this code: mine_code:Agent ({here / 'mine_code.py'})" in done.stderr
    assert Path("pwned").exists()
    sys.modules.pop("mine_code", None)
    shutil.rmtree("out/parts")
    Path("out/truth.npz").unlink()
    assert "--allow-code" in studies.load("out").lack  # how to add it


def test_the_command_to_go_on_allows_what_was_allowed(here, monkeypatch):
    def stopped(study, todo, jobs, address=None):
        yield from inline(study, todo[:1], jobs)
        raise KeyboardInterrupt

    monkeypatch.setitem(engines.ENGINES, "local", stopped)
    Path("mine_code.py").write_text(MODULE)
    raw = tomllib.loads(SMALL) | {"problem": "mine_code:river"}
    with pytest.raises(SurefootedError, match="--out out --allow-code"):
        studies.run_study(studies.parse(raw), "out", allow_code=True)
    sys.modules.pop("mine_code", None)


def test_a_name_leads_nowhere_but_to_its_directory(here):
    for name in ("..", "../x", "/etc", "a/b", ""):
        with pytest.raises(InvalidInput, match="name"):
            studies.parse(tomllib.loads(SMALL) | {"name": name})


# -- the report -------------------------------------------------------------------------------------------------------

ATTACK = "</pre><script>document.title='pwned'</script><img src=x onerror=alert(1)>'\"&"


class Elements(HTMLParser):
    """The elements of a page, and the text of its style."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.style, self._inside = [], "", ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._inside = tag

    def handle_data(self, data):
        self.style += data if self._inside == "style" else ""


def hostile_page(out):
    found = studies.load(out)
    study = found.study.model_copy(update={"title": ATTACK, "about": ATTACK})
    about = {
        "python": ATTACK,
        "commit": {ATTACK: ATTACK},
        "versions": {ATTACK: ATTACK},
        "sessions": [{"differences": [ATTACK]}],
    }
    remarks = (ATTACK,)
    results = studies.Results(study, found.runs, found.curves, about, out, found.truths, remarks)
    return report.make_report(results, drawn=[Path(__file__).parent.parent / "docs" / "inventory.png"])


def test_every_field_of_the_report_is_escaped_and_its_policy_allows_no_script(out):
    page = hostile_page(out).read_text(encoding="utf-8")
    found = Elements(page)
    assert not {"script", "iframe", "object", "form", "link", "base", "a"} & {tag for tag, _ in found.tags}
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert page.count("&lt;script&gt;") >= 6 and "onerror=alert(1)>" not in page
    (policy,) = [about["content"] for tag, about in found.tags if tag == "meta" and "http-equiv" in about]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["img-src"] == "data:" and "script-src" not in rules
    allowed = re.fullmatch(r"'sha256-(.+)'", rules["style-src"])[1]
    assert base64.b64decode(allowed) == hashlib.sha256(found.style.encode()).digest()
    assert page.index("Content-Security-Policy") < page.index("<style>")


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "about", [{}, {"versions": 3, "commit": 4, "python": None}, {"versions": ["x"], "sessions": 1}]
)
def test_any_manifest_can_be_reported(out, about):
    found = studies.load(out)
    results = studies.Results(found.study, found.runs, found.curves, about, out, found.truths)
    report.make_report(results, drawn=[Path("a.pdf")])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_shows_the_report_with_its_style_and_runs_nothing(out):
    page = hostile_page(out)
    planted = page.read_text(encoding="utf-8").replace("</body>", "<script>document.title = 'pwned'</script></body>")
    page.write_text(planted, encoding="utf-8")  # even a script that got into the page is not run
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=profile", "--dump-dom"]
    shown = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=True).stdout
    assert "<h1>" in shown and "<title>pwned" not in shown
