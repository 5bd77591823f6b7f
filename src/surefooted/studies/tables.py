"""The tables of a study for people: all settings, and paired comparisons; as cells, and as LaTeX."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

from surefooted.studies.columns import AMOUNTS
from surefooted.studies.results import Results
from surefooted.studies.statistics import REGRETS, cell, regret_column, shown, table

Cells = tuple[list[str], list[list[str]]]  # a heading and lines
THIN_SPACE = "\u202f"  # between thousands
LETTERS = {
    **{"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"},
    **{"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$"},
    **{"±": r"$\pm$", "–": "--", "−": "$-$", THIN_SPACE: r"\,", "\u00a0": "~", "€": r"\texteuro{}"},
    **{"α": r"$\alpha$", "δ": r"$\delta$", "λ": r"$\lambda$", "σ": r"$\sigma$", "ε": r"$\varepsilon$"},
}


def of_settings(rows: Sequence[dict[str, Any]], results: Results, is_narrow: bool = False) -> Cells:
    """A line for each setting: α, the condition it is judged by, what is proved, and the summaries.

    A narrow table has the summaries of the terminal.
    """
    summaries = [s for s in shown(list(rows)) if s.short or not is_narrow]
    head = ["setting", "runs", "α", "judged by", "guarantee"]
    for summary in summaries:
        words = (summary.short if is_narrow else summary.heading).format(unit=results.study.unit)
        head.append(results.in_unit(words) if summary.name in AMOUNTS else words)
    lines = []
    for row in rows:
        known = [row["setting"], str(row["realisations"]), f"{row['alpha']:g}", row["judged_by"], row["proof"]]
        lines.append([*known, *(cell(s, row, THIN_SPACE, "\u00a0") for s in summaries)])
    return head, lines


def comparisons(results: Results) -> list[dict[str, Any]]:
    """Each setting against the first one of its problem, realisation by realisation: what it lost more.

    A row has the mean of the differences of regret, the half-width of its interval, and the share of realisations in
    which the setting lost less. All intervals of a problem hold together with probability 95 %, if differences are
    about normal (Student's t; each of m intervals has the share 5 % / m).
    """
    rows = []
    for part in results.by_problem():
        column, (first, *others) = regret_column([part]), part.settings
        base = _by_realisation(part, first, column)
        for setting in others:
            ours = _by_realisation(part, setting, column)
            both = sorted(base.keys() & ours.keys())
            more = np.array([ours[k] - base[k] for k in both])
            known = len(both) > 1 and bool(np.isfinite(more).all())
            quantile = stdtrit(max(len(both) - 1, 1), 1 - 0.025 / len(others))
            rows.append(
                {
                    "problem": setting.on,
                    "setting": setting.label,
                    "against": first.label,
                    "realisations": len(both),
                    "difference": float(more.mean()) if len(both) else math.nan,
                    "half": float(quantile * more.std(ddof=1) / math.sqrt(len(both))) if known else math.nan,
                    "less": float((more < 0).mean()) if len(both) else math.nan,
                }
            )
    return rows


def of_comparisons(results: Results) -> Cells:
    """A line for each comparison."""
    several = len(results.problems) > 1
    words = results.in_unit(f"more {REGRETS[regret_column([results])]}")
    head = [*(["problem"] if several else []), "setting", "against", "pairs", words, "pairs with less"]
    lines = []
    for row in comparisons(results):
        known = "–" if math.isnan(row["difference"]) else f"{row['difference']:+,.1f}".replace(",", THIN_SPACE)
        if math.isfinite(row["half"]):
            known += f"\u00a0±\u00a0{row['half']:,.1f}".replace(",", THIN_SPACE)
        share = "–" if math.isnan(row["less"]) else f"{row['less']:.0%}"
        said = [row["setting"], row["against"], str(row["realisations"]), known, share]
        lines.append([*([row["problem"]] if several else []), *said])
    return head, lines


def latex(cells: Cells, caption: str = "") -> str:
    """A table for LaTeX; it needs the package booktabs."""
    head, lines = cells
    columns = "l" + "r" * (len(head) - 1)
    rows = [" & ".join(map(_letters, line)) + r" \\" for line in [head, *lines]]
    body = "\n".join([rf"\begin{{tabular}}{{{columns}}}", r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule"])
    said = rf"\caption{{{_letters(caption)}}}" + "\n" if caption else ""
    return r"\begin{table}" + "\n" + r"\centering" + f"\n{said}{body}\n" + r"\end{tabular}" + "\n" + r"\end{table}"


def all_latex(results: Results) -> str:
    """Both tables of a study for LaTeX."""
    title = results.study.title or results.study.name
    found = [latex(of_settings(table(results), results, is_narrow=True), title)]
    compared = of_comparisons(results)
    return "\n\n".join([*found, *([latex(compared, f"{title}: paired comparisons")] if compared[1] else [])])


def _letters(words: str) -> str:
    """Words that LaTeX prints as they are."""
    minus = words.replace("-", "−", 1) if words[:1] == "-" and words[1:2].isdigit() else words
    return "".join(LETTERS.get(letter, letter) for letter in minus)


def _by_realisation(results: Results, setting: Any, column: str) -> dict[int, float]:
    """A column of the runs of a setting, by realisation."""
    keys, values = results.column(setting, "realisation"), results.column(setting, column).astype(float)
    return dict(zip(keys.tolist(), values.tolist(), strict=True))
