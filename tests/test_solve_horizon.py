"""Finitely many steps: Puterman's inventory, recursion and enumeration, matrix powers, very long runs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from surefooted.errors import InvalidInput
from surefooted.problems import inventory, riverswim
from surefooted.solve import (
    expected_rewards,
    expected_rewards_along,
    gain_and_bias,
    optimal_gain,
    optimal_values,
    policy_values,
)
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.space import Space

every_kind = pytest.mark.parametrize("kind", oracles.KINDS)
examples = settings(max_examples=60, deadline=None, derandomize=True)
tables = given(kind=st.sampled_from(oracles.KINDS), seed=st.integers(0, 10_000))


def some_policy(mdp, seed, horizon=None, randomised=True):
    """A policy, stationary or with `horizon` decision rules, and its weights [(H,) S, A]."""
    shape = () if horizon is None else (horizon,)
    weights = np.random.default_rng(seed).random((*shape, mdp.n_states, mdp.space.n_actions)) * mdp.space.available
    if not randomised:
        weights = (weights == weights.max(axis=-1, keepdims=True)).astype(float)
    weights /= weights.sum(axis=-1, keepdims=True)
    return Policy.randomised(mdp.space, weights), weights


def some_table(kind, seed):
    p, r, available = oracles.random_mdp(kind, seed)
    mdp = TabularMDP.from_arrays(p, r, available)
    a = mdp.space.n_actions  # actions that no state has are not in the table
    return mdp, p[:, :a], r[:, :a], available[:, :a]


def test_putermans_inventory():
    """Puterman (1994), Sec. 3.2.2 and 4.6.2: M = 3, three months, demand 0, 1, 2 with probability 1/4, 1/2, 1/4."""
    mdp = inventory(capacity=3, demand=[0.25, 0.5, 0.25], order_below=0).mdp
    found = optimal_values(mdp, 3)
    months_left = np.array([3, 2, 1, 0])[:, None]
    profit = mdp.reward_offset * months_left + mdp.reward_scale * found.values
    assert profit[2] == pytest.approx([0, 5, 6, 5], abs=1e-12)
    assert profit[1] == pytest.approx([2, 25 / 4, 10, 21 / 2], abs=1e-12)
    assert profit[0] == pytest.approx([67 / 16, 129 / 16, 194 / 16, 227 / 16], abs=1e-12)
    assert found.policy.actions.tolist() == [[3, 0, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0]]


@every_kind
@pytest.mark.parametrize("seed", range(10))
def test_optimal_values_are_those_of_the_recursion(kind, seed):
    mdp, p, r, available = some_table(kind, seed)
    found = optimal_values(mdp, 6)
    assert found.values == pytest.approx(oracles.optimal_values(p, r, available, 6), abs=1e-13)
    assert policy_values(mdp, found.policy, 6) == pytest.approx(found.values, abs=1e-13)  # the policy attains them


@every_kind
@pytest.mark.parametrize("seed", range(4))
def test_no_plan_earns_more_than_the_optimal_values(kind, seed):
    p, r, _ = oracles.random_mdp(kind, seed, n_states=3, n_actions=2)
    available = np.array([[True, True], [True, True], [True, seed % 2 == 0]])
    found = optimal_values(TabularMDP.from_arrays(p, r, available), 3)
    assert found.values[0] == pytest.approx(oracles.best_value_by_enumeration(p, r, available, 3), abs=1e-13)


def test_optimal_values_take_the_first_of_equal_actions():
    mdp = TabularMDP.from_arrays(np.ones((1, 3, 1)), [[0.5, 0.75, 0.75]])
    assert optimal_values(mdp, 4).policy.actions.tolist() == [[1]] * 4


@every_kind
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("randomised", [False, True])
def test_policy_values_are_those_of_the_recursion(kind, seed, randomised):
    mdp, p, r, _ = some_table(kind, seed)
    for horizon in (None, 5):
        policy, weights = some_policy(mdp, seed, horizon, randomised)
        rules = [weights] * 5 if horizon is None else list(weights)
        value, expected = np.zeros(mdp.n_states), [np.zeros(mdp.n_states)]
        for rule in reversed(rules):
            q, reward = oracles.mixed_chain(p, r, rule)
            value = reward + q @ value
            expected.insert(0, value)
        assert policy_values(mdp, policy, 5) == pytest.approx(np.array(expected), abs=1e-13)


@tables
@examples
def test_values_are_ordered_and_never_fall_short_of_a_policy(kind, seed):
    mdp, *_ = some_table(kind, seed)
    best = optimal_values(mdp, 7).values
    policy, _ = some_policy(mdp, seed, 7)
    assert np.all(policy_values(mdp, policy, 7) <= best + 1e-12)
    assert np.all(np.diff(best, axis=0) <= 1e-12)  # rewards are not negative: more steps earn no less
    assert np.all(np.diff(best, axis=0) >= -mdp.r_max - 1e-12)


@every_kind
@pytest.mark.parametrize("seed", range(5))
def test_expected_rewards_are_sums_of_matrix_powers(kind, seed):
    mdp, p, r, _ = some_table(kind, seed)
    start = np.random.default_rng(seed).dirichlet(np.ones(mdp.n_states))
    policy, weights = some_policy(mdp, seed)
    q, reward = oracles.mixed_chain(p, r, weights)
    powers = [np.linalg.matrix_power(q, t) @ reward for t in range(9)]
    assert expected_rewards(mdp, policy, start, 9) == pytest.approx(np.cumsum([start @ x for x in powers]), abs=1e-13)
    for s in range(mdp.n_states):
        found = expected_rewards(mdp, policy, s, 9)
        assert found == pytest.approx(np.cumsum([x[s] for x in powers]), abs=1e-13)
        assert found[-1] == pytest.approx(policy_values(mdp, policy, 9)[0, s], abs=1e-13)


@every_kind
@pytest.mark.parametrize("seed", range(5))
def test_expected_rewards_along_segments_multiply_their_matrices(kind, seed):
    mdp, p, r, _ = some_table(kind, seed)
    plans = [(None, 3), (6, 4), (None, 0), (5, 5), (2, 0), (None, 1)]  # horizon and steps of each segment
    segments, chains = [], []
    for i, (horizon, steps) in enumerate(plans):
        policy, weights = some_policy(mdp, 10 * seed + i, horizon, randomised=i % 2 == 0)
        segments.append((policy, steps))
        rules = [weights] * steps if horizon is None else weights[:steps]
        chains += [oracles.mixed_chain(p, r, rule) for rule in rules]
    start = np.random.default_rng(seed).dirichlet(np.ones(mdp.n_states))
    found = expected_rewards_along(mdp, segments, start)
    assert found.shape == (13,)
    assert found == pytest.approx(oracles.cumulative_rewards(chains, start), abs=1e-13)
    assert expected_rewards_along(mdp, [], 0).shape == (0,)


@tables
@examples
def test_expected_rewards_obey_the_bellman_identity(kind, seed):
    """Eq. `cumrew_bellman`: E[r_1 + .. + r_t] = sum of gains + h(s) - P^t h, with several classes too."""
    mdp, p, r, _ = some_table(kind, seed)
    policy, weights = some_policy(mdp, seed)
    q, _ = oracles.mixed_chain(p, r, weights)
    solved = gain_and_bias(mdp, policy)
    scale = max(1.0, np.abs(solved.bias).max())
    for t in (1, 2, 17):
        expected = t * solved.gains + solved.bias - np.linalg.matrix_power(q, t) @ solved.bias
        found = [expected_rewards(mdp, policy, s, t)[-1] for s in range(mdp.n_states)]
        assert found == pytest.approx(expected, rel=0, abs=1e-12 * scale)


@pytest.mark.parametrize("seed", range(5))
def test_seventy_thousand_steps_are_right_to_the_ninth_digit_after_the_point(seed):
    rng = np.random.default_rng(seed)
    p, r = rng.dirichlet(np.ones(6), size=(6, 1)), rng.random((6, 1))
    mdp = TabularMDP.from_arrays(p, r)
    found = expected_rewards(mdp, Policy.always(mdp.space, 0), 0, 70_000)
    gains, bias = oracles.exact_gain_and_bias(p[:, 0], r[:, 0])
    t = np.array([1, 10, 1000, 70_000])
    mixed = [np.linalg.matrix_power(p[:, 0], min(i, 500))[0] @ bias for i in t]  # P^500 = P* to the last digit
    assert found[t - 1] == pytest.approx(t * gains[0] + bias[0] - mixed, rel=0, abs=2e-9)


def test_a_long_run_of_the_optimal_policy_earns_the_optimal_gain_up_to_its_span():
    problem = inventory()
    best = optimal_gain(problem.mdp)
    found = expected_rewards(problem.mdp, best.policy, problem.start, 70_000)
    t = np.arange(1, 70_001)
    assert np.all(np.abs(found - t * best.gain) <= best.span + 1e-7)
    assert found[-1] == pytest.approx(optimal_values(problem.mdp, 70_000).values[0, 0], abs=best.span)


# what is refused


@pytest.mark.parametrize("length", [0, -3, 2.5, math.nan, math.inf])
def test_lengths_that_are_none_are_refused(length):
    mdp = riverswim().mdp
    policy = Policy.always(mdp.space, 0)
    with pytest.raises(InvalidInput, match="horizon must be a whole number of at least 1"):
        optimal_values(mdp, length)
    with pytest.raises(InvalidInput, match="horizon must be a whole number of at least 1"):
        policy_values(mdp, policy, length)
    if length != 0:
        with pytest.raises(InvalidInput, match="steps must be a whole number of at least 0"):
            expected_rewards(mdp, policy, 0, length)


@pytest.mark.parametrize(
    "start, message",
    [
        (-1, "the states are 0 to 5"),
        (6, "the states are 0 to 5"),
        (0.5, "the states are 0 to 5"),
        (math.nan, "the states are 0 to 5"),
        ([0.5, 0.5], "distribution over 6 states"),
        ([0.5, 0.6, 0, 0, 0, -0.1], "distribution over 6 states"),
        ([0.5, 0.4, 0, 0, 0, 0], "distribution over 6 states"),
        ([math.nan, 1, 0, 0, 0, 0], "distribution over 6 states"),
        (np.full((1, 6), 1 / 6), "distribution over 6 states"),
    ],
)
def test_starts_that_are_none_are_refused(start, message):
    mdp = riverswim().mdp
    with pytest.raises(InvalidInput, match=message):
        expected_rewards(mdp, Policy.always(mdp.space, 0), start, 3)


def test_policies_that_do_not_fit_are_refused():
    mdp = riverswim().mdp
    foreign = Policy.always(Space.full(3, 2), 0)
    short = Policy.deterministic(mdp.space, np.zeros((3, 6), dtype=int))
    for call in (lambda: policy_values(mdp, foreign, 2), lambda: expected_rewards(mdp, foreign, 0, 2)):
        with pytest.raises(InvalidInput, match="policy and MDP do not fit"):
            call()
    with pytest.raises(InvalidInput, match="3 decision rules for 4 stages"):
        policy_values(mdp, short, 4)
    with pytest.raises(InvalidInput, match="3 decision rules cannot play 4 steps"):
        expected_rewards_along(mdp, [(short, 4)], 0)


def test_a_start_is_left_as_it_was():
    mdp = riverswim().mdp
    start = np.full(6, 1 / 6)
    expected_rewards(mdp, Policy.always(mdp.space, 1), start, 5)
    assert start.tolist() == [1 / 6] * 6
