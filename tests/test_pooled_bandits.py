"""Bandits with the bound from all rewards: decisions by the list of rounds, rates on nasty problems."""

import math
import pickle

import numpy as np
import pytest
from scipy.stats import binom

import adversarial_episodes as nasty
from surefooted.bandits import (
    BernoulliArms,
    ConservativeLinearUCB,
    ConservativeUCB,
    evaluate,
    linear_contextual,
    simulate_arms,
    simulate_linear,
)
from surefooted.certificates.pooled import most_luck
from surefooted.errors import InvalidInput
from surefooted.tables.reward_noise import Noise
from test_bandits import Around, linear_agent, random_arms, random_contextual


def test_most_luck_by_hand_and_its_rate():
    assert most_luck(70, 2.0, 0.01) == pytest.approx(2 * math.sqrt(100 * (math.log(100 / 30) + 2 * math.log(100))))
    delta, runs, rounds = 0.2, 2000, 300
    for which, noise in enumerate(
        (lambda rng: rng.standard_normal(rounds), lambda rng: rng.choice([-1.0, 1.0], rounds))
    ):
        limits = np.array([most_luck(n + 1, 1.0, delta) for n in range(rounds)])
        sums = np.array([np.cumsum(noise(np.random.default_rng([which, run]))) for run in range(runs)])
        failures = int(np.sum(np.any(sums > limits, axis=1)))
        assert failures <= binom.ppf(1 - 1e-6, runs, delta)  # at rate delta: exceeded once in a million
        assert failures > 0  # it is not loose: half the variance would fail far more often
        assert np.sum(np.any(sums > limits / 2, axis=1)) > binom.ppf(1 - 1e-6, runs, delta)


class ByTheList:
    """What is proved of rounds with other arms, from the list of all rounds."""

    def __init__(self, agent, r_max):
        self.agent, self.r_max = agent, r_max
        self.arms, self.rewards, self.guesses, self.recent, self.highest = [], [], [], None, None
        self.at_once, self.covered = 0.0, 0

    def proved(self, lower, more=()):
        rest = [lower[arm] for arm in [*self.arms[self.covered :], *more]]
        return max(sum(lower[arm] for arm in [*self.arms, *more]), self.at_once + sum(rest))

    def add(self, arm, reward, high, lower):
        if self.highest is None:
            self.highest = min(max(high, 1e-3 * self.r_max), self.r_max)
            self.recent = min(high, self.highest)
        self.guesses.append(min(self.recent, self.highest))
        self.arms.append(arm)
        self.rewards.append(reward)
        self.recent += 0.2 * (reward - self.recent)
        bound = nasty.mixture(self.rewards, self.guesses, self.highest, self.agent.delta / 2)
        if bound > self.at_once + sum(lower[a] for a in self.arms[self.covered :]):
            self.at_once, self.covered = bound, len(self.arms)


@pytest.mark.parametrize("is_known", [True, False])
def test_every_decision_is_that_of_the_list_of_rounds(is_known):
    used = 0
    for seed in range(8):
        rng = np.random.default_rng([21, seed])
        arms, alpha = random_arms(rng), float(rng.choice([0.1, 0.4, 0.8]))
        b, n = arms.baseline, arms.n_arms
        mean = float(arms.means[b]) if is_known else None
        confidence = Around(arms.means, 3.0, rng.random(n))
        spare = 1e-12 if mean == 0 else 0.0  # a share of nothing is refused without an allowance
        told = {"baseline": b, "baseline_mean": mean, "allowance": spare}
        agent = ConservativeUCB(n, alpha=alpha, delta=0.5, confidence=confidence, **told)
        book, kept, played = ByTheList(agent, 1.0), 0, 0
        for _ in range(120):
            lower, upper = agent.bounds()
            decision = agent.act()
            factor = kept - (1 - alpha) * played
            margin = book.proved(lower) + factor * (lower if factor >= 0 else upper)[b]
            assert decision.budget == pytest.approx(margin, abs=1e-8)
            reward = arms.draw(rng, decision.action)
            agent.observe(decision.action, reward)
            kept, played = kept + (decision.action == b), played + 1
            if decision.action != b:
                book.add(decision.action, reward, float(upper[b]), lower)
        used += book.at_once > 0
    assert used > 2


@pytest.mark.parametrize("mode", ["known", "unknown", "mixed"])
def test_every_linear_budget_is_that_of_the_list_of_rounds(mode):
    used = 0
    for seed in range(8):
        rng = np.random.default_rng([22, seed])
        problem, alpha, delta = random_contextual(rng), float(rng.choice([0.1, 0.5])), 0.2
        agent = linear_agent(problem, alpha=alpha, delta=delta, pooled=True)
        zero = np.zeros(problem.dimension)
        known, w, z, earned, n = 0.0, zero, zero, 0.0, 0  # of all rounds
        at = (0.0, zero)  # the best bound from rewards, and z then
        for t in range(60):
            features, b, mean = problem.context(t)
            told = mode == "known" or (mode == "mixed" and bool(rng.random() < 0.5))
            decision = agent.act(features, b, mean if told else None)
            bounds = agent.ellipsoid.bounds

            def low(vector, bounds=bounds):
                return float(bounds(np.array([vector]))[0][0])

            margin = max(known + low(w), at[0] + known + low(w - at[1]))
            assert decision.budget == pytest.approx(margin, abs=1e-8)
            reward, arm = problem.draw(rng, t, decision.action), decision.action
            agent.observe(reward)
            share = alpha if arm == b else alpha - 1
            known += share * mean if told else 0.0
            w = w + (features[arm] if arm != b else zero) + (zero if told else share * features[b])
            if arm != b:
                n, earned, z = n + 1, earned + reward, z + features[arm]
                luck = problem.sigma * math.sqrt((n + 30) * (math.log((n + 30) / 30) + 2 * math.log(2 / delta)))
                if earned - luck + low(w - z) > at[0] + low(w - at[1]):
                    at = (earned - luck, z)
        used += at[0] != 0.0
    assert used > 2


@pytest.mark.slow
def test_what_is_proved_on_nasty_arms_fails_no_more_often_than_promised():
    """Rewards at both ends of their range; a false alarm once in a million."""
    runs, broken, delta = 60, 0, 0.3
    for seed in range(runs):
        rng = np.random.default_rng([23, seed])
        means = np.clip(rng.choice([0.02, 0.98, rng.random()], size=3) + 0.02 * rng.random(3), 0, 1)
        arms, alpha = BernoulliArms(means, int(rng.integers(3))), float(rng.choice([0.05, 0.3]))
        mean = float(means[arms.baseline]) if seed % 2 else None
        agent = ConservativeUCB(3, alpha=alpha, baseline=arms.baseline, baseline_mean=mean, delta=delta)
        run = simulate_arms(arms, agent, 150, seed)
        margin = evaluate(run, arms, alpha).margin
        budgets = np.array([decision.budget for decision in run.decisions])
        broken += bool(margin.min() < -1e-9 or np.any(budgets > np.r_[0.0, margin[:-1]] + 1e-9))
    assert broken <= binom.ppf(1 - 1e-6, runs, delta)


def test_what_is_proved_with_features_fails_no_more_often_than_promised():
    runs, broken, delta = 60, 0, 0.3
    for seed in range(runs):
        rng = np.random.default_rng([24, seed])
        problem, alpha = random_contextual(rng), float(rng.choice([0.05, 0.3]))
        agent = linear_agent(problem, alpha=alpha, delta=delta, pooled=True)
        run = simulate_linear(problem, agent, 150, seed, baseline_known=bool(seed % 2))
        margin = evaluate(run, problem, alpha).margin
        budgets = np.array([decision.budget for decision in run.decisions])
        broken += bool(margin.min() < -1e-9 or np.any(budgets > np.r_[0.0, margin[:-1]] + 1e-9))
    assert broken <= binom.ppf(1 - 1e-6, runs, delta)  # a false alarm once in a million


def test_with_arms_that_are_hard_to_tell_apart_it_leaves_the_baseline_sooner():
    arms, rounds = BernoulliArms([0.5, 0.4, 0.6, 0.55, 0.3]), {}
    for pooled in (True, False):
        run = simulate_arms(arms, ConservativeUCB(5, alpha=0.1, baseline_mean=0.5, pooled=pooled), 1000, seed=1)
        assert evaluate(run, arms, 0.1).violations == 0
        rounds[pooled] = run.baseline_rounds
    assert rounds[True] < 0.6 * rounds[False]


def test_with_features_it_leaves_the_baseline_sooner():
    problem, rounds = linear_contextual(8, 10, seed=2, noise=Noise("uniform", 0.3)), {}
    for pooled in (True, False):
        agent = ConservativeLinearUCB(8, alpha=0.1, sigma=problem.sigma, bound=problem.bound, pooled=pooled)
        run = simulate_linear(problem, agent, 1500, seed=1)
        assert evaluate(run, problem, 0.1).violations == 0
        rounds[pooled] = run.baseline_rounds
    assert rounds[True] < rounds[False]


def test_the_shares_of_delta_add_up_to_it():
    agent = ConservativeUCB(2, alpha=0.5, baseline=1, baseline_mean=0.5, delta=0.2)
    assert agent.shares == (0.2, 0.1, 0.1)
    assert ConservativeUCB(2, alpha=0.5, delta=0.2, pooled=False).shares == (0.2, 0.2, 0.0)
    while agent.pooled is None:
        agent.observe(agent.act().action, 1.0)
    assert agent.pooled.arguments["delta"] == 0.1
    linear = {"alpha": 0.5, "sigma": 0.5, "bound": 1.0, "delta": 0.2}
    assert ConservativeLinearUCB(1, **linear, pooled=True).ellipsoid.delta == 0.1
    assert ConservativeLinearUCB(1, **linear).ellipsoid.delta == 0.2


@pytest.mark.parametrize("kind", ["arms", "linear"])
def test_a_saved_agent_goes_on_exactly_and_another_choice_of_bounds_is_refused(kind):
    problem = BernoulliArms([0.5, 0.4, 0.7]) if kind == "arms" else linear_contextual(2, 4, seed=1)

    def build(pooled=True):
        if kind == "arms":
            return ConservativeUCB(3, alpha=0.5, baseline_mean=0.5, pooled=pooled)
        return linear_agent(problem, alpha=0.5, pooled=pooled)

    def play(agent, rounds, seed):
        rng, chosen = np.random.default_rng(seed), []
        for t in range(rounds):
            decision = agent.act() if kind == "arms" else agent.act(*problem.context(t))
            a = decision.action
            reward = problem.draw(rng, a) if kind == "arms" else problem.draw(rng, t, a)
            agent.observe(a, reward) if kind == "arms" else agent.observe(reward)
            chosen.append((a, decision.budget))
        return chosen

    agent = build()
    play(agent, 150, seed=1)
    assert (agent.pooled.means.n if kind == "arms" else agent.explored) > 10
    other = build().load_state_dict(pickle.loads(pickle.dumps(agent.state_dict())))
    assert play(agent, 50, seed=2) == play(other, 50, seed=2)
    with pytest.raises(InvalidInput, match="pooled: True in the state, False in this agent"):
        build(pooled=False).load_state_dict(agent.state_dict())
