"""Backward induction over sets, tables and stages against every policy, every corner and every plausible MDP."""

import itertools
import math

import numpy as np
import pytest

import oracles
from surefooted import planning, solve
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.kernels import intervals, stages
from surefooted.kernels import rows as row_kernels
from surefooted.kernels.structs import Estimates
from surefooted.knowledge.belief import Belief
from surefooted.sets import confidence
from surefooted.sets.plausible import Plausible
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Space
from surefooted.tables.staged import StagedMDP

SAFE = 1e-12
SIDES = (("pessimistic", -1.0), ("optimistic", 1.0))
NO_PAIRS, NO_WEIGHTS = np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0))
CONFIDENCES = (
    confidence.hoeffding,
    confidence.hoeffding_paper,
    confidence.simplified_bernstein,
    confidence.bernstein,
    confidence.likelihood,
)
forms = pytest.mark.parametrize("form", ["box", "ball"])
kinds = pytest.mark.parametrize("staged", [False, True], ids=["shared", "staged"])
sizes = pytest.mark.parametrize(
    ("n_states", "n_actions", "horizon"),
    [(1, 1, 1), (1, 3, 3), (2, 2, 1), (2, 2, 3), (2, 1, 3), (2, 3, 2), (3, 1, 2), (3, 2, 1)],
)


def both(kernel):
    return pytest.mark.parametrize("kernel", [kernel, kernel.py_func], ids=["compiled", "plain"])


def some_dynamics(seed, n_states, n_actions, horizon, staged, r_max=1.0, noise=None):
    """A table, or one for each stage over the same pairs; some actions are missing, some rows are sparse."""
    rng = np.random.default_rng([11, seed])
    available = rng.random((n_states, n_actions)) < 0.8
    available[np.arange(n_states), rng.integers(n_actions, size=n_states)] = True
    tables = []
    for _ in range(horizon if staged else 1):
        p = rng.dirichlet(np.full(n_states, rng.choice([0.1, 1.0])), size=(n_states, n_actions))
        p[p < 1e-3] = 0.0
        p /= p.sum(axis=2, keepdims=True)
        r = r_max * (rng.random((n_states, n_actions)) if seed % 3 else rng.integers(0, 2, (n_states, n_actions)))
        tables.append(TabularMDP.from_arrays(p, r, available, noise, r_max=r_max))
    return StagedMDP(tables) if staged else tables[0]


def dense(mdp, horizon):
    """p [H, K, S] and r [H, K] of each stage."""
    space = mdp.space
    p, r = np.zeros((horizon, space.n_pairs, space.n_states)), np.zeros((horizon, space.n_pairs))
    for h in range(horizon):
        table = mdp.tables[h] if isinstance(mdp, StagedMDP) else mdp
        q, reward, available = table.to_arrays()
        p[h], r[h] = q[available], reward[available]
    return p, r


def set_around(form, mdp, seed):
    """A set with the MDP in it: of each pair any successors are stored in any order; some are new, some known."""
    rng, space = np.random.default_rng([13, ord(form[1]), seed]), mdp.space
    n, top = space.n_states, space.r_max
    p, r = dense(mdp, mdp.stages)
    p, r = p.reshape(-1, n), r.reshape(-1)
    ptr, states, low, high, unseen, width = [0], [], [], [], [], []
    for row in p:
        fate = rng.choice(["known", "new", "tried", "tried", "tried"])
        some, spread, cap, centre, radius = np.flatnonzero(row), np.zeros((2, n)), 0.0, row, 0.0
        if fate == "new":
            some, cap, radius = some[:0], 1.0, rng.uniform(0, 3)
        elif fate == "tried":
            some = rng.permutation(n)[: rng.integers(1, n + 1)]
            spread = rng.uniform(0, rng.choice([0.01, 0.3, 1.0]), size=(2, n))
            cap = max(rng.choice([0.0, 0.1, 1.0]), np.delete(row, some).max(initial=0.0))
            if form == "ball":
                centre = np.zeros(n)
                centre[some] = rng.dirichlet(np.ones(some.size))
                radius = np.abs(row - centre).sum() * rng.choice([1.0, 1.3]) + rng.choice([0.0, 0.5])
        states += some.tolist()
        low += (centre * (1 - spread[0]) if form == "box" else centre)[some].tolist()
        high += np.minimum(centre + spread[1] if form == "box" else 1.0, 1.0 + 0 * centre)[some].tolist()
        unseen.append(cap if form == "box" else 1.0)
        width.append(radius)
        ptr.append(len(states))
    spread = rng.uniform(0, 0.3 * top, size=(2, r.size))
    return Plausible(
        space,
        np.maximum(r - spread[0], 0.0),
        np.minimum(r + spread[1], top),
        np.array(ptr),
        np.array(states, dtype=np.int64),
        np.array(low, dtype=float),
        np.array(high, dtype=float),
        np.array(unseen),
        np.array(width) if form == "ball" else None,
        mdp.stages,
    )


def random_weights(space, rng, *shape):
    """Weights over the pairs of each state, some of them 0."""
    weights = rng.random((*shape, space.n_pairs)) * (rng.random((*shape, space.n_pairs)) < 0.7)
    weights[..., space.pair_ptr[:-1]] += 0.01
    sums = np.add.reduceat(weights, space.pair_ptr[:-1], axis=-1)
    return weights / np.repeat(sums, np.diff(space.pair_ptr), axis=-1)


def some_policies(space, horizon, seed):
    """A stationary and a time-dependent policy, deterministic and randomised."""
    rng, sizes = np.random.default_rng([17, seed]), np.diff(space.pair_ptr)
    return (
        Policy(space, pair=space.pair_ptr[:-1] + rng.integers(sizes)),
        Policy(space, pair=space.pair_ptr[:-1] + rng.integers(sizes, size=(horizon, space.n_states))),
        Policy(space, weights=random_weights(space, rng)),
        Policy(space, weights=random_weights(space, rng, horizon)),
    )


def rules(policy, horizon):
    """Weights of every stage, [H, K]."""
    return np.broadcast_to(policy.dense_weights, (horizon, policy.space.n_pairs))


def stride(plausible):
    return plausible.space.n_pairs if plausible.stages > 1 else 0


def slow_values(mdp, policy, horizon):
    """V^π [H + 1, S]: expected rewards of each stage, from the dense chain of every stage."""
    p, r = dense(mdp, horizon)
    space, values = mdp.space, np.zeros((horizon + 1, mdp.space.n_states))
    for h in range(horizon):
        x = np.eye(space.n_states)  # where the chain is when it starts at stage h
        for g in range(h, horizon):
            chain = np.zeros((space.n_states, space.n_states))
            reward = np.zeros(space.n_states)
            for k in range(space.n_pairs):
                weight = rules(policy, horizon)[g, k]
                chain[space.pair_state[k]] += weight * p[g, k]
                reward[space.pair_state[k]] += weight * r[g, k]
            values[h] += x @ reward
            x = x @ chain
    return values


def all_corners(plausible, horizon):
    """For each stage all choices of one corner per pair, [n, K, S]."""
    K, choices = plausible.space.n_pairs, []
    for h in range(horizon):
        corners = [oracles.row_vertices(oracles.row_set(plausible, k + h * stride(plausible))) for k in range(K)]
        choices.append(np.array([np.array(rows) for rows in itertools.product(*corners)]))
    return choices


def extreme_values(plausible, corners, weights, sign):
    """The extreme of V^π [H, S] over every MDP whose stages use corners: all of them, one by one."""
    space, horizon = plausible.space, len(corners)
    r = plausible.r_upper if sign > 0 else plausible.r_lower
    r = np.broadcast_to(r.reshape(-1, space.n_pairs), (horizon, space.n_pairs))
    after, out = np.zeros((1, space.n_states)), np.zeros((horizon, space.n_states))
    member = space.pair_state[:, None] == np.arange(space.n_states)  # [K, S]
    for h in range(horizon - 1, -1, -1):
        q = r[h] + np.einsum("nky,my->nmk", corners[h], after)
        after = ((q * weights[h]) @ member).reshape(-1, space.n_states)
        out[h] = after.max(axis=0) if sign > 0 else after.min(axis=0)
    return out


def run_policy(kernel, plausible, policy, horizon, sign):
    values = np.zeros((horizon + 1, plausible.space.n_states))
    r = plausible.r_upper if sign > 0 else plausible.r_lower
    first = np.full((1, plausible.space.n_states), np.nan)
    kernel(plausible.space.pair_ptr, tuple(plausible.rows), r, sign, *policy.stages(horizon), values, first)
    assert np.array_equal(first[0], values[0])
    return values


def run_optimistic(kernel, plausible, horizon, pair):
    values = np.zeros((horizon + 1, plausible.space.n_states))
    changed = kernel(plausible.space.pair_ptr, tuple(plausible.rows), plausible.r_upper, values, pair)
    return values, changed


@pytest.mark.first(30)
@both(stages.policy_stages)
@forms
@kinds
@sizes
def test_policy_stages_is_the_extreme_over_all_corners(kernel, form, staged, n_states, n_actions, horizon):
    for seed in range(2):
        mdp = some_dynamics(seed, n_states, n_actions, horizon, staged)
        known = set_around(form, mdp, seed)
        corners = all_corners(known, horizon)
        for policy, (side, sign) in itertools.product(some_policies(mdp.space, horizon, seed), SIDES):
            truth = extreme_values(known, corners, rules(policy, horizon), sign)
            values = run_policy(kernel, known, policy, horizon, sign)
            assert values[:-1] == pytest.approx(truth, abs=1e-11)
            assert not values[-1].any()
            assert planning.policy_values(known, policy, horizon, side) == pytest.approx(values, abs=SAFE)


@pytest.mark.first(20)
@both(stages.optimistic_stages)
@forms
@kinds
@sizes
def test_optimistic_stages_is_the_best_of_all_policies_and_corners(kernel, form, staged, n_states, n_actions, horizon):
    mdp = some_dynamics(7, n_states, n_actions, horizon, staged)
    known = set_around(form, mdp, 7)
    corners, best = all_corners(known, horizon), np.full((horizon, n_states), -np.inf)
    rule = list(oracles.deterministic_policies(mdp.space.available))
    for plan in itertools.product(rule, repeat=horizon):
        policy = Policy.deterministic(mdp.space, np.array(plan))
        best = np.maximum(best, extreme_values(known, corners, rules(policy, horizon), 1.0))
    pair = np.full((horizon, n_states), -1)
    values, changed = run_optimistic(kernel, known, horizon, pair)
    assert values[:-1] == pytest.approx(best, abs=1e-11)
    assert changed
    greedy = Policy(mdp.space, pair=pair)  # which is checked
    assert run_policy(stages.policy_stages, known, greedy, horizon, 1.0) == pytest.approx(values, abs=SAFE)


@both(stages.optimistic_stages)
@forms
@kinds
def test_the_values_do_not_depend_on_the_incumbent_and_the_greedy_pairs_attain_them(kernel, form, staged):
    for seed in range(12):
        n_states, horizon = 1 + seed % 5, 1 + seed % 4
        mdp = some_dynamics(seed, n_states, 3, horizon, staged)
        known, rng = set_around(form, mdp, seed), np.random.default_rng(seed)
        pair = np.full((horizon, n_states), -1)
        truth, _ = run_optimistic(kernel, known, horizon, pair)
        sizes = np.diff(mdp.space.pair_ptr)
        for _ in range(4):
            pair = mdp.space.pair_ptr[:-1] + rng.integers(sizes, size=(horizon, n_states))
            before = pair.copy()
            values, changed = run_optimistic(kernel, known, horizon, pair)
            assert values == pytest.approx(truth, abs=SAFE)
            assert changed == (not np.array_equal(before, pair))
            greedy = Policy(mdp.space, pair=pair)
            assert run_policy(stages.policy_stages, known, greedy, horizon, 1.0) == pytest.approx(truth, abs=SAFE)
            kept = pair.copy()
            assert not run_optimistic(kernel, known, horizon, pair)[1]  # what was greedy is so again
            assert np.array_equal(pair, kept)


@both(stages.optimistic_stages)
@pytest.mark.parametrize("before", [-1, 0, 1, 2, 3])
def test_of_equals_the_first_is_greedy_whatever_the_incumbent(kernel, before):
    mdp = TabularMDP.from_arrays(np.ones((1, 4, 1)), np.array([[0.25, 0.5, 0.5, 0.5]]))
    pair = np.full((2, 1), before)
    values, changed = run_optimistic(kernel, Plausible.exactly(mdp), 2, pair)
    assert values.tolist() == [[1.0], [0.5], [0.0]] and pair.tolist() == [[1], [1]]
    assert changed == (before != 1)


@both(stages.policy_stages)
@forms
@kinds
def test_many_policies_at_once_are_each_of_them(kernel, form, staged):
    for seed in range(6):
        n_states, horizon = 1 + seed % 4, 1 + seed % 3
        mdp = some_dynamics(seed, n_states, 2, horizon, staged)
        known, rng = set_around(form, mdp, seed), np.random.default_rng(seed)
        pairs = mdp.space.pair_ptr[:-1] + rng.integers(np.diff(mdp.space.pair_ptr), size=(5, horizon, n_states))
        for _, sign in SIDES:
            r = known.r_upper if sign > 0 else known.r_lower
            first = np.full((5, n_states), np.nan)
            values = np.zeros((horizon + 1, mdp.n_states))
            kernel(mdp.space.pair_ptr, tuple(known.rows), r, sign, np.concatenate(pairs), NO_WEIGHTS, values, first)
            for i, pair in enumerate(pairs):
                policy = Policy(mdp.space, pair=pair)
                alone = run_policy(stages.policy_stages, known, policy, horizon, sign)[0]
                assert first[i] == pytest.approx(alone, abs=SAFE)


def exactly_known(mdp):
    """A known table as estimates without a bonus: one visit to each row, probabilities in place of counts."""
    known = Estimates(np.ones(mdp.r.size, dtype=np.int64), mdp.r, mdp.next_ptr, mdp.next_state, mdp.p)
    return mdp.space.pair_ptr, known, np.zeros(mdp.r.size)


@both(stages.estimated_policy_stages)
@kinds
def test_estimated_policy_stages_of_a_known_table_is_the_product_of_the_chains(kernel, staged):
    for seed in range(10):
        n_states, horizon = 1 + seed % 4, 1 + seed % 3
        mdp = some_dynamics(seed, n_states, 3, horizon, staged, r_max=2.5)
        for policy in some_policies(mdp.space, horizon, seed):
            values = np.zeros((horizon + 1, n_states))
            kernel(*exactly_known(mdp), np.inf, 0.0, *policy.stages(horizon), values)
            truth = slow_values(mdp, policy, horizon)
            assert values == pytest.approx(truth, abs=SAFE)
            assert solve.policy_values(mdp, policy, horizon) == pytest.approx(truth, abs=SAFE)


@both(stages.estimated_policy_stages)
def test_estimated_policy_stages_begins_with_what_is_collected_at_the_end(kernel):
    mdp = TabularMDP.from_arrays([[[0.25, 0.75]], [[0.0, 1.0]]], [[0.5], [0.25]])
    values = np.array([[0.0, 0.0], [8.0, 4.0]])
    kernel(*exactly_known(mdp), np.inf, 0.0, np.array([[0, 1]]), NO_WEIGHTS, values)
    assert values.tolist() == [[0.5 + 2 + 3, 0.25 + 4], [8.0, 4.0]]


@kinds
@sizes
def test_optimal_values_are_the_best_of_all_policies(staged, n_states, n_actions, horizon):
    for seed in range(3):
        mdp = some_dynamics(seed, n_states, n_actions, horizon, staged, r_max=0.5)
        best = np.zeros((horizon + 1, n_states))
        for plan in itertools.product(oracles.deterministic_policies(mdp.space.available), repeat=horizon):
            best = np.maximum(best, slow_values(mdp, Policy.deterministic(mdp.space, np.array(plan)), horizon))
        found = solve.optimal_values(mdp, horizon)
        assert found.values == pytest.approx(best, abs=SAFE)
        assert slow_values(mdp, found.policy, horizon) == pytest.approx(best, abs=SAFE)
        assert found.policy.horizon == horizon


@kinds
@sizes
def test_a_set_of_one_mdp_has_its_values(staged, n_states, n_actions, horizon):
    for seed in range(4):
        mdp = some_dynamics(seed, n_states, n_actions, horizon, staged, r_max=2.0)
        point = Plausible.exactly(mdp)
        assert point.stages == mdp.stages and point.contains(mdp)
        for policy, (side, _) in itertools.product(some_policies(mdp.space, horizon, seed), SIDES):
            truth = solve.policy_values(mdp, policy, horizon)
            assert planning.policy_values(point, policy, horizon, side) == pytest.approx(truth, abs=SAFE)
        pair = np.full((horizon, n_states), -1)
        values, _ = run_optimistic(stages.optimistic_stages, point, horizon, pair)
        assert values == pytest.approx(solve.optimal_values(mdp, horizon).values, abs=SAFE)


@kinds
@sizes
def test_the_optimistic_plan_over_one_mdp_is_its_optimal_policy(staged, n_states, n_actions, horizon):
    for seed in range(4):
        mdp = some_dynamics(seed, n_states, n_actions, horizon, staged, r_max=2.0)
        plan = planning.optimistic_values(Plausible.exactly(mdp), horizon)
        truth = solve.optimal_values(mdp, horizon).values
        assert plan.values == pytest.approx(truth, abs=SAFE)
        assert solve.policy_values(mdp, plan.policy, horizon) == pytest.approx(truth, abs=SAFE)


def test_a_state_is_not_planned_with_the_pairs_of_another():
    """Two states that stay where they are; the first earns 1 at each step, the second nothing."""
    mdp = TabularMDP.from_arrays(np.eye(2)[:, None], [[1.0], [0.0]])
    plan = planning.optimistic_values(Plausible.exactly(mdp), 2)
    assert plan.values.tolist() == [[2.0, 0.0], [1.0, 0.0], [0.0, 0.0]]
    assert plan.policy == Policy(mdp.space, pair=np.array([[0, 1], [0, 1]]))


def test_values_by_hand():
    """State 0 earns [.2, .4] and stays with probability [.5, .75]; state 1 earns nothing and goes back; H = 3."""
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
    # worst: .2; .2 + .5 x .2 = .3 and .2; .2 + .25 x .. of the smaller: state 1 has .2 < .3: .2 + .5 x .3 + .5 x .2
    worst = [[0.2 + 0.5 * 0.3 + 0.5 * 0.2, 0.3], [0.2 + 0.5 * 0.2, 0.2], [0.2, 0.0], [0.0, 0.0]]
    # best: .4; .4 + .75 x .4 = .7 and .4; .4 + .75 x .7 + .25 x .4
    best = [[0.4 + 0.75 * 0.7 + 0.25 * 0.4, 0.7], [0.4 + 0.75 * 0.4, 0.4], [0.4, 0.0], [0.0, 0.0]]
    assert planning.policy_values(known, policy, 3) == pytest.approx(np.array(worst), abs=SAFE)
    assert planning.policy_values(known, policy, 3, "optimistic") == pytest.approx(np.array(best), abs=SAFE)
    assert planning.optimistic_values(known, 3).values == pytest.approx(np.array(best), abs=SAFE)


def plan_values(known, horizon):
    """The values of optimistic backward induction, by the kernel alone."""
    pair = np.full((horizon, known.space.n_states), -1)
    return run_optimistic(stages.optimistic_stages, known, horizon, pair)[0]


def check_bounds(known, mdp, horizon, seed):
    """Every bound of a set that contains the MDP, at every stage and state."""
    assert known.contains(mdp)
    most = (horizon - np.arange(horizon + 1))[:, None] * mdp.r_max * (1 + SAFE)
    upper = plan_values(known, horizon)
    assert np.all(upper >= solve.optimal_values(mdp, horizon).values - SAFE)
    assert np.all(upper <= most)
    for policy in some_policies(mdp.space, horizon, seed):
        truth = solve.policy_values(mdp, policy, horizon)
        low, high = (planning.policy_values(known, policy, horizon, side) for side, _ in SIDES)
        assert np.all(low <= truth + SAFE) and np.all(truth <= high + SAFE)
        assert np.all(low >= -SAFE * mdp.r_max) and np.all(high <= most)
        assert np.all(high <= upper + SAFE)


@pytest.mark.first(2)
@forms
@kinds
def test_every_bound_holds_at_every_stage_and_state_for_an_mdp_of_the_set(form, staged):
    for seed in range(200):
        horizon = 1 + seed % 4
        r_max = (1.0, 0.25, 30.0)[seed % 3]
        mdp = some_dynamics(seed, 1 + seed % 5, 1 + seed % 3, horizon, staged, r_max)
        check_bounds(set_around(form, mdp, seed), mdp, horizon, seed)


def sampled(mdp, n, rng):
    """Counts of n steps of random pairs, of all stages if they differ."""
    counts = Counts(mdp.space, stages=mdp.stages)
    rows = rng.choice(counts.n_rows, size=n, p=rng.dirichlet(np.ones(counts.n_rows)))
    for row in rows:
        h, k = divmod(int(row), mdp.space.n_pairs)
        reward, s_next = mdp.stage(h).draw(rng, k)
        counts.add(int(mdp.space.pair_state[k]), int(mdp.space.pair_action[k]), reward, s_next, h)
    return counts


@pytest.mark.first(4)
@kinds
@pytest.mark.parametrize("confident", CONFIDENCES)
def test_every_bound_holds_when_the_data_are_not_misleading(confident, staged):
    good = 0
    for seed in range(60):
        rng, horizon = np.random.default_rng([19, seed]), 1 + seed % 4
        noise = Noise(("bernoulli", "none")[seed % 2])
        r_max = (1.0, 4.0)[seed % 2]
        mdp = some_dynamics(seed, 1 + seed % 4, 1 + seed % 3, horizon, staged, r_max, noise)
        known = confident(sampled(mdp, int(rng.integers(1, 120)), rng), 0.3)
        if known.contains(mdp):
            good += 1
            check_bounds(known, mdp, horizon, seed)
    assert good >= 30, "a test without power"


def test_stages_that_do_not_fit_are_refused():
    mdp = some_dynamics(1, 3, 2, 3, True)
    known, policy = set_around("box", mdp, 1), Policy.uniform(mdp.space)
    for horizon in (2, 4):
        with pytest.raises(InvalidInput, match="3 stages"):
            planning.policy_values(known, policy, horizon)
        with pytest.raises(InvalidInput, match="3 stages"):
            planning.optimistic_values(known, horizon)
        with pytest.raises(InvalidInput, match="3 stages"):
            solve.policy_values(mdp, policy, horizon)
        with pytest.raises(InvalidInput, match="3 stages"):
            solve.optimal_values(mdp, horizon)
    long = Policy(mdp.space, pair=np.stack([mdp.space.pair_ptr[:-1]] * 4))
    with pytest.raises(InvalidInput, match="4 decision rules for 3 stages"):
        planning.policy_values(known, long, 3)
    with pytest.raises(InvalidInput, match="4 decision rules for 3 stages"):
        solve.policy_values(mdp, long, 3)
    other = Policy.uniform(Space.full(5, 2))
    with pytest.raises(InvalidInput, match="do not fit"):
        planning.policy_values(known, other, 3)
    with pytest.raises(InvalidInput, match="do not fit"):
        solve.policy_values(mdp, other, 3)
    with pytest.raises(InvalidInput, match="side"):
        planning.policy_values(known, policy, 3, "pessimist")
    for horizon in (0, -1, 1.5, None, True):
        with pytest.raises(InvalidInput):
            planning.policy_values(Plausible.exactly(mdp.stage(0)), policy, horizon)
        with pytest.raises(InvalidInput):
            planning.optimistic_values(Plausible.exactly(mdp.stage(0)), horizon)
    with pytest.raises(InvalidInput, match="3 stages"):
        planning.optimistic_gain(known, 0.1)
    with pytest.raises(InvalidInput, match="3 stages"):
        planning.policy_gain(known, policy, 0.1)


def test_a_staged_mdp_of_one_table_is_that_table_at_every_horizon():
    mdp = some_dynamics(2, 3, 2, 1, False)
    one, policy = StagedMDP([mdp]), Policy.uniform(mdp.space)
    assert one.stages == 1
    assert np.array_equal(solve.policy_values(one, policy, 3), solve.policy_values(mdp, policy, 3))
    assert np.array_equal(solve.optimal_values(one, 3).values, solve.optimal_values(mdp, 3).values)


def test_a_staged_mdp_is_its_tables_one_after_the_other():
    mdp = some_dynamics(4, 3, 2, 3, True, r_max=2.0, noise=Noise("bernoulli"))
    K = mdp.space.n_pairs
    assert (mdp.stages, mdp.n_states, mdp.r_max, mdp.noise) == (3, 3, 2.0, Noise("bernoulli"))
    assert mdp.next_ptr.size == 3 * K + 1 and mdp.r.size == 3 * K
    for h, k in itertools.product(range(3), range(K)):
        table, m = mdp.tables[h], h * K + k
        assert mdp.stage(h) is table and mdp.r[m] == table.r[k]
        mine = slice(mdp.next_ptr[m], mdp.next_ptr[m + 1])
        theirs = slice(table.next_ptr[k], table.next_ptr[k + 1])
        assert np.array_equal(mdp.next_state[mine], table.next_state[theirs])
        assert np.array_equal(mdp.p[mine], table.p[theirs])


def test_tables_that_do_not_belong_together_are_no_staged_mdp():
    a, b = (TabularMDP.from_arrays(np.ones((1, m, 1)), np.zeros((1, m))) for m in (1, 2))
    noisy = TabularMDP.from_arrays(np.ones((1, 1, 1)), np.zeros((1, 1)), noise=Noise("bernoulli"))
    for tables, words in (([], "no stage"), ([a, b], "stage 1 is on"), ([a, a, noisy], "stage 2 has")):
        with pytest.raises(InvalidInput, match=words):
            StagedMDP(tables)


@forms
def test_a_staged_set_knows_which_stage_it_excludes(form):
    for seed in range(20):
        mdp = some_dynamics(seed, 3, 2, 3, True)
        known, rng, K = set_around(form, mdp, seed), np.random.default_rng(seed), mdp.space.n_pairs
        assert known.contains(mdp) and known.excludes(mdp) == []
        h, k = int(rng.integers(3)), int(rng.integers(K))
        where = f"stage {h}, state {mdp.space.pair_state[k]}, action {mdp.space.pair_action[k]}:"
        for shift in (known.r_upper[h * K + k] + 1e-6, known.r_lower[h * K + k] - 1e-6):
            if not 0 <= shift <= 1:
                continue
            table = mdp.tables[h]
            r = table.r.copy()
            r[k] = shift
            moved = TabularMDP(table.space, table.next_ptr, table.next_state, table.p, r)
            tables = [moved if g == h else other for g, other in enumerate(mdp.tables)]
            faults = known.excludes(StagedMDP(tables))
            assert len(faults) == 1 and faults[0].startswith(where) and not known.contains(StagedMDP(tables))


def rows_of(mdp, p):
    """The table of the same space with rows p [K, S]."""
    q, r, available = np.zeros((mdp.n_states, mdp.space.n_actions, mdp.n_states)), *mdp.to_arrays()[1:]
    q[available] = p
    return TabularMDP.from_arrays(q, r, available, r_max=mdp.r_max)


@forms
def test_a_set_contains_its_corners_and_nothing_beyond_them(form):
    inside = outside = 0
    for seed in range(16):
        mdp = some_dynamics(seed, 3, 2, 2, True)
        known, rng, K = set_around(form, mdp, seed), np.random.default_rng(seed), mdp.space.n_pairs
        for h, k in itertools.product(range(2), range(K)):
            p = dense(mdp, 2)[0]
            corners = oracles.row_vertices(oracles.row_set(known, h * K + k))
            corner = np.maximum(corners[rng.integers(len(corners))], 0.0)
            p[h, k] = corner
            tables = [rows_of(table, p[g]) for g, table in enumerate(mdp.tables)]
            assert known.contains(StagedMDP(tables), 1e-11)
            inside += 1
            beyond = corner + 1e-5 * (corner - corners.mean(axis=0))
            if len(corners) > 1 and np.all(beyond >= 0):
                p[h, k] = beyond
                tables = [rows_of(table, p[g]) for g, table in enumerate(mdp.tables)]
                faults = known.excludes(StagedMDP(tables))
                outside += 1
                assert len(faults) == 1 and faults[0].startswith(f"stage {h}, state {mdp.space.pair_state[k]}, action")
    assert inside > 70 and outside > 5, "a test without power"


def test_what_all_stages_share_is_compared_with_each_of_them():
    mdp = some_dynamics(5, 3, 2, 3, True)
    for h in range(3):
        shared = Plausible.exactly(mdp.tables[h])
        assert shared.contains(mdp.tables[h]) and not shared.contains(mdp)
        assert all(not fault.startswith(f"stage {h},") for fault in shared.excludes(mdp))
        assert {fault.split(",")[0] for fault in shared.excludes(mdp)} == {f"stage {g}" for g in range(3) if g != h}
        same = StagedMDP([mdp.tables[h]] * 3)
        assert shared.contains(same) and Plausible.exactly(same).contains(mdp.tables[h])
        assert not Plausible.exactly(mdp).contains(mdp.tables[h])
    with pytest.raises(InvalidInput, match="set of 3 stages, MDP of 2"):
        Plausible.exactly(mdp).contains(StagedMDP(mdp.tables[:2]))
    with pytest.raises(InvalidInput, match="do not fit"):
        Plausible.exactly(mdp).contains(some_dynamics(5, 2, 2, 3, True))


def test_staged_counts_are_a_tally_of_each_stage():
    space, H = Space.from_available(np.array([[True, True], [False, True], [True, False]]), 2.0), 3
    rng = np.random.default_rng(0)
    counts, tally = Counts(space, stages=H), {}
    for _ in range(700):
        h, k = int(rng.integers(H)), int(rng.integers(space.n_pairs))
        r, y = float(rng.uniform(0, 2)), int(rng.integers(3))
        counts.add(int(space.pair_state[k]), int(space.pair_action[k]), r, y, h)
        tally.setdefault((h, k), []).append((r, y))
    assert counts.total == 700 and counts.n_rows == H * space.n_pairs and counts.stages == H
    again = Counts.from_state_dict(space, counts.state_dict())
    for c in (counts, again):
        next_ptr, next_state, count = c.rows()
        for (h, k), steps in tally.items():
            m, rewards = h * space.n_pairs + k, np.array([r for r, _ in steps])
            assert c.visits[m] == len(steps)
            assert c.reward_sum[m] == pytest.approx(rewards.sum())
            assert c.reward_square[m] == pytest.approx((rewards**2).sum())
            row = slice(next_ptr[m], next_ptr[m + 1])
            found = dict(zip(next_state[row].tolist(), count[row].tolist(), strict=True))
            assert found == {y: sum(z == y for _, z in steps) for y in {y for _, y in steps}}


@pytest.mark.parametrize("h", [3, -1, 0.5, None, "1", True])
def test_a_stage_that_does_not_exist_is_not_counted(h):
    counts = Counts(Space.full(2, 2), stages=3)
    with pytest.raises(InvalidInput, match="stage"):
        counts.add(0, 0, 0.5, 1, h)
    assert counts.total == 0 and counts.added == 0
    with pytest.raises(InvalidInput, match="stage"):
        Counts(Space.full(2, 2)).merge(counts)


@pytest.mark.parametrize("stages", [0, -1, 1.5, None, "2"])
def test_there_are_no_counts_of_such_stages(stages):
    with pytest.raises(InvalidInput):
        Counts(Space.full(2, 2), stages=stages)


@pytest.mark.parametrize("confident", CONFIDENCES)
def test_the_logarithms_of_staged_sets_count_the_pairs_of_all_stages(confident):
    """H stages of K pairs share δ as H K pairs would: the formulas of each set, with A H for A and K H for K."""
    space, H, delta = Space.from_available(np.array([[True, True, True], [True, False, True]]), 3.0), 2, 0.1
    rng, counts = np.random.default_rng(0), Counts(space, stages=H)
    rows = rng.integers(1, counts.n_rows, size=4000)  # the first is never tried
    counts.add_steps(rows, rng.choice([0.0, 1.5, 3.0], size=rows.size), rng.integers(2, size=rows.size))
    known, S, A, K, t = confident(counts, delta), 2, 3, 5, 4001
    assert known.stages == H and known.n_rows == H * K == 10
    assert (known.r_lower[0], known.r_upper[0], known.unseen[0]) == (0.0, 3.0, 1.0)
    for m in range(1, H * K):
        n = int(counts.visits[m])
        mean = counts.reward_sum[m] / n
        deviation = math.sqrt(counts.reward_square[m] / n - mean**2)
        row = slice(known.next_ptr[m], known.next_ptr[m + 1])
        p = counts.rows()[2][row] / n
        sd = np.sqrt(p * (1 - p))
        if confident is confidence.hoeffding:
            width_r = 3 * math.sqrt(7 * math.log(2 * S * A * H * t / delta) / (2 * n))
            assert known.width[m] == pytest.approx(math.sqrt(14 * S * math.log(2 * A * H * t / delta) / n))
        elif confident is confidence.hoeffding_paper:
            log = math.log(5 * S * A * H * t / delta)
            width_r = 3 * math.sqrt(7 * S * A * H * log / (2 * n))
            assert known.width[m] == pytest.approx(S * math.sqrt(14 * A * H * log / n))
        elif confident is confidence.simplified_bernstein:
            x = math.log(S * A * H / delta)
            width_r, width_p = deviation * math.sqrt(x / n) + 3 * x / n, sd * math.sqrt(x / n) + x / n
            assert known.unseen[m] == pytest.approx(min(x / n, 1))
        elif confident is confidence.bernstein:
            x = math.log(3 * (S + 1) * K * H * n * (n + 1) / delta)
            width_r, width_p = deviation * math.sqrt(2 * x / n) + 9 * x / n, sd * math.sqrt(2 * x / n) + 3 * x / n
            assert known.unseen[m] == pytest.approx(min(3 * x / n, 1))
        else:
            x, count = math.log((S + 1) * K * H / delta), p * n
            lower, upper = np.array([intervals.likelihood_interval(float(c), float(n), x) for c in count]).T
            assert known.p_lower[row] == pytest.approx(lower) and known.p_upper[row] == pytest.approx(upper)
            assert known.unseen[m] == pytest.approx(intervals.likelihood_interval(0.0, float(n), x)[1])
            s, q, y = counts.reward_sum[m], counts.reward_square[m], x + math.log(2)
            assert known.r_lower[m] == pytest.approx(oracles.mean_distance(n, s, q, y))
            assert known.r_upper[m] == pytest.approx(3 - oracles.mean_distance(n, 3 * n - s, 9 * n - 6 * s + q, y))
            continue
        assert known.r_lower[m] == pytest.approx(max(mean - width_r, 0))
        assert known.r_upper[m] == pytest.approx(min(mean + width_r, 3))
        if known.width is None:
            assert known.p_lower[row] == pytest.approx(np.maximum(p - width_p, 0))
            assert known.p_upper[row] == pytest.approx(np.minimum(p + width_p, 1))


def stored(rows, k):
    """The successors of a row with their bounds, by state: the order within a row is free."""
    part = slice(rows.first[k], rows.last[k])
    return sorted(zip(rows.next_state[part].tolist(), rows.low[part].tolist(), rows.room[part].tolist(), strict=True))


def assert_same_set(live, fresh):
    """Every field, and what the kernels take."""
    assert live.stages == fresh.stages and live.space == fresh.space
    for name in ("r_lower", "r_upper", "next_ptr", "next_state", "p_lower", "p_upper", "unseen", "width"):
        mine, theirs = getattr(live, name), getattr(fresh, name)
        assert (mine is None) == (theirs is None), name
        assert mine is None or np.array_equal(mine, theirs), name
    a, b = live.rows, fresh.rows
    assert np.array_equal(a.last - a.first, b.last - b.first)
    for name in ("unseen", "width"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    assert a.slack == pytest.approx(b.slack, abs=1e-15)
    for k in range(live.n_rows):
        assert stored(a, k) == stored(b, k)


@kinds
@pytest.mark.parametrize("confident", CONFIDENCES)
def test_a_live_set_is_what_asking_again_would_give(confident, staged):
    for seed in range(8):
        rng, horizon = np.random.default_rng([23, seed]), 3
        mdp = some_dynamics(seed, 2 + seed % 4, 2, horizon, staged, (1.0, 2.0)[seed % 2])
        counts = Counts(mdp.space, stages=mdp.stages)
        if seed % 3 == 0:
            counts = sampled(mdp, 30, rng)
        belief, policy = Belief(counts, confident, 0.1), Policy.uniform(mdp.space)
        assert_same_set(belief.plausible(), confident(counts, 0.1))
        for step in range(30):
            for _ in range(int(rng.choice([0, 1, 1, 2, 20]))):
                m = int(rng.integers(counts.n_rows))
                successors = mdp.n_states if step > 15 else 1 + step % 2  # new successors keep appearing
                reward = float(rng.choice([0.0, rng.random(), 1.0])) * mdp.r_max
                counts.add_steps(np.array([m]), np.array([reward]), rng.integers(successors, size=1))
            if step % 11 == 10:
                counts.merge(sampled(mdp, 5, rng))
            if step % 3:
                continue  # more than once between two questions
            known = belief.plausible()
            assert_same_set(known, confident(counts, 0.1))
            assert belief.plausible() is known  # nothing was added
            again = confident(counts, 0.1)
            for side, _ in SIDES:  # which rearranges the rows
                values = planning.policy_values(known, policy, horizon, side)
                assert values == pytest.approx(planning.policy_values(again, policy, horizon, side), abs=SAFE)
            assert plan_values(known, horizon) == pytest.approx(plan_values(again, horizon), abs=SAFE)


def test_a_live_set_of_another_function_is_asked_anew_each_time():
    mdp = some_dynamics(3, 3, 2, 1, False)

    def shrinking(counts, delta):
        return Plausible.exactly(mdp) if counts.total > 3 else confidence.bernstein(counts, delta)

    counts = Counts(mdp.space)
    belief = Belief(counts, shrinking, 0.1)
    for _ in range(6):
        counts.add(0, int(mdp.space.actions(0)[0]), 0.5, 1)
        assert_same_set(belief.plausible(), shrinking(counts, 0.1))


def fill(kernel, kind, counts, todo, seen, boxes, rows):
    """Call the kernel on counts as they are stored."""
    S, K = counts.space.n_states, counts.n_rows
    numbers = {
        intervals.SIMPLIFIED: S * counts.space.n_actions * counts.stages,
        intervals.BERNSTEIN: (S + 1) * K,
        intervals.LIKELIHOOD: (S + 1) * K,
    }
    share = intervals.Share(kind, numbers[kind], 0.1)
    sums = intervals.Sums(counts.visits, counts.reward_sum, counts.reward_square)
    given = (tuple(share), counts.space.n_states, counts.space.r_max, tuple(sums), tuple(counts.pool))
    return kernel(*given, todo, seen, tuple(boxes), tuple(rows))


@both(intervals.fill_rows)
@pytest.mark.parametrize("kind", [intervals.SIMPLIFIED, intervals.BERNSTEIN, intervals.LIKELIHOOD])
def test_fill_rows_makes_only_what_is_asked_and_has_changed(kernel, kind):
    confident = {number: function for function, number in confidence.KINDS.items()}[kind]
    mdp, rng = some_dynamics(6, 4, 2, 2, True), np.random.default_rng(0)
    counts = sampled(mdp, 60, rng)
    K, size = counts.n_rows, counts.pool.state.size
    places = (np.full(K, -1), np.full(K, -1), np.full(size, -1))
    per_row = (np.full(K, np.nan), np.full(K, np.nan), np.full(K, -1.0))
    rows = row_kernels.Rows(*places, np.full(size, np.nan), np.full(size, np.nan), *per_row)
    nothing = (np.full(size, -1), np.full(size, np.nan), np.full(size, np.nan))
    boxes = intervals.Boxes(np.full(K, np.nan), np.full(K, np.nan), *nothing)
    seen = np.full(K, -1)
    assert fill(kernel, kind, counts, np.arange(K), seen, boxes, rows) == K and np.array_equal(seen, counts.visits)
    assert fill(kernel, kind, counts, np.arange(K), seen, boxes, rows) == 0
    some = np.flatnonzero(counts.visits)[:2]
    counts.add_steps(some, np.array([0.5, 0.25]), np.array([0, 1]))
    boxes.r_lower[:] = -7.0  # must not be touched but for those that changed
    assert fill(kernel, kind, counts, np.array([some[1], some[1]]), seen, boxes, rows) == 1
    assert boxes.r_lower[some[0]] == -7.0 != boxes.r_lower[some[1]]
    assert fill(kernel, kind, counts, some, seen, boxes, rows) == 1
    fresh = confident(counts, 0.1)
    assert np.array_equal(boxes.r_lower[some], fresh.r_lower[some]) and np.array_equal(boxes.r_upper, fresh.r_upper)
    for k in range(K):
        assert stored(rows, k) == stored(fresh.rows, k)
        if rows.last[k] - rows.first[k] == mdp.space.n_states:
            assert np.array_equal(rows.next_state[rows.first[k] : rows.last[k]], np.arange(mdp.space.n_states))
        assert rows.slack[k] == pytest.approx(fresh.rows.slack[k], abs=1e-15)
        at, own = slice(rows.first[k], rows.last[k]), slice(fresh.next_ptr[k], fresh.next_ptr[k + 1])
        for name in ("next_state", "p_lower", "p_upper"):
            assert np.array_equal(getattr(boxes, name)[at], getattr(fresh, name)[own])
    assert np.array_equal(rows.unseen, fresh.unseen)


def test_counts_remember_the_pairs_of_the_last_steps():
    counts, rng = Counts(Space.full(5, 2)), np.random.default_rng(4)
    everything = np.zeros(0, dtype=np.int64)
    for size in (0, 1, 7, 4_000, 96, 1, 5_000, 3, 4_096, 2, 4_095):
        pairs = rng.integers(10, size=size)
        counts.add_steps(pairs, np.full(size, 0.5), rng.integers(5, size=size))
        everything = np.append(everything, pairs)
        for back in (0, 1, 2, 50, 4_096, 4_097):
            found = counts.pairs_since(max(counts.added - back, 0))
            if min(back, counts.added) > 4_096:
                assert found is None
            else:
                assert np.array_equal(found, everything[len(everything) - min(back, counts.added) :])


def test_a_following_set_survives_long_stretches_and_new_memory():
    mdp = some_dynamics(3, 40, 2, 1, False)
    counts, rng = Counts(mdp.space), np.random.default_rng(1)
    belief = Belief(counts, confidence.bernstein, 0.1)
    for size in (3, 5_000, 1, 200, 9_000, 2):
        counts.add_steps(rng.integers(mdp.space.n_pairs, size=size), rng.random(size), rng.integers(40, size=size))
        before = belief.plausible().compact()
        held, fresh = belief.plausible(), confidence.bernstein(counts, 0.1)
        assert_same_set(held, fresh)
        then = np.array(held.p_upper)
        counts.add_steps(rng.integers(mdp.space.n_pairs, size=3), rng.random(3), rng.integers(40, size=3))
        assert np.array_equal(held.p_upper, then)  # until it follows, it is the set of what it has seen
        belief.plausible()
        now = belief.plausible()
        assert before.next_state.size <= now.next_state.size and before.r_lower is not now.r_lower
        assert_same_set(now, confidence.bernstein(counts, 0.1))


def test_policies_as_the_kernels_take_them():
    space = Space.from_available(np.array([[True, True], [False, True], [True, True]]))
    for policy in some_policies(space, 3, 0):
        pair, weights = policy.stages(3)
        array = pair if policy.is_deterministic else weights
        empty = weights if policy.is_deterministic else pair
        assert empty.size == 0 and len(empty) == 0
        assert array.shape == (policy.horizon or 1, space.n_states if policy.is_deterministic else space.n_pairs)
        for h in range(3):
            row = array[min(h, len(array) - 1)]
            mine = np.isin(np.arange(space.n_pairs), row).astype(float) if policy.is_deterministic else row
            assert np.array_equal(mine, policy.rule(h).dense_weights)
        if policy.horizon:
            with pytest.raises(InvalidInput, match="3 decision rules for 2 stages"):
                policy.stages(2)
        else:
            assert policy.stages(7)[not policy.is_deterministic].shape == array.shape


def test_pairs_known_to_be_right_make_the_same_policy():
    space = Space.full(3, 2)
    for pair in (np.array([0, 3, 4]), np.array([[0, 3, 4], [1, 2, 5]])):
        quick, checked = Policy._of_pairs(space, pair), Policy(space, pair=pair)
        assert quick == checked and hash(quick) == hash(checked) and quick.key == checked.key
        assert quick.horizon == checked.horizon and np.array_equal(quick.actions, checked.actions)
        assert quick.pair is not pair
        with pytest.raises(ValueError):
            quick.pair[0] = 1
        pair[...] = 0
        assert quick == checked
        assert quick.dense_weights == pytest.approx(checked.dense_weights)


def test_keys_tell_policies_apart_as_equality_does():
    space = Space.full(2, 2)
    stay, pair = np.array([0, 2]), np.array([[0, 2], [1, 3]])
    policies = [
        Policy(space, pair=stay),
        Policy(space, pair=stay[None]),
        Policy(space, pair=np.stack([stay, stay])),
        Policy(space, pair=pair),
        Policy(space, pair=pair[::-1]),
        Policy(space, weights=np.array([1.0, 0.0, 1.0, -0.0])),
        Policy(space, weights=np.array([0.5, 0.5, 1.0, 0.0])),
        Policy(space, weights=np.array([[0.5, 0.5, 1.0, 0.0]])),
        Policy(space, weights=np.array([[0.5, 0.5, 1.0, 0.0]] * 2)),
        Policy.uniform(space),
    ]
    for a, b in itertools.product(policies, repeat=2):
        assert (a.key == b.key) == (a == b)
    assert len({policy.key for policy in policies}) == len(policies) - 1  # one was written in two ways


@pytest.mark.parametrize("near", [5e-324, 1e-300, 1e-17, 1e-16, 1e-13])
def test_rewards_within_rounding_of_their_ends_have_an_interval(near):
    for rewards in ([near], [near, 0.0, 0.0], [1 - near] * 3, [1.0, 1.0, 1.0 - near], [1.0, near]):
        counts = Counts(Space.full(1, 1))
        for reward in rewards:
            counts.add(0, 0, reward, 0)
        for confident in CONFIDENCES:
            known, mean = confident(counts, 0.05), sum(rewards) / len(rewards)
            assert 0 <= known.r_lower[0] <= mean + 1e-15 and mean - 1e-15 <= known.r_upper[0] <= 1
