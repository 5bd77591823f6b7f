"""The figure of the price of safety: every agent in a line, every problem a point."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from surefooted.evaluation.pictures import literally
from surefooted.studies.figures import COLOURS, save, styled
from surefooted.studies.price import CONDITIONS, Price

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FREE, SAFE = COLOURS[1], COLOURS[0]  # of agents that are not conservative, and of those that are
MARKS = {"replay": ("o", -0.14), "decisions": ("D", 0.14)}  # the mark of each condition, and where it stands in a line
FINEST = 0.1  # baseline steps: shallower shortfalls are drawn on a linear scale


def draw_price(rows: Sequence[Price], title: str, path: Path, formats: Sequence[str] = ("png", "pdf")) -> list[Path]:
    """Draw the figure; the files written.

    - `rows`: of all problems, as `price.prices` returns them.
    - `title`: above the figure.
    - `path`: of the files, without the ending.
    - `formats`: "png", "pdf" or "svg".
    """
    agents = list(dict.fromkeys((row.unit, row.agent, row.alpha) for row in rows))
    agents.sort(key=lambda agent: agent[0] != "steps")
    with styled():
        figure = Figure(figsize=(10.5, 1.6 + 0.32 * (len(agents) + 1)), layout="constrained")
        axes = figure.subplots(1, 3, sharey=True, width_ratios=(1.25, 1, 1))
        places, names = [], []
        for i, agent in enumerate(agents):
            y = i + (0.6 if agent[0] != agents[0][0] else 0.0)  # a gap before the agents of episodes
            own = [row for row in rows if (row.unit, row.agent, row.alpha) == agent]
            places.append(y)
            names.append(literally(own[0].agent))
            _line(axes, own, y)
        axes[0].set_yticks(places, names)
        axes[0].invert_yaxis()
        _finish(axes)
        _legend(figure)
        figure.suptitle(literally(title))
        return save(figure, path, formats)


def _line(axes: "Sequence[Axes]", own: Sequence[Price], y: float) -> None:
    """One agent: its shortfalls, its baseline plays and their floor, its regret."""
    colour = FREE if own[0].is_free else SAFE
    for condition in CONDITIONS:
        mark, offset = MARKS[condition]
        depths = [depth for row in own if (depth := row.shortfall[condition]) is not None]
        keeps = own[0].is_free or own[0].condition in (condition, None)
        face = colour if keeps else "white"
        style: dict[str, Any] = {
            "color": face,
            "edgecolor": colour,
            "linewidth": 0.8,
            "s": 22,
            "zorder": 3,
            "clip_on": False,
        }
        axes[0].scatter(depths, np.full(len(depths), y + offset), marker=mark, **style)
    if own[0].is_free:
        axes[2].plot([1], [y], marker="|", color=colour, markersize=12, markeredgewidth=2)
        return
    points: dict[str, Any] = {"color": colour, "s": 22, "alpha": 0.75, "linewidth": 0, "zorder": 3, "clip_on": False}
    floors = np.array([min(row.floor / row.length, 1.0) for row in own])
    shares = np.array([row.baseline / row.length for row in own])
    axes[1].scatter(100 * floors, np.full(len(own), y), marker="|", s=70, color="0.35", linewidth=1.2, zorder=2)
    for values, ax in ((100 * shares, axes[1]), (np.array([row.relative for row in own]), axes[2])):
        ax.scatter(values, np.full(len(own), y), **points)
        ax.plot([np.median(values)] * 2, [y - 0.3, y + 0.3], color=colour, linewidth=2.4, zorder=4)


def _finish(axes: "Sequence[Axes]") -> None:
    """Scales, titles and the words that explain the marks."""
    axes[0].set_xscale("symlog", linthresh=FINEST)
    axes[0].set(xlim=(0, None), xlabel="deepest shortfall of the condition\n(steps or episodes of the baseline)")
    axes[0].set_title("safety: 0 = kept in every run", fontsize=9)
    axes[0].xaxis.set_major_formatter(_plain)
    axes[0].tick_params(axis="y", pad=8)
    axes[1].set(xlim=(0, 100), xlabel="% of the run played with the baseline\n(thin: floor with hindsight)")
    axes[1].set_title("caution", fontsize=9)
    axes[2].set_xscale("log")
    axes[2].xaxis.set_major_formatter(_plain)
    axes[2].axvline(1, color="0.45", linewidth=1, zorder=1)
    axes[2].set(xlabel="regret ÷ that of the learner that it holds\n(thick: median over problems)")
    axes[2].set_title("price", fontsize=9)
    for ax in axes:
        ax.grid(axis="y", visible=False)
        ax.tick_params(axis="y", length=0)


def _plain(value: float, _: float) -> str:
    """A number on a logarithmic axis, without a power."""
    return f"{value:,g}".replace(",", "\u202f")


def _legend(figure: Figure) -> None:
    """What the marks mean, below the panels."""
    style: dict[str, Any] = {"linestyle": "none", "markersize": 5}
    grey: dict[str, Any] = {"color": "0.3", **style}
    handles = [
        Line2D([], [], marker="s", color=FREE, label="not conservative", **style),
        Line2D([], [], marker="s", color=SAFE, label="conservative", **style),
        *(Line2D([], [], marker=mark, label=f"condition: {name}", **grey) for name, (mark, _) in MARKS.items()),
        Line2D([], [], marker="o", markerfacecolor="white", label="hollow: not the one that the agent keeps", **grey),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, handletextpad=0.1)
