"""What the runs of a study can depend on besides the study itself: versions, machine, seeds, command."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from llvmlite.binding import get_host_cpu_name

from surefooted.studies.spec import StudySpec

LIBRARIES = ("surefooted", "numpy", "scipy", "numba", "llvmlite", "pyarrow", "matplotlib", "pydantic")
DRAWING = ("matplotlib",)  # libraries on which no run depends


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
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cpu": get_host_cpu_name(),  # as LLVM calls it, which compiles the kernels for it
            "cores": os.cpu_count(),
        },
        "commit": _commit(),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": ["surefooted", *sys.argv[1:]],
    }


def differences(before: Any, now: dict[str, Any]) -> list[str]:
    """What runs may depend on and was otherwise when earlier runs of a study were made, a sentence each."""
    seen: dict[str, set[str]] = {}
    for past in before if isinstance(before, list) else ():
        for name, value in _conditions(past).items():
            seen.setdefault(name, set()).add(value)
    said = []
    for name, value in _conditions(now).items():
        if others := sorted(seen.get(name, set()) - {value}):
            said.append(f"Earlier runs were made with {name} {', '.join(others)}; this is {name} {value}.")
    return [*said, "Runs made now may differ from those in the last digits."] if said else []


def _conditions(past: Any) -> dict[str, str]:
    """Versions and kind of machine of a session, as far as it names them."""
    past = past if isinstance(past, dict) else {}
    versions, machine = past.get("versions"), past.get("machine")
    named = {"Python": past.get("python")} | (versions if isinstance(versions, dict) else {})
    machine = machine if isinstance(machine, dict) else {}
    named |= {"processor": machine.get("processor"), "CPU": machine.get("cpu"), "system": machine.get("system")}
    return {str(name): str(value) for name, value in named.items() if value is not None and name not in DRAWING}


def _commit() -> str | None:
    """The commit of the source tree that this package runs from, or None."""
    here = Path(__file__).resolve().parent
    try:
        command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None
