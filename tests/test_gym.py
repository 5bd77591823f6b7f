"""Gymnasium, both ways."""

import copy
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from scipy.stats import binom

import surefooted as sf
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.gym.registration import IDS
from surefooted.problems.extras import is_installed


@pytest.mark.parametrize("name", [name for name in IDS if is_installed(name) and name != "icu_sepsis"])
def test_every_problem_is_registered_and_passes_gymnasiums_checker(name):
    identity = IDS[name]
    env = gymnasium.make(identity, render_mode="rgb_array")
    check_env(env.unwrapped)
    _, info = env.reset(seed=1)
    assert info["action_mask"].dtype == np.int8
    env.close()


@pytest.mark.first(2)
@pytest.mark.parametrize(
    "imports, identity",
    [
        ("surefooted.gym, gymnasium", "surefooted/Inventory-v0"),
        ("gymnasium", "surefooted:surefooted/Inventory-v0"),
        ("gymnasium, surefooted", "surefooted/Inventory-v0"),
        ("surefooted, gymnasium", "surefooted.gym:surefooted/Inventory-v0"),
    ],
)
def test_problems_are_registered_by_the_imports_that_gymnasium_expects(imports, identity):
    code = f"import {imports}; gymnasium.make({identity!r}, capacity=3).reset()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_parameter_given_to_make_reaches_the_problem():
    env = gymnasium.make("surefooted/Inventory-v0", capacity=3, order_below=1, order_up_to=2)
    assert env.observation_space.n == 4 and env.action_space.n == 4


def test_the_mask_marks_the_actions_of_the_state_and_others_are_refused_without_a_step():
    env = sf.gym.TabularEnv(sf.problems.inventory())
    _, info = env.reset(seed=0, options={"state": 4})
    assert info["action_mask"].tolist() == [1, 1, 1, 0, 0, 0, 0]
    with pytest.raises(InvalidInput, match="state 4: action 3 is not available"):
        env.step(3)
    assert env.action_mask().tolist() == [1, 1, 1, 0, 0, 0, 0]


def test_sampled_actions_are_available_also_from_a_copy_of_the_space():
    env = sf.gym.TabularEnv(sf.problems.inventory())
    env.reset(seed=0)
    for sampler in (env.action_space, copy.deepcopy(env.action_space)):
        sampler.seed(0)
        for _ in range(200):
            _, _, _, _, info = env.step(sampler.sample())
            assert info["action_mask"][sampler.sample()] == 1


def test_an_environment_draws_what_its_table_says():
    # 28 pairs, one success count each: at 1e-8 per side and pair, a false alarm in 1e6 runs
    problem = sf.problems.inventory(noise=sf.Noise("none"))
    env = sf.gym.TabularEnv(problem)
    env.reset(seed=3)
    visits, hits = np.zeros(28, dtype=int), np.zeros(28, dtype=int)
    first = problem.mdp.next_ptr[:-1]
    s = problem.start
    for _ in range(20_000):
        pair = problem.space.pair(s, int(env.action_space.sample()))
        s, reward, terminated, truncated, _ = env.step(problem.space.pair_action[pair])
        assert reward == problem.mdp.r[pair] and not terminated and not truncated
        visits[pair] += 1
        hits[pair] += s == problem.mdp.next_state[first[pair]]
    assert np.all(hits <= binom.ppf(1 - 1e-8, visits, problem.mdp.p[first]))
    assert np.all(hits >= binom.ppf(1e-8, visits, problem.mdp.p[first]))


def test_the_same_seed_gives_the_same_episode():
    def episode(seed):
        env = gymnasium.make("surefooted/Maintenance-v0")
        env.reset(seed=seed)
        return [env.step(t % 4)[:2] for t in range(50)]

    assert episode(5) == episode(5) != episode(6)


def test_a_horizon_truncates_and_never_terminates():
    env = sf.gym.TabularEnv(sf.problems.gridworld(horizon=3))
    env.reset(seed=0)
    assert [env.step(3)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
    with pytest.raises(InvalidInput, match="call reset"):
        env.step(3)
    env.reset()
    env.step(3)


def test_renders():
    env = sf.gym.TabularEnv(sf.problems.inventory(noise=sf.Noise()), render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "inventory, step 0: state 0\n"
    env.step(2)
    assert env.render().startswith("inventory, step 1: state") and "after +2 in 0, reward" in env.render()
    env = sf.gym.TabularEnv(sf.problems.gridworld(), render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    assert before.dtype == np.uint8 and before.ndim == 3 and before.shape[2] == 3
    env.step(3)
    assert np.any(env.render() != before), "the picture must show where one is"
    assert sf.gym.TabularEnv(sf.problems.riverswim()).render() is None
    with pytest.raises(SurefootedError, match="'ansi' and 'rgb_array'"):
        sf.gym.TabularEnv(sf.problems.riverswim(), render_mode="human")


def dynamics_of(env, s, a):
    """What `P` says of (s, a), as {(s_next, reward, terminated): probability}."""
    row = {}
    for p, y, r, done in env.P[s][a]:
        row[int(y), r, bool(done)] = row.get((int(y), r, bool(done)), 0.0) + p
    return row


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"])
@pytest.mark.parametrize("termination", ["absorb", "restart"])
def test_toy_text_tables_are_exact(name, termination):
    env = gymnasium.make(name).unwrapped
    mdp = sf.gym.table(env.P, termination, env.initial_state_distrib)
    n = len(env.P)
    extra = mdp.n_states - n
    assert extra == (termination == "absorb" and name != "FrozenLake-v1")
    for s in range(n):
        for a in env.P[s]:
            expected, mean = np.zeros(mdp.n_states), 0.0
            for (y, r, done), p in dynamics_of(env, s, a).items():
                mean += p * r
                if not done:
                    expected[y] += p
                elif termination == "restart":
                    expected[:n] += p * env.initial_state_distrib
                else:
                    expected[n if extra else y] += p
            row = np.zeros(mdp.n_states)
            successors, probabilities = mdp.row(s, a)
            row[successors] = probabilities
            np.testing.assert_allclose(row, expected, atol=1e-12)
            r = mdp.r[mdp.space.pair(s, a)]
            assert r == pytest.approx(mean, abs=1e-9)
    if extra:
        assert np.all(mdp.r[mdp.space.pair_state == n] == 0.0)


def test_frozen_lake_has_its_known_optimum():
    # slippery 4x4: the best policy reaches the goal with probability 0.82352941 = 14/17, given unlimited time
    lake = gymnasium.make("FrozenLake-v1").unwrapped
    mdp = sf.gym.table(lake.P)
    # V of 20 000 steps counts arrivals once: the goal then pays nothing
    assert sf.solve.optimal_values(mdp, 20_000).values[0, 0] == pytest.approx(14 / 17, abs=1e-6)


def test_cliff_walking_takes_thirteen_steps():
    cliff = gymnasium.make("CliffWalking-v1").unwrapped
    mdp = sf.gym.table(cliff.P)
    value = sf.solve.optimal_values(mdp, 100).values[0, 36]
    assert value == pytest.approx(-13)


@pytest.mark.parametrize(
    "p, kwargs, fault",
    [
        ({}, {}, "no transition"),
        ({0: {0: [(1.0, 0, 0.0)]}}, {}, "each entry must be"),
        ({0: {0: [(1.0, 0, 1.0, True)]}}, {"termination": "restart"}, "needs `initial`"),
        ({0: {0: [(1.0, 0, 1.0, True)]}}, {"termination": "restart", "initial": [0.5]}, "distribution over 1 states"),
        ({0: {0: [(0.7, 0, 1.0, False)]}}, {}, "state 0, action 0: probabilities sum to 0.7"),
    ],
)
def test_a_faulty_p_is_refused(p, kwargs, fault):
    with pytest.raises(InvalidInput, match=fault):
        sf.gym.table(p, **kwargs)


class Counter(gymnasium.Env):
    """Counts up to `last` and ends there; states and actions have odd numbers and shapes."""

    def __init__(self, observations, actions, encode, last=3, masked=None):
        self.observation_space, self.action_space = observations, actions
        self.encode, self.last, self.masked, self.n = encode, last, masked, 0
        self.played = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.n = 0
        return self.encode(0), {}

    def step(self, action):
        self.played.append(action)
        self.n += 1
        info = {} if self.masked is None else {"action_mask": self.masked}
        return self.encode(self.n), float(self.n), self.n == self.last, False, info


SPACES = {
    "offset": (spaces.Discrete(4, start=-7), lambda n: n - 7),
    "multi": (spaces.MultiDiscrete([2, 2], start=[5, 1]), lambda n: np.array([5 + n // 2, 1 + n % 2])),
    "binary": (spaces.MultiBinary(2), lambda n: np.array([n // 2, n % 2], dtype=np.int8)),
    "tuple": (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2, start=1)]), lambda n: (n // 2, n % 2 + 1)),
    "dict": (
        spaces.Dict(x=spaces.Discrete(2), y=spaces.MultiBinary(1)),
        lambda n: {"x": n // 2, "y": np.array([n % 2])},
    ),
}


@pytest.mark.parametrize("kind", SPACES)
def test_any_discrete_space_is_numbered_and_back(kind):
    space, encode = SPACES[kind]
    env = Counter(space, space, encode)
    bridge = sf.gym.Bridge(env, rewards=(0, 5))
    assert (bridge.space.n_states, bridge.space.n_actions) == (4, 4)
    assert [bridge.states.encode(encode(n)) for n in range(4)] == [0, 1, 2, 3]
    for n in range(4):
        element = bridge.actions.decode(n)
        assert space.contains(element) and bridge.actions.encode(element) == n
    agent = sf.agents.FixedPolicy(sf.Policy.deterministic(bridge.space, [3, 2, 1, 0]))
    log = sf.gym.drive(bridge, agent, steps=4)
    assert log.actions == [3, 2, 1, 3] and all(space.contains(action) for action in env.played)


def test_what_is_not_discrete_is_refused_and_what_is_outside_too():
    box = Counter(spaces.Box(0, 1), spaces.Discrete(2), lambda n: n)
    with pytest.raises(SurefootedError, match="not discrete"):
        sf.gym.Bridge(box)
    env = Counter(spaces.Discrete(2), spaces.Discrete(2), lambda n: n)
    agent = sf.agents.FixedPolicy(sf.Policy.always(sf.gym.Bridge(env).space, 0))
    with pytest.raises(InvalidInput, match="2 is not in Discrete"):
        sf.gym.drive(sf.gym.Bridge(env, rewards=(0, 9)), agent, steps=2)
    with pytest.raises(InvalidInput, match="reward 2 is outside the declared range"):
        sf.gym.drive(sf.gym.Bridge(Counter(*SPACES["offset"][:1] * 2, SPACES["offset"][1])), recorder(4), steps=3)


class Recorder:
    """An agent that plays 0 and remembers what it is told."""

    def __init__(self):
        self.told = []

    def begin(self, s):
        self.told.append(("begin", s))

    def act(self, s):
        return sf.agents.Decision("baseline", "", 0)

    def observe(self, s, a, r, s_next):
        self.told.append((s, a, r, s_next))


def recorder(_):
    return Recorder()


def test_termination_is_learnt_and_truncation_is_not():
    space, encode = SPACES["offset"]
    restarted, absorbed, cut = Recorder(), Recorder(), Recorder()
    sf.gym.drive(sf.gym.Bridge(Counter(space, space, encode), (0, 4)), restarted, steps=4)
    sf.gym.drive(sf.gym.Bridge(Counter(space, space, encode), (0, 4), termination="absorb"), absorbed, steps=4)
    limited = gymnasium.wrappers.TimeLimit(Counter(space, space, encode), max_episode_steps=2)
    log = sf.gym.drive(sf.gym.Bridge(limited, (0, 4)), cut, steps=3)
    again = [("begin", 0), (0, 0, 1.0, 1)]
    assert restarted.told == [("begin", 0), (0, 0, 1.0, 1), (1, 0, 2.0, 2), (2, 0, 3.0, 0), again[1]]
    assert absorbed.told == [("begin", 0), (0, 0, 1.0, 1), (1, 0, 2.0, 2), (2, 0, 3.0, 4), *again]
    assert cut.told == [("begin", 0), (0, 0, 1.0, 1), (1, 0, 2.0, 2), *again]
    assert log.truncated == [False, True, False] and log.terminated == [False] * 3


def test_masks_are_respected():
    space, encode = SPACES["offset"]
    env = Counter(space, space, encode, masked=np.array([0, 1, 1, 1], dtype=np.int8))
    with pytest.raises(InvalidInput, match=r"step 2 cannot be played: 1 fault\s+- state 1: action 0 is masked"):
        sf.gym.drive(sf.gym.Bridge(env, (0, 9)), Recorder(), steps=3)
    available = np.array([[True] * 4] + [[False, True, True, True]] * 3)
    bridge = sf.gym.Bridge(env, (0, 9), available=available)
    assert bridge.space.actions(1).tolist() == [1, 2, 3]
    assert sf.gym.Bridge(gymnasium.make("surefooted/Inventory-v0")).space == sf.problems.inventory().space


@pytest.mark.parametrize(
    "kwargs, fault",
    [
        ({"rewards": (1, 1)}, "low < high"),
        ({"rewards": (0, np.inf)}, "low < high"),
        ({"termination": "stop"}, "'restart' or 'absorb'"),
        ({"available": np.ones((3, 4), dtype=bool)}, r"shape \(3, 4\)"),
    ],
)
def test_a_faulty_bridge_is_refused(kwargs, fault):
    space, encode = SPACES["offset"]
    with pytest.raises(InvalidInput, match=fault):
        sf.gym.Bridge(Counter(space, space, encode), **kwargs)


def test_driving_a_problem_visits_states_as_the_stationary_distribution_says():
    # the share of time in state 5 over 40 000 steps; batches of 40 steps are nearly independent here, so a normal bound
    # at 6 sigma of 1 000 batch means raises a false alarm about twice in 1e9
    problem = sf.problems.riverswim()
    policy = sf.Policy.always(problem.space, 1)
    bridge = sf.gym.Bridge(sf.gym.TabularEnv(problem))
    log = sf.gym.drive(bridge, sf.agents.FixedPolicy(policy), steps=40_000, seed=4)
    share = (np.array(log.states) == 5).reshape(1000, 40).mean(axis=1)
    expected = sf.solve.stationary_distribution(problem.mdp, policy)[5]
    assert abs(share.mean() - expected) <= 6 * share.std() / np.sqrt(1000)


def test_a_fixed_policy_answers_the_same_until_it_observes_and_plays_its_rules_in_turn():
    space = sf.Space.full(2, 3)
    agent = sf.agents.FixedPolicy(sf.Policy.uniform(space), seed=0)
    agent.begin(1)
    answers = []
    for _ in range(50):
        assert agent.act(1) == agent.act(1)
        answers.append(agent.act(1).action)
        agent.observe(1, answers[-1], 0.0, 1)
    assert set(answers) == {0, 1, 2}
    staged = sf.agents.FixedPolicy(sf.Policy.deterministic(space, [[0, 1], [2, 2]]))
    staged.begin(1)
    assert staged.act(1).action == 1
    staged.observe(1, 1, 0.0, 0)
    assert staged.act(0).action == 2
    staged.begin(0)
    assert staged.act(0).action == 0
    with pytest.raises(InvalidInput):
        agent.observe(0, 3, 0.0, 0)
    assert pickle.loads(pickle.dumps(agent)).act(0) == agent.act(0)


class Episodes(sf.UCBVI):
    """A learner of episodes that remembers what it was told."""

    def __init__(self, space, horizon):
        super().__init__(space, horizon)
        self.told = []

    def begin(self, s):
        super().begin(s)
        self.told.append(("begin", s))

    def observe(self, s, a, r, s_next):
        super().observe(s, a, r, s_next)
        self.told.append((s, r, s_next))


def counter(termination):
    space, encode = SPACES["offset"]
    return sf.gym.Bridge(Counter(space, space, encode), (0, 4), termination=termination)


def test_an_agent_of_episodes_begins_anew_every_h_steps_and_the_environment_with_it():
    bridge = counter("restart")
    agent = Episodes(bridge.space, 2)
    sf.gym.drive(bridge, agent, steps=4)
    assert agent.told == [("begin", 0), (0, 1.0, 1), (1, 2.0, 2)] * 2 + [("begin", 0)]


def test_an_episode_that_terminates_is_finished_where_nothing_is_earned():
    bridge = counter("absorb")
    agent = Episodes(bridge.space, 5)
    log = sf.gym.drive(bridge, agent, steps=4)
    assert agent.told[:6] == [("begin", 0), (0, 1.0, 1), (1, 2.0, 2), (2, 3.0, 4), (4, 0.0, 4), (4, 0.0, 4)]
    assert agent.told[6:] == [("begin", 0), (0, 1.0, 1)]
    assert log.states == [0, 1, 2, 0]  # steps that were not played are not in the log
    assert agent.counts.total == 5


def test_an_episode_that_restarts_goes_on_until_its_end():
    bridge = counter("restart")
    agent = Episodes(bridge.space, 5)
    sf.gym.drive(bridge, agent, steps=5)
    steps = [(0, 1.0, 1), (1, 2.0, 2), (2, 3.0, 0), (0, 1.0, 1), (1, 2.0, 2)]
    assert agent.told == [("begin", 0), *steps, ("begin", 0)]


def test_an_environment_that_cuts_episodes_short_is_refused():
    space, encode = SPACES["offset"]
    limited = gymnasium.wrappers.TimeLimit(Counter(space, space, encode), max_episode_steps=2)
    bridge = sf.gym.Bridge(limited, (0, 4))
    with pytest.raises(InvalidInput, match="after 2 steps, the agent's has 5"):
        sf.gym.drive(bridge, Episodes(bridge.space, 5), steps=5)
    fitting = Episodes(bridge.space, 2)
    sf.gym.drive(bridge, fitting, steps=4)
    assert fitting.told.count(("begin", 0)) == 3
