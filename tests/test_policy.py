"""A policy is what it plays: the same however it was written, drawn as it says, refused where it cannot be played."""

import os
import pickle
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from surefooted.errors import InvalidInput
from surefooted.tables.policy import Policy
from surefooted.tables.space import Space

FALSE_ALARM = 1e-6  # of each statistical test below
nan, inf = np.nan, np.inf
exact = settings(derandomize=True, deadline=None)  # the same examples in every run

SPACE = Space.from_available([[True, True, True], [True, False, True], [False, True, False]])  # pairs 012 34 5
MIXED = np.array([[0.5, 0.0, 0.5], [0.25, 0.0, 0.75], [0.0, 1.0, 0.0]])
PLAIN = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])

seeds = st.integers(0, 2**32)


def random_weights(seed, *shape):
    """Weights over the pairs of SPACE, some of them 0."""
    rng = np.random.default_rng(seed)
    weights = rng.random((*shape, SPACE.n_pairs)) * (rng.random((*shape, SPACE.n_pairs)) < 0.6)
    weights[..., SPACE.pair_ptr[:-1]] += 0.1
    return weights / np.repeat(np.add.reduceat(weights, SPACE.pair_ptr[:-1], axis=-1), np.diff(SPACE.pair_ptr), axis=-1)


def test_a_deterministic_policy_plays_its_actions():
    policy = Policy.deterministic(SPACE, [2, 0, 1])
    assert policy.pair.tolist() == [2, 3, 5] and policy.weights is None
    assert policy.is_deterministic and policy.horizon is None
    assert policy.actions.tolist() == [2, 0, 1]
    assert policy.probabilities.tolist() == PLAIN.tolist()
    assert policy.dense_weights.tolist() == [0, 0, 1, 1, 0, 1]
    assert repr(policy) == "Policy(deterministic, stationary, n_states=3)"


def test_a_randomised_policy_plays_its_probabilities():
    policy = Policy.randomised(SPACE, MIXED)
    assert policy.weights.tolist() == [0.5, 0.0, 0.5, 0.25, 0.75, 1.0] and policy.pair is None
    assert not policy.is_deterministic and policy.horizon is None
    assert policy.probabilities.tolist() == MIXED.tolist()
    assert policy.actions.tolist() == [0, 2, 1]  # the likeliest, the first of equals
    assert repr(policy) == "Policy(randomised, stationary, n_states=3)"


def test_a_time_dependent_policy_has_one_rule_per_stage():
    plain = Policy.deterministic(SPACE, [[2, 0, 1], [1, 2, 1]])
    mixed = Policy.randomised(SPACE, [MIXED, PLAIN, MIXED])
    assert (plain.horizon, mixed.horizon) == (2, 3) and plain.is_deterministic and not mixed.is_deterministic
    assert plain.pair.tolist() == [[2, 3, 5], [1, 4, 5]] and plain.actions.tolist() == [[2, 0, 1], [1, 2, 1]]
    assert mixed.probabilities.tolist() == [MIXED.tolist(), PLAIN.tolist(), MIXED.tolist()]
    assert mixed.actions.tolist() == [[0, 2, 1], [2, 0, 1], [0, 2, 1]]
    assert plain.rule(1) == Policy.deterministic(SPACE, [1, 2, 1])
    assert [mixed.rule(h) == Policy.randomised(SPACE, MIXED) for h in range(3)] == [True, False, True]
    assert mixed.rule(1).is_deterministic and mixed.rule(1).horizon is None
    assert repr(mixed) == "Policy(randomised, horizon=3, n_states=3)"


@pytest.mark.parametrize("h", [0, 5, 10**6])
def test_every_rule_of_a_stationary_policy_is_the_policy(h):
    policy = Policy.randomised(SPACE, MIXED)
    assert policy.rule(h) == policy


@pytest.mark.parametrize("slack", [0.0, 5e-10, -5e-10])
@pytest.mark.parametrize("stages", [(), (4,)], ids=["stationary", "time-dependent"])
def test_weights_on_one_action_per_state_make_the_policy_deterministic(stages, slack):
    degenerate = Policy.randomised(SPACE, np.broadcast_to(PLAIN * (1 + slack), (*stages, 3, 3)))
    plain = Policy.deterministic(SPACE, np.broadcast_to([2, 0, 1], (*stages, 3)))
    assert degenerate.is_deterministic and degenerate == plain and hash(degenerate) == hash(plain)


def test_weights_are_divided_by_their_sum():
    policy = Policy.randomised(SPACE, MIXED * [[1 + 8e-10], [1 - 8e-10], [1]])
    assert np.abs(policy.probabilities.sum(axis=1) - 1).max() <= 1e-15
    with pytest.raises(InvalidInput, match=r"state 0: the probabilities of its actions sum to 1.000000002, not 1"):
        Policy.randomised(SPACE, MIXED * [[1 + 2e-9], [1], [1]])


@exact
@given(seeds, st.sampled_from([(), (1,), (3,)]))
def test_probabilities_and_weights_are_two_ways_to_write_one_policy(seed, stages):
    policy = Policy(SPACE, weights=random_weights(seed, *stages))
    assert Policy.randomised(SPACE, policy.probabilities) == policy
    assert Policy(SPACE, weights=policy.dense_weights) == policy == pickle.loads(pickle.dumps(policy))
    if policy.is_deterministic:
        assert Policy.deterministic(SPACE, policy.actions) == policy == Policy(SPACE, pair=policy.pair)


@exact
@given(seeds, seeds)
def test_policies_are_equal_exactly_when_they_play_the_same(seed, other):
    a, b = (Policy(SPACE, weights=random_weights(x)) for x in (seed, other))
    same = np.array_equal(a.probabilities, b.probabilities)
    assert (a == b) == same and (hash(a) == hash(b)) == same


@pytest.mark.parametrize(
    "other",
    [
        Policy.deterministic(SPACE, [0, 2, 1]),
        Policy.deterministic(SPACE, [[0, 0, 1]]),
        Policy.randomised(SPACE, MIXED),
        Policy.deterministic(Space.from_available(SPACE.available, 2.0), [0, 0, 1]),
        "a policy",
    ],
)
def test_other_actions_stages_or_spaces_make_another_policy(other):
    policy = Policy.deterministic(SPACE, [0, 0, 1])
    assert policy != other and len({policy, other, Policy.deterministic(SPACE, np.array([0, 0, 1], np.uint8))}) == 2


def test_a_zero_with_a_sign_is_no_other_policy():
    a, b = (Policy(SPACE, weights=[0.5, zero, 0.5, 0.25, 0.75, 1.0]) for zero in (0.0, -0.0))
    assert a == b and hash(a) == hash(b)


def test_equal_policies_hash_alike_across_processes():
    code = (
        "import pickle, sys, numpy as np; from surefooted import Policy, Space;"
        "space = Space.full(2, 2); sys.stdout.buffer.write(pickle.dumps((space, Policy.always(space, 1))))"
    )
    environment = os.environ | {"PYTHONHASHSEED": "12345"}
    sent = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout
    space, policy = pickle.loads(sent)
    assert space == Space.full(2, 2) and space in {Space.full(2, 2)}
    assert policy == Policy.always(Space.full(2, 2), 1) and policy in {Policy.always(Space.full(2, 2), 1)}


def test_uniform_plays_each_available_action_equally_often():
    expected = [[1 / 3, 1 / 3, 1 / 3], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
    assert Policy.uniform(SPACE).probabilities.tolist() == expected
    assert Policy.uniform(Space.full(2, 1)).is_deterministic


def test_always_plays_one_action_and_says_where_it_cannot():
    assert Policy.always(Space.full(3, 2), 1).actions.tolist() == [1, 1, 1]
    with pytest.raises(InvalidInput) as caught:
        Policy.always(SPACE, 1)
    assert caught.value.faults == ("state 1: action 1 is not available",)


@exact
@given(seeds, seeds, st.floats(0, 1), st.sampled_from([(), (3,)]), st.sampled_from([(), (3,)]))
def test_a_mixture_plays_the_average_of_the_probabilities(seed, other, share, stages, other_stages):
    a, b = (
        Policy(SPACE, weights=random_weights(seed, *stages)),
        Policy(SPACE, weights=random_weights(other, *other_stages)),
    )
    mixture = a.mixed_with(b, share)
    assert np.allclose(
        mixture.probabilities, (1 - share) * a.probabilities + share * b.probabilities, rtol=0, atol=1e-15
    )
    assert mixture.horizon == (a.horizon or b.horizon)
    if stages == other_stages:
        assert a.mixed_with(b, 0.0) == a and a.mixed_with(b, 1.0) == b


TWIN = Space.from_available([[True, False, True], [True, True, True], [False, True, False]])  # as many pairs, elsewhere


@pytest.mark.parametrize(
    ("other", "share"),
    [
        (Policy.deterministic(TWIN, [0, 1, 1]), 0.5),
        (Policy.always(Space.full(3, 3), 0), 0.5),
        (Policy.deterministic(SPACE, [[2, 0, 1]] * 3), 0.5),
        (Policy.deterministic(SPACE, [[2, 0, 1]] * 2), -0.5),
        (Policy.deterministic(SPACE, [[2, 0, 1]] * 2), 1.5),
        (Policy.deterministic(SPACE, [2, 0, 1]), nan),
        (Policy.deterministic(SPACE, [0, 2, 1]), 1.5),
    ],
    ids=["space", "size of the space", "horizon", "share below 0", "share above 1", "share nan", "share and actions"],
)
def test_a_mixture_of_what_does_not_mix_is_refused(other, share):
    with pytest.raises(InvalidInput):
        Policy.deterministic(SPACE, [[2, 0, 1]] * 2).mixed_with(other, share)


@pytest.mark.parametrize("s", range(3))
@pytest.mark.parametrize("h", [None, 0, 1])
def test_pairs_are_drawn_as_often_as_the_policy_says(s, h):
    rules = np.array([MIXED, [[0.2, 0.3, 0.5], [0.9, 0.0, 0.1], [0.0, 1.0, 0.0]]])
    policy = Policy.randomised(SPACE, MIXED if h is None else rules)
    rng, n = np.random.default_rng(0), 5000
    drawn = np.bincount([policy.draw(rng, s, h or 0) for _ in range(n)], minlength=SPACE.n_pairs)
    expected = n * Policy.randomised(SPACE, rules[h or 0]).dense_weights * (SPACE.pair_state == s)
    assert np.all(drawn[expected == 0] == 0)
    if np.count_nonzero(expected) > 1:
        assert chisquare(drawn[expected > 0], expected[expected > 0]).pvalue > FALSE_ALARM


@exact
@given(seeds, st.sampled_from([0.0, 0.5, 1 - 2**-53]) | st.floats(0, 1, exclude_max=True))
def test_no_uniform_variate_draws_an_action_of_probability_zero(seed, u):
    policy = Policy(SPACE, weights=random_weights(seed))
    for s in range(3):
        pair = policy.draw(SimpleNamespace(random=lambda: u), s)
        assert SPACE.pair_state[pair] == s and policy.dense_weights[pair] > 0


@pytest.mark.parametrize(("u", "pair"), [(0.0, 0), (0.5 - 2**-53, 0), (0.5, 2), (1 - 2**-53, 2)])
def test_each_action_has_a_half_open_interval_of_uniform_variates(u, pair):
    assert Policy.randomised(SPACE, MIXED).draw(SimpleNamespace(random=lambda: u), 0) == pair


def test_weights_that_round_below_one_never_spill_into_an_action_of_probability_zero():
    policy = Policy.randomised(Space.full(2, 12), [[0.1] * 10 + [0, 0]] * 2)
    assert np.cumsum(policy.weights[:10])[-1] < 1.0
    assert [policy.draw(SimpleNamespace(random=lambda: 1 - 2**-53), s) for s in range(2)] == [9, 21]


def test_a_deterministic_policy_draws_nothing():
    policy = Policy.deterministic(SPACE, [[2, 0, 1], [1, 2, 1]])
    assert [[policy.draw(None, s, h) for s in range(3)] for h in range(2)] == [[2, 3, 5], [1, 4, 5]]


def test_a_policy_keeps_its_own_frozen_copy():
    pair, weights = np.array([2, 3, 5]), random_weights(0)
    plain, mixed = Policy(SPACE, pair=pair), Policy(SPACE, weights=weights)
    before = mixed.probabilities
    pair[:], weights[:] = 0, 0
    assert plain.actions.tolist() == [2, 0, 1] and np.array_equal(mixed.probabilities, before)
    for array in (plain.pair, mixed.weights, pickle.loads(pickle.dumps(mixed)).weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def changed(table, *changes):
    """A copy of the table with some entries replaced."""
    table = np.array(table, dtype=float)
    for index, value in changes:
        table[index] = value
    return table


@pytest.mark.parametrize(
    ("build", "faults"),
    [
        (lambda: Policy.deterministic(SPACE, [0, 0]), ["actions are int64 (2,), not whole numbers [3] or [H, 3]"]),
        (lambda: Policy.deterministic(SPACE, [[[0, 0, 1]]]), ["int64 (1, 1, 3)"]),
        (lambda: Policy.deterministic(SPACE, 0), ["int64 ()"]),
        (lambda: Policy.deterministic(SPACE, [[0, 0], [0, 1], [0, 1]]), ["int64 (3, 2)"]),
        (lambda: Policy.deterministic(SPACE, np.zeros((0, 3), dtype=int)), ["(0, 3)"]),
        (lambda: Policy.deterministic(SPACE, [0.0, 0.0, 1.0]), ["actions are float64"]),
        (lambda: Policy.deterministic(SPACE, [0, 1, 1]), ["state 1: action 1 is not available"]),
        (
            lambda: Policy.deterministic(SPACE, [-1, 3, 0]),
            ["state 0: action -1 is", "state 1: action 3 is", "state 2: action 0 is"],
        ),
        (
            lambda: Policy.deterministic(SPACE, [[0, 0, 1], [3, 1, 1]]),
            ["stage 1, state 0: action 3 is not available", "stage 1, state 1: action 1 is not available"],
        ),
        (lambda: Policy.randomised(SPACE, np.ones((3, 2)) / 2), ["shape (3, 2), not (3, 3) or (H, 3, 3)"]),
        (lambda: Policy.randomised(SPACE, [0.5, 0.5, 0.0]), ["shape (3,)"]),
        (lambda: Policy.randomised(SPACE, np.ones((2, 3, 2))), ["shape (2, 3, 2)"]),
        (lambda: Policy.randomised(SPACE, np.ones((1, 1, 3, 3))), ["shape (1, 1, 3, 3)"]),
        (lambda: Policy.randomised(SPACE, np.zeros((0, 3, 3))), ["shape (0, 6)"]),
        (lambda: Policy.randomised(SPACE, [[0.5, 0.5], [1.0], [1.0]]), [""]),
        (
            lambda: Policy.randomised(SPACE, changed(MIXED, ((0, 1), nan), ((1, 0), -0.25), ((2, 1), 0.5))),
            ["state 0: action 1 has probability nan", "state 0: the probabilities of its actions sum to nan, not 1"]
            + ["state 1: action 0 has probability -0.25", "state 1: the probabilities of its actions sum to 0.5"]
            + ["state 2: the probabilities of its actions sum to 0.5"],
        ),
        (
            lambda: Policy.randomised(SPACE, changed(MIXED, ((1, 1), 0.5), ((2, 0), nan), ((0, 0), 0.75))),
            ["state 1: action 1 has probability 0.5 but is not available", "state 2: action 0 has probability nan but"]
            + ["state 0: the probabilities of its actions sum to 1.25"],
        ),
        (
            lambda: Policy.randomised(SPACE, [MIXED, changed(MIXED, ((0, 0), inf), ((1, 2), 0.5))]),
            ["stage 1, state 0: action 0 has probability inf", "stage 1, state 0: the probabilities", "sum to inf"]
            + ["stage 1, state 1: the probabilities of its actions sum to 0.75"],
        ),
        (lambda: Policy(SPACE), ["either a pair for each state or weights"]),
        (lambda: Policy(SPACE, pair=[2, 3, 5], weights=np.ones(6)), ["either a pair for each state or weights"]),
        (lambda: Policy(SPACE, pair=[0, 1, 5]), ["state 1: pair 1 belongs to another state"]),
        (
            lambda: Policy(SPACE, pair=[[0, 3, 5], [-1, 3, 6]]),
            ["stage 1, state 0: pair -1", "stage 1, state 2: pair 6"],
        ),
        (lambda: Policy(SPACE, pair=[0, 3]), ["pair has shape (2,), not (3,) or (H, 3)"]),
        (lambda: Policy(SPACE, pair=[0.7, 3.9, 5.0]), ["0.7"]),
        (lambda: Policy(SPACE, pair=[nan, 3, 5]), ["nan"]),
        (lambda: Policy(SPACE, weights=np.ones(5)), ["weights have shape (5,), not (6,) or (H, 6)"]),
        (lambda: Policy(SPACE, weights=np.ones((2, 2, 6))), ["weights have shape (2, 2, 6)"]),
    ],
)
def test_an_invalid_policy_names_every_fault(build, faults):
    with pytest.raises(InvalidInput, match="this policy is not valid") as caught:
        build()
    for fault in faults:
        assert any(fault in found for found in caught.value.faults), f"{fault!r} not in {caught.value.faults}"
        assert fault in str(caught.value)
