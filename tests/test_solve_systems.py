"""Linear systems over transient states: each kernel, compiled and as plain Python; then long rings, mazes and tori."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

import oracles
import surefooted as sf
from surefooted.errors import NotConverged
from surefooted.kernels import chains, exact
from surefooted.kernels.structs import Table, Transient
from surefooted.solve import gain, gain_and_bias, optimal_gain, stationary_distribution, systems
from surefooted.solve.chain import induced_chain, structure
from test_kernels import both, csr, random_chain

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
    """The rows of a dense MDP, and where the pairs of each state begin."""
    n, n_actions = r.shape
    return np.arange(0, n * n_actions + 1, n_actions), Table(*csr(p.reshape(n * n_actions, n)), r.ravel())


def transient(p, states):
    """The rows of some states of a dense chain, as kernels take them."""
    chain, place = Table(*csr(p), np.zeros(len(p))), np.full(len(p), -1)
    place[states] = np.arange(len(states))
    size = chain.p.size
    rows = Transient(
        np.full(len(states) + 1, -1), np.full(size, -1), np.full(size, np.nan), np.full(len(states), np.nan)
    )
    return chain, place, rows


@both(chains.walk)
def test_a_walk_is_as_often_in_a_state_as_the_chain(kernel):
    p = np.array([[0.9, 0.1, 0.0], [0.2, 0.0, 0.8], [0.5, 0.0, 0.5]])
    rows, seen = Table(*csr(p), np.zeros(3)), np.zeros(3)
    path = [kernel(rows, 0, steps) for steps in range(1_000)]
    for state, after in pairwise(path):
        assert p[state, after] > 0
        seen[state] += 1
    d = oracles.stationary(p)  # the draws are fixed: no false alarms
    assert seen / seen.sum() == pytest.approx(d, abs=0.05)
    trap = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    assert kernel(Table(*csr(trap), np.zeros(3)), 0, 100) == 2


@both(chains.restrict)
@pytest.mark.parametrize("seed", SEEDS)
def test_restricted_rows_hold_what_stays_and_what_leaves(kernel, seed):
    p, _ = random_chain(seed)
    states = np.array([4, 1, 5])
    chain, place, rows = transient(p, states)
    end, reach = kernel(chain, states, place, rows)
    assert reach == max(abs(i - j) for i in range(3) for j in range(3) if p[states[i], states[j]] > 0)
    assert rows.ptr[0] == 0 and rows.ptr[-1] == end
    inside = np.zeros((3, 3))
    np.add.at(inside, (np.repeat(np.arange(3), np.diff(rows.ptr)), rows.column[:end]), rows.p[:end])
    among = p[np.ix_(states, states)]
    assert np.all(np.diag(inside) == 0.0) and inside + np.diag(np.diag(among)) == pytest.approx(among, abs=1e-16)
    assert rows.leak == pytest.approx(p[states][:, [0, 2, 3]].sum(axis=1), abs=1e-15)


def restricted(p, states):
    """The rows of some states of a dense chain."""
    chain, place, rows = transient(p, states)
    end, _ = chains.restrict(chain, states, place, rows)
    return rows._replace(column=rows.column[:end], p=rows.p[:end])


@both(chains.fill_matrix)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_matrix_of_a_system_is_the_identity_less_its_probabilities(kernel, seed):
    p, _ = random_chain(seed)
    states = np.array([4, 1, 5]) if seed % 2 else np.array([0, 2, 3])
    rows = restricted(p, states)
    ptr, column = np.full(4, -1, np.int32), np.full(3 + rows.p.size, -1, np.int32)
    entry = np.full(column.size, np.nan)
    kernel(rows, ptr, column, entry)
    matrix = csr_array((entry, column, ptr), shape=(3, 3)).toarray()
    assert matrix == pytest.approx(np.eye(3) - p[np.ix_(states, states)], abs=1e-15)
    assert all(np.all(np.diff(column[ptr[i] : ptr[i + 1]]) >= 0) for i in range(3)) or seed % 2


@both(chains.residuals)
@pytest.mark.parametrize("seed", SEEDS)
def test_residuals_are_what_a_solution_misses(kernel, seed):
    p, _ = random_chain(seed)
    states, rng = np.array([1, 2, 3, 5]), np.random.default_rng(seed)
    cost, x, out = rng.normal(size=(2, 4)), rng.normal(size=(2, 4)), np.full((2, 4), np.nan)
    kernel(restricted(p, states), cost, x, out)
    assert out == pytest.approx(cost - x + x @ p[np.ix_(states, states)].T, abs=1e-14)


@both(chains.residuals)
def test_residuals_keep_what_a_rare_transition_adds(kernel):
    e, out = 1e-30, np.empty((1, 2))
    rows = restricted(np.array([[1 - e, e, 0], [0, 0, 1], [0, 0, 1.0]]), np.array([0, 1]))
    kernel(rows, np.zeros((1, 2)), np.array([[1e20, 0.0]]), out)
    assert out[0] == pytest.approx([-1e-10, 0.0], rel=1e-14)


@both(chains.imbalances)
@pytest.mark.parametrize("seed", SEEDS)
def test_imbalances_are_what_visits_miss(kernel, seed):
    p, _ = random_chain(seed)
    states, rng = np.array([1, 2, 3, 5]), np.random.default_rng(seed)
    entry, visits, out = rng.random(4), rng.random(4), np.full(4, np.nan)
    kernel(restricted(p, states), entry, visits, out, np.empty(4))
    assert out == pytest.approx(entry - visits + visits @ p[np.ix_(states, states)], abs=1e-14)


@both(chains.imbalances)
def test_imbalances_keep_what_flows_rarely(kernel):
    """A state that is visited 1e16 times and left with probability 1e-17 has a tenth of a visit too few to leave."""
    p = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 1e-17], [0.0, 0.0, 1.0]])
    out = np.empty(2)
    kernel(restricted(p, np.array([0, 1])), np.array([1.0, 0.0]), np.array([1e16, 1e16]), out, np.empty(2))
    assert out[0] + out[1] == pytest.approx(0.9, rel=1e-14)


def eliminated(kernel, rows):
    n = len(rows.leak)
    reach = np.abs(rows.column - np.repeat(np.arange(n), np.diff(rows.ptr))).max(initial=0)
    band, out = np.full((n, 2 * reach + 1), np.nan), np.full(n, np.nan)
    return kernel(rows, band, out), band, out


@both(chains.eliminate)
@pytest.mark.parametrize("eps", [None, 1e-3, 1e-12])
@pytest.mark.parametrize("seed", SEEDS)
def test_elimination_is_right_in_every_entry_however_slowly_the_chain_mixes(kernel, eps, seed):
    plain = hasattr(kernel, "py_func")
    substitute = chains.substitute if plain else chains.substitute.py_func
    count_visits = chains.count_visits if plain else chains.count_visits.py_func
    p, r = line(seed, 7, 1, reach=1 + seed % 3, ring=seed % 2 == 0, eps=eps)
    p, home = p[:, 0], seed % 7
    others = np.delete(np.arange(7), home)
    if seed < 6:  # in a line, or not
        others = np.random.default_rng(seed).permutation(others)
    q = oracles.exact(p)
    cost = np.stack([r[others, 0], np.ones(6)])
    onward = oracles.solve(
        oracles.eye(6, q) - q[np.ix_(others, others)], np.array([[Fraction(x) for x in row] for row in cost]).T
    )
    done, *factors = eliminated(kernel, restricted(p, others))
    assert done
    substitute(*factors, cost)
    assert cost == pytest.approx(onward.T.astype(float), rel=1e-13, abs=0)
    d, visits = oracles.stationary(q), p[home, others]
    assert count_visits(*factors, visits) == 1.0
    assert visits == pytest.approx((d[others] / d[home]).astype(float), rel=1e-13, abs=0)


@both(chains.eliminate)
def test_elimination_by_hand(kernel):
    stuck = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]])
    assert not eliminated(kernel, restricted(stuck, np.array([1, 2])))[0]  # nothing leads from state 1 to 0
    done, *factors = eliminated(kernel, restricted(stuck, np.array([0, 2])))
    x, visits = np.array([[1.0, 0.0]]), np.zeros(2)
    chains.substitute(*factors, x)
    assert done and x.tolist() == [[2.0, 0.0]] and chains.count_visits(*factors, visits) == 1 and not visits.any()


def test_visits_do_not_overflow():
    n = 800  # a walk that hardly ever comes back: 4 ** n visits to the other end
    p = 0.8 * np.eye(n, k=1) + 0.2 * np.eye(n, k=-1)
    p[0, 0], p[-1, -1] = 0.2, 0.8
    _, *factors = eliminated(chains.eliminate, restricted(p, np.arange(1, n)))
    visits = p[0, 1:].copy()
    scale = chains.count_visits(*factors, visits)
    visits = np.append(scale, visits)
    share = 4.0 ** (np.arange(n) - n + 1.0)
    assert scale < 1e-300 and visits / visits.sum() == pytest.approx(share / share.sum(), rel=1e-9, abs=1e-250)


@both(exact.search_from)
@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_search_finds_shortest_ways_nearest_states_first(kernel, ring, seed):
    p, r = line(seed, 15, reach=2, ring=ring)
    p[:, :, 3] = 0.0  # state 3 cannot be reached
    steps, order = np.full(15, -1), np.full(15, -1)
    kernel(*table(p, r), 4, steps, order)
    known = shortest_path(csr_array(p.max(axis=1) > 0), indices=4, unweighted=True)
    assert steps.tolist() == np.where(np.isfinite(known), known, 15).tolist()
    assert sorted(order) == list(range(15)) and np.all(np.diff(steps[order]) >= 0)


@pytest.mark.parametrize("seed", range(40))
def test_structure_agrees_with_reachability_though_successors_are_listed_twice(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    p = (rng.random((n, n)) < rng.uniform(0, 2.5) / n).astype(float) + 1e-9 * np.eye(n)[rng.permutation(n)]
    p /= p.sum(axis=1, keepdims=True)
    found = structure(Table(*csr(p), np.zeros(n)))  # every other row lists each successor twice
    assert sorted(tuple(c.tolist()) for c in found.classes) == oracles.recurrent_classes(p)
    assert sorted([*found.transient, *(s for c in found.classes for s in c)]) == list(range(n))


def test_the_structure_of_a_path_of_a_hundred_thousand_states_does_not_overflow_a_stack():
    n = 100_000
    ptr, r = np.arange(n + 1), np.zeros(n)
    path = structure(Table(ptr, np.minimum(np.arange(n) + 1, n - 1), np.ones(n), r))
    assert [c.tolist() for c in path.classes] == [[n - 1]] and path.transient.size == n - 1
    assert structure(Table(ptr, (np.arange(n) + 1) % n, np.ones(n), r)).classes[0].size == n


def ring_table(n, seed, n_actions=3):
    """Slow, as in the benchmarks: steps of up to two places, half of the mass stays, and only state 0 pays."""
    rng, state = np.random.default_rng(seed), np.repeat(np.arange(n), n_actions)
    p = 0.5 * rng.dirichlet(np.ones(5), size=n * n_actions)
    p[:, 2] += 0.5
    entries = (np.repeat(state, 5), np.repeat(np.tile(np.arange(n_actions), n), 5))
    successor = ((state[:, None] + np.arange(-2, 3)) % n).ravel()
    return sf.TabularMDP.from_transitions(*entries, successor, p.ravel(), np.repeat(state == 0, 5).astype(float))


@pytest.mark.parametrize("seed", range(3))
def test_a_long_ring_has_the_gain_that_sweeps_find_and_is_solved_by_policy_iteration(seed, monkeypatch):
    mdp = ring_table(500, seed)
    found = optimal_gain(mdp, 1e-4)
    monkeypatch.setattr(gain, "QUICK", 10**12)
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


def two_wells():
    """Forty states in two wells: policy iteration goes from one to the other, with a bias of 1e20."""
    n = 40
    p = np.zeros((n, 2, n))
    for s in range(n):
        centre = 9 if s < 20 else 30
        onward = s + (s < centre) - (s > centre)
        p[s, :, onward] += 0.99
        for a, aside in enumerate((max(s - 1, 0), min(s + 1, n - 1))):
            p[s, a, aside] += 0.01
    r = np.full((n, 2), 0.5)
    r[[9, 30]] = 1.0
    return p, r


def test_policy_iteration_gives_up_where_rounding_would_be_more_than_the_accuracy():
    p, r = two_wells()
    mdp = sf.TabularMDP.from_arrays(p, r)
    lower, upper, _, _ = gain._one_class(mdp, 1e-9, None)
    assert upper - lower > 1e-9
    assert np.ptp(oracles.best_gain_by_linear_program(p, r, np.ones((40, 2), dtype=bool))) < 1e-6
    found = optimal_gain(mdp, 1e-6)
    assert found.upper - found.lower <= 1e-6


@pytest.mark.first(6)
@pytest.mark.parametrize("small", [-1, systems.SMALL])
@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_policy_iteration_finds_the_best_of_all_policies(ring, seed, small, monkeypatch):
    monkeypatch.setattr(systems, "SMALL", small)
    monkeypatch.setattr(systems, "SHORT", small)
    monkeypatch.setattr(systems, "PLANAR", np.inf)
    p, r = line(seed, 6, 2, reach=1 + seed % 2, ring=ring, eps=0.03 if seed % 3 == 0 else None)
    best = oracles.best_gain_by_enumeration(p, r, np.ones((6, 2), dtype=bool), exactly=seed % 3 == 0)
    mdp, first = sf.TabularMDP.from_arrays(p, r), np.zeros(6) if small < 0 else None
    for most in range(3):  # the bounds hold whenever it is stopped
        monkeypatch.setattr(gain, "POLICIES", most)
        lower, upper, _, _ = gain._one_class(mdp, 1e-12, first)
        assert lower - 1e-12 <= best.min() and best.max() <= upper + 1e-12
    monkeypatch.setattr(gain, "POLICIES", 10)
    lower, upper, _, pair = gain._one_class(mdp, 1e-10, first)
    assert upper - lower <= 1e-10
    assert lower - 1e-12 <= best.min() and best.max() <= upper + 1e-12
    gains, _ = oracles.exact_gain_and_bias(*oracles.chain_of(p, r, pair - 2 * np.arange(6)))
    assert gains == pytest.approx(best, abs=1e-9)


def test_policy_iteration_gives_up_on_what_falls_apart_or_fills_up(monkeypatch):
    apart = sf.TabularMDP.from_arrays(np.eye(12).reshape(12, 1, 12), np.linspace(0, 1, 12)[:, None])
    assert gain._one_class(apart, 1e-9, None)[:2] == (-np.inf, np.inf)
    p, r = line(0, 12, 2, reach=2)
    connected = sf.TabularMDP.from_arrays(p, r)
    assert gain._one_class(connected, 1e-9, None)[1] < np.inf
    monkeypatch.setattr(systems, "SMALL", 0)
    monkeypatch.setattr(systems, "SHORT", -1)
    monkeypatch.setattr(systems, "PLANAR", 0)
    assert gain._one_class(connected, 1e-9, None)[:2] == (-np.inf, np.inf)


def test_a_dense_table_is_swept():
    rng = np.random.default_rng(0)
    mdp = sf.TabularMDP.from_arrays(rng.dirichlet(np.ones(40), size=(40, 8)), rng.random((40, 8)))
    found = optimal_gain(mdp, 1e-2)
    assert 1e-6 < found.upper - found.lower <= 1e-2  # as sweeps leave it


@pytest.mark.slow
def test_a_ring_of_twenty_thousand_states_needs_few_improvements(monkeypatch):
    mdp = ring_table(20_000, 1)
    monkeypatch.setattr(gain, "POLICIES", 29)
    lower, upper, v, pair = gain._one_class(mdp, 1e-9, None)
    assert upper - lower <= 1e-9
    played = induced_chain(mdp, sf.Policy(mdp.space, pair=pair))
    chain_lower, chain_upper, _ = exact.relative_values(played, 0.9, 1e-9, 1, v)
    assert lower - 1e-9 <= chain_lower and chain_upper <= upper + 1e-9  # one sweep of the policy proves its gain


# mazes and tori


def grid(m, seed, torus=False, eps=None):
    """A walk on m x m cells with random probabilities and rewards; walls send it back, with `eps` a door is rare.

    The door is in a wall between the left and the right half.
    """
    rng = np.random.default_rng(seed)
    row, column = np.divmod(np.arange(m * m), m)
    p = rng.dirichlet(np.ones(4), size=m * m)
    if eps is not None:
        p = np.column_stack([np.where(column == m // 2 - 1, eps, p[:, 0]), p[:, 1:]])
        p[:, 1] = np.where(column == m // 2, eps, p[:, 1])
        p /= p.sum(axis=1, keepdims=True)
    moves = []
    for down, right in ((0, 1), (0, -1), (1, 0), (-1, 0)):
        i, j = row + down, column + right
        i, j = (i % m, j % m) if torus else (np.clip(i, 0, m - 1), np.clip(j, 0, m - 1))
        moves.append(i * m + j)
    state = np.tile(np.arange(m * m), 4)
    entries = np.concatenate(moves), p.T.ravel(), np.tile(rng.random(m * m), 4)
    matrix = csr_array((entries[1], (state, entries[0])), shape=(m * m, m * m))
    matrix.sum_duplicates()
    mdp = sf.TabularMDP(sf.Space.full(m * m, 1), matrix.indptr, matrix.indices, matrix.data, entries[2][: m * m])
    return mdp, sf.Policy.always(mdp.space, 0)


@pytest.fixture
def by_lu(monkeypatch):
    """Send every block, however small, to sparse LU."""
    monkeypatch.setattr(systems, "SMALL", 0)
    monkeypatch.setattr(systems, "SHORT", -1)
    monkeypatch.setattr(systems, "PLANAR", np.inf)


@pytest.mark.first(8)
@pytest.mark.parametrize("torus", [False, True])
@pytest.mark.parametrize("eps", [None, 1e-6, 1e-10, 1e-12])
@pytest.mark.parametrize("seed", range(4))
def test_small_mazes_and_tori_agree_with_fractions(seed, eps, torus, by_lu):
    mdp, policy = grid(4, seed, torus, eps)
    p, r, _ = mdp.to_arrays()
    gains, bias = oracles.exact_gain_and_bias(p[:, 0], r[:, 0])
    found = gain_and_bias(mdp, policy)
    assert found.accuracy == 0.0
    assert found.gains == pytest.approx(gains, rel=1e-13)
    assert found.bias == pytest.approx(bias, rel=0, abs=1e-12 * np.abs(bias).max())
    d = oracles.stationary(oracles.exact(p[:, 0])).astype(float)
    assert stationary_distribution(mdp, policy) == pytest.approx(d, rel=1e-12)


@pytest.mark.parametrize("torus", [False, True])
def test_large_mazes_and_tori_solve_their_equations(torus):
    mdp, policy = grid(60, 1, torus)
    rows, found = oracles.sparse_rows(mdp), gain_and_bias(mdp, policy)
    assert found.accuracy == 0.0
    residual = mdp.r - found.gain + rows @ found.bias - found.bias
    assert np.abs(residual).max() <= 1e-15 * found.span
    d = stationary_distribution(mdp, policy)
    assert d.min() > 0 and d.sum() == pytest.approx(1, abs=1e-14)
    assert np.abs(d @ rows - d).sum() <= 1e-14
    assert d @ mdp.r == pytest.approx(found.gain, rel=1e-13)
    assert d @ found.bias == pytest.approx(0, abs=1e-13 * found.span)


@pytest.mark.parametrize("eps", [1e-9, 1e-12])
def test_a_door_that_hardly_ever_opens_weighs_the_halves_of_a_large_maze(eps):
    """By the flows through the door: each half on its own has a gain, and the rarer way out has the larger share."""
    mdp, policy = grid(30, 2, eps=eps)
    side = np.arange(900) % 30 < 15
    p, r = oracles.sparse_rows(mdp).toarray(), mdp.r
    shares, gains = [], []
    for half in (side, ~side):  # watched while it is in this half only: the door is a wall that sends it back
        inside = p[np.ix_(half, half)]
        out = p[np.ix_(half, ~half)].sum(axis=1)
        d = oracles.stationary(inside + np.diag(out))
        shares.append(1 / (d @ out))
        gains.append(d @ r[half])
    expected = np.dot(shares, gains) / np.sum(shares)
    found = gain_and_bias(mdp, policy)
    assert found.gain == pytest.approx(expected, abs=1e-6 if eps == 1e-9 else 1e-9)
    d = stationary_distribution(mdp, policy)
    assert d @ r == pytest.approx(found.gain, rel=1e-12)
    assert d[side].sum() == pytest.approx(shares[0] / np.sum(shares), abs=1e-6 if eps == 1e-9 else 1e-9)


def test_a_maze_whose_cells_all_lead_back_to_the_start_is_no_random_graph():
    mdp, policy = grid(40, 3)
    rows = 0.9 * oracles.sparse_rows(mdp).toarray()
    rows[:, 7] += 0.1
    restarting = sf.TabularMDP.from_arrays(rows[:, None], mdp.r[:, None])
    chain = induced_chain(restarting, policy)
    system = systems.System(chain, np.delete(np.arange(1600), 11))
    assert not system.is_wide and gain_and_bias(restarting, policy).accuracy == 0.0
    rows = oracles.sparse_rows(mdp).toarray()
    rows[1500] = 1 / 1600  # the goal leads to any cell
    anywhere = induced_chain(sf.TabularMDP.from_arrays(rows[:, None], mdp.r[:, None]), policy)
    assert not systems.System(anywhere, np.delete(np.arange(1600), 11)).is_wide
    scattered = sf.problems.garnet(1600, 1, 4, seed=1).mdp
    chain = induced_chain(scattered, sf.Policy.always(scattered.space, 0))
    assert systems.System(chain, np.delete(np.arange(1600), 11)).is_wide


def test_what_rounding_hides_from_lu_is_not_taken_for_an_answer(by_lu, monkeypatch):
    monkeypatch.setattr(systems, "MANY_SWEEPS", 100)
    p = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 1e-17], [0.0, 0.0, 1.0]])
    chain = Table(*csr(p), np.zeros(3))
    with pytest.raises(NotConverged, match="left so rarely"):
        systems.System(chain, np.array([0, 1])).solve(np.ones((1, 2)), 1e-9)
    monkeypatch.setattr(systems, "SMALL", 300)
    times = systems.System(chain, np.array([0, 1])).solve(np.ones((1, 2)), 1e-9)
    assert times[0] == pytest.approx([2e17, 2e17], rel=1e-13)


@pytest.mark.parametrize("leak", [1e-12, 1e-14, 1e-15, 3e-16, 1e-16])
@pytest.mark.parametrize("seed", range(10))
def test_a_solution_by_lu_is_right_or_refused(seed, leak, by_lu, monkeypatch):
    """Six states that are left with probability `leak` from one of them; elimination is right in every digit."""
    p, _ = random_chain(seed, 7)
    p[:6, :6] /= p[:6, :6].sum(axis=1, keepdims=True)
    p[:6, 6] = np.where(np.arange(6) == 2, leak, 0.0)
    chain, states = Table(*csr(p), np.zeros(7)), np.arange(6)
    system = systems.System(chain, states)
    try:
        times = system.direct(np.ones((1, 6)))[0]
    except NotConverged:
        assert leak < 1e-14
        return
    monkeypatch.setattr(systems, "SMALL", 300)
    exact_times = systems.System(chain, states).direct(np.ones((1, 6)))[0]
    assert times == pytest.approx(exact_times, rel=1e-11)
