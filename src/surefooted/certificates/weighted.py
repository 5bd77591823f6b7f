"""High-confidence off-policy evaluation (Thomas, Theocharous & Ghavamzadeh 2015): a bound from logged episodes alone.

An episode that β chose, with pairs k_1, .., k_H and rewards r_1, .., r_H counted from `low`, is weighted by how much
likelier π was to choose what β chose (per-decision importance sampling, Precup, Sutton & Singh 2000):

    D  =  sum_h (w^π_h - w^b_h) r_h,    w^π_h = Π_{j <= h} π(k_j) / β(k_j),  and w^b_h likewise for the baseline b.

The mean of w^π_h r_h over what β chooses is what π earns at stage h, or less if π does something that β never does; and
the baseline, which must do nothing that β never does, has exactly its mean. So the mean of D given the start of the
episode is at most V^π - V^b there. D may be very large and is never below minus the largest sum_h w^b_h r_max. That is
all that `certificates.martingale` needs: no variance, no cut. It bounds the sum over all episodes.

The candidate must be chosen before these episodes are looked at. With n candidates, give each δ / n.
"""

import numpy as np

from surefooted.certificates.martingale import SumOfMeans
from surefooted.errors import InvalidInput
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Ints


def weighted_difference(
    candidate: Policy, baseline: Policy, behaviour: Policy, pairs: Ints, rewards: Floats, delta: float
) -> float:
    """At most what the candidate earns more than the baseline, on average over the starts of these episodes.

    `pairs` [n, H] were chosen by `behaviour`, and earned `rewards` [n, H], counted from `low`. The bound fails with
    probability at most `delta`.

    >>> import surefooted as sf
    >>> space = sf.Space.full(n_states=1, n_actions=2)
    >>> first, both = sf.Policy.always(space, 0), sf.Policy.uniform(space)
    >>> pairs = np.array([[0], [1]] * 500)  # both actions in turn; the first earns 1, the second nothing
    >>> bool(0.4 < weighted_difference(first, both, both, pairs, 1.0 - pairs, delta=0.05) <= 0.5)
    True
    """
    n, H = pairs.shape
    ours, theirs = _weights(candidate, behaviour, pairs), _weights(baseline, behaviour, pairs)
    difference = ((ours - theirs) * rewards).sum(axis=1)
    worst = _largest_weights(baseline, behaviour, H).sum() * candidate.space.r_max
    means, total = SumOfMeans(worst, delta), 0.0
    for i, value in enumerate(difference.tolist()):
        guess = min(total / i, 0.0) if i else 0.0  # known before this episode; one above 0 would make bets smaller
        means.add(max(value, -worst), guess, least=-worst)  # the maximum is for rounding
        total += value
    return float(means.lower / n)


def _rules(policy: Policy, horizon: int) -> Floats:
    """The probability of each pair at each stage, [H, K]."""
    return np.broadcast_to(np.atleast_2d(policy.dense_weights), (horizon, policy.space.n_pairs))


def _weights(policy: Policy, behaviour: Policy, pairs: Ints) -> Floats:
    """How much likelier a policy was to choose the pairs up to each stage, [n, H]."""
    stage = np.arange(pairs.shape[1])
    chosen, by = (_rules(one, pairs.shape[1])[stage, pairs] for one in (policy, behaviour))
    if np.any(by <= 0):
        i, h = np.argwhere(by <= 0)[0].tolist()
        fault = f"episode {i}, step {h}: {policy.space.words(int(pairs[i, h]))} is never chosen by the behaviour policy"
        raise InvalidInput("these episodes cannot be weighted", [fault], "Say who chose: behaviour=policy.")
    return np.asarray(np.cumprod(chosen / by, axis=1))


def _largest_weights(baseline: Policy, behaviour: Policy, horizon: int) -> Floats:
    """The largest weight of the baseline at each stage, [H]; an error if it does what the behaviour never does."""
    b, by = _rules(baseline, horizon), _rules(behaviour, horizon)
    if np.any((b > 0) & (by <= 0)):
        k = int(np.argwhere((b > 0) & (by <= 0))[0][1])
        fault = f"the baseline plays {baseline.space.words(k)}, the behaviour policy never does"
        raise InvalidInput("these episodes cannot be weighted", [fault])
    ratio = np.divide(b, by, out=np.zeros(b.shape), where=by > 0)
    return np.asarray(np.cumprod(ratio.max(axis=1)))
