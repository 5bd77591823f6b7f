"""States as bytes: a tree of plain values and arrays, without pickles, that is read back bit for bit or refused.

    surefooted state 1                      a line: what this is, and the version of the format
    3f8a..                                  a line: the SHA-256 of all bytes that follow
    (the rest, compressed by zlib)          the length of the tree as a decimal line, the tree as JSON, the arrays

Values that JSON has stand in the tree as they are. Others are objects with the key "$", which says their kind. An array
is one of these, with its type and shape; its numbers are little-endian, in C order, and follow the tree in the order in
which the arrays occur in it. An object of a class that is marked with `record` stands for its fields, by name; where it
occurs again, its number stands. No other class can be named, and no code is stored. docs/saving.md shows how to read
such bytes with the standard library and NumPy alone.
"""

import hashlib
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from surefooted.errors import InvalidInput, UnreadableFile

VERSION = 1
MAGIC = b"surefooted state "
MOST = 1 << 32  # bytes: nothing larger is unpacked, unless the caller allows it
DEEPEST = 100  # containers inside each other
TYPES = frozenset(("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f4", "<f8"))  # of arrays
LEVEL = 1  # of compression: states are mostly zeros, and a higher level is much slower
KIND = "$"  # the key of values that JSON does not have

T = TypeVar("T", bound=type)
_RECORDS: dict[str, type] = {}  # the classes whose objects a state may hold, by name


def record(kind: T) -> T:
    """Let states hold objects of this class, a dataclass or NamedTuple: the constructor gets its fields by name.

    A constructor that checks its arguments checks what is read. A class of another kind says what is saved with
    `to_record`, a dict, and is built from it with `from_record`. Class and field names are part of the format.
    """
    other = _RECORDS.setdefault(kind.__name__, kind)
    if (other.__module__, other.__qualname__) != (kind.__module__, kind.__qualname__):
        raise InvalidInput("this class cannot be saved", [f"another class is called {kind.__name__}: {other}"])
    _RECORDS[kind.__name__] = kind
    return kind


def encode(state: Any) -> bytes:
    """The bytes of a state: None, numbers, texts, bytes, arrays, records, and lists, tuples and dicts of these.

    `decode` gives an equal state back, bit for bit, in this and every later version. NumPy's scalars become Python's,
    and the numbers of an array become little-endian. Anything else is refused, with its place.

    >>> from surefooted.codec import decode, encode
    >>> decode(encode({"t": 3, "visits": np.arange(2), "played": [(0, 1.5)]}))
    {'t': 3, 'visits': array([0, 1]), 'played': [(0, 1.5)]}
    """
    packed = zlib.compress(payload(state), LEVEL)
    return MAGIC + f"{VERSION}\n{hashlib.sha256(packed).hexdigest()}\n".encode() + packed


def decode(data: bytes, most: int = MOST, shared: Sequence[Any] = ()) -> Any:
    """The state that `encode` turned into these bytes; `UnreadableFile` if they are anything else.

    `most` is the number of bytes that it may take in memory, about. A record that equals one of `shared` is replaced by
    it, so that large tables are in memory once.
    """
    head, _, rest = bytes(data[: len(MAGIC) + 100]).partition(b"\n")
    version = head.removeprefix(MAGIC)
    if not head.startswith(MAGIC) or not version.isdigit() or not rest:
        raise UnreadableFile("this is no state of surefooted")
    if version != str(VERSION).encode():
        told = version.decode()
        raise UnreadableFile(f"this state has the format {told}, and this version reads format {VERSION}: update it")
    at = len(head) + 1 + 64 + 1
    packed = memoryview(data)[at:]
    if rest[:65] != f"{hashlib.sha256(packed).hexdigest()}\n".encode():
        raise UnreadableFile("this state was changed, damaged or cut short after it was saved: its digest is wrong")
    try:
        return _parsed(_unpacked(packed, most), shared)
    except UnreadableFile:
        raise
    except Exception as error:  # its digest is right: whatever was wrong with it, it is no state
        raise UnreadableFile(f"this is no state that was saved by surefooted ({error})") from error


def payload(state: Any) -> bytes:
    """The bytes of a state before compression: the same for the same state, on every machine."""
    writer = _Writer()
    tree = json.dumps(writer.tree(state, "state", 0), allow_nan=False, separators=(",", ":")).encode()
    return b"".join([str(len(tree)).encode(), b"\n", tree, *writer.arrays])


class _Writer:
    """The numbers of the arrays written so far, and the number of each record."""

    def __init__(self) -> None:
        self.arrays: list[bytes] = []
        self.records: dict[int, tuple[int, Any]] = {}  # by identity; the record is kept, so that its identity is

    def tree(self, value: Any, path: str, depth: int) -> Any:
        """What JSON can say of a value."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {KIND: "float", "is": repr(float(value))}
        if depth >= DEEPEST:
            raise InvalidInput("this state cannot be saved", [f"{path}: containers inside each other, {DEEPEST} deep"])
        if isinstance(value, np.ndarray):
            return self.array(value, path)
        if type(value) is bytes:
            return {KIND: "bytes", "is": value.hex()}
        if type(value) in (list, tuple):
            items = [self.tree(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
            return items if type(value) is list else {KIND: "tuple", "is": items}
        if isinstance(value, Mapping):
            if all(type(key) is str and key != KIND for key in value):
                return {key: self.tree(item, f"{path}[{key!r}]", depth + 1) for key, item in value.items()}
            flat = [part for item in value.items() for part in item]
            return {KIND: "dict", "is": [self.tree(part, f"{path}[..]", depth + 1) for part in flat]}
        if _RECORDS.get(type(value).__name__) is type(value):
            return self.record(value, path, depth)
        raise InvalidInput("this state cannot be saved", [f"{path}: a value of type {type(value).__name__}"])

    def array(self, value: Any, path: str) -> Any:
        """The type and shape of an array."""
        kind = value.dtype.newbyteorder("<").str
        if kind not in TYPES:
            raise InvalidInput("this state cannot be saved", [f"{path}: an array of {value.dtype}"])
        self.arrays.append(np.asarray(value, dtype=kind).tobytes())
        return {KIND: "array", "type": kind, "shape": list(value.shape)}

    def record(self, value: Any, path: str, depth: int) -> Any:
        """The fields of a record, or its number if it was written before."""
        if id(value) in self.records:
            return {KIND: "again", "is": self.records[id(value)][0]}
        tree = self.tree(_fields(value), f"{path}.{type(value).__name__}", depth + 1)
        self.records[id(value)] = (len(self.records), value)
        return {KIND: "record", "is": type(value).__name__, "fields": tree}


def _fields(value: Any) -> dict[str, Any]:
    """What the constructor of a record takes."""
    if hasattr(value, "to_record"):
        return dict(value.to_record())
    names = [field.name for field in fields(value) if field.init] if is_dataclass(value) else value._fields
    return {name: getattr(value, name) for name in names}


def _unpacked(packed: memoryview, most: int) -> bytes:
    """The content of a compressed stream, which must end where the bytes do."""
    stream = zlib.decompressobj()
    content = stream.decompress(packed, most)
    if stream.unconsumed_tail or (not stream.eof and stream.decompress(b"", 1)):
        raise UnreadableFile(f"this state is larger than {most} bytes when it is unpacked: allow more if you trust it")
    if not stream.eof or stream.unused_data:
        raise UnreadableFile("this state does not end where it should")
    return content


def _parsed(content: bytes, shared: Sequence[Any]) -> Any:
    """The state of a payload; every byte of it must have a meaning."""
    length, _, _ = content[:30].partition(b"\n")
    first = len(length) + 1
    last = first + int(length)
    tree = json.loads(content[first:last], object_pairs_hook=_object, parse_constant=_no_constant)
    reader = _Reader(content, last, shared)
    state = reader.value(tree, 0)
    if reader.at != len(content):
        raise ValueError("numbers without an array")
    return state


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, in which no key may occur twice."""
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


class _Reader:
    """Reads a tree; the numbers of its arrays begin at byte `at`."""

    def __init__(self, content: bytes, at: int, shared: Sequence[Any]) -> None:
        self.content, self.at, self.shared = content, at, shared
        self.records: list[Any] = []

    def value(self, tree: Any, depth: int) -> Any:
        """The value that a part of the tree stands for."""
        if depth > DEEPEST:
            raise ValueError("too many containers inside each other")
        if isinstance(tree, list):
            return [self.value(item, depth + 1) for item in tree]
        if not isinstance(tree, dict):
            return tree
        if KIND not in tree:
            return {key: self.value(item, depth + 1) for key, item in tree.items()}
        kind, told = tree[KIND], {key: item for key, item in tree.items() if key != KIND}
        if kind == "array" and told.keys() == {"type", "shape"}:
            return self.array(told["type"], told["shape"])
        if kind == "record" and told.keys() == {"is", "fields"}:
            return self.record(told["is"], self.value(told["fields"], depth + 1))
        if kind == "again" and type(told.get("is")) is int and 0 <= told["is"] < len(self.records):
            return self.records[told["is"]]
        if told.keys() == {"is"} and isinstance(given := told["is"], list | str):
            if kind == "float" and given in ("nan", "inf", "-inf"):
                return float(given)
            if kind == "bytes" and isinstance(given, str):
                return bytes.fromhex(given)
            if kind == "tuple" and isinstance(given, list):
                return tuple(self.value(item, depth + 1) for item in given)
            if kind == "dict" and isinstance(given, list):
                return self.mapping([self.value(item, depth + 1) for item in given])
        raise ValueError(f"there is no value {str(tree)[:60]}")

    def array(self, kind: Any, shape: Any) -> Any:
        """The next array."""
        if kind not in TYPES or not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"there is no array of type {kind} and shape {shape}")
        n = math.prod(shape)
        size = n * np.dtype(kind).itemsize
        if len(shape) > 32 or size > len(self.content) - self.at:
            raise ValueError(f"an array of shape {shape} has too few numbers")
        array = np.frombuffer(self.content, dtype=kind, count=n, offset=self.at).reshape(shape)
        self.at += size
        if kind == "|b1" and n and array.view(np.uint8).max() > 1:
            raise ValueError("a truth value is neither 0 nor 1")
        return array.astype(np.dtype(kind).newbyteorder("="))

    def record(self, name: Any, told: Any) -> Any:
        """The object that its fields build."""
        kind = _RECORDS.get(name) if isinstance(name, str) else None
        if kind is None or type(told) is not dict:
            raise ValueError(f"it holds a {name}, which this version does not know")
        value = kind.from_record(told) if hasattr(kind, "from_record") else kind(**told)
        value = next((other for other in self.shared if type(other) is kind and other == value), value)
        self.records.append(value)
        return value

    @staticmethod
    def mapping(flat: list[Any]) -> dict[Any, Any]:
        """A dict with keys that are not texts, given as keys and values in turn."""
        each: Iterator[Any] = iter(flat)
        found = dict(zip(each, each, strict=True))
        if 2 * len(found) != len(flat):
            raise ValueError("a key occurs twice")
        return found
