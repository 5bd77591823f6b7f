"""From a problem file to a deployment: what the baseline earns, what the log has seen, what may be lost.

An advisor needs the gain and bias of the baseline. They are what the promise is about, so they are never guessed: the
file gives them, or the user says that those of its model, or those that its log suggests, are to be taken.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from surefooted.agents.fleet_accounts import Guardrail
from surefooted.agents.ucrl2 import UCRL2
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.forecasting.models import Models
from surefooted.forecasting.options import exact_baseline
from surefooted.live.advisor import Advisor
from surefooted.live.deployments import LiveStore
from surefooted.problems.problem import Problem
from surefooted.problems.problem_file import ProblemFile
from surefooted.rehearsal.guarding import in_models
from surefooted.tables.baseline import Baseline
from surefooted.tables.space import Floats

Source = Literal["file", "model", "log"]
SOURCES: tuple[Source, ...] = ("file", "model", "log")
DRAWS = 100  # models, for an estimate from a log
INTERVAL = (0.05, 0.95)  # the quantiles of the estimate that are shown
HOW = (
    "Give baseline.gain and baseline.bias in the file; or take those of its [model], or those that its log suggests: "
    '--baseline model, --baseline log (in Python: source="model", source="log").'
)


@dataclass(frozen=True)
class Estimate:
    """What the baseline earns, and where the numbers come from.

    - `baseline`: with its gain and bias.
    - `source`: "file", "model" or "log"; `low`, `high`: if it is a log, where nine of ten drawn models have the gain.
    - `steps`: of the log; `per`: what a step is in the calendar.
    - `guardrails`: those of the file, with what the baseline keeps of each.
    """

    baseline: Baseline
    source: Source
    low: float | None = None
    high: float | None = None
    steps: int = 0
    per: str = "step"
    guardrails: tuple[Guardrail, ...] = ()

    def __str__(self) -> str:
        """One or two sentences."""
        gain, words = self.baseline.gain, self.baseline.policy.space.amount
        assert gain is not None
        earns = f"The baseline earns {words(gain)} a {self.per}"
        if self.source != "log" or self.low is None or self.high is None:
            return (
                f"{earns}, by {'the model in' if self.source == 'model' else 'what is declared in'} the problem file."
            )
        between = f"between {words(self.low)} and {words(self.high)} in nine of ten models that it allows"
        return (
            f"{earns}, as {self.steps} logged steps suggest: {between}. "
            "The promise is kept compared with this number, right or wrong; a contradiction is reported."
        )


def baseline_of(file: ProblemFile, source: Source = "file", seed: int = 0) -> Estimate:
    """The baseline of a problem file with its gain and bias.

    `source` says whose numbers are taken: the file's own, those of its `[model]`, or the mean over models drawn from
    the posterior of its log. The same holds for guardrails of which the file says what to expect.
    """
    if source not in SOURCES:
        raise InvalidInput("no such source", [f"{source!r}: there are {', '.join(SOURCES)}"])
    if file.horizon is not None:
        raise InvalidInput(
            f"{file.path} cannot be deployed", ["it has a horizon: the advisor decides without end, step by step"]
        )
    per = "step" if file.step is None else str(file.step)
    if source == "model":
        truth = file.true_problem()
        return Estimate(exact_baseline(truth), "model", per=per, guardrails=guardrails_in(file, [truth]))
    if source == "file":
        if not file.baseline.is_known:
            raise InvalidInput(f"{file.path} does not say what the baseline earns", ["gain and bias are missing"], HOW)
        rails = tuple(rail.of_file() for rail in file.guardrails)
        return Estimate(file.baseline, "file", per=per, guardrails=rails)
    if file.history is None or not file.history.used:
        raise InvalidInput(f"{file.path} does not say what the baseline earns", ["it has no log with usable rows"], HOW)
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    models = Models(file.history.counts, file.knowledge, file.baseline.policy, file.start, None)
    drawn = [models.draw(rng) for _ in range(DRAWS)]
    played = [exact_baseline(model) for model in drawn]
    gains: Floats = np.array([each.gain for each in played], dtype=np.float64)
    bias = np.mean([np.asarray(each.bias) - np.asarray(each.bias)[file.start] for each in played], axis=0)
    low, high = np.quantile(gains, INTERVAL)
    known = Baseline(file.baseline.policy, float(gains.mean()), bias)
    rails = guardrails_in(file, drawn)
    return Estimate(known, "log", float(low), float(high), file.history.used, per, rails)


def guardrails_in(file: ProblemFile, models: list[Problem]) -> tuple[Guardrail, ...]:
    """The guardrails of a file with what the baseline keeps of them in models; else as the file says."""
    return tuple(rail.of_file() if rail.expected is None else in_models(rail, models) for rail in file.guardrails)


def logged(file: ProblemFile) -> Counts | None:
    """The steps of the file's log that may teach the learner; an error if the log is a selection by its outcomes."""
    if file.history is None:
        return None
    student = UCRL2(file.space)
    file.history.into(student, accidents=file.accidents)
    return student.learner.counts


def deploy(
    store: LiveStore,
    file: ProblemFile,
    baseline: Baseline,
    *,
    name: str | None = None,
    sites: tuple[str, ...] = (),
    who: str | None = None,
    **options: Any,
) -> Advisor:
    """A new deployment of a problem file, with sites; `options` are those of `LiveStore.create_deployment`.

    If the file has guardrails and none are given, they are guarded with the gain and bias that the file gives.

    >>> import surefooted as sf
    >>> from surefooted.rehearsal import baseline_of, deploy
    >>> text = '''
    ... name = "machine"
    ... states.values = ["fine", "worn"]
    ... actions.values = ["run", "repair"]
    ... baseline = {table = {fine = "run", worn = "run"}, gain = 40, bias = {fine = 600, worn = 0}}
    ... rewards = {low = 0, high = 100, unit = "€"}
    ... '''
    >>> file = open("machine.toml", "w", encoding="utf-8")
    >>> _ = file.write(text), file.close()
    >>> problem = sf.problems.load("machine.toml")
    >>> with sf.live.open("machine.db") as store:
    ...     machine = deploy(store, problem, baseline_of(problem).baseline, sites=("hall 3",))
    ...     machine.ask("hall 3", "fine", key="2026-11-18").label
    'run'
    """
    promise, given = file.promise, dict(options)
    if promise.condition == "replay":
        fault = 'its promise is condition = "replay", which cannot be stated for people, late outcomes and fleets'
        raise InvalidInput(f"{file.path} cannot be deployed", [fault], 'Leave it out, or say "decisions".')
    for key in ("delta", "allowance", "tolerance", "floor", "checkpoints"):
        given.setdefault(key, getattr(promise, key))
    if "guardrails" not in given:
        given["guardrails"] = tuple(rail.of_file() for rail in file.guardrails)
    alpha = given.pop("alpha", promise.alpha)
    counts = None if given.get("inherits") is not None else logged(file)
    advisor = store.create_deployment(
        name or file.name, space=file.space, baseline=baseline, alpha=alpha, counts=counts, knowledge=file.knowledge,
        who=who, **given,
    )  # fmt: skip
    for site in sites:
        advisor.add_site(site, who=who)
    return advisor
