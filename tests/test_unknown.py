"""Departures from a baseline whose gain and bias are unknown: a slow model, the truth, and agents that play it."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

import adversarial
import adversarial_account
import surefooted as sf
from surefooted.certificates.martingale import BETS, LARGEST, new_bets
from surefooted.certificates.tolerance import Tolerance
from surefooted.certificates.unknown import PATIENCE, UnknownAccount
from surefooted.errors import InvalidInput
from surefooted.evaluation.decisions import advantages
from surefooted.kernels import telescope as kernels
from surefooted.kernels.account import PROVED
from surefooted.problems.problem import Problem
from surefooted.sets.plausible import Plausible
from surefooted.testing import check_agent, check_promise


def agent_for(problem, alpha=0.2, span=1.0, **options):
    """An agent that is told a multiple of the exact span, or none."""
    exact = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    told = None if span is None else span * float(np.ptp(exact.bias))
    baseline = sf.Baseline(problem.baseline, span=told)
    return sf.CUCRL2(problem.space, baseline=baseline, alpha=alpha, condition="decisions", **options)


class Slow:
    """The account as the documentation tells it: every step is kept, every bound computed from all of them."""

    def __init__(self, problem, alpha, delta, span, strict, allowance, added=0.0):
        self.added = added  # in each step, beside α times the gain
        self.alpha, self.delta, self.H, self.r_max = alpha, delta, span, problem.space.r_max
        self.opening = allowance - (span if strict else 0.0)
        self.seen = [[] for _ in range(problem.space.n_pairs)]  # (reward, next state) of every visit
        self.space, self.weights_of = problem.space, problem.baseline.dense_weights
        self.usual = {}  # what the majority vote says, and by how much
        self.phase, self.rest = [], []  # (reward, surprise, slack)
        self.phases, self.rests, self.t, self.idle, self.is_open = 0, 1, 0, 0, False
        weight = 1 / (np.arange(BETS) + 2.0)
        self.lambdas = LARGEST / (self.r_max + span) * 0.5 ** np.arange(BETS)
        self.weights = weight / weight.sum()
        self.low, self.high, self.renew = 0.0, self.r_max, 1

    def luck(self, steps, sign, delta):
        """The m with sum_j w_j exp(λ_j m - Q_j) = 1 / δ."""
        if not steps:
            return 0.0
        _, x, slack = np.array(steps).T
        ends = self.lambdas[:, None, None] * np.array([sign * x - slack, sign * x + slack])
        charged = (ends - np.log1p(ends)).max(axis=1).sum(axis=1)

        def excess(m):
            return np.logaddexp.reduce(np.log(self.weights) + self.lambdas * m - charged) - math.log(1 / delta)

        return brentq(excess, 0.0, 1e7, xtol=1e-12, rtol=1e-14)

    def bound_gain(self):
        total, n = sum(r for r, *_ in self.rest), len(self.rest)
        ends = self.H * self.rests
        self.high = min(self.high, (total + ends + self.luck(self.rest, -1, self.delta / 4)) / n)
        self.low = max(self.low, (total - ends - self.luck(self.rest, 1, self.delta / 4)) / n)
        self.renew = 1.01 * n + 1

    def left_over(self, departs):
        phases, m = self.phases + (departs and not self.is_open), len(self.phase) + departs
        proved = sum(r for r, *_ in self.phase) - self.H * phases - self.luck(self.phase, 1, self.delta / 2)
        gains = (self.low, self.high)
        return self.opening + min(proved - m * g + (self.alpha * g + self.added) * (self.t + departs) for g in gains)

    def settle(self, k, reward, s_next, departed):
        here = self.space.pair_state == self.space.pair_state[k]
        if not np.any(self.weights_of[here] == 1.0):  # the baseline draws: all pairs of the state have one guess
            k = int(np.flatnonzero(here)[0])
        before = self.seen[k]
        guess = np.mean([r for r, _ in before]) if before else self.r_max / 2
        usual, lead, missed = self.usual.get(k, (None, 0, 0))
        slack = self.H / 2
        if before and missed / len(before) <= 0.25:
            slack = 0.0 if s_next == usual else self.H
        if departed and not self.is_open:
            self.is_open, self.phases = True, self.phases + 1
        (self.phase if self.is_open else self.rest).append((reward, reward - guess, slack))
        if not self.is_open and len(self.rest) >= self.renew:
            self.bound_gain()
        missed += bool(before) and s_next != usual
        usual = s_next if lead == 0 else usual
        self.usual[k] = (usual, lead + (1 if s_next == usual else -1), missed)
        before.append((reward, s_next))
        self.t += 1
        if self.is_open:
            self.idle = 0 if departed else self.idle + 1
            if self.idle >= PATIENCE * max(1.0, self.H / self.r_max):
                self.is_open, self.idle, self.rests = False, 0, self.rests + 1


def test_only_what_is_earned_above_the_floor_matters():
    """The same problem in another unit, with rewards below 0 and the floor at the lowest: the same run."""
    rng, runs = np.random.default_rng(3), []
    p, r = rng.dirichlet(np.ones(4) / 2, size=(4, 2)), np.round(rng.random((4, 2)), 2)
    for low in (0.0, -4.0):
        mdp = sf.TabularMDP.from_arrays(p, r + low, rewards=(low, low + 1), noise=sf.Noise("bernoulli"))
        problem = Problem("shifted", mdp, sf.Policy.always(mdp.space, 0), 0)
        agent = agent_for(problem, alpha=0.4, floor=low, tolerance=0.05, allowance=5.0)
        runs.append((sf.simulate(problem, agent, 6_000, seed=5), agent.account.gain_bounds, problem))
    (one, bounds, _), (other, shifted, problem) = runs
    assert 0 < one.baseline_steps < 6_000 and one.pairs.tolist() == other.pairs.tolist()
    assert shifted == pytest.approx([bound - 4 for bound in bounds])
    exact = sf.evaluate(other, problem, 0.4, floor=-4.0, tolerance=0.05, allowance=5.0)
    assert exact.decisions.violations == 0
    low = sf.CUCRL2(problem.space, baseline=sf.Baseline(problem.baseline, span=3.0), alpha=0.4, condition="decisions")
    sf.simulate(problem, low, 2_000, seed=5)  # what it earns above 0 is nothing: nothing ever departs
    assert not low.account.arrays.departures.any()
    with pytest.raises(InvalidInput, match="checkpoints"):
        agent_for(problem, floor=-4.0, checkpoints=7)


@pytest.mark.parametrize("seed", range(9))
def test_the_account_is_what_the_documentation_says(seed):
    rng = np.random.default_rng(seed)
    problem = adversarial.a_problem(rng, adversarial.garnet, "random" if seed < 6 else "randomised")
    space, exact = problem.space, sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    span, strict = float(np.ptp(exact.bias)) + 0.01, bool(seed % 2)
    allowance = 40 * (1 + span) if seed >= 3 else 0.0
    tolerance = Tolerance(0.5, per_step=0.02, allowance=allowance, floor=0.1 if seed % 3 else 0.0)
    account = UnknownAccount(space, sf.Baseline(problem.baseline, span=span), tolerance, 0.3, strict)
    slow = Slow(problem, 0.5, 0.3, span, strict, allowance, added=0.02 - 0.5 * tolerance.floor)
    s, departed_once, closed = problem.start, False, 0
    for t in range(500):
        proposal = adversarial.a_baseline(rng, problem.mdp, "random")
        account.propose(proposal if t % 150 < 80 else None)
        k = account.proposed(s)
        departs = False
        if k >= 0:
            verdict, after = account.verdict(s), slow.left_over(True)
            assert account.gain_bounds == pytest.approx((slow.low, slow.high), abs=1e-8)
            assert verdict.balance == pytest.approx(slow.left_over(False), abs=1e-7)
            assert verdict.balance - verdict.deposit == pytest.approx(min(after, slow.left_over(False)), abs=1e-7)
            departs = verdict.pays
            assert departs == (after >= 0) or abs(after) < 1e-6
        if not departs:
            k = problem.baseline.pair_at(s, rng.random())
        reward, s_next = problem.mdp.draw(rng, k)
        account.book(s, np.array([k]), np.array([float(reward)]), np.array([int(s_next)]))
        was_open = slow.is_open
        slow.settle(k, float(reward), int(s_next), departs)
        closed += was_open and not slow.is_open
        departed_once |= departs
        s = int(s_next)
    assert departed_once or not allowance or space.n_pairs == space.n_states
    assert closed or not departed_once or span > 2


@pytest.mark.parametrize("kernel", [kernels.charge, kernels.charge.py_func])
def test_a_charge_covers_every_bias_of_that_span(kernel):
    rng = np.random.default_rng(0)
    for _ in range(200):
        span, x = rng.uniform(0, 5), rng.uniform(-1, 1)
        slack = span * rng.choice([0.0, 0.5, 1.0])
        bets = new_bets(1.0 + span)
        kernel(bets, x, slack)
        surprises = x + slack * np.r_[-1.0, 1.0, rng.uniform(-1, 1, 20)]
        worst = np.max(np.outer(bets.lambda_, surprises) - np.log1p(np.outer(bets.lambda_, surprises)), axis=1)
        assert bets.log_wealth[0] == pytest.approx(-worst, abs=1e-12)


@pytest.mark.parametrize("kernel", [kernels.count, kernels.count.py_func])
def test_what_each_step_is_charged_by_hand(kernel):
    """The guess is made before the step: where an unusual next state follows, the bias may differ by the whole span."""
    space = sf.Space.full(2, 1)
    account = UnknownAccount(space, sf.Baseline(sf.Policy.always(space, 0), span=2.0), 0.1, 0.1)
    rests = [  # reward and next state of state 0's pair; surprise and slack
        (1.0, 0, 0.5, 1.0),  # nothing was seen: half of r_max, and the middle of the bias
        (1.0, 0, 0.0, 0.0),  # as always
        (0.0, 0, -1.0, 0.0),
        (0.0, 0, -2 / 3, 0.0),
        (0.5, 1, 0.0, 2.0),  # the first time that it leads to state 1
        (0.5, 1, 0.0, 2.0),  # missed once in 5 visits: state 0 is still what was expected
        (0.5, 0, 0.0, 1.0),  # missed twice in 6 visits: nothing is
    ]
    for reward, s_next, *_ in rests:
        kernel(account.arrays, 0, 0, reward, s_next)
    x, slack = np.array(rests)[:, 2:].T
    lambdas = LARGEST / 3 * 0.5 ** np.arange(BETS)
    for bets, sign in ((account.arrays.below, 1), (account.arrays.above, -1)):
        ends = lambdas[:, None, None] * np.array([sign * x - slack, sign * x + slack])
        charged = (ends - np.log1p(ends)).max(axis=1).sum(axis=1)
        assert bets.log_wealth.sum(axis=0) == pytest.approx(-charged, abs=1e-12)


@pytest.mark.slow
def test_bounds_fail_no_more_often_than_promised_and_the_condition_is_kept():
    tally = adversarial_account.run_campaign(90, 3, steps=400, known=False)  # false alarm 3e-6
    assert tally.violations == []
    assert tally.departed > 2000
    assert sum(tally.failed.values()) >= 1  # the bounds are not so loose that nothing could be seen


def test_a_set_that_knows_the_truth_proves_the_exact_worth():
    problem = sf.problems.inventory(noise=sf.Noise("bernoulli"))
    exact = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    account = UnknownAccount(problem.space, sf.Baseline(problem.baseline), 0.1, 0.1)
    account.arrays.departures[:] = np.arange(problem.space.n_pairs)
    account.arrays.now[kernels.STEPS] = 10**7
    account.review(Plausible.exactly(problem.mdp))
    worth = float(np.arange(problem.space.n_pairs) @ advantages(problem.mdp, exact.gain, exact.bias))
    assert worth - 5 < account.worth <= worth + 1e-6
    assert account.balance == pytest.approx(worth + 1e6 * exact.gain - np.ptp(exact.bias), rel=1e-3)
    account.forget_sets()
    assert account.balance == -math.inf


@pytest.mark.parametrize("seed", range(8))
def test_what_the_set_proves_holds_for_every_plausible_truth(seed):
    """The departures are valued at two gains; whatever the true one is, the margin is no smaller."""
    rng = np.random.default_rng(seed)
    problem = adversarial.a_problem(rng, adversarial.garnet, "deterministic")
    space, mdp = problem.space, problem.mdp
    width = 0.2 * rng.random(len(mdp.p))
    loose = Plausible.exactly(mdp)
    plausible = loose.__class__(**{name: getattr(loose, name) for name in loose.__dataclass_fields__})
    object.__setattr__(plausible, "p_lower", np.maximum(mdp.p - width, 0.0))
    object.__setattr__(plausible, "p_upper", np.minimum(mdp.p + width, 1.0))
    object.__setattr__(plausible, "r_lower", np.maximum(mdp.r - 0.05 * rng.random(space.n_pairs), 0.0))
    object.__setattr__(plausible, "r_upper", np.minimum(mdp.r + 0.05 * rng.random(space.n_pairs), space.r_max))
    account = UnknownAccount(space, sf.Baseline(problem.baseline), 0.3, 0.1, strict=True)
    account.arrays.departures[:] = rng.integers(0, 5, space.n_pairs)
    account.arrays.now[kernels.STEPS] = 200
    account.review(plausible)
    exact = sf.solve.gain_and_bias(mdp, problem.baseline)
    worth = float(account.arrays.departures @ advantages(mdp, exact.gain, exact.bias))
    margin = worth + 0.3 * 200 * exact.gain - np.ptp(exact.bias)
    assert account.balance <= margin + 1e-9 and account.worth <= worth + 1e-9
    assert math.isfinite(account.balance)


@pytest.mark.parametrize("kernel", [kernels.bound_by_set, kernels.bound_by_set.py_func])
def test_a_departure_by_hand_where_the_bias_is_known_up_to_bounds(kernel):
    """It leads where the bias may be low, from where it may be high."""
    mdp = sf.TabularMDP.from_arrays([[[1.0, 0.0], [0.25, 0.75]], [[0.0, 1.0], [0.5, 0.5]]], [[0.5, 0.1], [0.25, 0.0]])
    account = UnknownAccount(mdp.space, sf.Baseline(sf.Policy.always(mdp.space, 0)), 0.1, 0.1)
    account.arrays.ends[:], account.arrays.departures[:] = (0.25, 0.5), (0, 3, 0, 1)
    low, high, rows = np.array([0.0, 1.0]), np.array([0.5, 3.0]), Plausible.exactly(mdp).rows
    kernel(rows, mdp.r, mdp.space.pair_state, 1, low, high, account.arrays)
    expected = [0.5 + 0 - 0.5 - 0.5, 0.1 + 0.75 - 0.5 - 0.5, 0.25 + 1 - 3 - 0.5, 0.5 - 3 - 0.5]
    assert account.arrays.by_set[1] == pytest.approx(expected, abs=1e-15)
    assert account.arrays.owed[1] == pytest.approx(3 * expected[1] + expected[3], abs=1e-10)
    assert np.all(account.arrays.by_set[0] == -np.inf)


def test_outcomes_prove_nothing_of_departures_that_no_phase_has_counted():
    """A span that a set proves comes too late if something has departed; a smaller one forgets no phase."""
    problem = sf.problems.inventory()
    truth, baseline = Plausible.exactly(problem.mdp), sf.Baseline(problem.baseline)
    early, late = (UnknownAccount(problem.space, baseline, 0.1, 0.1) for _ in range(2))
    late.arrays.departures[3] = 1
    for account in (early, late):
        account.review(truth)
        assert math.isfinite(kernels.left_over(account.arrays, -1)[1])
    assert math.isfinite(kernels.left_over(early.arrays, -1)[0])
    assert kernels.left_over(late.arrays, -1)[0] == -math.inf
    early.propose(sf.Policy.always(problem.space, 0))
    early.arrays.now[kernels.STEPS] = 10**6  # long enough to pay for a departure
    assert early.verdict(3).pays
    early.book(3, np.array([problem.space.pair(3, 0)]), np.array([0.0]), np.array([3]))
    span, counted = early.arrays.terms.span, early.arrays.of_phases.log_wealth.copy()
    early.use_span(span / 4, None)
    assert early.arrays.terms.span == early.arrays.terms.reserve == span / 4
    assert early.arrays.now[kernels.PHASES] == early.arrays.now[kernels.PHASE_STEPS] == 1
    assert np.array_equal(early.arrays.of_phases.log_wealth, counted) and counted.any()


@pytest.mark.slow
@pytest.mark.parametrize("knowledge", [(), ("mechanics", "rewards"), ("mechanics",)])
def test_agents_keep_what_they_promise(knowledge):
    problem = sf.problems.inventory(noise=sf.Noise("bernoulli"))
    options = {"knowledge": problem.knowledge(*knowledge), "span": None} if knowledge else {}
    check_promise(lambda: agent_for(problem, 0.3, **options), problem, 0.3, 6_000, seed=1)
    check_agent(lambda: agent_for(problem, 0.5, allowance=20.0, **options), problem)
    run = sf.simulate(problem, agent_for(problem, 0.3, **options), 6_000, seed=1)
    assert run.baseline_steps < 6_000


def tosses(rng, steps):
    """A log of a baseline that tosses a coin for each reward, 0 or 1, in two states that are alike."""
    actions, after = rng.integers(2, size=(2, steps))
    states = np.r_[0, after[:-1]]
    return 2 * states + actions, actions.astype(float), after


def test_the_luck_of_a_randomised_baseline_counts():
    space = sf.Space.full(n_states=2, n_actions=2)
    for seed in range(10):  # each action always earns the same: all that is random is which one is drawn
        account = UnknownAccount(space, sf.Baseline(sf.Policy.uniform(space), span=0.01), 0.1, 0.05)
        account.read(0, *tosses(np.random.default_rng(seed), 5_000))
        low, high = account.gain_bounds
        assert low <= 0.5 <= high < low + 0.1


@pytest.mark.slow
def test_a_randomised_baseline_is_played_and_simulated_alike():
    problem = sf.problems.maintenance(3, 3, threshold=1, noise=sf.Noise("uniform", 0.1))
    check_agent(lambda: agent_for(problem, 0.5, allowance=100.0, seed=5), problem)
    check_promise(lambda: agent_for(problem, 0.5, seed=5), problem, 0.5, 4_000)


def test_a_log_of_the_baseline_lets_it_explore_sooner():
    problem = sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))
    log = adversarial_account.a_log(np.random.default_rng(0), problem, 20_000)
    played = []
    for read in (False, True):
        agent = agent_for(problem, 0.2)
        if read:
            agent.account.read(*log)
            low, high = agent.account.gain_bounds
            assert low < 0.4488 < high < 0.4488 + 0.03
        run = sf.simulate(problem, agent, 20_000, seed=0)
        assert sf.evaluate(run, problem, 0.2).decisions.violations == 0
        played.append(run.baseline_steps)
    assert played[1] < 0.75 * played[0]


def test_a_log_that_the_baseline_did_not_play_is_refused():
    problem = sf.problems.inventory()
    start, pairs, rewards, next_states = adversarial_account.a_log(np.random.default_rng(0), problem, 50)
    agent = agent_for(problem)
    other = problem.baseline.pair_at(start, 0.0) + 1
    i = int(np.flatnonzero(np.diff(next_states))[0]) + 1  # a step that leads somewhere else
    for wrong, words in (
        ((start, np.r_[other, pairs[1:]], rewards, next_states), "none that the baseline plays"),
        (
            (start, np.delete(pairs, i), np.delete(rewards, i), np.delete(next_states, i)),
            "where the one before ended",
        ),
        ((start, pairs[1:], rewards, next_states), "49 pairs, 50 rewards"),
        ((-1, pairs, rewards, next_states), "there is no state -1"),
    ):
        with pytest.raises(InvalidInput, match=words):
            agent.account.read(*wrong)
    assert agent.account.arrays.now[kernels.REST_STEPS] == 0
    with pytest.raises(InvalidInput, match="declare Baseline"):
        UnknownAccount(problem.space, sf.Baseline(problem.baseline), 0.1, 0.1).read(start, pairs, rewards, next_states)
    sf.simulate(problem, agent_for(problem, bounded=False), 5)
    agent.begin(problem.start)
    agent.observe(0, agent.act(0).action, 0.0, 0)
    with pytest.raises(InvalidInput, match="has begun"):
        agent.account.read(start, pairs, rewards, next_states)


def test_a_span_that_is_too_small_is_contradicted():
    """A baseline that waits long where nothing is earned: rewards are too uneven for a bias without span."""
    p, r = np.zeros((2, 1, 2)), np.array([[0.0], [1.0]])
    p[0, 0], p[1, 0] = [0.99, 0.01], [0.01, 0.99]
    mdp = sf.TabularMDP.from_arrays(p, r)
    problem = sf.problems.Problem("slow", mdp, sf.Policy.always(mdp.space, 0), 0)
    agent = agent_for(problem, span=0.0)
    run = sf.simulate(problem, agent, 3_000, seed=0)
    assert "declared span of the baseline's bias, 0" in agent.contradictions[0]
    assert "contradicted" in run.decisions[-1].reason
    agent = agent_for(problem, span=1.0)
    sf.simulate(problem, agent, 3_000, seed=0)
    assert agent.contradictions == []


def test_too_little_knowledge_is_refused_with_what_to_declare():
    problem = sf.problems.riverswim()
    with pytest.raises(InvalidInput, match=r"declare its gain and bias, or .* Baseline\(policy, span=..\)"):
        agent_for(problem, span=None)
    agent = agent_for(problem, span=None, knowledge=problem.knowledge("rewards"))
    agent.begin(0)
    said = set()
    for _ in range(50):
        decision = agent.act(agent.state)
        said.add(decision.reason)
        agent.observe(agent.state, decision.action, 0.0, max(agent.state - 1, 0))
    assert any("keeps returning to one state" in reason for reason in said)
    for wrong, words in (({"span": -1.0}, "finite and not negative"), ({"span": math.inf}, "finite and not negative")):
        with pytest.raises(InvalidInput, match=words):
            sf.Baseline(problem.baseline, **wrong)
    with pytest.raises(InvalidInput, match="leave it out"):
        sf.Baseline(problem.baseline, 0.1, np.zeros(6), span=1.0)


def test_the_set_charges_departures_between_reviews():
    """Within an episode a departure costs what the set says, not its worst outcome: decisions cost less than replay."""
    problem = sf.problems.inventory()
    exact = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    baseline, knowledge = (
        sf.Baseline(problem.baseline, exact.gain, exact.bias),
        problem.knowledge("mechanics", "rewards"),
    )
    played = {}
    for condition in ("replay", "decisions"):
        agent = sf.CUCRL2(
            problem.space, baseline=baseline, alpha=0.001, condition=condition, knowledge=knowledge, bounded=False
        )
        played[condition] = sf.simulate(problem, agent, 20_000, seed=0).baseline_steps
    assert played["decisions"] <= played["replay"]
    account = sf.CUCRL2(problem.space, baseline=baseline, alpha=0.5, condition="decisions").account
    account.arrays.by_set[:] = -0.25
    other = next(a for a in range(2) if problem.space.pair(3, a) != problem.baseline.pair_at(3, 0.0))
    account.propose(sf.Policy.always(problem.space, 0) if other == 0 else sf.Policy.always(problem.space, 1))
    account.arrays.now[0] = 1000.0
    before = account.arrays.now[PROVED]
    account.book(3, np.array([problem.space.pair(3, other)]), np.array([0.1]), np.array([3]))
    assert account.arrays.departures.sum() == 1
    assert account.arrays.now[PROVED] == pytest.approx(before - 0.25)


def test_saving_up_reaches_what_single_steps_do_not():
    problem = sf.problems.riverswim(noise=sf.Noise("truncated_gaussian", 0.1))
    exact = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    baseline, played = sf.Baseline(problem.baseline, exact.gain, exact.bias), []
    for patience in (None, 0.1):
        agent = sf.CUCRL2(problem.space, baseline=baseline, alpha=0.2, condition="decisions", patience=patience)
        run = sf.simulate(problem, agent, 20_000, seed=0)
        assert sf.evaluate(run, problem, 0.2).decisions.violations == 0
        played.append(run.baseline_steps)
    assert played[1] < 0.3 * played[0]
