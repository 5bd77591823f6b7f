"""The figures of a study as files; `panels.py` draws what is in them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from surefooted.errors import InvalidInput
from surefooted.evaluation.pictures import draw_sketch, literally
from surefooted.studies.panels import (
    FIGURES,
    MANY,
    Judged,
    _band,
    _legend,
    _line,
    baseline_share,
    margin,
    regret,
    violations,
)
from surefooted.studies.results import Results, common_unit
from surefooted.studies.statistics import REGRETS, regret_column
from surefooted.studies.style import COLOURS, COLUMNS, STYLE, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLOURS", "COLUMNS", "FIGURES", "STYLE", "Judged", "baseline_share", "compare", "distinct_titles"]
__all__ += ["_line", "make_figures", "margin", "regret", "regret_column", "save", "styled", "violations"]


def make_figures(
    results: Results,
    out: str | Path | None = None,
    formats: Sequence[str] = ("png", "pdf"),
    width: float | str | None = None,
) -> list[Path]:
    """Draw every figure of a study; the files written. `results.lack` says what is left out, if anything is.

    - `results`: the results of a study, as `load` or `run_study` return them.
    - `out`: the directory of the figures; by default `figures` in the directory of the study.
    - `formats`: "png", "pdf" or "svg".
    - `width`: for a paper: "single" or "double" (`COLUMNS`), or inches; by default, figures are for screens.

    With several problems, each has its own figures, and the name of the problem begins their names.
    """
    folder = Path(out) if out is not None else results.path / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    inches = COLUMNS.get(width) if isinstance(width, str) else width
    if width is not None and not (inches and 1 <= inches <= 40):
        raise InvalidInput("figures cannot be drawn", [f"width {width!r}: {', '.join(COLUMNS)}, or 1 to 40 inches"])
    names, written = file_names(results), list[Path]()
    with styled(inches):
        for on, part in zip(results.problems, results.by_problem(), strict=True):
            written += _figures_of(part, folder, names[on], formats, inches)
    return written


def file_names(results: Results) -> dict[str, str]:
    """What the files of each problem's figures begin with: nothing if there is only one problem."""
    if len(results.problems) == 1:
        return {results.problems[0]: ""}
    words = [re.sub(r"[^A-Za-z0-9.]+", "-", on).strip("-.") or "problem" for on in results.problems]
    same = [word if words.count(word) == 1 else f"{word}-{i}" for i, word in enumerate(words)]
    return {on: f"{word}-" for on, word in zip(results.problems, same, strict=True)}


def _figures_of(
    results: Results, folder: Path, prefix: str, formats: Sequence[str], inches: float | None
) -> list[Path]:
    """Draw the figures of one problem."""
    many, written = len(results.settings) > MANY, list[Path]()
    wide = inches or (9.0 if many else 5.2)
    for name, draw in FIGURES.items():
        figure = Figure(figsize=(wide, max(2.0, 0.6 * wide if not many else 4.0)), layout="constrained")
        ax = figure.subplots()
        draw(ax, results)
        _legend_below(figure, [ax])
        written += save(figure, folder / f"{prefix}{name}", formats)
    stacked, wide = inches is not None and inches < 5, inches or 12.5
    height = 1.9 * wide if stacked else max(2.4, 3.0 if inches is None else 0.3 * wide)
    figure = Figure(figsize=(wide, height + (0.05 * len(results.settings) if many else 0)), layout="constrained")
    axes = list(figure.subplots(3, 1) if stacked else figure.subplots(1, 3))
    regret(axes[0], results)
    margin(axes[1], results, results.study.initial)
    violations(axes[2], results)
    _legend_below(figure, axes)
    title = results.study.title or results.study.name
    title += f": {results.problems[0]}" if prefix else ""
    if inches is None:  # in a paper, the caption says it
        figure.suptitle(literally(title))
    written += save(figure, folder / f"{prefix}overview", formats)
    if results.truth is not None and results.truth.sketch is not None:
        picture = draw_sketch(results.truth.sketch, width=inches)
        written += save(picture, folder / f"{prefix}problem", formats)
    return written


def _legend_below(figure: Figure, axes: Sequence["Axes"]) -> None:
    """One legend below all axes, in place of one in each; the figure grows by it."""
    found = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    shown = {label: line for label, line in found.items() if not any(f"{label} [" in other for other in found)}
    for ax in axes:
        if (legend := ax.get_legend()) is not None:
            legend.remove()
        if len(axes) > 1:
            ax.locator_params(axis="x", nbins=4)
    if not shown:
        return
    wide, height = figure.get_size_inches()
    columns = max(1, min(len(shown), int(wide * 72 / (4.2 * max(map(len, shown)) + 32))))
    figure.set_size_inches(wide, height + 0.15 * -(-len(shown) // columns))
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=columns, fontsize=7)


def compare(several: Sequence[Results], out: str | Path, formats: Sequence[str] = ("png", "pdf")) -> list[Path]:
    """Draw the regret and the margin of the settings of several studies, each in one figure; the files written."""
    units = {results.study.unit for results in several}
    if len(units) > 1:
        raise InvalidInput("these studies cannot be compared", ["some count steps and some count episodes"])
    titles, judged = distinct_titles(several), [(results, Judged(results)) for results in several]
    mixed = len({condition for _, named in judged for condition in named.conditions.values()}) > 1
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with styled():
        for name, column in (("regret", regret_column(several)), ("margin", "margin")):
            figure = Figure(figsize=(6.4, 4.0), layout="constrained")
            ax = figure.subplots()
            i = 0
            for results, named in judged:
                for setting in results.settings:
                    label = f"{titles[results.path]}: {results.words(setting)}"
                    if name == "margin":
                        column = named.column(setting, name)
                        label += f" [{named.conditions[setting.index]}]" if mixed else ""
                    steps, curves = results.curve(setting, column)
                    shown = replace(setting, look=i, label=label)
                    _band(ax, steps, curves, shown)
                    i += 1
            ax.set(xlabel=units.copy().pop(), ylabel=common_unit(several, REGRETS.get(column, name)))
            _legend(ax, "upper left")
            written += save(figure, folder / name, formats)
    return written


def distinct_titles(several: Sequence[Results]) -> dict[Path, str]:
    """A title for each directory: its name, with as many parent directories as make the titles distinct."""
    paths = {results.path: results.path.resolve() for results in several}
    for depth in range(1, max(len(path.parts) for path in paths.values()) + 1):
        titles = {given: "/".join(path.parts[-depth:]) for given, path in paths.items()}
        if len(set(titles.values())) == len({*paths.values()}):
            break
    return titles
