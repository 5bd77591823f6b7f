"""Policies: deterministic or randomised, stationary or one decision rule per stage."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import SUM_TOLERANCE, FrozenArrays, digest, freeze, normalise, real_numbers, whole_numbers
from surefooted.codec import record
from surefooted.errors import InvalidInput, shown
from surefooted.pages import Shown
from surefooted.tables.space import Floats, Ints, Space, need_space

FEW = 12  # states whose actions a notebook shows
NO_PAIRS, NO_WEIGHTS = np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0))


@record
@dataclass(frozen=True, eq=False)
class Policy(FrozenArrays, Shown):
    """Which action to play in each state (and stage).

    Build one with `deterministic`, `randomised`, `always` or `uniform`:

    >>> import surefooted as sf
    >>> space = sf.Space.full(n_states=3, n_actions=2)
    >>> sf.Policy.deterministic(space, [0, 1, 1])
    Policy(deterministic, stationary, n_states=3)
    >>> sf.Policy.randomised(space, [[0.5, 0.5], [0, 1], [1, 0]]).actions  # the likeliest ones
    array([0, 1, 0])

    - `space`: the state–action pairs.
    - `pair`: for a deterministic policy, the pair of each state, [S]; with H decision rules, [H, S].
    - `weights`: for a randomised policy, the probability of each pair in its state, [K]; with H decision rules, [H, K].

    Policies that play the same compare equal and have equal hashes.
    """

    space: Space
    pair: Ints | None = None  # [S] or [H, S]
    weights: Floats | None = None  # [K] or [H, K]

    def __post_init__(self) -> None:
        """Check the policy, replace weights by pairs if no state is randomised, and freeze the arrays."""
        faults: list[str] = []
        if (self.pair is None) == (self.weights is None):
            faults.append("give either a pair for each state or weights over the pairs")
        elif self.pair is not None:
            object.__setattr__(self, "pair", whole_numbers("pair", self.pair, faults))
            faults += [] if faults else _pair_faults(self.space, self.pair)
        elif self.weights is not None:
            object.__setattr__(self, "weights", real_numbers("weights", self.weights, faults) + 0.0)  # no -0.0
            faults += [] if faults else _weight_faults(self.space, self.weights)
        if faults:
            raise InvalidInput("this policy is not valid", faults)
        if self.weights is not None:
            normalise(self.weights, self.space.pair_ptr)
            self._degenerate(self.weights)
        freeze(*(array for array in (self.pair, self.weights) if array is not None))

    def _degenerate(self, weights: Floats) -> None:
        """If only one action of each state has a positive weight, keep that pair instead of the weights."""
        played = weights > 0
        if played.sum() == weights.size // self.space.n_pairs * self.space.n_states:
            object.__setattr__(self, "pair", np.nonzero(played)[-1].reshape(*weights.shape[:-1], -1))
            object.__setattr__(self, "weights", None)

    @classmethod
    def of_pairs(cls, space: Space, pair: ArrayLike) -> Self:
        """The deterministic policy of these pairs, [S] or [H, S]."""
        return cls(space, pair=pair)  # type: ignore[arg-type]

    @classmethod
    def _of_pairs(cls, space: Space, pair: Ints) -> Self:
        """The deterministic policy of pairs [S] or [H, S] that are known to be valid: copied, not checked."""
        policy, pair = object.__new__(cls), pair.copy()
        freeze(pair)
        object.__setattr__(policy, "space", space)
        object.__setattr__(policy, "pair", pair)
        object.__setattr__(policy, "weights", None)
        return policy

    @classmethod
    def deterministic(cls, space: Space, actions: ArrayLike) -> Self:
        """The policy that plays actions[s] in state s, or actions[h, s] at stage h."""
        need_space(space)
        try:
            array = np.asarray(actions)
        except ValueError:
            array = np.zeros(0)  # ragged
        if array.ndim not in (1, 2) or array.shape[-1] != space.n_states or array.dtype.kind not in "iu":
            wanted = f"whole numbers [{space.n_states}] or [H, {space.n_states}]"
            given = f"{array.dtype} {array.shape}" if array.dtype.kind in "iufb" else shown(actions)
            hint = f"Give the number of an action for each of the {space.n_states} states"
            hint += f"; they stand for {_numbered(space.action_names)}." if space.action_names else "."
            raise InvalidInput("this policy is not valid", [f"actions are {given}, not {wanted}"], hint)
        state = np.broadcast_to(np.arange(space.n_states), array.shape)
        span = space.n_actions + 1  # pairs are sorted by (state, action)
        inside = (array >= 0) & (array < space.n_actions)
        keys = space.pair_state * span + space.pair_action
        pair = np.minimum(np.searchsorted(keys, state * span + array), space.n_pairs - 1)
        bad = np.argwhere(~inside | (space.pair_state[pair] != state) | (space.pair_action[pair] != array))
        if bad.size:
            faults = [f"{_place(i)}: action {array[tuple(i)]} is not available" for i in bad]
            raise InvalidInput("this policy is not valid", faults)
        return cls(space, pair=pair)

    @classmethod
    def randomised(cls, space: Space, probabilities: ArrayLike) -> Self:
        """The policy that plays a in s with probabilities[s, a], or [h, s, a] at stage h."""
        need_space(space)
        ragged: list[str] = []
        array = real_numbers("probabilities", probabilities, ragged)
        if ragged:
            raise InvalidInput("this policy is not valid", ragged)
        shape = (space.n_states, space.n_actions)
        if array.ndim not in (2, 3) or array.shape[-2:] != shape:
            fault = f"probabilities have shape {array.shape}, not {shape} or (H, {shape[0]}, {shape[1]})"
            raise InvalidInput("this policy is not valid", [fault])
        outside = np.argwhere(~space.available & (array != 0))
        faults = [
            f"{_place(i[:-1])}: action {i[-1]} has probability {array[tuple(i)]:g} but is not available"
            for i in outside
        ]
        weights = array[..., space.pair_state, space.pair_action]
        if faults:
            raise InvalidInput("this policy is not valid", faults + _weight_faults(space, weights))
        return cls(space, weights=weights)

    @classmethod
    def always(cls, space: Space, action: int) -> Self:
        """The policy that plays one action in every state."""
        need_space(space)
        return cls.deterministic(space, np.full(space.n_states, action))

    @classmethod
    def uniform(cls, space: Space) -> Self:
        """The policy that plays each action of a state with equal probability."""
        need_space(space)
        sizes = np.diff(space.pair_ptr)
        return cls(space, weights=np.repeat(1.0 / sizes, sizes))

    def mixed_with(self, other: "Policy", share: float) -> Self:
        """The policy that follows `other` with probability `share` at each step, and this one otherwise."""
        faults = []
        if other.space != self.space:
            faults.append(f"one is on {self.space}, the other on {other.space}")
        if None not in (self.horizon, other.horizon) and self.horizon != other.horizon:
            faults.append(f"one has {self.horizon} decision rules, the other {other.horizon}")
        if not 0 <= share <= 1:
            faults.append(f"the share {share} is not a probability")
        if faults:
            raise InvalidInput("these policies cannot be mixed", faults)
        return type(self)(self.space, weights=(1 - share) * self.dense_weights + share * other.dense_weights)

    @property
    def key(self) -> tuple[bytes, tuple[int, ...], bool]:
        """A key that equal policies share and other policies of the space do not have."""
        array = self.pair if self.pair is not None else self.weights
        assert array is not None
        return array.tobytes(), array.shape, self.is_deterministic

    @property
    def is_deterministic(self) -> bool:
        """Whether each state (and stage) has one action."""
        return self.pair is not None

    @property
    def horizon(self) -> int | None:
        """The number of decision rules, or None when stationary."""
        array = self.pair if self.pair is not None else self.weights
        assert array is not None
        return array.shape[0] if array.ndim == 2 else None

    @property
    def dense_weights(self) -> Floats:
        """Weights over all pairs, [K] or [H, K], also for a deterministic policy."""
        if self.weights is not None:
            return self.weights
        assert self.pair is not None
        weights = np.zeros((*self.pair.shape[:-1], self.space.n_pairs))
        np.put_along_axis(weights, self.pair, 1.0, axis=-1)
        return weights

    @property
    def actions(self) -> Ints:
        """The action of each state, [S] or [H, S]; for a randomised policy the likeliest action (ties: the first)."""
        if self.pair is not None:
            return self.space.pair_action[self.pair]
        probabilities = self.probabilities
        return np.asarray(np.argmax(probabilities, axis=-1), dtype=np.int64)

    @property
    def probabilities(self) -> Floats:
        """The probability of each action, [S, A] or [H, S, A]."""
        weights = self.dense_weights
        table = np.zeros((*weights.shape[:-1], self.space.n_states, self.space.n_actions))
        table[..., self.space.pair_state, self.space.pair_action] = weights
        return table

    def rule(self, h: int) -> "Policy":
        """The decision rule of stage h (0 is the first) as a stationary policy."""
        if self.horizon is None:
            return self
        if self.pair is not None:
            return Policy(self.space, pair=self.pair[h])
        assert self.weights is not None
        return Policy(self.space, weights=self.weights[h])

    def stages(self, horizon: int) -> tuple[Ints, Floats]:
        """Decision rules as kernels take them: pairs [H, S] or none, weights [H, K] or none; H is 1 when stationary.

        These are writable copies. Kernels are compiled for writable arrays; read-only ones would compile them again.
        """
        if self.horizon not in (None, horizon):
            fault = f"{self.horizon} decision rules for {horizon} stages"
            raise InvalidInput("this policy does not fit the horizon", [fault])
        if self.pair is not None:
            return self.pair.reshape(-1, self.space.n_states).copy(), NO_WEIGHTS
        assert self.weights is not None
        return NO_PAIRS, self.weights.reshape(-1, self.space.n_pairs).copy()

    def draw(self, rng: np.random.Generator, s: int, h: int = 0) -> int:
        """A pair for state s at stage h; only a randomised policy draws a random number."""
        return self.pair_at(s, 0.0 if self.pair is not None else rng.random(), h)

    def pair_at(self, s: int, u: float, h: int = 0) -> int:
        """The pair of state s at stage h that a uniform u in [0, 1) selects, by inversion."""
        stage = () if self.horizon is None else (h,)
        if self.pair is not None:
            return int(self.pair[(*stage, s)])
        assert self.weights is not None
        first, last = self.space.pair_ptr[s], self.space.pair_ptr[s + 1]
        weights = self.weights[(*stage, slice(first, last))]
        j = int(np.searchsorted(np.cumsum(weights), u, side="right"))
        return int(first + min(j, np.flatnonzero(weights)[-1]))  # rounding must not reach a pair of weight 0

    def __eq__(self, other: object) -> bool:
        """Equal when both play the same in every state."""
        if not isinstance(other, Policy) or self.space != other.space:
            return False
        return _same(self.pair, other.pair) and _same(self.weights, other.weights)

    def __hash__(self) -> int:
        """Hash of the contents."""
        array = self.pair if self.pair is not None else self.weights
        assert array is not None
        return digest(hash(self.space), array.shape, array)

    def _facts(self) -> dict[str, object]:
        """What a notebook shows: the likeliest actions of the first states, of the first stage."""
        space, kind = self.space, "deterministic" if self.is_deterministic else "randomised; the likeliest actions"
        facts: dict[str, object] = {"kind": kind, "stages": self.horizon or "the same at all stages"}
        for s, a in enumerate(self.rule(0).actions[:FEW].tolist()):
            facts[f"in {space.state_words(s)}"] = space.action_words(a)
        return facts | ({"and": f"{space.n_states - FEW} more states"} if space.n_states > FEW else {})

    def __repr__(self) -> str:
        """Kind and sizes."""
        kind = "deterministic" if self.is_deterministic else "randomised"
        stages = "stationary" if self.horizon is None else f"horizon={self.horizon}"
        return f"Policy({kind}, {stages}, n_states={self.space.n_states})"


def _numbered(names: tuple[str, ...]) -> str:
    """`0 'wait', 1 'order'`, shortened if there are many."""
    listed = [f"{i} {name!r}" for i, name in enumerate(names[:FEW])]
    return ", ".join(listed) + ", …" * (len(names) > FEW)


def _place(index: ArrayLike) -> str:
    """`state 3`, or `stage 0, state 3`."""
    *stage, s = np.asarray(index).tolist()
    return f"stage {stage[0]}, state {s}" if stage else f"state {s}"


def _same(a: Ints | Floats | None, b: Ints | Floats | None) -> bool:
    """Whether both are absent, or equal."""
    return (a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b))


def _pair_faults(space: Space, pair: Ints | None) -> list[str]:
    """What is wrong with a deterministic policy's pairs."""
    assert pair is not None
    if pair.ndim not in (1, 2) or pair.shape[-1] != space.n_states or pair.size == 0:
        return [f"pair has shape {pair.shape}, not ({space.n_states},) or (H, {space.n_states})"]
    state = np.broadcast_to(np.arange(space.n_states), pair.shape)
    wrong = (pair < space.pair_ptr[state]) | (pair >= space.pair_ptr[state + 1])
    return [f"{_place(i)}: pair {pair[tuple(i)]} belongs to another state" for i in np.argwhere(wrong)]


def _weight_faults(space: Space, weights: Floats | None) -> list[str]:
    """What is wrong with a randomised policy's weights."""
    assert weights is not None
    if weights.ndim not in (1, 2) or weights.shape[-1] != space.n_pairs or weights.size == 0:
        return [f"weights have shape {weights.shape}, not ({space.n_pairs},) or (H, {space.n_pairs})"]
    faults = []
    for i in np.argwhere(~((weights >= 0) & np.isfinite(weights))):
        s, a = space.pair_state[i[-1]], space.pair_action[i[-1]]
        faults.append(f"{_place([*i[:-1], s])}: action {a} has probability {weights[tuple(i)]:g}")
    sums = np.add.reduceat(weights, space.pair_ptr[:-1], axis=-1)
    for i in np.argwhere(~(np.abs(sums - 1) <= SUM_TOLERANCE)):
        faults.append(f"{_place(i)}: the probabilities of its actions sum to {sums[tuple(i)]:.12g}, not 1")
    return faults
