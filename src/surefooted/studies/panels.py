"""The panels of a study's figures, as functions on axes: each draws one thing about all settings."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from surefooted.evaluation.pictures import literally
from surefooted.studies.columns import EACH, kept
from surefooted.studies.results import Results
from surefooted.studies.settings import Setting
from surefooted.studies.statistics import REGRETS, interval, regret_column
from surefooted.studies.style import COLOURS, DASHES
from surefooted.tables.space import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALWAYS = "always the baseline"
BASELINE: dict[str, Any] = {"color": "0.45", "linestyle": (0, (4, 2)), "linewidth": 1.2}
WIDE = 16  # letters that fit below a bar
LINEAR = 10.0  # margins up to this are shown on a linear scale
MANY = 8  # curves whose legend fits inside a figure
BINS = 60  # over which the share of baseline play is averaged: a single decision is all or nothing


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
        known = np.isfinite(half)
        around = np.array([[min(half, mean)], [min(half, 100 - mean)]]) if known else np.zeros((2, 1))  # a share
        end = float(mean + around[1, 0])
        if many:  # horizontal bars, one below the other
            ax.barh(i, float(mean), color=_colour(setting), height=0.6, xerr=around if known else None)
            ax.annotate(f"{float(mean):.3g} %", (end, i), textcoords="offset points", xytext=(4, 0), va="center")
            continue
        ax.bar(i, float(mean), color=_colour(setting), width=0.6)
        if known:
            ax.errorbar(i, float(mean), yerr=around, color="black", capsize=3, linewidth=1)
        ax.annotate(f"{float(mean):.3g} %", (i, end), textcoords="offset points", xytext=(0, 4), ha="center")
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
    ax.margins(y=0.15)  # before the limit, which ends autoscaling: room for the numbers above the bars
    ax.set(ylabel="%", ylim=(0, None))
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
    if np.abs(ax.get_ylim()).max() > LINEAR:
        ax.set_yscale("symlog", linthresh=LINEAR)
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
        _band(ax, steps, share, setting, (0.0, 100.0))
    ax.set(xlabel=_axis(results), ylabel="baseline played (%)", xlim=(0, results.study.length), ylim=(0, 105))
    _legend(ax, "upper right")


class Judged:
    """Which condition a figure judges each setting by: the one that its agent keeps.

    An agent that keeps none is judged by the condition that all others keep, or by replay if they differ. An agent that
    does not say its policies is judged by its decisions. If a figure has several conditions, its legend names them; if
    it has one, its axis does; in a study of episodes only if it is not the usual one.
    """

    def __init__(self, results: Results) -> None:
        self.conditions = results.conditions
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


def _band(
    ax: "Axes", steps: Floats, curves: Floats, setting: Setting, within: tuple[float, float] = (-np.inf, np.inf)
) -> None:
    """A mean and the band of its interval, which is cut to the values that can be."""
    mean, half = interval(curves)
    ax.plot(steps, mean, **_line(setting), label=_words(setting))
    if np.all(np.isfinite(half)):
        band = np.clip(mean - half, *within), np.clip(mean + half, *within)
        ax.fill_between(steps, *band, color=_colour(setting), alpha=0.2, linewidth=0)


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
    turn = setting.look + setting.look // len(COLOURS)  # a colour that is used again gets another dash
    return {"color": _colour(setting), "linestyle": DASHES[turn % len(DASHES)]}


def _colour(setting: Setting) -> str:
    return COLOURS[setting.look % len(COLOURS)]


def _axis(results: Results) -> str:
    return "step" if results.study.steps else "episode"
