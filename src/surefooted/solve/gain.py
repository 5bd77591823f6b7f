"""Average reward on a known MDP: gain and bias of a policy, and the optimal ones.

Puterman (1994): evaluation, Sec. 8.2 and 9.1; policy iteration for any finite MDP, Sec. 9.2; bounds on the optimal gain
from one application of the Bellman operator, Theorem 8.5.5.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from surefooted.arrays import freeze
from surefooted.errors import InvalidInput, NoSingleGain, NotConverged
from surefooted.kernels import bellman, chains, exact
from surefooted.kernels.structs import Advantages, Table
from surefooted.solve.chain import SUM_ROUNDING, Structure, expected, induced_chain, rows_of, structure
from surefooted.solve.classes import Cycles, class_distribution, solve_class
from surefooted.solve.systems import DAMPING, MOST_READ, SMALL, System
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints

SAME_GAIN = 1e-9  # gains closer than this (times r_max) count as one
TERM_ROUNDING = 2.2e-16  # the relative rounding that each term of a long sum adds
PROVED = 0.9  # of the accuracy is what the kernels aim at, the rest is for their rounding
QUICK = 200_000  # transitions that sweeps read before they may count as slow
SWEEPS = 100  # of value iteration, before policies are evaluated by LU
MORE_SWEEPS = 300  # after that, or 15 S unless they read more than MOST_READ transitions
POLICIES = 100  # policies with one recurrent class to evaluate before sweeps go on
IMPROVEMENTS = 10_000  # policy iterations before they are called off

Bounded = tuple[float, float, Floats, Ints]  # bounds on the optimal gain, v [S] that proves them, its greedy pairs [S]


@dataclass(frozen=True)
class GainAndBias:
    """How a policy fares in the long run, from each state.

    `gains` [S] is g(s), `bias` [S] the Cesàro bias h(s): g + h = r + P h, and h has mean 0 under the stationary
    distribution of each recurrent class. `accuracy` is how far off a gain may be, beyond rounding.

    `classes` are the states of each recurrent class, and `r_max` is the largest reward, counted from the lowest.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> sf.solve.gain_and_bias(problem.mdp, problem.baseline).gain
    0.005
    """

    gains: Floats
    bias: Floats
    accuracy: float
    classes: tuple[Ints, ...]  # the states of each recurrent class
    r_max: float

    @property
    def gain(self) -> float:
        """The gain, when it is the same from every state."""
        tolerance = max(SAME_GAIN * self.r_max, 2 * self.accuracy)
        if np.ptp(self.gains) > tolerance:
            best, worst = int(np.argmax(self.gains)), int(np.argmin(self.gains))
            raise NoSingleGain(
                f"the gain depends on the state: {self.gains[worst]:.6g} from state {worst}, "
                f"{self.gains[best]:.6g} from state {best}. The policy has {len(self.classes)} recurrent classes "
                "and never gets from one to another; `.gains` has the gain from each state"
            )
        return float(self.gains[self.classes[0][0]])

    @property
    def span(self) -> float:
        """sp(h) = max h - min h."""
        return float(np.ptp(self.bias))


def gain_and_bias(mdp: TabularMDP, policy: Policy, accuracy: float = 1e-9) -> GainAndBias:
    """The gain and Cesàro bias of a stationary policy, unichain or not, periodic or not.

    - `mdp`: the table.
    - `policy`: a stationary policy on its space.
    - `accuracy`: how far off a gain may be, times r_max.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> found = sf.solve.gain_and_bias(problem.mdp, problem.baseline)
    >>> found.gain, found.bias.shape
    (0.005, (6,))
    """
    _check(accuracy)
    chain = induced_chain(mdp, policy)
    return _in_unit(_evaluate(chain, structure(chain), mdp.r_max, accuracy * mdp.r_max), mdp)


def _in_unit(solved: GainAndBias, mdp: TabularMDP) -> GainAndBias:
    """The same with gains in the unit of the MDP's rewards: all computations count them from `low`."""
    return replace(solved, gains=mdp.space.money.earned(solved.gains))


def stationary_distribution(mdp: TabularMDP, policy: Policy, start: int | None = None) -> Floats:
    """The long-run share of time in each state, [S]; with several recurrent classes, say from which `start`.

    - `mdp`: the table.
    - `policy`: a stationary policy on its space.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> sf.solve.stationary_distribution(problem.mdp, problem.baseline).tolist()
    [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    chain = induced_chain(mdp, policy)
    parts = structure(chain)
    if start is None and len(parts.classes) > 1:
        raise NoSingleGain(
            f"the policy has {len(parts.classes)} recurrent classes, so its stationary distribution depends on where "
            "it starts: give `start`"
        )
    system = System(chain, parts.transient) if start is not None and parts.transient.size else None
    shares = np.zeros(mdp.n_states)
    for states in parts.classes:
        reached = np.zeros(mdp.n_states)  # the probability of ending in this class, from each state
        reached[states] = 1.0
        if system is not None:
            reached[system.states] = system.solve(expected(chain, reached)[system.states][None], 1e-14)[0]
        weight = 1.0 if start is None else reached[mdp.space.check_state(start)]
        if weight > 0:
            shares[states] = weight * class_distribution(chain, states)
    return shares


def _evaluate(chain: Table, parts: Structure, r_max: float, accuracy: float) -> GainAndBias:
    """Each recurrent class on its own, then the states that lead to them."""
    gains, bias, worst = np.zeros(chain.r.size), np.zeros(chain.r.size), 0.0
    for states in parts.classes:
        solved = solve_class(chain, states, accuracy / 2)
        gains[states], bias[states] = solved.gain, solved.bias
        worst = max(worst, solved.accuracy)
    if parts.transient.size:
        system = System(chain, parts.transient)
        todo = system.states
        if len(parts.classes) == 1:
            gains[todo] = gains[parts.classes[0][0]]
        else:
            gains[todo] = system.solve(expected(chain, gains)[todo][None], accuracy / 2)[0]
            worst += system.accuracy
        cost = chain.r[todo] - gains[todo] + expected(chain, bias)[todo]
        bias[todo] = system.solve(cost[None], accuracy)[0]
    return GainAndBias(gains, bias, worst, parts.classes, r_max)


@dataclass(frozen=True)
class OptimalGain:
    """The optimal gain, and a policy that attains it to the accuracy asked for; the rest is found once it is asked for.

    When g* is one number, as in any weakly communicating MDP, `lower` <= g* <= `upper` is proved (Puterman 1994, Th.
    8.5.5), by the last sweep or by a bias; otherwise they are the smallest and largest optimal gain,
    and `gain` is an error.

    `mdp` and `accuracy` are what was asked, `policy` and the bounds what was found.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> best = sf.solve.optimal_gain(problem.mdp)
    >>> best.lower <= best.gain <= best.upper, best.policy.actions.tolist()
    (True, [1, 1, 1, 1, 1, 1])
    """

    mdp: TabularMDP
    policy: Policy
    lower: float
    upper: float
    accuracy: float

    @cached_property
    def evaluation(self) -> GainAndBias:
        """How the policy fares, or one that it is improved to if its bias does not solve the optimality equation."""
        return _in_unit(_improve(self.mdp, self.policy, self.accuracy)[1], self.mdp)

    @property
    def gains(self) -> Floats:
        """The optimal gain from each state, [S]."""
        return self.evaluation.gains

    @property
    def gain(self) -> float:
        """The optimal gain g*, when it is the same from every state."""
        return self.evaluation.gain

    @property
    def bias(self) -> Floats:
        """h*, the bias of an optimal policy, [S]: h + g = L h to the accuracy asked for."""
        return self.evaluation.bias

    @property
    def span(self) -> float:
        """sp(h*)."""
        return self.evaluation.span


def optimal_gain(mdp: TabularMDP, accuracy: float = 1e-9) -> OptimalGain:
    """The optimal gain, to `accuracy` (times r_max), and a policy that has it.

    - `mdp`: the table.

    Sweeps of value iteration, if they soon bring the bounds together. Otherwise policy iteration, at first only where
    evaluating a policy is as cheap as a few sweeps, then from the policy that more sweeps have found. If none of them
    succeeds, policy iteration for any MDP proves that the policy found is the best one, or goes on from it.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> round(sf.solve.optimal_gain(problem.mdp).gain, 4)
    0.4286
    """
    _check(accuracy)
    n, tolerance, longest = mdp.n_states, accuracy * mdp.r_max, np.diff(mdp.next_ptr).max()
    v, pair, close = np.zeros(n), np.empty(n, dtype=np.int64), PROVED * tolerance
    most = max(MORE_SWEEPS, min(15 * n, MOST_READ // mdp.p.size))
    attempts: tuple[Callable[[], Bounded], ...] = (
        lambda: _sweep(mdp, close, most, max(2, QUICK // mdp.p.size), v, pair),
        lambda: _one_class(mdp, close, None),
        lambda: _sweep(mdp, close, SWEEPS, SWEEPS, v, pair),
        lambda: _one_class(mdp, close, v),
        lambda: _sweep(mdp, close, most, most, v, pair),
    )
    for attempt in attempts:
        lower, upper, proof, greedy = attempt()
        rounding = (SUM_ROUNDING + TERM_ROUNDING * longest) * (np.abs(proof).max() + mdp.r_max)
        if upper - lower <= tolerance and upper - lower + 2 * rounding <= tolerance:
            bounds = _bounds_in_unit(mdp, lower - rounding, upper + rounding)
            return OptimalGain(mdp, Policy._of_pairs(mdp.space, greedy), *bounds, accuracy)
    policy, evaluation, known = _improve(mdp, Policy._of_pairs(mdp.space, pair), accuracy)
    found = OptimalGain(mdp, policy, *_bounds_in_unit(mdp, float(known.min()), float(known.max())), accuracy)
    found.__dict__["evaluation"] = _in_unit(evaluation, mdp)
    return found


def _bounds_in_unit(mdp: TabularMDP, lower: float, upper: float) -> tuple[float, float]:
    """Bounds on a gain that is counted from `low`, in the unit of the MDP's rewards, rounded outwards."""
    money, rounding = mdp.space.money, TERM_ROUNDING * abs(mdp.space.low)
    return float(money.earned(lower)) - rounding, float(money.earned(upper)) + rounding


def _sweep(mdp: TabularMDP, accuracy: float, most: int, patience: int, v: Floats, pair: Ints) -> Bounded:
    """Bounds by value iteration from v; they are far apart if a sweep after `patience` ones was slow."""
    bounds = exact.value_iteration(mdp.space.pair_ptr, rows_of(mdp), DAMPING, accuracy, most, patience, v, pair)
    return *bounds[:2], v, pair


def _one_class(mdp: TabularMDP, accuracy: float, v: Floats | None) -> Bounded:
    """Bounds by policy iteration (Puterman 1994, Sec. 8.6) from the greedy policy of v [S].

    Theorem 8.5.5 gives the bounds for any v, up to its rounding. Without v, the first policy goes to the largest reward
    on the shortest way, if ways can be walked back, and only banded systems are solved. The bounds are infinite if it
    gives up: where LU would fill up, where a policy has several recurrent classes, and where the bias is so large that
    its rounding is more than `accuracy`.
    """
    n, ptr, table = mdp.n_states, mdp.space.pair_ptr, rows_of(mdp)
    home = int(mdp.space.pair_state[np.argmax(mdp.r)])
    steps, order = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    exact.search_from(ptr, table, home, steps, order)
    bias, change, pair = -np.ptp(mdp.r) * steps if v is None else v, np.empty(n), np.empty(n, dtype=np.int64)
    size = exact.longest_rows(ptr, mdp.next_ptr)
    chain = Table(np.zeros(n + 1, np.int64), np.empty(size, np.int64), np.empty(size), np.empty(n))
    for policies in range(POLICIES + 1):
        lower, upper = exact.improve(ptr, table, bias, change, pair, chain)
        if upper - lower <= accuracy or policies == POLICIES or n == 1:
            return lower, upper, bias, pair
        cycles = Cycles(chain, order, chains.walk(chain, home, n))
        if cycles.system.is_wide or (v is None and not cycles.system.is_banded):
            break
        with suppress(NotConverged):
            home, bias = cycles.home, cycles.evaluate(chain.r)[1]
            if SUM_ROUNDING * np.abs(bias).max() <= accuracy:
                continue
        break
    return -np.inf, np.inf, bias, pair


def _improve(mdp: TabularMDP, policy: Policy, accuracy: float) -> tuple[Policy, GainAndBias, Floats]:
    """Policy iteration (Puterman 1994, Sec. 9.2): a best policy, how it fares, and bounds or gains [S]."""
    space, tolerance, pair = mdp.space, accuracy * mdp.r_max, policy.pair
    assert pair is not None
    adds = Advantages(*(np.empty(space.n_pairs) for _ in range(3)))
    value, better = np.empty(mdp.n_states), np.empty(mdp.n_states, dtype=np.int64)
    for _ in range(IMPROVEMENTS):
        policy = Policy(space, pair=pair)
        chain = induced_chain(mdp, policy)
        parts = structure(chain)
        solved = _evaluate(chain, parts, mdp.r_max, tolerance / 10)
        constant = np.ptp(solved.gains) <= max(SAME_GAIN * mdp.r_max, 2 * solved.accuracy)
        exact.advantages(rows_of(mdp), space.pair_state, solved.gains, solved.bias, adds)
        _refine(mdp, chain, parts, pair, tolerance / 10, adds.to_bias)
        bounds = solved.gains + np.maximum.reduceat(adds.to_bias, space.pair_ptr[:-1])
        if constant and np.ptp(bounds) <= tolerance:
            return policy, solved, bounds
        # first the actions of a larger gain, then among those of equal gain the ones of a larger bias
        up, rounding = adds.to_gain, SUM_ROUNDING * np.ptp(solved.gains) + solved.accuracy
        bellman.best_pairs(space.pair_ptr, up, value, better)
        improved = value > np.maximum(up[pair], 0.0) + rounding
        if not improved.any():
            adds.to_bias[up < up[pair][space.pair_state] - rounding] = -np.inf
            bellman.best_pairs(space.pair_ptr, adds.to_bias, value, better)
            doubt = SUM_ROUNDING * (adds.size[better] + adds.size[pair]) + solved.accuracy
            improved = value > adds.to_bias[pair] + doubt
        if not improved.any():  # as good as rounding allows: the bounds say how good
            return policy, solved, bounds if constant else solved.gains
        pair = np.where(improved, better, pair)
    raise NotConverged(f"policy iteration did not end within {IMPROVEMENTS} improvements")


def _refine(mdp: TabularMDP, chain: Table, parts: Structure, pair: Ints, accuracy: float, advantage: Floats) -> None:
    """Correct `advantage` [K] for the rounding of a large bias: the policy's own advantage should be 0.

    What it is instead is a reward that the bias forgot. Evaluated in its turn, it gives what the bias should have been
    larger by, to digits that a bias of 1e12 could not hold beside it.
    """
    missing, nothing = Advantages(*(np.empty(mdp.space.n_pairs) for _ in range(3))), np.zeros(mdp.space.n_pairs)
    freeze(nothing)  # as rewards are: kernels are compiled for one kind
    for _ in range(2):
        if mdp.n_states > SMALL or np.abs(advantage[pair]).max() <= 1e-15 * mdp.r_max:
            return
        rest = _evaluate(chain._replace(r=advantage[pair]), parts, mdp.r_max, accuracy)
        unpaid = rows_of(mdp)._replace(r=nothing)
        exact.advantages(unpaid, mdp.space.pair_state, rest.gains, rest.bias, missing)
        advantage += missing.to_bias


def _check(accuracy: float) -> None:
    if not (np.isfinite(accuracy) and accuracy > 0):
        raise InvalidInput("no such accuracy", [f"accuracy {accuracy} must be positive and finite"])
