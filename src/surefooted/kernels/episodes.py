"""Many episodes of an optimist in one call: what Python does between two episodes takes longer than the episodes."""

from typing import NamedTuple

import numpy as np

from surefooted.arrays import Floats, Ints
from surefooted.kernels.compile import allocating, njit
from surefooted.kernels.counting import count_steps
from surefooted.kernels.intervals import Boxes, Sums, fill_rows
from surefooted.kernels.playing import play_episode
from surefooted.kernels.rows import Rows
from surefooted.kernels.sorting import Work, workspace
from surefooted.kernels.stages import plan_stages, row_stride
from surefooted.kernels.structs import Fields, Optimist

MIX, LARGEST = 1_000_003, 2_147_483_647


class Scratch(NamedTuple):
    """Room for one episode; the arrays without entries say that nothing is random and nothing limited."""

    work: Work
    rows: Ints  # [H]: visited
    counted: Floats  # [H]: rewards from `low` on
    no_weights: Floats  # [0, 0]
    no_coins: Floats  # [0]
    unlimited: Ints  # [0]


class Played(NamedTuple):
    """What was played: n episodes of H steps, and the distinct plans of those after the first change of plan.

    Episode i played plans[which[i]], or what was planned before the first of these episodes if `which[i]` is -1.
    """

    pairs: Ints  # [n, H]
    rewards: Floats  # [n, H]
    next_states: Ints  # [n, H]
    plans: Ints  # [m, H, S]
    which: Ints  # [n]
    slots: Ints  # a hash table of plans: their numbers, -1: empty; at least twice as many as plans


@allocating
def scratch(n_states: int, horizon: int) -> Scratch:
    """Room for an episode."""
    rows, counted, nothing = np.empty(horizon, dtype=np.int64), np.empty(horizon), np.empty((0, 0))
    return Scratch(workspace(n_states), rows, counted, nothing, np.empty(0), np.empty(0, dtype=np.int64))


@njit
def number_of(pair: Ints, made: int, plans: Ints, slots: Ints) -> int:
    """The number of a plan among the first `made`; if it is none of them, it becomes number `made`."""
    key = 0
    for h in range(len(pair)):
        for s in range(pair.shape[1]):
            key = (MIX * key + pair[h, s]) & LARGEST  # of 31 bits: no product overflows
    slot = key % len(slots)
    while slots[slot] >= 0:
        found: int = slots[slot]
        is_same = True
        for h in range(len(pair)):
            for s in range(pair.shape[1]):
                is_same &= plans[found, h, s] == pair[h, s]
        if is_same:
            return found
        slot = (slot + 1) % len(slots)
    slots[slot] = made
    for h in range(len(pair)):
        for s in range(pair.shape[1]):
            plans[made, h, s] = pair[h, s]
    return made


@njit
def play_episodes(
    world: Fields, optimist: Fields, room: Scratch, draws: Floats, starts: Ints, played: Fields
) -> tuple[int, int]:
    """Play an episode from each of `starts` [n] until they or the room for plans run out: how many episodes and steps.

    Each episode is planned, played and counted, as a learner does it that is called once for each. Its set must be up
    to date. If the pool of counts is full, the steps that came back are counted, the rest of the last episode is not,
    and nothing more is played. `draws` [n, H, 1 or 2] are those of `play_episode`.
    """
    optimist, played = Optimist(*optimist), Played(*played)
    rows, boxes, sums = Rows(*optimist.rows), Boxes(*optimist.boxes), Sums(*optimist.sums)
    pair_ptr, values, pair = optimist.pair_ptr, optimist.values, optimist.pair
    horizon, stride, made, counted, now = len(pair), row_stride(pair_ptr, boxes.r_upper), 0, 0, -1
    for i in range(len(played.slots)):
        played.slots[i] = -1
    for i in range(len(starts)):
        if i > 0:
            fill_rows(
                optimist.share,
                pair.shape[1],
                optimist.r_max,
                optimist.sums,
                optimist.pool,
                room.rows,
                optimist.seen,
                optimist.boxes,
                optimist.rows,
            )
        if plan_stages(pair_ptr, rows, boxes.r_upper, room.work, values, pair):
            now = number_of(pair, made, played.plans, played.slots)
            made = max(made, now + 1)
        played.which[i] = now
        pairs, rewards, next_states = played.pairs[i], played.rewards[i], played.next_states[i]
        limits = (draws[i], room.no_coins, room.unlimited, starts[i])
        play_episode(world, pair, room.no_weights, *limits, pairs, rewards, next_states)
        for h in range(horizon):
            room.rows[h], room.counted[h] = pairs[h] + h * stride, rewards[h] - optimist.low
        counts = (sums.visits, sums.reward, sums.square, optimist.pool, values.shape[1])
        done = count_steps(room.rows, room.counted, next_states, 0, *counts)
        counted += done
        if done < horizon or made == len(played.plans):
            return i + 1, counted
    return len(starts), counted
