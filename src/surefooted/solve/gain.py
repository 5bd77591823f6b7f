"""Average reward on a known MDP: gain and bias of a policy, and the optimal ones.

Puterman (1994): evaluation, Sec. 8.2 and 9.1; policy iteration for any finite MDP, Sec. 9.2; bounds on the optimal gain
from one application of the Bellman operator, Theorem 8.5.5.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt

import numpy as np

from surefooted.errors import InvalidInput, NoSingleGain, NotConverged
from surefooted.kernels import exact, narrow
from surefooted.solve.chain import (
    DAMPING,
    Chain,
    Structure,
    induced_chain,
    is_small,
    solve_class,
    solve_transient,
    structure,
)
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints

ROUNDING = 1e-9  # gains closer than this (times r_max) count as one
EPS = 1e-14  # the relative rounding of a sum of a few terms
PROVED = 0.9  # of the accuracy is what the kernels aim at, the rest is for their rounding
ULP = 2.2e-16  # and of each term more
NARROW = 10  # readings of the table that a policy's chain may cost to solve in line
IN_LINE = 100  # policy iterations in line before it is called off
SWEEPS = 300  # of value iteration, before policy iteration; up to 15 S while that is less than WORK
WORK = 1_000_000_000  # transitions
IMPROVEMENTS = 10_000  # policy iterations before it is called off


@dataclass(frozen=True)
class GainAndBias:
    """How a policy fares in the long run, from each state.

    `gains` [S] is g(s), `bias` [S] the Cesàro bias h(s): g + h = r + P h, and h has mean 0 under the stationary
    distribution of each recurrent class. `accuracy` is how far off a gain may be, beyond rounding.
    """

    gains: Floats
    bias: Floats
    accuracy: float
    classes: tuple[Ints, ...]  # the states of each recurrent class
    r_max: float

    @property
    def gain(self) -> float:
        """The gain, when it is the same from every state."""
        tolerance = max(ROUNDING * self.r_max, 2 * self.accuracy)
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
    """The gain and Cesàro bias of a stationary policy, unichain or not, periodic or not."""
    _check(accuracy)
    chain = induced_chain(mdp, policy)
    return _evaluate(chain, structure(chain), mdp.r_max, accuracy * mdp.r_max)


def stationary_distribution(mdp: TabularMDP, policy: Policy, start: int | None = None) -> Floats:
    """The long-run share of time in each state, [S]; with several recurrent classes, say from which `start`."""
    chain = induced_chain(mdp, policy)
    parts = structure(chain)
    if start is None and len(parts.classes) > 1:
        raise NoSingleGain(
            f"the policy has {len(parts.classes)} recurrent classes, so its stationary distribution depends on where "
            "it starts: give `start`"
        )
    reached = np.zeros(mdp.n_states)  # the probability of ending in a given class, from each state
    shares = np.zeros(mdp.n_states)
    for states in parts.classes:
        reached[:] = 0.0
        reached[states] = 1.0
        if start is not None and parts.transient.size:
            exits = chain.times(reached)[parts.transient][:, None]
            reached[parts.transient] = solve_transient(chain, parts.transient, exits, 1e-14)[:, 0]
        weight = 1.0 if start is None else reached[mdp.space.check_state(start)]
        if weight > 0:
            shares[states] = (
                weight * solve_class(replace(chain.block(states), r=np.zeros(states.size)), 1e-12).stationary
            )
    return shares


def _evaluate(chain: Chain, parts: Structure, r_max: float, accuracy: float) -> GainAndBias:
    """Each recurrent class on its own, then the states that lead to them."""
    gains, bias, worst = np.zeros(chain.n_states), np.zeros(chain.n_states), 0.0
    for states in parts.classes:
        solved = solve_class(chain.block(states), accuracy / 2)
        gains[states], bias[states] = solved.gain, solved.bias
        worst = max(worst, solved.accuracy)
    todo = parts.transient
    if todo.size:
        if len(parts.classes) == 1:
            gains[todo] = gains[parts.classes[0][0]]
        else:
            gains[todo] = solve_transient(chain, todo, chain.times(gains)[todo][:, None], accuracy / 2)[:, 0]
            worst += 0.0 if is_small(todo.size) else accuracy / 2
        cost = chain.r[todo] - gains[todo] + chain.times(bias)[todo]
        bias[todo] = solve_transient(chain, todo, cost[:, None], accuracy)[:, 0]
    return GainAndBias(gains, bias, worst, parts.classes, r_max)


@dataclass(frozen=True)
class OptimalGain:
    """The optimal gain, and a policy that attains it to the accuracy asked for; the rest is found once it is asked for.

    When g* is one number, as in any weakly communicating MDP, `lower` <= g* <= `upper` is proved (Puterman 1994, Th.
    8.5.5), by the last sweep or by a bias; otherwise they are the smallest and largest optimal gain,
    and `gain` is an error.
    """

    mdp: TabularMDP
    policy: Policy
    lower: float
    upper: float
    accuracy: float

    @cached_property
    def evaluation(self) -> GainAndBias:
        """How the policy fares, or one that it is improved to if its bias does not solve the optimality equation."""
        return _improve(self.mdp, self.policy, self.accuracy)[1]

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

    Policy iteration where the states can stand in a line so that no step is long. Otherwise a bounded number of sweeps
    of value iteration, which usually ends with bounds as close as that. If not, it has found a good policy: policy
    iteration for any MDP proves that it is the best one, or goes on from it.
    """
    _check(accuracy)
    tolerance, longest = accuracy * mdp.r_max, np.diff(mdp.next_ptr).max()
    for method in (_in_line, _by_sweeps):
        lower, upper, v, pair = method(mdp, PROVED * tolerance)
        if upper - lower <= tolerance:
            rounding = (EPS + ULP * longest) * (np.abs(v).max() + mdp.r_max)
            if upper - lower + 2 * rounding <= tolerance:
                policy = Policy.of_pairs(mdp.space, pair)
                return OptimalGain(mdp, policy, lower - rounding, upper + rounding, accuracy)
    policy, evaluation, known = _improve(mdp, Policy.of_pairs(mdp.space, pair), accuracy)
    found = OptimalGain(mdp, policy, float(known.min()), float(known.max()), accuracy)
    found.__dict__["evaluation"] = evaluation
    return found


def _in_line(mdp: TabularMDP, accuracy: float) -> tuple[float, float, Floats, Ints]:
    """Bounds on the optimal gain, v [S] that proves them, and its greedy pairs [S]: by policy iteration in line.

    The bounds are infinite when it gives up, as it does at once on most tables.
    """
    n = mdp.n_states
    v, pair = np.empty(n), np.empty(n, dtype=np.int64)
    widest = min(isqrt(NARROW * mdp.p.size // n), (n - 1) // 4)
    lower, upper, _ = narrow.policy_iteration(*_table(mdp), accuracy, widest, IN_LINE, v, pair)
    return lower, upper, v, pair


def _by_sweeps(mdp: TabularMDP, accuracy: float) -> tuple[float, float, Floats, Ints]:
    """The same by value iteration."""
    n = mdp.n_states
    v, pair = np.zeros(n), np.empty(n, dtype=np.int64)
    most = max(SWEEPS, min(15 * n, WORK // mdp.p.size))
    lower, upper, _ = exact.value_iteration(*_table(mdp), DAMPING, accuracy, most, v, pair)
    return lower, upper, v, pair


def _table(mdp: TabularMDP) -> tuple[Ints, Ints, Ints, Floats, Floats]:
    return mdp.space.pair_ptr, mdp.next_ptr, mdp.next_state, mdp.p, mdp.r


def _improve(mdp: TabularMDP, policy: Policy, accuracy: float) -> tuple[Policy, GainAndBias, Floats]:
    """Policy iteration (Puterman 1994, Sec. 9.2): a best policy, how it fares, and bounds or gains [S]."""
    space, tolerance, pair = mdp.space, accuracy * mdp.r_max, policy.pair
    assert pair is not None
    rows = (mdp.next_ptr, mdp.next_state, mdp.p)
    up, advantage, noise = (np.empty(space.n_pairs) for _ in range(3))
    value, better = np.empty(mdp.n_states), np.empty(mdp.n_states, dtype=np.int64)
    for _ in range(IMPROVEMENTS):
        policy = Policy(space, pair=pair)
        chain = induced_chain(mdp, policy)
        parts = structure(chain)
        solved = _evaluate(chain, parts, mdp.r_max, tolerance / 10)
        constant = np.ptp(solved.gains) <= max(ROUNDING * mdp.r_max, 2 * solved.accuracy)
        exact.advantages(space.pair_state, *rows, mdp.r, solved.gains, solved.bias, up, advantage, noise)
        _refine(mdp, chain, parts, pair, tolerance / 10, advantage)
        bounds = solved.gains + np.maximum.reduceat(advantage, space.pair_ptr[:-1])
        if constant and np.ptp(bounds) <= tolerance:
            return policy, solved, bounds
        # first the actions of a larger gain, then among those of equal gain the ones of a larger bias
        rounding = EPS * np.ptp(solved.gains) + solved.accuracy
        exact.best_pairs(space.pair_ptr, up, value, better)
        improved = value > np.maximum(up[pair], 0.0) + rounding
        if not improved.any():
            advantage[up < up[pair][space.pair_state] - rounding] = -np.inf
            exact.best_pairs(space.pair_ptr, advantage, value, better)
            improved = value > advantage[pair] + EPS * (noise[better] + noise[pair]) + solved.accuracy
        if not improved.any():  # as good as rounding allows: the bounds say how good
            return policy, solved, bounds if constant else solved.gains
        pair = np.where(improved, better, pair)
    raise NotConverged(f"policy iteration did not end within {IMPROVEMENTS} improvements")


def _refine(mdp: TabularMDP, chain: Chain, parts: Structure, pair: Ints, accuracy: float, advantage: Floats) -> None:
    """Correct `advantage` [K] for the rounding of a large bias: the policy's own advantage should be 0.

    What it is instead is a reward that the bias forgot. Evaluated in its turn, it gives what the bias should have been
    larger by, to digits that a bias of 1e12 could not hold beside it.
    """
    rows, nothing = (mdp.next_ptr, mdp.next_state, mdp.p), np.zeros(mdp.space.n_pairs)
    unused, missing, noise = (np.empty(mdp.space.n_pairs) for _ in range(3))
    for _ in range(2):
        if not is_small(mdp.n_states) or np.abs(advantage[pair]).max() <= 1e-15 * mdp.r_max:
            return
        rest = _evaluate(replace(chain, r=advantage[pair]), parts, mdp.r_max, accuracy)
        exact.advantages(mdp.space.pair_state, *rows, nothing, rest.gains, rest.bias, unused, missing, noise)
        advantage += missing


def _check(accuracy: float) -> None:
    if not (np.isfinite(accuracy) and accuracy > 0):
        raise InvalidInput("no such accuracy", [f"accuracy {accuracy} must be positive and finite"])
