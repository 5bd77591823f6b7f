"""From counts to a set of plausible MDPs: one function per inequality, each with its event and its probability.

All take `(counts, delta)` and return a `Plausible`. N is the number of visits of a pair, N+ = max(1, N), t = 1 + all
visits, S and A the numbers of states and actions, K that of pairs; where each stage has dynamics of its own, A and K
are those of all stages together. Reward intervals are cut to [0, r_max], probabilities to [0, 1]; a pair never tried
may earn anything and lead anywhere. Reward widths are for rewards in [0, r_max].
"""

from collections.abc import Callable

import numpy as np

from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput
from surefooted.kernels import intervals
from surefooted.sets.incremental import Following
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Floats

Confidence = Callable[[Counts, float], Plausible]


def hoeffding(counts: Counts, delta: float) -> Plausible:
    """Jaksch et al. (2010), Eq. (3) and (4): rewards by Hoeffding, rows in an L1 ball by Weissman et al. (2003).

    |r̂ - r| <= r_max sqrt(7 ln(2 S A t / δ) / (2 N+)) and |p̂ - p|_1 <= sqrt(14 S ln(2 A t / δ) / N+). Fails at time t
    with probability below δ / (15 t^6), hence at any time with probability below δ / 14 (their Lemma 17).
    """
    S, A, n, t = _sizes(counts, delta)
    width_r = counts.space.r_max * np.sqrt(7 * np.log(2 * S * A * t / delta) / (2 * n))
    width_p = np.sqrt(14 * S * np.log(2 * A * t / delta) / n)
    return _ball(counts, width_r, width_p)


def hoeffding_paper(counts: Counts, delta: float) -> Plausible:
    """The paper's App. B: the same with S A more under the roots, and L = ln(5 S A t / δ).

    β_r = r_max sqrt(7 S A L / (2 N+)) and β_p = S sqrt(14 A L / N+). Larger than `hoeffding` for every δ, so its event
    has at least that probability.
    """
    S, A, n, t = _sizes(counts, delta)
    log = np.log(5 * S * A * t / delta)
    width_r = counts.space.r_max * np.sqrt(7 * S * A * log / (2 * n))
    return _ball(counts, width_r, S * np.sqrt(14 * A * log / n))


def simplified_bernstein(counts: Counts, delta: float) -> Plausible:
    """The widths of the paper's experiments (App. `app:experiments`). **Not a valid confidence set**: see below.

    β = σ sqrt(ln(S A / δ) / N+) + b ln(S A / δ) / N+, with σ the empirical standard deviation (over N, not N - 1) and b
    = r_max for rewards, 1 for each p(s' | s, a). There is no union over time nor over next states: ship it for
    reproductions, never for one's own problem.
    """
    return _own_rows(intervals.SIMPLIFIED, counts, delta)


def bernstein(counts: Counts, delta: float) -> Plausible:
    """Empirical Bernstein for each mean reward and each p(s' | s, a), valid for all pairs and times at once.

    Audibert et al. (2009), Th. 1: for n samples in [0, b] and x > 0, |mean - expectation| <= σ sqrt(2 x / n) + 3 b x /
    n with probability at least 1 - 3 exp(-x), σ the empirical standard deviation over n. With x = ln(3 (S + 1) K n (n +
    1) / δ), K the number of pairs, the failures of all S + 1 intervals of all pairs at all n sum to at most δ, since
    the 1 / (n (n + 1)) sum to 1. So M* is in every set, whenever it is asked for, with probability at least 1 - δ.
    """
    return _own_rows(intervals.BERNSTEIN, counts, delta)


def likelihood(counts: Counts, delta: float) -> Plausible:
    """Likelihood-ratio intervals for each mean reward and each p(s' | s, a), valid for all pairs and times at once.

    For a Bernoulli(q) sequence with k successes in n, the mixture B(k + ½, n - k + ½) / B(½, ½) / (q^k (1 - q)^(n - k))
    over Jeffreys' prior is a martingale of mean 1. By Ville's inequality it stays below 1 / δ' for all n at once with
    probability at least 1 - δ', and the q at which it does are an interval. For rewards in [0, r_max], k is their sum
    over r_max: by convexity of x -> a^x b^(1-x) the same ratio is a supermartingale. δ' = δ / ((S + 2) K): S + 1 such
    intervals for each of the K pairs, and `bernstein`'s reward interval with the last share of δ, which is narrower
    when rewards hardly vary. So M* is in every set with probability at least 1 - δ, for a price of ln(n) / 2 in place
    of 2 ln(n) and no constants.
    """
    return _own_rows(intervals.LIKELIHOOD, counts, delta)


KINDS: dict[Confidence, int] = {
    simplified_bernstein: intervals.SIMPLIFIED,
    bernstein: intervals.BERNSTEIN,
    likelihood: intervals.LIKELIHOOD,
}  # sets in which the interval of a row depends on that row's own counts alone


def _own_rows(kind: int, counts: Counts, delta: float) -> Plausible:
    """Boxes whose rows depend on their own counts alone."""
    _sizes(counts, delta)
    return Following(kind, counts, delta).compact()


def _ball(counts: Counts, width_r: Floats, width_p: Floats) -> Plausible:
    """L1 balls around p̂."""
    next_ptr, next_state, count = counts.rows()
    pair = np.repeat(np.arange(counts.n_rows), np.diff(next_ptr))
    p_hat = count / np.maximum(counts.visits, 1)[pair]
    unseen = np.ones(counts.n_rows)
    interval = _reward_interval(counts, width_r)
    return Plausible(
        counts.space, *interval, next_ptr, next_state, p_hat, np.ones_like(p_hat), unseen, width_p, counts.stages
    )


def _reward_interval(counts: Counts, width: Floats) -> tuple[Floats, Floats]:
    """[r̂ - width, r̂ + width] cut to [0, r_max]; all of it for a pair never tried."""
    r_max = counts.space.r_max
    mean = counts.reward_sum / np.maximum(counts.visits, 1)
    new = counts.visits == 0
    lower = np.where(new, 0.0, np.clip(mean - width, 0.0, r_max))
    upper = np.where(new, r_max, np.clip(mean + width, 0.0, r_max))
    return lower, upper


def _sizes(counts: Counts, delta: float) -> tuple[int, int, Floats, int]:
    """S, A (of all stages), N+ [K] and t, once delta is seen to be a probability."""
    if not 0 < delta < 1:
        raise InvalidInput("no such confidence", [f"delta {delta} must lie strictly between 0 and 1"])
    n = np.maximum(counts.visits, 1).astype(np.float64)
    return counts.space.n_states, counts.space.n_actions * counts.stages, n, counts.total + 1
