"""The distinct policies of a run, stored so that a million policies of a hundred thousand states fit into memory."""

import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, overload

import numpy as np

from surefooted.codec import record
from surefooted.errors import InvalidInput
from surefooted.tables.policy import Policy
from surefooted.tables.space import Ints

WHOLE = 1 << 22  # bytes of policies that are stored completely
CHAIN = 100  # consecutive differences before a policy is stored completely again
OPEN = 16  # policies that were made from differences last, and are kept for a while

Key = tuple[bytes, tuple[int, ...], bool]


@record
class PolicyLog(Sequence[Policy]):
    """Distinct policies in the order in which they were first played; `id_of` finds or adds one.

    The first policies are stored completely, until they fill `whole` bytes. After that a deterministic policy is stored
    as its difference from the policy added before it: consecutive policies of a run differ in few states.

    With a `horizon`, the policies have that many decision rules, or one for all stages: that is the same policy as one
    with so many equal rules.
    """

    def __init__(self, policies: Sequence[Policy] = (), whole: int = WHOLE, horizon: int | None = None) -> None:
        self.horizon = horizon
        self._kept: list[Policy | tuple[Ints, Ints]] = []  # complete, or what changed (places, if staged) and its pairs
        self._anchor: list[int] = []  # for each, the last policy up to it that is stored completely
        self._ids: dict[int, list[int]] = {}  # by hash
        self._last: tuple[Policy | None, int] = (None, -1)  # the last policy that was looked up, and its number
        self._open: OrderedDict[int, Policy] = OrderedDict()  # made from differences last
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
        return self._policy(range(len(self))[index])

    def _policy(self, i: int) -> Policy:
        """Policy i; one that is stored as a difference is made, and kept for a while."""
        kept = self._kept[i]
        if isinstance(kept, Policy):
            return kept
        policy = self._open.pop(i, None)
        if policy is None:
            first = next((j for j in range(i - 1, self._anchor[i], -1) if j in self._open), self._anchor[i])
            before: Any = self._open.get(first)  # another thread may have closed it
            if before is None:
                first = self._anchor[i]
                before = self._kept[first]
            policy = self._changed(before, first + 1, i)
        self._open[i] = policy
        if len(self._open) > OPEN:
            self._open.popitem(last=False)
        return policy

    def _changed(self, policy: Any, first: int, last: int) -> Policy:
        """A policy after the differences number `first` to `last`."""
        assert isinstance(policy, Policy) and policy.pair is not None
        pair = policy.pair.copy()
        for change in self._kept[first : last + 1]:
            assert not isinstance(change, Policy)
            np.put(pair, *change)
        return Policy._of_pairs(policy.space, pair)

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
        if policy is self._last[0]:
            return self._last[1]
        key = self._key(policy)
        ids = self._ids.get(_hash(key), ())
        found = next((i for i in ids if self._plays(i, key, policy)), None)
        if found is not None:
            self._last = (policy, found)
        return found

    def id_of(self, policy: Policy) -> int:
        """The number of a policy; a new policy is added."""
        found = self.find(policy)
        if found is None:
            found = len(self)
            self._add(policy)
            self._last = (policy, found)
        return found

    def _key(self, policy: Policy) -> Key:
        """What tells policies of a space apart."""
        data, shape, is_deterministic = policy.key
        if self.horizon is not None and len(shape) == 1:
            data, shape = data * self.horizon, (self.horizon, *shape)
        return data, shape, is_deterministic

    def _plays(self, i: int, key: Key, policy: Policy) -> bool:
        """Whether policy i is this one, which has that key."""
        other = self._policy(i)
        return self._key(other) == key and (policy.space is other.space or policy.space == other.space)

    def _add(self, policy: Policy, kept: Policy | tuple[Ints, Ints] | None = None) -> None:
        """Store a policy that is new, completely or as a difference, as `kept` says; an error changes nothing."""
        n, key = len(self), _hash(self._key(policy))
        kept = self._stored_as(policy) if kept is None else kept
        is_whole = isinstance(kept, Policy)
        room, anchor = (self._room - _array(policy).nbytes, n) if is_whole else (self._room, self._anchor[-1])
        self._kept.append(kept)
        self._anchor.append(anchor)
        self._ids.setdefault(key, []).append(n)
        self._room, self._newest = room, policy

    def _stored_as(self, policy: Policy) -> Policy | tuple[Ints, Ints]:
        """How the next policy is stored: as its difference from the newest one, if that saves memory."""
        before, pair = None if self._newest is None else self._newest.pair, policy.pair
        is_short = bool(self._anchor) and len(self) - self._anchor[-1] < CHAIN
        if pair is None or before is None or before.shape != pair.shape or not is_short or self._room >= pair.nbytes:
            return policy
        places = np.flatnonzero(before != pair)
        return (places, pair.reshape(-1)[places]) if 2 * places.size < pair.size else policy

    @property
    def stored(self) -> list[Policy | tuple[Ints, Ints]]:
        """What is stored: complete policies, or the states that changed since the policy before and their pairs."""
        return self._kept

    def to_record(self) -> dict[str, Any]:
        """What is stored, and how many bytes may be stored completely, as `codec` saves it."""
        complete = (kept for kept in self._kept if isinstance(kept, Policy))
        told = {"stored": list(self._kept), "whole": self._room + sum(_array(policy).nbytes for policy in complete)}
        return told if self.horizon is None else told | {"horizon": self.horizon}

    @classmethod
    def from_record(cls, told: Mapping[str, Any]) -> Self:
        """The log that `to_record` described; every policy is checked."""
        log = cls(whole=int(told["whole"]), horizon=told.get("horizon"))
        for i, kept in enumerate(told["stored"]):
            policy = kept
            if not isinstance(kept, Policy):
                before, (places, pairs) = log._newest, kept
                if before is None or before.pair is None:
                    raise InvalidInput("this is no log of policies", [f"policy {i}: no policy before it"])
                pair = before.pair.copy()
                pair.reshape(-1)[places] = pairs
                policy = Policy(before.space, pair=pair)
            if log.find(policy) is not None:
                raise InvalidInput("this is no log of policies", [f"policy {i}: is there twice"])
            log._add(policy, kept)  # as it was stored: the digest of a state is over that
        return log

    def copy(self) -> "PolicyLog":
        """An independent log of the same policies."""
        return self.first(len(self))

    def first(self, n: int) -> "PolicyLog":
        """An independent log of the first n policies."""
        other = PolicyLog(whole=self._room, horizon=self.horizon)
        other._kept, other._anchor = self._kept[:n], self._anchor[:n]
        other._ids = {key: [i for i in ids if i < n] for key, ids in self._ids.items()}
        other._last = self._last if self._last[1] < n else (None, -1)
        other._newest = self._newest if n >= len(self) else self[n - 1] if n else None
        return other


def _array(policy: Policy) -> Any:
    """The pairs or the weights of a policy."""
    return policy.pair if policy.pair is not None else policy.weights


def _hash(key: Key) -> int:
    """A quick hash that is the same in every process."""
    data, shape, is_deterministic = key
    return zlib.crc32(data, len(shape) + 2 * is_deterministic)
