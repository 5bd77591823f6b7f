"""What a picture of a problem shows: what the baseline and an optimal policy do in each state, and its worth.

The worth of a state is its bias h for average reward, and its value at the first stage for a finite horizon. A sketch
is plain data, so that it can be kept and drawn later without the problem.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surefooted import solve
from surefooted.problems.problem import Problem
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints


@dataclass(frozen=True)
class Panel:
    """What is drawn of one policy."""

    title: str
    glyphs: Sequence[str]  # [S], what it does in each state
    values: Floats  # [S]


@dataclass(frozen=True)
class Sketch:
    """A picture before it is drawn.

    - `title`: of the whole picture.
    - `measure`: what the values of the panels are.
    - `panels`: of the baseline and of an optimal policy.
    - `state_labels`, `positions`, `axes`: those of the problem.
    """

    title: str
    measure: str
    panels: tuple[Panel, Panel]
    state_labels: Sequence[str]  # [S]
    positions: Ints | None  # [S, 2]
    axes: Sequence[str]


def sketch(problem: Problem) -> Sketch:
    """The sketch of a problem; its exact answers are computed here."""
    mdp, horizon = problem.mdp, problem.horizon
    if horizon is None:
        played, best = solve.gain_and_bias(mdp, problem.baseline), solve.optimal_gain(mdp)
        titles = [f"gain {gains[problem.start]:.4f}" for gains in (played.gains, best.gains)]
        policies, values = (problem.baseline, best.policy), (played.bias, best.bias)
    else:
        planned = solve.optimal_values(mdp, horizon)
        values = (solve.policy_values(mdp, problem.baseline, horizon)[0], planned.values[0])
        titles = [f"value {v[problem.start]:.4f}" for v in values]
        policies = (problem.baseline.rule(0), planned.policy.rule(0))
    names = ("baseline", "an optimal policy")
    first, second = (
        Panel(f"{name}: {title}", _glyphs(problem, policy), value)
        for name, title, policy, value in zip(names, titles, policies, values, strict=True)
    )
    return Sketch(
        title=f"{problem.name}: {problem.space.n_states} states, {problem.space.n_pairs} pairs",
        measure="bias h" if horizon is None else f"value of {horizon} steps",
        panels=(first, second),
        state_labels=problem.state_labels,
        positions=problem.positions,
        axes=problem.axes,
    )


def _glyphs(problem: Problem, policy: Policy) -> list[str]:
    """The label of the action in each state; several labels if they are about equally likely."""
    probabilities = policy.probabilities
    likely = probabilities >= 0.9 * probabilities.max(axis=1, keepdims=True)
    return ["/".join(problem.action_labels[a] for a in np.flatnonzero(row)) for row in likely]
