"""Each kernel, compiled and as plain Python, against an answer that was found in another way."""

import importlib
import pkgutil
import sys
from fractions import Fraction
from typing import get_type_hints

import numpy as np
import pytest

import oracles
import surefooted as sf
import surefooted.kernels
from surefooted.kernels import bellman, chains, exact, playing
from surefooted.kernels.structs import Advantages, Table

SEEDS = range(12)


def both(kernel):
    return pytest.mark.parametrize("kernel", [kernel, kernel.py_func], ids=["compiled", "plain"])


def csr(p):
    """A dense matrix [K, S] as (next_ptr, next_state, p); every other row lists each successor twice."""
    ptr, state, mass = [0], [], []
    for k, row in enumerate(p):
        successors = np.flatnonzero(row)
        times = 1 + k % 2
        state += list(np.repeat(successors, times))
        mass += list(np.repeat(row[successors] / times, times))
        ptr.append(len(state))
    return np.array(ptr), np.array(state, dtype=np.int64), np.array(mass)


def random_chain(seed, n=6, eps=None):
    """An irreducible chain with rewards; with `eps`, two halves that are left with probability eps."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(n, 0.7), size=n)
    if eps is not None:
        near = np.equal.outer(np.arange(n) < n // 2, np.arange(n) < n // 2)
        inside, outside = p * near, p * ~near
        p = (1 - eps) * inside / inside.sum(axis=1, keepdims=True) + eps * outside / outside.sum(axis=1, keepdims=True)
    return p, rng.random(n)


def kernels():
    """Every compiled kernel of the package, by name."""
    names = [f"surefooted.kernels.{module.name}" for module in pkgutil.iter_modules(surefooted.kernels.__path__)]
    files = [importlib.import_module(name) for name in names]
    return {f"{file.__name__}.{name}": k for file in files for name, k in vars(file).items() if hasattr(k, "py_func")}


def test_whoever_takes_a_generator_counts_references():
    takers = [name for name, k in kernels().items() if np.random.Generator in get_type_hints(k.py_func).values()]
    assert takers == ["surefooted.kernels.playing.draw_steps"]
    assert all(kernels()[name].targetoptions.get("_nrt", True) for name in takers)


def test_no_kernel_keeps_a_generator_or_an_array():
    generator, draws = np.random.default_rng(0), np.empty((1, 2))
    playing.draw_steps(generator, 1, draws)
    held = sys.getrefcount(generator), sys.getrefcount(draws)
    for _ in range(100):
        playing.draw_steps(generator, 1, draws)
    assert (sys.getrefcount(generator), sys.getrefcount(draws)) == held
    problem, held_after = sf.problems.maintenance(), []  # its baseline is randomised
    for steps in (50, 2_000):
        agent = sf.CUCRL2(problem.space, baseline=sf.Baseline(problem.baseline), alpha=0.1, bounded=False)
        sf.simulate(problem, agent, steps)
        arrays = (agent.counts.visits, agent.counts.reward_sum, problem.mdp.p, problem.space.pair_ptr)
        held_after.append([sys.getrefcount(x) for x in (agent.coin, *arrays)])
        plans = len(agent.decisions)
        del agent, arrays
    assert held_after[0] == held_after[1] and plans > 20


@both(bellman.add_mean)
@pytest.mark.parametrize("seed", SEEDS)
def test_add_mean_adds_what_a_row_earns_to_what_there_is(kernel, seed):
    p, v = random_chain(seed)
    ptr, state, mass = csr(p)
    for s, row in enumerate(p):
        assert kernel(0.25, ptr[s], ptr[s + 1], state, mass, v) == pytest.approx(0.25 + row @ v, abs=1e-15)
    assert kernel(-3.0, ptr[2], ptr[2], state, mass, v) == -3.0  # a row without successors


@both(exact.relative_values)
@pytest.mark.parametrize("seed", SEEDS)
def test_relative_values_bound_the_gain_after_any_number_of_sweeps_and_end_in_the_bias(kernel, seed):
    p, r = random_chain(seed)
    gains, bias = oracles.exact_gain_and_bias(p, r)
    v = np.random.default_rng(seed).normal(size=6)
    for most in (1, 2, 5):
        lower, upper, sweeps = kernel(Table(*csr(p), r), 0.9, 1e-12, most, v)
        assert sweeps == most
        assert lower - 1e-12 <= gains[0] <= upper + 1e-12
        assert abs(v[0]) <= 1e-15
    lower, upper, sweeps = kernel(Table(*csr(p), r), 0.9, 1e-12, 100_000, v)
    assert sweeps < 100_000 and upper - lower <= 1e-12
    assert lower - 1e-14 <= gains[0] <= upper + 1e-14
    assert v == pytest.approx(bias - bias[0], abs=1e-9)


@both(exact.relative_values)
def test_relative_values_settle_on_a_periodic_chain(kernel):
    v = np.zeros(3)
    lower, upper, _ = kernel(
        Table(*csr(np.roll(np.eye(3), 1, axis=1)), np.array([0.0, 0.5, 1.0])), 0.9, 1e-12, 10_000, v
    )
    assert lower == pytest.approx(0.5, abs=1e-12) and upper == pytest.approx(0.5, abs=1e-12)
    assert v == pytest.approx([0.0, 0.5, 0.5], abs=1e-10)  # h(0) + 1/2 = 0 + h(1), h(1) + 1/2 = 1/2 + h(2)


@both(exact.relative_values)
def test_relative_values_make_no_sweep_when_none_is_allowed(kernel):
    assert kernel(Table(*csr(np.eye(1)), np.ones(1)), 0.9, 1e-9, 0, np.zeros(1)) == (-np.inf, np.inf, 0)


@both(bellman.backup_pairs)
@pytest.mark.parametrize("seed", SEEDS)
def test_backup_pairs_is_r_plus_p_v(kernel, seed):
    rng = np.random.default_rng(seed)
    p, r, v, q = rng.dirichlet(np.full(5, 0.3), size=8), rng.random(8), rng.normal(size=5), np.empty(8)
    kernel(*csr(p), r, v, q)
    assert q == pytest.approx(r + p @ v, rel=1e-14, abs=1e-14)


@both(exact.advantages)
@pytest.mark.parametrize("seed", SEEDS)
def test_advantages_are_what_a_pair_adds_to_gain_and_bias(kernel, seed):
    rng = np.random.default_rng(seed)
    p, r, gains, bias = rng.dirichlet(np.full(5, 0.3), size=8), rng.random(8), rng.random(5), rng.normal(size=5)
    state, (up, more, noise) = np.sort(rng.integers(5, size=8)), np.empty((3, 8))
    kernel(Table(*csr(p), r), state, gains, bias, Advantages(up, more, noise))
    assert up == pytest.approx(p @ gains - gains[state], abs=1e-14)
    assert more == pytest.approx(r - gains[state] + p @ bias - bias[state], abs=1e-14)
    assert np.all(noise >= np.abs(more))


@both(exact.advantages)
def test_advantages_keep_what_a_rare_transition_adds(kernel):
    up, more, noise = np.empty((3, 1))
    rows = Table(np.array([0, 2]), np.array([0, 1]), np.array([1 - 1e-30, 1e-30]), np.ones(1))
    kernel(rows, np.array([0]), np.array([1.0, 2.0]), np.array([1e20, 0.0]), Advantages(up, more, noise))
    assert up[0] == 1e-30
    assert more[0] == pytest.approx(-1e-10, rel=1e-14)


@both(bellman.best_pairs)
def test_best_pairs_takes_the_first_of_equals(kernel):
    ptr, q = np.array([0, 3, 4, 6]), np.array([1.0, 2.0, 2.0, -np.inf, 0.0, 0.0])
    v, pair = np.empty(3), np.empty(3, dtype=np.int64)
    kernel(ptr, q, v, pair)
    assert pair.tolist() == [1, 3, 4]
    assert v.tolist() == [2.0, -np.inf, 0.0]


@both(bellman.best_pairs)
@pytest.mark.parametrize("seed", SEEDS)
def test_best_pairs_is_argmax(kernel, seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, size=7)
    ptr, q = np.concatenate([[0], np.cumsum(sizes)]), rng.integers(0, 3, size=sizes.sum()).astype(float)
    v, pair = np.empty(7), np.empty(7, dtype=np.int64)
    kernel(ptr, q, v, pair)
    assert pair.tolist() == [ptr[s] + np.argmax(q[ptr[s] : ptr[s + 1]]) for s in range(7)]
    assert v.tolist() == q[pair].tolist()


@both(bellman.first_sweep)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_sweep_takes_the_first_pair_of_the_largest_reward(kernel, seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, size=7)
    ptr, r = np.concatenate([[0], np.cumsum(sizes)]), rng.integers(-2, 2, size=sizes.sum()).astype(float)
    pair = np.full(7, -1)
    bounds = kernel(ptr, r, pair)
    assert pair.tolist() == [ptr[s] + np.argmax(r[ptr[s] : ptr[s + 1]]) for s in range(7)]
    assert bounds == (r[pair].min(), r[pair].max())


class Improved:
    """What `improve` writes, for states whose pairs begin at `ptr`."""

    def __init__(self, ptr, size):
        n = len(ptr) - 1
        self.change, self.pair, self.earned = np.full(n, np.nan), np.full(n, -1), np.full(n, np.nan)
        self.ptr, self.state, self.p = np.zeros(n + 1, dtype=np.int64), np.full(size, -1), np.full(size, np.nan)

    @property
    def out(self):
        return self.change, self.pair, Table(self.ptr, self.state, self.p, self.earned)

    def check(self, bounds, ptr, table, r, v):
        """Against r + p v in NumPy."""
        q = r + table @ v
        best = np.maximum.reduceat(q, ptr[:-1])
        assert self.change == pytest.approx(best - v, abs=1e-14)
        assert bounds == (self.change.min(), self.change.max())
        assert q[self.pair] == pytest.approx(best, abs=1e-14)
        assert np.all(ptr[:-1] <= self.pair) and np.all(self.pair < ptr[1:])
        chain = np.zeros((len(v), len(v)))
        for s in range(len(v)):
            part = slice(self.ptr[s], self.ptr[s + 1])
            np.add.at(chain[s], self.state[part], self.p[part])
        assert np.array_equal(chain, table[self.pair]) and np.array_equal(self.earned, r[self.pair])


STATES = np.array([0, 5, 9, 12, 20, 24, 30])  # where the pairs of each begin


@both(exact.improve)
@pytest.mark.parametrize("seed", SEEDS)
def test_improve_finds_the_change_of_each_state_and_the_chain_of_the_greedy_pairs(kernel, seed):
    rng = np.random.default_rng(seed)
    table, r, v = rng.dirichlet(np.full(6, 0.1), size=30), rng.random(30), rng.normal(size=6)
    table[table < 0.1] = 0.0
    rows, found = csr(table), Improved(STATES, 2 * 36)
    assert set(np.diff(rows[0])) > {1, 2}  # rows of different lengths
    found.check(kernel(STATES, Table(*rows, r), v, *found.out), STATES, table, r, v)


@both(exact.improve)
def test_improve_takes_the_first_of_equals_and_a_state_that_nothing_follows_keeps_its_reward(kernel):
    ptr, r, v = np.array([0, 3, 4, 6]), np.array([1.0, 2.0, 2.0, -np.inf, 0.0, 0.0]), np.array([0.0, 0.0, 7.0])
    rows, found = (np.zeros(7, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0)), Improved(ptr, 0)
    assert kernel(ptr, Table(*rows, r), v, *found.out) == (-np.inf, 2.0)
    assert found.pair.tolist() == [1, 3, 4] and found.change.tolist() == [2.0, -np.inf, -7.0]


@both(exact.longest_rows)
def test_longest_rows_add_up_to_the_longest_chain_of_a_policy(kernel):
    lengths = np.array([2, 0, 3, 1, 5, 5])
    assert kernel(np.array([0, 3, 4, 6]), np.concatenate([[0], np.cumsum(lengths)])) == 3 + 1 + 5


@both(exact.value_iteration)
@pytest.mark.parametrize("kind", ["dense", "weakly communicating", "cycle"])
@pytest.mark.parametrize("seed", range(8))
def test_value_iteration_bounds_the_optimal_gain_and_its_greedy_pairs_attain_it(kernel, kind, seed):
    p, r, _ = oracles.random_mdp(kind, seed, n_states=4, n_actions=2)
    pair_ptr, rows, pair = np.arange(0, 9, 2), csr(p.reshape(8, 4)), np.empty(4, dtype=np.int64)
    best = oracles.best_gain_by_enumeration(p, r, np.ones((4, 2), dtype=bool))
    v = np.zeros(4)
    for most in (1, 3):
        lower, upper, sweeps = kernel(pair_ptr, Table(*rows, r.ravel()), 0.9, 1e-11, most, most, v, pair)
        assert sweeps <= most
        assert lower - 1e-12 <= best.min() and best.max() <= upper + 1e-12
    if np.ptp(best) < 1e-12:
        lower, upper, sweeps = kernel(pair_ptr, Table(*rows, r.ravel()), 0.9, 1e-11, 10_000, 10_000, v, pair)
        assert upper - lower <= 1e-11
        gains, _ = oracles.exact_gain_and_bias(*oracles.chain_of(p, r, pair - pair_ptr[:-1]))
        assert gains == pytest.approx(best, abs=1e-10)


@both(exact.value_iteration)
def test_value_iteration_stops_when_a_sweep_is_slow(kernel):
    """On a ring of 60 states, news of the only reward takes 30 sweeps to get around."""
    p = 0.5 * (np.roll(np.eye(60), 1, axis=1) + np.roll(np.eye(60), -1, axis=1))
    rows, pair = Table(*csr(p), np.eye(60)[0].copy()), np.empty(60, dtype=np.int64)
    for patience, most, made in ((2, 20, 3), (7, 20, 8), (20, 20, 20)):
        assert kernel(np.arange(61), rows, 0.9, 1e-9, most, patience, np.zeros(60), pair)[2] == made


@both(chains.accumulate_rewards)
@pytest.mark.parametrize("seed", SEEDS)
def test_accumulated_rewards_are_sums_of_matrix_powers(kernel, seed):
    p, r = random_chain(seed)
    start = np.random.default_rng(seed).dirichlet(np.full(6, 0.2))
    expected = np.cumsum([start @ np.linalg.matrix_power(p, t) @ r for t in range(12)])
    x, earned, out = start.copy(), np.zeros(2), np.empty(12)
    kernel(Table(*csr(p), r), earned, x, out[:5])  # a run may be cut anywhere
    kernel(Table(*csr(p), r), earned, x, out[5:])
    assert out == pytest.approx(expected, rel=1e-13)
    assert x == pytest.approx(start @ np.linalg.matrix_power(p, 12), abs=1e-14)
    assert earned[0] == out[-1]


@both(chains.accumulate_rewards)
def test_a_hundred_thousand_tenths_make_ten_thousand(kernel):
    steps = 100_000
    out, earned = np.empty(steps), np.zeros(2)
    kernel(Table(*csr(np.eye(1)), np.array([0.1])), earned, np.ones(1), out)
    exact = steps * Fraction(0.1)
    assert abs(Fraction(float(out[-1])) - exact) <= Fraction(float(np.spacing(out[-1])))  # a plain sum is 1e-8 off
