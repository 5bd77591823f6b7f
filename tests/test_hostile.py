"""What reaches a kernel is checked before: each of these calls ended the interpreter, or was taken for a number."""

import numpy as np
import pytest

import surefooted as sf
from surefooted import planning
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.errors import InvalidInput
from surefooted.kernels.structs import Table
from surefooted.sets.plausible import Plausible

SPACE = sf.Space.full(2, 2)
K, S = 4, 2
RIGHT = {
    "r_lower": np.zeros(K),
    "r_upper": np.ones(K),
    "next_ptr": np.array([0, 2, 2, 3, 3]),
    "next_state": np.array([0, 1, 1]),
    "p_lower": np.array([0.1, 0.2, 0.3]),
    "p_upper": np.array([0.9, 0.9, 1.0]),
    "unseen": np.ones(K),
}


def counted(bounded=True):
    counts = sf.Counts(SPACE, bounded)
    counts.add_steps([0, 0, 3], [0.5, 0.25, 1.0], [1, 0, 1])
    return counts.state_dict()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"next_state": np.array([1, 10**7, 1])}, "entry 1: there is no state 10000000"),
        ({"next_state": np.array([1, -1, 1])}, "entry 1: there is no state -1"),
        ({"next_state": np.array([1.0, 1.7, 1.0])}, "next_state must be whole numbers, not 1.7"),
        ({"next_state": np.array([1.0, np.nan, 1.0])}, "whole numbers, not nan"),
        ({"next_state": np.array([1, 1, 1])}, "a next state occurs twice"),
        ({"next_ptr": np.array([0, 9, 2, 2, 3])}, "next_ptr must rise from 0"),
        ({"next_ptr": np.array([0, 2, 2, 2, 10**9])}, "next_ptr must rise from 0"),
        ({"next_ptr": np.array([1, 2, 2, 2, 3])}, "next_ptr must rise from 0"),
        ({"next_ptr": np.array([0, 3])}, "next_ptr has shape"),
        ({"next_count": np.array([1, 0, 1])}, "entry 1: it is counted 0 times"),
        ({"next_count": np.array([1, 1])}, "next_count has shape"),
        ({"visits": np.array([2, 0, 0, 9])}, "row 3: 9 visits, and 1 next states"),
        ({"visits": np.array([2, 0, 0, -1])}, "row 3: -1 visits"),
        ({"visits": np.zeros(3, dtype=np.int64)}, "visits has shape"),
        ({"reward_sum": np.array([np.nan, 0, 0, 1])}, "row 0: no 2 rewards add up to nan"),
        ({"reward_sum": np.array([2.5, 0, 0, 1])}, "row 0: no 2 rewards add up to 2.5"),
        ({"reward_sum": np.array([-0.1, 0, 0, 1])}, "row 0: no 2 rewards add up to -0.1"),
        ({"reward_square": np.array([-1.0, 0, 0, 1])}, "row 0: no 2 rewards"),
        ({"stages": 0}, "stages 0 must be a positive whole number"),
        ({"stages": 2}, "has shape"),
        ({"bounded": 1}, "bounded must be True or False"),
        ({"visits": None}, "visits must be whole numbers"),
    ],
)
def test_counts_that_no_steps_lead_to_are_refused(changed, words):
    with pytest.raises(InvalidInput, match=words):
        sf.Counts.from_state_dict(SPACE, counted() | changed)


def test_counts_that_steps_lead_to_are_taken_and_copied():
    state = counted()
    counts = sf.Counts.from_state_dict(SPACE, state)
    counts.add(0, 0, 1.0, 1)
    assert state["visits"].tolist() == [2, 0, 0, 1] and counts.visits.tolist() == [3, 0, 0, 1]
    with pytest.raises(InvalidInput, match="'visits' is missing"):
        sf.Counts.from_state_dict(SPACE, {name: value for name, value in state.items() if name != "visits"})
    free = counted(bounded=False) | {"reward_sum": np.array([-9.0, 0, 0, 99.0])}
    assert sf.Counts.from_state_dict(SPACE, free).reward_sum[3] == 99


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (([0], [0.5], [1.7]), "next_states must be whole numbers, not 1.7"),
        (([0], [0.5], [np.nan]), "next_states must be whole numbers, not nan"),
        (([0.5], [0.5], [1]), "pairs must be whole numbers"),
        (([4], [0.5], [1]), "step 0: there is no pair 4"),
        (([-1], [0.5], [1]), "step 0: there is no pair -1"),
        (([0], [0.5], [2]), "step 0: there is no state 2"),
        (([0], [np.nan], [1]), "reward nan is outside"),
        (([0], ["x"], [1]), "rewards must be numbers"),
        (([0, 0], [0.5], [1]), "columns of one length"),
        (([[0]], [[0.5]], [[1]]), "columns of one length"),
        (([np.uint64(2**63 + 1)], [0.5], [1]), "there is no pair"),
        (([True], [0.5], [1]), "pairs must be whole numbers"),
    ],
)
def test_steps_that_cannot_be_are_refused(steps, words):
    counts, learner, agent = sf.Counts(SPACE), UCRL2Learner(SPACE), sf.UCRL2(SPACE)
    agent.begin(0)
    for use in (counts.add_steps, counts.check_steps, agent.absorb):
        with pytest.raises(InvalidInput, match=words):
            use(*steps)
    assert counts.total == learner.counts.total == agent.counts.total == counts.added == 0


def test_a_learner_refuses_steps_that_its_kernel_cannot_count():
    for pairs, states in (([0, 4], [0, 0]), ([0, -1], [0, 0]), ([0, 1], [0, 2]), ([0, 1], [0, -1]), ([0, 1], [0])):
        learner = UCRL2Learner(SPACE)
        with pytest.raises(InvalidInput, match="these steps cannot be counted"):
            learner.learn(np.array(pairs), np.zeros(2), np.array(states))
        assert learner.counts.total == learner.counts.added == 0


def test_episodes_that_cannot_be_are_not_absorbed():
    agent = sf.UCRL2(SPACE)
    agent.begin(0)
    for steps, words in ((([2], [0.5], [1]), "begins where"), (([], [], []), "there is no step")):
        with pytest.raises(InvalidInput, match=words):
            agent.absorb(*steps)
    agent = sf.UCBVI(SPACE, 3)
    agent.begin(0)
    with pytest.raises(InvalidInput, match="2 steps, not 3"):
        agent.absorb([0, 0], [0.5, 0.5], [0, 0])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"next_state": np.array([0, 10**7, 1])}, "entry 1: there is no state 10000000"),
        ({"next_state": np.array([0, -1, 1])}, "entry 1: there is no state -1"),
        ({"next_state": np.array([0.5, 1, 1])}, "next_state must be whole numbers, not 0.5"),
        ({"next_state": np.array([1, 1, 1])}, "a successor occurs twice"),
        ({"next_ptr": np.array([0, 9, 2, 3, 3])}, "next_ptr must rise"),
        ({"next_ptr": np.array([0, 3])}, "next_ptr has shape"),
        ({"p_lower": np.array([0.1, np.nan, 0.3])}, "entry 1: a probability in"),
        ({"p_lower": np.array([0.95, 0.2, 0.3])}, "entry 0: a probability in"),
        ({"p_upper": np.array([0.9, 0.9, 1.5])}, "entry 2: a probability in"),
        ({"p_lower": np.array([0.8, 0.8, 0.3])}, "state 0, action 0: no row of probabilities"),
        ({"p_upper": np.array([0.3, 0.4, 1.0])}, "state 0, action 0: no row of probabilities"),
        ({"r_lower": np.array([2.0, 0, 0, 0])}, r"state 0, action 0: mean rewards in \[2, 1\]"),
        ({"r_upper": np.array([np.nan, 1, 1, 1])}, "mean rewards in"),
        ({"unseen": np.array([1, 1, 1, -0.5])}, "state 1, action 1: unseen is -0.5"),
        ({"unseen": np.ones(3)}, "unseen has shape"),
        ({"width": np.array([1.0, 1, 1, -1])}, "state 1, action 1: width is -1"),
        ({"width": np.ones(K)}, "no row of probabilities"),
        ({"stages": 2}, "has shape"),
        ({"stages": 1.5}, "stages 1.5"),
        ({"space": 3}, "space must be a Space"),
    ],
)
def test_a_set_of_ones_own_is_checked(changed, words):
    with pytest.raises(InvalidInput, match=words):
        Plausible(**({"space": SPACE} | RIGHT | changed))


def test_a_set_of_ones_own_that_is_right_is_used():
    plausible = Plausible(SPACE, **{name: array.tolist() for name, array in RIGHT.items()})
    assert planning.optimistic_gain(plausible, 0.01).upper == pytest.approx(1.0, abs=0.02)
    ball = RIGHT | {"p_lower": np.array([0.4, 0.6, 1.0]), "p_upper": np.ones(3)}
    assert planning.optimistic_gain(Plausible(SPACE, **ball, width=np.ones(K)), 0.01).lower > 0.9


def test_pairs_of_a_policy_are_checked():
    assert sf.Policy.of_pairs(SPACE, [1, 2]) == sf.Policy.deterministic(SPACE, [1, 0])
    for pair in ([0, 10**7], [-1, 2], [0.5, 2], [np.nan, 2], [2, 0], [0]):
        with pytest.raises(InvalidInput, match="this policy is not valid"):
            sf.Policy.of_pairs(SPACE, pair)


def test_a_drawn_mdp_and_limits_are_checked():
    table = Table(np.array([0, 1, 2, 3, 4]), np.array([0, 1, 0, 1]), np.ones(4), np.full(4, 0.5))
    assert planning.sampled_gain(SPACE, table, 0.1).gain == pytest.approx(0.5)
    for wrong in (
        table._replace(next_state=np.array([0, 1, 0, 9])),
        table._replace(next_ptr=np.array([0, 1, 2, 3, 9])),
        table._replace(p=np.full(4, 0.5)),
        table._replace(r=np.zeros(3)),
    ):
        with pytest.raises(InvalidInput):
            planning.sampled_gain(SPACE, wrong, 0.1)
    for most in (0, -1, 1.5, None):
        with pytest.raises(InvalidInput, match="positive whole number of sweeps"):
            planning.optimistic_gain(Plausible(SPACE, **RIGHT), 0.1, most=most)


@pytest.mark.parametrize(
    ("name", "value"),
    [("allowed", np.zeros(3, dtype=np.int64)), ("state", 9), ("start", -1), ("t", 0.5), ("allowed", np.zeros(K))],
)
def test_a_state_with_a_forged_checksum_reaches_no_kernel(name, value):
    from surefooted.agents.identity import fingerprint

    agent = sf.UCRL2(SPACE)
    agent.begin(0)
    state = agent.state_dict() | {name: value}
    state["checksum"] = fingerprint({key: state[key] for key in state if key not in ("identity", "checksum")})
    with pytest.raises(InvalidInput, match="this state cannot be loaded"):
        agent.load_state_dict(state)
