"""Whether the guarantee of a setting is proved: what docs/guarantees.md asks for, read off the study."""

from collections.abc import Iterator, Mapping
from typing import Any

from surefooted.own_code import is_code
from surefooted.sets.confidence import NAMES
from surefooted.studies.columns import DECISIONS
from surefooted.studies.settings import Setting

INVALID = ("simplified_bernstein",)
UNBOUNDED = ("hoeffding", "hoeffding_paper")  # their intervals hold for sub-Gaussian rewards, too


def proof(setting: Setting, condition: str | None) -> str:
    """Whether what a setting promises is proved, and if not, why not; `condition` is the one that its agent keeps."""
    given = setting.spec.parameters
    sets = [str(name) for name in _all(given, "confidence")]
    knows_rewards = any("rewards" in str(known) for known in _all(given, "knowledge"))
    if is_code(setting.spec.kind):
        return "not known, since it is own code"
    if condition is None:
        return "promises nothing"
    if condition != DECISIONS and any(name in INVALID for name in sets):
        return f"not proved, since {' and '.join(name for name in sets if name in INVALID)} is no valid set"
    if False in _all(given, "bounded") and not knows_rewards and not any(name in UNBOUNDED for name in sets):
        return "not proved, since rewards may leave their bounds (bounded = false)"
    if False in _all(given, "strict"):
        return "not proved, since strict = false"
    if condition != DECISIONS and any(name not in NAMES for name in sets):
        return f"not known, since its set is own code: {', '.join(sets)}"
    return "proved"


def unproved(rows: list[dict[str, Any]]) -> list[str]:
    """Which guarantees are not proved, and why, a sentence for each reason."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if str(row["proof"]).startswith("not "):
            reasons.setdefault(row["proof"], []).append(row["setting"])
    return [f"{reason[0].upper()}{reason[1:]}: {'; '.join(labels)}." for reason, labels in reasons.items()]


def _all(arguments: Mapping[str, Any], key: str) -> list[Any]:
    """The values of a key, wherever it stands in the arguments of an agent, such as in those of its learner."""

    def found(table: Mapping[str, Any]) -> Iterator[Any]:
        for name, value in table.items():
            if name == key:
                yield value
            elif isinstance(value, Mapping):
                yield from found(value)

    return list(found(arguments))
