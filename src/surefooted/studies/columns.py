"""The columns of a study's tables: what each holds and counts, and how tables for people sum it up.

To add a column, add it here, compute it in `realisation.run`, and describe it in docs/studies.md. Schemas, statistics,
the report and the command line follow from this file.
"""

from dataclasses import dataclass
from typing import Literal

LENGTH = "{unit}"  # the unit of a run's length: steps, or episodes in a study of episodes
DECISIONS, EACH = "decisions", "each episode"  # conditions that have columns of their own
PREFIXES = {DECISIONS: "decisions_", EACH: "each_"}  # of the names of these columns


@dataclass(frozen=True)
class Column:
    """One column of the files.

    - `name`, `kind`: its name, and str, int or float.
    - `unit`: of its numbers. With LENGTH, `step` and `baseline_steps` count episodes in a study of episodes.
    - `is_key`: it says which run a row belongs to.
    - `may_be_null`: some runs have no value.
    - `may_lack`: runs of older versions do not have the column; it is null there.
    """

    name: str
    kind: type
    unit: str = ""
    is_key: bool = False
    may_be_null: bool = False
    may_lack: bool = False


@dataclass(frozen=True)
class Summary:
    """What tables for people say of a column, over all runs of a setting.

    - `name`: the column.
    - `how`: the mean with the half-width of its confidence interval, the smallest value, the number of runs above 0, or
      the value that all runs have.
    - `key`: the summary's name in the rows of `statistics.table`.
    - `heading`: in the report; LENGTH is replaced.
    - `short`: the heading on a terminal; a summary without one is left out there.
    - `form`: how its numbers are printed, with a comma between thousands.
    - `with_half`: the half-width is printed, too.
    """

    name: str
    how: Literal["mean", "smallest", "above 0", "same"]
    key: str
    heading: str
    short: str = ""
    form: str = "{:,.0f}"
    with_half: bool = False


def kept(condition: str | None, name: str) -> str:
    """Of a column that exists for all conditions, the one about `condition`; about replay if it is None."""
    return PREFIXES.get(condition or "", "") + name


def judged_by(condition: str | None, violated: object) -> str | None:
    """The condition that runs are judged by: the one that their agent keeps, or None if it keeps none.

    `violated` is what is known of violations of replay. If that is None, the agent does not say its policies, and only
    its decisions can be judged.
    """
    return condition if violated is not None else DECISIONS


def _mean(name: str, heading: str, short: str = "", form: str = "{:,.0f}", with_half: bool = True) -> Summary:
    return Summary(name, "mean", name, heading, short, form, with_half)


RUNS = (  # one row per run
    Column("problem", str, is_key=True, may_be_null=True, may_lack=True),
    Column("agent", str, is_key=True),
    Column("label", str, is_key=True),
    Column("alpha", float, is_key=True),
    Column("setting", int, is_key=True),
    Column("realisation", int, is_key=True),
    Column("seed", str, is_key=True),
    Column("steps", int, "steps"),
    Column("episodes", int, "episodes"),
    Column("baseline_steps", int, LENGTH),
    Column("distinct_policies", int, "policies", may_be_null=True),
    Column("regret", float, "reward"),
    Column("pseudo_regret", float, "reward", may_be_null=True),
    Column("decisions_regret", float, "reward", may_be_null=True, may_lack=True),
    Column("condition", str, may_be_null=True, may_lack=True),
    Column("violations_initial", float, "share", may_be_null=True),
    Column("violations_total", int, LENGTH, may_be_null=True),
    Column("min_margin", float, "reward", may_be_null=True),
    Column("first_violation", int, LENGTH, may_be_null=True, may_lack=True),
    Column("decisions_violations_initial", float, "share", may_be_null=True, may_lack=True),
    Column("decisions_violations_total", int, LENGTH, may_be_null=True, may_lack=True),
    Column("decisions_min_margin", float, "reward", may_be_null=True, may_lack=True),
    Column("decisions_first_violation", int, LENGTH, may_be_null=True, may_lack=True),
    Column("each_violations_initial", float, "share", may_be_null=True, may_lack=True),
    Column("each_violations_total", int, LENGTH, may_be_null=True, may_lack=True),
    Column("each_min_margin", float, "reward", may_be_null=True, may_lack=True),
    Column("each_first_violation", int, LENGTH, may_be_null=True, may_lack=True),
    Column("seconds", float, "seconds"),
    Column("version", str, may_be_null=True, may_lack=True),
)
CURVE = (  # one row per recorded point of a run
    Column("step", int, LENGTH),
    Column("regret", float, "reward"),
    Column("pseudo_regret", float, "reward"),
    Column("decisions_regret", float, "reward", may_be_null=True, may_lack=True),
    Column("margin", float, "reward"),
    Column("margin_min", float, "reward"),
    Column("decisions_margin", float, "reward", may_be_null=True, may_lack=True),
    Column("decisions_margin_min", float, "reward", may_be_null=True, may_lack=True),
    Column("each_margin", float, "reward", may_be_null=True, may_lack=True),
    Column("each_margin_min", float, "reward", may_be_null=True, may_lack=True),
    Column("budget", float, "reward"),
    Column("baseline_steps", int, LENGTH),
)
CURVE_KEYS = (
    "setting",
    "problem",
    "agent",
    "alpha",
    "label",
    "realisation",
)  # what its points get, too
SUMMARIES = (  # in the order of the tables
    _mean("regret", "regret", "regret"),
    _mean("pseudo_regret", "expected regret", "expected regret"),
    _mean("decisions_regret", "regret of decisions"),
    _mean("baseline_steps", f"baseline {LENGTH}", f"baseline {LENGTH}"),
    _mean("distinct_policies", "distinct policies"),
    Summary("condition", "same", "condition", "condition kept", "keeps", "{}"),
    _mean("violations_initial", "violated of the initial phase", "violated initially", "{:.1%}"),
    Summary("violations_total", "above 0", "runs_violated", "runs with a violation", "runs violated", "{:d}"),
    Summary("min_margin", "smallest", "min_margin", "smallest margin", "smallest margin", "{:,.2f}"),
    _mean("decisions_violations_initial", "on decisions: violated of the initial phase", form="{:.1%}"),
    Summary(
        *("decisions_violations_total", "above 0", "decisions_runs_violated"),
        *("on decisions: runs with a violation", "decisions: runs violated", "{:d}"),
    ),
    Summary(
        *("decisions_min_margin", "smallest", "decisions_min_margin"),
        *("on decisions: smallest margin", "smallest margin", "{:,.2f}"),
    ),
    _mean("each_violations_initial", "each episode: violated of the initial phase", form="{:.1%}"),
    Summary(
        *("each_violations_total", "above 0", "each_runs_violated"),
        *("each episode: runs with a violation", "each episode: runs violated", "{:d}"),
    ),
    Summary(
        *("each_min_margin", "smallest", "each_min_margin"),
        *("each episode: smallest margin", "smallest margin", "{:,.2f}"),
    ),
    _mean("seconds", "seconds per run", "s/run", "{:.2f}", with_half=False),
)
# A claim of a study can be about these columns of a run.
NUMBERS = (
    *("steps", "episodes", "baseline_steps", "distinct_policies", "regret", "pseudo_regret"),
    *("violations_initial", "violations_total", "min_margin", "seconds"),
)
# Columns that are amounts of reward, in the unit of the problem.
AMOUNTS = frozenset(c.name for c in (*RUNS, *CURVE) if c.unit == "reward")
