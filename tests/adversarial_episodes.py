"""The same for episodes: nasty finite-horizon problems, starts that mean harm, and what CUCB-VI claimed of each.

As in `adversarial.py`, sets that know the truth let exploration begin at once, so that the proved margin is spent to
the last drop. What is exact is computed here with dense matrices, and every budget and every choice is derived once
more from the list of all episodes and of all bounds that the learner gave.

Run `python tests/adversarial_episodes.py 2000 7` for 2000 problems from seed 7; it prints one line for the
set of plausible MDPs alone and one for the set with the bound from all returns.
"""

import sys
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

import adversarial
from surefooted.agents.cucbvi import CUCBVI
from surefooted.agents.episodic_learner import EpisodicLearner
from surefooted.agents.euler import EULERLearner
from surefooted.agents.ucbvi import UCBVILearner
from surefooted.evaluation import margins as oracle
from surefooted.problems.problem import Problem
from surefooted.sets.confidence import bernstein, likelihood
from surefooted.sets.plausible import Plausible
from surefooted.simulation.playing import simulate, simulate_episodes
from surefooted.tables.baseline import Baseline
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise
from surefooted.tables.staged import StagedMDP

SHARE = 0.3  # of δ, for the bound from all returns
TOLERANCE = 1e-9  # on what is proved
ROUNDING = 1e-10  # a choice whose two sides are as close as this may go either way


# -- problems ---------------------------------------------------------------------------------------------------------


def one_state(rng):
    """S = 1: a bandit, or nothing to choose at all."""
    A = int(rng.integers(1, 5))
    return np.ones((1, A, 1)), np.round(rng.random((1, A)), int(rng.choice([0, 1, 9])))


def barren(rng):
    """Some states are for ever, and pay nothing; the others may fall into them."""
    p, r = adversarial.garnet(rng)
    dead = rng.random(len(p)) < 0.4
    for s in np.flatnonzero(dead):
        p[s], r[s] = 0.0, 0.0
        p[s, :, s] = 1.0
    return p, r


def cliff(rng):
    """Deterministic: the first action walks on and is paid at the end, the others fall back and are paid at once."""
    S, A = int(rng.integers(2, 6)), int(rng.integers(2, 4))
    p, r = np.zeros((S, A, S)), np.zeros((S, A))
    p[np.arange(S), 0, np.minimum(np.arange(S) + 1, S - 1)] = 1.0
    p[:, 1:, 0], r[:, 1:] = 1.0, float(rng.choice([0.0, 0.1, 0.3]))
    r[-1] = 1.0
    return p, r


KINDS = (
    adversarial.garnet,
    adversarial.trap,
    one_state,
    adversarial.cycle,
    barren,
    adversarial.near_absorbing,
    cliff,
    adversarial.unreachable,
    adversarial.dull,
    adversarial.ring,
)
BASELINES = ("first", "random", "randomised", "optimal", "worst", "staged", "staged randomised", "nearly optimal")
NOISES = (Noise("bernoulli"), Noise(), Noise("uniform", 0.3), Noise("truncated_gaussian", 0.5))
HORIZONS = (1, 2, 3, 4, 7)


@dataclass
class Case:
    """A problem over a finite horizon with all that is exact about it."""

    name: str
    mdp: TabularMDP | StagedMDP
    policy: Policy  # the baseline
    horizon: int

    def __post_init__(self):
        self.space, H = self.mdp.space, self.horizon
        tables = [self.mdp.stage(h) for h in range(H)] if self.mdp.stages > 1 else [self.mdp] * H
        dense = [adversarial.dense(table) for table in tables]
        self.p, self.r = np.stack([p for p, _ in dense]), np.stack([r for _, r in dense])  # [H, S, A, S], [H, S, A]
        self._keys, self._values = {}, {}
        self.values = self.of(self.policy)  # [S]

    def key(self, policy):
        """What tells policies apart: one decision rule is the same as H equal ones."""
        if policy.key not in self._keys:
            self._keys[policy.key] = np.broadcast_to(policy.probabilities, self.r.shape).tobytes()
        return self._keys[policy.key]

    def of(self, policy):
        """V_1 [S] of a policy, by dense matrices."""
        key = self.key(policy)
        if key not in self._values:
            weights = np.broadcast_to(policy.probabilities, self.r.shape)
            v = np.zeros(self.space.n_states)
            for h in reversed(range(self.horizon)):
                v = np.einsum("sa,sa->s", weights[h], self.r[h] + self.p[h] @ v)
            self._values[key] = v
        return self._values[key]

    def extreme(self, sign):
        """The pairs [H, S] of an optimal policy (sign 1), or of a worst one (-1)."""
        v, pair = np.zeros(self.space.n_states), np.zeros((self.horizon, self.space.n_states), dtype=np.int64)
        for h in reversed(range(self.horizon)):
            q = sign * (self.r[h] + self.p[h] @ v)
            best = np.argmax(q, axis=1)
            pair[h], v = self.space.pair_ptr[:-1] + best, sign * q[np.arange(len(q)), best]
        return pair

    def holds(self, plausible, tolerance=1e-12):
        """Whether a set of boxes holds the truth."""
        rows, S = plausible.r_lower.size, self.space.n_states
        p, r = self.p.reshape(-1, S), self.r.ravel()
        p, r = p[:rows], r[:rows]
        row = np.repeat(np.arange(rows), np.diff(plausible.next_ptr))
        lower, upper = np.zeros((rows, S)), np.repeat(plausible.unseen[:, None], S, axis=1)
        lower[row, plausible.next_state], upper[row, plausible.next_state] = plausible.p_lower, plausible.p_upper
        inside = (p >= lower - tolerance) & (p <= upper + tolerance)
        paid = (r >= plausible.r_lower - tolerance) & (r <= plausible.r_upper + tolerance)
        return bool(inside.all() and paid.all())

    def baseline(self, is_known):
        """The baseline, with what it earns or without."""
        return Baseline(self.policy, values=self.values if is_known else None)


def spare(case, is_known):
    """An allowance that buys nothing, for a baseline that earns nothing: a share of nothing is refused without one."""
    return 1e-12 if is_known and not np.any(case.values > 0) else 0.0


def some_weights(rng, shape):
    weights = rng.random(shape) + 1e-3
    weights[rng.random(shape) < 0.3] = 0.0
    weights[weights.sum(axis=-1) == 0] = 1.0
    return weights / weights.sum(axis=-1, keepdims=True)


def a_policy(rng, case, kind):
    space, H = case.space, case.horizon
    shape = (space.n_states, space.n_actions)
    if kind in ("optimal", "nearly optimal", "worst"):
        policy = Policy(space, pair=case.extreme(-1 if kind == "worst" else 1))
        return policy.mixed_with(Policy.uniform(space), 0.1) if kind == "nearly optimal" else policy
    if kind == "randomised":
        return Policy.randomised(space, some_weights(rng, shape))
    if kind == "staged randomised":
        return Policy.randomised(space, some_weights(rng, (H, *shape)))
    if kind == "staged":
        return Policy.deterministic(space, rng.integers(0, space.n_actions, (H, space.n_states)))
    actions = rng.integers(0, space.n_actions, space.n_states) if kind == "random" else np.zeros(space.n_states, int)
    return Policy.deterministic(space, actions)


def a_case(rng, kind=None, baseline=None, staged=None):
    """A problem; `kind` and `baseline` name one of the above, `staged` says whether each stage has its own dynamics."""
    make = KINDS[int(rng.integers(len(KINDS)))] if kind is None else kind
    which = str(rng.choice(BASELINES)) if baseline is None else baseline
    noise = NOISES[int(rng.integers(len(NOISES)))]
    r_max = float(rng.choice([1.0, 1.0, 0.5, 3.0]))
    H = int(rng.choice(HORIZONS))
    p, r = make(rng)
    mdp = TabularMDP.from_arrays(p, r * r_max, noise=noise, r_max=r_max)
    staged = bool(rng.random() < 0.25) if staged is None else staged
    if staged:
        tables = [mdp]
        for _ in range(H - 1):  # the same states and actions, in another order
            order = rng.permutation(len(p))
            moved = TabularMDP.from_arrays(p[order], r[order] * r_max, noise=noise, r_max=r_max)
            tables.append(moved if rng.random() < 0.7 else mdp)
        mdp = StagedMDP(tables)
    case = Case("", mdp, Policy.always(mdp.space, 0), H)
    name = f"{make.__name__}, {which} baseline, H={H}{', staged' if staged else ''}"
    return Case(name, mdp, a_policy(rng, case, which), H)


def some_starts(rng, case, episodes):
    """First states [episodes] that nobody would wish for."""
    S = case.space.n_states
    poor, rich = int(np.argmin(case.values)), int(np.argmax(case.values))
    style = int(rng.integers(7))
    if style == 0:
        return np.full(episodes, int(rng.integers(S)))
    if style == 1:
        return rng.integers(0, S, episodes)
    if style == 2:  # save up where it is cheap, then somewhere new
        return np.where(np.arange(episodes) < episodes * 2 // 3, poor, rich)
    if style == 3:
        return np.where(np.arange(episodes) < episodes * 2 // 3, rich, rng.integers(0, S, episodes))
    if style == 4:
        return np.where(np.arange(episodes) % 2 == 0, poor, rich)
    if style == 5:  # rare visits of all the others
        return np.where(rng.random(episodes) < 0.1, rng.integers(0, S, episodes), rich)
    return np.arange(episodes) * S // episodes  # each in turn, and never again


# -- sets that hold the truth -----------------------------------------------------------------------------------------

STYLES = ("exact", "worst", "best", "edge", "box", "breathing", "blank")


class Knowing(adversarial.Knowing):
    """A set that knows the truth and shrinks around it, for one table or one for each stage.

    best: what is promised is the truth, what is proved is less. The others are those of `adversarial.Knowing`.
    """

    def __init__(self, mdp, style, scale, seed):
        super().__init__(mdp, style, scale, seed)
        self.side = np.random.default_rng(seed).integers(0, 2, (2, mdp.r.size))

    def __call__(self, counts, delta):
        return self.build(counts)

    def build(self, counts):
        mdp, space = self.mdp, self.mdp.space
        n = counts.visits if counts.stages == mdp.stages else np.tile(counts.visits, mdp.stages)
        rows = mdp.r.size
        if self.style == "exact":
            return Plausible.exactly(mdp)
        width = self.scale / np.sqrt(1.0 + n)
        if self.style == "breathing":
            width *= np.random.default_rng([self.seed, counts.total]).random(rows) ** 2
        down, up = self.side if self.style == "edge" else np.ones((2, rows))
        down, up = (down, up * (self.style != "best")) if self.style != "worst" else (np.zeros(rows), up)
        r_lower = np.maximum(mdp.r - width * down * space.r_max, 0.0)
        r_upper = np.minimum(mdp.r + width * up * space.r_max, space.r_max)
        successors = (mdp.next_ptr, mdp.next_state)
        if self.style in ("worst", "best"):
            return Plausible(space, r_lower, r_upper, *successors, mdp.p, mdp.p, np.zeros(rows), stages=mdp.stages)
        row = np.repeat(np.arange(rows), np.diff(mdp.next_ptr))
        lower, upper = np.maximum(mdp.p - width[row] * down[row], 0), np.minimum(mdp.p + width[row], 1)
        unseen = np.minimum(width * down, 1.0)
        if self.style == "blank":
            new = n == 0
            r_lower, r_upper = np.where(new, 0.0, r_lower), np.where(new, space.r_max, r_upper)
            unseen[new] = 1.0
            successors = (np.r_[0, np.cumsum(np.where(new, 0, np.diff(mdp.next_ptr)))], mdp.next_state[~new[row]])
            lower, upper = lower[~new[row]], upper[~new[row]]
        return Plausible(space, r_lower, r_upper, *successors, lower, upper, unseen, stages=mdp.stages)


# -- learners that are watched, and learners that mean harm ------------------------------------------------------------


class Watched:
    """Notes what was proposed and which bounds were given, and whether these were right and the set held the truth."""

    def watch(self, case, must_hold):
        self.case, self.must_hold, self.held, self.wrong, self.log, self._seen = case, must_hold, True, [], [], -1
        return self

    def propose(self):
        policy = super().propose()
        self.log.append(("propose", policy))
        return policy

    def bound(self, policies, side):
        answer = super().bound(policies, side)
        exact = np.stack([self.case.of(policy) for policy in policies])
        self.log.append((side, list(policies), answer.copy()))
        self._check_event()
        excess = float(np.max(answer - exact if side == "pessimistic" else exact - answer))
        if excess > TOLERANCE and self.held:
            self.wrong.append(f"a {side} bound is wrong by {excess:.3g} though the set holds the truth")
        return answer

    def _check_event(self):
        if self._seen == self.counts.total:
            return
        self._seen = self.counts.total
        if getattr(self, "bonus", "") == "hoeffding":
            self.held = self.held and self._e1()
        else:
            self.held = self.held and self.case.holds(self.plausible())
        if self.must_hold and not self.held:
            self.wrong.append("a set that knows the truth does not hold it")

    def _e1(self):
        """The event E_1 for what was counted so far."""
        counts, mdp, S = self.counts, self.case.mdp, self.space.n_states
        n = np.maximum(counts.visits, 1)
        log = np.log(3 * self.limit * S * self.space.n_actions * counts.stages / self.delta)
        ptr, state, count = counts.rows()
        for row in np.flatnonzero(counts.visits):
            m = row % mdp.r.size
            p, at, true = np.zeros(S), slice(ptr[row], ptr[row + 1]), slice(mdp.next_ptr[m], mdp.next_ptr[m + 1])
            p[state[at]] = count[at] / n[row]
            p[mdp.next_state[true]] -= mdp.p[true]
            off = abs(counts.reward_sum[row] / n[row] - mdp.r[m])
            if off > 2 * mdp.r_max * np.sqrt(log / n[row]) or np.abs(p).sum() > np.sqrt(2 * S * log / n[row]):
                return False
        return True


class WatchedUCBVI(Watched, UCBVILearner):
    pass


class WatchedEULER(Watched, EULERLearner):
    pass


class Wicked(EpisodicLearner):
    """Proposes whatever is worst for the certificate."""

    def harm(self, case, seed, few):
        self.rng = np.random.default_rng(seed)
        self.case = case
        makes = ("worst", "optimal", "staged", "random", "randomised", "staged randomised", "nearly optimal")
        self.pool = [a_policy(self.rng, case, kind) for kind in makes] + [case.policy]
        self.few = few
        return self

    def propose(self):
        kinds = ("staged", "random", "randomised", "staged randomised")
        if self.few or self.rng.random() < 0.7:
            return self.pool[int(self.rng.integers(len(self.pool)))]
        return a_policy(self.rng, self.case, kinds[int(self.rng.integers(len(kinds)))])


class Mischief(Watched, Wicked):
    pass


class Moody(Wicked):
    """Its bounds hold, but may be better or worse when asked again, as those of a learner that samples may be."""

    def bound(self, policies, side):
        answer, most = super().bound(policies, side), self.horizon * self.space.r_max
        share = self.rng.choice([0.0, 0.02, 0.3, 1.0], size=(len(policies), 1), p=[0.4, 0.3, 0.2, 0.1])
        return answer * (1 - share) if side == "pessimistic" else answer + share * np.maximum(most - answer, 0.0)


class MoodyMischief(Watched, Moody):
    pass


LEARNERS = ("mischief", "mischief", "mischief", "moody", "boxes", "boxes", "euler", "freedman", "hoeffding")


def a_learner(rng, case, kind, style, episodes):
    """A learner by its kind, with a set by its style: one of STYLES, `likelihood` or `bernstein`."""
    honest = {"likelihood": likelihood, "bernstein": bernstein}
    scale, seed = float(rng.choice([1.0, 0.3, 0.03])), int(rng.integers(2**31))
    options = {
        "stage_dependent": case.mdp.stages > 1 or (style in honest and rng.random() < 0.3),
        "confidence": honest[style] if style in honest else Knowing(case.mdp, style, scale, seed),
        "delta": float(rng.choice([0.05, 0.5])),
    }
    size = (case.space, case.horizon)
    if kind in ("mischief", "moody"):
        learner = (Mischief if kind == "mischief" else MoodyMischief)(*size, **options)
        learner.harm(case, seed, bool(rng.random() < 0.5))
    elif kind == "euler":
        learner = WatchedEULER(*size, **options)
    else:
        limit = None if kind == "boxes" else episodes + int(rng.integers(3))
        learner = WatchedUCBVI(*size, bonus=kind, episodes=limit, **options)
    return learner.watch(case, style not in honest and kind != "hoeffding")


# -- what must have been decided ---------------------------------------------------------------------------------------


def mixture(returns, guesses, highest, delta):
    """The bound of `certificates.martingale` on the sum of mean returns, by its definition and bisection."""
    returns, guesses, j = np.array(returns), np.array(guesses), np.arange(14)
    weight, lambda_ = 1 / (j + 2), 0.9 / highest * 0.5**j
    wealth = np.log1p(np.outer(lambda_, returns - guesses)).sum(axis=1) + np.log(weight / weight.sum())

    def excess(total):
        return np.logaddexp.reduce(wealth - lambda_ * total) + np.log(delta)

    low, high = -guesses.sum() - 1.0, returns.sum() + 1.0
    if excess(low) <= 0:
        return 0.0  # no return is negative
    for _ in range(200):
        low, high = ((low + high) / 2, high) if excess((low + high) / 2) > 0 else (low, (low + high) / 2)
    return max(0.0, guesses.sum() + low)


class Definition:
    """The margin of Eq. `conservative_cond_fh` proved by a list of episodes and bounds, computed anew each time.

    An explored episode counts with the bound that it was played with or, if the past is reevaluated, with the best
    bound given since that policy was first explored from that start. V_b(s) counts n_b(s) - (1 - α) n(s) times. If
    returns are pooled, all episodes up to the one at which that was best may instead count with what they earned.
    """

    def __init__(self, case, alpha, is_known, reevaluate, pooled=None):
        self.pooled = pooled  # its share of δ
        self.returns, self.guesses, self.guess, self.recent, self.highest = [], [], None, {}, None
        self.at_once, self.covered = 0.0, 0  # the best bound from returns, and the number of episodes in it
        self.bounds_from_returns = []
        self.case, self.alpha, self.reevaluate = case, alpha, reevaluate
        S = case.space.n_states
        self.low = case.values.copy() if is_known else np.zeros(S)
        self.high = case.values.copy() if is_known else np.full(S, np.inf)
        self.is_known = is_known
        self.episodes = []  # (start, key of the policy explored or None, bound it was played with)
        self.best = {}  # (key, start) -> bound

    def margin(self, *more):
        episodes = self.episodes + list(more)
        n, n_b = (Counter(s for s, key, _ in episodes if key is None or every) for every in (True, False))
        total = 0.0
        for s in n:
            times = n_b[s] - (1 - self.alpha) * n[s]
            total += times * (self.low[s] if times >= 0 else self.high[s])
        explored = self._proved(0)
        if self.pooled is not None:
            explored = max(explored, self.at_once + self._proved(self.covered))
        return total + explored + sum(bound for _, key, bound in more if key is not None)

    def _proved(self, first):
        """What the bounds prove of the episodes explored from number `first` on."""
        played = [(s, key, bound) for s, key, bound in self.episodes[first:] if key is not None]
        return sum(self.best[key, s] if self.reevaluate else bound for s, key, bound in played)

    def earned(self, total):
        """The last episode is over."""
        s, key, _ = self.episodes[-1]
        if self.pooled is None or key is None:
            return
        self.returns.append(total)
        self.guesses.append(self.guess)
        self.recent[s] = self.recent.get(s, self.guess)
        self.recent[s] += 0.2 * (total - self.recent[s])
        lower = mixture(self.returns, self.guesses, self.highest, self.pooled)
        self.bounds_from_returns.append(lower)
        if lower > self.at_once + self._proved(self.covered):
            self.at_once, self.covered = lower, len(self.episodes)

    def bound_now(self, key, s, bound):
        """What the policy is taken to earn from s in the next episode."""
        if not self.reevaluate or (key, s) not in self.best:
            return bound
        self.best[key, s] = max(self.best[key, s], bound)
        return self.best[key, s]

    def review(self, policies, bounds):
        for policy, row in zip(policies, bounds, strict=True):
            for key, s in self.best:
                if key == self.case.key(policy):
                    self.best[key, s] = max(self.best[key, s], float(row[s]))

    def explored(self, key, s, bound):
        self.best[key, s] = max(bound, self.best.get((key, s), 0.0))
        self.episodes.append((s, key, bound))
        if self.highest is None:
            most = self.case.horizon * self.case.space.r_max
            seen = max(self.high[y] for y, _, _ in self.episodes)
            self.highest = float(np.clip(seen, 1e-3 * most, most))
        self.guess = min(self.recent.get(s, float(self.high[s])), self.highest)

    def conserved(self, s):
        self.episodes.append((s, None, 0.0))

    def spot_check(self, s):
        """Whether a baseline that is said to be known was played too rarely from s."""
        from_here = [key is None for start, key, _ in self.episodes if start == s]
        return self.is_known and sum(from_here) < np.sqrt(len(from_here)) - 30


def check_decisions(case, agent, run, log, steady=True):
    """What is wrong with the decisions of a run, given all that its learner said; one sentence for each fault.

    If the learner is not `steady`, so that bounds differ when it is asked again, a budget may be less than what the
    best of them prove, and an episode that they would allow to explore may be refused.
    """
    share = None if agent.pooling is None else agent.pooling.delta
    slow, faults = Definition(case, agent.alpha, agent.baseline.is_known, agent.reevaluate, share), []
    log, size, least = list(log), max(1.0, float(case.values.max())), max(ROUNDING, 1e-13 * len(run.starts))
    before = (0, 0)
    for k, (s, decision) in enumerate(zip(run.starts.tolist(), run.decisions, strict=True)):
        where = f"episode {k}"
        (_, policy), said = log.pop(0), []
        while log and log[0][0] != "propose":
            said.append(log.pop(0))
        if not slow.is_known:
            (one, low), (other, high) = [(side, answer) for side, _, answer in said[:2]]
            if (one, other) != ("pessimistic", "optimistic") or any(asked != [case.policy] for _, asked, _ in said[:2]):
                faults.append(f"{where}: the baseline was not bounded from both sides")
            slow.low, slow.high, said = np.maximum(slow.low, low[0]), np.minimum(slow.high, high[0]), said[2:]
        explores = False
        key = case.key(policy)
        if key == case.key(case.policy):
            if said:
                faults.append(f"{where}: the baseline was proposed and yet bounded")
        else:
            (side, asked, answer), reviews = said[0], said[1:]
            if side != "pessimistic" or [case.key(p) for p in asked] != [key]:
                faults.append(f"{where}: what was proposed was not bounded from below")
            bound = slow.bound_now(key, s, float(answer[0, s]))
            after = slow.margin((s, key, bound))
            n_explored = sum(key is not None for _, key, _ in slow.episodes)
            now = (len(slow.episodes), n_explored)
            due = (
                now[0] > (1 + 5 * agent.effort.patience) * before[0] or now[1] > (1 + agent.effort.patience) * before[1]
            )
            due = due and agent.reevaluate and n_explored > 0 and after < 0
            if steady and due != bool(reviews) and abs(after) > least * size:
                faults.append(f"{where}: {'no ' if due else 'a '}review with {after:.3g} at stake")
            for side, asked, answer in reviews:
                before = now
                if side != "pessimistic" or {case.key(p) for p in asked} != {q for q, _ in slow.best}:
                    faults.append(f"{where}: a review of other policies than those explored")
                slow.review(asked, answer)
                bound = slow.bound_now(key, s, bound)
                after = slow.margin((s, key, bound))
            explores = decision.role == "optimistic" if abs(after) <= least * size else after >= 0
            explores = explores and not slow.spot_check(s)
        margin = slow.margin()
        off, slack = decision.budget - margin, TOLERANCE * size * (1 + abs(margin))
        if not -slack <= off <= slack and (steady or not off <= slack):
            faults.append(f"{where}: the budget is {decision.budget:.9g}, by its definition it is {margin:.9g}")
        if abs(sum(decision.terms.values()) - decision.budget) > TOLERANCE * size:
            faults.append(f"{where}: the terms do not add up to the budget")
        if (decision.role == "optimistic") != explores and (steady or not explores):
            faults.append(f"{where}: {decision.role} though {margin:.9g} are proved")
        played = policy if decision.role == "optimistic" else case.policy
        if case.key(run.policies[decision.policy]) != case.key(played):
            faults.append(f"{where}: another policy was played")
        if (decision.t, decision.length) != (k * case.horizon, case.horizon):
            faults.append(f"{where}: step {decision.t}, length {decision.length}")
        if decision.role == "optimistic":
            slow.explored(key, s, bound)
        else:
            slow.conserved(s)
        slow.earned(float(run.rewards[k].sum()))
    if agent.pooling is not None:
        values = np.array([case.of(run.policies[d.policy])[s] for d, s in zip(run.decisions, run.starts, strict=True)])
        exact = np.cumsum(values[run.explored])
        agent.missed = bool(np.any(np.array(slow.bounds_from_returns) > exact + TOLERANCE * size * (1 + exact)))
    return faults


# -- the campaign -----------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What a campaign has seen."""

    problems: int = 0
    runs: int = 0
    episodes: int = 0
    explored: int = 0
    explored_unknown: int = 0  # with a baseline that was not known
    excess: float = -np.inf  # the largest budget - exact margin
    least: float = np.inf  # the smallest exact margin
    event_failed: int = 0
    pooled: int = 0  # runs with a bound from all returns
    missed: int = 0  # those in which it was above the truth at some time
    violations: list = field(default_factory=list)

    def line(self):
        return (
            f"{self.problems} problems, {self.runs} runs, {self.episodes} episodes, {self.explored} explored "
            f"({self.explored_unknown} with an unknown baseline), "
            f"largest certificate - exact margin {self.excess:.3g}, smallest margin {self.least:.3g}, "
            f"true MDP missed by an honest set in {self.event_failed} runs, "
            f"the bound from all returns wrong in {self.missed} of {self.pooled} runs, "
            f"{len(self.violations)} violations"
        )


def an_agent(rng, case, kind, style, is_known, episodes, **settings):
    """CUCB-VI with settings at random, over a learner that is watched."""
    settings = {
        "alpha": float(rng.choice([0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])),
        "learn_from": "optimistic" if is_known and rng.random() < 0.3 else "all",
        "reevaluate": bool(rng.random() < 0.7),
        "patience": float(rng.choice([0.0, 0.0, 0.1, 1.0])),
        "seed": int(rng.integers(2**31)),
    } | settings
    learner = a_learner(rng, case, kind, style, episodes)
    if settings.pop("share", None) is not None:
        settings |= {"pooled": True, "delta": learner.delta + SHARE}
    settings |= {"allowance": settings.get("allowance", spare(case, is_known))}
    return CUCBVI(case.space, case.horizon, baseline=case.baseline(is_known), learner=learner, **settings)


def play(case, agent, starts, seed):
    """The run of an agent, and what the package's own oracle says of it."""
    if case.mdp.stages > 1:
        run = simulate_episodes(case.mdp, agent, starts, seed)
        return run, oracle.evaluate_episodes(run, case.mdp, case.policy, agent.alpha)
    problem = Problem("case", case.mdp, case.policy, 0, case.horizon)
    run = simulate(problem, agent, episodes=len(starts), starts=starts, seed=seed)
    return run, oracle.evaluate(run, problem, agent.alpha)


def check_run(case, agent, starts, seed, tally, label):
    """Run one agent and compare everything it claimed with the truth."""
    run, evaluation = play(case, agent, starts, seed)
    learner, K = agent.learner, len(starts)
    tally.runs += 1
    faults = check_decisions(case, agent, run, learner.log, not isinstance(learner, Moody))
    faults = learner.wrong[:1] + faults[:1]  # others follow from the first
    tally.violations += [f"{label}: {fault}" for fault in faults]
    earned = np.array([case.of(run.policies[d.policy])[s] for d, s in zip(run.decisions, starts, strict=True)])
    margin = np.cumsum(earned - (1 - agent.alpha) * case.values[starts])
    if not np.allclose(margin, evaluation.margin, rtol=0, atol=TOLERANCE):
        tally.violations.append(f"{label}: the oracle is off by {np.abs(margin - evaluation.margin).max():.3g}")
    tally.pooled += agent.pooling is not None
    tally.missed += agent.pooling is not None and agent.missed
    if not learner.held or (agent.pooling is not None and agent.missed):
        tally.event_failed += not learner.held
        return run
    explored = sum(decision.role == "optimistic" for decision in run.decisions)
    tally.episodes, tally.explored = tally.episodes + K, tally.explored + explored
    tally.explored_unknown += 0 if agent.baseline.is_known else explored
    tally.least = min(tally.least, float(margin.min()))
    if margin.min() < -TOLERANCE:
        tally.violations.append(f"{label}: margin {margin.min():.3g} after episode {1 + int(np.argmin(margin))}")
    excess = np.array([decision.budget for decision in run.decisions]) - np.r_[0.0, margin[:-1]]
    tally.excess = max(tally.excess, float(excess.max()))
    if excess.max() > TOLERANCE:
        tally.violations.append(f"{label}: budget above the exact margin by {excess.max():.3g} at {np.argmax(excess)}")
    return run


def run_campaign(n, seed, episodes=60, per_problem=2, learners=LEARNERS, **settings):
    """`n` random problems with `per_problem` agents each, their learners in turn; what was seen."""
    tally = Tally()
    for i in range(n):
        rng = np.random.default_rng([seed, i])
        case = a_case(rng, KINDS[i % len(KINDS)])
        tally.problems += 1
        for j in range(per_problem):
            kind = learners[(i * per_problem + j + i // len(learners)) % len(learners)]
            style = str(rng.choice([*STYLES, "exact", "worst", "likelihood", "bernstein"]))
            is_known = bool(rng.random() < 0.6)
            length = int(rng.integers(episodes // 2, episodes + 1))
            agent = an_agent(rng, case, kind, style, is_known, length, **settings)
            how = f"alpha={agent.alpha}, reevaluate={agent.reevaluate}, patience={agent.effort.patience}"
            label = f"seed {seed}, problem {i} ({case.name}), {kind}, {style}, known={is_known}, {how}"
            starts = some_starts(rng, case, length)
            check_run(case, agent, starts, int(rng.integers(2**31)), tally, label)
    return tally


if __name__ == "__main__":
    n, seed = (int(x) for x in (sys.argv[1:] + ["1000", "0"][len(sys.argv) - 1 :])[:2])
    result = run_campaign(n, seed, episodes=120, per_problem=3)
    again = run_campaign(n, seed + 1, episodes=120, per_problem=3, share=SHARE)
    result.violations += again.violations
    print(result.line())
    print(again.line())
    for violation in result.violations[:20]:
        print(violation)
    sys.exit(bool(result.violations))
