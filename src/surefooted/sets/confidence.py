"""From counts to a set of plausible MDPs: one function per inequality, each with its event and its probability.

All take `(counts, delta)` and return a `Plausible`. N is the number of visits of a pair, N+ = max(1, N), and t is 1
plus the number of all visits. S, A and K are the numbers of states, actions and pairs. Where each stage has dynamics of
its own, A and K are those of all stages together.

Rewards are counted from `low` (`tables.money`). Their intervals are cut to [0, r_max]: they are for rewards in the
range of the space. Probabilities are cut to [0, 1]. A pair never tried may earn anything and lead anywhere.
"""

from collections.abc import Callable

import numpy as np

from surefooted.data.counts import Counts
from surefooted.errors import InvalidInput, did_you_mean
from surefooted.kernels import intervals
from surefooted.sets.incremental import IncrementalSet
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Floats

__all__ = ["bernstein", "hoeffding", "hoeffding_paper", "likelihood", "named", "simplified_bernstein"]

Confidence = Callable[[Counts, float], Plausible]


def named(confidence: Confidence | str) -> Confidence:
    """The function of this module that has this name; a function is returned as it is.

    >>> import surefooted as sf
    >>> sf.confidence.named("likelihood") is sf.confidence.likelihood
    True

    - `confidence`: the name, or a function.
    """
    if callable(confidence):
        return confidence
    if confidence not in NAMES:
        known = f"there are {', '.join(NAMES)}, or a function of (counts, delta)"
        meant = did_you_mean(confidence, NAMES)
        raise InvalidInput("no such confidence", [f"confidence: there is no {confidence!r}; {known}.{meant}"])
    return _BY_NAME[str(confidence)]


def hoeffding(counts: Counts, delta: float) -> Plausible:
    """Jaksch et al. (2010), Eq. (3) and (4): rewards by Hoeffding, rows in an L1 ball by Weissman et al. (2003).

    |r̂ - r| <= r_max sqrt(7 ln(2 S A t / δ) / (2 N+)) and |p̂ - p|_1 <= sqrt(14 S ln(2 A t / δ) / N+). The set excludes
    M* at time t with probability below δ / (15 t^6), hence at any time with probability below δ / 14 (their Lemma 17).

    - `counts`: what was observed.
    - `delta`: the probability with which the set may ever exclude the true MDP.

    >>> import surefooted as sf
    >>> counts = sf.Counts(sf.Space.full(n_states=2, n_actions=1))
    >>> counts.add_steps([0] * 1000, [0.5] * 1000, [1] * 1000)  # pair 0: 0.5 each time, and always to state 1
    >>> plausible = hoeffding(counts, delta=0.05)
    >>> [round(float(bound[0]), 2) for bound in (plausible.r_lower, plausible.r_upper)]
    [0.3, 0.7]
    """
    S, A, n, t = _sizes(counts, delta)
    width_r = counts.space.r_max * np.sqrt(7 * np.log(2 * S * A * t / delta) / (2 * n))
    width_p = np.sqrt(14 * S * np.log(2 * A * t / delta) / n)
    return _ball(counts, width_r, width_p)


def hoeffding_paper(counts: Counts, delta: float) -> Plausible:
    """The paper's App. B: as `hoeffding`, with a factor S A more under the roots and L = ln(5 S A t / δ).

    β_r = r_max sqrt(7 S A L / (2 N+)) and β_p = S sqrt(14 A L / N+). The set contains that of `hoeffding` for every δ,
    so its event has at least that probability.

    - `counts`: what was observed.
    - `delta`: the probability with which the set may ever exclude the true MDP.

    >>> import surefooted as sf
    >>> counts = sf.Counts(sf.Space.full(n_states=2, n_actions=1))
    >>> counts.add_steps([0] * 1000, [0.5] * 1000, [1] * 1000)  # pair 0: 0.5 each time, and always to state 1
    >>> plausible = hoeffding_paper(counts, delta=0.05)
    >>> [round(float(bound[0]), 2) for bound in (plausible.r_lower, plausible.r_upper)]
    [0.21, 0.79]
    """
    S, A, n, t = _sizes(counts, delta)
    log = np.log(5 * S * A * t / delta)
    width_r = counts.space.r_max * np.sqrt(7 * S * A * log / (2 * n))
    return _ball(counts, width_r, S * np.sqrt(14 * A * log / n))


def simplified_bernstein(counts: Counts, delta: float) -> Plausible:
    """The widths of the paper's experiments (App. `app:experiments`). **Not a valid confidence set**: see below.

    β = σ sqrt(ln(S A / δ) / N+) + b ln(S A / δ) / N+. Here σ is the empirical standard deviation (over N, not N - 1),
    and b is r_max for rewards and 1 for each p(s' | s, a). There is no union bound over time or over next states. Use
    it to reproduce the paper, never on your own problem.

    - `counts`: what was observed.
    - `delta`: enters the widths; nothing holds with this probability.

    >>> import surefooted as sf
    >>> counts = sf.Counts(sf.Space.full(n_states=2, n_actions=1))
    >>> counts.add_steps([0] * 1000, [0.5] * 1000, [1] * 1000)  # pair 0: 0.5 each time, and always to state 1
    >>> plausible = simplified_bernstein(counts, delta=0.05)
    >>> [round(float(bound[0]), 3) for bound in (plausible.r_lower, plausible.r_upper)]
    [0.496, 0.504]
    """
    return _intervals(intervals.SIMPLIFIED, counts, delta)


def bernstein(counts: Counts, delta: float) -> Plausible:
    """Empirical Bernstein intervals for each mean reward and each p(s' | s, a), valid for all pairs and times at once.

    Audibert et al. (2009), Th. 1: for n samples in [0, b] and x > 0, |mean - expectation| <= σ sqrt(2 x / n) + 3 b x /
    n with probability at least 1 - 3 exp(-x), where σ is the empirical standard deviation over n. Each pair has S + 1
    intervals. With x = ln(3 (S + 1) K n (n + 1) / δ) the failure probabilities of all of them, at all n, sum to at most
    δ, since the 1 / (n (n + 1)) sum to 1. So M* is in every set, at all times, with probability at least 1 - δ.

    - `counts`: what was observed.
    - `delta`: the probability with which the set may ever exclude the true MDP.

    >>> import surefooted as sf
    >>> counts = sf.Counts(sf.Space.full(n_states=2, n_actions=1))
    >>> counts.add_steps([0] * 1000, [0.5] * 1000, [1] * 1000)  # pair 0: 0.5 each time, and always to state 1
    >>> plausible = bernstein(counts, delta=0.05)
    >>> [round(float(bound[0]), 2) for bound in (plausible.r_lower, plausible.r_upper)]
    [0.44, 0.56]
    """
    return _intervals(intervals.BERNSTEIN, counts, delta)


def likelihood(counts: Counts, delta: float) -> Plausible:
    """Likelihood-ratio intervals for each mean reward and each p(s' | s, a), valid for all pairs and times at once.

    For a Bernoulli(q) sequence with k successes in n draws, the mixture B(k + ½, n - k + ½) / B(½, ½) / (q^k (1 - q)^(n
    - k)) over Jeffreys' prior is a martingale of mean 1. By Ville's inequality it stays below 1 / δ' for all n at once
    with probability at least 1 - δ'. The q for which it does form an interval.

    For rewards x_i >= 0 of mean μ, the mixture of Π (1 - λ + λ x_i / μ) over λ uniform in [0, 1] is such a martingale,
    too. It excludes a μ that is too small with probability at most δ' / 2. The distances r_max - x_i give the upper
    end, with the other δ' / 2. A lower bound on the mixture depends on n, Σ x_i and Σ x_i² only, and has a closed form:
    docs/guarantees.md, Mean rewards. It makes the interval narrow when rewards hardly vary.

    Each of the K pairs has S + 1 intervals. Hence δ' = δ / ((S + 1) K), and M* is in every set, at all times, with
    probability at least 1 - δ. The price of all times at once is ln(n) / 2, in place of 2 ln(n) for `bernstein`,
    without constants.

    - `counts`: what was observed.
    - `delta`: the probability with which the set may ever exclude the true MDP.

    >>> import surefooted as sf
    >>> counts = sf.Counts(sf.Space.full(n_states=2, n_actions=1))
    >>> counts.add_steps([0] * 1000, [0.5] * 1000, [1] * 1000)  # pair 0: 0.5 each time, and always to state 1
    >>> plausible = likelihood(counts, delta=0.05)
    >>> [round(float(bound[0]), 3) for bound in (plausible.r_lower, plausible.r_upper)]
    [0.496, 0.504]
    """
    return _intervals(intervals.LIKELIHOOD, counts, delta)


KINDS: dict[Confidence, int] = {
    simplified_bernstein: intervals.SIMPLIFIED,
    bernstein: intervals.BERNSTEIN,
    likelihood: intervals.LIKELIHOOD,
}  # sets of intervals, in which each row depends on its own counts alone


def _intervals(kind: int, counts: Counts, delta: float) -> Plausible:
    """An interval for each mean reward and each probability."""
    _sizes(counts, delta)
    return IncrementalSet(kind, counts, delta).current().compact()


def _ball(counts: Counts, width_r: Floats, width_p: Floats) -> Plausible:
    """L1 balls around p̂."""
    next_ptr, next_state, count = counts.rows()
    pair = np.repeat(np.arange(counts.n_rows), np.diff(next_ptr))
    p_hat = count / np.maximum(counts.visits, 1)[pair]
    unseen = np.ones(counts.n_rows)
    interval = _reward_interval(counts, width_r)
    rows = (next_ptr, next_state, p_hat, np.ones_like(p_hat), unseen)
    return Plausible._of_arrays(counts.space, *interval, *rows, width=width_p, stages=counts.stages)


def _reward_interval(counts: Counts, width: Floats) -> tuple[Floats, Floats]:
    """[r̂ - width, r̂ + width] cut to [0, r_max]; all of [0, r_max] for a pair never tried."""
    r_max = counts.space.r_max
    mean = counts.reward_sum / np.maximum(counts.visits, 1)
    new = counts.visits == 0
    lower = np.where(new, 0.0, np.clip(mean - width, 0.0, r_max))
    upper = np.where(new, r_max, np.clip(mean + width, 0.0, r_max))
    return lower, upper


def _sizes(counts: Counts, delta: float) -> tuple[int, int, Floats, int]:
    """S, A (of all stages), N+ [K] and t; an error if delta is no probability."""
    if not 0 < delta < 1:
        raise InvalidInput("no such confidence", [f"delta {delta} must lie strictly between 0 and 1"])
    n = np.maximum(counts.visits, 1).astype(np.float64)
    return counts.space.n_states, counts.space.n_actions * counts.stages, n, counts.total + 1


_BY_NAME: dict[str, Confidence] = {
    function.__name__: function
    for function in (hoeffding, hoeffding_paper, simplified_bernstein, bernstein, likelihood)
}
NAMES = tuple(_BY_NAME)
