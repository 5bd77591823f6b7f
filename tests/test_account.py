"""The account: against a slow model written from the documentation, against the truth, and as an agent plays it."""

import math

import numpy as np
import pytest
from scipy.special import betaln

import adversarial
import adversarial_account
import oracles
import surefooted as sf
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.certificates.account import PAIRWISE, Account
from surefooted.certificates.ahead import OF_CHOICES, copied
from surefooted.certificates.martingale import BETS, LARGEST
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.evaluation.decisions import advantages, decision_margin, departures
from surefooted.evaluation.margins import Evaluation
from surefooted.kernels import account as kernels
from surefooted.planning import Plan
from surefooted.problems.problem import Problem
from surefooted.sets.plausible import Plausible
from surefooted.simulation.run import Run
from test_martingale import crossing


def known(problem):
    answer = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    return sf.Baseline(problem.baseline, answer.gain, answer.bias)


def decisions_agent(problem, alpha=0.1, **options):
    return sf.CUCRL2(problem.space, baseline=known(problem), alpha=alpha, condition="decisions", **options)


class Slow:
    """The account as the documentation tells it: every departure is kept, every bound computed from all of them."""

    def __init__(self, problem, alpha, delta, reserve, allowance=0.0):
        answer = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
        self.g, self.h, self.r_max = answer.gain, answer.bias, problem.space.r_max
        self.alpha, self.reserve, self.allowance, self.t = alpha, reserve, allowance, 0
        self.outcomes = [[] for _ in range(problem.space.n_pairs)]  # r + h(s') of every visit
        self.surprises, self.guesses = [], []
        self.carried = 0.0
        self.c = self.h.max() - self.h.min() + self.g
        weight = 1 / (np.arange(BETS) + 2.0)
        self.lambdas, self.weights = LARGEST / self.c * 0.5 ** np.arange(BETS), weight / weight.sum()
        self.log_threshold = math.log(1 / ((1 - PAIRWISE) * delta))
        self.log_term = math.log(problem.space.n_pairs / (PAIRWISE * delta))

    def worst(self, s):
        return self.h.min() - self.h[s] - self.g

    def worth(self):
        if not self.surprises:
            return self.carried
        bound = crossing(self.lambdas, self.weights, self.surprises, self.log_threshold) + math.fsum(self.guesses)
        return max(bound, self.carried)

    def low(self, s, k):
        """The least mean outcome of pair k that no bet excludes, minus h(s) + g."""
        lowest, range_ = self.h.min(), self.h.max() - self.h.min() + self.r_max
        scaled = [(x - lowest) / range_ for x in self.outcomes[k]]
        return lowest + range_ * smallest_mean(scaled, self.log_term) - self.h[s] - self.g

    def pays(self, s, k):
        limit = self.allowance - self.reserve + self.alpha * self.g * (self.t + 1)
        if limit < 0:
            return False, self.carried
        if limit + self.carried + self.worst(s) >= 0:
            return True, self.carried
        worth = self.worth()
        return limit + worth + self.low(s, k) >= 0, worth

    def settle(self, s, k, r, s_next, departed):
        if departed:
            n, past = len(self.outcomes[k]), self.outcomes[k]
            guess = (math.fsum(past) / n - self.h[s] - self.g) * n / (n + 1) if n else 0.0
            guess = min(guess, self.c + self.worst(s))
            self.surprises.append(r + self.h[s_next] - self.h[s] - self.g - guess)
            self.guesses.append(guess)
            self.carried += self.worst(s)
        self.outcomes[k].append(r + self.h[s_next])
        self.t += 1


def smallest_mean(y, x):
    """The bound on the mean of y ("Mean rewards" in docs/guarantees.md), by bisection."""
    s, q = math.fsum(y), math.fsum(v * v for v in y)
    if s <= 0:
        return 0.0
    k = s * s / q
    m, level = len(y) - k, betaln(k + 1, len(y) - k + 1) - np.logaddexp(x, 0.0)
    low, high = 0.0, k / (len(y) + 1)
    for _ in range(200):
        p = (low + high) / 2
        low, high = (low, p) if k * math.log(p) + (m + 1) * math.log1p(-p) >= level else (p, high)
    return low * q / s


def near(x):
    return pytest.approx(x, rel=1e-7, abs=1e-7)


@pytest.mark.first(4)
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_the_account_is_what_the_documentation_says(seed, strict):
    rng = np.random.default_rng(seed)
    problem = adversarial_account.a_problem(rng, adversarial_account.KINDS[seed % 3 - 3])
    alpha, delta = float(rng.choice([0.05, 0.3])), 0.2
    learner = adversarial_account.Harm(problem, seed)
    h = known(problem).bias
    allowance = 0.0 if seed % 4 == 0 else 3 * float(np.ptp(h) + 1)
    agent = decisions_agent(problem, alpha, delta=delta, learner=learner, strict=strict, allowance=allowance)
    reserve = h.max() - (1 - alpha) * h.min() - alpha * h[problem.start] if strict else 0.0
    slow, s = Slow(problem, alpha, delta, reserve, allowance), problem.start
    agent.begin(s)
    assert agent.account.reserve == near(reserve)
    departed_at_all = 0
    for _ in range(150):
        pair = agent.account.proposed(s)
        decision = agent.act(s)
        if pair >= 0:
            pays, worth = slow.pays(s, pair)
            slow.carried = worth
            assert (decision.role == "optimistic") == pays
            assert decision.budget == near(slow.alpha * slow.g * (slow.t + 1) + allowance - reserve + worth)
            assert decision.deposit == near(max(-slow.low(s, pair), 0.0))
        departed = pair >= 0 and decision.role == "optimistic"
        departed_at_all += departed
        k = problem.space.pair(s, decision.action)
        reward, s_next = problem.mdp.draw(rng, k)
        agent.observe(s, decision.action, float(reward), s_next)
        slow.settle(s, k, float(reward), s_next, departed)
        assert agent.account.worth == near(slow.worth())
        s = s_next
    assert departed_at_all or not allowance


@pytest.mark.first(1)
def test_proved_worth_fails_no_more_often_than_promised_and_the_condition_is_kept():
    tally = adversarial_account.run_campaign(60, 3, steps=150)  # false alarm 3e-6
    assert tally.violations == []
    assert tally.departed > 1000


def test_the_reserve_is_the_least_that_always_suffices():
    """E_A - (1 - α) E_b = E W + α t g + α h(s_1) - E_A h + (1 - α) E_b h, whatever the two last states are."""
    rng = np.random.default_rng(0)
    problem = sf.problems.riverswim()
    for _ in range(50):
        h, alpha, start = rng.normal(size=6), rng.random(), int(rng.integers(6))
        account = Account(problem.space, sf.Baseline(problem.baseline, 0.5, h), alpha, 0.1, strict=True)
        account.begin(start)
        needed = max(h[x] - (1 - alpha) * h[y] - alpha * h[start] for x in range(6) for y in range(6))
        assert account.reserve == near(needed)


def a_fork():
    """From state 0 the run comes to 1 or 2, each half of the time. All other steps are sure.

    The baseline goes on from 1 through 17 states that pay nothing, and from 2 through two states that pay 1. In 1,
    action 1 leads to these two states, and pays nothing at once where the baseline pays 0.1.
    """
    p, r = np.zeros((22, 2, 22)), np.zeros((22, 2))
    for s, (s_next, reward) in enumerate([(0, 0.1), (5, 0.1), (3, 0.0), (4, 1.0), (0, 1.0)] + [(0, 0.0)] * 17):
        p[s, :, s_next if s < 5 or s == 21 else s + 1], r[s] = 1.0, reward
    p[0], p[1, 1], r[1, 1] = np.eye(22)[[1, 2]].mean(axis=0), np.eye(22)[3], 0.0
    mdp = sf.TabularMDP.from_arrays(p, r)
    return Problem("fork", mdp, sf.Policy.always(mdp.space, 0), 0), p, r


class TakesTheFork(UCRL2Learner):
    def propose(self, plausible, t):
        policy = sf.Policy.deterministic(self.space, np.eye(22, dtype=np.int64)[1])
        return Plan(policy, 0.0, 1.0, np.zeros(22), 1, True)


@pytest.mark.parametrize("strict", [True, False])
def test_a_departure_that_is_surely_worth_it_waits_until_the_reserve_is_saved_up(strict):
    """Then the algorithm earns (1 - α) of the baseline's reward on average after every step: both ways are played."""
    problem, p, r = a_fork()
    known_to_be = sf.Knowledge(problem.space, rewards=r, successors=p > 0)
    earned, departed = np.zeros((2, 4)), 0  # by the agent and by the baseline, over both ways
    for way in (1, 2):
        learner = TakesTheFork(problem.space, delta=5e-7, knowledge=known_to_be)
        agent = decisions_agent(problem, 0.1, delta=1e-6, learner=learner, strict=strict)
        played, s = np.zeros(4), 0
        agent.begin(s)
        for t in range(4):
            a = agent.act(s).action
            s_next = way if t == 0 else int(p[s, a].argmax())
            agent.observe(s, a, r[s, a], s_next)
            played[t], s, departed = r[s, a], s_next, departed + a
        sure = [0.1, 0.1, 0.0, 0.0] if way == 1 else [0.1, 0.0, 1.0, 1.0]
        earned += np.cumsum([played, sure], axis=1) / 2
    assert agent.account.reserve == (near(1.8 + 0.9 * 1.7) if strict else 0.0)
    assert departed == (not strict)
    assert (earned[0] >= 0.9 * earned[1] - 1e-5).all() == strict


def test_simulation_and_live_use_give_the_same_run():
    randomised = sf.problems.maintenance(3, 3, threshold=1, noise=sf.Noise("uniform", 0.1))
    for problem in (sf.problems.inventory(noise=sf.Noise("bernoulli")), randomised):
        run = sf.simulate(problem, decisions_agent(problem, 0.3, seed=5), 600, seed=2)
        agent, world, s = decisions_agent(problem, 0.3, seed=5), np.random.default_rng(2), problem.start
        agent.begin(s)
        for t in range(600):
            decision = agent.act(s)
            assert agent.act(s) == decision
            k = problem.space.pair(s, decision.action)
            assert k == run.pairs[t]
            reward, s_next = problem.mdp.draw(world, k)
            agent.observe(s, decision.action, float(reward), s_next)
            assert s_next == run.next_states[t]
            s = s_next
        assert agent.segments == run.segments


def test_a_restored_agent_goes_on_exactly():
    problem = sf.problems.inventory(noise=sf.Noise("bernoulli"))
    agent, world, s = decisions_agent(problem, 0.2), np.random.default_rng(1), problem.start
    agent.begin(s)

    def play(agent, s, rng, steps):
        for _ in range(steps):
            a = agent.act(s).action
            reward, s_next = problem.mdp.draw(rng, problem.space.pair(s, a))
            agent.observe(s, a, float(reward), s_next)
            s = s_next
        return s

    s = play(agent, s, world, 400)
    copy = decisions_agent(problem, 0.2).load_state_dict(agent.state_dict())
    assert copy.act(s) == agent.act(s)
    first, second = np.random.default_rng(9), np.random.default_rng(9)
    assert play(agent, s, first, 300) == play(copy, s, second, 300)
    assert copy.account.balance == agent.account.balance
    assert copy.segments == agent.segments


def test_inventory_explores_ten_times_sooner_than_by_replay():
    problem = sf.problems.inventory(noise=sf.Noise("truncated_gaussian", 0.1))
    run = sf.simulate(problem, decisions_agent(problem, 0.05), 20_000, seed=0)
    found = sf.evaluate(run, problem, 0.05)
    assert run.baseline_steps < 2_500
    assert found.decisions.violations == 0
    optimist = sf.simulate(problem, sf.UCRL2(problem.space), 20_000, seed=0)
    assert sf.evaluate(optimist, problem, 0.05).decisions.violations > 100


def test_an_allowance_alone_is_a_budget():
    problem = sf.problems.inventory(noise=sf.Noise("bernoulli"))
    agent = decisions_agent(problem, 0.0, allowance=8.0)
    run = sf.simulate(problem, agent, 3_000, seed=1)
    exact = sf.evaluate(run, problem, 0.0, allowance=8.0).decisions
    assert exact.violations == 0 and exact.margin.min() < 7.0
    assert 0 < run.baseline_steps < 3_000


def test_worth_is_the_sum_of_exact_advantages_of_departures():
    problem = sf.problems.inventory(noise=sf.Noise("bernoulli"))
    run = sf.simulate(problem, decisions_agent(problem, 0.3), 500, seed=3)
    gain, bias, advantage = dense_advantages(problem)
    states, certain = np.r_[run.start, run.next_states[:-1]], problem.baseline.probabilities >= 1
    total, margins, t = 0.0, [], 0
    for segment in run.segments:
        for i in range(segment.first, segment.first + segment.length):
            s, a = states[i], problem.space.pair_action[run.pairs[i]]
            if segment.role == "optimistic" and not certain[s, a]:
                total += advantage[run.pairs[i]]
            t += 1
            margins.append(0.3 * gain * t + total)
    found = sf.evaluate(run, problem, 0.3).decisions
    assert found.margin == pytest.approx(margins, abs=1e-9)
    assert found.baseline == pytest.approx(gain * np.arange(1, 501))
    assert departures(run, problem.baseline).sum() > 0
    assert advantages(problem.mdp, gain, bias) == pytest.approx(advantage, abs=1e-9)


def dense_advantages(problem):
    """Gain, bias and A [K] by dense linear algebra, for a baseline that visits every recurrent state."""
    mdp, space = problem.mdp, problem.space
    rows = np.zeros((space.n_pairs, space.n_states))
    for k in range(space.n_pairs):
        for j in range(mdp.next_ptr[k], mdp.next_ptr[k + 1]):
            rows[k, mdp.next_state[j]] += mdp.p[j]
    weights = problem.baseline.dense_weights
    P, r = np.zeros((space.n_states,) * 2), np.zeros(space.n_states)
    for k in range(space.n_pairs):
        P[space.pair_state[k]] += weights[k] * rows[k]
        r[space.pair_state[k]] += weights[k] * mdp.r[k]
    S = space.n_states
    solution = np.linalg.lstsq(np.c_[np.eye(S) - P, np.ones(S)], r, rcond=None)[0]
    bias, gain = solution[:S], solution[S]
    return gain, bias, mdp.r + rows @ bias - bias[space.pair_state] - gain


def test_a_baseline_without_a_single_gain_has_no_margin_of_decisions():
    p = np.zeros((2, 2, 2))
    p[0, :, 0] = p[1, :, 1] = 1.0
    mdp = sf.TabularMDP.from_arrays(p, np.array([[0.2, 0.2], [0.8, 0.8]]))
    problem = sf.Problem("two islands", mdp, sf.Policy.always(mdp.space, 0), 0)
    run = Run(0, [], [problem.baseline], [], np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1, dtype=np.int64))
    assert decision_margin(run, problem, 0.1) is None
    with pytest.raises(SurefootedError, match="same from every state"):
        _ = Evaluation(*np.zeros((6, 1))).decisions


@pytest.mark.parametrize("kernel", [kernels.bound_by_set, kernels.bound_by_set.py_func])
@pytest.mark.parametrize("seed", range(4))
def test_what_a_set_proves_of_a_departure_matches_linear_programming(kernel, seed):
    rng = np.random.default_rng(seed)
    problem = adversarial.a_problem(rng, adversarial.garnet, "random")
    space = problem.space
    counts = sf.Counts(space)
    for _ in range(200):
        k = int(rng.integers(space.n_pairs))
        reward, s_next = problem.mdp.draw(rng, k)
        counts.add(int(space.pair_state[k]), int(space.pair_action[k]), float(reward), int(s_next))
    plausible = sf.confidence.likelihood(counts, 0.1)
    account = Account(space, known(problem), 0.1, 0.1)
    kernel(plausible.rows, plausible.r_lower, space.pair_state, account.arrays)
    h, g = account.baseline.bias, account.baseline.gain
    for k in range(space.n_pairs):
        worst = oracles.extreme_mean_by_linear_program(oracles.row_set(plausible, k), h, -1.0)
        expected = plausible.r_lower[k] + worst - h[space.pair_state[k]] - g
        assert account.arrays.by_set[k] == pytest.approx(expected, abs=1e-9)


def test_a_set_that_knows_the_truth_proves_the_exact_worth():
    problem = sf.problems.inventory(noise=sf.Noise("bernoulli"))
    account = Account(problem.space, known(problem), 0.1, 0.1)
    account.begin(problem.start)
    account.arrays.departures[:] = np.arange(problem.space.n_pairs)
    account.arrays.now[kernels.PROVED] = -1e9
    account.review(Plausible.exactly(problem.mdp))
    exact = advantages(problem.mdp, account.baseline.gain, account.baseline.bias)
    assert account.worth == pytest.approx(float(np.arange(problem.space.n_pairs) @ exact), abs=1e-6)
    account.forget_sets()
    assert np.all(np.isneginf(account.arrays.by_set)) and account.worth < -2


def test_knowledge_makes_departures_cheaper():
    problem = sf.problems.maintenance(2, 4, threshold=2, noise=sf.Noise("uniform", 0.1))
    told = decisions_agent(problem, 0.005, knowledge=problem.knowledge("rewards", "mechanics"))
    untold = decisions_agent(problem, 0.005)
    fewer, more = (sf.simulate(problem, agent, 3_000, seed=1).baseline_steps for agent in (told, untold))
    assert fewer < 0.75 * more


def test_the_shares_of_delta_add_up():
    problem = sf.problems.inventory(noise=sf.Noise("bernoulli"))
    plain = decisions_agent(problem, delta=0.08)
    assert plain.account.delta == 0.08 and not plain.shares.of_set  # the set proves nothing here
    told = decisions_agent(problem, delta=0.08, knowledge=problem.knowledge("rewards"))
    assert told.account.delta + told.learner.delta == pytest.approx(0.08) and told.shares.of_set
    terms = plain.account.arrays.terms
    K = problem.space.n_pairs
    assert math.exp(-terms.threshold) + K * math.exp(-terms.log_term) == pytest.approx(0.08)
    learner = type(told.learner)(problem.space, delta=0.03, knowledge=problem.knowledge("rewards"))
    assert decisions_agent(problem, delta=0.05, learner=learner).account.delta == pytest.approx(0.02)
    with pytest.raises(InvalidInput, match="leaves nothing"):
        decisions_agent(problem, delta=0.03, learner=learner)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"condition": "luck"}, "there is no condition 'luck'"),
        ({"tolerance": -1.0}, "tolerance -1.0 must be finite and not negative"),
        ({"checkpoints": [5, 3]}, "checkpoints .5, 3. must be a number of steps"),
        ({"alpha": 0.0}, "or be 0 with an allowance"),
        ({"allowance": -1.0}, "allowance -1.0 must be finite and not negative"),
        ({"allowance": math.inf}, "allowance inf"),
    ],
)
def test_impossible_arguments_are_refused(options, words):
    problem = sf.problems.riverswim()
    with pytest.raises(InvalidInput, match=words):
        sf.CUCRL2(problem.space, baseline=known(problem), **({"alpha": 0.1, "condition": "decisions"} | options))


def test_a_randomised_proposal_is_refused():
    problem = sf.problems.riverswim()

    class Undecided(sf.agents.UCRL2Learner):
        def propose(self, plausible, t):
            return Plan(sf.Policy.uniform(self.space), 0.0, 1.0, np.zeros(self.space.n_states), 1, True)

    agent = decisions_agent(problem, learner=Undecided(problem.space))
    with pytest.raises(InvalidInput, match="one action a state"):
        agent.begin(0)


def test_reasons_are_in_plain_words():
    problem = sf.problems.inventory(noise=sf.Noise("bernoulli"))
    agent = decisions_agent(problem, 0.05)
    agent.begin(problem.start)
    reasons = {agent.act(s).reason for s in range(problem.space.n_states)}
    assert any("must be saved up before anything can be explored" in reason for reason in reasons)
    rich = decisions_agent(problem, 0.05, allowance=100.0)
    rich.begin(problem.start)
    assert any("could cost" in rich.act(s).reason for s in range(problem.space.n_states))


def test_the_statement_lists_every_departure_in_a_line():
    problem = sf.problems.inventory(noise=sf.Noise("bernoulli"))
    agent = decisions_agent(problem, 0.3)
    run = sf.simulate(problem, agent, 400, seed=3)
    departed = departures(run, problem.baseline)
    entries = list(agent.account.statement(run.start, run.pairs, run.rewards, run.next_states, departed))
    assert [entry.t for entry in entries] == (np.flatnonzero(departed) + 1).tolist()
    states, h, g = np.r_[run.start, run.next_states], agent.baseline.bias, agent.baseline.gain
    for entry in entries:
        assert entry.state == states[entry.t - 1] and entry.next_state == states[entry.t]
        assert entry.worth == near(entry.reward + h[entry.next_state] - h[entry.state] - g)
        assert entry.deposit >= -min(entry.worth, 0.0) - 1e-9 or entry.deposit < agent.account.arrays.terms.largest
        assert str(entry).startswith(f"step {entry.t}: state {entry.state}, action {entry.action}, could cost")
    waited = 400 - entries[-1].t
    assert entries[-1].balance + waited * 0.3 * g == near(agent.account.balance)


@pytest.mark.parametrize("stages", [0, 3])
def test_the_copy_of_a_simulator_is_the_account_whatever_was_counted_in_between(stages):
    """Steps are played with the copy; then all of them count, some, or others, or what the copy counted is dropped."""
    problem, rng = (sf.problems.gridworld() if stages else sf.problems.maintenance()), np.random.default_rng(stages)
    if stages:
        values = sf.solve.policy_values(problem.mdp, problem.baseline, problem.horizon)
        baseline, stages = sf.Baseline(problem.baseline, values=values), problem.horizon
    else:
        baseline = known(problem)
    account, n = Account(problem.space, baseline, 0.1, 0.05), problem.space.n_pairs
    if not stages:
        account.begin(problem.start)
    for round_ in range(60):
        ahead, truth = account._ahead.of(account.arrays), copied(account.arrays)
        assert ahead.terms == truth.terms and np.array_equal(ahead.now, truth.now)
        assert np.array_equal(ahead.bets.log_wealth, truth.bets.log_wealth)
        for name in OF_CHOICES:
            assert np.array_equal(getattr(ahead, name), getattr(truth, name))
            assert getattr(ahead, name) is not getattr(account.arrays, name)
        length = stages or 1 + round_ % 5
        pairs = rng.integers(n, size=length)
        choices = pairs + n * np.arange(length) * (stages > 0)
        for name in OF_CHOICES:  # as a simulator that plays these
            np.add.at(getattr(ahead, name), choices, 1)
        account._touch(pairs, 0)
        if round_ % 3:
            taken = length if round_ % 2 or stages else rng.integers(length + 1)
            states = rng.integers(problem.space.n_states, size=length)
            account.book(0, pairs[:taken], rng.random(taken), states[:taken])
        if round_ % 7 == 0:
            others = rng.integers(n, size=stages or 500)
            account.book(0, others, np.zeros(len(others)), np.zeros(len(others), dtype=np.int64))
