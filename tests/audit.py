"""Look up the installed packages in a database of known vulnerabilities, if one can be reached.

    python tests/audit.py PIP_AUDIT      # the command; the packages are those of the Python that runs this script

The exit code is 1 if a package has a known vulnerability. Without a database the script says so and ends with 0.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path


def vulnerable(report: str) -> list[str] | None:
    """What a report of pip-audit in JSON names, a line each; None if it is no report."""
    try:
        packages = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    return [f"{p['name']} {p['version']}: {v['id']}" for p in packages for v in p.get("vulns", [])]


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
            found, said = vulnerable(done.stdout), done.stderr.strip().splitlines()
        except (OSError, subprocess.TimeoutExpired) as error:
            found, said = None, [str(error)]
    if found is None:
        print(f"Skipped: no database of vulnerabilities can be reached ({said[-1][:200] if said else 'no answer'})")
        return 0
    print("\n".join(found) if found else "No known vulnerability")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
