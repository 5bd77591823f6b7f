"""A picture of a problem: what the baseline and an optimal policy do in each state, and what the state is worth.

States with `positions` are drawn as cells of a grid, others along a line.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from surefooted.evaluation.sketch import Panel, Sketch, sketch
from surefooted.problems.problem import Problem

COLOURS = "viridis"
MARK = "#d55e00"  # vermilion: told apart from every colour of the map, also by the colour-blind
LABELLED = 40  # along a line, states are labelled if there are at most this many


def draw(problem: Problem, state: int | None = None) -> Figure:
    """A Matplotlib figure of the baseline and an optimal policy, side by side.

    - `problem`: what to draw.
    - `state`: a state to mark, such as the current one.

    >>> import surefooted as sf
    >>> sf.draw(sf.problems.gridworld()).savefig("grid.png")
    """
    return draw_sketch(sketch(problem), state)


def draw_sketch(shown: Sketch, state: int | None = None) -> Figure:
    """The figure of a sketch."""
    shown = _literal(shown)
    low, high = min(part.values.min() for part in shown.panels), max(part.values.max() for part in shown.panels)
    figure = Figure(figsize=_size(shown), layout="constrained")
    axes = figure.subplots(1, 2, sharey=shown.positions is not None)
    for ax, part in zip(axes, shown.panels, strict=True):
        if shown.positions is None:
            _along_a_line(ax, shown, part, state)
        else:
            _in_a_plane(ax, shown, part, state, (float(low), float(high)))
        ax.set_title(part.title)
    if shown.positions is None:
        axes[0].set_ylabel(shown.measure)
    else:
        axes[0].set_ylabel(shown.axes[0])
        figure.colorbar(axes[1].collections[0], ax=list(axes), label=shown.measure, shrink=0.9)
    figure.suptitle(shown.title)
    return figure


def pixels(figure: Figure) -> NDArray[np.uint8]:
    """The figure as an image with red, green and blue values, [height, width, 3]."""
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba(), dtype=np.uint8)[:, :, :3]


def literally(words: str) -> str:
    """Words that Matplotlib shows as they are, and not as a formula."""
    return words.replace("$", r"\$")


def _literal(shown: Sketch) -> Sketch:
    """A sketch whose words are all shown as they are."""
    first, second = (
        replace(part, title=literally(part.title), glyphs=[literally(glyph) for glyph in part.glyphs])
        for part in shown.panels
    )
    labels, axes = ([literally(word) for word in words] for words in (shown.state_labels, [*shown.axes, "", ""]))
    return replace(
        shown,
        title=literally(shown.title),
        measure=literally(shown.measure),
        panels=(first, second),
        state_labels=labels,
        axes=axes,
    )


def _size(shown: Sketch) -> tuple[float, float]:
    """Width and height in inches, with room for a glyph in each cell."""
    if shown.positions is None:
        return 10.0, 4.0
    rows, columns = np.ptp(shown.positions, axis=0) + 1
    cell = min(max(4.2 / max(rows, columns), 0.42), 1.0)
    return 2 * cell * columns + 2.5, cell * rows + 1.5


def _along_a_line(ax: Axes, shown: Sketch, part: Panel, state: int | None) -> None:
    """A stem per state, its action above it."""
    s = np.arange(len(shown.state_labels))
    ax.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
    small = s.size <= LABELLED
    if small:
        ax.vlines(s, 0.0, part.values, color="0.6", linewidth=1.0, zorder=1)
    ax.scatter(s, part.values, s=28 if small else 4, c=part.values, cmap=COLOURS, zorder=2)
    if small:
        for i, glyph in enumerate(part.glyphs):
            side, where = (8, "bottom") if part.values[i] >= 0 else (-8, "top")
            ax.annotate(glyph, (i, part.values[i]), (0, side), textcoords="offset points", ha="center", va=where)
        ax.set_xticks(s, shown.state_labels, rotation=0 if max(map(len, shown.state_labels)) < 4 else 90)
    if state is not None:
        ax.scatter([state], [part.values[state]], s=130, facecolors="none", edgecolors=MARK, linewidths=2.0, zorder=3)
    ax.margins(y=0.15)
    ax.set_xlabel(shown.axes[0])
    ax.spines[["top", "right"]].set_visible(False)


def _in_a_plane(ax: Axes, shown: Sketch, part: Panel, state: int | None, scale: tuple[float, float]) -> None:
    """A coloured cell per state, its action in it."""
    assert shown.positions is not None
    rows, columns = shown.positions.T
    corner = np.array([rows.min(), columns.min()])
    height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
    cells = np.full((height, width), np.nan)
    cells[rows - corner[0], columns - corner[1]] = part.values
    edges = np.arange(width + 1) + corner[1] - 0.5, np.arange(height + 1) + corner[0] - 0.5
    low, high = scale if scale[1] > scale[0] else (scale[0] - 0.5, scale[0] + 0.5)
    ax.pcolormesh(
        *edges, np.ma.masked_invalid(cells), cmap=COLOURS, vmin=low, vmax=high, edgecolors="white", linewidth=0.5
    )
    for i, j, glyph, value, label in zip(rows, columns, part.glyphs, part.values, shown.state_labels, strict=True):
        red, green, blue, _ = colormaps[COLOURS]((value - low) / (high - low))
        ink = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
        ax.text(j, i, glyph, ha="center", va="center", color=ink, fontsize=9 if max(height, width) > 6 else 13)
        if label[-1:] in ("S", "G", "X"):
            ax.text(j - 0.44, i - 0.44, label[-1], ha="left", va="top", color=ink, fontsize=7, fontweight="bold")
    if state is not None:
        i, j = shown.positions[state]
        ax.add_patch(Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, fill=False, edgecolor=MARK, linewidth=2.5))
    ax.set_aspect("equal")
    ax.set_ylim(rows.max() + 0.5, rows.min() - 0.5)  # row 0 on top
    ax.set_xlabel(shown.axes[1])
    ax.set_xticks(np.unique(columns))
    ax.set_yticks(np.unique(rows))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
