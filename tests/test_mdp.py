"""One table, however it is written down: checked whole, kept to the last bit, and drawn from as it says."""

import pickle
import zipfile
from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

from surefooted.errors import InvalidInput
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Space

FALSE_ALARM = 1e-6  # of each statistical test below
nan, inf = np.nan, np.inf
exact = settings(derandomize=True, deadline=None)  # the same examples in every run


def identical(a, b):
    """Whether two tables agree in every bit."""
    a, b = a.columns(), b.columns()
    return a.keys() == b.keys() and all(
        np.asarray(a[key]).dtype == np.asarray(b[key]).dtype
        and np.asarray(a[key]).tobytes() == np.asarray(b[key]).tobytes()
        for key in a
    )


def transitions(p, r, available):
    """The (s, a, s', p, r) of a dense table, zero probabilities included."""
    return [(s, a, y, p[s, a, y], r[s, a]) for s, a in np.argwhere(available) for y in range(len(p))]


def pairs(p, r, available):
    """The dictionary of a dense table, zero probabilities included."""
    return {(int(s), int(a)): (r[s, a], dict(enumerate(p[s, a]))) for s, a in np.argwhere(available)}


@st.composite
def tables(draw):
    """Dense p, r, available, with some zero probabilities and in each state some action."""
    n_states, n_actions = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    available = rng.random((n_states, n_actions)) < 0.6
    available[np.arange(n_states), rng.integers(n_actions, size=n_states)] = True
    p = rng.dirichlet(np.full(n_states, 0.5), size=(n_states, n_actions))
    p[rng.random(p.shape) < 0.3] = 0.0
    p[p.sum(axis=2) == 0, 0] = 1.0
    return p / p.sum(axis=2, keepdims=True), rng.random((n_states, n_actions)), available


def small():
    """Two states; action 1 of state 1 does not exist."""
    return TabularMDP.from_pairs(
        {(0, 0): (0.25, {0: 0.5, 1: 0.5}), (0, 1): (1.0, {1: 1.0}), (1, 0): (0.0, {0: 0.2, 1: 0.8})},
    )


def test_a_table_by_hand():
    mdp = small()
    assert mdp.space == Space.from_available([[True, True], [True, False]])
    assert mdp.next_ptr.tolist() == [0, 2, 3, 5]
    assert mdp.next_state.tolist() == [0, 1, 1, 0, 1]
    assert mdp.p.tolist() == [0.5, 0.5, 1.0, 0.2, 0.8]
    assert mdp.r.tolist() == [0.25, 1.0, 0.0]
    assert (mdp.n_states, mdp.r_max, mdp.noise) == (2, 1.0, Noise())
    assert (mdp.reward_offset, mdp.reward_scale) == (0.0, 1.0)
    assert [row.tolist() for row in mdp.row(1, 0)] == [[0, 1], [0.2, 0.8]]
    assert repr(mdp) == "TabularMDP(n_states=2, n_pairs=3, nnz=5)"
    with pytest.raises(InvalidInput, match="state 1: action 1 is not available; 0 are"):
        mdp.row(1, 1)


@exact
@given(tables(), st.randoms(use_true_random=False))
def test_arrays_pairs_and_transitions_give_the_same_table(table, random):
    p, r, available = table
    dense = TabularMDP.from_arrays(p, r, available)
    listed = transitions(p, r, available)
    halved = [(s, a, y, mass / 2, reward) for s, a, y, mass, reward in listed for _ in range(2)]  # repeats add up
    random.shuffle(halved)
    assert identical(dense, TabularMDP.from_pairs(pairs(p, r, available)))
    assert identical(dense, TabularMDP.from_transitions(*map(np.array, zip(*listed, strict=True))))
    assert identical(dense, TabularMDP.from_transitions(*map(np.array, zip(*halved, strict=True))))
    assert np.all(dense.p > 0) and np.all(np.diff(dense.next_ptr) > 0)
    if available.all():
        assert identical(dense, TabularMDP.from_arrays(p, r))


@exact
@given(tables())
def test_to_arrays_and_back_changes_no_bit(table):
    p, r, available = table
    mdp = TabularMDP.from_arrays(p, r, available)
    p_again, r_again, available_again = mdp.to_arrays()
    n = mdp.space.n_actions  # actions that no state has, at the end, are no actions
    assert np.array_equal(available_again, available[:, :n])
    assert np.allclose(p_again, np.where(available[:, :n, None], p[:, :n], 0.0), rtol=0, atol=1e-15)
    assert np.array_equal(r_again, np.where(available[:, :n], r[:, :n], 0.0))
    assert identical(mdp, TabularMDP.from_arrays(p_again, r_again, available_again))


@pytest.mark.parametrize("part", [0, 1, 2], ids=["p", "r", "available"])
def test_what_to_arrays_returns_may_be_changed_without_changing_the_table(part):
    mdp = small()
    before = [array.copy() for array in mdp.to_arrays()]
    mdp.to_arrays()[part][...] = 0
    assert all(np.array_equal(array, kept) for array, kept in zip(mdp.to_arrays(), before, strict=True))


@settings(exact, max_examples=25)
@given(
    tables(),
    st.sampled_from([Noise(), Noise("gaussian", 0.1), Noise("uniform", 1 / 3)]),
    st.sampled_from([{}, {"r_max": 10 / 3}, {"rewards": (-1 / 3, 7.1)}]),
)
def test_saving_and_loading_changes_no_bit(tmp_path_factory, table, noise, units):
    p, r, available = table
    folder = tmp_path_factory.mktemp("saved")
    mdp = TabularMDP.from_arrays(p, r, available, noise, **units)
    mdp.save(folder / "table.npz")
    assert identical(mdp, TabularMDP.load(folder / "table.npz"))
    assert [path.name for path in folder.iterdir()] == ["table.npz"]


def test_saving_and_loading_changes_no_bit_of_long_rows(tmp_path):
    n = 3000
    p = np.concatenate([np.random.default_rng(0).dirichlet(np.ones(n)), np.full(n, 1 / n), np.ones(n - 2)])
    s, y = np.repeat(np.arange(n), [n, n] + [1] * (n - 2)), np.concatenate([np.arange(n)] * 2 + [np.arange(2, n)])
    mdp = TabularMDP.from_transitions(s, np.zeros_like(s), y, p, np.zeros(s.size))
    mdp.save(tmp_path / "table.npz")
    assert identical(mdp, TabularMDP.load(tmp_path / "table.npz"))


def test_a_saved_table_is_one_zip_of_plain_arrays(tmp_path):
    small().save(tmp_path / "table")  # the name is taken as it is
    with zipfile.ZipFile(tmp_path / "table") as archive:
        assert {name.removesuffix(".npy") for name in archive.namelist()} == {"format", *small().columns()}
    with np.load(tmp_path / "table", allow_pickle=False) as arrays:
        assert all(arrays[name].dtype.kind in "iufU" for name in arrays.files)


@pytest.mark.parametrize("garbage", [nan, inf, -inf, -7.0, 1e300])
def test_unavailable_pairs_may_hold_anything(garbage):
    p, r, available = small().to_arrays()
    p[1, 1], r[1, 1] = garbage, garbage
    assert identical(small(), TabularMDP.from_arrays(p, r, available))


def test_repeated_successors_are_added_up_and_impossible_ones_dropped():
    mdp = TabularMDP.from_transitions(
        [0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [1, 0, 1, 0, 1], [0.25, 0, 0.75, 0, 1], [0.5] * 5
    )
    assert [row.tolist() for row in mdp.row(0, 0)] == [[1], [1.0]]


def test_the_reward_of_a_pair_is_the_mean_of_the_rewards_of_its_transitions():
    mdp = TabularMDP.from_transitions(
        [0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 0], [0.5, 0.2, 0.3, 1.0], [0.2, 1.0, 0.0, 0.7]
    )
    assert mdp.r == pytest.approx([0.3, 0.7], abs=1e-15)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.bool_, np.float32, object])
def test_rewards_of_any_kind_of_number_have_the_same_mean(kind):
    rewards = np.array([1, 0, 0]).astype(kind)
    mdp = TabularMDP.from_transitions([0, 0, 1], [0, 0, 0], [0, 1, 0], [0.5, 0.5, 1.0], rewards, rewards=(0, 1000))
    assert mdp.r == pytest.approx([0.5, 0.0])


def test_rows_within_the_tolerance_are_divided_by_their_sum():
    mdp = TabularMDP.from_arrays([[[0.5, 0.5 + 5e-10]], [[0.0, 1 - 5e-10]]], [[0.0], [0.0]])
    assert np.abs(mdp.to_arrays()[0].sum(axis=2) - 1).max() <= 1e-15
    with pytest.raises(InvalidInput, match=r"state 0, action 0: probabilities sum to 1.000000002"):
        TabularMDP.from_arrays([[[0.5, 0.5 + 2e-9]], [[0.0, 1.0]]], [[0.0], [0.0]])


@pytest.mark.parametrize(("low", "high"), [(-22.0, 42.0), (-20.0, 0.0), (0.1, 0.3), (-1e9, 1e9)])
def test_rewards_stay_in_their_unit_unless_they_are_normalised(low, high):
    original = np.array([[low, high], [(low + high) / 2, low + (high - low) / 3]])
    own = TabularMDP.from_arrays(np.full((2, 2, 2), 0.5), original, rewards=(low, high), unit="€", states=["a", "b"])
    assert np.array_equal(own.r, original.ravel()) and (own.space.low, own.space.high) == (low, high)
    assert own.r_counted == pytest.approx(original.ravel() - low) and own.r_max == high - low
    mdp = own.normalised()
    assert (mdp.space.unit, mdp.space.state_names) == ("", ("a", "b"))
    assert mdp.r == pytest.approx([0.0, 1.0, 0.5, 1 / 3], abs=1e-12) and mdp.r.min() == 0.0 and mdp.r.max() == 1.0
    assert (mdp.r_max, mdp.reward_offset) == (1.0, low) and mdp.reward_scale == pytest.approx(high - low)
    assert mdp.reward_offset + mdp.reward_scale * mdp.r == pytest.approx(original.ravel())


@pytest.mark.parametrize("copied", [lambda x: x, lambda x: pickle.loads(pickle.dumps(x))], ids=["built", "unpickled"])
@pytest.mark.parametrize("array", ["next_ptr", "next_state", "p", "r"])
def test_the_arrays_of_a_table_are_frozen_also_after_pickling(array, copied):
    mdp = copied(small())
    with pytest.raises(ValueError, match="read-only"):
        getattr(mdp, array)[0] = 0
    with pytest.raises(FrozenInstanceError):
        setattr(mdp, array, None)


def test_a_table_keeps_its_own_copy_of_what_it_was_given():
    p, r, available = small().to_arrays()
    mdp = TabularMDP.from_arrays(p, r, available)
    p[:], r[:] = 0.0, 0.0
    assert identical(mdp, small())
    columns = {name: np.array(value) for name, value in small().columns().items()}
    mdp = TabularMDP.from_columns(columns)
    for array in columns.values():
        array[...] = 0 if array.dtype.kind != "U" else ""
    assert identical(mdp, small())


def refused(build, faults):
    """`build` raises one InvalidInput with each of `faults` among its faults and in its text."""
    with pytest.raises(InvalidInput) as caught:
        build()
    for fault in faults:
        assert any(fault in found for found in caught.value.faults), f"{fault!r} not in {caught.value.faults}"
        assert fault in str(caught.value)
    return caught.value


def test_a_dense_table_names_every_fault_with_its_state_and_action():
    p = np.full((4, 2, 4), 0.25)
    p[0, 0] = [0.5, 0.4, 0.0, 0.0]
    p[0, 1, 2] = nan
    p[1, 0] = [-0.5, 1.5, 0.0, 0.0]
    p[1, 1, 3] = inf
    p[2, 0] = 0.0
    r = np.array([[0.5, -0.1], [1.5, 0.5], [nan, inf], [0.5, -inf]])
    available = np.array([[True, True], [True, True], [True, True], [False, False]])
    error = refused(
        lambda: TabularMDP.from_arrays(p, r, available),
        [
            "state 0, action 0: probabilities sum to 0.9, not 1",
            "state 0, action 1: probability nan of state 2",
            "state 0, action 1: mean reward -0.1 outside [0, 1]",
            "state 1, action 0: probability -0.5 of state 0",
            "state 1, action 0: mean reward 1.5 outside [0, 1]",
            "state 1, action 1: probability inf of state 3",
            "state 2, action 0: probabilities sum to 0, not 1",
            "state 2, action 0: mean reward nan outside [0, 1]",
            "state 2, action 1: mean reward inf outside [0, 1]",
            "state 3: has no action",
        ],
    )
    assert "rewards=(low, high)" in error.hint and error.hint in str(error)
    assert len(error.faults) == 12  # the rows with nan and inf do not sum to 1 either


EVERY_FAULT = [
    "state 0, action 0: probabilities sum to 0.5, not 1",
    "state 0, action 0: mean reward 3 outside [0, 2]",
    "state 0, action 1: leads to state 7, which does not exist",
    "state 1: has no action",
    "state 2, action 0: probability -0.5 of state 0",
    "state 2, action 0: mean reward nan outside [0, 2]",
    "state 3: has no action",
]


def test_a_dictionary_names_every_fault_with_its_state_and_action():
    bad = {(0, 0): (3.0, {0: 0.5}), (0, 1): (1.0, {7: 1.0}), (2, 0): (nan, {0: -0.5, 1: 1.5})}
    error = refused(lambda: TabularMDP.from_pairs(bad, n_states=4, r_max=2.0), EVERY_FAULT)
    assert len(error.faults) == len(EVERY_FAULT)


def test_a_list_of_transitions_names_every_fault_with_its_state_and_action():
    s, a, y = [0, 0, 2, 2], [0, 1, 0, 0], [0, 7, 0, 1]
    error = refused(
        lambda: TabularMDP.from_transitions(
            s, a, y, [0.5, 1.0, -0.5, 1.5], [3.0, 1.0, nan, nan], n_states=4, r_max=2.0
        ),
        EVERY_FAULT,
    )
    assert len(error.faults) == len(EVERY_FAULT)


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ({"p": [0.5, 0.6]}, ["state 0, action 0: probabilities sum to 1.1, not 1"]),
        ({"p": [nan, 0.5]}, ["state 0, action 0: probability nan of state 0"]),
        ({"p": [inf, 0.5]}, ["state 0, action 0: probability inf of state 0"]),
        ({"p": [-0.5, 1.5]}, ["state 0, action 0: probability -0.5 of state 0"]),
        ({"reward": [2.0, 2.0]}, ["state 0, action 0: mean reward 2 outside [0, 1]"]),
        ({"reward": [nan, 0.0]}, ["state 0, action 0: mean reward nan"]),
        ({"reward": [inf, inf]}, ["state 0, action 0: mean reward inf"]),
        ({"reward": [-inf, inf]}, ["state 0, action 0: mean reward nan"]),
        ({"next_state": [0, -1]}, ["state 0, action 0: leads to state -1"]),
        ({"next_state": [0, 5], "n_states": 1}, ["state 0, action 0: leads to state 5"]),
        ({"state": [-1, -1]}, ["state -1", "state 0: has no action"]),
        ({"action": [-1, -1]}, ["state 0: action -1 is negative"]),
        ({"state": [-1, 0], "action": [-1, 0]}, ["state -1"]),
        ({"action": [-1, 0], "reward": [0.0, 9.0]}, ["action -1 is negative", "state 0, action 0: mean reward 9"]),
        ({"state": [0.5, 0.0]}, ["0.5"]),
        ({"state": [0.5, 0.0], "action": [1.5, 0.0], "next_state": [0.0, 0.25]}, ["0.5", "1.5", "0.25"]),
        ({"action": [0.0, 1.5]}, ["1.5"]),
        ({"next_state": [0.0, 0.25]}, ["0.25"]),
        ({"state": [nan, 0.0]}, ["nan"]),
        ({"next_state": [0.0, inf]}, ["inf"]),
        ({"next_state": [0.0, inf], "n_states": 1}, ["inf"]),
        ({"state": ["low", "high"]}, ["whole number"]),
        ({"state": [0]}, ["one equal, positive length, not (1,), (2,)"]),
        ({"p": [[0.5, 0.5]]}, ["(1, 2)"]),
        ({"rewards": (1.0, 1.0)}, ["rewards (1.0, 1.0)"]),
        ({"rewards": (0.0, nan)}, ["rewards (0.0, nan)"]),
        ({"rewards": (0.0, -1.0), "p": [0.1, 0.1]}, ["rewards (0.0, -1.0)", "sum to 0.2"]),
        ({"r_max": 0.0}, ["r_max"]),
        ({"r_max": -1.0}, ["r_max"]),
        ({"r_max": nan}, ["r_max"]),
        ({"r_max": inf}, ["r_max"]),
    ],
    ids=str,
)
def test_bad_transitions_are_refused_by_name(change, faults):
    good = {"state": [0, 0], "action": [0, 0], "next_state": [0, 0], "p": [0.5, 0.5], "reward": [0.5, 0.5]}
    TabularMDP.from_transitions(**good)
    refused(lambda: TabularMDP.from_transitions(**(good | change)), faults)


@pytest.mark.parametrize(
    ("p", "r", "available", "faults"),
    [
        (np.ones((2, 2)), np.ones(3), np.ones((2, 2), dtype=int), ["p has shape (2, 2)", "r has shape (3,)", "int64"]),
        (np.ones((2, 3, 4)), np.ones((2, 3)), None, ["p has shape (2, 3, 4)"]),
        (np.ones((3, 1, 1)), np.ones((3, 1)), None, ["p has shape (3, 1, 1)"]),
        (np.ones((1, 1, 1)), 0.5, None, ["r has shape ()"]),
        (1.0, 0.5, None, ["p has shape ()"]),
        (np.ones((1, 1, 1)), [[0.5]], [True], ["available is bool (1,)"]),
        (np.zeros((0, 0, 0)), np.zeros((0, 0)), None, ["p has shape (0, 0, 0)"]),
        (np.zeros((2, 0, 2)), np.zeros((2, 0)), None, ["p has shape (2, 0, 2)"]),
        ([[[1.0]]], [[0.5]], [[False]], ["state 0: has no action"]),
        ([[[0.5, 0.5], [1.0]], [[1.0, 0.0], [0.0, 1.0]]], np.zeros((2, 2)), None, ["p "]),
    ],
    ids=lambda value: str(np.shape(value)) if isinstance(value, np.ndarray) else None,
)
def test_dense_arrays_of_wrong_shapes_are_refused_by_name(p, r, available, faults):
    refused(lambda: TabularMDP.from_arrays(p, r, available), faults)


@pytest.mark.parametrize(
    ("bad", "options", "faults"),
    [
        ({}, {}, ["no state–action pair"]),
        ({(0, 0): (0.5, {})}, {}, ["state 0, action 0: probabilities sum to 0, not 1"]),
        ({(0, 0): (0.5, {0: 1.0})}, {"n_states": 2}, ["state 1: has no action"]),
        ({(0, 0): (0.5, {0: 1.0}), (3, 0): (0.5, {0: 1.0})}, {"n_states": 1}, ["state 3: the states are 0 to 0"]),
        ({(0, 0): (0.5, {0: 1.0}), (1, 0): (0.5, {0: 1.0})}, {"n_states": 1.5}, ["1.5"]),
        ({(0.25, 0): (0.5, {0: 1.0}), (0, 0.75): (0.5, {0.5: 1.0})}, {}, ["0.25", "0.75", "0.5"]),
        ({("low", "buy"): (0.5, {"low": 1.0})}, {}, ["whole number"]),
    ],
    ids=str,
)
def test_bad_dictionaries_are_refused_by_name(bad, options, faults):
    refused(lambda: TabularMDP.from_pairs(bad, **options), faults)


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ({"next_ptr": [0, 2]}, ["next_ptr (2,)"]),
        ({"r": [0.5]}, ["r (1,)"]),
        ({"p": [0.5, 0.5]}, ["next_state (3,) and p (2,)"]),
        ({"next_ptr": [0, 3, 2]}, ["next_ptr must rise from 0 to the number of transitions, 3"]),
        (
            {"next_ptr": [0, 0, 3]},
            ["state 0, action 0: probabilities sum to 0", "state 1, action 0: probabilities sum"],
        ),
        ({"next_state": [1, 0, 0]}, ["state 0, action 0: successors 1, 0 do not increase"]),
        ({"next_state": [1, 1, 0]}, ["state 0, action 0: successors 1, 1 do not increase"]),
        ({"next_state": [0, 1, 0.5]}, ["0.5"]),
        ({"next_ptr": [0, 2.0, 3.7]}, ["next_ptr"]),
        ({"p": [1.0, 0.0, 1.0]}, ["state 0, action 0: probability 0 of state 1"]),
        ({"reward_offset": nan}, ["reward units nan"]),
        ({"reward_scale": 0.0}, ["reward units"]),
        (
            {"next_state": [0, 2, 0], "p": [0.5, 0.5, 0.9], "r": [2.0, 0.0], "reward_scale": -1.0},
            ["state 0, action 0: leads to state 2", "state 1, action 0: probabilities sum to 0.9"]
            + ["state 0, action 0: mean reward 2", "reward units"],
        ),
    ],
    ids=str,
)
def test_a_finished_table_is_checked_all_the_same(change, faults):
    good = {"next_ptr": [0, 2, 3], "next_state": [0, 1, 0], "p": [0.5, 0.5, 1.0], "r": [0.5, 0.5]}
    TabularMDP(Space.full(2, 1), **good)
    refused(lambda: TabularMDP(Space.full(2, 1), **(good | change)), faults)


def test_next_states_are_drawn_as_often_as_the_row_says():
    row = {0: 0.05, 2: 0.3, 3: 0.6, 4: 0.05}
    mdp = TabularMDP.from_pairs(
        {(s, a): (0.5, row if (s, a) == (2, 1) else {s: 1.0}) for s in range(5) for a in range(3)}
    )
    rng, n = np.random.default_rng(0), 20_000
    drawn = np.bincount([mdp.draw(rng, mdp.space.pair(2, 1))[1] for _ in range(n)], minlength=5)
    assert drawn[1] == 0
    assert chisquare(drawn[list(row)], n * np.array(list(row.values()))).pvalue > FALSE_ALARM


@exact
@given(tables(), st.sampled_from([0.0, 0.5, 1 - 2**-53]) | st.floats(0, 1, exclude_max=True))
def test_no_uniform_variate_leads_to_an_impossible_state(table, u):
    p, r, available = table
    mdp = TabularMDP.from_arrays(p, r, available)
    for k in range(mdp.space.n_pairs):
        s, a = mdp.space.pair_state[k], mdp.space.pair_action[k]
        _, s_next = mdp.draw(SimpleNamespace(random=lambda: u), k)
        assert p[s, a, s_next] > 0
        assert p[s, a, :s_next].sum() - 1e-12 <= u <= p[s, a, : s_next + 1].sum() + 1e-12


@pytest.mark.parametrize(("u", "s_next"), [(0.0, 0), (0.5 - 2**-53, 0), (0.5, 1), (1 - 2**-53, 1)])
def test_each_successor_has_a_half_open_interval_of_uniform_variates(u, s_next):
    assert small().draw(SimpleNamespace(random=lambda: u), 0) == (0.25, s_next)


def test_a_row_that_rounds_below_one_still_leads_to_its_last_state():
    mdp = TabularMDP.from_pairs({(s, 0): (0.0, dict.fromkeys(range(10), 0.1)) for s in range(11)})
    assert np.cumsum(mdp.row(0, 0)[1])[-1] < 1.0
    assert mdp.draw(SimpleNamespace(random=lambda: 1 - 2**-53), 0) == (0.0, 9)


def test_rewards_are_drawn_around_the_mean_of_the_pair_in_units_of_r_max():
    p, r = np.full((2, 2, 2), 0.5), np.array([[0.0, 0.5], [1.5, 4.0]])
    mdp = TabularMDP.from_arrays(p, r, noise=Noise("bernoulli"), r_max=4.0)
    rng, n = np.random.default_rng(1), 5_000
    for pair, mean in enumerate(r.ravel()):
        rewards = np.array([mdp.draw(rng, pair)[0] for _ in range(n)])
        low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], n, mean / 4.0)
        assert set(rewards.tolist()) <= {0.0, 4.0} and low <= np.count_nonzero(rewards) <= high


def test_the_next_state_is_drawn_before_the_noise():
    p, r = np.full((2, 1, 2), 0.5), np.full((2, 1), 0.5)
    quiet, noisy = (TabularMDP.from_arrays(p, r, noise=noise) for noise in (Noise(), Noise("gaussian", 0.1)))
    for seed in range(20):
        reward, s_next = quiet.draw(np.random.default_rng(seed), 1)
        assert reward == 0.5 and noisy.draw(np.random.default_rng(seed), 1)[1] == s_next
