"""Sets of plausible MDPs: each width by hand, each event as often as it was promised."""

from itertools import pairwise
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.kernels import playing
from surefooted.kernels.structs import NO_FLOATS, World
from surefooted.sets.confidence import KINDS, bernstein, hoeffding, hoeffding_paper, likelihood, simplified_bernstein
from surefooted.sets.incremental import IncrementalSet
from surefooted.sets.plausible import Plausible
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Space

ALL = (hoeffding, hoeffding_paper, simplified_bernstein, bernstein)
BALLS, BOXES = (hoeffding, hoeffding_paper), (simplified_bernstein, bernstein)
everything = pytest.mark.parametrize("confidence", ALL, ids=lambda function: function.__name__)
exact = settings(derandomize=True, deadline=None, max_examples=40)

# Three states, two actions, but only one in state 1: S = 3, A = 2, K = 5; r_max = 2.
SPACE = Space.from_available(np.array([[1, 1], [1, 0], [1, 1]], dtype=bool), 2.0)


def by_hand():
    """4000 visits of pair 0, 4000 of pair 2, one of pair 4, none of pairs 1 and 3; t = 8002.

    Pair 0 earns 0, 1, 1, 2 in turn, mean 1 and variance 1/2, and leads to 1 three times in four, else to 2. Pair 2
    earns 2 always and leads to 0 always. Pair 4 earned 0.5 and led to 0.
    """
    counts, n = Counts(SPACE), 4000
    counts.add_steps(np.zeros(n, dtype=np.int64), np.tile([0.0, 1, 1, 2], n // 4), np.tile([1, 1, 2, 1], n // 4))
    counts.add_steps(np.full(n, 2), np.full(n, 2.0), np.zeros(n, dtype=np.int64))
    counts.add(2, 1, 0.5, 0)
    return counts


def entries(plausible, k):
    """{next state: (lower, upper)} of pair k."""
    row = slice(plausible.next_ptr[k], plausible.next_ptr[k + 1])
    bounds = zip(plausible.p_lower[row].tolist(), plausible.p_upper[row].tolist(), strict=True)
    return dict(zip(plausible.next_state[row].tolist(), bounds, strict=True))


def near(*numbers):
    return pytest.approx(numbers, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize(
    ("confidence", "width_r", "width_p"),
    [
        (
            hoeffding,
            2 * sqrt(7 * log(2 * 3 * 2 * 8002 / 0.1) / (2 * 4000)),  # r_max sqrt(7 ln(2 S A t / δ) / 2 N)
            sqrt(14 * 3 * log(2 * 2 * 8002 / 0.1) / 4000),  # sqrt(14 S ln(2 A t / δ) / N)
        ),
        (
            hoeffding_paper,
            2 * sqrt(7 * 3 * 2 * log(5 * 3 * 2 * 8002 / 0.1) / (2 * 4000)),  # L = ln(5 S A t / δ)
            3 * sqrt(14 * 2 * log(5 * 3 * 2 * 8002 / 0.1) / 4000),
        ),
    ],
    ids=["hoeffding", "hoeffding_paper"],
)
def test_balls_by_hand(confidence, width_r, width_p):
    known = confidence(by_hand(), 0.1)
    assert (known.r_lower[0], known.r_upper[0]) == near(1 - width_r, 1 + width_r)
    assert (known.r_lower[2], known.r_upper[2]) == near(2 - width_r, 2)  # cut at r_max
    assert known.width[[0, 2]].tolist() == near(width_p, width_p)
    assert known.width[4] == pytest.approx(width_p * sqrt(4000), rel=1e-12)  # N = 1
    assert {y: low for y, (low, _) in entries(known, 0).items()} == {1: 0.75, 2: 0.25}
    assert {y: low for y, (low, _) in entries(known, 2).items()} == {0: 1.0}


LOG = log(3 * 2 / 0.1)  # ln(S A / δ)
X = log(3 * (3 + 1) * 5 * 4000 * 4001 / 0.1)  # ln(3 (S + 1) K n (n + 1) / δ)


@pytest.mark.parametrize(
    ("confidence", "width_r", "width_p", "width_0"),
    [
        (
            simplified_bernstein,
            sqrt(1 / 2) * sqrt(LOG / 4000) + 2 * LOG / 4000,  # σ sqrt(L / N) + r_max L / N
            sqrt(3 / 16) * sqrt(LOG / 4000) + LOG / 4000,  # σ² = 3/4 · 1/4
            LOG / 4000,  # σ = 0: seen always, or never
        ),
        (
            bernstein,
            sqrt(1 / 2) * sqrt(2 * X / 4000) + 3 * 2 * X / 4000,  # σ sqrt(2 x / n) + 3 b x / n
            sqrt(3 / 16) * sqrt(2 * X / 4000) + 3 * X / 4000,
            3 * X / 4000,
        ),
    ],
    ids=["simplified_bernstein", "bernstein"],
)
def test_boxes_by_hand(confidence, width_r, width_p, width_0):
    known = confidence(by_hand(), 0.1)
    assert known.width is None
    assert (known.r_lower[0], known.r_upper[0]) == near(1 - width_r, 1 + width_r)
    assert (known.r_lower[2], known.r_upper[2]) == near(2 - 2 * width_0, 2)  # no variance; cut at r_max
    assert entries(known, 0)[1] == near(0.75 - width_p, 0.75 + width_p)
    assert entries(known, 0)[2] == near(0.25 - width_p, 0.25 + width_p)
    assert entries(known, 2)[0] == near(1 - width_0, 1)  # cut at 1
    assert known.unseen[[0, 2]].tolist() == near(width_0, width_0)


@pytest.mark.parametrize("confidence", (*BOXES, likelihood), ids=lambda function: function.__name__)
def test_what_lower_ends_leave_of_a_row_is_free(confidence):
    """A row has the mass 1: in the set that agents plan with, which follows the counts, and in a copy of it."""
    for counts in (by_hand(), Counts(SPACE)):
        live = IncrementalSet(KINDS[confidence], counts, 0.1).current()
        for rows in (live.rows, confidence(counts, 0.1).rows):
            low = [rows.low[first:last].sum() for first, last in zip(rows.first, rows.last, strict=True)]
            assert rows.slack + low == pytest.approx(np.ones(5), abs=1e-12)
            assert rows.slack[[1, 3]].tolist() == [1, 1]


def test_widths_of_a_single_visit_are_those_of_n_equal_to_one():
    """With δ = 0.9, r_max = 1, S = A = 1, simplified: ln(1 / 0.9) = 0.105361 on both sides of r = 1/2, σ = 0."""
    counts = Counts(Space.full(1, 1))
    counts.add(0, 0, 0.5, 0)
    known = simplified_bernstein(counts, 0.9)
    assert (known.r_lower[0], known.r_upper[0]) == pytest.approx((0.5 - 0.105360516, 0.5 + 0.105360516), abs=1e-9)
    assert entries(known, 0)[0] == pytest.approx((1 - 0.105360516, 1.0), abs=1e-9)
    wide = bernstein(counts, 0.9)  # 3 ln(3 · 2 · 1 · 1 · 2 / 0.9) = 7.77: everything
    assert (wide.r_lower[0], wide.r_upper[0], wide.unseen[0]) == (0, 1, 1) and entries(wide, 0)[0] == (0, 1)


@everything
def test_a_pair_never_tried_may_earn_anything_and_lead_anywhere(confidence):
    for counts in (by_hand(), Counts(SPACE)):
        known = confidence(counts, 0.1)
        for k in np.flatnonzero(counts.visits == 0):
            assert (known.r_lower[k], known.r_upper[k], known.unseen[k]) == (0.0, 2.0, 1.0)
            assert entries(known, k) == {}
            for y, r in ((0, 0.0), (1, 2.0), (2, 1.0)):
                rows = {(s, a): (1.0, {0: 1.0}) for s, a in zip(SPACE.pair_state, SPACE.pair_action, strict=True)}
                rows[int(SPACE.pair_state[k]), int(SPACE.pair_action[k])] = (r, {y: 1.0})
                mdp = TabularMDP.from_pairs(rows, n_states=3, r_max=2.0)
                at = f"state {SPACE.pair_state[k]}, action {SPACE.pair_action[k]}"
                assert not any(fault.startswith(at) for fault in known.excludes(mdp))


@everything
def test_nor_does_a_narrow_width_say_anything_of_a_pair_never_tried(confidence):
    known = confidence(Counts(Space.full(1, 1, 5.0)), 0.9)  # ln(S A / δ) = 0.1 is no interval around nothing
    assert (known.r_lower[0], known.r_upper[0], known.unseen[0]) == (0.0, 5.0, 1.0)


@everything
def test_rewards_in_other_units_make_the_same_set(confidence):
    rng, n = np.random.default_rng(0), 3000
    sets = []
    steps = rng.integers(4, size=n), rng.random(n) ** 2, rng.integers(2, size=n)
    for r_max in (1.0, 10.0):
        counts = Counts(Space.full(2, 2, r_max))
        counts.add_steps(steps[0], r_max * steps[1], steps[2])
        sets.append(confidence(counts, 0.05))
    one, ten = sets
    assert ten.r_lower == pytest.approx(10 * one.r_lower) and ten.r_upper == pytest.approx(10 * one.r_upper)
    for name in ("p_lower", "p_upper", "unseen", "next_state"):
        assert np.array_equal(getattr(one, name), getattr(ten, name))
    assert np.all(one.r_upper - one.r_lower < 0.9)  # the statement is not empty


@everything
@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, np.nan])
def test_delta_is_a_probability(confidence, delta):
    with pytest.raises(InvalidInput, match="delta"):
        confidence(Counts(SPACE), delta)


@st.composite
def some_counts(draw):
    space = Space.full(draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.sampled_from([1.0, 3.0])))
    rng, n = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.integers(0, 400))
    counts = Counts(space)
    pairs = rng.integers(space.n_pairs, size=n) // draw(st.integers(1, 2))
    counts.add_steps(pairs, rng.random(n) * space.r_max, rng.integers(space.n_states, size=n))
    return counts


def inside(one, other):
    """Whether each interval and each ball of a set lies in that of another; equal centres are assumed."""
    inner = one.r_lower >= other.r_lower - 1e-12, one.r_upper <= other.r_upper + 1e-12
    rows = one.p_lower >= other.p_lower - 1e-12, one.p_upper <= other.p_upper + 1e-12, one.unseen <= other.unseen
    balls = () if one.width is None else (one.width <= other.width,)
    return all(np.all(part) for part in (*inner, *rows, *balls))


@everything
@exact
@given(counts=some_counts())
def test_sets_hold_the_empirical_mdp_and_grow_when_delta_falls(confidence, counts):
    sets = [confidence(counts, delta) for delta in (0.5, 0.1, 1e-3, 1e-9)]
    next_ptr, next_state, count = counts.rows()
    pair = np.repeat(np.arange(counts.space.n_pairs), np.diff(next_ptr))
    for known in sets:
        assert np.all((known.r_lower >= 0) & (known.r_lower <= known.r_upper) & (known.r_upper <= counts.space.r_max))
        assert np.all((known.p_lower >= 0) & (known.p_upper <= 1) & (known.p_lower <= known.p_upper))
        assert np.all((known.unseen >= 0) & (known.unseen <= 1))
        p_hat = count / counts.visits[pair]
        assert np.all((known.p_lower <= p_hat) & (p_hat <= known.p_upper))
        assert np.array_equal(known.next_state, next_state) and np.array_equal(known.next_ptr, next_ptr)
    assert all(inside(one, other) for one, other in pairwise(sets))


@exact
@given(counts=some_counts(), delta=st.floats(1e-9, 0.999))
def test_the_papers_hoeffding_set_holds_that_of_jaksch(counts, delta):
    assert inside(hoeffding(counts, delta), hoeffding_paper(counts, delta))


@everything
def test_sets_shrink_as_the_same_data_come_again(confidence):
    rng = np.random.default_rng(0)
    steps = rng.integers(4, size=60), rng.random(60), rng.integers(2, size=60)
    counts, sets = Counts(Space.full(2, 2)), []
    for _ in range(6):
        for _ in range(max(1, counts.total // 60)):  # twice as many each time
            counts.add_steps(*steps)
        sets.append(confidence(counts, 0.1))
    assert all(inside(later, earlier) for earlier, later in pairwise(sets))
    assert not inside(sets[0], sets[-1])


def boxes(**changes):
    """Rewards in [0, .5] and [.5, 1]; from 0 to itself [.2, .6], to 1 at most .8; from 1 to anywhere."""
    fields = {
        "r_lower": np.array([0.0, 0.5]),
        "r_upper": np.array([0.5, 1.0]),
        "next_ptr": np.array([0, 1, 1]),
        "next_state": np.array([0]),
        "p_lower": np.array([0.2]),
        "p_upper": np.array([0.6]),
        "unseen": np.array([0.7, 1.0]),
    }
    return Plausible(Space.full(2, 1), **(fields | changes))


@pytest.mark.parametrize(
    ("stay", "rewards", "faults"),
    [
        (0.3, (0.0, 1.0), []),
        (0.6, (0.5, 0.5), []),
        (0.6 + 1e-13, (0.5, 0.5 - 1e-13), []),
        (0.61, (0.5, 0.5), ["state 0, action 0: probability 0.61 of state 0 not in [0.2, 0.6]"]),
        (0.25, (0.5, 0.5), ["state 0, action 0: probability 0.75 of state 1 not in [0, 0.7]"]),
        (0.5, (0.6, 0.4), ["state 0, action 0: mean reward 0.6 not in", "state 1, action 0: mean reward 0.4 not in"]),
    ],
)
def test_boxes_contain_what_is_in_each_interval_and_say_what_is_not(stay, rewards, faults):
    mdp = TabularMDP.from_arrays([[[stay, 1 - stay]], [[1.0, 0.0]]], np.array(rewards)[:, None])
    found = boxes().excludes(mdp)
    assert len(found) == len(faults) and all(a.startswith(b) for a, b in zip(found, faults, strict=True))
    assert boxes().contains(mdp) == (not faults)
    assert boxes().contains(mdp, tolerance=0.2)


@pytest.mark.parametrize(("stay", "contained"), [(0.5, True), (0.7, True), (0.3, True), (0.71, False), (0.29, False)])
def test_a_ball_contains_what_is_no_farther_than_its_radius(stay, contained):
    ball = boxes(
        next_ptr=np.array([0, 2, 2]),
        next_state=np.array([1, 0]),
        p_lower=np.array([0.5, 0.5]),
        p_upper=np.ones(2),
        width=np.array([0.4, 0.0]),
    )
    mdp = TabularMDP.from_arrays([[[stay, 1 - stay]], [[1.0, 0.0]]], [[0.2], [0.7]])  # at |stay - .5| · 2
    assert ball.contains(mdp) == contained
    assert contained or ball.excludes(mdp) == ["state 0, action 0: row at distance 0.42 > 0.4"]


def test_a_set_that_holds_one_mdp_contains_it_and_no_other():
    mdp = TabularMDP.from_arrays([[[0.25, 0.75]], [[1.0, 0.0]]], [[0.2], [0.7]])
    point = Plausible.exactly(mdp)
    assert point.contains(mdp)
    for p, r in (([0.26, 0.74], 0.2), ([0.25, 0.75], 0.21), ([1.0, 0.0], 0.2)):
        assert not point.contains(TabularMDP.from_arrays([[p], [[1.0, 0.0]]], [[r], [0.7]]))
    with pytest.raises(InvalidInput, match="do not fit"):
        point.contains(TabularMDP.from_arrays(np.ones((1, 1, 1)), np.zeros((1, 1))))


def test_the_kernels_rearrange_rows_of_their_own():
    known = boxes()
    known.rows.next_state[:], known.rows.low[:], known.rows.room[:] = 1, 9.0, 9.0
    assert (known.next_state[0], known.p_lower[0], known.p_upper[0]) == (0, 0.2, 0.6)
    assert boxes().rows.slack.tolist() == [0.8, 1.0] and boxes().rows.room.tolist() == [0.6 - 0.2]
    assert boxes().rows.width.tolist() == [-1.0, -1.0]


TRUTH = TabularMDP.from_arrays([[[0.9, 0.1]], [[0.3, 0.7]]], [[0.6], [0.1]], noise=Noise("bernoulli"))


def ever_excludes_the_truth(confidence, delta, seed, steps, stride=1):
    """Whether a run of the true MDP saw it excluded at any time, or at any `stride`-th."""
    counts, draws = Counts(TRUTH.space), np.zeros((steps, 2))
    pairs, rewards, next_states = np.empty(steps, dtype=np.int64), np.empty(steps), np.empty(steps, dtype=np.int64)
    playing.draw_steps(np.random.default_rng(seed), TRUTH.noise.code, draws)
    world = World(TRUTH.space.pair_ptr, TRUTH.next_ptr, TRUTH.next_state, TRUTH.p, TRUTH.r, 1.0, TRUTH.noise.code, 0.0)
    rules, played = (np.arange(2)[None], NO_FLOATS), (pairs, rewards, next_states)
    playing.play_episode(tuple(world), *rules, draws, np.zeros(0), np.full(2, steps + 1), 0, *played)
    for t in range(0, steps, stride):
        counts.add_steps(*(column[t : t + stride] for column in (pairs, rewards, next_states)))
        if not confidence(counts, delta).contains(TRUTH):
            return True
    return False


FALSE_ALARM = 1e-6


@pytest.mark.first(2)
@pytest.mark.parametrize("confidence", [hoeffding, bernstein], ids=["hoeffding", "bernstein"])
def test_the_truth_is_in_the_set_at_all_times_as_often_as_promised(confidence):
    delta, runs, steps = 0.05, 8, 1500
    failures = sum(ever_excludes_the_truth(confidence, delta, seed, steps) for seed in range(runs))
    assert failures <= binom.ppf(1 - FALSE_ALARM, runs, delta)  # at rate delta: exceeded once in a million


def test_the_simplified_set_is_not_valid():
    """A documented fact: with no union over time, the truth is left out at some time far more often than delta."""
    delta, runs, steps = 0.1, 24, 10_000
    failures = sum(ever_excludes_the_truth(simplified_bernstein, delta, seed, steps, 40) for seed in range(runs))
    assert failures > binom.ppf(1 - FALSE_ALARM, runs, delta)  # a valid set does this once in a million
