"""Studies that grow: which runs of a directory belong to the study that is asked for now.

A directory takes another study if every run would be recorded in the same way (`FRAME`) and if some setting is in both.
Settings keep the numbers that the directory has given them, and new ones get the next. Runs of settings that are left
out stay in `parts/`, and count again when the study names their setting again.
"""

from surefooted.studies.settings import content_of, digest, numbering
from surefooted.studies.spec import StudySpec

FRAME = ("steps", "episodes", "seed", "record", "paired")  # what all runs of a directory have in common
DESCRIBED = (*FRAME, "problem", "problems", "agents", "alpha", "grid")  # the parts of a study that change runs


def grown(held: StudySpec, asked: StudySpec) -> StudySpec | None:
    """The study that is asked for, with the numbers of the study in a directory; None if it is another study."""
    if any(getattr(held, name) != getattr(asked, name) for name in FRAME):
        return None
    numbers = {setting.key: setting.index for setting in held.settings} | (held.numbers or {})
    if not any(setting.key in numbers for setting in asked.settings):
        return None
    plain = {setting.key: setting.index for setting in asked.changed(numbers=None).settings}
    numbers = numbering([setting.key for setting in asked.settings], numbers)
    more = {"realisations": max(held.realisations, asked.realisations)}  # fewer are asked for: what is there stays
    return asked.changed(numbers=None if numbers == plain else numbers, **more)


def differences(held: StudySpec, asked: StudySpec) -> list[str]:
    """Where two studies differ."""
    a, b = (study.model_dump(mode="json", include=set(DESCRIBED)) for study in (held, asked))
    return [f"{key}: the directory has {a[key]}, you ask for {b[key]}" for key in DESCRIBED if a[key] != b[key]]


def news(held: StudySpec, asked: StudySpec) -> list[str]:
    """What people should know about a study that has grown: settings that are left out, and code that was edited."""
    kept = {setting.key for setting in asked.settings}
    left = [words(held, setting.key) for setting in held.settings if setting.key not in kept]
    said = [f"Left out, but kept in parts/: {'; '.join(left)}."] if left else []
    before, now = held.sources or {}, asked.sources or {}
    for word in sorted(word for word in before.keys() & now.keys() if before[word] != now[word]):
        labels = [words(asked, s.key) for s in asked.settings if word in s.code]
        said.append(f"{word} was edited since it was run: the runs of {'; '.join(labels)} are repeated.")
    return said


def words(study: StudySpec, key: str) -> str:
    """What people call the setting with a key."""
    setting = next(setting for setting in study.settings if setting.key == key)
    return f"{setting.on}: {setting.label}" if len({s.on for s in study.settings}) > 1 else setting.label


def problem_keys(study: StudySpec) -> dict[str, str]:
    """For each problem, by its label, a hash of all that what is true of it depends on."""
    return {s.on: digest([content_of(s.problem), study.recorded.tolist()]) for s in study.settings}
