"""Optimistic Q-learning: two updates by hand, its constants, saving, and rewards in one's own unit."""

import math

import numpy as np
import pytest

import surefooted as sf
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.testing import check_agent
from test_adopted import in_euros
from test_any_agent import a_problem

SPACE = sf.Space.full(n_states=2, n_actions=2)


def test_two_updates_by_hand():
    """H = 4, so the discount is 3/4, the rates are 1 and 5/6, and sqrt(4 / n · ln(2 T / δ)) is 4 and 4 / sqrt(2)."""
    delta = 2 * 10 * math.exp(-4)  # ln(2 T / δ) = 4
    agent = sf.QLearning(SPACE, steps=10, span=0.01, delta=delta, discounted=4)
    bonus = 4 * 0.01 * np.array([4.0, 4 / math.sqrt(2)])
    agent.begin(0)
    assert agent.act(0).action == 0 and agent.policy.actions.tolist() == [0, 0]
    agent.observe(0, 0, 0.5, 1)
    first = 0.5 + 0.75 * 4.0 + bonus[0]  # 3.66
    assert agent.q[0] == pytest.approx(first) and agent.q_hat[0] == pytest.approx(3.66)
    assert agent.v_hat.tolist() == [4.0, 4.0]  # action 1 of state 0 is still worth 4
    assert agent.act(0).action == 1 and agent.policy.actions.tolist() == [1, 0]
    agent.observe(1, 0, 1.0, 0)
    assert agent.q[2] == pytest.approx(1.0 + 3.0 + 0.16) and agent.q_hat[2] == 4.0  # Q rises, Q̂ never does
    agent.watch(0, 0, 0.0, 0)  # somebody else chose action 0
    second = first / 6 + 5 / 6 * (0.75 * 4.0 + bonus[1])
    assert agent.q[0] == pytest.approx(second) == pytest.approx(3.2043, abs=1e-4)
    agent.observe(0, 1, 0.0, 0)
    assert agent.v_hat[0] == pytest.approx(second)  # 3.16 for action 1
    assert agent.visits.tolist() == [2, 1, 1, 0] and agent.act(0).action == 0


def test_the_estimate_that_moves_is_q_and_not_its_smallest_value():
    agent = sf.QLearning(SPACE, steps=10, span=0.0, discounted=2)
    agent.begin(0)
    agent.watch(0, 0, 1.0, 1)  # rate 1: Q = 1 + 2 / 2 = 2
    agent.watch(1, 0, 0.0, 0)  # Q(1, 0) = 0 + 2 / 2 = 1, but V̂ of state 1 is still 2
    agent.watch(0, 0, 0.0, 1)  # rate 3/4: Q = 2 / 4 + 3/4 · 1 = 1.25
    agent.watch(1, 1, 0.0, 0)
    agent.watch(0, 0, 1.0, 1)  # rate 3/5, V̂(1) = 1: Q = 2/5 · 1.25 + 3/5 · (1 + 1 / 2) = 1.4
    assert agent.q[0] == pytest.approx(1.4) and agent.q_hat[0] == pytest.approx(1.25)
    agent.watch(1, 0, 0.0, 0)
    agent.watch(0, 0, 1.0, 0)  # rate 1/2, from 1.4 and not from 1.25: V̂(0) is 2, of action 1
    assert agent.q[0] == pytest.approx(0.5 * 1.4 + 0.5 * 2.0)


def test_the_effective_horizon_is_the_papers():
    space = sf.Space.full(n_states=5, n_actions=4, rewards=(-30, 70))
    by_span = sf.QLearning(space, steps=10**6, span=0.2, delta=0.1)  # of rewards up to 100: 0.002
    assert by_span.effective == pytest.approx(math.sqrt(0.002 * 50_000))
    by_steps = sf.QLearning(space, steps=10**6, span=500.0, delta=0.1)
    assert by_steps.effective == pytest.approx((50_000 / math.log(4e7)) ** (1 / 3))
    assert sf.QLearning(space, steps=10, span=1.0).effective == 2.0  # the paper's would be below 1
    assert by_steps.q.tolist() == [by_steps.effective] * 20


def test_in_another_unit_it_plays_the_same_run():
    problem = a_problem(1)
    euros = in_euros(problem)
    one = sf.QLearning(problem.space, steps=500, span=0.3, scale=0.1)
    other = sf.QLearning(euros.space, steps=500, span=30.0, scale=0.1)
    first, second = sf.simulate(problem, one, steps=500, seed=1), sf.simulate(euros, other, steps=500, seed=1)
    assert np.array_equal(first.pairs, second.pairs) and len(np.unique(first.pairs)) > 5
    assert other.q == pytest.approx(one.q)


@pytest.mark.slow
def test_it_learns_what_is_best_where_it_has_time():
    """With a small bonus: the last thousand steps earn more than the baseline's, and the regret grows slowly."""
    problem = a_problem(2)
    agent = sf.QLearning(problem.space, steps=20_000, span=0.5, scale=0.02)
    run = sf.simulate(problem, agent, steps=20_000, seed=0)
    best = sf.solve.optimal_gain(problem.mdp).gain
    assert run.rewards[-5000:].mean() > best - 0.03
    assert sf.solve.gain_and_bias(problem.mdp, problem.baseline).gain < best - 0.05


def test_it_keeps_the_rules_and_its_state_is_checked(tmp_path):
    problem = a_problem(3)
    check_agent(lambda: sf.QLearning(problem.space, steps=500, span=0.5, scale=0.1), problem, steps=60)
    agent = sf.QLearning(problem.space, steps=500, span=0.5)
    sf.simulate(problem, agent, steps=50)
    agent.save(tmp_path / "q")
    with pytest.raises(InvalidInput, match=r"steps: 500 in the state, 400 in this agent"):
        sf.QLearning(problem.space, steps=400, span=0.5).load(tmp_path / "q")
    twin = sf.QLearning(problem.space, steps=500, span=0.5).load(tmp_path / "q")
    assert twin.policy == agent.policy and twin.state == agent.state


def test_what_cannot_be_is_refused():
    with pytest.raises(InvalidInput, match="no such agent") as found:
        sf.QLearning(SPACE, steps=0, span=-1.0, delta=1.0, discounted=0.5, scale=np.nan)
    assert len(found.value.faults) == 5
    agent = sf.QLearning(SPACE, steps=10, span=1.0)
    with pytest.raises(SurefootedError, match="has not begun"):
        agent.act(0)
    agent.begin(0)
    for step, words in (((0, 1, 0.0, 0), "asked for action 0, not 1"), ((1, 0, 0.0, 0), "led to state 0")):
        with pytest.raises(InvalidInput, match=words):
            agent.observe(*step)
    for step, words in (((0, 1, 1.5, 0), "outside"), ((0, 2, 0.0, 0), "not available"), ((0, 0, 0.0, 9), "no such")):
        with pytest.raises(InvalidInput, match=words):
            agent.watch(*step)
    assert agent.visits.sum() == 0
