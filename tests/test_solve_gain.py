"""Gain and bias of a policy, and the optimal gain: books, fractions, linear programs, properties, large tables."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from surefooted.errors import InvalidInput, NoSingleGain, NotConverged
from surefooted.problems import garnet, gridworld, riverswim
from surefooted.solve import gain, gain_and_bias, optimal_gain, stationary_distribution, systems
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.space import Space

every_kind = pytest.mark.parametrize("kind", oracles.KINDS)
examples = settings(max_examples=60, deadline=None, derandomize=True)
tables = given(kind=st.sampled_from(oracles.KINDS), seed=st.integers(0, 10_000))


@pytest.fixture
def by_lu(monkeypatch):
    """Send every block, however small, to sparse LU."""
    monkeypatch.setattr(systems, "SMALL", 0)
    monkeypatch.setattr(systems, "SHORT", -1)
    monkeypatch.setattr(systems, "PLANAR", np.inf)


@pytest.fixture
def by_sweeps(monkeypatch):
    """Sweep over every block, however small; those that mix too slowly go to sparse LU."""
    monkeypatch.setattr(systems, "SMALL", 0)
    monkeypatch.setattr(systems, "SHORT", -1)
    monkeypatch.setattr(systems, "PLANAR", -1)


@pytest.fixture
def by_sweeps_alone(by_sweeps, monkeypatch):
    """Sweep over every block, and never turn to sparse LU."""
    monkeypatch.setattr(systems, "WIDEST", -1)


def some_actions(available, seed):
    rng = np.random.default_rng(seed)
    return [int(rng.choice(np.flatnonzero(row))) for row in available]


def some_weights(available, seed):
    weights = np.random.default_rng(seed).random(available.shape) * available
    return weights / weights.sum(axis=1, keepdims=True)


def close_to(exact, relative):
    """An approximation whose error is small beside the largest entry, or beside 1."""
    return pytest.approx(exact, rel=0, abs=relative * max(1.0, np.abs(exact).max()))


# Howard (1960): the toymaker (pp. 19, 41) and the taxicab (pp. 45-48)


def in_own_units(mdp, solved):
    """Gain, and bias relative to the last state, in the units in which the rewards were given."""
    return solved.gain, solved.bias - solved.bias[-1]


def toymaker():
    p = np.array([[[0.5, 0.5], [0.8, 0.2]], [[0.4, 0.6], [0.7, 0.3]]])
    return TabularMDP.from_arrays(p, [[6, 4], [-3, -5]], rewards=(-5, 6))


def taxicab():
    rows = {
        (0, 0): ([1 / 2, 1 / 4, 1 / 4], [10, 4, 8]),
        (0, 1): ([1 / 16, 3 / 4, 3 / 16], [8, 2, 4]),
        (0, 2): ([1 / 4, 1 / 8, 5 / 8], [4, 6, 4]),
        (1, 0): ([1 / 2, 0, 1 / 2], [14, 0, 18]),
        (1, 1): ([1 / 16, 7 / 8, 1 / 16], [8, 16, 8]),
        (2, 0): ([1 / 4, 1 / 4, 1 / 2], [10, 2, 8]),
        (2, 1): ([1 / 8, 3 / 4, 1 / 8], [6, 4, 2]),
        (2, 2): ([3 / 4, 1 / 16, 3 / 16], [4, 0, 8]),
    }
    entries = [(s, a, y, p[y], r[y]) for (s, a), (p, r) in rows.items() for y in range(3) if p[y]]
    return TabularMDP.from_transitions(*zip(*entries, strict=True), rewards=(0, 18))


@pytest.mark.parametrize(
    "problem, actions, gain, values",
    [
        (toymaker, [0, 0], 1, [10, 0]),
        (toymaker, [1, 1], 2, [10, 0]),
        (taxicab, [0, 0, 0], 9.2, [1.33, 7.47, 0]),
        (taxicab, [0, 1, 1], 13.15, [-3.88, 12.85, 0]),
        (taxicab, [1, 1, 1], 13.34, [-1.18, 12.66, 0]),
    ],
)
def test_howards_printed_gains_and_relative_values(problem, actions, gain, values):
    mdp = problem()
    found = in_own_units(mdp, gain_and_bias(mdp, Policy.deterministic(mdp.space, actions)))
    assert found[0] == pytest.approx(gain, abs=0.005)
    assert found[1] == pytest.approx(values, abs=0.005)


@pytest.mark.parametrize("problem, gain, values", [(toymaker, 2, [10, 0]), (taxicab, 13.34, [-1.18, 12.66, 0])])
def test_howards_optimal_policies(problem, gain, values):
    mdp = problem()
    found = optimal_gain(mdp)
    assert found.policy == Policy.always(mdp.space, 1)
    assert in_own_units(mdp, found)[0] == pytest.approx(gain, abs=0.005)
    assert in_own_units(mdp, found)[1] == pytest.approx(values, abs=0.005)


def test_putermans_two_state_example():
    """Puterman (1994), Fig. 3.1.1: every policy has gain -1, the bias tells them apart."""
    pairs = {(0, 0): (5, {0: 0.5, 1: 0.5}), (0, 1): (10, {1: 1}), (1, 0): (-1, {1: 1})}
    mdp = TabularMDP.from_pairs(pairs, rewards=(-1, 10))
    for action, bias in ((0, 12), (1, 11)):
        found = in_own_units(mdp, gain_and_bias(mdp, Policy.deterministic(mdp.space, [action, 0])))
        assert found[0] == pytest.approx(-1) and found[1] == pytest.approx([bias, 0])
    found = optimal_gain(mdp)
    assert found.policy.actions.tolist() == [0, 0]
    assert in_own_units(mdp, found)[1] == pytest.approx([12, 0])


@pytest.mark.parametrize("there, back", [(0.3, 0.5), (1.0, 1.0), (1e-3, 0.9), (1e-9, 2e-9), (1e-12, 1e-12)])
def test_two_states_in_closed_form(there, back):
    mdp = TabularMDP.from_arrays([[[1 - there, there]], [[back, 1 - back]]], [[0.25], [1.0]])
    found = gain_and_bias(mdp, Policy.always(mdp.space, 0))
    sum_ = there + back
    assert found.gain == pytest.approx((0.25 * back + 1.0 * there) / sum_, rel=1e-14)
    assert found.bias == pytest.approx([-0.75 * there / sum_**2, 0.75 * back / sum_**2], rel=1e-12)
    assert found.span == pytest.approx(0.75 / sum_, rel=1e-12)


# a policy's gain and bias


@every_kind
@pytest.mark.parametrize("seed", range(25))
def test_gain_and_bias_are_those_of_the_limiting_and_deviation_matrices(kind, seed):
    p, r, available = oracles.random_mdp(kind, seed)
    mdp = TabularMDP.from_arrays(p, r, available)
    if seed % 2:
        actions = some_actions(available, seed)
        policy, (q, reward) = Policy.deterministic(mdp.space, actions), oracles.chain_of(p, r, actions)
    else:
        weights = some_weights(available, seed)
        padded = weights[:, : mdp.space.n_actions]
        policy, (q, reward) = Policy.randomised(mdp.space, padded), oracles.mixed_chain(p, r, weights)
    gains, bias = oracles.exact_gain_and_bias(q, reward)
    found = gain_and_bias(mdp, policy)
    assert found.gains == pytest.approx(gains, abs=1e-13)
    assert found.bias == close_to(bias, 1e-12)
    assert sorted(tuple(c.tolist()) for c in found.classes) == oracles.recurrent_classes(q)
    assert found.gains + found.bias == close_to(reward + q @ found.bias, 1e-12)  # Poisson's equation
    mean = oracles.limiting_matrix(oracles.exact(q)).astype(float) @ found.bias
    assert np.abs(mean).max() <= 1e-12 * max(1.0, np.abs(bias).max())


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("eps", [1e-3, 1e-6, 1e-9, 1e-12])
def test_equal_rewards_give_bias_zero_however_slowly_the_chain_mixes(eps, seed):
    p, _, _ = two_clusters(eps, seed)
    mdp = TabularMDP.from_arrays(p, np.full((4, 2), 0.3))
    found = gain_and_bias(mdp, Policy.deterministic(mdp.space, [0, 1, 0, 1]))
    assert found.gain == pytest.approx(0.3, abs=1e-15)
    assert np.abs(found.bias).max() <= 1e-9


def riverswim_gain(n):
    """The gain of swimming right, by detailed balance from the right bank, whose reward is the only one."""
    weights = [1.0, 0.4 / 0.35]
    while len(weights) < n - 1:
        weights.append(weights[-1] * 0.05 / 0.35)
    weights.append(weights[-1] * 0.05 / 0.60)
    return 1 / sum(weights)


@pytest.mark.parametrize("n", [6, 10, 14, 20, 30, 50, 200, 400])
def test_swimming_right_solves_poissons_equation_though_the_left_bank_is_hardly_ever_seen(n):
    mdp = riverswim(n).mdp
    p, r, _ = mdp.to_arrays()
    found = gain_and_bias(mdp, Policy.always(mdp.space, 1))
    assert found.gain == pytest.approx(riverswim_gain(n), rel=1e-13)
    assert found.gains + found.bias == close_to(r[:, 1] + p[:, 1] @ found.bias, 1e-11)
    assert np.all(np.diff(found.bias) > 0)


def test_several_recurrent_classes_have_their_own_gains_and_no_single_one():
    rows = {(0, 0): (0.2, {0: 1}), (1, 0): (0.8, {1: 1}), (2, 0): (0.5, {0: 0.25, 1: 0.75})}
    mdp = TabularMDP.from_pairs(rows)
    found = gain_and_bias(mdp, Policy.always(mdp.space, 0))
    assert found.gains == pytest.approx([0.2, 0.8, 0.65])
    assert found.bias == pytest.approx([0, 0, -0.15])
    with pytest.raises(NoSingleGain, match=r"depends on the state: 0\.2 from state 0, 0\.8 from state 1.*2 recurrent"):
        _ = found.gain
    with pytest.raises(NoSingleGain, match="depends on the state"):
        _ = optimal_gain(mdp).gain
    assert (optimal_gain(mdp).lower, optimal_gain(mdp).upper) == pytest.approx((0.2, 0.8))


def test_several_recurrent_classes_with_one_gain_have_a_single_one():
    mdp = TabularMDP.from_pairs({(0, 0): (0.5, {0: 1}), (1, 0): (0.5, {1: 1})})
    assert gain_and_bias(mdp, Policy.always(mdp.space, 0)).gain == 0.5
    assert optimal_gain(mdp).gain == 0.5


@tables
@examples
def test_names_of_states_and_actions_do_not_matter(kind, seed):
    p, r, available = oracles.random_mdp(kind, seed)
    rng = np.random.default_rng(seed)
    state, action = rng.permutation(p.shape[0]), rng.permutation(p.shape[1])
    mdp = TabularMDP.from_arrays(p, r, available)
    renamed = np.ix_(state, action)
    other = TabularMDP.from_arrays(p[np.ix_(state, action, state)], r[renamed], available[renamed])
    weights = some_weights(available, seed)
    one = gain_and_bias(mdp, Policy.randomised(mdp.space, weights[:, : mdp.space.n_actions]))
    two = gain_and_bias(other, Policy.randomised(other.space, weights[renamed][:, : other.space.n_actions]))
    assert two.gains == pytest.approx(one.gains[state], abs=1e-12)
    assert two.bias == close_to(one.bias[state], 1e-9)
    assert optimal_gain(other).gains == pytest.approx(optimal_gain(mdp).gains[state], abs=1e-9)


@tables
@examples
def test_gains_and_biases_follow_affine_changes_of_the_reward(kind, seed):
    p, r, available = oracles.random_mdp(kind, seed)
    mdp, other = (TabularMDP.from_arrays(p, a + b * r, available, r_max=a + b) for a, b in ((0, 1), (2, 3)))
    actions = some_actions(available, seed)
    one, two = (gain_and_bias(m, Policy.deterministic(m.space, actions)) for m in (mdp, other))
    assert two.gains == pytest.approx(2 + 3 * one.gains, abs=1e-12)
    assert two.bias == close_to(3 * one.bias, 1e-6)
    assert optimal_gain(other).gains == pytest.approx(2 + 3 * optimal_gain(mdp).gains, abs=1e-8)


@every_kind
@pytest.mark.parametrize("seed", range(4))
def test_stationary_distribution_is_a_row_of_the_limiting_matrix(kind, seed):
    p, r, available = oracles.random_mdp(kind, seed)
    mdp, actions = TabularMDP.from_arrays(p, r, available), some_actions(available, seed)
    policy = Policy.deterministic(mdp.space, actions)
    limit = oracles.limiting_matrix(oracles.exact(oracles.chain_of(p, r, actions)[0])).astype(float)
    for s in range(len(p)):
        assert stationary_distribution(mdp, policy, start=s) == pytest.approx(limit[s], abs=1e-13)
    if len(gain_and_bias(mdp, policy).classes) == 1:
        assert stationary_distribution(mdp, policy) == pytest.approx(limit[0], abs=1e-13)
    else:
        with pytest.raises(NoSingleGain, match="give `start`"):
            stationary_distribution(mdp, policy)


def test_stationary_distribution_does_not_depend_on_the_rewards(by_sweeps_alone):
    p, r, _ = garnet(20, 2, 3, seed=1).mdp.to_arrays()
    small, large = TabularMDP.from_arrays(p, r), TabularMDP.from_arrays(p, 1e6 * r, r_max=1e6)
    exact = oracles.stationary(p[:, 0])
    for mdp in (small, large):
        assert stationary_distribution(mdp, Policy.always(mdp.space, 0)) == pytest.approx(exact, abs=1e-11)


# the optimal gain


@every_kind
@pytest.mark.parametrize("seed", range(25))
def test_optimal_gain_is_that_of_the_linear_program_and_of_the_best_policy(kind, seed):
    p, r, available = oracles.random_mdp(kind, seed)
    mdp = TabularMDP.from_arrays(p, r, available)
    ill = kind in ("slow", "near absorbing")
    best = oracles.best_gain_by_enumeration(p, r, available, exactly=ill)
    found = optimal_gain(mdp)
    assert found.gains == pytest.approx(best, abs=1e-9)
    if kind != "slow":  # a solver with tolerance 1e-7 does not see probabilities of 1e-9
        assert found.gains == pytest.approx(oracles.best_gain_by_linear_program(p, r, available), abs=1e-6)
    attained, _ = oracles.exact_gain_and_bias(*oracles.chain_of(p, r, found.policy.actions))
    assert attained == pytest.approx(best, abs=1e-9)
    if np.ptp(best) <= 1e-12:
        assert found.lower - 1e-12 <= best.min() and best.max() <= found.upper + 1e-12
        assert ill or found.upper - found.lower <= 1e-9
        assert found.gain == pytest.approx(best[0], abs=1e-9)
    else:
        assert (found.lower, found.upper) == pytest.approx((best.min(), best.max()), abs=1e-9)


@tables
@examples
def test_no_policy_gains_more_than_the_optimal_one(kind, seed):
    p, r, available = oracles.random_mdp(kind, seed)
    mdp = TabularMDP.from_arrays(p, r, available)
    best = optimal_gain(mdp)
    policy = Policy.randomised(mdp.space, some_weights(available, seed)[:, : mdp.space.n_actions])
    assert np.all(gain_and_bias(mdp, policy).gains <= best.gains + 1e-9)
    assert np.all(gain_and_bias(mdp, policy).gains <= best.upper + 1e-9)
    assert gain_and_bias(mdp, best.policy).gains == pytest.approx(best.gains, abs=1e-9)


def two_clusters(eps, seed, rewards="any"):
    """Four states in two pairs that are left with probability eps, two actions each."""
    rng = np.random.default_rng(seed)
    p = np.zeros((4, 2, 4))
    for s, a in np.ndindex(4, 2):
        home, away = ([0, 1], [2, 3]) if s < 2 else ([2, 3], [0, 1])
        p[s, a, home] = (1 - eps) * rng.dirichlet(np.ones(2))
        p[s, a, rng.choice(away)] = eps
    r = {
        "any": rng.random((4, 2)),
        "equal": np.full((4, 2), 0.3),
        "nearly equal": 0.3 + 1e-6 * rng.integers(-1, 2, (4, 2)),
        "far apart": np.where(np.arange(4) < 2, 0.9, 0.1)[:, None] + 1e-6 * rng.random((4, 2)),
    }
    return p, r[rewards], np.ones((4, 2), dtype=bool)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rewards", ["any", "equal", "nearly equal", "far apart"])
@pytest.mark.parametrize("eps", [1e-6, 1e-9, 1e-12])
def test_optimal_gain_of_clusters_that_are_hardly_ever_left(eps, rewards, seed, monkeypatch):
    monkeypatch.setattr(gain, "IMPROVEMENTS", 500)
    p, r, available = two_clusters(eps, seed, rewards)
    best = oracles.best_gain_by_enumeration(p, r, available, exactly=True)[0]
    found = optimal_gain(TabularMDP.from_arrays(p, r))
    assert found.gain == pytest.approx(best, abs=1e-9)
    attained, _ = oracles.exact_gain_and_bias(*oracles.chain_of(p, r, found.policy.actions))
    assert attained == pytest.approx(best, abs=1e-9)
    assert found.lower - 1e-12 <= best <= found.upper + 1e-12


@pytest.mark.parametrize("eps", [1e-3, 1e-6, 1e-8, 1e-9, 1e-10, 1e-12])
@pytest.mark.parametrize("worse", [0.1, 0.95, 0.999])
def test_optimal_gain_waits_for_an_exit_however_rare(eps, worse):
    """Staying earns `worse` for ever; the exit to 1 opens with probability eps. Nobody is in a hurry: g* = 1."""
    rows = {(0, 0): (worse, {0: 1}), (0, 1): (0, {0: 1 - eps, 1: eps}), (1, 0): (1, {1: 1}), (1, 1): (0, {0: 1})}
    found = optimal_gain(TabularMDP.from_pairs(rows))
    assert found.gains == pytest.approx([1, 1], abs=1e-9)
    assert found.policy.actions.tolist() == [1, 0]


@every_kind
@pytest.mark.parametrize("accuracy", [0.3, 1e-2, 1e-4, 1e-7, 1e-11])
def test_bounds_on_the_optimal_gain_hold_and_are_as_close_as_asked_and_so_is_the_policy(kind, accuracy):
    for seed in range(10):
        p, r, available = oracles.random_mdp(kind, seed)
        scale = 10.0 ** (seed % 7 - 3)
        mdp = TabularMDP.from_arrays(p, scale * r, available, r_max=scale)
        ill = kind in ("slow", "near absorbing")
        best = scale * oracles.best_gain_by_enumeration(p, r, available, exactly=ill)
        found = optimal_gain(mdp, accuracy)
        if np.ptp(best) > 1e-12 * scale:
            continue
        assert found.lower - 1e-12 * scale <= best.min() and best.max() <= found.upper + 1e-12 * scale
        close = max(accuracy, 1e-9 if ill else 1e-13) * scale
        assert found.upper - found.lower <= close
        assert found.gain == pytest.approx(best.max(), abs=close)
        attained, _ = oracles.exact_gain_and_bias(*oracles.chain_of(p, scale * r, found.policy.actions))
        assert attained == pytest.approx(best, abs=close)  # from every state


def test_the_bias_solves_the_optimality_equation_where_the_greedy_policy_has_classes_of_equal_gain():
    misled = 0
    for seed in (614, 1172, 1177, *range(300)):
        rng = np.random.default_rng(seed)
        n, m = int(rng.integers(2, 7)), int(rng.integers(2, 4))
        p, r = np.zeros((n, m, n)), np.zeros((n, m))
        for s, a in np.ndindex(n, m):
            p[s, a] = np.mean([np.eye(n)[rng.integers(n)] for _ in range(2 - seed % 2)], axis=0)
            r[s, a] = rng.integers(0, 5) / 4
        mdp = TabularMDP.from_arrays(p, r)
        found = optimal_gain(mdp)
        if found.upper - found.lower > 1e-9:
            continue
        change = (r + p @ found.bias).max(axis=1) - found.bias
        assert np.ptp(change) <= 1e-8 and change.mean() == pytest.approx(found.gain, abs=1e-8)
        own = gain_and_bias(mdp, found.policy).bias
        misled += np.ptp((r + p @ own).max(axis=1) - own) > 1e-8
    assert misled > 0  # the policy's own bias would not always do


@pytest.mark.slow
def test_bounds_on_the_gain_of_long_rows_allow_for_the_rounding_of_their_sums():
    """All but state 0 pay 1 and are alike: two lumps, whose gain is known. Sums of 1 990 equal terms are 4e-14 off."""
    n, p = 1_990, 0.2
    rows = np.vstack([np.r_[1 - p, np.full(n, p / n)], np.tile(np.r_[p, np.full(n, (1 - p) / n)], (n, 1))])
    ptr, state = np.arange(n + 2) * (n + 1), np.tile(np.arange(n + 1), n + 1)
    mdp = TabularMDP(Space.full(n + 1, 1), ptr, state, rows.ravel(), np.r_[0.0, np.ones(n)])
    out, back = (Fraction(mdp.p[i]) for i in (1, n + 1))
    stay, kept = Fraction(mdp.p[0]), n * Fraction(mdp.p[n + 2])
    up, down = n * out / (stay + n * out), back / (back + kept)
    gain = up / (up + down)
    found = optimal_gain(mdp, 1e-12)
    assert Fraction(found.lower) <= gain <= Fraction(found.upper)


def test_a_policy_is_evaluated_when_its_bias_is_asked_for():
    mdp = garnet(60, 3, 5, seed=2).mdp
    found = optimal_gain(mdp, 1e-6)
    assert "evaluation" not in vars(found) and 0 < found.upper - found.lower <= 1e-6
    played = gain_and_bias(mdp, found.policy)
    assert found.gain == pytest.approx(played.gain, abs=1e-12) and "evaluation" in vars(found)
    assert found.bias == pytest.approx(played.bias, abs=1e-9) and found.span == pytest.approx(played.span, abs=1e-9)


@pytest.mark.parametrize("n", [6, 12, 20, 30, 50, 200, 400, 800])
def test_optimal_gain_of_long_rivers(n):
    found = optimal_gain(riverswim(n).mdp)
    assert found.gain == pytest.approx(riverswim_gain(n), abs=1e-9)
    assert found.policy.actions.tolist() == [1] * n
    assert found.lower - 1e-12 <= riverswim_gain(n) <= found.upper + 1e-12
    assert found.upper - found.lower <= 1e-9


@pytest.mark.parametrize("slip", [0.0, 0.2])
def test_optimal_gain_of_a_grid_with_a_thousand_cells_is_that_of_its_goal(slip):
    grid = "S" + "." * 31 + "\n" + ("." * 32 + "\n") * 30 + "." * 31 + "G"
    mdp = gridworld(grid, slip=slip, horizon=None).mdp
    found = optimal_gain(mdp)
    assert found.gain == pytest.approx(1, abs=1e-9)
    assert np.argmax(found.bias) == mdp.n_states - 1


@pytest.mark.parametrize("accuracy", [1e-6, 1e-9])
def test_optimal_gain_of_ten_thousand_states(accuracy):
    mdp = garnet(10_000, 4, 10, seed=3).mdp
    found = optimal_gain(mdp, accuracy)
    rows, ptr = oracles.sparse_rows(mdp), mdp.space.pair_ptr
    lower, upper = oracles.gain_bounds_by_value_iteration(rows, mdp.r, ptr, 1e-8)
    assert found.upper - found.lower <= accuracy
    assert lower <= found.upper and found.lower <= upper
    assert lower - accuracy <= found.gain <= upper + accuracy
    played = found.policy.pair
    lower, upper = oracles.gain_bounds_by_value_iteration(rows[played], mdp.r[played], np.arange(10_001), 1e-8)
    assert lower - accuracy <= found.gain <= upper + accuracy


# how large blocks are solved, in small


@every_kind
@pytest.mark.parametrize("seed", range(6))
def test_sweeps_agree_with_fractions(kind, seed, by_sweeps):
    p, r, available = oracles.random_mdp(kind, seed)
    mdp, actions = TabularMDP.from_arrays(p, r, available), some_actions(available, seed)
    found = gain_and_bias(mdp, Policy.deterministic(mdp.space, actions))
    gains, bias = oracles.exact_gain_and_bias(*oracles.chain_of(p, r, actions))
    assert found.accuracy <= 1e-9
    assert found.gains == pytest.approx(gains, abs=1e-9)
    assert found.bias == close_to(bias, 1e-7)
    best = oracles.best_gain_by_enumeration(p, r, available, exactly=kind in ("slow", "near absorbing"))
    assert optimal_gain(mdp).gains == pytest.approx(best, abs=1e-9)


@every_kind
@pytest.mark.parametrize("seed", range(25))
def test_sparse_lu_agrees_with_fractions(kind, seed, by_lu):
    p, r, available = oracles.random_mdp(kind, seed)
    mdp, actions = TabularMDP.from_arrays(p, r, available), some_actions(available, seed)
    policy = Policy.deterministic(mdp.space, actions)
    found = gain_and_bias(mdp, policy)
    gains, bias = oracles.exact_gain_and_bias(*oracles.chain_of(p, r, actions))
    assert found.accuracy == 0.0
    assert found.gains == pytest.approx(gains, abs=1e-13)
    assert found.bias == close_to(bias, 1e-12)
    limit = oracles.limiting_matrix(oracles.exact(oracles.chain_of(p, r, actions)[0])).astype(float)
    assert stationary_distribution(mdp, policy, start=0) == pytest.approx(limit[0], abs=1e-13)


@pytest.mark.slow
def test_a_class_of_many_states_in_line_is_solved_exactly_however_slowly_it_mixes():
    n, up = 20_000, 0.4999  # a queue that is empty half of the time only by a hair: iteration takes some 1e7 sweeps
    rows = {(s, 0): (s / n, {max(s - 1, 0): 1 - up, min(s + 1, n - 1): up}) for s in range(n)}
    mdp = TabularMDP.from_pairs(rows)
    policy = Policy.always(mdp.space, 0)
    share = np.exp(np.arange(n) * np.log(up / (1 - up)))
    share /= share.sum()
    found = gain_and_bias(mdp, policy)
    assert found.accuracy == 0.0 and found.gain == pytest.approx(share @ mdp.r, rel=1e-11)
    assert stationary_distribution(mdp, policy) == pytest.approx(share, rel=1e-9)
    residual = mdp.r - found.gain + oracles.sparse_rows(mdp) @ found.bias - found.bias
    assert np.abs(residual).max() <= 1e-14 * found.span


def test_a_line_that_doubles_cannot_solve_is_iterated():
    n, rare = 700, 1e-160
    rows = {(s, 0): (float(s == 0), {max(s - 1, 0): 1 - rare, s + 1: rare}) for s in range(n - 1)}
    rows[n - 1, 0] = (0.0, {n - 2: 1.0})
    mdp = TabularMDP.from_pairs(rows)
    found = gain_and_bias(mdp, Policy.always(mdp.space, 0))
    assert found.gain == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_sweeps_that_are_slow_fall_back_to_sparse_lu(seed, by_sweeps, monkeypatch):
    monkeypatch.setattr(systems, "FEW_SWEEPS", 3)
    p, r, available = oracles.random_mdp("multichain", seed, n_states=5)
    mdp, actions = TabularMDP.from_arrays(p, r, available), some_actions(available, seed)
    found = gain_and_bias(mdp, Policy.deterministic(mdp.space, actions))
    gains, bias = oracles.exact_gain_and_bias(*oracles.chain_of(p, r, actions))
    assert found.gains == pytest.approx(gains, abs=1e-13) and found.bias == close_to(bias, 1e-12)


@pytest.mark.parametrize(
    "rows, message",
    [
        (
            {(0, 0): (0, {0: 0.8, 1: 0.2}), (1, 0): (0, {0: 0.1, 2: 0.9}), (2, 0): (1, {0: 0.1, 2: 0.9})},
            "2 states: some states are left so rarely",
        ),
        (
            {(0, 0): (1, {0: 0.8, 1: 0.1, 2: 0.1}), (1, 0): (0, {0: 0.5, 1: 0.5}), (2, 0): (0, {2: 1})},
            "2 states: some states are left so rarely",
        ),
    ],
)
def test_what_neither_sweeps_nor_lu_can_solve_says_so(rows, message, by_sweeps_alone, monkeypatch):
    monkeypatch.setattr(systems, "FEW_SWEEPS", 3)
    monkeypatch.setattr(systems, "MANY_SWEEPS", 3)
    mdp = TabularMDP.from_pairs(rows)
    with pytest.raises(NotConverged, match=message):
        gain_and_bias(mdp, Policy.always(mdp.space, 0))


@pytest.mark.parametrize("accuracy", [1e-2, 1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("leak", [0.3, 3e-2, 1e-4, 1e-7, 1e-13])
def test_transient_gains_are_as_accurate_as_asked_for_however_slowly_they_leak(leak, accuracy, by_sweeps, monkeypatch):
    monkeypatch.setattr(gain, "IMPROVEMENTS", 100)
    rows = {
        (0, 0): (0, {0: 0.5, 1: 0.5}),
        (1, 0): (0, {0: 1 - leak, 2: leak / 2, 3: leak / 2}),
        (2, 0): (1, {2: 1}),
        (3, 0): (0.5, {3: 1}),
    }
    mdp = TabularMDP.from_pairs(rows)
    found = gain_and_bias(mdp, Policy.always(mdp.space, 0), accuracy)
    assert found.gains == pytest.approx([0.75, 0.75, 1, 0.5], abs=accuracy)
    assert found.gains == pytest.approx([0.75, 0.75, 1, 0.5], abs=found.accuracy + 1e-13)  # and it says how accurate
    assert optimal_gain(mdp, accuracy).gains == pytest.approx([0.75, 0.75, 1, 0.5], abs=accuracy)


def test_seven_hundred_transient_states_with_one_rare_exit_end_where_it_leads():
    n = 700
    rows = {(s, 0): (0.0, {(s + 1) % n: 0.5, (7 * s + 3) % n: 0.5}) for s in range(n)}
    rows[0, 0] = (0.0, {1: 1 - 1e-10, n: 1e-10})
    rows |= {(n, 0): (1.0, {n: 1}), (n + 1, 0): (0.0, {n + 1: 1})}
    mdp = TabularMDP.from_pairs({pair: (r, _added(row)) for pair, (r, row) in rows.items()})
    found = gain_and_bias(mdp, Policy.always(mdp.space, 0))
    assert found.gains == pytest.approx([1.0] * (n + 1) + [0.0], abs=1e-9)


def _added(row):
    """A row whose halves fell on one successor."""
    return row if len(row) > 1 or sum(row.values()) == 1 else dict.fromkeys(row, 1.0)


# what is refused


def test_what_takes_longer_than_a_double_can_say_is_an_error_with_a_name():
    slow = {(0, 0): (0, {0: 1}), (0, 1): (0, {0: 1 - 1e-200, 1: 1e-200}), (1, 0): (1, {1: 1})}
    mdp = TabularMDP.from_pairs(slow)
    with pytest.raises(NotConverged, match="beyond the range of doubles"):  # the exit opens with probability 1e-400
        gain_and_bias(mdp, Policy.randomised(mdp.space, [[1 - 1e-200, 1e-200], [1, 0]]))


@pytest.mark.parametrize("function", [gain_and_bias, stationary_distribution])
def test_policies_that_do_not_fit_are_refused(function):
    mdp = riverswim().mdp
    with pytest.raises(InvalidInput, match=r"do not fit.*\n.*Space\(n_states=3"):
        function(mdp, Policy.always(Space.full(3, 2), 0))
    with pytest.raises(InvalidInput, match="5 decision rules: only a stationary policy has a gain"):
        function(mdp, Policy.deterministic(mdp.space, np.zeros((5, 6), dtype=int)))


@pytest.mark.parametrize("start", [-1, 6, 0.5])
def test_a_start_that_is_no_state_is_refused(start):
    mdp = riverswim().mdp
    with pytest.raises(InvalidInput, match="the states are 0 to 5"):
        stationary_distribution(mdp, Policy.always(mdp.space, 0), start=start)
