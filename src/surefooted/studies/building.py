"""Building the problem and the agents that a study names."""

import inspect
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from surefooted import own_code, solve
from surefooted.agents import CUCBVI, CUCRL2, EULER, PSRL, UCBVI, UCRL2, EpsMix, PSRLEpisodic, QLearning, StepMix
from surefooted.agents.agent import lacking
from surefooted.agents.average import AveragePlayer
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.data.reading import read_history
from surefooted.errors import InvalidInput, NoSingleGain, SurefootedError, did_you_mean
from surefooted.problems import ALL, Problem, load, make
from surefooted.sets import confidence
from surefooted.simulation.playing import misfits
from surefooted.studies.settings import Setting
from surefooted.studies.spec import ProblemSpec, StudySpec
from surefooted.tables.baseline import Baseline
from surefooted.tables.files import fingerprint
from surefooted.tables.reward_noise import Noise

AGENTS: dict[str, Callable[..., Any]] = {
    "UCRL2": UCRL2,
    "CUCRL2": CUCRL2,
    "PSRL": PSRL,
    "QLearning": QLearning,
    "UCBVI": UCBVI,
    "EULER": EULER,
    "PSRLEpisodic": PSRLEpisodic,
    "CUCBVI": CUCBVI,
    "StepMix": StepMix,
    "EpsMix": EpsMix,
}
NO_PROBLEM, NO_AGENT = "this problem cannot be built", "this agent cannot be built"


def build_problem(spec: ProblemSpec, allow_code: bool = False) -> Problem:
    """The problem that a study names; own code only if it is allowed."""
    parameters = spec.parameters
    try:
        if isinstance(parameters.get("noise"), dict):
            parameters["noise"] = Noise(**parameters["noise"])
        return _build_problem(spec, parameters, allow_code)
    except SurefootedError:
        raise
    except (TypeError, ValueError) as error:  # an unknown parameter, or a word where a number belongs
        raise InvalidInput(NO_PROBLEM, [f"problem: {error}"]) from error


def _build_problem(spec: ProblemSpec, parameters: dict[str, Any], allow_code: bool) -> Problem:
    if spec.name.endswith((".npz", ".toml")):
        sha256 = parameters.pop("sha256", None)
        if sha256 is not None and fingerprint(Path(spec.name)) != sha256:
            raise InvalidInput(NO_PROBLEM, [f"{spec.name} has changed since the first run of the study"])
        if parameters:
            raise InvalidInput(NO_PROBLEM, [f"{spec.name} is a file, and takes no {', '.join(parameters)}"])
        if spec.name.endswith(".npz"):
            return Problem.load(spec.name)
        return load(spec.name, allow_code=allow_code, logs=False).true_problem()
    if own_code.is_code(spec.name):
        problem = own_code.load(spec.name, allow_code)(**parameters)
        if not isinstance(problem, Problem):
            raise InvalidInput(NO_PROBLEM, [f"{spec.name} returned {type(problem).__name__}, not a Problem"])
        return problem
    if spec.name not in ALL:
        known = f"{', '.join(ALL)}, a file.npz or file.toml, or package.module:function"
        raise InvalidInput(NO_PROBLEM, [f"problem.name: there is no {spec.name!r}; there are {known}"])
    return make(spec.name, **parameters)


def build_agent(
    study: StudySpec, setting: Setting, problem: Problem, seed: np.random.SeedSequence, allow_code: bool = False
) -> Any:
    """The agent of a setting; own code only if it is allowed.

    Its constructor gets the space and those of its parameters that the study determines.
    """
    spec = setting.spec
    if not own_code.is_code(spec.kind) and spec.kind not in AGENTS:
        known = f"{', '.join(AGENTS)}, or package.module:Class"
        raise InvalidInput(NO_AGENT, [f"agents.{setting.agent}.kind: no {spec.kind!r}; there are {known}"])
    kind = own_code.load(spec.kind, allow_code) if own_code.is_code(spec.kind) else AGENTS[spec.kind]
    length = study.length * (problem.horizon or 1 if study.episodes is not None else 1)  # in steps
    arguments = {key: _value(key, value, problem, seed, allow_code, length) for key, value in spec.parameters.items()}
    log = arguments.pop("history", None)
    accepted = inspect.signature(kind).parameters
    told: dict[str, Any] = {"seed": np.random.default_rng(seed), "alpha": setting.alpha, "horizon": problem.horizon}
    told["steps"] = length
    if "baseline" in accepted:
        told["baseline"] = _baseline(problem, spec.baseline == "known")
    arguments |= {key: value for key, value in told.items() if key in accepted and key not in arguments}
    try:
        agent = kind(problem.space, **arguments)
        if log is not None:
            _give_history(agent, log, problem)
        return agent
    except InvalidInput as error:
        faults = [f"agents.{setting.agent}: {fault}" for fault in error.faults]
        raise InvalidInput(NO_AGENT, faults) from error
    except Exception as error:  # anything that a user's constructor raises
        meant = "".join(did_you_mean(key, accepted) for key in spec.parameters if key not in accepted)
        meant = meant if isinstance(error, TypeError) else ""
        raise InvalidInput(NO_AGENT, [f"agents.{setting.agent}: {type(error).__name__}: {error}.{meant}"]) from error


def check(study: StudySpec, allow_code: bool = False) -> dict[str, Problem]:
    """Build all problems and agents once, so that every fault is known before the first run; the problems by label."""
    own_code.permit(f"study {study.name!r}", study.code, allow_code)
    problems: dict[str, Problem] = {}
    faults: list[str] = []
    for setting in study.settings:
        if setting.on not in problems:
            problems[setting.on] = build_problem(setting.problem, allow_code)
            said = _faults_of_problem(study, problems[setting.on])
            faults += [f"{setting.on}: {fault}" if len(study.every_problem) > 1 else fault for fault in said]
        with redirect_stdout(sys.stderr):
            said = _faults_of_agent(study, setting, problems[setting.on], allow_code)
        faults += [fault for fault in said if fault not in faults]
    if faults:
        raise InvalidInput(f"study {study.name!r} cannot be run", faults)
    return problems


def _faults_of_problem(study: StudySpec, problem: Problem) -> list[str]:
    """Why a study cannot play a problem."""
    if (problem.horizon is None) != (study.steps is not None):
        wanted = "steps" if problem.horizon is None else "episodes"
        return [f"{study.unit}: this problem is played in {wanted}"]
    if problem.horizon is None:
        try:
            _ = solve.optimal_gain(problem.mdp).gain
        except NoSingleGain as error:
            return [f"problem: regret needs one optimal gain: {error}"]
    return []


def _faults_of_agent(study: StudySpec, setting: Setting, problem: Problem, allow_code: bool) -> list[str]:
    """Why a study cannot run an agent."""
    try:
        agent = build_agent(study, setting, problem, np.random.SeedSequence(0), allow_code)
    except InvalidInput as error:
        return list(error.faults)
    except SurefootedError as error:
        return [f"agents.{setting.agent}: {error}"]
    wrong = AveragePlayer if study.episodes is not None else EpisodicPlayer
    if isinstance(agent, wrong):
        return [f"agents.{setting.agent}: {type(agent).__name__} does not play {study.unit}"]
    bounded = bool(getattr(agent, "bounded", False))
    found = [*lacking(agent), *misfits(problem.mdp, getattr(agent, "space", problem.space), bounded)]
    return [f"agents.{setting.agent}: {fault}" for fault in found]


def _value(key: str, value: Any, problem: Problem, seed: np.random.SeedSequence, allow_code: bool, length: int) -> Any:
    """An argument of an agent: names of confidence sets, knowledge and learners become objects.

    A learner that draws gets a seed of its own, which depends on the agent's alone.
    """
    if key == "confidence" and isinstance(value, str):
        if own_code.is_code(value):
            return own_code.load(value, allow_code)
        return confidence.named(value)
    if key == "knowledge" and isinstance(value, str | list | tuple):
        if own_code.is_code(value):
            return own_code.load(str(value), allow_code)(problem)
        return problem.knowledge(*([value] if isinstance(value, str) else value))
    if key == "learner" and isinstance(value, str | dict):
        content = {"kind": value} if isinstance(value, str) else dict(value)
        word = content.pop("kind", None)
        kind = own_code.load(word, allow_code) if own_code.is_code(word) else AGENTS.get(word or "")
        if kind is None:
            raise InvalidInput(NO_AGENT, [f"learner.kind: there is no {word!r}; there are {', '.join(AGENTS)}"])
        arguments = {name: _value(name, given, problem, seed, allow_code, length) for name, given in content.items()}
        accepted = inspect.signature(kind).parameters
        if "horizon" in accepted:
            arguments["horizon"] = problem.horizon
        if "steps" in accepted:
            arguments.setdefault("steps", length)
        if "seed" in accepted and "seed" not in arguments:
            own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 0))
            arguments["seed"] = np.random.default_rng(own)
        return kind(problem.space, **arguments)
    return value


def _give_history(agent: Any, log: Any, problem: Problem) -> None:
    """Read a log, by index or by label, and add it to an agent's counts."""
    counts = getattr(getattr(agent, "learner", agent), "counts", None)
    stages, bounded = (1, True) if counts is None else (counts.stages, counts.bounded)
    files = log if isinstance(log, dict) else {"file": log}
    if (sha256 := files.get("sha256")) is not None and fingerprint(Path(files["file"])) != sha256:
        raise InvalidInput("this log cannot be used", [f"{files['file']} has changed since the first run of the study"])
    options: dict[str, Any] = {"stages": stages, "bounded": bounded}
    found = read_history(files["file"], problem.space, **options)  # by index
    if not found.used:
        options |= {"state_labels": problem.state_labels, "action_labels": problem.action_labels}
        found = read_history(files["file"], problem.space, strict=True, **options)
    if found.unusable:
        raise InvalidInput("this log has rows that cannot be used", found.summary().splitlines())
    found.into(agent)


def _baseline(problem: Problem, is_known: bool) -> Baseline:
    """The problem's baseline, with its exact gain and bias, or values, if they are known to the agent."""
    if not is_known:
        return Baseline(problem.baseline)
    if problem.horizon is not None:
        return Baseline(problem.baseline, values=solve.policy_values(problem.mdp, problem.baseline, problem.horizon))
    played = solve.gain_and_bias(problem.mdp, problem.baseline)
    return Baseline(problem.baseline, played.gain, played.bias)
