"""Any agent as a learner: whatever it proposes, the condition holds, and it is told everything that was played."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import surefooted as sf
from surefooted.agents.adopted import AdoptedAgent
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.testing import check_agent, check_promise
from test_any_agent import GRID, RIVER, H, a_problem, worth_of_pairs


def known(problem):
    played = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    return sf.Baseline(problem.baseline, played.gain, played.bias)


def values(problem):
    return sf.Baseline(problem.baseline, values=sf.solve.policy_values(problem.mdp, problem.baseline, H))


def conservative(problem, learner, alpha=0.4, **options):
    options = {"baseline": known(problem), "condition": "decisions", "seed": 3} | options
    return sf.CUCRL2(problem.space, alpha=alpha, learner=learner, **options)


class Malicious:
    """Knows the truth and asks for what is worst; it pretends to be the baseline while it does."""

    def __init__(self, problem):
        worth, ends, space = worth_of_pairs(problem)[0], problem.space.pair_ptr, problem.space
        worst = [ends[s] + int(np.argmin(worth[ends[s] : ends[s + 1]])) for s in range(space.n_states)]
        self.worst, self.policy = space.pair_action[worst], problem.baseline

    def begin(self, s):
        pass

    def act(self, s):
        return sf.agents.Decision("baseline", "Trust me.", int(self.worst[s]), budget=1e9)

    def observe(self, s, a, r, s_next):
        pass


class Listening:
    """Draws when it is asked, as no agent should, and writes down what it is told."""

    def __init__(self, space, seed=0):
        self.space, self.rng, self.told, self.asked = space, np.random.default_rng(seed), [], []

    def begin(self, s):
        self.told.append(("begin", s))

    def act(self, s):
        a = int(self.rng.choice(self.space.actions(s)))
        self.asked.append((s, a))
        return a

    def observe(self, *step):
        self.told.append(("observe", *step))


class Watching(Listening):
    def watch(self, *step):
        self.told.append(("watch", *step))


def in_euros(problem):
    """The same problem with rewards from -30 to 70 euros."""
    mdp = problem.mdp
    space = sf.Space(mdp.space.pair_ptr, mdp.space.pair_action, rewards=(-30, 70), unit="€")
    table = sf.TabularMDP(space, mdp.next_ptr, mdp.next_state, mdp.p, 100 * mdp.r - 30, mdp.noise)
    policy = sf.Policy(space, pair=problem.baseline.pair, weights=problem.baseline.weights)
    return sf.Problem("euros", table, baseline=policy, start=problem.start)


SETTINGS = ["known", "span", "knowledge", "allowance", "saving"]


def options_of(setting, problem):
    baseline = known(problem)
    match setting:
        case "span":
            return {"baseline": sf.Baseline(problem.baseline, span=float(np.ptp(baseline.bias)) + 0.01)}
        case "knowledge":
            return {"baseline": sf.Baseline(problem.baseline), "knowledge": problem.knowledge("successors", "rewards")}
        case "allowance":
            return {"allowance": 2.0}
        case "saving":
            return {"patience": 0.1}
    return {}


@pytest.mark.first(3)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", ["deterministic", "randomised"])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.seeds(1)
def test_the_condition_holds_whatever_is_proposed(seed, kind, setting):
    """At δ = 0.05 a fair agent may fail once in twenty runs; these seeds are fixed, and none does."""
    problem = a_problem(seed, kind)
    proposers = [Malicious(problem), Listening(problem.space, seed)]
    for proposer in proposers:
        agent = conservative(problem, proposer, alpha=0.3, **options_of(setting, problem))
        run = sf.simulate(problem, agent, steps=400, seed=seed)
        given = {"allowance": 2.0} if setting == "allowance" else {}
        result = sf.evaluate(run, problem, alpha=0.3, **given).decisions
        assert result.violations == 0
        exact = np.r_[given.get("allowance", 0.0), result.margin]
        assert all(d.budget is None or d.budget <= exact[d.t] + 1e-9 for d in run.decisions)
        if setting in ("known", "allowance"):
            assert any(segment.role == "optimistic" for segment in run.segments)  # it did explore


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.seeds(2)
def test_what_is_explored_is_what_the_agent_asked_for_in_that_state(seed):
    problem = a_problem(seed)
    agent = Listening(problem.space, seed)
    run = sf.simulate(problem, conservative(problem, agent, alpha=0.5), steps=300, seed=seed)
    states = np.r_[run.start, run.next_states[:-1]]
    assert agent.asked[:300] == [(s, a) for s, (_, a) in zip(states.tolist(), agent.asked, strict=False)]
    played, asked = problem.space.pair_action[run.pairs], np.array([a for _, a in agent.asked[:300]])
    departed = run.pairs != problem.baseline.pair[states]
    assert departed.any() and np.array_equal(played[departed], asked[departed])


@pytest.mark.parametrize("kind", [Listening, Watching])
@pytest.mark.parametrize("money", [False, True])
def test_it_is_told_every_step_once_in_the_unit_of_the_user(kind, money):
    problem = a_problem(2)
    problem = in_euros(problem) if money else problem
    agent = kind(problem.space)
    held = conservative(problem, agent, alpha=0.5, floor=-30.0 if money else 0.0)
    run = sf.simulate(problem, held, steps=300, seed=1)
    states, actions = np.r_[run.start, run.next_states[:-1]], problem.space.pair_action[run.pairs]
    columns = (x.tolist() for x in (states, actions, run.rewards, run.next_states))
    expected, wanted = [("begin", run.start)], [a for _, a in agent.asked]
    for (s, a, r, y), asked in zip(zip(*columns, strict=True), wanted, strict=False):
        other = ("watch", s, a, r, y) if kind is Watching else ("begin", y)
        expected.append(("observe", s, a, r, y) if a == asked else other)
    assert len(agent.told) == 301
    for told, known_step in zip(agent.told, expected, strict=True):
        assert told[0] == known_step[0] and told[1:] == pytest.approx(known_step[1:])
    assert {step[0] for step in expected} == (
        {"begin", "observe", "watch"} if kind is Watching else {"begin", "observe"}
    )


def test_an_agent_that_fails_is_told_the_step_again_and_nothing_is_counted_twice():
    problem = a_problem(4)

    class Shaky(Watching):
        broken = False

        def observe(self, *step):
            if self.broken:
                raise RuntimeError("not now")
            super().observe(*step)

        watch = observe

    shaky, rng = Shaky(problem.space), np.random.default_rng(0)
    agent = conservative(problem, shaky)
    s = problem.start
    agent.begin(s)
    for t in range(50):
        a = agent.act(s).action
        r, y = problem.mdp.draw(rng, problem.space.pair(s, a))
        shaky.broken = t % 10 == 5
        if shaky.broken:
            with pytest.raises(RuntimeError, match="not now"):
                agent.observe(s, a, r, y)
            with pytest.raises(RuntimeError, match="not now"):
                agent.act(y)
            shaky.broken = False
        agent.observe(s, a, r, y)  # where it failed, the step was counted already
        s = y
    assert agent.t == 50 and agent.counts.total == 50 and len(shaky.told) == 51


def q_learning(space):
    return sf.QLearning(space, steps=2000, span=0.5, scale=0.05)


NAMES = ["q", *(pytest.param(name, marks=pytest.mark.slow) for name in ("fixed", "euros", "randomised", "knowledge"))]


def adopted(name):
    match name:
        case "q":
            return RIVER, lambda: conservative(RIVER, q_learning(RIVER.space))
        case "fixed":
            last = sf.Policy.always(RIVER.space, 1)
            return RIVER, lambda: conservative(RIVER, sf.agents.FixedPolicy(last, role="optimistic"))
        case "euros":
            problem = in_euros(a_problem(1))
            return problem, lambda: conservative(problem, q_learning(problem.space), floor=-30.0)
        case "randomised":
            problem = a_problem(1, "randomised")
            return problem, lambda: conservative(problem, q_learning(problem.space))
    told = a_problem(1)
    return told, lambda: conservative(told, q_learning(told.space), knowledge=told.knowledge("successors"))


@pytest.mark.first(1)
@pytest.mark.parametrize("name", NAMES)
def test_agents_that_hold_another_keep_the_rules(name):
    problem, make = adopted(name)
    check_agent(make, problem, steps=40)
    if name != "euros":  # whose share is measured from a floor
        check_promise(make, problem, alpha=0.4, length=600)


def test_a_learner_that_holds_an_agent_is_saved_with_it(tmp_path):
    problem, make = adopted("q")
    one = make()
    sf.simulate(problem, one, steps=200, seed=0)
    one.save(tmp_path / "agent")
    other = make().load(tmp_path / "agent")
    assert other.learner.agent.q.tolist() == one.learner.agent.q.tolist()
    assert other.learner.agent is not one.learner.agent
    different = conservative(RIVER, sf.QLearning(RIVER.space, steps=2000, span=0.7, scale=0.05))
    with pytest.raises(InvalidInput, match="learner, adopted, span: 0"):
        different.load(tmp_path / "agent")
    with pytest.raises(SurefootedError, match="Listening has no state_dict and load_state_dict"):
        held = conservative(problem, Listening(problem.space))
        sf.simulate(problem, held, steps=20)
        held.state_dict()


@pytest.mark.parametrize("spoilt", ["effort", "check"])
def test_a_state_that_is_refused_leaves_the_agent_inside_as_it_was(spoilt):
    problem, make = adopted("q")
    one, other = make(), make()
    sf.simulate(problem, one, steps=200, seed=0)
    sf.simulate(problem, other, steps=50, seed=1)
    before, state = pickle.dumps(other.learner.agent.q), one.state_dict()
    state[spoilt] = {"nonsense": 1}
    contents = {name: value for name, value in state.items() if name not in ("identity", "checksum")}
    state["checksum"] = sf.agents.identity.fingerprint(contents)
    with pytest.raises(InvalidInput, match="cannot be loaded"):
        other.load_state_dict(state)
    assert pickle.dumps(other.learner.agent.q) == before


def test_what_cannot_propose_is_refused_with_what_to_do():
    baseline = known(RIVER)
    with pytest.raises(InvalidInput, match='Malicious decides each step on its own: choose condition="decisions"'):
        sf.CUCRL2(RIVER.space, baseline=baseline, alpha=0.1, learner=Malicious(RIVER))
    for learner, words in (
        (sf.QLearning, "not ABCMeta"),
        (object(), "not object"),
        (q_learning(GRID.space), "the learner is on"),
        (sf.UCBVI(RIVER.space, 5), "not UCBVI"),
    ):
        with pytest.raises(InvalidInput, match=words):
            conservative(RIVER, learner)
    episodes = Listening(RIVER.space)
    episodes.horizon = 5
    with pytest.raises(InvalidInput, match="episodes of 5 steps, this agent one long run"):
        conservative(RIVER, episodes)
    with pytest.raises(InvalidInput, match=f"episodes of 5 steps, this agent {H}"):
        episodes.space = GRID.space
        sf.CUCBVI(GRID.space, H, baseline=values(GRID), alpha=0.1, learner=episodes)
    bad = Listening(RIVER.space)
    bad.act = lambda s: 7
    with pytest.raises(InvalidInput, match="Listening plays 7"):
        conservative(RIVER, bad).begin(0)


class Dreadful(Listening):
    """The worst policy of the episodes, known beforehand."""

    def __init__(self, says):
        super().__init__(GRID.space)
        costs = sf.TabularMDP(
            GRID.space, *(getattr(GRID.mdp, x) for x in ("next_ptr", "next_state", "p")), 1 - GRID.mdp.r
        )
        self.worst = sf.solve.optimal_values(costs, H).policy
        if says:
            self.policy = self.worst

    def act(self, s):
        return int(self.worst.actions[0, s])


@pytest.mark.parametrize("condition", ["replay", "decisions"])
@pytest.mark.parametrize("says", [True, False])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.seeds(1)
def test_episodes_are_safe_whatever_is_proposed(seed, says, condition):
    agent = sf.CUCBVI(GRID.space, H, baseline=values(GRID), alpha=0.5, learner=Dreadful(says), condition=condition)
    run = sf.simulate(GRID, agent, episodes=300, seed=seed)
    result = sf.evaluate(run, GRID, alpha=0.5)
    assert (result.decisions if condition == "decisions" else result).violations == 0
    if condition == "decisions":
        assert run.explored_steps.any()


@pytest.mark.parametrize("kind", [Listening, Watching])
def test_it_is_told_each_episode_once(kind):
    inside = kind(GRID.space)
    agent = sf.CUCBVI(GRID.space, H, baseline=values(GRID), alpha=0.5, learner=inside, condition="decisions")
    run = sf.simulate(GRID, agent, episodes=30, seed=0)
    agent.begin(GRID.start)  # the last episode is told when the next one begins
    steps = [step for step in inside.told if step[0] != "begin"]
    if kind is Watching:
        assert len(steps) == 30 * H and [step[4] for step in steps] == run.next_states.ravel().tolist()
        assert [step[3] for step in steps] == pytest.approx(run.rewards.ravel())
    assert all(r in run.rewards for _, _, _, r, _ in steps)
    assert inside.told[0] == ("begin", GRID.start)


@pytest.mark.first(1)
@pytest.mark.parametrize("condition", ["replay", "decisions"])
def test_agents_of_episodes_that_hold_another_keep_the_rules(condition):
    def make():
        learner = sf.QLearning(GRID.space, steps=3000, span=3.0, scale=0.05)
        return sf.CUCBVI(GRID.space, H, baseline=values(GRID), alpha=0.4, learner=learner, condition=condition)

    check_agent(make, GRID, steps=40)
    check_promise(make, GRID, alpha=0.4, length=200)


def test_knowledge_narrows_the_set_beside_an_agent_too():
    problem = replace(a_problem(2))
    agent = conservative(problem, Malicious(problem), knowledge=problem.knowledge("successors", "rewards"), alpha=0.3)
    assert agent.shares.of_set > 0 and agent.learner.belief.knowledge is not None
    run = sf.simulate(problem, agent, steps=300, seed=0)
    assert sf.evaluate(run, problem, alpha=0.3).decisions.violations == 0
    assert np.isfinite(agent.account.arrays.by_set).all()  # the set was used


def test_what_it_asked_for_counts_for_one_step_only():
    """Where the baseline is played for several steps, it is asked before each of them is told."""

    class Turning(Watching):
        def act(self, s):
            return len(self.told) % 2  # 1 after `begin`, then in turn

    agent, pair = Turning(RIVER.space), RIVER.space.pair
    learner = AdoptedAgent(RIVER.space, agent, elsewhere=RIVER.baseline)
    learner.locate(0)
    learner.propose(learner.plausible(), 0)
    learner.learn(np.array([pair(0, 1), pair(1, 0), pair(0, 0)]), np.zeros(3), np.array([1, 0, 0]))
    learner.locate(0)
    assert [step[0] for step in agent.told] == ["begin", "observe", "observe", "watch"]


def test_an_episode_that_was_not_told_yet_is_saved():
    def make():
        learner = sf.QLearning(GRID.space, steps=3000, span=3.0, scale=0.05)
        return sf.CUCBVI(GRID.space, H, baseline=values(GRID), alpha=0.4, learner=learner, condition="decisions")

    one = make()
    sf.simulate(GRID, one, episodes=3, seed=0)
    other = make().load_state_dict(one.state_dict())
    for agent in (one, other):
        assert agent.learner.agent.visits.sum() == 2 * H
        agent.begin(GRID.start)
        assert agent.learner.agent.visits.sum() == 3 * H
    assert other.learner.agent.q.tolist() == one.learner.agent.q.tolist()
