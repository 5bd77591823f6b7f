"""Each kernel over sets of plausible rows, compiled and as plain Python, against duality, programs and corners."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from surefooted import planning
from surefooted.certificates.shelf import Shelf
from surefooted.kernels import rows as row_kernels
from surefooted.kernels import segments as backwards
from surefooted.kernels import sorting, value_iteration
from surefooted.kernels.anchored import Income, desk
from surefooted.kernels.structs import Book
from surefooted.sets.plausible import Plausible
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy

SAFE = 1e-12  # a bound may be this much on the wrong side of the exact answer, and no more
SEEDS = range(8)
forms = pytest.mark.parametrize("form", ["box", "ball"])


def both(kernel):
    return pytest.mark.parametrize("kernel", [kernel, kernel.py_func], ids=["compiled", "plain"])


def plain(r):
    """Rewards without anchors."""
    return Income(r, np.zeros(0), np.zeros(0))


def plausible(form, seed, n_states=None, n_actions=None, kind=None):
    """A random set, and an MDP in it."""
    kind = kind or ("dense", "sparse", "deterministic", "cycle")[seed % 4]
    p, r, available, fields = oracles.random_set(form, kind, seed, n_states, n_actions)
    mdp = TabularMDP.from_arrays(p, r, available)
    return Plausible(mdp.space, **fields), mdp


def ordered(v, sign, rng):
    """The states by decreasing sign * v with equals in any order, scratch space, their places, sums of v along them."""
    order, scratch = np.lexsort((rng.random(v.size), -sign * v)), np.full(2 * v.size + 1, -7)
    return sorting.Work(order, scratch, np.argsort(order), np.append(0.0, np.cumsum(v[order])), np.full(v.size, np.nan))


def some_values(seed, n):
    """A vector [S]: of any numbers, full of ties, constant, or flat but for one state."""
    rng = np.random.default_rng([7, seed])
    return (
        rng.normal(size=n),
        rng.integers(-1, 2, size=n).astype(float),
        np.full(n, rng.normal()),
        np.eye(n)[rng.integers(n)] * rng.choice([-3.0, 3.0]),
    )[seed % 4]


def one_row(states, low, room, unseen=0.0, width=-1.0):
    """A single row as the kernels take it."""
    slack = max(1 - sum(low), 0.0) if width < 0 else float(not states)
    return row_kernels.Rows(
        np.array([0]),
        np.array([len(states)]),
        np.array(states, dtype=np.int64),
        np.array(low, dtype=float),
        np.array(room, dtype=float),
        *(np.array([x], dtype=float) for x in (slack, unseen, width)),
    )


@both(row_kernels.extreme)
@pytest.mark.parametrize(
    ("row", "smallest", "largest"),
    [
        # v = (4, 3, 2, 1); boxes [.1, .5] and [.2, .3] on states 1 and 3, elsewhere at most .25
        ((([1, 3], [0.1, 0.2], [0.4, 0.1], 0.25)), 0.3 * 1 + 0.25 * 2 + 0.45 * 3, 0.25 * 4 + 0.5 * 3 + 0.05 * 2 + 0.2),
        # the same with nothing elsewhere: .2 finds no place, and goes where it harms the bound least: the first state
        ((([1, 3], [0.1, 0.2], [0.4, 0.1], 0.0)), 0.3 * 1 + 0.5 * 3 + 0.2 * 1, 0.5 * 3 + 0.3 * 1 + 0.2 * 4),
        # a ball of radius .6 around (0, .7, 0, .3): .3 moves to the best state, from the worst one
        ((([1, 3], [0.7, 0.3], [0.0, 0.0], 1.0, 0.6)), 0.4 * 3 + 0.6 * 1, 0.3 * 4 + 0.7 * 3),
        # never tried
        (([], [], [], 1.0), 1.0, 4.0),
        (([], [], [], 1.0, 0.1), 1.0, 4.0),
    ],
)
def test_extreme_by_hand(kernel, row, smallest, largest):
    v, rng = np.array([4.0, 3.0, 2.0, 1.0]), np.random.default_rng(0)
    assert kernel(one_row(*row), 0, v, ordered(v, -1, rng)) == pytest.approx(smallest, abs=1e-15)
    assert kernel(one_row(*row), 0, v, ordered(v, 1, rng)) == pytest.approx(largest, abs=1e-15)


@pytest.mark.first(24)
@both(row_kernels.extreme)
@forms
@pytest.mark.parametrize("n_states", range(1, 13))
def test_extreme_is_the_linear_program_and_never_on_its_unsafe_side(kernel, form, n_states):
    for seed in range(100 * n_states, 100 * n_states + 6):
        rng = np.random.default_rng(seed)
        space, _ = plausible(form, seed, n_states, 2 if n_states < 5 else 1)
        v = some_values(seed, n_states)
        for k, sign in itertools.product(range(space.space.n_pairs), (-1, 1)):
            found = kernel(space.rows, k, v, ordered(v, sign, rng))
            row = oracles.row_set(space, k)
            truth = oracles.extreme_mean(row, v, sign, exactly=True)
            assert sign * (found - truth) >= -SAFE  # never below the largest, never above the smallest
            assert found == pytest.approx(truth, abs=SAFE)
            if kernel is row_kernels.extreme and k < 3:
                program = oracles.extreme_mean_by_linear_program(row, v, sign)
                assert found == pytest.approx(program, abs=1e-8)  # as exact as the solver


@forms
@pytest.mark.parametrize("seed", SEEDS)
def test_extreme_is_the_best_of_all_corners(form, seed):
    space, _ = plausible(form, seed, 1 + seed % 4, 2)
    v, rng = some_values(seed // 2, space.space.n_states), np.random.default_rng(seed)
    for k in range(space.space.n_pairs):
        means = oracles.row_vertices(oracles.row_set(space, k)) @ v
        for sign, truth in ((-1, means.min()), (1, means.max())):
            assert row_kernels.extreme(space.rows, k, v, ordered(v, sign, rng)) == pytest.approx(truth, abs=SAFE)


@forms
@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_a_row_changes_no_bit_of_its_extreme_and_is_all_that_it_changes(form, seed):
    space, _ = plausible(form, seed, 9, 1, kind="dense")
    v, rng = some_values(seed, 9), np.random.default_rng(seed)
    order = ordered(v, -1, rng)
    for k in range(space.space.n_pairs):
        rows = space.rows
        first, last = rows.first[k], rows.last[k]
        stored = sorted(zip(rows.next_state[first:last], rows.low[first:last], rows.room[first:last], strict=True))
        value = row_kernels.extreme(rows, k, v, order)
        for _ in range(4):
            shuffle = first + rng.permutation(last - first)
            for array in (rows.next_state, rows.low, rows.room):
                array[first:last] = array[shuffle]
            assert row_kernels.extreme(rows, k, v, order) == value
        after = sorted(zip(rows.next_state[first:last], rows.low[first:last], rows.room[first:last], strict=True))
        assert after == stored


@both(sorting.rank_states)
@settings(derandomize=True, deadline=None, max_examples=100)
@given(data=st.data())
def test_rank_states_sorts_from_any_order(kernel, data):
    numbers = st.one_of(st.floats(-1e6, 1e6), st.integers(-2, 2).map(float))
    v = np.array(data.draw(st.lists(numbers, min_size=1, max_size=40)))
    order = np.array(data.draw(st.permutations(range(v.size))))
    sign = data.draw(st.sampled_from([-1.0, 1.0]))
    scratch, rank, prefix = np.empty_like(order), np.empty_like(order), np.empty(v.size + 1)
    kernel(v, sign, sorting.Work(order, scratch, rank, prefix, np.empty(0)))
    assert sorted(order) == list(range(v.size))
    assert np.all(np.diff(sign * v[order]) <= 0)
    assert np.array_equal(order[rank], np.arange(v.size))
    assert np.array_equal(prefix, [0.0, *itertools.accumulate(v[order], initial=0.0)][1:])


def some_policies(space, seed, n=3):
    """The uniform policy, a deterministic one, and randomised ones that leave actions out."""
    rng = np.random.default_rng([3, seed])
    sizes = np.diff(space.pair_ptr)
    policies = [Policy.uniform(space), Policy(space, pair=space.pair_ptr[:-1] + rng.integers(sizes))]
    for _ in range(n - 2):
        weights = rng.random(space.n_pairs) * (rng.random(space.n_pairs) < 0.7)
        weights[space.pair_ptr[:-1]] += 0.01
        policies.append(
            Policy(space, weights=weights / np.repeat(np.add.reduceat(weights, space.pair_ptr[:-1]), sizes))
        )
    return policies


def slow_values(space, policy, r, v, steps):
    """v, L v, .., L^steps v: what 0, .., steps steps earn at worst before v is collected."""
    values = [v]
    for _ in range(steps):
        values.append(oracles.robust_backup(space, policy.dense_weights, values[-1], -1, r))
    return np.array(values)


@both(value_iteration.step_back)
@forms
@pytest.mark.parametrize("seed", SEEDS)
def test_step_back_is_one_backup(kernel, form, seed):
    space, _ = plausible(form, seed)
    v = some_values(seed, space.space.n_states)
    for policy, sign in itertools.product(some_policies(space.space, seed), (-1.0, 1.0)):
        work = sorting.workspace(v.size)
        r = space.r_upper if sign > 0 else space.r_lower
        lower, upper = kernel(planning.played(policy), space.rows, r, sign, work, v)
        change = oracles.robust_backup(space, policy.dense_weights, v, sign) - v
        assert work.change == pytest.approx(change, abs=SAFE)
        assert (lower, upper) == (work.change.min(), work.change.max())


@both(backwards.play_backwards)
@forms
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("steps", [0, 1, 7])
def test_play_backwards_is_that_many_backups(kernel, form, seed, steps):
    space, _ = plausible(form, seed)
    start = some_values(seed, space.space.n_states)
    for policy in some_policies(space.space, seed):
        for r in (space.r_lower - 0.4, np.zeros(0)):
            v = start.copy()
            made = kernel(planning.played(policy), space.rows, plain(r), steps, -1.0, 10**9, desk(v.size), v)
            assert made == steps
            r = r if r.size else np.zeros(space.space.n_pairs)
            assert v == pytest.approx(slow_values(space, policy, r, start, steps)[-1], abs=steps * SAFE)


@both(backwards.play_backwards)
@forms
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("tolerance", "most"), [(0.5, 10**9), (3.0, 10**9), (0.0, 1), (0.1, 5)])
def test_extrapolation_is_never_too_high_and_loses_no_more_than_its_tolerance(kernel, form, seed, tolerance, most):
    steps = 12
    space, _ = plausible(form, seed)
    start = some_values(seed, space.space.n_states)
    policy = some_policies(space.space, seed)[seed % 3]
    for r in (space.r_lower - 0.4, space.r_lower + 0.4, np.zeros(0)):
        v = start.copy()
        kernel(planning.played(policy), space.rows, plain(r), steps, tolerance, most, desk(v.size), v)
        truth = slow_values(space, policy, r if r.size else np.zeros(space.space.n_pairs), start, steps)[-1]
        assert np.all(v <= truth + steps * SAFE)
        if most > steps:
            assert np.all(v >= truth - tolerance - steps * SAFE)
        if not r.size:
            assert v.min() >= start.min() - steps * SAFE  # what nobody earns nobody loses


def test_play_backwards_of_a_million_steps_takes_few_sweeps_and_loses_less_than_its_tolerance():
    mdp = TabularMDP.from_arrays([[[0.9, 0.1]], [[0.2, 0.8]]], [[1.0], [0.25]])  # gain 2/3 + 1/3 / 4 = 0.75
    rows, policy, v = Plausible.exactly(mdp).rows, Policy.always(mdp.space, 0), np.zeros(2)
    made = backwards.play_backwards(planning.played(policy), rows, plain(mdp.r.copy()), 10**6, 1e-3, 200, desk(2), v)
    # sweep n + 1 changes the two states by amounts that differ by 0.7^n 0.75, which must be 1e-9 or less
    assert made == 1 + int(np.ceil(np.log(0.75e9) / -np.log(0.7)))
    # n steps earn 0.75 n + h - P^n h; h0 - h1 = (1 - 0.25) / 0.3 = 2.5 and 2/3 h0 + 1/3 h1 = 0, so that P^n h is 0
    truth = 0.75e6 + np.array([2.5 / 3, -5 / 3])
    assert np.all(v <= truth + 1e-6) and np.all(v >= truth - 1e-3)


@both(backwards.play_backwards)
@pytest.mark.parametrize("shift", [0.0, -0.75])  # more is earned than needed, or less
def test_an_extrapolation_on_a_cycle_by_hand(kernel, shift):
    """Two states in turn, one pays: entries never change alike, and 1000 steps earn 500 from either."""
    mdp = TabularMDP.from_arrays([[[0.0, 1.0]], [[1.0, 0.0]]], [[1.0], [0.0]])
    rows, policy, v = Plausible.exactly(mdp).rows, Policy.always(mdp.space, 0), np.zeros(2)
    made = kernel(planning.played(policy), rows, plain(mdp.r + shift), 1000, 1e-3, 50, desk(2), v)
    assert made == 50 + 1  # half a step away, there is an u whose entries change alike
    truth = 500 + 1000 * shift
    assert np.all(v <= truth + 1e-9) and np.all(v >= truth - 2)


def affordable(losses, budget):
    """The largest n such that none of the losses 1, .., n exceeds the budget."""
    return next((m for m, loss in enumerate(losses) if loss > budget), len(losses))


@both(backwards.affordable_steps)
@forms
@pytest.mark.parametrize("seed", SEEDS)
def test_affordable_steps_is_the_largest_number_that_no_stop_makes_too_dear(kernel, form, seed):
    space, _ = plausible(form, seed)
    n, most, rng = space.space.n_states, 9, np.random.default_rng(seed)
    terminal, v = some_values(seed, n), some_values(seed, n)
    v = v if seed % 2 else np.zeros(n)
    policy = some_policies(space.space, seed)[seed % 3]
    for shift in (-0.2, 0.1, 0.4, 1.0):
        r = space.r_lower - shift
        losses = (terminal - slow_values(space, policy, r, v, most)[1:]).max(axis=1)
        ranked = np.unique(np.round(losses, 9))
        between = ranked[:-1] + np.diff(ranked) * rng.uniform(0.2, 0.8)
        for budget in (*between, ranked[0] - 1, ranked[-1] - 1e-7, ranked[-1] + 1e-7):
            kept = v.copy()
            lists = planning.played(policy)
            found, sweeps, *cost = kernel(lists, space.rows, plain(r), budget, 0.0, most, terminal, kept)
            assert 1 <= sweeps <= min(found + 1, most)
            assert found == affordable(losses, budget)
            assert cost[0] == pytest.approx(max([0.0, *losses[:found]]), abs=1e-11)
            assert found == most or cost[1] == pytest.approx(losses[found], abs=1e-11)
            assert np.array_equal(kept, v)


@both(backwards.affordable_steps)
@forms
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tolerance", [0.1, 2.0])
def test_affordable_steps_when_extrapolated_are_never_too_many_nor_too_few_by_more_than_the_tolerance(
    kernel, form, seed, tolerance
):
    space, _ = plausible(form, seed)
    n, most, rng = space.space.n_states, 20, np.random.default_rng(seed)
    terminal = v = some_values(seed, n)
    policy = some_policies(space.space, seed)[seed % 3]
    for shift in (-0.2, 0.4, 1.0):
        r = space.r_lower - shift
        losses = (terminal - slow_values(space, policy, r, v, most)[1:]).max(axis=1)
        for budget in rng.uniform(losses.min() - 0.1, losses.max() + 0.1, size=3):
            lists = planning.played(policy)
            found, sweeps, *cost = kernel(lists, space.rows, plain(r), budget, tolerance, most, terminal, v)
            assert 1 <= sweeps <= min(found + 1, most)
            assert affordable(losses, budget - tolerance - 1e-9) <= found <= affordable(losses, budget + 1e-9)
            assert max([0.0, *losses[:found]]) - 1e-9 <= cost[0] <= max(budget, 0.0) + 1e-9
            assert found == most or cost[1] > budget


@both(backwards.affordable_steps)
@pytest.mark.parametrize("loss", [1e-15, 1e-17, 1e-18, 1e-30, 1e-300, 5e-324])
def test_a_loss_too_small_to_matter_stops_nobody(kernel, loss):
    mdp = TabularMDP.from_arrays(np.ones((1, 1, 1)), np.zeros((1, 1)))
    lists, rows = planning.played(Policy.always(mdp.space, 0)), Plausible.exactly(mdp).rows
    nothing = np.zeros(1)
    steps, sweeps, cost, _ = kernel(lists, rows, plain(np.array([-loss])), 100.0, 1e-3, 50, nothing, nothing)
    assert (steps, sweeps) == (50, 1) and cost == pytest.approx(50 * loss, rel=1e-9, abs=0)


@both(backwards.affordable_steps)
@pytest.mark.parametrize(
    ("budget", "steps", "cost"), [(1.0, 4, (1.0, 1.25)), (1.1, 4, (1.0, 1.25)), (0.2, 0, (0, 0.25))]
)
def test_affordable_steps_by_hand(kernel, budget, steps, cost):
    """A quarter is lost at each step: a loss of just the budget is affordable, and more is not."""
    mdp = TabularMDP.from_arrays(np.ones((1, 1, 1)), np.zeros((1, 1)))
    lists, rows = planning.played(Policy.always(mdp.space, 0)), Plausible.exactly(mdp).rows
    found = kernel(lists, rows, plain(np.array([-0.25])), budget, 1e-3, 50, np.zeros(1), np.zeros(1))
    assert found == (steps, 1, *cost)


@both(backwards.affordable_steps)
@pytest.mark.parametrize("tolerance", [0.0, 100.0])
def test_what_one_state_earns_does_not_pay_for_another(kernel, tolerance):
    mdp = TabularMDP.from_arrays(np.eye(2)[:, None], np.zeros((2, 1)))  # each state is left to itself
    lists, rows = planning.played(Policy.always(mdp.space, 0)), Plausible.exactly(mdp).rows
    r, nothing = np.array([-0.125, 0.25]), np.zeros(2)
    steps, _, *cost = kernel(lists, rows, plain(r), 0.4, tolerance, 20, nothing, nothing)
    assert steps == 3 and cost == [0.375, 0.5]


def book_of(policies, segments):
    """Policies, the baseline first, and segments (policy, steps), as the kernels take them."""
    shelf = Shelf(policies, policies[0])
    place = shelf.places(np.arange(len(policies)))
    assert place.tolist() == list(range(len(policies)))
    return Book(*shelf.lists(), *np.array(segments, dtype=np.int64).reshape(-1, 2).T.copy())


def some_book(space, seed):
    rng = np.random.default_rng([5, seed])
    policies = some_policies(space, seed, 4)
    segments = [(int(rng.integers(4)), int(rng.integers(0, 6))) for _ in range((5, 3, 4, 2, 1, 0)[seed % 6])]
    return policies, segments, book_of(policies, segments)


@both(backwards.induct)
@forms
@pytest.mark.parametrize("seed", SEEDS)
def test_induct_is_the_composition_of_its_segments(kernel, form, seed):
    space, _ = plausible(form, seed)
    policies, segments, book = some_book(space.space, seed)
    rng, n = np.random.default_rng(seed), space.space.n_states
    r, (bias, left, v) = space.r_lower - 0.4, rng.normal(size=(3, n))
    truth = v
    for q, steps in reversed(segments):
        if q == 0:
            drift = slow_values(space, policies[0], 0 * r, truth - left, steps)[-1]
            truth = bias + drift
        else:
            truth = slow_values(space, policies[q], r, truth, steps)[-1]
    made = kernel(book, space.rows, plain(r), bias, left, -1.0, 10**9, v)
    assert v == pytest.approx(truth, abs=1e-10) and made == sum(steps for _, steps in segments)


@forms
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("tolerance", "most"), [(0.0, 10**9), (1.0, 10**9), (0.0, 2)])
def test_induct_is_below_what_the_segments_earn_in_any_mdp_of_the_set(form, seed, tolerance, most):
    space, mdp = plausible(form, seed, kind="dense")
    policies, segments, book = some_book(space.space, seed)
    p, r, _ = mdp.to_arrays()
    chains = [oracles.mixed_chain(p, r, policy.probabilities) for policy in policies]
    gains, bias = oracles.gain_and_bias(*chains[0])
    v = np.random.default_rng(seed).normal(size=mdp.n_states)
    earned = v
    for q, steps in reversed(segments):
        for _ in range(steps):
            earned = chains[q][1] - gains[0] + chains[q][0] @ earned
    backwards.induct(book, space.rows, plain(space.r_lower - gains[0]), bias, bias, tolerance, most, v)
    assert np.all(v <= earned + 1e-10)


@both(backwards.segment_losses)
@forms
@pytest.mark.parametrize("seed", SEEDS)
def test_segment_losses_are_the_largest_falls_below_the_bias(kernel, form, seed):
    space, _ = plausible(form, seed)
    policies, segments, book = some_book(space.space, seed)
    r, (bias, left) = space.r_lower - 0.4, np.random.default_rng(seed).normal(size=(2, space.space.n_states))
    losses = np.full(len(segments), np.nan)
    kernel(book, space.rows, plain(r), bias, left, 0.0, 10**9, losses)
    truth = [(left - slow_values(space, policies[q], r, bias, steps)[-1]).max() if q else 0.0 for q, steps in segments]
    assert losses == pytest.approx(np.array(truth), abs=1e-10)


def plain_iteration(space, epsilon, most, v, damping=value_iteration.DAMPING):
    """Extended value iteration with nothing left out: bounds, sweeps and greedy pairs."""
    work, ptr = sorting.workspace(v.size), space.space.pair_ptr
    for sweep in range(1, most + 1):
        sorting.rank_states(v, 1.0, work)
        values = [space.r_upper[k] + row_kernels.extreme(space.rows, k, v, work) for k in range(space.space.n_pairs)]
        pair = [ptr[s] + int(np.argmax(values[ptr[s] : ptr[s + 1]])) for s in range(v.size)]
        change = np.array([values[k] for k in pair]) - v
        if np.ptp(change) <= epsilon or sweep == most:
            return change.min(), change.max(), sweep, np.array(pair)
        value_iteration.move_damped(change, damping, v)
    raise AssertionError


@both(value_iteration.optimistic_iteration)
@forms
@pytest.mark.parametrize("seed", range(16))
def test_leaving_pairs_out_changes_no_bit(kernel, form, seed):
    space, _ = plausible(form, seed, 2 + seed % 7, 2 + seed % 4)
    n, rng, plain = space.space.n_states, np.random.default_rng(seed), value_iteration.PLAIN_SWEEPS - 1
    for start in (np.zeros(n), 3 * rng.normal(size=n), some_values(seed, n)):
        for epsilon, most in ((1e-2, plain), (1e-12, plain), (1e-12, 1), (1e-12, 2)):
            ours, theirs, pair = start.copy(), start.copy(), np.zeros(n, dtype=np.int64)
            found = kernel(space.space.pair_ptr, tuple(space.rows), space.r_upper, epsilon, most, ours, pair)
            *expected, greedy = plain_iteration(space, epsilon, most, theirs)
            assert found == tuple(expected) and np.array_equal(ours, theirs) and np.array_equal(pair, greedy)


@both(value_iteration.write_row)
@forms
@pytest.mark.parametrize("seed", SEEDS)
def test_write_row_writes_the_row_of_the_set_that_extreme_takes(kernel, form, seed):
    space, _ = plausible(form, seed)
    v, rng = some_values(seed, space.space.n_states), np.random.default_rng(seed)
    for k, sign in itertools.product(range(space.space.n_pairs), (-1.0, 1.0)):
        work, state, p = ordered(v, sign, rng), np.full(40, -1), np.full(40, np.nan)
        end = kernel(space.rows, k, 0.25, work, 3, state, p)
        row = np.zeros(v.size)
        np.add.at(row, state[3:end], 4 * p[3:end])
        assert row.min() >= -SAFE and row.sum() == pytest.approx(1.0, abs=SAFE)
        low, high = space.rows.low, space.rows.low + space.rows.room
        stored = slice(space.rows.first[k], space.rows.last[k])
        if form == "box":
            inside, most = space.rows.next_state[stored], np.full(v.size, space.rows.unseen[k])
            most[inside] = high[stored]
            assert np.all(row[inside] >= low[stored] - SAFE) and np.all(row <= most + SAFE)
        assert row @ v == pytest.approx(row_kernels.extreme(space.rows, k, v, work), abs=SAFE)
        assert np.isnan(p[:3]).all() and np.isnan(p[end:]).all()


@both(value_iteration.frozen_sweeps)
@forms
@pytest.mark.parametrize("seed", SEEDS)
def test_one_frozen_sweep_is_one_backup(kernel, form, seed):
    space, _ = plausible(form, seed)
    v = some_values(seed, space.space.n_states)
    for policy, sign in itertools.product(some_policies(space.space, seed), (-1.0, 1.0)):
        work, lists = sorting.workspace(v.size), planning.played(policy)
        r = space.r_upper if sign > 0 else space.r_lower
        value_iteration.step_back(lists, space.rows, r, sign, work, v)  # sorts the rows
        u = v.copy()
        moved = kernel(lists, space.rows, r, work, 1.0, -1.0, 1, u)
        backup = v + work.change
        assert u == pytest.approx(backup - backup[0], abs=1e-12)
        assert moved == pytest.approx(np.ptp(u - v), abs=1e-12)


@pytest.mark.parametrize("kind", ["box", "ball"])
def test_slow_chains_are_solved_with_few_sweeps_and_right_bounds(kind):
    """A long walk whose only reward is at its far end: plain value iteration takes thousands of sweeps."""
    n = 60
    p = np.zeros((n, 2, n))
    for s in range(n):
        p[s, 0, max(s - 1, 0)], p[s, 1, min(s + 1, n - 1)] = 0.6, 0.6
        p[s, :, s] += 0.4
    r = np.zeros((n, 2))
    r[-1, 1], r[0, 0] = 1.0, 0.3
    mdp = TabularMDP.from_arrays(p, r)
    known = Plausible.exactly(mdp)
    if kind == "ball":
        known = Plausible(
            mdp.space, mdp.r, mdp.r, mdp.next_ptr, mdp.next_state, mdp.p, mdp.p, np.zeros(2 * n), np.zeros(2 * n)
        )
    plan = planning.optimistic_gain(known, 1e-6)
    assert plan.converged and plan.sweeps < 250
    assert plan.lower - 1e-9 <= 1.0 <= plan.upper + 1e-9
    stay = planning.policy_gain(known, Policy.always(mdp.space, 0), 1e-6)
    assert stay.converged and stay.lower - 1e-9 <= 0.3 <= stay.upper + 1e-9


@pytest.mark.parametrize("unseen", [0.0, 1e-21, 1e-30, 1e-300, 5e-324])
def test_successors_that_are_next_to_impossible_do_no_harm(unseen):
    """slack / unseen can be more than any integer."""
    n = 50
    p = np.zeros((n, 1, n))
    for s in range(n):
        p[s, 0, s], p[s, 0, (s + 1) % n] = 0.5, 0.5
    mdp = TabularMDP.from_arrays(p, np.eye(n)[:, :1])
    low = np.maximum(mdp.p - 0.1, 0.0)
    known = Plausible(mdp.space, mdp.r, mdp.r, mdp.next_ptr, mdp.next_state, low, mdp.p + 0.1, np.full(n, unseen))
    plan = planning.policy_gain(known, Policy.always(mdp.space, 0), 1e-6)
    assert (
        plan.sweeps > value_iteration.PLAIN_SWEEPS
        and plan.lower <= 1 / n <= planning.optimistic_gain(known, 1e-6).upper
    )


def test_asking_twice_changes_no_bit():
    """Whatever was asked in between: rows are summed in an order that depends on the values alone."""
    for seed in range(12):
        space, _ = plausible("box", seed, 6, 3)
        first = planning.optimistic_gain(space, 1e-9)
        planning.policy_gain(space, Policy.uniform(space.space), 1e-9)
        again = planning.optimistic_gain(space, 1e-9)
        assert np.array_equal(first.bias, again.bias) and first.policy == again.policy


@both(sorting.sort_row)
@pytest.mark.parametrize("n", [0, 1, 2, 9, 32, 33, 34, 60, 300])
def test_sort_row_sorts_its_part_and_nothing_else(kernel, n):
    for seed, mess in itertools.product(range(5), (0.0, 0.05, 1.0)):  # sorted, nearly sorted, not at all
        rng = np.random.default_rng([n, seed])
        rank, size = rng.permutation(400), n + 7
        state = np.sort(rng.choice(400, size=size, replace=False))
        state[3 : 3 + n] = state[3 : 3 + n][np.argsort(rank[state[3 : 3 + n]])]
        for _ in range(int(mess * n)):
            i, j = 3 + rng.integers(n, size=2)
            state[[i, j]] = state[[j, i]]
        low, room, before = state / 2.0, state * 3.0, state.copy()
        kernel(3, 3 + n, rank, state, low, room, np.full(801, -7))
        wanted = before.copy()
        wanted[3 : 3 + n] = before[3 : 3 + n][np.argsort(rank[before[3 : 3 + n]])]
        assert np.array_equal(state, wanted) and np.array_equal(low, state / 2.0) and np.array_equal(room, state * 3.0)


@both(sorting.sort_row)
@pytest.mark.parametrize("n_states", [100, 3_000, 50_000])
def test_ranks_that_lie_close_together_are_sorted_as_well(kernel, n_states):
    rng = np.random.default_rng(n_states)
    for ranks in (np.arange(100), n_states - 1 - np.arange(100), np.r_[np.arange(99), n_states - 1]):
        state, rank = rng.permutation(100), np.zeros(n_states, dtype=np.int64)
        rank[:100] = rng.permutation(ranks)
        low, room = state / 2.0, state * 3.0
        kernel(0, 100, rank, state, low, room, np.empty(2 * n_states + 1, dtype=np.int64))
        assert np.array_equal(rank[state], np.sort(ranks))
        assert np.array_equal(low, state / 2.0) and np.array_equal(room, state * 3.0)


@both(sorting.spread_row)
@pytest.mark.parametrize("lowest", [0, 5_000])
def test_a_row_spread_by_rank_is_nearly_sorted(kernel, lowest):
    """Wherever its ranks lie: here between `lowest` and `lowest` + 999."""
    rng, n = np.random.default_rng(0), 200
    rank, state = rng.permutation(1_000) + lowest, rng.permutation(1_000)[: n + 2]
    rank[state[[1, 2]]] = lowest, lowest + 999
    low, room, ends = state / 2.0, state * 3.0, state[[0, -1]].tolist()
    kernel(1, 1 + n, rank, state, low, room, np.empty(2_001, dtype=np.int64))
    part = (rank[state[1:-1]] - lowest) * n // 1_000
    assert np.all(np.diff(part) >= 0) and state[[0, -1]].tolist() == ends
    assert np.array_equal(low, state / 2.0) and np.array_equal(room, state * 3.0)
    assert np.sum(np.diff(rank[state[1:-1]]) < 0) < n / 3


@both(sorting.spread_row)
def test_a_row_that_is_nearly_sorted_is_not_spread(kernel):
    state = np.arange(80)
    state[[10, 11]] = 11, 10
    low, room, before = state / 2.0, state * 3.0, state.copy()
    kernel(0, 80, np.arange(80), state, low, room, np.empty(161, dtype=np.int64))
    assert np.array_equal(state, before)


@both(row_kernels.ball_ceiling)
@pytest.mark.parametrize("seed", range(24))
def test_a_ceiling_is_above_every_row_of_a_ball(kernel, seed):
    space, _ = plausible("ball", seed, 2 + seed % 6)
    v, rng = some_values(seed, space.space.n_states), np.random.default_rng(seed)
    for k in range(space.space.n_pairs):
        found = kernel(space.rows, k, v, v.max())
        assert found >= row_kernels.extreme(space.rows, k, v, ordered(v, 1.0, rng)) - SAFE
        assert found <= v.max() + (v.max() - v.min()) + SAFE


@both(row_kernels.ball_ceiling)
def test_a_ceiling_by_hand(kernel):
    # v = (4, 3, 2, 1); a ball of width .6 around all in state 2: .3 moves from there to the best
    v, ball = np.array([4.0, 3.0, 2.0, 1.0]), one_row([2], [1.0], [0.0], 1.0, 0.6)
    assert kernel(ball, 0, v, 4.0) == pytest.approx(2.0 + 0.3 * 2.0)
    # around one half each in states 1 and 3: the whole .3 comes from state 3
    ball = one_row([1, 3], [0.5, 0.5], [0.0, 0.0], 1.0, 0.6)
    assert kernel(ball, 0, v, 4.0) == pytest.approx(2.0 + 0.3 * 3.0)
    assert kernel(one_row([], [], [], 1.0, 0.6), 0, v, 4.0) == 4.0  # never tried
