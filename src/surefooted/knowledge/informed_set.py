"""The set of plausible MDPs that counts make, narrowed by what was declared; `Knowledge.plausible` states its event."""

from typing import NamedTuple

import numpy as np

from surefooted.arrays import Bools, Floats, Ints
from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.kernels import rewards, shared_noise, successors
from surefooted.kernels.intervals import LIKELIHOOD, SIMPLIFIED, Share, Sums
from surefooted.kernels.rewards import ESTIMATED, FUNCTION, MEAN, BlockBounds
from surefooted.kernels.shared_noise import Tally
from surefooted.kernels.successors import DOUBT, OUTSIDE, REWARD, RowBounds, Transitions
from surefooted.knowledge.declared import Declared
from surefooted.knowledge.mechanics import Mechanics
from surefooted.knowledge.noise_counts import NoiseCounts
from surefooted.sets.confidence import KINDS, Confidence
from surefooted.sets.plausible import Plausible
from surefooted.sets.shared_noise import SharedNoise

COMPARISONS = 0.05  # the largest share of δ that goes to comparing known rewards with the data


class Reading(NamedTuple):
    """What counts say, given what was declared: the set, and where the counts contradict it."""

    plausible: Plausible
    fault: Ints  # [rows]: codes of `kernels.successors`
    crossed: Bools  # [laws]: those that no probabilities fit


class InformedSet:
    """Reads counts that go on growing: rows with declared successors are computed again only after more visits.

    `read` fills the rows of the last set in place, so that a set that it returned before may change.
    """

    def __init__(
        self,
        declared: Declared,
        confidence: Confidence,
        counts: Counts,
        delta: float,
        noise: NoiseCounts | None = None,
    ) -> None:
        self.declared, self.counts, self.noise = declared, counts, noise
        self._kind = _kind(confidence)
        _check(declared, counts, delta, noise)
        self._share, self._reward_share = self._shares(delta)
        self._position = np.full(declared.space.n_states, -1)  # scratch space of kernels
        self._all_declared = bool(declared.has_successors.all())
        self._bounds: RowBounds | None = None
        self._made_for: tuple[Ints | None, int] = (None, 0)  # the visits that the bounds follow, and transitions seen

    def read(self) -> Reading:
        """The set of the counts as they are now, and what contradicts it."""
        counts, declared, M = self.counts, self.declared, self.counts.n_rows
        counted = Transitions(counts.visits, *counts.rows())
        crossed, shared = np.zeros(0, dtype=bool), None
        if declared.mechanics is None:
            bounds = self._successor_bounds(counted)
            blocks = BlockBounds(bounds.lower, bounds.upper, bounds.lower.size // counts.stages)
        else:
            bounds, blocks, crossed, shared = self._noise_bounds(declared.mechanics, counted)
        fault, r_lower, r_upper = bounds.fault.copy(), np.empty(M), np.empty(M)
        sums = Sums(counts.visits, counts.reward_sum, counts.reward_square)
        rewards.bound_rewards(self._reward_share, sums, declared.rewards, blocks, fault, r_lower, r_upper)
        arrays = (r_lower, r_upper, *bounds[:5])
        plausible = Plausible._of_arrays(declared.space, *arrays, stages=counts.stages, shared=shared)
        if self._kind == SIMPLIFIED:  # its intervals prove nothing, so they contradict nothing
            fault &= OUTSIDE | (REWARD if declared.rewards.what != FUNCTION else 0)
            crossed[:] = False
        return Reading(plausible, fault, crossed)

    def _shares(self, delta: float) -> tuple[Share, Share]:
        """How δ is divided: the share of an interval of the rows, and that of an interval of a mean reward.

        Estimated rewards have intervals like any other. Known rewards are compared with intervals of their own, which
        share at most 5 % of δ. A share of 0 intervals means that they are not compared.
        """
        counts, known, kind = self.counts, self.declared.rewards, self._kind
        means = counts.stages * int(np.sum(known.low < known.high))
        of_rows = self.declared.n_row_intervals * (1 if self.declared.mechanics is not None else counts.stages)
        if known.what == ESTIMATED:
            intervals, compared, share = of_rows + means, 0, 0.0
        else:
            test = LIKELIHOOD if kind == SIMPLIFIED else kind  # an interval that is valid
            compared = means if self._compares_rewards() else 0
            intervals = of_rows
            share = min(COMPARISONS, compared / (of_rows + compared)) if compared else 0.0
        if kind == SIMPLIFIED:
            main = Share(kind, counts.space.n_states * counts.space.n_actions * counts.stages, delta)
        else:
            main = Share(kind, max(intervals, 1), delta * (1 - share))
        return main, main if known.what == ESTIMATED else Share(test, compared, delta * share)

    def _compares_rewards(self) -> bool:
        """Whether known rewards are compared with those observed.

        Those observed must have bounds. To compare a function, the intervals of transitions must be valid, too.
        """
        known = self.declared.rewards
        if not self.counts.bounded and not known.ranged:
            return False
        return known.what == MEAN or (known.what == FUNCTION and self._kind != SIMPLIFIED)

    def _successor_bounds(self, counted: Transitions) -> RowBounds:
        """Bounds on the rows from declared successors, or from those seen."""
        own = self.declared.successors
        grown = 0 if self._all_declared else counted.next_state.size  # rows of other pairs grow with what was seen
        if self._bounds is None or self._made_for[0] is not counted.visits or self._made_for[1] != grown:
            self._bounds, self._made_for = self._empty_bounds(counted), (counted.visits, grown)
        successors.bound_successors(self._share, counted, own, self._position, self._bounds)
        return self._bounds

    def _empty_bounds(self, counted: Transitions) -> RowBounds:
        """Arrays for all rows, of which none is computed yet."""
        own, H = self.declared.successors, self.counts.stages
        lengths = np.where(np.tile(own.declared, H), np.tile(np.diff(own.ptr), H), np.diff(counted.next_ptr))
        n, size = lengths.size, int(lengths.sum())
        next_ptr, next_state = np.concatenate([[0], np.cumsum(lengths)]), np.empty(size, dtype=np.int64)
        bounds = (np.empty(size), np.empty(size), np.empty(n))
        return RowBounds(next_ptr, next_state, *bounds, np.zeros(n, dtype=np.int64), np.full(n, -1))

    def _noise_bounds(
        self, mechanics: Mechanics, counted: Transitions
    ) -> tuple[RowBounds, BlockBounds, Bools, SharedNoise | None]:
        """Bounds on the rows and on all blocks from shared noise, the laws that no probabilities fit, and the noise."""
        index = mechanics.index
        tally = Tally(np.zeros(index.n_partitions, dtype=np.int64), np.zeros(index.n_classes, dtype=np.int64))
        fault = np.zeros(index.row_laws.shape[0], dtype=np.int64)
        shared_noise.count_classes(counted, index.cells, index.draws, self._position, tally, fault)
        if self.noise is not None:
            tally.classes[:] = np.concatenate(self.noise.values)
            tally.draws[:] = [values.sum() for values in self.noise.values]
        lower, upper = np.empty(len(index.masks)), np.empty(len(index.masks))
        crossed = np.zeros(index.row_laws.shape[1], dtype=bool)
        shared_noise.bound_events(self._share, tally, index.events, index.families, lower, upper, crossed)
        if fault.any():  # no noise explains some step: everything that the laws of its row have taught is in doubt
            doubtful = index.row_laws[fault > 0].any(axis=0)
            fault[index.row_laws[:, doubtful].any(axis=1)] |= DOUBT
        if crossed.any():
            fault[index.row_laws[:, crossed].any(axis=1)] |= DOUBT
        shared = None if fault.any() else _one_noise(mechanics, lower, upper)
        low, high, unseen = np.empty(index.blocks.joint.size), np.empty(index.blocks.joint.size), np.empty(fault.size)
        shared_noise.bound_blocks(index.blocks, lower, upper, low, high)
        shared_noise.close_rows(index.cells.next_ptr, low, high, unseen, fault)
        cells = index.cells.next_state.size
        rows = RowBounds(*index.cells, low[:cells], high[:cells], unseen, fault, counted.visits)
        return _repeated(rows, self.counts.stages), BlockBounds(low, high, 0), crossed, shared


def _one_noise(mechanics: Mechanics, lower: Floats, upper: Floats) -> SharedNoise | None:
    """The noise that all pairs share, if there is one; `lower` and `upper` bound the events of the mechanics."""
    if len(mechanics.sizes) > 1 or mechanics.n_components > 1:
        return None
    shape, reward = (mechanics.space.n_pairs, mechanics.sizes[0]), mechanics.reward
    counted = None if reward is None else mechanics.space.money.counted(reward).reshape(shape)
    return SharedNoise(mechanics.next_state.reshape(shape), counted, mechanics.index.masks, lower, upper)


def _repeated(rows: RowBounds, stages: int) -> RowBounds:
    """Rows that all stages share, once for each stage."""
    if stages == 1:
        return rows
    next_ptr = np.concatenate([[0], np.cumsum(np.tile(np.diff(rows.next_ptr), stages))])
    bounds = (np.tile(rows.lower, stages), np.tile(rows.upper, stages), np.tile(rows.unseen, stages))
    return RowBounds(next_ptr, np.tile(rows.next_state, stages), *bounds, np.tile(rows.fault, stages), rows.seen)


def _kind(confidence: Confidence) -> int:
    """The kind of interval that a confidence set is made of."""
    if confidence not in KINDS:
        name = getattr(confidence, "__name__", repr(confidence))
        names = ", ".join(function.__name__ for function in KINDS)
        raise InvalidInput("no such set", [f"knowledge narrows intervals, and {name} is not made of them; {names} are"])
    return KINDS[confidence]


def _check(declared: Declared, counts: Counts, delta: float, noise: NoiseCounts | None) -> None:
    """Raise if these counts are of another space, or noise is missing or not expected."""
    faults, mechanics = [], declared.mechanics
    if not 0 < delta < 1:
        faults.append(f"delta {delta} must lie strictly between 0 and 1")
    if counts.space is not declared.space and counts.space != declared.space:
        faults.append(f"knowledge of {declared.space}, counts of {counts.space}")
    observed = mechanics is not None and mechanics.observed
    if observed and noise is None:
        faults.append("the mechanics observe their noise, and no NoiseCounts are given")
    if noise is not None and not observed:
        faults.append("NoiseCounts are given, and there are no mechanics that observe their noise")
    if noise is not None and mechanics is not None and noise.mechanics.sizes != mechanics.sizes:
        faults.append(f"noise of laws of sizes {noise.mechanics.sizes}, mechanics of {mechanics.sizes}")
    if faults:
        raise InvalidInput("no such confidence", faults)
