"""What happened in one run, for a forecast: when it first explored, when it was free, and what exploring cost."""

from dataclasses import dataclass

import numpy as np

from surefooted import solve
from surefooted.agents import wording
from surefooted.agents.agent import Decision
from surefooted.evaluation.decisions import advantages, departures, episode_worth
from surefooted.problems.problem import Problem
from surefooted.simulation.run import EpisodicRun, Run
from surefooted.tables.space import Bools, Floats

NEVER = float("inf")
REFUSED = 0.05  # an agent is free from the first step after which at most this share of steps is refused,
WINDOW = 50  # in as many steps as were played before, at least this many, and in all the rest of the run
LEFT = 0.2  # the least share of the run that must be left to tell
NOT_REFUSED = (wording.SPOT_CHECK, wording.PROPOSES_BASELINE)


@dataclass(frozen=True)
class Outcome:
    """Of one run: `first` and `free` in steps (or episodes), NEVER if not within the run; costs in the user's unit.

    `cost` is what departures from the baseline had cost in expectation when the agent became free (or at the end), and
    `worst` is the most that they had cost at any time. Both are negative or 0 if departures paid off.
    """

    first: float
    free: float
    cost: float
    worst: float


def outcome(run: Run | EpisodicRun, problem: Problem) -> Outcome:
    """What a forecast says of a run."""
    if isinstance(run, EpisodicRun):
        explored: Bools = np.asarray(run.explored_steps.any(axis=1))
        refused = _refused_episodes(run)
        worth = np.cumsum(episode_worth(run, problem.mdp, problem.baseline))
    else:
        explored, refused = departures(run, problem.baseline), _refused_steps(run)
        played = solve.gain_and_bias(problem.mdp, problem.baseline)
        each = advantages(problem.mdp, float(played.gains[run.start]), played.bias)[run.pairs]
        worth = np.cumsum(np.where(explored, each, 0.0))
    first, free = _first(explored), _free(refused)
    end = len(worth) - 1 if free == NEVER else int(free)
    return Outcome(first, free, float(-worth[end]), float(max(-worth[: end + 1].min(), 0.0)) + 0.0)


def _first(explored: Bools) -> float:
    return float(np.argmax(explored)) if explored.any() else NEVER


def _free(refused: Bools) -> float:
    """The first step from which on few steps are refused: in the time that follows, and in all the rest of the run."""
    n = len(refused)
    t = np.arange(n)
    total = np.concatenate([[0], np.cumsum(refused)])
    end = np.minimum(t + np.maximum(t, WINDOW), n)
    soon = (total[end] - total[t]) / (end - t)
    later = (total[n] - total[t]) / (n - t)
    calm = np.flatnonzero((soon <= REFUSED) & (later <= REFUSED) & (t <= (1 - LEFT) * n))
    return float(calm[0]) if calm.size else NEVER


def _is_refusal(decision: Decision) -> bool:
    return decision.role == "baseline" and decision.reason not in NOT_REFUSED and decision.reason.startswith("Plays")


def _refused_steps(run: Run) -> Bools:
    """At which steps the learner's proposal was not played, [T]."""
    begins = np.array([decision.t for decision in run.decisions])
    ends = np.append(begins[1:], run.steps)
    refused = np.zeros(run.steps, dtype=bool)
    state: Floats = np.r_[run.start, run.next_states[:-1]]
    for decision, begin, end in zip(run.decisions, begins.tolist(), ends.tolist(), strict=True):
        if decision.role == "baseline":
            refused[begin:end] = _is_refusal(decision)
        else:
            proposed = run.policies[decision.policy].pair
            if proposed is not None:
                refused[begin:end] = run.pairs[begin:end] != proposed[state[begin:end]]
    return refused


def _refused_episodes(run: EpisodicRun) -> Bools:
    """In which episodes the learner's proposal was not played from beginning to end, [K]."""
    refused = np.array([_is_refusal(decision) for decision in run.decisions])
    if run.by_step is None:
        return refused
    states = np.column_stack([run.starts, run.next_states[:, :-1]])
    for i, decision in enumerate(run.decisions):
        proposed = run.policies[decision.policy].pair
        if decision.role == "optimistic" and proposed is not None:
            rules = np.broadcast_to(proposed, (run.horizon, proposed.shape[-1]))
            refused[i] = bool(np.any(run.pairs[i] != rules[np.arange(run.horizon), states[i]]))
    return refused
