"""One self-contained HTML page about a study: the table, the figures, the paper's numbers beside ours, what was run."""

import base64
import hashlib
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefooted.studies.columns import DECISIONS, kept
from surefooted.studies.figures import make_figures
from surefooted.studies.results import Results
from surefooted.studies.spec import Setting
from surefooted.studies.statistics import cell, interval, shown, table
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
THIN_SPACE = "\u202f"  # between thousands
STYLE = """
:root { color-scheme: light dark; --line: #ccc; --soft: #666; }
@media (prefers-color-scheme: dark) { :root { --line: #444; --soft: #aaa; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.2rem; } .soft { color: var(--soft); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
table { font-size: .9rem; }
th, td { padding: .35rem .55rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; } .words td, .words th { text-align: left; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1rem 1.5rem; }
figure { margin: .6rem 0; } figure img { max-width: 100%; background: white; border-radius: 4px; }
figcaption { color: var(--soft); font-size: .9rem; }
pre { overflow-x: auto; padding: .8rem; border: 1px solid var(--line); }
"""
# The page needs its own style and the pictures in it: no script, no other file, no form.
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; img-src data:; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"


def make_report(results: Results, out: str | Path | None = None, drawn: Sequence[Path] | None = None) -> Path:
    """Write the page, and return its path.

    - `results`: the results of a study, as `load` or `run_study` return them.
    - `out`: the file; by default report.html in the directory of the study.
    - `drawn`: the files of the figures, if `make_figures` has drawn them already.
    """
    path = Path(out) if out is not None else results.path / "report.html"
    figures = {p.stem: p for p in drawn or () if p.suffix == ".png"}
    figures = figures or {p.stem: p for p in make_figures(results, formats=("png",))}
    study, rows, body = results.study, table(results), []
    body.append(f"<h1>{_text(study.title or study.name)}</h1>")
    length = f"{study.length:,}".replace(",", THIN_SPACE)
    done, asked = results.runs.num_rows, study.realisations * len(study.settings)
    about = f"{study.realisations} realisations of {length} {study.unit}, seed {study.seed}"
    about = f"Unfinished: {done} of {asked} runs of {about}" if done < asked else about
    body.append(f"<p class=soft>{_text(about)}</p><p>{_text(study.about)}</p>")
    body.append(f"<p>{_text(_verdict(rows))}</p>")
    body.append("<h2>Results</h2>" + _results(rows, study.unit))
    body.append("<div class=figures>")
    body += [_figure(figures[name], caption) for name, caption in CAPTIONS.items() if name in figures]
    notes = [*results.remarks, *([results.lack] if results.lack else [])]
    body.append("</div>" + "".join(f"<p class=soft>{_text(note)}</p>" for note in notes))
    body.append("<h2>The paper's numbers beside ours</h2>" + _claims(results))
    body.append("<h2>What was run</h2><pre>" + _text(study.to_toml()) + "</pre>")
    body.append("<h2>How to run it again</h2>" + _again(results))
    page = (
        f"<!doctype html><html lang=en><meta charset=utf-8>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><meta name=referrer content=no-referrer>'
        f"<meta name=viewport content='width=device-width'>"
        f"<title>{_text(study.title or study.name)}</title><style>{STYLE}</style><body>{''.join(body)}</body></html>\n"
    )
    write(path, page.encode())
    return path


def _verdict(rows: list[dict[str, Any]]) -> str:
    """Which settings violated the condition, in a few sentences."""
    judged = [(row, row[kept(row["condition"], "runs_violated")]) for row in rows]
    broken = [(row["setting"], bad, row["realisations"]) for row, bad in judged]
    guilty = [f"{label} in {bad} of {runs} runs" for label, bad, runs in broken if bad]
    clean = [label for label, bad, _ in broken if not bad]
    said = [f"The condition is violated by {'; '.join(guilty)}." if guilty else "The condition is never violated."]
    if guilty and clean:
        said.append(f"It is never violated by {'; '.join(clean)}.")
    if any(row["condition"] == DECISIONS for row in rows):
        said.append("Each agent is judged by the condition that it keeps; those that keep none are judged by replay.")
    return " ".join(said)


def _results(rows: list[dict[str, Any]], unit: str) -> str:
    """The table of the settings."""
    summaries = shown(rows)
    head = ["setting", "runs", *(summary.heading.format(unit=unit) for summary in summaries)]
    lines = [
        [row["setting"], str(row["realisations"]), *(cell(s, row, THIN_SPACE, "\u00a0") for s in summaries)]
        for row in rows
    ]
    note = "Mean ± half-width of its 95 % confidence interval (Student's t); the smallest margin is over all runs."
    return _table(head, lines) + f"<p class=soft>{_text(note)}</p>"


def _claims(results: Results) -> str:
    """Every number that the paper prints, our number, and a note on the difference."""
    rows = []
    for fact in results.truth.printed if results.truth is not None else ():
        differs = "" if fact.ours == f"{fact.paper:g}" else "The paper does not define its problem completely."
        rows.append([fact.words, f"{fact.paper:g}", fact.ours, differs])
    for claim in results.study.claims:
        rows.append([claim.what, f"{claim.value:g}", _ours(results, claim.agent, claim.column), claim.note])
    if not rows:
        return "<p>The paper prints no number for this study.</p>"
    return _table(["", "paper", "ours", "what differs"], rows, "words")


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
    commit, python = _text(str(about.get("commit") or "none known")), _text(str(about.get("python")))
    sessions = [past.get("differences") for past in _list(about.get("sessions")) if isinstance(past, dict)]
    said = dict.fromkeys(str(line) for differences in sessions for line in _list(differences))
    lines = [
        "<pre>surefooted run study.toml --out DIR\nsurefooted report DIR</pre>",
        f"<p class=soft>with the study above as <code>study.toml</code>. Python {python}, ",
        f"{_text(versions)}; commit {commit}. Results do not depend on the engine or the number of workers.</p>",
        *(f"<p class=soft>{_text(line)}</p>" for line in said),
    ]
    return "".join(lines)


def _figure(path: Path, caption: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    image = f"<img alt='{_text(caption)}' src='data:image/png;base64,{data}'>"
    return f"<figure>{image}<figcaption>{_text(caption)}</figcaption></figure>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    top = "".join(f"<th>{_text(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table class='{kind}'><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _list(value: Any) -> list[Any]:
    """A list of a file that may hold anything; empty if it is none."""
    return value if isinstance(value, list) else []


def _text(words: str) -> str:
    return html.escape(words, quote=True)
