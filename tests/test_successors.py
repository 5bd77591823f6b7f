"""The successors of conservative UCB: each condition against an oracle that shares no code with the agent."""

import math
import pickle
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from surefooted.bandits import (
    AnyBandit,
    AnyLinearBandit,
    BanditRun,
    BernoulliArms,
    ConservativeLinearUCB,
    ConservativeUCB,
    LinearContextual,
    Reduction,
    SafeSetLinearUCB,
    SafeSetUCB,
    SamplePath,
    StageWiseLinearUCB,
    StageWiseUCB,
    budget_needed,
    check_bandit,
    evaluate,
    linear_contextual,
    regret_of_ucb,
    simulate_arms,
    simulate_linear,
    wu,
)
from surefooted.bandits.mixture import MixedDecision, most_chance, most_chance_beside
from surefooted.certificates.tolerance import Tolerance
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.tables.reward_noise import Noise
from test_bandits import ALPHAS, Around, intervals, lowest, random_contextual, spare

QUIET = Noise("uniform", 0.2)


class Says:
    """An algorithm that proposes what it is told to, and remembers what it is told."""

    def __init__(self, arms, n_arms=2, baseline=0):
        self.arms, self.n_arms, self.baseline, self.told = arms, n_arms, baseline, []

    def act(self):
        return self.arms[len(self.told) % len(self.arms)]

    def observe(self, arm, reward):
        self.told.append((arm, reward))

    def state_dict(self):
        return {"told": list(self.told)}

    def load_state_dict(self, state):
        self.told = list(state["told"])


class Shows(Says):
    """The same for rounds with features: it goes through the arms."""

    dimension = 2

    def __init__(self):
        super().__init__([0, 1, 2, 3])

    def act(self, features, baseline, baseline_mean=None):
        return super().act() % len(features)

    def observe(self, reward):
        self.told.append(reward)


def random_bandit(rng):
    """Arms at both ends of [0, 1], equal ones, or random ones; intervals that hold the means by construction."""
    n = int(rng.integers(2, 6))
    means = np.clip(rng.choice([0.0, 0.5, 1.0, rng.random()], n) + rng.choice([0.0, 1e-9, 0.02]) * rng.random(n), 0, 1)
    arms = BernoulliArms(means, int(rng.integers(n)))
    around = Around(means, float(rng.choice([0.05, 0.5, 2.0])), rng.choice([0.0, 0.5, 1.0], n))
    return arms, around, float(rng.choice([*ALPHAS, rng.random()]))


# -- the conditions ---------------------------------------------------------------------------------------------------


def test_each_condition_by_hand():
    arms = BernoulliArms([0.5, 0.2, 0.8])
    drawn = MixedDecision("optimistic", "Tries.", 1, 0, tried=1, partner=0, chance=0.25)
    run = BanditRun([drawn, drawn], np.array([1, 0]), np.array([1.0, 0.0]))
    assert evaluate(run, arms, 0.4).margin == pytest.approx([0.425 - 0.3, 0.85 - 0.6])
    assert evaluate(run, arms, 0.4, condition="every round").margin == pytest.approx([0.125, 0.125])
    assert evaluate(run, arms, 0.4, condition="sample path").margin == pytest.approx([0.7, 0.4])
    run = BanditRun([], np.array([1, 2]), np.array([0.0, 0.0]))
    assert evaluate(run, arms, 0.4, condition="every round").margin == pytest.approx([-0.1, 0.5])
    told = {"condition": "sample path", "allowance": 0.5, "tolerance": 0.1}
    assert evaluate(run, arms, 0.4, **told).margin == pytest.approx([0.5 - 0.2, 0.5 - 0.4])
    assert evaluate(run, arms, 0.4, condition="every round", floor=0.25).margin == pytest.approx([-0.2, 0.4])
    for options in ({"condition": "always"}, {"condition": "every round", "checkpoints": 3}):
        with pytest.raises(InvalidInput, match="cannot be evaluated"):
            evaluate(run, arms, 0.4, **options)


def test_the_conditions_are_three_different_ones():
    """A run for each pair of conditions that keeps the first and violates the second."""
    arms, found = BernoulliArms([0.5, 0.3, 0.9]), set()
    for played, rewards in product(product((0, 1, 2), repeat=3), product((0.0, 1.0), repeat=3)):
        run = BanditRun([], np.array(played), np.array(rewards))
        kept = [
            evaluate(run, arms, 0.2, condition=c).violations == 0 for c in ("cumulative", "every round", "sample path")
        ]
        found |= {(i, j) for i in range(3) for j in range(3) if kept[i] and not kept[j]}
    assert found == {(0, 1), (0, 2), (1, 2), (2, 0), (2, 1)}  # every round kept: so is their sum


def test_a_steady_baseline_pays_its_mean():
    rng = np.random.default_rng(0)
    arms = BernoulliArms([0.3, 0.5], steady=True)
    assert [arms.draw(rng, 0) for _ in range(5)] == [0.3] * 5
    assert {arms.draw(rng, 1) for _ in range(50)} == {0.0, 1.0}
    with pytest.raises(InvalidInput, match="steady"):
        arms.problem()
    shop = linear_contextual(2, 3, seed=1)
    steady = LinearContextual(shop.theta, shop.features, shop.baseline, steady=True)
    for t in range(20):
        _, b, mean = steady.context(t)
        assert steady.draw(rng, t, b) == mean
    assert {steady.draw(rng, t, (int(steady.baseline[t]) + 1) % 3) for t in range(50)} == {0.0, 1.0}


# -- a draw between two arms ------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_the_largest_chance_is_that_of_a_search(data):
    unit = st.floats(0, 1, allow_subnormal=False)
    alpha, floor, per_step = data.draw(st.floats(0.01, 0.99)), data.draw(unit), data.draw(st.sampled_from([0.0, 0.05]))
    low, high = sorted((data.draw(unit), data.draw(unit)))
    lower = data.draw(unit)
    tolerance = Tolerance(alpha, per_step, floor=floor)
    means = np.unique(np.append(np.linspace(low, high, 400), np.clip(floor, low, high)))
    owed = means - alpha * np.maximum(means - floor, 0) - per_step

    def is_safe(p):
        return bool(np.all(p * lower + (1 - p) * means >= owed - 1e-12))

    found = most_chance_beside(lower, (low, high), tolerance)
    assert 0 <= found <= 1 and is_safe(found)
    assert found == 1 or not is_safe(min(found + 1e-6 + 1e-9 / max(float(np.ptp(np.append(means, lower))), 1e-9), 1.0))


def test_the_largest_chance_by_hand():
    assert most_chance(0.0, 0.5, 0.45) == pytest.approx(0.1)  # nothing is known: alpha
    assert most_chance(0.3, 0.6, 0.5) == pytest.approx(1 / 3)
    assert (most_chance(0.5, 0.4, 0.5), most_chance(0.0, 0.4, 0.5), most_chance(0.0, 0.5, 0.5)) == (1.0, 0.0, 0.0)
    assert most_chance_beside(0.0, (0.4, 0.6), Tolerance(0.1)) == pytest.approx(0.1)
    # 0.2 p + (1 - p) m >= 0.9 m: p = 0.04 / 0.2 at m = 0.4, 0.06 / 0.4 at m = 0.6
    assert most_chance_beside(0.2, (0.4, 0.6), Tolerance(0.1)) == pytest.approx(0.15)
    # with a floor of 0.4 a baseline of 0.4 has no share, and 0.3 is less; one of 0.2 or 0.6 would allow 1 or 1 / 3
    assert most_chance_beside(0.3, (0.2, 0.6), Tolerance(0.5, floor=0.4)) == 0.0


# -- stage-wise -------------------------------------------------------------------------------------------------------


def chance_by_the_book(lower, upper, b, alpha, tried):
    """The partner and the largest safe p, by bisection over p and a grid of the baseline's means."""
    means = np.linspace(lower[b], upper[b], 201)
    best = int(np.argmax(lower))
    partner = b if lower[best] < upper[b] else best
    other = means if partner == b else np.full(201, lower[partner])
    low, high = 0.0, 1.0
    if np.all(lower[tried] >= (1 - alpha) * means - 1e-13):
        return partner, 1.0
    for _ in range(60):
        p = (low + high) / 2
        low, high = (p, high) if np.all(p * lower[tried] + (1 - p) * other >= (1 - alpha) * means) else (low, p)
    return partner, low


@pytest.mark.parametrize("is_known", [True, False])
def test_every_stage_wise_decision_is_that_of_a_search(is_known):
    mixed = 0
    for seed in range(12):
        rng = np.random.default_rng([31, seed])
        arms, around, alpha = random_bandit(rng)
        b = arms.baseline
        told = {"baseline": b, "baseline_mean": float(arms.means[b]) if is_known else None, "confidence": around}
        if is_known and arms.means[b] == 0:
            continue  # refused: a share of nothing
        agent = StageWiseUCB(arms.n_arms, alpha=alpha, seed=seed, **told)
        for _ in range(25):
            lower, upper = agent.bounds()
            decision, tried = agent.act(), int(np.argmax(upper))
            if isinstance(decision, MixedDecision):
                partner, chance = chance_by_the_book(lower, upper, b, alpha, tried)
                assert (decision.tried, decision.partner) == (tried, partner)
                assert decision.chance == pytest.approx(chance, abs=1e-6)
                mixed += 0 < chance < 1
            else:
                assert decision.action == b and (tried == b or decision.role == "baseline")
            agent.observe(decision.action, arms.draw(rng, decision.action))
    assert mixed > 30


def stage_wise_runs(seeds, rounds):
    for seed in seeds:
        rng = np.random.default_rng([32, seed])
        arms, around, alpha = random_bandit(rng)
        mean = float(arms.means[arms.baseline]) if rng.random() < 0.5 else None
        told = {"baseline": arms.baseline, "baseline_mean": mean, "confidence": around}
        if mean == 0:
            continue
        agent = StageWiseUCB(arms.n_arms, alpha=alpha, seed=seed, **told)
        run = simulate_arms(arms, agent, rounds, seed)
        yield run, arms, alpha


def check_every_round(seeds, rounds):
    explored = 0
    for run, arms, alpha in stage_wise_runs(seeds, rounds):
        found = evaluate(run, arms, alpha, condition="every round")
        assert found.margin.min() >= -1e-12
        assert evaluate(run, arms, alpha).violations == 0  # it implies the sum
        explored += run.rounds - run.baseline_rounds
    return explored


def test_no_round_is_worse_than_promised_while_the_truth_is_in_the_bounds():
    assert check_every_round(range(120), 15) > 200


@pytest.mark.slow
def test_no_round_is_worse_than_promised_in_thousands_of_bandits():
    assert check_every_round(range(1000, 4000), 20) > 8000


def test_the_chance_is_as_large_as_the_truth_allows_when_the_bounds_are_the_truth():
    arms = BernoulliArms([0.5, 0.0, 0.8])
    exact = Around(arms.means, 0.0, 0.0)
    agent = StageWiseUCB(3, alpha=0.2, baseline_mean=0.5, confidence=exact)
    assert (agent.act().tried, agent.act().chance) == (2, 1.0)
    hopeful = lambda counts, delta: intervals(counts.space, np.array([0.5, 0.0, 0.8]), np.array([0.5, 1.0, 0.8]))  # noqa: E731
    agent = StageWiseUCB(3, alpha=0.2, baseline_mean=0.5, confidence=hopeful)
    decision = agent.act()  # p * 0 + (1 - p) 0.8 = 0.4: the partner is the better arm
    assert (decision.tried, decision.partner, decision.chance) == (1, 2, pytest.approx(0.5))
    run = simulate_arms(arms, agent, 40, seed=1)
    assert evaluate(run, arms, 0.2, condition="every round").margin == pytest.approx(np.zeros(40), abs=1e-12)


def test_arms_are_drawn_as_often_as_they_should_be():
    """The share of draws is within 5 standard errors of the chance: wrong below once in a million."""
    nothing = lambda counts, delta: intervals(counts.space, np.zeros(2), np.ones(2))  # noqa: E731
    agent, n = StageWiseUCB(2, alpha=0.3, baseline=1, confidence=nothing, baseline_mean=0.5, seed=3), 1000
    tried = 0
    for _ in range(n):
        decision = agent.act()
        assert decision.chance == pytest.approx(0.3)
        tried += decision.action == 0
        agent.observe(decision.action, 0.5)
    assert abs(tried - 0.3 * n) <= 5 * math.sqrt(0.21 * n)
    other = StageWiseUCB(2, alpha=0.3, baseline=1, confidence=nothing, baseline_mean=0.5, seed=4)
    draws = []
    for _ in range(20):
        draws.append(other.act().action)
        other.observe(draws[-1], 0.5)
    assert 0 < sum(draws) < 20


def test_the_stage_wise_promise_is_broken_no_more_often_than_promised():
    runs, delta, broken = 40, 0.3, 0
    for seed in range(runs):
        rng = np.random.default_rng([33, seed])
        means = np.clip(rng.choice([0.05, 0.95, 0.5], 3) + 0.05 * rng.random(3), 0, 1)
        arms = BernoulliArms(means)
        agent = StageWiseUCB(3, alpha=0.3, delta=delta, confidence=wu, seed=seed)
        run = simulate_arms(arms, agent, 60, seed)
        broken += evaluate(run, arms, 0.3, condition="every round").violations > 0
    assert broken <= binom.ppf(1 - 1e-6, runs, delta)  # at rate delta: exceeded once in a million


def test_a_stage_wise_agent_learns_all_the_same():
    arms = BernoulliArms([0.5, 0.1, 0.9])
    run = simulate_arms(arms, StageWiseUCB(3, alpha=0.3, baseline_mean=0.5), 1500, seed=1)
    assert np.all(run.arms[-200:] == 2)
    problem = linear_contextual(3, 5, seed=2)
    for sampling in (False, True):
        options = {"alpha": 0.2, "sigma": problem.sigma, "bound": problem.bound, "sampling": sampling}
        run = simulate_linear(problem, StageWiseLinearUCB(3, **options), 1000, seed=1)
        found = evaluate(run, problem, 0.2, condition="every round")
        assert found.violations == 0
        best = problem.rounds(1000)[0].max(axis=1)
        assert np.mean(problem.rounds(1000)[0][np.arange(800, 1000), run.arms[800:]] / best[800:]) > 0.85


@pytest.mark.parametrize("mode", ["known", "unknown"])
def test_every_stage_wise_decision_with_features_is_that_of_the_list_of_rounds(mode):
    mixed = 0
    for seed in range(10):
        rng = np.random.default_rng([34, seed])
        problem, alpha = random_contextual(rng), float(rng.choice([0.1, 0.5, 0.9]))
        options = {"sigma": problem.sigma, "bound": problem.bound, "lambda_": 0.05, "delta": 0.1}
        agent, phi, rewards = StageWiseLinearUCB(problem.dimension, alpha=alpha, **options), [], []
        for t in range(30):
            features, b, mean = problem.context(t)
            known = mode == "known"
            x, y = np.array(phi).reshape(-1, problem.dimension), np.array(rewards)
            gram = 0.05 * np.eye(problem.dimension) + x.T @ x
            inverse = np.linalg.inv(gram)
            log = (np.linalg.slogdet(gram)[1] - problem.dimension * math.log(0.05)) / 2 - math.log(0.1)
            radius = problem.sigma * math.sqrt(2 * log) + math.sqrt(0.05) * problem.bound
            ellipsoid = (inverse @ (x.T @ y), inverse, radius)
            lower = np.maximum([lowest(*ellipsoid, f) for f in features], 0)
            upper = np.maximum([-lowest(*ellipsoid, -f) for f in features], 0)
            if known:
                lower[b] = upper[b] = mean
            decision = agent.act(features, b, mean if known else None)
            tried = int(np.argmax(upper))
            if isinstance(decision, MixedDecision):
                partner, chance = chance_by_the_book(lower, upper, b, alpha, tried)
                if not known and lowest(*ellipsoid, features[tried] - (1 - alpha) * features[b]) >= 1e-9:
                    chance = 1.0
                assert decision.tried == tried and decision.chance == pytest.approx(chance, abs=1e-5)
                assert decision.partner == partner
                mixed += 0 < chance < 1
            phi.append(features[decision.action])
            rewards.append(problem.draw(rng, t, decision.action))
            agent.observe(rewards[-1])
    assert mixed > 20


# -- safe sets --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooled", [True, False])
def test_the_most_optimistic_safe_arm_is_played(pooled):
    """The best of the arms after which the margin that ConservativeUCB proves is not negative."""
    elsewhere = 0
    for seed in range(20):
        rng = np.random.default_rng([35, seed])
        arms, _, alpha = random_bandit(rng)
        b, n = arms.baseline, arms.n_arms
        low, high = np.sort(rng.random((2, n)), axis=0)  # any intervals: this is about decisions, not about the truth
        low[b], high[b] = arms.means[b], arms.means[b]
        around = lambda counts, delta, low=low, high=high: intervals(counts.space, low, high)  # noqa: E731
        told = {"baseline": b, "confidence": around, "pooled": pooled, "allowance": 0.3}
        agent = SafeSetUCB(n, alpha=alpha, baseline_mean=float(arms.means[b]), **told)
        for _ in range(30):
            lower, upper = agent.bounds()
            decision, visits = agent.act(), agent.counts.visits
            others = np.arange(n) != b
            since = agent.at_once + ((visits - agent.covered) * lower)[others].sum()
            earned = max((visits * lower)[others].sum(), since) if pooled else (visits * lower)[others].sum()
            margin = 0.3 + earned + arms.means[b] * (visits[b] - (1 - alpha) * visits.sum())
            safe = [i for i in range(n) if i == b or margin + lower[i] - (1 - alpha) * arms.means[b] >= 0]
            near = [abs(margin + lower[i] - (1 - alpha) * arms.means[b]) < 1e-9 for i in range(n) if i != b]
            if not any(near):
                assert decision.action == max(safe, key=lambda i: (upper[i], -i))
            elsewhere += decision.action not in (b, int(np.argmax(upper)))
            agent.observe(decision.action, arms.draw(rng, decision.action))
    assert elsewhere > 10


@pytest.mark.parametrize("checkpoints", [None, 7, [5, 20]])
def test_safe_sets_keep_the_condition_at_every_checkpoint(checkpoints):
    explored = {SafeSetUCB: 0, ConservativeUCB: 0}
    for seed in range(40):
        rng = np.random.default_rng([36, seed])
        arms, around, alpha = random_bandit(rng)
        mean = float(arms.means[arms.baseline]) if seed % 2 else None
        told = {"baseline": arms.baseline, "confidence": around, "checkpoints": checkpoints} | spare(mean)
        for kind in explored:
            run = simulate_arms(arms, kind(arms.n_arms, alpha=alpha, baseline_mean=mean, **told), 30, seed)
            found = evaluate(run, arms, alpha, checkpoints=checkpoints, **spare(mean))
            assert found.violations == 0
            explored[kind] += run.rounds - run.baseline_rounds
    assert explored[SafeSetUCB] > explored[ConservativeUCB] > 100


def test_checkpoints_let_a_safe_set_leave_sooner_with_features_too():
    problem, rounds = linear_contextual(3, 5, seed=2), {}
    for checkpoints in (1, 100):
        options = {"alpha": 0.1, "sigma": problem.sigma, "bound": problem.bound, "tolerance": 0.02}
        run = simulate_linear(problem, SafeSetLinearUCB(3, checkpoints=checkpoints, **options), 600, seed=1)
        assert evaluate(run, problem, 0.1, tolerance=0.02, checkpoints=checkpoints).violations == 0
        rounds[checkpoints] = run.baseline_rounds
    assert rounds[100] < rounds[1]


@pytest.mark.parametrize("is_known", [True, False])
def test_the_most_optimistic_safe_arm_with_features_is_played(is_known):
    elsewhere = 0
    for seed in range(10):
        rng = np.random.default_rng([37, seed])
        problem, alpha = linear_contextual(2, 9, seed=seed, contexts=40, noise=QUIET), float(rng.choice([0.1, 0.3]))
        options = {"sigma": problem.sigma, "bound": problem.bound, "pooled": False, "allowance": 0.2}
        agent = SafeSetLinearUCB(problem.dimension, alpha=alpha, **options)
        w, known = np.zeros(problem.dimension), 0.2
        for t in range(30):
            features, b, mean = problem.context(t)
            upper = agent.ellipsoid.bounds(features)[1]
            decision = agent.act(features, b, mean if is_known else None)

            def change(i, features=features, b=b, mean=mean, alpha=alpha):
                if is_known:
                    return (0 * features[b], alpha * mean) if i == b else (features[i], -(1 - alpha) * mean)
                return features[i] - (1 - alpha) * features[b], 0.0

            after = []
            for i in range(len(features)):
                more, sure = change(i)
                after.append(known + sure + float(agent.ellipsoid.bounds((w + more)[None])[0][0]))
            safe = [i for i in range(len(features)) if i == b or after[i] >= 0]
            if min(abs(a) for a in after) > 1e-9:
                assert decision.action == max(safe, key=lambda i, upper=upper: (upper[i], -i))
            elsewhere += decision.action not in (b, int(np.argmax(upper)))
            agent.observe(problem.draw(rng, t, decision.action))
            more, sure = change(decision.action)
            w, known = w + more, known + sure
    assert elsewhere > 5


# -- the sample path --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("checkpoints", [None, 4])
def test_the_sample_path_is_safe_whatever_happens_and_every_proposal_that_is_safe_is_played(checkpoints):
    """Rational numbers, an algorithm that proposes anything, and rewards that somebody chooses."""
    obeyed = 0
    for seed in range(60):
        rng = np.random.default_rng([38, seed])
        alpha, mean = Fraction(int(rng.integers(1, 8)), 8), Fraction(int(rng.integers(1, 9)), 8)
        allowance, least = Fraction(int(rng.integers(0, 3)), 4), Fraction(int(rng.integers(-2, 1)), 4)
        learner = Says(rng.integers(0, 3, 40).tolist(), n_arms=3)
        given = {"alpha": float(alpha), "baseline_mean": float(mean), "least": float(least)}
        agent = SamplePath(learner, allowance=float(allowance), checkpoints=checkpoints, **given)
        surplus, every = allowance, checkpoints or 1
        for t in range(40):
            decision, wish = agent.act(), learner.act()
            ahead = -(-(t + 1) // every) * every - (t + 1)
            after = surplus + least - (1 - alpha) * mean + ahead * alpha * mean
            assert decision.action == (wish if after >= 0 else 0)
            assert decision.budget == surplus
            reward = mean if decision.action == 0 else rng.choice([least, least, Fraction(1), Fraction(1, 8)])
            agent.observe(decision.action, float(reward))
            surplus += reward - (1 - alpha) * mean
            assert surplus >= 0 or (t + 1) % every  # the condition itself, in exact arithmetic
            obeyed += decision.action != 0
    assert obeyed > 200


def test_without_noise_no_problem_breaks_the_sample_path():
    explored = 0
    for seed in range(150):
        rng = np.random.default_rng([39, seed])
        n = int(rng.integers(2, 6))
        arms = BernoulliArms(
            np.append(rng.uniform(0.01, 1), rng.random(n - 1).round(int(rng.integers(3)))), steady=True
        )
        alpha, mean = float(rng.choice([*ALPHAS, rng.random()])), float(arms.means[0])
        agent = SamplePath(Says(rng.integers(0, n, 30).tolist(), n), alpha=alpha, baseline_mean=mean)
        run = simulate_arms(arms, agent, 60, seed)
        found = evaluate(run, arms, alpha, condition="sample path")
        assert found.violations == 0 and agent.contradictions == []
        assert [d.budget for d in run.decisions] == pytest.approx(np.append(0, found.margin[:-1]), abs=1e-9)
        explored += run.rounds - run.baseline_rounds
    assert explored > 1500


def test_with_features_no_problem_breaks_the_sample_path():
    for seed in range(20):
        rng = np.random.default_rng([40, seed])
        problem, alpha = linear_contextual(2, 4, seed=seed, contexts=30), float(rng.choice([0.3, 0.9]))
        steady = LinearContextual(problem.theta, problem.features, problem.baseline, steady=True)
        learner = ConservativeLinearUCB(2, alpha=1.0, sigma=steady.sigma, bound=steady.bound)
        run = simulate_linear(steady, SamplePath(learner, alpha=alpha), 60, seed)
        assert evaluate(run, steady, alpha, condition="sample path").violations == 0
        assert run.rounds - run.baseline_rounds > 5


def worst_by_search(gained, sigma, delta, first):
    n = np.arange(max(first, 1), 200_000, dtype=float)
    luck = sigma * np.sqrt((n + 30) * (np.log((n + 30) / 30) + 2 * math.log(1 / delta)))
    return float((n * gained - luck).min())


@pytest.mark.parametrize(
    ("alpha", "sigma", "delta"), [(0.1, 0.5, 0.05), (0.5, 0.5, 0.3), (0.9, 0.1, 0.01), (0.02, 0.2, 0.5)]
)
def test_a_noisy_baseline_is_covered_at_its_worst_moment(alpha, sigma, delta):
    agent = SamplePath(Says([1]), alpha=alpha, baseline_mean=0.6, sigma=sigma, delta=delta)
    for own in (0, 3, 100, 5000):
        agent.own, agent.others, agent.surplus = own, 40.0, 1e9
        expected = 40.0 - (1 - alpha) * 0.6 + worst_by_search(alpha * 0.6, sigma, delta, own + 1)
        assert agent._after(0.6) == pytest.approx(expected, abs=1e-9)
        agent.surplus = 0.1  # the condition after this very round
        assert agent._after(0.6) == pytest.approx(min(expected, 0.1 - (1 - alpha) * 0.6), abs=1e-9)


def breaks(sigma, seed, rounds=150):
    """Whether the condition fails from the first round on that leaves a baseline of 0 or 1; other arms pay nothing."""
    rng = np.random.default_rng([41, seed])
    agent = SamplePath(Says([1]), alpha=0.9, baseline_mean=0.5, sigma=0.5, delta=0.3)
    agent.sigma = sigma
    agent._lowest = agent._search()
    surplus, left = 0.0, False
    for _ in range(rounds):
        arm = agent.act().action
        left |= arm == 1
        reward = float(arm == 0 and rng.random() < 0.5)
        agent.observe(arm, reward)
        surplus += reward - 0.1 * 0.5
        if left and surplus < -1e-9:
            return True
    return not left  # it must have left


def test_a_noisy_baseline_breaks_the_sample_path_no_more_often_than_promised():
    runs, delta = 120, 0.3
    assert sum(breaks(0.5, seed) for seed in range(runs)) <= binom.ppf(1 - 1e-6, runs, delta)  # once in a million
    assert sum(breaks(0.01, seed) for seed in range(runs)) > binom.ppf(1 - 1e-6, runs, delta)  # so the test can fail


# -- the reduction ----------------------------------------------------------------------------------------------------


def test_the_budget_by_hand_and_by_search():
    # sqrt(c n) - n x is largest at n = c / (4 x^2), and is c / (4 x) there
    for c, alpha, mean, gap in ((4, 0.1, 0.5, 0.2), (100, 0.5, 0.4, 0.0), (9, 0.2, 0.25, 0.1)):
        x = alpha * mean + gap
        found = budget_needed(lambda n, c=c: np.sqrt(c * n), alpha=alpha, baseline_mean=mean, gap=gap, rounds=10_000)
        best = max(math.sqrt(c * n) - n * x for n in range(1, 10_001))
        assert found.budget == pytest.approx(best) and found.budget == pytest.approx(c / (4 * x), rel=1e-2)
        assert found.baseline_rounds == math.ceil(best / (alpha * mean))
        assert math.sqrt(c * found.after) - found.after * x == pytest.approx(best)
    assert budget_needed(lambda n: 0 * n, alpha=0.1, baseline_mean=0.5) == (0.0, 0, 1)
    wrong = {"alpha": 0.0, "baseline_mean": -1.0, "gap": -0.1}
    with pytest.raises(InvalidInput) as caught:
        budget_needed(lambda n: n * math.inf, **wrong)
    assert [fault.split()[0] for fault in caught.value.faults] == ["alpha", "baseline_mean", "gap", "regret:"]


def test_the_regret_bound_of_ucb_is_the_worst_way_to_spread_rounds_over_arms():
    def width(s, others, delta):
        return min(1.0, 2 * math.sqrt(2 * math.log(others * s**3 / delta) / s)) if s else 1.0

    for arms, delta, n in ((2, 0.9, 9), (3, 0.9, 7), (2, 0.12, 60), (3, 0.2, 40)):
        worst = max(
            sum(width(s, max(arms - 1, 1), delta) for times in spread for s in range(times))
            for spread in product(range(n + 1), repeat=arms)
            if sum(spread) == n
        )
        bound = regret_of_ucb(arms, delta)(np.array([float(n)]))[0]
        assert worst <= bound + 1e-12 and (bound == pytest.approx(worst) or (arms - 1) / delta < 8)
    far = regret_of_ucb(2, 0.05, 3.0)(np.array([2000.0]))[0]
    assert far == pytest.approx(3 * 2 * sum(width(s, 1, 0.05) for s in range(1000)))


def test_the_regret_of_ucb_is_above_its_bound_no_more_often_than_promised():
    runs, delta, above = 20, 0.3, 0
    for seed in range(runs):
        rng = np.random.default_rng([42, seed])
        arms = BernoulliArms(rng.choice([0.1, 0.5, 0.9, rng.random()], 3))
        run = simulate_arms(arms, ConservativeUCB(3, alpha=1.0, confidence=wu, delta=delta, pooled=False), 150, seed)
        bound = regret_of_ucb(3, delta)(np.arange(1.0, 151))
        above += bool(np.any(evaluate(run, arms, 0.1).expected_regret > bound + 1e-9))
    assert above <= binom.ppf(1 - 1e-6, runs, delta)  # once in a million


def test_the_reduction_is_safe_and_spends_all_it_may_on_an_algorithm_that_regrets_what_it_promised():
    """Arm 1 earns nothing where the baseline is best: the regret of n rounds is exactly n times the baseline's mean."""
    for alpha, mean in ((0.25, 0.5), (0.5, 0.75), (0.125, 1.0)):
        arms = BernoulliArms([mean, 0.0], steady=True)
        linear = lambda n, mean=mean: n * mean  # noqa: E731
        run = simulate_arms(arms, Reduction(Says([1]), regret=linear, alpha=alpha, baseline_mean=mean), 64)
        found = evaluate(run, arms, alpha)
        assert found.margin.min() == 0.0  # dyadic numbers: exact
        assert run.roles.count("optimistic") == int(64 * alpha)
        budgets = np.array([decision.budget for decision in run.decisions])
        assert budgets == pytest.approx(np.append(0, found.margin[:-1]), abs=0)


@pytest.mark.parametrize("checkpoints", [None, 10])
def test_the_reduction_keeps_the_condition_if_the_regret_is_bounded(checkpoints):
    explored = 0
    for seed in range(60):
        rng = np.random.default_rng([43, seed])
        n, alpha = int(rng.integers(2, 5)), float(rng.choice([0.05, 0.3, 0.9]))
        arms = BernoulliArms(np.append(rng.uniform(0.2, 1), rng.random(n - 1)))
        script = rng.integers(0, n, 80).tolist()
        exact = np.append(0, np.cumsum(arms.means.max() - arms.means[np.resize(script, 200)]))
        told = {"baseline_mean": float(arms.means[0]), "checkpoints": checkpoints, "allowance": 0.1}
        agent = Reduction(Says(script, n), regret=lambda k, exact=exact: exact[k.astype(int)], alpha=alpha, **told)
        run = simulate_arms(arms, agent, 100, seed)
        assert evaluate(run, arms, alpha, allowance=0.1, checkpoints=checkpoints).violations == 0
        explored += run.rounds - run.baseline_rounds
    assert explored > 300


def test_with_features_the_reduction_counts_what_each_baseline_earns():
    problem = linear_contextual(2, 4, seed=1, contexts=50)
    learner = ConservativeLinearUCB(2, alpha=1.0, sigma=problem.sigma, bound=problem.bound)
    agent, rng, saved = Reduction(learner, regret=lambda n: 0.2 * n, alpha=0.3), np.random.default_rng(0), 0.0
    for t in range(60):
        features, b, mean = problem.context(t)
        decision, wish = agent.act(features, b, mean), learner.act(features, b, mean).action
        after = saved + 0.3 * mean - 0.2 * (agent.obeyed + 1)
        assert abs(after) < 1e-9 or decision.action == (wish if after >= 0 else b)
        saved += 0.3 * mean
        agent.observe(problem.draw(rng, t, decision.action))
    assert 10 < agent.obeyed < 60


def test_any_algorithm_is_obeyed_where_conservative_ucb_would_be_and_told_what_it_asked_for():
    obeyed = 0
    for seed in range(20):
        rng = np.random.default_rng([44, seed])
        arms, around, alpha = random_bandit(rng)
        b, n, mean = arms.baseline, arms.n_arms, float(arms.means[arms.baseline])
        told = {"baseline": b, "baseline_mean": mean, "confidence": around, "alpha": alpha, "allowance": 0.2}
        learner, expected = Says(rng.integers(0, n, 30).tolist(), n, b), []
        agent, twin = AnyBandit(n, learner=learner, **told), ConservativeUCB(n, **told)
        for _ in range(30):
            lower, upper = twin._bounds()
            wish, decision = learner.act(), agent.act()
            after = sum(twin._proved(lower, upper, wish).values())
            if abs(after) > 1e-9:
                assert decision.action == (wish if after >= 0 else b)
            reward = arms.draw(rng, decision.action)
            twin.act = lambda decision=decision: decision  # it counts whatever is played
            twin.observe(decision.action, reward)
            agent.observe(decision.action, reward)
            expected += [(decision.action, reward)] if decision.action == wish else []
            assert learner.told == expected
        run = simulate_arms(arms, AnyBandit(n, learner=Says(learner.arms, n, b), **told), 40, seed)
        assert evaluate(run, arms, alpha, allowance=0.2).violations == 0
        obeyed += run.roles.count("optimistic")
    assert obeyed > 100


def test_any_algorithm_with_features_is_safe_and_told_what_it_asked_for():
    for seed in range(6):
        problem, learner = linear_contextual(2, 4, seed=seed, noise=QUIET), Shows()
        options = {"dimension": 2, "sigma": problem.sigma, "bound": problem.bound, "alpha": 0.5, "delta": 1e-6}
        agent, rng, told, played = AnyLinearBandit(learner=learner, **options), np.random.default_rng(seed), [], []
        for t in range(80):
            shown = problem.context(t)
            wish, decision = learner.act(*shown), agent.act(*shown)
            assert decision.action in (wish, shown[1])
            reward = problem.draw(rng, t, decision.action)
            agent.observe(reward)
            told += [reward] if decision.action == wish else []
            played.append(decision.action)
            assert learner.told == told
        run = BanditRun([], np.array(played), np.zeros(80))
        assert evaluate(run, problem, 0.5).violations == 0 and len(told) > 20


@pytest.mark.first(2)
def test_no_agent_that_keeps_the_condition_plays_the_baseline_less_often_than_its_regret_demands():
    for seed in range(6):
        arms, alpha = BernoulliArms([0.5, 0.1, 0.3, 0.7]), 0.2
        for agent in (
            ConservativeUCB(4, alpha=alpha, baseline_mean=0.5),
            SafeSetUCB(4, alpha=alpha),
            SamplePath(ConservativeUCB(4, alpha=1.0), alpha=alpha, baseline_mean=0.5, sigma=0.5),
        ):
            run = simulate_arms(arms, agent, 300, seed)
            found = evaluate(run, arms, alpha)
            others = np.cumsum(run.arms != 0)
            regret = np.cumsum(np.where(run.arms != 0, 0.7 - arms.means[run.arms], 0.0))
            for t in np.flatnonzero(found.margin >= 0):
                own = t + 1 - others[t]
                assert own * alpha * 0.5 >= regret[t] - others[t] * (alpha * 0.5 + 0.2) - 1e-9


# -- rules that all agents keep ----------------------------------------------------------------------------------------


ARMS = {
    "ConservativeUCB": lambda: ConservativeUCB(3, alpha=0.4, baseline_mean=0.5),
    "SafeSetUCB": lambda: SafeSetUCB(3, alpha=0.4, baseline_mean=0.5, checkpoints=5),
    "StageWiseUCB": lambda: StageWiseUCB(3, alpha=0.4, baseline_mean=0.5, seed=2),
    "StageWiseUCB, unknown": lambda: StageWiseUCB(3, alpha=0.4),
    "AnyBandit": lambda: AnyBandit(3, learner=Says([1, 2, 0], 3), alpha=0.4, baseline_mean=0.5, allowance=1.0),
    "SamplePath": lambda: SamplePath(ConservativeUCB(3, alpha=1.0), alpha=0.4, baseline_mean=0.5),
    "SamplePath, noisy": lambda: SamplePath(ConservativeUCB(3, alpha=1.0), alpha=0.9, baseline_mean=0.5, sigma=0.5),
    "Reduction": lambda: Reduction(Says([1, 2, 0], 3), regret=np.sqrt, alpha=0.9, baseline_mean=0.5),
}
SHOP = {"dimension": 2, "alpha": 0.4, "sigma": 0.5, "bound": 1.0}
FEATURES = {
    "ConservativeLinearUCB": lambda: ConservativeLinearUCB(**SHOP),
    "SafeSetLinearUCB": lambda: SafeSetLinearUCB(**SHOP),
    "StageWiseLinearUCB": lambda: StageWiseLinearUCB(**SHOP, seed=1),
    "StageWiseLinearUCB, sampling": lambda: StageWiseLinearUCB(**SHOP, sampling=True),
    "AnyLinearBandit": lambda: AnyLinearBandit(learner=Shows(), allowance=1.0, **SHOP),
    "SamplePath": lambda: SamplePath(ConservativeLinearUCB(**SHOP | {"alpha": 1.0}), alpha=0.4),
    "Reduction": lambda: Reduction(ConservativeLinearUCB(**SHOP | {"alpha": 1.0}), regret=np.sqrt, alpha=0.4),
}


@pytest.mark.parametrize("name", ARMS)
def test_every_agent_keeps_the_rules(name):
    check_bandit(ARMS[name], BernoulliArms([0.5, 0.2, 0.8], steady=name == "SamplePath"), rounds=40)


@pytest.mark.parametrize("name", FEATURES)
def test_every_agent_with_features_keeps_the_rules(name):
    shop = linear_contextual(2, 4, seed=1)
    steady = name == "SamplePath"
    check_bandit(FEATURES[name], LinearContextual(shop.theta, shop.features, shop.baseline, steady=steady), rounds=40)


def test_the_check_of_the_rules_finds_what_breaks_them():
    class Forgets(ConservativeUCB):
        def load_state_dict(self, state):
            return self

    class Moody(ConservativeUCB):
        def act(self):
            self.counts.visits[0] += 1
            return super().act()

    class Deaf(ConservativeUCB):
        def observe(self, arm, reward):
            super().observe(self.act().action, min(max(float(np.nan_to_num(reward)), 0.0), 1.0))

    for kind in (Forgets, Moody, Deaf):
        with pytest.raises(AssertionError, match="round"):
            check_bandit(lambda kind=kind: kind(3, alpha=0.4), BernoulliArms([0.5, 0.2, 0.8]), rounds=30)


@pytest.mark.parametrize("name", ["SamplePath", "Reduction"])
def test_a_baseline_that_does_not_pay_what_was_declared_is_played_for_ever(name):
    if name == "SamplePath":
        agent = SamplePath(Says([1]), alpha=0.5, baseline_mean=0.5)
    else:
        agent = Reduction(Says([1]), regret=np.sqrt, alpha=0.1, baseline_mean=0.5, sigma=0.05)
    for _ in range(40):
        arm = agent.act().action
        agent.observe(arm, 0.4 if arm == 0 else 1.0)
    assert "0.1 a round less" in agent.contradictions[0]
    assert agent.act().action == 0 and "declared" in agent.act().reason


def test_what_cannot_be_is_refused_with_every_fault():
    with pytest.raises(InvalidInput) as caught:
        SamplePath(Says([1]), alpha=2.0, least=math.nan, delta=0.0, sigma=-1.0)
    told = " ".join(caught.value.faults)
    assert all(word in told for word in ("alpha 2.0", "least nan", "delta 0.0", "sigma -1.0", "baseline_mean None"))
    with pytest.raises(InvalidInput, match="int has no act"):
        SamplePath(3, alpha=0.5, baseline_mean=0.5)
    with pytest.raises(InvalidInput, match="pay its mean each time"):
        SamplePath(ConservativeLinearUCB(**SHOP), alpha=0.5, sigma=0.5)
    with pytest.raises(InvalidInput, match="tell the mean of each round"):
        SamplePath(ConservativeLinearUCB(**SHOP), alpha=0.5, baseline_mean=0.5)
    with pytest.raises(InvalidInput, match="regret must be a function"):
        Reduction(Says([1]), regret=3.0, alpha=0.5, baseline_mean=0.5)
    with pytest.raises(InvalidInput, match="a share alpha of it has no meaning"):
        SamplePath(Says([1]), alpha=0.5, baseline_mean=0.0)
    with pytest.raises(InvalidInput, match="share alpha"):
        StageWiseUCB(2, alpha=0.5, baseline_mean=0.0)
    with pytest.raises(InvalidInput, match="least inf"):
        StageWiseLinearUCB(**SHOP, least=math.inf)
    agent = SamplePath(Says([1]), alpha=0.5, baseline_mean=0.5, allowance=9.0)
    with pytest.raises(SurefootedError, match="no round to observe"):
        agent.observe(1, 0.5)
    assert agent.act().action == 1
    for outcome, word in (((1, -0.1), "below least"), ((0, 0.5), "asked for arm 1"), ((1, math.nan), "not finite")):
        with pytest.raises(InvalidInput, match=word):
            agent.observe(*outcome)
    assert (agent.t, agent.surplus, agent.learner.told) == (0, 9.0, [])
    agent.observe(reward=0.75, arm=1)  # by name, in any order
    assert agent.learner.told == [(1, 0.75)]
    linear = SamplePath(ConservativeLinearUCB(**SHOP), alpha=0.5)
    for shown in (([[1.0, 0.0]], 0, None), ([[1.0, 0.0]], -1, 0.5), ([[1.0, 0.0, 0.0]], 0, 0.5), ()):
        with pytest.raises(InvalidInput):
            linear.act(*shown)
    with pytest.raises(InvalidInput, match="proposes 'left'"):
        SamplePath(Says(["left"]), alpha=0.5, baseline_mean=0.5).act()


def test_an_algorithm_that_cannot_be_saved_can_play():
    class Stubborn:
        n_arms, baseline = 2, 0

        def act(self):
            return 1

        def observe(self, arm, reward):
            pass

    agent = SamplePath(Stubborn(), alpha=0.5, baseline_mean=0.5)
    run = simulate_arms(BernoulliArms([0.5, 0.7], steady=True), agent, 50)
    assert run.roles.count("optimistic") > 20
    with pytest.raises(SurefootedError, match="Stubborn has no state_dict"):
        agent.state_dict()


def test_states_of_other_guards_are_refused():
    agent = SamplePath(ConservativeUCB(2, alpha=1.0), alpha=0.5, baseline_mean=0.5)
    state = pickle.loads(pickle.dumps(agent.state_dict()))
    other = SamplePath(ConservativeUCB(2, alpha=1.0, delta=0.1), alpha=0.5, baseline_mean=0.5)
    with pytest.raises(InvalidInput, match=r"learner, delta: 0\.05 in the state, 0.1 in this agent"):
        other.load_state_dict(state)
    one, two = (Reduction(Says([1]), regret=regret_of_ucb(2, d), alpha=0.5, baseline_mean=0.5) for d in (0.1, 0.2))
    with pytest.raises(InvalidInput, match="regret"):
        two.load_state_dict(one.state_dict())
