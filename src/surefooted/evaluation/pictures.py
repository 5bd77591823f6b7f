"""A picture of a problem: what the baseline and an optimal policy do in each state, and what the state is worth.

States with `positions` are drawn as cells of a grid, others along a line.
"""

import io
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from surefooted.evaluation.sketch import Panel, Sketch, sketch
from surefooted.problems.problem import Problem

COLOURS = "viridis"
MARK = "#d55e00"  # vermilion: told apart from every colour of the map, also by the colour-blind
LABELLED = 40  # along a line, states are labelled if there are at most this many
CELLS = 26  # in a plane, actions are written into cells if there are at most this many in a row and in a column
# Where actions cannot be written, each has a colour (Okabe & Ito, 2008) and a marker, if there are no more than these.
INKS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#f0e442", "#000000")
MARKERS = "osD^vPX*"


def draw(problem: Problem, state: int | None = None) -> Figure:
    """A Matplotlib figure of the baseline and an optimal policy, side by side.

    - `problem`: what to draw.
    - `state`: a state to mark, such as the current one.

    >>> import surefooted as sf
    >>> sf.draw(sf.problems.gridworld()).savefig("grid.png")
    """
    return draw_sketch(sketch(problem), state)


class Picture(Figure):
    """A figure that notebooks show by themselves, whatever their Matplotlib backend, and no pyplot knows of."""

    def _repr_png_(self) -> bytes:
        """The picture."""
        file = io.BytesIO()
        canvas: Any = FigureCanvasAgg(self)
        canvas.print_png(file)
        return file.getvalue()


def draw_sketch(shown: Sketch, state: int | None = None, width: float | None = None) -> Figure:
    """The figure of a sketch; with a width in inches, both panels fit a column."""
    shown = _literal(shown)
    is_narrow = width is not None and width < 5  # the panels stand one above the other
    low, high = min(part.values.min() for part in shown.panels), max(part.values.max() for part in shown.panels)
    figure = Picture(figsize=_size(shown, width), layout="constrained")
    axes = figure.subplots(*((2, 1) if is_narrow else (1, 2)), sharey=shown.positions is not None)
    for ax, part in zip(axes, shown.panels, strict=True):
        if shown.positions is None:
            _along_a_line(ax, shown, part, state)
        else:
            _in_a_plane(ax, shown, part, state, (float(low), float(high)))
        ax.set_title(part.title)
    for ax in axes if is_narrow else axes[:1]:
        ax.set_ylabel(shown.measure if shown.positions is None else shown.axes[0])
    actions = _inks(shown)
    if shown.positions is not None and not (_is_crowded(shown) and actions):
        figure.colorbar(axes[1].collections[0], ax=list(axes), label=shown.measure, shrink=0.9)
    if _is_crowded(shown) and actions:
        marks = [Line2D([], [], color=ink, marker=mark, linestyle="") for ink, mark in actions.values()]
        figure.legend(marks, actions, loc="outside lower center", ncols=4 if is_narrow else 8, title="action")
    if width is None:
        figure.suptitle(shown.title)
    return figure


def _is_crowded(shown: Sketch) -> bool:
    """Whether there are too many states to write an action at each."""
    if shown.positions is None:
        return len(shown.state_labels) > LABELLED
    return bool(np.ptp(shown.positions, axis=0).max() >= CELLS)


def _inks(shown: Sketch) -> dict[str, tuple[str, str]]:
    """The colour and marker of each action in a picture; none if there are too many."""
    actions = sorted({glyph for part in shown.panels for glyph in part.glyphs})
    return dict(zip(actions, zip(INKS, MARKERS, strict=True), strict=False)) if len(actions) <= len(INKS) else {}


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


def _size(shown: Sketch, width: float | None) -> tuple[float, float]:
    """Width and height in inches, with room for a glyph in each cell."""
    if shown.positions is None:
        if width is None:
            return 10.0, 4.0 if not _is_crowded(shown) else 4.6
        return width, 1.3 * width if width < 5 else 0.42 * width
    rows, columns = np.ptp(shown.positions, axis=0) + 1
    if width is not None:
        share = (2 if width < 5 else 0.5) * rows / columns
        return width, min(max(share * 0.8 * width + 0.8, 1.5), 2.4 * width)
    cell = min(max(4.2 / max(rows, columns), 0.42), 1.0)
    return 2 * cell * columns + 2.5, cell * rows + 1.5


def _along_a_line(ax: Axes, shown: Sketch, part: Panel, state: int | None) -> None:
    """A stem per state, its action above it."""
    s = np.arange(len(shown.state_labels))
    ax.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
    small = s.size <= LABELLED
    if small:
        ax.vlines(s, 0.0, part.values, color="0.6", linewidth=1.0, zorder=1)
    actions = {} if small else _inks(shown)
    for action, (ink, mark) in actions.items():
        which = np.array([glyph == action for glyph in part.glyphs])
        ax.scatter(s[which], part.values[which], s=16, c=ink, marker=mark, zorder=2)
    if not actions:
        ax.scatter(s, part.values, s=28 if small else 4, c=part.values, cmap=COLOURS, zorder=2)
    if small:
        for i, glyph in enumerate(part.glyphs):
            side, where = (8, "bottom") if part.values[i] >= 0 else (-8, "top")
            ax.annotate(
                glyph, (i, part.values[i]), (0, side), textcoords="offset points", ha="center", va=where, fontsize=11
            )
        ax.set_xticks(s, shown.state_labels, rotation=0 if max(map(len, shown.state_labels)) < 4 else 90)
    if state is not None:
        ax.scatter([state], [part.values[state]], s=130, facecolors="none", edgecolors=MARK, linewidths=2.0, zorder=3)
    ax.margins(y=0.25)
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
    inches = ax.figure.get_figwidth() / (1 if ax.get_subplotspec().get_gridspec().ncols == 1 else 2)  # type: ignore[union-attr]
    letters = min(13.0, 30 * inches / max(height, width))
    actions = _inks(shown) if _is_crowded(shown) else {}
    if actions:
        names = [*actions]
        cells[rows - corner[0], columns - corner[1]] = [names.index(glyph) for glyph in part.glyphs]
        inks = ListedColormap([ink for ink, _ in actions.values()])
        ax.pcolormesh(*edges, np.ma.masked_invalid(cells), cmap=inks, vmin=-0.5, vmax=len(names) - 0.5)
    else:
        ax.pcolormesh(
            *edges, np.ma.masked_invalid(cells), cmap=COLOURS, vmin=low, vmax=high, edgecolors="white", linewidth=0.5
        )
    for i, j, glyph, value, label in zip(rows, columns, part.glyphs, part.values, shown.state_labels, strict=True):
        if actions:
            break
        red, green, blue, _ = colormaps[COLOURS]((value - low) / (high - low))
        ink = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
        ax.text(j, i, glyph, ha="center", va="center", color=ink, fontsize=letters)
        if label[-1:] in ("S", "G", "X"):
            ax.text(j - 0.44, i - 0.44, label[-1], ha="left", va="top", color=ink, fontsize=7, fontweight="bold")
    if state is not None:
        i, j = shown.positions[state]
        ax.add_patch(Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, fill=False, edgecolor=MARK, linewidth=2.5))
    ax.set_aspect("equal")
    ax.grid(visible=False)
    ax.set_ylim(rows.max() + 0.5, rows.min() - 0.5)  # row 0 on top
    ax.set_xlabel(shown.axes[1])
    every = 1 + max(height, width) // CELLS
    ax.set_xticks(np.unique(columns)[::every])
    ax.set_yticks(np.unique(rows)[::every])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
