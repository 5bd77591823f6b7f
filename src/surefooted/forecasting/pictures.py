"""The picture of a forecast: for each option, when it first explores and when it is free."""

from typing import TYPE_CHECKING

import numpy as np

from surefooted.forecasting.forecast import Forecast, Interval
from surefooted.forecasting.outcomes import NEVER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EDGE = 1.15  # times the length of the runs: where outcomes beyond it are drawn


def draw(forecast: Forecast) -> "Figure":
    """A bar for each option: the range of outcomes, with the median; an arrow at the right edge means later."""
    from matplotlib.figure import Figure

    n = len(forecast.lines)
    figure = Figure(figsize=(8, 1.2 + 0.45 * n), layout="constrained")
    axes = figure.add_subplot()
    per_year = 1.0 if forecast.step is None else forecast.step.per_year
    for i, line in enumerate(forecast.lines):
        for shift, interval, colour in ((-0.14, line.first, "C0"), (0.14, line.free, "C2")):
            _bar(axes, i + shift, interval, forecast.steps, per_year, colour)
    axes.set_yticks(range(n), [line.option.name for line in forecast.lines])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(forecast.steps / per_year, color="0.7", linewidth=1)
    axes.set_xlabel(("years" if forecast.step is not None else "steps") + ", blue: first explores, green: free")
    axes.set_title("How long will it take?")
    return figure


def _bar(axes: "Axes", y: float, interval: Interval, steps: int, per_year: float, colour: str) -> None:
    low, middle, high = (
        (EDGE * steps if value == NEVER else max(value, 0.5)) / per_year
        for value in (interval.low, interval.median, interval.high)
    )
    axes.plot([low, high], [y, y], color=colour, linewidth=4, solid_capstyle="butt", alpha=0.5)
    marker = ">" if np.isinf(interval.median) else "o"
    axes.plot([middle], [y], color=colour, marker=marker, linestyle="none")
