"""What a candidate is proved to earn more than the baseline, by logs alone: never above the truth, and near it."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import binom

import adversarial_episodes as nasty
import oracles
import surefooted as sf
from surefooted.certificates import advantage
from surefooted.certificates.advantage import gain_difference, gain_of, state_worths
from surefooted.certificates.improvement import Improvement, Limit
from surefooted.certificates.reference import Reference
from surefooted.certificates.weighted import weighted_difference
from surefooted.cli import main
from surefooted.data.history import History
from surefooted.errors import InvalidInput
from surefooted.sets.plausible import Plausible
from surefooted.tables.policy import Policy
from test_netted import an_mdp
from test_robust import forms, plausible

EXAMPLES = Path(__file__).parent.parent / "examples"
CLOSE = 2e-4  # how near the bounds of a gain come, relative to the largest reward


def log_of(problem, n, seed, stages=1):
    """A History of n steps of each pair (and stage), whatever chose them."""
    mdp, counts, rng = problem.mdp, sf.Counts(problem.space, stages=stages), np.random.default_rng(seed)
    for row in range(counts.n_rows):
        k = row % problem.space.n_pairs
        led = slice(mdp.next_ptr[k], mdp.next_ptr[k + 1])
        after = rng.choice(mdp.next_state[led], p=mdp.p[led] / mdp.p[led].sum(), size=n)
        counts.add_steps(np.full(n, row), (rng.random(n) < mdp.r[k]).astype(float), after)
    return History(counts, counts.total, counts.total, 1, {}, {})


def run_of(problem, policy, episodes, seed):
    """Episodes that a policy chose."""
    return sf.simulate(problem, sf.agents.FixedPolicy(policy, seed=seed), episodes=episodes, seed=seed)


def a_policy(space, rng):
    first = np.diff(space.pair_ptr)
    if rng.random() < 0.6:
        return Policy.of_pairs(space, space.pair_ptr[:-1] + rng.integers(0, first))
    weights = rng.random(space.n_pairs) + 1e-3
    return Policy(space, weights=weights / np.repeat(np.add.reduceat(weights, space.pair_ptr[:-1]), first))


def near(policy, rng):
    """The same in most states."""
    other = a_policy(policy.space, rng)
    alike = (rng.random(policy.space.n_states) < 0.6)[policy.space.pair_state]
    return Policy(policy.space, weights=np.where(alike, policy.dense_weights, other.dense_weights))


# -- average reward ---------------------------------------------------------------------------------------------------


@forms
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.seeds(8)
def test_no_bound_is_above_any_mdp_of_the_set(form, seed):
    rng = np.random.default_rng(seed)
    known, _ = plausible(form, seed, n_states=3)
    if seed % 2:  # a set in which landmarks are found: every row is possible everywhere
        p = 0.6 * rng.dirichlet(np.ones(3), known.space.n_pairs) + 0.1
        state, ptr = np.tile(np.arange(3), len(p)), 3 * np.arange(len(p) + 1)
        low, high = np.maximum(p - 0.05, 0).ravel(), np.minimum(p + 0.05, 1).ravel()
        if form == "ball":
            known = Plausible(known.space, known.r_lower, known.r_upper, ptr, state, p.ravel() / np.repeat(p.sum(1), 3),
                              np.ones(p.size), np.ones(len(p)), np.full(len(p), 0.1))  # fmt: skip
        else:
            known = Plausible(known.space, known.r_lower, known.r_upper, ptr, state, low, high, np.zeros(len(p)))
    policy = a_policy(known.space, rng)
    baseline = sf.Baseline(near(policy, rng))
    bound = gain_difference(known, policy, baseline)
    for _ in range(30):
        p, r = an_mdp(known, rng)
        gains = []
        for one in (policy, baseline.policy):
            weights = one.dense_weights
            chain, earned = np.zeros((3, 3)), np.zeros(3)
            np.add.at(chain, known.space.pair_state, weights[:, None] * p)
            np.add.at(earned, known.space.pair_state, weights * r)
            gains.append(oracles.limiting_matrix(chain) @ earned)
        assert np.all(bound <= gains[0] - gains[1] + 1e-7)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.seeds(4)
def test_in_one_mdp_the_bound_is_the_difference_of_the_gains(seed):
    rng = np.random.default_rng(seed)
    problem = sf.problems.garnet(5, 3, 3, seed=seed)
    truth = Plausible.exactly(problem.mdp)
    baseline = a_policy(problem.space, rng)
    policy = near(baseline, rng)
    try:
        ours, theirs = (sf.solve.gain_and_bias(problem.mdp, one) for one in (policy, baseline))
        exact = ours.gain - theirs.gain
    except sf.SurefootedError:
        pytest.skip("several gains")
    for known in (sf.Baseline(baseline), sf.Baseline(baseline, theirs.gain, theirs.bias)):
        bound = gain_difference(truth, policy, known)
        assert exact - 3 * CLOSE <= bound <= exact + 1e-9


@forms
@pytest.mark.parametrize("seed", range(12))
def test_what_pairs_are_worth_by_definition(form, seed):
    """With a known gain and bias, by linear programs; and the least gain of such a reward by value iteration."""
    rng, (known, _) = np.random.default_rng(seed), plausible(form, seed)
    space, policy = known.space, a_policy(known.space, np.random.default_rng([1, seed]))
    base, h, g = near(policy, rng), rng.normal(size=known.space.n_states), 0.4
    baseline = sf.Baseline(base, g, h)
    (found,) = state_worths(known, policy, baseline, Reference(g, g, h, h))
    worth = np.zeros(space.n_states)
    for k in range(space.n_pairs):
        s, row, certain = space.pair_state[k], oracles.row_set(known, k), base.dense_weights[k] >= 1
        low = known.r_lower[k] + oracles.extreme_mean(row, h, -1) - h[s] - g
        high = known.r_upper[k] + oracles.extreme_mean(row, h, 1) - h[s] - g
        pi, b = policy.dense_weights[k], base.dense_weights[k]
        worth[s] += 0 if certain else max(pi - b, 0) * low - max(b - pi, 0) * high
    np.testing.assert_allclose(found, worth, atol=1e-9)
    chosen = [oracles.row_set(known, k) for k in range(space.n_pairs)]
    v, least = np.zeros(space.n_states), -np.inf
    for _ in range(300):
        each = np.array(
            [worth[space.pair_state[k]] + oracles.extreme_mean(chosen[k], v, -1) for k in range(len(chosen))]
        )
        change = np.add.reduceat(policy.dense_weights * each, space.pair_ptr[:-1]) - v
        least = max(least, float(change.min()))
        if np.ptp(change) < 1e-6:
            break
        v = v + 0.5 * (change - change.min())
    size = max(np.abs(worth).max(), 1e-9)
    assert gain_of(known, policy, worth) == pytest.approx(least, abs=2e-4 * size + 1e-6)


def test_one_end_of_the_gains_alone_proves_nothing(monkeypatch):
    problem = sf.problems.garnet(4, 2, 3, seed=1)
    policy, other = Policy.always(problem.space, 0), Policy.always(problem.space, 1)
    worths = iter([(np.full(8, -0.1), np.full(8, 0.1)), (np.full(8, -np.inf), np.full(8, np.inf))])
    monkeypatch.setattr(advantage, "_pair_worths", lambda *_: next(worths))
    truth = Plausible.exactly(problem.mdp)
    reference = Reference.of(sf.Baseline(policy), truth, 1)
    assert state_worths(truth, other, sf.Baseline(policy), reference) == []


def test_the_bound_fails_no_more_often_than_promised():
    """Of 60 logs at δ = 0.5: above the truth more than 48 times by chance with probability below one in a million."""
    failures, proved, runs = 0, 0, 60
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        problem = sf.problems.garnet(3, 2, 2, seed=seed, noise=sf.Noise("bernoulli"))
        history = log_of(problem, 150, seed)
        base = a_policy(problem.space, rng)
        candidate = sf.spibb(history, base, least=20)
        try:
            gains = [sf.solve.gain_and_bias(problem.mdp, policy).gain for policy in (candidate, base)]
        except sf.SurefootedError:
            continue
        found = sf.certify(candidate, history, base, delta=0.5)
        failures += found.at_least > gains[0] - gains[1] + 1e-9
        proved += found.is_proved
        assert found.candidate[0] <= found.candidate[1] and found.baseline[0] <= found.baseline[1]
    assert failures <= binom.ppf(1 - 1e-6, runs, 0.5)
    assert failures == 0 and proved > 5  # the union over all pairs is far from tight


def test_more_data_and_knowledge_prove_more():
    problem = sf.problems.inventory(4, noise=sf.Noise("bernoulli"))
    best = sf.solve.optimal_gain(problem.mdp)
    exact = best.gain - sf.solve.gain_and_bias(problem.mdp, problem.baseline).gain
    bounds = []
    for n, words in ((70, ()), (1500, ()), (1500, ("mechanics",)), (15_000, ("mechanics", "rewards"))):
        history = log_of(problem, n, 3)
        knowledge = problem.knowledge(*words) if words else None
        bounds.append(sf.certify(best.policy, history, problem.baseline, knowledge=knowledge).at_least)
    assert bounds == sorted(bounds) and bounds[-1] <= exact
    assert bounds[-1] > 0.9 * exact > 0 > bounds[0]


def test_netting_is_what_helps_a_candidate_that_differs_in_one_state():
    problem = sf.problems.inventory(4, noise=sf.Noise("bernoulli"))
    history = log_of(problem, 1500, 3)
    actions = problem.baseline.actions.copy()
    actions[0] -= 1
    candidate = Policy.deterministic(problem.space, actions)
    found = sf.certify(candidate, history, problem.baseline, knowledge=problem.knowledge("mechanics"))
    assert found.at_least > found.candidate[0] - found.baseline[1] + 0.02
    assert [limit.words for limit in found.limits] and all(limit.words.startswith("state 0,") for limit in found.limits)


@pytest.mark.parametrize("horizon", [None, 5])
@pytest.mark.parametrize("seed", range(4))
def test_the_baseline_itself_earns_exactly_as_much(horizon, seed):
    problem = sf.problems.garnet(6, 3, 3, seed=seed, noise=sf.Noise("bernoulli"))
    history = log_of(problem, 3, seed)
    base = a_policy(problem.space, np.random.default_rng(seed))
    found = sf.certify(base, history, base, horizon=horizon)
    assert found.at_least == 0.0 and found.limits == () and not found.is_proved
    assert str(found) == "With probability 0.95, the candidate earns no less than the baseline."


# -- a finite horizon -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [1, 5])
def test_over_a_finite_horizon_the_bound_is_below_the_truth_and_comes_near(stages):
    problem = sf.problems.gridworld(slip=0.1, noise=sf.Noise("bernoulli"))
    H, best = 5, sf.solve.optimal_values(problem.mdp, 5).policy
    values = [sf.solve.policy_values(problem.mdp, policy, H)[0] for policy in (best, problem.baseline)]
    exact, bounds = values[0] - values[1], []
    for n in (100, 3000, 30_000):
        history = log_of(problem, n, 0, stages)
        found = sf.certify(best, history, problem.baseline, horizon=H, start=problem.start)
        everywhere = sf.certify(best, history, problem.baseline, horizon=H)
        share = np.full(problem.space.n_states, 1 / problem.space.n_states)
        average = sf.certify(best, history, problem.baseline, horizon=H, start=share)
        assert everywhere.at_least <= min(found.at_least, average.at_least)
        assert found.unit == "episode" and found.baseline[0] <= found.baseline[1]
        bounds.append((found.at_least, exact[problem.start]))
    assert bounds[0][0] < bounds[1][0] < bounds[2][0] and all(bound <= true for bound, true in bounds)


def test_a_declared_baseline_is_used():
    problem = sf.problems.gridworld(slip=0.1, noise=sf.Noise("bernoulli"))
    values = sf.solve.policy_values(problem.mdp, problem.baseline, 10)
    best = sf.solve.optimal_values(problem.mdp, 10).policy
    history = log_of(problem, 400, 0)
    plain = sf.certify(best, history, problem.baseline, horizon=10, start=problem.start)
    told = sf.certify(best, history, sf.Baseline(problem.baseline, values=values), horizon=10, start=problem.start)
    assert told.at_least > plain.at_least and told.baseline == (pytest.approx(values[0, problem.start]),) * 2


def test_values_are_told_in_the_unit_of_the_rewards():
    p, r = np.full((2, 2, 2), 0.5), np.array([[-20.0, 100.0], [40.0, 0.0]])
    mdp = sf.TabularMDP.from_arrays(p, r, rewards=(-20, 100))
    problem = sf.Problem("in euros", mdp, Policy.always(mdp.space, 0), 0)
    values = sf.solve.policy_values(mdp, problem.baseline, 3)
    assert values[0, 0] == pytest.approx(-20 + 2 * 10)
    base = sf.Baseline(problem.baseline, values=values)
    found = sf.certify(Policy.always(mdp.space, 1), log_of(problem, 5, 0), base, horizon=3, start=0)
    assert found.baseline == (pytest.approx(values[0, 0]),) * 2


# -- by weights -------------------------------------------------------------------------------------------------------


def test_weights_by_their_definition():
    rng, space = np.random.default_rng(0), sf.Space.full(2, 2)
    candidate, baseline, behaviour = (a_policy(space, np.random.default_rng(i)) for i in (1, 4, 9))
    behaviour = behaviour.mixed_with(Policy.uniform(space), 0.5)
    pairs, rewards = rng.integers(0, 4, (50, 3)), rng.random((50, 3))
    difference, worst = np.zeros(50), 0.0
    for i in range(50):
        ours = theirs = 1.0
        for h in range(3):
            k = pairs[i, h]
            ours *= candidate.dense_weights[k] / behaviour.dense_weights[k]
            theirs *= baseline.dense_weights[k] / behaviour.dense_weights[k]
            difference[i] += (ours - theirs) * rewards[i, h]
    ratio = (baseline.dense_weights / behaviour.dense_weights).max()
    worst = ratio + ratio**2 + ratio**3
    guesses = [0.0] + [min(difference[:i].mean(), 0.0) for i in range(1, 50)]
    lambda_, weight = 0.9 / worst * 0.5 ** np.arange(14), 1 / (np.arange(14) + 2.0)
    wealth = np.log1p(np.outer(lambda_, difference - guesses)).sum(axis=1) + np.log(weight / weight.sum())
    low, high = -1e4, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        enough = np.logaddexp.reduce(wealth - lambda_ * middle) > np.log(1 / 0.1)
        low, high = (middle, high) if enough else (low, middle)
    found = weighted_difference(candidate, baseline, behaviour, pairs, rewards, 0.1)
    assert found == pytest.approx(max(sum(guesses) + low, -50 * worst) / 50, abs=1e-6)


def test_weights_fail_no_more_often_than_promised():
    """Of 200 logs at δ = 0.2: above the truth more than 68 times by chance with probability below one in a million."""
    failures, gaps, runs = 0, [], 200
    case_rng = np.random.default_rng(5)
    case = nasty.a_case(case_rng, nasty.adversarial.garnet, "randomised", staged=False)
    space, H = case.space, case.horizon
    candidate = case.policy.mixed_with(Policy.uniform(space), 0.7)
    exact = case.of(candidate)[0] - case.values[0]
    problem = sf.Problem("case", case.mdp, case.policy, 0, H)
    for seed in range(runs):
        run = run_of(problem, case.policy, 30, seed)
        found = sf.certify(candidate, run, case.policy, horizon=H, method="weights", delta=0.2)
        failures += found.at_least > exact
        gaps.append(exact - found.at_least)
    assert failures <= binom.ppf(1 - 1e-6, runs, 0.2)
    assert np.mean(gaps) < 0.5 * H * space.r_max


def test_weights_prove_an_improvement_and_read_logs(tmp_path):
    space, H = sf.Space.full(n_states=1, n_actions=2), 3
    mdp = sf.TabularMDP.from_arrays(np.ones((1, 2, 1)), np.array([[1.0, 0.2]]), noise=sf.Noise("bernoulli"))
    base, candidate = Policy.uniform(space), Policy.always(space, 0)
    problem = sf.Problem("chain", mdp, base, 0, H)
    run = run_of(problem, base, 2000, 1)
    values = [sf.solve.policy_values(mdp, policy, H)[0, 0] for policy in (candidate, base)]
    found = sf.certify(candidate, run, base, horizon=H, method="weights")
    assert 0 < found.at_least <= values[0] - values[1] and found.method == "weights"
    assert sf.certify(base, run, base, horizon=H, method="weights").at_least == pytest.approx(0.0, abs=0.01)
    sf.write_history(tmp_path / "log.parquet", run)
    history = sf.read_history(tmp_path / "log.parquet", problem.space, columns={"episode": None})
    assert sf.certify(candidate, history, base, horizon=H, method="weights").at_least == found.at_least
    named = sf.read_history(tmp_path / "log.parquet", problem.space)
    with pytest.raises(InvalidInput, match="not whole episodes"):
        sf.certify(candidate, named, base, horizon=H, method="weights")
    with pytest.raises(InvalidInput, match="never chosen by the behaviour"):
        sf.certify(base, run, candidate, horizon=H, method="weights")
    with pytest.raises(InvalidInput, match="the behaviour policy never does"):
        other = run_of(problem, candidate, 5, 0)
        sf.certify(candidate, other, base, horizon=H, method="weights", behaviour=candidate)


# -- SPIBB, words and refusals ----------------------------------------------------------------------------------------


def test_spibb_changes_only_what_was_observed_often_enough():
    problem = sf.problems.garnet(6, 4, 3, seed=2, noise=sf.Noise("bernoulli"))
    history = log_of(problem, 70, 2)
    history.counts.add_steps([3] * 20, [0.5] * 20, [1] * 20)
    base = Policy.uniform(problem.space)
    for horizon in (None, 4):
        for least in (1, 60, 71, 80, 10**6):  # most pairs were observed 70 times
            found = sf.spibb(history, base, least=least, horizon=horizon)
            rare = history.counts.visits < least
            assert np.all(found.dense_weights[..., rare] == base.dense_weights[rare])
    everything = sf.spibb(history, base, least=1)
    counts = history.counts
    ptr, state, n = counts.rows()
    p, pair = np.zeros((6, 4, 6)), np.repeat(np.arange(24), np.diff(ptr))
    p[problem.space.pair_state[pair], problem.space.pair_action[pair], state] = n / counts.visits[pair]
    estimated = sf.TabularMDP.from_arrays(p, (counts.reward_sum / counts.visits).reshape(6, 4))
    best = sf.solve.optimal_gain(estimated)
    assert sf.solve.gain_and_bias(estimated, everything).gain == pytest.approx(best.gain, abs=1e-6)
    staged = sf.spibb(history, base, least=1, horizon=4)
    assert sf.solve.policy_values(estimated, staged, 4)[0] == pytest.approx(
        sf.solve.optimal_values(estimated, 4).values[0]
    )


def test_a_result_in_words():
    space = sf.Space.full(2, 2, rewards=(0, 100), unit="€")
    limits = (Limit("low, order", 12, 3.0),)
    better = Improvement(space, 1.5, "step", 0.05, "set", 100, (3, 4), (1, 2), limits)
    worse = Improvement(space, -2.0, "episode", 0.1, "weights", 100)
    assert str(better) == (
        "With probability 0.95, the candidate earns at least € 1.50 per step more than the baseline. "
        "What limits this bound most: low, order: 12 steps."
    )
    assert str(worse) == (
        "The candidate is not proved to be better: it may earn up to € 2.00 per episode less than the baseline, "
        "by 100 observed steps at confidence 0.9."
    )
    assert repr(better) == "Improvement(at_least=€ 1.50, per=step, proved=True, delta=0.05, method=set, steps=100)"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"delta": 2}, "delta 2"),
        ({"method": "luck"}, "no method"),
        ({"candidate": Policy.always(sf.Space.full(2, 2), 0)}, "the candidate is on"),
        ({"confidence": "simplified_bernstein"}, "proves nothing"),
        ({"horizon": 4, "start": 99}, "neither a state"),
        ({"method": "weights"}, "one length"),
    ],
)
def test_refusals(change, fault):
    problem = sf.problems.riverswim()
    history = log_of(problem, 4, 0)
    given = {"candidate": problem.baseline, "history": history, "baseline": problem.baseline} | change
    with pytest.raises(InvalidInput, match=fault):
        sf.certify(given.pop("candidate"), given.pop("history"), given.pop("baseline"), **given)


def test_a_selection_by_outcome_proves_nothing():
    problem = sf.problems.riverswim()
    history = log_of(problem, 4, 0)
    chosen = History(history.counts, 25, 20, 1, {"reward is not a number": 5}, {"reward is not a number": ()})
    with pytest.raises(InvalidInput, match="because of their outcome"):
        sf.certify(problem.baseline, chosen, problem.baseline)
    assert sf.certify(problem.baseline, chosen, problem.baseline, accidents=True).at_least == 0


def test_the_command(tmp_path):
    def said(*arguments):
        found = CliRunner().invoke(main, ["certify", str(EXAMPLES / "shop.toml"), *arguments])
        return found.exit_code, found.output

    code, words = said()
    assert code == 0 and "The candidate is today's policy." in words  # its log shows nothing else
    candidate = tmp_path / "orders.csv"
    candidate.write_text("state,action\n10,1\n9,1\n", encoding="utf-8")
    code, words = said("--candidate", str(candidate))
    assert code == 0 and "it may earn up to €" in words and "today's policy" in words
    content = json.loads(said("--candidate", str(candidate), "--json", "--delta", "0.5")[1])
    assert content["delta"] == 0.5 and -1 < content["at_least"] < 0 and not content["proved"]
    assert [change["state"] for change in content["changes"]] == ["9", "10"]
    candidate.write_text("state,action\n12,1\n99,0\n", encoding="utf-8")
    code, words = said("--candidate", str(candidate))
    assert code == 1 and "line 2: there is no action '1' in a state '12'" in words and "line 3" in words
    candidate.write_text("stock\n1\n", encoding="utf-8")
    assert "must have the columns state and action" in said("--candidate", str(candidate))[1]
    found = CliRunner().invoke(main, ["certify", str(EXAMPLES / "machine.toml")])
    assert found.exit_code == 1 and "names no log" in found.output
