"""Hostile runs in money: negative rewards, wide ranges, tolerances, allowances, floors and checkpoints at random.

The problems, sets and learners are those of `adversarial`, with rewards moved to a range of their own. What may be lost
is the definition, with dense matrices: after t steps at least b_t - α max(b_t - t floor, 0) - t tolerance - allowance
must have been earned on average, at the dates alone if there are any. Over a finite horizon each episode has its own
share. Sets hold the truth by construction; bounds from outcomes may fail with probability `DELTA` in each run.

Run `python tests/adversarial_money.py 500 7` for 500 problems from seed 7; it prints one line.
"""

import sys
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

import adversarial
from surefooted import solve
from surefooted.agents.cucbvi import CUCBVI
from surefooted.agents.cucrl2 import CUCRL2
from surefooted.agents.ucbvi import UCBVILearner
from surefooted.errors import NoSingleGain
from surefooted.evaluation.margins import evaluate
from surefooted.problems.problem import Problem
from surefooted.simulation.playing import simulate
from surefooted.tables.baseline import Baseline
from surefooted.tables.mdp import TabularMDP
from surefooted.tables.policy import Policy

TOLERANCE = 1e-8
DELTA = 1e-6
AVERAGE = ("induction", "segments", "reevaluated", "paper", "decisions")
EPISODES = ("replay", "decisions")


def in_money(rng, problem, horizon=None):
    """The same problem with rewards in another range: the baseline may earn little, nothing, or lose."""
    scale, low = float(rng.choice([1.0, 40.0])), float(rng.choice([-300.0, -40.0, -1.0, -0.2, 0.0, 5.0]))
    below, above = float(rng.choice([0.0, 0.0, 2.0])) * scale, float(rng.choice([0.0, 0.0, 1.0])) * scale
    p, r = adversarial.dense(problem.mdp)
    r = low + scale * r / problem.mdp.r_max
    mdp = TabularMDP.from_arrays(p, r, noise=problem.mdp.noise, rewards=(low - below, low + scale + above), unit="€")
    baseline = Policy.randomised(mdp.space, problem.baseline.probabilities)
    return Problem(problem.name, mdp, baseline, problem.start, horizon=horizon)


def settings_of(rng, problem, level, per):
    """What may be lost, at random; `level` is what the baseline earns in `per` steps at least, somewhere at most."""
    width = problem.space.r_max
    given = {"alpha": float(rng.choice([0.0, 0.05, 0.3, 0.7]))}
    if given["alpha"] and (level <= 0 or rng.random() < 0.3):
        given["floor"] = level / per - width * float(rng.choice([0.01, 0.3, 1.0]))
    if not given["alpha"] or rng.random() < 0.3:
        given["tolerance"] = width * float(rng.choice([0.0, 0.01, 0.1]))
        given["allowance"] = width * float(rng.choice([1.0, 10.0]))
    if rng.random() < 0.6:
        given["checkpoints"] = int(rng.choice([1, 7, 40])) if rng.random() < 0.6 else [3, 20, 21, 90]
    return given


def kept_at(given, n):
    """The dates among 1 .. n at which the condition must hold, by the words of the arguments."""
    dates = given.get("checkpoints", 1)
    if isinstance(dates, int):
        return [t for t in range(1, n + 1) if t % dates == 0]
    return [t for t in range(1, n + 1) if t in dates or t > max(dates)]


def owed(given, earns, steps):
    """What must be earned at least, without the allowance, if the baseline earns `earns` in so many steps."""
    above = max(earns - given.get("floor", 0.0) * steps, 0.0)
    return earns - given["alpha"] * above - given.get("tolerance", 0.0) * steps


@dataclass
class Tally:
    """What a campaign has seen."""

    runs: Counter = field(default_factory=Counter)
    explored: Counter = field(default_factory=Counter)
    between: int = 0  # runs in which a margin was negative between two dates
    excess: float = -np.inf  # the largest budget minus the exact margin
    least: float = np.inf
    violations: list = field(default_factory=list)

    def line(self):
        each = ", ".join(f"{kind}: {self.explored[kind]} in {n} runs" for kind, n in sorted(self.runs.items()))
        return (
            f"explored {each}; {self.between} runs were below zero between dates; largest budget - exact margin "
            f"{self.excess:.3g}, smallest margin {self.least:.3g}, {len(self.violations)} violations"
        )

    def judge(self, kind, label, margin, given, size, found):
        """Compare the margins [n] with what was promised, and with what `evaluate` says."""
        dates = np.array(kept_at(given, len(margin)), dtype=int) - 1
        least = float(margin[dates].min(initial=np.inf))
        self.least, self.between = min(self.least, least), self.between + bool(margin.min() < -TOLERANCE * size)
        if least < -TOLERANCE * size:
            self.violations.append(f"{label}: {kind}: margin {least:.6g}")
        if found is None:
            return
        if np.abs(found.margin - margin).max() > 1e-7 * size or (found.violations > 0) != (least < -TOLERANCE * size):
            self.violations.append(
                f"{label}: {kind}: `evaluate` disagrees by {np.abs(found.margin - margin).max():.3g}"
            )


def play_average(rng, tally, label, kind, steps):
    problem = in_money(rng, adversarial.a_problem(rng))
    solved = solve.gain_and_bias(problem.mdp, problem.baseline)
    gain, is_known = solved.gain, kind == "decisions" or rng.random() < 0.6
    given = settings_of(rng, problem, gain, 1)
    spans = kind in ("paper", "reevaluated")
    style = str(rng.choice(["exact", "worst"] if spans else ["exact", "worst", "edge", "box", "blank"]))
    confidence = adversarial.Knowing(problem.mdp, style, 0.05, int(rng.integers(2**31)))
    learner = adversarial.Mischief(problem, confidence, int(rng.integers(2**31)))
    options = {"condition": kind, "delta": DELTA} if kind == "decisions" else {"certificate": kind}
    baseline = Baseline(problem.baseline, gain, solved.bias) if is_known else Baseline(problem.baseline)
    if kind == "decisions":
        learner.propose = deterministic(learner)
    options |= {"minimum": int(rng.choice([1, 4])), "patience": float(rng.choice([0.0, 0.1, 1.0]))}
    agent = CUCRL2(problem.space, baseline=baseline, learner=learner, **options, **given)
    run, size = simulate(problem, agent, steps, int(rng.integers(2**31))), steps * max(1.0, problem.space.r_max)
    try:
        found = evaluate(run, problem, **given)
    except NoSingleGain:  # of an optimal policy
        found = None
    tally.runs[kind] += 1
    tally.explored[kind] += run.steps - run.baseline_steps
    if kind == "decisions":
        margin = by_decisions(problem, run, given)
        tally.judge(kind, label, margin, given, size, found and found.decisions)
        return
    truth = adversarial.Truth(problem, 0.0, run.sequence)
    earned = truth.margin + truth.baseline[: steps + 1]
    margin = np.array([earned[t] - owed(given, truth.baseline[t], t) for t in range(steps + 1)])
    margin += given.get("allowance", 0.0)
    tally.judge(kind, label, margin[1:], given, size, found)
    if "checkpoints" not in given:
        linear = earned - truth.baseline[: steps + 1] + given.get("allowance", 0.0)
        t = np.arange(steps + 1)
        linear += given["alpha"] * (truth.baseline[: steps + 1] - given.get("floor", 0.0) * t)
        linear += given.get("tolerance", 0.0) * t
        excess = max(float(d.budget - linear[d.t]) for d in run.decisions if d.budget is not None)
        tally.excess = max(tally.excess, excess / size)
        if excess > TOLERANCE * size:
            tally.violations.append(f"{label}: {kind}: a budget is {excess:.6g} above the exact margin")


def deterministic(learner):
    """Its proposals, or the worst policy where they are randomised, which an account does not play."""
    propose = learner.propose

    def proposed(plausible, t):
        plan = propose(plausible, t)
        pairs = learner.worst.pair if not plan.policy.is_deterministic else plan.policy.pair
        return type(plan)(Policy(learner.space, pair=pairs), *(getattr(plan, x) for x in FIELDS))

    return proposed


FIELDS = ("lower", "upper", "bias", "sweeps", "converged")


def by_decisions(problem, run, given):
    """The margin of the condition on decisions after each step, [t], by dense linear algebra."""
    p, r = adversarial.dense(problem.mdp)
    weights = problem.baseline.probabilities
    P, reward = np.einsum("sa,sat->st", weights, p), (weights * r).sum(axis=1)
    S = len(P)
    limit = (np.eye(S) + P) / 2
    for _ in range(40):  # rows are made to sum to 1 again, since rounding doubles with every square
        limit = limit @ limit
        limit /= limit.sum(axis=1, keepdims=True)
    gain = float(limit[problem.start] @ reward)
    bias = np.linalg.lstsq(np.vstack([np.eye(S) - P, limit]), np.r_[reward - gain, np.zeros(S)], rcond=None)[0]
    worth = (r + p @ bias - bias[:, None] - gain).ravel()
    explored = np.repeat([s.role == "optimistic" for s in run.segments], [s.length for s in run.segments])
    departed = explored & (weights.ravel()[run.pairs] < 1)
    t = np.arange(1, run.steps + 1)
    share = given["alpha"] * max(gain - given.get("floor", 0.0), 0.0) + given.get("tolerance", 0.0)
    return given.get("allowance", 0.0) + t * share + np.cumsum(np.where(departed, worth[run.pairs], 0.0))


class Wicked(UCBVILearner):
    """Proposes random policies, the worst one, and sometimes its own."""

    def harm(self, problem, seed):
        self.rng, self.problem = np.random.default_rng(seed), problem
        self.worst = adversarial.a_baseline(self.rng, problem.mdp, "worst")
        return self

    def propose(self):
        choice = int(self.rng.integers(4))
        if choice == 0:
            return super().propose()
        return self.worst if choice == 1 else adversarial.a_baseline(self.rng, self.problem.mdp, "random")


def play_episodes(rng, tally, label, kind, episodes):
    H = int(rng.integers(1, 6))
    problem = in_money(rng, adversarial.a_problem(rng), horizon=H)
    values = solve.policy_values(problem.mdp, problem.baseline, H)
    is_known = kind == "decisions" or rng.random() < 0.6
    given = settings_of(rng, problem, float(values[0].max()), H)
    style = str(rng.choice(["exact", "worst", "edge", "box", "blank"]))
    confidence = adversarial.Knowing(problem.mdp, style, 0.05, int(rng.integers(2**31)))
    learner = Wicked(problem.space, H, confidence=confidence, delta=DELTA / 2)
    learner.harm(problem, int(rng.integers(2**31)))
    baseline = Baseline(problem.baseline, values=values if is_known else None)
    options = {"delta": DELTA} if kind == "decisions" or rng.random() < 0.6 else {}
    agent = CUCBVI(problem.space, H, baseline=baseline, learner=learner, condition=kind, **options, **given)
    starts = rng.integers(0, problem.space.n_states, episodes)
    run = simulate(problem, agent, episodes=episodes, starts=starts, seed=int(rng.integers(2**31)))
    found = evaluate(run, problem, **given)
    p, r = adversarial.dense(problem.mdp)
    first = {i: values_by_hand(p, r, policy.probabilities, H)[0] for i, policy in enumerate(run.policies)}
    base = values_by_hand(p, r, problem.baseline.probabilities, H)
    margin, margins = given.get("allowance", 0.0), []
    certain = problem.baseline.probabilities.ravel() >= 1
    for k in range(episodes):
        earned = first[int(run.played[k])][starts[k]] if kind == "replay" else base[0][starts[k]]
        for h in range(H if kind == "decisions" else 0):
            pair = int(run.pairs[k, h])
            s = pair // problem.space.n_actions
            if run.explored_steps[k, h] and not certain[pair]:
                earned += (r.ravel()[pair] + p.reshape(-1, len(p))[pair] @ base[h + 1]) - base[h][s]
        margin += earned - owed(given, base[0][starts[k]], H)
        margins.append(margin)
    kind, size = f"episodes, {kind}", episodes * H * max(1.0, problem.space.r_max)
    tally.runs[kind] += 1
    tally.explored[kind] += episodes * H - run.baseline_steps
    tally.judge(kind, label, np.array(margins), given, size, found.decisions if "decisions" in kind else found)


def values_by_hand(p, r, weights, H):
    """V_h of a stationary or staged policy, [H + 1, S]."""
    weights = np.broadcast_to(weights, (H, *r.shape))
    values = np.zeros((H + 1, len(p)))
    for h in reversed(range(H)):
        values[h] = (weights[h] * (r + p @ values[h + 1])).sum(axis=1)
    return values


def run_campaign(n, seed, steps=120, episodes=60):
    """`n` random problems, each with one kind of agent in turn; what was seen."""
    tally = Tally()
    for i in range(n):
        rng, label = np.random.default_rng([seed, i]), f"seed {seed}, problem {i}"
        kinds = (*AVERAGE, *EPISODES)
        if i % len(kinds) < len(AVERAGE):
            play_average(rng, tally, label, kinds[i % len(kinds)], steps)
        else:
            play_episodes(rng, tally, label, kinds[i % len(kinds)], episodes)
    return tally


if __name__ == "__main__":
    n, seed = (int(x) for x in (sys.argv[1:] + ["500", "0"][len(sys.argv) - 1 :])[:2])
    result = run_campaign(n, seed, steps=300, episodes=150)
    print(result.line())
    for violation in result.violations[:20]:
        print(violation)
    sys.exit(bool(result.violations))
