"""How far apart the states of an MDP are: the diameter D and the worst-case diameter Υ.

Both are the largest expected time from one state to another: D under the policy that hurries most (Jaksch et al. 2010,
Def. 1), Υ under the one that dawdles most (Eq. `worstdiameter`). One stochastic shortest (or longest) path problem per
target state, solved by policy iteration with exact evaluation: meant for hundreds of states, not for thousands.
"""

from collections.abc import Callable

import numpy as np

from surefooted.arrays import freeze
from surefooted.errors import NotConverged
from surefooted.kernels import bellman, chains, exact
from surefooted.kernels.structs import Advantages
from surefooted.solve.chain import SUM_ROUNDING, expected, induced_chain, rows_of
from surefooted.solve.systems import BEYOND, System
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.space import Bools, Floats, Ints

IMPROVEMENTS = 10_000  # policy iterations before it is called off
SAME_TIME = 1e-12  # the relative difference at which two times count as equal
STALLED = 3  # improvements in a row that make no time better by more than that, before they are taken for rounding

Progress = Callable[[int, int], None]


def diameter(mdp: TabularMDP, progress: Progress | None = None) -> float:
    """D = max over s ≠ s' of the smallest expected time from s to s'; inf when some state may never be reached.

    - `mdp`: the table.
    - `progress`: is called with the targets done and all targets.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> round(sf.solve.diameter(problem.mdp), 2)
    14.72
    """
    return _largest_time(mdp, +1, progress)


def worst_case_diameter(mdp: TabularMDP, progress: Progress | None = None) -> float:
    """Υ = max over s ≠ s' and policies of the expected time from s to s'; inf when the MDP is not ergodic.

    - `mdp`: the table.
    - `progress`: is called with the targets done and all targets.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> sf.solve.worst_case_diameter(problem.mdp)  # who always swims left never arrives on the right
    inf
    """
    return _largest_time(mdp, -1, progress)


def hitting_times(mdp: TabularMDP, policy: Policy, target: int) -> Floats:
    """Expected steps until `target` is reached from each state, [S]: 0 there, inf where it may never be.

    - `mdp`: the table.
    - `policy`: a stationary policy on its space.
    - `target`: a state.

    >>> import surefooted as sf
    >>> problem = sf.problems.riverswim()
    >>> sf.solve.hitting_times(problem.mdp, problem.baseline, target=0).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    """
    chain = induced_chain(mdp, policy)
    others = np.delete(np.arange(mdp.n_states), mdp.space.check_state(target))
    times = np.zeros(mdp.n_states)
    if others.size:
        sure = _surely_reaches(chain.next_ptr, chain.next_state, np.arange(mdp.n_states + 1), target)
        times[others] = np.inf
        inside = others[sure[others]]
        if inside.size:
            system = System(chain, inside)
            times[system.states] = system.solve(np.ones((1, inside.size)), 1e-9)[0]
    return times


def _largest_time(mdp: TabularMDP, sign: int, progress: Progress | None) -> float:
    """The largest entry over all targets of the fastest (sign +1) or slowest (-1) hitting times."""
    largest = 0.0
    pair: Ints | None = None
    for target in range(mdp.n_states):
        if sign > 0:
            reached = _surely_reaches(mdp.next_ptr, mdp.next_state, mdp.space.pair_ptr, target)
            if not reached.all():
                return float("inf")
        elif _can_avoid(mdp, target):
            return float("inf")
        times, pair = _extreme_times(mdp, target, sign, pair)
        largest = max(largest, float(times.max()))
        if progress is not None:
            progress(target + 1, mdp.n_states)
    return largest


def _extreme_times(mdp: TabularMDP, target: int, sign: int, pair: Ints | None) -> tuple[Floats, Ints]:
    """The fastest or slowest expected times to a target that can be reached for sure, and the pairs that give them."""
    space = mdp.space
    adds = Advantages(*(np.empty(space.n_pairs) for _ in range(3)))
    value, better = np.empty(mdp.n_states), np.empty(mdp.n_states, dtype=np.int64)
    each, no_gain = np.full(space.n_pairs, -float(sign)), np.zeros(mdp.n_states)
    freeze(each)  # as rewards are: kernels are compiled for one kind
    steps = rows_of(mdp)._replace(r=each)
    if pair is None or not np.isfinite(hitting_times(mdp, Policy(space, pair=pair), target)).all():
        pair = _approaching_pairs(mdp, target) if sign > 0 else space.pair_ptr[:-1].copy()
    best, found, stalled = np.full(mdp.n_states, np.inf if sign > 0 else 0.0), pair, 0
    for _ in range(IMPROVEMENTS):
        times, ahead = _relative_times(mdp, pair, target)
        if np.any(sign * (best - times) > SAME_TIME * times):
            best, found, stalled = times, pair, 0
        else:
            stalled += 1
        if stalled == STALLED:
            return best, found
        exact.advantages(steps, space.pair_state, no_gain, -sign * ahead, adds)
        bellman.best_pairs(space.pair_ptr, adds.to_bias, value, better)
        improved = value > adds.to_bias[pair] + SUM_ROUNDING * (adds.size[better] + adds.size[pair])
        improved[target] = False
        if not improved.any():
            return times, pair
        pair = np.where(improved, better, pair)
    raise NotConverged(f"policy iteration did not end within {IMPROVEMENTS} improvements")


def _relative_times(mdp: TabularMDP, pair: Ints, target: int) -> tuple[Floats, Floats]:
    """Expected steps to the target from each state, [S], and how many more than from a state that is seen often, [S].

    From s, it takes τ steps until that state or the target is hit, and with probability q it is the target: which is
    τ - q times all the steps from there. Differences keep their digits that way, however long it takes.
    """
    chain, another = induced_chain(mdp, Policy(mdp.space, pair=pair)), (target + 1) % mdp.n_states
    home = chains.walk(chain, another, mdp.n_states)
    home = home if home != target else another
    others = np.delete(np.arange(mdp.n_states), [target, home])
    hit, taken, arrived = np.zeros(mdp.n_states), np.zeros(mdp.n_states), np.zeros(mdp.n_states)
    hit[target] = 1.0
    at_once = expected(chain, hit)
    if others.size:
        system = System(chain, others)
        cost = np.stack([np.ones(others.size), at_once[system.states]])
        taken[system.states], arrived[system.states] = system.solve(cost, 1e-9)
    steps, rarely = 1.0 + expected(chain, taken)[home], at_once[home] + expected(chain, arrived)[home]
    if not rarely > steps * 1e-300:
        raise NotConverged(BEYOND)
    from_home = steps / rarely
    arrived[target] = 1.0
    ahead = taken - arrived * from_home
    times = ahead + from_home
    times[target] = 0.0
    return times, ahead


def _approaching_pairs(mdp: TabularMDP, target: int) -> Ints:
    """A pair for each state that may lead one step closer to the target: a policy that surely gets there.

    Only for targets that can be reached for sure from everywhere: then no choice can close the way for good.
    """
    space = mdp.space
    owner = np.repeat(space.pair_state, np.diff(mdp.next_ptr))
    pair_of = np.repeat(np.arange(space.n_pairs), np.diff(mdp.next_ptr))
    pair, known = space.pair_ptr[:-1].copy(), np.zeros(mdp.n_states, dtype=bool)
    known[target] = True
    while True:
        steps = known[mdp.next_state] & ~known[owner]
        if not steps.any():
            return pair
        pair[owner[steps]] = pair_of[steps]
        known[owner[steps]] = True


def _surely_reaches(next_ptr: Ints, next_state: Ints, pair_ptr: Ints, target: int) -> Bools:
    """From which states some policy reaches the target with probability 1, [S].

    Remove, again and again, the states that cannot reach it at all with pairs that never lead to removed states.
    """
    n_states, n_pairs = pair_ptr.size - 1, next_ptr.size - 1
    state = np.repeat(np.arange(n_states), np.diff(pair_ptr))
    pair_of = np.repeat(np.arange(n_pairs), np.diff(next_ptr))
    alive = np.ones(n_states, dtype=bool)
    while True:
        safe = np.ones(n_pairs, dtype=bool)
        safe[pair_of[~alive[next_state]]] = False
        reach = np.zeros(n_states, dtype=bool)
        reach[target] = True
        while True:
            steps = reach[next_state] & safe[pair_of]
            grown = reach.copy()
            grown[state[pair_of[steps]]] = True
            if (grown == reach).all():
                break
            reach = grown
        if (reach == alive).all():
            return alive
        alive = reach & alive


def _can_avoid(mdp: TabularMDP, target: int) -> bool:
    """Whether some policy can stay away from the target for ever from some state."""
    space = mdp.space
    pair_of = np.repeat(np.arange(space.n_pairs), np.diff(mdp.next_ptr))
    away = np.ones(mdp.n_states, dtype=bool)
    away[target] = False
    while away.any():
        stays = np.ones(space.n_pairs, dtype=bool)
        stays[pair_of[~away[mdp.next_state]]] = False
        keep = away & np.logical_or.reduceat(stays, space.pair_ptr[:-1])
        if (keep == away).all():
            return True
        away = keep
    return False
