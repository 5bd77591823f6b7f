"""What is known of an MDP before it is played, and the smaller set of plausible MDPs that the same data then make.

    known = Knowledge(space, rewards=r, successors=lambda s, a: [...])
    known.plausible(confidence.likelihood, counts, 0.05)

The set is a `Plausible` like any other: planners and certificates need not know what narrowed it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from surefooted.arrays import real_numbers
from surefooted.codec import record
from surefooted.data.counts import Counts
from surefooted.knowledge import wording
from surefooted.knowledge.contradictions import impossible_steps
from surefooted.knowledge.informed_set import InformedSet
from surefooted.knowledge.mechanics import Mechanics
from surefooted.knowledge.noise_counts import NoiseCounts
from surefooted.knowledge.parsing import parse
from surefooted.sets.confidence import Confidence
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Ints, Space

PairValues = ArrayLike | Callable[[int, int], float]
Bounds = tuple[ArrayLike, ArrayLike] | Callable[[int, int], tuple[float, float]]
Successors = (
    Callable[[int, int], Iterable[int] | None]
    | Mapping[tuple[int, int], Iterable[int]]
    | Sequence[Iterable[int] | None]
    | ArrayLike
)
NextValues = ArrayLike | Callable[[int, int, int], float]


@record
class Knowledge:
    """What is known of an MDP before it is played; everything is optional.

    Parameters
    ----------
    space : the states and their actions
    rewards : the mean reward of each pair: [S, A], [K] or a function of (s, a)
    reward_bounds : (low, high), between which every observed reward of the pair lies. Each is a number, [S, A] or [K];
        or give one function of (s, a) that returns both. If the counts are unbounded, bounds may leave the range of
        the space; means may not.
    reward_function : the mean reward r(s, a, s') of a step that leads to s': [S, A, S], [K, S] or a function. Only its
        mean over s' is used: a drawn reward need not depend on where the step leads.
    successors : the possible next states of each pair: a function of (s, a), a mapping from (s, a), a list of K of
        them, or a boolean array [S, A, S] or [K, S]. A pair for which it says None may lead anywhere.
    mechanics : a known function of state, action and noise, with laws of the noise that pairs share

    Examples
    --------
    In a queue, a customer may come or not, and action 1 may serve one:

    >>> import surefooted as sf
    >>> space = sf.Space.full(5, 2)
    >>> known = sf.Knowledge(space, successors=lambda s, a: {max(s - a, 0), s, min(s + 1, 4)})
    >>> counts = sf.Counts(space)
    >>> plausible = known.plausible(sf.confidence.likelihood, counts, 0.05)
    >>> plausible.unseen.tolist() == [0.0] * 10  # nothing else is possible, even before the first step
    True

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
        self.declared = parse(space, rewards, reward_bounds, reward_function, successors, mechanics)

    @property
    def space(self) -> Space:
        """The states and their actions."""
        return self.declared.space

    def to_record(self) -> dict[str, Any]:
        """What was declared, as `codec` saves it."""
        names = ("space", "reward_mean", "reward_low", "reward_high", "reward_of_next", "mechanics")
        rows = None if self.mechanics is not None else self._declared_successors()
        return {name: getattr(self.declared, name) for name in names} | {"successors": rows}

    def _declared_successors(self) -> list[Ints | None]:
        """The declared successors of each pair, or None."""
        ptr, state, declared = self.declared.successor_ptr, self.declared.successor_state, self.declared.has_successors
        return [state[ptr[k] : ptr[k + 1]] if declared[k] else None for k in range(ptr.size - 1)]

    @classmethod
    def from_record(cls, told: Mapping[str, Any]) -> Self:
        """The knowledge that `to_record` described, checked like any other.

        A record holds rewards as they are counted inside. They are checked in the user's unit, and kept to the bit.
        """
        space, rows = told["space"], told["successors"]
        counted = {name: told[name] for name in ("reward_mean", "reward_low", "reward_high", "reward_of_next")}
        mean, low, high, of_next = (None if x is None else space.money.earned(x) for x in counted.values())
        bounds = None if low is None else (low, high)
        function = None
        if of_next is not None:
            pairs = zip(space.pair_state.tolist(), space.pair_action.tolist(), rows, strict=True)
            steps = [(s, a, int(y)) for s, a, row in pairs for y in row]
            reward: dict[tuple[int, int, int], float] = dict(zip(steps, of_next.tolist(), strict=True))

            def function(s: int, a: int, y: int) -> float:
                return reward[s, a, y]

        given: dict[str, Any] = {"rewards": mean, "reward_bounds": bounds, "reward_function": function}
        known = cls(space, **given, successors=rows, mechanics=told["mechanics"])
        known.declared = replace(known.declared, **counted)
        return known

    @property
    def mechanics(self) -> Mechanics | None:
        """The mechanics, if they were declared."""
        return self.declared.mechanics

    def plausible(
        self, confidence: Confidence, counts: Counts, delta: float, noise: NoiseCounts | None = None
    ) -> Plausible:
        """The MDPs that neither the data nor what is known exclude; `noise` if the mechanics observe it.

        If what was declared is true, M* is in every set, at all times, with probability at least 1 - delta. This does
        not hold for `simplified_bernstein`, whose intervals are not valid. The intervals are those of `confidence`,
        with the number of intervals counted: each of J intervals gets δ / J.

        *Successors.* Each declared successor of a pair has an interval, seen or not, and nothing else is possible. One
        possible successor needs no interval. Two need only one, since their probabilities sum to 1. A pair without
        declared successors has S intervals, as in `confidence`.

        *Shared noise.* Let E be a set of values of law l. Whether component c of pair k decides E depends on the pair
        alone, which is chosen before ξ is drawn. So the steps at which a deciding component is drawn are a predictable
        choice. Given the past, the indicators of ξ_c ∈ E at these steps are Bernoulli(q_l(E)), no matter how the pairs
        were chosen. Components of one step that share a law are independent, and count one after the other. Hence the
        indicators are an i.i.d. sequence, and its interval holds at all times at once.

        A step of a pair that does not decide E is always left out. To count it when its successor happens to tell
        whether ξ_c ∈ E would favour the successors that tell. E and its complement are decided by the same steps and
        share an interval. An event that no pair decides has none. What logic adds (disjoint events, complements) holds
        whenever the intervals do, and costs nothing.

        The bounds on a row are products of the bounds on independent events, summed where a cell is no product. They
        increase in each factor, so they hold for the true laws, no matter what else the laws satisfy. The set chooses
        each row by itself within these bounds, so it contains all sets of rows with one common law. Where the cells of
        a pair are no grid of products, each cell also has an interval of its own: as an event of the joint noise,
        decided by all pairs with the same laws whose cells lie in it or outside it.

        *Rewards.* A declared range [low, high] takes the place of [0, r_max]. The mean of r(s, a, s') lies between the
        least and the largest mean that a row within the bounds gives; likewise the mean of r(s, a, ξ), over the level
        sets of r. Planning chooses the row a second time, for what follows: that only enlarges the set.

        Known means and functions are compared with the interval of the observed rewards, and the interval of a function
        is cut to it. Together these comparisons get at most 5 % of δ, and no more than an equal share per interval.
        With `simplified_bernstein` the comparison uses the intervals of `likelihood`, and functions are not compared.
        Rewards that may leave [0, r_max] have no valid interval: they are compared only if their range was declared.

        Where the data contradict what was declared, a pair may lead anywhere and earn anything: see `conflicts`.
        """
        return InformedSet(self.declared, confidence, counts, delta, noise).read().plausible

    def conflicts(
        self, confidence: Confidence, counts: Counts, delta: float, noise: NoiseCounts | None = None
    ) -> list[str]:
        """One sentence for each pair or law at which the data contradict what was declared; empty if all is well.

        If what was declared is true, there is no conflict at any time with probability at least 1 - delta, on the event
        of `plausible`. The intervals of `simplified_bernstein` prove nothing. With them, only impossible steps count,
        and means that are wrong by the intervals of `likelihood`.
        """
        reading = InformedSet(self.declared, confidence, counts, delta, noise).read()
        return wording.conflicts(self.declared, counts, reading)

    def contradictions(
        self, pairs: ArrayLike, rewards: ArrayLike, next_states: ArrayLike, noise: ArrayLike | None = None
    ) -> list[str]:
        """One sentence for each way in which one of these steps is impossible, if what was declared is true.

        `pairs` [n] are rows of counts: pair k of stage h is h K + k. `noise` [n, C] (or [n], if it has one component)
        is the noise of the steps, if it was observed.
        """
        counts = Counts(self.space, bounded=False, stages=1 + max(np.max(pairs, initial=0), 0) // self.space.n_pairs)
        faults: list[str] = []
        earned = real_numbers("rewards", rewards, faults)  # a reward that is no number is one of the contradictions
        rows, _, led = counts.check_steps(pairs, np.zeros(earned.shape), next_states)
        steps = (rows, self.declared.space.money.counted(earned), led)
        told = None if noise is None else np.asarray(noise).reshape(steps[0].size, -1)
        found = impossible_steps(self.declared, *steps, told)
        said = [wording.impossible_step(self.declared, found, i, *steps, told) for i in range(steps[0].size)]
        return [f"step {i}: {sentence}" for i, sentences in enumerate(said) for sentence in sentences]

    def __repr__(self) -> str:
        """Which parts there are."""
        declared = self.declared
        parts = {
            "rewards": declared.reward_mean is not None,
            "reward_bounds": declared.reward_low is not None,
            "reward_function": declared.reward_of_next is not None,
            "successors": self.mechanics is None and bool(declared.has_successors.any()),
            "mechanics": self.mechanics is not None,
        }
        return f"Knowledge({self.space}, {', '.join(name for name, there in parts.items() if there) or 'nothing'})"
