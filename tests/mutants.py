"""Mutation testing: mistakes that would break a guarantee, each made in a copy of the package; a test must notice each.

    python tests/mutants.py              # all of them, two at a time; the result goes to docs/mutants.md
    python tests/mutants.py --new        # those without a row in docs/mutants.md, which is brought up to date
    python tests/mutants.py replay       # those whose place, text or mistake contains a word; no page is written

A run can be interrupted: outcomes are kept in `.mutants/`, and a mutant that was killed is not tried again while its
file and its tests stay as they are. Delete that directory to try all of them again. The test that killed a mutant in
the run that wrote docs/mutants.md goes first. A test that kills a mutant must pass without it: those of the last run
are tried before all mutants, any other one right after it has failed.

The mistakes are in mutants.txt, by room (or file) of the package, with the tests that should notice them:

    == certificates/replay.py: test_certificate test_agents

    the baseline at its worst is required
    - (1 - alpha) * reference.gain_high
    + (1 - alpha) * reference.gain_low

The text after - must occur exactly once in that room. If it is no longer there, the mutant is stale: move it to where
the formula is now. A mutant that keeps the package from being imported, or a kernel from being compiled, shows nothing
and counts as broken. The exit code is 0 if a failing test kills every mutant.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).with_suffix(".txt")
PAGE = ROOT / "docs" / "mutants.md"
KEPT = ROOT / ".mutants"  # a file for each mutant that was killed
JOBS = 2
TIMEOUT = 900  # seconds of computing: a mutant that takes longer is noticed, too
WAITING = 8  # times as long it may take in all: a machine that is busy with something else notices nothing
COPIED = ("src", "tests", "examples")  # what the tests of mutants need


@dataclass(frozen=True)
class Mutant:
    """One mistake: `old` becomes `new` in `where`, a room or a file of the package."""

    where: str
    tests: tuple[str, ...]
    mistake: str
    old: str
    new: str

    def key(self, package: Path, tests: Path) -> str:
        """A digest of all that decides its fate, other files of the package apart."""
        file = self.place(package)
        read = [file] if file is not None else []
        texts = [path.read_text(encoding="utf-8") for path in (*read, *(tests / f"{name}.py" for name in self.tests))]
        return hashlib.sha256("\0".join([str(self), *texts]).encode()).hexdigest()[:32]

    def place(self, package: Path) -> Path | None:
        """The one file with the old text, None if there is none or several, or if it occurs more than once."""
        room = package / self.where
        files = [room] if room.is_file() else sorted(room.rglob("*.py"))
        found = [file for file in files for _ in range(file.read_text(encoding="utf-8").count(self.old))]
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: killed, survived, stale or broken, by which test, after how long."""

    mutant: Mutant
    fate: str
    by: str = ""
    seconds: float = 0.0


def read(text: str) -> list[Mutant]:
    """The mutants of a list."""
    found: list[Mutant] = []
    where, tests = "", ()
    for block in re.split(r"\n\s*\n", text.strip()):
        if block.startswith("== "):
            where, _, names = block.removeprefix("== ").partition(": ")
            tests = tuple(names.split())
            continue
        mistake, *lines = block.splitlines()
        old, new = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
        found.append(Mutant(where, tests, mistake, old, new))
    return found


def killers(page: str, tests: Path) -> dict[tuple[str, str], str]:
    """The test that noticed each mutant, by place and mistake, in the page of the last run, if it still exists."""
    rows = re.findall(r"^\| `(.+?)` \| (.+) \| (test_\S+\.py) (\S+) \|$", page, re.MULTILINE)
    texts = {name: path.read_text(encoding="utf-8") for *_, name, _ in rows if (path := tests / name).exists()}
    return {
        (where, mistake.replace("&#124;", "|")): f"{file}::{name}"
        for where, mistake, file, name in rows
        if f"def {name}(" in texts.get(file, "")
    }


def kept(mutant: Mutant) -> Outcome | None:
    """Its outcome in an earlier run, if it was killed and nothing that decides its fate has changed."""
    path = KEPT / mutant.key(ROOT / "src" / "surefooted", ROOT / "tests")
    return Outcome(mutant, "killed", *json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def keep(outcome: Outcome, copy: Path) -> None:
    """Remember that a mutant was killed."""
    if outcome.fate == "killed":
        KEPT.mkdir(exist_ok=True)
        path = KEPT / outcome.mutant.key(copy / "src" / "surefooted", copy / "tests")
        path.write_text(json.dumps([outcome.by, outcome.seconds]), encoding="utf-8")


def try_out(mutant: Mutant, copy: Path, first: str | None = None) -> Outcome:
    """Make the mistake in a copy of the repository, run its tests, `first` before all others, and undo it.

    `first` is known to pass without the mistake, unless it is slow.
    """
    began, file = time.monotonic(), mutant.place(copy / "src" / "surefooted")
    if file is None:
        return Outcome(mutant, "stale")
    original = file.read_text(encoding="utf-8")
    file.write_text(original.replace(mutant.old, mutant.new), encoding="utf-8")
    code, said, marked = 0, "", "not slow"
    for marked in ("not slow", "slow") if first else ():  # make test runs the one kind, make verify the other
        code, said = run(copy, (first,), marked=marked)
        if code == 1:
            break
    was_first = code == 1 and marked == "not slow"
    if code != 1:
        code, said = run(copy, tuple(f"{name}.py" for name in mutant.tests))
        marked = "not slow"
    file.write_text(original, encoding="utf-8")
    failed = re.search(r"^FAILED tests/(\S+)", said, re.MULTILINE)
    again = failed and failed[1].partition("[")[0]
    if again and not was_first and run(copy, (again,), marked=marked)[0] != 0:
        return Outcome(mutant, "broken", f"{failed[1]} fails without the mutant, too", time.monotonic() - began)
    seconds = time.monotonic() - began
    if code == 0:
        return Outcome(mutant, "survived", seconds=seconds)
    if code == 1 and failed is not None and "numba.core.errors" not in said:
        return Outcome(mutant, "killed", failed[1], seconds)
    if code is None:
        return Outcome(mutant, "killed", "its slowness", seconds)
    return Outcome(mutant, "broken", said[-1000:], seconds)


def run(
    copy: Path, tests: tuple[str, ...], jobs: int = 0, timeout: int = TIMEOUT, marked: str = "not slow"
) -> tuple[int | None, str]:
    """The exit code of these tests in a copy and what they said; None if they took too long.

    `timeout` is in seconds of computing, of each process. All copies keep compiled kernels in one place: a mistake
    outside `kernels` costs no compilation.
    """
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "NUMBA_CACHE_DIR": str(copy.parent / "compiled")}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rf", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-n", str(jobs), "-m", marked, *(f"tests/{name}" for name in tests)]
    limited = ["sh", "-c", f'ulimit -S -t {timeout} && exec "$@"', "sh", *command]
    options = {"cwd": copy, "env": environment, "capture_output": True, "text": True, "timeout": WAITING * timeout}
    try:
        done = subprocess.run(limited, check=False, **options)
    except subprocess.TimeoutExpired:
        return None, ""
    return None if done.returncode == -signal.SIGXCPU else done.returncode, done.stdout + done.stderr


def page(outcomes: list[Outcome]) -> str:
    """The result as a page of the docs."""
    rest = [outcome for outcome in outcomes if outcome.fate != "killed"]
    lines = [
        "# Mutation testing",
        "",
        "`make mutants` makes one mistake at a time in a copy of the package: a wrong constant, a dropped term, a",
        "bound from the wrong side, a forgotten reserve, a stale cache. The tests must notice each of them.",
        "`tests/mutants.txt` lists the mistakes. Each row names the test that noticed a mistake when it was last",
        "tried. `make mutants` tries all of them, `python tests/mutants.py --new` those that have no row.",
        "",
        f"**{len(outcomes) - len(rest)} of {len(outcomes)} mutants were killed.**",
    ]
    if rest:
        lines += ["", "Not killed:", ""]
        lines += [f"- {o.fate}: `{o.mutant.where}`, {o.mutant.mistake}" for o in rest]
    lines += ["", "| where | mistake | noticed by |", "|---|---|---|"]
    for outcome in outcomes:
        if outcome.fate == "killed":
            name = outcome.by.partition("[")[0].replace("::", " ")
            lines.append(f"| `{outcome.mutant.where}` | {outcome.mutant.mistake.replace('|', '&#124;')} | {name} |")
    return "\n".join(lines) + "\n"


def main(words: list[str]) -> int:
    """Try the mutants that contain all of these words, or those that are new; the exit code."""
    everything = read(LIST.read_text(encoding="utf-8"))
    before = killers(PAGE.read_text(encoding="utf-8"), ROOT / "tests") if PAGE.exists() else {}
    if words == ["--new"]:
        chosen = [m for m in everything if (m.where, m.mistake) not in before]
    else:
        chosen = [m for m in everything if all(word in str(m) for word in words)]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: Queue[Path] = Queue()
        for i in range(JOBS):
            copy = Path(folder) / str(i)
            for name in COPIED:
                shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copy2(ROOT / "pyproject.toml", copy)
            copies.put(copy)
        known = (before.get((m.where, m.mistake)) for m in chosen if kept(m) is None)
        tests = tuple(dict.fromkeys(test for test in known if test is not None))
        print(f"{len(chosen)} mutants. First {len(tests)} tests without any, which compiles the kernels.", flush=True)
        code, said = run(copy, tests, jobs=JOBS, timeout=8 * TIMEOUT) if tests else (0, "")
        if code != 0:
            print(said[-5000:], "\nThe tests fail without a mutant.")
            return 2

        def outcome_of(mutant: Mutant) -> Outcome:
            outcome = kept(mutant)
            if outcome is None:
                copy = copies.get()
                outcome = try_out(mutant, copy, before.get((mutant.where, mutant.mistake)))
                keep(outcome, copy)
                copies.put(copy)
            shown = f"{mutant.where}: {mutant.mistake}"
            print(f"{outcome.fate:8} {outcome.seconds:4.0f} s  {shown:100} {outcome.by}", flush=True)
            return outcome

        with ThreadPoolExecutor(JOBS) as pool:
            outcomes = list(pool.map(outcome_of, chosen))
    if not words or words == ["--new"]:
        tried = {outcome.mutant: outcome for outcome in outcomes}
        rows = (tried.get(m) or Outcome(m, "killed", before[m.where, m.mistake]) for m in everything)
        PAGE.write_text(page(list(rows)), encoding="utf-8")
    rest = [outcome for outcome in outcomes if outcome.fate != "killed"]
    print(f"\n{len(outcomes) - len(rest)} of {len(outcomes)} mutants killed.")
    for outcome in rest:
        print(f"{outcome.fate}: {outcome.mutant.where}: {outcome.mutant.mistake}")
    return 1 if rest else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
