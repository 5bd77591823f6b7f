"""`make release`: refuse if anything is stale; else build the distributions, try them out, and say what is left to do.

    python tools/release.py          # check and build
    python tools/release.py --check  # check only

Each check yields sentences about what is stale. docs/maintaining.md says what a release is.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

ROOT = Path(__file__).parent.parent
OLDEST = timedelta(days=90)  # of a long run whose numbers are published
VERIFIED = ROOT / ".venv" / ".verified"  # `make verify` writes the commit here
TRY_OUT = """
import surefooted as sf
problem = sf.problems.riverswim()
agent = sf.CUCRL2(problem.space, baseline=sf.Baseline(problem.baseline), alpha=0.1)
run = sf.simulate(problem, agent, steps=300)
assert sf.evaluate(run, problem, alpha=0.1).violations == 0
"""


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
    sections = re.findall(r"^## (.+)$", read("CHANGELOG.md"), re.MULTILINE)
    if not re.fullmatch(re.escape(now) + r" - \d{4}-\d\d-\d\d", next(iter(sections), "")):
        yield f"the first section of CHANGELOG.md must be `{now} - YYYY-MM-DD`"


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


def build() -> list[Path]:
    """The wheel and the source archive."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", "dist", "."], cwd=ROOT, check=True)
    return sorted((ROOT / "dist").glob(f"surefooted-{version()}*"))


def try_out(archive: Path) -> None:
    """Install one of them into an empty environment, and use it there, away from the source."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", archive], check=True)
        for command in ([python, "-c", TRY_OUT], [f"{folder}/bin/surefooted", "doctor"]):
            subprocess.run(command, cwd=folder, check=True)


def main(arguments: list[str]) -> int:
    """Check, build, try out; the exit code."""
    stale = [f"{check.__name__}: {sentence}" for check in CHECKS for sentence in check()]
    if stale:
        print("Not released:", *stale, sep="\n  ")
        return 1
    if arguments == ["--check"]:
        print("Nothing is stale.")
        return 0
    for archive in build():
        try_out(archive)
        print(f"{archive.name}: installed and used")
    print(f"Left to do: git tag v{version()}, push the tag, and upload what is in dist.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
