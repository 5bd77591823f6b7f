"""What segments of policies earn at worst over a set of plausible MDPs, backwards from the last step to the first."""

import numpy as np

from surefooted.arrays import Floats
from surefooted.kernels.compile import allocating
from surefooted.kernels.rows import Rows
from surefooted.kernels.sorting import Work, workspace
from surefooted.kernels.structs import Book, Limits, Mixture
from surefooted.kernels.value_iteration import step_back

BASELINE_SHARE = 15  # segments of the baseline get so many times fewer sweeps: each can lose no more than a span


@allocating
def play_backwards(mixture: Mixture, rows: Rows, r: Floats, steps: int, limits: Limits, work: Work, v: Floats) -> int:
    """`v` [S] becomes a lower bound on what `steps` steps of a policy earn before v is collected; the sweeps it took.

    L u >= u + c implies L^n v >= u + n c + min(v - u), since L is monotone and moves with constants. With u = v that
    loses next to nothing once all entries change alike. Then, or when the sweeps run out, one extrapolation does the
    remaining steps. If the entries still do not change alike, as on a cycle, damped iteration looks for a better u, and
    the better bound counts in each state. With `r` empty nothing is earned, and v cannot fall below its own minimum.
    """
    n, earns = len(v), len(r) > 0
    rewards, made = r if earns else np.zeros(len(rows.slack)), 0
    for sweep in range(steps):
        made += 1
        lower, upper = step_back(mixture, rows, rewards, -1.0, work, v)
        left = steps - sweep
        alike = (upper - lower) * left <= limits.tolerance
        if left > 1 and (alike or sweep + 1 >= limits.sweeps):
            least = -np.inf if earns else v[work.order[0]]
            u = v.copy()
            for s in range(n):
                v[s] = max(v[s] + left * lower, least)
            if earns and not alike:
                best, origin = lower, u.copy()
                for _ in range(limits.sweeps):
                    for s in range(n):
                        u[s] += 0.5 * work.change[s]
                    best, upper = step_back(mixture, rows, rewards, -1.0, work, u)
                    made += 1
                    if (upper - best) * left <= limits.tolerance:
                        break
                gap = np.inf
                for s in range(n):
                    gap = min(gap, origin[s] - u[s])
                for s in range(n):
                    v[s] = max(v[s], u[s] + left * best + gap)
            break
        for s in range(n):
            v[s] += work.change[s]
    return made


@allocating
def affordable_steps(
    mixture: Mixture,
    rows: Rows,
    r: Floats,
    budget: float,
    limits: Limits,
    terminal: Floats,
    v: Floats,
    cost: Floats,
) -> tuple[int, int]:
    """The largest n <= limits.sweeps such that no stop after 1, .., n steps can lose more than `budget`; sweeps made.

    `v` [S] is collected at the stop, `r` is relative to what each step must earn. With u_m the pessimistic value of m
    steps, stopping after m loses at most max over s of terminal(s) - u_m(s). `cost[0]` gets the largest of these
    losses up to n, `cost[1]` the one that was too large.
    """
    n, most = len(v), limits.sweeps
    work, u = workspace(n), v.copy()
    cost[0], cost[1] = 0.0, 0.0
    for step in range(1, most + 1):
        lower, upper = step_back(mixture, rows, r, -1.0, work, u)
        loss = -np.inf
        for s in range(n):
            u[s] += work.change[s]
            loss = max(loss, terminal[s] - u[s])
        if loss > budget:
            cost[1] = loss
            return step - 1, step
        cost[0] = max(cost[0], loss)
        if (upper - lower) * (most - step) <= limits.tolerance:
            if lower >= 0.0:
                return most, step
            extra = most - step  # each further step loses at most -lower
            if -lower * extra > budget - loss:
                extra = int((budget - loss) / -lower)
            cost[0] = max(cost[0], loss - extra * lower)
            cost[1] = loss - (extra + 1) * lower
            return step + extra, step
    return most, most


@allocating
def induct(book: Book, rows: Rows, r: Floats, bias: Floats, limits: Limits, work: Work, v: Floats) -> int:
    """`v` [S] becomes a lower bound on what all segments of a book earn before v is collected; the sweeps it took.

    `r` [K] is relative to the baseline's gain per step. With its `bias` [S], r + p bias >= bias for the baseline in the
    true MDP, so that r + p v >= bias + p (v - bias): in its segments the worst row p acts on v - bias only. The last
    segment comes first.
    """
    made, nothing = 0, np.zeros(0)
    fewer = Limits(limits.tolerance, max(1, limits.sweeps // BASELINE_SHARE))
    for i in range(len(book.policy) - 1, -1, -1):
        q = book.policy[i]
        is_baseline = q == 0
        mixture = Mixture(book.state_ptr[q], book.pairs, book.weights)
        for s in range(len(v)):
            v[s] -= bias[s] if is_baseline else 0.0
        earned, ends = (nothing, fewer) if is_baseline else (r, limits)
        made += play_backwards(mixture, rows, earned, book.steps[i], ends, work, v)
        for s in range(len(v)):
            v[s] += bias[s] if is_baseline else 0.0
    return made


@allocating
def segment_losses(book: Book, rows: Rows, r: Floats, bias: Floats, limits: Limits, work: Work, losses: Floats) -> None:
    """`losses` [n]: what each segment can lose to the baseline from its worst first state; its own lose nothing."""
    v = np.empty(len(bias))
    for i in range(len(book.policy)):
        losses[i] = 0.0
        q = book.policy[i]
        if q > 0:
            for s in range(len(v)):
                v[s] = bias[s]
            mixture = Mixture(book.state_ptr[q], book.pairs, book.weights)
            play_backwards(mixture, rows, r, book.steps[i], limits, work, v)
            losses[i] = -np.inf
            for s in range(len(v)):
                losses[i] = max(losses[i], bias[s] - v[s])
