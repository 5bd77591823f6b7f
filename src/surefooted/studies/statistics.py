"""Statistics over the realisations of each setting: means with confidence intervals."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

from surefooted.studies.columns import DECISIONS, SUMMARIES, Summary
from surefooted.studies.results import Results
from surefooted.studies.validity import proof
from surefooted.tables.space import Floats

REGRETS = {"pseudo_regret": "regret", "decisions_regret": "regret of decisions"}  # on the axis


def interval(values: Floats) -> tuple[Floats, Floats]:
    """The mean over the first axis, and the half-width of its 95 % confidence interval (Student's t)."""
    n = len(values)
    mean = values.mean(axis=0)
    if n < 2:
        return mean, np.full_like(mean, np.nan)
    return mean, stdtrit(n - 1, 0.975) * values.std(axis=0, ddof=1) / np.sqrt(n)


def regret_column(several: Sequence[Results]) -> str:
    """The expected regret by replay, or that of decisions if an agent decides step by step: a replay misjudges it."""
    settings = [(results, setting) for results in several for setting in results.settings]
    step_by_step = any(results.judged_by(setting) == DECISIONS for results, setting in settings)
    known = step_by_step and all(np.isfinite(r.curve(s, "decisions_regret")[1]).all() for r, s in settings)
    return "decisions_regret" if known else "pseudo_regret"


def table(results: Results) -> list[dict[str, Any]]:
    """One row per setting: its label and α, the number of its runs, and each of `columns.SUMMARIES` by its key.

    `judged_by` is the condition that it is judged by, `proof` says whether what it promises is proved. The half-width
    of a mean's interval has the mean's key with `_half`.
    """
    rows = []
    judged = results.conditions
    for setting in results.settings:
        row: dict[str, Any] = {"setting": results.words(setting), "problem": setting.on, "alpha": setting.alpha}
        row |= {"judged_by": judged[setting.index], "proof": proof(setting, results.condition(setting))}
        row["realisations"] = len(results.column(setting, "setting"))
        for summary in SUMMARIES:
            values = results.column(setting, summary.name)
            if summary.how == "mean":
                mean, half = interval(values.astype(float))
                row[summary.key], row[f"{summary.key}_half"] = float(mean), float(half)
            elif summary.how == "smallest":
                row[summary.key] = float(values.min())
            elif summary.how == "same":
                row[summary.key] = values[0]
            else:
                known = np.isfinite(values.astype(float)).all()
                row[summary.key] = int((values > 0).sum()) if known else None
        rows.append(row)
    return rows


def shown(rows: list[dict[str, Any]]) -> list[Summary]:
    """The summaries that tables show: all but those without a value in any row."""
    return [summary for summary in SUMMARIES if not rows or any(_is_known(row[summary.key]) for row in rows)]


def _is_known(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and np.isnan(value))


def cell(summary: Summary, row: dict[str, Any], thousands: str, space: str = " ") -> str:
    """What a table prints of a row: a value, and the half-width of its interval if that is known and wanted."""
    if not _is_known(row[summary.key]):
        return "–"
    half = row.get(f"{summary.key}_half", np.nan)
    numbers = [row[summary.key], half] if summary.with_half and np.isfinite(half) else [row[summary.key]]
    return f"{space}±{space}".join(summary.form.format(number) for number in numbers).replace(",", thousands)
