"""Who proposes: a learner of this package by its name, or one of your own as `package.module:Class`.

Code of your own runs only if you allow it (`surefooted.own_code`). The digest of its file belongs to the definition of
a deployment: if the file was changed since, the deployment is refused, because its decisions could not be made again.
"""

import hashlib
import inspect
from pathlib import Path
from typing import Any

from surefooted import codec, own_code
from surefooted.agents.learner import AverageLearner
from surefooted.agents.psrl import PSRLLearner
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.tables.space import Space

LEARNERS: dict[str, Any] = {"ucrl2": UCRL2Learner, "psrl": PSRLLearner}
EPISODIC = ("ucbvi", "euler", "psrl episodic")
CHANGED = (
    "Put the file back as it was, or create a new deployment that inherits from this one: what was observed is kept, "
    "and reading it needs no code."
)


def faults(name: object) -> list[str]:
    """Why there is no such learner; nothing is imported."""
    if own_code.is_code(name) or name in LEARNERS:
        return []
    if name in EPISODIC:
        return [f"learner {name!r} plans episodes of a finite horizon, and an advisor decides without end"]
    return [f"learner {name!r}: there are {', '.join(LEARNERS)}, or your own as package.module:Class"]


def digest(name: str, allow_code: bool) -> str:
    """The digest of the file that defines a learner of your own; empty for one of this package."""
    if not own_code.is_code(name):
        return ""
    return _digest(_loaded(name, allow_code))


def _loaded(name: str, allow_code: bool) -> Any:
    own_code.permit("the learner of this deployment", [name], allow_code)
    return own_code.load(name, allow_code)


def _digest(kind: Any) -> str:
    try:
        file = inspect.getsourcefile(kind)
    except TypeError:
        file = None
    return "" if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()


def build(name: str, space: Space, code: str, allow_code: bool, **options: Any) -> AverageLearner:
    """A learner that knows nothing yet; `code` is the digest of its file at the time of the deployment."""
    own: dict[str, Any] = {key: options[key] for key in ("delta", "confidence", "knowledge")}
    if not own_code.is_code(name):
        if name == "psrl":
            own["seed"] = options["seed"]
        held: AverageLearner = LEARNERS[name](space, **own)
        return held
    kind = _loaded(name, allow_code)
    if not (inspect.isclass(kind) and issubclass(kind, AverageLearner)):
        raise InvalidInput("no such deployment", [f"learner {name} is no subclass of agents.AverageLearner"])
    if _digest(kind) != code:
        fault = f"the file of learner {name} was changed since the deployment was created"
        raise InvalidInput("this deployment cannot be continued", [fault], CHANGED)
    if "seed" in inspect.signature(kind).parameters:
        own["seed"] = options["seed"]
    try:
        learner: AverageLearner = kind(space, **own)
        codec.encode(learner.state_dict())
    except SurefootedError:
        raise
    except Exception as error:  # whatever the code raises
        raise InvalidInput("no such deployment", [f"learner {name}: {type(error).__name__}: {error}"]) from error
    return learner
