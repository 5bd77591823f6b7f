"""Everything is in the user's unit, and α is a share of what the baseline earns in it."""

import copy
import math

import numpy as np
import pytest

import adversarial
import adversarial_money as campaign
import surefooted as sf
from surefooted.agents.ucbvi import UCBVILearner
from surefooted.certificates.tolerance import Tolerance
from surefooted.errors import InvalidInput
from surefooted.problems.problem import Problem
from surefooted.tables.money import Money

DEMAND = np.array([1, 2, 3, 4, 4, 3, 2, 1]) / 20
RANGES = [(-102.0, 181.0), (-400.0, 181.0)]
ALPHA = 0.05


def shop(rewards, horizon=None):
    """A shop's stock of 20 levels, with weekly earnings in euros and an (s, S) rule."""
    costs = {"fixed_cost": 25.0, "unit_cost": 7.0, "holding_cost": 2.0, "price": 30.0, "demand": DEMAND}
    rule = {"order_below": 6, "order_up_to": 14}
    noise = sf.Noise("uniform", 20.0)
    made = sf.problems.inventory(19, **costs, **rule, normalise=rewards, noise=noise, unit="€", start=12)
    return Problem("shop", made.mdp, made.baseline, made.start, horizon=horizon)


def known(problem):
    solved = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    return sf.Baseline(problem.baseline, solved.gain, solved.bias)


def share_kept(margin):
    """The smallest share of the baseline's earnings so far that was earned, wherever these are positive."""
    some = margin.baseline > 0
    assert np.all(margin.expected[~some] >= margin.baseline[~some] - 1e-9)  # there, at least as much
    return float((margin.expected[some] / margin.baseline[some]).min())


@pytest.mark.parametrize("rewards", RANGES)
@pytest.mark.parametrize("options", [{}, {"strict": False}], ids=["strict", "not strict"])
def test_decisions_keep_95_percent_of_the_shops_euros_whatever_range_is_declared(rewards, options):
    problem = shop(rewards)
    agent = sf.CUCRL2(problem.space, baseline=known(problem), alpha=ALPHA, condition="decisions", **options)
    run = sf.simulate(problem, agent, 5200, seed=1)
    found = sf.evaluate(run, problem, ALPHA).decisions
    assert run.baseline_steps < 5200 and found.violations == 0
    assert 0.95 - 1e-12 <= share_kept(found) < 1
    assert "€" in agent.act(int(run.next_states[-1])).reason
    assert problem.space.low <= run.rewards.min() < 0 < run.rewards.max() <= problem.space.high


def test_a_share_of_mapped_rewards_is_not_a_share_of_the_shops_euros():
    """What agents kept when rewards were mapped to [0, 1]: the same as measuring euros from the end of their range."""
    problem = shop((-400.0, 181.0))
    options = {"alpha": ALPHA, "condition": "decisions", "floor": -400.0}
    run = sf.simulate(problem, sf.CUCRL2(problem.space, baseline=known(problem), **options), 5200, seed=1)
    assert sf.evaluate(run, problem, ALPHA, floor=-400.0).decisions.violations == 0
    assert sf.evaluate(run, problem, ALPHA).decisions.violations > 1000


@pytest.mark.first(4)
@pytest.mark.parametrize("rewards", RANGES)
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("certificate", ["induction", "segments", "reevaluated", "paper"])
def test_the_papers_condition_keeps_95_percent_of_the_shops_euros(certificate, is_known, rewards):
    problem = shop(rewards)
    confidence = adversarial.Knowing(
        problem.mdp, "worst" if certificate in ("induction", "segments") else "exact", 0.02, 3
    )
    baseline = known(problem) if is_known else sf.Baseline(problem.baseline)
    options = {"certificate": certificate, "minimum": 1}
    agent = sf.CUCRL2(problem.space, baseline=baseline, alpha=ALPHA, confidence=confidence, **options)
    run = sf.simulate(problem, agent, 1500, seed=2)
    found = sf.evaluate(run, problem, ALPHA)
    assert found.violations == 0 and share_kept(found) >= 0.95 - 1e-12
    if is_known and certificate in ("induction", "segments"):  # the others pay one span for every episode
        assert run.baseline_steps < 1500
    assert all(decision.budget is None or decision.budget <= found.margin[decision.t - 1] + 1e-6
               for decision in run.decisions if decision.t > 0)  # fmt: skip


@pytest.mark.first(1)
@pytest.mark.parametrize("rewards", RANGES)
@pytest.mark.parametrize("condition", ["replay", "decisions"])
def test_quarters_keep_95_percent_of_the_shops_euros(condition, rewards):
    problem = shop(rewards, horizon=13)
    values = sf.solve.policy_values(problem.mdp, problem.baseline, 13)
    learner = UCBVILearner(problem.space, 13, confidence=adversarial.Knowing(problem.mdp, "box", 0.05, 3))
    options = {"learner": learner, "condition": condition, "delta": 0.1}
    agent = sf.CUCBVI(problem.space, 13, baseline=sf.Baseline(problem.baseline, values=values), alpha=ALPHA, **options)
    run = sf.simulate(problem, agent, episodes=400, seed=3)
    found = sf.evaluate(run, problem, ALPHA)
    margin = found if condition == "replay" else found.decisions
    assert run.baseline_steps < 400 * 13 and margin.violations == 0 and share_kept(margin) >= 0.95 - 1e-12


def test_the_campaign_in_money_finds_nothing():
    tally = campaign.run_campaign(70, 3)
    assert not tally.violations, tally.violations
    assert len(tally.explored) == 7 and min(tally.explored.values()) > 20
    assert tally.between > 0  # with checkpoints, more is risked between them


# -- the unit does not matter -----------------------------------------------------------------------------------------


def moved(problem, low, scale):
    """The same problem with rewards low + scale r, and that baseline."""
    p, r = adversarial.dense(problem.mdp)
    options = {"rewards": (low, low + scale * problem.mdp.r_max), "noise": problem.mdp.noise}
    mdp = sf.TabularMDP.from_arrays(p, low + scale * r, **options)
    return Problem("moved", mdp, sf.Policy.randomised(mdp.space, problem.baseline.probabilities), problem.start)


@pytest.mark.parametrize("condition", ["replay", "decisions"])
@pytest.mark.parametrize(("low", "scale"), [(0.0, 64.0), (-128.0, 64.0), (32.0, 0.5)])
def test_a_run_in_another_unit_is_the_same_run(low, scale, condition):
    """With the floor at the end of the range, only the unit differs: powers of two, so that nothing is rounded."""
    swim = sf.problems.riverswim()
    p, r, _ = swim.mdp.to_arrays()
    plain = moved(Problem("", sf.TabularMDP.from_arrays(p, np.ceil(r * 128) / 128), swim.baseline, 0), 0.0, 1.0)
    other, runs = moved(plain, low, scale), []
    for problem, floor in ((plain, 0.0), (other, low)):
        options = {"alpha": 0.3, "floor": floor, "condition": condition, "confidence": "bernstein"}
        agent = sf.CUCRL2(problem.space, baseline=known(problem), **options)
        runs.append(sf.simulate(problem, agent, 600, seed=1))
    assert np.array_equal(runs[0].pairs, runs[1].pairs)
    assert runs[1].rewards == pytest.approx(low + scale * runs[0].rewards)
    exact = [sf.evaluate(run, problem, 0.3, floor=floor) for run, problem, floor in
             zip(runs, (plain, other), (0.0, low), strict=True)]  # fmt: skip
    assert exact[1].margin == pytest.approx(scale * exact[0].margin, abs=1e-8 * scale)
    assert exact[1].expected_regret == pytest.approx(scale * exact[0].expected_regret, abs=1e-6 * scale)
    budgets = [[decision.budget for decision in run.decisions if decision.budget is not None] for run in runs]
    assert budgets[1] == pytest.approx([scale * budget for budget in budgets[0]], rel=1e-6, abs=1e-6)


def test_gains_values_and_expected_rewards_are_in_the_unit():
    plain = moved(sf.problems.riverswim(), 0.0, 1.0)
    euros, H = moved(plain, -100.0, 50.0), 7
    one, two = (sf.solve.gain_and_bias(problem.mdp, problem.baseline) for problem in (plain, euros))
    assert two.gain == pytest.approx(50 * one.gain - 100) and two.bias == pytest.approx(50 * one.bias)
    best = [sf.solve.optimal_gain(problem.mdp) for problem in (plain, euros)]
    assert best[1].gain == pytest.approx(50 * best[0].gain - 100)
    assert best[1].lower <= best[1].gain <= best[1].upper
    left = np.arange(H, -1, -1.0)[:, None]
    values = [sf.solve.policy_values(problem.mdp, problem.baseline, H) for problem in (plain, euros)]
    assert values[1] == pytest.approx(50 * values[0] - 100 * left)
    values = [sf.solve.optimal_values(problem.mdp, H).values for problem in (plain, euros)]
    assert values[1] == pytest.approx(50 * values[0] - 100 * left)
    earned = [sf.solve.expected_rewards(problem.mdp, problem.baseline, 0, H) for problem in (plain, euros)]
    assert earned[1] == pytest.approx(50 * earned[0] - 100 * np.arange(1, H + 1))


def test_counts_sets_and_plans_are_in_the_unit_where_they_are_shown():
    space = sf.Space.full(1, 2, rewards=(-10, 30), unit="€")
    counts = sf.Counts(space)
    counts.add(0, 0, -4.0, 0)
    counts.add(0, 0, 6.0, 0)
    assert counts.mean_rewards[0] == 1.0 and math.isnan(counts.mean_rewards[1])
    assert counts.reward_sum.tolist() == [22.0, 0.0]  # counted from -10
    low, high = sf.confidence.likelihood(counts, 0.05).rewards
    assert low[1] == -10 and high[1] == 30 and -10 <= low[0] <= 1 <= high[0] <= 30
    plan = sf.planning.optimistic_gain(sf.confidence.likelihood(counts, 0.05), 1e-3)
    assert plan.earns[1] == pytest.approx(30, abs=0.1)
    with pytest.raises(InvalidInput, match=r"reward -11 is outside \[-10, 30\] €") as caught:
        counts.add(0, 0, -11.0, 0)
    assert "rewards=(low, high)" in caught.value.hint
    other = sf.Counts(space)
    other.merge(counts)
    assert other.mean_rewards[0] == 1.0


def test_an_agent_played_step_by_step_in_euros_is_the_simulated_one():
    problem = shop((-102.0, 181.0))
    for condition in ("replay", "decisions"):
        one, two = (sf.CUCRL2(problem.space, baseline=known(problem), alpha=0.3, condition=condition) for _ in range(2))
        run = sf.simulate(problem, one, 400, seed=5)
        s = problem.start
        two.begin(s)
        for t in range(400):
            a = two.act(s).action
            assert a == problem.space.pair_action[run.pairs[t]]
            two.observe(s, a, float(run.rewards[t]), int(run.next_states[t]))
            s = int(run.next_states[t])
        assert np.array_equal(one.counts.reward_sum, two.counts.reward_sum)


def test_knowledge_mechanics_and_logs_are_in_the_unit(tmp_path):
    made = sf.problems.inventory(6, unit="€", noise=sf.Noise())
    for parts in (["rewards"], ["mechanics"], ["successors"]):
        agent = sf.UCRL2(made.space, knowledge=made.knowledge(*parts))
        sf.simulate(made, agent, 300, seed=1)
        assert not agent.contradictions
        assert agent.learner.plausible().contains(made.mdp, tolerance=1e-9)
    wrong = sf.Knowledge(made.space, rewards=np.clip(made.mdp.r + 5.0, made.space.low, made.space.high))
    agent = sf.UCRL2(made.space, knowledge=wrong)
    sf.simulate(made, agent, 600, seed=1)
    assert any("rewards with mean" in sentence for sentence in agent.contradictions)
    run = sf.simulate(made, sf.UCRL2(made.space), 50)
    sf.write_history(tmp_path / "log.csv", run)
    history = sf.read_history(tmp_path / "log.csv", made.space)
    assert history.used == 50 and np.nanmin(history.counts.mean_rewards) < 0
    narrow = sf.Space.from_available(made.space.available, rewards=(0, 16), unit="€")
    told = sf.read_history(tmp_path / "log.csv", narrow).summary()
    assert "reward is outside [0, 16] €" in told and "rewards=(low, high)" in told


def test_a_saved_table_keeps_its_unit_and_names(tmp_path):
    mdp = sf.TabularMDP.from_arrays(
        np.ones((1, 2, 1)), [[-3.0, 2.0]], rewards=(-5, 5), unit="€", states=["shop"], actions=["open", "shut"]
    )
    mdp.save(tmp_path / "table.npz")
    again = sf.TabularMDP.load(tmp_path / "table.npz")
    assert again.space == mdp.space and np.array_equal(again.r, mdp.r)
    assert copy.deepcopy(mdp).space.unit == "€"


def test_gymnasium_keeps_the_unit():
    problem = shop((-102.0, 181.0))
    env = sf.gym.TabularEnv(problem)
    bridge = sf.gym.Bridge(env)
    assert bridge.space.money == problem.space.money
    log = sf.gym.drive(bridge, sf.UCRL2(bridge.space), steps=100, seed=0)
    assert min(log.rewards) < 0
    mdp = sf.gym.table({0: {0: [(1.0, 0, -7.0, False)], 1: [(1.0, 0, 3.0, False)]}}, unit="€")
    assert mdp.r.tolist() == [-7.0, 3.0] and mdp.space.money == Money(-7.0, 3.0, "€")


# -- what may be lost -------------------------------------------------------------------------------------------------


def test_the_tolerance_by_hand():
    tolerance = Tolerance(0.05, per_step=2.0, allowance=9.0, floor=-10.0)
    assert tolerance.rate(30.0) == pytest.approx(0.05 * 40 + 2)
    assert tolerance.per_step_counted(-102.0) == pytest.approx(0.05 * (-102 + 10) + 2)
    assert tolerance.owed(np.array([100.0, -200.0]), np.array([5, 5])).tolist() == [100 - 0.05 * 150 - 10, -210.0]
    assert tolerance.of_episodes(np.array([100.0, -200.0]), 5).tolist() == [0.05 * 150 + 10, 10.0]
    every, listed = Tolerance(0.1, every=91), Tolerance(0.1, every=0, dates=(5, 9))
    assert [every.next_date(t) for t in (1, 91, 92)] == [91, 91, 182]
    assert [listed.next_date(t) for t in (1, 5, 6, 9, 10, 11)] == [5, 5, 9, 9, 10, 11]
    assert np.flatnonzero(listed.kept_at(12)).tolist() == [4, 8, 9, 10, 11]
    assert Tolerance(0.1).kept_at(3) is None


def losing(gain=-3.0):
    space = sf.Space.full(1, 2, rewards=(-10, 30), unit="€")
    return space, sf.Baseline(sf.Policy.always(space, 0), gain, np.zeros(1))


@pytest.mark.parametrize("condition", ["replay", "decisions"])
@pytest.mark.parametrize("gain", [-3.0, 0.0])
def test_a_share_of_a_loss_is_refused_with_the_alternatives(gain, condition):
    space, baseline = losing(gain)
    with pytest.raises(InvalidInput, match="has no meaning") as caught:
        sf.CUCRL2(space, baseline=baseline, alpha=0.05, condition=condition)
    for word in ("€", "tolerance=", "allowance=", "floor="):
        assert word in str(caught.value)
    for instead in ({"alpha": 0, "tolerance": 1.0}, {"alpha": 0, "allowance": 50.0}, {"alpha": 0.05, "floor": -10.0}):
        sf.CUCRL2(space, baseline=baseline, condition=condition, **instead)


def test_a_share_of_losing_episodes_and_arms_is_refused_too():
    space, _ = losing()
    values = np.full((4, 1), -3.0) * np.arange(3, -1, -1)[:, None]
    baseline = sf.Baseline(sf.Policy.always(space, 0), values=values)
    for condition in ("replay", "decisions"):
        with pytest.raises(InvalidInput, match=r"at most € -9\.00 an episode.*has no meaning"):
            sf.CUCBVI(space, 3, baseline=baseline, alpha=0.05, condition=condition)
        sf.CUCBVI(space, 3, baseline=baseline, alpha=0, allowance=10.0, condition=condition)
    with pytest.raises(InvalidInput, match="has no meaning"):
        sf.bandits.ConservativeUCB(2, alpha=0.1, baseline_mean=-3.0, rewards=(-10, 30), unit="€")


@pytest.mark.first(2)
@pytest.mark.parametrize("condition", ["replay", "decisions"])
@pytest.mark.parametrize("given", [{"allowance": 300.0}, {"tolerance": 3.0}, {"tolerance": 3.0, "checkpoints": 50}])
def test_alpha_0_explores_with_an_allowance_or_a_tolerance_and_keeps_it(given, condition):
    problem = shop((-102.0, 181.0))
    confidence = adversarial.Knowing(problem.mdp, "box", 0.05, 3)
    options = {"alpha": 0.0, "condition": condition, "confidence": confidence, "minimum": 1} | given
    agent = sf.CUCRL2(problem.space, baseline=known(problem), **options)
    run = sf.simulate(problem, agent, 1500, seed=4)
    found = sf.evaluate(run, problem, 0.0, **given)
    assert run.baseline_steps < 1500
    assert (found if condition == "replay" else found.decisions).violations == 0


@pytest.mark.first(1)
@pytest.mark.parametrize("condition", ["decisions", "replay"])
def test_checkpoints_let_more_be_risked_between_them(condition):
    problem, first = shop((-102.0, 181.0)), {}
    weights = problem.baseline.dense_weights
    baseline_pair = np.array([np.argmax(weights * (problem.space.pair_state == s)) for s in range(20)])
    for checkpoints in (None, 260):
        confidence = adversarial.Knowing(problem.mdp, "box", 0.05, 3)
        options = {"alpha": ALPHA, "condition": condition, "confidence": confidence, "checkpoints": checkpoints}
        agent = sf.CUCRL2(problem.space, baseline=known(problem), **options)
        run = sf.simulate(problem, agent, 1040, seed=4)
        found = sf.evaluate(run, problem, ALPHA, checkpoints=checkpoints)
        found = found if condition == "replay" else found.decisions
        assert found.violations == 0
        state = problem.space.pair_state[run.pairs]
        first[checkpoints] = int(np.argmax(run.pairs != baseline_pair[state]))
    assert first[260] < first[None]


# -- bandits ----------------------------------------------------------------------------------------------------------


@pytest.mark.first(2)
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("given", [{"alpha": 0.1}, {"alpha": 0, "tolerance": 1.0}, {"alpha": 0.1, "checkpoints": 40},
                                   {"alpha": 0, "allowance": 60.0}, {"alpha": 0.2, "floor": -10.0}])  # fmt: skip
def test_arms_in_euros_keep_their_promise(given, is_known):
    explored = 0
    for seed in range(6):
        rng = np.random.default_rng([9, seed])
        means = rng.uniform(-8, 28, 4)
        means[0] = abs(means[0])
        agent = sf.bandits.ConservativeUCB(
            4, baseline_mean=means[0] if is_known else None, rewards=(-10, 30), unit="€", delta=1e-6, **given
        )
        total, owed = given.get("allowance", 0.0), []
        for t in range(1, 801):
            arm = agent.act().action
            reward = 30.0 if rng.random() * 40 < means[arm] + 10 else -10.0
            agent.observe(arm, reward)
            total += means[arm] - campaign.owed(given, means[0], 1)
            explored += arm != 0
            if t in campaign.kept_at(given, t)[-1:]:
                owed.append(total)
        assert min(owed) >= -1e-9
        assert "€" in agent.act().reason
    assert explored > (5 if "allowance" in given else 100)  # an allowance alone is soon spent


def test_a_linear_bandit_keeps_its_promise_with_negative_means():
    rng, theta = np.random.default_rng(3), np.array([10.0, -20.0])
    given = {"alpha": 0.1, "tolerance": 0.5, "allowance": 20.0, "checkpoints": 25}
    agent = sf.bandits.ConservativeLinearUCB(2, sigma=1.0, bound=30.0, delta=1e-6, unit="€", **given)
    total, kept, explored = 20.0, [], 0
    for t in range(1, 1501):
        phi = rng.uniform(-1, 1, (3, 2))
        means = phi @ theta
        arm = agent.act(phi, 0, float(means[0])).action
        agent.observe(float(means[arm] + rng.normal()))
        total += means[arm] - campaign.owed(given, float(means[0]), 1)
        explored += arm != 0
        kept += [total] if t % 25 == 0 else []
    assert explored > 100 and min(kept) >= 0


# -- a given gain that is wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", ["replay", "decisions"])
def test_half_the_true_gain_is_reported_soon(condition):
    problem = shop((-102.0, 181.0))
    right = known(problem)
    wrong = sf.Baseline(right.policy, right.gain / 2, right.bias)
    agent = sf.CUCRL2(problem.space, baseline=wrong, alpha=ALPHA, condition=condition)
    sf.simulate(problem, agent, 1000, seed=1)
    assert agent.contradictions and "€" in agent.contradictions[0]
