"""Rows with many successors, which are read along the order of all states: against duality and linear programs."""

import itertools
from dataclasses import fields

import numpy as np
import pytest

import oracles
from surefooted import planning
from surefooted.kernels import dense, sorting, value_iteration
from surefooted.kernels import rows as row_kernels
from surefooted.kernels.dense import Dense
from surefooted.sets.plausible import Plausible
from surefooted.tables.policy import Policy
from test_robust import SAFE, both, forms, one_row, ordered, plain_iteration, plausible, some_values

SIZES = (18, 23, 30, 40)  # of state spaces: a row of 17 successors may be dense


def kinds(space):
    """Which rows of a set are dense, and which of these store all states."""
    n, sizes = space.space.n_states, space.rows.last - space.rows.first
    return (sizes > sorting.LONG) & (dense.DENSE * sizes >= n), sizes == n


@both(dense.dense_extreme)
@pytest.mark.parametrize(
    ("row", "smallest", "largest"),
    [
        # v = (4, 3, 2, 1); boxes [.1, .5] and [.2, .3] on states 1 and 3, elsewhere at most .25
        (([3, 1], [0.2, 0.1], [0.1, 0.4], 0.25), 0.3 * 1 + 0.25 * 2 + 0.45 * 3, 0.25 * 4 + 0.5 * 3 + 0.05 * 2 + 0.2),
        # nothing elsewhere: .2 finds no place, and goes where it harms the bound least: the first state
        (([1, 3], [0.1, 0.2], [0.4, 0.1], 0.0), 0.3 * 1 + 0.5 * 3 + 0.2 * 1, 0.5 * 3 + 0.3 * 1 + 0.2 * 4),
        # all states: .1 each, and .3 more at most
        (([0, 1, 2, 3], [0.1] * 4, [0.3] * 4, 1.0), 1.0 + 0.3 + 2 * 0.3, 1.0 + 4 * 0.3 + 3 * 0.3),
        # a ball of radius .6 around (0, .7, 0, .3): .3 moves to the best state, from the worst one
        (([1, 3], [0.7, 0.3], [0.0, 0.0], 1.0, 0.6), 0.4 * 3 + 0.6 * 1, 0.3 * 4 + 0.7 * 3),
        # a ball of radius .6 around (.8, .1, .1, 0), all stored: only .2 can move up, .3 down
        (([0, 1, 2, 3], [0.8, 0.1, 0.1, 0.0], [0.0] * 4, 1.0, 0.6), 0.5 * 4 + 0.3 + 0.2 + 0.3, 4.0),
    ],
)
def test_dense_extreme_by_hand(kernel, row, smallest, largest):
    v, rng, rows = np.array([4.0, 3.0, 2.0, 1.0]), np.random.default_rng(0), one_row(*row)
    given = Dense(0, len(row[0]), rows.slack[0], rows.unseen[0], rows.width[0])
    for garbage, (sign, wanted) in itertools.product((-9, 0, 1, 77), ((-1, smallest), (1, largest))):
        work = ordered(v, sign, rng)
        arrays = rows.next_state.copy(), rows.low.copy(), rows.room.copy()
        place = np.full(4, garbage)
        found = kernel(given, *arrays, v, work.order, work.rank, place, -np.inf)
        assert found == pytest.approx(wanted, abs=1e-15)
        if sign > 0:
            assert kernel(given, *arrays, v, work.order, work.rank, place, found - 1e-9) == found


@both(row_kernels.extreme)
@forms
@pytest.mark.parametrize("n_states", SIZES)
def test_a_dense_extreme_is_the_linear_program_and_never_on_its_unsafe_side(kernel, form, n_states):
    seen = np.zeros(2, dtype=int)
    for seed in range(n_states, n_states + 4):
        rng = np.random.default_rng(seed)
        space, _ = plausible(form, seed, n_states, 2, kind="dense")
        v, (is_dense, is_full) = some_values(seed, n_states), kinds(space)
        seen += [np.sum(is_dense & ~is_full), np.sum(is_dense & is_full)]
        for k, sign in itertools.product(np.flatnonzero(is_dense)[:12], (-1, 1)):
            found = kernel(space.rows, k, v, ordered(v, sign, rng))
            row = oracles.row_set(space, k)
            truth = oracles.extreme_mean(row, v, sign, exactly=True)
            assert sign * (found - truth) >= -SAFE
            assert found == pytest.approx(truth, abs=SAFE)
            if kernel is row_kernels.extreme and seed == n_states:
                assert found == pytest.approx(oracles.extreme_mean_by_linear_program(row, v, sign), abs=1e-6)
    assert np.all(seen > 0)


@both(row_kernels.extreme_from)
@pytest.mark.parametrize(("form", "n_states"), [("box", 6), ("box", 12), ("box", 23), ("ball", 23)])
def test_what_is_not_enough_is_a_bound(kernel, form, n_states):
    cheaper = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        space, _ = plausible(form, seed, n_states, 2, kind="dense")
        v = some_values(seed, n_states)
        for k in range(space.space.n_pairs):
            exact = row_kernels.extreme(space.rows, k, v, ordered(v, 1, rng))
            for enough in exact + np.array([-1.0, -1e-9, 1e-9, 0.1, 1.0, 10.0]):
                if not kinds(space)[0][k]:  # no longer sorted
                    for array in (space.rows.next_state, space.rows.low, space.rows.room):
                        stored = array[space.rows.first[k] : space.rows.last[k]]
                        stored[:] = stored[::-1].copy()
                found = kernel(space.rows, k, v, ordered(v, 1, rng), enough)
                assert found == pytest.approx(exact, abs=SAFE) or exact - SAFE <= found < enough
                cheaper += found > exact + 1e-6
    assert cheaper > 0


@forms
def test_rows_of_all_states_begin_in_their_order(form):
    space, _ = plausible(form, 0, 18, 2, kind="dense")
    full, found = kinds(space)[1], Plausible(**{field.name: getattr(space, field.name) for field in fields(space)})
    assert full.any() and not full.all()
    for k in range(space.space.n_pairs):
        stored, given = (
            slice(*ends) for ends in ((found.rows.first[k], found.rows.last[k]), found.next_ptr[k : k + 2])
        )
        if full[k]:
            assert np.array_equal(found.rows.next_state[stored], np.arange(18))
        theirs = (found.next_state, found.p_lower, found.p_upper - found.p_lower)
        ours = (found.rows.next_state, found.rows.low, found.rows.room)
        assert sorted(zip(*(a[stored] for a in ours), strict=True)) == sorted(
            zip(*(a[given] for a in theirs), strict=True)
        )


@both(value_iteration.optimistic_iteration)
@forms
@pytest.mark.parametrize("seed", range(4))
def test_leaving_pairs_of_dense_rows_out_changes_no_bit(kernel, form, seed):
    n = SIZES[seed]
    space, _ = plausible(form, seed, n, 3, kind="dense")
    damping = 1.0 if kinds(space)[0].mean() > 0.5 else value_iteration.DAMPING  # dense rows mix at once
    for start in (np.zeros(n), np.random.default_rng(seed).normal(size=n)):
        for epsilon, most in ((1e-2, value_iteration.PLAIN_SWEEPS - 1), (1e-12, 5)):
            ours, theirs, pair = start.copy(), start.copy(), np.zeros(n, dtype=np.int64)
            found = kernel(space.space.pair_ptr, tuple(space.rows), space.r_upper, epsilon, most, ours, pair)
            *expected, greedy = plain_iteration(space, epsilon, most, theirs, damping)
            assert found == tuple(expected) and np.array_equal(ours, theirs) and np.array_equal(pair, greedy)


@both(value_iteration.write_row)
@forms
@pytest.mark.parametrize("n", SIZES)
def test_write_row_writes_the_dense_row_that_extreme_takes(kernel, form, n):
    space, _ = plausible(form, n, n, 2, kind="dense")
    v, rng, before = some_values(0, n), np.random.default_rng(n), space.rows.next_state.copy()
    for k, sign in itertools.product(np.flatnonzero(kinds(space)[0]), (-1.0, 1.0)):
        work, state, p = ordered(v, sign, rng), np.full(3 * n, -1), np.full(3 * n, np.nan)
        end = kernel(space.rows, k, 0.25, work, 3, state, p)
        row, stored = np.zeros(n), slice(space.rows.first[k], space.rows.last[k])
        np.add.at(row, state[3:end], 4 * p[3:end])
        assert row.min() >= -SAFE and row.sum() == pytest.approx(1.0, abs=SAFE)
        assert np.array_equal(space.rows.next_state[stored], before[stored])
        written = work.rank[state[3 : 3 + stored.stop - stored.start]]
        assert np.all(np.diff(written) > 0)
        assert row @ v == pytest.approx(row_kernels.extreme(space.rows, k, v, work), abs=SAFE)
        before = space.rows.next_state.copy()


@both(dense.mean_of_many)
def test_four_sums_are_one(kernel):
    rng = np.random.default_rng(0)
    for n in range(10):
        state, low, v = rng.permutation(n + 2), rng.random(n + 2), rng.normal(size=n + 2)
        assert kernel(1, 1 + n, state, low, v) == pytest.approx(low[1 : 1 + n] @ v[state[1 : 1 + n]], abs=1e-14)


def test_asking_twice_changes_no_bit_of_dense_rows_either():
    for seed, form in itertools.product(range(4), ("box", "ball")):
        space, _ = plausible(form, seed, SIZES[seed], 3, kind="dense")
        first = planning.optimistic_gain(space, 1e-9)
        planning.policy_gain(space, Policy.uniform(space.space), 1e-9)
        again = planning.optimistic_gain(space, 1e-9)
        assert np.array_equal(first.bias, again.bias) and first.policy == again.policy
