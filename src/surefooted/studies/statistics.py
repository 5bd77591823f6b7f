"""Statistics over the realisations of each setting: means with confidence intervals."""

from typing import Any

import numpy as np
from scipy.special import stdtrit

from surefooted.studies.results import Results
from surefooted.tables.space import Floats

MEANS = ("regret", "pseudo_regret", "baseline_steps", "distinct_policies", "violations_initial", "seconds")


def interval(values: Floats) -> tuple[Floats, Floats]:
    """The mean over the first axis, and the half-width of its 95 % confidence interval (Student's t)."""
    n = len(values)
    mean = values.mean(axis=0)
    if n < 2:
        return mean, np.full_like(mean, np.nan)
    return mean, stdtrit(n - 1, 0.975) * values.std(axis=0, ddof=1) / np.sqrt(n)


def table(results: Results) -> list[dict[str, Any]]:
    """One row per setting: the number of runs, means with the half-widths of their intervals, runs with violations.

    `min_margin` is the smallest margin of all runs.
    """
    rows = []
    for setting in results.settings:
        row: dict[str, Any] = {"setting": setting.label, "alpha": setting.alpha}
        row["realisations"] = len(results.column(setting, "regret"))
        for name in MEANS:
            mean, half = interval(results.column(setting, name).astype(float))
            row[name], row[f"{name}_half"] = float(mean), float(half)
        row["min_margin"] = float(results.column(setting, "min_margin").min())
        row["runs_violated"] = int((results.column(setting, "violations_total") > 0).sum())
        rows.append(row)
    return rows
