"""Bytes of states: read back bit for bit, or refused with a sentence; whatever the bytes are, nothing else happens."""

import hashlib
import json
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefooted.codec import DEEPEST, MAGIC, TYPES, decode, encode, payload
from surefooted.errors import InvalidInput, UnreadableFile

STATE = {
    "t": 3,
    "none": None,
    "flags": [True, False, 0, 1],
    "floats": [float("nan"), float("inf"), -float("inf"), -0.0, 5e-324, 1e16, 0.1, 1.7976931348623157e308],
    "visits": np.arange(6).reshape(2, 3),
    "empty": np.zeros((0, 3)),
    "scalar": np.array(2.5),
    "truth": np.array([True, False]),
    "keys": {1: 2, (0, 3): "äöü \ud800", None: b"\x00\xff", "$": {"$": "array"}},
    "big": -(1 << 127),
    "tuple": ((1, [2]), ()),
}


def bits(value):
    """The value with everything spelled out: types, bits of floats, types and bytes of arrays, order of keys."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, dict):
        return ("dict", *((bits(key), bits(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return (type(value).__name__, *map(bits, value))
    if isinstance(value, float):
        return "nan" if value != value else struct.pack("<d", value)
    return (type(value).__name__, value)


def sealed(content):
    """Bytes with a right digest around any payload."""
    return packed_as(zlib.compress(content))


def packed_as(packed):
    return MAGIC + f"1\n{hashlib.sha256(packed).hexdigest()}\n".encode() + packed


def with_tree(tree, numbers=b""):
    text = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
    return sealed(f"{len(text)}\n".encode() + text + numbers)


def test_a_state_comes_back_bit_for_bit():
    assert bits(decode(encode(STATE))) == bits(STATE)


ARRAYS = st.builds(
    lambda kind, shape, data: np.resize(np.frombuffer(data * 8, dtype=kind), shape).copy(),
    st.sampled_from(sorted(TYPES - {"|b1"})),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.binary(min_size=1, max_size=8),
)
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(), max_size=5), st.binary(max_size=5)
)
KEYS = st.one_of(st.text(max_size=3), st.integers(), st.tuples(st.integers(), st.integers()))
TREES = st.recursive(
    PLAIN | ARRAYS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.lists(inner, max_size=4).map(tuple), st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(TREES)
def test_any_tree_comes_back_bit_for_bit(tree):
    assert bits(decode(encode(tree))) == bits(tree)
    assert payload(decode(encode(tree))) == payload(tree)


def test_scalars_and_byte_orders_of_numpy_become_plain():
    got = decode(encode([np.int64(3), np.float64(0.1), np.bool_(True), np.arange(3, dtype=">i4")]))
    assert bits(got[:3]) == bits([3, 0.1, True])
    assert got[3].dtype == np.int32 and got[3].dtype.isnative and got[3].tolist() == [0, 1, 2]


def test_arrays_that_come_back_are_writable_and_their_own():
    got = decode(encode({"a": np.zeros(3), "b": np.ones(3)}))
    got["a"][:] = 7
    assert got["b"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), r"state\['x'\]\[1\]: a value of type object"),
        (np.array([None]), r"state\['x'\]\[1\]: an array of object"),
        (np.array(["a"]), "an array of <U1"),
        (np.array([1j]), "an array of complex128"),
        ({3}, "a value of type set"),
        (len, "a value of type builtin_function_or_method"),
        (1j, "a value of type complex"),
    ],
)
def test_what_cannot_be_saved_is_named_with_its_place(value, words):
    with pytest.raises(InvalidInput, match=words):
        encode({"x": [0, value]})


def test_a_state_inside_itself_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(InvalidInput, match=f"{DEEPEST} deep"):
        encode(loop)


def test_every_flipped_bit_and_every_cut_is_noticed():
    whole = encode(STATE)
    for i in range(len(whole)):
        for bit in range(8):
            with pytest.raises(UnreadableFile):
                decode(whole[:i] + bytes([whole[i] ^ (1 << bit)]) + whole[i + 1 :])
        with pytest.raises(UnreadableFile):
            decode(whole[:i])
    with pytest.raises(UnreadableFile):
        decode(whole + b"\n")


def test_other_bytes_and_later_versions_say_what_they_are():
    for other in (b"", b"PK\x03\x04", MAGIC, MAGIC + b"one\n" + bytes(99), bytes(1000)):
        with pytest.raises(UnreadableFile, match="no state of surefooted"):
            decode(other)
    with pytest.raises(UnreadableFile, match="has the format 2, and this version reads format 1"):
        decode(encode(3).replace(b"state 1\n", b"state 2\n", 1))


def test_a_bomb_is_not_unpacked():
    """100 MB of zeros in 100 KB; unpacked in full, this would be noticed by `tracemalloc` below."""
    import tracemalloc

    bomb = sealed(bytes(10**8))
    tracemalloc.start()
    with pytest.raises(UnreadableFile, match="larger than 1000000 bytes"):
        decode(bomb, most=10**6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(bomb) < 200_000 and peak < 5_000_000
    assert decode(encode(np.zeros(1000)), most=len(payload(np.zeros(1000)))).size == 1000
    with pytest.raises(UnreadableFile, match="larger than"):
        decode(encode(np.zeros(1000)), most=len(payload(np.zeros(1000))) - 1)


ARRAY = {"$": "array", "type": "<i8", "shape": [2]}


@pytest.mark.parametrize(
    "data",
    [
        with_tree(ARRAY, bytes(15)),  # too few numbers
        with_tree(ARRAY, bytes(17)),  # too many
        with_tree(3, bytes(8)),  # numbers of nothing
        with_tree(ARRAY | {"shape": [-2]}, bytes(16)),
        with_tree(ARRAY | {"shape": [1 << 62, 1 << 62]}),
        with_tree(ARRAY | {"shape": [0, 1 << 62]}),
        with_tree(ARRAY | {"shape": [1.0]}, bytes(8)),
        with_tree(ARRAY | {"shape": [True]}, bytes(8)),
        with_tree(ARRAY | {"shape": [1] * 65}, bytes(8)),
        with_tree(ARRAY | {"shape": 2}, bytes(16)),
        with_tree(ARRAY | {"type": "|O"}, bytes(16)),
        with_tree(ARRAY | {"type": "<U2"}, bytes(16)),
        with_tree(ARRAY | {"type": ["<i8"]}, bytes(16)),
        with_tree(ARRAY | {"more": 1}, bytes(16)),
        with_tree({"$": "array", "type": "|b1", "shape": [1]}, b"\x02"),
        with_tree({"$": "object", "is": []}),
        with_tree({"$": "float", "is": "1"}),
        with_tree({"$": "bytes", "is": "0"}),
        with_tree({"$": "dict", "is": [1]}),
        with_tree({"$": "dict", "is": [1, 2, 1, 3]}),
        with_tree({"$": "dict", "is": [[], 2]}),
        with_tree({"$": 3}),
        with_tree(b'{"a":1,"a":2}'),
        with_tree(b"NaN"),
        with_tree(b"Infinity"),
        with_tree(b"[1,2"),
        with_tree(b"\xff"),
        with_tree(b"1" * 5000),
        with_tree(b"[" * 100_000 + b"]" * 100_000),
        with_tree(b"[" * 500 + b"]" * 500),
        sealed(b""),
        sealed(b"\n3"),
        sealed(b"-1\n3"),
        sealed(b"9" * 40),
        sealed(b"10\n3"),
        packed_as(zlib.compress(payload(3)) + b"x"),  # bytes after the stream
        MAGIC + b"1\n" + hashlib.sha256(b"no stream").hexdigest().encode() + b"\nno stream",
    ],
)
def test_content_that_encode_never_writes_is_refused_though_its_digest_is_right(data):
    with pytest.raises(UnreadableFile):
        decode(data)


@given(st.binary(max_size=60), st.binary(max_size=20))
def test_no_payload_does_anything_else(tree, numbers):
    for data in (with_tree(tree, numbers), sealed(tree), tree):
        try:
            decode(data)
        except UnreadableFile:
            pass
