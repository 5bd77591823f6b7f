"""Guardrails of a problem file in a model of it: what the baseline keeps of them, and what every pair is worth."""

import numpy as np

from surefooted import solve
from surefooted.agents.fleet_accounts import Guardrail
from surefooted.evaluation.decisions import advantages
from surefooted.problems.guardrails import FileGuardrail
from surefooted.problems.problem import Problem
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Space


def in_model(rail: FileGuardrail, problem: Problem) -> Guardrail:
    """A guardrail with the gain and bias of the baseline in a problem."""
    table = rail.table(problem)
    known = solve.gain_and_bias(table, _moved(problem.baseline, table.space))
    return rail.keeping(float(np.clip(known.gains[problem.start], rail.low, rail.high)), known.bias)


def in_models(rail: FileGuardrail, problems: list[Problem]) -> Guardrail:
    """A guardrail with the mean gain and bias of the baseline over models of one problem."""
    each, start = [in_model(rail, problem) for problem in problems], problems[0].start
    gain = float(np.mean([found.gain for found in each]))
    return rail.keeping(gain, np.mean([found.bias - found.bias[start] for found in each], axis=0))


def exact_advantages(rail: FileGuardrail, problem: Problem) -> Floats:
    """What every pair is worth in this number compared with the baseline, exactly, [K]; positive is better."""
    known, sign = in_model(rail, problem), 1.0 if rail.better == "higher" else -1.0
    return np.asarray(sign * advantages(rail.table(problem), known.gain, known.bias))


def _moved(policy: Policy, space: Space) -> Policy:
    """The same policy on a space with another range of rewards."""
    if policy.is_deterministic:
        return Policy(space, pair=policy.pair)
    return Policy(space, weights=policy.weights)
