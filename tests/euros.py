"""A referee in euros: what a shop and its arms earn on average, in plain NumPy. Nothing here comes from the package.

The shop is a rule for what a week earns and where it ends; its tables are made of the rule here. The referee is told
which policies were played, or which decisions were made, and works out what they earn on average. What must be earned
is written down once more from the words of the promise: after t steps in which the baseline earns b on average, at
least

    b - alpha max(b - t floor, 0) - t tolerance - allowance,

after every step, or at the dates that were agreed. Episodes and rounds have a share each.
"""

import numpy as np

DEMAND = np.array([1, 2, 3, 4, 4, 3, 2, 1]) / 20  # of 0, 1, .., 7 units a week
LEVELS, ORDERS, START = 8, (0, 2, 4, 6), 5
KEEPS = (3, 2, 2, 0, 0, 0, 0, 0)  # today's rule: the number of an order for each stock
LOSES = (3, 3, 3, 3, 3, 3, 3, 3)  # a rule that orders too much every week, and loses money
LOW, HIGH = -100.0, 170.0  # the range that is declared; a week earns from -92 to 161 euros
QUARTER = 13


def week(stock, order, demand):
    """What a week earns in euros, and the stock after it; what has no room is thrown away."""
    here = min(stock + ORDERS[order], LEVELS - 1)
    earned = 25.0 * min(here, demand) - 10.0 * ORDERS[order] - 18.0 * (order > 0) - 2.0 * here
    return earned, here - min(here, demand)


def tables():
    """p [S, A, S] and r [S, A] of the shop."""
    p, r = np.zeros((LEVELS, len(ORDERS), LEVELS)), np.zeros((LEVELS, len(ORDERS)))
    for s in range(LEVELS):
        for a in range(len(ORDERS)):
            for demand, chance in enumerate(DEMAND):
                earned, after = week(s, a, demand)
                r[s, a] += chance * earned
                p[s, a, after] += chance
    return p, r


def chain(weights):
    """P [S, S] and r [S] of a policy with these probabilities [S, A]."""
    p, r = tables()
    return np.einsum("sa,sat->st", weights, p), (weights * r).sum(axis=1)


def gain_and_bias(weights):
    """The average and the bias [S] of a policy, from the fundamental matrix of its chain."""
    P, r = chain(weights)
    n = len(r)
    stationary = np.linalg.lstsq(np.vstack([P.T - np.eye(n), np.ones(n)]), np.r_[np.zeros(n), 1.0], rcond=None)[0]
    gain = float(stationary @ r)
    return gain, np.linalg.solve(np.eye(n) - P + np.outer(np.ones(n), stationary), r - gain)


def values(weights, horizon=QUARTER):
    """What is earned from each stage and state on, [H + 1, S]; `weights` [S, A], or [H, S, A]."""
    p, r = tables()
    weights, found = np.broadcast_to(weights, (horizon, *r.shape)), np.zeros((horizon + 1, LEVELS))
    for h in reversed(range(horizon)):
        found[h] = (weights[h] * (r + p @ found[h + 1])).sum(axis=1)
    return found


def always(orders):
    """The probabilities [S, A] of a rule that orders one thing in each state."""
    return np.eye(len(ORDERS))[list(orders)]


def dates(given, n):
    """The steps among 1 .. n after which the promise must be kept."""
    told = given.get("checkpoints") or 1
    if isinstance(told, int):
        return [t for t in range(1, n + 1) if t % told == 0]
    return [t for t in range(1, n + 1) if t in told or t > max(told)]


def promised(given, baseline, steps):
    """What must be earned in these steps at least, without the allowance, if the baseline earns `baseline`."""
    above = max(baseline - given.get("floor", 0.0) * steps, 0.0)
    return baseline - given["alpha"] * above - given.get("tolerance", 0.0) * steps


def replayed(given, sequence, baseline, start=START):
    """After each step, what the policies [S, A] earn on average if played again, minus what was promised, [t]."""
    here, base = np.eye(LEVELS)[start], np.eye(LEVELS)[start]
    P_b, r_b = chain(baseline)
    earned = b = 0.0
    margins, known = [], {}
    for t, weights in enumerate(sequence, start=1):
        key = weights.tobytes()
        P, r = known[key] if key in known else known.setdefault(key, chain(weights))
        earned, here = earned + here @ r, here @ P
        b, base = b + base @ r_b, base @ P_b
        margins.append(earned - promised(given, b, t) + given.get("allowance", 0.0))
    return np.array(margins)


def decided(given, stations, orders, baseline):
    """After each step, what all decisions are worth beside today's, minus what they may cost, [t]."""
    p, r = tables()
    gain, bias = gain_and_bias(baseline)
    worth = r + p @ bias - bias[:, None] - gain
    own = worth[stations, orders] * (baseline[stations, orders] < 1)
    t = np.arange(1, len(own) + 1)
    return np.cumsum(own) + t * (gain - promised(given, gain, 1)) + given.get("allowance", 0.0)


def of_each(given, earned, baseline, steps):
    """After each episode (or round), what all of them earned on average minus what was promised, [n]."""
    owed = [promised(given, b, steps) for b in baseline]
    return np.cumsum(np.asarray(earned) - owed) + given.get("allowance", 0.0)


def least(given, margins):
    """The smallest margin at a date."""
    return min(margins[t - 1] for t in dates(given, len(margins)))
