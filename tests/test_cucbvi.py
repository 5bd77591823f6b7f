"""CUCB-VI: its promise on nasty problems, its ledger by definition, the paper's figure step by step, bad input."""

import pickle
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import adversarial_episodes as nasty
from surefooted import solve
from surefooted.agents.cucbvi import CUCBVI
from surefooted.agents.episodic_learner import EpisodicLearner
from surefooted.agents.euler import EULERLearner
from surefooted.agents.ucbvi import UCBVI, UCBVILearner
from surefooted.certificates.episodes import EpisodeCertificate
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.evaluation import margins as oracle
from surefooted.problems.gridworld import gridworld
from surefooted.problems.problem import Problem
from surefooted.sets.confidence import bernstein, likelihood
from surefooted.simulation.playing import simulate, simulate_episodes
from surefooted.tables.baseline import Baseline
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Space


def same(a, b):
    """Whether two nested structures hold the same, arrays bit by bit."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if hasattr(a, "__dict__") and not isinstance(a, Policy):
        return type(a) is type(b) and same(vars(a), vars(b))
    return type(a) is type(b) and a == b


def snapshot(agent):
    return pickle.loads(pickle.dumps(agent.state_dict()))


class Echo(EpisodicLearner):
    """Proposes the policies it was given, in turn."""

    def says(self, *policies):
        self.policies_to_say, self.turn = policies, 0
        return self

    def propose(self):
        self.turn += 1
        return self.policies_to_say[(self.turn - 1) % len(self.policies_to_say)]


def arms(*means, horizon=1, noise=None):
    """One state and one action for each mean."""
    p = np.ones((1, len(means), 1))
    mdp = TabularMDP.from_arrays(p, np.array([means]), noise=noise or Noise(), r_max=1.0)
    return nasty.Case("arms", mdp, Policy.always(mdp.space, 0), horizon)


def knowing(case, style="exact", scale=0.3):
    return nasty.Knowing(case.mdp, style, scale, 3)


def as_problem(case, start=0):
    return Problem("case", case.mdp, case.policy, start, case.horizon)


def some_case(seed, kind=nasty.adversarial.garnet, baseline="first", staged=False):
    """A case with at least three states, two actions and two stages, whose baseline is not worthless."""
    rng = np.random.default_rng([77, seed])
    while True:
        case = nasty.a_case(rng, kind, baseline, staged)
        if case.space.n_states > 2 and case.space.n_actions > 1 and case.horizon > 1 and case.values.min() > 0.05:
            return case


# -- the promise ------------------------------------------------------------------------------------------------------

STEADY = tuple(kind for kind in nasty.LEARNERS if kind != "moody")


@pytest.mark.seeds(1)
@pytest.mark.parametrize("seed", range(4))
def test_no_promise_is_broken_and_every_budget_is_what_its_definition_says(seed):
    tally = nasty.run_campaign(60, seed, learners=STEADY, reevaluate=True)
    assert not tally.violations, tally.violations[:5]
    assert tally.explored > tally.episodes / 4
    assert tally.explored_unknown > tally.episodes / 20
    assert tally.least < 1e-9  # spent to the last drop
    assert abs(tally.excess) < 1e-9


@pytest.mark.slow
@pytest.mark.seeds(1)
@pytest.mark.parametrize("seed", [10, 11])
def test_without_reevaluation_every_budget_is_the_papers(seed):
    tally = nasty.run_campaign(60, seed, learners=STEADY, reevaluate=False)
    assert not tally.violations, tally.violations[:5]
    assert tally.explored > tally.episodes / 4


@pytest.mark.slow
@pytest.mark.seeds(1)
@pytest.mark.parametrize("seed", [24, 31])
def test_bounds_that_differ_when_asked_again_break_nothing(seed):
    tally = nasty.run_campaign(60, seed, learners=("moody",), reevaluate=True)
    assert not tally.violations, tally.violations[:5]


@pytest.mark.slow
def test_the_campaign_prints_its_lines_and_exits_with_nothing_when_nothing_is_violated():
    script = Path(nasty.__file__)
    done = subprocess.run([sys.executable, script, "3", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"(3 problems, 9 runs, .*, 0 violations\n){2}", done.stdout)


class Liar(EpisodicLearner):
    """Its pessimistic bounds are above the truth."""

    def propose(self):
        return Policy.always(self.space, 1)

    def bound(self, policies, side):
        return super().bound(policies, side) + 0.3


class WatchedLiar(nasty.Watched, Liar):
    pass


def test_the_campaign_notices_a_bound_above_the_truth_and_the_violation_it_leads_to():
    case = arms(0.5, 0.2)
    learner = WatchedLiar(case.space, 1, confidence=knowing(case)).watch(case, True)
    agent = CUCBVI(case.space, 1, baseline=case.baseline(True), alpha=0.1, learner=learner)
    tally = nasty.Tally()
    nasty.check_run(case, agent, np.zeros(20, dtype=np.int64), 0, tally, "liar")
    for word in ("bound is wrong", "budget above the exact margin", "margin -"):
        assert any(word in violation for violation in tally.violations), tally.violations


# -- by hand ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_known", [True, False])
def test_two_arms_by_hand(is_known):
    """α = 0.4: an episode of the baseline (0.5) saves 0.2, one of the other arm (0.21) costs 0.09."""
    case = arms(0.5, 0.21)
    learner = Echo(case.space, 1, confidence=knowing(case)).says(Policy.always(case.space, 1))
    agent = CUCBVI(case.space, 1, baseline=case.baseline(is_known), alpha=0.4, learner=learner)
    run = simulate(as_problem(case), agent, episodes=9)
    assert run.explored.tolist() == [False, True, True, False, True, True, False, True, True]
    budgets = [0.0, 0.2, 0.11, 0.02, 0.22, 0.13, 0.04, 0.24, 0.15]
    assert np.allclose([d.budget for d in run.decisions], budgets, rtol=0, atol=1e-12)
    assert [d.policy for d in run.decisions] == [0, 1, 1, 0, 1, 1, 0, 1, 1]
    assert [d.t for d in run.decisions] == list(range(9))
    assert {d.length for d in run.decisions} == {1}
    assert run.decisions[0].reason == "Plays the baseline: exploring is proved to earn 0.21 only, 0.09 too little."
    assert run.decisions[1].reason == "Explores: it is proved to earn 0.21, and 0.11 stays saved up."
    assert run.decisions[3].reason == "Plays the baseline: exploring is proved to earn 0.21 only, 0.07 too little."


@pytest.mark.parametrize("is_known", [True, False])
def test_exactly_enough_is_enough(is_known):
    """α = 1/2 and all numbers are sums of powers of two: 0.5 saves 0.25, 0.125 costs 0.125, twice in turn."""
    case = arms(0.5, 0.125)
    learner = Echo(case.space, 1, confidence=knowing(case)).says(Policy.always(case.space, 1))
    agent = CUCBVI(case.space, 1, baseline=case.baseline(is_known), alpha=0.5, learner=learner)
    run = simulate(as_problem(case), agent, episodes=9)
    assert run.explored.tolist() == [False, True, True] * 3
    assert [d.budget for d in run.decisions] == [0.0, 0.25, 0.125] * 3


def test_what_the_baseline_earns_nothing_from_is_always_free_to_explore():
    p = np.zeros((2, 2, 2))
    p[:, :, :] = np.eye(2)[:, None, :]
    mdp = TabularMDP.from_arrays(p, np.array([[0.0, 0.0], [0.8, 0.0]]), r_max=1.0)
    case = nasty.Case("two islands", mdp, Policy.always(mdp.space, 0), 3)
    learner = Echo(case.space, 3, confidence=knowing(case)).says(Policy.always(case.space, 1))
    agent = CUCBVI(case.space, 3, baseline=case.baseline(True), alpha=0.1, learner=learner)
    starts = np.array([0, 0, 1, 0, 1, 0, 0, 1])
    run = simulate(as_problem(case), agent, episodes=8, starts=starts)
    assert run.explored.tolist() == [s == 0 for s in starts]
    assert np.allclose([d.budget for d in run.decisions], 0.24 * np.cumsum(np.r_[0, starts[:-1]]), rtol=0, atol=1e-12)


def test_a_baseline_known_only_by_bounds_counts_low_where_it_is_saved_and_high_where_it_is_owed():
    """One start plays only the baseline, the other only explores: 2 α low(0) and -2 (1 - α) high(1)."""
    ledger = EpisodeCertificate(2, 0.25, None)
    ledger.tighten_baseline(np.array([0.5, 0.25]), np.array([2.0, 3.0]))
    for _ in range(2):
        ledger.conserved(0)
        ledger.explored(7, 1, 1.0)
    assert sum(ledger.terms.values()) == 2 * 0.25 * 0.5 + 2 * 1.0 - 2 * 0.75 * 3.0
    ledger.tighten_baseline(np.array([0.25, 0.5]), np.array([4.0, 2.0]))  # worse at one end, better at the other
    assert ledger.low.tolist() == [0.5, 0.5]
    assert ledger.high.tolist() == [2.0, 2.0]
    assert sum(ledger.terms.values()) == 2 * 0.25 * 0.5 + 2 * 1.0 - 2 * 0.75 * 2.0
    ledger.conserved(1)  # 1 - 0.75 * 3 < 0: still the upper bound
    assert sum(ledger.terms.values()) == 2 * 0.25 * 0.5 + 2 * 1.0 + (1 - 0.75 * 3) * 2.0
    for _ in range(8):
        ledger.conserved(1)  # 9 - 0.75 * 11 > 0: the lower one
    assert sum(ledger.terms.values()) == 2 * 0.25 * 0.5 + 2 * 1.0 + (9 - 0.75 * 11) * 0.5


# -- the ledger by its definition -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_the_ledger_is_its_definition_whatever_happens_in_which_order(seed, is_known):
    rng = np.random.default_rng([5, seed])
    S, alpha = int(rng.integers(1, 4)), float(rng.choice([0.01, 0.3, 0.9]))
    values = rng.random(S)
    ledger = EpisodeCertificate(S, alpha, values if is_known else None)
    low, high = (values, values) if is_known else (np.zeros(S), np.full(S, np.inf))
    n, n_b, counts, best = Counter(), Counter(), Counter(), {}

    def margin(extra=None, bound=0.0):
        total = bound + sum(count * best[key] for key, count in counts.items())
        for s in range(S):
            times = n_b[s] - (1 - alpha) * (n[s] + (s == extra))
            if times:
                total += times * (low[s] if times > 0 else high[s])
        return total

    for _ in range(120):
        what, s, policy, bound = rng.integers(6), int(rng.integers(S)), int(rng.integers(1, 4)), float(rng.random())
        if not is_known and (what == 0 or np.isinf(high).any()):
            at = np.sort(rng.random((2, S)), axis=0)
            low, high = np.maximum(low, at[0] / 2), np.minimum(high, 0.5 + at[1])
            ledger.tighten_baseline(at[0] / 2, 0.5 + at[1])
        elif what == 1:
            assert ledger.margin_after(s, bound) == pytest.approx(margin(s, bound), abs=1e-12)
        elif what == 2:
            expected = max(bound, best.get((policy, s), 0.0))
            assert ledger.tighten(policy, s, bound) == expected
            if (policy, s) in best:
                best[policy, s] = expected
        elif what == 3:
            policies = ledger.policies
            assert policies == sorted({policy for policy, _ in counts})
            bounds = rng.random((len(policies), S))
            ledger.review(policies, bounds)
            best = {(q, y): max(old, bounds[policies.index(q), y]) for (q, y), old in best.items()}
        elif what == 4:
            bound = ledger.tighten(policy, s, bound)
            best[policy, s] = max(bound, best.get((policy, s), 0.0))
            assert bound == best[policy, s]
            ledger.explored(policy, s, bound)
            counts[policy, s] += 1
            n[s] += 1
        else:
            ledger.conserved(s)
            n[s] += 1
            n_b[s] += 1
        assert sum(ledger.terms.values()) == pytest.approx(margin(), abs=1e-12)
        assert sum(ledger.terms.values()) == pytest.approx(margin(), abs=1e-12)
        assert ledger.n_explored == sum(counts.values())
        other = EpisodeCertificate(S, alpha, values if is_known else None)
        other = other.restored(ledger.state_dict())
        assert same(other.state_dict(), ledger.state_dict())
        assert sum(other.terms.values()) == sum(ledger.terms.values())


def test_an_episode_explored_with_a_worse_bound_than_the_best_does_not_inflate_the_ledger():
    """Twice the same policy from the same start: two times the best bound, 5, is all that can be proved."""
    ledger = EpisodeCertificate(1, 0.5, np.zeros(1))
    ledger.explored(1, 0, 5.0)
    ledger.explored(1, 0, 3.0)
    assert sum(ledger.terms.values()) <= 10.0
    assert ledger.tighten(1, 0, 4.0) == 5.0  # the best so far
    assert sum(ledger.terms.values()) <= 10.0
    ledger.review([1], np.array([[5.0]]))
    assert sum(ledger.terms.values()) <= 10.0


def test_a_bound_that_was_never_explored_with_does_not_count():
    ledger = EpisodeCertificate(1, 0.5, np.ones(1))
    assert ledger.tighten(3, 0, 0.7) == 0.7
    assert sum(ledger.terms.values()) == 0.0
    assert ledger.policies == []
    assert ledger.tighten(3, 0, 0.2) == 0.2  # it was not kept either: nothing was played


@pytest.mark.parametrize("values", [None, np.ones(2)], ids=["unknown", "known"])
def test_a_ledger_begins_with_nothing(values):
    ledger = EpisodeCertificate(2, 0.5, values)
    assert sum(ledger.terms.values()) == 0.0 and sum(ledger.terms.values()) == 0.0
    assert ledger.n_explored == 0 and ledger.policies == []


def test_a_ledgers_state_is_a_copy():
    ledger = EpisodeCertificate(2, 0.5, None)
    ledger.tighten_baseline(np.zeros(2), np.ones(2))
    ledger.explored(1, 0, 0.5)
    state = pickle.loads(pickle.dumps(ledger.state_dict()))
    taken = ledger.state_dict()
    other = EpisodeCertificate(2, 0.5, None)
    other = other.restored(taken)
    for each in (ledger, other):
        each.explored(1, 0, 0.75)
        each.explored(2, 1, 0.75)
        each.conserved(0)
        each.tighten_baseline(np.full(2, 0.5), np.full(2, 0.75))
    assert same(taken, state)


def test_a_ledger_does_not_change_the_values_it_was_given():
    values = np.array([0.5, 0.25])
    ledger = EpisodeCertificate(2, 0.5, values)
    ledger.tighten_baseline(np.ones(2), np.zeros(2))
    assert values.tolist() == [0.5, 0.25]


# -- the paper's figure, naively --------------------------------------------------------------------------------------


def figure(case, learner, alpha, run, every):
    """Fig. `cucbvi` on the history of a run: for each episode whether it explores, and by how much that is decided."""
    played, roles, stakes = [], [], []
    for k, s in enumerate(run.starts.tolist()):
        policy = learner.propose()
        pessimistic = learner.bound([policy], "pessimistic")[0, s]
        left = sum(v for _, v in played if v is not None) + pessimistic
        left += sum(case.values[y] for y, v in played if v is None)
        right = (1 - alpha) * sum(case.values[y] for y in run.starts[: k + 1])
        explores = left >= right
        roles.append(bool(explores))
        stakes.append(abs(left - right))
        played.append((s, pessimistic if explores else None))
        if explores or every:
            learner.learn(run.pairs[k], run.rewards[k], run.next_states[k])
    return np.array(roles), np.array(stakes)


FIGURES = ("boxes", "hoeffding", "freedman", "euler", "bernstein", "known", "staged")


def a_learner(name, case, episodes):
    size, options = (case.space, case.horizon), {"stage_dependent": case.mdp.stages > 1}
    if name == "euler":
        return EULERLearner(*size, **options)
    if name == "known":
        return UCBVILearner(*size, confidence=knowing(case, "breathing", 1.0), **options)
    if name == "bernstein":
        return UCBVILearner(*size, confidence=bernstein, **options)
    bonus = name if name in ("hoeffding", "freedman") else "boxes"
    return UCBVILearner(*size, bonus=bonus, episodes=episodes, delta=0.5, **options)


@pytest.mark.first(4)
@pytest.mark.parametrize("learn_from", ["all", "optimistic"])
@pytest.mark.parametrize("name", FIGURES)
def test_without_reevaluation_it_decides_as_the_papers_figure_does(name, learn_from):
    explored = 0
    for seed, alpha in enumerate((0.05, 0.3, 0.9)):
        case = some_case(seed, nasty.adversarial.dull, "randomised", staged=name == "staged")
        starts = np.random.default_rng(seed).integers(0, case.space.n_states, 250)
        options = {"reevaluate": False, "learn_from": learn_from, "learner": a_learner(name, case, 250)}
        agent = CUCBVI(case.space, case.horizon, baseline=case.baseline(True), alpha=alpha, **options)
        run = simulate_episodes(case.mdp, agent, starts, seed)
        roles, stakes = figure(case, a_learner(name, case, 250), alpha, run, learn_from == "all")
        differ = np.flatnonzero((roles != run.explored) & (stakes > 1e-9))
        assert not differ.size, f"episode {differ[0]} of {name}"
        explored += int(roles.sum())
    assert explored > 0 or (name in ("hoeffding", "freedman", "euler") and learn_from == "optimistic")


def test_without_reevaluation_an_episode_counts_as_it_was_bounded_when_it_was_played():
    """A bound that grows from 0.25 to 0.5: the first episode stays at 0.25 without reevaluation, and not with it."""

    class Growing(Echo):
        def bound(self, policies, side):
            return np.full((len(policies), 1), 0.25 if self.turn < 2 else 0.5)

    case = arms(0.25, 0.5)
    for reevaluate, budgets in ((False, [0.0, 0.125, 0.5, 0.875]), (True, [0.0, 0.375, 0.75, 1.125])):
        learner = Growing(case.space, 1).says(Policy.always(case.space, 1))
        agent = CUCBVI(case.space, 1, baseline=case.baseline(True), alpha=0.5, learner=learner, reevaluate=reevaluate)
        run = simulate(as_problem(case), agent, episodes=4)
        assert run.explored.all()
        assert [d.budget for d in run.decisions] == budgets, reevaluate


# -- reevaluation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("patience", [0.0, 0.1, 2.0])
@pytest.mark.parametrize("is_known", [True, False])
def test_no_bound_is_ever_loosened_though_the_set_breathes(is_known, patience):
    case = some_case(3, nasty.adversarial.garnet, "nearly optimal")
    learner = nasty.Mischief(case.space, case.horizon, confidence=knowing(case, "breathing", 1.0))
    learner.harm(case, 8, True).watch(case, True)
    settings = {"alpha": 0.5, "learner": learner, "patience": patience}
    agent = CUCBVI(case.space, case.horizon, baseline=case.baseline(is_known), **settings)
    world, before, low, high = np.random.default_rng(2), {}, np.zeros(1), np.full(1, np.inf)
    for k in range(150):
        s = k % case.space.n_states
        agent.begin(s)
        for _ in range(case.horizon):
            a = agent.act(s).action
            r, y = case.mdp.draw(world, case.space.pair(s, a))
            agent.observe(s, a, r, y)
            s = y
        now = dict(agent.certificate.bounds)
        assert before.keys() <= now.keys()
        assert all(now[key] >= before[key] for key in before)
        assert np.all(agent.certificate.low >= low) and np.all(agent.certificate.high <= high)
        before, low, high = now, agent.certificate.low.copy(), agent.certificate.high.copy()
    assert len(before) > 3


class WatchedEcho(nasty.Watched, Echo):
    pass


def test_with_patience_a_review_waits_until_enough_was_played():
    """Every third episode is refused; the past is bounded anew when a share more was played than at the last review."""
    case, reviews = arms(0.5, 0.21), {}
    for patience in (0.0, 0.1, 1.0):
        learner = WatchedEcho(case.space, 1, confidence=knowing(case)).says(Policy.always(case.space, 1))
        settings = {"alpha": 0.4017, "learner": learner.watch(case, True), "patience": patience}
        agent = CUCBVI(case.space, 1, baseline=case.baseline(True), **settings)
        run = simulate(as_problem(case), agent, episodes=300)
        assert not nasty.check_decisions(case, agent, run, learner.log)
        said, reviewed = 0, []
        for entry in learner.log:
            said = 0 if entry[0] == "propose" else said + 1
            if said == 0:
                reviewed.append(False)
            reviewed[-1] = said == 2
        reviews[patience] = np.flatnonzero(reviewed)
        refused = np.flatnonzero(~run.explored)
    assert reviews[0.0].tolist() == refused[1:].tolist()  # when the first was refused, there was no past
    for patience in (0.1, 1.0):
        gaps = reviews[patience][1:] / reviews[patience][:-1]
        assert gaps.min() > 1 + patience - 0.05  # explorations may have grown by more than episodes
    assert len(reviews[0.0]) > len(reviews[0.1]) > len(reviews[1.0]) > 5


def test_a_review_can_turn_a_refusal_into_an_exploration():
    """Arm 1 was bounded by 0.25 when it was played, from a start that does not come again, and earns 0.5."""
    p = np.zeros((2, 2, 2))
    p[:, :, :] = np.eye(2)[:, None, :]
    mdp = TabularMDP.from_arrays(p, np.array([[0.5, 0.5], [0.5, 0.25]]), r_max=1.0)
    case = nasty.Case("two islands", mdp, Policy.always(mdp.space, 0), 1)

    class Growing(Echo):
        def bound(self, policies, side):
            return np.tile([0.25, 0.0] if self.turn < 2 else [0.5, 0.0], (len(policies), 1))

    roles = {}
    for reevaluate in (True, False):
        learner = Growing(case.space, 1).says(Policy.always(case.space, 1))
        settings = {"alpha": 0.5, "learner": learner, "reevaluate": reevaluate, "patience": 0.0}
        agent = CUCBVI(case.space, 1, baseline=case.baseline(True), **settings)
        run = simulate(as_problem(case), agent, episodes=2, starts=np.array([0, 1]))
        roles[reevaluate] = run.explored.tolist()
    assert roles == {True: [True, True], False: [True, False]}


# -- proposals that are the baseline ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("kind", ["first", "randomised", "staged", "staged randomised"])
@pytest.mark.parametrize("spread", [False, True])
def test_a_proposal_that_plays_as_the_baseline_is_the_baseline(kind, is_known, spread):
    case = some_case(1, nasty.adversarial.garnet, kind)
    policy = Policy(case.space, weights=case.policy.dense_weights)
    if spread and policy.horizon is None:  # H equal decision rules
        policy = Policy(case.space, weights=np.tile(policy.dense_weights, (case.horizon, 1)))
    learner = Echo(case.space, case.horizon).says(policy)
    agent = CUCBVI(case.space, case.horizon, baseline=case.baseline(is_known), alpha=0.2, learner=learner)
    run = simulate(as_problem(case), agent, episodes=30)
    assert not run.explored.any()
    assert {d.policy for d in run.decisions} == {0}
    assert {d.reason for d in run.decisions} == {"Plays the baseline: the learner proposes it too."}
    assert run.policies == [case.policy]
    assert agent.certificate.n_explored == 0
    assert learner.counts.total == 30 * case.horizon
    if is_known:
        saved = 0.2 * case.values[0] * np.arange(30)
        assert np.allclose([d.budget for d in run.decisions], saved, rtol=0, atol=1e-9)
    else:
        assert 0 <= run.decisions[-1].budget <= 0.2 * case.values[0] * 29 + 1e-9


def test_an_optimal_policy_proposed_in_two_shapes_is_one_policy():
    case = arms(0.5, 0.5, horizon=3)
    one = Policy.always(case.space, 1)
    learner = Echo(case.space, 3, confidence=knowing(case)).says(
        one, Policy(case.space, pair=np.tile(one.pair, (3, 1)))
    )
    agent = CUCBVI(case.space, 3, baseline=case.baseline(True), alpha=0.1, learner=learner)
    run = simulate(as_problem(case), agent, episodes=6)
    assert run.explored.all() and len(run.policies) == 2 and len(agent.certificate.counts) == 1


# -- unknown baselines, and what is learnt from -----------------------------------------------------------------------


def test_with_honest_sets_an_unknown_baseline_lets_it_explore_in_the_end():
    problem = gridworld()
    agent = CUCBVI(problem.space, 10, baseline=Baseline(problem.baseline), alpha=0.05)
    run = simulate(problem, agent, episodes=3000, seed=1)
    assert run.explored.sum() > 100
    assert oracle.evaluate(run, problem, 0.05).violations == 0
    assert run.baseline_episodes > 500  # it did not come for nothing


@pytest.mark.parametrize("learn_from", ["all", "optimistic"])
def test_it_learns_from_all_episodes_or_from_those_that_explored(learn_from):
    case = some_case(2)
    learner = Echo(case.space, case.horizon, confidence=knowing(case)).says(Policy(case.space, pair=case.extreme(-1)))
    settings = {"alpha": 0.3, "learner": learner, "learn_from": learn_from, "baseline": case.baseline(True)}
    agent = CUCBVI(case.space, case.horizon, **settings)
    run = simulate(as_problem(case), agent, episodes=60)
    assert 0 < run.explored.sum() < 60
    chosen = np.ones(60, dtype=bool) if learn_from == "all" else run.explored
    visits = np.bincount(run.pairs[chosen].ravel(), minlength=case.space.n_pairs)
    assert learner.counts.visits.tolist() == visits.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_on_the_gridworld_cucbvi_never_violates_and_ucbvi_does(seed):
    problem = gridworld()
    values = solve.policy_values(problem.mdp, problem.baseline, 10)
    run = simulate(problem, UCBVI(problem.space, 10, seed=seed), episodes=3000, seed=seed)
    assert 0.7 <= oracle.evaluate(run, problem, 0.05).violation_fraction(1, 300) <= 0.8  # 0.740
    agent = CUCBVI(problem.space, 10, baseline=Baseline(problem.baseline, values=values), alpha=0.05, seed=seed)
    run = simulate(problem, agent, episodes=3000, seed=seed)
    evaluation = oracle.evaluate(run, problem, 0.05)
    assert evaluation.violations == 0
    assert run.explored.sum() > 300
    before = np.r_[0.0, evaluation.margin[:-1]]
    assert np.all(np.array([d.budget for d in run.decisions]) <= before + 1e-9)


# -- live, simulated, restored ----------------------------------------------------------------------------------------


class Live:
    """Drives an agent with begin, act and observe on the table's own draws."""

    def __init__(self, case, agent, starts, seed):
        self.case, self.agent, self.starts, self.world = case, agent, starts, np.random.default_rng(seed)
        self.s, self.steps = None, []

    def step(self):
        agent, case = self.agent, self.case
        if agent.h == case.horizon:
            self.s = int(self.starts[agent.episodes])
            agent.begin(self.s)
        s, h, before = self.s, agent.h, agent.coin.u
        decision = agent.act(s)
        assert decision == agent.act(s) and agent.coin.u == before
        table = case.mdp.stage(h) if case.mdp.stages > 1 else case.mdp
        r, self.s = table.draw(self.world, case.space.pair(s, decision.action))
        agent.observe(s, decision.action, r, self.s)
        self.steps.append((case.space.pair(s, decision.action), r, self.s))


def build(case, name, is_known, seed=4):
    learner = a_learner(name, case, 300)
    settings = {"alpha": 0.7, "learner": learner, "seed": seed, "patience": 0.05}
    return CUCBVI(case.space, case.horizon, baseline=case.baseline(is_known), **settings)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("name", FIGURES)
def test_one_step_at_a_time_is_the_simulated_run(name, is_known):
    case = some_case(4, nasty.adversarial.garnet, "staged randomised", staged=name == "staged")
    starts = np.random.default_rng(9).integers(0, case.space.n_states, 120)
    agent, simulated = build(case, name, is_known), build(case, name, is_known)
    live = Live(case, agent, starts, 6)
    for _ in range(120 * case.horizon):
        live.step()
    run = simulate_episodes(case.mdp, simulated, starts, 6)
    assert agent.decisions == run.decisions == simulated.decisions
    assert agent.starts == run.starts.tolist()
    assert agent.policies == run.policies
    recorded = zip(run.pairs.ravel(), run.rewards.ravel(), run.next_states.ravel(), strict=True)
    assert live.steps == [tuple(step) for step in recorded]
    assert same(agent.state_dict(), simulated.state_dict())
    assert run.explored.any() or name not in ("known", "staged", "boxes")


@pytest.mark.first(4)
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("name", FIGURES)
def test_restored_anywhere_it_has_the_same_future(name, is_known):
    case = some_case(6, nasty.adversarial.garnet, "staged randomised", staged=name == "staged")
    rng = np.random.default_rng([8, len(name), is_known])
    starts = rng.integers(0, case.space.n_states, 200)
    stops = [0, 1, case.horizon - 1, case.horizon, *(rng.integers(2, 80, 3) * case.horizon + [0, 1, 1]).tolist()]
    for stop in stops:
        live = Live(case, build(case, name, is_known), starts, 6)
        for _ in range(stop):
            live.step()
        twin = Live(case, build(case, name, is_known, seed=99), starts, 6)
        for _ in range(7):  # it has seen other things before
            twin.step()
        state = live.agent.state_dict()
        frozen = pickle.dumps(state)
        assert twin.agent.load_state_dict(pickle.loads(frozen)) is twin.agent
        assert same(twin.agent.state_dict(), state)
        twin.s, twin.world, twin.steps = live.s, pickle.loads(pickle.dumps(live.world)), list(live.steps)
        for _ in range(30 * case.horizon):
            live.step()
            twin.step()
        assert live.steps == twin.steps
        assert live.agent.decisions == twin.agent.decisions
        assert same(live.agent.state_dict(), twin.agent.state_dict())
        assert same(state, pickle.loads(frozen))  # what was taken did not change since


def test_a_learner_built_for_so_many_episodes_ends_with_a_clear_error_and_nothing_changes():
    case = some_case(1)
    options = {"bonus": "hoeffding", "episodes": 5}
    agent = CUCBVI(case.space, case.horizon, baseline=case.baseline(True), alpha=0.5, **options)
    live = Live(case, agent, np.zeros(9, dtype=np.int64), 1)
    for _ in range(5 * case.horizon):
        live.step()
    before = snapshot(agent)
    with pytest.raises(InvalidInput, match="built for 5 episodes"):
        agent.begin(0)
    assert same(before, agent.state_dict())


def test_the_seed_is_that_of_the_actions_a_randomised_policy_draws():
    case = some_case(2, baseline="randomised")
    runs = [simulate(as_problem(case), build(case, "boxes", True, seed), episodes=30) for seed in (1, 1, 2)]
    assert np.array_equal(runs[0].pairs, runs[1].pairs)
    assert not np.array_equal(runs[0].pairs, runs[2].pairs)


def test_rewards_outside_their_range_are_taken_only_if_the_learner_takes_them():
    case = arms(0.5, 0.9, noise=Noise("gaussian", 1.0))
    for options in ({"bounded": False}, {"learner": UCBVI(case.space, 1, bounded=False, confidence=knowing(case))}):
        options = {"confidence": knowing(case)} | options if "learner" not in options else options
        agent = CUCBVI(case.space, 1, baseline=case.baseline(True), alpha=0.5, **options)
        run = simulate(as_problem(case), agent, episodes=60)
        assert run.rewards.min() < 0 and run.rewards.max() > 1
        agent.begin(0)
        agent.observe(0, agent.act(0).action, 7.0, 0)
    strict = CUCBVI(case.space, 1, baseline=case.baseline(True), alpha=0.5)
    with pytest.raises(InvalidInput, match="gaussian"):
        simulate(as_problem(case), strict, episodes=3)


# -- bad input --------------------------------------------------------------------------------------------------------


def settings_of(case, **changes):
    return {"space": case.space, "horizon": case.horizon, "baseline": case.baseline(True), "alpha": 0.5} | changes


def other_space(case):
    return Space(np.arange(case.space.n_states + 2), np.zeros(case.space.n_states + 1, dtype=np.int64))


BAD_SETTINGS = {
    "alpha 0": ("alpha 0 must", lambda case: {"alpha": 0}),
    "alpha 1": ("alpha 1.0 must", lambda case: {"alpha": 1.0}),
    "alpha -1": ("alpha -1 must", lambda case: {"alpha": -1}),
    "alpha NaN": ("alpha nan must", lambda case: {"alpha": float("nan")}),
    "delta": ("delta 0.0 must", lambda case: {"delta": 0.0}),
    "delta 1": ("delta 1 must", lambda case: {"delta": 1}),
    "horizon 0": ("horizon 0 must", lambda case: {"horizon": 0, "baseline": case.baseline(False)}),
    "horizon 1.5": ("horizon 1.5 must", lambda case: {"horizon": 1.5, "baseline": case.baseline(False)}),
    "other space": ("the baseline is on", lambda case: {"space": other_space(case)}),
    "too many rules": (
        "decision rules, the horizon is",
        lambda case: {
            "baseline": Baseline(
                Policy.deterministic(case.space, np.zeros((case.horizon + 1, case.space.n_states), dtype=int))
            )
        },
    ),
    "gain": (
        "has a gain",
        lambda case: {"baseline": Baseline(case.policy, gain=0.2, bias=np.zeros(case.space.n_states))},
    ),
    "values too large": (
        "exceed",
        lambda case: {
            "baseline": Baseline(
                case.policy, values=np.full(case.space.n_states, case.horizon * case.space.r_max * 1.01)
            )
        },
    ),
    "values of another horizon": (
        "values have",
        lambda case: {
            "baseline": Baseline(case.policy, values=np.tile(case.values, (case.horizon + 2, 1))),
        },
    ),
    "values of stages without the end": (
        "values have",
        lambda case: {"baseline": Baseline(case.policy, values=np.tile(case.values, (case.horizon, 1)))},
    ),
    "learn_from": ("learn_from 'some' must", lambda case: {"learn_from": "some"}),
    "nothing learnt of the baseline": (
        "nothing would ever be learnt",
        lambda case: {"learn_from": "optimistic", "baseline": case.baseline(False)},
    ),
    "patience": ("patience -1 must", lambda case: {"patience": -1}),
    "patience NaN": ("patience nan must", lambda case: {"patience": float("nan")}),
    "patience for ever": ("patience inf must", lambda case: {"patience": float("inf")}),
    "options of an own learner": (
        "bonus, episodes: a learner is given",
        lambda case: {"learner": UCBVI(case.space, case.horizon), "bonus": "hoeffding", "episodes": 3},
    ),
    "learner of another space": (
        "the learner is on",
        lambda case: {"learner": UCBVI(other_space(case), case.horizon)},
    ),
    "learner of another horizon": (
        "with horizon",
        lambda case: {"learner": UCBVI(case.space, case.horizon + 1)},
    ),
    "bonus": ("no bonus 'none'", lambda case: {"bonus": "none"}),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_settings_that_mean_nothing_are_refused_by_name(name):
    case = some_case(1, baseline="first")
    word, change = BAD_SETTINGS[name]
    with pytest.raises(InvalidInput, match=re.escape(word)):
        CUCBVI(**settings_of(case, **change(case)))


def test_options_that_do_not_exist_are_refused():
    case = some_case(1)
    with pytest.raises(InvalidInput, match="no argument 'optimism'"):
        CUCBVI(**settings_of(case, optimism=3))


def test_every_fault_is_named_at_once():
    case = some_case(1)
    learner = UCBVI(other_space(case), 1)
    bad = {"alpha": 2, "patience": -1, "learn_from": "", "learner": learner, "bonus": "boxes", "space": learner.space}
    with pytest.raises(InvalidInput) as caught:
        CUCBVI(**settings_of(case, **bad))
    for word in ("alpha", "patience", "learn_from", "bonus", "baseline is on", "learner is on"):
        assert any(word in fault for fault in caught.value.faults), word


def test_settings_at_the_edge_are_taken():
    case = some_case(1)
    most = np.full(case.space.n_states, case.horizon * case.space.r_max)
    stages = solve.policy_values(case.mdp, case.policy, case.horizon)
    for change in (
        {"baseline": Baseline(case.policy, values=most)},
        {"baseline": Baseline(case.policy, values=np.zeros(case.space.n_states)), "allowance": 1.0},
        {"baseline": Baseline(case.policy, values=stages)},
        {"baseline": Baseline(case.policy, values=case.values.tolist())},
        {"alpha": 1e-12},
        {"alpha": 1 - 1e-12},
        {"patience": 0},
        {"horizon": np.int64(case.horizon)},
    ):
        agent = CUCBVI(**settings_of(case, **change))
        agent.begin(0)
        assert agent.decisions[0].budget == change.get("allowance", 0.0)
    assert np.array_equal(Baseline(case.policy, values=stages).start_values, stages[0])


BAD_VALUES = {
    "too few": ("values have shape", lambda values: values[:-1]),
    "a number": ("values have shape", lambda values: 0.5),
    "a column": ("values have shape", lambda values: values[:, None]),
    "nothing": ("values have shape", lambda values: []),
    "no rows": ("values have shape", lambda values: np.zeros((0, values.size))),
    "three axes": ("values have shape", lambda values: values[None, None]),
    "NaN": ("values has entries", lambda values: np.where(np.arange(values.size) == 1, np.nan, values)),
    "infinity": ("values has entries", lambda values: np.where(np.arange(values.size) == 1, np.inf, values)),
    "negative": ("values has entries", lambda values: np.where(np.arange(values.size) == 1, -1e-9, values)),
    "words": ("values must be numbers", lambda values: ["much"] * values.size),
    "ragged": ("values is ragged", lambda values: [[1.0], [1.0, 2.0]]),
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_values_that_no_baseline_could_have_are_refused(name):
    case = some_case(1)
    word, change = BAD_VALUES[name]
    with pytest.raises(InvalidInput, match=re.escape(word)):
        Baseline(case.policy, values=change(case.values))


def test_values_and_gain_are_not_both_given():
    case = some_case(1)
    with pytest.raises(InvalidInput, match="not both"):
        Baseline(case.policy, gain=0.1, bias=np.zeros(case.space.n_states), values=case.values)


def test_a_baselines_values_are_its_own_and_cannot_be_changed():
    case = some_case(1)
    for mine in (case.values.copy(), np.tile(case.values, (case.horizon + 1, 1))):
        baseline = Baseline(case.policy, values=mine)
        mine[:] = 0.0
        assert np.array_equal(baseline.start_values, case.values)
        with pytest.raises(ValueError, match="read-only"):
            baseline.values[0] = 1.0
    assert Baseline(case.policy, values=case.values).is_known
    assert not Baseline(case.policy).is_known


BAD_STEPS = {
    "NaN": ("reward nan", lambda s, a, y: (s, a, float("nan"), y)),
    "infinite": ("reward inf", lambda s, a, y: (s, a, float("inf"), y)),
    "too large": ("reward 99", lambda s, a, y: (s, a, 99.0, y)),
    "negative": ("reward -0.1", lambda s, a, y: (s, a, -0.1, y)),
    "a word": ("reward 'much' is a text", lambda s, a, y: (s, a, "much", y)),
    "nothing": ("reward None", lambda s, a, y: (s, a, None, y)),
    "another action": ("asked for action", lambda s, a, y: (s, 1 - a, 0.1, y)),
    "no action": ("is not available", lambda s, a, y: (s, 77, 0.1, y)),
    "another state": ("was there a reset?", lambda s, a, y: ((s + 1) % 3, a, 0.1, y)),
    "no state": ("state 77", lambda s, a, y: (77, a, 0.1, y)),
    "no next state": ("state -1", lambda s, a, y: (s, a, 0.1, -1)),
}


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("name", BAD_STEPS)
def test_an_impossible_step_is_refused_and_changes_nothing(name, is_known):
    case = some_case(2, baseline="randomised")
    word, change = BAD_STEPS[name]
    agent = build(case, "known", is_known)
    live = Live(case, agent, np.zeros(50, dtype=np.int64), 3)
    for _ in range(10 * case.horizon + 1):
        live.step()
    before = snapshot(agent)
    with pytest.raises(InvalidInput, match=re.escape(word)):
        agent.observe(*change(live.s, agent.act(live.s).action, 0))
    assert same(before, agent.state_dict())
    live.step()
    assert not same(before, agent.state_dict())


def test_an_episode_begins_only_when_the_last_is_over_and_in_a_state_that_exists():
    case = some_case(2)
    agent = build(case, "known", True)
    for s in (case.space.n_states, -1, 0.5, None):
        with pytest.raises(InvalidInput, match="no such state"):
            agent.begin(s)
    assert agent.episodes == 0 and not agent.decisions and sum(agent.certificate.terms.values()) == 0.0
    with pytest.raises(SurefootedError, match="no episode is under way"):
        agent.act(0)
    with pytest.raises(SurefootedError, match="no episode is under way"):
        agent.observe(0, 0, 0.0, 0)
    agent.begin(0)
    before = snapshot(agent)
    with pytest.raises(InvalidInput, match="the episode is not over"):
        agent.begin(1)
    assert same(before, agent.state_dict())
    live = Live(case, agent, np.zeros(5, dtype=np.int64), 3)
    live.s = 0
    for _ in range(case.horizon):
        before = snapshot(agent)
        with pytest.raises(InvalidInput, match=f"has played {agent.h} of {case.horizon} steps"):
            agent.begin(1)
        assert same(before, agent.state_dict())
        live.step()
    before = snapshot(agent)
    with pytest.raises(SurefootedError, match="no episode is under way"):
        agent.observe(live.s, 0, 0.0, 0)
    assert same(before, agent.state_dict())
    agent.begin(1)


def test_a_simulation_needs_starts_that_exist_and_an_agent_that_fits():
    case = some_case(2)
    problem = as_problem(case)
    starts = np.array([0, 1, case.space.n_states])
    for bad in (starts, -starts, starts[:2], np.array([0, 0.5, 1])):
        agent = build(case, "known", True)
        before = snapshot(agent)
        with pytest.raises(InvalidInput):
            simulate(problem, agent, episodes=3, starts=bad)
        assert same(before, agent.state_dict())
    agent = build(case, "known", True)
    simulate(problem, agent, episodes=3)
    with pytest.raises(InvalidInput, match="has played already"):
        simulate(problem, agent, episodes=3)
    longer = Problem("longer", case.mdp, case.policy, 0, case.horizon + 1)
    with pytest.raises(InvalidInput, match="horizon"):
        simulate(longer, build(case, "known", True), episodes=3)


def test_starts_may_be_whole_numbers_of_any_kind():
    case = some_case(2)
    runs = [
        simulate(as_problem(case), build(case, "known", True), episodes=3, starts=starts)
        for starts in (np.array([0, 1, 2]), [0, 1, 2], np.array([0.0, 1.0, 2.0]), np.array([0, 1, 2], dtype=np.int32))
    ]
    for run in runs[1:]:
        assert run.starts.tolist() == [0, 1, 2]
        assert run.starts.dtype == np.int64
        assert np.array_equal(run.pairs, runs[0].pairs)


@pytest.mark.parametrize("rules", [1, 2, 4, 6])
def test_a_policy_with_another_number_of_rules_is_not_bounded(rules):
    """Five stages; a bound over six would be above what five earn."""
    case = arms(0.5, 0.9, horizon=5)
    policy = Policy.deterministic(case.space, np.ones((rules, 1), dtype=int))
    for learner in (UCBVILearner(case.space, 5, confidence=knowing(case)), EULERLearner(case.space, 5)):
        for policies in ([policy], [policy] * 5, [policy, case.policy]):
            with pytest.raises(InvalidInput, match=r"decision rules|stages"):
                learner.bound(policies, "pessimistic")


def test_a_learner_that_proposes_another_number_of_rules_is_refused_and_nothing_changes():
    case = arms(0.5, 0.2, horizon=2)
    policy = Policy.deterministic(case.space, np.ones((5, 1), dtype=int))
    learner = Echo(case.space, 2, confidence=knowing(case)).says(policy)
    agent = CUCBVI(case.space, 2, baseline=case.baseline(True), alpha=0.5, learner=learner)
    before = snapshot(agent)
    with pytest.raises(InvalidInput, match=r"decision rules|stages"):
        agent.begin(0)
    after = agent.state_dict()
    for state in (before, after):
        del state["check"]["checked_at"], state["check"]["set_due_at"]  # that the baseline was looked at is remembered
        del state["checksum"]
    assert same(before, after)


@pytest.mark.parametrize("confident", [likelihood, bernstein])
@pytest.mark.parametrize("reward", [1e-17, 5e-324, 1.0 - 2**-53, 1.0])
def test_rewards_within_rounding_of_the_ends_are_learnt_from(reward, confident):
    case = arms(0.5, 0.2)
    options = {"confidence": confident, "baseline": case.baseline(False), "alpha": 0.5}
    agent = CUCBVI(case.space, 1, **options)
    for _ in range(40):
        agent.begin(0)
        agent.observe(0, agent.act(0).action, reward, 0)
        low, high = (agent.learner.bound([case.policy], side)[0, 0] for side in ("pessimistic", "optimistic"))
        assert 0 <= low <= reward + 1e-9 and reward - 1e-9 <= high <= 1
