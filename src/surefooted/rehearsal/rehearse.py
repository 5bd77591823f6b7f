"""Rehearse: a year of a deployment against a simulated world, with everything that goes wrong, and an exact verdict."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from surefooted.arrays import is_whole
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.forecasting.models import Models
from surefooted.forecasting.options import exact_baseline
from surefooted.live import open as open_store
from surefooted.live.advisor import Advisor
from surefooted.live.decision import MODES, Mode
from surefooted.live.opening import exists, shown
from surefooted.problems.problem import Problem
from surefooted.problems.problem_file import ProblemFile
from surefooted.rehearsal.client import Client
from surefooted.rehearsal.deploying import SOURCES, Source, baseline_of, deploy
from surefooted.rehearsal.oracle import Exact, examine
from surefooted.rehearsal.script import BEGINS, Adversity, Seen, World, Year, length_of
from surefooted.tables.space import Space

NAME = "rehearsal"
WITHOUT_A_STEP = 365  # decisions of a year, if the file does not say how long a step is


@dataclass(frozen=True)
class Rehearsal:
    """What happened in a rehearsed year, as `rehearse` returns it; `str` of it is a page for people.

    - `seen`: the mishaps, and what the advisor acknowledged; `killed`: how often its process was killed.
    - `exact`: the exact margins.
    - `faults`: what `verify` found, and acknowledged answers that are missing in the journal or stand there twice.
    - `alarms`, `contradictions`: what the advisor itself noticed.
    - `told`: what the advisor was told that the baseline earns.
    """

    seen: Seen
    killed: int
    exact: Exact
    faults: tuple[str, ...]
    alarms: tuple[str, ...]
    contradictions: tuple[str, ...]
    earned: float
    told: float
    sites: int
    events: int
    space: Space
    step: str
    seconds: float

    @property
    def went_well(self) -> bool:
        """Whether nothing was lost or damaged, and the promise was kept at every decision."""
        return not self.faults and not self.exact.broken

    def __str__(self) -> str:
        """A page for people."""
        seen, exact, words = self.seen, self.exact, self.space.amount
        what = f"{seen.decisions} decisions at {self.sites} site{'s' * (self.sites != 1)}, one each {self.step}"
        lines = [f"Rehearsed {what} ({self.seconds:.0f} s)."]
        lines.append(
            f"Outcomes: {seen.late} late, {seen.lost} lost, {seen.repeated} told twice. People: {seen.overrides} "
            f"played something else, {seen.moved} moved a site, {seen.pauses} paused, {seen.approved} approved, "
            f"{seen.rejected} rejected, {seen.unanswered} did not answer."
        )
        lines.append(f"The advisor's process was killed in the middle of a call: {self.killed}.")
        lines.append(
            f"{exact.departures} decisions departed from the baseline; they are worth {words(exact.worth)} in the long "
            f"run, exactly. Earned: {words(self.earned)}. The baseline earns {words(exact.gain)} a {self.step}; "
            f"the advisor was told {words(self.told)}."
        )
        kept = "The promise was kept at every decision" if not exact.broken else (
            f"THE PROMISE WAS BROKEN at {exact.broken} decisions"
        )  # fmt: skip
        lines.append(f"{kept}: the smallest exact margin was {words(exact.margin)}.")
        above = f"At {exact.too_high} decisions an account had proved more than the truth."
        lines.append(above if exact.too_high else "No account ever had more in it than the truth.")
        lines += [f"Alarm: {what}." for what in self.alarms] + [f"Contradiction: {x}" for x in self.contradictions]
        whole = f"All {self.events} events are as they were written, and give the same decisions again."
        lines += [f"FAULT: {fault}" for fault in self.faults] or [whole]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        seen = {name: value for name, value in asdict(self.seen).items() if isinstance(value, int)}
        exact = asdict(self.exact) | {"margin": None if self.exact.margin == np.inf else self.exact.margin}
        names = ("killed", "earned", "told", "sites", "events", "step", "seconds", "went_well")
        listed = {name: list(getattr(self, name)) for name in ("faults", "alarms", "contradictions")}
        return seen | {name: getattr(self, name) for name in names} | {"exact": exact} | listed


def rehearse(
    file: ProblemFile,
    *,
    source: Source | Literal["world"] | None = None,
    world: Problem | Literal["model", "log"] | None = None,
    steps: int | None = None,
    sites: int = 1,
    mode: Mode = "live",
    adversity: Adversity | None = None,
    seed: int = 0,
    store: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Rehearsal:
    """Play a year of a problem file's deployment against a simulated world, and examine it exactly.

    Parameters
    ----------
    file : the problem file, as `sf.problems.load` returns it
    source : whose numbers the advisor is told about the baseline: "file", "model", "log", or "world" (the exact ones of
        the simulated world); by default the file's, or the world's if the file has none
    world : the truth: "model" (the file's), "log" (drawn from what its log and knowledge allow), or a `Problem`; by
        default the model if there is one
    steps : decisions of each site; by default those of a year
    sites, mode : how many sites, and how the advisor decides
    adversity : what goes wrong, and how often
    seed : of everything that is drawn, except when exactly a process dies
    store : a new store that is kept, a file or an address; by default a temporary file
    progress : is called with the steps played and all steps
    options : further ones of `LiveStore.create_deployment`

    """
    began = time.perf_counter()
    adversity = adversity or Adversity()
    faults = [] if steps is None or is_whole(steps, 1) else [f"steps {steps} must be a positive whole number"]
    faults += [] if is_whole(sites, 1) else [f"sites {sites} must be a positive whole number"]
    faults += [] if mode in MODES else [f"mode {mode!r}: there are {', '.join(MODES)}"]
    faults += (
        [] if source in (None, "world", *SOURCES) else [f"source {source!r}: there are world, {', '.join(SOURCES)}"]
    )
    if faults:
        raise InvalidInput("this cannot be rehearsed", faults)
    rng, fate = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    truth = _truth(file, world, rng)
    source = source or ("file" if file.baseline.is_known else "world")
    baseline = exact_baseline(truth) if source == "world" else baseline_of(file, source, seed).baseline
    n = steps or max(1, round(file.step.per_year if file.step is not None else WITHOUT_A_STEP))
    length = length_of(file.step)
    # so that, if nobody ever answers, all sites are decided within the step
    options.setdefault("deadline", min(24.0, length.total_seconds() / 3_600 / (4 * sites)))
    names = tuple(f"site {i + 1}" for i in range(sites)) if sites > 1 else ("the site",)
    with tempfile.TemporaryDirectory(prefix="surefooted-") as folder:
        path = store if store is not None else Path(folder) / "rehearsal.db"
        if exists(path):
            raise InvalidInput(
                "this cannot be rehearsed", [f"{shown(path)} exists already: a rehearsal needs a new store"]
            )
        with open_store(path, lambda: BEGINS) as opened:
            deploy(opened, file, baseline, name=NAME, sites=names, mode=mode, seed=seed, who="rehearsal", **options)
        deaths = fate.choice(np.arange(2, 2 * n * sites + 1), min(adversity.crashes, 2 * n * sites - 1), replace=False)
        client = Client(path, NAME, fate, {int(call) for call in deaths})
        try:
            year = Year(client, World(truth, rng), names, adversity, length)
            seen = year.play(n, progress)
        finally:
            client.close()
        with open_store(path) as opened:
            advisor, checked = opened.deployment(NAME), opened.verify()
            found = [*checked.faults, *_missing(advisor, seen)]
            status, rewards = advisor.status(), [row["reward"] or 0.0 for row in advisor.table()]
            alarms = [event.body["what"] for event in advisor.journal() if event.kind == "alarm"]
            return Rehearsal(
                seen, client.killed, examine(advisor, truth), tuple(found), tuple(alarms),
                tuple(status["contradictions"]), float(sum(rewards)), float(baseline.gain or 0.0), sites,
                checked.events, file.space, "step" if file.step is None else str(file.step),
                time.perf_counter() - began,
            )  # fmt: skip


def _truth(file: ProblemFile, world: Problem | str | None, rng: np.random.Generator) -> Problem:
    """The table that is taken for the truth."""
    if isinstance(world, Problem):
        if world.space != file.space:
            raise InvalidInput("this cannot be rehearsed", [f"the world is on {world.space}, the file on {file.space}"])
        return world
    if world not in (None, "model", "log"):
        raise InvalidInput("this cannot be rehearsed", [f"world {world!r}: there are model, log, or a saved problem"])
    if world == "model" or (world is None and file.problem is not None):
        return file.true_problem()
    counts = Counts(file.space) if file.history is None else file.history.counts
    return Models(counts, file.knowledge, file.baseline.policy, file.start, None).draw(rng)


def _missing(advisor: Advisor, seen: Seen) -> list[str]:
    """Acknowledged decisions and outcomes that are not in the journal as they were acknowledged, exactly once."""
    rows = {row["decision"]: row for row in advisor.table()}
    faults = []
    keys = [(row["site"], row["key"]) for row in rows.values()]
    faults += [f"{site}, {key}: was decided twice" for site, key in sorted({k for k in keys if keys.count(k) > 1})]
    for (site, key), (n, label) in seen.asked.items():
        row = rows.get(n)
        if row is None or (row["site"], row["key"], row["asked"]) != (site, key, label):
            faults.append(
                f"decision {n} ({site}, {key}: {label}) was acknowledged, and is not in the journal like that"
            )
    for n, reward in seen.told.items():
        told = rows[n]["reward"] if n in rows else None
        if told is None or abs(told - reward) > advisor.space.money.slack:
            faults.append(f"decision {n}: its reward {reward} was acknowledged, and the journal says {told}")
    return faults
