"""Backward inductions with exploration bonuses against slow ones written from the formulas, and against numbers."""

import itertools
import math

import numpy as np
import pytest

from surefooted.agents.euler import EULERLearner
from surefooted.agents.ucbvi import UCBVILearner
from surefooted.data.counts import Counts
from surefooted.kernels import bonus, stages
from surefooted.kernels.bonus import EULER_BONUS, FIXED_BONUS, FREEDMAN_BONUS
from surefooted.kernels.structs import BonusTerms, Estimates
from surefooted.tables.policy import Policy
from surefooted.tables.space import Space

SAME = 1e-12
kinds = pytest.mark.parametrize("staged", [False, True], ids=["shared", "staged"])


def both(kernel):
    return pytest.mark.parametrize("kernel", [kernel, kernel.py_func], ids=["compiled", "plain"])


def some_counts(seed, horizon, staged):
    """Counts on a small space in which some actions are missing and some rows were never visited."""
    rng = np.random.default_rng([31, seed])
    n_states, n_actions = 1 + seed % 4, 1 + seed % 3
    available = rng.random((n_states, n_actions)) < 0.8
    available[np.arange(n_states), rng.integers(n_actions, size=n_states)] = True
    space = Space.from_available(available, (1.0, 2.5, 0.25)[seed % 3])
    counts = Counts(space, stages=horizon if staged else 1)
    n = int(rng.choice([0, 5, 60, 3000]))
    rows = rng.choice(counts.n_rows, size=n, p=rng.dirichlet(np.full(counts.n_rows, 0.5)))
    counts.add_steps(rows, space.r_max * rng.random(n), rng.integers(n_states, size=n))
    return counts, rng


def estimates(counts):
    """What the kernels take."""
    mean = counts.reward_sum / np.maximum(counts.visits, 1)
    return counts.space.pair_ptr, Estimates(counts.visits, mean, *counts.rows())


def dense(counts, m):
    """Visits, mean reward and p̂ [S] of a row."""
    next_ptr, next_state, count = counts.rows()
    p, n = np.zeros(counts.space.n_states), int(counts.visits[m])
    for j in range(next_ptr[m], next_ptr[m + 1]):
        p[next_state[j]] += count[j] / n
    return n, counts.reward_sum[m] / max(n, 1), p


def variance(p, v):
    return float(p @ v**2 - (p @ v) ** 2)


def greedy_from(q, space):
    """Each state's largest q [K] and the first pair that has it."""
    pairs = [max(range(space.pair_ptr[s], space.pair_ptr[s + 1]), key=lambda k: q[k]) for s in range(space.n_states)]
    return np.array([q[k] for k in pairs]), np.array(pairs)


def assert_greedy(pair, truth, q, space):
    """The pairs are the truth's, or as good to rounding."""
    for h, s in np.ndindex(pair.shape):
        assert space.pair_ptr[s] <= pair[h, s] < space.pair_ptr[s + 1]
        assert q[h][pair[h, s]] == pytest.approx(q[h][truth[h, s]], abs=SAME)


def slow_plan(counts, horizon, q_of):
    """Backward induction with Q of pair k at stage h from q_of(h, k, n, r, p, v)."""
    space, K = counts.space, counts.space.n_pairs
    values, pairs, qs = np.zeros((horizon + 1, space.n_states)), [], []
    for h in range(horizon - 1, -1, -1):
        q = [q_of(h, k, *dense(counts, k + h * K * (counts.stages > 1)), values[h + 1]) for k in range(K)]
        values[h], pair = greedy_from(q, space)
        pairs.insert(0, pair)
        qs.insert(0, q)
    return values, np.array(pairs), qs


@both(stages.greedy_stages)
@kinds
def test_greedy_stages_adds_the_bonus_and_cuts_at_what_can_be_earned(kernel, staged):
    cut = 0
    for seed in range(24):
        horizon = 1 + seed % 4
        counts, rng = some_counts(seed, horizon, staged)
        space, top = counts.space, counts.space.r_max
        added = rng.choice([0.01, 0.1, 1.0]) * top * rng.random(counts.n_rows)

        def q_of(h, k, n, r, p, v, horizon=horizon, top=top, counts=counts, added=added, space=space):
            most = (horizon - h) * top
            return min(r + added[k + h * space.n_pairs * (counts.stages > 1)] + p @ v, most) if n else most

        truth, pairs, qs = slow_plan(counts, horizon, q_of)
        values = np.zeros((horizon + 1, space.n_states))
        for before in (-1, 0):
            pair = np.full((horizon, space.n_states), before) if before else pairs.copy()
            old = pair.copy()
            changed = kernel(*estimates(counts), BonusTerms(FIXED_BONUS, added), top, values, pair)
            assert values == pytest.approx(truth, abs=SAME * top)
            assert changed == (not np.array_equal(old, pair))
            assert_greedy(pair, pairs, qs, space)
        caps = (horizon - np.arange(horizon)) * top
        cut += np.sum(values[:-1] == caps[:, None]) < values[:-1].size
    assert cut > 5, "a test without power"


@both(stages.estimated_policy_stages)
@kinds
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_estimated_policy_stages_is_equation_pess_pe_fh(kernel, staged, sign):
    for seed in range(24):
        horizon = 1 + seed % 4
        counts, rng = some_counts(seed, horizon, staged)
        space, top, K = counts.space, counts.space.r_max, counts.space.n_pairs
        bonus = rng.choice([0.01, 0.1, 1.0]) * top * rng.random(counts.n_rows)
        weights = rng.random((horizon, K))
        weights /= np.repeat(np.add.reduceat(weights, space.pair_ptr[:-1], axis=1), np.diff(space.pair_ptr), axis=1)
        sizes = np.diff(space.pair_ptr)
        for policy in (
            Policy(space, weights=weights),
            Policy(space, weights=weights[0]),
            Policy(space, pair=space.pair_ptr[:-1] + rng.integers(sizes)),
            Policy(space, pair=space.pair_ptr[:-1] + rng.integers(sizes, size=(horizon, space.n_states))),
        ):
            rule = np.broadcast_to(policy.dense_weights, (horizon, K))
            truth = np.zeros((horizon + 1, space.n_states))
            for h, k in itertools.product(range(horizon - 1, -1, -1), range(K)):
                m, most = k + h * K * (counts.stages > 1), (horizon - h) * top
                n, r, p = dense(counts, m)
                q = float(np.clip(r + sign * bonus[m] + p @ truth[h + 1], 0, most))
                q = q if n else (most if sign > 0 else 0.0)
                truth[h, space.pair_state[k]] += rule[h, k] * q
            values = np.zeros((horizon + 1, space.n_states))
            kernel(*estimates(counts), bonus, top, sign, *policy.stages(horizon), values)
            assert values == pytest.approx(truth, abs=SAME * top)


def freedman_q(counts, horizon, stage_visits, reward_bonus, log, q_before):
    """Azar, Osband & Munos (2017), Alg. 2 and the bonus of Alg. 4, with rewards up to r_max."""
    space, top = counts.space, counts.space.r_max
    H, S, A = horizon, space.n_states, space.n_actions

    def q_of(h, k, n, r, p, v):
        most = (H - h) * top
        if n:
            b = 0.0
            if h + 1 < H:
                rest = 0.0
                for y in range(S):
                    after = stage_visits[h + 1, y]
                    rare = 100**2 * H**3 * S**2 * A * log**2 / after if after else math.inf
                    rest += p[y] * min(rare, H**2)
                b = math.sqrt(8 * log * max(variance(p, v), 0.0) / n) + top * (
                    14 * H * log / (3 * n) + math.sqrt(8 / n * rest)
                )
            bonus = reward_bonus[k + h * space.n_pairs * (counts.stages > 1)]
            most = min(most, r + bonus + p @ v + b)
        return min(q_before[h, k], most)

    return q_of


@both(stages.greedy_stages)
@kinds
def test_freedman_stages_is_azar_et_al(kernel, staged):
    free = 0
    for seed in range(24):
        horizon = 1 + seed % 4
        counts, rng = some_counts(seed, horizon, staged)
        space, top = counts.space, counts.space.r_max
        log = (0.01, 1e-4, 2.0)[seed % 3]  # small ones, or nothing would ever be below its cut
        stage_visits = rng.choice([0, 1, 50, 10**7], size=(horizon, space.n_states))
        reward_bonus = 0.05 * top * rng.random(counts.n_rows)
        q_before = np.where(rng.random((horizon, space.n_pairs)) < 0.7, np.inf, top * rng.random((horizon, 1)) * 4)
        mine = q_before.copy()
        q_of = freedman_q(counts, horizon, stage_visits, reward_bonus, log, q_before)
        truth, _, qs = slow_plan(counts, horizon, q_of)
        values, pair = np.zeros((horizon + 1, space.n_states)), np.full((horizon, space.n_states), -1)
        added = BonusTerms(
            FREEDMAN_BONUS, reward_bonus, np.full(counts.n_rows, log), stage_visits, space.n_actions, mine
        )
        table = (*estimates(counts), added, top)
        assert kernel(*table, values, pair)
        # a variance as a difference of squares is exact to a rounding of v², and enters under a root
        assert values == pytest.approx(truth, abs=1e-7 * top)
        assert mine == pytest.approx(np.array(qs), abs=1e-7 * top)
        for h, s in np.ndindex(pair.shape):
            assert mine[h, pair[h, s]] == values[h, s]
        caps = (horizon - np.arange(horizon))[:, None] * top
        free += np.any((values[:-1] < caps) & (np.arange(horizon)[:, None] < horizon - 1))
        again, kept = values.copy(), pair.copy()
        assert not kernel(*table, values, pair)  # Q never rises, and the same data give the same plan
        assert np.array_equal(values, again) and np.array_equal(pair, kept)
    assert free > 4, "a test without power"


def freedman_by_hand(kernel, stage_visits, top=1.0, log=1.0, n_states=2, H=2, first=np.inf):
    """State 0 at stage 0: visited a million times, one half to each state; both earn 0 or r_max / 2 at the end.

    One more action exists in each state, so that A = 2; it has been tried as often, and earned nothing.
    """
    pair_ptr = 2 * np.arange(n_states + 1)
    n = np.full(2 * n_states, 10**6)
    r = np.zeros(2 * n_states)
    r[2] = 0.5 * top  # state 1, action 0
    next_ptr = np.arange(0, 4 * n_states + 1, 2)
    next_state, next_count = np.tile([0, 1], 2 * n_states), np.full(4 * n_states, 500_000)
    values, pair = np.zeros((H + 1, n_states)), np.full((H, n_states), -1)
    q_before = np.full((H, 2 * n_states), first)
    visited = np.broadcast_to(np.array(stage_visits), (H, n_states)).copy()
    added = BonusTerms(FREEDMAN_BONUS, np.zeros(2 * n_states), np.full(2 * n_states, log), visited, 2, q_before)
    kernel(pair_ptr, Estimates(n, r, next_ptr, next_state, next_count), added, top, values, pair)
    return values, pair


@both(stages.greedy_stages)
def test_freedman_by_hand_when_the_next_states_are_rarely_visited(kernel):
    # v_1 = (0, 1/2), mean 1/4, variance 1/16; L = 1, N = 10^6, H = 2:
    # sqrt(8 / 16 / 10^6) = 7.0710678119e-4, 14 x 2 / (3 x 10^6) = 9.3333333333e-6, sqrt(8 x 4 / 10^6) = 5.6568542495e-3
    # since 100^2 x 8 x 4 x 2 x 1 / N' > 4 for N' < 160 000
    b = 7.0710678118655e-4 + 9.3333333333333e-6 + 5.6568542494924e-3
    values, pair = freedman_by_hand(kernel, 159_999)
    assert values[1].tolist() == [0.0, 0.5] and values[2].tolist() == [0.0, 0.0]
    assert values[0] == pytest.approx([0.25 + b, 0.5 + 0.25 + b], abs=1e-13)
    assert pair.tolist() == [[0, 2], [0, 2]]


@both(bonus.freedman_bonus)
def test_the_freedman_bonus_of_a_row_by_hand(kernel):
    # the first row above, and nothing at the last stage
    rows = Estimates(np.array([10**6]), np.zeros(1), np.array([0, 2]), np.array([0, 1]), np.full(2, 500_000))
    terms = BonusTerms(FREEDMAN_BONUS, np.zeros(1), np.ones(1), np.full((2, 2), 159_999), 2)
    values = np.array([[7.0, 7.0], [0.0, 0.5], [0.0, 0.0]])
    b = 7.0710678118655e-4 + 9.3333333333333e-6 + 5.6568542494924e-3
    assert kernel(rows, terms, 0, 0, 0.25, 1.0, values) == pytest.approx(b, abs=1e-15)
    assert kernel(rows, terms, 0, 1, 0.0, 1.0, values) == 0.0


@both(bonus.euler_bonus)
def test_the_euler_bonus_of_a_row_by_hand(kernel):
    # that of state 0 in `test_euler_by_hand`, for the upper and for the lower bound
    rows = Estimates(np.array([10_000]), np.zeros(1), np.array([0, 2]), np.array([0, 1]), np.full(2, 5000))
    upper, lower = np.array([[9.0, 9.0], [0.01, 0.51], [0.0, 0.0]]), np.array([[9.0, 9.0], [0.0, 0.49], [0.0, 0.0]])
    terms = BonusTerms(EULER_BONUS, np.zeros(1), np.full(1, 2.0), lower=lower)
    found = kernel(rows, terms, 0, 0, 0.26, 1.0, upper[1], upper)
    assert found == pytest.approx(0.005 + 3.16227766017e-4 + 0.0006, abs=1e-14)
    found = kernel(rows, terms, 0, 0, 0.245, 1.0, lower[1], upper)
    assert found == pytest.approx(0.0049 + 3.16227766017e-4 + 0.0006, abs=1e-14)


@both(stages.greedy_stages)
def test_freedman_by_hand_when_the_next_states_are_often_visited(kernel):
    # N' = 640 000: 100^2 H^3 S^2 A L^2 / N' = 640 000 / 640 000 = 1 < H^2 = 4; sqrt(8 x 1 / 10^6) = 2.8284271247e-3
    b = 7.0710678118655e-4 + 9.3333333333333e-6 + 2.8284271247462e-3
    values, _ = freedman_by_hand(kernel, 640_000)
    assert values[0] == pytest.approx([0.25 + b, 0.75 + b], abs=1e-13)
    # state 1 rarely: (1 + 4) / 2 under the root: sqrt(8 x 2.5 / 10^6) = 4.4721359550e-3
    values, _ = freedman_by_hand(kernel, [640_000, 0])
    b = 7.0710678118655e-4 + 9.3333333333333e-6 + 4.4721359549996e-3
    assert values[0] == pytest.approx([0.25 + b, 0.75 + b], abs=1e-13)


@both(stages.greedy_stages)
def test_freedman_by_hand_counts_the_visits_of_the_next_stage(kernel):
    b = 7.0710678118655e-4 + 9.3333333333333e-6 + 2.8284271247462e-3
    values, _ = freedman_by_hand(kernel, [[0, 0], [640_000, 640_000]])  # as above
    assert values[0] == pytest.approx([0.25 + b, 0.75 + b], abs=1e-13)
    b = 7.0710678118655e-4 + 9.3333333333333e-6 + 5.6568542494924e-3
    values, _ = freedman_by_hand(kernel, [[640_000, 640_000], [0, 0]])
    assert values[0] == pytest.approx([0.25 + b, 0.75 + b], abs=1e-13)


@both(stages.greedy_stages)
@pytest.mark.parametrize("top", [3.0, 0.125])
def test_freedman_scales_with_the_largest_reward(kernel, top):
    for visits in (159_999, 640_000, 10**8):
        values, _ = freedman_by_hand(kernel, visits, top, log=2.0)
        assert values == pytest.approx(top * freedman_by_hand(kernel, visits, log=2.0)[0], rel=1e-13)


@both(stages.greedy_stages)
def test_freedman_by_hand_with_another_logarithm(kernel):
    # L = 3: sqrt(8 x 3 / 16 / 10^6) = 1.2247448714e-3, 14 x 2 x 3 / (3 x 10^6) = 2.8e-5, and 640 000 x 9 / N' = 1.44
    # for N' = 4 000 000: sqrt(8 x 1.44 / 10^6) = 3.3941125497e-3
    values, _ = freedman_by_hand(kernel, 4_000_000, log=3.0)
    b = 1.2247448713916e-3 + 2.8e-5 + 3.3941125496954e-3
    assert values[0] == pytest.approx([0.25 + b, 0.75 + b], abs=1e-13)


@both(stages.greedy_stages)
def test_freedman_never_raises_a_q(kernel):
    # v_1 = (0, .2), mean .1, variance .01: .1 + sqrt(8 x .01 / 10^6) + 14 x 2 / (3 x 10^6) + sqrt(8 x 4 / 10^6)
    lower = 0.1 + 2.8284271247462e-4 + 9.3333333333333e-6 + 5.6568542494924e-3
    values, pair = freedman_by_hand(kernel, 0, first=0.2)
    assert values == pytest.approx(np.array([[lower, 0.2], [0.0, 0.2], [0.0, 0.0]]), abs=1e-13)
    assert pair.tolist() == [[0, 2], [0, 2]]


def slow_euler(counts, horizon, reward_bonus, log):
    """Upper and lower bounds on V* by the formulas of EULER's docstring."""
    space, K, top = counts.space, counts.space.n_pairs, counts.space.r_max
    upper, lower = np.zeros((horizon + 1, space.n_states)), np.zeros((horizon + 1, space.n_states))
    pairs = []
    for h in range(horizon - 1, -1, -1):
        most, ahead, q = (horizon - h) * top, (horizon - h - 1) * top, []

        def bonus(m, v, n, p, h=h, ahead=ahead):
            gap = math.sqrt(p @ (upper[h + 1] - lower[h + 1]) ** 2)
            phi = math.sqrt(2 * log[m] * max(variance(p, v), 0.0) / n) + 3 * ahead * log[m] / n
            return reward_bonus[m] + phi + math.sqrt(2 * log[m] / n) * gap

        for k in range(K):
            m = k + h * K * (counts.stages > 1)
            n, r, p = dense(counts, m)
            q.append(min(most, r + p @ upper[h + 1] + bonus(m, upper[h + 1], n, p)) if n else most)
        upper[h], pair = greedy_from(q, space)
        for s, k in enumerate(pair):
            m = k + h * K * (counts.stages > 1)
            n, r, p = dense(counts, m)
            lower[h, s] = max(0.0, r + p @ lower[h + 1] - bonus(m, lower[h + 1], n, p)) if n else 0.0
        pairs.insert(0, pair)
    return upper, lower, np.array(pairs)


@both(stages.greedy_stages)
@kinds
def test_euler_stages_bounds_from_both_sides(kernel, staged):
    free = 0
    for seed in range(24):
        horizon = 1 + seed % 4
        counts, rng = some_counts(seed, horizon, staged)
        space, top = counts.space, counts.space.r_max
        log = rng.choice([1e-3, 0.1, 1.0]) * (1 + rng.random(counts.n_rows))
        reward_bonus = 0.02 * top * rng.random(counts.n_rows)
        upper, lower, pairs = slow_euler(counts, horizon, reward_bonus, log)
        high, low = np.zeros_like(upper), np.zeros_like(lower)
        pair = np.full((horizon, space.n_states), -1)
        table = (*estimates(counts), BonusTerms(EULER_BONUS, reward_bonus, log, lower=low), top)
        assert kernel(*table, high, pair)
        assert high == pytest.approx(upper, abs=1e-7 * top)
        if np.array_equal(pair, pairs):  # of equal pairs rounding may choose another, with another lower bound
            assert low == pytest.approx(lower, abs=1e-7 * top)
            free += np.any(low[0] > 0)
        again = high.copy(), low.copy()
        assert not kernel(*table, high, pair)
        assert np.array_equal(high, again[0]) and np.array_equal(low, again[1])
    assert free > 4, "a test without power"


@both(stages.greedy_stages)
@pytest.mark.parametrize("top", [1.0, 2.0])
def test_euler_by_hand(kernel, top):
    """State 0 leads to either state, one half each; state 1 earns half of r_max and stays; 10^4 visits, L = 2, H = 2.

    With b_r = r_max / 100: u_1 = (.01, .51), l_1 = (0, .49) r_max. In state 0, with u - l = (.01, .02):
    Var u = 1/16, sqrt(2 L / N) = .02: .02 x .25 = .005; gap sqrt((.0001 + .0004) / 2) = .0158113883, times .02 is
    3.16227766e-4; 3 x 1 x 2 / 10^4 = .0006. So u_0 = .01 + .26 + .005 + .000316227766 + .0006 = .275916227766.
    Var l = .06002500: sqrt .245, times .02 is .0049: l_0 = -.01 + .245 - .0049 - .000316227766 - .0006 = .229183772234.
    In state 1 nothing varies: gap .02 x .02 = .0004: u_0 = .51 + .51 + .0004 + .0006 = 1.021, cut at 2;
    l_0 = .49 + .49 - .0004 - .0006 = .979.
    """
    n, r = np.full(2, 10_000), np.array([0.0, 0.5]) * top
    rows = (np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([5000, 5000, 10_000]))
    upper, lower, pair = np.zeros((3, 2)), np.zeros((3, 2)), np.full((2, 2), -1)
    added = BonusTerms(EULER_BONUS, np.full(2, 0.01 * top), np.full(2, 2.0), lower=lower)
    kernel(np.array([0, 1, 2]), Estimates(n, r, *rows), added, top, upper, pair)
    assert upper / top == pytest.approx(np.array([[0.275916227766017, 1.021], [0.01, 0.51], [0, 0]]), abs=1e-14)
    assert lower / top == pytest.approx(np.array([[0.229183772233983, 0.979], [0.0, 0.49], [0, 0]]), abs=1e-14)


ROWS = Estimates(np.array([4, 4]), np.zeros(2), np.array([0, 1, 3]), np.array([2, 0, 1]), np.array([4, 1, 3]))


@both(bonus.mean_next)
def test_mean_next_by_hand(kernel):
    assert kernel(ROWS, 1, np.array([8.0, 4.0, 100.0])) == (8 + 3 * 4) / 4


@both(bonus.variance_next)
def test_variance_next_by_hand(kernel):
    # 8 once and 4 three times: mean 5, (9 + 3 x 1) / 4
    assert kernel(ROWS, 1, 5.0, np.array([8.0, 4.0, 100.0])) == 3.0


def learner(kind, n, space, horizon, reward=1.0, **options):
    """A learner whose every pair stayed where it was n times and earned `reward`."""
    made = kind(space, horizon, **options)
    rows = np.arange(made.counts.n_rows)
    states = np.tile(space.pair_state, made.counts.stages)
    steps = np.repeat(rows, n), np.full(n * rows.size, reward), np.repeat(states, n)
    made.counts.add_steps(*steps)
    return made


def test_the_hoeffding_bonus_by_hand():
    """2 r_max sqrt(L / N) + H r_max sqrt(2 S L / N) with L = ln(3 K S A / δ)."""
    # S = A = 1, H = 2, r_max = 2, K = 10, δ = .03: L = ln 1000 = 6.907755278982; N = 40 000: sqrt(L / N) is
    # .013141304424, β^r = 4 x .013141304424 = .052565217698, β^p = 4 sqrt 2 x .013141304424 = .074338443777
    b = 0.052565217698 + 0.074338443777
    made = learner(UCBVILearner, 40_000, Space.full(1, 1, 2.0), 2, bonus="hoeffding", episodes=10, delta=0.03)
    made.propose()
    assert made.plan.values[:, 0] == pytest.approx([2 + 2 * b, 1 + b, 0], abs=1e-11)
    policy = [Policy.always(made.space, 0)]
    assert made.bound(policy, "optimistic")[0, 0] == pytest.approx(2 + 2 * b, abs=1e-11)
    assert made.bound(policy, "pessimistic")[0, 0] == pytest.approx(2 - 2 * b, abs=1e-11)


def test_the_hoeffding_bonus_by_hand_with_more_states_and_actions():
    # S = 2, A = 3 (one of the six pairs is missing), H = 3, r_max = 1, K = 50, δ = .09:
    # L = ln(3 x 50 x 6 / .09) = ln 10 000 = 9.210340371976, N = 10^6: sqrt(L / N) = .003034854259
    # β^r = .006069708518, β^p = 3 x sqrt(4 x 9.210340371976 / 10^6) = 6 x .003034854259 = .018209125553
    space = Space.from_available(np.array([[True, True, True], [True, False, True]]))
    made = learner(UCBVILearner, 1000, space, 3, 0.25, bonus="hoeffding", episodes=50, delta=0.09)
    made.counts.visits *= 1000
    made.counts.pool.counted[:] *= 1000
    made.counts.reward_sum *= 1000
    made.propose()
    b = 0.006069708517541 + 0.018209125552622
    for s in range(2):
        assert made.plan.values[:, s] == pytest.approx([0.75 + 3 * b, 0.5 + 2 * b, 0.25 + b, 0], abs=1e-11)


def test_the_hoeffding_bonus_by_hand_with_dynamics_for_each_stage():
    # S = A = 1, H = 4 stages: S A = 4 in the logarithm; K = 25, δ = .03: ln(3 x 25 x 4 / .03) = ln 10 000, N = 10^5:
    # sqrt(L / N) = .009597051824; r_max = 1: β^r = .019194103649, β^p = 4 sqrt 2 x .009597051824 = .054289123395
    made = learner(
        UCBVILearner,
        100_000,
        Space.full(1, 1),
        4,
        0.5,
        bonus="hoeffding",
        episodes=25,
        delta=0.03,
        stage_dependent=True,
    )
    made.propose()
    b = 0.019194103648752 + 0.054289123395321
    assert made.plan.values[:, 0] == pytest.approx([(0.5 + b) * left for left in (4, 3, 2, 1, 0)], abs=1e-11)


@pytest.mark.parametrize("staged", [False, True])
def test_the_freedman_bonus_of_the_learner_by_hand(staged):
    """L = ln(5 S A T / δ), T = K H, and β^r of the paper; S A counts the pairs of all stages where they differ."""
    # S = A = 1, H = 2, K = 10, N = 40 000, r_max = 2, rewards 1 each. δ = 1 / 10: 5 x 1 x 20 / .1 = 1000, twice that
    # when staged; β^r = 4 sqrt(ln(3 x 10 / .1) / N) = 4 sqrt(5.703782474656 / 40 000) = .047765185961, and
    # 4 sqrt(ln 600 / 40 000) = 4 sqrt(6.396929655216 / 40 000) = .050584304503 when staged.
    log, reward = (math.log(2000), 0.050584304503338) if staged else (math.log(1000), 0.047765185960723)
    options = {"bonus": "freedman", "episodes": 10, "delta": 0.1, "stage_dependent": staged}
    made = learner(UCBVILearner, 40_000, Space.full(1, 1, 2.0), 2, **options)
    made.propose()
    # nothing varies; 14 x (2 x 2) L / (3 N) + sqrt(8 (2 x 2)^2 / N) = 4.6667e-4 L + .056568542495
    b = 14 * 4 * log / (3 * 40_000) + 0.056568542494924
    assert made.plan.values[:, 0] == pytest.approx([2 + 2 * reward + b, 1 + reward, 0], abs=1e-11)


def test_the_freedman_bonus_of_the_learner_has_its_visits_and_its_number_of_actions():
    # S = 2, A = 1, H = 2, K = 10, δ = .1, N = 40 000: L = ln(5 x 2 x 20 / .1) = ln 2000 = 7.600902459542; next states
    # visited 10^9 times: 10^4 x 8 x 4 x 1 x L^2 / 10^9 = .018487590, sqrt(8 x .018487590 / 40 000) = .001922893124;
    # 14 x 2 L / (3 N) = .001773543907; β^r = 2 sqrt(ln(3 x 10 x 2 / .1) / N) = 2 sqrt(6.396929655 / N) = .025292152252
    made = learner(UCBVILearner, 40_000, Space.full(2, 1), 2, 0.25, bonus="freedman", episodes=10, delta=0.1)
    made.stage_visits[:] = 10**9
    made.propose()
    b, reward = 0.001773543907226 + 0.001922893123594, 0.025292152251669
    for s in range(2):
        assert made.plan.values[:, s] == pytest.approx([0.5 + 2 * reward + b, 0.25 + reward, 0], abs=1e-11)


@pytest.mark.parametrize("staged", [False, True])
def test_the_euler_bonus_of_the_learner_by_hand(staged):
    """L = ln(6 H K N (N + 1) / δ) for next states, x = ln(6 K N (N + 1) / δ) for rewards that all stages share."""
    # S = 1, two actions: K = 2; H = 2, N = 1000, r_max = 3, δ = .12: 6 x 2 x 2 x 1000 x 1001 / .12 = 200 200 000:
    # L = 19.114827424845; rewards alike: x = ln 100 100 000 = 18.421680244285, or L itself when staged
    log, x = 19.114827424845, 19.114827424845 if staged else 18.421680244285
    made = learner(EULERLearner, 1000, Space.full(1, 2, 3.0), 2, 1.5, delta=0.12, stage_dependent=staged)
    made.propose()
    reward = 3 * 3 * x / 1000  # nothing varies
    # stage 0: upper - lower = 2 b_r at stage 1, sqrt(2 L / N) times that, and 3 x (1 x 3) L / N
    b = math.sqrt(2 * log / 1000) * 2 * reward + 9 * log / 1000
    assert made.plan.values[:, 0] == pytest.approx([3 + 2 * reward + b, 1.5 + reward, 0], abs=1e-10)
    assert made.lower[:, 0] == pytest.approx([3 - 2 * reward - b, 1.5 - reward, 0], abs=1e-10)


def test_the_euler_reward_bonus_has_the_deviation_of_the_rewards():
    # H = 1: only rewards. Half are 0, half are r_max = 2: deviation 1; K = 1, N = 2000, δ = .05:
    # x = ln(6 x 2000 x 2001 / .05) = ln 480 240 000 = 19.989796536908; b_r = sqrt(2 x / N) + 6 x / N = .201354666556
    made = EULERLearner(Space.full(1, 1, 2.0), 1, delta=0.05)
    made.counts.add_steps(np.zeros(2000, dtype=int), np.tile([0.0, 2.0], 1000), np.zeros(2000, dtype=int))
    made.propose()
    b = 0.201354666556054
    assert made.plan.values[0, 0] == pytest.approx(1 + b, abs=1e-12)
    assert made.lower[0, 0] == pytest.approx(1 - b, abs=1e-12)
