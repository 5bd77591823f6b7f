"""Hostile runs under an account: what is proved of the decisions is compared with their exact worth at every step.

The bound may fail with probability δ. Here δ is large, so that failures are seen: their number is compared with what
was promised, and every run in which the bound holds must keep the condition. Gain, bias and advantages of the baseline
are computed here once more with dense matrices. An agent that does not know gain and bias is told their exact span, and
sometimes a log of the baseline; the balance that it proves is compared with the exact margin as well.

Run `python tests/adversarial_account.py 2000 7` for 2000 problems from seed 7; it prints one line.
"""

import sys
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import binom

import adversarial
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.agents.ucrl2 import UCRL2Learner
from surefooted.planning import Plan
from surefooted.problems.problem import Problem
from surefooted.sets.confidence import likelihood
from surefooted.tables.baseline import Baseline
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy
from surefooted.tables.reward_noise import Noise

TOLERANCE = 1e-9
FALSE_ALARM = 1e-6  # of the comparison of failures with their promised rate, for each δ
DELTAS = (0.5, 0.2, 0.05)


def waiting(rng):
    """Leaving some states takes very long: the bias has a huge span."""
    S, A = int(rng.integers(2, 6)), 2
    p, r = adversarial.random_rows(rng, S, A, S), rng.random((S, A)) * (rng.random((S, A)) < 0.7)
    for s in np.flatnonzero(rng.random(S) < 0.5):
        stay = 1 - 10.0 ** -rng.uniform(1, 3)
        p[s] = stay * np.eye(S)[s] + (1 - stay) * p[s]
    return p, r


def lottery(rng):
    """The baseline is sure of a middling reward; the other action wins or loses everything, with a small edge."""
    edge = float(rng.choice([-0.2, -0.05, 0.0, 0.05]))
    p = np.zeros((2, 2, 2))
    p[:, 0], p[:, 1] = [0.5, 0.5], [1.0, 0.0]
    return p, np.array([[0.5, 0.5 + edge], [0.5, 0.5 + edge]])


def cliff(rng):
    """Exploring pays well for a while and ends in a state that pays nothing for long."""
    p, r = np.zeros((3, 2, 3)), np.array([[0.5, 1.0], [0.0, 0.0], [1.0, 1.0]])
    fall, climb = float(rng.choice([0.02, 0.1, 0.3])), float(rng.choice([0.01, 0.1, 0.5]))
    p[0, 0], p[0, 1] = [1 - fall / 10, 0, fall / 10], [1 - fall, fall, 0]
    p[1, :] = [climb, 1 - climb, 0]
    p[2, :] = [1, 0, 0]
    return p, r


def tosses(rng):
    """The baseline tosses a coin between actions that always earn the same: all luck is in what it draws."""
    S = int(rng.integers(1, 4))
    return np.full((S, 2, S), 1 / S), np.tile([0.0, 1.0], (S, 1))


KINDS = (*adversarial.KINDS, tosses, waiting, lottery, cliff)
LONG = {"tosses": 4_000}  # steps of a log at most


class Harm(UCRL2Learner):
    """Proposes random and harmful actions, the baseline, and sometimes what is best."""

    def __init__(self, problem, seed):
        super().__init__(problem.space, confidence=likelihood)
        self.rng, self.problem = np.random.default_rng(seed), problem
        self.worst = adversarial.a_baseline(self.rng, problem.mdp, "worst")
        self.best = adversarial.a_baseline(self.rng, problem.mdp, "optimal")

    def propose(self, plausible, t):
        choice = self.rng.integers(5)
        if choice == 0:
            return super().propose(plausible, t)
        policy = {1: self.worst, 2: self.best}.get(int(choice))
        if policy is None:
            policy = adversarial.a_baseline(self.rng, self.problem.mdp, "random")
        return Plan(policy, 0.0, 1.0, np.zeros(self.problem.space.n_states), 1, True)


def exactly(problem):
    """Gain, bias and the advantage of every pair [S, A], by dense linear algebra."""
    p, r = adversarial.dense(problem.mdp)
    weights = problem.baseline.probabilities
    P, reward = np.einsum("sa,sat->st", weights, p), (weights * r).sum(axis=1)
    S = len(P)
    limit = (np.eye(S) + P) / 2  # averages over periods, too
    for _ in range(40):  # rows are made to sum to 1 again, since rounding doubles with every square
        limit = limit @ limit
        limit /= limit.sum(axis=1, keepdims=True)
    gain = float(limit[problem.start] @ reward)
    bias = np.linalg.lstsq(np.vstack([np.eye(S) - P, limit]), np.r_[reward - gain, np.zeros(S)], rcond=None)[0]
    return gain, bias, r + p @ bias - bias[:, None] - gain


@dataclass
class Tally:
    """What a campaign has seen."""

    problems: int = 0
    runs: int = 0
    steps: int = 0
    departed: int = 0
    least: float = np.inf  # the smallest margin of a run in which the bound held
    excess: float = -np.inf  # the largest proved worth - exact worth of such a run
    promised: Counter = field(default_factory=Counter)  # runs for each δ
    failed: Counter = field(default_factory=Counter)  # of these, runs in which the bound failed
    violations: list = field(default_factory=list)
    deltas: tuple = DELTAS

    def line(self):
        rates = ", ".join(f"{self.failed[d]} of {self.promised[d]} at δ = {d}" for d in self.deltas)
        return (
            f"{self.problems} problems, {self.runs} runs, {self.steps} steps, {self.departed} departures, bound failed "
            f"in {rates}; elsewhere smallest margin {self.least:.3g}, {len(self.violations)} violations"
        )

    def judge(self):
        """Whether the bound failed no more often than promised."""
        for delta in self.deltas:
            if self.failed[delta] > binom.ppf(1 - FALSE_ALARM, max(self.promised[delta], 1), delta):
                self.violations.append(f"at δ = {delta} the bound failed in {self.failed[delta]} runs")


def check_run(problem, agent, alpha, allowance, delta, steps, seed, tally, label):
    """Play one agent step by step; compare what it has proved with the truth after each."""
    gain, bias, advantage = exactly(problem)
    certain = problem.baseline.probabilities >= 1
    world, s, exact, departed = np.random.default_rng(seed), problem.start, 0.0, 0
    agent.begin(s)
    reserve = bias.max() - (1 - alpha) * bias.min() - alpha * bias[s] if agent.account.strict else 0.0
    held, least, known = True, np.inf, agent.baseline.is_known
    excess = -np.inf
    for t in range(1, steps + 1):
        decision = agent.act(s)
        a = decision.action
        if decision.role == "optimistic" and not certain[s, a]:
            exact += advantage[s, a]
            departed += 1
        reward, s_next = problem.mdp.draw(world, problem.space.pair(s, a))
        agent.observe(s, a, float(reward), s_next)
        s = s_next
        excess = max(excess, agent.account.worth - exact)
        held &= agent.account.worth <= exact + TOLERANCE * max(1.0, t)
        margin = allowance + alpha * t * gain + exact
        if not known:
            low, high = agent.account.gain_bounds
            held &= low - TOLERANCE <= gain <= high + TOLERANCE
            held &= agent.account.balance <= margin - reserve + TOLERANCE * max(1.0, t)
        least = min(least, margin - (reserve if departed else 0.0))
    tally.runs += 1
    tally.promised[delta] += 1
    tally.failed[delta] += not held
    tally.steps += steps
    tally.departed += departed
    if held:
        tally.least, tally.excess = min(tally.least, least), max(tally.excess, excess)
        if least < -TOLERANCE * steps:
            tally.violations.append(f"{label}: margin {least:.3g} though the bound held")
    if tuple(segment.length for segment in agent.segments) and sum(x.length for x in agent.segments) != steps:
        tally.violations.append(f"{label}: the segments do not add up")


def an_agent(rng, problem, delta, known=True):
    """An agent with settings at random: its alpha and allowance too."""
    gain, bias, _ = exactly(problem)
    baseline = Baseline(problem.baseline, float(np.clip(gain, 0, problem.space.r_max)), bias)
    if not known:
        baseline = Baseline(problem.baseline, span=float(np.ptp(bias)))
    alpha, allowance = float(rng.choice([0.0, 0.01, 0.1, 0.5, 0.9])), 0.0
    if alpha == 0.0 or rng.random() < 0.4:
        allowance = float(rng.choice([0.5, 5.0, 50.0])) * problem.space.r_max
    allowance = allowance or adversarial.spare(problem)
    learner = Harm(problem, int(rng.integers(2**31)))
    choices = {"strict": bool(rng.random() < 0.5), "allowance": allowance, "seed": int(rng.integers(2**31))}
    agent = CUCRL2(
        problem.space,
        baseline=baseline,
        alpha=alpha,
        delta=delta,
        learner=learner,
        condition="decisions",
        patience=float(rng.choice([0.0, 0.1])),
        **choices,
    )
    if not known and rng.random() < 0.5:
        for _ in range(int(rng.integers(1, 4))):
            agent.account.read(*a_log(rng, problem, int(rng.integers(1, LONG.get(problem.name, 400)))))
    return agent, alpha, allowance


def a_log(rng, problem, steps):
    """Steps of the baseline one after the other, from any state: start, pairs, rewards, next states."""
    s = start = int(rng.integers(problem.space.n_states))
    rows = []
    for _ in range(steps):
        k = problem.baseline.pair_at(s, rng.random())
        reward, s = problem.mdp.draw(rng, k)
        rows.append((k, float(reward), s))
    pairs, rewards, next_states = zip(*rows, strict=True)
    return start, np.array(pairs), np.array(rewards), np.array(next_states)


def a_problem(rng, kind):
    """One of the families, with rewards that go to the bounds more often than not."""
    if kind in adversarial.KINDS:
        return adversarial.a_problem(rng, kind)
    p, r = kind(rng)
    if kind is tosses:
        mdp = TabularMDP.from_arrays(p, r)
        return Problem(kind.__name__, mdp, Policy.uniform(mdp.space), 0)
    noise = [Noise("bernoulli"), Noise("bernoulli"), Noise("uniform", 0.5)][int(rng.integers(3))]
    mdp = TabularMDP.from_arrays(p, r, noise=noise)
    return Problem(kind.__name__, mdp, Policy.always(mdp.space, 0), 0)


def run_campaign(n, seed, steps=250, per_problem=1, known=True):
    """`n` random problems; what was seen."""
    tally = Tally()
    for i in range(n):
        rng = np.random.default_rng([seed, i])
        problem = a_problem(rng, KINDS[i % len(KINDS)])
        tally.problems += 1
        for j in range(per_problem):
            delta = DELTAS[(i + j) % len(DELTAS)]
            agent, alpha, allowance = an_agent(rng, problem, delta, known)
            label = f"seed {seed}, problem {i} ({problem.name}), alpha {alpha}, allowance {allowance}, delta {delta}"
            check_run(problem, agent, alpha, allowance, delta, steps, int(rng.integers(2**31)), tally, label)
    tally.judge()
    return tally


if __name__ == "__main__":
    n, seed = (int(x) for x in (sys.argv[1:] + ["1000", "0"][len(sys.argv) - 1 :])[:2])
    failed = False
    for known in (True, False):
        result = run_campaign(n, seed, steps=400, per_problem=2, known=known)
        print(f"gain and bias {'known' if known else 'unknown'}: {result.line()}")
        for violation in result.violations[:20]:
            print(violation)
        failed |= bool(result.violations)
    sys.exit(failed)
