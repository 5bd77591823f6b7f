"""Agents of one's own: what they play is what is recorded, and nothing that they only claim is believed."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import oracles
import surefooted as sf
from surefooted.errors import InvalidInput, NoSingleGain
from surefooted.evaluation.margins import gain_margin
from surefooted.simulation.run import UNKNOWN
from surefooted.testing import check_promise

RIVER = sf.problems.riverswim()
GRID = sf.problems.gridworld(slip=0.2, noise=sf.Noise("bernoulli"))
H = GRID.horizon


def a_problem(seed=0, kind="deterministic", noise=None):
    """Five states, three actions, all reachable from all."""
    p, r, available = oracles.random_mdp("dense", seed, 5, 3)
    mdp = sf.TabularMDP.from_arrays(p, 0.1 + 0.9 * r, available, noise or sf.Noise("bernoulli"))
    first = sf.Policy(mdp.space, pair=mdp.space.pair_ptr[:-1])
    baseline = first if kind == "deterministic" else sf.Policy.uniform(mdp.space).mixed_with(first, 0.5)
    return sf.Problem("dense", mdp, baseline=baseline, start=1)


def worth_of_pairs(problem):
    """A of every pair and the gain of the baseline, by dense linear algebra."""
    mdp, space = problem.mdp, problem.space
    rows = np.zeros((space.n_pairs, space.n_states))
    for k in range(space.n_pairs):
        entries = slice(mdp.next_ptr[k], mdp.next_ptr[k + 1])
        rows[k, mdp.next_state[entries]] = mdp.p[entries]
    weights = problem.baseline.dense_weights
    chain = np.zeros((space.n_states, space.n_states))
    earned = np.zeros(space.n_states)
    for k in range(space.n_pairs):
        chain[space.pair_state[k]] += weights[k] * rows[k]
        earned[space.pair_state[k]] += weights[k] * mdp.r[k]
    gain, bias = (np.asarray(x, dtype=float) for x in oracles.gain_and_bias(chain, earned))
    g = float(np.max(gain))
    return mdp.r + rows @ bias - bias[space.pair_state] - g, g


class Scripted:
    """Plays the actions of a function of (step, state), and says whatever it was told to say."""

    def __init__(self, plays, says=lambda a: a, policies=None):
        self.plays, self.says, self.policies, self.t, self.told = plays, says, policies, 0, []
        if policies is not None:
            self.policy = policies(0)

    def begin(self, s):
        self.told.append(("begin", s))

    def act(self, s):
        return self.says(self.plays(self.t, s))

    def observe(self, s, a, r, s_next):
        self.told.append((s, a, r, s_next))
        self.t += 1
        if self.policies is not None:
            self.policy = self.policies(self.t)


def claims(role):
    return lambda a: sf.agents.Decision(role, "It says so.", a)


def last_action(problem):
    """An agent with memory: it goes through the actions of each state in turn."""
    return lambda t, s: int(problem.space.actions(s)[t % len(problem.space.actions(s))])


def test_it_is_played_on_the_tables_own_draws_and_told_every_step():
    problem, rng = a_problem(), np.random.default_rng(4)
    agent = Scripted(last_action(problem))
    run = sf.simulate(problem, agent, steps=50, seed=4)
    s, expected = problem.start, [("begin", problem.start)]
    for t in range(50):
        a = last_action(problem)(t, s)
        r, y = problem.mdp.draw(rng, problem.space.pair(s, a))
        expected.append((s, a, r, y))
        s = y
    assert agent.told == expected
    assert run.rewards.tolist() == [step[2] for step in expected[1:]]
    assert run.next_states.tolist() == [step[3] for step in expected[1:]]
    assert not run.knows_policies and [segment.policy for segment in run.segments] == [UNKNOWN]


@pytest.mark.parametrize("kind", ["deterministic", "randomised"])
@pytest.mark.parametrize("role", ["baseline", "optimistic", None])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.seeds(2)
def test_whatever_role_it_claims_its_decisions_are_judged_by_what_they_are_worth(seed, role, kind):
    problem = a_problem(seed, kind)
    agent = Scripted(last_action(problem), claims(role) if role else lambda a: a)
    run = sf.simulate(problem, agent, steps=200, seed=seed)
    result = sf.evaluate(run, problem, alpha=0.2)
    worth, g = worth_of_pairs(problem)
    only = problem.baseline.dense_weights[run.pairs] == 1.0  # the baseline's only action there: no departure
    t = np.arange(1, 201)
    margin = np.cumsum(np.where(only, 0.0, worth[run.pairs])) + 0.2 * t * g
    assert result.judged_by == "decisions"
    assert result.decisions.margin == pytest.approx(margin, abs=1e-9)
    assert result.margin == pytest.approx(margin, abs=1e-9) and result.violations == int((margin < -1e-9).sum())
    assert run.baseline_steps == (int(only.sum()) if role == "baseline" else 0)


def test_it_cannot_hide_behind_a_randomised_baseline():
    """It says that it follows the baseline, and always draws the worst action that the baseline may play."""
    problem = a_problem(3, "randomised")
    worth, g = worth_of_pairs(problem)
    ends = problem.space.pair_ptr

    def worst(t, s):
        return int(problem.space.pair_action[ends[s] + np.argmin(worth[ends[s] : ends[s + 1]])])

    agent = Scripted(worst, claims("baseline"), lambda t: problem.baseline)
    run = sf.simulate(problem, agent, steps=2000, seed=0)
    result = sf.evaluate(run, problem, alpha=0.05)
    assert result.decisions.margin[-1] == pytest.approx(2000 * 0.05 * g + worth[run.pairs].sum())
    assert result.decisions.violations > 1900
    honest = sf.simulate(problem, sf.agents.FixedPolicy(problem.baseline, seed=1), steps=2000, seed=0)
    assert sf.evaluate(honest, problem, alpha=0.05).decisions.violations == 0 and honest.baseline_steps == 2000
    other = sf.agents.FixedPolicy(sf.Policy.uniform(problem.space), seed=1)  # ours, and not the baseline
    assert sf.simulate(problem, other, steps=100, seed=0).baseline_steps == 0


def test_policies_that_it_says_are_those_of_each_step_and_are_replayed_exactly():
    problem = a_problem(5)
    space, rng = problem.space, np.random.default_rng(0)
    policies = [sf.Policy(space, pair=space.pair_ptr[:-1] + rng.integers(np.diff(space.pair_ptr))) for _ in range(7)]

    def now(t):
        return policies[(t // 2) % 7]

    agent = Scripted(lambda t, s: int(now(t).actions[s]), policies=now)
    run = sf.simulate(problem, agent, steps=40, seed=2)
    assert run.knows_policies and run.sequence == [(now(2 * i), 2) for i in range(20)]
    p, r = np.zeros((5, 3, 5)), np.zeros((5, 3))
    for k in range(space.n_pairs):
        entries = slice(problem.mdp.next_ptr[k], problem.mdp.next_ptr[k + 1])
        p[space.pair_state[k], space.pair_action[k], problem.mdp.next_state[entries]] = problem.mdp.p[entries]
        r[space.pair_state[k], space.pair_action[k]] = problem.mdp.r[k]
    chains = [oracles.chain_of(p, r, now(t).actions) for t in range(40)]
    exact = oracles.cumulative_rewards(chains, np.eye(5)[problem.start])
    result = sf.evaluate(run, problem, alpha=0.1)
    assert result.judged_by == "replay" and result.expected == pytest.approx(np.asarray(exact, dtype=float))


def test_a_policy_that_was_not_followed_is_an_error():
    problem = a_problem(1)
    always = sf.Policy(problem.space, pair=problem.space.pair_ptr[:-1])
    agent = Scripted(last_action(problem), policies=lambda t: always)
    with pytest.raises(InvalidInput, match=r"agent.policy never plays state \d, action \d, and the agent did"):
        sf.simulate(problem, agent, steps=20)
    staged = sf.Policy(problem.space, pair=np.tile(problem.space.pair_ptr[:-1], (4, 1)))
    with pytest.raises(InvalidInput, match=r"agent\.policy has 4 decision rules"):
        sf.simulate(problem, Scripted(last_action(problem), policies=lambda t: staged), steps=20)
    elsewhere = sf.Policy.always(RIVER.space, 0)
    with pytest.raises(InvalidInput, match="this policy cannot be recorded"):
        sf.simulate(problem, Scripted(last_action(problem), policies=lambda t: elsewhere), steps=20)
    network = Scripted(last_action(problem), policies=lambda t: "a network")  # what others call a policy says nothing
    assert not sf.simulate(problem, network, steps=5).knows_policies


def test_what_needs_policies_says_that_there_are_none():
    problem = a_problem()
    run = sf.simulate(problem, Scripted(last_action(problem)), steps=10)
    with pytest.raises(InvalidInput, match="does not say which policies it follows"):
        _ = run.sequence
    with pytest.raises(InvalidInput, match="does not say which policies it follows"):
        gain_margin(run, problem, 0.1)
    assert run.log_columns()["state"][0] == problem.start
    mdp = sf.TabularMDP.from_arrays(p=np.eye(2)[:, None, :].repeat(2, 1), r=[[0.0, 0.1], [1.0, 0.9]])
    stuck = sf.Problem("two islands", mdp, baseline=sf.Policy.always(mdp.space, 0), start=0)
    with pytest.raises(NoSingleGain, match="this run cannot be judged"):
        sf.evaluate(sf.simulate(stuck, Scripted(lambda t, s: 1), steps=5), stuck, alpha=0.1)


@dataclass
class Odd:
    """Returns something of its own that has an action."""

    action: object


@pytest.mark.parametrize(
    "said", [True, None, "0", 0.0, 3, -1, np.float64(1), Odd("a"), sf.agents.Decision("baseline", "No action.")]
)
def test_what_is_no_action_is_refused_with_what_there_is(said):
    with pytest.raises(InvalidInput, match="the actions there are 0, 1"):
        sf.simulate(RIVER, Scripted(lambda t, s: 0, lambda a: said), steps=5)


@pytest.mark.parametrize("said", [np.int32(0), Odd(0), sf.agents.Decision("optimistic", "Yes.", 0)])
def test_an_action_may_come_in_several_forms(said):
    assert sf.simulate(RIVER, Scripted(lambda t, s: 0, lambda a: said), steps=5).steps == 5


def test_what_does_not_fit_is_refused_before_the_first_step():
    problem = a_problem(noise=sf.Noise("gaussian", 0.3))
    with pytest.raises(InvalidInput, match="object has no begin") as found:
        sf.simulate(problem, object(), steps=5)
    assert len(found.value.faults) == 3
    agent = Scripted(last_action(problem))
    agent.space = RIVER.space
    with pytest.raises(InvalidInput, match=r"agent on .* problem on"):
        sf.simulate(problem, agent, steps=5)
    with pytest.raises(InvalidInput, match="gaussian noise leaves"):
        sf.simulate(problem, sf.QLearning(problem.space, steps=5, span=1.0), steps=5)
    with pytest.raises(InvalidInput, match="the problem None"):
        sf.simulate(problem, Scripted(last_action(problem)), episodes=3)
    with pytest.raises(InvalidInput, match="plays `steps`"):
        sf.simulate(problem, Scripted(last_action(problem)))
    for starts, words in (([0, 99], "no state 99"), ([0.5, 1.0], "starts"), ([0], "shape")):
        with pytest.raises(InvalidInput, match=words):
            sf.simulate(GRID, Scripted(lambda t, s: 0), episodes=2, starts=np.array(starts))
    agent = Scripted(lambda t, s: 0)
    agent.horizon = H + 1
    with pytest.raises(InvalidInput, match=f"the agent has horizon {H + 1}, the problem {H}"):
        sf.simulate(GRID, agent, episodes=2)


def in_turn(t, s):
    return int(GRID.space.actions(s)[t % len(GRID.space.actions(s))])


def exact_episode_worth(run, baseline=GRID.baseline):
    """What each episode's departures are worth, one step after the other."""
    mdp, values = GRID.mdp, sf.solve.policy_values(GRID.mdp, baseline, H)
    weights = np.broadcast_to(baseline.dense_weights, (H, GRID.space.n_pairs))
    worth = np.zeros(run.episodes)
    for i, h in np.ndindex(*run.pairs.shape):
        k = run.pairs[i, h]
        if weights[h, k] < 1.0:
            entries = slice(mdp.next_ptr[k], mdp.next_ptr[k + 1])
            onward = mdp.p[entries] @ values[h + 1][mdp.next_state[entries]]
            worth[i] += mdp.r[k] + onward - values[h][GRID.space.pair_state[k]]
    return worth


@pytest.mark.parametrize("role", ["baseline", "optimistic"])
def test_episodes_are_judged_by_their_decisions_whatever_role_it_claims(role):
    agent = Scripted(in_turn, claims(role))
    run = sf.simulate(GRID, agent, episodes=20, seed=3)
    assert [step for step in agent.told if step[0] == "begin"] == [("begin", GRID.start)] * 20
    result = sf.evaluate(run, GRID, alpha=0.1)
    values = sf.solve.policy_values(GRID.mdp, GRID.baseline, H)[0, GRID.start]
    margin = np.cumsum(exact_episode_worth(run)) + 0.1 * values * np.arange(1, 21)
    assert not run.knows_policies and set(run.played.tolist()) == {UNKNOWN}
    assert result.decisions.margin == pytest.approx(margin, abs=1e-9) and result.margin == pytest.approx(margin)


def test_an_episode_is_the_baselines_only_if_each_of_its_steps_is():
    """One policy for each episode: it begins as the baseline does, says that it is the baseline, and then departs."""
    space, baseline = GRID.space, sf.Policy.deterministic(GRID.space, GRID.baseline.actions)
    problem = replace(GRID, baseline=baseline)
    rules = np.array([[space.pair(s, space.actions(s)[-1]) for s in range(space.n_states)]] * H)
    rules[0] = baseline.pair
    departs = sf.Policy(space, pair=rules)

    class Wolf(sf.agents.FixedPolicy):
        pass

    run = sf.simulate(problem, Wolf(departs, role="baseline"), episodes=10, seed=1)
    assert run.knows_policies and run.policies == [departs] and run.baseline_episodes == 0
    result = sf.evaluate(run, problem, alpha=0.1)
    base, played = (sf.solve.policy_values(GRID.mdp, x, H)[0, GRID.start] for x in (baseline, departs))
    k = np.arange(1, 11)
    assert result.margin == pytest.approx(k * (played - 0.9 * base))
    margin = np.cumsum(exact_episode_worth(run, baseline)) + 0.1 * base * k
    assert result.decisions.margin == pytest.approx(margin) and not np.allclose(margin, 0.1 * base * k)
    sheep = sf.simulate(problem, Wolf(baseline, role="baseline"), episodes=10, seed=1)
    assert sheep.baseline_episodes == 10 and sf.evaluate(sheep, problem, alpha=0.1).decisions.violations == 0


def test_an_agent_that_changes_its_policy_within_an_episode_decided_each_step():
    space = GRID.space
    policies = [
        sf.Policy(space, pair=[space.pair(s, space.actions(s)[j]) for s in range(space.n_states)]) for j in (0, -1)
    ]
    agent = Scripted(lambda t, s: int(policies[t % 2].actions[s]), policies=lambda t: policies[t % 2])
    run = sf.simulate(GRID, agent, episodes=5, seed=1)
    assert not run.knows_policies and run.by_step is not None
    base = np.cumsum(np.full(5, sf.solve.policy_values(GRID.mdp, GRID.baseline, H)[0, GRID.start]))
    result = sf.evaluate(run, GRID, alpha=0.1)
    assert result.expected == pytest.approx(base + np.cumsum(exact_episode_worth(run)))


def test_a_problem_of_episodes_can_be_played_in_one_long_run():
    agent = Scripted(in_turn)
    run = sf.simulate(GRID, agent, steps=3 * H, seed=0)
    assert run.steps == 3 * H and [step for step in agent.told if step[0] == "begin"] == [("begin", GRID.start)]


@pytest.mark.parametrize("horizon", [None, 5])
def test_any_agent_acts_in_an_environment(horizon):
    gymnasium = pytest.importorskip("gymnasium")
    bridge = sf.gym.Bridge(gymnasium.make("FrozenLake-v1", max_episode_steps=5 if horizon else 100))
    agent = Scripted(lambda t, s: int(t % 4), np.int64)
    if horizon:
        agent.horizon = horizon
    log = sf.gym.drive(bridge, agent, steps=40, seed=0)
    told = [step for step in agent.told if step[0] != "begin"]
    assert len(log.actions) == 40 and agent.told[0] == ("begin", log.states[0])
    if horizon is None:
        assert [step[1] for step in told] == log.actions == [t % 4 for t in range(40)]
    else:  # a new beginning every 5 steps, those after an end that absorbs included
        begins = [i for i, step in enumerate(agent.told) if step[0] == "begin"]
        assert np.diff(begins).tolist() == [6] * (len(begins) - 1) and len(begins) >= 9
    with pytest.raises(InvalidInput, match="object has no act"):
        sf.gym.drive(bridge, object(), steps=2)
    with pytest.raises(InvalidInput, match="plays 4"):
        sf.gym.drive(bridge, Scripted(lambda t, s: 4), steps=2)


class Cautious:
    """A conservative agent of one's own, which dares nothing; `boasts` is the budget that it claims."""

    condition = "decisions"

    def __init__(self, problem, boasts=0.0):
        self.baseline, self.boasts = problem.baseline, boasts

    def begin(self, s):
        pass

    def act(self, s):
        return sf.agents.Decision("baseline", "It is safe.", int(self.baseline.actions[s]), budget=self.boasts)

    def observe(self, s, a, r, s_next):
        pass


def test_the_promise_of_a_conservative_agent_of_ones_own_can_be_checked():
    check_promise(lambda: Cautious(RIVER), RIVER, alpha=0.1, length=50)
    with pytest.raises(AssertionError, match=r"a budget of 1\.0 where 0\.0 is the exact margin"):
        check_promise(lambda: Cautious(RIVER, 1.0), RIVER, alpha=0.1, length=50)
    grid = replace(GRID, baseline=sf.Policy.deterministic(GRID.space, GRID.baseline.actions))
    check_promise(lambda: Cautious(grid), grid, alpha=0.1, length=5)
