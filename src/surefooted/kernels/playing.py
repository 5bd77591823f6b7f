"""Playing an episode on the true table, with random numbers that were drawn before."""

import numpy as np

from surefooted.arrays import Floats, Ints
from surefooted.kernels.compile import allocating, njit
from surefooted.kernels.structs import BERNOULLI, GAUSSIAN, NO_NOISE, TRUNCATED_GAUSSIAN, UNIFORM, Fields, World


@njit
def draw_from(u: float, weights: Floats, first: int, last: int) -> int:
    """The index in first .. last - 1 that the uniform u picks by inversion; never one of weight 0."""
    mass, found = 0.0, -1
    for j in range(first, last):
        if weights[j] > 0.0:
            found = j
            mass += weights[j]
            if u < mass:
                break
    return found


@njit
def noisy_reward(draw: float, mean: float, r_max: float, noise: int, scale: float) -> float:
    """The reward of a step as `Noise` describes it; `draw` is uniform, or standard normal for the Gaussian kinds."""
    half = min(mean, r_max - mean)
    if noise == BERNOULLI:
        return r_max if draw * r_max < mean else 0.0
    if noise == GAUSSIAN:
        return mean + scale * mean * draw
    if noise == TRUNCATED_GAUSSIAN:
        return min(max(mean + min(max(scale * mean * draw, -half), half), 0.0), r_max)
    if noise == UNIFORM:
        return min(max(mean + min(scale, half) * (2 * draw - 1), 0.0), r_max)
    return mean


@allocating
def draw_steps(rng: np.random.Generator, noise: int, draws: Floats) -> None:
    """`draws` [n, 2]: what picks the next state and the reward of n steps, drawn as `TabularMDP.draw` does."""
    for t in range(len(draws)):
        draws[t, 0] = rng.random()
        if noise == BERNOULLI or noise == UNIFORM:
            draws[t, 1] = rng.random()
        elif noise == GAUSSIAN or noise == TRUNCATED_GAUSSIAN:
            draws[t, 1] = rng.standard_normal()


@njit
def play_episode(
    world: Fields,
    pair: Ints,
    weights: Floats,
    draws: Floats,
    coins: Floats,
    allowed: Ints,
    s: int,
    pairs: Ints,
    rewards: Floats,
    next_states: Ints,
) -> int:
    """Play a policy from s until a pair has had its `allowed` visits or the outputs are full; how many steps.

    Step t plays pair[t, s]. If `pair` is empty, `coins[t]` picks the action by weights[t]. A single
    decision rule serves all steps. `draws` [n, 1 or 2] picks each step's next state and, if there is noise, its reward.
    `allowed` [K] is counted down in place; if it is empty, there is no such limit.
    """
    world = World(*world)
    n_pairs = world.pair_ptr[len(world.pair_ptr) - 1]
    stride = n_pairs if len(world.r) > n_pairs else 0
    last = max(len(pair), len(weights)) - 1
    for t in range(len(pairs)):
        rule = min(t, last)
        if len(pair) > 0:
            k = pair[rule, s]
        else:
            k = draw_from(coins[t], weights[rule], world.pair_ptr[s], world.pair_ptr[s + 1])
        row = k + t * stride
        s = world.next_state[draw_from(draws[t, 0], world.p, world.next_ptr[row], world.next_ptr[row + 1])]
        draw = draws[t, 1] if world.noise != NO_NOISE else 0.0
        rewards[t] = world.low + noisy_reward(draw, world.r[row], world.r_max, world.noise, world.scale)
        pairs[t], next_states[t] = k, s
        if len(allowed) > 0:
            allowed[k] -= 1
            if allowed[k] <= 0:
                return t + 1
    return len(pairs)
