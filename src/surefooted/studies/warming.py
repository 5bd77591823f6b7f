"""Compiling what a study needs once, before its workers start: otherwise each of them would compile it for itself.

Each agent of the package plays a few steps here, and numba keeps what it compiles on disk for the workers. A marker
beside the compiled kernels says that this was done: the next study with the same agents starts its workers at once.
"""

import contextlib
import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout

from surefooted.kernels.cache import places
from surefooted.own_code import is_code
from surefooted.problems import Problem
from surefooted.studies import realisation
from surefooted.studies.settings import Setting, digest
from surefooted.studies.spec import StudySpec, Task

FEW = {"steps": 300, "episodes": 20}  # enough to plan, explore and review


def warm_up(study: StudySpec, problems: Mapping[str, Problem]) -> int:
    """Play a few steps with each kind of agent of a study that was not compiled yet; how many were played."""
    directory, played = places().write, 0
    if directory is None:  # nothing can be kept
        return 0
    length = {study.unit: min(study.length, FEW[study.unit])}
    small = study.changed(**length, realisations=1, record={"points": 2}, claims=(), numbers=None)
    seen = set()
    for setting in small.settings:
        marker = directory / f"warm-{_kind(setting, problems[setting.on])}"
        if marker in seen or marker.exists() or any(is_code(word) for word in setting.code):
            continue
        seen.add(marker)
        with contextlib.suppress(Exception), redirect_stdout(sys.stderr):  # a run that fails is reported by its worker
            realisation.run(small, Task(setting.index, 0), problems[setting.on])
            played += 1
        with contextlib.suppress(OSError):
            marker.touch()
    return played


def _kind(setting: Setting, problem: Problem) -> str:
    """What compiled kernels depend on: the agent with its words and switches, and how the problem is played."""
    given = setting.spec.parameters.items()
    words = {key: value for key, value in given if isinstance(value, bool) or not isinstance(value, float | int)}
    about = [setting.spec.kind, setting.spec.baseline, problem.horizon is None, problem.mdp.noise.kind]
    return digest(json.loads(json.dumps([about, words], default=str)))
