"""Compiled episodes: the same draws, to the last bit, as the table and the policy make one by one."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from surefooted.kernels import playing
from surefooted.kernels.structs import World
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.tables.staged import StagedMDP

NOISES = [
    Noise(),
    Noise("bernoulli"),
    Noise("gaussian", 0.4),
    Noise("truncated_gaussian", 0.4),
    Noise("uniform", 0.25),
]


def both(kernel):
    return pytest.mark.parametrize("kernel", [kernel, kernel.py_func], ids=["compiled", "plain"])


def small(seed, noise=None, r_max=1.0):
    p, r, available = oracles.random_mdp("dense" if seed % 2 else "sparse", seed, 5, 3)
    return TabularMDP.from_arrays(p, r * r_max, available, noise, r_max=r_max)


def some_policy(space, kind, seed=0):
    rng = np.random.default_rng(seed)
    choice = Policy(space, pair=space.pair_ptr[:-1] + rng.integers(np.diff(space.pair_ptr)))
    return choice if kind == "deterministic" else choice.mixed_with(Policy.uniform(space), 0.6)


def play(kernels, mdp, policy, coins, draws, allowed, s, *outputs):
    """Play on; how many steps."""
    noise = (mdp.r_max, mdp.noise.code, mdp.noise.scale)
    world = World(mdp.space.pair_ptr, mdp.next_ptr, mdp.next_state, mdp.p, mdp.r, *noise)
    return kernels[0](tuple(world), *policy.stages(1), draws, coins, allowed, s, *outputs)


def some_coins(policy, coin, u, n):
    """u and n more uniforms of a copy of `coin` for a randomised policy, nothing for a deterministic one."""
    return np.zeros(0) if policy.is_deterministic else np.append(u, copy.deepcopy(coin).random(n))


def compiled(kernels, mdp, policy, allowed, u, s, n, seed):
    """What an episode of at most n steps does to everything it touches."""
    world, coin = np.random.default_rng([1, seed]), np.random.default_rng([2, seed])
    draws = np.zeros((n, 2))
    kernels[1](world, mdp.noise.code, draws)
    pairs, rewards, next_states = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n, dtype=np.int64)
    coins = some_coins(policy, coin, u, n)
    length = play(kernels, mdp, policy, coins, draws, allowed, s, pairs, rewards, next_states)
    if coins.size:
        coin.random(length)
        u = coins[length]
    part = slice(0, length)
    played = (pairs[part].tolist(), rewards[part].tolist(), next_states[part].tolist())
    return *played, allowed.tolist(), u, coin.random()


KERNELS = (playing.play_episode, playing.draw_steps)
PLAIN = tuple(kernel.py_func for kernel in KERNELS)
either = pytest.mark.parametrize("kernel", [KERNELS, PLAIN], ids=["compiled", "plain"])


def one_by_one(mdp, policy, allowed, u, s, n, seed):
    """The same by `TabularMDP.draw` and `Policy.pair_at`."""
    world, coin = np.random.default_rng([1, seed]), np.random.default_rng([2, seed])
    pairs, rewards, next_states = [], [], []
    while len(pairs) < n:
        k = policy.pair_at(s, u)
        r, s = mdp.draw(world, k)
        pairs.append(k)
        rewards.append(r)
        next_states.append(s)
        u = u if policy.is_deterministic else coin.random()
        allowed[k] -= 1
        if allowed[k] == 0:
            break
    return pairs, rewards, next_states, allowed.tolist(), u, coin.random()


@either
@pytest.mark.parametrize("kind", ["deterministic", "randomised"])
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.kind)
@pytest.mark.parametrize("r_max", [1.0, 7.5])
def test_an_episode_is_drawn_as_the_table_and_the_policy_draw_it(kernel, kind, noise, r_max):
    for seed in range(3):
        mdp = small(seed, noise, r_max)
        policy = some_policy(mdp.space, kind, seed)
        assert policy.is_deterministic == (kind == "deterministic")
        allowed = np.full(mdp.space.n_pairs, 10**9)
        argument = (mdp, policy, allowed, 0.37, seed, 300, seed)
        assert compiled(kernel, mdp, policy, allowed.copy(), *argument[3:]) == one_by_one(*argument)


@either
@pytest.mark.parametrize("kind", ["deterministic", "randomised"])
@pytest.mark.parametrize("seed", range(8))
def test_an_episode_stops_when_a_pair_has_had_its_visits(kernel, kind, seed):
    mdp = small(seed, Noise("bernoulli"))
    policy = some_policy(mdp.space, kind, seed)
    allowed = np.random.default_rng(seed).integers(1, 30, size=mdp.space.n_pairs)
    pairs, *_, left, _, _ = found = compiled(kernel, mdp, policy, allowed.copy(), 0.99, 0, 2000, seed)
    assert found == one_by_one(mdp, policy, allowed.copy(), 0.99, 0, 2000, seed)
    visits = np.bincount(pairs, minlength=allowed.size)
    assert len(pairs) < 2000 and np.array_equal(left, allowed - visits)
    assert visits[pairs[-1]] == allowed[pairs[-1]]  # this pair just had its last visit, no other has
    assert np.flatnonzero(visits >= allowed).tolist() == [pairs[-1]]


@pytest.mark.parametrize("kind", ["deterministic", "randomised"])
def test_an_episode_in_parts_is_the_whole_episode(kind):
    mdp = small(1, Noise("uniform", 0.3))
    policy, n = some_policy(mdp.space, kind), 200
    whole = compiled(KERNELS, mdp, policy, np.full(mdp.space.n_pairs, 10**9), 0.5, 2, n, 4)
    world, coin, draws = np.random.default_rng([1, 4]), np.random.default_rng([2, 4]), np.zeros((n, 2))
    allowed, s = np.full(mdp.space.n_pairs, 10**9), 2
    coins = some_coins(policy, coin, 0.5, n)
    pairs, rewards, next_states = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n, dtype=np.int64)
    for part in (slice(0, 1), slice(1, 120), slice(120, n)):
        playing.draw_steps(world, mdp.noise.code, draws[part])
        outputs = (pairs[part], rewards[part], next_states[part])
        length = play(KERNELS, mdp, policy, coins[part.start :], draws[part], allowed, s, *outputs)
        assert length == part.stop - part.start
        s = next_states[part.stop - 1]
    u = coins[n] if coins.size else 0.5
    assert (pairs.tolist(), rewards.tolist(), next_states.tolist(), allowed.tolist(), u) == whole[:5]


@both(playing.play_episode)
@pytest.mark.parametrize("kind", ["deterministic", "randomised"])
@pytest.mark.parametrize("staged", [False, True], ids=["shared", "staged"])
@pytest.mark.parametrize("noise", [Noise(), Noise("uniform", 0.25)], ids=lambda noise: noise.kind)
def test_stages_are_drawn_as_each_table_and_decision_rule_draw_them(kernel, kind, staged, noise):
    horizon = 4
    for seed in range(6):
        p, r, available = oracles.random_mdp("dense", seed, 5, 3)
        tables = [TabularMDP.from_arrays(np.roll(p, h, axis=-1), r, available, noise) for h in range(horizon)]
        mdp = StagedMDP(tables) if staged else tables[0]
        rules = [some_policy(mdp.space, kind, [seed, h]) for h in range(horizon)]
        columns = {"pair": None, "weights": None}
        columns["pair" if kind == "deterministic" else "weights"] = np.array(
            [rule.pair if kind == "deterministic" else rule.weights for rule in rules]
        )
        policy, coins = Policy(mdp.space, **columns), np.random.default_rng([2, seed]).random(horizon)
        world, wanted, s = np.random.default_rng([1, seed]), [], seed % 5
        for h in range(horizon):
            k = rules[h].pair_at(s, coins[h])
            reward, s = mdp.stage(h).draw(world, k)
            wanted.append((k, reward, s))
        draws = np.random.default_rng([1, seed]).random((horizon, 1 if noise.code == 0 else 2))
        rewards = (mdp.r, mdp.r_max, noise.code, noise.scale, 0.0)
        table = (mdp.space.pair_ptr, mdp.next_ptr, mdp.next_state, mdp.p, *rewards)
        played = np.empty(horizon, dtype=np.int64), np.empty(horizon), np.empty(horizon, dtype=np.int64)
        no_limit = np.zeros(0, dtype=np.int64)
        found = kernel(table, *policy.stages(horizon), draws, coins, no_limit, seed % 5, *played)
        assert found == horizon and list(zip(*(column.tolist() for column in played), strict=True)) == wanted


@both(playing.draw_from)
@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    weights=st.lists(st.sampled_from([0.0, 0.1, 1 / 3, 0.5, 1e-17]), min_size=1, max_size=12).filter(any),
    u=st.floats(0, 1, exclude_max=True),
    before=st.integers(0, 2),
)
def test_draw_from_inverts_the_distribution_and_never_draws_what_has_no_weight(kernel, weights, u, before):
    padded = np.array([0.7] * before + weights + [0.9])
    found = kernel(u, padded, before, before + len(weights)) - before
    assert 0 <= found < len(weights) and weights[found] > 0
    below = np.cumsum(weights)
    positive = np.flatnonzero(weights)
    assert found == next((j for j in positive if u < below[j]), positive[-1])


@both(playing.draw_from)
def test_rounding_draws_the_last_that_has_weight(kernel):
    weights = np.array([0.1] * 10 + [0.0])  # sums to 1 - 1e-16
    assert np.cumsum(weights)[-1] < 1
    assert kernel(np.nextafter(1.0, 0.0), weights, 0, 11) == 9
    assert kernel(0.0, np.array([0.0, 1.0]), 0, 2) == 1
    assert kernel(0.5, np.array([0.5, 0.5]), 0, 2) == 1  # the first has [0, 0.5)
