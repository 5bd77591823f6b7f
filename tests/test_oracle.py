"""The oracle against its definitions, by brute force on problems small enough to multiply out."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import adversarial
from surefooted import solve
from surefooted.agents.agent import Decision
from surefooted.agents.average import Segment
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.agents.ucrl2 import UCRL2
from surefooted.errors import InvalidInput
from surefooted.evaluation import margins as oracle
from surefooted.evaluation.margins import Evaluation
from surefooted.problems.problem import Problem
from surefooted.simulation.playing import simulate
from surefooted.simulation.run import Run
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy


def a_run(rng, problem, lengths=(1, 3, 2, 4)):
    """A run with segments of random policies, policy 0 the baseline; rewards are made up."""
    policies = [problem.baseline] + [adversarial.a_baseline(rng, problem.mdp, "randomised") for _ in range(3)]
    segments, first = [], 0
    for q, length in enumerate(lengths):
        segments.append(Segment(q, "optimistic" if q else "baseline", first, length))
        first += length
    states = rng.integers(0, problem.space.n_states, first)
    decisions = [Decision("baseline", "Made up.")]
    return Run(problem.start, segments, policies, decisions, np.zeros(first, int), rng.random(first), states)


def expected_by_paths(problem, sequence):
    """E[r_1 + .. + r_t], t = 1 .. T, by enumerating every path of states and actions."""
    p, r = adversarial.dense(problem.mdp)
    rules = [policy.probabilities for policy, length in sequence for _ in range(length)]
    total = np.zeros(len(rules))
    S, A = r.shape
    layer = {problem.start: 1.0}
    for t, rule in enumerate(rules):
        after = dict.fromkeys(range(S), 0.0)
        for s, a, y in itertools.product(layer, range(A), range(S)):
            after[y] += layer[s] * rule[s, a] * p[s, a, y]
        total[t] = sum(layer[s] * rule[s, a] * r[s, a] for s in layer for a in range(A))
        layer = after
    return np.cumsum(total)


@pytest.mark.parametrize("seed", range(15))
def test_the_margin_is_the_difference_of_two_expectations_over_paths(seed):
    rng = np.random.default_rng([50, seed])
    problem, alpha = adversarial.a_problem(rng), float(rng.uniform(0.01, 0.9))
    run = a_run(rng, problem)
    result = oracle.evaluate(run, problem, alpha)
    expected = expected_by_paths(problem, run.sequence)
    baseline = expected_by_paths(problem, [(problem.baseline, run.steps)])
    best = np.arange(1, run.steps + 1) * solve.optimal_gain(problem.mdp).gain
    np.testing.assert_allclose(result.expected, expected, atol=1e-11)
    np.testing.assert_allclose(result.baseline, baseline, atol=1e-11)
    np.testing.assert_allclose(result.margin, expected - (1 - alpha) * baseline, atol=1e-11)
    np.testing.assert_allclose(result.expected_regret, best - expected, atol=1e-10)
    np.testing.assert_allclose(result.realised_regret, best - np.cumsum(run.rewards), atol=1e-10)
    optimum, (p, r) = solve.optimal_gain(problem.mdp), adversarial.dense(problem.mdp)
    here = [(problem.space.pair_state[k], problem.space.pair_action[k]) for k in run.pairs]
    cost = [optimum.gain + optimum.bias[s] - r[s, a] - p[s, a] @ optimum.bias for s, a in here]
    np.testing.assert_allclose(result.decision_regret, np.cumsum(cost), atol=1e-8)
    assert min(cost) > -1e-8, "no decision is better than an optimal one"
    truth = adversarial.Truth(problem, alpha, run.sequence)
    np.testing.assert_allclose(result.margin, truth.margin[1:], atol=1e-11)
    elsewhere = replace(problem, start=(problem.start + 1) % problem.space.n_states)  # the run began where it began
    np.testing.assert_array_equal(oracle.evaluate(run, elsewhere, alpha).margin, result.margin)


def evaluation(margin):
    margin = np.array(margin, dtype=float)
    return Evaluation(margin, np.ones_like(margin), *[margin] * 4)


def test_violations_are_counted_from_one_in_windows_that_include_both_ends():
    result = evaluation([0.5, -0.1, 0.0, -0.2, -0.3, 0.1])
    assert result.violations == 3
    assert result.first_violation == 2
    assert result.violated.tolist() == [False, True, False, True, True, False]
    assert result.violation_fraction() == 0.5
    assert result.violation_fraction(1, 1) == 0.0
    assert result.violation_fraction(2, 2) == 1.0
    assert result.violation_fraction(1, 4) == 0.5
    assert result.violation_fraction(4, 5) == 1.0
    assert result.violation_fraction(last=3) == pytest.approx(1 / 3)
    assert result.violation_fraction(first=6) == 0.0
    assert evaluation([0.0, 1.0]).first_violation is None
    assert evaluation([-1.0]).first_violation == 1


@pytest.mark.parametrize(("first", "last"), [(7, None), (5, 4), (7, 9)])
def test_an_empty_window_is_an_error(first, last):
    with pytest.raises(InvalidInput, match="window is empty"):
        evaluation([0.5, -0.1, 0.0, -0.2, -0.3, 0.1]).violation_fraction(first, last)


@pytest.mark.parametrize(("first", "last"), [(0, None), (-2, None), (0, 3), (1, -1)])
def test_a_window_that_begins_or_ends_before_the_first_step_is_an_error(first, last):
    with pytest.raises(InvalidInput):
        evaluation([0.5, -0.1, 0.0, -0.2, -0.3, 0.1]).violation_fraction(first, last)


def test_rounding_is_no_violation_and_anything_more_is():
    margin = np.array([-1e-15, -1e-9, -5e-10])
    big = Evaluation(margin, np.array([1.0, 1.0, 100.0]), *[margin] * 4)
    assert big.violated.tolist() == [False, True, False]


def two_states(stay=0.9):
    """Action 0 stays where it is with probability `stay`; action 1 goes to the other state. State 0 pays."""
    p = np.zeros((2, 2, 2))
    for s in range(2):
        p[s, 0, [s, 1 - s]] = stay, 1 - stay
        p[s, 1, 1 - s] = 1.0
    return TabularMDP.from_arrays(p, np.array([[1.0, 1.0], [0.0, 0.0]]))


@pytest.mark.parametrize("seed", range(6))
def test_the_gain_margin_adds_up_gains_whatever_the_states(seed):
    rng = np.random.default_rng([51, seed])
    problem, alpha = adversarial.a_problem(rng, adversarial.garnet), 0.2
    run = a_run(rng, problem)
    states = np.r_[run.start, run.next_states]
    total, t, expected = 0.0, 0, []
    own = solve.gain_and_bias(problem.mdp, problem.baseline).gains[problem.start]
    for segment in run.segments:
        gains = solve.gain_and_bias(problem.mdp, run.policies[segment.policy]).gains
        for _ in range(segment.length):
            total, t = total + gains[states[segment.first]], t + 1
            expected.append(total - (1 - alpha) * t * own)
    np.testing.assert_allclose(oracle.gain_margin(run, problem, alpha), expected, atol=1e-10)


def test_the_gain_margin_of_a_policy_with_two_gains_is_that_of_the_state_its_segment_began_in():
    mdp = two_states(stay=1.0)
    swap, stay = Policy.always(mdp.space, 1), Policy.always(mdp.space, 0)
    problem = Problem("two", mdp, swap, 0)  # the baseline earns 1/2 a step
    segments = [Segment(0, "baseline", 0, 3), Segment(1, "optimistic", 3, 2)]
    run = Run(0, segments, [swap, stay], [], np.zeros(5, int), np.zeros(5), np.array([1, 0, 1, 1, 1]))
    expected = np.array([0.5, 1.0, 1.5, 1.5, 1.5]) - 0.9 * 0.5 * np.arange(1, 6)
    np.testing.assert_allclose(oracle.gain_margin(run, problem, 0.1), expected, atol=1e-12)


def test_the_reward_margin_is_against_one_simulated_baseline():
    mdp = two_states(stay=1.0)
    problem = Problem("two", mdp, Policy.always(mdp.space, 1), 0)  # deterministic: 1, 0, 1, 0, ..
    rng = np.random.default_rng(3)
    run = a_run(rng, problem)
    earned = np.cumsum(run.rewards)
    baseline = np.cumsum(np.arange(run.steps) % 2 == 0)
    np.testing.assert_allclose(oracle.reward_margin(run, problem, 0.25), earned - 0.75 * baseline, atol=1e-12)


def test_the_luck_of_the_simulated_baseline_is_its_seed_and_its_mean_is_the_expectation():
    rng = np.random.default_rng(4)
    problem = adversarial.a_problem(rng, adversarial.garnet, "randomised")
    run, alpha = a_run(rng, problem, (10, 10, 10, 10)), 0.3
    one, same, other = (oracle.reward_margin(run, problem, alpha, seed) for seed in (1, 1, np.random.SeedSequence(9)))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    luck = np.array([oracle.reward_margin(run, problem, alpha, seed)[-1] for seed in range(400)])
    mean = np.sum(run.rewards) - (1 - alpha) * expected_by_paths(problem, [(problem.baseline, run.steps)])[-1]
    assert abs(luck.mean() - mean) < 5 * luck.std() / 20  # 5 standard errors: below one in a million


def test_the_margin_in_expectation_is_the_mean_of_the_runs_rewards():
    rng = np.random.default_rng(5)
    problem, alpha = adversarial.a_problem(rng), 0.4
    runs = [a_run(rng, problem) for _ in range(7)]
    margin, error = oracle.margin_in_expectation(runs, problem, alpha)
    earned = np.array([np.cumsum(run.rewards) for run in runs])
    baseline = expected_by_paths(problem, [(problem.baseline, runs[0].steps)])
    np.testing.assert_allclose(margin, earned.mean(axis=0) - (1 - alpha) * baseline, atol=1e-11)
    np.testing.assert_allclose(error, earned.std(axis=0, ddof=1) / np.sqrt(7), atol=1e-12)


def test_a_mean_of_one_run_or_of_unequal_runs_is_refused():
    rng = np.random.default_rng(6)
    problem = adversarial.a_problem(rng)
    one, short = a_run(rng, problem), a_run(rng, problem, (1, 2))
    for runs in ([one], [one, short], []):
        with pytest.raises(InvalidInput, match="cannot be estimated"):
            oracle.margin_in_expectation(runs, problem, 0.1)


@pytest.mark.parametrize("alpha", [-0.1, 1.0, 1.5, np.nan])
def test_no_condition_without_a_level_between_zero_and_one(alpha):
    rng = np.random.default_rng(7)
    problem = adversarial.a_problem(rng)
    run = a_run(rng, problem)
    for question in (oracle.evaluate, oracle.gain_margin, oracle.reward_margin):
        with pytest.raises(InvalidInput, match="alpha"):
            question(run, problem, alpha)
    with pytest.raises(InvalidInput, match="alpha"):
        oracle.margin_in_expectation([run, run], problem, alpha)


@pytest.mark.parametrize("agent", [UCRL2, CUCRL2])
def test_the_expected_rewards_of_a_simulated_run_are_those_of_its_segments(agent):
    problem = adversarial.a_problem(np.random.default_rng(8), adversarial.garnet, "randomised")
    extra = {"baseline": adversarial.known(problem), "alpha": 0.3} if agent is CUCRL2 else {}
    run = simulate(problem, agent(problem.space, **extra), 200, seed=3)
    result = oracle.evaluate(run, problem, 0.3)
    np.testing.assert_allclose(result.expected, expected_by_paths(problem, run.sequence), atol=1e-10)
    assert run.steps == sum(length for _, length in run.sequence)
