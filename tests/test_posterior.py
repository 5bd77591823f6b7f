"""The posterior: draws against closed forms. A test of a distribution has a false alarm once in a million (ALARM)."""

import numpy as np
import pytest
from scipy import stats

import surefooted as sf
from surefooted.kernels import posterior as kernels
from surefooted.kernels.intervals import Sums
from surefooted.kernels.structs import Table
from surefooted.sets import posterior

ALARM = 1e-6
DRAWS = 4_000


def both(kernel):
    return pytest.mark.parametrize("kernel", [kernel, kernel.py_func], ids=["compiled", "plain"])


def shapes(kernel, rewards, r_max=1.0):
    """The Beta posterior of a pair that earned these rewards."""
    x, a, b = np.array(rewards, dtype=float), np.empty(1), np.empty(1)
    kernel(Sums(np.array([x.size]), np.array([x.sum()]), np.array([(x * x).sum()])), r_max, a, b)
    return float(a[0]), float(b[0])


def fits(sample, law):
    """Whether a sample may come from a distribution with this cdf (Kolmogorov and Smirnov)."""
    return stats.kstest(sample, law.cdf).pvalue > ALARM


def some_counts(stages=1):
    """Three states with two actions; pair 0 led to state 0 five times and to state 2 twice, pair 3 to state 1 once."""
    counts = sf.Counts(sf.Space.full(3, 2, r_max=2.0), stages=stages)
    for h in range(stages):
        for s_next, r in [(0, 2.0)] * 4 + [(0, 0.0)] + [(2, 2.0)] * 2:
            counts.add(0, 0, r, s_next, h)
        counts.add(1, 1, 0.5, 1, h)
    return counts


def dense(drawn, n_states):
    """The rows of a drawn MDP, [rows, S]."""
    p = np.zeros((drawn.r.size, n_states))
    np.add.at(p, (np.repeat(np.arange(drawn.r.size), np.diff(drawn.next_ptr)), drawn.next_state), drawn.p)
    return p


def draws(counts, known=None, n=DRAWS, seed=0):
    rng = np.random.default_rng(seed)
    return [posterior.draw(rng, counts, known) for _ in range(n)]


@both(kernels.reward_posterior)
def test_rewards_of_zero_and_one_have_the_posterior_of_jeffreys_prior(kernel):
    assert shapes(kernel, []) == pytest.approx((0.5, 0.5))
    assert shapes(kernel, [1, 0, 1, 1]) == pytest.approx((3.5, 1.5))
    assert shapes(kernel, [0] * 9) == pytest.approx((0.5, 9.5))
    assert shapes(kernel, [5.0, 0.0, 5.0], r_max=5.0) == pytest.approx((2.5, 1.5))


@both(kernels.reward_posterior)
def test_other_rewards_have_the_mean_and_variance_of_the_sample_with_the_prior(kernel):
    x = np.random.default_rng(0).uniform(0.3, 0.9, size=40)
    whole, weight = np.r_[x, 0.0, 1.0], np.r_[np.ones(40), 0.5, 0.5]
    mean = np.average(whole, weights=weight)
    variance = np.average((whole - mean) ** 2, weights=weight) / 42
    law = stats.beta(*shapes(kernel, x))
    assert (law.mean(), law.var()) == pytest.approx((mean, variance))
    assert stats.beta(*shapes(kernel, 3 * x, r_max=3.0)).var() == pytest.approx(variance)


@both(kernels.reward_posterior)
def test_a_reward_that_never_varies_is_soon_known(kernel):
    for n in (10, 1_000, 100_000):  # by hand: s^2 = 1 / (4 (n + 1))
        assert stats.beta(*shapes(kernel, [0.5] * n)).std() == pytest.approx(0.5 / np.sqrt((n + 1) * (n + 2)))


@both(kernels.reward_posterior)
@pytest.mark.parametrize("rewards", [[3.0], [-2.0], [-5.0, 6.0], [1.5] * 30, [-0.1] * 30])
def test_rewards_outside_the_range_leave_a_mean_inside_and_no_less_than_the_prior_knew(kernel, rewards):
    a, b = shapes(kernel, rewards)
    n = len(rewards) + 1
    assert a + b >= 1 - 1e-12 and 0.5 / n - 1e-12 <= a / (a + b) <= 1 - 0.5 / n + 1e-12


@both(kernels.mix_rows)
def test_mixing_rows_by_hand(kernel):
    new = kernels.NewStates(np.array([1.0, 4.0, 0.0]), np.array([0.25, 0.5, 0.5]), np.array([1, 2, 0]), 0)
    drawn = Table(np.empty(4, dtype=np.int64), np.empty(9, dtype=np.int64), np.empty(9), np.zeros(3))
    kernel(np.array([0, 2, 2, 3]), np.array([0, 2, 1]), np.array([2.0, 1.0, 0.5]), new, drawn)
    assert drawn.next_ptr.tolist() == [0, 4, 6, 9]
    assert drawn.next_state.tolist() == [0, 2, 1, 0, 2, 0, 1, 0, 0]
    assert drawn.p == pytest.approx([2 / 4, 1 / 4, 1 / 16, 3 / 16, 0.5, 0.5, 1.0, 0.0, 0.0])


def test_successors_seen_have_the_dirichlet_posterior():
    counts = some_counts()
    drawn = draws(counts)
    first = np.array([table.p[:4] for table in drawn])  # pair 0: state 0, state 2, and what is new
    assert fits(first[:, 0], stats.beta(5, 3)) and fits(first[:, 1], stats.beta(2, 6))
    assert fits(first[:, 2:].sum(axis=1), stats.beta(1, 7))
    assert fits(first[:, 2] / first[:, 2:].sum(axis=1), stats.uniform())
    correlation = np.corrcoef(first[:, 0], first[:, 1])[0, 1]  # -sqrt(5 * 2 / (3 * 6)), to 5 standard errors
    assert correlation == pytest.approx(-np.sqrt(10 / 18), abs=5 * (1 - 10 / 18) / np.sqrt(DRAWS))


def test_states_never_seen_are_equally_likely_and_means_are_exact():
    counts = some_counts()
    drawn = draws(counts)
    p = np.array([dense(table, 3) for table in drawn])  # [draws, K, S]
    assert p.sum(axis=2) == pytest.approx(1.0)
    expected = np.full((6, 3), 1 / 3)
    expected[0], expected[3] = np.array([5 + 1 / 3, 1 / 3, 2 + 1 / 3]) / 8, np.array([1 / 3, 4 / 3, 1 / 3]) / 2
    z = (p.mean(axis=0) - expected) / (p.std(axis=0) / np.sqrt(DRAWS))
    assert np.abs(z).max() < stats.norm.isf(ALARM / 36)
    last = np.array([table.next_state[table.next_ptr[1:] - 1] for table in drawn])  # Z
    assert np.all(last == last[:, :1])
    anywhere = np.array([table.next_state[table.next_ptr[1:] - 2] for table in drawn])  # Y
    for states in (last[:, 0], anywhere[:, 0], anywhere[:, 5]):
        assert stats.chisquare(np.bincount(states, minlength=3)).pvalue > ALARM


@pytest.mark.parametrize("stages", [1, 3])
def test_mean_rewards_are_drawn_from_their_posterior(stages):
    r = np.array([table.r for table in draws(some_counts(stages))]) / 2.0
    assert r.shape == (DRAWS, 6 * stages)
    for h in range(stages):
        assert fits(r[:, 6 * h], stats.beta(6.5, 1.5))
        assert fits(r[:, 6 * h + 1], stats.beta(0.5, 0.5))  # never tried


def test_a_row_costs_two_transitions_more_than_were_seen():
    counts = sf.Counts(sf.Space.full(100_000, 2))
    counts.add(5, 1, 0.5, 77)
    drawn = posterior.draw(np.random.default_rng(0), counts)
    assert drawn.p.size == 1 + 2 * counts.n_rows
    assert drawn.next_ptr[[11, 12]].tolist() == [22, 25] and drawn.next_state[22] == 77


def test_the_same_random_numbers_give_the_same_mdp():
    one, two = (draws(some_counts(), n=1, seed=4)[0] for _ in range(2))
    assert all(np.array_equal(x, y) for x, y in zip(one, two, strict=True))


PROBLEM = sf.problems.inventory(3, noise=sf.Noise("bernoulli"))


def informed(parts, steps):
    """Counts of a run, and the set that knowledge makes of them."""
    agent = sf.UCRL2(PROBLEM.space, knowledge=PROBLEM.knowledge(*parts.split()))
    if steps:
        sf.simulate(PROBLEM, agent, steps, seed=1)
    assert not agent.contradictions
    return agent.counts, agent.learner.plausible()


@pytest.mark.parametrize("steps", [0, 20, 3_000])
@pytest.mark.parametrize("parts", ["rewards", "successors", "successors rewards", "mechanics", "mechanics rewards"])
def test_with_knowledge_every_draw_of_declared_rows_and_rewards_is_plausible(parts, steps):
    counts, known = informed(parts, steps)
    for drawn in draws(counts, known, n=20):
        p = dense(drawn, PROBLEM.space.n_states)
        assert p.sum(axis=1) == pytest.approx(1.0)
        if parts == "rewards":  # rows are not declared
            assert np.array_equal(drawn.r, known.r_lower)
            continue
        table = np.zeros((4, 4, 4)), np.zeros((4, 4))
        at = (PROBLEM.space.pair_state, PROBLEM.space.pair_action)
        table[0][at], table[1][at] = p, drawn.r
        mdp = sf.TabularMDP.from_arrays(*table, PROBLEM.space.available)
        assert known.excludes(mdp, 1e-9) == []


def test_declared_successors_share_the_prior():
    space = sf.Space.full(4, 1)
    knowledge = sf.Knowledge(space, successors=[{0, 1, 2}, {3}, {1, 2}, None])
    counts = sf.Counts(space)
    for _ in range(3):
        counts.add(2, 0, 0.5, 2)
    known = knowledge.plausible(sf.confidence.likelihood, counts, 1e-4)
    p = np.array([dense(table, 4) for table in draws(counts, known)])
    assert np.all(p[:, 0, 3] == 0) and np.all(p[:, 1, 3] == 1) and np.all(p[:, 2, [0, 3]] == 0)
    assert fits(p[:, 0, 0], stats.beta(1 / 3, 2 / 3))
    assert fits(p[:, 2, 2], stats.beta(3.5, 0.5))  # the interval at this δ begins far below
    assert np.all(p[:, 3].max(axis=0) > 0)  # nothing was declared: it may lead anywhere
