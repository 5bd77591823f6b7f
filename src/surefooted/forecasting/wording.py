"""A forecast in words: a page for people, and plain values for machines."""

import math
from typing import Any

from surefooted.forecasting.forecast import LIFETIME, Forecast, Interval, Line
from surefooted.forecasting.outcomes import NEVER

UNITS = (("year", 1.0), ("month", 12.0), ("week", 52.1775), ("day", 365.2425), ("hour", 8765.82))


def page(forecast: Forecast) -> str:
    """A page for people."""
    head = ["", "first explores", "free", "cost on average", "at worst"]
    rows = [head, *(_cells(forecast, line) for line in forecast.lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*table, "", *sentences(forecast)])


def sentences(forecast: Forecast) -> list[str]:
    """What the table means."""
    described, amount = forecast.lines[0], forecast.space.amount
    what = "episodes" if forecast.horizon is not None else "steps"
    span = duration(forecast, forecast.steps)
    said = [
        f"{forecast.runs} runs of {forecast.steps} {what} for each line"
        + (f" ({span})" if forecast.step else "")
        + "; "
        f"each range holds what then happens with probability {forecast.promised:.0%}, if what is known is right.",
        "It is free once at most one step in 20 is refused. Costs are what departures from the baseline cost in "
        "expectation until then.",
    ]
    if forecast.interrupted:
        said.append("It was interrupted: the runs that were complete are used.")
    year = forecast.step.per_year if forecast.step is not None else 1.0
    per = "a year" if forecast.step is not None else f"in each of its {what}"
    low, high = amount(forecast.worth.low * year), amount(forecast.worth.high * year)
    said.append(f"The best policy would earn {amount(forecast.worth.median * year)} more {per} ({low} to {high}).")
    if forecast.guessed:
        pairs = forecast.space.n_pairs
        said.append(
            f"What {forecast.guessed} of the {pairs} state–action pairs earn is neither declared nor logged: it is "
            "drawn from a flat prior, and so is what the best policy is worth. Declare mean rewards, or bounds on them."
        )
    if described.free.median == NEVER:
        longer = forecast.step is not None and forecast.steps / forecast.step.per_year >= LIFETIME - 1
        limit = "your lifetime" if longer else span
        said.append(f"As described, the agent does not become free within {limit}.")
    better = sorted((line for line in forecast.lines[1:] if line.free.median < described.free.median), key=_when)
    said += [
        f"{_capital(line.option.name)}: free {_after(forecast, line.free.median)}, not "
        f"{_after(forecast, described.free.median)}."
        for line in better
    ]
    if described.free.median == NEVER and not better:
        said.append("Nothing in this table changes that: declare how the problem works, or keep the baseline.")
    return said


def _after(forecast: Forecast, steps: float) -> str:
    words = duration(forecast, steps)
    return (
        words if steps == 0 else f"within {duration(forecast, forecast.steps)}" if steps == NEVER else f"after {words}"
    )


def _when(line: Line) -> float:
    return line.free.median


def _capital(text: str) -> str:
    return f"With {text}" if text.startswith("α") else text[:1].upper() + text[1:]


def _cells(forecast: Forecast, line: Line) -> list[str]:
    amount = forecast.space.amount
    times = [f"{duration(forecast, x.median)} ({_range(forecast, x)})" for x in (line.first, line.free)]
    return [line.option.name, *times, amount(max(line.cost, 0.0)), amount(line.worst)]


def _range(forecast: Forecast, interval: Interval) -> str:
    if interval.low == interval.high:
        return "always"
    return f"{duration(forecast, interval.low)} to {duration(forecast, interval.high)}"


def duration(forecast: Forecast, steps: float) -> str:
    """So many steps in the user's calendar, as in `3 weeks`; in steps if there is none."""
    if steps == NEVER:
        return f"more than {duration(forecast, forecast.steps)}"
    if forecast.step is None:
        return f"{steps:g} " + ("episodes" if forecast.horizon is not None else "steps")
    years = steps / forecast.step.per_year
    if steps == 0:
        return "at once"
    unit, per_year = next(((unit, n) for unit, n in UNITS if years * n >= 2), (forecast.step.unit, steps / years))
    number = years * per_year
    return f"{number:.0f} {unit}{'' if math.isclose(number, 1, abs_tol=0.5) else 's'}"


def plain(forecast: Forecast) -> dict[str, Any]:
    """The forecast as plain values; what lies beyond the runs is None."""
    lines = [
        {
            "option": line.option.name,
            "promise": line.option.promise,
            "tell": sorted(line.option.tell),
            "first": _values(line.first),
            "free": _values(line.free),
            "cost_mean": line.cost,
            "cost_worst": line.worst,
        }
        for line in forecast.lines
    ]
    return {
        "runs": forecast.runs,
        "steps": forecast.steps,
        "step": None if forecast.step is None else str(forecast.step),
        "unit": forecast.space.unit,
        "probability": forecast.promised,
        "worth_per_step": _values(forecast.worth),
        "steps_per_year": None if forecast.step is None else forecast.step.per_year,
        "interrupted": forecast.interrupted,
        "guessed_pairs": forecast.guessed,
        "lines": lines,
    }


def _values(interval: Interval) -> dict[str, float | None]:
    found = {"median": interval.median, "low": interval.low, "high": interval.high}
    return {key: None if value == NEVER else value for key, value in found.items()}
