"""`make release`: refuse if anything is stale; else build the distributions, try them out, and say what is left to do.

    python tools/release.py          # check and build
    python tools/release.py --check  # check only

Each check yields sentences about what is stale. docs/maintaining.md says what a release is.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from try_out import build, try_out

ROOT = Path(__file__).parent.parent
OLDEST = timedelta(days=90)  # of a long run whose numbers are published
VERIFIED = ROOT / ".venv" / ".verified"  # `make verify` writes the commit here


def git(*arguments: str) -> str:
    """What git says."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def read(name: str) -> str:
    """A file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def version() -> str:
    """The version that is to be released."""
    return str(tomllib.loads(read("pyproject.toml"))["project"]["version"])


def tree() -> Iterator[str]:
    """Nothing uncommitted, and the tests passed on this commit."""
    if git("status", "--porcelain"):
        yield "the working tree has changes: commit them"
    verified = VERIFIED.read_text(encoding="utf-8").split() if VERIFIED.exists() else []
    if git("rev-parse", "HEAD") not in verified:
        yield "`make lint test verify` has not passed on this commit"


def versions() -> Iterator[str]:
    """One version everywhere, newer than the last tag, with a dated section of the changelog."""
    now, places = version(), {}
    written = {"src/surefooted/__init__.py": r'__version__ = "(.+)"', "CITATION.cff": r"^version: (.+)$"}
    for name, pattern in written.items():
        found = re.search(pattern, read(name), re.MULTILINE)
        places[name] = found[1] if found else "no version"
    yield from (f"{name} says {found}, pyproject.toml says {now}" for name, found in places.items() if found != now)
    tags = [tag.removeprefix("v") for tag in git("tag", "--list", "v*").splitlines()]
    if any(_key(tag) >= _key(now) for tag in tags):
        yield f"version {now} is not newer than the tags {', '.join(tags)}"
    yield from _changelog(now)


def _changelog(now: str) -> Iterator[str]:
    """Nothing is unreleased any more, and the dated section is that of this version, with the date of CITATION.cff."""
    _, *sections = re.split(r"^## ", read("CHANGELOG.md"), flags=re.MULTILINE)
    if sections and sections[0].startswith("Unreleased"):
        if sections.pop(0).strip() != "Unreleased":
            yield "CHANGELOG.md has entries under Unreleased: move them to the section of the release"
    dated = re.match(re.escape(now) + r" - (\d{4}-\d\d-\d\d)\n", sections[0] if sections else "")
    if not dated:
        yield f"the first section of CHANGELOG.md but Unreleased must be `{now} - YYYY-MM-DD`"
    elif f'date-released: "{dated[1]}"' not in read("CITATION.cff"):
        yield f"CITATION.cff has another date than CHANGELOG.md, {dated[1]}"


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def mutants() -> Iterator[str]:
    """Every mistake of the list still applies, and docs/mutants.md says that each was noticed."""
    sys.path.insert(0, str(ROOT / "tests"))
    from mutants import LIST, PAGE, killers
    from mutants import read as read_mutants

    known = killers(PAGE.read_text(encoding="utf-8"), ROOT / "tests")
    for mutant in read_mutants(LIST.read_text(encoding="utf-8")):
        name = f"{mutant.where}: {mutant.mistake}"
        if mutant.place(ROOT / "src" / "surefooted") is None:
            yield f"mutant {name}: its text is no longer in the package"
        elif (mutant.where, mutant.mistake) not in known:
            yield f"mutant {name}: docs/mutants.md names no test that notices it"


def numbers() -> Iterator[str]:
    """The long runs whose results are published are not too old."""
    dated = re.findall(r"^\| .+ \| `(.+?)` \| (\d{4}-\d\d-\d\d) \|$", read("docs/numbers.md"), re.MULTILINE)
    for command, day in dated:
        if date.today() - date.fromisoformat(day) > OLDEST:
            yield f"the numbers of `{command}` are of {day}: run it again"


CHECKS = (tree, versions, mutants, numbers)


def main(arguments: list[str]) -> int:
    """Check, build, try out; the exit code."""
    stale = [f"{check.__name__}: {sentence}" for check in CHECKS for sentence in check()]
    if stale:
        print("Not released:", *stale, sep="\n  ")
        return 1
    if arguments == ["--check"]:
        print("Nothing is stale.")
        return 0
    missing = try_out(build(), golden=True)
    if missing:
        print(f"Not tried, for want of the interpreter: Python {', '.join(missing)}")
    print(f"Left to do: git tag v{version()}, push the tag, and upload what is in dist.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
