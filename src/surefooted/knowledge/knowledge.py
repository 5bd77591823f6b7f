"""What is known of an MDP before it is played, and the smaller set of plausible MDPs that it makes of the same data.

    known = Knowledge(space, rewards=r, successors=lambda s, a: [...])
    known.plausible(confidence.likelihood, counts, 0.05)

It is one more way to make a `Plausible`: whoever plans with sets need not know of it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import freeze, real_numbers
from surefooted.data.counts import REWARD_ROUNDING, Counts
from surefooted.errors import InvalidInput
from surefooted.kernels import knowledge
from surefooted.kernels.intervals import LIKELIHOOD, SIMPLIFIED
from surefooted.knowledge import declared as declarations
from surefooted.knowledge.mechanics import Mechanics, NoiseCounts
from surefooted.problems.problem import Problem
from surefooted.sets.confidence import KINDS, Confidence
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Bools, Floats, Ints, Space

TESTS = 0.05  # the largest share of δ that goes to comparing known rewards with the data

PairValues = ArrayLike | Callable[[int, int], float]
Bounds = tuple[ArrayLike, ArrayLike] | Callable[[int, int], tuple[float, float]]
Successors = (
    Callable[[int, int], Iterable[int] | None]
    | Mapping[tuple[int, int], Iterable[int]]
    | Sequence[Iterable[int] | None]
    | ArrayLike
)
NextValues = ArrayLike | Callable[[int, int, int], float]

PARTS = ("rewards", "successors", "mechanics", "noise")


class Knowledge:
    """What is known of an MDP before it is played; everything is optional.

    - `rewards`: the mean reward of each pair, [S, A], [K] or a function of (s, a).
    - `reward_bounds`: (low, high), between which every observed reward of the pair lies; each a number, [S, A] or [K],
      or a function of (s, a) that returns both. They may leave [0, r_max] if the counts are unbounded; means do not.
    - `reward_function`: the mean reward r(s, a, s') when the step leads to s', [S, A, S], [K, S] or a function. Only
      its mean over s' is used: a drawn reward need not depend on where the step leads.
    - `successors`: the possible next states of each pair: a function of (s, a), a mapping from (s, a), a list of K of
      them, or a boolean array [S, A, S] or [K, S]. A pair for which it says None may lead anywhere.
    - `mechanics`: a known function of state, action and noise whose law is shared by the pairs.

    `plausible` makes the set, `contradictions` names steps that cannot be, `conflicts` what no longer fits together.
    """

    def __init__(
        self,
        space: Space,
        *,
        rewards: PairValues | None = None,
        reward_bounds: Bounds | None = None,
        reward_function: NextValues | None = None,
        successors: Successors | None = None,
        mechanics: Mechanics | None = None,
    ) -> None:
        self.space, self.mechanics = space, mechanics
        faults = declarations.exclusions(space, rewards, reward_function, successors, mechanics)
        K = space.n_pairs
        self.reward_mean: Floats | None = None  # [K]
        if rewards is not None:
            self.reward_mean = declarations.pair_values("rewards", rewards, space, faults)
        self.reward_range: tuple[Floats, Floats] | None = None  # [K], [K]
        if reward_bounds is not None:
            self.reward_range = declarations.bounds(reward_bounds, space, faults)
        self._check_rewards(faults)
        if mechanics is not None:
            declared = np.ones(K, dtype=bool)
            own_ptr, own_state = np.zeros(K + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)
        else:
            everything = reward_function is not None
            declared, own_ptr, own_state = declarations.successors(successors, space, everything, faults)
        self.declared: Bools = declared  # [K]: of which pairs the successors are known
        self.successor_ptr: Ints = own_ptr  # [K + 1]
        self.successor_state: Ints = own_state  # [nnz], increasing within a pair
        self.reward_of_next: Floats | None = None  # [nnz]
        if reward_function is not None and not faults:
            self.reward_of_next = self._next_values(reward_function, faults)
        if faults:
            raise InvalidInput("this knowledge is not valid", faults)
        self._prepare()

    @classmethod
    def of(cls, problem: Problem, *parts: str) -> Self:
        """What is true of a problem: "rewards", "successors", "mechanics", or several of them, read off its table.

        Mechanics imply the successors; their own rewards are left out where "rewards" says the means. With "noise" the
        noise of the mechanics is told with each step.
        """
        faults = [f"there is no part {part!r}; the parts are {', '.join(PARTS)}" for part in parts if part not in PARTS]
        if "mechanics" in parts and problem.mechanics is None:
            faults.append(f"problem {problem.name!r} has no mechanics")
        if "noise" in parts and "mechanics" not in parts:
            faults.append("'noise' is that of mechanics: name them too")
        if faults:
            raise InvalidInput("no such knowledge", faults)
        mdp, mechanics = problem.mdp, problem.mechanics if "mechanics" in parts else None
        if mechanics is not None and "rewards" in parts:
            mechanics = mechanics.without_rewards()
        if mechanics is not None and "noise" in parts:
            mechanics = replace(mechanics, observed=True)
        successors = None
        if "successors" in parts and mechanics is None:
            successors = np.split(mdp.next_state, mdp.next_ptr[1:-1])
        return cls(mdp.space, rewards=mdp.r if "rewards" in parts else None, successors=successors, mechanics=mechanics)

    def plausible(
        self, confidence: Confidence, counts: Counts, delta: float, noise: NoiseCounts | None = None
    ) -> Plausible:
        """The MDPs that neither the data nor what is known exclude; `noise` if the mechanics observe it.

        If what was declared is true, M* is in every set, whenever it is asked for, with probability at least 1 - delta
        (not with `simplified_bernstein`, whose intervals are not valid). The intervals are those of `confidence`, with
        the number of them counted: J intervals, each with δ / J.

        *Successors.* Each of the |S_k| declared successors of a pair has an interval, seen or not, and nothing else is
        possible. One alone is certain and has none; of two, each is what the other leaves, and one interval holds both.
        Pairs without declared successors have S, as in `confidence`.

        *Shared noise.* Let E be a set of values of law l. Whether component c of pair k decides E depends on the pair
        alone, which is chosen before ξ is drawn. So the steps at which a deciding component is drawn are a predictable
        choice, and the indicators of ξ_c ∈ E at these steps are, given the past, Bernoulli(q_l(E)), however the pairs
        were chosen; components of one step that share a law are independent, and count one after the other. Hence they
        are an i.i.d. sequence, and its interval holds at all times at once. A step of a pair that does not decide E is
        left out, whatever it led to: to count it when the successor happens to tell would favour what it tells. E and
        its complement are decided by the same steps and share an interval; an event that no pair decides has none.
        What logic adds (disjoint events, complements) holds whenever the intervals do, and costs nothing. A row's
        bounds are products of the bounds of independent events, summed where a cell is no product, all increasing in
        each factor: so they hold for the true laws, whatever else the laws have to satisfy. A set that chooses each row
        by itself within these bounds is larger than the set of rows of one common law. Where the
        cells of a pair are no grid of products, each has an interval of its own, too: as an event of the joint noise,
        decided by all pairs with the same laws whose cells lie in it or outside it.

        *Rewards.* A known range [low, high] takes the place of [0, r_max]. The mean of r(s, a, s') lies between the
        least and the largest that a row within the bounds gives, and that of r(s, a, ξ) likewise over the level sets of
        r. Planning chooses the row a second time, for what follows: that only enlarges the set. Known means and
        functions are compared with the interval of the data, which a function's is cut to. This has 5 % of δ for all
        pairs together, or less if less is as much as the other intervals have. With `simplified_bernstein` the
        interval is that of `likelihood`, and functions are not compared. Nothing is where no interval is valid: for
        rewards that may leave [0, r_max] unless their range was declared.

        Where the data contradict what was declared, a pair may lead anywhere and earn anything: see `conflicts`.
        """
        return self.read(confidence, counts, delta, noise)[0]

    def conflicts(
        self, confidence: Confidence, counts: Counts, delta: float, noise: NoiseCounts | None = None
    ) -> list[str]:
        """One sentence for each pair or law at which data and declaration do not meet; nothing if all is well.

        If what was declared is true, there are none at any time with probability at least 1 - delta, on the event of
        `plausible`. The intervals of `simplified_bernstein` prove nothing: with them only impossible steps count, and
        means that are wrong by the intervals of `likelihood`.
        """
        return self.read(confidence, counts, delta, noise)[1]

    def using(self, confidence: Confidence, noise: NoiseCounts | None = None) -> "Informed":
        """The same as a confidence set of its own: a function of (counts, delta) that agents take."""
        self._kind(confidence)
        return Informed(self, confidence, noise)

    def _tests(self, kind: int, counts: Counts) -> bool:
        """Whether known rewards are compared with those observed, which must have bounds.

        A function's also need intervals of transitions that are valid.
        """
        if not counts.bounded and self.reward_range is None:
            return False
        return self._known == knowledge.MEAN or (self._known == knowledge.FUNCTION and kind != SIMPLIFIED)

    def read(
        self, confidence: Confidence, counts: Counts, delta: float, noise: NoiseCounts | None = None
    ) -> tuple[Plausible, list[str]]:
        """The set of `plausible` and the sentences of `conflicts`."""
        kind = self._kind(confidence)
        self._check_counts(counts, delta, noise)
        space, M = self.space, counts.n_rows
        means = counts.stages * self._uncertain
        estimated = means * (2 if kind == LIKELIHOOD else 1) if self._known == knowledge.ESTIMATED else 0
        test = LIKELIHOOD if kind == SIMPLIFIED else kind  # by an interval that is valid
        tests = means * (2 if test == LIKELIHOOD else 1) if self._tests(kind, counts) else 0
        intervals = self.n_row_intervals * (1 if self.mechanics is not None else counts.stages) + estimated
        apart = min(TESTS, tests / (intervals + tests)) if tests else 0.0
        main, test_delta = delta * (1 - apart if kind != SIMPLIFIED else 1), delta * apart
        share = (kind, max(intervals, 1), main)
        simple = space.n_states * space.n_actions * counts.stages
        fault = np.zeros(M, dtype=np.int64)
        crossed = np.zeros(0, dtype=bool)
        if self.mechanics is None:
            rows = self._declared_rows(share, simple, counts, fault)
            low, high, stride = rows[2], rows[3], rows[2].size // counts.stages
        else:
            rows, low, high, crossed = self._mechanical_rows(share, simple, counts, noise, fault)
            stride = 0
        r_lower, r_upper = np.empty(M), np.empty(M)
        knowledge.fill_rewards(
            test if tests else kind,
            *share[1:],
            tests,
            test_delta,
            simple,
            space.r_max,
            counts.visits,
            counts.reward_sum,
            counts.reward_square,
            self._known,
            self.reward_range is not None,
            *self._range,
            self._mean,
            self._reward_ptr,
            self._reward_block,
            self._reward_value,
            stride,
            low,
            high,
            REWARD_ROUNDING * space.r_max,
            fault,
            r_lower,
            r_upper,
        )
        plausible = Plausible(space, r_lower, r_upper, *rows, stages=counts.stages)
        if kind == SIMPLIFIED:  # its intervals prove nothing, so that they contradict nothing either
            hard = knowledge.OUTSIDE | (knowledge.REWARD if self._known != knowledge.FUNCTION else 0)
            fault, crossed = fault & hard, np.zeros_like(crossed)
        return plausible, self._sentences(counts, fault, crossed) if fault.any() or crossed.any() else []

    @property
    def n_row_intervals(self) -> int:
        """How many intervals rows need: events of the noise, or successors (of one stage), whatever the kind."""
        return self._row_intervals

    def first_contradiction(self, pairs: Ints, rewards: Floats, next_states: Ints) -> int:
        """The first of these steps that cannot be if what was declared is true; -1 if there is none.

        `pairs` are rows of the counts: pair k of stage h may be h K + k.
        """
        bad = self._impossible(*self._steps(pairs, rewards, next_states))
        found = np.flatnonzero(bad[0] | bad[1])
        return int(found[0]) if found.size else -1

    def contradictions(self, pairs: Ints, rewards: Floats, next_states: Ints) -> list[str]:
        """One sentence for each of these steps that leads or earns what was declared impossible."""
        k, earned, after = self._steps(pairs, rewards, next_states)
        lost, unpaid = self._impossible(k, earned, after)
        faults = []
        why = "no noise leads there" if self.mechanics is not None else "not one of its successors"
        for i in np.flatnonzero(lost | unpaid):
            if lost[i]:
                faults.append(f"step {i}: {self._at(k[i])}: led to state {after[i]}: {why}")
            if unpaid[i]:
                low, high = (end[k[i]] for end in self._range)
                faults.append(f"step {i}: {self._at(k[i])}: reward {earned[i]:g} is outside [{low:g}, {high:g}]")
        return faults

    def __repr__(self) -> str:
        """Which parts there are."""
        parts = {
            "rewards": self.reward_mean is not None,
            "reward_bounds": self.reward_range is not None,
            "reward_function": self.reward_of_next is not None,
            "successors": self.mechanics is None and bool(self.declared.any()),
            "mechanics": self.mechanics is not None,
        }
        return f"Knowledge({self.space}, {', '.join(name for name, there in parts.items() if there) or 'nothing'})"

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what is remembered between calls."""
        return self.__dict__ | {"_last": None, "_tiled": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes and freeze those that are public."""
        self.__dict__.update(state)
        self._freeze()

    def _freeze(self) -> None:
        """Make what was declared read-only; the kernels have arrays of their own."""
        parts = (self.reward_mean, self.reward_of_next, *(self.reward_range or ()))
        freeze(self.declared, self.successor_ptr, self.successor_state, *(part for part in parts if part is not None))

    def _prepare(self) -> None:
        """What every call needs."""
        space, K = self.space, self.space.n_pairs
        whole = (np.zeros(K), np.full(K, space.r_max))
        low, high = whole if self.reward_range is None else self.reward_range
        self._range = (low.copy(), high.copy())
        self._mean = np.zeros(K) if self.reward_mean is None else self.reward_mean.copy()
        self._uncertain = int(np.sum(self._range[0] < self._range[1]))
        self._known = knowledge.ESTIMATED
        self._reward_ptr = np.zeros(K + 1, dtype=np.int64)
        self._reward_block, self._reward_value = np.zeros(0, dtype=np.int64), np.zeros(0)
        if self.reward_mean is not None:
            self._known = knowledge.MEAN
        elif self.reward_of_next is not None:
            pair = np.repeat(np.arange(K), np.diff(self.successor_ptr))
            order = np.lexsort((self.reward_of_next, pair))
            self._known = knowledge.FUNCTION
            self._reward_ptr, self._reward_block = self.successor_ptr.copy(), order.astype(np.int64)
            self._reward_value = self.reward_of_next[order]
        if self.mechanics is not None:
            structure = self.mechanics.structure
            self._row_intervals = structure.n_intervals
            if self.mechanics.reward is not None:
                self._known = knowledge.FUNCTION
                self._reward_ptr, self._reward_block = structure.reward_ptr, structure.reward_block
                self._reward_value = structure.reward_value
        else:
            sizes = np.where(self.declared, np.diff(self.successor_ptr), space.n_states)
            needed = np.where(self.declared & (sizes <= 2), sizes - 1, sizes)
            self._row_intervals = int(needed.sum())
        self._rows = (self.declared.copy(), self.successor_ptr.copy(), self.successor_state.copy())
        keys = np.zeros(0, dtype=np.int64)
        if self.mechanics is not None:
            keys = declarations.keys(structure.next_ptr, structure.next_state, space.n_states)
        elif self.declared.any():
            keys = declarations.keys(self.successor_ptr, self.successor_state, space.n_states)
        self._keys = keys  # k S + y of every possible step, increasing
        self._tiled: dict[int, tuple[Ints, Ints]] = {}
        self._last: _Rows | None = None
        self._freeze()

    def _declared_rows(
        self, share: tuple[int, int, float], simple: int, counts: Counts, fault: Ints
    ) -> tuple[Ints, Ints, Floats, Floats, Floats]:
        """next_ptr, next_state, p_lower, p_upper and unseen of all rows, from declared successors or those seen.

        Rows of the same counts that have had no visit since they were last asked for are not made anew.
        """
        ptr, state, count = counts.rows()
        declared, own_ptr, own_state = self._rows
        own = (declared, own_ptr, own_state)
        where = np.full(self.space.n_states, -1, dtype=np.int64)
        counted = (counts.visits, ptr, state, count)
        if declared.all():
            next_ptr = self._tile(own_ptr, own_state, counts.stages)[0]
        else:
            lengths = np.where(np.tile(declared, counts.stages), np.tile(np.diff(own_ptr), counts.stages), np.diff(ptr))
            next_ptr = np.concatenate([[0], np.cumsum(lengths)])
        last = self._last
        if last is None or last.visits is not counts.visits or last.share != share:
            last = _Rows.empty(next_ptr)
        elif last.next_ptr is next_ptr or np.array_equal(last.next_ptr, next_ptr):
            last = last.copy()
        else:  # some row has a successor that is new
            last = _Rows.empty(next_ptr)
        bounds = (last.low, last.high, last.unseen)
        knowledge.fill_declared(
            *share, simple, *counted, *own, next_ptr, last.seen, where, last.next_state, *bounds, last.fault
        )
        self._last = last.copy(counts.visits, share)
        fault |= last.fault
        return next_ptr, last.next_state, last.low, last.high, last.unseen

    def _mechanical_rows(
        self, share: tuple[int, int, float], simple: int, counts: Counts, noise: NoiseCounts | None, fault: Ints
    ) -> tuple[tuple[Ints, Ints, Floats, Floats, Floats], Floats, Floats, Bools]:
        """The rows, the bounds of all blocks, and the laws that nothing fits."""
        assert self.mechanics is not None
        structure, K = self.mechanics.structure, self.space.n_pairs
        drawn = np.zeros(structure.n_partitions, dtype=np.int64)
        classes, own_fault = np.zeros(structure.n_classes, dtype=np.int64), np.zeros(K, dtype=np.int64)
        where = np.full(self.space.n_states, -1, dtype=np.int64)
        knowledge.count_classes(
            counts.stages,
            *counts.rows(),
            structure.next_ptr,
            structure.next_state,
            structure.draw_ptr,
            structure.draw_partition,
            structure.class_ptr,
            structure.cell_class,
            where,
            drawn,
            classes,
            own_fault,
        )
        if noise is not None:
            classes[:] = np.concatenate(noise.values)
            drawn[:] = [values.sum() for values in noise.values]
        events, size = structure.event_law.size, structure.joint.size
        lower, upper, low, high = np.empty(events), np.empty(events), np.empty(size), np.empty(size)
        crossed = np.zeros(structure.row_laws.shape[1], dtype=bool)
        knowledge.bound_events(
            *share,
            simple,
            drawn,
            classes,
            structure.event_law,
            structure.complement,
            structure.interval,
            structure.flipped,
            structure.decides_ptr,
            structure.decides,
            structure.inside_ptr,
            structure.inside,
            structure.family_ptr,
            structure.member_ptr,
            structure.member,
            structure.covers,
            structure.whole_ptr,
            structure.whole_member_ptr,
            structure.whole_member,
            lower,
            upper,
            crossed,
        )
        if own_fault.any():  # a step that no noise explains: whatever its laws have taught is in doubt
            doubtful = structure.row_laws[own_fault > 0].any(axis=0)
            own_fault[structure.row_laws[:, doubtful].any(axis=1)] |= knowledge.DOUBT
        if crossed.any():
            own_fault[structure.row_laws[:, crossed].any(axis=1)] |= knowledge.DOUBT
        knowledge.bound_blocks(
            lower, upper, structure.term_ptr, structure.factor_ptr, structure.factor, structure.joint, low, high
        )
        unseen = np.empty(K)
        knowledge.close_rows(structure.next_ptr, low, high, unseen, own_fault)
        H, nnz = counts.stages, structure.next_state.size
        fault[:] = own_fault if H == 1 else np.tile(own_fault, H)
        if H == 1:
            return (structure.next_ptr, structure.next_state, low[:nnz], high[:nnz], unseen), low, high, crossed
        next_ptr, next_state = self._tile(structure.next_ptr, structure.next_state, H)
        rows = (next_ptr, next_state, np.tile(low[:nnz], H), np.tile(high[:nnz], H), np.tile(unseen, H))
        return rows, low, high, crossed

    def _tile(self, ptr: Ints, state: Ints, stages: int) -> tuple[Ints, Ints]:
        """The successors of all stages, one after the other; remembered."""
        if stages not in self._tiled:
            lengths = np.tile(np.diff(ptr), stages)
            self._tiled[stages] = (np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), np.tile(state, stages))
        return self._tiled[stages]

    def _kind(self, confidence: Confidence) -> int:
        """The kind of interval of a confidence set."""
        if confidence not in KINDS:
            name = getattr(confidence, "__name__", repr(confidence))
            names = ", ".join(function.__name__ for function in KINDS)
            raise InvalidInput(
                "no such set", [f"knowledge narrows intervals, and {name} is not made of them; {names} are"]
            )
        return KINDS[confidence]

    def _check_counts(self, counts: Counts, delta: float, noise: NoiseCounts | None) -> None:
        """Raise if these counts are of another space, or noise is missing or not expected."""
        faults = []
        if not 0 < delta < 1:
            faults.append(f"delta {delta} must lie strictly between 0 and 1")
        if counts.space is not self.space and counts.space != self.space:
            faults.append(f"knowledge of {self.space}, counts of {counts.space}")
        observed = self.mechanics is not None and self.mechanics.observed
        if observed and noise is None:
            faults.append("the mechanics observe their noise, and no NoiseCounts are given")
        if noise is not None and not observed:
            faults.append("NoiseCounts are given, and there are no mechanics that observe their noise")
        if noise is not None and self.mechanics is not None and noise.mechanics.sizes != self.mechanics.sizes:
            faults.append(f"noise of laws of sizes {noise.mechanics.sizes}, mechanics of {self.mechanics.sizes}")
        if faults:
            raise InvalidInput("no such confidence", faults)

    def _check_rewards(self, faults: list[str]) -> None:
        """Add what is wrong with known means and ranges."""
        top, mean = self.space.r_max, self.reward_mean
        slack = REWARD_ROUNDING * top
        if mean is not None and mean.size:
            for k in np.flatnonzero(~((mean >= -slack) & (mean <= top + slack))):
                faults.append(f"{self._at(k)}: mean reward {mean[k]:g} is outside [0, {top:g}]")
            np.clip(mean, 0.0, top, out=mean)
        if self.reward_range is None or self.reward_range[0].size == 0:
            return
        low, high = self.reward_range
        for i in range(low.size):
            shown = f"{self._at(i)}: reward bounds [{low[i]:g}, {high[i]:g}]"
            if not (np.isfinite(low[i]) and np.isfinite(high[i])):
                faults.append(f"{shown} are not finite")
            elif low[i] > high[i]:
                faults.append(f"{shown} are the wrong way round")
            elif low[i] > top or high[i] < 0:
                faults.append(f"{shown} lie outside [0, {top:g}]")
            elif mean is not None and mean.size and not low[i] - slack <= mean[i] <= high[i] + slack:
                faults.append(f"{shown} exclude the mean reward {mean[i]:g}")

    def _next_values(self, given: NextValues, faults: list[str]) -> Floats:
        """r(s, a, s') of every possible step, [nnz]."""
        space = self.space
        pair = np.repeat(np.arange(space.n_pairs), np.diff(self.successor_ptr))
        s, a, y = space.pair_state[pair], space.pair_action[pair], self.successor_state
        if callable(given):
            steps = zip(s.tolist(), a.tolist(), y.tolist(), strict=True)
            values = real_numbers("reward_function", [given(*step) for step in steps], faults)
        else:
            table = real_numbers("reward_function", given, faults)
            shapes = (space.n_states, space.n_actions, space.n_states), (space.n_pairs, space.n_states)
            if not faults and table.shape not in shapes:
                faults.append(f"reward_function has shape {table.shape}; it must be {shapes[0]} or {shapes[1]}")
            if faults:
                return np.zeros(0)
            values = table[s, a, y] if table.ndim == 3 else table[pair, y]
        for i in np.flatnonzero(~np.isfinite(values)) if not faults else ():
            faults.append(f"{self._at(pair[i])}, next state {y[i]}: reward {values[i]} is not finite")
        return values

    def _steps(self, pairs: Ints, rewards: Floats, next_states: Ints) -> tuple[Ints, Floats, Ints]:
        """The steps by pair, if they are columns of one length and of this space."""
        k, earned, after = np.asarray(pairs), np.asarray(rewards), np.asarray(next_states)
        if not (k.shape == earned.shape == after.shape and k.ndim == 1):
            raise InvalidInput("no such steps", [f"{k.shape} pairs, {earned.shape} rewards, {after.shape} next states"])
        if np.any(k < 0) or np.any((after < 0) | (after >= self.space.n_states)):
            raise InvalidInput("no such steps", ["some pair or next state does not exist"])
        return k % self.space.n_pairs, earned, after

    def _impossible(self, k: Ints, earned: Floats, after: Ints) -> tuple[Bools, Bools]:
        """Which steps lead where they cannot, and which earn what they cannot."""
        unpaid = np.zeros(k.shape, dtype=bool)
        if self.reward_range is not None:
            low, high = self.reward_range
            slack = REWARD_ROUNDING * self.space.r_max
            unpaid = ~((earned >= low[k] - slack) & (earned <= high[k] + slack))
        return self._lost(k, after), unpaid

    def _lost(self, k: Ints, after: Ints) -> Bools:
        """Which steps lead where they cannot."""
        if self._keys.size == 0:
            return np.zeros(k.shape, dtype=bool)
        key = k * self.space.n_states + after
        at = np.minimum(np.searchsorted(self._keys, key), self._keys.size - 1)
        lost: Bools = (self._keys[at] != key) & self.declared[k]
        return lost

    def _sentences(self, counts: Counts, fault: Ints, crossed: Bools) -> list[str]:
        """What the faults of rows and laws mean."""
        found = []
        n_laws = len(self.mechanics.sizes) if self.mechanics is not None else 0
        for i in np.flatnonzero(crossed):
            of = f"law {i}" if i < n_laws else "the joint law of some components"
            found.append(f"{of}: no law fits what was counted of its events")
        ptr, state, count = counts.rows()
        for m in np.flatnonzero(fault).tolist():
            h, k = divmod(m, self.space.n_pairs)
            at = f"stage {h}, {self._at(k)}" if counts.stages > 1 else self._at(k)
            if fault[m] & knowledge.OUTSIDE:
                row = slice(ptr[m], ptr[m + 1])
                lost = self._lost(np.full(row.stop - row.start, k), state[row])
                shown = ", ".join(f"{y} ({n} times)" for y, n in zip(state[row][lost], count[row][lost], strict=True))
                found += [f"{at}: led to state {shown}, which was declared impossible"] if shown else []
            if fault[m] & knowledge.EMPTY:
                found.append(f"{at}: no row fits what was counted and declared")
            if fault[m] & knowledge.REWARD:
                n = int(counts.visits[m])
                mean = f"{n} rewards with mean {counts.reward_sum[m] / max(n, 1):g}"
                found.append(f"{at}: {mean} do not fit what was declared of them")
        return found

    def _at(self, k: Any) -> str:
        return f"state {self.space.pair_state[k]}, action {self.space.pair_action[k]}"


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows that were last made, of which counts and with which share of δ."""

    next_ptr: Ints
    next_state: Ints
    low: Floats
    high: Floats
    unseen: Floats
    fault: Ints
    seen: Ints  # visits of each row when it was made, -1 if it never was
    visits: Ints | None = None  # the array itself that has gone on counting
    share: tuple[int, int, float] | None = None

    @classmethod
    def empty(cls, next_ptr: Ints) -> "_Rows":
        """Room for rows that are all to be made."""
        n, size = next_ptr.size - 1, int(next_ptr[-1])
        fault, seen = np.zeros(n, dtype=np.int64), np.full(n, -1, dtype=np.int64)
        bounds = (np.empty(size), np.empty(size), np.empty(n))
        return cls(next_ptr, np.empty(size, dtype=np.int64), *bounds, fault, seen)

    def copy(self, visits: Ints | None = None, share: tuple[int, int, float] | None = None) -> "_Rows":
        """The same in other arrays, as of these visits."""
        seen = self.seen.copy() if visits is None else visits.copy()
        bounds = (self.low.copy(), self.high.copy(), self.unseen.copy())
        return _Rows(self.next_ptr, self.next_state.copy(), *bounds, self.fault.copy(), seen, visits, share)


@dataclass(frozen=True)
class Informed:
    """A confidence set with knowledge: a function of (counts, delta), as agents take them."""

    knowledge: Knowledge
    confidence: Confidence
    noise: NoiseCounts | None = None

    def __call__(self, counts: Counts, delta: float) -> Plausible:
        """`Knowledge.plausible`."""
        return self.knowledge.plausible(self.confidence, counts, delta, self.noise)

    @property
    def __name__(self) -> str:
        """The name of the set that is narrowed."""
        return f"{getattr(self.confidence, '__name__', self.confidence)} with knowledge"
