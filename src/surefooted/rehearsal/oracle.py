"""What the decisions in a journal were truly worth, by the exact gain and bias of the world that they were made in."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from surefooted import solve
from surefooted.certificates.tolerance import Tolerance
from surefooted.evaluation.decisions import advantages
from surefooted.live import outcomes
from surefooted.live.advisor import Advisor
from surefooted.live.curve import ledgers
from surefooted.live.machine import Machine
from surefooted.problems.guardrails import FileGuardrail
from surefooted.problems.problem import Problem
from surefooted.rehearsal.guarding import exact_advantages

ROUNDING = 1e-9  # relative to r_max, per decision


@dataclass
class Exact:
    """The exact margins of all accounts, and whether what was proved was ever above the truth.

    - `departures`: how many were played.
    - `worth`: what they are worth in the long run, exactly.
    - `margin`: the smallest margin of any account at any decision; below 0 the promise was broken.
    - `broken`: how many decisions had a negative margin.
    - `too_high`: how many times an account had proved more than the truth (by the declared gain and bias it cannot,
      except with probability δ).
    - `gain`: what the baseline truly earns.
    - `guardrails`: the smallest margin of each guardrail, in its unit, by name.
    """

    departures: int = 0
    worth: float = 0.0
    margin: float = np.inf
    broken: int = 0
    too_high: int = 0
    gain: float = 0.0
    guardrails: dict[str, float] = field(default_factory=dict)


def examine(advisor: Advisor, truth: Problem, guardrails: Sequence[FileGuardrail] = ()) -> Exact:
    """Replay the journal beside the truth; `guardrails` say what their numbers truly are, on average."""
    played = solve.gain_and_bias(truth.mdp, truth.baseline)
    gain = float(played.gains[truth.start])
    each, definition = [advantages(truth.mdp, gain, played.bias)], advisor.definition
    tolerance = Tolerance(definition.alpha, definition.tolerance, definition.allowance, definition.floor or 0.0)
    terms, slack = [(tolerance.allowance, max(tolerance.rate(gain), 0.0))], [ROUNDING * truth.space.r_max]
    for rail in guardrails:
        each.append(exact_advantages(rail, truth))
        terms.append((rail.allowance, rail.tolerance))
        slack.append(ROUNDING * (rail.high - rail.low))
    final = {found.decision: found for found in outcomes.outcomes(advisor.journal(), len(definition.rules.guardrails))}
    machine, found = Machine(definition), Exact(gain=gain)
    worth: dict[tuple[int, int], float] = {}
    steps: dict[tuple[int, int], int] = {}
    for event in advisor.journal():
        machine.apply(event, advisor._steps(event.n))
        if event.kind != "ask":
            continue
        outcome = final[event.n]
        departed = bool(event.body["terms"]) and outcome.played is None and outcome.status not in ("rejected", "lapsed")
        found.departures += departed
        found.worth += float(each[0][outcome.pair]) if departed else 0.0
        for site, number, ledger in ledgers(machine):
            if number >= len(each):
                continue  # nobody says what this guardrail truly is
            at = (site, number)
            if site in (-1, event.body["site"]):
                value = float(each[number][outcome.pair]) if departed else 0.0
                worth[at], steps[at] = worth.get(at, 0.0) + value, steps.get(at, 0) + 1
            t = steps.get(at, 0)
            allowance, rate = terms[number]
            margin = allowance + rate * t + worth.get(at, 0.0)
            if number:
                name = guardrails[number - 1].name
                found.guardrails[name] = min(found.guardrails.get(name, np.inf), margin)
            else:
                found.margin = min(found.margin, margin)
            found.broken += margin < -slack[number] * max(t, 1)
            found.too_high += ledger.worth > worth.get(at, 0.0) + slack[number] * max(t, 1)
    return found
