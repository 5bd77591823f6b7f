"""Policy iteration in line: each kernel, compiled and as plain Python, then optimal gains of long tables."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

import oracles
import surefooted as sf
from surefooted.kernels import exact, narrow
from surefooted.solve import gain, optimal_gain
from surefooted.solve.chain import induced_chain
from test_kernels import both, csr

SEEDS = range(12)


def line(seed, n=6, n_actions=2, reach=1, ring=False, eps=None):
    """p [S, A, S] and r [S, A] with steps of at most `reach` on a line or ring whose states are shuffled.

    With `eps`, all but one of the successors have probabilities of about that.
    """
    rng = np.random.default_rng(seed)
    away = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    near = (np.minimum(away, n - away) if ring else away) <= reach
    p = rng.dirichlet(np.ones(n), size=(n, n_actions)) * near[:, None, :]
    if eps is not None:
        kept = np.zeros(p.shape, dtype=bool)
        np.put_along_axis(kept, (p * rng.random(p.shape)).argmax(axis=2, keepdims=True), True, axis=2)
        p *= np.where(kept, 1.0, eps)
    p /= p.sum(axis=2, keepdims=True)
    shuffled = rng.permutation(n)
    return p[np.ix_(shuffled, range(n_actions), shuffled)], rng.random((n, n_actions))


def table(p, r):
    n, n_actions = r.shape
    return (np.arange(0, n * n_actions + 1, n_actions), *csr(p.reshape(n * n_actions, n)), r.ravel())


def lined_up(kernel, rows, n, first, most):
    order, position, distance = (np.full(n, -1) for _ in range(3))
    return kernel(*rows, first, most, order, position, distance), order, position, distance


@both(narrow.line_up)
@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_line_up_is_breadth_first_and_tells_the_longest_step(kernel, ring, seed):
    p, r = line(seed, 15, reach=2, ring=ring)
    reach, order, position, distance = lined_up(kernel, table(p, r)[:3], 15, 4, 15)
    assert sorted(order) == list(range(15)) and position[order].tolist() == list(range(15)) and order[0] == 4
    step = p.max(axis=1) > 0
    assert reach == max(abs(position[s] - position[y]) for s, y in np.argwhere(step))
    assert distance.tolist() == shortest_path(csr_array(step), indices=4, unweighted=True).tolist()
    assert np.all(np.diff(distance[order]) >= 0)
    assert reach <= (8 if ring else 7)  # two arms, of two states a level
    assert lined_up(kernel, table(p, r)[:3], 15, 4, reach)[0] == reach
    assert lined_up(kernel, table(p, r)[:3], 15, 4, reach - 1)[0] > reach - 1


@both(narrow.line_up)
def test_line_up_goes_on_where_nothing_new_is_reached(kernel):
    p = np.eye(4)[[1, 1, 3, 2]].reshape(4, 1, 4)  # 0 to 1, which stays; 2 and 3 swap
    reach, order, position, distance = lined_up(kernel, table(p, np.zeros((4, 1)))[:3], 4, 3, 4)
    assert (order.tolist(), position.tolist(), distance.tolist()) == ([3, 2, 0, 1], [2, 3, 1, 0], [0, 1, 1, 0])
    assert reach == 1


@both(narrow.walk)
def test_a_walk_is_as_often_in_a_state_as_the_chain(kernel):
    p = np.array([[0.9, 0.1, 0.0], [0.2, 0.0, 0.8], [0.5, 0.0, 0.5]])
    rows, state, seen = csr(p), 0, np.zeros(3)
    path = [kernel(*rows, 0, steps) for steps in range(1_000)]
    for state, after in pairwise(path):
        assert p[state, after] > 0
        seen[state] += 1
    d = oracles.stationary(p)  # the draws are fixed: no false alarms
    assert seen / seen.sum() == pytest.approx(d, abs=0.05)
    trap = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    assert kernel(*csr(trap), 0, 100) == 2


def in_line(kernel, p, home, cost, first=0):
    """Whether all get home, and by state the cost until then [S, m], with home's of a whole cycle, and visits [S]."""
    n, rows = len(p), csr(p)
    order, position, distance = (np.empty(n, dtype=np.int64) for _ in range(3))
    reach = narrow.line_up(np.arange(n + 1), *rows[:2], first, n, order, position, distance)
    band, leave, entry = (np.full(size, np.nan) for size in (n * (2 * reach + 1), n, n))
    total, visits = cost[order].copy(), np.full(n, np.nan)
    done = kernel(*rows, home, order, position, reach, band, leave, entry, total, visits)
    again = cost[order].copy()
    assert kernel(*rows, home, order, position, reach, band, leave, entry, again, np.empty(0)) == done
    assert not done or np.array_equal(total, again)
    return done, total[position], visits[position]


@both(narrow.eliminate_in_line)
@pytest.mark.parametrize("eps", [None, 1e-3, 1e-12])
@pytest.mark.parametrize("seed", SEEDS)
def test_elimination_in_line_is_right_in_every_entry_however_slowly_the_chain_mixes(kernel, eps, seed):
    p, r = line(seed, 7, 1, reach=1 + seed % 3, ring=seed % 2 == 0, eps=eps)
    p, home, others = p[:, 0], seed % 7, np.delete(np.arange(7), seed % 7)
    cost = np.column_stack([r[:, 0], np.ones(7)])
    q, c = oracles.exact(p), np.array([[Fraction(x) for x in row] for row in cost])
    onward = oracles.solve(oracles.eye(6, q) - q[np.ix_(others, others)], c[others])
    d = oracles.stationary(q)
    for first in range(7):
        done, total, visits = in_line(kernel, p, home, cost, first)
        assert done
        assert total[others] == pytest.approx(onward.astype(float), rel=1e-13, abs=0)
        assert total[home] == pytest.approx((c[home] + q[home, others] @ onward).astype(float), rel=1e-13, abs=0)
        assert visits == pytest.approx((d / d[home]).astype(float), rel=1e-13, abs=0)


@both(narrow.eliminate_in_line)
def test_elimination_in_line_by_hand(kernel):
    p, cost = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]]), np.array([[1.0], [0.25], [0.0]])
    assert not in_line(kernel, p, 0, cost)[0]  # nothing leads home from state 1
    done, total, visits = in_line(kernel, p, 1, cost)
    assert done and total.tolist() == [[2.0], [0.25], [0.0]] and visits.tolist() == [0.0, 1.0, 0.0]
    p = np.array([[0.5, 0.5], [0.25, 0.75]])  # 4 steps of 3 from state 1; half of the cycles go there
    done, total, visits = in_line(kernel, p, 0, np.array([[1.0], [3.0]]))
    assert done and total.tolist() == [[7.0], [12.0]] and visits.tolist() == [1.0, 2.0]


@both(narrow.eliminate_in_line)
def test_visits_in_line_do_not_overflow(kernel):
    n = 800  # a walk that hardly ever comes back: 4 ** n visits to the other end
    p = 0.8 * np.eye(n, k=1) + 0.2 * np.eye(n, k=-1)
    p[0, 0], p[-1, -1] = 0.2, 0.8
    _, _, visits = in_line(kernel, p, 0, np.zeros((n, 0)))
    share = 4.0 ** (np.arange(n) - n + 1.0)
    assert visits / visits.sum() == pytest.approx(share / share.sum(), rel=1e-9, abs=1e-250)


@both(narrow.policy_iteration)
@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_policy_iteration_in_line_finds_the_best_of_all_policies(kernel, ring, seed):
    p, r = line(seed, 6, 2, reach=1 + seed % 2, ring=ring, eps=0.03 if seed % 3 == 0 else None)
    best = oracles.best_gain_by_enumeration(p, r, np.ones((6, 2), dtype=bool), exactly=seed % 3 == 0)
    v, pair = np.empty(6), np.empty(6, dtype=np.int64)
    for most in range(3):  # the bounds hold whenever it is stopped
        lower, upper, improvements = kernel(*table(p, r), 1e-12, 6, most, v, pair)
        assert lower - 1e-12 <= best.min() and best.max() <= upper + 1e-12 and improvements <= most
    lower, upper, improvements = kernel(*table(p, r), 1e-10, 6, 50, v, pair)
    assert upper - lower <= 1e-10 and 1 <= improvements < 10
    assert lower - 1e-12 <= best.min() and best.max() <= upper + 1e-12
    gains, _ = oracles.exact_gain_and_bias(*oracles.chain_of(p, r, pair - 2 * np.arange(6)))
    assert gains == pytest.approx(best, abs=1e-9)


@both(narrow.policy_iteration)
def test_policy_iteration_in_line_gives_up_on_what_is_wide_or_falls_apart(kernel):
    p, r = line(0, 12, 2, reach=2)
    v, pair = np.empty(12), np.empty(12, dtype=np.int64)
    assert kernel(*table(p, r), 1e-9, 4, 50, v, pair)[2] > 0
    assert kernel(*table(p, r), 1e-9, 1, 50, v, pair) == (-np.inf, np.inf, 0)
    apart = np.eye(12).reshape(12, 1, 12)  # every state keeps to itself
    assert kernel(*table(apart, r[:, :1]), 1e-9, 4, 50, v, pair) == (-np.inf, np.inf, 1)


def ring_table(n, seed, n_actions=3):
    """Slow, as in the benchmarks: steps of up to two places, half of the mass stays, and only state 0 pays."""
    rng, state = np.random.default_rng(seed), np.repeat(np.arange(n), n_actions)
    p = 0.5 * rng.dirichlet(np.ones(5), size=n * n_actions)
    p[:, 2] += 0.5
    entries = (np.repeat(state, 5), np.repeat(np.tile(np.arange(n_actions), n), 5))
    successor = ((state[:, None] + np.arange(-2, 3)) % n).ravel()
    return sf.TabularMDP.from_transitions(*entries, successor, p.ravel(), np.repeat(state == 0, 5).astype(float))


@pytest.mark.parametrize("seed", range(3))
def test_a_long_ring_has_the_gain_that_sweeps_find_and_is_solved_in_line(seed, monkeypatch):
    mdp = ring_table(500, seed)
    found = optimal_gain(mdp, 1e-4)
    monkeypatch.setattr(gain, "NARROW", 0)
    swept = optimal_gain(mdp, 1e-7)
    assert found.upper - found.lower <= 1e-10 < swept.upper - swept.lower  # a bias, not just a v that will do
    assert max(found.lower, swept.lower) <= min(found.upper, swept.upper)
    played = sf.solve.gain_and_bias(mdp, found.policy)
    assert found.lower - 1e-12 <= played.gain <= found.upper + 1e-12


def walk_from(n, up, here, there, far=()):
    """State 0 earns `here` and stays; the others walk towards the far end with probability `up` and earn `there`."""
    rows = {(0, 0): (here, {0: 1.0})}
    for s in range(1, n):
        rows[s, 0] = (there if s > n // 2 else 0.0, {s - 1: 1 - up, min(s + 1, n - 1): up})
    return rows | dict(far)


@pytest.mark.parametrize("accuracy", [1e-2, 1e-6])
@pytest.mark.parametrize("n", [10, 300, 320, 330, 340, 400])
def test_values_beyond_doubles_are_not_taken_for_a_proof(n, accuracy):
    far = {(0, 1): (1.0, {1: 1.0}), (n - 1, 1): (0.09, {n - 1: 1.0})}
    found = optimal_gain(sf.TabularMDP.from_pairs(walk_from(n, 0.9, 0.05, 0.0, far)), accuracy)
    assert found.lower <= (0.09 if n > 10 else found.gain) <= found.upper <= found.lower + accuracy


@pytest.mark.parametrize("n", [320, 324, 330, 335, 345])
def test_a_walk_away_from_the_only_exit_is_bounded_by_sweeps(n):
    found = optimal_gain(sf.TabularMDP.from_pairs(walk_from(n, 0.9, 1.0, 0.9999)), 1e-2)
    assert found.lower <= 1.0 <= found.upper <= found.lower + 1e-2


def test_a_large_bias_is_left_to_sweeps():
    n = 7_000  # above 6 000 transient states, evaluating the policy would take minutes
    rows = {(0, 0): (1.0, {0: 1.0})}
    for s in range(1, n):
        up = 0.9 if s <= 14 else 0.4
        rows[s, 0] = (0.995 if s > 7 else 0.0, {s - 1: 1 - up, min(s + 1, n - 1): up})
    found = optimal_gain(sf.TabularMDP.from_pairs(rows), 1e-2)
    assert found.lower <= 1.0 <= found.upper <= found.lower + 1e-2


@both(narrow.policy_iteration)
def test_it_gives_up_where_rounding_would_be_more_than_the_accuracy(kernel):
    n = 40  # two wells: policy iteration goes from one to the other
    p = np.zeros((n, 2, n))
    for s in range(n):
        centre = 9 if s < 20 else 30
        onward = s + (s < centre) - (s > centre)
        p[s, :, onward] += 0.99
        for a, aside in enumerate((max(s - 1, 0), min(s + 1, n - 1))):
            p[s, a, aside] += 0.01
    r = np.full((n, 2), 0.5)
    r[[9, 30]] = 1.0
    v, pair = np.zeros(n), np.empty(n, dtype=np.int64)
    lower, upper, improvements = kernel(*table(p, r), 1e-9, 4, 100, v, pair)
    assert upper - lower > 1e-9 and improvements < 10
    assert np.ptp(oracles.best_gain_by_linear_program(p, r, np.ones((n, 2), dtype=bool))) < 1e-6
    found = optimal_gain(sf.TabularMDP.from_arrays(p, r), 1e-6)
    assert found.upper - found.lower <= 1e-6


def test_a_dense_table_is_not_a_line():
    rng = np.random.default_rng(0)
    mdp = sf.TabularMDP.from_arrays(rng.dirichlet(np.ones(40), size=(40, 8)), rng.random((40, 8)))
    found = optimal_gain(mdp, 1e-2)
    assert 1e-6 < found.upper - found.lower <= 1e-2  # as sweeps leave it


def test_a_ring_of_twenty_thousand_states_needs_few_improvements():
    mdp = ring_table(20_000, 1)
    v, pair = np.empty(20_000), np.empty(20_000, dtype=np.int64)
    rows = (mdp.space.pair_ptr, mdp.next_ptr, mdp.next_state, mdp.p, mdp.r)
    lower, upper, improvements = narrow.policy_iteration(*rows, 1e-9, 8, 40, v, pair)
    assert upper - lower <= 1e-9 and improvements < 30
    taken = induced_chain(mdp, sf.Policy(mdp.space, pair=pair))
    chain_lower, chain_upper, _ = exact.relative_values(
        taken.next_ptr, taken.next_state, taken.p, taken.r, 0.9, 1e-9, 1, v
    )  # one sweep of the policy alone, from its values, proves its gain
    assert lower - 1e-9 <= chain_lower and chain_upper <= upper + 1e-9
