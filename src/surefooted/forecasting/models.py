"""Models that what is known allows: tables drawn from the posterior of a log, within what was declared.

If the mechanics are known, one law of the noise is drawn for all pairs. What a log reveals of the noise is censored: a
step says only to which set its noise belongs. So laws and noise are drawn in turn (Gibbs sampling): the noise of each
logged step given the laws and where the step led, then each law from its Dirichlet posterior. Nobody knows whether laws
are flat or concentrated on a few values, so the prior weight of a value is drawn, too: its logarithm is uniform between
those of 1/n and 1, for n values. Where a log says nothing, the laws that are drawn therefore differ widely. Without
mechanics, rows are drawn as posterior sampling draws them (`sets.posterior`).
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefooted.data.counts import Counts
from surefooted.knowledge.declared import Declared
from surefooted.knowledge.knowledge import Knowledge
from surefooted.knowledge.mechanics import Mechanics
from surefooted.problems.problem import Problem
from surefooted.sets import confidence, posterior
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.tables.space import Floats

LEAST = 1e-9  # probability of a value of noise
SWEEPS = 30  # of noise and laws in turn, before a law is used
TILT = 5.0  # the largest logarithm of the power that says to which end mean rewards tend that were never logged


class Models:
    """Draws problems that may be the true one, given counts and knowledge."""

    def __init__(self, counts: Counts, knowledge: Knowledge | None, policy: Policy, start: int, horizon: int | None):
        self.counts, self.knowledge, self.policy, self.start, self.horizon = counts, knowledge, policy, start, horizon
        declared = None if knowledge is None else knowledge.declared
        self.means = None if declared is None else declared.reward_mean  # in the user's unit, or counted from low
        self.bounds = None if declared is None or declared.reward_low is None else _bounds_of(declared)
        self.of_next = declared is not None and declared.reward_of_next is not None
        self.mechanics = None if knowledge is None else knowledge.mechanics
        self.plausible = None
        if knowledge is not None and self.mechanics is None:
            self.plausible = knowledge.plausible(confidence.likelihood, counts, 0.05)
        self.noise = self._reward_noise()

    @property
    def guessed(self) -> int:
        """Pairs whose mean reward is neither declared nor logged, so that the prior alone decides."""
        known = self.means is not None or (self.mechanics is not None and self.mechanics.reward is not None)
        return 0 if known or self.of_next else int(np.sum(self.counts.visits == 0))

    def draw(self, rng: np.random.Generator) -> Problem:
        """A problem drawn from the posterior."""
        if self.mechanics is not None:
            return self._with(rng, draw_laws(rng, self.mechanics, self.counts))
        space = self.counts.space
        table = posterior.draw(rng, self.counts, self.plausible)
        row = np.repeat(np.arange(space.n_pairs), np.diff(table.next_ptr))
        used = slice(0, row.size)
        keys, inverse = np.unique(row * space.n_states + table.next_state[used], return_inverse=True)
        p: Floats = np.asarray(np.bincount(inverse, table.p[used]), dtype=np.float64)
        kept = p > 0
        keys, p = keys[kept], p[kept]
        sizes = np.bincount(keys // space.n_states, minlength=space.n_pairs)
        next_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        p /= np.repeat(np.add.reduceat(p, next_ptr[:-1]), sizes)
        mdp = TabularMDP(space, next_ptr, keys % space.n_states, p, self._rewards(rng, table.r), self.noise)
        return Problem("drawn", mdp, self.policy, self.start, self.horizon)

    def chain(self, rng: np.random.Generator) -> Iterator[Problem]:
        """Problems that follow each other closely, without end: far cheaper than `draw`, if there are mechanics."""
        if self.mechanics is None:
            while True:
                yield self.draw(rng)
        for laws in chain_of_laws(rng, self.mechanics, self.counts):
            yield self._with(rng, laws)

    def _with(self, rng: np.random.Generator, laws: list[Floats]) -> Problem:
        """The problem of these laws of the noise."""
        space, mechanics = self.counts.space, self.mechanics
        assert mechanics is not None
        ptr, after, mass, r = mechanics.table(laws)
        if r is None:
            r = self._rewards(rng, posterior.draw_rewards(rng, self.counts))
        mdp = TabularMDP(space, ptr, after, mass, np.clip(r, space.low, space.high), self.noise)
        return Problem("drawn", mdp, self.policy, self.start, self.horizon, mechanics=mechanics, laws=tuple(laws))

    def _rewards(self, rng: np.random.Generator, counted: Floats) -> Floats:
        """Mean rewards in the user's unit, given draws that are counted from `low`; declared ones are not drawn.

        Where nothing was logged, they lie anywhere between the bounds. Nobody knows whether they tend to one end: the
        position is a power of a uniform number, with one power for all pairs of a model.
        """
        space, unseen = self.counts.space, self.counts.visits == 0
        if self.means is not None:
            return np.asarray(np.clip(space.money.earned(self.means), space.low, space.high))
        low, high = (0.0, space.r_max) if self.bounds is None else self._means_between(*self.bounds)
        drawn = np.clip(counted, low, high)
        if unseen.any():
            power = np.exp(TILT * (2 * rng.random() - 1))
            drawn = np.where(unseen, low + (high - low) * rng.random(unseen.size) ** power, drawn)
        return np.asarray(np.clip(space.money.earned(drawn), space.low, space.high))

    def _means_between(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Between which means lie whose rewards keep within bounds: away from them by as much as rewards scatter."""
        if self.noise.kind != "uniform":
            return low, high
        middle = (low + high) / 2
        return np.minimum(low + self.noise.scale, middle), np.maximum(high - self.noise.scale, middle)

    def _reward_noise(self) -> Noise:
        """How far rewards scatter about their means: as in the log; without one, as far as they can."""
        n, squares = self.counts.visits, self.counts.reward_square
        seen = n > 1
        if self.means is not None or (self.mechanics is not None and self.mechanics.reward is not None):
            return Noise()
        if not seen.any():
            return Noise("bernoulli")
        within = squares[seen] - self.counts.reward_sum[seen] ** 2 / n[seen]
        variance = max(float(within.sum()) / float((n[seen] - 1).sum()), 0.0)
        return Noise("uniform", float(np.sqrt(3 * variance)))


def _bounds_of(declared: Declared) -> tuple[Floats, Floats]:
    """The declared bounds on single rewards, counted from `low`."""
    assert declared.reward_low is not None and declared.reward_high is not None
    r_max = declared.space.r_max
    return np.clip(declared.reward_low, 0.0, r_max), np.clip(declared.reward_high, 0.0, r_max)


def draw_laws(rng: np.random.Generator, mechanics: Mechanics, counts: Counts) -> list[Floats]:
    """One law for each kind of noise, drawn given the steps that were counted."""
    return next(islice(chain_of_laws(rng, mechanics, counts), SWEEPS if counts.total else 0, None))


def chain_of_laws(rng: np.random.Generator, mechanics: Mechanics, counts: Counts) -> Iterator[list[Floats]]:
    """Laws after each sweep of noise and laws in turn, without end; the first are a guess, which later ones forget.

    Without a step there is nothing to forget: each is drawn on its own.
    """
    next_ptr, next_state, count = counts.rows()
    pairs = np.repeat(np.repeat(np.arange(counts.space.n_pairs), np.diff(next_ptr)), count)
    after = np.repeat(next_state, count)
    flat = -rng.random()
    while not pairs.size:
        yield [_law(rng, np.zeros(size), size**flat) for size in mechanics.sizes]
    laws = [np.full(size, 1 / size) for size in mechanics.sizes]
    while True:
        yield laws
        noise = mechanics.draw_noise(laws, pairs, after, rng)  # [n, C]
        which = mechanics.law[pairs]  # [n, C]
        drawn = [np.bincount(noise[which == i], minlength=size) for i, size in enumerate(mechanics.sizes)]
        laws = [_law(rng, seen, seen.size**flat) for seen in drawn]


def _law(rng: np.random.Generator, seen: NDArray[Any], weight: float) -> Floats:
    """A law from its posterior, given how often each value was seen and its prior weight; no value is impossible."""
    law = np.maximum(rng.dirichlet(seen + weight), LEAST)
    return np.asarray(law / law.sum())
