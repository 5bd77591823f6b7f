"""`make release` refuses what is stale; the README of a distribution has no link that leads nowhere."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tools"))
import release  # noqa: E402
import try_out  # noqa: E402


@pytest.fixture
def files(monkeypatch):
    """The files that release.py reads; a test may change them."""
    found = {
        "pyproject.toml": '[project]\nversion = "1.2.0"\n',
        "src/surefooted/__init__.py": '__version__ = "1.2.0"\n',
        "CITATION.cff": 'version: 1.2.0\ndate-released: "2030-01-02"\n',
        "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n## 1.2.0 - 2030-01-02\n\n### Added\n- All of it.\n",
        "docs/numbers.md": "| [README](../README.md) | all | `make demo` | 2100-01-01 |\n",
    }
    monkeypatch.setattr(release, "read", found.__getitem__)
    monkeypatch.setattr(release, "git", lambda *arguments: "v1.1.0" if arguments[0] == "tag" else "")
    return found


def test_a_release_that_is_not_stale_passes(files):
    assert [*release.versions(), *release.numbers()] == []


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("CITATION.cff", "version: 1.2.0", "version: 1.1.0", "CITATION.cff says 1.1.0, pyproject.toml says 1.2.0"),
        ("src/surefooted/__init__.py", "1.2.0", "1.3.0", "__init__.py says 1.3.0"),
        ("CITATION.cff", "2030-01-02", "2030-01-03", "another date than CHANGELOG.md, 2030-01-02"),
        ("CHANGELOG.md", "## Unreleased\n", "## Unreleased\n\n### Fixed\n- This.\n", "entries under Unreleased"),
        ("CHANGELOG.md", "## 1.2.0 - 2030-01-02", "## 1.2.0", "must be `1.2.0 - YYYY-MM-DD`"),
        ("CHANGELOG.md", "## 1.2.0 - 2030-01-02", "## 1.1.0 - 2030-01-02", "must be `1.2.0 - YYYY-MM-DD`"),
        ("docs/numbers.md", "2100-01-01", "2020-01-01", "the numbers of `make demo` are of 2020-01-01"),
    ],
)
def test_what_is_stale_is_named(files, name, old, new, said):
    files[name] = files[name].replace(old, new)
    found = [*release.versions(), *release.numbers()]
    assert len(found) == 1 and said in found[0]


def test_a_version_that_was_released_already_is_refused(files, monkeypatch):
    monkeypatch.setattr(release, "git", lambda *arguments: "v1.1.0\nv1.2.0")
    assert "not newer than the tags 1.1.0, 1.2.0" in next(release.versions())


def test_a_changed_tree_and_a_commit_that_was_not_verified_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(release, "VERIFIED", tmp_path / "verified")
    monkeypatch.setattr(release, "git", lambda *arguments: " M README.md" if arguments[0] == "status" else "abc")
    assert len([*release.tree()]) == 2
    (tmp_path / "verified").write_text("abc\n")
    assert [*release.tree()] == ["the working tree has changes: commit them"]


def test_nothing_is_built_if_something_is_stale(monkeypatch, capsys):
    monkeypatch.setattr(release, "CHECKS", (lambda: iter(["it is stale"]),))
    monkeypatch.setattr(release, "build", lambda: pytest.fail("it was built"))
    assert release.main([]) == 1 and "it is stale" in capsys.readouterr().out


def test_this_interpreter_is_among_those_that_are_found(monkeypatch, tmp_path):
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    (tmp_path / f"python{version}").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    found = dict(try_out.pythons())
    assert found[version] == str(Path(sys.executable).resolve()) and list(found) == list(try_out.VERSIONS)


def test_the_readme_of_a_distribution_has_links_that_work_elsewhere():
    pytest.importorskip("hatchling", reason="hatchling builds distributions, in an environment of its own")
    from readme import for_an_index

    text = (ROOT / "README.md").read_text()
    without, home = for_an_index(text, None), for_an_index(text, "https://example.org/blob/v1")
    assert re.findall(r"\]\((?!https://)", without + home) == []
    assert "https://example.org/blob/v1/docs/getting-started.md" in home and "![" not in without and "![" in home
