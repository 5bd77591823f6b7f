"""An unknown baseline, netted: bounds on what it collects until it hits a state, and margins concave in its gain."""

import itertools

import numpy as np
import pytest

import adversarial
import oracles
from surefooted import planning
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.certificates import netting
from surefooted.certificates import replay as certificates
from surefooted.certificates.certificate import Past, Question
from surefooted.certificates.netting import Netting, landmark
from surefooted.certificates.proof import Proof
from surefooted.certificates.reference import Reference
from surefooted.certificates.replay import ReplayCertificate
from surefooted.certificates.tolerance import Tolerance
from surefooted.evaluation.margins import evaluate
from surefooted.kernels import hitting
from surefooted.problems.inventory import inventory
from surefooted.sets.plausible import Plausible
from surefooted.simulation.playing import simulate
from surefooted.tables.baseline import Baseline
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from test_certificate import a_box, a_past, by_recursion, corridor, replayed, rows, sequence
from test_robust import both, forms, plausible


@pytest.fixture
def no_shortcuts(monkeypatch):
    """Every backward step is done, and every bound is as tight as rounding lets it be."""
    monkeypatch.setattr(certificates, "TOLERANCE", 0.0)
    monkeypatch.setattr(certificates, "SWEEPS", 10**9)
    monkeypatch.setattr(netting, "TOLERANCE", 1e-10)
    monkeypatch.setattr(netting, "MOST_SWEEPS", 10**5)


def between(low, high, r=(0.0, 0.0)):
    """Two states; from 1 the only action leads to 0 with a probability between two, from 0 it stays."""
    mdp = TabularMDP.from_arrays(np.array([[[1.0, 0.0]], [[high, 1 - high]]]), np.zeros((2, 1)))
    p_lower, p_upper = np.array([1.0, low, 1 - high]), np.array([1.0, high, 1 - low])
    ptr, state, r_lower, r_upper = np.array([0, 1, 3]), np.array([0, 0, 1]), *np.tile(r, (2, 1)).T
    known = Plausible(mdp.space, r_lower, r_upper, ptr, state, p_lower, p_upper, np.zeros(2))
    return known, Policy.always(mdp.space, 0)


# -- what is collected until a state is hit ---------------------------------------------------------------------------


@both(hitting.collect_until_hit)
def test_collecting_by_hand(kernel):
    # out of state 1 with a probability between .2 and .5: 2 to 5 steps, each worth between -.1 and .3
    known, policy = between(0.2, 0.5)
    played, r = planning.played(policy), np.array([9.0, 1.0])  # what the target itself earns does not count
    for sign, each, total in ((1.0, 1.0, 5.0), (-1.0, 1.0, 2.0), (1.0, 0.3, 1.5), (-1.0, -0.1, -0.5)):
        v = np.zeros(2)
        error, _ = kernel(played, known.rows, each * r, sign, 0, hitting.Limits(1e-13, 10**4, np.inf), v)
        assert v == pytest.approx([0.0, total], abs=1e-11) and 0 <= error <= 1e-13
    v = np.zeros(2)
    # one sweep looks, and moves nothing
    assert kernel(played, known.rows, r, 1.0, 0, hitting.Limits(0.0, 1, np.inf), v) == (1.0, 1)
    assert np.array_equal(v, [0.0, 0.0])
    # 1, 1.8, 2.44: the third is beyond 2, and what a sweep would add to it is known
    error, sweeps = kernel(played, known.rows, r, 1.0, 0, hitting.Limits(0.0, 99, 2.0), v)
    assert (sweeps, error) == (4, pytest.approx(0.8**3)) and v == pytest.approx([0.0, 2.44])


def corner_chains(known, policy, target):
    """Every chain whose rows are corners of their sets, [S, S]; the target stays where it is."""
    space, n, pairs = known.space, known.space.n_states, np.flatnonzero(policy.dense_weights)
    corners = [oracles.row_vertices(oracles.row_set(known, k)) for k in pairs if space.pair_state[k] != target]
    away = [k for k in pairs if space.pair_state[k] != target]
    for chosen in itertools.product(*corners):
        p = np.zeros((n, n))
        p[target, target] = 1.0
        for k, row in zip(away, chosen, strict=True):
            p[space.pair_state[k]] += policy.dense_weights[k] * row
        yield p


def few_corners(known, policy, target):
    """Whether there are few enough of them."""
    sizes = [
        len(oracles.row_vertices(oracles.row_set(known, k)))
        for k in np.flatnonzero(policy.dense_weights)
        if known.space.pair_state[k] != target
    ]
    return np.prod(sizes) <= 400


@forms
@pytest.mark.parametrize("n_states", [1, 2, 3])
def test_a_hitting_time_is_proved_where_every_corner_of_the_set_hits_and_is_at_least_the_longest(form, n_states):
    proved = refused = 0
    for seed in range(40):
        known, _ = plausible(form, seed, n_states, 2)
        policies = [Policy._of_pairs(known.space, known.space.pair_ptr[:-1]), Policy.uniform(known.space)]
        policy, target = policies[seed % 2], seed % n_states
        if not few_corners(known, policy, target):
            continue
        longest = np.max([oracles.hitting_times(p, target) for p in corner_chains(known, policy, target)], axis=0)
        found = Netting(known, policy).hitting_time(target)
        if found is None:
            refused += 1
            assert longest.max() > netting.LONGEST  # for ever, or for long
        else:
            proved += 1
            assert np.all(found >= longest - 1e-9) and np.all(found <= 2 * longest + 1e-9)
            assert found[target] == 0.0
    assert proved > 3 and (refused > 3 or n_states == 1)


@forms
@pytest.mark.parametrize("tolerance", [1e-9, 1e-3, 0.3])
def test_bounds_on_the_bias_hold_in_every_corner_of_the_set_and_settle_on_the_extreme_one(form, tolerance, monkeypatch):
    monkeypatch.setattr(netting, "TOLERANCE", tolerance)
    monkeypatch.setattr(netting, "MOST_SWEEPS", 20_000)
    seen = 0
    for seed in range(60):
        known, _ = plausible(form, seed, 2 + seed % 2, 2)
        policy, target = Policy._of_pairs(known.space, known.space.pair_ptr[:-1]), seed % 2
        steps = Netting(known, policy).hitting_time(target)
        if steps is None or not few_corners(known, policy, target):
            continue
        seen += 1
        gain, rng = float(np.random.default_rng(seed).random()), np.random.default_rng(seed)
        away = [s for s in range(known.space.n_states) if s != target]
        low, high = [], []
        for p in corner_chains(known, policy, target):
            stay = np.eye(len(away)) - p[np.ix_(away, away)]
            low.append(np.linalg.solve(stay, (known.r_lower[policy.pair] - gain)[away]))
            high.append(np.linalg.solve(stay, (known.r_upper[policy.pair] - gain)[away]))
        low, high = np.min(low, axis=0), np.max(high, axis=0)
        guesses = rng.normal(size=(2, known.space.n_states))  # wherever it begins
        below, above = Netting(known, policy)._bounds(target, steps, gain, *guesses)
        assert below[target] == above[target] == 0.0
        assert np.all(below[away] <= low + 1e-10) and np.all(above[away] >= high - 1e-10)
        assert np.all(below[away] >= low - 2 * tolerance - 1e-8) and np.all(above[away] <= high + 2 * tolerance + 1e-8)
    assert seen > 8


def test_bounds_hold_however_few_sweeps_are_made(monkeypatch):
    known, policy = between(0.2, 0.5, (0.1, 0.6))
    steps = Netting(known, policy).hitting_time(0)
    assert 5.0 <= steps[1] <= 10.0
    for most in (1, 2, 5, 20):
        monkeypatch.setattr(netting, "MOST_SWEEPS", most)
        low, high = Netting(known, policy)._bounds(0, steps, 0.3, np.zeros(2), np.zeros(2))
        assert low[1] <= 5 * -0.2 and high[1] >= 5 * 0.3


def test_a_landmark_that_may_be_missed_for_ever_is_not_proved():
    known, policy = between(0.0, 0.5)
    assert Netting(known, policy).hitting_time(0) is None
    known, policy = between(1e-9, 0.5)  # nor one that takes a billion steps
    assert Netting(known, policy).hitting_time(0) is None
    corridor_set = Plausible.exactly(corridor(50).mdp)
    assert Netting(corridor_set, corridor(50).baseline).hitting_time(0) == pytest.approx(np.arange(50))


def test_the_landmark_is_where_the_baseline_mostly_is_and_there_is_none_beside_a_pair_never_tried():
    problem = corridor()
    truth = Plausible.exactly(problem.mdp)
    assert landmark(truth, problem.baseline) == 0
    keep = np.ones(truth.next_state.size, dtype=bool)
    keep[2 * 3] = False  # forget the row of the baseline in state 3
    ptr = np.append(0, np.cumsum(np.delete(np.ones(13, int), 12) * keep))
    unseen = np.where(np.diff(ptr) == 0, 1.0, 0.0)
    blank = Plausible(problem.space, truth.r_lower, truth.r_upper, ptr, *(x[keep] for x in rows(truth)[1:]), unseen)
    assert landmark(blank, problem.baseline) is None
    assert Netting(blank, problem.baseline).references(Reference.of(Baseline(problem.baseline), blank, 10)) == ()
    assert Netting(blank, problem.baseline).hitting_time(0) is None
    certificate, past = ReplayCertificate(Baseline(problem.baseline), 0.1), Past(0, [(0, 50)], [problem.baseline])
    assert not certificate.prove(blank, past).is_netted  # what is left is the proof from both ends


# -- the true bias, and margins as functions of the gain --------------------------------------------------------------


def a_netting(rng, problem, scale=0.05):
    """A set around the truth in which the landmark of the baseline is proved to be hit, or None."""
    known = a_box(rng, problem, scale)
    target = landmark(known, problem.baseline)
    found = Netting(known, problem.baseline)
    return None if target is None or found.hitting_time(target) is None else (known, found, target)


def at_gain(found, target, gain):
    """The reference if the gain is this."""
    guess = np.zeros(found.plausible.space.n_states)
    bounds = found._bounds(target, found.hitting_time(target), gain, guess, guess)
    return Reference(gain, gain, *bounds, one_bias=True)


def nettings(tag, count, scale=0.05):
    """Problems with such a set, as many as there are among `count` seeds."""
    for seed in range(count):
        rng = np.random.default_rng([tag, seed])
        problem = adversarial.a_problem(rng)
        made = a_netting(rng, problem, scale)
        if made is not None:
            yield rng, problem, *made


def test_the_true_bias_lies_within_its_bounds_and_the_true_gain_between_the_ends():
    seen = 0
    for _, problem, known, found, target in nettings(21, 60):
        seen += 1
        truth = adversarial.known(problem)
        bias = truth.bias - truth.bias[target]
        at = at_gain(found, target, truth.gain)
        assert np.all(at.bias_low <= bias + 1e-9) and np.all(bias <= at.bias_high + 1e-9)
        high, low = found.references(Reference.of(Baseline(problem.baseline), known, 400))
        assert 0 <= low.gain_low == low.gain_high <= truth.gain + 1e-12
        assert truth.gain - 1e-12 <= high.gain_low == high.gain_high
        # bounds for a smaller gain are larger: more is collected beyond it
        assert np.all(high.bias_low <= low.bias_low + 0.1) and np.all(high.bias_high <= low.bias_high + 0.1)
    assert seen > 25


def test_with_the_truth_alone_netting_is_the_certificate_of_a_known_baseline(no_shortcuts):
    for seed in range(20):
        rng = np.random.default_rng([22, seed])
        problem, alpha = adversarial.a_problem(rng), float(rng.uniform(0.01, 0.9))
        exact, past = Plausible.exactly(problem.mdp), a_past(rng, problem, seed % 2 == 0)
        target, truth = landmark(exact, problem.baseline), adversarial.known(problem)
        found = Netting(exact, problem.baseline)
        if found.hitting_time(target) is not None:
            netted = ReplayCertificate(Baseline(problem.baseline), alpha).case(
                exact, past, at_gain(found, target, truth.gain)
            )
            known = ReplayCertificate(truth, alpha).prove(exact, past)
            assert netted.margin == pytest.approx(known.margin, abs=1e-6)


@pytest.mark.parametrize("induction", [True, False])
def test_a_netted_margin_is_the_recursion_and_concave_in_the_gain_and_below_the_truth_at_the_true_gain(
    no_shortcuts, induction
):
    seen = 0
    for rng, problem, known, found, target in nettings(23, 40):
        alpha, past = float(rng.uniform(0.01, 0.9)), a_past(rng, problem, seen % 2 == 0, longest=12).before_fallback
        certificate = ReplayCertificate(Baseline(problem.baseline), alpha, induction)
        gains = np.linspace(0.0, problem.space.r_max, 9)
        references = [at_gain(found, target, gain) for gain in gains]
        margins = np.array([certificate.case(known, past, at).margin for at in references])
        assert np.all(np.diff(margins, 2) <= 1e-6)  # so that the smallest is at one end
        if induction:
            assert margins[3] == pytest.approx(by_recursion(known, alpha, references[3], past), abs=1e-9)
        true = certificate.case(known, past, at_gain(found, target, adversarial.known(problem).gain)).margin
        exact = adversarial.Truth(problem, alpha, sequence(past)).after(past.t)
        assert true <= exact + 1e-9
        proof = certificate.prove(known, past)
        assert proof.margin <= exact + 1e-9 or not proof.is_lasting
        seen += 1
    assert seen > 15


# -- proofs and offers ------------------------------------------------------------------------------------------------


def two_pay(of_baseline, of_other):
    """One state, two actions, and what each may pay."""
    mdp = TabularMDP.from_pairs({(0, 0): (of_baseline[0], {0: 1.0}), (0, 1): (of_other[0], {0: 1.0})})
    low, high = np.array([of_baseline, of_other]).T
    known = Plausible(mdp.space, low, high, *rows(Plausible.exactly(mdp)), np.zeros(2))
    return known, Policy.always(mdp.space, 0), Policy.always(mdp.space, 1)


def test_an_offer_by_hand_where_both_ends_of_the_gain_count():
    # α = .1, a gain between .4 and .6: the one less 9/10 of the other is negative, so no proof from both ends lasts.
    # Netted, 65 steps have saved 6.5 g: 2.6 or 3.9. A step of .3 costs .06 or .24, and may be played 43 or 16 times.
    known, policy, other = two_pay((0.4, 0.6), (0.3, 0.7))
    past, certificate = Past(0, [(0, 65)], [policy]), ReplayCertificate(Baseline(policy), 0.1)
    assert certificate.case(known, past, Reference.of(Baseline(policy), known, 65)).rate == pytest.approx(-0.14)
    offer = certificate.offer(Question(known, other, past, 1, 50))
    assert certificate.proof.is_netted and offer.steps == 16 and offer.enough
    assert offer.budget == pytest.approx(2.6)  # no more than this is proved by now
    assert sum(offer.terms.values()) == pytest.approx(2.6)
    # what is left after 16 steps is 3.9 - 16 x .24 = .06 at least, and -.18 after 17
    assert (offer.cost, offer.too_much) == (pytest.approx(2.6 - 0.06), pytest.approx(2.6 + 0.18))
    assert not certificate.offer(Question(known, other, past, 17, 50)).enough
    # after 15 steps .3 is left if the gain is .6, and 1.7 if it is .4; 10 steps of the baseline save .6 or .4
    after = Past(0, [(0, 65), (1, 15)], [policy, other])
    assert certificate.offer(Question(known, other, after, 1, 50)).budget == pytest.approx(0.3)
    after = Past(0, [(0, 65), (1, 15), (0, 10)], [policy, other])
    offer = certificate.offer(Question(known, other, after, 1, 50))
    assert (offer.budget, offer.steps) == (pytest.approx(0.9), 3)
    # a poor policy is too much for the smaller gain as well: where both ends bind, the shorter time counts
    poor, _, other = two_pay((0.4, 0.6), (0.0, 0.7))
    offer = ReplayCertificate(Baseline(policy), 0.1).offer(Question(poor, other, past, 1, 50))
    assert (offer.steps, offer.budget) == (7, pytest.approx(2.6))  # 3.9 / .54, or 2.6 / .36, are both 7.2
    # measured from a floor of .2, 100 steps have saved 10 (g - .2): 2 or 4; a step of 0 costs .9 g + .02: .38 or .56
    offer = ReplayCertificate(Baseline(policy), Tolerance(0.1, floor=0.2)).offer(
        Question(poor, other, Past(0, [(0, 100)], [policy]), 1, 50)
    )
    assert (offer.steps, offer.budget) == (5, pytest.approx(2.0))  # 4 / .56 is 7.1, 2 / .38 is 5.3


@pytest.mark.parametrize("induction", [True, False])
def test_a_netted_proof_is_carried_in_both_cases_and_pays_for_a_stretch_of_the_baseline_once(no_shortcuts, induction):
    seen = 0
    for rng, problem, known, found, _ in nettings(24, 40):
        alpha, today = float(rng.uniform(0.01, 0.9)), a_box(rng, problem, 0.03)
        past = a_past(rng, problem, seen % 2 == 0, segments=3, longest=8).before_fallback
        certificate = ReplayCertificate(Baseline(problem.baseline), alpha, induction)
        references = found.references(Reference.of(Baseline(problem.baseline), known, past.t))
        old = Proof(past.t, tuple(certificate.case(known, past, at) for at in references))
        later, certificate.proof = past.segments, old
        for more in ((0, 3), (0, 4), (1, 5), (0, 2), (0, 6)):  # the baseline goes on after each question
            merged = [(more[0], later[-1][1] + more[1])] if later[-1][0] == more[0] else [later[-1], more]
            later = [*later[:-1], *merged]
            now = Past(past.start, later, past.policies)
            offer = certificate.offer(Question(today, past.policies[1], now, 1, 5))
            exact = adversarial.Truth(problem, alpha, sequence(now))
            assert offer.budget <= exact.after(now.t) + 1e-9
            if offer.steps:
                assert exact.during(now.t, past.policies[1], offer.steps, True) >= -1e-9
        expected = []
        for case in old.cases:
            v, terminal, left = case.reference.terminal, case.reference.terminal, now.since(past.t)
            ends = [left] if past.segments[-1][0] == 1 else [left[:-1], left[-1:]]
            change = sum(float(np.min(replayed(today, case.reference, now, end, v) - terminal)) for end in ends)
            expected.append(case.margin + change + (now.t - past.t) * alpha * case.reference.gain_low)
        # carried to the end of what was explored and from there once, however often it was asked
        assert offer.budget >= min(expected) - 1e-9 or past.segments[-1][0] == 1
        assert certificate.proof.t == now.t - now.segments[-1][1]
        seen += 1
    assert seen > 15


def test_a_review_of_a_past_that_ends_with_the_baseline_is_proved_up_to_what_was_explored():
    known, policy, other = two_pay((0.4, 0.6), (0.3, 0.7))
    past = Past(0, [(0, 60), (1, 5), (0, 7)], [policy, other])
    assert past.before_fallback.segments == [(0, 60), (1, 5)] and past.before_fallback.t == 65
    assert past.since(63) == [(1, 2), (0, 7)] and past.since(72) == []
    twice = Past(0, [(0, 60), (1, 5), (0, 7), (0, 2)], [policy, other])  # however it was recorded
    assert twice.before_fallback.segments == [(0, 60), (1, 5)] and twice.before_fallback.t == 65
    opening = Past(0, [(0, 60)], [policy])
    assert opening.before_fallback is opening
    assert ReplayCertificate(Baseline(policy), 0.1).prove(known, past).t == 65


def test_the_better_of_both_proofs_is_kept():
    # rewards are all but known and rows are not: the gain is known better than how long the way to the landmark takes
    known, policy = between(0.05, 0.5, (0.5, 0.52))
    past, certificate = Past(0, [(0, 100)], [policy]), ReplayCertificate(Baseline(policy), 0.3)
    split = Reference.of(Baseline(policy), known, 100)
    netted = [certificate.case(known, past, at).margin for at in Netting(known, policy).references(split)]
    assert certificate.prove(known, past).margin == certificate.case(known, past, split).margin > min(netted)
    assert not certificate.prove(known, past).is_netted
    # with a smaller α it does not last
    certificate = ReplayCertificate(Baseline(policy), 0.03)
    assert certificate.prove(known, past).is_netted


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ["induction", "segments"])
@pytest.mark.parametrize("strict", [True, False])
def test_no_netted_budget_exceeds_the_exact_margin_on_problems_that_mean_harm(name, strict, monkeypatch):
    """Every set but the widest is used; the proof from both ends is switched off, so that nothing else is tested."""
    monkeypatch.setattr(certificates.ReplayCertificate, "_rank", netted_first)
    count, seed = (28, 77) if strict else (14, 78)
    tally = adversarial.run_campaign(count, seed, configs=((name, False),), per_problem=1, steps=160, strict=strict)
    assert not tally.violations, tally.line()
    assert tally.explored > 300


def netted_first(self, proof, plausible, past, lower=None):
    """Of two proofs the netted one is better."""
    return proof.is_netted, proof.is_lasting, self._carry(proof, plausible, past, lower).margin


def test_an_agent_that_is_told_nothing_of_its_baseline_explores_soon_and_never_violates():
    problem = inventory()
    knowledge, baseline = problem.knowledge("rewards", "mechanics"), Baseline(problem.baseline)
    agent = CUCRL2(problem.space, baseline=baseline, alpha=0.05, knowledge=knowledge, bounded=False)
    run = simulate(problem, agent, 3_000, seed=0)
    assert run.baseline_steps < 1_100  # from both ends alone: all of them
    assert evaluate(run, problem, 0.05).violations == 0
