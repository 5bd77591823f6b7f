"""A space lists the pairs that exist; an invalid one says everything that is wrong with it."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefooted.errors import InvalidInput, SurefootedError
from surefooted.tables.space import Space

MASK = np.array([[True, False, True], [False, True, False]])
exact = settings(derandomize=True, deadline=None)  # the same examples in every run

masks = st.integers(1, 5).flatmap(
    lambda n_actions: st.lists(
        st.lists(st.booleans(), min_size=n_actions, max_size=n_actions).filter(any), min_size=1, max_size=6
    )
)


def test_pairs_are_one_flat_axis_grouped_by_state():
    space = Space.from_available(MASK, r_max=2.5)
    assert space.pair_ptr.tolist() == [0, 2, 3]
    assert space.pair_state.tolist() == [0, 0, 1]
    assert space.pair_action.tolist() == [0, 2, 1]
    assert (space.n_states, space.n_actions, space.n_pairs, space.r_max) == (2, 3, 3, 2.5)
    assert [space.actions(s).tolist() for s in range(2)] == [[0, 2], [1]]
    assert repr(space) == "Space(n_states=2, n_pairs=3, r_max=2.5)"


@exact
@given(masks)
def test_available_and_pair_invert_the_flat_axis(rows):
    mask = np.array(rows)
    space = Space.from_available(mask)
    used = np.flatnonzero(mask.any(axis=0))[-1] + 1  # actions that no state has, at the end, are no actions
    assert np.array_equal(space.available, mask[:, :used])
    assert [space.pair(s, a) for s, a in zip(*np.nonzero(mask), strict=True)] == list(range(space.n_pairs))


def test_full_has_every_pair():
    assert Space.full(3, 2, 7.0) == Space.from_available(np.ones((3, 2), dtype=bool), 7.0)


@pytest.mark.parametrize(
    "other",
    [Space.from_available(MASK, 2.0), Space.full(2, 3), Space.from_available(MASK[::-1]), "a space"],
    ids=["another r_max", "more pairs", "pairs elsewhere", "no space"],
)
def test_spaces_are_equal_and_hash_alike_exactly_when_they_have_the_same_pairs_and_r_max(other):
    space, twin = Space.from_available(MASK), Space.from_available(MASK.tolist())
    assert space == twin and hash(space) == hash(twin)
    assert space != other and len({space, twin, other}) == 2


@pytest.mark.parametrize("array", ["pair_ptr", "pair_action", "pair_state", "available"])
@pytest.mark.parametrize("copied", [lambda x: x, lambda x: pickle.loads(pickle.dumps(x))], ids=["built", "unpickled"])
def test_the_arrays_of_a_space_are_frozen_also_after_pickling(array, copied):
    values = getattr(copied(Space.full(2, 2)), array)
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 0


def test_a_space_keeps_its_own_copy_of_what_it_was_given():
    ptr, action = np.array([0, 2, 3]), np.array([0, 2, 1])
    space = Space(ptr, action)
    ptr[:], action[:] = 0, 0
    assert space == Space.from_available(MASK)


@pytest.mark.parametrize(
    ("build", "faults"),
    [
        (lambda: Space.full(0, 2), ["no state"]),
        (lambda: Space.full(2, 0), ["state 0: has no action", "state 1: has no action"]),
        (lambda: Space.from_available([[True], [False]]), ["state 1: has no action"]),
        (lambda: Space.from_available([True, False]), ["boolean array [S, A], not bool with shape (2,)"]),
        (lambda: Space.from_available([[1, 0]]), ["boolean array [S, A], not int64"]),
        (lambda: Space(np.array([[0, 1]]), np.array([0.5])), ["pair_ptr must be", "pair_action must be"]),
        (lambda: Space(np.array([0, 2, 1]), np.array([0])), ["pair_ptr must rise from 0 to the number of pairs, 1"]),
        (lambda: Space(np.array([1, 2]), np.array([0, 1])), ["pair_ptr must rise"]),
        (lambda: Space(np.array([0, 3]), np.array([0, 1])), ["pair_ptr must rise"]),
        (
            lambda: Space(np.array([0, 2, 2, 4]), np.array([1, 1, -2, 0])),
            ["state 0: actions 1, 1 do not increase", "state 1: has no action", "state 2: action -2 is negative"],
        ),
        (lambda: Space.full(1, 1, 0.0), ["r_max is 0.0"]),
        (lambda: Space.full(1, 1, -1.0), ["r_max is -1.0"]),
        (lambda: Space.full(1, 1, np.nan), ["r_max is nan"]),
        (lambda: Space.full(1, 1, np.inf), ["r_max is inf"]),
        (lambda: Space.full(2, 0, np.nan), ["r_max is nan", "state 0: has no action", "state 1: has no action"]),
    ],
)
def test_an_invalid_space_names_every_fault(build, faults):
    with pytest.raises(InvalidInput) as caught:
        build()
    assert len(caught.value.faults) == len(faults)
    for fault in faults:
        assert any(fault in found for found in caught.value.faults) and fault in str(caught.value)


SHOP = {"rewards": (-102, 181), "unit": "€", "states": ["low", "high"], "actions": ["wait", "order"]}


def test_a_space_has_the_range_of_its_rewards_in_their_own_unit_and_names():
    shop = Space.full(2, 2, **SHOP)
    assert (shop.low, shop.high, shop.r_max, shop.unit) == (-102.0, 181.0, 283.0, "€")
    assert (shop.state_names, shop.action_names) == (("low", "high"), ("wait", "order"))
    assert shop.words(2) == "state high, action wait" and Space.full(2, 2).words(2) == "state 1, action 0"
    assert (shop.state_words(1), shop.action_words(0)) == ("high", "wait")
    assert repr(shop) == "Space(n_states=2, n_pairs=4, rewards=(-102, 181), unit='€')"
    assert Space.full(2, 2, rewards=(0, 3)) == Space.full(2, 2, 3.0) == Space.full(2, 2, r_max=3)
    assert (Space.full(2, 2).low, Space.full(2, 2).high, Space.full(2, 2).state_names) == (0.0, 1.0, None)


@pytest.mark.parametrize("change", [{"rewards": (-103, 181)}, {"unit": ""}, {"states": None}, {"actions": ["a", "b"]}])
def test_range_unit_and_names_are_part_of_a_space(change):
    shop, other = Space.full(2, 2, **SHOP), Space.full(2, 2, **SHOP | change)
    for copied in (pickle.loads(pickle.dumps(shop)), copy.deepcopy(shop), Space.from_columns(shop.columns())):
        assert copied == shop and hash(copied) == hash(shop)
    assert other != shop and hash(other) != hash(shop)
    assert pickle.loads(pickle.dumps(other)) == other


def test_the_hash_and_the_file_of_a_plain_space_are_those_of_older_versions():
    assert hash(Space.full(2, 2)) == hash(Space.full(2, 2, rewards=(0, 1)))
    assert list(Space.full(2, 2, 2.0).columns()) == ["pair_ptr", "pair_action", "r_max"]
    old = {"pair_ptr": np.array([0, 2, 4]), "pair_action": np.array([0, 1, 0, 1]), "r_max": np.float64(2.0)}
    assert Space.from_columns(old) == Space.full(2, 2, 2.0)


@pytest.mark.parametrize(
    ("unit", "value", "words"),
    [
        ("€", 12.4, "€ 12.40"),
        ("€", -3, "€ -3.00"),
        ("EUR", 1234.567, "EUR 1234.57"),
        ("€", 0.0, "€ 0.00"),
        ("€", 0.0012, "€ 0.001"),  # what could cost a tenth of a cent does not cost nothing
        ("€", -np.inf, "€ -inf"),
        ("kWh", 12.4, "12.4 kWh"),
        ("", 12.4, "12.4"),
    ],
)
def test_an_amount_is_worded_in_its_unit(unit, value, words):
    assert Space.full(1, 1, unit=unit).amount(value) == words


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        ({"rewards": (1, 1)}, ["rewards (1, 1) must be (low, high)"]),
        ({"rewards": (0, np.inf)}, ["rewards (0, inf) must be"]),
        ({"rewards": "0..1"}, ["rewards 0..1 must be"]),
        ({"rewards": 5}, ["rewards 5 must be"]),
        ({"rewards": (0, 1), "r_max": 2}, ["rewards=(low, high) or r_max, not both"]),
        ({"unit": 3, "states": ["one"]}, ["unit must be a text", "states must be 2 names"]),
        ({"states": ["one", "one"], "actions": "ab"}, ["'one' is given twice", "actions must be 2 names"]),
    ],
)
def test_an_invalid_range_unit_or_name_is_refused_with_all_others(options, faults):
    with pytest.raises(InvalidInput) as caught:
        Space.full(2, 2, **options)
    assert len(caught.value.faults) == len(faults)
    for fault in faults:
        assert fault in str(caught.value)


@pytest.mark.parametrize("s", [-1, 2, 0.5, np.nan, np.inf])
def test_a_state_that_does_not_exist_is_refused(s):
    space = Space.from_available(MASK)
    for ask in (space.check_state, space.actions, lambda s: space.pair(s, 0)):
        with pytest.raises(InvalidInput, match=rf"state {s}: the states are 0 to 1"):
            ask(s)


@pytest.mark.parametrize("a", [-1, 1, 3, 0.5, np.nan])
def test_an_action_that_is_not_available_is_refused_with_those_that_are(a):
    with pytest.raises(InvalidInput, match=rf"state 0: action {a} is not available; 0, 2 are"):
        Space.from_available(MASK).pair(0, a)


@pytest.mark.parametrize(("count", "plural"), [(1, "1 fault\n"), (2, "2 faults\n"), (50, "50 faults\n")])
def test_the_error_prints_every_fault_and_the_hint(count, plural):
    error = InvalidInput("no good", (f"fault number {i}" for i in range(count)), "try again")
    assert str(error).startswith(f"no good: {plural}") and str(error).endswith("\ntry again")
    assert error.faults == tuple(f"fault number {i}" for i in range(count))
    assert all(f"  - {fault}\n" in str(error) for fault in error.faults)
    assert isinstance(error, ValueError) and isinstance(error, SurefootedError)


def test_the_error_prints_fifty_faults_and_keeps_them_all():
    error = InvalidInput("no good", [f"number {i}." for i in range(53)])
    assert "number 49." in str(error) and "number 50." not in str(error) and "and 3 more" in str(error)
    assert len(error.faults) == 53


def test_the_error_survives_pickling_whole():
    error = InvalidInput("no good", ["this", "that"], "try again")
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is InvalidInput and str(twin) == str(error)
    assert (twin.what, twin.faults, twin.hint) == ("no good", ("this", "that"), "try again")
