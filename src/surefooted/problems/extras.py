"""Problems whose data come in another package: where that package is, or an error that names the extra to install."""

from importlib.util import find_spec
from pathlib import Path

from surefooted.errors import MissingExtra

EXTRAS = {"icu_sepsis": "icu-sepsis", "planned_inventory": "stockpyl"}  # the extra of each problem that has one


def is_installed(problem: str) -> bool:
    """Whether everything that the problem needs is installed."""
    return problem not in EXTRAS or find_spec(EXTRAS[problem].replace("-", "_")) is not None


def folder_of(problem: str) -> Path:
    """The folder of the package that the problem needs; nothing of it is imported."""
    extra = EXTRAS[problem]
    found = find_spec(extra.replace("-", "_"))
    if found is None or found.origin is None:
        what = f"the problem {problem!r} needs {extra}, which is not installed"
        raise MissingExtra(f'{what}: pip install "surefooted[{extra}]"')
    return Path(found.origin).parent
