"""Statistics over the realisations of each setting: means with confidence intervals."""

from typing import Any

import numpy as np
from scipy.special import stdtrit

from surefooted.studies.columns import SUMMARIES, Summary
from surefooted.studies.results import Results
from surefooted.tables.space import Floats


def interval(values: Floats) -> tuple[Floats, Floats]:
    """The mean over the first axis, and the half-width of its 95 % confidence interval (Student's t)."""
    n = len(values)
    mean = values.mean(axis=0)
    if n < 2:
        return mean, np.full_like(mean, np.nan)
    return mean, stdtrit(n - 1, 0.975) * values.std(axis=0, ddof=1) / np.sqrt(n)


def table(results: Results) -> list[dict[str, Any]]:
    """One row per setting: its label and α, the number of its runs, and each of `columns.SUMMARIES` by its key.

    The half-width of a mean's interval has the mean's key with `_half`.
    """
    rows = []
    for setting in results.settings:
        row: dict[str, Any] = {"setting": setting.label, "alpha": setting.alpha}
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
