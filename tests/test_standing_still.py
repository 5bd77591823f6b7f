"""Rewards step by step once a distribution stands still: against every step of the same recursion, in long doubles."""

import numpy as np
import pytest

import oracles
from surefooted import solve
from surefooted.kernels import chains
from surefooted.kernels.structs import Table
from surefooted.problems import garnet, maintenance
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy

both = pytest.mark.parametrize("kernel", [chains.accumulate_rewards, chains.accumulate_rewards.py_func])
CLOSE = 1e-12  # what the kernel promises, relative


def table_of(p, r):
    """The chain with rows p [S, S] and rewards r [S]."""
    p = np.asarray(p, dtype=float)
    row, state = np.nonzero(p)
    return Table(np.append(0, np.bincount(row, minlength=len(p)).cumsum()), state, p[row, state], np.array(r, float))


def step_by_step(chain, x, steps):
    """Sums of expected rewards after each step, and the distribution at the end, in long doubles."""
    n, total, out = len(chain.r), np.longdouble(0), np.empty(steps, dtype=np.longdouble)
    p, x = np.zeros((n, n), dtype=np.longdouble), np.array(x, dtype=np.longdouble)
    np.add.at(p, (np.repeat(np.arange(n), np.diff(chain.next_ptr)), chain.next_state), chain.p)
    for t in range(steps):
        total += x @ chain.r
        out[t], x = total, x @ p
    return out, x


def check(kernel, chain, start, steps, close=CLOSE):
    x, earned, out = np.array(start, dtype=float), np.zeros(2), np.empty(steps)
    expected, end = step_by_step(chain, start, steps)
    kernel(chain, earned, x, out)
    np.testing.assert_allclose(out, expected.astype(float), rtol=close, atol=1e-25)
    np.testing.assert_allclose(x, end.astype(float), rtol=0, atol=close)
    assert earned[0] == out[-1]


@both
@pytest.mark.parametrize("period", [1, 2, 3, 7])
@pytest.mark.parametrize("steps", [1, 2, 50, 601, 700])
def test_cycles_repeat_and_end_where_they_should(kernel, period, steps):
    rng = np.random.default_rng([period, steps])
    chain = table_of(np.roll(np.eye(period), 1, axis=1), rng.random(period))
    check(kernel, chain, np.eye(period)[0], steps)
    check(kernel, chain, rng.dirichlet(np.ones(period)), steps)


@both
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", oracles.KINDS)
def test_any_chain_earns_what_it_earns_step_by_step(kernel, kind, seed):
    p, r, _ = oracles.random_mdp(kind, seed, n_states=5, n_actions=1)
    check(kernel, table_of(p[:, 0], r[:, 0]), np.eye(5)[seed % 5], 1500)


@pytest.mark.parametrize("leave", [1e-2, 1e-4, 1e-6, 1e-9, 1e-11, 1e-13, 2.0**-50, 2.0**-53, 1e-20])
@pytest.mark.parametrize("worth", [0.0, 0.9])
def test_a_rare_exit_is_not_taken_for_standing_still(leave, worth):
    """From a state that pays 1 to one that pays less: after t steps, (1 - leave)^t of it is left."""
    steps = 200_000
    chain = table_of([[1 - leave, leave], [0, 1]], [1.0, worth])
    x, earned, out = np.array([1.0, 0.0]), np.zeros(2), np.empty(steps)
    chains.accumulate_rewards(chain, earned, x, out)
    t = np.arange(1.0, steps + 1)
    stayed = -np.expm1(t * np.log1p(-leave)) / leave
    np.testing.assert_allclose(out, worth * t + (1 - worth) * stayed, rtol=2e-12)


def test_a_drift_of_all_probabilities_is_no_rounding():
    """Half of the mass leaks by less than STILL in a step, and by 2e-11 over the run."""
    steps, leave = 200_000, 2.0**-52
    x, earned, out = np.array([0.5, 0.5]), np.zeros(2), np.empty(steps)
    chains.accumulate_rewards(table_of([[1 - leave, leave], [0, 1]], [1.0, 0.0]), earned, x, out)
    t = np.arange(1.0, steps + 1)
    np.testing.assert_allclose(out, -0.5 * np.expm1(t * np.log1p(-leave)) / leave, rtol=2e-12)


@both
def test_what_leaks_counts_where_nothing_else_pays(kernel):
    """1e-17 leaks in each step, less than the rounding of what is left."""
    x, earned, out = np.array([1.0, 0.0]), np.zeros(2), np.empty(1_000)
    kernel(table_of([[1.0, 1e-17], [0, 1]], [0.0, 1.0]), earned, x, out)
    t = np.arange(1_000.0)
    np.testing.assert_allclose(out, 1e-17 * t * (t + 1) / 2, rtol=1e-12)


@both
def test_what_drains_unnoticed_is_followed_if_only_it_pays(kernel):
    """All other mass gains less than rounding."""
    x, earned, out = np.array([1e-16, 1.0]), np.zeros(2), np.empty(500)
    kernel(table_of([[0.9, 0.1], [0, 1]], [1.0, 0.0]), earned, x, out)
    np.testing.assert_allclose(out, 1e-15 * (1 - 0.9 ** np.arange(1.0, 501)), rtol=1e-11)


@pytest.mark.parametrize("back", [1e-3, 1e-8])
def test_two_cycles_that_hardly_meet(back):
    """Periods 2 and 3, and rare ways between them: still at first sight, and far from it over the whole run."""
    p = np.zeros((5, 5))
    p[0, 1] = p[2, 3] = p[3, 4] = 1.0
    p[1, [0, 2]], p[4, [2, 0]] = (1 - back, back), (1 - back, back)
    check(chains.accumulate_rewards, table_of(p, [1.0, 0.0, 0.25, 0.5, 0.0]), np.eye(5)[0], 20_000)


def test_what_is_hardly_ever_reached_counts_where_nothing_else_pays():
    """A walk of nine steps of probability 1/100 each: nothing of it may be dropped before it has grown."""
    n = 10
    p = np.diag(np.full(n, 0.99)) + np.diag(np.full(n - 1, 0.01), 1)
    p[-1, -1] = 1.0
    check(chains.accumulate_rewards, table_of(p, np.eye(n)[-1]), np.eye(n)[0], 5_000)


@pytest.mark.parametrize("make", [lambda: maintenance(), lambda: garnet(60, 3, 5, seed=3)])
def test_problems_of_the_package_agree_with_the_bellman_identity_after_a_million_steps(make):
    """E[r_1 + .. + r_t] = t g + h(s) - P^t h, and P^t h is its mean, 0, once t is large."""
    problem, t = make(), 1_000_000
    for policy in (problem.baseline, solve.optimal_gain(problem.mdp).policy):
        solved = solve.gain_and_bias(problem.mdp, policy)
        found = solve.expected_rewards(problem.mdp, policy, problem.start, t)
        assert found[-1] == pytest.approx(t * solved.gain + solved.bias[problem.start], rel=2e-12)


def test_segments_of_one_policy_in_a_row_are_one_segment():
    mdp = TabularMDP.from_arrays(*oracles.random_mdp("dense", 3)[:2])
    one, other = Policy.always(mdp.space, 0), Policy.always(mdp.space, 1)
    whole = solve.expected_rewards_along(mdp, [(one, 70), (other, 40), (one, 5)], 1)
    copy = Policy.always(mdp.space, 0)
    parts = [(one, 30), (copy, 0), (copy, 40), (other, 1), (other, 39), (one, 5)]
    np.testing.assert_array_equal(solve.expected_rewards_along(mdp, parts, 1), whole)
