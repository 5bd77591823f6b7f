"""Agents: step by step or simulated is the same run, a bad step changes nothing, a restored agent goes on alike."""

import functools
import itertools
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import adversarial
from surefooted import solve
from surefooted.agents import effort
from surefooted.agents.average_settings import CERTIFICATES
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.agents.fixed import FixedPolicy
from surefooted.agents.ucrl2 import UCRL2, UCRL2Learner
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.evaluation import margins as oracle
from surefooted.planning import Plan
from surefooted.problems.inventory import inventory
from surefooted.problems.problem import Problem
from surefooted.sets.confidence import bernstein, simplified_bernstein
from surefooted.sets.plausible import Plausible
from surefooted.simulation.playing import simulate
from surefooted.tables.baseline import Baseline
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise


def a_problem(baseline="first", seed=0):
    rng = np.random.default_rng([60, seed])
    while True:
        problem = adversarial.a_problem(rng, adversarial.garnet, baseline)
        if problem.space.n_actions > 1 and problem.space.n_states > 2:
            return problem


def build(problem, kind, certificate="induction", is_known=True, seed=5):
    """An agent that explores soon, since its set knows the truth; built twice it is the same agent twice."""
    confidence = adversarial.Knowing(problem.mdp, "worst", 0.3, 4)
    if kind == "ucrl2":
        return UCRL2(problem.space, confidence=confidence, dynamic=seed % 2 == 0, seed=seed)
    baseline = adversarial.known(problem) if is_known else Baseline(problem.baseline)
    options = {"certificate": certificate, "confidence": confidence, "seed": seed}
    return CUCRL2(problem.space, baseline=baseline, alpha=0.5, **options)


def by_hand(problem, agent, steps, world, s=None, steps_seen=None):
    """Drive an agent with act and observe on the table's own draws; the state it is left in."""
    if s is None:
        agent.begin(problem.start)
        s = problem.start
    for _ in range(steps):
        action = agent.act(s).action
        assert agent.act(s) == agent.act(s)
        r, y = problem.mdp.draw(world, problem.space.pair(s, action))
        agent.observe(s, action, r, y)
        if steps_seen is not None:
            steps_seen.append((problem.space.pair(s, action), r, y))
        s = y
    return s


def same(a, b):
    """Whether two nested structures hold the same, arrays bit by bit."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    if hasattr(a, "__dict__") and not isinstance(a, Policy):
        return type(a) is type(b) and same(vars(a), vars(b))
    return a == b


KINDS = [("ucrl2", "none"), *[("cucrl2", name) for name in CERTIFICATES]]


@pytest.mark.parametrize("baseline", ["first", "randomised"])
@pytest.mark.parametrize(("kind", "certificate"), KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_one_step_at_a_time_is_the_simulated_run(kind, certificate, baseline, seed):
    problem, steps = a_problem(baseline, seed), 250
    live, simulated = (build(problem, kind, certificate, seed=seed) for _ in range(2))
    run = simulate(problem, simulated, steps, seed=17)
    seen = []
    by_hand(problem, live, steps, np.random.default_rng(17), steps_seen=seen)
    assert [pair for pair, _, _ in seen] == run.pairs.tolist()
    assert [r for _, r, _ in seen] == run.rewards.tolist()
    assert [y for _, _, y in seen] == run.next_states.tolist()
    assert live.segments == run.segments
    assert [decision for decision in live.decisions if decision.t < steps] == run.decisions
    assert live.policies[: len(run.policies)] == list(run.policies)
    assert same(live.state_dict(), simulated.state_dict())


@pytest.mark.parametrize("steps", [1, 2, 3, 10])
def test_a_run_holds_only_decisions_and_policies_that_were_played(steps):
    problem = a_problem(seed=2)
    agent = UCRL2(problem.space)
    run = simulate(problem, agent, steps, seed=1)
    starts = np.array([decision.t for decision in run.decisions])
    assert starts[0] == 0 and starts[-1] < steps and np.all(np.diff(starts) > 0)
    assert {decision.policy for decision in run.decisions} == set(range(len(run.policies)))
    assert agent.decisions[: len(starts)] == run.decisions  # a pair visited once has doubled: one more is planned
    assert steps > 1 or len(agent.decisions) == 2


@pytest.mark.first(10)
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(("kind", "certificate"), KINDS)
@pytest.mark.parametrize("taken", [0, 1, 37, 150])
def test_an_agent_restored_from_a_pickled_state_goes_on_exactly(kind, certificate, taken, is_known):
    problem = a_problem("randomised", 3)
    first, world = build(problem, kind, certificate, is_known), np.random.default_rng(2)
    s = by_hand(problem, first, taken, world)
    stored = pickle.dumps((first.state_dict(), world.bit_generator.state))
    by_hand(problem, first, 120, world, s)
    state, luck = pickle.loads(stored)
    second, world = build(problem, kind, certificate, is_known, seed=5), np.random.default_rng(99)
    world.bit_generator.state = luck
    assert second.load_state_dict(state) is second
    assert same(second.state_dict(), pickle.loads(stored)[0])
    by_hand(problem, second, 120, world, s)
    assert second.decisions == first.decisions
    assert second.segments == first.segments
    assert same(second.state_dict(), first.state_dict())


def test_a_state_taken_is_not_changed_by_what_the_agent_does_next():
    problem = a_problem("randomised", 3)
    for kind, certificate in KINDS:
        agent, world = build(problem, kind, certificate), np.random.default_rng(2)
        s = by_hand(problem, agent, 60, world)
        state = agent.state_dict()
        before = pickle.dumps(state)
        by_hand(problem, agent, 60, world, s)
        assert same(state, pickle.loads(before))


def test_segments_are_the_steps_played_and_equal_neighbours_are_one():
    for seed in range(6):
        problem = a_problem("randomised", seed)
        run = simulate(problem, build(problem, "cucrl2", seed=seed), 400, seed=seed)
        assert run.segments[0].first == 0
        for one, two in itertools.pairwise(run.segments):
            assert two.first == one.first + one.length
            assert (one.policy, one.role) != (two.policy, two.role)
        assert run.segments[-1].first + run.segments[-1].length == 400
        assert all((segment.policy == 0) == (segment.role == "baseline") for segment in run.segments)
        assert run.policies[0] == problem.baseline
        assert len(set(run.policies)) == len(run.policies)


class Echo(UCRL2Learner):
    """Proposes one policy."""

    def __init__(self, problem, policy):
        super().__init__(problem.space, confidence=lambda counts, delta: Plausible.exactly(problem.mdp))
        self.policy = policy

    def propose(self, plausible, t):
        return Plan(self.policy, 0.0, 1.0, np.zeros(self.space.n_states), 1, True)


@pytest.mark.parametrize("certificate", CERTIFICATES)
def test_exploring_with_the_baseline_is_playing_the_baseline(certificate):
    problem = a_problem("randomised", 1)
    agent = CUCRL2(
        problem.space,
        baseline=adversarial.known(problem),
        alpha=0.3,
        learner=Echo(problem, problem.baseline),
        certificate=certificate,
    )
    run = simulate(problem, agent, 300)
    assert [(segment.policy, segment.role) for segment in run.segments] == [(0, "baseline")]
    assert run.baseline_steps == 300
    assert oracle.evaluate(run, problem, 0.3).violations == 0


# -- episodes --------------------------------------------------------------------------------------------------------


def test_an_episode_ends_when_some_pair_has_doubled_its_visits():
    problem = a_problem(seed=2)
    run = simulate(problem, UCRL2(problem.space), 300, seed=1)
    starts = [decision.t for decision in run.decisions]
    visits = np.zeros(problem.space.n_pairs, dtype=int)
    for first, last in itertools.pairwise(starts):
        allowed = np.maximum(visits, 1)
        played = np.bincount(run.pairs[first:last], minlength=visits.size)
        before = np.bincount(run.pairs[first : last - 1], minlength=visits.size)
        assert np.any(played == allowed)
        assert np.all(before < allowed)
        visits += played


def test_an_exploration_ends_when_its_steps_are_over_or_some_pair_has_doubled_its_visits():
    problem = a_problem(seed=2)
    confidence = adversarial.Knowing(problem.mdp, "worst", 0.3, 4)
    agent = CUCRL2(problem.space, baseline=adversarial.known(problem), alpha=0.5, confidence=confidence)
    run = simulate(problem, agent, 400, seed=1)
    doubled = 0
    for decision, last in zip(run.decisions, [d.t for d in run.decisions[1:]], strict=False):
        if decision.role == "optimistic":
            allowed = np.maximum(np.bincount(run.pairs[: decision.t], minlength=problem.space.n_pairs), 1)
            played = np.bincount(run.pairs[decision.t : last], minlength=allowed.size)
            assert np.all(np.bincount(run.pairs[decision.t : last - 1], minlength=allowed.size) < allowed)
            assert np.any(played == allowed) or last - decision.t == decision.length
            doubled += int(last - decision.t < decision.length)
    assert doubled > 5


@pytest.mark.parametrize("certificate", ["induction", "segments"])
def test_an_exploration_that_is_not_cut_short_lasts_as_long_as_was_offered_and_no_longer(certificate):
    problem = corridor(2)
    learner = Echo(problem, Policy.always(problem.space, 1))
    options = {"learner": learner, "certificate": certificate, "patience": 0.1}
    agent = CUCRL2(problem.space, baseline=adversarial.known(problem), alpha=0.1, **options)
    run = simulate(problem, agent, 2000)
    lasted = np.diff([decision.t for decision in run.decisions])
    offered = np.array([decision.length for decision in run.decisions[:-1]])
    explores = np.array([decision.role == "optimistic" for decision in run.decisions[:-1]])
    assert np.all(lasted <= offered)
    assert np.any(lasted[explores] == offered[explores])


def test_with_the_dynamic_rule_no_episode_is_more_than_one_step_longer_than_the_last():
    problem = a_problem(seed=2)
    run = simulate(problem, UCRL2(problem.space, dynamic=True), 300, seed=1)
    lengths = np.diff([decision.t for decision in run.decisions])
    assert lengths[0] == 1
    assert np.all(np.diff(lengths) <= 1)
    assert [decision.length for decision in run.decisions[1:]] == (lengths + 1).tolist()


@pytest.mark.parametrize("certificate", CERTIFICATES)
def test_no_exploration_lasts_longer_than_was_offered_or_than_the_run_before_it(certificate):
    problem = a_problem(seed=4)
    agent = build(problem, "cucrl2", certificate)
    run = simulate(problem, agent, 500, seed=1)
    starts = [decision.t for decision in run.decisions] + [500]
    for i, decision in enumerate(run.decisions):
        assert starts[i + 1] - decision.t <= decision.length
        if decision.role == "optimistic":
            assert decision.length <= max(agent.minimum, decision.t)


def test_all_or_nothing_explores_for_one_step_more_than_the_last_episode_or_not_at_all():
    problem = two_actions()
    confidence = adversarial.Knowing(problem.mdp, "worst", 0.3, 4)
    options = {"confidence": confidence, "affordable": False}
    agent = CUCRL2(problem.space, baseline=adversarial.known(problem), alpha=0.5, **options)
    run = simulate(problem, agent, 500, seed=1)
    starts = [decision.t for decision in run.decisions]
    for i, decision in enumerate(run.decisions[1:], 1):
        assert decision.length == starts[i] - starts[i - 1] + 1
    assert run.baseline_steps < 500


def test_less_than_the_minimum_is_not_explored():
    problem = two_actions()
    confidence = adversarial.Knowing(problem.mdp, "worst", 0.3, 4)
    agent = CUCRL2(problem.space, baseline=adversarial.known(problem), alpha=0.5, minimum=7, confidence=confidence)
    run = simulate(problem, agent, 500, seed=1)
    lengths = [decision.length for decision in run.decisions if decision.role == "optimistic"]
    assert lengths
    assert min(lengths) >= 7


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, 2.0, np.nan])
def test_alpha_and_delta_must_lie_strictly_between_zero_and_one(bad):
    problem = a_problem()
    baseline = adversarial.known(problem)
    with pytest.raises(InvalidInput, match="alpha"):
        CUCRL2(problem.space, baseline=baseline, alpha=bad)
    with pytest.raises(InvalidInput, match="delta"):
        CUCRL2(problem.space, baseline=baseline, alpha=0.1, delta=bad)
    with pytest.raises(InvalidInput, match="delta"):
        UCRL2(problem.space, delta=bad)


def test_every_fault_of_an_agents_settings_is_named_at_once():
    problem, other = a_problem(seed=0), a_problem(seed=1)
    wrong = {"alpha": 2.0, "certificate": "hope", "minimum": 0, "patience": -1.0}
    with pytest.raises(InvalidInput) as caught:
        CUCRL2(problem.space, baseline=Baseline(other.baseline), **wrong)
    words = ("alpha 2.0", "minimum 0", "patience -1.0", "the baseline is on", "'hope'")
    assert len(caught.value.faults) == len(words)
    for word, fault in zip(words, caught.value.faults, strict=True):
        assert word in fault


@pytest.mark.parametrize(
    ("gain", "bias", "word"),
    [
        (0.5, None, "both gain and bias"),
        (None, [0.0, 1.0], "both gain and bias"),
        (1.5, [0.0, 1.0], r"outside \[0, 1\]"),
        (-0.1, [0.0, 1.0], r"outside \[0, 1\]"),
        (np.nan, [0.0, 1.0], "no policy could have it"),
        (0.5, [0.0, 1.0, 2.0], "shape"),
        (0.5, [[0.0, 1.0]], "shape"),
        (0.5, [0.0, np.nan], "not finite"),
        (0.5, [0.0, np.inf], "not finite"),
    ],
)
def test_a_baseline_that_no_policy_could_be_is_refused(gain, bias, word):
    mdp = TabularMDP.from_arrays(np.full((2, 1, 2), 0.5), np.zeros((2, 1)))
    with pytest.raises(InvalidInput, match=word):
        Baseline(Policy.always(mdp.space, 0), gain, bias)


def test_a_baseline_with_a_rule_for_each_stage_is_refused():
    mdp = TabularMDP.from_arrays(np.full((2, 1, 2), 0.5), np.zeros((2, 1)))
    policy = Policy.deterministic(mdp.space, np.zeros((3, 2), int))
    with pytest.raises(InvalidInput, match="3 decision rules"):
        Baseline(policy, 0.5, np.zeros(2))
    with pytest.raises(InvalidInput, match="3 decision rules"):
        CUCRL2(mdp.space, baseline=Baseline(policy), alpha=0.1)
    with pytest.raises(InvalidInput, match="gain and bias"):
        CUCRL2(mdp.space, baseline=Baseline(Policy.always(mdp.space, 0), values=np.zeros(2)), alpha=0.1)


def test_a_baselines_bias_is_its_own_copy():
    mdp = TabularMDP.from_arrays(np.full((2, 1, 2), 0.5), np.zeros((2, 1)))
    bias = np.zeros(2)
    baseline = Baseline(Policy.always(mdp.space, 0), 0.0, bias)
    bias[0] = 9.0
    assert baseline.bias.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="read-only"):
        baseline.bias[0] = 1.0


BAD_STEPS = {
    "another action": lambda s, a, r, y: (s, 1 - a, r, y),
    "an action that does not exist": lambda s, a, r, y: (s, 7, r, y),
    "a negative action": lambda s, a, r, y: (s, -1, r, y),
    "no such state": lambda s, a, r, y: (99, a, r, y),
    "a state that is no number": lambda s, a, r, y: (0.5, a, r, y),
    "a negative state": lambda s, a, r, y: (-1, a, r, y),
    "no such next state": lambda s, a, r, y: (s, a, r, 99),
    "a negative next state": lambda s, a, r, y: (s, a, r, -1),
    "a reward above the largest": lambda s, a, r, y: (s, a, 1.01, y),
    "a negative reward": lambda s, a, r, y: (s, a, -0.01, y),
    "a reward that is no number": lambda s, a, r, y: (s, a, np.nan, y),
    "an infinite reward": lambda s, a, r, y: (s, a, np.inf, y),
}


def two_actions(baseline="first"):
    rng = np.random.default_rng(70)
    p, r = adversarial.random_rows(rng, 4, 2, 3), rng.random((4, 2))
    mdp = TabularMDP.from_arrays(p, r)
    return Problem("two actions", mdp, adversarial.a_baseline(rng, mdp, baseline), 0)


@pytest.mark.parametrize("bad", BAD_STEPS)
@pytest.mark.parametrize(("kind", "certificate"), KINDS)
def test_an_impossible_step_is_refused_and_changes_nothing(kind, certificate, bad):
    problem = two_actions("randomised")
    agent, world = build(problem, kind, certificate), np.random.default_rng(1)
    s = by_hand(problem, agent, 25, world)
    before = pickle.loads(pickle.dumps(agent.state_dict()))
    action = agent.act(s).action
    r, y = problem.mdp.draw(world, problem.space.pair(s, action))
    with pytest.raises(InvalidInput):
        agent.observe(*BAD_STEPS[bad](s, action, r, y))
    assert same(agent.state_dict(), before)
    agent.observe(s, action, r, y)
    assert agent.t == 26


def test_the_refusal_of_another_action_says_which_was_asked_for():
    problem = two_actions()
    agent = build(problem, "cucrl2")
    agent.begin(0)
    asked = agent.act(0).action
    with pytest.raises(InvalidInput, match=f"asked for action {asked}, not {1 - asked}"):
        agent.observe(0, 1 - asked, 0.5, 0)


@pytest.mark.parametrize("kind", ["ucrl2", "cucrl2"])
def test_nothing_can_be_done_before_the_run_begins(kind):
    agent = build(two_actions(), kind)
    for step in (lambda: agent.act(0), lambda: agent.observe(0, 0, 0.5, 0)):
        with pytest.raises(SurefootedError, match="begin"):
            step()


def test_a_run_begins_once_and_in_a_state_that_exists():
    problem = two_actions()
    agent = build(problem, "cucrl2")
    with pytest.raises(InvalidInput, match="no such state"):
        agent.begin(4)
    by_hand(problem, agent, 5, np.random.default_rng(0))
    before = pickle.loads(pickle.dumps(agent.state_dict()))
    with pytest.raises(InvalidInput, match="5 steps"):
        agent.begin(0)
    assert same(agent.state_dict(), before)


def corridor(length=6):
    """State 0 pays 1/2; the baseline crawls towards it, the other action stays and earns nothing."""
    pairs = {(0, 0): (0.5, {0: 1.0}), (0, 1): (0.0, {0: 1.0})}
    for s in range(1, length):
        pairs[s, 0], pairs[s, 1] = (0.0, {s - 1: 1.0}), (0.0, {s: 1.0})
    mdp = TabularMDP.from_pairs(pairs)
    return Problem("corridor", mdp, Policy.always(mdp.space, 0), length - 1)


@pytest.mark.parametrize("certificate", CERTIFICATES)
def test_beginning_again_elsewhere_before_the_first_step_forgets_the_first_beginning(certificate):
    problem = corridor()
    agents = []
    for starts in ([5], [0, 5]):
        learner = Echo(problem, Policy.always(problem.space, 1))
        options = {"learner": learner, "certificate": certificate}
        agent = CUCRL2(problem.space, baseline=adversarial.known(problem), alpha=0.9, **options)
        try:
            for s in starts:
                agent.begin(s)
        except InvalidInput:
            return  # to refuse is as good
        agents.append(agent)
    assert same(agents[0].state_dict(), agents[1].state_dict())


@pytest.mark.parametrize("certificate", ["induction", "segments"])
def test_no_violation_after_beginning_twice(certificate):
    # what is proved for a start in state 0 is not true for a start at the far end
    problem = corridor()
    learner = Echo(problem, Policy.always(problem.space, 1))
    agent = CUCRL2(
        problem.space, baseline=adversarial.known(problem), alpha=0.9, learner=learner, certificate=certificate
    )
    agent.begin(0)
    try:
        run = simulate(problem, agent, 40)
    except InvalidInput:
        return  # to refuse is as good
    truth = adversarial.Truth(problem, 0.9, run.sequence)
    assert truth.margin.min() >= -1e-9
    assert max(decision.budget - truth.after(decision.t) for decision in run.decisions) <= 1e-9


def test_a_simulation_needs_an_agent_of_its_space_that_has_played_nothing_and_takes_its_noise():
    problem = two_actions()
    noisy = TabularMDP.from_arrays(*adversarial.dense(problem.mdp), noise=Noise("gaussian", 0.1))
    unbounded = Problem("noisy", noisy, problem.baseline, 0)
    with pytest.raises(InvalidInput, match="bounded=False"):
        simulate(unbounded, build(problem, "cucrl2"), 10)
    assert simulate(unbounded, UCRL2(problem.space, bounded=False), 10).steps == 10
    with pytest.raises(InvalidInput, match="do not fit"):
        simulate(corridor(), build(problem, "ucrl2"), 10)
    agent = build(problem, "ucrl2")
    simulate(problem, agent, 10)
    with pytest.raises(InvalidInput, match="played 10 steps"):
        simulate(problem, agent, 10)


def test_a_run_is_not_changed_by_what_its_agent_does_next():
    problem = two_actions()
    agent = build(problem, "cucrl2")
    run = simulate(problem, agent, 50)
    before = (list(run.segments), list(run.decisions), list(run.policies))
    by_hand(problem, agent, 50, np.random.default_rng(0), int(run.next_states[-1]))
    assert (run.segments, run.decisions, run.policies) == before


def test_a_fixed_policy_plays_and_learns_nothing():
    problem = two_actions("randomised")
    agent = FixedPolicy(problem.baseline, 3)
    agent.begin(0)
    played, s, world = [], 0, np.random.default_rng(0)
    for _ in range(4000):
        decision = agent.act(s)
        assert decision == agent.act(s)
        played.append((s, decision.action))
        s_next = problem.mdp.draw(world, problem.space.pair(s, decision.action))[1]
        agent.observe(s, decision.action, 0.0, s_next)
        s = s_next
    counts = np.zeros((4, 2))
    np.add.at(counts, tuple(np.array(played).T), 1)
    n = counts.sum(axis=1, keepdims=True)
    error = 5 * np.sqrt(0.25 / np.maximum(n, 1))  # 5 standard errors: below one in a million
    assert np.all(np.abs(counts / np.maximum(n, 1) - problem.baseline.probabilities)[n[:, 0] > 0] <= error[n[:, 0] > 0])
    with pytest.raises(InvalidInput):
        agent.observe(0, 9, 0.0, 0)


# -- the paper's stock room ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stock_room():
    problem = inventory()
    options = {"confidence": simplified_bernstein, "bounded": False}
    careful = CUCRL2(problem.space, baseline=adversarial.known(problem), alpha=0.05, **options)
    careless = UCRL2(problem.space, **options)
    return problem, [simulate(problem, agent, 15_000, seed=1) for agent in (careful, careless)]


def test_on_the_inventory_cucrl2_never_violates_and_ucrl2_does(stock_room):
    problem, (careful, careless) = stock_room
    safe, unsafe = (oracle.evaluate(run, problem, 0.05) for run in (careful, careless))
    assert safe.violations == 0
    assert unsafe.violation_fraction(1, 15_000) > 0.05
    assert unsafe.first_violation < 100
    for decision in careful.decisions:
        if 0 < decision.t <= 15_000:
            assert decision.budget <= safe.margin[decision.t - 1] + 1e-9


EXPLORES = r"Explores for at most (\d+) steps?, which could cost (-?\d+\.\d); (-?\d+\.\d) saved up\."
SAVES = r"Plays the baseline: (\d+\.\d) must be saved up before anything can be explored\."
REFUSES = r"Plays the baseline: exploring (\d+) steps? could cost (\d+\.\d), (\d+\.\d) saved up\."


def test_every_reason_is_a_sentence_with_its_numbers(stock_room):
    _, (careful, careless) = stock_room
    for decision in careful.decisions:
        if decision.role == "optimistic":
            found = re.fullmatch(EXPLORES, decision.reason)
            assert int(found[1]) == decision.length
            assert float(found[2]) <= float(found[3]) == pytest.approx(decision.budget, abs=0.051)
        elif decision.budget < 0:
            found = re.fullmatch(SAVES, decision.reason)
            assert float(found[1]) == pytest.approx(-decision.budget, abs=0.051)
        else:
            found = re.fullmatch(REFUSES, decision.reason)
            assert float(found[2]) >= float(found[3]) == pytest.approx(decision.budget, abs=0.051)
        assert sum(decision.terms.values()) == pytest.approx(decision.budget, abs=1e-6)
    for decision in careless.decisions:
        assert re.fullmatch(r"Explores: the best plausible gain is \d\.?\d*\.", decision.reason)


def test_an_unknown_baseline_is_said_to_be_unknown():
    problem = a_problem(seed=1)
    agent = CUCRL2(problem.space, baseline=Baseline(problem.baseline), alpha=0.1)
    agent.begin(problem.start)
    decision = agent.act(problem.start)
    assert decision.reason == "Plays the baseline: the baseline itself is not known well enough yet."
    assert decision.budget == -np.inf


@pytest.mark.parametrize("certificate", ["induction", "segments"])
def test_a_refusal_of_all_or_nothing_says_what_that_many_steps_could_cost(certificate):
    problem = corridor()  # where standing still costs a quarter a step, and nothing on the way back
    agent = CUCRL2(
        problem.space,
        baseline=adversarial.known(problem),
        alpha=0.5,
        learner=Echo(problem, Policy.always(problem.space, 1)),
        certificate=certificate,
        affordable=False,
    )
    run = simulate(problem, agent, 400)
    refused = [d for d in run.decisions if "could cost" in d.reason and d.reason.startswith("Plays")]
    assert refused
    for decision in refused:
        steps, cost, budget = re.fullmatch(REFUSES, decision.reason).groups()
        assert float(cost) == pytest.approx(0.25 * int(steps), abs=0.051), decision.reason
        assert float(cost) >= float(budget)


# -- the campaign's own front door -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_campaign_prints_one_line_and_exits_with_nothing_when_nothing_is_violated():
    script = Path(adversarial.__file__)
    done = subprocess.run([sys.executable, script, "3", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"3 problems, 9 runs, \d+ steps, \d+ explored, .* 0 violations\n", done.stdout)


def test_a_step_that_does_not_begin_where_the_last_one_ended_is_refused_and_changes_nothing():
    problem = two_actions()
    for kind in ("ucrl2", "cucrl2"):
        agent = build(problem, kind)
        agent.begin(0)
        before = agent.state_dict()
        with pytest.raises(InvalidInput, match="the last step led to state 0, this one begins in 1"):
            agent.observe(1, agent.act(1).action, 0.5, 0)
        assert same(before, agent.state_dict())


def test_after_a_reset_an_optimist_goes_on_and_a_conservative_agent_refuses():
    problem = two_actions()
    optimist, careful = build(problem, "ucrl2"), build(problem, "cucrl2")
    for agent in (optimist, careful):
        agent.begin(0)
        agent.observe(0, agent.act(0).action, 0.5, 1)
    optimist.begin(0)
    optimist.observe(0, optimist.act(0).action, 0.5, 1)
    assert optimist.t == 2
    with pytest.raises(InvalidInput, match="one beginning"):
        careful.begin(0)


def test_options_that_would_have_no_effect_are_refused():
    problem = two_actions()
    learner = UCRL2(problem.space)
    with pytest.raises(InvalidInput, match="bounded: a learner is given"):
        CUCRL2(problem.space, baseline=adversarial.known(problem), alpha=0.1, learner=learner, bounded=False)
    with pytest.raises(InvalidInput, match="steps -1"):
        simulate(problem, learner, -1)


def test_the_sweeps_of_a_review_are_those_of_all_segments_however_often_they_are_asked_for():
    problem = a_problem("randomised", 3)
    known = solve.gain_and_bias(problem.mdp, problem.baseline)
    make = functools.partial(
        CUCRL2,
        problem.space,
        baseline=Baseline(problem.baseline, known.gain, known.bias),
        alpha=0.5,
        confidence=bernstein,
    )
    agent = make()
    assert agent.effort._sweeps(agent.played) == 0
    for steps in (1, 40, 700, 700):
        agent = make().load_state_dict(agent.state_dict()) if agent.t else agent
        for _ in range(3):
            simulate(problem, agent, steps, steps) if not agent.t else play_on(problem, agent, steps)
            lengths = [segment.length for segment in agent.segments]
            swept = [agent.effort._sweeps(agent.played) for _ in range(2)]
            assert swept == [sum(min(length, effort.SWEEPS) for length in lengths)] * 2
    assert len(lengths) > 5 and max(lengths) > effort.SWEEPS


def play_on(problem, agent, steps):
    """Some more steps of an agent that has begun."""
    rng = np.random.default_rng(steps)
    for _ in range(steps):
        s, action = agent.state, agent.act(agent.state).action
        reward, s_next = problem.mdp.draw(rng, problem.space.pair(s, action))
        agent.observe(s, action, reward, s_next)


def test_a_learner_of_ones_own_has_its_own_delta():
    problem = inventory()
    with pytest.raises(InvalidInput, match="delta: a learner is given"):
        CUCRL2(problem.space, baseline=Baseline(problem.baseline), alpha=0.1, delta=0.1, learner=UCRL2(problem.space))


def test_on_a_large_problem_cucrl2_asks_and_reviews_in_proportion_to_the_steps(monkeypatch):
    problem = a_problem("randomised", 3)
    known = solve.gain_and_bias(problem.mdp, problem.baseline)
    baseline = Baseline(problem.baseline, known.gain, known.bias)

    def play(**limits):
        for name, value in limits.items():
            monkeypatch.setattr(effort, name, value)
        agent = CUCRL2(problem.space, baseline=baseline, alpha=0.5, confidence=bernstein)
        offer, agent.sweeps = agent.certificate.offer, 0

        def counting(question):
            answer = offer(question)
            agent.sweeps += answer.sweeps
            return answer

        agent.certificate.offer = counting
        return agent, simulate(problem, agent, 3_000, 1)

    free, run = play()
    assert not any("does not ask" in decision.reason for decision in run.decisions) and free.effort.played_then > 0
    n = problem.space.n_states
    sweep = n * (1 + n + np.log2(n))
    rare, rested = play(PER_STEP=1, HEAD_START=0)
    most = (rare.t + 2 * 100) * sweep  # that one question costs
    assert rare.effort.asked <= rare.t + most
    assert any("does not ask" in decision.reason for decision in rested.decisions)
    assert len(rested.decisions) < len(run.decisions) and oracle.evaluate(rested, problem, 0.5).violations == 0
    blind, _ = play(PER_STEP=20_000, HEAD_START=50_000, REVIEWS_PER_STEP=0)
    assert blind.effort.played_then == blind.effort.explored_then == blind.effort.reviewed == 0
    rows = 1 + blind.learner.counts.n_transitions / problem.space.n_pairs  # at the end; at first there were none
    least, largest = (blind.sweeps * n * (row + np.log2(n)) for row in (1, rows))
    assert 0 < least < blind.effort.asked <= largest  # what was done counts, not what was offered
