"""From a set of plausible MDPs to an optimistic policy, and to bounds on what a policy earns; also from one MDP.

Rewards, gains and values are counted from the `low` of the space, as in the set (`tables.money`); `Plan.earns` has the
bounds on the gain in the user's unit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from surefooted.arrays import freeze, is_whole
from surefooted.errors import InvalidInput
from surefooted.kernels import exact, stages, value_iteration
from surefooted.kernels.structs import Mixture, Table
from surefooted.sets.plausible import Plausible
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Space

__all__ = [
    "Plan",
    "StagePlan",
    "optimistic_gain",
    "optimistic_values",
    "policy_gain",
    "policy_gains",
    "policy_values",
    "sampled_gain",
]

MOST_SWEEPS = 20_000  # of value iteration; after these, the bounds so far are the answer
SAMPLE_SWEEPS = 1_000  # likewise, for an MDP that was drawn: a state that is hardly ever left may want many more

Side = Literal["pessimistic", "optimistic"]


@dataclass(frozen=True)
class Plan:
    """What value iteration found for `policy`: `lower` <= gain <= `upper`, and `bias`, v_n [S] after `sweeps` sweeps.

    The bounds always hold. `converged` is False if the sweeps ran out before upper - lower <= epsilon.

    - `policy`, `lower`, `upper`, `bias`, `sweeps`, `converged`: as above.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> plausible = sf.confidence.likelihood(sf.Counts(problem.space), delta=0.05)
    >>> plan = optimistic_gain(plausible, 1e-3)
    >>> plan.lower <= plan.gain <= plan.upper, plan.converged
    (True, True)
    """

    policy: Policy
    lower: float
    upper: float
    bias: Floats
    sweeps: int
    converged: bool

    @property
    def gain(self) -> float:
        """g_n, the middle of the bounds (Fig. `evi`)."""
        return (self.lower + self.upper) / 2

    @property
    def earns(self) -> tuple[float, float]:
        """The bounds on the gain, in the user's unit."""
        money = self.policy.space.money
        return float(money.earned(self.lower)), float(money.earned(self.upper))

    @property
    def span(self) -> float:
        """sp(v_n)."""
        return float(self.bias.max() - self.bias.min())


def optimistic_gain(plausible: Plausible, epsilon: float, start: Floats | None = None, most: int = MOST_SWEEPS) -> Plan:
    """The largest gain of any policy in any MDP of the set `plausible`, and a policy that has it (Fig. `evi`).

    Value iteration stops when its bounds are `epsilon` apart, or after `most` sweeps. It begins at `start` [S], or at
    zeros: the bounds hold for any start, sp(v_n) <= D only for zeros.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> plausible = sf.confidence.likelihood(sf.Counts(problem.space), delta=0.05)
    >>> round(optimistic_gain(plausible, 1e-3).gain, 3)  # nothing was observed: each step may earn r_max
    1.0
    """
    space = plausible.space
    v = _start(plausible, epsilon, start, most)
    pair = np.zeros(space.n_states, dtype=np.int64)
    table = (space.pair_ptr, tuple(plausible.rows), plausible.r_upper)
    lower, upper, sweeps = value_iteration.optimistic_iteration(*table, float(epsilon), most, v, pair)
    return Plan(Policy._of_pairs(space, pair), lower, upper, v, sweeps, upper - lower <= epsilon)


def sampled_gain(space: Space, drawn: Table, epsilon: float) -> Plan:
    """The largest gain of any policy in one MDP, `drawn`, and a policy that has it.

    Value iteration stops when its bounds are `epsilon` apart, or after 1 000 sweeps.

    >>> import surefooted as sf
    >>> from surefooted.kernels.structs import Table
    >>> space = sf.Space.full(n_states=1, n_actions=2)
    >>> stay = Table(np.array([0, 1, 2]), np.array([0, 0]), np.ones(2), np.array([0.3, 0.7]))
    >>> sampled_gain(space, stay, 1e-6).gain
    0.7

    - `space`: the states and their actions.
    - `drawn`: its transitions and mean rewards, as kernels take them.
    - `epsilon`: how close the bounds must be.
    """
    rows, nowhere = (drawn.next_ptr, drawn.next_state, drawn.p, drawn.p), np.zeros(space.n_pairs)
    only = Plausible(space, drawn.r, drawn.r, *rows, nowhere)
    if not (np.isfinite(epsilon) and epsilon > 0):
        raise InvalidInput("no such accuracy", [f"epsilon {epsilon} must be positive and finite"])
    table = Table(only.next_ptr, only.next_state, only.p_lower, only.r_lower)
    freeze(*table)  # as what is drawn: kernels are compiled for one kind
    return _sampled_gain(space, table, epsilon)


def _sampled_gain(space: Space, drawn: Table, epsilon: float) -> Plan:
    """`sampled_gain` of an MDP that is known to be valid."""
    v, pair, most = np.zeros(space.n_states), np.zeros(space.n_states, dtype=np.int64), SAMPLE_SWEEPS
    damping, patience = value_iteration.DAMPING, SAMPLE_SWEEPS
    lower, upper, sweeps = exact.value_iteration(space.pair_ptr, drawn, damping, epsilon, most, patience, v, pair)
    return Plan(Policy._of_pairs(space, pair), lower, upper, v, sweeps, upper - lower <= epsilon)


def policy_gain(
    plausible: Plausible,
    policy: Policy,
    epsilon: float,
    side: Side = "pessimistic",
    start: Floats | None = None,
    most: int = MOST_SWEEPS,
) -> Plan:
    """The smallest or largest gain, by `side`, of a stationary `policy` in any MDP of the set `plausible`.

    `epsilon`, `start` and `most` are those of `optimistic_gain`. The pessimistic side (Eq. `robust.bellman`) proves
    L v >= v + lower for the bias v that it returns. Hence E[r_1 + .. + r_t | s] >= t lower + v(s) - E v(s_{t+1}) in
    every plausible MDP, converged or not (Lemma `bound_evi`, with lower in place of g_n - epsilon). The optimistic side
    proves the same from above, with upper.

    >>> import surefooted as sf
    >>> from surefooted.sets.plausible import Plausible
    >>> problem = sf.problems.riverswim()
    >>> known = Plausible.exactly(problem.mdp)
    >>> round(policy_gain(known, problem.baseline, 1e-6).gain, 3)
    0.005
    """
    return policy_gains(plausible, [policy], epsilon, side, start, most)[0]


def policy_gains(
    plausible: Plausible,
    policies: Sequence[Policy],
    epsilon: float,
    side: Side = "pessimistic",
    start: Floats | None = None,
    most: int = MOST_SWEEPS,
) -> list[Plan]:
    """`policy_gain` of each of `policies`, in one call.

    `plausible`, `epsilon`, `side`, `start` and `most` are shared by all.

    >>> import surefooted as sf
    >>> from surefooted.sets.plausible import Plausible
    >>> problem = sf.problems.riverswim()
    >>> policies = [sf.Policy.always(problem.space, action) for action in (0, 1)]
    >>> [round(plan.gain, 3) for plan in policy_gains(Plausible.exactly(problem.mdp), policies, 1e-6)]
    [0.005, 0.429]
    """
    if not policies:
        return []
    sign, r = _side(plausible, policies, side)
    v = _start(plausible, epsilon, start, most)[None]
    bounds, sweeps = np.empty((len(policies), 2)), np.empty(len(policies), dtype=np.int64)
    mixtures = played(policies[0])
    mixtures = mixtures._replace(state_ptr=mixtures.state_ptr[None])
    if len(policies) > 1:
        v = np.repeat(v, len(policies), axis=0)
        each = [played(policy) for policy in policies]
        before = np.cumsum([0, *(mixture.pairs.size for mixture in each[:-1])])
        mixtures = Mixture(
            np.array([mixture.state_ptr for mixture in each]) + before[:, None],
            np.concatenate([mixture.pairs for mixture in each]),
            np.concatenate([mixture.weights for mixture in each]),
        )
    given = (tuple(mixtures), tuple(plausible.rows), r, sign)
    value_iteration.evaluate_policies(*given, float(epsilon), most, v, bounds, sweeps)
    found = zip(policies, bounds.tolist(), v, sweeps.tolist(), strict=True)
    return [Plan(policy, low, high, bias, n, high - low <= epsilon) for policy, (low, high), bias, n in found]


@dataclass(frozen=True)
class StagePlan:
    """Optimistic backward induction: `values` [H + 1, S] above V* of every plausible MDP, and a greedy `policy`.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> plausible = sf.confidence.likelihood(sf.Counts(problem.space), delta=0.05)
    >>> float(optimistic_values(plausible, horizon=3).values[0, 0])  # nothing was observed: each step may earn r_max
    3.0
    """

    policy: Policy
    values: Floats


def optimistic_values(plausible: Plausible, horizon: int) -> StagePlan:
    """The largest value of any policy in any MDP of the set `plausible`, by stage (Eq. `optimality_eq_fh` over a set).

    Each of the `horizon` stages chooses its own rewards and rows from the set, which only makes the set larger. Values
    lie in [0, (H - h) r_max].

    >>> import surefooted as sf
    >>> from surefooted.sets.plausible import Plausible
    >>> problem = sf.problems.riverswim()
    >>> optimistic_values(Plausible.exactly(problem.mdp), horizon=3).values[0].round(3).tolist()
    [0.015, 0.01, 0.005, 0.122, 0.77, 2.1]
    """
    space, horizon = plausible.space, _horizon(plausible, horizon)
    values = np.zeros((horizon + 1, space.n_states))
    pair = np.full((horizon, space.n_states), -1)
    stages.optimistic_stages(space.pair_ptr, tuple(plausible.rows), plausible.r_upper, values, pair)
    return StagePlan(Policy._of_pairs(space, pair), values)


def policy_values(plausible: Plausible, policy: Policy, horizon: int, side: Side = "pessimistic") -> Floats:
    """Bounds [H + 1, S] on V^π_h(s) of a `policy` in every MDP of the set `plausible`: from below, or above by `side`.

    The policy is stationary or has `horizon` decision rules. Lemma `value_function_pessimism_fh`: Eq. `pess_pe_fh` with
    the worst plausible reward and row of each pair in place of estimates and a bonus.

    >>> import surefooted as sf
    >>> from surefooted.sets.plausible import Plausible
    >>> problem = sf.problems.riverswim()
    >>> known = Plausible.exactly(problem.mdp)
    >>> policy_values(known, problem.baseline, horizon=3)[0].round(3).tolist()
    [0.015, 0.01, 0.005, 0.0, 0.0, 0.0]
    """
    sign, r = _side(plausible, [policy], side)
    space = plausible.space
    values = np.zeros((_horizon(plausible, horizon) + 1, space.n_states))
    table, first = (space.pair_ptr, tuple(plausible.rows), r), np.empty((1, space.n_states))
    stages.policy_stages(*table, sign, *policy.stages(len(values) - 1), values, first)
    return values


def played(policy: Policy) -> Mixture:
    """A stationary policy as kernels take it; its arrays are writable, so that one compiled kernel serves all."""
    if policy.horizon is not None:
        raise InvalidInput("not a stationary policy", [f"it has {policy.horizon} decision rules"])
    if policy.pair is not None:
        ptr, ones = policy.space.one_each
        return Mixture(ptr, policy.pair.copy(), ones)
    assert policy.weights is not None
    pairs = np.flatnonzero(policy.weights)
    ptr = np.searchsorted(policy.space.pair_state[pairs], np.arange(policy.space.n_states + 1))
    return Mixture(ptr.astype(np.int64), pairs, policy.weights[pairs])


def _side(plausible: Plausible, policies: Sequence[Policy], side: Side) -> tuple[float, Floats]:
    """The sign of a side, and its rewards; an error if a policy is of another space."""
    for policy in policies:
        if policy.space != plausible.space:
            raise InvalidInput("policy and set do not fit", [f"policy on {policy.space}, set on {plausible.space}"])
    if side not in ("pessimistic", "optimistic"):
        raise InvalidInput("no such side", [f"side {side!r} must be 'pessimistic' or 'optimistic'"])
    return (-1.0, plausible.r_lower) if side == "pessimistic" else (1.0, plausible.r_upper)


def _horizon(plausible: Plausible, horizon: int) -> int:
    """The horizon as an int, if the set has that many stages."""
    if not is_whole(horizon, 1):
        raise InvalidInput("not a length", [f"horizon must be a whole number of at least 1, not {horizon}"])
    if plausible.stages not in (1, horizon):
        raise InvalidInput("set and horizon do not fit", [f"a set of {plausible.stages} stages for {horizon}"])
    return int(horizon)


def _start(plausible: Plausible, epsilon: float, start: Floats | None, most: int) -> Floats:
    """A fresh start vector."""
    if not is_whole(most, 1):
        raise InvalidInput("no such limit", [f"most {most} must be a positive whole number of sweeps"])
    space = plausible.space
    if plausible.stages > 1:
        raise InvalidInput("no gain", [f"the set has {plausible.stages} stages: a gain needs dynamics that stay"])
    if not (np.isfinite(epsilon) and epsilon > 0):
        raise InvalidInput("no such accuracy", [f"epsilon {epsilon} must be positive and finite"])
    if start is None:
        return np.zeros(space.n_states)
    v = np.array(start, dtype=np.float64)
    if v.shape != (space.n_states,) or not np.all(np.isfinite(v)):
        raise InvalidInput("no such start", [f"it must be {space.n_states} finite numbers, not {v.shape}"])
    return v
