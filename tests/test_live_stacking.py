"""States that are stacked are the same to the last bit when they are spread again."""

import numpy as np
import pytest

from surefooted import codec
from surefooted.live.stacking import packed, spread, stacked, unpacked

DTYPES = (np.int64, np.float64, np.bool_)


def state(rng, depth=0):
    """A function that makes states of one kind."""
    kind = rng.integers(0, 4 if depth < 3 else 2)
    if kind == 0:
        dtype, ragged = DTYPES[rng.integers(3)], rng.random() < 0.5
        return lambda: (rng.normal(size=rng.integers(0, 5) if ragged else 3) * 3).astype(dtype)
    if kind == 1:
        values = [0.1, -0.0, float("nan"), float("inf")], [1, 2**70], ["a", None], [True, False], [[], [1, 2]]
        listed = values[rng.integers(len(values))]
        return lambda: listed[rng.integers(len(listed))]
    parts = {name: state(rng, depth + 1) for name in "abc"[: rng.integers(1, 4)]}
    if kind == 2:
        return lambda: {name: make() for name, make in parts.items()}
    return lambda: [make() for make in parts.values()]


@pytest.mark.parametrize("seed", range(40))
def test_spread_is_the_inverse_of_stacked(seed):
    rng = np.random.default_rng(seed)
    make = state(rng)
    states = [make() for _ in range(rng.integers(0, 6))]
    told = codec.decode(codec.encode(stacked(states)))
    assert codec.payload(spread(told, len(states))) == codec.payload(states)


def test_many_accounts_are_few_arrays():
    """What a snapshot holds of accounts does not become longer lists with more of them."""

    def tree(accounts):
        ledgers = [[{"visits": np.arange(3), "now": np.zeros(2), "pairwise": 1.0}] for _ in range(accounts)]
        tracks = [[i, 0, {"columns": {"n": np.zeros(i % 4)}, "width": 1.0}] for i in range(accounts)]
        return {"fleet": {"books": {"own": ledgers}, "t": 1}, "tracks": {"accounts": tracks, "people": []}}

    def arrays(value):
        if isinstance(value, dict | list):
            return sum(arrays(item) for item in (value.values() if isinstance(value, dict) else value))
        return int(isinstance(value, np.ndarray))

    assert arrays(packed(tree(1_000))) == arrays(packed(tree(2))) < 12 < arrays(tree(1_000)) == 3_000
    assert codec.payload(unpacked(packed(tree(7)))) == codec.payload(tree(7))
