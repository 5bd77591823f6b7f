"""How hard a problem is to explore, and how much must be earned beforehand to explore it safely: exact measures.

Gaps and their smallest are those of Burnetas & Katehakis (1997) and Simchowitz & Jamieson (2019). The reserve is ours.
"""

from dataclasses import dataclass

import numpy as np

from surefooted import solve
from surefooted.evaluation.decisions import advantages
from surefooted.problems import Problem
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.space import Floats

NO_GAP = 1e-9  # times r_max: pairs whose gap is smaller count as optimal


@dataclass(frozen=True)
class Hardness:
    """What there is to gain, and what makes it hard to find.

    - `to_gain`: how much more an optimal policy earns than the baseline, as a share of what the baseline earns.
    - `span`: of an optimal policy's bias, or of its values over a finite horizon (the largest of all stages).
    - `smallest_gap`: the smallest loss of a pair that is not optimal: g* + h*(s) − r − P h*, or V* − r − P V*.
    - `reserve`: the largest loss of one departure from the baseline, in steps (or episodes) of what the baseline earns:
      g_b + h_b(s) − r − P h_b, divided by g_b; or V_b − r − P V_b, divided by V_b of the start. An agent that may lose
      a share α must save for this many steps, divided by α, to afford any departure.

    `to_gain` and `reserve` are None if the baseline earns nothing, and `reserve` if its gain depends on the state;
    `smallest_gap` is None if every pair is optimal, or if the optimal gain depends on the state.
    """

    to_gain: float | None
    span: float
    smallest_gap: float | None
    reserve: float | None


def hardness(problem: Problem) -> Hardness:
    """The measures of a problem.

    >>> import surefooted as sf
    >>> from surefooted.evaluation.hardness import hardness
    >>> hardness(sf.problems.double_chain()).to_gain  # 10 a step instead of 2
    4.0
    """
    return _of_steps(problem) if problem.horizon is None else _of_episodes(problem, problem.horizon)


def _of_steps(problem: Problem) -> Hardness:
    """For average reward."""
    mdp, best = problem.mdp, solve.optimal_gain(problem.mdp)
    played = solve.gain_and_bias(mdp, problem.baseline)
    gain, same = float(played.gains[problem.start]), NO_GAP * mdp.r_max
    gaps = None
    if np.ptp(best.gains) <= same:
        gaps = -advantages(mdp, float(best.gains[problem.start]), best.bias)
    loss = None
    if np.ptp(played.gains) <= same:
        loss = float(-advantages(mdp, gain, played.bias).min())
    return _measures(mdp, (float(best.gains[problem.start]), gain), best.span, gaps, loss)


def _of_episodes(problem: Problem, horizon: int) -> Hardness:
    """For a finite horizon; a pair counts at every stage."""
    mdp, start = problem.mdp, problem.start
    best = solve.optimal_values(mdp, horizon).values
    played = solve.policy_values(mdp, problem.baseline, horizon)
    gaps = np.concatenate([_losses(mdp, best, h) for h in range(horizon)])
    loss = max(float(_losses(mdp, played, h).max()) for h in range(horizon))
    span = float(np.ptp(best, axis=1).max())
    return _measures(mdp, (float(best[0, start]), float(played[0, start])), span, gaps, loss)


def _losses(mdp: TabularMDP, values: Floats, h: int) -> Floats:
    """What playing each pair at stage h costs compared with the policy of these values [H + 1, S], [K]."""
    following = np.add.reduceat(mdp.p * values[h + 1][mdp.next_state], mdp.next_ptr[:-1])
    return np.asarray(values[h][mdp.space.pair_state] - mdp.r - following)


def _measures(
    mdp: TabularMDP, earned: tuple[float, float], span: float, gaps: Floats | None, loss: float | None
) -> Hardness:
    """The measures, from what an optimal policy and the baseline earn."""
    best, baseline = earned
    wrong = gaps[gaps > NO_GAP * mdp.r_max] if gaps is not None else np.empty(0)
    earns = baseline > NO_GAP * mdp.r_max
    return Hardness(
        to_gain=best / baseline - 1 if earns else None,
        span=span,
        smallest_gap=float(wrong.min()) if wrong.size else None,
        reserve=max(loss, 0.0) / baseline if earns and loss is not None else None,
    )
