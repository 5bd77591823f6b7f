"""UCBVI and EULER as agents: optimistic whenever the data are not misleading, and the same however they are played."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

import oracles
from surefooted import solve
from surefooted.agents.agent import Decision
from surefooted.agents.episodic import EpisodicPlayer
from surefooted.agents.euler import EULER
from surefooted.agents.ucbvi import UCBVI, UCBVILearner
from surefooted.errors import InvalidInput, SurefootedError
from surefooted.evaluation import margins as oracle
from surefooted.problems.problem import Problem
from surefooted.sets import confidence
from surefooted.simulation.playing import simulate, simulate_episodes
from surefooted.simulation.run import EpisodicRun
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Space
from surefooted.tables.staged import StagedMDP

SAFE = 1e-11
LEARNERS = {
    "boxes": UCBVI,
    "bernstein": functools.partial(UCBVI, confidence=confidence.bernstein),
    "balls": functools.partial(UCBVI, confidence=confidence.hoeffding),
    "hoeffding": functools.partial(UCBVI, bonus="hoeffding", episodes=10_000),
    "freedman": functools.partial(UCBVI, bonus="freedman", episodes=10_000),
    "euler": EULER,
}
learners = pytest.mark.parametrize("name", LEARNERS)
kinds = pytest.mark.parametrize("staged", [False, True], ids=["shared", "staged"])
sides = (("pessimistic", -1), ("optimistic", 1))


def some_dynamics(seed, n_states, n_actions, horizon, staged, r_max=1.0, noise="bernoulli", scale=0.0):
    """A table, or one for each stage over the same pairs; every third is full of ties."""
    rng = np.random.default_rng([41, seed])
    available = rng.random((n_states, n_actions)) < 0.8
    available[np.arange(n_states), rng.integers(n_actions, size=n_states)] = True
    tables = []
    for _ in range(horizon if staged else 1):
        p = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
        r = r_max * rng.random((n_states, n_actions))
        if seed % 3 == 0:
            p = np.eye(n_states)[rng.integers(n_states, size=(n_states, n_actions))]
            r = r_max * rng.integers(0, 2, (n_states, n_actions))
        tables.append(TabularMDP.from_arrays(p, r, available, Noise(noise, scale), r_max=r_max))
    return StagedMDP(tables) if staged else tables[0]


def dense(mdp, h):
    """p [K, S] and r [K] of a stage."""
    p, r, available = mdp.stage(h).to_arrays()
    return p[available], r[available]


def some_policies(space, horizon, seed):
    """A stationary and a time-dependent policy, deterministic and randomised."""
    rng, sizes = np.random.default_rng([43, seed]), np.diff(space.pair_ptr)
    weights = rng.random((horizon, space.n_pairs))
    weights /= np.repeat(np.add.reduceat(weights, space.pair_ptr[:-1], axis=1), sizes, axis=1)
    return (
        Policy(space, pair=space.pair_ptr[:-1] + rng.integers(sizes)),
        Policy(space, pair=space.pair_ptr[:-1] + rng.integers(sizes, size=(horizon, space.n_states))),
        Policy(space, weights=weights[0]),
        Policy(space, weights=weights),
    )


def play(agent, mdp, world, s):
    """One episode through act and observe."""
    agent.begin(s)
    finish(agent, mdp, world, s)


def finish(agent, mdp, world, s):
    """The rest of an episode that has come to state s; the steps."""
    steps = []
    for h in range(agent.h, agent.horizon):
        a = agent.act(s).action
        r, y = mdp.stage(h).draw(world, mdp.space.pair(s, a))
        agent.observe(s, a, r, y)
        steps.append((mdp.space.pair(s, a), r, y))
        s = y
    return steps


def same(a, b):
    """Whether two states of agents are the same to the last bit."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return a == b


def rows_of(agent):
    """(stage, pair, visits, mean reward, mean square, p̂) of every row, once for each stage that uses it."""
    counts, K = agent.learner.counts, agent.space.n_pairs
    next_ptr, next_state, count = counts.rows()
    for h, k in itertools.product(range(agent.horizon), range(K)):
        m = k + h * K if counts.stages > 1 else k
        n = int(counts.visits[m])
        if n:
            p = np.zeros(agent.space.n_states)
            np.add.at(p, next_state[next_ptr[m] : next_ptr[m + 1]], count[next_ptr[m] : next_ptr[m + 1]] / n)
            yield h, k, n, counts.reward_sum[m] / n, counts.reward_square[m] / n, p


def good_event(agent, mdp, best):
    """Whether what the agent's values rely on holds now; written from the formulas, for whoever knows the truth."""
    H, S, top = agent.horizon, agent.space.n_states, agent.space.r_max
    K, A, stages = agent.space.n_pairs, agent.space.n_actions, agent.learner.counts.stages
    if isinstance(agent, UCBVI) and agent.learner.bonus == "boxes":
        return agent.learner.plausible().contains(mdp)
    for h, k, n, mean, square, p_hat in rows_of(agent):
        p, r = (x[k] for x in dense(mdp, h))
        if isinstance(agent, EULER):
            log = math.log(6 * H * K * n * (n + 1) / agent.learner.delta)
            x = math.log(6 * K * stages * n * (n + 1) / agent.learner.delta)
            deviation = math.sqrt(max(square - mean**2, 0.0))
            width_r = deviation * math.sqrt(2 * x / n) + 3 * top * x / n
            v = best[h + 1]
            sd = math.sqrt(max(p_hat @ v**2 - (p_hat @ v) ** 2, 0.0))
            width_p = sd * math.sqrt(2 * log / n) + 3 * (H - h - 1) * top * log / n
            if abs((p - p_hat) @ v) > width_p:
                return False
        else:
            log = math.log(3 * agent.learner.limit * S * A * stages / agent.learner.delta)
            width_r = 2 * top * math.sqrt(log / n)
            if np.abs(p - p_hat).sum() > math.sqrt(2 * S * log / n):
                return False
        if abs(mean - r) > width_r:
            return False
    return True


@kinds
@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "freedman"])
def test_values_are_optimistic_at_every_stage_and_state_on_the_good_event(name, staged):
    checked, narrow = 0, 0
    for seed in range(6):
        H, top = 1 + seed % 3, (1.0, 3.0)[seed % 2]
        mdp = some_dynamics(seed, 1 + seed % 3, 1 + seed % 3, H, staged, top)
        agent = LEARNERS[name](mdp.space, H, delta=0.5, stage_dependent=staged)
        best = solve.optimal_values(mdp, H).values
        caps = (H - np.arange(H + 1))[:, None] * top
        world = np.random.default_rng([47, seed])
        for episode in range(120):
            play(agent, mdp, world, int(world.integers(mdp.n_states)))
            if episode % 5 and episode > 20:
                continue
            agent.learner.propose()
            assert np.all(agent.learner.plan.values <= caps * (1 + 1e-12)) and np.all(agent.learner.plan.values >= 0)
            if good_event(agent, mdp, best):
                checked += 1
                assert np.all(agent.learner.plan.values >= best - SAFE)
                if name == "euler":
                    assert np.all(agent.learner.lower <= best + SAFE) and np.all(agent.learner.lower >= 0)
                narrow += np.any(agent.learner.plan.values < 0.999 * caps - SAFE)
    assert checked > 100, "a test without power"
    assert narrow > 20 or name in ("balls", "hoeffding"), "a test without power"


def much_data(name, mdp, H, n, seed, delta=0.5):
    """A learner that has seen every row n times, with rewards of 0 and r_max."""
    agent = LEARNERS[name](mdp.space, H, delta=delta, stage_dependent=mdp.stages > 1)
    world, K = np.random.default_rng([53, seed]), mdp.space.n_pairs
    for m in range(agent.learner.counts.n_rows):
        p, r = (x[m % K] for x in dense(mdp, m // K))
        rewards = mdp.r_max * (world.random(n) * mdp.r_max < r)
        agent.learner.counts.add_steps(np.full(n, m), rewards, world.choice(mdp.n_states, size=n, p=p))
    return agent


@kinds
@pytest.mark.parametrize("name", ["boxes", "bernstein", "hoeffding", "euler"])
def test_much_data_leave_little_optimism_and_no_pessimism(name, staged):
    """20 000 visits of each of few rows: values are within a fraction of the horizon of V*, from above."""
    for seed in (1, 2):
        mdp = some_dynamics(seed, 2, 2, 2, staged, 2.0)
        agent, best = much_data(name, mdp, 2, 20_000, seed), solve.optimal_values(mdp, 2).values
        assert good_event(agent, mdp, best)
        agent.learner.propose()
        assert np.all(agent.learner.plan.values >= best) and np.all(agent.learner.plan.values <= best + 0.2 * 4)
        if name == "euler":
            assert np.all(agent.learner.lower <= best) and np.all(agent.learner.lower >= best - 0.2 * 4)
        for policy in some_policies(mdp.space, 2, seed):
            truth = solve.policy_values(mdp, policy, 2)[0]
            low, high = (agent.learner.bound([policy], side)[0] for side, _ in sides)
            assert np.all(low <= truth) and np.all(truth <= high) and np.all(high - low <= 0.4 * 4)


@kinds
@learners
def test_what_a_policy_earns_lies_between_its_bounds_on_the_good_event(name, staged):
    checked = 0
    for seed in range(6):
        H, top = 1 + seed % 3, (1.0, 3.0)[seed % 2]
        mdp = some_dynamics(seed, 1 + seed % 4, 1 + seed % 3, H, staged, top)
        agent = LEARNERS[name](mdp.space, H, delta=0.5, stage_dependent=staged)
        best, world = solve.optimal_values(mdp, H).values, np.random.default_rng([59, seed])
        for episode in range(60):
            play(agent, mdp, world, int(world.integers(mdp.n_states)))
            if episode % 6:
                continue
            good = good_event(agent, mdp, best) if name == "hoeffding" else agent.learner.plausible().contains(mdp)
            if not good:
                continue
            checked += 1
            for policy in some_policies(mdp.space, H, 100 * seed + episode):
                truth = solve.policy_values(mdp, policy, H)[0]
                low, high = (agent.learner.bound([policy], side)[0] for side, _ in sides)
                assert np.all(low <= truth + SAFE) and np.all(truth <= high + SAFE)
                assert np.all(low >= -SAFE) and np.all(high <= H * top + SAFE)
    assert checked > 20, "a test without power"


@learners
def test_optimism_fails_no_more_often_than_promised(name):
    """At δ = 1/2, in 40 runs of 25 episodes with rewards of 0 and 1; false alarm once in a million."""
    runs, failed = 40, 0
    mdp = some_dynamics(4, 2, 2, 2, False)
    best = solve.optimal_values(mdp, 2).values
    for seed in range(runs):
        agent, world = LEARNERS[name](mdp.space, 2, delta=0.5), np.random.default_rng([61, seed])
        for _ in range(25):
            play(agent, mdp, world, int(world.integers(2)))
            if np.any(agent.learner.plan.values < best - SAFE) or (
                name == "euler" and np.any(agent.learner.lower > best + SAFE)
            ):
                failed += 1
                break
    assert failed <= binom.ppf(1 - 1e-6, runs, 0.5)


@kinds
@learners
def test_bounds_of_many_policies_are_those_of_each(name, staged):
    mdp = some_dynamics(2, 3, 3, 3, staged, 2.0)
    agent, world = LEARNERS[name](mdp.space, 3, stage_dependent=staged), np.random.default_rng(0)
    for _ in range(20):
        play(agent, mdp, world, 0)
    mixed = [policy for seed in range(3) for policy in some_policies(mdp.space, 3, seed)]
    plans = [policy for policy in mixed if policy.is_deterministic and policy.horizon]
    for policies, (side, _) in itertools.product((mixed, plans, plans[:2], plans[:1], mixed[:1], []), sides):
        bounds = agent.learner.bound(policies, side)
        assert bounds.shape == (len(policies), 3)
        for policy, bound in zip(policies, bounds, strict=True):
            assert bound == pytest.approx(agent.learner.bound([policy], side)[0], abs=1e-13)
            spread = Policy(mdp.space, weights=np.broadcast_to(policy.dense_weights, (3, mdp.space.n_pairs)))
            assert bound == pytest.approx(agent.learner.bound([spread], side)[0], abs=1e-13)
    assert np.array_equal(agent.learner.bound(mixed), agent.learner.bound(mixed, "pessimistic"))


@learners
def test_policies_that_do_not_fit_are_not_bounded(name):
    mdp = some_dynamics(2, 3, 3, 3, False)
    agent, pair = LEARNERS[name](mdp.space, 3), mdp.space.pair_ptr[:-1]
    for rules in (2, 4, 6):
        long = Policy(mdp.space, pair=np.stack([pair] * rules))
        right = Policy(mdp.space, pair=np.stack([pair] * 3))
        for policies in ([long], [long, long], [right, long], [long, right]):
            with pytest.raises(InvalidInput, match="decision rules"):
                agent.learner.bound(policies)
    other = Policy(Space.full(7, 2), pair=np.stack([np.arange(0, 14, 2)] * 3))
    for policies in ([other], [other, other]):
        with pytest.raises(InvalidInput):
            agent.learner.bound(policies)


@learners
@pytest.mark.parametrize("side", ["pessimist", None])
def test_a_side_that_does_not_exist_is_not_taken_for_the_optimistic_one(name, side):
    agent = LEARNERS[name](Space.full(2, 2), 3)
    for policies in ([Policy._of_pairs(agent.space, np.array([[0, 2]] * 3))], [Policy.uniform(agent.space)]):
        with pytest.raises(InvalidInput, match="side"):
            agent.learner.bound(policies, side)


@pytest.mark.parametrize("bonus", ["hoeffding", "freedman"])
def test_a_bonus_for_so_many_episodes_is_for_no_more(bonus):
    mdp = some_dynamics(1, 2, 2, 2, False)
    agent, world = UCBVI(mdp.space, 2, bonus=bonus, episodes=3), np.random.default_rng(0)
    for _ in range(3):
        play(agent, mdp, world, 0)
    before = agent.state_dict()
    for _ in range(2):
        with pytest.raises(InvalidInput, match="3 episodes"):
            agent.begin(0)
        assert same(agent.state_dict(), before)
    with pytest.raises(SurefootedError):
        agent.act(0)
    again = UCBVI(mdp.space, 2, bonus=bonus, episodes=3).load_state_dict(before)
    with pytest.raises(InvalidInput, match="3 episodes"):
        again.begin(0)
    free = UCBVI(mdp.space, 2, episodes=3)  # boxes have no such number in them
    for _ in range(5):
        play(free, mdp, world, 0)


def test_learners_that_cannot_be_are_refused():
    space = Space.full(2, 2)
    for make in LEARNERS.values():
        for horizon in (0, -1, 2.5, None):
            with pytest.raises(InvalidInput):
                make(space, horizon)
        for delta in (0.0, 1.0, -0.1, np.nan):
            with pytest.raises(InvalidInput, match="delta"):
                make(space, 2, delta=delta)
    for bonus in ("hoeffding", "freedman"):
        for episodes in (None, 0, 1.5, -3):
            with pytest.raises(InvalidInput, match="episodes"):
                UCBVI(space, 2, bonus=bonus, episodes=episodes)
        with pytest.raises(InvalidInput, match="horizons up to"):
            UCBVI(space, 9, bonus=bonus, episodes=2)  # 2 x 2 x 2 = 8
        UCBVI(space, 8, bonus=bonus, episodes=2)
        UCBVI(space, 9, bonus=bonus, episodes=2, stage_dependent=True)
    with pytest.raises(InvalidInput, match="no bonus"):
        UCBVI(space, 2, bonus="bernstein")


class Playlist(EpisodicPlayer):
    """Plays given policies in turn, and keeps what it is told."""

    def __init__(self, policies, horizon, seed=0, bounded=True):
        super().__init__(UCBVILearner(policies[0].space, horizon, bounded=bounded, stage_dependent=True), seed)
        self.playlist, self.told = policies, []

    def next_episode(self, s):
        policy = self.playlist[self.episodes % len(self.playlist)]
        return policy, Decision("optimistic", "Is next.", policy=self.policy_id(policy), length=self.horizon)

    def learn(self, pairs, rewards, next_states, noise):
        self.told.append((pairs.tolist(), rewards.tolist(), next_states.tolist()))

    def state_dict(self):
        return self._player_state() | {"told": list(self.told)}


NOISES = {
    "none": Noise(),
    "bernoulli": Noise("bernoulli"),
    "gaussian": Noise("gaussian", 0.3),
    "truncated": Noise("truncated_gaussian", 0.7),
    "uniform": Noise("uniform", 0.2),
}


@kinds
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("horizon", [1, 3])
def test_a_simulation_is_the_agent_played_step_by_step(noise, staged, horizon):
    kind = NOISES[noise]
    for seed in range(3):
        mdp = some_dynamics(seed, 3, 2, horizon, staged, 2.0, kind.kind, kind.scale)
        policies = list(some_policies(mdp.space, horizon, seed))
        if seed:  # which of them are randomised decides when the coin is tossed
            policies = policies[:2] if seed == 1 else policies[2:]
        K = 800 if horizon == 3 and seed == 0 and not staged else 40  # more than are drawn at a time
        starts = np.random.default_rng(seed).integers(3, size=K)
        fast, slow = (Playlist(policies, horizon, 7, kind.bounded) for _ in range(2))
        run = simulate_episodes(mdp, fast, starts, 5)
        world, steps = np.random.default_rng(5), []
        for s in starts.tolist():
            slow.begin(s)
            steps.append(finish(slow, mdp, world, s))
        pairs, rewards, next_states = (np.array([[step[i] for step in e] for e in steps]) for i in range(3))
        assert np.array_equal(run.pairs, pairs) and np.array_equal(run.next_states, next_states)
        assert np.array_equal(run.rewards, rewards)
        assert same(fast.state_dict(), slow.state_dict())
        assert np.array_equal(run.starts, starts) and run.decisions == slow.decisions and run.policies == slow.policies
        assert (run.episodes, run.horizon) == (K, horizon)


@learners
@pytest.mark.parametrize("noise", ["bernoulli", "uniform"])
def test_a_simulated_learner_is_the_one_played_step_by_step(name, noise):
    kind = NOISES[noise]
    for seed in range(3):
        mdp = some_dynamics(seed, 3, 2, 3, False, 2.0, kind.kind, kind.scale)
        problem = Problem("made up", mdp, Policy.uniform(mdp.space), 1, 3)
        fast, slow = (LEARNERS[name](mdp.space, 3) for _ in range(2))
        starts = np.random.default_rng(seed).integers(3, size=40) if seed else None
        run = simulate(problem, fast, episodes=40, seed=seed, starts=starts)
        world = np.random.default_rng(seed)
        for s in [1] * 40 if starts is None else starts.tolist():
            play(slow, mdp, world, s)
        assert same(fast.state_dict(), slow.state_dict())
        assert run.decisions == slow.decisions and run.policies == slow.policies
        assert [decision.t for decision in run.decisions] == [3 * k for k in range(40)]
        assert run.explored.all() and run.baseline_episodes == 0


@kinds
def test_a_learner_counts_every_step_at_its_stage(staged):
    mdp = some_dynamics(1, 3, 2, 4, staged)
    agent = UCBVI(mdp.space, 4, bonus="freedman", episodes=50, stage_dependent=staged)
    run = simulate_episodes(mdp, agent, np.arange(50) % 3, 3)
    visits, K = np.zeros((4, mdp.space.n_pairs), dtype=int), mdp.space.n_pairs
    reached = np.zeros((4, 3), dtype=int)
    for k, h in np.ndindex(50, 4):
        visits[h, run.pairs[k, h]] += 1
        reached[h, mdp.space.pair_state[run.pairs[k, h]]] += 1
    expected = visits.ravel() if staged else visits.sum(axis=0)
    assert np.array_equal(agent.learner.counts.visits, expected) and agent.learner.counts.n_rows == (
        4 * K if staged else K
    )
    assert np.array_equal(agent.learner.stage_visits, reached)
    assert np.array_equal(reached[0], np.bincount(np.arange(50) % 3, minlength=3))


def test_freedmans_q_never_rises():
    mdp = TabularMDP.from_arrays(np.full((2, 1, 2), 0.5), [[0.1], [0.2]])
    agent, world = UCBVI(mdp.space, 3, bonus="freedman", episodes=500, delta=0.5), np.random.default_rng(0)
    before, fell = agent.learner.q_before.copy(), 0
    for _ in range(300):
        play(agent, mdp, world, 0)
        assert np.all(agent.learner.q_before <= before)
        fell += np.any(agent.learner.q_before < before)
        before = agent.learner.q_before.copy()
    assert fell > 1, "a test without power"


def test_a_learner_of_stages_finds_what_one_that_takes_them_for_alike_cannot():
    """One state, two actions: the first earns at even stages, the second at odd ones."""
    tables = [TabularMDP.from_arrays(np.ones((1, 2, 1)), [[1.0, 0.0] if h % 2 == 0 else [0.0, 1.0]]) for h in range(4)]
    mdp, space = StagedMDP(tables), tables[0].space
    assert solve.optimal_values(mdp, 4).values[0, 0] == 4.0
    for make, best in ((UCBVI, 4.0), (EULER, 4.0)):
        agent = make(space, 4, stage_dependent=True)
        run = simulate_episodes(mdp, agent, np.zeros(400, dtype=int))
        evaluation = oracle.evaluate_episodes(run, mdp, Policy.uniform(space), 0.1)
        assert np.diff(evaluation.expected_regret)[-50:] == pytest.approx(0.0)  # optimal at last
        assert evaluation.baseline == pytest.approx(2.0 * np.arange(1, 401))
        assert evaluation.expected == pytest.approx(run.rewards.sum(axis=1).cumsum())  # nothing is random
        assert (
            agent.learner.propose().actions.ravel().tolist() == [0, 1, 0, 1]
            and agent.learner.plan.values[0, 0] >= best - SAFE
        )
    alike = UCBVI(space, 4)
    with pytest.raises(InvalidInput, match="stage_dependent=True"):
        simulate_episodes(mdp, alike, np.zeros(400, dtype=int))
    alike.learner.stage_dependent = True  # a lie
    run = simulate_episodes(mdp, alike, np.zeros(400, dtype=int))
    assert oracle.evaluate_episodes(run, mdp, Policy.uniform(space), 0.1).expected_regret[-1] > 400


@pytest.mark.parametrize("name", ["boxes", "bernstein", "euler"])
def test_learners_find_the_best_policy(name):
    mdp = TabularMDP.from_arrays(
        [[[0.1, 0.9], [0.9, 0.1]], [[0.0, 1.0], [1.0, 0.0]]], [[0.0, 0.3], [1.0, 0.0]], noise=Noise("bernoulli")
    )
    agent = LEARNERS[name](mdp.space, 4)
    run = simulate_episodes(mdp, agent, np.zeros(3000, dtype=int))
    regret = oracle.evaluate_episodes(run, mdp, Policy.uniform(mdp.space), 0.1).expected_regret
    assert np.all(np.diff(regret, prepend=0.0) >= -SAFE)
    assert regret[-1] - regret[-501] <= 0.02 * 500  # of 2.9 in each episode


def expected_by_paths(mdp, policy, horizon, s):
    """The expected reward of an episode from s, over every path of states and actions."""
    weights = np.broadcast_to(policy.dense_weights, (horizon, mdp.space.n_pairs))
    total, paths = 0.0, [(1.0, s)]
    for h in range(horizon):
        p, r = dense(mdp, h)
        longer = []
        for mass, x in paths:
            for k in range(mdp.space.pair_ptr[x], mdp.space.pair_ptr[x + 1]):
                total += mass * weights[h, k] * r[k]
                longer += [(mass * weights[h, k] * p[k, y], y) for y in range(mdp.n_states)]
        paths = longer
    return total


@kinds
def test_the_oracle_adds_up_expectations_over_paths(staged):
    violations = 0
    for seed in range(10):
        rng, H, K = np.random.default_rng([67, seed]), 1 + seed % 3, 12
        mdp = some_dynamics(seed, 1 + seed % 3, 2, H, staged, (1.0, 2.0)[seed % 2])
        policies, baseline = list(some_policies(mdp.space, H, seed)), some_policies(mdp.space, H, seed + 50)[seed % 4]
        starts, played = rng.integers(mdp.n_states, size=K), rng.integers(4, size=K)
        decisions = [Decision("optimistic" if q else "baseline", "Made up.", policy=int(q)) for q in played]
        rewards = rng.random((K, H))
        run = EpisodicRun(starts, policies, decisions, np.zeros((K, H), int), rewards, np.zeros((K, H), int))
        alpha = float(rng.uniform(0.01, 0.5))
        result = oracle.evaluate_episodes(run, mdp, baseline, alpha)
        best = max_by_enumeration(mdp, H)
        earned = np.array([expected_by_paths(mdp, policies[q], H, s) for q, s in zip(played, starts, strict=True)])
        base = np.array([expected_by_paths(mdp, baseline, H, s) for s in starts])
        assert result.expected == pytest.approx(np.cumsum(earned), abs=SAFE)
        assert result.baseline == pytest.approx(np.cumsum(base), abs=SAFE)
        margin = np.cumsum(earned) - (1 - alpha) * np.cumsum(base)
        assert result.margin == pytest.approx(margin, abs=SAFE)
        assert result.expected_regret == pytest.approx(np.cumsum(best[starts] - earned), abs=SAFE)
        assert result.realised_regret == pytest.approx(np.cumsum(best[starts] - rewards.sum(axis=1)), abs=SAFE)
        assert np.all(np.diff(result.expected_regret, prepend=0.0) >= -SAFE)
        clear = np.abs(margin) > 1e-9
        assert np.array_equal(result.violated[clear], margin[clear] < 0)
        assert result.violations == result.violated.sum()
        assert result.first_violation == (np.argmax(result.violated) + 1 if result.violations else None)
        assert result.violation_fraction() == pytest.approx(result.violated.mean())
        assert run.baseline_episodes == np.sum(played == 0) and np.array_equal(run.played, played)
        violations += result.violations
        if not staged:
            problem = Problem("made up", mdp, baseline, 0, H)
            again = oracle.evaluate(run, problem, alpha)
            assert np.array_equal(again.margin, result.margin)
            assert np.array_equal(again.expected_regret, result.expected_regret)
    assert violations > 5, "a test without power"


def max_by_enumeration(mdp, horizon):
    """V* of the first stage, [S]: the best of all deterministic time-dependent policies, over all paths."""
    best = np.full(mdp.n_states, -np.inf)
    rules = list(oracles.deterministic_policies(mdp.space.available))
    for plan in itertools.product(rules, repeat=horizon):
        policy = Policy.deterministic(mdp.space, np.array(plan))
        best = np.maximum(best, [expected_by_paths(mdp, policy, horizon, s) for s in range(mdp.n_states)])
    return best


def test_the_baseline_itself_is_never_a_violation_and_half_of_it_is():
    mdp = TabularMDP.from_arrays(np.ones((1, 2, 1)), [[0.8, 0.4]])
    both = [Policy.always(mdp.space, a) for a in (0, 1)]
    for q, violated in ((0, []), (1, [1, 2, 3])):
        decisions = [Decision("baseline", "Made up.", policy=q)] * 3
        nothing = np.zeros((3, 2), dtype=int)
        run = EpisodicRun(np.zeros(3, dtype=int), both, decisions, nothing, np.zeros((3, 2)), nothing)
        result = oracle.evaluate_episodes(run, mdp, both[0], 0.25)
        assert (np.flatnonzero(result.violated) + 1).tolist() == violated
        assert result.expected_regret == pytest.approx([0.8 * q * k for k in (1, 2, 3)])
        assert result.margin == pytest.approx([((0.8 - 0.4 * q) * 2 - 0.75 * 1.6) * k for k in (1, 2, 3)])
        assert result.realised_regret == pytest.approx([1.6, 3.2, 4.8])
    for alpha in (-0.1, 1.0, np.nan):
        with pytest.raises(InvalidInput, match="alpha"):
            oracle.evaluate_episodes(run, mdp, both[0], alpha)
    with pytest.raises(InvalidInput, match="do not fit"):
        oracle.evaluate_episodes(run, mdp, Policy.uniform(Space.full(2, 2)), 0.1)


@pytest.mark.first(9)
@learners
@kinds
@pytest.mark.parametrize("steps", [0, 2, 3])
def test_a_learner_restored_in_mid_episode_has_the_same_future(name, staged, steps):
    for seed in (0, 1, 3, 6):  # most of them full of ties
        mdp = some_dynamics(seed, 4, 3, 3, staged)
        make = functools.partial(LEARNERS[name], mdp.space, 3, stage_dependent=staged)
        first, used, world = make(), make(), np.random.default_rng(seed)
        for k in range(25):
            play(first, mdp, world, k % 4)
        for k in range(10):
            play(used, mdp, world, k % 4)
        first.begin(1)
        s = 1
        for h in range(steps):
            a = first.act(s).action
            r, y = mdp.stage(h).draw(world, mdp.space.pair(s, a))
            first.observe(s, a, r, y)
            s = y
        state = first.state_dict()
        agents = [first, make().load_state_dict(state), used.load_state_dict(state)]
        assert all(same(agent.state_dict(), state) for agent in agents)
        futures = []
        for agent in agents:
            world = np.random.default_rng(99)
            finish(agent, mdp, world, s)
            for k in range(25):
                play(agent, mdp, world, k % 4)
            futures.append(agent.state_dict())
        assert same(futures[0], futures[1]) and same(futures[0], futures[2])


@pytest.mark.first(2)
@learners
def test_asking_for_bounds_changes_no_decision(name):
    for seed in (0, 3, 6, 9):
        mdp = some_dynamics(seed, 4, 3, 3, False)
        asked, left = (LEARNERS[name](mdp.space, 3) for _ in range(2))
        worlds = [np.random.default_rng(seed) for _ in range(2)]
        for k in range(40):
            for side, _ in sides:
                asked.learner.bound(list(some_policies(mdp.space, 3, k)), side)
            for agent, world in zip((asked, left), worlds, strict=True):
                play(agent, mdp, world, k % 4)
        assert same(asked.state_dict(), left.state_dict())


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_randomised_player_restored_in_mid_episode_has_the_same_future(steps):
    mdp = some_dynamics(1, 3, 2, 3, False)
    policies = list(some_policies(mdp.space, 3, 1))[2:]
    first, second = Playlist(policies, 3, 5), Playlist(policies, 3, 6)
    world, s = np.random.default_rng(0), 2
    play(first, mdp, world, 0)
    first.begin(s)
    for h in range(steps):
        a = first.act(s).action
        r, y = mdp.stage(h).draw(world, mdp.space.pair(s, a))
        first.observe(s, a, r, y)
        s = y
    second._restore_player(first._player_state())
    second.told = list(first.told)
    for agent in (first, second):
        world = np.random.default_rng(1)
        finish(agent, mdp, world, s)
        for _ in range(5):
            play(agent, mdp, world, 1)
    assert same(first.state_dict(), second.state_dict())


BAD_STEPS = {
    "unknown state": (9, 0, 0.5, 0),
    "state that is no number": ("0", 0, 0.5, 0),
    "half a state": (0.5, 0, 0.5, 0),
    "negative state": (-1, 0, 0.5, 0),
    "another state": (1, None, 0.5, 0),
    "unknown action": (0, 7, 0.5, 0),
    "negative action": (0, -1, 0.5, 0),
    "another action": (0, "other", 0.5, 0),
    "no number": (0, None, np.nan, 0),
    "infinite": (0, None, np.inf, 0),
    "too small": (0, None, -0.01, 0),
    "too large": (0, None, 1.01, 0),
    "a word": (0, None, "much", 0),
    "nothing": (0, None, None, 0),
    "leads nowhere": (0, None, 0.5, 9),
    "leads to a negative state": (0, None, 0.5, -1),
    "leads to half a state": (0, None, 0.5, 0.5),
}


@learners
@pytest.mark.parametrize("fault", BAD_STEPS)
def test_an_impossible_step_is_refused_and_changes_nothing(name, fault):
    agent, world = LEARNERS[name](Space.full(2, 2), 3), np.random.default_rng(0)
    mdp = TabularMDP.from_arrays(np.full((2, 2, 2), 0.5), np.full((2, 2), 0.5))
    play(agent, mdp, world, 1)
    agent.begin(0)
    s, a, r, y = BAD_STEPS[fault]
    asked = agent.act(s if s == 1 else 0).action
    a = {None: asked, "other": 1 - asked}.get(a, a)
    before = agent.state_dict()
    with pytest.raises(InvalidInput):
        agent.observe(s, a, r, y)
    assert same(agent.state_dict(), before)
    finish(agent, mdp, world, 0)


@learners
def test_states_as_whole_floats_are_states_or_are_refused(name):
    agent = LEARNERS[name](Space.full(2, 2), 2)
    agent.begin(1.0)
    before = agent.state_dict()
    try:
        agent.observe(1.0, agent.act(1.0).action, 0.5, 0.0)
    except SurefootedError:
        assert same(agent.state_dict(), before)
    else:
        assert agent.h == 1 and agent.state == 0


@learners
def test_asking_and_telling_out_of_turn_is_refused_and_changes_nothing(name):
    space = Space.full(2, 2)
    mdp = TabularMDP.from_arrays(np.full((2, 2, 2), 0.5), np.full((2, 2), 0.5))
    agent, world = LEARNERS[name](space, 2), np.random.default_rng(0)

    def refused(call, *arguments):
        before = agent.state_dict()
        with pytest.raises(SurefootedError):
            call(*arguments)
        assert same(agent.state_dict(), before)

    refused(agent.act, 0)
    refused(agent.observe, 0, 0, 0.5, 0)
    for s in (2, -1, 0.5, "0", None, np.nan):
        refused(agent.begin, s)
    agent.begin(0)
    refused(agent.begin, 0)
    for s in (2, -1, 0.5, "0", None, np.nan):
        refused(agent.act, s)
    agent.observe(0, agent.act(0).action, 0.5, 1)
    refused(agent.begin, 1)
    agent.observe(1, agent.act(1).action, 0.5, 0)
    refused(agent.act, 0)
    refused(agent.observe, 0, 0, 0.5, 0)
    play(agent, mdp, world, 0)
    asked = agent.state_dict()
    agent.begin(1)
    assert agent.act(1) == agent.act(1) and not same(agent.state_dict(), asked)
    assert agent.act(1).role == "optimistic" and agent.act(1).t == 4 and agent.act(1).length == 2


def test_runs_that_cannot_be_are_refused():
    mdp = some_dynamics(1, 3, 2, 3, False)
    problem = Problem("made up", mdp, Policy.uniform(mdp.space), 0, 3)
    agent = UCBVI(mdp.space, 3)
    for arguments in (
        {"steps": 5},
        {},
        {"episodes": 0},
        {"episodes": 2.5},
        {"episodes": 3, "starts": np.zeros(2, dtype=int)},
        {"episodes": 1, "starts": np.array([3])},
        {"episodes": 1, "starts": np.array([-1])},
        {"episodes": 1, "starts": np.array([0.5])},
    ):
        with pytest.raises(InvalidInput):
            simulate(problem, agent, **arguments)
        assert agent.episodes == 0
    for other in (UCBVI(mdp.space, 4), UCBVI(Space.full(3, 5), 3)):
        with pytest.raises(InvalidInput, match="do not fit"):
            simulate(problem, other, episodes=2)
    noisy = some_dynamics(1, 3, 2, 3, False, noise="gaussian", scale=0.1)
    with pytest.raises(InvalidInput, match="bounded=False"):
        simulate_episodes(noisy, agent, np.zeros(2, dtype=int))
    simulate_episodes(noisy, UCBVI(mdp.space, 3, bounded=False), np.zeros(2, dtype=int))
    with pytest.raises(InvalidInput, match="stages"):
        simulate_episodes(some_dynamics(1, 3, 2, 2, True), agent, np.zeros(2, dtype=int))
    simulate(problem, agent, episodes=2)
    with pytest.raises(InvalidInput, match="played already"):
        simulate(problem, agent, episodes=2)


def test_starts_as_whole_floats_are_states_or_are_refused():
    mdp = some_dynamics(1, 3, 2, 3, False)
    problem, agent = Problem("made up", mdp, Policy.uniform(mdp.space), 0, 3), UCBVI(mdp.space, 3)
    try:
        run = simulate(problem, agent, episodes=2, starts=np.array([0.0, 2.0]))
    except SurefootedError:
        assert agent.episodes == 0
    else:
        assert run.starts.tolist() == [0, 2] and agent.episodes == 2
