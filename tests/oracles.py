"""Slow, obvious, independent answers: nothing here knows how the package computes them.

A chain is a dense stochastic matrix p [S, S] with rewards r [S]; an MDP is dense p [S, A, S], r [S, A] and a
boolean `available` [S, A]. Arrays of `Fraction` (see `exact`) are solved exactly, arrays of floats by LAPACK.
"""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import scipy.optimize
import scipy.sparse


def exact(p):
    """The rows of a float matrix as fractions that sum to exactly 1."""
    rows = [[Fraction(float(x)) for x in row] for row in p]
    return np.array([[x / sum(row) for x in row] for row in rows], dtype=object)


def fractions(r):
    return np.array([Fraction(float(x)) for x in r], dtype=object)


def solve(a, b):
    """The x with a x = b, [n, m]: by Gauss and Jordan for fractions, by LAPACK for floats."""
    if a.dtype != "O":
        return np.linalg.solve(a, b)
    n = len(a)
    rows = np.vectorize(Fraction, otypes=[object])(np.concatenate([a, b], axis=1))  # an int over an int is a float
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i, k] != 0)
        rows[[k, pivot]] = rows[[pivot, k]]
        rows[k] = rows[k] / rows[k, k]
        for i in range(n):
            if i != k and rows[i, k] != 0:
                rows[i] = rows[i] - rows[i, k] * rows[k]
    return rows[:, n:]


def eye(n, like):
    """The identity, of the kind of numbers that `like` holds."""
    return np.array([[Fraction(i == j) for j in range(n)] for i in range(n)]) if like.dtype == "O" else np.eye(n)


def reaches(p):
    """Which state can reach which in any number of steps, zero included, [S, S]."""
    reach = np.eye(len(p), dtype=bool) | (p != 0)
    for k in range(len(p)):
        reach |= np.outer(reach[:, k], reach[k])
    return reach


def recurrent_classes(p):
    """The lists of states that reach each other and nothing else."""
    reach = reaches(p)
    closed = [s for s in range(len(p)) if all(reach[y, s] for y in np.flatnonzero(reach[s]))]
    return sorted({tuple(np.flatnonzero(reach[s]).tolist()) for s in closed})


def stationary(p):
    """The stationary distribution of an irreducible p: d (p - I) = 0, with the first equation replaced by sum d = 1."""
    n = len(p)
    equations = (p - eye(n, p)).T.copy()
    equations[0] = 1
    return solve(equations, eye(n, p)[:, :1])[:, 0]


def limiting_matrix(p):
    """P*, the limit of (I + P + .. + P^(n-1)) / n (Puterman 1994, App. A.4)."""
    classes, n = recurrent_classes(p), len(p)
    limit = 0 * p
    inside = [s for c in classes for s in c]
    transient = [s for s in range(n) if s not in inside]
    for c in classes:
        d = stationary(p[np.ix_(c, c)])
        limit[np.ix_(c, c)] = d
        if transient:
            stay = eye(len(transient), p) - p[np.ix_(transient, transient)]
            end_here = solve(stay, p[np.ix_(transient, c)].sum(axis=1)[:, None])
            limit[np.ix_(transient, c)] = end_here * d
    return limit


def gain_and_bias(p, r):
    """g = P* r and h = ((I - P + P*)^-1 - P*) r (Puterman 1994, App. A.5)."""
    limit, one = limiting_matrix(p), eye(len(p), p)
    deviation = solve(one - p + limit, one) - limit
    return limit @ r, deviation @ r


def exact_gain_and_bias(p, r):
    """The same in rational arithmetic, rounded once at the end."""
    gains, bias = gain_and_bias(exact(p), fractions(r))
    return gains.astype(float), bias.astype(float)


def deterministic_policies(available):
    """Every choice of one action per state."""
    return itertools.product(*(np.flatnonzero(row).tolist() for row in available))


def chain_of(p, r, actions):
    states = np.arange(len(p))
    return p[states, list(actions)], r[states, list(actions)]


def mixed_chain(p, r, weights):
    """The chain of a randomised policy, weights [S, A]."""
    return np.einsum("sa,say->sy", weights, p), (weights * r).sum(axis=1)


def best_gain_by_enumeration(p, r, available, *, exactly=False):
    """The largest gain of any deterministic policy from each state, [S]."""
    gains = []
    for actions in deterministic_policies(available):
        q, reward = chain_of(p, r, actions)
        if exactly:
            q, reward = exact(q), fractions(reward)
        gains.append(limiting_matrix(q) @ reward)
    return np.max(gains, axis=0).astype(float)


def best_gain_by_linear_program(p, r, available):
    """min sum g subject to g >= P_a g and g + h >= r_a + P_a h for every pair: Puterman (1994), Sec. 9.3."""
    n, rows, limits = len(p), [], []
    for s, a in np.argwhere(available):
        e = np.eye(n)[s]
        rows.append(np.concatenate([p[s, a] - e, np.zeros(n)]))
        rows.append(np.concatenate([-e, p[s, a] - e]))
        limits += [0.0, -r[s, a]]
    price = np.concatenate([np.ones(n), np.zeros(n)])
    found = scipy.optimize.linprog(price, A_ub=np.array(rows), b_ub=limits, bounds=(None, None), method="highs")
    assert found.status == 0, found.message
    return found.x[:n]


def gain_bounds_by_value_iteration(rows, r, pair_ptr, accuracy):
    """Bounds on the optimal gain of a communicating MDP from sparse `rows` [K, S]: half a real step, half a rest."""
    v = np.zeros(rows.shape[1])
    while True:
        change = np.maximum.reduceat(r + rows @ v, pair_ptr[:-1]) - v
        if np.ptp(change) <= accuracy:
            return change.min(), change.max()
        v = v + 0.5 * change
        v -= v[0]


def sparse_rows(mdp):
    return scipy.sparse.csr_array((mdp.p, mdp.next_state, mdp.next_ptr), shape=(mdp.space.n_pairs, mdp.n_states))


def optimal_values(p, r, available, horizon):
    """V*_h(s), [H + 1, S], by the recursion as it is written in books."""

    @cache
    def value(h, s):
        if h == horizon:
            return 0.0
        return max(
            r[s, a] + sum(p[s, a, y] * value(h + 1, y) for y in range(len(p)) if p[s, a, y] > 0)
            for a in np.flatnonzero(available[s])
        )

    return np.array([[value(h, s) for s in range(len(p))] for h in range(horizon + 1)])


def best_value_by_enumeration(p, r, available, horizon):
    """The best expected reward of any deterministic time-dependent policy from each state, [S]: try them all."""
    rules = [chain_of(p, r, actions) for actions in deterministic_policies(available)]
    best = np.full(len(p), -np.inf)
    for plan in itertools.product(rules, repeat=horizon):
        value = np.zeros(len(p))
        for q, reward in reversed(plan):
            value = reward + q @ value
        best = np.maximum(best, value)
    return best


def cumulative_rewards(chains, x):
    """E[r_1 + .. + r_t] for every t when the t-th step is made by chains[t] = (p, r), from distribution x."""
    earned, product = [], np.eye(len(x))
    for p, r in chains:
        earned.append(x @ product @ r)
        product = product @ p
    return np.cumsum(earned)


def hitting_times(p, target):
    """Expected steps to the target from each state, [S]: (I - Q) t = 1 where it is reached for sure, inf elsewhere."""
    n = len(p)
    stopped = p.copy()
    stopped[target] = eye(n, p)[target]
    reach = reaches(stopped)
    sure = [s for s in range(n) if s != target and all(reach[y, target] for y in np.flatnonzero(reach[s]))]
    times = np.full(n, np.inf)
    times[target] = 0.0
    if sure:
        stay = eye(len(sure), p) - p[np.ix_(sure, sure)]
        times[sure] = solve(stay, stay[:, :1] * 0 + 1)[:, 0].astype(float)
    return times


def extreme_times(p, available, *, exactly=False):
    """The smallest and the largest expected time from s to y over all deterministic policies, two [S, S]."""
    times = []
    for actions in deterministic_policies(available):
        q, _ = chain_of(p, np.zeros(p.shape[:2]), actions)
        q = exact(q) if exactly else q
        times.append([hitting_times(q, target) for target in range(len(p))])
    return np.min(times, axis=0).T, np.max(times, axis=0).T


KINDS = (
    "dense",
    "sparse",
    "cycle",
    "transient",
    "near absorbing",
    "multichain",
    "weakly communicating",
    "deterministic",
    "slow",
)


def random_mdp(kind, seed, n_states=None, n_actions=None):
    """A small table of one of KINDS: p [S, A, S], r [S, A], available [S, A]."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    n = n_states or int(rng.integers(2, 6))
    m = n_actions or int(rng.integers(1, 4))
    available = rng.random((n, m)) < 0.8
    available[np.arange(n), rng.integers(m, size=n)] = True
    r = rng.random((n, m)) if seed % 3 else rng.integers(0, 2, (n, m)) / 1.0  # every third table is full of ties
    p = np.zeros((n, m, n))
    for s, a in np.ndindex(n, m):
        p[s, a] = _row(kind, rng, s, n)
    return p, r * available, available


def _row(kind, rng, s, n):
    """Where a pair of state s leads in a table of that kind."""
    row, one = np.zeros(n), np.eye(n)
    some = rng.choice(n, size=min(2, n), replace=False)
    row[some] = rng.dirichlet(np.ones(some.size))
    match kind:
        case "dense":
            return rng.dirichlet(np.ones(n))
        case "sparse":  # two successors each; any structure may come of it
            return row
        case "cycle":  # one step onwards, or as far as all but one: periodic under many policies
            return one[(s + rng.choice([1, n - 1])) % n]
        case "transient":  # never back, and the last state holds
            return one[-1] if s == n - 1 else _dirichlet(rng, np.arange(s, n), n) * 0.9 + 0.1 * one[s + 1]
        case "near absorbing":
            return (1 - 1e-6) * one[s] + 1e-6 * row
        case "multichain":  # two halves that do not mix, and the last state leads to both
            half = np.arange(n // 2) if s < n // 2 else np.arange(n // 2, n - 1)
            return _dirichlet(rng, half, n) if half.size and s < n - 1 else row
        case "weakly communicating":  # the last state is left for ever; all others reach each other if they wish
            return one[rng.integers(n - 1)] * 0.5 + 0.5 * (one[rng.integers(n - 1)] if s < n - 1 else one[s])
        case "deterministic":
            return one[rng.integers(n)]
        case "slow":  # two halves that meet once in a billion steps
            near = np.arange(n // 2) if s < n // 2 else np.arange(n // 2, n)
            far = np.setdiff1d(np.arange(n), near)
            return (1 - 1e-9) * _dirichlet(rng, near, n) + 1e-9 * _dirichlet(rng, far, n)
    raise AssertionError(kind)


def _dirichlet(rng, states, n):
    row = np.zeros(n)
    row[states] = rng.dirichlet(np.ones(states.size))
    return row


def row_set(plausible, k):
    """The plausible rows of pair k: ("box", lower [S], upper [S]) or ("ball", centre [S], width)."""
    n, row = plausible.space.n_states, slice(plausible.next_ptr[k], plausible.next_ptr[k + 1])
    low, high = np.zeros(n), np.full(n, plausible.unseen[k])
    low[plausible.next_state[row]], high[plausible.next_state[row]] = plausible.p_lower[row], plausible.p_upper[row]
    return ("box", low, high) if plausible.width is None or row.start == row.stop else ("ball", low, plausible.width[k])


def extreme_mean(row, v, sign, *, exactly=False):
    """max (sign +1) or min (-1) of p @ v over a `row_set`, by the duality of linear programming.

    Box: the least of λ + Σ max(lower (v - λ), upper (v - λ)). Ball: the least of λ + μ width + Σ c max(v - λ, -μ) over
    λ + μ >= max v, where λ = max v - μ is best. Both are convex and piecewise linear: try every corner.
    """
    (kind, a, b), v = row, sign * v
    if exactly:
        a, v, b = fractions(a), fractions(v), fractions(b) if kind == "box" else Fraction(float(b))
    if kind == "box":
        above = v - v[:, None]  # row i: v - λ for λ = v[i]
        return sign * float((v + np.maximum(a * above, b * above).sum(axis=1)).min())
    mu = (v.max() - v)[:, None] / 2
    dual = v.max() + (mu * (b - 1))[:, 0] + (a * np.maximum(v - v.max() + mu, -mu)).sum(axis=1)
    return sign * float(dual.min())


def extreme_mean_by_linear_program(row, v, sign):
    """The same by scipy's solver; in a ball, e >= |p - centre| may sum to the width."""
    (kind, a, b), n = row, len(v)
    if kind == "box":
        found = scipy.optimize.linprog(-sign * v, A_eq=np.ones((1, n)), b_eq=[1], bounds=np.stack([a, b], axis=1))
    else:
        one, zero = np.eye(n), np.zeros(n)
        found = scipy.optimize.linprog(
            np.concatenate([-sign * v, zero]),
            A_ub=np.block([[one, -one], [-one, -one], [zero, zero + 1]]),
            b_ub=np.concatenate([a, -a, [b]]),
            A_eq=np.concatenate([zero + 1, zero])[None],
            b_eq=[1],
        )
    assert found.status == 0, found.message
    return -sign * found.fun


def row_vertices(row):
    """Every corner of a `row_set`, [n, S]: as many faces as there are dimensions meet there.

    A row is at most `width` from the centre if and only if no set of states has more than width / 2 too much.
    """
    kind, a, b = row
    n = len(a)
    if kind == "box":
        faces, limits = np.concatenate([np.eye(n), -np.eye(n)]), np.concatenate([b, -a])
    else:
        subsets = np.array([x for x in itertools.product([0.0, 1.0], repeat=n) if 0 < sum(x) < n]).reshape(-1, n)
        faces, limits = np.concatenate([subsets, -np.eye(n)]), np.concatenate([subsets @ a + b / 2, np.zeros(n)])
    corners = set()
    for chosen in map(list, itertools.combinations(range(len(faces)), n - 1)):
        equations = np.concatenate([np.ones((1, n)), faces[chosen]])
        if abs(np.linalg.det(equations)) > 1e-9:
            p = np.linalg.solve(equations, np.concatenate([[1.0], limits[chosen]]))
            if np.all(faces @ p <= limits + 1e-12):
                corners.add(tuple(np.round(p, 13)))
    return np.array(sorted(corners))


def robust_backup(plausible, weights, v, sign, r=None):
    """L v of one policy, weights [K], when each row is chosen for it (sign +1) or against it (-1)."""
    space = plausible.space
    r = (plausible.r_upper if sign > 0 else plausible.r_lower) if r is None else r
    backup = np.zeros(space.n_states)
    for k in np.flatnonzero(weights):
        backup[space.pair_state[k]] += weights[k] * (r[k] + extreme_mean(row_set(plausible, k), v, sign))
    return backup


def random_set(form, kind, seed, n_states=None, n_actions=None):
    """A table p, r, available as of `random_mdp`, and the arrays of a set of "box"es or "ball"s that it lies in.

    Of each pair, any of its successors may be stored, in any order; some pairs were never tried, some are known.
    """
    p, r, available = random_mdp(kind, seed, n_states, n_actions)
    rng = np.random.default_rng([ord(form[1]), seed])
    ptr, states, low, high, unseen, width = [0], [], [], [], [], []
    for s, a in np.argwhere(available):
        row, n = p[s, a], len(p)
        fate = rng.choice(["known", "new", "tried", "tried", "tried"])
        if fate == "known":
            some = rng.permutation(np.flatnonzero(row))
            centre, spread, cap, radius = row, np.zeros((2, n)), 0.0, 0.0
        elif fate == "new":
            some, centre, spread, cap, radius = np.zeros(0, dtype=int), row, np.zeros((2, n)), 1.0, rng.uniform(0, 9)
        else:
            some = rng.permutation(n)[: rng.integers(form == "ball", n + 1)]
            spread = rng.uniform(0, rng.choice([1e-9, 0.3, 1.0]), size=(2, n))
            cap = max(rng.choice([0.0, 1e-9, 0.1, 1.0]), np.delete(row, some).max(initial=0.0))
            centre = row if form == "box" else _dirichlet(rng, some, n)
            radius = np.abs(row - centre).sum() * rng.choice([1.0, 1.3]) + rng.choice([0.0, 0.5, 2.0])
        states += some.tolist()
        low += (centre * (1 - spread[0]) if form == "box" else centre)[some].tolist()
        high += np.minimum(centre + spread[1] if form == "box" else 1.0, 1.0 + 0 * centre)[some].tolist()
        unseen.append(cap if form == "box" else 1.0)
        width.append(radius)
        ptr.append(len(states))
    spread = rng.uniform(0, 0.3, size=(2, available.sum()))
    fields = {
        "r_lower": np.maximum(r[available] - spread[0], 0.0),
        "r_upper": np.minimum(r[available] + spread[1], 1.0),
        "next_ptr": np.array(ptr),
        "next_state": np.array(states, dtype=np.int64),
        "p_lower": np.array(low, dtype=float),
        "p_upper": np.array(high, dtype=float),
        "unseen": np.array(unseen),
        "width": np.array(width) if form == "ball" else None,
    }
    return p, r, available, fields


def mean_distance(n, s, q, x):
    """The bound of docs/guarantees.md, Mean rewards, by bisection on ln p: n distances >= 0 with sum s, squares q."""
    if s <= 0:
        return 0.0
    k = min(s * s / q, n)
    m = n - k
    level = math.lgamma(k + 1) + math.lgamma(m + 1) - math.lgamma(n + 2) - math.log(math.exp(x) + 1)
    below, above = -1e4, math.log(k / (n + 1))
    for _ in range(100):
        middle = (below + above) / 2
        enough = k * middle + (m + 1) * math.log1p(-math.exp(middle)) >= level
        below, above = (below, middle) if enough else (middle, above)
    return q / s * math.exp(below)
