"""The bound from all returns: by its definition, its rate, what CUCB-VI makes of it, and who has which share of δ."""

import numpy as np
import pytest
from scipy.stats import binom

import adversarial_episodes as nasty
from surefooted import solve
from surefooted.agents.cucbvi import CUCBVI
from surefooted.agents.euler import EULERLearner
from surefooted.certificates.episodes import EpisodeCertificate, Pooling
from surefooted.certificates.pooled import PooledReturns
from surefooted.certificates.shares import share
from surefooted.errors import InvalidInput
from surefooted.evaluation import margins as oracle
from surefooted.problems.gridworld import gridworld
from surefooted.sets.confidence import likelihood
from surefooted.simulation.playing import simulate, simulate_episodes
from surefooted.tables.baseline import Baseline
from surefooted.tables.policy import Policy


def known(problem):
    return Baseline(problem.baseline, values=solve.policy_values(problem.mdp, problem.baseline, problem.horizon))


# -- the bound --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_is_its_definition_with_guesses_made_before_the_outcome(seed):
    rng = np.random.default_rng([5, seed])
    highest, delta, most = float(rng.uniform(0.1, 3)), float(rng.choice([0.01, 0.3])), 4.0
    pooled, guesses, returns, recent = PooledReturns(highest, delta), [], [], {}
    for _ in range(80):
        place, first = int(rng.integers(3)), float(rng.uniform(0, most))
        earned = float(rng.choice([0.0, most, rng.uniform(0, most)]))
        guesses.append(min(recent.get(place, first), highest))
        returns.append(earned)
        pooled.add(earned, pooled.guess(place, first), place)
        recent[place] = recent.get(place, guesses[-1])
        recent[place] += 0.2 * (earned - recent[place])
        exact = nasty.mixture(returns, guesses, highest, delta)
        assert exact - 1e-8 * (1 + exact) <= pooled.lower <= exact + 1e-10 * (1 + exact)


def test_the_bound_is_wrong_at_some_time_no_more_often_than_promised():
    """A disaster is rare, a great success is rare, or both ends of the range are equally likely."""
    delta, runs, most = 0.2, 400, 10.0
    for which, p in enumerate((0.97, 0.03, 0.5)):
        failures = 0
        for run in range(runs):
            rng = np.random.default_rng([which, run])
            pooled, wrong = PooledReturns(7.0, delta), False
            for k, earned in enumerate(most * (rng.random(60) < p)):
                pooled.add(float(earned), pooled.guess(0, 7.0), 0)
                wrong = wrong or pooled.lower > most * p * (k + 1)
            failures += wrong
        assert failures <= binom.ppf(1 - 1e-6, runs, delta)  # at rate delta: exceeded once in a million


def test_of_episodes_that_earn_nothing_nothing_is_proved():
    pooled = PooledReturns(1.0, 0.1)
    for _ in range(10):
        pooled.add(0.0, pooled.guess(0, 5.0), 0)
    assert pooled.lower == 0.0


def test_a_restored_bound_goes_on_exactly():
    pooled = PooledReturns(1.0, 0.1)
    for k in range(20):
        pooled.add(k % 3 / 2, pooled.guess(k % 2, 0.5), k % 2)
    other = PooledReturns.from_state_dict(pooled.state_dict())
    for one in (pooled, other):
        one.add(0.7, one.guess(1, 0.5), 1)
    assert other.lower == pooled.lower and other.recent == pooled.recent


# -- the certificate --------------------------------------------------------------------------------------------------


def many_good_episodes(n=40, bound=0.0):
    certificate = EpisodeCertificate(1, 0.1, np.array([1.0]), pooling=Pooling(0.1, 2.0))
    for _ in range(n):
        certificate.explored(1, 0, bound)
        certificate.earned(1.0)
    return certificate


def test_a_bound_from_returns_stays_proved_and_later_episodes_are_added_at_what_the_set_proves():
    certificate = many_good_episodes()
    proved = certificate.proved
    assert 30 < proved < 40  # 40 episodes that earned 1, less what 1 - δ costs
    certificate.explored(2, 0, 0.25)
    assert certificate.proved == pytest.approx(proved + 0.25, abs=1e-12)  # a deposit: the rest of it is at stake
    certificate.earned(0.0)  # worse than its bound: the bound from all returns falls, the earlier one stays
    assert certificate.proved == pytest.approx(proved + 0.25, abs=1e-12)
    certificate.review([1, 2], np.array([[0.0], [0.5]]))
    assert certificate.proved == pytest.approx(proved + 0.5, abs=1e-12)
    certificate.review([1, 2], np.array([[0.99], [0.5]]))  # now the set proves more of all
    assert certificate.proved == pytest.approx(40 * 0.99 + 0.5, abs=1e-12)


def test_what_returns_prove_outlives_a_set_that_is_no_longer_believed():
    certificate = many_good_episodes(bound=0.5)
    certificate.explored(2, 0, 0.9)
    before = certificate.proved
    certificate.restart([1, 2], np.zeros((2, 1)))
    assert certificate.proved == pytest.approx(before - 0.9, abs=1e-12)


def test_a_guess_is_fixed_when_the_episode_begins():
    certificate = EpisodeCertificate(1, 0.1, None, pooling=Pooling(0.1, 2.0))
    certificate.tighten_baseline(np.zeros(1), np.ones(1))
    certificate.explored(1, 0, 0.0)
    certificate.tighten_baseline(np.zeros(1), np.array([0.1]))  # learnt while the episode was under way
    certificate.earned(0.1)
    assert certificate.pooled.means.bets.guessed[0] == 1.0


def test_without_pooling_returns_prove_nothing():
    certificate = EpisodeCertificate(1, 0.1, np.array([1.0]))
    for _ in range(40):
        certificate.explored(1, 0, 0.25)
        certificate.earned(1.0)
    assert certificate.proved == 10.0


# -- CUCB-VI ----------------------------------------------------------------------------------------------------------


@pytest.mark.seeds(1)
@pytest.mark.parametrize("seed", range(3))
def test_no_promise_is_broken_and_every_budget_is_what_its_definition_says(seed):
    tally = nasty.run_campaign(60, seed, share=nasty.SHARE)
    assert not tally.violations, tally.violations[:5]
    assert tally.explored > tally.episodes / 4
    assert tally.explored_unknown > tally.episodes / 20
    assert abs(tally.excess) < 1e-9
    assert tally.pooled == 120 and tally.missed <= binom.ppf(1 - 1e-6, 120, nasty.SHARE)  # once in a million


@pytest.mark.slow
def test_with_honest_sets_on_nasty_problems_it_explores_more_and_violates_nothing():
    """Learners that mean harm, 400 episodes; misses are counted against δ, with a false alarm once in a million."""
    runs, broken, explored = 40, 0, {True: 0, False: 0}
    for i in range(runs):
        rng = np.random.default_rng([44, i])
        case = nasty.a_case(rng, nasty.KINDS[i % len(nasty.KINDS)])
        starts, seed, alpha = nasty.some_starts(rng, case, 400), int(rng.integers(2**31)), float(rng.choice([0.1, 0.4]))
        for pooled in (True, False):
            options = {"stage_dependent": case.mdp.stages > 1, "confidence": likelihood}
            learner = nasty.Mischief(case.space, case.horizon, delta=0.1 if pooled else 0.2, **options)
            learner.harm(case, 3, i % 2 == 0).watch(case, False)
            settings = {"alpha": alpha, "learner": learner} | ({"pooled": True, "delta": 0.2} if pooled else {})
            settings["allowance"] = nasty.spare(case, i % 3 > 0)
            agent = CUCBVI(case.space, case.horizon, baseline=case.baseline(i % 3 > 0), **settings)
            run = simulate_episodes(case.mdp, agent, starts, seed)
            margin = oracle.evaluate_episodes(run, case.mdp, case.policy, alpha).margin
            budgets = np.array([decision.budget for decision in run.decisions])
            wrong = margin.min() < -1e-9 or np.any(budgets > np.r_[0.0, margin[:-1]] + 1e-9)
            broken += bool(wrong) and pooled
            explored[pooled] += int(run.explored.sum())
    assert broken <= binom.ppf(1 - 1e-6, runs, 0.2)
    assert explored[True] > explored[False]


@pytest.mark.parametrize(("slip", "is_known", "most"), [(0.0, True, 600), (0.1, True, 650), (0.0, False, 1000)])
def test_on_the_gridworld_it_soon_leaves_the_baseline(slip, is_known, most):
    problem = gridworld(slip=slip)
    baseline = known(problem) if is_known else Baseline(problem.baseline)
    agent = CUCBVI(problem.space, problem.horizon, baseline=baseline, alpha=0.05)
    run = simulate(problem, agent, episodes=3000, seed=1)
    assert oracle.evaluate(run, problem, 0.05).violations == 0
    assert run.baseline_episodes <= most


def test_the_shares_of_delta_add_up_to_it():
    problem = gridworld()
    size, common = (problem.space, problem.horizon), {"baseline": known(problem), "alpha": 0.1}
    agent = CUCBVI(*size, **common)
    assert (agent.delta, agent.learner.delta, agent.pooling.delta) == (0.05, 0.025, 0.025)
    agent = CUCBVI(*size, delta=0.2, **common)
    assert (agent.delta, agent.learner.delta, agent.pooling.delta) == (0.2, 0.1, 0.1)
    for off in ({"pooled": False}, {"reevaluate": False}, {"bounded": False}):
        agent = CUCBVI(*size, delta=0.2, **off, **common)
        assert (agent.delta, agent.learner.delta, agent.pooling) == (0.2, 0.2, None), off
    learner = EULERLearner(*size, delta=0.01)
    agent = CUCBVI(*size, learner=learner, **common)  # nothing is left of its δ
    assert (agent.delta, agent.pooling) == (0.01, None)
    agent = CUCBVI(*size, learner=learner, delta=0.05, **common)
    assert agent.delta == 0.05 and agent.pooling.delta == pytest.approx(0.04)


REFUSED = {
    "unbounded": ({"pooled": True, "bounded": False}, "needs bounded rewards"),
    "a learner without a delta for both": ({"pooled": True, "learner": 0.1}, "give a delta for both"),
    "no more than the learner's": ({"delta": 0.1, "learner": 0.1}, "more than the learner's 0.1"),
    "not used": ({"delta": 0.2, "learner": 0.1, "pooled": False}, "as often as its bounds, 0.1"),
    "delta": ({"delta": 1.5}, "delta 1.5 must lie strictly between 0 and 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_delta_that_cannot_be_shared_is_refused(name):
    options, words = REFUSED[name]
    problem = gridworld()
    if "learner" in options:
        options = options | {"learner": EULERLearner(problem.space, 10, delta=options["learner"])}
    with pytest.raises(InvalidInput, match=words):
        CUCBVI(problem.space, 10, baseline=known(problem), alpha=0.1, **options)


def test_knowledge_that_is_trusted_during_an_episode_leaves_what_was_earned():
    problem = gridworld()
    agent, rng = CUCBVI(problem.space, 10, baseline=known(problem), alpha=0.5), np.random.default_rng(0)

    def step():
        a = agent.act(agent.state).action
        reward, y = problem.mdp.draw(rng, problem.space.pair(agent.state, a))
        agent.observe(agent.state, a, reward, y)

    while agent.certificate.n_explored < 60:
        agent.begin(problem.start)
        for _ in range(10):
            step()
    while agent.decisions[-1].role == "baseline" or agent.h == 10:
        if agent.h == 10:
            agent.begin(problem.start)
        step()
    agent.trust(None)
    assert agent.certificate.under_way is not None and agent.certificate.since.at_once > 0
    while agent.h < 10:
        step()
    assert agent.certificate.pooled.means.n == agent.certificate.n_explored


def test_a_policy_is_explored_in_one_state_as_in_a_bandit():
    """One state and one step: what is proved of 300 rounds is what a list of them proves."""
    p = nasty.TabularMDP.from_arrays(np.ones((1, 2, 1)), np.array([[0.5, 0.7]]), noise=nasty.Noise("bernoulli"))
    case = nasty.Case("arms", p, Policy.always(p.space, 0), 1)
    agent = CUCBVI(case.space, 1, baseline=case.baseline(True), alpha=0.2)
    run = simulate_episodes(p, agent, np.zeros(300, dtype=np.int64), 3)
    assert run.explored.sum() > 100
    guesses, average = [], 0.5
    for reward in run.rewards[run.explored, 0]:
        guesses.append(min(average, 0.5))
        average += 0.2 * (reward - average)
    exact = nasty.mixture(run.rewards[run.explored, 0], guesses, 0.5, 0.025)
    assert agent.certificate.pooled.lower == pytest.approx(exact, abs=1e-8)


def test_one_rule_shares_delta():
    """(δ, the learner's) and what is used, the set or outcomes or both: the shares never add up to more than δ."""
    assert share(None, None, True, True) == (0.05, 0.025, 0.025)
    assert share(0.2, None, True, False) == (0.2, 0.2, 0.0)
    assert share(0.2, None, False, True) == (0.2, 0.0, 0.2)
    assert share(None, 0.01, True, False) == (0.01, 0.01, 0.0)
    assert share(None, 0.01, False, True) == (0.01, 0.0, 0.01)
    assert share(0.2, 0.01, False, True) == (0.2, 0.0, 0.2)
    assert share(0.2, 0.15, True, True) == pytest.approx((0.2, 0.15, 0.05))
    assert share(0.2, None, False, True).of_learner == 0.2  # its set proves nothing
    for given in ((None, 0.1, True, True), (0.1, 0.1, True, True), (0.2, 0.1, True, False), (1.0, None, True, False)):
        with pytest.raises(InvalidInput, match="delta"):
            share(*given)
