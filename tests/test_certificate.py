"""No certificate ever claims more than the exact margin, and none claims less than its proof gives."""

import numpy as np
import pytest

import adversarial
from surefooted import planning, solve
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.certificates import replay as certificates
from surefooted.certificates.certificate import Past, Question
from surefooted.certificates.paper import Bound, PaperCertificate
from surefooted.certificates.proof import Proof
from surefooted.certificates.reference import Reference
from surefooted.certificates.replay import NOTHING, ReplayCertificate
from surefooted.errors import InvalidInput
from surefooted.kernels import segments as backwards
from surefooted.kernels.anchored import desk
from surefooted.planning import Plan
from surefooted.problems.problem import Problem
from surefooted.sets.plausible import Plausible
from surefooted.simulation.playing import simulate
from surefooted.tables.baseline import Baseline
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.policy_log import PolicyLog

# -- the promise, on problems that mean harm -------------------------------------------------------------------------


@pytest.mark.first(2)
@pytest.mark.parametrize(("name", "is_known"), adversarial.CONFIGS)
def test_a_strict_certificate_never_exceeds_the_exact_margin_and_no_step_is_violated(name, is_known):
    steps = 900 if name in ("paper", "reevaluated") else 260  # one span for every episode takes longer to pay
    tally = adversarial.run_campaign(19, 2020, configs=((name, is_known),), per_problem=1, steps=steps)
    assert not tally.violations, tally.line()
    assert tally.event_failed == 0
    assert tally.explored > 300, "a guarantee that is never used is not tested"
    assert tally.least < 0.05


@pytest.mark.first(1)
@pytest.mark.parametrize("name", ["induction", "paper"])
def test_without_the_reserve_the_condition_still_holds_at_every_explored_step(name):
    configs, steps = ((name, True), (name, False)), 600 if name == "paper" else 200
    tally = adversarial.run_campaign(14, 31, configs=configs, per_problem=1, steps=steps, strict=False)
    assert not tally.violations, tally.line()
    assert tally.explored > 300


@pytest.mark.first(1)
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("name", ["induction", "segments"])
def test_traps_behind_the_fallback_are_survived_when_the_budget_is_spent_to_the_last_drop(name, is_known):
    tally = adversarial.Tally()
    for seed in range(6):
        rng = np.random.default_rng([77, seed])
        problem = adversarial.a_problem(rng, adversarial.trap, "first")
        agent, confidence = adversarial.an_agent(rng, problem, name, is_known, style=["exact", "worst"][seed % 2])
        adversarial.check_run(problem, agent, confidence, 300, seed, tally, f"trap {seed}")
    assert not tally.violations, tally.line()
    assert tally.explored > 100


# -- a corridor, by hand ---------------------------------------------------------------------------------------------


def corridor(length=6, reward=0.5):
    """State 0 pays; the baseline crawls back to it one state at a time, the other action leads to the far end."""
    pairs = {(0, 0): (reward, {0: 1.0}), (0, 1): (0.0, {length - 1: 1.0})}
    for s in range(1, length):
        pairs[s, 0], pairs[s, 1] = (0.0, {s - 1: 1.0}), (0.0, {s: 1.0})
    mdp = TabularMDP.from_pairs(pairs)
    return Problem("corridor", mdp, Policy.always(mdp.space, 0), 0)


class Stubborn(UCRL2Learner):
    """Knows the truth and always proposes one policy."""

    def __init__(self, problem, policy):
        super().__init__(problem.space, confidence=lambda counts, delta: Plausible.exactly(problem.mdp))
        self.policy = policy

    def propose(self, plausible, t):
        return Plan(self.policy, 0.0, 1.0, np.zeros(self.space.n_states), 1, True)


def ring(length=6):
    """The baseline goes round and is paid once a round; the other action starts the round anew."""
    pairs = {(s, 0): (float(s == length - 1), {(s + 1) % length: 1.0}) for s in range(length)}
    mdp = TabularMDP.from_pairs(pairs | {(s, 1): (0.0, {0: 1.0}) for s in range(length)})
    return Problem("ring", mdp, Policy.always(mdp.space, 0), 0)


@pytest.mark.parametrize("name", ["induction"])
def test_without_the_reserve_the_baseline_violates_on_its_way_back_and_with_it_does_not(name):
    problem, least = ring(), {}
    for strict in (True, False):
        learner = Stubborn(problem, Policy.always(problem.space, 1))
        options = {"learner": learner, "certificate": name, "strict": strict, "minimum": 1}
        agent = CUCRL2(problem.space, baseline=adversarial.known(problem), alpha=0.3, **options)
        run = simulate(problem, agent, 600)
        least[strict] = adversarial.Truth(problem, 0.3, run.sequence).margin.min()
        assert run.baseline_steps < run.steps
    assert least[True] >= -1e-9
    assert least[False] < -0.1


def test_a_budget_by_hand():
    # h = (0, -.5, .., -2.5), g = .5, alpha = .5. After 10 steps of the baseline from 0: earned .5 * 10 * .5 = 2.5; the
    # opening is shared, so what remains is the worst way back, from state 0: nothing lost, but the reserve for the
    # baseline's own side, (1 - alpha) (h(0) - min h) = 1.25.
    problem = corridor()
    past = Past(0, [(0, 10)], [problem.baseline])
    truth = Plausible.exactly(problem.mdp)
    proof = ReplayCertificate(adversarial.known(problem), 0.5).prove(truth, past)
    assert proof.margin == pytest.approx(2.5 - 1.25, abs=1e-12)
    # one step to the far end: 0 earned of .25 required, then 2.5 lost on the way back, at most: 2.75 > 1.25
    offer = ReplayCertificate(adversarial.known(problem), 0.5).offer(
        Question(truth, Policy.always(problem.space, 1), past, 1, 10)
    )
    assert (offer.steps, offer.budget, offer.cost) == (0, pytest.approx(1.25), 0.0)
    assert offer.too_much == pytest.approx(2.75)
    past = Past(0, [(0, 30)], [problem.baseline])  # 7.5 - 1.25 = 6.25 pays for 2.5 and .25 for each of 15 steps
    offer = ReplayCertificate(adversarial.known(problem), 0.5).offer(
        Question(truth, Policy.always(problem.space, 1), past, 1, 30)
    )
    assert (offer.steps, offer.cost, offer.too_much) == (15, pytest.approx(6.25), pytest.approx(6.5))


@pytest.mark.parametrize("minimum", [1, 8])
def test_fewer_steps_than_the_minimum_are_not_explored(minimum):
    # α = .25: .375 is required, the baseline saves .125 in each step, and a step of the other action loses .25
    mdp = TabularMDP.from_pairs({(0, 0): (0.5, {0: 1.0}), (0, 1): (0.125, {0: 1.0})})
    problem = Problem("two arms", mdp, Policy.always(mdp.space, 0), 0)
    options = {"learner": Stubborn(problem, Policy.always(mdp.space, 1)), "minimum": minimum, "patience": 0.0}
    run = simulate(problem, CUCRL2(mdp.space, baseline=adversarial.known(problem), alpha=0.25, **options), 60)
    explored = [decision for decision in run.decisions if decision.role == "optimistic"]
    assert explored[0].t == 2 * minimum and min(decision.length for decision in explored) == minimum


def test_a_certificate_reads_the_policies_of_the_run_that_it_is_asked_about():
    problem = corridor()
    truth, baseline = Plausible.exactly(problem.mdp), adversarial.known(problem)
    certificate, margins = ReplayCertificate(baseline, 0.5), []
    for actions in ([0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]):
        policies = PolicyLog([problem.baseline, Policy.deterministic(problem.space, actions)])
        past = Past(0, [(0, 40), (1, 3)], policies)
        margins.append(certificate.prove(truth, past).margin)
        assert margins[-1] == ReplayCertificate(baseline, 0.5).prove(truth, past).margin
    assert margins[0] > margins[1] + 1


# -- what a proof is worth, from its definition ----------------------------------------------------------------------


@pytest.fixture
def no_shortcuts(monkeypatch):
    """Every backward step is done: nothing is extrapolated."""
    monkeypatch.setattr(certificates, "TOLERANCE", 0.0)
    monkeypatch.setattr(certificates, "SWEEPS", 10**9)


def a_past(rng, problem, opening, segments=4, longest=40):
    """What could have been played: the baseline first or not, random policies and the baseline in turn."""
    policies = [problem.baseline]
    while len(policies) < 4:
        policy = adversarial.a_baseline(rng, problem.mdp, str(rng.choice(["random", "randomised"])))
        if policy != problem.baseline or problem.space.n_actions == 1:
            policies.append(policy)
    played = [(0, int(rng.integers(1, longest)))] if opening else []
    while len(played) < segments:
        q = int(rng.integers(0 if played and played[-1][0] else 1, 4))
        if not played or played[-1][0] != q:
            played.append((q, int(rng.integers(1, longest))))
    return Past(problem.start, played, policies)


def sequence(past):
    return [(past.policies[q], n) for q, n in past.segments]


@pytest.mark.parametrize("opening", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_a_proof_with_the_truth_alone_is_the_definition(no_shortcuts, seed, opening):
    rng = np.random.default_rng([1, seed])
    problem, alpha = adversarial.a_problem(rng), float(rng.uniform(0.01, 0.9))
    baseline, past = adversarial.known(problem), a_past(rng, problem, opening)
    truth = adversarial.Truth(problem, alpha, sequence(past))
    first = past.segments[0][1] if opening else 0
    # E[sum | mu], then the worst way back; against the baseline's opening, then its gain and the worst end
    h, g, t = baseline.bias, baseline.gain, past.t
    earned = truth.margin[t] + (1 - alpha) * truth.baseline[t]
    expected = earned + truth.states[t] @ h - h.max()
    expected -= (1 - alpha) * (truth.baseline[first] + (t - first) * g + truth.states[first] @ h - h.min())
    proof = ReplayCertificate(baseline, alpha).prove(Plausible.exactly(problem.mdp), past)
    assert proof.margin == pytest.approx(expected, abs=1e-9)
    assert sum(proof.worst.terms.values()) == pytest.approx(proof.margin, abs=1e-9)
    assert proof.worst.rate == pytest.approx(alpha * g, abs=1e-12)


def boxes(plausible):
    """The bounds of every row, dense, [K, S]."""
    lower = np.zeros((plausible.space.n_pairs, plausible.space.n_states))
    upper = np.repeat(plausible.unseen[:, None], plausible.space.n_states, axis=1)
    pair = np.repeat(np.arange(plausible.space.n_pairs), np.diff(plausible.next_ptr))
    lower[pair, plausible.next_state], upper[pair, plausible.next_state] = plausible.p_lower, plausible.p_upper
    return lower, upper


def backup(plausible, policy, r, v, best=False):
    """L v: each pair's row puts what is free on the worst (or best) states first."""
    lower, upper = boxes(plausible)
    q = r + lower @ v
    order = np.argsort(-v if best else v)
    for k in range(q.size):
        free = 1 - lower[k].sum()
        for y in order:
            moved = min(free, upper[k, y] - lower[k, y])
            q[k], free = q[k] + moved * v[y], free - moved
        assert free < 1e-9
    return np.add.reduceat(policy.dense_weights * q, plausible.space.pair_ptr[:-1])


def replayed(plausible, reference, past, segments, v):
    """What segments earn beyond the baseline's lower gain before v is collected; the baseline by its bias."""
    for q, n in reversed(segments):
        v = v - reference.bias_left if q == 0 else v
        for _ in range(n):
            r = plausible.r_lower - reference.gain_low if q else np.zeros(plausible.space.n_pairs)
            v = backup(plausible, past.policies[q], r, v)
        v = v + reference.bias_low if q == 0 else v
    return v


def by_recursion(plausible, alpha, reference, past):
    """The margin of a past, step by step."""
    low, high, left = reference.bias_low, reference.bias_high, reference.bias_left
    first = past.segments[0][1] if past.segments[0][0] == 0 else 0
    v = replayed(plausible, reference, past, past.segments[1:] if first else past.segments, low - left.max())
    value = v - alpha * left - (1 - alpha) * high
    for _ in range(first):
        value = backup(plausible, past.policies[0], np.zeros(plausible.space.n_pairs), value)
    s, rate = past.start, reference.gain_low - (1 - alpha) * reference.gain_high
    shared = alpha * (first * reference.gain_low + low[s])
    least = low.min() if reference.one_bias else high.min()
    return value[s] + shared + (1 - alpha) * least + (past.t - first) * rate


def a_box(rng, problem, scale=0.05, visits=4):
    """A set of boxes around the truth, as if every pair had been tried a few times."""

    class Counted:
        total = 7

    counted = Counted()
    counted.visits = rng.integers(0, visits, problem.space.n_pairs)
    return adversarial.Knowing(problem.mdp, "box", scale, int(rng.integers(99)))(counted, 0.05)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_a_proof_with_a_set_is_the_recursion_through_its_worst_rows(no_shortcuts, seed, is_known):
    rng = np.random.default_rng([2, seed])
    problem, alpha = adversarial.a_problem(rng), float(rng.uniform(0.01, 0.9))
    baseline = adversarial.known(problem) if is_known else Baseline(problem.baseline)
    past, plausible = a_past(rng, problem, seed % 2 == 0, longest=12), a_box(rng, problem)
    reference = Reference.of(baseline, plausible, past.t)
    case = ReplayCertificate(baseline, alpha).case(plausible, past, reference)
    assert case.margin == pytest.approx(by_recursion(plausible, alpha, reference, past), abs=1e-9)
    assert case.margin <= adversarial.Truth(problem, alpha, sequence(past)).after(past.t) + 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_bounds_on_an_unknown_baseline_hold_for_every_plausible_chain(seed):
    rng = np.random.default_rng([3, seed])
    problem = adversarial.a_problem(rng)
    plausible, nothing = a_box(rng, problem), Baseline(problem.baseline)
    reference = Reference.of(nothing, plausible, 400)
    low, high = reference.bias_low, reference.bias_high
    below = backup(plausible, problem.baseline, plausible.r_lower, low) - low
    above = backup(plausible, problem.baseline, plausible.r_upper, high, best=True) - high
    assert reference.gain_low == pytest.approx(below.min(), abs=1e-9)
    assert reference.gain_high == pytest.approx(above.max(), abs=1e-9)
    truth = adversarial.known(problem).gain
    assert reference.gain_low <= truth + 1e-9
    assert reference.gain_high >= truth - 1e-9
    same = Reference.of(adversarial.known(problem), plausible, 400)
    assert same.gain_low == same.gain_high == truth
    assert same.bias_low is same.bias_high


@pytest.mark.parametrize("seed", range(10))
def test_extrapolating_long_segments_only_ever_claims_less_and_little(seed):
    rng = np.random.default_rng([4, seed])
    problem, alpha = adversarial.a_problem(rng), 0.3
    baseline, plausible = adversarial.known(problem), a_box(rng, problem, 0.01)
    past = a_past(rng, problem, True, longest=190)
    quick = ReplayCertificate(baseline, alpha).prove(plausible, past).margin
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "TOLERANCE", 0.0)
        patch.setattr(certificates, "SWEEPS", 10**9)
        slow = ReplayCertificate(baseline, alpha).prove(plausible, past).margin
    # what the baseline's segments lose is a span at most, and so is what a policy that never settles loses
    spans = 2 * len(past.segments) * (np.ptp(baseline.bias) + 8 * problem.space.r_max)
    assert slow - spans <= quick <= slow + 1e-9
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "SWEEPS", 3)
        assert ReplayCertificate(baseline, alpha).prove(plausible, past).margin <= slow + 1e-9


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_segments_add_up_what_each_lost_at_most_from_whatever_state(no_shortcuts, seed, is_known):
    rng = np.random.default_rng([5, seed])
    problem, alpha = adversarial.a_problem(rng), float(rng.uniform(0.01, 0.9))
    baseline = adversarial.known(problem) if is_known else Baseline(problem.baseline)
    past, plausible = a_past(rng, problem, seed % 2 == 0, longest=12), a_box(rng, problem)
    reference = Reference.of(baseline, plausible, past.t)
    low = reference.bias_low
    lost = sum(float(np.max(low - replayed(plausible, reference, past, [s], low))) for s in past.segments if s[0])
    # the recursion of an opening and nothing else, less what was lost
    first = past.segments[0][1] if past.segments[0][0] == 0 else 0
    only = Past(past.start, [(0, first)] if first else [(1, 0)], past.policies)
    rate = reference.gain_low - (1 - alpha) * reference.gain_high
    expected = by_recursion(plausible, alpha, reference, only) + (past.t - first) * rate - lost
    case = ReplayCertificate(baseline, alpha, induction=False).case(plausible, past, reference)
    assert case.margin == pytest.approx(expected, abs=1e-9)
    assert case.margin <= ReplayCertificate(baseline, alpha).case(plausible, past, reference).margin + 1e-9


def test_the_best_loss_of_a_segment_is_kept_only_while_the_segment_keeps_its_length():
    problem = corridor()
    baseline, policies = adversarial.known(problem), [problem.baseline, Policy.always(problem.space, 1)]
    truth = Plausible.exactly(problem.mdp)
    r_lower = np.maximum(problem.mdp.r - 0.2, 0.0)
    wide = Plausible(problem.space, r_lower, problem.mdp.r, *rows(truth), truth.unseen)
    ledger = ReplayCertificate(baseline, 0.5, induction=False)
    short, grown, over = (Past(0, [(0, 40), (1, n)] + end, policies) for n, end in ((2, []), (9, []), (9, [(0, 5)])))
    for past, plausible in ((short, truth), (grown, wide), (grown, truth), (over, wide)):
        exact = adversarial.Truth(problem, 0.5, sequence(past)).after(past.t)
        assert ledger.prove(plausible, past).margin <= exact + 1e-9
    # what was proved with the truth is kept for the segment that is over, although today's set is wide
    kept = ReplayCertificate(baseline, 0.5, induction=False)
    kept.prove(truth, over)
    fresh = ReplayCertificate(baseline, 0.5, induction=False)
    assert kept.prove(wide, over).margin == pytest.approx(fresh.prove(truth, over).margin)
    assert set(kept.losses) == {0, 1}
    # of 9 steps of the other action: 2.5 to the far end, .5 for each step; of the baseline nothing
    assert kept.losses == {0: (9, pytest.approx(2.5 + 4.5)), 1: (5, 0.0)}


def rows(plausible):
    return plausible.next_ptr, plausible.next_state, plausible.p_lower, plausible.p_upper


def test_losses_relative_to_an_estimated_bias_are_not_kept():
    problem = corridor()
    past = Past(0, [(0, 40), (1, 3)], [problem.baseline, Policy.always(problem.space, 1)])
    ledger = ReplayCertificate(Baseline(problem.baseline), 0.5, induction=False)
    ledger.prove(Plausible.exactly(problem.mdp), past)
    assert ledger.losses == {}


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("induction", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_a_proof_is_carried_over_what_was_played_since_at_its_worst(no_shortcuts, seed, induction, is_known):
    rng = np.random.default_rng([6, seed])
    problem, alpha = adversarial.a_problem(rng), float(rng.uniform(0.01, 0.9))
    baseline = adversarial.known(problem) if is_known else Baseline(problem.baseline)
    past = a_past(rng, problem, seed % 2 == 0, segments=5, longest=8)
    # the proof is made in the middle of the second segment, with another day's set
    q, n = past.segments[1]
    before = Past(past.start, [past.segments[0], (q, (n + 1) // 2)], past.policies)
    recent = [(q, n - (n + 1) // 2), *past.segments[2:]]
    yesterday, today = a_box(rng, problem, 0.1), a_box(rng, problem, 0.03)
    ledger = ReplayCertificate(baseline, alpha, induction)
    old = ledger.case(yesterday, before, Reference.of(baseline, yesterday, before.t))
    ledger.proof = Proof(before.t, (old,))
    ledger.offer(Question(today, past.policies[1], past, 1, 5))
    terminal = old.reference.terminal
    v = replayed(today, old.reference, past, recent, terminal)
    change = float(np.min(v - terminal)) + (past.t - before.t) * old.rate
    assert ledger.proof.t == past.t
    assert ledger.proof.margin == pytest.approx(old.margin + change, abs=1e-9)
    assert sum(ledger.proof.worst.terms.values()) == pytest.approx(ledger.proof.margin, abs=1e-9)
    if old.rate >= 0:
        assert ledger.proof.margin <= adversarial.Truth(problem, alpha, sequence(past)).after(past.t) + 1e-9
    margin = ledger.proof.margin
    ledger.offer(Question(today, past.policies[1], past, 1, 5))
    assert ledger.proof.margin == margin  # nothing is charged twice


def test_a_review_keeps_the_better_proof():
    problem = corridor()
    baseline, policies = adversarial.known(problem), [problem.baseline, Policy.always(problem.space, 1)]
    truth = Plausible.exactly(problem.mdp)
    lower, upper, unseen = truth.p_lower * 0.9, truth.p_upper, truth.unseen + 0.1
    wide = Plausible(problem.space, problem.mdp.r * 0.5, problem.mdp.r, *rows(truth)[:2], lower, upper, unseen)
    policies[1] = Policy.deterministic(problem.space, [1, 0, 0, 0, 0, 0])
    past, ledger = Past(0, [(0, 60), (1, 14), (0, 9)], policies), ReplayCertificate(baseline, 0.5)
    first = ledger.review(Question(wide, policies[1], past, 1, 5)).budget
    second = ledger.review(Question(truth, policies[1], past, 1, 5)).budget
    assert second > first
    assert ledger.review(Question(wide, policies[1], past, 1, 5)).budget == second
    assert ledger.offer(Question(wide, policies[1], past, 1, 5)).budget == second


# -- how long a policy is affordable ---------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_an_offer_is_the_longest_time_after_which_every_stop_is_paid_for(no_shortcuts, seed, strict):
    rng = np.random.default_rng([8, seed])
    problem, alpha = adversarial.a_problem(rng), float(rng.uniform(0.2, 0.9))
    baseline, plausible = adversarial.known(problem), a_box(rng, problem, 0.02)
    policy = adversarial.a_baseline(rng, problem.mdp, "random")
    past = Past(problem.start, [(0, int(rng.integers(20, 300)))], [problem.baseline])
    ledger, most = ReplayCertificate(baseline, alpha, strict=strict), 40
    offer = ledger.offer(Question(plausible, policy, past, 1, most))
    proof = ledger.proof
    h = baseline.bias
    terminal = h - h.max()
    u, losses = terminal if strict else np.zeros(h.size), []
    for _ in range(most + 1):
        u = backup(plausible, policy, plausible.r_lower - (1 - alpha) * baseline.gain, u)
        losses.append(float(np.max(terminal - u)))
    if proof.margin < 0:
        assert offer.steps == 0
        return
    affordable = next((m for m in range(most) if losses[m] > proof.margin), most)
    assert offer.steps == affordable
    assert offer.budget == proof.margin
    assert offer.cost == pytest.approx(max([0.0, *losses[:affordable]]), abs=1e-9)
    if affordable < most:
        assert offer.too_much == pytest.approx(losses[affordable], abs=1e-9)
    whole = ledger.offer(Question(plausible, policy, past, most, most))
    assert whole.enough == (affordable == most)


@pytest.mark.parametrize("seed", range(10))
def test_an_offer_made_by_extrapolation_is_never_longer_than_the_one_made_step_by_step(seed):
    rng = np.random.default_rng([9, seed])
    problem = adversarial.a_problem(rng)
    baseline, plausible = adversarial.known(problem), a_box(rng, problem, 0.01)
    policy = adversarial.a_baseline(rng, problem.mdp, "worst")
    past = Past(problem.start, [(0, 2000)], [problem.baseline])
    quick = ReplayCertificate(baseline, 0.5).offer(Question(plausible, policy, past, 1, 2000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certificates, "TOLERANCE", -1.0)
        slow = ReplayCertificate(baseline, 0.5).offer(Question(plausible, policy, past, 1, 2000))
    assert slow.steps * 0.99 - 1 <= quick.steps <= slow.steps
    assert quick.cost <= quick.budget or quick.steps == 0


def two_states(stay):
    p = np.array([[[stay, 1 - stay]], [[1 - stay, stay]]])
    mdp = TabularMDP.from_arrays(p, np.zeros((2, 1)))
    return p[:, 0], Plausible.exactly(mdp), planning.played(Policy.always(mdp.space, 0))


@pytest.mark.parametrize("sweeps", [1, 3, 50])
@pytest.mark.parametrize("steps", [2, 40, 1000])
def test_what_cannot_earn_is_extrapolated_from_below_and_not_below_its_least(steps, sweeps):
    p, truth, played = two_states(0.999)
    v = np.array([0.0, 1.0])
    backwards.play_backwards(played, truth.rows, NOTHING, steps, 0.0, sweeps, desk(2), v)
    exact = np.linalg.matrix_power(p, steps) @ [0.0, 1.0]
    assert np.all(v <= exact + 1e-12)
    assert np.all(v >= 0.0)
    if sweeps >= steps:
        np.testing.assert_allclose(v, exact, atol=1e-12)


def test_extrapolating_an_affordable_policy_charges_the_state_that_loses():
    # from one state each step loses 1e-7, from the other it gains as much: 5.5e-7 pays for 5 steps
    _, truth, played = two_states(1.0)
    nothing = np.zeros(2)
    r = np.array([-1e-7, 1e-7])
    limits = (5.5e-7, 1e-3, 1000)
    steps, _, *cost = backwards.affordable_steps(played, truth.rows, NOTHING._replace(r=r), *limits, nothing, nothing)
    assert steps == 5
    np.testing.assert_allclose(cost, [5e-7, 6e-7], rtol=1e-6)


def test_a_policy_that_loses_next_to_nothing_is_affordable_for_ever():
    # each step loses 5e-17 of what is required, and 2500 are saved up: no 64-bit number is as large as their ratio
    mdp = TabularMDP.from_pairs({(0, 0): (0.5, {0: 1.0}), (0, 1): (0.25, {0: 1.0})})
    baseline = Baseline(Policy.always(mdp.space, 0), 0.5, np.zeros(1))
    truth = Plausible.exactly(mdp)
    short = Plausible(mdp.space, mdp.r - np.array([0.0, 5e-17]), mdp.r, *rows(truth), truth.unseen)
    past = Past(0, [(0, 10_000)], [baseline.policy])
    offer = ReplayCertificate(baseline, 0.5).offer(Question(short, Policy.always(mdp.space, 1), past, 1, 1000))
    assert offer.steps == 1000
    assert 0 <= offer.cost <= 1e-9


def test_a_strict_proof_refuses_while_even_the_baseline_is_not_known_to_be_safe():
    problem = corridor()
    pairs = problem.space.n_pairs
    ignorant = Plausible(
        problem.space, np.zeros(pairs), np.ones(pairs), np.zeros(pairs + 1, int), *no_rows(), np.ones(pairs)
    )
    past = Past(0, [(0, 50)], [problem.baseline])
    offer = ReplayCertificate(Baseline(problem.baseline), 0.5).offer(
        Question(ignorant, Policy.always(problem.space, 1), past, 1, 9)
    )
    assert (offer.steps, offer.budget) == (0, -np.inf)


def no_rows():
    return np.zeros(0, int), np.zeros(0), np.zeros(0)


@pytest.mark.parametrize("induction", [True, False])
def test_nothing_is_offered_before_the_first_step_unless_it_is_free(induction):
    problem = corridor()
    truth, nothing = Plausible.exactly(problem.mdp), Past(0, [], [problem.baseline])
    offer = ReplayCertificate(adversarial.known(problem), 0.5, induction).offer(
        Question(truth, problem.baseline, nothing, 1, 1)
    )
    assert (offer.steps, offer.budget) == (0, pytest.approx(0.5 * -2.5))
    # where all states and actions are alike, the first step of another action may be played at once
    dull = TabularMDP.from_pairs({(0, 0): (0.5, {0: 1.0}), (0, 1): (0.5, {0: 1.0})})
    baseline = Baseline(Policy.always(dull.space, 0), 0.5, np.zeros(1))
    past = Past(0, [], [baseline.policy])
    offer = ReplayCertificate(baseline, 0.5, induction).offer(
        Question(Plausible.exactly(dull), Policy.always(dull.space, 1), past, 1, 1)
    )
    assert (offer.steps, offer.budget, offer.cost) == (1, 0.0, 0.0)


# -- the paper's certificates ----------------------------------------------------------------------------------------


def bound_of(plausible, policy, t):
    """Lemma bound_evi: g_n - epsilon and the span."""
    epsilon = plausible.space.r_max / np.sqrt(t + 1)
    plan = planning.policy_gain(plausible, policy, epsilon)
    return plan.gain - epsilon, float(plan.bias.max() - plan.bias.min())


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("reevaluate", [True, False])
@pytest.mark.parametrize("is_known", [True, False])
def test_the_papers_condition_term_by_term(is_known, reevaluate, strict):
    rng = np.random.default_rng(12)
    problem, alpha = adversarial.a_problem(rng, adversarial.garnet, "random"), 0.7
    baseline = adversarial.known(problem) if is_known else Baseline(problem.baseline)
    policy, other = (adversarial.a_baseline(rng, problem.mdp, "random") for _ in range(2))
    sets = [a_box(rng, problem, scale) for scale in (0.02, 0.01, 0.005)]
    paper = PaperCertificate(baseline, alpha, reevaluate, strict)
    played = [(0, 500), (0, 4000), (1, 30)]

    def of_baseline(plausible, t):
        return (baseline.gain, float(np.ptp(baseline.bias))) if is_known else bound_of(plausible, problem.baseline, t)

    past = Past(problem.start, [], [problem.baseline, policy])
    paper.record(0, 0, 500, sets[0])
    paper.record(0, 500, 4000, sets[1])
    past = Past(problem.start, [(0, 4500)], past.policies)
    paper.offer(Question(sets[1], policy, past, 1, 30))
    proposed = bound_of(sets[1], policy, 4500)
    paper.record(1, 4500, 30, sets[2])
    past = Past(problem.start, [(0, 4500), (1, 30)], past.policies)
    offer = paper.review(Question(sets[2], other, past, 1, 2000))

    bounds = [of_baseline(sets[0], 0), of_baseline(sets[1], 500), proposed]
    if reevaluate:
        bounds = [of_baseline(sets[2], 4530)] * 2 + [bound_of(sets[2], policy, 4530)]
    earned = sum(n * gain - span for (_, n), (gain, span) in zip(played, bounds, strict=True))
    gain_high, span_high = of_baseline(sets[2], 4530)
    if not is_known:
        high = planning.policy_gain(sets[2], problem.baseline, problem.space.r_max / np.sqrt(4531), "optimistic")
        gain_high, span_high = high.upper, high.span
    reserve = of_baseline(sets[2], 4530)[1] if strict else 0.0
    budget = earned - 4530 * (1 - alpha) * gain_high - (1 - alpha) * span_high - reserve
    assert offer.budget == pytest.approx(budget, abs=1e-9)
    assert sum(offer.terms.values()) == pytest.approx(budget, abs=1e-9)
    assert budget > 0
    gain, span = bound_of(sets[2], other, 4530)
    per_step = gain - (1 - alpha) * gain_high
    if per_step < 0:
        assert offer.steps == min(2000, int((budget - span) / -per_step))
        assert offer.cost == pytest.approx(span - offer.steps * per_step)
        assert offer.too_much == pytest.approx(span - (offer.steps + 1) * per_step)
    else:
        assert offer.steps == 2000
    assert offer.budget <= adversarial.Truth(problem, alpha, sequence(past)).after(4530)


def test_the_papers_condition_charges_every_step_of_a_poor_policy():
    problem = corridor(3)
    paper = PaperCertificate(adversarial.known(problem), 0.5)
    truth, poor = Plausible.exactly(problem.mdp), Policy.always(problem.space, 1)
    paper.record(0, 0, 10_000, truth)
    past = Past(0, [(0, 10_000)], [problem.baseline, poor])
    offer = paper.offer(Question(truth, poor, past, 1, 10**6))
    gain, span = bound_of(truth, poor, 10_000)
    # earned 10000 * .5 - sp, required 10000 * .25, sp = 1: on the baseline's side (halved), and for the way back
    assert offer.budget == pytest.approx(2500 - 1 - 0.5 - 1)
    assert offer.steps == int((offer.budget - span) / (0.25 - gain))
    assert offer.cost <= offer.budget < offer.too_much
    assert not paper.offer(Question(truth, poor, past, 10**6, 10**6)).enough
    assert paper.offer(Question(truth, poor, past, offer.steps, offer.steps)).enough


@pytest.mark.parametrize(
    ("gain", "span", "steps", "cost", "too_much"),
    [
        (0.21, 3.0, 12, 3.48, 3.52),  # 3.5 saved up pays the span of 3, and .04 for each of 12 steps
        (0.21, 3.6, 0, 3.6, 3.64),  # the span alone is too much, however little a step loses
        (0.25, 3.0, 40, 3.0, 3.0),  # what is required and no more: as long as one likes
        (0.30, 3.6, 0, 3.6, 3.6),
        (0.30, 3.4, 40, 3.4, 3.4),
    ],
)
def test_the_papers_condition_pays_the_span_of_the_policy_and_then_its_steps(gain, span, steps, cost, too_much):
    problem = corridor(3)  # of gain 1/2 and span 1
    paper, truth = PaperCertificate(adversarial.known(problem), 0.5), Plausible.exactly(problem.mdp)
    paper.record(0, 0, 24, truth)  # 12 - 1 earned, 6 required, 1/2 and 1 for the spans: 3.5 saved up
    past = Past(0, [(0, 24)], [problem.baseline])
    paper._bounds = lambda plausible, policies, t: [Bound(gain, span)] * len(policies)
    offer = paper.offer(Question(truth, Policy.always(problem.space, 1), past, 1, 40))
    assert offer.budget == pytest.approx(3.5)
    assert (offer.steps, offer.cost, offer.too_much) == (steps, pytest.approx(cost), pytest.approx(too_much))
    assert paper.offer(Question(truth, Policy.always(problem.space, 1), past, 40, 40)).enough == (steps == 40)


def test_a_strict_paper_certificate_also_refuses_while_the_baseline_is_not_known_to_be_safe():
    # today's set says that the baseline may earn nothing, while a quarter a step is required of it: whatever was earned
    # before, nothing proves that falling back is safe for longer than the budget lasts
    problem = corridor()
    truth, poor = Plausible.exactly(problem.mdp), Policy.always(problem.space, 1)
    own = problem.space.pair_action == 0
    lower = np.where(own, 0.0, truth.p_lower)
    wide = Plausible(problem.space, truth.r_lower, truth.r_upper, *rows(truth)[:2], lower, truth.p_upper, own * 1.0)
    assert wide.contains(problem.mdp)
    steps = {}
    for strict in (True, False):
        paper, played = PaperCertificate(Baseline(problem.baseline), 0.5, strict=strict), [1, 100, 1000, 10_000]
        for i, n in enumerate(played):
            paper.record(0, sum(played[:i]), n, truth)
        past = Past(0, [(0, sum(played))], [problem.baseline])
        assert paper.offer(Question(truth, poor, past, 1, 1000)).steps > 0
        assert paper.offer(Question(wide, poor, past, 1, 1000)).budget > 100
        steps[strict] = paper.offer(Question(wide, poor, past, 1, 1000)).steps
    assert steps[True] == 0 < steps[False]


def test_a_policy_on_another_space_is_refused():
    problem, other = corridor(4), corridor(5)
    with pytest.raises(InvalidInput, match="do not fit"):
        planning.policy_gain(Plausible.exactly(problem.mdp), other.baseline, 0.1)


def test_the_gain_of_every_solved_policy_is_one_that_a_baseline_may_have():
    for seed in range(40):
        rng = np.random.default_rng([10, seed])
        problem = adversarial.a_problem(rng)
        answer = solve.gain_and_bias(problem.mdp, problem.baseline)
        Baseline(problem.baseline, answer.gain, answer.bias)
