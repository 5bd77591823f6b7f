"""Nasty little problems, sets that surely hold the truth, and a campaign that looks for a broken promise.

Honest confidence sets hardly let an agent explore in a thousand steps, and a guarantee that is never used is never
tested. The sets made here know the true MDP and hold it by construction, so that exploration begins at once and the
proved margin is spent to the last drop. What is exact is computed here once more with dense matrices: nothing but the
tables comes from the package.

Run `python tests/adversarial.py 2000 7` for 2000 problems from seed 7; it prints one line.
"""

import sys
from dataclasses import dataclass, field

import numpy as np

from surefooted import solve
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.agents.ucrl2 import UCRL2, UCRL2Learner
from surefooted.errors import NoSingleGain
from surefooted.planning import Plan
from surefooted.problems.problem import Problem
from surefooted.sets.confidence import bernstein
from surefooted.sets.plausible import Plausible
from surefooted.simulation.playing import simulate
from surefooted.tables.baseline import Baseline
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise

TOLERANCE = 1e-9
LOOKAHEAD = 400  # steps of the baseline after a stop that are looked at


# -- problems ---------------------------------------------------------------------------------------------------------


def random_rows(rng, S, A, successors):
    p = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            where = rng.choice(S, size=min(successors, S), replace=False)
            p[s, a, where] = rng.dirichlet(np.ones(where.size))
    return p


def garnet(rng):
    S, A = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    return random_rows(rng, S, A, int(rng.integers(1, 4))), rng.random((S, A))


def cycle(rng):
    """Deterministic and periodic: forward, stay or back; one state pays."""
    S, A = int(rng.integers(2, 7)), int(rng.integers(2, 4))
    p, r = np.zeros((S, A, S)), np.where(rng.random((S, A)) < 0.3, rng.random((S, A)), 0.0)
    for a, step in enumerate((1, 0, -1)[:A]):
        p[np.arange(S), a, (np.arange(S) + step) % S] = 1.0
    r[int(rng.integers(S))] = 1.0
    return p, r


def trap(rng):
    """State 0 pays; any action but the first may lead to the end of a poor corridor, out of which the first crawls."""
    S, A = int(rng.integers(3, 7)), int(rng.integers(2, 4))
    p, r = np.zeros((S, A, S)), np.zeros((S, A))
    slow = float(rng.choice([0.0, 0.5, 0.9]))
    p[0, 0, 0], r[0, 0] = 1.0, float(rng.uniform(0.3, 1.0))
    for s in range(1, S):
        p[s, 0, s - 1], p[s, 0, s] = 1 - slow, slow
    leak = float(rng.choice([1.0, 0.3, 0.05]))
    for a in range(1, A):
        p[:, a, S - 1] += leak
        p[np.arange(S), a, np.arange(S)] += 1 - leak
        r[:, a] = rng.random(S) * float(rng.choice([0.0, 1.0]))
    return p, r


def near_absorbing(rng):
    p, r = garnet(rng)
    s = int(rng.integers(len(p)))
    stay = 1 - float(rng.choice([1e-1, 1e-2, 1e-3]))
    p[s] *= 1 - stay
    p[s, :, s] += stay
    r[s] = float(rng.integers(0, 2))
    return p, r


def unreachable(rng):
    """The last state is never entered; the run may begin there."""
    p, r = garnet(rng)
    p[:, :, :-1] += p[:, :, -1:] / (len(p) - 1)
    p[:, :, -1] = 0.0
    return p / p.sum(axis=2, keepdims=True), r


def dull(rng):
    """Every action earns nearly the same and the states do not matter: the baseline has next to no span."""
    p, r = garnet(rng)
    return p, 0.5 + 0.5 * float(rng.choice([0.0, 1e-3, 0.2])) * (r - 0.5)


def ring(rng):
    """The first action goes round and is paid once a round, the others start the round anew: phases matter."""
    S, A = int(rng.integers(3, 7)), int(rng.integers(2, 4))
    p, r = np.zeros((S, A, S)), np.zeros((S, A))
    p[np.arange(S), 0, (np.arange(S) + 1) % S], r[-1, 0] = 1.0, 1.0
    p[:, 1:, 0] = 1.0
    return p, r


KINDS = (garnet, cycle, trap, near_absorbing, unreachable, dull, ring)
BASELINES = ("first", "random", "randomised", "optimal", "worst")


def spare(problem):
    """An allowance that buys nothing, for a baseline that earns nothing: a share of nothing is refused without one."""
    return 0.0 if known(problem).gain > 0 else 1e-12


def a_baseline(rng, mdp, kind):
    space = mdp.space
    if kind == "optimal":
        return solve.optimal_gain(mdp).policy
    if kind == "randomised":
        weights = rng.random((space.n_states, space.n_actions)) + 1e-3
        weights[rng.random(weights.shape) < 0.3] = 0.0
        weights[weights.sum(axis=1) == 0] = 1.0
        return Policy.randomised(space, weights / weights.sum(axis=1, keepdims=True))
    if kind == "worst":  # of gain near 0, often
        turned = TabularMDP.from_arrays(dense(mdp)[0], mdp.space.high - dense(mdp)[1], r_max=mdp.space.r_max)
        return Policy(space, pair=solve.optimal_gain(turned).policy.pair)
    actions = rng.integers(0, space.n_actions, space.n_states) if kind == "random" else np.zeros(space.n_states, int)
    return Policy.deterministic(space, actions)


def a_problem(rng, kind=None, baseline=None):
    """A problem whose baseline has one gain; `kind` and `baseline` name one of the above."""
    make = KINDS[int(rng.integers(len(KINDS)))] if kind is None else kind
    which = str(rng.choice(BASELINES)) if baseline is None else baseline
    noise = [Noise("bernoulli"), Noise(), Noise("uniform", 0.3)][int(rng.integers(3))]
    r_max = float(rng.choice([1.0, 1.0, 0.5, 3.0]))
    while True:
        p, r = make(rng)
        mdp = TabularMDP.from_arrays(p, r * r_max, noise=noise, r_max=r_max)
        try:
            policy = a_baseline(rng, mdp, which)
            _ = solve.gain_and_bias(mdp, policy).gain
        except NoSingleGain:
            which = str(rng.choice(BASELINES)) if baseline is None else baseline
            continue
        start = len(p) - 1 if make is unreachable and rng.random() < 0.5 else int(rng.integers(len(p)))
        return Problem(f"{make.__name__}, {which} baseline", mdp, policy, start)


def dense(mdp):
    """p [S, A, S] and r [S, A] of a table in which every state has every action."""
    S, A = mdp.space.n_states, mdp.space.n_actions
    p = np.zeros((S * A, S))
    p[np.repeat(np.arange(S * A), np.diff(mdp.next_ptr)), mdp.next_state] = mdp.p
    return p.reshape(S, A, S), mdp.r.reshape(S, A)


def known(problem):
    """The baseline with its gain and bias."""
    answer = solve.gain_and_bias(problem.mdp, problem.baseline)
    return Baseline(problem.baseline, float(np.clip(answer.gain, 0, problem.space.r_max)), answer.bias)


# -- sets that hold the truth -----------------------------------------------------------------------------------------

STYLES = ("exact", "worst", "edge", "box", "ball", "breathing", "blank")


class Knowing:
    """A confidence function that knows the truth and shrinks around it; it checks that it holds it every time.

    exact: the truth alone. worst: the truth is the worst of the set. edge: one-sided at random. box, ball: intervals
    and L1 balls, not centred. breathing: boxes that grow again at times. blank: boxes, but anything for what was never
    tried.
    """

    def __init__(self, mdp, style, scale, seed):
        self.mdp, self.style, self.scale, self.seed = mdp, style, scale, seed
        rng = np.random.default_rng(seed)
        self.side = rng.integers(0, 2, (2, mdp.space.n_pairs))
        self.towards = rng.dirichlet(np.ones(mdp.n_states), mdp.space.n_pairs)
        self.asked = self.held = 0

    def __call__(self, counts, delta):
        plausible = self.build(counts)
        self.asked += 1
        assert not plausible.excludes(self.mdp)
        return plausible

    def build(self, counts):
        mdp, space, n = self.mdp, self.mdp.space, counts.visits
        if self.style == "exact":
            return Plausible.exactly(mdp)
        width = self.scale / np.sqrt(1.0 + n) if self.style == "worst" else self.scale / (1.0 + n)
        if self.style == "breathing":
            width *= np.random.default_rng([self.seed, counts.total]).random(space.n_pairs) ** 2
        down, up = self.side if self.style in ("edge", "ball") else np.ones((2, space.n_pairs))
        if self.style == "worst":
            down = np.zeros(space.n_pairs)
        r_lower = np.maximum(mdp.r_counted - width * down * space.r_max, 0.0)
        r_upper = np.minimum(mdp.r_counted + width * up * space.r_max, space.r_max)
        pair = np.repeat(np.arange(space.n_pairs), np.diff(mdp.next_ptr))
        unseen = np.zeros(space.n_pairs)
        if self.style == "worst":
            return Plausible(space, r_lower, r_upper, mdp.next_ptr, mdp.next_state, mdp.p, mdp.p, unseen)
        if self.style == "ball":
            return self.balls(r_lower, r_upper, np.minimum(width, 2.0))
        lower, upper = np.maximum(mdp.p - width[pair] * down[pair], 0), np.minimum(mdp.p + width[pair], 1)
        unseen = np.minimum(width * down, 1.0)
        next_ptr, next_state = mdp.next_ptr, mdp.next_state
        if self.style == "blank":
            new = n == 0
            r_lower, r_upper = np.where(new, 0.0, r_lower), np.where(new, space.r_max, r_upper)
            unseen[new] = 1.0
            keep = ~new[pair]
            next_ptr = np.concatenate(([0], np.cumsum(np.where(new, 0, np.diff(next_ptr)))))
            next_state, lower, upper = next_state[keep], lower[keep], upper[keep]
        return Plausible(space, r_lower, r_upper, next_ptr, next_state, lower, upper, unseen)

    def balls(self, r_lower, r_upper, width):
        """Balls around a centre that is up to half the radius away from the truth."""
        space, S = self.mdp.space, self.mdp.n_states
        share = (width / 4)[:, None]
        truth = np.zeros((space.n_pairs, S))
        truth[np.repeat(np.arange(space.n_pairs), np.diff(self.mdp.next_ptr)), self.mdp.next_state] = self.mdp.p
        centre = (1 - share) * truth + share * self.towards
        ptr, state = np.arange(space.n_pairs + 1) * S, np.tile(np.arange(S), space.n_pairs)
        ones = np.ones(centre.size)
        return Plausible(space, r_lower, r_upper, ptr, state, centre.ravel(), ones, np.ones(space.n_pairs), width)


class Honest:
    """The default set, which notes whether it has always held the truth."""

    def __init__(self, mdp):
        self.mdp, self.asked, self.held = mdp, 0, True

    def __call__(self, counts, delta):
        plausible = bernstein(counts, delta)
        self.asked += 1
        self.held = self.held and plausible.contains(self.mdp)
        return plausible


# -- learners that mean harm ------------------------------------------------------------------------------------------


class Mischief(UCRL2Learner):
    """Proposes whatever is worst for the certificate: random policies, the worst one, the baseline itself."""

    def __init__(self, problem, confidence, seed):
        super().__init__(problem.space, confidence=confidence)
        self.rng, self.problem = np.random.default_rng(seed), problem
        self.worst = a_baseline(self.rng, problem.mdp, "worst")
        self.favourite = a_baseline(self.rng, problem.mdp, "random")

    def propose(self, plausible, t):
        choice = self.rng.integers(6)
        if choice == 0:
            return super().propose(plausible, t)
        kinds = {1: "random", 2: "randomised"}
        other = {3: self.worst, 4: self.favourite, 5: self.problem.baseline}
        policy = a_baseline(self.rng, self.problem.mdp, kinds[choice]) if choice in kinds else other[choice]
        return Plan(policy, 0.0, 1.0, np.zeros(self.problem.space.n_states), 1, True)


# -- what is true -----------------------------------------------------------------------------------------------------


def chain_of(mdp, policy):
    """P [S, S] and r [S] of a stationary policy."""
    p, r = dense(mdp)
    weights = policy.probabilities
    return np.einsum("sa,say->sy", weights, p), np.einsum("sa,sa->s", weights, r)


def rewards_of(P, r, steps):
    """What 0, 1, .., `steps` steps of a chain earn from each state, [steps + 1, S]."""
    values = np.zeros((steps + 1, len(r)))
    for n in range(steps):
        values[n + 1] = r + P @ values[n]
    return values


@dataclass
class Truth:
    """The exact margins of a sequence of policies: [t + 1], from before the first step; states [t + 1, S]."""

    problem: Problem
    alpha: float
    sequence: list
    lookahead: int = LOOKAHEAD
    margin: np.ndarray = field(init=False)
    states: np.ndarray = field(init=False)

    def __post_init__(self):
        mdp, steps = self.problem.mdp, sum(n for _, n in self.sequence)
        self.P_b, self.r_b = chain_of(mdp, self.problem.baseline)
        self.from_state = rewards_of(self.P_b, self.r_b, self.lookahead)
        most = 2 * steps + self.lookahead + 1
        self.baseline = rewards_of(self.P_b, self.r_b, most)[:, self.problem.start]
        d = np.zeros(mdp.n_states)
        d[self.problem.start] = 1.0
        self.states, earned = np.empty((steps + 1, d.size)), np.zeros(steps + 1)
        self.states[0], t = d, 0
        for policy, length in self.sequence:
            P, r = chain_of(mdp, policy)
            for _ in range(length):
                earned[t + 1], d = earned[t] + d @ r, d @ P
                t += 1
                self.states[t] = d
        self.margin = earned - (1 - self.alpha) * self.baseline[: steps + 1]

    def worst_from(self, t, margin, d):
        """The smallest margin over 0, 1, .. steps of the baseline from states d after t steps."""
        required = (1 - self.alpha) * (self.baseline[t : t + self.lookahead + 1] - self.baseline[t])
        return margin + float(np.min(self.from_state @ d - required[: self.lookahead + 1]))

    def after(self, t):
        """The smallest margin from step t on, if the baseline is played from then on."""
        return self.worst_from(t, self.margin[t], self.states[t])

    def during(self, t, policy, length, strict):
        """The smallest margin if a policy is stopped after any of 1 .. length steps and the baseline follows."""
        P, r = chain_of(self.problem.mdp, policy)
        d, margin, least = self.states[t], self.margin[t], np.inf
        for m in range(1, length + 1):
            margin += d @ r - (1 - self.alpha) * (self.baseline[t + m] - self.baseline[t + m - 1])
            d = d @ P
            if m <= 30 or m % 7 == 0 or m == length:
                least = min(least, self.worst_from(t + m, margin, d) if strict else margin)
        return least


# -- the campaign -----------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What a campaign has seen."""

    problems: int = 0
    runs: int = 0
    steps: int = 0
    explored: int = 0
    excess: float = -np.inf  # the largest budget offered - exact margin
    least: float = np.inf  # the smallest exact margin
    event_failed: int = 0
    violations: list = field(default_factory=list)

    def line(self):
        return (
            f"{self.problems} problems, {self.runs} runs, {self.steps} steps, {self.explored} explored, "
            f"largest certificate - exact margin {self.excess:.3g}, smallest margin {self.least:.3g}, "
            f"true MDP missed by an honest set in {self.event_failed} runs, {len(self.violations)} violations"
        )


CONFIGS = (
    ("induction", True),
    ("segments", True),
    ("induction", False),
    ("segments", False),
    ("reevaluated", True),
    ("paper", True),
    ("reevaluated", False),
    ("paper", False),
)


def an_agent(rng, problem, certificate, is_known, strict=True, style=None, steps=300):
    """An agent with settings at random, and the set that it uses."""
    alpha = float(rng.choice([0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9]))
    spans = certificate in ("paper", "reevaluated")  # one span for every episode: let the episodes be few
    style = (
        str(rng.choice(["exact", "worst", "breathing"] if spans else [*STYLES, "exact", "worst", "honest"]))
        if not style
        else style
    )
    scale = float(rng.choice([0.3, 0.05, 0.01]))
    confidence = (
        Honest(problem.mdp) if style == "honest" else Knowing(problem.mdp, style, scale, int(rng.integers(2**31)))
    )
    seed = int(rng.integers(2**31))
    alpha = max(alpha, 0.5) if spans else alpha
    learner = Mischief(problem, confidence, seed) if rng.random() < 0.7 else UCRL2(problem.space, confidence=confidence)
    agent = CUCRL2(
        problem.space,
        baseline=known(problem) if is_known else Baseline(problem.baseline),
        alpha=alpha,
        allowance=spare(problem) if is_known else 0.0,
        learner=learner,
        certificate=certificate,
        strict=strict,
        affordable=bool(rng.random() < 0.8),
        minimum=int(rng.choice([1, 1, 4])),
        patience=float(rng.choice([1.0, 3.0] if spans else [0.0, 0.01, 0.1, 1.0])),
        seed=seed,
    )
    return agent, confidence


def check_run(problem, agent, confidence, steps, seed, tally, label):
    """Run one agent and compare everything it claimed with the truth."""
    run = simulate(problem, agent, steps, seed)
    tally.runs += 1
    if isinstance(confidence, Honest) and not confidence.held:
        tally.event_failed += 1
        return run
    alpha, strict = agent.alpha, agent.certificate.strict
    truth = Truth(problem, alpha, run.sequence)
    tally.steps += steps
    optimistic = np.zeros(steps + 1, dtype=bool)
    for segment in run.segments:
        if segment.role == "optimistic":
            optimistic[segment.first + 1 : segment.first + segment.length + 1] = True
    tally.explored += int(optimistic.sum())
    margins = truth.margin[1:] if strict else truth.margin[optimistic]
    tally.least = min(tally.least, float(margins.min(initial=np.inf)))
    if margins.min(initial=np.inf) < -TOLERANCE:
        tally.violations.append(f"{label}: margin {margins.min():.3g} at step {1 + int(np.argmin(margins))}")
    ends = [decision.t for decision in run.decisions[1:]] + [steps]
    for i, decision in enumerate(run.decisions):
        t, budget = decision.t, decision.budget
        if ends[i] - t > decision.length:
            tally.violations.append(f"{label}: decision {i} at {t}: {ends[i] - t} steps, {decision.length} offered")
        exact = truth.after(t) if strict else truth.margin[t]
        excess = budget - exact
        tally.excess = max(tally.excess, excess)
        if excess > TOLERANCE:
            tally.violations.append(f"{label}: decision {i} at {t}: budget {budget:.9g} > exact {exact:.9g}")
        if decision.role == "optimistic":
            policy, length = run.policies[decision.policy], min(decision.length, 200)
            least = truth.during(t, policy, length, strict)
            if least < -TOLERANCE:
                tally.violations.append(f"{label}: decision {i} at {t}: could have led to a margin of {least:.3g}")
    return run


def run_campaign(n, seed, steps=300, per_problem=2, strict=True, configs=CONFIGS):
    """`n` random problems, each with `per_problem` of the configurations in turn; what was seen."""
    tally = Tally()
    for i in range(n):
        rng = np.random.default_rng([seed, i])
        problem = a_problem(rng, KINDS[i % len(KINDS)])
        tally.problems += 1
        for j in range(per_problem):
            certificate, is_known = configs[(i * per_problem + j + i // len(configs)) % len(configs)]
            agent, confidence = an_agent(rng, problem, certificate, is_known, strict)
            style = getattr(confidence, "style", "honest")
            label = f"seed {seed}, problem {i} ({problem.name}), {certificate}, known={is_known}, {style}"
            check_run(problem, agent, confidence, steps, int(rng.integers(2**31)), tally, label)
    return tally


if __name__ == "__main__":
    n, seed = (int(x) for x in (sys.argv[1:] + ["1000", "0"][len(sys.argv) - 1 :])[:2])
    result = run_campaign(n, seed, steps=600, per_problem=3)
    print(result.line())
    for violation in result.violations[:20]:
        print(violation)
    sys.exit(bool(result.violations))
