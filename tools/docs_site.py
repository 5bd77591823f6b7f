"""What mkdocs needs to make a site of docs/: pages from elsewhere in the repository, and the reference of public names.

- Pages that stand elsewhere (`ELSEWHERE`) become pages of the site, and links to them lead there.
- Links to other files of the repository lead to SUREFOOTED_HOME (see tools/readme.py), or become plain words.
- `api.md` lists every public name with its docstring.
"""

import os
import re
import sys
from pathlib import Path
from typing import Any

from griffe import Extension
from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
ELSEWHERE = {"benchmarks/README.md": "benchmarks.md", "CONTRIBUTING.md": "contributing.md",
             "CHANGELOG.md": "changelog.md", "README.md": "README.md", "SECURITY.md": "security-policy.md"}  # fmt: skip
SHOWN = ("benchmarks/README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
WORDS = re.compile(r"!?\[([^\[\]]*)\]\(gone:\)")
PARAMETERS = re.compile(r"^Parameters\n-+\n(.*?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
PARAMETER = re.compile(r"^((?:\w+, )*\w+) : ")
TITLE = re.compile(r"^Examples?\n-+\n", re.MULTILINE)
DOCTEST = re.compile(r"^( *)>>> (?:.*\n?)(?:^\1\S.*\n?)*", re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that do not stand in docs/."""
    for name in SHOWN:
        text = moved((ROOT / name).read_text(encoding="utf-8"), Path(name).parent)
        files.append(File.generated(config, ELSEWHERE[name], content=text))
    files.append(File.generated(config, "api.md", content=reference()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of a page in docs/."""
    return markdown if page.file.generated_by else moved(markdown, Path("docs"))


def moved(text: str, folder: Path) -> str:
    """The text of a page in this folder of the repository, with links as they are on the site."""
    home = os.environ.get("SUREFOOTED_HOME", "").rstrip("/")

    def replaced(link: re.Match[str]) -> str:
        target, heading = link[1], link[2] or ""
        path = os.path.normpath(folder / target)
        if path in ELSEWHERE:
            return f"]({ELSEWHERE[path]}{heading})"
        if path.startswith("docs/"):
            return f"]({path.removeprefix('docs/')}{heading})"
        return f"]({home}/{path}{heading})" if home else "](gone:)"

    text = text.replace("```python no-run", "```python")  # a word for tests/test_docs.py
    return WORDS.sub(r"\1", LINK.sub(replaced, text))


def reference() -> str:
    """A page with every public name."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]
    from public_names import public_names

    import surefooted

    lines, last = ["# Python reference", "", "Every public name, with its parameters and an example.", ""], ""
    for group, name, value in public_names():
        if group != last:
            about = (getattr(surefooted, group).__doc__ or "").strip().splitlines()[0]
            lines, last = [*lines, f"## surefooted.{group}", "", about, ""], group
        lines += [f"::: {value.__module__}.{name}", *(["    options:", "      heading_level: 3"] if group else []), ""]
    return "\n".join(lines)


class Docstrings(Extension):
    """Docstrings as Markdown: parameters as a list, and examples as code."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Rewrite the docstring of a function, class or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = DOCTEST.sub(_fenced, as_list(obj.docstring.value))


def as_list(docstring: str) -> str:
    """The docstring with its section of parameters as a list, and without the titles of sections."""
    return TITLE.sub("", PARAMETERS.sub(_listed, docstring))


def _listed(section: re.Match[str]) -> str:
    lines = [PARAMETER.sub(_item, line) for line in section[1].splitlines()]
    return "\n".join(lines) + "\n"


def _item(line: re.Match[str]) -> str:
    return "- " + ", ".join(f"`{name}`" for name in line[1].split(", ")) + ": "


def _fenced(block: re.Match[str]) -> str:
    indent = block[1]
    lines = [line.removeprefix(indent) for line in block[0].rstrip("\n").splitlines()]
    return "\n".join(["```pycon", *lines, "```", ""])
