"""Bounds on gains over a set of MDPs: the true ones if it is a point, the extreme ones if not, valid always."""

import itertools

import numpy as np
import pytest

import oracles
from surefooted import planning, solve
from surefooted.errors import InvalidInput
from surefooted.sets.plausible import Plausible
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.space import Space

ROUNDING = 1e-11
CAPS = (1, 2, 3, 7, 40, planning.MOST_SWEEPS)
SIDES = (("pessimistic", -1), ("optimistic", 1))
forms = pytest.mark.parametrize("form", ["box", "ball"])


def table(kind, seed):
    return TabularMDP.from_arrays(*oracles.random_mdp(kind, seed))


def plausible(form, kind, seed, n_states=None, n_actions=None):
    """A random set, and an MDP in it."""
    p, r, available, fields = oracles.random_set(form, kind, seed, n_states, n_actions)
    mdp = TabularMDP.from_arrays(p, r, available)
    return Plausible(mdp.space, **fields), mdp


def policies(space, seed):
    """The uniform policy, a deterministic one, and a mixture that leaves actions out."""
    rng = np.random.default_rng(seed)
    some = [Policy(space, pair=space.pair_ptr[:-1] + rng.integers(np.diff(space.pair_ptr))) for _ in range(2)]
    return Policy.uniform(space), some[0], some[0].mixed_with(some[1], 0.3)


def optimal_backup(plausible, v):
    """The optimistic operator of Fig. `evi`: the best action in the best plausible MDP."""
    rows = [oracles.extreme_mean(oracles.row_set(plausible, k), v, 1) for k in range(plausible.space.n_pairs)]
    return np.maximum.reduceat(plausible.r_upper + rows, plausible.space.pair_ptr[:-1])


@pytest.mark.parametrize(("kind", "seed"), [*itertools.product(oracles.KINDS, range(4))])
def test_a_single_mdp_has_its_own_gains(kind, seed):
    mdp = table(kind, seed)
    point, epsilon = Plausible.exactly(mdp), 1e-7
    exact = solve.optimal_gain(mdp)
    for most in CAPS if kind != "slow" else CAPS[:-1]:
        plan = planning.optimistic_gain(point, epsilon, most=most)
        assert plan.lower - ROUNDING <= exact.gains.min() and exact.gains.max() <= plan.upper + ROUNDING
        assert plan.converged == (plan.upper - plan.lower <= epsilon) and plan.sweeps <= most
        for policy, (side, _) in itertools.product(policies(mdp.space, seed), SIDES):
            gains = solve.gain_and_bias(mdp, policy).gains
            plan = planning.policy_gain(point, policy, epsilon, side, most=most)
            assert plan.lower - ROUNDING <= gains.min() and gains.max() <= plan.upper + ROUNDING
            assert plan.converged == (plan.upper - plan.lower <= epsilon) and plan.sweeps <= most
            if most == planning.MOST_SWEEPS and kind != "near absorbing":  # where gains agree, it converges
                assert plan.converged == (np.ptp(gains) <= epsilon)
                assert not plan.converged or plan.gain == pytest.approx(gains.mean(), abs=epsilon / 2 + ROUNDING)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_value_iteration_converges_on_a_cycle(n):
    p = np.roll(np.eye(n), 1, axis=1)[:, None]
    mdp = TabularMDP.from_arrays(p, np.arange(n)[:, None] / n)
    gain = (n - 1) / (2 * n)  # (0 + 1 + .. + n - 1) / n²
    policy = Policy.always(mdp.space, 0)
    for plan in (
        planning.optimistic_gain(Plausible.exactly(mdp), 1e-9),
        *(planning.policy_gain(Plausible.exactly(mdp), policy, 1e-9, side) for side, _ in SIDES),
    ):
        assert plan.converged and plan.gain == pytest.approx(gain, abs=1e-9)
        assert np.diff(plan.bias) == pytest.approx(gain - np.arange(n - 1) / n, abs=1e-7)  # g + h(s) = r(s) + h(s + 1)


def gains_of_unichains(p, r):
    """The gains of many chains p [n, S, S], r [n, S]: solve g + h = r + p h with h(0) = 0."""
    equations = np.eye(p.shape[-1]) - p
    equations[:, :, 0] = 1.0
    return np.linalg.solve(equations, r[..., None])[:, 0, 0]


@forms
@pytest.mark.parametrize("seed", range(6))
def test_extreme_gains_are_those_of_the_corners_of_the_set(form, seed):
    """A rectangular set has its extreme gains at corners: try all of them, with every deterministic policy."""
    n, rng = 2 + seed % 2, np.random.default_rng(seed)
    p, r = rng.dirichlet(np.ones(n), size=(n, 2)), rng.random((n, 2))
    mdp = TabularMDP.from_arrays(p, r)
    spread = rng.uniform(0.0, 0.5, size=p.shape)
    low, high = 0.9 * p * (1 - spread), np.minimum(p + spread, 1.0)  # every plausible chain is irreducible
    balls = {"width": rng.uniform(0, 0.9, size=2 * n) * p.min(axis=2).ravel()} if form == "ball" else {}
    known = Plausible(
        mdp.space,
        np.maximum(r - 0.1, 0).ravel(),
        np.minimum(r + 0.1, 1).ravel(),
        np.arange(0, 2 * n * n + 1, n),
        np.tile(np.arange(n), 2 * n),
        (p if balls else low).ravel(),
        (np.ones_like(p) if balls else high).ravel(),
        np.zeros(2 * n),
        **balls,
    )
    corners = [oracles.row_vertices(oracles.row_set(known, k)) for k in range(2 * n)]
    assert min(len(c) for c in corners) >= 2

    def extremes(choices, r):
        """All gains when state s may use any of the rows choices[s] with its reward r[s]."""
        rows = np.array([np.array(chain) for chain in itertools.product(*choices)])
        return gains_of_unichains(rows, np.broadcast_to(r, rows.shape[:2]))

    best = -np.inf
    for actions in itertools.product((0, 1), repeat=n):
        policy = Policy.deterministic(mdp.space, actions)
        choices = [corners[k] for k in policy.pair]
        smallest = extremes(choices, known.r_lower[policy.pair]).min()
        largest = extremes(choices, known.r_upper[policy.pair]).max()
        best = max(best, largest)
        assert planning.policy_gain(known, policy, 1e-10).gain == pytest.approx(smallest, abs=1e-9)
        assert planning.policy_gain(known, policy, 1e-10, "optimistic").gain == pytest.approx(largest, abs=1e-9)
    plan = planning.optimistic_gain(known, 1e-10)
    assert plan.converged and plan.gain == pytest.approx(best, abs=1e-9)
    assert planning.policy_gain(known, plan.policy, 1e-10, "optimistic").gain == pytest.approx(best, abs=1e-9)
    weights = rng.dirichlet(np.ones(2), size=n)
    mixture = Policy.randomised(mdp.space, weights)
    choices = [
        [weights[s, 0] * x + weights[s, 1] * y for x in corners[2 * s] for y in corners[2 * s + 1]] for s in range(n)
    ]
    if n == 2:
        r_lower = (weights * known.r_lower.reshape(n, 2)).sum(axis=1)
        smallest = extremes(choices, r_lower).min()
        assert planning.policy_gain(known, mixture, 1e-10).gain == pytest.approx(smallest, abs=1e-9)


@forms
@pytest.mark.parametrize("kind", ["dense", "sparse", "cycle", "multichain"])
@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_for_the_mdps_of_the_set_at_every_cap_and_from_every_start(form, kind, seed):
    known, mdp = plausible(form, kind, seed)
    assert known.contains(mdp)
    rng, n = np.random.default_rng(seed), mdp.n_states
    for most, start in ((1, None), (3, rng.normal(size=n)), (30, None), (2000, 50 * rng.normal(size=n))):
        kept = None if start is None else start.copy()
        plan = planning.optimistic_gain(known, 1e-6, start, most)
        assert plan.upper >= solve.optimal_gain(mdp).gains.max() - 1e-9
        change = optimal_backup(known, plan.bias) - plan.bias
        assert (plan.lower, plan.upper) == pytest.approx((change.min(), change.max()), abs=ROUNDING)
        assert plan.converged == (plan.upper - plan.lower <= 1e-6) and plan.sweeps <= most
        mine = planning.policy_gain(known, plan.policy, 1e-6, "optimistic")
        assert plan.lower <= mine.upper + 1e-9 and mine.lower <= plan.upper + 1e-9
        for policy, (side, sign) in itertools.product(policies(mdp.space, seed), SIDES):
            gains = solve.gain_and_bias(mdp, policy).gains
            plan = planning.policy_gain(known, policy, 1e-6, side, start, most)
            assert plan.lower <= gains.min() + 1e-9 if sign < 0 else plan.upper >= gains.max() - 1e-9
            change = oracles.robust_backup(known, policy.dense_weights, plan.bias, sign) - plan.bias
            assert (plan.lower, plan.upper) == pytest.approx((change.min(), change.max()), abs=ROUNDING)
            assert plan.converged == (plan.upper - plan.lower <= 1e-6) and plan.sweeps <= most
        assert start is None or np.array_equal(start, kept)


@forms
@pytest.mark.parametrize("side", ["pessimistic", "optimistic"])
@pytest.mark.parametrize("seed", range(4))
def test_many_policies_at_once_have_the_bounds_that_each_has_alone_to_the_last_bit(form, side, seed):
    known, mdp = plausible(form, ("dense", "sparse", "deterministic", "cycle")[seed], seed)
    several = [*policies(mdp.space, seed), *policies(mdp.space, seed + 9), *policies(mdp.space, seed)]  # some twice
    for start, most in ((None, 500), (np.random.default_rng(seed).normal(size=mdp.n_states), 7)):
        found = planning.policy_gains(known, several, 1e-5, side, start, most)
        assert [plan.policy for plan in found] == several
        for plan in found:
            alone = planning.policy_gain(known, plan.policy, 1e-5, side, start, most)
            assert np.array_equal(plan.bias, alone.bias) and plan.converged == alone.converged
            assert (plan.lower, plan.upper, plan.sweeps) == (alone.lower, alone.upper, alone.sweeps)
    assert planning.policy_gains(known, [], 1e-5) == []


@forms
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("most", [1, 2, 5, 500])
def test_rewards_never_fall_below_lemma_bound_evi(form, seed, most):
    """E[r_1 + .. + r_t | s] >= t lower + v(s) - max v, and from above with the optimistic set, for every t and s."""
    known, mdp = plausible(form, ("dense", "sparse", "deterministic")[seed % 3], seed)
    t = np.arange(1, 61)
    for policy, (side, sign) in itertools.product(policies(mdp.space, seed), SIDES):
        plan = planning.policy_gain(known, policy, 1e-3, side, most=most)
        p, r = oracles.mixed_chain(*mdp.to_arrays()[:2], policy.probabilities)
        for s in range(mdp.n_states):
            earned = oracles.cumulative_rewards([(p, r)] * t.size, np.eye(mdp.n_states)[s])
            if sign < 0:
                assert np.all(earned >= t * plan.lower + plan.bias[s] - plan.bias.max() - 1e-10)
            else:
                assert np.all(earned <= t * plan.upper + plan.bias[s] - plan.bias.min() + 1e-10)


def test_sweeps_that_run_out_leave_bounds_that_hold_and_say_so():
    mdp = TabularMDP.from_arrays([[[0.999, 0.001]], [[0.001, 0.999]]], [[0.0], [1.0]])  # gain 1/2, bias ±250
    plan = planning.policy_gain(Plausible.exactly(mdp), Policy.always(mdp.space, 0), 1e-6, most=20)
    assert not plan.converged and plan.sweeps == 20
    assert 0.0 <= plan.lower < 0.45 and 0.55 < plan.upper <= 1.0 and plan.gain == pytest.approx(0.5)
    assert planning.policy_gain(Plausible.exactly(mdp), plan.policy, 1e-6, start=plan.bias).sweeps > 20
    plan = planning.policy_gain(Plausible.exactly(mdp), plan.policy, 1e-6)
    assert plan.converged and plan.span == pytest.approx(500, abs=1e-3)
    again = planning.policy_gain(Plausible.exactly(mdp), plan.policy, 1e-6, start=plan.bias)
    assert again.sweeps == 1 and (again.lower, again.upper) == pytest.approx((plan.lower, plan.upper), abs=ROUNDING)


def test_gains_by_hand():
    """State 0 earns [.2, .4] and stays with probability [.5, .75]; state 1 earns nothing and goes back."""
    known = Plausible(
        Space.full(2, 1),
        np.array([0.2, 0.0]),
        np.array([0.4, 0.0]),
        np.array([0, 2, 3]),
        np.array([0, 1, 0]),
        np.array([0.5, 0.25, 1.0]),
        np.array([0.75, 0.5, 1.0]),
        np.zeros(2),
    )
    policy = Policy.always(known.space, 0)
    worst = 0.2 * 2 / 3  # leaves every other time: state 0 has 1 / (1 + 1/2) of the steps
    best = 0.4 * 4 / 5  # leaves one time in four: 1 / (1 + 1/4)
    assert planning.policy_gain(known, policy, 1e-10).gain == pytest.approx(worst, abs=1e-9)
    assert planning.policy_gain(known, policy, 1e-10, "optimistic").gain == pytest.approx(best, abs=1e-9)
    assert planning.optimistic_gain(known, 1e-10).gain == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_played_lists_the_pairs_of_each_state_and_their_weights(seed):
    space = table("dense", seed).space
    for policy in policies(space, seed):
        ptr, pairs, weights = planning.played(policy)
        assert ptr[0] == 0 and ptr[-1] == pairs.size == weights.size and np.all(weights > 0)
        assert np.array_equal(space.pair_state[pairs], np.repeat(np.arange(space.n_states), np.diff(ptr)))
        assert np.array_equal(np.bincount(pairs, weights, space.n_pairs), policy.dense_weights)


def test_what_cannot_be_planned_is_refused():
    mdp = table("dense", 1)
    point, policy = Plausible.exactly(mdp), Policy.uniform(mdp.space)
    other = Policy.uniform(Space.full(2, 7))
    staged = Policy(mdp.space, pair=np.stack([mdp.space.pair_ptr[:-1]] * 3))
    for epsilon in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InvalidInput, match="epsilon"):
            planning.optimistic_gain(point, epsilon)
        with pytest.raises(InvalidInput, match="epsilon"):
            planning.policy_gain(point, policy, epsilon)
    with pytest.raises(InvalidInput, match="do not fit"):
        planning.policy_gain(point, other, 0.1)
    with pytest.raises(InvalidInput, match="3 decision rules"):
        planning.policy_gain(point, staged, 0.1)


@pytest.mark.parametrize("start", [np.zeros(3), np.zeros((1, 4)), np.array([0, np.nan, 0, 0])])
def test_a_start_that_is_no_vector_over_the_states_is_refused(start):
    mdp = TabularMDP.from_arrays(*oracles.random_mdp("dense", 1, 4, 2))
    with pytest.raises(InvalidInput):
        planning.policy_gain(Plausible.exactly(mdp), Policy.uniform(mdp.space), 0.1, start=start)
    with pytest.raises(InvalidInput):
        planning.optimistic_gain(Plausible.exactly(mdp), 0.1, start)


def test_a_side_that_does_not_exist_is_not_taken_for_the_optimistic_one():
    mdp = table("dense", 1)
    with pytest.raises(ValueError):
        planning.policy_gain(Plausible.exactly(mdp), Policy.uniform(mdp.space), 0.1, "pessimist")
