"""One MDP drawn from the posterior of the counts, for learners that sample (Osband, Russo & Van Roy 2013).

Pairs are independent of each other, and rewards of next states.

*Rows.* The prior is a Dirichlet distribution with 1/S for each of the S states: what one visit weighs, over all of
them. Given n visits of a pair, n_y of which led to y, its row is drawn as a mixture (Ferguson 1973; Sethuraman 1994)

    sum over y seen of w_y δ_y + w_new (β δ_Y + (1 - β) δ_Z),    (w_y .., w_new) ~ Dirichlet(n_y .., 1),

with β uniform on [0, 1] and Y and Z uniform over the states. The exact posterior has another draw from the prior in
place of δ_Z. This one has the same means, E p(y) = (n_y + 1/S) / (n + 1), and a row has two transitions more than seen
successors, not S. All rows of an MDP share their Z: every state can reach it, so that the MDP has one optimal gain.

*Rewards.* The prior is half a visit that earned 0 and half a visit that earned r_max. Let m and s² be the mean and the
variance of the rewards of a pair, in units of r_max, over its n visits and this one. The mean reward is drawn from the
Beta distribution with mean m and variance s² / (n + 2). If every reward is 0 or r_max, this is the exact posterior of
Jeffreys' prior: Beta(x + 1/2, n - x + 1/2) if x of the n visits earned r_max. Means of rewards that vary less are known
sooner.

*Knowledge.* With the set of plausible MDPs that knowledge made, the prior of a pair with declared successors (or
mechanics) has 1/M for each of the M possible ones, and nothing else. Rewards and such rows are then moved into the
intervals of the set. This uses known mean rewards, ranges, functions and shared noise as far as the set does; it does
not draw one common law for pairs that share their noise.
"""

import numpy as np

from surefooted.arrays import freeze
from surefooted.data.counts import Counts
from surefooted.kernels.intervals import Sums
from surefooted.kernels.posterior import NewStates, mix_rows, reward_posterior
from surefooted.kernels.structs import Table
from surefooted.sets.plausible import Plausible
from surefooted.tables.space import Floats, Ints


def draw(rng: np.random.Generator, counts: Counts, known: Plausible | None = None) -> Table:
    """An MDP drawn from the posterior of `counts`; `known` is the set of plausible MDPs, if knowledge made it."""
    if known is None:
        next_ptr, next_state, count = counts.rows()
        weight, new_weight = rng.standard_gamma(count), rng.standard_exponential(counts.n_rows)
        r = draw_rewards(rng, counts)
    else:
        next_ptr, next_state = known.next_ptr, known.next_state
        weight, new_weight = _declared_weights(rng, counts, known)
        r = np.clip(draw_rewards(rng, counts), known.r_lower, known.r_upper)
    n, n_states = counts.n_rows, counts.space.n_states
    size = next_state.size + 2 * n
    drawn = Table(np.empty(n + 1, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size), r)
    new = NewStates(new_weight, rng.random(n), rng.integers(n_states, size=n), int(rng.integers(n_states)))
    mix_rows(next_ptr, next_state, weight, new, drawn)
    freeze(*drawn)  # as tables are: kernels are compiled for one kind
    return drawn


def draw_rewards(rng: np.random.Generator, counts: Counts) -> Floats:
    """A mean reward of each row from its posterior, [rows]."""
    r_max, a, b = counts.space.r_max, np.empty(counts.n_rows), np.empty(counts.n_rows)
    reward_posterior(Sums(counts.visits, counts.reward_sum, counts.reward_square), r_max, a, b)
    return r_max * rng.beta(a, b)


def _declared_weights(rng: np.random.Generator, counts: Counts, known: Plausible) -> tuple[Floats, Floats]:
    """The weights of the successors that a set stores, [nnz], and of all other states together, [rows].

    Where nothing else is possible, they are probabilities in the intervals of the set.
    """
    n, lengths = counts.n_rows, np.diff(known.next_ptr)
    row, is_open = np.repeat(np.arange(n), lengths), known.unseen > 0
    count = _counts_of(known, counts, row)
    weight = rng.standard_gamma(np.where(is_open[row], count, count + 1 / lengths[row]))
    p = _into_intervals(known, row, weight / np.bincount(row, weight, n)[row])
    return np.where(is_open[row], weight, p), is_open * rng.standard_exponential(n)


def _counts_of(known: Plausible, counts: Counts, row: Ints) -> Floats:
    """How often each successor that the set stores was seen, [nnz]; `row` [nnz] is the row of each."""
    next_ptr, next_state, count = counts.rows()
    keys = row * counts.space.n_states + known.next_state
    seen = np.repeat(np.arange(counts.n_rows), np.diff(next_ptr)) * counts.space.n_states + next_state
    order, found = np.argsort(keys), np.zeros(keys.size)
    found[order[np.searchsorted(keys, seen, sorter=order)]] = count
    return found


def _into_intervals(known: Plausible, row: Ints, p: Floats) -> Floats:
    """Probabilities cut to their intervals; successors share what is then too much or missing, by the room they have.

    What this gives for rows that may also lead elsewhere is not used.
    """
    cut = np.clip(p, known.p_lower, known.p_upper)
    excess = np.bincount(row, cut, known.n_rows)[row] - 1
    room = np.where(excess > 0, cut - known.p_lower, known.p_upper - cut)
    total = np.bincount(row, room, known.n_rows)[row]
    return cut - excess * np.divide(room, total, out=np.zeros(p.size), where=total > 0)
