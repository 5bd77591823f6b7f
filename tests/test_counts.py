"""Counting: the same whichever way steps come in, all or nothing, in memory that grows with what was seen."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefooted.data.counts import REWARD_ROUNDING, Counts
from surefooted.errors import InvalidInput
from surefooted.kernels import counting
from surefooted.kernels.structs import Pool
from surefooted.tables.space import Space

exact = settings(derandomize=True, deadline=None, max_examples=60)  # the same examples in every run


def some_steps(space, seed, n):
    """Pairs, rewards in [0, r_max] and next states; most pairs lead to few states, some to all."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(space.n_pairs, size=n)
    reach = np.maximum(1, (rng.random(space.n_pairs) ** 3 * space.n_states).astype(int))
    return pairs, rng.random(n) * space.r_max, (pairs + rng.integers(reach[pairs])) % space.n_states


def dictionaries(steps):
    """Visits, rewards and next states of each pair, by dictionaries."""
    rewards, rows = defaultdict(list), defaultdict(Counter)
    for k, r, y in zip(*(column.tolist() for column in steps), strict=True):
        rewards[k].append(r)
        rows[k][y] += 1
    return rewards, rows


def check(counts, steps):
    """Whether counts hold exactly these steps."""
    rewards, rows = dictionaries(steps)
    next_ptr, next_state, count = counts.rows()
    assert next_ptr[0] == 0 and next_ptr[-1] == next_state.size == count.size == counts.n_transitions
    for k in range(counts.space.n_pairs):
        row = slice(next_ptr[k], next_ptr[k + 1])
        assert len(set(next_state[row])) == row.stop - row.start
        assert dict(zip(next_state[row].tolist(), count[row].tolist(), strict=True)) == rows[k]
        assert counts.visits[k] == len(rewards[k])
        assert counts.reward_sum[k] == pytest.approx(sum(rewards[k]), rel=1e-12)
        assert counts.reward_square[k] == pytest.approx(sum(r * r for r in rewards[k]), rel=1e-12)
    assert counts.total == len(steps[0])


def identical(a, b):
    """Whether two counts agree in every bit, the order of their rows included."""
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def everything(counts):
    """All that a count knows, by name."""
    own = {name: value for name, value in vars(counts).items() if name not in ("space", "pool", "_told")}
    return own | {"total": counts.total} | counts.pool._asdict()


def frozen(counts):
    """Everything a count knows, to compare with later."""
    return {name: np.copy(value) for name, value in everything(counts).items()}


def unchanged(counts, before):
    return all(np.array_equal(value, before[name]) for name, value in everything(counts).items())


@exact
@given(
    n_states=st.integers(1, 60),
    n_actions=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 1500),
    cuts=st.lists(st.floats(0, 1), max_size=4),
    r_max=st.sampled_from([1.0, 0.5, 40.0]),
)
def test_counts_are_those_of_dictionaries_and_their_sums_whichever_way_they_are_added(
    n_states, n_actions, seed, n, cuts, r_max
):
    space = Space.full(n_states, n_actions, r_max)
    pairs, rewards, next_states = steps = some_steps(space, seed, n)
    whole, parts, merged = Counts(space), Counts(space), Counts(space)
    whole.add_steps(*steps)
    check(whole, steps)
    for part in np.split(np.arange(n), sorted(int(cut * n) for cut in cuts)):
        parts.add_steps(*(column[part] for column in steps))
        other = Counts(space)
        other.add_history(
            space.pair_state[pairs[part]], space.pair_action[pairs[part]], rewards[part], next_states[part]
        )
        merged.merge(other)
    assert identical(parts, whole)
    check(merged, steps)


def test_add_add_steps_and_add_history_agree_in_every_bit():
    space = Space.from_available(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1]], dtype=bool), 2.0)
    pairs, rewards, next_states = steps = some_steps(space, 0, 500)
    states, actions = space.pair_state[pairs], space.pair_action[pairs]
    one, many, history = Counts(space), Counts(space), Counts(space)
    for step in zip(states, actions, rewards, next_states, strict=True):
        one.add(*step)
    many.add_steps(*steps)
    history.add_history(states.tolist(), actions.tolist(), rewards.tolist(), next_states.tolist())
    assert identical(one, many) and identical(many, history)
    check(one, steps)


def test_counts_by_hand():
    counts = Counts(Space.full(3, 2, 4.0))
    assert counts.total == counts.n_transitions == 0
    for step in ((0, 1, 1.0, 2), (0, 1, 3.0, 2), (2, 0, 4.0, 0), (0, 1, 0.5, 1)):
        counts.add(*step)
    assert counts.visits.tolist() == [0, 3, 0, 0, 1, 0]
    assert counts.reward_sum.tolist() == [0, 4.5, 0, 0, 4, 0]
    assert counts.reward_square.tolist() == [0, 1 + 9 + 0.25, 0, 0, 16, 0]
    assert [x.tolist() for x in counts.rows()] == [[0, 0, 2, 2, 2, 3, 3], [2, 1, 0], [2, 1, 1]]
    assert counts.total == 4 and counts.n_transitions == 3


@pytest.mark.parametrize("kernel", [counting.count_steps, counting.count_steps.py_func], ids=["compiled", "plain"])
def test_count_steps_stops_before_the_step_that_the_pool_cannot_hold(kernel):
    visits, sums, squares = np.zeros(2, dtype=np.int64), np.zeros(2), np.zeros(2)
    start, length, room = (np.zeros(2, dtype=np.int64) for _ in range(3))
    state, count, used = np.zeros(7, dtype=np.int64), np.zeros(7, dtype=np.int64), np.zeros(2, dtype=np.int64)
    pairs, next_states = np.array([0, 1, 0, 1, 1, 0, 0]), np.array([5, 6, 7, 6, 7, 5, 8])
    rewards = np.arange(7.0)
    steps, table = (pairs, rewards, next_states), (visits, sums, squares)
    pool = Pool(start, length, room, state, count, used)
    # rows of room 2 at 0 and 2; the third successor of pair 0 would need 4 more places than the 3 there are
    assert kernel(*steps, 0, *table, tuple(pool), 9) == 6
    assert visits.tolist() == [3, 3] and length.tolist() == [2, 2] and used.tolist() == [4, 4]
    assert sums.tolist() == [0 + 2 + 5, 1 + 3 + 4] and squares.tolist() == [0 + 4 + 25, 1 + 9 + 16]
    assert kernel(*steps, 6, *table, tuple(pool), 9) == 6  # and again
    state, count = np.append(state, np.zeros(7, dtype=np.int64)), np.append(count, np.zeros(7, dtype=np.int64))
    assert kernel(*steps, 6, *table, tuple(pool._replace(state=state, counted=count)), 9) == 7
    assert state[start[0] : start[0] + 3].tolist() == [5, 7, 8] and count[start[0] : start[0] + 3].tolist() == [2, 1, 1]
    assert state[start[1] : start[1] + 2].tolist() == [6, 7] and count[start[1] : start[1] + 2].tolist() == [2, 1]


@exact
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 800), more=st.integers(0, 800), bounded=st.booleans())
def test_a_count_that_was_saved_goes_on_as_if_it_had_not_been(seed, n, more, bounded):
    space = Space.full(30, 2, 3.0)
    steps = some_steps(space, seed, n + more)
    before, after = (tuple(column[part] for column in steps) for part in (slice(None, n), slice(n, None)))
    counts = Counts(space, bounded)
    counts.add_steps(*before)
    state = counts.state_dict()
    loaded = Counts.from_state_dict(space, state)
    assert identical(loaded, counts) and loaded.bounded == bounded
    kept = {key: np.copy(value) for key, value in state.items()}
    for one in (counts, loaded):
        one.add_steps(*after)
        check(one, steps)
    assert identical(loaded, counts)
    assert all(np.array_equal(state[key], kept[key]) for key in kept)  # neither writes into what was saved


def test_merging_a_count_into_itself_doubles_it():
    space = Space.full(4, 2)
    steps = some_steps(space, 3, 100)
    counts = Counts(space)
    counts.add_steps(*steps)
    counts.merge(counts)
    check(counts, tuple(np.concatenate([column, column]) for column in steps))


def test_merging_leaves_the_other_alone_and_wants_the_same_space():
    space = Space.full(4, 2)
    one, other = Counts(space), Counts(space)
    other.add_steps(*some_steps(space, 1, 50))
    before = frozen(other)
    one.merge(other)
    one.add_steps(*some_steps(space, 2, 50))
    assert unchanged(other, before)
    for different in (Space.full(4, 3), Space.full(4, 2, 2.0)):
        before = frozen(one)
        with pytest.raises(InvalidInput, match="different spaces"):
            one.merge(Counts(different))
        assert unchanged(one, before)


def test_rewards_of_any_size_do_not_enter_bounded_counts_by_a_merge():
    space = Space.full(2, 1)
    bounded, free = Counts(space), Counts(space, bounded=False)
    free.add(0, 0, 50.0, 1)
    with pytest.raises(InvalidInput):
        bounded.merge(free)
    assert bounded.total == 0


nan, inf = np.nan, np.inf
GOOD = (1, 0, 0.5, 1)
BAD = [
    (-1, 0, 0.5, 1),
    (3, 0, 0.5, 1),
    (1, 1, 0.5, 1),
    (1, -1, 0.5, 1),
    (1, 0, 0.5, -1),
    (1, 0, 0.5, 3),
    (1, 0, nan, 1),
    (1, 0, inf, 1),
    (1, 0, -inf, 1),
    (1, 0, -1e-6, 1),
    (1, 0, 2 + 1e-6, 1),
]
FRACTIONS = [(1.5, 0, 0.5, 1), (1, 0.5, 0.5, 1), (1, 0, 0.5, 1.5), (nan, 0, 0.5, 1), (1, 0, 0.5, nan)]


def started():
    """Counts of three states, one or two actions and rewards in [0, 2], with something in them."""
    space = Space.from_available(np.array([[1, 1], [1, 0], [1, 1]], dtype=bool), 2.0)
    counts = Counts(space)
    counts.add_steps(*some_steps(space, 5, 20))
    return counts


@pytest.mark.parametrize("step", BAD + FRACTIONS, ids=str)
def test_an_impossible_step_changes_nothing(step):
    counts = started()
    before = frozen(counts)
    with pytest.raises(InvalidInput):
        counts.add(*step)
    assert unchanged(counts, before)


@pytest.mark.parametrize("step", [*BAD, *FRACTIONS, (None, 0, 0.5, 1), (1, 0, None, 1)], ids=str)
def test_a_history_with_an_impossible_step_changes_nothing_and_names_it(step):
    counts = started()
    before = frozen(counts)
    with pytest.raises(InvalidInput, match="step 2: state") as error:
        counts.add_history(*zip(GOOD, GOOD, step, GOOD, strict=True))
    assert len(error.value.faults) == 1
    assert unchanged(counts, before)


def test_a_history_names_every_impossible_step():
    counts = started()
    with pytest.raises(InvalidInput) as error:
        counts.add_history([0, 9, 1, 0], [0, 0, 1, 0], [0.5] * 4, [0, 0, 0, 7])
    assert [fault.split(":")[0] for fault in error.value.faults] == ["step 1", "step 2", "step 3"]
    with pytest.raises(InvalidInput) as error:
        counts.add_history([0, 0, 0], [0, 1, 0], [3.0, 1.0, nan], [0, 0, 0])
    assert error.value.faults == (
        "step 0: state 0, action 0: reward 3 is outside [0, 2]",
        "step 2: state 0, action 0: reward nan is outside [0, 2]",
    )


@pytest.mark.parametrize("columns", [([0], [0, 0], [0.5], [0]), ([[0]], [[0]], [[0.5]], [[0]]), (0, 0, 0.5, 0)])
def test_a_history_is_four_columns_of_one_length(columns):
    with pytest.raises(InvalidInput, match="one length"):
        started().add_history(*columns)


def test_an_empty_history_is_no_history():
    counts = started()
    before = frozen(counts)
    counts.add_history([], [], [], [])
    assert unchanged(counts, before)


@pytest.mark.parametrize(
    "steps",
    [([-1], [0.5], [0]), ([5], [0.5], [0]), ([0], [0.5], [-1]), ([0], [0.5], [3]), ([0, 0], [0.5], [0])],
    ids=str,
)
def test_steps_by_index_that_do_not_exist_never_reach_the_compiled_loop(steps, monkeypatch):
    """Which would read and write where it must not: hence the stand-in."""
    counts = started()
    monkeypatch.setattr(counting, "count_steps", lambda pairs, *_: len(pairs))
    with pytest.raises(InvalidInput):
        counts.add_steps(*(np.array(column) for column in steps))


@pytest.mark.parametrize("r_max", [0.25, 1.0, 1000.0])
def test_a_reward_may_miss_its_range_by_rounding_and_no_more(r_max):
    space = Space.full(1, 1, r_max)
    counts = Counts(space)
    assert REWARD_ROUNDING == 1e-9
    for r in (-0.9e-9 * r_max, r_max * (1 + 0.9e-9), 0.0, r_max):
        counts.add(0, 0, r, 0)
    for r in (-1.1e-9 * r_max, r_max * (1 + 1.1e-9)):
        with pytest.raises(InvalidInput, match="outside"):
            counts.add(0, 0, r, 0)
    assert counts.total == 4


def test_unbounded_counts_take_any_finite_reward():
    counts = Counts(Space.full(1, 1), bounded=False)
    for r in (-5.0, 7.0):
        counts.add(0, 0, r, 0)
    assert counts.reward_sum[0] == 2.0 and counts.reward_square[0] == 74.0
    for r in (nan, inf, -inf):
        with pytest.raises(InvalidInput, match="outside the finite numbers"):
            counts.add(0, 0, r, 0)
    assert counts.total == 2


def test_memory_grows_with_what_was_seen():
    space = Space.full(20_000, 2)
    counts = Counts(space)
    empty = sum(value.nbytes for value in frozen(counts).values())
    assert empty <= 8 * (6 * space.n_pairs + 6_000)  # a few numbers per pair, none per pair and state
    for _ in range(50):
        counts.add_steps(*some_steps(Space.full(20, 2), 1, 200))  # the same 200 steps again and again
    pool = counts.pool.state.size
    counts.add_steps(*some_steps(Space.full(20, 2), 1, 200))
    assert counts.pool.state.size == pool
    rng = np.random.default_rng(0)
    n = 30_000
    counts.add_steps(rng.integers(space.n_pairs, size=n), np.zeros(n), rng.integers(space.n_states, size=n))
    counts.add_steps(np.zeros(n, dtype=np.int64), np.zeros(n), rng.integers(space.n_states, size=n))
    # rooms double, so a row wastes less than three times its length and 2; the pool doubles too
    assert counts.pool.state.size <= 2 * (4 * counts.n_transitions + 2 * np.count_nonzero(counts.visits)) + 256
