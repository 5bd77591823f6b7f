"""Agents that were told something beforehand: sets, contradictions, trust, simulation, studies and Gymnasium."""

import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import adversarial_structure as structure
import surefooted as sf
from adversarial_structure import belief_of
from study_help import without_processes
from surefooted import solve, studies
from surefooted.agents import CUCBVI, CUCRL2, EULER, UCBVI, UCRL2
from surefooted.certificates.certificate import Past, Question
from surefooted.data.counts import Counts
from surefooted.data.reading import read_history
from surefooted.data.writing import write_history
from surefooted.errors import InvalidInput
from surefooted.knowledge.belief import Belief
from surefooted.knowledge.knowledge import Knowledge
from surefooted.knowledge.mechanics import Mechanics
from surefooted.knowledge.noise_counts import NoiseCounts
from surefooted.problems.problem import Problem
from surefooted.sets import confidence as sets
from surefooted.simulation import playing as simulation
from surefooted.simulation.playing import simulate, simulate_episodes
from surefooted.studies import building
from surefooted.tables.baseline import Baseline
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.testing import Live, check_agent, same

LAW = (0.5, 0.3, 0.2)


def stock(horizon=None, observed=False, noise=None, components=1):
    """Four levels: s' = max(0, min(3, s + a) - ξ), ξ the first component; a second one does nothing."""
    S, A = 4, 3
    base = TabularMDP.from_arrays(np.full((S, A, S), 1 / S), np.zeros((S, A)))
    sizes = (3,) if components == 1 else (3, 2)

    def f(s, a, xi):
        return max(0, min(3, s + a) - (xi if components == 1 else xi[0]))

    def earn(s, a, xi):
        return min(min(3, s + a), xi if components == 1 else xi[0]) / 2 * 0.9 + 0.1 - 0.03 * a

    mechanics = Mechanics.of(base.space, f, sizes, reward=earn, observed=observed)
    laws = (LAW,) if components == 1 else (LAW, (0.4, 0.6))
    ptr, state, mass, r = mechanics.table(laws)
    p = np.zeros((S * A, S))
    p[np.repeat(np.arange(S * A), np.diff(ptr)), state] = mass
    noise = Noise("bernoulli") if noise is None else noise
    mdp = TabularMDP.from_arrays(p.reshape(S, A, S), r.reshape(S, A), noise=noise, r_max=1.0)
    return Problem("stock", mdp, Policy.always(mdp.space, 1), 0, horizon, mechanics=mechanics, laws=laws)


def too_small(problem):
    """A declaration that leaves out where the second action leads at worst."""

    def successors(s, a):
        row = np.flatnonzero(structure.World("", problem.mdp).support()[problem.space.pair(s, a)])
        return row[1:].tolist() if a == 2 and row.size > 1 else row.tolist()

    return Knowledge(problem.space, rewards=problem.mdp.r, successors=successors)


KNOWN = {
    "mechanics": lambda problem: problem.knowledge("mechanics"),
    "all": lambda problem: problem.knowledge("mechanics", "rewards"),
    "successors": lambda problem: problem.knowledge("rewards", "successors"),
    "false": too_small,
    "bounds": lambda problem: Knowledge(problem.space, reward_bounds=(0.0, 0.5)),  # false
}
KINDS = ("UCRL2", "CUCRL2", "CUCRL2 paper", "CUCRL2 reevaluated", "CUCRL2 unknown", "UCBVI", "CUCBVI", "CUCBVI unknown")
STEPS = ("UCRL2", "CUCRL2", "CUCRL2 paper", "CUCRL2 reevaluated", "CUCRL2 unknown")
EPISODES = ("UCBVI", "CUCBVI", "CUCBVI unknown", "CUCBVI staged", "freedman", "EULER")


def world(kind, **options):
    return stock(None if kind in STEPS else 4, **options)


def build(kind, problem, knowledge=None, **options):
    """An agent by its kind; options go to its learner."""
    options = {"knowledge": knowledge, "seed": 3} | options
    if problem.horizon is None:
        if kind == "UCRL2":
            return UCRL2(problem.space, **options)
        played = solve.gain_and_bias(problem.mdp, problem.baseline)
        word = kind.partition(" ")[2]
        baseline = Baseline(problem.baseline, *(() if word == "unknown" else (played.gain, played.bias)))
        certificate = word if word in ("paper", "reevaluated") else "induction"
        return CUCRL2(problem.space, baseline=baseline, alpha=0.5, certificate=certificate, minimum=1, **options)
    size = (problem.space, problem.horizon)
    if kind == "UCBVI":
        return UCBVI(*size, **options)
    if kind == "EULER":
        return EULER(*size, **options)
    if kind == "freedman":
        return UCBVI(*size, bonus="freedman", episodes=500, **options)
    values = solve.policy_values(problem.mdp, problem.baseline, problem.horizon)
    baseline = Baseline(problem.baseline, values=None if kind == "CUCBVI unknown" else values)
    return CUCBVI(*size, baseline=baseline, alpha=0.5, stage_dependent=kind == "CUCBVI staged", **options)


class Told(Live):
    """Plays an agent one step at a time and tells it the noise that it observes; may be given the noise of a run."""

    def __init__(self, agent, problem, seed, noise=None):
        super().__init__(agent, problem, seed)
        self.teller, self.noise = np.random.default_rng([seed, 1]), noise

    def step(self):
        self.begin_if_due()
        decision = self.agent.act(self.s)
        pair = self.problem.space.pair(self.s, decision.action)
        r, s_next = self.problem.mdp.draw(self.rng, pair)
        belief, xi = belief_of(self.agent), None
        if belief.noise is not None:
            if self.noise is not None:
                xi = self.noise[len(self.history)]
            else:
                xi = self.problem.mechanics.draw_noise(
                    self.problem.laws, np.array([pair]), np.array([s_next]), self.teller
                )[0]
            xi = tuple(int(x) for x in xi)
        self.agent.observe(self.s, decision.action, r, s_next, xi)
        self.history.append((pair, r, s_next, decision.role))
        self.s, self.left = s_next, self.left - 1


def fork(live, make):
    """The same player with another agent that continues from its state."""
    twin = Told(make(), live.problem, 0)
    twin.agent.load_state_dict(pickle.loads(pickle.dumps(live.agent.state_dict())))
    twin.s, twin.left = live.s, live.left
    twin.rng, twin.teller = (pickle.loads(pickle.dumps(x)) for x in (live.rng, live.teller))
    return twin


def copied(live):
    """The same player with a pickled agent."""
    return pickle.loads(pickle.dumps(live))


def plays_on(live, twin, steps=80):
    first = len(live.history)
    offset = len(twin.history)
    live.play(steps)
    twin.play(steps)
    assert twin.history[offset:] == live.history[first:]
    assert twin.agent.contradictions == live.agent.contradictions
    assert same(twin.agent.state_dict(), live.agent.state_dict())


def run_of(problem, agent, length, seed):
    if problem.horizon is None:
        return simulate(problem, agent, length, seed)
    return simulate(problem, agent, episodes=length // problem.horizon, seed=seed)


# -- the campaign -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_campaign_finds_no_budget_above_the_truth_and_no_exploration_after_a_contradiction():
    tally = structure.run_campaign(40, 5, steps=200, episodes=50)
    assert not tally.violations, tally.violations[:5]
    assert tally.explored > tally.steps / 10 and tally.episodes_explored > tally.episodes / 10
    assert tally.explored_unknown > 50 and tally.contradicted > 20 and tally.explored_after > 50
    assert tally.least < 1e-6  # spent to the last drop


@pytest.mark.slow
def test_the_campaign_prints_one_line_and_exits_with_nothing_when_nothing_is_violated():
    script = Path(structure.__file__)
    done = subprocess.run([sys.executable, script, "2", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"2 problems, .*, 0 violations\n", done.stdout)


def test_the_campaign_notices_what_is_proved_with_a_lie():
    problem = arms()
    learner = structure.Watching(problem, 0, False, knowledge=Knowledge(problem.space, rewards=[[0.5, 0.95]]))
    baseline = Baseline(problem.baseline, 0.5, np.zeros(1))
    agent = CUCRL2(problem.space, baseline=baseline, alpha=0.1, learner=learner, minimum=1)
    simulate(problem, agent, 12)
    assert not learner.held
    learner.held, tally = True, structure.Tally()
    structure.check_average(problem, agent, tally, "lie")
    for word in ("budget above the exact margin", "margin -", "could have led"):
        assert any(word in violation for violation in tally.violations), tally.violations


# -- live and simulated -----------------------------------------------------------------------------------------------


@pytest.mark.first(5)
@pytest.mark.parametrize(
    "kind, known",
    [
        *((kind, known) for kind in STEPS for known in ("mechanics", "false")),
        *((kind, known) for kind in EPISODES for known in ("mechanics", "successors")),
        ("CUCRL2", "all"),
        ("CUCRL2", "bounds"),
    ],
)
def test_an_informed_agent_keeps_every_rule_of_an_agent(kind, known):
    problem = world(kind)
    knowledge = KNOWN[known](problem)
    check_agent(lambda: build(kind, problem, knowledge), problem, steps=80, seed=2)


@pytest.mark.first(3)
@pytest.mark.parametrize("known", ["false", "bounds"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in STEPS])
def test_live_equals_simulated_across_a_contradiction(kind, known):
    problem = world(kind)
    knowledge = KNOWN[known](problem)
    agent, live = build(kind, problem, knowledge), Told(build(kind, problem, knowledge), problem, 7)
    run = simulate(problem, agent, 300, 7)
    live.play(300)
    assert agent.contradictions and agent.contradictions == live.agent.contradictions
    assert list(zip(run.pairs.tolist(), run.rewards.tolist(), strict=True)) == [step[:2] for step in live.history]
    assert same(agent.state_dict(), live.agent.state_dict())


@pytest.mark.parametrize("kind", ["UCBVI", "CUCBVI", "CUCBVI staged"])
def test_an_episode_with_two_contradictions_is_the_same_live_and_simulated(kind):
    problem = world(kind)
    knowledge = Knowledge(problem.space, reward_bounds=(0.4, 0.6))
    agent, live = build(kind, problem, knowledge), Told(build(kind, problem, knowledge), problem, 7)
    run_of(problem, agent, 200, 7)
    live.play(200)
    assert agent.contradictions == live.agent.contradictions
    assert same(agent.state_dict(), live.agent.state_dict())


@pytest.mark.first(4)
@pytest.mark.parametrize("components", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_live_equals_simulated_with_observed_noise(kind, components, monkeypatch):
    problem = world(kind, observed=True, components=components)
    told, draw = [], Mechanics.draw_noise

    def recorded(self, *args):
        told.append(draw(self, *args))
        return told[-1]

    monkeypatch.setattr(Mechanics, "draw_noise", recorded)
    knowledge = problem.knowledge("mechanics")
    agent = build(kind, problem, knowledge)
    run = run_of(problem, agent, 120, 5)
    live = Told(build(kind, problem, knowledge), problem, 5, np.concatenate(told))
    live.play(120)
    assert [step[:3] for step in live.history] == list(
        zip(*(column.ravel().tolist() for column in (run.pairs, run.rewards, run.next_states)), strict=True)
    )
    assert same(agent.state_dict(), live.agent.state_dict())
    assert sum(int(values.sum()) for values in belief_of(agent).noise.values) == 120 * components
    assert not agent.contradictions


def test_observed_noise_is_drawn_by_its_laws_and_leads_where_the_step_led():
    problem = stock(observed=True, components=2)
    agent = build("UCRL2", problem, problem.knowledge("mechanics"))
    simulate(problem, agent, 20_000, 1)
    for values, law in zip(belief_of(agent).noise.values, problem.laws, strict=True):
        assert np.abs(values / 20_000 - law).max() < 0.02  # more than 5 standard deviations


def test_in_a_simulated_run_a_contradiction_ends_the_episode_at_once_and_the_run_goes_on():
    problem = stock()
    agent = build("CUCRL2", problem, too_small(problem))
    run = simulate(problem, agent, 800, 4)
    lost = [
        structure.impossible(too_small(problem), *step, None)
        for step in zip(run.pairs.tolist(), run.rewards.tolist(), run.next_states.tolist(), strict=True)
    ]
    first = lost.index(True)
    roles = np.concatenate([np.full(segment.length, segment.role == "optimistic") for segment in run.segments])
    assert roles[first] and not roles[first + 1 :].any() and run.steps == 800
    assert "which was declared impossible" in agent.contradictions[0]
    after = [decision for decision in run.decisions if decision.t > first]
    assert after[0].t == first + 1 and all(agent.contradictions[0] in decision.reason for decision in after)
    assert all(decision.budget is None for decision in after)


@pytest.mark.parametrize("known", ["false", "bounds", "mechanics"])
@pytest.mark.parametrize("kind", ["UCRL2", "CUCRL2", "CUCRL2 reevaluated"])
def test_how_many_steps_are_counted_at_a_time_changes_nothing(kind, known, monkeypatch):
    problem, states = world(kind), []
    for chunk in (1 << 16, 5, 1):
        monkeypatch.setattr(simulation, "CHUNK", chunk)
        agent = build(kind, problem, KNOWN[known](problem))
        simulate(problem, agent, 200, 4)
        states.append(agent.state_dict())
    assert same(states[0], states[1]) and same(states[0], states[2])


def test_rewards_that_leave_their_range_contradict_nothing_that_is_true():
    problem = sf.problems.inventory()
    for parts in (("mechanics",), ("mechanics", "rewards"), ("rewards", "successors")):
        agent = UCRL2(problem.space, bounded=False, knowledge=problem.knowledge(*parts))
        simulate(problem, agent, 1000, 1)
        assert not agent.contradictions and agent.learner.plausible().contains(problem.mdp)


@pytest.mark.parametrize("known", ["false", "bounds"])
@pytest.mark.parametrize("kind", ["UCRL2", "UCBVI"])
def test_an_unconservative_learner_goes_on_with_the_set_of_the_data_alone(kind, known):
    problem = world(kind)
    agent = build(kind, problem, KNOWN[known](problem))
    run_of(problem, agent, 400, 3)
    assert agent.contradictions
    plain = Belief(agent.counts, belief_of(agent).confidence, belief_of(agent).delta)
    assert structure.same_set(agent.learner.plausible(), plain.plausible())
    assert agent.decisions[-1].role == "optimistic"


@pytest.mark.parametrize("kind", (*STEPS, *EPISODES))
def test_without_knowledge_the_run_is_the_same_as_ever(kind):
    problem = world(kind)
    first, second = build(kind, problem), build(kind, problem, Knowledge(problem.space))
    second.trust(None)
    for agent in (first, second):
        run_of(problem, agent, 200, 9)
    assert belief_of(first).knowledge is None and belief_of(second).knowledge is None and first.contradictions == []
    assert same(but_trust(first), but_trust(second))


# -- restoring --------------------------------------------------------------------------------------------------------


@pytest.mark.first(8)
@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("kind", (*STEPS, *EPISODES))
@pytest.mark.parametrize("how", ["state", "pickle"])
def test_restored_in_the_middle_it_plays_the_same_future(kind, observed, how):
    problem = world(kind, observed=observed, components=2)
    knowledge = problem.knowledge("mechanics")
    live = Told(build(kind, problem, knowledge), problem, 3)
    for steps in (1, 54):
        live.play(steps)
        live.begin_if_due()
        twin = copied(live) if how == "pickle" else fork(live, lambda: build(kind, problem, knowledge))
        plays_on(live, twin, 50)


@pytest.mark.parametrize("kind", (*STEPS, *EPISODES))
@pytest.mark.parametrize("how", ["state", "pickle"])
def test_restored_after_a_contradiction_it_remembers_it(kind, how):
    problem = world(kind)
    knowledge = KNOWN["bounds"](problem)
    live = Told(build(kind, problem, knowledge), problem, 3)
    while not live.agent.contradictions:
        live.step()
    live.begin_if_due()
    twin = copied(live) if how == "pickle" else fork(live, lambda: build(kind, problem, knowledge))
    assert twin.agent.contradictions == live.agent.contradictions != []
    plays_on(live, twin)
    assert live.agent.contradictions
    if kind.startswith("C"):
        assert twin.agent.decisions[-1].role == "baseline"


def test_pickled_after_trust_it_does_not_go_back_to_what_was_contradicted():
    problem = stock()
    live = Told(build("CUCRL2", problem, KNOWN["bounds"](problem)), problem, 3)
    live.play(100)
    live.agent.trust(None)
    live.play(10)
    twin = copied(live)
    assert belief_of(twin.agent).knowledge is None
    plays_on(live, twin)


@pytest.mark.parametrize("kind", ["UCRL2", "CUCRL2", "UCBVI", "CUCBVI"])
def test_restored_after_trust_it_does_not_go_back_to_what_was_contradicted(kind):
    problem = world(kind)
    knowledge = KNOWN["bounds"](problem)
    live = Told(build(kind, problem, knowledge), problem, 3)
    live.play(100)
    live.agent.trust(None)
    live.play(12)
    live.begin_if_due()
    try:
        twin = fork(live, lambda: build(kind, problem, knowledge))
    except InvalidInput:
        return  # to be refused is as good
    assert belief_of(twin.agent).knowledge is None


def but_trust(agent):
    """Its state, whatever it was built with and told to trust since."""
    state = agent._contents()
    state["learner"] = agent.learner._contents()
    (state if "belief" in state else state["learner"])["belief"].pop("trusted")
    return state


def plain(agent):
    """The set of the data alone."""
    learner = getattr(agent, "learner", agent)
    return Belief(learner.counts, learner.belief.confidence, learner.belief.delta).plausible()


# -- trust ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", (*STEPS, *EPISODES))
def test_trust_before_the_start_is_as_good_as_being_told_at_once(kind):
    problem = world(kind)
    knowledge = problem.knowledge("mechanics")
    told, later = build(kind, problem, knowledge), build(kind, problem, KNOWN["false"](problem))
    later.trust(None)
    later.trust(knowledge)
    for agent in (told, later):
        run_of(problem, agent, 200, 6)
    assert same(but_trust(told), but_trust(later))


@pytest.mark.parametrize("kind", (*STEPS, *EPISODES))
def test_trust_brings_observed_noise_before_the_start_only(kind):
    problem = world(kind, observed=True)
    knowledge = problem.knowledge("mechanics")
    agent = build(kind, problem)
    agent.trust(knowledge)
    live = Told(agent, problem, 2)
    live.play(20)
    assert belief_of(agent).noise.values[0].sum() == 20
    late = Told(build(kind, problem), problem, 2)
    late.play(20)
    before = late.agent.state_dict()
    with pytest.raises(InvalidInput, match="comes too late"):
        late.agent.trust(knowledge)
    assert same(before, late.agent.state_dict()) and belief_of(late.agent).knowledge is None


@pytest.mark.parametrize("kind", ["UCBVI", "CUCBVI"])
def test_observed_noise_comes_too_late_within_the_first_episode(kind):
    problem = world(kind, observed=True)
    live = Told(build(kind, problem), problem, 2)
    live.play(2)
    try:
        live.agent.trust(problem.knowledge("mechanics"))
    except InvalidInput as error:
        assert "too late" in str(error)
        return
    live.play(10)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("C")])
def test_after_trust_a_contradicted_agent_explores_again_and_nothing_old_is_left_in_its_proof(kind):
    problem = world(kind)
    live = Told(build(kind, problem, KNOWN["bounds"](problem)), problem, 3)
    live.play(400)
    agent = live.agent
    assert agent.contradictions and agent.decisions[-1].role == "baseline"
    agent.trust(problem.knowledge("mechanics"))
    assert agent.contradictions == []
    live.play(400)
    assert agent.contradictions == []
    assert any(decision.role == "optimistic" for decision in agent.decisions[-len(agent.decisions) // 2 :])


@pytest.mark.parametrize("word", ["induction", "segments", "reevaluated", "paper"])
def test_trust_forgets_what_a_certificate_proved_with_a_lie(word):
    lie = Knowledge(arms().space, rewards=[[0.5, 0.95]])
    agent = bold(word, lie)
    problem, live = arms(), Live(agent, arms(), 3)
    live.play(60)
    while not agent.contradictions:
        live.step()
    assert agent.explored > 0
    agent.trust(None)
    earned = sum(n * problem.mdp.r[q] for q, n in agent.played)
    assert agent.decisions[-1].budget <= earned - 0.5 * 0.5 * agent.t + 1e-9


def arms():
    """Two arms, of which the second is poor."""
    mdp = TabularMDP.from_arrays(np.ones((1, 2, 1)), np.array([[0.5, 0.1]]), noise=Noise("bernoulli"), r_max=1.0)
    return Problem("arms", mdp, Policy.always(mdp.space, 0), 0)


def bold(certificate, knowledge):
    baseline, options = Baseline(arms().baseline, 0.5, np.zeros(1)), {"knowledge": knowledge, "minimum": 1}
    return CUCRL2(arms().space, baseline=baseline, alpha=0.5, certificate=certificate, patience=0.0, **options)


@pytest.mark.parametrize(
    "word",
    [
        "induction",
        "segments",
        "paper",
    ],
)
def test_trust_in_the_middle_of_exploring_bounds_that_episode_anew_too(word):
    agent = bold(word, Knowledge(arms().space, rewards=[[0.5, 0.95]]))
    live = Live(agent, arms(), 3)
    while not (agent.t > 1 and agent.episode.decision.role == "optimistic" and agent.t > agent.episode.decision.t):
        live.step()
    agent.trust(None)
    budget = agent.decisions[-1].budget
    certificate = agent.certificate
    certificate.restart(agent.learner.plausible(), past_of(agent))
    plan = agent.learner.propose(agent.learner.plausible(), agent.t)
    again = certificate.offer(Question(agent.learner.plausible(), plan.policy, past_of(agent), 1, 1)).budget
    assert budget <= again + 1e-12


def past_of(agent):
    return Past(agent.start, agent.played, agent.policies, agent.t)


@pytest.mark.parametrize("kind", ["UCRL2", "UCBVI"])
def test_a_learner_that_trusts_other_knowledge_in_the_middle_uses_it_at_its_next_plan(kind):
    problem = world(kind)
    live = Told(build(kind, problem), problem, 3)
    live.play(40)
    knowledge = problem.knowledge("mechanics")
    live.agent.trust(knowledge)
    agent = live.agent
    exact = knowledge.plausible(belief_of(agent).confidence, agent.counts, belief_of(agent).delta)
    assert structure.same_set(agent.learner.plausible(), exact)
    live.play(40)
    assert not agent.contradictions


def test_knowledge_that_the_past_contradicts_is_contradicted_as_soon_as_it_is_trusted():
    problem = stock()
    live = Told(build("CUCRL2", problem), problem, 3)
    live.play(200)
    live.agent.trust(Knowledge(problem.space, successors=lambda s, a: [0]))
    assert "declared impossible" in live.agent.contradictions[0]
    assert live.agent.act(live.s).role == "baseline" and "contradicted" in live.agent.act(live.s).reason
    live.play(50)
    assert live.agent.decisions[-1].role == "baseline"


def test_what_is_no_learner_is_refused_by_name():
    space, baseline = arms().space, Baseline(arms().baseline)
    with pytest.raises(InvalidInput, match="must be an AverageLearner or an agent that has one, not Counts"):
        CUCRL2(space, baseline=baseline, alpha=0.5, learner=Counts(space))
    with pytest.raises(InvalidInput, match="must be an EpisodicLearner or an agent that has one"):
        CUCBVI(space, 2, baseline=baseline, alpha=0.5, learner=UCRL2(space))


# -- budgets under a contradiction -------------------------------------------------------------------------------------


def test_a_contradicted_agent_claims_no_budget_that_was_proved_with_a_lie():
    mdp = TabularMDP.from_arrays(np.ones((1, 2, 1)), np.array([[0.5, 0.0]]), r_max=1.0)
    lie, policy = Knowledge(mdp.space, reward_bounds=([0.0, 0.9], [1.0, 1.0])), Policy.always(mdp.space, 0)
    agent = CUCBVI(mdp.space, 1, baseline=Baseline(policy, values=np.array([0.5])), alpha=0.1, knowledge=lie)
    run = simulate(Problem("arms", mdp, policy, 0, 1), agent, episodes=6)
    margin = np.cumsum(np.where(run.explored, 0.0, 0.5) - 0.9 * 0.5)
    for k, decision in enumerate(run.decisions):
        if "contradicted" in decision.reason:
            assert decision.budget is None or decision.budget <= margin[k - 1] + 1e-12


# -- what is refused --------------------------------------------------------------------------------------------------

ODD = [None, 3, -1, (0, 0), 0.5, "1", True, (), [[0, 1]], np.array([[0], [1]])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "noise",
    [
        *ODD,
        ((0,), (1, 2)),
    ],
    ids=repr,
)
def test_noise_that_is_missing_or_impossible_is_refused_and_changes_nothing(kind, noise):
    problem = world(kind, observed=True)
    live = Told(build(kind, problem, problem.knowledge("mechanics")), problem, 3)
    live.play(9)
    live.begin_if_due()
    agent = live.agent
    a = agent.act(live.s).action
    before = pickle.loads(pickle.dumps(agent.state_dict()))
    with pytest.raises(InvalidInput, match=r"noise|counted"):
        agent.observe(live.s, a, 0.0, max(0, min(3, live.s + a) - 1), noise)
    assert same(before, agent.state_dict())
    live.play(30)


@pytest.mark.parametrize("kind", ["UCRL2", "CUCRL2", "UCBVI", "CUCBVI"])
@pytest.mark.parametrize("noise", [1.0, np.float32(1)], ids=repr)
def test_a_whole_number_that_is_a_float_is_taken_or_refused(kind, noise):
    problem = world(kind, observed=True)
    live = Told(build(kind, problem, problem.knowledge("mechanics")), problem, 3)
    live.play(9)
    live.begin_if_due()
    agent, a = live.agent, live.agent.act(live.s).action
    before = pickle.loads(pickle.dumps(agent.state_dict()))
    try:
        agent.observe(live.s, a, 0.0, max(0, min(3, live.s + a) - 1), noise)
        assert not agent.contradictions
    except InvalidInput:
        assert same(before, agent.state_dict())


@pytest.mark.parametrize("knowledge", [None, "mechanics", "all"])
@pytest.mark.parametrize("kind", KINDS)
def test_noise_that_is_not_expected_is_refused_and_changes_nothing(kind, knowledge):
    problem = world(kind)
    live = Told(build(kind, problem, None if knowledge is None else KNOWN[knowledge](problem)), problem, 3)
    live.play(9)
    live.begin_if_due()
    before = pickle.loads(pickle.dumps(live.agent.state_dict()))
    with pytest.raises(InvalidInput, match="noise is given"):
        live.agent.observe(live.s, live.agent.act(live.s).action, 0.0, 0, 0)
    assert same(before, live.agent.state_dict())


@pytest.mark.parametrize("kind", KINDS)
def test_noise_that_leads_elsewhere_contradicts_the_mechanics(kind):
    problem = world(kind, observed=True)
    live = Told(build(kind, problem, problem.knowledge("mechanics")), problem, 3)
    live.play(8)
    live.begin_if_due()
    agent, s = live.agent, live.s
    a = agent.act(s).action
    here, there = (max(0, min(3, s + a) - xi) for xi in (0, 1))
    assert here != there  # otherwise there is nothing to tell apart: take another seed
    agent.observe(s, a, 0.0, here, 1)
    assert f"state {s}, action {a}: noise 1 leads to state {there}, and it led to {here}" in agent.contradictions[0]
    if kind.startswith("CUCRL2"):
        assert agent.act(here).role == "baseline" and agent.contradictions[0] in agent.act(here).reason


@pytest.mark.parametrize("kind", (*STEPS, *EPISODES))
def test_knowledge_of_another_space_is_refused_and_changes_nothing(kind):
    problem, other = world(kind), arms()
    with pytest.raises(InvalidInput, match="the agent on"):
        build(kind, problem, Knowledge(other.space))
    live = Told(build(kind, problem, problem.knowledge("mechanics")), problem, 3)
    live.play(30)
    before = live.agent.state_dict()
    with pytest.raises(InvalidInput, match="the agent on"):
        live.agent.trust(Knowledge(other.space))
    assert same(before, live.agent.state_dict())
    live.play(30)


@pytest.mark.parametrize("kind", ["UCRL2", "CUCRL2", "UCBVI", "CUCBVI"])
@pytest.mark.parametrize("confidence", [sets.hoeffding, sets.hoeffding_paper])
def test_knowledge_with_balls_is_refused(kind, confidence):
    problem = world(kind)
    with pytest.raises(InvalidInput, match="is not made of them"):
        build(kind, problem, problem.knowledge("mechanics"), confidence=confidence)
    agent = build(kind, problem, confidence=confidence)
    with pytest.raises(InvalidInput, match="is not made of them"):
        agent.trust(problem.knowledge("mechanics"))
    assert belief_of(agent).knowledge is None


def test_the_papers_bonus_with_knowledge_is_refused():
    problem = stock(4)
    with pytest.raises(InvalidInput, match="knowledge has no effect"):
        UCBVI(problem.space, 4, bonus="hoeffding", episodes=9, knowledge=problem.knowledge("rewards"))


def test_the_papers_bonus_refuses_to_trust_knowledge_later():
    problem = stock(4)
    agent = UCBVI(problem.space, 4, bonus="hoeffding", episodes=9)
    with pytest.raises(InvalidInput, match="knowledge has no effect"):
        agent.trust(problem.knowledge("rewards"))


@pytest.mark.parametrize("kind", ["UCRL2", "CUCRL2", "UCBVI", "CUCBVI"])
def test_observed_mechanics_cannot_be_simulated_where_there_are_no_laws(kind):
    problem = world(kind, observed=True)
    knowledge = problem.knowledge("mechanics")
    bare = Problem("bare", problem.mdp, problem.baseline, 0, problem.horizon)
    agent = build(kind, problem, knowledge)
    with pytest.raises(InvalidInput, match="has no mechanics and laws to draw it from"):
        run_of(bare, agent, 40, 0)
    run_of(problem, agent, 40, 0)  # nothing has changed


@pytest.mark.parametrize("kind", ["UCRL2", "CUCRL2", "UCBVI", "CUCBVI"])
@pytest.mark.parametrize("wrong", ["flipped", "nowhere"])
def test_false_observed_mechanics_are_contradicted_in_a_simulated_run(kind, wrong):
    problem = world(kind, observed=True)
    true = problem.mechanics
    if wrong == "nowhere":
        after = np.zeros_like(true.next_state)
    else:  # the same successors by other noise
        after = true.next_state.reshape(-1, 3)[:, ::-1].ravel()
    knowledge = Knowledge(problem.space, mechanics=Mechanics(problem.space, true.sizes, true.law, after, None, True))
    agent = build(kind, problem, knowledge)
    run_of(problem, agent, 200, 0)
    assert agent.contradictions


# -- logs -------------------------------------------------------------------------------------------------------------


def rows_of(problem, n, *more):
    """n steps of the uniform policy as rows of a log, and others."""
    rng, s, rows = np.random.default_rng(1), 0, []
    H = problem.horizon or n
    for i in range(n):
        s = 0 if i % H == 0 else s
        a = int(rng.integers(3))
        r, y = problem.mdp.draw(rng, problem.space.pair(s, a))
        rows.append({"episode": i // H, "t": i % H, "state": s, "action": a, "reward": r, "next_state": y})
        s = y
    names = ("episode", "t", "state", "action", "reward", "next_state")
    return rows + [dict(zip(names, row, strict=True)) for row in more]


@pytest.mark.parametrize("kind", (*STEPS, "UCBVI", "CUCBVI", "CUCBVI unknown"))
def test_a_log_that_contradicts_the_knowledge_keeps_an_agent_on_the_baseline_from_the_start(kind):
    problem = world(kind)
    agent = build(kind, problem, problem.knowledge("mechanics"))
    read_history(rows_of(problem, 40, (99, 0, 0, 0, 0.0, 3)), problem.space).into(agent)
    found = agent.contradictions  # before anybody has asked for a set
    run_of(problem, agent, 200, 1)
    assert found == agent.contradictions
    assert "state 0, action 0: led to state 3, which no noise explains" in agent.contradictions[0]
    if kind.startswith("C"):
        assert all(decision.role == "baseline" for decision in agent.decisions)
    else:
        assert all(decision.role == "optimistic" for decision in agent.decisions)
        assert structure.same_set(agent.learner.plausible(), plain(agent))
    assert all(agent.contradictions[0] in decision.reason for decision in agent.decisions)


@pytest.mark.parametrize("kind", ["UCRL2", "CUCRL2", "CUCRL2 unknown", "UCBVI", "CUCBVI"])
def test_a_log_that_fits_makes_an_informed_agent_explore_sooner(kind):
    problem = world(kind)
    explored = []
    for rows in (0, 400):
        agent = build(kind, problem, problem.knowledge("mechanics"))
        if rows:
            read_history(rows_of(problem, rows), problem.space).into(agent)
        run_of(problem, agent, 300, 1)
        assert not agent.contradictions
        explored.append(sum(d.role == "optimistic" for d in agent.decisions) / len(agent.decisions))
    assert explored[1] >= explored[0]


def test_a_log_tells_no_noise_and_what_is_observed_counts_for_itself():
    problem = stock(observed=True)
    agent = build("CUCRL2", problem, problem.knowledge("mechanics"))
    read_history(rows_of(problem, 100), problem.space).into(agent)
    Told(agent, problem, 1).play(50)
    assert agent.counts.total == 150 and belief_of(agent).noise.values[0].sum() == 50 and not agent.contradictions


# -- the set ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("confidence", [sets.likelihood, sets.bernstein, sets.simplified_bernstein])
@pytest.mark.parametrize("known", ["mechanics", "all", "successors"])
@pytest.mark.parametrize("kind", ["UCRL2", "UCBVI", "staged"])
def test_the_live_set_is_that_of_the_knowledge_at_each_step(kind, known, confidence, observed):
    problem = world("UCBVI" if kind == "staged" else kind, observed=observed, noise=Noise("bernoulli"))
    knowledge, options = KNOWN[known](problem), {"stage_dependent": True} if kind == "staged" else {}
    agent = build("UCBVI" if kind == "staged" else kind, problem, knowledge, confidence=confidence, **options)
    live = Told(agent, problem, 4)
    for _ in range(40):
        live.step()
        fresh = KNOWN[known](problem)
        noise = None
        if observed and fresh.mechanics is not None:
            noise = NoiseCounts(fresh.mechanics)
            noise.values[0][:] = belief_of(agent).noise.values[0]
        exact = fresh.plausible(confidence, agent.counts, belief_of(agent).delta, noise)
        if not agent.contradictions:
            assert structure.same_set(belief_of(agent).plausible(), exact)
    assert confidence is sets.simplified_bernstein or not agent.contradictions


def test_a_knowledge_may_be_shared_by_agents_that_take_turns():
    problem = stock()
    shared = problem.knowledge("rewards", "successors")
    lives = [Told(build("CUCRL2", problem, shared), problem, seed) for seed in (1, 2)]
    alone = [Told(build("CUCRL2", problem, problem.knowledge("rewards", "successors")), problem, s) for s in (1, 2)]
    for _ in range(150):
        for live in lives:
            live.step()
    for one, other in zip(lives, alone, strict=True):
        other.play(150)
        assert one.history == other.history and same(one.agent.state_dict(), other.agent.state_dict())


# -- stages of their own -----------------------------------------------------------------------------------------------


def test_stages_of_their_own_are_played_with_what_is_true_of_all_of_them():
    problem = stock(3)
    p, r = structure.adversarial.dense(problem.mdp)
    other = TabularMDP.from_arrays(p[:, ::-1], r[:, ::-1], noise=problem.mdp.noise, r_max=1.0)
    mdp = structure.StagedMDP([problem.mdp, other, problem.mdp])
    support = structure.World("", mdp).support()
    knowledge = Knowledge(problem.space, successors=support)
    agent = UCBVI(problem.space, 3, stage_dependent=True, knowledge=knowledge)
    simulate_episodes(mdp, agent, np.zeros(60, dtype=int), 1)
    assert not agent.contradictions and agent.learner.plausible().contains(mdp)
    false = UCBVI(problem.space, 3, stage_dependent=True, knowledge=problem.knowledge("successors"))
    simulate_episodes(mdp, false, np.zeros(60, dtype=int), 1)
    assert false.contradictions


# -- studies ----------------------------------------------------------------------------------------------------------

STUDY = """
name = "informed"
{unit}
realisations = 1
seed = 1

[problem]
name = "{problem}"
{parameters}

[agents.told]
kind = "{kind}"
{alpha}
knowledge = {knowledge}
{more}

[agents.untold]
kind = "{kind}"
{alpha}
"""


def study_of(kind="CUCRL2", knowledge='["mechanics"]', more="", unit="steps = 300"):
    average = kind in ("UCRL2", "CUCRL2")
    parameters = 'noise = { kind = "bernoulli" }\ncapacity = 3\norder_up_to = 2'
    name = "inventory" if average else f"{__name__}:episodic_stock"
    text = STUDY.format(
        kind=kind,
        knowledge=knowledge,
        more=more,
        alpha="alpha = [0.5]" if kind.startswith("C") else "",
        unit=unit if average else "episodes = 60",
        problem=name,
        parameters=parameters if average else "",
    )
    return studies.parse(tomllib.loads(text))


def episodic_stock():
    return stock(4)


@pytest.mark.parametrize("kind", ["UCRL2", "CUCRL2", "UCBVI", "CUCBVI"])
@pytest.mark.parametrize("knowledge", ['["mechanics"]', '["rewards", "mechanics"]', '"successors"'])
def test_a_study_tells_its_agents_what_it_says(kind, knowledge):
    study = study_of(kind, knowledge)
    (problem,) = building.check(study, allow_code=True).values()
    for setting in study.settings:
        agent = building.build_agent(study, setting, problem, np.random.SeedSequence(0), allow_code=True)
        assert (belief_of(agent).knowledge is not None) == (setting.agent == "told")
        run_of(problem, agent, 40, 0)
        assert not agent.contradictions


@without_processes()
def test_a_study_with_knowledge_runs_and_its_resolved_text_is_the_same_study(tmp_path):
    study = study_of()
    again = studies.parse(tomllib.loads(study.to_toml()))
    assert again == study
    results = studies.run_study(study, tmp_path / "out", jobs=1, allow_code=True)
    assert len(results.runs) == 2


@pytest.mark.parametrize("kind", ["CUCRL2", "CUCBVI"])
def test_a_study_gives_its_agents_a_log(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (problem,) = building.check(study_of(kind), allow_code=True).values()
    optimist = UCRL2(problem.space) if problem.horizon is None else UCBVI(problem.space, problem.horizon)
    write_history(tmp_path / "log.csv", run_of(problem, optimist, 200, 1))
    study = study_of(kind, more='history = "log.csv"')
    building.check(study, allow_code=True)
    told = building.build_agent(study, study.settings[0], problem, np.random.SeedSequence(0), allow_code=True)
    assert told.learner.counts.total == 200 and belief_of(told).knowledge is not None
    run_of(problem, told, 40, 1)
    assert not told.contradictions
    missing = study_of(kind, more='history = "nowhere.csv"')
    with pytest.raises(sf.SurefootedError, match=r"nowhere\.csv"):
        building.check(missing, allow_code=True)


def test_a_study_takes_a_directory_of_logs_and_notices_a_change_in_it(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    write_history(tmp_path / "log.csv", simulate(stock(), UCRL2(stock().space), 100))
    head, *rows = (tmp_path / "log.csv").read_text().splitlines(keepends=True)
    (logs / "1.csv").write_text(head + "".join(rows[:60]))
    (logs / "2.csv").write_text(head + "".join(rows[60:]))
    stock().save(tmp_path / "stock.npz")
    text = 'name = "x"\nsteps = 50\nproblem = {name = "stock.npz"}\n[agents.a]\nkind = "UCRL2"\nhistory = "logs"\n'
    (tmp_path / "study.toml").write_text(text)
    study = studies.read(tmp_path / "study.toml")
    (problem,) = building.check(study, allow_code=True).values()
    agent = building.build_agent(study, study.settings[0], problem, np.random.SeedSequence(0), allow_code=True)
    assert agent.counts.total == 100
    (logs / ".hidden").write_text("no log")
    building.check(study, allow_code=True)
    (logs / "2.csv").rename(logs / "3.csv")
    with pytest.raises(InvalidInput, match="has changed since"):
        building.check(study, allow_code=True)


def test_a_log_is_looked_for_beside_the_study_as_a_problem_is(tmp_path):
    write_history(tmp_path / "log.csv", simulate(stock(), UCRL2(stock().space), 50))
    stock().save(tmp_path / "stock.npz")
    text = 'name = "x"\nsteps = 50\nproblem = {name = "stock.npz"}\n[agents.a]\nkind = "UCRL2"\nhistory = "log.csv"\n'
    (tmp_path / "study.toml").write_text(text)
    building.check(studies.read(tmp_path / "study.toml"), allow_code=True)


@pytest.mark.parametrize("knowledge", ['["luck"]', '"luck"', '["mechanics", "luck"]'])
def test_a_study_with_unknown_knowledge_is_refused(knowledge):
    with pytest.raises(InvalidInput, match="there is no part 'luck'"):
        building.check(study_of(knowledge=knowledge), allow_code=True)


# -- Gymnasium --------------------------------------------------------------------------------------------------------


class Teller(gymnasium.Wrapper):
    """Says the noise of each step, or a lie about it."""

    def __init__(self, problem, lie=False, silent=False):
        super().__init__(sf.gym.TabularEnv(problem))
        self.problem, self.lie, self.silent, self.rng = problem, lie, silent, np.random.default_rng(0)

    def reset(self, **options):
        observation, info = super().reset(**options)
        self.s = int(observation)
        return observation, info

    def step(self, action):
        observation, r, terminated, truncated, info = super().step(action)
        pair = self.problem.space.pair(self.s, int(action))
        y = np.array([int(observation)])
        xi = self.problem.mechanics.draw_noise(self.problem.laws, np.array([pair]), y, self.rng)[0]
        self.s = int(observation)
        info = info if self.silent else info | {"noise": (xi + 1) % 3 if self.lie else xi}
        return observation, r, terminated, truncated, info


@pytest.mark.parametrize("kind", KINDS)
def test_an_informed_agent_is_driven_in_an_environment(kind):
    problem = world(kind)
    agent = build(kind, problem, problem.knowledge("mechanics"))
    log = sf.gym.drive(sf.gym.Bridge(sf.gym.TabularEnv(problem)), agent, 120, seed=1)
    assert len(log.rewards) == 120 and not agent.contradictions and belief_of(agent).noise is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_of_an_environment_is_told(kind):
    problem = world(kind, observed=True)
    knowledge = problem.knowledge("mechanics")
    agent = build(kind, problem, knowledge)
    sf.gym.drive(sf.gym.Bridge(Teller(problem)), agent, 120, seed=1)
    assert belief_of(agent).noise.values[0].sum() == 120 and not agent.contradictions
    liar = build(kind, problem, knowledge)
    sf.gym.drive(sf.gym.Bridge(Teller(problem, lie=True)), liar, 120, seed=1)
    assert "leads to state" in liar.contradictions[0]
    with pytest.raises(InvalidInput, match="the mechanics observe their noise"):
        sf.gym.drive(sf.gym.Bridge(Teller(problem, silent=True)), build(kind, problem, knowledge), 9, seed=1)


class Falls(gymnasium.Env):
    """Ends at the toss of a coin, and says what it was."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        coin = int(self.np_random.random() < 0.5)
        return coin, 0.5, coin == 1, False, {"noise": coin}


def test_noise_cannot_be_told_where_the_end_of_an_episode_absorbs():
    bridge = sf.gym.Bridge(Falls(), termination="absorb")
    mechanics = Mechanics.of(bridge.space, lambda s, a, xi: 2 if s == 2 or xi else 0, 2, observed=True)
    agent = UCBVI(bridge.space, 4, knowledge=Knowledge(bridge.space, mechanics=mechanics))
    with pytest.raises(InvalidInput, match="there is no noise to observe"):
        sf.gym.drive(bridge, agent, 50, seed=1)
    inferred = Mechanics.of(bridge.space, lambda s, a, xi: 2 if s == 2 or xi else 0, 2)
    agent = UCBVI(bridge.space, 4, knowledge=Knowledge(bridge.space, mechanics=inferred))
    sf.gym.drive(bridge, agent, 50, seed=1)
    assert not agent.contradictions


def test_noise_that_nobody_asked_for_is_left_alone():
    problem = stock(observed=True)
    agent = build("UCRL2", problem)
    sf.gym.drive(sf.gym.Bridge(Teller(problem)), agent, 20, seed=1)
    assert agent.t == 20


def test_a_study_may_tell_the_noise_or_import_what_is_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = (
        "import surefooted as sf\ndef known(problem):\n    return sf.Knowledge(problem.space, rewards=problem.mdp.r)\n"
    )
    (tmp_path / "what_we_know.py").write_text(source)
    text = 'name = "x"\nsteps = 300\nproblem = "inventory"\n'
    for name, knowledge in (("told", '["mechanics", "noise"]'), ("own", '"what_we_know:known"')):
        text += f'[agents.{name}]\nkind = "CUCRL2"\nbounded = false\nknowledge = {knowledge}\n'
    study = studies.parse(tomllib.loads(text))
    (problem,) = building.check(study, allow_code=True).values()
    told, own = (
        building.build_agent(study, s, problem, np.random.SeedSequence(0), allow_code=True) for s in study.settings
    )
    run_of(problem, told, 300, 1)
    assert belief_of(told).noise.values[0].sum() == 300 and not told.contradictions
    assert belief_of(own).knowledge.declared.reward_mean is not None
    with pytest.raises(InvalidInput, match="name them too"):
        problem.knowledge("noise")
