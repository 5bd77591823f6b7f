"""A wrong declaration of the baseline is found, and a right one is called wrong no more often than promised."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

import adversarial
import adversarial_episodes
import surefooted as sf
from surefooted.data.counts import Counts
from surefooted.kernels import baseline_check as kernels
from surefooted.kernels import playing
from surefooted.kernels.structs import World
from surefooted.knowledge import baseline_check
from surefooted.knowledge.baseline_check import FALSE_ALARMS, FEWEST, GROWTH, LAMBDA, PSI, TOLERANCE, BaselineCheck
from surefooted.sets.plausible import Plausible

NONE = np.zeros(0, dtype=np.bool_)


def world_of(mdp):
    noise = (mdp.r_max, mdp.noise.code, mdp.noise.scale)
    return tuple(World(mdp.space.pair_ptr, mdp.next_ptr, mdp.next_state, mdp.p, mdp.r, *noise))


def played(mdp, policy, s, steps, rng):
    """Steps of a policy on a true table, one decision rule for each step if it has several."""
    out = (np.empty(steps, dtype=np.int64), np.empty(steps), np.empty(steps, dtype=np.int64))
    draws = np.zeros((steps, 2))
    playing.draw_steps(rng, mdp.noise.code, draws)
    rules = policy.stages(policy.horizon or 1)
    playing.play_episode(world_of(mdp), *rules, draws, rng.random(steps), np.zeros(0, dtype=np.int64), s, *out)
    return out


def feed(check, problem, bursts, rng, longest=20):
    """The baseline and other policies take turns; the check sees all of it. How many contradictions there ever were."""
    s = problem.start
    for _ in range(bursts):
        mine = rng.random() < 0.5
        policy = problem.baseline if mine else adversarial.a_baseline(rng, problem.mdp, "random")
        steps = played(problem.mdp, policy, s, int(rng.integers(1, longest)), rng)
        check.add(s, *steps, NONE if mine else np.ones(len(steps[0]), dtype=np.bool_))
        s = int(steps[2][-1])
        check.compare()
    return len(check.found)


def one_state(gain, bounded=True, delta=0.05):
    space = sf.Space.full(1, 1)
    return BaselineCheck(sf.Baseline(sf.Policy.always(space, 0), gain, np.zeros(1)), delta, bounded=bounded)


# -- the e-value ------------------------------------------------------------------------------------------------------


def test_the_inequality_behind_the_theorem():
    """exp(λ ξ - ψ ξ²) <= 1 + λ ξ for ξ >= -c', with equality at ξ = 0 and at ξ = -c'."""
    c = 1 + TOLERANCE
    xi = np.concatenate([np.linspace(-c, 3, 4001), [0.0]])
    for lambda_, psi in zip(LAMBDA, PSI, strict=True):
        assert 0 < lambda_ < 1 / c
        assert psi == pytest.approx((-math.log(1 - c * lambda_) - c * lambda_) / c**2, rel=1e-6)
        assert np.all(np.exp(lambda_ * xi - psi * xi**2) <= 1 + lambda_ * xi + 1e-12)
        assert np.exp(-lambda_ * c - psi * c**2) == pytest.approx(1 - c * lambda_)


def test_an_e_value_by_hand():
    """Three steps, two bets: the mean of four exponentials."""
    sums, out = np.array([[3.0, 1.5, 1.25, 0.0]]), np.zeros(1)
    lambda_, psi = np.array([0.5, 0.25]), np.array([0.2, 0.04])
    kernels.evidence(sums, 0.0, lambda_, psi, -math.inf, out)
    each = [math.exp(0.75 - 0.25), math.exp(0.375 - 0.05), math.exp(-0.75 - 0.25), math.exp(-0.375 - 0.05)]
    assert out[0] == pytest.approx(math.log(sum(each) / 4))
    kernels.evidence(sums, 0.1, lambda_, psi, -math.inf, out)  # ξ sums to 1.5 - 0.3, its squares to 1.25 - 0.3 + 0.03
    each = [math.exp(0.6 - 0.2 * 0.98), math.exp(0.3 - 0.04 * 0.98)]
    each += [math.exp(-0.9 - 0.2 * 1.58), math.exp(-0.45 - 0.04 * 1.58)]
    assert out[0] == pytest.approx(math.log(sum(each) / 4))


def test_a_hidden_surprise_counts_at_its_worst_on_both_sides():
    """Three surprises are known, and the fourth is the worst one that it can have been."""
    lambda_, psi, out = np.array([0.5, 0.25]), np.array([0.2, 0.04]), np.zeros(1)
    kernels.evidence(np.array([[4.0, 1.5, 2.25, 1.0]]), 0.1, lambda_, psi, -math.inf, out)
    xi, eta = [np.array([*known, -1.0]) - 0.1 for known in ([0.5, 1.0, 0.0], [-0.5, -1.0, 0.0])]
    each = [math.exp(a * x.sum() - b * (x**2).sum()) for x in (xi, eta) for a, b in zip(lambda_, psi, strict=True)]
    assert out[0] == pytest.approx(math.log(sum(each) / 4))


@pytest.mark.parametrize("kernel", [kernels.add_steps, kernels.add_steps.py_func])
def test_the_sums_are_those_of_the_surprises(kernel):
    """By hand, on two states: which steps count, and what each counts for."""
    alone, worth = np.array([0, -1]), np.array([0.0, 2.0])
    told = kernels.Surprises(worth, alone, 0.5, 3.0, 0, np.zeros((3, 3)))
    pairs, rewards, after = np.array([0, 3, 2, 1]), np.array([1.0, 0.0, 1.0, 0.5]), np.array([1, 1, 0, 0])
    kernel(tuple(told), 0, pairs, rewards, after, np.array([True, False, True, True]))
    # step 0 plays the only pair of state 0; step 1 is the baseline's own; in state 1 it randomises; step 3 departs
    first, second = (1 + 2 - 0 - 0.5) / 3, (0 + 2 - 2 - 0.5) / 3
    assert told.sums == pytest.approx(
        np.array([[1, first, first**2], [1, second, second**2], [2, first + second, first**2 + second**2]])
    )
    staged = kernels.Surprises(np.array([3.0, 1.0, 1.0, 2.0, 0.0, 0.0]), np.full(4, -1), 0.0, 2.0, 2, np.zeros((5, 3)))
    kernel(tuple(staged), 0, np.array([0, 2]), np.array([1.0, 0.5]), np.array([1, 0]), NONE)
    assert staged.sums[0] == pytest.approx([1, 0, 0])  # stage 0, state 0: 1 + V_1(1) - V_0(0) = 0
    assert staged.sums[3] == pytest.approx([1, (0.5 + 0 - 2) / 2, 0.5625])
    assert staged.sums[4] == pytest.approx([2, -0.75, 0.5625]) and np.all(staged.sums[1:3] == 0)


def test_half_of_the_false_alarms_are_for_all_steps_and_half_for_the_states():
    problem = sf.problems.riverswim()
    check = BaselineCheck(adversarial.known(problem), delta=0.05)
    assert FALSE_ALARMS == 0.1
    assert np.exp(-check.thresholds) == pytest.approx([0.005 / 2 / 6] * 6 + [0.005 / 2])
    assert np.exp(-one_state(0.5).thresholds) == pytest.approx([0, 0.005])


def test_what_is_below_the_threshold_need_not_be_exact():
    """The upper bound never hides an e-value that reaches the threshold."""
    rng, lambda_, psi = np.random.default_rng(0), LAMBDA, PSI
    n = rng.integers(0, 1000, 200)
    sums = np.column_stack([n, rng.normal(0, 0.1, 200) * n, rng.random(200) * n, np.zeros(200)])
    exact, bounded = np.zeros(200), np.zeros(200)
    kernels.evidence(sums, TOLERANCE, lambda_, psi, -math.inf, exact)
    kernels.evidence(sums, TOLERANCE, lambda_, psi, 5.0, bounded)
    assert 0 < np.sum(exact >= 5) < 200 and np.array_equal(exact >= 5, bounded >= 5)
    assert np.array_equal(exact[exact >= 5], bounded[exact >= 5]) and np.all(bounded >= exact - 1e-12)


# -- right declarations -----------------------------------------------------------------------------------------------


@pytest.mark.first(2)
@pytest.mark.parametrize("kind", adversarial.KINDS, ids=lambda kind: kind.__name__)
def test_a_right_gain_and_bias_are_called_wrong_no_more_often_than_promised(kind):
    """False alarm of this test: 1e-6, if the promised rate, 0.0999, is attained."""
    runs, delta, alarms = 60, 0.999, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        problem = adversarial.a_problem(rng, kind)
        alarms += feed(BaselineCheck(adversarial.known(problem), delta), problem, 100, rng) > 0
    assert alarms <= binom.ppf(1 - 1e-6, runs, FALSE_ALARMS * delta)


@pytest.mark.slow
@pytest.mark.parametrize("starts_only", [True, False])
def test_right_values_are_called_wrong_no_more_often_than_promised(starts_only):
    """Likewise."""
    runs, delta, alarms = 120, 0.999, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        case = adversarial_episodes.a_case(rng, staged=False)
        values = sf.solve.policy_values(case.mdp, case.policy, case.horizon)
        baseline = sf.Baseline(case.policy, values=values[0] if starts_only else values)
        check = BaselineCheck(baseline, delta, case.horizon)
        for s in adversarial_episodes.some_starts(rng, case, 100).tolist():
            mine = rng.random() < 0.5
            policy = case.policy if mine else adversarial_episodes.a_policy(rng, case, "staged")
            steps = played(case.mdp, policy, s, case.horizon, rng)
            check.add(s, *steps, NONE if mine else np.ones(case.horizon, dtype=np.bool_))
            check.compare()
        alarms += len(check.found) > 0
    assert alarms <= binom.ppf(1 - 1e-6, runs, FALSE_ALARMS * delta)


@pytest.mark.slow
def test_the_rate_is_tight_enough_to_be_seen():
    """A coin, bet on for a long time at a large level: alarms do happen, and no more often than promised."""
    runs, level, alarms = 2000, 0.0999, 0
    rng = np.random.default_rng(5)
    for _ in range(runs):
        check = one_state(0.5, delta=0.999)
        rewards = (rng.random(300) < 0.5) * 1.0
        state = np.zeros(300, dtype=np.int64)
        for n in range(0, 300, 10):
            check.add(0, state[:10], rewards[n : n + 10], state[:10])
            check.compare()
        alarms += len(check.found) > 0
    assert 0 < alarms <= binom.ppf(1 - 1e-6, runs, level)


def test_rounded_declarations_pass():
    """Six digits are enough, even where nothing is random and every step errs in the same direction."""
    check = one_state(0.333333)
    n = 1_000_000
    check.add(0, np.zeros(n, dtype=np.int64), np.full(n, 1 / 3), np.zeros(n, dtype=np.int64))
    assert not check.compare() and check.steps == n


# -- wrong declarations -----------------------------------------------------------------------------------------------


def test_a_wrong_gain_is_found_and_said():
    check = one_state(0.45)
    rewards = (np.random.default_rng(0).random(300) < 0.8) * 1.0
    check.add(0, np.zeros(300, dtype=np.int64), rewards, np.zeros(300, dtype=np.int64))
    excess = rewards.mean() - 0.45
    said = f"over 300 steps it earned {excess:.3g} a step more than that"
    assert check.compare() == [f"the baseline was declared to earn 0.45 a step; {said}"]
    assert check.compare() == check.found  # and stays


@pytest.mark.parametrize("off", [-0.3, 0.2])
def test_a_wrong_gain_is_found_in_either_direction(off):
    problem, rng = sf.problems.garnet(8, 3, 4, seed=2, noise=sf.Noise("bernoulli")), np.random.default_rng(1)
    right = adversarial.known(problem)
    check = BaselineCheck(sf.Baseline(right.policy, right.gain + off, right.bias), 0.05)
    assert feed(check, problem, 100, rng) > 0
    assert ("less" if off > 0 else "more") in check.found[0] and "its gain and bias say" in check.found[0]


def test_a_wrong_bias_with_the_right_gain_is_found_at_its_states():
    """Two states that alternate: h(0) is declared 0.4 too large, which adds up to nothing in all steps together."""
    p = np.zeros((2, 1, 2))
    p[0, 0, 1] = p[1, 0, 0] = 1.0
    mdp = sf.TabularMDP.from_arrays(p, np.array([[0.8], [0.2]]), noise=sf.Noise("bernoulli"))
    policy = sf.Policy.always(mdp.space, 0)
    right = sf.solve.gain_and_bias(mdp, policy)
    check = BaselineCheck(sf.Baseline(policy, right.gain, right.bias + np.array([0.4, 0.0])), 0.05)
    check.add(0, *played(mdp, policy, 0, 2000, np.random.default_rng(0)))
    found = check.compare()
    assert {sentence.partition(":")[0] for sentence in found} == {"state 0", "state 1"}
    assert "bias" in found[0] and check.log_e_values()[-1] < 0


def test_wrong_values_are_found_at_their_stage_and_start():
    problem, H = sf.problems.garnet(8, 3, 4, seed=2, noise=sf.Noise("bernoulli")), 10
    values = sf.solve.policy_values(problem.mdp, problem.baseline, H)
    lie, rng = values.copy(), np.random.default_rng(3)
    lie[4] = lie[4] - 0.4
    stages = BaselineCheck(sf.Baseline(problem.baseline, values=lie), 0.05, H)
    starts = BaselineCheck(sf.Baseline(problem.baseline, values=values[0] * 0.6), 0.05, H)
    for _ in range(1000):
        steps = played(problem.mdp, problem.baseline, problem.start, H, rng)
        for check in (stages, starts):
            check.add(problem.start, *steps)
            check.compare()
    assert any(sentence.startswith(("stage 3", "stage 4")) for sentence in stages.found)
    assert "an episode more than its values say" in starts.found[0]


def test_only_steps_of_the_baselines_rule_count():
    """A randomised baseline: a pair that something else chose says nothing, though the baseline plays it, too."""
    p, r = np.ones((1, 2, 1)), np.array([[0.0, 1.0]])
    mdp = sf.TabularMDP.from_arrays(p, r)
    baseline = sf.Baseline(sf.Policy.uniform(mdp.space), 0.5, np.zeros(1))
    check, zeros = BaselineCheck(baseline, 0.05), np.zeros(1000, dtype=np.int64)
    check.add(0, zeros + 1, np.ones(1000), zeros, np.ones(1000, dtype=np.bool_))
    assert check.steps == 0 and not check.compare()
    check.add(0, zeros + 1, np.ones(1000), zeros)  # as if its own coin had always fallen on the same side
    assert check.steps == 1000 and check.compare()


def test_without_bounds_nothing_is_compared():
    check = one_state(0.2, bounded=False)
    check.add(0, np.zeros(1000, dtype=np.int64), np.ones(1000), np.zeros(1000, dtype=np.int64))
    assert not check.is_active and check.steps == 0 and check.compare() == []
    unknown = BaselineCheck(sf.Baseline(sf.Policy.always(sf.Space.full(1, 1), 0)), 0.05)
    assert not unknown.is_active and unknown.restored(unknown.state_dict()).compare() == []


# -- by the plausible set ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_set_that_holds_the_truth_contradicts_no_right_declaration(seed):
    rng = np.random.default_rng(seed)
    problem = adversarial.a_problem(rng)
    exact = Plausible.exactly(problem.mdp)
    right = adversarial.known(problem)
    assert BaselineCheck(right, 0.05).compare(lambda: exact) == []
    off = 0.01 * problem.space.r_max
    wrong = sf.Baseline(
        right.policy, right.gain + (off if right.gain + off < problem.space.r_max else -off), right.bias
    )
    assert len(BaselineCheck(wrong, 0.05).compare(lambda: exact)) == problem.space.n_states
    case = adversarial_episodes.a_case(rng)
    values = sf.solve.policy_values(case.mdp, case.policy, case.horizon)
    exact = Plausible.exactly(case.mdp)
    assert BaselineCheck(sf.Baseline(case.policy, values=values), 0.05, case.horizon).compare(lambda: exact) == []
    lie = values.copy()
    lie[0, -1] += 0.01 * case.space.r_max
    found = BaselineCheck(sf.Baseline(case.policy, values=lie), 0.05, case.horizon).compare(lambda: exact)
    assert len(found) == 1 and found[0].startswith(
        f"stage 0, state {case.space.n_states - 1}: the value of the baseline is"
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_set_made_of_data_contradicts_a_right_declaration_only_if_it_excludes_the_truth(seed):
    """Few visits, so that the set is wide: least and largest outcomes are far apart, on either side of the truth."""
    rng = np.random.default_rng(seed)
    problem = adversarial.a_problem(rng)
    counts, s = Counts(problem.space), problem.start
    for _ in range(10):
        steps = played(problem.mdp, sf.Policy.uniform(problem.space), s, 20, rng)
        counts.add_steps(*steps)
        s = int(steps[2][-1])
        plausible = sf.confidence.likelihood(counts, 0.05)
        found = BaselineCheck(adversarial.known(problem), 0.05).compare(lambda now=plausible: now)
        assert not found or plausible.excludes(problem.mdp)


def test_the_set_sees_what_the_surprises_miss():
    """Logged steps, and explored pairs of a randomised baseline, are no steps of the baseline's rule."""
    p, r = np.ones((1, 2, 1)), np.array([[0.7, 0.9]])
    mdp = sf.TabularMDP.from_arrays(p, r, noise=sf.Noise("bernoulli"))
    counts, rng = Counts(mdp.space), np.random.default_rng(0)
    for pair in (0, 1):
        rewards = (rng.random(500) < r[0, pair]) * 1.0
        counts.add_steps(np.full(500, pair), rewards, np.zeros(500, dtype=np.int64))
    plausible = sf.confidence.likelihood(counts, 0.05)
    for policy in (sf.Policy.uniform(mdp.space), sf.Policy.always(mdp.space, 0)):
        check = BaselineCheck(sf.Baseline(policy, 0.45, np.zeros(1)), 0.05)
        assert check.steps == 0
        (found,) = check.compare(lambda: plausible)
        assert found.startswith("state 0: gain and bias of the baseline make 0.45, and what was counted allows 0.")


# -- when it compares, and what it remembers --------------------------------------------------------------------------


def test_it_compares_when_steps_have_grown(monkeypatch):
    asked = []
    monkeypatch.setattr(BaselineCheck, "_by_surprises", lambda self: asked.append(self.steps) or [])
    check, zero = one_state(0.5), np.zeros(1, dtype=np.int64)
    for _ in range(500):
        check.add(0, zero, np.full(1, 0.5), zero)
        check.compare()
        check.compare()
    assert asked[:3] == [1, 12, 23] and len(asked) < 40
    assert all(GROWTH * earlier + FEWEST <= later < GROWTH * earlier + FEWEST + 1 for earlier, later in pairwise(asked))


def test_a_restored_check_goes_on():
    problem, rng = sf.problems.garnet(8, 3, 4, seed=2, noise=sf.Noise("bernoulli")), np.random.default_rng(1)
    right = adversarial.known(problem)
    check = BaselineCheck(sf.Baseline(right.policy, right.gain - 0.3, right.bias), 0.05)
    check.add(problem.start, *played(problem.mdp, problem.baseline, problem.start, 5, rng))
    check.compare()
    state = check.state_dict()
    other = check.restored(state)
    steps = played(problem.mdp, problem.baseline, problem.start, 500, rng)
    assert other.steps == 5 and other.checked_at == check.checked_at
    for each in (check, other):
        each.add(problem.start, *steps)
        assert each.compare()
    assert check.found == other.found and np.array_equal(check.log_e_values(), other.log_e_values())
    assert state["sums"][-1, 0] == 5 and not state["found"]
    assert other.restored(other.state_dict()).found == check.found


def test_constants_of_the_docs():
    assert (baseline_check.FALSE_ALARMS, baseline_check.TOLERANCE) == (0.1, 1e-6)
