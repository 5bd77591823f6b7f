"""Agents whose baseline was declared wrongly: they find out, say so, and explore nothing any more."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import adversarial
import surefooted as sf
from surefooted.agents import wording
from surefooted.agents.ucbvi import UCBVILearner
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.bandits import BernoulliArms, ConservativeLinearUCB, ConservativeUCB, linear_contextual, simulate_arms
from surefooted.bandits.mean_check import BETS, MeanCheck
from surefooted.problems.problem import Problem
from surefooted.testing import same

BERNOULLI = sf.Noise("bernoulli")
conditions = pytest.mark.parametrize("condition", ["replay", "decisions"])


class LikesTheWorst(UCRL2Learner):
    """Proposes action 1 everywhere."""

    def propose(self, plausible, t):
        return replace(super().propose(plausible, t), policy=sf.Policy.always(self.space, 1))


def two_arms():
    """The baseline earns 0.8, the other action 0.4."""
    mdp = sf.TabularMDP.from_arrays(np.ones((1, 2, 1)), np.array([[0.8, 0.4]]), noise=BERNOULLI)
    return Problem("two arms", mdp, sf.Policy.always(mdp.space, 0), 0)


def agent_on(problem, gain, bias, condition="replay", **options):
    baseline = sf.Baseline(problem.baseline, gain, bias)
    learner = LikesTheWorst(problem.space, **options)
    return sf.CUCRL2(problem.space, baseline=baseline, alpha=0.1, condition=condition, learner=learner, seed=1)


def says_so(agent):
    last = agent.decisions[-1]
    assert last.role == "baseline" and "what was declared is contradicted: " + agent.contradictions[0] in last.reason
    return agent.contradictions


@conditions
def test_a_gain_declared_too_low_is_found_before_the_condition_breaks(condition):
    """True gain 0.8, declared 0.45. Unchecked, more than 29 000 of 30 000 steps violate the condition."""
    problem = two_arms()
    agent = agent_on(problem, 0.45, np.zeros(1), condition)
    run = sf.simulate(problem, agent, 30_000, seed=0)
    assert sf.evaluate(run, problem, alpha=0.1).violations == 0
    assert any("0.45" in sentence for sentence in says_so(agent))
    contradicted_at = next(decision.t for decision in agent.decisions if "contradicted" in decision.reason)
    assert contradicted_at < 300 and agent.explored < 30
    assert np.all(run.pairs[contradicted_at:] == 0)
    agent.trust(None)  # says nothing about the baseline
    assert agent.contradictions and agent.decisions[-1].role == "baseline"


@conditions
def test_a_right_declaration_is_left_alone(condition):
    problem = two_arms()
    agent = agent_on(problem, 0.8, np.zeros(1), condition)
    run = sf.simulate(problem, agent, 30_000, seed=0)
    assert agent.contradictions == [] and agent.explored > 1000
    assert agent.check.steps == 30_000 - np.sum(run.pairs == 1)


@conditions
def test_a_wrong_bias_is_found(condition):
    """At a state that the baseline visits: what it never does cannot be compared."""
    problem = sf.problems.garnet(6, 2, 3, seed=4, noise=BERNOULLI)
    known, bias = adversarial.known(problem), adversarial.known(problem).bias.copy()
    bias[0] += 0.5
    agent = agent_on(problem, known.gain, bias, condition)
    sf.simulate(problem, agent, 5_000, seed=0)
    assert any(sentence.startswith("state 0") for sentence in says_so(agent))


def test_a_log_of_the_baseline_contradicts_it_before_the_first_step():
    problem = two_arms()
    agent = agent_on(problem, 0.45, np.zeros(1))
    rewards = (np.random.default_rng(0).random(500) < 0.8) * 1.0
    zeros = np.zeros(500, dtype=np.int64)
    agent.counts.add_history(zeros, zeros, rewards, zeros)
    agent.begin(0)
    (said,) = says_so(agent)
    assert said.startswith("state 0: gain and bias of the baseline make 0.45, and what was counted allows")


@pytest.mark.parametrize("options", [{"bounded": False}, {"confidence": sf.confidence.simplified_bernstein}])
def test_what_is_not_bounded_or_not_valid_is_not_compared(options):
    problem = two_arms()
    agent = agent_on(problem, 0.45, np.zeros(1), **options)
    assert agent.learner.belief.from_data() is None
    sf.simulate(problem, agent, 3_000, seed=0)
    assert bool(agent.contradictions) == options.get("bounded", True)  # surprises need bounds, not sets


@conditions
def test_live_and_simulated_agents_compare_the_same(condition):
    problem = sf.problems.garnet(6, 2, 3, seed=4, noise=BERNOULLI)
    problem = replace(problem, baseline=adversarial.a_baseline(np.random.default_rng(3), problem.mdp, "randomised"))
    assert not problem.baseline.is_deterministic
    known = adversarial.known(problem)
    wrong = (0.5 * known.gain, known.bias)
    simulated, live = (agent_on(problem, *wrong, condition) for _ in range(2))
    run = sf.simulate(problem, simulated, 400, seed=5)
    live.begin(problem.start)
    s = problem.start
    for pair, r, s_next in zip(run.pairs.tolist(), run.rewards.tolist(), run.next_states.tolist(), strict=True):
        live.observe(s, int(problem.space.pair_action[pair]), r, s_next)
        s = s_next
    assert same(live.state_dict(), simulated.state_dict())


@pytest.mark.parametrize("starts_only", [True, False])
def test_wrong_values_are_found(starts_only):
    problem = sf.problems.garnet(6, 2, 3, seed=4, noise=BERNOULLI)
    problem = replace(problem, horizon=5)
    values = sf.solve.policy_values(problem.mdp, problem.baseline, 5)
    for factor, contradicted in ((1.0, False), (0.5, True)):
        declared = (values[0] if starts_only else values) * factor
        baseline = sf.Baseline(problem.baseline, values=declared)
        agent = sf.CUCBVI(problem.space, 5, baseline=baseline, alpha=0.1)
        sf.simulate(problem, agent, episodes=600, seed=0)
        assert bool(agent.contradictions) == contradicted
        if contradicted:
            assert "values" in says_so(agent)[0] or "value" in says_so(agent)[0]
            found = next(i for i, decision in enumerate(agent.decisions) if "contradicted" in decision.reason)
            assert all(decision.role == "baseline" for decision in agent.decisions[found:])
            again = sf.CUCBVI(problem.space, 5, baseline=baseline, alpha=0.1)
            assert again.load_state_dict(pickle.loads(pickle.dumps(agent.state_dict()))).contradictions


class NeverTheBaseline(UCBVILearner):
    """Proposes action 1 everywhere."""

    def propose(self):
        return sf.Policy.always(self.space, 1)


@pytest.mark.first(1)
@pytest.mark.parametrize("condition", ["replay", "decisions"])
def test_a_baseline_that_looks_too_bad_to_be_played_is_played_from_time_to_time(condition):
    """It earns 0.8 and was declared to earn 0.3. The learner never proposes it, and what it proposes earns 0.6."""
    mdp = sf.TabularMDP.from_arrays(np.ones((1, 2, 1)), np.array([[0.8, 0.6]]), noise=BERNOULLI)
    problem = Problem("two arms", mdp, sf.Policy.always(mdp.space, 0), 0, horizon=1)
    for declared, episodes in ((0.3, 5_000), (0.8, 1_500)):
        baseline = sf.Baseline(problem.baseline, values=np.array([[declared], [0.0]]))
        learner = NeverTheBaseline(problem.space, 1, delta=0.025)
        agent = sf.CUCBVI(mdp.space, 1, baseline=baseline, alpha=0.5, delta=0.05, condition=condition, learner=learner)
        sf.simulate(problem, agent, episodes=episodes, seed=0)
        own = np.cumsum([decision.role == "baseline" for decision in agent.decisions])
        assert np.all(own >= np.sqrt(np.arange(1, episodes + 1)) - 31)
        assert bool(agent.contradictions) == (declared == 0.3)
        if agent.contradictions:
            assert any(decision.reason == wording.SPOT_CHECK for decision in agent.decisions)


@conditions
def test_over_many_steps_too_the_baseline_is_played_from_time_to_time(condition):
    mdp = sf.TabularMDP.from_arrays(np.ones((1, 2, 1)), np.array([[0.8, 0.6]]), noise=BERNOULLI)
    problem = Problem("two arms", mdp, sf.Policy.always(mdp.space, 0), 0)
    baseline, learner = sf.Baseline(problem.baseline, 0.3, np.zeros(1)), LikesTheWorst(mdp.space)
    agent = sf.CUCRL2(mdp.space, baseline=baseline, alpha=0.9, condition=condition, learner=learner)
    sf.simulate(problem, agent, 20_000, seed=0)
    assert says_so(agent) and any(decision.reason == wording.SPOT_CHECK for decision in agent.decisions)


@conditions
def test_spot_checks_of_a_long_run_cost_little_more_than_the_root_of_its_steps(condition):
    mdp = sf.TabularMDP.from_arrays(np.ones((1, 2, 1)), np.array([[0.5, 0.9]]), noise=BERNOULLI)
    problem = Problem("two arms", mdp, sf.Policy.always(mdp.space, 0), 0)
    baseline = sf.Baseline(problem.baseline, 0.5, np.zeros(1))
    agent = sf.CUCRL2(mdp.space, baseline=baseline, alpha=0.5, condition=condition)
    run = sf.simulate(problem, agent, 150_000, seed=0)
    own, n = np.cumsum(run.pairs == 0), np.arange(1, run.steps + 1)
    assert not agent.contradictions and (own[1_000:] <= 2.5 * np.sqrt(n[1_000:])).all()
    heads = [decision.t for decision in agent.decisions if 0 < decision.t < run.steps]
    too_rare = [t for t in heads if (own[t - 1] + 30) ** 2 < t]
    assert too_rare and (run.pairs[too_rare] == 0).all()


# -- bandits ----------------------------------------------------------------------------------------------------------


@pytest.mark.first(1)
@pytest.mark.parametrize("declared", [0.45, 0.95])
def test_a_wrong_mean_of_the_baseline_arm_is_found(declared):
    arms = BernoulliArms([0.8, 0.4, 0.3])
    agent = ConservativeUCB(3, alpha=0.1, baseline_mean=declared)
    run = simulate_arms(arms, agent, 600, seed=0)
    assert f"{declared:g}" in agent.contradictions[0]
    found = next(i for i, decision in enumerate(run.decisions) if "contradicted" in decision.reason)
    assert found < 400 and np.all(run.arms[found:] == 0)
    right = ConservativeUCB(3, alpha=0.1, baseline_mean=0.8)
    simulate_arms(arms, right, 600, seed=0)
    assert right.contradictions == [] and ConservativeUCB(3, alpha=0.1).contradictions == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arms", "linear"])
def test_a_baseline_arm_that_looks_too_bad_is_played_from_time_to_time(kind):
    """It earns 0.8 and was declared to earn 0.3; the other arm earns 0.6."""
    rng, arms, reasons = np.random.default_rng(0), BernoulliArms([0.8, 0.6]), []
    agent = ConservativeUCB(2, alpha=0.5, baseline_mean=0.3)
    if kind == "linear":
        agent = ConservativeLinearUCB(2, alpha=0.9, sigma=0.5, bound=1.0)
    features = [[0.1, 0.0], [0.0, 0.6]]  # nor can the first arm look good: |θ| <= 1
    for _ in range(5_000):
        decision = agent.act() if kind == "arms" else agent.act(features, 0, 0.3)
        reward = arms.draw(rng, decision.action)
        agent.observe(decision.action, reward) if kind == "arms" else agent.observe(reward)
        reasons.append(decision.reason)
        if agent.contradictions:
            break
    assert agent.contradictions and wording.SPOT_CHECK in reasons
    assert type(agent.check).__name__ == ("BaselineCheck" if kind == "arms" else "MeanCheck")


def test_wrong_means_of_contextual_baselines_are_found():
    problem, rng = linear_contextual(dimension=3, arms=5, seed=2), np.random.default_rng(0)
    for off, contradicted in ((0.0, False), (0.3, True)):
        agent = ConservativeLinearUCB(3, alpha=0.1, sigma=problem.sigma, bound=problem.bound)
        for t in range(600):
            features, baseline, mean = problem.context(t)
            decision = agent.act(features, baseline, mean + off)
            if agent.contradictions:
                assert decision.action == baseline and "contradicted" in decision.reason
            agent.observe(problem.draw(rng, t, decision.action))
        assert bool(agent.contradictions) == contradicted
        if contradicted:
            assert "a round less than that" in agent.contradictions[0]


def test_an_e_value_for_sub_gaussian_rewards_by_hand():
    check = MeanCheck(sigma=2.0, bound=0.0, delta=0.05)
    for reward in (1.0, 3.0):
        check.add(reward, 0.5)
    slack = 2 * 1e-6 * 2.0
    terms = [np.exp(b / 2 * (x - slack) - 2 * b**2 / 2) for x in (3.0, -3.0) for b in BETS]
    assert check.log_e_value() == pytest.approx(np.log(np.mean(terms)))


def test_right_sub_gaussian_means_are_called_wrong_no_more_often_than_promised():
    """False alarm of this test: 1e-6, if the promised rate, 0.0999, is attained."""
    from scipy.stats import binom

    rng, alarms, runs = np.random.default_rng(0), 0, 400
    for _ in range(runs):
        check = MeanCheck(sigma=1.0, bound=1.0, delta=0.999)
        for reward in rng.normal(0.3, 1.0, 200).tolist():
            check.add(reward, 0.3)
        alarms += bool(check.found)
    assert 0 < alarms <= binom.ppf(1 - 1e-6, runs, 0.0999)


def test_without_noise_a_wrong_mean_is_found_at_once():
    check = MeanCheck(sigma=0.0, bound=1.0, delta=0.05)
    check.add(0.5, 0.5)
    assert not check.found
    check.add(0.6, 0.5)
    assert check.found and check.restored(check.state_dict()).found == check.found
