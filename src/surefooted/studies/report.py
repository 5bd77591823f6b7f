"""One self-contained HTML page about a study: the table, the figures, the paper's numbers beside ours, what was run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefooted.pages import figure, page, table, text
from surefooted.studies.columns import PREFIXES, judged_by, kept
from surefooted.studies.figures import file_names, make_figures
from surefooted.studies.results import Results
from surefooted.studies.settings import Setting
from surefooted.studies.statistics import interval
from surefooted.studies.statistics import table as summaries_of
from surefooted.studies.tables import THIN_SPACE, of_comparisons, of_settings
from surefooted.studies.validity import unproved
from surefooted.tables.files import write

CAPTIONS = {
    "regret": "Expected regret: mean and 95 % confidence band. Dashed: the regret of always playing the baseline.",
    "margin": "The exact margin over (1 − α) of the baseline, of the condition that the axis or the legend names: "
    "mean (thick) and smallest of all realisations (thin). "
    "Below 0 the condition is violated. The scale is linear between −10 and 10 and logarithmic beyond.",
    "margin-initial": "The exact margin in the initial phase.",
    "violations": "Share of the initial phase in which the condition is violated: mean and 95 % confidence interval.",
    "baseline-share": "Share of steps or episodes played with the baseline.",
    "problem": "The problem: its baseline and an optimal policy.",
}


def make_report(results: Results, out: str | Path | None = None, drawn: Sequence[Path] | None = None) -> Path:
    """Write the page, and return its path.

    - `results`: the results of a study, as `load` or `run_study` return them.
    - `out`: the file; by default report.html in the directory of the study.
    - `drawn`: the files of the figures, if `make_figures` has drawn them already.
    """
    path = Path(out) if out is not None else results.path / "report.html"
    pictures = {p.stem: p for p in drawn or () if p.suffix == ".png"}
    pictures = pictures or {p.stem: p for p in make_figures(results, formats=("png",))}
    study, rows, body = results.study, summaries_of(results), []
    body.append(f"<h1>{text(study.title or study.name)}</h1>")
    length = f"{study.length:,}".replace(",", THIN_SPACE)
    done, asked = results.runs.num_rows, study.realisations * len(study.settings)
    about = f"{study.realisations} realisations of {length} {study.unit}, seed {study.seed}"
    about = f"Unfinished: {done} of {asked} runs of {about}" if done < asked else about
    body.append(f"<p class=soft>{text(about)}</p><p>{text(study.about)}</p>")
    body.append(f"<p>{text(_verdict(rows))}</p>")
    body += [f"<p>{text(line)}</p>" for line in unproved(rows)]
    body.append("<h2>Results</h2>" + _results(rows, results) + _comparisons(results))
    for on, prefix in file_names(results).items():
        body.append((f"<h3>{text(on)}</h3>" if prefix else "") + "<div class=figures>")
        shown = {f"{prefix}{name}": caption for name, caption in CAPTIONS.items()}
        body += [figure(pictures[name].read_bytes(), said) for name, said in shown.items() if name in pictures]
        body.append("</div>")
    notes = [*results.remarks, *([results.lack] if results.lack else [])]
    body += [f"<p class=soft>{text(note)}</p>" for note in notes]
    body.append("<h2>The paper's numbers beside ours</h2>" + _claims(results))
    body.append("<h2>What was run</h2><pre>" + text(study.to_toml()) + "</pre>")
    body.append("<h2>How to run it again</h2>" + _again(results))
    write(path, page(study.title or study.name, "".join(body)))
    return path


def _verdict(rows: list[dict[str, Any]]) -> str:
    """Which settings violated the condition, in a few sentences."""
    conditions = [row.get("judged_by") or judged_by(row["condition"], row["runs_violated"]) for row in rows]
    judged = [(row, row[kept(condition, "runs_violated")]) for row, condition in zip(rows, conditions, strict=True)]
    broken = [(row["setting"], bad, row["realisations"]) for row, bad in judged]
    guilty = [f"{label} in {bad} of {runs} runs" for label, bad, runs in broken if bad]
    clean = [label for label, bad, _ in broken if not bad]
    said = [f"The condition is violated by {'; '.join(guilty)}." if guilty else "The condition is never violated."]
    if guilty and clean:
        said.append(f"It is never violated by {'; '.join(clean)}.")
    if any(row["condition"] in PREFIXES for row in rows):
        said.append("Each agent is judged by the condition that it keeps; one that keeps none as the table says.")
    if silent := [row["setting"] for row in rows if row["runs_violated"] is None]:
        said.append(f"These do not say which policies they follow and are judged by decisions: {'; '.join(silent)}.")
    return " ".join(said)


def _results(rows: list[dict[str, Any]], results: Results) -> str:
    """The table of the settings."""
    note = "Mean ± half-width of its 95 % confidence interval (Student's t); the smallest margin is over all runs."
    return table(*of_settings(rows, results)) + f"<p class=soft>{text(note)}</p>"


def _comparisons(results: Results) -> str:
    """The table of paired comparisons, if there is anything to compare."""
    head, lines = of_comparisons(results)
    if not lines:
        return ""
    worlds = "one seed for what the problem draws" if results.study.paired else "seeds of their own"
    note = (
        "Pairs are runs of the same realisation; "
        f"in this study they have {worlds}. All intervals of a problem hold together with probability 95 % "
        "(Student's t, Bonferroni)."
    )
    return "<h2>Paired comparisons</h2>" + table(head, lines) + f"<p class=soft>{text(note)}</p>"


def _claims(results: Results) -> str:
    """Every number that the paper prints, our number, and a note on the difference."""
    rows = []
    for fact in (fact for truth in results.truths.values() for fact in truth.printed):
        differs = "" if fact.ours == f"{fact.paper:g}" else "The paper does not define its problem completely."
        rows.append([fact.words, f"{fact.paper:g}", fact.ours, differs])
    for claim in results.study.claims:
        rows.append([claim.what, f"{claim.value:g}", _ours(results, claim.agent, claim.column), claim.note])
    if not rows:
        return "<p>The paper prints no number for this study.</p>"
    return table(["", "paper", "ours", "what differs"], rows, "words")


def _ours(results: Results, agent: str | None, column: str | None) -> str:
    found: list[Setting] = [setting for setting in results.settings if setting.agent == agent]
    if column is None or not found:
        return "–"
    values = []
    for setting in found:
        mean, half = interval(results.column(setting, column).astype(float))
        values.append(f"{float(mean):.3g}" + (f" ± {float(half):.1g}" if np.isfinite(half) else ""))
    return "; ".join(values)


def _again(results: Results) -> str:
    about = results.manifest
    held = about.get("versions")
    versions = ", ".join(f"{name} {number}" for name, number in (held if isinstance(held, dict) else {}).items())
    commit, python = text(str(about.get("commit") or "none known")), text(str(about.get("python")))
    sessions = [past.get("differences") for past in _list(about.get("sessions")) if isinstance(past, dict)]
    said = dict.fromkeys(str(line) for differences in sessions for line in _list(differences))
    lines = [
        "<pre>surefooted run study.toml --out DIR\nsurefooted report DIR</pre>",
        f"<p class=soft>with the study above as <code>study.toml</code>. Python {python}, ",
        f"{text(versions)}; commit {commit}. Results do not depend on the engine or the number of workers.</p>",
        *(f"<p class=soft>{text(line)}</p>" for line in said),
    ]
    return "".join(lines)


def _list(value: Any) -> list[Any]:
    """A list of a file that may hold anything; empty if it is none."""
    return value if isinstance(value, list) else []
