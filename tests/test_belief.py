"""Belief: one set, one list of contradictions, restored by its constructor."""

import numpy as np
import pytest

from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.knowledge.belief import Belief
from surefooted.knowledge.knowledge import Knowledge
from surefooted.problems import inventory
from surefooted.sets.confidence import bernstein, hoeffding, likelihood
from surefooted.tables.space import Space

FIELDS = ("r_lower", "r_upper", "next_ptr", "next_state", "p_lower", "p_upper", "unseen")
SPACE = Space.full(3, 2)
LEFT = Knowledge(SPACE, successors=lambda s, a: [0, 1])  # nothing leads to state 2


def steps(*triples):
    pairs, rewards, after = zip(*triples, strict=True)
    return np.array(pairs), np.array(rewards, dtype=float), np.array(after)


def same(one, other):
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in FIELDS)


@pytest.mark.parametrize("confidence", [likelihood, bernstein, hoeffding])
def test_without_knowledge_the_set_is_that_of_the_counts_and_nothing_contradicts_it(confidence):
    counts = Counts(SPACE)
    belief = Belief(counts, confidence, 0.1)
    for _ in range(3):
        some = steps((0, 0.5, 2), (5, 1.0, 0))
        assert belief.notice(*some) == -1 and belief.compare() == []
        belief.count(*some)
        assert same(belief.plausible(), confidence(counts, 0.1)) and belief.plausible() is belief.plausible()
    assert counts.total == 6 and belief.contradictions == [] and belief.check_noise(0, None) is None
    with pytest.raises(InvalidInput, match="no mechanics that observe their noise were declared"):
        belief.check_noise(0, 1)


def test_an_impossible_step_is_found_told_and_kept_until_trust():
    counts = Counts(SPACE, stages=2)
    belief = Belief(counts, likelihood, 0.1, LEFT)
    some = steps((0, 0.5, 1), (7, 0.5, 2), (1, 0.5, 2), (0, 0.5, 0))  # row 7 is pair 1 of stage 1
    assert belief.notice(*(column[:1] for column in some)) == -1 and belief.contradictions == []
    assert belief.notice(*some) == 1 and counts.total == 0
    assert belief.contradictions == ["state 0, action 1: led to state 2, which was declared impossible"]
    assert same(belief.plausible(), likelihood(counts, 0.1))
    assert belief.notice(*some) == -1  # what was noticed stays the same
    belief.count(*some)
    assert counts.total == 4 and len(belief.contradictions) == 1
    belief.contradictions.append("mine")
    assert len(belief.contradictions) == 1
    belief.trust(None)
    assert belief.contradictions == [] and belief.knowledge is None
    belief.trust(LEFT)
    assert [fault.partition(":")[0] for fault in belief.contradictions] == [
        "stage 0, state 0, action 1",
        "stage 1, state 0, action 1",
    ]


def test_data_that_do_not_fit_are_found_with_the_set():
    counts, wrong = Counts(SPACE), Knowledge(SPACE, rewards=np.zeros(6))
    belief = Belief(counts, likelihood, 0.1, wrong)
    assert same(belief.plausible(), wrong.plausible(likelihood, counts, 0.1))
    belief.count(*steps(*[(3, 1.0, 0)] * 50))
    assert belief.contradictions == wrong.conflicts(likelihood, counts, 0.1) != []
    assert same(belief.plausible(), likelihood(counts, 0.1))


@pytest.mark.parametrize("asked", ["nothing", "the set", "the contradictions"])
def test_only_comparing_keeps_a_contradiction_of_the_data(asked):
    counts, wrong = Counts(SPACE), Knowledge(SPACE, rewards=np.full(6, 0.5))
    belief = Belief(counts, likelihood, 0.1, wrong)
    high, low = steps(*[(3, 1.0, 0)] * 50), steps(*[(3, 0.0, 0)] * 50)
    belief.count(*high)
    if asked == "the set":
        belief.plausible()
    elif asked == "the contradictions":
        assert belief.contradictions
    belief.count(*low)  # the mean is 0.5 after all
    assert belief.contradictions == belief.compare() == [] and same(
        belief.plausible(), wrong.plausible(likelihood, counts, 0.1)
    )
    belief.count(*high)
    belief.count(*high)
    noticed = belief.compare()
    belief.count(*low)
    belief.count(*low)
    assert belief.contradictions == belief.compare() == noticed != []
    assert belief.state_dict()["contradictions"] == noticed


@pytest.mark.parametrize("trusted", ["built with", "another", "nothing"])
def test_a_belief_is_restored_on_the_counts_of_its_time(trusted):
    problem = inventory(capacity=3)
    told, other = problem.knowledge("mechanics", "noise"), problem.knowledge("rewards", "successors")
    belief = Belief(Counts(problem.space, bounded=False), likelihood, 0.1, told)
    pair, rng = problem.space.pair(2, 0), np.random.default_rng(0)
    after = np.array([problem.mdp.draw(rng, pair)[1] for _ in range(20)])
    noise = told.mechanics.draw_noise(problem.laws, np.full(20, pair), after, rng)
    belief.count(np.full(20, pair), np.zeros(20), after, noise)
    if trusted == "another":
        belief.trust(other)
    elif trusted == "nothing":
        belief.trust(None)
    belief.notice(np.array([pair]), np.zeros(1), np.array([3]), np.array([[0]]))
    counts = Counts.from_state_dict(problem.space, belief.counts.state_dict())
    again = Belief.from_state_dict(counts, likelihood, 0.1, told, belief.state_dict())
    assert again.contradictions == belief.contradictions and bool(again.contradictions) == (trusted != "nothing")
    assert again.knowledge is belief.knowledge and same(again.plausible(), belief.plausible())
    assert (again.noise is None) == (belief.noise is None) == (trusted != "built with")
    if again.noise is not None:
        assert all(np.array_equal(a, b) for a, b in zip(again.noise.values, belief.noise.values, strict=True))
    again.trust(None)
    with pytest.raises(InvalidInput, match="too late"):
        again.trust(told)
    assert again.knowledge is None and again.state_dict()["trusted"] is None


def test_noise_is_checked_before_it_is_counted():
    problem = inventory(capacity=3)
    belief = Belief(Counts(problem.space), likelihood, 0.1, problem.knowledge("mechanics", "noise"))
    assert belief.check_noise(0, 1).tolist() == [[1]]
    for noise, sentence in ((None, "give it with each step"), (99, "its values are"), (0.5, "whole numbers")):
        with pytest.raises(InvalidInput, match=sentence):
            belief.check_noise(0, noise)
    assert belief.noise.values[0].sum() == 0


@pytest.mark.parametrize("delta", [0.0, 1.0, np.nan])
def test_delta_must_be_a_probability(delta):
    with pytest.raises(InvalidInput, match="strictly between 0 and 1"):
        Belief(Counts(SPACE), likelihood, delta)


def test_knowledge_of_another_space_and_of_other_sets_is_refused_and_changes_nothing():
    belief = Belief(Counts(SPACE), hoeffding, 0.1)
    for knowledge, sentence in ((LEFT, "is not made of them"), (Knowledge(Space.full(2, 1)), "the agent on")):
        with pytest.raises(InvalidInput, match=sentence):
            belief.trust(knowledge)
    assert belief.knowledge is None
