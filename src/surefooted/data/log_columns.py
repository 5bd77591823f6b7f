"""Which column of a log is which: our names, the log's names, and columns that tell sites apart."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from surefooted.data.log_options import OUTCOMES, Columns, LogOptions
from surefooted.errors import InvalidInput

NAMES = ("episode", "t", "state", "action", "reward", "next_state", "terminated", "truncated")
NEEDED = ("state", "action", "reward", "next_state")
SITES = (  # columns that tell sites apart, if they are not said to be something else
    "site", "item", "sku", "article", "product", "store", "shop", "machine", "plant", "warehouse", "branch", "location",
    "customer", "device",
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """The columns of a part of a log: the log's name of each of ours, and other columns that are read, too."""

    ours: dict[str, str] = field(default_factory=dict)
    sites: tuple[str, ...] = ()  # columns that together name the site
    others: tuple[str, ...] = ()  # `sites`, and the columns that conditions are about
    unread: tuple[str, ...] = ()

    @property
    def wanted(self) -> list[str]:
        """The columns to read, each once."""
        return list(dict.fromkeys([*self.ours.values(), *self.others]))


def find_columns(file: str, names: list[str], options: LogOptions) -> Found:
    """The columns of a part with these names; one error says what is missing or ambiguous."""
    columns, faults = options.columns, []
    known = (*NAMES, "site")
    faults += [f"columns: there is no {name!r}; there are {', '.join(known)}" for name in columns if name not in known]
    ours: dict[str, str] = {}
    for name in NAMES:
        theirs = columns.get(name, name)
        if theirs is None and name not in NEEDED:
            continue  # to be left out
        if theirs in ours.values():
            faults.append(f"column {theirs!r} cannot be both {name} and another")
        elif names.count(str(theirs)) > 1:
            faults.append(f"there are two columns {theirs!r}")
        elif theirs in names:
            ours[name] = str(theirs)
        elif name in columns or name in NEEDED:
            faults.append(f"there is no column {theirs!r} for {name}")
        else:
            faults += [f"column {other!r}: is this {name}?" for other in names if other.strip().casefold() == name]
    sites = _sites(names, columns, set(ours.values()), faults)
    for condition in options.where:
        column = ours.get(condition.column, condition.column)
        if column not in names:
            faults.append(f"where: there is no column {condition.column!r}")
        if any(ours.get(outcome) == column for outcome in OUTCOMES):
            faults.append(
                f"where: {condition.column!r} says what happened; rows chosen by it are a selection by outcome"
            )
    if options.site is not None and not sites:
        faults.append(f"site {options.site!r}: no column names the site of a row; say which, columns={{'site': ...}}")
    faults += [
        f"bins: there is no column {name!r}" for name in options.bins if name not in ours and name not in ours.values()
    ]
    if faults:
        held = f"It has {', '.join(map(repr, names))}."
        hint = held + " Say which is which, as in columns={'state': 'stock'}; None leaves an optional one out."
        raise InvalidInput(f"the columns of {file} are not those of a log", faults, hint)
    asked = [ours.get(condition.column, condition.column) for condition in options.where]
    others = tuple(dict.fromkeys([*sites, *asked]))
    return Found(ours, sites, others, tuple(name for name in names if name not in {*ours.values(), *others}))


def _sites(names: list[str], columns: Columns, taken: set[str], faults: list[str]) -> tuple[str, ...]:
    """The columns that together name the site of a row: those that were given, or those that look like it."""
    if "site" not in columns:
        plain = {
            name: name.strip().casefold().replace(" ", "_").removesuffix("_id").removesuffix("_no") for name in names
        }
        return tuple(name for name in names if plain[name] in SITES and name not in taken)
    given = columns["site"]
    sites: Sequence[str] = () if given is None else [given] if isinstance(given, str) else given
    faults += [f"there is no column {name!r} for site" for name in sites if name not in names]
    return tuple(name for name in sites if name in names)
