"""The distinct policies of a run, stored so that a million policies of a hundred thousand states fit into memory."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, overload

import numpy as np

from surefooted.codec import record
from surefooted.errors import InvalidInput
from surefooted.tables.policy import Policy
from surefooted.tables.space import Ints

WHOLE = 1 << 26  # bytes of policies that are stored completely
CHAIN = 1_000  # consecutive differences before a policy is stored completely again


@record
class PolicyLog(Sequence[Policy]):
    """Distinct policies in the order in which they were first played; `id_of` finds or adds one.

    The first policies are stored completely, until they fill `whole` bytes. After that a deterministic policy is stored
    as its difference from the policy added before it: consecutive policies of a run differ in few states.
    """

    def __init__(self, policies: Sequence[Policy] = (), whole: int = WHOLE) -> None:
        self._kept: list[Policy | tuple[Ints, Ints]] = []  # complete, or the states that changed and their pairs
        self._anchor: list[int] = []  # for each, the last policy up to it that is stored completely
        self._ids: dict[int, list[int]] = {}  # by hash
        self._last: tuple[Policy | None, int] = (None, -1)  # the last policy that was looked up, and its number
        self._newest: Policy | None = None
        self._room = whole
        for policy in policies:
            self.id_of(policy)

    def __len__(self) -> int:
        """The number of policies."""
        return len(self._kept)

    @overload
    def __getitem__(self, index: int) -> Policy: ...

    @overload
    def __getitem__(self, index: slice) -> list[Policy]: ...

    def __getitem__(self, index: int | slice) -> Policy | list[Policy]:
        """The policy added as number `index`."""
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        i = range(len(self))[index]
        kept = self._kept[i]
        if isinstance(kept, Policy):
            return kept
        anchor = self._kept[self._anchor[i]]
        assert isinstance(anchor, Policy) and anchor.pair is not None
        pair = anchor.pair.copy()
        for change in self._kept[self._anchor[i] + 1 : i + 1]:
            assert not isinstance(change, Policy)
            states, pairs = change
            pair[states] = pairs
        return Policy._of_pairs(anchor.space, pair)

    def __iter__(self) -> Iterator[Policy]:
        """The policies in order."""
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Equal to any sequence of the same policies."""
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def find(self, policy: Policy) -> int | None:
        """The number of a policy, or None if it was not added."""
        if policy is self._last[0] or policy == self._last[0]:
            return self._last[1]
        found = next((i for i in self._ids.get(_hash(policy), ()) if self[i] == policy), None)
        if found is not None:
            self._last = (policy, found)
        return found

    def id_of(self, policy: Policy) -> int:
        """The number of a policy; a new policy is added."""
        found = self.find(policy)
        if found is None:
            found = len(self)
            self._add(policy, self._ids.setdefault(_hash(policy), []))
            self._last = (policy, found)
        return found

    def _add(self, policy: Policy, ids: list[int]) -> None:
        """Store a policy, completely or as a difference, and its number in `ids`; an error changes nothing."""
        newest, n = self._newest, len(self)
        array = _array(policy)
        before, pair = None if newest is None else newest.pair, policy.pair
        is_neighbour = before is not None and pair is not None and before.ndim == pair.ndim == 1
        if self._room < array.nbytes and is_neighbour and n - self._anchor[-1] < CHAIN:
            assert before is not None and pair is not None
            states = np.flatnonzero(before != pair)
            kept: Policy | tuple[Ints, Ints] = (states, pair[states])
            room, anchor = self._room, self._anchor[-1]
        else:
            kept, room, anchor = policy, self._room - array.nbytes, n
        self._kept.append(kept)
        self._anchor.append(anchor)
        ids.append(n)
        self._room, self._newest = room, policy

    @property
    def stored(self) -> list[Policy | tuple[Ints, Ints]]:
        """What is stored: complete policies, or the states that changed since the policy before and their pairs."""
        return self._kept

    def to_record(self) -> dict[str, Any]:
        """What is stored, and how many bytes may be stored completely, as `codec` saves it."""
        complete = (kept for kept in self._kept if isinstance(kept, Policy))
        return {"stored": list(self._kept), "whole": self._room + sum(_array(policy).nbytes for policy in complete)}

    @classmethod
    def from_record(cls, told: Mapping[str, Any]) -> Self:
        """The log that `to_record` described; every policy is checked."""
        log = cls(whole=int(told["whole"]))
        for i, kept in enumerate(told["stored"]):
            policy = kept
            if not isinstance(kept, Policy):
                before, (states, pairs) = log._newest, kept
                if before is None or before.pair is None:
                    raise InvalidInput("this is no log of policies", [f"policy {i}: no policy before it"])
                pair = before.pair.copy()
                pair[states] = pairs
                policy = Policy(before.space, pair=pair)
            if log.id_of(policy) != i:
                raise InvalidInput("this is no log of policies", [f"policy {i}: is there twice"])
        return log

    def copy(self) -> "PolicyLog":
        """An independent log of the same policies."""
        return self.first(len(self))

    def first(self, n: int) -> "PolicyLog":
        """An independent log of the first n policies."""
        other = PolicyLog(whole=self._room)
        other._kept, other._anchor = self._kept[:n], self._anchor[:n]
        other._ids = {key: [i for i in ids if i < n] for key, ids in self._ids.items()}
        other._last = self._last if self._last[1] < n else (None, -1)
        other._newest = self._newest if n >= len(self) else self[n - 1] if n else None
        return other


def _array(policy: Policy) -> Any:
    """The pairs or the weights of a policy."""
    return policy.pair if policy.pair is not None else policy.weights


def _hash(policy: Policy) -> int:
    """A quick hash that is the same in every process; equal policies have equal hashes."""
    data, shape, is_deterministic = policy.key
    return zlib.crc32(data, len(shape) + 2 * is_deterministic)
