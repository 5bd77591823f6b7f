"""The picture of a forecast: for each option, when it first explores and when it is free."""

from typing import TYPE_CHECKING

import numpy as np

from surefooted.forecasting.forecast import Forecast, Interval
from surefooted.forecasting.outcomes import NEVER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = ((-0.14, "C0", "o", "first explores"), (0.14, "C2", "s", "is free"))  # shift, colour, marker, words
EDGE = 1.15  # times the length of the runs: where outcomes beyond it are drawn


def draw(forecast: Forecast) -> "Figure":
    """Two bars for each option: the range of outcomes, with the median; an arrow at the right edge means later."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter

    n = len(forecast.lines)
    figure = Figure(figsize=(8, 1.5 + 0.45 * n), layout="constrained")
    axes = figure.add_subplot()
    per_year = 1.0 if forecast.step is None else forecast.step.per_year
    for i, line in enumerate(forecast.lines):
        for (shift, *look), interval in zip(LOOKS, (line.first, line.free), strict=True):
            _bar(axes, i + shift, interval, forecast.steps, per_year, look)
    axes.set_yticks(range(n), [line.option.name for line in forecast.lines])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.axvline(forecast.steps / per_year, color="0.7", linewidth=1)
    axes.set_xlabel("years" if forecast.step is not None else "steps")
    handles = [
        axes.plot([], [], color=colour, marker=marker, linewidth=4, label=words)[0]
        for _, colour, marker, words in LOOKS
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    axes.set_title("How long will it take?")
    return figure


def _bar(axes: "Axes", y: float, interval: Interval, steps: int, per_year: float, look: list[str]) -> None:
    colour, marker, _ = look
    low, middle, high = (
        (EDGE * steps if value == NEVER else max(value, 0.5)) / per_year
        for value in (interval.low, interval.median, interval.high)
    )
    axes.plot([low, high], [y, y], color=colour, linewidth=4, solid_capstyle="butt", alpha=0.5)
    axes.plot([middle], [y], color=colour, marker=">" if np.isinf(interval.median) else marker, linestyle="none")
