"""What the runs of a study can depend on besides the study itself: versions, machine, seeds, command."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from surefooted.studies.spec import StudySpec

LIBRARIES = ("surefooted", "numpy", "numba", "pyarrow", "matplotlib", "pydantic")


def manifest(study: StudySpec) -> dict[str, Any]:
    """The manifest of a study that is run now."""
    return {
        "study": study.name,
        "identity": study.identity,
        "seed": study.seed,
        "seeds": "SeedSequence(seed, spawn_key=(setting, realisation)).spawn(2): world, agent",
        "settings": [setting.label for setting in study.settings],
        "realisations": study.realisations,
    } | session()


def session() -> dict[str, Any]:
    """Versions, machine, time and command of this run of a study."""
    return {
        "python": platform.python_version(),
        "versions": {name: version(name) for name in LIBRARIES},
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
        "commit": _commit(),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": ["surefooted", *sys.argv[1:]],
    }


def _commit() -> str | None:
    """The commit of the source tree that this package runs from, or None."""
    here = Path(__file__).resolve().parent
    try:
        command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None
