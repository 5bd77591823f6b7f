"""Compiled loops of experience: counting what was observed, and playing an episode on the true table."""

import numpy as np
from numpy.typing import NDArray

from surefooted.kernels.compile import allocating, njit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@njit
def count_steps(
    pairs: Ints,
    rewards: Floats,
    next_states: Ints,
    first: int,
    visits: Ints,
    reward_sum: Floats,
    reward_square: Floats,
    row_start: Ints,
    row_length: Ints,
    row_room: Ints,
    pool_state: Ints,
    pool_count: Ints,
    used: Ints,
) -> int:
    """Count the steps from `first` on; returns how many are counted when all are, or when the pool is full.

    Row k is pool_state[row_start[k] : row_start[k] + row_length[k]]. A row that outgrows its room moves to the end of
    the pool with twice the room. `used` [2] is the length of the pool in use, and the entries of all rows.
    """
    for i in range(first, len(pairs)):
        k, y = pairs[i], next_states[i]
        begin, length = row_start[k], row_length[k]
        j = begin
        while j < begin + length and pool_state[j] != y:
            j += 1
        if j == begin + length:
            if length == row_room[k]:
                room = max(2, 2 * length)
                if used[0] + room > len(pool_state):
                    return i
                for m in range(length):
                    pool_state[used[0] + m] = pool_state[begin + m]
                    pool_count[used[0] + m] = pool_count[begin + m]
                row_start[k], row_room[k] = used[0], room
                j = used[0] + length
                used[0] += room
            pool_state[j], pool_count[j] = y, 0
            row_length[k] += 1
            used[1] += 1
        pool_count[j] += 1
        visits[k] += 1
        reward_sum[k] += rewards[i]
        reward_square[k] += rewards[i] * rewards[i]
    return len(pairs)


@njit
def compact_rows(
    row_start: Ints,
    row_length: Ints,
    pool_state: Ints,
    pool_count: Ints,
    next_ptr: Ints,
    next_state: Ints,
    next_count: Ints,
) -> None:
    """The rows one after the other: `next_ptr` [K + 1], `next_state` and `next_count` [nnz]."""
    out = 0
    next_ptr[0] = 0
    for k in range(len(row_start)):
        for j in range(row_start[k], row_start[k] + row_length[k]):
            next_state[out], next_count[out] = pool_state[j], pool_count[j]
            out += 1
        next_ptr[k + 1] = out


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
    """The reward of a step as `Noise` describes it; `draw` is uniform (kinds 1 and 4) or standard normal (2 and 3)."""
    half = min(mean, r_max - mean)
    if noise == 1:
        return r_max if draw * r_max < mean else 0.0
    if noise == 2:
        return mean + scale * mean * draw
    if noise == 3:
        return min(max(mean + min(max(scale * mean * draw, -half), half), 0.0), r_max)
    if noise == 4:
        return min(max(mean + min(scale, half) * (2 * draw - 1), 0.0), r_max)
    return mean


@allocating
def draw_steps(world: np.random.Generator, noise: int, draws: Floats) -> None:
    """`draws` [n, 2]: what picks the next state and the reward of n steps, drawn as `TabularMDP.draw` does."""
    for t in range(len(draws)):
        draws[t, 0] = world.random()
        if noise == 1 or noise == 4:
            draws[t, 1] = world.random()
        elif noise == 2 or noise == 3:
            draws[t, 1] = world.standard_normal()


@njit
def play_episode(
    draws: Floats,
    next_ptr: Ints,
    next_state: Ints,
    p: Floats,
    r: Floats,
    r_max: float,
    noise: int,
    scale: float,
    pair: Ints,
    allowed: Ints,
    s: int,
    pairs: Ints,
    rewards: Floats,
    next_states: Ints,
) -> int:
    """Play `pair` [S] from s until a pair has had its `allowed` [K] visits or the outputs are full; how many steps.

    `draws` [n, 2] are those of `draw_steps`, one for each step; `allowed` is counted down in place.
    """
    for t in range(len(pairs)):
        k = pair[s]
        s = next_state[draw_from(draws[t, 0], p, next_ptr[k], next_ptr[k + 1])]
        pairs[t], rewards[t], next_states[t] = k, noisy_reward(draws[t, 1], r[k], r_max, noise, scale), s
        allowed[k] -= 1
        if allowed[k] <= 0:
            return t + 1
    return len(pairs)


@allocating
def play_randomised(
    draws: Floats,
    coin: np.random.Generator,
    pair_ptr: Ints,
    next_ptr: Ints,
    next_state: Ints,
    p: Floats,
    r: Floats,
    r_max: float,
    noise: int,
    scale: float,
    weights: Floats,
    allowed: Ints,
    u: float,
    s: int,
    pairs: Ints,
    rewards: Floats,
    next_states: Ints,
) -> tuple[int, float]:
    """The same for a randomised policy, `weights` [K]: how many steps, and the u that picks the next action.

    `coin` draws a uniform after each step, which picks the action of the next.
    """
    for t in range(len(pairs)):
        k = draw_from(u, weights, pair_ptr[s], pair_ptr[s + 1])
        s = next_state[draw_from(draws[t, 0], p, next_ptr[k], next_ptr[k + 1])]
        pairs[t], rewards[t], next_states[t] = k, noisy_reward(draws[t, 1], r[k], r_max, noise, scale), s
        allowed[k] -= 1
        u = coin.random()
        if allowed[k] <= 0:
            return t + 1, u
    return len(pairs), u


@njit
def play_stages(
    draws: Floats,
    coins: Floats,
    pair_ptr: Ints,
    next_ptr: Ints,
    next_state: Ints,
    p: Floats,
    r: Floats,
    r_max: float,
    noise: int,
    scale: float,
    stride: int,
    pair: Ints,
    weights: Floats,
    s: int,
    pairs: Ints,
    rewards: Floats,
    next_states: Ints,
) -> None:
    """Play H stages from s; pair k of stage h is row k + h * stride of the true table.

    `draws` [H, 1 or 2] picks the next state and, if there is noise, the reward; `coins` [H] picks the action of a
    randomised policy, which plays `weights` [H, K] when `pair` [H, S] is empty. One decision rule alone serves all
    stages.
    """
    for h in range(len(pairs)):
        if len(pair) > 0:
            k = pair[min(h, len(pair) - 1), s]
        else:
            k = draw_from(coins[h], weights[min(h, len(weights) - 1)], pair_ptr[s], pair_ptr[s + 1])
        row = k + h * stride
        y = next_state[draw_from(draws[h, 0], p, next_ptr[row], next_ptr[row + 1])]
        draw = draws[h, 1] if noise > 0 else 0.0
        pairs[h], rewards[h], next_states[h] = k, noisy_reward(draw, r[row], r_max, noise, scale), y
        s = y
