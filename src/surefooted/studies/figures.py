"""The paper's figures, as functions on axes and as files; drawing a figure again gives the same bytes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from surefooted.errors import InvalidInput
from surefooted.evaluation.pictures import draw_sketch, literally
from surefooted.studies.columns import DECISIONS, EACH, kept
from surefooted.studies.results import Results, common_unit
from surefooted.studies.spec import Setting
from surefooted.studies.statistics import interval
from surefooted.tables.files import replacing
from surefooted.tables.space import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # Okabe & Ito (2008)
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)))
STYLE: Any = {
    "figure.figsize": (5.2, 3.4),
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "pdf.fonttype": 42,
    "svg.hashsalt": "surefooted",
    "svg.fonttype": "none",
}
ALWAYS = "always the baseline"
BASELINE: dict[str, Any] = {"color": "0.45", "linestyle": (0, (4, 2)), "linewidth": 1.2}
WIDE = 16  # letters that fit below a bar
MANY = 8  # curves whose legend fits inside a figure
REGRETS = {"pseudo_regret": "regret", "decisions_regret": "regret of decisions"}  # on the axis
BINS = 60  # over which the share of baseline play is averaged: a single decision is all or nothing


def regret_column(several: Sequence[Results]) -> str:
    """The expected regret by replay, or that of decisions if an agent decides step by step: a replay misjudges it."""
    settings = [(results, setting) for results in several for setting in results.settings]
    step_by_step = any(results.judged_by(setting) == DECISIONS for results, setting in settings)
    known = step_by_step and all(np.isfinite(r.curve(s, "decisions_regret")[1]).all() for r, s in settings)
    return "decisions_regret" if known else "pseudo_regret"


def regret(ax: "Axes", results: Results) -> None:
    """Mean regret with its 95 % confidence band, and the regret of always playing the baseline."""
    column = regret_column([results])
    for setting in results.settings:
        steps, curves = results.curve(setting, column)
        _band(ax, steps, curves, setting)
    if (truth := results.truth) is not None:
        ax.plot(truth.step, truth.baseline_regret, label=ALWAYS, **BASELINE)
    ax.set(
        xlabel=_axis(results), ylabel=results.in_unit(REGRETS[column]), xlim=(0, results.study.length), ylim=(0, None)
    )
    _legend(ax, "upper left")


def violations(ax: "Axes", results: Results) -> None:
    """The share of the initial phase in which the condition is violated: mean, 95 % interval, the paper's numbers."""
    named = Judged(results)
    labels = [named.words(setting) for setting in results.settings]
    many = len(labels) > MANY or max(map(len, ", ".join(labels).split(", "))) > WIDE
    for i, setting in enumerate(results.settings):
        mean, half = interval(100 * results.column(setting, named.column(setting, "violations_initial")))
        if many:  # horizontal bars, one below the other
            end = float(mean) + (float(half) if np.isfinite(half) else 0.0)
            ax.barh(i, float(mean), color=_colour(setting), height=0.6, xerr=half if np.isfinite(half) else None)
            ax.annotate(f"{float(mean):.3g} %", (end, i), textcoords="offset points", xytext=(4, 0), va="center")
            continue
        ax.bar(i, float(mean), color=_colour(setting), width=0.6)
        if np.isfinite(half):
            ax.errorbar(i, float(mean), yerr=float(half), color="black", capsize=3, linewidth=1)
        top = float(mean) + (float(half) if np.isfinite(half) else 0.0)
        ax.annotate(f"{float(mean):.3g} %", (i, top), textcoords="offset points", xytext=(0, 4), ha="center")
        for claim in results.study.claims:
            if claim.agent == setting.agent and claim.column == "violations_initial":
                ax.plot([i - 0.38, i + 0.38], [100 * claim.value] * 2, color="black", linestyle=":", linewidth=1.2)
                ax.annotate("paper", (i + 0.38, 100 * claim.value), fontsize=7, va="center")
    if many:
        ax.set_yticks(range(len(labels)), labels, fontsize=7)
    else:
        ax.set_xticks(range(len(labels)), [label.replace(", ", "\n") for label in labels])
    first = f"{results.study.initial:,}".replace(",", "\u202f")
    ax.set_title(f"violated of the first {first} {results.study.unit}{named.on_axis}", fontsize=9)
    if many:
        ax.set(xlabel="%", xlim=(0, None))
        ax.margins(x=0.2)
        ax.invert_yaxis()
        ax.grid(axis="y", visible=False)
        return
    ax.set(ylabel="%", ylim=(0, None))
    ax.margins(y=0.15)
    ax.grid(axis="x", visible=False)


def margin(ax: "Axes", results: Results, last: int | None = None) -> None:
    """The margin over time: the mean, and as a thin line the smallest of all realisations; below 0 is a violation.

    The margin is that of the condition that the agent keeps.
    """
    named = Judged(results)
    for setting in results.settings:
        steps, curves = results.curve(setting, named.column(setting, "margin"))
        inside = steps <= max(last or steps[-1], steps[0])
        ax.plot(steps[inside], curves.mean(axis=0)[inside], **_line(setting), label=named.words(setting))
        least = results.curve(setting, named.column(setting, "margin_min"))[1].min(axis=0)
        ax.plot(steps[inside], least[inside], color=_colour(setting), linewidth=0.6, alpha=0.8)
    ax.axhline(0, color="black", linewidth=1)
    ax.set_yscale("symlog", linthresh=10)
    label = f"margin{named.on_axis} (thin: smallest)"
    ax.set(xlabel=_axis(results), ylabel=results.in_unit(label), xlim=(0, last or results.study.length))
    _legend(ax, "lower right")


def baseline_share(ax: "Axes", results: Results) -> None:
    """The share of steps (or episodes) played with the baseline over time, for conservative settings."""
    for setting in results.settings:
        steps, kept = results.curve(setting, "baseline_steps")
        if kept[:, -1].max() == 0:
            continue
        every = max(1, len(steps) // BINS)
        ends = np.unique(np.r_[np.arange(every - 1, len(steps), every), len(steps) - 1])
        steps, kept = steps[ends], kept[:, ends]
        width = np.diff(np.r_[0, steps])
        share = 100 * np.diff(np.c_[np.zeros(len(kept)), kept], axis=1) / width
        _band(ax, steps, share, setting)
    ax.set(xlabel=_axis(results), ylabel="played with the baseline (%)", xlim=(0, results.study.length), ylim=(0, 105))
    _legend(ax, "upper right")


class Judged:
    """Which condition a figure judges each setting by: the one that its agent keeps.

    An agent that keeps none is judged by the condition that all others keep, or by replay if they differ. An agent that
    does not say its policies is judged by its decisions. If a figure has several conditions, its legend names them; if
    it has one, its axis does; in a study of episodes only if it is not the usual one.
    """

    def __init__(self, results: Results) -> None:
        conditions = {setting.index: results.judged_by(setting) for setting in results.settings}
        found = {condition for condition in conditions.values() if condition is not None}
        default = found.pop() if len(found) == 1 else "replay"
        self.conditions = {index: condition or default for index, condition in conditions.items()}
        self.several = len(set(self.conditions.values())) > 1
        only = self.conditions[results.settings[0].index]
        self.on_axis = "" if self.several or (results.study.episodes and only != EACH) else f", {only}"

    def column(self, setting: Setting, name: str) -> str:
        """The column of that name about the setting's condition."""
        return kept(self.conditions[setting.index], name)

    def words(self, setting: Setting) -> str:
        """The label, with the condition if the figure has several."""
        return _words(setting) + (f" [{self.conditions[setting.index]}]" if self.several else "")


FIGURES: dict[str, Callable[["Axes", Results], None]] = {
    "regret": regret,
    "violations": violations,
    "margin": margin,
    "margin-initial": lambda ax, results: margin(ax, results, results.study.initial),
    "baseline-share": baseline_share,
}


def make_figures(
    results: Results, out: str | Path | None = None, formats: Sequence[str] = ("png", "pdf")
) -> list[Path]:
    """Draw every figure of a study; the files written. `results.lack` says what is left out, if anything is.

    - `results`: the results of a study, as `load` or `run_study` return them.
    - `out`: the directory of the figures; by default `figures` in the directory of the study.
    - `formats`: "png", "pdf" or "svg".
    """
    folder = Path(out) if out is not None else results.path / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with styled():
        for name, draw in FIGURES.items():
            many = len(results.settings) > MANY
            figure = Figure(figsize=(9.0, 4.5) if many else None, layout="constrained")
            draw(figure.subplots(), results)
            written += save(figure, folder / name, formats)
        height = 3.5 if not many else 3.5 + 0.07 * len(results.settings)
        figure = Figure(figsize=(12.5, height), layout="constrained")
        axes = figure.subplots(1, 3)
        regret(axes[0], results)
        margin(axes[1], results, results.study.initial)
        violations(axes[2], results)
        if many:  # one legend for all panels
            for ax in axes[:2]:
                ax.get_legend().remove()
                ax.locator_params(axis="x", nbins=4)
            handles, labels = axes[1].get_legend_handles_labels()  # with the conditions, if there are several
            baseline = [line for line in axes[0].lines if line.get_label() == ALWAYS]
            handles, labels = [*handles, *baseline], [*labels, *(ALWAYS for _ in baseline)]
            figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=7)
        figure.suptitle(literally(results.study.title or results.study.name))
        written += save(figure, folder / "overview", formats)
        if results.truth is not None and results.truth.sketch is not None:
            written += save(draw_sketch(results.truth.sketch), folder / "problem", formats)
    return written


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
                    label = f"{titles[results.path]}: {setting.label}"
                    if name == "margin":
                        column = named.column(setting, name)
                        label += f" [{named.conditions[setting.index]}]" if mixed else ""
                    steps, curves = results.curve(setting, column)
                    shown = Setting(i, setting.agent, setting.alpha, label)
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


@contextmanager
def styled() -> Iterator[None]:
    """Figures made in this context look the same everywhere.

    The current directory may hold a `matplotlibrc`, which could name a module to import or send labels to LaTeX. So its
    settings are dropped, and no figure is made by pyplot, which would import the backend that they name.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def save(figure: Figure, path: Path, formats: Sequence[str]) -> list[Path]:
    """Write a figure without dates and versions, so that its bytes depend on what it shows alone."""
    metadata: dict[str, dict[str, Any]] = {
        "png": {"Software": None},
        "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
        "svg": {"Date": None, "Creator": None},
    }
    written = []
    figure.draw_without_rendering()  # compute the layout once for all formats
    figure.set_layout_engine("none")
    for kind in formats:
        if kind not in metadata:
            raise InvalidInput("this figure cannot be written", [f"format {kind!r}: there are {', '.join(metadata)}"])
        written.append(path.with_name(f"{path.name}.{kind}"))
        with replacing(written[-1]) as file:  # a link of that name is replaced, not followed
            figure.savefig(file, format=kind, metadata=metadata[kind])
    return written


def _band(ax: "Axes", steps: Floats, curves: Floats, setting: Setting) -> None:
    mean, half = interval(curves)
    ax.plot(steps, mean, **_line(setting), label=_words(setting))
    if np.all(np.isfinite(half)):
        ax.fill_between(steps, mean - half, mean + half, color=_colour(setting), alpha=0.2, linewidth=0)


def _words(setting: Setting) -> str:
    """The label, escaped so that Matplotlib shows it literally."""
    label = literally(setting.label)
    return f" {label}" if label.startswith("_") else label


def _legend(ax: "Axes", where: Any) -> None:
    """A legend; a long one stands beside the figure."""
    handles, _ = ax.get_legend_handles_labels()
    if len(handles) > MANY:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7)
    elif handles:
        ax.legend(loc=where)


def _line(setting: Setting) -> dict[str, Any]:
    turn = setting.index + setting.index // len(COLOURS)  # a colour that is used again gets another dash
    return {"color": _colour(setting), "linestyle": DASHES[turn % len(DASHES)]}


def _colour(setting: Setting) -> str:
    return COLOURS[setting.index % len(COLOURS)]


def _axis(results: Results) -> str:
    return "step" if results.study.steps else "episode"
