"""Counting what was observed: next states in rows that grow."""

from surefooted.arrays import Floats, Ints
from surefooted.kernels.compile import njit
from surefooted.kernels.structs import Fields, Pool


@njit
def count_steps(
    pairs: Ints,
    rewards: Floats,
    next_states: Ints,
    first: int,
    visits: Ints,
    reward_sum: Floats,
    reward_square: Floats,
    pool: Fields,
    n_states: int,
) -> int:
    """Count the steps from `first` on; returns how many are counted when all are, or when the pool is full.

    A row that outgrows its room moves to the end of the pool with twice the room. If a step has no pair or next state,
    nothing is counted, and -1 - i comes back, where i is the first such step.
    """
    pool = Pool(*pool)
    for i in range(first, len(pairs)):
        if not (0 <= pairs[i] < len(visits) and 0 <= next_states[i] < n_states):
            return -1 - i
    for i in range(first, len(pairs)):
        k, y, reward = pairs[i], next_states[i], rewards[i]
        begin, length = pool.start[k], pool.length[k]
        j = begin
        while j < begin + length and pool.state[j] != y:
            j += 1
        if j == begin + length:
            if length == pool.room[k]:
                end, room = pool.used[0], max(2, 2 * length)
                if end + room > len(pool.state):
                    return i
                for m in range(length):
                    pool.state[end + m], pool.counted[end + m] = pool.state[begin + m], pool.counted[begin + m]
                pool.start[k], pool.room[k] = end, room
                j = end + length
                pool.used[0] += room
            pool.state[j], pool.counted[j] = y, 0
            pool.length[k] += 1
            pool.used[1] += 1
        pool.counted[j] += 1
        visits[k] += 1
        reward_sum[k] += reward
        reward_square[k] += reward * reward
    return len(pairs)


@njit
def compact_rows(pool: Pool, next_ptr: Ints, next_state: Ints, next_count: Ints) -> None:
    """The rows one after the other: `next_ptr` [K + 1], `next_state` and `next_count` [nnz]."""
    out = 0
    next_ptr[0] = 0
    for k in range(len(pool.start)):
        for j in range(pool.start[k], pool.start[k] + pool.length[k]):
            next_state[out], next_count[out] = pool.state[j], pool.counted[j]
            out += 1
        next_ptr[k + 1] = out
