"""Tables and counts that several benchmarks use."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import surefooted as sf

DELTA = 0.05
NARROW = 0.002  # the width of the sets of slowly mixing problems: what may jump is next to nothing


@dataclass(frozen=True)
class Case:
    """A table in which every pair has as many successors: [S A, successors], and mean rewards [S A]."""

    name: str
    n_states: int
    n_actions: int
    successor: NDArray[np.int64]
    p: NDArray[np.float64]
    r: NDArray[np.float64]
    slow: bool
    visits: int = 50  # of each pair

    @property
    def space(self) -> sf.Space:
        """All actions in all states."""
        return sf.Space.full(self.n_states, self.n_actions)

    def mdp(self) -> sf.TabularMDP:
        """The table itself."""
        k, width = self.successor.shape
        pair = np.repeat(np.arange(k), width)
        where = (pair // self.n_actions, pair % self.n_actions, self.successor.ravel())
        noise = sf.Noise("bernoulli")
        return sf.TabularMDP.from_transitions(
            *where, self.p.ravel(), self.r[pair], noise, n_states=self.n_states, r_max=1.0
        )


def scattered(n_states: int, n_actions: int, successors: int = 10, seed: int = 1) -> Case:
    """Successors anywhere, Dirichlet(1) probabilities, one state in twenty pays: mixes within a few steps."""
    rng, k = np.random.default_rng(seed), n_states * n_actions
    if successors == n_states:
        successor = np.tile(np.arange(n_states), (k, 1))
    else:
        jumps = rng.integers(1, n_states // successors + 1, size=(k, successors)).cumsum(axis=1)
        successor = np.sort((rng.integers(n_states, size=(k, 1)) + jumps) % n_states, axis=1)
    p = rng.dirichlet(np.ones(successors), size=k)
    name = f"{n_states}x{n_actions}" + (" dense" if successors == n_states else "")
    pays = rng.permutation(n_states) < max(1, n_states // 20)
    r = np.where(np.repeat(pays, n_actions), rng.random(k), 0.0)
    return Case(name, n_states, n_actions, successor, p, r, False)


def full(n_states: int, n_actions: int, seed: int = 1) -> Case:
    """Every state is a successor with about the same probability, and nearly every one is seen."""
    case, rng = scattered(n_states, n_actions, n_states, seed), np.random.default_rng([seed, 1])
    p = rng.dirichlet(np.full(n_states, 10.0), size=len(case.r))
    return replace(case, name=f"{n_states}x{n_actions} full", p=p, visits=50 * n_states)


def ring(n_states: int, n_actions: int, seed: int = 1) -> Case:
    """Five successors within two places on a ring, half of the mass stays, and only state 0 pays: mixes slowly."""
    rng, k = np.random.default_rng(seed), n_states * n_actions
    state = np.repeat(np.arange(n_states), n_actions)
    successor = (state[:, None] + np.arange(-2, 3)) % n_states
    p = 0.5 * rng.dirichlet(np.ones(5), size=k)
    p[:, 2] += 0.5
    return Case(f"{n_states}x{n_actions} slow", n_states, n_actions, successor, p, (state == 0).astype(float), True)


class Sampled:
    """Counts of a case after `visits` to each pair (0: those of the case), to which more can be added."""

    def __init__(self, case: Case, visits: int = 0, seed: int = 0) -> None:
        self.case, self.visits, self.rng = case, visits or case.visits, np.random.default_rng(seed)
        self.count = np.zeros(case.p.shape, dtype=np.int64)
        self.earned = np.zeros(len(case.r))
        self.visit(np.arange(len(case.r)))

    def visit(self, pairs: NDArray[np.int64]) -> None:
        """As many more visits to each of these pairs."""
        self.count[pairs] += self.rng.multinomial(self.visits, self.case.p[pairs])
        self.earned[pairs] += self.rng.binomial(self.visits, self.case.r[pairs])

    def visit_some(self, share: float = 0.1) -> None:
        """As many more visits to a share of the pairs."""
        k = len(self.case.r)
        self.visit(self.rng.choice(k, size=max(1, int(share * k)), replace=False))

    def counts(self) -> sf.Counts:
        """The same as the library keeps them."""
        seen = self.count > 0
        state = {
            "visits": self.count.sum(axis=1),
            "reward_sum": self.earned,
            "reward_square": self.earned,
            "next_ptr": np.concatenate([[0], seen.sum(axis=1).cumsum()]),
            "next_state": self.case.successor[seen],
            "next_count": self.count[seen],
            "bounded": True,
            "stages": 1,
        }
        return sf.Counts.from_state_dict(self.case.space, state)

    def boxes(self):
        """`simplified_bernstein`; of slowly mixing problems p̂ ± NARROW with known support and rewards."""
        counts = self.counts()
        found = sf.confidence.simplified_bernstein(counts, DELTA)
        if not self.case.slow:
            return found
        p = self.count[self.count > 0] / np.repeat(counts.visits, (self.count > 0).sum(axis=1))
        low, high = np.maximum(p - NARROW, 0.0), np.minimum(p + NARROW, 1.0)
        known = {"r_lower": self.case.r, "r_upper": self.case.r, "unseen": np.zeros(len(self.case.r))}
        return replace(found, p_lower=low, p_upper=high, **known)

    def balls(self):
        """L1 balls of width sqrt(ln(S A / δ) / N), r̂ plus half as much; of slowly mixing problems as boxes are."""
        counts, case = self.counts(), self.case
        found = sf.confidence.hoeffding(counts, DELTA)
        if case.slow:
            width = np.full(len(case.r), NARROW)
            return replace(found, width=width, r_lower=case.r, r_upper=case.r)
        width = np.sqrt(np.log(len(case.r) / DELTA) / counts.visits)
        mean = counts.reward_sum / counts.visits
        low, high = np.maximum(mean - width / 2, 0.0), np.minimum(mean + width / 2, 1.0)
        return replace(found, width=width, r_lower=low, r_upper=high)


def fresh(plausible):
    """A copy of a set whose rows are built and in the order of the states, as nobody has solved it yet."""
    copy = replace(plausible)
    copy.rows  # noqa: B018 built here, not while a clock runs
    return copy
