"""Anchors: lower bounds on r + p h, their kernels against linear programs, their rate of failure, and who uses them."""

import numpy as np
import pytest
import scipy.optimize
from scipy.stats import binom

import adversarial
import oracles
import surefooted as sf
from surefooted import planning
from surefooted.certificates.anchors import Anchors
from surefooted.certificates.certificate import Past
from surefooted.certificates.replay import ReplayCertificate
from surefooted.certificates.shares import FOR_ANCHORS, share
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.kernels import anchored, value_iteration
from surefooted.kernels.anchored import Income, desk
from surefooted.kernels.intervals import Sums, mean_distance
from surefooted.kernels.sorting import workspace
from surefooted.sets.confidence import hoeffding, likelihood, simplified_bernstein
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy

SEEDS = range(8)
forms = pytest.mark.parametrize("form", ["box", "ball"])


def both(kernel):
    return pytest.mark.parametrize("kernel", [kernel, kernel.py_func], ids=["compiled", "plain"])


def some_set(form, seed):
    """A set, an MDP in it, and a random generator."""
    p, r, available, fields = oracles.random_set(form, ("dense", "sparse", "cycle")[seed % 3], seed)
    mdp = TabularMDP.from_arrays(p, r, available)
    return Plausible(mdp.space, **fields), mdp, np.random.default_rng([3, seed])


def row_of(mdp, k):
    """The true row of a pair, [S]."""
    p = np.zeros(mdp.n_states)
    np.add.at(p, mdp.next_state[mdp.next_ptr[k] : mdp.next_ptr[k + 1]], mdp.p[mdp.next_ptr[k] : mdp.next_ptr[k + 1]])
    return p


def outcome_means(mdp, bias):
    """The true r + p h of each pair."""
    return np.array([mdp.r[k] + row_of(mdp, k) @ bias for k in range(mdp.space.n_pairs)])


def least_with_cut(row, v, bias, r, anchor):
    """The least reward + p v over rewards from r on and rows p with reward + p bias >= anchor: a linear program."""
    (kind, a, b), n = row, len(v)
    assert kind == "box"
    found = scipy.optimize.linprog(
        np.append(v, 1.0),
        A_ub=-np.append(bias, 1.0)[None],
        b_ub=[-anchor],
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1],
        bounds=[*np.stack([a, b], axis=1), (r, None)],
    )
    assert found.status == 0, found.message
    return found.fun


@pytest.mark.first(6)
@both(anchored.anchored_step)
@forms
@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_takes_the_better_of_both_bounds(kernel, form, seed):
    plausible, mdp, rng = some_set(form, seed)
    space, n = mdp.space, mdp.n_states
    bias, policy = rng.normal(size=n), Policy.of_pairs(space, space.pair_ptr[:-1].copy())
    anchors = outcome_means(mdp, bias) - rng.uniform(0, 0.3, space.n_pairs)
    anchors[rng.random(space.n_pairs) < 0.2] = -np.inf
    used = set()
    for scale in (0.0, 0.1, 3.0):
        v, work = bias + scale * rng.normal(size=n), desk(n)
        bounds = kernel(planning.played(policy), plausible.rows, Income(plausible.r_lower, bias, anchors), work, v)
        for s, k in enumerate(policy.pair):
            row, found = oracles.row_set(plausible, k), v[s] + work.by_value.change[s]
            by_row = plausible.r_lower[k] + oracles.extreme_mean_by_linear_program(row, v, -1)
            by_anchor = anchors[k] + oracles.extreme_mean_by_linear_program(row, v - bias, -1)
            assert found == pytest.approx(max(by_row, by_anchor), abs=1e-8)
            used.add(by_row < by_anchor)
            assert found <= mdp.r[k] + row_of(mdp, k) @ v + 1e-10  # true of the MDP in the set
            if form == "box" and anchors[k] > -np.inf:
                assert found <= least_with_cut(row, v, bias, plausible.r_lower[k], anchors[k]) + 1e-8
        assert bounds == (work.by_value.change.min(), work.by_value.change.max())
    assert used == {True, False}


@both(anchored.anchored_step)
@forms
@pytest.mark.parametrize("seed", SEEDS)
def test_without_anchors_it_is_the_ordinary_step_bit_for_bit(kernel, form, seed):
    plausible, mdp, rng = some_set(form, seed)
    n, policy, v = (
        mdp.n_states,
        Policy.of_pairs(mdp.space, mdp.space.pair_ptr[:-1].copy()),
        rng.normal(size=mdp.n_states),
    )
    ours, theirs, played = desk(n), workspace(n), planning.played(policy)
    found = kernel(played, plausible.rows, Income(plausible.r_lower, np.zeros(0), np.zeros(0)), ours, v)
    assert found == value_iteration.step_back(played, plausible.rows, plausible.r_lower, -1.0, theirs, v)
    assert np.array_equal(ours.by_value.change, theirs.change)


@forms
@pytest.mark.parametrize("seed", SEEDS)
def test_the_operator_is_monotone_and_moves_with_constants(form, seed):
    plausible, mdp, rng = some_set(form, seed)
    n, bias = mdp.n_states, rng.normal(size=mdp.n_states)
    income = Income(plausible.r_lower, bias, outcome_means(mdp, bias) - rng.uniform(0, 0.3, mdp.space.n_pairs))
    played = planning.played(Policy.of_pairs(mdp.space, mdp.space.pair_ptr[:-1].copy()))

    def backup(v):
        work = desk(n)
        anchored.anchored_step(played, plausible.rows, income, work, v)
        return v + work.by_value.change

    for _ in range(20):
        v = bias + rng.normal(size=n)
        above = v + rng.exponential(size=n) * rng.integers(0, 2, n)
        assert np.all(backup(above) >= backup(v) - 1e-12)
        assert backup(v + 7.0) == pytest.approx(backup(v) + 7.0, abs=1e-12)


@both(anchored.bound_outcomes)
def test_outcomes_are_bounded_by_their_sums_and_only_where_something_is_new(kernel):
    worth, rng = np.array([0.0, 2.0, 0.5]), np.random.default_rng(0)
    sums = Sums(np.zeros(3, dtype=np.int64), np.zeros(3), np.zeros(3))
    pairs, rewards, after = rng.integers(0, 2, 60), rng.random(60), rng.integers(0, 3, 60)
    outcomes = rewards + worth[after]
    wanted = [np.bincount(pairs, weights=outcomes**power, minlength=3) for power in (1, 2)]
    for add in (anchored.add_outcomes, anchored.add_outcomes.py_func):
        add(worth, pairs[:30], rewards[:30], after[:30], tuple(sums))
        pairs, rewards, after = pairs[30:], rewards[30:], after[30:]
    assert sums.visits.sum() == 60 and sums.visits[2] == 0
    assert sums.reward == pytest.approx(wanted[0]) and sums.square == pytest.approx(wanted[1])
    seen, bound = np.zeros(3, dtype=np.int64), np.full(3, np.nan)
    seen[1] = sums.visits[1]
    kernel(tuple(sums), 3.0, seen, bound)
    n, total, square = sums.visits[0], sums.reward[0], sums.square[0]
    assert bound[0] == pytest.approx(oracles.mean_distance(n, total, square, 3.0), rel=1e-6) and seen[0] == n
    assert np.isnan(bound[1]) and np.isnan(bound[2])  # nothing new, and never visited


@both(anchored.bound_successors)
def test_successors_are_bounded_as_the_steps_themselves_would_be(kernel):
    worth, rng = np.array([0.0, 2.0, 0.5, 1.0]), np.random.default_rng(1)
    counts = Counts(sf.Space.full(n_states=4, n_actions=1))
    pairs, after = rng.integers(0, 3, 200), rng.integers(0, 4, 200)
    counts.add_steps(pairs, np.zeros(200), after)
    seen, bound = np.zeros(4, dtype=np.int64), np.zeros(4)
    kernel(worth, tuple(counts.pool), counts.visits, 3.0, seen, bound)
    for k in range(3):
        x = worth[after[pairs == k]]
        assert bound[k] == pytest.approx(mean_distance(float(x.size), x.sum(), (x * x).sum(), 0.0, 1.0, 3.0), rel=1e-9)
        assert bound[k] == pytest.approx(oracles.mean_distance(x.size, x.sum(), (x * x).sum(), 3.0), rel=1e-6)
    assert np.array_equal(seen, counts.visits) and bound[3] == 0.0


def two_states():
    """One way to leave each state and one to stay; the baseline leaves. Returns the MDP, the baseline and its h."""
    p = np.array([[[0.2, 0.8], [0.9, 0.1]], [[0.6, 0.4], [0.1, 0.9]]])
    mdp = TabularMDP.from_arrays(p, [[0.2, 0.7], [0.9, 0.4]])
    policy = Policy.always(mdp.space, 0)
    exact = sf.solve.gain_and_bias(mdp, policy)
    return mdp, Baseline(policy, exact.gain, exact.bias + 3.0)


def test_the_numbers_by_hand():
    """δ = 0.08 for K = 4 pairs with two bounds each: a log term of ln(2 · 4 / 0.08) = ln 100."""
    mdp, baseline = two_states()
    anchors, counts = Anchors(baseline, 0.08), Counts(mdp.space)
    rewards, after = np.array([0.9, 0.5, 0.7, 0.8]), np.array([0, 0, 1, 0])
    counts.add_steps(np.full(4, 1), rewards, after)
    anchors.observe(np.full(4, 1), rewards, after)
    plausible, h = likelihood(counts, 0.05), baseline.bias
    found = anchors.lower(plausible, counts)
    low, x = h.min(), np.log(100)
    together, alone = rewards + h[after] - low, h[after] - low
    by_outcomes = oracles.mean_distance(4, together.sum(), (together**2).sum(), x)
    by_successors = plausible.r_lower[1] + oracles.mean_distance(4, alone.sum(), (alone**2).sum(), x)
    assert found[1] == pytest.approx(low + max(by_outcomes, by_successors), rel=1e-6)
    assert found[3] == pytest.approx(low)  # never tried: the least reward and the worst next state
    assert found[[0, 2]] == pytest.approx(baseline.gain + h, abs=1e-15)  # the baseline's own
    assert found[[0, 2]] == pytest.approx(outcome_means(mdp, h)[[0, 2]], abs=1e-12)
    unbounded = Anchors(baseline, 0.08, bounded=False)
    unbounded.observe(np.full(4, 1), rewards + 5.0, after)  # which proves nothing
    assert unbounded.lower(plausible, counts)[1] == pytest.approx(low + by_successors, rel=1e-6)
    assert np.array_equal(Anchors(baseline, 0.0).lower(plausible, counts)[[1, 3]], [-np.inf, -np.inf])


def test_known_rewards_make_successors_the_better_bound():
    mdp, baseline = two_states()
    rng, counts = np.random.default_rng(2), Counts(mdp.space)
    anchors = Anchors(baseline, 0.01)
    after = rng.choice(2, size=400, p=[0.9, 0.1])
    rewards = (rng.random(400) < 0.7).astype(float)
    counts.add_steps(np.full(400, 1), rewards, after)
    anchors.observe(np.full(400, 1), rewards, after)
    plausible = likelihood(counts, 0.05)
    known = Plausible(mdp.space, mdp.r, mdp.r, *(getattr(plausible, n) for n in ("next_ptr", "next_state")),
                      plausible.p_lower, plausible.p_upper, plausible.unseen)  # fmt: skip
    assert anchors.lower(plausible, None)[1] < anchors.lower(known, counts)[1] <= outcome_means(mdp, baseline.bias)[1]


def test_other_counts_are_noticed():
    mdp, baseline = two_states()
    anchors, some, more = Anchors(baseline, 0.01), Counts(mdp.space), Counts(mdp.space)
    some.add_steps(np.full(9, 1), np.zeros(9), np.zeros(9, dtype=np.int64))
    more.add_steps(np.full(9, 1), np.zeros(9), np.ones(9, dtype=np.int64))
    everything = likelihood(Counts(mdp.space), 0.05)
    before = anchors.lower(everything, some)
    assert not np.array_equal(before, anchors.lower(everything, more))
    assert np.array_equal(before, anchors.lower(everything, some))


@pytest.mark.first(1)
@pytest.mark.parametrize("odds", [0.02, 0.3, 0.9])
def test_bounds_from_data_fail_no_more_often_than_promised(odds):
    """At any of 300 visits, for each of both bounds; δ = 0.6 for one pair that the baseline does not play."""
    p = np.array([[[1.0, 0.0], [1 - odds, odds]], [[1.0, 0.0], [1.0, 0.0]]])
    mdp = TabularMDP.from_arrays(p, [[0.4, 0.5], [0.6, 0.6]])
    policy = Policy.always(mdp.space, 0)
    exact = sf.solve.gain_and_bias(mdp, policy)
    baseline = Baseline(policy, exact.gain, exact.bias)
    truth, runs, delta, rng = outcome_means(mdp, exact.bias)[1], 800, 0.6, np.random.default_rng(3)
    nothing, failed = likelihood(Counts(mdp.space), 0.05), np.zeros((2, runs), dtype=bool)
    known = Plausible.exactly(mdp)
    for run in range(runs):
        outcomes, successors = Anchors(baseline, delta), Anchors(baseline, delta, bounded=False)
        counts = Counts(mdp.space)
        for n in (1, 1, 1, 2, 5, 10, 20, 60, 200):
            pairs, after = np.ones(n, dtype=np.int64), (rng.random(n) < odds).astype(np.int64)
            rewards = (rng.random(n) < 0.5).astype(float)
            counts.add_steps(pairs, rewards, after)
            outcomes.observe(pairs, rewards, after)
            failed[0, run] |= outcomes.lower(nothing, None)[1] > truth
            failed[1, run] |= successors.lower(known, counts)[1] > truth
    # each of 2 K = 8 bounds has δ / 8; at that rate the limit is exceeded once in a million
    assert np.all(failed.sum(axis=1) <= binom.ppf(1 - 1e-6, runs, delta / 8))


def test_a_randomised_baseline_anchors_only_where_it_plays_one_action():
    mdp, _ = two_states()
    policy = Policy.randomised(mdp.space, [[1.0, 0.0], [0.5, 0.5]])
    exact = sf.solve.gain_and_bias(mdp, policy)
    anchors = Anchors(Baseline(policy, exact.gain, exact.bias), 0.0)
    assert (anchors.exact > -np.inf).tolist() == [True, False, False, False]
    assert anchors.exact[0] == pytest.approx(outcome_means(mdp, exact.bias)[0], abs=1e-12)


@pytest.mark.parametrize("induction", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_a_proof_with_anchors_is_below_the_truth_and_not_below_one_without(seed, induction):
    rng = np.random.default_rng([9, seed])
    problem = adversarial.a_problem(rng)
    mdp, baseline, alpha = problem.mdp, adversarial.known(problem), 0.2
    wide = adversarial.Knowing(mdp, ("box", "ball", "blank")[seed % 3], 0.5, seed)(Counts(mdp.space), 0.05)
    policies = [problem.baseline, *(adversarial.a_baseline(rng, mdp, "random") for _ in range(2))]
    past = Past(problem.start, [(0, 5), (1, 7), (0, 3), (2, 4)], policies)
    truth = adversarial.Truth(problem, alpha, [(policies[q], n) for q, n in past.segments])
    lower = outcome_means(mdp, baseline.bias)
    plain = ReplayCertificate(baseline, alpha, induction).prove(wide, past).margin
    certificate = ReplayCertificate(baseline, alpha, induction, anchors=Anchors(baseline, 0.0))
    for anchors in (lower, lower - rng.exponential(size=lower.size), certificate.anchors.lower(wide, None)):
        margin = certificate.prove(wide, past, anchors).margin
        assert plain - 1e-9 <= margin <= truth.after(past.t) + 1e-9


class Watched(Anchors):
    """Anchors that note whether they were ever above the truth, and how many were of use."""

    def against(self, mdp):
        self.truth, self.held, self.told = outcome_means(mdp, self.bias), True, 0
        return self

    def lower(self, plausible, counts):
        found = super().lower(plausible, counts)
        self.held = self.held and bool(np.all(found <= self.truth + 1e-9))
        self.told += int(np.sum(found > plausible.r_lower + self.lowest + 1e-9))
        return found


@pytest.mark.slow
def test_no_budget_exceeds_the_exact_margin_on_problems_that_mean_harm_while_the_anchors_hold():
    """Anchors have 0.3 of δ; the sets hold the truth by construction."""
    runs, failed, told, delta = 60, 0, 0, 0.35
    tally = adversarial.Tally()
    for i in range(runs):
        rng = np.random.default_rng([31, i])
        problem = adversarial.a_problem(rng, adversarial.KINDS[i % len(adversarial.KINDS)])
        style, certificate = adversarial.STYLES[i % len(adversarial.STYLES)], ("induction", "segments")[i % 2]
        agent, confidence = adversarial.an_agent(rng, problem, certificate, True, style=style, delta=delta)
        anchors = Watched(agent.baseline, agent.certificate.anchors.delta).against(problem.mdp)
        assert anchors.delta == pytest.approx(0.3)
        agent.certificate.anchors = anchors
        one = adversarial.Tally()
        adversarial.check_run(problem, agent, confidence, 200, int(rng.integers(2**31)), one, f"problem {i}")
        told += anchors.told
        failed += not anchors.held
        if anchors.held:
            tally.explored += one.explored
            tally.violations += one.violations
    assert not tally.violations, tally.violations[:3]
    assert tally.explored > 1000 and told > 1000
    assert failed <= binom.ppf(1 - 1e-6, runs, 0.3)  # at that rate exceeded once in a million


def agent_on(problem, **options):
    return sf.CUCRL2(problem.space, baseline=adversarial.known(problem), alpha=0.1, **options)


def test_who_has_anchors_and_their_share():
    problem = sf.problems.riverswim()
    agent = agent_on(problem, delta=0.2)
    assert FOR_ANCHORS == 0.1 and share(0.2, None, True, True, FOR_ANCHORS) == pytest.approx((0.2, 0.18, 0.02))
    assert agent.learner.delta == pytest.approx(0.18) and agent.certificate.anchors.delta == pytest.approx(0.02)
    assert agent_on(problem, certificate="segments").certificate.anchors is not None
    given = agent_on(problem, learner=sf.PSRL(problem.space, delta=0.04))
    assert given.certificate.anchors.delta == 0.0  # nothing of δ is left for bounds from data
    given = agent_on(problem, learner=sf.PSRL(problem.space, delta=0.04), delta=0.05)
    assert given.certificate.anchors.delta == pytest.approx(0.01)
    for options in ({"anchored": False}, {"confidence": simplified_bernstein}):
        agent = agent_on(problem, delta=0.2, **options)
        assert agent.certificate.anchors is None and agent.learner.delta == 0.2
        assert agent.arguments()["anchored"] is False
    assert not hasattr(agent_on(problem, certificate="paper", delta=0.2).certificate, "anchors")
    unknown = sf.CUCRL2(problem.space, baseline=Baseline(problem.baseline), alpha=0.1, delta=0.2)
    assert unknown.certificate.anchors is None and unknown.learner.delta == 0.2
    noisy = agent_on(problem, bounded=False, confidence=hoeffding)
    assert not noisy.certificate.anchors.bounded
    with pytest.raises(InvalidInput, match="leaves nothing beside"):
        agent_on(problem, learner=sf.PSRL(problem.space, delta=0.05), delta=0.05)
    with pytest.raises(InvalidInput, match="a learner is given"):
        agent_on(problem, learner=sf.PSRL(problem.space, delta=0.04), delta=0.05, anchored=False)


def test_the_agent_shows_its_certificate_every_step():
    problem = sf.problems.riverswim()
    agent = agent_on(problem)
    sf.simulate(problem, agent, steps=500, seed=0)
    assert np.array_equal(agent.certificate.anchors._sums.visits, agent.counts.visits)
    worth = agent.baseline.bias - agent.baseline.bias.min()
    next_ptr, next_state, count = agent.counts.rows()
    pair = np.repeat(np.arange(problem.space.n_pairs), np.diff(next_ptr))
    total = np.bincount(pair, weights=count * worth[next_state], minlength=problem.space.n_pairs)
    assert agent.certificate.anchors._sums.reward == pytest.approx(agent.counts.reward_sum + total)


@pytest.mark.first(1)
@pytest.mark.parametrize("certificate", ["induction", "segments"])
def test_a_restored_agent_goes_on_as_it_would_have(certificate):
    problem = sf.problems.inventory(noise=sf.Noise("bernoulli"))
    whole, half = (agent_on(problem, certificate=certificate, seed=1) for _ in range(2))
    sf.simulate(problem, whole, steps=3000, seed=2)
    sf.simulate(problem, half, steps=3000, seed=2)
    again = agent_on(problem, certificate=certificate, seed=1).load_state_dict(half.state_dict())
    sums = again.certificate.anchors._sums
    assert all(np.array_equal(a, b) for a, b in zip(sums, whole.certificate.anchors._sums, strict=True))
    assert not np.shares_memory(sums.visits, half.certificate.anchors._sums.visits)
    asked = [agent._question(agent.learner.plausible(), agent.learner.propose(agent.learner.plausible(), 3000))
             for agent in (whole, again)]  # fmt: skip
    first, second = (agent.certificate.review(q) for agent, q in zip((whole, again), asked, strict=True))
    assert first.budget == second.budget and first.steps == second.steps
    with pytest.raises(InvalidInput, match="anchored"):
        agent_on(problem, certificate=certificate, anchored=False, seed=1).load_state_dict(half.state_dict())


@pytest.mark.slow
def test_anchors_free_the_agent_sooner():
    problem = sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))
    kept = {}
    for anchored_too in (True, False):
        run = sf.simulate(problem, agent_on(problem, anchored=anchored_too), steps=20_000, seed=0)
        assert sf.evaluate(run, problem, 0.1).violations == 0
        kept[anchored_too] = run.baseline_steps
    assert kept[True] < 0.85 * kept[False]
