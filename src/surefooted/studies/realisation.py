"""One realisation: simulate an agent, evaluate its run exactly, and return a row and a curve."""

import time
from typing import Any

import numpy as np

from surefooted import __version__
from surefooted.agents.episode_settings import CONDITIONS
from surefooted.evaluation.margin import Margin
from surefooted.evaluation.margins import EpisodicEvaluation, Evaluation, evaluate
from surefooted.problems import Problem
from surefooted.simulation.playing import simulate
from surefooted.simulation.run import UNKNOWN, EpisodicRun, Run
from surefooted.studies.building import build_agent, build_problem
from surefooted.studies.columns import DECISIONS, EACH, PREFIXES
from surefooted.studies.parts import encode
from surefooted.studies.spec import StudySpec, Task, seeds
from surefooted.tables.space import Floats, Ints

_problems: dict[str, Problem] = {}  # built by this process: a worker runs many realisations of one problem


def work(study_json: str, setting: int, realisation: int) -> bytes:
    """Run one task of a study and return its part, the bytes of a Parquet file.

    The part holds the curve; its metadata hold the row, the study's identity and the task. Own code was allowed when
    `run_study` gave the task to this worker.
    """
    study = StudySpec.model_validate_json(study_json)
    task = Task(setting, realisation)
    what = study.setting(setting)
    key = what.problem.model_dump_json()
    if key not in _problems:
        _problems[key] = build_problem(what.problem, allow_code=True)
    row, curve = run(study, task, _problems[key])
    about = {"study": study.identity, "task": task.name, "setting": what.key, "source": what.source}
    return encode(row, curve, **about, version=__version__)


def run(study: StudySpec, task: Task, problem: Problem) -> tuple[dict[str, Any], dict[str, Any]]:
    """The row of one realisation, and its curve."""
    setting = study.setting(task.setting)
    world, own = seeds(study, task)
    agent = build_agent(study, setting, problem, own, allow_code=True)
    begin = time.perf_counter()
    if study.episodes is not None:
        played: Any = simulate(problem, agent, episodes=study.episodes, seed=world)
        steps, episodes = study.episodes * played.horizon, study.episodes
    else:
        played = simulate(problem, agent, study.length, world)
        steps, episodes = study.length, len(played.decisions)
    seconds = time.perf_counter() - begin
    given = setting.spec.parameters
    amounts = {name: given[name] for name in ("tolerance", "allowance", "floor", "checkpoints") if name in given}
    result: Any = evaluate(played, problem, setting.alpha, **amounts)
    conservative, budget = baseline_play(played), budgets(played)
    drawn, expected, of_decisions = regrets(result)
    by_decisions: Margin | None = result.by_decisions if isinstance(result, Evaluation) else result.decisions
    by_episode: Margin | None = getattr(result, "each", None)
    others = {PREFIXES[DECISIONS]: by_decisions, PREFIXES[EACH]: by_episode}
    by_replay: Margin | None = result if can_replay(result) else None
    condition = getattr(agent, "condition", None)
    row = {
        "problem": setting.on,
        "agent": setting.agent,
        "label": setting.label,
        "alpha": setting.alpha,
        "setting": task.setting,
        "realisation": task.realisation,
        "seed": f"{setting.seed}/{task.setting}/{task.realisation}",
        "steps": steps,
        "episodes": episodes,
        "baseline_steps": int(conservative[-1]),
        "distinct_policies": len(played.policies) if policies_are_known(played) else None,
        "regret": float(drawn[-1]),
        "pseudo_regret": None if by_replay is None else float(expected[-1]),
        "decisions_regret": None if study.episodes is not None else float(of_decisions[-1]),
        "condition": condition if condition in (*CONDITIONS, EACH) else None,
        **judged(by_replay, study.initial),
        **{
            f"{own}{name}": value
            for own, margin in others.items()
            for name, value in judged(margin, study.initial).items()
        },
        "seconds": seconds,
        "version": __version__,
    }
    ends = study.recorded
    last = ends - 1
    curve = {
        "step": ends,
        "regret": drawn[last],
        "pseudo_regret": expected[last],
        "decisions_regret": of_decisions[last],
        **margins(by_replay, ends),
        **{f"{own}{name}": values for own, margin in others.items() for name, values in margins(margin, ends).items()},
        "budget": budget[last],
        "baseline_steps": conservative[last],
    }
    return row, curve


def judged(margin: Margin | None, initial: int) -> dict[str, Any]:
    """What a row says of a margin: how much of the run violates the condition, and by how much; None if unknown."""
    if margin is None:
        return dict.fromkeys(("violations_initial", "violations_total", "min_margin", "first_violation"))
    return {
        "violations_initial": float(margin.violated[:initial].mean()),
        "violations_total": margin.violations,
        "min_margin": float(margin.margin.min()),
        "first_violation": margin.first_violation,
    }


def margins(margin: Margin | None, ends: Ints) -> dict[str, Floats]:
    """What a curve says of a margin: its value at `ends`, and its smallest since the point before; NaN if unknown."""
    if margin is None:
        unknown = np.full(len(ends), np.nan)
        return {"margin": unknown, "margin_min": unknown}
    first = np.r_[0, ends[:-1]]
    return {"margin": margin.margin[ends - 1], "margin_min": np.minimum.reduceat(margin.margin, first)}


def regrets(result: Evaluation | EpisodicEvaluation) -> tuple[Floats, Floats, Floats]:
    """The regret of the rewards that were drawn, of the policies that were played, and of decisions; NaN if unknown."""
    unknown = np.full(len(result.margin), np.nan)
    of_policies = result.expected_regret if can_replay(result) else unknown
    return result.realised_regret, of_policies, getattr(result, "decision_regret", unknown)


def can_replay(result: Evaluation | EpisodicEvaluation) -> bool:
    """Whether a run can be judged by the condition "replay", or by the one of episodes: its policies are known."""
    return isinstance(result, EpisodicEvaluation) or result.judged_by == "replay"


def policies_are_known(played: Run | EpisodicRun) -> bool:
    """Whether the policies in a run are those that its agent proposed or followed."""
    if isinstance(played, EpisodicRun):
        return bool(np.all(played.played != UNKNOWN))
    return played.knows_policies


def baseline_play(played: Run | EpisodicRun) -> Ints:
    """How many steps (or whole episodes) were played with the baseline, after each step (or episode)."""
    if isinstance(played, EpisodicRun):
        return np.cumsum(~played.explored_steps.any(axis=1))
    kept = np.zeros(played.steps, dtype=np.int64)
    for segment in played.segments:
        if segment.role == "baseline":
            kept[segment.first : segment.first + segment.length] = 1
    return np.cumsum(kept)


def budgets(played: Run | EpisodicRun) -> Floats:
    """The budget of the last decision, at each step (or episode); NaN if the agent keeps no budget."""
    proved = np.array([np.nan if d.budget is None else d.budget for d in played.decisions])
    if isinstance(played, EpisodicRun):
        return proved
    begins = np.array([decision.t for decision in played.decisions])
    which = np.searchsorted(begins, np.arange(played.steps), side="right") - 1
    return np.asarray(proved[which])
