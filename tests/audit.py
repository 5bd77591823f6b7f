"""Look up the installed packages in a database of known vulnerabilities, if one can be reached.

    python tests/audit.py PIP_AUDIT      # the command; the packages are those of the Python that runs this script

The exit code is 1 if a package has a known vulnerability. Without a database the script says so and ends with 0.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple


class Report(NamedTuple):
    """How many packages the database knows and does not know, and what is vulnerable, a line each."""

    known: int
    unknown: int
    vulnerable: list[str]


def read(report: str) -> Report | None:
    """The report that pip-audit wrote in JSON; None if it is none, or if the database knows no package at all."""
    try:
        packages = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    known = [package for package in packages if "skip_reason" not in package]
    vulnerable = [f"{p['name']} {p['version']}: {v['id']}" for p in known for v in p.get("vulns", [])]
    return Report(len(known), len(packages) - len(known), vulnerable) if known else None


def main(command: str) -> int:
    """Audit; the exit code."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "freeze", "--exclude-editable"], capture_output=True, text=True, check=True
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "installed.txt")
        file.write_text(listed.stdout, encoding="utf-8")
        audit = [command, "--requirement", str(file), "--no-deps", "--disable-pip", "--format", "json"]
        try:
            done = subprocess.run(audit, capture_output=True, text=True, check=False, timeout=120)
            found, said = read(done.stdout), done.stderr.strip().splitlines()
        except (OSError, subprocess.TimeoutExpired) as error:
            found, said = None, [str(error)]
    if found is None:
        why = said[-1][:200] if said and "No known" not in said[-1] else "it knows none of the packages"
        print(f"Skipped: no database of vulnerabilities can be reached ({why})")
        return 0
    print(f"{found.known} packages looked up, {found.unknown} not known; {len(found.vulnerable)} vulnerabilities")
    print("\n".join(found.vulnerable))
    return 1 if found.vulnerable else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
