"""A known MDP over finitely many steps: stage values, and expected rewards of whatever was played.

Puterman (1994), Ch. 4 (backward induction). Stage h = 0 is the first; `values[h, s]` is what steps h, .., H - 1 earn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import is_whole, real_numbers
from surefooted.errors import InvalidInput
from surefooted.kernels import bellman, chains, stages
from surefooted.kernels.structs import Estimates
from surefooted.solve.chain import induced_chain
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats
from surefooted.tables.staged import Dynamics


@dataclass(frozen=True)
class OptimalValues:
    """V* of every stage, `values` [H + 1, S], and a deterministic policy that attains it.

    - `values`: of each stage and state; the last row is 0.
    - `policy`: with a decision rule for each stage.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> best = sf.solve.optimal_values(problem.mdp, horizon=3)
    >>> best.values.shape, best.policy.horizon
    ((4, 6), 3)
    """

    values: Floats
    policy: Policy


def optimal_values(mdp: Dynamics, horizon: int) -> OptimalValues:
    """V*_h(s) for every stage and state, by backward induction (Eq. `optimality_eq_fh`).

    - `mdp`: a `TabularMDP`, or a `StagedMDP` with that many stages.
    - `horizon`: H, the number of steps.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> sf.solve.optimal_values(problem.mdp, horizon=3).values[0].round(3).tolist()
    [0.015, 0.01, 0.005, 0.122, 0.77, 2.1]
    """
    horizon = _stages(mdp, horizon)
    values = np.zeros((horizon + 1, mdp.n_states))
    pair = np.empty((horizon, mdp.n_states), dtype=np.int64)
    q = np.empty(mdp.space.n_pairs)
    for h in range(horizon - 1, -1, -1):
        table = mdp.stage(h)
        bellman.backup_pairs(table.next_ptr, table.next_state, table.p, table.r_counted, values[h + 1], q)
        bellman.best_pairs(mdp.space.pair_ptr, q, values[h], pair[h])
    return OptimalValues(mdp.space.money.values_earned(values, horizon), Policy(mdp.space, pair=pair))


def policy_values(mdp: Dynamics, policy: Policy, horizon: int) -> Floats:
    """V^π_h(s), [H + 1, S], of a policy that is stationary or has `horizon` decision rules.

    - `mdp`: a `TabularMDP`, or a `StagedMDP` with that many stages.
    - `policy`: on its space.
    - `horizon`: H, the number of steps.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> sf.solve.policy_values(problem.mdp, problem.baseline, horizon=3)[0].round(3).tolist()
    [0.015, 0.01, 0.005, 0.0, 0.0, 0.0]
    """
    horizon = _stages(mdp, horizon)
    if policy.space != mdp.space:
        raise InvalidInput("policy and MDP do not fit", [f"policy on {policy.space}, MDP on {mdp.space}"])
    values = np.zeros((horizon + 1, mdp.n_states))
    # a known table is an estimate from one visit to each row, with probabilities in place of counts and no bonus
    known = Estimates(np.ones(mdp.r.size, dtype=np.int64), mdp.r_counted, mdp.next_ptr, mdp.next_state, mdp.p)
    table = (mdp.space.pair_ptr, known, np.zeros(mdp.r.size), np.inf, 0.0)
    stages.estimated_policy_stages(*table, *policy.stages(horizon), values)
    return mdp.space.money.values_earned(values, horizon)


def expected_rewards(mdp: TabularMDP, policy: Policy, start: int | ArrayLike, steps: int) -> Floats:
    """E[r_1 + .. + r_t] for t = 1, .., steps, [steps], from a state or a distribution over states [S].

    - `mdp`: the table.
    - `policy`: stationary, or with at least `steps` decision rules.
    - `start`: a state, or a distribution over states.
    - `steps`: how many.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> sf.solve.expected_rewards(problem.mdp, problem.baseline, start=0, steps=3).round(3).tolist()
    [0.005, 0.01, 0.015]
    """
    return expected_rewards_along(mdp, [(policy, steps)], start)


def expected_rewards_along(mdp: TabularMDP, segments: Sequence[tuple[Policy, int]], start: int | ArrayLike) -> Floats:
    """E[r_1 + .. + r_t | μ] for every t, [total steps]: μ plays each (policy, steps) of `segments` in turn.

    The left-hand side of the conservative condition, Eq. `cumrew_condition`. A policy with H decision rules plays them
    from its first one, for at most H steps.

    - `mdp`: the table.
    - `segments`: policies, and how long each is played.
    - `start`: a state, or a distribution over states.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> right = sf.Policy.always(problem.space, 1)
    >>> earned = sf.solve.expected_rewards_along(problem.mdp, [(problem.baseline, 2), (right, 98)], start=0)
    >>> earned.shape
    (100,)
    """
    x = _distribution(mdp, start)
    lengths = [_positive("steps", steps, least=0) for _, steps in segments]
    rules: list[tuple[Policy, int]] = []
    for (policy, _), steps in zip(segments, lengths, strict=True):
        if policy.horizon is None:
            played = steps + (rules.pop()[1] if rules and rules[-1][0] == policy else 0)
            rules.append((policy, played))
        elif steps <= policy.horizon:
            rules += [(policy.rule(h), 1) for h in range(steps)]
        else:
            fault = f"a policy with {policy.horizon} decision rules cannot play {steps} steps"
            raise InvalidInput("policy and segment do not fit", [fault])
    out, earned, first = np.empty(sum(lengths)), np.zeros(2), 0
    for rule, length in rules:
        chains.accumulate_rewards(induced_chain(mdp, rule), earned, x, out[first : first + length])
        first += length
    return mdp.space.money.totals_earned(out)


def _distribution(mdp: TabularMDP, start: int | ArrayLike) -> Floats:
    """A fresh distribution over states: all mass on one state, or the given one."""
    array = np.asarray(start)
    if array.ndim == 0:
        certain = np.zeros(mdp.n_states)
        certain[mdp.space.check_state(array.item())] = 1.0
        return certain
    x = real_numbers("the start", array, [])
    if x.shape != (mdp.n_states,) or not np.all(x >= 0) or not abs(x.sum() - 1) <= 1e-9:
        raise InvalidInput("no such start", [f"the start must be a state or a distribution over {mdp.n_states} states"])
    x /= x.sum()
    return x


def _stages(mdp: Dynamics, horizon: int) -> int:
    """The horizon as an int, if the MDP has that many stages."""
    horizon = _positive("horizon", horizon)
    if mdp.stages not in (1, horizon):
        raise InvalidInput("MDP and horizon do not fit", [f"dynamics of {mdp.stages} stages for {horizon} stages"])
    return horizon


def _positive(name: str, value: int, least: int = 1) -> int:
    """`value` as an int, if it is a whole number of at least `least`."""
    if not is_whole(value, least):
        raise InvalidInput("not a length", [f"{name} must be a whole number of at least {least}, not {value}"])
    return int(value)
