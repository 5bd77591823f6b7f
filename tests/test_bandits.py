"""Bandits: bounds by hand, the condition recomputed from the list of rounds, proofs that are never above the truth."""

import math
import pickle
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import binom

from surefooted import planning, solve
from surefooted.agents.cucbvi import CUCBVI
from surefooted.agents.ucrl2 import UCRL2
from surefooted.bandits import (
    BanditRun,
    BernoulliArms,
    ConservativeLinearUCB,
    ConservativeUCB,
    Ellipsoid,
    LinearContextual,
    evaluate,
    linear_contextual,
    simulate_arms,
    simulate_linear,
    wu,
)
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.evaluation import margins as oracle
from surefooted.sets.confidence import likelihood
from surefooted.sets.plausible import Plausible
from surefooted.simulation.playing import simulate
from surefooted.tables.baseline import Baseline
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Space

ALPHAS = (1e-6, 0.01, 0.3, 0.9, 1 - 1e-6)


def intervals(space, lower, upper):
    """A set over one state with these reward intervals."""
    n, one = space.n_pairs, np.ones(space.n_pairs)
    arms = np.arange(n + 1)
    return Plausible(space, lower, upper, arms, np.zeros(n, dtype=np.int64), one, one, np.zeros(n))


class Around:
    """Intervals that hold the means by construction and shrink: exploration begins soon, and spends what it may."""

    def __init__(self, means, width, share):
        self.means, self.width, self.share = np.asarray(means, dtype=float), width, share

    def __call__(self, counts, delta):
        width = self.width / np.sqrt(1 + counts.visits)
        lower = np.clip(self.means - self.share * width, 0.0, counts.space.r_max)
        return intervals(counts.space, lower, np.clip(self.means + (1 - self.share) * width, 0.0, counts.space.r_max))


def random_arms(rng):
    n = int(rng.integers(1, 6))
    return BernoulliArms(rng.choice([rng.random(n), np.round(rng.random(n))]), int(rng.integers(n)))


def random_contextual(rng):
    noise = [Noise(), Noise("uniform", 0.2), Noise("truncated_gaussian", 0.1), Noise("gaussian", 0.1)]
    options = {"contexts": int(rng.integers(1, 80)), "baseline_mean": (0.1, 0.7)}
    size = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    return linear_contextual(*size, int(rng.integers(10**6)), noise=noise[int(rng.integers(4))], **options)


def linear_agent(problem, **options):
    return ConservativeLinearUCB(problem.dimension, **{"sigma": problem.sigma, "bound": problem.bound} | options)


def same(a, b):
    """Whether two nested structures hold the same, arrays bit by bit."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    if hasattr(a, "__dict__"):
        return type(a) is type(b) and same(vars(a), vars(b))
    return a == b


# -- bounds by hand --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arms", "n", "delta", "width"),
    [(3, 1000, 0.05, 0.2209621926532245), (4, 400, 0.1, 0.3269219404000449), (2, 1000, 0.05, 0.2178026543020098)],
)
@pytest.mark.parametrize("r_max", [1.0, 5.0])
def test_the_intervals_of_wu_et_al_by_hand(arms, n, delta, width, r_max):
    # sqrt(2 ln(K n^3 / delta) / n) with K = arms - 1, to 40 digits
    counts = Counts(Space.full(1, arms, r_max))
    counts.visits[1], counts.reward_sum[1] = n, 0.5 * n * r_max
    found = wu(counts, delta)
    assert found.r_lower[1] == pytest.approx(r_max * (0.5 - width), rel=1e-12)
    assert found.r_upper[1] == pytest.approx(r_max * (0.5 + width), rel=1e-12)
    assert (found.r_lower[0], found.r_upper[0]) == (0.0, r_max)
    assert (wu(counts, 0.999).r_lower[0], wu(counts, 0.999).r_upper[0]) == (0.0, r_max)
    counts.visits[1], counts.reward_sum[1] = 2, 2 * r_max
    assert (wu(counts, delta).r_lower[1], wu(counts, delta).r_upper[1]) == (0.0, r_max)


def test_the_intervals_of_wu_et_al_hold_the_truth_as_often_as_promised():
    delta, runs, means, failures = 0.5, 60, np.array([0.1, 0.5, 0.8]), 0
    rng = np.random.default_rng(0)
    for _ in range(runs):
        counts = Counts(Space.full(1, 3))
        outside = False
        for _ in range(30):
            arm = int(rng.integers(3))
            counts.add(0, arm, float(rng.random() < means[arm]), 0)
            bounds = wu(counts, delta)
            outside |= bool(np.any((means < bounds.r_lower) | (means > bounds.r_upper)))
        failures += outside
    assert failures <= binom.ppf(1 - 1e-6, runs, delta)  # at rate delta: exceeded once in a million


def test_the_bounds_of_wu_et_al_are_for_one_state():
    with pytest.raises(InvalidInput, match="2 states"):
        wu(Counts(Space.full(2, 3)), 0.1)
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidInput, match="delta"):
            wu(Counts(Space.full(1, 3)), delta)


@pytest.mark.parametrize(
    ("sigma", "lambda_", "bound", "delta", "samples", "radius"),
    [
        (0.5, 1.0, 1.0, 0.05, [(1, 0)] * 3, 2.3581015157406195),  # V = diag(4, 1)
        (0.5, 2.0, 1.5, 0.05, [(1, 0), (1, 0), (0, 2), (1, 0)], 3.5360966127670963),  # V = diag(5, 6)
        (0.3, 2.0, 0.7, 0.01, [(0, 2), (1, 0), (1, 0), (1, 0)], 1.9950723246259498),
    ],
)
def test_the_radius_of_the_ellipsoid_by_hand(sigma, lambda_, bound, delta, samples, radius):
    ellipsoid = Ellipsoid(2, sigma=sigma, bound=bound, lambda_=lambda_, delta=delta)
    for phi in samples:
        ellipsoid.add(np.array(phi, dtype=float), 0.5)
    assert ellipsoid.radius == pytest.approx(radius, rel=1e-14)


def an_ellipsoid(seed, dimension):
    rng = np.random.default_rng([1, seed])
    options = {"sigma": rng.random(), "bound": 2 * rng.random(), "lambda_": rng.uniform(0.05, 3), "delta": 0.1}
    ellipsoid = Ellipsoid(dimension, **options)
    phi, r = rng.standard_normal((int(rng.integers(0, 12)), dimension)), rng.random(12)
    for x, y in zip(phi, r, strict=False):
        ellipsoid.add(x, y)
    return rng, ellipsoid, phi, r[: len(phi)]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_centre_is_ridge_regression_and_the_radius_that_of_the_determinants(seed, dimension):
    _, ellipsoid, phi, r = an_ellipsoid(seed, dimension)
    rows = np.vstack([phi, math.sqrt(ellipsoid.lambda_) * np.eye(dimension)])
    theta = np.linalg.lstsq(rows, np.concatenate([r, np.zeros(dimension)]), rcond=None)[0]
    assert ellipsoid.centre == pytest.approx(theta, abs=1e-12)
    ratio = np.prod(np.linalg.eigvalsh(np.eye(dimension) + phi.T @ phi / ellipsoid.lambda_))
    radius = ellipsoid.sigma * math.sqrt(math.log(ratio) + 2 * math.log(10)) + math.sqrt(ellipsoid.lambda_) * (
        ellipsoid.bound
    )
    assert ellipsoid.radius == pytest.approx(radius, rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("dimension", [2, 3])
def test_the_least_and_largest_value_over_an_ellipsoid_match_a_search_of_it(seed, dimension):
    rng, ellipsoid, _, _ = an_ellipsoid(seed, dimension)
    w = rng.standard_normal(dimension)
    (lower,), (upper,) = ellipsoid.bounds(w[None, :])
    centre, radius, gram = ellipsoid.centre, ellipsoid.radius, ellipsoid.gram
    room = {"type": "ineq", "fun": lambda x: radius**2 - (x - centre) @ gram @ (x - centre)}
    for sign, value in ((1, lower), (-1, upper)):
        found = minimize(lambda x, sign=sign: sign * (x @ w), centre, constraints=[room], options={"ftol": 1e-12})
        assert sign * found.fun == pytest.approx(value, rel=1e-6, abs=1e-6)
    stretch, turn = np.linalg.eigh(gram)
    u = rng.standard_normal((20_000, dimension))  # the boundary, through the eigenvectors
    edge = centre + radius * (u / np.linalg.norm(u, axis=1, keepdims=True)) / np.sqrt(stretch) @ turn.T
    assert np.einsum("ij,jk,ik->i", edge - centre, gram, edge - centre) == pytest.approx(radius**2)
    assert lower <= (edge @ w).min() + 1e-12 and (edge @ w).max() - 1e-12 <= upper
    assert (edge @ w).min() - lower <= 0.01 * (upper - lower) and upper - (edge @ w).max() <= 0.01 * (upper - lower)


@pytest.mark.parametrize("seed", range(5))
def test_an_ellipsoid_contains_what_is_within_its_radius(seed):
    rng, ellipsoid, _, _ = an_ellipsoid(seed, 3)
    u = rng.standard_normal(3)
    step = ellipsoid.radius * np.linalg.solve(np.linalg.cholesky(ellipsoid.gram).T, u / np.linalg.norm(u))
    assert ellipsoid.contains(ellipsoid.centre + 0.999 * step)
    assert not ellipsoid.contains(ellipsoid.centre + 1.001 * step)


@pytest.mark.parametrize("seed", range(10))
def test_for_two_dimensions_or_more_the_papers_closed_form_is_larger(seed):
    _, ellipsoid, phi, _ = an_ellipsoid(seed, 2 + seed % 3)
    size = np.linalg.norm(phi, axis=1).max(initial=0.0)
    log = math.log((1 + len(phi) * size**2 / ellipsoid.lambda_) / ellipsoid.delta)
    printed = ellipsoid.sigma * math.sqrt(ellipsoid.dimension * log) + math.sqrt(ellipsoid.lambda_) * ellipsoid.bound
    assert ellipsoid.radius <= printed + 1e-12


def failures_of_the_ellipsoid(runs, delta, shrunk):
    rng, failures = np.random.default_rng(3), 0
    theta = np.array([0.6, 0.8])
    for _ in range(runs):
        ellipsoid = Ellipsoid(2, sigma=0.5, bound=1.0, lambda_=0.01, delta=delta)
        outside = False
        for t in range(40):
            phi = np.array([1.0, 0.0]) if t % 2 else ellipsoid.centre / (1 + np.linalg.norm(ellipsoid.centre))
            ellipsoid.add(phi, float(phi @ theta + rng.choice([-0.5, 0.5])))
            gap = theta - ellipsoid.centre
            outside |= bool(gap @ ellipsoid.gram @ gap > (shrunk * ellipsoid.radius) ** 2)
        failures += outside
    return failures


def test_the_ellipsoid_holds_the_truth_as_often_as_promised_and_half_of_it_does_not():
    runs, delta = 100, 0.2
    assert failures_of_the_ellipsoid(runs, delta, 1.0) <= binom.ppf(1 - 1e-6, runs, delta)  # once in a million
    assert failures_of_the_ellipsoid(runs, delta, 0.5) > binom.ppf(1 - 1e-6, runs, delta)  # so the test can fail


# -- conservative UCB -------------------------------------------------------------------------------------------------


def test_the_first_rounds_by_hand():
    # alpha 1/2, baseline 0.6: round 1 would need 0.3, in round 2 the 0.6 earned are exactly (1 - alpha) * 2 * 0.6
    agent = ConservativeUCB(2, alpha=0.5, baseline_mean=0.6, confidence=wu)
    first = agent.act()
    assert (first.role, first.action, first.budget, first.t) == ("baseline", 0, 0.0, 0)
    assert first.reason == "Plays the baseline: arm 1 could cost 0.3 more than is saved up."
    agent.observe(0, 1.0)
    second = agent.act()
    assert (second.role, second.action, second.t) == ("optimistic", 1, 1)
    assert second.budget == pytest.approx(0.3)
    assert second.reason == "Explores arm 1: its mean may be 1, and at least 0 stays saved up."
    agent.observe(1, 0.0)
    third = agent.act()
    assert (third.role, third.terms) == ("baseline", {"explored": 0.0, "baseline": 0.0})
    assert third.reason == "Plays the baseline: arm 1 could cost 0.3 more than is saved up."


def test_an_unknown_baseline_counts_with_the_end_of_its_interval_that_is_worse():
    ends = {"lower": np.array([0.4, 0.1]), "upper": np.array([0.5, 0.9])}
    agent = ConservativeUCB(2, alpha=0.25, confidence=lambda counts, delta: intervals(counts.space, **ends))
    agent.counts.visits[:] = [3, 1]  # 3 - 0.75 * 4 = 0 before, 3 - 0.75 * 5 = -0.75 after: the upper end
    assert agent.act().budget == pytest.approx(0.1)
    assert agent.act().reason == "Plays the baseline: arm 1 could cost 0.175 more than is saved up."
    agent.counts.visits[:] = [9, 1]  # 9 - 7.5 = 1.5 before, 9 - 8.25 = 0.75 after: the lower end
    assert agent.act().terms == pytest.approx({"explored": 0.1, "baseline": 0.6})
    assert agent.act().reason == "Explores arm 1: its mean may be 0.9, and at least 0.5 stays saved up."


def wu_by_the_book(history, arms, delta):
    """Wu et al.'s intervals from the list of rounds, in plain numbers."""
    lower, upper = [], []
    for i in range(arms):
        rewards = [r for arm, r in history if arm == i]
        n = len(rewards)
        width = math.sqrt(2 * math.log(max(arms - 1, 1) * n**3 / delta) / n) if n else math.inf
        mean = sum(rewards) / n if n else 0.0
        lower.append(max(0.0, mean - width))
        upper.append(min(1.0, mean + width))
    return lower, upper


def margin_by_the_book(arms, lower, baseline, ends, alpha):
    """The least margin that the intervals allow, over both ends of the baseline's, added up round by round."""
    return min(sum((mu if i == baseline else lower[i]) - (1 - alpha) * mu for i in arms) for mu in ends)


def spare(mean):
    """An allowance that buys nothing, for a baseline that earns nothing: a share of nothing is refused without one."""
    return {"allowance": 1e-12} if mean == 0 else {}


@pytest.mark.first(2)
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("kind", ["wu", "around"])
def test_every_decision_is_that_of_the_list_of_rounds(kind, is_known):
    roles = []
    for seed in range(15):
        rng = np.random.default_rng([2, seed])
        arms, delta = random_arms(rng), float(rng.choice([0.05, 0.5]))
        alpha = float(rng.choice([*ALPHAS, rng.random(), 1.0]))
        b, n = arms.baseline, arms.n_arms
        mean = float(arms.means[b]) if is_known else None
        confidence = wu if kind == "wu" else Around(arms.means, 0.5, rng.random(n))
        options = {"baseline": b, "baseline_mean": mean, "delta": delta, "confidence": confidence, "pooled": False}
        options |= spare(mean)
        agent, history = ConservativeUCB(n, alpha=alpha, **options), []
        for _ in range(80):
            bounds = confidence(agent.counts, delta)
            lower, upper = wu_by_the_book(history, n, delta) if kind == "wu" else (bounds.r_lower, bounds.r_upper)
            ends = (mean, mean) if is_known else (lower[b], upper[b])
            upper = [ends[1] if i == b else upper[i] for i in range(n)]
            best = max(upper)
            played = [arm for arm, _ in history]
            decision = agent.act()
            now = margin_by_the_book(played, lower, b, ends, alpha) if played else 0.0
            assert decision.budget == pytest.approx(now, abs=1e-9)
            assert sum(decision.terms.values()) == pytest.approx(now, abs=1e-9)
            optimist = next(i for i in range(n) if upper[i] == best)
            near = [i for i in range(n) if upper[i] > best - 1e-12]
            after = margin_by_the_book([*played, optimist], lower, b, ends, alpha)
            if len(near) == 1 or best == 1.0:
                if abs(after) > 1e-9:
                    assert decision.action == (optimist if after >= 0 else b)
                assert (decision.role == "baseline") == (decision.action == b)
            roles.append(decision.role)
            history.append((decision.action, arms.draw(rng, decision.action)))
            agent.observe(*history[-1])
    assert roles.count("optimistic") > 200 and roles.count("baseline") > 200


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_proved_margin_is_the_least_over_all_means_in_the_intervals(data):
    n = data.draw(st.integers(1, 4))
    unit = st.floats(0, 1, allow_subnormal=False)
    ends = np.sort(np.array(data.draw(st.lists(st.tuples(unit, unit), min_size=n, max_size=n))), axis=1)
    visits = np.array(data.draw(st.lists(st.integers(0, 50), min_size=n, max_size=n)))
    alpha, b = data.draw(st.floats(1e-6, 1)), data.draw(st.integers(0, n - 1))
    bounds = {"lower": ends[:, 0], "upper": ends[:, 1]}
    agent = ConservativeUCB(
        n, alpha=alpha, baseline=b, confidence=lambda counts, delta: intervals(counts.space, **bounds)
    )
    agent.counts.visits[:] = visits
    corners = np.stack(np.meshgrid(*ends, indexing="ij")).reshape(n, -1)
    owed = (1 - alpha) * corners[b]
    optimist = int(np.argmax(ends[:, 1]))
    now = (visits @ corners - visits.sum() * owed).min()
    after = (visits @ corners + corners[optimist] - (visits.sum() + 1) * owed).min()
    decision = agent.act()
    assert decision.budget == pytest.approx(now, abs=1e-9)
    if abs(after) > 1e-9:
        assert decision.action == (optimist if after > 0 else b)


def check_against_the_truth(run, evaluation):
    """No proof above the exact margin, no violation."""
    exact = np.concatenate([[0.0], evaluation.margin[:-1]])
    budgets = np.array([decision.budget for decision in run.decisions])
    assert np.all(budgets <= exact + 1e-9)
    assert evaluation.violations == 0
    return np.abs(budgets - exact).max()


@pytest.mark.slow
def test_no_proof_is_above_the_truth_and_nothing_is_violated_while_the_truth_is_in_the_bounds():
    explored = 0
    for seed in range(200):
        rng = np.random.default_rng([4, seed])
        arms, alpha = random_arms(rng), float(rng.choice([*ALPHAS, rng.random()]))
        mean = float(arms.means[arms.baseline]) if rng.random() < 0.5 else None
        confidence = Around(arms.means, float(rng.choice([0.1, 1.0])), rng.choice([0.0, 0.5, 1.0], arms.n_arms))
        options = {"baseline": arms.baseline, "baseline_mean": mean, "confidence": confidence} | spare(mean)
        run = simulate_arms(arms, ConservativeUCB(arms.n_arms, alpha=alpha, **options), 40, seed)
        check_against_the_truth(run, evaluate(run, arms, alpha))
        explored += run.rounds - run.baseline_rounds
    assert explored > 1500


@pytest.mark.parametrize("confidence", [likelihood, wu], ids=["likelihood", "wu"])
def test_with_honest_bounds_too(confidence):
    explored = 0
    for seed in range(20):
        rng = np.random.default_rng([5, seed])
        arms, alpha = random_arms(rng), float(rng.choice([0.3, 0.9, 1 - 1e-6]))
        mean = float(arms.means[arms.baseline]) if seed % 2 else None
        options = {"baseline": arms.baseline, "baseline_mean": mean, "confidence": confidence, "delta": 1e-6}
        options |= spare(mean)
        agent = ConservativeUCB(arms.n_arms, alpha=alpha, **options)  # all 20 runs are good but for 2 in 100 000
        run = simulate_arms(arms, agent, 80, seed)
        check_against_the_truth(run, evaluate(run, arms, alpha))
        explored += run.rounds - run.baseline_rounds
    assert explored > 100


def test_when_the_bounds_are_the_truth_the_proof_is_the_margin():
    arms = BernoulliArms([0.3, 0.6, 0.2])
    for mean in (0.3, None):
        agent = ConservativeUCB(3, alpha=0.2, baseline_mean=mean, confidence=Around(arms.means, 0.0, 0.0))
        run = simulate_arms(arms, agent, 50)
        assert check_against_the_truth(run, evaluate(run, arms, 0.2)) < 1e-12


def test_ucb_violates_and_conservative_ucb_does_not_and_learns_all_the_same():
    arms, alpha = BernoulliArms([0.5, 0.05, 0.05, 0.9]), 0.1
    for seed in range(2):
        careless = simulate_arms(arms, ConservativeUCB(4, alpha=1.0), 300, seed)
        assert evaluate(careless, arms, alpha).violations > 0
        assert careless.roles.count("optimistic") > 200
        careful = simulate_arms(arms, ConservativeUCB(4, alpha=alpha, baseline_mean=0.5), 1200, seed)
        found = evaluate(careful, arms, alpha)
        assert found.violations == 0
        assert np.all(careful.arms[-300:] == 3)
        assert found.margin[-1] > 0.1 * 1200 * 0.5


def test_at_alpha_one_it_is_plain_ucb():
    arms, rng = BernoulliArms([0.9, 0.2, 0.4]), np.random.default_rng(1)
    for mean in (0.9, None):
        agent = ConservativeUCB(3, alpha=1.0, baseline_mean=mean, confidence=wu)
        for _ in range(200):
            assert agent.act().action == int(np.argmax(agent.bounds()[1]))
            arm = agent.act().action
            agent.observe(arm, arms.draw(rng, arm))


def test_ties_go_to_the_first_arm_and_a_baseline_that_may_be_best_is_played_as_such():
    decision = ConservativeUCB(3, alpha=1.0, baseline=2, baseline_mean=0.5).act()
    assert (decision.action, decision.role) == (0, "optimistic")
    decision = ConservativeUCB(3, alpha=1.0).act()
    assert (decision.action, decision.role) == (0, "baseline")
    assert decision.reason == "Plays the baseline: no arm could be better, its own mean may be 1."


def test_rewards_up_to_r_max_scale_everything():
    arms, rng = BernoulliArms([0.5, 0.9, 0.1]), np.random.default_rng(3)
    for confidence in (likelihood, wu):
        small = ConservativeUCB(3, alpha=0.4, baseline_mean=0.5, confidence=confidence)
        large = ConservativeUCB(3, alpha=0.4, baseline_mean=4.0, confidence=confidence, r_max=8.0)
        for _ in range(300):
            one, two = small.act(), large.act()
            assert (one.role, one.action) == (two.role, two.action)
            assert two.budget == pytest.approx(8 * one.budget, abs=1e-9)
            r = arms.draw(rng, one.action)
            small.observe(one.action, r)
            large.observe(two.action, 8 * r)


# -- one state ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [likelihood, wu], ids=["likelihood", "wu"])
def test_the_optimistic_arm_is_the_optimistic_policy_of_one_state(confidence):
    arms, rng = BernoulliArms([0.5, 0.9, 0.1, 0.7]), np.random.default_rng(3)
    agent = ConservativeUCB(4, alpha=1.0, confidence=confidence, pooled=False)
    for _ in range(60):
        plan = planning.optimistic_gain(confidence(agent.counts, agent.delta), 1e-9)
        upper = agent.bounds()[1]
        assert plan.upper == pytest.approx(upper.max(), abs=1e-8)
        assert upper[int(plan.policy.actions[0])] == pytest.approx(upper.max(), abs=1e-8)
        arm = agent.act().action
        agent.observe(arm, arms.draw(rng, arm))


def test_the_margin_is_that_of_the_mdp_of_one_state():
    arms = BernoulliArms([0.5, 0.9, 0.1], baseline=1)
    problem = arms.problem()
    run = simulate(problem, UCRL2(problem.space, confidence=wu), 300, seed=4)
    ours = evaluate(BanditRun([], run.pairs, run.rewards), arms, 0.2)
    theirs = oracle.evaluate(run, problem, 0.2)
    for name in ("expected", "baseline", "realised_regret", "expected_regret", "margin"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-9)
    assert solve.gain_and_bias(problem.mdp, problem.baseline).gain == pytest.approx(0.9)


def test_the_oracle_by_hand():
    arms = BernoulliArms([0.5, 0.2, 0.8])
    found = evaluate(BanditRun([], np.array([1, 0, 1]), np.array([1.0, 0.0, 0.0])), arms, 0.4)
    assert found.expected == pytest.approx([0.2, 0.7, 0.9])
    assert found.baseline == pytest.approx([0.5, 1.0, 1.5])
    assert found.margin == pytest.approx([-0.1, 0.1, 0.0])
    assert found.expected_regret == pytest.approx([0.6, 0.9, 1.5])
    assert found.realised_regret == pytest.approx([-0.2, 0.6, 1.4])
    assert (found.violations, found.first_violation) == (1, 1)
    theta, features = [1.0], [[[0.5], [0.2]], [[0.1], [0.6]]]
    problem = LinearContextual(theta, features, [0, 1], Noise())
    found = evaluate(BanditRun([], np.array([1, 0, 0]), np.zeros(3)), problem, 0.5)
    assert found.margin == pytest.approx([0.2 - 0.25, 0.3 - 0.55, 0.8 - 0.8])
    assert found.expected_regret == pytest.approx([0.3, 0.8, 0.8])
    for alpha in (-0.1, 1.0, math.nan):
        with pytest.raises(InvalidInput, match="alpha"):
            evaluate(BanditRun([], np.array([1]), np.zeros(1)), arms, alpha)


# -- conservative linear UCB -------------------------------------------------------------------------------------------


def lowest(theta, inverse, radius, w):
    return theta @ w - radius * math.sqrt(max(w @ inverse @ w, 0.0))


@pytest.mark.parametrize("mode", ["known", "unknown", "optimistic", "mixed"])
def test_every_linear_decision_is_that_of_the_list_of_rounds(mode):
    roles, learned = [], 0
    for seed in range(14):
        rng = np.random.default_rng([6, seed])
        problem, delta, lambda_ = random_contextual(rng), 0.1, float(rng.choice([0.01, 1.0]))
        alpha = float(rng.choice([*ALPHAS, rng.random()]))
        learn_from = "optimistic" if mode == "optimistic" else "all"
        agent = linear_agent(problem, alpha=alpha, lambda_=lambda_, delta=delta, learn_from=learn_from)
        rounds, data = [], []
        for t in range(50):
            features, b, mean = problem.context(t)
            known = mode in ("known", "optimistic") or (mode == "mixed" and bool(rng.random() < 0.5))
            decision = agent.act(features, b, mean if known else None)
            phi, r = np.array([x for x, _ in data]).reshape(-1, problem.dimension), np.array([y for _, y in data])
            gram = lambda_ * np.eye(problem.dimension) + phi.T @ phi
            inverse = np.linalg.inv(gram)
            theta = inverse @ (phi.T @ r)
            log = (np.linalg.slogdet(gram)[1] - problem.dimension * math.log(lambda_)) / 2 - math.log(delta)
            radius = problem.sigma * math.sqrt(2 * log) + math.sqrt(lambda_) * problem.bound
            upper = [-lowest(theta, inverse, radius, -x) for x in features]
            optimist = int(np.argmax(upper))

            def proved(rounds, ellipsoid=(theta, inverse, radius), dimension=problem.dimension, alpha=alpha):
                w, sure = np.zeros(dimension), 0.0
                for arm, base, features, mean in rounds:
                    if mean is None:  # CLUCB2: all in one vector
                        w = w + features[arm] - (1 - alpha) * features[base]
                    else:  # CLUCB: z, and what the baseline earns
                        w = w + features[arm] * (arm != base)
                        sure += mean * (arm == base) - (1 - alpha) * mean
                return sure + lowest(*ellipsoid, w)

            assert decision.budget == pytest.approx(proved(rounds), abs=1e-7)
            after = proved([*rounds, (optimist, b, features, mean if known else None)])
            ahead = max(upper) - max([u for i, u in enumerate(upper) if i != optimist], default=-math.inf)
            if ahead > 1e-9 and abs(after) > 1e-7:
                assert decision.action == (optimist if after > 0 else b)
                assert decision.role == ("optimistic" if after > 0 and optimist != b else "baseline")
            reward = problem.draw(rng, t, decision.action)
            agent.observe(reward)
            rounds.append((decision.action, b, features, mean if known else None))
            if mode != "optimistic" or decision.action == optimist:
                data.append((features[decision.action], reward))
            roles.append(decision.role)
        learned += len(data)
        assert agent.t == 50
    assert roles.count("optimistic") > 100 and roles.count("baseline") > 100
    assert (learned == 14 * 50) == (mode != "optimistic")


def test_one_vector_for_both_sides_is_never_worse_than_a_bound_for_each():
    stricter = 0
    for seed in range(6):
        problem = random_contextual(np.random.default_rng([7, seed]))
        agent = linear_agent(problem, alpha=0.3, lambda_=0.01)
        earned, owed = np.zeros(problem.dimension), np.zeros(problem.dimension)
        rng = np.random.default_rng(seed)
        for t in range(40):
            features, b, _ = problem.context(t)
            decision = agent.act(features, b)
            lower, upper = agent.ellipsoid.bounds(np.array([earned, owed]))
            assert decision.budget >= lower[0] - 0.7 * upper[1] - 1e-9
            stricter += decision.budget > lower[0] - 0.7 * upper[1] + 1e-3
            agent.observe(problem.draw(rng, t, decision.action))
            earned, owed = earned + features[decision.action], owed + features[b]
    assert stricter > 120


@pytest.mark.parametrize("mode", ["known", "unknown", "optimistic"])
def test_no_linear_proof_is_above_the_truth_and_nothing_is_violated(mode):
    explored, good = 0, 0
    for seed in range(50):
        rng = np.random.default_rng([8, seed])
        problem, alpha = random_contextual(rng), float(rng.choice([*ALPHAS, rng.random()]))
        options = {"learn_from": "optimistic" if mode == "optimistic" else "all", "lambda_": 0.01, "delta": 0.01}
        agent, decisions, rewards = linear_agent(problem, alpha=alpha, **options), [], []
        holds = True
        for t in range(50):
            features, b, mean = problem.context(t)
            holds &= agent.ellipsoid.contains(problem.theta)
            decisions.append(agent.act(features, b, None if mode == "unknown" else mean))
            rewards.append(problem.draw(rng, t, decisions[-1].action))
            agent.observe(rewards[-1])
        run = BanditRun(decisions, np.array([decision.action for decision in decisions]), np.array(rewards))
        if holds:
            check_against_the_truth(run, evaluate(run, problem, alpha))
        good += holds
        explored += run.rounds - run.baseline_rounds
    assert good >= 50 - binom.ppf(1 - 1e-6, 50, 0.01)  # at rate delta: fewer once in a million
    assert explored > 150


def test_without_noise_the_linear_proof_comes_close_to_the_margin():
    problem = linear_contextual(3, 4, seed=5, noise=Noise())
    for known in (True, False):
        agent = linear_agent(problem, alpha=0.3, lambda_=1e-5)
        run = simulate_linear(problem, agent, 100, baseline_known=known)
        assert (run.decisions[-1].terms["known"] == 0.0) == (not known)
        gap = check_against_the_truth(run, evaluate(run, problem, 0.3))
        assert gap < 0.1 < evaluate(run, problem, 0.3).margin[-1]


def test_linear_ucb_violates_and_conservative_linear_ucb_does_not_and_learns_all_the_same():
    problem, alpha = linear_contextual(3, 5, seed=2, noise=Noise("uniform", 0.3)), 0.1
    for seed in range(2):
        careless = simulate_linear(problem, linear_agent(problem, alpha=1.0), 600, seed)
        assert evaluate(careless, problem, alpha).violations > 0
        for known in (True, False):
            careful = simulate_linear(problem, linear_agent(problem, alpha=alpha), 600, seed, baseline_known=known)
            found = evaluate(careful, problem, alpha)
            assert found.violations == 0
            assert careful.roles[-200:].count("optimistic") > 150
            assert found.margin[-1] > 0.2 * 600


def test_at_alpha_one_it_is_plain_linear_ucb():
    problem = linear_contextual(3, 5, seed=2)
    agent, rng = linear_agent(problem, alpha=1.0), np.random.default_rng(0)
    for t in range(100):
        features, b, mean = problem.context(t)
        upper = agent.ellipsoid.bounds(features)[1]
        decision = agent.act(features, b, mean)
        assert decision.action == int(np.argmax(upper))
        agent.observe(problem.draw(rng, t, decision.action))


def test_a_first_linear_round_by_hand():
    # nothing seen, sigma 0: theta anywhere within 0.5 of 0, so an arm of length 1 earns at least -0.5
    agent = ConservativeLinearUCB(1, alpha=0.5, sigma=0.0, bound=0.5)
    decision = agent.act([[0.8], [1.0]], 0, 0.4)
    assert decision.reason == "Plays the baseline: arm 1 could cost 0.7 more than is saved up."
    assert (decision.role, decision.action, decision.budget, decision.t) == ("baseline", 0, 0.0, 0)
    agent.observe(0.4)
    decision = agent.act([[0.8], [1.0]], 0, 0.4)
    assert decision.terms == pytest.approx({"known": 0.2, "estimated": 0.0})
    # V = 1.64, theta_hat = 0.32 / 1.64, radius 0.5: at least 0.32 / 1.64 - 0.5 / sqrt(1.64), and 0.4 / 2 is owed
    assert decision.reason == "Plays the baseline: arm 1 could cost 0.1953 more than is saved up."


# -- what is refused, what is kept -------------------------------------------------------------------------------------


def test_asking_twice_gives_the_same_answer_and_changes_nothing():
    arms, problem, rng = BernoulliArms([0.5, 0.9]), linear_contextual(2, 3), np.random.default_rng(0)
    agent, linear = ConservativeUCB(2, alpha=0.5), linear_agent(problem, alpha=0.5)
    for t in range(40):
        before = pickle.loads(pickle.dumps(agent.state_dict()))
        assert agent.act() == agent.act()
        assert same(agent.state_dict(), before)
        arm = agent.act().action
        agent.observe(arm, arms.draw(rng, arm))
        features, b, mean = problem.context(t)
        before = pickle.loads(pickle.dumps(linear.state_dict()))
        asked = linear.act(features, b, mean)
        linear.act(features[::-1], 0)  # another question
        assert linear.act(features, b, mean) == asked
        left_out = {"asked": None, "checksum": None}
        assert same(linear.state_dict() | left_out, before | left_out)
        linear.observe(problem.draw(rng, t, asked.action))


def test_a_question_is_the_agents_own_copy():
    agent, features = ConservativeLinearUCB(1, alpha=1.0, sigma=0.1, bound=1.0), np.array([[1.0], [0.5]])
    agent.act(features, 1)
    features[:] = 9.0
    agent.observe(0.5)
    assert agent.ellipsoid.gram.tolist() == [[2.0]]


BAD_ROUNDS = {
    "another arm": (1, 0.5),
    "an arm that does not exist": (7, 0.5),
    "a negative arm": (-1, 0.5),
    "half an arm": (0.5, 0.5),
    "a reward above the largest": (0, 1.01),
    "a negative reward": (0, -0.01),
    "a reward that is no number": (0, math.nan),
    "an infinite reward": (0, math.inf),
}


@pytest.mark.parametrize("bad", BAD_ROUNDS)
def test_an_impossible_round_is_refused_and_changes_nothing(bad):
    agent = ConservativeUCB(2, alpha=0.1, baseline_mean=0.5)
    agent.observe(0, 1.0)
    before = pickle.loads(pickle.dumps(agent.state_dict()))
    with pytest.raises(InvalidInput):
        agent.observe(*BAD_ROUNDS[bad])
    assert same(agent.state_dict(), before)
    agent.observe(0, 1.0)
    assert agent.t == 2


def test_the_refusal_of_another_arm_says_which_was_asked_for():
    with pytest.raises(InvalidInput, match="asked for arm 0, not 1"):
        ConservativeUCB(2, alpha=0.1, baseline_mean=0.5).observe(1, 0.5)


BAD_QUESTIONS = {
    "no such baseline": (([[1.0, 0.0], [0.0, 1.0]], 2, 0.5), "baseline 2: the arms are 0 to 1"),
    "a negative baseline": (([[1.0, 0.0], [0.0, 1.0]], -1, 0.5), "baseline -1"),
    "half a baseline": (([[1.0, 0.0], [0.0, 1.0]], 0.5, 0.5), r"baseline 0\.5"),
    "another dimension": (([[1.0, 0.0, 0.0]], 0, 0.5), r"must be \[n, 2\]"),
    "no arm": ((np.zeros((0, 2)), 0, 0.5), "with an arm at least"),
    "one vector": (([1.0, 0.0], 0, 0.5), r"must be \[n, 2\]"),
    "ragged features": (([[1.0, 0.0], [1.0]], 0, 0.5), "ragged"),
    "words": (([["a", "b"]], 0, 0.5), "must be numbers"),
    "features that are no numbers": (([[1.0, 0.0], [math.nan, 0.0]], 0, 0.5), "arm 1: its features are not finite"),
    "infinite features": (([[math.inf, 0.0], [1.0, 0.0]], 1, 0.5), "arm 0: its features are not finite"),
    "huge features": (([[1.0, 0.0], [1e4, 0.0]], 0, 0.5), "arm 1: .* too large"),
    "an infinite mean": (([[1.0, 0.0], [0.0, 1.0]], 0, math.inf), "baseline_mean inf"),
    "a mean that is no number": (([[1.0, 0.0], [0.0, 1.0]], 0, math.nan), "baseline_mean nan"),
}


@pytest.mark.parametrize("bad", BAD_QUESTIONS)
def test_a_round_that_cannot_be_played_is_refused_and_changes_nothing(bad):
    agent = ConservativeLinearUCB(2, alpha=0.1, sigma=0.5, bound=1.0)
    agent.act([[1.0, 0.0], [0.0, 1.0]], 0, 0.5)
    before = pickle.loads(pickle.dumps(agent.state_dict()))
    question, word = BAD_QUESTIONS[bad]
    with pytest.raises(InvalidInput, match=word):
        agent.act(*question)
    assert same(agent.state_dict(), before)


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_no_number_is_refused_and_changes_nothing(reward):
    agent = ConservativeLinearUCB(2, alpha=0.1, sigma=0.5, bound=1.0)
    with pytest.raises(SurefootedError, match="no round to observe"):
        agent.observe(0.5)
    agent.act([[1.0, 0.0], [0.0, 1.0]], 0, 0.5)
    before = pickle.loads(pickle.dumps(agent.state_dict()))
    with pytest.raises(InvalidInput, match="not finite"):
        agent.observe(reward)
    assert same(agent.state_dict(), before)
    agent.observe(-0.3)  # sub-Gaussian rewards may leave [0, 1]
    assert agent.t == 1
    with pytest.raises(SurefootedError, match="no round to observe"):
        agent.observe(0.5)


def test_every_fault_of_an_agents_settings_is_named_at_once():
    wrong = {"alpha": 2.0, "baseline": 3, "baseline_mean": 1.5, "delta": 1.0}
    with pytest.raises(InvalidInput) as caught:
        ConservativeUCB(3, **wrong)
    words = ("baseline 3", "alpha 2.0", "delta 1.0", r"baseline_mean 1.5")
    assert [fault.startswith(word) for word, fault in zip(words, caught.value.faults, strict=True)] == [True] * 4
    for options in ({"alpha": 0.0}, {"alpha": math.nan}, {"alpha": 0.5, "r_max": 0.0}, {"alpha": 0.5, "delta": 0.0}):
        with pytest.raises(InvalidInput):
            ConservativeUCB(3, **options)
    with pytest.raises(InvalidInput, match="n_arms 0"):
        ConservativeUCB(0, alpha=0.5)
    wrong = {"alpha": -1.0, "sigma": -1.0, "bound": math.nan, "lambda_": 0.0, "delta": 0.0, "learn_from": "dreams"}
    with pytest.raises(InvalidInput) as caught:
        ConservativeLinearUCB(0, **wrong)
    words = ("alpha", "learn_from", "dimension", "sigma", "bound", "lambda_", "delta")
    assert [fault.split()[0] for fault in caught.value.faults] == list(words)
    agent = ConservativeLinearUCB(1, alpha=0.5, sigma=0.5, bound=1.0, learn_from="optimistic")
    with pytest.raises(InvalidInput, match="give its baseline_mean"):
        agent.act([[1.0]], 0)


@pytest.mark.parametrize("taken", [0, 1, 60])
@pytest.mark.parametrize("mean", [0.5, None])
def test_a_restored_agent_goes_on_exactly(taken, mean):
    arms, rng = BernoulliArms([0.5, 0.9, 0.1]), np.random.default_rng(1)
    agents = [ConservativeUCB(3, alpha=0.3, baseline_mean=mean) for _ in range(2)]
    for _ in range(taken):
        arm = agents[0].act().action
        agents[0].observe(arm, arms.draw(rng, arm))
    state = agents[0].state_dict()
    stored = pickle.dumps(state)
    assert agents[1].load_state_dict(pickle.loads(stored)) is agents[1]
    for _ in range(60):
        assert agents[0].act() == agents[1].act()
        arm = agents[0].act().action
        reward = arms.draw(rng, arm)
        for agent in agents:
            agent.observe(arm, reward)
    assert same(agents[0].state_dict(), agents[1].state_dict())
    assert same(state, pickle.loads(stored))  # what was taken has not moved


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("taken", [0, 1, 40])
def test_a_restored_linear_agent_goes_on_exactly_even_between_question_and_answer(taken, asked):
    problem, rng = linear_contextual(3, 4, seed=1), np.random.default_rng(1)
    agents = [linear_agent(problem, alpha=0.3) for _ in range(2)]
    for t in range(taken):
        agents[0].observe(problem.draw(rng, t, agents[0].act(*problem.context(t)).action))
    if asked:
        agents[0].act(*problem.context(taken))
    state = agents[0].state_dict()
    stored = pickle.dumps(state)
    assert agents[1].load_state_dict(pickle.loads(stored)) is agents[1]
    if asked:
        for agent in agents:
            agent.observe(0.7)
    for t in range(taken + asked, taken + 40):
        one, two = (agent.act(*problem.context(t)) for agent in agents)
        assert one == two
        reward = problem.draw(rng, t, one.action)
        for agent in agents:
            agent.observe(reward)
    assert same(agents[0].state_dict(), agents[1].state_dict())
    assert same(state, pickle.loads(stored))


def test_the_state_of_another_agent_is_refused_and_changes_nothing():
    one, two = (ConservativeUCB(n, alpha=0.5, baseline_mean=0.5) for n in (1, 3))
    thin, wide = (ConservativeLinearUCB(d, alpha=0.5, sigma=0.5, bound=1.0) for d in (1, 3))
    for small, large in ((one, two), (thin, wide)):
        before = large.state_dict()
        with pytest.raises(InvalidInput, match="belongs to another"):
            large.load_state_dict(small.state_dict())
        assert same(large.state_dict(), before)


def test_runs_are_reproducible_and_need_an_agent_that_fits():
    arms, problem = BernoulliArms([0.5, 0.9]), linear_contextual(2, 3)
    one, two = (simulate_arms(arms, ConservativeUCB(2, alpha=0.3), 50, seed=3) for _ in range(2))
    assert one.decisions == two.decisions and one.rewards.tolist() == two.rewards.tolist()
    assert one.arms.tolist() == [decision.action for decision in one.decisions]
    used = ConservativeUCB(2, alpha=0.3)
    used.observe(used.act().action, 1.0)
    for agent in (ConservativeUCB(3, alpha=0.3), ConservativeUCB(2, alpha=0.3, baseline=1), used):
        with pytest.raises(InvalidInput, match="do not fit"):
            simulate_arms(arms, agent, 50)
    for rounds in (0, -1, 2.5):
        with pytest.raises(InvalidInput, match="rounds"):
            simulate_arms(arms, ConservativeUCB(2, alpha=0.3), rounds)
        with pytest.raises(InvalidInput, match="rounds"):
            simulate_linear(problem, linear_agent(problem, alpha=0.3), rounds)
    with pytest.raises(InvalidInput, match="dimension: 2 in the problem, 3 in the agent"):
        simulate_linear(problem, ConservativeLinearUCB(3, alpha=0.3, sigma=0.5, bound=1.0), 10)


def test_every_reason_is_a_sentence_with_its_numbers():
    arms = BernoulliArms([0.5, 0.9, 0.1])
    run = simulate_arms(arms, ConservativeUCB(3, alpha=0.3, baseline_mean=0.5), 200)
    explores = r"Explores arm (\d): its mean may be [\d.]+, and at least [\d.e-]+ stays saved up\."
    saves = r"Plays the baseline: arm (\d) could cost [\d.e-]+ more than is saved up\."
    for decision in run.decisions:
        found = re.fullmatch(explores if decision.role == "optimistic" else saves, decision.reason)
        assert found, decision.reason
        assert decision.length == 1
        assert (int(found[1]) == decision.action) == (decision.role == "optimistic")
    assert set(run.roles) == {"baseline", "optimistic"}
    assert run.baseline_rounds == run.roles.count("baseline") == int((run.arms == 0).sum())


# -- problems ----------------------------------------------------------------------------------------------------------


def test_impossible_arms_are_refused_with_every_fault():
    with pytest.raises(InvalidInput) as caught:
        BernoulliArms([0.5, -0.1, 1.2, math.nan], baseline=4)
    assert [fault.split(":")[0] for fault in caught.value.faults] == ["arm 1", "arm 2", "arm 3", "baseline 4"]
    for means in ([], [[0.5]], ["a"], 0.5):
        with pytest.raises(InvalidInput):
            BernoulliArms(means)
    for arm in (2, -1, 0.5):
        with pytest.raises(InvalidInput, match="the arms are 0 to 1"):
            BernoulliArms([0.5, 0.5]).draw(np.random.default_rng(0), arm)
        with pytest.raises(InvalidInput, match="the arms are 0 to 1"):
            linear_contextual(2, 2).draw(np.random.default_rng(0), 0, arm)


def test_arms_are_their_own_copy_and_pay_their_mean():
    means = np.array([0.2, 0.7])
    arms, rng, n = BernoulliArms(means), np.random.default_rng(0), 4000
    means[:] = 0.0
    assert arms.means.tolist() == [0.2, 0.7]
    with pytest.raises(ValueError, match="read-only"):
        pickle.loads(pickle.dumps(arms)).means[0] = 1.0
    for i, mean in enumerate([0.2, 0.7]):
        rewards = [arms.draw(rng, i) for _ in range(n)]
        assert set(rewards) == {0.0, 1.0}
        assert abs(np.mean(rewards) - mean) <= 5 * math.sqrt(0.25 / n)  # 5 standard errors: below one in a million


def test_impossible_contextual_bandits_are_refused_with_every_fault():
    with pytest.raises(InvalidInput) as caught:
        LinearContextual([1.0], [[[0.5], [1.5]], [[-0.1], [0.5]]], [0, 2])
    faults = ["context 0, arm 1: mean 1.5 is", "context 1, arm 0: mean -0.1 is", "context 1: baseline 2: the"]
    assert all(fault.startswith(word) for word, fault in zip(faults, caught.value.faults, strict=True))
    for theta, features, baseline, noise in (
        ([1.0], [[0.5]], 0, Noise()),
        ([1.0, 0.0], [[[0.5]]], 0, Noise()),
        ([], np.zeros((1, 1, 0)), 0, Noise()),
        ([math.nan], [[[0.5]]], 0, Noise()),
        ([1.0], [[[math.inf]]], 0, Noise()),
        ([1.0], [[[0.5]]], [0, 0], Noise()),
        ([1.0], [[[0.5]]], 0.5, Noise()),
        ([1.0], [[[0.5]]], 0, "bernoulli"),
        (["a"], [[[0.5]]], 0, Noise()),
    ):
        with pytest.raises(InvalidInput):
            LinearContextual(theta, features, baseline, noise)
    with pytest.raises(InvalidInput) as caught:
        linear_contextual(0, -1, contexts=0, baseline_mean=(0.5, 1.5))
    assert len(caught.value.faults) == 4


@pytest.mark.parametrize("dimension", [1, 2, 6])
def test_a_random_contextual_bandit_keeps_its_promises(dimension):
    problem = linear_contextual(dimension, 4, seed=3, contexts=500, baseline_mean=(0.2, 0.4))
    assert problem.bound == pytest.approx(1.0)
    assert problem.feature_bound <= 1 + 1e-12
    assert (problem.n_contexts, problem.n_arms, problem.dimension) == (500, 4, dimension)
    assert problem.means == pytest.approx(np.clip(np.einsum("cid,d->ci", problem.features, problem.theta), 0, 1))
    assert problem.means.min() < 0.02 and problem.means.max() > 0.98
    features, b, mean = problem.context(507)
    assert features is not None and np.array_equal(features, problem.features[7])
    assert mean == problem.means[7, b] and b == problem.baseline[7]
    means, baselines = problem.rounds(1000)
    assert np.array_equal(means[500:], means[:500]) and np.array_equal(baselines, np.tile(problem.baseline, 2))
    chosen = means[np.arange(1000), baselines]
    assert chosen.min() >= 0.2 - 1e-12 and chosen.max() <= 0.4 + 1e-12 and chosen.std() > 0.02
    assert len(set(problem.baseline.tolist())) == 4
    assert np.array_equal(linear_contextual(dimension, 4, seed=3, contexts=500).theta, problem.theta)
    assert not np.array_equal(linear_contextual(dimension, 4, seed=4, contexts=500).features, problem.features)
    if dimension > 1:  # arms also point elsewhere
        aside = problem.features - problem.means[..., None] * problem.theta
        assert np.linalg.norm(aside, axis=2).max() > 0.5


def moment(noise, mean, x):
    """E exp(x η) by a fine sum over the noise's own quantiles."""
    u = (np.arange(20_000) + 0.5) / 20_000
    half = min(mean, 1 - mean)
    if noise.kind == "bernoulli":
        eta = np.array([1 - mean, -mean])
        return np.exp(np.outer(x, eta)) @ [mean, 1 - mean]
    if noise.kind == "uniform":
        eta = min(noise.scale, half) * (2 * u - 1)
    else:
        from scipy.stats import norm

        eta = noise.scale * mean * norm.ppf(u)
        eta = np.clip(eta, -half, half) if noise.kind == "truncated_gaussian" else eta
    return np.exp(np.outer(x, eta)).mean(axis=1)


@pytest.mark.parametrize(
    ("kind", "scale", "sigma"),
    [
        ("bernoulli", 0.0, 0.5),
        ("uniform", 0.3, 0.3 / math.sqrt(3)),
        ("uniform", 3.0, 0.5 / math.sqrt(3)),
        ("gaussian", 0.4, 0.4),
        ("truncated_gaussian", 0.4, 0.4),
        ("truncated_gaussian", 3.0, 0.5),
        ("none", 0.0, 0.0),
    ],
)
def test_the_sigma_of_a_problem_bounds_every_moment_of_its_noise(kind, scale, sigma):
    noise = Noise(kind, scale)
    assert linear_contextual(2, 2, noise=noise).sigma == pytest.approx(sigma)
    if kind == "none":
        return
    x = np.linspace(-8, 8, 41)
    for mean in (0.05, 0.3, 0.5, 0.9, 1.0):
        assert np.all(moment(noise, mean, x) <= np.exp(x**2 * sigma**2 / 2) * (1 + 1e-6))


# -- the one-state, one-step case -------------------------------------------------------------------------------------


class BestSoFar:
    """The intersection of all intervals so far, so that today's bounds are the best; the baseline's may be known."""

    def __init__(self, confidence, baseline, mean):
        self.confidence, self.baseline, self.mean = confidence, baseline, mean
        self.lower, self.upper = 0.0, np.inf

    def __call__(self, counts, delta):
        plausible = self.confidence(counts, delta)
        self.lower = np.maximum(self.lower, plausible.r_lower)
        self.upper = np.minimum(self.upper, plausible.r_upper)
        if self.mean is not None:
            self.lower[self.baseline] = self.upper[self.baseline] = self.mean
        return intervals(counts.space, self.lower.copy(), self.upper.copy())


@pytest.mark.first(2)
@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("confidence", [likelihood, wu], ids=["likelihood", "wu"])
def test_cucbvi_with_one_state_and_one_step_makes_the_decisions_of_conservative_ucb(confidence, is_known, pooled):
    explored = 0
    for seed in range(4):
        rng = np.random.default_rng([seed, 7])
        n, alpha = int(rng.integers(2, 6)), float(rng.uniform(0.05, 0.6))  # no exact ties with 0
        arms = BernoulliArms(rng.random(n), int(rng.integers(n)))
        mean = float(arms.means[arms.baseline]) if is_known else None
        bounds = [BestSoFar(confidence, arms.baseline, mean) for _ in range(2)]
        told = {"baseline": arms.baseline, "baseline_mean": mean, "confidence": bounds[0]}
        bandit = ConservativeUCB(n, alpha=alpha, **told, pooled=pooled)
        problem = arms.problem()
        baseline = Baseline(problem.baseline, values=None if mean is None else np.array([mean]))
        options = {"confidence": bounds[1], "patience": 0.0, "pooled": pooled}
        agent = CUCBVI(problem.space, 1, baseline=baseline, alpha=alpha, **options)
        for t in range(500):
            agent.begin(0)
            here, there = bandit.act(), agent.act(0)
            assert (here.action, here.role) == (there.action, there.role), (seed, t)
            assert here.budget == pytest.approx(there.budget, abs=1e-9)
            reward = arms.draw(rng, here.action)
            bandit.observe(here.action, reward)
            agent.observe(0, there.action, reward, 0)
            explored += here.role == "optimistic"
    assert explored > 150
