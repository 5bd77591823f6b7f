"""One self-contained HTML page about a study: what was run, the table, the figures, the paper's numbers beside ours."""

import base64
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefooted.evaluation.summary import of_problem
from surefooted.studies.building import build_problem
from surefooted.studies.figures import interval, make_figures
from surefooted.studies.folder import write
from surefooted.studies.results import Results
from surefooted.studies.spec import Setting

COLUMNS = {  # of the table: what it says, the column, how it is printed
    "regret": ("regret", "{:,.0f}"),
    "expected regret": ("pseudo_regret", "{:,.0f}"),
    "played with the baseline": ("baseline_steps", "{:,.0f}"),
    "distinct policies": ("distinct_policies", "{:,.0f}"),
    "violated of the initial phase": ("violations_initial", "{:.1%}"),
    "smallest margin": ("min_margin", "{:,.2f}"),
    "seconds per run": ("seconds", "{:.2f}"),
}
CAPTIONS = {
    "regret": "Expected regret: mean and 95 % confidence band; dashed, what always playing the baseline loses.",
    "margin": "Margin over (1 − α) of the baseline, exactly: mean (thick) and smallest of all realisations (thin). "
    "Below 0 the condition is violated. The scale is linear between −10 and 10 and logarithmic beyond.",
    "margin-initial": "The same in the initial phase.",
    "violations": "Share of the initial phase in which the condition does not hold: mean and 95 % interval.",
    "baseline-share": "Share of play that is the baseline's.",
    "problem": "The problem: its baseline and an optimal policy.",
}
NARROW = "\u202f"  # a narrow space between thousands
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


def table(results: Results) -> list[dict[str, Any]]:
    """One row per setting: how many runs, the mean and the 95 % half-width of each column, runs with violations."""
    rows = []
    for setting in results.settings:
        row: dict[str, Any] = {"setting": setting.label, "alpha": setting.alpha}
        row["realisations"] = len(results.column(setting, "regret"))
        for name, _ in COLUMNS.values():
            mean, half = interval(results.column(setting, name).astype(float))
            row[name], row[f"{name}_half"] = float(mean), float(half)
        row["min_margin"] = float(results.column(setting, "min_margin").min())
        del row["min_margin_half"]
        row["runs_violated"] = int((results.column(setting, "violations_total") > 0).sum())
        rows.append(row)
    return rows


def make_report(results: Results, out: str | Path | None = None, drawn: Sequence[Path] | None = None) -> Path:
    """Write the page, DIR/report.html unless told otherwise, with the figures that are `drawn` already if they are."""
    path = Path(out) if out is not None else results.path / "report.html"
    figures = {p.stem: p for p in drawn or () if p.suffix == ".png"}
    figures = figures or {p.stem: p for p in make_figures(results, formats=("png",))}
    study, body = results.study, []
    body.append(f"<h1>{_text(study.title or study.name)}</h1>")
    length = f"{study.length:,}".replace(",", NARROW)
    done, asked = results.runs.num_rows, study.realisations * len(study.settings)
    about = f"{study.realisations} realisations of {length} {study.unit}, seed {study.seed}"
    about = f"Unfinished: {done} of {asked} runs. To be {about}" if done < asked else about
    body.append(f"<p class=soft>{_text(about)}</p><p>{_text(study.about)}</p>")
    body.append(f"<p>{_text(_verdict(results))}</p>")
    body.append("<h2>Results</h2>" + _results(results))
    body.append("<div class=figures>")
    for name, caption in CAPTIONS.items():
        body.append(_figure(figures[name], caption))
    body.append("</div>")
    body.append("<h2>The paper's numbers beside ours</h2>" + _claims(results))
    body.append("<h2>What was run</h2><pre>" + _text(study.to_toml()) + "</pre>")
    body.append("<h2>How to run it again</h2>" + _again(results))
    page = (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{_text(study.title or study.name)}</title><style>{STYLE}</style><body>{''.join(body)}</body></html>\n"
    )
    write(path, page.encode())
    return path


def _verdict(results: Results) -> str:
    """In one sentence, who broke the promise."""
    broken = [(row["setting"], row["runs_violated"], row["realisations"]) for row in table(results)]
    guilty = [f"{label} in {bad} of {runs} runs" for label, bad, runs in broken if bad]
    clean = [label for label, bad, _ in broken if not bad]
    said = [f"The condition is violated by {'; '.join(guilty)}." if guilty else "The condition is never violated."]
    if guilty and clean:
        said.append(f"It is never violated by {'; '.join(clean)}.")
    return " ".join(said)


def _results(results: Results) -> str:
    head = ["setting", "runs", *COLUMNS, "runs with a violation"]
    rows = []
    for row in table(results):
        cells = [row["setting"], str(row["realisations"])]
        for name, form in COLUMNS.values():
            half = row.get(f"{name}_half", np.nan)
            with_half = np.isfinite(half) and name != "seconds"
            cell = form.format(row[name]) + (f"\u00a0±\u00a0{form.format(half)}" if with_half else "")
            cells.append(cell.replace(",", NARROW))
        rows.append([*cells, str(row["runs_violated"])])
    note = "Mean ± half-width of its 95 % confidence interval (Student's t); the smallest margin is that of all runs."
    return _table(head, rows) + f"<p class=soft>{_text(note)}</p>"


def _claims(results: Results) -> str:
    """Every number that the paper prints, ours, and what is known of the difference."""
    rows = []
    for fact in of_problem(build_problem(results.study.problem), False):
        if fact.paper is not None:
            ours = f"{fact.value:.4g}" if isinstance(fact.value, float) else str(fact.value)
            differs = "" if ours == f"{fact.paper:g}" else "The paper does not print all that defines its problem."
            rows.append([fact.words, f"{fact.paper:g}", ours, differs])
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
    versions = ", ".join(f"{name} {number}" for name, number in results.manifest.get("versions", {}).items())
    commit = results.manifest.get("commit") or "none known"
    lines = [
        "<pre>surefooted run study.toml --out DIR\nsurefooted report DIR</pre>",
        f"<p class=soft>with the study above as <code>study.toml</code>. Python {results.manifest.get('python')}, ",
        f"{_text(versions)}; commit {_text(commit)}. Results do not depend on the engine or the number of workers.</p>",
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


def _text(words: str) -> str:
    return html.escape(words, quote=True)
