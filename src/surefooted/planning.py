"""From a set of plausible MDPs to an optimistic policy, and to bounds on what a policy earns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from surefooted.arrays import is_whole
from surefooted.errors import InvalidInput
from surefooted.kernels import stages, value_iteration
from surefooted.kernels.structs import Mixture
from surefooted.sets.plausible import Plausible
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats

SWEEPS = 20_000  # value iterations before the bounds so far are the answer

Side = Literal["pessimistic", "optimistic"]


@dataclass(frozen=True)
class Plan:
    """What value iteration found: `lower` <= gain <= `upper` for sure, `gain` in the middle, `bias` v_n [S].

    `converged` is False when the sweeps ran out before upper - lower <= epsilon; the bounds hold all the same.
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
    def span(self) -> float:
        """sp(v_n)."""
        return float(self.bias.max() - self.bias.min())


def optimistic_gain(plausible: Plausible, epsilon: float, start: Floats | None = None, most: int = SWEEPS) -> Plan:
    """The largest gain of any policy in any plausible MDP, to `epsilon`, and a policy that has it (Fig. `evi`).

    `start` [S] is where value iteration begins: zeros unless given (a warm start keeps the bounds but not sp(v_n) <=
    D).
    """
    space = plausible.space
    v = _start(plausible, epsilon, start)
    pair = np.zeros(space.n_states, dtype=np.int64)
    table = (space.pair_ptr, plausible.rows, plausible.r_upper)
    lower, upper, sweeps = value_iteration.optimistic_iteration(*table, epsilon, most, v, pair)
    return Plan(Policy.of_pairs(space, pair), lower, upper, v, sweeps, upper - lower <= epsilon)


def policy_gain(
    plausible: Plausible,
    policy: Policy,
    epsilon: float,
    side: Side = "pessimistic",
    start: Floats | None = None,
    most: int = SWEEPS,
) -> Plan:
    """The smallest (or largest) gain of a policy in any plausible MDP, to `epsilon` (Eq. `robust.bellman`).

    Pessimistic: L v >= v + lower for the bias v returned, hence E[r_1 + .. + r_t | s] >= t lower + v(s) - E v(s_{t+1})
    in every plausible MDP, converged or not (Lemma `bound_evi`, with lower in place of g_n - epsilon). Optimistic
    likewise from above, with upper.
    """
    return policy_gains(plausible, [policy], epsilon, side, start, most)[0]


def policy_gains(
    plausible: Plausible,
    policies: Sequence[Policy],
    epsilon: float,
    side: Side = "pessimistic",
    start: Floats | None = None,
    most: int = SWEEPS,
) -> list[Plan]:
    """The same for many policies at once."""
    if not policies:
        return []
    sign, r = _side(plausible, policies, side)
    v = _start(plausible, epsilon, start)[None]
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
    value_iteration.evaluate_policies(mixtures, plausible.rows, r, sign, epsilon, most, v, bounds, sweeps)
    found = zip(policies, bounds.tolist(), v, sweeps.tolist(), strict=True)
    return [Plan(policy, low, high, bias, n, high - low <= epsilon) for policy, (low, high), bias, n in found]


@dataclass(frozen=True)
class StagePlan:
    """Optimistic backward induction: `values` [H + 1, S] above V* of every plausible MDP, and the greedy policy."""

    policy: Policy
    values: Floats


def optimistic_values(plausible: Plausible, horizon: int) -> StagePlan:
    """The largest value of any policy in any plausible MDP, stage by stage (Eq. `optimality_eq_fh` over the set).

    Rewards and rows are chosen anew for each stage, which only enlarges the set. Values never leave [0, (H - h) r_max].
    """
    space, horizon = plausible.space, _horizon(plausible, horizon)
    values = np.zeros((horizon + 1, space.n_states))
    pair = np.full((horizon, space.n_states), -1)
    stages.optimistic_stages(space.pair_ptr, plausible.rows, plausible.r_upper, values, pair)
    return StagePlan(Policy.of_pairs(space, pair), values)


def policy_values(plausible: Plausible, policy: Policy, horizon: int, side: Side = "pessimistic") -> Floats:
    """Values [H + 1, S] below (or above) V^π_h(s) of every plausible MDP, for any policy.

    Lemma `value_function_pessimism_fh`: Eq. `pess_pe_fh` with the worst plausible reward and row of each pair in place
    of estimates and a bonus.
    """
    sign, r = _side(plausible, [policy], side)
    space = plausible.space
    values = np.zeros((_horizon(plausible, horizon) + 1, space.n_states))
    pair, weights = policy.stages(len(values) - 1)
    table, first = (space.pair_ptr, plausible.rows, r), np.empty((1, space.n_states))
    stages.policy_stages(*table, sign, pair[None], weights[None], values, first)
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


def _start(plausible: Plausible, epsilon: float, start: Floats | None) -> Floats:
    """A fresh start vector."""
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
