"""Studies: many realisations of agents on a problem, from a TOML file to tables, figures and a report.

    results = sf.studies.load("results/inventory")
    results.runs.to_pandas()

Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Results": "results",
    "StudySpec": "spec",
    "load": "results",
    "parse": "reading",
    "read": "reading",
    "run_study": "running",
    "verify": "verifying",
}

__all__ = ["Results", "StudySpec", "figures", "load", "parse", "read", "run_study", "verify"]

if TYPE_CHECKING:
    from surefooted.studies import figures
    from surefooted.studies.reading import parse, read
    from surefooted.studies.results import Results, load
    from surefooted.studies.running import run_study
    from surefooted.studies.spec import StudySpec
    from surefooted.studies.verifying import verify


def __getattr__(name: str) -> Any:
    """Import a name on its first use."""
    if name == "figures":
        return import_module("surefooted.studies.figures")
    if name in _HOMES:
        return getattr(import_module(f"surefooted.studies.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'surefooted.studies' has no attribute {name!r}")
