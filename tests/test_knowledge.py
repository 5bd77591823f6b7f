"""Knowledge: the same set where nothing is known, a smaller one where something is, and sentences where it is wrong."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
import surefooted as sf
from surefooted import planning
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.kernels import intervals, rewards, shared_noise, successors
from surefooted.knowledge import wording
from surefooted.knowledge.contradictions import impossible_steps
from surefooted.knowledge.informed_set import InformedSet
from surefooted.knowledge.knowledge import Knowledge
from surefooted.knowledge.mechanics import Mechanics
from surefooted.problems import garnet, gridworld, inventory, maintenance, riverswim
from surefooted.sets.confidence import bernstein, hoeffding, likelihood, simplified_bernstein
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Space

ALL = (likelihood, bernstein, simplified_bernstein)
VALID = (likelihood, bernstein)
FIELDS = ("r_lower", "r_upper", "next_ptr", "next_state", "p_lower", "p_upper", "unseen")
nan = np.nan
kinds = pytest.mark.parametrize("kind", ALL, ids=lambda function: function.__name__)
valid = pytest.mark.parametrize("kind", VALID, ids=lambda function: function.__name__)
quick = settings(derandomize=True, deadline=None, max_examples=40)

# Three states, two actions, but only one in state 1: K = 5; r_max = 2.
SPACE = Space.from_available(np.array([[1, 1], [1, 0], [1, 1]], dtype=bool), 2.0)


def sampled(problem, n, seed, bounded=True, stages=1):
    """Counts of n steps with pairs chosen at random."""
    rng, space = np.random.default_rng(seed), problem.space
    counts, s = Counts(space, bounded, stages), problem.start
    pairs, rewards, after = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n, dtype=np.int64)
    for t in range(n):
        k = int(rng.integers(space.pair_ptr[s], space.pair_ptr[s + 1]))
        rewards[t], s = problem.mdp.draw(rng, k)
        pairs[t], after[t] = k + space.n_pairs * (t % stages), s
    counts.add_steps(pairs, rewards, after)
    return counts


def read(known, *question):
    """The set and the conflicts."""
    return known.plausible(*question), known.conflicts(*question)


def same(one, other):
    for name in FIELDS:
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert one.stages == other.stages and one.width is None and other.width is None


def dense(plausible, k):
    """lower [S] and upper [S] of row k."""
    lower, upper = np.zeros(plausible.space.n_states), np.full(plausible.space.n_states, plausible.unseen[k])
    row = slice(plausible.next_ptr[k], plausible.next_ptr[k + 1])
    lower[plausible.next_state[row]], upper[plausible.next_state[row]] = plausible.p_lower[row], plausible.p_upper[row]
    return lower, upper


def well_formed(plausible):
    top = plausible.space.r_max
    assert np.all((plausible.r_lower >= 0) & (plausible.r_lower <= plausible.r_upper) & (plausible.r_upper <= top))
    assert np.all((plausible.p_lower >= 0) & (plausible.p_lower <= plausible.p_upper) & (plausible.p_upper <= 1))
    for k in range(plausible.n_rows):
        lower, upper = dense(plausible, k)
        assert lower.sum() <= 1 + 1e-9 and upper.sum() >= 1 - 1e-9
        assert np.unique(plausible.next_state[plausible.next_ptr[k] : plausible.next_ptr[k + 1]]).size == (
            plausible.next_ptr[k + 1] - plausible.next_ptr[k]
        )


# Nothing is known


@kinds
@pytest.mark.parametrize("stages", [1, 3])
def test_without_knowledge_the_set_is_that_of_the_confidence_function(kind, stages):
    for problem, n in ((garnet(5, 2, 3), 0), (garnet(5, 2, 3), 700), (riverswim(noise=Noise("uniform", 0.3)), 300)):
        counts = sampled(problem, n, 1, stages=stages)
        plausible, conflicts = read(Knowledge(problem.space), kind, counts, 0.07)
        same(plausible, kind(counts, 0.07))
        assert conflicts == []
    counts = sampled(inventory(), 500, 0, bounded=False, stages=stages)
    same(Knowledge(counts.space).plausible(kind, counts, 0.07), kind(counts, 0.07))


@kinds
def test_also_with_a_largest_reward_of_its_own_and_actions_that_differ(kind):
    counts, rng = Counts(SPACE), np.random.default_rng(0)
    counts.add_steps(rng.integers(5, size=300), 2 * rng.random(300) ** 3, rng.integers(3, size=300))
    same(Knowledge(SPACE).plausible(kind, counts, 0.05), kind(counts, 0.05))


# Successors


def test_declared_successors_by_hand():
    """Pair 0 may lead to 0, 1 or 2, pair 1 to 1 or 2, pair 2 to 0 alone; pairs 3 and 4 are open: S = 3.

    Rows need 3 + 1 + 0 + 3 + 3 = 10 intervals, rewards 5: J = 15.
    """
    known = Knowledge(SPACE, successors={(0, 0): [0, 1, 2], (0, 1): {2, 1}, (1, 0): (0,)})
    assert known.declared.n_row_intervals == 10
    counts = Counts(SPACE)
    for s, a, y, times in ((0, 0, 1, 30), (0, 0, 0, 10), (0, 1, 2, 50), (1, 0, 0, 9), (2, 0, 1, 6)):
        for _ in range(times):
            counts.add(s, a, 1.0, y)
    plausible = known.plausible(likelihood, counts, 0.1)
    well_formed(plausible)
    x = math.log(15 / 0.1)
    expected = [[(10.0, 40.0), (30.0, 40.0), (0.0, 40.0)], [(0.0, 50.0), (50.0, 50.0)]]
    for k, row in enumerate(expected):
        at = slice(plausible.next_ptr[k], plausible.next_ptr[k + 1])
        ends = [intervals.likelihood_interval(*count, x) for count in row]
        assert list(zip(plausible.p_lower[at], plausible.p_upper[at], strict=True)) == ends
    assert plausible.next_state.tolist() == [0, 1, 2, 1, 2, 0, 1]
    assert plausible.p_lower[5] == plausible.p_upper[5] == 1.0
    assert plausible.unseen[:3].tolist() == [0, 0, 0] and plausible.unseen[4] == 1.0
    assert plausible.unseen[3] == intervals.likelihood_interval(0.0, 6.0, x)[1]
    distance = oracles.mean_distance(40, 40, 40, x + math.log(2))  # of forty rewards of 1 from 0, and from 2
    assert (plausible.r_lower[0], plausible.r_upper[0]) == pytest.approx((distance, 2 - distance))
    wide = known.plausible(bernstein, counts, 0.1)
    x = math.log(3 * 15 * 40 * 41 / 0.1)
    width = math.sqrt(3 / 16) * math.sqrt(2 * x / 40) + 3 * x / 40
    assert (wide.p_lower[1], wide.p_upper[1]) == pytest.approx((max(0.75 - width, 0), min(0.75 + width, 1)))
    simple = known.plausible(simplified_bernstein, counts, 0.1)
    x = math.log(3 * 2 / 0.1)
    width = math.sqrt(3 / 16) * math.sqrt(x / 40) + x / 40
    assert (simple.p_lower[1], simple.p_upper[1]) == pytest.approx((0.75 - width, 0.75 + width))
    assert simple.p_upper[2] == pytest.approx(x / 40) and simple.p_lower[2] == 0.0


@kinds
def test_a_pair_never_tried_leads_to_its_successors_and_nowhere_else(kind):
    known = Knowledge(SPACE, successors=lambda s, a: [s, (s + 1) % 3])
    plausible = known.plausible(kind, Counts(SPACE), 0.1)
    assert plausible.unseen.tolist() == [0.0] * 5 and np.all(plausible.p_upper == 1) and np.all(plausible.p_lower == 0)
    assert plausible.next_state.tolist() == [0, 1, 0, 1, 1, 2, 0, 2, 0, 2]
    assert plausible.rows.slack.tolist() == [1.0] * 5


@pytest.mark.parametrize(
    "successors",
    [
        lambda s, a: [[0, 1], [1], [2, 0]][s],
        {(0, 0): [0, 1], (0, 1): [1, 0, 1], (1, 0): [1], (2, 0): (0, 2), (2, 1): np.array([2, 0])},
        [[0, 1], [0, 1], [1], [0, 2], [0, 2]],
        np.array([[1, 1, 0], [1, 1, 0], [0, 1, 0], [1, 0, 1], [1, 0, 1]], dtype=bool),
        np.array([[[1, 1, 0]] * 2, [[0, 1, 0]] * 2, [[1, 0, 1]] * 2], dtype=bool),
    ],
    ids=["function", "mapping", "lists", "[K, S]", "[S, A, S]"],
)
def test_successors_are_taken_in_every_form(successors):
    known = Knowledge(SPACE, successors=successors)
    declared = known.declared
    assert declared.successor_ptr.tolist() == [0, 2, 4, 5, 7, 9]
    assert declared.successor_state.tolist() == [0, 1, 0, 1, 1, 0, 2, 0, 2] and declared.has_successors.all()
    with pytest.raises(ValueError):
        declared.successor_state[0] = 2


@kinds
@pytest.mark.parametrize("open_pairs", [0, 4, 12])
def test_rows_without_new_visits_are_remembered_and_the_set_is_that_of_a_first_call(kind, open_pairs):
    problem, rng = garnet(6, 2, 3), np.random.default_rng(0)
    parts = {"rewards": problem.mdp.r, "successors": np.split(problem.mdp.next_state, problem.mdp.next_ptr[1:-1])}
    parts["successors"][12 - open_pairs :] = [None] * open_pairs
    known, K = Knowledge(problem.space, **parts), problem.space.n_pairs
    several = [Counts(problem.space), Counts(problem.space), Counts(problem.space, stages=2)]
    readers = {(i, d): InformedSet(known.declared, kind, several[i], d) for i in range(3) for d in (0.1, 0.2)}
    for t in range(40):
        i = int(rng.integers(3)) if t % 10 == 0 else 0
        counts = several[i]
        pairs = rng.integers(K, size=int(rng.integers(3)))
        after = np.array([problem.mdp.draw(rng, k)[1] for k in pairs], dtype=np.int64)
        if t == 30 and open_pairs < 12:  # one of them cannot be
            pairs, after = np.array([0]), np.setdiff1d(np.arange(6), parts["successors"][0])[:1]
        counts.add_steps(pairs, problem.mdp.r[pairs], after)
        delta = 0.1 if t % 7 else 0.2
        plausible, conflicts = read(known, kind, counts, delta)
        reading = readers[i, delta].read()
        fresh, fresh_conflicts = read(Knowledge(problem.space, **parts), kind, counts, delta)
        same(plausible, fresh)
        same(reading.plausible, fresh)
        assert wording.conflicts(known.declared, counts, reading) == fresh_conflicts
        assert conflicts == fresh_conflicts and bool(conflicts) == (
            t >= 30 and counts is several[0] and open_pairs < 12
        )
        plausible.p_lower[:] = nan  # the set is its owner's
    restored = Counts.from_state_dict(problem.space, several[0].state_dict())
    same(known.plausible(kind, restored, 0.1), Knowledge(problem.space, **parts).plausible(kind, restored, 0.1))
    again = pickle.loads(pickle.dumps(known)).declared
    assert again.n_row_intervals == known.declared.n_row_intervals
    for array in (again.has_successors, again.successor_ptr, again.successor_state, again.reward_mean):
        with pytest.raises(ValueError):
            array[0] = 0


@kinds
def test_a_corrected_step_changes_its_row_although_the_visits_are_as_before(kind):
    known, counts = Knowledge(SPACE, successors=[[0, 1]] * 5), Counts(SPACE)
    for s_next in [0] * 200 + [1] * 100:
        counts.add(0, 0, 1.0, s_next)
    reader = InformedSet(known.declared, kind, counts, 0.1)
    before = reader.read().plausible.p_upper.copy()
    counts.remove(0, 1.0, 0)
    counts.add(0, 0, 1.0, 1)
    after = reader.read().plausible
    assert after.p_upper[0] < before[0] and after.p_upper[1] > before[1]
    same(after, known.plausible(kind, counts, 0.1))


# Rewards


@pytest.mark.parametrize(
    "rewards",
    [[0, 0.5, 1, 1.5, 2], np.array([[0, 0.5], [1, nan], [1.5, 2]]), lambda s, a: s + 0.5 * a - 0.5 * (s == 2)],
    ids=["[K]", "[S, A]", "function"],
)
def test_known_means_are_taken_in_every_form_and_are_exact(rewards):
    known = Knowledge(SPACE, rewards=rewards)
    assert known.declared.reward_mean.tolist() == [0, 0.5, 1, 1.5, 2]
    for kind in ALL:
        plausible = known.plausible(kind, Counts(SPACE), 0.1)
        assert plausible.r_lower.tolist() == plausible.r_upper.tolist() == [0, 0.5, 1, 1.5, 2]


def test_known_means_leave_nearly_all_of_delta_to_the_rows():
    counts = Counts(SPACE)
    for _ in range(20):
        counts.add(0, 0, 1.0, 1)
    known = Knowledge(SPACE, rewards=np.ones(5), successors=[[0, 1, 2]] * 5)
    plausible = known.plausible(likelihood, counts, 0.1)
    assert plausible.p_lower[1] == intervals.likelihood_interval(20.0, 20.0, math.log(15 / (0.1 * 0.95)))[0]
    loose = Counts(SPACE, bounded=False)  # rewards that may be anything are not compared: all of δ is for the rows
    for _ in range(20):
        loose.add(0, 0, 7.0, 1)
    plausible, conflicts = read(known, likelihood, loose, 0.1)
    assert plausible.p_lower[1] == intervals.likelihood_interval(20.0, 20.0, math.log(15 / 0.1))[0]
    assert conflicts == []


def test_where_comparisons_are_few_they_have_no_more_than_the_other_intervals():
    """S = 60 states, one action: 3 600 intervals of rows and 60 comparisons, 1.6 % of all."""
    space = Space.full(60, 1)
    counts = Counts(space)
    for _ in range(20):
        counts.add(0, 0, 1.0, 1)
    known = Knowledge(space, rewards=np.ones(60))
    x = math.log(3 * 3660 * 20 * 21 / 0.1)
    assert known.plausible(bernstein, counts, 0.1).unseen[0] == pytest.approx(min(3 * x / 20, 1))
    x = math.log(3660 / 0.1)
    assert known.plausible(likelihood, counts, 0.1).unseen[0] == pytest.approx(
        intervals.likelihood_interval(0.0, 20.0, x)[1]
    )


@valid
def test_a_wrong_mean_is_found_out_and_the_pair_may_earn_anything(kind):
    known, counts, rng = Knowledge(SPACE, rewards=[1.0, 0.3, 1, 1, 1]), Counts(SPACE), np.random.default_rng(0)
    for n in (1, 3000):
        for _ in range(n):
            counts.add(0, 0, 2.0 * (rng.random() < 0.5), 1)  # mean 1, as declared
            counts.add(0, 1, 2.0 * (rng.random() < 0.5), 1)
        plausible, conflicts = read(known, kind, counts, 0.1)
        if n == 1:
            assert conflicts == [] and plausible.r_lower[1] == 0.3
    assert len(conflicts) == 1 and conflicts[0].startswith("state 0, action 1: 3001 rewards with mean")
    assert (plausible.r_lower[1], plausible.r_upper[1]) == (0.0, 2.0) and plausible.r_lower[0] == 1.0


def test_simplified_intervals_are_not_what_a_known_mean_is_compared_by():
    """But those of `likelihood`: a mean is found out by the same data, to the last digit."""
    counts, found = Counts(SPACE), set()
    for i in range(400):
        counts.add(0, 1, 2.0 * (i % 2), 1)
    for mean in np.linspace(0.6, 1.4, 401):
        known = Knowledge(SPACE, rewards=[1.0, mean, 1, 1, 1])
        conflicts = known.conflicts(simplified_bernstein, counts, 0.1)
        assert conflicts == known.conflicts(likelihood, counts, 0.1)
        found.add(len(conflicts))
    assert found == {0, 1}
    assert known.plausible(simplified_bernstein, counts, 0.1).r_upper[1] == 2.0


def test_the_comparison_of_means_has_its_own_share_of_delta_by_hand():
    """n rewards of 0 on one of five pairs: likelihood's upper end at δ' = 0.05 δ / 5, half of it for each end."""
    counts = Counts(SPACE)
    n = 60
    for _ in range(n):
        counts.add(0, 0, 0.0, 1)
    upper = 2 - oracles.mean_distance(n, 2 * n, 4 * n, math.log(2 * 5 / (0.05 * 0.1)))
    for mean, wrong in ((upper * 0.999, False), (upper * 1.001, True)):
        known = Knowledge(SPACE, rewards=[mean, 1, 1, 1, 1])
        assert bool(known.conflicts(likelihood, counts, 0.1)) == wrong


@pytest.mark.parametrize(
    "bounds",
    [
        (0.5, 1.5),
        ([0.5] * 5, np.full((3, 2), 1.5)),
        lambda s, a: (0.5, 1.5),
    ],
    ids=["numbers", "arrays", "function"],
)
def test_a_known_range_of_rewards_takes_the_place_of_zero_to_r_max_by_hand(bounds):
    known, counts = Knowledge(SPACE, reward_bounds=bounds), Counts(SPACE)
    for i in range(40):
        counts.add(0, 0, (0.5, 1.0, 1.0, 1.5)[i % 4], 1)  # mean 1, variance 1/8
    plausible = known.plausible(likelihood, counts, 0.1)
    J = 5 * (3 + 1)
    distance = oracles.mean_distance(40, 20, 15, math.log(2 * J / 0.1))  # Σ (r - 0.5) = 20, Σ (r - 0.5)² = 15
    ends = 0.5 + distance, 1.5 - distance
    assert (plausible.r_lower[0], plausible.r_upper[0]) == pytest.approx(ends, abs=1e-11)
    assert plausible.r_lower[0] <= ends[0] and ends[1] <= plausible.r_upper[0]  # rounding widens
    assert (plausible.r_lower[1:].tolist(), plausible.r_upper[1:].tolist()) == ([0.5] * 4, [1.5] * 4)
    simple = known.plausible(simplified_bernstein, counts, 0.1)
    x = math.log(6 / 0.1)
    width = math.sqrt(1 / 8) * math.sqrt(x / 40) + x / 40
    assert (simple.r_lower[0], simple.r_upper[0]) == pytest.approx((1 - width, 1 + width))


def test_a_range_without_width_is_a_mean_and_needs_no_interval():
    low, high = [0.5, 0.0, 0.0, 0.0, 0.0], [0.5, 2.0, 2.0, 2.0, 2.0]
    known, counts = Knowledge(SPACE, reward_bounds=(low, high), successors=[[1]] * 5), Counts(SPACE)
    for s, a, r in ((0, 0, 0.5), (0, 1, 1.0)):
        for _ in range(30):
            counts.add(s, a, r, 1)
    plausible, conflicts = read(known, bernstein, counts, 0.9)
    assert (plausible.r_lower[0], plausible.r_upper[0], conflicts) == (0.5, 0.5, [])
    x = math.log(3 * 4 * 30 * 31 / 0.9)  # J = 4: four pairs' rewards, and no row has an interval
    assert plausible.r_lower[1] == pytest.approx(max(1 - 3 * 2 * x / 30, 0))


def test_a_range_beyond_r_max_serves_rewards_that_leave_it():
    space = Space.full(1, 1)
    known, counts = Knowledge(space, reward_bounds=(-1.0, 2.0)), Counts(space, bounded=False)
    rng = np.random.default_rng(0)
    for _ in range(4000):
        counts.add(0, 0, 2.0 if rng.random() < 0.5 else -1.0, 0)
    plausible = known.plausible(likelihood, counts, 0.1)
    k, x = (counts.reward_sum[0] + 4000) / 3, math.log(2 * 2 / 0.1)  # k rewards of 2; one row, one mean
    low, high = 3 * oracles.mean_distance(4000, k, k, x) - 1, 2 - 3 * oracles.mean_distance(4000, 4000 - k, 4000 - k, x)
    assert (plausible.r_lower[0], plausible.r_upper[0]) == pytest.approx((low, high), abs=1e-9)
    assert 0 < plausible.r_lower[0] < 0.5 < plausible.r_upper[0] < 1
    start = known.plausible(likelihood, Counts(space, bounded=False), 0.1)
    assert (start.r_lower[0], start.r_upper[0]) == (0.0, 1.0)  # means do not leave it


@kinds
@pytest.mark.parametrize("shift", [0.0, 0.9, 0.999])
def test_narrow_ranges_far_from_zero_are_as_good_as_at_zero(kind, shift):
    """The same rewards, shifted: intervals are shifted too, up to the rounding that is allowed for."""
    space, rng, width = Space.full(1, 1), np.random.default_rng(0), 1e-3
    steps = width * rng.random(500)
    plain, moved = Counts(Space.full(1, 1, width)), Counts(space)
    plain.add_steps(np.zeros(500, dtype=np.int64), steps, np.zeros(500, dtype=np.int64))
    moved.add_steps(np.zeros(500, dtype=np.int64), shift + steps, np.zeros(500, dtype=np.int64))
    one = kind(plain, 0.1)
    two = Knowledge(space, reward_bounds=(shift, shift + width)).plausible(kind, moved, 0.1)
    assert two.r_lower[0] - shift == pytest.approx(one.r_lower[0], abs=1e-8)
    assert two.r_lower[0] - shift <= one.r_lower[0] + 1e-15 and one.r_upper[0] <= two.r_upper[0] - shift + 1e-15


@pytest.mark.parametrize("form", ["function", "[S, A, S]", "[K, S]"])
@kinds
def test_rewards_of_the_next_state_lie_between_the_extremes_over_the_row(form, kind):
    rng = np.random.default_rng(3)
    table = rng.uniform(0, 2, size=(3, 2, 3))
    table[1, 1] = nan  # no such pair
    given = {
        "function": lambda s, a, y: table[s, a, y],
        "[S, A, S]": table,
        "[K, S]": table[SPACE.pair_state, SPACE.pair_action],
    }[form]
    for following in (None, [[0, 1, 2], [1, 2], [0], [0, 2], [0, 1, 2]]):
        counts = Counts(SPACE, bounded=False)  # no comparison with what was earned
        pairs = rng.integers(4, size=200)
        after = np.where(pairs == 2, 0, 2 * rng.integers(1, 2, size=200))
        counts.add_steps(pairs, np.full(200, -5.0), after)
        known = Knowledge(SPACE, reward_function=given, successors=following)
        plausible = known.plausible(kind, counts, 0.2)
        well_formed(plausible)
        for k in range(5):
            row = ("box", *dense(plausible, k))
            value = table[SPACE.pair_state[k], SPACE.pair_action[k]]
            ends = [oracles.extreme_mean_by_linear_program(row, value, sign) for sign in (-1, 1)]
            assert (plausible.r_lower[k], plausible.r_upper[k]) == pytest.approx(ends, abs=1e-9)


def test_a_reward_function_is_cut_to_what_was_earned_and_found_out_when_wrong():
    space = Space.full(2, 1)
    known = Knowledge(space, reward_function=[[0.0, 1.0], [0.5, 0.5]])
    counts, rng = Counts(space), np.random.default_rng(0)
    for _ in range(2000):
        y = int(rng.random() < 0.5)
        counts.add(0, 0, float(y), y)
        counts.add(1, 0, 0.5, y)
    plausible, conflicts = read(known, likelihood, counts, 0.1)
    assert conflicts == [] and plausible.r_lower[1] == plausible.r_upper[1] == 0.5
    assert plausible.r_lower[0] < 0.5 < plausible.r_upper[0] and plausible.r_upper[0] - plausible.r_lower[0] < 0.1
    wrong = Knowledge(space, reward_function=[[0.0, 1.0], [0.9, 0.9]])
    plausible, conflicts = read(wrong, likelihood, counts, 0.1)
    assert len(conflicts) == 1 and "state 1, action 0" in conflicts[0]
    assert (plausible.r_lower[1], plausible.r_upper[1]) == (0.0, 1.0)
    few = Counts(space)
    for _ in range(5):
        few.add(0, 0, 0.0, 0)
    direct = 1 - oracles.mean_distance(5, 5, 5, math.log(2 * 2 / (0.05 * 0.1)))
    through = intervals.likelihood_interval(0.0, 5.0, math.log(2 / (0.95 * 0.1)))[1]  # one interval for two states
    assert through < direct and known.plausible(likelihood, few, 0.1).r_upper[0] == pytest.approx(through)
    many, n = Counts(space), 10_000
    many.add_steps(np.zeros(n, dtype=np.int64), np.full(n, 0.5), np.arange(n) % 2)  # rewards vary less than the row
    distance = oracles.mean_distance(n, n / 2, n / 4, math.log(2 * 2 / (0.05 * 0.1)))
    assert known.plausible(likelihood, many, 0.1).r_upper[0] == pytest.approx(1 - distance)


# Problems


@pytest.mark.parametrize(
    "problem",
    [
        inventory(noise=Noise("truncated_gaussian", 0.1)),
        maintenance(failed_level=4, noise=Noise("uniform", 0.1)),
        gridworld(),
        riverswim(),
        garnet(6, 2, 3),
    ],
    ids=lambda problem: problem.name,
)
@kinds
def test_true_knowledge_keeps_the_truth_and_makes_the_set_smaller(problem, kind):
    counts = sampled(problem, 4000, 3)
    plain = kind(counts, 0.05)
    combinations = [("rewards",), ("successors",), ("rewards", "successors")]
    if problem.mechanics is not None:
        combinations += [("mechanics",), ("rewards", "mechanics"), ("successors", "mechanics")]
    truth = np.zeros((problem.space.n_pairs, problem.space.n_states))
    truth[np.repeat(np.arange(problem.space.n_pairs), np.diff(problem.mdp.next_ptr)), problem.mdp.next_state] = (
        problem.mdp.p
    )
    for parts in combinations:
        plausible, conflicts = read(problem.knowledge(*parts), kind, counts, 0.05)
        assert conflicts == []
        well_formed(plausible)
        if kind is not simplified_bernstein:
            assert plausible.contains(problem.mdp, 1e-9)
        for k in range(problem.space.n_pairs if "mechanics" not in parts else 0):
            (low, high), (low_0, high_0) = dense(plausible, k), dense(plain, k)
            assert np.all(low >= low_0 - 1e-12) and np.all(high <= high_0 + 1e-12)
        if "rewards" in parts:
            assert np.array_equal(plausible.r_lower, problem.mdp.r) and np.array_equal(plausible.r_upper, problem.mdp.r)
        elif "mechanics" not in parts:
            assert np.all(plausible.r_lower >= plain.r_lower) and np.all(plausible.r_upper <= plain.r_upper)
        if "mechanics" in parts:
            slack = [
                np.sum((high - low)[truth[k] > 0]) for k in range(len(truth)) for low, high in [dense(plausible, k)]
            ]
            plain_slack = [
                np.sum((high - low)[truth[k] > 0]) for k in range(len(truth)) for low, high in [dense(plain, k)]
            ]
            assert np.sum(slack) < 0.5 * np.sum(plain_slack)


def test_knowledge_of_a_problem_says_what_there_is():
    problem = inventory()
    known = problem.knowledge("rewards", "mechanics")
    assert known.mechanics.reward is None and np.array_equal(known.declared.reward_mean, problem.mdp.r)
    assert repr(known) == "Knowledge(Space(n_states=7, n_pairs=28, r_max=1), rewards, mechanics)"
    assert repr(Knowledge(SPACE)) == "Knowledge(Space(n_states=3, n_pairs=5, r_max=2), nothing)"
    assert problem.knowledge().declared.n_row_intervals == 28 * 7
    with pytest.raises(InvalidInput, match="there is no part 'dynamics'; the parts are rewards, successors, mechanics"):
        problem.knowledge("dynamics")
    with pytest.raises(InvalidInput, match="problem 'riverswim' has no mechanics"):
        riverswim().knowledge("mechanics")


@kinds
def test_a_known_gridworld_has_rows_without_doubt(kind):
    problem = gridworld()  # no move slips
    known = problem.knowledge("rewards", "successors")
    assert known.declared.n_row_intervals == 0
    plausible = known.plausible(kind, Counts(problem.space), 0.1)
    assert plausible.contains(problem.mdp) and np.array_equal(plausible.p_lower, plausible.p_upper)
    low = planning.policy_values(plausible, problem.baseline, 10)[0]
    high = planning.policy_values(plausible, problem.baseline, 10, "optimistic")[0]
    truth = sf.solve.policy_values(problem.mdp, problem.baseline, 10)[0]
    assert low == pytest.approx(truth) and high == pytest.approx(truth)


@valid
def test_known_means_make_a_valid_set_of_rewards_that_no_interval_covers(kind):
    problem = maintenance(failed_level=4)  # Gaussian rewards
    counts = sampled(problem, 4000, 3, bounded=False)
    assert not likelihood(counts, 0.05).contains(problem.mdp)
    for parts in (("rewards",), ("rewards", "successors"), ("rewards", "mechanics")):
        plausible, conflicts = read(problem.knowledge(*parts), kind, counts, 0.05)
        assert plausible.contains(problem.mdp) and conflicts == []


@kinds
def test_sets_serve_planning_and_agents_and_pickling(kind):
    problem = inventory(noise=Noise())
    counts = sampled(problem, 800, 0)
    for parts in (("successors",), ("mechanics",), ("rewards", "mechanics")):
        known = problem.knowledge(*parts)
        again = pickle.loads(pickle.dumps(known))
        same(again.plausible(kind, counts, 0.1), known.plausible(kind, counts, 0.1))
        plan = planning.optimistic_gain(again.plausible(kind, counts, 0.1), 0.01)
        if kind is not simplified_bernstein:
            assert plan.upper >= sf.solve.optimal_gain(problem.mdp).gain - 0.01
        agent = sf.UCRL2(problem.space, delta=0.1, confidence=kind, knowledge=again, seed=1)
        agent.begin(problem.start)
        assert agent.learner.plausible().n_rows == problem.space.n_pairs


@valid
@pytest.mark.parametrize("parts", [("successors",), ("rewards", "successors"), ("rewards",)])
def test_stages_have_rows_of_their_own(kind, parts):
    problem = gridworld(slip=0.2, noise=Noise("bernoulli"))
    known, H = problem.knowledge(*parts), 3
    counts = sampled(problem, 900, 2, stages=H)
    plausible, conflicts = read(known, kind, counts, 0.1)
    assert plausible.stages == H and conflicts == []
    well_formed(plausible)
    J = H * known.declared.n_row_intervals
    each = 2 if kind is likelihood else 1
    share = 0.1
    if "rewards" in parts:
        share *= 0.95
        assert np.array_equal(plausible.r_upper, np.tile(problem.mdp.r, H))
    else:
        J += H * problem.space.n_pairs * each
    m = int(np.argmax(counts.visits))
    n = float(counts.visits[m])
    ptr, state, count = counts.rows()
    lower, upper = dense(plausible, m)
    for y, c in zip(state[ptr[m] : ptr[m + 1]], count[ptr[m] : ptr[m + 1]], strict=True):
        if (lower[y], upper[y]) == (1.0, 1.0):
            continue
        if kind is likelihood:
            expected = intervals.likelihood_interval(float(c), n, math.log(J / share))
        else:
            x, p = math.log(3 * J * n * (n + 1) / share), c / n
            width = math.sqrt(p * (1 - p) * 2 * x / n) + 3 * x / n
            expected = max(p - width, 0.0), min(p + width, 1.0)
        assert (lower[y], upper[y]) == pytest.approx(expected)
    assert plausible.contains(problem.mdp)


def test_rewards_of_the_next_state_are_those_of_each_stage():
    space, rng = Space.full(2, 1), np.random.default_rng(0)
    known, counts = Knowledge(space, reward_function=[[0.0, 1.0], [1.0, 0.0]]), Counts(space, False, 2)
    for h, p in ((0, 0.1), (1, 0.9)):
        for _ in range(3000):
            counts.add(0, 0, 0.0, int(rng.random() < p), h)
    plausible = known.plausible(likelihood, counts, 0.1)
    assert plausible.r_upper[0] < 0.2 and plausible.r_lower[2] > 0.8
    assert plausible.r_lower[[1, 3]].tolist() == [0, 0] and plausible.r_upper[[1, 3]].tolist() == [1, 1]


# What cannot be


def first(known, *steps):
    return impossible_steps(known.declared, *steps).first


def test_steps_that_cannot_be_are_named_and_the_first_is_found():
    known = Knowledge(SPACE, successors={(0, 0): [0, 1], (2, 1): [2]}, reward_bounds=(0.5, 1.5))
    pairs, rewards = np.array([0, 1, 0, 4, 2, 3]), np.array([1.0, 0.5, 1.5, 1.6, nan, 0.4])
    after = np.array([1, 2, 2, 2, 0, 1])
    assert first(known, pairs, rewards, after) == 2
    assert known.contradictions(pairs, rewards, after) == [
        "step 2: state 0, action 0: led to state 2, which was declared impossible",
        "step 3: state 2, action 1: reward 1.6 is outside [0.5, 1.5]",
        "step 4: state 1, action 0: reward nan is outside [0.5, 1.5]",
        "step 5: state 2, action 0: reward 0.4 is outside [0.5, 1.5]",
    ]
    assert first(known, pairs[:2], rewards[:2], after[:2]) == -1
    assert known.contradictions(pairs[:2], rewards[:2], after[:2]) == []
    assert first(known, pairs[3:], rewards[3:], after[3:]) == 0
    assert first(known, pairs + 5, rewards, after) == 2  # of the second stage
    nothing = np.zeros(0, dtype=np.int64)
    assert first(known, nothing, np.zeros(0), nothing) == -1
    assert first(Knowledge(SPACE), pairs, rewards, after) == -1
    for edge in (0.5 - 1e-10, 1.5 + 1e-10):  # rounding
        assert first(known, np.array([1]), np.array([edge]), np.array([0])) == -1
    for bad in ((pairs[:2], rewards, after), (-pairs, rewards, after), (pairs, rewards, after + 5)):
        with pytest.raises(InvalidInput, match="these steps cannot be counted"):
            known.contradictions(*bad)


def test_steps_that_no_noise_explains_are_named():
    known = inventory().knowledge("mechanics")
    space = known.space
    pairs = np.array([space.pair(2, 3), space.pair(0, 1)])
    assert first(known, pairs, np.zeros(2), np.array([5, 2])) == 1
    assert known.contradictions(pairs, np.zeros(2), np.array([0, 6])) == [
        "step 1: state 0, action 1: led to state 6, which no noise explains"
    ]


@kinds
def test_counts_outside_the_successors_make_a_conflict_and_the_row_may_lead_anywhere(kind):
    known, counts = Knowledge(SPACE, successors=[[0, 1]] * 5), Counts(SPACE)
    for _ in range(50):
        counts.add(0, 0, 1.0, 1)
        counts.add(0, 1, 1.0, 1)
    counts.add(0, 0, 1.0, 2)
    plausible, conflicts = read(known, kind, counts, 0.1)
    assert conflicts == ["state 0, action 0: led to state 2, which was declared impossible"]
    assert plausible.unseen.tolist() == [1.0, 0, 0, 0, 0]
    assert plausible.p_lower[:2].tolist() == [0, 0] and plausible.p_upper[:2].tolist() == [1, 1]
    staged = Counts(SPACE, stages=2)
    staged.add(1, 0, 1.0, 2, h=1)
    assert known.conflicts(kind, staged, 0.1)[0].startswith("stage 1, state 1, action 0: led to state 2")


@kinds
def test_rewards_outside_their_range_make_a_conflict(kind):
    known, counts = Knowledge(SPACE, reward_bounds=(0.5, 1.0)), Counts(SPACE)
    for _ in range(5):
        counts.add(0, 0, 1.5, 1)
        counts.add(0, 1, 0.75, 1)
    plausible, conflicts = read(known, kind, counts, 0.1)
    assert conflicts == ["state 0, action 0: 5 rewards with mean 1.5 do not fit what was declared of them"]
    assert (plausible.r_lower[0], plausible.r_upper[0]) == (0.0, 2.0)


# As often as promised


@pytest.mark.first(1)
@valid
def test_the_truth_stays_in_the_set_as_often_as_promised_with_all_but_mechanics(kind):
    # 500 runs of 150 steps at δ = 0.3, checked every 10 steps; δ + 4 standard deviations, once in 30 000
    problem, runs, delta, failures = garnet(3, 2, 2, seed=3, noise=Noise("bernoulli")), 500, 0.3, 0
    table = np.random.default_rng(0).random((6, 3))
    mdp = problem.mdp
    ptr = mdp.next_ptr
    rewards = np.array([mdp.p[ptr[k] : ptr[k + 1]] @ table[k][mdp.next_state[ptr[k] : ptr[k + 1]]] for k in range(6)])
    mdp = sf.TabularMDP(mdp.space, mdp.next_ptr, mdp.next_state, mdp.p, rewards, Noise("bernoulli"))
    known = Knowledge(mdp.space, reward_function=table, successors=np.split(mdp.next_state, ptr[1:-1]))
    for seed in range(runs):
        rng, counts, s = np.random.default_rng(seed), Counts(mdp.space), 0
        for t in range(150):
            k = int(rng.integers(mdp.space.pair_ptr[s], mdp.space.pair_ptr[s + 1]))
            reward, y = mdp.draw(rng, k)
            counts._add_checked(np.array([k]), np.array([reward]), np.array([y]))
            s = y
            if t % 10 == 9:
                plausible, conflicts = read(known, kind, counts, delta)
                if conflicts or not plausible.contains(mdp):
                    failures += 1
                    break
    assert failures <= runs * delta + 4 * math.sqrt(runs * delta * (1 - delta))


# Validation


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"rewards": [1, 2, 3]}, r"rewards has shape \(3,\); it must be \(3, 2\) or \(5,\)"),
        ({"rewards": [1, 1, 1, 1, 3]}, r"state 2, action 1: mean reward 3 is outside \[0, 2\]"),
        ({"rewards": [1, 1, nan, 1, 1]}, "state 1, action 0: mean reward nan"),
        ({"rewards": [1, -1, 1, 1, 1]}, "state 0, action 1: mean reward -1 is outside"),
        ({"rewards": "abc"}, "rewards must be numbers"),
        ({"rewards": lambda s, a: None}, "mean reward nan"),
        ({"reward_bounds": (1, 0)}, r"state 0, action 0: reward bounds \[1, 0\] are the wrong way round"),
        ({"reward_bounds": (nan, 1)}, "reward bounds .* are not finite"),
        ({"reward_bounds": (0, np.inf)}, "are not finite"),
        ({"reward_bounds": (3, 4)}, r"reward bounds \[3, 4\] lie outside \[0, 2\]"),
        ({"reward_bounds": (-2, -1)}, r"lie outside \[0, 2\]"),
        ({"reward_bounds": 1.0}, r"reward_bounds must be \(low, high\), not 1.0"),
        ({"reward_bounds": lambda s, a: 1.0}, r"reward_bounds must return \(low, high\)"),
        ({"reward_bounds": ([0, 0], 1)}, r"reward_bounds low has shape \(2,\)"),
        ({"rewards": [1] * 5, "reward_bounds": (0, 0.5)}, "exclude the mean reward 1"),
        ({"successors": lambda s, a: []}, "state 0, action 0: has no successor"),
        ({"successors": lambda s, a: [0, 3]}, "state 0, action 0: successor 3 does not exist; the states are 0 to 2"),
        ({"successors": lambda s, a: [0.5]}, "successor 0.5 does not exist"),
        ({"successors": lambda s, a: "01"}, "successors '01' are no list of states"),
        ({"successors": lambda s, a: 1}, "successors 1 are no list of states"),
        ({"successors": {(1, 1): [0]}}, r"successors are given for \(1, 1\), which is no pair"),
        ({"successors": [[0]]}, "successors must be a list of 5 lists"),
        ({"successors": 7}, "successors must be a list of 5 lists"),
        ({"successors": np.ones((2, 2), dtype=bool)}, r"successors have shape \(2, 2\)"),
        (
            {"reward_function": np.zeros((2, 2))},
            r"reward_function has shape \(2, 2\); it must be \(3, 2, 3\) or \(5, 3\)",
        ),
        ({"reward_function": lambda s, a, y: nan if y == 2 else 0}, "state 0, action 0, next state 2: reward nan"),
        ({"reward_function": "x"}, "reward_function must be numbers"),
        ({"rewards": [1] * 5, "reward_function": np.zeros((5, 3))}, "give rewards or reward_function, not both"),
        ({"mechanics": "f"}, "mechanics must be a Mechanics, not 'f'"),
    ],
)
def test_what_is_wrong_with_knowledge_is_said(parts, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Knowledge(SPACE, **parts)


def test_all_faults_are_said_at_once_and_parts_that_exclude_one_another():
    with pytest.raises(InvalidInput) as error:
        Knowledge(SPACE, rewards=[1, 1, 1, 1, 3], reward_bounds=(1, 0), successors=lambda s, a: [] if s else [5])
    assert len(error.value.faults) == 1 + 5 + 2 + 3
    room = Mechanics.of(SPACE, lambda s, a, d: 0, 2)
    paid = Mechanics.of(SPACE, lambda s, a, d: 0, 2, reward=lambda s, a, d: 0.0)
    for parts, sentence in (
        ({"mechanics": room, "successors": [[0]] * 5}, "give successors or mechanics, not both"),
        ({"mechanics": room, "reward_function": np.zeros((5, 3))}, "give reward_function or mechanics"),
        ({"mechanics": paid, "rewards": np.zeros(5)}, "give rewards or mechanics with a reward"),
        ({"mechanics": Mechanics.of(Space.full(2, 1), lambda s, a, d: 0, 2)}, "the mechanics are on Space"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            Knowledge(SPACE, **parts)


def test_sets_that_are_no_boxes_other_spaces_and_no_probabilities_are_refused():
    known = Knowledge(SPACE)
    with pytest.raises(
        InvalidInput, match="hoeffding is not made of them; simplified_bernstein, bernstein, likelihood"
    ):
        known.plausible(hoeffding, Counts(SPACE), 0.1)
    with pytest.raises(InvalidInput, match="is not made of them"):
        known.plausible(lambda counts, delta: None, Counts(SPACE), 0.1)
    with pytest.raises(InvalidInput, match="knowledge of Space"):
        known.plausible(likelihood, Counts(Space.full(3, 2)), 0.1)
    for delta in (0.0, 1.0, nan, -1):
        with pytest.raises(InvalidInput, match="strictly between 0 and 1"):
            known.plausible(likelihood, Counts(SPACE), delta)


# The kernels


@kinds
def test_plain_python_makes_the_same_sets_as_the_compiled_kernels(kind, monkeypatch):
    problem = inventory(capacity=4)
    table = np.random.default_rng(0).random((problem.space.n_pairs, problem.space.n_states))
    everything = [
        Knowledge(problem.space),
        Knowledge(problem.space, reward_bounds=(0.1, 0.95)),
        Knowledge(problem.space, reward_function=table, reward_bounds=(-0.5, 1.5)),
        problem.knowledge("rewards", "successors"),
        problem.knowledge("mechanics"),
        problem.knowledge("rewards", "mechanics"),
        Knowledge(problem.space, successors=[[0, 1]] + [None] * (problem.space.n_pairs - 1)),
    ]
    counts = [sampled(problem, n, 1, bounded=False, stages=h) for n, h in ((0, 1), (300, 1), (300, 2))]
    compiled = [read(known, kind, each, 0.1) for known in everything for each in counts]
    for module in (intervals, successors, shared_noise, rewards):
        for name, kernel in vars(module).copy().items():
            if hasattr(kernel, "py_func"):
                monkeypatch.setattr(module, name, kernel.py_func)
    plain = [read(known, kind, each, 0.1) for known in everything for each in counts]
    for (one, one_conflicts), (other, other_conflicts) in zip(compiled, plain, strict=True):
        assert one_conflicts == other_conflicts
        for name in FIELDS:
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-13), name


@pytest.mark.parametrize("kernel", [intervals.mean_reward, intervals.mean_reward.py_func], ids=["compiled", "plain"])
@pytest.mark.parametrize("kind", [simplified_bernstein, bernstein])  # test_mean_rewards has the test of likelihood
@pytest.mark.parametrize("share", [0.0, 0.003, 0.5, 0.97, 1.0])
@pytest.mark.parametrize(("n", "width"), [(1e5, 1e-7), (1e4, 4e-8), (1e3, 1e-3)])
def test_rounding_of_sums_never_narrows_a_guarded_interval(kernel, kind, share, n, width):
    """Sums of n terms may be off by n 2^-52 of them: what any such sums say is within the guarded interval."""
    low, high = 0.9, 0.9 + width
    code = {simplified_bernstein: 0, bernstein: 1}[kind]
    x = low + share * (high - low)
    total, square, off = n * x, n * x * x, n * 2.0**-52
    one = intervals.Share(code, 10, 0.1)
    a, b = kernel(one, n, total, square, low, high, True)
    assert low <= a <= b <= high
    for exact in (total * (1 + off), total * (1 - off), total):
        c, d = kernel(one, n, exact, exact * exact / n, low, high, False)
        assert a <= c + 1e-15 and d - 1e-15 <= b


@pytest.mark.parametrize("kernel", [intervals.mean_reward, intervals.mean_reward.py_func], ids=["compiled", "plain"])
@pytest.mark.parametrize("code", [0, 1])
def test_rounding_counts_even_where_draws_leave_nothing_else_in_doubt(kernel, code):
    """After 2^40 rewards the widths of Bernstein are tiny. Their sum may be off by 2^40 2^-52 of it, and more."""
    n, mean = 2.0**40, 1.0005
    a, b = kernel(intervals.Share(code, 10, 0.1), n, n * mean, n * mean * mean, 1.0, 1.001, True)
    off = n * 2.0**-52 * mean
    assert 1.0 < a < mean - off and mean + off < b < 1.001
    a, b = kernel(intervals.Share(code, 10, 0.1), n, n * mean, n * mean * mean, 1.0, 1.001, False)
    assert mean - off / 100 < a < mean < b < mean + off / 100


@st.composite
def boxes(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 6))
    p = rng.dirichlet(np.ones(n))
    low, high = p * rng.random(n), np.minimum(p + rng.random(n) * draw(st.sampled_from([0.0, 0.1, 1.0])), 1.0)
    return low, high, np.sort(rng.normal(size=n))


@pytest.mark.parametrize("kernel", [rewards.expected_value, rewards.expected_value.py_func], ids=["compiled", "plain"])
@quick
@given(box=boxes())
def test_extreme_means_are_those_of_the_dual(kernel, box):
    low, high, value = box
    n = value.size
    levels = rewards.Levels(np.array([0, n]), np.arange(n)[::-1].copy(), value)
    least, most = kernel(levels, 0, 0, low[::-1].copy(), high[::-1].copy())
    row = ("box", low, high)
    assert (least, most) == pytest.approx([oracles.extreme_mean(row, value, sign) for sign in (-1, 1)], abs=1e-9)
    assert least <= oracles.extreme_mean(row, value, -1) + 1e-12 and oracles.extreme_mean(row, value, 1) - 1e-12 <= most
