"""What dates and floors change in each certificate, by hand and by search. Until a date, what is certain counts."""

import itertools

import numpy as np
import pytest

import surefooted as sf
from surefooted.certificates.account import Account
from surefooted.certificates.certificate import Past, Question
from surefooted.certificates.episodes import EpisodeCertificate
from surefooted.certificates.paper import PaperCertificate
from surefooted.certificates.proof import Case
from surefooted.certificates.reference import Reference
from surefooted.certificates.replay import ReplayCertificate
from surefooted.certificates.tolerance import Tolerance
from surefooted.kernels import account as kernels
from surefooted.sets.plausible import Plausible


def two_arms(baseline=0.5, other=0.2):
    """One state: what the baseline earns, and what another action does. The true set, and both policies."""
    mdp = sf.TabularMDP.from_pairs({(0, 0): (baseline, {0: 1.0}), (0, 1): (other, {0: 1.0})})
    known = sf.Baseline(sf.Policy.always(mdp.space, 0), baseline, np.zeros(1))
    return Plausible.exactly(mdp), known, sf.Policy.always(mdp.space, 1)


# -- average reward ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [kernels.next_date, kernels.next_date.py_func])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"every": 1}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"every": 3}, [3, 3, 3, 6, 6, 6, 9, 9]),
        ({"every": 0, "dates": (2, 5)}, [2, 2, 5, 5, 5, 6, 7, 8]),
    ],
)
def test_the_next_date_by_hand(kernel, given, expected):
    _, baseline, other = two_arms()
    tolerance = Tolerance(0.2, **given)
    account = Account(other.space, baseline, tolerance, 0.1)
    assert [kernel(account.arrays, float(t)) for t in range(1, 9)] == expected
    assert [tolerance.next_date(t) for t in range(1, 9)] == expected


def test_a_case_due_at_a_date_is_worth_there_what_another_policy_and_then_the_baseline_leave():
    case = Case(3.0, Reference(0.5, 0.5, np.zeros(1), np.zeros(1)), 0.4, {"saved up": 3.0})
    due = case.due_after(20)
    for m, earns in itertools.product((0, 7, 20), (0.0, 0.25, 1.0)):  # the other policy for m of 20 steps
        left = 3.0 + m * (earns - 0.4) + (20 - m) * (0.5 - 0.4)
        assert due.margin + m * (earns - due.required) == pytest.approx(left)
    assert sum(due.terms.values()) == pytest.approx(due.margin)


@pytest.mark.parametrize("induction", [True, False])
def test_an_offer_until_a_date_by_hand(induction):
    # α = .2: .4 is required, and 51 steps of the baseline have saved 5.1. A step of the other action loses .2 of it.
    # After n of them and 49 - n of the baseline, 5.1 - .2 n + .1 (49 - n) is left: .1 after 33, and -.2 after 34.
    truth, baseline, other = two_arms()
    question = Question(truth, other, Past(0, [(0, 51)], [baseline.policy]), 1, 50)
    for every, steps in ((1, 25), (60, 25), (100, 33)):  # 60 comes before the money is spent
        offer = ReplayCertificate(baseline, Tolerance(0.2, every=every), induction).offer(question)
        assert offer.steps == steps and offer.enough
        assert sum(offer.terms.values()) == pytest.approx(offer.budget)
    assert offer.budget == pytest.approx(10) and offer.cost == pytest.approx(33 * 0.3)


def test_an_offer_of_the_paper_until_a_date_by_hand():
    truth, baseline, other = two_arms()
    for every, saved, required in ((1, 5.0, 0.4), (100, 10.0, 0.5)):
        certificate = PaperCertificate(baseline, Tolerance(0.2, every=every))
        certificate.record(0, 0, 50, truth)
        offer = certificate.offer(Question(truth, other, Past(0, [(0, 50)], [baseline.policy]), 1, 50))
        earns = certificate.proposed.gain  # at least, as the paper bounds it
        assert 0 < earns < 0.2 and offer.budget == pytest.approx(saved)
        assert offer.steps == int(saved / (required - earns)) > 10


def test_what_a_date_alone_pays_for_ends_at_the_date():
    """The other action climbs to a state that pays more than the baseline: dear at first, and worth it in the end."""
    up = {(0, 1): (0.0, {1: 1.0}), (1, 1): (0.0, {2: 1.0}), (2, 1): (1.0, {2: 1.0})}
    mdp = sf.TabularMDP.from_pairs(up | {(s, 0): (0.5, {0: 1.0}) for s in range(3)})
    baseline = sf.Baseline(sf.Policy.always(mdp.space, 0), 0.5, np.zeros(3))
    past, other = Past(0, [(0, 6)], [baseline.policy]), sf.Policy.always(mdp.space, 1)
    question = Question(Plausible.exactly(mdp), other, past, 1, 99)
    assert ReplayCertificate(baseline, 0.2).offer(question).steps == 1  # .6 is saved, two steps lose .8
    offer = ReplayCertificate(baseline, Tolerance(0.2, every=20)).offer(question)
    assert (offer.steps, offer.budget, offer.cost) == (14, pytest.approx(2.0), pytest.approx(1.0))


@pytest.mark.parametrize("kind", [ReplayCertificate, PaperCertificate])
def test_no_date_makes_an_offer_longer_than_was_asked_for(kind):
    truth, baseline, other = two_arms()
    certificate, past = kind(baseline, Tolerance(0.2, every=100)), Past(0, [(0, 50)], [baseline.policy])
    certificate.record(0, 0, 50, truth)
    for most in (1, 7, 20):
        assert certificate.offer(Question(truth, other, past, 1, most)).steps == most
    assert certificate.offer(Question(truth, other, past, 1, 99)).steps > 20


# -- episodes ---------------------------------------------------------------------------------------------------------


def least_added(alpha, zero, low, high, kept, played):
    """The least of (n_b - n) V + α n max(V - zero, 0) over V in [low, high]: it is convex, with one kink."""
    values = np.array([low, high, np.clip(zero, low, high)])
    return np.min((kept - played) * values + alpha * played * np.maximum(values - zero, 0.0), axis=0)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("zero", [-1.0, 0.0, 2.0, 9.0])
def test_the_share_of_the_baseline_is_the_least_over_all_values_that_it_may_have(zero, is_known):
    rng, S, alpha, below = np.random.default_rng(5), 4, 0.4, 0
    for _ in range(20):
        low, high = np.sort(rng.uniform(0, 4, (2, S)), axis=0)
        high = low if is_known else high
        certificate = EpisodeCertificate(S, alpha, low if is_known else None, zero=zero)
        for s in rng.integers(S, size=12).tolist():
            _ = certificate.conserved(s) if rng.random() < 0.7 else certificate.explored(1, s, 0.0)
        if not is_known:
            certificate.tighten_baseline(low, high)
        kept, played = np.array(certificate.kept), np.array(certificate.played)
        assert certificate.share == pytest.approx(least_added(alpha, zero, low, high, kept, played).sum(), abs=1e-9)
        s = int(rng.integers(S))
        after = least_added(alpha, zero, low, high, kept, played + np.eye(S, dtype=int)[s]).sum()
        assert certificate.margin_after(s, 0.3) == pytest.approx(0.3 + after, abs=1e-9)
        below += int(np.sum(low < zero))
    assert below > 0 or zero <= 0


def test_episodes_until_a_date_count_with_the_worst_start_by_hand():
    # α = .5: an episode from state 0 adds .5, one from state 1 adds 2. Of 10 until the date, 9 are yet to come.
    certificate = EpisodeCertificate(2, Tolerance(0.5, every=10), np.array([1.0, 4.0]))
    assert certificate.margin_after(0, 0.0) == pytest.approx(-0.5 + 9 * 0.5)
    assert certificate.margin_after(1, 0.0) == pytest.approx(-2.0 + 9 * 0.5)
    space = sf.Space.full(2, 2, r_max=4.0)
    baseline = sf.Baseline(sf.Policy.always(space, 0), values=np.array([[1.0, 4.0], [0.0, 0.0]]))
    account = Account(space, baseline, Tolerance(0.5, every=10), 0.1)
    account.pay_in(1, 3)
    assert account.arrays.now[kernels.PAID_IN] == pytest.approx(2.0)
    assert account.arrays.now[kernels.ADVANCED] == pytest.approx(7 * 0.5)


# -- bandits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("floor", [-15.0, -10.0, 5.0, 25.0])
def test_the_margin_of_rounds_is_the_least_over_all_means_that_the_baseline_may_have(floor):
    agent = sf.bandits.ConservativeUCB(3, alpha=0.3, floor=floor, rewards=(-10, 30), baseline=1)
    rng, zero = np.random.default_rng(2), floor + 10
    for _ in range(40):
        (lower, upper), visits = np.sort(rng.uniform(0, 40, (2, 3)), axis=0), rng.integers(0, 30, 3)
        n, explored = visits.sum(), visits[0] * lower[0] + visits[2] * lower[2]
        own = least_added(0.3, zero, lower[1], upper[1], visits[1], n)
        assert sum(agent._margin(lower, upper, visits).values()) == pytest.approx(explored + own, abs=1e-9)


def test_rounds_until_a_checkpoint_by_hand():
    # a mean of 25 is 20 above the floor: each round adds .1 x 20 + .5, and 3 are left after the next until the fourth
    options = {"baseline_mean": 25.0, "rewards": (-10, 30), "floor": 5.0, "tolerance": 0.5, "checkpoints": 4}
    agent = sf.bandits.ConservativeUCB(2, alpha=0.1, **options)
    left = []
    for _ in range(5):
        left.append(agent._until_checkpoint(*agent._bounds()))
        agent.observe(agent.act().action, 25.0)
    assert left == pytest.approx([3 * 2.5, 2 * 2.5, 2.5, 0.0, 3 * 2.5])
