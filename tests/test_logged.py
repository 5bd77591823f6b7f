"""What the log of an unknown baseline proves under the replay condition: its gain by rewards, its bias by one law."""

import numpy as np
import pytest
from scipy.stats import binom

import adversarial
import adversarial_coupling as coupling
import adversarial_logged as campaign
import surefooted as sf
from surefooted.certificates import logged
from surefooted.certificates.baseline_log import bounds_its_gain
from surefooted.certificates.coupling import couple
from surefooted.certificates.netting import ANY, Netting, between, landmark
from surefooted.certificates.proof import Proof
from surefooted.certificates.reference import Reference
from surefooted.certificates.replay import ReplayCertificate
from surefooted.certificates.unknown import UnknownAccount
from surefooted.knowledge.belief import Belief
from surefooted.sets.confidence import likelihood
from test_certificate import a_past

SHOP = sf.problems.inventory(4, noise=sf.Noise())


def a_set(problem, visits, seed, delta=0.05):
    """The set of so many visits of every pair, with mechanics."""
    rng, counts = np.random.default_rng(seed), sf.Counts(problem.space)
    for k in range(problem.space.n_pairs):
        steps = [problem.mdp.draw(rng, k) for _ in range(visits)]
        counts.add_steps(np.full(visits, k), np.array([r for r, _ in steps]), np.array([y for _, y in steps]))
    return Belief(counts, likelihood, delta, problem.knowledge("mechanics")).plausible()


def with_log(problem, steps, seed, policy=None):
    history = coupling.a_history(np.random.default_rng(seed), problem, steps)
    return sf.Baseline.from_history(history, problem.baseline if policy is None else policy)


def problems(count, tag):
    for seed in range(count):
        rng = np.random.default_rng([tag, seed])
        yield rng, coupling.a_problem(rng, rewards=seed % 3 > 0)


# -- what is known of the baseline ------------------------------------------------------------------------------------


def test_gains_between_the_ends_of_both_bounds_by_hand():
    nothing = np.zeros(1)
    split = Reference(-0.2, 0.9, nothing, nothing)
    assert between(split, ANY) == (0.0, 0.9)  # no reward is negative
    assert between(split, (0.3, 0.5)) == (0.3, 0.5)
    assert between(split, (0.3, 2.0)) == (0.3, 0.9) and between(split, (-1.0, 0.5)) == (0.0, 0.5)
    assert between(split, (0.95, 2.0)) == (0.0, 0.9)  # they contradict each other: one of the bounds has failed


def test_the_gain_by_the_log_is_that_of_an_account_with_that_share():
    baseline, plausible = with_log(SHOP, 500, 1), a_set(SHOP, 30, 2)
    found = couple(plausible, SHOP.baseline)
    for delta in (0.5, 0.005):
        account = UnknownAccount(SHOP.space, sf.Baseline(SHOP.baseline), 0.0, delta)
        account.remember(baseline.history.in_order)
        account.review(plausible)
        span = min(found.span, account.arrays.terms.span)
        low, high = logged.gain_by_log(baseline, span, found, delta)
        assert (low, high) == pytest.approx((account.arrays.now[7 + 2], account.arrays.now[7 + 3]))
        gain = sf.solve.gain_and_bias(SHOP.mdp, SHOP.baseline).gain
        assert low < gain < high
    assert logged.gain_by_log(sf.Baseline(SHOP.baseline), 1.0, None, 0.1) == ANY


def test_the_gain_by_the_log_of_a_randomised_baseline_counts_the_luck_of_its_draws():
    p, r = np.full((2, 2, 2), 0.5), np.array([[0.0, 1.0], [0.0, 1.0]])  # all that is random in rewards is the action
    mdp = sf.TabularMDP.from_arrays(p, r, noise=sf.Noise())
    problem = sf.Problem("tosses", mdp, sf.Policy.uniform(mdp.space), 0)
    for seed in range(5):
        low, high = logged.gain_by_log(with_log(problem, 3_000, seed), 0.01, None, 0.05)
        assert low <= 0.5 <= high < low + 0.1


def test_true_gain_and_bias_lie_within_their_bounds_as_often_as_promised():
    runs = failed = coupled = 0
    delta = 0.05
    for i, (_, problem) in enumerate(problems(60, 31)):
        plausible, baseline = a_set(problem, 20, i, 0.9 * delta), with_log(problem, 300, i)
        netting, truth = Netting(plausible, problem.baseline), adversarial.known(problem)
        split = Reference.of(baseline, plausible, 10**6)
        found = logged.references(netting, split, baseline, 0.1 * delta)
        target, law = landmark(plausible, problem.baseline), couple(plausible, problem.baseline)
        spans = [float(max((end.bias_high.max() - end.bias_low.min()) for end in netting.references(split) or ()))]
        within = logged.gain_by_log(baseline, min(law.span, *spans), law, 0.1 * delta)
        assert [end.gain_low for end in found[-1]] == list(between(split, within)[::-1])
        for ends in found:
            high, low = ends
            bias = truth.bias - truth.bias[0 if target is None else target]
            held = low.gain_low - 1e-9 <= truth.gain <= high.gain_low + 1e-9
            if ends is found[-1]:
                coupled += np.array_equal(high.bias_low, low.bias_low)
                held = held and np.all(high.bias_low <= bias + 1e-9) and np.all(bias <= high.bias_high + 1e-9)
            runs, failed = runs + 1, failed + (not held)
            assert high.one_bias and low.one_bias and low.gain_low <= high.gain_low
    assert coupled > 50 and failed <= binom.ppf(1 - 1e-6, runs, delta)


@pytest.mark.parametrize("induction", [True, False])
def test_with_much_data_the_proof_is_nearly_that_of_a_known_baseline_and_never_above_the_truth(induction):
    seen, off = 0, []
    for rng, problem in problems(6, 32):
        plausible, baseline = a_set(problem, 800, seen), with_log(problem, 2000, seen)
        alpha, past = float(rng.uniform(0.1, 0.9)), a_past(rng, problem, seen % 2 == 0, longest=12).before_fallback
        certificate = ReplayCertificate(baseline, alpha, induction, of_log=0.005)
        truth, split = adversarial.known(problem), Reference.of(baseline, plausible, 10**6)
        exact = adversarial.Truth(problem, alpha, [(past.policies[i], n) for i, n in past.segments]).after(past.t)
        assert certificate.prove(plausible, past).margin <= exact + 1e-9
        ends = logged.references(Netting(plausible, problem.baseline), split, baseline, 0.005)[-1]
        proof = Proof(past.t, tuple(certificate.case(plausible, past, at) for at in ends))
        assert proof.is_netted and proof.margin <= exact + 1e-9
        known = ReplayCertificate(truth, alpha, induction).prove(plausible, past)
        off.append(known.margin - proof.margin)
        seen += 1
    assert np.median(off) < 0.5  # of a reward


def test_one_law_and_the_log_prove_more_than_the_set_alone():
    more = []
    for i, (rng, problem) in enumerate(problems(20, 33)):
        plausible, baseline = a_set(problem, 100, i), with_log(problem, 1000, i)
        past = a_past(rng, problem, i % 2 == 0, longest=12).before_fallback
        alone, both = (ReplayCertificate(baseline, 0.2, of_log=share).prove(plausible, past) for share in (0, 0.005))
        more.append(both.margin - alone.margin)
        assert (both.is_lasting, both.margin) >= (alone.is_lasting, alone.margin - 1e-2) or alone.margin < 0
    assert np.mean(np.array(more) > 1e-3) > 0.5


# -- agents -----------------------------------------------------------------------------------------------------------


def test_the_log_has_a_tenth_of_delta_if_its_rewards_can_tell():
    told = {"alpha": 0.2, "delta": 0.1, "knowledge": SHOP.knowledge("mechanics")}
    baseline = with_log(SHOP, 100, 3)
    agent = sf.CUCRL2(SHOP.space, baseline=baseline, **told)
    assert agent.shares.of_set == pytest.approx(0.09) and agent.shares.of_outcomes == pytest.approx(0.01)
    assert agent.learner.delta == pytest.approx(0.09) and agent.certificate.of_log == pytest.approx(0.01)
    agent.begin(0)
    restored = sf.CUCRL2(SHOP.space, baseline=baseline, **told)
    restored.load_state_dict(agent.state_dict())
    assert restored.certificate.of_log == agent.certificate.of_log
    for other, options in (
        (sf.Baseline(SHOP.baseline), {}),
        (sf.Baseline.from_history(baseline.history, elsewhere=SHOP.baseline), {}),  # read off the log
        (baseline, {"certificate": "paper"}),
        (baseline, {"bounded": False}),
        (baseline, {"confidence": "simplified_bernstein"}),
    ):
        agent = sf.CUCRL2(SHOP.space, baseline=other, **told, **options)
        assert agent.shares.of_set == 0.1 and agent.shares.of_outcomes == 0.0
        assert getattr(agent.certificate, "of_log", 0.0) == 0.0
    assert bounds_its_gain(baseline) and not bounds_its_gain(sf.Baseline(SHOP.baseline))


def test_an_agent_with_a_log_explores_sooner_and_keeps_the_condition(monkeypatch):
    shop = sf.problems.inventory(6, noise=sf.Noise())
    found, own = {}, logged.references
    for by_log in (True, False):
        if not by_log:
            monkeypatch.setattr(
                logged, "references", lambda netting, split, baseline, delta: own(netting, split, baseline, 0.0)
            )
        baseline = with_log(shop, 150, 5)
        agent = sf.CUCRL2(shop.space, baseline=baseline, alpha=0.2, knowledge=shop.knowledge("mechanics"))
        run = sf.simulate(shop, agent, 1500, seed=1)
        assert sf.evaluate(run, shop, 0.2).violations == 0 and run.baseline_steps < 1500
        found[by_log] = next(d.t for d in run.decisions if d.role == "optimistic")
    assert found[True] < 0.7 * found[False]


@pytest.mark.first(1)
@pytest.mark.parametrize(("n", "seed"), [(9, 3), (60, 4)])
def test_the_campaign_with_logs_finds_nothing(n, seed):
    tally = campaign.run_campaign(n, seed, steps=200)
    assert not tally.violations, tally.violations
    assert tally.explored > 20 * n and tally.coupled > n / 2
