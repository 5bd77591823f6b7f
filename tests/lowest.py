"""The lowest versions that pyproject.toml allows, as constraints for pip: `make versions` tests with them.

python tests/lowest.py > constraints.txt
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def lowest(dependencies: list[str]) -> list[str]:
    """`name==version` for each `name>=version`; anything else is an error, since its lowest version is not known."""
    found = [re.fullmatch(r"([A-Za-z0-9_.-]+)>=([0-9.]+)", dependency) for dependency in dependencies]
    if strange := [text for text, match in zip(dependencies, found, strict=True) if match is None]:
        raise SystemExit(f"not of the form name>=version: {', '.join(strange)}")
    return [f"{match[1]}=={match[2]}" for match in found if match]


if __name__ == "__main__":
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    sys.stdout.write("\n".join(lowest(project["dependencies"])) + "\n")
